//! `expresslane bench report`: a saved result, told again: in 80 columns, as a page, as tables for other programs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use load::report::export::{hgrm, json, runs_csv, seconds_csv};
use load::report::{page, summary};
use load::result::{Saved, read};

use super::Trouble;
use super::settings::{ReportSettings, Wanted};

/// Reads the file, and writes what is wanted.
pub(super) fn report(settings: &ReportSettings) -> Result<(), Trouble> {
    let name = settings.file.display();
    let file = File::open(&settings.file)
        .map_err(|error| Trouble::load(format!("{name}: {error}; name a file that --result has written")))?;
    let saved = read(BufReader::new(file)).map_err(|problem| Trouble::load(format!("{name}: {problem}")))?;
    tell(&saved, settings.json);
    write(&saved, &settings.wanted)
}

/// The summary on standard output, for people or for programs.
pub(super) fn tell(saved: &Saved, is_json: bool) {
    if is_json {
        super::say(&json(saved).expect("a summary has text for keys and finite numbers"));
    } else {
        super::say(&summary(saved));
    }
}

/// Writes the files that are wanted beside the summary.
pub(super) fn write(saved: &Saved, wanted: &Wanted) -> Result<(), Trouble> {
    let put = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| Trouble::load(format!("{}: {error}", path.display())))
    };
    if let Some(path) = &wanted.html {
        put(path, page(saved))?;
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
