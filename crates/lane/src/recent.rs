//! The largest buffers that clients have had of late, for INFO: `client_recent_max_input_buffer` and its like for output.
//!
//! As in Redis the clients are looked at in rounds, some at a time, and a buffer that is filled and emptied between two
//! looks is not seen. What was seen is kept for eight seconds, a largest of each second:
//! ```text
//! second   s-7   s-6   …   s        looked up by second mod 8; a place whose second is too long ago holds nothing
//! ```

use net::Net;

use crate::turn::Lane;

/// Seconds that are remembered, as in Redis (`CLIENTS_PEAK_MEM_USAGE_SLOTS`).
const SECONDS: usize = 8;
const SECOND_NS: u64 = 1_000_000_000;
/// How often a lane that has turns to take looks, and at how many clients. More clients than a second's looks take turns.
const LOOK_NS: u64 = 100_000_000;
const LOOKS: usize = 128;

/// Sizes of a client's buffers, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffers {
    /// What has arrived and waits: a command that is not whole, and those behind it.
    pub(crate) input: usize,
    /// Replies that have not left.
    pub(crate) output: usize,
}

impl Buffers {
    fn max(self, other: Buffers) -> Buffers {
        Buffers { input: self.input.max(other.input), output: self.output.max(other.output) }
    }
}

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Recent {
    look_at_ns: u64,
    /// The client's place to look at next.
    next: usize,
    seen: [(u64, Buffers); SECONDS],
}

impl Recent {
    fn note(&mut self, now_ns: u64, buffers: Buffers) {
        let second = now_ns / SECOND_NS;
        let place = &mut self.seen[usize::try_from(second % SECONDS as u64).expect("below eight")];
        *place = if place.0 == second { (second, place.1.max(buffers)) } else { (second, buffers) };
    }

    /// The largest that were seen in the last eight seconds, each for itself.
    pub(crate) fn largest(&self, now_ns: u64) -> Buffers {
        let second = now_ns / SECOND_NS;
        let is_recent = |then: u64| second - then.min(second) < SECONDS as u64;
        let recent = self.seen.iter().filter(|(then, _)| is_recent(*then));
        recent.fold(Buffers::default(), |largest, (_, buffers)| largest.max(*buffers))
    }
}

impl Lane {
    /// Looks at some clients' buffers, if it is time.
    pub(crate) fn look_at_buffers<N: Net>(&mut self, net: &mut N) {
        let now_ns = self.core.space.now.mono_ns;
        if self.watchman.recent.look_at_ns <= now_ns {
            self.look_around(now_ns, net);
        }
    }

    #[cold]
    fn look_around<N: Net>(&mut self, now_ns: u64, net: &mut N) {
        let recent = &mut self.watchman.recent;
        recent.look_at_ns = now_ns.saturating_add(LOOK_NS);
        let count = self.clients.place_count();
        for _ in 0..count.min(LOOKS) {
            recent.next = (recent.next + 1) % count;
            let Some((_, client)) = self.clients.at(recent.next) else { continue };
            let (unread, unsent) = net.kept(client.conn);
            let input = unread + client.gathered_size();
            recent.note(now_ns, Buffers { input, output: unsent + client.replies.size() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_eight_seconds_are_remembered_each_for_itself() {
        let mut recent = Recent::default();
        let check = |recent: &Recent, second: u64, input, output| {
            assert_eq!(recent.largest(second * SECOND_NS), Buffers { input, output }, "at second {second}");
        };
        recent.note(20 * SECOND_NS, Buffers { input: 5, output: 1 });
        recent.note(20 * SECOND_NS + 1, Buffers { input: 1, output: 7 });
        recent.note(22 * SECOND_NS, Buffers { input: 3, output: 3 });
        check(&recent, 22, 5, 7);
        check(&recent, 27, 5, 7);
        check(&recent, 28, 3, 3);
        check(&recent, 29, 3, 3);
        check(&recent, 30, 0, 0);
        // The place of second 20 is taken over, not added to.
        recent.note(28 * SECOND_NS, Buffers { input: 2, output: 2 });
        check(&recent, 29, 3, 3);
        check(&recent, 30, 2, 2);
    }
}
