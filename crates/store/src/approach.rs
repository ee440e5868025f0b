//! Approaching: the cache misses of look-ups to come, spent on other work.
//!
//! A look-up of a cold key waits for its partition's root, then for inner nodes and its bucket, then for its entry, and
//! each is found in the one before. So a look-up is begun early, while later commands are still being decoded, and goes a
//! step further when [`LEAD`] others have begun: a step looks at what the step before has asked the memory for, and asks
//! for what that points to.
//!
//! ```text
//! begin  0     0: ask for root
//! …
//! begin  6     6: ask for root    0: look at root, ask for bucket
//! …
//! begin 12    12: ask for root    6: look at root, ask for bucket    0: look at bucket, ask for entry
//! ```
//! Asking is a hint ([`crate::prefetch`]): the processor does not wait for it, as it soon does with a load, of which it
//! can run only some two hundred instructions ahead.
//!
//! What a walk has found is kept ([`Walks`]): the look-up that it was for compares the key there, and goes the whole way only if that is another
//! one's or something has changed since.

use crate::database::Database;
use crate::effect::Key;
use crate::prefetch::prefetch;
use crate::shard::Shard;
use crate::table::{self, Slot};

/// Look-ups that begin between two steps of one: the memory takes as long to answer as so many commands to be decoded.
const LEAD: usize = 6;
/// How far a walk is behind the one that begins when it takes each of its steps after the first: to the bucket and the entry.
const LEADS: [usize; 2] = [LEAD, 2 * LEAD];
/// The same of the step for an inner node, which partitions of dozens of keys have.
const INNER_LEAD: usize = 3 * LEAD;
/// The same of the steps that are taken where partitions are deep: those of hundreds of keys have two levels of inner nodes,
/// those of thousands three. What lies deeper is waited for.
const DEEP_LEADS: [usize; 2] = [4 * LEAD, 5 * LEAD];
/// Inner nodes on the way to an entry of a deep partition, at least.
const DEEP: u16 = 2;
/// Where the lines of an entry lie that are asked for, behind its first byte: a key and a value of a hundred bytes fill two.
const ENTRY_LINES: [usize; 2] = [0, 64];

/// What a step looks at.
#[derive(Clone, Copy, Debug)]
enum At<'a> {
    /// Nothing: it is at its end.
    End,
    /// The partition's root.
    Root(&'a u32),
    /// A node of its tree, inner or bucket.
    Node(u32),
    /// It is at its end, and what has the hash's tag is in this slot.
    Found(Slot),
}

#[derive(Clone, Copy, Debug)]
struct Walk<'a> {
    at: At<'a>,
    hash: u64,
    db: u16,
    /// Inner nodes passed.
    level: u16,
}

/// What walks have found for look-ups to come, in the order in which they began. Its memory is used again and again.
#[derive(Debug, Default)]
pub struct Walks {
    walks: Vec<Walk<'static>>,
    /// The one whose look-up is next.
    next: usize,
    /// The shard's when they walked.
    state: u64,
}

impl Walks {
    /// The slot that was found for a key, as long as the shard is in the same state: what is there has its tag, and may be another's.
    /// Look-ups come in the order of their walks; a command that was approached and looks nothing up is passed over.
    #[inline(always)]
    pub(crate) fn take(&mut self, key: &Key<'_>, state: u64) -> Option<Slot> {
        if self.state != state {
            return None;
        }
        let ahead = self.walks.get(self.next..)?;
        let is_of_key = |walk: &Walk<'_>| walk.hash == key.hash && walk.db == key.db;
        let passed = ahead.iter().take(2).position(is_of_key)?;
        self.next += passed + 1;
        if let At::Found(slot) = ahead[passed].at { Some(slot) } else { None }
    }
}

/// Look-ups on their way. While they are, nothing changes.
#[derive(Debug)]
pub struct Approaches<'a> {
    shard: &'a Shard,
    /// The database of the key that began last: mostly the next one's, too.
    db: u16,
    database: &'a Database,
    /// Those that were begun.
    walks: Vec<Walk<'a>>,
    /// Inner nodes passed by the one that passed most.
    level: u16,
}

impl Shard {
    /// For bringing near what look-ups to come will look at. What was found before is forgotten.
    pub fn approaches(&self, walks: Walks) -> Approaches<'_> {
        let mut walks = walks.walks;
        walks.clear();
        Approaches { shard: self, db: 0, database: self.database(0), walks, level: 0 }
    }
}

impl Approaches<'_> {
    /// Begins with the key that has this hash, and takes some that were begun before a step further.
    #[inline(always)]
    pub fn begin(&mut self, db: u16, partition: u16, hash: u64) {
        if self.db != db {
            (self.db, self.database) = (db, self.shard.database(db));
        }
        if let Some(root) = self.database.root_place(partition) {
            prefetch(root);
            for lead in LEADS {
                self.step_of(lead);
            }
            if self.level > 0 {
                self.step_of(INNER_LEAD);
            }
            if self.level >= DEEP {
                for lead in DEEP_LEADS {
                    self.step_of(lead);
                }
            }
            self.walks.push(Walk { at: At::Root(root), hash, db, level: 0 });
        }
    }

    /// Takes all that were begun to their ends: the first of them is about to be looked up. One alone gains by it, too, for nothing
    /// in a step depends on what it loads but the next step: the processor runs ahead of them.
    pub fn arrive(mut self) -> Walks {
        LEADS.into_iter().rev().for_each(|lead| self.step_all_behind(lead));
        if self.level > 0 {
            self.step_all_behind(INNER_LEAD);
        }
        if self.level >= DEEP {
            DEEP_LEADS.into_iter().rev().for_each(|lead| self.step_all_behind(lead));
        }
        // In the same memory: nothing is borrowed from the shard any more.
        let ended = |walk: Walk<'_>| {
            let at = if let At::Found(slot) = walk.at { At::Found(slot) } else { At::End };
            Walk { at, ..walk }
        };
        Walks { walks: self.walks.into_iter().map(ended).collect(), next: 0, state: self.shard.state }
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
        let link = match walk.at {
            At::End | At::Found(_) => return,
            At::Root(root) => *root,
            At::Node(link) if table::is_inner(link) => {
                walk.level += 1;
                self.level = self.level.max(walk.level);
                table::child(arena, link, walk.hash, usize::from(walk.level) - 1)
            }
            At::Node(bucket) => {
                let (slot, has_tag) = table::likely(arena, bucket, walk.hash);
                let entry = slot.entry(arena);
                for offset in ENTRY_LINES {
                    arena.prefetch(entry, offset);
                }
                walk.at = if has_tag { At::Found(slot) } else { At::End };
                return;
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
    use prefetch::asked;

    use super::*;
    use crate::{Config, Effect, Expiry, NewValue, Recency, Region};

    const PARTITIONS: u16 = 8;
    const STEP_COUNT: usize = LEADS.len() + 1 + DEEP_LEADS.len();

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

    /// What the steps of a look-up ask for, each behind the one before: the root first.
    fn steps(shard: &Shard, name: &[u8]) -> Vec<Vec<usize>> {
        let key = shard.key(0, partition_of(0, name), name);
        let root = shard.database(0).root_place(key.partition).expect("it holds keys");
        let mut steps = vec![vec![std::ptr::from_ref(root).addr()]];
        let mut link = *root;
        while steps.len() <= STEP_COUNT {
            steps.push(vec![shard.arena.bytes(link & !1, 0..1).as_ptr().addr()]);
            if !table::is_inner(link) {
                let entry = table::likely(&shard.arena, link, key.hash).0.entry(&shard.arena);
                let first = shard.arena.bytes(entry, 0..1).as_ptr().addr();
                steps.push(ENTRY_LINES.map(|offset| first + offset).to_vec());
                break;
            }
            link = table::child(&shard.arena, link, key.hash, steps.len() - 2);
        }
        steps.truncate(STEP_COUNT + 1);
        steps
    }

    /// When a walk takes its steps.
    fn leads() -> impl Iterator<Item = usize> {
        LEADS.into_iter().chain([INNER_LEAD]).chain(DEEP_LEADS)
    }

    /// Begins with some keys, and arrives: each begin asks for its head and for what walks begun before have come to, and all is
    /// asked for once. `depth` is how many nodes are passed on the way to an entry.
    fn check(key_count: u32, partition_count: u32, begun_count: usize, depth: usize) {
        let shard = shard(key_count, partition_count);
        let names: Vec<_> =
            (0..).take(begun_count).map(|number| name(number * 7 % key_count, partition_count)).collect();
        let walks: Vec<_> = names.iter().map(|name| steps(&shard, name)).collect();
        let is_as_deep = |walk: &Vec<_>| walk.len() == (depth + 2).min(STEP_COUNT + 1);
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
            let (slot, has_tag) = table::likely(&shard.arena, bucket, key.hash);
            assert!(has_tag, "it is there");
            found_count += usize::from(slot.entry(&shard.arena) == entry);
        }
        assert!(found_count >= 1950, "{found_count} of 2000");
    }

    /// Keys that are there and keys that are not, found as they are without walks, whatever has happened in between and whichever
    /// are looked up.
    #[test]
    fn what_a_walk_has_found_is_what_a_look_up_finds() {
        for (key_count, partition_count) in [(40, 5), (150, 5), (3000, 1)] {
            let mut shard = shard(key_count, partition_count);
            let mut walks = Walks::default();
            for round in 0..60_u32 {
                let numbers: Vec<u32> = (0..30).map(|at| (round * 97 + at * 61) % (key_count + 20)).collect();
                let mut approaches = shard.approaches(walks);
                for &number in &numbers {
                    let bytes = name(number, partition_count);
                    let key = shard.key(0, partition_of(0, &bytes), &bytes);
                    approaches.begin(0, key.partition, key.hash);
                }
                walks = approaches.arrive();
                let mut near_count = 0;
                for (at, &number) in (0_u32..).zip(&numbers) {
                    let bytes = name(number, partition_count);
                    let key = shard.key(0, partition_of(0, &bytes), &bytes);
                    if round % 3 == 1 && at == round % 30 {
                        // From here on a walk's word is worth nothing.
                        shard
                            .commit(Effect::Delete { key: shard.key(0, key.partition, &bytes) })
                            .expect("room");
                    }
                    if round % 3 == 2 && at % 7 == round % 7 {
                        // Not every command looks its key up.
                        continue;
                    }
                    let want = shard.get(&key, 0).map(|entry| entry.head.handle);
                    let before = walks.next;
                    // In another database, whose keys have the same hashes, there is none.
                    let other = Key { db: 1, ..key };
                    assert!(shard.read_near(&other, &mut walks, 0, || 0).is_none());
                    assert_eq!(
                        shard.read_near(&key, &mut walks, 0, || 0).map(|entry| entry.head.handle),
                        want
                    );
                    near_count += usize::from(before < walks.next);
                }
                if round % 3 == 0 {
                    assert_eq!(near_count, numbers.len(), "each look-up has its walk");
                }
            }
        }
    }

    #[test]
    fn memory_is_used_again() {
        let shard = shard(40, 5);
        let mut walks = Walks { walks: Vec::with_capacity(3), ..Walks::default() };
        for _ in 0..2 {
            let place = (walks.walks.as_ptr(), walks.walks.capacity());
            let mut approaches = shard.approaches(walks);
            for number in 0..3 {
                approaches.begin(0, number, 7);
            }
            walks = approaches.arrive();
            assert_eq!(
                (walks.walks.as_ptr(), walks.walks.capacity(), walks.walks.len()),
                (place.0, place.1, 3)
            );
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
