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
    /// What it is, in a line.
    pub fn meaning(self) -> &'static str {
        match self {
            Measure::RoundTrip => "mean of the levels' mean round trips",
            Measure::Spread => {
                "standard deviation of the levels' mean round trips: what was called predictability"
            }
            Measure::SpreadShare => "that by the mean round trip: 0.55 of a server that is only saturated",
            Measure::SpreadOfRuns => "standard deviation of the means of all single runs",
            Measure::SpreadWithin => {
                "mean of the runs' own standard deviations: how unlike single requests are"
            }
            Measure::Little => {
                "requests in flight (rate × round trip) by those offered; below 1 the client itself takes time"
            }
            Measure::FromDue => {
                "mean from when a request could have been sent, which adds what waits inside the load"
            }
            Measure::PerInstance => "requests a second of one instance of the server",
            Measure::Throughput => "requests a second of all instances",
            Measure::PerCore => "requests a second by the cores that the server has",
            Measure::PerDollar => "requests a second by the price of the machine (--price)",
            Measure::P99 => "99 of 100 requests need at most this long",
            Measure::Slow => "share of the requests that needed longer than that",
            Measure::BucketsLower => "mean with each request at the lower edge of its bucket of 40 µs",
            Measure::BucketsMiddle => {
                "mean with each request at the middle of its bucket of 40 µs, as it was published"
            }
            Measure::BucketsUpper => "mean with each request at the upper edge of its bucket of 40 µs",
            Measure::Mean => "mean of all requests, without buckets",
            Measure::GetAt(_) => "mean of the GETs with values of that many bytes",
            Measure::SetAt(_) => "mean of the SETs with values of that many bytes",
            Measure::BothAt(_) => "mean of the GETs' mean and the SETs' mean, as it was published",
            Measure::MixAt(_) => "mean of all operations, 70 GETs to 30 SETs",
        }
    }

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
