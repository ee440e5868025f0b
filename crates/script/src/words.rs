//! The words of a command, in one piece.

/// Bytes of a word that is short.
const SIZE: usize = 32;

/// Words, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    bytes: Vec<u8>,
    /// Where each ends; the next one begins there.
    ends: Vec<usize>,
}

impl Words {
    /// With room for so many, if they are short.
    pub(crate) fn with_room(count: usize) -> Words {
        Words { bytes: Vec::with_capacity(count * SIZE), ends: Vec::with_capacity(count) }
    }

    pub(crate) fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    /// Bytes of all of them.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Each in turn.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}
