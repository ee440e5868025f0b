//! Load and its yardsticks: what is needed to judge a server fairly, and nothing that serves data.
//!
//! [`engine`] makes requests over many connections, at a rate or as fast as they are answered, and [`record`] holds what each
//! second saw. [`floor`] is the lower bound under every server that speaks RESP over kernel sockets: a bare event loop that
//! answers each request with a constant. A measurement of a server stands beside the floor of the same run; [`bare`] is the same under a load.
//! [`spin`] does nothing on a core and notes when it was kept from that: what the machine takes from anybody there.
//! [`environment`] reads what a number was measured on, and says in what two such places differ.
//! [`statistics`] says what may be claimed from it all, and [`report`] writes it down for readers.
//! [`experiments`] are five published ones, as data. [`agents`] is how several hosts make one load.

pub mod agents;
pub mod analysis;
pub mod bare;
pub mod connect;
pub mod engine;
pub mod environment;
pub mod experiments;
pub mod floor;
pub mod merge;
pub mod number;
pub mod oracle;
pub mod protocol;
pub mod record;
pub mod report;
pub mod result;
pub mod search;
mod socket;
pub mod spin;
pub mod statistics;
pub mod workload;

mod chance;
mod float;
