//! Gates of a load that several hosts made: the worst host's count, for in a sum of ten a single bad one is hardly seen.

use super::{Colour, Gate, above, cure_of_lag};
use crate::agents::told::{AgentRun, spreads_ns};
use crate::analysis::{Figures, Window};
use crate::float::float;
use crate::number;
use crate::result::Run;

/// Seconds of one number on different hosts may have been this far apart without a word: a hundredth of what they are.
const SPREAD_AMBER_S: f64 = 0.01;
/// Beyond a tenth of a second, the shortest span that is recorded, what is added was not seen together.
const SPREAD_RED_S: f64 = 0.1;

/// Puts the worst host's send lag and thread use in the place of all hosts', and looks at their clocks.
pub(super) fn judge(gates: &mut Vec<Gate>, run: &Run, figures: &Figures) {
    let Some(agents) = run.end.as_ref().map(|end| &end.agents).filter(|agents| !agents.is_empty()) else {
        return;
    };
    gates.extend(spread(agents));
    let busiest = agents.iter().filter_map(|agent| Some((agent.thread_use_max()?, agent)));
    if let Some((most, agent)) = busiest.max_by(|one, other| one.0.total_cmp(&other.0)) {
        let words = format!(
            "a thread of the load on {} used {:.0} % of its core: use more --threads, or one more agent",
            agent.name,
            most * 100.0
        );
        put(gates, above("load cpu", most, 0.80, 0.95, words));
    }
    let window = Window::of(run);
    let lag_ns = |agent: &AgentRun| {
        agent.send_lag(window.seconds.iter().map(|second| second.second.number)).value_at_quantile(0.99)
    };
    let latest = agents.iter().map(|agent| (lag_ns(agent), agent)).max_by_key(|(lag_ns, _)| *lag_ns);
    if let Some((lag_ns, agent)) = latest.filter(|_| run.head.rate.is_some() && figures.total.count > 0) {
        let share = float(lag_ns) / float(figures.total.response.value_at_quantile(0.5).max(1));
        let late = number::time(float(lag_ns));
        let words = format!("requests left {} up to {late} late (p99): {}", agent.name, cure_of_lag(run));
        put(gates, above("send lag", share, 0.05, 0.20, words));
    }
}

/// In the place of the one with its name.
fn put(gates: &mut Vec<Gate>, gate: Gate) {
    match gates.iter_mut().find(|known| known.name == gate.name) {
        Some(known) => *known = gate,
        None => gates.push(gate),
    }
}

/// How far apart seconds of one number can have been.
fn spread(agents: &[AgentRun]) -> Option<Gate> {
    if agents.len() < 2 {
        return None;
    }
    if let Some(agent) = agents.iter().find(|agent| agent.clock_before.is_none()) {
        let words = format!("nobody knows how far the clock of {} is off", agent.name);
        return Some(Gate { name: "agents' clocks".to_owned(), value: 0.0, colour: Colour::Red, words });
    }
    let (start_ns, end_ns) = spreads_ns(agents);
    let seconds = float(start_ns.max(end_ns)) / 1e9;
    let words = format!(
        "seconds that were added may have been {} apart: a host began late, its clock drifts, or the way to it is long",
        number::time(seconds * 1e9)
    );
    Some(above("agents' clocks", seconds, SPREAD_AMBER_S, SPREAD_RED_S, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use crate::agents::clock::Offset;
    use crate::agents::message::Reported;
    use crate::agents::told::AgentSecond;
    use crate::analysis::gates::gates;
    use crate::analysis::tests::run;
    use crate::record::Second;
    use crate::result::RunHead;
    use crate::workload::Operation;

    fn agent(name: &str, lags_ns: [u64; 2], thread_use: f64, late_ns: u64) -> AgentRun {
        let second = |ns: &u64| {
            let mut second = Second::new([Operation::Get].into_iter());
            second.send_lag.record_n(*ns, 100).unwrap();
            AgentSecond::of(&Reported { second, counters: BTreeMap::new() })
        };
        let clock = Some(Offset { offset_ns: 0, error_ns: 1000 });
        AgentRun {
            name: name.to_owned(),
            thread_use: vec![0.1, thread_use],
            late_ns,
            clock_before: clock,
            clock_after: clock,
            seconds: lags_ns.iter().map(second).collect(),
            ..AgentRun::default()
        }
    }

    /// Two seconds behind a first one that does not count, at a millisecond each.
    fn of(agents: Vec<AgentRun>) -> Vec<Gate> {
        let head = RunHead { rate: Some(2000.0), warm_up_s: Some(1), ..RunHead::default() };
        let mut run = run(head, &[(1_000_000, 200), (1_000_000, 200)]);
        run.end.as_mut().unwrap().agents = agents;
        gates(&run, &Figures::of(&run))
    }

    fn check(agents: Vec<AgentRun>, name: &str, want: Colour, words: &str) {
        let gates = of(agents);
        let mut found = gates.iter().filter(|gate| gate.name == name);
        let gate = found.next().unwrap_or_else(|| panic!("no {name} in {gates:?}"));
        assert!(gate.colour == want && gate.words.contains(words), "{gate:?}");
        assert_eq!(found.next(), None, "one of a name");
    }

    /// With what this machine and two agents, of which one has nothing to tell, counted in the first and in the second second.
    fn counted(name: &str, own: [f64; 2], theirs: [f64; 2], want: Colour, words: &str) {
        let head = RunHead { rate: Some(2000.0), warm_up_s: Some(1), ..RunHead::default() };
        let mut run = run(head, &[(1_000_000, 200), (1_000_000, 200)]);
        let counters = |value: f64| -> BTreeMap<String, f64> {
            let [steal, pressure] = if name == "steal" { [value, 0.0] } else { [0.0, value] };
            [("cpu_steal", steal), ("cpu_idle", 1.0 - steal), ("pressure_cpu", pressure)]
                .map(|(name, value)| (name.to_owned(), value))
                .into()
        };
        for (second, value) in run.seconds.iter_mut().zip(own) {
            second.counters = counters(value);
        }
        let mut agents = vec![agent("h1:7411", [10, 10], 0.3, 0), agent("h2:7411", [10, 10], 0.3, 0)];
        for (second, value) in agents[1].seconds.iter_mut().zip(theirs) {
            second.counters = counters(value);
        }
        run.end.as_mut().unwrap().agents = agents;
        let gates = gates(&run, &Figures::of(&run));
        let found: Vec<&Gate> = gates.iter().filter(|gate| gate.name == name).collect();
        let [gate] = found[..] else { panic!("one {name} in {gates:?}") };
        assert!(gate.colour == want && gate.words.contains(words), "{gate:?}");
    }

    #[test]
    fn a_host_whose_cpus_were_taken_is_named() {
        counted("steal", [0.0, 0.0], [0.0, 0.03], Colour::Amber, "3 % of the cpus on h2:7411");
        counted("steal", [0.0, 0.09], [0.0, 0.03], Colour::Red, "9 % of the cpus: ");
        counted("steal", [0.5, 0.0], [0.5, 0.0], Colour::Green, "");
        counted("pressure", [0.0, 0.1], [0.0, 0.7], Colour::Red, "waited for a cpu on h2:7411 in 70 %");
    }

    #[test]
    fn the_worst_host_counts_and_is_named() {
        let good = || agent("h1:7411", [10, 10], 0.3, 0);
        for name in ["send lag", "load cpu", "agents' clocks"] {
            check(vec![good(), agent("h2:7411", [10, 10], 0.3, 0)], name, Colour::Green, "");
        }
        check(vec![good(), agent("h2:7411", [10, 300_000], 0.3, 0)], "send lag", Colour::Red, "left h2:7411");
        // The first second does not count.
        check(vec![good(), agent("h2:7411", [900_000, 10], 0.3, 0)], "send lag", Colour::Green, "");
        check(vec![agent("h0:7411", [10, 10], 0.97, 0), good()], "load cpu", Colour::Red, "on h0:7411");
        let late = |late_ns| vec![good(), agent("h2:7411", [10, 10], 0.3, late_ns)];
        check(late(20_000_000), "agents' clocks", Colour::Amber, "20.0 ms apart");
        check(late(200_000_000), "agents' clocks", Colour::Red, "200 ms apart");
        let mut unknown = late(0);
        unknown[0].clock_before = None;
        check(unknown, "agents' clocks", Colour::Red, "clock of h1:7411");
        assert!(
            of(vec![good()]).iter().all(|gate| gate.name != "agents' clocks"),
            "one alone is never apart"
        );
    }
}
