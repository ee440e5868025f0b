//! Two set-ups, by the runs of a saved comparison: the noise of the machine first, then each metric's change with its interval,
//! one verdict on the metric that was declared beforehand, and what becomes of the claims.

use serde::{Deserialize, Serialize};

use super::gates::{Colour, Gate, GateBound, gates_within, worst};
use super::machines::Machines;
use super::{Figures, Metric};
use crate::environment::Row;
use crate::result::{Run, Saved};
use crate::statistics::Level;
use crate::statistics::claim::Claim;
use crate::statistics::paired::{Change, log_ratios};
use crate::statistics::planning::NoiseFloor;
use crate::statistics::verdict::{Answer, Margin, Verdict};

/// What was declared before the first run. The `plan` of the result's head holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    /// What set-up A is called.
    pub name_a: String,
    /// What set-up B is called.
    pub name_b: String,
    /// What the verdict is on.
    pub metric: Metric,
    /// Changes below this share are not worth speaking of.
    pub margin: Margin,
    /// What is claimed of the change from A to B.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Names of things of the environment that differ on purpose.
    #[serde(default)]
    pub may_differ: Vec<String>,
    /// Bounds of gates that hold in place of the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateBound>,
    /// Names of set-ups whose server ran before and goes on through all runs: what one leaves behind the next finds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers_kept: Vec<String>,
}

/// A metric in both set-ups.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Which.
    pub metric: Metric,
    /// Of each pair that counts, A's and B's value.
    pub pairs: Vec<(f64, f64)>,
    /// From A to B. None: too few pairs tell it.
    pub change: Option<Change>,
    /// What is said of it. Of the metrics that were not declared it is Holm's.
    pub verdict: Option<Verdict>,
}

impl Compared {
    /// The middle values of A and B.
    pub fn medians(&self) -> Option<(f64, f64)> {
        let middle = |of: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = self.pairs.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            let half = values.len() / 2;
            match values.len() % 2 {
                _ if values.is_empty() => None,
                1 => Some(values[half]),
                _ => Some(f64::midpoint(values[half - 1], values[half])),
            }
        };
        Some((middle(|pair| pair.0)?, middle(|pair| pair.1)?))
    }
}

/// A pair of runs, in the order in which it ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Its number.
    pub number: u32,
    /// The indexes of A's and B's run.
    pub runs: (usize, usize),
    /// Why it does not count: the red gates of its runs. Empty: it counts.
    pub dropped: Vec<Gate>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was declared.
    pub declared: Declared,
    /// Pairs of A and B.
    pub pairs: Vec<Pair>,
    /// How much A differs from itself. None: it was not asked, or too few pairs count.
    pub floor: Option<NoiseFloor>,
    /// The declared metric first.
    pub metrics: Vec<Compared>,
    /// What becomes of each claim. None: its metric is not told.
    pub claims: Vec<(Claim, Option<Answer>)>,
    /// The machines beside A and beside B. Empty: nobody looked.
    pub machines: Vec<Machines>,
}

impl Comparison {
    /// Of a saved result. None: it is none of a comparison.
    pub fn of(saved: &Saved) -> Option<Comparison> {
        let declared: Declared = serde_json::from_value(saved.head.plan.get("declared")?.clone()).ok()?;
        let figures: Vec<Figures> = saved.runs.iter().map(Figures::of).collect();
        let values = |runs: (usize, usize), metric: Metric| {
            let of = |index: usize| metric.of(&saved.runs[index], &figures[index]);
            Some((of(runs.0)?, of(runs.1)?))
        };
        let pairs = pairs(&saved.runs, &figures, ("a", "b"), &declared.gates);
        let same = self::pairs(&saved.runs, &figures, ("a1", "a2"), &declared.gates);
        let counted: Vec<&Pair> = pairs.iter().filter(|pair| pair.dropped.is_empty()).collect();
        let floor_pairs: Vec<(f64, f64)> = same
            .iter()
            .filter(|pair| pair.dropped.is_empty())
            .filter_map(|pair| values(pair.runs, declared.metric))
            .collect();
        let others = Metric::all().filter(|metric| *metric != declared.metric);
        let mut metrics: Vec<Compared> = [declared.metric]
            .into_iter()
            .chain(others)
            .map(|metric| {
                let pairs: Vec<(f64, f64)> =
                    counted.iter().filter_map(|pair| values(pair.runs, metric)).collect();
                // A metric that some runs don't tell is no metric of these runs; zeros have no ratio.
                let is_told = pairs.len() == counted.len() && log_ratios(&pairs).is_ok();
                let change = if is_told { Change::of(&pairs, Level::NINETY_FIVE).ok() } else { None };
                Compared { metric, pairs, change, verdict: None }
            })
            .collect();
        judge(&mut metrics, declared.margin);
        let claims = declared.claims.iter().map(|claim| {
            let compared = metrics.iter().find(|compared| compared.metric.to_string() == claim.metric);
            let change = compared.and_then(|compared| compared.change.as_ref());
            (claim.clone(), change.map(|change| claim.answer(change)))
        });
        let claims = claims.collect();
        let floor = NoiseFloor::of(&floor_pairs, Level::NINETY_FIVE).ok();
        let machines = Machines::of(saved, &declared.may_differ);
        Some(Comparison { declared, pairs, floor, metrics, claims, machines })
    }

    /// The metric that was declared.
    pub fn primary(&self) -> &Compared {
        &self.metrics[0]
    }

    /// Of all claims together; without claims none. A difference between the two sides that nobody declared withholds them.
    pub fn answer(&self) -> Option<Answer> {
        if self.unexplained().next().is_some() {
            return (!self.claims.is_empty()).then_some(Answer::CantTell);
        }
        let answers: Vec<Answer> =
            self.claims.iter().map(|(_, answer)| answer.unwrap_or(Answer::CantTell)).collect();
        (!answers.is_empty()).then(|| Answer::of_all(&answers))
    }

    /// What differs between the two sides beside what was declared.
    pub fn unexplained(&self) -> impl Iterator<Item = &Row> {
        self.machines.iter().flat_map(Machines::unexplained)
    }
}

/// The declared metric by itself, the others together.
fn judge(metrics: &mut [Compared], margin: Margin) {
    let Some((primary, others)) = metrics.split_first_mut() else { return };
    let direction = primary.metric.direction();
    primary.verdict = primary.change.as_ref().map(|change| Verdict::on(change, direction, margin));
    let told: Vec<&mut Compared> = others.iter_mut().filter(|compared| compared.change.is_some()).collect();
    let changes: Vec<_> =
        told.iter().filter_map(|compared| Some((compared.change?, compared.metric.direction()))).collect();
    for (compared, verdict) in told.into_iter().zip(Verdict::on_each(&changes, margin)) {
        compared.verdict = Some(verdict);
    }
}

/// The pairs whose runs are of these two arms, in order.
fn pairs(runs: &[Run], figures: &[Figures], arms: (&str, &str), bounds: &[GateBound]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let of_arm = |arm: &str, number: u32| {
        runs.iter().position(|run| run.head.arm == arm && run.head.pair == Some(number))
    };
    let mut numbers: Vec<u32> =
        runs.iter().filter(|run| run.head.arm == arms.0).filter_map(|run| run.head.pair).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        // Half a pair is a cut file's last.
        let (Some(a), Some(b)) = (of_arm(arms.0, number), of_arm(arms.1, number)) else { continue };
        let red = [a, b].into_iter().flat_map(|index| gates_within(&runs[index], &figures[index], bounds));
        let dropped: Vec<Gate> =
            red.filter(|gate| worst(std::slice::from_ref(gate)) == Colour::Red).collect();
        pairs.push(Pair { number, runs: (a, b), dropped });
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::run;
    use crate::result::{Head, RunHead, Surroundings};
    use crate::statistics::verdict::Word;

    /// Ten pairs in which B takes so much of A's time, and four of A with itself; all but `noise` alike.
    fn saved(factor: f64, claims: &[&str]) -> Saved {
        let declared = Declared {
            name_a: "old".to_owned(),
            name_b: "new".to_owned(),
            metric: Metric::P99,
            margin: Margin::FIVE_PERCENT,
            claims: claims.iter().map(|claim| claim.parse().unwrap()).collect(),
            may_differ: Vec::new(),
            gates: Vec::new(),
            servers_kept: Vec::new(),
        };
        let mut saved = Saved {
            head: Head {
                schema: 1,
                kind: "compare".to_owned(),
                plan: serde_json::json!({ "declared": declared }),
                ..Head::default()
            },
            ..Saved::default()
        };
        let mut put = |arm: &str, pair: u32, us: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of a test")]
            let ns = (us * 1000.0) as u64;
            let head = RunHead {
                run: u32::try_from(saved.runs.len()).unwrap(),
                arm: arm.to_owned(),
                pair: Some(pair),
                rate: Some(2000.0),
                warm_up_s: Some(0),
                ..RunHead::default()
            };
            saved.runs.push(run(head, &[(ns, 200), (ns, 200)]));
        };
        for pair in 0..4 {
            put("a1", pair, 1000.0 + 10.0 * f64::from(pair));
            put("a2", pair, 1000.0);
        }
        for pair in 0..10 {
            // Odd ones run B first.
            let (a, b) = (1000.0 + 7.0 * f64::from(pair), 1000.0 * factor);
            if pair % 2 == 0 {
                put("a", pair, a);
                put("b", pair, b);
            } else {
                put("b", pair, b);
                put("a", pair, a);
            }
        }
        saved
    }

    fn word(comparison: &Comparison) -> Word {
        comparison.primary().verdict.unwrap().word
    }

    #[test]
    fn a_change_is_found_and_named() {
        let comparison =
            Comparison::of(&saved(0.7, &["p99 falls by >= 20 %", "throughput not worse than -2 %"])).unwrap();
        assert_eq!(word(&comparison), Word::Better);
        assert_eq!((comparison.pairs.len(), comparison.primary().pairs.len()), (10, 10));
        assert!((comparison.primary().change.unwrap().share() + 0.32).abs() < 0.01);
        assert_eq!(comparison.answer(), Some(Answer::Holds));
        assert!(comparison.floor.unwrap().log_deviation < 0.02);
        assert_eq!(word(&Comparison::of(&saved(1.3, &[])).unwrap()), Word::Worse);
        assert_eq!(Comparison::of(&saved(1.3, &[])).unwrap().answer(), None);
        let slower = Comparison::of(&saved(1.3, &["p99 falls by >= 20 %"])).unwrap();
        assert_eq!(slower.answer(), Some(Answer::Fails));
    }

    #[test]
    fn a_red_run_takes_its_pair_with_it() {
        let mut saved = saved(0.7, &[]);
        let index =
            saved.runs.iter().position(|run| run.head.arm == "b" && run.head.pair == Some(3)).unwrap();
        saved.runs[index].end.as_mut().unwrap().failure = Some("gone".to_owned());
        let comparison = Comparison::of(&saved).unwrap();
        assert_eq!(comparison.pairs.iter().filter(|pair| !pair.dropped.is_empty()).count(), 1);
        assert_eq!(
            (comparison.pairs[3].dropped[0].name.as_str(), comparison.primary().pairs.len()),
            ("failure", 9)
        );
    }

    #[test]
    fn a_red_run_of_a_against_itself_says_nothing_of_the_noise() {
        let mut saved = saved(0.7, &[]);
        assert_eq!(Comparison::of(&saved).unwrap().floor.map(|floor| floor.pairs_count), Some(4));
        saved.runs[1].end.as_mut().unwrap().failure = Some("gone".to_owned());
        assert_eq!(Comparison::of(&saved).unwrap().floor, None, "three pairs are too few");
    }

    /// Not of the pairs that happen to tell it: those may be the good ones.
    #[test]
    fn a_metric_that_one_run_does_not_tell_has_no_change() {
        let mut saved = saved(0.7, &[]);
        for run in &mut saved.runs {
            run.end.as_mut().unwrap().server_cpu_ns = Some(1_000_000);
        }
        let change = |saved: &Saved| {
            let metrics = Comparison::of(saved).unwrap().metrics;
            metrics.into_iter().find(|compared| compared.metric == Metric::ServerCpu).unwrap().change
        };
        assert!(change(&saved).is_some());
        saved.runs.last_mut().unwrap().end.as_mut().unwrap().server_cpu_ns = None;
        assert_eq!(change(&saved), None);
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        let pairs = vec![(4.0, 40.0), (1.0, 10.0), (2.0, 20.0), (9.0, 30.0)];
        let of = |pairs| Compared { metric: Metric::P99, pairs, change: None, verdict: None }.medians();
        assert_eq!(of(pairs[..3].to_vec()), Some((2.0, 20.0)));
        assert_eq!(of(pairs), Some((3.0, 25.0)));
        assert_eq!(of(Vec::new()), None);
    }

    /// Everything else being equal is part of the claim.
    #[test]
    fn an_undeclared_difference_withholds_the_claim() {
        let environment = |governor: &str| {
            serde_json::json!({"groups": [{"name": "processor", "items": [
                {"name": "governor", "value": governor, "expected": "equal"}]}, {"name": "programs", "items": [
                {"name": "server sha256", "value": governor, "expected": "equal"}]}]})
        };
        for (may_differ, want) in [("", Answer::CantTell), ("governor", Answer::Holds)] {
            let mut saved = saved(0.7, &["p99 falls by >= 20 %"]);
            saved.head.plan["declared"]["may_differ"] = serde_json::json!([may_differ]);
            for (arm, governor) in [("a", "performance"), ("b", "powersave")] {
                let run = saved.runs.iter().find(|run| run.head.arm == arm).unwrap().head.run;
                saved.surroundings.push(Surroundings {
                    side: "client".to_owned(),
                    host: String::new(),
                    at: "start".to_owned(),
                    run: Some(run),
                    environment: environment(governor),
                });
            }
            let comparison = Comparison::of(&saved).unwrap();
            assert_eq!(comparison.answer(), Some(want), "{may_differ}");
        }
    }

    #[test]
    fn half_a_pair_and_too_few_tell_nothing() {
        let mut saved = saved(0.7, &["p99 falls by >= 20 %"]);
        saved.runs.truncate(8 + 9);
        let comparison = Comparison::of(&saved).unwrap();
        assert_eq!((comparison.pairs.len(), comparison.primary().change), (4, None));
        assert_eq!(comparison.answer(), Some(Answer::CantTell));
        assert_eq!(Comparison::of(&Saved::default()), None);
    }
}
