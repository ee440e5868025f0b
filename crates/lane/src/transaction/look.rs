//! A command that changes nothing, over several lanes: each looks as soon as it has its locks, and keeps them until all have them. That is one
//! round trip, where what changes something takes two; unless a lane looked earlier than another, or has more to see than fits into a slice.

use wire::command::Scope;

use super::{After, Phase, Plan, Planned, Transaction};
use crate::keyspace::Keyspace;
use crate::locks::Kind;

impl Transaction {
    /// Whether its lanes look as soon as each has its locks: one command, which changes nothing, over lanes that are asked all at once.
    pub(super) fn looks_at_once(&self) -> bool {
        let looks = |planned: &Planned| {
            let command = planned.command;
            matches!((planned.plan, command.scope), (Plan::Scatter(_), Scope::Keys(_))) && !command.writes()
        };
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
        for (_, outcome) in
            self.commands[0].outcomes.extract_if(.., |(index, _)| lanes[*index].looked_at_ms < at_ms)
        {
            outcome.discard(space);
        }
        let gos = self.release_all();
        self.phase = Phase::Running { awaited: gos.len() };
        After::Go(gos)
    }
}
