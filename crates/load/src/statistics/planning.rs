//! How many pairs an answer needs, and what this machine can show at all: from an A/A block, before A meets B.
//!
//! The number of pairs is fixed and written down before the first of them runs. "Until it is significant" finds something
//! in every noise.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::describe::deviation;
use super::paired::{self, Refusal};
use super::student::{self, half_width};
use super::{Interval, Level, signed_rank};

/// Pairs that anybody would run; a plan that needs more is told "none".
pub const PLANNED_COUNT_MAX: usize = 100_000;
/// Pairs of A against A from which a noise floor is taken.
pub const FLOOR_COUNT_MIN: usize = 4;
/// The share of experiments that are to find the smallest effect.
const POWER: f64 = 0.8;

/// How much pairs of runs differ when nothing differs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Pairs of A against A.
    pub pairs_count: usize,
    /// Standard deviation of ln(second / first).
    pub log_deviation: f64,
    /// Where the true one lies (χ², for normal log ratios): wide after four pairs.
    pub log_deviation_interval: Interval,
}

impl NoiseFloor {
    /// From pairs of runs of one and the same set-up.
    pub fn of(pairs: &[(f64, f64)], level: Level) -> Result<NoiseFloor, Refusal> {
        let log_ratios = paired::log_ratios(pairs)?;
        let too_few = Refusal::TooFew { count: pairs.len(), needed: FLOOR_COUNT_MIN };
        if pairs.len() < FLOOR_COUNT_MIN {
            return Err(too_few);
        }
        let log_deviation = deviation(&log_ratios).ok_or(too_few)?;
        let freedom = (pairs.len() - 1) as f64;
        let chi_squared = ChiSquared::new(freedom).expect("at least three degrees of freedom");
        let end = |probability: f64| log_deviation * (freedom / chi_squared.inverse_cdf(probability)).sqrt();
        let log_deviation_interval = Interval::new(end(1.0 - level.tail()), end(level.tail()));
        Ok(NoiseFloor { pairs_count: pairs.len(), log_deviation, log_deviation_interval })
    }

    /// Pairs after which the interval of the change reaches at most `half_width` to each side; see [`pairs_needed`].
    pub fn pairs_needed(&self, half_width: f64, level: Level) -> Option<usize> {
        pairs_needed(self.log_deviation, half_width, level)
    }

    /// The smallest change, as a share, that so many pairs would show here; see [`smallest_effect`].
    pub fn smallest_effect(&self, pairs_count: usize, level: Level) -> f64 {
        smallest_effect(self.log_deviation, pairs_count, level)
    }
}

/// The fewest pairs with t·s/√n ≤ h, and at least as many as the signed ranks need. `log_deviation` (s) and `half_width`
/// (h) are in the same unit, log ratios, which are shares while they are small. None: more than [`PLANNED_COUNT_MAX`].
pub fn pairs_needed(log_deviation: f64, half_width: f64, level: Level) -> Option<usize> {
    let is_enough = |count: usize| student::half_width(log_deviation, count, level) <= half_width;
    let (mut low, mut high) = (signed_rank::count_min(level), PLANNED_COUNT_MAX);
    if !is_enough(high) {
        return None;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// The smallest change, as a share, that `pairs_count` pairs with this noise tell from none in four experiments of five:
/// exp((t(1 − α/2) + t(0.8))·s/√n) − 1. Zero noise shows everything.
pub fn smallest_effect(log_deviation: f64, pairs_count: usize, level: Level) -> f64 {
    let found = student::quantile(POWER, pairs_count - 1) * log_deviation / (pairs_count as f64).sqrt();
    (half_width(log_deviation, pairs_count, level) + found).exp_m1()
}

/// Pairs after which some answer is certain to be given about a margin, whatever the truth: with h = δ/2 an interval
/// either excludes zero or lies inside ±δ.
pub fn pairs_needed_to_tell(log_deviation: f64, log_margin: f64, level: Level) -> Option<usize> {
    pairs_needed(log_deviation, log_margin / 2.0, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// n such that t(0.975, n − 1)·s/√n ≤ h, no fewer than six.
    #[test]
    fn pairs_needed_for_a_half_width() {
        let half_widths = [0.01, 0.02, 0.05, 0.10];
        for (deviation, want) in [
            (0.01, [7, 6, 6, 6]),
            (0.02, [18, 7, 6, 6]),
            (0.03, [38, 12, 6, 6]),
            (0.05, [99, 27, 7, 6]),
            (0.10, [387, 99, 18, 7]),
            (0.20, [1_540, 387, 64, 18]),
        ] {
            let got = half_widths
                .map(|half_width| pairs_needed(deviation, half_width, Level::NINETY_FIVE).unwrap());
            assert_eq!(got, want, "s = {deviation}");
        }
        assert_eq!(pairs_needed(1.0, 0.001, Level::NINETY_FIVE), None);
        assert_eq!(pairs_needed(0.0, 0.01, Level::NINETY_FIVE), Some(6));
    }

    #[test]
    fn a_noise_floor_knows_its_own_doubt() {
        let pairs = [(100.0, 104.0), (100.0, 97.0), (100.0, 101.0), (100.0, 99.0)];
        let floor = NoiseFloor::of(&pairs, Level::NINETY_FIVE).unwrap();
        assert!((floor.log_deviation - 0.029_706).abs() < 1e-6, "{floor:?}");
        // χ²(3): 0.2158 and 9.3484 at 2.5 % and 97.5 %, so the ends are s·0.5665 and s·3.7285.
        assert!((floor.log_deviation_interval.low / floor.log_deviation - 0.5665).abs() < 1e-3, "{floor:?}");
        assert!((floor.log_deviation_interval.high / floor.log_deviation - 3.7285).abs() < 1e-3, "{floor:?}");
        let refused = NoiseFloor::of(&pairs[..3], Level::NINETY_FIVE);
        assert_eq!(refused, Err(Refusal::TooFew { count: 3, needed: 4 }));
    }

    #[test]
    fn the_smallest_effect_of_ten_pairs() {
        // s = 4.1 %: (2.2622 + 0.8834)·0.041/√10 = 0.04078.
        let effect = smallest_effect(0.041, 10, Level::NINETY_FIVE);
        assert!((effect - 0.04078_f64.exp_m1()).abs() < 1e-5, "{effect}");
        assert!(smallest_effect(0.041, 40, Level::NINETY_FIVE) < effect / 1.9);
    }
}
