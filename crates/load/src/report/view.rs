//! A result as figures see it: set-ups, levels, what is compared, and what speaks against it.

use hdrhistogram::Histogram;

use crate::analysis::comparison::{Comparison, Declared};
use crate::analysis::gates::{Colour, Gate, GateBound, gates_within, worst};
use crate::analysis::{Figures, Metric, Window};
use crate::result::{Run, Saved, SavedSecond};
use crate::search::{Bound, Found, Search, Step};
use crate::statistics::Level;
use crate::statistics::paired::Change;
use crate::statistics::predictability::{LevelRun, SpreadOverLoad, SweepLevel};
use crate::statistics::verdict::{Direction, Margin, Verdict};

use super::doubts::{self, Doubt, clipped};
use super::label::{label, shown};
use crate::number;

/// Which set-up. A run that names none is A's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arm {
    A,
    B,
    /// A against itself, for the noise of the machine: in the table of all runs alone.
    Floor,
}

impl Arm {
    /// What it is called beside its name.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Arm::B => "B",
            Arm::A | Arm::Floor => "A",
        }
    }

    /// What its lines are drawn as: A's solid, B's dashed.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Arm::B => "b",
            Arm::A | Arm::Floor => "a",
        }
    }
}

/// One run with its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) arm: Arm,
    pub(crate) run: &'a Run,
    /// Whole seconds that count.
    pub(crate) seconds: &'a [SavedSecond],
    pub(crate) figures: Figures,
    pub(crate) gates: Vec<Gate>,
    /// In a pair that is left out, or red itself.
    pub(crate) is_excluded: bool,
}

impl Placed<'_> {
    pub(crate) fn count(&self) -> u64 {
        self.figures.total.count
    }

    /// Replies a second.
    pub(crate) fn rate(&self) -> f64 {
        self.figures.total.per_second
    }

    pub(crate) fn response(&self) -> &Histogram<u64> {
        &self.figures.total.response
    }

    pub(crate) fn service(&self) -> &Histogram<u64> {
        &self.figures.total.service
    }

    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        metric.of(self.run, &self.figures)
    }

    /// What is swept, where this run stands on it.
    pub(crate) fn level(&self) -> Option<f64> {
        self.run.head.level.as_ref().map(|(_, value)| *value)
    }

    /// Requests that may be in flight at once, in a closed pace.
    pub(crate) fn offered_in_flight(&self) -> Option<f64> {
        let head = &self.run.head;
        head.rate.is_none().then(|| f64::from(head.connection_count) * f64::from(head.pipeline.max(1)))
    }

    /// Requests that were in flight on average, from sending to reply (Little: rate × mean).
    pub(crate) fn in_flight(&self) -> f64 {
        self.rate() * self.service().mean() / 1e9
    }

    /// The share of its core that the busiest thread of the load used.
    pub(crate) fn thread_use_max(&self) -> Option<f64> {
        self.run.end.as_ref()?.thread_use.iter().copied().filter(|share| share.is_finite()).reduce(f64::max)
    }

    fn is_red(&self) -> bool {
        worst(&self.gates) == Colour::Red
    }
}

/// One number in both set-ups.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// As claims and files name it.
    pub(crate) name: String,
    pub(crate) label: &'static str,
    pub(crate) direction: Direction,
    pub(crate) metric: Metric,
    /// Of each pair that counts.
    pub(crate) values: Vec<(f64, f64)>,
    /// None: too few pairs tell it.
    pub(crate) judged: Option<(Change, Verdict)>,
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub(crate) saved: &'a Saved,
    pub(crate) declared: Declared,
    /// The response time that is still good.
    pub(crate) bound: Option<Bound>,
    /// Shortened: marked on every figure.
    pub(crate) is_quick: bool,
    /// What a search found.
    pub(crate) found: Option<Found>,
    pub(crate) runs: Vec<Placed<'a>>,
    /// About the whole.
    pub(crate) doubts: Vec<Doubt>,
    /// Of two set-ups with what was declared; the rest of the comparison is in `compared`.
    pub(crate) comparison: Option<Comparison>,
    /// What was declared first; empty where nothing is compared.
    pub(crate) compared: Vec<Compared>,
    /// Numbers of pairs of A and B, and of those that do not count.
    pub(crate) pairs: Vec<u32>,
    pub(crate) pairs_excluded: Vec<u32>,
}

impl<'a> View<'a> {
    pub(crate) fn of(saved: &'a Saved) -> View<'a> {
        let plan = &saved.head.plan;
        let read = |key: &str| plan.get(key).cloned().unwrap_or_default();
        let declared: Option<Declared> = serde_json::from_value(read("declared")).ok();
        let is_read = declared.is_some() || read("declared").is_null();
        let mut declared = declared.unwrap_or_else(|| Declared {
            name_a: "A".to_owned(),
            name_b: "B".to_owned(),
            metric: Metric::P99,
            margin: Margin::FIVE_PERCENT,
            claims: Vec::new(),
            may_differ: Vec::new(),
            gates: Vec::new(),
            servers_kept: Vec::new(),
        });
        declared.name_a = clipped(&declared.name_a);
        declared.name_b = clipped(&declared.name_b);
        let bound: Option<Bound> = serde_json::from_value(read("bound")).ok();
        let mut runs: Vec<Placed<'a>> = saved.runs.iter().map(|run| placed(run, &declared.gates)).collect();
        let mut pairs: Vec<u32> =
            runs.iter().filter(|run| run.arm != Arm::Floor).filter_map(|run| run.run.head.pair).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let pairs_excluded: Vec<u32> = pairs.iter().copied().filter(|pair| is_bad(&runs, *pair)).collect();
        for run in &mut runs {
            run.is_excluded = run.is_red()
                || (run.arm != Arm::Floor
                    && run.run.head.pair.is_some_and(|pair| pairs_excluded.contains(&pair)));
        }
        let mut view = View {
            saved,
            doubts: doubts::of_whole(saved, &declared, is_read),
            declared,
            is_quick: read("is_quick").as_bool().unwrap_or(false),
            found: bound.and_then(|bound| found(saved, bound)),
            bound,
            runs,
            comparison: None,
            compared: Vec::new(),
            pairs,
            pairs_excluded,
        };
        if view.is_comparison() {
            if view.levels().len() > 1 {
                view.compared = view.compare_sweeps();
            } else {
                view.comparison = Comparison::of(saved);
                view.compared =
                    view.comparison.iter().flat_map(|comparison| &comparison.metrics).map(compared).collect();
                view.compared.retain(|compared| !compared.values.is_empty());
            }
        }
        view
    }

    /// Whether there are two set-ups.
    pub(crate) fn is_comparison(&self) -> bool {
        self.arms().len() == 2
    }

    /// The set-ups that have runs.
    pub(crate) fn arms(&self) -> Vec<Arm> {
        [Arm::A, Arm::B].into_iter().filter(|arm| self.runs.iter().any(|run| run.arm == *arm)).collect()
    }

    /// What a set-up is called. Where there is one alone it has no name.
    pub(crate) fn name(&self, arm: Arm) -> &str {
        match arm {
            Arm::Floor => "A against itself",
            _ if !self.is_comparison() => "",
            Arm::A => &self.declared.name_a,
            Arm::B => &self.declared.name_b,
        }
    }

    /// The values of what is swept, in order: connections, rates, sizes.
    pub(crate) fn levels(&self) -> Vec<f64> {
        let mut levels: Vec<f64> = self.runs.iter().filter_map(Placed::level).collect();
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        levels
    }

    /// What is swept.
    pub(crate) fn swept(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.run.head.level.as_ref()).map(|(name, _)| name.as_str())
    }

    /// The level at which single distributions are shown: what a search found, or the highest that every set-up has runs at that count, or any.
    pub(crate) fn level_shown(&self) -> Option<f64> {
        let levels = self.levels();
        if let Some(rate) = self.found.and_then(|found| found.rate).filter(|rate| levels.contains(rate)) {
            return Some(rate);
        }
        let has = |level: &f64| self.arms().iter().all(|arm| !self.counted_at(*arm, Some(*level)).is_empty());
        levels.iter().copied().rfind(has).or(levels.last().copied())
    }

    /// Runs of a set-up that count, at a level.
    pub(crate) fn counted_at(&self, arm: Arm, at: Option<f64>) -> Vec<&Placed<'a>> {
        let is_at = |run: &&Placed<'a>| run.arm == arm && run.level() == at && run.count() > 0;
        let counted: Vec<&Placed<'a>> =
            self.runs.iter().filter(is_at).filter(|run| !run.is_excluded).collect();
        // A single doubtful run is still shown: its doubts stand above it.
        if counted.is_empty() && self.runs.len() == 1 {
            return self.runs.iter().filter(is_at).collect();
        }
        counted
    }

    /// Runs of a set-up at the level that is shown.
    pub(crate) fn shown(&self, arm: Arm) -> Vec<&Placed<'a>> {
        self.counted_at(arm, self.level_shown())
    }

    /// Whether something forbids a claim about the whole.
    pub(crate) fn is_withheld(&self) -> bool {
        self.doubts.iter().any(|doubt| doubt.colour == Colour::Red)
    }

    /// Over the levels of a sweep, the published number and what stands beside it, in each pair.
    fn compare_sweeps(&self) -> Vec<Compared> {
        let counted = || self.pairs.iter().filter(|pair| !self.pairs_excluded.contains(pair));
        let spreads: Option<Vec<(SpreadOverLoad, SpreadOverLoad)>> = counted()
            .map(|pair| Some((self.spread(Arm::A, Some(*pair))?, self.spread(Arm::B, Some(*pair))?)))
            .collect();
        let Some(spreads) = spreads.filter(|spreads| !spreads.is_empty()) else { return Vec::new() };
        let numbers: [SweepNumber; 4] = [
            ("spread", "σ of the mean round trip over the sweep", Metric::Mean, |spread| {
                spread.deviation_ns
            }),
            ("rtt", "mean round trip over the sweep", Metric::Mean, |spread| spread.rtt_mean_ns),
            ("relative", "σ ÷ mean of the round trip over the sweep", Metric::Wobble, |spread| {
                spread.relative
            }),
            ("throughput", "throughput, mean over the sweep", Metric::Throughput, |spread| {
                spread.requests_per_second
            }),
        ];
        let changes = numbers.map(|(.., of)| {
            let values: Vec<(f64, f64)> = spreads.iter().map(|(a, b)| (of(a), of(b))).collect();
            let change = Change::of(&values, Level::NINETY_FIVE).ok();
            (values, change)
        });
        let others: Vec<(Change, Direction)> = (1..numbers.len())
            .filter_map(|index| Some((changes[index].1?, numbers[index].2.direction())))
            .collect();
        let mut verdicts = Verdict::on_each(&others, self.declared.margin).into_iter();
        let rows = numbers.into_iter().zip(changes).enumerate();
        rows.map(|(index, ((name, label, metric, _), (values, change)))| {
            let judge = |change: Change| {
                let own = Verdict::on(&change, metric.direction(), self.declared.margin);
                let verdict = if index == 0 { own } else { verdicts.next().unwrap_or(own) };
                (change, verdict)
            };
            let judged = change.map(judge);
            Compared { name: name.to_owned(), label, direction: metric.direction(), metric, values, judged }
        })
        .collect()
    }

    /// Of a set-up's runs in one pair, or in all of them, that count. None: fewer than two levels.
    pub(crate) fn spread(&self, arm: Arm, pair: Option<u32>) -> Option<SpreadOverLoad> {
        let levels: Vec<SweepLevel> = self
            .levels()
            .into_iter()
            .filter_map(|level| {
                let runs = self.counted_at(arm, Some(level)).into_iter();
                let runs: Vec<&Placed<'a>> =
                    runs.filter(|run| pair.is_none() || run.run.head.pair == pair).collect();
                let in_flight = runs.first()?.offered_in_flight().filter(|offered| *offered > 0.0)?;
                let runs = runs.into_iter().map(|run| LevelRun {
                    rtt_mean_ns: run.response().mean(),
                    rtt_deviation_ns: run.response().stdev(),
                    requests_per_second: run.rate(),
                });
                Some(SweepLevel { in_flight, runs: runs.collect() })
            })
            .collect();
        SpreadOverLoad::of(&levels)
    }
}

/// A number of a sweep: its name, its label, whose unit and direction it has, and how it is read.
type SweepNumber = (&'static str, &'static str, Metric, fn(&SpreadOverLoad) -> f64);

fn compared(of: &crate::analysis::comparison::Compared) -> Compared {
    Compared {
        name: of.metric.to_string(),
        label: label(of.metric),
        direction: of.metric.direction(),
        metric: of.metric,
        values: of.pairs.clone(),
        judged: of.change.zip(of.verdict),
    }
}

impl Compared {
    /// A value with its unit.
    pub(crate) fn text(&self, value: f64) -> String {
        shown(self.metric, value)
    }

    /// The middle of A's or B's values.
    pub(crate) fn median(&self, of: fn(&(f64, f64)) -> f64) -> String {
        let middle = super::figures::median(self.values.iter().map(of).collect());
        middle.map_or_else(|| number::NOT_RESOLVED.to_owned(), |value| self.text(value))
    }
}

/// The run whose value is the middle one: shown where only one can be.
pub(crate) fn middle<'r, 'a>(runs: &[&'r Placed<'a>], metric: Metric) -> Option<&'r Placed<'a>> {
    let mut runs: Vec<(f64, u32, &'r Placed<'a>)> =
        runs.iter().map(|run| (run.value(metric).unwrap_or(f64::MAX), run.run.head.run, *run)).collect();
    runs.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    runs.get(runs.len().saturating_sub(1) / 2).map(|(.., run)| *run)
}

/// What a search found, from its runs: the same steps are taken again.
fn found(saved: &Saved, bound: Bound) -> Option<Found> {
    let number = |key: &str| saved.head.plan.get(key)?.as_f64();
    let (from, most) = (number("from")?, number("most")?);
    if saved.head.kind != "search" || saved.runs.is_empty() || from <= 0.0 || most < from {
        return None;
    }
    let mut search = Search::new(from, most);
    saved.runs.iter().for_each(|run| search.take(Step::of(run, bound).failed));
    Some(search.found())
}

/// Whether a pair has a half that is missing or red.
fn is_bad(runs: &[Placed<'_>], pair: u32) -> bool {
    let of = |arm: Arm| runs.iter().filter(move |run| run.arm == arm && run.run.head.pair == Some(pair));
    [Arm::A, Arm::B].into_iter().any(|arm| of(arm).next().is_none() || of(arm).any(Placed::is_red))
}

fn placed<'a>(run: &'a Run, bounds: &[GateBound]) -> Placed<'a> {
    let figures = Figures::of(run);
    let arm = match run.head.arm.as_str() {
        "b" => Arm::B,
        "a1" | "a2" => Arm::Floor,
        _ => Arm::A,
    };
    let gates = gates_within(run, &figures, bounds);
    Placed { arm, run, seconds: Window::of(run).seconds, figures, gates, is_excluded: false }
}
