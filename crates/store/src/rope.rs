//! Long strings: counted, immutable chunks that may be read on any thread while the shard goes on.
//!
//! ```text
//! Rope ── Arc<Root> ── nodes[0] ── Arc<Node> ── chunks[0] ── Arc<Chunk>   64 KiB, all but the last one full
//!                │                         └──── chunks[255]
//!                └──── nodes[1] …          256 chunks a node: 2 KiB of pointers
//! ```
//! All chunks but the last are full, so an offset names its chunk by division. A clone is one atomic increment. A
//! writer copies what it touches and somebody else still holds: one root, one node, one chunk. Nothing here may be
//! dropped in one go when it is long: the last holder hands it to a [`Graveyard`].

use crate::budget::Budget;
use crate::pile::Pile;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a chunk; every chunk of a rope but the last holds exactly that many.
pub const CHUNK_SIZE: usize = 64 << 10;
/// Chunks of a node.
const NODE_COUNT: usize = 256;
/// The longest rope, 8 GiB: a root then holds 512 nodes in 4 KiB. Whoever builds longer ones breaks a promise; a
/// protocol's own limit (512 MB in Redis) is refused long before.
pub const ROPE_SIZE_MAX: usize = 512 * NODE_COUNT * CHUNK_SIZE;

/// Up to 64 KiB of a long string. `Arc<Chunk>` coerces to `Arc<dyn AsRef<[u8]> + Send + Sync>`.
#[derive(Clone, Debug, Default)]
pub struct Chunk(Vec<u8>);

impl Chunk {
    fn room(&self) -> u64 {
        block_size(self.0.len()) as u64
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    chunks: Vec<Arc<Chunk>>,
}

#[derive(Clone, Debug, Default)]
struct Root {
    size: usize,
    nodes: Vec<Arc<Node>>,
}

/// A long string. Cloning shares it; see the module's head for what it costs and how it ends.
#[derive(Clone, Debug, Default)]
pub struct Rope(Arc<Root>);

impl Rope {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.size
    }

    /// Bytes of memory that its chunks take: each is a block of the allocator, which has four sizes of them between two powers of two.
    #[inline(never)]
    pub fn room(&self) -> usize {
        self.0.room()
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many chunks it has.
    pub fn chunk_count(&self) -> usize {
        self.len().div_ceil(CHUNK_SIZE)
    }

    /// The chunk with this index, below `chunk_count`.
    pub fn chunk(&self, index: usize) -> &Arc<Chunk> {
        &self.0.nodes[index / NODE_COUNT].chunks[index % NODE_COUNT]
    }

    /// The chunk that holds the byte at `offset`, and the range in it from there to its end; none at or past the end.
    pub fn cursor(&self, offset: usize) -> Option<(Arc<Chunk>, Range<usize>)> {
        if offset >= self.len() {
            return None;
        }
        let chunk = self.chunk(offset / CHUNK_SIZE);
        Some((Arc::clone(chunk), offset % CHUNK_SIZE..chunk.0.len()))
    }

    /// Copies bytes from `offset` on into `out`; both ends lie within the rope.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done;
            let bytes = &self.chunk(at / CHUNK_SIZE).0[at % CHUNK_SIZE..];
            let size = bytes.len().min(out.len() - done);
            out[done..done + size].copy_from_slice(&bytes[..size]);
            done += size;
        }
    }

    /// Writes `bytes` at `offset`, padding with zeros between the end and `offset`. Copies at most the chunks it
    /// touches and somebody else holds; padding shares one chunk of zeros (`zeros`) however far it goes.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8], zeros: &Zeros) {
        assert!(offset + bytes.len() <= ROPE_SIZE_MAX, "a rope stays below its limit");
        let root = Arc::make_mut(&mut self.0);
        if root.size < offset {
            root.pad(offset, zeros);
        }
        root.write(offset, bytes);
    }
}

impl Root {
    /// See [`Rope::room`].
    fn room(&self) -> usize {
        let last_size = self.size % CHUNK_SIZE;
        self.size - last_size + block_size(last_size)
    }

    /// Writes bytes from `at` on, which is at most the length so far.
    fn write(&mut self, mut at: usize, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (first, tail) = rest.split_at(rest.len().min(CHUNK_SIZE - at % CHUNK_SIZE));
            self.write_chunk(at, first);
            at += first.len();
            rest = tail;
        }
        self.size = self.size.max(at);
    }

    /// Makes the string `size` bytes long with zeros at its end: fills the last chunk, then shares whole nodes and
    /// whole chunks of zeros, then begins the last chunk.
    fn pad(&mut self, size: usize, zeros: &Zeros) {
        let within = (size - self.size).min(self.size.next_multiple_of(CHUNK_SIZE) - self.size);
        if within > 0 {
            let at = self.size;
            self.write_chunk(at, &zeros.chunk.0[..within]);
            self.size += within;
        }
        while size - self.size >= CHUNK_SIZE {
            let node_begins = self.size.is_multiple_of(NODE_COUNT * CHUNK_SIZE);
            if node_begins && size - self.size >= NODE_COUNT * CHUNK_SIZE {
                self.nodes.push(Arc::clone(&zeros.node));
                self.size += NODE_COUNT * CHUNK_SIZE;
            } else {
                self.push_chunk(Arc::clone(&zeros.chunk));
                self.size += CHUNK_SIZE;
            }
        }
        let rest = size - self.size;
        if rest > 0 {
            let at = self.size;
            self.write_chunk(at, &zeros.chunk.0[..rest]);
            self.size += rest;
        }
    }

    /// Writes bytes that lie within one chunk, at most one byte past its present end.
    fn write_chunk(&mut self, at: usize, bytes: &[u8]) {
        let index = at / CHUNK_SIZE;
        let offset = at % CHUNK_SIZE;
        if self.nodes.get(index / NODE_COUNT).is_none_or(|node| node.chunks.len() == index % NODE_COUNT) {
            self.push_chunk(Arc::default());
        }
        let node = Arc::make_mut(&mut self.nodes[index / NODE_COUNT]);
        let chunk = &mut Arc::make_mut(&mut node.chunks[index % NODE_COUNT]).0;
        let over = bytes.len().min(chunk.len() - offset);
        chunk[offset..offset + over].copy_from_slice(&bytes[..over]);
        let size = chunk.len() + bytes.len() - over;
        if size > chunk.capacity() {
            // Doubling as a vector does, but never past a chunk.
            let room = size.max(2 * chunk.capacity()).min(CHUNK_SIZE);
            chunk.reserve_exact(room - chunk.len());
        }
        chunk.extend_from_slice(&bytes[over..]);
    }

    fn push_chunk(&mut self, chunk: Arc<Chunk>) {
        match self.nodes.last_mut() {
            Some(node) if node.chunks.len() < NODE_COUNT => Arc::make_mut(node).chunks.push(chunk),
            _ => {
                // Most ropes have a few.
                self.nodes.push(Arc::new(Node { chunks: vec![chunk] }));
            }
        }
    }
}

/// A chunk and a node of zeros that every padding shares: SETRANGE at 512 MB costs 32 pointers, not 512 MB.
#[derive(Debug)]
pub(crate) struct Zeros {
    chunk: Arc<Chunk>,
    node: Arc<Node>,
}

impl Default for Zeros {
    fn default() -> Zeros {
        let chunk = Arc::new(Chunk(vec![0; CHUNK_SIZE]));
        let node = Arc::new(Node { chunks: vec![Arc::clone(&chunk); NODE_COUNT] });
        Zeros { chunk, node }
    }
}

/// Gathers a long string as its bytes arrive. Memory follows the bytes that came, never a length that was announced.
#[derive(Debug, Default)]
pub struct RopeBuilder {
    root: Root,
}

impl RopeBuilder {
    /// An empty builder.
    pub fn new() -> RopeBuilder {
        RopeBuilder::default()
    }

    /// Appends bytes. The string stays below [`ROPE_SIZE_MAX`].
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(self.root.size + bytes.len() <= ROPE_SIZE_MAX, "a rope stays below its limit");
        let end = self.root.size;
        self.root.write(end, bytes);
    }

    /// A string like `rope`, to be written to. It shares the rope's chunks and copies those that are written to.
    pub fn of(rope: &Rope) -> RopeBuilder {
        RopeBuilder { root: (*rope.0).clone() }
    }

    /// Makes the string `size` bytes long with zeros at its end, if it is shorter. Whole chunks of zeros are one that is shared.
    pub fn pad(&mut self, size: usize) {
        assert!(size <= ROPE_SIZE_MAX, "a rope stays below its limit");
        match size.checked_sub(self.root.size) {
            None => {}
            Some(few @ ..CHUNK_SIZE) => self.push(&[0; CHUNK_SIZE][..few]),
            Some(_) => self.root.pad(size, &Zeros::default()),
        }
    }

    /// The bytes from `offset`, which is below the length so far, to the end of their chunk.
    pub fn bytes_from(&self, offset: usize) -> &[u8] {
        let index = offset / CHUNK_SIZE;
        &self.root.nodes[index / NODE_COUNT].chunks[index % NODE_COUNT].0[offset % CHUNK_SIZE..]
    }

    /// Writes bytes at `offset`, which is at most the length so far, and lengthens the string if they reach further.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.root.size, "a builder has no gaps");
        assert!(offset + bytes.len() <= ROPE_SIZE_MAX, "a rope stays below its limit");
        self.root.write(offset, bytes);
    }

    /// Bytes gathered so far.
    pub fn len(&self) -> usize {
        self.root.size
    }

    /// Whether nothing came yet.
    pub fn is_empty(&self) -> bool {
        self.root.size == 0
    }

    /// The string. What its last chunk had room for besides is given back.
    pub fn finish(mut self) -> Rope {
        let last = self.root.nodes.last_mut().and_then(|node| Arc::get_mut(node)?.chunks.last_mut());
        if let Some(Chunk(bytes)) = last.and_then(Arc::get_mut)
            && block_size(bytes.len()) < block_size(bytes.capacity())
        {
            // The allocator leaves a block that shrinks where it is, and as large, if it is half used.
            *bytes = bytes.as_slice().to_vec();
        }
        Rope(Arc::new(self.root))
    }
}

/// The size of a block for so many bytes.
fn block_size(size: usize) -> usize {
    size.next_multiple_of((size.next_power_of_two() / 8).max(16))
}

/// Elements that are freed in a call of [`Graveyard::catch_up`] at most.
const CATCH_UP_MAX: usize = 256;

/// Chunks that others hold, of which nothing is to be freed, that count as one element.
const SHARED_PER_ELEMENT: usize = 16;

/// Where ropes go to be freed in steps: 512 MB are 8,192 chunks, too much for one turn.
#[derive(Debug, Default)]
pub struct Graveyard {
    roots: Pile<Root>,
    nodes: Vec<Arc<Node>>,
    chunks: Vec<Arc<Chunk>>,
    size: u64,
}

impl Graveyard {
    /// An empty one.
    pub fn new() -> Graveyard {
        Graveyard::default()
    }

    /// Takes one reference to a rope. If others hold it, nothing is to be freed: the last of them brings it here.
    pub fn push(&mut self, rope: Rope) {
        if let Some(root) = Arc::into_inner(rope.0) {
            self.size += root.room() as u64;
            self.roots.push(root);
        }
    }

    /// What the ropes that wait here take, in bytes; nodes and chunks of them that others hold count until they are reached.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.nodes.is_empty() && self.chunks.is_empty()
    }

    /// Frees the more the more waits, so that what comes in every turn goes in every turn.
    pub(crate) fn catch_up(&mut self) {
        let waiting = usize::try_from(self.size).unwrap_or(usize::MAX) / CHUNK_SIZE;
        let count = u32::try_from(waiting.min(CATCH_UP_MAX)).expect("a few hundred");
        self.free(&mut Budget::new(count, u32::MAX));
    }

    /// Frees until nothing is left or the budget is spent. A chunk, node or root is one element, and so are a few chunks of a node that
    /// others hold.
    pub fn free(&mut self, budget: &mut Budget) {
        while !budget.is_spent() {
            if let Some(chunk) = self.chunks.pop() {
                self.size = self.size.saturating_sub(chunk.room());
            } else if let Some(node) = self.nodes.pop() {
                match Arc::try_unwrap(node) {
                    Ok(node) => {
                        self.chunks = node.chunks;
                        let count = self.chunks.len();
                        let size = &mut self.size;
                        self.chunks.retain(|chunk| {
                            let is_shared = Arc::strong_count(chunk) > 1;
                            *size = size.saturating_sub(if is_shared { chunk.room() } else { 0 });
                            !is_shared
                        });
                        budget.spend((count - self.chunks.len()) / SHARED_PER_ELEMENT, 0);
                    }
                    Err(shared) => {
                        let size: u64 = shared.chunks.iter().map(|chunk| chunk.room()).sum();
                        self.size = self.size.saturating_sub(size);
                    }
                }
            } else if let Some(root) = self.roots.pop() {
                self.nodes = root.nodes;
            } else {
                return;
            }
            budget.spend(1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_SIZE, Graveyard, NODE_COUNT, Rope, RopeBuilder, Zeros};
    use crate::budget::Budget;
    use std::sync::Arc;

    /// 41 MB of padding from the middle of a chunk on share one chunk of zeros and still are where they belong.
    #[test]
    fn padding_is_shared_and_complete() {
        let zeros = Zeros::default();
        let end = 2 * NODE_COUNT * CHUNK_SIZE + 5 * CHUNK_SIZE + 7;
        let mut rope = Rope::default();
        rope.write(0, &[1; 70_000], &zeros);
        rope.write(end, b"end", &zeros);
        assert_eq!(rope.len(), end + 3);
        for index in 0..rope.chunk_count() {
            let bytes: &[u8] = rope.chunk(index).as_ref().as_ref();
            let last = index + 1 == rope.chunk_count();
            assert_eq!(bytes.len(), if last { 10 } else { CHUNK_SIZE }, "chunk {index}");
            assert_eq!(Arc::ptr_eq(rope.chunk(index), &zeros.chunk), index > 1 && !last, "chunk {index}");
        }
        rope.write(end - 300 * CHUNK_SIZE, b"x", &zeros);
        assert!(zeros.chunk.0.iter().all(|&byte| byte == 0), "a write does not reach what is shared");
        let mut around = [9; 3];
        rope.copy_to(end - 300 * CHUNK_SIZE - 1, &mut around);
        assert_eq!(around, [0, b'x', 0]);
    }

    /// A builder pads by less than a chunk, over the end of one, and by many.
    #[test]
    fn a_builder_pads_to_any_size() {
        let mut builder = RopeBuilder::new();
        let mut want = 0;
        for size in [1, 1, 0, CHUNK_SIZE - 1, CHUNK_SIZE + 5, 4 * CHUNK_SIZE + 9] {
            builder.pad(size);
            want = size.max(want);
            assert_eq!(builder.len(), want);
            builder.write(want - 1, &[7]);
        }
        let written = [0, CHUNK_SIZE - 2, CHUNK_SIZE + 4, 4 * CHUNK_SIZE + 8];
        let mut at = 0;
        while at < builder.len() {
            let bytes = builder.bytes_from(at);
            for (index, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte == 7, written.contains(&(at + index)), "{}", at + index);
            }
            at += bytes.len();
        }
    }

    /// Whatever it came in.
    #[test]
    fn a_string_takes_the_room_that_is_counted_for_it() {
        for (size, room) in [
            (0, 0),
            (1, 16),
            (33_000, 40_960),
            (40_960, 40_960),
            (40_961, 49_152),
            (CHUNK_SIZE, CHUNK_SIZE),
            (2 * CHUNK_SIZE + 100, 2 * CHUNK_SIZE + 112),
        ] {
            for piece in [999, 8_200, 22_500, 32_768, CHUNK_SIZE] {
                let mut builder = RopeBuilder::new();
                vec![7; size].chunks(piece).for_each(|piece| builder.push(piece));
                let rope = builder.finish();
                let buffers =
                    (0..rope.chunk_count()).map(|index| super::block_size(rope.chunk(index).0.capacity()));
                assert_eq!(rope.room(), room, "{size} bytes");
                let taken: usize = buffers.sum();
                assert_eq!(taken, room, "{size} bytes by {piece}");
            }
        }
    }

    /// A long rope is freed in as many steps as it has parts, a shared one not at all.
    #[test]
    fn freeing_is_paced() {
        let mut builder = RopeBuilder::new();
        for _ in 0..300 {
            builder.push(&[1; CHUNK_SIZE / 4]);
        }
        let rope = builder.finish();
        let mut graveyard = Graveyard::new();
        graveyard.push(rope.clone());
        assert!(graveyard.is_empty() && graveyard.size() == 0, "others hold it");
        graveyard.push(rope);
        let mut steps = 0;
        while !graveyard.is_empty() {
            let before = graveyard.size();
            graveyard.free(&mut Budget::new(5, 1));
            assert!(before - graveyard.size() <= 5 * CHUNK_SIZE as u64, "five chunks at most");
            steps += 1;
        }
        assert_eq!((steps, graveyard.size()), ((1 + 1 + 75_usize).div_ceil(5), 0));
    }

    /// A string that was written on, and shares all chunks but the last with what it became, is freed in a few elements.
    #[test]
    fn what_others_hold_goes_quickly() {
        let mut builder = RopeBuilder::new();
        builder.push(&vec![7; 160 * CHUNK_SIZE + 5]);
        let old = builder.finish();
        let mut builder = RopeBuilder::of(&old);
        builder.push(b"more");
        let new = builder.finish();
        let mut graveyard = Graveyard::new();
        graveyard.push(old);
        graveyard.free(&mut Budget::new(1 + 1 + 10 + 1, 1));
        assert_eq!((graveyard.is_empty(), graveyard.size()), (true, 0));
        assert_eq!(new.len(), 160 * CHUNK_SIZE + 9);
        graveyard.push(new);
        graveyard.free(&mut Budget::new(13, 1));
        assert!(
            !graveyard.is_empty() && graveyard.size() > 140 * CHUNK_SIZE as u64,
            "its own are freed one by one"
        );
    }
}
