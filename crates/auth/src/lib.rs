//! What clients prove instead of sending the password: pure functions over bytes, without clocks, chance or sockets.
//!
//! Redis' clients and those of memcached send the password itself; [`is_same`] compares it, and what is kept of a user's is its [`digest`].
//! Couchbase's prove by SCRAM that they know it ([`scram`]), Aerospike's send a hash of it ([`aerospike_credential`]).

#![forbid(unsafe_code)]

pub mod scram;

use std::fmt::Write;

use base64::Engine;
use base64::alphabet::BCRYPT;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Whether two secrets are the same, in a time that depends on their lengths alone.
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// What Redis keeps of a user's password: SHA-256 in 64 lower hexadecimal digits.
pub fn digest(password: &[u8]) -> String {
    Sha256::digest(password).iter().fold(String::with_capacity(64), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("memory can be written");
        digits
    })
}

/// The salt of every password, `7EqJtq98hPqEX7fNZaFWoO` in bcrypt's alphabet (`as_password.c` of Aerospike's C client).
const AEROSPIKE_SALT: [u8; 16] =
    [0xf4, 0x6b, 0x0b, 0xbe, 0xcf, 0xfe, 0x8d, 0x1b, 0x06, 0x67, 0xd8, 0x4f, 0x6d, 0xc1, 0xd8, 0xa9];
/// Doublings of the work, as there.
const AEROSPIKE_COST: u32 = 10;
/// bcrypt looks at no more of a password, the NUL behind it included.
const BCRYPT_SIZE_MAX: usize = 72;

/// What Aerospike's clients send for a password: `$2a$10$`, 22 digits of salt and 31 of hash. It costs tens of milliseconds.
pub fn aerospike_credential(password: &[u8]) -> String {
    let mut key = password.to_vec();
    key.push(0);
    key.truncate(BCRYPT_SIZE_MAX);
    let hash = bcrypt::bcrypt(AEROSPIKE_COST, AEROSPIKE_SALT, &key);
    let digits = GeneralPurpose::new(&BCRYPT, NO_PAD);
    // The last byte of 24 has never been kept.
    format!("$2a${AEROSPIKE_COST}${}{}", digits.encode(AEROSPIKE_SALT), digits.encode(&hash[..23]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Python's `bcrypt` has them.
    #[test]
    fn aerospike_s_credential_is_bcrypt_with_its_salt() {
        let long = [b'x'; 80];
        for (password, want) in [
            (&b"secret"[..], "$2a$10$7EqJtq98hPqEX7fNZaFWoOu7NRZ0i7m5NbgPBEsHTCoJzZDEKQRb."),
            (b"", "$2a$10$7EqJtq98hPqEX7fNZaFWoOLCkFexA7A9eoJ0Ew.mTDdk.E60D.9zS"),
            (&long, "$2a$10$7EqJtq98hPqEX7fNZaFWoOj4pCMKJ2fyV1yI8DmffjnyvUcJMifGW"),
        ] {
            assert_eq!(aerospike_credential(password), want);
        }
    }

    #[test]
    fn a_digest_is_what_redis_keeps() {
        assert_eq!(digest(b"passwd4"), "34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6");
    }

    #[test]
    fn secrets_are_the_same_or_not() {
        assert!(is_same(b"", b"") && is_same(b"pencil", b"pencil"));
        assert!(!is_same(b"pencil", b"pencik") && !is_same(b"pencil", b"pencil\0") && !is_same(b"", b"a"));
    }
}
