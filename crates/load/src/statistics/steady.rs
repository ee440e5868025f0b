//! Where the warm-up ends, and whether it does: MSER-5.
//!
//! The series is averaged in batches of five; the cut is where the standard error of the mean of what is left is smallest:
//! the d that minimises Σᵢ₍₎ᵈ (yᵢ − ȳ)² / (m − d)². Dropping more of a disturbed beginning lowers it, dropping good
//! batches raises it. A minimum in the second half means that no end of the warm-up was seen. (White 1997; found the one of
//! 44 rules fit to run unattended: Hoad and Robinson, "Implementing MSER-5 in Commercial Simulation Software", WSC 2011.)

use serde::{Deserialize, Serialize};

use super::describe::mean;

/// Values averaged before the rule looks: the 5 of its name.
const BATCH_COUNT: usize = 5;
/// Batches below which there is nothing to cut.
const BATCHES_COUNT_MIN: usize = 10;
/// The part of the batches, as 1 in so many, that is never cut off: the error of very few is small by chance.
const KEPT_PART: usize = 4;

/// What MSER-5 says of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Values to drop from the beginning.
    pub dropped_count: usize,
    /// Values in all.
    pub count: usize,
    /// Whether the cut lies in the first half. If not, the run is extended once and then called "not steady".
    pub is_steady: bool,
}

impl Cut {
    /// Of means over equal short times (100 ms), in order. None: fewer than fifty values. Up to four values at the end
    /// that fill no batch are not looked at.
    pub fn of(series: &[f64]) -> Option<Cut> {
        let batches: Vec<f64> = series.chunks_exact(BATCH_COUNT).map(mean).collect();
        if batches.len() < BATCHES_COUNT_MIN {
            return None;
        }
        let errors = errors_of_suffixes(&batches);
        let candidates = &errors[..=batches.len() - batches.len() / KEPT_PART];
        let best =
            (0..candidates.len()).min_by(|&left, &right| candidates[left].total_cmp(&candidates[right]))?;
        let is_steady = best * 2 <= batches.len();
        Some(Cut { dropped_count: best * BATCH_COUNT, count: series.len(), is_steady })
    }
}

/// Σ (yᵢ − ȳ)² / n² of the values from each index on, from behind, so that sums of squares lose no digits (Welford 1962).
fn errors_of_suffixes(values: &[f64]) -> Vec<f64> {
    let mut errors = vec![0.0; values.len()];
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for (index, value) in values.iter().enumerate().rev() {
        count += 1.0;
        let distance = value - mean;
        mean += distance / count;
        squares += distance * (value - mean);
        errors[index] = squares / (count * count);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::statistics::trial::normal;

    /// 300 means of 100 ms around 100 µs with 2 % of noise, after a beginning that `warm` adds.
    fn series(seed: u64, warm: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut chance = Chance::new(seed);
        (0..300).map(|index| 100.0 + 2.0 * normal(&mut chance) + warm(index)).collect()
    }

    #[test]
    fn errors_of_suffixes_are_the_formula() {
        let values = [4.0, 1.0, 7.0, 2.0];
        for (from, error) in errors_of_suffixes(&values).into_iter().enumerate() {
            let kept = &values[from..];
            let want = crate::statistics::describe::variance_population(kept) / kept.len() as f64;
            assert!((error - want).abs() < 1e-12, "from {from}: {error} for {want}");
        }
    }

    #[test]
    fn the_cut_lies_where_the_warm_up_ends() {
        // Slow for the first six seconds.
        let cuts =
            (0..100).map(|seed| Cut::of(&series(seed, |index| if index < 60 { 50.0 } else { 0.0 })).unwrap());
        let cuts: Vec<Cut> = cuts.collect();
        assert!(cuts.iter().all(|cut| cut.dropped_count >= 60), "the warm-up is never kept");
        let close = cuts.iter().filter(|cut| cut.is_steady && cut.dropped_count <= 100).count();
        assert!(close >= 85, "{close} of 100: chance makes it cut a little more");
    }

    #[test]
    fn a_steady_series_loses_little_and_an_endless_warm_up_is_called_not_steady() {
        let unsteady = (0..100).filter(|&seed| !Cut::of(&series(seed, |_| 0.0)).unwrap().is_steady).count();
        assert!(unsteady <= 5, "{unsteady} of 100 steady series");
        for seed in 0..20 {
            let cut = Cut::of(&series(seed, |index| 200.0 - index as f64 / 2.0)).unwrap();
            assert!(!cut.is_steady, "{seed}: {cut:?}");
        }
    }

    /// Twenty batches, of which so many are slow.
    #[test]
    fn the_cut_of_a_steady_run_lies_in_its_first_half() {
        for slow in 0..=15 {
            let series: Vec<f64> = (0..100).map(|index| if index < slow * 5 { 9.0 } else { 1.0 }).collect();
            let want = Cut { dropped_count: slow * 5, count: 100, is_steady: slow <= 10 };
            assert_eq!(Cut::of(&series), Some(want), "{slow}");
        }
    }

    #[test]
    fn a_short_series_has_no_cut() {
        assert_eq!(Cut::of(&[1.0; 49]), None);
        assert_eq!(Cut::of(&[1.0; 50]), Some(Cut { dropped_count: 0, count: 50, is_steady: true }));
    }
}
