//! Where clients knock: TCP and Unix listeners.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use libc::{c_int, socklen_t};

use super::{Epoll, listener_token, sys};
use crate::{Address, ListenerId};

/// How a TCP listener is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// Clients that may wait to be accepted; the kernel takes no more than `net.core.somaxconn`.
    pub backlog: u32,
    /// Whether other lanes of this process listen at the same port.
    pub share: Share,
    /// How silence is found out to be death; `None`: never.
    pub keepalive: Option<Keepalive>,
}

impl Default for TcpOptions {
    fn default() -> TcpOptions {
        TcpOptions { backlog: 511, share: Share::Alone, keepalive: Some(Keepalive::after_s(300)) }
    }
}

/// Whether a port is shared. The kernel spreads clients over all who share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// With nobody.
    Alone,
    /// Others will join. The port is first tried alone: `SO_REUSEPORT` would let a second server of the same user
    /// in without a word, and take half of the first one's clients.
    First,
    /// With the one that was first, in this process.
    Joins,
}

/// TCP keepalive, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle_s: u32,
    /// Between probes.
    pub interval_s: u32,
    /// Probes without an answer after which the connection is given up.
    pub probes: u32,
}

impl Keepalive {
    /// As Redis does it: the first probe after `seconds`, then three at a third of that.
    pub fn after_s(seconds: u32) -> Keepalive {
        Keepalive { idle_s: seconds, interval_s: (seconds / 3).max(1), probes: 3 }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    /// As bound, with the port that the kernel chose for port 0.
    pub(crate) address: Address,
    /// Bound to all addresses, so that each client's must be asked for.
    pub(crate) wildcard: bool,
}

/// Bytes that the kernel takes for a client beside what is on its way to it: else it takes up to 4 MB for each that does not read
/// (`tcp_wmem`), which no limit of ours sees.
const UNSENT_SIZE_MAX: c_int = 128 * 1024;

impl Listener {
    pub(crate) fn tcp(address: SocketAddr, options: &TcpOptions) -> io::Result<Listener> {
        if options.share == Share::First && address.port() != 0 {
            drop(bind_tcp(address, false)?);
        }
        let fd = bind_tcp(address, options.share != Share::Alone)?;
        sys::set_option(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        sys::set_option(&fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT_SIZE_MAX)?;
        if let Some(keepalive) = options.keepalive {
            sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
            for (name, value) in [
                (libc::TCP_KEEPIDLE, keepalive.idle_s),
                (libc::TCP_KEEPINTVL, keepalive.interval_s),
                (libc::TCP_KEEPCNT, keepalive.probes),
            ] {
                sys::set_option(&fd, libc::IPPROTO_TCP, name, c_int::try_from(value).unwrap_or(c_int::MAX))?;
            }
        }
        listen(&fd, options.backlog)?;
        let bound = sys::local_address(&fd)?;
        Ok(Listener { fd, address: bound, wildcard: address.ip().is_unspecified() })
    }

    pub(crate) fn unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Listener> {
        remove_stale(path)?;
        let fd = sys::socket(libc::AF_UNIX)?;
        // The mode that bind gives the file is the socket's own, less the umask (Linux, net/unix/af_unix.c,
        // unix_bind_bsd). Set before, no moment exists in which more are let in than asked for; and the umask,
        // which belongs to all threads, is left alone.
        // SAFETY: takes no pointer.
        sys::done(unsafe { libc::fchmod(fd.as_raw_fd(), mode) })?;
        bind_unix(&fd, path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        listen(&fd, backlog)?;
        Ok(Listener { fd, address: Address::Unix, wildcard: false })
    }
}

impl Epoll {
    /// Listens at a TCP address; port 0 lets the kernel choose. What is set on the listener (no delay, keepalive)
    /// holds for accepted connections without another call (tcp(7); Linux copies the socket).
    ///
    /// # Errors
    /// `AddrInUse`: someone has the port. Others as bind(2) says.
    pub fn listen_tcp(&mut self, address: SocketAddr, options: &TcpOptions) -> io::Result<ListenerId> {
        self.add_listener(Listener::tcp(address, options)?)
    }

    /// Listens at a path, with the file mode `mode` (0o700, for instance). A socket file that nobody listens at any
    /// more is replaced. Unix sockets can't be shared; one lane listens and gives connections to the others.
    ///
    /// # Errors
    /// `AddrInUse`: someone listens there. `AlreadyExists`: the path is something else than a socket. Others as
    /// bind(2) says.
    pub fn listen_unix(&mut self, path: &Path, mode: u32, backlog: u32) -> io::Result<ListenerId> {
        self.add_listener(Listener::unix(path, mode, backlog)?)
    }

    /// The address a listener is bound to.
    ///
    /// # Panics
    /// If there is no such listener.
    pub fn listener_address(&self, listener: ListenerId) -> Address {
        self.kernel.listeners[usize::try_from(listener.0).expect("listeners are few")].address
    }

    /// Stops listening anywhere; connections go on. Who knocks from now on is refused by the kernel.
    pub fn stop_listening(&mut self) {
        self.kernel.listeners.clear();
    }

    fn add_listener(&mut self, listener: Listener) -> io::Result<ListenerId> {
        let index = self.kernel.listeners.len();
        let (epoll, token) = (&self.kernel.epoll, listener_token(index));
        sys::watch(epoll, &listener.fd, libc::EPOLL_CTL_ADD, token, libc::EPOLLIN)?;
        self.kernel.listeners.push(listener);
        Ok(ListenerId(u32::try_from(index).expect("listeners are few")))
    }
}

fn bind_tcp(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let fd = sys::socket(family)?;
    // Connections of an earlier run that are in TIME_WAIT do not count; a listener does.
    sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if shared {
        sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    if address.is_ipv6() {
        sys::set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    let (storage, size) = sys::to_storage(address);
    // SAFETY: `storage` is readable for `size` bytes.
    sys::done(unsafe { libc::bind(fd.as_raw_fd(), (&raw const storage).cast(), size) })?;
    Ok(fd)
}

fn bind_unix(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    // SAFETY: all zeros is a valid address of no family.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).expect("families are small");
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || address.sun_path.len() <= bytes.len() {
        let text = format!("the path of a Unix socket has 1 to {} bytes", address.sun_path.len() - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
    let size = socklen_t::try_from(size_of::<libc::sockaddr_un>()).expect("some hundred bytes");
    // SAFETY: `address` is readable for `size` bytes.
    sys::done(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) })
}

fn listen(fd: &OwnedFd, backlog: u32) -> io::Result<()> {
    let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
    // SAFETY: takes no pointer.
    sys::done(unsafe { libc::listen(fd.as_raw_fd(), backlog) })
}

/// Removes a socket file if nobody listens at it.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is no socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens at this path")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::kernel::{Accept, Kernel};
    use crate::{Limits, Net};

    #[test]
    fn accepted_connections_have_the_options_of_their_listener() {
        let mut net = Epoll::new(Limits::default()).unwrap();
        let keepalive = Keepalive { idle_s: 77, interval_s: 25, probes: 3 };
        let options = TcpOptions { keepalive: Some(keepalive), ..TcpOptions::default() };
        let listener = net.listen_tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
        let Address::Inet(address) = net.listener_address(listener) else { panic!("a TCP listener") };
        let _client = TcpStream::connect(address).unwrap();
        let Accept::Client(socket, _, _) = net.kernel.accept(listener) else { panic!("a client knocks") };
        for (level, name, want) in [
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT_SIZE_MAX),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 77),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 25),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        ] {
            assert_eq!(sys::get_option(&socket.fd, level, name).unwrap(), want, "option {name}");
        }
        assert_eq!(net.counters().controls, 0, "without a call");
    }
}
