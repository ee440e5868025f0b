//! The only way in which a shard changes: effects, what they did, and who hears of it.

use crate::entry::Mark;
use crate::rope::Rope;
use crate::table::Slot;

/// A key with all that is known about where it belongs, made by `Shard::key`.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// The database's number.
    pub db: u16,
    /// The partition that the namespace's function gave for `bytes`.
    pub partition: u16,
    /// The table's own hash of `bytes`.
    pub hash: u64,
    /// The key.
    pub bytes: &'k [u8],
    /// Where its entry was when it was looked up to be changed (`Shard::read_to_change`).
    pub(crate) found: Option<Found>,
}

impl<'k> Key<'k> {
    /// A key whose hash is known: the one that `Shard::key` gives.
    #[inline]
    pub fn with_hash(db: u16, partition: u16, hash: u64, bytes: &'k [u8]) -> Key<'k> {
        Key { db, partition, hash, bytes, found: None }
    }
}

/// The slot that owns a key's entry, as long as the shard is in this state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) slot: Slot,
    pub(crate) state: u64,
}

/// A value on its way into the shard.
#[derive(Clone, Debug)]
pub enum NewValue<'v> {
    /// A string in one piece; copied. A canonical integer is kept as a number.
    Bytes(&'v [u8]),
    /// The string that is this number in decimal.
    Int(i64),
    /// A long string; kept as it is. A short one (at most `INLINE_SIZE_MAX` bytes) is copied into one piece.
    Rope(Rope),
}

/// What becomes of a key's time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It stays as it is (KEEPTTL).
    Keep,
    /// There is none (PERSIST).
    None,
    /// The key ends at this unix millisecond.
    At(i64),
}

/// A change of the shard: deterministic and absolute, so that a log of effects gives the same shard again.
///
/// An entry whose time has come but which `tend` has not yet reached is still there for an effect. Whoever is about to
/// build on the old state (`SetRange`, `Expiry::Keep`, `Expire`) calls `Shard::lapse` first.
#[derive(Clone, Debug)]
pub enum Effect<'e> {
    /// The key holds this value.
    Set {
        /// Which key.
        key: Key<'e>,
        /// What it holds.
        value: NewValue<'e>,
        /// When it ends.
        expiry: Expiry,
    },
    /// The key holds this value, and is a document with this mark.
    SetDocument {
        /// Which key.
        key: Key<'e>,
        /// What it holds.
        value: NewValue<'e>,
        /// What it has beside that.
        mark: Mark,
        /// When it ends.
        expiry: Expiry,
    },
    /// The document, if it is there, has this mark, and the flags that it has.
    Mark {
        /// Which key.
        key: Key<'e>,
        /// See [`Mark::cas`].
        cas: u64,
        /// See [`Mark::bits`].
        bits: u8,
    },
    /// The string, a document's too, holds these bytes at this offset, and zeros between its former end and there. A key that is not
    /// there is made, with no time to live and as a string. With no bytes nothing changes.
    SetRange {
        /// Which key.
        key: Key<'e>,
        /// Where in the string.
        offset: usize,
        /// What stands there.
        bytes: &'e [u8],
    },
    /// The key is not there.
    Delete {
        /// Which key.
        key: Key<'e>,
    },
    /// The key, if it is there, ends at that instant or never.
    Expire {
        /// Which key.
        key: Key<'e>,
        /// `At` or `None`; `Keep` changes nothing.
        at: Expiry,
    },
    /// No key of that database is in this partition. Its memory comes back through `tend`.
    FlushPartition {
        /// The database's number.
        db: u16,
        /// The partition.
        partition: u16,
    },
    /// What was database `a` is `b`, and the other way round.
    SwapDatabases {
        /// One database's number.
        a: u16,
        /// The other's.
        b: u16,
    },
}

impl<'e> Effect<'e> {
    /// The one key that it may change.
    #[inline(always)]
    pub fn key(&self) -> Option<&Key<'e>> {
        match self {
            Effect::Set { key, .. }
            | Effect::SetDocument { key, .. }
            | Effect::Mark { key, .. }
            | Effect::SetRange { key, .. }
            | Effect::Delete { key }
            | Effect::Expire { key, .. } => Some(key),
            Effect::FlushPartition { .. } | Effect::SwapDatabases { .. } => None,
        }
    }
}

/// What an effect did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the key was in the table before, its time come or not; for a flush, whether any key was.
    pub existed: bool,
    /// Length of the string after `SetRange`, in bytes.
    pub len: usize,
    /// Entries touched and bytes copied: what the caller's budget owes.
    pub elements: u32,
    /// See `elements`.
    pub bytes: u32,
}

/// The region has no room for this effect. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shard's memory is used up")
    }
}

impl std::error::Error for Full {}

/// What a listener is told of every effect that changed something, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key was set, altered, given another end, or removed.
    Key {
        /// The database's number.
        db: u16,
        /// The key's partition.
        partition: u16,
        /// The key's hash, as in [`Key`].
        hash: u64,
        /// What happened.
        what: What,
    },
    /// A partition was emptied.
    Flushed {
        /// The database's number.
        db: u16,
        /// The partition.
        partition: u16,
    },
    /// Two databases changed places.
    Swapped {
        /// One database's number.
        a: u16,
        /// The other's.
        b: u16,
    },
}

/// A key of Redis' databases that was removed without a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The number that its database had.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// To make room; else because its time had come.
    pub is_evicted: bool,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Its value was set or altered.
    Set,
    /// Its end changed.
    Expire,
    /// It was removed by a command.
    Delete,
    /// It was removed because its time had come.
    Expired,
    /// It was removed to make room.
    Evicted,
}
