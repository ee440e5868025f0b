//! What a lane knows of who has read its keys, and of whom other keys concern: the side of the lane that owns them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use store::{Budget, Effect, Outcome};
use wire::command::{Command, Flag};

use crate::client::Port;
use crate::events::Deed;
use crate::keyspace::Keyspace;
use crate::request::Args;
use crate::transaction::key_range;

/// A key's name, or a prefix. Whoever is told of it shares it.
pub(crate) type Name = Arc<[u8]>;

/// A client that tracks keys: its lane, and its name there.
pub(crate) type Reader = (u16, u64);

/// What counts for a key beside its name.
const ENTRY_SIZE: usize = 128;
/// Clients for a key, on average, and bytes of names. With more, keys are given up early; a small table has room for [`ITEMS_MIN`] and
/// [`SIZE_MIN`] all the same.
const ITEMS_PER_KEY: usize = 16;
const SIZE_PER_KEY: usize = 256 + ENTRY_SIZE;
const ITEMS_MIN: usize = 65_536;
const SIZE_MIN: usize = 16 * 1024 * 1024;
/// Keys given up in a turn when there are too many.
const GIVEN_UP_PER_TURN: usize = 64;
/// Entries that nobody needs any more, dropped in a turn.
const DROPPED_PER_TURN: usize = 512;
/// Changes that wait to be told, and bytes of their names. With more, clients are told that everything may have changed.
const WAITING_MAX: usize = 8192;
const WAITING_SIZE_MAX: usize = 4 * 1024 * 1024;

/// On behalf of whom a command runs, if that is a client that tracks keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct By {
    pub(crate) reader: Reader,
    /// What it reads is to be remembered.
    pub(crate) remembers: bool,
    /// NOLOOP: what it changes itself it knows.
    pub(crate) is_quiet: bool,
}

/// A key that has changed, or of which no more is remembered who has read it.
struct Changed {
    key: Name,
    readers: BTreeSet<Reader>,
    /// Lanes whose clients want to know of every such key.
    lanes: Vec<u16>,
    /// Who has changed it and does not want to hear of that.
    author: Option<Reader>,
}

/// Prefixes that clients of a lane want to know of, and how often these have changed.
#[derive(Clone, Default)]
pub(crate) struct Wishes {
    pub(crate) version: u32,
    pub(crate) prefixes: Vec<Name>,
}

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Changes have to be looked at: some key is in the table, or some lane wants to know of others. So has what is left to do.
    is_on: bool,
    readers: BTreeMap<Name, BTreeSet<Reader>>,
    item_count: usize,
    /// Bytes of the names.
    size: usize,
    /// This lane's share of `tracking-table-max-keys`; none: there is no limit.
    key_count_max: Option<usize>,
    /// The last key that was given up.
    hand: Option<Name>,
    /// What lanes' clients want to know, by lane, and by prefix.
    wishes: BTreeMap<u16, Arc<Wishes>>,
    lanes_by_prefix: BTreeMap<Name, Vec<u16>>,
    changed: VecDeque<Changed>,
    changed_size: usize,
    /// Everything may have changed: for the clients of all lanes, or of this one.
    all: Option<Everything>,
    doomed: Vec<BTreeMap<Name, BTreeSet<Reader>>>,
    doomed_changes: VecDeque<Changed>,
}

/// Whose clients are told that everything may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Everything {
    /// This lane's: the others tell theirs.
    Here,
    /// All lanes'.
    Everywhere,
}

impl Tracked {
    /// Whether changes have to be looked at.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether a turn has something to do for it.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.is_on
            && (!self.changed.is_empty()
                || self.all.is_some()
                || !self.doomed.is_empty()
                || !self.doomed_changes.is_empty()
                || self.is_over_limits())
    }

    /// Keys of which is known who has read them, those who have, and prefixes of all lanes.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [self.readers.len(), self.item_count, self.lanes_by_prefix.len()]
    }

    /// Of `tracking-table-max-keys`, 0 for no limit, this lane's share: at least one.
    pub(crate) fn set_key_count_max(&mut self, count: usize, lane_count: u16) {
        self.key_count_max = (count > 0).then(|| count.div_ceil(usize::from(lane_count)));
    }

    fn is_over_limits(&self) -> bool {
        self.key_count_max.is_some_and(|max| {
            max < self.readers.len()
                || max.saturating_mul(ITEMS_PER_KEY).max(ITEMS_MIN) < self.item_count
                || max.saturating_mul(SIZE_PER_KEY).max(SIZE_MIN) < self.size
        })
    }

    fn remember(&mut self, key: &[u8], reader: Reader) {
        if let Some(readers) = self.readers.get_mut(key) {
            self.item_count += usize::from(readers.insert(reader));
        } else {
            self.size += key.len() + ENTRY_SIZE;
            self.item_count += 1;
            self.readers.insert(key.into(), [reader].into());
        }
        // Two, so that one that is too large makes its way, too.
        self.give_up(2);
    }

    /// Gives up some keys if there are too many: whoever has read them is told as if they had changed.
    fn give_up(&mut self, count: usize) {
        for _ in 0..count {
            if !self.is_over_limits() {
                return;
            }
            let start = self.hand.as_ref().map_or(Unbounded, Excluded);
            let next = self.readers.range::<Name, _>((start, Unbounded)).next();
            let next = next.or_else(|| self.readers.iter().next());
            let Some((key, _)) = next else { return };
            let key = Name::clone(key);
            self.hand = Some(Name::clone(&key));
            if let Some(readers) = self.forget(&key) {
                self.tell(Changed { key, readers, lanes: Vec::new(), author: None });
            }
        }
    }

    fn forget(&mut self, key: &[u8]) -> Option<BTreeSet<Reader>> {
        let readers = self.readers.remove(key)?;
        self.item_count -= readers.len();
        self.size -= key.len() + ENTRY_SIZE;
        Some(readers)
    }

    /// A key has changed.
    pub(crate) fn note(&mut self, key: &[u8], by: Option<By>) {
        let mut lanes = Vec::new();
        for_each_prefix(&self.lanes_by_prefix, key, |_, wanting| lanes.extend_from_slice(wanting));
        lanes.sort_unstable();
        lanes.dedup();
        let readers = self.forget(key).unwrap_or_default();
        if lanes.is_empty() && readers.is_empty() {
            return;
        }
        let author = by.filter(|by| by.is_quiet).map(|by| by.reader);
        self.tell(Changed { key: key.into(), readers, lanes, author });
    }

    fn tell(&mut self, changed: Changed) {
        if self.all == Some(Everything::Everywhere) {
            return self.doomed_changes.push_back(changed);
        }
        self.changed_size += changed.key.len();
        self.changed.push_back(changed);
        if self.changed.len() > WAITING_MAX || self.changed_size > WAITING_SIZE_MAX {
            self.all = Some(Everything::Everywhere);
            self.drop_changes();
        }
    }

    fn drop_changes(&mut self) {
        self.changed_size = 0;
        self.doomed_changes.append(&mut self.changed);
    }

    /// All keys have gone, or may be others: what is known of them is in vain.
    fn flush(&mut self, whose: Everything) {
        let readers = std::mem::take(&mut self.readers);
        if !readers.is_empty() {
            self.doomed.push(readers);
        }
        (self.item_count, self.size) = (0, 0);
        self.all = self.all.max(Some(whose));
    }

    /// What clients of a lane want to know; an older word than the last comes too late.
    fn set_wishes(&mut self, lane: u16, wishes: &Arc<Wishes>) {
        if let Some(known) = self.wishes.get(&lane) {
            if wishes.version.wrapping_sub(known.version).cast_signed() <= 0 {
                return;
            }
            for prefix in &known.prefixes {
                let lanes = self.lanes_by_prefix.get_mut(prefix).expect("what a lane wants is listed");
                lanes.retain(|other| *other != lane);
                if lanes.is_empty() {
                    self.lanes_by_prefix.remove(prefix);
                }
            }
        }
        for prefix in &wishes.prefixes {
            self.lanes_by_prefix.entry(Name::clone(prefix)).or_default().push(lane);
        }
        self.wishes.insert(lane, Arc::clone(wishes));
    }

    /// Takes what is to be told as far as the budget goes: to `key` a client that has read a key, to `broadcast` a lane that wants to know
    /// of it, and who does not want to hear of that. Says who is told that everything may have changed.
    pub(crate) fn take_changes(
        &mut self,
        budget: &mut Budget,
        key: &mut impl FnMut(Reader, &Name),
        broadcast: &mut impl FnMut(u16, &Name, Option<Reader>),
    ) -> Option<Everything> {
        while !budget.is_spent()
            && let Some(changed) = self.changed.front_mut()
        {
            budget.spend(1 + changed.lanes.len(), 0);
            changed.lanes.drain(..).for_each(|lane| broadcast(lane, &changed.key, changed.author));
            while !budget.is_spent()
                && let Some(reader) = changed.readers.pop_first()
            {
                budget.spend(1, 0);
                if changed.author != Some(reader) {
                    key(reader, &changed.key);
                }
            }
            if changed.readers.is_empty() {
                self.changed_size -= changed.key.len();
                self.changed.pop_front();
            }
        }
        // What was said before comes before that.
        if self.changed.is_empty() { self.all.take() } else { None }
    }

    /// What is left to do at the end of a turn.
    fn tend(&mut self) {
        self.give_up(GIVEN_UP_PER_TURN);
        let mut left = DROPPED_PER_TURN;
        while left > 0
            && let Some(doomed) = self.doomed.last_mut()
        {
            match doomed.first_entry() {
                None => drop(self.doomed.pop()),
                Some(mut entry) => {
                    entry.get_mut().pop_first();
                    if entry.get().is_empty() {
                        entry.remove();
                    }
                }
            }
            left -= 1;
        }
        while left > 0
            && let Some(changed) = self.doomed_changes.front_mut()
        {
            if changed.readers.pop_first().is_none() {
                self.doomed_changes.pop_front();
            }
            left -= 1;
        }
    }

    /// How many changes wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.changed.len()
    }
}

/// Calls `each` for all prefixes of `key`, the longest first: each step looks at the last one before what it has come to, and a
/// step that finds none leaves what both have in common.
pub(super) fn for_each_prefix<T>(prefixes: &BTreeMap<Name, T>, key: &[u8], mut each: impl FnMut(&Name, &T)) {
    let mut rest = key;
    while let Some((prefix, found)) = prefixes.range::<[u8], _>((Unbounded, Included(rest))).next_back() {
        let common = prefix.iter().zip(rest).take_while(|(one, other)| one == other).count();
        if common == prefix.len() {
            each(prefix, found);
            match common.checked_sub(1) {
                None => return,
                Some(shorter) => rest = &rest[..shorter],
            }
        } else {
            rest = &rest[..common];
        }
    }
}

impl Keyspace {
    /// Whoever listens to changes, or none, has changed.
    pub(crate) fn listen_to_all(&mut self) {
        let has_events = self.events.are_on();
        self.is_heard = self.feed.is_some() || self.tracked.is_on || has_events;
        self.is_accompanied = self.feed.is_some() || self.follows || has_events;
        self.shard.follow(self.is_fed() || self.tracked.is_on || has_events);
    }

    /// [`Keyspace::commit`] while somebody wants to know which keys change: replicas, clients that track them, or that listen to events.
    #[cold]
    #[inline(never)]
    pub(crate) fn commit_heard(&mut self, effect: Effect<'_>) -> Result<Outcome, store::Full> {
        let key = effect.key().copied().filter(|key| key.db < self.database_count);
        let deed = if self.events.are_on() { Deed::of(&effect) } else { None };
        if let (Some(_), Some(key)) = (deed, &key) {
            // That its time has come is another event, and before this one.
            self.lapse(key);
            self.hear_gone();
        }
        let (must_exist, is_nothing) = match &effect {
            Effect::Delete { .. } | Effect::Expire { .. } => (true, false),
            Effect::SetRange { bytes, .. } => (false, bytes.is_empty()),
            _ => (false, false),
        };
        let outcome =
            if self.feed.is_some() { self.commit_fed(effect)? } else { self.shard.commit(effect)? };
        if let Some(key) = key
            && !is_nothing
            && (outcome.existed || !must_exist)
        {
            if self.tracked.is_on {
                self.tracked.note(key.bytes, self.by);
            }
            if let Some(deed) = deed {
                self.events.note(deed, &key, outcome.existed);
            }
        }
        Ok(outcome)
    }

    /// The client for whom a command has run has read a key of this lane.
    pub(crate) fn remember(&mut self, by: By, db: u16, key: &[u8]) {
        if !by.remembers || db >= self.database_count {
            return;
        }
        self.tracked.remember(key, by.reader);
        self.track(true);
    }

    /// Whether changes are told to clients that track keys.
    fn track(&mut self, is_on: bool) {
        if self.tracked.is_on != is_on {
            self.tracked.is_on = is_on;
            self.listen_to_all();
        }
    }

    /// The same of all keys of a command that reads, from the one at `at` on; false when the budget is spent before their end.
    pub(crate) fn remember_keys(
        &mut self,
        by: Option<By>,
        (command, args, db): (&Command, Args<'_>, u16),
        at: &mut u64,
        budget: &mut Budget,
    ) -> bool {
        let Some(by) = by.filter(|by| by.remembers && command.flags.has(Flag::Readonly)) else { return true };
        let step = usize::from(command.keys.step.max(1));
        let first = usize::try_from(*at).expect("an index");
        for index in key_range(command, args.len()).step_by(step).skip(first) {
            if budget.is_spent() {
                return false;
            }
            budget.spend(1, 0);
            if let Some(key) = args.get(index).flat() {
                self.remember(by, db, key);
            }
            *at += 1;
        }
        true
    }

    /// FLUSHDB, FLUSHALL or SWAPDB has taken place here: on a lane's own port on this lane alone.
    pub(crate) fn track_flush(&mut self, port: Port) {
        let whose = if port == Port::Lane { Everything::Everywhere } else { Everything::Here };
        self.tracked.flush(whose);
        self.track(true);
    }

    /// What clients of a lane want to know of.
    pub(crate) fn set_wishes(&mut self, lane: u16, wishes: &Arc<Wishes>) {
        self.tracked.set_wishes(lane, wishes);
        self.track(self.tracked.is_on || !self.tracked.lanes_by_prefix.is_empty());
    }

    /// The end of a turn.
    pub(super) fn tend_tracked(&mut self) {
        self.tracked.tend();
        if self.tracked.is_on
            && self.tracked.readers.is_empty()
            && self.tracked.lanes_by_prefix.is_empty()
            && !self.tracked.has_work()
        {
            self.track(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tracked: &mut Tracked) -> Vec<(Reader, String)> {
        let mut told = Vec::new();
        let name = |key: &Name| String::from_utf8_lossy(key).into_owned();
        let mut all = Vec::new();
        tracked.take_changes(
            &mut Budget::new(u32::MAX, 1),
            &mut |reader, key| told.push((reader, name(key))),
            &mut |lane, key, _| all.push(((lane, u64::MAX), name(key))),
        );
        told.append(&mut all);
        told
    }

    #[test]
    fn all_prefixes_of_a_key_are_found_and_no_others() {
        let names = ["", "a", "ab", "abc", "abd", "b", "abcde", "ac", "\u{7f}"];
        let prefixes: BTreeMap<Name, ()> = names.iter().map(|name| (name.as_bytes().into(), ())).collect();
        for key in ["", "a", "abc", "abcd", "abcdef", "abx", "b", "zzz", "aa", "abcdd"] {
            let mut found = Vec::new();
            for_each_prefix(&prefixes, key.as_bytes(), |name, ()| found.push(name.to_vec()));
            let mut want: Vec<&str> = names.iter().copied().filter(|name| key.starts_with(name)).collect();
            want.sort_by_key(|name| std::cmp::Reverse(name.len()));
            let want: Vec<Vec<u8>> = want.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(found, want, "{key}");
        }
    }

    #[test]
    fn a_change_is_told_once_to_each_reader_but_a_quiet_author() {
        let mut tracked = Tracked::default();
        for client in 0..3 {
            tracked.remember(b"key", (1, client));
        }
        tracked.remember(b"other", (0, 7));
        assert_eq!(tracked.counts(), [2, 4, 0]);
        let by = |is_quiet| By { reader: (1, 1), remembers: true, is_quiet };
        tracked.note(b"key", Some(by(true)));
        tracked.note(b"key", None);
        tracked.note(b"none", None);
        assert_eq!(told(&mut tracked), [((1, 0), "key".to_owned()), ((1, 2), "key".to_owned())]);
        tracked.remember(b"key", (1, 1));
        tracked.note(b"key", Some(by(false)));
        assert_eq!(told(&mut tracked), [((1, 1), "key".to_owned())]);
        assert_eq!(tracked.counts(), [1, 1, 0]);
    }

    #[test]
    fn beyond_the_limit_keys_are_given_up_and_their_readers_told() {
        let mut tracked = Tracked::default();
        tracked.set_key_count_max(10, 2);
        for number in 0..20 {
            tracked.remember(format!("key:{number:02}").as_bytes(), (0, 1));
        }
        assert_eq!(tracked.counts(), [5, 5, 0]);
        assert_eq!(told(&mut tracked).len(), 15);
        tracked.set_key_count_max(1, 2);
        tracked.tend();
        assert_eq!(tracked.counts(), [1, 1, 0]);
        assert_eq!(told(&mut tracked).len(), 4);
        tracked.set_key_count_max(0, 2);
        (0..100).for_each(|number| tracked.remember(format!("{number}").as_bytes(), (0, 1)));
        assert_eq!(tracked.counts(), [101, 101, 0]);
    }

    #[test]
    fn when_too_much_waits_everything_may_have_changed() {
        let mut tracked = Tracked::default();
        for number in 0..=WAITING_MAX {
            let key = number.to_string();
            tracked.remember(key.as_bytes(), (0, 1));
            tracked.note(key.as_bytes(), None);
        }
        let mut none = |_: Reader, _: &Name| panic!("nobody is told of a key");
        let all = tracked.take_changes(&mut Budget::new(10, 1), &mut none, &mut |_, _, _| {});
        assert_eq!(all, Some(Everything::Everywhere));
        while tracked.has_work() {
            tracked.tend();
        }
        assert_eq!(tracked.counts(), [0, 0, 0]);
    }

    #[test]
    fn wishes_of_lanes_are_kept_apart_and_old_ones_do_not_count() {
        let mut tracked = Tracked::default();
        let wishes = |version, names: &[&str]| {
            let prefixes = names.iter().map(|name| name.as_bytes().into()).collect();
            Arc::new(Wishes { version, prefixes })
        };
        tracked.set_wishes(0, &wishes(1, &["a", "b"]));
        tracked.set_wishes(3, &wishes(2, &["ab"]));
        tracked.note(b"abc", None);
        tracked.note(b"c", None);
        assert_eq!(told(&mut tracked), [0, 3].map(|lane| ((lane, u64::MAX), "abc".to_owned())));
        tracked.set_wishes(3, &wishes(3, &[]));
        tracked.set_wishes(3, &wishes(2, &["ab"]));
        tracked.note(b"abc", None);
        assert_eq!(told(&mut tracked), [((0, u64::MAX), "abc".to_owned())]);
        assert_eq!(tracked.counts()[2], 2);
    }
}
