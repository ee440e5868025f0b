//! How a thread is scheduled beside others: `run --sched` for a program, `serve --sched` for lanes.

use std::fmt;
use std::io;
use std::str::FromStr;

/// A policy of `sched(7)` and its real-time priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// Shares, by nice value.
    Other,
    /// Real time, until it waits.
    Fifo(u8),
    /// Real time, in turns with its equals.
    RoundRobin(u8),
}

impl FromStr for Scheduler {
    type Err = String;

    fn from_str(text: &str) -> Result<Scheduler, String> {
        let wrong =
            || format!("scheduling is other, or fifo:N or rr:N with a priority N from 1 to 99, not '{text}'");
        let priority = |text: &str| match text.parse() {
            Ok(priority @ 1..=99) => Ok(priority),
            _ => Err(wrong()),
        };
        match text.split_once(':') {
            None if text == "other" => Ok(Scheduler::Other),
            Some(("fifo", n)) => Ok(Scheduler::Fifo(priority(n)?)),
            Some(("rr", n)) => Ok(Scheduler::RoundRobin(priority(n)?)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduler::Other => f.write_str("other"),
            Scheduler::Fifo(priority) => write!(f, "fifo:{priority}"),
            Scheduler::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

impl Scheduler {
    /// Whether it goes before everything of the usual kind, as long as it has something to do.
    pub(crate) fn is_real_time(self) -> bool {
        self != Scheduler::Other
    }

    /// Sets policy and real-time priority of this thread; threads and programs that it starts inherit them.
    ///
    /// # Errors
    /// A sentence that names the flag and what it takes.
    pub(crate) fn apply(self) -> Result<(), String> {
        let (policy, priority) = match self {
            Scheduler::Other => (libc::SCHED_OTHER, 0),
            Scheduler::Fifo(priority) => (libc::SCHED_FIFO, priority),
            Scheduler::RoundRobin(priority) => (libc::SCHED_RR, priority),
        };
        // SAFETY: all zeros is a value of it: numbers.
        let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        parameters.sched_priority = i32::from(priority);
        // SAFETY: the structure is read, once.
        let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
        priority_result(result, &format!("--sched {self}"), "RLIMIT_RTPRIO")
    }
}

/// What the kernel said to a wish of `flag`, as a sentence; `limit` is what unprivileged processes may have instead of the right.
pub(crate) fn priority_result(result: libc::c_int, flag: &str, limit: &str) -> Result<(), String> {
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            format!("not allowed to set {flag}: it takes CAP_SYS_NICE or a higher {limit} ({error})")
        }
        _ => format!("can't set {flag}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduling_is_read_and_written_alike() {
        for text in ["other", "fifo:1", "fifo:99", "rr:10"] {
            assert_eq!(text.parse::<Scheduler>().unwrap().to_string(), text);
        }
        for text in ["", "fifo", "fifo:", "fifo:0", "fifo:100", "rr:-1", "other:1", "idle", "FIFO:1"] {
            let problem = text.parse::<Scheduler>().unwrap_err();
            assert!(problem.contains(&format!("'{text}'")), "{problem}");
        }
    }
}
