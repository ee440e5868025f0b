//! Plays many seeds, or one again.
//!
//! `cargo run -p sim --release -- --seeds 10000 [--from N] [--lanes N] [--clients N]`, or `--seed N` for one.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::{Tally, Wishes, run};

/// Seeds after which progress is shown.
const PROGRESS_SEEDS: u64 = 1000;

/// The seed being played, for the line that a panic ends with.
static SEED: AtomicU64 = AtomicU64::new(0);

struct Arguments {
    from: u64,
    count: u64,
    wishes: Wishes,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            say(&text);
            return ExitCode::from(2);
        }
    };
    let again = arguments.wishes;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        say(&replay(SEED.load(Ordering::Relaxed), again));
    }));
    let mut tally = Tally::default();
    for nth in 0..arguments.count {
        let seed = arguments.from + nth;
        SEED.store(seed, Ordering::Relaxed);
        match run(seed, arguments.wishes) {
            Ok(of_seed) => tally.add(of_seed),
            Err(text) => {
                say(&format!("seed {seed}: {text}"));
                say(&replay(seed, arguments.wishes));
                return ExitCode::FAILURE;
            }
        }
        if (nth + 1) % PROGRESS_SEEDS == 0 {
            say(&format!("{} seeds: {tally:?}", nth + 1));
        }
    }
    say(&format!("{} seeds, no failure: {tally:?}", arguments.count));
    ExitCode::SUCCESS
}

fn parse(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { from: 1, count: 1000, wishes: Wishes::default() };
    let mut words = words;
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a number"))?;
        let number: u64 = value.parse().map_err(|_| format!("{word} needs a number, not {value}"))?;
        match word.as_str() {
            "--seed" => (arguments.from, arguments.count) = (number, 1),
            "--seeds" => arguments.count = number,
            "--from" => arguments.from = number,
            "--lanes" => arguments.wishes.lane_count = u16::try_from(number).ok().filter(|count| *count > 0),
            "--clients" => arguments.wishes.caller_count = usize::try_from(number).ok(),
            _ => {
                return Err(format!(
                    "{word} is not known; there are --seed --seeds --from --lanes --clients"
                ));
            }
        }
    }
    Ok(arguments)
}

fn replay(seed: u64, wishes: Wishes) -> String {
    let lanes = wishes.lane_count.map_or_else(String::new, |count| format!(" --lanes {count}"));
    let clients = wishes.caller_count.map_or_else(String::new, |count| format!(" --clients {count}"));
    format!("play it again: cargo run -p sim --profile quick -- --seed {seed}{lanes}{clients}")
}

/// A line on standard output; nothing can be done about one that has gone.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
