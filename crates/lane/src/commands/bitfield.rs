//! BITFIELD and BITFIELD_RO: integers of any width at any bit of a string.
//!
//! All operations are read before the first is carried out, so that a wrong one changes nothing. Both goes over the arguments
//! take as many slices as there are operations for, and the replies are kept until the end.

use std::ops::RangeInclusive;

use store::{Budget, Effect};
use wire::command::Id;
use wire::number::parse_i64;
use wire::reply;

use super::bits::{bit_offset, byte_of, window};
use super::{NOT_AN_INTEGER, Progress, SYNTAX, State, Step};
use crate::keyspace::{Call, Keyspace, OOM};
use crate::replies::{Content, Sink};

/// Bytes in which an integer of 64 bits may lie.
const FIELD_SIZE_MAX: usize = 9;

/// Width and sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Type {
    is_signed: bool,
    width: u8,
}

impl Type {
    /// `u1` to `u63`, `i1` to `i64`.
    fn parse(word: &[u8]) -> Result<Type, &'static str> {
        let (is_signed, digits, width_max) = match word {
            [b'i', digits @ ..] => (true, digits, 64),
            [b'u', digits @ ..] => (false, digits, 63),
            _ => (false, &b""[..], 0),
        };
        let width = parse_i64(digits).and_then(|width| u8::try_from(width).ok());
        match width.filter(|width| (1..=width_max).contains(width)) {
            Some(width) => Ok(Type { is_signed, width }),
            None => Err(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            ),
        }
    }

    fn bounds(self) -> RangeInclusive<i128> {
        match self.is_signed {
            true => -(1 << (self.width - 1))..=(1 << (self.width - 1)) - 1,
            false => 0..=(1 << self.width) - 1,
        }
    }

    /// The number that these bits are, the highest one first; those above the width do not count.
    fn number(self, bits: u128) -> i128 {
        let unused = 128 - u32::from(self.width);
        let high = bits << unused;
        if self.is_signed { high.cast_signed() >> unused } else { (high >> unused).cast_signed() }
    }

    /// A number as one of this type, or none.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        let bounds = self.bounds();
        match overflow {
            _ if bounds.contains(&number) => Some(number),
            Overflow::Wrap => Some(self.number(number.cast_unsigned())),
            Overflow::Saturate => Some(number.clamp(*bounds.start(), *bounds.end())),
            Overflow::Fail => None,
        }
    }
}

/// What becomes of a number that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Overflow {
    #[default]
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Overflow, &'static str> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("wrap") => Ok(Overflow::Wrap),
            () if is("sat") => Ok(Overflow::Saturate),
            () if is("fail") => Ok(Overflow::Fail),
            () => Err("ERR Invalid OVERFLOW type specified"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Get,
    Set(i64),
    Add(i64),
}

/// One operation.
#[derive(Clone, Copy, Debug)]
struct Operation {
    act: Act,
    kind: Type,
    /// Its first bit.
    offset: u64,
    overflow: Overflow,
}

impl Operation {
    fn last_bit(&self) -> u64 {
        self.offset + u64::from(self.kind.width) - 1
    }
}

/// What stands next among the arguments.
enum Word {
    Overflow(Overflow),
    Operation(Operation),
}

/// A call under way.
#[derive(Default)]
pub(crate) struct Fields {
    /// Whether all operations have been read and are being carried out.
    runs: bool,
    /// The one that holds for the next operation.
    overflow: Overflow,
    /// Operations read.
    count: usize,
    /// The last bit that is written, if any is.
    last_bit: Option<u64>,
    /// The string has become longer for what is written.
    has_grown: bool,
    /// Something else is in it.
    has_changed: bool,
    /// What the operations have answered.
    replies: Content,
}

impl Fields {
    /// What stands at argument `at`, which is moved behind it; none at their end.
    fn next(&self, space: &Keyspace, call: &Call<'_>, at: &mut usize) -> Result<Option<Word>, &'static str> {
        let (args, first) = (call.args, *at);
        if first == args.len() {
            return Ok(None);
        }
        let is = |name: &str| args.flat(first).eq_ignore_ascii_case(name.as_bytes());
        let more = args.len() - first - 1;
        let count = match () {
            () if is("get") && more >= 2 => 2,
            () if (is("set") || is("incrby")) && more >= 3 => 3,
            () if is("overflow") && more >= 1 => 1,
            () => return Err(SYNTAX),
        };
        *at += 1 + count;
        if count == 1 {
            return Overflow::parse(args.flat(first + 1)).map(|overflow| Some(Word::Overflow(overflow)));
        }
        let kind = Type::parse(args.flat(first + 1))?;
        let offset = bit_offset(space, args.flat(first + 2), Some(kind.width))?;
        let number = || parse_i64(args.flat(first + 3)).ok_or(NOT_AN_INTEGER);
        let act = match () {
            () if count == 2 => Act::Get,
            () if is("set") => Act::Set(number()?),
            () => Act::Add(number()?),
        };
        Ok(Some(Word::Operation(Operation { act, kind, offset, overflow: self.overflow })))
    }

    /// Reads operations, and at their end makes the string long enough for what is written; false when the budget is spent
    /// before.
    fn read(
        &mut self,
        space: &mut Keyspace,
        call: &Call<'_>,
        at: &mut usize,
        budget: &mut Budget,
    ) -> Result<bool, &'static str> {
        while let Some(word) = self.next(space, call, at)? {
            budget.spend(1, 0);
            if let Word::Operation(operation) = word {
                self.count += 1;
                if operation.act != Act::Get {
                    self.last_bit = self.last_bit.max(Some(operation.last_bit()));
                }
            }
            if budget.is_spent() {
                return Ok(false);
            }
        }
        let key = space.key(call, 1);
        match self.last_bit {
            None => {
                space.look_up(&key);
            }
            Some(_) if call.command.id == Id::BitfieldRo => {
                return Err("ERR BITFIELD_RO only supports the GET subcommand");
            }
            Some(last_bit) => {
                space.lapse(&key);
                let offset = byte_of(last_bit);
                let size = space.read(&key).map_or(0, |entry| entry.value().len());
                if size <= offset {
                    if !space.may_grow(offset - size) {
                        return Err(OOM);
                    }
                    space.commit(Effect::SetRange { key, offset, bytes: &[0] }).map_err(|_| OOM)?;
                    // What is written then counts, though it be zero.
                    space.shard.count_changes(-1);
                    self.has_grown = true;
                }
            }
        }
        let has_grown = self.has_grown;
        *self = Fields { runs: true, count: self.count, has_grown, ..Fields::default() };
        *at = 2;
        Ok(true)
    }

    /// Carries operations out; false when the budget is spent before their end.
    fn run(
        &mut self,
        space: &mut Keyspace,
        call: &Call<'_>,
        at: &mut usize,
        budget: &mut Budget,
    ) -> Result<bool, &'static str> {
        loop {
            if budget.is_spent() {
                return Ok(false);
            }
            match self.next(space, call, at)? {
                None => return Ok(true),
                Some(Word::Overflow(overflow)) => self.overflow = overflow,
                Some(Word::Operation(operation)) => {
                    self.has_changed |= operation.run(space, call, self.has_grown, &mut self.replies)?;
                }
            }
            budget.spend(1, FIELD_SIZE_MAX);
        }
    }
}

impl Operation {
    /// Carries it out and writes what it answers; whether it has changed something.
    fn run(
        &self,
        space: &mut Keyspace,
        call: &Call<'_>,
        has_grown: bool,
        out: &mut Content,
    ) -> Result<bool, &'static str> {
        let key = space.key(call, 1);
        let offset = byte_of(self.offset);
        let value = space.get(&key).map(|entry| entry.value());
        let before: [u8; FIELD_SIZE_MAX] = window(value, offset);
        // The bytes as one number, and the field's distance from its end.
        let word = before.iter().fold(0, |word: u128, byte| word << 8 | u128::from(*byte));
        let behind = 8 * FIELD_SIZE_MAX as u64 - self.offset % 8 - u64::from(self.kind.width);
        let old = self.kind.number(word >> behind);
        let new = match self.act {
            Act::Get => Some(old),
            Act::Set(number) if self.kind.is_signed => self.kind.fit(number.into(), self.overflow),
            Act::Set(number) => self.kind.fit(number.cast_unsigned().into(), self.overflow),
            Act::Add(number) => self.kind.fit(old + i128::from(number), self.overflow),
        };
        let Some(new) = new else {
            reply::null(out, call.proto);
            return Ok(false);
        };
        let has_changed = new != old || has_grown && self.act != Act::Get;
        if new != old {
            let mask = (1 << self.kind.width) - 1;
            let word = word & !(mask << behind) | (new.cast_unsigned() & mask) << behind;
            let after = &word.to_be_bytes()[16 - FIELD_SIZE_MAX..];
            let bytes = &after[..=byte_of(self.last_bit()) - offset];
            space.commit(Effect::SetRange { key, offset, bytes }).map_err(|_| OOM)?;
        } else if has_changed {
            space.shard.count_changes(1);
        }
        let answer = if matches!(self.act, Act::Set(_)) { old } else { new };
        reply::integer(out, i64::try_from(answer).expect("an unsigned field has 63 bits at most"));
        Ok(has_changed)
    }
}

/// BITFIELD and BITFIELD_RO.
pub(crate) fn bitfield(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let mut at = usize::try_from(progress.at).expect("an index").max(2);
    let mut fields = match progress.state.take().map(|state| *state) {
        Some(State::Fields(fields)) => fields,
        None => Fields::default(),
        Some(_) => unreachable!("BITFIELD's state is fields"),
    };
    let is_ready = if fields.runs { Ok(true) } else { fields.read(space, call, &mut at, budget) };
    let is_over = match is_ready {
        Ok(true) => fields.run(space, call, &mut at, budget),
        other => other,
    };
    match is_over {
        Err(text) => {
            space.discard_content(fields.replies);
            reply::error(sink, text);
        }
        Ok(true) => {
            if fields.has_changed {
                let key = space.key(call, 1);
                space.events.note_fields(&key);
            }
            reply::array(sink, fields.count);
            sink.append(fields.replies);
        }
        Ok(false) => {
            progress.at = at as u64;
            progress.state = Some(Box::new(State::Fields(fields)));
            return Step::More;
        }
    }
    Step::Done
}
