//! What goes to one client: copied bytes in blocks, and counted chunks between them.
//!
//! ```text
//!   segments  [ block ≤ 16 KiB | chunk | chunk | block ]   tail  [ block ≤ 16 KiB, still growing ]
//!               ^ front_sent: this much of the front is with the client already
//! ```
//! A small reply lives in the tail alone. Nothing is moved as the queue grows: a full tail becomes a segment. A
//! chunk is never copied; it is held until the backend reports it sent.

use std::collections::VecDeque;
use std::fmt;
use std::hint::cold_path;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Counted bytes of anybody: immutable while they are counted, sent without a copy.
///
/// `as_ref` is asked anew for each send and must give the same bytes each time.
pub type Chunk = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The largest block of copied bytes, and the largest that is kept for reuse; longer output takes more blocks.
pub const OUTPUT_BLOCK_SIZE_MAX: usize = 16 * 1024;

/// What a new block starts with: some small replies.
const BLOCK_SIZE_MIN: usize = 1024;

/// Blocks a net keeps for reuse; more are given back to the allocator.
const POOL_COUNT_MAX: usize = 128;

/// Output queued in segments keeps its queue for reuse up to this many.
const SEGMENTS_KEPT_MAX: usize = 16;

/// Append-only bytes on their way to one client. Made by a net for each connection; a lane may also make one of its
/// own ([`Output::new`]) to put a reply together and [`append`](Output::append) it later.
///
/// It has no limit of its own: the lane looks at [`Output::len`] and stops asking for more, or closes.
#[derive(Default)]
pub struct Output {
    segments: VecDeque<Segment>,
    tail: Vec<u8>,
    front_sent: usize,
    size: usize,
    /// Unsent bytes that have gone on to a net below; see `fault`.
    under_way: usize,
    written: u64,
    /// What its net's pool knows of it.
    counted: usize,
}

enum Segment {
    Block(Vec<u8>),
    Chunk(Chunk, Range<usize>),
}

impl Segment {
    fn bytes(&self) -> &[u8] {
        match self {
            Segment::Block(block) => block,
            Segment::Chunk(chunk, range) => &chunk.as_ref().as_ref()[range.clone()],
        }
    }
}

impl Output {
    /// Empty, and without memory until something is written.
    pub fn new() -> Output {
        Output::default()
    }

    /// Unsent bytes, chunks included.
    pub fn len(&self) -> usize {
        self.size + self.under_way
    }

    /// Nothing is unsent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes ever appended, chunks included.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        // A reply is a few short pieces, for which the block at hand nearly always has room.
        if bytes.len() <= self.tail.capacity().min(OUTPUT_BLOCK_SIZE_MAX).saturating_sub(self.tail.len()) {
            self.count(bytes.len());
            self.tail.extend_from_slice(bytes);
        } else {
            self.extend_over_blocks(bytes);
        }
    }

    /// Appends copies of these pieces, one behind the other.
    #[inline]
    pub fn extend_all(&mut self, pieces: [&[u8]; 3]) {
        let size = pieces.iter().map(|piece| piece.len()).sum();
        if size <= self.tail.capacity().min(OUTPUT_BLOCK_SIZE_MAX).saturating_sub(self.tail.len()) {
            self.count(size);
            pieces.into_iter().for_each(|piece| self.tail.extend_from_slice(piece));
        } else {
            pieces.into_iter().for_each(|piece| self.extend_over_blocks(piece));
        }
    }

    /// Appends a copy of the first `size` bytes of `word`.
    #[inline]
    pub fn extend_word(&mut self, word: [u8; 8], size: usize) {
        let room = self.tail.capacity().min(OUTPUT_BLOCK_SIZE_MAX).saturating_sub(self.tail.len());
        if word.len() <= room {
            self.count(size);
            // All eight in one store; what is too much goes again.
            let end = self.tail.len() + size;
            self.tail.extend_from_slice(&word);
            self.tail.truncate(end);
        } else {
            self.extend_over_blocks(&word[..size]);
        }
    }

    /// Appends copies of the first `head_size` bytes of `head`, of `body`, and `\r\n`.
    #[inline]
    pub fn extend_framed(&mut self, head: [u8; 8], head_size: usize, body: &[u8]) {
        const END: [u8; 2] = *b"\r\n";
        let head_size = head_size.min(head.len());
        let room = self.tail.capacity().min(OUTPUT_BLOCK_SIZE_MAX).saturating_sub(self.tail.len());
        if head.len() + body.len() + END.len() > room {
            for piece in [&head[..head_size], body, &END] {
                self.extend_over_blocks(piece);
            }
            return;
        }
        let size = head_size + body.len() + END.len();
        self.count(size);
        let len = self.tail.len();
        debug_assert!(size.max(head.len()) <= self.tail.capacity() - len, "a frame lies within its block");
        // SAFETY: the tail has room for all of `head`, `body` and the end behind its `len` bytes, and `body`, which is borrowed beside
        // `self`, lies elsewhere. What is too much of `head`, which is written in one store, is written over.
        unsafe {
            let to = self.tail.as_mut_ptr().add(len);
            to.cast::<[u8; 8]>().write_unaligned(head);
            to.add(head_size).copy_from_nonoverlapping(body.as_ptr(), body.len());
            to.add(head_size + body.len()).cast::<[u8; 2]>().write_unaligned(END);
            self.tail.set_len(len + size);
        }
    }

    fn extend_over_blocks(&mut self, mut bytes: &[u8]) {
        self.count(bytes.len());
        while !bytes.is_empty() {
            if self.tail.len() == OUTPUT_BLOCK_SIZE_MAX {
                self.close_tail();
            }
            let size = bytes.len().min(OUTPUT_BLOCK_SIZE_MAX - self.tail.len());
            self.grow_tail(size);
            self.tail.extend_from_slice(&bytes[..size]);
            bytes = &bytes[size..];
        }
    }

    /// Appends `range` of `chunk` by reference. An empty range is left out.
    ///
    /// # Panics
    /// If `range` does not lie inside the chunk.
    pub fn push_chunk(&mut self, chunk: Chunk, range: Range<usize>) {
        let size = (*chunk).as_ref().len();
        assert!(range.start <= range.end && range.end <= size, "the range lies inside its chunk");
        if range.is_empty() {
            return;
        }
        self.count(range.len());
        self.close_tail();
        self.segments.push_back(Segment::Chunk(chunk, range));
    }

    /// Moves all of `other` behind what is here: chunks by reference, the rest by copy.
    pub fn append(&mut self, other: &mut Output) {
        self.append_front(other, other.size);
    }

    /// Moves the first `size` bytes of `other` behind what is here.
    ///
    /// # Panics
    /// If `other` is shorter than `size`.
    pub fn append_front(&mut self, other: &mut Output, size: usize) {
        assert!(size <= other.size, "no more is moved than there is");
        let mut left = size;
        while left > 0 {
            let sent = other.front_sent;
            let taken = match other.segments.front() {
                None => {
                    let taken = left.min(other.tail.len() - sent);
                    self.extend(&other.tail[sent..sent + taken]);
                    taken
                }
                Some(Segment::Block(block)) => {
                    let taken = left.min(block.len() - sent);
                    self.extend(&block[sent..sent + taken]);
                    taken
                }
                Some(Segment::Chunk(chunk, range)) => {
                    let taken = left.min(range.len() - sent);
                    let start = range.start + sent;
                    self.push_chunk(Arc::clone(chunk), start..start + taken);
                    taken
                }
            };
            other.advance(taken, |_block| {});
            left -= taken;
        }
    }

    /// Drops everything unsent.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.tail.clear();
        self.front_sent = 0;
        self.size = 0;
    }

    /// The unsent bytes in order, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let segments = self.segments.iter().map(Segment::bytes);
        let mut skip = self.front_sent;
        segments.chain(std::iter::once(self.tail.as_slice())).filter_map(move |bytes| {
            let piece = &bytes[std::mem::take(&mut skip)..];
            if piece.is_empty() { None } else { Some(piece) }
        })
    }

    /// Fills `slices` with the next unsent bytes, `size_max` at most: how many slices, how many bytes.
    #[inline(always)]
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], size_max: usize) -> (usize, usize) {
        // Most are one short block.
        if self.segments.is_empty()
            && let [first, ..] = slices
        {
            let unsent = &self.tail[self.front_sent..];
            let piece = &unsent[..unsent.len().min(size_max)];
            *first = IoSlice::new(piece);
            return (usize::from(!piece.is_empty()), piece.len());
        }
        self.gather_pieces(slices, size_max)
    }

    #[inline(never)]
    fn gather_pieces<'a>(&'a self, slices: &mut [IoSlice<'a>], size_max: usize) -> (usize, usize) {
        let (mut count, mut size) = (0, 0);
        for (slice, piece) in slices.iter_mut().zip(self.pieces()) {
            let taken = piece.len().min(size_max - size);
            if taken == 0 {
                break;
            }
            *slice = IoSlice::new(&piece[..taken]);
            count += 1;
            size += taken;
        }
        (count, size)
    }

    /// Releases the first `size` unsent bytes. `recycle` gets each block that is through.
    pub(crate) fn advance(&mut self, size: usize, mut recycle: impl FnMut(Vec<u8>)) {
        assert!(size <= self.size, "no more is sent than was written");
        self.size -= size;
        let mut left = self.front_sent + size;
        while let Some(front) = self.segments.front() {
            cold_path();
            let front_size = front.bytes().len();
            if left < front_size {
                self.front_sent = left;
                return;
            }
            left -= front_size;
            if let Some(Segment::Block(block)) = self.segments.pop_front() {
                recycle(block);
            }
        }
        if self.segments.capacity() > SEGMENTS_KEPT_MAX {
            cold_path();
            self.segments = VecDeque::new();
        }
        if left == self.tail.len() {
            self.tail.clear();
            left = 0;
        }
        self.front_sent = left;
    }

    /// Bytes that are still here.
    pub(crate) fn held(&self) -> usize {
        self.size
    }

    /// Counts `size` bytes as unsent that are no longer here.
    pub(crate) fn set_under_way(&mut self, size: usize) {
        self.under_way = size;
    }

    /// Tells its net's pool how much is unsent now.
    #[inline]
    pub(crate) fn report(&mut self, pool: &mut Pool) {
        if self.counted != self.size {
            cold_path();
            pool.unsent_size = pool.unsent_size - self.counted + self.size;
            self.counted = self.size;
        }
    }

    /// Gives a block to write into to an output that has none.
    #[inline(always)]
    pub(crate) fn lend(&mut self, pool: &mut Pool) {
        if self.tail.capacity() == 0 {
            self.tail = pool.take();
        }
    }

    /// Takes the block back from an output that is empty.
    #[inline(always)]
    pub(crate) fn reclaim(&mut self, pool: &mut Pool) {
        assert!(self.size == 0, "only an empty output gives its block back");
        self.report(pool);
        pool.put(std::mem::take(&mut self.tail));
    }

    fn count(&mut self, size: usize) {
        self.size += size;
        self.written += u64::try_from(size).expect("a size fits 64 bits");
    }

    /// Makes the tail a segment, so that something else can follow it.
    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.segments.push_back(Segment::Block(std::mem::take(&mut self.tail)));
        }
    }

    /// Room for `size` more bytes in the tail, which doubles up to the size of a block.
    fn grow_tail(&mut self, size: usize) {
        let need = self.tail.len() + size;
        if self.tail.capacity() < need {
            let capacity = need.max(self.tail.capacity() * 2).clamp(BLOCK_SIZE_MIN, OUTPUT_BLOCK_SIZE_MAX);
            self.tail.reserve_exact(capacity - self.tail.len());
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("size", &self.size).field("segments", &self.segments.len()).finish()
    }
}

/// What the outputs of one net share: blocks without an owner, last in, first out, so that the next reply is written
/// where the cache is warm; and how much of all of them is unsent.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    blocks: Vec<Vec<u8>>,
    unsent_size: usize,
}

impl Pool {
    /// Bytes of all outputs that were unsent when they were last sent from.
    pub(crate) fn unsent_size(&self) -> usize {
        self.unsent_size
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.blocks.pop().unwrap_or_default()
    }

    pub(crate) fn put(&mut self, mut block: Vec<u8>) {
        if block.capacity() > 0 && self.blocks.len() < POOL_COUNT_MAX {
            assert!(block.capacity() <= OUTPUT_BLOCK_SIZE_MAX, "a block never grows beyond its size");
            block.clear();
            self.blocks.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    fn bytes(output: &Output) -> Vec<u8> {
        output.pieces().flatten().copied().collect()
    }

    fn chunk(bytes: &[u8]) -> Chunk {
        Arc::new(bytes.to_vec())
    }

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let mut output = Output::new();
        output.extend(b"one ");
        output.push_chunk(chunk(b"__two __"), 2..6);
        output.push_chunk(chunk(b"nothing"), 3..3);
        output.extend(b"three");
        assert_eq!(bytes(&output), b"one two three");
        assert_eq!(output.len(), 13);
        output.advance(5, |_| {});
        assert_eq!(bytes(&output), b"wo three");
        output.clear();
        assert!(output.is_empty() && bytes(&output).is_empty());
        assert_eq!(output.written(), 13);
    }

    #[test]
    #[should_panic(expected = "inside its chunk")]
    fn a_range_beyond_its_chunk_is_refused() {
        Output::new().push_chunk(chunk(b"short"), 2..6);
    }

    #[test]
    fn a_chunk_is_held_until_its_last_byte_is_sent() {
        let held = chunk(&[7; 100]);
        let mut output = Output::new();
        output.extend(b"head");
        output.push_chunk(Arc::clone(&held), 0..100);
        output.advance(103, |_| {});
        assert_eq!(Arc::strong_count(&held), 2);
        output.advance(1, |_| {});
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn no_block_is_larger_than_promised() {
        let mut output = Output::new();
        output.extend(b"some");
        output.extend(&vec![1; 3 * OUTPUT_BLOCK_SIZE_MAX]);
        let mut capacities = Vec::new();
        output.advance(output.len(), |block| capacities.push(block.capacity()));
        assert_eq!(capacities, [OUTPUT_BLOCK_SIZE_MAX; 3]);
    }

    /// Whatever room a block has left, and whatever a frame is made of.
    #[test]
    fn a_frame_is_whole_wherever_its_block_ends() {
        const HEAD: [u8; 8] = *b"$12345\r\n";
        const BODY: &[u8] = b"0123456789abcdef";
        for block_size in [BLOCK_SIZE_MIN, OUTPUT_BLOCK_SIZE_MAX] {
            for room in 0..=HEAD.len() + BODY.len() + 4 {
                for (head_size, body_size) in
                    (0..=HEAD.len()).flat_map(|head_size| (0..=BODY.len()).map(move |size| (head_size, size)))
                {
                    let mut output = Output { tail: Vec::with_capacity(block_size), ..Output::default() };
                    let mut plain = vec![b'.'; block_size - room];
                    output.extend(&plain);
                    assert_eq!(output.tail.capacity() - output.tail.len(), room);
                    let body = &BODY[..body_size];
                    output.extend_framed(HEAD, head_size, body);
                    output.extend(b"next");
                    plain.extend([&HEAD[..head_size], body, b"\r\nnext"].concat());
                    assert_eq!(output.len(), plain.len());
                    let is_same = output.pieces().collect::<Vec<_>>().concat() == plain;
                    assert!(is_same, "{head_size} and {body_size} bytes with room for {room}");
                }
            }
        }
    }

    /// Random appends, moves and sends, against a plain queue of bytes.
    #[test]
    fn it_is_a_queue_of_bytes() {
        for seed in 0..40 {
            let mut chance = Chance::new(seed);
            let (mut output, mut other, mut plain) = (Output::new(), Output::new(), VecDeque::new());
            let mut pool = Pool::default();
            for step in 0..200u32 {
                let size = [3, 100, 5_000, 40_000][chance.below(4)];
                let fresh: Vec<u8> =
                    (0..chance.below(size)).map(|at| at.to_le_bytes()[0] ^ step.to_le_bytes()[0]).collect();
                match chance.below(7) {
                    6 => {
                        let pieces = [&b"$5\r\n"[..], &fresh, b"\r\n"];
                        output.extend_all(pieces);
                        plain.extend(pieces.concat());
                    }
                    5 => {
                        let head_size = chance.below(9);
                        output.extend_framed(*b"$12345\r\n", head_size, &fresh);
                        plain.extend(b"$12345\r\n"[..head_size].iter().chain(&fresh).chain(b"\r\n"));
                    }
                    0 => {
                        output.lend(&mut pool);
                        output.extend(&fresh);
                        plain.extend(&fresh);
                    }
                    1 => {
                        let start = chance.below(fresh.len() + 1);
                        output.push_chunk(chunk(&fresh), start..fresh.len());
                        plain.extend(&fresh[start..]);
                    }
                    2 => {
                        other.extend(&fresh);
                        other.push_chunk(chunk(&fresh), 0..fresh.len());
                        let cut = chance.below(other.len() + 1);
                        let moved: Vec<u8> = bytes(&other)[..cut].to_vec();
                        output.append_front(&mut other, cut);
                        plain.extend(&moved);
                    }
                    _ => {
                        let mut slices = [IoSlice::new(&[]); 5];
                        let size_max = chance.below(60_000);
                        let (count, size) = output.gather(&mut slices, size_max);
                        let sent: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                        assert_eq!(sent.len(), size);
                        assert!(size <= size_max);
                        let sent = &sent[..chance.below(size + 1)];
                        assert_eq!(sent, plain.drain(..sent.len()).collect::<Vec<u8>>());
                        output.advance(sent.len(), |block| pool.put(block));
                    }
                }
                assert_eq!(output.len(), plain.len());
                assert_eq!(output.is_empty(), plain.is_empty());
            }
            assert_eq!(bytes(&output), plain.into_iter().collect::<Vec<u8>>());
        }
    }
}
