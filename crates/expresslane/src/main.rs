//! The `expresslane` program: reads its settings, starts its threads, and says in one sentence why it can't.

mod attendant;
mod bench;
mod clock;
mod control;
mod doors;
mod files;
mod follow;
mod heap;
mod inner;
mod lanes;
mod log_queue;
mod machine;
mod news;
mod numa;
mod outgoing;
mod paging;
mod pin;
mod plan;
mod preemption;
mod region;
mod run;
mod scheduler;
mod serve;
mod settings;
mod signature;
mod stats;
mod stop;
mod table;
mod users;

use std::io::Write;
use std::process::ExitCode;

use settings::{Refusal, Verb};

fn main() -> ExitCode {
    let read_file = |path: &std::path::Path| std::fs::read_to_string(path);
    let result = match settings::parse(std::env::args_os(), read_file) {
        Ok(Verb::Serve(settings)) => serve::serve(&settings).inspect_err(|problem| log(problem)),
        Ok(Verb::Stats(settings)) => stats::stats(&settings).inspect_err(|problem| say(problem)),
        Ok(Verb::Bench(verb)) => match bench::bench(&verb) {
            Ok(()) => Ok(()),
            Err(trouble) => {
                say(&trouble.problem);
                return ExitCode::from(trouble.code);
            }
        },
        Ok(Verb::Lanes(verb)) => match lanes::lanes(&verb) {
            Ok(()) => Ok(()),
            Err(trouble) => {
                trouble.problem.lines().for_each(say);
                return ExitCode::from(trouble.code);
            }
        },
        Ok(Verb::Run(settings)) => {
            let stopped = run::run(&settings, say);
            say(&stopped.problem);
            return ExitCode::from(stopped.code);
        }
        Err(Refusal::Usage(error)) if error.use_stderr() => {
            let _ = error.print();
            bench::hint(std::env::args_os(), &error).into_iter().for_each(say);
            return ExitCode::from(code_of_usage(std::env::args_os()));
        }
        Err(Refusal::Usage(error)) => error.exit(),
        Err(Refusal::File(problem)) => Err(problem).inspect_err(|problem| log(problem)),
    };
    control::settle_log();
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is answered to arguments, the program's name first, of which a flag is wrong.
fn code_of_usage(arguments: impl Iterator<Item = std::ffi::OsString>) -> u8 {
    let verbs: Vec<_> = arguments.skip(1).take(2).collect();
    let verbs: Vec<_> = verbs.iter().map(|verb| verb.to_str().unwrap_or_default()).collect();
    match verbs[..] {
        // It must not look like an exit code of the program that was to be run,
        ["run", ..] => run::EXIT_OURS,
        // nor like something that is wrong with the machine.
        ["lanes", "status"] => lanes::EXIT_UNKNOWN,
        _ => 2,
    }
}

/// A server's last words belong to its log.
fn log(problem: &str) {
    control::log(control::Level::Error, problem);
}

/// A tool's, to whoever has called it.
fn say(problem: &str) {
    let _ = writeln!(std::io::stderr().lock(), "expresslane: {problem}");
}
