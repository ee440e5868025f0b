//! A shard against a plain map, under random programs: values and ends, growth, shrinking, flushes, swaps, scans.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "small numbers drawn from a seed"
)]

use std::collections::{BTreeMap, BTreeSet};
use store::{
    Budget, Config, Effect, Evicted, Expiry, Full, Key, NewValue, Policy, Recency, Region, RopeBuilder,
    Shard, Type, Value, What,
};

const PARTITIONS: u16 = 64;
const DATABASES: u16 = 3;
const REGION: usize = if cfg!(miri) { 4 << 20 } else { 256 << 20 };

fn partition_of(_db: u16, key: &[u8]) -> u16 {
    // Keys that begin with `h` share one partition, the others are spread over four.
    if key.first() == Some(&b'h') { 63 } else { u16::from(key.last().copied().unwrap_or(0)) % 4 }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    value: Vec<u8>,
    expires_at: Option<i64>,
}

type Databases = Vec<BTreeMap<Vec<u8>, Held>>;

struct World {
    shard: Shard,
    model: Databases,
    random: Random,
    now_ms: i64,
    key_count: u64,
}

impl World {
    fn new(seed: u64, key_count: u64, region: usize) -> World {
        let config = Config {
            partitions: PARTITIONS,
            databases: DATABASES,
            seed: [seed, !seed],
            partition_of,
            recency: Recency::Lru,
        };
        World {
            shard: Shard::new(config, Region::new(region)),
            model: vec![BTreeMap::new(); usize::from(DATABASES)],
            random: Random(seed),
            now_ms: 1_700_000_000_000,
            key_count,
        }
    }

    fn key_bytes(&mut self) -> Vec<u8> {
        let number = self.random.below(self.key_count);
        match number % 7 {
            0 => format!("h{number}").into_bytes(),
            1 => format!("{number:0>300}").into_bytes(),
            _ => format!("key:{number}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let size = match self.random.below(40) {
            0 => 250 + self.random.below(12),
            1 => 32_000 + self.random.below(2_000),
            2 => 65_536 + self.random.below(140_000),
            3 => return (self.random.next() as i64).to_string().into_bytes(),
            4 => 600 + self.random.below(9_000),
            _ => self.random.below(90),
        };
        let fill = self.random.next() as u8;
        (0..size).map(|index| fill.wrapping_add(index as u8)).collect()
    }

    fn expiry(&mut self) -> Expiry {
        match self.random.below(4) {
            0 => Expiry::Keep,
            1 => {
                let far = self.random.below(40);
                Expiry::At(self.now_ms + self.random.below(1 + (1 << far)) as i64)
            }
            _ => Expiry::None,
        }
    }

    fn commit(&mut self, effect: Effect<'_>) -> store::Outcome {
        self.shard.commit(effect).expect("the region is large enough")
    }

    fn step(&mut self) {
        let db = self.random.below(u64::from(DATABASES)) as u16;
        let bytes = self.key_bytes();
        let key = self.shard.key(db, partition_of(db, &bytes), &bytes);
        self.lapse(&key);
        let model = usize::from(db);
        let known = self.model[model].contains_key(&bytes);
        match self.random.below(100) {
            0..40 => {
                let (value, expiry) = (self.value(), self.expiry());
                let held = self.model[model].entry(bytes.clone()).or_default();
                match expiry {
                    Expiry::Keep => {}
                    Expiry::None => held.expires_at = None,
                    Expiry::At(at) => held.expires_at = Some(at),
                }
                held.value.clone_from(&value);
                let as_rope = value.len() > 60_000 || self.random.below(8) == 0;
                let value = if as_rope {
                    let mut builder = RopeBuilder::new();
                    let cut = self.random.below(1 + value.len() as u64) as usize;
                    builder.push(&value[..cut]);
                    builder.push(&value[cut..]);
                    NewValue::Rope(builder.finish())
                } else {
                    NewValue::Bytes(&value)
                };
                let outcome = self.commit(Effect::Set { key, value, expiry });
                assert_eq!(outcome.existed, known);
            }
            40..65 => {
                let outcome = self.commit(Effect::Delete { key });
                assert_eq!(outcome.existed, known);
                self.model[model].remove(&bytes);
            }
            65..80 => {
                let patch = self.value();
                let old = self.model[model].get(&bytes).map_or(0, |held| held.value.len());
                let gap = if self.random.below(60) == 0 { 3_000_000 } else { 50 };
                let offset = match self.random.below(3) {
                    0 => old,
                    1 => self.random.below(1 + old as u64) as usize,
                    _ => old + self.random.below(gap) as usize,
                };
                let outcome = self.commit(Effect::SetRange { key, offset, bytes: &patch });
                assert_eq!(outcome.existed, known);
                if !patch.is_empty() {
                    let value = &mut self.model[model].entry(bytes.clone()).or_default().value;
                    value.resize(value.len().max(offset + patch.len()), 0);
                    value[offset..offset + patch.len()].copy_from_slice(&patch);
                    assert_eq!(outcome.len, value.len());
                    if value.len() > 1_000_000 {
                        // Comparing it over and over would be all that this test does.
                        let value = std::mem::take(value);
                        let mut read = vec![1; value.len()];
                        let entry = self.shard.get(&key, self.now_ms).expect("it was just made");
                        let Value::Rope(rope) = entry.value() else { panic!("a long string is a rope") };
                        rope.copy_to(0, &mut read);
                        assert!(read == value, "a padded string reads back");
                        self.commit(Effect::Delete { key });
                        self.model[model].remove(key.bytes);
                    }
                }
            }
            80..95 => {
                let at = self.expiry();
                let outcome = self.commit(Effect::Expire { key, at });
                assert_eq!(outcome.existed, known);
                if let Some(held) = self.model[model].get_mut(&bytes) {
                    match at {
                        Expiry::Keep => {}
                        Expiry::None => held.expires_at = None,
                        Expiry::At(at) => held.expires_at = Some(at),
                    }
                }
            }
            95 => {
                let partition = self.random.below(5) as u16;
                let partition = if partition == 4 { 63 } else { partition };
                self.commit(Effect::FlushPartition { db, partition });
                self.model[model].retain(|bytes, _| partition_of(db, bytes) != partition);
            }
            96 => {
                let other = self.random.below(u64::from(DATABASES)) as u16;
                self.commit(Effect::SwapDatabases { a: db, b: other });
                self.model.swap(model, usize::from(other));
            }
            _ => {
                let far = self.random.below(20);
                self.now_ms += self.random.below(1 << far) as i64;
                let mut budget = Budget::new(self.random.below(60) as u32, 1 << 20);
                self.shard.tend(self.now_ms, &mut budget, &|_, _| false);
            }
        }
    }

    /// A command would call this before it builds on an old state.
    fn lapse(&mut self, key: &Key<'_>) {
        let model = &mut self.model[usize::from(key.db)];
        let due = model.get(key.bytes).and_then(|held| held.expires_at).is_some_and(|at| at <= self.now_ms);
        if due {
            model.remove(key.bytes);
        }
        let lapsed = self.shard.lapse(key, self.now_ms);
        assert!(due || !lapsed, "only what is due lapses");
    }

    fn compare(&mut self) {
        self.shard.audit();
        let now_ms = self.now_ms;
        for (db, model) in self.model.iter().enumerate() {
            let db = db as u16;
            for (bytes, held) in model {
                let key = self.shard.key(db, partition_of(db, bytes), bytes);
                let entry = self.shard.get(&key, now_ms);
                if held.expires_at.is_some_and(|at| at <= now_ms) {
                    assert!(entry.is_none(), "what is due is absent");
                    continue;
                }
                let entry = entry.expect("what was set is there");
                assert_eq!((entry.key(), entry.expires_at()), (&bytes[..], held.expires_at));
                assert_eq!(entry.kind(), Type::String);
                assert!(read(entry.value()) == held.value, "a value reads back");
                assert_eq!(entry.value().len(), held.value.len());
            }
            let live: BTreeSet<&[u8]> = model
                .iter()
                .filter(|(_, held)| held.expires_at.is_none_or(|at| at > now_ms))
                .map(|(bytes, _)| &bytes[..])
                .collect();
            let mut scanned = BTreeSet::new();
            let mut cursor = 0;
            loop {
                let mut budget = Budget::new(7, 1 << 20);
                cursor = self.shard.scan(db, cursor, now_ms, &mut budget, &mut |bytes, _| {
                    assert!(
                        scanned.insert(bytes.to_vec()),
                        "with no change in between a scan repeats nothing"
                    );
                });
                assert!(cursor < 1 << 62);
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(scanned.iter().map(|bytes| &bytes[..]).collect::<BTreeSet<_>>(), live);
            let drawn = self.shard.random(db, self.random.next());
            assert_eq!(drawn.is_none(), self.shard.count(db) == 0);
            if let Some(entry) = drawn.filter(|entry| entry.expires_at().is_none_or(|at| at > now_ms)) {
                assert!(live.contains(entry.key()), "a random key is a key");
            }
        }
    }

    fn drain(&mut self) {
        for _ in 0..1_000_000 {
            let mut budget = Budget::new(100, 1 << 20);
            if !self.shard.tend(self.now_ms, &mut budget, &|_, _| false).more {
                return;
            }
        }
        panic!("housekeeping comes to an end");
    }
}

fn read(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Int(number) => number.to_string().into_bytes(),
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Rope(rope) => {
            let mut bytes = vec![0; rope.len()];
            rope.copy_to(0, &mut bytes);
            let mut again = Vec::new();
            while let Some((chunk, range)) = rope.cursor(again.len()) {
                again.extend_from_slice(&AsRef::<[u8]>::as_ref(&*chunk)[range]);
            }
            assert!(bytes == again, "both ways of reading agree");
            bytes
        }
    }
}

#[test]
fn random_programs_agree_with_a_map() {
    let (seeds, steps) = if cfg!(miri) { (1, 60) } else { (24, 2_500) };
    for seed in 0..seeds {
        let key_count = [5, 60, 2_000][seed as usize % 3];
        let mut world = World::new(seed, key_count, REGION);
        for step in 0..steps {
            world.step();
            let dense = key_count < 100 && step % 10 == 0;
            if dense || step % 250 == 0 {
                world.compare();
            }
        }
        world.drain();
        world.compare();
    }
}

/// Up to many buckets in one partition and down to none, and nothing is left.
#[test]
fn growth_and_shrinking_leave_nothing_behind() {
    let count: u32 = if cfg!(miri) { 120 } else { 30_000 };
    let mut world = World::new(1, 1, REGION);
    let name = |number: u32| format!("h{number}").into_bytes();
    let mut most = 0;
    for number in 0..count {
        let bytes = name(number);
        let key = world.shard.key(0, 63, &bytes);
        let outcome =
            world.commit(Effect::Set { key, value: NewValue::Bytes(b"value"), expiry: Expiry::None });
        most = most.max(outcome.elements);
        if number.is_multiple_of(1_000) {
            world.shard.audit();
        }
    }
    assert!(most <= 1 + 12 * 6, "a commit moved {most} entries");
    assert_eq!(world.shard.count_partition(0, 63), u64::from(count));
    for number in 0..count {
        let bytes = name(number * 7919 % count);
        let key = world.shard.key(0, 63, &bytes);
        let outcome = world.commit(Effect::Delete { key });
        assert!(outcome.existed && outcome.elements <= 1 + 12 * 6);
        if number.is_multiple_of(1_000) {
            world.shard.audit();
        }
    }
    world.shard.audit();
    let memory = world.shard.memory();
    assert_eq!((memory.keys, memory.entries), (0, 0), "all memory came back");
}

/// A key that is there from the first call of a scan to the last is visited, whatever comes and goes meanwhile.
#[test]
fn a_scan_misses_nothing_that_stays() {
    let (seeds, stay) = if cfg!(miri) { (1, 20) } else { (20, 400) };
    for seed in 0..seeds {
        let mut world = World::new(seed, 1, REGION);
        let set = |world: &mut World, bytes: &[u8]| {
            let key = world.shard.key(1, partition_of(1, bytes), bytes);
            world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: Expiry::None });
        };
        let mut wanted = BTreeSet::new();
        for number in 0..stay {
            let bytes =
                if number % 2 == 0 { format!("h{number}") } else { format!("stay{number}") }.into_bytes();
            set(&mut world, &bytes);
            wanted.insert(bytes);
        }
        let mut others: Vec<Vec<u8>> = Vec::new();
        let growing = seed % 2 == 0;
        if !growing {
            for number in 0..stay * 8 {
                let bytes = format!("h-go{number}").into_bytes();
                set(&mut world, &bytes);
                others.push(bytes);
            }
        }
        let mut cursor = 0;
        loop {
            cursor = world.shard.scan(1, cursor, 0, &mut Budget::new(9, 1 << 20), &mut |bytes, _| {
                wanted.remove(bytes);
            });
            if cursor == 0 {
                break;
            }
            for _ in 0..world.random.below(if cfg!(miri) { 9 } else { 40 }) {
                if growing {
                    let bytes = format!("h-come{}", world.random.next()).into_bytes();
                    set(&mut world, &bytes);
                } else if let Some(bytes) = others.pop() {
                    let key = world.shard.key(1, 63, &bytes);
                    world.commit(Effect::Delete { key });
                }
            }
        }
        assert!(wanted.is_empty(), "seed {seed}: {} keys were missed", wanted.len());
        world.shard.audit();
    }
}

/// Expiry takes keys out in the order of their ends, exactly, however it is cut into slices.
#[test]
fn keys_expire_in_order_and_on_time() {
    let count = if cfg!(miri) { 20 } else { 3_000 };
    let mut world = World::new(3, 1, REGION);
    world.shard.listen(true);
    let mut ends = BTreeMap::new();
    for number in 0..count {
        let bytes = format!("h{number}").into_bytes();
        let far = 1 << world.random.below(24);
        let at = world.now_ms + 1 + world.random.below(far) as i64;
        let key = world.shard.key(0, 63, &bytes);
        world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: Expiry::At(at + 77) });
        world.commit(Effect::Expire { key, at: Expiry::At(at) });
        ends.insert(key.hash, at);
    }
    assert_eq!(world.shard.changes().count(), 2 * count);
    let mut last = 0;
    while world.shard.count(0) > 0 {
        let mut budget = Budget::new(1 + world.random.below(30) as u32, 1 << 20);
        let tended = world.shard.tend(world.now_ms, &mut budget, &|_, _| false);
        for change in world.shard.changes() {
            let store::Change::Key { hash, what: What::Expired, .. } = change else { panic!("{change:?}") };
            let at = ends.remove(&hash).expect("a key expires once");
            assert!(last <= at && at <= world.now_ms, "in order, and not before its time");
            last = at;
        }
        if !tended.more {
            let late = ends.values().filter(|&&at| at <= world.now_ms).count();
            assert_eq!(late, 0, "what is due is out when there is no more to do");
            let next = ends.values().min();
            assert!(
                tended.next_at.unwrap_or(i64::MAX) <= *next.unwrap_or(&i64::MAX),
                "tend is called in time"
            );
            world.now_ms = tended.next_at.unwrap_or(world.now_ms).max(world.now_ms);
        }
        if world.random.below(40) == 0 {
            world.shard.audit();
        }
    }
    assert!(ends.is_empty());
    assert_eq!(world.shard.memory().expired, count as u64);
}

/// Memory freed here and there is gathered: what stays is moved together, still found, still due in time.
#[test]
fn sparse_memory_is_gathered() {
    let count: u32 = if cfg!(miri) { 400 } else { 200_000 };
    let mut world = World::new(8, 1, REGION);
    let value = if cfg!(miri) { vec![9; 2_000] } else { vec![9; 40] };
    let mut kept = BTreeMap::new();
    for number in 0..count {
        let bytes = if number % 4 == 0 { format!("h{number}") } else { format!("key:{number}") }.into_bytes();
        let at = (number % 3 == 0).then(|| world.now_ms + 10_000 + i64::from(number));
        let key = world.shard.key(0, partition_of(0, &bytes), &bytes);
        let expiry = at.map_or(Expiry::None, Expiry::At);
        world.commit(Effect::Set { key, value: NewValue::Bytes(&value), expiry });
        kept.insert(bytes, at);
    }
    world.drain();
    let full = world.shard.memory();
    let names: Vec<Vec<u8>> = kept.keys().cloned().collect();
    for bytes in names {
        if world.random.below(5) > 0 {
            let key = world.shard.key(0, partition_of(0, &bytes), &bytes);
            world.commit(Effect::Delete { key });
            kept.remove(&bytes);
        }
        if world.random.below(20) == 0 {
            world.shard.tend(world.now_ms, &mut Budget::new(40, 1 << 20), &|_, _| false);
        }
        if world.random.below(u64::from(count) / 3) == 0 {
            world.shard.audit();
        }
    }
    world.drain();
    world.shard.audit();
    let mut lent = Vec::new();
    while let Some(range) = world.shard.released() {
        assert!(
            range.start.is_multiple_of(4096) && range.end.is_multiple_of(4096),
            "whole pages are released"
        );
        lent.push(range);
    }
    let memory = world.shard.memory();
    assert!(memory.entries * 4 < full.entries, "a fifth is left");
    // What is kept ready (16 spans and a warm one), and for each of three classes a current span and two to spare.
    let spare = 17 + 3 * 3;
    assert!(
        memory.resident <= memory.entries * 8 / 7 + spare * 65_536,
        "{} bytes of objects hold {} bytes of memory",
        memory.entries,
        memory.resident
    );
    for (bytes, at) in &kept {
        let key = world.shard.key(0, partition_of(0, bytes), bytes);
        let entry = world.shard.get(&key, 0).expect("what stays is found");
        assert_eq!((entry.expires_at(), read(entry.value())), (*at, value.clone()));
    }
    for range in lent {
        world.shard.reclaim(range);
    }
    world.shard.audit();
    world.now_ms += 20_000 + i64::from(count);
    world.drain();
    kept.retain(|_, at| at.is_none());
    assert_eq!(world.shard.count(0), kept.len() as u64, "all that was due is gone");
    world.shard.audit();
}

/// A key that a transaction holds outlives its end until it is let go.
#[test]
fn held_keys_do_not_expire() {
    let mut world = World::new(4, 1, 8 << 20);
    world.drain();
    let key = world.shard.key(2, 63, b"held");
    let at = world.now_ms + 5;
    // The list of a slot begins with what came last: one key behind, one before it.
    for bytes in [&b"hinder"[..], b"held", b"h-front"] {
        let key = world.shard.key(2, 63, bytes);
        world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: Expiry::At(at) });
    }
    let now_ms = at + 3;
    for later in 0..5 {
        world
            .shard
            .tend(now_ms + later, &mut Budget::new(50, 1 << 20), &|db, hash| db == 2 && hash == key.hash);
        assert_eq!(world.shard.count(2), 1, "it is held, and holds nothing else up");
        assert!(world.shard.get(&key, now_ms).is_none(), "but absent");
    }
    world.shard.tend(now_ms + 9, &mut Budget::new(50, 1 << 20), &|_, _| false);
    assert_eq!(world.shard.count(2), 0);
}

/// Flushed keys that are due do not keep those behind them from expiring.
#[test]
fn flushed_keys_hold_nothing_up() {
    let mut world = World::new(11, 1, REGION);
    // The wheel learns the time, so that what is near is not dealt down from far.
    world.drain();
    let at = world.now_ms + 5;
    let count = if cfg!(miri) { 30 } else { 300 };
    for number in 0..=count {
        let bytes = if number == 0 { b"key:0".to_vec() } else { format!("h{number}").into_bytes() };
        let key = world.shard.key(0, partition_of(0, &bytes), &bytes);
        world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: Expiry::At(at) });
    }
    let outcome = world.commit(Effect::FlushPartition { db: 0, partition: 63 });
    assert_eq!(outcome.elements, 1, "a flush costs the same whatever is flushed");
    assert_eq!((world.shard.count(0), world.shard.expiring_count(0)), (1, 1));
    world.shard.tend(at, &mut Budget::new(3 * count, 1 << 20), &|_, _| false);
    assert_eq!(world.shard.count(0), 0);
    world.drain();
    world.shard.audit();
    assert_eq!(world.shard.memory().entries, 0, "all memory came back");
}

/// Entries remember when they were written and read, to the second; under LFU, how often.
#[test]
fn recency_follows_uses() {
    let mut world = World::new(12, 1, REGION);
    let key = world.shard.key(0, 63, b"h");
    let tick = |world: &mut World, seconds: i64| {
        world.now_ms += seconds * 1_000;
        world.shard.tend(world.now_ms, &mut Budget::new(9, 9_999), &|_, _| false);
    };
    let idle = |world: &World| world.shard.idle_s(&world.shard.get(&key, 0).expect("it is there"));
    let set = |world: &mut World| {
        world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: Expiry::None })
    };
    tick(&mut world, 0);
    set(&mut world);
    tick(&mut world, 7);
    assert_eq!(idle(&world), 7);
    let now_ms = world.now_ms;
    world.shard.touch(&key, now_ms, 0);
    assert_eq!(idle(&world), 0);
    tick(&mut world, 3);
    assert_eq!(idle(&world), 3);
    set(&mut world);
    assert_eq!(idle(&world), 0);

    world.shard.set_recency(Recency::Lfu { log_factor: 10, decay_minutes: 1 });
    world.commit(Effect::Delete { key });
    set(&mut world);
    let frequency = |world: &World| world.shard.frequency(&world.shard.get(&key, 0).expect("it is there"));
    assert_eq!(frequency(&world), 5, "a new key begins at five");
    for _ in 0..1_000 {
        let (now_ms, draw) = (world.now_ms, world.random.next());
        world.shard.touch(&key, now_ms, draw);
    }
    let often = frequency(&world);
    assert!((10..30).contains(&often), "a thousand uses are about eighteen steps, not {often}");
    tick(&mut world, 60 * 4);
    assert_eq!(frequency(&world), often - 4, "a minute lowers it by one");
}

/// A full region refuses, changes nothing, and serves again when something is deleted.
#[test]
fn a_full_region_refuses_and_recovers() {
    let mut world = World::new(5, 1, 1 << 20);
    let mut count = 0;
    let name = |number: u32| format!("h{number}").into_bytes();
    loop {
        let bytes = name(count);
        let key = world.shard.key(0, 63, &bytes);
        match world.shard.commit(Effect::Set { key, value: NewValue::Bytes(&[7; 900]), expiry: Expiry::None })
        {
            Ok(_) => count += 1,
            Err(Full) => break,
        }
        assert!(count < 1_200, "a region of 1 MiB does not hold that much");
    }
    assert!(count > 700, "only {count} entries of 900 bytes in 1 MiB");
    world.shard.audit();
    assert_eq!(world.shard.count(0), u64::from(count));
    let first = name(0);
    let key = world.shard.key(0, 63, &first);
    let grown = Effect::SetRange { key, offset: 900, bytes: &[8; 5_000] };
    assert_eq!(world.shard.commit(grown), Err(Full));
    assert!(read(world.shard.get(&key, 0).expect("still there").value()) == [7; 900]);
    world.commit(Effect::FlushPartition { db: 0, partition: 63 });
    world.drain();
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"again"), expiry: Expiry::None });
    world.shard.audit();
    world.shard.set_lease(1);
    let refused = Effect::Set { key, value: NewValue::Bytes(b"more"), expiry: Expiry::None };
    assert_eq!(world.shard.commit(refused), Err(Full), "the lease is spent");
    assert!(world.commit(Effect::Delete { key }).existed, "removing needs no lease");
}

/// Makes 2,000 keys of which each policy finds half the better victims, evicts down to half, and counts how many of the
/// better half stayed.
fn evicted_wrongly(policy: Policy) -> usize {
    let count: u32 = if cfg!(miri) { 60 } else { 2_000 };
    let mut world = World::new(9, 1, REGION);
    if policy.is_lfu() {
        world.shard.set_recency(Recency::Lfu { log_factor: 1, decay_minutes: 1 });
    }
    let name =
        |number: u32| if number.is_multiple_of(5) { format!("h{number}") } else { format!("key:{number}") };
    let is_volatile = policy.name().starts_with("volatile");
    let start = world.now_ms;
    for number in 0..count {
        let bytes = name(number).into_bytes();
        let key = world.shard.key(1, partition_of(1, &bytes), &bytes);
        let end = start + 100_000_000 + i64::from(number) * 1_000;
        let expiry = if is_volatile { Expiry::At(end) } else { Expiry::None };
        world.commit(Effect::Set { key, value: NewValue::Bytes(&[1; 100]), expiry });
    }
    // The upper half is used, later and more often, and ends later.
    let now_ms = start + 1_000_000;
    for number in count / 2..count {
        let bytes = name(number).into_bytes();
        let key = world.shard.key(1, partition_of(1, &bytes), &bytes);
        for draw in 0..40 {
            world.shard.touch(&key, now_ms, draw);
        }
    }
    world.shard.listen(true);
    let heads = world.shard.memory().heads;
    let target = heads + (world.shard.held() - heads) / 2;
    let mut random = Random(5);
    let mut slices = 0;
    loop {
        let mut budget = Budget::new(100, 1 << 20);
        match world.shard.evict(policy, target, &mut || random.next(), &mut budget, &|_, _| false) {
            Evicted::More => slices += 1,
            Evicted::Enough => break,
            Evicted::Nothing => panic!("there is enough to evict"),
        }
    }
    assert!(slices > 2, "eviction stops when its budget is spent");
    world.shard.audit();
    assert!(world.shard.held() <= target && world.shard.held() > target * 9 / 10, "no more goes than has to");
    let gone = world
        .shard
        .changes()
        .filter(|change| matches!(change, store::Change::Key { what: What::Evicted, .. }));
    assert_eq!(gone.count() as u64, world.shard.memory().evicted, "listeners hear of evictions");
    (count / 2..count)
        .filter(|&number| {
            let bytes = name(number).into_bytes();
            world.shard.get(&world.shard.key(1, partition_of(1, &bytes), &bytes), now_ms).is_none()
        })
        .count()
}

#[test]
fn eviction_takes_the_keys_that_its_policy_names() {
    let half = if cfg!(miri) { 30 } else { 1_000 };
    for policy in Policy::ALL {
        let wrong = match policy {
            Policy::NoEviction => continue,
            policy => evicted_wrongly(policy),
        };
        let random = matches!(policy, Policy::AllKeysRandom | Policy::VolatileRandom);
        if random {
            assert!(wrong > half / 4 && wrong < half * 3 / 4, "{}: {wrong} of {half}", policy.name());
        } else {
            // Sampling mistakes a few at the end, when most of the worse half is gone.
            assert!(wrong < half / 8, "{}: {wrong} of {half}", policy.name());
        }
    }
}

/// Keys without a time to live survive volatile policies, held keys survive all, and without a policy nothing goes.
#[test]
fn eviction_spares_what_it_must() {
    let mut world = World::new(10, 1, REGION);
    for number in 0..50 {
        let bytes = format!("h{number}").into_bytes();
        let key = world.shard.key(0, 63, &bytes);
        let expiry = if number < 10 { Expiry::At(world.now_ms + 1_000_000) } else { Expiry::None };
        world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry });
    }
    let mut random = Random(1);
    let mut evict = |world: &mut World, policy, hold: &dyn Fn(u16, u64) -> bool| {
        let ended =
            world.shard.evict(policy, 0, &mut || random.next(), &mut Budget::new(9_999, 1 << 20), hold);
        assert_eq!(ended, Evicted::Nothing);
        world.shard.audit();
        world.shard.count(0)
    };
    assert_eq!(evict(&mut world, Policy::NoEviction, &|_, _| false), 50);
    assert_eq!(evict(&mut world, Policy::AllKeysLru, &|db, _| db == 0), 50, "all are held");
    assert_eq!(evict(&mut world, Policy::VolatileLru, &|_, _| false), 40);
    assert_eq!(evict(&mut world, Policy::VolatileTtl, &|_, _| false), 40);
    assert_eq!(evict(&mut world, Policy::AllKeysLfu, &|_, _| false), 0);
}

/// Strings keep the encoding names that Redis gives them.
#[test]
fn encodings_are_named_as_in_redis() {
    let mut world = World::new(6, 1, 8 << 20);
    let mut check = |value: &[u8], want: &str| {
        let key = world.shard.key(0, 63, b"h");
        world.shard.commit(Effect::Set { key, value: NewValue::Bytes(value), expiry: Expiry::None }).unwrap();
        assert_eq!(world.shard.get(&key, 0).unwrap().encoding(), want);
    };
    check(b"12", "int");
    check(b"-9223372036854775808", "int");
    check(b"012", "embstr");
    check(&[b'x'; 44], "embstr");
    check(&[b'x'; 45], "raw");
    check(&[b'x'; 40_000], "raw");
    let key = world.shard.key(0, 63, b"h");
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"12"), expiry: Expiry::At(9) });
    world.commit(Effect::SetRange { key, offset: 2, bytes: b"3" });
    let entry = world.shard.get(&key, 0).unwrap();
    assert_eq!(
        (entry.encoding(), entry.expires_at(), read(entry.value())),
        ("raw", Some(9), b"123".to_vec())
    );
}

/// A rope that somebody still reads keeps its bytes while the key goes on.
#[test]
fn readers_of_a_rope_see_the_version_they_took() {
    let mut world = World::new(7, 1, 8 << 20);
    let key = world.shard.key(0, 63, b"h");
    world.commit(Effect::Set { key, value: NewValue::Bytes(&[1; 200_000]), expiry: Expiry::None });
    let Value::Rope(rope) = world.shard.get(&key, 0).unwrap().value() else {
        panic!("200,000 bytes are a rope")
    };
    let taken = rope.clone();
    world.commit(Effect::SetRange { key, offset: 70_000, bytes: &[2; 3] });
    world.commit(Effect::SetRange { key, offset: 200_000, bytes: &[3; 5] });
    assert!(read(Value::Rope(&taken)) == [1; 200_000]);
    let now = read(world.shard.get(&key, 0).unwrap().value());
    assert_eq!(
        (now.len(), &now[69_999..70_004], &now[199_999..]),
        (200_005, &[1, 2, 2, 2, 1][..], &[1, 3, 3, 3, 3, 3][..])
    );
    let Value::Rope(rope) = world.shard.get(&key, 0).unwrap().value() else { panic!("it stays a rope") };
    assert!(std::sync::Arc::ptr_eq(rope.chunk(2), taken.chunk(2)), "chunks that nobody wrote to are shared");
    let shared: std::sync::Arc<dyn AsRef<[u8]> + Send + Sync> = taken.chunk(0).clone();
    assert_eq!((*shared).as_ref().len(), store::CHUNK_SIZE);
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"short"), expiry: Expiry::None });
    assert_eq!(world.shard.memory().retired, 200_005, "an old value is not freed at once");
    assert_eq!(world.shard.memory().ropes, 0);
    world.drain();
    assert_eq!(world.shard.memory().retired, 0);
    world.shard.retire(taken);
    world.drain();
    assert_eq!(world.shard.memory().retired, 0);
}
