//! Frames in front of a request's extras: what is asked of its execution (`docs/BinaryProtocol.md`, "Request header with flexible
//! framing extras").
//!
//! ```text
//! id:4 size:4 | [id - 15] | [size - 15] | size bytes      a nibble of 15 is continued in a byte of its own
//! 1 durability: level u8, or level u8 and timeout u16     5 preserve the expiry: nothing
//! ```

use crate::memcached::Status;

/// How many copies shall have a change before it is answered. Only one level can be had: the active copy is the majority
/// of one, and nothing is persisted.
const MAJORITY: u8 = 1;
/// The last level there is: persisted by the majority.
const LEVEL_MAX: u8 = 3;

/// What frames ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    /// Majority of copies; the one that there is.
    pub(super) is_durable: bool,
    /// A document that there is keeps its expiry.
    pub(super) preserves_expiry: bool,
}

/// The largest nibble; the rest of the number stands behind it.
const NIBBLE_MAX: u8 = 15;

/// Reads them. An error is the status to answer.
pub(super) fn parse(mut bytes: &[u8]) -> Result<Frames, Status> {
    let mut frames = Frames::default();
    while let Some((&tag, rest)) = bytes.split_first() {
        let (id, rest) = continued(tag >> 4, rest)?;
        let (size, rest) = continued(tag & NIBBLE_MAX, rest)?;
        let (data, rest) = rest.split_at_checked(size).ok_or(Status::INVALID)?;
        match (id, data) {
            // Its timeout is not looked at: nothing is waited for, and clients do not agree on the order of its bytes.
            (1, [MAJORITY] | [MAJORITY, _, _]) => frames.is_durable = true,
            (1, [level] | [level, _, _]) if (1..=LEVEL_MAX).contains(level) => {
                return Err(Status::DURABILITY_INVALID_LEVEL);
            }
            (5, []) => frames.preserves_expiry = true,
            (1 | 5, _) => return Err(Status::INVALID),
            _ => return Err(Status::UNKNOWN_FRAME),
        }
        bytes = rest;
    }
    Ok(frames)
}

/// A nibble as a number, with what continues it.
fn continued(nibble: u8, bytes: &[u8]) -> Result<(usize, &[u8]), Status> {
    if nibble < NIBBLE_MAX {
        return Ok((usize::from(nibble), bytes));
    }
    let (more, rest) = bytes.split_first().ok_or(Status::INVALID)?;
    Ok((usize::from(nibble) + usize::from(*more), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_frames_ask_for() {
        let none = Frames::default();
        let durable = Frames { is_durable: true, ..none };
        for (bytes, want) in [
            (&b""[..], Ok(none)),
            // As libcouchbase sends it.
            (b"\x13\x01\xca\x08", Ok(durable)),
            (b"\x11\x01", Ok(durable)),
            (b"\x50", Ok(Frames { preserves_expiry: true, ..none })),
            (b"\x11\x01\x50", Ok(Frames { preserves_expiry: true, ..durable })),
            (b"\x11\x02", Err(Status::DURABILITY_INVALID_LEVEL)),
            (b"\x13\x03\x00\x01", Err(Status::DURABILITY_INVALID_LEVEL)),
            (b"\x11\x00", Err(Status::INVALID)),
            (b"\x11\x04", Err(Status::INVALID)),
            (b"\x12\x01\x00", Err(Status::INVALID)),
            (b"\x10", Err(Status::INVALID)),
            (b"\x51x", Err(Status::INVALID)),
            (b"\x13\x01", Err(Status::INVALID)),
            (b"\x00", Err(Status::UNKNOWN_FRAME)),
            (b"\x22xx", Err(Status::UNKNOWN_FRAME)),
            (b"\xf0\x02", Err(Status::UNKNOWN_FRAME)),
            (b"\xf0", Err(Status::INVALID)),
            (b"\x1f\x01 fifteen and one", Err(Status::INVALID)),
            (b"\x2f\x01 fifteen and one", Err(Status::UNKNOWN_FRAME)),
        ] {
            assert_eq!(parse(bytes), want, "{}", bytes.escape_ascii());
        }
    }
}
