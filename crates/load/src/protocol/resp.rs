//! Redis' protocol, and so Valkey's, Dragonfly's and ours.

use std::ops::Range;

use net::Output;
use wire::client::{Counter, Element, Kind, Outcome};
use wire::reply::Put;

use super::{Answer, Part, Protocol, Values};
use crate::engine::keys::{DIGITS_COUNT, write_digits};
use crate::workload::{Operation, Workload};

/// RESP2 and RESP3: requests look alike, and replies tell by themselves.
pub struct Resp {
    requests: Vec<Request>,
    values: Values,
}

/// A request as bytes, made once.
struct Request {
    /// Up to the end of the first key, whose digits are overwritten.
    head: Vec<u8>,
    /// Where in it the key begins, with what frames it.
    key_at: usize,
    /// Its digits.
    digits: Range<usize>,
    /// How many keys there are.
    key_count: u16,
    /// Whether a value follows, and what then.
    value: Option<Vec<u8>>,
}

impl Resp {
    /// Prepares the requests of a workload.
    pub fn new(workload: &Workload) -> Resp {
        let requests = workload.operations.0.iter().map(|(operation, _)| Request::new(*operation, workload));
        Resp { requests: requests.collect(), values: Values::new(&workload.value_size) }
    }
}

impl Request {
    fn new(operation: Operation, workload: &Workload) -> Request {
        let (name, key_count, is_set) = match operation {
            Operation::Get => ("GET", 1, false),
            Operation::Set => ("SET", 1, true),
            Operation::Del => ("DEL", 1, false),
            Operation::Incr => ("INCR", 1, false),
            Operation::Mget(count) => ("MGET", count, false),
            Operation::Ping => ("PING", 0, false),
        };
        let (mut tail, mut tail_count) = (b"\r\n".to_vec(), 0);
        if let Some(ttl_s) = workload.ttl_s {
            bulk(&mut tail, b"EX");
            bulk(&mut tail, ttl_s.to_string().as_bytes());
            tail_count = 2;
        }
        let arg_count = 1 + usize::from(key_count) + if is_set { 1 + tail_count } else { 0 };
        let mut head = format!("*{arg_count}\r\n").into_bytes();
        bulk(&mut head, name.as_bytes());
        let key_at = head.len();
        if key_count > 0 {
            bulk(&mut head, &[workload.key_prefix.as_bytes(), &[b'0'; DIGITS_COUNT]].concat());
        }
        let digits_end = head.len() - b"\r\n".len();
        let digits = digits_end.saturating_sub(DIGITS_COUNT)..digits_end;
        Request { head, key_at, digits, key_count, value: is_set.then_some(tail) }
    }
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

struct Out<'a>(&'a mut Output);

impl Put for Out<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }
}

impl Protocol for Resp {
    type Reading = Counter;

    #[inline]
    fn put(&mut self, operation: usize, key: &mut dyn FnMut() -> u32, size: usize, output: &mut Output) {
        let request = &mut self.requests[operation];
        let mut from = 0;
        for _ in 0..request.key_count {
            write_digits(&mut request.head[request.digits.clone()], key());
            output.extend(&request.head[from..]);
            from = request.key_at;
        }
        if request.key_count == 0 {
            output.extend(&request.head);
        }
        if let Some(tail) = &request.value {
            wire::reply::bulk_header(&mut Out(output), size);
            self.values.put(&request.head[request.digits.clone()], size, output);
            output.extend(tail);
        }
    }

    #[inline]
    fn whole_value<'a>(reading: &mut Counter, input: &'a [u8]) -> Option<(&'a [u8], usize)> {
        reading.whole_bulk(input)
    }

    fn next(
        reading: &mut Counter,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Answer>, usize), String> {
        let mut is_error = false;
        let result = reading.next_seen(input, &mut |element| match element {
            Element::Bytes(bytes) if is_error => see(Part::Error(bytes)),
            Element::Bytes(bytes) => see(Part::Bytes(bytes)),
            Element::Error(text) => see(Part::Error(text)),
            Element::Begin(kind, _) => is_error = *kind == Kind::Error,
            _ => {}
        });
        let (outcome, size) = result.map_err(|error| error.to_string())?;
        let answer = outcome.map(|outcome| match outcome {
            Outcome::Value => Answer::Value,
            Outcome::Null => Answer::Miss,
            Outcome::Error => Answer::Error,
            Outcome::Push => Answer::Aside,
        });
        Ok((answer, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operations: &str, ttl_s: Option<u32>, operation: usize, want: &str) {
        let workload = Workload {
            operations: operations.parse().unwrap(),
            value_size: "10-20".parse().unwrap(),
            ttl_s,
            ..Workload::default()
        };
        let mut resp = Resp::new(&workload);
        let mut output = Output::new();
        resp.put(operation, &mut || u32::MAX, 20, &mut output);
        output.clear();
        let mut number = 6;
        let mut next = || {
            number += 1;
            number
        };
        resp.put(operation, &mut next, 12, &mut output);
        let got: Vec<u8> = output.pieces().flatten().copied().collect();
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }

    #[test]
    fn requests_name_their_keys() {
        check("get", None, 0, "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
        check("ping,incr", None, 1, "*2\r\n$4\r\nINCR\r\n$16\r\nkey:000000000007\r\n");
        check("ping", None, 0, "*1\r\n$4\r\nPING\r\n");
        let set = "$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$12\r\n000000000007\r\n";
        check("set", None, 0, &format!("*3\r\n{set}"));
        check("get,set", Some(60), 1, &format!("*5\r\n{set}$2\r\nEX\r\n$2\r\n60\r\n"));
        check("get", Some(60), 0, "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
        let keys = "$16\r\nkey:000000000007\r\n$16\r\nkey:000000000008\r\n";
        check("mget2", None, 0, &format!("*3\r\n$4\r\nMGET\r\n{keys}"));
    }

    #[test]
    fn replies_are_told_apart_however_they_are_cut() {
        let replies: &[u8] = b"$5\r\nvalue\r\n$-1\r\n_\r\n-ERR no\r\n!6\r\nERR no\r\n>1\r\n:1\r\n+OK\r\n*2\r\n$1\r\na\r\n$-1\r\n";
        let want = [
            Answer::Value,
            Answer::Miss,
            Answer::Miss,
            Answer::Error,
            Answer::Error,
            Answer::Aside,
            Answer::Value,
            Answer::Value,
        ];
        for cut in 0..=replies.len() {
            let (mut reading, mut got, mut errors, mut at) = (Counter::default(), Vec::new(), Vec::new(), 0);
            for end in [cut, replies.len()] {
                loop {
                    let mut see = |part: Part<'_>| {
                        if let Part::Error(text) = part {
                            errors.extend_from_slice(text);
                        }
                    };
                    let (answer, size) = Resp::next(&mut reading, &replies[at..end], &mut see).unwrap();
                    at += size;
                    let Some(answer) = answer else { break };
                    got.push(answer);
                }
            }
            assert_eq!(got, want, "cut at {cut}");
            if cut == 0 {
                assert_eq!(errors, b"ERR noERR no");
            }
        }
    }
}
