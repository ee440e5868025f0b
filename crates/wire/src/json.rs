//! JSON as Couchbase's sub-document commands see it: a place in a document is found, looked at or changed, and the rest is
//! never built up as a tree.
//!
//! A document, and a value that goes into it, come in pieces of any size: large ones lie in chunks, and a turn has room for a
//! few. An [`Operation`] takes the value's pieces, then the document's, remembers where it is between them, and says at last
//! what it found or which bytes are to be put where ([`Edit`]). Several edits one after the other are a [`Draft`]: a list of
//! pieces, in which nothing has been copied yet.
//!
//! ```text
//!    path ──> Path ──> Search <── pieces of the document      Search: which value is it, where, what stands beside it
//!                         │                                   Scanner: is this JSON, where does a value begin and end
//!   value ──> Check ──> Operation ──> Answer, Edit ──> Draft  Check: may this value stand there
//! ```
//! Nothing recurses: open objects and arrays are bits of a number, [`LEVELS_MAX`] of them. Grammar is RFC 8259's; bytes from
//! 0x80 on pass unseen inside of strings, as they do in Couchbase. What is found is found early: bytes behind the place are
//! looked at only as far as the operation needs them, so a document that is broken behind it is not noticed (as in Couchbase,
//! which has looked at the whole when it was stored).
//!
//! Source of what paths and operations mean: `docs/SubDocument.md` of couchbase/kv_engine and the tests of couchbase/subjson.

mod draft;
mod key;
mod operation;
mod path;
mod scan;
mod search;
#[cfg(test)]
mod tests;

pub use draft::{Draft, Piece};
pub use operation::{Answer, Edit, Error, Operation, UNIQUE_SIZE_MAX, Verb};
pub use path::{COMPONENTS_MAX, PATH_SIZE_MAX, Path, PathError};

/// Deepest level on which a value may stand; a document's root is on the first.
pub const LEVELS_MAX: u8 = 32;
