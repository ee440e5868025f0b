//! Approaching: the cache misses of look-ups to come, spent on other work.
//!
//! A look-up of a cold key waits for its partition's head, then for inner nodes and its bucket, then for its entry, and
//! each is found in the one before. So a look-up is begun early, while later commands are still being decoded, and goes a
//! step further when [`LEAD`] others have begun: a step looks at what the step before has asked the memory for, and asks
//! for what that points to.
//!
//! ```text
//! begin 0     0: ask for head
//! …
//! begin 4     4: ask for head    0: look at head, ask for bucket
//! …
//! begin 8     8: ask for head    4: look at head, ask for bucket    0: look at bucket, ask for entry
//! ```
//! Asking is a hint ([`crate::prefetch`]): the processor does not wait for it, as it soon does with a load, of which it
//! can run only some two hundred instructions ahead.

use crate::database::Partition;
use crate::prefetch::prefetch;
use crate::shard::Shard;
use crate::table;

/// Look-ups that begin between two steps of one: the memory takes longer to answer than a command to be decoded.
const LEAD: usize = 4;
/// Steps after the first: to the bucket and the entry, and one for an inner node, which partitions of dozens of keys have.
/// Those of hundreds have two levels of them; the second is waited for.
const STEP_COUNT: usize = 3;
/// How far a walk is behind the one that begins when it takes each of its steps.
const LEADS: [usize; STEP_COUNT] = [LEAD, 2 * LEAD, 3 * LEAD];
/// Look-ups under way at a time.
const WALK_COUNT: usize = 16;
const _: () = assert!(LEAD * STEP_COUNT < WALK_COUNT, "a walk is at its end before its place is wanted");

/// What a step looks at.
#[derive(Clone, Copy, Debug)]
enum At<'a> {
    /// Nothing: it is at its end.
    End,
    /// The partition's head.
    Head(&'a Partition),
    /// A node of its tree, inner or bucket.
    Node(u32),
}

#[derive(Clone, Copy, Debug)]
struct Walk<'a> {
    at: At<'a>,
    /// Inner nodes passed.
    level: usize,
    hash: u64,
}

/// Look-ups on their way. While they are, nothing changes.
#[derive(Debug)]
pub struct Approaches<'a> {
    shard: &'a Shard,
    walks: [Walk<'a>; WALK_COUNT],
    /// How many were begun.
    count: usize,
}

impl Shard {
    /// For bringing near what look-ups to come will look at.
    pub fn approaches(&self) -> Approaches<'_> {
        Approaches { shard: self, walks: [Walk { at: At::End, level: 0, hash: 0 }; WALK_COUNT], count: 0 }
    }
}

impl Approaches<'_> {
    /// Begins with the key that has this hash, and takes some that were begun before a step further.
    #[inline(always)]
    pub fn begin(&mut self, db: u16, partition: u16, hash: u64) {
        if let Some(head) = self.shard.database(db).head(partition) {
            prefetch(head);
            for lead in LEADS {
                if lead <= self.count {
                    self.step(self.count - lead);
                }
            }
            self.walks[self.count % WALK_COUNT] = Walk { at: At::Head(head), level: 0, hash };
            self.count += 1;
        }
    }

    /// Takes all that were begun to their ends: the first of them is about to be looked up. One alone has nothing to
    /// gain by it.
    pub fn arrive(&mut self) {
        if self.count > 1 {
            for lead in LEADS.into_iter().rev() {
                (self.count.saturating_sub(lead)..self.count).for_each(|number| self.step(number));
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, number: usize) {
        let arena = &self.shard.arena;
        let walk = &mut self.walks[number % WALK_COUNT];
        let link = match walk.at {
            At::End => return,
            At::Head(head) => head.root,
            At::Node(link) if table::is_inner(link) => {
                walk.level += 1;
                table::child(arena, link, walk.hash, walk.level - 1)
            }
            At::Node(bucket) => {
                let entry = table::likely(arena, bucket, walk.hash);
                arena.prefetch(entry, 0);
                // The value may go on in the line behind.
                arena.prefetch(entry, 64);
                0
            }
        };
        walk.at = if link == 0 { At::End } else { At::Node(link) };
        if link != 0 {
            arena.prefetch(link & !1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Effect, Expiry, NewValue, Recency, Region};

    fn partition_of(_db: u16, _key: &[u8]) -> u16 {
        3
    }

    /// One partition with so many keys that its tree has inner nodes, and one without any.
    fn shard(count: u32) -> Shard {
        let config = Config {
            partitions: 8,
            databases: 2,
            seed: [1, 2],
            partition_of,
            beside: &[],
            recency: Recency::Lru,
        };
        let mut shard = Shard::new(config, Region::new(1 << 24));
        for number in 0..count {
            let bytes = number.to_le_bytes();
            let key = shard.key(0, 3, &bytes);
            let value = NewValue::Bytes(b"value");
            shard.commit(Effect::Set { key, value, expiry: Expiry::None }).expect("room");
        }
        shard
    }

    /// But for a few tags that another key of the bucket shares.
    #[test]
    fn what_is_asked_for_is_what_a_look_up_finds() {
        let shard = shard(2000);
        let root = shard.database(0).partition(3).root;
        let mut found_count = 0;
        for number in 0..2000_u32 {
            let bytes = number.to_le_bytes();
            let key = shard.key(0, 3, &bytes);
            let entry = shard.get(&key, 0).expect("it is there").head.handle;
            let bucket = table::bucket(&shard.arena, root, key.hash);
            found_count += usize::from(table::likely(&shard.arena, bucket, key.hash) == entry);
        }
        assert!(found_count >= 1950, "{found_count} of 2000");
    }

    #[test]
    fn a_walk_ends_at_its_entry() {
        let shard = shard(100);
        let mut approaches = shard.approaches();
        for number in 0..=12_u32 {
            let hash = shard.key(0, 3, &number.to_le_bytes()).hash;
            approaches.begin(0, 3, hash);
        }
        assert!(matches!(approaches.walks[0].at, At::End), "{:?}", approaches.walks[0]);
        assert!(matches!(approaches.walks[12].at, At::Head(_)), "{:?}", approaches.walks[12]);
        approaches.arrive();
    }

    #[test]
    fn keys_that_are_not_there_end_the_walk() {
        for shard in [shard(0), shard(1), shard(2000)] {
            let mut approaches = shard.approaches();
            for number in 0..40_u16 {
                let hash = shard.key(number % 2, number % 8, b"absent").hash;
                approaches.begin(number % 2, number % 8, hash.rotate_left(u32::from(number)));
            }
            approaches.arrive();
        }
    }
}
