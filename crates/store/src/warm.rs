//! Warming: the cache misses of many look-ups side by side instead of one after the other.
//!
//! A look-up of a cold key waits three times: for its partition's head, for its bucket, for its entry. Each needs the one
//! before, so a single look-up can't do better, but look-ups of different keys need nothing of one another. Taken in
//! rounds (all heads, all buckets, all entries) the waits of one round overlap, because a processor runs ahead over
//! loads that don't depend on each other. Plain loads do that as well as prefetch instructions and need neither
//! `unsafe` nor a word about the architecture.

use std::hint::black_box;

use crate::effect::Key;
use crate::shard::Shard;
use crate::table;

/// Keys in one call of [`Shard::warm`]: enough to fill the line buffers of a core.
pub const WARM_COUNT_MAX: usize = 16;

impl Shard {
    /// Brings what [`Shard::get`] will look at near, for up to [`WARM_COUNT_MAX`] keys, and changes nothing. Worth its
    /// instructions from two keys on.
    pub fn warm(&self, keys: &[Key<'_>]) {
        assert!(keys.len() <= WARM_COUNT_MAX, "a batch to warm is at most WARM_COUNT_MAX keys");
        let mut links = [0; WARM_COUNT_MAX];
        for (link, key) in links.iter_mut().zip(keys) {
            *link = self.database(key.db).partition(key.partition).root;
        }
        let mut seen = 0;
        for (link, key) in links.iter_mut().zip(keys) {
            *link = table::bucket(&self.arena, *link, key.hash);
            seen ^= self.arena.u32(*link, 0);
        }
        for (link, key) in links.iter_mut().zip(keys) {
            *link = table::likely(&self.arena, *link, key.hash);
            seen ^= self.arena.u32(*link, 0);
        }
        black_box(seen);
    }
}
