//! Requests of the binary protocol: a header of 24 bytes, then extras, key and value (`dispatch_bin_command` in `proto_bin.c`).
//!
//! ```text
//!  0 magic 0x80    1 opcode    2 key size u16
//!  4 extras size   5 datatype  6 vbucket u16      numbers big-endian
//!  8 body size u32            12 opaque u32       the body is extras, key and value
//! 16 cas u64
//! ```
//! Extras: of SET and its kin flags u32 and exptime u32; of INCREMENT and DECREMENT delta u64, initial u64 and exptime u32 (all
//! ones: make nothing); of TOUCH and GAT exptime u32; of FLUSH nothing or exptime u32; of VERBOSITY level u32.

use std::ops::Range;

use super::KEY_SIZE_MAX;
use super::decoder::{Limits, Parsed, Then};
use super::head::{Bits, Framing, Head, MAGIC_REQUEST, Verb};
use super::say::Say;
use super::text::sized;

/// Bytes of a header.
pub(crate) const HEADER_SIZE: usize = 24;
/// Longest name of a SASL mechanism.
pub(crate) const MECHANISM_SIZE_MAX: usize = 32;
/// Largest SASL payload; a larger one is out of memory, as it is in memcached.
pub(crate) const PAYLOAD_SIZE_MAX: u64 = 16 * 1024;
/// An expiry of this is "do not create".
const CREATE_NOTHING: u32 = u32::MAX;

/// What an opcode has behind its header.
pub(crate) struct Shape {
    pub(crate) verb: Verb,
    pub(crate) bits: Bits,
    /// Sizes that the extras can have.
    pub(crate) extras: &'static [u8],
    pub(crate) key: Key,
    pub(crate) has_value: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    None,
    Some,
    /// Or not: the group of STAT.
    Maybe,
}

impl Shape {
    /// Are these the sizes that the extras and the key can have?
    pub(crate) fn fits(&self, extras_size: u8, key_size: usize) -> bool {
        let is_key_right = match self.key {
            Key::None => key_size == 0,
            Key::Some => key_size > 0,
            Key::Maybe => true,
        };
        self.extras.contains(&extras_size) && is_key_right
    }
}

/// The shape of an opcode; nothing for one that there is not.
pub(crate) fn shape(opcode: u8) -> Option<Shape> {
    let value = Bits::WANTS_VALUE;
    let (verb, bits, is_quiet) = match opcode {
        0x00 | 0x09 => (Verb::Get, value, opcode == 0x09),
        0x0c | 0x0d => (Verb::Get, value.and(Bits::WANTS_KEY), opcode == 0x0d),
        0x01 | 0x11 => (Verb::Set, Bits::default(), opcode == 0x11),
        0x02 | 0x12 => (Verb::Add, Bits::default(), opcode == 0x12),
        0x03 | 0x13 => (Verb::Replace, Bits::default(), opcode == 0x13),
        0x04 | 0x14 => (Verb::Delete, Bits::default(), opcode == 0x14),
        0x05 | 0x15 => (Verb::Incr, Bits::default(), opcode == 0x15),
        0x06 | 0x16 => (Verb::Decr, Bits::default(), opcode == 0x16),
        0x07 | 0x17 => (Verb::Quit, Bits::CLOSES, opcode == 0x17),
        0x08 | 0x18 => (Verb::Flush, Bits::default(), opcode == 0x18),
        0x0a => (Verb::Noop, Bits::default(), false),
        0x0b => (Verb::Version, Bits::default(), false),
        0x0e | 0x19 => (Verb::Append, Bits::default(), opcode == 0x19),
        0x0f | 0x1a => (Verb::Prepend, Bits::default(), opcode == 0x1a),
        0x10 => (Verb::Stats, Bits::default(), false),
        0x1b => (Verb::Verbosity, Bits::default(), false),
        0x1c => (Verb::Touch, Bits::default(), false),
        0x1d | 0x1e => (Verb::Gat, value, opcode == 0x1e),
        0x20 => (Verb::SaslList, Bits::default(), false),
        0x21 => (Verb::SaslAuth, Bits::default(), false),
        0x22 => (Verb::SaslStep, Bits::default(), false),
        0x23 | 0x24 => (Verb::Gat, value.and(Bits::WANTS_KEY), opcode == 0x24),
        _ => return None,
    };
    let (extras, key, has_value): (&[u8], _, _) = match verb {
        Verb::Set | Verb::Add | Verb::Replace => (&[8], Key::Some, true),
        Verb::Append | Verb::Prepend | Verb::SaslAuth | Verb::SaslStep => (&[0], Key::Some, true),
        Verb::Incr | Verb::Decr => (&[20], Key::Some, false),
        Verb::Gat | Verb::Touch => (&[4], Key::Some, false),
        Verb::Get | Verb::Delete => (&[0], Key::Some, false),
        Verb::Flush => (&[0, 4], Key::None, false),
        Verb::Verbosity => (&[4], Key::None, false),
        Verb::Stats => (&[0], Key::Maybe, false),
        _ => (&[0], Key::None, false),
    };
    Some(Shape { verb, bits: bits.and_if(is_quiet, Bits::QUIET), extras, key, has_value })
}

/// A request for one key without anything odd, which lies in the input as a whole: its head and its key. Nearly every request, read
/// in one go; any other is read with care.
#[inline]
pub(super) fn plain_get(input: &[u8]) -> Option<(Head, &[u8])> {
    let header: &[u8; HEADER_SIZE] = input.first_chunk()?;
    let key_bits = match header[1] {
        0x00 | 0x09 => Bits::WANTS_VALUE,
        0x0c | 0x0d => Bits::WANTS_VALUE.and(Bits::WANTS_KEY),
        _ => return None,
    };
    let key_size = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let body_size = u32::from_be_bytes(array(header, 8));
    let is_plain = header[0] == MAGIC_REQUEST
        && header[4] == 0
        && u64::from(body_size) == u64::from(u16::from_be_bytes([header[2], header[3]]))
        && 0 < key_size
        && key_size <= KEY_SIZE_MAX
        && header[16..] == [0; 8];
    let key = input.get(HEADER_SIZE..HEADER_SIZE + key_size).filter(|_| is_plain)?;
    let head = Head {
        opcode: header[1],
        datatype: header[5],
        bits: key_bits.and_if(matches!(header[1], 0x09 | 0x0d), Bits::QUIET),
        vbucket: u16::from_be_bytes([header[6], header[7]]),
        opaque: u32::from_be_bytes(array(header, 12)),
        ..Head::new(Verb::Get, Framing::Binary)
    };
    Some((head, key))
}

/// What stands in front of a request's value, if all of it is there.
pub(super) fn parse(input: &[u8], limits: &Limits) -> Option<Parsed> {
    if input.first().is_some_and(|magic| *magic != MAGIC_REQUEST) {
        return Some(close(input, Say::Nothing, Head::default()));
    }
    let header: &[u8; HEADER_SIZE] = input.first_chunk()?;
    let u16_at = |start: usize| u16::from_be_bytes([header[start], header[start + 1]]);
    let u32_at = |start: usize| u32::from_be_bytes(array(header, start));
    let (key_size, extras_size) = (usize::from(u16_at(2)), usize::from(header[4]));
    let body_size = u64::from(u32_at(8));
    let head = Head {
        opcode: header[1],
        datatype: header[5],
        vbucket: u16_at(6),
        opaque: u32_at(12),
        cas: u64::from_be_bytes(array(header, 16)),
        ..Head::new(Verb::Say, Framing::Binary)
    };
    let front_size = HEADER_SIZE + extras_size + key_size;
    let value_size = match u64::try_from(extras_size + key_size) {
        Ok(size) if size <= body_size => body_size - size,
        _ => return Some(close(input, Say::UnknownCommand, head)),
    };
    let shape = shape(head.opcode);
    let is_login =
        |verb: Verb| matches!(verb, Verb::SaslList | Verb::SaslAuth | Verb::SaslStep | Verb::Version);
    if !limits.authenticated && !shape.as_ref().is_some_and(|shape| is_login(shape.verb)) {
        return Some(close(input, Say::Unauthenticated, head));
    }
    if key_size > KEY_SIZE_MAX {
        return Some(close(input, Say::InvalidArguments, head));
    }
    let Some(shape) = shape else {
        return Some(refuse(Say::UnknownCommand, head, body_size));
    };
    if !shape.fits(header[4], key_size) || !shape.has_value && value_size > 0 {
        return Some(close(input, Say::InvalidArguments, head));
    }
    if matches!(shape.verb, Verb::SaslAuth | Verb::SaslStep) {
        if key_size > MECHANISM_SIZE_MAX {
            return Some(refuse(Say::InvalidArguments, head, body_size));
        }
        if value_size > PAYLOAD_SIZE_MAX {
            return Some(refuse(Say::OutOfMemory, head, body_size));
        }
    }
    // A value may come later, but not the rest.
    let extras = input.get(HEADER_SIZE..front_size)?;
    let key = front_size - key_size..front_size;
    Some(understood(shape, head, extras, key, value_size, limits))
}

/// A request whose parts have the sizes of its shape.
fn understood(
    shape: Shape,
    head: Head,
    extras: &[u8],
    key: Range<usize>,
    value_size: u64,
    limits: &Limits,
) -> Parsed {
    let head = asked(&shape, head, extras);
    let size = key.end;
    let key_size = key.len();
    match shape.verb {
        Verb::Stats => Parsed { then: Then::Inside(key), size, ..Parsed::of(head) },
        Verb::SaslAuth | Verb::SaslStep => {
            Parsed { key, size, then: Then::Value(value_size), ..Parsed::of(head) }
        }
        verb if shape.has_value => {
            let parsed = Parsed { key, size, ..Parsed::of(head) };
            sized(parsed, key_size, value_size, verb == Verb::Set, limits)
        }
        _ => Parsed { key, size, ..Parsed::of(head) },
    }
}

/// What the extras of a request ask for, in its head. Extras that may be missing read as zero.
pub(crate) fn asked(shape: &Shape, head: Head, extras: &[u8]) -> Head {
    let u32_at =
        |start: usize| extras.get(start..start + 4).map_or(0, |_| u32::from_be_bytes(array(extras, start)));
    let u64_at = |start: usize| u64::from_be_bytes(array(extras, start));
    let has_cas = head.cas != 0;
    let bits = head.bits.and(shape.bits).and_if(has_cas, Bits::HAS_CAS);
    let mut head = Head { verb: shape.verb, bits, ..head };
    match shape.verb {
        Verb::Set | Verb::Add | Verb::Replace => {
            head.flags = u32_at(0);
            head.exptime = i64::from(u32_at(4));
            if has_cas {
                head.verb = Verb::Cas;
            }
        }
        Verb::Incr | Verb::Decr => {
            let exptime = u32_at(16);
            (head.delta, head.initial, head.exptime) = (u64_at(0), u64_at(8), i64::from(exptime));
            head.bits = head.bits.and_if(exptime != CREATE_NOTHING, Bits::CREATES);
        }
        Verb::Verbosity => head.delta = u64::from(u32_at(0)),
        Verb::Gat | Verb::Touch | Verb::Flush | Verb::GetLocked => head.exptime = i64::from(u32_at(0)),
        _ => {}
    }
    head
}

/// A request that is only answered; its body is swallowed.
fn refuse(say: Say, head: Head, body_size: u64) -> Parsed {
    Parsed { size: HEADER_SIZE, then: Then::Swallow(body_size), ..Parsed::of(Head { say, ..head }) }
}

/// A request behind which nothing can be found: it is answered, whatever is there is dropped, and the connection closed.
fn close(input: &[u8], say: Say, head: Head) -> Parsed {
    let head = Head { verb: Verb::Say, say, bits: head.bits.and(Bits::CLOSES), ..head };
    Parsed { size: input.len(), ..Parsed::of(head) }
}

/// `SIZE` bytes from `start` on.
pub(crate) fn array<const SIZE: usize>(bytes: &[u8], start: usize) -> [u8; SIZE] {
    *bytes[start..].first_chunk().expect("a field lies inside of its header or extras")
}
