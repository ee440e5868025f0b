//! What no file tells: the machine's architecture and the driver's settings of a link. Asked through a seam, so that a
//! made-up tree is not mixed with the machine that reads it.

use std::ffi::CStr;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The request number under which the kernel takes commands for a link's driver: linux/sockios.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// Words of a driver's answer: the largest structure that is asked for has 49. The kernel writes as much as the command's
/// structure holds, however much room there is.
pub const ANSWER_WORDS_COUNT: usize = 64;

/// A driver's answer, as words; texts in it are bytes in the machine's order.
pub type Answer = [u32; ANSWER_WORDS_COUNT];

/// The few questions beside files.
pub trait System {
    /// The architecture as `uname -m` prints it.
    fn machine(&self) -> Option<String>;

    /// Asks a link's driver with one of the commands of `linux/ethtool.h` that only read and whose structure is not larger
    /// than an [`Answer`]. The command is the first word of it; what the driver does not write is zero. None: the link, the
    /// driver or the permission is missing.
    fn link(&self, name: &str, command: u32) -> Option<Answer>;
}

/// This machine's kernel.
#[derive(Debug)]
pub struct Kernel {
    socket: Option<OwnedFd>,
}

/// Answers nothing: for a tree of files that is not this machine's.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl System for Silent {
    fn machine(&self) -> Option<String> {
        None
    }

    fn link(&self, _name: &str, _command: u32) -> Option<Answer> {
        None
    }
}

impl Kernel {
    /// Opens the socket through which links are asked; where that is forbidden, links answer nothing.
    pub fn new() -> Kernel {
        // SAFETY: no pointer is passed.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        // SAFETY: a non-negative result is a new descriptor that nobody else owns.
        let socket = (0 <= socket).then(|| unsafe { OwnedFd::from_raw_fd(socket) });
        Kernel { socket }
    }
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel::new()
    }
}

impl System for Kernel {
    fn machine(&self) -> Option<String> {
        // SAFETY: the structure is arrays of characters, for which zeros are valid.
        let mut names: libc::utsname = unsafe { mem::zeroed() };
        // SAFETY: `names` is writable during the call.
        if unsafe { libc::uname(&raw mut names) } != 0 {
            return None;
        }
        // SAFETY: the kernel ends each name with a zero, within its array.
        let machine = unsafe { CStr::from_ptr(names.machine.as_ptr()) };
        Some(machine.to_string_lossy().into_owned())
    }

    fn link(&self, name: &str, command: u32) -> Option<Answer> {
        // Commands that change something, or whose answer has no fixed size, are a mistake of the caller.
        assert!(
            super::ethtool::READING_COMMANDS.contains(&command),
            "a command that reads a fixed structure"
        );
        let mut answer = [0; ANSWER_WORDS_COUNT];
        answer[0] = command;
        // SAFETY: the structure is plain numbers, characters and pointers, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        // One place stays for the zero at the end.
        if request.ifr_name.len() <= name.len() {
            return None;
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
        let socket = self.socket.as_ref()?.as_raw_fd();
        // SAFETY: `request` and the answer it points to outlive the call, and the answer is larger than the structure of
        // each command that the assertion lets through (`READING_COMMANDS` has their sizes).
        let result = unsafe { libc::ioctl(socket, SIOCETHTOOL as _, &raw mut request) };
        (result == 0).then_some(answer)
    }
}
