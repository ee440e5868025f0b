//! What a number was measured on: read before and after each run, on both sides, so that two runs can be told apart.
//!
//! [`Environment::capture`] reads the machine, the kernel, the network and the limits from the files below a root (`/`, or
//! a made-up tree in tests). [`difference()`] lays two captures side by side; where something differs that nobody declared,
//! a claim about A and B is withheld. [`counters`] are the kernel's counts per second during a run, [`quiet`] says before
//! it whether others are using the machine.
//!
//! What cannot be read is "not exposed here" and never a guess. Names of users, serial numbers, addresses, environment
//! variables and secrets stay out; `privacy` holds the rules. Not here: the build of the load generator itself, and what
//! a server answers to INFO; the caller knows them and gives them as [`Program`]s.
//!
//! Not read yet: queueing disciplines of links, RSS indirection and features beyond the offloads, which need netlink, and the
//! speed of memory, which lies in a table for root beside serial numbers.

mod cgroup;
pub mod counters;
mod cpus;
pub mod difference;
mod ethtool;
mod files;
mod hashes;
mod kernel;
mod link;
mod memory;
mod platform;
mod privacy;
mod processor;
mod programs;
pub mod quiet;
mod system;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use difference::{Kind, Row, changed, changes, difference, matches, unexplained, without_effect};
pub use hashes::Hashes;
pub use programs::Program;
pub use system::{ANSWER_WORDS_COUNT, Answer, Kernel, Silent, System};

use files::{Below, Files};

/// What is printed for a thing that this machine, kernel or container does not show. Usual in virtual machines.
pub const NOT_EXPOSED: &str = "not exposed here";

/// The item of the processor that counts how often heat slowed it: of the moment, but a run in which it grows is no good one.
pub const THROTTLED: &str = "throttled by heat";

/// Everything that was read at one instant, in the order in which it is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// No two have the same name.
    pub groups: Vec<Group>,
}

/// One subject: the processor, a link, the kernel's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Stable, in lower case: declared factors name it. A link's is `link NAME`.
    pub name: String,
    /// No two of a group have the same name.
    pub items: Vec<Item>,
}

/// One thing that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Stable; the kernel's own name where it has one (`net.core.busy_poll`, `spectre_v2`).
    pub name: String,
    /// As the kernel writes it, units appended where it leaves them out. None: [`NOT_EXPOSED`].
    pub value: Option<String>,
    /// Whether it has to be the same on two sides that are compared.
    pub expected: Expected,
}

/// What two captures of one machine, or of two fair sides, should show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// The same value, unless the plan of the experiment says that it may differ.
    Equal,
    /// A value of the moment, such as free memory: shown, and never held against a claim.
    Volatile,
}

impl Environment {
    /// Reads everything below `root`. `system` answers what files do not tell (use [`Silent`] for a tree that is not this
    /// machine's), `programs` are the servers and clients of the run.
    ///
    /// Takes milliseconds, more on hundreds of cpus, and disturbs what runs meanwhile: not for the span of a measurement.
    pub fn capture(root: &Path, system: &dyn System, programs: &[Program]) -> Environment {
        Environment::read(&Below::new(root), system, programs)
    }

    fn read(files: &dyn Files, system: &dyn System, programs: &[Program]) -> Environment {
        let mut groups = vec![
            platform::group(files),
            processor::group(files, system),
            processor::mitigations(files),
            memory::group(files),
            kernel::group(files),
            kernel::sysctls(files),
        ];
        groups.extend(link::groups(files, system));
        groups.push(cgroup::group(files));
        groups.push(platform::services(files));
        groups.push(programs::group(programs));
        Environment { groups }
    }

    /// The item of that group and name, if it was looked for at all.
    pub fn item(&self, group: &str, name: &str) -> Option<&Item> {
        let group = self.groups.iter().find(|known| known.name == group)?;
        group.items.iter().find(|item| item.name == name)
    }
}

/// A command line as it may be published: the values of `--password` and its like are hidden.
pub fn published(command: &[String]) -> Vec<String> {
    privacy::words(command)
}

impl Item {
    /// The value, or the words for a thing that is not there to be read.
    pub fn shown(&self) -> &str {
        self.value.as_deref().unwrap_or(NOT_EXPOSED)
    }
}

impl Group {
    fn new(name: impl Into<String>) -> Group {
        Group { name: name.into(), items: Vec::new() }
    }

    /// A thing that both sides must have alike.
    fn equal(&mut self, name: impl Into<String>, value: Option<impl Into<String>>) {
        self.push(name.into(), value.map(Into::into), Expected::Equal);
    }

    /// A value of the moment.
    fn volatile(&mut self, name: impl Into<String>, value: Option<impl Into<String>>) {
        self.push(name.into(), value.map(Into::into), Expected::Volatile);
    }

    /// A name that a file lists twice, which no kernel does, keeps its first value: names of a group are unique.
    fn push(&mut self, name: String, value: Option<String>, expected: Expected) {
        if self.items.iter().all(|item| item.name != name) {
            self.items.push(Item { name, value, expected });
        }
    }
}
