//! What the runs of an experiment say: rows beside the published ones, and one finding.
//!
//! The sample is the pair. A pair counts for a step if both of its set-ups ran whole and no red gate closed on them. Where not
//! one pair counts, the figures of the doubtful ones are shown, as doubtful, and nothing is concluded from them.
//!
//! A run in which the load was the limit counts: its server is at least as good as it says. What follows from that is in
//! [`finding`](super::finding).

use serde::Serialize;

use super::finding::{Finding, bound, finding, judge};
use super::measure::{Figure, Measure, Unit};
use super::measured::Measured;
use super::presets::{Id, Preset};
use super::scale::Planned;
use super::setups::{Arm, Step};
use crate::float::float;
use crate::statistics::Level;
use crate::statistics::describe::median;
use crate::statistics::paired::Change;
use crate::statistics::predictability::{LevelRun, SpreadOverLoad, SweepLevel};
use crate::statistics::verdict::{Margin, Verdict};

/// One number in two set-ups, beside what was published of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// The set-ups.
    pub step: Step,
    /// How its values are written.
    pub unit: Unit,
    /// What was published; empty: nothing.
    pub published: Vec<f64>,
    /// The headline's change.
    pub headline_percent: Option<f64>,
    /// The middle value over the pairs, in the first set-up. None: it was not measured.
    pub from: Option<f64>,
    /// And in the second.
    pub to: Option<f64>,
    /// Pairs that count.
    pub pairs_count: u32,
    /// Not one pair counts: the values are those of the doubtful ones.
    pub is_doubtful: bool,
    /// In some of these runs the load was the limit: of the first set-up, of the second.
    pub is_load_limited: [bool; 2],
    /// With its interval, from six pairs on.
    pub change: Option<Change>,
    /// Of the first row by itself, of the others together (Holm). None: nothing is concluded, or neither way is good.
    pub verdict: Option<Verdict>,
}

/// One run's first number, to be drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The set-up.
    pub arm: String,
    /// The pair.
    pub pair: u32,
    /// Where on the sweep; none: nothing is swept.
    pub level: Option<f64>,
    /// In [`Evaluation::point_unit`].
    pub value: f64,
    /// A red gate closed on it.
    pub is_doubtful: bool,
}

/// Runs of a set-up in which the load was the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limited {
    /// The set-up.
    pub arm: String,
    /// So many …
    pub count: u32,
    /// … of so many.
    pub of: u32,
    /// How it was seen in the first of them.
    pub words: String,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// What ran.
    pub planned: Planned,
    /// The first is what the finding rests on.
    pub rows: Vec<Row>,
    /// Pairs of which something ran.
    pub pairs_count: u32,
    /// Pairs of which every set-up ran whole, whether they count or not.
    pub pairs_whole_count: u32,
    /// Runs that don't count: the set-up, the pair, and why.
    pub dropped: Vec<(String, u32, String)>,
    /// Where the load was the limit.
    pub limited: Vec<Limited>,
    /// Every whole run.
    pub points: Vec<Point>,
    /// What the points are.
    pub point_name: &'static str,
    /// How they are written.
    pub point_unit: Unit,
    /// What it comes to.
    pub finding: Finding,
    /// What a careful reader finds in the published figures.
    pub readers_check: Option<String>,
}

impl Evaluation {
    /// Of an experiment's runs; those of others are passed over.
    pub fn of(planned: &Planned, runs: &[Measured]) -> Evaluation {
        let preset = Preset::of(planned.id);
        let id = planned.id.to_string();
        let runs: Vec<&Measured> = runs.iter().filter(|run| run.experiment == id).collect();
        let mut pairs: Vec<u32> = runs.iter().map(|run| run.pair).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let table = Table { planned, preset, runs: &runs, pairs: &pairs };
        let mut rows = Vec::new();
        for step in &planned.steps {
            let figures = if step.is_whole { preset.figures } else { &preset.figures[..1] };
            rows.extend(figures.iter().filter_map(|figure| table.row(figure, step)));
        }
        judge(&mut rows);
        rows.iter_mut().for_each(bound);
        let dropped = runs.iter().flat_map(|run| {
            let why = if run.is_whole { run.doubts.clone() } else { vec!["it was cut".to_owned()] };
            why.into_iter().map(|why| (run.arm.clone(), run.pair, why))
        });
        let mut dropped: Vec<(String, u32, String)> = dropped.collect();
        dropped.dedup_by(|later, earlier| (&later.0, later.1) == (&earlier.0, earlier.1));
        let is_whole = |pair: &&u32| planned.arms.iter().all(|arm| table.of(&arm.arm, **pair).is_some());
        let pairs_whole_count = u32::try_from(pairs.iter().filter(is_whole).count()).unwrap_or(u32::MAX);
        let (point_name, point_unit) = point_of(planned.id);
        let whole = || runs.iter().filter(|run| run.is_whole);
        Evaluation {
            limited: planned.arms.iter().filter_map(|arm| limited(arm, whole())).collect(),
            points: whole().filter_map(|run| point(planned.id, run)).collect(),
            point_name,
            point_unit,
            planned: planned.clone(),
            finding: finding(planned, &rows),
            rows,
            pairs_count: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
            pairs_whole_count,
            dropped,
            readers_check: preset.readers_check().map(|check| check.to_string()),
        }
    }
}

/// What is drawn of a run, and its unit.
fn point_of(id: Id) -> (&'static str, Unit) {
    match id {
        Id::E1 => ("mean round trip", Unit::Time),
        Id::E2 => ("p99", Unit::Time),
        Id::E3 => ("mean of GETs' mean and SETs' mean", Unit::Time),
        Id::E4 => ("operations a second", Unit::PerSecond),
        Id::E5 => ("requests a second", Unit::PerSecond),
    }
}

fn point(id: Id, run: &Measured) -> Option<Point> {
    let value = match id {
        Id::E1 => run.mean_ns,
        Id::E2 => run.p99_ns?,
        Id::E3 => f64::midpoint(run.get_mean_ns?, run.set_mean_ns?),
        Id::E4 | Id::E5 => run.per_second,
    };
    let is_doubtful = !run.doubts.is_empty();
    Some(Point { arm: run.arm.clone(), pair: run.pair, level: run.level, value, is_doubtful })
}

/// None: the load was never the limit of this set-up.
fn limited<'a>(arm: &Arm, runs: impl Iterator<Item = &'a &'a Measured>) -> Option<Limited> {
    let runs: Vec<&&Measured> = runs.filter(|run| run.arm == arm.arm).collect();
    let limited: Vec<&String> = runs.iter().filter_map(|run| run.load_limits.first()).collect();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Some(Limited {
        arm: arm.arm.clone(),
        words: (*limited.first()?).clone(),
        count: count(limited.len()),
        of: count(runs.len()),
    })
}

/// The runs of an experiment by set-up and pair.
struct Table<'a> {
    planned: &'a Planned,
    preset: &'static Preset,
    runs: &'a [&'a Measured],
    pairs: &'a [u32],
}

impl Table<'_> {
    /// None: it was not measured, as a size that was left out.
    fn row(&self, figure: &Figure, step: &Step) -> Option<Row> {
        let both = |pair: &u32| Some((self.of(&step.from, *pair)?, self.of(&step.to, *pair)?));
        let complete: Vec<_> = self.pairs.iter().filter_map(both).collect();
        let is_good = |runs: &[&Measured]| runs.iter().all(|run| run.doubts.is_empty());
        let good: Vec<_> =
            complete.iter().filter(|(from, to)| is_good(from) && is_good(to)).cloned().collect();
        let is_doubtful = good.is_empty() && !complete.is_empty();
        let pairs_count = u32::try_from(good.len()).unwrap_or(u32::MAX);
        let shown = if is_doubtful { &complete } else { &good };
        let (from, to) = (self.planned.arm(&step.from)?, self.planned.arm(&step.to)?);
        let value = |arm: &Arm, runs: &[&Measured]| self.value(figure.measure, arm, runs);
        let values: Vec<(f64, f64)> =
            shown.iter().filter_map(|(a, b)| Some((value(from, a)?, value(to, b)?))).collect();
        let published: Vec<f64> =
            step.published.iter().filter_map(|at| figure.values.get(*at)).copied().collect();
        if values.is_empty() && published.is_empty() {
            return None;
        }
        // A measure that some pairs don't tell is none of these pairs.
        let is_told = !is_doubtful && values.len() == good.len();
        let change = if is_told { Change::of(&values, Level::NINETY_FIVE).ok() } else { None };
        let is_limited = |runs: &[&Measured]| runs.iter().any(|run| !run.load_limits.is_empty());
        let middle = |of: fn(&(f64, f64)) -> f64| median(&values.iter().map(of).collect::<Vec<f64>>());
        Some(Row {
            name: if step.is_whole { figure.name.to_owned() } else { step.name.clone() },
            step: step.clone(),
            unit: Unit::of(figure.measure),
            headline_percent: figure.headline_percent.filter(|_| !published.is_empty()),
            published,
            from: middle(|pair| pair.0),
            to: middle(|pair| pair.1),
            pairs_count,
            is_doubtful,
            is_load_limited: [
                shown.iter().any(|(from, _)| is_limited(from)),
                shown.iter().any(|(_, to)| is_limited(to)),
            ],
            change,
            verdict: change.as_ref().and_then(|change| {
                Some(Verdict::on(change, figure.measure.direction()?, Margin::FIVE_PERCENT))
            }),
        })
    }

    /// The whole runs of a set-up in a pair. None: some level is missing.
    fn of(&self, arm: &str, pair: u32) -> Option<Vec<&Measured>> {
        let runs = self.runs.iter().copied().filter(|run| run.arm == arm && run.pair == pair);
        let runs: Vec<&Measured> = runs.collect();
        let has = |level: &u32| runs.iter().any(|run| run.level == Some(f64::from(*level)));
        let is_complete = !runs.is_empty() && self.planned.scale.levels.iter().all(has);
        (is_complete && runs.iter().all(|run| run.is_whole)).then_some(runs)
    }

    fn value(&self, measure: Measure, arm: &Arm, runs: &[&Measured]) -> Option<f64> {
        let spread = || self.spread(runs);
        let at = |size: u32| runs.iter().find(|run| run.level == Some(f64::from(size)));
        let mean = |of: fn(&Measured) -> f64| {
            let sum: f64 = runs.iter().map(|run| of(run)).sum();
            sum / float(u64::try_from(runs.len()).expect("64 bits"))
        };
        let only = *runs.first()?;
        let rate: f64 = runs.iter().map(|run| run.per_second).sum();
        match measure {
            Measure::RoundTrip => Some(spread()?.rtt_mean_ns),
            Measure::Spread => Some(spread()?.deviation_ns),
            Measure::SpreadShare => Some(spread()?.relative),
            Measure::SpreadOfRuns => Some(spread()?.deviation_of_runs_ns),
            Measure::SpreadWithin => Some(spread()?.deviation_within_ns),
            Measure::Little => Some(spread()?.little.ratio),
            Measure::PerInstance => Some(spread()?.requests_per_second),
            Measure::FromDue => Some(mean(|run| run.from_due_mean_ns)),
            Measure::Throughput => Some(rate),
            Measure::PerCore => Some(rate / f64::from(arm.cores.max(1))),
            Measure::PerDollar => self.planned.price.map(|price| rate / price),
            Measure::P99 => only.p99_ns,
            Measure::Slow => Some(only.slow_share),
            Measure::BucketsLower => Some(only.bucket_means_ns[0]),
            Measure::BucketsMiddle => Some(only.bucket_means_ns[1]),
            Measure::BucketsUpper => Some(only.bucket_means_ns[2]),
            Measure::Mean => Some(only.mean_ns),
            Measure::GetAt(size) => at(size)?.get_mean_ns,
            Measure::SetAt(size) => at(size)?.set_mean_ns,
            Measure::BothAt(size) => Some(f64::midpoint(at(size)?.get_mean_ns?, at(size)?.set_mean_ns?)),
            Measure::MixAt(size) => Some(at(size)?.mean_ns),
        }
    }

    /// Over the levels. A run whose load spans several instances stands for one of them, with its part of the requests.
    fn spread(&self, runs: &[&Measured]) -> Option<SpreadOverLoad> {
        let levels = self.planned.scale.levels.iter().map(|level| {
            let connections = f64::from(self.preset.connections_at(Some(*level)));
            let runs = runs.iter().filter(|run| run.level == Some(f64::from(*level)));
            SweepLevel {
                in_flight: connections * f64::from(self.preset.pipeline),
                runs: runs
                    .map(|run| LevelRun {
                        rtt_mean_ns: run.mean_ns,
                        rtt_deviation_ns: run.deviation_ns,
                        requests_per_second: run.per_second * connections
                            / f64::from(run.connection_count.max(1)),
                    })
                    .collect(),
            }
        });
        SpreadOverLoad::of(&levels.collect::<Vec<SweepLevel>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Scale;
    use crate::experiments::setups::tests::offer;
    use crate::statistics::verdict::Word;

    fn near(got: Option<f64>, want: f64) {
        assert!(got.is_some_and(|got| (got / want - 1.0).abs() < 1e-6), "{got:?} for {want}");
    }

    fn planned(id: Id) -> Planned {
        let preset = Preset::of(id);
        let scale = Scale::new(preset, false, 1, 1, 64 << 30);
        Planned::new(preset, scale, &offer(2))
    }

    /// A whole run of a set-up, in a closed loop without a client's own time.
    fn measured(id: Id, arm: &str, pair: u32, level: Option<u32>, mean_ns: f64) -> Measured {
        let preset = Preset::of(id);
        let connection_count = preset.connections_at(level);
        Measured {
            experiment: id.to_string(),
            arm: arm.to_owned(),
            pair,
            level: level.map(f64::from),
            connection_count,
            per_second: f64::from(connection_count * preset.pipeline) / mean_ns * 1e9,
            mean_ns,
            deviation_ns: 7.0,
            from_due_mean_ns: mean_ns + 5.0,
            p99_ns: Some(mean_ns * 3.0),
            get_mean_ns: Some(mean_ns - 10.0),
            set_mean_ns: Some(mean_ns + 30.0),
            is_whole: true,
            ..Measured::default()
        }
    }

    /// Both set-ups' round trips are connections × a constant, with a hundredth of noise from pair to pair.
    fn sweep(pairs: u32, a_ns: f64, b_ns: f64) -> Vec<Measured> {
        let mut runs = Vec::new();
        for pair in 0..pairs {
            for level in (10..=100).step_by(10) {
                let noise = 1.0 + f64::from(pair % 3) * 0.01;
                runs.push(measured(Id::E1, "a", pair, Some(level), f64::from(level) * a_ns * noise));
                runs.push(measured(Id::E1, "b", pair, Some(level), f64::from(level) * b_ns));
            }
        }
        runs
    }

    fn row<'a>(evaluation: &'a Evaluation, name: &str) -> &'a Row {
        evaluation.rows.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn a_straight_line_has_the_spread_of_its_slope() {
        let evaluation = Evaluation::of(&planned(Id::E1), &sweep(1, 1_000.0, 400.0));
        let spread = row(&evaluation, "spread over load");
        near(spread.from, 30.276_503_540_974_915 * 1_000.0);
        near(spread.to, 30.276_503_540_974_915 * 400.0);
        assert_eq!(spread.published, [739e3, 229e3]);
        near(row(&evaluation, "mean round trip").from, 55_000.0);
        near(row(&evaluation, "spread / mean").to, 0.550_481_882_563_180);
        near(row(&evaluation, "Little / offered").from, 1.0);
        near(row(&evaluation, "per instance").from, 1e6);
        near(row(&evaluation, "spread within runs").from, 7.0);
        near(row(&evaluation, "spread of all runs").from, 30.276_503_540_974_915 * 1_000.0);
        near(row(&evaluation, "mean from due").to, 22_005.0);
        assert_eq!((spread.change, spread.verdict, evaluation.finding), (None, None, Finding::StandIn(None)));
        assert!(evaluation.sentence().contains("1 pair is too few"), "{}", evaluation.sentence());
        assert!(!evaluation.tells());
    }

    /// Of two instances one is slower at every level: that is spread among runs, and none over the load.
    #[test]
    fn the_spread_of_all_runs_is_that_of_instances_too() {
        let mut runs = Vec::new();
        for level in (10..=100).step_by(10) {
            for (arm, factor) in [("a", 800.0), ("a", 1_200.0), ("b", 1_000.0)] {
                runs.push(measured(Id::E1, arm, 0, Some(level), f64::from(level) * factor));
            }
        }
        let evaluation = Evaluation::of(&planned(Id::E1), &runs);
        near(row(&evaluation, "spread over load").from, 30.276_503_540_974_915 * 1_000.0);
        near(row(&evaluation, "spread of all runs").from, 32_101.811_721_295_01);
        near(row(&evaluation, "spread of all runs").to, 30.276_503_540_974_915 * 1_000.0);
    }

    /// One load over four lanes is one of four instances, four times.
    #[test]
    fn a_load_over_several_instances_counts_as_one_of_them() {
        let mut runs = sweep(1, 1_000.0, 1_000.0);
        for run in runs.iter_mut().filter(|run| run.arm == "b") {
            run.connection_count *= 4;
            run.per_second *= 4.0;
        }
        let evaluation = Evaluation::of(&planned(Id::E1), &runs);
        near(row(&evaluation, "per instance").to, 1e6);
        near(row(&evaluation, "Little / offered").to, 1.0);
    }

    #[test]
    fn six_pairs_tell_and_a_stand_in_is_never_a_reproduction() {
        let runs = sweep(6, 1_000.0, 300.0);
        let stand_in = Evaluation::of(&planned(Id::E1), &runs);
        assert_eq!(stand_in.finding, Finding::StandIn(Some(Word::Better)));
        assert!(stand_in.sentence().starts_with("No repetition"), "{}", stand_in.sentence());
        assert!(stand_in.tells());
        let mut same = planned(Id::E1);
        same.mismatches.clear();
        assert_eq!(Evaluation::of(&same, &runs).finding, Finding::Reproduced);
        // A third less is not half less; a half, give or take, can't be told.
        let check = |b_ns, pairs, want| {
            assert_eq!(Evaluation::of(&same, &sweep(pairs, 1_000.0, b_ns)).finding, want, "{b_ns}");
        };
        check(667.0, 6, Finding::NotReproduced);
        check(505.0, 6, Finding::CantTell);
        check(300.0, 5, Finding::CantTell);
    }

    #[test]
    fn a_red_run_takes_its_pair_with_it() {
        let mut runs = sweep(7, 1_000.0, 300.0);
        runs[5].doubts.push("the hypervisor took 9 % of the cpus".to_owned());
        let evaluation = Evaluation::of(&planned(Id::E1), &runs);
        assert_eq!((evaluation.rows[0].pairs_count, evaluation.pairs_count), (6, 7));
        assert_eq!(evaluation.dropped.len(), 1);
        assert!(evaluation.tells());
        runs[25].is_whole = false;
        let evaluation = Evaluation::of(&planned(Id::E1), &runs);
        assert_eq!((evaluation.rows[0].pairs_count, evaluation.finding), (5, Finding::StandIn(None)));
        let cut = "Cut short: of 10 pairs that were planned, 6 ran whole.";
        assert_eq!(evaluation.cut().as_deref(), Some(cut), "a pair that is dropped ran, too");
        assert_eq!(Evaluation::of(&planned(Id::E1), &sweep(10, 1.0, 1.0)).cut(), None);
        runs.iter_mut().for_each(|run| run.doubts = vec!["busy".to_owned()]);
        let evaluation = Evaluation::of(&planned(Id::E1), &runs);
        let first = &evaluation.rows[0];
        assert!(
            first.is_doubtful && first.from.is_some() && first.change.is_none() && first.pairs_count == 0
        );
        assert!(evaluation.points.iter().all(|point| point.is_doubtful));
    }

    #[test]
    fn a_step_that_was_not_published_has_no_headline() {
        let planned = planned(Id::E2);
        let runs: Vec<Measured> =
            planned.arms.iter().map(|arm| measured(Id::E2, &arm.arm, 0, None, 1e5)).collect();
        let rows = Evaluation::of(&planned, &runs).rows;
        let of = |from: &'static str| rows.iter().filter(move |row| row.step.from == from);
        assert!(of("a").any(|row| row.headline_percent.is_some() && !row.published.is_empty()));
        assert!(of("installed").all(|row| row.headline_percent.is_none() && row.published.is_empty()));
        assert_eq!(of("installed").count(), Preset::of(Id::E2).figures.len());
    }

    /// Of a histogram by buckets; and a percentile that one of the pairs does not tell is not concluded from the others.
    #[test]
    fn each_number_of_the_tail_is_its_own() {
        let planned = planned(Id::E2);
        let mut runs = Vec::new();
        for pair in 0..7 {
            for arm in &planned.arms {
                runs.push(Measured {
                    bucket_means_ns: [1e5, 1.2e5, 1.4e5],
                    slow_share: 0.11,
                    ..measured(Id::E2, &arm.arm, pair, None, 1.3e5)
                });
            }
        }
        let evaluation = Evaluation::of(&planned, &runs);
        for (name, want) in [
            ("p99", 3.9e5),
            ("mean by buckets", 1.2e5),
            (" at lower edges", 1e5),
            (" at upper edges", 1.4e5),
            ("true mean", 1.3e5),
            ("above 360 µs", 0.11),
        ] {
            near(row(&evaluation, name).from, want);
        }
        assert!(
            evaluation.rows[0].change.is_some() && evaluation.points.iter().all(|point| !point.is_doubtful)
        );
        runs.iter_mut().find(|run| run.arm == "own").unwrap().p99_ns = None;
        let first = &Evaluation::of(&planned, &runs).rows[0];
        assert_eq!((first.pairs_count, first.change, first.verdict), (7, None, None));
        assert!(first.from.is_some());
    }

    #[test]
    fn a_pair_without_a_level_is_none() {
        let mut runs = sweep(6, 1_000.0, 300.0);
        runs.retain(|run| !(run.pair == 2 && run.arm == "b" && run.level == Some(40.0)));
        assert_eq!(Evaluation::of(&planned(Id::E1), &runs).rows[0].pairs_count, 5);
    }

    #[test]
    fn get_and_set_apart_and_then_their_mean() {
        let mut runs = Vec::new();
        for size in Preset::of(Id::E3).sweep.levels() {
            for arm in &planned(Id::E3).arms {
                runs.push(measured(Id::E3, &arm.arm, 0, Some(*size), 1_000.0 + f64::from(*size)));
            }
        }
        let evaluation = Evaluation::of(&planned(Id::E3), &runs);
        near(row(&evaluation, "1024 B GET").from, 2_014.0);
        near(row(&evaluation, "1024 B SET").from, 2_054.0);
        near(evaluation.rows[0].from, 2_034.0);
        near(row(&evaluation, "1024 B as mixed").from, 2_024.0);
        assert_eq!(evaluation.rows[0].published, [203e3, 122e3]);
        // A size that was left out has no row.
        runs.retain(|run| run.level != Some(16_384.0));
        let mut planned = planned(Id::E3);
        planned.scale.levels.pop();
        let fewer = Evaluation::of(&planned, &runs);
        assert_eq!(evaluation.rows.len() - fewer.rows.len(), 2 * 3, "of two whole steps");
    }

    #[test]
    fn the_ladder_has_a_row_a_step_and_its_whole_per_core_and_dollar() {
        let planned = planned(Id::E5);
        let mut runs = Vec::new();
        // Fewer can't: among nine steps Holm asks for a p-value that six pairs never reach.
        for pair in 0..10 {
            for (at, arm) in (0_u32..).zip(&planned.arms) {
                let noise = 1.0 + f64::from((pair + at) % 3) * 0.01;
                runs.push(measured(Id::E5, &arm.arm, pair, None, 1e6 / f64::from(at + 1) * noise));
            }
        }
        let evaluation = Evaluation::of(&planned, &runs);
        let whole = &evaluation.rows[0];
        assert_eq!((whole.name.as_str(), evaluation.rows.len()), ("requests/s", 3 + 4 + 2 + 1));
        let (rate, cores) = (row(&evaluation, "requests/s"), row(&evaluation, "per server core"));
        near(cores.from, rate.from.unwrap() / 2.0);
        near(cores.to, rate.to.unwrap());
        near(row(&evaluation, "per dollar").to, rate.to.unwrap() / 1_000.0);
        let rung = row(&evaluation, "+ client routes");
        assert_eq!((rung.step.from.as_str(), rung.verdict.unwrap().word), ("start", Word::Better));
        assert_eq!(row(&evaluation, "whole less load pinned").step.from, "full");
        assert_eq!(evaluation.finding, Finding::StandIn(Some(Word::Better)));
    }
}
