//! Commands of the control thread: a client asks and waits; inside MULTI … EXEC the transaction asks in its turn and waits with its
//! locks held.
//!
//! It waits for the control thread alone, and that waits for nobody who waits: what it orders of lanes they do in their
//! turns whatever is locked, and its credit comes back with every answer.

use wire::command::{Command, Flag, Id};
use wire::reply;

use super::Core;
use crate::admin::{Portrait, Question};
use crate::dispatch::{Caller, Flow, Input, halt};
use crate::keyspace::OOM;
use crate::peers::{AnswerSize, AskHead, AskKind};
use crate::replies::Content;
use crate::room::Made;
use crate::slab::Handle;
use crate::transaction::Transaction;

impl Core {
    /// The control thread answers; the client waits.
    pub(crate) fn dispatch_control(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if !caller.client.is_even() {
            return halt(input);
        }
        if caller.client.is_monitor && matches!(command.id, Id::Monitor | Id::Sync | Id::Psync) {
            // Redis says nothing either.
            return Flow::Next;
        }
        if !self.board.is_attended() {
            let text =
                format!("ERR '{}' needs the control thread, and this server runs without", command.name);
            return caller.refuse(&text);
        }
        if command.flags.has(Flag::Denyoom)
            && self.space.room_for(command, &input.args(), caller.client.db, &self.locks) == Made::Nothing
        {
            return caller.refuse(OOM);
        }
        let control = self.lane_count;
        let charge = self.peer(control).charge(AnswerSize::Short);
        // Transactions that wait for credit hold locks: they go first.
        if !self.questioners.is_empty() || !self.peer(control).can_ask(0, 0, charge) {
            return halt(input);
        }
        let head = AskHead {
            client: caller.handle.to_bits(),
            slot: caller.client.replies.open(),
            charge,
            db: caller.client.db,
            id: u16::from(command.id as u8),
            key_slot: 0,
            proto: 0,
            kind: AskKind::Question,
        };
        let from = Portrait::of(caller.client, self.id, (0, caller.output.len()));
        let asked_ns = self.space.now.mono_ns;
        let question = Question { command, request: input.take_request(), from, asked_ns };
        self.peer(control).question(head, question);
        Flow::Block
    }

    /// Asks the control thread for those transactions that wait for it, as far as there is credit.
    pub(super) fn ask_control(&mut self) {
        while let Some(&handle) = self.questioners.front() {
            if !self.board.is_attended() {
                self.questioners.pop_front();
                let mut content = Content::default();
                reply::error(
                    &mut content,
                    "ERR this command needs the control thread, and this server runs without",
                );
                self.hear_answer(handle, content);
                continue;
            }
            let control = self.lane_count;
            let charge = self.peer(control).charge(AnswerSize::Short);
            if !self.peer(control).can_ask(0, 0, charge) {
                return;
            }
            self.questioners.pop_front();
            let (lane, now_ns) = (self.id, self.space.now.mono_ns);
            let transaction = self.transactions.get_mut(handle).expect("it waits for an answer");
            let question = transaction.question(lane, now_ns);
            let head = AskHead {
                client: handle.to_bits(),
                slot: 0,
                charge,
                db: question.from.db,
                id: u16::from(question.command.id as u8),
                key_slot: 0,
                proto: 0,
                kind: AskKind::ExecQuestion,
            };
            self.peer(control).question(head, question);
        }
    }

    /// The control thread's answer to a transaction, or what its command of pub/sub has come to.
    pub(crate) fn hear_answer(&mut self, handle: Handle<Transaction>, content: Content) {
        let after = self
            .transactions
            .get_mut(handle)
            .expect("a transaction outlives its question")
            .hear_control(content);
        self.follow(handle, after);
    }
}
