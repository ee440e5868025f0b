//! A string out of the shard, for work that takes steps or goes elsewhere: a short one is copied, a long one shared.

use store::{CHUNK_SIZE, Rope, Value};

pub(crate) enum Text {
    Bytes(Vec<u8>),
    Rope(Rope),
}

impl Default for Text {
    fn default() -> Text {
        Text::Bytes(Vec::new())
    }
}

impl Text {
    /// What is at a key: an integer is its digits, nothing the empty string.
    pub(crate) fn of(value: Option<Value<'_>>) -> Text {
        match value {
            None => Text::default(),
            Some(Value::Int(number)) => Text::Bytes(wire::number::format_i64(number).as_bytes().to_vec()),
            Some(Value::Bytes(bytes)) => Text::Bytes(bytes.to_vec()),
            Some(Value::Rope(rope)) => Text::Rope(rope.clone()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Text::Bytes(bytes) => bytes.len(),
            Text::Rope(rope) => rope.len(),
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn room(&self) -> usize {
        match self {
            Text::Bytes(bytes) => bytes.len(),
            Text::Rope(rope) => rope.room(),
        }
    }

    pub(crate) fn at(&self, index: usize) -> u8 {
        self.bytes_from(index)[0]
    }

    /// The bytes from `index`, which is below its length, to its end or to the end of a long one's chunk.
    pub(crate) fn bytes_from(&self, index: usize) -> &[u8] {
        match self {
            Text::Bytes(bytes) => &bytes[index..],
            Text::Rope(rope) => &rope.chunk(index / CHUNK_SIZE).as_ref().as_ref()[index % CHUNK_SIZE..],
        }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Text::Bytes(bytes) => Value::Bytes(bytes),
            Text::Rope(rope) => Value::Rope(rope),
        }
    }

    /// Bytes that were copied for it.
    pub(crate) fn copied_size(&self) -> usize {
        match self {
            Text::Bytes(bytes) => bytes.len(),
            Text::Rope(_) => 0,
        }
    }

    /// Drops it; a long one goes to `retire`.
    pub(crate) fn retire(self, retire: &mut impl FnMut(Rope)) {
        if let Text::Rope(rope) = self {
            retire(rope);
        }
    }
}
