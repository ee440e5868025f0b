//! Couchbase's key-value protocol: the binary protocol of memcached with more opcodes, other replies and a map of partitions.
//!
//! ```text
//! 80 op keylen extras dt vbucket body opaque cas | extras key value              request
//! 08 op frames keylen extras dt vbucket body opaque cas | frames extras key value  with frames: durability, preserved expiry
//! 81 op keylen extras dt status body opaque cas | extras key value               reply
//! ```
//! It is an edition of [`crate::memcached`]'s decoder and heads ([`Framing::Couchbase`](crate::memcached::Framing)): its
//! documents are the same ones.
//!
//! | module | subject |
//! |---|---|
//! | [`features`] | what HELLO agrees on |
//! | `request`, `frames` | how a header and what stands behind it are read |
//! | [`collections`] | prefixes of keys, and the names of the only collection |
//! | [`reply`] | outcomes to bytes |
//! | [`status`] | the codes, their names, and the error map that says what they mean |
//! | [`map`] | which node has which partition, as JSON |
//! | [`subdocument`] | paths of a document that are looked at or changed together |
//!
//! Follows Couchbase Server 7.2 (`kv_engine`: `docs/BinaryProtocol.md`, `docs/Collections.md`, `include/mcbp/protocol`).

pub mod collections;
pub mod features;
pub mod map;
pub mod reply;
pub mod status;
pub mod subdocument;

mod frames;
pub(crate) mod request;

pub use features::Features;
pub use map::ClusterMap;

/// Longest value in bytes (20 MiB); a longer one is too large, and the connection is kept.
pub const VALUE_SIZE_MAX: u64 = 20 * 1024 * 1024;
/// Longest body in bytes (30 MiB, `max_packet_size`): with a longer one the connection is closed.
pub const BODY_SIZE_MAX: u64 = 30 * 1024 * 1024;

/// The datatype of a value that is JSON.
pub const JSON: u8 = 1;

#[cfg(test)]
mod tests;
