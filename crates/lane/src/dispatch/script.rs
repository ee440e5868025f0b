//! EVAL, FCALL and their like: a script goes to the lane that owns its keys, or begins here.

use wire::command::Command;

use super::{Caller, Flow, Input, answer_size, halt, transaction_of};
use crate::client::{Client, Port};
use crate::core::Core;
use crate::part::{NAMES_PER_STEP, Origin};
use crate::peers::{AskHead, AskKind};
use crate::request::Args;
use crate::scripts;
use crate::transaction::Transaction;

impl Core {
    /// EVAL, FCALL and their like.
    pub(super) fn dispatch_script(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if !caller.client.is_even() {
            return halt(input);
        }
        if let Err(text) = scripts::keys_of(input.args()) {
            return caller.refuse(self.space.scripts.wrong_keys(command, input.args(), text));
        }
        if let Some(text) = input.too_long(command) {
            return caller.refuse(text);
        }
        if let Some(text) = self.stray(caller.client, command, &input.args()) {
            return caller.refuse(&text);
        }
        if let Some(lane) = self.lane_of_script(caller.client, input.args()) {
            return self.send_script(caller, lane, command, input);
        }
        let origin = caller.open();
        let transaction = script_of(caller, origin, command, input);
        self.transact(caller, transaction)
    }

    /// The other lane that owns all keys of a script, if there is one. Who monitors sees what a script calls behind the script, as its
    /// client's lane has it.
    fn lane_of_script(&self, client: &Client, args: Args<'_>) -> Option<u16> {
        if self.lane_count == 1 || client.port == Port::Lane || self.monitoring.is_on {
            return None;
        }
        // Planning looks at what is behind these.
        let keys = scripts::keys_of(args).ok().filter(|keys| keys.len() <= NAMES_PER_STEP)?;
        let mut owners = keys.map(|index| self.map.owner_of(args.flat(index)).0);
        let owner = owners.next().filter(|&owner| owner != self.id)?;
        owners.all(|other| other == owner).then_some(owner)
    }

    /// A script runs on the lane of its keys, where each of its calls is no further than that.
    fn send_script(
        &mut self,
        caller: &mut Caller<'_>,
        owner: u16,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        let peer = self.peer(owner);
        let charge = peer.charge(answer_size(command.id));
        if !peer.can_ask(0, 0, charge) {
            return halt(input);
        }
        let (client, slot) = (caller.handle.to_bits(), caller.client.replies.open());
        let origin = Origin::Ask { lane: self.id, client, slot, charge };
        let mut transaction = script_of(caller, origin, command, input);
        transaction.by = self.space.by;
        let (id, kind) = (u16::from(command.id as u8), AskKind::Transaction);
        let head = AskHead { client, slot, charge, db: 0, id, key_slot: 0, proto: 0, kind };
        self.peer(owner).send(head, transaction);
        self.stats.dialects[caller.client.dialect as usize].forwarded += 1;
        Flow::Block
    }
}

/// The same of a script, which may call commands that concern the connection.
fn script_of(
    caller: &Caller<'_>,
    origin: Origin,
    command: &'static Command,
    input: &mut Input<'_>,
) -> Transaction {
    let mut transaction = transaction_of(caller, origin, command, input);
    transaction.stand_in = Some(Box::new(caller.client.stand_in()));
    transaction
}
