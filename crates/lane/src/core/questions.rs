//! Commands of the control thread inside MULTI … EXEC: the transaction asks in its turn and waits with its locks held.
//!
//! It waits for the control thread alone, and that waits for nobody who waits: what it orders of lanes they do in their
//! turns whatever is locked, and its credit comes back with every answer.

use wire::reply;

use super::Core;
use crate::peers::{AnswerSize, AskHead, AskKind};
use crate::replies::Content;
use crate::slab::Handle;
use crate::transaction::Transaction;

impl Core {
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

    /// The control thread's answer to a transaction.
    pub(super) fn hear_answer(&mut self, handle: Handle<Transaction>, content: Content) {
        let after = self
            .transactions
            .get_mut(handle)
            .expect("a transaction outlives its question")
            .hear_control(content);
        self.follow(handle, after);
    }
}
