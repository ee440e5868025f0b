//! Seeds: those that ever failed, and some that did not yet. `cargo run -p sim --release -- --seeds N` plays more.

use sim::{Tally, Wishes, run};

/// A few hundred short seeds.
const COUNT: u64 = 300;
/// With `EXPRESSLANE_LONG` set.
const COUNT_LONG: u64 = 10_000;

fn play(seeds: impl Iterator<Item = u64>, wishes: Wishes) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        match run(seed, wishes) {
            Ok(of_seed) => tally.add(of_seed),
            Err(text) => panic!("{text}\nplay it again: cargo run -p sim --profile quick -- --seed {seed}"),
        }
    }
    tally
}

#[test]
fn seeds_that_failed_once() {
    play(sim::seeds(), Wishes::default());
}

#[test]
fn many_seeds() {
    let count = if std::env::var_os("EXPRESSLANE_LONG").is_some() { COUNT_LONG } else { COUNT };
    let tally = play(1..=count, Wishes::default());
    // What these seeds are for does happen.
    assert!(tally.undecided * 100 <= tally.explained, "the search decides nearly always: {tally:?}");
    for (what, count) in [
        ("transactions", tally.transactions),
        ("refusals", tally.refused),
        ("waits for locks", tally.waits),
        ("connections lost", tally.losses),
        ("connections handed over", tally.handovers),
    ] {
        assert!(count > 100, "{what} are rare: {tally:?}");
    }
}
