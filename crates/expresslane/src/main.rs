//! The `expresslane` program: reads its settings, starts its threads, and says in one sentence why it can't.

mod attendant;
mod clock;
mod control;
mod machine;
mod plan;
mod region;
mod release;
mod serve;
mod settings;
mod signature;
mod table;

use std::process::ExitCode;

use settings::{Refusal, Verb};

fn main() -> ExitCode {
    let read_file = |path: &std::path::Path| std::fs::read_to_string(path);
    let result = match settings::parse(std::env::args_os(), read_file) {
        Ok(Verb::Serve(settings)) => serve::serve(&settings),
        Err(Refusal::Usage(error)) => error.exit(),
        Err(Refusal::File(problem)) => Err(problem),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            control::log(control::Level::Error, &problem);
            ExitCode::FAILURE
        }
    }
}
