//! Does a number of GETs or SETs, or the housekeeping of idle turns, for counting instructions:
//! `getset get|set|tend|fill COUNT [KEYS]`.
//!
//! The difference between two counts, divided by the difference of the counts, is the cost of one:
//! `valgrind --tool=callgrind getset get 200000` and `… get 100000`. Keys are 16 bytes, values 100.
#![allow(clippy::print_stdout, reason = "a program that prints")]

use store::{Budget, Config, Effect, Expiry, NewValue, Recency, Region, Shard, Value};

const PARTITIONS: u16 = 16_384;

fn partition_of(_db: u16, key: &[u8]) -> u16 {
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u16::try_from((hash ^ hash >> 16) % u32::from(PARTITIONS)).expect("below 16,384")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let what = arguments.first().map_or("get", String::as_str);
    let number = |index: usize, default: u64| {
        arguments.get(index).map_or(default, |text| text.parse().expect("counts are numbers"))
    };
    let (count, key_count) = (number(1, 100_000), number(2, 10_000));
    let config = Config {
        partitions: PARTITIONS,
        databases: 16,
        seed: [1, 2],
        partition_of,
        beside: &[],
        recency: Recency::Lru,
    };
    let mut shard = Shard::new(config, Region::new(8 << 30));
    let value = [b'v'; 100];
    let keys: Vec<([u8; 16], u16)> = (0..key_count)
        .map(|number| {
            let bytes = *format!("key:{number:0>12}").as_bytes().first_chunk().expect("16 bytes");
            (bytes, partition_of(0, &bytes))
        })
        .collect();
    for (bytes, partition) in &keys {
        let key = shard.key(0, *partition, bytes);
        shard
            .commit(Effect::Set { key, value: NewValue::Bytes(&value), expiry: Expiry::None })
            .expect("room");
    }
    let mut sum = 0;
    let mut at = 0;
    for number in 0..count {
        // A stride that is no divisor of the count of keys visits them all, out of order.
        at = (at + 7_919) % keys.len();
        let (bytes, partition) = &keys[at];
        let key = shard.key(0, *partition, bytes);
        match what {
            "get" => {
                if let Some(Value::Bytes(bytes)) =
                    shard.read(&key, 1_000, || number).map(|entry| entry.value())
                {
                    sum += bytes.len();
                }
            }
            "set" => {
                let effect = Effect::Set { key, value: NewValue::Bytes(&value), expiry: Expiry::None };
                sum += usize::from(shard.commit(effect).expect("room").existed);
            }
            "tend" => {
                shard.tend(1_000, &mut Budget::new(64, 16 << 10), &|_, _| false);
            }
            _ => {}
        }
    }
    shard.tend(1_000, &mut Budget::new(1, 1), &|_, _| false);
    println!("{sum}");
}
