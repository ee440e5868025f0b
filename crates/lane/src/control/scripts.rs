//! The scripts that the server knows. The control thread compiles them, so that no lane is kept from its clients, and tells every
//! lane before it says so; whoever has seen a script's digest may ask any lane for it.

use std::collections::{BTreeMap, VecDeque};

use script::{Program, Sha};
use wire::command::Id;
use wire::reply::{self, OK, Put};

use super::{Begun, Control};
use crate::Now;
use crate::admin::{KillCount, Order, Question, Report};
use crate::request::Args;
use crate::scripts::{ScriptOrder, bytes_of};

/// Scripts that came with EVAL and are kept for EVALSHA; the oldest is forgotten for a new one (as in Redis from 7.4 on).
const PASSING_COUNT_MAX: usize = 500;
/// Bytes of all scripts, compiled. Those of EVAL make room for others; what SCRIPT LOAD brings is refused beyond.
const SIZE_MAX: usize = 64 * 1024 * 1024;
const TOO_MANY: &str = "ERR too many scripts are loaded: 64 MiB of them are kept until SCRIPT FLUSH";

/// See the top of this file.
#[derive(Default)]
pub(super) struct Library {
    /// Whether SCRIPT LOAD has brought it, which keeps it until SCRIPT FLUSH.
    known: BTreeMap<Sha, (Program, bool)>,
    /// Those that EVAL has brought, oldest first.
    passing: VecDeque<Sha>,
    /// Bytes of all.
    size: usize,
}

impl Library {
    /// How many there are, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.size)
    }

    /// Takes a script in. Gives those that are forgotten for it; none if there is no room for it.
    fn take(&mut self, program: &Program, is_kept: bool) -> Option<Vec<Sha>> {
        let sha = *program.sha();
        if let Some((_, was_kept)) = self.known.get_mut(&sha) {
            if is_kept && !*was_kept {
                *was_kept = true;
                self.passing.retain(|other| *other != sha);
            }
            return Some(Vec::new());
        }
        if self.size + program.size() > SIZE_MAX {
            let passing_size: usize = self.passing.iter().map(|sha| self.known[sha].0.size()).sum();
            if self.size - passing_size + program.size() > SIZE_MAX {
                return None;
            }
        }
        let mut forgotten = Vec::new();
        let count_max = if is_kept { PASSING_COUNT_MAX } else { PASSING_COUNT_MAX - 1 };
        while self.passing.len() > count_max || self.size + program.size() > SIZE_MAX {
            let oldest = self.passing.pop_front().expect("without those that pass there is room");
            let (program, _) = self.known.remove(&oldest).expect("what passes is known");
            self.size -= program.size();
            forgotten.push(oldest);
        }
        self.size += program.size();
        self.known.insert(sha, (program.clone(), is_kept));
        if !is_kept {
            self.passing.push_back(sha);
        }
        Some(forgotten)
    }
}

impl Control {
    /// SCRIPT, or an EVAL of a script that its lane does not know.
    pub(super) fn begin_script(&mut self, question: &Question, now: Now, out: &mut Vec<u8>) -> Begun {
        let args = Args::Owned(&question.request);
        match question.command.id {
            Id::ScriptExists => {
                reply::array(out, args.len() - 2);
                for index in 2..args.len() {
                    let is_known =
                        Sha::parse(args.flat(index)).is_some_and(|sha| self.library.known.contains_key(&sha));
                    reply::integer(out, i64::from(is_known));
                }
            }
            Id::ScriptFlush => match args.len() {
                2 => return self.forget_scripts(),
                3 if [&b"sync"[..], b"async"].iter().any(|word| args.flat(2).eq_ignore_ascii_case(word)) => {
                    return self.forget_scripts();
                }
                _ => reply::error(out, "ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
            },
            Id::ScriptKill => return self.kill_scripts(false, now),
            id => {
                let is_kept = id == Id::ScriptLoad;
                match Program::compile(&bytes_of(args.get(if is_kept { 2 } else { 1 }))) {
                    Ok(program) => match self.library.take(&program, is_kept) {
                        Some(forgotten) => {
                            return Begun::Everywhere(Order::Scripts(ScriptOrder::Know(program, forgotten)));
                        }
                        None => reply::error(out, TOO_MANY),
                    },
                    Err(text) => reply::error_bytes(out, text.as_bytes()),
                }
            }
        }
        Begun::Answered
    }

    /// SCRIPT KILL and FUNCTION KILL.
    pub(super) fn kill_scripts(&self, are_functions: bool, now: Now) -> Begun {
        let busy_ms = self.config.value("busy-reply-threshold").parse().unwrap_or(0);
        let busy_ns = u64::saturating_mul(busy_ms, 1_000_000);
        let before_ns = now.mono_ns.saturating_sub(busy_ns);
        Begun::Everywhere(Order::KillScripts { before_ns, are_functions })
    }

    fn forget_scripts(&mut self) -> Begun {
        self.library = Library::default();
        Begun::Everywhere(Order::Scripts(ScriptOrder::Forget))
    }
}

/// The line that a script has written to the log by redis.log, if its level is no lower than `loglevel`.
pub(super) fn said((level, text): &(u8, Vec<u8>), least: &str) -> Option<String> {
    const LEVELS: [&str; 4] = ["debug", "verbose", "notice", "warning"];
    let least = LEVELS.iter().position(|name| *name == least).unwrap_or(0);
    // A script writes one line, whatever is in its text.
    let shown: String = String::from_utf8_lossy(text).chars().flat_map(char::escape_debug).collect();
    (least <= usize::from(*level)).then(|| format!("a script says: {shown}"))
}

/// Answers, now that every lane has done its part.
pub(super) fn conclude(question: &Question, reports: &[(u16, Report)], out: &mut Vec<u8>) {
    match question.command.id {
        Id::ScriptLoad => {
            let source = bytes_of(question.request.get(2));
            reply::bulk(out, Sha::of(&source).as_ref());
        }
        Id::ScriptKill | Id::FunctionKill => {
            let sum = |of: fn(&KillCount) -> u64| -> u64 {
                let counts = reports.iter().filter_map(|(_, report)| match report {
                    Report::Scripts(count) => Some(of(count)),
                    _ => None,
                });
                counts.sum()
            };
            let others = if question.command.id == Id::ScriptKill { "FUNCTION" } else { "SCRIPT" };
            match (sum(|count| count.killed), sum(|count| count.writing), sum(|count| count.others)) {
                (0, 0, 0) => reply::error(out, "NOTBUSY No scripts in execution right now."),
                (0, 0, _) => {
                    let text = format!(
                        "BUSY Redis is busy running a script. You can only call {others} KILL or SHUTDOWN NOSAVE."
                    );
                    reply::error(out, &text);
                }
                (0, ..) => reply::error(
                    out,
                    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
                     script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
                ),
                _ => out.put(OK),
            }
        }
        _ => out.put(OK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(number: usize, size: usize) -> Program {
        let text = format!("return {number} .. '{}'", "x".repeat(size));
        Program::compile(text.as_bytes()).expect("it is Lua")
    }

    /// What it says it holds is what it holds.
    fn check(library: &Library) {
        let size: usize = library.known.values().map(|(program, _)| program.size()).sum();
        assert_eq!(library.size(), (library.known.len(), size));
        assert!(size <= SIZE_MAX && library.passing.len() <= PASSING_COUNT_MAX);
    }

    #[test]
    fn what_is_loaded_stays_and_what_passes_gives_way() {
        let mut library = Library::default();
        let kept = program(0, 10);
        assert_eq!(library.take(&kept, true), Some(vec![]));
        let first = program(1, 10);
        assert_eq!(library.take(&first, false), Some(vec![]));
        for number in 2..=PASSING_COUNT_MAX {
            assert_eq!(library.take(&program(number, 10), false), Some(vec![]));
            check(&library);
        }
        assert_eq!(library.take(&program(1000, 10), false), Some(vec![*first.sha()]));
        // Loaded, one that has passed stays, too.
        let second = program(2, 10);
        assert_eq!(library.take(&second, true), Some(vec![]));
        check(&library);
        for number in 2000..2600 {
            library.take(&program(number, 10), false).expect("others give way");
        }
        check(&library);
        assert!([&kept, &second].iter().all(|program| library.known.contains_key(program.sha())));
        // Until there is no room, and then nothing is forgotten for nothing.
        let mut count = 0;
        while library.take(&program(10_000 + count, 250_000), true).is_some() {
            count += 1;
            check(&library);
        }
        let passing = library.passing.len();
        assert!(count > 200 && library.take(&program(1, 250_000), true).is_none());
        assert_eq!(library.passing.len(), passing, "nothing is forgotten in vain");
        check(&library);
    }
}
