//! Records: Aerospike's clients over one lane and over several, message by message, in batches and scans; beside a model, under
//! a seed.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod compressed;
mod model;
mod namespaces;
mod nodes;
mod operations;
mod pages;
mod sets;
mod talk;
