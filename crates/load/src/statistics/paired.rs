//! The change from A to B, from pairs of runs.
//!
//! Each pair gives one number, dᵢ = ln(bᵢ / aᵢ): what drifts slowly over the experiment touches both runs of a pair and
//! falls out, and a factor is the same however large the metric is. Estimate and interval come from the signed ranks of
//! these ([`signed_rank`]), with Student's t beside them. A percentile bootstrap is left out on purpose: at ten pairs its
//! nominal 95 % hold the truth in 90 % (too narrow by √((n − 1)/n) · z/t; Hesterberg 2015).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::describe::deviation;
use super::signed_rank::{self, SignedRank};
use super::student::Student;
use super::{Interval, Level};

/// Pairs of one comparison. More are refused: the averages of all pairs of pairs are kept at once, 16 MB for these.
pub const PAIRS_COUNT_MAX: usize = 2_000;

/// How one metric changed from A to B, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Pairs that it rests on.
    pub pairs_count: usize,
    /// Confidence of both intervals.
    pub level: Level,
    /// Hodges–Lehmann estimate of ln(b / a).
    pub log_ratio: f64,
    /// Signed-rank interval of ln(b / a), exact up to [`signed_rank::EXACT_COUNT_MAX`] pairs.
    pub log_interval: Interval,
    /// Two-sided, of the signed ranks; what [`holm`](super::holm) adjusts.
    pub p_value: f64,
    /// Standard deviation of the log ratios, over n − 1.
    pub log_deviation: f64,
    /// The cross-check: mean and t interval of ln(b / a).
    pub student: Student,
    /// Where estimate and cross-check part; then both are shown.
    pub disagreement: Option<Disagreement>,
}

/// How signed ranks and Student's t contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disagreement {
    /// One of the intervals excludes zero and the other does not, or on the other side.
    Sign,
    /// Their estimates lie further apart than half the width of the signed-rank interval.
    Estimate,
}

/// Why no change can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// No interval of the level can be made of so few pairs.
    TooFew {
        /// Pairs given.
        count: usize,
        /// Pairs that the level needs.
        needed: usize,
    },
    /// More than [`PAIRS_COUNT_MAX`].
    TooMany {
        /// Pairs given.
        count: usize,
    },
    /// A value of zero, below zero, or no number has no ratio.
    NoRatio {
        /// Which pair, from zero.
        index: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooFew { count, needed } => {
                write!(f, "{count} pairs are too few for an interval of this confidence: it needs {needed}")
            }
            Refusal::TooMany { count } => write!(f, "{count} pairs are more than {PAIRS_COUNT_MAX}"),
            Refusal::NoRatio { index } => {
                write!(f, "pair {} has a value that is not above zero, so it has no ratio", index + 1)
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl Change {
    /// Of one metric, measured in pairs (a, b) of runs.
    pub fn of(pairs: &[(f64, f64)], level: Level) -> Result<Change, Refusal> {
        let differences = log_ratios(pairs)?;
        let needed = signed_rank::count_min(level);
        let too_few = Refusal::TooFew { count: pairs.len(), needed };
        let ranks = SignedRank::of(&differences, level).ok_or(too_few)?;
        let student = Student::of(&differences, level).ok_or(too_few)?;
        Ok(Change {
            pairs_count: pairs.len(),
            level,
            log_ratio: ranks.estimate,
            log_interval: ranks.interval,
            p_value: ranks.p_value,
            log_deviation: deviation(&differences).ok_or(too_few)?,
            student,
            disagreement: disagreement(&ranks, &student),
        })
    }

    /// The estimate as a share of A: −0.47 means that B is 47 % below A.
    pub fn share(&self) -> f64 {
        self.log_ratio.exp_m1()
    }

    /// The interval as shares of A.
    pub fn share_interval(&self) -> Interval {
        self.log_interval.map(f64::exp_m1)
    }

    /// The estimate as a factor: 0.53 for −47 %.
    pub fn factor(&self) -> f64 {
        self.log_ratio.exp()
    }

    /// Whether zero lies outside the interval: something differs, however little.
    pub fn excludes_zero(&self) -> bool {
        !self.log_interval.contains(0.0)
    }
}

/// ln(b / a) of each pair: what the dots of a figure show, and what everything here is computed from.
pub fn log_ratios(pairs: &[(f64, f64)]) -> Result<Vec<f64>, Refusal> {
    if pairs.len() > PAIRS_COUNT_MAX {
        return Err(Refusal::TooMany { count: pairs.len() });
    }
    let usable = |value: f64| value.is_finite() && value > 0.0;
    let ratio = |(index, &(a, b)): (usize, &(f64, f64))| {
        if usable(a) && usable(b) { Ok(b.ln() - a.ln()) } else { Err(Refusal::NoRatio { index }) }
    };
    pairs.iter().enumerate().map(ratio).collect()
}

fn disagreement(ranks: &SignedRank, student: &Student) -> Option<Disagreement> {
    if side(ranks.interval) != side(student.interval) {
        return Some(Disagreement::Sign);
    }
    let apart = (ranks.estimate - student.mean).abs();
    // Equal differences have no width; what is left between the estimates then is rounding.
    (apart > ranks.interval.width() / 2.0 + f64::EPSILON).then_some(Disagreement::Estimate)
}

/// 1 and −1: all of it above and below zero. 0: zero is in it.
fn side(interval: Interval) -> i8 {
    i8::from(interval.low > 0.0) - i8::from(interval.high < 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs_of(log_ratios: &[f64]) -> Vec<(f64, f64)> {
        log_ratios
            .iter()
            .enumerate()
            .map(|(index, ratio)| (100.0 + index as f64, (100.0 + index as f64) * ratio.exp()))
            .collect()
    }

    fn change_of(log_ratios: &[f64]) -> Change {
        Change::of(&pairs_of(log_ratios), Level::NINETY_FIVE).unwrap()
    }

    #[test]
    fn a_halved_metric_is_minus_fifty_percent() {
        let change = Change::of(&[(600.0, 300.0); 6], Level::NINETY_FIVE).unwrap();
        assert!((change.share() + 0.5).abs() < 1e-12 && (change.factor() - 0.5).abs() < 1e-12);
        assert!(change.excludes_zero() && change.disagreement.is_none() && change.pairs_count == 6);
    }

    #[test]
    fn the_interval_is_an_order_statistic_of_the_averages() {
        // Ten log ratios 0.01 … 0.10: the ninth smallest and ninth largest of 55 averages (critical value 8).
        let change = change_of(&[0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.10]);
        assert!((change.log_ratio - 0.055).abs() < 1e-9);
        // Averages from the bottom: 10, 15, 20 20, 25 25, 30 30 30, … thousandths.
        assert!((change.log_interval.low - 0.030).abs() < 1e-9, "{change:?}");
        assert!((change.log_interval.high - 0.080).abs() < 1e-9, "{change:?}");
        assert!((change.p_value - 2.0 / 1024.0).abs() < 1e-12, "all on one side: {}", change.p_value);
        assert!((change.share_interval().low - 0.030_f64.exp_m1()).abs() < 1e-9);
    }

    #[test]
    fn swapping_a_and_b_mirrors_everything() {
        let ratios = [0.05, -0.01, 0.02, 0.11, 0.07, 0.03, -0.02];
        let forth = change_of(&ratios);
        let swapped: Vec<(f64, f64)> = pairs_of(&ratios).into_iter().map(|(a, b)| (b, a)).collect();
        let back = Change::of(&swapped, Level::NINETY_FIVE).unwrap();
        assert!((forth.log_ratio + back.log_ratio).abs() < 1e-12);
        assert!((forth.log_interval.low - back.log_interval.mirrored().low).abs() < 1e-12);
        assert!((forth.p_value - back.p_value).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_ratio_or_too_few_pairs_is_refused_with_the_reason() {
        let check = |pairs: &[(f64, f64)], want| assert_eq!(Change::of(pairs, Level::NINETY_FIVE), Err(want));
        check(&[(1.0, 2.0); 5], Refusal::TooFew { count: 5, needed: 6 });
        check(&[], Refusal::TooFew { count: 0, needed: 6 });
        check(&[(1.0, 1.0), (1.0, 0.0)], Refusal::NoRatio { index: 1 });
        check(&[(-1.0, 1.0)], Refusal::NoRatio { index: 0 });
        check(&[(f64::INFINITY, 1.0)], Refusal::NoRatio { index: 0 });
        check(&vec![(1.0, 1.0); PAIRS_COUNT_MAX + 1], Refusal::TooMany { count: PAIRS_COUNT_MAX + 1 });
        assert!(Refusal::TooFew { count: 5, needed: 6 }.to_string().contains("needs 6"));
    }

    #[test]
    fn one_wild_run_is_a_disagreement_and_calm_runs_are_none() {
        let calm = [0.10, 0.11, 0.09, 0.10, 0.12, 0.08, 0.105, 0.095, 0.11, 0.09];
        assert_eq!(change_of(&calm).disagreement, None);
        let mut wild = calm;
        wild[3] = 5.0;
        // Nine runs agree on +10 %; the tenth drags the mean to 0.6 and its interval over zero.
        let change = change_of(&wild);
        assert!(change.excludes_zero() && (change.log_ratio - 0.10).abs() < 0.02, "{change:?}");
        assert_eq!(change.disagreement, Some(Disagreement::Sign));
        // Both are sure of a rise here, but not of how much: one run in twelve moves the mean alone.
        let skewed = change_of(&[0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.101, 0.10, 0.14]);
        assert_eq!(skewed.disagreement, Some(Disagreement::Estimate), "{skewed:?}");
        // Half the width of 0.0975 … 0.1075 is what the estimates may be apart: they are 0.0046 here, and 0.0071 there.
        for (last, want) in [(0.15, None), (0.18, Some(Disagreement::Estimate))] {
            let calm = [0.09, 0.095, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.105, 0.105, 0.11, last];
            assert_eq!(change_of(&calm).disagreement, want, "{last}");
        }
    }

    #[test]
    fn a_change_survives_its_file() {
        let change = change_of(&[0.05, -0.01, 0.02, 0.11, 0.07, 0.03]);
        let read: Change = serde_json::from_str(&serde_json::to_string(&change).unwrap()).unwrap();
        assert!((read.log_ratio - change.log_ratio).abs() < 1e-12 && read.pairs_count == 6);
    }
}
