//! `expresslane bench`: loads a server, and says what can be said of it.
//!
//! ```text
//! settings ──▶ order (one load) ──▶ crew (threads, each an engine) ──seconds──▶ journal (file and memory) ──▶ summary, report
//! ```

mod crew;
mod journal;
mod run;
mod settings;
mod stop;

pub(crate) use settings::BenchVerb;

/// Why a verb did not do what was asked, in one sentence, and what the program's exit code says.
pub(crate) struct Trouble {
    /// What was wrong and what to do.
    pub(crate) problem: String,
    /// See the help of `bench`.
    pub(crate) code: u8,
}

impl Trouble {
    /// A load that can't be made, or was cut off.
    fn load(problem: impl Into<String>) -> Trouble {
        Trouble { problem: problem.into(), code: 1 }
    }
}

/// Does what is asked; how the program ends.
pub(crate) fn bench(verb: &BenchVerb) -> Result<(), Trouble> {
    match verb {
        BenchVerb::Run(settings) => run::run(settings),
    }
}
