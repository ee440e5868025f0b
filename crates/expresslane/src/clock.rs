//! The clocks that lanes are given: the instant, read once a turn, and the meter, read at command boundaries.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lane::{Meter, Now};

/// Both clocks of [`Now`]. All lanes share one origin, for instants travel between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// Monotonic time begins one second ago, so that zero never is an instant.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the binary reads the clocks that others are given"
    )]
    pub(crate) fn new() -> Clock {
        let now = Instant::now();
        Clock { origin: now.checked_sub(std::time::Duration::from_secs(1)).unwrap_or(now) }
    }

    /// Reads both clocks: two calls into the vDSO, no system call.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the binary reads the clocks that others are given"
    )]
    pub(crate) fn now(&self) -> Now {
        // A wall clock before 1970 is as good as 1970: nothing expires early.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono_ns: self.mono_ns(), unix_ms: i64::try_from(unix.as_millis()).unwrap_or(i64::MAX) }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the binary reads the clocks that others are given"
    )]
    pub(crate) fn mono_ns(&self) -> u64 {
        // 2^64 ns are 584 years.
        u64::try_from(Instant::now().duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Clock {
    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        u64::try_from(self.now().unix_ms).unwrap_or(0)
    }
}

/// Long enough to see how fast the meter counts to a thousandth, short enough to go unnoticed at a start.
const CALIBRATION_NS: u64 = 1_000_000;

/// Counts of [`Ticks`] in a microsecond, measured now.
pub(crate) fn ticks_per_us(clock: &Clock) -> u64 {
    let (began_ns, began) = (clock.mono_ns(), Ticks.read());
    loop {
        let ns = clock.mono_ns() - began_ns;
        if CALIBRATION_NS <= ns {
            let ticks = Ticks.read().wrapping_sub(began);
            return (ticks / (ns / 1000)).max(1);
        }
        std::hint::spin_loop();
    }
}

/// The processor's own counter: a few nanoseconds a read, against 22 for the clock. Its unit is the processor's
/// affair; what it says is only compared with itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks;

#[cfg(target_arch = "x86_64")]
impl Meter for Ticks {
    #[inline]
    fn read(&self) -> u64 {
        // SAFETY: every x86-64 processor has the time-stamp counter, and Linux leaves it readable (CR4.TSD is clear).
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

#[cfg(target_arch = "aarch64")]
impl Meter for Ticks {
    #[inline]
    fn read(&self) -> u64 {
        let ticks;
        // SAFETY: reads the virtual counter, which Linux opens to user space (CNTKCTL_EL1.EL0VCTEN), into a register.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let clock = Clock::new();
        let (first, second) = (clock.now(), clock.now());
        assert!(0 < first.mono_ns && first.mono_ns <= second.mono_ns);
        assert!(first.unix_ms > 1_600_000_000_000, "milliseconds since 1970");
        let began = Ticks.read();
        let sum: u64 = (0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(Ticks.read() > began, "{sum}");
    }
}
