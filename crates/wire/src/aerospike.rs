//! Aerospike's protocol: requests of its clients become commands, outcomes become replies.
//!
//! ```text
//! 02 03 000000000044 | 16 03 00 00 … | fields | ops        a message: data of a record
//! 02 03 …            | 16 08 00 00 … | field 41: rows      a batch: a command for each row
//! 02 03 …            | 16 01 00 04 … | field 11: ids       a scan: a command for each partition
//! 02 04 …            | size u64 | zlib stream              one of the above, compressed
//! 02 01 000000000005 | node\n                              info: names, one a line
//! 02 02 00000000005b | 00 00 14 02 … | fields              security: LOGIN, AUTHENTICATE
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`head`] | what is asked, as a small array that travels with the command |
//! | [`decoder`] | bytes of a connection to commands, resumable, by views and by tokens |
//! | `message` | headers, fields and rows as they are read |
//! | [`op`] | operations on bins, in requests and in replies |
//! | [`code`] | the results that clients know |
//! | [`reply`] | outcomes to bytes |
//! | [`info`] | the names of an info request, and values that clients parse |
//! | [`admin`] | security requests |
//! | `zlib` | compressed frames: streams that are read, frames that are written |
//! | [`client`] | the other side: requests encoded, replies read |
//!
//! A command's arguments are `[head, digest]`, `[head, digest, set, key]` or `[head, digest, set, key, ops …]` ([`HEAD`],
//! [`DIGEST`], [`SET`], [`USER_KEY`], [`OPS`]): the head as [`Head::to_bytes`] writes it, the others as they came. What is
//! no data has an empty digest, and its text behind it ([`TEXT`]). Operations of a small request are one argument; those of
//! a large one may be several, each with whole operations.
//!
//! Follows Aerospike's community edition 7.0 as its clients use it: `as_proto.h`, `as_command.c` and `aerospike_batch.c` of
//! `aerospike-client-c` 7.5, `proto.h`, `write.c`, `rw_utils.c` and `batch.c` of `aerospike-server` 8.1. The digest of a
//! record is always the client's: it is what records are stored under, and no reply needs what it was made of.

pub mod admin;
pub mod client;
pub mod code;
pub mod decoder;
pub mod head;
pub mod info;
pub mod op;
pub mod reply;

mod message;
mod zlib;

pub use code::Code;
pub use decoder::{Decoder, Limits, State};
pub use head::{Bits, HEAD_SIZE, Head, Verb};
pub use zlib::{DEFLATE_SIZE_MAX, DEFLATE_SIZE_MIN, Deflater};

/// The argument that is the head.
pub const HEAD: usize = 0;
/// The argument that is the digest of a record, or of a scan the ids of its partitions, two bytes each, little-endian, of which the
/// first one decides the lane. Empty where there is none.
pub const DIGEST: usize = 1;
/// The argument that is the set's name.
pub const SET: usize = 2;
/// The argument that is the key from which the digest was made, behind its particle type, if the client has sent it. Of a scan the
/// digests of the records behind which it goes on, of the first of its partitions one each.
pub const USER_KEY: usize = 3;
/// The first argument that holds operations.
pub const OPS: usize = 4;
/// The text of an info request, or the whole of a security request behind the frame's header.
pub const TEXT: usize = 2;

/// Bytes of a digest (RIPEMD-160).
pub const DIGEST_SIZE: usize = 20;
/// Longest name of a set (`AS_SET_NAME_MAX_SIZE` without its end).
pub const SET_SIZE_MAX: usize = 63;
/// Longest name of a namespace (`AS_ID_NAMESPACE_SZ` without its end).
pub const NAMESPACE_SIZE_MAX: usize = 31;
/// Number of partitions of a namespace.
pub const PARTITIONS: u16 = 4096;
/// Most records that a scan counts, of which so many are wanted and no more (`max_records`): they are found in one piece of work
/// over all its partitions. One that wants more is not limited.
pub const SCAN_RECORD_COUNT_MAX: u32 = 65_536;
/// Most bytes of a scan's frame: all partitions named by a record each, and as much as other requests may have in front of their
/// operations. A longer one is refused.
pub const SCAN_SIZE_MAX: usize = PARTITIONS as usize * DIGEST_SIZE + message::FRONT_SIZE_MAX;
/// Longest user key that is kept with a record, its type included.
pub const USER_KEY_SIZE_MAX: usize = 8 * 1024;

/// The second from which void times count: 2010-01-01 UTC (`CITRUSLEAF_EPOCH`).
pub const EPOCH_S: i64 = 1_262_304_000;
/// Longest time to live in seconds, ten years; a longer one is refused (`MAX_ALLOWED_TTL`).
pub const TTL_MAX_S: u32 = 315_360_000;

/// The name of a namespace, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    bytes: [u8; NAMESPACE_SIZE_MAX],
    size: u8,
}

impl Namespace {
    /// A name of 1 to [`NAMESPACE_SIZE_MAX`] bytes, none of which means something in info's replies.
    pub fn new(name: &str) -> Option<Namespace> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$');
        let mut bytes = [0; NAMESPACE_SIZE_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let size = name.len().to_le_bytes()[0];
        (!name.is_empty() && name.bytes().all(is_plain)).then_some(Namespace { bytes, size })
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("a namespace's name is of ASCII")
    }
}

impl Default for Namespace {
    fn default() -> Namespace {
        Namespace::new("test").expect("a name")
    }
}

#[cfg(test)]
mod tests;
