//! The histogram in a few columns, and the mean weighted by buckets, as Aerospike's benchmark printed them.
//!
//! `--latency 4,3` prints four columns, "≤1 >1 >8 >64" units of time, cumulative: an answer after nine units counts in >1
//! and in >8. The shares are whole percents, rounded (the C client's benchmark, `latency.c`, until 2020). A mean of such
//! buckets depends on which point stands for a bucket, so three are given, and the true mean with them:
//!
//! ```text
//! bucket        ≤ T₁      T₁ … T₂     …     > Tₖ
//! lower edge     0          T₁                Tₖ
//! middle        T₁/2     (T₁ + T₂)/2    (Tₖ + longest)/2
//! upper edge     T₁         T₂              longest
//! ```

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::quantiles::count_within;
use crate::float::float;

/// Columns that an option may ask for: 2⁶³ is the last power of two.
const COLUMNS_COUNT_MAX: u32 = 64;

/// Where columns begin, in nanoseconds, rising; the first column is what does not exceed the first of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    thresholds_ns: Vec<u64>,
}

/// A histogram in columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    /// The columns' thresholds.
    pub thresholds_ns: Vec<u64>,
    /// The share at or below the first threshold, then the share above each.
    pub cumulative: Vec<f64>,
    /// The same as whole percents, as they were printed.
    pub percents: Vec<u32>,
    /// Mean with each bucket at its lower edge.
    pub mean_lower_ns: f64,
    /// Mean with each bucket at its middle.
    pub mean_middle_ns: f64,
    /// Mean with each bucket at its upper edge.
    pub mean_upper_ns: f64,
    /// The mean of what was measured.
    pub mean_true_ns: f64,
}

impl Columns {
    /// Those of `--latency columns,shift`: thresholds 1, 2^shift, 2^(2·shift), … units. The stock unit is a millisecond.
    /// None: fewer than two columns or more than 64, no shift, or no unit. Thresholds past 2⁶⁴ ns are left out.
    pub fn of_option(columns: u32, shift: u32, unit_ns: u64) -> Option<Columns> {
        if !(2..=COLUMNS_COUNT_MAX).contains(&columns) || shift == 0 || unit_ns == 0 {
            return None;
        }
        let threshold = |column: u32| 2_u64.checked_pow(column.checked_mul(shift)?)?.checked_mul(unit_ns);
        Some(Columns { thresholds_ns: (0..columns - 1).map_while(threshold).collect() })
    }

    /// Any others, as of a published figure. None: no thresholds, or not rising from above zero.
    pub fn at(thresholds_ns: &[u64]) -> Option<Columns> {
        let rises = thresholds_ns.windows(2).all(|pair| pair[0] < pair[1]);
        (rises && *thresholds_ns.first()? > 0).then(|| Columns { thresholds_ns: thresholds_ns.to_vec() })
    }

    /// The thresholds between two times: how finely such columns can show what lies there.
    pub fn between(&self, low_ns: u64, high_ns: u64) -> &[u64] {
        let from = self.thresholds_ns.partition_point(|&threshold| threshold < low_ns);
        let to = self.thresholds_ns.partition_point(|&threshold| threshold <= high_ns);
        &self.thresholds_ns[from..to]
    }

    /// The histogram in these columns. A bucket of the histogram that reaches beyond a threshold counts as above it.
    /// None: an empty histogram.
    pub fn of(&self, histogram: &Histogram<u64>) -> Option<Printed> {
        if histogram.is_empty() {
            return None;
        }
        let share = |count: u64| float(count) / float(histogram.len());
        let within: Vec<f64> =
            self.thresholds_ns.iter().map(|&threshold| share(count_within(histogram, threshold))).collect();
        let first = within.iter().take(1).copied();
        let cumulative: Vec<f64> = first.chain(within.iter().map(|share| 1.0 - share)).collect();
        let longest = float(histogram.max());
        let (mut lower, mut upper) = (0.0, 0.0);
        let mut from = (0.0, 0.0);
        let edges = self.thresholds_ns.iter().map(|&threshold| float(threshold)).zip(within);
        for to in edges.chain([(longest, 1.0)]) {
            let share = to.1 - from.1;
            lower += share * from.0;
            upper += share * to.0;
            from = to;
        }
        Some(Printed {
            thresholds_ns: self.thresholds_ns.clone(),
            percents: cumulative.iter().map(|&share| percent(share)).collect(),
            cumulative,
            mean_lower_ns: lower,
            mean_middle_ns: f64::midpoint(lower, upper),
            mean_upper_ns: upper,
            mean_true_ns: histogram.mean(),
        })
    }
}

fn percent(share: f64) -> u32 {
    u32::try_from(super::describe::whole((share * 100.0).round())).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::times;

    const MS: u64 = 1_000_000;

    #[test]
    fn thresholds_are_powers_of_the_shift() {
        let columns = Columns::of_option(4, 3, MS).unwrap();
        assert_eq!(columns.thresholds_ns, [MS, 8 * MS, 64 * MS]);
        let powers_of_16 = Columns::of_option(16, 4, 1_000).unwrap();
        assert_eq!(powers_of_16.thresholds_ns[..4], [1_000, 16_000, 256_000, 4_096_000]);
        assert_eq!(powers_of_16.thresholds_ns.len(), 14, "2⁵⁶ µs is more than can be counted");
        assert_eq!(
            Columns::of_option(16, 4, MS).unwrap().between(40_000, 600_000),
            [0; 0],
            "no bucket in milliseconds"
        );
        assert_eq!(powers_of_16.between(40_000, 600_000), [256_000], "two in microseconds");
        for (columns, shift, unit) in [(1, 3, 1), (65, 1, 1), (4, 0, 1), (4, 3, 0)] {
            assert_eq!(Columns::of_option(columns, shift, unit), None);
        }
        assert!(Columns::of_option(64, u32::MAX, 1).unwrap().thresholds_ns == [1]);
    }

    #[test]
    fn columns_are_cumulative_and_whole_percents() {
        // Units of one nanosecond, where the histogram is exact: 6 of 1, 2 of 9, 1 of 70 and 1 of 100.
        let mut histogram = times();
        for (ns, count) in [(1, 6), (9, 2), (70, 1), (100, 1)] {
            histogram.record_n(ns, count).unwrap();
        }
        let printed = Columns::of_option(4, 3, 1).unwrap().of(&histogram).unwrap();
        assert_eq!(printed.percents, [60, 40, 40, 20], "nine counts in >1 and in >8");
        // 0.6 of 0…1, none of 1…8, 0.2 of 8…64, 0.2 of 64…100.
        let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-9, "{got} for {want}");
        near(printed.mean_lower_ns, 0.2 * 8.0 + 0.2 * 64.0);
        near(printed.mean_upper_ns, 0.6 + 0.2 * 64.0 + 0.2 * 100.0);
        near(printed.mean_middle_ns, 0.6 * 0.5 + 0.2 * 36.0 + 0.2 * 82.0);
        near(printed.mean_true_ns, 0.6 + 1.8 + 7.0 + 10.0);
    }

    #[test]
    fn the_true_mean_lies_between_the_edges() {
        let mut histogram = times();
        (0..10_000_u64).for_each(|index| histogram.record(40_000 + index * 53).unwrap());
        let edges: Vec<u64> = (1..=15).map(|step| step * 40_000).collect();
        let printed = Columns::at(&edges).unwrap().of(&histogram).unwrap();
        assert!(printed.mean_lower_ns < printed.mean_true_ns && printed.mean_true_ns < printed.mean_upper_ns);
        assert!((printed.mean_middle_ns / printed.mean_true_ns - 1.0).abs() < 0.01, "{printed:?}");
        assert!(
            (printed.mean_upper_ns - printed.mean_lower_ns - 40_000.0).abs() < 1_500.0,
            "a bucket's width"
        );
    }

    #[test]
    fn thresholds_beyond_the_longest_change_nothing() {
        let mut histogram = times();
        histogram.record_n(500, 10).unwrap();
        let printed = Columns::at(&[1_000, 2_000]).unwrap().of(&histogram).unwrap();
        assert_eq!((printed.mean_lower_ns, printed.mean_upper_ns), (0.0, 1_000.0));
        assert_eq!(Columns::at(&[1_000]).unwrap().of(&times()), None);
        assert_eq!((Columns::at(&[]), Columns::at(&[2, 2]), Columns::at(&[0, 2])), (None, None, None));
    }
}
