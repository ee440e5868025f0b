//! Lines of the text protocol: words between blanks (`process_command_ascii` and what it calls, in `proto_text.c`).
//!
//! ```text
//! set   key flags exptime size [noreply]\r\n  value \r\n       add, replace, append, prepend likewise; cas has one number more
//! get   key…\r\n                   gets likewise; gat and gats with an exptime in front
//! incr  key delta [noreply]\r\n    decr, touch likewise
//! ```
//!
//! `noreply` is whatever last word is so called, in any place that the command reads it at; then an error is not said either.

use std::ops::Range;

use super::decoder::{Limits, Parsed, Then};
use super::head::{Bits, Framing, Head, Verb};
use super::number::{parse_i32, parse_u32, parse_u64};
use super::say::Say;
use super::{KEY_SIZE_MAX, item_size, meta, scan};

/// Words of a line that are told apart; those behind are only counted as one more (`MAX_TOKENS` − 1).
pub(super) const WORDS_MAX: usize = 23;

/// The words of a line.
pub(super) struct Words<'a> {
    line: &'a [u8],
    ranges: [(u32, u32); WORDS_MAX],
    /// How many there are, at most [`WORDS_MAX`].
    pub(super) count: usize,
}

impl<'a> Words<'a> {
    pub(super) fn of(line: &'a [u8]) -> Words<'a> {
        let mut words = Words { line, ranges: [(0, 0); WORDS_MAX], count: 0 };
        let mut at = 0;
        while words.count < WORDS_MAX {
            let (start, end) = next_word(line, at);
            if start == end {
                break;
            }
            words.ranges[words.count] = (index32(start), index32(end));
            words.count += 1;
            at = end;
        }
        words
    }

    /// The word at `index`, empty behind the last.
    pub(super) fn get(&self, index: usize) -> &'a [u8] {
        &self.line[self.range(index)]
    }

    /// Where it lies in the line.
    pub(super) fn range(&self, index: usize) -> Range<usize> {
        self.ranges.get(index).map_or(0..0, |&(start, end)| start as usize..end as usize)
    }

    /// From the word at `index` to the end of the last.
    pub(super) fn rest(&self, index: usize) -> Range<usize> {
        if index < self.count { self.range(index).start..self.range(self.count - 1).end } else { 0..0 }
    }

    /// The text of [`Words::rest`].
    pub(super) fn flags(&self, index: usize) -> &'a [u8] {
        &self.line[self.rest(index)]
    }

    fn is_noreply(&self) -> bool {
        self.get(self.count - 1) == b"noreply"
    }
}

/// Positions inside a line fit 32 bits.
fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("a line is far smaller than 4 GiB")
}

/// Where the next word from `at` on starts and ends; both the line's end if there is none.
fn next_word(line: &[u8], at: usize) -> (usize, usize) {
    let mut start = at;
    while line.get(start) == Some(&b' ') {
        start += 1;
    }
    let mut end = start;
    while line.get(end).is_some_and(|byte| *byte != b' ') {
        end += 1;
    }
    (start, end)
}

/// What the keys of a line are asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// The expiry of `gat` and `gats`.
    exptime: Option<i32>,
    wants_cas: bool,
}

impl Keys {
    /// Those of `get`.
    pub(super) const GET: Keys = Keys { exptime: None, wants_cas: false };

    /// The head of a key.
    pub(super) fn head(self, is_last: bool) -> Head {
        let verb = if self.exptime.is_some() { Verb::Gat } else { Verb::Get };
        Head {
            bits: Bits::WANTS_VALUE.and_if(self.wants_cas, Bits::WANTS_CAS).and_if(is_last, Bits::ENDS),
            exptime: i64::from(self.exptime.unwrap_or_default()),
            ..Head::new(verb, Framing::Text)
        }
    }
}

/// A `get` of one key without anything odd, which lies in the input as a whole: its key, and the size of the line. Nearly every
/// request, read in one go; any other is read with care.
#[inline]
pub(super) fn plain_get(input: &[u8]) -> Option<(&[u8], usize)> {
    const FRONT: &[u8] = b"get ";
    let rest = input.strip_prefix(FRONT)?;
    let size = scan::find_blank(rest)?;
    let end_size = match rest[size..] {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => return None,
    };
    (0 < size && size <= KEY_SIZE_MAX).then(|| (&rest[..size], FRONT.len() + size + end_size))
}

/// A line of keys: what for, and where the words behind begin. Nothing if it is another line.
pub(super) fn keys(line: &[u8]) -> Option<Result<(Keys, usize), Say>> {
    let (start, end) = next_word(line, 0);
    let (touches, wants_cas) = match &line[start..end] {
        b"get" | b"bget" => (false, false),
        b"gets" => (false, true),
        b"gat" => (true, false),
        b"gats" => (true, true),
        _ => return None,
    };
    let (first, first_end) = next_word(line, end);
    Some(if first == first_end {
        Err(Say::Error)
    } else if !touches {
        Ok((Keys { exptime: None, wants_cas }, end))
    } else {
        let exptime = parse_i32(&line[first..first_end]).ok_or(Say::BadExptime);
        exptime.map(|exptime| (Keys { exptime: Some(exptime), wants_cas }, first_end))
    })
}

/// Does this begin like a line of keys that may be of any length? Up to 100 blanks may stand in front.
pub(super) fn may_be_long(input: &[u8]) -> bool {
    const BLANKS_MAX: usize = 100;
    let blanks = input.iter().take_while(|byte| **byte == b' ').count();
    let line = &input[blanks..];
    blanks <= BLANKS_MAX && (line.starts_with(b"get ") || line.starts_with(b"gets "))
}

/// Is a word of the line, from `at` on, too long for a key?
pub(super) fn has_long_key(line: &[u8], at: usize) -> bool {
    line[at..].split(|byte| *byte == b' ').any(|word| word.len() > KEY_SIZE_MAX)
}

/// Reads a line without its end, which is no line of keys.
pub(super) fn parse(line: &[u8], limits: &Limits) -> Parsed {
    let words = Words::of(line);
    let name = words.get(0);
    // No command is shorter than two letters.
    if name.len() < 2 {
        return say(Say::Error, false);
    }
    // How many words there may be, the command among them.
    let between = |least: usize, most: usize| (least..=most).contains(&words.count);
    match name {
        [b'm', _] => meta::parse(&words, limits),
        b"set" if between(5, 6) => store(&words, Verb::Set, limits),
        b"add" if between(5, 6) => store(&words, Verb::Add, limits),
        b"replace" if between(5, 6) => store(&words, Verb::Replace, limits),
        b"append" if between(5, 6) => store(&words, Verb::Append, limits),
        b"prepend" if between(5, 6) => store(&words, Verb::Prepend, limits),
        b"cas" if between(6, 7) => store(&words, Verb::Cas, limits),
        b"delete" if between(2, 4) => delete(&words),
        b"incr" if between(3, 4) => count(&words, Verb::Incr),
        b"decr" if between(3, 4) => count(&words, Verb::Decr),
        b"touch" if between(3, 4) => touch(&words),
        b"flush_all" if between(1, 3) => flush(&words),
        b"verbosity" if between(2, 3) => verbosity(&words),
        b"stats" => {
            let group = words.rest(1);
            Parsed { then: Then::Inside(group), ..Parsed::of(Head::new(Verb::Stats, Framing::Text)) }
        }
        b"version" => Parsed::of(Head::new(Verb::Version, Framing::Text)),
        b"quit" => {
            let bits = Bits::CLOSES;
            Parsed::of(Head { bits, ..Head::new(Verb::Quit, Framing::Text) })
        }
        _ => refuse(&words),
    }
}

/// A line that is only answered.
pub(super) fn say(say: Say, is_quiet: bool) -> Parsed {
    let bits = Bits::default().and_if(is_quiet, Bits::QUIET).and_if(say == Say::Nothing, Bits::CLOSES);
    Parsed::of(Head { say, bits, ..Head::new(Verb::Say, Framing::Text) })
}

/// A command with this key, and the bits that `noreply` sets.
fn keyed(words: &Words<'_>, verb: Verb, is_quiet: bool) -> Parsed {
    let bits = Bits::default().and_if(is_quiet, Bits::QUIET);
    Parsed { key: words.range(1), ..Parsed::of(Head { bits, ..Head::new(verb, Framing::Text) }) }
}

fn is_long(key: &[u8]) -> bool {
    key.len() > KEY_SIZE_MAX
}

fn store(words: &Words<'_>, verb: Verb, limits: &Limits) -> Parsed {
    let is_quiet = words.is_noreply();
    let wants_cas = verb == Verb::Cas;
    let cas = if wants_cas { parse_u64(words.get(5)) } else { Some(0) };
    let numbers = (parse_u32(words.get(2)), parse_i32(words.get(3)), parse_i32(words.get(4)), cas);
    let (false, (Some(flags), Some(exptime), Some(size), Some(cas))) = (is_long(words.get(1)), numbers)
    else {
        return say(Say::BadFormat, is_quiet);
    };
    let Some(size) = value_size(size) else { return say(Say::BadFormat, is_quiet) };
    let parsed = keyed(words, verb, is_quiet);
    let bits = parsed.head.bits.and_if(wants_cas, Bits::HAS_CAS);
    let head = Head { bits, flags, exptime: i64::from(exptime), cas, ..parsed.head };
    sized(Parsed { head, ..parsed }, words.get(1).len(), size, verb == Verb::Set, limits)
}

/// The size of a value as announced: nothing if it is negative or leaves no room for a line's end in 31 bits.
pub(super) fn value_size(size: i32) -> Option<u64> {
    u64::try_from(size).ok().filter(|_| size <= i32::MAX - 2)
}

/// A command with a value of this size behind its line, or what becomes of it if that is too large: it is swallowed, and the
/// value that it should have replaced is forgotten if `forgets`, because it is out of date.
pub(super) fn sized(parsed: Parsed, key_size: usize, size: u64, forgets: bool, limits: &Limits) -> Parsed {
    let end = if parsed.head.framing == Framing::Binary { 0 } else { 2 };
    if item_size(key_size, parsed.head.flags, size) <= limits.item_size_max {
        return Parsed { then: Then::Value(size), ..parsed };
    }
    let head = Head { say: Say::TooLarge, ..parsed.head };
    if forgets {
        Parsed { head: Head { verb: Verb::Forget, ..head }, then: Then::Swallow(size + end), ..parsed }
    } else {
        let head = Head { verb: Verb::Say, ..head };
        Parsed { then: Then::Swallow(size + end), size: parsed.size, ..Parsed::of(head) }
    }
}

fn delete(words: &Words<'_>) -> Parsed {
    let (is_zero, is_quiet) = (words.get(2) == b"0", words.count > 2 && words.is_noreply());
    let is_known = match words.count {
        2 => true,
        3 => is_zero || is_quiet,
        _ => is_zero && is_quiet,
    };
    if !is_known {
        say(Say::DeleteUsage, is_quiet)
    } else if is_long(words.get(1)) {
        say(Say::BadFormat, is_quiet)
    } else {
        keyed(words, Verb::Delete, is_quiet)
    }
}

fn count(words: &Words<'_>, verb: Verb) -> Parsed {
    let is_quiet = words.is_noreply();
    if is_long(words.get(1)) {
        return say(Say::BadFormat, is_quiet);
    }
    let Some(delta) = parse_u64(words.get(2)) else { return say(Say::BadDelta, is_quiet) };
    let parsed = keyed(words, verb, is_quiet);
    Parsed { head: Head { delta, ..parsed.head }, ..parsed }
}

fn touch(words: &Words<'_>) -> Parsed {
    let is_quiet = words.is_noreply();
    if is_long(words.get(1)) {
        return say(Say::BadFormat, is_quiet);
    }
    let Some(exptime) = parse_i32(words.get(2)) else { return say(Say::BadExptime, is_quiet) };
    let parsed = keyed(words, Verb::Touch, is_quiet);
    Parsed { head: Head { exptime: i64::from(exptime), ..parsed.head }, ..parsed }
}

fn flush(words: &Words<'_>) -> Parsed {
    let is_quiet = words.is_noreply();
    let has_delay = words.count != if is_quiet { 2 } else { 1 };
    let delay = if has_delay { parse_i32(words.get(1)) } else { Some(0) };
    let Some(delay) = delay else { return say(Say::BadExptime, is_quiet) };
    let bits = Bits::default().and_if(is_quiet, Bits::QUIET);
    // A negative delay is none.
    let exptime = i64::from(delay.max(0));
    Parsed::of(Head { bits, exptime, ..Head::new(Verb::Flush, Framing::Text) })
}

fn verbosity(words: &Words<'_>) -> Parsed {
    let is_quiet = words.is_noreply();
    let Some(level) = parse_u32(words.get(1)) else { return say(Say::BadFormat, is_quiet) };
    let bits = Bits::default().and_if(is_quiet, Bits::QUIET);
    Parsed::of(Head { bits, delta: u64::from(level), ..Head::new(Verb::Verbosity, Framing::Text) })
}

/// Commands that are not carried out: those that there are not, those with too few or too many words, and those about the
/// insides of memcached.
fn refuse(words: &Words<'_>) -> Parsed {
    let (what, is_quiet) = match (words.get(0), words.get(1), words.count) {
        (b"shutdown", ..) => (Say::ShutdownRefused, false),
        (b"slabs", b"reassign", 4) => (Say::SlabsRefused, false),
        (b"slabs", b"automove", 3..) => (Say::Error, words.is_noreply()),
        (b"cache_memlimit", _, 2..=3) => {
            let is_number = parse_u32(words.get(1)).is_some();
            (if is_number { Say::MemoryLimitRefused } else { Say::Error }, words.is_noreply())
        }
        (b"lru", _, 2..) | (b"extstore", _, 2..) => (Say::Error, words.is_noreply()),
        (b"lru_crawler", b"crawl" | b"metadump" | b"tocrawl" | b"sleep", 3) => (Say::CrawlerRefused, false),
        (b"lru_crawler", b"enable", 2) => (Say::CrawlerFailed, false),
        (b"lru_crawler", b"disable", 2) => (Say::Done, false),
        (b"refresh_certs", ..) => (Say::TlsRefused, false),
        (b"watch", ..) => (Say::WatchRefused, words.is_noreply()),
        (name, ..) if !has_family(name) && words.get(words.count - 1).starts_with(b"HTTP/") => {
            (Say::Nothing, false)
        }
        _ => (Say::Error, false),
    };
    say(what, is_quiet)
}

/// Does memcached look for this command among those with its first letter, or is it one that it knows? A request of HTTP is
/// recognised only among the rest.
fn has_family(name: &[u8]) -> bool {
    matches!(name[0], b'g' | b's' | b'a' | b'c' | b'i' | b'd' | b't')
        || matches!(
            name,
            b"replace" | b"prepend" | b"flush_all" | b"verbosity" | b"lru" | b"lru_crawler" | b"extstore"
        )
        || name.len() == 2 && name[0] == b'm'
}
