//! CRC16/XMODEM, by products of polynomials where the processor has an instruction for them.
//!
//! It is the remainder of the key, as a polynomial over bits, times x¹⁶, by P = x¹⁶ + x¹² + x⁵ + 1. It takes no table, which
//! would be out of the nearest cache when it is wanted.

/// CRC16/XMODEM (polynomial 0x1021, start 0, not reflected). `crc16(b"123456789") == 0x31C3`.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    if let Some(crc) = by_products::crc16(bytes) {
        return crc;
    }
    by_shifts(bytes)
}

/// Without the instruction. Over bits a sum is squared term by term, so P⁴ = x⁶⁴ + x⁴⁸ + x²⁰ + 1, and a remainder by that is a few shifts.
#[inline(never)]
fn by_shifts(bytes: &[u8]) -> u16 {
    let (front, words) = bytes.as_rchunks::<8>();
    let word =
        words.iter().fold(start_of(bytes, front.len()), |word, next| fold(word) ^ u64::from_be_bytes(*next));
    // The quotient of `word` times x¹⁶ by P is `word` / (1 + z), where z shifts by 4, 11 and 16, and 1 / (1 + z) is
    // (1 + z)(1 + z²)(1 + z⁴)…
    let quotient = word ^ word >> 4 ^ word >> 11 ^ word >> 16;
    let quotient = quotient ^ quotient >> 8 ^ quotient >> 22 ^ quotient >> 32;
    let quotient = quotient ^ quotient >> 16 ^ quotient >> 44;
    remainder(quotient ^ quotient >> 32)
}

/// The remainder of `word` times x⁶⁴ by P⁴, of 64 bits as well.
#[inline(always)]
fn fold(word: u64) -> u64 {
    let quotient = word ^ word >> 16 ^ word >> 44;
    let quotient = quotient ^ quotient >> 32;
    quotient ^ quotient << 20 ^ quotient << 48
}

/// What is left of a multiple of x¹⁶ when it is divided by P so many times.
#[inline(always)]
fn remainder(quotient: u64) -> u16 {
    let [.., high, low] = (quotient ^ quotient << 5 ^ quotient << 12).to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// The first `count` bytes, fewer than eight, as one number.
#[inline(always)]
fn start_of(bytes: &[u8], count: usize) -> u64 {
    match bytes.first_chunk() {
        Some(first) if count > 0 => u64::from_be_bytes(*first) >> (64 - 8 * count),
        _ => bytes[..count].iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[cfg(target_arch = "x86_64")]
mod by_products {
    use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_unpackhi_epi64};

    use super::{remainder, start_of};

    /// x⁸⁰ divided by P, without its highest term, x⁶⁴.
    const QUOTIENT: u64 = {
        let (mut quotient, mut rest) = (0, 1 << 16);
        let mut bit = 64;
        while bit > 0 {
            // The highest term of `rest`, x¹⁶, is taken out, and it goes up by one.
            let taken = rest & 1 << 16 != 0;
            quotient = quotient << 1 | taken as u64;
            rest = (if taken { rest ^ 0x1_1021 } else { rest }) << 1;
            bit -= 1;
        }
        quotient << 1 | (rest & 1 << 16 != 0) as u64
    };

    /// None without the instruction.
    #[inline]
    #[expect(unsafe_code, reason = "the compiler does not know the processor")]
    pub(super) fn crc16(bytes: &[u8]) -> Option<u16> {
        // SAFETY: the processor has the instruction.
        is_x86_feature_detected!("pclmulqdq").then(|| unsafe { multiplied(bytes) })
    }

    #[target_feature(enable = "pclmulqdq")]
    fn multiplied(bytes: &[u8]) -> u16 {
        match bytes {
            [a, b, c, d, e, f, g, h, ..] if bytes.len() <= 16 => {
                let first = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                let [.., a, b, c, d, e, f, g, h] = bytes else { unreachable!("it has eight") };
                let last = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                // What is in both is shifted out.
                let half = 4 * (16 - bytes.len());
                step(last ^ u64::from(step(first >> half >> half)) << 48)
            }
            _ => at_any_length(bytes),
        }
    }

    #[inline(never)]
    #[target_feature(enable = "pclmulqdq")]
    fn at_any_length(bytes: &[u8]) -> u16 {
        let (front, words) = bytes.as_rchunks::<8>();
        words.iter().fold(step(start_of(bytes, front.len())), |crc, word| {
            step(u64::from_be_bytes(*word) ^ u64::from(crc) << 48)
        })
    }

    /// The remainder of `word` times x¹⁶.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn step(word: u64) -> u16 {
        let [word_alone, quotient] = [word, QUOTIENT].map(|word| _mm_cvtsi64_si128(word.cast_signed()));
        let product = _mm_clmulepi64_si128::<0>(word_alone, quotient);
        let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(product, product)).cast_unsigned();
        remainder(word ^ high)
    }
}

#[cfg(test)]
mod tests {
    use super::{by_shifts, crc16};
    use crate::siphash::SipHash;

    /// The definition, bit by bit.
    fn by_bits(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            })
        })
    }

    #[test]
    fn is_its_definition_at_every_length_with_the_instruction_and_without() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let message: Vec<u8> = (0..28).flat_map(|n| SipHash::new([n, 0]).hash(b"").to_le_bytes()).collect();
        for size in 0..200 {
            for bytes in message.windows(size.max(1)).map(|window| &window[..size]) {
                assert_eq!(crc16(bytes), by_bits(bytes), "{bytes:?}");
                assert_eq!(by_shifts(bytes), by_bits(bytes), "{bytes:?}");
            }
        }
    }
}
