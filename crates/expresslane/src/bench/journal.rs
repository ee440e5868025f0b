//! Where a result goes: into a file, line by line as it comes, and into memory for what is said at the end.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use load::environment::published;
use load::result::{Head, Line, SCHEMA, Saved, write};

/// Takes lines in.
pub(super) struct Journal {
    file: Option<(PathBuf, File)>,
    saved: Saved,
    /// Why the file ends before the result does.
    broken: Option<String>,
}

impl Journal {
    /// Begins with a head of that kind. Without a path nothing is written.
    pub(super) fn begin(
        path: Option<&Path>,
        kind: &str,
        plan: serde_json::Value,
        now_unix_ms: u64,
    ) -> Result<Journal, String> {
        let file = path.map(|path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(error) => Err(format!("{}: {error}; name another file for the result", path.display())),
        });
        let mut journal = Journal { file: file.transpose()?, saved: Saved::default(), broken: None };
        journal.put(Line::Head(Head {
            schema: SCHEMA,
            kind: kind.to_owned(),
            command: command(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began_unix_ms: now_unix_ms,
            plan,
        }));
        Ok(journal)
    }

    /// One more line. A file that can't be written any more is given up, and said so at the end; the load goes on.
    pub(super) fn put(&mut self, line: Line) {
        if let Some((path, file)) = &mut self.file
            && let Err(error) = write(file, &line)
        {
            let problem = format!("{}: {error}; it holds what came before", path.display());
            // Hours may lie between now and the end.
            let _ = writeln!(std::io::stderr().lock(), "{problem}, and the load goes on");
            self.broken = Some(problem);
            self.file = None;
        }
        self.saved.take(line).expect("lines are put in their order");
    }

    /// Everything until now.
    pub(super) fn saved(&self) -> &Saved {
        &self.saved
    }

    /// Keeps no seconds of runs in memory any more; the file has them. A second is up to a megabyte, and a long experiment has
    /// thousands.
    pub(super) fn forget_seconds(&mut self) {
        for run in &mut self.saved.runs {
            run.seconds = Vec::new();
            run.end.iter_mut().flat_map(|end| &mut end.agents).for_each(|agent| agent.seconds = Vec::new());
        }
    }

    /// It is whole.
    pub(super) fn end(mut self) -> (Saved, Option<String>) {
        self.put(Line::End);
        (self.saved, self.broken)
    }
}

/// This program's command line, as it may be published.
fn command() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    for at in 1..words.len() {
        if words[at - 1] == "-a" {
            words[at] = "(hidden)".to_owned();
        }
    }
    published(&words)
}
