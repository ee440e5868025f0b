//! Whole servers in one thread, under one seed: lanes, clients, a clock and chance that are all arguments.
//!
//! [`run()`] plays a seed: clients ask for random things over connections that are cut, slow, late and lost, lanes take
//! turns in any order and sleep when they say so. What clients see is held against a model:
//!
//! * `object`, `linear`: for each thing there is an order of what happened to it that explains every reply, and that
//!   keeps each connection's own order;
//! * `crew`: an EXEC, and a command of several keys, sees one time, and what it saw end stays away;
//! * `expect`, `program`: what is written together is never seen torn, money and tokens neither appear nor vanish, and
//!   of two keys on one lane the later write is not seen before the earlier;
//! * `run`: everything asked is answered within a number of rounds once faults stop, no turn is longer than its
//!   bounds, and at the end no lock, credit, watcher or rope is left.
//!
//! A seed that fails is played again by `cargo run -p sim --profile quick -- --seed N`; it then goes into `seeds.txt`.

#![forbid(unsafe_code)]

mod caller;
mod chance;
mod crew;
mod expect;
mod linear;
mod object;
mod program;
mod run;
mod text;
mod world;

pub use chance::Chance;
pub use run::{Tally, Wishes, run};
pub use world::{Client, World};

/// Every seed that ever failed, one a line, with what it showed; the tests play them all.
pub const SEEDS: &str = include_str!("../seeds.txt");

/// The seeds in [`SEEDS`].
pub fn seeds() -> impl Iterator<Item = u64> {
    SEEDS.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok())
}
