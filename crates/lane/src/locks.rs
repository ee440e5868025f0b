//! Who may touch what, on one lane: queues of holders per key and per database.
//!
//! Most lanes have an empty table most of the time, and a single-key command pays one test for it. The table fills
//! when a command takes more than one turn or more than one lane. A lock here is held by a *holder* (a part of a
//! transaction, a sliced command, a single-key command that waits in line) and never by a socket.
//!
//! Why nobody waits for ever. Every wait must point the same way:
//! - A *numbered* holder comes from a transaction whose parts went out to several lanes at once, all with one number.
//!   It waits only for lower numbers. Where it would have to stand behind a higher one it is **refused**, all its
//!   parts are withdrawn, and it comes again with a new number (VLL: Ren, Thomson, Abadi, VLDB 2013).
//! - An *ordered* holder comes from a transaction that asks its lanes one after the other, in ascending order, and keeps
//!   what it has. It is never refused; it queues behind everything. Numbered holders never wait for an ordered one,
//!   they are refused, so that a wait cannot run from a later lane back to an earlier. One whose transaction has many
//!   names is *long* and otherwise the same.
//! - A *local* holder holds nothing on another lane, so it may wait for anybody. Where it may be an ordered one that it
//!   waits for, numbered holders don't wait behind it either.
//!
//! A holder enters its names either all at once, or over many turns. In the second case its names queue at the tail
//! without a number (nobody waits for them) until the last is in, and only one holder at a time may do so: two that
//! enter side by side could each be ahead of the other.

use std::collections::BTreeMap;
use std::mem;

use queues::Queues;

mod queues;

/// What a lock is on: a key by its keyed 64-bit hash (a collision only makes somebody wait), or a whole database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockName {
    pub(crate) db: u16,
    /// `None` is the database itself.
    pub(crate) key: Option<u64>,
}

/// How a lock is held. Holders of a key lock also hold the matching intent on its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    IntentShared,
    IntentExclusive,
    Shared,
    Exclusive,
}

impl Mode {
    /// The classic table of multiple-granularity locking (Gray, Lorie, Putzolu, Traiger, 1976).
    fn admits(self, other: Mode) -> bool {
        use Mode::{Exclusive, IntentExclusive, IntentShared, Shared};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (Shared, IntentExclusive) | (IntentExclusive, Shared) => false,
            (IntentShared | IntentExclusive | Shared, IntentShared | IntentExclusive | Shared) => true,
        }
    }

    /// The mode that allows what both allow.
    fn join(self, other: Mode) -> Mode {
        use Mode::{Exclusive, IntentExclusive, IntentShared, Shared};
        match (self, other) {
            (a, b) if a == b => a,
            (IntentShared, b) => b,
            (a, IntentShared) => a,
            (IntentExclusive | Shared | Exclusive, _) => Exclusive,
        }
    }

    /// What a holder of a key in this mode holds on the key's database.
    fn intent(self) -> Mode {
        match self {
            Mode::Shared | Mode::IntentShared => Mode::IntentShared,
            Mode::Exclusive | Mode::IntentExclusive => Mode::IntentExclusive,
        }
    }
}

/// How many entries have each mode.
#[derive(Clone, Copy, Default)]
struct Modes {
    counts: [u32; 4],
}

impl Modes {
    const ALL: [Mode; 4] = [Mode::IntentShared, Mode::IntentExclusive, Mode::Shared, Mode::Exclusive];

    fn add(&mut self, mode: Mode) {
        self.counts[mode as usize] += 1;
    }

    fn remove(&mut self, mode: Mode) {
        self.counts[mode as usize] -= 1;
    }

    /// Whether each of them admits `mode`.
    fn admit(self, mode: Mode) -> bool {
        Modes::ALL.into_iter().all(|held| self.counts[held as usize] == 0 || held.admits(mode))
    }
}

/// Which of the kinds a holder is; see the top of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Local,
    Numbered,
    Ordered,
    /// Ordered for its many names.
    Long,
}

impl Kind {
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Kind::Ordered | Kind::Long)
    }
}

/// What a numbered holder is refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// With a new number it may get in line soon.
    Passing,
    /// It would stand behind a [`Kind::Long`] one.
    Lasting,
}

impl Refusal {
    /// From `self as u32`.
    pub(crate) fn from_bits(bits: u32) -> Refusal {
        [Refusal::Passing, Refusal::Lasting][bits as usize]
    }
}

/// Not yet in line: its names are being entered.
const ENTERING: u64 = u64::MAX;

/// Lists that are kept, and the entries for which the longest of them has room.
const SPARE_COUNT_MAX: usize = 256;
const SPARE_LENGTH_MAX: usize = 16;

/// Names in one piece of a holder's list, so that a million locked keys are no contiguous megabytes.
const NAMES_PER_PAGE: usize = 512;

struct Holder {
    kind: Kind,
    /// Its number, or the latest number issued when it got in line; [`ENTERING`] before.
    order: u64,
    /// How many of its names have a conflicting entry ahead.
    blocked_count: usize,
    granted: bool,
    /// Somebody who is not granted stands ahead of it somewhere, so it may have to move.
    may_move: bool,
    pages: Vec<Vec<LockName>>,
}

#[derive(Clone, Copy)]
struct Entry {
    holder: u64,
    mode: Mode,
    /// Whether a conflicting entry stands ahead of this one.
    waits: bool,
}

/// Those who hold a name or want it, in order. Most are readers, or writers of different keys of one database, of whom nobody waits: then who
/// comes and goes concerns no other.
#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
    modes: Modes,
    /// Entries that wait. Without one all admit each other.
    waiting_count: u32,
}

/// The lock table of one lane. Holders are named by the caller's own 64-bit ids.
#[derive(Default)]
pub(crate) struct Locks {
    queues: Queues,
    holders: BTreeMap<u64, Holder>,
    granted: Vec<u64>,
    /// Lists of queues that are gone, for the next ones: most names are one holder's for a moment.
    spare: Vec<Vec<Entry>>,
    /// Ordered holders in line or granted.
    ordered_count: usize,
}

impl Locks {
    /// The one test of a single-key command.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether one more holder of this name has to get in line. Waiting holders count: nobody is overtaken for ever.
    pub(crate) fn conflicts(&self, name: LockName, mode: Mode) -> bool {
        self.stands_against(name, mode)
            || name.key.is_some() && self.stands_against(LockName { key: None, ..name }, mode.intent())
    }

    /// Whether anybody holds or wants this key: expiry and eviction leave it alone.
    pub(crate) fn covers(&self, db: u16, key: u64) -> bool {
        self.conflicts(LockName { db, key: Some(key) }, Mode::Exclusive)
    }

    fn stands_against(&self, name: LockName, mode: Mode) -> bool {
        let Some(queue) = self.queues.get(&name) else { return false };
        let is_against =
            |entry: &Entry| !entry.mode.admits(mode) && self.holders[&entry.holder].order != ENTERING;
        !queue.modes.admit(mode) && queue.entries.iter().any(is_against)
    }

    /// Whether a numbered holder of these names would wait for somebody it must not wait for.
    pub(crate) fn refuses(&self, names: &[(LockName, Mode)], number: u64) -> Option<Refusal> {
        // Intents of keys and locks on their database add up to one mode, which may wait where each alone would not.
        let mut databases: BTreeMap<u16, Mode> = BTreeMap::new();
        let on_database =
            |&(name, mode): &(LockName, Mode)| if name.key.is_some() { mode.intent() } else { mode };
        for of_one in names.chunk_by(|(a, _), (b, _)| a.db == b.db) {
            let mode = of_one.iter().map(on_database).reduce(Mode::join).expect("no piece is empty");
            let joined = databases.entry(of_one[0].0.db).or_insert(mode);
            *joined = joined.join(mode);
        }
        let keys = names.iter().copied().filter(|(name, _)| name.key.is_some());
        let databases = databases.into_iter().map(|(db, mode)| (LockName { db, key: None }, mode));
        keys.chain(databases).filter_map(|(name, mode)| self.refuses_one(name, mode, number)).max()
    }

    fn refuses_one(&self, name: LockName, mode: Mode, number: u64) -> Option<Refusal> {
        let queue = self.queues.get(&name).filter(|queue| !queue.modes.admit(mode))?;
        let queue = &queue.entries;
        let ahead = queue[..self.place_of(queue, number)].iter().filter(|entry| !entry.mode.admits(mode));
        let refusals = ahead.filter_map(|entry| {
            let holder = &self.holders[&entry.holder];
            let may_wait_for_ordered =
                !holder.granted && holder.kind == Kind::Local && self.ordered_count > 0;
            if holder.kind == Kind::Long {
                return Some(Refusal::Lasting);
            }
            let refuses = holder.kind.is_ordered() || may_wait_for_ordered || number < holder.order;
            refuses.then_some(Refusal::Passing)
        });
        refusals.max()
    }

    /// Where an entry of this order goes: from the tail ahead of all that are not granted and have a higher one.
    fn place_of(&self, queue: &[Entry], order: u64) -> usize {
        let is_later = |entry: &&Entry| {
            let holder = &self.holders[&entry.holder];
            order < holder.order && !holder.granted
        };
        queue.len() - queue.iter().rev().take_while(is_later).count()
    }

    /// Begins to enter a holder. Its names follow through [`Locks::add`], then [`Locks::activate`].
    pub(crate) fn enter(&mut self, holder: u64) {
        let fresh = Holder {
            kind: Kind::Local,
            order: ENTERING,
            blocked_count: 0,
            granted: false,
            may_move: false,
            pages: Vec::new(),
        };
        let before = self.holders.insert(holder, fresh);
        assert!(before.is_none(), "a holder enters once");
    }

    /// Adds names to an entering holder; a name it has already is widened if need be.
    pub(crate) fn add(&mut self, holder: u64, names: &[(LockName, Mode)]) {
        // Most keys are of one database, which has the intent of the first.
        let mut had = None;
        for &(name, mode) in names {
            self.add_entry(holder, name, mode);
            let intent = Some((name.db, mode.intent()));
            if name.key.is_some() && had != intent {
                self.add_entry(holder, LockName { db: name.db, key: None }, mode.intent());
                had = intent;
            }
        }
    }

    fn add_entry(&mut self, holder: u64, name: LockName, mode: Mode) {
        let (queues, spare) = (&mut self.queues, &mut self.spare);
        let fresh = || Queue { entries: spare.pop().unwrap_or_default(), ..Queue::default() };
        let queue = queues.entry(name, fresh);
        // Whoever enters is one of the last in line.
        if let Some(entry) = queue.entries.iter_mut().rfind(|entry| entry.holder == holder) {
            let wider = entry.mode.join(mode);
            if wider != entry.mode {
                queue.modes.remove(entry.mode);
                queue.modes.add(wider);
                entry.mode = wider;
                self.settle(name);
            }
        } else {
            let waits = !queue.modes.admit(mode);
            queue.modes.add(mode);
            queue.waiting_count += u32::from(waits);
            let last = queue.entries.last().map(|entry| entry.holder);
            queue.entries.push(Entry { holder, mode, waits });
            let stands_behind_waiting = last.is_some_and(|last| !self.holders[&last].granted);
            let state = self.holders.get_mut(&holder).expect("names are added to a holder that entered");
            assert!(state.order == ENTERING, "names are added before the holder gets in line");
            state.blocked_count += usize::from(waits);
            state.may_move |= stands_behind_waiting;
            match state.pages.last_mut() {
                Some(page) if page.len() < NAMES_PER_PAGE => page.push(name),
                _ => state.pages.push(vec![name]),
            }
        }
    }

    /// All names are in: the holder gets its place in line. With few names it moves ahead of later numbers. One of many,
    /// local or ordered, comes with the newest number there is and stands right already: whoever came while it entered
    /// has a number, and got in line ahead of its entries. The grant, now or later, comes out of
    /// [`Locks::take_granted`].
    pub(crate) fn activate(&mut self, holder: u64, kind: Kind, order: u64) {
        assert!(order < ENTERING, "a number is below the mark of those who have none");
        let state = self.holders.get_mut(&holder).expect("a holder enters before it is activated");
        assert!(state.order == ENTERING, "a holder is activated once");
        state.kind = kind;
        state.order = order;
        self.ordered_count += usize::from(kind.is_ordered());
        assert!(kind != Kind::Numbered || state.pages.len() <= 1, "a numbered holder enters in one step");
        if state.pages.len() <= 1 && state.may_move {
            let pages = mem::take(&mut state.pages);
            for &name in pages.iter().flatten() {
                self.move_ahead_of_later(holder, name, order);
            }
            self.holders.get_mut(&holder).expect("still there").pages = pages;
        }
        let state = self.holders.get_mut(&holder).expect("still there");
        // Moving ahead may have granted it already.
        if state.blocked_count == 0 && !state.granted {
            state.granted = true;
            self.granted.push(holder);
        }
    }

    /// Moves an entry from the tail in front of every entry that is not granted and has a higher number.
    fn move_ahead_of_later(&mut self, holder: u64, name: LockName, order: u64) {
        let entries = &self.queues.get(&name).expect("an added name has a queue").entries;
        let from = entries.iter().rposition(|entry| entry.holder == holder).expect("an added name is queued");
        if from + 1 == entries.len() && self.place_of(&entries[..from], order) == from {
            return;
        }
        let entries = &mut self.queues.get_mut(&name).expect("just looked").entries;
        let entry = entries.remove(from);
        let place = self.place_of(&self.queues.get(&name).expect("still there").entries, order);
        let queue = self.queues.get_mut(&name).expect("still there");
        queue.entries.insert(place, entry);
        if queue.waiting_count > 0 {
            self.settle(name);
        }
    }

    /// Gives back up to `count` names; true when the holder has none left and is gone.
    pub(crate) fn release(&mut self, holder: u64, count: usize) -> bool {
        let state = self.holders.get_mut(&holder).expect("a holder is released until it is gone");
        let mut pages = mem::take(&mut state.pages);
        for _ in 0..count {
            let Some(page) = pages.last_mut() else { break };
            let name = page.pop().expect("no page is kept empty");
            if page.is_empty() {
                pages.pop();
            }
            self.leave(holder, name);
        }
        if pages.is_empty() {
            let state = self.holders.remove(&holder).expect("it was there");
            self.ordered_count -= usize::from(state.kind.is_ordered());
            return true;
        }
        self.holders.get_mut(&holder).expect("it was there").pages = pages;
        false
    }

    /// Takes a granted holder out of a queue.
    fn leave(&mut self, holder: u64, name: LockName) {
        let mut has_waiting = false;
        let gone = self.queues.take_if(name, |queue| {
            let at = queue.entries.iter().position(|entry| entry.holder == holder);
            let entry = queue.entries.remove(at.expect("a held name is queued"));
            queue.modes.remove(entry.mode);
            assert!(!entry.waits, "only who has its locks gives them back");
            has_waiting = queue.waiting_count > 0;
            queue.entries.is_empty()
        });
        if let Some(Queue { entries, .. }) = gone {
            if entries.capacity() <= SPARE_LENGTH_MAX && self.spare.len() < SPARE_COUNT_MAX {
                self.spare.push(entries);
            }
        } else if has_waiting {
            self.settle(name);
        }
    }

    /// Holders that were granted since the last call.
    pub(crate) fn take_granted(&mut self) -> Vec<u64> {
        mem::take(&mut self.granted)
    }

    /// Whether [`Locks::take_granted`] has anything.
    pub(crate) fn has_granted(&self) -> bool {
        !self.granted.is_empty()
    }

    /// Finds out anew who in this queue has a conflicting entry ahead, and who by that is granted.
    fn settle(&mut self, name: LockName) {
        let queue = self.queues.get_mut(&name).expect("only queues that exist are settled");
        let mut ahead = Modes::default();
        for entry in &mut queue.entries {
            // Which modes are ahead is all that counts, so a long queue costs one pass. They are not joined: a reader of
            // one key goes with a reader of all and with a writer of another, though not with one who is both.
            let waits = !ahead.admit(entry.mode);
            ahead.add(entry.mode);
            if waits == entry.waits {
                continue;
            }
            entry.waits = waits;
            let holder = self.holders.get_mut(&entry.holder).expect("a queued entry has a holder");
            if waits {
                assert!(!holder.granted, "nobody gets ahead of a holder that was granted");
                queue.waiting_count += 1;
                holder.blocked_count += 1;
            } else {
                queue.waiting_count -= 1;
                holder.blocked_count -= 1;
                if holder.blocked_count == 0 && holder.order != ENTERING {
                    holder.granted = true;
                    self.granted.push(entry.holder);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
