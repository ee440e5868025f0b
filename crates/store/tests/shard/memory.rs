//! Memory: all of it comes back, sparse or full.

use crate::world::{REGION, World, partition_of, read};
use std::collections::BTreeMap;
use store::{Budget, Effect, Expiry, Full, NewValue, RopeBuilder};

/// Up to many buckets in one partition and down to none, as when somebody floods one slot: each step costs the same, and
/// nothing is left.
#[test]
fn growth_and_shrinking_leave_nothing_behind() {
    let count: u32 = if cfg!(miri) { 120 } else { 100_000 };
    let mut world = World::new(1, 1, REGION);
    let name = |number: u32| format!("h{number}").into_bytes();
    let mut most = 0;
    for number in 0..count {
        let bytes = name(number);
        let key = world.shard.key(0, 63, &bytes);
        let outcome =
            world.commit(Effect::Set { key, value: NewValue::Bytes(b"value"), expiry: Expiry::None });
        most = most.max(outcome.elements);
        if number.is_multiple_of(10_000) {
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
        if number.is_multiple_of(10_000) {
            world.shard.audit();
        }
    }
    world.shard.audit();
    let memory = world.shard.memory();
    assert_eq!((memory.keys, memory.entries), (0, 0), "all memory came back");
}

/// A partition of many keys is walked and, once flushed, freed some keys a step.
#[test]
fn walking_and_freeing_are_paced() {
    /// Keys that a step may take beyond its budget: those of a bucket.
    const BUCKET_COUNT: u64 = 12;
    let count: u32 = if cfg!(miri) { 300 } else { 3000 };
    let mut world = World::new(3, 1, REGION);
    for number in 0..count {
        let bytes = format!("h{number}").into_bytes();
        let key = world.shard.key(0, 63, &bytes);
        world.commit(Effect::Set { key, value: NewValue::Bytes(b"value"), expiry: Expiry::None });
    }
    world.drain();
    let (mut cursor, mut seen, mut most) = (0, 0, 0);
    loop {
        let before = seen;
        cursor = world.shard.scan(0, cursor, 0, &mut Budget::new(20, u32::MAX), &mut |_, _| seen += 1);
        most = most.max(seen - before);
        if cursor == 0 {
            break;
        }
    }
    assert!(seen == u64::from(count) && most <= 20 + BUCKET_COUNT, "{most} of {seen} keys in a step");

    world.commit(Effect::FlushPartition { db: 0, partition: 63 });
    let mut left = world.shard.memory().entries;
    let entry_size = left.div_ceil(u64::from(count));
    let mut steps = 0;
    while left > 0 {
        world.shard.tend(world.now_ms, &mut Budget::new(40, u32::MAX), &|_, _| false);
        let freed = left - world.shard.memory().entries;
        assert!(freed <= (40 + BUCKET_COUNT) * entry_size, "{freed} bytes in a step");
        (left, steps) = (left - freed, steps + 1);
        assert!(steps < count, "{left} bytes are left after {steps} steps");
    }
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

/// However much there is to gather, a call moves no more than its budget allows, and says that there is more until all is done.
#[test]
#[cfg_attr(miri, ignore = "many keys; the paths run in the other tests")]
fn memory_is_gathered_in_steps() {
    const COUNT: u32 = 50_000;
    const BUDGET: u32 = 40;
    let mut world = World::new(8, 1, REGION);
    let name = |number: u32| format!("h{number}").into_bytes();
    for number in 0..COUNT {
        let bytes = name(number);
        let key = world.shard.key(0, 63, &bytes);
        world.commit(Effect::Set { key, value: NewValue::Bytes(&[9; 40]), expiry: Expiry::None });
    }
    world.drain();
    for number in (0..COUNT).filter(|number| !number.is_multiple_of(10)) {
        let bytes = name(number);
        let key = world.shard.key(0, 63, &bytes);
        world.commit(Effect::Delete { key });
    }
    let places = |world: &World| -> Vec<usize> {
        let place = |number| {
            let bytes = name(number);
            let key = world.shard.key(0, 63, &bytes);
            world.shard.get(&key, 0).expect("what stays is found").key().as_ptr().addr()
        };
        (0..COUNT).step_by(10).map(place).collect()
    };
    let (mut before, mut moved_count, mut steps) = (places(&world), 0, 0);
    let mut more = true;
    while more {
        more = world.shard.tend(world.now_ms, &mut Budget::new(BUDGET, 1 << 20), &|_, _| false).more;
        let after = places(&world);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!(moved <= BUDGET as usize / 2, "{moved} entries in one step");
        (before, moved_count, steps) = (after, moved_count + moved, steps + 1);
    }
    world.shard.audit();
    assert!(moved_count > 2000, "{moved_count} entries in {steps} steps");
}

/// A full region refuses, changes nothing, and serves again when something is deleted.
#[test]
fn a_full_region_refuses_and_recovers() {
    let mut world = World::new(5, 1, 1 << 20);
    let size: u32 = if cfg!(miri) { 9_000 } else { 900 };
    let value = vec![7; size as usize];
    let mut count = 0;
    let name = |number: u32| format!("h{number}").into_bytes();
    loop {
        let bytes = name(count);
        let key = world.shard.key(0, 63, &bytes);
        match world.shard.commit(Effect::Set { key, value: NewValue::Bytes(&value), expiry: Expiry::None }) {
            Ok(_) => count += 1,
            Err(Full) => break,
        }
        assert!(count < (1 << 20) / size, "a region of 1 MiB does not hold that much");
    }
    assert!(count > (700 << 10) / size, "only {count} entries of {size} bytes in 1 MiB");
    world.shard.audit();
    assert_eq!(world.shard.count(0), u64::from(count));
    let first = name(0);
    let key = world.shard.key(0, 63, &first);
    let grown = Effect::SetRange { key, offset: value.len(), bytes: &[8; 5_000] };
    assert_eq!(world.shard.commit(grown), Err(Full));
    assert!(read(world.shard.get(&key, 0).expect("still there").value()) == value);
    let long_name = vec![b'n'; size as usize];
    let long_key = world.shard.key(0, 63, &long_name);
    let mut long = RopeBuilder::new();
    long.push(&[1; 100_000]);
    let refused = Effect::Set { key: long_key, value: NewValue::Rope(long.finish()), expiry: Expiry::None };
    assert_eq!(world.shard.commit(refused), Err(Full));
    assert_eq!(world.shard.memory().retired, 106_496, "what is refused is freed in steps too");
    world.commit(Effect::FlushPartition { db: 0, partition: 63 });
    // What is flushed makes way before it is its turn.
    world.commit(Effect::Set { key, value: NewValue::Bytes(&value), expiry: Expiry::None });
    world.drain();
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"again"), expiry: Expiry::None });
    world.shard.audit();
}

/// Where there is room for an entry, but none for the table, nothing stays of what is refused. Each size has its entries in spans
/// of its own: with room for some of each, the table is what runs out.
#[test]
fn what_is_refused_leaves_nothing_behind() {
    const SIZES: [usize; 6] = [400, 1, 10, 20, 30, 40];
    let mut world = World::new(5, 1, 1 << 20);
    let mut number = 0;
    let mut set = |world: &mut World, size: usize| {
        number += 1;
        let bytes = format!("h{number}").into_bytes();
        let key = world.shard.key(0, 63, &bytes);
        let value = vec![b'v'; size];
        world.shard.commit(Effect::Set { key, value: NewValue::Bytes(&value), expiry: Expiry::None }).is_ok()
    };
    assert!(SIZES.into_iter().all(|size| set(&mut world, size)));
    let mut table_was_full = false;
    for size in SIZES {
        let mut refused_count = 0;
        while refused_count < 200 {
            let is_taken = set(&mut world, size);
            refused_count += u32::from(!is_taken);
            // Where the table has a place left, there is room for an entry.
            table_was_full |= is_taken && refused_count > 0;
        }
    }
    assert!(table_was_full, "entries alone have run out of room");
    world.shard.audit();
    world.commit(Effect::FlushPartition { db: 0, partition: 63 });
    world.drain();
    let memory = world.shard.memory();
    assert_eq!((memory.keys, memory.entries), (0, 0));
}
