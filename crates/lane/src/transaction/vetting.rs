//! Whether the user of a transaction's client may call its commands. It was looked at when they came; here again those of a MULTI, for the
//! rules may have changed since; what a script calls; and what was too long to be looked at at once.

use std::sync::Arc;

use store::Budget;

use super::{Surroundings, Transaction};
use crate::acl::{Context, Denial, Denied, Vetting};
use crate::admin::Portrait;
use crate::request::Args;

impl Transaction {
    /// Goes on looking at the command at hand as far as the budget goes; none while there is more.
    pub(super) fn vet(
        &mut self,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> Option<Result<(), Denied>> {
        let Some(client) = &self.stand_in else { return Some(Ok(())) };
        if self.vetting.is_none() {
            let Some(user) = around.settings.users.of(client.user) else {
                // Who has deleted the user closes its clients.
                return Some(Err(Denied::Command));
            };
            if user.is_unrestricted() {
                return Some(Ok(()));
            }
            self.vetting = Some(Box::new((Arc::clone(user), Vetting::default())));
        }
        let (user, vetting) = self.vetting.as_deref_mut().expect("just made, or before");
        let planned = &self.commands[self.at.0];
        let (command, args) = (planned.command, Args::Owned(&planned.request));
        let verdict = vetting.go_on(user, command, args, budget)?;
        let (user, _) = *self.vetting.take().expect("just used");
        // Planned before, it was denied before.
        let is_told = matches!(planned.plan, super::Plan::Denied(_));
        if let Err(denied) = verdict
            && !is_told
        {
            let context = match () {
                () if self.is_calling() => Context::Lua,
                () if self.is_multi => Context::Multi,
                () => Context::Toplevel,
            };
            let from = Portrait::of(client, around.lane, (0, 0));
            let denial = Denial::new(denied, context, &user, command, args, from);
            self.denials.push(denial);
        }
        Some(verdict)
    }
}
