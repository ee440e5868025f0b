//! Keys in base64, as meta commands carry them (RFC 4648, section 4).
//!
//! Read as leniently as `base64.c` of memcached 1.6.18 reads: bytes outside of the alphabet are skipped, and a group with a
//! `=` is the last.

use super::KEY_SIZE_MAX;
use crate::number::Text;
use crate::resp::Word;

/// Most bytes that a key in base64 stands for: 62 groups of four letters fit [`KEY_SIZE_MAX`].
const DECODED_SIZE_MAX: usize = KEY_SIZE_MAX / 4 * 3;
const _: () = assert!(DECODED_SIZE_MAX <= crate::resp::WORD_SIZE_MAX, "a decoded key fits a word");
/// Most letters that a key can have.
const ENCODED_SIZE_MAX: usize = KEY_SIZE_MAX.div_ceil(3) * 4;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of a letter; zero for the padding, nothing for what is skipped.
fn value(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        b'=' => Some(0),
        _ => None,
    }
}

/// The bytes that a key of at most [`KEY_SIZE_MAX`] letters stands for; nothing if it is no base64.
pub(super) fn decode(text: &[u8]) -> Option<Word> {
    let mut out = Word::EMPTY;
    decode_into(text, |bytes| out.push(bytes))?;
    Some(out)
}

/// The bytes that letters stand for, however many; nothing if they are no base64.
pub(crate) fn decode_all(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    decode_into(text, |bytes| out.extend_from_slice(bytes))?;
    Some(out)
}

fn decode_into(text: &[u8], mut push: impl FnMut(&[u8])) -> Option<()> {
    let letters = || text.iter().filter_map(|letter| value(*letter).map(|value| (*letter, value)));
    let count = letters().count();
    if count == 0 || !count.is_multiple_of(4) {
        return None;
    }
    let mut letters = letters();
    while let (Some(a), Some(b), Some(c), Some(d)) =
        (letters.next(), letters.next(), letters.next(), letters.next())
    {
        let [_, bytes @ ..] =
            [a, b, c, d].iter().fold(0u32, |bits, (_, six)| bits << 6 | u32::from(*six)).to_be_bytes();
        match [a, b, c, d].iter().filter(|(letter, _)| *letter == b'=').count() {
            0 => push(&bytes),
            padding @ 1..=2 => {
                push(&bytes[..3 - padding]);
                break;
            }
            _ => return None,
        }
    }
    Some(())
}

/// A key as letters.
pub(super) fn encode(key: &[u8]) -> Text<ENCODED_SIZE_MAX> {
    let mut out = Text::EMPTY;
    letters(key).for_each(|letters| out.push(&letters));
    out
}

/// Any bytes as letters, four for each three bytes.
pub(crate) fn letters(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> + '_ {
    bytes.chunks(3).map(|group| {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let letter =
            |shift: u32| LETTERS[usize::try_from(bits >> shift & 63).expect("six bits fit any integer")];
        let mut letters = [letter(18), letter(12), letter(6), letter(0)];
        letters[group.len() + 1..].fill(b'=');
        letters
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<&[u8]>) {
        assert_eq!(decode(text.as_bytes()).as_ref().map(Text::as_bytes), want, "{text:?}");
    }

    #[test]
    fn keys_come_back_from_their_letters() {
        // RFC 4648, section 10.
        for (key, letters) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(key.as_bytes()).as_bytes(), letters.as_bytes());
            check(letters, Some(key.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        for size in 1..=DECODED_SIZE_MAX {
            let key = &all[256 - size..];
            let letters = encode(key);
            assert!(letters.as_bytes().len() <= KEY_SIZE_MAX);
            assert_eq!(decode(letters.as_bytes()).unwrap().as_bytes(), key);
        }
        assert_eq!(encode(&all[..KEY_SIZE_MAX]).as_bytes().len(), ENCODED_SIZE_MAX);
    }

    #[test]
    fn what_is_no_base64_is_read_as_memcached_reads_it() {
        check("", None);
        check("Zg=", None);
        check("Zg", None);
        check("!!!!", None);
        check("====", None);
        check("Z===", None);
        check("Z!g=\x01=", Some(b"f"));
        check("Zg==Zg==", Some(b"f"));
        check("Zg==!", Some(b"f"));
    }
}
