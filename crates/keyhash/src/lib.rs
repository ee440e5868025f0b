//! What a key is found by: the CRC16 that its slot comes from, and its hash under a secret.
//!
//! Both are a tenth of what a GET takes without help, and processors have instructions for them: rounds of AES and products of
//! polynomials. Whether this one has them is asked once; without, the same CRC comes of shifts, and the hash is another.
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod aes;
mod crc16;
mod siphash;

#[cfg(target_arch = "x86_64")]
use aes::AesCmac;
pub use crc16::crc16;
use siphash::SipHash;

/// Most bytes of a key that AES is used for: two blocks. Each waits for all rounds of the one before it, where SipHash has one round
/// for eight bytes.
const AES_SIZE_MAX: usize = 32;

/// Turns key bytes into 64 bits that nobody without the seed can foresee: keys chosen by a client cannot be made to meet in one
/// bucket.
///
/// Which function it is depends on the processor and on the key's length: AES-CMAC up to 32 bytes where there are instructions for
/// it, SipHash-1-3 otherwise. So hashes are worth nothing outside the process.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    sip: SipHash,
    #[cfg(target_arch = "x86_64")]
    aes: Option<AesCmac>,
}

impl Hasher {
    /// With a secret of 128 bits.
    pub fn new(seed: [u64; 2]) -> Hasher {
        let sip = SipHash::new(seed);
        Hasher {
            sip,
            // A secret of its own, which does not tell the other.
            #[cfg(target_arch = "x86_64")]
            aes: AesCmac::new([sip.hash(b"AES-CMAC, 0"), sip.hash(b"AES-CMAC, 1")]),
        }
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if bytes.len() <= AES_SIZE_MAX
            && let Some(aes) = &self.aes
        {
            return aes.hash(bytes);
        }
        self.sip.hash(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Hasher;

    /// Keys of every length that the two functions share, each a byte away from others.
    fn keys() -> Vec<Vec<u8>> {
        (0..50)
            .flat_map(|size| {
                (0..size.max(1)).flat_map(move |at| {
                    (0..4).map(move |byte| {
                        let mut key = vec![0; size];
                        if let Some(place) = key.get_mut(at) {
                            *place = byte;
                        }
                        key
                    })
                })
            })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    #[test]
    fn keys_differ_in_both_halves_of_their_hashes() {
        let hasher = Hasher::new([1, 2]);
        let keys = keys();
        let hashes: BTreeSet<u64> = keys.iter().map(|key| hasher.hash(key)).collect();
        assert_eq!(hashes.len(), keys.len());
        let halves = |shift: u32| {
            hashes.iter().map(|hash| (hash >> shift & 0xffff_ffff) as u32).collect::<BTreeSet<u32>>().len()
        };
        // Of 3,700 numbers of 32 bits two are equal once in 600 times.
        assert!(halves(0) >= keys.len() - 1 && halves(32) >= keys.len() - 1);
    }

    #[test]
    fn each_bit_of_the_seed_decides() {
        for size in [5, 16, 30, 40] {
            let key = vec![7; size];
            let hashes: BTreeSet<u64> = (0..128)
                .map(|bit| 1_u128 << bit)
                .chain([0])
                .map(|seed| {
                    Hasher::new([(seed & 0xffff_ffff_ffff_ffff) as u64, (seed >> 64) as u64]).hash(&key)
                })
                .collect();
            assert_eq!(hashes.len(), 129, "{size} bytes");
        }
    }
}
