//! Replies that their client takes compressed.
//!
//! What a step answers is written aside. From [`DEFLATE_SIZE_MIN`] bytes on it leaves as one compressed frame, if that is shorter. A
//! reply is compressed in one piece, and that takes up to twenty nanoseconds a byte: so of more than [`DEFLATE_SIZE_MAX`] bytes it leaves as it is, and so do
//! those of a turn that has compressed [`DEFLATE_PER_TURN`].

use store::Budget;
use wire::aerospike::{DEFLATE_SIZE_MAX, DEFLATE_SIZE_MIN};
use wire::reply::Put;

use super::{Request, run_plain};
use crate::commands::{Progress, Step};
use crate::keyspace::Keyspace;
use crate::replies::{Content, Sink};

/// Bytes of replies that are compressed in a turn, which take two thirds of a millisecond. Those behind leave as they are.
pub(crate) const DEFLATE_PER_TURN: usize = DEFLATE_SIZE_MAX;

/// Runs a command, or the next slice of it.
pub(super) fn run(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let mut content = Content::default();
    let step = run_plain(space, request, progress, &mut Sink::Part(&mut content), budget);
    sink.note_all(content.take_errors());
    if content.is_empty() || content.size() > DEFLATE_SIZE_MAX {
        sink.append(content);
        return step;
    }
    let frames = content.to_vec();
    let compressed = if frames.len() < DEFLATE_SIZE_MIN || frames.len() > space.deflate_left {
        None
    } else {
        space.deflate_left -= frames.len();
        // Of a long scan one step is enough.
        budget.spend(0, usize::MAX);
        space.deflater.deflate(&frames)
    };
    sink.put(compressed.as_deref().unwrap_or(&frames));
    space.discard_content(content);
    step
}
