//! A sample in one number: middle and spread, plain and robust.

/// Makes the median absolute deviation of normal values their standard deviation: 1 / Φ⁻¹(0.75).
const NORMAL_PER_MAD: f64 = 1.4826;

/// The arithmetic mean. Not a number for an empty sample.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean square distance from the mean, over n. Not a number for an empty sample.
pub(crate) fn variance_population(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Mean square distance from the mean, over n − 1. None: fewer than two values.
pub(crate) fn variance(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    (values.len() >= 2).then(|| variance_population(values) * count / (count - 1.0))
}

/// Standard deviation, over n − 1. None: fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    variance(values).map(f64::sqrt)
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The middle one, or the mean of the two in the middle. None: an empty sample.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// As [`median_of_sorted`], in any order.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// A standard deviation that a few wild values do not move: 1.4826 times the median distance from the median.
pub(crate) fn deviation_robust(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances).map(|mad| NORMAL_PER_MAD * mad)
}

/// The whole number at or below: 0 for what is negative or no number.
pub(crate) fn whole(value: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, which is the rule here"
    )]
    let whole = value.floor() as usize;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_and_spread_of_known_samples() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), 5.0);
        assert_eq!(variance_population(&values), 4.0);
        assert!((deviation(&values).unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(median(&values), Some(4.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!((median(&[]), deviation(&[1.0])), (None, None));
    }

    #[test]
    fn one_wild_value_does_not_move_the_robust_deviation() {
        let calm = deviation_robust(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(calm, NORMAL_PER_MAD);
        assert_eq!(deviation_robust(&[1.0, 2.0, 3.0, 4.0, 5e9]).unwrap(), calm);
    }

    #[test]
    fn whole_numbers_saturate() {
        assert_eq!((whole(3.99), whole(-0.5), whole(f64::NAN), whole(1e300)), (3, 0, 0, usize::MAX));
    }
}
