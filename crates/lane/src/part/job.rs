//! What a part has to do under its locks, and what came of it.

use std::collections::VecDeque;

use wire::command::{Command, Id};

use crate::commands::generic::Moved;
use crate::commands::scan::{Goal, Scanned};
use crate::keyspace::{Keyspace, Route};
use crate::pubsub::Message;
use crate::replies::Content;
use crate::request::Request;
use crate::tally::Looks;
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
    /// Runs a command whose keys are all here; the outcome is its reply. It may be a step of another command, `within`: then what it
    /// looks at counts for nobody.
    Run { command: &'static Command, request: Request, route: Option<Route>, within: Option<Id> },
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

/// What jobs have found that only look.
#[derive(Default)]
pub(super) struct Found {
    /// How many keys, and how many not.
    pub(super) looks: Looks,
    /// The events that say which not.
    pub(super) misses: VecDeque<Message>,
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

    /// On behalf of which command it does what it does, and whether that is another than it is itself.
    pub(super) fn acting(&self) -> Option<(Id, bool)> {
        match self {
            Work::Run { within: Some(id), .. } => Some((*id, true)),
            work => work.command().map(|command| (command.id, false)),
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
