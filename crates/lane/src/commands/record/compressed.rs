//! Replies that their client takes compressed.
//!
//! What a step answers is written aside. From [`DEFLATE_SIZE_MIN`] bytes on it leaves as one compressed frame, if that is shorter; of more
//! than [`DEFLATE_SIZE_MAX`] it leaves as it is, for a reply is compressed in one piece. That is charged as [`COST`] times as many bytes.

use store::Budget;
use wire::aerospike::{DEFLATE_SIZE_MAX, DEFLATE_SIZE_MIN};
use wire::reply::Put;

use super::{Request, run_plain};
use crate::commands::{Progress, Step};
use crate::keyspace::Keyspace;
use crate::replies::{Content, Sink};

/// To compress a byte takes about as long as to copy so many.
const COST: usize = 16;

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
    let compressed = if frames.len() < DEFLATE_SIZE_MIN {
        None
    } else {
        budget.spend(0, COST * frames.len());
        space.deflater.deflate(&frames)
    };
    sink.put(compressed.as_deref().unwrap_or(&frames));
    let mut ropes = Vec::new();
    content.abandon(&mut ropes);
    ropes.into_iter().for_each(|rope| space.shard.retire(rope));
    step
}
