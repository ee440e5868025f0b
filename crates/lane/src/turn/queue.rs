//! Whose turn it is: clients with input that may hold a command.
//!
//! ```text
//! something has come of it ──▶ fresh ──▶ served ──▶ nothing is left: it is in no queue
//!          │                               │ ▲
//!          │    its share was not enough   ▼ │
//!          └─ not long ago ─────────────▶ behind
//! ```
//! Those that are fresh go first, so that who asks for little waits for a turn and not for all that others ask for. As long as anybody is behind,
//! these have the last quarter of a turn.

use std::collections::VecDeque;

use crate::client::Client;
use crate::slab::Handle;

/// How long a client is behind that has had more to ask than its share, in [`moment`]s.
const BEHIND: u32 = 5;

/// An instant of the monotonic clock in about milliseconds: a client has no room for more.
fn moment(now_ns: u64) -> u32 {
    u32::try_from(now_ns >> 20 & u64::from(u32::MAX)).expect("so many bits")
}

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    fresh: VecDeque<Handle<Client>>,
    behind: VecDeque<Handle<Client>>,
    /// Whose share the end of the turn has cut, and whether they were fresh: they are the first of the next.
    cut: Vec<(Handle<Client>, bool)>,
}

impl Queue {
    /// Something has come of a client, or of what it waited for.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, handle: Handle<Client>, client: &mut Client, now_ns: u64) {
        if enters(client) {
            // Of one that is silent for weeks it may come out wrong, and is no matter.
            let is_behind = client.behind_until.wrapping_sub(moment(now_ns)).cast_signed() > 0;
            let queue = if is_behind { &mut self.behind } else { &mut self.fresh };
            queue.push_back(handle);
        }
    }

    /// A client has had its share, and asks for more.
    pub(crate) fn fall_behind(&mut self, handle: Handle<Client>, client: &mut Client, now_ns: u64) {
        client.behind_until = moment(now_ns).wrapping_add(BEHIND);
        self.go_on(handle, client);
    }

    /// A client goes on that was held up with others.
    pub(crate) fn go_on(&mut self, handle: Handle<Client>, client: &mut Client) {
        if enters(client) {
            self.behind.push_back(handle);
        }
    }

    /// A client has had what was left of the turn, or nothing.
    pub(crate) fn cut(&mut self, handle: Handle<Client>, client: &mut Client, is_fresh: bool) {
        if enters(client) {
            self.cut.push((handle, is_fresh));
        }
    }

    /// The turn is over.
    #[inline]
    pub(crate) fn end_turn(&mut self) {
        while let Some((handle, is_fresh)) = self.cut.pop() {
            let queue = if is_fresh { &mut self.fresh } else { &mut self.behind };
            queue.push_front(handle);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.behind.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.behind.is_empty()
    }

    pub(crate) fn has_some_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// The next, and whether it is fresh; in the last quarter of a turn one of those behind.
    #[inline(always)]
    pub(crate) fn pop(&mut self, is_last_quarter: bool) -> Option<(Handle<Client>, bool)> {
        if is_last_quarter && let Some(handle) = self.behind.pop_front() {
            return Some((handle, false));
        }
        let fresh = self.fresh.pop_front().map(|handle| (handle, true));
        fresh.or_else(|| Some((self.behind.pop_front()?, false)))
    }
}

/// Whether a client may stand in the queue and does not; it does from now on.
#[inline(always)]
fn enters(client: &mut Client) -> bool {
    let enters = !client.is_queued && !client.is_blocked && !client.is_leaving && !client.is_held;
    client.is_queued |= enters;
    enters
}
