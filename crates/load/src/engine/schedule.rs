//! When requests are due.
//!
//! At a rate, a request is due when the schedule says, whatever the server does: the time it takes counts from then, even
//! if it is sent late because the server, or this program, was held up. Counting from the sending would leave out exactly
//! the requests that had to wait (coordinated omission; Tene, "How NOT to Measure Latency").

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
    /// Requests before the next one.
    count: u64,
    due_ns: u64,
    chance: Chance,
}

impl Schedule {
    /// The first request is due at the beginning of an even schedule, and one gap behind it otherwise.
    pub(crate) fn new(pace: Pace, began_ns: u64, seed: u64) -> Schedule {
        let mut schedule = Schedule { pace, began_ns, count: 0, due_ns: began_ns, chance: Chance::new(seed) };
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
        self.count += 1;
        self.due_ns = match self.pace {
            Pace::Closed => self.began_ns,
            // From the beginning each time, so that rounding does not add up.
            Pace::Even(rate) => self.began_ns.saturating_add(nanoseconds(float(self.count) / rate)),
            Pace::Poisson(rate) => self.due_ns.saturating_add(nanoseconds(-self.chance.share().ln() / rate)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pace: Pace, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(pace, 1_000, 42);
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

    #[test]
    fn a_closed_pace_has_no_times() {
        assert_eq!(Schedule::new(Pace::Closed, 5, 1).due_ns(), None);
    }
}
