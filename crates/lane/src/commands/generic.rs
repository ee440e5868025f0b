//! Keys of any type.

use store::{Budget, Effect, Expiry, NewValue, Rope, Value};
use wire::command::Id;
use wire::reply::{self, OK, Put};

use crate::keyspace::{Call, Keyspace, OOM, Progress, Step};
use crate::replies::Sink;

const NO_SUCH_KEY: &str = "ERR no such key";

/// Counts the keys for which `each` says yes, a budget's worth a step.
fn count_keys(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
    mut each: impl FnMut(&mut Keyspace, usize) -> bool,
) -> Step {
    let mut index = usize::try_from(progress.at).expect("an index").max(1);
    while index < call.args.len() {
        if budget.is_spent() {
            progress.at = index as u64;
            return Step::More;
        }
        budget.spend(1, 0);
        progress.count += i64::from(each(space, index));
        index += 1;
    }
    reply::integer(sink, progress.count);
    Step::Done
}

pub(crate) fn del(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    count_keys(space, call, progress, sink, budget, |space, index| {
        let key = space.key(call, index);
        // A key that has expired is deleted too, but was not there.
        let was_there = space.get(&key).is_some();
        space.commit(Effect::Delete { key }).expect("deleting takes no memory");
        was_there
    })
}

pub(crate) fn exists(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    count_keys(space, call, progress, sink, budget, |space, index| {
        let key = space.key(call, index);
        space.get(&key).is_some()
    })
}

pub(crate) fn type_of(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    reply::simple(sink, if space.get(&key).is_some() { "string" } else { "none" });
}

/// A key's value and time to live, out of the shard: on its way to another key, perhaps on another lane.
pub(crate) struct Moved {
    value: MovedValue,
    expiry: Expiry,
}

enum MovedValue {
    Bytes(Vec<u8>),
    Rope(Rope),
}

/// A copy of what is at the key that is argument `index`.
pub(crate) fn fetch(space: &mut Keyspace, call: &Call<'_>, index: usize) -> Option<Moved> {
    let key = space.key(call, index);
    let entry = space.get(&key)?;
    let value = match entry.value() {
        Value::Bytes(bytes) => MovedValue::Bytes(bytes.to_vec()),
        Value::Int(number) => MovedValue::Bytes(wire::number::format_i64(number).as_bytes().to_vec()),
        Value::Rope(rope) => MovedValue::Rope(rope.clone()),
    };
    Some(Moved { value, expiry: entry.expires_at().map_or(Expiry::None, Expiry::At) })
}

/// Puts it at the key that is argument `index`; false when there is no memory for it.
pub(crate) fn place(space: &mut Keyspace, call: &Call<'_>, index: usize, moved: &Moved) -> bool {
    let key = space.key(call, index);
    let value = match &moved.value {
        MovedValue::Bytes(bytes) => NewValue::Bytes(bytes),
        MovedValue::Rope(rope) => NewValue::Rope(rope.clone()),
    };
    space.commit(Effect::Set { key, value, expiry: moved.expiry }).is_ok()
}

/// RENAME and RENAMENX with both keys on this lane.
pub(crate) fn rename(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let only_new = call.command.id == Id::Renamenx;
    let Some(moved) = fetch(space, call, 1) else { return reply::error(sink, NO_SUCH_KEY) };
    let to = space.key(call, 2);
    let is_taken = space.get(&to).is_some();
    let is_same = call.args.flat(1) == call.args.flat(2);
    if only_new && is_taken {
        return reply::integer(sink, 0);
    }
    if !is_same {
        if !place(space, call, 2, &moved) {
            return reply::error(sink, OOM);
        }
        let from = space.key(call, 1);
        space.commit(Effect::Delete { key: from }).expect("deleting takes no memory");
    }
    put_renamed(sink, only_new);
}

/// The reply of a rename that took place.
pub(crate) fn put_renamed(sink: &mut impl Put, only_new: bool) {
    if only_new { reply::integer(sink, 1) } else { sink.put(OK) }
}

/// The reply of a rename whose source is missing.
pub(crate) fn put_no_such_key(sink: &mut impl Put) {
    reply::error(sink, NO_SUCH_KEY);
}
