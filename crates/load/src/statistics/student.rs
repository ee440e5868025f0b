//! Student's t, the cross-check of the signed ranks: exact for normal differences, and moved by one wild run.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::describe::{deviation, mean};
use super::{Interval, Level};

/// Mean and interval of a sample of differences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Student {
    /// The mean.
    pub mean: f64,
    /// mean ± t·s/√n.
    pub interval: Interval,
}

impl Student {
    /// None: fewer than two differences.
    pub fn of(differences: &[f64], level: Level) -> Option<Student> {
        let half_width = half_width(deviation(differences)?, differences.len(), level);
        let mean = mean(differences);
        Some(Student { mean, interval: Interval::around(mean, half_width) })
    }
}

/// t·s/√n: how far the interval of `count` differences with this standard deviation reaches to each side.
pub(crate) fn half_width(deviation: f64, count: usize, level: Level) -> f64 {
    assert!(count >= 2, "a spread has at least two values");
    quantile(1.0 - level.tail(), count - 1) * deviation / (count as f64).sqrt()
}

/// The value below which a t of so many degrees of freedom lies with this probability.
pub(crate) fn quantile(probability: f64, freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom").inverse_cdf(probability)
}

/// The value below which a standard normal lies with this probability.
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// The probability that a standard normal lies below.
pub(crate) fn normal_cumulative(value: f64) -> f64 {
    Normal::standard().cdf(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, freedom, want) in [
            (0.975, 1, 12.7062),
            (0.975, 5, 2.5706),
            (0.975, 9, 2.2622),
            (0.995, 9, 3.2498),
            (0.80, 9, 0.8834),
            (0.975, 30, 2.0423),
            (0.975, 120, 1.9799),
            (0.975, 1_539, 1.9615),
            (0.975, 100_000, 1.9600),
        ] {
            let got = quantile(probability, freedom);
            assert!((got - want).abs() < 6e-5, "t({probability}, {freedom}) = {got}, {want} in the table");
        }
    }

    /// Student's own example: hours of sleep gained, second drug less first ("The probable error of a mean", 1908).
    #[test]
    fn the_sleep_of_ten_patients() {
        let gained = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let got = Student::of(&gained, Level::NINETY_FIVE).unwrap();
        assert!((got.mean - 1.58).abs() < 1e-9);
        assert!(
            (got.interval.low - 0.7001).abs() < 1e-3 && (got.interval.high - 2.4599).abs() < 1e-3,
            "{got:?}"
        );
        assert!(Student::of(&[1.0], Level::NINETY_FIVE).is_none());
    }
}
