//! Parts of a string: its end, a range, its length.
//!
//! What comes in one piece is written in one step, in place. What comes as a rope is written in slices, aside: the old
//! value's chunks are shared, those that change are copied, and the whole is stored at the end in one effect. So a
//! reader sees the old value or the new one, and a lack of memory leaves the old one as it was.

use std::ops::Range;

use store::{Budget, CHUNK_SIZE, Effect, Expiry, Rope, RopeBuilder, Value};
use wire::number::parse_i64;
use wire::reply::{self, Put};

use super::NOT_AN_INTEGER;
use super::string::new_value;
use super::{Progress, State, Step};
use crate::keyspace::{Call, Keyspace, OOM};
use crate::replies::Sink;
use crate::request::Arg;

pub(super) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
/// A range of a rope up to this size is copied into the reply; a longer one is sent by reference, and keeps the whole
/// rope alive until the client has read it.
const COPY_SIZE_MAX: usize = 16 * 1024;

fn integer(size: usize) -> i64 {
    i64::try_from(size).expect("a string is at most 8 GiB")
}

pub(crate) fn strlen(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    let size = space.look_up(&key).map_or(0, |entry| entry.value().len());
    reply::integer(sink, integer(size));
}

pub(crate) fn append(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if progress.state.is_some() {
        return write_slice(space, call, progress, sink, budget);
    }
    let key = space.key(call, 1);
    let added = call.args.get(2);
    space.lapse(&key);
    let Some(size) = space.read(&key).map(|entry| entry.value().len()) else {
        match space.commit(Effect::Set { key, value: new_value(added), expiry: Expiry::None }) {
            Ok(_) => reply::integer(sink, integer(added.size())),
            Err(_) => reply::error(sink, OOM),
        }
        return Step::Done;
    };
    if space.exceeds(size, added.size()) {
        reply::error(sink, TOO_LONG);
        return Step::Done;
    }
    if added.size() == 0 {
        // Redis counts it though nothing is changed by it.
        space.shard.count_changes(1);
    }
    write(space, call, progress, sink, budget, size, added)
}

/// SETRANGE key offset value.
pub(crate) fn setrange(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if progress.state.is_some() {
        return write_slice(space, call, progress, sink, budget);
    }
    let key = space.key(call, 1);
    let value = call.args.get(3);
    let Some(offset) = parse_i64(call.args.flat(2)) else {
        reply::error(sink, NOT_AN_INTEGER);
        return Step::Done;
    };
    let Ok(offset) = usize::try_from(offset) else {
        reply::error(sink, "ERR offset is out of range");
        return Step::Done;
    };
    space.lapse(&key);
    if value.size() == 0 {
        let size = space.read(&key).map_or(0, |entry| entry.value().len());
        reply::integer(sink, integer(size));
        return Step::Done;
    }
    if space.exceeds(offset, value.size()) {
        reply::error(sink, TOO_LONG);
        return Step::Done;
    }
    write(space, call, progress, sink, budget, offset, value)
}

/// Puts `value` at `offset` into the string, and answers its new length.
fn write(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
    offset: usize,
    value: Arg<'_>,
) -> Step {
    let key = space.key(call, 1);
    let size = space.get(&key).map_or(0, |entry| entry.value().len());
    // Zeros between the string's end and the value are in no argument.
    if !space.may_grow(offset.saturating_sub(size)) {
        reply::error(sink, OOM);
        return Step::Done;
    }
    match value {
        Arg::Flat(bytes) => {
            budget.spend(1, bytes.len());
            match space.commit(Effect::SetRange { key, offset, bytes }) {
                Ok(_) => reply::integer(sink, integer(size.max(offset + bytes.len()))),
                Err(_) => reply::error(sink, OOM),
            }
            Step::Done
        }
        Arg::Rope(_) => {
            let mut builder = match space.get(&key).map(|entry| entry.value()) {
                None => RopeBuilder::new(),
                Some(Value::Rope(rope)) => RopeBuilder::of(rope),
                Some(Value::Bytes(bytes)) => builder_of(bytes),
                Some(Value::Int(number)) => builder_of(wire::number::format_i64(number).as_bytes()),
            };
            if builder.len() < offset {
                builder.pad(offset);
            }
            progress.count = integer(offset);
            progress.state = Some(Box::new(State::Writing(builder)));
            write_slice(space, call, progress, sink, budget)
        }
    }
}

pub(super) fn builder_of(bytes: &[u8]) -> RopeBuilder {
    let mut builder = RopeBuilder::new();
    builder.push(bytes);
    builder
}

/// The next slice of the last argument, a rope, goes into the new value. `progress.at` counts its bytes, from
/// `progress.count` in the new value on.
fn write_slice(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let (Some(State::Writing(builder)), Arg::Rope(rope)) =
        (progress.state.as_deref_mut(), call.args.get(call.args.len() - 1))
    else {
        unreachable!("only a rope is written in slices")
    };
    let base = usize::try_from(progress.count).expect("offsets are not negative");
    if !copy_slice(builder, base, rope, &mut progress.at, budget) {
        return Step::More;
    }
    let Some(State::Writing(builder)) = progress.state.take().map(|state| *state) else {
        unreachable!("just written to")
    };
    let size = builder.len();
    let key = space.key(call, 1);
    if space.set_rope(key, builder.finish(), None, Expiry::Keep) {
        reply::integer(sink, integer(size));
    } else {
        reply::error(sink, OOM);
    }
    Step::Done
}

/// Copies the next slice of a rope into a value under construction, from `base` on; `at` counts its bytes. True at its end.
pub(super) fn copy_slice(
    builder: &mut RopeBuilder,
    base: usize,
    rope: &Rope,
    at: &mut u64,
    budget: &mut Budget,
) -> bool {
    let place = |at: u64| usize::try_from(at).expect("an offset in a string");
    while place(*at) < rope.len() {
        if budget.is_spent() {
            return false;
        }
        let from = place(*at);
        let bytes = &rope.chunk(from / CHUNK_SIZE).as_ref().as_ref()[from % CHUNK_SIZE..];
        let piece = &bytes[..bytes.len().min(budget.bytes as usize)];
        builder.write(base + from, piece);
        budget.spend(1, piece.len());
        *at += piece.len() as u64;
    }
    true
}

/// GETRANGE and SUBSTR key start end.
pub(crate) fn getrange(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let (Some(start), Some(end)) = (parse_i64(call.args.flat(2)), parse_i64(call.args.flat(3))) else {
        return reply::error(sink, NOT_AN_INTEGER);
    };
    let key = space.key(call, 1);
    let Some(value) = space.look_up(&key).map(|entry| entry.value()) else { return reply::bulk(sink, b"") };
    let range = clamp(start, end, value.len());
    match value {
        Value::Bytes(bytes) => reply::bulk(sink, &bytes[range]),
        Value::Int(number) => reply::bulk(sink, &wire::number::format_i64(number).as_bytes()[range]),
        Value::Rope(rope) => put_range(sink, rope, range),
    }
}

/// The range that GETRANGE's numbers mean in a string of `size` bytes: negative ones count from its end, `end` is
/// included, and what lies outside is cut off.
fn clamp(start: i64, end: i64, size: usize) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let size = integer(size);
    let from_start = |index: i64| if index < 0 { index.saturating_add(size).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(size - 1));
    if start > end {
        return 0..0;
    }
    let place = |index: i64| usize::try_from(index).expect("clamped into the string");
    place(start)..place(end + 1)
}

/// Writes a range of a rope as a bulk.
fn put_range(sink: &mut Sink<'_>, rope: &Rope, range: Range<usize>) {
    reply::bulk_header(sink, range.len());
    if range.len() > COPY_SIZE_MAX {
        sink.put_rope(rope.clone(), range);
    } else {
        let mut at = range.start;
        while at < range.end {
            let bytes = &rope.chunk(at / CHUNK_SIZE).as_ref().as_ref()[at % CHUNK_SIZE..];
            let bytes = &bytes[..bytes.len().min(range.end - at)];
            sink.put(bytes);
            at += bytes.len();
        }
    }
    reply::bulk_end(sink);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped_as_in_redis() {
        let check = |start, end, want: &str| {
            assert_eq!(&"This is a string"[clamp(start, end, 16)], want, "{start} {end}");
        };
        check(0, 3, "This");
        check(-3, -1, "ing");
        check(0, -1, "This is a string");
        check(10, 100, "string");
        check(5, 3, "");
        check(-5, -10, "");
        check(-100, 3, "This");
        check(-100, -50, "T");
        check(16, 20, "");
        check(i64::MIN, i64::MAX, "This is a string");
        check(i64::MAX, i64::MIN, "");
        assert_eq!(clamp(0, -1, 0), 0..0);
    }
}
