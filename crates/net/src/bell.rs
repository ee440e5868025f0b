//! What wakes a sleeping net from another thread.
//!
//! The eventfd is registered edge-triggered: each write makes one event even if the counter is not zero, so the
//! sleeper never reads it (the counter would overflow, and a write fail, only after 2^64 − 1 rings).

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a net's `wait` from any thread; see [`Wait::bell`](crate::Wait::bell). A ring that comes before the sleep
/// ends that sleep at once, so none is lost. It costs a system call: whoever knows that the lane is awake does not
/// ring.
#[derive(Clone, Debug)]
pub struct Bell(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Event(Arc<OwnedFd>),
    Flag(Arc<AtomicBool>),
}

impl Bell {
    /// Over an eventfd.
    pub(crate) fn event(fd: Arc<OwnedFd>) -> Bell {
        Bell(Kind::Event(fd))
    }

    /// Over a flag, for a net in memory, whose `wait` never sleeps.
    pub(crate) fn flag(flag: Arc<AtomicBool>) -> Bell {
        Bell(Kind::Flag(flag))
    }

    /// Wakes the sleeper, or makes its next sleep end at once.
    pub fn ring(&self) {
        match &self.0 {
            Kind::Flag(flag) => flag.store(true, Ordering::Release),
            Kind::Event(fd) => {
                let one = 1u64.to_ne_bytes();
                // SAFETY: `one` is eight readable bytes, which outlive the call.
                let size = unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
                assert!(size == 8, "an eventfd whose counter is never full takes eight bytes");
            }
        }
    }
}
