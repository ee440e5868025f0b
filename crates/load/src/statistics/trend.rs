//! The line of round-trip times a second: drift along it, roughness about it, a step in it.
//!
//! A straight line is the product's claim, so the line is fitted by medians (Theil 1950, Sen 1968): up to 29 % of wild
//! seconds do not move it, and what they are shows as roughness or spikes instead.

use serde::{Deserialize, Serialize};

use super::describe::{deviation_robust, mean, median, median_of_sorted, whole};
use super::effective::inflation;
use super::{Interval, Level};

/// A drift beyond so much of the median, surely not zero, makes a run "drifting".
pub const DRIFT_SHARE_MAX: f64 = 0.05;
/// A step beyond so much, surely not chance, is one.
pub const STEP_SHARE_MIN: f64 = 0.05;
/// Points below which no line is fitted.
const POINTS_COUNT_MIN: usize = 6;
/// Points on either side of a step.
const LEVEL_COUNT_MIN: usize = 3;
/// Points that are fitted; a longer series is averaged in equal blocks first, for slopes are taken between all pairs.
const POINTS_COUNT_MAX: usize = 1_000;

/// The line through a series at equal distances, and how straight the series is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The line's change from the first value to the last, as a share of the median.
    pub drift: f64,
    /// Where the drift lies: Sen's interval by Kendall's variance, widened by the [inflation](super::effective) of what is
    /// left about the line.
    pub drift_interval: Interval,
    /// Robust standard deviation about the line, as a share of the median.
    pub roughness: f64,
    /// The most likely step, where a step explains the series better than the line does.
    pub step: Option<Step>,
}

/// A change from one level to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The first value on the new level.
    pub index: usize,
    /// The new median less the old, as a share of the old.
    pub share: f64,
    /// How likely a series without a step looks like this (Pettitt 1979), corrected for dependence.
    pub p_value: f64,
}

impl Trend {
    /// Of a series after the [cut](super::steady), in order. None: fewer than six values, or a median that is not above
    /// zero.
    pub fn of(series: &[f64], level: Level) -> Option<Trend> {
        let block = series.len().div_ceil(POINTS_COUNT_MAX).max(1);
        let points: Vec<f64> = series.chunks(block).map(mean).collect();
        let middle = median(&points).filter(|&middle| middle > 0.0 && points.len() >= POINTS_COUNT_MIN)?;
        let slopes = slopes_sorted(&points);
        let slope = median_of_sorted(&slopes)?;
        let rests = rests(&points, slope);
        let reach = (points.len() - 1) as f64 / middle;
        let drift_interval =
            slope_interval(&slopes, points.len(), inflation(&rests), level).map(|slope| slope * reach);
        let step = step(&points, level).filter(|(_, rest)| absolute_sum(rest) < absolute_sum(&rests));
        Some(Trend {
            drift: slope * reach,
            drift_interval,
            roughness: deviation_robust(&rests)? / middle,
            step: step.map(|(step, _)| Step { index: step.index * block, ..step }),
        })
    }

    /// Whether the drift is both larger than [`DRIFT_SHARE_MAX`] and surely not zero: an amber mark on the run.
    pub fn is_drifting(&self) -> bool {
        self.drift.abs() > DRIFT_SHARE_MAX && !self.drift_interval.contains(0.0)
    }

    /// Whether the drift is surely no larger than [`DRIFT_SHARE_MAX`], one way or the other.
    pub fn is_level(&self) -> bool {
        self.drift_interval.low >= -DRIFT_SHARE_MAX && self.drift_interval.high <= DRIFT_SHARE_MAX
    }

    /// `drifting`, `level`, or `can't tell`.
    pub fn word(&self) -> &'static str {
        match self {
            trend if trend.is_drifting() => "drifting",
            trend if trend.is_level() => "level",
            _ => "can't tell",
        }
    }
}

/// Slopes between all pairs of points, in order.
fn slopes_sorted(points: &[f64]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(points.len() * (points.len() - 1) / 2);
    for (index, from) in points.iter().enumerate() {
        let later = points[index + 1..].iter().enumerate();
        slopes.extend(later.map(|(between, to)| (to - from) / (between + 1) as f64));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    slopes
}

/// What is left when the line of this slope through the middle is taken away.
fn rests(points: &[f64], slope: f64) -> Vec<f64> {
    let flat: Vec<f64> =
        points.iter().enumerate().map(|(index, point)| point - slope * index as f64).collect();
    let base = median(&flat).unwrap_or_default();
    flat.iter().map(|point| point - base).collect()
}

/// Order statistics of the slopes: as many off each end as Kendall's S, whose variance without a trend is
/// n(n − 1)(2n + 5)/18, varies. Dependence multiplies the variance (Hamed and Rao 1998).
fn slope_interval(slopes: &[f64], count: usize, inflation: f64, level: Level) -> Interval {
    let count = count as f64;
    let variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0 * inflation;
    let off = (slopes.len() as f64 - level.normal_quantile() * variance.sqrt()) / 2.0;
    let cut = whole(off - 1.0).min(slopes.len() / 2);
    Interval::new(slopes[cut], slopes[slopes.len() - 1 - cut])
}

/// The step between the two levels that fit best, with what is left about them. None: none that is sure and large.
///
/// Sure is by Pettitt's test: K is the largest |Uₜ|, where Uₜ = 2 Σᵢ₌₁ᵗ rankᵢ − t(n + 1), and p ≈ 2 exp(−6K²/(n³ + n²)).
/// Ranks keep a few wild seconds from looking like a step. Where K is reached is no good place for it: too near the middle.
fn step(points: &[f64], level: Level) -> Option<(Step, Vec<f64>)> {
    let count = points.len() as f64;
    let mut sum = 0.0;
    let lean = ranks(points).into_iter().enumerate().map(|(index, rank)| {
        sum += rank;
        (2.0 * sum - (index + 1) as f64 * (count + 1.0)).abs()
    });
    let exponent = -6.0 * lean.fold(0.0, f64::max).powi(2) / (count.powi(3) + count.powi(2));
    if 2.0 * exponent.exp() > level.alpha() {
        return None;
    }
    let candidates =
        (LEVEL_COUNT_MIN..=points.len() - LEVEL_COUNT_MIN).filter_map(|index| two_levels(points, index));
    let (step, rest) =
        candidates.min_by(|(_, left), (_, right)| absolute_sum(left).total_cmp(&absolute_sum(right)))?;
    let p_value = (2.0 * (exponent / inflation(&rest)).exp()).min(1.0);
    let is_step = p_value <= level.alpha() && step.share.abs() > STEP_SHARE_MIN;
    is_step.then_some((Step { p_value, ..step }, rest))
}

/// A step at this index, and the distances from the medians before and after it.
fn two_levels(points: &[f64], index: usize) -> Option<(Step, Vec<f64>)> {
    let (before, after) = points.split_at(index);
    let (old, new) = (median(before)?, median(after)?);
    let rest = before.iter().map(|point| point - old).chain(after.iter().map(|point| point - new)).collect();
    Some((Step { index, share: new / old - 1.0, p_value: 1.0 }, rest))
}

/// The place of each point in order, from one; equal points share the middle of their places.
fn ranks(points: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&left, &right| points[left].total_cmp(&points[right]));
    let mut ranks = vec![0.0; points.len()];
    let mut place = 0;
    for equal in order.chunk_by(|&left, &right| points[left].total_cmp(&points[right]).is_eq()) {
        let rank = place as f64 + (equal.len() + 1) as f64 / 2.0;
        equal.iter().for_each(|&index| ranks[index] = rank);
        place += equal.len();
    }
    ranks
}

fn absolute_sum(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::statistics::trial::normal;

    fn trend_of(series: &[f64]) -> Trend {
        Trend::of(series, Level::NINETY_FIVE).unwrap()
    }

    /// 60 seconds around 100 µs with so much noise, plus what `add` says.
    fn series(seed: u64, noise: f64, add: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut chance = Chance::new(seed);
        (0..60).map(|index| 100.0 + noise * normal(&mut chance) + add(index)).collect()
    }

    #[test]
    fn an_exact_line_is_its_own_trend() {
        let line: Vec<f64> = (0..=20).map(|index| 95.0 + f64::from(index) / 2.0).collect();
        let trend = trend_of(&line);
        assert!((trend.drift - 0.10).abs() < 1e-12 && trend.drift_interval.width() < 1e-12, "{trend:?}");
        assert!(trend.roughness < 1e-12 && trend.step.is_none() && trend.is_drifting());
    }

    /// The (N ∓ z·√var)/2-th of N slopes in order (Gilbert, "Statistical Methods for Environmental Pollution Monitoring",
    /// 16.4).
    #[test]
    fn the_interval_counts_slopes_off_each_end() {
        let slopes: Vec<f64> = (1..=45).map(f64::from).collect();
        // n = 10: var = 10·9·25/18 = 125, 1.96·11.18 = 21.9; (45 − 21.9)/2 = 11.5: the 11th from either end.
        assert_eq!(slope_interval(&slopes, 10, 1.0, Level::NINETY_FIVE), Interval::new(11.0, 35.0));
        // Twice the variance: 1.96·15.81 = 30.99; (45 − 30.99)/2 = 7.005: the 7th.
        assert_eq!(slope_interval(&slopes, 10, 2.0, Level::NINETY_FIVE), Interval::new(7.0, 39.0));
        assert_eq!(slope_interval(&slopes, 10, 100.0, Level::NINETY_FIVE), Interval::new(1.0, 45.0));
    }

    #[test]
    fn noise_alone_does_not_drift_and_a_drift_is_found() {
        let drifting = |add: fn(usize) -> f64| {
            (0..200).filter(|&seed| trend_of(&series(seed, 2.0, add)).is_drifting()).count()
        };
        assert_eq!(drifting(|_| 0.0), 0, "noise of 2 % never drifts by 5 %");
        assert_eq!(drifting(|index| index as f64 / 6.0), 200, "10 % over the run");
    }

    #[test]
    fn a_trend_has_a_word() {
        let word = |noise: f64, climb: f64| {
            let add = |index: usize| climb * index as f64;
            Trend::of(&series(1, noise, add), Level::NINETY_FIVE).unwrap().word()
        };
        // 60 seconds about 100: a climb of 0.2 a second is 12 % from end to end.
        assert_eq!((word(1.0, 0.0), word(1.0, 0.2), word(1.0, -0.2)), ("level", "drifting", "drifting"));
        assert_eq!(word(60.0, 0.0), "can't tell");
        let trend = |low: f64, high: f64| Trend {
            drift: f64::midpoint(low, high),
            drift_interval: Interval::new(low, high),
            roughness: 0.0,
            step: None,
        };
        for (low, high, want) in [
            (-0.05, 0.05, "level"),
            (-0.06, 0.01, "can't tell"),
            (-0.01, 0.06, "can't tell"),
            (0.01, 0.08, "can't tell"),
            (0.01, 0.12, "drifting"),
            (-0.12, -0.01, "drifting"),
            (0.01, 0.04, "level"),
        ] {
            assert_eq!(trend(low, high).word(), want, "{low} {high}");
        }
    }

    #[test]
    fn the_interval_misses_no_drift_in_about_one_of_twenty() {
        let missed = (0..400)
            .filter(|&seed| !trend_of(&series(seed, 2.0, |_| 0.0)).drift_interval.contains(0.0))
            .count();
        // The inflation, never below one, makes it a little wider than it had to be.
        assert!((4..=28).contains(&missed), "{missed} of 400");
    }

    #[test]
    fn wild_seconds_neither_tilt_the_line_nor_look_like_a_step() {
        let trend =
            trend_of(&series(5, 1.0, |index| if [50, 53, 55, 58].contains(&index) { 900.0 } else { 0.0 }));
        assert!(trend.drift.abs() < 0.02 && trend.roughness < 0.02 && trend.step.is_none(), "{trend:?}");
    }

    #[test]
    fn a_step_is_found_where_it_is_and_a_ramp_is_none() {
        for seed in 0..50 {
            let step =
                trend_of(&series(seed, 2.0, |index| if index >= 25 { 20.0 } else { 0.0 })).step.unwrap();
            assert!((23..=27).contains(&step.index) && (step.share - 0.2).abs() < 0.03, "{seed}: {step:?}");
            let ramp = trend_of(&series(seed, 2.0, |index| index as f64));
            assert_eq!((ramp.step, ramp.is_drifting()), (None, true), "{seed}: {ramp:?}");
        }
        let steps = (0..200).filter(|&seed| trend_of(&series(seed, 5.0, |_| 0.0)).step.is_some());
        assert!(steps.count() <= 8, "in noise");
    }

    #[test]
    fn a_small_step_is_none_however_sure() {
        let step =
            |height: f64| trend_of(&series(1, 0.5, |index| if index >= 25 { height } else { 0.0 })).step;
        assert!(step(3.0).is_none() && step(8.0).is_some());
    }

    #[test]
    fn most_wanders_are_taken_for_neither_step_nor_drift() {
        let wander = |seed| {
            let mut chance = Chance::new(seed);
            let wander = (0..600).scan(0.0, move |state, _| {
                *state = 0.9 * *state + 4.0 * normal(&mut chance);
                Some(100.0 + *state)
            });
            trend_of(&wander.collect::<Vec<f64>>())
        };
        let trends: Vec<Trend> = (0..50).map(wander).collect();
        let steps = trends.iter().filter(|trend| trend.step.is_some()).count();
        let drifting = trends.iter().filter(|trend| trend.is_drifting()).count();
        // Taken for independent points, 46 and 21: what is slow beside the run is hard to tell from either.
        assert!(steps <= 18 && drifting <= 12, "{steps} steps, {drifting} drifts");
    }

    #[test]
    fn a_long_series_is_fitted_in_blocks() {
        let long: Vec<f64> = (0..36_000).map(|index| if index < 18_000 { 100.0 } else { 110.0 }).collect();
        let step = trend_of(&long).step.unwrap();
        assert_eq!(step.index, 18_000);
        assert!((step.share - 0.1).abs() < 1e-12);
    }

    #[test]
    fn equal_points_share_a_rank_and_too_few_have_no_trend() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(Trend::of(&[1.0; 5], Level::NINETY_FIVE), None);
        assert_eq!(Trend::of(&[0.0; 60], Level::NINETY_FIVE), None, "no share of nothing");
    }
}
