//! Commands on the bits of strings, as a client sees them.

use crate::check::{Dice, Talk, bulk, check};
use lane::Settings;
use net::fault::Faults;
use sim::World;

const BAD_OFFSET: &str = "-ERR bit offset is not an integer or out of range\r\n";
const BAD_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const BAD_TYPE: &str =
    "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.\r\n";

#[test]
fn one_bit() {
    check(&[
        ("SETBIT a 1 1", ":0\r\n"),
        ("GET a", "$1\r\n@\r\n"),
        ("OBJECT ENCODING a", "$3\r\nraw\r\n"),
        ("SETBIT a 1 0", ":1\r\n"),
        ("GET a", "$1\r\n\0\r\n"),
        ("SETBIT a 22 1", ":0\r\n"),
        ("GET a", "$3\r\n\0\0\x02\r\n"),
        ("GETBIT a 22", ":1\r\n"),
        ("GETBIT a 23", ":0\r\n"),
        ("GETBIT a 24", ":0\r\n"),
        ("GETBIT a 4294967295", ":0\r\n"),
        ("GETBIT none 0", ":0\r\n"),
        // Digits are the bytes that they are.
        ("SET n 12345", "+OK\r\n"),
        ("GETBIT n 3", ":1\r\n"),
        ("GETBIT n 4", ":0\r\n"),
        ("SETBIT n 7 0", ":1\r\n"),
        ("GET n", "$5\r\n02345\r\n"),
        ("OBJECT ENCODING n", "$3\r\nraw\r\n"),
        // A bit that is none makes the string as long as one that is.
        ("SETBIT z 15 0", ":0\r\n"),
        ("STRLEN z", ":2\r\n"),
        ("EXPIRE z 100", ":1\r\n"),
        ("SETBIT z 99 1", ":0\r\n"),
        ("TTL z", ":100\r\n"),
        ("SETBIT z 4294967296 1", BAD_OFFSET),
        ("SETBIT z -1 1", BAD_OFFSET),
        ("SETBIT z #1 1", BAD_OFFSET),
        ("SETBIT z x 2", BAD_OFFSET),
        ("GETBIT z 4294967296", BAD_OFFSET),
        ("SETBIT z 1 2", "-ERR bit is not an integer or out of range\r\n"),
        ("SETBIT z 1 x", "-ERR bit is not an integer or out of range\r\n"),
    ]);
}

#[test]
fn counts_and_places() {
    check(&[
        ("SET a foobar", "+OK\r\n"),
        ("BITCOUNT a", ":26\r\n"),
        ("BITCOUNT a 1 1", ":6\r\n"),
        ("BITCOUNT a 5 30 BIT", ":17\r\n"),
        ("BITCOUNT a 5 30 bit x", "-ERR syntax error\r\n"),
        ("BITCOUNT a 0", "-ERR syntax error\r\n"),
        ("BITCOUNT a x 1", BAD_INTEGER),
        ("BITCOUNT none x 1 y", ":0\r\n"),
        ("SET n 1", "+OK\r\n"),
        ("BITCOUNT n", ":3\r\n"),
        ("BITPOS n 1", ":2\r\n"),
        ("BITPOS n 2", "-ERR The bit argument must be 1 or 0.\r\n"),
        ("BITPOS none x", BAD_INTEGER),
        ("BITPOS none 0 x y z", ":0\r\n"),
        ("BITPOS none 1", ":-1\r\n"),
        ("BITFIELD f SET u24 0 16777215", "*1\r\n:0\r\n"),
        ("BITPOS f 0", ":24\r\n"),
        ("BITPOS f 0 1", ":24\r\n"),
        ("BITPOS f 0 0 -1", ":-1\r\n"),
        ("BITPOS f 0 3", ":-1\r\n"),
        ("BITPOS f 1 9 -1 BIT", ":9\r\n"),
    ]);
}

/// Half a gigabyte of which nearly all is one shared chunk of zeros.
#[test]
fn the_longest_strings() {
    for lane_count in [1, 4] {
        let mut talk = Talk::new(lane_count);
        let mut ask = |line: &str, want: &str| assert_eq!(talk.say(line), want, "{line}");
        ask("SETBIT k 4294967295 1", ":0\r\n");
        ask("STRLEN k", ":536870912\r\n");
        ask("SETBIT k 70000 1", ":0\r\n");
        ask("SETBIT k 4294967295 1", ":1\r\n");
        ask("GETBIT k 70000", ":1\r\n");
        ask("BITPOS k 1", ":70000\r\n");
        ask("BITPOS k 1 -1", ":4294967295\r\n");
        ask("BITCOUNT k 0 1000000", ":1\r\n");
        ask("BITCOUNT k 4294000000 -1 BIT", ":1\r\n");
        ask("BITFIELD k GET u63 4294967295", "*1\r\n:4611686018427387904\r\n");
        ask("BITFIELD k SET i64 4294967294 -1", "*1\r\n:4611686018427387904\r\n");
        ask("STRLEN k", ":536870920\r\n");
    }
}

#[test]
fn fields() {
    check(&[
        (
            "BITFIELD a SET u8 0 255 GET u8 0 GET i8 0 GET u4 4 GET u63 0",
            "*5\r\n:0\r\n:255\r\n:-1\r\n:15\r\n:9187343239835811840\r\n",
        ),
        ("BITFIELD a INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 3", "*2\r\n:1\r\n:3\r\n"),
        ("BITFIELD a INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1", "*2\r\n:2\r\n:3\r\n"),
        ("BITFIELD a OVERFLOW FAIL INCRBY u2 102 1 GET u2 102", "*2\r\n$-1\r\n:3\r\n"),
        (
            "BITFIELD a OVERFLOW FAIL SET u2 102 4 OVERFLOW WRAP SET u2 102 5 GET u2 102",
            "*3\r\n$-1\r\n:3\r\n:1\r\n",
        ),
        ("STRLEN a", ":13\r\n"),
        ("BITFIELD b SET i5 #2 -3 GET i5 10 GET i5 #2", "*3\r\n:0\r\n:-3\r\n:-3\r\n"),
        ("BITFIELD b OVERFLOW SAT INCRBY i5 #2 -100 OVERFLOW FAIL INCRBY i5 #2 -1", "*2\r\n:-16\r\n$-1\r\n"),
        ("BITFIELD b INCRBY i5 #2 -1", "*1\r\n:15\r\n"),
        ("BITFIELD c SET i64 3 9223372036854775807 INCRBY i64 3 1", "*2\r\n:0\r\n:-9223372036854775808\r\n"),
        ("BITFIELD c OVERFLOW SAT SET u8 0 -1 INCRBY i64 3 -1", "*2\r\n:16\r\n:-576460752303423489\r\n"),
        (
            "BITFIELD c OVERFLOW SAT INCRBY i64 3 -9223372036854775808 GET i64 3",
            "*2\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n",
        ),
        // Redis finds this number above the highest of the field.
        (
            "BITFIELD d OVERFLOW SAT SET i46 0 -9223372036854775808 GET i46 0",
            "*2\r\n:0\r\n:-35184372088832\r\n",
        ),
        // Only reading makes no key; a write that fails does, as in Redis.
        ("BITFIELD none GET u8 0", "*1\r\n:0\r\n"),
        ("BITFIELD none OVERFLOW FAIL", "*0\r\n"),
        ("BITFIELD none", "*0\r\n"),
        ("EXISTS none", ":0\r\n"),
        ("BITFIELD some OVERFLOW FAIL SET u8 8 256", "*1\r\n$-1\r\n"),
        ("STRLEN some", ":2\r\n"),
        ("SET n 1", "+OK\r\n"),
        ("BITFIELD n INCRBY u8 0 1", "*1\r\n:50\r\n"),
        ("INCR n", ":3\r\n"),
        ("BITFIELD_RO n GET u8 0 GET u4 #1", "*2\r\n:51\r\n:3\r\n"),
        ("BITFIELD_RO n OVERFLOW SAT", "*0\r\n"),
        ("BITFIELD_RO n GET u8 0 SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand\r\n"),
        ("BITFIELD n GET u8", "-ERR syntax error\r\n"),
        ("BITFIELD n SET u8 0", "-ERR syntax error\r\n"),
        ("BITFIELD n PUT u8 0 1", "-ERR syntax error\r\n"),
        ("BITFIELD n OVERFLOW NONE", "-ERR Invalid OVERFLOW type specified\r\n"),
        ("BITFIELD n SET u8 0 9 GET u64 0", BAD_TYPE),
        ("BITFIELD n GET i65 0", BAD_TYPE),
        ("BITFIELD n GET u0 0", BAD_TYPE),
        ("BITFIELD n GET 8 0", BAD_TYPE),
        ("BITFIELD n GET \"\" 0", BAD_TYPE),
        ("BITFIELD n GET u8 #", BAD_OFFSET),
        // Redis multiplies as if the number had 64 bits, and finds offset 0.
        ("BITFIELD n GET u8 #4611686018427387904", BAD_OFFSET),
        ("BITFIELD n GET u8 4294967296", BAD_OFFSET),
        ("BITFIELD n SET u8 -1 x", BAD_OFFSET),
        ("BITFIELD n SET u8 0 x", BAD_INTEGER),
        ("GET n", "$1\r\n3\r\n"),
    ]);
}

/// Every width at every place of a few bytes, against bits in a list.
#[test]
fn fields_of_all_widths_are_as_bit_by_bit() {
    let mut talk = Talk::new(1);
    let mut bits = [false; 160];
    let mut dice = Dice(7);
    talk.say("SETBIT k 159 0");
    for _ in 0..2000 {
        let is_signed = dice.below(2) == 0;
        let width = 1 + dice.below(if is_signed { 64 } else { 63 });
        let offset = dice.below(160 - width);
        let value = dice.draw().cast_signed() >> dice.below(64);
        let kind = format!("{}{width}", if is_signed { 'i' } else { 'u' });
        let read = |bits: &[bool]| {
            let first = i128::from(is_signed && bits[offset]);
            bits[offset..offset + width].iter().fold(-first, |number, bit| number * 2 + i128::from(*bit))
        };
        let old = read(&bits);
        let got = talk.say(&format!("BITFIELD k SET {kind} {offset} {value} GET {kind} {offset}"));
        for (index, bit) in bits[offset..offset + width].iter_mut().enumerate() {
            *bit = value >> (width - 1 - index) & 1 == 1;
        }
        assert_eq!(got, format!("*2\r\n:{old}\r\n:{}\r\n", read(&bits)), "{kind} at {offset}: {value}");
        let sum = format!("BITFIELD k OVERFLOW FAIL INCRBY {kind} {offset} 1 GET {kind} {offset}");
        let is_highest = bits[offset..offset + width].iter().skip(usize::from(is_signed)).all(|bit| *bit)
            && !(is_signed && bits[offset]);
        let (sum, number) = (talk.say(&sum), read(&bits));
        if is_highest {
            assert_eq!(sum, format!("*2\r\n$-1\r\n:{number}\r\n"), "{kind} at {offset}");
        } else {
            assert_eq!(sum, format!("*2\r\n:{0}\r\n:{0}\r\n", number + 1), "{kind} at {offset}");
            let restored = talk.say(&format!("BITFIELD k SET {kind} {offset} {value}"));
            assert_eq!(restored, format!("*1\r\n:{}\r\n", number + 1));
        }
    }
    let set = bits.iter().filter(|bit| **bit).count();
    assert_eq!(talk.say("BITCOUNT k"), format!(":{set}\r\n"));
    talk.rest();
}

#[test]
fn strings_are_combined() {
    check(&[
        ("MSET a abc b AB {c} 12 d xyz", "+OK\r\n"),
        ("EXPIRE d 100", ":1\r\n"),
        ("BITOP AND d a b", ":3\r\n"),
        ("GET d", "$3\r\nAB\0\r\n"),
        ("TTL d", ":-1\r\n"),
        ("BITOP or d a b {c}", ":3\r\n"),
        ("GET d", "$3\r\nqrc\r\n"),
        ("BITOP XOR d a b none", ":3\r\n"),
        ("GET d", "$3\r\n  c\r\n"),
        ("BITOP XOR a a a", ":3\r\n"),
        ("GET a", "$3\r\n\0\0\0\r\n"),
        ("BITOP NOT d d", ":3\r\n"),
        ("BITOP NOT d d", ":3\r\n"),
        ("GET d", "$3\r\n  c\r\n"),
        ("BITOP AND d {c}", ":2\r\n"),
        ("INCR d", ":13\r\n"),
        ("BITOP OR d none nothing", ":0\r\n"),
        ("EXISTS d", ":0\r\n"),
        ("BITOP NOT d none", ":0\r\n"),
        ("BITOP NAND d a b", "-ERR syntax error\r\n"),
        ("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key.\r\n"),
        ("BITOP NOT d a b {c} e f g h", "-ERR BITOP NOT must be called with a single source key.\r\n"),
    ]);
}

/// Bytes of which some runs are zeros.
fn text(dice: &mut Dice, size: usize) -> Vec<u8> {
    let zeros = dice.below(size + 1)..dice.below(2 * size + 1);
    let byte = |index| if zeros.contains(&index) { 0 } else { dice.draw().to_le_bytes()[0] };
    (0..size).map(byte).collect()
}

/// Long and short strings on all lanes, inside MULTI and alone, with the destination among the sources or not.
#[test]
fn long_strings_are_combined_as_byte_by_byte() {
    for lane_count in [1, 4] {
        let mut talk = Talk::new(lane_count);
        let mut dice = Dice(u64::from(lane_count));
        for nth in 0..40 {
            let count = 1 + dice.below(6);
            let mut sources = Vec::new();
            for key in 0..count {
                let sizes = [0, 1, 3000, 40_000, 65_536, 100_000, 200_000];
                let size = sizes[dice.below(sizes.len())];
                let value = text(&mut dice, size);
                let key = format!("k{key}").into_bytes();
                if value.is_empty() {
                    talk.call(&[b"del", &key]);
                } else {
                    talk.call(&[b"set", &key, &value]);
                }
                sources.push((key, value));
            }
            let operation = dice.pick(&["and", "or", "xor", "not"]);
            if operation == "not" {
                sources.truncate(1);
            }
            let size = sources.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
            let byte = |index: usize| {
                let mut bytes = sources.iter().map(|(_, value)| value.get(index).copied().unwrap_or(0));
                let first = bytes.next().expect("a source");
                match operation {
                    "and" => bytes.fold(first, |one, other| one & other),
                    "or" => bytes.fold(first, |one, other| one | other),
                    "xor" => bytes.fold(first, |one, other| one ^ other),
                    _ => !first,
                }
            };
            let want: Vec<u8> = (0..size).map(byte).collect();
            let target = dice.pick(&["k0", "target", "k5"]).as_bytes();
            let mut words = vec![b"bitop", operation.as_bytes(), target];
            words.extend(sources.iter().map(|(key, _)| key.as_slice()));
            let in_multi = dice.below(3) == 0;
            if in_multi {
                talk.say("MULTI");
                talk.call(&words);
            }
            let got = if in_multi {
                talk.say("EXEC")
            } else {
                String::from_utf8(talk.call(&words)).expect("a number")
            };
            assert_eq!(got.trim_start_matches("*1\r\n"), format!(":{size}\r\n"), "{nth}: {operation}");
            let stored = talk.call(&[b"get", target]);
            let nothing = b"$-1\r\n".to_vec();
            assert!(
                stored == if size == 0 { nothing } else { bulk(&want) },
                "{nth}: {operation} over {lane_count} lanes"
            );
            for (key, value) in sources.iter().filter(|(key, value)| key != target && !value.is_empty()) {
                assert!(talk.call(&[b"get", key]) == bulk(value), "{nth}: a source stays as it is");
            }
        }
        talk.rest();
    }
}

/// More sources than are locked in a step.
#[test]
fn thousands_of_sources() {
    for lane_count in [1, 4] {
        let mut talk = Talk::new(lane_count);
        let keys: Vec<Vec<u8>> = (0..3000).map(|number| format!("k{number}").into_bytes()).collect();
        let mut words: Vec<&[u8]> = vec![b"mset"];
        words.extend(keys.iter().flat_map(|key| [key.as_slice(), key]));
        talk.call(&words);
        let mut words: Vec<&[u8]> = vec![b"bitop", b"or", b"all"];
        words.extend(keys.iter().map(Vec::as_slice));
        assert_eq!(talk.call(&words), b":5\r\n");
        assert_eq!(talk.say("GET all"), "$5\r\nk????\r\n");
        // What does nothing but count is bounded, too.
        let mut words: Vec<&[u8]> = vec![b"bitfield", b"all"];
        words.extend((0..2000).flat_map(|_| [&b"incrby"[..], b"u16", b"8", b"1", b"overflow", b"wrap"]));
        let got = talk.call(&words);
        assert!(got.starts_with(b"*2000\r\n:16192\r\n:16193\r\n"), "{}", String::from_utf8_lossy(&got[..40]));
        assert!(got.ends_with(b":18191\r\n"));
        // The last one is wrong: nothing has changed.
        words.extend([&b"set"[..], b"u8", b"0", b"x"]);
        assert_eq!(talk.call(&words), BAD_INTEGER.as_bytes());
        assert_eq!(talk.say("BITFIELD all GET u16 8"), "*1\r\n:18191\r\n");
        talk.rest();
    }
}

/// WATCH hears of what changes a bit, and of nothing else.
#[test]
fn watched_keys() {
    let mut talk = Talk::new(4);
    let mut check = |line: &str, is_change: bool| {
        talk.say("DEL none");
        talk.say("SET a 1");
        talk.say("SET b 22");
        talk.say("WATCH a none");
        talk.say(line);
        talk.say("MULTI");
        let want = if is_change { "*-1\r\n" } else { "*0\r\n" };
        assert_eq!(talk.say("EXEC"), want, "{line}");
    };
    check("SETBIT a 7 1", false);
    check("SETBIT a 7 0", true);
    check("SETBIT a 8 0", true);
    check("GETBIT a 7", false);
    check("BITFIELD a GET u8 0", false);
    check("BITFIELD none GET u8 0", false);
    check("BITFIELD a SET u8 0 49", false);
    check("BITFIELD a SET u8 0 50", true);
    check("BITFIELD a OVERFLOW FAIL SET u8 0 256", false);
    check("BITOP AND b a", false);
    check("BITOP AND a b", true);
    check("BITOP AND none b", true);
    check("BITOP AND a none", true);
    check("BITOP AND none none", false);
}

/// What BITOP is making takes the room of others as it grows, and gives it back.
#[test]
fn what_is_being_made_counts() {
    const SIZE: usize = 12 << 20;
    for lane_count in [1, 4] {
        // The source, what is made of it, the floors of the other lanes, and less than `other` takes.
        let floors = (lane_count - 1) * 2 * (SIZE << 1) / lane_count / 64;
        let limit = 2 * SIZE + floors + 250_000;
        let settings = Settings { memory_size_max: limit as u64, ..Settings::default() };
        let world = World::new(u16::try_from(lane_count).unwrap(), &settings, 7, Faults::default());
        let mut busy = world.connect(0);
        let mut talk = Talk::with(world);
        let other: &[&[u8]] = &[b"set", b"{k}other", &[7; 300_000]];
        talk.call(&[b"set", b"{k}source", &[7; SIZE]]);
        assert_eq!(talk.call(other), b"+OK\r\n");
        assert_eq!(talk.say("DEL {k}other"), ":1\r\n");
        talk.rest();
        for target in [&b"{k}target"[..], b"elsewhere"] {
            let mut bytes = Vec::new();
            wire::client::command(&mut bytes, &[b"bitop", b"not", target, b"{k}source"]);
            busy.send(&bytes);
            for _ in 0..20 {
                busy.pump();
                talk.world.round();
            }
            let refused = talk.call(other);
            assert!(refused.starts_with(b"-OOM"), "over {lane_count} lanes");
            busy.pump();
            assert!(busy.received.is_empty(), "it is still under way");
            let got = talk.world.exchange(&mut busy, b"", 11, 200);
            assert_eq!(got, b":12582912\r\n");
            assert_eq!(talk.call(&[b"del", target]), b":1\r\n");
            talk.rest();
            assert_eq!(talk.call(other), b"+OK\r\n", "over {lane_count} lanes");
            assert_eq!(talk.say("DEL {k}other"), ":1\r\n");
            talk.rest();
        }
    }
}

/// A key whose time has come, and that is still there when a command changes it.
#[test]
fn keys_whose_time_has_come_begin_anew() {
    let mut talk = Talk::new(1);
    for line in ["SETBIT a 7 1", "BITFIELD a INCRBY u8 0 1", "BITOP OR a a b"] {
        talk.say("SET b \u{1}");
        talk.say("SET a 22 PX 10");
        talk.world.now.unix_ms += 100;
        talk.say(line);
        assert_eq!(talk.say("GET a"), "$1\r\n\u{1}\r\n", "{line}");
        assert_eq!(talk.say("TTL a"), ":-1\r\n", "{line}");
        talk.rest();
    }
}
