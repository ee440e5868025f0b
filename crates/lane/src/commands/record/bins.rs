//! The bins of a record while operations change them. Nothing is copied: a bin is where its bytes are.

use wire::aerospike::Code;
use wire::aerospike::decoder::OP_COUNT_MAX;
use wire::aerospike::op::{Name, Op, kind, particle};

use super::read::bins_of;
use super::{Asked, Part, Record, is_bin};
use crate::request::{Arg, Args};

/// One bin.
#[derive(Clone, Debug)]
struct Bin {
    name: Name,
    particle: u8,
    value: Vec<Part>,
    /// All of it as the record has it, if it is as it was.
    kept: Option<Part>,
}

/// What a reply says of an operation.
struct Answer {
    kind: u8,
    bin: Bin,
}

/// See the top of this file.
pub(super) struct Bins<'a> {
    bins: Vec<Bin>,
    /// Bytes that are nowhere else.
    made: Vec<u8>,
    answers: Vec<Answer>,
    old: Option<Arg<'a>>,
    args: Args<'a>,
    /// Some operation has changed a bin.
    pub(super) is_changed: bool,
}

impl<'a> Bins<'a> {
    /// Those of a record; none without one.
    pub(super) fn of(record: Option<&Record<'a>>, args: Args<'a>) -> Bins<'a> {
        let bin = |(start, op): (usize, Op)| {
            let value = start + op.front_size();
            Bin {
                name: op.name,
                particle: op.particle,
                value: vec![Part::Old(value..value + op.value_size)],
                kept: Some(Part::Old(start..start + op.size())),
            }
        };
        Bins {
            bins: record.map_or_else(Vec::new, |record| bins_of(record).into_iter().map(bin).collect()),
            made: Vec::new(),
            answers: Vec::new(),
            old: record.map(|record| record.value),
            args,
            is_changed: false,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.bins.len()
    }

    /// All bins go.
    pub(super) fn clear(&mut self) {
        self.is_changed = true;
        self.bins.clear();
    }

    /// Does what is asked, in its order. With `is_each_answered` every operation has its place in the reply; else only reads
    /// of bins that are there, unless `is_silent`.
    ///
    /// # Errors
    /// A bin is of a type that the operation does not take, or its value has not the size of its type. The record is as
    /// it was.
    pub(super) fn apply(
        &mut self,
        asked: &[Asked],
        is_each_answered: bool,
        is_silent: bool,
    ) -> Result<(), Code> {
        for Asked { op, value } in asked {
            match op.kind {
                kind::READ => {
                    match self.find(op.name) {
                        Some(index) if !is_silent => {
                            self.answers.push(Answer { kind: op.kind, bin: self.bins[index].clone() });
                        }
                        _ if is_each_answered => self.answer_nothing(op),
                        _ => {}
                    }
                    continue;
                }
                kind::WRITE => self.write(op, value)?,
                kind::INCR => self.increment(op, value)?,
                kind::APPEND | kind::PREPEND => self.join(op, value)?,
                kind::DELETE_ALL => self.clear(),
                // The record's end is the caller's, and it has no place in the reply.
                _ => continue,
            }
            if is_each_answered {
                self.answer_nothing(op);
            }
        }
        if self.bins.len() > usize::from(OP_COUNT_MAX) { Err(Code::PARAMETER) } else { Ok(()) }
    }

    fn answer_nothing(&mut self, op: &Op) {
        let bin = Bin { name: op.name, particle: particle::NIL, value: Vec::new(), kept: None };
        self.answers.push(Answer { kind: op.kind, bin });
    }

    fn find(&self, name: Name) -> Option<usize> {
        self.bins.iter().position(|bin| bin.name == name)
    }

    fn write(&mut self, op: &Op, value: &Part) -> Result<(), Code> {
        let found = self.find(op.name);
        if op.particle == particle::NIL {
            if let Some(index) = found {
                self.is_changed = true;
                self.bins.remove(index);
            }
            return Ok(());
        }
        if !is_bin(op) {
            return Err(Code::PARAMETER);
        }
        self.set(found, op, vec![value.clone()]);
        Ok(())
    }

    /// A bin becomes this, or is made.
    fn set(&mut self, found: Option<usize>, op: &Op, value: Vec<Part>) {
        self.is_changed = true;
        let bin = Bin { name: op.name, particle: op.particle, value, kept: None };
        match found {
            Some(index) => self.bins[index] = bin,
            None => self.bins.push(bin),
        }
    }

    /// Adds to a number; one that is not there is 0.
    fn increment(&mut self, op: &Op, value: &Part) -> Result<(), Code> {
        if op.name.is_empty() {
            return Err(Code::PARAMETER);
        }
        if !matches!(op.particle, particle::INTEGER | particle::FLOAT) {
            return Err(Code::BIN_TYPE);
        }
        let delta = self.number(std::slice::from_ref(value)).ok_or(Code::PARAMETER)?;
        let found = self.find(op.name);
        let number = match found.map(|index| &self.bins[index]) {
            None => Some(delta),
            Some(bin) if bin.particle != op.particle => None,
            Some(bin) => self.number(&bin.value).map(|number| {
                if op.particle == particle::FLOAT {
                    (f64::from_be_bytes(number) + f64::from_be_bytes(delta)).to_be_bytes()
                } else {
                    i64::from_be_bytes(number).wrapping_add(i64::from_be_bytes(delta)).to_be_bytes()
                }
            }),
        };
        let made = self.make(&number.ok_or(Code::BIN_TYPE)?);
        self.set(found, op, vec![made]);
        Ok(())
    }

    /// Puts bytes before or behind a value; one that is not there is empty.
    fn join(&mut self, op: &Op, value: &Part) -> Result<(), Code> {
        if op.name.is_empty() {
            return Err(Code::PARAMETER);
        }
        if !matches!(op.particle, particle::STRING | particle::BLOB) {
            return Err(Code::BIN_TYPE);
        }
        let found = self.find(op.name);
        let mut parts = match found.map(|index| &self.bins[index]) {
            None => Vec::new(),
            Some(bin) if bin.particle != op.particle => return Err(Code::BIN_TYPE),
            Some(bin) => bin.value.clone(),
        };
        let at = if op.kind == kind::APPEND { parts.len() } else { 0 };
        parts.insert(at, value.clone());
        self.set(found, op, parts);
        Ok(())
    }

    /// Eight bytes.
    fn number(&self, parts: &[Part]) -> Option<[u8; 8]> {
        let [part] = parts else { return None };
        if part.size() != 8 {
            return None;
        }
        let (source, start) = match part {
            Part::Old(range) => (self.old.expect("it has old bytes of an old record"), range.start),
            Part::Arg { index, start, .. } => (self.args.get(*index), *start),
            Part::Made(range) => (Arg::Flat(&self.made), range.start),
        };
        let mut bytes = [0; 8];
        match source {
            Arg::Flat(flat) => bytes.copy_from_slice(&flat[start..start + 8]),
            Arg::Rope(rope) => rope.copy_to(start, &mut bytes),
        }
        Some(bytes)
    }

    fn make(&mut self, bytes: &[u8]) -> Part {
        let start = self.made.len();
        self.made.extend_from_slice(bytes);
        Part::Made(start..self.made.len())
    }

    /// What operations of this kind, and of this bin, begin with.
    fn make_front(&mut self, kind: u8, bin: &Bin) -> Part {
        let start = self.made.len();
        let value_size = size_of(&bin.value);
        Op { kind, particle: bin.particle, name: bin.name, value_size }.put_front(&mut self.made);
        Part::Made(start..self.made.len())
    }

    /// What the record becomes behind this front, and what the reply has: the answers, or all bins.
    pub(super) fn finish(mut self, front: &[u8], replies_all: bool) -> Built {
        let mut record = Parts::default();
        let front = self.make(front);
        record.push(front);
        let bins = std::mem::take(&mut self.bins);
        let bin_count = bins.len();
        let mut reply = Parts::default();
        for bin in bins {
            let front = if bin.kept.is_none() { Some(self.make_front(kind::READ, &bin)) } else { None };
            let parts: Vec<Part> = bin.kept.into_iter().chain(front).collect();
            let value =
                if parts.iter().any(|part| matches!(part, Part::Old(_))) { Vec::new() } else { bin.value };
            for part in parts.into_iter().chain(value) {
                if replies_all {
                    reply.push(part.clone());
                }
                record.push(part);
            }
        }
        let mut reply_count = if replies_all { bin_count } else { 0 };
        if !replies_all {
            for Answer { kind, bin } in std::mem::take(&mut self.answers) {
                let front = self.make_front(kind, &bin);
                reply.push(front);
                bin.value.into_iter().for_each(|part| reply.push(part));
                reply_count += 1;
            }
        }
        Built { record, bin_count, reply, reply_count, made: self.made }
    }
}

fn size_of(parts: &[Part]) -> usize {
    parts.iter().map(Part::size).sum()
}

/// What comes of operations.
pub(super) struct Built {
    pub(super) record: Parts,
    pub(super) bin_count: usize,
    pub(super) reply: Parts,
    pub(super) reply_count: usize,
    /// What [`Part::Made`] names.
    pub(super) made: Vec<u8>,
}

/// Parts one behind the other; those that lie side by side are one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) parts: Vec<Part>,
    pub(super) size: usize,
}

impl Parts {
    fn push(&mut self, part: Part) {
        self.size += part.size();
        match (self.parts.last_mut(), &part) {
            (Some(Part::Old(last)), Part::Old(range)) | (Some(Part::Made(last)), Part::Made(range))
                if last.end == range.start =>
            {
                last.end = range.end;
            }
            _ if part.size() == 0 => {}
            _ => self.parts.push(part),
        }
    }
}
