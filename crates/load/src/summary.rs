//! Times as a table of quantiles: what is left of a histogram when it is printed.

use hdrhistogram::Histogram;

/// Longest time that is told apart, in nanoseconds; what is longer counts as this long.
pub const TIME_NS_MAX: u64 = 600_000_000_000;
/// Decimal digits of a time that are kept: an error of at most 0.1 %.
const DIGITS: u8 = 3;
/// The quantiles that are printed, with their names.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)];
/// Times that must lie above a quantile before it is printed: with fewer it says more of chance than of the server.
const ABOVE_COUNT_MIN: f64 = 10.0;

/// Times in nanoseconds.
pub struct Times {
    histogram: Histogram<u64>,
}

impl Default for Times {
    fn default() -> Times {
        let histogram =
            Histogram::new_with_bounds(1, TIME_NS_MAX, DIGITS).expect("the bounds are constants in order");
        Times { histogram }
    }
}

impl Times {
    /// Takes one in.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The time below which a share `quantile` of all lies. None: too few lie above it to tell.
    pub fn at(&self, quantile: f64) -> Option<u64> {
        #[expect(clippy::cast_precision_loss, reason = "a count of times is far below 2^53")]
        let above = (1.0 - quantile) * self.count() as f64;
        // A hair below, because 1 − 0.99 is not exactly a hundredth.
        (above > ABOVE_COUNT_MIN - 0.001).then(|| self.histogram.value_at_quantile(quantile))
    }

    /// The longest, to 0.1 %.
    pub fn max(&self) -> u64 {
        self.histogram.max()
    }

    /// As a JSON object: count, mean, quantiles and longest, in nanoseconds. A quantile that cannot be told is null.
    pub fn json(&self) -> String {
        let quantiles = QUANTILES.map(|(name, quantile)| {
            let value = self.at(quantile).map_or("null".to_owned(), |ns| ns.to_string());
            format!("\"{name}\":{value}")
        });
        let (count, mean, max) = (self.count(), self.histogram.mean(), self.max());
        format!("{{\"count\":{count},\"mean\":{mean:.0},{},\"max\":{max}}}", quantiles.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_thousandth() {
        let mut times = Times::default();
        for us in 1..=100_000 {
            times.record(us * 1000);
        }
        for (quantile, want) in [(0.5, 50_000_000_u64), (0.99, 99_000_000), (0.9999, 99_990_000)] {
            let got = times.at(quantile).unwrap();
            assert!(got.abs_diff(want) <= want / 1000, "{quantile}: {got} for {want}");
        }
        assert!(times.max().abs_diff(100_000_000) <= 100_000);
    }

    #[test]
    fn a_quantile_with_too_few_above_it_is_not_told() {
        let mut times = Times::default();
        (0..999).for_each(|_| times.record(5));
        assert_eq!(times.at(0.99), None, "nine above");
        times.record(5);
        assert_eq!(times.at(0.99), Some(5));
        assert_eq!(
            times.json(),
            r#"{"count":1000,"mean":5,"p50":5,"p90":5,"p99":5,"p99_9":null,"p99_99":null,"max":5}"#
        );
    }

    #[test]
    fn a_time_beyond_all_bounds_counts_as_the_longest() {
        let mut times = Times::default();
        times.record(u64::MAX);
        assert!(times.max() >= TIME_NS_MAX);
    }
}
