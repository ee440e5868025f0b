//! Looking for bytes, eight at a time (Mycroft, 1987): lines are searched more often than anything else is done with them.

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = ONES << 7;

/// Where `byte` is first.
#[inline]
pub(super) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    let pattern = ONES * u64::from(byte);
    first(bytes, |word| (word ^ pattern).wrapping_sub(ONES) & !(word ^ pattern), |other| other == byte)
}

/// Where the first byte is that is a blank or lower: what ends a plain word.
#[inline]
pub(super) fn find_blank(bytes: &[u8]) -> Option<usize> {
    const ABOVE: u64 = ONES * (b' ' as u64 + 1);
    first(bytes, |word| word.wrapping_sub(ABOVE) & !word, |byte| byte <= b' ')
}

/// The first byte that `is_found`. `marks` sets the highest bit of such bytes, and of others only behind them.
#[inline]
fn first(bytes: &[u8], marks: impl Fn(u64) -> u64, is_found: impl Fn(u8) -> bool) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = marks(u64::from_le_bytes(*word)) & HIGHS;
        if found != 0 {
            let bit = usize::try_from(found.trailing_zeros()).expect("a bit's number is below 64");
            return Some(index * 8 + bit / 8);
        }
    }
    rest.iter().position(|byte| is_found(*byte)).map(|index| words.len() * 8 + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_where_they_are_first() {
        for size in 0..20 {
            for at in 0..size {
                for (around, behind) in
                    [(b'x', b'x'), (0x80, 0x21), (0xff, 0x20), (b'\n' + 1, b'\n'), (0x8a, b'\t')]
                {
                    for wanted in [b'\n', 0, b' ', b'\r', 0x1f] {
                        let mut bytes = vec![around; size];
                        bytes[at..].fill(behind);
                        bytes[at] = wanted;
                        assert_eq!(find(&bytes, wanted), bytes.iter().position(|byte| *byte == wanted));
                        assert_eq!(find_blank(&bytes), bytes.iter().position(|byte| *byte <= b' '));
                    }
                }
            }
            assert_eq!((find(&vec![0xff; size], b'\n'), find_blank(&vec![0x21; size])), (None, None));
        }
    }
}
