//! Numbers as Redis reads and prints them.
//!
//! Integers are read strictly: what is read prints back to the same bytes (`string2ll` in `src/util.c` of Redis 7.0).

/// Longest decimal form of an `i64`: a sign and 19 digits.
pub const I64_TEXT_MAX: usize = 20;

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

/// A short text in place: what the formatters return.
#[derive(Clone, Copy, Debug)]
pub struct Text<const SIZE: usize> {
    bytes: [u8; SIZE],
    start: usize,
}

impl<const SIZE: usize> Text<SIZE> {
    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// The decimal form of `value`.
pub fn format_i64(value: i64) -> Text<I64_TEXT_MAX> {
    let mut bytes = [0; I64_TEXT_MAX];
    let start = write_i64_before(&mut bytes, I64_TEXT_MAX, value);
    Text { bytes, start }
}

/// Writes the decimal form of `value` into `text` so that it ends before `end`; returns where it starts. `text` has room for
/// [`I64_TEXT_MAX`] bytes there.
#[inline]
pub(crate) fn write_i64_before(text: &mut [u8], end: usize, value: i64) -> usize {
    let mut at = end;
    let mut rest = value.unsigned_abs();
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
    if value < 0 {
        at -= 1;
        text[at] = b'-';
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

/// The form of a float as RESP carries it.
pub fn format_f64(value: f64) -> String {
    format!("{value}")
}
