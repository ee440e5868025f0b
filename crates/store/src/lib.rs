//! One shard: a table of keys, their values, their expiry, the memory under them.
//!
//! A shard belongs to one thread, which calls it and nothing else does. It makes no system call, reads no clock,
//! knows no protocol and no other shard: the memory, the instant and the seed are arguments. It reads top down:
//!
//! * [`Shard`]: `get`, `commit`, `scan`, `tend`: what a lane calls;
//! * [`Effect`]: the only way in which anything changes;
//! * [`Entry`] and [`Value`]: what a key holds, and how it lies in memory;
//! * `table`: from a key to its entry; `wheel`: from an instant to the entries due; `arena`: the memory of both;
//! * [`Rope`]: long strings as counted, immutable chunks which may leave the shard and be read elsewhere.
//!
//! Every call does a bounded amount of work, which does not depend on how many keys there are; what is left over
//! (emptied partitions, dropped ropes, expired keys, sparse memory) waits for [`Shard::tend`], which stops when its
//! [`Budget`] is spent. `docs/store.md` draws the bytes.

#![deny(unsafe_code)]

mod approach;
mod arena;
mod audit;
mod budget;
mod change;
mod compact;
mod database;
mod effect;
mod entry;
mod evict;
mod pile;
mod prefetch;
mod recency;
mod region;
mod rope;
mod scan;
mod shard;
mod shelf;
mod snapshot;
mod table;
mod tend;
mod wheel;
mod width;

pub use approach::{Approaches, Walks};
pub use budget::Budget;
pub use database::Labelled;
pub use effect::{Change, Effect, Expiry, Full, Gone, Key, NewValue, Outcome, What};
pub use entry::{Entry, INLINE_SIZE_MAX, Mark, Type, Value};
pub use evict::{Evicted, Policy};
pub use recency::Use;
pub use region::Region;
pub use rope::{CHUNK_SIZE, Chunk, Graveyard, ROPE_SIZE_MAX, Rope, RopeBuilder};
pub use shard::{Config, KEY_SIZE_MAX, Memory, PARTITIONS_MAX, Recency, Shard};
pub use snapshot::{Image, ImageValue};
pub use tend::Tended;
