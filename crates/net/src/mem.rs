//! A net in memory, for tests, simulations and measurements without a kernel.
//!
//! It behaves as sockets do: a bounded buffer in each direction, so that a client that does not read is felt; clients
//! that end their sending side, go away, or cut the connection. The decisions are those of
//! [`Readiness`], the same that run over epoll; only the kernel is made up.
//!
//! Nothing here knows threads or time; all of it is `Send`, so that nets of several lanes may also run on several.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::kernel::{Accept, Carrier, Kernel, Signal, Transfer, Whose};
use crate::readiness::Readiness;
use crate::{Address, Bell, ConnId, Limits, ListenerId, Why};

/// What a direction holds unless it is said otherwise, bytes: near a loopback socket's beginnings.
pub const CAPACITY_DEFAULT: usize = 64 * 1024;

/// Clients that knock and are not let in yet, at most; one more is cut off at once, as with a full backlog.
pub const BACKLOG_COUNT_MAX: usize = 4096;

/// A [`Net`](crate::Net) in memory.
pub type Mem = Readiness<Memory>;

impl Mem {
    /// Without listeners.
    pub fn new(limits: Limits) -> Mem {
        Readiness::over(Memory::default(), limits)
    }

    /// A new listener, and the port through which clients reach it.
    pub fn listen(&mut self) -> (ListenerId, Port) {
        let listener = ListenerId(u32::try_from(self.kernel.ports.len()).expect("listeners are few"));
        let port = Arc::new(PortState { listener, clients: AtomicU32::new(0), backlog: Mutex::default() });
        self.kernel.ports.push(Arc::clone(&port));
        (listener, Port { state: port, inbox: Arc::clone(&self.kernel.inbox) })
    }

    /// Whether the bell was rung since this was last asked or a `wait` ended.
    pub fn was_rung(&self) -> bool {
        self.kernel.rung.swap(false, Ordering::Acquire)
    }

    /// Whether something lies in wait for the next `poll`, so that a simulator may let this lane sleep otherwise.
    pub fn has_signals(&self) -> bool {
        !lock(&self.kernel.inbox).is_empty()
    }
}

/// Takes `size` bytes off the front, in one piece or two.
fn move_front(queue: &mut VecDeque<u8>, size: usize, mut to: impl FnMut(&[u8])) {
    let (first, second) = queue.as_slices();
    let first_size = size.min(first.len());
    to(&first[..first_size]);
    to(&second[..size - first_size]);
    queue.drain(..size);
}

/// Where clients connect to a [`Mem`].
#[derive(Clone, Debug)]
pub struct Port {
    state: Arc<PortState>,
    inbox: Inbox,
}

impl Port {
    /// Knocks, with [`CAPACITY_DEFAULT`] in both directions. The client may write at once.
    pub fn connect(&self) -> Client {
        self.connect_with(CAPACITY_DEFAULT, CAPACITY_DEFAULT)
    }

    /// Knocks, with room for so many bytes to the server and to the client.
    pub fn connect_with(&self, to_server_size: usize, to_client_size: usize) -> Client {
        self.knock(Pipe::new(to_server_size, to_client_size))
    }

    /// Knocks over a made-up card, with [`CAPACITY_DEFAULT`] in both directions.
    pub fn connect_by(&self, way: Way) -> Client {
        self.knock(Pipe { way, ..Pipe::new(CAPACITY_DEFAULT, CAPACITY_DEFAULT) })
    }

    fn knock(&self, pipe: Pipe) -> Client {
        assert!(0 < pipe.to_server_size && 0 < pipe.to_client_size, "a connection carries something");
        let number = self.state.clients.fetch_add(1, Ordering::Relaxed);
        let pipe = Arc::new(Mutex::new(pipe));
        let mut backlog = lock(&self.state.backlog);
        if backlog.len() < BACKLOG_COUNT_MAX {
            backlog.push_back((Arc::clone(&pipe), number));
            if backlog.len() == 1 {
                lock(&self.inbox).push_back(Note::Knock(self.state.listener));
            }
        } else {
            lock(&pipe).cut = true;
        }
        Client { pipe, number }
    }
}

/// The way that a client's packets take to the server, as far as sockets tell of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// See [`Net::queue`](crate::Net::queue).
    pub queue: Option<u32>,
    /// See [`Net::cpu`](crate::Net::cpu).
    pub cpu: Option<u32>,
}

/// The client's end of a connection. Dropping it is a client that goes away: what it sent still arrives, what is
/// sent to it cuts the connection.
#[derive(Debug)]
pub struct Client {
    pipe: Arc<Mutex<Pipe>>,
    number: u32,
}

impl Client {
    /// This end's address.
    pub fn address(&self) -> Address {
        Address::Mem(self.number)
    }

    /// Sends what there is room for: how many bytes.
    pub fn write(&self, bytes: &[u8]) -> usize {
        let mut pipe = lock(&self.pipe);
        assert!(!pipe.client_ended, "a client that has ended sends nothing");
        if pipe.cut || pipe.server_gone {
            return 0;
        }
        let size = bytes.len().min(pipe.to_server_size.saturating_sub(pipe.to_server.len()));
        pipe.to_server.extend(&bytes[..size]);
        if size > 0 {
            pipe.readable = true;
            pipe.notify(&self.pipe);
        }
        size
    }

    /// Receives up to `size_max` bytes behind what `into` holds: how many.
    pub fn read(&self, into: &mut Vec<u8>, size_max: usize) -> usize {
        let mut pipe = lock(&self.pipe);
        let size = pipe.to_client.len().min(size_max);
        move_front(&mut pipe.to_client, size, |bytes| into.extend_from_slice(bytes));
        if size > 0 && pipe.wants_room {
            pipe.wants_room = false;
            pipe.writable = true;
            pipe.notify(&self.pipe);
        }
        size
    }

    /// Receives all that has arrived.
    pub fn read_all(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.read(&mut bytes, usize::MAX);
        bytes
    }

    /// Everything was read that the server ever sends.
    pub fn at_end(&self) -> bool {
        let pipe = lock(&self.pipe);
        pipe.cut || (pipe.server_ended && pipe.to_client.is_empty())
    }

    /// The connection was cut off: what was under way is lost.
    pub fn was_cut(&self) -> bool {
        lock(&self.pipe).cut
    }

    /// Shuts down the sending side. Receiving goes on.
    pub fn end(&self) {
        let mut pipe = lock(&self.pipe);
        pipe.client_ended = true;
        pipe.readable = true;
        pipe.notify(&self.pipe);
    }

    /// Cuts the connection, as a TCP reset does.
    pub fn cut(&self) {
        let mut pipe = lock(&self.pipe);
        pipe.cut = true;
        pipe.notify(&self.pipe);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut pipe = lock(&self.pipe);
        // A socket closed with unread input answers with a reset instead of an end.
        pipe.cut |= !pipe.to_client.is_empty();
        pipe.client_gone = true;
        pipe.client_ended = true;
        pipe.readable = true;
        pipe.notify(&self.pipe);
    }
}

/// The server's end.
#[derive(Debug)]
pub struct Socket {
    pipe: Arc<Mutex<Pipe>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut pipe = lock(&self.pipe);
        if !pipe.to_server.is_empty() {
            // A reset, and with it goes what the client has not read: a little worse than life.
            pipe.cut = true;
            pipe.to_client.clear();
        }
        pipe.server_gone = true;
        pipe.server_ended = true;
        pipe.watcher = None;
    }
}

/// Both directions of one connection, and what the server's kernel has to say of it.
#[derive(Debug)]
struct Pipe {
    to_server: VecDeque<u8>,
    to_server_size: usize,
    to_client: VecDeque<u8>,
    to_client_size: usize,
    client_ended: bool,
    client_gone: bool,
    server_ended: bool,
    server_gone: bool,
    cut: bool,
    /// Changes since the server's kernel last spoke.
    readable: bool,
    writable: bool,
    wants_room: bool,
    /// Which net hears of them, under which handle.
    watcher: Option<(Inbox, ConnId)>,
    noted: bool,
    way: Way,
}

impl Pipe {
    fn new(to_server_size: usize, to_client_size: usize) -> Pipe {
        Pipe {
            to_server: VecDeque::new(),
            to_server_size,
            to_client: VecDeque::new(),
            to_client_size,
            client_ended: false,
            client_gone: false,
            server_ended: false,
            server_gone: false,
            cut: false,
            readable: false,
            writable: false,
            wants_room: false,
            watcher: None,
            noted: false,
            way: Way::default(),
        }
    }

    /// Puts the connection into its net's inbox, unless it is there.
    fn notify(&mut self, this: &Arc<Mutex<Pipe>>) {
        if let Some((inbox, _)) = &self.watcher
            && !self.noted
        {
            self.noted = true;
            lock(inbox).push_back(Note::Change(Arc::clone(this)));
        }
    }
}

type Inbox = Arc<Mutex<VecDeque<Note>>>;

/// What a net has to look at.
#[derive(Debug)]
enum Note {
    Knock(ListenerId),
    Change(Arc<Mutex<Pipe>>),
}

#[derive(Debug)]
struct PortState {
    listener: ListenerId,
    clients: AtomicU32,
    backlog: Mutex<VecDeque<(Arc<Mutex<Pipe>>, u32)>>,
}

/// The made-up kernel.
#[derive(Debug, Default)]
pub struct Memory {
    inbox: Inbox,
    ports: Vec<Arc<PortState>>,
    rung: Arc<AtomicBool>,
    /// What would be system calls that ask about a socket.
    controls: u64,
}

impl Memory {
    fn port(&self, listener: ListenerId) -> &PortState {
        &self.ports[usize::try_from(listener.0).expect("listeners are few")]
    }
}

impl Kernel for Memory {
    type Socket = Socket;

    /// Never sleeps: nothing can happen while the caller, who is all there is, sits here.
    fn gather(&mut self, _timeout_ns: Option<u64>, count_max: usize, signals: &mut Vec<Signal>) {
        self.rung.store(false, Ordering::Release);
        for _ in 0..count_max {
            let Some(note) = lock(&self.inbox).pop_front() else { return };
            match note {
                Note::Knock(listener) => {
                    let whose = Whose::Listener(listener);
                    signals.push(Signal {
                        whose,
                        readable: true,
                        writable: false,
                        ending: false,
                        broken: false,
                    });
                }
                Note::Change(pipe) => {
                    let mut pipe = lock(&pipe);
                    let Some((inbox, conn)) = &pipe.watcher else { continue };
                    // It has moved to another net, which was told when it took it.
                    if !Arc::ptr_eq(inbox, &self.inbox) {
                        continue;
                    }
                    signals.push(Signal {
                        whose: Whose::Conn(*conn),
                        readable: pipe.readable,
                        writable: pipe.writable,
                        ending: pipe.client_ended,
                        broken: pipe.cut,
                    });
                    pipe.noted = false;
                    pipe.readable = false;
                    pipe.writable = false;
                }
            }
        }
    }

    fn accept(&mut self, listener: ListenerId) -> Accept<Socket> {
        let port = self.port(listener);
        let mut backlog = lock(&port.backlog);
        let Some((pipe, number)) = backlog.pop_front() else { return Accept::Nobody };
        if !backlog.is_empty() {
            // Whoever still knocks is heard again, if the budget ends here.
            let mut inbox = lock(&self.inbox);
            if !inbox.iter().any(|note| matches!(note, Note::Knock(other) if *other == listener)) {
                inbox.push_back(Note::Knock(listener));
            }
        }
        Accept::Client(Socket { pipe }, Address::Mem(number), Address::Mem(listener.0))
    }

    fn register(&mut self, socket: &Socket, conn: ConnId) -> Result<(), i32> {
        let mut pipe = lock(&socket.pipe);
        pipe.watcher = Some((Arc::clone(&self.inbox), conn));
        pipe.readable = !pipe.to_server.is_empty() || pipe.client_ended;
        pipe.noted = false;
        if pipe.readable || pipe.cut {
            pipe.notify(&socket.pipe);
        }
        Ok(())
    }

    fn unregister(&mut self, socket: &Socket) {
        lock(&socket.pipe).watcher = None;
    }

    fn receive(&mut self, socket: &Socket, into: &mut [u8]) -> Transfer {
        let mut pipe = lock(&socket.pipe);
        if pipe.cut {
            return Transfer::Broken(Why::Reset);
        }
        let size = pipe.to_server.len().min(into.len());
        if size == 0 {
            return if pipe.client_ended { Transfer::End } else { Transfer::Nothing };
        }
        let mut at = 0;
        move_front(&mut pipe.to_server, size, |bytes| {
            into[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        });
        Transfer::Bytes(size)
    }

    fn send(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> Transfer {
        let mut pipe = lock(&socket.pipe);
        if pipe.cut || pipe.client_gone {
            return Transfer::Broken(Why::Reset);
        }
        let mut room = pipe.to_client_size.saturating_sub(pipe.to_client.len());
        let mut size = 0;
        for slice in slices {
            let taken = slice.len().min(room);
            pipe.to_client.extend(&slice[..taken]);
            room -= taken;
            size += taken;
        }
        // Noted under the same lock, so that a client on another thread can't read in between unheard.
        pipe.wants_room = room == 0;
        if size == 0 { Transfer::Nothing } else { Transfer::Bytes(size) }
    }

    fn want_room(&mut self, _socket: &Socket, _conn: ConnId) {}

    fn had_room(&mut self, _socket: &Socket, _conn: ConnId) {}

    fn finish(&mut self, socket: &Socket) {
        lock(&socket.pipe).server_ended = true;
    }

    fn verdict(&mut self, _socket: &Socket) -> Why {
        Why::Reset
    }

    fn queue(&mut self, socket: &Socket) -> Option<u32> {
        self.controls += 1;
        lock(&socket.pipe).way.queue
    }

    fn cpu(&mut self, socket: &Socket) -> Option<u32> {
        self.controls += 1;
        lock(&socket.pipe).way.cpu
    }

    fn release(&mut self, socket: Socket) {
        drop(socket);
    }

    fn pack(socket: Socket) -> Carrier {
        Carrier::Memory(socket)
    }

    fn unpack(carrier: Carrier) -> Option<Socket> {
        if let Carrier::Memory(socket) = carrier { Some(socket) } else { None }
    }

    fn bell(&self) -> Bell {
        Bell::flag(Arc::clone(&self.rung))
    }

    fn has_signals(&self) -> bool {
        !lock(&self.inbox).is_empty() || self.rung.load(Ordering::Acquire)
    }

    fn controls(&self) -> u64 {
        self.controls
    }
}

/// No holder of these locks panics half-way, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
