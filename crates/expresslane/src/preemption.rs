//! Whether the kernel has let others run on a lane's cpu. Asking is a system call, so it is not done every turn: after a
//! turn that took too long, and now and then before, so that there is something recent to compare with.

/// Between two looks when nothing is wrong. What happened since the last one is blamed on the turn that took too long.
const LOOK_NS: u64 = 10_000_000;

/// The involuntary context switches of the calling thread, as last seen.
#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    seen: i64,
    look_ns: u64,
}

impl Preemptions {
    /// Looks, if the last look is too long ago.
    #[inline]
    pub(crate) fn look_again(&mut self, now_ns: u64) {
        if self.look_ns <= now_ns {
            self.look_ns = now_ns + LOOK_NS;
            self.seen = switches();
        }
    }

    /// Looks, and says whether there were more than at the last look.
    #[cold]
    pub(crate) fn has_grown(&mut self) -> bool {
        let now = switches();
        let has_grown = self.seen < now;
        self.seen = now;
        has_grown
    }
}

/// Involuntary context switches of the calling thread; 0 where the kernel does not say.
fn switches() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable and of the type that the call fills.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: a rusage of zeroes is one, and the call has filled it.
    unsafe { usage.assume_init() }.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_compared_with_the_one_before() {
        let mut preemptions = Preemptions { seen: -1, look_ns: 0 };
        assert!(preemptions.has_grown(), "a count is at least zero");
        preemptions.seen = i64::MAX;
        assert!(!preemptions.has_grown(), "and below the greatest number");
        preemptions.seen = -1;
        preemptions.look_again(1);
        assert!(preemptions.seen >= 0 && preemptions.look_ns == 1 + LOOK_NS);
        preemptions.seen = -1;
        preemptions.look_again(LOOK_NS);
        assert_eq!(preemptions.seen, -1, "too early for another look");
    }
}
