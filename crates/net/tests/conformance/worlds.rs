//! The nets that the suite runs over, each with clients to talk to it.

use std::io::{ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use net::epoll::{Epoll, TcpOptions};
use net::fault::{Fault, Faults};
use net::mem::{self, Mem, Port};
use net::sockets::Sockets;
use net::trace::Trace;
use net::uring::{self, Uring};
use net::{Address, Limits, Net, Wait};

/// A net of some kind, and how clients reach it.
pub(crate) trait World: Sized {
    type Net: Net + Wait;
    /// Whether a client can cut its connection, as a TCP reset does.
    const CUTS: bool = true;
    /// How many clients a turn reports that was told to report five; late events may make it more.
    const INPUTS_MAX: Option<usize> = None;
    /// Whether a `wait` really sleeps.
    const SLEEPS: bool = false;

    /// Why this machine does not have it.
    fn missing() -> Option<String> {
        None
    }

    /// A net with one listener.
    fn make(limits: Limits) -> Self;
    /// The net.
    fn net(&mut self) -> &mut Self::Net;
    /// A client that has knocked.
    fn connect(&self) -> Box<dyn Client>;
    /// Another net of the same kind, without a listener.
    fn sibling(&self) -> Self::Net;
}

/// A client's end. Nothing blocks.
pub(crate) trait Client {
    /// Sends what can be sent at once.
    fn write(&mut self, bytes: &[u8]) -> usize;
    /// Receives what has arrived, `size_max` bytes at most.
    fn read(&mut self, size_max: usize) -> Vec<u8>;
    /// The server will send no more, and everything was read.
    fn at_end(&mut self) -> bool;
    /// The connection was cut off.
    fn was_cut(&self) -> bool;
    /// Shuts down the sending side.
    fn end(&mut self);
    /// Cuts the connection off.
    fn cut(self: Box<Self>);
}

impl Client for mem::Client {
    fn write(&mut self, bytes: &[u8]) -> usize {
        mem::Client::write(self, bytes)
    }

    fn read(&mut self, size_max: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        mem::Client::read(self, &mut bytes, size_max);
        bytes
    }

    fn at_end(&mut self) -> bool {
        mem::Client::at_end(self)
    }

    fn was_cut(&self) -> bool {
        mem::Client::was_cut(self)
    }

    fn end(&mut self) {
        mem::Client::end(self);
    }

    fn cut(self: Box<Self>) {
        mem::Client::cut(&self);
    }
}

/// A client over a stream socket.
struct Socket<S> {
    stream: S,
    end: bool,
    cut: bool,
    shut: fn(&S) -> std::io::Result<()>,
}

impl<S: Read + Write + AsRawFd> Client for Socket<S> {
    fn write(&mut self, bytes: &[u8]) -> usize {
        match self.stream.write(bytes) {
            Ok(size) => size,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.cut = true;
                0
            }
        }
    }

    fn read(&mut self, size_max: usize) -> Vec<u8> {
        let mut bytes = vec![0; size_max.min(1 << 16)];
        match self.stream.read(&mut bytes) {
            Ok(size) => {
                self.end |= size == 0 && size_max > 0;
                bytes.truncate(size);
                bytes
            }
            Err(error) => {
                self.cut |= error.kind() != ErrorKind::WouldBlock;
                Vec::new()
            }
        }
    }

    fn at_end(&mut self) -> bool {
        self.end || self.cut
    }

    fn was_cut(&self) -> bool {
        self.cut
    }

    fn end(&mut self) {
        (self.shut)(&self.stream).expect("a connected socket can be shut");
    }

    fn cut(self: Box<Self>) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let size = libc::socklen_t::try_from(size_of::<libc::linger>()).expect("eight bytes");
        let fd = self.stream.as_raw_fd();
        // SAFETY: `linger` is readable for `size` bytes.
        let result = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size)
        };
        assert_eq!(result, 0);
    }
}

pub(crate) struct MemWorld {
    net: Mem,
    port: Port,
}

impl World for MemWorld {
    type Net = Mem;

    fn make(limits: Limits) -> MemWorld {
        let mut net = Mem::new(limits);
        let (_, port) = net.listen();
        MemWorld { net, port }
    }

    fn net(&mut self) -> &mut Mem {
        &mut self.net
    }

    fn connect(&self) -> Box<dyn Client> {
        Box::new(self.port.connect())
    }

    fn sibling(&self) -> Mem {
        Mem::new(Limits::default())
    }
}

/// Faults of one kind.
pub(crate) trait Mood {
    const FAULTS: Faults;
}

pub(crate) struct Quiet;

impl Mood for Quiet {
    const FAULTS: Faults = Faults {
        cut_input: 0,
        delay_event: 0,
        shorten_send: 0,
        reorder_events: 0,
        drop_connection: 0,
        refuse_taken: 0,
    };
}

/// Everything that loses no connection.
pub(crate) struct Noisy;

impl Mood for Noisy {
    const FAULTS: Faults = Faults {
        cut_input: 300,
        delay_event: 300,
        shorten_send: 300,
        reorder_events: 500,
        drop_connection: 0,
        refuse_taken: 0,
    };
}

/// Any world through a `Fault`, and that through a `Trace`.
pub(crate) struct Wrapped<W: World, M> {
    net: Trace<Fault<W::Net>, Vec<u8>>,
    below: W,
    mood: PhantomData<M>,
}

impl<W: World, M: Mood> World for Wrapped<W, M> {
    type Net = Trace<Fault<W::Net>, Vec<u8>>;
    const CUTS: bool = W::CUTS;
    const INPUTS_MAX: Option<usize> = Some(30);
    const SLEEPS: bool = W::SLEEPS;

    fn missing() -> Option<String> {
        W::missing()
    }

    fn make(limits: Limits) -> Self {
        let mut below = W::make(limits);
        // The listening net goes into the wrapper; a sibling takes its place, which nobody will use.
        let spare = below.sibling();
        let listening = std::mem::replace(below.net(), spare);
        Wrapped { net: wrap::<_, M>(listening), below, mood: PhantomData }
    }

    fn net(&mut self) -> &mut Self::Net {
        &mut self.net
    }

    fn connect(&self) -> Box<dyn Client> {
        self.below.connect()
    }

    fn sibling(&self) -> Self::Net {
        wrap::<_, M>(self.below.sibling())
    }
}

fn wrap<N: Net, M: Mood>(net: N) -> Trace<Fault<N>, Vec<u8>> {
    Trace::new(Fault::new(net, M::FAULTS, 1), Vec::new(), 32)
}

/// A net over sockets that the machine may not have.
pub(crate) trait Backend: Sockets {
    fn missing() -> Option<String>;
}

impl Backend for Epoll {
    fn missing() -> Option<String> {
        None
    }
}

impl Backend for Uring {
    fn missing() -> Option<String> {
        uring::probe().err()
    }
}

pub(crate) struct TcpWorld<N> {
    net: N,
    address: SocketAddr,
}

impl<N: Backend> World for TcpWorld<N> {
    type Net = N;
    const SLEEPS: bool = true;

    fn missing() -> Option<String> {
        N::missing()
    }

    fn make(limits: Limits) -> TcpWorld<N> {
        let mut net = N::make(limits).expect("descriptors are left");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = TcpOptions { backlog: 4096, ..TcpOptions::default() };
        let listener = net.listen_tcp(any, &options).expect("a free port exists");
        let Address::Inet(address) = net.listener_address(listener) else { panic!("a TCP listener") };
        TcpWorld { net, address }
    }

    fn net(&mut self) -> &mut N {
        &mut self.net
    }

    fn connect(&self) -> Box<dyn Client> {
        let stream = TcpStream::connect(self.address).expect("the listener is there");
        stream.set_nonblocking(true).expect("it is a socket");
        stream.set_nodelay(true).expect("it is TCP");
        Box::new(Socket { stream, end: false, cut: false, shut: |stream| stream.shutdown(Shutdown::Write) })
    }

    fn sibling(&self) -> N {
        N::make(Limits::default()).expect("descriptors are left")
    }
}

/// One of `io_uring` without what it can do without.
pub(crate) struct Plain<W>(W);

impl<W: World<Net = Uring>> World for Plain<W> {
    type Net = Uring;
    const CUTS: bool = W::CUTS;
    const SLEEPS: bool = W::SLEEPS;

    fn missing() -> Option<String> {
        W::missing()
    }

    fn make(limits: Limits) -> Self {
        let mut world = W::make(limits);
        world.net().be_plain();
        Plain(world)
    }

    fn net(&mut self) -> &mut Uring {
        self.0.net()
    }

    fn connect(&self) -> Box<dyn Client> {
        self.0.connect()
    }

    fn sibling(&self) -> Uring {
        let mut net = self.0.sibling();
        net.be_plain();
        net
    }
}

pub(crate) struct UnixWorld<N> {
    net: N,
    path: PathBuf,
}

impl<N: Backend> World for UnixWorld<N> {
    type Net = N;
    const CUTS: bool = false;
    const SLEEPS: bool = true;

    fn missing() -> Option<String> {
        N::missing()
    }

    fn make(limits: Limits) -> UnixWorld<N> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("net-conformance-{}-{number}", std::process::id()));
        let mut net = N::make(limits).expect("descriptors are left");
        net.listen_unix(&path, 0o700, 4096).expect("the path is free");
        UnixWorld { net, path }
    }

    fn net(&mut self) -> &mut N {
        &mut self.net
    }

    fn connect(&self) -> Box<dyn Client> {
        let stream = UnixStream::connect(&self.path).expect("the listener is there");
        stream.set_nonblocking(true).expect("it is a socket");
        Box::new(Socket { stream, end: false, cut: false, shut: |stream| stream.shutdown(Shutdown::Write) })
    }

    fn sibling(&self) -> N {
        N::make(Limits::default()).expect("descriptors are left")
    }
}

impl<N> Drop for UnixWorld<N> {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).expect("the listener made it");
    }
}
