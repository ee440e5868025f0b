//! DUMP and RESTORE, as a client sees them.

use crate::check::{Dice, Talk, bulk};
use lane::Settings;
use net::fault::Faults;
use sim::World;
use wire::rdb::crc::Crc64;
use wire::rdb::trailer;

const BROKEN: &str = "-ERR Bad data format\r\n";
const NOT_SEALED: &str = "-ERR DUMP payload version or checksum are wrong\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";

/// A payload with the right end.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut crc = Crc64::default();
    crc.update(body);
    [body, &trailer(crc)].concat()
}

/// What DUMP answers, without what makes a bulk of it.
fn dumped(talk: &mut Talk, key: &[u8]) -> Vec<u8> {
    let reply = talk.call(&[b"dump", key]);
    let start = reply.iter().position(|byte| *byte == b'\n').expect("a bulk has a head") + 1;
    reply[start..reply.len() - 2].to_vec()
}

/// The reply to RESTORE with these words behind the key.
fn restored(talk: &mut Talk, key: &[u8], words: &[&[u8]]) -> String {
    let words = [&[&b"restore"[..], key], words].concat();
    String::from_utf8_lossy(&talk.call(&words)).into_owned()
}

/// Strings that Redis writes in different ways, of all sizes from nothing to several chunks.
fn some_values() -> Vec<Vec<u8>> {
    let mut dice = Dice(5);
    let mut values: Vec<Vec<u8>> =
        ["", "0", "-1", "127", "128", "-32769", "2147483647", "2147483648", "012", "x"]
            .map(|text| text.as_bytes().to_vec())
            .to_vec();
    for size in [20, 21, 100, 512, 513, 5000, 16_384, 16_385, 32_000, 33_000, 65_536, 65_537, 300_000] {
        values.push(vec![b'x'; size]);
        values.push((0..size).map(|_| dice.draw().to_le_bytes()[0]).collect());
        values.push((0..size).map(|index| b'a' + u8::try_from(index % 7).expect("small")).collect());
    }
    values
}

#[test]
fn what_is_dumped_is_restored_on_any_lane() {
    for lane_count in [1, 2] {
        let mut talk = Talk::new(lane_count);
        for (nth, value) in some_values().into_iter().enumerate() {
            let (from, to) = (format!("from{nth}").into_bytes(), format!("to{nth}").into_bytes());
            talk.call(&[b"set", &from, &value]);
            let payload = dumped(&mut talk, &from);
            assert!(payload == sealed(&payload[..payload.len() - 10]), "value {nth} has the right end");
            assert_eq!(restored(&mut talk, &to, &[b"0", &payload]), "+OK\r\n", "value {nth}");
            assert!(talk.call(&[b"get", &to]) == bulk(&value), "value {nth} over {lane_count} lanes");
            assert!(dumped(&mut talk, &to) == payload, "value {nth} is dumped again as the same");
            // Up to 16 KiB it is as short as Redis makes it, and above it is as it was.
            let is_repetitive = value.len() >= 100 && value[..7] == value[7..14];
            let is_short = payload.len() < value.len() / 2;
            assert_eq!(is_short, is_repetitive && value.len() <= 16_384, "value {nth}: {}", payload.len());
            // In a transaction, too.
            assert_eq!(talk.say("MULTI"), "+OK\r\n");
            talk.call(&[b"dump", &from]);
            talk.call(&[b"restore-asking", &to, b"0", &payload, b"replace"]);
            let want = [b"*2\r\n", &bulk(&payload)[..], b"+OK\r\n"].concat();
            assert!(talk.call(&[b"exec"]) == want, "value {nth} inside MULTI");
        }
        assert_eq!(talk.say("DUMP none"), "$-1\r\n");
        talk.rest();
    }
}

#[test]
fn a_call_is_looked_at_in_redis_order() {
    for lane_count in [1, 2] {
        let mut talk = Talk::new(lane_count);
        let hello = sealed(b"\0\x05hello");
        assert_eq!(hello, b"\0\x05hello\n\0cr\xdfve4 \n");
        talk.say("SET x 1");
        let mut check = |line: &str, want: &str| {
            let words: Vec<&[u8]> = crate::check::words(line);
            let words: Vec<&[u8]> =
                words.iter().map(|word| if *word == b"hello" { &hello[..] } else { word }).collect();
            assert_eq!(String::from_utf8_lossy(&talk.call(&words)), want, "{line}");
        };
        let taken = "-BUSYKEY Target key name already exists.\r\n";
        check("RESTORE x 0 ...", taken);
        check("RESTORE x a ...", taken);
        check("RESTORE y 0 ...", NOT_SEALED);
        check("RESTORE y 0 \"\"", NOT_SEALED);
        check("RESTORE y a ...", NOT_AN_INTEGER);
        check("RESTORE y -1 ...", "-ERR Invalid TTL value, must be >= 0\r\n");
        check("RESTORE x -1 ... REPLACE", "-ERR Invalid TTL value, must be >= 0\r\n");
        check("RESTORE y 0 ... foo", SYNTAX);
        check("RESTORE x 0 ... idletime", SYNTAX);
        check("RESTORE y 0 ... idletime -1", "-ERR Invalid IDLETIME value, must be >= 0\r\n");
        check("RESTORE y 0 ... idletime x", NOT_AN_INTEGER);
        check("RESTORE y 0 ... freq 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n");
        check("RESTORE y 0 ... freq -1", "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n");
        check("RESTORE y 0 ... freq 1 idletime 1", SYNTAX);
        check("RESTORE y 0 ... idletime 1 freq 1", SYNTAX);
        check("RESTORE y 0 ... idletime 1 idletime 2", NOT_SEALED);
        check("RESTORE y 0 hello IDLETIME 1000 REPLACE ABSTTL REPLACE", "+OK\r\n");
        check("OBJECT IDLETIME y", ":1000\r\n");
        check("TTL y", ":-1\r\n");
        check("RESTORE y 100000 hello REPLACE FREQ 9", "+OK\r\n");
        check("OBJECT IDLETIME y", ":0\r\n");
        check("TTL y", ":100\r\n");
        check("RESTORE y 9223372036854775807 hello REPLACE ABSTTL", "+OK\r\n");
        check("PEXPIRETIME y", ":9223372036854775807\r\n");
        // What is over already takes the old value with it.
        check("RESTORE y 1000 hello ABSTTL", taken);
        check("RESTORE y 1000 hello ABSTTL REPLACE", "+OK\r\n");
        check("EXISTS y", ":0\r\n");
        check("RESTORE y 9223372036854775807 hello", "+OK\r\n");
        check("EXISTS y", ":0\r\n");
        check("RESTORE x 0 ... REPLACE", NOT_SEALED);
        check("GET x", "$1\r\n1\r\n");
        check("SET gone 1 PX 1", "+OK\r\n");
        talk.world.pass(2_000_000);
        assert_eq!(restored(&mut talk, b"gone", &[b"0", &hello]), "+OK\r\n");
        assert_eq!(talk.say("GET gone"), "$5\r\nhello\r\n");
    }
}

#[test]
fn frequencies_are_brought_along_where_they_are_counted() {
    let settings = Settings { policy: store::Policy::AllKeysLfu, ..Settings::default() };
    let mut talk = Talk::with(World::new(1, &settings, 1, Faults::default()));
    let hello = sealed(b"\0\x05hello");
    assert_eq!(restored(&mut talk, b"k", &[b"0", &hello, b"freq", b"100"]), "+OK\r\n");
    assert_eq!(talk.say("OBJECT FREQ k"), ":100\r\n");
    assert_eq!(restored(&mut talk, b"k", &[b"0", &hello, b"idletime", b"9", b"replace"]), "+OK\r\n");
    assert_ne!(talk.say("OBJECT FREQ k"), ":0\r\n");
}

/// To another name, lane or database; a copy is a new value.
#[test]
fn frequencies_move_with_their_keys() {
    let settings = Settings { policy: store::Policy::AllKeysLfu, ..Settings::default() };
    for lanes in [1, 4] {
        let mut talk = Talk::with(World::new(lanes, &settings, 1, Faults::default()));
        let hello = sealed(b"\0\x05hello");
        assert_eq!(restored(&mut talk, b"a", &[b"0", &hello, b"freq", b"100"]), "+OK\r\n");
        let names = ["b", "c", "d", "e", "f"];
        for (from, to) in std::iter::once(&"a").chain(&names).zip(&names) {
            talk.say(&format!("RENAME {from} {to}"));
            assert_eq!(talk.say(&format!("OBJECT FREQ {to}")), ":100\r\n", "{from} to {to}, {lanes} lanes");
        }
        talk.say("RENAMENX f g");
        talk.say("COPY g h");
        assert_eq!(talk.say("OBJECT FREQ h"), ":5\r\n");
        talk.say("MOVE g 1");
        talk.say("SELECT 1");
        assert_eq!(talk.say("OBJECT FREQ g"), ":100\r\n");
    }
}

#[test]
fn what_is_no_string_is_refused_and_leaves_the_key() {
    let mut talk = Talk::new(1);
    talk.say("SET k old");
    let mut check = |body: &[u8], want: &str| {
        let payload = sealed(body);
        assert_eq!(restored(&mut talk, b"k", &[b"0", &payload, b"replace"]), want, "{body:?}");
        assert_eq!(talk.say("GET k"), "$3\r\nold\r\n");
    };
    check(b"", BROKEN);
    check(b"\0", BROKEN);
    check(b"\0\x82\0\0\0\x05hello", BROKEN);
    check(b"\0\xc3\x06\x06\x04hello", BROKEN);
    check(b"\0\xc3\x06\x04\x04hello", BROKEN);
    check(b"\0\xc3\x04\x04\0a\x20\x01", BROKEN);
    check(b"\x08\x05hello", BROKEN);
    check(b"\x01\x01\x05hello", "-ERR lists are not served, only strings are\r\n");
    check(b"\x13\x05hello", "-ERR streams are not served, only strings are\r\n");
    // So few bytes can't become so many, whatever they are; these could, and are fewer in the end.
    check(b"\0\xc3\x03\x80\xff\xff\xff\xff\xe0\xff\0", BROKEN);
    check(&[b"\0\xc3\x4f\xff\x80\0\x05\0\0", &vec![0xe0; 4095][..]].concat(), BROKEN);
    // Later versions and other sums.
    let mut other = sealed(b"\0\x05hello");
    let sum = other.len() - 8;
    other[sum..].fill(0);
    assert_eq!(restored(&mut talk, b"k", &[b"0", &other, b"replace"]), NOT_SEALED);
    talk.rest();
}

/// A payload of which any byte is another one, with the right sum or not, does no harm.
#[test]
fn damaged_payloads() {
    let mut talk = Talk::new(2);
    let mut dice = Dice(11);
    let mut taken = 0;
    for nth in 0..600 {
        let mut payload = wire_payload(&mut dice);
        let at = dice.below(payload.len().min(30));
        payload[at] = dice.draw().to_le_bytes()[0];
        let payload = if nth % 8 == 0 { [&payload[..], &[0; 10]].concat() } else { sealed(&payload) };
        let reply = restored(&mut talk, b"k", &[b"0", &payload, b"replace"]);
        taken += usize::from(reply == "+OK\r\n");
        let is_known = reply == "+OK\r\n"
            || reply == BROKEN
            || reply == NOT_SEALED
            || reply.ends_with("are not served, only strings are\r\n");
        assert!(is_known, "{reply}");
    }
    assert!((50..550).contains(&taken), "{taken} were taken all the same");
    talk.rest();
}

fn wire_payload(dice: &mut Dice) -> Vec<u8> {
    let size = 1 + dice.below(3000);
    let string: Vec<u8> =
        (0..size).map(|index| b'a' + u8::try_from(index / 50 % 20).expect("small")).collect();
    let mut payload = Vec::new();
    let mut compressor = wire::rdb::lzf::Compressor::default();
    wire::rdb::put_string(&mut payload, &string, (dice.below(4) > 0).then_some(&mut compressor));
    payload
}

/// A few kilobytes that become megabytes, which there is no room for or which are longer than strings may be.
#[test]
fn limits_hold_for_what_comes_out() {
    // 264 bytes each time, of the one before.
    let repetitions = 20_000;
    let whole = 1 + repetitions * 264;
    let mut body = b"\0\xc3".to_vec();
    for size in [2 + 3 * repetitions, whole] {
        body.push(0x80);
        body.extend(u32::try_from(size).expect("some megabytes").to_be_bytes());
    }
    body.extend(b"\0a");
    (0..repetitions).for_each(|_| body.extend(b"\xe0\xff\0"));
    let payload = sealed(&body);

    let mut talk = Talk::new(1);
    assert_eq!(restored(&mut talk, b"k", &[b"0", &payload]), "+OK\r\n");
    assert_eq!(talk.say("STRLEN k"), format!(":{whole}\r\n"));
    assert!(talk.call(&[b"get", b"k"]) == bulk(&vec![b'a'; whole]));
    talk.rest();

    let settings = Settings { bulk_size_max: 1 << 20, ..Settings::default() };
    let mut talk = Talk::with(World::new(1, &settings, 1, Faults::default()));
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(restored(&mut talk, b"k", &[b"0", &payload]), too_long);

    let settings = Settings { memory_size_max: 4 << 20, ..Settings::default() };
    let mut talk = Talk::with(World::new(1, &settings, 1, Faults::default()));
    assert_eq!(
        restored(&mut talk, b"k", &[b"0", &payload]),
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    );
    assert_eq!(talk.say("EXISTS k"), ":0\r\n");
    talk.rest();

    // The room that is kept meanwhile comes back.
    let settings = Settings { memory_size_max: 24 << 20, ..Settings::default() };
    let mut talk = Talk::with(World::new(1, &settings, 1, Faults::default()));
    for _ in 0..10 {
        assert_eq!(restored(&mut talk, b"k", &[b"0", &payload, b"replace"]), "+OK\r\n");
        talk.rest();
    }
}

#[test]
fn what_is_not_to_be_compressed_is_not() {
    let settings = Settings { compresses_dumps: false, ..Settings::default() };
    let mut talk = Talk::with(World::new(1, &settings, 1, Faults::default()));
    talk.call(&[b"set", b"k", &[b'x'; 100]]);
    let body = [&b"\0\x40\x64"[..], &[b'x'; 100]].concat();
    assert!(dumped(&mut talk, b"k") == sealed(&body));
}
