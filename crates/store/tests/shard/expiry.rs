//! Ends of keys: order, punctuality, and what stands in the way.

use crate::world::{BESIDE, REGION, Random, World, partition_of};
use std::collections::BTreeMap;
use store::{Budget, Change, Effect, Expiry, NewValue, Policy, What};

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
            let Change::Key { hash, what: What::Expired, .. } = change else { panic!("{change:?}") };
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

/// Keys of databases of which somebody else says when they go stay, and hold nothing up; the others expire. From then on that nobody says
/// so any more they go, too.
#[test]
fn kept_keys_wait_to_be_deleted() {
    let mut world = World::new(5, 1, 8 << 20);
    world.drain();
    let at = world.now_ms + 5;
    for db in [0, 1, 2] {
        for bytes in [&b"h1"[..], b"h2"] {
            let key = world.shard.key(db, 63, bytes);
            world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: Expiry::At(at) });
        }
    }
    world.shard.keep_before(2);
    let mut budget = Budget::new(100, 1 << 20);
    let tended = world.shard.tend(at, &mut budget, &|_, _| false);
    assert_eq!([0, 1, 2].map(|db| world.shard.count(db)), [2, 2, 0]);
    let next_at = tended.next_at.expect("they are looked at again");
    assert!(!tended.more && next_at > at + 1000, "but not soon");
    let key = world.shard.key(0, 63, b"h1");
    assert!(world.shard.get(&key, at).is_none() && world.shard.get(&key, 0).is_some());
    let deleted = world.commit(Effect::Delete { key });
    assert!(deleted.existed);
    world.shard.keep_before(0);
    world.shard.tend(next_at + 10_000, &mut Budget::new(100, 1 << 20), &|_, _| false);
    assert_eq!([0, 1].map(|db| world.shard.count(db)), [0, 0]);
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

/// A slot that was emptied while it was dealt out is done with: what comes to stand there a lap later is not due before.
#[test]
fn a_slot_emptied_half_way_is_no_longer_dealt_out() {
    let mut world = World::new(17, 1, 8 << 20);
    // A lap of the wheel's second level, whose slots are 64 ms long, begins.
    let start = (world.now_ms / 4096 + 1) * 4096;
    let tend = |world: &mut World, at: i64, elements: u32| {
        world.shard.tend(at, &mut Budget::new(elements, 1 << 20), &|_, _| false)
    };
    tend(&mut world, start, 99);
    let key = world.shard.key(0, 63, b"h");
    let end = Expiry::At(start + 100);
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: end });
    // One step: the slot's time has come, and its key is still to be dealt.
    tend(&mut world, start + 64, 1);
    world.commit(Effect::Delete { key });
    tend(&mut world, start + 70, 99);
    tend(&mut world, start + 4100, 99);
    let end = Expiry::At(start + 4165);
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: end });
    let tended = tend(&mut world, start + 4101, 99);
    assert_eq!((tended.more, tended.next_at), (false, Some(start + 4160)));
}

/// With the clock set back, ends are still kept to the millisecond as far as a reader can see.
#[test]
fn a_clock_set_back_delays_only_the_memory() {
    let mut world = World::new(13, 1, 8 << 20);
    world.drain();
    let ahead = world.now_ms;
    let now_ms = ahead - 60_000;
    let key = world.shard.key(0, 63, b"h");
    let at = now_ms + 10;
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry: Expiry::At(at) });
    let past = world.shard.key(0, 63, b"h-past");
    world.commit(Effect::Set { key: past, value: NewValue::Bytes(b"v"), expiry: Expiry::At(-5) });
    for now_ms in [now_ms, at - 1, at, ahead - 1] {
        world.shard.tend(now_ms, &mut Budget::new(99, 99_999), &|_, _| false);
        assert_eq!(world.shard.get(&key, now_ms).is_some(), now_ms < at);
        assert!(world.shard.get(&past, now_ms).is_none());
        world.shard.audit();
    }
    world.shard.tend(ahead, &mut Budget::new(99, 99_999), &|_, _| false);
    assert_eq!(world.shard.count(0), 0);
}

/// Keys that went without a command are told in order, while somebody follows, and no others.
#[test]
fn keys_that_went_without_a_command_are_told() {
    let mut world = World::new(3, 1, REGION);
    world.drain();
    let first = world.now_ms;
    let fill = |world: &mut World, start: i64| {
        for number in 0..50 {
            for db in [0, 2, BESIDE] {
                let bytes = format!("h{number}").into_bytes();
                let key = world.shard.key(db, partition_of(db, &bytes), &bytes);
                let expiry = Expiry::At(start + 1 + i64::from(number * 7 % 50) * 4 + i64::from(db));
                world.commit(Effect::Set { key, value: NewValue::Bytes(b"v"), expiry });
            }
        }
    };
    let told = |world: &mut World| -> Vec<(u16, Vec<u8>)> {
        world.shard.gone().map(|gone| (gone.db, gone.key.into_vec())).collect()
    };
    fill(&mut world, first);
    world.shard.tend(first + 20, &mut Budget::new(999, 1 << 20), &|_, _| false);
    assert!(world.shard.memory().expired > 9 && told(&mut world).is_empty(), "nobody followed");
    world.shard.follow(true);
    let start = first + 1_000;
    fill(&mut world, start);
    let key = world.shard.key(2, 63, b"h1");
    world.commit(Effect::Delete { key });
    world.commit(Effect::SwapDatabases { a: 0, b: 1 });
    let lapsing = world.shard.key(1, 63, b"h49");
    assert!(world.shard.lapse(&lapsing, start + 300));
    for at in 0..=120 {
        world.shard.tend(start + at, &mut Budget::new(999, 1 << 20), &|_, _| false);
        // It is on already, and what is on record stays.
        world.shard.follow(true);
    }
    let mut want = vec![(1, b"h49".to_vec())];
    for at in 1..=120 {
        for (db, place) in [(1, 0), (2, 2)] {
            let number = (0..50).find(|number| 1 + number * 7 % 50 * 4 + place == at);
            let name = number.map(|number| format!("h{number}").into_bytes());
            want.extend(
                name.map(|name| (db, name))
                    .filter(|gone| ![(1, b"h49".to_vec()), (2, b"h1".to_vec())].contains(gone)),
            );
        }
    }
    assert_eq!(told(&mut world), want);
    assert!(told(&mut world).is_empty(), "nothing is told twice");

    let mut random = Random(1);
    for db in [2, BESIDE] {
        let before = world.shard.count(db);
        let mut budget = Budget::new(9_999, 1 << 20);
        world
            .shard
            .evict(Policy::AllKeysRandom, Some(db), 0, &mut || random.next(), &mut budget, &|_, _| false);
        let evicted = before - world.shard.count(db);
        assert!(evicted > 10);
        let told = told(&mut world);
        assert_eq!(told.len() as u64, if db == BESIDE { 0 } else { evicted });
        assert!(told.iter().all(|(told, _)| *told == db));
    }
    let lapsing = world.shard.key(1, 63, b"h14");
    assert!(world.shard.lapse(&lapsing, start + 300));
    world.shard.follow(false);
    world.shard.follow(true);
    assert!(told(&mut world).is_empty(), "what was on record is forgotten");
}
