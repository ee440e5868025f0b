//! Times to live.

use store::{Effect, Expiry};
use wire::command::Id;
use wire::number::parse_i64;
use wire::reply;

use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;

/// How a client says when: in seconds or milliseconds, from now or from 1970.
#[derive(Clone, Copy)]
pub(crate) struct Unit {
    ms: i64,
    is_absolute: bool,
}

/// The unit that a word of SET, or the name of a command, stands for.
pub(crate) fn unit(word: &[u8]) -> Option<Unit> {
    let units: [(&str, i64, bool); 8] = [
        ("ex", 1000, false),
        ("px", 1, false),
        ("exat", 1000, true),
        ("pxat", 1, true),
        ("expire", 1000, false),
        ("pexpire", 1, false),
        ("expireat", 1000, true),
        ("pexpireat", 1, true),
    ];
    let is_named = |unit: &&(&str, i64, bool)| word.eq_ignore_ascii_case(unit.0.as_bytes());
    units.iter().find(is_named).map(|&(_, ms, is_absolute)| Unit { ms, is_absolute })
}

impl Unit {
    /// The instant meant, in unix milliseconds, or Redis' error. A time to live of SET must be above zero.
    pub(crate) fn deadline(self, text: &[u8], now_ms: i64, command: &str) -> Result<i64, String> {
        let number = parse_i64(text).ok_or("ERR value is not an integer or out of range")?;
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

/// EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT with `[NX | XX | GT | LT]`.
pub(crate) fn expire(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let name = call.command.name;
    let Some(number) = parse_i64(call.args.flat(2)) else {
        return reply::error(sink, "ERR value is not an integer or out of range");
    };
    let unit = unit(name.as_bytes()).expect("each of the four commands names a unit");
    let Some(deadline) = unit.instant(number, space.now.unix_ms) else {
        return reply::error(sink, &invalid(name));
    };
    let condition = match Condition::parse(call) {
        Ok(condition) => condition,
        Err(text) => return reply::error(sink, &text),
    };
    let key = space.key(call, 1);
    let Some(entry) = space.get(&key) else { return reply::integer(sink, 0) };
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
    fn parse(call: &Call<'_>) -> Result<Condition, String> {
        let mut condition = Condition::default();
        for index in 3..call.args.len() {
            let word = call.args.flat(index);
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => condition.nx = true,
                b"xx" => condition.xx = true,
                b"gt" => condition.gt = true,
                b"lt" => condition.lt = true,
                _ => return Err(format!("ERR Unsupported option {}", String::from_utf8_lossy(word))),
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".to_owned());
        }
        if condition.gt && condition.lt {
            return Err("ERR GT and LT options at the same time are not compatible".to_owned());
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
    let number = match space.get(&key).map(|entry| entry.expires_at()) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => match call.command.id {
            Id::Ttl => ((at - now_ms).max(0) + 500) / 1000,
            Id::Pttl => (at - now_ms).max(0),
            Id::Expiretime => (at + 500) / 1000,
            _ => at,
        },
    };
    reply::integer(sink, number);
}

pub(crate) fn persist(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    let had_one = space.get(&key).is_some_and(|entry| entry.expires_at().is_some());
    if had_one && space.commit(Effect::Expire { key, at: Expiry::None }).is_err() {
        return reply::error(sink, crate::keyspace::OOM);
    }
    reply::integer(sink, i64::from(had_one));
}
