//! Several strings, a budget's worth of keys a step.

use store::{Budget, Effect, Expiry, Key};
use wire::reply::{self, OK, Put};

use super::string::new_value;
use super::{Progress, Step};
use crate::keyspace::{Call, Keyspace, OOM, put_value};
use crate::replies::Sink;

/// Keys that are approached together.
const APPROACH_COUNT: usize = 16;

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
    let nothing = Key::with_hash(call.db, 0, 0, &[]);
    let mut index = start;
    while index < stop {
        // Their cache misses overlap.
        let mut keys = [nothing; APPROACH_COUNT];
        let batch = &mut keys[..APPROACH_COUNT.min(stop - index)];
        let mut approaches = space.shard.approaches(std::mem::take(&mut space.walks));
        for (nth, key) in batch.iter_mut().enumerate() {
            *key = space.key(call, index + nth);
            approaches.begin(key.db, key.partition, key.hash);
        }
        space.walks = approaches.arrive();
        for key in batch {
            budget.spend(1, call.args.get(index).size());
            index += 1;
            match space.look_up(key) {
                Some(entry) => {
                    // A rope is passed by reference.
                    budget.spend(0, entry.value().len().min(store::INLINE_SIZE_MAX));
                    put_value(sink, entry.value());
                }
                None => reply::null(sink, call.proto),
            }
            if budget.is_spent() && index < stop {
                progress.at = index as u64;
                return Step::More;
            }
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
        budget.spend(1, call.args.get(index).size() + value.size().min(store::INLINE_SIZE_MAX));
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
            budget.spend(1, call.args.get(index).size());
            let key = space.key(call, index);
            if space.get(&key).is_some() {
                reply::integer(sink, 0);
                return Step::Done;
            }
            if budget.is_spent() {
                progress.at = index as u64 + 2;
                return Step::More;
            }
        }
        progress.at = stop as u64;
        if stop < end {
            return Step::More;
        }
    }
    let mut second = Progress { at: progress.at - end as u64, ..Progress::default() };
    let step = set_pairs(space, call, &mut second, sink, budget);
    progress.at = second.at + end as u64;
    if step == Step::Done && second.count == 0 {
        reply::integer(sink, 1);
    }
    step
}
