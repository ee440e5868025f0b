//! Operations on bins, as they stand in requests and replies.
//!
//! ```text
//! size u32 | op u8 | particle type u8 | 0 | name size u8 | name | value      the size counts what is behind it
//! ```
//! A record is kept as operations that a reply to a read has, so that a reply with all bins is a copy.

use super::code::Code;
use crate::reply::Put;

/// Bytes of an operation in front of its name.
pub const OP_HEADER_SIZE: usize = 8;
/// Bytes behind the size in front of the name.
const OP_REST_SIZE: usize = OP_HEADER_SIZE - 4;
/// Longest name of a bin (`AS_BIN_NAME_MAX_SZ` without its end).
pub const NAME_SIZE_MAX: usize = 15;
/// Bytes of an operation in front of its value, at most.
pub const OP_FRONT_SIZE_MAX: usize = OP_HEADER_SIZE + NAME_SIZE_MAX;

/// What an operation does (`AS_MSG_OP_…`).
pub mod kind {
    /// Read a bin.
    pub const READ: u8 = 1;
    /// Write a bin; a value of no type deletes it.
    pub const WRITE: u8 = 2;
    /// Read inside of a list or map.
    pub const CDT_READ: u8 = 3;
    /// Change a list or map inside.
    pub const CDT_MODIFY: u8 = 4;
    /// Add to a number.
    pub const INCR: u8 = 5;
    /// Read what an expression gives.
    pub const EXP_READ: u8 = 7;
    /// Write it.
    pub const EXP_MODIFY: u8 = 8;
    /// Put bytes behind a value.
    pub const APPEND: u8 = 9;
    /// Put bytes before a value.
    pub const PREPEND: u8 = 10;
    /// Give the record another end.
    pub const TOUCH: u8 = 11;
    /// Read bits.
    pub const BITS_READ: u8 = 12;
    /// Change bits.
    pub const BITS_MODIFY: u8 = 13;
    /// Delete all bins.
    pub const DELETE_ALL: u8 = 14;
    /// Read a HyperLogLog.
    pub const HLL_READ: u8 = 15;
    /// Change one.
    pub const HLL_MODIFY: u8 = 16;
}

/// What a value is (`as_particle_type`). Types that are not here are kept as they come.
pub mod particle {
    /// Nothing.
    pub const NIL: u8 = 0;
    /// A number of 64 bits with a sign.
    pub const INTEGER: u8 = 1;
    /// A floating point number of 64 bits.
    pub const FLOAT: u8 = 2;
    /// A text.
    pub const STRING: u8 = 3;
    /// Bytes.
    pub const BLOB: u8 = 4;
    /// A byte, 0 or 1.
    pub const BOOL: u8 = 17;
}

/// The name of a bin, in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    bytes: [u8; NAME_SIZE_MAX],
    size: u8,
}

impl Name {
    /// A name of at most [`NAME_SIZE_MAX`] bytes; nothing for a longer one.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Name> {
        let mut name = Name { size: bytes.len().to_le_bytes()[0], ..Name::default() };
        name.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(name)
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }

    /// Whether it is none: a read of all bins.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}

/// An operation without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// See [`kind`].
    pub kind: u8,
    /// See [`particle`].
    pub particle: u8,
    /// Of which bin.
    pub name: Name,
    /// Bytes of its value.
    pub value_size: usize,
}

/// Makes of the operation that writes a bin, at the start of `bytes`, the one that a reply to a read of it has.
#[inline]
pub fn make_read(bytes: &mut [u8]) {
    (bytes[4], bytes[6]) = (kind::READ, 0);
}

impl Op {
    /// The operation that begins with `front`, of which [`OP_FRONT_SIZE_MAX`] bytes are enough; `left` bytes are there from
    /// its start on.
    ///
    /// # Errors
    /// It is not whole, or its parts are larger than it: a parameter. Its name is too long: a bin's name.
    #[inline]
    pub fn parse(front: &[u8], left: usize) -> Result<Op, Code> {
        let Some((header, rest)) = front.split_first_chunk::<OP_HEADER_SIZE>() else {
            return Err(Code::PARAMETER);
        };
        let [a, b, c, d, kind, particle, _, name_size] = *header;
        let size = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| Code::PARAMETER)?;
        let name_size = usize::from(name_size);
        if size > left - 4 || size < OP_REST_SIZE + name_size {
            return Err(Code::PARAMETER);
        }
        // A long one is not all there, and need not be.
        let name = if name_size <= NAME_SIZE_MAX { Name::new(&rest[..name_size]) } else { None };
        let name = name.ok_or(Code::BIN_NAME)?;
        Ok(Op { kind, particle, name, value_size: size - OP_REST_SIZE - name_size })
    }

    /// Bytes in front of its value.
    #[inline]
    pub fn front_size(&self) -> usize {
        OP_HEADER_SIZE + usize::from(self.name.size)
    }

    /// Bytes of it.
    #[inline]
    pub fn size(&self) -> usize {
        self.front_size() + self.value_size
    }

    /// Writes what stands in front of its value.
    pub fn put_front(&self, out: &mut impl Put) {
        let name_size = self.name.as_bytes().len();
        let size =
            u32::try_from(OP_REST_SIZE + name_size + self.value_size).expect("a record is far below 4 GiB");
        let [a, b, c, d] = size.to_be_bytes();
        out.put(&[a, b, c, d, self.kind, self.particle, 0, self.name.size]);
        out.put(self.name.as_bytes());
    }
}
