//! What is common to figures over a swept number: the runs of each set-up at each level.

use super::extent;
use crate::report::view::{Arm, Placed, View};

/// A set-up's runs at one level.
pub(super) struct At<'r, 'a> {
    pub(super) level: f64,
    pub(super) runs: Vec<&'r Placed<'a>>,
}

impl At<'_, '_> {
    /// The mean of a number over the runs that have it, with the least and the greatest.
    pub(super) fn of(&self, number: impl Fn(&Placed<'_>) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| number(run)).collect();
        let (low, high) = extent(values.iter().copied())?;
        Some(Spread { mean: values.iter().sum::<f64>() / values.len() as f64, low, high })
    }
}

/// A number over some runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The levels at which a set-up has runs, by what `of` reads from a run; runs that are red are there, too, and marked.
pub(super) fn levels<'r, 'a>(
    view: &'r View<'a>,
    arm: Arm,
    of: impl Fn(&Placed<'a>) -> Option<f64>,
) -> Vec<At<'r, 'a>> {
    let of_arm = view.runs.iter().filter(|run| run.arm == arm && run.count() > 0);
    let mut placed: Vec<(f64, &Placed<'a>)> = of_arm.filter_map(|run| Some((of(run)?, run))).collect();
    placed.sort_by(|left, right| left.0.total_cmp(&right.0));
    let levels = placed.chunk_by(|left, right| left.0.total_cmp(&right.0).is_eq());
    levels.map(|runs| At { level: runs[0].0, runs: runs.iter().map(|(_, run)| *run).collect() }).collect()
}
