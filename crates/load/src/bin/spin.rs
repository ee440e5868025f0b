//! `spin --seconds S`: how often, and how long, this core does something else (see `load::spin`). Pin it with `taskset`.

use std::time::Instant;

use clap::Parser;

/// Looks at the clock without pause and prints the gaps of 1 µs and more, in nanoseconds, as one line of JSON.
#[derive(Parser)]
struct Options {
    /// Seconds to look.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
}

#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program reads the clock and prints")]
fn main() {
    let seconds = Options::parse().seconds;
    let began = Instant::now();
    let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    println!("{}", load::spin::json(&load::spin::gaps(clock, seconds * 1_000_000_000)));
}
