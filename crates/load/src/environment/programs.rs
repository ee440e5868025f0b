//! The programs of a run: what was started, in which version, from which bytes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::files::Files;
use super::{Group, privacy};

/// A server, a client or a hook, as the caller started it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// What it is in the run, the same on both sides: `server`, `load`.
    pub role: String,
    /// The program and its arguments. The values of long names such as `--password` are hidden; whoever gives a secret after
    /// a single letter hides it before. Addresses stay: the command is printed to be repeated.
    pub command: Vec<String>,
    /// What the program says of itself when asked for its version.
    pub version: Option<String>,
    /// The file that was executed; none for a server that somebody else started.
    pub binary: Option<PathBuf>,
}

/// Command, version and SHA-256 of each.
pub(super) fn group(files: &dyn Files, programs: &[Program]) -> Group {
    let mut group = Group::new("programs");
    for program in programs {
        let Program { role, command, version, binary } = program;
        group.equal(format!("{role} command"), (!command.is_empty()).then(|| privacy::command(command)));
        group.equal(format!("{role} version"), version.as_deref().map(str::trim));
        let binary = binary.as_ref().and_then(|path| path.to_str());
        group.equal(format!("{role} sha256"), binary.and_then(|path| files.hash(path)));
    }
    group
}
