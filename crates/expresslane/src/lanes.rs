//! `expresslane lanes`: the crate `host` with a command line, a clock, signals and a directory for its journal.
//!
//! ```text
//! wish (file + facts -> plan) ──▶ change (apply, confirm, revert) ──▶ journal
//!                             └─▶ status (what of it is used), guard (what of it was lost)
//! ```

mod change;
mod gate;
mod guard;
mod settings;
mod status;
mod wish;

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use host::Kernel;
use host::kernel::live::Live;

pub(crate) use settings::{LanesVerb, STATE_DIR};
pub(crate) use wish::{TABLE, Wanted};

/// What `status` ends with when it can't tell, as monitoring plugins do.
pub(crate) const EXIT_UNKNOWN: u8 = host::status::Verdict::Unknown.exit_code();

/// Why a verb did not do what was asked, in sentences of a line each, and what the program's exit code says.
pub(crate) struct Trouble {
    /// What was wrong and what to do.
    pub(crate) problem: String,
    /// See the help of the verb.
    pub(crate) code: u8,
    /// The wish can be read, and not be had on this machine as it is.
    is_of_machine: bool,
}

impl Trouble {
    /// A flag or a file that is wrong.
    fn usage(problem: impl Into<String>) -> Trouble {
        Trouble { problem: problem.into(), code: 2, is_of_machine: false }
    }

    /// A wish that this machine can't fulfil.
    fn of_machine(problem: impl Into<String>) -> Trouble {
        Trouble { is_of_machine: true, ..Trouble::usage(problem) }
    }

    /// With another line.
    fn with(self, line: &str) -> Trouble {
        Trouble { problem: format!("{}\n{line}", self.problem), ..self }
    }

    /// What was shown says it all.
    fn silent(code: u8) -> Trouble {
        Trouble { problem: String::new(), code, is_of_machine: false }
    }

    /// What could not be done.
    fn failed(problem: impl ToString) -> Trouble {
        Trouble { problem: problem.to_string(), code: 1, is_of_machine: false }
    }
}

/// Does what is asked; how the program ends.
pub(crate) fn lanes(verb: &LanesVerb) -> Result<(), Trouble> {
    match verb {
        LanesVerb::Facts(settings) => wish::facts(settings),
        LanesVerb::Plan(settings) => wish::plan(settings),
        LanesVerb::Check(settings) => wish::check(settings),
        LanesVerb::Example(settings) => wish::example(settings),
        LanesVerb::Apply(settings) => change::apply(settings),
        LanesVerb::Confirm(settings) => change::confirm(settings),
        LanesVerb::Revert(settings) => change::revert(settings),
        LanesVerb::Status(settings) => status::status(settings),
        LanesVerb::Guard(settings) => guard::guard(settings),
    }
}

/// On standard output. False: whoever read it has gone, which is a way to end like another.
fn say(text: &str) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool at the edge; the host crate takes the time as an argument"
)]
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The machine, and which run of its kernel this is.
pub(crate) fn machine() -> Result<(Live, String), Trouble> {
    let mut kernel = Live::new();
    let boot = kernel.boot_id().map_err(Trouble::failed)?;
    Ok((kernel, boot))
}
