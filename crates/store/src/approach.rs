//! Approaching: the cache misses of look-ups to come, spent on other work.
//!
//! A look-up of a cold key waits for inner nodes and its bucket, then for its entry, and each is found in the one before. So a
//! look-up is begun early, while later commands are still being decoded, and goes a step further when [`LEAD`] others have begun: a
//! step looks at what the step before has asked the memory for, and asks for what that points to. The place of a root is computed
//! (`database.rs`): nothing is waited for on the way to it.
//!
//! ```text
//! begin  0     0: ask for root
//! …
//! begin  6     6: ask for root    0: look at root, ask for bucket, or for entry if it is one
//! ```
//! Asking is a hint ([`crate::prefetch`]): the processor does not wait for it, as it soon does with a load, of which it
//! can run only some two hundred instructions ahead.

use crate::database::Database;
use crate::shard::Shard;
use crate::table;

/// Look-ups that begin between two steps of one: the memory takes as long to answer as so many commands to be decoded.
const LEAD: usize = 6;
/// How far a walk is behind the one that begins when it takes the step that partitions of dozens of keys need: they have an inner node.
const INNER_LEAD: usize = 2 * LEAD;
/// The same of the steps that are taken where partitions are deep: those of hundreds of keys have two levels of inner nodes,
/// those of thousands three. What lies deeper is waited for.
const DEEP_LEADS: [usize; 2] = [3 * LEAD, 4 * LEAD];
/// Inner nodes on the way to an entry of a deep partition, at least.
const DEEP: u32 = 2;
/// Where the lines of an entry lie that are asked for, behind its first byte: a key and a value of a hundred bytes fill two.
const ENTRY_LINES: [usize; 2] = [0, 64];

#[derive(Clone, Copy, Debug)]
struct Walk {
    hash: u64,
    /// The node that it has asked for: a root, which says itself of which kind it is, or a link; 0 at its end.
    link: u32,
    /// Inner nodes passed.
    level: u32,
}

/// Memory for look-ups on their way, used again and again.
#[derive(Debug, Default)]
pub struct Walks(Vec<Walk>);

/// Look-ups on their way. While they are, nothing changes.
#[derive(Debug)]
pub struct Approaches<'a> {
    shard: &'a Shard,
    /// The database of the key that began last: mostly the next one's, too.
    db: u16,
    database: &'a Database,
    /// Those that were begun.
    walks: Vec<Walk>,
    /// Inner nodes passed by the one that has passed most.
    level: u32,
}

impl Shard {
    /// For bringing near what look-ups to come will look at.
    pub fn approaches(&self, walks: Walks) -> Approaches<'_> {
        Approaches { shard: self, db: 0, database: self.database(0), walks: walks.0, level: 0 }
    }
}

impl Approaches<'_> {
    /// Begins with the key that has this hash, and takes some that were begun before a step further.
    #[inline(always)]
    pub fn begin(&mut self, db: u16, partition: u16, hash: u64) {
        if self.db != db {
            (self.db, self.database) = (db, self.shard.database(db));
        }
        let link = self.database.root(partition);
        if link == 0 {
            return;
        }
        self.shard.arena.prefetch(link, 0);
        self.step_of(LEAD);
        if self.level > 0 {
            self.step_of(INNER_LEAD);
        }
        if self.level >= DEEP {
            for lead in DEEP_LEADS {
                self.step_of(lead);
            }
        }
        self.walks.push(Walk { hash, link, level: 0 });
    }

    /// Takes all that were begun to their ends: the first of them is about to be looked up. One alone gains by it, too, for nothing
    /// in a step depends on what it loads but the next step: the processor runs ahead of them.
    pub fn arrive(mut self) -> Walks {
        self.step_all_behind(LEAD);
        if self.level > 0 {
            self.step_all_behind(INNER_LEAD);
        }
        if self.level >= DEEP {
            DEEP_LEADS.into_iter().for_each(|lead| self.step_all_behind(lead));
        }
        self.walks.clear();
        Walks(self.walks)
    }

    /// A step of each walk that would have taken it had others begun.
    fn step_all_behind(&mut self, lead: usize) {
        let count = self.walks.len();
        (count.saturating_sub(lead)..count).for_each(|number| self.step(number));
    }

    /// A step of the walk that is so far behind the one that begins.
    #[inline(always)]
    fn step_of(&mut self, lead: usize) {
        if let Some(number) = self.walks.len().checked_sub(lead) {
            self.step(number);
        }
    }

    #[inline(always)]
    fn step(&mut self, number: usize) {
        let arena = &self.shard.arena;
        let walk = &mut self.walks[number];
        if walk.link == 0 {
            return;
        }
        if !table::is_bucket(arena.array(walk.link & !1, 0)) {
            walk.link = table::child(arena, walk.link, walk.hash, walk.level as usize);
            walk.level += 1;
            self.level = self.level.max(walk.level);
            if walk.link != 0 {
                arena.prefetch(walk.link & !1, 0);
            }
        } else {
            let entry = table::likely(arena, walk.link, walk.hash);
            for offset in ENTRY_LINES {
                arena.prefetch(entry, offset);
            }
            walk.link = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use prefetch::asked;

    use super::*;
    use crate::{Config, Effect, Expiry, NewValue, Recency, Region};

    const PARTITIONS: u16 = 8;
    const STEP_COUNT: usize = 2 + DEEP_LEADS.len();

    fn partition_of(_db: u16, key: &[u8]) -> u16 {
        u16::from(key[0]) % PARTITIONS
    }

    /// So many keys, numbers from 0 on, in so many partitions.
    fn shard(count: u32, partition_count: u32) -> Shard {
        let config = Config {
            partitions: PARTITIONS,
            databases: 2,
            seed: [1, 2],
            partition_of,
            beside: &[],
            recency: Recency::Lru,
        };
        let mut shard = Shard::new(config, Region::new(1 << 24));
        for number in 0..count {
            let bytes = name(number, partition_count);
            let key = shard.key(0, partition_of(0, &bytes), &bytes);
            let value = NewValue::Bytes(b"value");
            shard.commit(Effect::Set { key, value, expiry: Expiry::None }).expect("room");
        }
        shard
    }

    fn name(number: u32, partition_count: u32) -> [u8; 5] {
        let [a, b, c, d] = number.to_le_bytes();
        [u8::try_from(number % partition_count).expect("few partitions"), a, b, c, d]
    }

    /// What a look-up asks for as it begins and in its steps, each behind the one before.
    fn steps(shard: &Shard, name: &[u8]) -> Vec<Vec<usize>> {
        let key = shard.key(0, partition_of(0, name), name);
        let mut link = shard.database(0).root(key.partition);
        let mut steps = Vec::new();
        while steps.len() <= STEP_COUNT {
            steps.push(vec![shard.arena.bytes(link & !1, 0..1).as_ptr().addr()]);
            if table::is_bucket(shard.arena.array(link & !1, 0)) {
                let entry = table::likely(&shard.arena, link, key.hash);
                let first = shard.arena.bytes(entry, 0..1).as_ptr().addr();
                steps.push(ENTRY_LINES.map(|offset| first + offset).to_vec());
                break;
            }
            link = table::child(&shard.arena, link, key.hash, steps.len() - 1);
        }
        steps.truncate(STEP_COUNT + 1);
        steps
    }

    /// When a walk takes its steps.
    fn leads() -> impl Iterator<Item = usize> {
        [LEAD, INNER_LEAD].into_iter().chain(DEEP_LEADS)
    }

    /// Begins with some keys, and arrives: each begin asks for its first node and for what walks begun before have come to, and all is
    /// asked for once. `depth` is how many nodes are passed on the way to an entry.
    fn check(key_count: u32, partition_count: u32, begun_count: usize, depth: usize) {
        let shard = shard(key_count, partition_count);
        let names: Vec<_> =
            (0..).take(begun_count).map(|number| name(number * 7 % key_count, partition_count)).collect();
        let walks: Vec<_> = names.iter().map(|name| steps(&shard, name)).collect();
        let is_as_deep = |walk: &Vec<_>| walk.len() == (depth + 1).min(STEP_COUNT + 1);
        assert!(walks.iter().all(is_as_deep), "the keys lie {depth} nodes deep");
        let mut approaches = shard.approaches(Walks::default());
        asked::take();
        for (number, name) in names.iter().enumerate() {
            let hash = shard.key(0, partition_of(0, name), name).hash;
            approaches.begin(0, partition_of(0, name), hash);
            let mut want = walks[number][0].clone();
            for (step, lead) in (1..).zip(leads()) {
                let walk = number.checked_sub(lead).map(|before| &walks[before]);
                want.extend(walk.and_then(|walk| walk.get(step)).into_iter().flatten());
            }
            assert_eq!(asked::take(), want, "begin {number}");
        }
        approaches.arrive();
        let mut got = asked::take();
        let left = |number: usize| leads().filter(|&lead| begun_count - 1 - number < lead).count();
        let rest =
            |number: usize| walks[number].iter().skip(1 + STEP_COUNT - left(number)).flatten().copied();
        let mut want: Vec<usize> = (0..begun_count).flat_map(rest).collect();
        got.sort_unstable();
        want.sort_unstable();
        assert_eq!(got, want, "arrived after {begun_count}");
    }

    #[test]
    fn each_step_asks_for_what_the_next_one_looks_at() {
        for begun_count in [1, 2, 4, 6, 7, 16, 18, 19, 30, 31, 32, 33, 50] {
            check(40, 5, begun_count, 1);
            check(150, 5, begun_count, 2);
            check(1000, 1, begun_count, 3);
            check(20_000, 1, begun_count, 4);
        }
        // Deeper ones are begun, and the rest is waited for.
        check(500_000, 1, 40, 5);
    }

    /// But for a few tags that another key of the bucket shares.
    #[test]
    fn what_is_asked_for_is_what_a_look_up_finds() {
        let shard = shard(2000, 1);
        let root = shard.database(0).root(0);
        let mut found_count = 0;
        for number in 0..2000 {
            let bytes = name(number, 1);
            let key = shard.key(0, 0, &bytes);
            let entry = shard.get(&key, 0).expect("it is there").head.handle;
            let bucket = table::bucket(&shard.arena, root, key.hash);
            found_count += usize::from(table::likely(&shard.arena, bucket, key.hash) == entry);
        }
        assert!(found_count >= 1950, "{found_count} of 2000");
    }

    #[test]
    fn memory_is_used_again() {
        let shard = shard(40, 5);
        let mut walks = Walks(Vec::with_capacity(3));
        for _ in 0..2 {
            let place = (walks.0.as_ptr(), walks.0.capacity());
            let mut approaches = shard.approaches(walks);
            for number in 0..3 {
                approaches.begin(0, number, 7);
            }
            walks = approaches.arrive();
            assert_eq!((walks.0.as_ptr(), walks.0.capacity()), place);
            assert!(walks.0.is_empty());
        }
    }

    #[test]
    fn keys_that_are_not_there_end_the_walk() {
        for shard in [shard(0, 1), shard(1, 1), shard(2000, 1)] {
            let mut approaches = shard.approaches(Walks::default());
            for number in 0..40_u16 {
                let hash = shard.key(number % 2, number % 8, b"absent").hash;
                approaches.begin(number % 2, number % 8, hash.rotate_left(u32::from(number)));
            }
            approaches.arrive();
        }
    }
}
