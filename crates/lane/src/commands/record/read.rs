//! Reads of a record: all bins, some, or none.

use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::{Name, Op, kind, particle};
use wire::aerospike::reply::{Reply, put_end};
use wire::aerospike::{Code, Head};

use super::{Asked, Record, Request, op_at, put_range, reads_all};
use crate::keyspace::Keyspace;
use crate::replies::Sink;

/// A read of one record.
pub(super) fn get(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let asked = match request.asked() {
        Ok(asked) if asked.iter().all(|asked| asked.op.kind == kind::READ) => asked,
        Ok(_) => return request.say(sink, Code::PARAMETER),
        Err(code) => return request.say(sink, code),
    };
    let wanted = Wanted::of(request, &asked);
    let wanted = match wanted {
        Some(wanted) => wanted,
        None => return request.say(sink, Code::PARAMETER),
    };
    let key = request.key(space);
    let Some(entry) = space.look_up(&key) else { return request.say(sink, Code::NOT_FOUND) };
    let record = Record::of(&entry);
    if let Err(code) = record.check_key(request.user_key()) {
        return request.say(sink, code);
    }
    wanted.put(&record, record.reply(), &request.head, &[], sink);
    put_end(sink, &request.head);
}

/// Which bins a reply has.
pub(super) enum Wanted<'a> {
    /// None.
    Nothing,
    /// All that there are.
    All,
    /// Those of these operations; with those that are not there, if `is_each_answered`.
    Some { asked: &'a [Asked], is_each_answered: bool },
}

impl<'a> Wanted<'a> {
    /// What a request that reads wants; nothing when it contradicts itself, or names no bin.
    pub(super) fn of(request: &Request<'_>, asked: &'a [Asked]) -> Option<Wanted<'a>> {
        let is_each_answered = request.head.info2 & info2::RESPOND_ALL != 0;
        if request.has(info1::NO_BINS) {
            return Some(Wanted::Nothing);
        }
        if reads_all(request, asked) {
            return (!is_each_answered || asked.is_empty()).then_some(Wanted::All);
        }
        (!asked.is_empty()).then_some(Wanted::Some { asked, is_each_answered })
    }

    /// Writes a record with these bins: the header that `reply` begins, the fields, and the bins.
    pub(super) fn put(
        &self,
        record: &Record<'_>,
        reply: Reply,
        head: &Head,
        fields: &[u8],
        sink: &mut Sink<'_>,
    ) {
        use wire::reply::Put;
        let fields_size = fields.len();
        match self {
            Wanted::Nothing => {
                Reply { size: fields_size, ..reply }.put_header(sink, head);
                sink.put(fields);
            }
            Wanted::All => {
                let size = fields_size + record.bins().len();
                Reply { op_count: record.op_count(), size, ..reply }.put_header(sink, head);
                sink.put(fields);
                if !record.bins().is_empty() {
                    put_range(sink, record.value, record.bins());
                }
            }
            Wanted::Some { asked, is_each_answered } => {
                let bins = bins_of(record);
                let find = |name: Name| bins.iter().find(|(_, op)| op.name == name);
                let found = asked.iter().map(|asked| (asked.op.name, find(asked.op.name)));
                let found: Vec<_> = found.filter(|(_, bin)| *is_each_answered || bin.is_some()).collect();
                let op_of = |(name, bin): &(Name, Option<&(usize, Op)>)| match bin {
                    Some((_, op)) => *op,
                    None => Op { kind: kind::READ, particle: particle::NIL, name: *name, value_size: 0 },
                };
                let size = fields_size + found.iter().map(|found| op_of(found).size()).sum::<usize>();
                let op_count = u16::try_from(found.len()).expect("operations are few");
                Reply { op_count, size, ..reply }.put_header(sink, head);
                sink.put(fields);
                for found in &found {
                    let op = op_of(found);
                    op.put_front(sink);
                    if let Some((start, op)) = found.1.filter(|(_, op)| op.value_size > 0) {
                        let start = start + op.front_size();
                        put_range(sink, record.value, start..start + op.value_size);
                    }
                }
            }
        }
    }
}

/// The bins of a record, and where each begins.
pub(super) fn bins_of(record: &Record<'_>) -> Vec<(usize, Op)> {
    let mut bins = Vec::with_capacity(record.bin_count as usize);
    let range = record.bins();
    let mut at = range.start;
    while at < range.end {
        let op = op_at(record.value, at).expect("a record holds whole bins");
        bins.push((at, op));
        at += op.size();
    }
    bins
}
