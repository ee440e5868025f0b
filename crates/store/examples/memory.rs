//! Bytes of resident memory for each key: `memory [lanes] [count …]`.
//!
//! Fills `lanes` shards (one by default, 16,384 partitions between them) with 16-byte keys and 32-byte values, once
//! without and once with a time to live, and prints how much the process grew, for 1.0 to 2.0 million keys in steps of
//! 100,000 and for 10 million, or for the counts given. Each measurement is a process of its own.
//!
//! `memory churn [COUNT]` sets all values anew with 100 bytes and then with 32 again, out of order, and prints what the
//! region holds after each, empty spans that are released for `madvise` not counted.
#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::process::Command;
use store::{Budget, Config, Effect, Expiry, NewValue, Recency, Region, Shard};

const PARTITIONS: u16 = 16_384;

fn partition_of(_db: u16, key: &[u8]) -> u16 {
    // Any even spread will do: FNV-1a in place of CRC16.
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u16::try_from((hash ^ hash >> 16) % u32::from(PARTITIONS)).expect("below 16,384")
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a page count");
    pages * 4096
}

fn key(number: u64) -> [u8; 16] {
    let mut bytes = *b"key:000000000000";
    for digit in 0..12 {
        bytes[15 - digit] =
            b'0' + u8::try_from(number / 10_u64.pow(u32::try_from(digit).unwrap_or(0)) % 10).unwrap_or(0);
    }
    bytes
}

/// The numbers below `count` in an order far from their own, another one for each round.
fn shuffled(count: u64, round: u64) -> impl Iterator<Item = u64> {
    // A Weyl sequence over the next power of two is a permutation; numbers that are too large are left out.
    let power = count.next_power_of_two();
    let stride = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * round + 1);
    (0..power).map(move |number| number.wrapping_mul(stride) % power).filter(move |&number| number < count)
}

fn fill(shards: &mut [Shard], count: u64, round: u64, size: usize, ttl: bool) {
    let expiry = if ttl { Expiry::At(1_900_000_000_000) } else { Expiry::None };
    let value = [b'v'; 256];
    let lanes = shards.len();
    for (step, number) in (0..count).zip(shuffled(count, round)) {
        let bytes = key(number);
        let partition = partition_of(0, &bytes);
        let shard = &mut shards[usize::from(partition) * lanes / usize::from(PARTITIONS)];
        let key = shard.key(0, partition, &bytes);
        let effect = Effect::Set { key, value: NewValue::Bytes(&value[..size]), expiry };
        shard.commit(effect).expect("the region is large enough");
        if step.is_multiple_of(64) {
            shard.tend(1_700_000_000_000, &mut Budget::new(256, 64 << 10), &|_, _| false);
        }
    }
}

const CONFIG: Config = Config {
    partitions: PARTITIONS,
    databases: 16,
    seed: [1, 2],
    partition_of,
    beside: &[],
    recency: Recency::Lru,
};

fn measure(lanes: usize, count: u64, ttl: bool) {
    let mut shards: Vec<Shard> = (0..lanes).map(|_| Shard::new(CONFIG, Region::new(4 << 30))).collect();
    let before = resident();
    fill(&mut shards, count, 0, 32, ttl);
    let after = resident();
    let of = |bytes: u64| bytes as f64 / count as f64;
    let used: u64 = shards.iter().map(|shard| shard.memory().total()).sum();
    println!(
        "{lanes} lanes, {count:>9} keys, {}: {:.2} bytes of memory a key ({:.2} in objects)",
        if ttl { "with ttl   " } else { "without ttl" },
        of(after - before),
        of(used)
    );
}

fn churn(count: u64) {
    let mut shards = [Shard::new(CONFIG, Region::new(16 << 30))];
    let mut fresh = None;
    for (round, size) in [(0, 32), (1, 100), (2, 32)] {
        fill(&mut shards, count, round, size, false);
        let [shard] = &mut shards;
        while shard.tend(1_700_000_000_000, &mut Budget::new(4_096, 1 << 20), &|_, _| false).more {}
        let lent: Vec<_> = std::iter::from_fn(|| shard.released()).collect();
        let memory = shard.memory();
        let held = memory.resident + memory.heads;
        println!(
            "values of {size:>3} bytes: {:.2} bytes held a key, {:.3} times the fresh figure",
            held as f64 / count as f64,
            held as f64 / *fresh.get_or_insert(held) as f64
        );
        for range in lent {
            shard.reclaim(range);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().expect("numbers, please");
    if let [one, lanes, count, ttl] = &arguments[..]
        && one == "one"
    {
        measure(usize::try_from(number(lanes)).unwrap_or(1), number(count), ttl == "ttl");
        return;
    }
    if arguments.first().is_some_and(|what| what == "churn") {
        return churn(arguments.get(1).map_or(1_000_000, number));
    }
    let lanes = arguments.first().cloned().unwrap_or("1".into());
    let mut counts: Vec<u64> = arguments.iter().skip(1).map(number).collect();
    if counts.is_empty() {
        counts = (10..=20).map(|count| count * 100_000).chain([10_000_000]).collect();
    }
    for ttl in ["", "ttl"] {
        for count in &counts {
            let program = std::env::current_exe().expect("this program");
            Command::new(program)
                .args(["one", &lanes, &count.to_string(), ttl])
                .status()
                .expect("it runs again");
        }
    }
}
