//! As much of HTTP/1.1 (RFC 9112) as serves a few pages to clients that ask for them one after the other: GET, without a body.
//!
//! A request becomes a command with three arguments: what to do with it ([`Ask`]), the path without its query, and what the
//! header `Authorization` says. What is no such request is answered with its status, and the connection closed.

use crate::memcached::base64;
use crate::reply::Put;
use crate::resp::{ArgRanges, Step};

/// The argument that says what to do.
pub const ASK: usize = 0;
/// The argument that is the path.
pub const PATH: usize = 1;
/// The argument that is the value of `Authorization`; empty without.
pub const AUTHORIZATION: usize = 2;

/// Longest request in bytes.
pub const REQUEST_SIZE_MAX: usize = 8 * 1024;

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The status to refuse it with; [`Code::OK`] if it is to be served.
    pub code: Code,
    /// The connection is closed after the reply.
    pub closes: bool,
}

/// A status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u16);

impl Code {
    /// Here it is.
    pub const OK: Code = Code(200);
    /// That is no request.
    pub const BAD_REQUEST: Code = Code(400);
    /// Not without the password.
    pub const UNAUTHORIZED: Code = Code(401);
    /// There is no such page.
    pub const NOT_FOUND: Code = Code(404);
    /// Only GET.
    pub const NOT_ALLOWED: Code = Code(405);
    /// More than [`REQUEST_SIZE_MAX`].
    pub const TOO_LARGE: Code = Code(431);
    /// A version of HTTP that is none of 1.0 and 1.1.
    pub const VERSION: Code = Code(505);

    fn reason(self) -> &'static str {
        match self.0 {
            200 => "OK",
            401 => "Unauthorized",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            505 => "HTTP Version Not Supported",
            _ => "Bad Request",
        }
    }
}

impl Ask {
    fn to_bytes(self) -> [u8; 3] {
        let [high, low] = self.code.0.to_be_bytes();
        [high, low, u8::from(self.closes)]
    }

    /// The one that an argument holds.
    ///
    /// # Panics
    /// With any other bytes: no client ever writes them.
    pub fn from_bytes(bytes: &[u8]) -> Ask {
        let &[high, low, closes] = bytes else { panic!("an ask has three bytes") };
        Ask { code: Code(u16::from_be_bytes([high, low])), closes: closes != 0 }
    }
}

/// Reads the requests of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    /// Bytes of the input that hold no end of a request.
    scanned: usize,
}

impl Decoder {
    /// Looks for one request at the start of `input`, which may only grow at its end while the answer is [`Step::Need`].
    pub fn decode(&mut self, input: &[u8], args: &mut ArgRanges) -> Step {
        const END: &[u8] = b"\r\n\r\n";
        let from = self.scanned.min(input.len());
        match input[from..].windows(END.len()).position(|bytes| bytes == END) {
            Some(at) if from + at + END.len() <= REQUEST_SIZE_MAX => {
                self.scanned = 0;
                let size = from + at + END.len();
                let request = Request::parse(&input[..from + at]);
                args.set([&request.ask.to_bytes()[..], request.path, request.authorization]);
                Step::Command { size }
            }
            None if is_foreign(input, from) => {
                self.scanned = 0;
                let ask = Ask { code: Code::BAD_REQUEST, closes: true };
                args.set([&ask.to_bytes()[..], b"", b""]);
                Step::Command { size: input.len() }
            }
            None if input.len() < REQUEST_SIZE_MAX => {
                self.scanned = input.len().saturating_sub(END.len() - 1);
                Step::Need
            }
            _ => {
                self.scanned = 0;
                let ask = Ask { code: Code::TOO_LARGE, closes: true };
                args.set([&ask.to_bytes()[..], b"", b""]);
                Step::Command { size: input.len() }
            }
        }
    }
}

/// Whether the beginning of a request shows already that it is none: its first byte, or its first line, once it is there. What lies before
/// `from` has been looked at.
fn is_foreign(input: &[u8], from: usize) -> bool {
    if input.first().is_some_and(|first| !first.is_ascii_uppercase()) {
        return true;
    }
    let has_line = input[from..].contains(&b'\n');
    let line = input.split(|byte| *byte == b'\n').next().unwrap_or_default();
    has_line && Request::parse(line).ask.code == Code::BAD_REQUEST
}

struct Request<'a> {
    ask: Ask,
    path: &'a [u8],
    authorization: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request's lines, without the empty one at their end.
    fn parse(text: &'a [u8]) -> Request<'a> {
        let refused = |code| Request { ask: Ask { code, closes: true }, path: b"", authorization: b"" };
        let mut lines =
            text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut words = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return refused(Code::BAD_REQUEST);
        };
        if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
            let is_http = version.starts_with(b"HTTP/");
            return refused(if is_http { Code::VERSION } else { Code::BAD_REQUEST });
        }
        if method != b"GET" {
            return refused(Code::NOT_ALLOWED);
        }
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        if !path.starts_with(b"/") {
            return refused(Code::BAD_REQUEST);
        }
        let mut authorization = &b""[..];
        let mut closes = version == b"HTTP/1.0";
        for line in lines {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                return refused(Code::BAD_REQUEST);
            };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"Authorization") {
                authorization = value;
            } else if name.eq_ignore_ascii_case(b"Connection") {
                closes = value.eq_ignore_ascii_case(b"close")
                    || closes && !value.eq_ignore_ascii_case(b"keep-alive");
            } else if name.eq_ignore_ascii_case(b"Transfer-Encoding")
                || name.eq_ignore_ascii_case(b"Content-Length") && value != b"0"
            {
                return refused(Code::BAD_REQUEST);
            }
        }
        Request { ask: Ask { code: Code::OK, closes }, path, authorization }
    }
}

/// User and password of an `Authorization` of the scheme Basic (RFC 7617); nothing if it is none.
pub fn credentials(authorization: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, letters) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let text = base64::decode_all(letters.trim_ascii())?;
    let colon = text.iter().position(|byte| *byte == b':')?;
    Some((text[..colon].to_vec(), text[colon + 1..].to_vec()))
}

/// Appends a whole reply: JSON, or an error's words.
pub fn put(out: &mut impl Put, ask: Ask, code: Code, body: &str) {
    let kind = if code == Code::OK { "application/json" } else { "text/plain" };
    let extra = match code {
        Code::UNAUTHORIZED => "WWW-Authenticate: Basic realm=\"expresslane\"\r\n",
        Code::NOT_ALLOWED => "Allow: GET\r\n",
        _ => "",
    };
    let end = if ask.closes { "Connection: close\r\n" } else { "" };
    let (number, reason, size) = (code.0, code.reason(), body.len());
    out.put(
        format!(
            "HTTP/1.1 {number} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n{extra}{end}\r\n{body}"
        )
        .as_bytes(),
    );
}

/// Appends the beginning of a reply that goes on for as long as the connection lasts, with its first piece.
pub fn put_stream(out: &mut impl Put, piece: &str) {
    let size = piece.len();
    out.put(
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{piece}\r\n"
        )
        .as_bytes(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads requests that arrive `piece` bytes at a time, as `code path authorization`, with a `.` where the connection is closed.
    fn read(input: &[u8], piece: usize) -> Vec<String> {
        let (mut decoder, mut args, mut got) = (Decoder::default(), ArgRanges::new(), Vec::new());
        let (mut consumed, mut arrived) = (0, 0);
        while arrived < input.len() {
            arrived = arrived.saturating_add(piece).min(input.len());
            while let Step::Command { size } = decoder.decode(&input[consumed..arrived], &mut args) {
                let words: Vec<&[u8]> = args.iter(&input[consumed..]).collect();
                let ask = Ask::from_bytes(words[ASK]);
                let end = if ask.closes { "." } else { "" };
                let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
                got.push(format!("{} {} {}{end}", ask.code.0, show(words[PATH]), show(words[AUTHORIZATION])));
                consumed += size;
                if ask.closes {
                    return got;
                }
            }
        }
        got
    }

    #[track_caller]
    fn check(input: &str, want: &[&str]) {
        for piece in [1, 2, 7, usize::MAX] {
            assert_eq!(read(input.as_bytes(), piece), want, "{input:?} in pieces of {piece}");
        }
    }

    #[test]
    fn requests() {
        check("GET / HTTP/1.1\r\n\r\n", &["200 / "]);
        check(
            "GET /pools?a=b HTTP/1.1\r\nHost: x\r\nauthorization:  Basic eA== \r\n\r\nGET /b HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            &["200 /pools Basic eA==", "200 /b "],
        );
        check("GET / HTTP/1.0\r\n\r\n", &["200 / ."]);
        check("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &["200 / "]);
        check("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", &["200 / ."]);
        check("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", &["405  ."]);
        check("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", &["400  ."]);
        check("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", &["400  ."]);
        check("GET / HTTP/2.0\r\n\r\n", &["505  ."]);
        check("GET  / HTTP/1.1\r\n\r\n", &["400  ."]);
        check("GET pools HTTP/1.1\r\n\r\n", &["400  ."]);
        check("GET / HTTP/1.1\r\nno colon\r\n\r\n", &["400  ."]);
        check("\r\n\r\n", &["400  ."]);
        // Nobody who speaks something else is left waiting for the end of a request.
        for other in ["*1\r\n$4\r\nPING\r\n", "get key\r\n", "PING\r\n", "GET key\n", "\u{2}\u{1}", "\u{16}"]
        {
            check(other, &["400  ."]);
        }
        check("POST / HTTP/1.1\r\n", &[]);
    }

    #[test]
    fn what_is_too_long_is_given_up() {
        let front = "GET / HTTP/1.1\r\nX: ";
        let fits = "x".repeat(REQUEST_SIZE_MAX - front.len() - 4);
        check(&format!("{front}{fits}\r\n\r\n"), &["200 / "]);
        check(&format!("{front}{fits}x\r\n\r\n"), &["431  ."]);
        check(&"X".repeat(REQUEST_SIZE_MAX), &["431  ."]);
        check(&"X".repeat(REQUEST_SIZE_MAX - 1), &[]);
    }

    #[test]
    fn credentials_of_basic() {
        let of = |text: &str| {
            credentials(text.as_bytes()).map(|(user, password)| {
                format!("{} {}", String::from_utf8_lossy(&user), String::from_utf8_lossy(&password))
            })
        };
        // RFC 7617, section 2.
        assert_eq!(of("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").as_deref(), Some("Aladdin open sesame"));
        assert_eq!(of("basic OmE6Yg==").as_deref(), Some(" a:b"));
        for none in ["", "Basic", "Basic ", "Bearer OmE6Yg==", "Basic !", "Basic QQ=="] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn replies() {
        let mut out = Vec::new();
        put(&mut out, Ask { code: Code::OK, closes: false }, Code::OK, "{}");
        assert_eq!(out, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
        out.clear();
        put(&mut out, Ask { code: Code::OK, closes: true }, Code::UNAUTHORIZED, "no");
        let want = "HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\
                    WWW-Authenticate: Basic realm=\"expresslane\"\r\nConnection: close\r\n\r\nno";
        assert_eq!(String::from_utf8_lossy(&out), want);
        out.clear();
        put_stream(&mut out, "{\"rev\":1}\n\n\n\n");
        assert!(out.ends_with(b"Transfer-Encoding: chunked\r\n\r\nd\r\n{\"rev\":1}\n\n\n\n\r\n"));
    }
}
