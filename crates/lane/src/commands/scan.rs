//! Commands over whole databases and partitions.

use store::{Budget, Effect};
use wire::command::Id;
use wire::glob::{self, Case};
use wire::number::parse_i64;
use wire::reply::{self, OK, Put};
use wire::route::SLOTS;

use crate::client::Port;
use crate::keyspace::{Call, Keyspace, Progress, Step};
use crate::replies::Sink;

pub(crate) fn dbsize(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let count = i64::try_from(space.shard.count(call.db)).expect("keys are fewer than 2^63");
    reply::integer(sink, count);
}

/// FLUSHDB and FLUSHALL, a run of partitions a step. `at` counts partitions over all databases concerned.
pub(crate) fn flush(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let is_one = call.command.id == Id::Flushdb;
    let databases = if is_one { call.db..call.db + 1 } else { 0..space.database_count };
    let partitions = u64::from(SLOTS);
    let end = partitions * databases.len() as u64;
    while progress.at < end {
        if budget.is_spent() {
            return Step::More;
        }
        let nth = u16::try_from(progress.at / partitions).expect("databases are counted in 16 bits");
        let db = databases.start + nth;
        if progress.at.is_multiple_of(partitions) {
            space.touch_watched_database(db);
            if space.shard.count(db) == 0 {
                progress.at += partitions;
                continue;
            }
        }
        let partition = u16::try_from(progress.at % partitions).expect("partitions are counted in 16 bits");
        budget.spend(1, 0);
        space.shard.commit(Effect::FlushPartition { db, partition }).expect("emptying takes no memory");
        progress.at += 1;
    }
    sink.put(OK);
    Step::Done
}

/// KEYS, a run of buckets a step. `at` is the shard's cursor; the header with the count comes when all is found.
pub(crate) fn keys(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let pattern = call.args.flat(1);
    let mut count = 0;
    let next = space.shard.scan(call.db, progress.at, space.now.unix_ms, budget, &mut |key, _| {
        if glob::matches(pattern, key, Case::Exact) {
            count += 1;
            reply::bulk(sink, key);
        }
    });
    progress.at = next;
    progress.count += count;
    if next != 0 {
        return Step::More;
    }
    let mut header = Vec::new();
    reply::array(&mut header, usize::try_from(progress.count).expect("a count"));
    sink.part().prepend(header);
    Step::Done
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type].
pub(crate) fn scan(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>, budget: &mut Budget) {
    let cursor = std::str::from_utf8(call.args.flat(1)).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(cursor) = cursor else { return reply::error(sink, "ERR invalid cursor") };
    let mut pattern: &[u8] = b"*";
    let mut count = 10_u32;
    let mut wants_strings = true;
    let mut index = 2;
    while index < call.args.len() {
        let word = call.args.flat(index).to_ascii_lowercase();
        if index + 1 == call.args.len() {
            return reply::error(sink, "ERR syntax error");
        }
        let value = call.args.flat(index + 1);
        match word.as_slice() {
            b"match" => pattern = value,
            b"count" => match parse_i64(value) {
                None => return reply::error(sink, "ERR value is not an integer or out of range"),
                Some(number) if number < 1 => return reply::error(sink, "ERR syntax error"),
                Some(number) => count = u32::try_from(number).unwrap_or(u32::MAX),
            },
            b"type" => wants_strings = value.eq_ignore_ascii_case(b"string"),
            _ => return reply::error(sink, "ERR syntax error"),
        }
        index += 2;
    }
    let mut found: Vec<u8> = Vec::new();
    let mut found_count = 0;
    // COUNT is a wish; one call is one slice at most.
    let mut slice = Budget { elements: count.min(budget.elements), bytes: budget.bytes };
    let next = space.shard.scan(call.db, cursor, space.now.unix_ms, &mut slice, &mut |key, _| {
        if wants_strings && glob::matches(pattern, key, Case::Exact) {
            found_count += 1;
            reply::bulk(&mut found, key);
        }
    });
    let next = if next == 0 && call.port == Port::Shared { space.cursor_after } else { next };
    reply::array(sink, 2);
    reply::bulk(sink, next.to_string().as_bytes());
    reply::array(sink, found_count);
    sink.put(&found);
}
