//! memcached's text protocol (protocol.txt of memcached 1.6), for memcached as a peer.

use net::Output;

use super::{Answer, Part, Protocol, Values};
use crate::engine::keys::{DIGITS_COUNT, write_digits};
use crate::workload::{Operation, Workload};

/// A line of a reply at most; a longer one is none of memcached's.
const LINE_SIZE_MAX: usize = 8 * 1024;

/// The text protocol.
pub struct Text {
    requests: Vec<Request>,
    values: Values,
}

struct Request {
    head: &'static str,
    /// A space, the key.
    key: Vec<u8>,
    key_count: u16,
    /// What follows the keys: the line's end, or flags and expiry of what is set.
    tail: String,
    is_set: bool,
}

impl Text {
    /// Prepares the requests of a workload.
    pub fn new(workload: &Workload) -> Text {
        let requests = workload.operations.0.iter().map(|(operation, _)| {
            let set = format!(" 0 {} ", workload.ttl_s.unwrap_or(0));
            let (head, key_count, tail) = match operation {
                Operation::Get => ("get", 1, "\r\n"),
                Operation::Set => ("set", 1, &set[..]),
                Operation::Del => ("delete", 1, "\r\n"),
                Operation::Incr => ("incr", 1, " 1\r\n"),
                Operation::Mget(count) => ("get", *count, "\r\n"),
                Operation::Ping => ("version", 0, "\r\n"),
            };
            Request {
                head,
                key: [b" ", workload.key_prefix.as_bytes(), &[b'0'; DIGITS_COUNT]].concat(),
                key_count,
                tail: tail.to_owned(),
                is_set: *operation == Operation::Set,
            }
        });
        Text { requests: requests.collect(), values: Values::new(&workload.value_size) }
    }
}

/// How far a reply is read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Bytes of the line at the start of the input that hold no line's end.
    scanned: usize,
    /// Bytes of a value, and the line's end behind it, that have not come.
    value_left: usize,
    /// A value has come: the answer ends with END.
    has_value: bool,
}

impl Protocol for Text {
    type Reading = Reading;

    #[inline]
    fn put(&mut self, operation: usize, key: &mut dyn FnMut() -> u32, size: usize, output: &mut Output) {
        let request = &mut self.requests[operation];
        output.extend(request.head.as_bytes());
        let digits = request.key.len() - DIGITS_COUNT..request.key.len();
        for _ in 0..request.key_count {
            write_digits(&mut request.key[digits.clone()], key());
            output.extend(&request.key);
        }
        output.extend(request.tail.as_bytes());
        if request.is_set {
            output.extend(size.to_string().as_bytes());
            output.extend(b"\r\n");
            self.values.put(&request.key[digits], size, output);
            output.extend(b"\r\n");
        }
    }

    fn next(
        reading: &mut Reading,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Answer>, usize), String> {
        let mut at = 0;
        loop {
            if reading.value_left > 0 {
                let size = reading.value_left.min(input.len() - at);
                // The last two bytes are the line's end.
                let value_size = size.min(reading.value_left.saturating_sub(2));
                if value_size > 0 {
                    see(Part::Bytes(&input[at..at + value_size]));
                }
                at += size;
                reading.value_left -= size;
                if reading.value_left > 0 {
                    return Ok((None, at));
                }
            }
            let Some(found) = input[at + reading.scanned..].iter().position(|byte| *byte == b'\n') else {
                reading.scanned = input.len() - at;
                let is_long = reading.scanned > LINE_SIZE_MAX;
                return if is_long { Err("a reply's line has no end".to_owned()) } else { Ok((None, at)) };
            };
            let end = at + reading.scanned + found;
            reading.scanned = 0;
            let line = &input[at..end];
            let line = line.strip_suffix(b"\r").ok_or("a reply's line ends without a carriage return")?;
            at = end + 1;
            if let Some(rest) = line.strip_prefix(b"VALUE ") {
                // VALUE key flags size [cas]
                let size = rest.split(|byte| *byte == b' ').nth(2);
                let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse::<usize>().ok());
                reading.value_left =
                    size.and_then(|size| size.checked_add(2)).ok_or("a value without a size")?;
                reading.has_value = true;
                continue;
            }
            let had_value = std::mem::take(&mut reading.has_value);
            let answer = match line {
                b"END" if had_value => Answer::Value,
                b"END" | b"NOT_FOUND" => Answer::Miss,
                b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" => Answer::Value,
                _ if line.first().is_some_and(u8::is_ascii_digit) || line.starts_with(b"VERSION ") => {
                    Answer::Value
                }
                b"NOT_STORED" | b"EXISTS" | b"ERROR" => {
                    see(Part::Error(line));
                    Answer::Error
                }
                _ if line.starts_with(b"CLIENT_ERROR") || line.starts_with(b"SERVER_ERROR") => {
                    see(Part::Error(line));
                    Answer::Error
                }
                _ => return Err(format!("'{}' is no reply of memcached", line.escape_ascii())),
            };
            return Ok((Some(answer), at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_their_keys() {
        let workload = Workload {
            operations: "get,set,mget2,del,incr,ping".parse().unwrap(),
            value_size: "3".parse().unwrap(),
            ttl_s: Some(9),
            ..Workload::default()
        };
        let mut text = Text::new(&workload);
        let mut output = Output::new();
        for operation in 0..6 {
            text.put(operation, &mut || 7, 3, &mut output);
        }
        let got: Vec<u8> = output.pieces().flatten().copied().collect();
        let key = "key:000000000007";
        let want = format!(
            "get {key}\r\nset {key} 0 9 3\r\n000\r\nget {key} {key}\r\ndelete {key}\r\nincr {key} 1\r\nversion\r\n"
        );
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }

    #[test]
    fn replies_are_told_apart_however_they_are_cut() {
        let replies: &[u8] =
            b"VALUE k 0 5\r\nE\r\nND\r\nEND\r\nEND\r\nSTORED\r\nNOT_FOUND\r\n12\r\nSERVER_ERROR no\r\n\
                               VALUE a 0 0\r\n\r\nVALUE b 0 1\r\nx\r\nEND\r\n";
        use Answer::{Error, Miss, Value};
        for cut in 0..=replies.len() {
            let (mut reading, mut got, mut bytes, mut at) = (Reading::default(), Vec::new(), Vec::new(), 0);
            for end in [cut, replies.len()] {
                loop {
                    let mut see = |part: Part<'_>| {
                        if let Part::Bytes(part) = part {
                            bytes.extend_from_slice(part);
                        }
                    };
                    let (answer, size) = Text::next(&mut reading, &replies[at..end], &mut see).unwrap();
                    at += size;
                    let Some(answer) = answer else { break };
                    got.push(answer);
                }
            }
            assert_eq!(got, [Value, Miss, Value, Miss, Value, Error, Value], "cut at {cut}");
            assert_eq!(bytes, b"E\r\nNDx");
        }
    }

    #[test]
    fn nonsense_is_none_of_memcacheds() {
        for nonsense in ["+OK\r\n", "HTTP/1.1 200 OK\r\n", "END\n", "VALUE k 0\r\n", "VALUE k 0 -1\r\n"] {
            let result = Text::next(&mut Reading::default(), nonsense.as_bytes(), &mut |_| {});
            assert!(result.is_err(), "{nonsense}: {result:?}");
        }
    }
}
