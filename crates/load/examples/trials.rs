//! The tables of docs/statistics.md: how often the procedure of a comparison is wrong on simulated machines.
//!
//! `cargo run --release -p load --example trials`: some seconds, the same figures every time.

use std::io::{self, Write};

use load::statistics::trial::{Disturbance, Layout, Noise, Shape, Tally, Trial};

/// Simulated experiments a figure: a share of 5 % is right to half a percent.
const EXPERIMENTS: usize = 10_000;
const SEED: u64 = 1;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "A against A called different, 10 pairs, runs that differ by 2 %")?;
    writeln!(out, "| machine | blocks | A before B | balanced chance |\n|---|---|---|---|")?;
    for (name, disturbance) in [
        ("quiet", Disturbance::None),
        ("drifts by 5 %", Disturbance::Drift(0.05)),
        ("wanders by 3 %", Disturbance::Wander(0.03)),
        ("steps by 5 %", Disturbance::Step(0.05)),
        ("first of a pair 1 % slower", Disturbance::FirstInPair(0.01)),
    ] {
        let noise = Noise { run: 0.02, shape: Shape::Normal, disturbance };
        let shares = [Layout::Blocks, Layout::Alternating, Layout::Random].map(|layout| {
            let tally = tally(10, 0.0, noise, layout);
            percent(&tally, tally.differs_count)
        });
        writeln!(out, "| {name} | {} |", shares.join(" | "))?;
    }
    writeln!(out, "\nIntervals of 95 % that hold the truth, runs that differ by 5 %")?;
    writeln!(out, "| runs | 6 pairs | 10 pairs | 20 pairs |\n|---|---|---|---|")?;
    for (name, shape) in [
        ("normal", Shape::Normal),
        ("heavy tails", Shape::Heavy),
        ("skewed", Shape::Skewed),
        ("one in ten wild", Shape::Wild),
    ] {
        let noise = Noise { run: 0.05, shape, disturbance: Disturbance::None };
        let shares = [6, 10, 20].map(|pairs_count| {
            let tally = tally(pairs_count, 0.1, noise, Layout::Random);
            percent(&tally, tally.covered_count)
        });
        writeln!(out, "| {name} | {} |", shares.join(" | "))?;
    }
    writeln!(out, "\nSlower builds called worse (more than 5 %, surely), 10 pairs, 5 % of drift")?;
    writeln!(out, "| runs differ by | +5 % | +10 % | +20 % | +30 % |\n|---|---|---|---|---|")?;
    for run in [0.02, 0.05, 0.12, 0.20] {
        let noise = Noise { run, shape: Shape::Normal, disturbance: Disturbance::Drift(0.05) };
        let shares = [0.05, 0.10, 0.20, 0.30].map(|effect| {
            let tally = tally(10, effect, noise, Layout::Random);
            percent(&tally, tally.worse_count)
        });
        writeln!(out, "| {:.0} % | {} |", run * 100.0, shares.join(" | "))?;
    }
    Ok(())
}

fn tally(pairs_count: usize, effect: f64, noise: Noise, layout: Layout) -> Tally {
    let trial = Trial { pairs_count, effect, noise, layout };
    trial.repeat(EXPERIMENTS, SEED).expect("the pairs are enough")
}

fn percent(tally: &Tally, count: usize) -> String {
    format!("{:.1} %", tally.share(count) * 100.0)
}
