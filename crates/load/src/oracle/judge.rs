//! Is what differs called so, and what is alike not?
//!
//! First by [`trial`](crate::statistics::trial), the judgement alone on simulated noise; then the whole path, as `bench compare`
//! takes it: loads of made-up servers, their seconds, the saved result, the [`Comparison`].

use std::io;

use super::server::{Behaviour, Service};
use super::simulate::Load;
use super::{Check, Depth};
use crate::analysis::Metric;
use crate::analysis::comparison::{Comparison, Declared};
use crate::chance::Chance;
use crate::engine::Pace;
use crate::record::SECOND_NS;
use crate::result::{Head, Line, SCHEMA, read, write};
use crate::statistics::trial::{Disturbance, Layout, Noise, Shape, Trial};
use crate::statistics::verdict::{Margin, Word};

/// Pairs of an experiment.
const PAIRS: usize = 10;
/// Experiments of which four in five must find a change.
const FINDING_COUNT: usize = 200;
/// A against A may be called different as often as this, with 5 % drift over the experiment.
const FALSE_SHARE_MAX: f64 = 0.06;
/// Changes of 10 % and 30 % are found as often as this.
const FOUND_SHARE_MIN: f64 = 0.8;
/// The made-up server: requests and services a second.
const ARRIVALS: f64 = 500.0;
const SERVICES: f64 = 2_500.0;

/// All of them.
pub fn checks(depth: Depth) -> Vec<Check> {
    // Of so many comparisons of a server with itself, 5 % are called different by chance, and more than these in one case of
    // a hundred.
    let (trials_count, count, different_max) =
        if depth == Depth::Quick { (2_000, 30, 5) } else { (10_000, 200, 18) };
    let mut checks = trials(trials_count);
    checks.extend(whole_path(count, different_max));
    checks
}

fn trials(count: usize) -> Vec<Check> {
    let trial = |effect: f64, run: f64| {
        let noise = Noise { run, shape: Shape::Normal, disturbance: Disturbance::Drift(0.05) };
        Trial { pairs_count: PAIRS, effect, noise, layout: Layout::Random }
    };
    let refused = |name: &str| Check::that(name, "an answer", "none: too few pairs", false);
    let mut checks = Vec::new();
    let name = format!("{count} simulated A/A with 5 % drift: different");
    checks.push(trial(0.0, 0.02).repeat(count, 20_26).map_or_else(
        |_| refused(&name),
        |tally| {
            let share = tally.share(tally.differs_count);
            let expected = format!("at most {} %", FALSE_SHARE_MAX * 100.0);
            Check::that(&name, expected, format!("{:.2} %", share * 100.0), share <= FALSE_SHARE_MAX)
        },
    ));
    for (figure, effect, run) in [("p50 + 10 %", 0.10, 0.05), ("p99 + 30 %", 0.30, 0.12)] {
        let name = format!("{FINDING_COUNT} simulated A/B, {figure}: worse");
        checks.push(trial(effect, run).repeat(FINDING_COUNT, 7).map_or_else(
            |_| refused(&name),
            |tally| {
                let share = tally.share(tally.worse_count);
                let expected = format!("at least {} %", FOUND_SHARE_MIN * 100.0);
                Check::that(&name, expected, format!("{:.1} %", share * 100.0), share >= FOUND_SHARE_MIN)
            },
        ));
    }
    checks
}

fn whole_path(count: usize, different_max: usize) -> Vec<Check> {
    let mut seeds = Chance::new(20_26);
    let p50_ns = 1e9 * std::f64::consts::LN_2 / (SERVICES - ARRIVALS);
    // A fifth more at the median, for everybody.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tens of microseconds")]
    let delay_ns = (0.2 * p50_ns) as u64;
    let mut words = |delay_ns: u64| -> Result<(Vec<Word>, usize), String> {
        let (mut words, mut dropped_count) = (Vec::new(), 0);
        for _ in 0..count {
            let comparison = experiment(delay_ns, seeds.next())?;
            dropped_count += comparison.pairs.iter().filter(|pair| !pair.dropped.is_empty()).count();
            words.push(comparison.primary().verdict.map_or(Word::CantTell, |verdict| verdict.word));
        }
        Ok((words, dropped_count))
    };
    let mut checks = Vec::new();
    let name = |what: &str| format!("{count} whole comparisons, {what}");
    match words(0) {
        Err(problem) => checks.push(Check::that(name("the same server"), "an answer", problem, false)),
        Ok((words, dropped_count)) => {
            let differs = words.iter().filter(|word| !matches!(word, Word::Same | Word::CantTell)).count();
            checks.push(Check::that(
                name("the same server: different"),
                format!("at most {different_max} (5 % by chance)"),
                differs.to_string(),
                differs <= different_max,
            ));
            checks.push(Check::equal(name("the same server: pairs dropped"), 0, dropped_count));
        }
    }
    match words(delay_ns) {
        Err(problem) => checks.push(Check::that(name("a slower one"), "an answer", problem, false)),
        Ok((words, _)) => {
            let worse = words.iter().filter(|word| **word == Word::Worse).count();
            let least = count * 4 / 5;
            let expected = format!("at least {least}");
            checks.push(Check::that(name("p50 + 20 %: worse"), expected, worse.to_string(), worse >= least));
            let open = words.iter().filter(|word| **word == Word::CantTell).count();
            let most = count * 3 / 10;
            let expected = format!("at most {most}");
            checks.push(Check::that(
                name("p50 + 20 %: can't tell"),
                expected,
                open.to_string(),
                open <= most,
            ));
        }
    }
    checks
}

/// Ten pairs of a queue with itself, the second of each pair with a delay for every reply; the same keys and times in both.
fn experiment(delay_ns: u64, seed: u64) -> Result<Comparison, String> {
    let mut chance = Chance::new(seed);
    let declared = Declared {
        name_a: "as it is".to_owned(),
        name_b: "with a delay".to_owned(),
        metric: Metric::P50,
        margin: Margin::FIVE_PERCENT,
        claims: Vec::new(),
        may_differ: Vec::new(),
        gates: Vec::new(),
        servers_kept: Vec::new(),
    };
    let plan = serde_json::json!({ "declared": declared });
    let head = Head { schema: SCHEMA, kind: "compare".to_owned(), plan, ..Head::default() };
    let mut file = Vec::new();
    let mut put = |line: &Line| write(&mut file, line).map_err(|error: io::Error| error.to_string());
    put(&Line::Head(head))?;
    let mut number = 0;
    for pair in 0..u32::try_from(PAIRS).expect("a small count") {
        let plan_seed = chance.next();
        for (arm, delay_ns) in [("a", 0), ("b", delay_ns)] {
            let behaviour = Behaviour {
                service: Service::Exponential(1e9 / SERVICES),
                delay_ns,
                value_size: 1,
                seed: chance.next(),
                ..Behaviour::default()
            };
            let mut load = Load::new(Pace::Poisson(ARRIVALS), SECOND_NS, 4, behaviour);
            load.plan.seed = plan_seed;
            let mut run = load.simulate().run;
            (run.head.run, run.head.arm, run.head.pair) = (number, arm.to_owned(), Some(pair));
            put(&Line::Run(run.head))?;
            for mut second in run.seconds {
                second.run = number;
                put(&Line::Second(second))?;
            }
            let mut end = run.end.ok_or("a simulated run ends")?;
            end.run = number;
            put(&Line::RunEnd(end))?;
            number += 1;
        }
    }
    put(&Line::End)?;
    Comparison::of(&read(&file[..])?).ok_or_else(|| "the result is none of a comparison".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_called_so_and_what_is_alike_is_not() {
        super::super::assert_all(&trials(1_000));
        super::super::assert_all(&whole_path(12, 3));
    }
}
