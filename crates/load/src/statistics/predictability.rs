//! How little latency varies, in three numbers, each with what it hides beside it.
//!
//! - *Spread over load*: the number that was published. It is the standard deviation of the mean round trips at 10, 20 …
//!   100 connections. In a saturated closed loop a round trip is connections ÷ throughput, so a perfectly steady server has
//!   a large one: a pure line through the origin has σ/mean = 0.55. It falls when throughput rises, and says nothing of
//!   jitter; σ/mean and Little's product stand beside it for that reason.
//! - *Tail gap* at a fixed rate: what an unlucky request pays more than a usual one.
//! - *Wobble*: how the p99 changes from second to second. A whole run's percentiles cannot tell one bad second from one bad
//!   request in a hundred; a user can. The line's drift and roughness are [`trend`](super::trend)'s.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::describe::{deviation, deviation_robust, mean, median, variance_population};
use super::little::Little;
use super::quantiles::is_resolved;
use crate::float::float;

/// A second is a spike when its p99 is more than so many times the usual.
const SPIKE_FACTOR: f64 = 3.0;
/// Seconds below which nothing is said of their differences.
const SECONDS_COUNT_MIN: usize = 3;

/// One run of one instance at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelRun {
    /// Mean round-trip time.
    pub rtt_mean_ns: f64,
    /// Standard deviation of the round-trip times of its requests.
    pub rtt_deviation_ns: f64,
    /// Completed requests a second.
    pub requests_per_second: f64,
}

/// One level of a sweep: its runs, one for each instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepLevel {
    /// Requests that each instance's clients keep in flight: connections × pipeline.
    pub in_flight: f64,
    /// At least one.
    pub runs: Vec<LevelRun>,
}

/// Spread over load: the published predictability and its readings.
///
/// With R_c the mean round trip at level c over all runs there, and R their mean:
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpreadOverLoad {
    /// R: the published "average RTT over all runs".
    pub rtt_mean_ns: f64,
    /// √(Σ (R_c − R)² / (levels − 1)): what the published number fits.
    pub deviation_ns: f64,
    /// The same over the number of levels.
    pub deviation_population_ns: f64,
    /// Of all single runs' means, over n − 1.
    pub deviation_of_runs_ns: f64,
    /// The mean of the runs' own standard deviations: the variation *within* a run.
    pub deviation_within_ns: f64,
    /// The mean over levels of the standard deviation between a level's runs. None: a level has a single run.
    pub deviation_between_ns: Option<f64>,
    /// The true variance, of the level means, in square nanoseconds.
    pub variance_ns2: f64,
    /// `deviation_ns` / `rtt_mean_ns`: 0.55 for a line through the origin over ten equal steps.
    pub relative: f64,
    /// Mean over the levels of the mean rate of an instance.
    pub requests_per_second: f64,
    /// That rate times R, beside the mean of what was offered.
    pub little: Little,
}

impl SpreadOverLoad {
    /// Of a sweep. None: fewer than two levels, or a level without a run.
    pub fn of(levels: &[SweepLevel]) -> Option<SpreadOverLoad> {
        if levels.len() < 2 || levels.iter().any(|level| level.runs.is_empty()) {
            return None;
        }
        let of_level = |level: &SweepLevel, figure: fn(&LevelRun) -> f64| -> Vec<f64> {
            level.runs.iter().map(figure).collect()
        };
        let of_runs =
            |figure| -> Vec<f64> { levels.iter().flat_map(|level| of_level(level, figure)).collect() };
        let of_levels =
            |figure| -> Vec<f64> { levels.iter().map(|level| mean(&of_level(level, figure))).collect() };
        let rtts = of_levels(|run| run.rtt_mean_ns);
        let between: Option<Vec<f64>> =
            levels.iter().map(|level| deviation(&of_level(level, |run| run.rtt_mean_ns))).collect();
        let (rtt_mean_ns, deviation_ns) = (mean(&rtts), deviation(&rtts)?);
        let requests_per_second = mean(&of_levels(|run| run.requests_per_second));
        let offered: Vec<f64> = levels.iter().map(|level| level.in_flight).collect();
        Some(SpreadOverLoad {
            rtt_mean_ns,
            deviation_ns,
            deviation_population_ns: variance_population(&rtts).sqrt(),
            deviation_of_runs_ns: deviation(&of_runs(|run| run.rtt_mean_ns))?,
            deviation_within_ns: mean(&of_runs(|run| run.rtt_deviation_ns)),
            deviation_between_ns: between.map(|between| mean(&between)),
            variance_ns2: deviation_ns.powi(2),
            relative: deviation_ns / rtt_mean_ns,
            requests_per_second,
            little: Little::of(requests_per_second, rtt_mean_ns, mean(&offered)),
        })
    }
}

/// What an unlucky request pays, at a fixed offered rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TailGap {
    /// The quantile that stands for unlucky: 0.999 where it is resolved, else 0.99.
    pub quantile: f64,
    /// That percentile less the p50: what a caller must budget for beyond the usual.
    pub gap_ns: u64,
    /// p99 / p50: without a scale, so that merely being faster does not improve it.
    pub stretch: f64,
}

impl TailGap {
    /// Of response times. `inflation` is the τ of [`effective`](super::effective). None: not even the p99 is resolved.
    pub fn of(response: &Histogram<u64>, inflation: f64) -> Option<TailGap> {
        let is_resolved = |quantile| is_resolved(float(response.len()) / inflation, quantile);
        let quantile = [0.999, 0.99].into_iter().find(|&quantile| is_resolved(quantile))?;
        let p50 = response.value_at_quantile(0.5);
        let gap_ns = response.value_at_quantile(quantile) - p50;
        Some(TailGap {
            quantile,
            gap_ns,
            stretch: float(response.value_at_quantile(0.99)) / float(p50.max(1)),
        })
    }
}

/// How the p99 changes from second to second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wobble {
    /// 1.4826 · median |ln qₜ − median ln q|: a robust coefficient of variation.
    pub wobble: f64,
    /// The plain one: standard deviation ÷ mean. One bad second moves it.
    pub variation: f64,
    /// Seconds whose p99 is more than three times the median second's.
    pub spikes_count: usize,
    /// Seconds looked at.
    pub seconds_count: usize,
}

impl Wobble {
    /// Of the p99 of each second, in any unit. Each second should have a thousand requests or more, see
    /// [`is_resolved`]. None: fewer than three seconds, or one that is not above zero.
    pub fn of(p99_of_seconds: &[f64]) -> Option<Wobble> {
        if p99_of_seconds.len() < SECONDS_COUNT_MIN
            || p99_of_seconds.iter().any(|&p99| p99.is_nan() || p99 <= 0.0)
        {
            return None;
        }
        let logs: Vec<f64> = p99_of_seconds.iter().map(|p99| p99.ln()).collect();
        let usual = median(p99_of_seconds)?;
        Some(Wobble {
            wobble: deviation_robust(&logs)?,
            variation: deviation(p99_of_seconds)? / mean(p99_of_seconds),
            spikes_count: p99_of_seconds.iter().filter(|&&p99| p99 > SPIKE_FACTOR * usual).count(),
            seconds_count: p99_of_seconds.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::times;
    use crate::statistics::little::Light;

    fn near(got: f64, want: f64, within: f64) {
        assert!((got - want).abs() <= within, "{got} for {want}");
    }

    /// Levels 10, 20 … 100 with these mean round trips, one run each, at the rate that Little's law asks for.
    fn sweep(rtt_ns: impl Fn(f64) -> f64) -> Vec<SweepLevel> {
        let level = |in_flight: f64| {
            let rtt_mean_ns = rtt_ns(in_flight);
            let requests_per_second = in_flight / rtt_mean_ns * 1e9;
            SweepLevel {
                in_flight,
                runs: vec![LevelRun { rtt_mean_ns, rtt_deviation_ns: 7.0, requests_per_second }],
            }
        };
        (1..=10).map(|tens| level(f64::from(tens) * 10.0)).collect()
    }

    #[test]
    fn a_perfectly_steady_server_has_a_large_published_number() {
        let slope = 22_500.0;
        let spread = SpreadOverLoad::of(&sweep(|connections| slope * connections)).unwrap();
        near(spread.rtt_mean_ns, 55.0 * slope, 1e-6);
        near(spread.deviation_ns / slope, 30.2765, 1e-4);
        near(spread.deviation_population_ns / slope, 28.7228, 1e-4);
        near(spread.relative, 0.5505, 1e-4);
        near(spread.variance_ns2, spread.deviation_ns.powi(2), 1e-3);
        near(spread.deviation_within_ns, 7.0, 1e-12);
        near(spread.deviation_of_runs_ns, spread.deviation_ns, 1e-6);
        assert_eq!(spread.deviation_between_ns, None);
        near(spread.little.ratio, 1.0, 1e-9);
        assert_eq!(spread.little.light, Light::Green);
        assert!(SpreadOverLoad::of(&sweep(|_| 1.0)[..1]).is_none());
    }

    #[test]
    fn runs_of_a_level_are_averaged_first_and_their_spread_kept_apart() {
        let run = |us: f64| LevelRun {
            rtt_mean_ns: us * 1e3,
            rtt_deviation_ns: us * 100.0,
            requests_per_second: 1e6 / us,
        };
        let levels = [
            SweepLevel { in_flight: 1.0, runs: vec![run(90.0), run(110.0)] },
            SweepLevel { in_flight: 3.0, runs: vec![run(280.0), run(320.0)] },
        ];
        let spread = SpreadOverLoad::of(&levels).unwrap();
        near(spread.rtt_mean_ns, 200e3, 1e-6);
        near(spread.deviation_ns, 20_000.0_f64.sqrt() * 1e3, 1e-6);
        near(spread.deviation_between_ns.unwrap(), (200.0_f64.sqrt() + 800.0_f64.sqrt()) / 2.0 * 1e3, 1e-6);
        near(spread.deviation_of_runs_ns, (41_000.0_f64 / 3.0).sqrt() * 1e3, 1e-6);
        near(spread.deviation_within_ns, 20e3, 1e-6);
        near(spread.little.offered, 2.0, 1e-12);
    }

    #[test]
    fn the_gap_is_that_of_the_furthest_resolved_percentile() {
        let mut histogram = times();
        for (ns, count) in [(100, 9_850), (400, 130), (1_000, 20)] {
            histogram.record_n(ns, count).unwrap();
        }
        assert_eq!(
            TailGap::of(&histogram, 1.0),
            Some(TailGap { quantile: 0.999, gap_ns: 900, stretch: 4.0 })
        );
        // Worth 5,000 independent ones, ten do not lie above the p99.9 any more; worth 500, not even above the p99.
        assert_eq!(TailGap::of(&histogram, 2.0), Some(TailGap { quantile: 0.99, gap_ns: 300, stretch: 4.0 }));
        assert_eq!(TailGap::of(&histogram, 20.0), None);
        assert_eq!(TailGap::of(&times(), 1.0), None);
    }

    #[test]
    fn wobble_sees_seconds_that_differ_and_counts_spikes() {
        let flat = Wobble::of(&[200.0; 30]).unwrap();
        assert_eq!((flat.wobble, flat.variation, flat.spikes_count, flat.seconds_count), (0.0, 0.0, 0, 30));
        // Half the seconds a tenth above the middle, half a tenth below.
        let uneven: Vec<f64> = (0..30).map(|second| if second % 2 == 0 { 220.0 } else { 180.0 }).collect();
        let uneven = Wobble::of(&uneven).unwrap();
        near(uneven.wobble, 1.4826 * (220.0_f64 / 180.0).ln() / 2.0, 1e-9);
        // One bad second: a spike, no wobble.
        let mut spiked = vec![200.0; 30];
        spiked[7] = 601.0;
        let spiked = Wobble::of(&spiked).unwrap();
        assert_eq!((spiked.wobble, spiked.spikes_count), (0.0, 1));
        assert!(spiked.variation > 0.3);
        assert_eq!(Wobble::of(&[1.0; 3]).map(|wobble| wobble.seconds_count), Some(3));
        assert_eq!((Wobble::of(&[1.0; 2]), Wobble::of(&[1.0, 0.0, 1.0])), (None, None));
    }
}
