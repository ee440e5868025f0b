//! SipHash-1-3 under a secret.
//!
//! Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012; one round a word and three at the end, as Rust's
//! and Redis' tables do it (Redis: SipHash-1-2).

#[derive(Clone, Copy, Debug)]
pub(crate) struct SipHash {
    /// What each hash begins with.
    state: [u64; 4],
}

impl SipHash {
    pub(crate) const fn new([k0, k1]: [u64; 2]) -> SipHash {
        SipHash {
            state: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
        }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut v = self.state;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            absorb(&mut v, u64::from_le_bytes(*word));
        }
        absorb(&mut v, tail(bytes, rest) | (bytes.len() as u64) << 56);
        v[2] ^= 0xff;
        round(&mut v);
        round(&mut v);
        round(&mut v);
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

/// The bytes behind the last whole word, as the low bytes of a word. They are the end of the last eight bytes if there are
/// as many.
#[inline]
fn tail(bytes: &[u8], rest: &[u8]) -> u64 {
    match bytes.last_chunk() {
        _ if rest.is_empty() => 0,
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[inline(always)]
fn absorb(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    v[0] ^= word;
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::SipHash;
    #[expect(
        deprecated,
        reason = "the standard library's SipHasher13 is the independent second opinion"
    )]
    use std::hash::SipHasher;
    use std::hash::{BuildHasher, Hasher as _};

    /// The standard library's `DefaultHasher` is SipHash-1-3 with a zero key.
    #[test]
    fn equals_the_standard_library_at_every_length() {
        let bytes: Vec<u8> = (0..=255).collect();
        for size in 0..bytes.len() {
            let mut other =
                std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().build_hasher();
            other.write(&bytes[..size]);
            assert_eq!(SipHash::new([0, 0]).hash(&bytes[..size]), other.finish(), "{size} bytes");
        }
    }

    /// `SipHasher` is SipHash-2-4: a different function, so equal seeds must not give equal hashes.
    #[test]
    #[expect(deprecated, reason = "see the import")]
    fn depends_on_the_seed() {
        let hash = |seed| SipHash::new(seed).hash(b"key");
        assert_ne!(hash([1, 2]), hash([1, 3]));
        assert_ne!(hash([1, 2]), hash([2, 2]));
        let mut other = SipHasher::new_with_keys(1, 2);
        other.write(b"key");
        assert_ne!(hash([1, 2]), other.finish());
    }
}
