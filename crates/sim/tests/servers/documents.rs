//! Documents: memcached's clients over one lane and over several, in text, meta and binary; beside a model, under a seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::binary::{read, request};
use crate::check::{Dice, faults_of};
use lane::{Dialect, Door, Namespace, Namespaces, Port, Settings};
use net::fault::Faults;
use sim::{Client, World};

fn settings() -> Settings {
    settings_at(Port::Shared)
}

fn settings_at(port: Port) -> Settings {
    Settings { doors: vec![Door { port, dialect: Dialect::Memcached }], ..Settings::default() }
}

fn world(lane_count: u16) -> World {
    World::new(lane_count, &settings(), 1, Faults::default())
}

/// Sends `bytes` and takes rounds until as much has come as is wanted, and nothing more comes.
fn exchange(world: &mut World, client: &mut Client, bytes: &[u8], want_size: usize) -> Vec<u8> {
    let mut got = world.exchange(client, bytes, want_size, 20_000);
    for _ in 0..20 {
        world.round();
        client.pump();
    }
    got.append(&mut client.received);
    got
}

/// Fails with what a person can read where replies are long.
#[track_caller]
fn assert_same(got: &[u8], want: &str, about: &str) {
    let show = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
    let wanted = want.as_bytes();
    let (sizes, about) = ((got.len(), wanted.len()), show(about.as_bytes()));
    assert!(got == wanted, "{about:?}: {:?} and not {:?}, {sizes:?} bytes", show(got), show(wanted));
}

/// Says lines over one lane and over four, one after the other, in one piece, and byte by byte.
fn check(lines: &[(&str, &str)]) {
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for (line, want) in lines {
            let got = exchange(&mut world, &mut client, line.as_bytes(), want.len());
            assert_same(&got, want, &format!("over {lane_count} lanes: {line}"));
        }
        drop(client);
        let mut world = self::world(lane_count);
        let mut client = world.connect(0);
        let bytes: String = lines.iter().map(|(line, _)| *line).collect();
        let want: String = lines.iter().map(|(_, want)| *want).collect();
        let got = exchange(&mut world, &mut client, bytes.as_bytes(), want.len());
        assert_same(&got, &want, &format!("pipelined over {lane_count} lanes"));
        let mut world = self::world(lane_count);
        let mut client = world.connect(0);
        for byte in bytes.as_bytes() {
            client.send(&[*byte]);
            client.pump();
            world.round();
        }
        let got = exchange(&mut world, &mut client, b"", want.len());
        assert_same(&got, &want, &format!("byte by byte over {lane_count} lanes"));
    }
}

#[test]
fn text() {
    check(&[
        ("get a\r\n", "END\r\n"),
        ("set a 5 0 3\r\nabc\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
        ("get a b c a d\r\n", "VALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("add b 4294967295 0 1\r\nx\r\n", "STORED\r\n"),
        ("replace c 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("replace b 1 0 2\r\n10\r\n", "STORED\r\n"),
        ("append b 9 0 1\r\n0\r\n", "STORED\r\n"),
        ("prepend b 9 0 1\r\n3\r\n", "STORED\r\n"),
        ("get b\r\n", "VALUE b 1 4\r\n3100\r\nEND\r\n"),
        ("append zz 0 0 1\r\n0\r\n", "NOT_STORED\r\n"),
        ("incr b 5\r\n", "3105\r\n"),
        ("decr b 3100\r\n", "5\r\n"),
        ("get b\r\n", "VALUE b 1 4\r\n5   \r\nEND\r\n"),
        ("decr b 100\r\n", "0\r\n"),
        ("incr nothing 1\r\n", "NOT_FOUND\r\n"),
        ("incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("set n 0 0 20\r\n18446744073709551615\r\nincr n 2\r\n", "STORED\r\n1\r\n"),
        // A number may have blanks and whatever behind it; what is empty is none, whatever the CAS.
        ("set n 0 0 24\r\n000000000000000000000012\r\nincr n 2\r\n", "STORED\r\n14\r\n"),
        ("get n\r\n", "VALUE n 0 24\r\n14                      \r\nEND\r\n"),
        (
            "set e 0 0 0\r\n\r\nma e C99\r\n",
            "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        ("touch a 100\r\n", "TOUCHED\r\n"),
        ("touch zz 100\r\n", "NOT_FOUND\r\n"),
        ("gat 100 a zz\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
        ("set a 0 -1 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n"),
        ("set q 0 0 1 noreply\r\nx\r\ndelete q noreply\r\ndelete q\r\n", "NOT_FOUND\r\n"),
        ("bogus\r\nget\r\n", "ERROR\r\nERROR\r\n"),
        ("set a b c d\r\nversion\r\n", "CLIENT_ERROR bad command line format\r\nVERSION 1.6.18\r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
        ("flush_all\r\nget b n\r\n", "OK\r\nEND\r\n"),
    ]);
}

#[test]
fn meta() {
    check(&[
        ("mg a v\r\nmn\r\n", "EN\r\nMN\r\n"),
        ("ms a 3 T60 F7\r\nabc\r\n", "HD\r\n"),
        ("mg a v t f k s O9\r\n", "VA 3 t60 f7 ka s3 O9\r\nabc\r\n"),
        ("mg a h\r\nmg a h\r\n", "HD h1\r\nHD h1\r\n"),
        ("ms a 1 ME\r\nx\r\nms a 1 MA\r\nd\r\nmg a v\r\n", "NS\r\nHD\r\nVA 4\r\nabcd\r\n"),
        ("md a q\r\nmd a q\r\nmn\r\n", "NF\r\nMN\r\n"),
        (
            "ma n v\r\nma n N0 J5 v\r\nma n D3 v t\r\nma n MD D9 v\r\n",
            "NF\r\nVA 1\r\n5\r\nVA 1 t-1\r\n8\r\nVA 1\r\n0\r\n",
        ),
        (
            "ms Zm9v 2 b\r\nhi\r\nmg foo v k\r\nmg Zm9v v k b\r\n",
            "HD\r\nVA 2 kZm9v b\r\nhi\r\nVA 2 kZm9v b\r\nhi\r\n",
        ),
        // Flags do what they do in their order; what has ended is shown a last time.
        ("ms o 1\r\nx\r\nmg o t T100\r\nmg o t\r\n", "HD\r\nHD t-1\r\nHD t100\r\n"),
        ("mg o T-1 v\r\nmg o v\r\nmg o N-1\r\nmg o\r\n", "VA 1\r\nx\r\nEN\r\nHD W\r\nEN\r\n"),
        ("ma p N0 T50 t\r\nmg p t\r\nma p t T9\r\nmg p t\r\n", "HD t50\r\nHD t50\r\nHD t50\r\nHD t9\r\n"),
        // What is appended to is as if stored anew; touching counts as fetching.
        ("mg p\r\ntouch p 0\r\nmg p h\r\n", "HD\r\nTOUCHED\r\nHD h1\r\n"),
        ("md p I\r\nms p 1 MA\r\n0\r\nmg p h\r\n", "HD\r\nHD\r\nHD h0\r\n"),
        // A miss makes a placeholder, and the first one wins; a stale document does so once.
        ("mg new N30 v t\r\nmg new N30 v t\r\n", "VA 0 t30 W\r\n\r\nVA 0 t30 Z\r\n\r\n"),
        ("ms s 1 T0\r\nx\r\nmd s I T30\r\n", "HD\r\nHD\r\n"),
        ("mg s v t\r\nmg s v t\r\n", "VA 1 t30 X W\r\nx\r\nVA 1 t30 Z X\r\nx\r\n"),
        (
            "mg s R60 v\r\nms s 1 T30\r\ny\r\nmg s R60 v\r\nmg s R60 v\r\n",
            "VA 1 Z X\r\nx\r\nHD\r\nVA 1 W\r\ny\r\nVA 1 Z\r\ny\r\n",
        ),
    ]);
}

/// What one more byte makes too large, flags count four if there are any.
#[test]
fn appending_up_to_the_limit() {
    let size = 1_048_576 - (56 + 2 + 2);
    let value = "x".repeat(size - 1);
    check(&[
        (
            &format!("set k 0 0 {}\r\n{value}\r\nappend k 0 0 1\r\ny\r\nappend k 0 0 1\r\ny\r\n", size - 1),
            "STORED\r\nSTORED\r\nNOT_STORED\r\n",
        ),
        (
            &format!("set k 1 0 {}\r\n{}\r\nappend k 0 0 1\r\ny\r\n", size - 4, &value[3..]),
            "STORED\r\nNOT_STORED\r\n",
        ),
    ]);
}

/// A few bytes go behind a long document where it is: however many do at once, no copies of it wait to be freed.
#[test]
fn appending_makes_no_copies() {
    let mut world = world(1);
    let mut client = world.connect(0);
    let value = "x".repeat(600_000);
    let set = format!("set k 7 0 {}\r\n{value}\r\n", value.len());
    assert_same(&exchange(&mut world, &mut client, set.as_bytes(), 8), "STORED\r\n", "set");
    client.send("append k 0 0 10 noreply\r\n0123456789\r\n".repeat(2000).as_bytes());
    client.send(b"append k 0 0 0\r\n\r\nget k\r\n");
    let want = format!("STORED\r\nVALUE k 7 620000\r\n{value}{}\r\nEND\r\n", "0123456789".repeat(2000));
    let (mut got, mut retired_max) = (Vec::new(), 0);
    for _ in 0..2000 {
        client.pump();
        world.round();
        retired_max = retired_max.max(world.lanes[0].shard().memory().retired);
        got.append(&mut client.received);
    }
    assert_same(&got, &want, "append");
    assert!(retired_max <= 1_300_000, "{retired_max} bytes wait to be freed");
}

/// Who reads unnoticed leaves no trace; and with an end by default a document is not near it for who names none.
#[test]
fn unnoticed_reads_and_ends_by_default() {
    check(&[("ms z 1\r\nx\r\nmg z u\r\nmg z h\r\nmg z h\r\n", "HD\r\nHD\r\nHD h0\r\nHD h1\r\n")]);
    let first = Namespace { default_ttl_s: 60, ..Namespace::new("default") };
    let namespaces = Namespaces::new(vec![first], vec![Namespace::new("test")]);
    let mut world = World::new(1, &Settings { namespaces, ..settings() }, 1, Faults::default());
    let mut client = world.connect(0);
    let lines = b"ms k 1\r\nx\r\nms l 1 T30\r\nx\r\nmg k R0 t\r\nmg l R0 t\r\nmg l R31 t\r\n";
    let want = "HD\r\nHD\r\nHD t60\r\nHD t30\r\nHD t30 W\r\n";
    assert_same(&exchange(&mut world, &mut client, lines, want.len()), want, "R0");
}

#[test]
fn binary() {
    let store = [0, 0, 0, 7, 0, 0, 0, 0];
    let count = |delta: u64, initial: u64, exptime: u32| {
        [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()].concat()
    };
    let conversation: Vec<(Vec<u8>, &str)> = vec![
        (request(0x00, &[], "a", "", 0), "00:1:Not found "),
        (request(0x01, &store, "a", "abc", 0), "01:0: "),
        (request(0x00, &[], "a", "", 0), "00:0:abc "),
        (request(0x0c, &[], "a", "", 0), "0c:0:aabc "),
        (request(0x02, &store, "a", "x", 0), "02:2:Data exists for key. "),
        (request(0x03, &store, "b", "x", 0), "03:1:Not found "),
        (request(0x01, &store, "a", "x", 999), "01:2:Data exists for key. "),
        (request(0x0e, &[], "a", "d", 0), "0e:0: "),
        (request(0x0f, &[], "a", "-", 0), "0f:0: "),
        (request(0x0e, &[], "zz", "d", 0), "0e:5:Not stored. "),
        (request(0x09, &[], "a", "", 0), "09:0:-abcd "),
        (request(0x09, &[], "zz", "", 0), ""),
        (request(0x05, &count(2, 5, u32::MAX), "n", "", 0), "05:1:Not found "),
        (request(0x05, &count(2, 5, 0), "n", "", 0), "05:0:5 "),
        (request(0x05, &count(2, 5, 0), "n", "", 0), "05:0:7 "),
        (request(0x06, &count(9, 5, 0), "n", "", 0), "06:0:0 "),
        (request(0x05, &count(1, 0, 0), "a", "", 0), "05:6:Non-numeric server-side value for incr or decr "),
        (request(0x14, &[], "n", "", 0), ""),
        (request(0x04, &[], "n", "", 0), "04:1:Not found "),
        (request(0x1c, &[0, 0, 0, 60], "a", "", 0), "1c:0: "),
        (request(0x1d, &[0, 0, 0, 60], "a", "", 0), "1d:0:-abcd "),
        (request(0x0a, &[], "", "", 0), "0a:0: "),
        (request(0x0b, &[], "", "", 0), "0b:0:1.6.18 "),
        (request(0x08, &[], "", "", 0), "08:0: "),
        (request(0x00, &[], "a", "", 0), "00:1:Not found "),
        (request(0x99, &[], "", "", 0), "99:81:Unknown command "),
        (request(0x07, &[], "", "", 0), "07:0: "),
    ];
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for (bytes, want) in &conversation {
            let got = exchange(&mut world, &mut client, bytes, if want.is_empty() { 0 } else { 24 });
            assert_eq!(read(&got), *want, "{bytes:02x?} over {lane_count} lanes");
        }
        let mut world = self::world(lane_count);
        let mut client = world.connect(0);
        let bytes: Vec<u8> = conversation.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let got = exchange(&mut world, &mut client, &bytes, usize::MAX);
        let want: String = conversation.iter().map(|(_, want)| *want).collect();
        assert_eq!(read(&got), want, "pipelined over {lane_count} lanes");
    }
}

/// What is vivified takes room like everything else.
#[test]
fn a_miss_makes_nothing_where_there_is_no_room() {
    let limit = 2 << 20;
    let refused = |got: &[u8]| got.starts_with(b"SERVER_ERROR out of memory");
    let mut world = World::new(1, &Settings { memory_size_max: limit, ..settings() }, 1, Faults::default());
    let mut client = world.connect(0);
    let value = "v".repeat(500);
    let mut number = 0;
    loop {
        let line = format!("set fill:{number} 0 0 500\r\n{value}\r\n");
        if refused(&exchange(&mut world, &mut client, line.as_bytes(), 8)) {
            break;
        }
        number += 1;
    }
    assert!(number > 1000, "{number}");
    let mut refused_count = 0;
    for number in 0..3000 {
        let key = format!("{}{number}", "k".repeat(240));
        let got = exchange(&mut world, &mut client, format!("mg {key} N0\r\n").as_bytes(), 6);
        refused_count += usize::from(refused(&got));
    }
    assert!(refused_count > 2900, "{refused_count}");
    assert!(world.lanes[0].shard().held() <= limit);
}

/// memcached has no datatypes: whatever a request says of its value, nobody is told later.
#[test]
fn a_datatype_is_nothing_to_memcached() {
    for datatype in [1, 2, 4, 0xff] {
        let mut world = world(1);
        let mut client = world.connect(0);
        let mut bytes = request(0x01, &[0; 8], "k", "v", 0);
        bytes[5] = datatype;
        bytes.extend(request(0x00, &[], "k", "", 0));
        let got = exchange(&mut world, &mut client, &bytes, 24 + 29);
        let said: Vec<_> =
            crate::binary::replies(&got).into_iter().map(|it| (it.status, it.datatype)).collect();
        assert_eq!(said, [(0, 0), (0, 0)]);
    }
}

/// Values that come and go in chunks; their edits run in slices, while other clients are served.
#[test]
fn long_values() {
    let part = |byte: u8, size: usize| String::from_utf8(vec![byte; size]).unwrap();
    let (a, b, c) = (part(b'a', 100_000), part(b'b', 70_000), part(b'c', 40_000));
    let whole = format!("{c}{a}{b}x");
    let too_long = part(b'z', 1_100_000);
    check(&[
        (&format!("set k 3 0 {}\r\n{a}\r\n", a.len()), "STORED\r\n"),
        (&format!("append k 0 0 {}\r\n{b}\r\n", b.len()), "STORED\r\n"),
        (&format!("prepend k 0 0 {}\r\n{c}\r\n", c.len()), "STORED\r\n"),
        ("append k 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get k\r\n", &format!("VALUE k 3 {}\r\n{whole}\r\nEND\r\n", whole.len())),
        ("ms k 1 MA\r\ny\r\nmg k s\r\n", &format!("HD\r\nHD s{}\r\n", whole.len() + 1)),
        (
            &format!("set k 0 0 {}\r\n{a}xx\r\nmg k s\r\n", a.len() - 1),
            &format!("CLIENT_ERROR bad data chunk\r\nERROR\r\nHD s{}\r\n", whole.len() + 1),
        ),
        (
            &format!("set k 0 0 {}\r\n{too_long}\r\nget k\r\n", too_long.len()),
            "SERVER_ERROR object too large for cache\r\nEND\r\n",
        ),
    ]);
}

/// `flush_all` with a delay: what is there then goes, what comes afterwards stays.
#[test]
fn a_flush_may_wait() {
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        let mut say = |world: &mut World, line: &str, want: &str| {
            let got = exchange(world, &mut client, line.as_bytes(), want.len());
            assert_eq!(String::from_utf8_lossy(&got), want, "{line:?}");
        };
        say(
            &mut world,
            "set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nflush_all 10\r\n",
            "STORED\r\nSTORED\r\nOK\r\n",
        );
        say(&mut world, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
        world.now.unix_ms += 10_000;
        world.now.mono_ns += 10_000_000_000;
        say(&mut world, "get a b\r\nset b 0 0 1\r\ny\r\n", "END\r\nSTORED\r\n");
        world.now.unix_ms += 10_000;
        world.now.mono_ns += 10_000_000_000;
        say(&mut world, "get a b\r\n", "VALUE b 0 1\r\ny\r\nEND\r\n");
    }
}

/// At a lane's own port, too, keys of other lanes are forwarded, and what concerns all keys reaches every lane.
/// Nothing else wakes the lanes when its time has come.
#[test]
fn a_flush_that_waits_wakes_the_lanes() {
    let mut world = world(4);
    let mut client = world.connect(0);
    client.send(b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nflush_all 10\r\n");
    for tenth in 0..=100 {
        for _ in 0..20 {
            client.pump();
            (0..world.lanes.len()).for_each(|lane| world.turn_if_due(lane));
        }
        let keys: u64 = world.lanes.iter().map(|lane| lane.stats().keys).sum();
        assert_eq!(keys, if tenth < 100 { 2 } else { 0 }, "after {tenth} tenths of a second");
        world.pass(100_000_000);
    }
}

#[test]
fn a_lane_s_own_port_serves_all_keys() {
    let mut world = World::new(4, &settings_at(Port::Lane), 1, Faults::default());
    let mut client = world.connect(3);
    for key in 0..20 {
        let line = format!("set k{key} 0 0 1\r\nx\r\nget k{key}\r\n");
        let want = format!("STORED\r\nVALUE k{key} 0 1\r\nx\r\nEND\r\n");
        let got = exchange(&mut world, &mut client, line.as_bytes(), want.len());
        assert_same(&got, &want, &line);
    }
    assert!(world.lanes.iter().all(|lane| lane.shard().memory().keys > 0), "each lane has some of them");
    let got = exchange(&mut world, &mut client, b"flush_all\r\n", 4);
    assert_same(&got, "OK\r\n", "flush_all");
    assert!(world.lanes.iter().all(|lane| lane.shard().memory().keys == 0), "no lane has any");
}

/// One password for all: text says it in a `set`, binary in SASL's PLAIN.
#[test]
fn strangers_say_the_password_first() {
    let mut world =
        World::new(2, &Settings { password: Some(b"secret".to_vec()), ..settings() }, 1, Faults::default());
    let mut client = world.connect(0);
    let mut say = |line: &str, want: &str| {
        let got = exchange(&mut world, &mut client, line.as_bytes(), want.len());
        assert_eq!(String::from_utf8_lossy(&got), want, "{line:?}");
    };
    say("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    say("set x 0 0 10\r\nuser wrong\r\n", "CLIENT_ERROR authentication failure\r\n");
    // Too long for a password: it is not kept, and not looked into.
    let long = format!("user {}", "x".repeat(19_995));
    say(&format!("set x 0 0 20000\r\n{long}\r\nget a\r\n"), &"CLIENT_ERROR unauthenticated\r\n".repeat(2));
    say("set x 0 0 11\r\nuser secret\r\n", "STORED\r\n");
    say("get x\r\n", "END\r\n");
    let mut client = world.connect(1);
    let mut say = |bytes: &[u8], want: &str| {
        let got = exchange(&mut world, &mut client, bytes, 24);
        assert_eq!(read(&got), want, "{bytes:02x?}");
    };
    say(&request(0x20, &[], "", "", 0), "20:0:PLAIN ");
    say(&request(0x21, &[], "PLAIN", "\0user\0secret", 0), "21:0:Authenticated ");
    say(&request(0x00, &[], "a", "", 0), "00:1:Not found ");
    let mut client = world.connect(1);
    let got = exchange(&mut world, &mut client, &request(0x21, &[], "PLAIN", "\0user\0wrong", 0), 24);
    assert_eq!(read(&got), "21:20:Auth failure. ");
}

/// What a client of text should see: each document's value, flags and how often it was changed.
#[derive(Default)]
struct Model {
    documents: BTreeMap<String, (Vec<u8>, u32, u64)>,
    changes: u64,
}

impl Model {
    fn change(&mut self, key: &str, value: Vec<u8>, flags: u32) {
        self.changes += 1;
        self.documents.insert(key.to_owned(), (value, flags, self.changes));
    }

    /// A random command and what it answers.
    fn step(&mut self, dice: &mut Dice) -> (String, String) {
        let key = format!("k{}", dice.below(12));
        let value = match dice.below(4) {
            0 => dice.below(100).to_string(),
            1 => "v".repeat(dice.below(50_000)),
            _ => "v".repeat(dice.below(20)),
        };
        let held = self.documents.get(&key).cloned();
        let size = value.len();
        match dice.below(10) {
            0..3 => {
                let keys: Vec<String> =
                    (0..1 + dice.below(4)).map(|_| format!("k{}", dice.below(12))).collect();
                let mut want = String::new();
                for key in &keys {
                    if let Some((value, flags, _)) = self.documents.get(key) {
                        let text = String::from_utf8_lossy(value);
                        let _ = write!(want, "VALUE {key} {flags} {}\r\n{text}\r\n", value.len());
                    }
                }
                (format!("get {}\r\n", keys.join(" ")), want + "END\r\n")
            }
            3..5 => {
                self.change(&key, value.clone().into_bytes(), 7);
                (format!("set {key} 7 0 {size}\r\n{value}\r\n"), "STORED\r\n".to_owned())
            }
            verb @ (5 | 6) => {
                let (name, stores) =
                    if verb == 5 { ("add", held.is_none()) } else { ("replace", held.is_some()) };
                if stores {
                    self.change(&key, value.clone().into_bytes(), 0);
                }
                let want = if stores { "STORED\r\n" } else { "NOT_STORED\r\n" };
                (format!("{name} {key} 0 0 {size}\r\n{value}\r\n"), want.to_owned())
            }
            7 => {
                let is_behind = dice.below(2) == 0;
                let want = match held {
                    None => "NOT_STORED\r\n",
                    Some((old, flags, _)) => {
                        let pieces = [old, value.clone().into_bytes()];
                        let joined =
                            if is_behind { pieces.concat() } else { [&pieces[1][..], &pieces[0]].concat() };
                        self.change(&key, joined, flags);
                        "STORED\r\n"
                    }
                };
                let name = if is_behind { "append" } else { "prepend" };
                (format!("{name} {key} 0 0 {size}\r\n{value}\r\n"), want.to_owned())
            }
            8 => {
                self.documents.remove(&key);
                let want = if held.is_some() { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
                (format!("delete {key}\r\n"), want.to_owned())
            }
            _ => {
                let delta = dice.below(30) as u64;
                let want = match held {
                    None => "NOT_FOUND\r\n".to_owned(),
                    Some((old, flags, _)) => {
                        // What stands behind a blank is not looked at.
                        let text = String::from_utf8_lossy(&old).into_owned();
                        match text
                            .split(' ')
                            .next()
                            .unwrap_or_default()
                            .parse::<u64>()
                            .ok()
                            .filter(|_| old.len() <= 20)
                        {
                            None => {
                                "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n".to_owned()
                            }
                            Some(number) => {
                                let sum = number.wrapping_add(delta);
                                self.change(
                                    &key,
                                    format!("{sum:<width$}", width = old.len()).into_bytes(),
                                    flags,
                                );
                                format!("{sum}\r\n")
                            }
                        }
                    }
                };
                (format!("incr {key} {delta}\r\n"), want)
            }
        }
    }
}

/// Random commands of one client over several lanes, whose bytes are cut, delayed and sent in bursts.
#[test]
fn a_client_sees_what_the_model_says() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let lane_count = 1 + u16::try_from(dice.below(4)).unwrap();
        let mut world = World::new(lane_count, &settings(), seed, faults_of(seed));
        let mut client = world.connect(0);
        let mut model = Model::default();
        for _ in 0..12 {
            let (mut bytes, mut want) = (String::new(), String::new());
            for _ in 0..1 + dice.below(30) {
                let (line, answer) = model.step(&mut dice);
                bytes += &line;
                want += &answer;
            }
            let got = exchange(&mut world, &mut client, bytes.as_bytes(), want.len());
            assert_same(&got, &want, &format!("seed {seed}: {bytes}"));
        }
    }
}
