//! Room: what a lane does as its lease on `maxmemory` runs out. It takes more while there is some, makes room ahead of
//! need, between commands and a few victims at a time; only when nothing may go is a command refused.
//!
//! ```text
//! 0 ──────────────── mark ──── size_max       held bytes: entries, tables, ropes, what waits to be freed
//!    nothing to do    │ each write takes more of the account, or makes room for itself; housekeeping for a little more
//!                     └ a unit below           └ beyond: writes that may add are refused with -OOM
//! ```
//! `size_max` is the lease less what is held beside the data. When the account is spent, a lane that evicts asks the lane
//! with the largest lease for a part of it; that one evicts as much of its own, and hands the room over:
//! ```text
//! lane 3 (tight)  ── yield, bytes wanted ──▶  lane 0 (largest lease): evicts, a turn's share at a time
//! lane 3          ◀── lend, bytes given  ──   lane 0
//! ```
//! So leases of lanes that need room become even, and those of lanes that need none go to the others.

use std::ops::Range;
use std::sync::Arc;

use store::{Budget, Evicted, Policy};
use wire::command::{Command, Flag};

use crate::SLICE;
use crate::board::Board;
use crate::chance::Chance;
use crate::core::Core;
use crate::keyspace::Keyspace;
use crate::lease::Lease;
use crate::locks::Locks;
use crate::peers::{ControlHead, ControlKind};
use crate::request::Args;
use crate::turn::Lane;

/// Entries looked at to make room for a command before it begins: about four victims. One that needs more waits, with its
/// keys locked, and goes on a slice at a time.
const LOOKS_PER_COMMAND: Budget = Budget::new(64, u32::MAX);
/// What an entry takes beside key and value, bytes: about as much.
const ENTRY_SIZE: u64 = 64;
/// Entries looked at in a turn's housekeeping.
const LOOKS_PER_TURN: Budget = Budget::new(256, u32::MAX);
/// A lane that got no answer to a `yield` asks again after this time: the other may owe somebody else first.
const ASK_AGAIN_NS: u64 = 1_000_000;

/// A lane's lease, and what may go to stay within it.
pub(crate) struct Room {
    lease: Lease,
    /// Bytes held beside the data, as of the turn's beginning: what clients hold.
    beside: u64,
    /// Bytes kept free for commands that have begun and will add as much.
    pub(crate) reserved: u64,
    size_max: u64,
    mark: u64,
    policy: Policy,
    /// Draws the samples.
    chance: Chance,
    /// What another lane was promised.
    debt: Option<Debt>,
    /// Bytes that were wanted when the account was found spent.
    wanted: u64,
    /// When another lane may be asked again.
    ask_at_ns: u64,
    /// Lanes that were asked since one has given something.
    asked_count: usize,
}

#[derive(Clone, Copy)]
struct Debt {
    to: u16,
    size: u64,
}

impl Room {
    /// Without a limit.
    pub(crate) fn unlimited(board: Arc<Board>, lane: u16) -> Room {
        Room {
            lease: Lease::new(board, lane),
            beside: 0,
            reserved: 0,
            size_max: u64::MAX,
            mark: u64::MAX,
            policy: Policy::NoEviction,
            chance: Chance::new(0),
            debt: None,
            wanted: 0,
            ask_at_ns: 0,
            asked_count: 0,
        }
    }

    /// The lease or what counts against it has changed.
    fn measure(&mut self) {
        if !self.lease.is_limited() {
            (self.size_max, self.mark) = (u64::MAX, u64::MAX);
            return;
        }
        let owed = self.debt.map_or(0, |debt| debt.size).max(self.lease.excess());
        self.size_max = self.lease.size().saturating_sub(owed).saturating_sub(self.taken());
        self.mark = self.size_max.saturating_sub(self.lease.unit());
    }

    /// Bytes of the lease that are not for data that comes.
    fn taken(&self) -> u64 {
        self.beside + self.reserved
    }

    /// Says what is held beside the data.
    pub(crate) fn set_beside(&mut self, size: u64) {
        self.beside = size;
    }

    /// Takes of the account what `size` bytes below the mark need. While the lane owes, it takes nothing.
    fn grow(&mut self, size: u64) {
        if self.debt.is_none() {
            let lease = size.saturating_add(self.taken()).saturating_add(self.lease.unit());
            if !self.lease.grow_to(lease) {
                self.wanted = self.wanted.max(lease - self.lease.size());
            }
        }
        self.measure();
    }

    /// Another lane asks for a part of the lease. One debt at a time: who is not heard asks again.
    pub(crate) fn owe(&mut self, to: u16, size: u64) {
        if self.debt.is_none() && self.policy != Policy::NoEviction {
            self.debt = Some(Debt { to, size });
            self.measure();
        }
    }

    /// Nothing more may go: what is owed is what is free while `held` bytes are held.
    fn owe_less(&mut self, held: u64) {
        if let Some(debt) = &mut self.debt {
            let taken = self.beside + self.reserved;
            debt.size = debt.size.min(self.lease.size().saturating_sub(held.saturating_add(taken)));
            self.measure();
        }
    }

    /// Another lane has given what it was asked for.
    pub(crate) fn receive(&mut self, size: u64) {
        self.lease.receive(size);
        (self.ask_at_ns, self.asked_count) = (0, 0);
        self.measure();
    }
}

/// Bytes that a command may add, by its arguments; `None`: it adds nothing.
#[inline]
pub(crate) fn growth(command: &Command, args: &Args<'_>) -> Option<u64> {
    command.flags.has(Flag::Denyoom).then(|| growth_of(args, 1..args.len()))
}

/// Bytes that entries made of these arguments take.
pub(crate) fn growth_of(args: &Args<'_>, range: Range<usize>) -> u64 {
    let entry_count = range.len().div_ceil(2) as u64;
    range.map(|index| args.get(index).size() as u64).sum::<u64>() + entry_count * ENTRY_SIZE
}

impl Keyspace {
    /// Sets what all lanes together may hold in bytes (0: no limit) and what may go.
    pub(crate) fn set_room(&mut self, size_max: u64, policy: Policy) {
        self.room.lease.set_limit(size_max);
        self.room.policy = policy;
        self.room.debt = None;
        self.room.measure();
        self.shard.set_recency(if policy.is_lfu() {
            store::Recency::Lfu { log_factor: 10, decay_minutes: 1 }
        } else {
            store::Recency::Lru
        });
    }

    fn is_tight(&self) -> bool {
        self.shard.held() >= self.room.mark
    }

    /// Whether there is room for a command that may add, as far as a few looks go. [`Evicted::Nothing`]: there is none
    /// and nothing may go, the command is refused. One that sets several keys is measured beforehand, however much room
    /// there seems to be: once it has begun it is not refused half-way. More than a slice of them waits for its turn.
    #[inline]
    pub(crate) fn room_for(&mut self, command: &Command, args: &Args<'_>, locks: &Locks) -> Evicted {
        let is_measured = self.is_tight() || command.keys.step > 1;
        if is_measured
            && self.room.lease.is_limited()
            && let Some(size) = growth(command, args)
        {
            if command.keys.step > 1 && u64::from(SLICE.bytes) < size {
                return Evicted::More;
            }
            return self.make_room(locks, size, &mut LOOKS_PER_COMMAND.clone());
        }
        Evicted::Enough
    }

    /// Makes room for `size` bytes more. [`Evicted::Nothing`] when there is none and nothing may go.
    pub(crate) fn make_room(&mut self, locks: &Locks, size: u64, budget: &mut Budget) -> Evicted {
        if !self.room.lease.is_limited() {
            return Evicted::Enough;
        }
        self.room.grow(self.shard.held().saturating_add(size));
        // What never fits must not cost the others their place.
        let Some(target) = self.room.mark.checked_sub(size) else { return Evicted::Nothing };
        let evicted = self.evict(locks, target, budget);
        if self.shard.held().saturating_add(size) <= self.room.size_max { Evicted::Enough } else { evicted }
    }

    /// Keeps room that was made for somebody who takes some turns to fill it.
    pub(crate) fn reserve(&mut self, size: u64) {
        self.room.reserved += size;
        self.room.measure();
    }

    /// What was reserved is filled, or not needed.
    pub(crate) fn release(&mut self, size: u64) {
        self.room.reserved -= size;
        self.room.measure();
    }

    /// A turn's share of making room. True when there is more to do at once.
    pub(crate) fn tend_room(&mut self, locks: &Locks) -> bool {
        if !self.room.lease.is_limited() {
            return false;
        }
        self.room.measure();
        if self.is_tight() {
            self.room.grow(self.shard.held());
        }
        let evicted = if self.is_tight() {
            self.evict(locks, self.room.mark, &mut LOOKS_PER_TURN.clone())
        } else {
            Evicted::Enough
        };
        match evicted {
            Evicted::More => return true,
            Evicted::Enough => {}
            // Whatever lets go of keys brings another turn about.
            Evicted::Held => {}
            // A promise is worth what may go.
            Evicted::Nothing => self.room.owe_less(self.shard.held()),
        }
        self.give_back();
        false
    }

    /// Gives the account what this lane does not need.
    fn give_back(&mut self) {
        let held = self.shard.held();
        let taken = self.room.taken();
        let Room { lease, debt, .. } = &mut self.room;
        let owed = debt.map_or(0, |debt| debt.size);
        let needed = held.saturating_add(taken).saturating_add(lease.unit()).saturating_add(owed);
        let excess = lease.excess();
        lease.repay(excess.min(lease.size().saturating_sub(needed)));
        lease.shrink_to(needed);
    }

    fn evict(&mut self, locks: &Locks, target: u64, budget: &mut Budget) -> Evicted {
        let is_locked = |db: u16, hash: u64| locks.covers(db, hash);
        let Keyspace { shard, room, .. } = self;
        let evicted = shard.evict(room.policy, target, &mut || room.chance.next(), budget, &is_locked);
        if !self.watches.is_empty() {
            self.tell_watchers();
        }
        evicted
    }
}

impl Core {
    /// Pays what this lane owes another, and asks another for what it lacks. After the turn's housekeeping.
    pub(crate) fn settle_room(&mut self) {
        if self.space.room.debt.is_none() && self.space.room.wanted == 0 {
            return;
        }
        self.pay();
        self.ask_for_room();
    }

    /// Hands over what was promised once it is free, or as much as can be freed.
    fn pay(&mut self) {
        let Some(Debt { to, size }) = self.space.room.debt else { return };
        if self.space.room.size_max < self.space.shard.held() {
            return;
        }
        let given = self.space.room.lease.part_with(size);
        self.space.room.debt = None;
        self.space.room.measure();
        let head = ControlHead { target: given, round: 0, kind: ControlKind::Lend };
        if given > 0 && !self.peer(to).try_tell(head, &mut None) {
            // The other finds it in the account.
            self.space.room.lease.receive(given);
            self.space.room.lease.repay(given);
        }
    }

    fn ask_for_room(&mut self) {
        let now_ns = self.space.now.mono_ns;
        let room = &mut self.space.room;
        let wanted = std::mem::take(&mut room.wanted).max(room.lease.unit());
        if room.policy == Policy::NoEviction || now_ns < room.ask_at_ns {
            return;
        }
        let Some((lane, even)) = room.lease.richer(room.asked_count) else { return };
        // One that gives nothing has no key that may go: the next time another one is asked.
        room.asked_count += 1;
        room.ask_at_ns = now_ns.saturating_add(ASK_AGAIN_NS);
        let head = ControlHead { target: wanted.min(even), round: 0, kind: ControlKind::Yield };
        // Without a place for the question it is asked again, if it still matters.
        let _ = self.peer(lane).try_tell(head, &mut None);
    }
}

impl Lane {
    /// A range of the lane's memory, in bytes from its start, that is not needed now and whose pages may go back to the
    /// system. The lane does not touch it until it comes back by [`Lane::reclaim`].
    pub fn released(&mut self) -> Option<Range<usize>> {
        self.core.space.shard.released()
    }

    /// Takes back a range from [`Lane::released`], with any content.
    pub fn reclaim(&mut self, range: Range<usize>) {
        self.core.space.shard.reclaim(range);
    }
}
