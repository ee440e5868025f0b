//! Sockets through Linux' epoll.
//!
//! A turn with 50 busy connections is one `epoll_wait`, 50 `recv` and 50 `send`, and nothing else. Connections are
//! registered once, edge-triggered, for input and room; listeners level-triggered, so that a burst over the accept
//! budget is reported again by itself. The decisions are those of [`Readiness`]; here are the system calls.

use std::hint::cold_path;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::kernel::{Accept, Carrier, Kernel, Signal, Transfer, Whose};
use crate::readiness::Readiness;
use crate::slots::INDEX_MAX;
use crate::{Address, Bell, ConnId, Limits, ListenerId, Why};

pub(crate) mod listen;
pub(crate) mod reserve;
pub(crate) mod sys;

pub use listen::{Keepalive, Share, TcpOptions};

/// While the system can't accept, listening rests this long before it is tried again.
pub(crate) const REST_NS: u64 = 100_000_000;

/// … or this many gathers, whatever comes first: a busy lane's wait never times out.
pub(crate) const REST_GATHERS: u32 = 1024;

/// The bell's token; connections and listeners lie below.
const BELL_TOKEN: u64 = u64::MAX;

/// A [`Net`](crate::Net) over epoll.
pub type Epoll = Readiness<Linux>;

impl Epoll {
    /// Without listeners.
    ///
    /// # Errors
    /// The process has no descriptors left (three are needed).
    pub fn new(limits: Limits) -> io::Result<Epoll> {
        Ok(Readiness::over(Linux::new(limits)?, limits))
    }

    /// Asks the kernel to poll the network card's queue for up to `duration_us` microseconds before it puts this
    /// net's `wait` to sleep; zero turns it off. This helps only where a core can be given to it.
    ///
    /// # Errors
    /// `Unsupported` before Linux 6.9; `PermissionDenied` for budgets the kernel reserves to administrators.
    pub fn set_busy_poll(&mut self, duration_us: u32) -> io::Result<()> {
        self.kernel.controls += 1;
        sys::set_busy_poll(&self.kernel.epoll, duration_us)
    }
}

/// The Linux kernel, seen through one epoll descriptor.
#[derive(Debug)]
pub struct Linux {
    epoll: OwnedFd,
    bell: Arc<OwnedFd>,
    events: Vec<libc::epoll_event>,
    listeners: Vec<listen::Listener>,
    resting: bool,
    gathers_rested: u32,
    controls: u64,
    /// The kernel has `epoll_pwait2` (Linux 5.11), which counts in nanoseconds.
    precise: bool,
}

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// A Unix socket reports room whenever its peer reads, even if nobody lacked any; for such a one room is
    /// asked for only when it is wanted. A TCP socket reports it only after a short send (`SOCK_NOSPACE`).
    unix: bool,
}

impl Socket {
    pub(crate) fn connected(fd: OwnedFd, unix: bool) -> Socket {
        Socket { fd, unix }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl Linux {
    fn new(limits: Limits) -> io::Result<Linux> {
        let epoll = sys::epoll()?;
        let bell = Arc::new(sys::eventfd()?);
        sys::watch(&epoll, &bell, libc::EPOLL_CTL_ADD, BELL_TOKEN, libc::EPOLLIN | libc::EPOLLET)?;
        reserve::fill()?;
        let events = Vec::with_capacity(limits.clients_per_turn + 16);
        Ok(Linux {
            epoll,
            bell,
            events,
            listeners: Vec::new(),
            resting: false,
            gathers_rested: 0,
            controls: 0,
            precise: true,
        })
    }

    /// Stops listening for a while, because the system can't accept and would signal for ever.
    fn rest(&mut self) {
        if !self.resting {
            self.watch_listeners(0);
            self.resting = true;
            self.gathers_rested = 0;
        }
    }

    fn resume(&mut self) {
        self.resting = false;
        self.watch_listeners(libc::EPOLLIN);
    }

    fn watch_listeners(&mut self, interest: i32) {
        for (index, listener) in self.listeners.iter().enumerate() {
            self.controls += 1;
            let done =
                sys::watch(&self.epoll, &listener.fd, libc::EPOLL_CTL_MOD, listener_token(index), interest);
            assert!(done.is_ok(), "a registered listener can be changed: {done:?}");
        }
    }

    /// Turns the next client away. There may be none: the kernel looks for a descriptor before it looks for a client.
    fn refuse(&mut self, listener: usize) -> Accept<Socket> {
        self.controls += 3;
        match reserve::turn_away(|| sys::accept(&self.listeners[listener].fd)) {
            Ok(()) => Accept::Refused,
            Err(libc::EAGAIN) => Accept::Nobody,
            Err(_) => {
                self.rest();
                Accept::Rest
            }
        }
    }
}

impl Kernel for Linux {
    type Socket = Socket;

    fn gather(&mut self, timeout_ns: Option<u64>, count_max: usize, signals: &mut Vec<Signal>) {
        let timeout_ns = if self.resting {
            cold_path();
            self.gathers_rested += 1;
            Some(timeout_ns.unwrap_or(REST_NS).min(REST_NS))
        } else {
            timeout_ns
        };
        sys::wait(&self.epoll, &mut self.events, count_max, timeout_ns, &mut self.precise);
        if self.resting
            && (REST_GATHERS <= self.gathers_rested || (self.events.is_empty() && timeout_ns != Some(0)))
        {
            cold_path();
            self.resume();
        }
        for event in &self.events {
            let (token, flags) = (event.u64, event.events);
            if token != BELL_TOKEN {
                signals.push(signal(token, flags));
            }
        }
    }

    fn accept(&mut self, listener: ListenerId) -> Accept<Socket> {
        let index = usize::try_from(listener.0).expect("listeners are few");
        let place = &self.listeners[index];
        let (fd, peer) = match sys::accept(&place.fd) {
            Ok(accepted) => accepted,
            Err(libc::EAGAIN) => return Accept::Nobody,
            // accept(2): errors already pending on the new socket are to be treated like none.
            Err(
                libc::ECONNABORTED
                | libc::EINTR
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
                | libc::EPERM,
            ) => return Accept::Lost,
            Err(libc::EMFILE | libc::ENFILE) => return self.refuse(index),
            Err(_) => {
                self.rest();
                return Accept::Rest;
            }
        };
        let Some(fd) = reserve::keep(fd) else { return Accept::Refused };
        let unix = place.address == Address::Unix;
        let local = if place.wildcard {
            self.controls += 1;
            sys::local_address(&fd).unwrap_or(place.address)
        } else {
            place.address
        };
        Accept::Client(Socket { fd, unix }, if unix { Address::Unix } else { peer }, local)
    }

    fn register(&mut self, socket: &Socket, conn: ConnId) -> Result<(), i32> {
        self.controls += 1;
        let interest = interest(socket, false);
        sys::watch(&self.epoll, &socket.fd, libc::EPOLL_CTL_ADD, conn_token(conn), interest)
            .map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))
    }

    fn unregister(&mut self, socket: &Socket) {
        self.controls += 1;
        let done = sys::watch(&self.epoll, &socket.fd, libc::EPOLL_CTL_DEL, 0, 0);
        assert!(done.is_ok(), "a registered socket can be taken out: {done:?}");
    }

    #[inline(always)]
    fn receive(&mut self, socket: &Socket, into: &mut [u8]) -> Transfer {
        match sys::receive(&socket.fd, into) {
            Ok(0) => Transfer::End,
            Ok(size) => Transfer::Bytes(size),
            Err(libc::EAGAIN) => Transfer::Nothing,
            Err(errno) => Transfer::Broken(why(errno)),
        }
    }

    #[inline(always)]
    fn send(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> Transfer {
        match sys::send(&socket.fd, slices) {
            Ok(size) => Transfer::Bytes(size),
            Err(libc::EAGAIN) => Transfer::Nothing,
            Err(errno) => Transfer::Broken(why(errno)),
        }
    }

    fn want_room(&mut self, socket: &Socket, conn: ConnId) {
        self.change_interest(socket, conn, true);
    }

    fn had_room(&mut self, socket: &Socket, conn: ConnId) {
        self.change_interest(socket, conn, false);
    }

    fn finish(&mut self, socket: &Socket) {
        self.controls += 1;
        sys::shut_sending(&socket.fd);
    }

    fn verdict(&mut self, socket: &Socket) -> Why {
        self.controls += 1;
        sys::get_option(&socket.fd, libc::SOL_SOCKET, libc::SO_ERROR).map_or(Why::Reset, why)
    }

    fn queue(&mut self, socket: &Socket) -> Option<u32> {
        self.controls += 1;
        sys::queue(&socket.fd)
    }

    fn cpu(&mut self, socket: &Socket) -> Option<u32> {
        self.controls += 1;
        sys::cpu(&socket.fd)
    }

    fn release(&mut self, socket: Socket) {
        self.controls += 1;
        drop(socket);
    }

    fn pack(socket: Socket) -> Carrier {
        Carrier::System(socket)
    }

    fn unpack(carrier: Carrier) -> Option<Socket> {
        if let Carrier::System(socket) = carrier { Some(socket) } else { None }
    }

    fn bell(&self) -> Bell {
        Bell::event(Arc::clone(&self.bell))
    }

    fn has_signals(&self) -> bool {
        false
    }

    fn controls(&self) -> u64 {
        self.controls
    }
}

impl Linux {
    fn change_interest(&mut self, socket: &Socket, conn: ConnId, room: bool) {
        if socket.unix {
            self.controls += 1;
            let interest = interest(socket, room);
            let done = sys::watch(&self.epoll, &socket.fd, libc::EPOLL_CTL_MOD, conn_token(conn), interest);
            assert!(done.is_ok(), "a registered socket can be changed: {done:?}");
        }
    }
}

/// What epoll is asked to tell of a connection.
fn interest(socket: &Socket, room: bool) -> i32 {
    let input = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
    if room || !socket.unix { input | libc::EPOLLOUT } else { input }
}

/// `index` below 2^31 is a connection, above it a listener.
fn conn_token(conn: ConnId) -> u64 {
    u64::from(conn.generation) << 32 | u64::from(conn.index)
}

fn listener_token(index: usize) -> u64 {
    u64::from(INDEX_MAX) + 1 + u64::try_from(index).expect("listeners are few")
}

fn signal(token: u64, flags: u32) -> Signal {
    let has = |any: i32| flags & any.cast_unsigned() != 0;
    let index = u32::try_from(token & u64::from(u32::MAX)).expect("the lower half of a token");
    let generation = u32::try_from(token >> 32).expect("the upper half of a token");
    if INDEX_MAX < index {
        let whose = Whose::Listener(ListenerId(index - INDEX_MAX - 1));
        return Signal { whose, readable: true, writable: false, ending: false, broken: false };
    }
    Signal {
        whose: Whose::Conn(ConnId { index, generation }),
        // A Unix peer that closes is HUP at once, but what it sent before is still there to be received.
        readable: has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP),
        writable: has(libc::EPOLLOUT),
        ending: has(libc::EPOLLRDHUP | libc::EPOLLHUP),
        broken: has(libc::EPOLLERR),
    }
}

pub(crate) fn why(errno: i32) -> Why {
    match errno {
        // None at all: another call has been told of it, and it was taken from the socket with that.
        0 | libc::ECONNRESET | libc::EPIPE => Why::Reset,
        errno => Why::Failed(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handover, Net};

    #[test]
    fn a_given_connection_that_the_kernel_will_not_watch_is_turned_away() {
        let mut net = Epoll::new(Limits::default()).unwrap();
        // epoll watches no files, /dev/null included (epoll_ctl(2), EPERM).
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let (peer, local) = (Address::Unix, Address::Unix);
        let carrier = Carrier::System(Socket { fd, unix: true });
        assert_eq!(net.take(Handover { carrier, listener: ListenerId(0), peer, local }), None);
        let mut events = Vec::new();
        net.poll(&mut events);
        assert_eq!((events, net.counters().refused), (vec![], 1));
    }
}
