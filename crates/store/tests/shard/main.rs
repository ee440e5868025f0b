//! A shard as its lane sees it: against a plain map, and in what a map does not show.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "small numbers drawn from a seed"
)]

mod eviction;
mod expiry;
mod memory;
mod model;
mod roots;
mod snapshot;
mod strings;
mod world;
