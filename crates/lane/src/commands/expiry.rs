//! Times to live.

use store::{Effect, Expiry};
use wire::command::Id;
use wire::number::parse_i64;
use wire::reply;

use super::NOT_AN_INTEGER;
use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;

/// How a client says when: in seconds or milliseconds, from now or from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    ms: i64,
    is_absolute: bool,
}

/// Seconds from now.
pub(crate) const SECONDS: Unit = Unit { ms: 1000, is_absolute: false };
/// Milliseconds from now.
pub(crate) const MILLISECONDS: Unit = Unit { ms: 1, is_absolute: false };
/// Unix time in seconds.
const UNIX_SECONDS: Unit = Unit { ms: 1000, is_absolute: true };
/// Unix time in milliseconds.
const UNIX_MILLISECONDS: Unit = Unit { ms: 1, is_absolute: true };

/// The unit that an option of SET or GETEX stands for.
pub(crate) fn unit_of_option(word: &[u8]) -> Option<Unit> {
    let units = [("ex", SECONDS), ("px", MILLISECONDS), ("exat", UNIX_SECONDS), ("pxat", UNIX_MILLISECONDS)];
    let is_named = |(name, _): &&(&str, Unit)| word.eq_ignore_ascii_case(name.as_bytes());
    units.iter().find(is_named).map(|(_, unit)| *unit)
}

impl Unit {
    /// The instant meant, in unix milliseconds, or Redis' error. A time to live of SET must be above zero.
    pub(crate) fn deadline(self, text: &[u8], now_ms: i64, command: &str) -> Result<i64, String> {
        let number = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
        if number <= 0 {
            return Err(invalid(command));
        }
        self.instant(number, now_ms).ok_or_else(|| invalid(command))
    }

    fn instant(self, number: i64, now_ms: i64) -> Option<i64> {
        number.checked_mul(self.ms)?.checked_add(if self.is_absolute { 0 } else { now_ms })
    }
}

fn invalid(command: &str) -> String {
    format!("ERR invalid expire time in '{command}' command")
}

/// EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT with `[NX | XX | GT | LT]`. An instant that has passed deletes the key.
pub(crate) fn expire(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let condition = match Condition::parse(call) {
        Ok(condition) => condition,
        Err(text) => return reply::error_bytes(sink, &text),
    };
    let Some(number) = parse_i64(call.args.flat(2)) else {
        return reply::error(sink, NOT_AN_INTEGER);
    };
    let unit = match call.command.id {
        Id::Expire => SECONDS,
        Id::Pexpire => MILLISECONDS,
        Id::Expireat => UNIX_SECONDS,
        _ => UNIX_MILLISECONDS,
    };
    let Some(deadline) = unit.instant(number, space.birth_ms()) else {
        return reply::error(sink, &invalid(call.command.name));
    };
    let mut key = space.key(call, 1);
    let Some(entry) = space.read_to_change(&mut key) else { return reply::integer(sink, 0) };
    if !condition.admits(entry.expires_at(), deadline) {
        return reply::integer(sink, 0);
    }
    let effect = if deadline <= space.now.unix_ms {
        Effect::Delete { key }
    } else {
        Effect::Expire { key, at: Expiry::At(deadline) }
    };
    match space.commit(effect) {
        Ok(_) => reply::integer(sink, 1),
        Err(_) => reply::error(sink, crate::keyspace::OOM),
    }
}

/// Under which circumstances a time to live is set.
#[derive(Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    fn parse(call: &Call<'_>) -> Result<Condition, Vec<u8>> {
        let mut condition = Condition::default();
        for index in 3..call.args.len() {
            let word = call.args.flat(index);
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => condition.nx = true,
                b"xx" => condition.xx = true,
                b"gt" => condition.gt = true,
                b"lt" => condition.lt = true,
                _ => return Err([b"ERR Unsupported option ", reply::quoted(word)].concat()),
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(b"ERR NX and XX, GT or LT options at the same time are not compatible".to_vec());
        }
        if condition.gt && condition.lt {
            return Err(b"ERR GT and LT options at the same time are not compatible".to_vec());
        }
        Ok(condition)
    }

    /// A key without a time to live counts as living for ever.
    fn admits(&self, old: Option<i64>, new: i64) -> bool {
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| new >= old))
    }
}

/// TTL, PTTL, EXPIRETIME and PEXPIRETIME: -2 without the key, -1 without a time to live.
pub(crate) fn ttl(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    let now_ms = space.now.unix_ms;
    let number = match space.inspect(&key).map(|entry| entry.expires_at()) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => match call.command.id {
            Id::Ttl => rounded((at - now_ms).max(0)),
            Id::Pttl => (at - now_ms).max(0),
            Id::Expiretime => rounded(at),
            _ => at,
        },
    };
    reply::integer(sink, number);
}

/// Milliseconds as whole seconds. An end may be the last instant there is.
fn rounded(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}

pub(crate) fn persist(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let mut key = space.key(call, 1);
    let had_one = space.read_to_change(&mut key).is_some_and(|entry| entry.expires_at().is_some());
    if had_one && space.commit(Effect::Expire { key, at: Expiry::None }).is_err() {
        return reply::error(sink, crate::keyspace::OOM);
    }
    reply::integer(sink, i64::from(had_one));
}
