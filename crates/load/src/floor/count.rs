//! Counts complete RESP requests in a stream of bytes, however it is cut, and reads nothing else in them.
//!
//! Benchmark traffic is one request repeated: same command, keys of one width, values of one size. So the first
//! complete request of a batch is measured, and each following stretch of the same length whose framing bytes (the
//! `*N` line and every `$N` line, at the same places) are the same is a request too: equal framing at equal places
//! leaves the bytes between no say in where the request ends. Everything else is counted header by header.

/// Framing stretches remembered of the measured request. A request with more arguments is counted header by header.
const SPANS_COUNT: usize = 4;
/// Arguments up to this many bytes are compared together with the framing around them.
const SHORT_SIZE: usize = 8;
/// Digits of a length or count: what fits Redis' own limits (512 MB, 1,048,576 arguments).
const DIGITS_COUNT_MAX: u32 = 10;

/// The stream is not RESP; there is no way to tell where a next request would begin.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// Where in a request the stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before a request's first byte.
    Start,
    /// In an inline command: a line of text.
    Inline,
    /// In the number of a `*N` or `$N` line, its digits so far.
    Number { line: Line, value: usize, digits: u32 },
    /// Behind the `\r` of such a line.
    NumberEnd { line: Line, value: usize },
    /// Before the `$` of an argument.
    Mark,
    /// In an argument: bytes left of it, its `\r\n` included.
    Body { left: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Array,
    Bulk,
}

/// The count of one connection's stream: where it stands between two receives.
pub struct Count {
    at: At,
    /// Arguments of the request under way that have not begun.
    arguments: usize,
}

impl Default for Count {
    fn default() -> Self {
        Self::new()
    }
}

impl Count {
    /// Before a first byte.
    #[must_use]
    pub fn new() -> Self {
        Self { at: At::Start, arguments: 0 }
    }

    /// Takes the next `bytes` of the stream and returns how many requests end in them.
    ///
    /// # Errors
    /// [`Malformed`] where Redis would close the connection for bad framing, or a bulk's end is not looked at: the
    /// two bytes behind an argument are taken as `\r\n` unseen.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut rest = bytes;
        let mut requests = 0;
        while !rest.is_empty() {
            let whole = self.at == At::Start;
            let (used, ended) = self.one(rest)?;
            let (request, behind) = rest.split_at(used);
            rest = behind;
            requests += usize::from(ended);
            // Only a request that lies here in one piece can be a pattern for those behind it.
            if whole
                && ended
                && !rest.is_empty()
                && let Some(shape) = Shape::of(request)
            {
                while shape.fits(rest) {
                    requests += 1;
                    rest = &rest[used..];
                }
            }
        }
        Ok(requests)
    }

    /// Goes on to the end of one request or of `bytes`; returns the bytes used and whether a request ended there.
    /// Blank lines and `*0` are skipped on the way, as Redis does: they get no answer.
    fn one(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let mut index = 0;
        while let Some(&byte) = bytes.get(index) {
            index += 1;
            self.at = match self.at {
                At::Start => match byte {
                    b'*' => At::Number { line: Line::Array, value: 0, digits: 0 },
                    b'\r' | b'\n' => At::Start,
                    _ => At::Inline,
                },
                At::Inline => {
                    if byte == b'\n' {
                        self.at = At::Start;
                        return Ok((index, true));
                    }
                    At::Inline
                }
                At::Number { line, value, digits } => match byte {
                    b'0'..=b'9' if digits < DIGITS_COUNT_MAX => {
                        At::Number { line, value: value * 10 + usize::from(byte - b'0'), digits: digits + 1 }
                    }
                    b'\r' if digits > 0 => At::NumberEnd { line, value },
                    _ => return Err(Malformed),
                },
                At::NumberEnd { line, value } => match (byte, line) {
                    (b'\n', Line::Array) => {
                        self.arguments = value;
                        if value == 0 { At::Start } else { At::Mark }
                    }
                    (b'\n', Line::Bulk) => {
                        self.arguments -= 1;
                        At::Body { left: value + 2 }
                    }
                    _ => return Err(Malformed),
                },
                At::Mark => {
                    if byte != b'$' {
                        return Err(Malformed);
                    }
                    At::Number { line: Line::Bulk, value: 0, digits: 0 }
                }
                At::Body { left } => {
                    let here = left.min(bytes.len() - (index - 1));
                    index += here - 1;
                    if here < left {
                        At::Body { left: left - here }
                    } else if self.arguments > 0 {
                        At::Mark
                    } else {
                        self.at = At::Start;
                        return Ok((index, true));
                    }
                }
            };
        }
        Ok((index, false))
    }
}

/// One complete request as a pattern: its length, and the stretches of it that are framing.
struct Shape<'a> {
    request: &'a [u8],
    spans: [(usize, usize); SPANS_COUNT],
    spans_count: usize,
}

impl<'a> Shape<'a> {
    /// The pattern of a well-formed `request`. `None`: an inline command or a blank line before the request, or too
    /// many arguments to remember.
    fn of(request: &'a [u8]) -> Option<Self> {
        let mut shape = Self { request, spans: [(0, 0); SPANS_COUNT], spans_count: 0 };
        let line_end = |from: usize| request[from..].iter().position(|&b| b == b'\n').map(|at| from + at + 1);
        if request.first() != Some(&b'*') {
            return None;
        }
        let mut start = 0;
        let mut header = line_end(0)?;
        while header < request.len() {
            let end = line_end(header)?;
            let digits = &request[header + 1..end - 2];
            let size = digits.iter().fold(0, |value, digit| value * 10 + usize::from(digit - b'0'));
            if size <= SHORT_SIZE && end + size + 2 < request.len() {
                // The command's name: comparing it too is cheaper than one stretch more.
            } else {
                *shape.spans.get_mut(shape.spans_count)? = (start, end);
                shape.spans_count += 1;
                start = end + size;
            }
            header = end + size + 2;
        }
        Some(shape)
    }

    /// Whether `bytes` begin with a request of this shape.
    fn fits(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.request.len()
            && self.spans[..self.spans_count]
                .iter()
                .all(|&(start, end)| bytes[start..end] == self.request[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` in every cut into two, and byte by byte; all must count `want` requests.
    fn check(stream: &[u8], want: usize) {
        for cut in 0..=stream.len() {
            let mut count = Count::new();
            let (first, second) = stream.split_at(cut);
            let got = count.feed(first).unwrap() + count.feed(second).unwrap();
            assert_eq!(got, want, "cut at {cut}: {}", stream.escape_ascii());
            assert_eq!(count.at, At::Start);
        }
        let mut count = Count::new();
        let got: usize = stream.iter().map(|byte| count.feed(&[*byte]).unwrap()).sum();
        assert_eq!(got, want);
    }

    fn request(arguments: &[&str]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            bytes += &format!("${}\r\n{argument}\r\n", argument.len());
        }
        bytes.into_bytes()
    }

    #[test]
    fn complete_requests_are_counted_however_they_are_cut() {
        check(b"", 0);
        check(b"PING\r\n", 1);
        check(b"PING\r\nPING\r\n\r\nPING\n", 3);
        check(b"*0\r\n", 0);
        check(&request(&["GET", "key:000000000001"]), 1);
        check(&request(&["GET", "key:000000000001"]).repeat(5), 5);
        check(&request(&["SET", "key:000000000001", &"v".repeat(100)]).repeat(3), 3);
        check(&request(&["SET", "k", ""]).repeat(3), 3);
        let many: Vec<String> = (0..11).map(|n| format!("key:{n:012}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check(&request(&many).repeat(3), 3);
        check(&[request(&["GET", "a"]), b"PING\r\n".to_vec(), request(&["GET", "a"])].concat(), 3);
    }

    /// Requests of one length but of another shape, with values that look like framing at the very places where
    /// the pattern expects it.
    #[test]
    fn a_value_that_looks_like_framing_is_no_request() {
        let plain = request(&["GET", "key:000000000001"]);
        let disguised = request(&["SET", "0123456789", &String::from_utf8(plain.repeat(3)).unwrap()]);
        check(&[plain.clone(), disguised.clone(), plain.clone()].concat(), 3);
        // The same up to the value, which is longer than the first one's and full of whole requests.
        let short = request(&["SET", "key:000000000001", "0123456789"]);
        let long = request(&["SET", "key:000000000001", &String::from_utf8(short.repeat(9)).unwrap()]);
        check(&[short.clone(), long, short].concat(), 3);
    }

    #[test]
    fn broken_framing_is_malformed() {
        for stream in
            ["*1\r\n:1\r\n", "*x\r\n", "*\r\n", "*1\r\n$\r\n", "*1\n", "*1\r\n$3\rGET", "*99999999999\r\n"]
        {
            assert_eq!(Count::new().feed(stream.as_bytes()), Err(Malformed), "{stream:?}");
        }
    }
}
