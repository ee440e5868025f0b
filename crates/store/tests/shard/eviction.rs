//! Recency and what it is for.

use crate::world::{REGION, Random, World, partition_of};
use store::{Budget, Change, Effect, Evicted, Expiry, NewValue, Policy, Recency, RopeBuilder, What};

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
    world.shard.touch(&key, now_ms, || 0);
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
        world.shard.touch(&key, now_ms, || draw);
    }
    let often = frequency(&world);
    assert!((10..30).contains(&often), "a thousand uses are about eighteen steps, not {often}");
    tick(&mut world, 60 * 4);
    assert_eq!(frequency(&world), often - 4, "a minute lowers it by one");
}

/// Makes 2,000 keys of which each policy finds half the better victims, evicts down to half, and counts how many of the
/// better half stayed.
fn evicted_wrongly(policy: Policy) -> usize {
    let count: u32 = 2_000;
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
            world.shard.touch(&key, now_ms, || draw);
        }
    }
    world.shard.listen(true);
    let heads = world.shard.memory().heads;
    let target = heads + (world.shard.held() - heads) / 2;
    let mut random = Random(5);
    let mut slices = 0;
    loop {
        let mut budget = Budget::new(100, 1 << 20);
        match world.shard.evict(policy, None, target, &mut || random.next(), &mut budget, &|_, _| false) {
            Evicted::More => slices += 1,
            Evicted::Enough => break,
            Evicted::Held | Evicted::Nothing => panic!("there is enough to evict"),
        }
    }
    assert!(slices > 2, "eviction stops when its budget is spent");
    world.shard.audit();
    assert!(world.shard.held() <= target && world.shard.held() > target * 9 / 10, "no more goes than has to");
    let gone =
        world.shard.changes().filter(|change| matches!(change, Change::Key { what: What::Evicted, .. }));
    assert_eq!(gone.count() as u64, world.shard.memory().evicted, "listeners hear of evictions");
    (count / 2..count)
        .filter(|&number| {
            let bytes = name(number).into_bytes();
            world.shard.get(&world.shard.key(1, partition_of(1, &bytes), &bytes), now_ms).is_none()
        })
        .count()
}

#[test]
#[cfg_attr(miri, ignore = "statistics of many keys; the paths run in the other tests")]
fn eviction_takes_the_keys_that_its_policy_names() {
    let half = 1_000;
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
            world.shard.evict(policy, None, 0, &mut || random.next(), &mut Budget::new(9_999, 1 << 20), hold);
        assert_eq!(ended, Evicted::Nothing);
        world.shard.audit();
        world.shard.count(0)
    };
    assert_eq!(evict(&mut world, Policy::NoEviction, &|_, _| false), 50);
    assert_eq!(evict(&mut world, Policy::VolatileLru, &|_, _| false), 40);
    assert_eq!(evict(&mut world, Policy::VolatileTtl, &|_, _| false), 40);
    assert_eq!(evict(&mut world, Policy::AllKeysLfu, &|_, _| false), 0);
}

/// Of one database keys go until it holds so much, by whatever policy, and no other loses any.
#[test]
fn eviction_may_be_of_one_database() {
    for policy in Policy::ALL.into_iter().filter(|policy| *policy != Policy::NoEviction) {
        let mut world = World::new(10, 1, REGION);
        for number in 0..300 {
            for db in [0, 1, 2] {
                let bytes = format!("key:{number}").into_bytes();
                let key = world.shard.key(db, partition_of(db, &bytes), &bytes);
                let expiry = Expiry::At(world.now_ms + 1_000_000 + i64::from(number) * 10 + i64::from(db));
                let value = vec![7; if number % 10 == 0 { 5_000 } else { 100 }];
                world.commit(Effect::Set { key, value: NewValue::Bytes(&value), expiry });
            }
        }
        let target = world.shard.held_by(1) / 2;
        assert!(target > 300_000 / 4, "long values count: {target}");
        let mut random = Random(3);
        let mut evict = |world: &mut World, target| {
            let mut budget = Budget::new(u32::MAX, u32::MAX);
            world.shard.evict(policy, Some(1), target, &mut || random.next(), &mut budget, &|_, _| false)
        };
        assert_eq!(evict(&mut world, target), Evicted::Enough, "{policy:?}");
        assert!(world.shard.held_by(1) <= target && world.shard.held_by(1) > target - 6_000, "{policy:?}");
        assert!(world.shard.count(1) > 0);
        assert_eq!(evict(&mut world, 0), Evicted::Enough, "{policy:?}");
        let left = [0, 1, 2].map(|db| world.shard.count(db));
        assert_eq!((left, world.shard.held_by(1)), ([300, 0, 300], 0), "{policy:?}");
        world.shard.audit();
    }
}

/// A few keys of one database that may go, among many that may not, while other databases have some that expire sooner.
#[test]
fn eviction_of_one_database_finds_the_few_that_may_go() {
    for policy in [Policy::VolatileLru, Policy::VolatileLfu, Policy::VolatileRandom, Policy::VolatileTtl] {
        let mut world = World::new(10, 1, REGION);
        for number in 0..2_000 {
            let bytes = format!("key:{number}").into_bytes();
            let expiry = if number < 3 { Expiry::At(world.now_ms + 2_000_000) } else { Expiry::None };
            let key = world.shard.key(1, partition_of(1, &bytes), &bytes);
            world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry });
            let key = world.shard.key(0, partition_of(0, &bytes), &bytes);
            let expiry = Expiry::At(world.now_ms + 1_000_000);
            world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry });
        }
        let mut random = Random(4);
        let mut slices = 0;
        let ended = loop {
            let mut budget = Budget::new(500, u32::MAX);
            let draw = &mut || random.next();
            match world.shard.evict(policy, Some(1), 0, draw, &mut budget, &|_, _| false) {
                Evicted::More => slices += 1,
                ended => break ended,
            }
        };
        assert_eq!(ended, Evicted::Nothing, "{policy:?}");
        assert_eq!((world.shard.count(0), world.shard.count(1)), (2_000, 1_997), "{policy:?} after {slices}");
        world.shard.audit();
    }
}

/// What was flushed, and what waits to be freed, is room already: no key goes for it.
#[test]
fn what_is_on_its_way_out_spares_the_others() {
    let evict = |world: &mut World, target| {
        let mut random = Random(3);
        let mut budget = Budget::new(100_000, u32::MAX);
        let policy = Policy::AllKeysLru;
        world.shard.evict(policy, None, target, &mut || random.next(), &mut budget, &|_, _| false)
    };
    let mut world = World::new(10, 1, REGION);
    let set = |world: &mut World, db: u16, name: &str, value: NewValue<'_>| {
        let key = world.shard.key(db, partition_of(db, name.as_bytes()), name.as_bytes());
        world.commit(Effect::Set { key, value, expiry: Expiry::None });
    };
    (0..100).for_each(|number| set(&mut world, 0, &format!("key:{number}"), NewValue::Bytes(&[7; 100])));
    // Its table has its place from then on.
    set(&mut world, 1, "h0", NewValue::Bytes(&[7; 100]));
    let wanted = world.shard.held();
    (1..100).for_each(|number| set(&mut world, 1, &format!("h{number}"), NewValue::Bytes(&[7; 100])));
    world.commit(Effect::FlushPartition { db: 1, partition: 63 });
    assert!(world.shard.held() > wanted + 10_000, "flushed is not freed");
    let slack = 1024;
    assert_eq!((evict(&mut world, wanted + slack), world.shard.count(0)), (Evicted::Enough, 100));

    let held = world.shard.held();
    let mut builder = RopeBuilder::new();
    builder.push(&[7; 500_000]);
    set(&mut world, 0, "long", NewValue::Rope(builder.finish()));
    let key = world.shard.key(0, partition_of(0, b"long"), b"long");
    world.commit(Effect::Delete { key });
    assert!(world.shard.held() > held + 400_000, "deleted is not freed");
    assert_eq!((evict(&mut world, held + slack), world.shard.count(0)), (Evicted::Enough, 100));
}

/// One key in fifty is not held: it is found, sooner or later, whatever the samples hold. When none is left, looking ends with
/// the budget, and says why.
#[test]
fn eviction_looks_past_held_keys() {
    for policy in [Policy::AllKeysLru, Policy::AllKeysRandom, Policy::VolatileLru, Policy::VolatileTtl] {
        let mut world = World::new(10, 1, REGION);
        let mut free = Vec::new();
        for number in 0..1000 {
            let bytes = format!("key:{number}").into_bytes();
            let key = world.shard.key(0, partition_of(0, &bytes), &bytes);
            let expiry = Expiry::At(world.now_ms + 1_000_000 + i64::from(number));
            world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry });
            if number % 50 == 49 {
                free.push(key.hash);
            }
        }
        let mut random = Random(3);
        let (mut slices, mut vain_slices) = (0, 0);
        while vain_slices < 100 {
            let mut budget = Budget::new(64, 1 << 20);
            let hold = |_: u16, hash: u64| !free.contains(&hash);
            match world.shard.evict(policy, None, 0, &mut || random.next(), &mut budget, &hold) {
                Evicted::More => vain_slices = 0,
                Evicted::Held => vain_slices += 1,
                other => panic!("{other:?}, although keys are left"),
            }
            slices += 1;
        }
        world.shard.audit();
        assert_eq!(world.shard.count(0), 1000 - free.len() as u64, "{policy:?} after {slices} slices");
    }
}
