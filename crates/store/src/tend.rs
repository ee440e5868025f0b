//! Housekeeping in paced steps: expiry in exact order, freeing, warming memory ahead of growth.

use crate::budget::Budget;
use crate::effect::{Effect, What};
use crate::shard::Shard;
use crate::table;
use crate::wheel::{Next, instant};

/// What a call of [`Shard::tend`] left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tended {
    /// Whether there is more to do at once.
    pub more: bool,
    /// The instant, in unix milliseconds, at which there is more to do if nothing changes before.
    pub next_at: Option<i64>,
}

/// How long one that is kept though its time has come is left alone, milliseconds.
const KEPT_MS: u64 = 5_000;

impl Shard {
    /// Does the shard's housekeeping until it is done or the budget is spent: takes out keys whose time has come at
    /// `now_ms` (unix), frees flushed partitions and dropped ropes, moves objects out of sparse
    /// memory, touches memory that growth will need. Each of these
    /// has a share. Every turn calls it; the turn's instant is also the clock of recency. Only a change or another millisecond
    /// brings something to do.
    ///
    /// `hold(db, hash)` says which keys must not be removed now because a transaction holds them; they are tried again
    /// a millisecond later.
    pub fn tend(&mut self, now_ms: i64, budget: &mut Budget, hold: &dyn Fn(u16, u64) -> bool) -> Tended {
        self.set_clock(now_ms);
        let has_changed =
            std::mem::replace(&mut self.effect_count_tended, self.effect_count) != self.effect_count;
        if !(std::mem::take(&mut self.is_stirred) | has_changed) && self.tended_ms == now_ms {
            return Tended { more: false, next_at: self.next_expiry() };
        }
        self.tended_ms = now_ms;
        let mut more = false;
        // Most turns find none of this, so that looking is what it costs.
        if self.expires_actively && self.wheel.reach(instant(now_ms)) {
            more |= budget.half(|budget| self.take_out_due(now_ms, budget, hold));
        }
        if !self.doomed.is_empty() {
            more |= budget.half(|budget| self.reap(budget));
        }
        if !self.graveyard.is_empty() {
            budget.half(|budget| self.graveyard.free(budget));
            self.graveyard.catch_up();
            more |= !self.graveyard.is_empty();
        }
        if self.arena.may_compact() {
            more |= budget.half(|budget| self.compact(budget));
        }
        more |= self.arena.warm(budget);
        self.is_stirred |= more;
        Tended { more, next_at: self.next_expiry() }
    }

    /// The instant, in unix milliseconds, before which expiry has nothing to do. For an end that is far off this may be
    /// a little earlier than the end itself, when the wheel looks at it again.
    pub fn next_expiry(&self) -> Option<i64> {
        self.wheel.next_at().filter(|_| self.expires_actively).map(|at| i64::try_from(at).unwrap_or(i64::MAX))
    }

    /// Whether some key has an end, or has come to it and is still here.
    pub fn has_ends(&self) -> bool {
        self.wheel.next_at().is_some()
    }

    /// Removes keys in the order of their ends. Says whether some are left.
    fn take_out_due(&mut self, now_ms: i64, budget: &mut Budget, hold: &dyn Fn(u16, u64) -> bool) -> bool {
        let now = instant(now_ms);
        while !budget.is_spent() {
            match self.wheel.step(&mut self.arena, now) {
                Next::Never | Next::At(_) => return false,
                Next::Dealt => {}
                Next::Due(handle) => self.take_out(handle, hold),
            }
            budget.spend(1, self.take_copied());
        }
        self.wheel.next_at().is_some_and(|at| at <= now)
    }

    fn take_out(&mut self, handle: u32, hold: &dyn Fn(u16, u64) -> bool) {
        let mut bytes = std::mem::take(&mut self.scratch);
        match self.owner(handle, &mut bytes) {
            Some((key, _)) if key.db < self.kept_before || hold(key.db, key.hash) => {
                let wait_ms = if key.db < self.kept_before { KEPT_MS } else { 1 };
                self.wheel.unlink(&mut self.arena, handle);
                self.wheel.link(&mut self.arena, handle, self.wheel.now + wait_ms);
            }
            Some((key, _)) => {
                self.commit_because(Effect::Delete { key }, What::Expired).expect("removing needs no room");
            }
            // Its partition was flushed and its memory waits to be freed.
            None => self.wheel.unlink(&mut self.arena, handle),
        }
        self.scratch = bytes;
    }

    /// Frees entries of flushed partitions, one bucket a step. Says whether some are left.
    pub(crate) fn reap(&mut self, budget: &mut Budget) -> bool {
        while !budget.is_spent()
            && let Some(root) = self.doomed.last_mut()
        {
            match table::dismantle(&mut self.arena, root) {
                Some((entries, count)) => {
                    let is_owed = self.walk.as_ref().is_some_and(|walk| walk.is_owed(self.doomed.len()));
                    for &handle in &entries[..count] {
                        if is_owed {
                            self.image(handle);
                        }
                        self.discard(handle);
                    }
                    budget.spend(count.max(1), self.take_copied());
                }
                None => {
                    self.doomed.pop();
                    if let Some(walk) = &mut self.walk {
                        walk.note_doomed(self.doomed.len());
                    }
                    budget.spend(1, 0);
                }
            }
        }
        !self.doomed.is_empty()
    }
}
