//! What a result keeps of each agent: enough to judge the worst of them by itself, where the sums would hide it.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock::{Mark, Offset, spread_ns};
use super::message::Reported;
use crate::record::{packed, times};

/// One agent in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentRun {
    /// As it was named: its address.
    pub name: String,
    /// It was lost, or its load failed: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Replies.
    pub answered: u64,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Of each of its threads, the share of its core that it used.
    pub thread_use: Vec<f64>,
    /// From the instant at which all were to begin until its last thread did.
    pub late_ns: u64,
    /// Its clock before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_before: Option<Offset>,
    /// Its clock after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_after: Option<Offset>,
    /// Its wall clock minus the coordinator's, in milliseconds. Nothing is computed from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_skew_ms: Option<i64>,
    /// Its seconds, from 0.
    pub seconds: Vec<AgentSecond>,
}

/// One of an agent's seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSecond {
    /// Replies.
    pub answered: u64,
    /// Intended to sent, packed: a run of hours over many agents has thousands of them.
    send_lag: String,
    /// What its kernel counted meanwhile, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, f64>,
}

/// A histogram as its text.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Packed(#[serde(with = "packed")] Histogram<u64>);

impl AgentSecond {
    /// Of what the agent sent.
    pub fn of(reported: &Reported) -> AgentSecond {
        let Reported { second, counters } = reported;
        let text = serde_json::to_value(Packed(second.send_lag.clone()));
        let text = text.ok().and_then(|text| text.as_str().map(str::to_owned));
        AgentSecond {
            answered: second.count(),
            send_lag: text.expect("a histogram is packed as text"),
            counters: counters.clone(),
        }
    }

    /// Intended to sent. Empty, if the file has been spoilt.
    fn send_lag(&self) -> Histogram<u64> {
        let text = serde_json::Value::String(self.send_lag.clone());
        serde_json::from_value::<Packed>(text).map_or_else(|_| times(), |packed| packed.0)
    }
}

impl AgentRun {
    /// Its seconds with these numbers, as far as it has them.
    pub fn numbered(&self, numbers: impl Iterator<Item = u32>) -> impl Iterator<Item = &AgentSecond> {
        numbers.filter_map(|number| self.seconds.get(usize::try_from(number).ok()?))
    }

    /// Intended to sent, over the seconds with these numbers.
    pub fn send_lag(&self, numbers: impl Iterator<Item = u32>) -> Histogram<u64> {
        let mut all = times();
        for second in self.numbered(numbers) {
            all.add(second.send_lag()).expect("all histograms have one shape");
        }
        all
    }

    /// The busiest thread's share of its core.
    pub fn thread_use_max(&self) -> Option<f64> {
        self.thread_use.iter().copied().reduce(f64::max)
    }

    /// By how much its clock ran ahead of the coordinator's during the run, in nanoseconds. None: it was lost before the end.
    pub fn drift_ns(&self) -> Option<i64> {
        Some(self.clock_after?.offset_ns.saturating_sub(self.clock_before?.offset_ns))
    }

    fn began(&self) -> Option<Mark> {
        let at_ns = i64::try_from(self.late_ns).unwrap_or(i64::MAX);
        Some(Mark { at_ns, error_ns: self.clock_before?.error_ns })
    }

    /// A clock that runs ahead ends its seconds early. The start was given by the offset that was measured then, whatever the
    /// true one was, so that only the later measure's bound counts.
    fn ended(&self) -> Option<Mark> {
        let at_ns = self.began()?.at_ns.saturating_sub(self.drift_ns()?);
        Some(Mark { at_ns, error_ns: self.clock_after?.error_ns })
    }
}

/// How far agents' seconds of one number can have been apart, in nanoseconds: at the start, and at the end of the run.
pub fn spreads_ns(agents: &[AgentRun]) -> (u64, u64) {
    let of =
        |mark: fn(&AgentRun) -> Option<Mark>| spread_ns(&agents.iter().filter_map(mark).collect::<Vec<_>>());
    (of(AgentRun::began), of(AgentRun::ended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Second;
    use crate::workload::Operation;

    fn agent(late_ns: u64, before: (i64, u64), after: (i64, u64)) -> AgentRun {
        let offset = |(offset_ns, error_ns)| Some(Offset { offset_ns, error_ns });
        AgentRun { late_ns, clock_before: offset(before), clock_after: offset(after), ..AgentRun::default() }
    }

    /// Where zeros of clocks are is not what counts: what changes between two measures is.
    #[test]
    fn seconds_are_apart_by_lateness_drift_and_bounds() {
        let still = agent(1_000, (5_000_000, 100), (5_000_000, 100));
        let fast = agent(0, (-9_000_000, 50), (-8_400_000, 70));
        assert_eq!(fast.drift_ns(), Some(600_000));
        // 1,000 and bounds of 100 and 50; then the fast one is 600,000 early, with bounds of 100 and 70.
        assert_eq!(spreads_ns(&[still.clone(), fast.clone()]), (1_150, 601_000 + 170));
        assert_eq!(spreads_ns(std::slice::from_ref(&still)), (0, 0));
        let lost = AgentRun { clock_after: None, ..fast };
        assert_eq!(spreads_ns(&[still, lost]), (1_150, 0), "nobody knows how a lost one ended");
    }

    #[test]
    fn the_lag_of_some_seconds_is_added_and_survives_the_file() {
        let second = |ns: u64| {
            let mut second = Second::new([Operation::Get].into_iter());
            second.send_lag.record_n(ns, 10).unwrap();
            second.operations[0].response.record_n(ns, 9).unwrap();
            second.begun = 10;
            AgentSecond::of(&Reported { second, counters: BTreeMap::from([("cpu_steal".to_owned(), 0.5)]) })
        };
        let run =
            AgentRun { seconds: vec![second(9_000_000), second(100), second(200)], ..AgentRun::default() };
        let read: AgentRun = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(read, run);
        assert_eq!(read.seconds[0].answered, 9, "what is under way is not answered");
        let lag = read.send_lag(1..7);
        assert_eq!((lag.len(), lag.max()), (20, 200), "the first was left out, and the last are not there");
        let spoilt = AgentSecond { answered: 0, send_lag: "?".to_owned(), counters: BTreeMap::new() };
        assert!(spoilt.send_lag().is_empty());
    }
}
