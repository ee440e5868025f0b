//! What a part has to do under its locks, and what came of it.

use wire::command::Command;

use crate::commands::generic::Moved;
use crate::commands::scan::{Goal, Scanned};
use crate::keyspace::{Keyspace, Route};
use crate::replies::Content;
use crate::request::Request;
use crate::watch::WatcherId;

/// One thing to do under the locks.
pub(crate) struct Job {
    /// Which command of the transaction it belongs to.
    pub(crate) command: u32,
    pub(crate) db: u16,
    pub(crate) work: Work,
}

/// What a job does.
pub(crate) enum Work {
    /// Runs a command whose keys are all here; the outcome is its reply. An inner one is a step of another command: what
    /// it looks at counts for nobody.
    Run { command: &'static Command, request: Request, route: Option<Route>, is_inner: bool },
    /// Copies what is at the key that is argument `index`.
    Fetch { command: &'static Command, request: Request, index: usize },
    /// Combines the strings of BITOP's sources, which are the arguments from `first` on; the one before is the operation, or the
    /// destination.
    Combine { command: &'static Command, request: Request, first: usize },
    /// Goes on with a SCAN on this lane.
    Scan { command: &'static Command, request: Request, goal: Goal },
    /// Puts a copy at the key that is argument `index`.
    Place { command: &'static Command, request: Request, index: usize, moved: Moved },
    /// Watches all keys of the request.
    Watch { id: WatcherId, request: Request },
    /// Makes room for what a script's call may add here, before the call begins on any lane.
    MakeRoom,
}

/// What a job came to.
pub(crate) enum Outcome {
    Reply(Content),
    Fetched(Option<Moved>),
    Scanned(Scanned),
    /// Whether there was memory for it.
    Placed(bool),
    /// Whether there is memory for what is to come.
    Room(bool),
}

impl Outcome {
    /// Drops a reply that nobody gets, a long one in paced steps.
    pub(crate) fn discard(self, space: &mut Keyspace) {
        match self {
            Outcome::Reply(content) => space.discard_content(content),
            Outcome::Fetched(_) | Outcome::Scanned(_) | Outcome::Placed(_) | Outcome::Room(_) => {}
        }
    }
}

impl Work {
    /// Whose work it is; watching and making room are nobody's.
    pub(super) fn command(&self) -> Option<&'static Command> {
        match self {
            Work::Run { command, .. }
            | Work::Fetch { command, .. }
            | Work::Combine { command, .. }
            | Work::Scan { command, .. }
            | Work::Place { command, .. } => Some(command),
            Work::Watch { .. } | Work::MakeRoom => None,
        }
    }

    /// Drops what it carried, long values and many arguments in paced steps.
    pub(super) fn discard(self, space: &mut Keyspace) {
        match self {
            Work::Run { request, .. }
            | Work::Fetch { request, .. }
            | Work::Combine { request, .. }
            | Work::Scan { request, .. }
            | Work::Watch { request, .. } => space.discard(request),
            Work::Place { request, moved, .. } => {
                space.discard(request);
                moved.value.retire(&mut |rope| space.shard.retire(rope));
            }
            Work::MakeRoom => {}
        }
    }
}
