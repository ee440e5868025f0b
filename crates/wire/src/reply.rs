//! Replies: values become bytes, in RESP2 or RESP3.
//!
//! Each function appends one element to anything that takes bytes. Where the two protocols differ the function takes
//! [`Proto`] and writes what Redis 7.0 writes to a client of that protocol (`addReply…` in `src/networking.c`).

use crate::number;

/// Something that takes bytes in order. The lane's output, a scratch buffer, a test's `Vec`.
pub trait Put {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends these, one behind the other. Worth a method of its own where finding the place costs more than the copy.
    #[inline]
    fn put_all(&mut self, pieces: [&[u8]; 3]) {
        for piece in pieces {
            self.put(piece);
        }
    }

    /// Appends the first `head_size` bytes of `head`, then `body`, then `\r\n`: the shape of most replies, for which a head of
    /// unknown length is worth no copy of its own where there is room for all eight.
    #[inline]
    fn put_framed(&mut self, head: [u8; 8], head_size: usize, body: &[u8]) {
        self.put(&head[..head_size]);
        self.put(body);
        self.put(b"\r\n");
    }

    /// Appends the first `size` bytes of `word`, for which the same holds.
    #[inline]
    fn put_word(&mut self, word: [u8; 8], size: usize) {
        self.put(&word[..size]);
    }

    /// An error with this text, its code first, is about to be appended. Whoever counts errors does it here.
    fn note_error(&mut self, _text: &[u8]) {}

    /// The same of a dialect whose errors have numbers, or words that are no text's first: the word under which it counts.
    fn note_code(&mut self, _word: &'static str) {}
}

impl Put for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<P: Put + ?Sized> Put for &mut P {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    #[inline]
    fn put_all(&mut self, pieces: [&[u8]; 3]) {
        (**self).put_all(pieces);
    }

    #[inline]
    fn put_word(&mut self, word: [u8; 8], size: usize) {
        (**self).put_word(word, size);
    }

    #[inline]
    fn put_framed(&mut self, head: [u8; 8], head_size: usize, body: &[u8]) {
        (**self).put_framed(head, head_size, body);
    }

    fn note_error(&mut self, text: &[u8]) {
        (**self).note_error(text);
    }

    fn note_code(&mut self, word: &'static str) {
        (**self).note_code(word);
    }
}

/// The protocol a connection has agreed on with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proto {
    /// What every client speaks at first.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// The reply of most writing commands.
pub const OK: &[u8] = b"+OK\r\n";

/// [`OK`], for what is asked often.
#[inline]
pub fn ok(out: &mut impl Put) {
    out.put_word(*b"+OK\r\n\0\0\0", OK.len());
}

/// `+text`: a status without line ends.
pub fn simple(out: &mut impl Put, text: &str) {
    out.put(b"+");
    out.put(text.as_bytes());
    out.put(b"\r\n");
}

/// `-text`: an error. `text` starts with its code (`ERR`, `WRONGTYPE`, …). Line ends at the end are dropped, others become
/// spaces, so that bytes of a client in the text cannot forge a reply.
pub fn error(out: &mut impl Put, text: &str) {
    error_bytes(out, text.as_bytes());
}

/// As [`error`], for a text that quotes a client's bytes.
pub fn error_bytes(out: &mut impl Put, text: &[u8]) {
    out.note_error(text);
    out.put(b"-");
    let end = text.iter().rposition(|&byte| !is_line_end(byte)).map_or(0, |index| index + 1);
    for (index, part) in text[..end].split(|&byte| is_line_end(byte)).enumerate() {
        if index > 0 {
            out.put(b" ");
        }
        out.put(part);
    }
    out.put(b"\r\n");
}

/// A client's word as an error quotes it: up to a NUL, as C prints it.
pub fn quoted(word: &[u8]) -> &[u8] {
    &word[..word.iter().position(|&byte| byte == 0).unwrap_or(word.len())]
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\r' || byte == b'\n'
}

/// `:value`.
#[inline]
pub fn integer(out: &mut impl Put, value: i64) {
    line(out, b':', value);
}

/// The end of a line, as it lies in a register.
const END: u64 = u16::from_le_bytes(*b"\r\n") as u64;

/// `$size`, the bytes, and the end.
#[inline]
pub fn bulk(out: &mut impl Put, bytes: &[u8]) {
    // The head of a short one is put together in a register.
    let digit = |number: usize| 0x30 + (number % 10) as u64;
    let size = bytes.len();
    let (digits, digits_size) = match size {
        0..10 => (digit(size), 1),
        10..100 => (digit(size / 10) | digit(size) << 8, 2),
        100..1000 => (digit(size / 100) | digit(size / 10) << 8 | digit(size) << 16, 3),
        _ => {
            bulk_header(out, size);
            out.put(bytes);
            return out.put(b"\r\n");
        }
    };
    let head = b'$' as u64 | digits << 8 | END << (8 + 8 * digits_size);
    out.put_framed(head.to_le_bytes(), 1 + digits_size + 2, bytes);
}

/// `$size` alone: the caller puts the bytes and [`bulk_end`] behind it. For values that are sent by reference.
#[inline]
pub fn bulk_header(out: &mut impl Put, size: usize) {
    line(out, b'$', count(size));
}

/// The end of a bulk that began with [`bulk_header`].
#[inline]
pub fn bulk_end(out: &mut impl Put) {
    out.put(b"\r\n");
}

/// The digits of `value` as a bulk, which is how commands carry numbers.
pub fn bulk_integer(out: &mut impl Put, value: i64) {
    bulk(out, number::format_i64(value).as_bytes());
}

/// No value: `$-1` or `_`.
#[inline]
pub fn null(out: &mut impl Put, proto: Proto) {
    out.put(match proto {
        Proto::Resp2 => b"$-1\r\n",
        Proto::Resp3 => b"_\r\n",
    });
}

/// No array (EXEC after a failed WATCH, for one): `*-1` or `_`.
pub fn null_array(out: &mut impl Put, proto: Proto) {
    out.put(match proto {
        Proto::Resp2 => b"*-1\r\n",
        Proto::Resp3 => b"_\r\n",
    });
}

/// The head of an array; `size` elements follow.
#[inline]
pub fn array(out: &mut impl Put, size: usize) {
    line(out, b'*', count(size));
}

/// The head of a map; `size` pairs follow. In RESP2 an array of twice as many elements.
pub fn map(out: &mut impl Put, proto: Proto, size: usize) {
    match proto {
        Proto::Resp2 => array(out, size.checked_mul(2).expect("a map's size is far below usize::MAX")),
        Proto::Resp3 => line(out, b'%', count(size)),
    }
}

/// The head of a set; `size` members follow. In RESP2 an array.
pub fn set(out: &mut impl Put, proto: Proto, size: usize) {
    match proto {
        Proto::Resp2 => array(out, size),
        Proto::Resp3 => line(out, b'~', count(size)),
    }
}

/// The head of a message out of order; `size` elements follow. In RESP2 an array.
pub fn push(out: &mut impl Put, proto: Proto, size: usize) {
    match proto {
        Proto::Resp2 => array(out, size),
        Proto::Resp3 => line(out, b'>', count(size)),
    }
}

/// A float with 17 significant digits: a bulk or `,value`.
pub fn double(out: &mut impl Put, proto: Proto, value: f64) {
    let text = number::format_f64(value);
    match proto {
        Proto::Resp2 => bulk(out, text.as_bytes()),
        Proto::Resp3 => {
            out.put(b",");
            out.put(text.as_bytes());
            out.put(b"\r\n");
        }
    }
}

/// `:1`/`:0` or `#t`/`#f`.
pub fn boolean(out: &mut impl Put, proto: Proto, value: bool) {
    out.put(match (proto, value) {
        (Proto::Resp2, true) => b":1\r\n",
        (Proto::Resp2, false) => b":0\r\n",
        (Proto::Resp3, true) => b"#t\r\n",
        (Proto::Resp3, false) => b"#f\r\n",
    });
}

/// A number too big for 64 bits, as decimal digits: a bulk or `(digits`.
pub fn big(out: &mut impl Put, proto: Proto, digits: &[u8]) {
    match proto {
        Proto::Resp2 => bulk(out, digits),
        Proto::Resp3 => {
            out.put(b"(");
            out.put(digits);
            out.put(b"\r\n");
        }
    }
}

/// Text for people (INFO, LOLWUT …) with its format (`txt`, `mkd`): a bulk or `=size\r\nfmt:text`.
pub fn verbatim(out: &mut impl Put, proto: Proto, format: &[u8; 3], text: &[u8]) {
    match proto {
        Proto::Resp2 => bulk(out, text),
        Proto::Resp3 => {
            line(out, b'=', count(text.len()) + 4);
            out.put(format);
            out.put(b":");
            out.put(text);
            out.put(b"\r\n");
        }
    }
}

/// A size as it travels. Sizes of things in memory stay far below 2⁶³.
#[inline]
fn count(size: usize) -> i64 {
    i64::try_from(size).expect("sizes in memory are below 2^63")
}

/// One byte of type, a number, and the line's end, in a single append.
#[inline]
fn line(out: &mut impl Put, kind: u8, value: i64) {
    // Most numbers have a few digits: with what is around them they are put together in a register.
    if let Ok(mut rest @ 0..100_000) = u32::try_from(value) {
        let (mut word, mut size) = (END, 2);
        loop {
            word = word << 8 | u64::from(b'0' | (rest % 10) as u8);
            rest /= 10;
            size += 1;
            if rest == 0 {
                return out.put_word((word << 8 | u64::from(kind)).to_le_bytes(), size + 1);
            }
        }
    }
    let mut text = [0; number::I64_TEXT_MAX + 3];
    let start = number::write_i64_before(&mut text, number::I64_TEXT_MAX + 1, value) - 1;
    text[start] = kind;
    text[number::I64_TEXT_MAX + 1] = b'\r';
    text[number::I64_TEXT_MAX + 2] = b'\n';
    out.put(&text[start..]);
}
