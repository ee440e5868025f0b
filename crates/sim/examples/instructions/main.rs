//! So many GETs, SETs, INCRs or EVALs through a lane over memory, sixteen at a time, of one client, of as many (`single-get`), or of twice as many of which
//! each sends sixteen (`eval`), so that callgrind can count instructions: the difference of two runs, divided by the difference of their counts, is the cost of
//! one. `bench/instructions.py` does that.
//!
//! `instructions [memcached-|memcached-binary-|aerospike-]get|set|single-get|incr|eval COUNT`, or what [`forward`] says.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod forward;

use lane::{Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::{Client, World};
use wire::aerospike::client::{Message, put_op};
use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::{kind, particle};
use wire::memcached::{Framing, client};

const DEPTH: usize = 16;
/// Clients that send as many at once: more scripts than begin in a turn.
const CROWD: usize = 32;
const KEYS: usize = 1000;
const VALUE: [u8; 100] = [b'v'; 100];

/// Where counters begin: however often a run counts on, its replies stay as long.
const COUNTER: &[u8] = b"1000000000";

/// Requests of a dialect, and how long each reply is.
struct Speech {
    dialect: Dialect,
    set: fn(&mut Vec<u8>, &[u8]),
    set_reply_size: usize,
    get: fn(&mut Vec<u8>, &[u8]),
    get_reply_size: usize,
}

const REDIS: Speech = Speech {
    dialect: Dialect::Redis,
    set: |out, key| wire::client::command(out, &[b"SET", key, &VALUE]),
    set_reply_size: "+OK\r\n".len(),
    get: |out, key| wire::client::command(out, &[b"GET", key]),
    get_reply_size: "$100\r\n\r\n".len() + VALUE.len(),
};
/// INCR in the place of GET.
const COUNTING: Speech = Speech {
    set: |out, key| wire::client::command(out, &[b"SET", key, COUNTER]),
    get: |out, key| wire::client::command(out, &[b"INCR", key]),
    get_reply_size: ":\r\n".len() + COUNTER.len(),
    ..REDIS
};
/// A script that looks, in the place of GET.
const SCRIPTS: Speech = Speech {
    get: |out, key| {
        wire::client::command(out, &[b"EVAL", b"return redis.call('GET', KEYS[1])", b"1", key]);
    },
    ..REDIS
};
const TEXT: Speech = Speech {
    dialect: Dialect::Memcached,
    set: |out, key| client::set(out, Framing::Text, key, 0, &VALUE, 0),
    set_reply_size: "STORED\r\n".len(),
    get: |out, key| client::get(out, Framing::Text, key, 0),
    get_reply_size: "VALUE key:000000000000 0 100\r\n\r\nEND\r\n".len() + VALUE.len(),
};
const BINARY: Speech = Speech {
    dialect: Dialect::Memcached,
    set: |out, key| client::set(out, Framing::Binary, key, 0, &VALUE, 0),
    set_reply_size: 24,
    get: |out, key| client::get(out, Framing::Binary, key, 0),
    get_reply_size: 24 + 4 + VALUE.len(),
};

const AEROSPIKE: Speech = Speech {
    dialect: Dialect::Aerospike,
    set: |out, key| {
        let mut ops = Vec::new();
        put_op(&mut ops, kind::WRITE, particle::STRING, b"b", &VALUE);
        let (ops, digest) = ((1, &ops[..]), digest(key));
        Message { info2: info2::WRITE, ops, ..record(&digest) }.put(out);
    },
    set_reply_size: 30,
    get: |out, key| {
        let digest = digest(key);
        Message { info1: info1::READ | info1::GET_ALL, ..record(&digest) }.put(out);
    },
    get_reply_size: 30 + 8 + 1 + VALUE.len(),
};

fn record(digest: &[u8; 20]) -> Message<'_> {
    Message {
        namespace: b"test",
        set: b"testset",
        digest: Some(digest),
        timeout_ms: 1000,
        ..Message::default()
    }
}

/// Of a key that begins with what tells it apart; no server looks at how a digest was made.
fn digest(key: &[u8]) -> [u8; 20] {
    let mut digest = [0; 20];
    let size = key.len().min(20);
    digest[..size].copy_from_slice(&key[key.len() - size..]);
    digest.reverse();
    digest
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if forward::main(&words) {
        return;
    }
    let [kind, count] = words.as_slice() else {
        println!(
            "usage: instructions [memcached-|memcached-binary-|aerospike-]get|set|single-get|incr|eval COUNT\n       \
             instructions direct|forwarded|forward ROUNDS"
        );
        return;
    };
    let count: usize = count.parse().expect("COUNT is a number");
    let (speech, operation) = match kind.rsplit_once('-') {
        Some(("memcached", operation)) => (TEXT, operation),
        Some(("aerospike", operation)) => (AEROSPIKE, operation),
        Some(("single", _)) => (REDIS, "single"),
        Some((_, operation)) => (BINARY, operation),
        None if kind == "incr" => (COUNTING, "get"),
        None if kind == "eval" => (SCRIPTS, "crowd"),
        None => (REDIS, kind.as_str()),
    };
    let doors = vec![Door { port: Port::Shared, dialect: speech.dialect }];
    let mut world = World::new(1, &Settings { doors, ..Settings::default() }, 1, Faults::default());
    let mut client = world.connect(0);
    let set = batches(speech.set);
    let get = batches(speech.get);
    let (batches, size) = match operation {
        "set" => (&set, speech.set_reply_size * DEPTH),
        _ => (&get, speech.get_reply_size * DEPTH),
    };
    let set_size = speech.set_reply_size * DEPTH;
    for batch in &set {
        assert_eq!(world.exchange(&mut client, batch, set_size, 100).len(), set_size);
    }
    let batches = batches.iter().cycle().take(count / DEPTH);
    let done: usize = match operation {
        "single" => singly(&mut world, batches, speech.get_reply_size),
        "crowd" => crowded(&mut world, batches, size),
        _ => batches.map(|batch| world.exchange(&mut client, batch, size, 100).len()).sum(),
    };
    assert_eq!(done, count / DEPTH * size, "every command was answered");
    println!("{} commands", count / DEPTH * DEPTH);
}

/// A batch's requests each by a client of its own, which waits for its reply. Says how many bytes came back.
fn singly<'a>(world: &mut World, batches: impl Iterator<Item = &'a Vec<u8>>, size: usize) -> usize {
    let mut clients: Vec<_> = (0..DEPTH).map(|_| world.connect(0)).collect();
    let mut done = 0;
    for batch in batches {
        for (client, request) in clients.iter_mut().zip(batch.chunks_exact(batch.len() / DEPTH)) {
            client.send(request);
            client.pump();
        }
        for _ in 0..100 {
            world.round();
            clients.iter_mut().for_each(Client::pump);
            if clients.iter().all(|client| client.received.len() == size) {
                break;
            }
        }
        for client in &mut clients {
            done += client.received.len();
            client.received.clear();
        }
    }
    done
}

/// As many batches at a time as there are clients, one of each; the control compiles scripts. Says how many bytes came back.
fn crowded<'a>(world: &mut World, batches: impl Iterator<Item = &'a Vec<u8>>, size: usize) -> usize {
    world.attend();
    let mut clients: Vec<_> = (0..CROWD).map(|_| world.connect(0)).collect();
    let batches: Vec<_> = batches.collect();
    let mut done = 0;
    for batches in batches.chunks(CROWD) {
        let asking = &mut clients[..batches.len()];
        asking.iter_mut().zip(batches).for_each(|(client, batch)| client.send(batch));
        for _ in 0..1000 {
            asking.iter_mut().for_each(Client::pump);
            world.round();
            if asking.iter().all(|client| client.received.len() == size) {
                break;
            }
        }
        done += asking.iter_mut().map(|client| std::mem::take(&mut client.received).len()).sum::<usize>();
    }
    done
}

/// Requests of all keys, [`DEPTH`] at a time.
fn batches(put: fn(&mut Vec<u8>, &[u8])) -> Vec<Vec<u8>> {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key:{number:012}")).collect();
    let batch = |keys: &[String]| {
        let mut bytes = Vec::new();
        keys.iter().for_each(|key| put(&mut bytes, key.as_bytes()));
        bytes
    };
    keys.chunks_exact(DEPTH).map(batch).collect()
}
