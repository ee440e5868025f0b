//! Commands on keys of any type and on databases, as a client sees them.

use std::collections::BTreeSet;

use crate::check::{Talk, check};
use wire::client::{Collector, Reply};

#[test]
fn copies_and_moves() {
    check(&[
        ("MSET a 1 b 2 c 3 d 4", "+OK\r\n"),
        ("EXPIRE a 100", ":1\r\n"),
        ("COPY a b", ":0\r\n"),
        ("COPY a b REPLACE", ":1\r\n"),
        ("TTL b", ":100\r\n"),
        ("COPY a e", ":1\r\n"),
        ("COPY a c DB 1", ":1\r\n"),
        ("COPY a c DB 1", ":0\r\n"),
        ("COPY a c REPLACE DB 1", ":1\r\n"),
        ("COPY none x", ":0\r\n"),
        ("COPY a a", "-ERR source and destination objects are the same\r\n"),
        ("COPY a a DB 0", "-ERR source and destination objects are the same\r\n"),
        ("COPY a a DB 2", ":1\r\n"),
        ("COPY a b DB 16", "-ERR DB index is out of range\r\n"),
        ("COPY a b DB x", "-ERR value is not an integer or out of range\r\n"),
        ("COPY a b FOO", "-ERR syntax error\r\n"),
        ("COPY a b DB", "-ERR syntax error\r\n"),
        ("MGET a b c d e", "*5\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n1\r\n"),
        ("MOVE d 1", ":1\r\n"),
        ("MOVE d 1", ":0\r\n"),
        ("MOVE c 1", ":0\r\n"),
        ("MOVE c 0", "-ERR source and destination objects are the same\r\n"),
        ("MOVE c 99", "-ERR DB index is out of range\r\n"),
        (
            "MOVE c 3000000000",
            "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n",
        ),
        ("SELECT 1", "+OK\r\n"),
        ("MGET c d", "*2\r\n$1\r\n1\r\n$1\r\n4\r\n"),
        ("SWAPDB 0 1", "+OK\r\n"),
        ("MGET a c", "*2\r\n$1\r\n1\r\n$1\r\n3\r\n"),
        ("DBSIZE", ":4\r\n"),
        ("SWAPDB 0 16", "-ERR DB index is out of range\r\n"),
        ("SWAPDB x 1", "-ERR invalid first DB index\r\n"),
        ("SWAPDB 0 x", "-ERR invalid second DB index\r\n"),
        ("FLUSHDB ASYNC", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("FLUSHDB LATER", "-ERR syntax error\r\n"),
        ("FLUSHALL SYNC now", "-ERR syntax error\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("FLUSHALL SYNC", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
    ]);
}

#[test]
fn times_to_live() {
    check(&[
        ("SET a 1", "+OK\r\n"),
        ("EXPIRE a 100 XX", ":0\r\n"),
        ("EXPIRE a 100 GT", ":0\r\n"),
        ("EXPIRE a 100 NX", ":1\r\n"),
        ("EXPIRE a 200 NX", ":0\r\n"),
        ("EXPIRE a 50 GT", ":0\r\n"),
        ("EXPIRE a 200 XX GT", ":1\r\n"),
        ("EXPIRE a 300 LT", ":0\r\n"),
        ("PEXPIRE a 150000 LT", ":1\r\n"),
        ("TTL a", ":150\r\n"),
        ("EXPIRE a 1 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"),
        ("EXPIRE a 1 GT LT", "-ERR GT and LT options at the same time are not compatible\r\n"),
        ("EXPIRE a x FOO", "-ERR Unsupported option FOO\r\n"),
        ("EXPIRE a x", "-ERR value is not an integer or out of range\r\n"),
        ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n"),
        ("PEXPIRE a 9223372036854775807", "-ERR invalid expire time in 'pexpire' command\r\n"),
        ("EXPIREAT a 1800000000", ":1\r\n"),
        ("EXPIRETIME a", ":1800000000\r\n"),
        ("PEXPIRETIME a", ":1800000000000\r\n"),
        ("EXPIRETIME none", ":-2\r\n"),
        ("PERSIST a", ":1\r\n"),
        ("EXPIRETIME a", ":-1\r\n"),
        ("EXPIRE a -1", ":1\r\n"),
        ("EXISTS a", ":0\r\n"),
        // The last instant that there is.
        ("SET a 1 PXAT 9223372036854775807", "+OK\r\n"),
        ("PEXPIRETIME a", ":9223372036854775807\r\n"),
        ("EXPIRETIME a", ":9223372036854776\r\n"),
        ("PEXPIREAT a 9223372036854775499", ":1\r\n"),
        ("EXPIRETIME a", ":9223372036854775\r\n"),
    ]);
}

#[test]
fn how_values_are_kept() {
    check(&[
        ("MSET n 12345 s short", "+OK\r\n"),
        ("OBJECT ENCODING n", "$3\r\nint\r\n"),
        ("OBJECT ENCODING s", "$6\r\nembstr\r\n"),
        ("APPEND s er", ":7\r\n"),
        ("OBJECT ENCODING s", "$3\r\nraw\r\n"),
        ("SETRANGE t 1 x", ":2\r\n"),
        ("OBJECT ENCODING t", "$3\r\nraw\r\n"),
        ("DEL t", ":1\r\n"),
        ("OBJECT ENCODING none", "$-1\r\n"),
        ("OBJECT REFCOUNT s", ":1\r\n"),
        ("OBJECT IDLETIME s", ":0\r\n"),
        ("OBJECT FOO s", "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.\r\n"),
        ("TOUCH n s none", ":2\r\n"),
        ("UNLINK n none", ":1\r\n"),
        ("RANDOMKEY", "$1\r\ns\r\n"),
        ("UNLINK s", ":1\r\n"),
        ("RANDOMKEY", "$-1\r\n"),
    ]);
}

#[test]
fn a_use_ends_idleness_and_a_look_does_not() {
    for lane_count in [1, 4] {
        let mut talk = Talk::new(lane_count);
        let uses = [
            "GET a",
            "MGET a",
            "GETRANGE a 0 0",
            "STRLEN a",
            "TOUCH a",
            "GETEX a",
            "APPEND a 1",
            "INCR a",
            "PERSIST a",
        ];
        let looks = ["EXISTS a", "TTL a", "TYPE a", "OBJECT ENCODING a"];
        talk.say("SET a 1");
        for line in looks.into_iter().chain(uses) {
            talk.world.pass(20_000_000_000);
            talk.rest();
            talk.say(line);
            let want = if looks.contains(&line) { ":20\r\n" } else { ":0\r\n" };
            assert_eq!(talk.say("OBJECT IDLETIME a"), want, "{line}");
            talk.say("TOUCH a");
        }
    }
}

fn texts(reply: &[u8]) -> Vec<String> {
    fn gather(reply: &Reply, out: &mut Vec<String>) {
        match reply {
            Reply::Array(parts) => parts.iter().for_each(|part| gather(part, out)),
            other => out.extend(other.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())),
        }
    }
    let (whole, _) = Collector::default().next(reply).expect("the server speaks RESP");
    let mut out = Vec::new();
    gather(&whole.expect("a whole reply"), &mut out);
    out
}

fn scan(talk: &mut Talk, options: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut keys = texts(talk.say(&format!("SCAN {cursor}{options}")).as_bytes());
        cursor = keys.remove(0);
        found.extend(keys);
        if cursor == "0" {
            return found;
        }
    }
}

#[test]
fn scans_find_every_key() {
    for lane_count in [1, 3, 4] {
        let mut talk = Talk::new(lane_count);
        for number in 0..1000 {
            talk.say(&format!("SET key:{number} x"));
        }
        let all: BTreeSet<String> = (0..1000).map(|number| format!("key:{number}")).collect();
        let matching: BTreeSet<String> = all.iter().filter(|key| key.ends_with('7')).cloned().collect();
        assert_eq!(scan(&mut talk, ""), all);
        assert_eq!(scan(&mut talk, " COUNT 1"), all);
        assert_eq!(scan(&mut talk, " COUNT 100000"), all);
        assert_eq!(scan(&mut talk, " COUNT 50 MATCH *7"), matching);
        assert_eq!(scan(&mut talk, " TYPE string MATCH *7"), matching);
        assert_eq!(scan(&mut talk, " TYPE list"), BTreeSet::new());
        let keys: BTreeSet<String> = texts(talk.say("KEYS *7").as_bytes()).into_iter().collect();
        assert_eq!(keys, matching);
        // A pattern that takes long to fail is matched over several slices.
        let slow = format!("SET {} x", "a".repeat(4000) + "b");
        talk.say(&slow);
        assert_eq!(talk.say(&format!("KEYS *{}c*", "a".repeat(1000))), "*0\r\n");
        assert_eq!(texts(talk.say(&format!("KEYS *{}b", "a".repeat(1000))).as_bytes()).len(), 1);
        talk.rest();
    }
}

#[test]
fn one_scan_goes_on_from_lane_to_lane_until_it_has_seen_enough() {
    for lane_count in [1, 2, 4, 50] {
        let mut talk = Talk::new(lane_count);
        assert_eq!(talk.say("SCAN 0"), "*2\r\n$1\r\n0\r\n*0\r\n", "over {lane_count} lanes");
        let names: BTreeSet<String> = (0..9).map(|number| format!("key:{number}")).collect();
        names.iter().for_each(|name| assert_eq!(talk.say(&format!("SET {name} x")), "+OK\r\n"));
        let seen = |reply: String| {
            let mut found = texts(reply.as_bytes());
            (found.remove(0), found.into_iter().collect::<BTreeSet<_>>())
        };
        assert_eq!(seen(talk.say("SCAN 0")), ("0".to_owned(), names.clone()), "over {lane_count} lanes");
        assert_eq!(seen(talk.say("SCAN 0 MATCH *3")), ("0".to_owned(), ["key:3".to_owned()].into()));
        assert_eq!(seen(talk.say("SCAN 0 TYPE list")), ("0".to_owned(), BTreeSet::new()));
        // Also where its lanes take part from the beginning, with others that hold locks.
        talk.say("MULTI");
        for line in ["SET key:0 y", "SCAN 0", "SCAN 0 COUNT 2", "SCAN 0 FOO x", "GET key:8"] {
            assert_eq!(talk.say(line), "+QUEUED\r\n");
        }
        let reply = talk.say("EXEC");
        let found = texts(reply.as_bytes());
        assert!(reply.contains("-ERR syntax error\r\n"), "{reply}");
        assert_eq!(found[2..11].iter().cloned().collect::<BTreeSet<_>>(), names, "in MULTI: {found:?}");
        assert_eq!(found[1], "0");
        // What is looked at counts on all lanes together, whether it matches or not.
        let (cursor, found) = seen(talk.say("SCAN 0 COUNT 3 MATCH none"));
        assert!(cursor != "0" && found.is_empty(), "{cursor} {found:?}");
        let (_, found) = seen(talk.say("SCAN 0 COUNT 3"));
        assert!((3..7).contains(&found.len()), "{found:?}");
        talk.rest();
    }
}

#[test]
fn scan_refuses_what_redis_refuses() {
    check(&[
        ("SCAN x", "-ERR invalid cursor\r\n"),
        ("SCAN -", "-ERR invalid cursor\r\n"),
        ("SCAN 18446744073709551616", "-ERR invalid cursor\r\n"),
        ("SCAN 0 COUNT 0", "-ERR syntax error\r\n"),
        ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range\r\n"),
        ("SCAN 0 MATCH", "-ERR syntax error\r\n"),
        ("SCAN 0 FOO bar", "-ERR syntax error\r\n"),
        ("SCAN 9223372036854775807", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ]);
}

#[test]
fn keys_are_drawn_from_every_lane() {
    let mut talk = Talk::new(4);
    for number in 0..40 {
        talk.say(&format!("SET {number} x"));
    }
    let drawn: BTreeSet<String> = (0..2000).map(|_| talk.say("RANDOMKEY")).collect();
    assert!(drawn.len() > 35, "{} of 40 keys in 2,000 draws", drawn.len());
}

#[test]
fn a_swap_changes_watched_keys_that_either_database_holds() {
    for (key, want) in [("here", "*-1\r\n"), ("there", "*-1\r\n"), ("nowhere", "*1\r\n+PONG\r\n")] {
        for lane_count in [1, 4] {
            let mut talk = Talk::new(lane_count);
            talk.say("SET here 1");
            talk.say("SELECT 1");
            talk.say("SET there 1");
            talk.say("SELECT 0");
            talk.say(&format!("WATCH {key}"));
            talk.say("SWAPDB 0 1");
            talk.say("MULTI");
            talk.say("PING");
            assert_eq!(talk.say("EXEC"), want, "{key} over {lane_count} lanes");
        }
    }
}
