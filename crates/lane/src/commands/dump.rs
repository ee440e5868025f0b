//! DUMP: a value in Redis' own form ([`wire::rdb`]).
//!
//! Of a short value the payload is made in one piece, compressed as Redis compresses it. A longer one goes as it is and by
//! reference, as for GET, between a head and an end that are the reply's own; what it costs is its checksum, which is summed
//! a slice at a time, over the string as it was at the beginning.
//! ```text
//! $ size  │ 00 length │ the value's chunks … │ 0a 00 checksum
//! ```
//! What is more than a few bytes is left to the lane's slices from the start: a turn has many commands, and looking for
//! repetitions takes longer than copying.

use store::Budget;
use wire::rdb::crc::Crc64;
use wire::rdb::lzf::Compressor;
use wire::rdb::{TRAILER_SIZE, put_plain_head, put_string, trailer};
use wire::reply::{self, Put};

use super::text::Text;
use super::{Progress, State, Step};
use crate::SLICE;
use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;

/// Longer values are dumped as they are: they are compressed in one piece, and a slice has no more bytes.
const COMPRESSED_SIZE_MAX: usize = SLICE.bytes as usize;

/// What a command may do when it comes; the rest is for slices.
pub(super) const AT_ONCE: Budget = Budget::new(16, 512);

/// What a lane keeps for DUMP.
#[derive(Default)]
pub(crate) struct Dumping {
    /// `rdbcompression`.
    pub(crate) compresses: bool,
    /// Made with its table of 256 KiB when something is compressed for the first time.
    compressor: Option<Compressor>,
}

impl Dumping {
    fn compressor(&mut self, size: usize) -> Option<&mut Compressor> {
        let is_wanted = self.compresses && size <= COMPRESSED_SIZE_MAX;
        is_wanted.then(|| self.compressor.get_or_insert_default())
    }
}

/// A value under way.
pub(crate) struct Dump {
    value: Text,
    /// What stands before a value that goes as it is.
    head: Vec<u8>,
    /// Of the head, and of so many bytes of the value.
    crc: Crc64,
    at: usize,
}

impl Dump {
    fn of(value: Text) -> Dump {
        let (mut head, mut crc) = (Vec::new(), Crc64::default());
        put_plain_head(&mut head, value.len());
        crc.update(&head);
        Dump { value, head, crc, at: 0 }
    }

    /// Adds to the sum until the budget is spent; true when all of a long value is in it.
    fn advance(&mut self, budget: &mut Budget) -> bool {
        while self.at < self.value.len() {
            if budget.is_spent() {
                return false;
            }
            let bytes = self.value.bytes_from(self.at);
            let bytes = &bytes[..bytes.len().min(budget.bytes as usize)];
            self.crc.update(bytes);
            budget.spend(1, bytes.len());
            self.at += bytes.len();
        }
        true
    }
}

pub(crate) fn dump(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if progress.state.is_none() {
        let key = space.key(call, 1);
        let Some(entry) = space.look_up(&key) else {
            reply::null(sink, call.proto);
            return Step::Done;
        };
        let value = Text::of(Some(entry.value()));
        budget.spend(1, value.copied_size());
        if let Text::Bytes(bytes) = &value
            && bytes.len() <= AT_ONCE.bytes as usize
        {
            put_short(space, bytes, sink);
            return Step::Done;
        }
        progress.state = Some(Box::new(State::Dumping(Dump::of(value))));
        return Step::More;
    }
    let Some(State::Dumping(dump)) = progress.state.as_deref_mut() else { unreachable!("DUMP dumps") };
    match &dump.value {
        Text::Bytes(bytes) => {
            budget.spend(1, bytes.len());
            put_short(space, bytes, sink);
        }
        Text::Rope(rope) => {
            let rope = rope.clone();
            if !dump.advance(budget) {
                return Step::More;
            }
            put_long(dump, rope, sink);
        }
    }
    progress.state = None;
    Step::Done
}

/// The payload of a value in one piece.
fn put_short(space: &mut Keyspace, value: &[u8], sink: &mut Sink<'_>) {
    let (mut payload, mut crc) = (Vec::new(), Crc64::default());
    put_string(&mut payload, value, space.dumping.compressor(value.len()));
    crc.update(&payload);
    payload.extend(trailer(crc));
    reply::bulk(sink, &payload);
}

fn put_long(dump: &Dump, rope: store::Rope, sink: &mut Sink<'_>) {
    let size = rope.len();
    reply::bulk_header(sink, dump.head.len() + size + TRAILER_SIZE);
    sink.put(&dump.head);
    sink.put_rope(rope, 0..size);
    sink.put(&trailer(dump.crc));
    reply::bulk_end(sink);
}
