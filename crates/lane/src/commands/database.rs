//! Whole databases: their size, emptying and exchanging them.

use std::ops::{Range, RangeInclusive};

use store::{Budget, Effect};
use wire::command::Id;
use wire::reply::{self, OK, Put};
use wire::route::{SLOTS, Slot};

use super::SYNTAX;
use super::generic::swapped_databases;
use super::{Progress, State, Step};
use crate::client::Port;
use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;

/// DBSIZE. As in Redis, keys whose time has come count until they are taken out.
pub(crate) fn dbsize(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let count = i64::try_from(space.shard.count(call.db)).expect("keys are fewer than 2^63");
    reply::integer(sink, count);
}

/// Empty partitions passed over for one unit of work: a look at 8 bytes of each, or of 128 of them together.
const EMPTY_PER_UNIT: usize = 64;

/// FLUSHDB and FLUSHALL `[ASYNC | SYNC]`, some partitions a step. `at` counts partitions over all databases concerned.
/// The keys' memory is freed later in either case, a little at a time.
pub(crate) fn flush(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let is_mode = |word: &[u8]| word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync");
    if call.args.len() > 2 || call.args.len() == 2 && !is_mode(call.args.flat(1)) {
        reply::error(sink, SYNTAX);
        return Step::Done;
    }
    let is_one = call.command.id == Id::Flushdb;
    let databases = if is_one { call.db..call.db + 1 } else { 0..space.database_count };
    let step = flush_partitions(space, databases, progress, budget);
    if step == Step::Done {
        space.feed_flush(is_one.then_some(call.db), call.port);
        space.track_flush(call.port);
        sink.put(OK);
    }
    step
}

/// The next partitions of these databases are emptied.
pub(super) fn flush_partitions(
    space: &mut Keyspace,
    databases: Range<u16>,
    progress: &mut Progress,
    budget: &mut Budget,
) -> Step {
    let partitions = u64::from(SLOTS);
    let end = partitions * databases.len() as u64;
    while progress.at < end {
        if budget.is_spent() {
            return Step::More;
        }
        let nth = u16::try_from(progress.at / partitions).expect("databases are counted in 16 bits");
        let db = databases.start + nth;
        let from = u16::try_from(progress.at % partitions).expect("partitions are counted in 16 bits");
        let Some(partition) = space.shard.next_filled(db, from) else {
            budget.spend(1, 0);
            progress.at = partitions * (u64::from(nth) + 1);
            continue;
        };
        budget.spend(1 + usize::from(partition - from) / EMPTY_PER_UNIT, 0);
        // With many watched keys it is looked at again, and those before it are not.
        progress.at += u64::from(partition - from);
        if !touch_watched(space, progress, db, partition..=partition, None, budget) {
            return Step::More;
        }
        space.shard.commit(Effect::FlushPartition { db, partition }).expect("emptying takes no memory");
        progress.at += 1;
    }
    Step::Done
}

/// This lane's part of SWAPDB, under locks on both databases on all lanes. `at` counts those whose watched keys are marked;
/// then they are exchanged in one step, whatever they hold.
pub(crate) fn swap(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if call.port == Port::Lane {
        reply::error(sink, "ERR SWAPDB is not allowed in cluster mode");
        return Step::Done;
    }
    let (a, b) = match swapped_databases(call.args, space.database_count) {
        Ok(pair) => pair,
        Err(text) => {
            reply::error(sink, text);
            return Step::Done;
        }
    };
    if a != b {
        let pairs = [(a, b), (b, a)];
        while let Some(&(db, other)) = usize::try_from(progress.at).ok().and_then(|at| pairs.get(at)) {
            if !touch_watched(space, progress, db, 0..=u16::MAX, Some(other), budget) {
                return Step::More;
            }
            progress.at += 1;
        }
        space.shard.commit(Effect::SwapDatabases { a, b }).expect("exchanging takes no memory");
        // One change, on however many lanes.
        let has_first_slot = space.slots.contains(Slot::new(0).expect("there is a first slot"));
        space.shard.count_changes(if has_first_slot { 0 } else { -1 });
        space.feed_swap(a, b);
        space.track_flush(call.port);
    }
    sink.put(OK);
    Step::Done
}

/// A step of [`Keyspace::touch_watched`]; true when all of them are marked.
fn touch_watched(
    space: &mut Keyspace,
    progress: &mut Progress,
    db: u16,
    partitions: RangeInclusive<u16>,
    other: Option<u16>,
    budget: &mut Budget,
) -> bool {
    let round = match progress.state.take().map(|state| *state) {
        Some(State::Touching(round)) => Some(round),
        _ => None,
    };
    let round = space.touch_watched(round, db, partitions, other, budget);
    progress.state = round.map(|round| Box::new(State::Touching(round)));
    progress.state.is_none()
}
