//! Numbers as Redis reads and prints them.
//!
//! Integers are read strictly: what is read prints back to the same bytes (`string2ll` in `src/util.c` of Redis 7.0).
//! Floats of RESP3 print as C's `%.17g`. INCRBYFLOAT counts in [`crate::extended`].

use std::fmt::Write;

/// Longest decimal form of an `i64`: a sign and 19 digits.
pub const I64_TEXT_MAX: usize = 20;

/// Longest decimal form of a `u64`: 20 digits.
pub const U64_TEXT_MAX: usize = 20;

/// Longest form of a float: `-1.2345678901234567e-308`.
pub const F64_TEXT_MAX: usize = 24;

/// A short text in place: what the formatters return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<const SIZE: usize> {
    bytes: [u8; SIZE],
    start: usize,
    end: usize,
}

impl<const SIZE: usize> Text<SIZE> {
    pub(crate) const EMPTY: Text<SIZE> = Text { bytes: [0; SIZE], start: 0, end: 0 };

    /// A text of at most `SIZE` bytes.
    pub(crate) fn of(text: &[u8]) -> Text<SIZE> {
        let mut whole = Text::EMPTY;
        whole.push(text);
        whole
    }

    /// Appends bytes for which there is room.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

impl<const SIZE: usize> Write for Text<SIZE> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.end + text.len();
        self.bytes.get_mut(self.end..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.end = end;
        Ok(())
    }
}

/// `"00" "01" … "99"`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut value = 0;
    let mut tens = b'0';
    while value < 100 {
        let mut ones = b'0';
        while ones <= b'9' {
            pairs[value] = [tens, ones];
            value += 1;
            ones += 1;
        }
        tens += 1;
    }
    pairs
};

/// The decimal form of `value`.
pub fn format_i64(value: i64) -> Text<I64_TEXT_MAX> {
    let mut bytes = [0; I64_TEXT_MAX];
    let start = write_i64_before(&mut bytes, I64_TEXT_MAX, value);
    Text { bytes, start, end: I64_TEXT_MAX }
}

/// The decimal form of `value`.
pub fn format_u64(value: u64) -> Text<U64_TEXT_MAX> {
    let mut bytes = [0; U64_TEXT_MAX];
    let start = write_u64_before(&mut bytes, U64_TEXT_MAX, value);
    Text { bytes, start, end: U64_TEXT_MAX }
}

/// Writes the decimal form of `value` into `text` so that it ends before `end`; returns where it starts. `text` has room for
/// [`I64_TEXT_MAX`] bytes there.
#[inline]
pub(crate) fn write_i64_before(text: &mut [u8], end: usize, value: i64) -> usize {
    let mut at = write_u64_before(text, end, value.unsigned_abs());
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    at
}

/// The same of a number without a sign, with room for [`U64_TEXT_MAX`] bytes.
#[inline]
pub(crate) fn write_u64_before(text: &mut [u8], end: usize, mut rest: u64) -> usize {
    let mut at = end;
    while rest >= 100 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&pair(rest % 100));
        rest /= 100;
    }
    let [tens, ones] = pair(rest);
    at -= 1;
    text[at] = ones;
    if rest >= 10 {
        at -= 1;
        text[at] = tens;
    }
    at
}

#[inline]
fn pair(value: u64) -> [u8; 2] {
    PAIRS[usize::try_from(value).expect("two digits fit any integer")]
}

/// Reads a whole text as an integer: an optional `-`, then digits without a leading zero, and nothing else.
/// `+1`, `01`, `-0`, `1 `, the empty text and numbers outside 64 bits are none.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    if text.len() > I64_TEXT_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (b'1'..=b'9') = *digits.first()? else { return None };
    let mut magnitude: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Reads a whole text as a float, as `string2d` of Redis does: `1`, `-.5`, `1e3`, `+inf`, `Infinity`. Not a number, blanks,
/// and values too large or too small for a float are none. (C also reads hexadecimal floats; this does not.)
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    let mantissa = text.split(['e', 'E']).next()?;
    let lost = value == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let overflown = value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit());
    (!value.is_nan() && !lost && !overflown).then_some(value)
}

/// The form of a float as RESP carries it: C's `%.17g`, and `inf`, `-inf`, `nan`.
pub fn format_f64(value: f64) -> Text<F64_TEXT_MAX> {
    let mut out = Text::EMPTY;
    let fits = if value.is_nan() {
        out.write_str("nan")
    } else if value.is_infinite() {
        out.write_str(if value > 0.0 { "inf" } else { "-inf" })
    } else {
        write_f64(&mut out, value)
    };
    fits.expect("F64_TEXT_MAX is the longest form of a float");
    out
}

/// `%.17g`: 17 significant digits, trailing zeros dropped, an exponent outside 10⁻⁴ … 10¹⁷.
fn write_f64(out: &mut Text<F64_TEXT_MAX>, value: f64) -> std::fmt::Result {
    // Rust rounds correctly and prints `-d.dddddddddddddddde-xxx`.
    let mut exact: Text<F64_TEXT_MAX> = Text::EMPTY;
    write!(exact, "{value:.16e}")?;
    let text = std::str::from_utf8(exact.as_bytes()).map_err(|_| std::fmt::Error)?;
    let (mantissa, exponent) = text.split_once('e').ok_or(std::fmt::Error)?;
    let exponent: i32 = exponent.parse().map_err(|_| std::fmt::Error)?;
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    let (whole, fraction) = mantissa.split_once('.').ok_or(std::fmt::Error)?;
    let fraction = fraction.trim_end_matches('0');
    out.write_str(sign)?;
    match usize::try_from(exponent) {
        Ok(places) if places < 17 => {
            // The point moves right, over zeros that were trimmed if need be.
            let moved = fraction.len().min(places);
            write!(out, "{whole}{}{:0<zeros$}", &fraction[..moved], "", zeros = places - moved)?;
            point(out, "", &fraction[moved..])
        }
        Err(_) if exponent >= -4 => {
            let zeros = usize::try_from(-exponent - 1).map_err(|_| std::fmt::Error)?;
            write!(out, "0.{:0<zeros$}{whole}{fraction}", "")
        }
        _ => {
            point(out, whole, fraction)?;
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

fn point(out: &mut Text<F64_TEXT_MAX>, whole: &str, fraction: &str) -> std::fmt::Result {
    out.write_str(whole)?;
    if fraction.is_empty() { Ok(()) } else { write!(out, ".{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_print_as_the_standard_library_prints_them() {
        for value in [0, 1, 9, 10, 99, 100, 101, 12345, i64::MAX, i64::MIN, -1, -10, -100] {
            assert_eq!(format_i64(value).as_bytes(), value.to_string().as_bytes());
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        for value in [0, 9, 10, 99, 100, u64::MAX] {
            assert_eq!(format_u64(value).as_bytes(), value.to_string().as_bytes());
        }
    }

    #[test]
    fn what_is_read_prints_back_to_the_same_bytes() {
        let bad =
            ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "1e3", "0x1", "00", "a", "1a", "\u{663}"];
        let too_large =
            ["9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999"];
        for text in bad.into_iter().chain(too_large) {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
    }

    #[test]
    fn floats_print_as_in_c() {
        let special = [
            (0.0, "0"),
            (-0.0, "-0"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, want) in special {
            assert_eq!(format_f64(value).as_bytes(), want.as_bytes());
        }
        for line in include_str!("../tests/vectors/double.txt").lines().filter(|line| !line.starts_with('#'))
        {
            let (bits, want) = line.split_once(' ').unwrap();
            let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
            assert_eq!(std::str::from_utf8(format_f64(value).as_bytes()), Ok(want));
        }
    }

    #[test]
    fn floats_read_as_in_redis() {
        let good = [("1", 1.0), ("-.5", -0.5), ("5.", 5.0), ("1e3", 1000.0), ("+2", 2.0), ("0e99999", 0.0)];
        for (text, want) in good {
            assert_eq!(parse_f64(text.as_bytes()), Some(want), "{text}");
        }
        assert_eq!(parse_f64(b"-Infinity"), Some(f64::NEG_INFINITY));
        for text in ["", " 1", "1 ", "nan", "1e400", "1e-400", "-1e999", "one", "1_000", "--1", "e5", "."] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
    }
}
