//! What was kept of experiments: the head of a result, its machines, and each run in the numbers that the experiments are about.
//!
//! A result of hours holds a megabyte of histograms for each of its seconds, so it is never in memory as a whole: a run is measured
//! when its last line has been read, and its seconds are given up.

use std::io::BufRead;

use super::evaluate::Evaluation;
use super::measured::Measured;
use super::scale::Planned;
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
        let planned = self.saved.head.plan.get("experiments").cloned().unwrap_or_default();
        let planned: Vec<Planned> = serde_json::from_value(planned).unwrap_or_default();
        planned.iter().map(|planned| Evaluation::of(planned, &self.measured)).collect()
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
}
