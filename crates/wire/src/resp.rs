//! Requests: bytes from a client become a command, or the reason why they cannot.
//!
//! ```text
//! *3\r\n $3\r\n SET\r\n $1\r\n k\r\n $5\r\n hello\r\n      a RESP array of bulk strings
//! SET k "hello"\r\n                                        an inline command, as typed into telnet
//! ```
//!
//! There are two ways to read a frame. *View* mode ([`Decoder::decode`]) waits until the whole frame lies in the
//! input and then names its arguments as ranges: nothing is copied. It serves frames up to [`VIEW_SIZE_MAX`]. A
//! larger frame is told apart as soon as its headers announce it ([`Step::Large`]), and *token* mode
//! ([`Decoder::token`]) hands over its bytes as they come, so that a 512 MB value never lies in one place.
//!
//! However a frame is cut, a byte is looked at a constant number of times: the decoder remembers where it stopped.
//! A frame is first tried in one go; if that fails it is read with care, and the headers of one that came in pieces once
//! more when it is complete, because the ranges live in the lane's scratch and not in each connection.
//!
//! Follows `processInlineBuffer` and `processMultibulkBuffer` of Redis 7.0 (`src/networking.c`), with its limits, its
//! error texts and its leniency: the byte after `\r`, and the two bytes after a bulk, are skipped unread. Differences:
//! a NUL byte is an ordinary byte (Redis' `strchr` stops there and the connection hangs), the number of arguments is
//! limited by [`Limits::args_max`] (Redis: 2³¹ − 1), and inline commands obey the limits before authentication too.

use std::fmt;
use std::ops::Range;

use crate::number::parse_i64;
use crate::reply::Put;

mod inline;
mod shape;
mod token;

pub use inline::words;
pub use shape::Shape;

/// Largest frame that is served as a view. A larger one is [`Step::Large`].
pub const VIEW_SIZE_MAX: usize = 32 * 1024;
/// Most arguments of a view. A frame with more is [`Step::Large`].
pub const VIEW_ARGS_MAX: u32 = 1024;
/// Most arguments of a command before authentication; one more ends the connection.
pub const UNAUTHENTICATED_ARGS_MAX: u32 = 10;
/// Largest argument in bytes before authentication; one more ends the connection.
pub const UNAUTHENTICATED_BULK_MAX: u64 = 16 * 1024;
/// A header line or inline command of this many bytes without an end is refused. (Redis refuses one byte later; here
/// an input buffer of exactly this size is always enough.)
pub const LINE_SIZE_MAX: usize = 64 * 1024;

/// What a connection may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest bulk in bytes (`proto-max-bulk-len`); more is "invalid bulk length".
    pub bulk_size_max: u64,
    /// Most arguments in one command; more is "invalid multibulk length".
    pub args_max: u32,
    /// Without it, at most [`UNAUTHENTICATED_ARGS_MAX`] arguments of [`UNAUTHENTICATED_BULK_MAX`] bytes.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bulk_size_max: 512 * 1024 * 1024, args_max: 1024 * 1024, authenticated: true }
    }
}

/// What [`Decoder::decode`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame is cut; keep the input and call again with more behind it.
    Need,
    /// A whole command; its arguments are in the [`ArgRanges`]. The caller consumes `size` bytes after use. No arguments at
    /// all (an empty line, `*0`, `*-1`) is no command: consume it and answer nothing.
    Command {
        /// Bytes of the frame.
        size: usize,
    },
    /// The frame is too large for a view. Consume nothing; go on with [`Decoder::token`] until [`Token::End`].
    Large,
    /// The client does not speak the protocol: answer the error and close.
    Malformed(ProtocolError),
}

/// Largest [`Word`]: memcached's longest key that came in base64.
pub const WORD_SIZE_MAX: usize = 186;
/// A small argument by value.
pub type Word = crate::number::Text<WORD_SIZE_MAX>;

/// A piece of a large frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Token {
    /// Consume what is said and call again with more input.
    Need,
    /// Consume what is said and call again, in another turn if need be: much has become of little input. Of what is compressed.
    Pause,
    /// The frame starts; so many [`Token::Bulk`]s follow.
    Begin {
        /// Number of arguments, announced and not yet received: reserve nothing for it.
        args: u32,
    },
    /// An argument starts; its bytes follow as [`Token::Bytes`].
    Bulk {
        /// Its size in bytes, announced and not yet received.
        size: u64,
    },
    /// The next bytes of the argument, as a range into the input.
    Bytes(Range<usize>),
    /// The next bytes of the argument, which are in no input as they are. Memcached's keys are, and what Aerospike's scans are made of.
    Word(Word),
    /// The frame is over; the decoder is back in view mode.
    End,
    /// As [`Step::Malformed`].
    Malformed(ProtocolError),
}

/// Why a client's bytes are not a request. [`fmt::Display`] prints Redis' words without the leading `ERR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number behind `*` is no number, or above [`Limits::args_max`].
    MultibulkLength,
    /// More than [`UNAUTHENTICATED_ARGS_MAX`] arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// The number behind `$` is no number, negative, or above [`Limits::bulk_size_max`].
    BulkLength,
    /// More than [`UNAUTHENTICATED_BULK_MAX`] bytes in an argument before authentication.
    UnauthenticatedBulkLength,
    /// An argument starts with this byte instead of `$`.
    ExpectedDollar(u8),
    /// The line of `*` does not end within [`LINE_SIZE_MAX`].
    CountLineTooLong,
    /// A line of `$` does not end within [`LINE_SIZE_MAX`].
    BulkLineTooLong,
    /// An inline command does not end within [`LINE_SIZE_MAX`].
    InlineTooLong,
    /// Quotes that do not close, or close in the middle of a word.
    UnbalancedQuotes,
    /// The first byte is one with which requests of another protocol begin. (Redis waits for the end of a line.)
    OtherProtocol,
    /// `POST` or `Host:`: a web browser was tricked into talking to a database. Close without an answer.
    SecurityAttack,
}

impl ProtocolError {
    /// The error line as Redis sends it; nothing for [`ProtocolError::SecurityAttack`].
    pub fn put(self, out: &mut impl Put) {
        match self {
            ProtocolError::SecurityAttack => {}
            // Redis prints the byte as it is, but line ends as spaces.
            ProtocolError::ExpectedDollar(byte) => {
                out.put(b"-ERR Protocol error: expected '$', got '");
                out.put(&[if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }]);
                out.put(b"'\r\n");
            }
            _ => {
                out.put(b"-ERR Protocol error: ");
                out.put(self.text().as_bytes());
                out.put(b"\r\n");
            }
        }
    }

    fn text(self) -> &'static str {
        match self {
            ProtocolError::MultibulkLength => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::BulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::ExpectedDollar(_) => "expected '$'",
            ProtocolError::CountLineTooLong => "too big mbulk count string",
            ProtocolError::BulkLineTooLong => "too big bulk count string",
            ProtocolError::InlineTooLong => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::OtherProtocol => {
                "this port speaks RESP, not memcached's, Couchbase's or Aerospike's protocol, nor TLS"
            }
            ProtocolError::SecurityAttack => "possible SECURITY ATTACK: POST or Host: commands",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.text())?;
        if let ProtocolError::ExpectedDollar(byte) = self {
            write!(f, ", got '{}'", byte.escape_ascii())?;
        }
        Ok(())
    }
}

impl std::error::Error for ProtocolError {}

/// Is this first word of a request an HTTP header (`POST`, `Host:`)? [`Decoder::decode`] refuses it in inline commands; ask
/// for RESP commands when the name is in no table. Redis closes the connection without an answer in both cases.
pub fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Where the arguments of one command lie. One per lane, reused: it grows to [`VIEW_ARGS_MAX`] ranges, for an inline
/// command to as many as [`LINE_SIZE_MAX`] bytes can hold, and shrinks again.
#[derive(Debug, Default)]
pub struct ArgRanges {
    ranges: Vec<(u32, u32)>,
    /// Inline arguments are unquoted into here, one behind the other.
    scratch: Vec<u8>,
    inline: bool,
}

impl ArgRanges {
    /// Empty, without memory.
    pub const fn new() -> ArgRanges {
        ArgRanges { ranges: Vec::new(), scratch: Vec::new(), inline: false }
    }

    /// Number of arguments, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// No arguments: not a command.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `index`; `input` is the slice that was decoded.
    ///
    /// # Panics
    /// When `index` is not below [`ArgRanges::len`].
    #[inline]
    pub fn get<'a>(&'a self, index: usize, input: &'a [u8]) -> &'a [u8] {
        self.view(input).get(index)
    }

    /// Bytes of all arguments together.
    #[inline]
    pub fn size(&self) -> usize {
        self.ranges.iter().map(|&(start, end)| (end - start) as usize).sum()
    }

    /// All arguments in order.
    pub fn iter<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.view(input).iter()
    }

    /// The arguments as a value that remembers its input.
    #[inline]
    pub fn view<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args { bytes: if self.inline { &self.scratch } else { input }, ranges: &self.ranges }
    }

    /// Replaces the contents by arguments that lie elsewhere, copied: for commands that were not decoded here.
    pub fn set<'a>(&mut self, args: impl IntoIterator<Item = &'a [u8]>) {
        self.clear(true);
        for arg in args {
            let start = index32(self.scratch.len());
            self.scratch.extend_from_slice(arg);
            self.ranges.push((start, index32(self.scratch.len())));
        }
    }

    #[inline]
    fn clear(&mut self, inline: bool) {
        if self.inline {
            self.ranges.shrink_to(VIEW_ARGS_MAX as usize);
            self.scratch.clear();
            self.scratch.shrink_to(VIEW_SIZE_MAX);
        }
        self.ranges.clear();
        self.inline = inline;
    }
}

/// The arguments of one command, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [(u32, u32)],
}

impl<'a> Args<'a> {
    /// Number of arguments, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// No arguments: not a command.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `index`.
    ///
    /// # Panics
    /// When `index` is not below [`Args::len`].
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let (start, end) = self.ranges[index];
        &self.bytes[start as usize..end as usize]
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.bytes;
        self.ranges.iter().map(move |&(start, end)| &bytes[start as usize..end as usize])
    }
}

/// Positions inside a view fit 32 bits: a view is at most [`LINE_SIZE_MAX`] long.
fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("a view is far smaller than 4 GiB")
}

/// Reads the requests of one connection. Holds no bytes and allocates nothing.
#[derive(Debug, Default)]
pub struct Decoder {
    /// View mode: where the line or bulk being read starts. Token mode: bytes of the header line seen so far.
    position: u32,
    /// View mode: bytes before this one hold no end of the line being read.
    scanned: u32,
    /// Arguments not yet complete.
    args_left: u32,
    state: State,
    /// View mode: the ranges of this frame's first arguments were not kept.
    cut: bool,
    line: token::Line,
    /// Token mode: bytes of the argument not yet handed over.
    bulk_left: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    /// View mode: in the line of `*`.
    Count,
    /// View mode: at or in the line of `$`.
    BulkLine,
    /// View mode: in the bytes of an argument, whose end is at `scanned`.
    BulkBytes,
    /// View mode: in an inline command.
    Inline,
    /// Token mode, from the first byte of the frame.
    TokenStart,
    TokenCount,
    TokenLine,
    TokenBytes,
    /// Token mode: so many bytes of the two behind the argument are still to skip.
    TokenGap(u8),
    /// Token mode: the byte behind `\r` is still to skip, then arguments follow.
    TokenEnd,
}

/// What a header line announced.
enum Header {
    Cut,
    Malformed,
    /// The value and where the next line or the bytes start.
    Value(i64, usize),
}

impl Decoder {
    /// At the start of a connection.
    pub const fn new() -> Decoder {
        Decoder {
            position: 0,
            scanned: 0,
            args_left: 0,
            state: State::Start,
            cut: false,
            line: token::Line::new(),
            bulk_left: 0,
        }
    }

    /// Whether the next byte is a command's first.
    #[inline]
    pub fn is_new(&self) -> bool {
        self.state == State::Start
    }

    /// Looks for one command at the start of `input`.
    ///
    /// `input` starts with the first byte that is not consumed; between calls that answer [`Step::Need`] it may only
    /// grow at its end, and [`LINE_SIZE_MAX`] bytes of it are always enough. After [`Step::Command`] the caller consumes
    /// `size` bytes before the next call. `args` is scratch: it is meaningful only after [`Step::Command`].
    #[inline]
    pub fn decode(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        if self.state == State::Start {
            match input.first() {
                None => return Step::Need,
                Some(b'*') => {
                    self.state = State::Count;
                    (self.position, self.scanned, self.cut) = (0, 1, false);
                    args.clear(false);
                    if let Some(size) = plain(input, args, limits) {
                        self.state = State::Start;
                        return Step::Command { size };
                    }
                    args.ranges.clear();
                }
                Some(_) => {
                    self.state = State::Inline;
                    self.scanned = 0;
                }
            }
        } else if self.state != State::Inline {
            self.cut = true;
            args.clear(false);
        }
        let step = match self.state {
            State::Count | State::BulkLine | State::BulkBytes => self.multibulk(input, args, limits),
            State::Inline => self.inline(input, args, limits),
            _ => return Step::Large,
        };
        match step {
            Step::Need => {}
            Step::Large => self.state = State::TokenStart,
            Step::Command { .. } | Step::Malformed(_) => self.state = State::Start,
        }
        step
    }

    /// Goes on with a large frame: call after [`Step::Large`], with input that starts at the first byte not consumed,
    /// until [`Token::End`]. Returns the token and how many bytes the caller consumes after using it. [`Token::Need`]
    /// may consume bytes too.
    pub fn token(&mut self, input: &[u8], limits: &Limits) -> (Token, usize) {
        self.next_token(input, limits)
    }

    fn multibulk(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        if self.state == State::Count {
            let (count, next) = match self.header(input) {
                Header::Cut if input.len() >= VIEW_SIZE_MAX => return Step::Large,
                Header::Cut => return Step::Need,
                Header::Malformed => return Step::Malformed(ProtocolError::MultibulkLength),
                Header::Value(count, next) => (count, next),
            };
            self.args_left = match args_count(count, limits) {
                Ok(0) => return Step::Command { size: next },
                Ok(count) if count > VIEW_ARGS_MAX => return Step::Large,
                Ok(count) => count,
                Err(error) => return Step::Malformed(error),
            };
            self.position = index32(next);
            self.scanned = self.position;
            self.state = State::BulkLine;
        }
        loop {
            if self.state == State::BulkLine {
                let (size, next) = match self.header(input) {
                    Header::Cut if input.len() >= VIEW_SIZE_MAX => return Step::Large,
                    Header::Cut => return Step::Need,
                    // Redis looks at the first byte only when the line is complete, and before the number.
                    _ if input[self.position as usize] != b'$' => {
                        return Step::Malformed(ProtocolError::ExpectedDollar(input[self.position as usize]));
                    }
                    Header::Malformed => return Step::Malformed(ProtocolError::BulkLength),
                    Header::Value(size, next) => (size, next),
                };
                let size = match bulk_size(size, limits) {
                    Ok(size) => size,
                    Err(error) => return Step::Malformed(error),
                };
                let end = match usize::try_from(size) {
                    Ok(size) if size <= VIEW_SIZE_MAX && next + size + 2 <= VIEW_SIZE_MAX => next + size,
                    _ => return Step::Large,
                };
                self.position = index32(next);
                self.scanned = index32(end);
                self.state = State::BulkBytes;
            }
            let next = self.scanned as usize + 2;
            if input.len() < next {
                return Step::Need;
            }
            if !self.cut {
                args.ranges.push((self.position, self.scanned));
            }
            self.position = index32(next);
            self.scanned = self.position;
            self.state = State::BulkLine;
            self.args_left -= 1;
            if self.args_left == 0 {
                if self.cut {
                    reread(&input[..next], args);
                }
                return Step::Command { size: next };
            }
        }
    }

    /// Reads `X123\r\n` at `position`, whatever `X` is.
    fn header(&mut self, input: &[u8]) -> Header {
        let start = self.position as usize;
        let from = (self.scanned as usize).min(input.len());
        let Some(found) = find(&input[from..], b'\r') else {
            self.scanned = index32(input.len());
            return Header::Cut;
        };
        let end = from + found;
        self.scanned = index32(end);
        if input.len() < end + 2 {
            return Header::Cut;
        }
        // An empty line has no first byte to skip.
        match parse_i64(input.get(start + 1..end).unwrap_or_default()) {
            Some(value) => Header::Value(value, end + 2),
            None => Header::Malformed,
        }
    }
}

/// A frame that lies in the input as a whole, within all limits, with numbers of up to three digits: nearly every request, in
/// two thirds of the time. Nothing for any other; it is then read again with care.
#[inline]
fn plain(input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Option<usize> {
    let (count, mut at) = plain_header(input, 0)?;
    if !limits.authenticated || count > (VIEW_ARGS_MAX.min(limits.args_max) as usize) {
        return None;
    }
    for _ in 0..count {
        if *input.get(at)? != b'$' {
            return None;
        }
        let (size, start) = plain_header(input, at)?;
        let end = start + size;
        at = end + 2;
        if at > input.len().min(VIEW_SIZE_MAX) || size as u64 > limits.bulk_size_max {
            return None;
        }
        args.ranges.push((index32(start), index32(end)));
    }
    Some(at)
}

/// The number of the header at `at`, and where what it announces starts. Six bytes are there behind every header of a whole
/// command: even `*1\r\n` has an argument behind it.
#[inline]
fn plain_header(input: &[u8], at: usize) -> Option<(usize, usize)> {
    let &[_, a, b, c, d, _] = input.get(at..)?.first_chunk::<6>()?;
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    if digit(a) > 9 {
        return None;
    }
    if b == b'\r' {
        return Some((digit(a), at + 4));
    }
    if digit(b) > 9 || a == b'0' {
        return None;
    }
    if c == b'\r' {
        return Some((digit(a) * 10 + digit(b), at + 5));
    }
    (digit(c) <= 9 && d == b'\r').then_some((digit(a) * 100 + digit(b) * 10 + digit(c), at + 6))
}

/// The number behind `*`: zero and less is an empty command.
fn args_count(count: i64, limits: &Limits) -> Result<u32, ProtocolError> {
    if count <= 0 {
        return Ok(0);
    }
    match u32::try_from(count) {
        Ok(count) if count <= limits.args_max => {
            if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
                return Err(ProtocolError::UnauthenticatedMultibulkLength);
            }
            Ok(count)
        }
        _ => Err(ProtocolError::MultibulkLength),
    }
}

/// The number behind `$`.
fn bulk_size(size: i64, limits: &Limits) -> Result<u64, ProtocolError> {
    match u64::try_from(size) {
        Ok(size) if size <= limits.bulk_size_max => {
            if size > UNAUTHENTICATED_BULK_MAX && !limits.authenticated {
                return Err(ProtocolError::UnauthenticatedBulkLength);
            }
            Ok(size)
        }
        _ => Err(ProtocolError::BulkLength),
    }
}

/// Fills in the ranges of a whole frame whose headers have been checked already. Bodies are skipped.
#[cold]
fn reread(frame: &[u8], args: &mut ArgRanges) {
    args.ranges.clear();
    let line = |from: usize| from + find(&frame[from..], b'\r').expect("this header has been read before");
    let mut position = line(0) + 2;
    while position < frame.len() {
        let end = line(position);
        let size = parse_i64(&frame[position + 1..end]).and_then(|size| usize::try_from(size).ok());
        let start = end + 2;
        let end = start + size.expect("this header has been read before");
        args.ranges.push((index32(start), index32(end)));
        position = end + 2;
    }
}

/// First place of `byte`. Every search for a line's end passes here, so tests count the bytes looked at.
fn find(haystack: &[u8], byte: u8) -> Option<usize> {
    let found = haystack.iter().position(|&b| b == byte);
    #[cfg(test)]
    tests::look_at(found.map_or(haystack.len(), |index| index + 1));
    found
}

#[cfg(test)]
mod tests;
