//! From where to where, and how surely.

use serde::{Deserialize, Serialize};

/// Confidence: the share of repeated experiments whose interval holds the true value. Between a half and one.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Level(f64);

impl Level {
    /// 95 %, the custom.
    pub const NINETY_FIVE: Level = Level(0.95);
    /// 99 %, where so many things are looked at that one in twenty would always be among them.
    pub const NINETY_NINE: Level = Level(0.99);

    /// None: not between a half and one.
    pub fn new(confidence: f64) -> Option<Level> {
        (confidence > 0.5 && confidence < 1.0).then_some(Level(confidence))
    }

    /// As a share: 0.95.
    pub fn confidence(self) -> f64 {
        self.0
    }

    /// The share of experiments whose interval misses the truth, on both sides together: 0.05.
    pub fn alpha(self) -> f64 {
        1.0 - self.0
    }

    /// The same on one side: 0.025.
    pub fn tail(self) -> f64 {
        self.alpha() / 2.0
    }

    /// How many standard deviations of a normal distribution reach to the interval's end: 1.96.
    pub fn normal_quantile(self) -> f64 {
        super::student::normal_quantile(1.0 - self.tail())
    }
}

impl TryFrom<f64> for Level {
    type Error = String;

    fn try_from(confidence: f64) -> Result<Level, String> {
        Level::new(confidence)
            .ok_or_else(|| format!("{confidence} is no confidence: it lies between 0.5 and 1, as 0.95 does"))
    }
}

impl From<Level> for f64 {
    fn from(level: Level) -> f64 {
        level.0
    }
}

/// Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end, not below the lower.
    pub high: f64,
}

impl Interval {
    /// From `low` to `high`.
    pub fn new(low: f64, high: f64) -> Interval {
        assert!(low <= high, "an interval's ends are in order");
        Interval { low, high }
    }

    /// So far to both sides of `centre`.
    pub fn around(centre: f64, half_width: f64) -> Interval {
        Interval::new(centre - half_width, centre + half_width)
    }

    /// From end to end.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Whether the ends enclose it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether all of it lies strictly between −`bound` and `bound`.
    pub fn is_within(&self, bound: f64) -> bool {
        -bound < self.low && self.high < bound
    }

    /// Each end through a rising function.
    pub fn map(&self, rising: impl Fn(f64) -> f64) -> Interval {
        Interval::new(rising(self.low), rising(self.high))
    }

    /// Seen from the other side: −`high` to −`low`.
    pub fn mirrored(&self) -> Interval {
        Interval::new(-self.high, -self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_confidence_and_nothing_else() {
        for (confidence, want) in
            [(0.95, true), (0.99, true), (0.5, false), (1.0, false), (95.0, false), (f64::NAN, false)]
        {
            assert_eq!(Level::new(confidence).is_some(), want, "{confidence}");
        }
        assert!((Level::NINETY_FIVE.normal_quantile() - 1.959_964).abs() < 1e-6);
        assert!((Level::NINETY_FIVE.tail() - 0.025).abs() < 1e-12);
    }

    #[test]
    fn a_result_file_cannot_hold_an_impossible_level() {
        assert_eq!(serde_json::from_str::<Level>("0.95").unwrap(), Level::NINETY_FIVE);
        assert!(serde_json::from_str::<Level>("95").unwrap_err().to_string().contains("no confidence"));
    }

    #[test]
    fn an_interval_knows_its_ends() {
        let interval = Interval::new(-0.02, 0.03);
        assert!(interval.contains(-0.02) && interval.contains(0.03) && !interval.contains(0.031));
        assert!(
            interval.is_within(0.031) && !interval.is_within(0.03) && !interval.mirrored().is_within(0.03)
        );
        assert_eq!(interval.mirrored(), Interval::new(-0.03, 0.02));
    }
}
