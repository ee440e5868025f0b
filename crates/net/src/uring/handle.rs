//! What the kernel is told with each `io_uring_enter(2)` which ring it is for: the place that this thread has registered it at (Linux
//! 5.18; up to 16 rings a thread), or its descriptor where none is left. To the ring of a descriptor the kernel takes a reference each
//! time and gives it back, with an atomic instruction each, for another thread may close it meanwhile.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::IoUring;
use io_uring::types::Timespec;

// include/uapi/linux/io_uring.h
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct Update {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct Argument {
    sigmask: u64,
    sigmask_size: u32,
    min_wait_us: u32,
    timespec: *const Timespec,
}

/// What is asked of an enter.
pub(super) struct Work {
    /// Submissions to take.
    pub(super) count: usize,
    /// Completions to wait for.
    pub(super) want: usize,
    /// What the kernel has put off for this thread is done.
    pub(super) works_off: bool,
}

/// A ring's name. It must be forgotten before the ring goes, by the thread that made it.
pub(super) struct Handle {
    fd: RawFd,
    place: Option<u32>,
}

impl Handle {
    pub(super) fn of(ring: &IoUring) -> Handle {
        let fd = ring.as_raw_fd();
        let data = u64::try_from(fd).expect("a descriptor is not negative");
        // Wherever there is a place.
        let mut update = Update { offset: u32::MAX, reserved: 0, data };
        // SAFETY: it reads and writes this one `Update`.
        let count =
            unsafe { libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, &raw mut update, 1) };
        Handle { fd, place: (count == 1).then_some(update.offset) }
    }

    #[cfg(test)]
    pub(super) fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// The kernel lets go of what it holds for the place.
    pub(super) fn forget(&mut self) {
        let Some(offset) = self.place.take() else { return };
        let update = Update { offset, reserved: 0, data: 0 };
        // SAFETY: it reads this one `Update`.
        unsafe {
            libc::syscall(libc::SYS_io_uring_register, self.fd, UNREGISTER_RING_FDS, &raw const update, 1)
        };
    }

    /// Sleeps for `timeout_ns` at most (`None`: until there is what is wanted).
    ///
    /// # Errors
    /// As `io_uring_enter(2)`.
    ///
    /// # Safety
    /// What the submissions point to lives as long as the kernel uses it.
    pub(super) unsafe fn enter(&self, work: &Work, timeout_ns: Option<u64>) -> io::Result<()> {
        const SECOND_NS: u64 = 1_000_000_000;
        let timespec = timeout_ns.map(|nanoseconds| {
            let part = u32::try_from(nanoseconds % SECOND_NS).expect("below a thousand million");
            Timespec::new().sec(nanoseconds / SECOND_NS).nsec(part)
        });
        let argument = timespec.as_ref().map(|timespec| Argument {
            sigmask: 0,
            sigmask_size: 0,
            min_wait_us: 0,
            timespec: &raw const *timespec,
        });
        let (pointer, size, timed) = match &argument {
            Some(argument) => (&raw const *argument, size_of::<Argument>(), ENTER_EXT_ARG),
            None => (std::ptr::null(), 0, 0),
        };
        let (name, named) = match self.place {
            Some(place) => (i64::from(place), ENTER_REGISTERED_RING),
            None => (i64::from(self.fd), 0),
        };
        let flags = named | timed | if work.works_off { ENTER_GETEVENTS } else { 0 };
        // SAFETY: the argument and its time live until the call returns; for the rest the caller answers.
        let result = unsafe {
            libc::syscall(libc::SYS_io_uring_enter, name, work.count, work.want, flags, pointer, size)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread has sixteen places; rings beyond go by their descriptors, and a place is free again behind its ring.
    #[test]
    fn rings_beyond_a_threads_places_go_by_their_descriptors() {
        let Ok(rings) = (0..18).map(|_| IoUring::new(2)).collect::<io::Result<Vec<_>>>() else {
            eprintln!("left out: io_uring can't be had");
            return;
        };
        let mut handles: Vec<_> = rings.iter().map(Handle::of).collect();
        let placed = |handles: &[Handle]| handles.iter().filter(|handle| handle.has_place()).count();
        assert_eq!(placed(&handles), 16);
        let look = Work { count: 0, want: 0, works_off: true };
        for handle in &handles {
            // SAFETY: nothing is submitted.
            unsafe { handle.enter(&look, None) }.unwrap();
            // SAFETY: as above. Nothing comes, so the time runs out.
            let error = unsafe { handle.enter(&Work { want: 1, ..look }, Some(1000)) }.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ETIME));
        }
        handles.iter_mut().for_each(Handle::forget);
        assert_eq!(placed(&rings[..16].iter().map(Handle::of).collect::<Vec<_>>()), 16);
    }
}
