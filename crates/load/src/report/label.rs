//! What metrics are called, and their values with units.

use crate::analysis::Metric;

use super::number;

/// As people read it.
pub(crate) fn label(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::Mean => "mean response",
        Metric::P50 => "p50 response",
        Metric::P90 => "p90 response",
        Metric::P99 => "p99 response",
        Metric::P999 => "p99.9 response",
        Metric::P9999 => "p99.99 response",
        Metric::TailGap => "tail gap, p99.9 − p50",
        Metric::Wobble => "wobble of the p99",
        Metric::ServerCpu => "server CPU a request",
    }
}

/// A metric's value with its unit: `61.3 µs`, `79,601/s`.
pub fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => format!("{}/s", number::plain(value)),
        Metric::Wobble => number::percent(value),
        _ => number::time(value),
    }
}

/// As [`shown`], or that it can't be told.
pub(crate) fn shown_or_not(metric: Metric, value: Option<f64>) -> String {
    value.map_or_else(|| number::NOT_RESOLVED.to_owned(), |value| shown(metric, value))
}
