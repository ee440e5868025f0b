//! Many metrics, one promise: Holm's adjustment.
//!
//! Of twenty metrics that do not differ one is "significant" at 5 %. Holm's step-down rule (Holm 1979) keeps the chance of
//! a single false call among all of them below the level, however the metrics depend on one another, and is never weaker
//! than dividing the level by their number (Bonferroni).

/// Adjusted p-values, in the order given: what is at most α may be called at α.
///
/// The i-th smallest of m is multiplied by m − i + 1, made no smaller than the one before it and at most 1.
pub fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&left, &right| p_values[left].total_cmp(&p_values[right]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut floor = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        floor = floor.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = floor;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(p_values: &[f64], want: &[f64]) {
        let got = adjust(p_values);
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() < 1e-12, "{got} for {want}");
        }
    }

    /// As R's p.adjust(…, "holm") prints them.
    #[test]
    fn adjusted_values_rise_with_the_number_of_metrics() {
        check(&[0.01, 0.04, 0.03, 0.005], &[0.03, 0.06, 0.06, 0.02]);
        check(&[0.04], &[0.04]);
        check(&[0.9, 0.6], &[1.0, 1.0]);
        check(&[0.01, 0.01, 0.01], &[0.03, 0.03, 0.03]);
        check(&[], &[]);
    }
}
