//! Numbers kept as strings.

use store::{Effect, Expiry, NewValue, Value};
use wire::extended;
use wire::number::{format_i64, parse_i64};
use wire::reply;

use super::NOT_AN_INTEGER;
use crate::keyspace::{Call, Keyspace, OOM};
use crate::replies::Sink;

/// The increment that is argument 2.
pub(crate) fn parse_step(call: &Call<'_>) -> Result<i64, &'static str> {
    parse_i64(call.args.flat(2)).ok_or(NOT_AN_INTEGER)
}

/// DECRBY's increment.
pub(crate) fn negated(step: i64) -> Result<i64, &'static str> {
    step.checked_neg().ok_or("ERR decrement would overflow")
}

/// INCR, DECR, INCRBY and DECRBY.
pub(crate) fn add(
    space: &mut Keyspace,
    call: &Call<'_>,
    sink: &mut Sink<'_>,
    step: Result<i64, &'static str>,
) {
    let mut key = space.key(call, 1);
    let step = match step {
        Ok(step) => step,
        Err(text) => return reply::error(sink, text),
    };
    let old = match space.read_to_change(&mut key).map(|entry| number(entry.value())) {
        None => {
            space.lapse(&key);
            0
        }
        Some(Some(number)) => number,
        Some(None) => return reply::error(sink, NOT_AN_INTEGER),
    };
    let Some(new) = old.checked_add(step) else {
        return reply::error(sink, "ERR increment or decrement would overflow");
    };
    match space.commit(Effect::Set { key, value: NewValue::Int(new), expiry: Expiry::Keep }) {
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

/// INCRBYFLOAT. The work of the sum is bounded by `extended::TEXT_SIZE_MAX`: a longer text is no number.
pub(crate) fn add_float(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let mut key = space.key(call, 1);
    space.lapse(&key);
    let step = call.args.flat(2);
    let sum = match space.read_to_change(&mut key).map(|entry| entry.value()) {
        None => extended::add(b"0", step),
        Some(Value::Int(number)) => extended::add(format_i64(number).as_bytes(), step),
        Some(Value::Bytes(bytes)) => extended::add(bytes, step),
        Some(Value::Rope(_)) => Err(extended::FloatError::Invalid),
    };
    let sum = match sum {
        Ok(sum) => sum,
        Err(error) => return reply::error(sink, error.text()),
    };
    match space.commit(Effect::Set { key, value: NewValue::Bytes(&sum), expiry: Expiry::Keep }) {
        Ok(_) => reply::bulk(sink, &sum),
        Err(_) => reply::error(sink, OOM),
    }
}
