//! `expresslane bench`: loads a server, and says what can be said of it.
//!
//! ```text
//! settings ──▶ order (one load) ──▶ crew (threads, each an engine) ──seconds──▶ journal (file and memory) ──▶ summary, report
//!                                   └▶ agent (other hosts' crews) ─┘
//! ```

mod agent;
mod compare;
mod crew;
mod journal;
mod live;
mod report;
mod reproduce;
mod run;
mod search;
mod self_test;
mod settings;
mod surroundings;
mod watch;

use std::ffi::OsString;
use std::io::Write;

use clap::error::{ContextKind, ContextValue};

pub(crate) use settings::BenchVerb;

/// Why a verb did not do what was asked, in one sentence, and what the program's exit code says.
pub(crate) struct Trouble {
    /// What was wrong and what to do.
    pub(crate) problem: String,
    /// See the help of `bench`.
    pub(crate) code: u8,
}

impl Trouble {
    /// A flag or a file that is wrong.
    fn usage(problem: impl Into<String>) -> Trouble {
        Trouble { problem: problem.into(), code: 2 }
    }

    /// Somebody pressed Ctrl-C: as shells see a program that a SIGINT ended.
    fn stopped() -> Trouble {
        Trouble { problem: "stopped by hand; what came until then is kept".to_owned(), code: 130 }
    }

    /// A load that can't be made, or was cut off.
    fn load(problem: impl Into<String>) -> Trouble {
        Trouble { problem: problem.into(), code: 1 }
    }
}

/// What else is to be said of arguments, the program's name first, that were refused.
pub(crate) fn hint(arguments: impl Iterator<Item = OsString>, error: &clap::Error) -> Option<&'static str> {
    let is_compare = arguments.skip(1).take(2).eq(["bench", "compare"]);
    let lacks_b =
        matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::Strings(names)) if *names == ["<B>"]);
    (is_compare && lacks_b).then_some(
        "bench compare FILE takes what is declared, and the load, from the file: write it there (see --help), or name two addresses",
    )
}

/// Does what is asked; how the program ends.
pub(crate) fn bench(verb: &BenchVerb) -> Result<(), Trouble> {
    if let Some(wanted) = verb.wanted() {
        report::may_be_written(wanted)?;
    }
    match verb {
        BenchVerb::Run(settings) => run::run(settings),
        BenchVerb::Search(settings) => search::search(settings),
        BenchVerb::Compare(settings) => compare::compare(settings),
        BenchVerb::Agent(settings) => agent::agent(settings),
        BenchVerb::SelfTest(settings) => self_test::self_test(settings),
        BenchVerb::Report(settings) => report::report(settings),
        BenchVerb::Reproduce(settings) => reproduce::reproduce(settings),
    }
}

/// On standard output. Whoever read it may have gone.
fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
