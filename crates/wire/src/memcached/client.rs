//! The other side: requests become bytes, and bytes of replies are counted.
//!
//! For load generators, simulated clients and tests, as [`crate::client`] is for RESP. A request that gets several keys has one
//! reply: in text a line with several keys, in binary GETQ for all but the last.

use super::binary::HEADER_SIZE;
use super::head::{Framing, MAGIC_REPLY, MAGIC_REQUEST};
use super::say::Status;
use crate::client::{LINE_SIZE_MAX, Outcome, ReplyError};
use crate::number::{format_u64, parse_i64};
use crate::reply::Put;

/// Appends a request for the value of a key. `opaque` is what a binary reply repeats.
pub fn get(out: &mut impl Put, framing: Framing, key: &[u8], opaque: u32) {
    match framing {
        Framing::Text => out.put_all([b"get ", key, b"\r\n"]),
        Framing::Meta => out.put_all([b"mg ", key, b" v\r\n"]),
        Framing::Binary | Framing::Couchbase => packet(out, GET, b"", key, 0, opaque),
    }
}

/// Appends a request to store a value, with client flags of zero. `exptime` is in seconds as [`super::expiry`] reads it, zero for
/// never.
pub fn set(out: &mut impl Put, framing: Framing, key: &[u8], exptime: u32, value: &[u8], opaque: u32) {
    let (exptime_text, size) = (format_u64(u64::from(exptime)), format_u64(size64(value.len())));
    match framing {
        Framing::Text => {
            out.put_all([b"set ", key, b" 0 "]);
            out.put_all([exptime_text.as_bytes(), b" ", size.as_bytes()]);
        }
        Framing::Meta => {
            out.put_all([b"ms ", key, b" "]);
            out.put_all([size.as_bytes(), b" T", exptime_text.as_bytes()]);
        }
        Framing::Binary | Framing::Couchbase => {
            packet(out, SET, &store_extras(exptime), key, value.len(), opaque);
            return out.put(value);
        }
    }
    out.put_all([b"\r\n", value, b"\r\n"]);
}

/// The opcode of GET.
pub const GET: u8 = 0x00;
/// That of SET, whose extras are [`store_extras`].
pub const SET: u8 = 0x01;
/// That of DELETE.
pub const DELETE: u8 = 0x04;
/// That of INCREMENT, whose extras are [`count_extras`].
pub const INCREMENT: u8 = 0x05;
/// That of GET without a reply to a miss. Its reply belongs to that of the next request.
pub const GETQ: u8 = 0x09;
/// That of NOOP.
pub const NOOP: u8 = 0x0a;

/// Extras of SET: client flags of zero and an expiry.
pub fn store_extras(exptime: u32) -> [u8; 8] {
    let [a, b, c, d] = exptime.to_be_bytes();
    [0, 0, 0, 0, a, b, c, d]
}

/// Extras of INCREMENT: what is added, what a number begins with, and no expiry.
pub fn count_extras(delta: u64, initial: u64) -> [u8; 20] {
    let mut extras = [0; 20];
    extras[..8].copy_from_slice(&delta.to_be_bytes());
    extras[8..16].copy_from_slice(&initial.to_be_bytes());
    extras
}

/// Where in a binary request the number of its partition stands, big-endian.
pub const VBUCKET_AT: std::ops::Range<usize> = 6..8;

/// Appends a binary request up to its value of `value_size` bytes, which the caller puts behind it.
pub fn packet(out: &mut impl Put, opcode: u8, extras: &[u8], key: &[u8], value_size: usize, opaque: u32) {
    let mut bytes = [0; HEADER_SIZE];
    bytes[..2].copy_from_slice(&[MAGIC_REQUEST, opcode]);
    let key_size = u16::try_from(key.len()).expect("keys are short");
    bytes[2..4].copy_from_slice(&key_size.to_be_bytes());
    bytes[4] = u8::try_from(extras.len()).expect("extras are short");
    let body_size = u32::try_from(extras.len() + key.len() + value_size);
    bytes[8..12].copy_from_slice(&body_size.expect("values are far smaller than 4 GiB").to_be_bytes());
    bytes[12..16].copy_from_slice(&opaque.to_be_bytes());
    out.put_all([&bytes, extras, key]);
}

/// A part of a reply that somebody may want to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The next bytes of a value.
    Value(&'a [u8]),
    /// The text of an error.
    Error(&'a [u8]),
}

/// Tells where replies end and whether they are errors, without keeping anything of them. Each byte is looked at once.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    framing: Framing,
    phase: Phase,
    /// Bytes of the line at the start of the input that hold no line's end.
    scanned: usize,
    /// What the reply is, so far.
    outcome: Outcome,
    /// More of it follows behind the value: another one, or END.
    goes_on: bool,
    status: Status,
}

impl Default for Counter {
    /// Of text.
    fn default() -> Counter {
        Counter::new(Framing::Text)
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Before a line or a header.
    Start,
    /// Before so many bytes that are passed over, and so many of a value.
    Body { skip: u64, value: u64 },
    /// Before the end of a value's line.
    End,
    /// Before the text of a binary error, of so many bytes.
    Error(u64),
    /// Behind the reply.
    Done,
}

impl Counter {
    /// At the start of a connection that speaks this.
    pub fn new(framing: Framing) -> Counter {
        Counter {
            framing,
            phase: Phase::Start,
            scanned: 0,
            outcome: Outcome::Null,
            goes_on: false,
            status: Status::OK,
        }
    }

    /// The status of the binary reply that has ended last, or is being read.
    pub fn status(&self) -> u16 {
        self.status.0
    }

    /// As [`Counter::next_seen`], without looking.
    ///
    /// # Errors
    /// Likewise.
    pub fn next(&mut self, input: &[u8]) -> Result<(Option<Outcome>, usize), ReplyError> {
        self.next_seen(input, &mut |_| {})
    }

    /// Reads on until a reply ends or the input does. Returns the bytes to consume, and shows `see` those of values.
    ///
    /// A miss is [`Outcome::Null`]; what was not stored is an error.
    ///
    /// # Errors
    /// Bytes that are no reply. The connection is then of no use.
    pub fn next_seen(
        &mut self,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Outcome>, usize), ReplyError> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.phase {
                Phase::Start => {
                    let size = match self.framing {
                        Framing::Binary | Framing::Couchbase => self.header(rest)?,
                        Framing::Text | Framing::Meta => self.line(rest, see)?,
                    };
                    match size {
                        Some(size) => at += size,
                        None => return Ok((None, at)),
                    }
                }
                Phase::Body { skip: 0, value: 0 } => match self.framing {
                    Framing::Binary | Framing::Couchbase => self.go_on(),
                    Framing::Text | Framing::Meta => self.phase = Phase::End,
                },
                Phase::Body { .. } if rest.is_empty() => return Ok((None, at)),
                Phase::Body { skip: 0, value } => {
                    let size = here(value, rest);
                    see(Part::Value(&rest[..size]));
                    at += size;
                    self.phase = Phase::Body { skip: 0, value: value - size64(size) };
                }
                Phase::Body { skip, value } => {
                    let size = here(skip, rest);
                    at += size;
                    self.phase = Phase::Body { skip: skip - size64(size), value };
                }
                Phase::End => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.go_on();
                    }
                    [] | [b'\r'] => return Ok((None, at)),
                    _ => return Err(ReplyError::BulkEnd),
                },
                Phase::Error(size) => {
                    let whole = here(size, rest);
                    if size64(whole) < size {
                        return Ok((None, at));
                    }
                    see(Part::Error(&rest[..whole]));
                    at += whole;
                    self.phase = Phase::Done;
                }
                Phase::Done => {
                    let outcome = self.outcome;
                    *self = Counter { status: self.status, ..Counter::new(self.framing) };
                    return Ok((Some(outcome), at));
                }
            }
        }
    }

    /// A value is over.
    fn go_on(&mut self) {
        self.phase = if self.goes_on { Phase::Start } else { Phase::Done };
    }

    /// Reads a line; its size if all of it is there.
    fn line(&mut self, input: &[u8], see: &mut impl FnMut(Part<'_>)) -> Result<Option<usize>, ReplyError> {
        let Some(found) = input[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            self.scanned = input.len();
            return if self.scanned >= LINE_SIZE_MAX { Err(ReplyError::LineTooLong) } else { Ok(None) };
        };
        let end = self.scanned + found;
        self.scanned = 0;
        let line = input[..end].strip_suffix(b"\r").ok_or(ReplyError::Value)?;
        let mut words = line.split(|byte| *byte == b' ');
        let value_at = match words.next().unwrap_or_default() {
            b"VALUE" => 2,
            b"VA" => 0,
            word => {
                self.phase = Phase::Done;
                self.outcome = match word {
                    b"END" => self.outcome,
                    b"EN" | b"NF" | b"NOT_FOUND" => Outcome::Null,
                    b"NS" | b"EX" | b"NOT_STORED" | b"EXISTS" | b"ERROR" | b"CLIENT_ERROR"
                    | b"SERVER_ERROR" => {
                        see(Part::Error(line));
                        Outcome::Error
                    }
                    b"HD" | b"MN" | b"STORED" | b"OK" | b"DELETED" | b"TOUCHED" | b"VERSION" => {
                        Outcome::Value
                    }
                    [b'0'..=b'9', ..] => Outcome::Value,
                    _ => return Err(ReplyError::UnknownType(input[0])),
                };
                return Ok(Some(end + 1));
            }
        };
        let size = words.nth(value_at).and_then(parse_i64).and_then(|size| u64::try_from(size).ok());
        self.phase = Phase::Body { skip: 0, value: size.ok_or(ReplyError::Value)? };
        (self.outcome, self.goes_on) = (Outcome::Value, value_at > 0);
        Ok(Some(end + 1))
    }

    /// Reads a header; its size if all of it is there.
    fn header(&mut self, input: &[u8]) -> Result<Option<usize>, ReplyError> {
        if let Some(&first) = input.first()
            && first != MAGIC_REPLY
        {
            return Err(ReplyError::UnknownType(first));
        }
        let Some(header) = input.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
        let &[_, opcode, key_high, key_low, extras_size, _, high, low, a, b, c, d, ..] = header;
        let front = u64::from(u16::from_be_bytes([key_high, key_low])) + u64::from(extras_size);
        let body = u64::from(u32::from_be_bytes([a, b, c, d]));
        let value = body.checked_sub(front).ok_or(ReplyError::Value)?;
        self.status = Status(u16::from_be_bytes([high, low]));
        (self.phase, self.outcome) = match self.status {
            Status::OK => (Phase::Body { skip: front, value }, Outcome::Value),
            // What comes with it is a text for people, or the key; values may have come before.
            Status::NOT_FOUND => (Phase::Body { skip: body, value: 0 }, self.outcome),
            _ if body > size64(LINE_SIZE_MAX) => return Err(ReplyError::LineTooLong),
            _ => (Phase::Error(body), Outcome::Error),
        };
        self.goes_on = opcode == GETQ;
        Ok(Some(HEADER_SIZE))
    }
}

/// How many of `left` bytes are there.
fn here(left: u64, input: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(input.len())
}

fn size64(size: usize) -> u64 {
    u64::try_from(size).expect("a size fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::super::reply::{put, put_value_end, put_value_header};
    use super::super::{Bits, HEAD, Head, Item, KEY, Limits, Say, VALUE, Verb};
    use super::*;
    use crate::fuzz::memcached::read;

    const FRAMINGS: [Framing; 3] = [Framing::Text, Framing::Meta, Framing::Binary];

    #[test]
    fn requests_are_what_a_server_reads() {
        for framing in FRAMINGS {
            let mut bytes = Vec::new();
            set(&mut bytes, framing, b"key", 60, b"hello", 1);
            get(&mut bytes, framing, b"key", 2);
            let commands = read(&bytes, |_| usize::MAX, &Limits::default());
            let [store, look] = &*commands else { panic!("two commands, not {}", commands.len()) };
            let head = Head::from_bytes(&store[HEAD]);
            assert_eq!(
                (head.verb, head.flags, head.exptime, head.is(Bits::QUIET)),
                (Verb::Set, 0, 60, false)
            );
            assert_eq!((&*store[KEY], &*store[VALUE]), (&b"key"[..], &b"hello"[..]));
            let head = Head::from_bytes(&look[HEAD]);
            assert!(matches!(head.verb, Verb::Get | Verb::MetaGet) && head.is(Bits::WANTS_VALUE));
            assert_eq!(
                (head.opaque, &*look[KEY]),
                (if framing == Framing::Binary { 2 } else { 0 }, &b"key"[..])
            );
        }
    }

    /// Outcomes and values of `input`, which arrives in two pieces.
    fn count(framing: Framing, input: &[u8], cut: usize) -> Result<(Vec<Outcome>, Vec<u8>), ReplyError> {
        let (mut counter, mut outcomes, mut values, mut errors, mut consumed) =
            (Counter::new(framing), Vec::new(), Vec::new(), Vec::new(), 0);
        for arrived in [cut, input.len()] {
            loop {
                let see = &mut |part: Part<'_>| match part {
                    Part::Value(bytes) => values.extend_from_slice(bytes),
                    Part::Error(text) => errors.push(text.to_vec()),
                };
                let (outcome, size) = counter.next_seen(&input[consumed..arrived], see)?;
                consumed += size;
                match outcome {
                    Some(outcome) => outcomes.push(outcome),
                    None => break,
                }
            }
        }
        assert_eq!(consumed, input.len());
        assert_eq!(errors.len(), outcomes.iter().filter(|outcome| **outcome == Outcome::Error).count());
        Ok((outcomes, values))
    }

    #[test]
    fn replies_are_counted_wherever_they_are_cut() {
        use super::super::Outcome as Found;
        for framing in FRAMINGS {
            let verb = if framing == Framing::Meta { Verb::MetaGet } else { Verb::Get };
            let look = Head { bits: Bits::WANTS_VALUE.and(Bits::ENDS), ..Head::new(verb, framing) };
            let store = Head::new(Verb::Set, framing);
            let mut bytes = Vec::new();
            for value in [&b"hello"[..], b"", b"END\r\n"] {
                let item = Item { size: size64(value.len()), ..Item::default() };
                put_value_header(&mut bytes, &look, b"k", b"v", &item);
                bytes.extend_from_slice(value);
                put_value_end(&mut bytes, &look);
            }
            for (head, found) in [
                (&look, Found::Miss),
                (&store, Found::Stored { cas: 7 }),
                (&store, Found::NotStored),
                (&store, Found::Exists),
                (&store, Found::Say(Say::TooLarge)),
                (&look, Found::Miss),
            ] {
                put(&mut bytes, head, b"k", b"", &found);
            }
            use Outcome::{Error, Null, Value};
            let want =
                (vec![Value, Value, Value, Null, Value, Error, Error, Error, Null], b"helloEND\r\n".to_vec());
            for cut in 0..=bytes.len() {
                assert_eq!(count(framing, &bytes, cut), Ok(want.clone()), "{framing:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn several_keys_have_one_reply() {
        let text = b"VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\nEND\r\n18446744073709551615\r\n";
        let mut binary = Vec::new();
        let hit = |opcode: u8, value: &[u8]| {
            let head = Head { opcode, bits: Bits::WANTS_VALUE, ..Head::new(Verb::Get, Framing::Binary) };
            let mut bytes = Vec::new();
            put_value_header(
                &mut bytes,
                &head,
                b"k",
                b"",
                &Item { size: size64(value.len()), ..Item::default() },
            );
            [&bytes, value].concat()
        };
        let miss = |opcode: u8| {
            let head = Head { opcode, ..Head::new(Verb::Get, Framing::Binary) };
            let mut bytes = Vec::new();
            put(&mut bytes, &head, b"k", b"", &super::super::Outcome::Miss);
            bytes
        };
        // Two and a miss, a miss, one.
        for bytes in [hit(GETQ, b"x"), hit(GETQ, b"y"), miss(GET), miss(GET), hit(GET, b"")] {
            binary.extend_from_slice(&bytes);
        }
        let want = (vec![Outcome::Value, Outcome::Null, Outcome::Value], b"xy".to_vec());
        for (framing, bytes) in [(Framing::Text, &text[..]), (Framing::Binary, &binary)] {
            for cut in 0..=bytes.len() {
                assert_eq!(count(framing, bytes, cut), Ok(want.clone()), "{framing:?} cut at {cut}");
            }
        }
        let mut counting = Vec::new();
        packet(&mut counting, INCREMENT, &count_extras(5, 6), b"n", 0, 0);
        packet(&mut counting, DELETE, b"", b"n", 0, 0);
        packet(&mut counting, NOOP, b"", b"", 0, 0);
        let heads: Vec<Head> = read(&counting, |_| usize::MAX, &Limits::default())
            .iter()
            .map(|command| Head::from_bytes(&command[HEAD]))
            .collect();
        assert!(heads.iter().map(|head| head.verb).eq([Verb::Incr, Verb::Delete, Verb::Noop]));
        assert_eq!(
            (heads[0].delta, heads[0].initial, heads[0].exptime, heads[0].is(Bits::CREATES)),
            (5, 6, 0, true)
        );
    }

    #[test]
    fn bytes_that_are_no_reply_are_refused() {
        for (framing, input, want) in [
            (Framing::Text, &b"HELLO\r\n"[..], ReplyError::UnknownType(b'H')),
            (Framing::Text, b"END\n", ReplyError::Value),
            (Framing::Text, b"VALUE k 0\r\n", ReplyError::Value),
            (Framing::Text, b"VALUE k 0 -1\r\n", ReplyError::Value),
            (Framing::Text, b"VALUE k 0 1\r\nabc", ReplyError::BulkEnd),
            (Framing::Meta, b"VA x\r\n", ReplyError::Value),
            (Framing::Text, &[b'x'; LINE_SIZE_MAX], ReplyError::LineTooLong),
            (Framing::Binary, b"\x80", ReplyError::UnknownType(0x80)),
            (Framing::Binary, b"\x81\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0", ReplyError::Value),
        ] {
            assert_eq!(
                count(framing, input, 0),
                Err(want),
                "{}",
                input[..input.len().min(20)].escape_ascii()
            );
        }
    }
}
