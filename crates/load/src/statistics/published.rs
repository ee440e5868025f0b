//! The three checks that a careful reader makes on published results, beside which ours are printed.
//!
//! They are plain arithmetic on figures that were published: Intel's brief on Redis with ADQ (2019), Intel's brief on
//! Aerospike with ADQ (2019), and Cisco's and Solarflare's on Couchbase (2012). A check that does not come out even does
//! not make the result wrong; it says which part of it the published figures cannot carry.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::little::Little;

/// Redis with ADQ on: requests a second of an instance, mean round trip, and mean connections of 10, 20 … 100.
const REDIS: ClosedLoop = ClosedLoop { requests_per_second: 79_601.0, mean_us: 382.0, offered: 55.0 };
/// Aerospike with ADQ on: requests a second, mean weighted by buckets, and 18 clients of at most 142 commands.
const AEROSPIKE: ClosedLoop =
    ClosedLoop { requests_per_second: 15.3e6, mean_us: 190.8, offered: 18.0 * 142.0 };
/// `--latency 16,4`, and the range of the published histogram, read as microseconds at best.
const AEROSPIKE_COLUMNS: (u32, u32) = (16, 4);
const AEROSPIKE_HISTOGRAM_NS: (u64, u64) = (40_000, 600_000);
/// Couchbase in batches: "nearly 2 million" operations a second, 70 % of them GET, of 1,024 bytes, over one port.
const COUCHBASE: Replies =
    Replies { operations_per_second: 2e6, get_share: 0.7, value_size: 1_024.0, link_bits_per_second: 10e9 };

/// A published closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoop {
    /// Completed requests a second.
    pub requests_per_second: f64,
    /// Mean round-trip time in microseconds.
    pub mean_us: f64,
    /// The most requests that the set-up can have in flight.
    pub offered: f64,
}

impl ClosedLoop {
    /// What Little's law makes of it.
    pub fn little(&self) -> Little {
        Little::of(self.requests_per_second, self.mean_us * 1e3, self.offered)
    }
}

/// A published rate of replies, and the port that they came through.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replies {
    /// Operations a second.
    pub operations_per_second: f64,
    /// The share of them that a value comes back for.
    pub get_share: f64,
    /// Bytes of a value.
    pub value_size: f64,
    /// What the receiving port carries.
    pub link_bits_per_second: f64,
}

impl Replies {
    /// Values alone, without headers.
    pub fn bits_per_second(&self) -> f64 {
        self.operations_per_second * self.get_share * self.value_size * 8.0
    }

    /// Whether the port can have carried them.
    pub fn fit(&self) -> bool {
        self.bits_per_second() <= self.link_bits_per_second
    }
}

/// A check, with the figures that it rests on. Shown as a sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadersCheck {
    /// Less in flight than was offered: the rest of the cycle lies outside the measured round trip.
    OutsideRoundTrip(ClosedLoop),
    /// More in flight than is possible, in a histogram finer than the option that is named can print: its thresholds that
    /// lie in the histogram's range.
    MoreThanPossible(ClosedLoop, Vec<u64>),
    /// More bytes of replies than the port carries.
    MoreThanThePort(Replies),
}

/// The checks on the published figures: of the connections sweep, of the tail, and of the throughput in batches.
pub fn readers_checks() -> [ReadersCheck; 3] {
    let (columns, shift) = AEROSPIKE_COLUMNS;
    let columns = Columns::of_option(columns, shift, 1_000).expect("16,4 is an option that was used");
    let (low, high) = AEROSPIKE_HISTOGRAM_NS;
    [
        ReadersCheck::OutsideRoundTrip(REDIS),
        ReadersCheck::MoreThanPossible(AEROSPIKE, columns.between(low, high).to_vec()),
        ReadersCheck::MoreThanThePort(COUCHBASE),
    ]
}

impl fmt::Display for ReadersCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadersCheck::OutsideRoundTrip(figures) => {
                let little = figures.little();
                write!(
                    f,
                    "{}/s × {} µs = {} in flight where {} were offered: {:.0} % of the cycle lies outside the measured \
                     round trip",
                    grouped(figures.requests_per_second),
                    figures.mean_us,
                    grouped(little.in_flight),
                    grouped(little.offered),
                    little.outside_share() * 100.0
                )
            }
            ReadersCheck::MoreThanPossible(figures, thresholds_ns) => {
                let little = figures.little();
                write!(
                    f,
                    "{:.1} M/s × {} µs = {} in flight where {} is the most possible; and powers of 16 part the published \
                     range in {} buckets",
                    figures.requests_per_second / 1e6,
                    figures.mean_us,
                    grouped(little.in_flight),
                    grouped(little.offered),
                    thresholds_ns.len() + 1
                )
            }
            ReadersCheck::MoreThanThePort(replies) => write!(
                f,
                "{:.0} M/s × {:.0} % × {} bytes = {:.1} Gbit/s of values, over a port of {:.0} Gbit/s",
                replies.operations_per_second / 1e6,
                replies.get_share * 100.0,
                grouped(replies.value_size),
                replies.bits_per_second() / 1e9,
                replies.link_bits_per_second / 1e9
            ),
        }
    }
}

/// 79601.4 as 79,601.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let places = digits.len();
    let grouped = digits.char_indices().flat_map(|(index, digit)| {
        let comma = (index > 0 && (places - index).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain([digit])
    });
    grouped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::little::Light;

    #[test]
    fn the_sweep_has_thirty_in_flight_of_fifty_five() {
        let little = REDIS.little();
        assert!(
            (little.in_flight - 30.41).abs() < 0.01 && (little.outside_share() - 0.447).abs() < 0.001,
            "{little:?}"
        );
        assert_eq!(little.light, Light::Red);
        let off = ClosedLoop { requests_per_second: 44_345.0, mean_us: 1_249.0, offered: 55.0 };
        assert!((off.little().in_flight - 55.39).abs() < 0.01);
        assert_eq!(off.little().light, Light::Green, "without ADQ the figures fit");
    }

    #[test]
    fn the_tail_has_more_in_flight_than_possible() {
        let little = AEROSPIKE.little();
        assert!((little.in_flight - 2_919.24).abs() < 0.01 && little.offered == 2_556.0);
        assert_eq!(little.light, Light::Red);
    }

    #[test]
    fn the_batches_need_more_than_the_port() {
        assert!((COUCHBASE.bits_per_second() / 1e9 - 11.47).abs() < 0.01 && !COUCHBASE.fit());
        assert!(Replies { get_share: 0.5, ..COUCHBASE }.fit());
    }

    #[test]
    fn checks_are_sentences() {
        let sentences = readers_checks().map(|check| check.to_string());
        assert_eq!(
            sentences,
            [
                "79,601/s × 382 µs = 30 in flight where 55 were offered: 45 % of the cycle lies outside the measured round \
                 trip",
                "15.3 M/s × 190.8 µs = 2,919 in flight where 2,556 is the most possible; and powers of 16 part the published \
                 range in 2 buckets",
                "2 M/s × 70 % × 1,024 bytes = 11.5 Gbit/s of values, over a port of 10 Gbit/s",
            ]
        );
        assert_eq!(
            (grouped(1_234_567.0), grouped(12.0), grouped(123.0)),
            ("1,234,567".into(), "12".into(), "123".into())
        );
    }
}
