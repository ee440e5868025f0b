//! Whether there is an order of operations on one thing that explains every reply: each takes effect at one instant
//! between its command's first byte and its reply, and those of one connection in the order in which it sent them.
//!
//! The search is Wing's and Gong's ("Testing and verifying concurrent objects", 1993) with Lowe's memory of
//! what failed ("Testing for linearizability", 2017). Connections' own order keeps it small.

use std::collections::BTreeSet;

use crate::object::{Op, Seen, State};

/// An operation: what it did, what was seen of it and when.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) session: u32,
    pub(crate) op: Op,
    /// `None`: its reply never came, and it may not have happened.
    pub(crate) seen: Option<Seen>,
    pub(crate) begin: u64,
    /// [`u64::MAX`] without a reply.
    pub(crate) end: u64,
}

/// Steps after which the search gives up. Undecided is not wrong; the callers count how often it happens.
const STEPS_MAX: usize = 300_000;

/// What came of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Explained,
    Undecided,
    Impossible,
}

/// `lines` holds the operations of each connection, in its order.
pub(crate) fn search(lines: &[Vec<&Event>]) -> Verdict {
    let mut at = vec![0_usize; lines.len()];
    // Where the search stands: a state, which line was taken to get there, and which is to be tried next.
    let mut path = vec![Place { state: State::default(), came_by: usize::MAX, next: 0 }];
    let mut failed: BTreeSet<(Vec<usize>, State)> = BTreeSet::new();
    for _ in 0..STEPS_MAX {
        let heads = || lines.iter().zip(&at).map(|(line, &at)| line.get(at).copied());
        if heads().flatten().all(|head| head.seen.is_none()) {
            return Verdict::Explained;
        }
        let end_min = heads().flatten().map(|head| head.end).min().unwrap_or(u64::MAX);
        let place = path.last_mut().expect("the search has a place until it ends");
        let may_come = |head: &Event| head.begin <= end_min;
        // A look that fits may as well happen now: it stands in nobody's way.
        let fits = |head: &Event| place.state.explain(&head.op, head.seen.as_ref()).is_some();
        let look = heads()
            .position(|head| head.is_some_and(|head| head.op.is_read() && may_come(head) && fits(head)));
        let taken = match look {
            Some(line) if place.next == 0 => {
                place.next = lines.len();
                Some((line, place.state.clone()))
            }
            Some(_) => None,
            None => {
                let mut taken = None;
                while place.next < lines.len() && taken.is_none() {
                    let line = place.next;
                    place.next += 1;
                    let head = lines[line].get(at[line]).filter(|head| may_come(head));
                    let after = head.and_then(|head| place.state.explain(&head.op, head.seen.as_ref()));
                    taken = after.map(|state| (line, state));
                }
                taken
            }
        };
        match taken {
            Some((line, state)) => {
                at[line] += 1;
                if failed.insert((at.clone(), state.clone())) {
                    path.push(Place { state, came_by: line, next: 0 });
                } else {
                    at[line] -= 1;
                }
            }
            None => {
                let place = path.pop().expect("just looked at");
                if path.is_empty() {
                    return Verdict::Impossible;
                }
                at[place.came_by] -= 1;
            }
        }
    }
    Verdict::Undecided
}

struct Place {
    state: State,
    came_by: usize,
    next: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(session: u32, number: u32, begin: u64, end: u64) -> Event {
        Event { session, op: Op::Set((number, 0)), seen: Some(Seen::Done), begin, end }
    }

    fn get(session: u32, number: Option<u32>, begin: u64, end: u64) -> Event {
        let text = number.map(|number| vec![(number, 0)]);
        Event { session, op: Op::Get, seen: Some(Seen::Text(text)), begin, end }
    }

    fn check(events: &[Event], want: Verdict) {
        let sessions: BTreeSet<u32> = events.iter().map(|event| event.session).collect();
        let lines: Vec<Vec<&Event>> = sessions
            .iter()
            .map(|session| events.iter().filter(|event| event.session == *session).collect())
            .collect();
        assert_eq!(search(&lines), want, "{events:#?}");
    }

    #[test]
    fn what_overlaps_has_any_order_and_the_rest_has_one() {
        use Verdict::{Explained, Impossible};
        check(&[set(1, 7, 0, 1), get(2, Some(7), 2, 3)], Explained);
        check(&[set(1, 7, 0, 1), get(2, None, 2, 3)], Impossible);
        check(&[set(1, 7, 0, 5), get(2, None, 2, 3)], Explained);
        check(&[set(1, 7, 0, 9), get(2, Some(7), 2, 3), get(3, None, 4, 5)], Impossible);
        check(&[set(1, 7, 0, 9), get(2, Some(7), 2, 6), get(3, None, 4, 5)], Explained);
    }

    #[test]
    fn a_connection_keeps_its_order() {
        use Verdict::{Explained, Impossible};
        check(&[set(1, 7, 0, 9), set(1, 8, 0, 9), get(2, Some(7), 10, 11)], Impossible);
        check(&[set(1, 7, 0, 9), set(2, 8, 0, 9), get(2, Some(7), 10, 11)], Explained);
    }

    #[test]
    fn what_was_not_answered_may_have_happened() {
        use Verdict::{Explained, Impossible};
        let lost = Event { seen: None, end: u64::MAX, ..set(1, 7, 5, 5) };
        check(&[lost.clone(), get(2, Some(7), 8, 9), get(2, Some(7), 20, 21)], Explained);
        check(&[lost.clone(), get(2, None, 8, 9), get(2, Some(7), 20, 21)], Explained);
        check(&[lost.clone(), get(2, Some(7), 1, 2)], Impossible);
        check(&[lost, get(2, Some(7), 8, 9), get(2, None, 20, 21)], Impossible);
    }
}
