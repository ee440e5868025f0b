//! So many GETs or SETs through a lane over memory, sixteen at a time, so that callgrind can count instructions: the
//! difference of two runs, divided by the difference of their counts, is the cost of one. `bench/instructions.py` does that.
//!
//! `instructions get|set COUNT`

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use sim::World;

const DEPTH: usize = 16;
const KEYS: usize = 1000;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(kind), Some(count)) = (args.next(), args.next()) else {
        println!("usage: instructions get|set COUNT");
        return;
    };
    let count: usize = count.parse().expect("COUNT is a number");
    let value = [b'v'; 100];
    let mut world = World::quiet(1);
    let mut client = world.connect(0);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key:{number:012}")).collect();
    let set: Vec<Vec<u8>> = batches(&keys, |key| vec![b"SET", key, &value]);
    let get: Vec<Vec<u8>> = batches(&keys, |key| vec![b"GET", key]);
    let (batches, size) = if kind == "set" { (&set, 5 * DEPTH) } else { (&get, 108 * DEPTH) };
    for batch in &set {
        assert_eq!(world.exchange(&mut client, batch, 5 * DEPTH, 100).len(), 5 * DEPTH);
    }
    let mut done = 0;
    for batch in batches.iter().cycle().take(count / DEPTH) {
        done += world.exchange(&mut client, batch, size, 100).len();
    }
    assert_eq!(done, count / DEPTH * size, "every command was answered");
    println!("{} commands", count / DEPTH * DEPTH);
}

fn batches<'a>(keys: &'a [String], words: impl Fn(&'a [u8]) -> Vec<&'a [u8]>) -> Vec<Vec<u8>> {
    let chunks = keys.chunks_exact(DEPTH);
    let batch = |keys: &'a [String]| {
        let mut bytes = Vec::new();
        for key in keys {
            wire::client::command(&mut bytes, &words(key.as_bytes()));
        }
        bytes
    };
    chunks.map(batch).collect()
}
