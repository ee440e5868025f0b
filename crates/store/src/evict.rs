//! Making room: which keys go when memory runs out, by Redis' policy names.
//!
//! A victim is the best of a sample of 16 entries, drawn anew each time: buckets in partitions that are drawn in
//! proportion to their keys. (Redis samples five and keeps a pool of earlier ones, by key; here nothing is kept.) When
//! half of the keys go, fewer than one in eight of them belonged to the better half. For keys to expire first, four
//! entries of the wheel's next slot join the sample.

use crate::budget::Budget;
use crate::database::{Database, Weight};
use crate::effect::{Effect, What};
use crate::entry::Head;
use crate::shard::Shard;
use crate::table::{self, POSITION_BITS};
use crate::wheel::instant;

/// Entries from which a victim is chosen.
const SAMPLE_COUNT: usize = 16;
/// Entries from the wheel's front that join them when the next to expire is wanted.
const FRONT_COUNT: usize = 4;
/// Buckets looked at for them: enough for keys without an end in their buckets, and a bound if there are none with one.
const SAMPLE_BUCKETS_MAX: usize = 12;

/// What may be evicted, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nothing: writes are refused.
    NoEviction,
    /// Any key, the longest unused first.
    AllKeysLru,
    /// Any key, the least used first.
    AllKeysLfu,
    /// Any key.
    AllKeysRandom,
    /// A key with a time to live, the longest unused first.
    VolatileLru,
    /// A key with a time to live, the least used first.
    VolatileLfu,
    /// A key with a time to live.
    VolatileRandom,
    /// The key that would expire next.
    VolatileTtl,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Policy; 8] = [
        Policy::NoEviction,
        Policy::AllKeysLru,
        Policy::AllKeysLfu,
        Policy::AllKeysRandom,
        Policy::VolatileLru,
        Policy::VolatileLfu,
        Policy::VolatileRandom,
        Policy::VolatileTtl,
    ];

    /// The value of `maxmemory-policy` that means it.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::NoEviction => "noeviction",
            Policy::AllKeysLru => "allkeys-lru",
            Policy::AllKeysLfu => "allkeys-lfu",
            Policy::AllKeysRandom => "allkeys-random",
            Policy::VolatileLru => "volatile-lru",
            Policy::VolatileLfu => "volatile-lfu",
            Policy::VolatileRandom => "volatile-random",
            Policy::VolatileTtl => "volatile-ttl",
        }
    }

    /// Whether it reads recency as LFU counters, for `Shard::set_recency`.
    pub const fn is_lfu(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }

    const fn weight(self) -> Weight {
        match self {
            Policy::AllKeysLru | Policy::AllKeysLfu | Policy::AllKeysRandom => Weight::Keys,
            _ => Weight::Expiring,
        }
    }
}

/// How an eviction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The shard holds no more than was asked for, but for what waits to be freed.
    Enough,
    /// The budget is spent and there is more to evict.
    More,
    /// The budget is spent, and transactions hold all that was looked at: another look may find something else.
    Held,
    /// Nothing is left that the policy lets go.
    Nothing,
}

/// Entries looked at for one victim, the best last.
struct Sample {
    entries: [(u64, u32); SAMPLE_COUNT + FRONT_COUNT],
    count: usize,
}

impl Shard {
    /// Evicts keys until the shard holds at most `target` bytes (as `held`, less what waits to be freed), or, with `of`, until
    /// that database does (as `held_by`), which then loses keys alone; or the budget is spent, or nothing is left to evict. `draw` gives random numbers; `hold(db, hash)` says which keys transactions
    /// hold. An entry looked at is an element.
    pub fn evict(
        &mut self,
        policy: Policy,
        of: Option<u16>,
        target: u64,
        draw: &mut dyn FnMut() -> u64,
        budget: &mut Budget,
        hold: &dyn Fn(u16, u64) -> bool,
    ) -> Evicted {
        // What was flushed is room already: it goes first.
        self.reap(budget);
        let (mut has_evicted, mut has_missed) = (false, false);
        let measured = |shard: &Shard| match of {
            None => shard.held() - shard.graveyard.size(),
            Some(db) => shard.held_by(db),
        };
        while measured(self) > target {
            if budget.is_spent() {
                return if has_missed && !has_evicted { Evicted::Held } else { Evicted::More };
            }
            if policy == Policy::NoEviction {
                return Evicted::Nothing;
            }
            let mut sample = Sample { entries: [(0, 0); SAMPLE_COUNT + FRONT_COUNT], count: 0 };
            self.sample(policy, of, draw, &mut sample, budget);
            if policy == Policy::VolatileTtl || sample.count == 0 && policy.weight() == Weight::Expiring {
                self.sample_wheel(policy, of, &mut sample, budget);
            }
            if sample.count == 0 {
                if self.weight(policy, of) == 0 {
                    return Evicted::Nothing;
                }
                // They are few among many that may not go, and none of them was drawn.
                continue;
            }
            // Of those that are as good the last one drawn, not the one that lies highest: that may be the newest.
            sample.entries[..sample.count].sort_unstable_by_key(|&(score, _)| score);
            let is_one_gone = self.evict_one(&sample, hold);
            budget.spend(0, self.take_copied());
            (has_evicted, has_missed) = (has_evicted | is_one_gone, has_missed | !is_one_gone);
        }
        Evicted::Enough
    }

    /// Removes the best entry of the sample that is not held.
    fn evict_one(&mut self, sample: &Sample, hold: &dyn Fn(u16, u64) -> bool) -> bool {
        let mut bytes = std::mem::take(&mut self.scratch);
        let mut done = false;
        for &(_, handle) in sample.entries[..sample.count].iter().rev() {
            match self.owner(handle, &mut bytes) {
                Some((key, _)) if !hold(key.db, key.hash) => {
                    self.commit_because(Effect::Delete { key }, What::Evicted)
                        .expect("removing needs no room");
                    done = true;
                    break;
                }
                _ => {}
            }
        }
        self.scratch = bytes;
        done
    }

    /// Keys that the policy lets go.
    fn weight(&self, policy: Policy, of: Option<u16>) -> u64 {
        self.databases_of(of).map(|database| database.weight(policy.weight())).sum()
    }

    fn databases_of(&self, of: Option<u16>) -> impl Iterator<Item = &Database> {
        self.databases.iter().filter(move |database| of.is_none_or(|db| database.number == db))
    }

    /// Fills the sample from buckets drawn at random.
    fn sample(
        &self,
        policy: Policy,
        of: Option<u16>,
        draw: &mut dyn FnMut() -> u64,
        sample: &mut Sample,
        budget: &mut Budget,
    ) {
        let weight = policy.weight();
        let total = self.weight(policy, of);
        for _ in 0..SAMPLE_BUCKETS_MAX {
            let number = draw();
            let Some(mut left) = number.checked_rem(total) else { return };
            let database = self.databases_of(of).find(|database| {
                let found = left < database.weight(weight);
                left -= if found { 0 } else { database.weight(weight) };
                found
            });
            let database = database.expect("a number below the sum falls on a database");
            let root = database.root(database.locate(left, weight));
            let position = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - POSITION_BITS);
            let (bucket, _) = table::covering(&self.arena, root, position);
            if bucket == 0 {
                budget.spend(1, 0);
                continue;
            }
            for handle in table::entries(&self.arena, bucket) {
                budget.spend(1, 0);
                self.consider(policy, handle, draw, sample);
                if sample.count == SAMPLE_COUNT {
                    return;
                }
            }
        }
    }

    /// Fills the sample with what the wheel has in front.
    fn sample_wheel(&self, policy: Policy, of: Option<u16>, sample: &mut Sample, budget: &mut Budget) {
        for handle in self.wheel.front(&self.arena).take(FRONT_COUNT) {
            budget.spend(1, 0);
            let home = Head::read(&self.arena, handle).home(&self.arena);
            if of.is_some_and(|db| self.databases[usize::from(home)].number != db) {
                continue;
            }
            self.consider(policy, handle, &mut || 0, sample);
        }
    }

    /// Notes an entry with how well it would be evicted.
    fn consider(&self, policy: Policy, handle: u32, draw: &mut dyn FnMut() -> u64, sample: &mut Sample) {
        let head = Head::read(&self.arena, handle);
        if policy.weight() == Weight::Expiring && !head.has_ttl() {
            return;
        }
        let score = match policy {
            Policy::AllKeysLru | Policy::VolatileLru => u64::from(self.idle_of(head.word)),
            Policy::AllKeysLfu | Policy::VolatileLfu => u64::from(255 - self.frequency_of(head.word)),
            Policy::VolatileTtl => u64::MAX - instant(head.expires_at(&self.arena)),
            Policy::AllKeysRandom | Policy::VolatileRandom | Policy::NoEviction => draw(),
        };
        sample.entries[sample.count] = (score, handle);
        sample.count += 1;
    }
}
