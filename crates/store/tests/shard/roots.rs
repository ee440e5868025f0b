//! Roots: few partitions and many, little memory, flushes in the middle, audited all along.

use crate::world::Random;
use std::collections::{BTreeMap, BTreeSet};
use store::{
    Budget, Config, Effect, Evicted, Expiry, Full, ImageValue, Key, NewValue, Policy, Recency, Region, Shard,
    Value,
};

const DATABASES: u16 = 3;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;
/// Databases, keys and values.
type Shown = BTreeSet<(u16, Vec<u8>, Vec<u8>)>;

fn of_one(_: u16, _: &[u8]) -> u16 {
    0
}
fn of_three(_: u16, key: &[u8]) -> u16 {
    u16::from(key[0]) % 3
}
fn of_seventeen(_: u16, key: &[u8]) -> u16 {
    u16::from(key[0]) % 17
}
fn of_all(_: u16, key: &[u8]) -> u16 {
    // Few of each 16, the last one, too.
    [0, 1, 15, 16, 511, 512, 8191, 16_383][usize::from(key[0]) % 8]
}
fn of_forty(_: u16, key: &[u8]) -> u16 {
    u16::from(key[0]) % 40 * 400
}

struct Small {
    shard: Shard,
    partitions: u16,
    of: fn(u16, &[u8]) -> u16,
    model: Vec<Model>,
    /// What a snapshot is owed, and has delivered, while one is on.
    owed: Option<Shown>,
    delivered: Shown,
    random: Random,
    now_ms: i64,
    full_count: u64,
    set_count: u64,
}

fn bytes_of(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Int(number) => number.to_string().into_bytes(),
        Value::Rope(_) => panic!("values are short"),
    }
}

impl Small {
    fn new(seed: u64, partitions: u16, of: fn(u16, &[u8]) -> u16, region: usize) -> Small {
        let config = Config {
            partitions,
            databases: DATABASES,
            seed: [seed, !seed],
            partition_of: of,
            beside: &[],
            recency: Recency::Lru,
        };
        Small {
            shard: Shard::new(config, Region::new(region)),
            partitions,
            of,
            model: vec![Model::new(); usize::from(DATABASES)],
            owed: None,
            delivered: BTreeSet::new(),
            random: Random(seed),
            now_ms: 1_700_000_000_000,
            full_count: 0,
            set_count: 0,
        }
    }

    fn key_for<'k>(&self, db: u16, bytes: &'k [u8]) -> Key<'k> {
        self.shard.key(db, (self.of)(db, bytes), bytes)
    }

    fn take_images(&mut self) {
        let images: Vec<_> = self.shard.images().collect();
        for image in images {
            let value = match image.value {
                ImageValue::Bytes(bytes) => bytes.into_vec(),
                ImageValue::Int(number) => number.to_string().into_bytes(),
                ImageValue::Rope(_) => panic!("values are short"),
            };
            assert!(self.delivered.insert((image.db, image.key.to_vec(), value)), "delivered once");
        }
    }

    fn walk(&mut self) {
        if self.owed.is_none() {
            return;
        }
        let mut budget = Budget::new(self.random.below(12) as u32, 1 << 20);
        let delivered = &mut self.delivered;
        let more = self.shard.walk_snapshot(&mut budget, &mut |db, entry| {
            assert!(delivered.insert((db, entry.key().to_vec(), bytes_of(entry.value()))), "delivered once");
        });
        if !more {
            self.take_images();
            assert_eq!(self.owed.take(), Some(std::mem::take(&mut self.delivered)), "all of it is delivered");
        }
    }

    fn step(&mut self, key_count: u64) {
        let db = self.random.below(100).min(u64::from(DATABASES) + 90).saturating_sub(91) as u16;
        let number = self.random.below(key_count);
        let mut bytes = vec![(number % 251) as u8];
        bytes.extend_from_slice(&number.to_le_bytes());
        let mut key = self.key_for(db, &bytes);
        if self.random.below(2) == 0 {
            self.shard.read_to_change(&mut key, 0, || 0);
            if self.random.below(3) == 0 {
                self.tend();
            }
        }
        let at = usize::from(db);
        match self.random.below(100) {
            0..50 => {
                let size = match self.random.below(30) {
                    0 => 20_000,
                    1..4 => 2_000,
                    4..8 => 300,
                    _ => self.random.below(6) * 24,
                };
                let value = vec![b'v'; size as usize];
                let expiry = match self.random.below(4) {
                    0 => Expiry::At(self.now_ms + 1_000_000_000 + self.random.below(1 << 20) as i64),
                    1 => Expiry::Keep,
                    _ => Expiry::None,
                };
                let before = self.model[at].get(&bytes).cloned();
                let end = match expiry {
                    Expiry::At(end) => Some(end),
                    Expiry::None => None,
                    Expiry::Keep => before.as_ref().and_then(|(_, end)| *end),
                };
                match self.shard.commit(Effect::Set { key, value: NewValue::Bytes(&value), expiry }) {
                    Ok(outcome) => {
                        assert_eq!(outcome.existed, before.is_some());
                        self.model[at].insert(bytes, (value, end));
                        self.set_count += 1;
                    }
                    Err(Full) => self.full_count += 1,
                }
            }
            50..88 => {
                let outcome = self.shard.commit(Effect::Delete { key }).expect("removing needs no room");
                assert_eq!(outcome.existed, self.model[at].remove(&bytes).is_some());
            }
            88 if self.random.below(3) == 0 => {
                let partition = (self.of)(db, &bytes);
                let outcome =
                    self.shard.commit(Effect::FlushPartition { db, partition }).expect("no room needed");
                let count = self.model[at].len();
                let of = self.of;
                self.model[at].retain(|bytes, _| of(db, bytes) != partition);
                assert_eq!(outcome.existed, count != self.model[at].len());
            }
            89 => {
                let other = self.random.below(u64::from(DATABASES)) as u16;
                self.shard.commit(Effect::SwapDatabases { a: db, b: other }).expect("no room needed");
                self.model.swap(at, usize::from(other));
            }
            90 if self.random.below(4) == 0 && self.owed.is_none() => {
                self.take_images();
                self.delivered.clear();
                let mut owed = BTreeSet::new();
                for (db, model) in (0..).zip(&self.model) {
                    owed.extend(model.iter().map(|(key, (value, _))| (db, key.clone(), value.clone())));
                }
                self.owed = Some(owed);
                self.shard.begin_snapshot();
            }
            91 if self.random.below(6) == 0 => {
                let policy = Policy::ALL[self.random.below(8) as usize];
                let target = self.shard.held() / 10 * 9;
                let mut random = Random(self.random.next());
                let mut draws = 0;
                self.shard.follow(true);
                self.shard.evict(
                    policy,
                    None,
                    target,
                    &mut || {
                        draws += 1;
                        assert!(draws < 1_000_000, "it comes to an end");
                        random.next()
                    },
                    &mut Budget::new(300, 1 << 20),
                    &|_, _| false,
                );
                let gone: Vec<_> = self.shard.gone().collect();
                for gone in gone {
                    assert!(self.model[usize::from(gone.db)].remove(&gone.key[..]).is_some());
                }
                self.shard.follow(false);
            }
            _ => self.tend(),
        }
        self.walk();
        if self.owed.is_some() {
            self.take_images();
        } else {
            assert!(!self.shard.has_images());
        }
    }

    fn tend(&mut self) {
        self.now_ms += 1;
        let mut budget = Budget::new(self.random.below(40) as u32, 1 << 20);
        self.shard.tend(self.now_ms, &mut budget, &|_, _| false);
    }

    fn compare(&mut self) {
        self.shard.audit();
        for (db, model) in (0..).zip(&self.model) {
            for (bytes, (value, end)) in model {
                let entry = self.shard.get(&self.key_for(db, bytes), 0).expect("what was set is there");
                assert_eq!((&bytes_of(entry.value()), entry.expires_at()), (value, *end));
            }
            assert_eq!(self.shard.count(db), model.len() as u64);
            let (mut cursor, mut seen, mut calls) = (0, BTreeSet::new(), 0_u32);
            loop {
                cursor = self.shard.scan(db, cursor, 0, &mut Budget::new(5, 1 << 20), &mut |key, _| {
                    assert!(seen.insert(key.to_vec()), "once");
                });
                calls += 1;
                assert!(calls < 100_000, "a scan ends");
                if cursor == 0 {
                    break;
                }
            }
            assert!(seen.iter().eq(model.keys()), "a scan sees all of it and nothing else");
            assert_eq!(self.shard.random(db, self.random.next()).is_some(), !model.is_empty());
            let mut approaches = self.shard.approaches(store::Walks::default());
            for bytes in model.keys().take(40) {
                let key = self.key_for(db, bytes);
                approaches.begin(db, key.partition, key.hash);
            }
            approaches.begin(db, self.partitions - 1, 7);
            approaches.arrive();
        }
    }
}

/// Against a map, with so little memory that entries, nodes and roots are refused in turn.
#[test]
fn roots_agree_with_a_map_in_little_memory() {
    type Case = (u16, fn(u16, &[u8]) -> u16, usize, u64);
    const SPAN: usize = 64 << 10;
    const CASES: [Case; 10] = [
        (1, of_one, 7 * SPAN + 4097, 400),
        (1, of_one, 12 * SPAN, 3_000),
        (1, of_one, 3 * SPAN - 1, 60),
        (3, of_three, 9 * SPAN + 1, 700),
        (3, of_three, 20 * SPAN, 30),
        (17, of_seventeen, 8 * SPAN + 63, 900),
        (17, of_seventeen, 64 * SPAN, 5_000),
        (16_384, of_all, 8 * SPAN, 600),
        (16_384, of_all, SPAN / 2, 600),
        (16_384, of_forty, 11 * SPAN, 500),
    ];
    let (mut full_count, mut set_count) = (0, 0);
    for seed in 0..2 {
        for (partitions, of, region, key_count) in CASES {
            let mut small = Small::new(seed, partitions, of, region);
            for step in 0..if cfg!(miri) { 40 } else { 3_000 } {
                small.step(key_count);
                if key_count < 100 || step % 16 == 0 {
                    small.shard.audit();
                }
                if step % 128 == 0 {
                    small.compare();
                }
            }
            small.compare();
            (full_count, set_count) = (full_count + small.full_count, set_count + small.set_count);
            // All of it comes back but counts.
            while small.owed.is_some() {
                small.walk();
                if small.owed.is_some() {
                    small.take_images();
                }
            }
            for db in 0..DATABASES {
                for partition in 0..partitions {
                    small.shard.commit(Effect::FlushPartition { db, partition }).expect("no room needed");
                }
            }
            for _ in 0..100_000 {
                small.now_ms += 1;
                if !small.shard.tend(small.now_ms, &mut Budget::new(100, 1 << 20), &|_, _| false).more {
                    break;
                }
            }
            small.shard.audit();
            let memory = small.shard.memory();
            assert_eq!((memory.keys, memory.entries), (0, 0), "{memory:?}");
        }
    }
    assert!(full_count > 100 && set_count > 1000, "{full_count} of {set_count} were refused");
}

fn shard_of(partitions: u16, databases: u16, of: fn(u16, &[u8]) -> u16, region: usize) -> Shard {
    let config =
        Config { partitions, databases, seed: [1, 2], partition_of: of, beside: &[], recency: Recency::Lru };
    Shard::new(config, Region::new(region))
}

fn set(shard: &mut Shard, db: u16, partition: u16, bytes: &[u8], value: &[u8]) -> Result<(), Full> {
    let key = shard.key(db, partition, bytes);
    shard.commit(Effect::Set { key, value: NewValue::Bytes(value), expiry: Expiry::None }).map(|_| ())
}

/// What is flushed makes way for roots before it is its turn, a bounded part of it for each effect that needs room. A span holds 64 pieces of
/// 16 roots: the 65th needs another one, and of that the entries must have gone first.
#[test]
fn what_is_flushed_makes_way_for_roots() {
    let mut shard = shard_of(16_384, 2, |_, key| u16::from_le_bytes([key[0], key[1]]), 1 << 20);
    let name = |partition: u16, number: u32| [&partition.to_le_bytes()[..], &number.to_le_bytes()].concat();
    for piece in 0..64 {
        set(&mut shard, 0, 16 * piece, &name(16 * piece, 0), b"value").expect("room");
    }
    let value = [7; 900];
    let mut number = 0_u32;
    while set(&mut shard, 0, 1, &name(1, number), &value).is_ok() {
        number += 1;
    }
    assert!(number > 700);
    shard.commit(Effect::FlushPartition { db: 0, partition: 1 }).expect("no room needed");
    // There is most of a megabyte of what was flushed.
    assert_eq!(set(&mut shard, 0, 2, &name(2, 0), &value), Ok(()), "its root is there");
    let mut tries = 1;
    while set(&mut shard, 0, 1024, &name(1024, 0), &value).is_err() {
        tries += 1;
        assert!(tries < 20, "a root of another piece");
    }
}

/// A database that is empty again costs next to nothing.
#[test]
fn what_is_emptied_makes_way() {
    let mut shard = shard_of(16_384, 16, |_, key| u16::from_le_bytes([key[0], key[1]]), 64 << 20);
    for db in 0..16 {
        for partition in (0..16_384_u16).step_by(16) {
            set(&mut shard, db, partition, &partition.to_le_bytes(), b"value").expect("room");
        }
    }
    let before = shard.memory();
    let mut random = Random(1);
    // As a lane does that may have 16 MiB.
    let evicted = loop {
        let mut budget = Budget::new(256, u32::MAX);
        let evicted =
            shard
                .evict(Policy::AllKeysLru, None, 16 << 20, &mut || random.next(), &mut budget, &|_, _| false);
        if evicted != Evicted::More {
            break evicted;
        }
    };
    let memory = shard.memory();
    assert_eq!(
        evicted,
        Evicted::Enough,
        "{} of {} keys are left, heads {}",
        memory.keys,
        before.keys,
        memory.heads
    );
}

/// Roots are empty wherever they come to lie: memory has been others' before.
#[test]
fn roots_lie_where_something_lay() {
    let mut shard = shard_of(16_384, 1, |_, key| u16::from_le_bytes([key[0], key[1]]), 1 << 20);
    let name = |partition: u16, number: u32| [&partition.to_le_bytes()[..], &number.to_le_bytes()].concat();
    let mut number = 0;
    while set(&mut shard, 0, 0, &name(0, number), &[0x5a; 200]).is_ok() {
        number += 1;
    }
    shard.commit(Effect::FlushPartition { db: 0, partition: 0 }).expect("no room needed");
    while shard.tend(0, &mut Budget::new(1000, 1 << 20), &|_, _| false).more {}
    // The span of the first roots holds 64 pieces; those behind lie where values lay.
    for piece in 0..200 {
        set(&mut shard, 0, 16 * piece, &name(16 * piece, 0), b"value").expect("room");
    }
    shard.audit();
    for partition in 0..200 * 16 {
        let key = name(partition, 1);
        assert!(shard.get(&shard.key(0, partition, &key), 0).is_none());
    }
    let mut seen = 0;
    let mut calls = 0;
    let mut cursor = 0;
    loop {
        cursor = shard.scan(0, cursor, 0, &mut Budget::new(100, 1 << 20), &mut |_, _| seen += 1);
        calls += 1;
        assert!(calls < 10_000);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, 200);
    for partition in [1001, 1040, 3199] {
        for number in 1..200 {
            set(&mut shard, 0, partition, &name(partition, number), b"value").expect("room");
        }
    }
    shard.audit();
}

/// What is refused for want of roots is no change, and what was made of the database's head is counted.
#[test]
fn a_database_that_finds_no_room_for_roots() {
    let mut shard = shard_of(16_384, 2, |_, key| u16::from_le_bytes([key[0], key[1]]), 3 << 16);
    let name = |partition: u16| partition.to_le_bytes();
    // One span of roots is full then, and one holds entries.
    for piece in 0..64 {
        set(&mut shard, 0, 16 * piece, &name(16 * piece), b"value").expect("room");
    }
    for _ in 0..2 {
        let (before, held) = (shard.change_count(), shard.memory());
        assert_eq!(set(&mut shard, 1, 7, &name(7), b"value"), Err(Full));
        assert_eq!(shard.change_count(), before, "no change");
        assert_eq!((shard.count(1), shard.memory().entries), (0, held.entries));
        assert_eq!(shard.scan(1, 0, 0, &mut Budget::new(1 << 20, 1 << 20), &mut |_, _| panic!("empty")), 0);
        assert!(shard.get(&shard.key(1, 7, &name(7)), 0).is_none() && shard.random(1, 5).is_none());
        assert!(
            !shard.commit(Effect::Delete { key: shard.key(1, 7, &name(7)) }).expect("no room needed").existed
        );
        assert!(
            !shard.commit(Effect::FlushPartition { db: 1, partition: 7 }).expect("no room needed").existed
        );
        shard.audit();
    }
}

/// In a full region databases get no more roots, and nothing stays of what is refused; partitions whose neighbours have keys go on.
#[test]
fn roots_that_have_no_room_are_refused() {
    let mut shard = shard_of(16_384, 1, |_, key| u16::from_le_bytes([key[0], key[1]]), 1 << 20);
    let set =
        |shard: &mut Shard, partition: u16| set(shard, 0, partition, &partition.to_le_bytes(), b"value");
    let mut firsts = (0..16_384).step_by(16);
    let taken = firsts.by_ref().take_while(|&partition| set(&mut shard, partition).is_ok()).count() as u64;
    assert!((800..1024).contains(&taken), "{taken}");
    for partition in firsts {
        assert_eq!(set(&mut shard, partition), Err(Full));
    }
    shard.audit();
    let memory = shard.memory();
    assert!(memory.keys == taken && memory.heads > taken * 1024, "{memory:?}");
    assert!((0..taken).all(|first| set(&mut shard, 16 * first as u16 + 1).is_ok()));
    shard.audit();
}
