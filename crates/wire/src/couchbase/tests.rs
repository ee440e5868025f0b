//! Requests as clients send them, cut anywhere, and replies byte by byte.

use super::*;
use crate::fuzz::memcached::read_as;
use crate::memcached::tests::show;
use crate::memcached::{Bits, Framing, Head, Item, Limits, Outcome, Say, Status, Verb, reply};
use request::MAGIC_FRAMED;

/// Bytes from hex digits and words in quotes.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, part) in text.split('"').enumerate() {
        if index % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(u8::is_ascii_hexdigit).collect();
        out.extend(
            digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()),
        );
    }
    out
}

fn words(input: &[u8], cut: usize, limits: &Limits) -> Vec<String> {
    let piece = |arrived: usize| if arrived < cut { cut - arrived } else { usize::MAX };
    read_as(Framing::Couchbase, input, piece, limits).iter().map(show).collect()
}

/// `input` becomes these commands, however it is cut in two.
#[track_caller]
fn check(input: &[u8], want: &[&str]) {
    let want: Vec<String> = want.iter().map(|words| format!("Couchbase {words}")).collect();
    for cut in 0..=input.len() {
        let got = words(input, cut, &Limits::default());
        assert_eq!(got, want, "{} cut at {cut}", input[..input.len().min(100)].escape_ascii());
    }
}

/// A request with extras, key and value; its opaque is 7.
fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80, opcode];
    out.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    out.extend([u8::try_from(extras.len()).unwrap(), 0, 0, 0]);
    out.extend(u32::try_from(extras.len() + key.len() + value.len()).unwrap().to_be_bytes());
    out.extend([0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend([extras, key, value].concat());
    out
}

/// HELLO with these features.
fn hello(codes: &[u8]) -> Vec<u8> {
    let list: Vec<u8> = codes.iter().flat_map(|code| [0, *code]).collect();
    request(0x1f, b"", b"me", &list)
}

#[test]
fn what_clients_send() {
    // As captured: gocb without collections and tokens, with an expiry of a minute.
    check(
        &bytes(
            r#"80 01 0002 08 00 02bb 00000011 00000007 0000000000000000 02000000 0000003c "g1" "{"22"a"22":1}" "#,
        ),
        &[r#"Set [g1] [] [{\"a\":1}] opcode=1 opaque=7 vbucket=699 flags=33554432 exptime=60"#],
    );
    check(
        &bytes(r#"80 00 0002 00 00 02bb 00000002 00000008 0000000000000000 "g1""#),
        &["Get [g1] opaque=8 vbucket=699 +value"],
    );
    // memtier and mcsoda, who know of no handshake.
    check(
        &bytes(
            r#"80 01 0009 08 00 0000 00000019 00000000 0000000000000000 0000000000000000 "memtier-9" "xxxxxxxx""#,
        ),
        &["Set [memtier-9] [] [xxxxxxxx] opcode=1"],
    );
    check(
        &bytes(r#"80 21 0005 00 00 0000 0000000e 00000000 0000000000000000 "PLAIN" 00 "default" 00"#),
        &["SaslAuth [PLAIN] [] [\\x00default\\x00] opcode=33"],
    );
    check(
        &bytes(
            r#"80 89 0007 00 00 0000 00000007 00000001 0000000000000000 "default" 80 b5 0000 00 00 0000 00000000 00000002 0000000000000000"#,
        ),
        &["SelectBucket [default] opcode=137 opaque=1", "ClusterConfig [] opcode=181 opaque=2"],
    );
    // libcouchbase: with frames, and the timeout in the order of its machine.
    check(
        &bytes(
            r#"08 01 04 02 08 00 00ef 00000013 00000003 0000000000000000 13 01 ca08 00000000 00000000 "k1" "abcde""#,
        ),
        &["Set [k1] [] [abcde] opcode=1 opaque=3 vbucket=239"],
    );
    check(
        &request(0x05, &bytes("0000000000000002 0000000000000005 00000000"), b"c1", b""),
        &["Incr [c1] opcode=5 opaque=7 delta=2 initial=5 +creates"],
    );
    check(&request(0x1c, &[0, 0, 0, 60], b"k", b""), &["Touch [k] opcode=28 opaque=7 exptime=60"]);
    check(&request(0x94, &[0, 0, 0, 9], b"k", b""), &["GetLocked [k] opcode=148 opaque=7 exptime=9 +value"]);
    check(&request(0x83, b"", b"k", b""), &["GetReplica [k] opcode=131 opaque=7"]);
    check(&request(0x94, b"", b"k", b""), &["GetLocked [k] opcode=148 opaque=7 +value"]);
    check(&request(0xa0, &[2], b"k", b""), &["GetMeta [k] opcode=160 opaque=7 +datatype"]);
    check(
        &request(0xb5, &bytes("0000000000000001 0000000000000002"), b"", b""),
        &["ClusterConfig [] opcode=181 opaque=7 delta=1 initial=2 +map"],
    );
    check(&request(0xfe, b"", b"", &[0, 2]), &["ErrorMap [] [] [\\x00\\x02] opcode=254 opaque=7"]);
    check(&request(0x10, b"", b"settings", b""), &["Stats [] [] [settings] opcode=16 opaque=7"]);
    check(&request(0x10, b"", b"", b""), &["Stats [] [] [] opcode=16 opaque=7"]);
    check(&request(0x10, b"", b"vbucket", b""), &["VbucketStats [] [] [vbucket] opcode=16 opaque=7"]);
    check(&request(0x91, b"", b"", b"historyy"), &["ObserveSeqno [] [] [historyy] opcode=145 opaque=7"]);
    check(&request(0x92, b"", b"", b"\x01\x02\0\x03key"), &["Observe [key] opcode=146 opaque=7 vbucket=258"]);
}

#[test]
fn hello_decides_how_the_rest_is_read() {
    let mut input = hello(&[0x0b, 0x07, 0x04, 0x12]);
    input.extend(request(0x01, &[0; 8], b"\0k1", b"v"));
    input.extend(request(0x0c, b"", b"\0k1", b""));
    input.extend(request(0x00, b"", b"\x08k1", b""));
    input.extend(request(0xbb, b"", b"", b"_default.x"));
    // A second HELLO begins anew.
    input.extend(hello(&[]));
    input.extend(request(0x01, &[0; 8], b"\0k1", b"v"));
    check(
        &input,
        &[
            r"Hello [me] [] [\x00\x0b\x00\x07\x00\x04\x00\x12] opcode=31 opaque=7",
            "Set [k1] [] [v] opcode=1 opaque=7 +json +errors +token +collection",
            "Get [k1] opcode=12 opaque=7 +key +value +json +errors +collection",
            "Refuse [] opaque=7 delta=136 +json +errors",
            "CollectionId [] [] [_default.x] opcode=187 opaque=7 +json +errors",
            "Hello [me] [] [] opcode=31 opaque=7 +json +errors",
            r"Set [\x00k1] [] [v] opcode=1 opaque=7",
        ],
    );
    // A long value does not forget it, whether it comes at once or in pieces.
    let long = vec![b'v'; 100_000];
    let input =
        [hello(&[0x12]), request(0x01, &[0; 8], b"\0k", &long), request(0x00, b"", b"\0k", b"")].concat();
    for cut in [0, 30, 61, 70, 80, 40_000, input.len() - 20] {
        let got = words(&input, cut, &Limits::default());
        assert_eq!((got.len(), &got[2]), (3, &"Couchbase Get [k] opaque=7 +value +collection".to_owned()));
        assert!(got[1].contains("Set [k] []") && got[1].len() > 100_000);
    }
}

/// What is answered with a status, and that the next request is found.
#[track_caller]
fn refused(mut input: Vec<u8>, status: Status) {
    let opcode = if input[1] == 0 { String::new() } else { format!("opcode={} ", input[1]) };
    input.extend(request(0x0a, b"", b"", b""));
    let refusal = format!("Refuse [] {opcode}opaque=7 delta={}", status.0);
    check(&input, &[&refusal, "Noop [] opcode=10 opaque=7"]);
}

#[test]
fn what_is_refused_has_its_body_swallowed() {
    let with = |mut input: Vec<u8>, index: usize, byte: u8| {
        input[index] = byte;
        input
    };
    refused(request(0xd9, b"xx", b"key", b"value"), Status::UNKNOWN_COMMAND);
    refused(request(0x23, &[0; 4], b"key", b""), Status::UNKNOWN_COMMAND);
    refused(request(0x83, b"", b"", b""), Status::INVALID);
    let get = || request(0x00, b"", b"key", b"");
    refused(request(0x00, b"", b"", b""), Status::INVALID);
    refused(request(0x00, b"", &[b'k'; 251], b""), Status::INVALID);
    check(&request(0x00, b"", &[b'k'; 250], b""), &[&format!("Get [{}] opaque=7 +value", "k".repeat(250))]);
    refused(request(0x00, b"x", b"key", b""), Status::INVALID);
    refused(request(0x00, b"", b"key", b"x"), Status::INVALID);
    refused(with(get(), 5, 2), Status::INVALID);
    for datatype in [2, 3, 4, 8] {
        refused(with(request(0x01, &[0; 8], b"k", b"value"), 5, datatype), Status::INVALID);
    }
    // Nothing can be added that has a CAS.
    check(&with(request(0x02, &[0; 8], b"k", b"v"), 23, 1), &["Refuse [] opcode=2 opaque=7 cas=1 delta=4"]);
    refused(request(0x95, b"", b"k", b""), Status::INVALID);
    refused(request(0xa0, &[3], b"k", b""), Status::INVALID);
    refused(request(0x1f, b"", b"me", b"odd"), Status::INVALID);
    refused(request(0x1f, b"", b"me", &[0; 514]), Status::INVALID);
    refused(request(0xfe, b"", b"", b"1"), Status::INVALID);
    refused(request(0x21, b"", &[b'x'; 33], b"v"), Status::INVALID);
    refused(request(0x91, b"", b"", b"short"), Status::INVALID);
    refused(request(0x92, b"", b"", b"\0\0\0\x01ab\0\x01b"), Status::NOT_SUPPORTED);
    let framed = |opcode: u8, frames: &[u8], extras: &[u8]| {
        let mut input = request(opcode, &[frames, extras].concat(), b"k", b"");
        input[..5].copy_from_slice(&[
            MAGIC_FRAMED,
            opcode,
            u8::try_from(frames.len()).unwrap(),
            1,
            u8::try_from(extras.len()).unwrap(),
        ]);
        input
    };
    refused(framed(0x01, b"\x11\x03", &[0; 8]), Status::DURABILITY_INVALID_LEVEL);
    refused(framed(0x01, b"\x20", &[0; 8]), Status::UNKNOWN_FRAME);
    refused(framed(0x00, b"\x11\x01", b""), Status::INVALID);
    refused(framed(0x02, b"\x50", &[0; 8]), Status::INVALID);
    check(&framed(0x01, b"\x50", &[0; 8]), &["Set [k] [] [] opcode=1 opaque=7 +keeps-expiry"]);
}

#[test]
fn what_is_too_large_is_not_waited_for() {
    let mut header = request(0x01, &[0; 8], b"k", b"");
    header[8..12].copy_from_slice(&(20 * 1024 * 1024 + 9_u32).to_be_bytes());
    assert_eq!(words(&header, 0, &Limits::default()), [""; 0], "a value of 20 MiB is waited for");
    header[11] += 1;
    check(&header, &["Refuse [] opcode=1 opaque=7 delta=3"]);
    header[8..12].copy_from_slice(&(30 * 1024 * 1024 + 1_u32).to_be_bytes());
    check(&header, &["Refuse [] opcode=1 opaque=7 delta=4 +closes"]);
    // Parts that are longer than all of it.
    let mut short = request(0x00, b"", b"key", b"");
    short[11] = 2;
    check(&short, &["Refuse [] opaque=7 delta=4 +closes"]);
    for first in [0x81, b'g', b'G', 0] {
        check(&[first], &["Say Nothing [] +closes"]);
    }
}

#[test]
fn strangers_may_greet_and_log_in() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    let input = [
        hello(&[7]),
        request(0xfe, b"", b"", &[0, 1]),
        request(0x00, b"", b"key", b""),
        request(0xb5, b"", b"", b""),
        request(0x99, b"", b"key", b"value"),
        request(0x89, b"", b"default", b""),
        request(0x0a, b"", b"", b""),
        request(0x21, b"", b"PLAIN", b"\0u\0p"),
    ]
    .concat();
    let got = words(&input, 50, &limits);
    let want = ["Hello", "ErrorMap", "Refuse", "Refuse", "Refuse", "Refuse", "Noop", "SaslAuth"];
    assert_eq!(got.iter().map(|words| words.split(' ').nth(1).unwrap()).collect::<Vec<_>>(), want);
    assert!(got[2..6].iter().all(|words| words.contains("delta=36")), "{got:?}");
}

fn reply_of(head: Head, outcome: &Outcome) -> Vec<u8> {
    let head = Head { framing: Framing::Couchbase, opaque: 7, ..head };
    let mut out = Vec::new();
    reply::put(&mut out, &head, b"k", b"", outcome);
    out
}

#[test]
fn replies() {
    let item = Item { flags: 0x0200_0000, cas: 0x1001, size: 7, datatype: JSON, ..Item::default() };
    let of = |verb, opcode, bits| Head { verb, opcode, bits, ..Head::default() };
    let none = Bits::default();
    for (head, outcome, want) in [
        (
            of(Verb::Set, 1, none),
            Outcome::Stored { cas: 0x1001 },
            "8101 0000 0000 0000 00000000 00000007 0000000000001001",
        ),
        (
            of(Verb::Delete, 4, Bits::KNOWS_ERRORS),
            Outcome::Deleted { cas: 2 },
            "8104 0000 0000 0000 00000000 00000007 0000000000000002",
        ),
        // memccapable wants none.
        (
            of(Verb::Delete, 4, none),
            Outcome::Deleted { cas: 2 },
            "8104 0000 0000 0000 00000000 00000007 0000000000000000",
        ),
        (of(Verb::Get, 0, none), Outcome::Miss, "8100 0000 0000 0001 00000000 00000007 0000000000000000"),
        (of(Verb::Get, 9, Bits::QUIET), Outcome::Miss, ""),
        (of(Verb::Set, 0x11, Bits::QUIET), Outcome::Stored { cas: 1 }, ""),
        (
            of(Verb::Set, 0x11, Bits::QUIET),
            Outcome::Exists,
            "8111 0000 0000 0002 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Get, 0x0c, Bits::WANTS_KEY),
            Outcome::Miss,
            r#"810c 0001 0000 0001 00000001 00000007 0000000000000000 "k""#,
        ),
        (
            of(Verb::Get, 0x0c, Bits::WANTS_KEY.and(Bits::HAS_COLLECTION)),
            Outcome::Miss,
            r#"810c 0002 0000 0001 00000002 00000007 0000000000000000 00 "k""#,
        ),
        (
            of(Verb::Add, 2, none),
            Outcome::NotStored,
            "8102 0000 0000 0002 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Replace, 3, none),
            Outcome::NotStored,
            "8103 0000 0000 0001 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Append, 0x0e, none),
            Outcome::NotStored,
            "810e 0000 0000 0005 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Touch, 0x1c, none),
            Outcome::Touched(item),
            "811c 0000 0000 0000 00000000 00000007 0000000000001001",
        ),
        (
            of(Verb::Incr, 5, none),
            Outcome::Number { value: 5, item, is_new: true },
            "8105 0000 0000 0000 00000008 00000007 0000000000001001 0000000000000005",
        ),
        (
            of(Verb::Incr, 5, none),
            Outcome::Say(Say::NotNumber),
            "8105 0000 0000 0006 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Refuse, 0x99, none),
            Outcome::Status(Status::UNKNOWN_COMMAND),
            "8199 0000 0000 0081 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Refuse, 0x99, Bits::KNOWS_ERRORS.and(Bits::KNOWS_JSON)),
            Outcome::Status(Status::UNKNOWN_COMMAND),
            r#"8199 0000 0001 0081 00000027 00000007 0000000000000000 "{"22"error"22":{"22"context"22":"22"No such command"22"}}""#,
        ),
        // Without the error map a lock looks like another CAS, or like something that passes.
        (
            of(Verb::Set, 1, none),
            Outcome::Status(Status::LOCKED),
            "8101 0000 0000 0002 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Set, 1, Bits::KNOWS_ERRORS),
            Outcome::Status(Status::LOCKED),
            "8101 0000 0000 0009 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::GetLocked, 0x94, none),
            Outcome::Status(Status::LOCKED),
            "8194 0000 0000 0086 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Unlock, 0x95, none),
            Outcome::Status(Status::NOT_LOCKED),
            "8195 0000 0000 0086 00000000 00000007 0000000000000000",
        ),
        (
            of(Verb::Unlock, 0x95, Bits::KNOWS_ERRORS),
            Outcome::Status(Status::NOT_LOCKED),
            "8195 0000 0000 000e 00000000 00000007 0000000000000000",
        ),
    ] {
        let got = reply_of(head, &outcome);
        assert_eq!(got, bytes(want), "{head:?} {outcome:?}: {}", got.escape_ascii());
    }
    let mut out = Vec::new();
    let head = Head { framing: Framing::Couchbase, bits: Bits::WANTS_VALUE, opaque: 8, ..Head::default() };
    reply::put_value_header(&mut out, &head, b"k", b"", &item);
    assert_eq!(out, bytes("8100 0000 0400 0000 0000000b 00000008 0000000000001001 02000000"));
    out.clear();
    let head = Head { bits: Bits::WANTS_VALUE.and(Bits::KNOWS_JSON), ..head };
    reply::put_value_header(&mut out, &head, b"k", b"", &item);
    assert_eq!(out, bytes("8100 0000 0401 0000 0000000b 00000008 0000000000001001 02000000"));
    let key = Head { opcode: 0x0c, bits: head.bits.and(Bits::WANTS_KEY).and(Bits::HAS_COLLECTION), ..head };
    out.clear();
    reply::put_value_header(&mut out, &key, b"k", b"", &item);
    assert_eq!(out, bytes(r#"810c 0002 0401 0000 0000000d 00000008 0000000000001001 02000000 00 "k""#));
}

#[test]
fn what_only_couchbase_says() {
    let head = Head { framing: Framing::Couchbase, opcode: 1, opaque: 7, vbucket: 258, ..Head::default() };
    let item = Item { flags: 0x0200_0000, cas: 9, datatype: JSON, ..Item::default() };
    let check = |put: &dyn Fn(&mut Vec<u8>), want: &str| {
        let mut out = Vec::new();
        put(&mut out);
        assert_eq!(out, bytes(want), "{}", out.escape_ascii());
    };
    // As captured: a token is vbuuid and seqno.
    check(
        &|out| super::reply::put_change(out, &head, &Outcome::Stored { cas: 9 }, 0xabc),
        "8101 0000 1000 0000 00000010 00000007 0000000000000009 0000000000000abc 0000000000000009",
    );
    check(
        &|out| {
            super::reply::put_change(out, &head, &Outcome::Number { value: 3, item, is_new: false }, 0xabc)
        },
        "8101 0000 1000 0000 00000018 00000007 0000000000000009 0000000000000abc 0000000000000009 0000000000000003",
    );
    check(
        &|out| super::reply::put_change(out, &head, &Outcome::Exists, 0xabc),
        "8101 0000 0000 0002 00000000 00000007 0000000000000000",
    );
    let meta = Head { bits: Bits::WANTS_DATATYPE, ..head };
    check(
        &|out| super::reply::put_meta(out, &meta, &item, 60, 9),
        "8101 0000 1500 0000 00000015 00000007 0000000000000009 00000000 02000000 0000003c 0000000000000009 01",
    );
    check(
        &|out| super::reply::put_meta(out, &head, &item, 0, 9),
        "8101 0000 1400 0000 00000014 00000007 0000000000000009 00000000 02000000 00000000 0000000000000009",
    );
    check(
        &|out| super::reply::put_observed(out, &head, b"k", Some(9)),
        r#"8101 0000 0000 0000 0000000e 00000007 0000000000000000 0102 0001 "k" 00 0000000000000009"#,
    );
    let of_collection = Head { bits: Bits::HAS_COLLECTION, ..head };
    check(
        &|out| super::reply::put_observed(out, &of_collection, b"k", None),
        r#"8101 0000 0000 0000 0000000f 00000007 0000000000000000 0102 0002 00 "k" 80 0000000000000000"#,
    );
    check(
        &|out| super::reply::put_newest(out, &head, 0xabc, 9),
        "8101 0000 0000 0000 0000001b 00000007 0000000000000000 00 0102 0000000000000abc 0000000000000000 0000000000000009",
    );
    check(
        &|out| super::reply::put_id(out, &head, 0),
        "8101 0000 0c00 0000 0000000c 00000007 0000000000000000 0000000000000000 00000000",
    );
}
