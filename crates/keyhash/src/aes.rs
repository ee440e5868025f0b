//! AES-CMAC by the instructions that x86-64 processors have had since 2010, which hypervisors may hide.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_aeskeygenassist_si128, _mm_cvtsi128_si64,
    _mm_set_epi64x, _mm_shuffle_epi32, _mm_slli_si128, _mm_unpackhi_epi64, _mm_xor_si128,
};

/// AES-CMAC (RFC 4493) with a key of 128 bits, of which the first 64 bits are taken. To foresee any of them without the key is to
/// break AES, so it is as safe as a hash can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AesCmac {
    /// The key of each round.
    rounds: [__m128i; ROUND_COUNT + 1],
    /// What the last block is summed with besides the first round's key if it is whole: the RFC's K1.
    whole: __m128i,
    /// The same of a block that is filled up: K2.
    filled: __m128i,
}

const ROUND_COUNT: usize = 10;
const BLOCK_SIZE: usize = 16;

impl AesCmac {
    /// None without the instructions.
    #[expect(unsafe_code, reason = "the compiler does not know the processor")]
    pub(crate) fn new(key: [u64; 2]) -> Option<AesCmac> {
        // SAFETY: the processor has the instructions.
        is_x86_feature_detected!("aes").then(|| unsafe { AesCmac::of(key) })
    }

    #[inline]
    #[expect(unsafe_code, reason = "the compiler does not know the processor")]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        // SAFETY: there is one of these only where the processor has the instructions.
        unsafe { self.mac(bytes) }
    }

    #[target_feature(enable = "aes")]
    fn of([low, high]: [u64; 2]) -> AesCmac {
        let mut rounds = [block(u128::from(high) << 64 | u128::from(low)); ROUND_COUNT + 1];
        rounds[1] = next_round::<0x01>(rounds[0]);
        rounds[2] = next_round::<0x02>(rounds[1]);
        rounds[3] = next_round::<0x04>(rounds[2]);
        rounds[4] = next_round::<0x08>(rounds[3]);
        rounds[5] = next_round::<0x10>(rounds[4]);
        rounds[6] = next_round::<0x20>(rounds[5]);
        rounds[7] = next_round::<0x40>(rounds[6]);
        rounds[8] = next_round::<0x80>(rounds[7]);
        rounds[9] = next_round::<0x1b>(rounds[8]);
        rounds[10] = next_round::<0x36>(rounds[9]);
        let mut mac = AesCmac { rounds, whole: block(0), filled: block(0) };
        let zero = number(mac.encrypt(block(0))).swap_bytes();
        let [whole, filled] = [doubled(zero), doubled(doubled(zero))].map(|sub| block(sub.swap_bytes()));
        mac.whole = whole;
        mac.filled = filled;
        mac
    }

    #[target_feature(enable = "aes")]
    fn mac(&self, bytes: &[u8]) -> u64 {
        let last = match bytes.first_chunk() {
            None => _mm_xor_si128(block(filled(bytes)), self.filled),
            Some(block_alone) if bytes.len() == BLOCK_SIZE => {
                _mm_xor_si128(block(u128::from_le_bytes(*block_alone)), self.whole)
            }
            Some(_) => return self.mac_of_blocks(bytes),
        };
        _mm_cvtsi128_si64(self.encrypt(last)).cast_unsigned()
    }

    /// Of more than one block.
    #[inline(never)]
    #[target_feature(enable = "aes")]
    fn mac_of_blocks(&self, bytes: &[u8]) -> u64 {
        let (mut state, mut rest) = (block(0), bytes);
        while let Some((first, behind)) = rest.split_first_chunk()
            && !behind.is_empty()
        {
            state = self.encrypt(_mm_xor_si128(state, block(u128::from_le_bytes(*first))));
            rest = behind;
        }
        let (last, sub) = match rest.first_chunk() {
            Some(last) => (u128::from_le_bytes(*last), self.whole),
            None => (filled(rest), self.filled),
        };
        let last = _mm_xor_si128(_mm_xor_si128(state, block(last)), sub);
        _mm_cvtsi128_si64(self.encrypt(last)).cast_unsigned()
    }

    #[inline]
    #[target_feature(enable = "aes")]
    fn encrypt(&self, block: __m128i) -> __m128i {
        let [first, between @ .., last] = &self.rounds;
        let block =
            between.iter().fold(_mm_xor_si128(block, *first), |block, key| _mm_aesenc_si128(block, *key));
        _mm_aesenclast_si128(block, *last)
    }
}

/// Fewer than sixteen bytes, a bit behind them and zeros.
#[inline(always)]
fn filled(bytes: &[u8]) -> u128 {
    let size = bytes.len();
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            // What is in both is shifted out.
            let high = u64::from_le_bytes(*last) >> (8 * (16 - size) - 1) >> 1 | 0x80 << (8 * (size - 8));
            u128::from(high) << 64 | u128::from(u64::from_le_bytes(*first))
        }
        _ => u128::from(bytes.iter().rev().fold(0x80_u64, |word, &byte| word << 8 | u64::from(byte))),
    }
}

#[inline]
#[target_feature(enable = "aes")]
fn next_round<const CONSTANT: i32>(key: __m128i) -> __m128i {
    let mixed = _mm_shuffle_epi32::<0b11_11_11_11>(_mm_aeskeygenassist_si128::<CONSTANT>(key));
    let sum = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    let sum = _mm_xor_si128(sum, _mm_slli_si128::<8>(sum));
    _mm_xor_si128(sum, mixed)
}

/// Times x in the field of 2¹²⁸ elements.
fn doubled(element: u128) -> u128 {
    element << 1 ^ if element >> 127 == 1 { 0x87 } else { 0 }
}

#[inline]
#[target_feature(enable = "sse2")]
fn block(number: u128) -> __m128i {
    let halves = [(number & 0xffff_ffff_ffff_ffff) as u64, (number >> 64) as u64].map(u64::cast_signed);
    _mm_set_epi64x(halves[1], halves[0])
}

#[target_feature(enable = "sse2")]
fn number(block: __m128i) -> u128 {
    let halves =
        [block, _mm_unpackhi_epi64(block, block)].map(|half| _mm_cvtsi128_si64(half).cast_unsigned());
    u128::from(halves[1]) << 64 | u128::from(halves[0])
}

#[cfg(test)]
mod tests {
    use super::{AesCmac, BLOCK_SIZE, block, number};

    const KEY: [u64; 2] = [0xa6d2_ae28_1615_7e2b, 0x3c4f_cf09_8815_f7ab];
    const MESSAGE: [u128; 4] = [
        0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a,
        0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51,
        0x30c8_1c46_a35c_e411_e5fb_c119_1a0a_52ef,
        0xf69f_2445_df4f_9b17_ad2b_417b_e66c_3710,
    ];

    /// RFC 4493, section 4: so many bytes of the message, and the first half of their code.
    const CODES: [(usize, u64); 4] = [
        (0, 0xbb1d_6929_e959_3728),
        (16, 0x070a_16b4_6b4d_4144),
        (40, 0xdfa6_6747_de9a_e630),
        (64, 0x51f0_bebf_7e3b_9d92),
    ];

    #[test]
    fn equals_the_examples_of_its_rfc() {
        let Some(mac) = AesCmac::new(KEY) else { return };
        let message = MESSAGE.map(u128::to_be_bytes).concat();
        for (size, code) in CODES {
            assert_eq!(mac.hash(&message[..size]), code.swap_bytes(), "{size} bytes");
        }
    }

    /// Section 2.4, byte by byte.
    #[target_feature(enable = "aes")]
    fn by_steps(mac: &AesCmac, bytes: &[u8]) -> u64 {
        let is_whole = !bytes.is_empty() && bytes.len().is_multiple_of(BLOCK_SIZE);
        let mut padded = bytes.to_vec();
        if !is_whole {
            padded.push(0x80);
            padded.resize(padded.len().next_multiple_of(BLOCK_SIZE), 0);
        }
        let sub = number(if is_whole { mac.whole } else { mac.filled });
        let (blocks, _) = padded.as_chunks();
        let code = blocks.iter().enumerate().fold(0, |state, (at, next)| {
            let is_last = at + 1 == blocks.len();
            let sum = state ^ u128::from_le_bytes(*next) ^ if is_last { sub } else { 0 };
            number(mac.encrypt(block(sum)))
        });
        u64::from_le_bytes(*code.to_le_bytes().first_chunk().expect("it has sixteen bytes"))
    }

    #[test]
    #[expect(unsafe_code, reason = "the compiler does not know the processor")]
    fn is_its_definition_at_every_length() {
        let Some(mac) = AesCmac::new(KEY) else { return };
        let message = MESSAGE.map(u128::to_be_bytes).concat();
        for size in 0..=message.len() {
            let bytes = &message[..size];
            // SAFETY: there is a code, so there are the instructions.
            let code = unsafe { by_steps(&mac, bytes) };
            assert_eq!(mac.hash(bytes), code, "{size} bytes");
        }
    }
}
