//! Sums of floats as INCRBYFLOAT computes them: in the 80-bit format of x87.
//!
//! Redis reads both numbers as C's `long double`, adds, and prints the sum with 17 digits behind the point, trailing
//! zeros dropped (`ld2string` in `src/util.c`). On x86-64 a `long double` has 64 bits of mantissa. Here the same steps are
//! done in integers, so that every machine leaves the bytes that Redis leaves on x86-64. (Redis on arm64 has 128-bit
//! floats and prints other last digits.) Exact decimal sums were tried first: nicer digits, but not Redis' bytes once a
//! number has more than about 19 digits.
//!
//! Differences: hexadecimal floats (`0x1p3`) are refused.

use std::cmp::Ordering;

/// A text of this size or more is no number (`MAX_LONG_DOUBLE_CHARS` of Redis). The work is bounded by its square: some
/// 150,000 word operations for the longest.
pub const TEXT_SIZE_MAX: usize = 5 * 1024;
/// Digits behind the point of a sum.
const FRACTION_DIGITS: u32 = 17;
const FRACTION: u128 = 10u128.pow(FRACTION_DIGITS);
/// Values of 2^16384 and more are infinite.
const BITS_ABOVE_POINT_MAX: i32 = 16384;
/// Values of 2^-16446 and less are zero: half of the smallest there is.
const BITS_BELOW_POINT_MAX: i32 = 16446;
/// No value with its first digit at a larger power of ten is finite, and none at a smaller one is not zero.
const POWERS_OF_TEN: std::ops::RangeInclusive<i64> = -4952..=4932;

/// Why there is no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatError {
    /// One of the texts is no number.
    Invalid,
    /// The sum is no finite number.
    Infinite,
}

impl FloatError {
    /// The error that Redis answers.
    pub const fn text(self) -> &'static str {
        match self {
            FloatError::Invalid => "ERR value is not a valid float",
            FloatError::Infinite => "ERR increment would produce NaN or Infinity",
        }
    }
}

/// The sum of two floats, in the form in which it is stored and answered: no exponent, at most 17 digits behind the
/// point, no trailing zeros, no negative zero. Up to 4,934 bytes for sums near 10⁴⁹³².
///
/// # Errors
/// A text that is no number, not a number, or has blanks; a sum that is infinite.
pub fn add(left: &[u8], right: &[u8]) -> Result<Vec<u8>, FloatError> {
    match (parse(left).ok_or(FloatError::Invalid)?, parse(right).ok_or(FloatError::Invalid)?) {
        (Parsed::Finite(left), Parsed::Finite(right)) => {
            let sum = sum(left, right);
            if sum.is_infinite() { Err(FloatError::Infinite) } else { Ok(print(sum)) }
        }
        _ => Err(FloatError::Infinite),
    }
}

enum Parsed {
    Finite(Extended),
    Infinite,
}

/// ± mantissa × 2^exponent. The mantissa's first bit is 1, or all of it is 0.
#[derive(Clone, Copy, Debug)]
struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

impl Extended {
    /// bits × 2^exponent, rounded to 64 bits, halves to even. `more` says that some bits below are not zero.
    fn round(negative: bool, bits: u128, exponent: i32, more: bool) -> Extended {
        if bits == 0 {
            return Extended { negative: false, mantissa: 0, exponent: 0 };
        }
        let spare = bits.leading_zeros();
        let bits = bits << spare;
        let (high, low) = halves(bits);
        let exponent = exponent + 64 - i32::try_from(spare).expect("at most 127");
        let half = 1 << 63;
        let up = match low.cmp(&half) {
            Ordering::Less => false,
            Ordering::Equal => more || high % 2 == 1,
            Ordering::Greater => true,
        };
        match high.checked_add(u64::from(up)) {
            Some(mantissa) => Extended { negative, mantissa, exponent },
            None => Extended { negative, mantissa: half, exponent: exponent + 1 },
        }
    }

    fn is_infinite(self) -> bool {
        self.mantissa != 0 && self.exponent + 64 > BITS_ABOVE_POINT_MAX
    }

    fn is_too_small(self) -> bool {
        let top = self.exponent + 64;
        top <= -BITS_BELOW_POINT_MAX || (top == -BITS_BELOW_POINT_MAX + 1 && self.mantissa == 1 << 63)
    }
}

fn halves(bits: u128) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bits.to_be_bytes();
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes([i, j, k, l, m, n, o, p]))
}

fn sum(left: Extended, right: Extended) -> Extended {
    let key = |value: &Extended| (value.mantissa != 0, value.exponent, value.mantissa);
    let (large, small) = if key(&left) < key(&right) { (right, left) } else { (left, right) };
    if small.mantissa == 0 {
        return large;
    }
    // The larger one with its first bit at 126 of 127, so that a carry fits; the smaller one aligned to it.
    let a = u128::from(large.mantissa) << 63;
    let b = u128::from(small.mantissa) << 63;
    let shift = u32::try_from(large.exponent - small.exponent).expect("the larger one comes first");
    let aligned = b.checked_shr(shift).unwrap_or(0);
    let lost = shift > 63 && aligned.checked_shl(shift) != Some(b);
    let bits = if large.negative == small.negative {
        a + aligned
    } else {
        // Bits that were lost are borrowed from: the true difference is a little less. Numbers so far apart cancel at
        // most one bit, so the borrow stays far below the last bit kept.
        a - aligned - u128::from(lost)
    };
    Extended::round(large.negative, bits, large.exponent - 63, lost)
}

/// The text as a float; nothing if it is none, or too large or small for one.
fn parse(text: &[u8]) -> Option<Parsed> {
    if text.len() >= TEXT_SIZE_MAX {
        return None;
    }
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
        return Some(Parsed::Infinite);
    }
    let (mantissa, power) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(index) => (&rest[..index], parse_power(&rest[index + 1..])?),
        None => (rest, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
        Some(index) => (&mantissa[..index], &mantissa[index + 1..]),
        None => (mantissa, &[][..]),
    };
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let digits = &digits[zeros..];
    if digits.is_empty() {
        return Some(Parsed::Finite(Extended { negative: false, mantissa: 0, exponent: 0 }));
    }
    let power = power - i64::try_from(fraction.len()).ok()?;
    if !POWERS_OF_TEN.contains(&(power + i64::try_from(digits.len()).ok()? - 1)) {
        return None;
    }
    let value = from_decimal(negative, digits, i32::try_from(power).ok()?);
    (!value.is_infinite() && !value.is_too_small()).then_some(Parsed::Finite(value))
}

/// What is behind the `e`. Anything above a million is as good as a million: out of range.
fn parse_power(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power =
        digits.iter().fold(0, |power: i64, byte| (power * 10 + i64::from(byte - b'0')).min(1_000_000));
    Some(if negative { -power } else { power })
}

/// digits × 10^power, rounded once.
fn from_decimal(negative: bool, digits: &[u8], power: i32) -> Extended {
    let mut whole = Whole::default();
    for nine in digits.chunks(9) {
        let value = nine.iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
        whole.multiply_add(power_of_ten(nine.len()), value);
    }
    let steps = usize::try_from(power.unsigned_abs()).expect("powers of ten are at most ±10,100");
    let mut more = false;
    let mut exponent = 0;
    if power >= 0 {
        whole.multiply_by_power_of_ten(steps);
    } else {
        // log2(10) < 3.322: so many zero bits below leave a quotient of more than 128 bits.
        let words = (steps * 3322 / 1000 + 129).div_ceil(32);
        whole.0.splice(0..0, std::iter::repeat_n(0, words));
        exponent = -i32::try_from(words * 32).expect("a few thousand bits");
        for nine in (0..steps).step_by(9) {
            more |= whole.divide(power_of_ten((steps - nine).min(9))) != 0;
        }
    }
    // The first four words hold at least 97 bits: enough to round, if it is known whether more follow.
    let below = whole.0.len().saturating_sub(4);
    more |= whole.0[..below].iter().any(|word| *word != 0);
    let bits = whole.0[below..].iter().rev().fold(0, |bits, word| bits << 32 | u128::from(*word));
    exponent += i32::try_from(below * 32).expect("a few thousand bits");
    Extended::round(negative, bits, exponent, more)
}

fn power_of_ten(power: usize) -> u32 {
    10u32.pow(u32::try_from(power).expect("at most nine"))
}

fn print(value: Extended) -> Vec<u8> {
    let mut text = Vec::new();
    if let Ok(shift) = u32::try_from(value.exponent) {
        let mut whole = Whole::from(u128::from(value.mantissa) << (shift % 32));
        whole.0.splice(0..0, std::iter::repeat_n(0, usize::try_from(shift / 32).expect("at most 512")));
        text = whole.into_decimal();
    } else {
        let scaled = u128::from(value.mantissa) * FRACTION;
        let shift = value.exponent.unsigned_abs();
        // Less than 2^121, so a shift of 128 leaves less than a half: zero.
        let mut rounded = scaled.checked_shr(shift).unwrap_or(0);
        if shift < 128 {
            let (rest, half) = (scaled & ((1 << shift) - 1), 1 << (shift - 1));
            rounded += u128::from(rest > half || (rest == half && rounded % 2 == 1));
        }
        text.extend_from_slice((rounded / FRACTION).to_string().as_bytes());
        let fraction = format!("{:017}", rounded % FRACTION);
        let fraction = fraction.trim_end_matches('0');
        if !fraction.is_empty() {
            text.push(b'.');
            text.extend_from_slice(fraction.as_bytes());
        }
    }
    if value.negative && text != b"0" {
        text.insert(0, b'-');
    }
    text
}

/// A whole number of any size, least significant word first, no zero words at the end.
#[derive(Debug, Default)]
struct Whole(Vec<u32>);

impl From<u128> for Whole {
    fn from(bits: u128) -> Whole {
        let mut whole = Whole(Vec::new());
        let mut rest = bits;
        while rest != 0 {
            let [a, b, c, d, ..] = rest.to_le_bytes();
            whole.0.push(u32::from_le_bytes([a, b, c, d]));
            rest >>= 32;
        }
        whole
    }
}

impl Whole {
    fn multiply_add(&mut self, factor: u32, add: u32) {
        let mut carry = add;
        for word in &mut self.0 {
            (*word, carry) = split(u64::from(*word) * u64::from(factor) + u64::from(carry));
        }
        if carry != 0 {
            self.0.push(carry);
        }
    }

    fn multiply_by_power_of_ten(&mut self, power: usize) {
        for nine in (0..power).step_by(9) {
            self.multiply_add(power_of_ten((power - nine).min(9)), 0);
        }
    }

    /// Divides in place; the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for word in self.0.iter_mut().rev() {
            let value = u64::from(rest) << 32 | u64::from(*word);
            (*word, _) = split(value / u64::from(divisor));
            (rest, _) = split(value % u64::from(divisor));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        rest
    }

    fn into_decimal(mut self) -> Vec<u8> {
        let mut nines = Vec::new();
        while !self.0.is_empty() {
            nines.push(self.divide(power_of_ten(9)));
        }
        let mut text = nines.pop().unwrap_or(0).to_string();
        for nine in nines.iter().rev() {
            text += &format!("{nine:09}");
        }
        text.into_bytes()
    }
}

/// Low and high word.
fn split(value: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: &str, right: &str, want: Result<&str, FloatError>) {
        let want = want.map(str::to_owned);
        for (left, right) in [(left, right), (right, left)] {
            let sum = add(left.as_bytes(), right.as_bytes());
            assert_eq!(sum.map(|text| String::from_utf8(text).unwrap()), want, "{left} + {right}");
        }
    }

    #[test]
    fn sums_are_those_of_redis() {
        for line in
            include_str!("../tests/vectors/incrbyfloat.txt").lines().filter(|line| !line.starts_with('#'))
        {
            match *line.split(' ').collect::<Vec<_>>() {
                [left, right, "invalid"] => check(left, right, Err(FloatError::Invalid)),
                [left, right, "infinite"] => check(left, right, Err(FloatError::Infinite)),
                [left, right, sum] => check(left, right, Ok(sum)),
                _ => panic!("two numbers and a sum: {line}"),
            }
        }
    }

    #[test]
    fn sums_of_whole_numbers_are_those_of_integers() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            i128::from(state.cast_signed() >> (1 + state % 60))
        };
        for _ in 0..2000 {
            let (left, right) = (next(), next());
            check(&left.to_string(), &right.to_string(), Ok(&(left + right).to_string()));
        }
    }

    #[test]
    fn any_texts_are_numbers_or_refused() {
        let mut state = 5u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state.to_be_bytes()[0]
        };
        for _ in 0..3000 {
            let text: Vec<u8> =
                (0..next() % 24).map(|_| b"0123456789012345.-+e "[usize::from(next() % 21)]).collect();
            crate::fuzz::floats(&text);
        }
    }

    #[test]
    fn long_texts_are_read_in_bounded_work() {
        check(&"1".repeat(TEXT_SIZE_MAX), "1", Err(FloatError::Invalid));
        let long = format!("0.{}", "3".repeat(TEXT_SIZE_MAX - 3));
        check(&long, "0", Ok("0.33333333333333333"));
        check("1", "2\u{661}", Err(FloatError::Invalid));
    }
}
