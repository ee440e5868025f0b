//! Frames that lanes exchange, byte by byte. They are little-endian.
//! ```text
//! ask       0 client u64 | 8 slot u32 | 12 charge u16 | 14 db u16 | 16 id u16 | 18 key slot u16 | 20 proto u8 | 21 kind u8
//!           | 22 count u16 | 24 count × (end u32) | bytes of the arguments, from which ends are counted
//! answer    0 for u64 | 8 slot u32 | 12 charge u16 | 14 kind u8 | 15 – | 16 bytes of the reply
//! granted   … | 16 part u64 | 24 at i64 | 32 end of what is watched i64 | 40 dirty u8 | 41 no room u8
//! control   0 part, client or message u64 (of a handover: 1 by auto-pin, 0 by load)
//!           | 8 round u32 (of a handover: dialect; of a message: receivers; of a replica: bytes) | 12 kind u8 | 13 – to 16
//! ```

use std::sync::Arc;

use net::Handover;

use crate::acl::Denial;
use crate::admin::{Order, Question, Report};
use crate::feed::Record;
use crate::pubsub::Message;
use crate::replies::Content;
use crate::request::{Args, Request};
use crate::timing::{Slow, Stall};
use crate::tracking::News;
use crate::transaction::{Go, Grant, Prepare, Results, Transaction};

pub(super) const ASK_HEADER: usize = 24;
/// Bytes that say where an argument ends.
const END_SIZE: usize = 4;
pub(super) const ANSWER_HEADER: usize = 16;
pub(super) const CONTROL_SIZE: usize = 16;

/// An owned object that moves to another lane with a frame.
pub(crate) enum Parcel {
    /// A reply too long for its frame.
    Content(Box<Content>),
    /// A command too long for its frame.
    Request(Box<Request>),
    /// A transaction that begins on the lane that owns its keys.
    Transaction(Box<Transaction>),
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
    /// What a script has said by redis.log: the level and the text.
    Said(Box<(u8, Vec<u8>)>),
    /// What a user may not do, for the control thread's log.
    Denial(Box<Denial>),
    /// What is said on a channel.
    Message(Arc<Message>),
    /// A command for the control thread.
    Question(Box<Question>),
    /// What a lane has changed, for replicas.
    Record(Box<Record>),
    /// Of keys that have changed, or that clients want to know of.
    News(Box<News>),
    /// How far a replica has come, as an offset in the stream; or how many have come so far.
    Offset(Box<u64>),
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
    /// A whole transaction.
    Transaction = 6,
    /// A message of a client for a channel of the other lane.
    Publish = 7,
    /// As `Inline`, on behalf of a client that tracks keys.
    Tracked = 8,
    /// As `Request`, likewise.
    TrackedRequest = 9,
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
    /// A transaction that was sent, and needs other lanes, too.
    GivenBack = 7,
    /// None yet: the client waits, and its credit does not.
    Later = 8,
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
    /// As `Yield`, for a command that waits: who has nothing says so.
    Need = 11,
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
    /// The table of queues lacks one.
    UnknownQueue = 12,
    /// A script has said something.
    Said = 13,
    /// Hand this message to your clients; the target is how its sender knows it.
    Message = 14,
    /// So many of them have got it.
    Receivers = 15,
    /// A transaction's message for a channel of yours.
    Publish = 16,
    /// So many clients have got it.
    Published = 17,
    /// Of keys that clients track.
    News = 30,
    /// What a lane has changed, for replicas.
    Record = 18,
    /// A replica has said how far it has come.
    Acked = 19,
    /// So many bytes for a replica have left its lane.
    Taken = 20,
    /// A replica has gone.
    ReplicaGone = 21,
    /// A client has gone that said WAIT.
    WaiterGone = 22,
    /// So many replicas have what a client waits for; the round is the place of its reply.
    Waited = 23,
    /// A connection of this program's own.
    Inner = 24,
    /// The reply to a command that was put off; likewise.
    Answered = 25,
    /// A user may not do what a client wanted.
    Denied = 26,
}

/// In an ask's protocol, on behalf of a client that tracks keys: what it reads is remembered; what it changes it is not told.
pub(crate) const TRACKED_READS: u8 = 0x80;
/// See [`TRACKED_READS`].
pub(crate) const TRACKED_QUIET: u8 = 0x40;

/// Bytes of an ask beside its head, with so many arguments of `size` bytes together.
#[inline]
pub(super) fn args_size(count: usize, size: usize) -> usize {
    END_SIZE * count + size
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
    /// Of a client's watching; of a handover what is spoken on it; of a message that was handed out to how many; of what a replica has
    /// taken the bytes; of who waited the place of the reply; 0 otherwise.
    pub(crate) round: u32,
    pub(crate) kind: ControlKind,
}

impl AskHead {
    #[inline]
    pub(super) fn encode(&self, count: u16) -> [u8; ASK_HEADER] {
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

    /// Reads an ask's head, and the arguments behind it.
    #[inline]
    pub(crate) fn decode(frame: &[u8]) -> (AskHead, Args<'_>) {
        let (head, behind) = frame.split_first_chunk::<ASK_HEADER>().expect("an ask begins with its head");
        let (ends, bytes) = behind.split_at(END_SIZE * usize::from(u16_at(head, 22)));
        let args = Args::Frame { ends: ends.as_chunks().0, bytes };
        let head = AskHead {
            client: u64_at(head, 0),
            slot: u32_at(head, 8),
            charge: u16_at(head, 12),
            db: u16_at(head, 14),
            id: u16_at(head, 16),
            key_slot: u16_at(head, 18),
            proto: head[20],
            kind: match head[21] {
                0 => AskKind::Inline,
                1 => AskKind::Request,
                2 => AskKind::Prepare,
                3 => AskKind::Order,
                4 => AskKind::Question,
                5 => AskKind::ExecQuestion,
                6 => AskKind::Transaction,
                7 => AskKind::Publish,
                8 => AskKind::Tracked,
                9 => AskKind::TrackedRequest,
                _ => unreachable!("lanes send the kinds that there are"),
            },
        };
        (head, args)
    }

    /// Writes the head and the arguments behind it into a frame of so many bytes as they take.
    #[inline]
    pub(super) fn encode_with(&self, args: Args<'_>, frame: &mut [u8]) {
        let count = u16::try_from(args.len()).expect("inline arguments are few");
        let (head, behind) =
            frame.split_first_chunk_mut::<ASK_HEADER>().expect("an ask begins with its head");
        *head = self.encode(count);
        let (ends, mut bytes) = behind.split_at_mut(END_SIZE * usize::from(count));
        let (mut ends, mut end) = (ends.as_chunks_mut().0.iter_mut(), 0_u32);
        args.each_flat(|arg| {
            end += u32::try_from(arg.len()).expect("inline arguments are short");
            *ends.next().expect("an end for each argument") = end.to_le_bytes();
            bytes.split_off_mut(..arg.len()).expect("room for each argument").copy_from_slice(arg);
        });
    }
}

impl AnswerHead {
    #[inline]
    pub(super) fn encode(&self) -> [u8; ANSWER_HEADER] {
        let mut bytes = [0; ANSWER_HEADER];
        bytes[0..8].copy_from_slice(&self.target.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.slot.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.charge.to_le_bytes());
        bytes[14] = self.kind as u8;
        bytes
    }

    /// Reads an answer's head and the bytes behind it.
    #[inline]
    pub(crate) fn decode(frame: &[u8]) -> (AnswerHead, &[u8]) {
        let (head, bytes) =
            frame.split_first_chunk::<ANSWER_HEADER>().expect("an answer begins with its head");
        let head = AnswerHead {
            target: u64_at(head, 0),
            slot: u32_at(head, 8),
            charge: u16_at(head, 12),
            kind: match head[14] {
                0 => AnswerKind::Inline,
                1 => AnswerKind::Content,
                2 => AnswerKind::Granted,
                3 => AnswerKind::Refused,
                4 => AnswerKind::Results,
                5 => AnswerKind::Report,
                6 => AnswerKind::Exec,
                7 => AnswerKind::GivenBack,
                8 => AnswerKind::Later,
                _ => unreachable!("lanes send the kinds that there are"),
            },
        };
        (head, bytes)
    }
}

impl ControlHead {
    pub(super) fn encode(&self) -> [u8; CONTROL_SIZE] {
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
                11 => ControlKind::Need,
                10 => ControlKind::Crowded,
                7 => ControlKind::Lines,
                8 => ControlKind::MonitorGone,
                9 => ControlKind::Stall,
                12 => ControlKind::UnknownQueue,
                13 => ControlKind::Said,
                14 => ControlKind::Message,
                15 => ControlKind::Receivers,
                16 => ControlKind::Publish,
                17 => ControlKind::Published,
                30 => ControlKind::News,
                18 => ControlKind::Record,
                19 => ControlKind::Acked,
                20 => ControlKind::Taken,
                21 => ControlKind::ReplicaGone,
                22 => ControlKind::WaiterGone,
                23 => ControlKind::Waited,
                24 => ControlKind::Inner,
                25 => ControlKind::Answered,
                26 => ControlKind::Denied,
                _ => unreachable!("lanes send the kinds that there are"),
            },
        }
    }
}

/// Bytes behind the head of an answer that grants.
const GRANT_SIZE: usize = 26;

/// What is behind the head of an answer that grants: the part and what it has found.
pub(super) fn encode_grant(part: u64, grant: Grant) -> [u8; GRANT_SIZE] {
    let mut bytes = [0; GRANT_SIZE];
    bytes[0..8].copy_from_slice(&part.to_le_bytes());
    bytes[8..16].copy_from_slice(&grant.at_ms.to_le_bytes());
    bytes[16..24].copy_from_slice(&grant.end_ms.to_le_bytes());
    (bytes[24], bytes[25]) = (u8::from(grant.is_dirty), u8::from(grant.lacks_room));
    bytes
}

/// The inverse of [`encode_grant`].
pub(crate) fn decode_grant(bytes: &[u8]) -> (u64, Grant) {
    let bytes = bytes.first_chunk::<GRANT_SIZE>().expect("a grant has its size");
    let grant = Grant {
        is_dirty: bytes[24] != 0,
        lacks_room: bytes[25] != 0,
        at_ms: u64_at(bytes, 8).cast_signed(),
        end_ms: u64_at(bytes, 16).cast_signed(),
    };
    (u64_at(bytes, 0), grant)
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}
