//! One client that abuses the lanes beside another that asks for one value after the other, in each dialect: how many rounds
//! the second one waits, and what a turn takes on. Counted in turns, commands, slices and bytes, never timed.

use std::ops::Range;

use crate::binary::request;
use lane::{Aerospike, Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::{Client, World};
use wire::aerospike::client::{Message, put_batch, put_op, put_same_row};
use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::{kind, particle};
use wire::route::Ports;

/// Rounds within which the polite client has its answer: asked for, forwarded, answered, delivered, each of them up to one turn later
/// because [`RUDE`] clients with 64 commands each are more than a turn takes.
const ROUNDS_MAX: usize = 8;
/// Rounds for which a client that never reads is watched.
const ROUNDS_WATCHED: usize = 300;
/// What a turn takes on at most, as the lane bounds it.
const COMMANDS_MAX: u64 = 1024;
const SLICES_MAX: u64 = 16;
/// Bytes that a turn receives at most, of all clients: its budget, a batch of short commands and one receive.
const RECEIVE_MAX: u64 = (256 + 1 + 64) * 1024;
/// Clients that do not read.
const RUDE: u64 = 24;
/// Values that the polite client asks for, on all lanes.
const VALUES: u16 = 16;
/// Of a flood, more than the lanes hold on the way.
const FLOOD: u16 = 4000;
/// A value that floods ask for, longer than what is copied into replies.
const LARGE: u16 = VALUES + 1;
const LARGE_SIZE: usize = 40_000;

/// A way to speak.
struct Tongue {
    name: &'static str,
    door: Door,
    put: fn(u16, &[u8]) -> Vec<u8>,
    get: fn(u16) -> Vec<u8>,
    /// Requests without a reply: misses, or changes that nobody wants to hear of. Aerospike's clients hear of all.
    quiet: fn(u16) -> Vec<u8>,
    /// One request for so many values.
    many: fn(u16) -> Vec<u8>,
    /// Removes everything.
    empty: fn() -> Vec<u8>,
    /// Most bytes of a value that is taken, or nearly.
    value_size_max: usize,
}

fn name(number: u16) -> String {
    format!("value:{number}")
}

const MEMCACHED: Door = Door { port: Port::Shared, dialect: Dialect::Memcached };
const MIB: usize = 1 << 20;

const TEXT: Tongue = Tongue {
    name: "text",
    door: MEMCACHED,
    put: |number, value| {
        [format!("set {} 0 0 {}\r\n", name(number), value.len()).as_bytes(), value, b"\r\n"].concat()
    },
    get: |number| format!("get {}\r\n", name(number)).into_bytes(),
    quiet: |number| format!("incr none:{number} 1 noreply\r\n").into_bytes(),
    many: |count| {
        let names: Vec<String> = (0..count).map(|number| name(number % VALUES)).collect();
        format!("get {}\r\n", names.join(" ")).into_bytes()
    },
    empty: || b"flush_all\r\n".to_vec(),
    value_size_max: MIB - 200,
};

const META: Tongue = Tongue {
    name: "meta",
    door: MEMCACHED,
    put: |number, value| {
        [format!("ms {} {}\r\n", name(number), value.len()).as_bytes(), value, b"\r\n"].concat()
    },
    get: |number| format!("mg {} v k\r\n", name(number)).into_bytes(),
    quiet: |number| format!("mg none:{number} v q\r\n").into_bytes(),
    many: |count| {
        (0..count).flat_map(|number| format!("mg {} v k q\r\n", name(number % VALUES)).into_bytes()).collect()
    },
    empty: || b"flush_all\r\n".to_vec(),
    value_size_max: MIB - 200,
};

const BINARY: Tongue = Tongue {
    name: "binary",
    door: MEMCACHED,
    put: |number, value| framed(0x01, &[0; 8], &name(number), value),
    get: |number| request(0x00, &[], &name(number), "", 0),
    quiet: |number| request(0x09, &[], &format!("none:{number}"), "", 0),
    many: |count| (0..count).flat_map(|number| request(0x0d, &[], &name(number % VALUES), "", 0)).collect(),
    empty: || request(0x08, &[], "", "", 0),
    value_size_max: MIB - 200,
};

const COUCHBASE: Tongue = Tongue {
    name: "couchbase",
    door: Door { port: Port::Lane, dialect: Dialect::Couchbase },
    // Sixteen paths that are not in a document: each is looked for to its end.
    many: |_| {
        let paths: Vec<u8> =
            (0..16).flat_map(|at| [b"\xc5\0\0\x05none".as_slice(), &[b'a' + at]].concat()).collect();
        framed(0xd0, &[], &name(VALUES), &paths)
    },
    value_size_max: 20 * MIB,
    ..BINARY
};

const AEROSPIKE: Tongue = Tongue {
    name: "aerospike",
    door: Door { port: Port::Lane, dialect: Dialect::Aerospike },
    put: |number, value| {
        let mut ops = Vec::new();
        put_op(&mut ops, kind::WRITE, particle::STRING, b"bin", value);
        message(number, Message { info2: info2::WRITE, ops: (1, &ops), ..Message::default() })
    },
    get: |number| message(number, Message { info1: info1::READ | info1::GET_ALL, ..Message::default() }),
    quiet: |number| message(VALUES + 1 + number % 100, Message { info1: info1::READ, ..Message::default() }),
    many: |count| {
        let (mut rows, mut frame) = (Vec::new(), Vec::new());
        let message = Message {
            info1: info1::READ | info1::GET_ALL,
            namespace: b"test",
            set: b"demo",
            ..Message::default()
        };
        message.put_row(&mut rows, 0, &digest(0));
        (1..count).for_each(|index| put_same_row(&mut rows, index.into(), &digest(index % VALUES)));
        put_batch(&mut frame, count.into(), &rows);
        frame
    },
    empty: || {
        let text = b"truncate:namespace=test;set=demo\n";
        [&[2, 1, 0, 0, 0, 0, 0, u8::try_from(text.len()).expect("a short line")], &text[..]].concat()
    },
    value_size_max: MIB - 200,
};

const ALL: [Tongue; 5] = [TEXT, META, BINARY, COUCHBASE, AEROSPIKE];

fn framed(opcode: u8, extras: &[u8], key: &str, value: &[u8]) -> Vec<u8> {
    crate::binary::request_at(0, opcode, extras, key.as_bytes(), value, 0)
}

/// A digest whose partition is spread over all lanes.
fn digest(number: u16) -> [u8; 20] {
    let mut digest = [0; 20];
    digest[..2].copy_from_slice(&number.wrapping_mul(1237).to_le_bytes());
    digest[2..4].copy_from_slice(&number.to_be_bytes());
    digest
}

fn message(number: u16, message: Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let digest = digest(number);
    Message { namespace: b"test", set: b"demo", digest: Some(&digest), ..message }.put(&mut out);
    out
}

/// The lanes with a polite client.
struct Scene<'a> {
    tongue: &'a Tongue,
    world: World,
    polite: Client,
    /// What is answered to each of its requests.
    wanted: Vec<Vec<u8>>,
    /// The request under way, and for how many rounds it has been.
    asked: Option<(u16, usize)>,
    answered: usize,
}

impl Scene<'_> {
    /// The polite client asks for what is there, or for what is not.
    fn new(tongue: &Tongue, lane_count: u16, is_there: bool) -> Scene<'_> {
        let settings = Settings {
            doors: vec![tongue.door],
            couchbase_ports: Some(Ports::from(11210)),
            aerospike: Aerospike { ports: Some(Ports::from(3000)), ..Aerospike::default() },
            ..Settings::default()
        };
        let mut world = World::new(lane_count, &settings, 1, Faults::default());
        let mut polite = world.connect(0);
        let mut ask = |bytes: &[u8]| {
            polite.send(bytes);
            for _ in 0..20 {
                polite.pump();
                world.round();
            }
            polite.pump();
            std::mem::take(&mut polite.received)
        };
        for number in (0..VALUES).filter(|_| is_there) {
            assert!(!ask(&(tongue.put)(number, b"hello")).is_empty(), "{}", tongue.name);
        }
        if is_there {
            ask(&(tongue.put)(LARGE, &[b'v'; LARGE_SIZE]));
            assert!(ask(&(tongue.get)(LARGE)).len() > LARGE_SIZE, "{}", tongue.name);
        }
        let wanted = (0..VALUES).map(|number| ask(&(tongue.get)(number))).collect();
        Scene { tongue, world, polite, wanted, asked: None, answered: 0 }
    }

    /// A turn of every lane, in which the polite client asks or waits.
    fn round(&mut self) {
        let (number, waited) = self.asked.unwrap_or_else(|| {
            let number = u16::try_from(self.answered).expect("few requests") % VALUES;
            self.polite.send(&(self.tongue.get)(number));
            (number, 0)
        });
        self.polite.pump();
        let before: Vec<u64> =
            (0..self.world.lanes.len()).map(|lane| self.world.counters(lane).bytes_in).collect();
        self.world.round();
        for (lane, before) in before.into_iter().enumerate() {
            let size = self.world.counters(lane).bytes_in - before;
            assert!(size < RECEIVE_MAX, "{}: a turn receives {size} bytes", self.tongue.name);
        }
        self.polite.pump();
        let want = &self.wanted[usize::from(number)];
        self.asked = if self.polite.received.len() < want.len() {
            assert!(waited < ROUNDS_MAX, "{}: a polite client waits {waited} rounds", self.tongue.name);
            Some((number, waited + 1))
        } else {
            let got = std::mem::take(&mut self.polite.received);
            assert!(got == *want, "{}: {:?}", self.tongue.name, got.escape_ascii().to_string());
            self.answered += 1;
            None
        };
    }

    /// What the turns took on, and that the polite client was answered all the while.
    fn end(&self, answered_min: usize) {
        let name = self.tongue.name;
        for stats in self.world.lanes.iter().map(lane::Lane::stats) {
            assert!(stats.turn_commands_max <= COMMANDS_MAX, "{name}: {} commands", stats.turn_commands_max);
            assert!(stats.turn_slices_max <= SLICES_MAX, "{name}: {} slices", stats.turn_slices_max);
        }
        assert!(self.answered >= answered_min, "{name}: {} answers", self.answered);
    }
}

/// [`RUDE`] clients send `bytes` and read nothing, beside a polite one.
fn check_unread(tongue: &Tongue, lane_count: u16, bytes: &[u8]) {
    let mut scene = Scene::new(tongue, lane_count, true);
    let mut rude: Vec<Client> = (0..RUDE).map(|_| scene.world.connect_with(0, 1 << 20, 1 << 12)).collect();
    rude.iter_mut().for_each(|client| client.send(bytes));
    for _ in 0..ROUNDS_WATCHED {
        rude.iter_mut().for_each(|client| client.push(usize::MAX));
        scene.round();
    }
    scene.end(ROUNDS_WATCHED / (ROUNDS_MAX + 1));
}

/// A client sends requests and reads what is answered, so many bytes, beside a polite one.
fn check_heavy(tongue: &Tongue, lane_count: u16, requests: &[Vec<u8>], answer_size: Range<usize>) {
    let mut scene = Scene::new(tongue, lane_count, true);
    let mut heavy = scene.world.connect_with(0, 1 << 20, 1 << 20);
    requests.iter().for_each(|bytes| heavy.send(bytes));
    let mut rounds = 0;
    while heavy.received.len() < answer_size.start || !scene.world.is_idle() {
        heavy.pump();
        scene.round();
        rounds += 1;
        assert!(rounds < 10_000, "{}: it ends", tongue.name);
    }
    heavy.pump();
    let size = heavy.received.len();
    assert!(answer_size.contains(&size), "{}: {size} bytes of answers", tongue.name);
    scene.end(rounds / (ROUNDS_MAX + 1));
}

fn each(check: impl Fn(&Tongue, u16)) {
    for tongue in &ALL {
        [1, 4].into_iter().for_each(|lane_count| check(tongue, lane_count));
    }
}

#[test]
fn floods_that_nobody_reads() {
    each(|tongue, lane_count| {
        let both = [(tongue.get)(0), (tongue.get)(LARGE)].concat();
        check_unread(tongue, lane_count, &both.repeat(FLOOD.into()));
    });
}

#[test]
fn quiet_floods() {
    each(|tongue, lane_count| {
        let bytes: Vec<u8> = (0..FLOOD).flat_map(|at| (tongue.quiet)(at)).collect();
        check_unread(tongue, lane_count, &bytes);
    });
}

/// A value each, of which the end never comes.
#[test]
fn values_without_an_end() {
    each(|tongue, lane_count| {
        let put = (tongue.put)(LARGE, &vec![b'v'; tongue.value_size_max.min(MIB - 200)]);
        check_unread(tongue, lane_count, &put[..put.len() - 100]);
    });
}

/// Redis' clients whose lines have no end yet, or whose long values end in front of such a line: little or nothing is consumed of what
/// they sent. Each turn takes its share of what is there, and all have their turn.
#[test]
fn lines_without_an_end() {
    for lane_count in [1, 4] {
        check_lines(lane_count, b"", b"");
        let value = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$40000\r\n".as_slice(), &[b'v'; 40_000]].concat();
        check_lines(lane_count, &value, b"\r\n");
    }
}

/// All clients send `begun`, then `rest` and a line all at once.
fn check_lines(lane_count: u16, begun: &[u8], rest: &[u8]) {
    const COUNT: usize = 128;
    const SIZE: usize = 65_000;
    let case = format!("{lane_count} lanes, {} bytes before", begun.len());
    let mut world = World::quiet(lane_count);
    let mut rude: Vec<Client> = (0..COUNT).map(|_| world.connect_with(0, 1 << 17, 1 << 12)).collect();
    rude.iter_mut().for_each(|client| client.send(begun));
    for _ in 0..100 {
        rude.iter_mut().for_each(Client::pump);
        world.round();
    }
    for client in &mut rude {
        client.send(rest);
        client.send(&[b'a'; SIZE]);
        client.push(usize::MAX);
    }
    let received = |world: &World| -> Vec<u64> {
        (0..world.lanes.len()).map(|lane| world.counters(lane).bytes_in).collect()
    };
    let start: u64 = received(&world).iter().sum();
    let size = COUNT * (rest.len() + SIZE);
    let mut rounds = 0;
    while received(&world).iter().sum::<u64>() - start < size as u64 {
        let before = received(&world);
        world.round();
        for (after, before) in received(&world).into_iter().zip(before) {
            assert!(after - before < RECEIVE_MAX, "{case}: a turn receives {} bytes", after - before);
        }
        rounds += 1;
        assert!(rounds <= size / (256 * 1024) + 2, "{case}: nobody waits without need");
    }
    rude.iter_mut().for_each(|client| client.send(b"\r\n"));
    for _ in 0..100 {
        rude.iter_mut().for_each(Client::pump);
        world.round();
    }
    let before: &[u8] = if begun.is_empty() { b"" } else { b"+OK\r\n" };
    for client in &rude {
        let replies = client.received.strip_prefix(before);
        assert!(replies.is_some_and(|replies| replies.starts_with(b"-ERR unknown command")), "{case}");
    }
}

#[test]
fn requests_for_many_values() {
    each(|tongue, lane_count| check_unread(tongue, lane_count, &(tongue.many)(FLOOD).repeat(4)));
}

#[test]
fn long_values() {
    each(|tongue, lane_count| {
        let value = [b"{\"a\":\"", vec![b'v'; tongue.value_size_max - 8].as_slice(), b"\"}"].concat();
        let put = (tongue.put)(VALUES, &value);
        let mut requests = vec![put.clone(), (tongue.get)(VALUES), put, (tongue.get)(VALUES)];
        if tongue.door.dialect == Dialect::Couchbase {
            requests.push((tongue.many)(1));
        }
        let size = 2 * value.len();
        check_heavy(tongue, lane_count, &requests, size..size + 1000);
    });
}

#[test]
fn values_too_long_to_be_taken() {
    each(|tongue, lane_count| {
        let put = (tongue.put)(VALUES, &vec![b'v'; tongue.value_size_max + 1000]);
        check_heavy(tongue, lane_count, &[put.clone(), put], 1..200);
    });
}

/// Aerospike's scans of all partitions, page after page of one connection.
#[test]
fn scans_that_nobody_reads() {
    let partitions: Vec<u16> = (0..4096).collect();
    let mut bytes = Vec::new();
    for max_records in [0, 10_000] {
        let scan = Message {
            info1: info1::READ,
            namespace: b"test",
            partitions: &partitions,
            max_records,
            ..Message::default()
        };
        (0..4).for_each(|_| scan.put(&mut bytes));
    }
    [1, 4].into_iter().for_each(|lane_count| check_unread(&AEROSPIKE, lane_count, &bytes));
}

/// Two hundred clients send a request byte by byte.
#[test]
fn clients_that_drip() {
    each(|tongue, lane_count| {
        let mut scene = Scene::new(tongue, lane_count, true);
        let mut slow: Vec<Client> = (0..200).map(|_| scene.world.connect(0)).collect();
        for (client, number) in slow.iter_mut().zip(0..) {
            client.send(&(tongue.put)(VALUES + 2 + number, b"drip"));
        }
        while slow.iter().any(|client| !client.is_sent()) {
            slow.iter_mut().for_each(|client| client.push(1));
            scene.round();
        }
        for _ in 0..10 {
            scene.round();
        }
        for client in &mut slow {
            client.pump();
            assert!(!client.received.is_empty(), "{}: who drips is served", tongue.name);
        }
        scene.end(10);
    });
}

/// What removes everything, beside 20,000 values: of a set of Aerospike's, of all that memcached's clients have.
#[test]
fn emptying() {
    each(|tongue, lane_count| {
        let mut scene = Scene::new(tongue, lane_count, false);
        let mut heavy = scene.world.connect_with(0, 1 << 20, 1 << 20);
        let puts: Vec<u8> = (0..20_000).flat_map(|at| (tongue.put)(VALUES + at, b"value")).collect();
        for (bytes, keys_then) in [(puts, 20_000), ((tongue.empty)(), 0)] {
            heavy.send(&bytes);
            let mut idle_rounds = 0;
            while idle_rounds < 10 {
                heavy.pump();
                scene.round();
                idle_rounds = if heavy.is_sent() && scene.world.is_idle() { idle_rounds + 1 } else { 0 };
            }
            let keys: u64 = scene.world.lanes.iter().map(|lane| lane.stats().keys).sum();
            assert_eq!(keys, keys_then, "{}", tongue.name);
        }
        scene.end(100);
    });
}
