//! What concerns more than a record: scans, truncation, nodes and partitions, logging in, memory.

use std::collections::BTreeMap;

use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};
use wire::aerospike::client::{Message, frame, messages, put_authenticate, put_info, put_login, put_op};
use wire::aerospike::head::{info1, info2, info3};
use wire::aerospike::op::kind;

use crate::records::talk::{
    GENERATION, PORT, STARTED_MS, ask, batch, digest, exchange, get, put, settings, show, show_ops, sum,
    world,
};

/// The frames of a scan: `partitions` of `set`, its bins, and whether it is told what is through.
fn scan(set: &'static [u8], partitions: &[u16], is_told: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let info3 = if is_told { 0 } else { info3::PARTITION_DONE };
    let message = Message { info1: info1::READ, info3, namespace: b"test", set, ..Message::default() };
    Message { partitions, ..message }.put(&mut out);
    out
}

/// The same of which so many records are wanted, and which is told what is through.
fn limited_scan(set: &'static [u8], partitions: &[u16], max_records: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Message { info1: info1::READ, namespace: b"test", set, partitions, max_records, ..Message::default() }
        .put(&mut out);
    out
}

/// Sends a scan and takes rounds until the message has come that ends it.
pub(crate) fn scanned(world: &mut World, client: &mut Client, bytes: &[u8]) -> Vec<u8> {
    let mut last = [0; 30];
    last[..12].copy_from_slice(&[2, 3, 0, 0, 0, 0, 0, 22, 22, 0, 0, info3::LAST]);
    client.send(bytes);
    for _ in 0..40_000 {
        client.pump();
        if client.received.ends_with(&last) {
            return std::mem::take(&mut client.received);
        }
        world.round();
    }
    panic!("the scan does not end");
}

/// What a scan has found: digests with their bins, sorted; and its other messages.
fn found(mut bytes: &[u8]) -> (Vec<String>, String) {
    let (mut records, mut others) = (Vec::new(), String::new());
    while let Some((_, body, size)) = frame(bytes) {
        for message in messages(body) {
            if message.reply.field_count == 0 {
                others += &show(&bytes[..size], 0);
                continue;
            }
            let (mut at, mut text) = (0, String::new());
            for _ in 0..message.reply.field_count {
                let size = u32::from_be_bytes(*message.body[at..].first_chunk().unwrap()) as usize;
                let (kind, data) = (message.body[at + 4], &message.body[at + 5..at + 4 + size]);
                match kind {
                    4 => text += &format!("{:02x}{:02x} ", data[2], data[3]),
                    _ => text += &format!("{} ", String::from_utf8_lossy(data)),
                }
                at += 4 + size;
            }
            records.push(text + &show_ops(&message.body[at..]));
        }
        bytes = &bytes[size..];
    }
    records.sort();
    (records, others)
}

/// A node gives as many records as are wanted of its own, and says which partitions are others'.
#[test]
fn scans_end_with_as_many_records_as_are_wanted() {
    let all: Vec<u16> = (0..4096).collect();
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for number in 0..400 {
            let set: &'static [u8] = if number % 2 == 0 { b"even" } else { b"odd" };
            exchange(
                &mut world,
                &mut client,
                &put(number).set(set).text("long", &"x".repeat(500)).bytes(),
                1,
            );
        }
        let (mut sum, mut own_sum) = (0, 0);
        for lane in 0..lane_count {
            let mut client = world.connect(usize::from(lane));
            let mut scan = |world: &mut World, set, partitions: &[u16], limit| {
                found(&scanned(world, &mut client, &limited_scan(set, partitions, limit)))
            };
            let (records, others) = scan(&mut world, b"", &all, 1000);
            sum += records.len();
            let own: Vec<u16> = (0..4096).filter(|id| others.contains(&format!("0 g{id} done|"))).collect();
            own_sum += own.len();
            let unavailable = others.matches("11 g").count();
            assert_eq!((own.len() + unavailable, others.ends_with("0 g0 last|")), (4096, true));
            for limit in [1, 7, 40] {
                let (some, others) = scan(&mut world, b"", &own, limit);
                assert_eq!(some.len() as u64, limit);
                assert!(some.iter().all(|record| records.contains(record)) && others.ends_with("0 g0 last|"));
                // Behind the last record nothing is said to be through.
                assert!(others.matches("done").count() < own.len());
                assert_eq!(scan(&mut world, b"odd", &own, limit).0.len() as u64, limit);
            }
            // Just as many as there are.
            let (same, _) = scan(&mut world, b"", &own, records.len() as u64);
            assert_eq!(same, records);
            assert_eq!(scan(&mut world, b"none", &own, 5).0.len(), 0);
        }
        assert_eq!((sum, own_sum), (400, 4096));
    }
}

/// Records that lie beside each other are counted one by one.
#[test]
fn scans_end_within_a_partition() {
    let mut world = world(1);
    let mut client = world.connect(0);
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, 1, b"n", &7_u64.to_be_bytes());
    for number in 0..40 {
        let mut digest = [7; 20];
        digest[19] = number;
        let mut bytes = Vec::new();
        let message =
            Message { info2: info2::WRITE, namespace: b"test", digest: Some(&digest), ..Message::default() };
        Message { ops: (1, &ops), ..message }.put(&mut bytes);
        exchange(&mut world, &mut client, &bytes, 1);
    }
    let partition = wire::route::partition(&[7; 20]);
    for limit in 1..=41 {
        let (records, others) =
            found(&scanned(&mut world, &mut client, &limited_scan(b"", &[partition], limit)));
        assert_eq!((records.len() as u64, others.ends_with("0 g0 last|")), (limit.min(40), true));
        // Nor is it through while there is a record behind the last one.
        assert_eq!(others.matches("done").count(), usize::from(limit >= 40), "{others}");
    }
}

#[test]
fn scans_find_every_record_once_and_truncation_none() {
    let all: Vec<u16> = (0..4096).collect();
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for number in 0..200 {
            let set: &'static [u8] = if number % 2 == 0 { b"even" } else { b"odd" };
            let mut ask = put(number).set(set).number("n", i64::from(number));
            if number == 8 {
                ask = ask.user_key(b"\x03key").text("long", &"x".repeat(50_000));
            }
            exchange(&mut world, &mut client, &ask.bytes(), 1);
        }
        let mut count = |world: &mut World, set: &'static [u8]| {
            let got = exchange(world, &mut client, &scan(set, &all, false), 201);
            let (records, others) = found(&got);
            assert_eq!(others, "0 g0 last|");
            records
        };
        let records = count(&mut world, b"");
        assert_eq!(records.len(), 200);
        assert_eq!(records[0], "test even 0000 n=i0");
        let long = "x".repeat(50_000);
        let long = format!("({} bytes, {})", long.len(), sum(long.as_bytes()));
        assert!(records.contains(&format!("test even 0008 \u{3}key n=i8,long={long}")));
        assert_eq!(count(&mut world, b"odd").len(), 100);
        assert_eq!(count(&mut world, b"none").len(), 0);
        // Partitions that are empty, and one that is not, each said to be through.
        let number = 12_u16;
        let partition = wire::route::partition(&digest(number));
        let got = exchange(&mut world, &mut client, &scan(b"even", &[4095, partition], true), 4);
        let (records, others) = found(&got);
        assert_eq!(records, ["test even 000c n=i12"]);
        assert_eq!(others, format!("0 g4095 done|0 g{partition} done|0 g0 last|"));
        // Some bins, and none.
        let mut bins = Vec::new();
        let mut ops = Vec::new();
        put_op(&mut ops, kind::READ, 0, b"zz", b"");
        let message =
            Message { info1: 1, namespace: b"test", partitions: &[partition], ..Message::default() };
        Message { ops: (1, &ops), ..message }.put(&mut bins);
        Message { info1: 1 | info1::NO_BINS, ..message }.put(&mut bins);
        ops.clear();
        put_op(&mut ops, kind::CDT_READ, 0, b"zz", b"");
        Message { ops: (1, &ops), ..message }.put(&mut bins);
        let (records, others) = found(&exchange(&mut world, &mut client, &bins, 8));
        assert_eq!(records, ["test even 000c ", "test even 000c "]);
        let through = format!("0 g{partition} done|0 g0 last|");
        assert_eq!(others, format!("{through}{through}16 g{partition} done|0 g0 last|"));

        let mut info = |world: &mut World, names: &str| {
            let mut bytes = Vec::new();
            put_info(&mut bytes, names);
            show(&exchange(world, &mut client, &bytes, 1), 0)
        };
        let refused = "truncate:namespace=other\tERROR:20:there is no such namespace|";
        assert_eq!(info(&mut world, "truncate:namespace=other\n"), refused);
        // Records are removed that are older than an instant in nanoseconds: none, or nobody knows which. Here the server begins
        // before its clock does.
        world.now.unix_ms = STARTED_MS + 10;
        for (lut, want) in [
            ("5", "ERROR:4:would truncate to 0"),
            ("1262304000000999999", "ERROR:4:would truncate to 0"),
            ("1262304000001000000", "ok"),
            (&format!("{STARTED_MS}999999"), "ok"),
            (&format!("{}000000", STARTED_MS + 1), "ERROR:4:the instants of changes are not kept"),
            (&format!("{}999999", STARTED_MS + 10), "ERROR:4:the instants of changes are not kept"),
            (&format!("{}000000", STARTED_MS + 1_000_000), "ERROR:4:would truncate in the future"),
            ("soon", "ERROR:4:lut is a number of nanoseconds"),
        ] {
            let name = format!("truncate:namespace=test;set=even;lut={lut}");
            let late = info(&mut world, &format!("{name}\n"));
            assert!(late.starts_with(&format!("{name}\t{want}")), "{late}");
        }
        let beside = info(&mut world, "truncate:namespace=test\nbuild\n");
        assert!(
            beside.contains("ERROR:4:truncate is asked for alone") && beside.ends_with("7.0.0.0|"),
            "{beside}"
        );
        assert_eq!(keys(&world), 200);
        let name = "truncate:namespace=test;set=even";
        assert_eq!(info(&mut world, &format!("{name}\n")), format!("{name}\tok|"));
        assert_eq!(keys(&world), 100);
        let name = "truncate-namespace:namespace=test";
        assert_eq!(info(&mut world, &format!("{name}\n")), format!("{name}\tok|"));
        assert_eq!(keys(&world), 0);
    }
}

/// Names that would make a long reply, again and again: what is behind a bound is refused, and nothing of it is put together.
#[test]
fn a_request_for_too_much_is_answered_in_part() {
    let mut world = world(1);
    let mut client = world.connect(0);
    for _ in 0..2 {
        let mut bytes = Vec::new();
        put_info(&mut bytes, &"replicas\n".repeat(3000));
        let said = show(&exchange(&mut world, &mut client, &bytes, 1), 0);
        assert!(said.matches("replicas\ttest:0,1,").count() > 100);
        assert!(said.matches("replicas\tERROR:4:this request asks for too much at a time").count() > 2000);
        assert!(said.len() < 500_000, "{} bytes", said.len());
        bytes.clear();
        put_info(&mut bytes, "build\n");
        assert_eq!(show(&exchange(&mut world, &mut client, &bytes, 1), 0), "build\t7.0.0.0|");
    }
}

fn keys(world: &World) -> u64 {
    world.lanes.iter().map(|lane| lane.shard().memory().keys).sum()
}

/// Every lane says of itself what a node says: its name, who else there is, and which partitions are its own.
#[test]
fn lanes_are_nodes() {
    let lane_count = 3;
    let mut world = world(lane_count);
    let mut owned = vec![0; 512];
    let mut owners = Vec::new();
    for lane in 0..lane_count {
        let mut client = world.connect(usize::from(lane));
        let mut ask = |name: &str| {
            let mut bytes = Vec::new();
            put_info(&mut bytes, &format!("{name}\n"));
            let reply = show(&exchange(&mut world, &mut client, &bytes, 1), 0);
            reply
                .strip_prefix(&format!("{name}\t"))
                .and_then(|value| value.strip_suffix('|'))
                .unwrap()
                .to_owned()
        };
        let node = |lane: u16| format!("A000000BB8{lane:04X}");
        assert_eq!(ask("node"), node(lane));
        assert_eq!(ask("service-clear-std"), format!("127.0.0.1:{}", PORT + lane));
        let others = (0..lane_count).filter(|other| *other != lane);
        let peer = |lane: u16| format!("[{},,[127.0.0.1:{}]]", node(lane), PORT + lane);
        let peers: Vec<String> = others.map(peer).collect();
        assert_eq!(ask("peers-clear-std"), format!("{GENERATION},{PORT},[{}]", peers.join(",")));
        for name in ["partition-generation", "peers-generation", "rebalance-generation"] {
            assert_eq!(ask(name), GENERATION.to_string());
        }
        assert_eq!(ask("namespaces"), "test");
        assert_eq!(ask("user-agent-set:value=eA=="), "ok");
        assert_eq!(ask("nonsense"), "ERROR:4:unrecognized command");
        for name in ["sindex-create:namespace=test;set=a;indexname=i", "udf-remove:filename=a.lua"] {
            assert_eq!(ask(name), "ERROR:16:there are neither secondary indexes nor functions here");
        }
        assert_eq!(ask("namespace/other"), "ERROR:20:there is no such namespace");
        assert!(
            ask("namespace/test").contains(";objects=0;") && ask("statistics").starts_with("cluster_size=3;")
        );
        let replicas = ask("replicas");
        let map = replicas.strip_prefix("test:0,1,").unwrap();
        assert_eq!((map.len(), ask("replicas-master")), (684, format!("test:{map}")));
        for (sum, letters) in owned.chunks_mut(3).zip(map.as_bytes().chunks(4)) {
            let decoded = decode(letters);
            for (sum, byte) in sum.iter_mut().zip(decoded) {
                assert_eq!(*sum & byte, 0, "no partition is owned twice");
                *sum |= byte;
            }
        }
        owners.push(map.to_owned());
    }
    assert!(owned.iter().all(|byte| *byte == 0xff), "every partition has an owner");
    // What belongs to a lane is not forwarded.
    for number in 0..100_u16 {
        let partition = usize::from(wire::route::partition(&digest(number)));
        let owns = |map: &String| {
            let letters = &map.as_bytes()[partition / 24 * 4..][..4];
            decode(letters)[partition % 24 / 8] & 0x80 >> (partition % 8) != 0
        };
        let owner = owners.iter().position(owns).unwrap();
        let before = world.lanes[owner].stats().commands();
        let mut client = world.connect(owner);
        exchange(&mut world, &mut client, &put(number).text("a", "x").bytes(), 1);
        let after = world.lanes[owner].stats().commands();
        assert_eq!((after.direct - before.direct, after.forwarded - before.forwarded), (1, 0));
    }
}

/// What a lane has counted of its clients' requests, and the address of one that is announced by an IPv6 host.
#[test]
fn a_node_counts_and_has_an_address() {
    let settings = Settings { announce_ip: Some("fe80::1".to_owned()), ..settings() };
    let mut world = World::new(2, &settings, 1, Faults::default());
    let mut client = world.connect(0);
    let map = wire::route::PartitionMap::even(2);
    let is_here = |number: &u16| {
        let slot = wire::route::Slot::of_partition(wire::route::partition(&digest(*number)));
        map.owner(slot).0 == 0
    };
    for number in [
        (0..).find(is_here).unwrap(),
        (0..).find(|number| !is_here(number)).unwrap(),
        (0..).find(is_here).unwrap(),
    ] {
        exchange(&mut world, &mut client, &get(number).bytes(), 1);
    }
    let mut bytes = Vec::new();
    put_info(&mut bytes, "statistics\nservice-clear-std\npeers-clear-std\n");
    let said = show(&exchange(&mut world, &mut client, &bytes, 1), 0);
    assert!(said.contains(";requests_direct=2;requests_forwarded=1\n"), "{said}");
    assert!(
        said.contains("service-clear-std\t[fe80::1]:3000\n") && said.contains("[[fe80::1]:3001]]]"),
        "{said}"
    );
}

/// Three bytes of four letters of base64; what is padding is zeros.
fn decode(letters: &[u8]) -> [u8; 3] {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let bits = letters.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(value(*letter)));
    let [_, a, b, c] = bits.to_be_bytes();
    [a, b, c]
}

/// A password is said by its credential; the token that comes back opens further connections, on every lane.
#[test]
fn strangers_log_in_first() {
    let mut settings = settings();
    settings.set_password(Some(b"secret".to_vec()));
    let credential = auth::aerospike_credential(b"secret");
    let mut world = World::new(2, &settings, 1, Faults::default());
    let mut client = world.connect(0);
    let say = |world: &mut World, client: &mut Client, bytes: &[u8]| {
        let got = exchange(world, client, bytes, 1);
        let (frame_kind, body, size) = frame(&got).unwrap();
        assert_eq!(size, got.len());
        if frame_kind == 2 { (body[1], body[16..].to_vec()) } else { (0, show(&got, 0).into_bytes()) }
    };
    let login = |credential: &str| {
        let mut bytes = Vec::new();
        put_login(&mut bytes, "any", credential.as_bytes());
        bytes
    };
    assert_eq!(say(&mut world, &mut client, &get(1).bytes()).1, b"80 g0|");
    assert_eq!(say(&mut world, &mut client, &batch(&[get(1)])).1, b"80 g0|");
    let mut node = Vec::new();
    put_info(&mut node, "node\n");
    assert_eq!(say(&mut world, &mut client, &node).1, b"node\tERROR:80:not authenticated|");
    assert_eq!(say(&mut world, &mut client, &login("wrong")).0, 65);
    assert_eq!(say(&mut world, &mut client, &get(1).bytes()).1, b"80 g0|");
    let (code, fields) = say(&mut world, &mut client, &login(&credential));
    assert_eq!(code, 0);
    let size = u32::from_be_bytes(*fields.first_chunk().unwrap()) as usize;
    let token = &fields[5..4 + size];
    assert_eq!(say(&mut world, &mut client, &get(1).bytes()).1, b"2 g0|");
    let mut other = world.connect(1);
    let authenticate = |token: &[u8]| {
        let mut bytes = Vec::new();
        put_authenticate(&mut bytes, "any", token);
        bytes
    };
    assert_eq!(say(&mut world, &mut other, &authenticate(b"old")).0, 66);
    assert_eq!(say(&mut world, &mut other, &get(1).bytes()).1, b"80 g0|");
    assert_eq!(say(&mut world, &mut other, &authenticate(token)), (0, Vec::new()));
    assert_eq!(say(&mut world, &mut other, &get(1).bytes()).1, b"2 g0|");
    // Without a password there is nothing to log in for.
    let mut world = self::world(1);
    let mut client = world.connect(0);
    assert_eq!(say(&mut world, &mut client, &login(&credential)).0, 52);
}

/// What is no request ends the connection, and nothing else.
#[test]
fn other_languages_are_closed() {
    let mut world = world(2);
    for bytes in [
        &b"PING\r\n"[..],
        b"*1\r\n$4\r\nPING\r\n",
        &[0x80; 24],
        &[2, 9, 0, 0, 0, 0, 0, 0],
        &[2, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        let mut client = world.connect(0);
        exchange(&mut world, &mut client, &get(1).bytes(), 1);
        let got = exchange(&mut world, &mut client, bytes, 1);
        assert!(got.is_empty() && client.end.at_end(), "{}", bytes.escape_ascii());
    }
    let mut client = world.connect(1);
    assert_eq!(show(&exchange(&mut world, &mut client, &get(1).bytes(), 1), 0), "2 g0|");
}

/// Without room a write is refused, and what is there can be read and deleted.
#[test]
fn full_memory_refuses_writes() {
    let settings = Settings { memory_size_max: 4 << 20, ..settings() };
    let mut world = World::new(2, &settings, 1, Faults::default());
    let mut client = world.connect(0);
    let value = "x".repeat(100_000);
    let mut codes = BTreeMap::new();
    for number in 0..100 {
        let got = exchange(&mut world, &mut client, &put(number).text("a", &value).bytes(), 1);
        *codes.entry(show(&got, 0)).or_insert(0) += 1;
    }
    assert!(codes.len() == 2 && codes["0 g1|"] > 10 && codes["8 g0|"] > 10, "{codes:?}");
    let got = exchange(&mut world, &mut client, &ask(0, info1::READ | info1::NO_BINS, 0, 0).bytes(), 1);
    assert_eq!(show(&got, 0), "0 g1|");
    let got = exchange(&mut world, &mut client, &ask(0, 0, info2::WRITE | info2::DELETE, 0).bytes(), 1);
    assert_eq!(show(&got, 0), "0 g0|");
}

/// Bytes from digits; blanks and bars do not count.
fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What asbench, the benchmark before it and the Python client send, byte for byte, and what they read: over one lane, and over
/// four to one that does not own the records.
#[test]
fn captured_frames_are_answered_byte_for_byte() {
    let info = |text: &str| {
        let mut out = Vec::new();
        put_info(&mut out, text);
        out
    };
    let key = "54c8d84fd481fbba6d8939690343b018f5eabe48";
    let fields = format!("0000000500 74657374 | 0000000801 74657374736574 | 0000001504 {key}");
    let get = format!("0203000000000044 1603000000000000000000000000000003e800030000 {fields}");
    let value = "78".repeat(32);
    let op = |kind: &str| format!("0000002b {kind} 03 00 07 74657374 62696e {value}");
    let put = format!("0203000000000073 1600010000000000000000000000000003e800030001 {fields} {}", op("02"));
    // Deletes of its mix are writes of nothing.
    let nil = format!(
        "0203000000000053 1600010000000000000000000000000003e800030001 {fields} 0000000b 02 00 00 07 74657374 62696e"
    );
    let replace =
        format!("0203000000000073 1600011000000000000000000000000003e800030001 {fields} {}", op("02"));
    let name = "00 00 07 74657374 62696e";
    let some =
        format!("0203000000000053 1601000000000000000000000000000003e800030001 {fields} 0000000b 01 {name}");
    let exists = format!("0203000000000044 1621000000000000000000000000000003e800030000 {fields}");
    let remove = format!("0203000000000044 1600030000000000000000000000000003e800030000 {fields}");
    // The get by zlib 1.2.13 at its first level, and what is no stream.
    let compressed = "0204000000000047 000000000000004c 780163626600011731080de68008e6170c1011568692d4e212a008072388519c0a628b
                      b2849cb8e17fa5f1f7aedc4ecb4c66e70d125f5fedf300006166111c";
    let broken = "0204000000000010 0000000000000044 789c0000000000ff";
    let missing = "0203000000000016 16000000000200000000000000000000000000000000";
    let written = "0203000000000016 16000000000000000001000000000000000000000000".to_owned();
    let conversation = [
        (get.clone(), missing.to_owned()),
        (compressed.to_owned(), missing.to_owned()),
        (nil.clone(), missing.to_owned()),
        (put, written.clone()),
        (get.clone(), format!("0203000000000045 16000000000000000001000000000000000000000001 {}", op("01"))),
        (exists, written),
        (replace, "0203000000000016 16000000000000000002000000000000000000000000".to_owned()),
        (some, format!("0203000000000045 16000000000000000002000000000000000000000001 {}", op("01"))),
        (broken.to_owned(), "0203000000000016 16000001000400000000000000000000000000000000".to_owned()),
        (nil, "0203000000000016 16000000000000000000000000000000000000000000".to_owned()),
        (remove, missing.to_owned()),
        (
            "0203000000000072 1608 00000000 00000000 00000000 000003e8 0001 0000 | 00000058 29 00000002 0d |
             00000000 b747f5854d0b33259928d0cfab7fad81d6abfbf6 0a 03 00 00 00000000 0002 0000 00000005 00 74657374 00000008
             01 74657374736574 | 00000007 ceded27492b392e0232514bb54a8ec2076acef37 01"
                .to_owned(),
            format!(
                "{missing} 0203000000000016 160000000002 00000000 00000000 00000007 0000 0000
                 0203000000000016 160000010000 00000000 00000000 00000000 0000 0000"
            ),
        ),
        (
            // A batch that writes: each operation is answered.
            format!(
                "020300000000008a 1608 00000000 00000000 00000000 000003e8 0001 0000 | 00000070 29 00000001 0d |
                 00000000 {key} 0e 00 81 00 0000 00000000 0002 0001 00000005 00 74657374 00000008 01 74657374736574 {}",
                op("02")
            ),
            format!(
                "0203000000000025 160000000000 00000001 00000000 00000000 0000 0001 0000000b 02 {name}
                 0203000000000016 160000010000 00000000 00000000 00000000 0000 0000"
            ),
        ),
        (
            // LOGIN where there is no password.
            "0202 00000000005b 00001402 000000000000000000000000 00000006 00 61646d696e 0000003d 03".to_owned()
                + &"24".repeat(60),
            "0202 000000000010 00341400 000000000000000000000000".to_owned(),
        ),
    ];
    for (lane_count, lane) in [(1, 0), (4, 0), (4, 3)] {
        let mut world = world(lane_count);
        let mut client = world.connect(lane);
        for names in [
            "node\npartition-generation\nbuild\n",
            // Those of the benchmark in the C client of 2021 and before.
            "node\npartition-generation\nfeatures\n",
            "partitions\n",
            "peers-clear-std\n",
            "partition-generation\nreplicas\n",
            "namespace/test\n",
            "node\npeers-generation\npartition-generation\n",
        ] {
            let got = exchange(&mut world, &mut client, &info(names), 1);
            let (kind, body, _) = frame(&got).unwrap();
            let lines: Vec<&str> = std::str::from_utf8(body).unwrap().lines().collect();
            assert_eq!((kind, lines.len()), (1, names.lines().count()));
            for (line, name) in lines.iter().zip(names.lines()) {
                let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix('\t')).unwrap();
                assert!(
                    !value.is_empty() && !value.starts_with("ERROR") && !value.starts_with("FAIL"),
                    "{line}"
                );
            }
        }
        for (asked, want) in &conversation {
            let want = bytes(want);
            let mut count = 0;
            let mut at = 0;
            while let Some((_, _, size)) = frame(&want[at..]) {
                (at, count) = (at + size, count + 1);
            }
            let got = exchange(&mut world, &mut client, &bytes(asked), count);
            assert_eq!(got, want, "{asked} over {lane_count} lanes");
        }
        // With `-w RU,100 --async -c 142` a get is under way on each of so many connections.
        let mut clients: Vec<Client> = (0..142).map(|_| world.connect(lane)).collect();
        clients.iter_mut().for_each(|client| client.send(&bytes(&get)));
        let found =
            bytes(&format!("0203000000000045 16000000000000000001000000000000000000000001 {}", op("01")));
        for _ in 0..1000 {
            clients.iter_mut().for_each(Client::pump);
            if clients.iter().all(|client| client.received == found) {
                break;
            }
            world.round();
        }
        assert!(clients.iter().all(|client| client.received == found));
    }
}
