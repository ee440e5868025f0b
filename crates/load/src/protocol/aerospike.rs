//! Aerospike's message protocol: a record of one bin, a string. A socket carries one request at a time, as all clients of
//! Aerospike have it.
//!
//! ```text
//! 02 03 size u48 | 22 info1 info2 info3 0 result  generation u32 expiry u32 timeout u32  fields u16 operations u16
//!   field: size u32 (with the type) type, data          0 namespace, 1 set, 4 digest
//!   operation: size u32 (behind it) code, type, 0, size of the name u8, name, value
//! ```

use net::Output;
use ripemd::{Digest, Ripemd160};
use wire::aerospike::client::{Message, put_info, put_op};
use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::{OP_HEADER_SIZE, kind, particle};
use wire::aerospike::{Code, DIGEST_SIZE};
use wire::route::{Function, Slot};

use super::{Answer, Part, Protocol, Values};
use crate::connect::aerospike::{INFO, MESSAGE, VERSION, code_text};
use crate::engine::keys::{DIGITS_COUNT, write_digits};
use crate::workload::{Operation, Workload};

/// The set that records are in, and the bin they have: asbench's.
pub const SET: &str = "testset";
const BIN: &[u8] = b"testbin";

/// Milliseconds that the server may take, as asbench says.
const TIMEOUT_MS: u32 = 1000;
/// Bytes of a frame in front of its body, of which the last six are the body's size.
const FRONT_SIZE: usize = 8;
/// Bytes of a message in front of its fields.
const HEADER_SIZE: usize = 22;

/// The digest that a record is known by: of a string key with this prefix, or, without a prefix, of an integer as asbench's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// The set, the key's type and the prefix have gone in.
    begun: Vec<u8>,
    is_integer: bool,
}

impl Naming {
    /// Of keys with this prefix, in [`SET`].
    pub fn new(prefix: &str) -> Naming {
        let is_integer = prefix.is_empty();
        let kind = if is_integer { particle::INTEGER } else { particle::STRING };
        Naming { begun: [SET.as_bytes(), &[kind], prefix.as_bytes()].concat(), is_integer }
    }

    /// RIPEMD-160 of set, type and key.
    pub fn digest(&self, number: u32) -> [u8; DIGEST_SIZE] {
        let mut hash = Ripemd160::new();
        hash.update(&self.begun);
        if self.is_integer {
            hash.update(u64::from(number).to_be_bytes());
        } else {
            let mut digits = [0; DIGITS_COUNT];
            write_digits(&mut digits, number);
            hash.update(digits);
        }
        hash.finalize().into()
    }

    /// The first of the slots that stand for a key's partition.
    pub fn slot(&self, number: u32) -> Slot {
        Function::Aerospike.slot(&self.digest(number))
    }
}

/// The protocol, of requests for one key each.
pub struct Aerospike {
    requests: Vec<Request>,
    naming: Naming,
    /// A whole request but the value, before it goes out.
    frame: Vec<u8>,
    values: Values,
}

struct Request {
    is_set: bool,
    /// The whole frame, with zeros for a digest and no bytes in a value.
    frame: Vec<u8>,
    /// Where the digest stands; nothing if there is no record.
    digest_at: Option<usize>,
}

impl Request {
    fn new(operation: Operation, expiry_s: u32, namespace: &str) -> Request {
        let mut frame = Vec::new();
        let (info1, info2) = match operation {
            Operation::Ping => {
                put_info(&mut frame, "build\n");
                return Request { is_set: false, frame, digest_at: None };
            }
            Operation::Get | Operation::Mget(_) => (info1::READ | info1::GET_ALL, 0),
            Operation::Set | Operation::Incr => (0, info2::WRITE),
            Operation::Del => (0, info2::WRITE | info2::DELETE),
        };
        let mut op = Vec::new();
        let is_set = operation == Operation::Set;
        if is_set {
            put_op(&mut op, kind::WRITE, particle::STRING, BIN, b"");
        } else if operation == Operation::Incr {
            put_op(&mut op, kind::INCR, particle::INTEGER, BIN, &1_u64.to_be_bytes());
        }
        let message = Message {
            info1,
            info2,
            ttl: if is_set { expiry_s } else { 0 },
            timeout_ms: TIMEOUT_MS,
            namespace: namespace.as_bytes(),
            set: SET.as_bytes(),
            digest: Some(&[0; DIGEST_SIZE]),
            ops: (u16::from(!op.is_empty()), &op),
            ..Message::default()
        };
        message.put(&mut frame);
        Request { is_set, digest_at: Some(frame.len() - op.len() - DIGEST_SIZE), frame }
    }

    /// Appends the frame with this digest, up to a value of so many bytes.
    #[inline]
    fn put(&self, digest_at: usize, digest: &[u8], value_size: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.frame);
        let op_at = digest_at + DIGEST_SIZE;
        out[digest_at..op_at].copy_from_slice(digest);
        if self.is_set {
            let size = |bytes: usize| {
                u32::try_from(bytes + value_size).expect("values are at most 512 MB").to_be_bytes()
            };
            out[op_at..op_at + 4].copy_from_slice(&size(self.frame.len() - op_at - 4));
            out[4..FRONT_SIZE].copy_from_slice(&size(self.frame.len() - FRONT_SIZE));
        }
    }
}

impl Aerospike {
    /// Prepares the requests of a workload in a namespace. Several keys at once are not spoken of here.
    pub fn new(workload: &Workload, namespace: &str) -> Aerospike {
        let expiry_s = workload.ttl_s.unwrap_or(0);
        let requests =
            workload.operations.0.iter().map(|(operation, _)| Request::new(*operation, expiry_s, namespace));
        Aerospike {
            requests: requests.collect(),
            naming: Naming::new(&workload.key_prefix),
            frame: Vec::new(),
            values: Values::new(&workload.value_size),
        }
    }
}

/// How far a reply is read.
#[derive(Default)]
pub struct Reading {
    phase: Phase,
    /// Bytes of the body that are still to come.
    left: u64,
    fields: u16,
    operations: u16,
    answer: Option<Answer>,
}

#[derive(Default)]
enum Phase {
    /// In front of a frame.
    #[default]
    Front,
    /// In front of a field or an operation, or at the end.
    Part,
    /// Before so many bytes that are passed over.
    Skip(u64),
    /// Before so many bytes of a value.
    Value(u64),
}

impl Reading {
    /// The front of a frame, and of a message its header; how many bytes that is, if they are there.
    fn front(&mut self, input: &[u8], see: &mut impl FnMut(Part<'_>)) -> Result<Option<usize>, String> {
        let Some(front) = input.first_chunk::<FRONT_SIZE>() else { return Ok(None) };
        let size = u64::from_be_bytes([0, 0, front[2], front[3], front[4], front[5], front[6], front[7]]);
        match front[..2] {
            [VERSION, INFO] => {
                (self.left, self.fields, self.operations) = (size, 0, 0);
                (self.answer, self.phase) = (Some(Answer::Value), Phase::Part);
                return Ok(Some(FRONT_SIZE));
            }
            [VERSION, MESSAGE] => {}
            _ => return Err(format!("a frame begins with {:02x}{:02x}, not 0203", front[0], front[1])),
        }
        let Some(header) = input[FRONT_SIZE..].first_chunk::<HEADER_SIZE>() else { return Ok(None) };
        if header[0] != 22 || size < 22 {
            return Err("a message's header has 22 bytes".to_owned());
        }
        self.left = size - 22;
        (self.fields, self.operations) =
            (u16::from_be_bytes([header[18], header[19]]), u16::from_be_bytes([header[20], header[21]]));
        self.phase = Phase::Part;
        self.answer = Some(match Code(header[5]) {
            Code::OK => Answer::Value,
            Code::NOT_FOUND => Answer::Miss,
            code => {
                see(Part::Error(code_text(code).as_bytes()));
                Answer::Error
            }
        });
        Ok(Some(FRONT_SIZE + HEADER_SIZE))
    }

    /// What a field or an operation begins with; how many bytes that is, if they are there.
    fn part(&mut self, input: &[u8]) -> Result<Option<usize>, String> {
        let wrong = || "a part of a message is longer than the message".to_owned();
        let front_size = if self.fields > 0 { 4 } else { OP_HEADER_SIZE };
        let Some(front) = input.get(..front_size) else { return Ok(None) };
        let size = u64::from(u32::from_be_bytes([front[0], front[1], front[2], front[3]]));
        self.left = self.left.checked_sub(size + 4).ok_or_else(wrong)?;
        if self.fields > 0 {
            self.fields -= 1;
            self.phase = Phase::Skip(size);
            return Ok(Some(front_size));
        }
        self.operations -= 1;
        let name_size = u64::from(front[7]);
        let value_size = size.checked_sub(4 + name_size).ok_or_else(wrong)?;
        // The name is short: it comes with the front.
        let name_size = usize::try_from(name_size).expect("a byte");
        if input.len() < front_size + name_size {
            (self.left, self.operations) = (self.left + size + 4, self.operations + 1);
            return Ok(None);
        }
        self.phase =
            if front[5] == particle::STRING { Phase::Value(value_size) } else { Phase::Skip(value_size) };
        Ok(Some(front_size + name_size))
    }
}

impl Protocol for Aerospike {
    type Reading = Reading;

    const IS_SERIAL: bool = true;

    #[inline]
    fn put(&mut self, operation: usize, key: &mut dyn FnMut() -> u32, size: usize, output: &mut Output) {
        let request = &self.requests[operation];
        let Some(digest_at) = request.digest_at else { return output.extend(&request.frame) };
        let number = key();
        self.frame.clear();
        request.put(
            digest_at,
            &self.naming.digest(number),
            if request.is_set { size } else { 0 },
            &mut self.frame,
        );
        output.extend(&self.frame);
        if request.is_set {
            let mut digits = [0; DIGITS_COUNT];
            write_digits(&mut digits, number);
            self.values.put(&digits, size, output);
        }
    }

    fn next(
        reading: &mut Reading,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Answer>, usize), String> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match reading.phase {
                Phase::Front => match reading.front(rest, see)? {
                    Some(size) => at += size,
                    None => return Ok((None, at)),
                },
                Phase::Part if reading.fields == 0 && reading.operations == 0 => {
                    if reading.left > 0 {
                        reading.phase = Phase::Skip(std::mem::take(&mut reading.left));
                        continue;
                    }
                    let answer = reading.answer.take();
                    *reading = Reading::default();
                    return Ok((answer, at));
                }
                Phase::Part => match reading.part(rest)? {
                    Some(size) => at += size,
                    None => return Ok((None, at)),
                },
                Phase::Skip(0) | Phase::Value(0) => reading.phase = Phase::Part,
                Phase::Skip(_) | Phase::Value(_) if rest.is_empty() => return Ok((None, at)),
                Phase::Skip(size) => {
                    let here = here(size, rest);
                    at += here.len();
                    reading.phase = Phase::Skip(size - u64::try_from(here.len()).expect("64 bits"));
                }
                Phase::Value(size) => {
                    let here = here(size, rest);
                    see(Part::Bytes(here));
                    at += here.len();
                    reading.phase = Phase::Value(size - u64::try_from(here.len()).expect("64 bits"));
                }
            }
        }
    }
}

/// As many of `size` bytes as are there.
fn here(size: u64, input: &[u8]) -> &[u8] {
    &input[..usize::try_from(size).unwrap_or(usize::MAX).min(input.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// Digests of asbench's set, computed by Aerospike's own client.
    #[test]
    fn records_are_known_by_their_digest() {
        let integers = Naming::new("");
        assert_eq!(integers.digest(0)[..], hex("1e2636002fd468ac9139049eec4656a90e05e22c"));
        assert_eq!(integers.slot(0), Slot::new(1566 * 4).unwrap());
        let texts = Naming::new("key:");
        let whole = Ripemd160::digest(b"testset\x03key:000000000007");
        assert_eq!(texts.digest(7)[..], whole[..]);
    }

    fn put(mix: &str, prefix: &str) -> Vec<u8> {
        let workload = Workload {
            operations: mix.parse().unwrap(),
            key_prefix: prefix.to_owned(),
            ttl_s: Some(100),
            ..Workload::default()
        };
        let mut output = Output::new();
        let mut aerospike = Aerospike::new(&workload, "test");
        (0..workload.operations.0.len())
            .for_each(|operation| aerospike.put(operation, &mut || 0, 3, &mut output));
        output.pieces().flatten().copied().collect()
    }

    /// The get is byte for byte asbench's.
    #[test]
    fn requests_are_those_of_clients() {
        let fields = "00000005 00 74657374 00000008 01 74657374736574 00000015 04 1e2636002fd468ac9139049eec4656a90e05e22c";
        let get =
            format!("0203 000000000044 16 03 00 00 00 00 00000000 00000000 000003e8 0003 0000 {fields}");
        assert_eq!(put("get", ""), hex(&get));
        let set = format!(
            "0203 000000000056 16 00 01 00 00 00 00000000 00000064 000003e8 0003 0001 {fields}
             0000000e 02 03 00 07 7465737462696e 303030"
        );
        assert_eq!(put("set", ""), hex(&set));
        let del =
            format!("0203 000000000044 16 00 03 00 00 00 00000000 00000000 000003e8 0003 0000 {fields}");
        assert_eq!(put("del", ""), hex(&del));
        let incr = format!(
            "0203 00000000005b 16 00 01 00 00 00 00000000 00000000 000003e8 0003 0001 {fields}
             00000013 05 01 00 07 7465737462696e 0000000000000001"
        );
        assert_eq!(put("incr", ""), hex(&incr));
        assert_eq!(put("ping", ""), b"\x02\x01\0\0\0\0\0\x06build\n");
    }

    #[test]
    fn replies_are_told_apart_however_they_are_cut() {
        let bytes = hex(
            "0203 000000000028 16 00000000 00 00000001 00000000 00000000 0000 0001 0000000e 01 03 00 07 7465737462696e 616263
             0203 000000000016 16 00000000 02 00000000 00000000 00000000 0000 0000
             0203 000000000037 16 00000000 00 00000001 00000000 00000000 0001 0002
                  00000003 01 6161 00000005 01 00 00 01 76 0000000d 01 01 00 01 76 0000000000000001
             0201 000000000006 6275696c640a
             0203 000000000018 16 00000000 08 00000000 00000000 00000000 0000 0000 ffff
             0203 000000000016 16 00000000 00 00000001 00000000 00000000 0000 0000",
        );
        for cut in 0..=bytes.len() {
            let (mut reading, mut errors, mut values, mut got, mut at) =
                (Reading::default(), Vec::new(), Vec::new(), Vec::new(), 0);
            for end in [cut, bytes.len()] {
                loop {
                    let mut see = |part: Part<'_>| match part {
                        Part::Error(text) => errors.push(String::from_utf8_lossy(text).into_owned()),
                        Part::Bytes(bytes) => values.extend_from_slice(bytes),
                    };
                    let (answer, size) = Aerospike::next(&mut reading, &bytes[at..end], &mut see).unwrap();
                    at += size;
                    let Some(answer) = answer else { break };
                    got.push(answer);
                }
            }
            use Answer::{Error, Miss, Value};
            assert_eq!(got, [Value, Miss, Value, Value, Error, Value], "{cut}");
            assert_eq!(
                (&values[..], &errors[..]),
                (&b"abc"[..], &["result 8, AS_ERR_OUT_OF_SPACE".to_owned()][..])
            );
        }
    }

    #[test]
    fn nonsense_is_none_of_aerospikes() {
        for text in [
            "2b4f4b0d0a000000",
            "0204 000000000016",
            "0203 000000000016 17 00000000 00 00000001 00000000 00000000 0000 0000",
            "0203 000000000015 16 00000000 00 00000001 00000000 00000000 0000 0000",
            "0203 00000000001e 16 00000000 00 00000001 00000000 00000000 0000 0001 00000005 01 03 00 00",
            "0203 000000000020 16 00000000 00 00000001 00000000 00000000 0000 0001 00000006 01 03 00 03",
        ] {
            let result = Aerospike::next(&mut Reading::default(), &hex(text), &mut |_| {});
            assert!(result.is_err(), "{text}");
        }
    }
}
