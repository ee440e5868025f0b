//! The signed-rank distribution (Wilcoxon 1945), and the estimate and interval that belong to it.
//!
//! For differences d₁…dₙ that are symmetric about an unknown θ, take the Walsh averages (dᵢ + dⱼ)/2 of all i ≤ j. Their
//! median estimates θ (Hodges and Lehmann 1963); the number of them above θ has the distribution of W, the sum of those
//! of the ranks 1…n that a fair coin picks, whatever the shape of the differences. So counting `c` averages off each end
//! leaves an interval that misses θ with probability 2 P(W < c), exactly. No normal distribution is assumed, and one wild
//! run in ten hardly moves it. (Hollander, Wolfe, Chicken, "Nonparametric Statistical Methods", chapter 3.)

use super::describe::{median_of_sorted, sorted, whole};
use super::student::normal_cumulative;
use super::{Interval, Level};

/// Differences up to which the distribution is computed exactly; beyond, the normal approximation is right to a rank.
pub const EXACT_COUNT_MAX: usize = 60;

/// Estimate, interval and two-sided p-value of a sample of differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignedRank {
    /// The median of the Walsh averages.
    pub estimate: f64,
    /// Holds the true middle with the asked confidence or a little more.
    pub interval: Interval,
    /// How likely differences about zero are to lean so far to one side. Zeros count against a difference.
    pub p_value: f64,
}

impl SignedRank {
    /// None: so few differences that no interval has the level, see [`count_min`].
    pub fn of(differences: &[f64], level: Level) -> Option<SignedRank> {
        let count = differences.len();
        let cut = critical_value(count, level)?;
        let averages = walsh_averages(differences);
        let estimate = median_of_sorted(&averages)?;
        let interval = Interval::new(averages[cut], averages[averages.len() - 1 - cut]);
        let not_above = averages.partition_point(|&average| average <= 0.0);
        let not_below = averages.len() - averages.partition_point(|&average| average < 0.0);
        let p_value = (2.0 * cumulative(count, not_above.min(not_below))).min(1.0);
        Some(SignedRank { estimate, interval, p_value })
    }
}

/// Averages of all pairs, each with itself too, in order: n(n+1)/2 of them.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let differences = sorted(differences);
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, &lower) in differences.iter().enumerate() {
        averages.extend(differences[index..].iter().map(|&upper| f64::midpoint(lower, upper)));
    }
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

/// The fewest differences from which an interval of this level can be made: 2·2⁻ⁿ may not exceed what may be missed.
/// 6 for 95 %, 8 for 99 %.
pub fn count_min(level: Level) -> usize {
    whole((-level.tail().log2()).ceil())
}

/// The largest `c` with P(W ≤ c) not above the level's tail: the critical value of published tables. None: too few.
pub fn critical_value(count: usize, level: Level) -> Option<usize> {
    if count < count_min(level) {
        return None;
    }
    if count > EXACT_COUNT_MAX {
        let (mean, deviation) = moments(count);
        return Some(whole(mean - level.normal_quantile() * deviation - 0.5));
    }
    let mut below = 0.0;
    let fitting = distribution(count).into_iter().take_while(|probability| {
        below += probability;
        below <= level.tail()
    });
    fitting.count().checked_sub(1)
}

/// P(W ≤ `sum`) for `count` differences.
fn cumulative(count: usize, sum: usize) -> f64 {
    if count > EXACT_COUNT_MAX {
        let (mean, deviation) = moments(count);
        return normal_cumulative((sum as f64 + 0.5 - mean) / deviation);
    }
    distribution(count).into_iter().take(sum + 1).sum()
}

/// P(W = 0), P(W = 1), …: each rank is in the sum or not, like a coin.
fn distribution(count: usize) -> Vec<f64> {
    let mut probabilities = vec![0.0; count * (count + 1) / 2 + 1];
    probabilities[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..probabilities.len()).rev() {
            let with_rank = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
            probabilities[sum] = f64::midpoint(probabilities[sum], with_rank);
        }
    }
    probabilities
}

/// Mean and standard deviation of W.
fn moments(count: usize) -> (f64, f64) {
    let count = count as f64;
    let mean = count * (count + 1.0) / 4.0;
    (mean, (mean * (2.0 * count + 1.0) / 6.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(confidence: f64) -> Level {
        Level::new(confidence).unwrap()
    }

    /// Two-sided critical values as printed in Wilcoxon and Wilcox, "Some Rapid Approximate Statistical Procedures", 1964.
    #[test]
    fn critical_values_are_those_of_the_tables() {
        let five_percent = [
            (6, 0),
            (7, 2),
            (8, 3),
            (9, 5),
            (10, 8),
            (11, 10),
            (12, 13),
            (13, 17),
            (14, 21),
            (15, 25),
            (16, 29),
            (17, 34),
            (18, 40),
            (19, 46),
            (20, 52),
            (25, 89),
            (30, 137),
            (40, 264),
            (50, 434),
        ];
        for (count, want) in five_percent {
            assert_eq!(critical_value(count, Level::NINETY_FIVE), Some(want), "n = {count}, 95 %");
        }
        for (count, want) in
            [(8, 0), (9, 1), (10, 3), (11, 5), (12, 7), (15, 15), (20, 37), (25, 68), (30, 109)]
        {
            assert_eq!(critical_value(count, level(0.99)), Some(want), "n = {count}, 99 %");
        }
    }

    #[test]
    fn five_differences_cannot_carry_ninety_five_percent() {
        assert_eq!(critical_value(5, Level::NINETY_FIVE), None);
        assert_eq!(
            (count_min(Level::NINETY_FIVE), count_min(level(0.99)), count_min(level(0.90))),
            (6, 8, 5)
        );
        assert_eq!(critical_value(5, level(0.9375)), Some(0), "93.75 % is exact for five");
        assert!(SignedRank::of(&[1.0; 5], Level::NINETY_FIVE).is_none());
    }

    #[test]
    fn the_distribution_is_that_of_all_subsets() {
        let mut counts = [0.0; 22];
        for subset in 0_u32..64 {
            let sum: usize = (1..=6).filter(|rank| subset & (1 << (rank - 1)) != 0).sum();
            counts[sum] += 1.0 / 64.0;
        }
        assert_eq!(distribution(6), counts);
    }

    #[test]
    fn approximation_and_exact_values_meet() {
        let (mean, deviation) = moments(EXACT_COUNT_MAX);
        for confidence in [0.8, 0.9, 0.95, 0.99] {
            let exact = critical_value(EXACT_COUNT_MAX, level(confidence)).unwrap();
            let approximate = whole(mean - level(confidence).normal_quantile() * deviation - 0.5);
            // In the far tail the normal curve is a few ranks out of 1,830 too careful or too bold.
            assert!(
                exact.abs_diff(approximate) <= if confidence > 0.95 { 6 } else { 1 },
                "{confidence}: {exact} {approximate}"
            );
        }
        for sum in [500, 640, 915] {
            let exact = cumulative(EXACT_COUNT_MAX, sum);
            let approximate = normal_cumulative((sum as f64 + 0.5 - mean) / deviation);
            assert!((exact - approximate).abs() < 1e-3, "P(W ≤ {sum}): {exact} {approximate}");
        }
        // One more, and the approximation is what is used; exactly it would be 0.020023.
        assert!((cumulative(EXACT_COUNT_MAX + 1, 660) - 0.020_023).abs() < 1e-3);
        // As the exact distribution has them; at the middle the correction for whole ranks is all that there is.
        for (count, want) in [(61, 672), (70, 907)] {
            assert_eq!(critical_value(count, Level::NINETY_FIVE), Some(want), "n = {count}");
        }
        assert!((cumulative(61, 945) - 0.5).abs() < 1e-9);
        // Tables end at 100: 1,955 there.
        assert!(critical_value(100, Level::NINETY_FIVE).unwrap().abs_diff(1955) <= 1);
    }

    /// Hamilton depression scale, first visit less second: Hollander, Wolfe, Chicken, table 3.1. They give θ = −0.46,
    /// the interval (−0.786, −0.010) at 96.1 % and P(T⁺ ≥ 40) = 0.0195 one-sided.
    #[test]
    fn a_textbook_example_comes_out_as_printed() {
        let differences = [-0.952, 0.147, -1.022, -0.430, -0.620, -0.590, -0.490, 0.080, -0.010];
        let got = SignedRank::of(&differences, level(0.96)).unwrap();
        assert!((got.estimate + 0.46).abs() < 0.0051, "{got:?}");
        assert!(
            (got.interval.low + 0.786).abs() < 0.0006 && (got.interval.high + 0.010).abs() < 0.0006,
            "{got:?}"
        );
        assert!((got.p_value - 0.0391).abs() < 0.0001, "{got:?}");
    }

    #[test]
    fn the_interval_excludes_zero_exactly_when_the_p_value_says_so() {
        let base = [-0.3, 0.1, 0.4, 0.9, 1.2, 1.7, 2.5, -0.1, 0.6, 0.7];
        for shift in -30..30 {
            let shifted: Vec<f64> =
                base.iter().map(|difference| difference + f64::from(shift) / 10.0).collect();
            let got = SignedRank::of(&shifted, Level::NINETY_FIVE).unwrap();
            assert_eq!(!got.interval.contains(0.0), got.p_value <= 0.05, "{shift}: {got:?}");
        }
    }

    #[test]
    fn equal_differences_are_a_point_and_zeros_prove_nothing() {
        let same = SignedRank::of(&[0.25; 10], Level::NINETY_FIVE).unwrap();
        assert_eq!((same.estimate, same.interval), (0.25, Interval::new(0.25, 0.25)));
        assert_eq!(SignedRank::of(&[0.0; 10], Level::NINETY_FIVE).unwrap().p_value, 1.0);
    }
}
