//! Outcomes to bytes.
//!
//! ```text
//! 02 03 body size u48 | 16 | info1 info2 info3 info4 | code | generation u32 | void time u32 | index u32 | n_fields u16 | n_ops u16
//! ```

use super::code::Code;
use super::head::{Bits, Head, info3};
use super::message::{MESSAGE_HEADER_SIZE, PROTO_VERSION, kind};
use crate::reply::Put;

/// What stands in the header of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The result.
    pub code: Code,
    /// The record's generation; of a partition that was scanned its number.
    pub generation: u32,
    /// When the record ends, in seconds from [`super::EPOCH_S`] on; 0 never.
    pub void_time: u32,
    /// Fields that follow.
    pub field_count: u16,
    /// Operations that follow.
    pub op_count: u16,
    /// Bytes of both.
    pub size: usize,
    /// See [`info3`].
    pub info3: u8,
}

impl Reply {
    /// A reply that says nothing but this.
    pub fn of(code: Code) -> Reply {
        Reply { code, ..Reply::default() }
    }

    /// Writes the header of a reply to the command with this head; as many bytes as [`Reply::size`] says follow, then
    /// [`put_end`].
    pub fn put_header(&self, out: &mut impl Put, head: &Head) {
        if let Some(word) = self.code.word() {
            out.note_code(word);
        }
        let mut bytes = [0; 8 + MESSAGE_HEADER_SIZE];
        let size = u64::try_from(MESSAGE_HEADER_SIZE + self.size).expect("a size fits 64 bits");
        bytes[..8].copy_from_slice(&size.to_be_bytes());
        bytes[..2].copy_from_slice(&[PROTO_VERSION, kind::MESSAGE]);
        bytes[8] = MESSAGE_HEADER_SIZE.to_le_bytes()[0];
        bytes[11] = self.info3;
        bytes[13] = self.code.0;
        bytes[14..18].copy_from_slice(&self.generation.to_be_bytes());
        bytes[18..22].copy_from_slice(&self.void_time.to_be_bytes());
        bytes[22..26].copy_from_slice(&head.index.to_be_bytes());
        bytes[26..28].copy_from_slice(&self.field_count.to_be_bytes());
        bytes[28..].copy_from_slice(&self.op_count.to_be_bytes());
        out.put(&bytes);
    }

    /// Writes a reply of which nothing follows.
    pub fn put(&self, out: &mut impl Put, head: &Head) {
        self.put_header(out, head);
        put_end(out, head);
    }
}

/// Writes what is behind the reply to a command with this head: if it was the last of several, the message that says so.
#[inline]
pub fn put_end(out: &mut impl Put, head: &Head) {
    if head.is(Bits::LAST) {
        Reply { info3: info3::LAST, ..Reply::default() }.put_header(out, &Head::default());
    }
}

/// Writes the reply of a command that is refused with this code: a row's own, or else the one of the whole request.
pub fn put_code(out: &mut impl Put, head: &Head, code: Code) {
    if head.is(Bits::LAST) && !head.is(Bits::ROW) {
        Reply { info3: info3::LAST, ..Reply::of(code) }.put_header(out, &Head::default());
    } else {
        Reply::of(code).put(out, head);
    }
}

/// Writes a field's size and type; `size` bytes follow.
pub fn put_field_header(out: &mut impl Put, kind: u8, size: usize) {
    let size = u32::try_from(1 + size).expect("a field is short");
    out.put(&size.to_be_bytes());
    out.put(&[kind]);
}
