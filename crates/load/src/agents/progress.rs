//! What a coordinator believes of an agent's load. An agent knows the secret, and may still be broken: what it says is looked at
//! before it is added to what others say, for a sum can't be taken apart.

use super::Breach;
use super::message::{Done, Reported};
use crate::workload::{Operation, Workload};

/// Counts and sums of nanoseconds up to here can be added over [`super::AGENTS_MAX`] agents. It is the response times of four
/// million requests of 36 s each.
const COUNT_MAX: u64 = 1 << 57;

/// Counters of the kernel that a second may have, and bytes of the name of one. There are three dozen.
const COUNTERS_MAX: usize = 128;
const COUNTER_NAME_SIZE_MAX: usize = 64;

/// One agent's load.
pub struct Progress {
    mix: Vec<Operation>,
    /// The number of the second that comes next.
    next: u32,
    is_done: bool,
}

impl Progress {
    /// It has begun.
    pub fn new(workload: &Workload) -> Progress {
        let mix = workload.operations.0.iter().map(|(operation, _)| *operation).collect();
        Progress { mix, next: 0, is_done: false }
    }

    /// The number of the second that comes next.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// A second has come.
    ///
    /// # Errors
    /// It can't be added to others.
    pub fn second(&mut self, reported: &Reported) -> Result<(), Breach> {
        let Reported { second, counters } = reported;
        if self.is_done {
            return Err(Breach::Untimely("a second, after the end".to_owned()));
        }
        if second.number != self.next {
            let text = format!("second {}, where {} comes next", second.number, self.next);
            return Err(Breach::Untimely(text));
        }
        if !second.operations.iter().map(|operation| operation.operation).eq(self.mix.iter().copied()) {
            return Err(Breach::Nonsense("a second of other operations".to_owned()));
        }
        let operations = second.operations.iter();
        let counts = operations.flat_map(|it| [it.errors, it.misses, it.wrong, it.response.len()]);
        let parts = second.parts.iter().flat_map(|(count, sum_ns)| [*count, *sum_ns]);
        let mut all = counts.chain(parts).chain([second.begun, second.moved, second.in_flight_max]);
        if all.any(|count| count > COUNT_MAX) {
            return Err(Breach::Nonsense("more than can be counted".to_owned()));
        }
        if counters.len() > COUNTERS_MAX || counters.keys().any(|name| name.len() > COUNTER_NAME_SIZE_MAX) {
            return Err(Breach::Nonsense("a kernel that counts too much".to_owned()));
        }
        self.next += 1;
        Ok(())
    }

    /// The end has come.
    ///
    /// # Errors
    /// It has come before, or holds what can't be.
    pub fn done(&mut self, done: &Done) -> Result<(), Breach> {
        if std::mem::replace(&mut self.is_done, true) {
            return Err(Breach::Untimely("a second end".to_owned()));
        }
        let shares = done.thread_use.iter().chain([&done.last_share]);
        let is_share = |share: &f64| (0.0..=1e3).contains(share);
        if !shares.into_iter().all(is_share) || done.answered.max(done.unanswered) > COUNT_MAX {
            return Err(Breach::Nonsense("an end with figures that can't be".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::Second;

    fn of(second: Second) -> Reported {
        Reported { second, counters: BTreeMap::new() }
    }

    fn second(number: u32) -> Reported {
        of(Second { number, ..Second::new([Operation::Get].into_iter()) })
    }

    fn begun() -> Progress {
        Progress::new(&Workload::default())
    }

    #[test]
    fn seconds_come_in_their_order_and_then_the_end() {
        let mut progress = begun();
        for number in 0..3 {
            progress.second(&second(number)).unwrap();
        }
        assert_eq!(progress.next(), 3);
        progress.done(&Done::default()).unwrap();
        assert!(matches!(progress.second(&second(3)), Err(Breach::Untimely(_))));
        assert!(matches!(progress.done(&Done::default()), Err(Breach::Untimely(_))));
    }

    #[test]
    fn what_can_not_be_added_is_refused() {
        assert!(begun().second(&second(1)).is_err(), "one was left out");
        for operations in [vec![], vec![Operation::Set], vec![Operation::Get, Operation::Set]] {
            let other = of(Second::new(operations.into_iter()));
            assert!(matches!(begun().second(&other), Err(Breach::Nonsense(_))));
        }
        let spoilt: [fn(&mut Second); 9] = [
            |second| second.operations[0].errors = COUNT_MAX + 1,
            |second| second.operations[0].wrong = COUNT_MAX + 1,
            |second| second.operations[0].response.record_n(1, COUNT_MAX + 1).unwrap(),
            |second| second.parts[9].0 = COUNT_MAX + 1,
            |second| second.begun = u64::MAX,
            |second| second.moved = u64::MAX,
            |second| second.in_flight_max = u64::MAX,
            |second| second.parts[9].1 = COUNT_MAX + 1,
            |second| second.operations[0].misses = u64::MAX,
        ];
        for spoil in spoilt {
            let mut reported = second(0);
            spoil(&mut reported.second);
            assert!(matches!(begun().second(&reported), Err(Breach::Nonsense(_))), "{reported:?}");
        }
        for (count, name_size, want) in [
            (COUNTERS_MAX, COUNTER_NAME_SIZE_MAX, true),
            (COUNTERS_MAX + 1, COUNTER_NAME_SIZE_MAX, false),
            (1, COUNTER_NAME_SIZE_MAX + 1, false),
        ] {
            let mut reported = second(0);
            reported.counters = (0..count).map(|index| (format!("{index:0name_size$}"), 1.0)).collect();
            assert_eq!(begun().second(&reported).is_ok(), want, "{count} of {name_size} bytes");
        }
        for share in [f64::NAN, f64::INFINITY, -1.0, 1001.0] {
            assert!(begun().done(&Done { last_share: share, ..Done::default() }).is_err());
            assert!(begun().done(&Done { thread_use: vec![0.5, share], ..Done::default() }).is_err());
        }
        assert!(begun().done(&Done { answered: COUNT_MAX + 1, ..Done::default() }).is_err());
        assert!(begun().done(&Done { unanswered: COUNT_MAX + 1, ..Done::default() }).is_err());
        assert!(begun().done(&Done { answered: COUNT_MAX, last_share: 1.0, ..Done::default() }).is_ok());
    }
}
