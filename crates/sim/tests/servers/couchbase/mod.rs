//! Couchbase's clients over one lane and over several: greeting, the map, locks and keys that are another lane's; `buckets`,
//! several of them; `pages`, the management port; `model`, beside a model, under a seed.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod buckets;
mod model;
mod pages;

use crate::binary::{Reply, read, replies, request, request_at};
use lane::{Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::{Client, World};
use wire::route::{PartitionMap, Ports, vbucket};

/// The doors of [`settings`].
const MEMCACHED: usize = 1;
const MANAGEMENT: usize = 2;

fn settings() -> Settings {
    let lane = |dialect| Door { port: Port::Lane, dialect };
    Settings {
        doors: vec![
            lane(Dialect::Couchbase),
            Door { port: Port::Shared, dialect: Dialect::Memcached },
            lane(Dialect::Management),
        ],
        couchbase_ports: Some(Ports::from(11210)),
        management_ports: Some(Ports::from(8091)),
        map_epoch: 1_700_000_000_000,
        ..Settings::default()
    }
}

fn world(lane_count: u16) -> World {
    World::new(lane_count, &settings(), 1, Faults::default())
}

/// Sends `bytes` and takes rounds until so many replies have come, and nothing more comes.
fn exchange(world: &mut World, client: &mut Client, bytes: &[u8], count: usize) -> Vec<u8> {
    let mut got = world.exchange(client, bytes, 24 * count, 20_000);
    for _ in 0..20 {
        world.round();
        client.pump();
    }
    got.append(&mut client.received);
    got
}

fn say(world: &mut World, client: &mut Client, bytes: &[u8]) -> String {
    read(&exchange(world, client, bytes, 1))
}

/// HELLO with these features.
fn hello(codes: &[u8]) -> Vec<u8> {
    let list: Vec<u8> = codes.iter().flat_map(|code| [0, *code]).collect();
    request_at(0, 0x1f, &[], b"test", &list, 0)
}

/// A client of a lane that has selected the bucket.
fn selected(world: &mut World, lane: usize, features: &[u8]) -> Client {
    let mut client = world.connect(lane);
    let bytes = [hello(features), request(0x89, &[], "default", "", 0)].concat();
    let got = replies(&exchange(world, &mut client, &bytes, 2));
    assert_eq!(got.iter().map(|reply| reply.status).collect::<Vec<_>>(), [0, 0]);
    client
}

/// A key that a lane owns.
fn key_of(map: &PartitionMap, lane: u16) -> String {
    let owned = |key: &String| map.owner_of_vbucket(vbucket(key.as_bytes())).unwrap().0 == lane;
    (0..).map(|number| format!("key-{number}")).find(owned).unwrap()
}

const STORE: [u8; 8] = [2, 0, 0, 0, 0, 0, 0, 0];

/// A request whose value is of this kind.
fn of_datatype(datatype: u8, mut request: Vec<u8>) -> Vec<u8> {
    request[5] = datatype;
    request
}

#[test]
fn a_conversation() {
    let count = |delta: u64, initial: u64, exptime: u32| {
        [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()].concat()
    };
    let conversation: Vec<(Vec<u8>, &str)> = vec![
        // A socket on which nobody has said anything is usable, as mcsoda uses it.
        (request(0x01, &STORE, "a", "abc", 0), "01:0: "),
        (request(0x21, &[], "PLAIN", "\0default\0", 0), "21:0: "),
        (request(0x00, &[], "a", "", 0), "00:0:abc "),
        (hello(&[3, 7, 8, 0x0b, 0x0a, 0x63]), "1f:0:\0\u{3}\0\u{7}\0\u{8}\0\u{b} "),
        (request(0x20, &[], "", "", 0), "20:0:SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN "),
        (
            request(0x89, &[], "other", "", 0),
            "89:24:{\"error\":{\"context\":\"No access: authenticate first, and name a bucket that there is\"}} ",
        ),
        (request(0x89, &[], "default", "", 0), "89:0: "),
        (request(0x02, &STORE, "a", "x", 0), "02:2: "),
        (request(0x03, &STORE, "b", "x", 0), "03:1: "),
        (request(0x01, &STORE, "a", "x", 999), "01:2: "),
        (request(0x01, &STORE, "b", "x", 999), "01:1: "),
        (request(0x0e, &[], "a", "d", 0), "0e:0: "),
        (request(0x0f, &[], "a", "-", 0), "0f:0: "),
        (request(0x0e, &[], "zz", "d", 0), "0e:5: "),
        (request(0x0c, &[], "a", "", 0), "0c:0:a-abcd "),
        (request(0x09, &[], "zz", "", 0), ""),
        (request(0x05, &count(2, 5, u32::MAX), "n", "", 0), "05:1: "),
        (request(0x05, &count(2, 10, 0), "n", "", 0), "05:0:10 "),
        (request(0x06, &count(2, 10, 0), "n", "", 0), "06:0:8 "),
        // It is not filled up with blanks.
        (request(0x00, &[], "n", "", 0), "00:0:8 "),
        (request(0x06, &count(9, 0, 0), "n", "", 0), "06:0:0 "),
        (request(0x05, &count(1, 0, 0), "a", "", 0), "05:6: "),
        (request(0x1c, &[0, 0, 0, 60], "a", "", 0), "1c:0: "),
        (request(0x1c, &[0, 0, 0, 60], "zz", "", 0), "1c:1: "),
        (request(0x1d, &[0, 0, 0, 90], "a", "", 0), "1d:0:-abcd "),
        (request(0xa0, &[2], "zz", "", 0), "a0:1: "),
        (request(0x04, &[], "n", "", 0), "04:0: "),
        (request(0x04, &[], "n", "", 0), "04:1: "),
        (request(0x99, &[], "key", "value", 0), "99:81:{\"error\":{\"context\":\"No such command\"}} "),
        // Snappy and attributes are not agreed on.
        (
            of_datatype(2, request(0x01, &STORE, "a", "x", 0)),
            "01:4:{\"error\":{\"context\":\"The parts of the request do not fit together\"}} ",
        ),
        (
            of_datatype(4, request(0x01, &STORE, "a", "x", 0)),
            "01:4:{\"error\":{\"context\":\"The parts of the request do not fit together\"}} ",
        ),
        (request(0x00, &[], "a", "", 0), "00:0:-abcd "),
        (request(0xbb, &[], "", "_default._default", 0), "bb:0: "),
        (
            request(0xbb, &[], "", "_default.x", 0),
            "bb:88:{\"error\":{\"context\":\"There is only the collection _default\"},\"manifest_uid\":\"0\"} ",
        ),
        (
            request(0xbc, &[], "", "shop", 0),
            "bc:8c:{\"error\":{\"context\":\"There is only the scope _default\"},\"manifest_uid\":\"0\"} ",
        ),
        (request(0x0b, &[], "", "", 0), "0b:0:7.2.0-0000-community "),
        (request(0x0a, &[], "", "", 0), "0a:0: "),
        (request(0x08, &[], "", "", 0), "08:0: "),
        (request(0x00, &[], "a", "", 0), "00:1: "),
        (request(0x07, &[], "", "", 0), "07:0: "),
    ];
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for (bytes, want) in &conversation {
            let got = exchange(&mut world, &mut client, bytes, usize::from(!want.is_empty()));
            // The vbucket is 0 in all: lane 0's, so that nothing is sent on.
            assert_eq!(read(&got), *want, "{bytes:02x?} over {lane_count} lanes");
        }
        let mut world = self::world(lane_count);
        let mut client = world.connect(0);
        let bytes: Vec<u8> = conversation.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let got = exchange(&mut world, &mut client, &bytes, usize::MAX / 24);
        let want: String = conversation.iter().map(|(_, want)| *want).collect();
        assert_eq!(read(&got), want, "pipelined over {lane_count} lanes");
    }
}

#[test]
fn the_map_is_of_nodes_until_a_bucket_is_selected() {
    let mut world = world(2);
    let mut client = world.connect(1);
    let ask = request(0xb5, &[], "", "", 0);
    let got =
        replies(&exchange(&mut world, &mut client, &[hello(&[8, 0x0b, 0x1d]), ask.clone()].concat(), 2));
    let text = String::from_utf8(got[1].value.clone()).unwrap();
    assert!(
        !text.contains("vBucketServerMap")
            && text.contains(r#"{"services":{"kv":11211,"mgmt":8092},"thisNode":true}"#),
        "{text}"
    );
    assert_eq!(got[1].datatype, 1);
    let bytes = [request(0x89, &[], "default", "", 0), ask].concat();
    let got = replies(&exchange(&mut world, &mut client, &bytes, 2));
    let text = String::from_utf8(got[1].value.clone()).unwrap();
    assert!(text.starts_with(r#"{"rev":1,"revEpoch":1700000000000,"name":"default""#), "{text}");
    assert!(text.contains(r#""serverList":["$HOST:11210","$HOST:11211"]"#), "{text}");
    // Who has it already is not told it again; who has an older one is.
    for (epoch, revision, is_empty) in [
        (1_700_000_000_000_u64, 1_u64, true),
        (1_700_000_000_001, 0, true),
        (1_700_000_000_000, 0, false),
        (1_600_000_000_000, 9, false),
    ] {
        let extras = [epoch.to_be_bytes(), revision.to_be_bytes()].concat();
        let got = replies(&exchange(&mut world, &mut client, &request(0xb5, &extras, "", "", 0), 1));
        assert_eq!((got[0].status, got[0].value.is_empty()), (0, is_empty), "{epoch} {revision}");
    }
    let got = replies(&exchange(&mut world, &mut client, &request(0x10, &[], "vbucket", "", 0), 513));
    assert_eq!((got.len(), &got[0].key[..], &got[0].value[..]), (513, &b"vb_512"[..], &b"active"[..]));
    let got = replies(&exchange(&mut world, &mut client, &request(0xfe, &[], "", "\0\u{2}", 0), 1));
    assert!(got[0].value.starts_with(br#"{"version":2,"revision":1,"errors":{"#));
}

/// A client is sent on if both it and the key say that the partition is another lane's; all others are served.
#[test]
fn who_knows_the_map_is_sent_on_and_nobody_else() {
    let map = PartitionMap::even(4);
    let mut world = world(4);
    let (here, there) = (key_of(&map, 1), key_of(&map, 2));
    let set = |vbucket: u16, key: &str| request_at(vbucket, 0x01, &STORE, key.as_bytes(), b"v", 0);
    let own_vbucket = vbucket(here.as_bytes());
    let mut smart = selected(&mut world, 1, &[7, 0x0b]);
    assert_eq!(say(&mut world, &mut smart, &set(own_vbucket, &here)), "01:0: ");
    for _ in 0..2 {
        let got = replies(&exchange(&mut world, &mut smart, &set(vbucket(there.as_bytes()), &there), 1));
        assert_eq!((got[0].status, got[0].datatype), (7, 1));
        assert!(got[0].value.ends_with(b"}") && got[0].value.len() > 4096, "with the map");
    }
    // Another lane's partition that is none at all; and a quiet request is answered, too.
    let got = replies(&exchange(&mut world, &mut smart, &set(5000, &there), 1));
    assert_eq!(got[0].status, 7);
    let quiet = request_at(700, 0x11, &STORE, there.as_bytes(), b"v", 0);
    assert_eq!(replies(&exchange(&mut world, &mut smart, &quiet, 1))[0].status, 7);
    // The field says that it is here, the key that it is not: it is forwarded. The other way round it is served.
    assert_eq!(say(&mut world, &mut smart, &set(own_vbucket, &there)), "01:0: ");
    assert_eq!(say(&mut world, &mut smart, &set(vbucket(there.as_bytes()), &here)), "01:0: ");
    let stats = world.lanes[1].stats();
    let commands = stats.commands();
    assert_eq!((stats.commands_moved, commands.forwarded, commands.direct), (4, 1, 2));
    // Who has selected no bucket has no map.
    let mut plain = world.connect(1);
    assert_eq!(say(&mut world, &mut plain, &set(vbucket(there.as_bytes()), &there)), "01:0: ");
    let mut greeted = world.connect(1);
    let bytes = [hello(&[7]), set(vbucket(there.as_bytes()), &there)].concat();
    assert_eq!(replies(&exchange(&mut world, &mut greeted, &bytes, 2))[1].status, 0);
    // Who wants the map once gets it once, but again after it has begun anew.
    let mut once = selected(&mut world, 1, &[7, 0x1e]);
    let wrong = set(vbucket(there.as_bytes()), &there);
    let bytes = [&wrong[..], &wrong, &hello(&[0x1e]), &wrong].concat();
    let got = replies(&exchange(&mut world, &mut once, &bytes, 4));
    let sizes: Vec<bool> = got.iter().map(|reply| reply.value.len() > 4096).collect();
    assert_eq!(sizes, [true, false, false, true]);
    // Who has asked for it has had it.
    let mut asks = selected(&mut world, 1, &[7, 0x1e]);
    let got =
        replies(&exchange(&mut world, &mut asks, &[&request(0xb5, &[], "", "", 0)[..], &wrong].concat(), 2));
    assert_eq!((got[0].value.len() > 4096, got[1].status, got[1].value.len()), (true, 7, 0));
}

/// What was appended to is hardly JSON any more, whoever appends.
#[test]
fn a_document_that_was_appended_to_is_no_json() {
    let mut world = world(1);
    let mut client = selected(&mut world, 0, &[0x0b]);
    for (opcode, want) in [(0x0e, "1,"), (0x0f, ",1")] {
        let bytes = [
            of_datatype(1, request(0x01, &STORE, "k", "1", 0)),
            request(0x00, &[], "k", "", 0),
            request(opcode, &[], "k", ",", 0),
            request(0x00, &[], "k", "", 0),
        ];
        let got = replies(&exchange(&mut world, &mut client, &bytes.concat(), 4));
        assert_eq!((got[1].datatype, got[3].datatype, &got[3].value[..]), (1, 0, want.as_bytes()));
    }
}

/// Whoever asks for a copy, or for the newest change of another lane's partition, is told that it is another node's: no lane has a copy.
#[test]
fn a_copy_is_nobodys() {
    let map = PartitionMap::even(4);
    let mut world = world(4);
    let key = key_of(&map, 1);
    let mut smart = selected(&mut world, 1, &[7, 0x0b]);
    let mut plain = world.connect(1);
    for (opcode, vbucket, key, value) in [
        (0x83, vbucket(key.as_bytes()), &key[..], &b""[..]),
        (0x83, 1023, &key, b""),
        (0x91, 1023, "", b"history!"),
    ] {
        let bytes = request_at(vbucket, opcode, &[], key.as_bytes(), value, 0);
        let got = replies(&exchange(&mut world, &mut smart, &bytes, 1)).remove(0);
        assert!(got.status == 7 && got.value.starts_with(br#"{"rev":1"#) && got.value.len() > 4096);
        let got = replies(&exchange(&mut world, &mut plain, &bytes, 1)).remove(0);
        assert_eq!((got.status, &got.value[..]), (7, &b""[..]), "who has no bucket has no map");
    }
}

#[test]
fn collections_tokens_and_frames() {
    let mut world = world(1);
    let mut client = selected(&mut world, 0, &[4, 7, 0x0b, 0x10, 0x11, 0x12, 0x14]);
    let mut ask =
        |world: &mut World, bytes: &[u8]| replies(&exchange(world, &mut client, bytes, 1)).remove(0);
    let stored = ask(&mut world, &request(0x01, &STORE, "\0k", "v", 0));
    assert_eq!((stored.status, stored.extras.len()), (0, 16));
    let (history, number) = stored.extras.split_at(8);
    assert_eq!(number, stored.cas.to_be_bytes());
    let deleted = ask(&mut world, &request(0x04, &[], "\0k", "", 0));
    assert!(deleted.cas > stored.cas && deleted.extras[..8] == *history);
    let elsewhere = ask(&mut world, &request(0x01, &STORE, "\x08k", "v", 0));
    assert!(elsewhere.status == 0x88 && elsewhere.value.ends_with(br#","manifest_uid":"0"}"#));
    let counted = ask(&mut world, &request(0x05, &[&[0; 15][..], &[5, 0, 0, 0, 0]].concat(), "\0n", "", 0));
    assert_eq!((&counted.value[..], counted.extras.len()), (&[0, 0, 0, 0, 0, 0, 0, 5][..], 16));
    // The key comes back with its collection.
    assert_eq!(ask(&mut world, &request(0x0c, &[], "\0n", "", 0)).key, b"\0n");
    // The newest change, of which nothing is persisted; another history is not known.
    let seen = ask(&mut world, &request_at(3, 0x91, &[], b"", history, 0));
    assert_eq!(seen.value, [&[0, 0, 3][..], history, &[0; 8], &counted.cas.to_be_bytes()].concat());
    assert_eq!(ask(&mut world, &request_at(3, 0x91, &[], b"", &[9; 8], 0)).status, 1);
    let observed = ask(&mut world, &request_at(0, 0x92, &[], b"", b"\0\x07\0\x02\0n", 0));
    assert_eq!(observed.value, [&b"\0\x07\0\x02\0n\0"[..], &counted.cas.to_be_bytes()].concat());
    // Durable, as far as one copy in memory is; and a document that keeps its end.
    let framed = |frames: &[u8], extras: &[u8]| {
        let mut bytes = request_at(0, 0x01, &[frames, extras].concat(), b"\0d", b"v", 0);
        bytes[..5].copy_from_slice(&[8, 1, u8::try_from(frames.len()).unwrap(), 2, 8]);
        bytes
    };
    assert_eq!(ask(&mut world, &framed(b"\x13\x01\xca\x08", &[0, 0, 0, 0, 0, 0, 0, 90])).status, 0);
    assert_eq!(ask(&mut world, &framed(b"\x11\x02", &STORE)).status, 0xa0);
    let end = |reply: &Reply| u32::from_be_bytes(reply.extras[8..12].try_into().unwrap());
    let before = ask(&mut world, &request(0xa0, &[2], "\0d", "", 0));
    assert_eq!((end(&before), before.extras.len()), (1_700_000_090, 21));
    assert_eq!(ask(&mut world, &framed(b"\x50", &STORE)).status, 0);
    assert_eq!(end(&ask(&mut world, &request(0xa0, &[2], "\0d", "", 0))), 1_700_000_090);
    assert_eq!(ask(&mut world, &framed(b"", &STORE)).status, 0);
    let after = ask(&mut world, &request(0xa0, &[], "\0d", "", 0));
    assert_eq!((end(&after), after.extras.len()), (0, 20));
    // Another end is a change, the same end is none.
    let cas = |world: &mut World, ask: &mut dyn FnMut(&mut World, &[u8]) -> Reply, end: u8| {
        ask(world, &request(0x1c, &[0, 0, 0, end], "\0d", "", 0)).cas
    };
    let first = cas(&mut world, &mut ask, 50);
    assert!(first > after.cas);
    assert_eq!(cas(&mut world, &mut ask, 50), first);
    assert!(cas(&mut world, &mut ask, 51) > first);
    assert_eq!(ask(&mut world, &request(0x00, &[], "\0d", "", 0)).cas, first + 1);
}

#[test]
fn a_locked_document_is_its_holder_s() {
    let mut world = world(2);
    let mut holder = selected(&mut world, 0, &[7]);
    let mut old = world.connect(0);
    let mut text = world.connect_at(1, MEMCACHED);
    let mut line = |world: &mut World, bytes: &str| {
        let mut got = world.exchange(&mut text, bytes.as_bytes(), 1, 1000);
        for _ in 0..20 {
            world.round();
            text.pump();
        }
        got.append(&mut text.received);
        String::from_utf8(got).unwrap()
    };
    let lock = |seconds: u32| request(0x94, &seconds.to_be_bytes(), "k", "", 0);
    let set = |cas: u64| request(0x01, &STORE, "k", "new", cas);
    assert_eq!(say(&mut world, &mut holder, &lock(5)), "94:1: ");
    assert_eq!(line(&mut world, "set k 3 0 1\r\n7\r\n"), "STORED\r\n");
    let got = replies(&exchange(&mut world, &mut holder, &lock(5), 1)).remove(0);
    assert_eq!((got.status, &got.value[..], got.extras), (0, &b"7"[..], vec![0, 0, 0, 3]));
    let cas = got.cas;
    // Everybody may read it, nobody sees its CAS.
    assert_eq!(line(&mut world, "gets k\r\n"), format!("VALUE k 3 1 {}\r\n7\r\nEND\r\n", u64::MAX));
    assert_eq!(replies(&exchange(&mut world, &mut old, &request(0x00, &[], "k", "", 0), 1))[0].cas, u64::MAX);
    // Nobody may change it: neither in this dialect nor in another.
    for command in [
        "set k 0 0 1\r\nx\r\n",
        "append k 0 0 1\r\nx\r\n",
        "incr k 1\r\n",
        "touch k 9\r\n",
        "delete k\r\n",
        "mg k T9\r\n",
        "md k I\r\n",
        "cas k 0 0 1 9\r\nx\r\n",
    ] {
        assert_eq!(line(&mut world, command), "SERVER_ERROR locked\r\n", "{command}");
    }
    assert_eq!(line(&mut world, "add k 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    for (bytes, want) in [
        (set(0), "01:9: "),
        (set(cas + 1), "01:9: "),
        (request(0x0e, &[], "k", "x", 0), "0e:9: "),
        (request(0x04, &[], "k", "", 0), "04:9: "),
        (request(0x1c, &[0, 0, 0, 9], "k", "", 0), "1c:9: "),
        (request(0x1d, &[0, 0, 0, 9], "k", "", 0), "1d:9: "),
        (lock(5), "94:9: "),
        (request(0x95, &[], "k", "", cas + 1), "95:9: "),
    ] {
        assert_eq!(say(&mut world, &mut holder, &bytes), want);
    }
    // Who has not read the error map is told what it knows.
    assert_eq!(say(&mut world, &mut old, &set(0)), "01:2: ");
    assert_eq!(say(&mut world, &mut old, &lock(5)), "94:86: ");
    // The holder may, and so ends it.
    assert_eq!(say(&mut world, &mut holder, &set(cas)), "01:0: ");
    assert_eq!(say(&mut world, &mut old, &set(0)), "01:0: ");
    // It ends with UNLOCK, too, which ends it once.
    let cas = replies(&exchange(&mut world, &mut holder, &lock(0), 1))[0].cas;
    assert_eq!(say(&mut world, &mut old, &set(0)), "01:2: ");
    assert_eq!(say(&mut world, &mut holder, &request(0x95, &[], "k", "", cas)), "95:0: ");
    assert!(say(&mut world, &mut holder, &request(0x95, &[], "k", "", cas)).starts_with("95:e:"));
    assert_eq!(say(&mut world, &mut old, &set(0)), "01:0: ");
    // To make it stale is a change like others: the holder may, and so ends it.
    let cas = replies(&exchange(&mut world, &mut holder, &lock(30), 1))[0].cas;
    assert!(line(&mut world, "me k\r\n").contains(" fetch=yes "), "it was read when it was locked");
    assert_eq!(line(&mut world, &format!("md k I C{cas}\r\n")), "HD\r\n");
    assert_eq!(line(&mut world, "set k 0 0 1\r\n7\r\n"), "STORED\r\n");
    // And by time: what is asked for, 15 seconds for who asks for nothing or too much.
    for (asked, seconds) in [(2, 2), (30, 30), (0, 15), (31, 15)] {
        assert!(say(&mut world, &mut holder, &lock(asked)).starts_with("94:0:"));
        world.now.unix_ms += seconds * 1000 - 100;
        assert_eq!(say(&mut world, &mut holder, &set(0)), "01:9: ", "{asked}");
        world.now.unix_ms += 100;
        assert_eq!(say(&mut world, &mut holder, &set(0)), "01:0: ", "{asked}");
    }
    // What has gone takes its lock along.
    assert!(say(&mut world, &mut holder, &lock(30)).starts_with("94:0:"));
    assert_eq!(line(&mut world, "flush_all\r\n"), "OK\r\n");
    assert_eq!(say(&mut world, &mut old, &set(0)), "01:0: ");
    assert!(say(&mut world, &mut holder, &lock(30)).starts_with("94:0:"));
}

#[test]
fn strangers_are_told_to_log_in() {
    let mut settings = settings();
    settings.set_password(Some(b"secret".to_vec()));
    let mut world = World::new(2, &settings, 1, Faults::default());
    let mut client = world.connect(1);
    assert_eq!(say(&mut world, &mut client, &hello(&[8])), "1f:0:\0\u{8} ");
    assert_eq!(say(&mut world, &mut client, &request(0x00, &[], "a", "", 0)), "00:24: ");
    assert_eq!(say(&mut world, &mut client, &request(0x89, &[], "default", "", 0)), "89:24: ");
    assert_eq!(say(&mut world, &mut client, &request(0xb5, &[], "", "", 0)), "b5:24: ");
    let plain = |password: &str| request(0x21, &[], "PLAIN", &format!("\0any\0{password}"), 0);
    assert_eq!(say(&mut world, &mut client, &plain("wrong")), "21:20: ");
    assert_eq!(
        say(&mut world, &mut client, &request(0x22, &[], "SCRAM-SHA1", "c=biws,r=x,p=x", 0)),
        "22:20: "
    );
    assert_eq!(say(&mut world, &mut client, &request(0x21, &[], "SCRAM-SHA1", "nonsense", 0)), "21:20: ");
    assert_eq!(say(&mut world, &mut client, &request(0x21, &[], "CRAM-MD5", "", 0)), "21:20: ");
    let mut firsts = Vec::new();
    for mechanism in ["SCRAM-SHA1", "SCRAM-SHA256", "SCRAM-SHA512"] {
        let got = say(&mut world, &mut client, &request(0x21, &[], mechanism, "n,,n=any,r=mine", 0));
        assert!(got.starts_with("21:21:r=mine") && got.ends_with(",i=4096 "), "{got}");
        firsts.push(got);
        let last = request(0x22, &[], mechanism, "c=biws,r=mine,p=AAAA", 0);
        assert_eq!(say(&mut world, &mut client, &last), "22:20: ");
    }
    firsts.dedup_by_key(|first| first.split(',').next().unwrap().to_owned());
    assert_eq!(firsts.len(), 3, "the server's nonces are different");
    assert_eq!(say(&mut world, &mut client, &request(0x00, &[], "a", "", 0)), "00:24: ");
    assert_eq!(say(&mut world, &mut client, &plain("secret")), "21:0: ");
    assert_eq!(say(&mut world, &mut client, &request(0x00, &[], "a", "", 0)), "00:1: ");
    assert_eq!(say(&mut world, &mut client, &request(0x89, &[], "default", "", 0)), "89:0: ");
    // All of a greeting comes in one breath. Who asks on and on is cut.
    let ask = request(0xfe, &[], "", "\0\u{2}", 0);
    let mut client = world.connect(0);
    let bytes = [hello(&[7, 8]), ask.clone(), plain("secret")].concat();
    let got = replies(&exchange(&mut world, &mut client, &bytes, 3));
    assert_eq!(
        got.iter().map(|reply| (reply.opcode, reply.status)).collect::<Vec<_>>(),
        [(0x1f, 0), (0xfe, 0), (0x21, 0)]
    );
    let mut client = world.connect(0);
    let before: u64 = world.lanes.iter().map(|lane| lane.stats().clients).sum();
    exchange(&mut world, &mut client, &ask.repeat(5), 0);
    assert_eq!(world.lanes.iter().map(|lane| lane.stats().clients).sum::<u64>(), before);
    // Without a password whoever logs in is welcome, in any way.
    let mut world = self::world(1);
    let mut client = world.connect(0);
    for mechanism in ["PLAIN", "SCRAM-SHA512"] {
        assert_eq!(
            say(&mut world, &mut client, &request(0x21, &[], mechanism, "n,,n=any,r=mine", 0)),
            "21:0: "
        );
    }
}

#[test]
fn what_is_no_request_ends_the_connection() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"get k\r\n", b"\x81\0", b"*1\r\n$4\r\nPING\r\n"] {
        let mut world = world(1);
        let mut client = world.connect(0);
        assert_eq!(exchange(&mut world, &mut client, bytes, 0), b"");
        assert!(world.lanes[0].stats().clients == 0, "{}", bytes.escape_ascii());
    }
    let mut world = world(1);
    let mut client = world.connect(0);
    let mut short = request(0x00, &[], "key", "", 0);
    short[11] = 1;
    assert_eq!(say(&mut world, &mut client, &short), "00:4: ");
    assert!(world.lanes[0].stats().clients == 0);
}
