//! What a transaction and its parts on other lanes say to each other; `peers` carries it.
//!
//! ```text
//! transaction  ── Prepare ─▶  part      take part, with these locks
//!              ◀─ Granted ──            it has them (or: Refused)
//!              ── Go ──────▶            do this
//!              ◀─ Results ──            it came to this
//! ```

use wire::reply::Proto;

use crate::client::Port;
use crate::locks::{Kind, Refusal};
use crate::part::{Job, Names, Outcome};
use crate::watch::WatcherId;

/// What a lane is asked to take part in.
pub(crate) struct Prepare {
    pub(crate) transaction: u64,
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) port: Port,
    pub(crate) proto: Proto,
    pub(crate) names: Names,
    /// What to do as soon as the locks are there, if `goes`; then the locks are given back.
    pub(crate) jobs: Vec<Job>,
    pub(crate) goes: bool,
    pub(crate) watcher: Option<WatcherId>,
    /// Bytes for which there must be room before anything runs; `None`: it adds nothing.
    pub(crate) growth: Option<u64>,
}

/// What a part found when it had its locks. With either, nothing runs on any lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// A watched key has changed.
    pub(crate) is_dirty: bool,
    /// There is no room for what may be added.
    pub(crate) lacks_room: bool,
}

impl Grant {
    /// Whether nothing may run.
    pub(crate) fn is_vain(self) -> bool {
        self.is_dirty || self.lacks_room
    }

    pub(super) fn and(self, other: Grant) -> Grant {
        Grant { is_dirty: self.is_dirty || other.is_dirty, lacks_room: self.lacks_room || other.lacks_room }
    }

    /// As it travels in a frame.
    pub(crate) fn to_bits(self) -> u32 {
        u32::from(self.is_dirty) | u32::from(self.lacks_room) << 1
    }

    /// The inverse of [`Grant::to_bits`].
    pub(crate) fn from_bits(bits: u32) -> Grant {
        Grant { is_dirty: bits & 1 != 0, lacks_room: bits & 2 != 0 }
    }
}

/// What a granted part does next.
pub(crate) struct Go {
    pub(crate) jobs: Vec<Job>,
    pub(crate) releases: bool,
}

/// What it came to.
pub(crate) struct Results {
    pub(crate) outcomes: Vec<(u32, Outcome)>,
    pub(crate) grant: Grant,
    /// The part is over; nothing more comes from it.
    pub(crate) ended: bool,
}

/// What a part says to its transaction.
pub(crate) enum PartAnswer {
    Granted { part: u64, grant: Grant },
    Refused(Refusal),
    Results(Results),
}
