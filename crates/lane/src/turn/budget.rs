//! What a turn does for its clients at most, so that the rest has its turn, too. What it does for one of them is a [`Share`].

use crate::ahead::AHEAD_MAX;
use crate::serve::Share;
use crate::timing::Timing;

/// Clients served in a turn; the others keep their place.
const CLIENTS_PER_TURN: usize = 128;
/// Commands of clients served in a turn, over all clients.
const COMMANDS_PER_TURN: usize = 1024;
/// Commands of one client served in a turn.
const COMMANDS_PER_CLIENT: usize = 64;
/// Bytes of one client taken in or answered in a turn, before the next client has its share.
const BYTES_PER_CLIENT: usize = 64 * 1024;
/// The same of a client that has not had a share for a while: who has more falls behind (`turn/queue.rs`).
const COMMANDS_FRESH: usize = AHEAD_MAX;
const BYTES_FRESH: usize = 8 * 1024;
/// Bytes taken in or answered in a turn, over all clients.
const BYTES_PER_TURN: usize = 256 * 1024;
/// Bytes received in a turn, over all clients, whether they make a command or not. The batch that reaches it is the last, so a turn
/// receives less than this, [`super::BATCH_SIZE`] and [`net::INPUT_MAX`] together; the clients behind keep their place.
const RECEIVE_PER_TURN: usize = 256 * 1024;

/// What is left of a turn for its clients. Time is counted beside it, see [`Timing::is_spell_over`].
pub(super) struct Left {
    /// Who waits has a place in this turn, in which there are no more places than that.
    pub(super) clients: usize,
    is_crowded: bool,
    commands: usize,
    bytes: usize,
    pub(super) receive: usize,
}

impl Left {
    /// A turn begins, for which so many clients wait.
    pub(super) fn new(waiting_count: usize) -> Left {
        Left {
            clients: waiting_count.min(CLIENTS_PER_TURN),
            is_crowded: waiting_count >= CLIENTS_PER_TURN,
            commands: COMMANDS_PER_TURN,
            bytes: BYTES_PER_TURN,
            receive: RECEIVE_PER_TURN,
        }
    }

    pub(super) fn is_spent(&self, timing: &Timing) -> bool {
        self.clients == 0
            || self.commands == 0
            || self.bytes == 0
            || self.receive == 0
            || timing.is_spell_over()
    }

    pub(super) fn is_last_quarter(&self, timing: &Timing) -> bool {
        self.commands < COMMANDS_PER_TURN / 4
            || self.bytes < BYTES_PER_TURN / 4
            || self.receive < RECEIVE_PER_TURN / 4
            || self.is_crowded && self.clients < CLIENTS_PER_TURN / 4
            || timing.is_last_quarter()
    }

    /// Commands of one client that are worth decoding.
    pub(super) fn commands_of_one(&self) -> usize {
        self.commands.min(COMMANDS_PER_CLIENT)
    }

    /// What a client may have.
    #[inline(always)]
    pub(super) fn share(&self, is_fresh: bool) -> Share {
        let (commands, bytes) = share_of_one(is_fresh);
        Share {
            commands: self.commands.min(commands),
            commands_left: self.commands.min(commands),
            bytes: self.bytes.min(bytes),
            moved: 0,
            receive_left: self.receive,
        }
    }

    /// A client has had its share.
    #[inline(always)]
    pub(super) fn take(&mut self, share: &Share) {
        self.commands -= share.commands - share.commands_left;
        self.bytes = self.bytes.saturating_sub(share.moved);
        self.receive = share.receive_left;
    }

    /// Commands that were served.
    pub(super) fn command_count(&self) -> usize {
        COMMANDS_PER_TURN - self.commands
    }
}

/// Commands and bytes that one client may have in a turn.
#[inline(always)]
fn share_of_one(is_fresh: bool) -> (usize, usize) {
    match is_fresh {
        true => (COMMANDS_FRESH, BYTES_FRESH),
        false => (COMMANDS_PER_CLIENT, BYTES_PER_CLIENT),
    }
}

impl Share {
    /// Whether it was all that one client may have in a turn.
    pub(super) fn is_whole(&self, is_fresh: bool) -> bool {
        (self.commands, self.bytes) == share_of_one(is_fresh)
    }
}
