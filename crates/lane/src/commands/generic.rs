//! Keys of any type.

use store::{Budget, Effect, Expiry, NewValue, Use};
use wire::command::{Command, Id};
use wire::number::parse_i64;
use wire::reply::{self, OK, Put};

use super::text::Text;
use super::{NOT_AN_INTEGER, SYNTAX};
use super::{Progress, Step};
use crate::client::Port;
use crate::connection::{OUT_OF_RANGE, database};
use crate::keyspace::{Call, Keyspace, OOM, put_value};
use crate::replies::Sink;
use crate::request::Args;

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
        budget.spend(1, call.args.get(index).size());
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

/// EXISTS, and TOUCH, which also marks the keys as used.
pub(crate) fn exists(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let touches = call.command.id == Id::Touch;
    count_keys(space, call, progress, sink, budget, |space, index| {
        let key = space.key(call, index);
        if touches { space.look_up(&key).is_some() } else { space.inspect(&key).is_some() }
    })
}

pub(crate) fn type_of(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 1);
    reply::simple(sink, space.inspect(&key).map_or("none", |entry| entry.kind().name()));
}

/// A key's value and time to live, out of the shard: on its way to another key, perhaps on another lane.
pub(crate) struct Moved {
    pub(crate) value: Text,
    pub(crate) expiry: Expiry,
    /// What it takes along of its use; a copy is a new value.
    pub(crate) used: Option<Use>,
}

impl Moved {
    /// Bytes that it adds where it goes, beside key and entry.
    pub(crate) fn size(&self) -> u64 {
        self.value.room() as u64
    }

    /// Writes it as a bulk.
    pub(crate) fn put(&self, sink: &mut Sink<'_>) {
        put_value(sink, self.value.value());
    }
}

/// A copy of what is at the key that is argument `index`.
pub(crate) fn fetch(space: &mut Keyspace, call: &Call<'_>, index: usize) -> Option<Moved> {
    let key = space.key(call, index);
    // Whoever moves a key does not look what is there, in Redis' eyes; whoever copies it does.
    let moves = matches!(call.command.id, Id::Rename | Id::Renamenx | Id::Move);
    let found = if moves { space.read(&key) } else { space.look_up(&key) };
    let entry = found?;
    let expiry = entry.expires_at().map_or(Expiry::None, Expiry::At);
    let value = Text::of(Some(entry.value()));
    let used = moves.then(|| space.frequency(&key)).flatten();
    Some(Moved { value, expiry, used })
}

/// Puts it at the key that is argument `index`; false when there is no memory for it.
pub(crate) fn place(space: &mut Keyspace, call: &Call<'_>, index: usize, moved: &Moved) -> bool {
    let key = space.key(call, index);
    let value = match &moved.value {
        Text::Bytes(bytes) => NewValue::Bytes(bytes),
        Text::Rope(rope) => NewValue::Rope(rope.clone()),
    };
    let is_placed = space.commit(Effect::Set { key, value, expiry: moved.expiry }).is_ok();
    if let Some(used) = moved.used.filter(|_| is_placed) {
        space.shard.remember(&key, space.now.unix_ms, used);
    }
    is_placed
}

/// RENAME and RENAMENX with both keys on this lane.
pub(crate) fn rename(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let only_new = call.command.id == Id::Renamenx;
    let Some(moved) = fetch(space, call, 1) else { return put_no_such_key(sink) };
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
        // Two effects, and one change.
        space.shard.count_changes(-1);
    }
    put_renamed(sink, only_new);
}

/// The reply of a rename that took place.
pub(crate) fn put_renamed(sink: &mut impl Put, only_new: bool) {
    if only_new { reply::integer(sink, 1) } else { sink.put(OK) }
}

/// The reply of a rename whose source is missing.
pub(crate) fn put_no_such_key(sink: &mut impl Put) {
    reply::error(sink, "ERR no such key");
}

const SAME_OBJECT: &str = "ERR source and destination objects are the same";

/// What COPY's options say.
pub(crate) struct CopyOptions {
    /// The database of the copy.
    pub(crate) db: u16,
    /// Whether it may take the place of another value.
    pub(crate) replaces: bool,
}

impl CopyOptions {
    /// Reads `[DB destination-db] [REPLACE]` from argument 3 on; `db` is the database of the original.
    pub(crate) fn parse(args: Args<'_>, db: u16, database_count: u16) -> Result<CopyOptions, &'static str> {
        let mut options = CopyOptions { db, replaces: false };
        let mut index = 3;
        while index < args.len() {
            let word = args.flat(index);
            if word.eq_ignore_ascii_case(b"replace") {
                options.replaces = true;
            } else if word.eq_ignore_ascii_case(b"db") && index + 1 < args.len() {
                index += 1;
                options.db = database(args.get(index), database_count)?;
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        if options.db == db && args.flat(1) == args.flat(2) {
            return Err(SAME_OBJECT);
        }
        Ok(options)
    }
}

/// COPY with both keys on this lane.
pub(crate) fn copy(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let options = match CopyOptions::parse(call.args, call.db, space.database_count) {
        Ok(options) => options,
        Err(text) => return reply::error(sink, text),
    };
    if call.port == Port::Lane && options.db != 0 {
        return reply::error(sink, "ERR Copying to another database is not allowed in cluster mode");
    }
    let there = Call { db: options.db, ..*call };
    let Some(moved) = fetch(space, call, 1) else { return reply::integer(sink, 0) };
    let to = space.key(&there, 2);
    if !options.replaces && space.get(&to).is_some() {
        return reply::integer(sink, 0);
    }
    if space.may_grow(moved.value.room()) && place(space, &there, 2, &moved) {
        reply::integer(sink, 1);
    } else {
        reply::error(sink, OOM);
    }
}

/// MOVE key db. A key's lane does not depend on its database, so both places are here.
pub(crate) fn move_key(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    if call.port == Port::Lane {
        return reply::error(sink, "ERR MOVE is not allowed in cluster mode");
    }
    let db = match database(call.args.get(2), space.database_count) {
        Ok(db) if db == call.db => return reply::error(sink, SAME_OBJECT),
        Ok(db) => db,
        Err(text) => return reply::error(sink, text),
    };
    let there = Call { db, ..*call };
    let (from, to) = (space.key(call, 1), space.key(&there, 1));
    let Some(moved) = fetch(space, call, 1) else { return reply::integer(sink, 0) };
    if space.get(&to).is_some() {
        return reply::integer(sink, 0);
    }
    if !place(space, &there, 1, &moved) {
        return reply::error(sink, OOM);
    }
    space.commit(Effect::Delete { key: from }).expect("deleting takes no memory");
    space.shard.count_changes(-1);
    reply::integer(sink, 1);
}

/// The databases in which the key that is argument `index` is locked, for a command called in database `db`: the
/// target's for COPY, both for MOVE. What the arguments say wrongly the command itself answers.
pub(crate) fn databases_of_key(
    command: &Command,
    args: Args<'_>,
    index: usize,
    db: u16,
    database_count: u16,
) -> [Option<u16>; 2] {
    match command.id {
        Id::Move => [Some(db), database(args.get(2), database_count).ok().filter(|other| *other != db)],
        Id::Copy if index == 2 => {
            [Some(CopyOptions::parse(args, db, database_count).map_or(db, |options| options.db)), None]
        }
        _ => [Some(db), None],
    }
}

/// The databases that SWAPDB names, or Redis' error.
pub(crate) fn swapped_databases(args: Args<'_>, database_count: u16) -> Result<(u16, u16), &'static str> {
    let number = |index: usize, text: &'static str| {
        parse_i64(args.flat(index)).filter(|number| i32::try_from(*number).is_ok()).ok_or(text)
    };
    let first = number(1, "ERR invalid first DB index")?;
    let second = number(2, "ERR invalid second DB index")?;
    let place = |number: i64| u16::try_from(number).ok().filter(|db| *db < database_count);
    place(first).zip(place(second)).ok_or(OUT_OF_RANGE)
}

/// MEMORY USAGE key [SAMPLES count]: the bytes of the entry and of what it holds. Nothing is sampled: they are known.
pub(crate) fn memory_usage(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let args = call.args;
    for index in (3..args.len()).step_by(2) {
        if !args.flat(index).eq_ignore_ascii_case(b"samples") || index + 1 == args.len() {
            return reply::error(sink, "ERR syntax error");
        }
        match parse_i64(args.flat(index + 1)) {
            Some(0..) => {}
            Some(_) => return reply::error(sink, "ERR syntax error"),
            None => return reply::error(sink, NOT_AN_INTEGER),
        }
    }
    let key = space.key(call, 2);
    match space.get(&key).map(|entry| entry.memory()) {
        None => reply::null(sink, call.proto),
        Some(size) => reply::integer(sink, i64::try_from(size).expect("an entry is below 2^63 bytes")),
    }
}
