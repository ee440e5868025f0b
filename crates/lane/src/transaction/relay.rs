//! Commands that look before they change, over two lanes or more: RENAME, RENAMENX, COPY, MSETNX, BITOP; and LCS, which
//! looks at two lanes and changes nothing. The client's lane asks, decides, and asks again, under the same locks all along.
//!
//! ```text
//!            step 0                          step 1              step 2
//! RENAME     fetch source                    place at target     delete source
//! RENAMENX   fetch source, target exists?    place at target     delete source
//! COPY       fetch source, target exists?    place at target     –
//! MSETNX     does any key exist?             set all             –
//! LCS        fetch both                      –                   –
//! BITOP      combine each lane's sources     place at target     –
//! ```

use store::Expiry;
use wire::command::{Command, Id, lookup};
use wire::reply::{self, Proto};

use super::combine::header;
use super::{Planned, Share};
use crate::commands::State;
use crate::commands::bitop::{self, Combination, Operation};
use crate::commands::generic::{CopyOptions, Moved, put_no_such_key, put_renamed};
use crate::commands::lcs::{Lcs, LcsOptions};
use crate::commands::text::Text;
use crate::keyspace::{Keyspace, OOM};
use crate::part::{Outcome, Work};
use crate::replies::Content;
use crate::request::{Arg, Args, Request};
use store::Budget;

/// What follows from the answers of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relayed {
    /// The lanes are asked again.
    Next,
    /// The client's lane itself has more to compute.
    Again,
    /// The reply is written.
    Done,
}

/// The entry of a command that a lane is asked to run.
fn entry(name: &str) -> &'static Command {
    lookup(name.as_bytes()).expect("a relay asks for commands of the table")
}

fn owned(request: &Request) -> Request {
    Args::Owned(request).to_request()
}

/// A job for the lane at an index, in a database.
pub(super) type RelayJob = (usize, u16, Work);

impl Planned {
    /// What the lanes are asked in this step.
    pub(super) fn relay_jobs(&mut self, step: u8, database_count: u16) -> Vec<RelayJob> {
        let (command, db) = (self.command, self.db);
        let run = |lane: usize, db: u16, name: &str, request: Request| {
            (lane, db, Work::Run { command: entry(name), request, route: None, within: Some(command.id) })
        };
        if command.id == Id::Msetnx {
            let job = |share: &mut Share| match step {
                0 => run(share.lane, db, "exists", share.probe.take().expect("MSETNX probes")),
                _ => run(share.lane, db, "mset", std::mem::take(&mut share.request)),
            };
            return self.shares.iter_mut().map(job).collect();
        }
        if command.id == Id::Bitop {
            return self.bitop_jobs(step);
        }
        let (from, to) = self.ends();
        let to_db = self.copy_options(database_count).db;
        let fetch = |lane: usize, index: usize| {
            (lane, db, Work::Fetch { command, request: owned(&self.request), index })
        };
        match (step, command.id) {
            (0, Id::Lcs) => vec![fetch(from, 1), fetch(to, 2)],
            (0, Id::Rename) => vec![fetch(from, 1)],
            (0, _) => vec![fetch(from, 1), run(to, to_db, "exists", owned(&self.shares[1].request))],
            (1, _) => {
                let (_, outcome) = self.outcomes.pop().expect("the copy that was fetched");
                let Outcome::Fetched(Some(moved)) = outcome else {
                    unreachable!("asked for only when there is one")
                };
                let request = owned(&self.request);
                vec![(to, to_db, Work::Place { command, request, index: 2, moved })]
            }
            _ => vec![run(from, db, "del", std::mem::take(&mut self.shares[0].request))],
        }
    }

    /// BITOP: the lanes with sources combine theirs; then the lane of the destination, the first key, gets what came of that.
    fn bitop_jobs(&mut self, step: u8) -> Vec<RelayJob> {
        let (command, db) = (self.command, self.db);
        let to = self.shares[0].lane;
        if step == 0 {
            // The operation comes first, and on the destination's lane that.
            let sources = |nth: usize| if nth == 0 { 3 } else { 2 };
            let shares = self.shares.iter_mut().enumerate();
            return shares
                .filter(|(nth, share)| sources(*nth) < share.request.len())
                .map(|(nth, share)| {
                    let request = std::mem::take(&mut share.request);
                    (share.lane, db, Work::Combine { command, request, first: sources(nth) })
                })
                .collect();
        }
        let mut request = Request::default();
        match self.outcomes.pop() {
            Some((_, Outcome::Fetched(Some(moved)))) => {
                [0, 2].into_iter().for_each(|index| request.push(self.request.get(index)));
                vec![(to, db, Work::Place { command, request, index: 1, moved })]
            }
            _ => {
                request.push(Arg::Flat(b"del"));
                request.push(self.request.get(2));
                let within = Some(command.id);
                vec![(to, db, Work::Run { command: entry("del"), request, route: None, within })]
            }
        }
    }

    /// The lanes of the two keys, the first key's first: it came first in planning, so its share does too.
    fn ends(&self) -> (usize, usize) {
        let [from, to] = self.shares.as_slice() else { unreachable!("a relay is between two lanes") };
        (from.lane, to.lane)
    }

    /// COPY's options, which planning has found right; those of other commands are as if there were none.
    fn copy_options(&self, database_count: u16) -> CopyOptions {
        let none = CopyOptions { db: self.db, replaces: false };
        if self.command.id != Id::Copy {
            return none;
        }
        CopyOptions::parse(Args::Owned(&self.request), self.db, database_count).unwrap_or(none)
    }

    /// Looks at the answers of a step, and writes the reply if it is the last.
    pub(super) fn relay_step(
        &mut self,
        step: u8,
        space: &mut Keyspace,
        proto: Proto,
        out: &mut Content,
        budget: &mut Budget,
    ) -> Relayed {
        let relayed = match (self.command.id, step) {
            (Id::Lcs, _) => self.compare(space, proto, out, budget),
            (Id::Bitop, 0) => self.unite(space, budget),
            (Id::Bitop, _) => self.united(out),
            (Id::Msetnx, 0) if self.has_found() => {
                reply::integer(out, 0);
                Relayed::Done
            }
            (Id::Msetnx, 0) => {
                self.outcomes.clear();
                Relayed::Next
            }
            (Id::Msetnx, _) => {
                match self.take_error() {
                    Some(error) => out.append(error),
                    None => reply::integer(out, 1),
                }
                Relayed::Done
            }
            (_, 0) => self.look(space.database_count, out),
            (_, 1) => self.placed(out),
            _ => {
                put_renamed(out, self.command.id == Id::Renamenx);
                Relayed::Done
            }
        };
        match relayed {
            Relayed::Next => self.plan = super::Plan::Relay(step + 1),
            Relayed::Done => self.outcomes.clear(),
            Relayed::Again => {}
        }
        relayed
    }

    /// Whether a lane answered that a key exists.
    fn has_found(&self) -> bool {
        let is_found = |(_, outcome): &(usize, Outcome)| matches!(outcome, Outcome::Reply(content) if header(content).0 > 0);
        self.outcomes.iter().any(is_found)
    }

    /// The source is fetched, the target looked at: whether to go on.
    fn look(&mut self, database_count: u16, out: &mut Content) -> Relayed {
        let is_taken = self.has_found() && !self.copy_options(database_count).replaces;
        self.outcomes.retain(|(_, outcome)| matches!(outcome, Outcome::Fetched(_)));
        let Some((_, Outcome::Fetched(fetched))) = self.outcomes.first() else {
            unreachable!("the source's lane has answered")
        };
        match (self.command.id, fetched) {
            (Id::Copy, None) => reply::integer(out, 0),
            (_, None) => put_no_such_key(out),
            (_, Some(_)) if is_taken => reply::integer(out, 0),
            (_, Some(_)) => return Relayed::Next,
        }
        Relayed::Done
    }

    /// The target's lane has answered whether it had memory for the copy.
    fn placed(&mut self, out: &mut Content) -> Relayed {
        let Some((_, Outcome::Placed(is_placed))) = self.outcomes.pop() else {
            unreachable!("the target's lane has answered")
        };
        match self.command.id {
            _ if !is_placed => reply::error(out, OOM),
            Id::Copy => reply::integer(out, 1),
            _ => return Relayed::Next,
        }
        Relayed::Done
    }

    /// BITOP: what the lanes have made of their sources is here; a slice of the work.
    fn unite(&mut self, space: &mut Keyspace, budget: &mut Budget) -> Relayed {
        let state = self.state.get_or_insert_with(|| {
            let operation =
                Operation::parse(Args::Owned(&self.request)).expect("planning has found it right");
            Box::new(State::Combining(Combination::new(operation.of_shares())))
        });
        let State::Combining(combination) = &mut **state else { unreachable!("BITOP combines") };
        while combination.advance(budget) {
            match self.outcomes.pop() {
                Some((_, Outcome::Fetched(Some(moved)))) => combination.take(moved.value, space, budget),
                Some(_) => unreachable!("lanes send what they have combined"),
                None => {
                    let value = Text::Rope(combination.finish(space));
                    if combination.size() > 0 {
                        let moved = Moved { value, expiry: Expiry::None, used: None };
                        self.outcomes.push((0, Outcome::Fetched(Some(moved))));
                    }
                    return Relayed::Next;
                }
            }
        }
        Relayed::Again
    }

    /// BITOP: the destination's lane has stored it, if it had memory.
    fn united(&mut self, out: &mut Content) -> Relayed {
        let Some(State::Combining(combination)) = self.state.as_deref() else {
            unreachable!("BITOP has combined")
        };
        match self.outcomes.pop() {
            Some((_, Outcome::Placed(false))) => reply::error(out, OOM),
            _ => bitop::put_size(out, combination.size()),
        }
        Relayed::Done
    }

    /// LCS: both strings are here; a slice of the work.
    fn compare(
        &mut self,
        space: &mut Keyspace,
        proto: Proto,
        out: &mut Content,
        budget: &mut Budget,
    ) -> Relayed {
        if self.state.is_none() {
            let (from, _) = self.ends();
            let mut take = |is_first: bool| {
                let at = self.outcomes.iter().position(|(lane, _)| (*lane == from) == is_first);
                match self.outcomes.swap_remove(at.expect("both lanes have answered")) {
                    (_, Outcome::Fetched(moved)) => moved.map(|moved| moved.value).unwrap_or_default(),
                    _ => unreachable!("LCS fetches"),
                }
            };
            let (a, b) = (take(true), take(false));
            let begun = LcsOptions::parse(Args::Owned(&self.request))
                .and_then(|options| Lcs::new(a, b, options, space.bulk_size_max));
            match begun {
                Ok(lcs) => self.state = Some(Box::new(State::Comparing(lcs))),
                Err(text) => {
                    reply::error(out, text);
                    return Relayed::Done;
                }
            }
        }
        let Some(State::Comparing(lcs)) = self.state.as_deref_mut() else { unreachable!("LCS compares") };
        if !lcs.advance(budget) {
            return Relayed::Again;
        }
        let Some(State::Comparing(lcs)) = self.state.take().map(|state| *state) else {
            unreachable!("just looked")
        };
        let rest = lcs.finish(proto, out, &mut |rope| space.shard.retire(rope));
        out.append(rest);
        Relayed::Done
    }
}
