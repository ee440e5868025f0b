//! What requests on records do and answer.

use lane::{Namespace, Namespaces, Settings};
use net::fault::Faults;
use sim::World;
use wire::aerospike::client::{put_batch, put_op, put_same_row};
use wire::aerospike::head::{info1, info2, info3};
use wire::aerospike::op::{kind, particle};

use crate::records::talk::{Ask, ask, batch, check, digest, exchange, get, put, settings, show, sum, world};

#[test]
fn records_are_written_and_read() {
    check(&[
        (get(1).bytes(), "2 g0|"),
        (put(1).text("a", "x").number("b", 7).bytes(), "0 g1|"),
        (get(1).bytes(), "0 g1 a=x,b=i7|"),
        (ask(1, info1::READ, 0, 0).read("b").read("zz").bytes(), "0 g1 b=i7|"),
        (ask(1, info1::READ, info2::RESPOND_ALL, 0).read("zz").read("b").bytes(), "0 g1 zz,b=i7|"),
        (ask(1, info1::READ | info1::NO_BINS, 0, 0).bytes(), "0 g1|"),
        (ask(2, info1::READ | info1::NO_BINS, 0, 0).bytes(), "2 g0|"),
        // A write leaves other bins, and keeps their order.
        (put(1).text("a", "longer").op(kind::WRITE, particle::BOOL, "c", b"\x01").bytes(), "0 g2|"),
        (get(1).bytes(), "0 g2 a=longer,b=i7,c=17:\\x01|"),
        (put(1).op(kind::WRITE, 20, "l", b"\x92\x01\x02").nil("a").bytes(), "0 g3|"),
        (get(1).bytes(), "0 g3 b=i7,c=17:\\x01,l=20:\\x92\\x01\\x02|"),
        // Bins that are gone; with the last one the record.
        (put(1).nil("b").nil("c").nil("l").bytes(), "0 g0|"),
        (get(1).bytes(), "2 g0|"),
        (put(1).nil("b").bytes(), "2 g0|"),
        (put(1).text("a", "x").bytes(), "0 g1|"),
        (ask(1, 0, info2::WRITE | info2::DELETE, 0).bytes(), "0 g0|"),
        (ask(1, 0, info2::WRITE | info2::DELETE, 0).bytes(), "2 g0|"),
    ]);
}

/// What puts all bins of a record takes a shorter way; what only looks like it must not.
#[test]
fn puts_of_all_bins_leave_nothing_and_others_do() {
    let letters = |number: u16, names: &str, value: &str| {
        names.chars().fold(put(number), |ask, name| ask.text(&name.to_string(), value))
    };
    let each = |info1: u8, info2: u8| ask(4, info1, info2::WRITE | info2, 0).text("a", "x");
    check(&[
        (put(1).text("a", "1").text("a", "2").bytes(), "0 g1|"),
        (get(1).bytes(), "0 g1 a=2|"),
        (put(1).text("b", "3").text("a", "4").bytes(), "0 g2|"),
        (get(1).bytes(), "0 g2 a=4,b=3|"),
        (put(1).text("a", "5").text("b", "6").text("c", "7").bytes(), "0 g3|"),
        (get(1).bytes(), "0 g3 a=5,b=6,c=7|"),
        (each(0, info2::RESPOND_ALL).bytes(), "0 g1 2.a|"),
        (each(info1::READ | info1::GET_ALL, 0).bytes(), "0 g2 a=x|"),
        (letters(2, "abcdefgh", "1").text("i", "stays").bytes(), "0 g1|"),
        (letters(2, "abcdefgh", "2").bytes(), "0 g2|"),
        (get(2).bytes(), "0 g2 a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2,i=stays|"),
        // The key that a record was stored with stays.
        (put(3).user_key(b"\x03k").text("a", "x").bytes(), "0 g1|"),
        (put(3).text("a", "y").bytes(), "0 g2|"),
        (get(3).user_key(b"\x03other").bytes(), "19 g0|"),
        (put(3).user_key(b"\x03k").text("a", "z").bytes(), "0 g3|"),
    ]);
}

#[test]
fn policies_decide_whether_a_write_happens() {
    let create = |number: u16| ask(number, 0, info2::WRITE | info2::CREATE_ONLY, 0).text("a", "x");
    let update = |number: u16| ask(number, 0, info2::WRITE, info3::UPDATE_ONLY).text("b", "y");
    let replace = |number: u16| ask(number, 0, info2::WRITE, info3::REPLACE_ONLY).text("c", "z");
    let either = |number: u16| ask(number, 0, info2::WRITE, info3::CREATE_OR_REPLACE).text("d", "z");
    let equal = |generation: u32| {
        ask(1, 0, info2::WRITE | info2::GENERATION_EQUAL, 0).text("e", "e").generation(generation)
    };
    let greater = |generation: u32| {
        ask(1, 0, info2::WRITE | info2::GENERATION_GREATER, 0).text("g", "g").generation(generation)
    };
    let remove = |generation: u32| {
        ask(1, 0, info2::WRITE | info2::DELETE | info2::GENERATION_EQUAL, 0).generation(generation)
    };
    check(&[
        (update(1).bytes(), "2 g0|"),
        (replace(1).bytes(), "2 g0|"),
        (create(1).bytes(), "0 g1|"),
        (create(1).bytes(), "5 g0|"),
        (update(1).bytes(), "0 g2|"),
        (get(1).bytes(), "0 g2 a=x,b=y|"),
        (replace(1).bytes(), "0 g3|"),
        (get(1).bytes(), "0 g3 c=z|"),
        (either(1).bytes(), "0 g4|"),
        (either(2).bytes(), "0 g1|"),
        (get(1).bytes(), "0 g4 d=z|"),
        (equal(3).bytes(), "3 g0|"),
        (equal(4).bytes(), "0 g5|"),
        (greater(5).bytes(), "3 g0|"),
        (greater(6).bytes(), "0 g6|"),
        (remove(5).bytes(), "3 g0|"),
        (remove(6).bytes(), "0 g0|"),
        // A record that is to be made has none.
        (equal(1).bytes(), "3 g0|"),
        (equal(0).bytes(), "0 g1|"),
        // Of another set, or with another key, it is not the record that is meant.
        (put(1).set(b"other").text("a", "x").bytes(), "4 g0|"),
        (put(1).user_key(b"\x03k").text("a", "x").bytes(), "0 g2|"),
        (put(1).user_key(b"\x03other").text("a", "x").bytes(), "19 g0|"),
        (get(1).user_key(b"\x03other").bytes(), "19 g0|"),
        (get(1).user_key(b"\x03k").bytes(), "0 g2 e=e,a=x|"),
        (put(1).text("a", "y").bytes(), "0 g3|"),
        (ask(1, 0, info2::WRITE | info2::DELETE, 0).user_key(b"\x03other").bytes(), "19 g0|"),
        (ask(1, 0, info2::WRITE | info2::DELETE | info2::DURABLE_DELETE, 0).bytes(), "25 g0|"),
        (ask(1, 0, info2::WRITE | info2::DELETE, 0).user_key(b"\x03k").bytes(), "0 g0|"),
    ]);
}

#[test]
fn operations_happen_in_their_order() {
    let both = |number: u16| ask(number, info1::READ, info2::WRITE, 0);
    let each = |number: u16| ask(number, info1::READ, info2::WRITE | info2::RESPOND_ALL, 0);
    let join =
        |ask: Ask, kind: u8, name: &str, value: &str| ask.op(kind, particle::STRING, name, value.as_bytes());
    let half = 0.5_f64.to_be_bytes();
    check(&[
        (both(1).incr("n", 5).read("n").incr("n", -7).read("n").bytes(), "0 g1 n=i5,n=i-2|"),
        (each(1).incr("n", 100).read("n").read("zz").touch().bytes(), "0 g2 5.n,n=i98,zz|"),
        (join(put(1), kind::APPEND, "s", "b").bytes(), "0 g3|"),
        (join(join(put(1), kind::APPEND, "s", "c"), kind::PREPEND, "s", "a").bytes(), "0 g4|"),
        (both(1).read("s").text("s", "new").read("s").bytes(), "0 g5 s=abc,s=new|"),
        (join(both(1), kind::PREPEND, "s", "very ").read("s").bytes(), "0 g6 s=very new|"),
        (
            both(1)
                .op(kind::INCR, particle::FLOAT, "f", &half)
                .op(kind::INCR, particle::FLOAT, "f", &half)
                .read("f")
                .bytes(),
            "0 g7 f=f1|",
        ),
        // All bins, as they are afterwards.
        (
            ask(1, info1::READ | info1::GET_ALL, info2::WRITE, 0)
                .incr("n", 2)
                .op(kind::READ, 0, "", b"")
                .bytes(),
            "0 g8 n=i100,s=very new,f=f1|",
        ),
        // What does not fit leaves all as it was.
        (put(1).number("x", 1).incr("s", 1).bytes(), "12 g0|"),
        (put(1).op(kind::INCR, particle::FLOAT, "n", &half).bytes(), "12 g0|"),
        (join(put(1), kind::APPEND, "n", "x").bytes(), "12 g0|"),
        (put(1).op(kind::APPEND, particle::BLOB, "s", b"x").bytes(), "12 g0|"),
        (put(1).op(kind::APPEND, particle::INTEGER, "n", &[0; 8]).bytes(), "12 g0|"),
        (put(1).op(kind::INCR, particle::STRING, "n", b"1").bytes(), "12 g0|"),
        (put(1).op(kind::INCR, particle::INTEGER, "n", b"1").bytes(), "4 g0|"),
        (put(1).op(kind::WRITE, particle::INTEGER, "n", b"1").bytes(), "4 g0|"),
        (put(1).op(kind::WRITE, particle::BOOL, "n", b"").bytes(), "4 g0|"),
        (put(1).op(kind::WRITE, particle::STRING, "", b"x").bytes(), "4 g0|"),
        (put(1).bytes(), "4 g0|"),
        (ask(1, info1::READ, 0, 0).bytes(), "4 g0|"),
        (ask(1, info1::READ, 0, 0).text("a", "x").bytes(), "4 g0|"),
        (
            ask(1, info1::READ | info1::GET_ALL, info2::WRITE | info2::RESPOND_ALL, 0).incr("n", 2).bytes(),
            "4 g0|",
        ),
        (ask(1, 0, info2::WRITE, info3::CREATE_OR_REPLACE).incr("n", 2).bytes(), "4 g0|"),
        (ask(1, 0, info2::WRITE, info3::CREATE_OR_REPLACE).text("a", "x").nil("n").bytes(), "4 g0|"),
        // What is not served, and what there is not.
        (put(1).op(kind::CDT_MODIFY, particle::BLOB, "l", b"x").bytes(), "16 g0|"),
        (ask(1, info1::READ, 0, 0).op(kind::CDT_READ, particle::BLOB, "l", b"x").bytes(), "16 g0|"),
        (put(1).op(kind::EXP_MODIFY, particle::BLOB, "l", b"x").bytes(), "16 g0|"),
        (put(1).op(99, particle::BLOB, "l", b"x").bytes(), "4 g0|"),
        (get(1).bytes(), "0 g8 n=i100,s=very new,f=f1|"),
        (each(1).op(kind::DELETE_ALL, 0, "", b"").text("a", "x").bytes(), "0 g9 14.,2.a|"),
        (get(1).bytes(), "0 g9 a=x|"),
        (put(1).op(kind::DELETE_ALL, 0, "", b"").bytes(), "0 g0|"),
        (get(1).bytes(), "2 g0|"),
    ]);
}

/// A name that is too long, operations that are cut, and more or fewer than said.
#[test]
fn operations_that_are_broken_are_refused() {
    let with = |op_count: u16, ops: &[u8]| Ask { op_count, ops: ops.to_vec(), ..put(1) }.bytes();
    let mut whole = Vec::new();
    put_op(&mut whole, kind::WRITE, particle::STRING, b"a", b"x");
    let long_name = [&[0, 0, 0, 21, 2, 3, 0, 16][..], &[b'n'; 17]].concat();
    let name_behind = [&[0, 0, 0, 4, 2, 3, 0, 9][..], &[b'n'; 17]].concat();
    check(&[
        (with(1, &long_name), "21 g0|"),
        (with(1, &name_behind), "4 g0|"),
        (with(1, &whole[..9]), "4 g0|"),
        (with(1, &whole[..5]), "4 g0|"),
        (with(2, &whole), "4 g0|"),
        (with(1, &whole.repeat(2)), "4 g0|"),
        (with(1, &[0, 0, 0, 0, 2, 3, 0, 0]), "4 g0|"),
        (with(1, &[0xff, 0xff, 0xff, 0xff, 2, 3, 0, 0]), "4 g0|"),
        (get(1).bytes(), "2 g0|"),
        (with(1, &whole), "0 g1|"),
    ]);
}

#[test]
fn records_end_when_they_should() {
    for lane_count in [1, 4] {
        let test = Namespace { default_ttl_s: 50, ..Namespace::new("test") };
        let namespaces = Namespaces::new(vec![Namespace::new("default")], vec![test]);
        let settings = Settings { namespaces, ..settings() };
        let mut world = World::new(lane_count, &settings, 1, Faults::default());
        let mut client = world.connect(0);
        let mut say = |world: &mut World, bytes: Vec<u8>, want: &str| {
            let got = exchange(world, &mut client, &bytes, want.matches('|').count());
            assert_eq!(show(&got, world.now.unix_ms), want, "over {lane_count} lanes");
        };
        let touch = |ttl: u32| ask(1, 0, info2::WRITE, 0).touch().ttl(ttl).bytes();
        let (never, keep) = (u32::MAX, u32::MAX - 1);
        say(&mut world, touch(9), "2 g0|");
        say(&mut world, put(1).text("a", "x").ttl(100).bytes(), "0 g1 v100|");
        say(&mut world, get(1).bytes(), "0 g1 v100 a=x|");
        say(&mut world, touch(200), "0 g2 v200|");
        say(&mut world, touch(keep), "0 g3 v200|");
        say(&mut world, put(1).text("a", "y").ttl(keep).bytes(), "0 g4 v200|");
        say(&mut world, touch(never), "0 g5|");
        say(&mut world, put(1).text("a", "z").bytes(), "0 g6 v50|");
        say(&mut world, put(2).text("a", "z").ttl(keep).bytes(), "0 g1 v50|");
        say(&mut world, put(3).text("a", "z").ttl(never).bytes(), "0 g1|");
        say(&mut world, touch(315_360_000), "0 g7 v315360000|");
        say(&mut world, touch(315_360_001), "4 g0|");
        say(&mut world, get(1).bytes(), "0 g7 v315360000 a=z|");
        world.now.unix_ms += 49_000;
        world.now.mono_ns += 49_000_000_000;
        say(&mut world, get(2).bytes(), "0 g1 v1 a=z|");
        world.now.unix_ms += 1_000;
        world.now.mono_ns += 1_000_000_000;
        say(&mut world, get(2).bytes(), "2 g0|");
        say(&mut world, ask(2, 0, info2::WRITE, info3::UPDATE_ONLY).text("a", "x").bytes(), "2 g0|");
        say(&mut world, put(2).incr("n", 1).bytes(), "0 g1 v50|");
        say(&mut world, get(3).bytes(), "0 g1 a=z|");
    }
}

/// Sixteen bits of generation, of which 0 is none.
#[test]
fn generations_begin_again_at_one() {
    let mut world = world(1);
    let mut client = world.connect(0);
    let touches = ask(1, 0, info2::WRITE, 0).touch().bytes();
    exchange(&mut world, &mut client, &put(1).text("a", "x").bytes(), 1);
    for _ in 0..64 {
        exchange(&mut world, &mut client, &touches.repeat(1023), 1023);
    }
    let rest = usize::from(u16::MAX) - 1 - 64 * 1023;
    let got = exchange(&mut world, &mut client, &touches.repeat(rest + 1), rest + 1);
    assert!(show(&got, world.now.unix_ms).ends_with("0 g65534|0 g65535|0 g1|"));
}

#[test]
fn rows_of_a_batch_are_answered_in_their_order() {
    let rows: Vec<Ask> = (0..40).map(|number| put(number).number("n", i64::from(number))).collect();
    let written: String = (1..=40).map(|row| format!("0 g1 #{row}|")).collect::<String>() + "0 g0 last|";
    let gets: Vec<Ask> = (0..40).map(get).collect();
    let read: String =
        (0..40).map(|number| format!("0 g1 #{} n=i{number}|", number + 1)).collect::<String>() + "0 g0 last|";
    let mixed = [
        get(3),
        ask(50, info1::READ, info2::WRITE | info2::RESPOND_ALL, 0).incr("n", 3).read("n"),
        ask(4, 0, info2::WRITE | info2::DELETE, 0),
        get(4),
        ask(5, info1::READ | info1::NO_BINS, 0, 0),
        put(6).op(kind::CDT_MODIFY, particle::BLOB, "l", b"x"),
        ask(7, info1::READ, 0, 0).read("zz"),
    ];
    let wanted = "0 g1 #1 n=i3|0 g1 #2 5.n,n=i3|0 g0 #3|2 g0 #4|0 g1 #5|16 g0 #6|0 g1 #7|0 g0 last|";
    // What repeats the row before it has its operations.
    let mut same = Vec::new();
    let write = ask(60, 0, info2::WRITE, 0).text("a", "same");
    write.message().put_row(&mut same, 1, &write.digest);
    (61..64).for_each(|number| put_same_row(&mut same, u32::from(number), &digest(number)));
    let mut repeated = Vec::new();
    put_batch(&mut repeated, 4, &same);
    let mut empty = Vec::new();
    put_batch(&mut empty, 0, b"");
    check(&[
        (batch(&rows), &written),
        (batch(&gets), &read),
        (batch(&mixed), wanted),
        (repeated, "0 g1 #1|0 g1 #61|0 g1 #62|0 g1 #63|0 g0 last|"),
        (get(63).bytes(), "0 g1 a=same|"),
        (empty, "4 g0 last|"),
    ]);
}

/// A reply is no longer than four of the longest records, however often a request names a bin, and then nothing is changed.
#[test]
fn replies_are_so_long() {
    let text = "x".repeat(100_000);
    let reads = |ask: Ask, count: usize| (0..count).fold(ask, |ask, _| ask.read("l"));
    let shown = vec![format!("l=({} bytes, {})", text.len(), sum(text.as_bytes())); 41].join(",");
    let changing = |value: i64| ask(1, info1::READ, info2::WRITE, 0).number("n", value);
    check(&[
        (put(1).text("l", &text).bytes(), "0 g1|"),
        (reads(ask(1, info1::READ, 0, 0), 41).bytes(), &format!("0 g1 {shown}|")),
        (reads(ask(1, info1::READ, 0, 0), 42).bytes(), "13 g0|"),
        (reads(changing(1), 41).bytes(), &format!("0 g2 {shown}|")),
        (reads(changing(2), 42).bytes(), "13 g0|"),
        (ask(1, info1::READ, 0, 0).read("n").bytes(), "0 g2 n=i1|"),
    ]);
    // Nor is it of very many pieces.
    let appended = (0..200).fold(ask(2, info1::READ, info2::WRITE, 0), |ask, _| {
        ask.op(kind::APPEND, particle::STRING, "a", b"y").read("a")
    });
    check(&[(appended.bytes(), "13 g0|"), (get(2).bytes(), "2 g0|")]);
}

/// Values that come and go in chunks; records are put together in slices.
#[test]
fn long_records() {
    let part = |byte: char, size: usize| byte.to_string().repeat(size);
    let (a, b, c) = (part('a', 100_000), part('b', 70_000), part('c', 40_000));
    let shown = |text: &str| format!("({} bytes, {})", text.len(), sum(text.as_bytes()));
    let join = |ask: Ask, kind: u8, value: &str| ask.op(kind, particle::STRING, "l", value.as_bytes());
    let joined = format!("{c}{a}{b}");
    let too_long = part('z', 1_048_600);
    let half = part('h', 700_000);
    check(&[
        (put(1).number("n", 1).text("l", &a).bytes(), "0 g1|"),
        (get(1).bytes(), &format!("0 g1 n=i1,l={}|", shown(&a))),
        (join(put(1), kind::APPEND, &b).bytes(), "0 g2|"),
        (join(put(1).incr("n", 1), kind::PREPEND, &c).bytes(), "0 g3|"),
        (get(1).bytes(), &format!("0 g3 n=i2,l={}|", shown(&joined))),
        (ask(1, info1::READ, 0, 0).read("n").bytes(), "0 g3 n=i2|"),
        (ask(1, info1::READ, 0, 0).read("l").read("n").bytes(), &format!("0 g3 l={},n=i2|", shown(&joined))),
        (
            ask(1, info1::READ, info2::WRITE, 0).read("l").text("l", "short").read("l").bytes(),
            &format!("0 g4 l={},l=short|", shown(&joined)),
        ),
        (get(1).bytes(), "0 g4 n=i2,l=short|"),
        (
            ask(1, info1::READ, info2::WRITE, 0).text("l", &a).read("l").text("m", &b).bytes(),
            &format!("0 g5 l={}|", shown(&a)),
        ),
        (ask(1, 0, info2::WRITE, 0).touch().bytes(), "0 g6|"),
        (get(1).bytes(), &format!("0 g6 n=i2,l={},m={}|", shown(&a), shown(&b))),
        (put(1).text("l", &too_long).bytes(), "13 g0|"),
        (put(1).text("x", &half).bytes(), "0 g7|"),
        (put(1).text("y", &half).bytes(), "13 g0|"),
        (
            batch(&[put(2).text("l", &a).text("m", &b), get(1), get(2)]),
            &format!(
                "0 g1 #1|0 g7 #2 n=i2,l={},m={},x={}|0 g1 #3 l={},m={}|0 g0 last|",
                shown(&a),
                shown(&b),
                shown(&half),
                shown(&a),
                shown(&b)
            ),
        ),
        (
            batch(&[
                put(2).text("l", &too_long),
                put(2).text("m", "x"),
                put(3).text("l", &half).text("m", &half),
            ]),
            "13 g0 #1|0 g2 #2|13 g0 #3|0 g0 last|",
        ),
        (get(3).bytes(), "2 g0|"),
    ]);
}
