//! Commands that change nothing, over several lanes: each lane looks as soon as it has its locks, and keeps them until all have them. That is one
//! round trip, where what changes something takes two; unless a lane looked earlier than another, or has more to see than fits into a slice.
//!
//! What a client has sent behind such a command and only looks, too, looks with it: all of it was so at one time. A pipeline of them
//! takes one round trip then, and not one each.

use wire::command::{Combine, Command, Flag, Group, Scope, Work};

use super::{After, Phase, Plan, Planned, Transaction};
use crate::keyspace::Keyspace;
use crate::locks::Kind;

/// Whether a command only looks at keys, and may look together with others.
pub(crate) fn is_look(command: &Command) -> bool {
    let is_of_keys = match command.scope {
        Scope::Key => command.work == Work::Constant,
        Scope::Keys(combine) => combine != Combine::Coordinator && command.group != Group::Transactions,
        _ => false,
    };
    is_of_keys && command.flags.has(Flag::Readonly) && !command.is_of_a_dialect()
}

impl Transaction {
    /// Whether its lanes look as soon as each has its locks: it changes nothing, and its lanes are asked all at once. Those behind the first
    /// command are its like.
    pub(super) fn looks_at_once(&self) -> bool {
        let looks = |planned: &Planned| matches!(planned.plan, Plan::Scatter(_)) && is_look(planned.command);
        self.kind == Kind::Numbered
            && self.takes_locks
            && !self.is_multi
            && self.commands.get(0).is_some_and(looks)
    }

    /// All hold their locks: what they saw is true together if all saw it at one time, and the locks may go while it is put together. Who
    /// was too early, or has not looked yet for there is much to see, looks now.
    pub(super) fn weigh_looks(&mut self, space: &mut Keyspace) -> After {
        let (lanes, at_ms) = (&self.lanes, self.grant.at_ms);
        if lanes.iter().all(|part| part.looked_at_ms == at_ms) {
            let gos = self.release_all();
            self.ending_count = gos.len();
            self.begin_combining();
            return After::GoAndStep(gos);
        }
        for index in 0..self.stage_end {
            let outcomes = &mut self.commands[index].outcomes;
            for (_, outcome) in outcomes.extract_if(.., |(lane, _)| lanes[*lane].looked_at_ms < at_ms) {
                outcome.discard(space);
            }
        }
        let gos = self.release_all();
        self.phase = Phase::Running { awaited: gos.len() };
        After::Go(gos)
    }
}
