//! A result that was cut is taken up again: what ran whole is copied, and only the rest runs.
//!
//! The pair is what is kept or not: its runs follow one another under one order and one seed, so half of one is none. What
//! follows must be the same experiment: plan, program and machine are held against those of the file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use load::environment::Environment;
use load::experiments::{Measured, Repetition};
use load::result::{Line, read_runs};

use super::super::journal::Journal;
use super::super::surroundings::Witness;

/// Differences of machines that are named.
const NAMES_MAX: usize = 3;

/// What an earlier result has.
pub(super) struct Earlier {
    path: PathBuf,
    repetition: Repetition,
    pairs: BTreeSet<(String, u32)>,
}

impl Earlier {
    /// Reads it, and refuses what would not be the same experiment. `result` is going to be written.
    pub(super) fn read(
        path: &Path,
        result: Option<&Path>,
        plan: &serde_json::Value,
        witness: &Witness,
    ) -> Result<Earlier, String> {
        let wrong = |problem: String| format!("{}: {problem}", path.display());
        let is_same = result.is_some_and(|result| {
            matches!((path.canonicalize(), result.canonicalize()), (Ok(path), Ok(result)) if path == result)
        });
        if is_same {
            return Err(wrong(
                "it can't be taken up into itself: name another file with --result".to_owned(),
            ));
        }
        let repetition = Repetition::read(open(path)?).map_err(wrong)?;
        if repetition.saved.head.plan != *plan {
            return Err(wrong(
                "it was planned otherwise: give the flags of its head, on the same machine (bench report shows the command)".to_owned(),
            ));
        }
        let captured =
            repetition.saved.surroundings.iter().filter(|one| one.side == "client" && one.host.is_empty());
        let captured =
            captured.filter_map(|one| serde_json::from_value::<Environment>(one.environment.clone()).ok());
        if let Some(names) =
            captured.map(|before| witness.differing(&before)).next().filter(|names| !names.is_empty())
        {
            let more = names.len().saturating_sub(NAMES_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(wrong(format!(
                "this is another program or another machine ({}{more}): begin anew without --resume",
                names[..names.len().min(NAMES_MAX)].join(", ")
            )));
        }
        let pairs = repetition.pairs_whole();
        Ok(Earlier { path: path.to_owned(), repetition, pairs })
    }

    /// Puts what is kept into the journal: the machines as they were seen, then run after run.
    ///
    /// # Errors
    /// The file has changed since it was read.
    pub(super) fn copy(&self, journal: &mut Journal) -> Result<Vec<Measured>, String> {
        let runs = &self.repetition.saved.runs;
        let kept: BTreeSet<u32> = runs
            .iter()
            .filter(|run| run.head.pair.is_some_and(|pair| self.has(&run.head.experiment, pair)))
            .map(|run| run.head.run)
            .collect();
        for one in &self.repetition.saved.surroundings {
            if one.run.is_some_and(|run| kept.contains(&run)) {
                journal.put(Line::Environment(one.clone()));
            }
        }
        let mut measured = Vec::new();
        read_runs(open(&self.path)?, |run| {
            if !kept.contains(&run.head.run) {
                run.seconds = Vec::new();
                return;
            }
            measured.push(Measured::of(run));
            journal.put(Line::Run(run.head.clone()));
            std::mem::take(&mut run.seconds).into_iter().for_each(|second| journal.put(Line::Second(second)));
            run.end.iter().for_each(|end| journal.put(Line::RunEnd(end.clone())));
            journal.forget_seconds();
        })
        .map_err(|problem| format!("{}: {problem}", self.path.display()))?;
        Ok(measured)
    }

    /// Whether that pair of that experiment is kept.
    pub(super) fn has(&self, experiment: &str, pair: u32) -> bool {
        self.pairs.contains(&(experiment.to_owned(), pair))
    }

    /// The number of the next run.
    pub(super) fn next_run(&self) -> u32 {
        self.repetition.saved.runs.iter().map(|run| run.head.run + 1).max().unwrap_or(0)
    }

    /// What is kept, for whoever waits.
    pub(super) fn told(&self) -> String {
        format!("{}: pairs that ran whole and are kept: {}", self.path.display(), self.pairs.len())
    }
}

fn open(path: &Path) -> Result<BufReader<File>, String> {
    let opened = File::open(path).map(BufReader::new);
    opened.map_err(|error| format!("{}: {error}; name a file that --result has written", path.display()))
}
