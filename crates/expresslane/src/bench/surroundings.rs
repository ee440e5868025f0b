//! The machine beside the runs: looked at before and after each, written down where it is news.
//!
//! A look costs milliseconds and never falls into a run. The first of a set-up is written whole, a later one when something
//! differs from the last that was written; of a run's end what changed is kept.

use std::collections::BTreeMap;
use std::path::Path;

use load::environment::{Environment, Hashes, Kernel, Program, Row, changes, difference, unexplained};
use load::result::{Line, Surroundings};

/// Arguments of a running server that are kept.
const WORDS_MAX: usize = 100;

/// Who looks.
pub(super) struct Witness {
    kernel: Kernel,
    hashes: Hashes,
    load: Program,
    /// Of each set-up, the last that was written.
    written: BTreeMap<String, Environment>,
}

/// A look before a run.
pub(super) struct Before {
    programs: Vec<Program>,
    environment: Environment,
}

impl Witness {
    /// Has seen nothing yet.
    pub(super) fn new() -> Witness {
        let mut hashes = Hashes::default();
        let binary = std::env::current_exe().ok();
        let load = Program {
            role: "load".to_owned(),
            command: Vec::new(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            sha256: binary.and_then(|path| hashes.of(&path)),
        };
        Witness { kernel: Kernel::new(), hashes, load, written: BTreeMap::new() }
    }

    /// Before a run of a set-up with so many threads that load; its server was started with these words, none: by somebody
    /// else, and says that it is of this version. The line is for the result, if there is news.
    pub(super) fn before(
        &mut self,
        run: u32,
        arm: &str,
        thread_count: u16,
        words: Option<&[String]>,
        pid: Option<u32>,
        version: Option<String>,
    ) -> (Before, Option<Line>) {
        let load = Program { command: vec![format!("{thread_count} threads")], ..self.load.clone() };
        let programs = vec![self.server(words, pid, version), load];
        let environment = self.look(&programs);
        let is_news = match self.written.get(arm) {
            Some(written) => unexplained(&changes(written, &environment)).next().is_some(),
            None => true,
        };
        let line = is_news.then(|| {
            self.written.insert(arm.to_owned(), environment.clone());
            Line::Environment(Surroundings {
                side: "client".to_owned(),
                host: String::new(),
                at: "start".to_owned(),
                run: Some(run),
                environment: serde_json::to_value(&environment).expect("an environment has text for keys"),
            })
        });
        (Before { programs, environment }, line)
    }

    /// What of this machine or of this program is another than in an earlier capture. Servers are not looked at, nor are links that this
    /// program makes for its experiments.
    pub(super) fn differing(&self, before: &Environment) -> Vec<String> {
        let now = self.look(std::slice::from_ref(&self.load));
        let own = ["programs/server *", "programs/load command", "links/count", "link xl-*"];
        let rows = difference(before, &now, &own);
        unexplained(&rows).map(|row| format!("{}/{}", row.group, row.name)).collect()
    }

    /// What changed since.
    pub(super) fn after(&self, before: &Before) -> Vec<Row> {
        changes(&before.environment, &self.look(&before.programs))
    }

    fn look(&self, programs: &[Program]) -> Environment {
        Environment::capture(Path::new("/"), &self.kernel, programs)
    }

    fn server(&mut self, words: Option<&[String]>, pid: Option<u32>, version: Option<String>) -> Program {
        let sha256 = pid.and_then(|pid| self.hashes.of(Path::new(&format!("/proc/{pid}/exe"))));
        let command = words.map_or_else(|| pid.map(running).unwrap_or_default(), <[String]>::to_vec);
        Program { role: "server".to_owned(), command, version, sha256 }
    }
}

/// The words that a running process shows: those it was started with, or a title that it has given itself.
fn running(pid: u32) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).trim().to_owned());
    words.filter(|word| !word.is_empty()).take(WORDS_MAX).collect()
}
