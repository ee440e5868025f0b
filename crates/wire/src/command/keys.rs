//! Which arguments of a command are keys.
//!
//! Redis 7 describes this with *key specifications*: where the search begins and how keys follow. See
//! <https://redis.io/docs/latest/develop/reference/key-specs/>.

use crate::resp::Args;

/// Some keys of a command.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where the first one is.
    pub begin: Begin,
    /// How further ones follow.
    pub find: Find,
    /// What happens to them, in the words of COMMAND INFO: `RO RW OW RM`, `access update insert delete`, ….
    pub flags: &'static str,
    /// A remark for people; empty if there is none.
    pub notes: &'static str,
}

/// Where the keys of a [`KeySpec`] begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u8),
    /// Behind this word; the search for it starts at this argument, or from the end if negative.
    Keyword(&'static str, i8),
    /// Only the command itself knows.
    Unknown,
}

/// How the keys of a [`KeySpec`] go on from where they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`th argument up to `last`: counted from the first key, or from the end if negative.
    Range {
        /// Last key, relative.
        last: i8,
        /// Distance of keys.
        step: u8,
        /// With `last` -1: only the first n-th part of the rest holds keys; 0 and 1 are all of it.
        limit: u8,
    },
    /// The number of keys is itself an argument.
    KeyNum {
        /// Where that number is, relative.
        index: u8,
        /// Where the first key is, relative.
        first: u8,
        /// Distance of keys.
        step: u8,
    },
    /// Only the command itself knows.
    Unknown,
}

/// The keys of one command in the old form of COMMAND INFO: first, last (from the end if negative), step. All 0 without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Argument of the first key; 0 is none.
    pub first: u8,
    /// Argument of the last key, or from the end if negative.
    pub last: i8,
    /// Distance of keys.
    pub step: u8,
}

/// The flags of what belongs to a slot as a key does, and is none: a sharded channel.
pub(super) const NOT_KEY: &str = "not_key";

/// One key, at `index`.
pub(super) const fn at(index: u8, flags: &'static str) -> KeySpec {
    range(index, 0, 1, flags)
}

/// Keys from `index` to `last`, every `step`.
pub(super) const fn range(index: u8, last: i8, step: u8, flags: &'static str) -> KeySpec {
    KeySpec { begin: Begin::Index(index), find: Find::Range { last, step, limit: 0 }, flags, notes: "" }
}

/// Keys behind their number, which is at `index`.
pub(super) const fn counted(index: u8, flags: &'static str) -> KeySpec {
    let find = Find::KeyNum { index: 0, first: 1, step: 1 };
    KeySpec { begin: Begin::Index(index), find, flags, notes: "" }
}

/// Keys from behind a word to the end; the search for it starts at argument `from`, or from the end if negative.
pub(super) const fn behind(word: &'static str, from: i8, flags: &'static str) -> KeySpec {
    let find = Find::Range { last: -1, step: 1, limit: 0 };
    KeySpec { begin: Begin::Keyword(word, from), find, flags, notes: "" }
}

impl KeySpec {
    /// The same with a remark.
    pub const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }

    /// Whether what it finds are keys: sharded channels only belong to slots as keys do.
    pub fn names_keys(&self) -> bool {
        self.flags != NOT_KEY
    }

    /// Whether the arguments say where its keys are, and not the command alone.
    pub fn is_known(&self) -> bool {
        self.begin != Begin::Unknown && self.find != Find::Unknown
    }

    /// The arguments that are keys, for a call with these arguments.
    pub fn positions(&self, args: &Args<'_>) -> Result<Positions, Unknown> {
        self.positions_among(args.len(), |index| args.get(index))
    }

    /// The same for a call with `count` arguments, of which `get` knows each.
    pub fn positions_among<'a>(
        &self,
        count: usize,
        get: impl Fn(usize) -> &'a [u8],
    ) -> Result<Positions, Unknown> {
        let first = match self.begin {
            Begin::Index(index) => usize::from(index),
            Begin::Keyword(word, from) => match keyword(word, from, count, &get) {
                Some(index) => index + 1,
                None => return Ok(Positions::NONE),
            },
            Begin::Unknown => return Err(Unknown),
        };
        match self.find {
            Find::Range { last, step, limit } => {
                let end = match usize::try_from(last) {
                    Ok(last) => first + last + 1,
                    Err(_) if last == -1 && limit > 1 => {
                        first + count.saturating_sub(first) / usize::from(limit)
                    }
                    Err(_) => (count + 1).saturating_sub(usize::from(last.unsigned_abs())),
                };
                if first >= count || end > count {
                    return Err(Unknown);
                }
                Ok(Positions { next: first, end, step: usize::from(step) })
            }
            Find::KeyNum { index, first: offset, step } => {
                let at = first + usize::from(index);
                let number = (at < count).then(|| get(at)).and_then(crate::number::parse_i64);
                let keys = number.and_then(|keys| usize::try_from(keys).ok()).ok_or(Unknown)?;
                let (start, step) = (first + usize::from(offset), usize::from(step));
                // A number that lies about its keys is far larger than the arguments that are there.
                let span = keys.checked_sub(1).map(|more| more.saturating_mul(step).saturating_add(1));
                match span {
                    None => Ok(Positions::NONE),
                    Some(span) if start < count && span <= count - start => {
                        Ok(Positions { next: start, end: start + span, step })
                    }
                    Some(_) => Err(Unknown),
                }
            }
            Find::Unknown => Err(Unknown),
        }
    }
}

fn keyword<'a>(word: &str, from: i8, count: usize, get: impl Fn(usize) -> &'a [u8]) -> Option<usize> {
    let is_word = |index: &usize| get(*index).eq_ignore_ascii_case(word.as_bytes());
    match usize::try_from(from) {
        Ok(from) => (from..count).find(is_word),
        Err(_) => {
            let last = count.checked_sub(usize::from(from.unsigned_abs()))?;
            (1..=last).rev().find(is_word)
        }
    }
}

/// The keys of this call cannot be told from its arguments: too few, a count that is wrong, or a command that decides
/// while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// Positions of keys by one specification: every `step` from `next` below `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    next: usize,
    end: usize,
    step: usize,
}

impl Positions {
    const NONE: Positions = Positions { next: 0, end: 0, step: 1 };
}

impl Iterator for Positions {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let index = self.next;
        self.next += self.step;
        (index < self.end).then_some(index)
    }
}

/// Positions of all keys of a call, with the flags of each.
#[derive(Clone, Debug)]
pub struct KeyPositions<'a> {
    specs: std::slice::Iter<'static, KeySpec>,
    args: Args<'a>,
    current: Positions,
    flags: &'static str,
}

impl<'a> KeyPositions<'a> {
    pub(super) fn new(specs: &'static [KeySpec], args: Args<'a>) -> Result<KeyPositions<'a>, Unknown> {
        for spec in specs.iter().filter(|spec| spec.names_keys()) {
            spec.positions(&args)?;
        }
        Ok(KeyPositions { specs: specs.iter(), args, current: Positions::NONE, flags: "" })
    }

    /// MIGRATE's, of which its specifications say too much: without an empty word where one key would be there are none
    /// behind `KEYS`, and with it that is no key. A password may be such a word, too (`migrateGetKeys` of Redis).
    pub(super) fn of_migrate(args: Args<'a>) -> Result<KeyPositions<'a>, Unknown> {
        let positions = match keys_of_migrate(args.len(), |index| args.get(index)) {
            Some(keys) if !keys.is_empty() => Positions { next: keys.start, end: keys.end, step: 1 },
            _ => return Err(Unknown),
        };
        Ok(KeyPositions { specs: [].iter(), args, current: positions, flags: "RW access delete" })
    }

    /// What happens to the key that came last.
    pub fn flags(&self) -> &'static str {
        self.flags
    }
}

impl Iterator for KeyPositions<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(index) = self.current.next() {
                return Some(index);
            }
            let spec = self.specs.find(|spec| spec.names_keys())?;
            self.flags = spec.flags;
            self.current = spec.positions(&self.args).unwrap_or(Positions::NONE);
        }
    }
}

/// The arguments of a MIGRATE that are keys, of so many; none if it has `KEYS` and a key before.
pub fn keys_of_migrate<'a>(count: usize, arg: impl Fn(usize) -> &'a [u8]) -> Option<std::ops::Range<usize>> {
    let mut index = 6;
    // The last word is no option.
    while index + 1 < count {
        let is = |word: &[u8]| arg(index).eq_ignore_ascii_case(word);
        if is(b"keys") {
            return arg(3).is_empty().then_some(index + 1..count);
        }
        index += if is(b"auth2") {
            3
        } else if is(b"auth") {
            2
        } else {
            1
        };
    }
    Some(3..4)
}

/// The old form of some specifications (`populateCommandLegacyRangeSpec` of Redis): plain ranges that follow one another.
pub(super) const fn legacy_range(specs: &[KeySpec]) -> Range {
    let mut range = Range { first: 0, last: 0, step: 0 };
    let mut index = 0;
    while index < specs.len() {
        if let (Begin::Index(first), Find::Range { last, step, .. }) = (specs[index].begin, specs[index].find)
        {
            assert!(first < 100 && last < 100, "keys stand near the start or are counted from the end");
            let last = if last >= 0 { last + first.cast_signed() } else { last };
            if range.first == 0 {
                range = Range { first, last, step };
            } else if step == 1 && range.last == first.cast_signed() - 1 {
                range.last = last;
            }
        }
        index += 1;
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::ArgRanges;

    fn check(begin: Begin, find: Find, call: &str, want: Result<&[usize], Unknown>) {
        let mut args = ArgRanges::new();
        args.set(call.split(' ').map(str::as_bytes));
        let spec = KeySpec { begin, find, flags: "RO", notes: "" };
        let got = spec.positions(&args.view(b"")).map(Iterator::collect::<Vec<_>>);
        assert_eq!(got.as_deref().map_err(|unknown| *unknown), want, "{call}");
    }

    #[test]
    fn keys_that_are_counted_by_an_argument() {
        // EVAL: its third word is the number of keys, which follow.
        let eval =
            |call, want| check(Begin::Index(2), Find::KeyNum { index: 0, first: 1, step: 1 }, call, want);
        eval("EVAL s 2 a b x", Ok(&[3, 4]));
        eval("EVAL s 2 a b", Ok(&[3, 4]));
        eval("EVAL s 0 x", Ok(&[]));
        eval("EVAL s 0", Ok(&[]));
        for call in [
            "EVAL s 3 a b",
            "EVAL s 1",
            "EVAL s -1 a",
            "EVAL s x a",
            "EVAL s",
            "EVAL s 9223372036854775807 a",
        ] {
            eval(call, Err(Unknown));
        }
    }

    #[test]
    fn keys_behind_a_word() {
        // XREAD: the first half of what stands behind STREAMS.
        let streams = Find::Range { last: -1, step: 1, limit: 2 };
        let xread = |call, want| check(Begin::Keyword("STREAMS", 1), streams, call, want);
        xread("XREAD COUNT 2 streams a b 0 0", Ok(&[4, 5]));
        xread("XREAD STREAMS a 0", Ok(&[2]));
        xread("XREAD COUNT 2", Ok(&[]));
        xread("XREAD STREAMS", Err(Unknown));
        // MIGRATE: behind KEYS, which is searched from the end.
        let rest = Find::Range { last: -1, step: 1, limit: 0 };
        let migrate = |call, want| check(Begin::Keyword("KEYS", -2), rest, call, want);
        migrate("MIGRATE h p x 0 9 KEYS a b", Ok(&[7, 8]));
        migrate("MIGRATE h p KEYS 0 9 KEYS a", Ok(&[7]));
        migrate("MIGRATE h p k 0 9", Ok(&[]));
        check(Begin::Unknown, rest, "SORT k", Err(Unknown));
        check(Begin::Index(1), Find::Unknown, "SORT k", Err(Unknown));
    }
}
