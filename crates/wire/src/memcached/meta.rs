//! Meta commands: a code of two letters, a key, and flags of one letter each with what belongs to them.
//!
//! ```text
//! mg key flags…          get: v value, f c t s l h k O, T touch, N make, R recache, q b u
//! ms key size flags…     set: T F C I M(mode) c k O q b
//! md key flags…          delete: C, I T make it stale, k O q b
//! ma key flags…          count: N J make, D delta, M(mode) T C v c t k O q b
//! me key                 what is known, for people
//! mn                     nothing, answered with MN
//! ```
//!
//! Follows `_meta_flag_preparse` and the four `process_m…_command` of memcached 1.6.18: every flag is read by every command, and
//! those that mean nothing to it do nothing.

use super::decoder::{Limits, Parsed, Then};
use super::head::{Bits, Framing, Head, Verb};
use super::number::{parse_i32, parse_u32, parse_u64};
use super::say::Say;
use super::text::{Words, sized, value_size};
use super::{KEY_SIZE_MAX, base64};

/// Most words of a meta command, its name among them (`MFLAG_MAX_OPT_LENGTH` − 1).
const WORDS_MAX: usize = 19;
/// Longest `O` with its letter.
const OPAQUE_SIZE_MAX: usize = 32;

/// What the flags of a meta command say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `T`: the expiry that the entry gets.
    pub exptime: Option<i64>,
    /// `N`: what is missing is made, with this expiry.
    pub create_exptime: Option<i64>,
    /// `R`: one client wins the right to recache an entry that expires before this.
    pub recache_exptime: Option<i64>,
    /// `F`: client flags.
    pub flags: u32,
    /// `C`: the CAS to compare with.
    pub cas: Option<u64>,
    /// `D`: what to add or subtract; 1 without it.
    pub delta: u64,
    /// `J`: what a number that is made begins with.
    pub initial: u64,
    /// `M`: the letter of the mode, zero without it.
    pub mode: u8,
    /// `I`: make stale instead of deleting; a store with an older CAS stores something stale.
    pub invalidates: bool,
    /// `u`: looking does not count as an access.
    pub is_unnoticed: bool,
    /// `v`: the value.
    pub wants_value: bool,
    /// `q`: say nothing where it goes without saying.
    pub is_quiet: bool,
    /// `b`: the key is in base64.
    pub is_base64: bool,
}

impl Options {
    /// Reads the flags behind a key, or says what is wrong with them. Flags of a command that the decoder has handed out are
    /// right.
    ///
    /// # Errors
    /// The text that `mg` and `ms` answer; `md` and `ma` say [`Say::FlagError`] instead.
    pub fn parse(flags: &[u8]) -> Result<Options, Say> {
        Options::read(flags, || true)
    }

    /// As [`Options::parse`]; `is_base64` tells whether the key can be decoded. The last of several errors is said, but a
    /// flag that is unknown or comes twice at once.
    fn read(flags: &[u8], is_base64: impl Fn() -> bool) -> Result<Options, Say> {
        let mut options = Options::NONE;
        let (mut seen, mut error, mut is_wrong) = (0u128, Say::BadFormat, false);
        for word in words(flags) {
            let (letter, rest) = (word[0], &word[1..]);
            if letter >= 127 || seen >> letter & 1 == 1 {
                return Err(Say::DuplicateFlag);
            }
            seen |= 1 << letter;
            let mut number = |read: Option<u64>, text: Say| {
                if read.is_none() {
                    (error, is_wrong) = (text, true);
                }
                read
            };
            let exptime = || parse_i32(rest).map(i64::from);
            match letter {
                b'T' | b'N' | b'R' => {
                    let exptime = exptime();
                    number(exptime.map(|_| 0), Say::BadToken);
                    *match letter {
                        b'T' => &mut options.exptime,
                        b'N' => &mut options.create_exptime,
                        _ => &mut options.recache_exptime,
                    } = exptime;
                }
                b'F' => match parse_u32(rest) {
                    Some(flags) => options.flags = flags,
                    // The text of an error before it, if there was one.
                    None => is_wrong = true,
                },
                b'C' => options.cas = number(parse_u64(rest), Say::BadToken),
                b'D' => options.delta = number(parse_u64(rest), Say::BadStep).unwrap_or_default(),
                b'J' => options.initial = number(parse_u64(rest), Say::BadInitial).unwrap_or_default(),
                b'M' => match rest {
                    [mode] => options.mode = *mode,
                    _ => (error, is_wrong) = (Say::ModeSize, true),
                },
                b'b' => {
                    if !is_base64() {
                        (error, is_wrong) = (Say::BadBase64, true);
                    }
                    options.is_base64 = true;
                }
                b'I' => options.invalidates = true,
                b'u' => options.is_unnoticed = true,
                b'v' => options.wants_value = true,
                b'q' => options.is_quiet = true,
                b'l' | b'h' | b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' => {}
                _ => return Err(Say::InvalidFlag),
            }
        }
        if is_wrong { Err(error) } else { Ok(options) }
    }

    const NONE: Options = Options {
        exptime: None,
        create_exptime: None,
        recache_exptime: None,
        flags: 0,
        cas: None,
        delta: 1,
        initial: 0,
        mode: 0,
        invalidates: false,
        is_unnoticed: false,
        wants_value: false,
        is_quiet: false,
        is_base64: false,
    };

    fn bits(&self) -> Bits {
        Bits::default()
            .and_if(self.is_quiet, Bits::QUIET)
            .and_if(self.wants_value, Bits::WANTS_VALUE)
            .and_if(self.create_exptime.is_some(), Bits::CREATES)
            .and_if(self.is_base64, Bits::BASE64)
            .and_if(self.cas.is_some(), Bits::HAS_CAS)
            .and_if(self.invalidates, Bits::INVALIDATES)
    }
}

/// The flags in a meta command's argument, none of them empty. `T`, `N` and `R` take effect in their order, and `t` shows what
/// those before it have made.
pub fn words(flags: &[u8]) -> impl Iterator<Item = &[u8]> {
    flags.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Reads a line whose first word is `m` and another letter.
pub(super) fn parse(words: &Words<'_>, limits: &Limits) -> Parsed {
    match words.get(0)[1] {
        b'g' => keyed(words, 2, Verb::MetaGet, limits),
        b's' => keyed(words, 3, Verb::Set, limits),
        b'd' => keyed(words, 2, Verb::Delete, limits),
        b'a' => keyed(words, 2, Verb::Incr, limits),
        b'e' => debug(words),
        b'n' => Parsed::of(Head::new(Verb::Noop, Framing::Meta)),
        _ => say(Say::Error),
    }
}

/// What is only answered is said whatever the flags are.
fn say(say: Say) -> Parsed {
    Parsed::of(Head { say, ..Head::new(Verb::Say, Framing::Meta) })
}

fn debug(words: &Words<'_>) -> Parsed {
    let key = words.get(1);
    let is_base64 = words.get(2) == b"b";
    if words.count < 2 || key.len() > KEY_SIZE_MAX || is_base64 && base64::decode(key).is_none() {
        return say(Say::BadFormat);
    }
    let bits = Bits::default().and_if(is_base64, Bits::BASE64);
    let head = Head { bits, ..Head::new(Verb::MetaDebug, Framing::Meta) };
    Parsed { key: words.range(1), flags: words.rest(2), ..Parsed::of(head) }
}

/// A command whose flags start with the word at `start`.
fn keyed(words: &Words<'_>, start: usize, verb: Verb, limits: &Limits) -> Parsed {
    if words.count < 2 {
        return say(Say::Error);
    }
    let key = words.get(1);
    if key.len() > KEY_SIZE_MAX || words.count < start {
        return say(Say::BadFormat);
    }
    if words.count > WORDS_MAX {
        return say(if verb == Verb::MetaGet { Say::GetFlagsTooMany } else { Say::FlagsTooMany });
    }
    // From here on a value that was announced is swallowed.
    let size = if verb == Verb::Set {
        match parse_i32(words.get(2)).and_then(value_size) {
            Some(size) => Some(size),
            None => return say(Say::BadFormat),
        }
    } else {
        None
    };
    let head = match head(words, start, verb) {
        Ok(head) => head,
        Err(error) => {
            let then = size.map_or(Then::Nothing, |size| Then::Swallow(size + 2));
            return Parsed { then, ..say(error) };
        }
    };
    let key_size = if head.is(Bits::BASE64) {
        base64::decode(key).expect("the key has been decoded before").as_bytes().len()
    } else {
        key.len()
    };
    let parsed = Parsed { key: words.range(1), flags: words.rest(start), ..Parsed::of(head) };
    match size {
        None => parsed,
        // Whatever the mode, and said whatever the flags.
        Some(size) => match sized(parsed, key_size, size, true, limits) {
            Parsed { head, then: then @ Then::Swallow(_), .. } => {
                let bits = Bits::default().and_if(head.is(Bits::BASE64), Bits::BASE64);
                Parsed { head: Head { bits, ..head }, then, key: words.range(1), ..Parsed::of(head) }
            }
            parsed => parsed,
        },
    }
}

fn head(words: &Words<'_>, start: usize, verb: Verb) -> Result<Head, Say> {
    let key = words.get(1);
    let flags = words.flags(start);
    let options = Options::read(flags, || base64::decode(key).is_some());
    let options = match verb {
        Verb::Delete | Verb::Incr => options.map_err(|_| Say::FlagError)?,
        _ => options?,
    };
    let (verb, exptime) = match verb {
        Verb::Set => (store(&options)?, options.exptime),
        Verb::Incr => (arithmetic(&options)?, options.create_exptime),
        other => (other, None),
    };
    if self::words(flags).any(|word| word[0] == b'O' && word.len() > OPAQUE_SIZE_MAX) {
        return Err(Say::OpaqueTooLong);
    }
    Ok(Head {
        bits: options.bits(),
        flags: options.flags,
        exptime: exptime.unwrap_or_default(),
        cas: options.cas.unwrap_or_default(),
        delta: options.delta,
        initial: options.initial,
        ..Head::new(verb, Framing::Meta)
    })
}

/// What `M` makes of `ms`. With a CAS, what would store whatever is there compares.
fn store(options: &Options) -> Result<Verb, Say> {
    match options.mode {
        0 | b'S' | b'R' if options.cas.is_some() => Ok(Verb::Cas),
        0 | b'S' => Ok(Verb::Set),
        b'R' => Ok(Verb::Replace),
        b'E' => Ok(Verb::Add),
        b'A' => Ok(Verb::Append),
        b'P' => Ok(Verb::Prepend),
        _ => Err(Say::SetMode),
    }
}

/// What `M` makes of `ma`.
fn arithmetic(options: &Options) -> Result<Verb, Say> {
    match options.mode {
        0 | b'I' | b'+' => Ok(Verb::Incr),
        b'D' | b'-' => Ok(Verb::Decr),
        _ => Err(Say::ArithmeticMode),
    }
}
