//! One string, read or replaced whole. A value is copied when it lies within its entry (at most
//! [`store::INLINE_SIZE_MAX`] bytes) and passed by reference otherwise, so that all of these end in one step.

use store::{Effect, Expiry, NewValue};
use wire::reply;

use super::SYNTAX;
use super::expiry::{self, Unit};
use super::generic::{self, Moved};
use crate::keyspace::{Call, Keyspace, OOM, put_value};
use crate::replies::Sink;
use crate::request::Arg;

pub(crate) fn new_value(arg: Arg<'_>) -> NewValue<'_> {
    match arg {
        Arg::Flat(bytes) => NewValue::Bytes(bytes),
        Arg::Rope(rope) => NewValue::Rope(rope.clone()),
    }
}

#[inline]
pub(crate) fn get(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    match space.look_up(&key) {
        Some(entry) => put_value(sink, entry.value()),
        None => reply::null(sink, call.proto),
    }
}

/// Writes what is at the first key, as GET does, and says whether it is there.
fn put_old(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) -> bool {
    let key = space.key(call, 1);
    let old = space.look_up(&key);
    match old {
        Some(entry) => put_value(sink, entry.value()),
        None => reply::null(sink, call.proto),
    }
    old.is_some()
}

/// GETDEL.
pub(crate) fn getdel(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    if put_old(space, call, sink) {
        let key = space.key(call, 1);
        space.commit(Effect::Delete { key }).expect("deleting takes no memory");
    }
}

/// GETSET.
pub(crate) fn getset(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    let old = generic::fetch(space, call, 1);
    match space.commit(Effect::Set { key, value: new_value(call.args.get(2)), expiry: Expiry::None }) {
        Ok(_) => put_copy(old, call, sink),
        Err(_) => reply::error(sink, OOM),
    }
}

/// Writes a value that has left its key since.
fn put_copy(old: Option<Moved>, call: &Call<'_>, sink: &mut Sink<'_>) {
    match &old {
        Some(moved) => moved.put(sink),
        None => reply::null(sink, call.proto),
    }
}

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST].
pub(crate) fn getex(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let options = match Options::parse(call, 2, Form::Getex) {
        Ok(options) => options,
        Err(text) => return reply::error(sink, text),
    };
    let key = space.key(call, 1);
    let Some(end) = space.get(&key).map(|entry| entry.expires_at()) else {
        space.tally.looked(false);
        space.events.note_missed(&key);
        return reply::null(sink, call.proto);
    };
    let life = match options.life.expiry(call, space.birth_ms()) {
        Ok(life) => life,
        Err(text) => {
            space.tally.looked(true);
            return reply::error(sink, &text);
        }
    };
    match (options.life, life) {
        (Life::Default, _) => {}
        // It stays as it is, and nobody who watches it need know.
        (_, Expiry::None) if end.is_none() => {}
        (_, Expiry::At(at)) if at <= space.now.unix_ms => return getdel(space, call, sink),
        (_, at) => {
            if space.commit(Effect::Expire { key, at }).is_err() {
                return reply::error(sink, OOM);
            }
        }
    }
    put_old(space, call, sink);
}

/// What SET or GETEX does to the time to live.
#[derive(Clone, Copy)]
enum Life {
    /// SET: there is none; GETEX: it stays.
    Default,
    Keep,
    Persist,
    /// It ends as argument `.1` says in this unit.
    Ends(Unit, usize),
}

impl Life {
    /// The expiry meant, or Redis' error.
    fn expiry(self, call: &Call<'_>, now_ms: i64) -> Result<Expiry, String> {
        match self {
            Life::Default | Life::Persist => Ok(Expiry::None),
            Life::Keep => Ok(Expiry::Keep),
            Life::Ends(unit, index) => {
                unit.deadline(call.args.flat(index), now_ms, call.command.name).map(Expiry::At)
            }
        }
    }
}

/// Whose options are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Set,
    Getex,
}

/// What the options of SET or GETEX say.
struct Options {
    /// Go ahead only if the key exists (XX) or does not (NX).
    only_if: Option<bool>,
    wants_old: bool,
    life: Life,
}

impl Options {
    /// Reads the options from argument `index` on: for SET `[NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`, for
    /// GETEX `[EX s | PX ms | EXAT s | PXAT ms | PERSIST]`. As in Redis, a word may be repeated, and the last time
    /// counts; two different words for the same thing are an error.
    fn parse(call: &Call<'_>, mut index: usize, form: Form) -> Result<Options, &'static str> {
        let mut options = Options { only_if: None, wants_old: false, life: Life::Default };
        while index < call.args.len() {
            let word = call.args.flat(index);
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let is_set = form == Form::Set;
            let unit = expiry::unit_of_option(word);
            if is_set && (is("nx") || is("xx")) && options.only_if.is_none_or(|exists| exists == is("xx")) {
                options.only_if = Some(is("xx"));
            } else if is_set && is("get") {
                options.wants_old = true;
            } else if is_set && is("keepttl") && matches!(options.life, Life::Default | Life::Keep) {
                options.life = Life::Keep;
            } else if !is_set && is("persist") && matches!(options.life, Life::Default | Life::Persist) {
                options.life = Life::Persist;
            } else if let Some(unit) = unit
                && index + 1 < call.args.len()
                && options.life.admits(unit)
            {
                index += 1;
                options.life = Life::Ends(unit, index);
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        Ok(options)
    }
}

impl Life {
    /// Whether a time in this unit may follow what was said so far.
    fn admits(self, unit: Unit) -> bool {
        match self {
            Life::Default => true,
            Life::Ends(before, _) => before == unit,
            Life::Keep | Life::Persist => false,
        }
    }
}

#[inline]
pub(crate) fn set(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    if call.args.len() > 3 {
        return set_with_options(space, call, sink);
    }
    let key = space.key(call, 1);
    let value = new_value(call.args.get(2));
    match space.commit(Effect::Set { key, value, expiry: Expiry::None }) {
        Ok(_) => reply::ok(sink),
        Err(_) => reply::error(sink, OOM),
    }
}

fn set_with_options(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let options = match Options::parse(call, 3, Form::Set) {
        Ok(options) => options,
        Err(text) => return reply::error(sink, text),
    };
    let expiry = match options.life.expiry(call, space.birth_ms()) {
        Ok(expiry) => expiry,
        Err(text) => return reply::error(sink, &text),
    };
    let key = space.key(call, 1);
    space.lapse(&key);
    let exists = space.get(&key).is_some();
    let goes_ahead = options.only_if.is_none_or(|must_exist| must_exist == exists);
    if !goes_ahead && options.wants_old {
        put_old(space, call, sink);
        return;
    }
    if !goes_ahead {
        return reply::null(sink, call.proto);
    }
    let old = if options.wants_old { generic::fetch(space, call, 1) } else { None };
    match space.commit(Effect::Set { key, value: new_value(call.args.get(2)), expiry }) {
        Ok(_) if options.wants_old => put_copy(old, call, sink),
        Ok(_) => reply::ok(sink),
        Err(_) => reply::error(sink, OOM),
    }
}

/// SETNX.
pub(crate) fn setnx(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    if space.get(&key).is_some() {
        return reply::integer(sink, 0);
    }
    let value = new_value(call.args.get(2));
    match space.commit(Effect::Set { key, value, expiry: Expiry::None }) {
        Ok(_) => reply::integer(sink, 1),
        Err(_) => reply::error(sink, OOM),
    }
}

/// SETEX and PSETEX.
pub(crate) fn setex(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>, unit: Unit) {
    let at = match unit.deadline(call.args.flat(2), space.birth_ms(), call.command.name) {
        Ok(at) => at,
        Err(text) => return reply::error(sink, &text),
    };
    let key = space.key(call, 1);
    let value = new_value(call.args.get(3));
    match space.commit(Effect::Set { key, value, expiry: Expiry::At(at) }) {
        Ok(_) => reply::ok(sink),
        Err(_) => reply::error(sink, OOM),
    }
}
