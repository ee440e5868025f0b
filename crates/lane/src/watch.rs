//! WATCH, on the lane that owns the keys: an entry per client with a flag that any change of a watched key raises.
//! EXEC reads the flag under its locks, so that check and lock are one round.

use std::collections::BTreeMap;

use wire::route::Slot;

use crate::locks::LockName;

/// A client's watching, from its first WATCH to the EXEC, DISCARD or UNWATCH that ends it. A later round of the same
/// client has another number, so that a late "unwatch" cannot end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatcherId {
    pub(crate) lane: u16,
    pub(crate) client: u64,
    pub(crate) round: u32,
}

struct Watched {
    slot: Slot,
    key: Box<[u8]>,
    ids: Vec<WatcherId>,
}

#[derive(Default)]
struct Watcher {
    is_dirty: bool,
    names: Vec<LockName>,
}

/// Who watches what on this lane.
#[derive(Default)]
pub(crate) struct Watches {
    by_key: BTreeMap<LockName, Watched>,
    watchers: BTreeMap<WatcherId, Watcher>,
}

impl Watches {
    /// Whether nobody watches anything: then changes need not be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Begins to watch a key, once however often it is asked for.
    pub(crate) fn watch(&mut self, id: WatcherId, name: LockName, slot: Slot, key: &[u8]) {
        let watcher = self.watchers.entry(id).or_default();
        let fresh = || Watched { slot, key: key.into(), ids: Vec::new() };
        let watched = self.by_key.entry(name).or_insert_with(fresh);
        if !watched.ids.contains(&id) {
            watched.ids.push(id);
            watcher.names.push(name);
        }
    }

    /// A key has changed.
    pub(crate) fn touch(&mut self, name: LockName) {
        let Some(watched) = self.by_key.get(&name) else { return };
        for id in &watched.ids {
            self.watchers.get_mut(id).expect("a watched key names watchers that exist").is_dirty = true;
        }
    }

    /// Every watched key of a database for which `changes` says so.
    pub(crate) fn touch_database(&mut self, db: u16, mut changes: impl FnMut(Slot, &[u8]) -> bool) {
        let first = LockName { db, key: None };
        let last = LockName { db, key: Some(u64::MAX) };
        for watched in self.by_key.range(first..=last).map(|(_, watched)| watched) {
            if changes(watched.slot, &watched.key) {
                for id in &watched.ids {
                    self.watchers.get_mut(id).expect("a watched key names watchers that exist").is_dirty =
                        true;
                }
            }
        }
    }

    /// Whether a key that this client watches has changed since.
    pub(crate) fn is_dirty(&self, id: WatcherId) -> bool {
        self.watchers.get(&id).is_some_and(|watcher| watcher.is_dirty)
    }

    /// Ends a client's watching.
    pub(crate) fn unwatch(&mut self, id: WatcherId) {
        let Some(watcher) = self.watchers.remove(&id) else { return };
        for name in watcher.names {
            let watched = self.by_key.get_mut(&name).expect("a watched name is listed");
            watched.ids.retain(|other| *other != id);
            if watched.ids.is_empty() {
                self.by_key.remove(&name);
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
        let name = LockName { db: 0, key: Some(7) };
        let first = WatcherId { lane: 0, client: 1, round: 0 };
        let second = WatcherId { lane: 0, client: 1, round: 1 };
        let slot = Slot::of(b"key");
        watches.watch(first, name, slot, b"key");
        watches.watch(first, name, slot, b"key");
        watches.touch(name);
        watches.watch(second, name, slot, b"key");
        assert!(watches.is_dirty(first) && !watches.is_dirty(second));
        watches.unwatch(first);
        watches.touch(LockName { db: 1, key: Some(7) });
        assert!(!watches.is_dirty(second));
        watches.touch_database(0, |_, key| key == b"key");
        assert!(watches.is_dirty(second));
        watches.unwatch(second);
        assert!(watches.is_empty() && watches.by_key.is_empty());
    }
}
