//! Load and its yardsticks: what is needed to judge a server fairly, and nothing that serves data.
//!
//! [`floor`] is the lower bound under every server that speaks RESP over kernel sockets: a bare event loop that
//! answers each request with a constant. A measurement of a server stands beside the floor of the same run.

pub mod floor;
