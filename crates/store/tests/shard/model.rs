//! Random programs and scans.

use crate::world::{REGION, World, partition_of};
use std::collections::BTreeSet;
use store::{Budget, Effect, Expiry, NewValue};

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
