//! String commands, as a client sees them.

use crate::check::{Talk, bulk, check};

#[test]
fn set_and_its_options() {
    check(&[
        ("SET a 1 EX 100", "+OK\r\n"),
        ("TTL a", ":100\r\n"),
        ("SET a 2 KEEPTTL", "+OK\r\n"),
        ("TTL a", ":100\r\n"),
        ("SET a 3 GET", "$1\r\n2\r\n"),
        ("TTL a", ":-1\r\n"),
        ("SET a 4 NX GET", "$1\r\n3\r\n"),
        ("SET b 1 XX GET", "$-1\r\n"),
        ("SET b 1 NX GET", "$-1\r\n"),
        ("GET b", "$1\r\n1\r\n"),
        ("SET b 1 NX XX", "-ERR syntax error\r\n"),
        ("SET b 1 EX 10 PX 10", "-ERR syntax error\r\n"),
        ("SET b 1 EX 10 KEEPTTL", "-ERR syntax error\r\n"),
        ("SET b 1 EX", "-ERR syntax error\r\n"),
        ("SET b 1 EX 0 FOO", "-ERR syntax error\r\n"),
        ("SET b 1 PERSIST", "-ERR syntax error\r\n"),
        ("SET b 1 EX 10 EX 20", "+OK\r\n"),
        ("TTL b", ":20\r\n"),
        ("SET b 1 EX 0", "-ERR invalid expire time in 'set' command\r\n"),
        ("SET b 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n"),
        ("SET b 1 PX x", "-ERR value is not an integer or out of range\r\n"),
        ("SET b 1 EXAT 1", "+OK\r\n"),
        ("GET b", "$-1\r\n"),
        ("SET b 1 PXAT 1700000100000", "+OK\r\n"),
        ("PEXPIRETIME b", ":1700000100000\r\n"),
    ]);
}

/// An option may be said again, but not for ever.
#[test]
fn options_are_so_many() {
    let refused = "-ERR syntax error\r\n";
    check(&[
        (&format!("SET a 1{}", " NX".repeat(61)), "+OK\r\n"),
        (&format!("SET a 2{}", " XX".repeat(62)), refused),
        (&format!("SET a 2{}", " XX".repeat(5000)), refused),
        (&format!("GETEX a{}", " PERSIST".repeat(63)), refused),
        (&format!("EXPIRE a 10{}", " NX".repeat(62)), refused),
        (&format!("COPY a b{}", " REPLACE".repeat(62)), refused),
        (&format!("SCAN 0{}", " COUNT 10".repeat(32)), refused),
        (&format!("HELLO 2{}", " SETNAME a".repeat(32)), refused),
        ("MULTI", "+OK\r\n"),
        (&format!("SET a 2{}", " XX".repeat(70)), refused),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("GET a", "$1\r\n1\r\n"),
        // Where there is a list it is as long as is wanted.
        (&format!("EXISTS{}", " a".repeat(5000)), ":5000\r\n"),
    ]);
}

#[test]
fn the_older_ways_to_set_and_get() {
    check(&[
        ("SETNX a 1", ":1\r\n"),
        ("SETNX a 2", ":0\r\n"),
        ("SETEX a 100 x", "+OK\r\n"),
        ("TTL a", ":100\r\n"),
        ("PSETEX a 100000 y", "+OK\r\n"),
        ("TTL a", ":100\r\n"),
        ("SETEX a 0 x", "-ERR invalid expire time in 'setex' command\r\n"),
        ("PSETEX a -1 x", "-ERR invalid expire time in 'psetex' command\r\n"),
        ("SETEX a x x", "-ERR value is not an integer or out of range\r\n"),
        ("GETSET a z", "$1\r\ny\r\n"),
        ("TTL a", ":-1\r\n"),
        ("GETSET b z", "$-1\r\n"),
        ("GETEX a EX 50", "$1\r\nz\r\n"),
        ("TTL a", ":50\r\n"),
        ("GETEX a", "$1\r\nz\r\n"),
        ("TTL a", ":50\r\n"),
        ("GETEX a PERSIST", "$1\r\nz\r\n"),
        ("TTL a", ":-1\r\n"),
        ("GETEX a KEEPTTL", "-ERR syntax error\r\n"),
        ("GETEX a EX 10 PERSIST", "-ERR syntax error\r\n"),
        ("GETEX a EX 0", "-ERR invalid expire time in 'getex' command\r\n"),
        ("GETEX none EX 0", "$-1\r\n"),
        ("GETEX a EXAT 1", "$1\r\nz\r\n"),
        ("EXISTS a", ":0\r\n"),
        ("GETDEL b", "$1\r\nz\r\n"),
        ("GETDEL b", "$-1\r\n"),
    ]);
}

#[test]
fn ranges() {
    check(&[
        ("SETRANGE a 5 hello", ":10\r\n"),
        ("GETRANGE a 0 4", "$5\r\n\0\0\0\0\0\r\n"),
        ("GETRANGE a -5 -1", "$5\r\nhello\r\n"),
        ("SUBSTR a 7 6", "$0\r\n\r\n"),
        ("GETRANGE none 0 -1", "$0\r\n\r\n"),
        ("GETRANGE a x 1", "-ERR value is not an integer or out of range\r\n"),
        ("SETRANGE a 0 \"\"", ":10\r\n"),
        ("SETRANGE none 9 \"\"", ":0\r\n"),
        ("EXISTS none", ":0\r\n"),
        ("SETRANGE a -1 x", "-ERR offset is out of range\r\n"),
        ("SETRANGE a 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"),
        (
            "SETRANGE a 9223372036854775807 x",
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n",
        ),
        ("SETRANGE b 536870911 x", ":536870912\r\n"),
        ("APPEND b y", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"),
        ("GETRANGE b -3 -1", "$3\r\n\0\0x\r\n"),
        ("STRLEN b", ":536870912\r\n"),
        ("SET n 1234", "+OK\r\n"),
        ("GETRANGE n 1 2", "$2\r\n23\r\n"),
        ("SETRANGE n 1 99", ":4\r\n"),
        ("INCR n", ":1995\r\n"),
        ("APPEND n 0", ":5\r\n"),
        ("GET n", "$5\r\n19950\r\n"),
    ]);
}

#[test]
fn floats() {
    check(&[
        ("INCRBYFLOAT a 10.5", "$4\r\n10.5\r\n"),
        ("INCRBYFLOAT a -0.5", "$2\r\n10\r\n"),
        ("INCRBYFLOAT a 5.0e3", "$4\r\n5010\r\n"),
        ("INCRBYFLOAT a abc", "-ERR value is not a valid float\r\n"),
        ("INCRBYFLOAT a inf", "-ERR increment would produce NaN or Infinity\r\n"),
        ("SET s abc", "+OK\r\n"),
        ("INCRBYFLOAT s 1", "-ERR value is not a valid float\r\n"),
        ("DECRBY a -9223372036854775808", "-ERR decrement would overflow\r\n"),
        ("SET a 9223372036854775807", "+OK\r\n"),
        ("INCR a", "-ERR increment or decrement would overflow\r\n"),
    ]);
}

#[test]
fn longest_common_subsequences() {
    check(&[
        ("MSET key1 ohmytext key2 mynewtext", "+OK\r\n"),
        ("LCS key1 key2", "$6\r\nmytext\r\n"),
        ("LCS key1 key2 LEN", ":6\r\n"),
        (
            "LCS key1 key2 IDX",
            "*4\r\n$7\r\nmatches\r\n*2\r\n*2\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n*2\r\n*2\r\n:2\r\n:3\r\n*2\r\n:0\r\n:1\r\n$3\r\nlen\r\n:6\r\n",
        ),
        (
            "LCS key1 key2 IDX MINMATCHLEN 4 WITHMATCHLEN",
            "*4\r\n$7\r\nmatches\r\n*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n$3\r\nlen\r\n:6\r\n",
        ),
        ("MSET one ab two ba", "+OK\r\n"),
        ("LCS one two", "$1\r\nb\r\n"),
        ("LCS key1 none", "$0\r\n\r\n"),
        ("LCS key1 key2 LEN IDX", "-ERR If you want both the length and indexes, please just use IDX.\r\n"),
        ("LCS key1 key2 MINMATCHLEN", "-ERR syntax error\r\n"),
        ("LCS key1 key2 MINMATCHLEN x", "-ERR value is not an integer or out of range\r\n"),
        ("SETRANGE long 200000 x", ":200001\r\n"),
        (
            "LCS long long",
            "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n",
        ),
        ("LCS long key1", "$1\r\nx\r\n"),
    ]);
}

/// A value that no piece of which is like another.
fn long(size: usize, seed: usize) -> Vec<u8> {
    (0..size)
        .map(|index| b'a' + u8::try_from((index * 7 + index / 251 + seed) % 26).expect("a letter"))
        .collect()
}

#[test]
fn long_values_are_appended_and_overwritten_in_slices() {
    for lane_count in [1, 4] {
        for (old_size, added_size) in
            [(0, 100_000), (10, 200_000), (40_000, 70_000), (65_536, 65_536), (150_000, 33_000)]
        {
            let mut talk = Talk::new(lane_count);
            let (old, added) = (long(old_size, 1), long(added_size, 5));
            talk.call(&[b"set", b"a", &old, b"ex", b"100"]);
            let size = talk.call(&[b"append", b"a", &added]);
            assert_eq!(size, format!(":{}\r\n", old_size + added_size).into_bytes());
            let mut whole = [old, added.clone()].concat();
            assert_eq!(talk.call(&[b"get", b"a"]), bulk(&whole));
            assert_eq!(talk.say("ttl a"), ":100\r\n");
            for offset in [0, 1, 65_535, 65_536, whole.len() - 1, whole.len() + 100_000] {
                let size = talk.call(&[b"setrange", b"a", offset.to_string().as_bytes(), &added]);
                whole.resize(whole.len().max(offset + added.len()), 0);
                whole[offset..offset + added.len()].copy_from_slice(&added);
                assert_eq!(size, format!(":{}\r\n", whole.len()).into_bytes());
                assert_eq!(talk.call(&[b"get", b"a"]), bulk(&whole), "setrange at {offset}");
            }
            for (start, end) in [(0, 99), (60_000, 70_000), (1, 90_000), (65_536, 131_071), (5, 140_000)] {
                let end = end.min(whole.len() - 1);
                let got =
                    talk.call(&[b"getrange", b"a", start.to_string().as_bytes(), end.to_string().as_bytes()]);
                assert_eq!(got, bulk(&whole[start..=end]), "getrange {start} {end}");
            }
            talk.rest();
        }
    }
}
