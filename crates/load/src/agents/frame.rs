//! What is said after the handshake: frames, each of which only the other side can have made as its next one.
//!
//! ```text
//! size u32 │ tag 32 bytes │ body, `size` bytes of JSON
//! tag = HMAC-SHA256(key of this direction, number u64 ‖ size ‖ body)      numbers from 0, in network order
//! ```
//! The number is counted on both sides and not sent: a frame that is repeated, left out or out of order has a wrong tag.
//! Sizes are looked at before the bytes come, and memory follows bytes that have come.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Breach;
use super::handshake::{Key, PROOF_SIZE};

/// Of a body that an agent takes: an order is a few kilobytes, and lists of sizes and cpus are bounded.
pub const ORDER_SIZE_MAX: u32 = 1 << 18;
/// Of a body that a coordinator takes: a second of sixteen operations with full histograms, or a machine with many links.
pub const REPORT_SIZE_MAX: u32 = 1 << 25;
const SIZE_SIZE: usize = size_of::<u32>();
const HEAD_SIZE: usize = SIZE_SIZE + PROOF_SIZE;

fn mac(key: &[u8; PROOF_SIZE], number: u64, size: [u8; SIZE_SIZE], body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(&number.to_be_bytes());
    // A body of another size is another body, so this one adds nothing; it is part of the protocol.
    mac.update(&size);
    mac.update(body);
    mac
}

/// Makes frames.
pub struct Sealer {
    key: [u8; PROOF_SIZE],
    number: u64,
}

impl Sealer {
    /// From the first frame on.
    pub fn new(key: Key) -> Sealer {
        Sealer { key: key.0, number: 0 }
    }

    /// The bytes to be sent. None: a body this large can't be one.
    pub fn seal(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let size = u32::try_from(body.len()).ok()?.to_be_bytes();
        let tag = mac(&self.key, self.number, size, body).finalize().into_bytes();
        self.number += 1;
        Some([&size[..], &tag[..], body].concat())
    }
}

/// Takes frames.
pub struct Opener {
    key: [u8; PROOF_SIZE],
    number: u64,
    size_max: u32,
    bytes: Vec<u8>,
}

impl Opener {
    /// From the first frame on, with bodies up to that size.
    pub fn new(key: Key, size_max: u32) -> Opener {
        Opener { key: key.0, number: 0, size_max, bytes: Vec::new() }
    }

    /// Bytes have come. Call [`Opener::next`] until there is none, before the next ones.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The body of the next frame, if all of it has come.
    ///
    /// # Errors
    /// It is not the other side's next one. Nothing after it can be believed: the connection is to be closed.
    #[expect(clippy::should_implement_trait, reason = "it fails for good, which no iterator does")]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Breach> {
        let Some((size_bytes, rest)) = self.bytes.split_first_chunk::<SIZE_SIZE>() else { return Ok(None) };
        let size = u32::from_be_bytes(*size_bytes);
        if size > self.size_max {
            return Err(Breach::Size { size, most: self.size_max });
        }
        let size_count = usize::try_from(size).expect("32 bits");
        let Some((tag, rest)) = rest.split_first_chunk::<PROOF_SIZE>() else { return Ok(None) };
        let Some(body) = rest.get(..size_count) else { return Ok(None) };
        mac(&self.key, self.number, *size_bytes, body).verify_slice(tag).map_err(|_| Breach::Tag)?;
        let body = body.to_vec();
        self.number += 1;
        self.bytes.drain(..HEAD_SIZE + size_count);
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(size_max: u32) -> (Sealer, Opener) {
        (Sealer::new(Key([7; PROOF_SIZE])), Opener::new(Key([7; PROOF_SIZE]), size_max))
    }

    fn opened(opener: &mut Opener, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Breach> {
        opener.feed(bytes);
        std::iter::from_fn(|| opener.next().transpose()).collect()
    }

    #[test]
    fn frames_come_as_they_were_sent_wherever_they_are_cut() {
        let (mut sealer, _) = pair(100);
        let bytes = [&b"one"[..], b"", b"three"].map(|body| sealer.seal(body).unwrap()).concat();
        for cut in 0..=bytes.len() {
            let (_, mut opener) = pair(100);
            let mut bodies = opened(&mut opener, &bytes[..cut]).unwrap();
            bodies.extend(opened(&mut opener, &bytes[cut..]).unwrap());
            assert_eq!(bodies, [&b"one"[..], b"", b"three"], "cut at {cut}");
        }
    }

    #[test]
    fn a_frame_is_good_once_in_its_place_and_whole() {
        let (mut sealer, _) = pair(100);
        let [one, two] = [&b"one"[..], b"two"].map(|body| sealer.seal(body).unwrap());
        for (name, bytes) in [
            ("repeated", [&one[..], &one].concat()),
            ("left out", two.clone()),
            ("out of order", [&two[..], &one].concat()),
        ] {
            assert_eq!(opened(&mut pair(100).1, &bytes), Err(Breach::Tag), "{name}");
        }
        // Whoever changes the size below the limit waits for bytes that don't come, or has a wrong tag.
        for at in 0..one.len() {
            let mut changed = one.clone();
            changed[at] ^= 1;
            let fate = opened(&mut pair(100).1, &changed);
            assert!(!matches!(&fate, Ok(bodies) if !bodies.is_empty()), "byte {at}: {fate:?}");
        }
        // An agent's own frame, sent back to it.
        let mut other = Opener::new(Key([8; PROOF_SIZE]), 100);
        assert_eq!(opened(&mut other, &one), Err(Breach::Tag));
    }

    #[test]
    fn a_size_is_looked_at_before_its_bytes_come() {
        let (mut sealer, mut opener) = pair(3);
        let four = sealer.seal(b"four").unwrap();
        assert_eq!(opened(&mut opener, &four[..4]), Err(Breach::Size { size: 4, most: 3 }));
        let mut opener = pair(u32::MAX).1;
        assert_eq!(opened(&mut opener, &[0xff; 40]), Ok(vec![]));
        assert!(opener.bytes.capacity() < 1000, "memory follows bytes that have come");
    }
}
