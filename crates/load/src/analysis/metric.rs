//! The numbers that set-ups are compared by.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Figures;
use crate::float::float;
use crate::result::Run;
use crate::statistics::predictability::Wobble;
use crate::statistics::quantiles::{quantile_named, quantile_ns};
use crate::statistics::verdict::Direction;

/// One number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Metric {
    /// Mean response time, ns.
    Mean,
    /// Percentiles of the response time, ns.
    P50,
    /// The 90th.
    P90,
    /// The 99th.
    P99,
    /// The 99.9th.
    P999,
    /// The 99.99th.
    P9999,
    /// p99.9 − p50, ns: what an unlucky request pays.
    TailGap,
    /// How much the p99 changes from second to second, a share.
    Wobble,
    /// Replies a second.
    Throughput,
    /// The server's CPU time for a reply, ns.
    ServerCpu,
}

/// All of them, with the names they have in files, claims and tables.
const NAMES: [(Metric, &str); 10] = [
    (Metric::Mean, "mean"),
    (Metric::P50, "p50"),
    (Metric::P90, "p90"),
    (Metric::P99, "p99"),
    (Metric::P999, "p99.9"),
    (Metric::P9999, "p99.99"),
    (Metric::TailGap, "tail-gap"),
    (Metric::Wobble, "wobble"),
    (Metric::Throughput, "throughput"),
    (Metric::ServerCpu, "server-cpu"),
];

impl Metric {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Metric> {
        NAMES.into_iter().map(|(metric, _)| metric)
    }

    /// As files, claims and tables name it.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(metric, _)| *metric == self).map_or("", |(_, name)| name)
    }

    /// Which way is good.
    pub fn direction(self) -> Direction {
        match self {
            Metric::Throughput => Direction::HigherIsBetter,
            _ => Direction::LowerIsBetter,
        }
    }

    /// Whether its unit is nanoseconds.
    pub fn is_time(self) -> bool {
        !matches!(self, Metric::Throughput | Metric::Wobble)
    }

    /// Of a run. None: the run does not tell, or too few requests lie beyond the percentile.
    pub fn of(self, run: &Run, figures: &Figures) -> Option<f64> {
        let response = &figures.total.response;
        let at = |metric: Metric| quantile_ns(response, quantile_named(metric.name())?);
        match self {
            Metric::Mean => (!response.is_empty()).then(|| response.mean()),
            Metric::P50 | Metric::P90 | Metric::P99 | Metric::P999 | Metric::P9999 => at(self),
            Metric::TailGap => Some(at(Metric::P999)? - at(Metric::P50)?),
            Metric::Wobble => {
                let p99s: Option<Vec<f64>> =
                    figures.seconds.iter().map(|second| second.p99_ns.map(float)).collect();
                Wobble::of(&p99s?).map(|wobble| wobble.wobble)
            }
            Metric::Throughput => (figures.total.count > 0).then_some(figures.total.per_second),
            Metric::ServerCpu => {
                let end = run.end.as_ref()?;
                (end.answered > 0).then_some(float(end.server_cpu_ns?) / float(end.answered))
            }
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(metric, _)| *metric).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            format!("'{text}' is no metric: {}", names.join(", "))
        })
    }
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(text: String) -> Result<Metric, String> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> String {
        metric.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::run;
    use crate::result::RunHead;

    #[test]
    fn metrics_are_read_off_a_run() {
        let head = RunHead { warm_up_s: Some(0), ..RunHead::default() };
        // 98.5 % take 1 ms, the rest 100 ms: in the second second.
        let mut run = run(head, &[(1_000_000, 985), (100_000_000, 15)]);
        run.end.as_mut().unwrap().server_cpu_ns = Some(10_010 * 5_000);
        let figures = Figures::of(&run);
        let of = |name: &str| name.parse::<Metric>().unwrap().of(&run, &figures).map(|value| value.round());
        let near = |got: Option<f64>, want: f64| (got.unwrap() / want - 1.0).abs() < 0.002;
        assert!(
            near(of("p50"), 1e6) && near(of("p90"), 1e6) && near(of("p99"), 1e8) && near(of("p99.9"), 1e8)
        );
        assert!(near(of("mean"), 2.485e6) && near(of("tail-gap"), 9.9e7));
        assert_eq!((of("p99.99"), of("throughput"), of("server-cpu")), (None, Some(5000.0), Some(5000.0)));
        assert_eq!(of("wobble"), None, "two seconds tell nothing");
        assert!("p98".parse::<Metric>().unwrap_err().contains("p99.9, "));
        for metric in Metric::all() {
            assert_eq!(metric.to_string().parse(), Ok(metric));
        }
    }
}
