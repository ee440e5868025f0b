//! Bytes of a connection to commands.
//!
//! As in [`crate::resp`] there are two ways to read a request: as a view while it is small, by tokens when it is larger than
//! [`VIEW_SIZE_MAX`]. The arguments are copied into [`ArgRanges`], for the head is in no input and a key may have been in base64.
//!
//! The decoder's state is small and can be taken and put back ([`Decoder::state`], [`Decoder::rewind`]), because it may stand
//! in the middle of a line: between two keys, or before bytes that nobody wants.
//!
//! However a request is cut, a byte is looked at a constant number of times: a line is searched for its end once, read when it
//! is whole, and read again when its value is whole too. Only how far a line may go without an end depends on the pieces in
//! which it comes: one that is whole is read whatever its length, one that is not is given up beyond [`LINE_SIZE_MAX`]
//! bytes, as in memcached (`try_read_command_ascii`).

use std::ops::Range;

use super::head::{Bits, Framing, HEAD_SIZE, Head, Verb};
use super::say::Say;
use super::text::Keys;
use super::{KEY_SIZE_MAX, base64, binary, scan, text};
use crate::couchbase::{self, Features};
use crate::resp::{ArgRanges, Step, Token, VIEW_SIZE_MAX, Word};
use crate::stranger::is_binary;

/// Bytes without a line's end after which the connection is closed, unless they begin with `get` or `gets`.
pub const LINE_SIZE_MAX: usize = 2048;
/// Bytes of a `get` line after which its keys are handed out although its end has not come. An input buffer of this size is
/// always enough.
pub const STREAM_SIZE_MIN: usize = 64 * 1024;

/// What a connection may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest item, counted as memcached counts it ([`super::item_size`]; its option `-I`). A larger one is refused and
    /// swallowed.
    pub item_size_max: u64,
    /// Without it, binary requests other than those of SASL and VERSION are refused by their header.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { item_size_max: 1024 * 1024, authenticated: true }
    }
}

/// A line or header, understood. Ranges are into the input.
pub(crate) struct Parsed {
    pub(crate) head: Head,
    /// As it came.
    pub(crate) key: Range<usize>,
    pub(crate) flags: Range<usize>,
    /// Bytes in front of the value: the line with its end; header, extras and key.
    pub(crate) size: usize,
    pub(crate) then: Then,
}

/// What follows a line or header.
pub(crate) enum Then {
    /// Another one.
    Nothing,
    /// Another one; the value lies in this one.
    Inside(Range<usize>),
    /// A value of so many bytes, in text and meta with a line's end.
    Value(u64),
    /// So many bytes that nobody wants.
    Swallow(u64),
}

impl Parsed {
    pub(crate) fn of(head: Head) -> Parsed {
        Parsed { head, key: 0..0, flags: 0..0, size: 0, then: Then::Nothing }
    }
}

/// Where a decoder stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Bytes of the input that hold no line's end.
    scanned: u32,
    phase: Phase,
    /// What the client of Couchbase and this server have agreed on.
    features: Features,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    /// Before a request.
    #[default]
    Start,
    /// Before one of so many bytes, of which not all were there.
    Frame(u32),
    /// Between two keys of a line.
    Keys(Keys),
    /// In the rest of a line, which means nothing.
    Line,
    /// Before so many bytes that nobody wants.
    Swallow(u64),
    /// Token mode: before this piece of a request whose line or header is not consumed.
    Piece(Piece),
    /// Token mode: before so many bytes of the value.
    Value { left: u64, said: Said },
    /// Token mode: before what stands instead of a request whose value has no end.
    Instead(Piece, Said),
}

/// What token mode hands out next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Begin,
    HeadSize,
    Head,
    KeySize,
    Key,
    FlagsSize,
    Flags,
    ValueSize,
}

/// What is needed to answer a value without an end.
#[derive(Clone, Copy, Debug)]
struct Said {
    framing: Framing,
    bits: Bits,
}

/// Arguments of a request with a value.
const ARGS_MAX: u32 = 4;

/// Reads the requests of one connection. Holds no bytes and allocates nothing.
#[derive(Debug)]
pub struct Decoder {
    /// Headers, or else lines.
    framing: Framing,
    state: State,
}

impl Decoder {
    /// At the start of a connection that speaks binary, in one of its editions, or else text and meta.
    pub fn new(framing: Framing) -> Decoder {
        Decoder { framing, state: State::default() }
    }

    /// Forgets all but what holds for the connection.
    fn begin(&mut self) {
        self.state = State { features: self.state.features, ..State::default() };
    }

    /// Where it stands. Taken before a call of [`Decoder::decode`], it leads back there.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it stands where a new one does.
    #[inline]
    pub fn is_new(&self) -> bool {
        matches!(self.state, State { scanned: 0, phase: Phase::Start, features } if features == Features::default())
    }

    /// Puts the decoder back to where it has stood, in front of commands that have not run. The input begins there again.
    pub fn rewind(&mut self, state: State) {
        self.state = state;
    }

    /// Looks for one command at the start of `input`.
    ///
    /// `input` starts with the first byte that is not consumed; between calls that answer [`Step::Need`] it may only grow at
    /// its end, and [`STREAM_SIZE_MIN`] bytes of it are always enough. After [`Step::Command`] the caller consumes `size` bytes
    /// before the next call; without arguments they were no command. [`Step::Malformed`] never comes: what is no request is a
    /// command that closes ([`Bits::CLOSES`]).
    #[inline]
    pub fn decode(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        match self.state.phase {
            // Its end may need no further byte.
            Phase::Piece(_) | Phase::Value { .. } | Phase::Instead(..) => Step::Large,
            _ if input.is_empty() => Step::Need,
            Phase::Start if self.framing.is_binary() => self.header(input, args, limits),
            Phase::Start => self.line(input, args, limits),
            Phase::Frame(size) if input.len() < index(size) => Step::Need,
            Phase::Frame(_) => {
                self.begin();
                if self.framing.is_binary() {
                    self.header(input, args, limits)
                } else {
                    self.line(input, args, limits)
                }
            }
            Phase::Keys(keys) => self.key(keys, input, 0, args),
            Phase::Line => {
                let size = match end_of_line(input) {
                    Some(end) => {
                        self.state.phase = Phase::Start;
                        end + 1
                    }
                    None => input.len(),
                };
                skip(size, args)
            }
            Phase::Swallow(left) => {
                let size = here(left, input);
                self.state.phase = swallow(left - size64(size));
                skip(size, args)
            }
        }
    }

    fn header(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        if self.framing == Framing::Binary
            && limits.authenticated
            && let Some((head, key)) = binary::plain_get(input)
        {
            place(&head, key, args);
            return Step::Command { size: binary::HEADER_SIZE + key.len() };
        }
        match self.parse_header(input, limits) {
            None => Step::Need,
            Some(parsed) => self.understood(parsed, input, args),
        }
    }

    #[inline]
    fn parse_header(&self, input: &[u8], limits: &Limits) -> Option<Parsed> {
        if self.framing == Framing::Couchbase {
            couchbase::request::parse(input, limits, self.state.features)
        } else {
            binary::parse(input, limits)
        }
    }

    fn line(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        let from = index(self.state.scanned);
        if from == 0
            && let Some((key, size)) = text::plain_get(input)
        {
            place(&Keys::GET.head(true), key, args);
            return Step::Command { size };
        }
        if is_binary(input[0]) {
            return self.answer(Phase::Start, input.len(), text::say(Say::Nothing, false).head, args);
        }
        let Some(found) = end_of_line(&input[from..]) else {
            self.state.scanned = index32(input.len());
            return if input.len() > LINE_SIZE_MAX && !text::may_be_long(input) {
                self.state.scanned = 0;
                self.answer(Phase::Start, input.len(), text::say(Say::Nothing, false).head, args)
            } else if input.len() >= STREAM_SIZE_MIN {
                self.keys(input, None, input, args).expect("a line that may be long is one of keys")
            } else {
                Step::Need
            };
        };
        let end = from + found;
        self.state.scanned = 0;
        let line = line(&input[..end]);
        if matches!(line.first(), Some(b'g' | b'b' | b' '))
            && let Some(step) = self.keys(line, Some(end + 1), input, args)
        {
            return step;
        }
        let parsed = text::parse(line, limits);
        self.understood(Parsed { size: end + 1, ..parsed }, input, args)
    }

    /// The first key of a line of keys; nothing if it is another line. `line` is as much of it as is there, `size` that of all of
    /// it with its end.
    fn keys(&mut self, line: &[u8], size: Option<usize>, input: &[u8], args: &mut ArgRanges) -> Option<Step> {
        self.state.scanned = 0;
        let keys = text::keys(line)?.and_then(|(keys, at)| {
            if text::has_long_key(line, at) { Err(Say::BadFormat) } else { Ok((keys, at)) }
        });
        Some(match (keys, size) {
            (Ok((keys, at)), _) => self.key(keys, input, at, args),
            (Err(error), Some(size)) => self.answer(Phase::Start, size, text::say(error, false).head, args),
            (Err(error), None) => self.answer(Phase::Line, line.len(), text::say(error, false).head, args),
        })
    }

    /// The next key of a line, from `at` on.
    fn key(&mut self, keys: Keys, input: &[u8], at: usize, args: &mut ArgRanges) -> Step {
        let start = at + input[at..].iter().take_while(|byte| **byte == b' ').count();
        let size = input[start..].iter().position(|byte| matches!(byte, b' ' | b'\n' | 0));
        let Some(size) = size else {
            // With room for a \r that will turn out to belong to the line's end.
            if input.len() - start > KEY_SIZE_MAX + 1 {
                return self.answer(Phase::Line, input.len(), text::say(Say::BadFormat, false).head, args);
            }
            self.state.phase = Phase::Keys(keys);
            return if start > 0 { skip(start, args) } else { Step::Need };
        };
        let end = start + size;
        let is_end = input[end] == b'\n';
        let key = &input[start..end];
        let key = if is_end { key.strip_suffix(b"\r").unwrap_or(key) } else { key };
        if key.len() > KEY_SIZE_MAX {
            return self.answer(Phase::Line, end, text::say(Say::BadFormat, false).head, args);
        }
        // What is behind it: blanks and the line's end make it the last.
        let behind = end + input[end..].iter().take_while(|byte| **byte == b' ').count();
        let (is_last, phase, consumed) = match &input[behind..] {
            [b'\n', ..] => (true, Phase::Start, behind + 1),
            [b'\r', b'\n', ..] => (true, Phase::Start, behind + 2),
            [0, ..] => (true, Phase::Line, behind + 1),
            _ => (false, Phase::Keys(keys), end),
        };
        if key.is_empty() {
            return self.answer(phase, consumed, Head::new(Verb::End, Framing::Text), args);
        }
        self.state.phase = phase;
        place(&keys.head(is_last), key, args);
        Step::Command { size: consumed }
    }

    /// Bytes that are answered with this, and what comes behind them.
    fn answer(&mut self, phase: Phase, size: usize, head: Head, args: &mut ArgRanges) -> Step {
        self.state.phase = phase;
        place(&head, &[], args);
        Step::Command { size }
    }

    /// A line or header has been read: is its value there?
    fn understood(&mut self, parsed: Parsed, input: &[u8], args: &mut ArgRanges) -> Step {
        let front = parsed.size;
        let Parsed { head, then, .. } = &parsed;
        match then {
            Then::Nothing => {
                parsed.place(None, input, args);
                Step::Command { size: front }
            }
            Then::Inside(range) => {
                let value = &input[range.clone()];
                if head.verb == Verb::Hello {
                    self.state.features = Features::accepted(value);
                }
                parsed.place(Some(value), input, args);
                Step::Command { size: front }
            }
            Then::Swallow(left) => {
                self.state.phase = swallow(*left);
                parsed.place(None, input, args);
                Step::Command { size: front }
            }
            Then::Value(size) => {
                let end_size = if self.framing.is_binary() { 0 } else { 2 };
                let frame_size = size64(front) + size + end_size;
                if frame_size > size64(VIEW_SIZE_MAX) {
                    self.state.phase = Phase::Piece(Piece::Begin);
                    return Step::Large;
                }
                let whole = here(frame_size, input);
                if size64(whole) < frame_size {
                    let frame_size = u32::try_from(frame_size).expect("a view is far smaller than 4 GiB");
                    self.state.phase = Phase::Frame(frame_size);
                    return Step::Need;
                }
                let value = &input[front..whole];
                match (self.framing.is_binary(), value) {
                    (true, value) => parsed.place(Some(value), input, args),
                    (false, [value @ .., b'\r', b'\n']) => parsed.place(Some(value), input, args),
                    (false, _) => place(&Said::of(head).head(), &[], args),
                }
                Step::Command { size: whole }
            }
        }
    }

    /// Goes on with a large request: call after [`Step::Large`], with input that starts at the first byte not consumed, until
    /// [`Token::End`]. Returns the token and how many bytes the caller consumes after using it.
    ///
    /// A [`Token::Begin`] may come a second time: what was gathered is dropped, and the arguments that follow stand instead.
    ///
    /// # Panics
    /// When nothing large has been told.
    pub fn token(&mut self, input: &[u8]) -> (Token, usize) {
        match self.state.phase {
            Phase::Value { left, said } => self.value(left, said, input),
            Phase::Instead(piece, said) => (self.instead(piece, said), 0),
            Phase::Piece(piece) => self.piece(piece, input),
            _ => panic!("tokens are those of a large request"),
        }
    }

    /// A piece of what stands in front of the value. It is read again for each piece, and consumed with the last.
    fn piece(&mut self, piece: Piece, input: &[u8]) -> (Token, usize) {
        // It has been admitted, and limits may have changed since.
        let limits = Limits { item_size_max: u64::MAX, authenticated: true };
        let parsed = if self.framing.is_binary() {
            self.parse_header(input, &limits)
        } else {
            end_of_line(input)
                .map(|end| Parsed { size: end + 1, ..text::parse(line(&input[..end]), &limits) })
        };
        let Some(Parsed { head, key, flags, size: front, then: Then::Value(size) }) = parsed else {
            return (Token::Need, 0);
        };
        let decoded = if head.is(Bits::BASE64) { base64::decode(&input[key.clone()]) } else { None };
        let key_size = decoded.as_ref().map_or(key.len(), |key| key.as_bytes().len());
        let (token, next) = match piece {
            Piece::Begin => (Token::Begin { args: ARGS_MAX }, Piece::HeadSize),
            Piece::HeadSize => (Token::Bulk { size: size64(HEAD_SIZE) }, Piece::Head),
            Piece::Head => (Token::Word(Word::of(&head.to_bytes())), Piece::KeySize),
            Piece::KeySize => (Token::Bulk { size: size64(key_size) }, Piece::Key),
            Piece::Key => {
                let token = match &decoded {
                    Some(key) => Token::Word(*key),
                    None => Token::Bytes(key),
                };
                (token, Piece::FlagsSize)
            }
            Piece::FlagsSize => {
                let next = if flags.is_empty() { Piece::ValueSize } else { Piece::Flags };
                (Token::Bulk { size: size64(flags.len()) }, next)
            }
            Piece::Flags => (Token::Bytes(flags), Piece::ValueSize),
            Piece::ValueSize => {
                self.state.phase = Phase::Value { left: size, said: Said::of(&head) };
                return (Token::Bulk { size }, front);
            }
        };
        self.state.phase = Phase::Piece(next);
        (token, 0)
    }

    fn value(&mut self, left: u64, said: Said, input: &[u8]) -> (Token, usize) {
        if left > 0 {
            let size = here(left, input);
            self.state.phase = Phase::Value { left: left - size64(size), said };
            return if size == 0 { (Token::Need, 0) } else { (Token::Bytes(0..size), size) };
        }
        match input {
            _ if self.framing.is_binary() => self.end(0),
            [b'\r', b'\n', ..] => self.end(2),
            [_, _, ..] => {
                self.state.phase = Phase::Instead(Piece::HeadSize, said);
                (Token::Begin { args: 2 }, 2)
            }
            _ => (Token::Need, 0),
        }
    }

    /// The next piece of what stands instead of a value without an end: a head and an empty key.
    fn instead(&mut self, piece: Piece, said: Said) -> Token {
        let (token, next) = match piece {
            Piece::HeadSize => (Token::Bulk { size: size64(HEAD_SIZE) }, Piece::Head),
            Piece::Head => (Token::Word(Word::of(&said.head().to_bytes())), Piece::KeySize),
            Piece::KeySize => (Token::Bulk { size: 0 }, Piece::Key),
            _ => return self.end(0).0,
        };
        self.state.phase = Phase::Instead(next, said);
        token
    }

    fn end(&mut self, size: usize) -> (Token, usize) {
        self.begin();
        (Token::End, size)
    }
}

impl Said {
    fn of(head: &Head) -> Said {
        // Of meta commands errors are said whatever the flags.
        let is_quiet = head.framing == Framing::Text && head.is(Bits::QUIET);
        Said { framing: head.framing, bits: Bits::default().and_if(is_quiet, Bits::QUIET) }
    }

    fn head(self) -> Head {
        Head { say: Say::BadChunk, bits: self.bits, ..Head::new(Verb::Say, self.framing) }
    }
}

impl Parsed {
    /// Copies the arguments.
    fn place(&self, value: Option<&[u8]>, input: &[u8], args: &mut ArgRanges) {
        let head = self.head.to_bytes();
        let key = &input[self.key.clone()];
        let decoded = if self.head.is(Bits::BASE64) { base64::decode(key) } else { None };
        let key = decoded.as_ref().map_or(key, |key| key.as_bytes());
        let flags = &input[self.flags.clone()];
        match value {
            Some(value) => args.set([&head[..], key, flags, value]),
            None if self.head.framing == Framing::Meta && self.head.verb.has_key() => {
                args.set([&head[..], key, flags]);
            }
            None => args.set([&head[..], key]),
        }
    }
}

/// Copies the arguments of a command without flags and value.
fn place(head: &Head, key: &[u8], args: &mut ArgRanges) {
    args.set([&head.to_bytes()[..], key]);
}

/// Bytes that are no command.
fn skip(size: usize, args: &mut ArgRanges) -> Step {
    args.set([]);
    Step::Command { size }
}

fn swallow(left: u64) -> Phase {
    if left == 0 { Phase::Start } else { Phase::Swallow(left) }
}

/// How many of `left` bytes are there.
fn here(left: u64, input: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(input.len())
}

/// A line without its end, up to a zero byte: strings in C end there.
fn line(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    scan::find(line, 0).map_or(line, |end| &line[..end])
}

/// Every search for a line's end passes here, so tests count the bytes looked at.
fn end_of_line(input: &[u8]) -> Option<usize> {
    let found = scan::find(input, b'\n');
    #[cfg(test)]
    super::tests::look_at(found.map_or(input.len(), |index| index + 1));
    found
}

fn size64(size: usize) -> u64 {
    u64::try_from(size).expect("a size fits 64 bits")
}

/// Positions inside an input fit 32 bits.
fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("an input is far smaller than 4 GiB")
}

fn index(index: u32) -> usize {
    usize::try_from(index).expect("an input's position was a usize before")
}
