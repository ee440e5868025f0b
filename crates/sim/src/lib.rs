//! Whole servers in one thread, under one seed: lanes, clients, a clock and chance that are all arguments.

#![forbid(unsafe_code)]

mod world;

pub use world::{Client, World};
