//! Records of all lanes become one stream of commands: in the order of their numbers, those of one transaction together.

use std::collections::BTreeMap;

use crate::feed::{Record, Unit, Whose};

/// What comes next in the stream.
pub(super) enum Merged {
    /// Each of these is carried out by itself.
    Apart(Vec<Unit>),
    /// Each of the first is carried out by itself, then all of the others at once.
    Together(Vec<Unit>, Vec<Unit>),
    /// Here a snapshot begins.
    Sync(u64),
}

/// See the top of this file.
#[derive(Default)]
pub(super) struct Merger {
    /// The next number in the stream. None until the first snapshot has begun on all lanes.
    next: Option<u64>,
    /// By number; none in place of one that has gone into the stream with others of its transaction.
    waiting: BTreeMap<u64, Option<Record>>,
    /// Numbers of the records of transactions over several lanes.
    parts: BTreeMap<Whose, Vec<u64>>,
    /// Bytes of the commands that wait.
    waiting_size: usize,
    /// The last number that there is. Those up to it that are not here will not come.
    end: Option<u64>,
}

impl Merger {
    /// Takes a record, in whatever order they come.
    pub(super) fn add(&mut self, record: Record) {
        if let Some((whose, lane_count)) = record.whose
            && lane_count > 1
        {
            self.parts.entry(whose).or_default().push(record.number);
        }
        self.waiting_size += record.size;
        self.waiting.insert(record.number, Some(record));
    }

    /// Bytes of the commands that wait for others.
    pub(super) fn waiting_size(&self) -> usize {
        self.waiting_size
    }

    /// Whether everything up to a number is in the stream.
    pub(super) fn has_passed(&self, number: u64) -> bool {
        self.next.is_some_and(|next| number < next)
    }

    /// The last number in the stream.
    pub(super) fn passed(&self) -> u64 {
        self.next.map_or(0, |next| next - 1)
    }

    /// Nothing more comes, and `newest` was the last number: what was not over is left out of the stream, as a whole.
    pub(super) fn close(&mut self, newest: u64) {
        self.end = Some(newest);
    }

    /// Drops what will not become whole, as far as it stands in the way of what is.
    fn skip(&mut self, end: u64) {
        while let Some(next) = self.next.filter(|next| *next <= end) {
            match self.waiting.get(&next) {
                None => {}
                Some(None) => {
                    self.waiting.remove(&next);
                }
                Some(Some(record)) => {
                    let is_whole = record.whose.is_none_or(|(whose, lane_count)| {
                        lane_count <= 1
                            || self.parts.get(&whose).is_some_and(|numbers| numbers.len() == lane_count)
                    });
                    if is_whole {
                        return;
                    }
                    self.waiting_size -= record.size;
                    self.waiting.remove(&next);
                }
            }
            self.next = Some(next + 1);
        }
    }

    /// What comes next, if all of it is here.
    pub(super) fn take(&mut self) -> Option<Merged> {
        if let Some(end) = self.end {
            self.skip(end);
        }
        let next = match self.next {
            Some(next) => next,
            None => self.first()?,
        };
        self.next = Some(next);
        let mut next = next;
        while let Some(None) = self.waiting.get(&next) {
            self.waiting.remove(&next);
            next += 1;
        }
        self.next = Some(next);
        let record = self.waiting.get(&next)?.as_ref().expect("those that have gone were passed over");
        let merged = match record.whose {
            Some((whose, lane_count)) if lane_count > 1 => {
                let numbers = self.parts.get_mut(&whose).filter(|numbers| numbers.len() == lane_count)?;
                numbers.sort_unstable();
                let numbers = self.parts.remove(&whose).expect("just seen");
                let taken = numbers.iter().filter_map(|number| self.waiting.insert(*number, None).flatten());
                let taken: Vec<Record> = taken.collect();
                self.waiting_size -= taken.iter().map(|record| record.size).sum::<usize>();
                together(taken)
            }
            whose => {
                let record = self.waiting.insert(next, None).flatten().expect("just seen");
                self.waiting_size -= record.size;
                if whose.is_some() { together(vec![record]) } else { Merged::Apart(record.units) }
            }
        };
        Some(merged)
    }

    /// The number with which the stream begins: the lowest, when a snapshot has begun on all lanes, for a lane feeds from that on.
    fn first(&self) -> Option<u64> {
        let is_whole = |record: &Record| {
            let part = record.whose.filter(|_| record.sync.is_some());
            part.is_some_and(|(whose, lane_count)| {
                lane_count == 1 || self.parts.get(&whose).is_some_and(|numbers| numbers.len() == lane_count)
            })
        };
        let is_begun = self.waiting.values().flatten().any(is_whole);
        self.waiting.keys().next().copied().filter(|_| is_begun)
    }
}

/// A transaction's records, those of all lanes, become its commands in their order.
fn together(records: Vec<Record>) -> Merged {
    if let Some(sync) = records.iter().find_map(|record| record.sync) {
        return Merged::Sync(sync);
    }
    let mut units: Vec<Unit> = records.into_iter().flat_map(|record| record.units).collect();
    units.sort_by_key(|unit| unit.place);
    units.dedup_by(|unit, before| unit.is_common && before.is_common && unit.place == before.place);
    // A transaction that looks at a key whose time has come finds none: that it has gone comes before.
    let (aside, inside) = units.into_iter().partition(|unit| unit.is_aside);
    Merged::Together(aside, inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, whose: Option<(Whose, usize)>, units: Vec<Unit>) -> Record {
        Record { number, whose, units, ..Record::default() }
    }

    fn unit(place: (u32, u32), is_common: bool) -> Unit {
        Unit { place, is_common, ..Unit::default() }
    }

    fn begin(merger: &mut Merger, whose: Whose, numbers: &[u64]) {
        for number in numbers {
            merger.add(Record { sync: Some(7), ..record(*number, Some((whose, numbers.len())), Vec::new()) });
        }
    }

    fn sync(merged: Option<Merged>) -> bool {
        matches!(merged, Some(Merged::Sync(7)))
    }

    fn places(merged: Option<Merged>) -> Vec<(u32, u32)> {
        match merged {
            Some(Merged::Apart(units) | Merged::Together(_, units)) => {
                units.iter().map(|unit| unit.place).collect()
            }
            _ => panic!("commands are next"),
        }
    }

    #[test]
    fn a_stream_begins_when_all_lanes_have_begun_and_goes_on_in_the_order_of_numbers() {
        let mut merger = Merger::default();
        merger.add(record(12, None, vec![unit((0, 12), false)]));
        begin(&mut merger, (0, 1), &[11]);
        assert!(sync(merger.take()));
        assert_eq!(places(merger.take()), [(0, 12)]);
        assert!(merger.take().is_none() && merger.has_passed(12) && !merger.has_passed(13));
        merger.add(record(14, None, Vec::new()));
        assert!(merger.take().is_none(), "13 is still to come");
        merger.add(record(13, None, vec![unit((0, 13), false)]));
        assert_eq!(places(merger.take()), [(0, 13)]);
        assert_eq!(places(merger.take()), []);
    }

    #[test]
    fn what_was_not_over_at_the_end_is_left_out() {
        let mut merger = Merger::default();
        begin(&mut merger, (0, 1), &[1]);
        assert!(sync(merger.take()));
        let whose = |number: u64, lane_count: usize| Some(((0, number), lane_count));
        // 2 never comes, of 3 there is one of two parts, 4 and 6 are one, and 7 is the last that was drawn.
        merger.add(record(3, whose(3, 2), vec![unit((3, 0), false)]));
        merger.add(record(4, whose(4, 2), vec![unit((4, 0), false)]));
        merger.add(record(5, None, vec![unit((0, 5), false)]));
        merger.add(record(6, whose(4, 2), vec![unit((4, 1), false)]));
        assert!(merger.take().is_none());
        merger.close(7);
        assert_eq!(places(merger.take()), [(4, 0), (4, 1)]);
        assert_eq!(places(merger.take()), [(0, 5)]);
        assert!(merger.take().is_none() && merger.passed() == 7 && merger.waiting_size() == 0);
    }

    #[test]
    fn a_lane_that_begins_later_is_waited_for() {
        let mut merger = Merger::default();
        merger.add(Record { sync: Some(7), ..record(3, Some(((1, 9), 2)), Vec::new()) });
        merger.add(record(4, None, vec![unit((0, 4), false)]));
        assert!(merger.take().is_none());
        merger.add(Record { sync: Some(7), ..record(5, Some(((1, 9), 2)), Vec::new()) });
        assert!(sync(merger.take()));
        assert_eq!(places(merger.take()), [(0, 4)]);
        merger.add(record(6, None, vec![unit((0, 6), false)]));
        assert_eq!(places(merger.take()), [(0, 6)], "5 has gone with 3");
    }

    #[test]
    fn a_transaction_stands_at_its_lowest_number_with_what_all_lanes_do_once() {
        let mut merger = Merger::default();
        begin(&mut merger, (0, 1), &[1]);
        assert!(sync(merger.take()));
        let whose = Some(((0, 2), 2));
        merger.add(record(2, whose, vec![unit((1, 0), false), unit((1, 1), true), unit((1, 3), false)]));
        merger.add(record(3, None, vec![unit((0, 3), false)]));
        assert!(merger.take().is_none(), "its other lane is still to come");
        merger.add(record(4, whose, vec![unit((1, 1), true), unit((1, 2), false)]));
        assert_eq!(places(merger.take()), [(1, 0), (1, 1), (1, 2), (1, 3)]);
        assert_eq!(places(merger.take()), [(0, 3)]);
        assert!(merger.take().is_none() && merger.has_passed(4));
    }
}
