//! What the experiments are about: their numbers by name, how each is written, which way is good, and what was published of it.

use serde::{Deserialize, Serialize};

use crate::statistics::verdict::Direction;

/// A number that an experiment is about. Times are in nanoseconds, sent to received, as the published tools clocked them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Mean over the levels of the mean round trip.
    RoundTrip,
    /// Standard deviation of the levels' mean round trips.
    Spread,
    /// That one by the mean.
    SpreadShare,
    /// Standard deviation of all single runs' means.
    SpreadOfRuns,
    /// Mean of the runs' own standard deviations.
    SpreadWithin,
    /// Requests in flight by Little's law ÷ offered.
    Little,
    /// Mean response from when a request was due: what waiting inside the load adds.
    FromDue,
    /// Requests a second of an instance.
    PerInstance,
    /// Requests a second.
    Throughput,
    /// Requests a second ÷ cores of the server.
    PerCore,
    /// Requests a second ÷ the price of the machine.
    PerDollar,
    /// 99th percentile.
    P99,
    /// Share of requests above [`SLOW_NS`](super::presets::Preset::SLOW_NS).
    Slow,
    /// Mean weighted by buckets of 40 µs, at their lower edges.
    BucketsLower,
    /// At their middles.
    BucketsMiddle,
    /// At their upper edges.
    BucketsUpper,
    /// Mean of what was measured.
    Mean,
    /// Mean of GETs at this size of values.
    GetAt(u32),
    /// Mean of SETs.
    SetAt(u32),
    /// The mean of those two means.
    BothAt(u32),
    /// The mean of all operations, so GET weighs 70 % and SET 30 %.
    MixAt(u32),
}

impl Measure {
    /// Which way is good; none: neither.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Measure::SpreadShare | Measure::Little => None,
            Measure::PerInstance | Measure::Throughput | Measure::PerCore | Measure::PerDollar => {
                Some(Direction::HigherIsBetter)
            }
            _ => Some(Direction::LowerIsBetter),
        }
    }
}

/// A number with what was published of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is called in tables.
    pub name: &'static str,
    /// How it is measured here.
    pub measure: Measure,
    /// Published values in the order of the published set-ups, in the measure's unit. Empty: none was.
    pub values: &'static [f64],
    /// The footnote's change from each value to the next, in percent.
    pub changes_percent: &'static [f64],
    /// The headline: a change of more than so many percent, negative where it falls.
    pub headline_percent: Option<f64>,
}

/// One that was not published, or has no footnote.
pub(super) const fn figure(name: &'static str, measure: Measure, values: &'static [f64]) -> Figure {
    Figure { name, measure, values, changes_percent: &[], headline_percent: None }
}

/// How a row's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// So many a second.
    PerSecond,
    /// A share of 1.
    Share,
    /// A plain number.
    Ratio,
}

impl Unit {
    pub(super) fn of(measure: Measure) -> Unit {
        match measure {
            Measure::SpreadShare | Measure::Little => Unit::Ratio,
            Measure::Slow => Unit::Share,
            Measure::PerInstance | Measure::Throughput | Measure::PerCore | Measure::PerDollar => {
                Unit::PerSecond
            }
            _ => Unit::Time,
        }
    }
}
