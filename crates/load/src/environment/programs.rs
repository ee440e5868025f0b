//! The programs of a run: what was started, in which version, from which bytes.

use serde::{Deserialize, Serialize};

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
    /// SHA-256 of the file that is executed, as [`Hashes`](super::Hashes) gives it; none where it can't be read.
    pub sha256: Option<String>,
}

/// Command, version and SHA-256 of each.
pub(super) fn group(programs: &[Program]) -> Group {
    let mut group = Group::new("programs");
    for program in programs {
        let Program { role, command, version, sha256 } = program;
        group.equal(format!("{role} command"), (!command.is_empty()).then(|| privacy::command(command)));
        group.equal(format!("{role} version"), version.as_deref().map(str::trim));
        group.equal(format!("{role} sha256"), sha256.as_deref());
    }
    group
}
