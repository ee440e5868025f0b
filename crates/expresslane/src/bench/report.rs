//! `expresslane bench report`: a saved result, told again: in 80 columns, as a page, as tables for other programs.
//!
//! Of experiments there may be more than memory holds: they are measured run by run while their file is read, and the tables of
//! single seconds, which need all of it, are made only when they are asked for.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use load::experiments::{KIND, Repetition};
use load::report::export::{hgrm, json, runs_csv, seconds_csv};
use load::report::{experiments_files, experiments_page, files, page, summary};
use load::result::{Saved, kind, read};

use super::Trouble;
use super::reproduce::text;
use super::settings::{ReportSettings, Wanted};

/// Reads the file, and writes what is wanted.
pub(super) fn report(settings: &ReportSettings) -> Result<(), Trouble> {
    let name = settings.file.display();
    let open = || {
        File::open(&settings.file)
            .map(BufReader::new)
            .map_err(|error| Trouble::load(format!("{name}: {error}; name a file that --result has written")))
    };
    let wrong = |problem: String| Trouble::load(format!("{name}: {problem}"));
    if kind(open()?).map_err(wrong)? != KIND {
        let saved = read(open()?).map_err(wrong)?;
        tell(&saved, settings.json);
        return write(&saved, &settings.wanted);
    }
    let repetition = Repetition::read(open()?).map_err(wrong)?;
    let evaluations = repetition.evaluations();
    if settings.json {
        super::say(&text::json(&evaluations));
    } else {
        evaluations.iter().for_each(|evaluation| super::say(&text::text(evaluation)));
        super::say(&text::ending(&evaluations));
    }
    write_page(&repetition, &settings.wanted)?;
    let wanted = Wanted { html: None, figures: None, ..settings.wanted.clone() };
    if [&wanted.csv, &wanted.runs_csv, &wanted.hgrm].iter().all(|file| file.is_none()) {
        return Ok(());
    }
    write(&read(open()?).map_err(wrong)?, &wanted)
}

/// Writes the page of experiments and their figures, where they are wanted.
pub(super) fn write_page(repetition: &Repetition, wanted: &Wanted) -> Result<(), Trouble> {
    if let Some(path) = &wanted.html {
        put(path, experiments_page(repetition))?;
    }
    if let Some(folder) = &wanted.figures {
        put_figures(folder, experiments_files(repetition))?;
    }
    Ok(())
}

/// Each into its file; those of an earlier result that this one has not stay.
fn put_figures(folder: &Path, files: Vec<(String, String)>) -> Result<(), Trouble> {
    if files.is_empty() {
        let problem = "this result has no figure: not one run of it has a second that counts";
        return Err(Trouble::load(format!("{}: {problem}", folder.display())));
    }
    if !folder.is_dir() {
        std::fs::create_dir(folder).map_err(|error| unfilled(folder, &error))?;
    }
    files.into_iter().try_for_each(|(name, text)| put(&folder.join(name), text))
}

fn put(path: &Path, text: String) -> Result<(), Trouble> {
    std::fs::write(path, text).map_err(|error| {
        // A part of it would look like all of it. A device stays.
        if path.is_file() {
            let _ = std::fs::remove_file(path);
        }
        unwritten(path, &error)
    })
}

fn unwritten(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::load(format!("{}: {error}; name another file", path.display()))
}

fn unfilled(folder: &Path, error: &std::io::Error) -> Trouble {
    Trouble::load(format!("{}: {error}; name another folder for the figures", folder.display()))
}

/// Tries the files that are wanted, before hours go into what they are to hold. Pipes and devices are left alone.
pub(super) fn may_be_written(wanted: &Wanted) -> Result<(), Trouble> {
    let Wanted { html, figures, hgrm, csv, runs_csv } = wanted;
    if let Some(folder) = figures {
        let is_new = !folder.exists();
        may_be_filled(folder).map_err(|error| unfilled(folder, &error))?;
        if is_new {
            std::fs::remove_dir(folder).map_err(|error| unfilled(folder, &error))?;
        }
    }
    for path in [html, hgrm, csv, runs_csv].into_iter().flatten() {
        let is_new = !path.exists();
        if is_new || path.is_file() || path.is_dir() {
            let tried = File::options().append(true).create(true).open(path);
            tried.map_err(|error| unwritten(path, &error))?;
        }
        if is_new {
            std::fs::remove_file(path).map_err(|error| unwritten(path, &error))?;
        }
    }
    Ok(())
}

/// Makes the folder, if it is not there, and a file in it.
fn may_be_filled(folder: &Path) -> std::io::Result<()> {
    if !folder.is_dir() {
        std::fs::create_dir(folder)?;
    }
    let trial = folder.join(format!(".trial-{}", std::process::id()));
    File::create(&trial)?;
    std::fs::remove_file(trial)
}

/// The summary on standard output, for people or for programs.
pub(super) fn tell(saved: &Saved, is_json: bool) {
    if is_json {
        super::say(&json(saved).expect("a summary has text for keys and finite numbers"));
    } else {
        super::say(&summary(saved));
    }
}

/// Writes the files that are wanted beside the summary, and says also why the result's own file is `broken`, if it is.
pub(super) fn write_after(broken: Option<String>, saved: &Saved, wanted: &Wanted) -> Result<(), Trouble> {
    said_with(broken, write(saved, wanted))
}

/// What keeps both files from being whole, in one sentence.
pub(super) fn said_with(broken: Option<String>, written: Result<(), Trouble>) -> Result<(), Trouble> {
    match (broken, written) {
        (None, written) => written,
        (Some(problem), Ok(())) => Err(Trouble::load(problem)),
        (Some(problem), Err(trouble)) => Err(Trouble::load(format!("{problem}; {}", trouble.problem))),
    }
}

/// Writes the files that are wanted beside the summary.
fn write(saved: &Saved, wanted: &Wanted) -> Result<(), Trouble> {
    if let Some(path) = &wanted.html {
        put(path, page(saved))?;
    }
    if let Some(folder) = &wanted.figures {
        put_figures(folder, files(saved))?;
    }
    if let Some(path) = &wanted.csv {
        put(path, seconds_csv(saved))?;
    }
    if let Some(path) = &wanted.runs_csv {
        put(path, runs_csv(saved))?;
    }
    match (&wanted.hgrm, &saved.runs[..]) {
        (None, _) => Ok(()),
        (Some(path), [run]) => put(path, hgrm(run)),
        (Some(path), runs) => {
            // One a run: FILE.0, FILE.1, …
            for run in runs {
                put(Path::new(&format!("{}.{}", path.display(), run.head.run)), hgrm(run))?;
            }
            Ok(())
        }
    }
}
