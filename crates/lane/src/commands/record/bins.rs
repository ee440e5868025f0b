//! The bins of a record while operations change them. Nothing is copied: a bin is where its bytes are.

use std::collections::BTreeMap;

use wire::aerospike::Code;
use wire::aerospike::decoder::OP_COUNT_MAX;
use wire::aerospike::op::{Name, Op, kind, particle};

use super::read::{NAMES_FEW, bins_of};
use super::{Asked, Part, Record, is_bin};
use crate::request::{Arg, Args};

/// Pieces of which the answers to a request are put together at most: a value has one for each time that something was put before or behind it.
const PIECES_MAX: usize = 16 * 1024;

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
    /// Those that were removed are nothing.
    bins: Vec<Option<Bin>>,
    count: usize,
    /// Where each is, if many are looked for.
    places: Option<BTreeMap<Name, usize>>,
    /// Bytes that are nowhere else.
    made: Vec<u8>,
    answers: Vec<Answer>,
    /// Bytes of the answers, and pieces of them.
    answers_size: usize,
    pieces_count: usize,
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
        let bins: Vec<_> = record.map_or_else(Vec::new, |record| {
            bins_of(record).into_iter().map(|found| Some(bin(found))).collect()
        });
        Bins {
            count: bins.len(),
            bins,
            places: None,
            made: Vec::new(),
            answers: Vec::new(),
            answers_size: 0,
            pieces_count: 0,
            old: record.map(|record| record.value),
            args,
            is_changed: false,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// All bins go.
    pub(super) fn clear(&mut self) {
        self.is_changed = true;
        self.bins.clear();
        self.count = 0;
        if let Some(places) = &mut self.places {
            places.clear();
        }
    }

    /// Does what is asked, in its order. With `is_each_answered` every operation has its place in the reply; else only reads
    /// of bins that are there, unless `is_silent`.
    ///
    /// # Errors
    /// A bin is of a type that the operation does not take, or its value has not the size of its type; or the answers are longer than
    /// `size_max` bytes. The record is as it was.
    pub(super) fn apply(
        &mut self,
        asked: &[Asked],
        is_each_answered: bool,
        is_silent: bool,
        size_max: usize,
    ) -> Result<(), Code> {
        if asked.len() > NAMES_FEW {
            let bins = self.bins.iter().enumerate();
            self.places = Some(bins.filter_map(|(index, bin)| Some((bin.as_ref()?.name, index))).collect());
        }
        for Asked { op, value } in asked {
            match op.kind {
                kind::READ => {
                    match self.find(op.name) {
                        Some(index) if !is_silent => {
                            let bin = self.bin(index);
                            let (size, count) = (size_of(&bin.value), bin.value.len());
                            let answer = Answer { kind: op.kind, bin: bin.clone() };
                            self.answers_size += size;
                            self.pieces_count += count;
                            if self.answers_size > size_max || self.pieces_count > PIECES_MAX {
                                return Err(Code::TOO_BIG);
                            }
                            self.answers.push(answer);
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
        if self.count > usize::from(OP_COUNT_MAX) { Err(Code::PARAMETER) } else { Ok(()) }
    }

    fn answer_nothing(&mut self, op: &Op) {
        let bin = Bin { name: op.name, particle: particle::NIL, value: Vec::new(), kept: None };
        self.answers.push(Answer { kind: op.kind, bin });
    }

    fn find(&self, name: Name) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(&name).copied(),
            None => self.bins.iter().position(|bin| bin.as_ref().is_some_and(|bin| bin.name == name)),
        }
    }

    /// One that was found.
    fn bin(&self, index: usize) -> &Bin {
        self.bins[index].as_ref().expect("what is found is there")
    }

    fn write(&mut self, op: &Op, value: &Part) -> Result<(), Code> {
        let found = self.find(op.name);
        if op.particle == particle::NIL {
            if let Some(index) = found {
                self.is_changed = true;
                self.bins[index] = None;
                self.count -= 1;
                if let Some(places) = &mut self.places {
                    places.remove(&op.name);
                }
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
            Some(index) => self.bins[index] = Some(bin),
            None => {
                if let Some(places) = &mut self.places {
                    places.insert(bin.name, self.bins.len());
                }
                self.bins.push(Some(bin));
                self.count += 1;
            }
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
        let number = match found.map(|index| self.bin(index)) {
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
        let mut parts = match found.and_then(|index| self.bins[index].as_mut()) {
            None => Vec::new(),
            Some(bin) if bin.particle != op.particle => return Err(Code::BIN_TYPE),
            Some(bin) => std::mem::take(&mut bin.value),
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
        let bin_count = self.count;
        let mut reply = Parts::default();
        for bin in bins.into_iter().flatten() {
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
