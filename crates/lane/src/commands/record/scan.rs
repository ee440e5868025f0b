//! What goes over records: scans, a partition at a time, and truncation.

use store::{Budget, Effect};
use wire::aerospike::head::{info1, info3};
use wire::aerospike::op::kind;
use wire::aerospike::reply::{Reply, put_end, put_field_header};
use wire::aerospike::{Code, TEXT, info};
use wire::reply::Put;
use wire::route::partition;

use super::read::Wanted;
use super::{Record, Request};
use crate::commands::{Progress, Step, database};
use crate::keyspace::Keyspace;
use crate::replies::Sink;

/// A cursor's partition stands above this many bits of position in it.
const PARTITION_SHIFT: u32 = 48;

/// Fields of a record that is found.
mod field {
    pub(super) const NAMESPACE: u8 = 0;
    pub(super) const SET: u8 = 1;
    pub(super) const USER_KEY: u8 = 2;
    pub(super) const DIGEST: u8 = 4;
}

/// All records of a partition, or those of a set, some buckets a step. `at` is the cursor, `count` tells whether it has begun.
pub(super) fn scan(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let head = &request.head;
    let id = partition(request.arg(wire::aerospike::DIGEST));
    let asked = match request.asked() {
        Ok(asked) if asked.iter().all(|asked| asked.op.kind == kind::READ) => asked,
        Ok(_) => return refuse(request, Code::PARAMETER, id, sink),
        Err(code) => return refuse(request, code, id, sink),
    };
    // Without a bin it wants all, unlike a read.
    let wanted = if asked.is_empty() && !request.has(info1::NO_BINS) {
        Some(Wanted::All)
    } else {
        Wanted::of(request, &asked)
    };
    let Some(wanted) = wanted else { return refuse(request, Code::PARAMETER, id, sink) };
    let slot = u64::from(wire::route::Slot::of_partition(id).number());
    if progress.count == 0 {
        (progress.count, progress.at) = (1, slot << PARTITION_SHIFT);
    }
    let (shard, now_ms, db) = (&space.shard, space.now.unix_ms, request.call.db);
    let namespace = &space.namespace(db).name;
    while !budget.is_spent() {
        // One bucket, or one run of empty partitions.
        let mut one = Budget::new(1, u32::MAX);
        let (mut count, mut size) = (1, 0);
        progress.at = shard.scan(db, progress.at, now_ms, &mut one, &mut |digest, entry| {
            let record = Record::of(entry);
            count += 1;
            if !request.set().is_empty() && record.set() != request.set() {
                return;
            }
            let (fields, field_count) = fields(digest, &record, namespace.as_bytes());
            size += fields.len() + record.value.size();
            wanted.put(&record, Reply { field_count, ..record.reply() }, head, &fields, sink);
        });
        budget.spend(count, size);
        if progress.at >> PARTITION_SHIFT != slot {
            if head.info3 & info3::PARTITION_DONE == 0 {
                done(request, Code::OK, id, sink);
            }
            put_end(sink, head);
            return Step::Done;
        }
    }
    Step::More
}

/// A partition is through.
fn done(request: &Request<'_>, code: Code, id: u16, sink: &mut Sink<'_>) {
    let reply = Reply { generation: u32::from(id), info3: info3::PARTITION_DONE, ..Reply::of(code) };
    reply.put_header(sink, &request.head);
}

fn refuse(request: &Request<'_>, code: Code, id: u16, sink: &mut Sink<'_>) -> Step {
    done(request, code, id, sink);
    put_end(sink, &request.head);
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
    let value = if info::option(options, b"lut").is_some_and(|lut| lut != b"0") {
        "ERROR:4:the instants of changes are not kept: truncate without lut"
    } else {
        let db = request.call.db;
        let step = if set.is_empty() {
            database::flush_partitions(space, db..db + 1, progress, budget)
        } else {
            remove_set(space, db, set, progress, budget)
        };
        if step == Step::More {
            return Step::More;
        }
        "ok"
    };
    info::put(sink, &[name, b"\t", value.as_bytes(), b"\n"].concat());
    Step::Done
}

fn remove_set(
    space: &mut Keyspace,
    db: u16,
    set: &[u8],
    progress: &mut Progress,
    budget: &mut Budget,
) -> Step {
    while !budget.is_spent() {
        let mut one = Budget::new(1, u32::MAX);
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut count = 1;
        let (shard, now_ms) = (&space.shard, space.now.unix_ms);
        progress.at = shard.scan(db, progress.at, now_ms, &mut one, &mut |digest, entry| {
            count += 1;
            if Record::of(entry).set() == set {
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
