//! How far an agent's clock is from the coordinator's, and how sure that is.
//!
//! ```text
//! coordinator   sent ────────────────────────── back            offset = ((received − sent) + (answered − back)) ÷ 2
//! agent              ╲ received ── answered ╱                   round trip = (back − sent) − (answered − received)
//! ```
//! However the way there and the way back share the round trip, the offset is off by at most half of it (Mills, RFC 5905,
//! section 8). So the sample with the shortest round trip is taken, and its half is the bound. Both clocks are monotonic: where
//! their zeros are says nothing, and a wall clock that is set meanwhile changes nothing.

use serde::{Deserialize, Serialize};

/// Four times of one question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The coordinator sent it, by the coordinator's clock.
    pub sent_ns: u64,
    /// The agent received it, by the agent's.
    pub received_ns: u64,
    /// The agent answered, by the agent's.
    pub answered_ns: u64,
    /// The answer was back, by the coordinator's.
    pub back_ns: u64,
}

/// What is known of an agent's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// The agent's clock minus the coordinator's.
    pub offset_ns: i64,
    /// It is off by no more than this.
    pub error_ns: u64,
}

impl Offset {
    /// From the sample with the shortest round trip. None: there is no sample that can be.
    pub fn of(samples: impl IntoIterator<Item = Sample>) -> Option<Offset> {
        samples.into_iter().filter_map(Offset::of_one).min_by_key(|offset| offset.error_ns)
    }

    fn of_one(sample: Sample) -> Option<Offset> {
        let Sample { sent_ns, received_ns, answered_ns, back_ns } = sample;
        let there_and_back_ns = back_ns.checked_sub(sent_ns)?;
        let round_trip_ns = there_and_back_ns.checked_sub(answered_ns.checked_sub(received_ns)?)?;
        let ns = i128::from;
        let twice_ns = (ns(received_ns) - ns(sent_ns)) + (ns(answered_ns) - ns(back_ns));
        Some(Offset {
            offset_ns: i64::try_from(twice_ns.div_euclid(2)).ok()?,
            // One more for the halves.
            error_ns: round_trip_ns / 2 + 1,
        })
    }

    /// What the agent's clock says when the coordinator's says this. None: before its zero.
    pub fn theirs_ns(&self, ours_ns: u64) -> Option<u64> {
        ours_ns.checked_add_signed(self.offset_ns)
    }
}

/// How far an agent's wall clock is ahead of the coordinator's, both in milliseconds.
pub fn skew_ms(theirs_ms: u64, ours_ms: u64) -> i64 {
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    signed(theirs_ms).saturating_sub(signed(ours_ms))
}

/// When an agent was at a point that all should be at together, by the coordinator's clock, in nanoseconds from when it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its own measure.
    pub at_ns: i64,
    /// By how much that may be wrong.
    pub error_ns: u64,
}

/// The longest that any two of them can have been apart. One alone is never apart.
pub fn spread_ns(marks: &[Mark]) -> u64 {
    if marks.len() < 2 {
        return 0;
    }
    let (at, error) = (|mark: &Mark| i128::from(mark.at_ns), |mark: &Mark| i128::from(mark.error_ns));
    // The widest of all pairs: the bounds of one agent are not held against itself.
    let pairs = marks.iter().enumerate().flat_map(|(index, late)| {
        let others = marks.iter().enumerate().filter(move |(other, _)| *other != index);
        others.map(move |(_, early)| at(late) + error(late) - (at(early) - error(early)))
    });
    u64::try_from(pairs.max().unwrap_or(0).max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// An agent whose clock is `offset_ns` ahead, over ways of so many nanoseconds there and back, answering after `busy_ns`.
    fn sample(sent_ns: u64, offset_ns: i64, there_ns: u64, busy_ns: u64, back_ns: u64) -> Sample {
        let received_ns = (sent_ns + there_ns).checked_add_signed(offset_ns).unwrap();
        let back_ns = sent_ns + there_ns + busy_ns + back_ns;
        Sample { sent_ns, received_ns, answered_ns: received_ns + busy_ns, back_ns }
    }

    #[test]
    fn an_even_way_gives_the_offset_itself() {
        for offset_ns in [0, 5_000_000_000, -3_000_000_001] {
            let offset = Offset::of([sample(10_000_000_000, offset_ns, 40_000, 7_000, 40_000)]).unwrap();
            assert!(offset.offset_ns.abs_diff(offset_ns) <= 1, "{offset:?}");
            assert_eq!(offset.error_ns, 40_001, "what the agent was busy is none of the way");
            assert_eq!(offset.theirs_ns(20_000_000_000), 20_000_000_000_u64.checked_add_signed(offset_ns));
        }
    }

    /// Whatever the ways are, the truth lies within the bound.
    #[test]
    fn the_truth_lies_within_the_bound() {
        let mut chance = Chance::new(3);
        for _ in 0..10_000 {
            let offset_ns = i64::try_from(chance.below(1 << 40)).unwrap() - (1 << 39);
            let samples: Vec<Sample> = (0..8)
                .map(|number| {
                    let sent_ns = (1 << 41) + number * 1_000_000;
                    let [there, busy, back] = [(); 3].map(|()| chance.below(2_000_000));
                    sample(sent_ns, offset_ns, there, busy, back)
                })
                .collect();
            let offset = Offset::of(samples.iter().copied()).unwrap();
            assert!(offset.offset_ns.abs_diff(offset_ns) <= offset.error_ns, "{offset:?} of {offset_ns}");
            let alone = samples.into_iter().map(|sample| Offset::of([sample]).unwrap().error_ns);
            assert_eq!(Some(offset.error_ns), alone.min(), "the shortest round trip");
        }
    }

    #[test]
    fn what_can_not_be_is_left_out() {
        let good = sample(1_000_000, 500, 10, 0, 10);
        let wrong = [
            Sample { back_ns: good.sent_ns - 1, ..good },
            Sample { answered_ns: good.received_ns - 1, ..good },
            // It was busy for longer than the answer took.
            Sample { answered_ns: good.received_ns + 21, ..good },
            Sample { received_ns: u64::MAX, answered_ns: u64::MAX, sent_ns: 0, back_ns: 5 },
        ];
        for sample in wrong {
            assert_eq!(Offset::of([sample]), None, "{sample:?}");
        }
        assert_eq!(Offset::of(wrong.into_iter().chain([good])).unwrap().offset_ns, 500);
        assert_eq!(Offset::of([]), None);
        assert_eq!(Offset { offset_ns: -5, error_ns: 0 }.theirs_ns(3), None);
    }

    #[test]
    fn a_skew_has_a_sign() {
        assert_eq!([skew_ms(5, 3), skew_ms(3, 5), skew_ms(u64::MAX, 0)], [2, -2, i64::MAX]);
    }

    #[test]
    fn a_spread_is_between_two() {
        let mark = |at_ns, error_ns| Mark { at_ns, error_ns };
        assert_eq!(spread_ns(&[]), 0);
        assert_eq!(spread_ns(&[mark(5_000, 900)]), 0, "one is never apart");
        assert_eq!(spread_ns(&[mark(100, 10), mark(-100, 20)]), 230);
        assert_eq!(
            spread_ns(&[mark(0, 500), mark(0, 1), mark(0, 2)]),
            502,
            "not an agent's bounds with itself"
        );
        assert_eq!(spread_ns(&[mark(i64::MAX, u64::MAX), mark(i64::MIN, 0)]), u64::MAX);
    }
}
