//! WATCH, on the lane that owns the keys. A watched key remembers when it last changed, and each watcher when it began:
//! a change costs the same however many watch, and EXEC compares under its locks, so that check and lock are one round.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use store::Budget;

/// A client's watching, from its first WATCH to the EXEC, DISCARD or UNWATCH that ends it. A later round of the same
/// client has another number, so that a late "unwatch" cannot end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatcherId {
    pub(crate) lane: u16,
    pub(crate) client: u64,
    pub(crate) round: u32,
}

/// Which key, by its keyed hash (a collision makes an EXEC fail and nothing else). Those of a partition are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchName {
    pub(crate) db: u16,
    pub(crate) partition: u16,
    pub(crate) hash: u64,
}

struct Watched {
    key: Box<[u8]>,
    watcher_count: usize,
    /// The number of its last change, counted over all keys.
    changed: u64,
}

/// A round over watched keys, which takes as many steps as it needs. What it marks has changed when it began: who begins to
/// watch meanwhile knows nothing of it.
pub(crate) struct Round {
    next: WatchName,
    last: WatchName,
    change: u64,
}

impl Round {
    /// Whether it is about these partitions.
    pub(crate) fn is_within(&self, db: u16, partitions: &RangeInclusive<u16>) -> bool {
        self.last.db == db
            && partitions.contains(&self.next.partition)
            && self.last.partition == *partitions.end()
    }
}

/// When a client began to watch a key.
#[derive(Clone, Copy)]
struct Since {
    /// The number of the last change.
    change: u64,
    unix_ms: i64,
}

/// Who watches what on this lane.
#[derive(Default)]
pub(crate) struct Watches {
    by_name: BTreeMap<WatchName, Watched>,
    /// What each watches, and since when.
    watchers: BTreeMap<WatcherId, BTreeMap<WatchName, Since>>,
    /// What was watched by those who have ended, and is still counted, and how many names that are.
    ended: Vec<BTreeMap<WatchName, Since>>,
    ended_count: usize,
    change_newest: u64,
}

/// Names that are forgotten in a turn of those whose watching has ended, or an eighth of them if that is more, up to so many; and in the step
/// that ends it: a client may watch many, and many clients may go together.
const NAMES_PER_TURN: usize = 256;
const NAMES_PER_TURN_MAX: usize = 512;
const NAMES_AT_ONCE: usize = 8;

impl Watches {
    /// Whether nobody watches anything: then changes need not be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Begins to watch a key, once however often it is asked for.
    pub(crate) fn watch(&mut self, id: WatcherId, name: WatchName, key: &[u8], now_ms: i64) {
        let since = Since { change: self.change_newest, unix_ms: now_ms };
        let watched = self.watchers.entry(id).or_default();
        if watched.contains_key(&name) {
            return;
        }
        watched.insert(name, since);
        let fresh = || Watched { key: key.into(), watcher_count: 0, changed: 0 };
        self.by_name.entry(name).or_insert_with(fresh).watcher_count += 1;
    }

    /// A key has changed.
    pub(crate) fn touch(&mut self, name: WatchName) {
        if let Some(watched) = self.by_name.get_mut(&name) {
            self.change_newest += 1;
            watched.changed = self.change_newest;
        }
    }

    /// Begins a round over the watched keys of some partitions of a database, all of which are about to change at once.
    pub(crate) fn begin_round(&mut self, db: u16, partitions: RangeInclusive<u16>) -> Round {
        self.change_newest += 1;
        let next = WatchName { db, partition: *partitions.start(), hash: 0 };
        let last = WatchName { db, partition: *partitions.end(), hash: u64::MAX };
        Round { next, last, change: self.change_newest }
    }

    /// Goes on with a round, a unit of work for each watched key: those change for which `changes` says so, which is told
    /// the key's partition. True when the round is over.
    pub(crate) fn touch_round(
        &mut self,
        round: &mut Round,
        budget: &mut Budget,
        mut changes: impl FnMut(u16, &[u8]) -> bool,
    ) -> bool {
        for (name, watched) in self.by_name.range_mut(round.next..=round.last) {
            if budget.is_spent() {
                round.next = *name;
                return false;
            }
            budget.spend(1, 0);
            // One that has changed since the round began keeps its number.
            if watched.changed < round.change && changes(name.partition, &watched.key) {
                watched.changed = round.change;
            }
        }
        true
    }

    /// Whether a key that this client watches has changed since.
    pub(crate) fn is_dirty(&self, id: WatcherId) -> bool {
        let changed = |name| self.by_name.get(name).expect("a watched name is listed").changed;
        self.watchers
            .get(&id)
            .is_some_and(|watched| watched.iter().any(|(name, since)| changed(name) > since.change))
    }

    /// The keys that a client watches, and since when, unix milliseconds.
    pub(crate) fn keys(&self, id: WatcherId) -> impl Iterator<Item = (WatchName, &[u8], i64)> {
        self.watchers.get(&id).into_iter().flatten().map(|(name, since)| {
            let watched = self.by_name.get(name).expect("a watched name is listed");
            (*name, &*watched.key, since.unix_ms)
        })
    }

    /// Ends a client's watching. Its names are forgotten at once if they are few, else in turns to come.
    pub(crate) fn unwatch(&mut self, id: WatcherId) {
        if let Some(mut watched) = self.watchers.remove(&id)
            && self.forget(&mut watched, NAMES_AT_ONCE) == 0
        {
            self.ended_count += watched.len();
            self.ended.push(watched);
        }
    }

    /// Forgets some of what was watched by those who have ended. Whether there is more.
    #[inline]
    pub(crate) fn tend(&mut self) -> bool {
        !self.ended.is_empty() && self.forget_some()
    }

    fn forget_some(&mut self) -> bool {
        let mut left = (self.ended_count / 8).clamp(NAMES_PER_TURN, NAMES_PER_TURN_MAX);
        while left > 0
            && let Some(mut watched) = self.ended.pop()
        {
            let count = watched.len();
            left = self.forget(&mut watched, left);
            self.ended_count -= count - watched.len();
            if left == 0 {
                self.ended.push(watched);
            }
        }
        !self.ended.is_empty()
    }

    /// Forgets up to so many names of a client; how many more it could have been. None: there may be more of them.
    fn forget(&mut self, names: &mut BTreeMap<WatchName, Since>, count_max: usize) -> usize {
        for left in (1..=count_max).rev() {
            let Some((name, _)) = names.pop_first() else { return left };
            let watched = self.by_name.get_mut(&name).expect("a watched name is listed");
            watched.watcher_count -= 1;
            if watched.watcher_count == 0 {
                self.by_name.remove(&name);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round in one step.
    fn touch_all(
        watches: &mut Watches,
        db: u16,
        partitions: RangeInclusive<u16>,
        changes: impl FnMut(u16, &[u8]) -> bool,
    ) {
        let mut round = watches.begin_round(db, partitions);
        assert!(watches.touch_round(&mut round, &mut Budget::new(u32::MAX, 1), changes));
    }

    #[test]
    fn a_change_is_seen_by_those_who_watch_and_only_in_their_round() {
        let mut watches = Watches::default();
        let name = WatchName { db: 0, partition: 3, hash: 7 };
        let first = WatcherId { lane: 0, client: 1, round: 0 };
        let second = WatcherId { lane: 0, client: 1, round: 1 };
        watches.watch(first, name, b"key", 0);
        watches.watch(first, name, b"key", 0);
        watches.touch(name);
        watches.watch(second, name, b"key", 0);
        watches.watch(first, name, b"key", 0);
        assert!(watches.is_dirty(first) && !watches.is_dirty(second));
        watches.unwatch(first);
        watches.touch(WatchName { db: 1, ..name });
        watches.touch(WatchName { partition: 4, ..name });
        touch_all(&mut watches, 0, 2..=2, |_, _| true);
        touch_all(&mut watches, 0, 3..=3, |_, key| key != b"key");
        assert!(!watches.is_dirty(second));
        touch_all(&mut watches, 0, 3..=3, |_, key| key == b"key");
        assert!(watches.is_dirty(second));
        watches.unwatch(second);
        assert!(watches.is_empty() && watches.by_name.is_empty());
        // Who comes later knows nothing of earlier changes, whole databases' neither.
        watches.watch(first, name, b"key", 0);
        assert!(!watches.is_dirty(first));
        touch_all(&mut watches, 0, 0..=u16::MAX, |partition, _| partition == 3);
        assert!(watches.is_dirty(first));
    }

    #[test]
    fn a_round_goes_on_where_it_stopped_and_passes_over_those_who_come_meanwhile() {
        const COUNT: u16 = 1000;
        let mut watches = Watches::default();
        let watcher = |client| WatcherId { lane: 0, client, round: 0 };
        let name = |partition| WatchName { db: 0, partition, hash: u64::from(partition) << 50 };
        for partition in 0..COUNT {
            watches.watch(watcher(u64::from(partition)), name(partition), b"key", 0);
        }
        let mut round = watches.begin_round(0, 0..=u16::MAX);
        let mut steps = 1;
        let (late, changed) = (watcher(5000), watcher(5001));
        while !watches.touch_round(&mut round, &mut Budget::new(10, 1), |partition, _| partition % 3 > 0) {
            steps += 1;
            if steps == 50 {
                watches.watch(late, name(1), b"key", 0);
                watches.watch(late, name(COUNT - 2), b"key", 0);
                watches.watch(changed, name(COUNT - 2), b"key", 0);
            }
            if steps == 60 {
                watches.touch(name(COUNT - 2));
            }
        }
        assert_eq!(steps, COUNT / 10, "no step looks at more than its budget, and no key is looked at twice");
        for partition in 0..COUNT {
            let is_dirty = partition % 3 > 0 || partition == COUNT - 2;
            assert_eq!(watches.is_dirty(watcher(u64::from(partition))), is_dirty, "{partition}");
        }
        assert!(watches.is_dirty(changed) && watches.is_dirty(late), "somebody else has changed it");
    }

    /// Until they are all forgotten they count for nothing but for who watches the same.
    #[test]
    fn many_names_are_forgotten_in_turns() {
        let mut watches = Watches::default();
        let watcher = |client| WatcherId { lane: 0, client, round: 0 };
        let name = |partition| WatchName { db: 0, partition, hash: 0 };
        for client in 0..3 {
            for partition in 0..1000 {
                watches.watch(watcher(client), name(partition), b"key", 0);
            }
        }
        watches.unwatch(watcher(0));
        watches.unwatch(watcher(1));
        assert!(watches.by_name.values().all(|watched| watched.watcher_count > 0) && !watches.is_empty());
        let turns = 1 + (0..100).take_while(|_| watches.tend()).count();
        assert_eq!(turns, 2000_usize.div_ceil(NAMES_PER_TURN));
        watches.touch(name(999));
        assert!(watches.is_dirty(watcher(2)));
        watches.unwatch(watcher(2));
        assert!(watches.is_empty() && watches.by_name.len() == 1000 - NAMES_AT_ONCE);
        // Who comes before they are forgotten has nothing to do with who has gone.
        watches.watch(watcher(3), name(999), b"key", 0);
        while watches.tend() {}
        assert!(!watches.is_dirty(watcher(3)) && watches.by_name.len() == 1 && watches.ended_count == 0);
        watches.touch(name(999));
        assert!(watches.is_dirty(watcher(3)));
    }

    #[test]
    fn who_begins_to_watch_during_a_round_is_not_told_of_it() {
        let mut watches = Watches::default();
        let watcher = |client| WatcherId { lane: 0, client, round: 0 };
        let name = |partition| WatchName { db: 0, partition, hash: 0 };
        for partition in 0..20 {
            watches.watch(watcher(0), name(partition), b"key", 0);
        }
        let mut round = watches.begin_round(0, 0..=u16::MAX);
        assert!(!watches.touch_round(&mut round, &mut Budget::new(10, 1), |_, _| true));
        for partition in [5, 15] {
            watches.watch(watcher(1), name(partition), b"key", 0);
        }
        assert!(watches.touch_round(&mut round, &mut Budget::new(100, 1), |_, _| true));
        assert!(watches.is_dirty(watcher(0)) && !watches.is_dirty(watcher(1)));
    }
}
