//! What was kept of experiments: the head of a result, its machines, and each run in the numbers that the experiments are about.
//!
//! A result of hours holds a megabyte of histograms for each of its seconds, so it is never in memory as a whole: a run is measured
//! when its last line has been read, and its seconds are given up.

use std::collections::BTreeSet;
use std::io::BufRead;

use super::evaluate::Evaluation;
use super::measured::Measured;
use super::scale::Planned;
use super::setups::Arm;
use crate::result::{Saved, read_runs};

/// The kind of a result that holds experiments.
pub const KIND: &str = "reproduce";

/// See the top of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repetition {
    /// The result without the seconds of its runs.
    pub saved: Saved,
    /// Each of its runs.
    pub measured: Vec<Measured>,
}

impl Repetition {
    /// Reads a file; a cut one up to there.
    ///
    /// # Errors
    /// As [`result::read`](crate::result::read); or it is of another kind.
    pub fn read(file: impl BufRead) -> Result<Repetition, String> {
        let mut measured = Vec::new();
        let mut saved = read_runs(file, |run| {
            measured.push(Measured::of(run));
            run.seconds = Vec::new();
        })?;
        // A run whose end is missing was cut.
        saved.runs.iter_mut().for_each(|run| run.seconds = Vec::new());
        if saved.head.kind != KIND {
            return Err(format!("it is a result of bench {}, not of {KIND}", saved.head.kind));
        }
        Ok(Repetition { saved, measured })
    }

    /// Each experiment that was planned.
    pub fn evaluations(&self) -> Vec<Evaluation> {
        self.planned().iter().map(|planned| Evaluation::of(planned, &self.measured)).collect()
    }

    fn planned(&self) -> Vec<Planned> {
        let planned = self.saved.head.plan.get("experiments").cloned().unwrap_or_default();
        serde_json::from_value(planned).unwrap_or_default()
    }

    /// Pairs of which all set-ups ran whole at all levels, by experiment: whoever takes a cut result up again need not run them.
    pub fn pairs_whole(&self) -> BTreeSet<(String, u32)> {
        let mut whole = BTreeSet::new();
        for planned in self.planned() {
            let experiment = planned.id.to_string();
            let pairs = self.saved.runs.iter().filter(|run| run.head.experiment == experiment);
            let pairs: BTreeSet<u32> = pairs.filter_map(|run| run.head.pair).collect();
            whole.extend(
                pairs
                    .into_iter()
                    .filter(|pair| self.is_whole(&planned, *pair))
                    .map(|pair| (experiment.clone(), pair)),
            );
        }
        whole
    }

    fn is_whole(&self, planned: &Planned, pair: u32) -> bool {
        let experiment = planned.id.to_string();
        let own = self.measured.iter().filter(|run| run.experiment == experiment && run.pair == pair);
        let own: Vec<&Measured> = own.collect();
        let begun = self.saved.runs.iter().map(|run| &run.head);
        let begun = begun.filter(|head| head.experiment == experiment && head.pair == Some(pair)).count();
        let levels: Vec<Option<f64>> = match &planned.scale.levels[..] {
            [] => vec![None],
            levels => levels.iter().map(|level| Some(f64::from(*level))).collect(),
        };
        let has = |arm: &Arm, level: Option<f64>| {
            own.iter().any(|run| run.arm == arm.arm && run.level == level && run.is_whole)
        };
        // Loads of a level begin and end together: where one has no end, or no good one, its level is not whole.
        own.len() == begun
            && own.iter().all(|run| run.is_whole)
            && planned.arms.iter().all(|arm| levels.iter().all(|level| has(arm, *level)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::setups::tests::offer;
    use crate::experiments::{Id, Preset, Scale};
    use crate::result::{Head, Line, RunEnd, RunHead, SCHEMA, SavedSecond, write};

    /// Two runs of E4, the second cut.
    fn file(kind: &str) -> Vec<u8> {
        let preset = Preset::of(Id::E4);
        let planned = Planned::new(preset, Scale::new(preset, true, 1, 1, 64 << 30), &offer(2));
        let plan = serde_json::json!({ "experiments": [planned] });
        let head = Head { schema: SCHEMA, kind: kind.to_owned(), plan, ..Head::default() };
        let mut lines = vec![Line::Head(head)];
        for (run, arm) in [(0, "1 Gbit/s"), (1, "10 Gbit/s")] {
            let mut seen = crate::analysis::tests::run(RunHead::default(), &[(1_000_000, 100)]);
            let (experiment, arm) = ("E4".to_owned(), arm.to_owned());
            lines.push(Line::Run(RunHead { run, experiment, arm, pair: Some(0), ..RunHead::default() }));
            let SavedSecond { second, counters, .. } = seen.seconds.remove(0);
            lines.push(Line::Second(SavedSecond { run, second, counters }));
            if run == 0 {
                lines.push(Line::RunEnd(RunEnd { last_share: 1.0, ..RunEnd::default() }));
            }
        }
        let mut file = Vec::new();
        lines.iter().for_each(|line| write(&mut file, line).unwrap());
        file
    }

    /// From the lines of a file, as a report does it.
    #[test]
    fn a_saved_result_is_evaluated_run_by_run() {
        let repetition = Repetition::read(&file(KIND)[..]).unwrap();
        assert!(repetition.saved.runs.iter().all(|run| run.seconds.is_empty()), "nothing is kept");
        let [whole] = &repetition.measured[..] else { panic!("{:?}", repetition.measured) };
        assert!(whole.is_whole && whole.per_second > 0.0);
        let evaluations = repetition.evaluations();
        let [only] = &evaluations[..] else { panic!("one experiment") };
        assert_eq!((only.pairs_count, only.points.len()), (1, 1));
        assert_eq!(only.rows[0].published, [2e6]);
        assert!(Repetition::read(&file("run")[..]).unwrap_err().contains("bench run"));
    }

    #[test]
    fn a_pair_is_whole_when_all_of_it_ran() {
        let preset = Preset::of(Id::E1);
        let mut planned = Planned::new(preset, Scale::new(preset, true, 1, 1, 64 << 30), &offer(2));
        planned.scale.levels = vec![10, 20];
        let (first, second) = (planned.arms[0].arm.clone(), planned.arms[1].arm.clone());
        let run = |arm: &str, level: f64| {
            let head = RunHead {
                experiment: "E1".to_owned(),
                arm: arm.to_owned(),
                pair: Some(4),
                level: Some(("connections".to_owned(), level)),
                ..RunHead::default()
            };
            crate::analysis::tests::run(head, &[(1_000_000, 100)])
        };
        let all = [run(&first, 10.0), run(&first, 20.0), run(&second, 20.0), run(&second, 10.0)];
        let check = |runs: Vec<crate::result::Run>, want: bool| {
            let plan = serde_json::json!({ "experiments": [&planned] });
            let ended = runs.iter().filter(|run| run.end.is_some());
            let measured = ended.map(Measured::of).collect();
            let head = Head { plan, ..Head::default() };
            let repetition = Repetition { saved: Saved { head, runs, ..Saved::default() }, measured };
            let whole: Vec<(String, u32)> = repetition.pairs_whole().into_iter().collect();
            assert_eq!(whole, if want { vec![("E1".to_owned(), 4)] } else { vec![] });
        };
        check(all.to_vec(), true);
        check(all[..3].to_vec(), false);
        let mut cut = all.to_vec();
        cut.push(run(&second, 10.0));
        check(cut.clone(), true);
        cut[4].end = None;
        check(cut.clone(), false);
        cut[4] = run(&second, 10.0);
        cut[4].end.as_mut().unwrap().was_stopped = true;
        check(cut, false);
        check(Vec::new(), false);
    }
}
