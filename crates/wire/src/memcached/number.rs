//! Numbers as memcached reads them: C's `strtoul` and its relatives (`safe_strtoul` … in `util.c`).
//!
//! Blanks and a sign may stand in front, and whatever behind a blank. Numbers of 32 bits are cut off from 64, and minus is
//! taken modulo 2⁶⁴ as C does: `set k 4294967296 0 1` stores the flags 0.

/// C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A number's sign and magnitude; nothing without a digit, beyond 64 bits, or with something else than a blank behind it.
fn parse(text: &[u8]) -> Option<(bool, u64)> {
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut magnitude: u64 = 0;
    let mut count = 0;
    while let Some(digit @ b'0'..=b'9') = digits.get(count) {
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        count += 1;
    }
    // A zero ends a string in C.
    let ends = digits.get(count).is_none_or(|byte| is_blank(*byte) || *byte == 0);
    (count > 0 && ends).then_some((negative, magnitude))
}

/// A number of 64 bits: deltas, CAS, and values that are counted up and down. A large one may have no minus anywhere.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (negative, magnitude) = parse(text)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    (value < 1 << 63 || !text.contains(&b'-')).then_some(value)
}

/// Client flags and levels: the lower 32 bits.
pub(super) fn parse_u32(text: &[u8]) -> Option<u32> {
    let [a, b, c, d, ..] = parse_u64(text)?.to_le_bytes();
    Some(u32::from_le_bytes([a, b, c, d]))
}

/// Expiries and sizes: the lower 32 bits of a signed number.
pub(super) fn parse_i32(text: &[u8]) -> Option<i32> {
    let (negative, magnitude) = parse(text)?;
    let value =
        if negative { 0i64.checked_sub_unsigned(magnitude)? } else { i64::try_from(magnitude).ok()? };
    let [a, b, c, d, ..] = value.to_le_bytes();
    Some(i32::from_le_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_in_c() {
        for (text, u64_want, u32_want, i32_want) in [
            ("0", Some(0), Some(0), Some(0)),
            ("7", Some(7), Some(7), Some(7)),
            ("007", Some(7), Some(7), Some(7)),
            ("+7", Some(7), Some(7), Some(7)),
            ("\t7\r", Some(7), Some(7), Some(7)),
            ("7 junk", Some(7), Some(7), Some(7)),
            ("7\0junk", Some(7), Some(7), Some(7)),
            ("-7", None, None, Some(-7)),
            ("-0", Some(0), Some(0), Some(0)),
            ("", None, None, None),
            ("-", None, None, None),
            ("+-7", None, None, None),
            ("x", None, None, None),
            ("7x", None, None, None),
            ("1.5", None, None, None),
            ("2147483648", Some(1 << 31), Some(1 << 31), Some(i32::MIN)),
            ("4294967295", Some(u64::from(u32::MAX)), Some(u32::MAX), Some(-1)),
            ("4294967297", Some((1 << 32) + 1), Some(1), Some(1)),
            ("9223372036854775807", Some((1 << 63) - 1), Some(u32::MAX), Some(-1)),
            ("9223372036854775808", Some(1 << 63), Some(0), None),
            ("-9223372036854775808", None, None, Some(0)),
            ("18446744073709551615", Some(u64::MAX), Some(u32::MAX), None),
            ("18446744073709551615 -", None, None, None),
            ("18446744073709551616", None, None, None),
            ("-18446744073709551615", Some(1), Some(1), None),
            ("-18446744073709551616", None, None, None),
        ] {
            assert_eq!(parse_u64(text.as_bytes()), u64_want, "{text:?}");
            assert_eq!(parse_u32(text.as_bytes()), u32_want, "{text:?}");
            assert_eq!(parse_i32(text.as_bytes()), i32_want, "{text:?}");
        }
    }
}
