//! Requests: the header, what may stand behind it for each opcode, and what is refused by it.
//!
//! What is refused has its body swallowed, and the connection goes on; only behind sizes that contradict each other or a first
//! byte that begins no request nothing can be found. A body beyond [`BODY_SIZE_MAX`] is not waited for either.

use std::ops::Range;

use super::features::Features;
use super::{BODY_SIZE_MAX, JSON, VALUE_SIZE_MAX, collections, frames, subdocument};
use crate::memcached::binary::{
    self, HEADER_SIZE, Key, MECHANISM_SIZE_MAX, PAYLOAD_SIZE_MAX, Shape, array, asked,
};
use crate::memcached::decoder::{Limits, Parsed, Then};
use crate::memcached::head::MAGIC_REQUEST;
use crate::memcached::{Bits, Framing, Head, KEY_SIZE_MAX, Say, Status, Verb};

/// The first byte of a request with frames.
pub(crate) const MAGIC_FRAMED: u8 = 0x08;
/// Longest value that is looked at together with its header: lists of features, names, versions.
const INSIDE_SIZE_MAX: u64 = 512;

/// The shape of an opcode; nothing for one that there is not.
fn shape(opcode: u8) -> Option<Shape> {
    let (verb, extras, key, has_value): (_, &[u8], _, _) = match opcode {
        0x1f => (Verb::Hello, &[0], Key::Maybe, true),
        // Those of memcached; beyond these its numbers mean something else.
        0x00..=0x22 => return binary::shape(opcode),
        0x83 => (Verb::GetReplica, &[0], Key::Some, false),
        0x89 => (Verb::SelectBucket, &[0], Key::Some, false),
        0x91 => (Verb::ObserveSeqno, &[0], Key::None, true),
        0x92 => (Verb::Observe, &[0], Key::None, true),
        0x94 => (Verb::GetLocked, &[0, 4], Key::Some, false),
        0x95 => (Verb::Unlock, &[0], Key::Some, false),
        0xa0 => (Verb::GetMeta, &[0, 1], Key::Some, false),
        0xb5 => (Verb::ClusterConfig, &[0, 16], Key::None, false),
        0xba => (Verb::Manifest, &[0], Key::None, false),
        0xbb => (Verb::CollectionId, &[0], Key::None, true),
        0xbc => (Verb::ScopeId, &[0], Key::None, true),
        0xc5..=0xd2 if let Some(changes) = subdocument::changes(opcode) => {
            let verb = if changes { Verb::MutateIn } else { Verb::LookupIn };
            (verb, subdocument::extras_sizes(opcode, changes), Key::Some, true)
        }
        0xfe => (Verb::ErrorMap, &[0], Key::None, true),
        _ => return None,
    };
    let bits = Bits::default().and_if(verb == Verb::GetLocked, Bits::WANTS_VALUE);
    Some(Shape { verb, bits, extras, key, has_value })
}

/// May this be asked before the password?
fn is_for_strangers(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Hello
            | Verb::ErrorMap
            | Verb::SaslList
            | Verb::SaslAuth
            | Verb::SaslStep
            | Verb::Version
            | Verb::Noop
            | Verb::Quit
    )
}

/// Is its value read together with its header?
fn has_value_inside(verb: Verb) -> bool {
    use Verb::{CollectionId, ErrorMap, Hello, Observe, ObserveSeqno, ScopeId};
    matches!(verb, Hello | ErrorMap | CollectionId | ScopeId | Observe | ObserveSeqno)
}

/// A header's numbers, and where its parts are.
struct Frame {
    head: Head,
    /// Bytes behind the header.
    body_size: u64,
    value_size: u64,
    frames: Range<usize>,
    extras: Range<usize>,
    key: Range<usize>,
}

/// What stands in front of a request's value, if all of it is there.
pub(crate) fn parse(input: &[u8], limits: &Limits, features: Features) -> Option<Parsed> {
    let magic = *input.first()?;
    if magic != MAGIC_REQUEST && magic != MAGIC_FRAMED {
        let head = Head { verb: Verb::Say, say: Say::Nothing, bits: Bits::CLOSES, ..Head::default() };
        return Some(Parsed {
            size: input.len(),
            ..Parsed::of(Head { framing: Framing::Couchbase, ..head })
        });
    }
    let header: &[u8; HEADER_SIZE] = input.first_chunk()?;
    let frame = match read(header, features) {
        Ok(frame) => frame,
        Err(head) => return Some(close(input, head)),
    };
    let shape = match admitted(&frame, limits) {
        Ok(shape) => shape,
        Err(status) => return Some(refuse(status, &frame)),
    };
    // A long value may come later, but not the rest.
    let front_size = frame.key.end;
    let size = if has_value_inside(shape.verb) { front_size + inside(frame.value_size) } else { front_size };
    if input.len() < size {
        return None;
    }
    Some(match understood(&shape, &frame, input, size, features) {
        Ok(parsed) => parsed,
        Err(status) => refuse(status, &frame),
    })
}

/// The header's numbers, or the head with which it is given up.
fn read(header: &[u8; HEADER_SIZE], features: Features) -> Result<Frame, Head> {
    let u16_at = |start: usize| u16::from_be_bytes([header[start], header[start + 1]]);
    let (frames_size, key_size) = if header[0] == MAGIC_FRAMED {
        (usize::from(header[2]), usize::from(header[3]))
    } else {
        (0, usize::from(u16_at(2)))
    };
    let extras_size = usize::from(header[4]);
    let body_size = u64::from(u32::from_be_bytes(array(header, 8)));
    let bits = Bits::default()
        .and_if(features.has(Features::JSON), Bits::KNOWS_JSON)
        .and_if(features.has(Features::EXTENDED_ERRORS), Bits::KNOWS_ERRORS);
    let head = Head {
        framing: Framing::Couchbase,
        opcode: header[1],
        datatype: header[5],
        bits,
        opaque: u32::from_be_bytes(array(header, 12)),
        vbucket: u16_at(6),
        cas: u64::from_be_bytes(array(header, 16)),
        ..Head::default()
    };
    let frames = HEADER_SIZE..HEADER_SIZE + frames_size;
    let extras = frames.end..frames.end + extras_size;
    let key = extras.end..extras.end + key_size;
    match u64::try_from(key.end - HEADER_SIZE) {
        Ok(front_size) if front_size <= body_size && body_size <= BODY_SIZE_MAX => {
            Ok(Frame { head, body_size, value_size: body_size - front_size, frames, extras, key })
        }
        _ => Err(head),
    }
}

/// The shape of a request whose sizes and rights are those of its opcode. An error is the status to answer.
fn admitted(frame: &Frame, limits: &Limits) -> Result<Shape, Status> {
    let opcode = frame.head.opcode;
    let shape = shape(opcode);
    if !limits.authenticated && !shape.as_ref().is_some_and(|shape| is_for_strangers(shape.verb)) {
        return Err(Status::NO_ACCESS);
    }
    let shape = shape.ok_or(Status::UNKNOWN_COMMAND)?;
    let extras_size = u8::try_from(frame.extras.len()).map_err(|_| Status::INVALID)?;
    // With the byte that names the default collection.
    let is_key_long = frame.key.len() > KEY_SIZE_MAX + 1;
    if is_key_long || !shape.fits(extras_size, frame.key.len()) || frame.head.datatype & !JSON != 0 {
        return Err(Status::INVALID);
    }
    let value_size_max = match shape.verb {
        _ if !shape.has_value => 0,
        verb if has_value_inside(verb) => INSIDE_SIZE_MAX,
        Verb::SaslAuth | Verb::SaslStep if frame.key.len() > MECHANISM_SIZE_MAX => 0,
        Verb::SaslAuth | Verb::SaslStep => PAYLOAD_SIZE_MAX,
        _ if frame.value_size > VALUE_SIZE_MAX => return Err(Status::TOO_LARGE),
        _ => VALUE_SIZE_MAX,
    };
    if frame.value_size > value_size_max { Err(Status::INVALID) } else { Ok(shape) }
}

/// A request of which `size` bytes are there.
fn understood(
    shape: &Shape,
    frame: &Frame,
    input: &[u8],
    size: usize,
    features: Features,
) -> Result<Parsed, Status> {
    let mut head = asked(shape, frame.head, &input[frame.extras.clone()]);
    let value = frame.key.end..size;
    let wishes = frames::parse(&input[frame.frames.clone()])?;
    let writes = matches!(
        shape.verb,
        Verb::Set
            | Verb::Add
            | Verb::Replace
            | Verb::Append
            | Verb::Prepend
            | Verb::Delete
            | Verb::Incr
            | Verb::Decr
            | Verb::MutateIn
    );
    if wishes.is_durable && !writes || wishes.preserves_expiry && (!writes || shape.verb == Verb::Add) {
        return Err(Status::INVALID);
    }
    if head.cas != 0 && matches!(shape.verb, Verb::Add | Verb::Incr | Verb::Decr) {
        return Err(Status::INVALID);
    }
    let wants_token = writes && features.has(Features::MUTATION_TOKENS);
    head.bits =
        head.bits.and_if(wishes.preserves_expiry, Bits::KEEPS_EXPIRY).and_if(wants_token, Bits::WANTS_TOKEN);
    let mut key = frame.key.clone();
    match shape.verb {
        Verb::ClusterConfig if !frame.extras.is_empty() => {
            let extras = &input[frame.extras.clone()];
            head.delta = u64::from_be_bytes(array(extras, 0));
            head.initial = u64::from_be_bytes(array(extras, 8));
            head.bits = head.bits.and(Bits::KNOWS_MAP);
        }
        Verb::GetMeta => match input[frame.extras.clone()] {
            [] | [1] => {}
            [2] => head.bits = head.bits.and(Bits::WANTS_DATATYPE),
            _ => return Err(Status::INVALID),
        },
        Verb::LookupIn | Verb::MutateIn => {
            let extras = &input[frame.extras.clone()];
            head = subdocument::ask(head, extras, frame.value_size, writes)?;
        }
        Verb::Stats if is_of_vbuckets(&input[key.clone()]) => head.verb = Verb::VbucketStats,
        Verb::Unlock if head.cas == 0 => return Err(Status::INVALID),
        Verb::Hello if !value.len().is_multiple_of(2) => return Err(Status::INVALID),
        Verb::ErrorMap if value.len() != 2 => return Err(Status::INVALID),
        Verb::ObserveSeqno if value.len() != 8 => return Err(Status::INVALID),
        Verb::Observe => (head.vbucket, key) = observed(input, value.clone())?,
        _ => {}
    }
    if shape.verb.has_key() {
        if features.has(Features::COLLECTIONS) {
            key.start += collections::prefix_size(&input[key.clone()])?;
            head.bits = head.bits.and(Bits::HAS_COLLECTION);
        }
        if key.is_empty() || key.len() > KEY_SIZE_MAX {
            return Err(Status::INVALID);
        }
    }
    let then = match shape.verb {
        Verb::Observe => Then::Nothing,
        verb if has_value_inside(verb) => Then::Inside(value),
        Verb::Stats => return Ok(Parsed { size, then: Then::Inside(key), ..Parsed::of(head) }),
        _ if shape.has_value => Then::Value(frame.value_size),
        _ => Then::Nothing,
    };
    Ok(Parsed { key, size, then, ..Parsed::of(head) })
}

/// The groups of STAT that a lane answers by itself.
fn is_of_vbuckets(group: &[u8]) -> bool {
    group
        .split(|byte| *byte == b' ')
        .next()
        .is_some_and(|name| matches!(name, b"vbucket" | b"vbucket-details"))
}

/// The partition and the one key that OBSERVE names: `vbucket u16 | key size u16 | key`. More keys in one request are refused:
/// they may be of several lanes, and no client needs them.
fn observed(input: &[u8], value: Range<usize>) -> Result<(u16, Range<usize>), Status> {
    match &input[value.clone()] {
        [a, b, c, d, key @ ..] if usize::from(u16::from_be_bytes([*c, *d])) == key.len() => {
            Ok((u16::from_be_bytes([*a, *b]), value.end - key.len()..value.end))
        }
        [_, _, _, _, ..] => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID),
    }
}

/// A request that is only answered; its body is swallowed.
fn refuse(status: Status, frame: &Frame) -> Parsed {
    let head = refusal(frame.head, status);
    Parsed { size: HEADER_SIZE, then: Then::Swallow(frame.body_size), ..Parsed::of(head) }
}

/// A request behind which nothing can be found: it is answered, whatever is there is dropped, and the connection closed.
fn close(input: &[u8], head: Head) -> Parsed {
    let head = refusal(head, Status::INVALID);
    let head = Head { bits: head.bits.and(Bits::CLOSES), ..head };
    Parsed { size: input.len(), ..Parsed::of(head) }
}

fn refusal(head: Head, status: Status) -> Head {
    Head { verb: Verb::Refuse, delta: u64::from(status.0), ..head }
}

fn inside(size: u64) -> usize {
    usize::try_from(size).expect("a value that is read with its header is short")
}
