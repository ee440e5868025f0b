//! What lanes say to each other, and the credit under which they say it. docs/rings.md has the rules.
//!
//! From each lane to each other lane run three rings:
//! ```text
//! asks      a command for keys that the other lane owns; a transaction's part
//! answers   what comes back. An ask is sent only with credit for its answer, so an answer always fits
//! control   go on, withdraw, take this connection. A part reserves its place when it is asked for, so it always fits
//! ```
//! Frames are little-endian. Whatever is longer than its frame's charge travels as a parcel: ownership moves, bytes
//! do not.
//! ```text
//! ask       0 client u64 | 8 slot u32 | 12 charge u16 | 14 db u16 | 16 id u16 | 18 key slot u16 | 20 proto u8 | 21 kind u8
//!           | 22 count u16 | 24 count × (end u32) | bytes of the arguments
//! answer    0 for u64 | 8 slot u32 | 12 charge u16 | 14 kind u8 | 15 – | 16 bytes of the reply
//! control   0 part or client u64 | 8 round u32 | 12 kind u8 | 13 – to 16
//! ```

use std::sync::Arc;

use net::Handover;
use ring::{Consumer, HEADER_SIZE, Mailbox, Producer, credit, frame_size, memory_size, payload_max, ring};

use crate::admin::{Order, Question, Report};
use crate::replies::Content;
use crate::request::{Args, Request};
use crate::timing::{Slow, Stall};
use crate::transaction::{Go, Grant, Prepare, Results};

/// Bytes of all pairs' rings together, slots included, up to 95 lanes; more lanes have the smallest rings.
const RINGS_SIZE_MAX: usize = 64 * 1024 * 1024;
/// Nothing is gained by a larger ring: this is more than the asks that a turn's budget of commands can make.
const ASKS_SIZE_MAX: usize = 128 * 1024;
/// Five long answers may be under way, or fourteen short ones.
const ASKS_SIZE_MIN: usize = 1024;
/// Bytes of a reply that fit into a short answer.
const SHORT_SIZE: usize = 48;
/// A longer ask or answer moves as a parcel.
const INLINE_SIZE_MAX: usize = 512;

const ASK_HEADER: usize = 24;
const ANSWER_HEADER: usize = 16;
const CONTROL_SIZE: usize = 16;

/// An owned object that moves to another lane with a frame.
pub(crate) enum Parcel {
    /// A reply too long for its frame.
    Content(Box<Content>),
    /// A command too long for its frame.
    Request(Box<Request>),
    /// A transaction's part on another lane.
    Prepare(Box<Prepare>),
    /// What a granted part does next.
    Go(Box<Go>),
    /// What it did.
    Results(Box<Results>),
    /// A connection that changes lanes.
    Handover(Box<Handover>),
    /// From the control thread. (In place it would make every slot of every ring half as large again.)
    Order(Box<Order>),
    /// To the control thread.
    Report(Box<Report>),
    /// A slow command, for the control thread's log.
    Slow(Box<Slow>),
    /// What clients that monitor see: whole lines.
    Lines(Arc<Vec<u8>>),
    /// A turn that took too long, for the control thread's log.
    Stall(Box<Stall>),
    /// A command for the control thread.
    Question(Box<Question>),
}

/// What an ask carries besides the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum AskKind {
    Inline = 0,
    Request = 1,
    Prepare = 2,
    Order = 3,
    Question = 4,
    /// As `Question`, by a transaction.
    ExecQuestion = 5,
}

/// What an answer carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum AnswerKind {
    Inline = 0,
    Content = 1,
    Granted = 2,
    Refused = 3,
    Results = 4,
    Report = 5,
    /// To a transaction's question.
    Exec = 6,
}

/// What a control frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ControlKind {
    Go = 0,
    Withdraw = 1,
    Handover = 2,
    Unwatch = 3,
    Slow = 4,
    /// Give me room: the target is how many bytes of the lease.
    Yield = 5,
    /// Here is room: likewise.
    Lend = 6,
    /// Look whether clients hold too much.
    Crowded = 10,
    /// What clients that monitor see.
    Lines = 7,
    /// This client monitors no more.
    MonitorGone = 8,
    /// A turn took too long.
    Stall = 9,
}

/// The fixed part of an ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskHead {
    pub(crate) client: u64,
    pub(crate) slot: u32,
    /// Bytes of the answer ring that the asker gave up for the answer; comes back with it.
    pub(crate) charge: u16,
    pub(crate) db: u16,
    pub(crate) id: u16,
    pub(crate) key_slot: u16,
    pub(crate) proto: u8,
    pub(crate) kind: AskKind,
}

/// The fixed part of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerHead {
    /// A client of the asking lane, or a transaction of it.
    pub(crate) target: u64,
    pub(crate) slot: u32,
    pub(crate) charge: u16,
    pub(crate) kind: AnswerKind,
}

/// The fixed part of a control frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlHead {
    pub(crate) target: u64,
    /// Of a client's watching; 0 otherwise.
    pub(crate) round: u32,
    pub(crate) kind: ControlKind,
}

/// How long an answer may be without becoming a parcel, which is what it costs in credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnswerSize {
    /// A status, a number, a null.
    Short,
    /// A value.
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
}

impl Peer {
    /// The charge of an answer of this kind.
    pub(crate) fn charge(&self, answer: AnswerSize) -> u16 {
        let size = match answer {
            AnswerSize::Short => ANSWER_HEADER + SHORT_SIZE,
            AnswerSize::Long => ANSWER_HEADER + self.inline_size_max,
        };
        u16::try_from(frame_size(size)).expect("an inline answer is below 64 KiB")
    }

    /// Whether an ask whose arguments are `size` bytes, `count` of them, can be sent now.
    pub(crate) fn can_ask(&mut self, count: usize, size: usize, charge: u16) -> bool {
        let payload = ASK_HEADER + if self.is_inline(count, size) { 4 * count + size } else { 0 };
        usize::from(charge) <= self.answer_credit && self.asks.room(payload)
    }

    fn is_inline(&self, count: usize, size: usize) -> bool {
        4 * count + size <= self.inline_size_max
    }

    /// Sends a command. [`Peer::can_ask`] has just said yes.
    pub(crate) fn ask(&mut self, mut head: AskHead, args: Args<'_>, size: usize, scratch: &mut Vec<u8>) {
        self.answer_credit -= usize::from(head.charge);
        let count = args.len();
        if !self.is_inline(count, size) {
            head.kind = AskKind::Request;
            let parcel = Parcel::Request(Box::new(args.to_request()));
            self.asks.push(&[&head.encode(0)], Some(parcel));
            return;
        }
        scratch.clear();
        let mut end = 0_u32;
        for index in 0..count {
            end += u32::try_from(args.get(index).size()).expect("inline arguments are short");
            scratch.extend_from_slice(&end.to_le_bytes());
        }
        for index in 0..count {
            scratch.extend_from_slice(args.flat(index));
        }
        let count = u16::try_from(count).expect("inline arguments are few");
        self.asks.push(&[&head.encode(count), scratch], None);
    }

    /// As [`Peer::ask`], for a command that is owned already and need not be copied.
    pub(crate) fn ask_owned(&mut self, mut head: AskHead, request: Request) {
        self.answer_credit -= usize::from(head.charge);
        head.kind = AskKind::Request;
        self.asks.push(&[&head.encode(0)], Some(Parcel::Request(Box::new(request))));
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

    /// Asserts that all credit has come back, as it has when nothing is under way.
    pub(crate) fn audit(&self) {
        assert!(self.answer_credit == self.answer_credit_max, "an answer brings its credit back");
        assert!(self.control_credit == self.control_credit_max, "a part that is over gives its place back");
    }

    /// Credit that came back with an answer.
    pub(crate) fn credit(&mut self, charge: u16) {
        self.answer_credit += usize::from(charge);
    }

    /// The answer to a command: within its charge as bytes, else as a parcel. It fits, by the asker's credit.
    pub(crate) fn answer(&mut self, mut head: AnswerHead, bytes: &[u8], mut content: Content) {
        if content.is_empty() && frame_size(ANSWER_HEADER + bytes.len()) <= usize::from(head.charge) {
            head.kind = AnswerKind::Inline;
            self.answers.push(&[&head.encode(), bytes], None);
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

    /// What a part has to say to its transaction. It fits, by [`Peer::prepare`].
    pub(crate) fn answer_part(&mut self, target: u64, kind: AnswerKind, parcel: Option<Parcel>) {
        let head = AnswerHead { target, slot: 0, charge: 0, kind };
        self.answers.push(&[&head.encode()], parcel);
    }

    /// A part has its locks, and what it has found. It fits, by [`Peer::prepare`].
    pub(crate) fn grant(&mut self, target: u64, part: u64, grant: Grant) {
        let head = AnswerHead { target, slot: grant.to_bits(), charge: 0, kind: AnswerKind::Granted };
        self.answers.push(&[&head.encode(), &part.to_le_bytes()], None);
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

    /// Tells a part what to do. It fits, by [`Peer::prepare`].
    pub(crate) fn tell(&mut self, head: ControlHead, parcel: Option<Parcel>) {
        self.control.push(&[&head.encode()], parcel);
    }

    /// Tells something for which no part has reserved the place; false, and nothing is taken, when there is none to
    /// spare just now. Half of the ring is never reserved.
    pub(crate) fn try_tell(&mut self, head: ControlHead, parcel: &mut Option<Parcel>) -> bool {
        let reserve = self.control_credit_max * frame_size(CONTROL_SIZE);
        let has_room = self.control.free() > reserve;
        if has_room {
            self.control.push(&[&head.encode()], parcel.take());
        }
        has_room
    }

    /// Makes visible what was pushed; true if the other lane sleeps and its bell must be rung.
    pub(crate) fn publish(&mut self) -> bool {
        let asked = self.asks.publish();
        let answered = self.answers.publish();
        let told = self.control.publish();
        (asked | answered | told) && self.mailbox.post(self.me)
    }
}

/// Parts in flight from one lane to another; more wait at home.
const CONTROL_FRAMES_MAX: usize = 64;
/// Bytes of the ask ring for each of them where rings are small.
const ASKS_SIZE_PER_CONTROL_FRAME: usize = 96;
/// Control frames for which no part reserves the place, at the least.
const TOLD_FRAMES_MIN: usize = 10;

impl AskHead {
    fn encode(&self, count: u16) -> [u8; ASK_HEADER] {
        let mut bytes = [0; ASK_HEADER];
        bytes[0..8].copy_from_slice(&self.client.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.slot.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.charge.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.db.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.id.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.key_slot.to_le_bytes());
        bytes[20] = self.proto;
        bytes[21] = self.kind as u8;
        bytes[22..24].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    /// Reads an ask's head, and into `spans` where its arguments are.
    pub(crate) fn decode(frame: &[u8], spans: &mut Vec<(u32, u32)>) -> AskHead {
        let count = usize::from(u16_at(frame, 22));
        let mut start = u32::try_from(ASK_HEADER + 4 * count).expect("an ask's frame is short");
        let base = start;
        spans.clear();
        for index in 0..count {
            let end = base + u32_at(frame, ASK_HEADER + 4 * index);
            spans.push((start, end));
            start = end;
        }
        AskHead {
            client: u64_at(frame, 0),
            slot: u32_at(frame, 8),
            charge: u16_at(frame, 12),
            db: u16_at(frame, 14),
            id: u16_at(frame, 16),
            key_slot: u16_at(frame, 18),
            proto: frame[20],
            kind: match frame[21] {
                0 => AskKind::Inline,
                1 => AskKind::Request,
                2 => AskKind::Prepare,
                3 => AskKind::Order,
                4 => AskKind::Question,
                5 => AskKind::ExecQuestion,
                _ => unreachable!("lanes send the kinds that there are"),
            },
        }
    }
}

impl AnswerHead {
    fn encode(&self) -> [u8; ANSWER_HEADER] {
        let mut bytes = [0; ANSWER_HEADER];
        bytes[0..8].copy_from_slice(&self.target.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.slot.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.charge.to_le_bytes());
        bytes[14] = self.kind as u8;
        bytes
    }

    /// Reads an answer's head and the bytes behind it.
    pub(crate) fn decode(frame: &[u8]) -> (AnswerHead, &[u8]) {
        let head = AnswerHead {
            target: u64_at(frame, 0),
            slot: u32_at(frame, 8),
            charge: u16_at(frame, 12),
            kind: match frame[14] {
                0 => AnswerKind::Inline,
                1 => AnswerKind::Content,
                2 => AnswerKind::Granted,
                3 => AnswerKind::Refused,
                4 => AnswerKind::Results,
                5 => AnswerKind::Report,
                6 => AnswerKind::Exec,
                _ => unreachable!("lanes send the kinds that there are"),
            },
        };
        (head, &frame[ANSWER_HEADER..])
    }
}

impl ControlHead {
    fn encode(&self) -> [u8; CONTROL_SIZE] {
        let mut bytes = [0; CONTROL_SIZE];
        bytes[0..8].copy_from_slice(&self.target.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.round.to_le_bytes());
        bytes[12] = self.kind as u8;
        bytes
    }

    pub(crate) fn decode(frame: &[u8]) -> ControlHead {
        ControlHead {
            target: u64_at(frame, 0),
            round: u32_at(frame, 8),
            kind: match frame[12] {
                0 => ControlKind::Go,
                1 => ControlKind::Withdraw,
                2 => ControlKind::Handover,
                3 => ControlKind::Unwatch,
                4 => ControlKind::Slow,
                5 => ControlKind::Yield,
                6 => ControlKind::Lend,
                10 => ControlKind::Crowded,
                7 => ControlKind::Lines,
                8 => ControlKind::MonitorGone,
                9 => ControlKind::Stall,
                _ => unreachable!("lanes send the kinds that there are"),
            },
        }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// All of one lane's connections to the others.
pub struct Links {
    /// By the other's number; `None` at one's own. The control thread's number is the count of lanes.
    pub(crate) peers: Vec<Option<Peer>>,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Links {
    /// Where the others say that they have something; the runner declares sleep there.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }
}

/// How large the rings of each pair are, bytes.
struct Sizes {
    asks: usize,
    answers: usize,
    control: usize,
    /// Frames of the control ring that parts may reserve.
    control_frames: usize,
}

impl Sizes {
    /// The largest that stay within [`RINGS_SIZE_MAX`] for all pairs together, the control thread's included.
    fn of_server(lane_count: usize) -> Sizes {
        let pair_count = (lane_count + 1) * lane_count;
        let mut sizes = Sizes::of_pair(ASKS_SIZE_MAX);
        while ASKS_SIZE_MIN < sizes.asks && RINGS_SIZE_MAX < sizes.memory() * pair_count {
            sizes = Sizes::of_pair(sizes.asks / 2);
        }
        sizes
    }

    fn of_pair(asks: usize) -> Sizes {
        let control_frames = CONTROL_FRAMES_MAX.min(asks / ASKS_SIZE_PER_CONTROL_FRAME);
        // What is free is told up to half of the ring, less a header.
        let control = 2 * ((control_frames + TOLD_FRAMES_MIN) * frame_size(CONTROL_SIZE) + HEADER_SIZE);
        let control = control.next_power_of_two();
        Sizes { asks, answers: 2 * asks, control, control_frames }
    }

    /// Asks, answers, control: bytes, and the parcels that may be under way. As many as there are frames, so that room for
    /// a frame is room for its parcel; of answers as many as there is credit for at once.
    fn rings(&self) -> [(usize, usize); 3] {
        [
            (self.asks, self.asks / frame_size(ASK_HEADER)),
            (self.answers, self.answers / frame_size(ANSWER_HEADER + SHORT_SIZE)),
            (self.control, self.control / frame_size(CONTROL_SIZE)),
        ]
    }

    /// Bytes of memory behind one pair's rings.
    fn memory(&self) -> usize {
        self.rings().map(|(size, parcels)| memory_size::<Parcel>(size, parcels)).iter().sum()
    }
}

/// The rings between `lane_count` lanes and the control thread, whose links come last.
pub fn mesh(lane_count: usize) -> Vec<Links> {
    mesh_placed(lane_count, &mut |_| {})
}

/// The same. `place` is called with a lane's number before the memory of the rings that it reads, its mailbox and its
/// ends is taken and touched, so that a caller who moves to that lane's cpu gets pages of that cpu's node. The control
/// thread, the last number, has no cpu of its own.
pub fn mesh_placed(lane_count: usize, place: &mut dyn FnMut(usize)) -> Vec<Links> {
    let node_count = lane_count + 1;
    let sizes = Sizes::of_server(lane_count);
    let inline_size_max = INLINE_SIZE_MAX.min(payload_max(sizes.asks) / 4);
    let answer_credit = credit(sizes.answers, ANSWER_HEADER + inline_size_max);

    let mut mailboxes: Vec<Arc<Mailbox>> = Vec::new();
    let mut senders: Vec<Vec<Option<[Producer<Parcel>; 3]>>> = Vec::new();
    let mut receivers: Vec<Vec<Option<[Consumer<Parcel>; 3]>>> = Vec::new();
    for _ in 0..node_count {
        senders.push((0..node_count).map(|_| None).collect());
        receivers.push((0..node_count).map(|_| None).collect());
    }
    for to in 0..node_count {
        place(to);
        mailboxes.push(Arc::new(Mailbox::new()));
        for from in (0..node_count).filter(|&from| from != to) {
            let [asks, answers, control] = sizes.rings().map(|(size, parcels)| ring(size, parcels));
            senders[from][to] = Some([asks.0, answers.0, control.0]);
            receivers[to][from] = Some([asks.1, answers.1, control.1]);
        }
    }
    let rows = senders.into_iter().zip(receivers).enumerate();
    rows.map(|(me, (senders, receivers))| {
        place(me);
        let peers = senders.into_iter().zip(receivers).enumerate().map(|(other, ends)| {
            let (Some([asks, answers, control]), Some([asks_in, answers_in, control_in])) = ends else {
                return None;
            };
            Some(Peer {
                mailbox: Arc::clone(&mailboxes[other]),
                me,
                asks,
                answers,
                control,
                asks_in,
                answers_in,
                control_in,
                answer_credit,
                answer_credit_max: answer_credit,
                control_credit: sizes.control_frames,
                control_credit_max: sizes.control_frames,
                inline_size_max,
            })
        });
        Links { peers: peers.collect(), mailbox: Arc::clone(&mailboxes[me]) }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_stay_affordable() {
        let of_server = |lanes: usize| Sizes::of_server(lanes).memory() * (lanes + 1) * lanes;
        for lanes in 1..=95 {
            assert!(of_server(lanes) <= RINGS_SIZE_MAX, "{lanes} lanes: {} bytes", of_server(lanes));
        }
        let asks = [1, 8, 16, 32, 64, 94, 251].map(|lanes| Sizes::of_server(lanes).asks / 1024);
        assert_eq!(asks, [128, 128, 32, 8, 2, 1, 1]);
        let memory = [128, 32, 8, 2, 1].map(|asks| Sizes::of_pair(asks * 1024).memory());
        assert_eq!(memory, [533_632, 140_416, 42_112, 13_440, 7_296], "docs/rings.md tells these numbers");
        assert_eq!(of_server(251) >> 20, 440, "and this one");
    }

    /// At any number of lanes parts and handovers have room, wherever the ring's last frame ended; and a short answer is
    /// charged no more than a long one, which the slots for answers' parcels rely on.
    #[test]
    fn small_rings_carry_what_lanes_say() {
        let head = ControlHead { target: 0, round: 0, kind: ControlKind::Withdraw };
        for lanes in [1, 16, 32, 48, 64, 94] {
            let mut links = mesh(lanes);
            let (first, control) = links.split_at_mut(lanes);
            let peer = first[0].peers[lanes].as_mut().expect("the control thread is a peer");
            let other = control[0].peers[0].as_mut().expect("a lane is a peer");
            assert!(peer.charge(AnswerSize::Short) <= peer.charge(AnswerSize::Long));
            assert!(5 * usize::from(peer.charge(AnswerSize::Long)) <= peer.answer_credit_max);
            assert!(peer.can_prepare());
            for _ in 0..200 {
                for told in 0..TOLD_FRAMES_MIN {
                    assert!(peer.try_tell(head, &mut None), "{lanes} lanes, {told} told");
                }
                peer.publish();
                while other.control_in.peek().is_some() {
                    other.control_in.pop();
                }
                other.control_in.release();
            }
        }
    }

    /// Each lane's rings come after its place is taken, and so do its ends.
    #[test]
    fn memory_is_taken_lane_by_lane() {
        let mut places = Vec::new();
        let links = mesh_placed(2, &mut |lane| places.push(lane));
        assert_eq!(places, [0, 1, 2, 0, 1, 2]);
        assert_eq!(links.len(), 3, "the control thread's come last");
    }
}
