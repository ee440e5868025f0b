//! Names of scripts: SHA-1 of the source, as 40 hexadecimal digits.

use std::fmt;

use sha1::{Digest, Sha1};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The name of a script: 40 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha([u8; Sha::SIZE]);

impl Sha {
    /// Digits of a name.
    pub const SIZE: usize = 40;

    /// The name of this source.
    pub fn of(source: &[u8]) -> Sha {
        let hash = Sha1::digest(source);
        let mut digits = [0; Sha::SIZE];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(hash) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Sha(digits)
    }

    /// A name as a client writes it, in any case; none if it is not 40 hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Sha> {
        let mut digits: [u8; Sha::SIZE] = text.try_into().ok()?;
        digits.make_ascii_lowercase();
        digits.iter().all(u8::is_ascii_hexdigit).then_some(Sha(digits))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are ASCII")
    }
}

impl AsRef<[u8]> for Sha {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sha1_and_read_in_any_case() {
        let empty = Sha::of(b"");
        assert_eq!(empty.as_str(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(Sha::parse(b"DA39A3EE5E6B4B0D3255BFEF95601890AFD80709"), Some(empty));
        for text in [
            "",
            "da39",
            "da39a3ee5e6b4b0d3255bfef95601890afd8070g",
            "da39a3ee5e6b4b0d3255bfef95601890afd807090",
        ] {
            assert_eq!(Sha::parse(text.as_bytes()), None, "{text}");
        }
    }
}
