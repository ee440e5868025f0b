//! How long the kernel has let others run on a lane's cpu. Asking is a system call, so it is not done every turn: after a
//! turn that took too long, and now and then before, so that there is something recent to compare with.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Between two looks when nothing is wrong. What the thread has waited since the last one is blamed on the turn that took too long.
const LOOK_NS: u64 = 10_000_000;

/// How long the calling thread has waited for its cpu, as last seen. All looks are of one thread.
#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    /// Its `schedstat`: nanoseconds it ran, and waited while it could have run (Documentation/scheduler/sched-stats). None before the first look,
    /// and where the kernel is built without.
    statistics: Option<File>,
    waited_ns: u64,
    /// Where there are none: its involuntary context switches.
    switches: i64,
    look_ns: u64,
}

impl Preemptions {
    /// Looks, if the last look is too long ago.
    #[inline]
    pub(crate) fn look_again(&mut self, now_ns: u64) {
        if self.look_ns <= now_ns {
            if self.look_ns == 0 {
                self.statistics = File::open("/proc/thread-self/schedstat").ok();
            }
            self.look_ns = now_ns + LOOK_NS;
            self.waited_ns();
        }
    }

    /// Looks, and says how many nanoseconds the thread has waited since the last look; where the kernel says only that others have
    /// run, as long as there was.
    #[cold]
    pub(crate) fn waited_ns(&mut self) -> u64 {
        if let Some(now_ns) = self.statistics.as_ref().and_then(waited_ns_of) {
            return now_ns.saturating_sub(std::mem::replace(&mut self.waited_ns, now_ns));
        }
        let now = switches();
        let before = std::mem::replace(&mut self.switches, now);
        if before < now { u64::MAX } else { 0 }
    }
}

fn waited_ns_of(statistics: &File) -> Option<u64> {
    let mut text = [0; 64];
    let size = statistics.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..size]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
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
        let mut preemptions = Preemptions { switches: -1, look_ns: 1, ..Preemptions::default() };
        assert_eq!(preemptions.waited_ns(), u64::MAX, "a count is at least zero");
        preemptions.switches = i64::MAX;
        assert_eq!(preemptions.waited_ns(), 0, "and below the greatest number");
        preemptions.switches = -1;
        preemptions.look_again(1);
        assert!(preemptions.switches >= 0 && preemptions.look_ns == 1 + LOOK_NS);
        preemptions.switches = -1;
        preemptions.look_again(LOOK_NS);
        assert_eq!(preemptions.switches, -1, "too early for another look");
    }

    #[test]
    fn what_a_thread_has_waited_is_read() {
        let mut preemptions = Preemptions::default();
        preemptions.look_again(1);
        if preemptions.statistics.is_none() {
            eprintln!("left out: this kernel keeps no schedstat");
            return;
        }
        let before_ns = preemptions.waited_ns;
        // Who gives its cpu away waits until it has it again, if others want it.
        std::thread::yield_now();
        assert_eq!(preemptions.waited_ns(), preemptions.waited_ns - before_ns);
        preemptions.waited_ns = u64::MAX;
        assert_eq!(preemptions.waited_ns(), 0, "nobody has waited less than before");
    }
}
