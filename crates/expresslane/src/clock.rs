//! The clocks that lanes are given: the instant, read once a turn, and the meter, read at command boundaries.

use std::time::{SystemTime, UNIX_EPOCH};

use lane::{Meter, Now};

/// A lane reads the wall clock once in so long, and goes by the monotonic one in between: it hears of a clock that was set no later.
const WALL_NS: u64 = 100_000;

/// Both clocks of [`Now`]. All lanes share one origin, for instants travel between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Of the system's monotonic clock.
    origin_ns: u64,
}

impl Clock {
    /// Monotonic time begins one second ago, so that zero never is an instant.
    pub(crate) fn new() -> Clock {
        Clock { origin_ns: monotonic_ns().saturating_sub(1_000_000_000) }
    }

    /// Reads both clocks: two calls into the vDSO, no system call.
    pub(crate) fn now(&self) -> Now {
        at(self.mono_ns(), wall_us())
    }

    #[inline]
    pub(crate) fn mono_ns(&self) -> u64 {
        monotonic_ns() - self.origin_ns
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        u64::try_from(self.now().unix_ms).unwrap_or(0)
    }
}

/// A lane's view of the clocks, which it looks at every turn: a look at the wall clock costs more than one at the monotonic clock.
#[derive(Debug)]
pub(crate) struct LaneClock {
    clock: Clock,
    wall_us: u64,
    /// When that was read.
    read_ns: u64,
}

impl LaneClock {
    pub(crate) fn new(clock: Clock) -> LaneClock {
        LaneClock { clock, wall_us: wall_us(), read_ns: clock.mono_ns() }
    }

    #[inline]
    pub(crate) fn now(&mut self) -> Now {
        let mono_ns = self.clock.mono_ns();
        if WALL_NS <= mono_ns - self.read_ns {
            self.wall_us = wall_us();
            self.read_ns = mono_ns;
        }
        at(mono_ns, self.wall_us + (mono_ns - self.read_ns) / 1000)
    }
}

#[inline]
fn at(mono_ns: u64, wall_us: u64) -> Now {
    let unix_ms = i64::try_from(wall_us / 1000).expect("a thousandth of 64 bits");
    Now { mono_ns, unix_ms, us: u16::try_from(wall_us % 1000).expect("below a thousand") }
}

/// The clock that [`std::time::Instant`] reads, as a number.
#[inline]
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and of the type that the call fills. It can't fail: the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // 2^63 ns are 292 years.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where the binary reads the clocks that others are given"
)]
fn wall_us() -> u64 {
    // A wall clock before 1970 is as good as 1970: nothing expires early. 2^64 µs are half a million years.
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(unix.as_micros()).unwrap_or(u64::MAX / 2)
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
        let mut lane = LaneClock::new(clock);
        let before = lane.now();
        assert!(second.mono_ns <= before.mono_ns && second.unix_ms <= before.unix_ms);
        // In between the monotonic clock is its measure, to the microsecond.
        let next = loop {
            (lane.wall_us, lane.read_ns) = (1_999, clock.mono_ns() - 5_000);
            let next = lane.now();
            // Unless it was late.
            if lane.wall_us == 1_999 {
                break next;
            }
        };
        let passed_us = (next.mono_ns - lane.read_ns) / 1000;
        assert_eq!(next.unix_ms * 1000 + i64::from(next.us), 1_999 + i64::try_from(passed_us).unwrap());
        // The wall clock is looked at again, after so long and not before.
        lane.wall_us = 0;
        let read_ns = lane.read_ns;
        let next =
            std::iter::repeat_with(|| lane.now()).find(|now| now.unix_ms > 1_000).expect("it never ends");
        assert!(read_ns + WALL_NS <= next.mono_ns && before.unix_ms <= next.unix_ms);
        let began = Ticks.read();
        let sum: u64 = (0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(Ticks.read() > began, "{sum}");
    }
}
