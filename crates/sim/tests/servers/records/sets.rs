//! What lanes say of their sets: how many records each has, under all that comes and goes.

use std::collections::BTreeMap;

use net::fault::Faults;
use sim::{Client, World};
use wire::aerospike::client::put_info;
use wire::aerospike::head::{info2, info3};
use wire::aerospike::op::kind;

use crate::records::talk::{Ask, ask, exchange, get, put, settings, show};

const SETS: [&[u8]; 4] = [b"", b"demo", b"even", b"odd"];

fn info(world: &mut World, lane: usize, name: &str) -> String {
    let mut client = world.connect(lane);
    let mut bytes = Vec::new();
    put_info(&mut bytes, &format!("{name}\n"));
    let said = show(&exchange(world, &mut client, &bytes, 1), 0);
    let value = said.strip_prefix(name).and_then(|value| value.strip_suffix('|')).unwrap();
    value.trim_start().to_owned()
}

/// A number in what is said of a set.
fn number(said: &str, name: &str) -> u64 {
    let parts = said.split(':').filter_map(|part| part.split_once('='));
    parts.filter(|(found, _)| *found == name).map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

/// What all lanes together say of each set that has a name: records and bytes.
fn counted(world: &mut World) -> BTreeMap<String, (u64, u64)> {
    let mut counted = BTreeMap::<String, (u64, u64)>::new();
    for lane in 0..world.lanes.len() {
        let said = info(world, lane, "sets/test");
        assert_eq!(info(world, lane, "sets"), said);
        for set in said.split(';').filter(|set| !set.is_empty()) {
            let name = set.strip_prefix("ns=test:set=").unwrap().split(':').next().unwrap();
            let sum = counted.entry(name.to_owned()).or_default();
            *sum = (sum.0 + number(set, "objects"), sum.1 + number(set, "data_used_bytes"));
            let alone = info(world, lane, &format!("sets/test/{name}"));
            assert_eq!(set, format!("ns=test:set={name}:{alone}"));
        }
    }
    counted
}

fn say(world: &mut World, client: &mut Client, ask: &Ask) -> String {
    show(&exchange(world, client, &ask.bytes(), 1), world.now.unix_ms)
}

/// Puts of short and long records, into the set of the last one or into another when it has ended; replacement, deletion,
/// ends, truncation of a set and of all.
#[test]
fn sets_count_their_records() {
    for (lane_count, seed) in [(1, 1), (1, 2), (4, 3), (4, 4)] {
        let mut world = World::new(lane_count, &settings(), seed, Faults::default());
        let mut client = world.connect(0);
        // By number of the record: its set, and when it ends, in seconds.
        let mut model = BTreeMap::<u16, (usize, Option<i64>)>::new();
        let mut state = seed;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        for step in 0..600 {
            let now_s = world.now.unix_ms.div_euclid(1000);
            model.retain(|_, (_, end_s)| end_s.is_none_or(|end_s| end_s > now_s));
            let record = u16::try_from(below(120)).unwrap();
            let set = model.get(&record).map_or_else(|| usize::try_from(below(4)).unwrap(), |(set, _)| *set);
            match below(20) {
                0..12 => {
                    let size = [3, 300, 40_000][usize::try_from(below(3)).unwrap()];
                    let ttl = if below(3) == 0 { 1 + below(30) } else { 0 };
                    let ask = put(record).set(SETS[set]).text("a", &"x".repeat(size));
                    let mut ask = ask.ttl(u32::try_from(ttl).unwrap());
                    if below(2) == 0 {
                        ask.message.info3 = info3::CREATE_OR_REPLACE;
                    }
                    assert!(say(&mut world, &mut client, &ask).starts_with("0 "));
                    let end_s = (ttl > 0).then(|| now_s + ttl.cast_signed());
                    model.insert(record, (set, end_s));
                }
                12..14 => {
                    let ask = ask(record, 0, info2::WRITE | info2::DELETE, 0).set(SETS[set]);
                    let want = if model.remove(&record).is_some() { "0 " } else { "2 " };
                    assert!(say(&mut world, &mut client, &ask).starts_with(want));
                }
                14..16 => {
                    // The last bin goes, and the record with it.
                    let want = if model.remove(&record).is_some() { "0 " } else { "2 " };
                    let ask = put(record).set(SETS[set]).nil("a");
                    assert!(say(&mut world, &mut client, &ask).starts_with(want));
                }
                16..18 => {
                    let want = if model.contains_key(&record) { "0 " } else { "2 " };
                    let mut ask = put(record).set(SETS[set]).op(kind::APPEND, 3, "a", b"more");
                    ask.message.info3 = info3::UPDATE_ONLY;
                    assert!(say(&mut world, &mut client, &ask).starts_with(want));
                    if let Some((_, end_s)) = model.get_mut(&record) {
                        *end_s = None;
                    }
                }
                18 => world.now.unix_ms += 1000 * below(15).cast_signed(),
                _ if step % 7 == 0 => {
                    let set = usize::try_from(below(4)).unwrap();
                    let name = String::from_utf8_lossy(SETS[set]).into_owned();
                    let name = if name.is_empty() {
                        "truncate-namespace:namespace=test".to_owned()
                    } else {
                        format!("truncate:namespace=test;set={name}")
                    };
                    assert_eq!(info(&mut world, 0, &name), "ok");
                    model.retain(|_, (found, _)| !name.ends_with("=test") && *found != set);
                }
                _ => {}
            }
            if step % 10 == 0 {
                (0..200).for_each(|_| world.round());
                let now_s = world.now.unix_ms.div_euclid(1000);
                model.retain(|_, (_, end_s)| end_s.is_none_or(|end_s| end_s > now_s));
                for (name, (count, held)) in counted(&mut world) {
                    let of = |(set, _): &&(usize, _)| SETS[*set] == name.as_bytes();
                    let want = model.values().filter(of).count() as u64;
                    assert_eq!(count, want, "{name} at step {step} of seed {seed}");
                    assert_eq!(held > 0, want > 0, "{name} holds {held}");
                }
            }
        }
        assert!(world.lanes.iter().any(|lane| lane.shard().memory().expired > 0), "some have ended");
    }
}

/// A name in which there is the end of a line ends none of what is said.
#[test]
fn names_of_sets_end_no_line() {
    let mut world = crate::records::talk::world(1);
    let mut client = world.connect(0);
    assert_eq!(say(&mut world, &mut client, &put(1).set(b"a\nnode\tB").number("n", 1)), "0 g1|");
    let said = info(&mut world, 0, "sets");
    assert!(said.starts_with("ns=test:set=a?node?B:objects=1:") && !said.contains('\n'), "{said}");
}

/// A long record is appended to, in slices, while its set is truncated: what is there afterwards is what was appended, or nothing.
#[test]
fn a_long_write_beside_a_truncation() {
    let mut ends = [0, 0];
    for delay in 0..12 {
        let mut world = World::new(1, &settings(), 1, Faults::default());
        let (mut writer, mut other) = (world.connect(0), world.connect(0));
        let long = put(1).text("a", &"x".repeat(900_000));
        assert_eq!(say(&mut world, &mut writer, &long), "0 g1|");
        writer.send(&put(1).op(kind::APPEND, 3, "a", b"more").bytes());
        let mut bytes = Vec::new();
        put_info(&mut bytes, "truncate:namespace=test;set=demo\n");
        for round in 0..40 {
            if round == delay {
                other.send(&bytes);
            }
            writer.pump();
            other.pump();
            world.round();
        }
        assert!(!writer.received.is_empty() && !other.received.is_empty(), "both are answered");
        other.received.clear();
        match say(&mut world, &mut other, &get(1)).as_str() {
            "2 g0|" => ends[0] += 1,
            "0 g1 a=more|" => ends[1] += 1,
            left => panic!("after {delay} rounds: {left}"),
        }
    }
    assert!(ends[0] > 2, "{ends:?}");
}

/// A record in one set more than there may be is refused, and those that there are go on. They stay when they are empty.
#[test]
fn sets_are_so_many() {
    let mut world = crate::records::talk::world(1);
    let mut client = world.connect(0);
    let mut put_into = |world: &mut World, record: u16, set: &str, size: usize| {
        let set: &'static [u8] = Box::leak(set.as_bytes().into());
        say(world, &mut client, &put(record).set(set).text("a", &"x".repeat(size)))
    };
    for number in 0..4095 {
        assert_eq!(put_into(&mut world, number, &format!("set{number}"), 1), "0 g1|");
    }
    assert_eq!(put_into(&mut world, 5000, "one more", 1), "4 g0|");
    assert_eq!(put_into(&mut world, 5000, "one more", 40_000), "4 g0|");
    assert_eq!(put_into(&mut world, 5000, "set4094", 1), "0 g1|");
    assert_eq!(put_into(&mut world, 7, "set7", 40_000), "0 g2|");
    assert_eq!(put_into(&mut world, 5001, "", 1), "0 g1|");
    assert_eq!(info(&mut world, 0, "truncate-namespace:namespace=test"), "ok");
    assert_eq!(put_into(&mut world, 5000, "one more", 1), "4 g0|");
    // What is removed counts until it is freed.
    (0..1000).for_each(|_| world.round());
    world.now.unix_ms = crate::records::talk::STARTED_MS + 5;
    assert_eq!(info(&mut world, 0, "truncate:namespace=test;set=set9"), "ok");
    let said = info(&mut world, 0, "sets/test/set9");
    let since_2010_ms = (crate::records::talk::STARTED_MS + 5 - 1_262_304_000_000).cast_unsigned();
    assert_eq!((number(&said, "objects"), number(&said, "truncate_lut")), (0, since_2010_ms));
    assert_eq!(info(&mut world, 0, "sets/test/one more"), "");
    assert_eq!(info(&mut world, 0, "sets/other"), "ERROR:20:there is no such namespace");
}
