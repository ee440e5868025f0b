//! Values whose bytes tell which writes made them.
//!
//! ```text
//! one write   8 hex digits: its number | 6 hex digits: size of the rest | the rest, which follows from the number
//! a value     the writes that made it, one after the other: SET begins it, APPEND adds to it
//! ```

use crate::object::Text;

const HEADER: usize = 14;

fn filler(number: u32) -> impl Iterator<Item = u8> {
    (0..26).map(|letter| b'a' + letter).cycle().skip(usize::try_from(number % 26).expect("a letter"))
}

/// The bytes that write `number` puts down; the rest behind the header has `size` bytes, below 16 MiB.
pub(crate) fn bytes(number: u32, size: usize) -> Vec<u8> {
    let mut bytes = format!("{number:08x}{size:06x}").into_bytes();
    assert!(bytes.len() == HEADER, "a write's rest is below 16 MiB");
    bytes.extend(filler(number).take(size));
    bytes
}

/// The writes in a value; none if a byte of it is not as written.
pub(crate) fn parse(mut value: &[u8]) -> Option<Text> {
    let mut text = Text::new();
    while !value.is_empty() {
        let (header, rest) = value.split_at_checked(HEADER)?;
        let header = std::str::from_utf8(header).ok()?;
        let number = u32::from_str_radix(&header[..8], 16).ok()?;
        let size = usize::from_str_radix(&header[8..], 16).ok()?;
        let (body, rest) = rest.split_at_checked(size)?;
        if !filler(number).zip(body).all(|(want, got)| want == *got) {
            return None;
        }
        text.push((number, size));
        value = rest;
    }
    Some(text)
}

/// Bytes of a value that these writes made.
pub(crate) fn size(text: &Text) -> usize {
    text.iter().map(|(_, size)| HEADER + size).sum()
}
