//! A connection of the ring: what the lane knows of it, and what is under way for it.

use std::os::fd::OwnedFd;

use super::token::Task;
use crate::input::{self, Rest};
use crate::{Address, INPUT_MAX, ListenerId, Output};

/// Whether the lane knows of a connection's input; see the drawing of [`receive`](super::receive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Quiet,
    Queued,
    Told,
}

/// As in [`readiness`](crate::readiness).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Closing,
    Lingering { thrown_size: usize },
}

/// Bytes that the ring has received, where the kernel put them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) buffer: u16,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) fd: OwnedFd,
    pub(super) state: State,
    pub(super) input: Input,
    /// It stands in `queue`, if only as a leftover of an earlier announcement.
    pub(super) in_queue: bool,
    /// It stands in `dirty`.
    pub(super) in_dirty: bool,
    /// It stands in `outbox`.
    pub(super) in_outbox: bool,
    /// It stands in `hearing`.
    pub(super) in_hearing: bool,
    /// Nothing was ever received.
    pub(super) is_fresh: bool,
    /// Its sends go by its place.
    pub(super) is_seated: bool,
    /// `First` or `Receive`, whichever is under way.
    pub(super) listening: Option<Task>,
    /// A `Watch` is under way.
    pub(super) is_watched: bool,
    /// A `Room` is under way.
    pub(super) awaits_room: bool,
    /// The socket took less than was offered; nothing is sent until it has room.
    pub(super) full: bool,
    /// All that the client ever sent has been received.
    pub(super) ended: bool,
    /// Bytes of the input that the lane has asked for; what has come since is behind them.
    pub(super) shown_size: usize,
    /// It has asked since the end came.
    pub(super) end_shown: bool,
    /// Unsent output was above the mark when it was last sent from.
    pub(super) above_mark: bool,
    /// Bytes of the send under way.
    pub(super) offered_size: usize,
    /// Received by a call of its own and not by the ring: the first time, and as long as what comes is more than a buffer of the ring
    /// has room for.
    pub(super) is_direct: bool,
    /// Unconsumed input lies here, in `shared` or in `rest`, never in two of them.
    pub(super) held: Option<Held>,
    pub(super) shared: input::Held,
    pub(super) rest: Rest,
    pub(super) output: Output,
    pub(super) listener: ListenerId,
    pub(super) peer: Address,
    pub(super) local: Address,
}

impl Conn {
    /// A flush would do something for it.
    pub(super) fn is_due(&self) -> bool {
        if self.output.is_empty() { self.state == State::Closing } else { !self.full }
    }

    /// What is under way for it.
    pub(super) fn tasks(&self) -> impl Iterator<Item = Task> {
        let watch = self.is_watched.then_some(Task::Watch);
        let room = self.awaits_room.then_some(Task::Room);
        self.listening.into_iter().chain(watch).chain(room)
    }

    /// Bytes of unconsumed input.
    pub(super) fn input_size(&self) -> usize {
        self.held.map_or(0, |held| held.end - held.start) + self.shared.len() + self.rest.bytes().len()
    }

    /// The lane has asked for more than there is, and there is room for it.
    pub(super) fn may_receive(&self) -> bool {
        self.input == Input::Quiet && !self.ended && self.input_size() < INPUT_MAX
    }
}
