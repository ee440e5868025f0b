//! The head of a command: what is asked, and what a reply repeats, in [`HEAD_SIZE`] bytes.
//!
//! It is a command's first argument, so it travels wherever arguments do: to another lane, into a queue. Layout, numbers
//! little-endian (it never leaves the process):
//! ```text
//!  0 verb    1 code    2 bits    3 namespace
//!  4 info1   5 info2   6 info3   7 0
//!  8 generation u32   12 ttl u32   16 index u32   20 op count u16   22 0 0
//! ```

use super::code::Code;

/// Bytes of a head.
pub const HEAD_SIZE: usize = 24;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// Only [`Head::code`] is to be said.
    #[default]
    Say,
    /// The connection is to be closed: what came is no request.
    Close,
    /// Read a record, or look whether it is there.
    Get,
    /// Change a record, and maybe read from it.
    Write,
    /// Delete a record.
    Delete,
    /// The records of one partition, or some of several, of one set or of all.
    Scan,
    /// An info request.
    Info,
    /// An info request that removes all records of a namespace or set.
    Truncate,
    /// A security request.
    Admin,
}

impl Verb {
    /// All, by their code.
    const ALL: [Verb; 9] = [
        Verb::Say,
        Verb::Close,
        Verb::Get,
        Verb::Write,
        Verb::Delete,
        Verb::Scan,
        Verb::Info,
        Verb::Truncate,
        Verb::Admin,
    ];

    /// Does it concern one partition, which decides the lane?
    pub fn has_digest(self) -> bool {
        matches!(self, Verb::Get | Verb::Write | Verb::Delete | Verb::Scan)
    }
}

/// What else a command says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits(u8);

impl Bits {
    /// It is a row of a batch: its reply carries [`Head::index`].
    pub const ROW: Bits = Bits(1);
    /// Its reply is the last of several, and is followed by the message that says so; that message alone where nothing
    /// but a code is said.
    pub const LAST: Bits = Bits(1 << 1);

    /// Are all of these set?
    #[inline]
    pub fn has(self, bits: Bits) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// These, and those if `condition`.
    #[inline]
    #[must_use]
    pub fn and_if(self, condition: bool, bits: Bits) -> Bits {
        if condition { Bits(self.0 | bits.0) } else { self }
    }
}

/// Bits of a message's first byte of flags (`AS_MSG_INFO1_…`).
pub mod info1 {
    /// It reads.
    pub const READ: u8 = 1;
    /// It reads all bins.
    pub const GET_ALL: u8 = 1 << 1;
    /// It is a batch.
    pub const BATCH: u8 = 1 << 3;
    /// It reads no bin: only whether the record is there.
    pub const NO_BINS: u8 = 1 << 5;
    /// Replies may be compressed.
    pub const COMPRESS: u8 = 1 << 7;
}

/// Bits of a message's second byte of flags (`AS_MSG_INFO2_…`).
pub mod info2 {
    /// It writes.
    pub const WRITE: u8 = 1;
    /// It deletes.
    pub const DELETE: u8 = 1 << 1;
    /// The record must have [`super::Head::generation`].
    pub const GENERATION_EQUAL: u8 = 1 << 2;
    /// The record must have an older generation.
    pub const GENERATION_GREATER: u8 = 1 << 3;
    /// What is deleted must not come back after a restart.
    pub const DURABLE_DELETE: u8 = 1 << 4;
    /// The record must not be there.
    pub const CREATE_ONLY: u8 = 1 << 5;
    /// Each operation has its place in the reply.
    pub const RESPOND_ALL: u8 = 1 << 7;
}

/// Bits of a message's third byte of flags (`AS_MSG_INFO3_…`).
pub mod info3 {
    /// Of several messages this is the last.
    pub const LAST: u8 = 1;
    /// A partition has been scanned.
    pub const PARTITION_DONE: u8 = 1 << 2;
    /// The record must be there.
    pub const UPDATE_ONLY: u8 = 1 << 3;
    /// The bins that the record has go.
    pub const CREATE_OR_REPLACE: u8 = 1 << 4;
    /// They go, and the record must be there.
    pub const REPLACE_ONLY: u8 = 1 << 5;
}

/// What is asked, and what a reply repeats of it. The zero of a field stands where a request has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// What is to be done.
    pub verb: Verb,
    /// What [`Verb::Say`] says.
    pub code: Code,
    /// What else it says of itself.
    pub bits: Bits,
    /// Which of the decoder's namespaces is meant, counted from zero; zero where none is.
    pub namespace: u8,
    /// Flags as sent: see [`info1`].
    pub info1: u8,
    /// See [`info2`].
    pub info2: u8,
    /// See [`info3`].
    pub info3: u8,
    /// The generation to compare with.
    pub generation: u32,
    /// Time to live as sent: seconds, 0 for the namespace's default, all ones for never, one less to keep it.
    pub ttl: u32,
    /// The row's number, which its reply repeats. Of a scan how many records it gives at most, 0 for all.
    pub index: u32,
    /// How many operations there are.
    pub op_count: u16,
}

impl Head {
    /// A head that has no more than this.
    pub fn new(verb: Verb) -> Head {
        Head { verb, ..Head::default() }
    }

    /// Is this bit set?
    #[inline]
    pub fn is(&self, bit: Bits) -> bool {
        self.bits.has(bit)
    }

    /// Whether it reads without writing.
    #[inline]
    pub fn reads(&self) -> bool {
        self.info1 & info1::READ != 0
    }

    /// The argument that [`Head::from_bytes`] reads.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEAD_SIZE] {
        let mut bytes = [0; HEAD_SIZE];
        // `as`: the discriminant of an enum of one byte.
        bytes[..4].copy_from_slice(&[self.verb as u8, self.code.0, self.bits.0, self.namespace]);
        bytes[4..7].copy_from_slice(&[self.info1, self.info2, self.info3]);
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.ttl.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.index.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.op_count.to_le_bytes());
        bytes
    }

    /// The namespace of the head that [`Head::to_bytes`] wrote.
    ///
    /// # Panics
    /// With no head.
    #[inline]
    pub fn namespace_of(bytes: &[u8]) -> u8 {
        bytes[3]
    }

    /// The head that [`Head::to_bytes`] wrote.
    ///
    /// # Panics
    /// With any other bytes: no client ever writes a head.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Head {
        let bytes: &[u8; HEAD_SIZE] = bytes.try_into().expect("a head has HEAD_SIZE bytes");
        let u32_at = |start: usize| u32::from_le_bytes(*bytes[start..].first_chunk().expect("inside"));
        Head {
            verb: Verb::ALL[usize::from(bytes[0])],
            code: Code(bytes[1]),
            bits: Bits(bytes[2]),
            namespace: bytes[3],
            info1: bytes[4],
            info2: bytes[5],
            info3: bytes[6],
            generation: u32_at(8),
            ttl: u32_at(12),
            index: u32_at(16),
            op_count: u16::from_le_bytes([bytes[20], bytes[21]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_from_its_bytes() {
        for verb in Verb::ALL {
            assert_eq!(Verb::ALL[usize::from(verb as u8)], verb);
            let head = Head {
                verb,
                code: Code::TOO_BIG,
                bits: Bits::ROW.and_if(true, Bits::LAST),
                namespace: 4,
                info1: 1,
                info2: 2,
                info3: 3,
                generation: 0x0102_0304,
                ttl: 0x0506_0708,
                index: 0x090a_0b0c,
                op_count: 0x0d0e,
            };
            assert_eq!(Head::from_bytes(&head.to_bytes()), head);
        }
    }
}
