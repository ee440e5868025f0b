//! Snapshots: whatever happens during one, each key is delivered once, as it was.

use crate::world::{BESIDE, REGION, Random, World, partition_of, read};
use std::collections::BTreeMap;
use store::{Budget, Effect, Entry, Evicted, Expiry, Full, ImageValue, Key, Mark, NewValue, Policy, Value};

/// Values and ends by database and key.
type Keys = BTreeMap<(u16, Vec<u8>), (Vec<u8>, Option<i64>)>;

/// What a snapshot has delivered so far.
#[derive(Default)]
struct Delivered {
    keys: Keys,
    walked: usize,
    imaged: usize,
}

impl Delivered {
    fn add(&mut self, db: u16, key: &[u8], value: Vec<u8>, expires_at: Option<i64>) {
        let before = self.keys.insert((db, key.to_vec()), (value, expires_at));
        assert!(before.is_none(), "{db} {} was delivered before", key.escape_ascii());
    }

    /// Goes on with the walk, and says whether there is more.
    fn walk(&mut self, world: &mut World, mut budget: Budget) -> bool {
        world.shard.walk_snapshot(&mut budget, &mut |db, entry| {
            self.add(db, entry.key(), read(entry.value()), entry.expires_at());
            self.walked += 1;
        })
    }

    fn take_images(&mut self, world: &mut World) {
        let images: Vec<_> = world.shard.images().collect();
        for image in images {
            let value = match image.value {
                ImageValue::Int(number) => number.to_string().into_bytes(),
                ImageValue::Bytes(bytes) => bytes.into_vec(),
                ImageValue::Rope(rope) => {
                    let bytes = read(Value::Rope(&rope));
                    world.shard.retire(rope);
                    bytes
                }
            };
            self.add(image.db, &image.key, value, image.expires_at);
            self.imaged += 1;
        }
    }

    /// Walks to the end, takes what is left, and compares with what was there at the beginning.
    fn finish(mut self, world: &mut World, beginning: &Keys) {
        while self.walk(world, Budget::new(50, 1 << 20)) {}
        assert!(!world.shard.is_walking());
        self.take_images(world);
        self.compare(beginning);
    }

    fn compare(&self, beginning: &Keys) {
        for (key, held) in beginning {
            let name = format!("{} {}", key.0, key.1.escape_ascii());
            assert!(self.keys.get(key).expect(&name) == held, "{name} is as it was");
        }
        assert_eq!(self.keys.len(), beginning.len(), "what came later is not part of it");
    }
}

/// All of Redis' databases, keys whose time has come included.
fn contents(world: &World) -> Keys {
    let mut keys = Keys::new();
    for db in 0..BESIDE {
        let mut budget = Budget::new(u32::MAX, u32::MAX);
        world.shard.scan(db, 0, i64::MIN, &mut budget, &mut |bytes, entry: &Entry<'_>| {
            keys.insert((db, bytes.to_vec()), (read(entry.value()), entry.expires_at()));
        });
    }
    keys
}

/// The same as the model has it, which hears of keys that go without a command.
fn modelled(world: &World) -> Keys {
    let databases = (0..BESIDE).zip(&world.model);
    databases
        .flat_map(|(db, model)| {
            model.iter().map(move |(key, held)| ((db, key.clone()), (held.value.clone(), held.expires_at)))
        })
        .collect()
}

fn begin(world: &mut World) -> Keys {
    let beginning = contents(world);
    world.shard.begin_snapshot();
    assert!(world.shard.is_walking());
    beginning
}

fn set(world: &mut World, db: u16, bytes: &[u8], value: &[u8]) {
    let key = world.shard.key(db, partition_of(db, bytes), bytes);
    world.commit(Effect::Set { key, value: NewValue::Bytes(value), expiry: Expiry::None });
    let held = world.model[usize::from(db)].entry(bytes.to_vec()).or_default();
    (held.value, held.expires_at) = (value.to_vec(), None);
}

fn delete(world: &mut World, db: u16, bytes: &[u8]) {
    let key = world.shard.key(db, partition_of(db, bytes), bytes);
    world.commit(Effect::Delete { key });
    world.model[usize::from(db)].remove(bytes);
}

/// A step of a random program: one effect, or what many of them or little memory bring about.
fn step(world: &mut World) {
    let db = world.random.below(u64::from(BESIDE)) as u16;
    match world.random.below(200) {
        0 => {
            for number in 0..world.random.below(200) {
                let value = world.value();
                set(world, db, format!("h-mass{number}").as_bytes(), &value[..value.len().min(300)]);
            }
        }
        1 => {
            for number in 0..200 {
                delete(world, db, format!("h-mass{number}").as_bytes());
            }
        }
        2..6 => {
            let policy = Policy::ALL[world.random.below(8) as usize];
            let mut random = Random(world.random.next());
            let target = world.shard.held_by(db) / 10 * 9;
            let mut budget = Budget::new(200, 1 << 20);
            world.shard.evict(policy, Some(db), target, &mut || random.next(), &mut budget, &|_, _| false);
        }
        _ => world.step(),
    }
    world.forget_gone();
}

/// Random programs during snapshots, one after the other, some of which are abandoned half way.
#[test]
fn each_key_is_delivered_once_as_it_was() {
    let (seeds, rounds, first_steps) = if cfg!(miri) { (1, 2, 30) } else { (30, 6, 1_500) };
    let (mut walked, mut imaged, mut abandoned) = (0, 0, 0);
    for seed in 0..seeds {
        let mut world = World::new(seed, [5, 60, 2_000][seed as usize % 3], REGION);
        world.shard.follow(true);
        (0..first_steps).for_each(|_| step(&mut world));
        for round in 0..rounds {
            let beginning = begin(&mut world);
            assert!(beginning == modelled(&world), "seed {seed}: keys that go without a command are known");
            let mut delivered = Delivered::default();
            // Rounds differ in how much happens between two steps of the walk, and how large those are.
            let (steps_max, elements_max) = (1 + world.random.below(12), 1 + world.random.below(40));
            let abandon_at = (round % 3 == 1).then(|| world.random.below(40));
            let mut calls = 0;
            loop {
                for _ in 0..world.random.below(1 + steps_max) {
                    step(&mut world);
                }
                if abandon_at == Some(calls) {
                    world.shard.abandon_snapshot();
                    abandoned += 1;
                }
                calls += 1;
                if world.random.below(3) == 0 {
                    delivered.take_images(&mut world);
                }
                if world.random.below(60) == 0 {
                    world.compare();
                }
                let budget = Budget::new(1 + world.random.below(elements_max) as u32, 1 << 16);
                let before = delivered.keys.len();
                let more = delivered.walk(&mut world, budget);
                if abandon_at.is_some_and(|at| at < calls) {
                    assert_eq!(delivered.keys.len(), before, "nobody is called");
                    assert_eq!(world.shard.images().count(), 0, "nothing is kept");
                }
                assert_eq!(more, world.shard.is_walking());
                if !more {
                    break;
                }
            }
            // Images outlast the walk, and what changes now leaves none.
            (0..20).for_each(|_| step(&mut world));
            delivered.take_images(&mut world);
            if abandon_at.is_none_or(|at| at >= calls) {
                delivered.compare(&beginning);
                (walked, imaged) = (walked + delivered.walked, imaged + delivered.imaged);
            }
            world.compare();
        }
        world.drain();
        world.compare();
    }
    assert!(cfg!(miri) || walked.min(imaged) > 2_000 && abandoned > 10, "{walked} {imaged} {abandoned}");
}

/// A table that is moved in memory, shrinks and grows again meanwhile.
#[test]
fn tables_that_move_are_walked() {
    let count: u32 = if cfg!(miri) { 300 } else { 60_000 };
    let mut world = World::new(9, 1, REGION);
    let value = if cfg!(miri) { vec![9; 2_000] } else { vec![9; 40] };
    let name = |number: u32| format!("h{number}").into_bytes();
    for number in 0..count {
        set(&mut world, 1, &name(number), &value);
    }
    world.drain();
    (0..count).filter(|number| number % 8 != 0).for_each(|number| delete(&mut world, 1, &name(number)));
    let places = |world: &World| -> Vec<Option<usize>> {
        let place = |number| {
            let bytes = name(number);
            let key = world.shard.key(1, 63, &bytes);
            world.shard.get(&key, 0).map(|entry| entry.key().as_ptr().addr())
        };
        (0..count).step_by(8).map(place).collect()
    };
    for round in 0..3 {
        let (beginning, before) = (begin(&mut world), places(&world));
        let mut delivered = Delivered::default();
        let mut number = 0;
        while delivered.walk(&mut world, Budget::new(40, 1 << 20)) {
            for _ in 0..20 {
                // Shrinks, then grows, then both.
                if round != 1 {
                    let bytes = name(8 * world.random.below(u64::from(count / 8)) as u32);
                    delete(&mut world, 1, &bytes);
                }
                if round != 0 {
                    set(&mut world, 1, format!("h-{round}-{number}").as_bytes(), b"new");
                    number += 1;
                }
            }
            world.shard.tend(world.now_ms, &mut Budget::new(300, 1 << 20), &|_, _| false);
            delivered.take_images(&mut world);
        }
        world.shard.audit();
        let after = places(&world);
        let moved = before.iter().zip(&after).filter(|(before, after)| after.is_some() && before != after);
        assert!(cfg!(miri) || round > 0 || moved.count() > 500, "memory was gathered meanwhile");
        delivered.finish(&mut world, &beginning);
    }
}

/// Flushed before the beginning is gone; flushed after it is delivered, under the number that the database had, and the walk is
/// not over before.
#[test]
fn flushed_keys_belong_to_the_time_of_the_flush() {
    let mut world = World::new(2, 1, REGION);
    let count = if cfg!(miri) { 30 } else { 300 };
    let fill = |world: &mut World, value: &[u8]| {
        (0..count).for_each(|number| set(world, 0, format!("h{number}").as_bytes(), value));
    };
    let flush = |world: &mut World, db: u16| world.commit(Effect::FlushPartition { db, partition: 63 });
    fill(&mut world, b"first");
    flush(&mut world, 0);
    world.shard.tend(world.now_ms, &mut Budget::new(20, 1 << 20), &|_, _| false);
    fill(&mut world, b"second");
    flush(&mut world, 0);
    fill(&mut world, b"third");
    set(&mut world, 1, b"h", b"other");
    let beginning = begin(&mut world);
    assert_eq!(beginning.len(), count + 1);
    world.commit(Effect::SwapDatabases { a: 0, b: 1 });
    flush(&mut world, 1);
    // As many again that nobody is owed, flushed by their new number.
    (0..count).for_each(|number| set(&mut world, 1, format!("h{number}").as_bytes(), b"fourth"));
    flush(&mut world, 1);
    let mut delivered = Delivered::default();
    // Nobody but the walk frees what waits.
    let mut calls = 0;
    while delivered.walk(&mut world, Budget::new(30, 1 << 20)) {
        calls += 1;
        world.shard.audit();
    }
    assert!(calls > 2 * count / (30 + 12), "the walk is not over before flushed keys are freed");
    delivered.take_images(&mut world);
    delivered.compare(&beginning);
    assert_eq!((delivered.walked, delivered.imaged), (1, count));

    // An abandoned walk does not wait for them, and the next snapshot knows nothing of them.
    fill(&mut world, b"fifth");
    begin(&mut world);
    flush(&mut world, 0);
    world.shard.abandon_snapshot();
    let nobody = &mut |_: u16, _: &Entry<'_>| panic!("nobody is called");
    while world.shard.walk_snapshot(&mut Budget::new(u32::MAX, 1), nobody) {}
    assert!(world.shard.memory().entries > 0, "what was flushed still waits");
    let beginning = begin(&mut world);
    world.drain();
    assert_eq!(world.shard.memory().keys, beginning.len() as u64);
    Delivered::default().finish(&mut world, &beginning);
}

/// A database of which the walk has seen a part is emptied: it goes on with the next one from its beginning.
#[test]
fn a_database_is_emptied_under_the_walk() {
    let mut world = World::new(2, 1, REGION);
    for number in 0..if cfg!(miri) { 40 } else { 400 } {
        // All in partition 0.
        let bytes = format!("key:{number}0").into_bytes();
        [0, 1].into_iter().for_each(|db| set(&mut world, db, &bytes, b"value"));
    }
    let beginning = begin(&mut world);
    let mut delivered = Delivered::default();
    (0..2).for_each(|_| assert!(delivered.walk(&mut world, Budget::new(1, 1))));
    world.commit(Effect::FlushPartition { db: 0, partition: 0 });
    delivered.finish(&mut world, &beginning);
}

/// A long value that is written to in place, replaced, removed: the image's is as it was, and its bytes come back when it is
/// given back.
#[test]
fn the_rope_of_an_image_stays_as_it_was() {
    const NAMES: [&[u8]; 4] = [b"h-written", b"h-padded", b"h-replaced", b"h-gone"];
    let mut world = World::new(6, 1, REGION);
    let value: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
    NAMES.iter().for_each(|name| set(&mut world, 0, name, &value));
    let [written, padded, replaced, gone] = NAMES.map(|name| world.shard.key(0, 63, name));
    let beginning = begin(&mut world);
    world.commit(Effect::SetRange { key: written, offset: 70_000, bytes: b"in the second chunk" });
    world.commit(Effect::SetRange { key: written, offset: 65_530, bytes: b"over two" });
    world.commit(Effect::SetRange { key: padded, offset: 500_000, bytes: b"far behind the end" });
    world.commit(Effect::Set { key: replaced, value: NewValue::Bytes(b"short"), expiry: Expiry::None });
    world.commit(Effect::Delete { key: gone });
    let entry = world.shard.get(&written, 0).expect("it is there");
    assert_eq!(&read(entry.value())[70_000..70_019], b"in the second chunk");
    assert_eq!(world.shard.memory().retired, 0, "images hold what is replaced and removed");
    let mut delivered = Delivered::default();
    delivered.take_images(&mut world);
    assert_eq!(delivered.imaged, NAMES.len());
    assert_eq!(world.shard.memory().retired, 4 * 200_192, "given back, they are the last to hold it");
    world.drain();
    world.shard.audit();
    delivered.finish(&mut world, &beginning);

    // Abandoned: the shard itself gives them back.
    begin(&mut world);
    world.commit(Effect::Delete { key: padded });
    world.shard.abandon_snapshot();
    assert_eq!(world.shard.memory().retired, 507_904);
    world.drain();
    assert_eq!(world.shard.memory().retired, 0);
}

/// What housekeeping and eviction copy into images counts for their budgets: they remove no more keys than that allows, but for
/// those of a bucket.
#[test]
fn images_are_paid_for() {
    const COUNT: u64 = 60;
    const SIZE: u32 = 1_000;
    let check = |remove: &dyn Fn(&mut World)| {
        let mut world = World::new(4, 1, REGION);
        world.drain();
        let end = world.now_ms + 5;
        for number in 0..COUNT {
            let bytes = format!("h{number}").into_bytes();
            let key = world.shard.key(0, 63, &bytes);
            let value = NewValue::Bytes(&[1; SIZE as usize]);
            world.commit(Effect::Set { key, value, expiry: Expiry::At(end) });
        }
        let beginning = begin(&mut world);
        remove(&mut world);
        let mut delivered = Delivered::default();
        delivered.take_images(&mut world);
        assert!((10..=10 + 12).contains(&delivered.imaged), "{} images in a step", delivered.imaged);
        delivered.finish(&mut world, &beginning);
    };
    // A share of `tend` is half of its budget.
    let budget = || Budget::new(9_999, 20 * SIZE);
    check(&|world| {
        world.shard.tend(world.now_ms + 5, &mut budget(), &|_, _| false);
    });
    check(&|world| {
        world.commit(Effect::FlushPartition { db: 0, partition: 63 });
        world.shard.tend(world.now_ms, &mut budget(), &|_, _| false);
    });
    check(&|world| {
        let mut budget = Budget::new(9_999, 10 * SIZE);
        let evicted =
            world.shard.evict(Policy::AllKeysLru, Some(0), 0, &mut || 7, &mut budget, &|_, _| false);
        assert_eq!(evicted, Evicted::More);
    });
}

/// Each effect on its own, before the walk and behind it.
#[test]
fn every_effect_leaves_an_image_once() {
    fn commit(world: &mut World, effect: impl FnOnce(Key<'static>) -> Effect<'static>) {
        let key = world.shard.key(0, 63, b"h");
        world.commit(effect(key));
    }
    let check = |value: &[u8], expiry: Expiry, change: &dyn Fn(&mut World)| {
        let before = |world: &mut World| {
            let key = world.shard.key(0, 63, b"h");
            let mark = Mark { cas: 1, bits: 0, flags: 9 };
            world.commit(Effect::SetDocument { key, value: NewValue::Bytes(value), mark, expiry });
        };
        let mut world = World::new(1, 1, 8 << 20);
        before(&mut world);
        let beginning = begin(&mut world);
        change(&mut world);
        change(&mut world);
        let mut delivered = Delivered::default();
        delivered.take_images(&mut world);
        assert_eq!(delivered.imaged, 1);
        delivered.finish(&mut world, &beginning);
        before(&mut world);
        let beginning = begin(&mut world);
        let mut delivered = Delivered::default();
        while delivered.walk(&mut world, Budget::new(1, 1)) {}
        change(&mut world);
        assert_eq!(world.shard.images().count(), 0, "the walk was here already");
        delivered.compare(&beginning);
        world.shard.audit();
    };
    let end = Expiry::At(1_800_000_000_000);
    for value in [&b"12345"[..], b"text", &[7; 400], &[8; 100_000]] {
        for expiry in [Expiry::None, end] {
            for new in [&b"67890"[..], b"TEXT", &[9; 400], &[9; 70_000]] {
                check(value, expiry, &|world| {
                    let key = world.shard.key(0, 63, b"h");
                    world.commit(Effect::Set { key, value: NewValue::Bytes(new), expiry: Expiry::Keep });
                });
            }
            check(value, expiry, &|world| {
                commit(world, |key| Effect::SetRange { key, offset: 2, bytes: b"x" })
            });
            check(value, expiry, &|world| commit(world, |key| Effect::Delete { key }));
            for at in [Expiry::None, Expiry::At(1_900_000_000_000)] {
                check(value, expiry, &|world| commit(world, |key| Effect::Expire { key, at }));
            }
        }
        check(value, end, &|world| commit(world, |key| Effect::Mark { key, cas: 7, bits: 1 }));
        check(value, end, &|world| {
            let key = world.shard.key(0, 63, b"h");
            world.shard.lapse(&key, 1_800_000_000_000);
        });
        check(value, end, &|world| {
            world.shard.tend(1_800_000_000_000, &mut Budget::new(99, 1 << 20), &|_, _| false);
        });
        check(value, Expiry::None, &|world| {
            let mut budget = Budget::new(99, 1 << 20);
            world.shard.evict(Policy::AllKeysLru, Some(0), 0, &mut || 0, &mut budget, &|_, _| false);
        });
    }
}

/// What is refused has not changed, and is delivered once all the same. A use, and what lies beside Redis' databases, leave no image.
#[test]
fn what_changes_nothing_is_no_loss() {
    let mut world = World::new(5, 1, 1 << 20);
    let name = |number: u32| format!("h{number}").into_bytes();
    let mut count = 0;
    loop {
        let bytes = name(count);
        let key = world.shard.key(0, 63, &bytes);
        let value = NewValue::Bytes(&[7; 9_000]);
        if world.shard.commit(Effect::Set { key, value, expiry: Expiry::None }).is_err() {
            break;
        }
        count += 1;
    }
    let beginning = begin(&mut world);
    let bytes = name(0);
    let key = world.shard.key(0, 63, &bytes);
    let grown = Effect::SetRange { key, offset: 9_000, bytes: &[8; 9_000] };
    assert_eq!(world.shard.commit(grown), Err(Full));
    let mut delivered = Delivered::default();
    delivered.take_images(&mut world);
    for number in 1..count {
        let bytes = name(number);
        let key = world.shard.key(0, 63, &bytes);
        world.shard.read(&key, world.now_ms + 5_000, || 0);
        world.shard.touch(&key, world.now_ms + 9_000, || 0);
    }
    assert_eq!(world.shard.images().count(), 0, "a use is no change");
    delivered.finish(&mut world, &beginning);

    world.commit(Effect::FlushPartition { db: 0, partition: 63 });
    world.drain();
    set(&mut world, BESIDE, b"x", b"before");
    let beginning = begin(&mut world);
    assert_eq!(beginning.len(), 0);
    set(&mut world, BESIDE, b"x", b"after");
    delete(&mut world, BESIDE, b"x");
    Delivered::default().finish(&mut world, &beginning);
}

/// A step visits a bucket and no more than its budget allows beyond it. Bytes count too: those that it shows, and those that
/// effects have copied into images since the last one.
#[test]
fn a_walk_is_paced() {
    const BUCKET_COUNT: usize = 12;
    let mut world = World::new(7, 1, REGION);
    let count = if cfg!(miri) { 100 } else { 2_000 };
    for number in 0..count {
        set(&mut world, 0, format!("h{number}").as_bytes(), &[1; 1_000]);
    }
    let beginning = begin(&mut world);
    let mut delivered = Delivered::default();
    let mut more = true;
    while more {
        let bytes_wanted = world.random.below(2) == 0;
        let budget = if bytes_wanted { Budget::new(1 << 20, 20_000) } else { Budget::new(20, 1 << 20) };
        let before = delivered.walked;
        more = delivered.walk(&mut world, budget);
        let shown = delivered.walked - before;
        assert!(shown < 20 + BUCKET_COUNT, "{shown} keys in a step");
        if more && world.random.below(20) == 0 {
            let number = world.random.below(count);
            delete(&mut world, 0, format!("h{number}").as_bytes());
        }
    }
    delivered.finish(&mut world, &beginning);

    begin(&mut world);
    let mut imaged = 0;
    for number in 0..count {
        delete(&mut world, 0, format!("h{number}").as_bytes());
    }
    while world.shard.images().next().is_some() {
        imaged += 1;
    }
    let mut budget = Budget::new(1 << 20, 1 << 30);
    world.shard.walk_snapshot(&mut budget, &mut |_, _| panic!("all are gone"));
    assert!((1 << 30) - budget.bytes >= 1_000 * imaged, "{imaged} images were copied");
}

#[test]
#[should_panic(expected = "when the walk of the one before is over")]
fn a_snapshot_begins_when_the_walk_before_is_over() {
    let mut world = World::new(1, 1, 1 << 20);
    world.shard.begin_snapshot();
    world.shard.abandon_snapshot();
    world.shard.begin_snapshot();
}

#[test]
#[should_panic(expected = "when the images of the one before are taken")]
fn a_snapshot_begins_when_the_images_before_are_taken() {
    let mut world = World::new(1, 1, 1 << 20);
    set(&mut world, 0, b"h", b"v");
    world.shard.begin_snapshot();
    delete(&mut world, 0, b"h");
    while world.shard.walk_snapshot(&mut Budget::new(9, 9), &mut |_, _| {}) {}
    world.shard.begin_snapshot();
}
