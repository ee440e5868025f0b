//! Paths of documents over one lane and over several: what clients of Couchbase ask, and whole documents beside a model that changes
//! plain text with [`wire::json`], large ones too, under a seed and faults.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;

use crate::binary::{Reply, replies, request};
use crate::check::{Dice, faults_of};
use lane::{Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::{Client, World};
use wire::couchbase::subdocument::status_of;
use wire::json::{Answer, Draft, Operation, Piece, Verb};

const GET: u8 = 0xc5;
const EXISTS: u8 = 0xc6;
const ADD: u8 = 0xc7;
const UPSERT: u8 = 0xc8;
const REMOVE: u8 = 0xc9;
const REPLACE: u8 = 0xca;
const PUSH_LAST: u8 = 0xcb;
const PUSH_FIRST: u8 = 0xcc;
const INSERT: u8 = 0xcd;
const ADD_UNIQUE: u8 = 0xce;
const COUNTER: u8 = 0xcf;
const LOOKUP: u8 = 0xd0;
const MUTATION: u8 = 0xd1;
const COUNT: u8 = 0xd2;

const MAKES_PARENTS: u8 = 1;
const ATTRIBUTE: u8 = 4;
const MAKES_DOCUMENT: &[u8] = &[1];
const ADDS_DOCUMENT: &[u8] = &[2];

const STORE: [u8; 8] = [2, 0, 0, 0, 0, 0, 0, 0];

fn world(lane_count: u16, seed: u64, faults: Faults) -> World {
    let settings = Settings {
        doors: vec![Door { port: Port::Lane, dialect: Dialect::Couchbase }],
        couchbase_ports: Some(wire::route::Ports::from(11210)),
        ..Settings::default()
    };
    World::new(lane_count, &settings, seed, faults)
}

fn say(world: &mut World, client: &mut Client, bytes: &[u8]) -> Reply {
    client.send(bytes);
    for _ in 0..200_000 {
        client.pump();
        if let Some(header) = client.received.first_chunk::<24>() {
            let size = 24 + u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize;
            if client.received.len() >= size {
                let bytes: Vec<u8> = client.received.drain(..).collect();
                return replies(&bytes).remove(0);
            }
        }
        world.round();
    }
    panic!("no reply to {:02x?}", &bytes[..bytes.len().min(60)]);
}

/// A request for one path: `more` are extras behind its flags.
fn one(opcode: u8, flags: u8, path: &str, value: &str, more: &[u8]) -> Vec<u8> {
    let size = u16::try_from(path.len()).unwrap().to_be_bytes();
    let extras = [&size[..], &[flags], more].concat();
    request(opcode, &extras, "k", &format!("{path}{value}"), 0)
}

/// A spec of a lookup.
fn look(opcode: u8, flags: u8, path: &str) -> Vec<u8> {
    [&[opcode, flags][..], &u16::try_from(path.len()).unwrap().to_be_bytes(), path.as_bytes()].concat()
}

/// A spec of a mutation.
fn change(opcode: u8, flags: u8, path: &str, value: &str) -> Vec<u8> {
    let sizes = [
        &u16::try_from(path.len()).unwrap().to_be_bytes()[..],
        &u32::try_from(value.len()).unwrap().to_be_bytes(),
    ];
    [&[opcode, flags][..], &sizes.concat(), path.as_bytes(), value.as_bytes()].concat()
}

fn several(opcode: u8, extras: &[u8], specs: &[Vec<u8>]) -> Vec<u8> {
    several_of("k", opcode, extras, specs, 0)
}

fn several_of(key: &str, opcode: u8, extras: &[u8], specs: &[Vec<u8>], cas: u64) -> Vec<u8> {
    crate::binary::request_at(0, opcode, extras, key.as_bytes(), &specs.concat(), cas)
}

/// The value of a reply to several lookups: `status:value` of each.
fn looked(value: &[u8]) -> Vec<String> {
    let (mut rest, mut all) = (value, Vec::new());
    while let Some((front, behind)) = rest.split_first_chunk::<6>() {
        let size = u32::from_be_bytes(front[2..].try_into().unwrap()) as usize;
        let status = u16::from_be_bytes([front[0], front[1]]);
        all.push(format!("{status:x}:{}", String::from_utf8_lossy(&behind[..size])));
        rest = &behind[size..];
    }
    assert!(rest.is_empty());
    all
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.value.clone()).unwrap()
}

#[test]
fn one_path_at_a_time() {
    // Lane 0 is asked; over four lanes the key is another one's.
    for lane_count in [1, 4] {
        let mut world = world(lane_count, 1, Faults::default());
        let mut client = world.connect(0);
        let mut ask = |bytes: Vec<u8>| say(&mut world, &mut client, &bytes);
        assert_eq!(ask(one(GET, 0, "a", "", &[])).status, 1, "no document");
        assert_eq!(ask(one(UPSERT, 0, "a", "1", &[])).status, 1);
        let made = ask(one(UPSERT, 0, "a.b", "1", MAKES_DOCUMENT));
        assert_eq!((made.status, &made.value[..]), (0, &b""[..]));
        let got = ask(one(GET, 0, "a", "", &[]));
        assert_eq!((got.status, text(&got), got.cas), (0, r#"{"b":1}"#.to_owned(), made.cas));
        assert_eq!(ask(one(UPSERT, 0, "a", "1", ADDS_DOCUMENT)).status, 2, "it is there");
        for (opcode, flags, path, value, status, want) in [
            (EXISTS, 0, "a.b", "", 0, ""),
            (EXISTS, 0, "a.c", "", 0xc0, ""),
            (GET, 0, "a[0]", "", 0xc1, ""),
            (GET, 0, "a..b", "", 0xc2, ""),
            (GET, 0, &"[0]".repeat(32), "", 0xc3, ""),
            (ADD, 0, "a.b", "2", 0xc9, ""),
            (ADD, 0, "a.c", "nul", 0xc5, ""),
            (ADD, 0, "a.c", &"[".repeat(40), 0xca, ""),
            (ADD, 0, "x.y", "2", 0xc0, ""),
            (ADD, MAKES_PARENTS, "x.y", "2", 0, ""),
            (COUNT, 0, "", "", 0, "2"),
            (COUNTER, 0, "a.b", "41", 0, "42"),
            (COUNTER, 0, "a.b", "0", 0xc8, ""),
            (REPLACE, 0, "a.b", "12345678901234567890123", 0, ""),
            (COUNTER, 0, "a.b", "1", 0xc7, ""),
            (REPLACE, 0, "x", "[3]", 0, ""),
            (PUSH_LAST, 0, "x", "5,6", 0, ""),
            (PUSH_FIRST, 0, "x", "1", 0, ""),
            (INSERT, 0, "x[1]", "2", 0, ""),
            (ADD_UNIQUE, 0, "x", "5", 0xc9, ""),
            (ADD_UNIQUE, 0, "x", "7", 0, ""),
            (REMOVE, 0, "x[-1]", "", 0, ""),
            (GET, 0, "x", "", 0, "[1,2,3,5,6]"),
            (REMOVE, 0, "a", "", 0, ""),
            // What does not go together, before the document is looked at.
            (GET, 0, "", "", 4, ""),
            (GET, MAKES_PARENTS, "x", "", 4, ""),
            (GET, 0, "x", "value", 4, ""),
            (REMOVE, 0, "x", "value", 4, ""),
            (UPSERT, 0, "x", "", 4, ""),
            (INSERT, MAKES_PARENTS, "x[0]", "1", 4, ""),
            (GET, 0, &"a".repeat(1025), "", 4, ""),
            (GET, ATTRIBUTE, "mine", "", 0x83, ""),
            (UPSERT, ATTRIBUTE, "mine", "1", 0x83, ""),
            (UPSERT, ATTRIBUTE, "$document.flags", "1", 0xd2, ""),
            (GET, ATTRIBUTE, "$vbucket", "", 0xd1, ""),
        ] {
            let got = ask(one(opcode, flags, path, value, &[]));
            assert_eq!((got.status, &text(&got)[..]), (status, want), "{opcode:02x} {path} {value}");
            assert_eq!(got.cas == 0, status != 0, "{opcode:02x} {path}");
        }
        assert_eq!(text(&ask(request(0x00, &[], "k", "", 0))), r#"{"x":[1,2,3,5,6]}"#);
        // A path that is longer than what came, and flags that there are not.
        for extras in [&[0, 9, 0][..], &[0, 1, 0, 8], &[0, 1, 0, 3], &[0, 1, 0, 0, 0, 0, 0, 16]] {
            assert_eq!(ask(request(UPSERT, extras, "k", "x1", 0)).status, 4, "{extras:?}");
        }
        assert_eq!(ask(request(UPSERT, &[0, 1, 0, 2], "k", "x1", 7)).status, 4, "a new document has no CAS");
        // What is no JSON.
        ask(request(0x01, &STORE, "k", "true story", 0));
        assert_eq!(ask(one(GET, 0, "x", "", &[])).status, 0xc6);
        assert_eq!(ask(one(UPSERT, 0, "x", "1", &[])).status, 0xc6);
        ask(request(0x01, &STORE, "k", "17", 0));
        assert_eq!(ask(one(GET, 0, "x", "", &[])).status, 0xc1);
        let whole = ask(several(LOOKUP, &[], &[look(0, 0, ""), look(COUNT, 0, "")]));
        assert_eq!((whole.status, looked(&whole.value)), (0xcc, vec!["0:17".to_owned(), "c1:".to_owned()]));
    }
}

#[test]
fn several_paths_together() {
    let mut world = world(2, 1, Faults::default());
    let mut client = world.connect(0);
    let mut ask = |bytes: Vec<u8>| say(&mut world, &mut client, &bytes);
    let specs = [
        change(UPSERT, MAKES_PARENTS, "name", r#""beer""#),
        change(COUNTER, 0, "stock", "10"),
        change(PUSH_LAST, MAKES_PARENTS, "tags", r#""a","b""#),
        change(COUNTER, 0, "stock", "-3"),
        change(REMOVE, 0, "tags[0]", ""),
    ];
    let made = ask(several(MUTATION, MAKES_DOCUMENT, &specs[..4]));
    // Sums, each with its path's number.
    assert_eq!((made.status, &made.value[..]), (0, &b"\x01\0\0\0\0\0\x0210\x03\0\0\0\0\0\x017"[..]));
    let changed = ask(several(MUTATION, &[], &specs[4..]));
    assert_eq!((changed.status, changed.cas > made.cas), (0, true));
    assert_eq!(text(&ask(request(0x00, &[], "k", "", 0))), r#"{"name":"beer","stock":7,"tags":["b"]}"#);
    // All or nothing: the number and status of the first that fails.
    let failed =
        ask(several(MUTATION, &[], &[specs[1].clone(), change(REPLACE, 0, "none", "1"), specs[1].clone()]));
    assert_eq!((failed.status, &failed.value[..], failed.cas), (0xcc, &b"\x01\0\xc0"[..], 0));
    let same = ask(request(0x00, &[], "k", "", 0));
    assert_eq!(
        (text(&same), same.cas),
        (r#"{"name":"beer","stock":7,"tags":["b"]}"#.to_owned(), changed.cas)
    );
    let got = ask(several(
        LOOKUP,
        &[],
        &[
            look(GET, 0, "stock"),
            look(EXISTS, 0, "name"),
            look(GET, 0, "none"),
            look(COUNT, 0, ""),
            look(0, 0, ""),
        ],
    ));
    let want = ["0:7", "0:", "c0:", "0:3", r#"0:{"name":"beer","stock":7,"tags":["b"]}"#];
    assert_eq!(
        (got.status, looked(&got.value), got.cas),
        (0xcc, want.map(str::to_owned).to_vec(), changed.cas)
    );
    assert_eq!(ask(several(LOOKUP, &[], &[look(GET, 0, "stock")])).status, 0);
    // What does not go together.
    let (get, upsert) = (look(GET, 0, "stock"), change(UPSERT, 0, "a", "1"));
    for (bytes, status) in [
        (several(LOOKUP, &[], &vec![get.clone(); 16]), 0),
        (several(LOOKUP, &[], &vec![get.clone(); 17]), 0xcb),
        (several(LOOKUP, &[], &[]), 0xcb),
        (several(LOOKUP, &[], std::slice::from_ref(&upsert)), 0xcb),
        (several(MUTATION, &[], &[change(GET, 0, "stock", "")]), 0xcb),
        (several(LOOKUP, &[], &[get[..get.len() - 1].to_vec()]), 4),
        (several(LOOKUP, &[], &[get.clone(), vec![GET]]), 4),
        (several(MUTATION, &[], &[upsert[..upsert.len() - 1].to_vec()]), 4),
        (several(MUTATION, &[3], std::slice::from_ref(&upsert)), 4),
        (several(LOOKUP, MAKES_DOCUMENT, std::slice::from_ref(&get)), 4),
        (several(LOOKUP, &[], &[look(0, 0, "stock")]), 4),
        (several(LOOKUP, &[], &[get, look(GET, ATTRIBUTE, "$document")]), 0xd4),
        (several(MUTATION, &[], &[upsert.clone(), change(4, 0, "", "")]), 0xcb),
        (several(MUTATION, &[], &[change(4, 0, "", ""), upsert]), 0xcb),
    ] {
        assert_eq!(ask(bytes.clone()).status, status, "{bytes:02x?}");
    }
    // The whole document.
    let whole = ask(several(MUTATION, &[], &[change(1, 0, "", r#"{"n":1}"#), change(COUNTER, 0, "n", "1")]));
    assert_eq!(whole.status, 0);
    assert_eq!(text(&ask(request(0x00, &[], "k", "", 0))), r#"{"n":2}"#);
    assert_eq!(ask(several(MUTATION, &[], &[change(4, 0, "", "")])).status, 0);
    assert_eq!(ask(request(0x00, &[], "k", "", 0)).status, 1);
    assert_eq!(ask(several(MUTATION, ADDS_DOCUMENT, &[change(PUSH_LAST, 0, "", "1")])).status, 0);
    assert_eq!(text(&ask(request(0x00, &[], "k", "", 0))), "[1]");
}

#[test]
fn ends_flags_locks_and_what_is_told_of_a_document() {
    let mut world = world(1, 1, Faults::default());
    let mut client = world.connect(0);
    let mut ask = |bytes: &[u8]| say(&mut world, &mut client, bytes);
    // Extended errors, JSON, tokens, frames that preserve an end.
    ask(&request(0x1f, &[], "test", "\0\x07\0\x0b\0\x04\0\x10\0\x14", 0));
    let stored = ask(&request(0x01, &[2, 0, 0, 6, 0, 0, 0, 90], "k", r#"{"a":1}"#, 0));
    let about = |ask: &mut dyn FnMut(&[u8]) -> Reply, path: &str| {
        let got = ask(&several(LOOKUP, &[], &[look(GET, ATTRIBUTE, path), look(GET, 0, "a")]));
        looked(&got.value).remove(0)
    };
    assert_eq!(about(&mut ask, "$document.exptime"), "0:1700000090");
    assert_eq!(about(&mut ask, "$document.CAS"), format!("0:\"{:#018x}\"", stored.cas));
    assert_eq!(about(&mut ask, "$document.flags"), "0:33554438");
    assert_eq!(about(&mut ask, "$document.value_bytes"), "0:7");
    assert_eq!(about(&mut ask, "$document.datatype[0]"), "0:\"raw\"");
    assert_eq!(about(&mut ask, "$document.none"), "c0:");
    assert_eq!(about(&mut ask, "$documents"), "d1:");
    assert!(about(&mut ask, "$document").contains("\"deleted\":false"));
    // A change is a new document: without an end, unless it keeps it, with the flags of the old one, and JSON.
    let framed = |frames: &[u8]| {
        let mut bytes = request(UPSERT, &[frames, &[0, 1, 0]].concat(), "k", "a2", 0);
        bytes[..5].copy_from_slice(&[8, UPSERT, u8::try_from(frames.len()).unwrap(), 1, 3]);
        bytes
    };
    let kept = ask(&framed(b"\x50"));
    assert_eq!((kept.status, kept.extras.len(), &kept.extras[8..]), (0, 16, &kept.cas.to_be_bytes()[..]));
    assert_eq!(about(&mut ask, "$document.exptime"), "0:1700000090");
    assert_eq!(about(&mut ask, "$document.datatype[0]"), "0:\"json\"");
    assert_eq!(ask(&framed(b"")).status, 0);
    assert_eq!(about(&mut ask, "$document.exptime"), "0:0");
    assert_eq!(about(&mut ask, "$document.flags"), "0:33554438");
    let extras = [&60_u32.to_be_bytes()[..], &7_u32.to_be_bytes(), &[0]].concat();
    assert_eq!(ask(&several(MUTATION, &extras, &[change(UPSERT, 0, "a", "3")])).status, 0);
    assert_eq!(about(&mut ask, "$document.flags"), "0:7");
    assert_eq!(about(&mut ask, "$document.exptime"), "0:1700000060");
    // A CAS is compared.
    let got = ask(&several(LOOKUP, &[], &[look(GET, 0, "a")]));
    let with = |cas: u64| several_of("k", MUTATION, &[], &[change(COUNTER, 0, "a", "1")], cas);
    assert_eq!(ask(&with(got.cas + 1)).status, 2);
    let counted = ask(&with(got.cas));
    assert_eq!((counted.status, &counted.value[..]), (0, &b"\0\0\0\0\0\0\x014"[..]));
    assert_eq!(ask(&several_of("k", LOOKUP, &[], &[look(GET, 0, "a")], got.cas)).status, 2);
    // What is locked is its holder's, and everybody may look.
    let locked = ask(&request(0x94, &5_u32.to_be_bytes(), "k", "", 0));
    assert_eq!(ask(&with(0)).status, 9);
    let got = ask(&several(LOOKUP, &[], &[look(GET, 0, "a")]));
    assert_eq!((got.status, got.cas), (0, u64::MAX));
    assert_eq!(ask(&with(locked.cas)).status, 0);
    assert_eq!(ask(&with(0)).status, 0);
    // An error of one path has words, too.
    assert!(text(&ask(&one(GET, 0, "none", "", &[]))).contains("The path leads to nothing"));
}

/// What the document of a key becomes.
#[derive(Default)]
struct Model {
    documents: BTreeMap<String, String>,
}

const VERBS: [(u8, Verb); 9] = [
    (ADD, Verb::Add),
    (UPSERT, Verb::Upsert),
    (REMOVE, Verb::Remove),
    (REPLACE, Verb::Replace),
    (PUSH_LAST, Verb::PushLast),
    (PUSH_FIRST, Verb::PushFirst),
    (INSERT, Verb::Insert),
    (ADD_UNIQUE, Verb::AddUnique),
    (COUNTER, Verb::Counter),
];

fn done(document: &str, verb: Verb, path: &str, value: &str) -> Result<(String, Option<String>), u16> {
    let run = || {
        let mut operation = Operation::new(verb, path.as_bytes(), true)?;
        if verb.has_value() {
            operation.value(value.as_bytes())?;
            operation.value_end()?;
        }
        operation.document(document.as_bytes())?;
        operation.finish()
    };
    let (edit, sum) = match run().map_err(|error| status_of(error).0)? {
        Answer::Value(range) => return Ok((document.to_owned(), Some(document[range].to_owned()))),
        Answer::Exists => return Ok((document.to_owned(), None)),
        Answer::Count(count) => return Ok((document.to_owned(), Some(count.to_string()))),
        Answer::Edit(edit) => (edit, None),
        Answer::Sum(sum, edit) => (edit, Some(sum.to_string())),
    };
    let mut draft = Draft::new(document.len());
    draft.apply(&edit, 0..value.len());
    let mut new = String::new();
    for piece in draft.pieces() {
        new.push_str(match piece {
            Piece::Document(range) => &document[range.clone()],
            Piece::Request(range) => &value[range.clone()],
            Piece::Made(range) => std::str::from_utf8(&draft.made()[range.clone()]).unwrap(),
        });
    }
    Ok((new, sum))
}

fn some_path(dice: &mut Dice) -> String {
    const PATHS: [&str; 12] = [
        "a", "b", "list", "list[0]", "list[-1]", "a.b", "a.b.c", "big", "big[-1]", "big[3].x", "list[2]", "n",
    ];
    PATHS[dice.below(PATHS.len())].to_owned()
}

fn some_value(dice: &mut Dice) -> String {
    match dice.below(24) {
        0 => format!("\"{}\"", "v".repeat(dice.below(100_000))),
        1 => {
            let elements: Vec<_> =
                (0..dice.below(9000)).map(|number| format!("{{\"x\":{number}}}")).collect();
            format!("[{}]", elements.join(", "))
        }
        2 => "{}".to_owned(),
        3 => "[1, 2 ,3]".to_owned(),
        4 => "nonsense".to_owned(),
        _ => dice.below(40).to_string(),
    }
}

/// Documents of up to megabytes, whole and in paths, over lanes: as plain text would be.
#[test]
fn documents_are_what_plain_text_would_be() {
    let (mut large, mut applied, mut refused) = (0, 0, 0);
    for seed in 0..16 {
        let lane_count = [1, 1, 2, 4][usize::try_from(seed % 4).unwrap()];
        let mut dice = Dice(seed);
        let mut world = world(lane_count, seed, faults_of(seed));
        let mut client = world.connect(dice.below(usize::from(lane_count)));
        let mut model = Model::default();
        for number in 0..3 {
            let elements: Vec<_> =
                (0..dice.below(12_000)).map(|number| format!("{{\"x\": {number}}}")).collect();
            let text = format!(
                "{{\"a\":{{\"b\":{{}}}},\"list\": [1,2],\"big\":[{}],\"n\":5,\"b\":null }}",
                elements.join(",\n")
            );
            let stored = request(0x01, &STORE, &format!("key{number}"), &text, 0);
            assert_eq!(say(&mut world, &mut client, &stored).status, 0);
            model.documents.insert(format!("key{number}"), text);
        }
        for _ in 0..40 {
            let key = format!("key{}", dice.below(4));
            let old = model.documents.get(&key).cloned();
            large += u32::from(old.as_ref().is_some_and(|old| old.len() > 64 * 1024));
            let about = format!("seed {seed} {key}");
            if dice.below(4) == 0 {
                let paths: Vec<_> =
                    (0..1 + dice.below(5)).map(|_| (dice.below(3), some_path(&mut dice))).collect();
                let specs: Vec<_> =
                    paths.iter().map(|(which, path)| look([GET, EXISTS, COUNT][*which], 0, path)).collect();
                let got = say(&mut world, &mut client, &several_of(&key, LOOKUP, &[], &specs, 0));
                let Some(old) = old else {
                    assert_eq!(got.status, 1, "{about}");
                    continue;
                };
                let want: Vec<_> = paths
                    .iter()
                    .map(|(which, path)| {
                        match done(&old, [Verb::Get, Verb::Exists, Verb::Count][*which], path, "") {
                            Ok((_, found)) => format!("0:{}", found.unwrap_or_default()),
                            Err(status) => format!("{status:x}:"),
                        }
                    })
                    .collect();
                assert!(looked(&got.value) == want, "{about} {paths:?}");
                assert_eq!(got.status, if want.iter().all(|one| one.starts_with("0:")) { 0 } else { 0xcc });
                continue;
            }
            let changes: Vec<_> = (0..1 + dice.below(4))
                .map(|_| (VERBS[dice.below(VERBS.len())], some_path(&mut dice), some_value(&mut dice)))
                .map(|((opcode, verb), path, value)| {
                    (opcode, verb, path, if verb.has_value() { value } else { String::new() })
                })
                .collect();
            let specs: Vec<_> = changes
                .iter()
                .map(|(opcode, verb, path, value)| {
                    let flags =
                        if matches!(verb, Verb::Remove | Verb::Replace | Verb::Insert) { 0 } else { 1 };
                    change(*opcode, flags, path, value)
                })
                .collect();
            // Verbs that make no document don't go with the flag that does.
            let makes = changes
                .iter()
                .all(|(_, verb, ..)| !matches!(verb, Verb::Remove | Verb::Replace | Verb::Insert));
            let extras: &[u8] = if makes { MAKES_DOCUMENT } else { &[] };
            let got = say(&mut world, &mut client, &several_of(&key, MUTATION, extras, &specs, 0));
            let Some(mut text) = old.or(makes.then(|| "{}".to_owned())) else {
                assert_eq!(got.status, 1, "{about}");
                continue;
            };
            let (mut sums, mut failure) = (Vec::new(), None);
            for (index, (_, verb, path, value)) in changes.iter().enumerate() {
                match done(&text, *verb, path, value) {
                    Ok((new, sum)) => {
                        text = new;
                        if let Some(sum) = sum {
                            let size = u8::try_from(sum.len()).unwrap();
                            sums.extend([u8::try_from(index).unwrap(), 0, 0, 0, 0, 0, size]);
                            sums.extend(sum.as_bytes());
                        }
                    }
                    Err(status) => {
                        failure = Some([u8::try_from(index).unwrap(), 0, u8::try_from(status).unwrap()]);
                        break;
                    }
                }
            }
            match failure {
                Some(bytes) => {
                    refused += 1;
                    assert_eq!((got.status, &got.value[..]), (0xcc, &bytes[..]), "{about} {changes:?}");
                }
                None => {
                    applied += 1;
                    assert_eq!((got.status, &got.value), (0, &sums), "{about}");
                    model.documents.insert(key.clone(), text);
                }
            }
            let whole = say(&mut world, &mut client, &request(0x00, &[], &key, "", 0));
            match model.documents.get(&key) {
                Some(want) => assert!(whole.value == want.as_bytes(), "{about}: {changes:.200?}"),
                None => assert_eq!(whole.status, 1, "{about}"),
            }
        }
    }
    assert!(large > 200 && applied > 70 && refused > 100, "{large} {applied} {refused}");
}
