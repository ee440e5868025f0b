//! What a client sends and what it gets, over one lane and over four: the same bytes.

use crate::check::check;

#[test]
fn single_keys() {
    check(&[
        ("PING", "+PONG\r\n"),
        ("ECHO hello", "$5\r\nhello\r\n"),
        ("GET a", "$-1\r\n"),
        ("SET a 1", "+OK\r\n"),
        ("SET b two", "+OK\r\n"),
        ("GET a", "$1\r\n1\r\n"),
        ("GET b", "$3\r\ntwo\r\n"),
        ("INCR a", ":2\r\n"),
        ("DECRBY a 5", ":-3\r\n"),
        ("INCR b", "-ERR value is not an integer or out of range\r\n"),
        ("APPEND b !", ":4\r\n"),
        ("STRLEN b", ":4\r\n"),
        ("SET a x NX", "$-1\r\n"),
        ("SET a x XX GET", "$2\r\n-3\r\n"),
        ("DEL a", ":1\r\n"),
        ("DEL a", ":0\r\n"),
        ("TYPE b", "+string\r\n"),
        ("EXPIRE b 100", ":1\r\n"),
        ("TTL b", ":100\r\n"),
        ("PERSIST b", ":1\r\n"),
        ("TTL b", ":-1\r\n"),
        ("TTL none", ":-2\r\n"),
        ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("SET a 1 PX 0", "-ERR invalid expire time in 'set' command\r\n"),
        ("SET a 1 FOO", "-ERR syntax error\r\n"),
    ]);
}

#[test]
fn several_keys() {
    check(&[
        ("MSET a 1 b 2 c 3 d 4 e 5", "+OK\r\n"),
        ("MGET a b c none d e", "*6\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n$1\r\n4\r\n$1\r\n5\r\n"),
        ("DBSIZE", ":5\r\n"),
        ("EXISTS a b c a none", ":4\r\n"),
        ("MSETNX f 1 a 2", ":0\r\n"),
        ("MSETNX f 1 g 2", ":1\r\n"),
        ("MGET f g", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
        ("DEL a b none", ":2\r\n"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n"),
        ("RENAME c z", "+OK\r\n"),
        ("RENAME c z", "-ERR no such key\r\n"),
        ("GET z", "$1\r\n3\r\n"),
        ("RENAMENX d e", ":0\r\n"),
        ("RENAMENX d y", ":1\r\n"),
        ("RENAME y y", "+OK\r\n"),
        ("MGET d y e z", "*4\r\n$-1\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n3\r\n"),
        ("DBSIZE", ":5\r\n"),
        ("KEYS z*", "*1\r\n$1\r\nz\r\n"),
        ("FLUSHALL", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("KEYS *", "*0\r\n"),
    ]);
}

#[test]
fn transactions() {
    check(&[
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("MULTI", "+OK\r\n"),
        ("MULTI", "-ERR MULTI calls can not be nested\r\n"),
        ("SET a 1", "+QUEUED\r\n"),
        ("SET b 2", "+QUEUED\r\n"),
        ("MGET a b", "+QUEUED\r\n"),
        ("RENAME a c", "+QUEUED\r\n"),
        ("INCR c", "+QUEUED\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("EXEC", "*6\r\n+OK\r\n+OK\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n+OK\r\n:2\r\n+PONG\r\n"),
        ("MGET a b c", "*3\r\n$-1\r\n$1\r\n2\r\n$1\r\n2\r\n"),
        ("MULTI", "+OK\r\n"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET a 9", "+QUEUED\r\n"),
        ("DISCARD", "+OK\r\n"),
        ("GET a", "$-1\r\n"),
        ("MULTI", "+OK\r\n"),
        ("EXEC", "*0\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET a 9", "+QUEUED\r\n"),
        (
            "EXEC x",
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n",
        ),
        ("GET a", "$-1\r\n"),
        ("WATCH b", "+OK\r\n"),
        ("SET b 2", "+OK\r\n"),
        (
            "EXEC x",
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n",
        ),
        ("MULTI", "+OK\r\n"),
        ("EXEC", "*0\r\n"),
        ("WATCH a b c", "+OK\r\n"),
        ("SET c 5", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET b 7", "+QUEUED\r\n"),
        ("EXEC", "*-1\r\n"),
        ("WATCH a b c", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET b 7", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SELECT 1", "+QUEUED\r\n"),
        ("SET b other", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n+OK\r\n+OK\r\n"),
        ("GET b", "$5\r\nother\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("GET b", "$1\r\n7\r\n"),
    ]);
}

/// A reply that takes several stages or slices still has one header.
#[test]
fn transactions_in_stages() {
    check(&[
        ("MSET a 1 b 2 c 3", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("RENAME a d", "+QUEUED\r\n"),
        ("RENAME b e", "+QUEUED\r\n"),
        ("RENAME c f", "+QUEUED\r\n"),
        ("RENAME none f", "+QUEUED\r\n"),
        ("MGET d e f", "+QUEUED\r\n"),
        ("EXEC", "*5\r\n+OK\r\n+OK\r\n+OK\r\n-ERR no such key\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"),
    ]);
    for count in [127, 253, 254, 255, 256, 257] {
        let mut lines = vec![("SET a 1", "+OK\r\n".to_owned()), ("MULTI", "+OK\r\n".to_owned())];
        lines.extend(vec![("GET a", "+QUEUED\r\n".to_owned()); count]);
        lines.push(("MGET a b c d", "+QUEUED\r\n".to_owned()));
        let gets = "$1\r\n1\r\n".repeat(count);
        lines.push(("EXEC", format!("*{}\r\n{gets}*4\r\n$1\r\n1\r\n$-1\r\n$-1\r\n$-1\r\n", count + 1)));
        let lines: Vec<(&str, &str)> =
            lines.iter().map(|(command, want)| (*command, want.as_str())).collect();
        check(&lines);
    }
}

/// Emptying a database changes the watched keys that it held; exchanging two, those that either held.
#[test]
fn whole_databases_and_watched_keys() {
    for (change, want) in [
        ("FLUSHALL", "*-1\r\n"),
        ("FLUSHDB", "*-1\r\n"),
        ("SWAPDB 0 1", "*-1\r\n"),
        ("SWAPDB 1 2", "*1\r\n+PONG\r\n"),
    ] {
        check(&[
            ("MSET a 1 b 2 c 3", "+OK\r\n"),
            ("WATCH none b", "+OK\r\n"),
            (change, "+OK\r\n"),
            ("MULTI", "+OK\r\n"),
            ("PING", "+QUEUED\r\n"),
            ("EXEC", want),
            ("WATCH none", "+OK\r\n"),
            (change, "+OK\r\n"),
            ("MULTI", "+OK\r\n"),
            ("PING", "+QUEUED\r\n"),
            ("EXEC", "*1\r\n+PONG\r\n"),
        ]);
    }
}

/// A transaction that comes to nothing leaves the client in the database where it was.
#[test]
fn an_aborted_select() {
    check(&[
        ("SET a here", "+OK\r\n"),
        ("WATCH a", "+OK\r\n"),
        ("SET a there", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SELECT 3", "+QUEUED\r\n"),
        ("EXEC", "*-1\r\n"),
        ("GET a", "$5\r\nthere\r\n"),
    ]);
}
