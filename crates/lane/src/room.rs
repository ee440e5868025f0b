//! Room: what a lane does as its lease on `maxmemory` runs out. It takes more while there is some, makes room ahead of
//! need, between commands and a few victims at a time; only when nothing may go is a command refused.
//!
//! ```text
//! 0 ──────────────── mark ──── size_max       held bytes: entries, tables, ropes, what waits to be freed
//!    nothing to do    │ each write is measured, and more of the account is taken
//!                     └ a unit below           └ beyond: keys go, down to the mark; without any, writes that may add are
//!                                                refused with -OOM
//! ```
//! `size_max` is the lease less what is held beside the data. When the account is spent, a lane that evicts asks the lane
//! with the largest lease for a part of it; that one evicts as much of its own, and hands the room over:
//! ```text
//! lane 3 (tight)  ── yield, bytes wanted ──▶  lane 0 (largest lease): evicts, a turn's share at a time
//! lane 3          ◀── lend, bytes given  ──   lane 0
//! ```
//! So leases of lanes that need room become even, and those of lanes that need none go to the others. A command that needs
//! more than its lane could hold then waits, for [`WAIT_NS`] at most, while its lane asks one lane after the other for all that
//! it lacks.

use std::ops::Range;
use std::sync::Arc;

use store::{Budget, Evicted, Policy};
use wire::command::{Command, Flag, Group};
use wire::reply;

use crate::SLICE;
use crate::board::Board;
use crate::chance::Chance;
use crate::core::Core;
use crate::documents;
use crate::keyspace::{Call, Keyspace, OOM};
use crate::lease::Lease;
use crate::locks::Locks;
use crate::peers::{ControlHead, ControlKind};
use crate::records;
use crate::replies::Sink;
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

/// A command that needs more than this lane can make room for waits so long for other lanes to give of theirs.
const WAIT_NS: u64 = 100_000_000;
/// Meanwhile one lane after the other is asked, each after so long: it may have thousands of keys to evict.
const ASK_NEXT_NS: u64 = WAIT_NS / 8;

/// After one has waited in vain no other one waits for so long, unless a lane gives something: with a policy that spares
/// keys all lanes may be full of those, and every write would wait.
const NO_WAIT_NS: u64 = 1_000_000_000;

/// Whether there is room for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// There is.
    Enough,
    /// There may be after more work here.
    More,
    /// All keys that were looked at are locked: there may be later.
    Held,
    /// Not within this lane's lease, whatever goes. With so large a lease there may be.
    Short(u64),
    /// There is none, and nothing may go.
    Nothing,
}

impl From<Evicted> for Made {
    fn from(evicted: Evicted) -> Made {
        match evicted {
            Evicted::Enough => Made::Enough,
            Evicted::More => Made::More,
            Evicted::Held => Made::Held,
            Evicted::Nothing => Made::Nothing,
        }
    }
}

/// A lane's lease, and what may go to stay within it.
pub(crate) struct Room {
    lease: Lease,
    /// Bytes held beside the data, as of the turn's beginning: what clients hold.
    beside: u64,
    /// Bytes kept free for commands that have begun and will add as much.
    pub(crate) reserved: u64,
    /// Bytes of data that another lane holds as well, and will not when the command is over that brings them here. Its lease
    /// follows then.
    pub(crate) arriving: u64,
    /// Bytes of the large command at hand: what it brings is measured before it is taken in. A small one's fit below the mark.
    coming: u64,
    size_max: u64,
    mark: u64,
    /// While more is held than may be because the limit was lowered: no more than that is.
    ceiling: u64,
    policy: Policy,
    /// Draws the samples.
    chance: Chance,
    /// What another lane was promised.
    debt: Option<Debt>,
    /// Bytes that were wanted when the account was found spent.
    wanted: u64,
    /// When another lane may be asked again.
    ask_at_ns: u64,
    /// Lanes that were asked since one has given all that it was asked for.
    asked_count: usize,
    /// Commands that wait for other lanes to give room.
    pub(crate) waiter_count: usize,
    /// Bytes that the lease lacks for one of them.
    short: u64,
    /// Lanes that had nothing to give since one has given something.
    refusal_count: u64,
    /// Until when none waits.
    no_wait_until_ns: u64,
}

#[derive(Clone, Copy)]
struct Debt {
    to: u16,
    size: u64,
    /// It hears of it also when it gets nothing.
    is_awaited: bool,
    /// Then nobody waits for what is left of it.
    until_ns: u64,
    /// Turns in which the next part of it was free. In the first one those who wait here go before.
    free_turns: u32,
}

impl Room {
    /// What all lanes see.
    pub(crate) fn board(&self) -> &Arc<Board> {
        self.lease.board()
    }

    /// Without a limit.
    pub(crate) fn unlimited(board: Arc<Board>, lane: u16) -> Room {
        Room {
            lease: Lease::new(board, lane),
            beside: 0,
            reserved: 0,
            arriving: 0,
            coming: 0,
            size_max: u64::MAX,
            mark: u64::MAX,
            ceiling: 0,
            policy: Policy::NoEviction,
            chance: Chance::new(0),
            debt: None,
            wanted: 0,
            ask_at_ns: 0,
            asked_count: 0,
            waiter_count: 0,
            short: 0,
            refusal_count: 0,
            no_wait_until_ns: 0,
        }
    }

    /// The lease or what counts against it has changed.
    fn measure(&mut self) {
        if !self.lease.is_limited() {
            (self.size_max, self.mark) = (u64::MAX, u64::MAX);
            return;
        }
        let lease = self.lease.size() + self.arriving;
        self.size_max = lease.saturating_sub(self.owed()).saturating_sub(self.taken());
        self.mark = self.size_max.saturating_sub(self.lease.unit());
    }

    /// Bytes of the lease that another lane is to have next, or the account. A large debt is paid in parts: whoever writes here
    /// meanwhile waits for one to be free, not for all.
    fn owed(&self) -> u64 {
        self.debt.map_or(0, |debt| debt.size.min(self.lease.unit())).max(self.lease.excess())
    }

    /// Bytes of the lease that are not for data that comes.
    fn taken(&self) -> u64 {
        self.beside + self.reserved
    }

    /// Says what is held beside the data.
    pub(crate) fn set_beside(&mut self, size: u64) {
        self.beside = size;
    }

    /// So much of it is held no more: a command begins that adds it. The mark is as it was, so whether that command is measured is
    /// decided with it; measured it is without.
    pub(crate) fn relieve(&mut self, size: u64) {
        self.beside = self.beside.saturating_sub(size);
    }

    /// Takes of the account what `size` bytes below the mark need: how many it lacks of them. While the lane owes, it takes
    /// nothing.
    fn grow(&mut self, size: u64) -> u64 {
        let lease = size.saturating_add(self.taken()).saturating_add(self.lease.unit());
        let is_lacking = self.debt.is_none() && !self.lease.grow_to(lease);
        self.measure();
        if is_lacking { lease - self.lease.size() } else { 0 }
    }

    /// The same for a command: what it lacks, others are asked for.
    fn grow_or_want(&mut self, size: u64) {
        let lacking = self.grow(size);
        self.wanted = self.wanted.max(lacking);
    }

    /// Another lane asks for a part of the lease. One debt at a time, and none while a command waits here for others to
    /// give: who is not heard asks again.
    pub(crate) fn owe(&mut self, to: u16, size: u64, is_awaited: bool, now_ns: u64) {
        if self.debt.is_none() && self.waiter_count == 0 && self.policy != Policy::NoEviction {
            self.debt =
                Some(Debt { to, size, is_awaited, until_ns: now_ns.saturating_add(WAIT_NS), free_turns: 0 });
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

    /// What comes of the lane's own keys being too few for a command: with another `data` bytes of lease it has room, if
    /// other lanes may give as much.
    fn short_of(&self, data: u64, now_ns: u64) -> Made {
        let lease = data.saturating_add(self.taken()).saturating_add(self.lease.unit());
        let is_vain = self.policy == Policy::NoEviction || now_ns < self.no_wait_until_ns;
        let may_come = self.lacks(lease) > 0 && lease <= self.lease.size_max();
        if may_come && !is_vain { Made::Short(lease) } else { Made::Nothing }
    }

    /// Bytes that the lease lacks to be `size` bytes once what is owed is paid.
    fn lacks(&self, size: u64) -> u64 {
        size.saturating_add(self.owed()).saturating_sub(self.lease.size())
    }

    /// Nothing more may go here, and all lanes together hold too much: others give what this one can't pay back. Several may be
    /// doing so already, each for another lane, so it is a little at a time.
    fn lack_excess(&mut self, now_ns: u64) {
        if self.no_wait_until_ns <= now_ns {
            self.short = self.short.max(self.lease.excess().min(2 * self.lease.unit()));
        }
    }

    /// Another lane has given of what it was asked for, or all that it will.
    pub(crate) fn receive(&mut self, size: u64, is_all: bool, now_ns: u64) {
        if size == 0 {
            // The next one may have something. When none has, nobody waits for it.
            self.ask_at_ns = 0;
            self.refusal_count += 1;
            if self.lease.lane_count() <= self.refusal_count {
                self.no_wait_until_ns = now_ns.saturating_add(NO_WAIT_NS);
            }
            return;
        }
        self.lease.receive(size);
        (self.refusal_count, self.no_wait_until_ns) = (0, 0);
        if is_all {
            (self.ask_at_ns, self.asked_count) = (0, 0);
        } else {
            self.ask_at_ns = self.ask_at_ns.max(now_ns.saturating_add(ASK_AGAIN_NS));
        }
        self.measure();
    }
}

/// Refuses a command for which there is no memory, in the words of its dialect.
#[cold]
pub(crate) fn refuse(call: &Call<'_>, sink: &mut Sink<'_>) {
    match call.command.group {
        Group::Document => documents::refuse_for_room(call, sink),
        Group::Record => records::refuse_for_room(call, sink),
        _ => reply::error(sink, OOM),
    }
}

/// Bytes that a command may add, by its arguments; `None`: it adds nothing. They were counted as they came, so that a long command
/// is measured as soon as a short one.
#[inline]
pub(crate) fn growth(command: &Command, args: &Args<'_>) -> Option<u64> {
    command.flags.has(Flag::Denyoom).then(|| growth_of_all(args))
}

/// Bytes that entries take which are made of all arguments behind the command's name.
pub(crate) fn growth_of_all(args: &Args<'_>) -> u64 {
    growth_of(args.len() - 1, args.size() - args.get(0).size())
}

/// Bytes that entries take which are made of so many arguments of `size` bytes together.
pub(crate) fn growth_of(count: usize, size: usize) -> u64 {
    size as u64 + count.div_ceil(2) as u64 * ENTRY_SIZE
}

impl Keyspace {
    /// Sets what all lanes together may hold in bytes (0: no limit) and what may go. Whether they are known to hold more by now, which
    /// those do not know who have looked before.
    pub(crate) fn set_room(&mut self, size_max: u64, policy: Policy) -> bool {
        let held = self.shard.held().saturating_add(self.room.taken());
        self.room.lease.set_limit(size_max, held);
        self.shares = self.namespaces.shares(size_max, self.room.lease.lane_count());
        self.room.policy = policy;
        self.room.debt = None;
        self.room.measure();
        self.room.ceiling = if policy == Policy::NoEviction { 0 } else { self.shard.held() };
        self.shard.set_recency(if policy.is_lfu() {
            store::Recency::Lfu { log_factor: 10, decay_minutes: 1 }
        } else {
            store::Recency::Lru
        });
        self.room.lease.is_beyond()
    }

    fn is_tight(&self) -> bool {
        self.shard.held().saturating_add(self.room.coming) >= self.room.mark
    }

    /// A command of so many bytes is at hand, which did not come in one piece with others; 0: no more.
    pub(crate) fn expect_bytes(&mut self, size: usize) {
        self.room.coming = size as u64;
    }

    /// Whether there is room for a command that may add, as far as a few looks go. [`Evicted::Nothing`]: there is none
    /// and nothing may go, the command is refused. One that sets several keys is measured beforehand, however much room
    /// there seems to be: once it has begun it is not refused half-way. More than a slice of them waits for its turn.
    /// One in a namespace that has a share of the limit is measured as well, for that.
    #[inline]
    pub(crate) fn room_for(&mut self, command: &Command, args: &Args<'_>, db: u16, locks: &Locks) -> Made {
        if !self.room.lease.is_limited() {
            return Made::Enough;
        }
        let is_measured = self.is_tight() || command.keys.step > 1;
        if is_measured || self.share(db).is_some() {
            return self.room_measured(command, args, db, locks, is_measured);
        }
        Made::Enough
    }

    /// Whether [`Keyspace::room_for`] may make room, for which keys go that nobody has locked.
    pub(crate) fn may_make_room(&self, command: &Command, db: u16) -> bool {
        self.room.lease.is_limited()
            && command.flags.has(Flag::Denyoom)
            && (self.is_tight() || command.keys.step > 1 || self.share(db).is_some())
    }

    /// The same of a command that is measured, or of one whose namespace has a share.
    fn room_measured(
        &mut self,
        command: &Command,
        args: &Args<'_>,
        db: u16,
        locks: &Locks,
        is_measured: bool,
    ) -> Made {
        let Some(size) = growth(command, args) else { return Made::Enough };
        if command.keys.step > 1 && u64::from(SLICE.bytes) < size {
            return Made::More;
        }
        let mut budget = LOOKS_PER_COMMAND;
        if is_measured {
            self.make_room(locks, db, size, &mut budget)
        } else {
            self.make_room_in_share(locks, db, size, &mut budget)
        }
    }

    /// Bytes that the keys of a database may take on this lane, if it has a share.
    #[inline]
    fn share(&self, db: u16) -> Option<u64> {
        let number = usize::from(db.checked_sub(self.database_count)?);
        self.shares.get(number).copied().flatten()
    }

    /// Makes room for `size` bytes more in a namespace that has a share: its own keys go, and nothing else helps.
    fn make_room_in_share(&mut self, locks: &Locks, db: u16, size: u64, budget: &mut Budget) -> Made {
        let Some(share) = self.share(db) else { return Made::Enough };
        let Some(target) = share.checked_sub(size) else { return Made::Nothing };
        if self.shard.held_by(db) <= target {
            return Made::Enough;
        }
        self.evict(locks, Some(db), target, budget).into()
    }

    /// Makes room for `size` bytes more in a database, with what is left of its share and of the account and what this lane may
    /// evict.
    pub(crate) fn make_room(&mut self, locks: &Locks, db: u16, size: u64, budget: &mut Budget) -> Made {
        if !self.room.lease.is_limited() {
            return Made::Enough;
        }
        let made = self.make_room_in_share(locks, db, size, budget);
        if made != Made::Enough {
            return made;
        }
        self.room.grow_or_want(self.shard.held().saturating_add(size));
        // What does not fit must not cost the others their place.
        let Some(target) = self.room.mark.checked_sub(size) else {
            return self.room.short_of(size, self.now.mono_ns);
        };
        if self.shard.held().saturating_add(size) <= self.room.size_max {
            return Made::Enough;
        }
        let held_before = self.shard.held();
        let evicted = self.evict(locks, None, target, budget);
        let data = self.shard.held().saturating_add(size);
        match evicted {
            _ if data <= self.room.size_max => Made::Enough,
            // As much has gone as comes, and housekeeping sees to the rest: who writes need not wait for all of it.
            Evicted::More if data <= held_before && held_before <= self.room.ceiling => Made::Enough,
            Evicted::Nothing => self.room.short_of(data, self.now.mono_ns),
            evicted => evicted.into(),
        }
    }

    /// What comes of all that was looked at to make room for `size` bytes being held, again and again: with a larger lease there is
    /// room beside it.
    pub(crate) fn room_beside_held(&self, size: u64) -> Made {
        self.room.short_of(self.shard.held().saturating_add(size), self.now.mono_ns)
    }

    /// A command waits for a lease of `size` bytes; `until_ns` is when it gives up, set the first time. False when that is
    /// over.
    pub(crate) fn wait_for_lease(&mut self, size: u64, until_ns: &mut Option<u64>) -> bool {
        let now_ns = self.now.mono_ns;
        if until_ns.is_none() {
            self.room.waiter_count += 1;
            // Who was asked for less, or did not give it, is asked again.
            (self.room.ask_at_ns, self.room.asked_count, self.room.refusal_count) = (0, 0, 0);
        }
        let until_ns = *until_ns.get_or_insert(now_ns.saturating_add(WAIT_NS));
        self.room.short = self.room.short.max(self.room.lacks(size));
        let has_time = now_ns < until_ns;
        if !has_time {
            self.room.no_wait_until_ns = now_ns.saturating_add(NO_WAIT_NS);
        }
        has_time
    }

    /// It waits no more, if it did.
    pub(crate) fn end_wait_for_lease(&mut self, until_ns: &mut Option<u64>) {
        self.room.waiter_count -= usize::from(until_ns.take().is_some());
    }

    /// What was wanted for a command is refused: no other lane is asked for it.
    pub(crate) fn want_nothing(&mut self) {
        self.room.wanted = 0;
    }

    /// Keeps what is free, up to `size` bytes, for somebody who makes room for as much: how many that are.
    pub(crate) fn claim(&mut self, size: u64) -> u64 {
        let is_limited = self.room.lease.is_limited();
        let free = if is_limited { self.room.size_max.saturating_sub(self.shard.held()) } else { 0 };
        self.reserve(size.min(free));
        size.min(free)
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

    /// A value is about to come that another lane holds until the command is over: it is within the lease meanwhile.
    pub(crate) fn expect_arrival(&mut self, size: u64) {
        self.room.arriving += size;
        self.room.measure();
    }

    /// What was expected is here alone.
    pub(crate) fn end_arrival(&mut self, size: u64) {
        self.room.arriving -= size;
        self.room.measure();
    }

    /// Whether a value may become `size` bytes longer than the arguments said for which there was room. Where keys may go it
    /// may become as long as a lane could hold, and the lane makes up for it afterwards.
    pub(crate) fn may_grow(&mut self, size: usize) -> bool {
        if size == 0 || !self.room.lease.is_limited() {
            return true;
        }
        let size = size as u64;
        if self.room.lease.size_max() < size.saturating_add(self.room.taken()) {
            return false;
        }
        self.room.grow_or_want(self.shard.held().saturating_add(size));
        if self.room.policy != Policy::NoEviction {
            return true;
        }
        // Nothing goes, but what waits to be freed is room already.
        let Some(target) = self.room.size_max.checked_sub(size) else { return false };
        self.evict(&Locks::default(), None, target, &mut LOOKS_PER_COMMAND.clone()) == Evicted::Enough
    }

    /// Whether what mostly reads may add this key to a database. Nothing goes for it at once: where keys may, the lane makes up for it
    /// afterwards.
    pub(crate) fn may_add(&mut self, db: u16, key: &[u8]) -> bool {
        let size = growth_of(1, key.len());
        if self.share(db).is_some_and(|share| share < self.shard.held_by(db).saturating_add(size)) {
            return false;
        }
        let goes_by_itself = matches!(
            self.room.policy,
            Policy::NoEviction | Policy::AllKeysLru | Policy::AllKeysLfu | Policy::AllKeysRandom
        );
        // Of those that have a time to live there may be none.
        self.may_grow(usize::try_from(size).unwrap_or(usize::MAX)) && (goes_by_itself || !self.is_tight())
    }

    /// A turn's share of making room. True when there is more to do at once.
    pub(crate) fn tend_room(&mut self, locks: &Locks) -> bool {
        if !self.room.lease.is_limited() {
            return false;
        }
        self.room.measure();
        let held = self.shard.held();
        self.room.ceiling = if self.room.size_max < held { held.min(self.room.ceiling) } else { 0 };
        if self.is_tight() {
            let lacking = self.room.grow(held);
            // Who has nothing to do but little left asks nobody: others would have no answer for those who need more.
            if self.room.size_max < held {
                self.room.wanted = self.room.wanted.max(lacking);
            }
        }
        let evicted = if self.room.size_max < self.shard.held() {
            self.evict(locks, None, self.room.mark, &mut LOOKS_PER_TURN.clone())
        } else {
            Evicted::Enough
        };
        match evicted {
            Evicted::More => {
                // So that others see what has gone here.
                self.repay_excess();
                return true;
            }
            Evicted::Enough => {}
            // Whatever lets go of keys brings another turn about. Who waits may be the one that holds them.
            Evicted::Held if self.room.debt.is_some_and(|debt| debt.is_awaited) => {
                self.room.owe_less(self.shard.held());
            }
            Evicted::Held => {}
            // A promise is worth what may go.
            Evicted::Nothing => self.room.owe_less(self.shard.held()),
        }
        self.give_back();
        if evicted == Evicted::Nothing {
            self.room.lack_excess(self.now.mono_ns);
        }
        let is_free = self.shard.held() <= self.room.size_max;
        self.room.debt.as_mut().filter(|_| is_free).is_some_and(|debt| {
            debt.free_turns += 1;
            debt.free_turns == 1
        })
    }

    /// Gives the account what this lane does not need.
    fn give_back(&mut self) {
        let needed = self.repay_excess();
        let Room { lease, waiter_count, .. } = &mut self.room;
        if *waiter_count == 0 {
            lease.shrink_to(needed.saturating_add(lease.unit()));
        }
    }

    /// Of what all lanes together have borrowed too much, gives back what is free here. Gives the bytes of the lease that are not.
    fn repay_excess(&mut self) -> u64 {
        let held = self.shard.held();
        let taken = self.room.taken();
        let Room { lease, debt, .. } = &mut self.room;
        let owed = debt.map_or(0, |debt| debt.size);
        let needed = held.saturating_add(taken).saturating_add(owed);
        let excess = lease.excess();
        lease.repay(excess.min(lease.size().saturating_sub(needed)));
        needed
    }

    /// Evicts keys, or those of one database, see [`store::Shard::evict`].
    fn evict(&mut self, locks: &Locks, of: Option<u16>, target: u64, budget: &mut Budget) -> Evicted {
        let is_locked = |db: u16, hash: u64| locks.covers(db, hash);
        let Keyspace { shard, room, .. } = self;
        let evicted = shard.evict(room.policy, of, target, &mut || room.chance.next(), budget, &is_locked);
        if !self.watches.is_empty() {
            self.tell_watchers();
        }
        evicted
    }
}

impl Core {
    /// Pays what this lane owes another, and asks another for what it lacks. After the turn's housekeeping.
    pub(crate) fn settle_room(&mut self) {
        if self.space.room.debt.is_none() && self.space.room.wanted == 0 && self.space.room.short == 0 {
            return;
        }
        self.pay();
        self.ask_for_room();
    }

    /// Hands over what was promised as it becomes free, or as much as can be freed.
    fn pay(&mut self) {
        let (held, now_ns) = (self.space.shard.held(), self.space.now.mono_ns);
        let room = &mut self.space.room;
        let Some(debt) = room.debt else { return };
        if debt.until_ns <= now_ns {
            room.debt = None;
            return room.measure();
        }
        if room.size_max < held || debt.free_turns < 2 {
            return;
        }
        let free = room.lease.size().saturating_sub(held.saturating_add(room.taken()));
        let part = debt.size.min(free).min(room.lease.unit());
        let given = room.lease.part_with(part);
        let left = debt.size - part;
        room.debt = (left > 0 && given == part).then_some(Debt { size: left, free_turns: 0, ..debt });
        let is_over = room.debt.is_none();
        room.measure();
        let Debt { to, is_awaited, .. } = debt;
        let head = ControlHead { target: given, round: u32::from(is_over), kind: ControlKind::Lend };
        // A word to a lane that does not wait would only wake it, to ask once more.
        if (given > 0 || is_awaited && is_over) && !self.peer(to).try_tell(head, &mut None) {
            // The other finds it in the account.
            self.space.room.lease.receive(given);
            self.space.room.lease.repay(given);
        }
    }

    fn ask_for_room(&mut self) {
        let now_ns = self.space.now.mono_ns;
        let room = &mut self.space.room;
        let (wanted, short) = (std::mem::take(&mut room.wanted), std::mem::take(&mut room.short));
        let is_content = wanted == 0 && short == 0;
        if is_content || room.policy == Policy::NoEviction || now_ns < room.ask_at_ns {
            return;
        }
        let wanted = wanted.max(room.lease.unit());
        // For a command that waits lanes give what they have, otherwise until both have the same.
        let (kind, lender, wanted, pause_ns) = match short {
            0 => (ControlKind::Yield, room.lease.richer(room.asked_count), wanted, ASK_AGAIN_NS),
            short => (ControlKind::Need, room.lease.lender(room.asked_count), short, ASK_NEXT_NS),
        };
        let Some((lane, spare)) = lender else { return };
        // One that gives nothing has no key that may go: the next time another one is asked.
        room.asked_count += 1;
        room.ask_at_ns = now_ns.saturating_add(pause_ns);
        let head = ControlHead { target: wanted.min(spare), round: 0, kind };
        // Without a place for the question it is asked again, if it still matters.
        let _ = self.peer(lane).try_tell(head, &mut None);
    }
}

impl Lane {
    /// Where the part of the lane's memory ends that was ever in use, in bytes from its start.
    pub fn frontier(&self) -> usize {
        self.core.space.shard.frontier()
    }

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
