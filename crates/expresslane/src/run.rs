//! `expresslane run`: starts a program that knows nothing of lanes inside one.
//!
//! The process gives itself the lane's cpus, memory, priority and limits, which a program inherits, and then *becomes* the
//! program (`execve(2)`). So signals, job control, the exit code and what a supervisor watches are the program's own; nothing
//! stands between. What can't be had is an error before the program starts, never a program that runs elsewhere.

mod lane;
mod process;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use host::Cpus;

use crate::lanes::STATE_DIR;
use crate::scheduler::Scheduler;
use crate::settings::{Size, whole};

/// Exit codes, as `env(1)`, `nice(1)` and `timeout(1)` have them.
pub(crate) const EXIT_OURS: u8 = 125;
const EXIT_NOT_EXECUTABLE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// What `--help` says first.
pub(crate) const LONG: &str = "Start a program inside a lane.

Sets its cpus, memory, priority and limits, then becomes the program: signals and the exit code are the program's own, \
and a supervisor sees one process.";

/// What `--help` says last.
pub(crate) const EXAMPLES: &str = "Examples:
  expresslane run --lane redis -- redis-server --port 6379
      on the cores of the lane that `expresslane lanes apply` has made
  expresslane run --lane redis --file lanes.toml --cpus 3 -- redis-server --port 6380
      one of several instances, on one of the lane's cores
  expresslane run --cpus 2 -- redis-server --port 6379
      on cpu 2 alone
  expresslane run --cpus 4-7 --mem-node 1 --nofile 65536 -- memcached -t 4
      four cpus, and memory of the second NUMA node alone
  expresslane run --cpus 3 --sched fifo:10 --nice -5 -- ./server
      before everything that has no real-time priority

Exit codes: the program's own; 125 it was not started (one sentence says what to do), 126 it can't be executed, 127 there \
is no such program.";

/// All settings of `expresslane run`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunSettings {
    /// The lane: its cores, the memory near them, its nice value
    ///
    /// Of the wish that is in force, or of --file. The flags below narrow it or win over it.
    #[arg(long, value_name = "NAME")]
    pub(crate) lane: Option<String>,
    /// The file that has the lane, instead of the wish in force
    #[arg(long, value_name = "FILE", requires = "lane")]
    pub(crate) file: Option<PathBuf>,
    /// Directory of the journal that has the wish in force
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, env = "EXPRESSLANE_STATE_DIR")]
    pub(crate) state_dir: PathBuf,
    /// Cpus it may run on, such as 2-5,8; with --lane some of the lane's
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<Cpus>,
    /// NUMA node of all its memory
    #[arg(long, value_name = "NODE", value_parser = whole::<u32>(0, process::NODE_MAX))]
    pub(crate) mem_node: Option<u32>,
    /// Its nice value; below 0 takes CAP_SYS_NICE
    #[arg(long, value_name = "NICE", allow_negative_numbers = true, value_parser = whole::<i32>(-20, 19))]
    pub(crate) nice: Option<i32>,
    /// Its scheduling: other, or fifo or rr with a priority from 1 to 99
    #[arg(long, value_name = "other|fifo:N|rr:N")]
    pub(crate) sched: Option<Scheduler>,
    /// Files and sockets it may have open
    #[arg(long, value_name = "COUNT", value_parser = whole::<u64>(1, 1 << 30))]
    pub(crate) nofile: Option<u64>,
    /// Memory it may lock
    #[arg(long, value_name = "SIZE")]
    pub(crate) memlock: Option<Size>,
    /// Control group to put it in, which must exist: a path below the hierarchy's root
    #[arg(long, value_name = "GROUP")]
    pub(crate) cgroup: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// Why the program was not started: one sentence, and the exit code.
#[derive(Debug)]
pub(crate) struct NotStarted {
    /// What was wrong and what to do.
    pub(crate) problem: String,
    /// 125, 126 or 127.
    pub(crate) code: u8,
}

/// Becomes the program; returns only where it can't. `note` is told what was asked for and means nothing here.
pub(crate) fn run(settings: &RunSettings, note: impl Fn(&str)) -> NotStarted {
    if let Err(problem) = prepare(settings, note) {
        return NotStarted { problem, code: EXIT_OURS };
    }
    let [program, arguments @ ..] = settings.command.as_slice() else {
        return NotStarted { problem: "name a program behind --".to_owned(), code: EXIT_OURS };
    };
    let error = Command::new(program).args(arguments).exec();
    not_executed(&program.to_string_lossy(), &error)
}

fn not_executed(program: &str, error: &io::Error) -> NotStarted {
    if error.kind() == io::ErrorKind::NotFound {
        let problem = format!("there is no program '{program}'; name a file, or one in a directory of PATH");
        return NotStarted { problem, code: EXIT_NOT_FOUND };
    }
    NotStarted { problem: format!("can't execute '{program}': {error}"), code: EXIT_NOT_EXECUTABLE }
}

/// Gives this process all that the program shall inherit. The group comes first, for it bounds cpus and memory; rights that
/// the rest may need are not given up.
fn prepare(settings: &RunSettings, note: impl Fn(&str)) -> Result<(), String> {
    let (mut cpus, mut mem_node, mut nice) = (settings.cpus.clone(), settings.mem_node, settings.nice);
    // Read before anything is given up: the machine may show a smaller group less.
    if let Some(name) = &settings.lane {
        let gifts = lane::gifts(name, settings.file.as_deref(), &settings.state_dir, cpus.as_ref())?;
        cpus = Some(gifts.cpus);
        mem_node = mem_node.or(gifts.mem_node);
        nice = nice.or(gifts.nice);
    }
    if let Some(group) = &settings.cgroup {
        process::join(group)?;
    }
    if let Some(cpus) = &cpus {
        process::set_affinity(cpus)?;
    }
    if let Some(node) = mem_node {
        let nodes = process::nodes()?;
        if !nodes.contains(node) {
            return Err(format!("there is no NUMA node {node} for --mem-node; this machine has {nodes}"));
        }
        if nodes.count() == 1 {
            note(&format!("--mem-node {node} changes nothing: this machine has one NUMA node"));
        } else {
            process::bind_memory(node)?;
        }
    }
    if let Some(nice) = nice {
        process::set_nice(nice)?;
    }
    if let Some(scheduler) = settings.sched {
        scheduler.apply()?;
    }
    if let Some(count) = settings.nofile {
        process::set_limit(libc::RLIMIT_NOFILE, count, "--nofile")?;
    }
    if let Some(Size(bytes)) = settings.memlock {
        process::set_limit(libc::RLIMIT_MEMLOCK, bytes, "--memlock")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_env() {
        let code = |number| not_executed("x", &io::Error::from_raw_os_error(number)).code;
        assert_eq!(code(libc::ENOENT), 127);
        assert_eq!((code(libc::EACCES), code(libc::ENOEXEC), code(libc::E2BIG)), (126, 126, 126));
    }
}
