//! Reads of a record: all bins, some, or none.

use std::ops::Range;

use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::{Name, Op, kind, particle};
use wire::aerospike::reply::{Reply, put_end};
use wire::aerospike::{Code, Head};

use super::{Asked, Record, Request, op_at, put_range, reads_all, reply_size_max};
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
    let (key, size_max) = (request.key(space), reply_size_max(space));
    let Some(entry) = space.look_up(&key) else { return request.say(sink, Code::NOT_FOUND) };
    let record = Record::of(&entry);
    if let Err(code) = record.check_key(request.user_key()) {
        return request.say(sink, code);
    }
    let found = wanted.find(&record);
    if found.size() > size_max {
        return request.say(sink, Code::TOO_BIG);
    }
    found.put(&record, record.reply(), &request.head, &[], sink);
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

    /// These bins of a record.
    pub(super) fn find(&self, record: &Record<'_>) -> Found {
        match self {
            Wanted::Nothing => Found::Nothing,
            Wanted::All => Found::All { count: record.op_count(), range: record.bins() },
            Wanted::Some { asked, is_each_answered } => {
                let bins = Places::new(bins_of(record), asked.len());
                let found = asked.iter().map(|asked| (asked.op.name, bins.find(asked.op.name)));
                let found = found.filter(|(_, bin)| *is_each_answered || bin.is_some());
                let bin_or_nil = |(name, bin): (Name, Option<(usize, Op)>)| {
                    bin.unwrap_or((0, Op { kind: kind::READ, particle: particle::NIL, name, value_size: 0 }))
                };
                let found: Vec<_> = found.map(bin_or_nil).collect();
                Found::Some { size: found.iter().map(|(_, op)| op.size()).sum(), found }
            }
        }
    }
}

/// Bins that a reply has.
pub(super) enum Found {
    Nothing,
    /// All of the record's.
    All {
        count: u16,
        range: Range<usize>,
    },
    /// Where each begins, if it has a value; bytes of all.
    Some {
        found: Vec<(usize, Op)>,
        size: usize,
    },
}

impl Found {
    /// Bytes of them.
    pub(super) fn size(&self) -> usize {
        match self {
            Found::Nothing => 0,
            Found::All { range, .. } => range.len(),
            Found::Some { size, .. } => *size,
        }
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
        let op_count = match self {
            Found::Nothing => 0,
            Found::All { count, .. } => *count,
            Found::Some { found, .. } => u16::try_from(found.len()).expect("operations are few"),
        };
        Reply { op_count, size: fields.len() + self.size(), ..reply }.put_header(sink, head);
        sink.put(fields);
        match self {
            Found::All { range, .. } if !range.is_empty() => put_range(sink, record.value, range.clone()),
            Found::Nothing | Found::All { .. } => {}
            Found::Some { found, .. } => {
                for (start, op) in found {
                    op.put_front(sink);
                    if op.value_size > 0 {
                        let start = start + op.front_size();
                        put_range(sink, record.value, start..start + op.value_size);
                    }
                }
            }
        }
    }
}

/// Names for which bins are looked up one by one; more are looked up in order.
pub(super) const NAMES_FEW: usize = 8;

/// A record's bins by their names.
struct Places {
    bins: Vec<(usize, Op)>,
    is_sorted: bool,
}

impl Places {
    /// For so many look-ups.
    fn new(mut bins: Vec<(usize, Op)>, count: usize) -> Places {
        let is_sorted = count > NAMES_FEW;
        if is_sorted {
            bins.sort_by_key(|(_, op)| op.name);
        }
        Places { bins, is_sorted }
    }

    fn find(&self, name: Name) -> Option<(usize, Op)> {
        if self.is_sorted {
            let index = self.bins.binary_search_by_key(&name, |(_, op)| op.name).ok()?;
            return Some(self.bins[index]);
        }
        self.bins.iter().find(|(_, op)| op.name == name).copied()
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
