//! Bits of a string: one of them, how many are set, where the first one is. Bit 0 is the highest of the first byte.
//!
//! What counts or seeks goes over the bytes of a long string a slice at a time, and holds on to the string as it was at
//! the beginning.

use store::{Budget, CHUNK_SIZE, Effect, ROPE_SIZE_MAX, Rope, Value};
use wire::number::parse_i64;
use wire::reply;

use super::{NOT_AN_INTEGER, Progress, SYNTAX, State, Step};
use crate::keyspace::{Call, Keyspace, OOM};
use crate::replies::Sink;
use crate::request::Args;

/// A word as the offset of a bit, within the longest string that there may be. Of a field of `width` bits it is the first one, and `#N` is
/// the offset of the N-th of such fields; as in Redis the others may lie behind `proto-max-bulk-len`, but not where no string ends.
pub(super) fn bit_offset(space: &Keyspace, word: &[u8], width: Option<u8>) -> Result<u64, &'static str> {
    let (digits, scale) = match (word, width) {
        ([b'#', digits @ ..], Some(width)) => (digits, i64::from(width)),
        _ => (word, 1),
    };
    parse_i64(digits)
        .and_then(|number| u64::try_from(number.checked_mul(scale)?).ok())
        .filter(|offset| !space.exceeds(byte_of(*offset), 1))
        .filter(|offset| byte_of(offset + u64::from(width.unwrap_or(1)) - 1) < ROPE_SIZE_MAX)
        .ok_or("ERR bit offset is not an integer or out of range")
}

/// The byte in which a bit lies.
pub(super) fn byte_of(offset: u64) -> usize {
    usize::try_from(offset / 8).expect("memory is addressed with 64 bits")
}

/// Some bytes of a string from `offset` on, and zeros behind its end.
pub(super) fn window<const SIZE: usize>(value: Option<Value<'_>>, offset: usize) -> [u8; SIZE] {
    let mut window = [0; SIZE];
    let mut copy = |bytes: &[u8]| {
        let bytes = bytes.get(offset..).unwrap_or_default();
        let size = bytes.len().min(SIZE);
        window[..size].copy_from_slice(&bytes[..size]);
    };
    match value {
        None => {}
        Some(Value::Int(number)) => copy(wire::number::format_i64(number).as_bytes()),
        Some(Value::Bytes(bytes)) => copy(bytes),
        Some(Value::Rope(rope)) => {
            let size = rope.len().saturating_sub(offset).min(SIZE);
            rope.copy_to(offset, &mut window[..size]);
        }
    }
    window
}

/// GETBIT key offset.
pub(crate) fn getbit(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let offset = match bit_offset(space, call.args.flat(2), None) {
        Ok(offset) => offset,
        Err(text) => return reply::error(sink, text),
    };
    let key = space.key(call, 1);
    let value = space.look_up(&key).map(|entry| entry.value());
    let [byte] = window(value, byte_of(offset));
    reply::integer(sink, i64::from(byte & mask_of(offset) != 0));
}

/// SETBIT key offset value. A bit that is as it should be is no change.
pub(crate) fn setbit(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let offset = match bit_offset(space, call.args.flat(2), None) {
        Ok(offset) => offset,
        Err(text) => return reply::error(sink, text),
    };
    let Some(bit @ (0 | 1)) = parse_i64(call.args.flat(3)) else {
        return reply::error(sink, "ERR bit is not an integer or out of range");
    };
    let key = space.key(call, 1);
    space.lapse(&key);
    let value = space.read(&key).map(|entry| entry.value());
    let (offset, mask) = (byte_of(offset), mask_of(offset));
    let size = value.map_or(0, |value| value.len());
    let [old] = window(value, offset);
    let new = if bit == 1 { old | mask } else { old & !mask };
    let is_change = old != new || size <= offset;
    let effect = Effect::SetRange { key, offset, bytes: &[new] };
    if is_change && !(space.may_grow(offset.saturating_sub(size)) && space.commit(effect).is_ok()) {
        return reply::error(sink, OOM);
    }
    reply::integer(sink, i64::from(old & mask != 0));
}

/// A bit within its byte.
fn mask_of(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

/// What BITCOUNT's and BITPOS' numbers count.
#[derive(Clone, Copy)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(word: &[u8]) -> Result<Unit, &'static str> {
        match word {
            _ if word.eq_ignore_ascii_case(b"bit") => Ok(Unit::Bit),
            _ if word.eq_ignore_ascii_case(b"byte") => Ok(Unit::Byte),
            _ => Err(SYNTAX),
        }
    }

    /// The first and the last bit that two numbers mean in a string of `size` bytes, if there are any: negative ones
    /// count from its end, and what lies outside is cut off.
    fn range(self, start: i64, end: i64, size: usize) -> Option<(u64, u64)> {
        let bits_per_unit = match self {
            Unit::Byte => 8,
            Unit::Bit => 1,
        };
        let count = i64::try_from(size * 8).expect("a string is at most 8 GiB") / bits_per_unit;
        let from_start = |index: i64| if index < 0 { (index + count).max(0) } else { index };
        let (start, end) = (from_start(start), from_start(end).min(count - 1));
        let bit = |index: i64| u64::try_from(index).expect("clamped into the string");
        (start <= end).then(|| (bit(start * bits_per_unit), bit((end + 1) * bits_per_unit - 1)))
    }
}

/// A way over the bits of a string.
pub(crate) struct Scan {
    /// The bit that is sought; none: those that are set are counted.
    sought: Option<bool>,
    /// The first bit that counts, and the last.
    first: u64,
    last: u64,
    /// The next byte.
    at: usize,
    /// What has been counted, or what a search in vain answers.
    result: i64,
}

impl Scan {
    fn over((first, last): (u64, u64), sought: Option<bool>, result: i64) -> Scan {
        Scan { sought, first, last, at: byte_of(first), result }
    }

    /// BITCOUNT key [start end [BYTE | BIT]]; none if no bit is in the range.
    fn to_count(args: Args<'_>, size: usize) -> Result<Option<Scan>, &'static str> {
        let range = match args.len() {
            2 => Unit::Byte.range(0, -1, size),
            4 | 5 => {
                let start = parse_i64(args.flat(2)).ok_or(NOT_AN_INTEGER)?;
                let end = parse_i64(args.flat(3)).ok_or(NOT_AN_INTEGER)?;
                if start < 0 && end < 0 && end < start {
                    return Ok(None);
                }
                let unit = if args.len() == 5 { Unit::parse(args.flat(4))? } else { Unit::Byte };
                unit.range(start, end, size)
            }
            _ => return Err(SYNTAX),
        };
        Ok(range.map(|range| Scan::over(range, None, 0)))
    }

    /// BITPOS key bit [start [end [BYTE | BIT]]]; none if no bit is in the range. Behind a string without an end of the
    /// range there are zeros.
    fn to_find(bit: bool, args: Args<'_>, size: usize) -> Result<Option<Scan>, &'static str> {
        let (mut start, mut end, mut unit) = (0, -1, Unit::Byte);
        match args.len() {
            3 => {}
            4..=6 => {
                start = parse_i64(args.flat(3)).ok_or(NOT_AN_INTEGER)?;
                if args.len() == 6 {
                    unit = Unit::parse(args.flat(5))?;
                }
                if args.len() > 4 {
                    end = parse_i64(args.flat(4)).ok_or(NOT_AN_INTEGER)?;
                }
            }
            _ => return Err(SYNTAX),
        }
        let behind = i64::try_from(size * 8).expect("a string is at most 8 GiB");
        let otherwise = if bit || args.len() > 4 { -1 } else { behind };
        Ok(unit.range(start, end, size).map(|range| Scan::over(range, Some(bit), otherwise)))
    }

    /// Bytes up to the end of the range.
    fn left(&self) -> usize {
        byte_of(self.last) + 1 - self.at
    }

    /// The bits of a byte that are in the range.
    fn mask(&self, index: usize) -> u8 {
        let mut mask = 0xff;
        if index == byte_of(self.first) {
            mask &= 0xff >> (self.first % 8);
        }
        if index == byte_of(self.last) {
            mask &= 0xff << (7 - self.last % 8);
        }
        mask
    }

    /// Looks at the next bytes, none of which is behind the range; true when it has found what it sought.
    fn look(&mut self, bytes: &[u8]) -> bool {
        let base = self.at;
        self.at += bytes.len();
        match self.sought {
            None => {
                let (words, rest) = bytes.as_chunks::<8>();
                let in_words: u32 = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones()).sum();
                let in_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
                // Only the outermost bytes may be in the range in part.
                let ends = [base, self.at - 1];
                let ends = if ends[0] == ends[1] { &ends[..1] } else { &ends[..] };
                let outside = |index: &usize| (bytes[index - base] & !self.mask(*index)).count_ones();
                self.result += i64::from(in_words + in_rest - ends.iter().map(outside).sum::<u32>());
                false
            }
            Some(bit) => {
                let other = if bit { 0 } else { 0xff };
                let mut start = 0;
                while let Some(skipped) = skip(&bytes[start..], other) {
                    let index = base + start + skipped;
                    let hits = (bytes[start + skipped] ^ other) & self.mask(index);
                    if hits != 0 {
                        let offset = index * 8 + hits.leading_zeros() as usize;
                        self.result = i64::try_from(offset).expect("a string is at most 8 GiB");
                        return true;
                    }
                    start += skipped + 1;
                }
                false
            }
        }
    }

    /// Begins with a value: what is in one piece is over at once.
    fn begin(mut self, value: Value<'_>) -> Begun {
        let mut over = |bytes: &[u8]| {
            self.look(&bytes[self.at..][..self.left()]);
            Begun::Over(self.result)
        };
        match value {
            Value::Bytes(bytes) => over(bytes),
            Value::Int(number) => over(wire::number::format_i64(number).as_bytes()),
            Value::Rope(rope) => Begun::Under(self, rope.clone()),
        }
    }

    /// Looks at a long string until the budget is spent; true when it is over.
    fn advance(&mut self, rope: &Rope, budget: &mut Budget) -> bool {
        while self.left() > 0 {
            if budget.is_spent() {
                return false;
            }
            let bytes = &rope.chunk(self.at / CHUNK_SIZE).as_ref().as_ref()[self.at % CHUNK_SIZE..];
            let size = bytes.len().min(self.left()).min(budget.bytes as usize);
            budget.spend(1, size);
            if self.look(&bytes[..size]) {
                return true;
            }
        }
        true
    }
}

/// What came of the beginning.
enum Begun {
    Over(i64),
    Under(Scan, Rope),
}

/// How many bytes are `other` before the first one that is not; none if all are.
fn skip(bytes: &[u8], other: u8) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let start = 8 * words.iter().position(|word| *word != [other; 8]).unwrap_or(words.len());
    bytes[start..].iter().position(|byte| *byte != other).map(|index| start + index)
}

/// BITCOUNT.
pub(crate) fn bitcount(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if progress.state.is_some() {
        return scan(space, progress, sink, budget);
    }
    let key = space.key(call, 1);
    let begun = match space.look_up(&key).map(|entry| entry.value()) {
        None => Ok(Begun::Over(0)),
        Some(value) => Scan::to_count(call.args, value.len())
            .map(|scan| scan.map_or(Begun::Over(0), |scan| scan.begin(value))),
    };
    go_on(begun, space, progress, sink, budget)
}

/// BITPOS. A key that is not there is zeros without end.
pub(crate) fn bitpos(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if progress.state.is_some() {
        return scan(space, progress, sink, budget);
    }
    let bit = match parse_i64(call.args.flat(2)) {
        None => return go_on(Err(NOT_AN_INTEGER), space, progress, sink, budget),
        Some(bit @ (0 | 1)) => bit == 1,
        Some(_) => {
            return go_on(Err("ERR The bit argument must be 1 or 0."), space, progress, sink, budget);
        }
    };
    let key = space.key(call, 1);
    let begun = match space.look_up(&key).map(|entry| entry.value()) {
        None => Ok(Begun::Over(if bit { -1 } else { 0 })),
        Some(value) => Scan::to_find(bit, call.args, value.len())
            .map(|scan| scan.map_or(Begun::Over(-1), |scan| scan.begin(value))),
    };
    go_on(begun, space, progress, sink, budget)
}

/// What follows from the beginning: the reply, or the first slice.
fn go_on(
    begun: Result<Begun, &'static str>,
    space: &mut Keyspace,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    match begun {
        Err(text) => reply::error(sink, text),
        Ok(Begun::Over(result)) => reply::integer(sink, result),
        Ok(Begun::Under(way, rope)) => {
            progress.state = Some(Box::new(State::Scanning(way, rope)));
            return scan(space, progress, sink, budget);
        }
    }
    Step::Done
}

/// The next slice.
fn scan(space: &mut Keyspace, progress: &mut Progress, sink: &mut Sink<'_>, budget: &mut Budget) -> Step {
    let Some(State::Scanning(way, rope)) = progress.state.as_deref_mut() else {
        unreachable!("the state of BITCOUNT and BITPOS is a way over bits")
    };
    if !way.advance(rope, budget) {
        return Step::More;
    }
    reply::integer(sink, way.result);
    if let Some(State::Scanning(_, rope)) = progress.state.take().map(|state| *state) {
        space.shard.retire(rope);
    }
    Step::Done
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::RopeBuilder;
    use wire::ArgRanges;

    /// What a command answers about a string, in slices of so many bytes.
    fn run(line: &str, text: &[u8], slice: u32) -> Result<i64, &'static str> {
        let mut ranges = ArgRanges::new();
        ranges.set(line.split(' ').map(str::as_bytes));
        let args = Args::View { input: b"", ranges: &ranges };
        let begun = match args.flat(0) {
            b"BITCOUNT" => Scan::to_count(args, text.len())?,
            _ => Scan::to_find(args.flat(2) == b"1", args, text.len())?,
        };
        let nothing = if args.flat(0) == b"BITCOUNT" { 0 } else { -1 };
        let Some(mut scan) = begun else { return Ok(nothing) };
        let mut builder = RopeBuilder::new();
        builder.push(text);
        let rope = builder.finish();
        while !scan.advance(&rope, &mut Budget::new(9, slice)) {}
        Ok(scan.result)
    }

    /// The same, bit by bit.
    fn plainly(line: &str, text: &[u8]) -> i64 {
        let words: Vec<&str> = line.split(' ').collect();
        let is_count = words[0] == "BITCOUNT";
        let numbers: Vec<i64> = words[2..].iter().filter_map(|word| word.parse().ok()).collect();
        let numbers = if is_count { &numbers[..] } else { &numbers[1..] };
        let unit = if words.last() == Some(&"BIT") { 1 } else { 8 };
        let all = i64::try_from(text.len()).unwrap() * 8;
        let from_start = |number: i64| if number < 0 { (number + all / unit).max(0) } else { number };
        let first = numbers.first().map_or(0, |number| from_start(*number) * unit);
        let last = numbers.get(1).map_or(all, |number| (from_start(*number) + 1) * unit).min(all);
        if is_count && numbers.len() == 2 && numbers[1] < numbers[0] && numbers[0] < 0 {
            return 0;
        }
        let is_set = |bit: &i64| {
            let bit = usize::try_from(*bit).unwrap();
            text[bit / 8] << (bit % 8) & 0x80 != 0
        };
        if is_count {
            return i64::try_from((first..last).filter(is_set).count()).unwrap();
        }
        let sought = words[2] == "1";
        let behind = if sought || numbers.len() == 2 || last <= first { -1 } else { all };
        (first..last).find(|bit| is_set(bit) == sought).unwrap_or(behind)
    }

    #[test]
    fn every_range_and_slice_is_as_bit_by_bit() {
        let numbers =
            [0, 1, 2, 7, 8, 15, 17, 63, 64, 71, 80, 100, 400, -1, -2, -8, -9, -63, -65, -200, -1000];
        let texts: [Vec<u8>; 5] = [
            vec![0; 20],
            vec![0xff; 20],
            (0..25_u8).map(|index| index.wrapping_mul(31)).collect(),
            [vec![0; 13], vec![0x10], vec![0; 9]].concat(),
            [vec![0xff; 15], vec![0xfb], vec![0xff; 4]].concat(),
        ];
        for text in &texts {
            let check = |line: &str| {
                for slice in [1, 5, 1000] {
                    assert_eq!(run(line, text, slice), Ok(plainly(line, text)), "{line} of {text:?}");
                }
            };
            check("BITCOUNT k");
            for start in numbers {
                for end in numbers {
                    for unit in ["", " BYTE", " BIT"] {
                        check(&format!("BITCOUNT k {start} {end}{unit}"));
                        check(&format!("BITPOS k 0 {start} {end}{unit}"));
                        check(&format!("BITPOS k 1 {start} {end}{unit}"));
                    }
                }
                check(&format!("BITPOS k 0 {start}"));
                check(&format!("BITPOS k 1 {start}"));
            }
        }
    }

    #[test]
    fn options_that_are_none() {
        let check = |line: &str, want| assert_eq!(run(line, b"text", 100), Err(want), "{line}");
        check("BITCOUNT k 1", SYNTAX);
        check("BITCOUNT k 1 2 BITS", SYNTAX);
        check("BITCOUNT k 1 2 BIT 3", SYNTAX);
        check("BITCOUNT k 1 x", NOT_AN_INTEGER);
        check("BITPOS k 1 x 2 nothing", NOT_AN_INTEGER);
        check("BITPOS k 1 1 x nothing", SYNTAX);
        check("BITPOS k 1 1 x", NOT_AN_INTEGER);
        check("BITPOS k 1 1 2 BIT 3", SYNTAX);
        assert_eq!(run("BITCOUNT k -1 -2 nothing", b"text", 100), Ok(0), "as Redis, which looks no further");
    }
}
