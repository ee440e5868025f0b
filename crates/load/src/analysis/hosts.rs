//! What the kernels of a run's hosts counted: of the machine that the result was written on, and of each agent's.

use std::collections::BTreeMap;

use super::Window;
use crate::float::float;
use crate::result::Run;

/// One host's counters, in the seconds that count.
pub(crate) struct Counted<'a> {
    /// The agent's name; empty: the machine that the result was written on.
    pub(crate) host: &'a str,
    seconds: Vec<&'a BTreeMap<String, f64>>,
}

/// Of each host of a run.
pub(crate) fn counted<'a>(run: &'a Run, window: &Window<'a>) -> Vec<Counted<'a>> {
    let own = Counted { host: "", seconds: window.seconds.iter().map(|second| &second.counters).collect() };
    let numbers = || window.seconds.iter().map(|second| second.second.number);
    let agents = run.end.iter().flat_map(|end| &end.agents).map(|agent| Counted {
        host: &agent.name,
        seconds: agent.numbered(numbers()).map(|second| &second.counters).collect(),
    });
    [own].into_iter().chain(agents).collect()
}

impl Counted<'_> {
    /// The mean over the seconds that tell it. None: no second does.
    pub(crate) fn mean(&self, of: impl Fn(&BTreeMap<String, f64>) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.seconds.iter().filter_map(|second| of(second)).collect();
        let count = float(u64::try_from(values.len()).expect("a length fits 64 bits"));
        (count > 0.0).then(|| values.iter().sum::<f64>() / count)
    }

    /// The share of all cpus that ran neither the load nor its server. None: the kernel doesn't say.
    pub(crate) fn others_share(&self) -> Option<f64> {
        let (mut others, mut all) = (0.0, 0.0);
        for second in &self.seconds {
            let sum = |names: &[&str]| -> Option<f64> {
                names.iter().map(|name| second.get(*name)).sum::<Option<f64>>()
            };
            let busy = sum(&["cpu_user", "cpu_system", "cpu_softirq", "cpu_irq"])?;
            others += (busy - sum(&["process_ran"])?).max(0.0);
            all += busy + sum(&["cpu_idle", "cpu_iowait"])?;
        }
        (all > 0.0).then(|| others / all)
    }
}

/// The share of all cpu time in a second that other machines took.
pub(crate) fn steal(counters: &BTreeMap<String, f64>) -> Option<f64> {
    let stolen = *counters.get("cpu_steal")?;
    let names = ["cpu_user", "cpu_system", "cpu_softirq", "cpu_irq", "cpu_idle", "cpu_iowait"];
    let others: f64 = names.into_iter().filter_map(|name| counters.get(name)).sum();
    (others + stolen > 0.0).then(|| stolen / (others + stolen))
}

/// The share of a second in which some task waited for a cpu.
pub(crate) fn pressure(counters: &BTreeMap<String, f64>) -> Option<f64> {
    counters.get("pressure_cpu").copied()
}
