//! WATCH, on the lane that owns the keys. A watched key remembers when it last changed, and each watcher when it began:
//! a change costs the same however many watch, and EXEC compares under its locks, so that check and lock are one round.

use std::collections::BTreeMap;

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
    change_newest: u64,
}

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

    /// Every watched key of a partition for which `changes` says so; how many there were to ask.
    pub(crate) fn touch_partition(
        &mut self,
        db: u16,
        partition: u16,
        changes: impl FnMut(u16, &[u8]) -> bool,
    ) -> usize {
        self.touch_partitions(db, partition, partition, changes)
    }

    /// Every watched key of a database for which `changes` says so; it is told the key's partition.
    pub(crate) fn touch_database(&mut self, db: u16, changes: impl FnMut(u16, &[u8]) -> bool) {
        self.touch_partitions(db, 0, u16::MAX, changes);
    }

    fn touch_partitions(
        &mut self,
        db: u16,
        first: u16,
        last: u16,
        mut changes: impl FnMut(u16, &[u8]) -> bool,
    ) -> usize {
        self.change_newest += 1;
        let mut asked = 0;
        let from = WatchName { db, partition: first, hash: 0 };
        let to = WatchName { db, partition: last, hash: u64::MAX };
        for (name, watched) in self.by_name.range_mut(from..=to) {
            asked += 1;
            if changes(name.partition, &watched.key) {
                watched.changed = self.change_newest;
            }
        }
        asked
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

    /// Ends a client's watching.
    pub(crate) fn unwatch(&mut self, id: WatcherId) {
        for name in self.watchers.remove(&id).into_iter().flat_map(BTreeMap::into_keys) {
            let watched = self.by_name.get_mut(&name).expect("a watched name is listed");
            watched.watcher_count -= 1;
            if watched.watcher_count == 0 {
                self.by_name.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(watches.touch_partition(0, 2, |_, _| true), 0);
        assert_eq!(watches.touch_partition(0, 3, |_, key| key != b"key"), 1);
        assert!(!watches.is_dirty(second));
        assert_eq!(watches.touch_partition(0, 3, |_, key| key == b"key"), 1);
        assert!(watches.is_dirty(second));
        watches.unwatch(second);
        assert!(watches.is_empty() && watches.by_name.is_empty());
        // Who comes later knows nothing of earlier changes, whole databases' neither.
        watches.watch(first, name, b"key", 0);
        assert!(!watches.is_dirty(first));
        watches.touch_database(0, |partition, _| partition == 3);
        assert!(watches.is_dirty(first));
    }
}
