//! Records: bins of values under a digest, as Aerospike has them. How a request was framed is `wire`'s: here its head says
//! what to do, and a reply goes back.
//!
//! A record is a document whose CAS is its generation and whose flags count its bins, below the number of its set. Its value is what else there is:
//! ```text
//! set size u8 | key size u16 | set | key with its type | bins
//! ```
//! Bins are the operations that a reply to a read has, so that a read of all of them is a copy, or a reference to a long one.

mod bins;
mod compressed;
mod overwrite;
mod read;
mod scan;
mod write;

use std::ops::Range;

use store::{Budget, Effect, Entry, Expiry, Key, Rope, Value};
use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::{OP_FRONT_SIZE_MAX, OP_HEADER_SIZE, Op, kind, particle};
use wire::aerospike::reply::{self, Reply};
use wire::aerospike::{Code, EPOCH_S, HEAD, Head, OPS, SET, USER_KEY};
use wire::command::Id;
use wire::reply::Put;

use super::{Progress, Step};
use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;
use crate::request::Arg;

pub(crate) use compressed::DEFLATE_PER_TURN;
pub(crate) use scan::is_of_set;
pub(crate) use write::Writing;

/// Runs a command on records, or the next slice of it.
pub(super) fn run(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let request = Request { call, head: Head::from_bytes(call.args.flat(HEAD)) };
    if request.has(info1::COMPRESS) {
        return compressed::run(space, &request, progress, sink, budget);
    }
    run_plain(space, &request, progress, sink, budget)
}

fn run_plain(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    match request.call.command.id {
        Id::RecordGet => read::get(space, request, sink),
        Id::RecordWrite => return write::write(space, request, progress, sink, budget),
        Id::RecordDelete => delete(space, request, sink),
        Id::RecordScan => return scan::scan(space, request, progress, sink, budget),
        Id::RecordTruncate => return scan::truncate(space, request, progress, sink, budget),
        _ => unreachable!("the others are the connection's"),
    }
    Step::Done
}

/// A command on records.
struct Request<'a> {
    call: &'a Call<'a>,
    head: Head,
}

impl<'a> Request<'a> {
    fn key(&self, space: &Keyspace) -> Key<'a> {
        space.key(self.call, wire::aerospike::DIGEST)
    }

    /// An argument in one piece; empty when it is not there.
    fn arg(&self, index: usize) -> &'a [u8] {
        if index < self.call.args.len() { self.call.args.flat(index) } else { b"" }
    }

    /// The set's name.
    fn set(&self) -> &'a [u8] {
        self.arg(SET)
    }

    /// The key with its type, if the client has sent it.
    fn user_key(&self) -> &'a [u8] {
        self.arg(USER_KEY)
    }

    fn has(&self, info1: u8) -> bool {
        self.head.info1 & info1 != 0
    }

    /// What it asks to be done, in its order.
    fn asked(&self) -> Result<Vec<Asked>, Code> {
        let mut asked = Vec::with_capacity(usize::from(self.head.op_count));
        for index in OPS..self.call.args.len() {
            let source = self.call.args.get(index);
            let mut at = 0;
            while at < source.size() {
                let op = op_at(source, at)?;
                check_kind(op.kind)?;
                asked.push(Asked {
                    op,
                    value: Part::Arg { index, start: at + op.front_size(), size: op.value_size },
                });
                at += op.size();
            }
        }
        if asked.len() == usize::from(self.head.op_count) { Ok(asked) } else { Err(Code::PARAMETER) }
    }

    fn say(&self, sink: &mut Sink<'_>, code: Code) {
        reply::put_code(sink, &self.head, code);
    }
}

/// An operation of a request, and where its value is.
struct Asked {
    op: Op,
    value: Part,
}

/// Whether there is such an operation, and it is served.
fn check_kind(kind: u8) -> Result<(), Code> {
    match kind {
        kind::READ
        | kind::WRITE
        | kind::INCR
        | kind::APPEND
        | kind::PREPEND
        | kind::TOUCH
        | kind::DELETE_ALL => Ok(()),
        kind::CDT_READ
        | kind::CDT_MODIFY
        | kind::EXP_READ
        | kind::EXP_MODIFY
        | kind::BITS_READ
        | kind::BITS_MODIFY
        | kind::HLL_READ
        | kind::HLL_MODIFY => Err(Code::UNSUPPORTED),
        _ => Err(Code::PARAMETER),
    }
}

/// May a bin become what this operation writes?
fn is_bin(op: &Op) -> bool {
    let is_sized = match op.particle {
        particle::INTEGER | particle::FLOAT => op.value_size == 8,
        particle::BOOL => op.value_size == 1,
        particle => particle != particle::NIL,
    };
    is_sized && !op.name.is_empty()
}

/// Bytes of a record or reply, by where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// In the record as it was.
    Old(Range<usize>),
    /// In an argument.
    Arg { index: usize, start: usize, size: usize },
    /// In what was made meanwhile.
    Made(Range<usize>),
}

impl Part {
    fn size(&self) -> usize {
        match self {
            Part::Old(range) | Part::Made(range) => range.len(),
            Part::Arg { size, .. } => *size,
        }
    }
}

/// The operation that begins at `at`.
fn op_at(source: Arg<'_>, at: usize) -> Result<Op, Code> {
    let left = source.size() - at;
    let front_size = left.min(OP_FRONT_SIZE_MAX);
    if front_size < OP_HEADER_SIZE {
        return Err(Code::PARAMETER);
    }
    match source {
        Arg::Flat(bytes) => Op::parse(&bytes[at..at + front_size], left),
        Arg::Rope(rope) => {
            let mut front = [0; OP_FRONT_SIZE_MAX];
            rope.copy_to(at, &mut front[..front_size]);
            Op::parse(&front[..front_size], left)
        }
    }
}

/// Bytes that a reply about one record may have: a request may name a bin many times.
fn reply_size_max(space: &Keyspace) -> usize {
    usize::try_from(space.record_size_max.saturating_mul(4)).unwrap_or(usize::MAX)
}

/// A range of a rope up to this size is copied into the reply; a longer one is sent by reference.
const COPY_SIZE_MAX: usize = 16 * 1024;

/// Writes bytes of a record or an argument.
fn put_range(sink: &mut Sink<'_>, source: Arg<'_>, range: Range<usize>) {
    match source {
        Arg::Flat(bytes) => sink.put(&bytes[range]),
        Arg::Rope(rope) if range.len() > COPY_SIZE_MAX => sink.put_rope(rope.clone(), range),
        Arg::Rope(rope) => each_piece(rope, range, |bytes| sink.put(bytes)),
    }
}

/// A range of a rope, piece by piece.
fn each_piece(rope: &Rope, range: Range<usize>, mut take: impl FnMut(&[u8])) {
    let mut at = range.start;
    while at < range.end {
        let (chunk, here) = rope.cursor(at).expect("the range lies within the rope");
        let size = here.len().min(range.end - at);
        take(&(*chunk).as_ref()[here.start..here.start + size]);
        at += size;
    }
}

/// A record as it is stored.
#[derive(Clone, Copy)]
struct Record<'a> {
    value: Arg<'a>,
    generation: u64,
    bin_count: u32,
    /// Of its set, see [`crate::sets::Sets::number`].
    set_number: u16,
    expires_at_ms: Option<i64>,
    set_size: usize,
    key_size: usize,
}

/// Bytes of a record in front of its set.
const FRONT_HEADER_SIZE: usize = 3;

impl<'a> Record<'a> {
    fn of(entry: &Entry<'a>) -> Record<'a> {
        let value = match entry.value() {
            Value::Bytes(bytes) => Arg::Flat(bytes),
            Value::Rope(rope) => Arg::Rope(rope),
            Value::Int(_) => unreachable!("a record begins with a size, and is no number"),
        };
        let mark = entry.mark().expect("all there is in a database of records are records");
        let front: [u8; FRONT_HEADER_SIZE] =
            *contiguous(value).first_chunk().expect("a record has sizes in front");
        Record {
            value,
            generation: mark.cas,
            bin_count: mark.flags & 0xffff,
            set_number: mark.label(),
            expires_at_ms: entry.expires_at(),
            set_size: usize::from(front[0]),
            key_size: usize::from(u16::from_le_bytes([front[1], front[2]])),
        }
    }

    fn set(&self) -> &'a [u8] {
        &contiguous(self.value)[FRONT_HEADER_SIZE..][..self.set_size]
    }

    fn user_key(&self) -> &'a [u8] {
        &contiguous(self.value)[FRONT_HEADER_SIZE + self.set_size..][..self.key_size]
    }

    /// Where its bins are.
    fn bins(&self) -> Range<usize> {
        FRONT_HEADER_SIZE + self.set_size + self.key_size..self.value.size()
    }

    /// Whether it was stored with another key than this one, which a client may leave out.
    fn check_key(&self, user_key: &[u8]) -> Result<(), Code> {
        let is_other = !user_key.is_empty() && self.key_size > 0 && self.user_key() != user_key;
        if is_other { Err(Code::KEY_MISMATCH) } else { Ok(()) }
    }

    /// What a reply says of it.
    fn reply(&self) -> Reply {
        let generation = u32::try_from(self.generation).expect("generations have 16 bits");
        Reply { generation, void_time: void_time(self.expires_at_ms), ..Reply::default() }
    }

    fn op_count(&self) -> u16 {
        u16::try_from(self.bin_count).expect("bins are few")
    }
}

/// The bytes at the front of a record that are in one piece: all that is before its bins.
fn contiguous(value: Arg<'_>) -> &[u8] {
    match value {
        Arg::Flat(bytes) => bytes,
        Arg::Rope(rope) => (**rope.chunk(0)).as_ref(),
    }
}

/// An end in seconds as clients know it; 0 is none.
fn void_time(expires_at_ms: Option<i64>) -> u32 {
    expires_at_ms.map_or(0, |at_ms| u32::try_from(at_ms / 1000 - EPOCH_S).unwrap_or(u32::MAX).max(1))
}

/// The end of a record of a database that gets this time to live now; `is_there` tells whether it has one that it may keep.
fn end_of(space: &Keyspace, db: u16, ttl: u32, is_there: bool) -> Expiry {
    /// Never.
    const NEVER: u32 = u32::MAX;
    /// As it is.
    const KEEP: u32 = u32::MAX - 1;
    let ttl_s = match ttl {
        NEVER => return Expiry::None,
        KEEP if is_there => return Expiry::Keep,
        0 | KEEP => space.namespace(db).default_ttl_s,
        ttl_s => ttl_s,
    };
    // Ends are whole seconds, as the void times that clients are told.
    let now_s = space.now.unix_ms.div_euclid(1000);
    if ttl_s == 0 { Expiry::None } else { Expiry::At((now_s + i64::from(ttl_s)) * 1000) }
}

/// Whether a record that has this generation, or none because it is to be made, is the one that is meant.
fn check_generation(head: &Head, generation: u64) -> Result<(), Code> {
    let wanted = u64::from(head.generation);
    let is_wrong = head.info2 & info2::GENERATION_EQUAL != 0 && wanted != generation
        || head.info2 & info2::GENERATION_GREATER != 0 && wanted <= generation;
    if is_wrong { Err(Code::GENERATION) } else { Ok(()) }
}

fn delete(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let found = space.get(&key).map(|entry| Record::of(&entry));
    let checked = match found {
        _ if request.head.info2 & info2::DURABLE_DELETE != 0 => Err(Code::ENTERPRISE_ONLY),
        None => Err(Code::NOT_FOUND),
        Some(record) => check_generation(&request.head, record.generation)
            .and_then(|()| record.check_key(request.user_key())),
    };
    if checked.is_ok() {
        space.commit(Effect::Delete { key }).expect("deleting takes no memory");
    }
    request.say(sink, checked.err().unwrap_or(Code::OK));
}

/// Whether a reply has all bins: a read of all, or one without a name.
fn reads_all(request: &Request<'_>, asked: &[Asked]) -> bool {
    request.has(info1::GET_ALL)
        || asked.iter().any(|asked| asked.op.kind == kind::READ && asked.op.name.is_empty())
}
