//! What goes over records: scans, a partition at a time, and truncation.

use std::collections::BTreeSet;

use store::{Budget, Effect, Entry};
use wire::aerospike::head::{info1, info3};
use wire::aerospike::op::kind;
use wire::aerospike::reply::{Reply, put_end, put_field_header};
use wire::aerospike::{Code, DIGEST_SIZE, EPOCH_S, Head, TEXT, USER_KEY, info};
use wire::reply::Put;
use wire::route::Slot;

use super::read::Wanted;
use super::{Record, Request};
use crate::commands::{Progress, Step, database};
use crate::keyspace::Keyspace;
use crate::replies::Sink;
use crate::request::{Arg, Args};

/// Above this many bits of position stands in a shard's cursor the partition, and in a scan's progress the number of those before it.
const POSITION_BITS: u32 = 48;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

/// Bytes of records that a reply holds which is given out when it is whole: that of a scan of so many records. The partitions behind them are
/// unavailable then, for which clients ask again.
const HELD_SIZE_MAX: i64 = 16 * 1024 * 1024;
/// Bits of the number of such records, which stands below the number of bytes.
const RECORD_COUNT_BITS: u32 = 20;
/// Names looked for in a record that count as much as one more record.
const LOOKS_PER_ELEMENT: usize = 8;
const _: () = assert!((wire::aerospike::SCAN_RECORD_COUNT_MAX as u64) < 1 << RECORD_COUNT_BITS, "they fit");

/// Fields of a record that is found.
mod field {
    pub(super) const NAMESPACE: u8 = 0;
    pub(super) const SET: u8 = 1;
    pub(super) const USER_KEY: u8 = 2;
    pub(super) const DIGEST: u8 = 4;
}

/// The records of its partitions, or those of a set, some buckets a step, until there are as many as are wanted. `at` is the
/// partition's place in the list and the position in it, `count` the number of records, if that is limited, and above it that of their bytes.
///
/// They come in the order of the table's hash, in which buckets lie, and digests break its ties. However the table has grown
/// or shrunk meanwhile, a scan goes on behind a record at the bucket that covers its hash, be the record gone.
pub(super) fn scan(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let limit = i64::from(request.head.index);
    let record_count = |count: i64| count & ((1 << RECORD_COUNT_BITS) - 1);
    let is_long = |count: i64| HELD_SIZE_MAX <= count >> RECORD_COUNT_BITS;
    let head = Head { index: 0, ..request.head };
    let ids = request.arg(wire::aerospike::DIGEST).as_chunks::<2>().0;
    let id_at = |index: u64| {
        ids.get(usize::try_from(index).expect("a list in memory")).map(|id| u16::from_le_bytes(*id))
    };
    let resumed = request.call.args.get(USER_KEY);
    let first = id_at(0).expect("a scan has partitions");
    let mut asked = match request.asked() {
        Ok(asked) if asked.iter().all(|asked| asked.op.kind == kind::READ) => asked,
        Ok(_) => return refuse(&head, Code::PARAMETER, first, sink),
        Err(code) => return refuse(&head, code, first, sink),
    };
    // A record is no longer than it is stored, whatever is named twice.
    let mut names = BTreeSet::new();
    asked.retain(|asked| names.insert(asked.op.name));
    // Without a bin it wants all, unlike a read.
    let wanted = if asked.is_empty() && !request.has(info1::NO_BINS) {
        Some(Wanted::All)
    } else {
        Wanted::of(request, &asked)
    };
    let Some(wanted) = wanted else { return refuse(&head, Code::PARAMETER, first, sink) };
    let (shard, now_ms, db) = (&space.shard, space.now.unix_ms, request.call.db);
    let namespace = &space.namespace(db).name;
    let mut found: Vec<(u64, &[u8], Entry<'_>)> = Vec::new();
    while !budget.is_spent() {
        let (index, position) = (progress.at >> POSITION_BITS, progress.at & POSITION_MASK);
        let may_find_more = limit == 0 || record_count(progress.count) < limit;
        let Some(id) = id_at(index).filter(|_| may_find_more) else {
            put_end(sink, &head);
            return Step::Done;
        };
        let slot = Slot::of_partition(id);
        if !space.slots.contains(slot) || is_long(progress.count) {
            // The client's map is old, or too much is held: it asks again where the partition is, and for what is behind the last record.
            done(&head, Code::PARTITION_UNAVAILABLE, id, sink);
            progress.at = (index + 1) << POSITION_BITS;
            budget.spend(1, 0);
            continue;
        }
        let order = |digest: &[u8]| shard.key(db, slot.number(), digest).hash;
        let digest = digest_at(resumed, index);
        let behind = digest.as_ref().map(|digest| (order(digest), &digest[..]));
        let position = match behind {
            Some((hash, _)) if position == 0 => hash >> (u64::BITS - POSITION_BITS),
            _ => position,
        };
        // One bucket, or one run of empty partitions.
        let mut one = Budget::new(1, u32::MAX);
        let (mut count, mut size) = (1, 0);
        let start = u64::from(slot.number()) << POSITION_BITS;
        found.clear();
        let next = shard.scan(db, start | position, now_ms, &mut one, &mut |digest, entry| {
            count += 1;
            found.push((order(digest), digest, *entry));
        });
        found.retain(|(hash, digest, _)| behind.is_none_or(|behind| behind < (*hash, *digest)));
        found.sort_unstable_by_key(|(hash, digest, _)| (*hash, *digest));
        for (_, digest, entry) in &found {
            let record = Record::of(entry);
            if !request.set().is_empty() && record.set() != request.set() {
                continue;
            }
            if limit > 0 && record_count(progress.count) == limit {
                // The partition is not through.
                put_end(sink, &head);
                return Step::Done;
            }
            if is_long(progress.count) {
                break;
            }
            let (fields, field_count) = fields(digest, &record, namespace.as_bytes());
            let bins = wanted.find(&record);
            let put_size = fields.len() + bins.size();
            count += asked.len() / LOOKS_PER_ELEMENT;
            size += put_size;
            if limit > 0 {
                progress.count += 1 + (i64::try_from(put_size).expect("a size") << RECORD_COUNT_BITS);
            }
            bins.put(&record, Reply { field_count, ..record.reply() }, &head, &fields, sink);
        }
        budget.spend(count, size);
        if is_long(progress.count) {
            // The rest of this partition is said to be unavailable, too.
        } else if next & !POSITION_MASK == start {
            progress.at = index << POSITION_BITS | next & POSITION_MASK;
        } else {
            if head.info3 & info3::PARTITION_DONE == 0 {
                done(&head, Code::OK, id, sink);
            }
            progress.at = (index + 1) << POSITION_BITS;
        }
    }
    Step::More
}

/// The digest at `index` in a list of them, of which a long one is a rope.
fn digest_at(list: Arg<'_>, index: u64) -> Option<[u8; DIGEST_SIZE]> {
    let start = usize::try_from(index).ok()?.checked_mul(DIGEST_SIZE)?;
    let mut digest = [0; DIGEST_SIZE];
    match list {
        Arg::Flat(bytes) => digest.copy_from_slice(bytes.get(start..start + DIGEST_SIZE)?),
        Arg::Rope(rope) if start + DIGEST_SIZE <= rope.len() => rope.copy_to(start, &mut digest),
        Arg::Rope(_) => return None,
    }
    Some(digest)
}

/// A partition is through.
fn done(head: &Head, code: Code, id: u16, sink: &mut Sink<'_>) {
    let reply = Reply { generation: u32::from(id), info3: info3::PARTITION_DONE, ..Reply::of(code) };
    reply.put_header(sink, head);
}

fn refuse(head: &Head, code: Code, id: u16, sink: &mut Sink<'_>) -> Step {
    done(head, code, id, sink);
    put_end(sink, head);
    Step::Done
}

/// What is said of a record that is found, and how many fields that is.
fn fields(digest: &[u8], record: &Record<'_>, namespace: &[u8]) -> (Vec<u8>, u16) {
    let (mut out, mut count) = (Vec::new(), 0);
    let mut put = |kind: u8, data: &[u8]| {
        if !data.is_empty() {
            put_field_header(&mut out, kind, data.len());
            out.put(data);
            count += 1;
        }
    };
    put(field::NAMESPACE, namespace);
    put(field::SET, record.set());
    put(field::DIGEST, digest);
    put(field::USER_KEY, record.user_key());
    (out, count)
}

/// Removes this lane's records, or those of a set, some a step. `at` is the cursor, `count` the number of steps.
pub(super) fn truncate(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let name = info::names(request.arg(TEXT)).next().unwrap_or_default();
    let options = info::truncated(name).unwrap_or_default();
    let set = info::option(options, b"set").unwrap_or_default();
    let value = match is_of_all(space, info::option(options, b"lut")) {
        Err(refused) => refused,
        Ok(false) => "ok",
        Ok(true) => {
            let db = request.call.db;
            let step = if set.is_empty() {
                database::flush_partitions(space, db..db + 1, progress, budget)
            } else {
                remove_set(space, db, set, progress, budget)
            };
            if step == Step::More {
                return Step::More;
            }
            let now_ms = space.now.unix_ms;
            space.sets_of(db).note_truncated(set, now_ms);
            "ok"
        }
    };
    info::put(sink, &[name, b"\t", value.as_bytes(), b"\n"].concat());
    Step::Done
}

/// Whether a truncation is of all records, or of none, for which `lut` decides: unix nanoseconds, and what has changed since then
/// stays. The instants of changes are not kept, only that all come behind the server's start.
fn is_of_all(space: &Keyspace, lut: Option<&[u8]>) -> Result<bool, &'static str> {
    let ns = match lut {
        None => return Ok(true),
        Some(digits) => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok()),
    };
    let Some(ns) = ns else { return Err("ERROR:4:lut is a number of nanoseconds") };
    match (ns / 1_000_000).cast_signed() {
        _ if ns == 0 => Ok(true),
        at_ms if at_ms <= EPOCH_S * 1000 => Err("ERROR:4:would truncate to 0"),
        at_ms if at_ms <= space.started_ms => Ok(false),
        at_ms if at_ms > space.now.unix_ms => Err("ERROR:4:would truncate in the future"),
        _ => Err(
            "ERROR:4:the instants of changes are not kept: truncate without lut, or before the server's start",
        ),
    }
}

/// Removes the records of a set, in steps without a lock: those of other sets are served meanwhile, and each record goes at an instant
/// of its own. Ends as soon as the set has none.
fn remove_set(
    space: &mut Keyspace,
    db: u16,
    set: &[u8],
    progress: &mut Progress,
    budget: &mut Budget,
) -> Step {
    let Some(number) = space.sets_of(db).find(set) else { return Step::Done };
    while !budget.is_spent() {
        let mut one = Budget::new(1, u32::MAX);
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut count = 1;
        let (shard, now_ms) = (&space.shard, space.now.unix_ms);
        if shard.labelled(db, number).count == 0 {
            return Step::Done;
        }
        progress.at = shard.scan(db, progress.at, now_ms, &mut one, &mut |digest, entry| {
            count += 1;
            if Record::of(entry).set_number == number {
                found.push(digest.to_vec());
            }
        });
        for digest in &found {
            let key = space.shard.key(db, space.slot(db, digest).number(), digest);
            space.commit(Effect::Delete { key }).expect("deleting takes no memory");
        }
        budget.spend(count + found.len(), 0);
        if progress.at == 0 {
            return Step::Done;
        }
    }
    Step::More
}

/// Whether a truncation is of one set, not of a whole namespace.
pub(crate) fn is_of_set(args: Args<'_>) -> bool {
    let options = info::names(args.flat(TEXT)).next().and_then(info::truncated);
    options.and_then(|options| info::option(options, b"set")).is_some_and(|set| !set.is_empty())
}
