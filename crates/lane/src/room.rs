//! Room: what a lane does as its share of `maxmemory` runs out. It makes room ahead of need, between commands and a few
//! victims at a time; only when nothing may go is a command refused.
//!
//! ```text
//! 0 ──────────────── mark ──── share          held bytes: entries, tables, ropes, what waits to be freed
//!    nothing to do    │ each write makes room for itself first, housekeeping for a little more
//!                     └ 31/32 of the share     └ beyond: writes that may add are refused with -OOM
//! ```

use std::ops::Range;

use store::{Budget, Evicted, Policy};

use crate::keyspace::Keyspace;
use crate::locks::Locks;
use crate::turn::Lane;

/// Entries looked at to make room for one ordinary command: about three victims.
const LOOKS_PER_COMMAND: u32 = 64;
/// Entries looked at to make room for one large value; if that is not enough the command is refused.
const LOOKS_MAX: u32 = 4096;
/// Entries looked at in a turn's housekeeping.
const LOOKS_PER_TURN: u32 = 256;
/// A command that adds more than this may take as many looks as [`LOOKS_MAX`].
const LARGE_SIZE: u64 = 1024;

/// A lane's share of `maxmemory`, and what may go to stay within it.
#[derive(Debug)]
pub(crate) struct Room {
    size_max: u64,
    mark: u64,
    policy: Policy,
    /// Where the drawing of samples has come to (splitmix64).
    chance: u64,
}

impl Room {
    /// Without a limit.
    pub(crate) fn unlimited() -> Room {
        Room { size_max: u64::MAX, mark: u64::MAX, policy: Policy::NoEviction, chance: 0 }
    }
}

fn draw(chance: &mut u64) -> u64 {
    *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*chance ^ (*chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Keyspace {
    /// Sets the lane's share in bytes (0: no limit) and what may go.
    pub(crate) fn set_room(&mut self, size_max: u64, policy: Policy) {
        let size_max = if size_max == 0 { u64::MAX } else { size_max };
        let mark = if size_max == u64::MAX { u64::MAX } else { size_max - size_max / 32 };
        self.room = Room { size_max, mark, policy, chance: self.room.chance };
        self.shard.set_lease(size_max);
        self.shard.set_recency(if policy.is_lfu() {
            store::Recency::Lfu { log_factor: 10, decay_minutes: 1 }
        } else {
            store::Recency::Lru
        });
    }

    /// Whether a command that may add has to make room first.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.shard.held() >= self.room.mark
    }

    /// Makes room for `size` bytes more. False when there is none and nothing may go: the command is refused.
    pub(crate) fn make_room(&mut self, locks: &Locks, size: u64) -> bool {
        let looks = if size > LARGE_SIZE { LOOKS_MAX } else { LOOKS_PER_COMMAND };
        let target = self.room.mark.saturating_sub(size);
        let evicted = self.evict(locks, target, looks);
        evicted == Evicted::Enough || self.shard.held() < self.room.size_max
    }

    /// A turn's share of making room. True when there is more to do at once.
    pub(crate) fn tend_room(&mut self, locks: &Locks) -> bool {
        self.is_tight() && self.evict(locks, self.room.mark, LOOKS_PER_TURN) == Evicted::More
    }

    fn evict(&mut self, locks: &Locks, target: u64, looks: u32) -> Evicted {
        let is_locked = |db: u16, hash: u64| locks.covers(db, hash);
        let Keyspace { shard, room, .. } = self;
        let mut budget = Budget::new(looks, u32::MAX);
        let evicted =
            shard.evict(room.policy, target, &mut || draw(&mut room.chance), &mut budget, &is_locked);
        if !self.watches.is_empty() {
            self.tell_watchers();
        }
        evicted
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
