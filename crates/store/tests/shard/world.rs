//! A shard beside its model, and random steps that both take.

use std::collections::{BTreeMap, BTreeSet};
use store::{
    Budget, Config, Effect, Expiry, Gone, Key, Mark, NewValue, Outcome, Recency, Region, RopeBuilder, Shard,
    Type, Value,
};

pub(crate) const PARTITIONS: u16 = 64;

pub(crate) const DATABASES: u16 = 4;
/// The last of them is a namespace of its own.
pub(crate) const BESIDE: u16 = 3;

pub(crate) const REGION: usize = if cfg!(miri) { 4 << 20 } else { 256 << 20 };

pub(crate) fn partition_of(db: u16, key: &[u8]) -> u16 {
    if db == BESIDE {
        return u16::from(key.last().copied().unwrap_or(0)) % 3 + 60;
    }
    // Keys that begin with `h` share one partition, the others are spread over four.
    if key.first() == Some(&b'h') { 63 } else { u16::from(key.last().copied().unwrap_or(0)) % 4 }
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Held {
    pub(crate) value: Vec<u8>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) mark: Option<Mark>,
}

pub(crate) type Databases = Vec<BTreeMap<Vec<u8>, Held>>;

pub(crate) struct World {
    pub(crate) shard: Shard,
    pub(crate) model: Databases,
    pub(crate) random: Random,
    pub(crate) now_ms: i64,
    pub(crate) key_count: u64,
}

impl World {
    pub(crate) fn new(seed: u64, key_count: u64, region: usize) -> World {
        let config = Config {
            partitions: PARTITIONS,
            databases: BESIDE,
            seed: [seed, !seed],
            partition_of,
            beside: &[|key| partition_of(BESIDE, key)],
            recency: Recency::Lru,
        };
        let mut shard = Shard::new(config, Region::new(region));
        // One that may change places, and one beside.
        [1, BESIDE].into_iter().for_each(|db| shard.count_labels(db));
        World {
            shard,
            model: vec![BTreeMap::new(); usize::from(DATABASES)],
            random: Random(seed),
            now_ms: 1_700_000_000_000,
            key_count,
        }
    }

    pub(crate) fn key_bytes(&mut self) -> Vec<u8> {
        let number = self.random.below(self.key_count);
        match number % 7 {
            0 => format!("h{number}").into_bytes(),
            1 => format!("{number:0>300}").into_bytes(),
            _ => format!("key:{number}").into_bytes(),
        }
    }

    pub(crate) fn value(&mut self) -> Vec<u8> {
        let size = match self.random.below(40) {
            0 => 250 + self.random.below(12),
            1 => 32_000 + self.random.below(2_000),
            2 => 65_536 + self.random.below(140_000),
            3..9 => return (self.random.next() as i64).to_string().into_bytes(),
            9 => 600 + self.random.below(9_000),
            _ => self.random.below(90),
        };
        let fill = self.random.next() as u8;
        (0..size).map(|index| fill.wrapping_add(index as u8)).collect()
    }

    pub(crate) fn mark(&mut self) -> Mark {
        let bits = self.random.next() as u8;
        // Eight labels.
        let flags = if self.random.below(2) == 0 { 0 } else { self.random.next() as u32 & 0x0007_ffff };
        Mark { cas: self.random.below(Mark::CAS_END), bits, flags }
    }

    pub(crate) fn expiry(&mut self) -> Expiry {
        match self.random.below(4) {
            0 if self.random.below(9) == 0 => Expiry::At(i64::MAX - (self.random.next() >> 40) as i64),
            0 => Expiry::Keep,
            1 => {
                let far = self.random.below(40);
                Expiry::At(self.now_ms + self.random.below(1 + (1 << far)) as i64)
            }
            _ => Expiry::None,
        }
    }

    pub(crate) fn commit(&mut self, effect: Effect<'_>) -> Outcome {
        self.shard.commit(effect).expect("the region is large enough")
    }

    pub(crate) fn step(&mut self) {
        let db = self.random.below(u64::from(DATABASES)) as u16;
        let bytes = self.key_bytes();
        let mut key = self.shard.key(db, partition_of(db, &bytes), &bytes);
        if self.random.below(2) == 0 {
            self.shard.read_to_change(&mut key, self.now_ms, || 0);
            // What was found may be anywhere by now.
            if self.random.below(3) == 0 {
                self.step();
                self.forget_gone();
            }
        }
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
                let text = std::str::from_utf8(&value).unwrap_or_default();
                let number = text.parse().ok().filter(|number: &i64| number.to_string() == text);
                let value = if let Some(number) = number.filter(|_| self.random.below(2) == 0) {
                    NewValue::Int(number)
                } else if as_rope {
                    let mut builder = RopeBuilder::new();
                    let cut = self.random.below(1 + value.len() as u64) as usize;
                    builder.push(&value[..cut]);
                    builder.push(&value[cut..]);
                    NewValue::Rope(builder.finish())
                } else {
                    NewValue::Bytes(&value)
                };
                let mark = (self.random.below(3) == 0).then(|| self.mark());
                self.model[model].get_mut(&bytes).expect("just made").mark = mark;
                let outcome = match mark {
                    None => self.commit(Effect::Set { key, value, expiry }),
                    Some(mark) => self.commit(Effect::SetDocument { key, value, mark, expiry }),
                };
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
            80..85 => {
                let Mark { cas, bits, .. } = self.mark();
                if let Some(mark) = self.model[model].get_mut(&bytes).and_then(|held| held.mark.as_mut()) {
                    *mark = Mark { cas, bits, ..*mark };
                    self.commit(Effect::Mark { key, cas, bits });
                } else if !known {
                    assert!(!self.commit(Effect::Mark { key, cas, bits }).existed, "nothing is marked");
                }
            }
            85..95 => {
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
                let partition = if db == BESIDE { partition + 59 } else { partition };
                let partition = if partition == 4 { 63 } else { partition };
                self.commit(Effect::FlushPartition { db, partition });
                self.model[model].retain(|bytes, _| partition_of(db, bytes) != partition);
            }
            96 if db != BESIDE => {
                let other = self.random.below(u64::from(BESIDE)) as u16;
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
    pub(crate) fn lapse(&mut self, key: &Key<'_>) {
        let model = &mut self.model[usize::from(key.db)];
        let due = model.get(key.bytes).and_then(|held| held.expires_at).is_some_and(|at| at <= self.now_ms);
        if due {
            model.remove(key.bytes);
        }
        let lapsed = self.shard.lapse(key, self.now_ms);
        assert!(due || !lapsed, "only what is due lapses");
        let told = self.shard.gone().all(|gone| lapsed && !gone.is_evicted && *gone.key == *key.bytes);
        assert!(told, "who follows is told of the key and no other");
    }

    /// The model learns what went without a command.
    pub(crate) fn forget_gone(&mut self) {
        let gone: Vec<_> = self.shard.gone().collect();
        for Gone { db, key, .. } in gone {
            assert!(db < BESIDE, "only Redis' databases are followed");
            self.model[usize::from(db)].remove(&key[..]);
        }
    }

    pub(crate) fn compare(&mut self) {
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
                let kind = if held.mark.is_some() { Type::Document } else { Type::String };
                assert_eq!((entry.kind(), entry.mark()), (kind, held.mark));
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

    pub(crate) fn drain(&mut self) {
        for _ in 0..1_000_000 {
            let mut budget = Budget::new(100, 1 << 20);
            if !self.shard.tend(self.now_ms, &mut budget, &|_, _| false).more {
                return;
            }
        }
        panic!("housekeeping comes to an end");
    }
}

pub(crate) fn read(value: Value<'_>) -> Vec<u8> {
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
