//! What passes between two lanes: a one-way ring of byte frames, and the bell that wakes a sleeping lane.
//!
//! This is the only crate whose threads meet in memory, so it holds every atomic and every memory ordering of the
//! data path, each proved under loom. It knows no command, no lane and no system call: a frame is bytes, and the
//! ringing itself (an eventfd, say) belongs to whoever was told that it is due. Picture and protocol: docs/rings.md.
//!
//! ```
//! let (mut to_lane, mut from_lane) = ring::ring::<String>(1024, 8);
//! let mailbox = ring::Mailbox::new(8);
//!
//! // The sending lane, once a turn: everything pushed becomes visible with one store, then the bit is set.
//! if to_lane.room(5) {
//!     to_lane.push(&[b"GET ", b"k"], Some("a value too large for a frame".to_owned()));
//! }
//! if to_lane.publish() && mailbox.post(7) {
//!     // Only here, and only if the other lane declared sleep: wake it by a system call.
//! }
//!
//! // The receiving lane, once a turn: only rings that hold something are visited.
//! for sender in mailbox.collect() {
//!     assert_eq!(sender, 7);
//!     while let Some(payload) = from_lane.peek() {
//!         assert_eq!(payload, b"GET k");
//!         let parcel = from_lane.take_parcel();
//!         assert!(parcel.is_some());
//!         from_lane.pop();
//!     }
//!     from_lane.release();
//! }
//! ```

mod bell;
mod ends;
mod frame;
mod memory;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

pub use bell::{Mailbox, SENDERS_MAX, Senders};
pub use ends::{Consumer, Producer, memory_size, ring};
pub use frame::{HEADER_SIZE, RING_SIZE_MAX, RING_SIZE_MIN, credit, frame_size, payload_max};
