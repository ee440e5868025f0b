//! A percentile of one run: is it resolved, and how far could chance have moved it?
//!
//! The interval here is for that question alone. It says nothing of the next run: with runs whose p99 differ by 13 % it
//! holds the typical p99 in one case of four. Verdicts rest on [pairs of runs](super::paired).

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::Level;
use crate::float::float;

/// Independent requests that must lie above a percentile before it is printed.
const ABOVE_COUNT_MIN: f64 = 10.0;
/// 1 − 0.99 is not exactly a hundredth: so much may be missing from the ten.
const ROUNDING: f64 = 1e-3;

/// The percentiles that bounds, metrics and tables name.
pub const NAMED: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// The share of requests that a percentile of this name stands for: 0.99 for `p99`.
pub fn quantile_named(name: &str) -> Option<f64> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, quantile)| *quantile)
}

/// The time in nanoseconds that this share of the requests needs at most. None: too few need more.
pub fn quantile_ns(times: &Histogram<u64>, quantile: f64) -> Option<f64> {
    is_resolved(float(times.len()), quantile).then(|| float(times.value_at_quantile(quantile)))
}

/// A percentile of a histogram of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// 0.99 for the p99.
    pub quantile: f64,
    /// The value that this share of all requests does not exceed, to the histogram's 0.1 %.
    pub value_ns: u64,
    /// The interval's lower end. None: below the smallest that was seen.
    pub low_ns: Option<u64>,
    /// Its upper end. None: beyond the greatest that was seen, and so without a bound.
    pub high_ns: Option<u64>,
    /// Whether enough independent requests lie above it. If not, it is "not resolved" and not a figure.
    pub is_resolved: bool,
}

impl Percentile {
    /// Reads order statistics: with N independent requests the true percentile lies between those of rank
    /// ⌊Nq − z√(Nq(1 − q))⌋ and ⌈Nq + z√(Nq(1 − q))⌉ + 1 (David and Nagaraja, "Order Statistics", chapter 7), the bucket
    /// widths added. `inflation` is the τ of [`effective`](super::effective): the histogram's requests are worth N = n/τ.
    /// None: an empty histogram.
    pub fn of(histogram: &Histogram<u64>, quantile: f64, inflation: f64, level: Level) -> Option<Percentile> {
        assert!(quantile > 0.0 && quantile < 1.0, "a quantile is a share");
        assert!(inflation >= 1.0, "no request is worth more than one");
        if histogram.is_empty() {
            return None;
        }
        let count = float(histogram.len()) / inflation;
        let reach = level.normal_quantile() * (count * quantile * (1.0 - quantile)).sqrt();
        let low = (count * quantile - reach).floor();
        let high = (count * quantile + reach).ceil() + 1.0;
        // Ranks of effective requests, back among all of them: outwards to whole ones.
        let at = |rank: f64| value_at_rank(histogram, rank);
        Some(Percentile {
            quantile,
            value_ns: histogram.value_at_quantile(quantile),
            low_ns: (low >= 1.0).then(|| histogram.lowest_equivalent(at((low * inflation).floor()))),
            high_ns: (high <= count).then(|| histogram.highest_equivalent(at((high * inflation).ceil()))),
            is_resolved: is_resolved(count, quantile),
        })
    }
}

/// Whether at least ten of so many independent requests lie above the percentile: N(1 − q) ≥ 10.
///
/// For one second's percentile `effective_count` is that second's: a p99 needs 1,000 requests in it, a p99.9 10,000.
pub fn is_resolved(effective_count: f64, quantile: f64) -> bool {
    effective_count * (1.0 - quantile) >= ABOVE_COUNT_MIN - ROUNDING
}

/// The value of the request of this rank, a whole number, the smallest being 1.
fn value_at_rank(histogram: &Histogram<u64>, rank: f64) -> u64 {
    // Half a rank below, so that no rounding of the share reaches the next request.
    histogram.value_at_quantile(((rank - 0.5) / float(histogram.len())).clamp(0.0, 1.0))
}

/// Requests that certainly took no longer: a bucket counts only if its greatest value does not exceed `limit_ns`.
pub fn count_within(histogram: &Histogram<u64>, limit_ns: u64) -> u64 {
    counts_within(histogram, &[limit_ns])[0]
}

/// The same for limits that rise, in one walk.
pub fn counts_within(histogram: &Histogram<u64>, limits_ns: &[u64]) -> Vec<u64> {
    assert!(limits_ns.is_sorted(), "the walk goes upwards");
    let mut buckets = histogram.iter_recorded().peekable();
    let mut count = 0;
    let counts = limits_ns.iter().map(|limit_ns| {
        let is_within = |value: u64| histogram.highest_equivalent(value) <= *limit_ns;
        while let Some(bucket) = buckets.next_if(|bucket| is_within(bucket.value_iterated_to())) {
            count += bucket.count_at_value();
        }
        count
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::times;

    fn from_one_to(count: u64) -> Histogram<u64> {
        let mut histogram = times();
        (1..=count).for_each(|ns| histogram.record(ns).unwrap());
        histogram
    }

    fn check(count: u64, quantile: f64, inflation: f64, want: (u64, Option<u64>, Option<u64>, bool)) {
        let got = Percentile::of(&from_one_to(count), quantile, inflation, Level::NINETY_FIVE).unwrap();
        assert_eq!(
            (got.value_ns, got.low_ns, got.high_ns, got.is_resolved),
            want,
            "{count} {quantile} {inflation}"
        );
    }

    #[test]
    fn the_interval_is_read_at_ranks() {
        // 1.96·√250 = 30.99: ranks ⌊469.01⌋ and ⌈530.99⌉ + 1.
        check(1_000, 0.5, 1.0, (500, Some(469), Some(532), true));
        // 1.96·√9.9 = 6.17.
        check(1_000, 0.99, 1.0, (990, Some(983), Some(998), true));
        check(990, 0.99, 1.0, (981, Some(973), Some(988), false));
        // 1.96·√0.999 = 1.96: rank 1,000.96, and one more: beyond the greatest.
        check(1_000, 0.999, 1.0, (999, Some(997), None, false));
        check(3, 0.5, 1.0, (2, None, None, false));
        // 2 ± 1.96: ranks 0 and 5 of four.
        check(4, 0.5, 1.0, (2, None, None, false));
    }

    #[test]
    fn dependent_requests_widen_it() {
        // 1,000 requests worth 100: 1.96·√25 = 9.8, ranks 40 and 61 of 100, so 400 and 610 of 1,000.
        check(1_000, 0.5, 10.0, (500, Some(400), Some(610), true));
        // 909.1 independent ones: ranks 894 and 907 of them.
        check(1_000, 0.99, 1.1, (990, Some(983), Some(998), false));
    }

    #[test]
    fn buckets_are_counted_to_their_far_ends() {
        let mut histogram = times();
        histogram.record(1_000_000).unwrap();
        let (lowest, highest) =
            (histogram.lowest_equivalent(1_000_000), histogram.highest_equivalent(1_000_000));
        assert!(lowest < highest);
        assert_eq!(count_within(&histogram, highest - 1), 0, "perhaps in time is late");
        assert_eq!(count_within(&histogram, highest), 1);
        histogram.record_n(highest * 3, 5).unwrap();
        let limits = [0, highest - 1, highest, highest, highest * 2, highest * 9];
        assert_eq!(counts_within(&histogram, &limits), [0, 0, 1, 1, 1, 6]);
        histogram.record_n(1_000_000, 999).unwrap();
        let median = Percentile::of(&histogram, 0.5, 1.0, Level::NINETY_FIVE).unwrap();
        assert_eq!((median.low_ns, median.high_ns), (Some(lowest), Some(highest)), "anywhere in the bucket");
        assert_eq!(Percentile::of(&times(), 0.5, 1.0, Level::NINETY_FIVE), None);
    }

    #[test]
    fn resolution_is_ten_requests() {
        assert!(is_resolved(1_000.0, 0.99) && !is_resolved(999.0, 0.99));
        assert!(is_resolved(100_000.0, 0.9999), "1 − 0.9999 is a little less than it should be");
        assert!(is_resolved(10_000.0, 0.999) && !is_resolved(9_990.0, 0.999));
    }
}
