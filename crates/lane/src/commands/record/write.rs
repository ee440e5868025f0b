//! Writes of a record, with reads in between: the order of what is checked is that of Aerospike's `write.c`.
//!
//! A short record is put together and stored in one step. A long one is put together in slices, aside: until it is stored
//! those who read see the old one.

use store::{Budget, Effect, Expiry, Mark, NewValue, Rope, RopeBuilder};
use wire::aerospike::head::{info1, info2, info3};
use wire::aerospike::op::{kind, particle};
use wire::aerospike::reply::{Reply, put_end};
use wire::aerospike::{Code, TTL_MAX_S};

use super::bins::{Bins, Built, Parts};
use super::overwrite::overwritten;
use super::{
    Asked, Part, Record, Request, check_generation, each_piece, end_of, put_range, reads_all, reply_size_max,
    void_time,
};
use crate::commands::{Progress, State, Step};
use crate::keyspace::Keyspace;
use crate::replies::Sink;
use crate::request::{Arg, Args, FLAT_SIZE_MAX};

/// The generation behind this one: 1 again behind the last that 16 bits hold.
fn next_generation(generation: u64) -> u64 {
    if generation == u64::from(u16::MAX) { 1 } else { generation + 1 }
}

/// What is to become of a record.
struct Plan {
    change: Change,
    /// The number of its set, if it was there.
    set_number: Option<u16>,
    built: Built,
    reply: Reply,
}

enum Change {
    /// It gets another end and the next generation.
    Touch { generation: u64, expiry: Expiry },
    /// It is gone.
    Delete,
    /// It holds what was built.
    Set { mark: Mark, expiry: Expiry },
}

/// A record's new value under way.
pub(crate) struct Writing {
    plan: Plan,
    old: Old,
    builder: RopeBuilder,
    /// The part at hand, and bytes of it that are through.
    part: usize,
    at: usize,
}

/// The record as it was, for as long as its bytes are needed.
enum Old {
    None,
    Flat(Vec<u8>),
    Rope(Rope),
}

impl Old {
    fn of(value: Option<Arg<'_>>) -> Old {
        match value {
            None => Old::None,
            Some(Arg::Flat(bytes)) => Old::Flat(bytes.to_vec()),
            Some(Arg::Rope(rope)) => Old::Rope(rope.clone()),
        }
    }

    fn as_arg(&self) -> Arg<'_> {
        match self {
            Old::None => Arg::Flat(b""),
            Old::Flat(bytes) => Arg::Flat(bytes),
            Old::Rope(rope) => Arg::Rope(rope),
        }
    }

    /// Its rope may be the last to hold what it holds: it is freed in steps.
    fn retire(self, space: &mut Keyspace) {
        if let Old::Rope(rope) = self {
            space.shard.retire(rope);
        }
    }
}

/// Where parts are.
#[derive(Clone, Copy)]
struct Sources<'a> {
    old: Arg<'a>,
    args: Args<'a>,
    made: &'a [u8],
}

impl<'a> Sources<'a> {
    /// What holds a part, and where it begins there.
    fn find(&self, part: &Part) -> (Arg<'a>, usize) {
        match part {
            Part::Old(range) => (self.old, range.start),
            Part::Arg { index, start, .. } => (self.args.get(*index), *start),
            Part::Made(range) => (Arg::Flat(self.made), range.start),
        }
    }

    fn put_all(&self, parts: &Parts, sink: &mut Sink<'_>) {
        for part in &parts.parts {
            let (source, start) = self.find(part);
            put_range(sink, source, start..start + part.size());
        }
    }

    fn to_vec(self, parts: &Parts) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(parts.size);
        for part in &parts.parts {
            let (source, start) = self.find(part);
            let range = start..start + part.size();
            match source {
                Arg::Flat(flat) => bytes.extend_from_slice(&flat[range]),
                Arg::Rope(rope) => each_piece(rope, range, |piece| bytes.extend_from_slice(piece)),
            }
        }
        bytes
    }
}

/// A write, or the next slice of it.
pub(super) fn write(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let mut writing = match progress.state.take().map(|state| *state) {
        Some(State::Recording(writing)) => writing,
        _ => match begin(space, request, sink, budget) {
            Some(writing) => writing,
            None => return Step::Done,
        },
    };
    if !writing.advance(request.call.args, budget) {
        progress.state = Some(Box::new(State::Recording(writing)));
        return Step::More;
    }
    let Writing { plan, old, builder, .. } = writing;
    let Change::Set { mark, expiry } = plan.change else {
        unreachable!("only what is stored is put together")
    };
    let rope = builder.finish();
    let key = request.key(space);
    let code = match label(space, request, plan.set_number) {
        // Its lock keeps a record from everybody but a truncation of its set, which comes behind this write then.
        Ok(_) if plan.set_number.is_some() && space.shard.get(&key, i64::MIN).is_none() => {
            space.shard.retire(rope);
            Code::OK
        }
        Err(code) => {
            space.shard.retire(rope);
            code
        }
        Ok(label) => {
            let mark = Mark { flags: mark.flags | label, ..mark };
            let is_set = space.set_rope(key, rope, Some(mark), expiry);
            if is_set { Code::OK } else { Code::OUT_OF_SPACE }
        }
    };
    let sources = Sources { old: old.as_arg(), args: request.call.args, made: &plan.built.made };
    answer(request, &plan, code, &sources, sink);
    old.retire(space);
    Step::Done
}

/// Begins a write. What is short is over with it; else what is to be put together comes back.
fn begin(
    space: &mut Keyspace,
    request: &Request<'_>,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Option<Writing> {
    let key = request.key(space);
    let entry = space.get(&key);
    let record = entry.as_ref().map(Record::of);
    if let Some((value, bin_count)) = overwritten(request, record.as_ref()) {
        budget.spend(2 * bin_count, value.len());
        let set_number = record.as_ref().map(|record| record.set_number);
        let admitted = admit(space, request, record.as_ref(), false).and_then(|expiry| {
            check_size(space, value.len())?;
            Ok((Next::of(record.as_ref(), expiry, bin_count), expiry))
        });
        let stored = admitted.and_then(|(Next { mark, reply }, expiry)| {
            let mark = Mark { flags: mark.flags | label(space, request, set_number)?, ..mark };
            let value = NewValue::Bytes(&value);
            let stored = space.commit(Effect::SetDocument { key, value, mark, expiry });
            stored.map(|_| reply).map_err(|_| Code::OUT_OF_SPACE)
        });
        match stored {
            Ok(reply) => {
                reply.put_header(sink, &request.head);
                put_end(sink, &request.head);
            }
            Err(code) => request.say(sink, code),
        }
        return None;
    }
    if record.is_none() {
        space.lapse(&key);
    }
    let entry = space.get(&key);
    let record = entry.as_ref().map(Record::of);
    let plan = match plan(space, request, record.as_ref()) {
        Ok(plan) => plan,
        Err(code) => {
            request.say(sink, code);
            return None;
        }
    };
    let Built { record: parts, reply, bin_count, .. } = &plan.built;
    budget.spend(*bin_count + usize::from(request.head.op_count), parts.size.min(FLAT_SIZE_MAX));
    let value = record.as_ref().map(|record| record.value);
    if let Change::Set { .. } = plan.change
        && parts.size > FLAT_SIZE_MAX
    {
        let old = Old::of(value);
        return Some(Writing { plan, old, builder: RopeBuilder::new(), part: 0, at: 0 });
    }
    let made = &plan.built.made;
    let sources = Sources { old: value.unwrap_or(Arg::Flat(b"")), args: request.call.args, made };
    // What the reply has of the old record must outlive it.
    let shows_old = reply.parts.iter().any(|part| matches!(part, Part::Old(_)));
    let old = if shows_old { Old::of(value) } else { Old::None };
    let committed = match plan.change {
        Change::Delete => space.commit(Effect::Delete { key }),
        Change::Touch { generation, expiry } => {
            space.commit(Effect::Expire { key, at: expiry }).and_then(|_| {
                let mark = Effect::Mark { key, cas: generation, bits: 0 };
                space.commit(mark)
            })
        }
        Change::Set { mark, expiry } => {
            let bytes = sources.to_vec(parts);
            match label(space, request, plan.set_number) {
                Ok(label) => {
                    let mark = Mark { flags: mark.flags | label, ..mark };
                    let value = NewValue::Bytes(&bytes);
                    space.commit(Effect::SetDocument { key, value, mark, expiry })
                }
                Err(code) => {
                    request.say(sink, code);
                    old.retire(space);
                    return None;
                }
            }
        }
    };
    let code = if committed.is_ok() { Code::OK } else { Code::OUT_OF_SPACE };
    let sources = Sources { old: old.as_arg(), args: request.call.args, made };
    answer(request, &plan, code, &sources, sink);
    old.retire(space);
    None
}

/// Says what became of it.
fn answer(request: &Request<'_>, plan: &Plan, code: Code, sources: &Sources<'_>, sink: &mut Sink<'_>) {
    if code != Code::OK {
        return request.say(sink, code);
    }
    let Parts { size, .. } = plan.built.reply;
    let op_count = u16::try_from(plan.built.reply_count).expect("operations are few");
    Reply { op_count, size, ..plan.reply }.put_header(sink, &request.head);
    sources.put_all(&plan.built.reply, sink);
    put_end(sink, &request.head);
}

/// What becomes of a record, or why nothing does.
fn plan(space: &Keyspace, request: &Request<'_>, record: Option<&Record<'_>>) -> Result<Plan, Code> {
    let head = &request.head;
    let asked = request.asked()?;
    let is_each_answered = head.info2 & info2::RESPOND_ALL != 0;
    let replies_all = reads_all(request, &asked);
    let replaces = head.info3 & (info3::CREATE_OR_REPLACE | info3::REPLACE_ONLY) != 0;
    let is_of = |kinds: &[u8]| asked.iter().any(|asked| kinds.contains(&asked.op.kind));
    let deletes_a_bin = |asked: &Asked| {
        asked.op.kind == kind::DELETE_ALL
            || asked.op.kind == kind::WRITE && asked.op.particle == particle::NIL
    };
    let touches = is_of(&[kind::TOUCH]);
    let contradicts = asked.is_empty()
        || replies_all && is_each_answered
        || replaces
            && (is_of(&[kind::TOUCH, kind::INCR, kind::APPEND, kind::PREPEND])
                || asked.iter().any(deletes_a_bin));
    if contradicts {
        return Err(Code::PARAMETER);
    }
    let expiry = admit(space, request, record, touches)?;
    let mut bins = Bins::of(record, request.call.args);
    if replaces {
        bins.clear();
    }
    let is_silent = head.info1 & info1::NO_BINS != 0 || replies_all;
    bins.apply(&asked, is_each_answered, is_silent, reply_size_max(space))?;
    let stored_key = record.map_or(&b""[..], |record| record.user_key());
    let user_key = if stored_key.is_empty() { request.user_key() } else { stored_key };
    let is_changed = bins.is_changed || user_key != stored_key;
    let (count, set) = (bins.count(), request.set());
    let [set_size, ..] = set.len().to_le_bytes();
    let [key_low, key_high, ..] = user_key.len().to_le_bytes();
    let front = [&[set_size, key_low, key_high][..], set, user_key].concat();
    let built = bins.finish(&front, replies_all && head.info1 & info1::NO_BINS == 0);
    if count == 0 {
        // A record without bins is none.
        return match record {
            None => Err(Code::NOT_FOUND),
            Some(_) => Ok(Plan { change: Change::Delete, set_number: None, built, reply: Reply::default() }),
        };
    }
    check_size(space, built.record.size)?;
    let Next { mark, reply } = Next::of(record, expiry, count);
    let change = if is_changed || record.is_none() {
        Change::Set { mark, expiry }
    } else {
        Change::Touch { generation: mark.cas, expiry }
    };
    let set_number = record.map(|record| record.set_number);
    Ok(Plan { change, set_number, built, reply })
}

/// The number of a record's set, where its flags have it: a new record's may be a new one, for which there may be no room.
#[inline]
fn label(space: &mut Keyspace, request: &Request<'_>, set_number: Option<u16>) -> Result<u32, Code> {
    let number = match set_number {
        Some(number) => number,
        None => space.sets_of(request.call.db).number(request.set()).ok_or(Code::PARAMETER)?,
    };
    Ok(u32::from(number) << 16)
}

fn check_size(space: &Keyspace, size: usize) -> Result<(), Code> {
    if size as u64 > space.record_size_max { Err(Code::TOO_BIG) } else { Ok(()) }
}

/// What a record is beside its value, once more written, and what the reply says of it.
struct Next {
    mark: Mark,
    reply: Reply,
}

impl Next {
    fn of(record: Option<&Record<'_>>, expiry: Expiry, bin_count: usize) -> Next {
        let generation = next_generation(record.map_or(0, |record| record.generation));
        let expires_at_ms = match expiry {
            Expiry::At(at_ms) => Some(at_ms),
            Expiry::None => None,
            Expiry::Keep => record.and_then(|record| record.expires_at_ms),
        };
        let flags = u32::try_from(bin_count).expect("bins are few");
        Next {
            mark: Mark { cas: generation, bits: 0, flags },
            reply: Reply {
                generation: u32::try_from(generation).expect("generations have 16 bits"),
                void_time: void_time(expires_at_ms),
                ..Reply::default()
            },
        }
    }
}

/// Whether a record may be written that is as it is, and which end it gets.
fn admit(
    space: &Keyspace,
    request: &Request<'_>,
    record: Option<&Record<'_>>,
    touches: bool,
) -> Result<Expiry, Code> {
    let head = &request.head;
    let must_be_there = touches || head.info3 & (info3::UPDATE_ONLY | info3::REPLACE_ONLY) != 0;
    match record {
        None if must_be_there => return Err(Code::NOT_FOUND),
        Some(_) if head.info2 & info2::CREATE_ONLY != 0 => return Err(Code::EXISTS),
        _ => {}
    }
    check_generation(head, record.map_or(0, |record| record.generation))?;
    if let Some(record) = record {
        record.check_key(request.user_key())?;
        if record.set() != request.set() {
            return Err(Code::PARAMETER);
        }
    }
    let expiry = end_of(space, request.call.db, head.ttl, record.is_some());
    if matches!(expiry, Expiry::At(_)) && head.ttl > TTL_MAX_S && head.ttl < u32::MAX - 1 {
        return Err(Code::PARAMETER);
    }
    Ok(expiry)
}

impl Writing {
    /// Puts the next slice together; true when it is whole.
    fn advance(&mut self, args: Args<'_>, budget: &mut Budget) -> bool {
        let sources = Sources { old: self.old.as_arg(), args, made: &self.plan.built.made };
        while let Some(part) = self.plan.built.record.parts.get(self.part) {
            if budget.is_spent() {
                return false;
            }
            let (source, start) = sources.find(part);
            let size = (part.size() - self.at).min(budget.bytes as usize);
            let range = start + self.at..start + self.at + size;
            match source {
                Arg::Flat(flat) => self.builder.push(&flat[range]),
                Arg::Rope(rope) => each_piece(rope, range, |piece| self.builder.push(piece)),
            }
            budget.spend(1, size);
            self.at += size;
            if self.at == part.size() {
                (self.part, self.at) = (self.part + 1, 0);
            }
        }
        true
    }
}
