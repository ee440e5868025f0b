//! Load and its yardsticks: what is needed to judge a server fairly, and nothing that serves data.
//!
//! [`floor`] is the lower bound under every server that speaks RESP over kernel sockets: a bare event loop that
//! answers each request with a constant. A measurement of a server stands beside the floor of the same run. [`drive`]
//! makes requests over many connections, at a rate or as fast as they are answered, and records how long each took.
//! [`spin`] does nothing on a core and notes when it was kept from that: what the machine takes from anybody there.

pub mod drive;
pub mod floor;
mod socket;
pub mod spin;
pub mod summary;
