//! Numbers as C and Lua 5.1 read, write and convert them, and as scripts' arguments of commands are written.

use std::fmt::Write;

use wire::number::{format_f64, format_i64};

/// Significant digits of a number that Lua 5.1 makes a text of (`LUAI_NUMFMT`).
pub(crate) const LUA_PRECISION: usize = 14;

/// Below this, integers have at most 14 digits.
const SHORT_INTEGERS_END: f64 = 1e14;

/// As C's `%.{precision}g` writes it.
pub(crate) fn format(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return special(value).to_owned();
    }
    if precision == LUA_PRECISION && value.abs() < SHORT_INTEGERS_END && value.fract() == 0.0 && value != 0.0
    {
        return String::from_utf8_lossy(format_i64(to_i64(value)).as_bytes()).into_owned();
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (digits, exponent) = scientific.split_once('e').expect("an exponent is always written");
    let exponent: i32 = exponent.parse().expect("and is a number");
    match usize::try_from(exponent + 4) {
        // From 1e-4 on; the point comes behind the first digits, or between them.
        Ok(places) if places < precision + 4 => {
            without_zeros(&format!("{value:.*}", precision + 3 - places)).to_owned()
        }
        _ => {
            let mut text = without_zeros(digits).to_owned();
            let sign = if exponent < 0 { '-' } else { '+' };
            let _ = write!(text, "e{sign}{:02}", exponent.unsigned_abs());
            text
        }
    }
}

/// The number as `tostring` shows it.
pub(crate) fn display(value: f64) -> String {
    format(value, LUA_PRECISION)
}

/// The number as a command's argument: 17 significant digits.
pub(crate) fn argument(value: f64) -> Vec<u8> {
    if value.is_nan() { special(value).into() } else { format_f64(value).as_bytes().to_vec() }
}

/// C shows the sign of what is no number.
fn special(value: f64) -> &'static str {
    match (value.is_nan(), value.is_sign_negative()) {
        (true, true) => "-nan",
        (true, false) => "nan",
        (false, true) => "-inf",
        (false, false) => "inf",
    }
}

/// `digits` without the zeros that end a fraction.
fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// The number that begins `text`, as C's `strtod` reads it (but for blanks before it), and its size. None if there is none.
pub(crate) fn read(text: &[u8]) -> Option<(f64, usize)> {
    let at = |index: usize| text.get(index).copied().unwrap_or(0);
    let start = usize::from(matches!(at(0), b'+' | b'-'));
    let begins = |word: &str| {
        let end = start + word.len();
        text.get(start..end).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes())).then_some(end)
    };
    let digits = |from: usize, is_digit: fn(&u8) -> bool| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| is_digit(byte)).count()
    };
    let (value, end) = if let Some(end) = begins("infinity").or_else(|| begins("inf")) {
        (f64::INFINITY, end)
    } else if let Some(end) = begins("nan") {
        let tag = digits(end + 1, |byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let is_tagged = at(end) == b'(' && at(end + 1 + tag) == b')';
        (f64::NAN, if is_tagged { end + tag + 2 } else { end })
    } else {
        let is_hex = at(start) == b'0' && at(start + 1) | 0x20 == b'x';
        let hex_digit = |index: usize| at(index).is_ascii_hexdigit();
        let (from, is_digit, mark): (usize, fn(&u8) -> bool, u8) =
            if is_hex && (hex_digit(start + 2) || at(start + 2) == b'.' && hex_digit(start + 3)) {
                (start + 2, u8::is_ascii_hexdigit, b'p')
            } else {
                (start, u8::is_ascii_digit, b'e')
            };
        let whole = digits(from, is_digit);
        let mut end = from + whole;
        let mut fraction = 0;
        if at(end) == b'.' {
            fraction = digits(end + 1, is_digit);
            end += if whole + fraction > 0 { 1 + fraction } else { 0 };
        }
        if whole + fraction == 0 {
            return None;
        }
        let mantissa_end = end;
        if at(end) | 0x20 == mark {
            let sign = usize::from(matches!(at(end + 1), b'+' | b'-'));
            let size = digits(end + 1 + sign, u8::is_ascii_digit);
            end += if size > 0 { 1 + sign + size } else { 0 };
        }
        let value = if mark == b'p' {
            from_hex(&text[from..mantissa_end], text.get(mantissa_end + 1..end).unwrap_or_default())
        } else {
            std::str::from_utf8(&text[from..end]).expect("ASCII").parse().expect("a number in decimal")
        };
        (value, end)
    };
    Some((if at(0) == b'-' { -value } else { value }, end))
}

/// The number of hexadecimal digits, with or without a point, and a decimal exponent of two, rounded to even.
fn from_hex(digits: &[u8], exponent: &[u8]) -> f64 {
    /// Far beyond what any number of digits that fit memory can make up for.
    const EXPONENT_END: i64 = 1 << 50;
    let (is_down, exponent) = match exponent {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut scale: i64 = 0;
    for digit in exponent {
        scale = (scale * 10 + i64::from(digit - b'0')).min(EXPONENT_END);
    }
    let mut scale = if is_down { -scale } else { scale };
    let (mut mantissa, mut is_behind_point) = (0_u64, false);
    for byte in digits {
        let Some(digit) = char::from(*byte).to_digit(16) else {
            is_behind_point = true;
            continue;
        };
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | u64::from(digit);
            scale -= if is_behind_point { 4 } else { 0 };
        } else {
            // It only matters whether any of the further digits is there.
            mantissa |= u64::from(digit > 0);
            scale += if is_behind_point { 0 } else { 4 };
        }
    }
    if mantissa == 0 {
        return 0.0;
    }
    // The value is mantissa * 2^scale; its last bit that a float can keep is worth 2^unit.
    let top = scale + 63 - i64::from(mantissa.leading_zeros());
    let unit = (top - 52).max(-1074);
    let kept = match u32::try_from(unit - scale) {
        Ok(0) => mantissa,
        Ok(shift) => {
            let whole = mantissa.checked_shr(shift).unwrap_or(0);
            let rest = u128::from(mantissa) & ((1_u128 << shift.min(100)) - 1);
            let half = 1_u128 << (shift.min(100) - 1);
            whole + u64::from(rest > half || rest == half && whole & 1 == 1)
        }
        Err(_) if unit > scale => 0,
        // At most 53 bits are set, so nothing is lost.
        Err(_) => mantissa << (scale - unit),
    };
    // Rounding up to the next power of two carries into the exponent by itself.
    match u64::try_from(unit + 1074) {
        Ok(exponent) if exponent < 2046 => f64::from_bits((exponent << 52) + kept),
        _ => f64::INFINITY,
    }
}

/// The number that a whole text is, as Lua 5.1 takes it: blanks around it, and nothing behind a NUL.
pub(crate) fn of_text(text: &[u8]) -> Option<f64> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = crate::library::call::until_nul(text);
    let text = &text[text.iter().take_while(|byte| is_blank(byte)).count()..];
    let (value, size) = read(text)?;
    text[size..].iter().all(is_blank).then_some(value)
}

/// The first number that is too large for an `i64`: 2^63.
const I64_END: f64 = 9_223_372_036_854_775_808.0;

/// C's conversion to a signed integer on x86-64: the fraction is dropped, and what doesn't fit is the least one.
#[expect(clippy::cast_possible_truncation, reason = "what doesn't fit is dealt with")]
pub(crate) fn to_i64(value: f64) -> i64 {
    if (-I64_END..I64_END).contains(&value) { value as i64 } else { i64::MIN }
}

/// The same for an unsigned one: what is negative wraps round, what is too large is zero.
pub(crate) fn to_u64(value: f64) -> u64 {
    if value >= I64_END {
        to_i64(value - I64_END).cast_unsigned() ^ (1 << 63)
    } else {
        to_i64(value).cast_unsigned()
    }
}

/// The low bits, as C's conversion to `int` leaves them.
pub(crate) fn low_i32(value: i64) -> i32 {
    low_u32(value.cast_unsigned()).cast_signed()
}

/// The low bits of a larger number.
pub(crate) fn low_u32(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).expect("32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As redis-server 7.0.15 answers `tostring(…)`.
    #[test]
    fn numbers_show_14_digits() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.33333333333333"),
            (1e15, "1e+15"),
            (1e14, "1e+14"),
            (99_999_999_999_999.0, "99999999999999"),
            (999_999_999_999_999.0, "1e+15"),
            (123_456_789_012_345_678.0, "1.2345678901235e+17"),
            (1e100, "1e+100"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (0.000_123_456_789_012_345, "0.00012345678901234"),
            (-1.5, "-1.5"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::MIN_POSITIVE, "2.2250738585072e-308"),
        ] {
            assert_eq!(display(value), want);
        }
    }

    #[test]
    fn arguments_have_17_digits() {
        for (value, want) in
            [(10.0, "10"), (1e20, "1e+20"), (0.1, "0.10000000000000001"), (-f64::NAN, "-nan")]
        {
            assert_eq!(argument(value), want.as_bytes());
        }
    }

    #[test]
    fn answers_are_integers_of_64_bits() {
        for (value, want) in [
            (2.7, 2),
            (-2.7, -2),
            (1e30, i64::MIN),
            (f64::NAN, i64::MIN),
            (9.2e18, 9_200_000_000_000_000_000),
        ] {
            assert_eq!(to_i64(value), want);
        }
    }
}
