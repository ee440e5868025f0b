//! The sets of a namespace on this lane: names of its records, numbered as they come. A record's number is the label by which
//! the shard counts (`store::Mark::label`); what is in it names the set itself.

use std::collections::BTreeMap;

/// The most sets of a namespace on a lane, as in Aerospike's server (`AS_SET_MAX_COUNT`). They stay until the server ends, as there;
/// a record in one more is refused.
pub(crate) const SETS_MAX: usize = 4095;

/// A set that records have been put into since the server's start.
#[derive(Debug, Default)]
pub(crate) struct Set {
    pub(crate) name: Box<[u8]>,
    /// When all of its records were removed last, unix milliseconds.
    pub(crate) truncated_ms: Option<i64>,
}

/// Those of a namespace. Number 0 are the records without a set.
#[derive(Debug)]
pub(crate) struct Sets {
    all: Vec<Set>,
    numbers: BTreeMap<Box<[u8]>, u16>,
    /// The one that was asked for last, which most are.
    last: u16,
}

impl Default for Sets {
    fn default() -> Sets {
        Sets { all: vec![Set::default()], numbers: BTreeMap::new(), last: 0 }
    }
}

impl Sets {
    /// The number of a set, which is made if there is room for it.
    #[inline]
    pub(crate) fn number(&mut self, name: &[u8]) -> Option<u16> {
        if name.is_empty() {
            return Some(0);
        }
        if *self.all[usize::from(self.last)].name != *name {
            self.last = self.find_or_make(name)?;
        }
        Some(self.last)
    }

    fn find_or_make(&mut self, name: &[u8]) -> Option<u16> {
        if let Some(number) = self.find(name) {
            return Some(number);
        }
        if self.all.len() > SETS_MAX {
            return None;
        }
        let number = u16::try_from(self.all.len()).expect("sets have 12 bits");
        self.all.push(Set { name: name.into(), truncated_ms: None });
        self.numbers.insert(name.into(), number);
        Some(number)
    }

    /// The number of a set that there is.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u16> {
        if name.is_empty() { Some(0) } else { self.numbers.get(name).copied() }
    }

    /// All that have a name, or the one of this name, with their numbers.
    pub(crate) fn named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = (u16, &'a Set)> {
        let numbers = match self.find(name) {
            Some(0) => 1..self.all.len(),
            Some(number) => usize::from(number)..usize::from(number) + 1,
            None => 0..0,
        };
        let first = u16::try_from(numbers.start).expect("sets have 12 bits");
        (first..).zip(&self.all[numbers])
    }

    /// All records of a set have been removed.
    pub(crate) fn note_truncated(&mut self, name: &[u8], now_ms: i64) {
        if let Some(number) = self.find(name) {
            self.all[usize::from(number)].truncated_ms = Some(now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_numbered_until_there_are_too_many() {
        let mut sets = Sets::default();
        assert_eq!(sets.number(b""), Some(0));
        let name = |number: usize| format!("set{number}").into_bytes();
        for number in 1..=SETS_MAX {
            assert_eq!(sets.number(&name(number)).map(usize::from), Some(number));
        }
        assert_eq!(sets.number(b"one more"), None);
        for number in [7, 7, 4095, 1] {
            assert_eq!(sets.number(&name(number)).map(usize::from), Some(number), "they stay");
        }
        assert_eq!(sets.number(b""), Some(0));
        assert_eq!(sets.named(b"").count(), SETS_MAX);
        let numbers: Vec<u16> = sets.named(b"set9").map(|(number, _)| number).collect();
        assert_eq!(numbers, [9]);
        assert_eq!(sets.named(b"one more").count(), 0);
        assert_eq!((sets.find(b"set9"), sets.find(b""), sets.find(b"one more")), (Some(9), Some(0), None));
    }
}
