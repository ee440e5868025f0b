//! Where received bytes lie: all connections receive into one shared buffer, hot in the cache, and only what a lane
//! leaves unconsumed moves into a buffer of the connection's own. An idle connection holds none.
//!
//! ```text
//!   shared  [ consumed | unconsumed, of `owner` |              ]   64 KiB, one for each net
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
    start: usize,
    end: usize,
    owner: Option<ConnId>,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        Shared { buffer: vec![0; INPUT_MAX].into_boxed_slice(), start: 0, end: 0, owner: None }
    }

    /// Whose bytes lie here.
    pub(crate) fn owner(&self) -> Option<ConnId> {
        self.owner
    }

    /// What `conn` has not consumed of it.
    pub(crate) fn of(&self, conn: ConnId) -> &[u8] {
        if self.owner == Some(conn) { &self.buffer[self.start..self.end] } else { &[] }
    }

    /// Room to receive into. Whoever had bytes here must have been moved out before.
    pub(crate) fn room(&mut self, size: usize) -> &mut [u8] {
        assert!(self.owner.is_none(), "the shared buffer is free");
        &mut self.buffer[..size]
    }

    /// The first `size` bytes were just received.
    pub(crate) fn received(&self, size: usize) -> &[u8] {
        &self.buffer[..size]
    }

    /// The first `size` bytes were just received, and stay here for `conn`.
    pub(crate) fn keep(&mut self, conn: ConnId, size: usize) {
        (self.start, self.end) = (0, size);
        self.owner = if size == 0 { None } else { Some(conn) };
    }

    pub(crate) fn consume(&mut self, size: usize) {
        assert!(size <= self.end - self.start, "no more is consumed than was shown");
        self.start += size;
        if self.start == self.end {
            self.owner = None;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.owner = None;
    }
}

/// What one connection has received and its lane not yet consumed.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    bytes: Vec<u8>,
    start: usize,
}

impl Rest {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

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
