//! The hosts that made a run together, a line each: what a sum would hide.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::view::Placed;
use crate::agents::told::{AgentRun, spreads_ns};
use crate::float::float;
use crate::number;
use crate::result::{Run, Saved};

/// Characters of a host's name.
const NAME: usize = 21;
/// Wall clocks that differ by more milliseconds than this are told: lines of two logs are compared by them.
const WALL_SKEW_MS_MAX: u64 = 1000;

/// Nothing, if one process made the run.
pub(super) fn lines(run: &Placed<'_>) -> Vec<String> {
    let agents = run.run.end.as_ref().map(|end| end.agents.as_slice()).unwrap_or_default();
    if agents.is_empty() {
        return Vec::new();
    }
    let mut lines =
        vec![format!("agents    {:<NAME$}{:>11}{:>10}{:>8}{:>20}", "", "replies", "lag p99", "cpu", "began")];
    for agent in agents {
        lines.push(of_one(agent, run));
        lines.extend(counted_line(agent, run));
        if let Some(failure) = &agent.failure {
            lines.push(format!("          {failure}"));
        }
        if let Some(ms) = agent.wall_skew_ms.filter(|ms| ms.unsigned_abs() > WALL_SKEW_MS_MAX) {
            lines.push(format!("          its wall clock is {ms} ms off; nothing here depends on it"));
        }
    }
    let (start, end) = spreads_ns(agents);
    if agents.len() > 1 {
        let [start, end] = [start, end].map(|ns| number::time(float(ns)));
        lines.push(format!("clocks    at most {start} apart at the start, {end} at the end"));
    }
    lines
}

/// One of them, for programs.
#[derive(Serialize)]
pub(super) struct Told {
    name: String,
    failure: Option<String>,
    replies: u64,
    send_lag_p99_ns: u64,
    thread_use: Vec<f64>,
    late_ns: u64,
    clock_error_ns: Option<u64>,
    clock_drift_ns: Option<i64>,
    wall_skew_ms: Option<i64>,
    /// What its kernel counted: means over the seconds that count.
    counters: BTreeMap<String, f64>,
}

/// Empty, if one process made the run.
pub(super) fn told(run: &Placed<'_>) -> Vec<Told> {
    let agents = run.run.end.iter().flat_map(|end| &end.agents);
    let told = |agent: &AgentRun| Told {
        name: agent.name.clone(),
        failure: agent.failure.clone(),
        replies: agent.answered,
        send_lag_p99_ns: lag_p99_ns(agent, run),
        thread_use: agent.thread_use.clone(),
        late_ns: agent.late_ns,
        clock_error_ns: agent.clock_before.map(|clock| clock.error_ns),
        clock_drift_ns: agent.drift_ns(),
        wall_skew_ms: agent.wall_skew_ms,
        counters: counters(agent, run),
    };
    agents.map(told).collect()
}

/// What its kernel counted, by name: means over the seconds that count and tell it.
fn counters(agent: &AgentRun, run: &Placed<'_>) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for second in agent.numbered(run.seconds.iter().map(|second| second.second.number)) {
        for (name, value) in &second.counters {
            let (sum, count) = sums.entry(name.clone()).or_default();
            *sum += value;
            *count += 1.0;
        }
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect()
}

/// Names of all numbers that [`second`] tells somewhere in a result.
pub(super) fn columns(saved: &Saved) -> BTreeSet<String> {
    let numbers = |run: &'_ Run| run.seconds.iter().map(|second| second.second.number).collect::<Vec<_>>();
    let runs = saved.runs.iter().flat_map(|run| numbers(run).into_iter().map(move |number| (run, number)));
    runs.flat_map(|(run, number)| second(run, number).into_keys()).collect()
}

/// What each agent did in a second, and what its kernel counted, as `AGENT/NAME`.
pub(super) fn second(run: &Run, number: u32) -> BTreeMap<String, f64> {
    let mut told = BTreeMap::new();
    for agent in run.end.iter().flat_map(|end| &end.agents) {
        for second in agent.numbered([number].into_iter()) {
            let lag = agent.send_lag([number].into_iter());
            let lag = (!lag.is_empty()).then(|| ("send_lag_p99_ns", float(lag.value_at_quantile(0.99))));
            let own = [("replies", float(second.answered))].into_iter().chain(lag);
            let counted = second.counters.iter().map(|(name, value)| (name.as_str(), *value));
            told.extend(own.chain(counted).map(|(name, value)| (format!("{}/{name}", agent.name), value)));
        }
    }
    told
}

/// Those that explain a tail. None: its kernel tells none of them.
fn counted_line(agent: &AgentRun, run: &Placed<'_>) -> Option<String> {
    let counters = counters(agent, run);
    let shown = [
        ("cpu_softirq", "softirq", " cpus"),
        ("context_switches", "switches", "/s"),
        ("tcp_retransmits", "retransmits", "/s"),
        ("cpu_steal", "steal", " cpus"),
    ];
    let shown = shown.into_iter().filter_map(|(name, word, unit)| {
        Some(format!("{word} {}{unit}", number::plain(*counters.get(name)?)))
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("          {}", shown.join(", ")))
}

/// Over the seconds that count.
fn lag_p99_ns(agent: &AgentRun, run: &Placed<'_>) -> u64 {
    agent.send_lag(run.seconds.iter().map(|second| second.second.number)).value_at_quantile(0.99)
}

fn of_one(agent: &AgentRun, run: &Placed<'_>) -> String {
    let lag = number::time(float(lag_p99_ns(agent, run)));
    let used = agent.thread_use_max().map_or_else(|| "–".to_owned(), number::percent);
    let began = agent.clock_before.map_or_else(
        || "–".to_owned(),
        |clock| format!("{} ± {}", number::time(float(agent.late_ns)), number::time(float(clock.error_ns))),
    );
    let name: String = agent.name.chars().take(NAME).collect();
    format!("          {name:<NAME$}{:>11}{lag:>10}{used:>8}{began:>20}", number::count(agent.answered))
}
