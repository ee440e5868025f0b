//! The other side: commands become bytes, and bytes of replies become values.
//!
//! For load generators, simulated clients and tests. [`Parser`] finds the elements of replies and keeps nothing;
//! [`Counter`] on top of it only tells where replies end, which is all that load needs; [`Collector`] builds them as
//! [`Reply`] values. RESP2 and RESP3 as Redis 7.0 sends them: no streamed aggregates, no attributes.

use std::fmt;

use crate::number::{parse_f64, parse_i64};
use crate::reply::{self, Proto, Put};

mod counter;

pub use counter::{Counter, Outcome};

/// Longest line of a reply: a status, an error, a number or a header. A longer one ends the connection.
pub const LINE_SIZE_MAX: usize = 64 * 1024;
/// Deepest nesting of a reply. A deeper one ends the connection. (COMMAND DOCS has twelve levels.)
pub const DEPTH_MAX: usize = 64;

/// Appends a command as an array of bulk strings. One whose arguments are not at hand as bytes is written by its parts, which are
/// those of replies: [`reply::array`], and for each argument [`reply::bulk`], [`reply::bulk_integer`], or [`reply::bulk_header`] and
/// [`reply::bulk_end`] around bytes that go by reference.
pub fn command(out: &mut impl Put, args: &[&[u8]]) {
    reply::array(out, args.len());
    for arg in args {
        reply::bulk(out, arg);
    }
}

/// Why bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// No element starts with this byte.
    UnknownType(u8),
    /// A line whose number, float or truth value is none.
    Value,
    /// A line without an end within [`LINE_SIZE_MAX`].
    LineTooLong,
    /// Nesting beyond [`DEPTH_MAX`].
    TooDeep,
    /// A bulk that is not followed by a line's end.
    BulkEnd,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::UnknownType(byte) => write!(f, "no reply starts with '{}'", byte.escape_ascii()),
            ReplyError::Value => write!(f, "a reply's number cannot be read"),
            ReplyError::LineTooLong => write!(f, "a reply's line is longer than {LINE_SIZE_MAX} bytes"),
            ReplyError::TooDeep => write!(f, "a reply is nested more than {DEPTH_MAX} deep"),
            ReplyError::BulkEnd => write!(f, "a bulk string is longer than announced"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// An element of a reply that holds others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nest {
    /// `*`
    Array,
    /// `%`: keys and values by turns.
    Map,
    /// `~`
    Set,
    /// `>`: out of order, answers no command.
    Push,
}

/// What a bulk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `$`
    Bulk,
    /// `=`: the bytes start with a format of three letters and a colon.
    Verbatim,
    /// `!`
    Error,
}

/// A part of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element<'a> {
    /// Consume what is said and call again with more input.
    Need,
    /// `+`
    Simple(&'a [u8]),
    /// `-`
    Error(&'a [u8]),
    /// `:`
    Integer(i64),
    /// `,`
    Double(f64),
    /// `#`
    Boolean(bool),
    /// `(`
    Big(&'a [u8]),
    /// `_`, `$-1`, `*-1`
    Null,
    /// So many elements follow inside it; a map announces both keys and values.
    Open(Nest, u64),
    /// A bulk of so many bytes begins; they follow as [`Element::Bytes`].
    Begin(Kind, u64),
    /// The next bytes of the bulk.
    Bytes(&'a [u8]),
    /// The bulk is over.
    End,
}

/// Finds elements. Each byte is looked at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// Bytes of the line at the start of the input that hold no line's end.
    scanned: usize,
    bulk_left: u64,
    in_bulk: bool,
}

impl Parser {
    /// The next element, and how many bytes to consume after using it. `input` starts at the first byte that is not
    /// consumed.
    ///
    /// # Errors
    /// Bytes that are no reply. The connection is then of no use.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(Element<'a>, usize), ReplyError> {
        if self.in_bulk {
            return self.bulk(input);
        }
        let Some(found) = input[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            self.scanned = input.len();
            return if self.scanned >= LINE_SIZE_MAX {
                Err(ReplyError::LineTooLong)
            } else {
                Ok((Element::Need, 0))
            };
        };
        let end = self.scanned + found;
        self.scanned = 0;
        let line = input[..end].strip_suffix(b"\r").ok_or(ReplyError::Value)?;
        let (&kind, rest) = line.split_first().ok_or(ReplyError::Value)?;
        Ok((self.element(kind, rest)?, end + 1))
    }

    fn bulk<'a>(&mut self, input: &'a [u8]) -> Result<(Element<'a>, usize), ReplyError> {
        if self.bulk_left > 0 {
            let here = usize::try_from(self.bulk_left).unwrap_or(usize::MAX).min(input.len());
            self.bulk_left -= u64::try_from(here).expect("a part of 64 bits");
            let element = if here == 0 { Element::Need } else { Element::Bytes(&input[..here]) };
            return Ok((element, here));
        }
        match input {
            [b'\r', b'\n', ..] => {
                self.in_bulk = false;
                Ok((Element::End, 2))
            }
            [] | [b'\r'] => Ok((Element::Need, 0)),
            _ => Err(ReplyError::BulkEnd),
        }
    }

    fn element<'a>(&mut self, kind: u8, line: &'a [u8]) -> Result<Element<'a>, ReplyError> {
        Ok(match kind {
            b'+' => Element::Simple(line),
            b'-' => Element::Error(line),
            b'(' => Element::Big(line),
            b':' => Element::Integer(parse_i64(line).ok_or(ReplyError::Value)?),
            b',' if line.ends_with(b"nan") => Element::Double(f64::NAN),
            b',' => Element::Double(parse_f64(line).ok_or(ReplyError::Value)?),
            b'#' => match line {
                b"t" => Element::Boolean(true),
                b"f" => Element::Boolean(false),
                _ => return Err(ReplyError::Value),
            },
            b'_' => Element::Null,
            b'*' | b'$' if line == b"-1" => Element::Null,
            b'*' => Element::Open(Nest::Array, size(line)?),
            b'~' => Element::Open(Nest::Set, size(line)?),
            b'>' => Element::Open(Nest::Push, size(line)?),
            b'%' => Element::Open(Nest::Map, size(line)?.checked_mul(2).ok_or(ReplyError::Value)?),
            b'$' => self.begin(Kind::Bulk, line)?,
            b'=' => self.begin(Kind::Verbatim, line)?,
            b'!' => self.begin(Kind::Error, line)?,
            other => return Err(ReplyError::UnknownType(other)),
        })
    }

    fn begin(&mut self, kind: Kind, line: &[u8]) -> Result<Element<'static>, ReplyError> {
        self.bulk_left = size(line)?;
        self.in_bulk = true;
        Ok(Element::Begin(kind, self.bulk_left))
    }
}

fn size(line: &[u8]) -> Result<u64, ReplyError> {
    parse_i64(line).and_then(|size| u64::try_from(size).ok()).ok_or(ReplyError::Value)
}

fn push<T>(stack: &mut Vec<T>, level: T) -> Result<(), ReplyError> {
    if stack.len() >= DEPTH_MAX {
        return Err(ReplyError::TooDeep);
    }
    stack.push(level);
    Ok(())
}

/// A reply as a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A status.
    Simple(Vec<u8>),
    /// An error: code and text.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A float of RESP3.
    Double(f64),
    /// A truth value of RESP3.
    Boolean(bool),
    /// A number of any size, as digits.
    Big(Vec<u8>),
    /// Nothing.
    Null,
    /// Bytes.
    Bulk(Vec<u8>),
    /// Text with its format of three letters.
    Verbatim([u8; 3], Vec<u8>),
    /// Values in order.
    Array(Vec<Reply>),
    /// Pairs.
    Map(Vec<(Reply, Reply)>),
    /// Values without order.
    Set(Vec<Reply>),
    /// A message that answers no command.
    Push(Vec<Reply>),
}

impl Reply {
    /// Appends the reply as a server sends it. In RESP2, what RESP3 has beyond it becomes what Redis sends instead.
    pub fn put(&self, out: &mut impl Put, proto: Proto) {
        let all = |out: &mut _, items: &[Reply]| items.iter().for_each(|item| item.put(out, proto));
        match self {
            Reply::Simple(text) => {
                out.put(b"+");
                out.put(text);
                out.put(b"\r\n");
            }
            Reply::Error(text) => reply::error_bytes(out, text),
            Reply::Integer(value) => reply::integer(out, *value),
            Reply::Double(value) => reply::double(out, proto, *value),
            Reply::Boolean(value) => reply::boolean(out, proto, *value),
            Reply::Big(digits) => reply::big(out, proto, digits),
            Reply::Null => reply::null(out, proto),
            Reply::Bulk(bytes) => reply::bulk(out, bytes),
            Reply::Verbatim(format, text) => reply::verbatim(out, proto, format, text),
            Reply::Array(items) => {
                reply::array(out, items.len());
                all(out, items);
            }
            Reply::Set(items) => {
                reply::set(out, proto, items.len());
                all(out, items);
            }
            Reply::Push(items) => {
                reply::push(out, proto, items.len());
                all(out, items);
            }
            Reply::Map(pairs) => {
                reply::map(out, proto, pairs.len());
                for (key, value) in pairs {
                    key.put(out, proto);
                    value.put(out, proto);
                }
            }
        }
    }

    /// The bytes of a string, status or error; none for others.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Simple(bytes) | Reply::Error(bytes) | Reply::Bulk(bytes) | Reply::Big(bytes) => {
                Some(bytes)
            }
            Reply::Verbatim(_, bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Builds replies. Memory follows the bytes received, never the sizes announced.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    parser: Parser,
    open: Vec<Level>,
    bulk: Option<(Kind, Vec<u8>)>,
}

#[derive(Clone, Debug)]
struct Level {
    nest: Nest,
    missing: u64,
    items: Vec<Reply>,
}

impl Collector {
    /// Reads on until a reply ends or the input does. Returns the bytes to consume.
    ///
    /// # Errors
    /// As [`Parser::next`], and nesting beyond [`DEPTH_MAX`].
    pub fn next(&mut self, input: &[u8]) -> Result<(Option<Reply>, usize), ReplyError> {
        let mut at = 0;
        loop {
            let (element, size) = self.parser.next(&input[at..])?;
            at += size;
            let value = match element {
                Element::Need => return Ok((None, at)),
                Element::Simple(text) => Reply::Simple(text.to_vec()),
                Element::Error(text) => Reply::Error(text.to_vec()),
                Element::Integer(value) => Reply::Integer(value),
                Element::Double(value) => Reply::Double(value),
                Element::Boolean(value) => Reply::Boolean(value),
                Element::Big(digits) => Reply::Big(digits.to_vec()),
                Element::Null => Reply::Null,
                Element::Open(nest, 0) => nested(nest, Vec::new()),
                Element::Open(nest, missing) => {
                    push(&mut self.open, Level { nest, missing, items: Vec::new() })?;
                    continue;
                }
                Element::Begin(kind, _) => {
                    self.bulk = Some((kind, Vec::new()));
                    continue;
                }
                Element::Bytes(bytes) => {
                    self.bulk.as_mut().expect("bytes come inside of a bulk").1.extend_from_slice(bytes);
                    continue;
                }
                Element::End => {
                    let (kind, bytes) = self.bulk.take().expect("a bulk that ends has begun");
                    text(kind, bytes)?
                }
            };
            if let Some(reply) = self.place(value) {
                return Ok((Some(reply), at));
            }
        }
    }

    /// Puts a whole value where it belongs; returns the reply if it was its last part.
    fn place(&mut self, mut value: Reply) -> Option<Reply> {
        while let Some(level) = self.open.last_mut() {
            level.items.push(value);
            level.missing -= 1;
            if level.missing > 0 {
                return None;
            }
            let level = self.open.pop().expect("there is a last one");
            value = nested(level.nest, level.items);
        }
        Some(value)
    }
}

fn nested(nest: Nest, items: Vec<Reply>) -> Reply {
    match nest {
        Nest::Array => Reply::Array(items),
        Nest::Set => Reply::Set(items),
        Nest::Push => Reply::Push(items),
        Nest::Map => {
            let mut items = items.into_iter();
            let mut pairs = Vec::new();
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            Reply::Map(pairs)
        }
    }
}

fn text(kind: Kind, bytes: Vec<u8>) -> Result<Reply, ReplyError> {
    match kind {
        Kind::Bulk => Ok(Reply::Bulk(bytes)),
        Kind::Error => Ok(Reply::Error(bytes)),
        Kind::Verbatim => match bytes.split_first_chunk::<4>() {
            Some(([a, b, c, b':'], text)) => Ok(Reply::Verbatim([*a, *b, *c], text.to_vec())),
            _ => Err(ReplyError::Value),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies of `input`, which arrives in two pieces; how many were counted is the same.
    fn collect(input: &[u8], cut: usize) -> Result<Vec<Reply>, ReplyError> {
        let (mut collector, mut counter) = (Collector::default(), Counter::default());
        let (mut replies, mut count, mut collected, mut counted) = (Vec::new(), 0, 0, 0);
        for arrived in [cut, input.len()] {
            loop {
                let (reply, size) = collector.next(&input[collected..arrived])?;
                let (outcome, counted_size) = counter.next(&input[counted..arrived])?;
                collected += size;
                counted += counted_size;
                match (reply, outcome) {
                    (Some(reply), Some(outcome)) => {
                        let want = match reply {
                            Reply::Error(_) => Outcome::Error,
                            Reply::Null => Outcome::Null,
                            Reply::Push(_) => Outcome::Push,
                            _ => Outcome::Value,
                        };
                        assert_eq!((outcome, counted), (want, collected));
                        replies.push(reply);
                        count += 1;
                    }
                    (None, None) => break,
                    other => panic!("one ends and the other does not: {other:?}"),
                }
            }
        }
        assert_eq!(replies.len(), count);
        Ok(replies)
    }

    fn check(input: &[u8], want: &[Reply]) {
        for cut in 0..=input.len() {
            assert_eq!(collect(input, cut).as_deref(), Ok(want), "{} cut at {cut}", input.escape_ascii());
        }
        let mut again = Vec::new();
        want.iter().for_each(|reply| reply.put(&mut again, Proto::Resp3));
        assert_eq!(collect(&again, 0).as_deref(), Ok(want));
    }

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn a_command_by_its_parts_is_the_same() {
        let value = [b'v'; 70_000];
        let mut parts = Vec::new();
        reply::array(&mut parts, 5);
        reply::bulk(&mut parts, b"SET");
        reply::bulk(&mut parts, b"key");
        reply::bulk_header(&mut parts, value.len());
        parts.extend_from_slice(&value);
        reply::bulk_end(&mut parts);
        reply::bulk(&mut parts, b"PXAT");
        reply::bulk_integer(&mut parts, 4_102_444_800_123);
        let mut whole = Vec::new();
        command(&mut whole, &[b"SET", b"key", &value, b"PXAT", b"4102444800123"]);
        assert_eq!(parts, whole);
        let mut short = Vec::new();
        command(&mut short, &[b"SELECT", b"15"]);
        assert_eq!(short, b"*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n");
    }

    #[test]
    fn replies_are_collected_wherever_they_are_cut() {
        check(b"+OK\r\n", &[Reply::Simple(b"OK".to_vec())]);
        check(b"-ERR no\r\n:-7\r\n", &[Reply::Error(b"ERR no".to_vec()), Reply::Integer(-7)]);
        check(b"$5\r\na\r\nbc\r\n$0\r\n\r\n", &[bulk("a\r\nbc"), bulk("")]);
        check(b"$-1\r\n*-1\r\n_\r\n", &[Reply::Null, Reply::Null, Reply::Null]);
        check(
            b"*0\r\n*2\r\n$1\r\na\r\n*1\r\n*0\r\n",
            &[Reply::Array(vec![]), Reply::Array(vec![bulk("a"), Reply::Array(vec![Reply::Array(vec![])])])],
        );
        check(
            b"%2\r\n+a\r\n:1\r\n+b\r\n%0\r\n",
            &[Reply::Map(vec![
                (Reply::Simple(b"a".to_vec()), Reply::Integer(1)),
                (Reply::Simple(b"b".to_vec()), Reply::Map(vec![])),
            ])],
        );
        check(
            b"~1\r\n#t\r\n>2\r\n+x\r\n#f\r\n",
            &[
                Reply::Set(vec![Reply::Boolean(true)]),
                Reply::Push(vec![Reply::Simple(b"x".to_vec()), Reply::Boolean(false)]),
            ],
        );
        check(
            b",1.5\r\n,-inf\r\n(123456789012345678901234567890\r\n",
            &[
                Reply::Double(1.5),
                Reply::Double(f64::NEG_INFINITY),
                Reply::Big(b"123456789012345678901234567890".to_vec()),
            ],
        );
        check(b"=7\r\ntxt:abc\r\n", &[Reply::Verbatim(*b"txt", b"abc".to_vec())]);
        check(
            b"*1\r\n-ERR in an array\r\n",
            &[Reply::Array(vec![Reply::Error(b"ERR in an array".to_vec())])],
        );
    }

    #[test]
    fn bytes_that_are_no_reply_are_refused() {
        for (input, want) in [
            (&b"hello\r\n"[..], ReplyError::UnknownType(b'h')),
            (b"\r\n", ReplyError::Value),
            (b":\r\n", ReplyError::Value),
            (b":1 \r\n", ReplyError::Value),
            (b"+no return\n", ReplyError::Value),
            (b"#x\r\n", ReplyError::Value),
            (b",one\r\n", ReplyError::Value),
            (b"$-2\r\n", ReplyError::Value),
            (b"$1\r\nab\r\n", ReplyError::BulkEnd),
        ] {
            assert_eq!(collect(input, 1).err(), Some(want), "{}", input.escape_ascii());
        }
        assert_eq!(collect(&b"*1\r\n".repeat(DEPTH_MAX + 1), 0), Err(ReplyError::TooDeep));
        assert_eq!(collect(&[b'+'; LINE_SIZE_MAX], 0), Err(ReplyError::LineTooLong));
    }

    #[test]
    fn any_bytes_are_collected_the_same_whole_and_in_pieces() {
        let mut state = 3u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            usize::from(state.to_be_bytes()[0])
        };
        let parts: [&[u8]; 16] = [
            b"+OK\r\n",
            b"-E x\r\n",
            b":1\r\n",
            b"$3\r\nabc\r\n",
            b"$-1\r\n",
            b"*2\r\n",
            b"*0\r\n",
            b"%1\r\n",
            b"~2\r\n",
            b">1\r\n",
            b",nan\r\n",
            b"#t\r\n",
            b"(1\r\n",
            b"=5\r\ntxt:a\r\n",
            b"!3\r\nERR\r\n",
            b"_\r\n",
        ];
        for _ in 0..3000 {
            let mut input: Vec<u8> = (0..next() % 12).flat_map(|_| parts[next() % 16]).copied().collect();
            if next() % 3 == 0 && !input.is_empty() {
                let index = next() % input.len();
                input[index] = b"*$\r\n1-x"[next() % 7];
            }
            crate::fuzz::replies(&input);
        }
    }
}
