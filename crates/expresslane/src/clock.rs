//! The clocks that lanes are given: the instant, read once a turn, and the meter, read at command boundaries.

use std::time::{SystemTime, UNIX_EPOCH};

use lane::{Meter, Now};

/// A lane reads the clocks once in so long, and goes by the processor's counter in between, or by the monotonic clock: it hears of a clock that
/// was set no later.
const SPAN_US: u64 = 100;

/// Where the kernel says which clock it goes by itself.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

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

/// A lane's view of the clocks, which it looks at every turn: a look at each of them costs more than one at the processor's counter.
#[derive(Debug)]
pub(crate) struct LaneClock {
    clock: Clock,
    /// What the clocks said when they were read last, and the counter behind that: a thread that is held up in between is late, not early.
    wall_us: u64,
    read_ns: u64,
    read_ticks: u64,
    /// The monotonic time that was given last.
    now_ns: u64,
    /// [`SPAN_US`] in counts, and nanoseconds in 2^32 of them. No span at all where the kernel does not trust the counter.
    span_ticks: u64,
    scale: u64,
}

impl LaneClock {
    /// `ticks_per_us`: see [`ticks_per_us`].
    pub(crate) fn new(clock: Clock, ticks_per_us: u64) -> LaneClock {
        // One that stops or drifts in sleep, or that differs between cpus, is none that the kernel goes by.
        let source = std::fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
        let is_trusted = matches!(source.trim(), "tsc" | "arch_sys_counter");
        let span_ticks = if is_trusted { SPAN_US * ticks_per_us } else { 0 };
        let scale = (1000 << 32) / ticks_per_us.max(1);
        LaneClock { clock, wall_us: 0, read_ns: 0, read_ticks: 0, now_ns: 0, span_ticks, scale }
    }

    /// The instant of a turn that begins, and the meter for it.
    #[inline]
    pub(crate) fn now(&mut self) -> (Now, Ticks) {
        let began = ticks();
        let passed = began.wrapping_sub(self.read_ticks);
        if self.span_ticks <= passed {
            return (self.look(), Ticks { began });
        }
        let passed_ns = (passed * self.scale) >> 32;
        self.now_ns = self.now_ns.max(self.read_ns + passed_ns);
        (at(self.now_ns, self.wall_us + passed_ns / 1000), Ticks { began })
    }

    /// Reads the monotonic clock, and the other one if that is due. The first look is such a one, for no clock stands at zero.
    #[inline(never)]
    fn look(&mut self) -> Now {
        let mono_ns = self.clock.mono_ns();
        if SPAN_US * 1000 <= mono_ns - self.read_ns {
            self.read_ns = mono_ns;
            self.wall_us = wall_us();
            self.read_ticks = ticks();
        }
        self.now_ns = self.now_ns.max(mono_ns);
        at(self.now_ns, self.wall_us + (mono_ns - self.read_ns) / 1000)
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

/// Counts of [`ticks`] in a microsecond, measured now: three times, for a thread that is held up between two looks measures something else.
pub(crate) fn ticks_per_us(clock: &Clock) -> u64 {
    let mut measured = [(); 3].map(|()| measure_ticks(clock));
    measured.sort_unstable();
    measured[1].max(1)
}

fn measure_ticks(clock: &Clock) -> u64 {
    let (began_ns, began) = (clock.mono_ns(), ticks());
    loop {
        let ns = clock.mono_ns() - began_ns;
        if CALIBRATION_NS <= ns {
            return ticks().wrapping_sub(began) / (ns / 1000);
        }
        std::hint::spin_loop();
    }
}

/// The processor's own counter: a few nanoseconds a read, against 22 for the clock. Its unit is the processor's
/// affair; what it says is only compared with itself.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the time-stamp counter, and Linux leaves it readable (CR4.TSD is clear).
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: reads the virtual counter, which Linux opens to user space (CNTKCTL_EL1.EL0VCTEN), into a register.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// [`ticks`] as the meter of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    began: u64,
}

impl Meter for Ticks {
    #[inline]
    fn read(&self) -> u64 {
        ticks()
    }

    #[inline]
    fn began(&self) -> u64 {
        self.began
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
        let mut lane = LaneClock::new(clock, ticks_per_us(&clock));
        let (before, meter) = lane.now();
        assert!(second.mono_ns <= before.mono_ns && second.unix_ms <= before.unix_ms);
        let began = ticks();
        assert!(meter.began() <= began && began <= meter.read());
        let sum: u64 = (0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(ticks() > began, "{sum}");
    }

    #[test]
    fn a_lane_goes_by_the_counter_between_two_looks_at_the_clocks() {
        let clock = Clock::new();
        let mut lane = LaneClock::new(clock, ticks_per_us(&clock));
        // Whatever the kernel trusts here; and long enough for a look not to come in between.
        let per_us = (1000 << 32) / lane.scale;
        lane.span_ticks = 1_000_000 * per_us;
        let (first, _) = lane.now();
        let real_ns = clock.mono_ns();
        let later = loop {
            let (later, _) = lane.now();
            if first.mono_ns + 20_000_000 <= later.mono_ns {
                break later;
            }
        };
        let passed_ns = later.mono_ns - first.mono_ns;
        let real_ns = clock.mono_ns() - real_ns;
        assert!(passed_ns < real_ns + real_ns / 100 + 50_000, "{passed_ns} ns in {real_ns}");
        let wall_us = |now: Now| now.unix_ms * 1000 + i64::from(now.us);
        let wall_passed_us = wall_us(later) - wall_us(first);
        assert_eq!(wall_passed_us, i64::try_from((later.mono_ns - lane.read_ns) / 1000).unwrap());
        // A counter that ran too fast is put right at the next look, and time does not go back.
        lane.scale *= 100;
        let (fast, _) = lane.now();
        assert!(clock.mono_ns() < fast.mono_ns);
        lane.span_ticks = 0;
        let (right, _) = lane.now();
        assert_eq!(right.mono_ns, fast.mono_ns);
        assert!(wall_us(right) < wall_us(fast));
        // Where the counter is not trusted the wall clock is not read each time.
        lane.wall_us = 0;
        let read_ns = lane.read_ns;
        let of_old = |lane: &LaneClock| lane.read_ns == read_ns;
        while of_old(&lane) {
            let (next, _) = lane.now();
            assert!(!of_old(&lane) || wall_us(next) <= 100);
        }
        assert!(lane.wall_us > 0 && read_ns + SPAN_US * 1000 <= lane.read_ns);
    }
}
