//! Counting replies without keeping anything of them.

use super::{Element, Kind, Nest, Parser, ReplyError, push};

/// What a whole reply was, for those who only count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A value.
    Value,
    /// An error.
    Error,
    /// Nothing: a miss.
    Null,
    /// A message out of order: it answers no command.
    Push,
}

/// Tells where replies end and whether they are errors, without keeping anything of them.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    parser: Parser,
    /// Elements still missing at each level of nesting.
    missing: Vec<u64>,
    outcome: Option<Outcome>,
    /// Of the last reply that [`Counter::whole_bulk`] read.
    header: Header,
}

/// The header of a bulk that is read again at a glance: replies of one kind have the same.
#[derive(Clone, Copy, Debug)]
struct Header {
    /// Its bytes, and ones where it has some.
    word: u64,
    mask: u64,
    /// Of the value, and where it begins.
    size: usize,
    value_at: usize,
}

impl Default for Header {
    /// None: nothing is like it.
    fn default() -> Header {
        Header { word: 1, mask: 0, size: 0, value_at: 0 }
    }
}

impl Counter {
    /// Reads on until a reply ends or the input does. Returns the bytes to consume.
    ///
    /// # Errors
    /// As [`Parser::next`], and nesting beyond [`DEPTH_MAX`](super::DEPTH_MAX).
    pub fn next(&mut self, input: &[u8]) -> Result<(Option<Outcome>, usize), ReplyError> {
        self.next_seen(input, &mut |_| {})
    }

    /// The same, and `see` is shown every element on the way.
    ///
    /// # Errors
    /// As [`Counter::next`].
    #[inline]
    pub fn next_seen(
        &mut self,
        input: &[u8],
        see: &mut impl FnMut(&Element<'_>),
    ) -> Result<(Option<Outcome>, usize), ReplyError> {
        let mut at = 0;
        loop {
            let (element, size) = self.parser.next(&input[at..])?;
            at += size;
            see(&element);
            let (outcome, whole) = match element {
                Element::Need => return Ok((None, at)),
                Element::Error(_) => (Outcome::Error, true),
                Element::Null => (Outcome::Null, true),
                Element::Begin(Kind::Error, _) => (Outcome::Error, false),
                Element::Open(nest, count) => {
                    if count > 0 {
                        push(&mut self.missing, count)?;
                    }
                    (if nest == Nest::Push { Outcome::Push } else { Outcome::Value }, count == 0)
                }
                Element::Begin(..) | Element::Bytes(_) => (Outcome::Value, false),
                _ => (Outcome::Value, true),
            };
            let outcome = *self.outcome.get_or_insert(outcome);
            if whole && self.ends() {
                self.outcome = None;
                return Ok((Some(outcome), at));
            }
        }
    }

    /// A bulk string that is a reply by itself and is there as a whole: its bytes, and how many to consume. That is what most
    /// replies are, and this is the short way; on None [`Counter::next_seen`] tells what there is. So it does of fewer than eight
    /// bytes, and of sizes of six digits and more.
    #[inline]
    pub fn whole_bulk<'a>(&mut self, input: &'a [u8]) -> Option<(&'a [u8], usize)> {
        if self.outcome.is_some() || self.parser.scanned > 0 {
            return None;
        }
        let word = u64::from_le_bytes(*input.first_chunk()?);
        if word & self.header.mask != self.header.word {
            self.header = header(input, word)?;
        }
        let Header { size, value_at, .. } = self.header;
        let end = value_at + size + 2;
        let is_framed = end <= input.len() && input[end - 2..end] == *b"\r\n";
        is_framed.then(|| (&input[value_at..end - 2], end))
    }

    /// One element is whole: is the reply?
    fn ends(&mut self) -> bool {
        while let Some(missing) = self.missing.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return false;
            }
            self.missing.pop();
        }
        true
    }
}

/// The header of a bulk at the start of `input`, of which `word` is the first eight bytes. None for one that is longer than
/// they are, or cut.
fn header(input: &[u8], word: u64) -> Option<Header> {
    let line_size = input.iter().take(8).position(|&byte| byte == b'\r')?;
    let (digits, value_at) = (input[..line_size].strip_prefix(b"$")?, line_size + 2);
    let is_whole =
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && value_at <= input.len().min(8);
    if !is_whole || input[line_size + 1] != b'\n' {
        return None;
    }
    let size = digits.iter().fold(0, |size, digit| size * 10 + usize::from(digit - b'0'));
    let mask = u64::MAX >> (64 - 8 * value_at);
    Some(Header { word: word & mask, mask, size, value_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One counter reads these one after the other, each with what is behind it, in the short way if it has a size here.
    fn check_short(replies: &[(&[u8], Option<usize>)]) {
        let mut counter = Counter::default();
        for (input, want) in replies {
            let value = counter.whole_bulk(input).map(|(value, size)| {
                assert_eq!(value, &input[size - 2 - value.len()..size - 2]);
                size
            });
            assert_eq!(value, *want, "{}", input.escape_ascii());
            if let Some(size) = value {
                assert_eq!(Counter::default().next(input), Ok((Some(Outcome::Value), size)));
            }
        }
    }

    #[test]
    fn values_are_read_the_short_way_if_they_are_whole() {
        check_short(&[
            (b"$5\r\nhello\r\n", Some(11)),
            (b"$5\r\nworld\r\n$5", Some(11)),
            (b"$5\r\nworld\r", None),
            (b"$5\r\nworld!\r\n", None),
            (b"$12\r\nhello, world\r\n", Some(19)),
            (b"$5\r\nhello\r\n", Some(11)),
            (b"*5\r\nhello\r\n", None),
            (b":5\r\n$1\r\na\r\n", None),
            (b"$-1\r\n$1\r\na\r\n", None),
            (b"$0\r\n\r\n+OK\r\n", Some(6)),
            (b"+OK\r\n\r\n", None),
        ]);
        // Too short to tell at a glance, and not taken for what was read before.
        check_short(&[(b"$0\r\n\r\n", None), (b":123\r\n", None), (b":12\r\n\r\n", None), (b"", None)]);
        check_short(&[
            (b"$\r\n\r\n\r\n\r\n", None),
            (b"$+1\r\na\r\n\r\n", None),
            (b"$1\na\r\n\r\n\r\n", None),
        ]);
        let long = [b"$100000\r\n", [b'x'; 100_000].as_slice(), b"\r\n"].concat();
        let shorter = [b"$10000\r\n", [b'x'; 10_000].as_slice(), b"\r\n"].concat();
        check_short(&[(&long, None), (&shorter, Some(10_010)), (&long, None)]);
    }
}
