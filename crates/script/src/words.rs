//! The words of a command, in one piece.

/// Words, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    bytes: Vec<u8>,
    /// Where each ends; the next one begins there.
    ends: Vec<usize>,
}

impl Words {
    pub(crate) fn with_room(count: usize, size: usize) -> Words {
        Words { bytes: Vec::with_capacity(size), ends: Vec::with_capacity(count) }
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
