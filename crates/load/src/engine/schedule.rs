//! When requests are due.
//!
//! At a rate, a request is due when the schedule says, whatever the server does: the time it takes counts from then, even
//! if it is sent late because the server, or this program, was held up. Counting from the sending would leave out exactly
//! the requests that had to wait (coordinated omission; Tene, "How NOT to Measure Latency").
//!
//! ```text
//!   rate ┤      ╭──────────      requests before t:  rate · t² / 2 · ramp     in the ramp
//!        │   ╭──╯                                    rate · (t − ramp / 2)    behind it
//!      0 ┼───╯──────┴──────
//!        0        ramp       t
//! ```

use crate::chance::Chance;
use crate::float::{float, nanoseconds};

/// How requests follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A connection sends its next batch when the last is answered.
    Closed,
    /// So many requests a second over all connections, evenly spaced.
    Even(f64),
    /// So many a second on average, independent of one another: exponential gaps.
    Poisson(f64),
}

impl Pace {
    /// Requests a second that are meant, over all connections.
    pub fn rate(self) -> Option<f64> {
        match self {
            Pace::Closed => None,
            Pace::Even(rate) | Pace::Poisson(rate) => Some(rate),
        }
    }
}

/// The times of a run at a rate.
pub(crate) struct Schedule {
    pace: Pace,
    began_ns: u64,
    /// While the rate grows from nothing.
    ramp_s: f64,
    /// Requests before the next one, as many as the rate has room for: a whole number where they are evenly spaced.
    position: f64,
    due_ns: u64,
    chance: Chance,
}

impl Schedule {
    /// The first request is due at the beginning of an even schedule, and one gap behind it otherwise.
    pub(crate) fn new(pace: Pace, ramp_ns: u64, began_ns: u64, seed: u64) -> Schedule {
        let (ramp_s, chance) = (float(ramp_ns) / 1e9, Chance::new(seed));
        let mut schedule = Schedule { pace, began_ns, ramp_s, position: 0.0, due_ns: began_ns, chance };
        if matches!(pace, Pace::Poisson(_)) {
            schedule.advance();
        }
        schedule
    }

    /// When the next request is due. None: when it may be, for the pace is closed.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.pace.rate().map(|_| self.due_ns)
    }

    /// The next request is begun.
    pub(crate) fn advance(&mut self) {
        let Some(rate) = self.pace.rate() else { return };
        self.position += match self.pace {
            Pace::Poisson(_) => -self.chance.share().ln(),
            Pace::Closed | Pace::Even(_) => 1.0,
        };
        // From the beginning each time, so that rounding does not add up.
        let behind_ramp_s = self.position / rate - self.ramp_s / 2.0;
        let due_s = if behind_ramp_s >= 0.0 {
            self.ramp_s + behind_ramp_s
        } else {
            (2.0 * self.ramp_s * self.position / rate).sqrt()
        };
        self.due_ns = self.began_ns.saturating_add(nanoseconds(due_s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pace: Pace, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(pace, 0, 1_000, 42);
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(schedule.due_ns().unwrap());
            schedule.advance();
        }
        times
    }

    #[test]
    fn even_times_do_not_drift() {
        // A third of a nanosecond is lost in every gap, and never twice.
        let times = times(Pace::Even(3.0), 3_000_001);
        assert_eq!(times[..4], [1_000, 333_334_333, 666_667_667, 1_000_001_000]);
        assert_eq!(times[3_000_000], 1_000_000_000_001_000);
    }

    /// The gaps have the mean that was asked for, and a share of 1/e is longer than that.
    #[test]
    fn poisson_gaps_are_exponential() {
        let times = times(Pace::Poisson(1e6), 100_001);
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<u64>() / 100_000;
        assert!(mean.abs_diff(1_000) < 15, "{mean}");
        let long = gaps.iter().filter(|&&gap| gap > 1_000).count();
        assert!(long.abs_diff(36_788) < 600, "{long}");
        assert!(times[0] > 1_000);
    }

    /// Half of the rate's requests belong to the ramp, a quarter of these to its first half; then the rate is whole.
    #[test]
    fn a_rate_grows_evenly_in_its_ramp() {
        for (pace, within) in [(Pace::Even(10_000.0), 1), (Pace::Poisson(10_000.0), 300)] {
            let mut schedule = Schedule::new(pace, 4_000_000_000, 7, 1);
            let (mut last_ns, mut counts) = (0, [0_u64; 8]);
            while schedule.due_ns().unwrap() < 8_000_000_000 {
                let due_ns = schedule.due_ns().unwrap();
                assert!(due_ns >= last_ns, "time does not go back");
                last_ns = due_ns;
                counts[usize::try_from(due_ns / 1_000_000_000).unwrap()] += 1;
                schedule.advance();
            }
            let want = [1_250, 3_750, 6_250, 8_750, 10_000, 10_000, 10_000, 10_000];
            assert!(counts.iter().zip(want).all(|(got, want)| got.abs_diff(want) <= within), "{counts:?}");
        }
    }

    #[test]
    fn a_closed_pace_has_no_times() {
        assert_eq!(Schedule::new(Pace::Closed, 0, 5, 1).due_ns(), None);
    }
}
