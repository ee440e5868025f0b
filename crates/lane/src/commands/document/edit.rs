//! Commands on documents that may take several steps: bytes before or behind a value, and the end of all documents.

use std::ops::Range;

use store::{Budget, CHUNK_SIZE, Effect, Expiry, Mark, NewValue, RopeBuilder, Value};
use wire::couchbase;
use wire::memcached::{self, Outcome, Say, Verb};

use super::{DATATYPE, Request, lock, mark_of};
use crate::commands::range::{builder_of, copy_slice};
use crate::commands::{Progress, State, Step, database};
use crate::keyspace::Keyspace;
use crate::replies::Sink;
use crate::request::Arg;

/// `append` and `prepend`. Short values are joined in one step, and a few bytes go behind a long one where it is; else the chunks in
/// front are shared and those behind copied, a slice at a time, aside.
pub(super) fn edit(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let key = request.key(space);
    space.lapse(&key);
    let head = &request.head;
    // Its later steps are the same command.
    if progress.state.is_none() {
        space.documents.tally.store_count += 1;
    }
    let found = space.get(&key).map(|entry| (mark_of(&entry), entry.value()));
    let added = request.call.args.get(memcached::VALUE);
    let Some((old, value)) = found else {
        request.say(sink, &Outcome::NotStored);
        return Step::Done;
    };
    if !lock::lets(space, &key, old, head) {
        request.say(sink, &Outcome::Say(Say::Locked));
        return Step::Done;
    }
    if head.cas != 0 && head.cas != old.cas {
        request.say(sink, &Outcome::Exists);
        return Step::Done;
    }
    let size = (value.len() + added.size()) as u64;
    if request.is_of_couchbase() {
        if size > couchbase::VALUE_SIZE_MAX {
            request.say(sink, &Outcome::Say(Say::TooLarge));
            return Step::Done;
        }
    } else if memcached::item_size(key.bytes.len(), old.flags, size) > space.documents.item_size_max {
        request.say(sink, &Outcome::NotStored);
        return Step::Done;
    }
    let digits;
    let value = match value {
        Value::Int(number) => {
            digits = wire::number::format_i64(number);
            Value::Bytes(digits.as_bytes())
        }
        other => other,
    };
    let is_behind = head.verb == Verb::Append;
    let joined = match (value, added) {
        (Value::Bytes(old), Arg::Flat(added)) => {
            budget.spend(1, old.len() + added.len());
            let pieces = if is_behind { [old, added] } else { [added, old] };
            Joined::Bytes(pieces.concat())
        }
        (Value::Rope(rope), Arg::Flat(added)) if is_behind => Joined::Behind(rope.len(), added),
        (value, added) => {
            let (front, back) =
                if is_behind { (of_value(value), of_arg(added)) } else { (of_arg(added), of_value(value)) };
            let mut builder = match progress.state.take().map(|state| *state) {
                Some(State::Writing(builder)) => builder,
                _ => front.begin(),
            };
            let is_whole = match back {
                Part::Bytes(bytes) => {
                    builder.push(bytes);
                    true
                }
                Part::Rope(rope) => copy_slice(&mut builder, front.len(), rope, &mut progress.at, budget),
            };
            if !is_whole {
                progress.state = Some(Box::new(State::Writing(builder)));
                return Step::More;
            }
            Joined::Rope(builder)
        }
    };
    let cas = space.documents.next_cas();
    // It is a new document in what has happened to it since it was stored, and hardly JSON any more.
    let mark = Mark { cas, flags: old.flags, bits: old.bits & DATATYPE & !couchbase::JSON };
    let is_set = match joined {
        Joined::Bytes(bytes) => {
            let value = NewValue::Bytes(&bytes);
            space.commit(Effect::SetDocument { key, value, mark, expiry: Expiry::Keep }).is_ok()
        }
        Joined::Rope(builder) => space.set_rope(key, builder.finish(), Some(mark), Expiry::Keep),
        Joined::Behind(offset, bytes) => {
            let is_written =
                bytes.is_empty() || space.commit(Effect::SetRange { key, offset, bytes }).is_ok();
            is_written && space.commit(Effect::Mark { key, cas, bits: mark.bits }).is_ok()
        }
    };
    let outcome = if is_set { Outcome::Stored { cas } } else { Outcome::Say(Say::OutOfMemory) };
    request.say(sink, &outcome);
    Step::Done
}

enum Joined<'a> {
    Bytes(Vec<u8>),
    Rope(RopeBuilder),
    /// These bytes, behind so many that stay.
    Behind(usize, &'a [u8]),
}

/// What stands in front or behind.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Bytes(&'a [u8]),
    Rope(&'a store::Rope),
}

fn of_value(value: Value<'_>) -> Part<'_> {
    match value {
        Value::Bytes(bytes) => Part::Bytes(bytes),
        Value::Rope(rope) => Part::Rope(rope),
        Value::Int(_) => unreachable!("numbers are written out before"),
    }
}

pub(super) fn of_arg(arg: Arg<'_>) -> Part<'_> {
    match arg {
        Arg::Flat(bytes) => Part::Bytes(bytes),
        Arg::Rope(rope) => Part::Rope(rope),
    }
}

impl<'a> Part<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Rope(rope) => rope.len(),
        }
    }

    /// The first bytes of a range, as many as lie in one piece.
    pub(super) fn piece(self, range: Range<usize>) -> &'a [u8] {
        match self {
            Part::Bytes(bytes) => &bytes[range],
            Part::Rope(rope) => {
                let chunk = rope.chunk(range.start / CHUNK_SIZE).as_ref().as_ref();
                let start = range.start % CHUNK_SIZE;
                &chunk[start..chunk.len().min(start + range.len())]
            }
        }
    }

    fn begin(&self) -> RopeBuilder {
        match self {
            Part::Bytes(bytes) => builder_of(bytes),
            Part::Rope(rope) => RopeBuilder::of(rope),
        }
    }
}

/// `flush_all` on this lane: now, some partitions a step, or all at once when the time has come.
pub(super) fn flush(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let db = request.call.db;
    let now_s = u64::try_from(space.now.unix_ms / 1000).unwrap_or(0);
    let at_ms = match memcached::expiry(request.head.exptime, now_s) {
        memcached::Expiry::At(at_s) => i64::try_from(at_s).ok().and_then(|at_s| at_s.checked_mul(1000)),
        memcached::Expiry::Never | memcached::Expiry::Past => {
            if database::flush_partitions(space, db..db + 1, progress, budget) == Step::More {
                return Step::More;
            }
            None
        }
    };
    match at_ms {
        Some(at_ms) => space.documents.flush_at_ms.insert(db, at_ms),
        None => space.documents.flush_at_ms.remove(&db),
    };
    space.documents.tally.flush_count += 1;
    request.say(sink, &Outcome::Ok);
    Step::Done
}
