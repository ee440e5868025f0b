//! Where received bytes lie: all connections receive into one shared buffer, hot in the cache, one behind the other. When all
//! is consumed it begins anew; only what a lane leaves unconsumed in a turn moves into a buffer of the connection's own, once
//! somebody else receives. An idle connection holds none.
//!
//! ```text
//!   shared  [ consumed | of one | consumed | of another |      ]   128 KiB, one for each net; room for 64 more, or all are moved out
//!   Rest    [ consumed | kept for later         ] spare          only for a connection with a cut or unread frame
//! ```
//! A byte leaves the shared buffer at most once; while it is consumed piecemeal only an offset advances. Bytes that
//! arrive behind a rest are received into the shared buffer and appended. However frames are cut, a byte is moved a
//! constant number of times on average: a growing buffer doubles, and closing the gap in front of a rest is paid for
//! by the consumed bytes that made the gap.

use crate::{ConnId, INPUT_MAX};

/// A buffer up to this size is a small one.
const SMALL_SIZE: usize = 4 * 1024;

/// What a new buffer has room for at least: a cut frame of an ordinary command.
const SMALL_SIZE_MIN: usize = 256;

/// Small buffers kept for reuse by one net; more are given back to the allocator.
const SMALL_COUNT_MAX: usize = 128;

/// Large buffers kept for reuse, likewise; each holds up to twice [`INPUT_MAX`].
const LARGE_COUNT_MAX: usize = 8;

/// The one buffer that everybody receives into.
#[derive(Debug)]
pub(crate) struct Shared {
    buffer: Box<[u8]>,
    /// Behind what was received last; 0 while nobody has bytes here.
    end: usize,
    /// How many connections have bytes here, and those that have or had since there were none.
    count: usize,
    owners: Vec<ConnId>,
    /// When they received.
    turn: u64,
}

/// Where in the shared buffer a connection's bytes lie that it has not consumed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    start: usize,
    end: usize,
}

impl Held {
    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(crate) fn len(self) -> usize {
        self.end - self.start
    }
}

impl Shared {
    pub(crate) fn new() -> Shared {
        let buffer = vec![0; 2 * INPUT_MAX].into_boxed_slice();
        Shared { buffer, end: 0, count: 0, owners: Vec::new(), turn: 0 }
    }

    /// What a connection has here.
    #[inline(always)]
    pub(crate) fn of(&self, held: Held) -> &[u8] {
        &self.buffer[held.start..held.end]
    }

    /// Whether whoever has bytes here must be moved out before somebody receives: they are of an earlier turn, or too many.
    #[inline(always)]
    pub(crate) fn is_in_the_way(&self, turn: u64) -> bool {
        self.count > 0 && (self.turn != turn || self.end > INPUT_MAX)
    }

    /// Room for `size` bytes, [`INPUT_MAX`] at most, to receive into.
    #[inline(always)]
    pub(crate) fn room(&mut self, size: usize) -> &mut [u8] {
        &mut self.buffer[self.end..self.end + size]
    }

    /// The first `size` bytes of the room, which were just received.
    pub(crate) fn received(&self, size: usize) -> &[u8] {
        &self.buffer[self.end..self.end + size]
    }

    /// They stay here for `conn`. Nobody is in the way, so all here are of this turn.
    #[inline(always)]
    pub(crate) fn keep(&mut self, conn: ConnId, size: usize, turn: u64) -> Held {
        self.turn = turn;
        let start = self.end;
        if size > 0 {
            self.end += size;
            self.count += 1;
            self.owners.push(conn);
        }
        Held { start, end: self.end }
    }

    #[inline(always)]
    pub(crate) fn consume(&mut self, held: &mut Held, size: usize) {
        assert!(size <= held.len(), "no more is consumed than was shown");
        held.start += size;
        if held.is_empty() {
            self.leave();
        }
    }

    /// What a connection has here is needed no more.
    pub(crate) fn forget(&mut self, held: &mut Held) {
        if !std::mem::take(held).is_empty() {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.count -= 1;
        if self.count == 0 {
            self.end = 0;
            self.owners.clear();
        }
    }

    /// Those who have bytes here, and some who had: each is to be forgotten, and the list given back.
    pub(crate) fn take_owners(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.owners)
    }

    pub(crate) fn give_back(&mut self, mut owners: Vec<ConnId>) {
        assert!(self.count == 0, "everybody has left");
        owners.clear();
        self.owners = owners;
    }
}

/// What one connection has received and its lane not yet consumed.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    bytes: Vec<u8>,
    start: usize,
}

impl Rest {
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Appends. What was consumed in front is given up first when it is more than what is kept, so that the move is
    /// paid for by bytes that will never be moved again.
    pub(crate) fn append(&mut self, bytes: &[u8], pool: &mut Rests) {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.take(bytes.len());
        }
        if self.start > self.bytes.len() - self.start {
            self.bytes.copy_within(self.start.., 0);
            self.bytes.truncate(self.bytes.len() - self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
        pool.kept_size += bytes.len();
        assert!(self.bytes.len() - self.start <= INPUT_MAX, "no more is kept than INPUT_MAX");
    }

    pub(crate) fn consume(&mut self, size: usize, pool: &mut Rests) {
        assert!(size <= self.bytes.len() - self.start, "no more is consumed than was shown");
        self.start += size;
        pool.kept_size -= size;
        if self.is_empty() {
            self.release(pool);
        }
    }

    pub(crate) fn release(&mut self, pool: &mut Rests) {
        pool.kept_size -= self.bytes().len();
        self.start = 0;
        pool.put(std::mem::take(&mut self.bytes));
    }
}

/// Buffers without an owner, small and large ones apart: many connections may have a cut frame at once, few a
/// pipeline as long as a receive.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    /// Unconsumed bytes in all buffers that have an owner.
    kept_size: usize,
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

impl Rests {
    /// Unconsumed bytes of all connections that lie in buffers of their own.
    pub(crate) fn kept_size(&self) -> usize {
        self.kept_size
    }

    /// A buffer for at first `size` bytes.
    fn take(&mut self, size: usize) -> Vec<u8> {
        let pool = if size <= SMALL_SIZE { &mut self.small } else { &mut self.large };
        pool.pop().unwrap_or_else(|| Vec::with_capacity(size.max(SMALL_SIZE_MIN)))
    }

    fn put(&mut self, mut buffer: Vec<u8>) {
        let (pool, count_max) = if buffer.capacity() <= SMALL_SIZE {
            (&mut self.small, SMALL_COUNT_MAX)
        } else {
            (&mut self.large, LARGE_COUNT_MAX)
        };
        if buffer.capacity() > 0 && pool.len() < count_max {
            buffer.clear();
            pool.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn the_shared_buffer_begins_anew_when_all_is_consumed() {
        let mut shared = Shared::new();
        let (first, second) = (ConnId { index: 0, generation: 1 }, ConnId { index: 1, generation: 1 });
        for turn in 1..4 {
            shared.room(3).copy_from_slice(b"one");
            let mut one = shared.keep(first, 3, turn);
            shared.room(INPUT_MAX)[..3].copy_from_slice(b"two");
            let mut two = shared.keep(second, 3, turn);
            assert_eq!((shared.of(one), shared.of(two)), (&b"one"[..], &b"two"[..]));
            shared.consume(&mut one, 2);
            shared.consume(&mut two, 3);
            assert_eq!((shared.of(one), shared.end), (&b"e"[..], 6));
            assert!(!shared.is_in_the_way(turn) && shared.is_in_the_way(turn + 1));
            shared.forget(&mut one);
            assert_eq!((shared.end, shared.owners.len()), (0, 0));
            assert!(!shared.is_in_the_way(turn + 1));
        }
        let mut many = shared.keep(first, INPUT_MAX, 4);
        assert!(!shared.is_in_the_way(4));
        shared.keep(second, 1, 4);
        assert!(shared.is_in_the_way(4), "there is no room for a whole receive");
        assert_eq!(shared.take_owners(), [first, second]);
        shared.consume(&mut many, INPUT_MAX);
        assert!(shared.is_in_the_way(4));
    }

    #[test]
    fn a_rest_is_a_queue_that_never_holds_twice_what_it_keeps() {
        for seed in 0..20 {
            let mut chance = Chance::new(seed);
            let (mut rest, mut plain) = (Rest::default(), Vec::new());
            let mut pool = Rests::default();
            for _ in 0..500 {
                let room = INPUT_MAX - rest.bytes().len();
                let fresh: Vec<u8> = (0..chance.below(room + 1)).map(|at| at.to_le_bytes()[0]).collect();
                rest.append(&fresh, &mut pool);
                plain.extend(&fresh);
                assert_eq!(rest.bytes(), plain);
                let size = chance.below(plain.len() + 1);
                rest.consume(size, &mut pool);
                plain.drain(..size);
                assert_eq!(rest.is_empty(), plain.is_empty());
                assert!(rest.bytes.len() <= 2 * INPUT_MAX);
                assert_eq!(pool.kept_size(), plain.len());
            }
        }
    }
}
