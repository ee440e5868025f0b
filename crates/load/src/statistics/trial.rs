//! The whole procedure on simulated machines: how often does it call what is not there, and miss what is?
//!
//! A run's metric is exp(effect of its arm + noise of its moment). Runs happen one after the other, in the order that
//! [`order`] gives, so that what drifts, wanders or steps meets both arms as it would on a machine; then
//! [`Change`] and [`Verdict`] see the pairs and nothing else. As repeatable as the seed.

use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};
use serde::{Deserialize, Serialize};

use super::Level;
use super::order::{self, PairOrder};
use super::paired::{Change, Refusal};
use super::verdict::{Direction, Margin, Verdict, Word};
use crate::chance::Chance;

/// Noise of a machine, as shares of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Standard deviation of one run by itself.
    pub run: f64,
    /// How its values are spread.
    pub shape: Shape,
    /// What lies over the whole experiment.
    pub disturbance: Disturbance,
}

/// The distribution of a run's own noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The bell curve.
    Normal,
    /// Student's t with three degrees of freedom, scaled to the same deviation: heavy tails.
    Heavy,
    /// Exponential less its mean: a long tail to one side.
    Skewed,
    /// Normal, but one run in ten five times as wide.
    Wild,
}

/// What a machine does to the runs of an experiment beside their own noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disturbance {
    /// Nothing.
    None,
    /// A steady rise by so much in all.
    Drift(f64),
    /// A wander: each run keeps nine tenths of the last one's deviation; so much is its standard deviation.
    Wander(f64),
    /// One step by so much at a random moment.
    Step(f64),
    /// The first run of each pair is so much larger.
    FirstInPair(f64),
}

/// How runs are laid out in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// All of A, then all of B: what nobody should do.
    Blocks,
    /// A before B in every pair: what is still wrong.
    Alternating,
    /// By balanced chance inside each pair: what `compare` does.
    Random,
}

/// An experiment that is repeated under many seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Pairs of runs.
    pub pairs_count: usize,
    /// The true change from A to B, as a share: 0 for A against A, 0.1 for +10 %.
    pub effect: f64,
    /// The machine.
    pub noise: Noise,
    /// The plan.
    pub layout: Layout,
}

/// What many experiments said, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Experiments.
    pub count: usize,
    /// The interval excluded zero.
    pub differs_count: usize,
    /// The interval held the true change.
    pub covered_count: usize,
    /// The word was [`Word::Worse`], for a metric of which less is better.
    pub worse_count: usize,
    /// The word was [`Word::CantTell`].
    pub cant_tell_count: usize,
}

impl Tally {
    /// As a share of the experiments.
    pub fn share(&self, count: usize) -> f64 {
        count as f64 / self.count as f64
    }
}

impl Trial {
    /// Repeats the experiment under `count` seeds drawn from `seed`. The interval is that of [`Level::NINETY_FIVE`], the
    /// margin [`Margin::FIVE_PERCENT`].
    pub fn repeat(&self, count: usize, seed: u64) -> Result<Tally, Refusal> {
        let mut seeds = Chance::new(seed);
        let mut tally = Tally { count, ..Tally::default() };
        for _ in 0..count {
            let change = Change::of(&self.pairs(seeds.next()), Level::NINETY_FIVE)?;
            let word = Verdict::on(&change, Direction::LowerIsBetter, Margin::FIVE_PERCENT).word;
            tally.differs_count += usize::from(change.excludes_zero());
            tally.covered_count += usize::from(change.log_interval.contains(self.effect.ln_1p()));
            tally.worse_count += usize::from(word == Word::Worse);
            tally.cant_tell_count += usize::from(word == Word::CantTell);
        }
        Ok(tally)
    }

    /// The pairs (a, b) of one experiment.
    pub fn pairs(&self, seed: u64) -> Vec<(f64, f64)> {
        let mut chance = Chance::new(seed);
        let disturbed = self.noise.disturbance.over(2 * self.pairs_count, &mut chance);
        let mut run = |moment: usize, effect: f64| {
            (disturbed[moment] + self.noise.run * self.noise.shape.draw(&mut chance) + effect).exp()
        };
        let moments = self.moments(seed).into_iter();
        moments.map(|(a, b)| (run(a, 0.0), run(b, self.effect.ln_1p()))).collect()
    }

    /// When the runs (a, b) of each pair happen: places in the order of all runs.
    fn moments(&self, seed: u64) -> Vec<(usize, usize)> {
        let pairs = 0..self.pairs_count;
        match self.layout {
            Layout::Blocks => pairs.map(|pair| (pair, self.pairs_count + pair)).collect(),
            Layout::Alternating => pairs.map(|pair| (2 * pair, 2 * pair + 1)).collect(),
            Layout::Random => {
                let orders = order::pairs_balanced(self.pairs_count, seed);
                let moments = orders.into_iter().enumerate().map(|(pair, order)| match order {
                    PairOrder::AThenB => (2 * pair, 2 * pair + 1),
                    PairOrder::BThenA => (2 * pair + 1, 2 * pair),
                });
                moments.collect()
            }
        }
    }
}

impl Shape {
    /// A value with mean 0 and standard deviation 1, but for the wild ones.
    fn draw(self, chance: &mut Chance) -> f64 {
        match self {
            Shape::Normal => normal(chance),
            // A t of three degrees of freedom has variance 3.
            Shape::Heavy => StudentT::new(3.0).expect("above zero").sample(chance) / 3.0_f64.sqrt(),
            Shape::Skewed => {
                let exponential: f64 = Exp1.sample(chance);
                exponential - 1.0
            }
            Shape::Wild if chance.below(10) == 0 => 5.0 * normal(chance),
            Shape::Wild => normal(chance),
        }
    }
}

impl Disturbance {
    /// What is added at each of `count` moments, as a logarithm.
    fn over(self, count: usize, chance: &mut Chance) -> Vec<f64> {
        match self {
            Disturbance::None => vec![0.0; count],
            Disturbance::Drift(share) => {
                (0..count).map(|moment| share * moment as f64 / count as f64).collect()
            }
            Disturbance::Wander(share) => {
                // Innovations of √(1 − 0.9²) keep the deviation where it is.
                let step = share * 0.19_f64.sqrt();
                let mut state = share * normal(chance);
                let mut wander = || {
                    state = 0.9 * state + step * normal(chance);
                    state
                };
                (0..count).map(|_| wander()).collect()
            }
            Disturbance::Step(share) => {
                let moment = chance.share() * count as f64;
                (0..count).map(|at| if (at as f64) < moment { 0.0 } else { share }).collect()
            }
            Disturbance::FirstInPair(share) => {
                (0..count).map(|moment| if moment % 2 == 0 { share } else { 0.0 }).collect()
            }
        }
    }
}

/// A standard normal.
pub(crate) fn normal(chance: &mut Chance) -> f64 {
    StandardNormal.sample(chance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::describe::{deviation, mean};
    use crate::statistics::planning;

    const WHITE: Noise = Noise { run: 0.02, shape: Shape::Normal, disturbance: Disturbance::None };
    const EXPERIMENTS: usize = 3_000;

    fn tally(pairs_count: usize, effect: f64, noise: Noise, layout: Layout) -> Tally {
        Trial { pairs_count, effect, noise, layout }.repeat(EXPERIMENTS, 20_26).unwrap()
    }

    fn with(disturbance: Disturbance) -> Noise {
        Noise { disturbance, ..WHITE }
    }

    #[test]
    fn a_against_a_is_called_different_as_rarely_as_promised_whatever_the_machine_does() {
        for disturbance in [
            Disturbance::None,
            Disturbance::Drift(0.05),
            Disturbance::Wander(0.03),
            Disturbance::Step(0.05),
            Disturbance::FirstInPair(0.01),
        ] {
            let tally = tally(10, 0.0, with(disturbance), Layout::Random);
            let share = tally.share(tally.differs_count);
            assert!((0.035..=0.06).contains(&share), "{disturbance:?}: {share}");
        }
    }

    #[test]
    fn other_layouts_call_what_is_not_there() {
        let share = |disturbance, layout| {
            let tally = tally(10, 0.0, with(disturbance), layout);
            tally.share(tally.differs_count)
        };
        assert!(share(Disturbance::Drift(0.05), Layout::Blocks) > 0.5);
        assert!(share(Disturbance::Wander(0.03), Layout::Blocks) > 0.2);
        assert!(share(Disturbance::FirstInPair(0.01), Layout::Alternating) > 0.1);
        assert!(
            share(Disturbance::None, Layout::Blocks) < 0.06,
            "without a disturbance nothing is wrong with blocks"
        );
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        for shape in [Shape::Normal, Shape::Heavy, Shape::Wild] {
            for pairs_count in [6, 10, 20] {
                let noise = Noise { run: 0.05, shape, disturbance: Disturbance::None };
                let tally = tally(pairs_count, 0.3, noise, Layout::Random);
                let share = tally.share(tally.covered_count);
                assert!((0.94..=0.98).contains(&share), "{shape:?}, {pairs_count} pairs: {share}");
            }
        }
    }

    /// Noise as on a quiet shared machine: 5 % a run for the p50, 12 % for the p99.
    #[test]
    fn a_slower_build_is_called_worse() {
        for (effect, run) in [(0.10, 0.05), (0.30, 0.12)] {
            for disturbance in [Disturbance::None, Disturbance::Drift(0.05), Disturbance::FirstInPair(0.01)] {
                let noise = Noise { run, shape: Shape::Normal, disturbance };
                let trial = Trial { pairs_count: 10, effect, noise, layout: Layout::Random };
                let tally = trial.repeat(200, 7).unwrap();
                assert!(tally.worse_count >= 160, "{effect} {disturbance:?}: {tally:?}");
            }
        }
    }

    #[test]
    fn the_smallest_effect_is_found_about_as_often_as_planned() {
        let log_deviation = WHITE.run * 2.0_f64.sqrt();
        let effect = planning::smallest_effect(log_deviation, 10, Level::NINETY_FIVE);
        let tally = tally(10, effect, WHITE, Layout::Random);
        let found = tally.share(tally.differs_count);
        // Ranks find a little less than t does where the noise is normal.
        assert!((0.74..=0.84).contains(&found), "{found}");
    }

    #[test]
    fn shapes_have_the_deviation_that_they_claim() {
        for (shape, want) in
            [(Shape::Normal, 1.0), (Shape::Heavy, 1.0), (Shape::Skewed, 1.0), (Shape::Wild, 3.4_f64.sqrt())]
        {
            let mut chance = Chance::new(11);
            let drawn: Vec<f64> = (0..100_000).map(|_| shape.draw(&mut chance)).collect();
            let got = deviation(&drawn).unwrap();
            assert!(
                mean(&drawn).abs() < 0.02 && (got / want - 1.0).abs() < 0.1,
                "{shape:?}: {} {got}",
                mean(&drawn)
            );
        }
        let mut chance = Chance::new(12);
        let wander: Vec<f64> = Disturbance::Wander(0.03).over(100_000, &mut chance);
        assert!((deviation(&wander).unwrap() / 0.03 - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_seed_repeats_an_experiment() {
        let trial = Trial { pairs_count: 7, effect: 0.1, noise: WHITE, layout: Layout::Random };
        assert_eq!(trial.pairs(5), trial.pairs(5));
        assert_ne!(trial.pairs(5), trial.pairs(6));
        let needed = Refusal::TooFew { count: 4, needed: 6 };
        assert_eq!(Trial { pairs_count: 4, ..trial }.repeat(1, 1), Err(needed));
    }
}
