//! Turns that only look things up.
//!
//! Most of what a turn looks after comes of commands that change something, of other lanes, or of time: a turn in which clients did no more
//! than look at keys of this lane leaves nothing to be done, if the one before had left nothing. So it asks none of those who might have
//! something, but ends as the one before has: when the next is due it takes from there as well.

use net::Net;

use super::{Lane, Next};

/// What a turn that left nothing to be done has found out for those that follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    /// When time makes something due.
    until_ns: u64,
    /// By the other clock, when a key's end comes.
    until_ms: i64,
    next: Next,
}

impl Lane {
    /// What a turn that has only looked things up, and says when the next is due, has found out.
    pub(super) fn find_quiet(&self, next: Next) -> Option<Quiet> {
        let until_ns = match next {
            Next::Again => return None,
            Next::At(at_ns) => at_ns,
            Next::Idle => u64::MAX,
        };
        self.is_quiet().then(|| Quiet {
            until_ns: until_ns.min(self.buffers_at()),
            until_ms: self.core.space.shard.next_expiry().unwrap_or(i64::MAX),
            next,
        })
    }

    /// Nobody is looked after whom a turn asks without being told that there is something.
    fn is_quiet(&self) -> bool {
        let (core, space) = (&self.core, &self.core.space);
        let is_alone = !core.is_overseen
            && !space.is_accompanied
            && !space.tracked.is_on()
            && self.replicas.is_empty()
            && core.has_nobody_waiting()
            && space.is_room_settled();
        is_alone
            && self.watches_nobody()
            && space.documents.flush_at_ms.is_empty()
            && !core.pubsub.is_late()
            && self.holding.is_none()
            && self.settlings.is_empty()
            && self.parched.is_empty()
            && self.stirred.is_empty()
            && core.deliveries.is_empty()
            && !self.is_draining
    }

    /// Whether what the turn before has found out is still so when the events of this one are gathered.
    #[inline(always)]
    pub(super) fn is_still_quiet(&self, quiet: &Quiet) -> bool {
        let now = self.core.space.now;
        let is_due = quiet.until_ns <= now.mono_ns || quiet.until_ms <= now.unix_ms;
        !(is_due || self.core.has_acted) && self.senders.is_empty()
    }

    /// Whether nothing has happened in this turn so far but that clients have looked at keys of this lane.
    #[inline(always)]
    pub(super) fn has_only_looked<N: Net>(&self, net: &N) -> bool {
        !self.core.has_acted
            && self.core.clients_size + net.kept_size() as u64 == self.core.stats.clients_size
    }

    /// The end of a turn that has only looked things up.
    #[inline(always)]
    pub(super) fn go_on_quietly(&mut self, quiet: Quiet) -> Next {
        debug_assert!(self.is_quiet() && self.next(self.core.space.now, false) != Next::Again);
        self.quiet = Some(quiet);
        quiet.next
    }
}
