//! memcached's text and binary protocols, of memcached as a peer and of ours.

use net::Output;
use wire::client::Outcome;
use wire::memcached::Framing;
use wire::memcached::client::{self, Counter, VBUCKET_AT, count_extras, packet, store_extras};
use wire::route::vbucket;

use super::{Answer, Part, Protocol, Values};
use crate::engine::keys::{DIGITS_COUNT, write_digits};
use crate::workload::{Operation, Workload};

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

impl Protocol for Text {
    type Reading = Counter;

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
        reading: &mut Counter,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Answer>, usize), String> {
        read(reading, input, see)
    }
}

pub(super) fn read(
    counter: &mut Counter,
    input: &[u8],
    see: &mut impl FnMut(Part<'_>),
) -> Result<(Option<Answer>, usize), String> {
    let mut show = |part: client::Part<'_>| match part {
        client::Part::Value(bytes) => see(Part::Bytes(bytes)),
        client::Part::Error(text) => see(Part::Error(text)),
    };
    let (outcome, size) = counter.next_seen(input, &mut show).map_err(|error| error.to_string())?;
    let answer = outcome.map(|outcome| match outcome {
        Outcome::Value => Answer::Value,
        Outcome::Null => Answer::Miss,
        Outcome::Error => Answer::Error,
        Outcome::Push => Answer::Aside,
    });
    Ok((answer, size))
}

/// The binary protocol. Several keys are asked for quietly but the last.
pub struct Binary {
    requests: Vec<BinaryRequest>,
    key: Vec<u8>,
    /// The front of a request, before it goes out.
    front: Vec<u8>,
    values: Values,
    /// Each frame names its key's vbucket.
    names_vbuckets: bool,
}

/// A request of binary frames.
struct BinaryRequest {
    opcode: u8,
    extras: Vec<u8>,
    /// Zero: it has no key.
    key_count: u16,
    is_set: bool,
}

/// The requests of a workload's mix.
fn binary_requests(workload: &Workload) -> Vec<BinaryRequest> {
    let exptime = workload.ttl_s.unwrap_or(0);
    let requests = workload.operations.0.iter().map(|(operation, _)| {
        let (opcode, extras, key_count) = match operation {
            Operation::Get => (client::GET, Vec::new(), 1),
            Operation::Set => (client::SET, store_extras(exptime).to_vec(), 1),
            Operation::Del => (client::DELETE, Vec::new(), 1),
            Operation::Incr => (client::INCREMENT, count_extras(1, 1).to_vec(), 1),
            Operation::Mget(count) => (client::GET, Vec::new(), *count),
            Operation::Ping => (client::NOOP, Vec::new(), 0),
        };
        BinaryRequest { opcode, extras, key_count, is_set: *operation == Operation::Set }
    });
    requests.collect()
}

impl Binary {
    /// Prepares the requests of a workload.
    pub fn new(workload: &Workload) -> Binary {
        Binary {
            requests: binary_requests(workload),
            key: [workload.key_prefix.as_bytes(), &[b'0'; DIGITS_COUNT]].concat(),
            front: Vec::new(),
            values: Values::new(&workload.value_size),
            names_vbuckets: false,
        }
    }

    /// The same, as Couchbase's clients send them.
    pub(super) fn with_vbuckets(workload: &Workload) -> Binary {
        Binary { names_vbuckets: true, ..Binary::new(workload) }
    }
}

/// How far a binary reply is read.
pub struct BinaryReading(pub(super) Counter);

impl Default for BinaryReading {
    fn default() -> BinaryReading {
        BinaryReading(Counter::new(Framing::Binary))
    }
}

impl Protocol for Binary {
    type Reading = BinaryReading;

    #[inline]
    fn put(&mut self, operation: usize, key: &mut dyn FnMut() -> u32, size: usize, output: &mut Output) {
        let request = &self.requests[operation];
        let digits = self.key.len() - DIGITS_COUNT..self.key.len();
        let size = if request.is_set { size } else { 0 };
        self.front.clear();
        if request.key_count == 0 {
            packet(&mut self.front, request.opcode, &request.extras, b"", size, 0);
        }
        for left in (0..request.key_count).rev() {
            write_digits(&mut self.key[digits.clone()], key());
            let opcode = if left > 0 { client::GETQ } else { request.opcode };
            let start = self.front.len();
            packet(&mut self.front, opcode, &request.extras, &self.key, size, 0);
            if self.names_vbuckets {
                self.front[start..][VBUCKET_AT].copy_from_slice(&vbucket(&self.key).to_be_bytes());
            }
        }
        output.extend(&self.front);
        if request.is_set {
            self.values.put(&self.key[digits], size, output);
        }
    }

    fn next(
        reading: &mut BinaryReading,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Answer>, usize), String> {
        read(&mut reading.0, input, see)
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
            let (mut reading, mut got, mut bytes, mut at) = (Counter::default(), Vec::new(), Vec::new(), 0);
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
            let result = Text::next(&mut Counter::default(), nonsense.as_bytes(), &mut |_| {});
            assert!(result.is_err(), "{nonsense}: {result:?}");
        }
    }

    #[test]
    fn binary_requests_are_those_of_text() {
        use wire::memcached::{Decoder, HEAD, Head, KEY, Limits, VALUE, Verb};
        let workload = Workload {
            operations: "get,set,mget2,del,incr,ping".parse().unwrap(),
            value_size: "3".parse().unwrap(),
            ttl_s: Some(9),
            ..Workload::default()
        };
        let mut binary = Binary::new(&workload);
        let mut output = Output::new();
        (0..6).for_each(|operation| binary.put(operation, &mut || 7, 3, &mut output));
        let bytes: Vec<u8> = output.pieces().flatten().copied().collect();
        let (mut decoder, mut args, mut at) = (Decoder::new(Framing::Binary), wire::ArgRanges::new(), 0);
        let mut got = Vec::new();
        while let wire::Step::Command { size } = decoder.decode(&bytes[at..], &mut args, &Limits::default()) {
            let args = args.view(&bytes[at..]);
            let head = Head::from_bytes(args.get(HEAD));
            got.push((head.verb, head.opcode, head.exptime, args.get(KEY).to_vec()));
            if head.verb == Verb::Set {
                assert_eq!(args.get(VALUE), b"000");
            }
            at += size;
        }
        let key = b"key:000000000007".to_vec();
        let want = [
            (Verb::Get, client::GET, 0, key.clone()),
            (Verb::Set, client::SET, 9, key.clone()),
            (Verb::Get, client::GETQ, 0, key.clone()),
            (Verb::Get, client::GET, 0, key.clone()),
            (Verb::Delete, client::DELETE, 0, key.clone()),
            (Verb::Incr, client::INCREMENT, 0, key),
            (Verb::Noop, client::NOOP, 0, Vec::new()),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn binary_replies_are_told_apart() {
        let reply = |opcode: u8, status: u8, body: &[u8]| {
            let size = u8::try_from(body.len()).unwrap();
            let header = [0x81, opcode, 0, 0, 0, 0, 0, status, 0, 0, 0, size];
            [&header[..], &[0; 12], body].concat()
        };
        let bytes = [
            reply(client::GET, 0, b"x"),
            reply(client::GET, 1, b"Not found"),
            reply(client::SET, 0x82, b"full"),
        ];
        let (mut reading, mut parts, mut got, mut at) = (BinaryReading::default(), Vec::new(), Vec::new(), 0);
        let bytes = bytes.concat();
        loop {
            let mut see = |part: Part<'_>| parts.push(format!("{part:?}"));
            let (answer, size) = Binary::next(&mut reading, &bytes[at..], &mut see).unwrap();
            at += size;
            let Some(answer) = answer else { break };
            got.push(answer);
        }
        assert_eq!(got, [Answer::Value, Answer::Miss, Answer::Error]);
        assert_eq!(parts, ["Bytes([120])", "Error([102, 117, 108, 108])"]);
        assert!(Binary::next(&mut BinaryReading::default(), b"END\r\n", &mut |_| {}).is_err());
    }
}
