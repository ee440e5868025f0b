//! A command that changes nothing, over several lanes: each looks as soon as it has its locks, and keeps them until all have looked. One
//! round trip, where one that changes something takes two.

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

    /// All have looked, and hold their locks: what they saw is true together if all saw it at one time. Who was too early looks again.
    pub(super) fn weigh_looks(&mut self, space: &mut Keyspace) -> After {
        let (lanes, at_ms) = (&self.lanes, self.grant.at_ms);
        if lanes.iter().all(|part| part.looked_at_ms == at_ms) {
            return self.begin_combining();
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
