//! Loads whose response times follow from a formula, in memory: any difference is the instrument's.
//!
//! *Freeze.* At a rate, a server that stands still for S of T seconds makes the share S/T of all requests wait, evenly from
//! zero to S. So the quantile q > 1 − S/T of the response is S − (1 − q)·T. Requests leave when they are due, freeze or not, so
//! the service time says the same. In a closed loop nobody is due meanwhile: as many long requests as connections is all that
//! shows, and the p99 shows nothing (coordinated omission).
//!
//! *Queue.* One worker, Poisson arrivals at λ, exponential services at μ: the response is exponential with rate μ − λ.

use hdrhistogram::Histogram;

use super::server::{Behaviour, Service};
use super::simulate::{Load, Simulated};
use super::{Check, Depth};
use crate::analysis::Figures;
use crate::analysis::gates::{Colour, gates};
use crate::chance::Chance;
use crate::engine::Pace;
use crate::float::{float, nanoseconds};
use crate::record::{Ending, Record, SECOND_NS, Second, times};
use crate::result::{Line, SavedSecond, read, write};
use crate::statistics::predictability::{LevelRun, SpreadOverLoad, SweepLevel};
use crate::workload::Operation;

const MS: u64 = 1_000_000;
/// What a histogram may be off by.
const RESOLUTION: f64 = 0.001;
/// What a seeded queue of hundreds of thousands may be off from its limit.
const QUEUE_TOLERANCE: f64 = 0.02;

/// All of them.
pub fn checks(depth: Depth) -> Vec<Check> {
    let mut checks = freeze();
    checks.extend(freeze_closed());
    checks.extend(stall());
    checks.extend(queue(depth));
    checks.extend(recording());
    checks.extend(sweep());
    checks
}

/// Response times of everything that was answered, the cut second included.
fn response(simulated: &Simulated) -> Histogram<u64> {
    let mut all = times();
    for second in &simulated.run.seconds {
        all.add(second.second.response()).expect("all histograms have one shape");
    }
    all
}

fn service(simulated: &Simulated) -> Histogram<u64> {
    let mut all = times();
    for operation in simulated.run.seconds.iter().flat_map(|second| &second.second.operations) {
        all.add(&operation.service).expect("all histograms have one shape");
    }
    all
}

/// 5 of 10 seconds, as in the classic report (wrk, issue 99): p75 2.5 s, p90 4 s, p99 4.9 s.
fn freeze() -> Vec<Check> {
    let behaviour = Behaviour { freeze_ns: Some((2_000 * MS, 7_000 * MS)), ..Behaviour::default() };
    let simulated = Load::new(Pace::Even(1000.0), 10_000 * MS, 4, behaviour).simulate();
    let (response, service) = (response(&simulated), service(&simulated));
    let mut checks = vec![Check::equal("freeze 5 of 10 s: replies", 10_000, response.len())];
    for (name, quantile, want_s) in [("p75", 0.75, 2.5), ("p90", 0.9, 4.0), ("p99", 0.99, 4.9)] {
        let got = float(response.value_at_quantile(quantile));
        checks.push(Check::time(
            format!("freeze 5 of 10 s: response {name}"),
            want_s * 1e9,
            got,
            want_s * 1e6,
        ));
    }
    let waited = response.count_between(MS, u64::MAX);
    checks.push(Check::equal("freeze 5 of 10 s: requests that waited", 5_000, waited));
    checks.push(Check::that(
        "freeze 5 of 10 s: service",
        "as the response",
        if service == response { "as the response" } else { "another" },
        service == response,
    ));
    checks
}

/// The same by a closed loop: one long request a connection, and a p99 that knows nothing.
fn freeze_closed() -> Vec<Check> {
    let behaviour =
        Behaviour { freeze_ns: Some((1_000 * MS, 2_000 * MS)), delay_ns: MS, ..Behaviour::default() };
    let simulated = Load::new(Pace::Closed, 3_000 * MS, 8, behaviour).simulate();
    let service = service(&simulated);
    let p99 = float(service.value_at_quantile(0.99));
    vec![
        Check::equal("freeze, closed loop: long requests", 8, service.count_between(500 * MS, u64::MAX)),
        Check::time("freeze, closed loop: p99 that omits them", 1e6, p99, 1e6 * RESOLUTION),
    ]
}

/// The load itself stands still: the user waits as for a frozen server, the server is not blamed, and the run is no evidence.
fn stall() -> Vec<Check> {
    let mut load = Load::new(Pace::Even(1000.0), 10_000 * MS, 4, Behaviour::default());
    load.stall_ns = 2_000 * MS..7_000 * MS;
    let simulated = load.simulate();
    let p90 = float(response(&simulated).value_at_quantile(0.9));
    let gates = gates(&simulated.run, &Figures::of(&simulated.run));
    let lag = gates.iter().find(|gate| gate.name == "send lag");
    let colour = lag.map_or("none".to_owned(), |gate| format!("{:?}", gate.colour));
    vec![
        Check::time("load held up 5 of 10 s: response p90", 4e9, p90, 4e9 * RESOLUTION),
        Check::equal("load held up 5 of 10 s: service max, ns", 0, service(&simulated).max()),
        Check::equal("load held up 5 of 10 s: send lag gate", format!("{:?}", Colour::Red), colour),
    ]
}

fn queue(depth: Depth) -> Vec<Check> {
    let (services, arrivals) = (100_000.0, 50_000.0);
    let seconds = if depth == Depth::Quick { 6 } else { 30 };
    let behaviour = Behaviour {
        service: Service::Exponential(1e9 / services),
        value_size: 1,
        seed: 20_26,
        ..Behaviour::default()
    };
    let load = Load::new(Pace::Poisson(arrivals), seconds * SECOND_NS, 4, behaviour);
    let simulated = load.simulate();
    let response = response(&simulated);
    let name = "queue M/M/1";
    let mean = 1e9 / (services - arrivals);
    let mut checks =
        vec![Check::time(format!("{name}: mean"), mean, response.mean(), mean * QUEUE_TOLERANCE)];
    for (figure, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let want = -(1.0_f64 - quantile).ln() * mean;
        let got = float(response.value_at_quantile(quantile));
        checks.push(Check::time(format!("{name}: {figure}"), want, got, want * QUEUE_TOLERANCE));
    }
    let faults: u64 = simulated.run.seconds.iter().map(|second| second.second.faults()).sum();
    let replies = format!("{} of {}, {faults} faults", response.len(), simulated.asked_count);
    checks.push(Check::equal(
        format!("{name}: replies"),
        format!("{0} of {0}, 0 faults", simulated.asked_count),
        replies,
    ));
    checks
}

/// What is recorded is what happened: by several engines as by one, to a thousandth, and after it was saved.
fn recording() -> Vec<Check> {
    let mut chance = Chance::new(99);
    let mut one = Record::new(&[Operation::Get, Operation::Set], 0);
    let mut parts: Vec<Record> = (0..4).map(|_| Record::new(&[Operation::Get, Operation::Set], 0)).collect();
    let mut exact = Vec::new();
    for number in 0..100_000_u64 {
        let now_ns = number * 30_000;
        // From microseconds to seconds, as a tail has them.
        let lasted_ns = nanoseconds(1e-6 * chance.share().powi(-2)).min(now_ns);
        let sent_ns = now_ns - lasted_ns / 2;
        let operation = usize::from(chance.below(2) == 1);
        let ending = match chance.below(100) {
            0 => Ending::Error,
            1 => Ending::Miss,
            2 => Ending::Wrong,
            _ => Ending::Value,
        };
        exact.push(lasted_ns);
        let part = usize::try_from(chance.below(4)).expect("below four");
        for record in [&mut one, &mut parts[part]] {
            record.advance(now_ns);
            record.begun(0);
            record.sent(lasted_ns / 2);
            record.received(operation, ending, now_ns - lasted_ns, sent_ns, now_ns);
        }
    }
    let seconds = |mut record: Record| -> Vec<Second> {
        record.advance(3 * SECOND_NS);
        std::iter::from_fn(|| record.take()).collect()
    };
    let one = seconds(one);
    let mut merged: Vec<Second> = Vec::new();
    for part in parts {
        for (at, second) in seconds(part).into_iter().enumerate() {
            match merged.get_mut(at) {
                Some(sum) => sum.add(&second),
                None => merged.push(second),
            }
        }
    }
    let mut response = times();
    one.iter().for_each(|second| response.add(second.response()).expect("all histograms have one shape"));
    exact.sort_unstable();
    let mut worst = 0.0_f64;
    for (quantile, at) in [(0.5, 50_000), (0.9, 90_000), (0.99, 99_000), (0.999, 99_900), (1.0, 100_000)] {
        let want = float(exact[at - 1]);
        worst = worst.max((float(response.value_at_quantile(quantile)) / want - 1.0).abs());
    }
    let saved = saved(&one);
    let same = |is_same: bool| if is_same { "the same" } else { "another" };
    vec![
        Check::that("recording: four engines' sum and one's", "the same", same(one == merged), one == merged),
        Check::number("recording: quantiles off by, at most", 0.0, worst, RESOLUTION),
        Check::that("recording: saved and read back", "the same", same(saved == one), saved == one),
    ]
}

/// Written as a result's file is, and read from that.
fn saved(seconds: &[Second]) -> Vec<Second> {
    let mut file = Vec::new();
    let head = crate::result::Head { schema: crate::result::SCHEMA, ..crate::result::Head::default() };
    let mut lines = vec![Line::Head(head), Line::Run(crate::result::RunHead::default())];
    lines.extend(seconds.iter().map(|second| {
        Line::Second(SavedSecond { run: 0, second: second.clone(), counters: Default::default() })
    }));
    let written = lines.iter().try_for_each(|line| write(&mut file, line));
    let read = if written.is_ok() { read(&file[..]).unwrap_or_default() } else { Default::default() };
    read.runs.into_iter().flat_map(|run| run.seconds).map(|second| second.second).collect()
}

/// The published figure of a perfectly steady server, from the socket's side up to the formula: one worker that takes c for a
/// request answers N connections in N·c, so ten levels of 10 to 100 have σ = 30.28·c, and σ/mean = 0.5505.
fn sweep() -> Vec<Check> {
    let cost_ns = MS;
    let levels: Vec<SweepLevel> = (1..=10)
        .map(|tens| {
            let count = 10 * tens;
            let behaviour =
                Behaviour { service: Service::Fixed(cost_ns), value_size: 1, ..Behaviour::default() };
            let mut simulated = Load::new(Pace::Closed, 3_000 * MS, count, behaviour).simulate();
            // The first round of a level finds the worker idle.
            simulated.run.head.warm_up_s = Some(1);
            let figures = Figures::of(&simulated.run);
            let total = &figures.total;
            SweepLevel {
                in_flight: float(u64::try_from(count).expect("a small count")),
                runs: vec![LevelRun {
                    rtt_mean_ns: total.response.mean(),
                    rtt_deviation_ns: total.response.stdev(),
                    requests_per_second: total.per_second,
                }],
            }
        })
        .collect();
    let Some(spread) = SpreadOverLoad::of(&levels) else {
        return vec![Check::that("sweep with RTT = c·N", "a figure", "none", false)];
    };
    let cost = float(cost_ns);
    vec![
        Check::number("sweep with RTT = c·N: σ/c", 30.2765, spread.deviation_ns / cost, 0.03),
        Check::number("sweep with RTT = c·N: σ/mean", 0.5505, spread.relative, 0.0005),
        Check::number("sweep with RTT = c·N: Little's product", 1.0, spread.little.ratio, 0.001),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_known_answers_are_found() {
        super::super::assert_all(&checks(Depth::Quick));
    }
}
