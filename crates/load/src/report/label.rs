//! What metrics are called, and their values with units.

use crate::analysis::Metric;

use crate::number;

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

/// What it is, in a line.
pub(crate) fn meaning(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "replies a second, over the seconds that count",
        Metric::Mean => "mean time from when a request was due until its reply's last byte was there",
        Metric::P50 => "half of the requests need at most this long",
        Metric::P90 => "nine of ten requests need at most this long",
        Metric::P99 => "99 of 100 requests need at most this long",
        Metric::P999 => "999 of 1,000 requests need at most this long",
        Metric::P9999 => "9,999 of 10,000 requests need at most this long",
        Metric::TailGap => "what one of a thousand requests, an unlucky one, pays more than a usual one",
        Metric::Wobble => "by what share of itself the p99 usually changes from second to second",
        Metric::ServerCpu => "time that the server's process, all of its threads, took for a reply",
    }
}

/// Other numbers of the page.
pub(crate) const MEANINGS: [(&str, &str); 7] = [
    ("response", "from when a request was due by its schedule until its reply was there: what a user waits"),
    ("service", "from sending to reply, as tools print it that don't ask while they wait"),
    ("send lag", "from due to sent: how late the load itself was"),
    (
        "in flight",
        "requests under way at one time: rate × mean service (Little's law), of as many as were offered",
    ),
    ("client", "share of its core that the busiest thread of the load used"),
    ("not resolved", "fewer than ten requests lie above it, so it would be chance"),
    ("left out", "of comparisons: a red gate closed on one of a pair's two runs, so neither counts"),
];

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
