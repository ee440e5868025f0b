//! Strings.

use store::{Budget, Effect, Expiry, NewValue, Value};
use wire::number::parse_i64;
use wire::reply::{self, OK, Put};

use crate::keyspace::{Call, Keyspace, OOM, Progress, Step, put_value};
use crate::replies::Sink;
use crate::request::Arg;

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

fn new_value(arg: Arg<'_>) -> NewValue<'_> {
    match arg {
        Arg::Flat(bytes) => NewValue::Bytes(bytes),
        Arg::Rope(rope) => NewValue::Rope(rope.clone()),
    }
}

pub(crate) fn get(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    match space.get(&key) {
        Some(entry) => put_value(sink, entry.value()),
        None => reply::null(sink, call.proto),
    }
}

/// What SET's options say.
struct SetOptions {
    only_if: Option<bool>,
    expiry: Expiry,
    wants_old: bool,
}

/// Reads `[NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]` from argument 3 on.
fn set_options(call: &Call<'_>, now_ms: i64) -> Result<SetOptions, String> {
    let mut options = SetOptions { only_if: None, expiry: Expiry::None, wants_old: false };
    let mut has_expiry = false;
    let mut index = 3;
    while index < call.args.len() {
        let word = call.args.flat(index);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if (is("nx") || is("xx")) && options.only_if.is_none_or(|exists| exists == is("xx")) {
            options.only_if = Some(is("xx"));
        } else if is("get") {
            options.wants_old = true;
        } else if is("keepttl") && !has_expiry {
            has_expiry = true;
            options.expiry = Expiry::Keep;
        } else if let Some(unit) = crate::commands::expiry::unit(word)
            && !has_expiry
            && index + 1 < call.args.len()
        {
            has_expiry = true;
            index += 1;
            options.expiry = Expiry::At(unit.deadline(call.args.flat(index), now_ms, call.command.name)?);
        } else {
            return Err(SYNTAX.to_owned());
        }
        index += 1;
    }
    Ok(options)
}

pub(crate) fn set(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    let value = new_value(call.args.get(2));
    if call.args.len() == 3 {
        match space.commit(Effect::Set { key, value, expiry: Expiry::None }) {
            Ok(_) => sink.put(OK),
            Err(_) => reply::error(sink, OOM),
        }
        return;
    }
    let options = match set_options(call, space.now.unix_ms) {
        Ok(options) => options,
        Err(text) => return reply::error(sink, &text),
    };
    space.lapse(&key);
    let old = space.get(&key);
    let goes_ahead = options.only_if.is_none_or(|must_exist| must_exist == old.is_some());
    if options.wants_old {
        match old {
            Some(entry) => put_value(sink, entry.value()),
            None => reply::null(sink, call.proto),
        }
    } else if !goes_ahead {
        reply::null(sink, call.proto);
    }
    if !goes_ahead {
        return;
    }
    match space.commit(Effect::Set { key, value, expiry: options.expiry }) {
        Ok(_) if options.wants_old => {}
        Ok(_) => sink.put(OK),
        Err(_) if options.wants_old => {}
        Err(_) => reply::error(sink, OOM),
    }
}

pub(crate) fn append(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    space.lapse(&key);
    let size = space.get(&key).map_or(0, |entry| entry.value().len());
    let added = call.args.get(2);
    if size == 0 || matches!(added, Arg::Rope(_)) {
        return append_long(space, call, sink);
    }
    let bytes = call.args.flat(2);
    match space.commit(Effect::SetRange { key, offset: size, bytes }) {
        Ok(_) => reply::integer(sink, integer(size + bytes.len())),
        Err(_) => reply::error(sink, OOM),
    }
}

/// The new part becomes the whole value, or is a rope of which each chunk is appended.
fn append_long(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    let mut size = space.get(&key).map_or(0, |entry| entry.value().len());
    let added = call.args.get(2);
    if size == 0 {
        return match space.commit(Effect::Set { key, value: new_value(added), expiry: Expiry::Keep }) {
            Ok(_) => reply::integer(sink, integer(added.size())),
            Err(_) => reply::error(sink, OOM),
        };
    }
    if let Arg::Rope(rope) = added {
        for index in 0..rope.chunk_count() {
            let bytes = rope.chunk(index).as_ref().as_ref();
            if space.commit(Effect::SetRange { key, offset: size, bytes }).is_err() {
                return reply::error(sink, OOM);
            }
            size += bytes.len();
        }
    }
    reply::integer(sink, integer(size));
}

pub(crate) fn strlen(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    reply::integer(sink, space.get(&key).map_or(0, |entry| integer(entry.value().len())));
}

/// The increment that is argument 2.
pub(crate) fn parse_step(call: &Call<'_>) -> Result<i64, &'static str> {
    parse_i64(call.args.flat(2)).ok_or(NOT_AN_INTEGER)
}

/// DECRBY's increment.
pub(crate) fn negated(step: i64) -> Result<i64, &'static str> {
    step.checked_neg().ok_or("ERR decrement would overflow")
}

pub(crate) fn add(
    space: &mut Keyspace,
    call: &Call<'_>,
    sink: &mut Sink<'_>,
    step: Result<i64, &'static str>,
) {
    let key = space.key(call, 1);
    let step = match step {
        Ok(step) => step,
        Err(text) => return reply::error(sink, text),
    };
    space.lapse(&key);
    let old = match space.get(&key).map(|entry| number(entry.value())) {
        None => 0,
        Some(Some(number)) => number,
        Some(None) => return reply::error(sink, NOT_AN_INTEGER),
    };
    let Some(new) = old.checked_add(step) else {
        return reply::error(sink, "ERR increment or decrement would overflow");
    };
    let text = wire::number::format_i64(new);
    match space.commit(Effect::Set { key, value: NewValue::Bytes(text.as_bytes()), expiry: Expiry::Keep }) {
        Ok(_) => reply::integer(sink, new),
        Err(_) => reply::error(sink, OOM),
    }
}

fn number(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int(number) => Some(number),
        Value::Bytes(bytes) => parse_i64(bytes),
        Value::Rope(_) => None,
    }
}

fn integer(size: usize) -> i64 {
    i64::try_from(size).expect("a string is at most 512 MB")
}

/// Arguments from `progress` on, as far as the budget goes: where the step ends, and whether that is the end.
fn slice(
    progress: &Progress,
    first: usize,
    end: usize,
    step: usize,
    budget: &Budget,
) -> (usize, usize, bool) {
    let start = first.max(usize::try_from(progress.at).expect("an index"));
    let stop = end.min(start.saturating_add(step * budget.elements as usize));
    (start, stop, stop == end)
}

pub(crate) fn mget(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let (start, stop, is_end) = slice(progress, 1, call.args.len(), 1, budget);
    if start == 1 {
        reply::array(sink, call.args.len() - 1);
    }
    for index in start..stop {
        let key = space.key(call, index);
        match space.get(&key) {
            Some(entry) => {
                budget.spend(1, entry.value().len());
                put_value(sink, entry.value());
            }
            None => {
                budget.spend(1, 0);
                reply::null(sink, call.proto);
            }
        }
        if budget.is_spent() && index + 1 < stop {
            progress.at = index as u64 + 1;
            return Step::More;
        }
    }
    progress.at = stop as u64;
    if is_end { Step::Done } else { Step::More }
}

pub(crate) fn mset(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if call.args.len().is_multiple_of(2) {
        reply::error(sink, "ERR wrong number of arguments for 'mset' command");
        return Step::Done;
    }
    let step = set_pairs(space, call, progress, sink, budget);
    if step == Step::Done && progress.count == 0 {
        sink.put(OK);
    }
    step
}

/// Sets the pairs from `progress` on. `progress.count` becomes 1 when memory ran out and the error is written.
fn set_pairs(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let (start, stop, is_end) = slice(progress, 1, call.args.len(), 2, budget);
    for index in (start..stop).step_by(2) {
        let key = space.key(call, index);
        let value = call.args.get(index + 1);
        budget.spend(1, value.size());
        if space.commit(Effect::Set { key, value: new_value(value), expiry: Expiry::None }).is_err() {
            progress.count = 1;
            reply::error(sink, OOM);
            return Step::Done;
        }
        if budget.is_spent() && index + 2 < stop {
            progress.at = index as u64 + 2;
            return Step::More;
        }
    }
    progress.at = stop as u64;
    if is_end { Step::Done } else { Step::More }
}

/// All keys on this lane: first every key is looked at, then every pair set. `at` runs through the arguments twice.
pub(crate) fn msetnx(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let end = call.args.len();
    if end.is_multiple_of(2) {
        reply::error(sink, "ERR wrong number of arguments for 'msetnx' command");
        return Step::Done;
    }
    let at = usize::try_from(progress.at).expect("an index");
    if at < end {
        let (start, stop, _) = slice(progress, 1, end, 2, budget);
        for index in (start..stop).step_by(2) {
            budget.spend(1, 0);
            let key = space.key(call, index);
            if space.get(&key).is_some() {
                reply::integer(sink, 0);
                return Step::Done;
            }
        }
        progress.at = stop as u64;
        if stop < end || budget.is_spent() {
            return Step::More;
        }
    }
    let mut second = Progress { at: progress.at - end as u64, count: 0 };
    let step = set_pairs(space, call, &mut second, sink, budget);
    progress.at = second.at + end as u64;
    if step == Step::Done && second.count == 0 {
        reply::integer(sink, 1);
    }
    step
}
