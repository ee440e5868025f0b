//! A result as one flat object: what `--json` prints, for programs. Times are nanoseconds, shares are of one.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::gates::{Gate, gates};
use super::{Figures, Share, Window};
use crate::float::float;
use crate::result::{Run, Saved};
use crate::statistics::quantiles::is_resolved;

/// The whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    /// `run`, `search`, `compare` or `reproduce`.
    pub kind: String,
    /// Of the program that made it.
    pub version: String,
    /// Whether nothing is missing at the end.
    pub is_complete: bool,
    /// In the order in which they ran.
    pub runs: Vec<RunAccount>,
}

/// One run, over the seconds that count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunAccount {
    /// Counted from 0.
    pub run: u32,
    /// Which set-up.
    pub arm: String,
    /// Which pair.
    pub pair: Option<u32>,
    /// What is swept, and where on it this is.
    pub level: Option<(String, f64)>,
    /// Where the server was.
    pub address: String,
    /// Requests a second that were meant.
    pub rate: Option<f64>,
    /// Seconds that count.
    pub duration_s: f64,
    /// Seconds left out in front of them.
    pub warm_up_s: usize,
    /// All operations together.
    pub total: ShareAccount,
    /// Each operation by its name.
    pub operations: Vec<(String, ShareAccount)>,
    /// Intended to sent.
    pub send_lag_ns: TimesAccount,
    /// Of each thread of the load, the share of its core.
    pub thread_use: Vec<f64>,
    /// CPU time of the server for a reply.
    pub server_cpu_ns: Option<f64>,
    /// What was looked at, and how bad it is.
    pub gates: Vec<Gate>,
}

/// Replies of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareAccount {
    /// How many.
    pub count: u64,
    /// A second.
    pub per_second: f64,
    /// Replies that are errors.
    pub errors: u64,
    /// Replies that say that there is nothing.
    pub misses: u64,
    /// Values that are not what was set.
    pub wrong: u64,
    /// Intended to received.
    pub response_ns: TimesAccount,
    /// Sent to received.
    pub service_ns: TimesAccount,
}

/// Times. None: fewer than ten lie above that percentile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimesAccount {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Half of them are below.
    pub p50: Option<u64>,
    /// Nine of ten are.
    pub p90: Option<u64>,
    /// Ninety-nine of a hundred.
    pub p99: Option<u64>,
    /// And so on.
    pub p99_9: Option<u64>,
    /// And so on.
    pub p99_99: Option<u64>,
    /// The longest.
    pub max: u64,
}

impl Account {
    /// Of a saved result.
    pub fn of(saved: &Saved) -> Account {
        Account {
            kind: saved.head.kind.clone(),
            version: saved.head.version.clone(),
            is_complete: saved.is_complete,
            runs: saved.runs.iter().map(RunAccount::of).collect(),
        }
    }
}

impl RunAccount {
    fn of(run: &Run) -> RunAccount {
        let figures = Figures::of(run);
        let end = run.end.as_ref();
        let server_cpu_ns =
            end.and_then(|end| (end.answered > 0).then_some(float(end.server_cpu_ns?) / float(end.answered)));
        RunAccount {
            run: run.head.run,
            arm: run.head.arm.clone(),
            pair: run.head.pair,
            level: run.head.level.clone(),
            address: run.head.address.clone(),
            rate: run.head.rate,
            duration_s: figures.duration_s,
            warm_up_s: Window::of(run).warm_up_s,
            total: ShareAccount::of(&figures.total),
            operations: figures
                .operations
                .iter()
                .map(|(operation, share)| (operation.to_string(), ShareAccount::of(share)))
                .collect(),
            send_lag_ns: TimesAccount::of(&figures.send_lag),
            thread_use: end.map_or_else(Vec::new, |end| end.thread_use.clone()),
            server_cpu_ns,
            gates: gates(run, &figures),
        }
    }
}

impl ShareAccount {
    fn of(share: &Share) -> ShareAccount {
        ShareAccount {
            count: share.count,
            per_second: share.per_second,
            errors: share.errors,
            misses: share.misses,
            wrong: share.wrong,
            response_ns: TimesAccount::of(&share.response),
            service_ns: TimesAccount::of(&share.service),
        }
    }
}

impl TimesAccount {
    fn of(times: &Histogram<u64>) -> TimesAccount {
        let at = |quantile: f64| {
            is_resolved(float(times.len()), quantile).then(|| times.value_at_quantile(quantile))
        };
        TimesAccount {
            count: times.len(),
            mean: times.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: times.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::run;
    use crate::result::RunHead;

    #[test]
    fn an_account_has_what_is_known_and_null_for_the_rest() {
        let head = RunHead { warm_up_s: Some(0), rate: Some(1000.0), ..RunHead::default() };
        let saved = Saved { runs: vec![run(head, &[(1_000_000, 100)])], ..Saved::default() };
        let text = serde_json::to_string(&Account::of(&saved)).unwrap();
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        let run = &object["runs"][0];
        assert_eq!(run["total"]["count"], 1000);
        assert_eq!(run["operations"][0][0], "get");
        assert!(
            run["total"]["response_ns"]["p99"].is_u64() && run["total"]["response_ns"]["p99_9"].is_null()
        );
        assert_eq!(
            (&run["send_lag_ns"]["count"], &run["server_cpu_ns"]),
            (&1000.into(), &serde_json::Value::Null)
        );
    }
}
