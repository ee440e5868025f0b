//! Seconds of several engines, or of several hosts, added by their number. Histograms are added; nothing is averaged.

use std::collections::BTreeMap;

use crate::record::Second;

/// Seconds that not all sources are through with.
pub struct Merge {
    seconds: BTreeMap<u32, Second>,
    /// Of each source the number of the second it is in. None: it has ended.
    at: Vec<Option<u32>>,
}

impl Merge {
    /// So many sources run.
    pub fn new(source_count: usize) -> Merge {
        Merge { seconds: BTreeMap::new(), at: vec![Some(0); source_count] }
    }

    /// A source is through with this second, and with those before it.
    pub fn add(&mut self, source: usize, second: &Second) {
        self.sum(second);
        self.at[source] = Some(second.number + 1);
    }

    /// A source has ended, with what there is of its last second.
    pub fn end(&mut self, source: usize, last: Option<&Second>) {
        if let Some(last) = last {
            self.sum(last);
        }
        self.at[source] = None;
    }

    fn sum(&mut self, second: &Second) {
        match self.seconds.get_mut(&second.number) {
            Some(sum) => sum.add(second),
            None => {
                self.seconds.insert(second.number, second.clone());
            }
        }
    }

    /// The oldest, if the sources that still run are all through with it.
    pub fn take(&mut self) -> Option<Second> {
        let oldest = self.seconds.first_entry()?;
        let number = *oldest.key();
        self.at.iter().flatten().all(|at| *at > number).then(|| oldest.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Operation;

    fn second(number: u32, begun: u64) -> Second {
        Second { number, begun, ..Second::new([Operation::Get].into_iter()) }
    }

    fn shown(merge: &mut Merge) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| merge.take()).map(|second| (second.number, second.begun)).collect()
    }

    /// One engine of three ends early: its last second is part of the others', and none comes twice or out of order.
    #[test]
    fn a_second_is_shown_once_all_are_through_with_it() {
        let mut merge = Merge::new(3);
        merge.add(0, &second(0, 1));
        merge.add(0, &second(1, 1));
        merge.add(1, &second(0, 10));
        assert_eq!(shown(&mut merge), []);
        merge.add(2, &second(0, 100));
        assert_eq!(shown(&mut merge), [(0, 111)]);
        merge.add(1, &second(1, 10));
        merge.end(2, Some(&second(1, 100)));
        assert_eq!(shown(&mut merge), [(1, 111)]);
        merge.add(0, &second(2, 1));
        merge.end(1, Some(&second(2, 10)));
        assert_eq!(shown(&mut merge), [(2, 11)]);
        merge.end(0, Some(&second(3, 1)));
        assert_eq!(shown(&mut merge), [(3, 1)]);
    }

    /// What a fast source has seen waits for a slow one, also when the fast one has ended, or was lost, meanwhile.
    #[test]
    fn a_slow_source_is_waited_for_when_the_fast_one_has_ended() {
        for last in [Some(second(2, 1)), None] {
            let mut merge = Merge::new(2);
            merge.add(0, &second(0, 1));
            merge.add(0, &second(1, 1));
            merge.end(0, last.as_ref());
            assert_eq!(shown(&mut merge), [], "the other one has not handed over its second 0");
            merge.add(1, &second(0, 10));
            assert_eq!(shown(&mut merge), [(0, 11)]);
            merge.end(1, None);
            assert_eq!(shown(&mut merge)[0], (1, 1));
        }
    }

    /// The percentiles of two hosts together are those of one host that had seen everything, to the last digit.
    #[test]
    fn seconds_of_two_hosts_are_what_one_host_would_have_seen() {
        let mut chance = crate::chance::Chance::new(11);
        let (mut one, mut two, mut whole) = (second(0, 0), second(0, 0), second(0, 0));
        for count in 0..20_000 {
            // One host is a hundred times as slow as the other: a mean of percentiles would be neither's.
            let host = if count % 3 == 0 { &mut one } else { &mut two };
            let ns = if count % 3 == 0 { 50_000_000 } else { 500_000 } + chance.below(400_000);
            for record in [host, &mut whole] {
                record.operations[0].response.record(ns).unwrap();
                record.operations[0].service.record(ns / 2).unwrap();
                record.send_lag.record(ns / 10).unwrap();
                record.parts[3].0 += 1;
                record.parts[3].1 += ns;
                record.begun += 1;
            }
        }
        let mut merge = Merge::new(2);
        merge.add(0, &one);
        assert_eq!(merge.take(), None, "the other one is not through with it");
        merge.add(1, &two);
        assert_eq!(merge.take(), Some(whole));
    }
}
