//! Random commands to Debian's redis-server 7.0 and to this server, over one lane and over four: the same replies.
//!
//! Needs `redis-server` in the path, so it runs when asked for:
//! `cargo test -p sim differential -- --ignored`

#![allow(clippy::disallowed_methods, reason = "the other server lives in real time")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::check::{Dice, Talk};
use wire::client::Counter;

const PORT: u16 = 7911;
const SEED_COUNT: u64 = 100;
const COMMANDS_PER_SEED: usize = 600;

/// A redis-server of our own, ended with the test.
struct Redis {
    server: Child,
    stream: TcpStream,
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.server.kill().expect("our own child");
        self.server.wait().expect("our own child");
    }
}

impl Redis {
    fn start() -> Redis {
        let port = PORT.to_string();
        let mut server = Command::new("redis-server")
            .args(["--port", &port, "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        for _ in 0..100 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", PORT)) {
                return Redis { server, stream };
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        server.kill().expect("our own child");
        server.wait().expect("our own child");
        panic!("redis-server listens on port {PORT} within five seconds");
    }

    fn call(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, words);
        self.stream.write_all(&bytes).expect("redis takes the command");
        let (mut counter, mut received, mut used) = (Counter::default(), Vec::new(), 0);
        let mut buffer = [0; 65536];
        loop {
            let (outcome, size) = counter.next(&received[used..]).expect("redis speaks RESP");
            used += size;
            if outcome.is_some() {
                return received;
            }
            let count = self.stream.read(&mut buffer).expect("redis answers");
            received.extend_from_slice(&buffer[..count]);
        }
    }
}

/// How two replies are compared.
#[derive(Clone, Copy, Debug)]
enum Compare {
    Bytes,
    /// Numbers that differ by at most so much: the clocks are read at different instants.
    Near(i64),
    /// Arrays in any order.
    Sorted,
    /// Only whether there is something.
    Kind,
}

fn number(reply: &[u8]) -> Option<i64> {
    std::str::from_utf8(reply).ok()?.strip_prefix(':')?.trim_end().parse().ok()
}

fn same(compare: Compare, one: &[u8], other: &[u8]) -> bool {
    match compare {
        Compare::Bytes => one == other,
        Compare::Near(most) => match (number(one), number(other)) {
            (Some(one), Some(other)) if one >= 0 && other >= 0 => (one - other).abs() <= most,
            _ => one == other,
        },
        Compare::Sorted => {
            let sorted = |reply: &[u8]| {
                let mut lines: Vec<Vec<u8>> =
                    reply.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                lines.sort();
                lines
            };
            sorted(one) == sorted(other)
        }
        Compare::Kind => one[0] == other[0] && one.starts_with(b"$-1") == other.starts_with(b"$-1"),
    }
}

const KEYS: [&str; 7] = ["a", "b", "c", "d{a}", "e", "f", "long"];
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "5",
    "10",
    "100",
    "-7",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "abc",
    "",
    "01",
    "+1",
    " 1",
    "1e3",
    "-0",
    "3.0e-2",
    "20000",
    "70000",
    "4611686018427387904",
];
const WORDS: [&str; 14] = [
    "hello",
    "",
    "ohmytext",
    "mynewtext",
    "42",
    "-3",
    "3.25",
    "a b c",
    "x",
    "12345678901234567890",
    "1e400",
    "0.1",
    "nan",
    "inf",
];
const SECONDS: [&str; 9] =
    ["100", "1000", "5000", "0", "-1", "abc", "9223372036854775", "9223372036854775807", "100000"];

/// A random command, and how its replies are compared.
fn command(dice: &mut Dice) -> (Vec<Vec<u8>>, Compare) {
    let key = |dice: &mut Dice| dice.pick(&KEYS).as_bytes().to_vec();
    let value = |dice: &mut Dice| match dice.below(20) {
        0 => vec![b'v'; 100],
        1 => vec![b'w'; 20_000],
        2 => (0..70_000).map(|index| b"0123456789abcdef"[index * 7 % 16]).collect(),
        3 => (0..40_000).map(|index| b"0123456789abcdef"[index * 5 % 16]).collect(),
        _ => dice.pick(&WORDS).as_bytes().to_vec(),
    };
    let number = |dice: &mut Dice| dice.pick(&NUMBERS).as_bytes().to_vec();
    let mut compare = Compare::Bytes;
    let mut out: Vec<Vec<u8>> = Vec::new();
    let mut put = |word: &str| out.push(word.as_bytes().to_vec());
    let name = dice.pick(&[
        "get",
        "set",
        "set",
        "set",
        "setnx",
        "setex",
        "psetex",
        "getset",
        "getdel",
        "getex",
        "append",
        "strlen",
        "getrange",
        "substr",
        "setrange",
        "incr",
        "decr",
        "incrby",
        "decrby",
        "incrbyfloat",
        "mget",
        "mset",
        "msetnx",
        "lcs",
        "setbit",
        "setbit",
        "getbit",
        "bitcount",
        "bitpos",
        "bitop",
        "bitop",
        "bitfield",
        "bitfield",
        "bitfield_ro",
        "del",
        "unlink",
        "exists",
        "touch",
        "rename",
        "renamenx",
        "copy",
        "move",
        "type",
        "expire",
        "pexpire",
        "expireat",
        "pexpireat",
        "ttl",
        "pttl",
        "expiretime",
        "pexpiretime",
        "persist",
        "dbsize",
        "keys",
        "swapdb",
        "randomkey",
        "object",
        "select",
        "flushdb",
        "flushall",
        "scan",
        "multi",
        "exec",
        "discard",
        "watch",
        "unwatch",
    ]);
    put(name);
    match name {
        "get" | "getdel" | "strlen" | "incr" | "decr" | "type" | "persist" => out.push(key(dice)),
        "set" => {
            out.push(key(dice));
            out.push(value(dice));
            for _ in 0..dice.below(4) {
                let option = dice
                    .pick(&["NX", "xx", "GET", "KEEPTTL", "ex", "PX", "EXAT", "PXAT", "bogus", "PERSIST"]);
                out.push(option.as_bytes().to_vec());
                if matches!(option, "ex" | "PX") {
                    let seconds = dice.pick(&["100", "1000", "0", "-5", "x", "9223372036854775807"]);
                    out.push(
                        if option == "PX" { format!("{seconds}000") } else { seconds.to_owned() }
                            .into_bytes(),
                    );
                } else if matches!(option, "EXAT" | "PXAT") {
                    // An instant that has passed leaves a key that Redis counts until somebody looks at it.
                    let instants = ["4102444800000", "4102444801000", "0", "-1", "x"];
                    out.push(dice.pick(&instants).as_bytes().to_vec());
                }
            }
        }
        "setnx" | "getset" | "append" => out.extend([key(dice), value(dice)]),
        "setex" | "psetex" => {
            out.push(key(dice));
            let seconds = dice.pick(&SECONDS);
            out.push(
                if name == "psetex" { format!("{seconds}000") } else { seconds.to_owned() }.into_bytes(),
            );
            out.push(value(dice));
        }
        "getex" => {
            out.push(key(dice));
            for _ in 0..dice.below(3) {
                let option = dice.pick(&["EX", "PX", "EXAT", "PXAT", "PERSIST", "KEEPTTL", "nx"]);
                out.push(option.as_bytes().to_vec());
                if option.len() <= 4 && option != "nx" {
                    out.push(
                        dice.pick(&["100000", "1000000", "0", "-1", "q", "4102444800000"])
                            .as_bytes()
                            .to_vec(),
                    );
                }
            }
        }
        "getrange" | "substr" => out.extend([key(dice), number(dice), number(dice)]),
        "setrange" => {
            let offset = dice.pick(&[
                "0",
                "1",
                "5",
                "-1",
                "100",
                "30000",
                "70000",
                "536870911",
                "536870912",
                "x",
                "4294967296",
            ]);
            // A long string beyond a far offset would be half a gigabyte for redis.
            let far = offset.len() > 6;
            let key = if far { b"far".to_vec() } else { key(dice) };
            out.extend([key, offset.as_bytes().to_vec(), if far { b"".to_vec() } else { value(dice) }]);
        }
        "incrby" | "decrby" => out.extend([key(dice), number(dice)]),
        "incrbyfloat" => {
            let texts = ["1.5", "-2", "0.1", "1e5", "abc", "", " 1", "inf", "nan", "1e4932", "-1e-10", "3"];
            out.extend([key(dice), dice.pick(&texts).as_bytes().to_vec()]);
        }
        "mget" | "del" | "unlink" | "exists" | "touch" => {
            for _ in 0..dice.below(5) {
                out.push(key(dice));
            }
        }
        "mset" | "msetnx" => {
            for _ in 0..dice.below(4) {
                out.extend([key(dice), value(dice)]);
            }
            if dice.below(8) == 0 {
                out.push(key(dice));
            }
        }
        "lcs" => {
            // The table of two long strings is more than this test has time for.
            let keys = ["a", "b", "c", "d{a}", "e", "short1", "short2"];
            out.extend([dice.pick(&keys).as_bytes().to_vec(), dice.pick(&keys).as_bytes().to_vec()]);
            for _ in 0..dice.below(4) {
                let option = dice.pick(&["LEN", "IDX", "IDX", "WITHMATCHLEN", "MINMATCHLEN", "bogus"]);
                out.push(option.as_bytes().to_vec());
                if option == "MINMATCHLEN" && dice.below(8) > 0 {
                    out.push(dice.pick(&["0", "2", "4", "-1", "x"]).as_bytes().to_vec());
                }
            }
        }
        "setbit" | "getbit" => {
            let offset = dice.pick(&["0", "1", "7", "8", "100", "300001", "-1", "#1", "x", "4294967296"]);
            out.extend([key(dice), offset.as_bytes().to_vec()]);
            if name == "setbit" {
                out.push(dice.pick(&["0", "1", "1", "2", "x"]).as_bytes().to_vec());
            }
        }
        "bitcount" | "bitpos" => {
            out.push(key(dice));
            if name == "bitpos" {
                out.push(dice.pick(&["0", "1", "0", "1", "2", "x"]).as_bytes().to_vec());
            }
            for _ in 0..dice.below(3) {
                let places = ["0", "1", "-1", "7", "9", "-9", "100", "-3000", "33000", "300000", "x"];
                out.push(dice.pick(&places).as_bytes().to_vec());
            }
            if dice.below(3) == 0 {
                out.push(dice.pick(&["BIT", "byte", "bogus"]).as_bytes().to_vec());
            }
        }
        "bitop" => {
            out.push(dice.pick(&["AND", "or", "xor", "NOT", "not", "bogus"]).as_bytes().to_vec());
            for _ in 0..2 + dice.below(4) {
                out.push(key(dice));
            }
        }
        "bitfield" | "bitfield_ro" => {
            out.push(key(dice));
            for _ in 0..dice.below(6) {
                let option = dice.pick(&["GET", "get", "SET", "INCRBY", "OVERFLOW", "OVERFLOW", "bogus"]);
                let reads = name == "bitfield_ro" && dice.below(8) > 0;
                let option = if reads { "GET" } else { option };
                out.push(option.as_bytes().to_vec());
                if option == "OVERFLOW" {
                    out.push(dice.pick(&["WRAP", "sat", "FAIL", "sat", "bogus"]).as_bytes().to_vec());
                    continue;
                }
                let kinds = ["u1", "i1", "u8", "i5", "u63", "i64", "i33", "u64", "i65", "8", "u0", "u08"];
                // A kind that is none ends the command; most are.
                let kind = if dice.below(3) > 0 { dice.pick(&kinds[..7]) } else { dice.pick(&kinds) };
                let offsets = ["0", "3", "#1", "#2", "63", "100", "263000", "-1", "x", "#"];
                let offset = if dice.below(3) > 0 { dice.pick(&offsets[..7]) } else { dice.pick(&offsets) };
                out.extend([kind.as_bytes().to_vec(), offset.as_bytes().to_vec()]);
                if option.len() > 3 || option == "SET" {
                    out.push(number(dice));
                }
            }
        }
        "rename" | "renamenx" => out.extend([key(dice), key(dice)]),
        "copy" => {
            out.extend([key(dice), key(dice)]);
            for _ in 0..dice.below(3) {
                let option = dice.pick(&["REPLACE", "DB", "bogus"]);
                out.push(option.as_bytes().to_vec());
                if option == "DB" && dice.below(8) > 0 {
                    out.push(dice.pick(&["0", "1", "15", "16", "-1", "x", "3000000000"]).as_bytes().to_vec());
                }
            }
        }
        "move" => out.extend([
            key(dice),
            dice.pick(&["0", "1", "1", "16", "x", "-1", "3000000000"]).as_bytes().to_vec(),
        ]),
        "swapdb" => {
            for _ in 0..2 {
                out.push(dice.pick(&["0", "1", "1", "0", "16", "x", "-1"]).as_bytes().to_vec());
            }
        }
        "select" => out.push(dice.pick(&["0", "0", "0", "1", "16", "x"]).as_bytes().to_vec()),
        "expire" | "pexpire" | "expireat" | "pexpireat" => {
            out.push(key(dice));
            let seconds = if name.ends_with("at") {
                dice.pick(&["4102444800", "4102444801", "1", "0", "-1", "x", "9223372036854775807"])
            } else {
                dice.pick(&SECONDS)
            };
            out.push(
                if name.starts_with('p') { format!("{seconds}000") } else { seconds.to_owned() }.into_bytes(),
            );
            for _ in 0..dice.below(3) {
                out.push(dice.pick(&["NX", "xx", "GT", "lt", "bogus"]).as_bytes().to_vec());
            }
        }
        "ttl" | "expiretime" => {
            compare = Compare::Near(1);
            out.push(key(dice));
        }
        "pttl" | "pexpiretime" => {
            compare = Compare::Near(500);
            out.push(key(dice));
        }
        "keys" => {
            compare = Compare::Sorted;
            out.push(dice.pick(&["*", "a*", "?", "[a-c]", "d{*", "[^a]", "x"]).as_bytes().to_vec());
        }
        "scan" => {
            let cursor = dice.pick(&["x", "-", "", "1x", "18446744073709551616"]);
            out.push(cursor.as_bytes().to_vec());
            if cursor.is_empty() {
                let options = [
                    &["COUNT", "0"][..],
                    &["COUNT", "x"],
                    &["MATCH"],
                    &["TYPE"],
                    &["COUNT", "-5"],
                    &["bogus", "1"],
                ];
                out.extend(dice.pick(&options).iter().map(|word| word.as_bytes().to_vec()));
            }
        }
        "randomkey" => compare = Compare::Kind,
        "object" => {
            let what = dice.pick(&["encoding", "refcount", "idletime", "freq", "bogus"]);
            out.push(what.as_bytes().to_vec());
            compare = match what {
                // An integer that APPEND or INCRBYFLOAT made is kept as text by Redis, as a number here.
                "encoding" => Compare::Kind,
                "refcount" => Compare::Kind,
                "idletime" => Compare::Near(2),
                _ => Compare::Bytes,
            };
            out.push(key(dice));
        }
        "watch" => {
            for _ in 0..1 + dice.below(2) {
                out.push(key(dice));
            }
        }
        "flushdb" | "flushall" => {
            // Seldom, or nothing ever grows.
            if dice.below(3) > 0 {
                out.push(b"bogus".to_vec());
            } else if dice.below(2) > 0 {
                out.push(b"ASYNC".to_vec());
            }
        }
        _ => {}
    }
    (out, compare)
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    i64::try_from(since.as_millis()).expect("a date of this age")
}

#[test]
#[ignore = "needs redis-server 7.0"]
fn replies_are_those_of_redis() {
    let mut redis = Redis::start();
    let mut differences = 0;
    for seed in 0..SEED_COUNT {
        for lane_count in [1, 4] {
            let mut dice = Dice(seed);
            let mut talk = Talk::new(lane_count);
            redis.call(&[b"discard"]);
            redis.call(&[b"unwatch"]);
            redis.call(&[b"flushall"]);
            redis.call(&[b"select", b"0"]);
            let mut is_multi = false;
            for nth in 0..COMMANDS_PER_SEED {
                let (mut words, mut compare) = command(&mut dice);
                if is_multi && (!matches!(compare, Compare::Bytes)) {
                    words = vec![b"exec".to_vec()];
                    compare = Compare::Bytes;
                }
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                talk.world.now.unix_ms = unix_ms();
                let want = redis.call(&words);
                let got = talk.call(&words);
                match words[0] {
                    b"multi" => is_multi = true,
                    b"exec" | b"discard" => is_multi = false,
                    _ => {}
                }
                if !same(compare, &want, &got) {
                    differences += 1;
                    let show = |bytes: &[u8]| {
                        let mut text = String::from_utf8_lossy(bytes).into_owned();
                        text.truncate(200);
                        text
                    };
                    let line: Vec<String> =
                        words.iter().map(|word| show(&word[..word.len().min(60)])).collect();
                    println!(
                        "seed {seed}, lanes {lane_count}, command {nth}: {line:?}\n  redis {:?}\n  here  {:?}",
                        show(&want),
                        show(&got)
                    );
                    break;
                }
            }
        }
    }
    assert_eq!(differences, 0, "conversations that differ");
}
