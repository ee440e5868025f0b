//! The few system calls on sockets that both ends need: waiting, receiving, sending.
//!
//! Edge-triggered and non-blocking throughout; what may fail from outside is a value. Nothing here knows a protocol.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What a connection is registered for, once: its edges tell of input, of room for output, and of the end.
pub(crate) const CONNECTION_EVENTS: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
/// Flags of an event which say that the other side has gone, or has nothing more to send.
pub(crate) const HANG_UP: u32 = (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP).cast_unsigned();

/// A connection has ended, in order or not; both sides here treat both alike.
#[derive(Debug)]
pub(crate) struct Over;

/// An epoll and the events that its last wait brought.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poll {
    /// Room for `events_count` events a wait; more stay in the kernel for the next one.
    pub(crate) fn new(events_count: usize) -> io::Result<Poll> {
        // SAFETY: no pointer is passed; a non-negative result is a descriptor that nobody else owns.
        let epoll = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        Ok(Poll { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; events_count] })
    }

    /// Registers a descriptor, which is also the index that its events carry.
    pub(crate) fn add(&self, fd: i32, events: i32) -> io::Result<()> {
        let data = u64::try_from(fd).unwrap_or(u64::MAX);
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: data };
        // SAFETY: `event` is readable during the call; the kernel copies it.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits up to `timeout_ms` (-1: without limit). The number of events; none when a signal came first.
    pub(crate) fn wait(&mut self, timeout_ms: i32) -> io::Result<usize> {
        let capacity = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        // SAFETY: `events` is writable for `capacity` entries and outlives the call.
        let ready = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), capacity, timeout_ms)
        };
        usize::try_from(ready).or_else(|_| {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
        })
    }

    /// Flags and descriptor of an event of the last wait.
    pub(crate) fn event(&self, at: usize) -> (u32, usize) {
        let event = self.events[at];
        let (flags, index) = (event.events, event.u64);
        (flags, usize::try_from(index).unwrap_or(usize::MAX))
    }
}

/// Takes a waiting connection.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null address pointers are allowed and mean that the peer's address is not wanted; the result is a
    // descriptor that nobody else owns.
    unsafe { owned(libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags)) }
}

/// Receives once. `None`: nothing there now.
pub(crate) fn receive(socket: &OwnedFd, into: &mut [u8]) -> Result<Option<usize>, Over> {
    // SAFETY: `into` is writable for its length during the call.
    let size = unsafe { libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
    match usize::try_from(size) {
        Ok(0) => Err(Over),
        Ok(size) => Ok(Some(size)),
        Err(_) => match io::Error::last_os_error().kind() {
            // An interrupted receive leaves the socket as it was; no signal handler is installed, so it is not met.
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(Over),
        },
    }
}

/// Sends once, as much as the socket takes. `None`: it takes nothing now.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<Option<usize>, Over> {
    loop {
        // SAFETY: `bytes` is readable for its length during the call.
        let sent =
            unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        if let Ok(sent) = usize::try_from(sent) {
            return Ok(Some(sent));
        }
        match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock => return Ok(None),
            io::ErrorKind::Interrupted => {}
            _ => return Err(Over),
        }
    }
}

/// Small messages leave at once instead of waiting for the acknowledgement of the last one.
pub(crate) fn set_nodelay(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option value is one readable c_int, and its size is passed with it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes a system call's result as a new descriptor, or as the error that `errno` holds.
///
/// # Safety
/// `result` comes straight from a system call that returns a new descriptor which nobody else owns, or -1.
unsafe fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: non-negative, and by this function's own condition a fresh descriptor without an owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}
