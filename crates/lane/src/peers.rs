//! What lanes say to each other, and the credit under which they say it. docs/rings.md has the rules.
//!
//! From each lane to each other lane run three rings:
//! ```text
//! asks      a command for keys that the other lane owns; a transaction's part
//! answers   what comes back. An ask is sent only with credit for its answer, so an answer always fits
//! control   go on, withdraw, take this connection. A part reserves its place when it is asked for, so it always fits
//! ```
//! Frames are in `frames`, the rings of all lanes in `mesh`. Whatever is longer than its frame's charge travels as a parcel:
//! ownership moves, bytes do not.

mod frames;
mod mesh;

use std::sync::Arc;

use ring::{Consumer, Mailbox, Producer, frame_size};

use crate::admin::{Order, Question, Report};
use crate::locks::Refusal;
use crate::replies::Content;
use crate::request::{Args, Request};
use crate::transaction::{Grant, Prepare, Results, Transaction};

use frames::{ANSWER_HEADER, ASK_HEADER, CONTROL_SIZE, args_size};
pub(crate) use frames::{
    AnswerHead, AnswerKind, AskHead, AskKind, ControlHead, ControlKind, Parcel, TRACKED_QUIET, TRACKED_READS,
    decode_grant,
};
pub use mesh::{Links, mesh, mesh_placed};

/// Bytes of a reply that fit into a short answer.
const SHORT_SIZE: usize = 48;
/// Answers after which it is looked at again how long they are.
const ANSWERS_PER_LOOK: usize = 1024;

/// How long an answer may be without becoming a parcel, which is what it costs in credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnswerSize {
    /// A status, a number, a null.
    Short,
    /// A value: as long as values have been lately.
    Long,
}

/// This lane's ends of everything between it and one other lane (or the control thread).
pub(crate) struct Peer {
    mailbox: Arc<Mailbox>,
    me: usize,
    pub(crate) asks: Producer<Parcel>,
    answers: Producer<Parcel>,
    control: Producer<Parcel>,
    pub(crate) asks_in: Consumer<Parcel>,
    pub(crate) answers_in: Consumer<Parcel>,
    pub(crate) control_in: Consumer<Parcel>,
    /// Bytes of the other's answer ring that are ours to claim.
    answer_credit: usize,
    /// The same when nothing is under way.
    answer_credit_max: usize,
    /// Frames of our control ring that are not reserved for a part or a handover.
    control_credit: usize,
    /// The same when nothing is under way.
    control_credit_max: usize,
    inline_size_max: usize,
    lengths: Lengths,
}

/// How long the answers are that come from another lane: what they are charged should hold nearly all, and not much more,
/// or few asks could be under way.
struct Lengths {
    /// What a long answer is taken to be, bytes, and its charge.
    long_size: usize,
    long_charge: u16,
    /// The longest since the last look, and how many have come since.
    longest: usize,
    count: usize,
}

/// The charge of an answer of so many bytes.
const fn charge_of(size: usize) -> u16 {
    let size = frame_size(ANSWER_HEADER + size);
    assert!(size <= u16::MAX as usize, "an inline answer is below 64 KiB");
    #[expect(
        clippy::cast_possible_truncation,
        reason = "just looked; conversions that may fail are not const"
    )]
    let charge = size as u16;
    charge
}

impl Lengths {
    /// Until the first look, the longest that is no parcel.
    fn new(inline_size_max: usize) -> Lengths {
        Lengths::of(inline_size_max)
    }

    /// So many answers have come, the longest of them that could be no parcel `longest` bytes long.
    #[inline]
    fn note(&mut self, count: usize, longest: usize) {
        self.longest = self.longest.max(longest);
        self.count += count;
        if self.long_size < longest {
            (self.long_size, self.long_charge) = (longest, charge_of(longest));
        }
        if self.count >= ANSWERS_PER_LOOK {
            *self = Lengths::of(self.longest.max(SHORT_SIZE));
        }
    }

    /// None have come since this was the longest.
    fn of(long_size: usize) -> Lengths {
        Lengths { long_size, long_charge: charge_of(long_size), longest: 0, count: 0 }
    }
}

impl Peer {
    /// The charge of an answer of this kind.
    #[inline]
    pub(crate) fn charge(&self, answer: AnswerSize) -> u16 {
        match answer {
            AnswerSize::Short => const { charge_of(SHORT_SIZE) },
            AnswerSize::Long => self.lengths.long_charge,
        }
    }

    /// Whether an ask whose arguments are `size` bytes, `count` of them, can be sent now.
    #[inline]
    pub(crate) fn can_ask(&mut self, count: usize, size: usize, charge: u16) -> bool {
        let args_size = args_size(count, size);
        let payload_size = ASK_HEADER + if args_size <= self.inline_size_max { args_size } else { 0 };
        usize::from(charge) <= self.answer_credit && self.asks.room(payload_size)
    }

    /// Sends a command whose arguments are `size` bytes together. [`Peer::can_ask`] has just said yes.
    #[inline]
    pub(crate) fn ask(&mut self, head: AskHead, args: Args<'_>, size: usize) {
        let args_size = args_size(args.len(), size);
        if args_size > self.inline_size_max {
            return self.ask_owned(head, args.to_request());
        }
        self.answer_credit -= usize::from(head.charge);
        head.encode_with(args, self.asks.push_where_asked(ASK_HEADER + args_size));
    }

    /// As [`Peer::ask`], for a command that is owned and need not be copied.
    pub(crate) fn ask_owned(&mut self, mut head: AskHead, request: Request) {
        self.answer_credit -= usize::from(head.charge);
        head.kind = if head.kind == AskKind::Tracked { AskKind::TrackedRequest } else { AskKind::Request };
        self.asks.push(&[&head.encode(0)], Some(Parcel::Request(Box::new(request))));
    }

    /// Sends a client's message to the lane that owns its channel. [`Peer::can_ask`] has just said yes.
    pub(crate) fn publish_at(&mut self, head: AskHead, request: Request) {
        self.answer_credit -= usize::from(head.charge);
        self.asks.push(&[&head.encode(0)], Some(Parcel::Request(Box::new(request))));
    }

    /// Sends a transaction to the lane that owns all its keys. [`Peer::can_ask`] has just said yes.
    pub(crate) fn send(&mut self, head: AskHead, transaction: Transaction) {
        self.answer_credit -= usize::from(head.charge);
        self.asks.push(&[&head.encode(0)], Some(Parcel::Transaction(Box::new(transaction))));
    }

    /// Gives a transaction that another lane has sent back to it. It fits, by the asker's credit.
    pub(crate) fn give_back(&mut self, head: AnswerHead, transaction: Transaction) {
        self.answers.push(&[&head.encode()], Some(Parcel::Transaction(Box::new(transaction))));
    }

    /// Whether a transaction's part can be asked for now, with everything it will ever need.
    pub(crate) fn can_prepare(&mut self) -> bool {
        self.control_credit > 0
            && usize::from(self.charge(AnswerSize::Short)) <= self.answer_credit
            && self.asks.room(ASK_HEADER)
    }

    /// Asks for a part and reserves its answers (it has at most one under way) and its control frames (likewise).
    pub(crate) fn prepare(&mut self, prepare: Prepare) {
        let charge = self.charge(AnswerSize::Short);
        self.answer_credit -= usize::from(charge);
        self.control_credit -= 1;
        let head = AskHead {
            client: prepare.transaction,
            slot: 0,
            charge,
            db: 0,
            id: 0,
            key_slot: 0,
            proto: 0,
            kind: AskKind::Prepare,
        };
        self.asks.push(&[&head.encode(0)], Some(Parcel::Prepare(Box::new(prepare))));
    }

    /// A part is over: what [`Peer::prepare`] reserved is free again.
    pub(crate) fn part_ended(&mut self) {
        self.answer_credit += usize::from(self.charge(AnswerSize::Short));
        self.control_credit += 1;
    }

    /// Whether all that was asked there is answered, and all parts there are over.
    pub(crate) fn is_even(&self) -> bool {
        self.answer_credit == self.answer_credit_max && self.control_credit == self.control_credit_max
    }

    /// Asserts that all credit has come back, as it has when nothing is under way.
    pub(crate) fn audit(&self) {
        assert!(self.answer_credit == self.answer_credit_max, "an answer brings its credit back");
        assert!(self.control_credit == self.control_credit_max, "a part that is over gives its place back");
    }

    /// Credit that came back with so many answers, the longest of them `longest` bytes long.
    #[inline]
    pub(crate) fn credit(&mut self, charge: usize, count: usize, longest: usize) {
        self.answer_credit += charge;
        self.lengths.note(count, if longest <= self.inline_size_max { longest } else { 0 });
    }

    /// The answer to a command: within its charge as bytes, else as a parcel. It fits, by the asker's credit.
    #[inline(always)]
    pub(crate) fn answer(&mut self, mut head: AnswerHead, bytes: &[u8], mut content: Content) {
        if content.is_empty() && frame_size(ANSWER_HEADER + bytes.len()) <= usize::from(head.charge) {
            head.kind = AnswerKind::Inline;
            let frame = self.answers.push_in_place(ANSWER_HEADER + bytes.len());
            let (head_bytes, behind) = frame.split_first_chunk_mut().expect("as long as that");
            *head_bytes = head.encode();
            behind.copy_from_slice(bytes);
        } else {
            head.kind = AnswerKind::Content;
            let content = if bytes.is_empty() {
                content
            } else {
                let mut whole = Content::default();
                wire::reply::Put::put(&mut whole, bytes);
                whole.append(std::mem::take(&mut content));
                whole
            };
            self.answers.push(&[&head.encode()], Some(Parcel::Content(Box::new(content))));
        }
    }

    /// As [`Peer::answer`], for a reply that is kept.
    pub(crate) fn answer_with(&mut self, head: AnswerHead, content: Content) {
        let front = content.front();
        if front.len() == content.size()
            && frame_size(ANSWER_HEADER + front.len()) <= usize::from(head.charge)
        {
            self.answer(head, front, Content::default());
        } else {
            self.answer(head, &[], content);
        }
    }

    /// What a part's jobs came to. It fits, by [`Peer::prepare`].
    pub(crate) fn results(&mut self, target: u64, results: Results) {
        let head = AnswerHead { target, slot: 0, charge: 0, kind: AnswerKind::Results };
        self.answers.push(&[&head.encode()], Some(Parcel::Results(Box::new(results))));
    }

    /// A part is refused. It fits, by [`Peer::prepare`].
    pub(crate) fn refuse(&mut self, target: u64, refusal: Refusal) {
        let head = AnswerHead { target, slot: refusal as u32, charge: 0, kind: AnswerKind::Refused };
        self.answers.push(&[&head.encode()], None);
    }

    /// A part has its locks, and what it has found. It fits, by [`Peer::prepare`].
    pub(crate) fn grant(&mut self, target: u64, part: u64, grant: Grant) {
        let head = AnswerHead { target, slot: 0, charge: 0, kind: AnswerKind::Granted };
        self.answers.push(&[&head.encode(), &frames::encode_grant(part, grant)], None);
    }

    /// Asks the control thread to answer a command. [`Peer::can_ask`] has just said yes.
    pub(crate) fn question(&mut self, head: AskHead, question: Question) {
        self.answer_credit -= usize::from(head.charge);
        self.asks.push(&[&head.encode(0)], Some(Parcel::Question(Box::new(question))));
    }

    /// The answer to a transaction's question. It fits, by its credit.
    pub(crate) fn answer_exec(&mut self, target: u64, charge: u16, content: Content) {
        let head = AnswerHead { target, slot: 0, charge, kind: AnswerKind::Exec };
        self.answers.push(&[&head.encode()], Some(Parcel::Content(Box::new(content))));
    }

    /// The control thread orders something of a lane, whose report will name `ticket`; `Err` gives the order back when
    /// there is no room just now.
    pub(crate) fn order(&mut self, ticket: u64, order: Order) -> Result<(), Order> {
        let charge = self.charge(AnswerSize::Short);
        if !self.can_ask(0, 0, charge) {
            return Err(order);
        }
        self.answer_credit -= usize::from(charge);
        let kind = AskKind::Order;
        let head = AskHead { client: ticket, slot: 0, charge, db: 0, id: 0, key_slot: 0, proto: 0, kind };
        self.asks.push(&[&head.encode(0)], Some(Parcel::Order(Box::new(order))));
        Ok(())
    }

    /// The answer to an order of the control thread. It fits, by its credit.
    pub(crate) fn report(&mut self, ticket: u64, charge: u16, report: Report) {
        let head = AnswerHead { target: ticket, slot: 0, charge, kind: AnswerKind::Report };
        self.answers.push(&[&head.encode()], Some(Parcel::Report(Box::new(report))));
    }

    /// The answer to a question will come by other means. It fits, by the asker's credit, which comes back with it.
    pub(crate) fn put_off(&mut self, head: AnswerHead) {
        self.answers.push(&[&head.encode()], None);
    }

    /// Tells a part what to do. It fits, by [`Peer::prepare`].
    pub(crate) fn tell(&mut self, head: ControlHead, parcel: Option<Parcel>) {
        self.control.push(&[&head.encode()], parcel);
    }

    /// Tells something for which no part has reserved the place; false, and nothing is taken, when there is none to
    /// spare just now. Half of the ring is never reserved.
    pub(crate) fn try_tell(&mut self, head: ControlHead, parcel: &mut Option<Parcel>) -> bool {
        let has_room = self.can_tell();
        if has_room {
            self.control.push(&[&head.encode()], parcel.take());
        }
        has_room
    }

    /// Whether [`Peer::try_tell`] has room for one more.
    pub(crate) fn can_tell(&mut self) -> bool {
        let reserve = self.control_credit_max * frame_size(CONTROL_SIZE);
        self.control.free() > reserve
    }

    /// [`Peer::publish`] of what was told alone, before anything else that this lane has for others.
    pub(crate) fn publish_told(&mut self) -> bool {
        self.control.publish() && self.mailbox.post(self.me)
    }

    /// Makes visible what was pushed; true if the other lane sleeps and its bell must be rung.
    pub(crate) fn publish(&mut self) -> bool {
        let asked = self.asks.publish();
        let answered = self.answers.publish();
        let told = self.control.publish();
        (asked | answered | told) && self.mailbox.post(self.me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_taken_to_be_as_long_as_the_longest_of_late() {
        let mut lengths = Lengths::new(512);
        for (count, longest, want) in [
            (1000, 100, 512),
            // The first look.
            (24, 30, 100),
            // Longer ones count at once, shorter ones with the next look.
            (1, 300, 300),
            (ANSWERS_PER_LOOK - 1, 120, 300),
            (ANSWERS_PER_LOOK, 120, 120),
            // Never less than for a short answer.
            (ANSWERS_PER_LOOK, 5, SHORT_SIZE),
        ] {
            lengths.note(count, longest);
            assert_eq!(
                (lengths.long_size, lengths.long_charge),
                (want, charge_of(want)),
                "after {count} answers of up to {longest} bytes"
            );
        }
    }

    /// What is a parcel in any case is no reason to charge others more.
    #[test]
    fn credit_is_charged_for_what_fits_and_comes_back() {
        let mut links = mesh(2);
        let peer = links[0].peers[1].as_mut().expect("another lane");
        let charge = peer.charge(AnswerSize::Long);
        peer.answer_credit -= usize::from(charge);
        peer.credit(usize::from(charge), ANSWERS_PER_LOOK, 100);
        peer.credit(0, 1, 1 << 20);
        assert_eq!(usize::from(peer.charge(AnswerSize::Long)), frame_size(ANSWER_HEADER + 100));
        assert_eq!(usize::from(peer.charge(AnswerSize::Short)), frame_size(ANSWER_HEADER + SHORT_SIZE));
        peer.audit();
    }
}
