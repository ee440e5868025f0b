//! What wire adds to a request: decoding, look-up, slot, reply. `cargo bench -p wire` prints nanoseconds; without
//! `--bench` (as `cargo test --benches` calls it) everything runs once, so that it cannot rot.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that measures and prints")]

use std::hint::black_box;
use std::time::Instant;

use wire::command::{lookup, resolve};
use wire::memcached::Framing;
use wire::route::{PartitionMap, Slot};
use wire::{ArgRanges, Decoder, Limits, Step, client, memcached, reply};

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 200 } else { 1 };
    let key = b"key:0000001234567";
    let mut get = Vec::new();
    let mut set = Vec::new();
    for _ in 0..16 {
        client::command(&mut get, &[b"GET", key]);
        client::command(&mut set, &[b"SET", key, &[b'x'; 100]]);
    }
    let ten = [&key[..]; 10];
    let mut mget = Vec::new();
    client::command(&mut mget, &[&[&b"MGET"[..]], &ten[..]].concat());
    let map = PartitionMap::even(4);
    let mut out = Vec::with_capacity(1 << 16);

    measure("decode 16 GET", rounds, 16, || decode(&get, &mut |_| {}));
    measure("decode 16 SET of 100 B", rounds, 16, || decode(&set, &mut |_| {}));
    measure("decode MGET of 10", rounds, 1, || decode(&mget, &mut |_| {}));
    for (what, framing) in [
        ("decode 16 get of text", Framing::Text),
        ("decode 16 mg", Framing::Meta),
        ("decode 16 GET of binary", Framing::Binary),
    ] {
        let mut input = Vec::new();
        (0..16).for_each(|opaque| memcached::client::get(&mut input, framing, key, opaque));
        measure(what, rounds, 16, || decode_memcached(framing, &input));
        input.clear();
        (0..16).for_each(|opaque| memcached::client::set(&mut input, framing, key, 0, &[b'x'; 100], opaque));
        measure("  set of 100 B", rounds, 16, || decode_memcached(framing, &input));
    }
    let head = memcached::Head { bits: memcached::Bits::ENDS, ..memcached::Head::default() };
    let item = memcached::Item { size: 100, ..memcached::Item::default() };
    measure("VALUE reply of 100 B", rounds, 1, || {
        out.clear();
        memcached::reply::put_value_header(&mut out, black_box(&head), key, b"", black_box(&item));
        out.extend_from_slice(black_box(&[b'x'; 100]));
        memcached::reply::put_value_end(&mut out, &head);
    });
    measure("look up GET", rounds, 1, || {
        black_box(lookup(black_box(b"GET")));
    });
    measure("look up pexpiretime", rounds, 1, || {
        black_box(lookup(black_box(b"PEXPIRETIME")));
    });
    measure("slot of 17 bytes", rounds, 1, || {
        black_box(Slot::of(black_box(key)));
    });
    measure("bulk reply of 100 B", rounds, 1, || {
        out.clear();
        reply::bulk(&mut out, black_box(&[b'x'; 100]));
    });
    measure("all of 16 GET", rounds, 16, || {
        out.clear();
        decode(&get, &mut |args| {
            let command = resolve(&args).expect("GET is a command");
            black_box(map.owner_of(args.get(usize::from(command.keys.first))));
            reply::bulk(&mut out, black_box(&[b'x'; 100]));
        });
    });
}

fn decode(input: &[u8], each: &mut impl FnMut(wire::Args<'_>)) {
    let (mut decoder, limits, mut consumed) = (Decoder::new(), Limits::default(), 0);
    thread_local! {
        static ARGS: std::cell::RefCell<ArgRanges> = const { std::cell::RefCell::new(ArgRanges::new()) };
    }
    ARGS.with_borrow_mut(|args| {
        while let Step::Command { size } = decoder.decode(black_box(&input[consumed..]), args, &limits) {
            each(args.view(&input[consumed..]));
            consumed += size;
        }
    });
    assert!(consumed == input.len(), "all of it are commands");
}

fn decode_memcached(framing: Framing, input: &[u8]) {
    let (mut decoder, limits, mut consumed) =
        (memcached::Decoder::new(framing), memcached::Limits::default(), 0);
    let mut args = ArgRanges::new();
    while let Step::Command { size } = decoder.decode(black_box(&input[consumed..]), &mut args, &limits) {
        let view = args.view(&input[consumed..]);
        black_box(memcached::Head::from_bytes(view.get(memcached::HEAD)));
        consumed += size;
    }
    assert!(consumed == input.len(), "all of it are commands");
}

/// The fastest of `rounds` rounds, for each of `count` things done in `run`.
fn measure(what: &str, rounds: u32, count: u32, mut run: impl FnMut()) {
    let loops = if rounds == 1 { 1 } else { 2000 };
    let best = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            (0..loops).for_each(|_| run());
            start.elapsed().as_nanos()
        })
        .min()
        .unwrap_or_default();
    let tenths = best * 10 / u128::from(loops * count);
    println!("{what:24} {:>4}.{} ns", tenths / 10, tenths % 10);
}
