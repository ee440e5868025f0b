//! Replies, byte by byte, in both protocols.

use wire::Proto::{self, Resp2, Resp3};
use wire::reply;

fn check(put: impl Fn(&mut Vec<u8>, Proto), want: [&str; 2]) {
    for (proto, want) in [Resp2, Resp3].into_iter().zip(want) {
        let mut out = Vec::new();
        put(&mut out, proto);
        assert_eq!(String::from_utf8_lossy(&out), want, "{proto:?}");
    }
}

#[test]
fn replies_are_redis_own() {
    check(|out, _| reply::simple(out, "OK"), ["+OK\r\n"; 2]);
    check(|out, _| out.extend_from_slice(reply::OK), ["+OK\r\n"; 2]);
    for digits in 1..19 {
        let smallest = 10_i64.pow(digits - 1);
        for value in [smallest, 10 * smallest - 1, smallest + smallest / 3] {
            check(|out, _| reply::integer(out, value), [format!(":{value}\r\n").as_str(); 2]);
            check(|out, _| reply::integer(out, -value), [format!(":-{value}\r\n").as_str(); 2]);
        }
    }
    check(|out, _| reply::integer(out, 0), [":0\r\n"; 2]);
    check(|out, _| reply::integer(out, 7), [":7\r\n"; 2]);
    check(|out, _| reply::integer(out, 10), [":10\r\n"; 2]);
    check(|out, _| reply::integer(out, -1), [":-1\r\n"; 2]);
    check(|out, _| reply::integer(out, i64::MIN), [":-9223372036854775808\r\n"; 2]);
    check(|out, _| reply::bulk(out, b""), ["$0\r\n\r\n"; 2]);
    for size in (0..1100).chain([9_999, 10_000, 123_456]) {
        let text = "x".repeat(size);
        check(|out, _| reply::bulk(out, text.as_bytes()), [&format!("${size}\r\n{text}\r\n"); 2]);
    }
    for (value, want) in [
        (0, "$1\r\n0\r\n"),
        (-9, "$2\r\n-9\r\n"),
        (4_102_444_800_123, "$13\r\n4102444800123\r\n"),
        (i64::MAX, "$19\r\n9223372036854775807\r\n"),
        (i64::MIN, "$20\r\n-9223372036854775808\r\n"),
    ] {
        check(|out, _| reply::bulk_integer(out, value), [want; 2]);
    }
    check(reply::null, ["$-1\r\n", "_\r\n"]);
    check(reply::null_array, ["*-1\r\n", "_\r\n"]);
    check(|out, _| reply::array(out, 12345), ["*12345\r\n"; 2]);
    check(|out, proto| reply::map(out, proto, 3), ["*6\r\n", "%3\r\n"]);
    check(|out, proto| reply::set(out, proto, 3), ["*3\r\n", "~3\r\n"]);
    check(|out, proto| reply::push(out, proto, 2), ["*2\r\n", ">2\r\n"]);
    check(|out, proto| reply::double(out, proto, 0.5), ["$3\r\n0.5\r\n", ",0.5\r\n"]);
    check(|out, proto| reply::double(out, proto, f64::NEG_INFINITY), ["$4\r\n-inf\r\n", ",-inf\r\n"]);
    check(|out, proto| reply::boolean(out, proto, true), [":1\r\n", "#t\r\n"]);
    check(|out, proto| reply::boolean(out, proto, false), [":0\r\n", "#f\r\n"]);
    check(|out, proto| reply::big(out, proto, b"-123"), ["$4\r\n-123\r\n", "(-123\r\n"]);
    check(|out, proto| reply::verbatim(out, proto, b"txt", b"hi"), ["$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"]);
}

#[test]
fn an_error_is_one_line_whatever_it_quotes() {
    check(|out, _| reply::error(out, "ERR no such key"), ["-ERR no such key\r\n"; 2]);
    check(|out, _| reply::error(out, "ERR a\r\n+OK\r\nb"), ["-ERR a  +OK  b\r\n"; 2]);
    check(|out, _| reply::error(out, "ERR end\r\n\r\n"), ["-ERR end\r\n"; 2]);
    check(|out, _| reply::error(out, "\r\n"), ["-\r\n"; 2]);
}
