//! Bytes to commands, replies to bytes, and which lane owns a key.
//!
//! Everything here is a pure function of its arguments: no sockets, no clock, no allocation per request. The crate
//! does not know that lanes are busy or that keys exist; it knows the languages (RESP2, RESP3 and inline commands as Redis
//! 7.0 speaks them, memcached's as 1.6.18 does), the command table, and the partition function.
//!
//! | module | subject |
//! |---|---|
//! | [`resp`] | requests: a resumable decoder over borrowed input |
//! | [`reply`] | replies: encoders onto anything that takes bytes |
//! | [`number`] | integers and floats as Redis reads and prints them |
//! | [`extended`] | sums of floats as INCRBYFLOAT computes them |
//! | [`client`] | the other side: encode a command, decode its reply |
//! | [`rdb`] | strings as DUMP gives them and RESTORE takes them, and snapshots as replicas do |
//! | [`route`] | slots, hash tags, partitions, and their lanes |
//! | [`command`] | the one table of commands |
//! | [`glob`] | patterns of KEYS, SCAN and CONFIG GET |
//! | [`json`] | places in documents, as Couchbase's sub-document commands find and change them |
//! | [`memcached`] | another dialect: requests and replies of text, meta and binary |
//! | [`aerospike`] | another: messages, batches, scans, info and security |
//! | [`couchbase`] | its edition of the binary protocol: features, statuses, the map of vbuckets |
//! | [`http`] | as much of HTTP as serves a few pages |
#![forbid(unsafe_code)]

pub mod aerospike;
pub mod client;
pub mod command;
pub mod couchbase;
pub mod extended;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod glob;
pub mod http;
pub mod json;
pub mod memcached;
pub mod number;
pub mod rdb;
pub mod reply;
pub mod resp;
pub mod route;
mod stranger;

pub use command::Command;
pub use reply::{Proto, Put};
pub use resp::{ArgRanges, Args, Decoder, Limits, ProtocolError, Step, Token};
pub use route::{LaneId, PartitionMap};
