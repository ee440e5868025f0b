//! What a transaction and its parts on other lanes say to each other; `peers` carries it.
//!
//! ```text
//! transaction  ── Prepare ─▶  part      take part, with these locks
//!              ◀─ Granted ──            it has them (or: Refused)
//!              ── Go ──────▶            do this
//!              ◀─ Results ──            it came to this
//! ```
//! A command that only looks is answered with what it sees instead of a grant ([`Prepare::looks`]) if that takes no more than a slice, and told to go
//! when all have their locks: it gives them back, or looks (again).
//! All see one time, [`Grant::at_ms`].

use wire::reply::Proto;

use crate::client::Port;
use crate::locks::{Kind, Refusal};
use crate::part::{Job, Names, Outcome};
use crate::tracking::By;
use crate::watch::WatcherId;

/// What a lane is asked to take part in.
pub(crate) struct Prepare {
    pub(crate) transaction: u64,
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) port: Port,
    pub(crate) proto: Proto,
    pub(crate) names: Names,
    /// What to do as soon as the locks are there, if `goes`, and then the locks are given back, or if `looks`.
    pub(crate) jobs: Vec<Job>,
    pub(crate) goes: bool,
    /// The jobs are done as soon as the locks are there, and the locks are kept: whether it has looked at the right time its transaction knows
    /// when all have.
    pub(crate) looks: bool,
    pub(crate) watcher: Option<WatcherId>,
    /// On behalf of whom, if that is a client that tracks keys.
    pub(crate) by: Option<By>,
    /// Bytes for which there must be room before anything runs; `None`: it adds nothing.
    pub(crate) growth: Option<u64>,
    /// The time that it sees is not before this one, unix milliseconds.
    pub(crate) at_ms: i64,
    /// Lanes that tell replicas what the transaction changes; 0 if this one is none of them. Those alone count whose keys it holds
    /// exclusively: who only looks may begin before a snapshot does, and end behind it.
    pub(crate) told_count: usize,
    /// See [`Go::stage`].
    pub(crate) stage: u32,
}

/// What a part found when it had its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// A watched key has changed.
    pub(crate) is_dirty: bool,
    /// There is no room for what may be added.
    pub(crate) lacks_room: bool,
    /// When it was, unix milliseconds by the lane's clock. The latest of all lanes' is the time that all of them see: what had ended
    /// anywhere before the locks were there is over, and nothing else ends while they are held.
    pub(crate) at_ms: i64,
    /// When the first of the watched keys ends, unix milliseconds: that is a change, too.
    pub(crate) end_ms: i64,
}

/// Of nobody yet.
impl Default for Grant {
    fn default() -> Grant {
        Grant { is_dirty: false, lacks_room: false, at_ms: i64::MIN, end_ms: i64::MAX }
    }
}

impl Grant {
    /// Whether nothing may run on any lane.
    pub(crate) fn is_vain(self) -> bool {
        self.is_dirty || self.lacks_room || self.end_ms <= self.at_ms
    }

    pub(super) fn and(self, other: Grant) -> Grant {
        Grant {
            is_dirty: self.is_dirty || other.is_dirty,
            lacks_room: self.lacks_room || other.lacks_room,
            at_ms: self.at_ms.max(other.at_ms),
            end_ms: self.end_ms.min(other.end_ms),
        }
    }
}

/// What a granted part does next.
pub(crate) struct Go {
    pub(crate) jobs: Vec<Job>,
    pub(crate) releases: bool,
    /// In which replies are written.
    pub(crate) proto: Proto,
    /// Bytes that a script's call may add, for which there must be room before it runs; `None`: it adds nothing.
    pub(crate) growth: Option<u64>,
    /// It runs even if there is none.
    pub(crate) may_exceed: bool,
    /// The time that all lanes see, unix milliseconds.
    pub(crate) at_ms: i64,
    /// On behalf of whom: a command of the transaction may have made the client one that tracks keys.
    pub(crate) by: Option<By>,
    /// Which stage of the transaction this is: what replicas are told stands in the order of stages.
    pub(crate) stage: u32,
}

/// What it came to.
pub(crate) struct Results {
    /// Whose they are.
    pub(crate) part: u64,
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
