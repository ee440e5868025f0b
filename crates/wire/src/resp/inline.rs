//! Inline commands: a line of words, as typed into telnet.
//!
//! Words are separated by blanks; `"…"` takes `\n \r \t \b \a \xHH \"`, `'…'` takes only `\'`. A closing quote must
//! be followed by a blank or the end. Follows `sdssplitargs` of Redis 7.0 (`src/sds.c`), except that NUL is a byte
//! like others.

use super::{
    ArgRanges, Decoder, LINE_SIZE_MAX, Limits, ProtocolError, Step, UNAUTHENTICATED_ARGS_MAX,
    UNAUTHENTICATED_BULK_MAX, find, index32, is_http,
};
use crate::stranger::is_binary;

impl Decoder {
    pub(super) fn inline(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        let from = self.scanned as usize;
        if is_binary(input[0]) {
            return Step::Malformed(ProtocolError::OtherProtocol);
        }
        let Some(found) = find(&input[from..], b'\n') else {
            self.scanned = index32(input.len());
            let full = input.len() >= LINE_SIZE_MAX;
            return if full { Step::Malformed(ProtocolError::InlineTooLong) } else { Step::Need };
        };
        let end = from + found;
        let line = &input[..end];
        match split(line.strip_suffix(b"\r").unwrap_or(line), args, limits) {
            Ok(()) => Step::Command { size: end + 1 },
            Err(error) => Step::Malformed(error),
        }
    }
}

/// Splits a line into `args`, unquoted.
fn split(line: &[u8], args: &mut ArgRanges, limits: &Limits) -> Result<(), ProtocolError> {
    args.clear(true);
    let mut rest = line.trim_ascii_start_c();
    while !rest.is_empty() {
        let start = index32(args.scratch.len());
        rest = word(rest, &mut args.scratch)?.trim_ascii_start_c();
        let end = index32(args.scratch.len());
        args.ranges.push((start, end));
        if !limits.authenticated {
            if args.ranges.len() > UNAUTHENTICATED_ARGS_MAX as usize {
                return Err(ProtocolError::UnauthenticatedMultibulkLength);
            }
            if u64::from(end - start) > UNAUTHENTICATED_BULK_MAX {
                return Err(ProtocolError::UnauthenticatedBulkLength);
            }
        }
    }
    if !args.is_empty() && is_http(args.get(0, &[])) {
        return Err(ProtocolError::SecurityAttack);
    }
    Ok(())
}

/// The words of a line, unquoted; none if a quote is not closed.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start_c();
    while !rest.is_empty() {
        let mut out = Vec::new();
        rest = word(rest, &mut out).ok()?.trim_ascii_start_c();
        words.push(out);
    }
    Some(words)
}

/// Appends the first word of `rest` to `out` and returns what is behind it. A word may be partly quoted (`a"b c"`);
/// a closing quote ends it.
fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            // Only these end a word; vertical tab and form feed separate words but do not end one (as in sdssplitargs).
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', tail @ ..] => return closed(double_quoted(tail, out)?),
            [b'\'', tail @ ..] => return closed(single_quoted(tail, out)?),
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// What is behind a closing quote must be a blank or nothing.
fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_blank(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) * 16 + hex(*low));
                tail
            }
            [b'\\', byte, tail @ ..] => {
                out.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        };
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => {
                out.push(b'\'');
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        };
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// C's `isspace`: Rust's ASCII white space and the vertical tab.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

trait TrimBlanks {
    fn trim_ascii_start_c(&self) -> &Self;
}

impl TrimBlanks for [u8] {
    fn trim_ascii_start_c(&self) -> &[u8] {
        let blanks = self.iter().take_while(|byte| is_blank(**byte)).count();
        &self[blanks..]
    }
}
