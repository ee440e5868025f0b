//! The system calls of the nets over sockets, each behind a safe face. Errors are raw errno where the caller tells them
//! apart, `io::Error` where they end a start-up.

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, socklen_t};

use crate::Address;

/// Takes a call's descriptor.
fn own(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A call's verdict.
pub(crate) fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// A descriptor of no use, to be given up in need.
pub(crate) fn null() -> io::Result<OwnedFd> {
    // SAFETY: the path is a C string.
    own(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
}

pub(crate) fn socket(family: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointer.
    own(unsafe { libc::socket(family, kind, 0) })
}

/// `epoll_ctl`.
pub(crate) fn watch(
    epoll: &OwnedFd,
    fd: &OwnedFd,
    what: c_int,
    token: u64,
    interest: c_int,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest.cast_unsigned(), u64: token };
    // SAFETY: `event` is valid for the call, which copies it.
    done(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), what, fd.as_raw_fd(), &raw mut event) })
}

/// `epoll_pwait2`, or `epoll_pwait` in whole milliseconds where `precise` turns out to be too much. Fills `events`
/// with up to `count_max`; a signal handler that interrupts the sleep leaves them empty.
pub(crate) fn wait(
    epoll: &OwnedFd,
    events: &mut Vec<libc::epoll_event>,
    count_max: usize,
    timeout_ns: Option<u64>,
    precise: &mut bool,
) {
    events.clear();
    events.reserve(count_max);
    let (epoll, into, room) = (number_of(epoll), address_of(events.as_mut_ptr()), count_max.cast_signed());
    // No mask of signals, of no size.
    let whole = |timeout_ms: c_int| {
        // SAFETY: `into` has room for `room` events, as reserved above.
        unsafe { call(libc::SYS_epoll_pwait, [epoll, into, room, timeout_ms as isize, 0, 0]) }
    };
    let exact = |timeout: libc::timespec| {
        let timeout = address_of(&raw const timeout);
        // SAFETY: as above, and `timeout` is valid for the call.
        unsafe { call(libc::SYS_epoll_pwait2, [epoll, into, room, timeout, 0, 0]) }
    };
    let count = match timeout_ns {
        None => whole(-1),
        Some(0) => whole(0),
        Some(nanoseconds) => {
            let mut count = Err(libc::ENOSYS);
            if *precise {
                count = exact(libc::timespec {
                    tv_sec: i64::try_from(nanoseconds / 1_000_000_000).expect("a quotient of nanoseconds"),
                    tv_nsec: i64::try_from(nanoseconds % 1_000_000_000).expect("below a thousand million"),
                });
                *precise = count != Err(libc::ENOSYS);
            }
            if !*precise {
                // Rounded up: a millisecond late rather than spinning through the last one.
                count = whole(c_int::try_from(nanoseconds.div_ceil(1_000_000)).unwrap_or(c_int::MAX));
            }
            count
        }
    };
    match count {
        // SAFETY: the kernel has filled in `count` events, within the reserved room.
        Ok(count) => unsafe { events.set_len(count) },
        Err(errno) => assert!(errno == libc::EINTR, "waiting fails only for a signal: errno {errno}"),
    }
}

/// A system call by its number: what comes of it, or the errno. `syscall(3)` does the same, with several times the instructions: it moves
/// its arguments from one register to the next and leaves the errno in memory.
///
/// # Safety
/// What the call asks for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, [a, b, c, d, e, f]: [isize; 6]) -> Result<usize, i32> {
    let result: i64;
    // SAFETY: the kernel finds number and arguments in these registers, and changes none but `rax`, `rcx` and `r11` (syscall(2)); the
    // caller sees to the call.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    usize::try_from(result).map_err(|_| i32::try_from(-result).expect("numbers of errors are small"))
}

/// As on x86-64.
///
/// # Safety
/// What the call asks for.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn call(number: libc::c_long, [a, b, c, d, e, f]: [isize; 6]) -> Result<usize, i32> {
    // SAFETY: the caller sees to the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// A descriptor as [`call`] takes it.
#[inline(always)]
fn number_of(fd: &OwnedFd) -> isize {
    fd.as_raw_fd() as isize
}

/// An address as [`call`] takes it.
#[inline(always)]
fn address_of<T>(pointer: *const T) -> isize {
    pointer.expose_provenance().cast_signed()
}

/// One receive: how many bytes, zero at the end, or the errno. Never blocks, whatever the socket's mode.
///
/// `recv(2)` itself, as `epoll_pwait(2)` above and `send(2)` below: in a process of several threads glibc's functions of these
/// names make the thread cancellable and back, with two atomic exchanges, for each call (nptl/cancellation.c).
#[inline]
pub(crate) fn receive(fd: &OwnedFd, into: &mut [u8]) -> Result<usize, i32> {
    let (into, len) = (address_of(into.as_mut_ptr()), into.len().cast_signed());
    // SAFETY: `into` is writable for its whole length; nobody asks from where it comes.
    unsafe { call(libc::SYS_recvfrom, [number_of(fd), into, len, libc::MSG_DONTWAIT as isize, 0, 0]) }
}

/// One send of all slices: how many bytes, or the errno. Never raises SIGPIPE.
#[inline]
pub(crate) fn send(fd: &OwnedFd, slices: &[IoSlice<'_>]) -> Result<usize, i32> {
    let flags = libc::MSG_NOSIGNAL as isize;
    if let [one] = slices {
        let (from, len) = (address_of(one.as_ptr()), one.len().cast_signed());
        // SAFETY: the slice is readable for its whole length; the socket is connected and needs no address.
        unsafe { call(libc::SYS_sendto, [number_of(fd), from, len, flags, 0, 0]) }
    } else {
        // SAFETY: all zeros is a valid, empty msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // `IoSlice` is promised to have the layout of `iovec`; sendmsg only reads.
        message.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_iovlen = slices.len();
        // SAFETY: the message describes `slices`, which are readable and outlive the call.
        unsafe { call(libc::SYS_sendmsg, [number_of(fd), address_of(&raw const message), flags, 0, 0, 0]) }
    }
}

/// Nothing more will be sent. A socket that is already broken says so elsewhere.
pub(crate) fn shut_sending(fd: &OwnedFd) {
    // SAFETY: takes no pointer.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) };
}

/// One accept: the socket and where it comes from, or the errno.
pub(crate) fn accept(listener: &OwnedFd) -> Result<(OwnedFd, Address), i32> {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut size = storage_size();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: `storage` has room for `size` bytes, and both outlive the call.
    let fd =
        unsafe { libc::accept4(listener.as_raw_fd(), storage.as_mut_ptr().cast(), &raw mut size, flags) };
    let fd = own(fd).map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))?;
    // SAFETY: all zeros is a valid address, and the kernel has written nothing but one.
    let storage = unsafe { storage.assume_init() };
    Ok((fd, from_storage(&storage)))
}

/// The address a socket is bound to.
pub(crate) fn local_address(fd: &OwnedFd) -> io::Result<Address> {
    address(fd, libc::getsockname)
}

/// The address a connected socket's other end is bound to.
pub(crate) fn peer_address(fd: &OwnedFd) -> io::Result<Address> {
    address(fd, libc::getpeername)
}

fn address(
    fd: &OwnedFd,
    ask: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int,
) -> io::Result<Address> {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut size = storage_size();
    // SAFETY: `storage` has room for `size` bytes, and both outlive the call.
    done(unsafe { ask(fd.as_raw_fd(), storage.as_mut_ptr().cast(), &raw mut size) })?;
    // SAFETY: all zeros is a valid address, and the kernel has written nothing but one.
    Ok(from_storage(&unsafe { storage.assume_init() }))
}

/// Whether calls on a socket may block.
pub(crate) fn set_blocking(fd: &OwnedFd, blocking: bool) -> io::Result<()> {
    let mut on = c_int::from(!blocking);
    // SAFETY: the request reads one integer, which outlives the call.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut on) })
}

/// Whoever knocks from now on is refused, even while others still hold the socket.
pub(crate) fn shut_listening(fd: &OwnedFd) {
    // SAFETY: takes no pointer.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Sets an integer option.
pub(crate) fn set_option(fd: &OwnedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let size = socklen_t::try_from(size_of::<c_int>()).expect("four bytes");
    // SAFETY: `value` is readable for `size` bytes.
    done(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) })
}

/// Gets an integer option.
pub(crate) fn get_option(fd: &OwnedFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut size = socklen_t::try_from(size_of::<c_int>()).expect("four bytes");
    // SAFETY: `value` has room for `size` bytes, and both outlive the call.
    done(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut size) })?;
    Ok(value)
}

/// `SO_INCOMING_NAPI_ID` (Linux 4.12, socket(7)): 0 stands for a packet that came by no NAPI instance.
pub(crate) fn queue(fd: &OwnedFd) -> Option<u32> {
    let id = get_option(fd, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID).ok()?;
    u32::try_from(id).ok().filter(|id| 0 < *id)
}

/// `SO_INCOMING_CPU` (socket(7)): -1 where no packet has come yet, as on a Unix socket.
pub(crate) fn cpu(fd: &OwnedFd) -> Option<u32> {
    let cpu = get_option(fd, libc::SOL_SOCKET, libc::SO_INCOMING_CPU).ok()?;
    u32::try_from(cpu).ok()
}

/// `EPIOCSPARAMS` (Linux 6.9, include/uapi/linux/eventpoll.h).
pub(crate) fn set_busy_poll(epoll: &OwnedFd, duration_us: u32) -> io::Result<()> {
    #[repr(C)]
    struct Params {
        busy_poll_usecs: u32,
        busy_poll_budget: u16,
        prefer_busy_poll: u8,
        pad: u8,
    }
    /// `_IOW(0x8A, 0x01, struct epoll_params)`.
    const EPIOCSPARAMS: libc::Ioctl = 0x4008_8A01;
    /// The largest budget that needs no privilege (`NAPI_POLL_WEIGHT`); below 8 polls would be many and small.
    const BUDGET: u16 = 64;
    let params = Params {
        busy_poll_usecs: duration_us,
        busy_poll_budget: BUDGET,
        prefer_busy_poll: u8::from(duration_us > 0),
        pad: 0,
    };
    // SAFETY: the request reads one `Params`, which outlives the call.
    let result = unsafe { libc::ioctl(epoll.as_raw_fd(), EPIOCSPARAMS, &raw const params) };
    done(result).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTTY | libc::EINVAL) => {
            io::Error::new(io::ErrorKind::Unsupported, "busy polling by epoll needs Linux 6.9 or later")
        }
        _ => error,
    })
}

fn storage_size() -> socklen_t {
    socklen_t::try_from(size_of::<libc::sockaddr_storage>()).expect("some hundred bytes")
}

fn from_storage(storage: &libc::sockaddr_storage) -> Address {
    let from: *const libc::sockaddr_storage = storage;
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is, and a storage is large and aligned enough for each.
            let v4 = unsafe { &*from.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Address::Inet(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*from.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Address::Inet(SocketAddr::V6(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id)))
        }
        _ => Address::Unix,
    }
}

/// An address as the kernel wants it, and its length in bytes.
pub(crate) fn to_storage(address: SocketAddr) -> (libc::sockaddr_storage, socklen_t) {
    // SAFETY: all zeros is a valid address of no family.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let into: *mut libc::sockaddr_storage = &raw mut storage;
    let size = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: a storage is large and aligned enough for each kind of address.
            let place = unsafe { &mut *into.cast::<libc::sockaddr_in>() };
            place.sin_family = libc::sa_family_t::try_from(libc::AF_INET).expect("families are small");
            place.sin_port = v4.port().to_be();
            place.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let place = unsafe { &mut *into.cast::<libc::sockaddr_in6>() };
            place.sin6_family = libc::sa_family_t::try_from(libc::AF_INET6).expect("families are small");
            place.sin6_port = v6.port().to_be();
            place.sin6_addr.s6_addr = v6.ip().octets();
            place.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, socklen_t::try_from(size).expect("some bytes"))
}
