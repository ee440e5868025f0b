//! A result: a text file of JSON values, a line each, written as they come. A run that was cut, or a disk that is full,
//! leaves a file that can still be read and reported; a later question is answered from it without a new run.
//!
//! ```text
//!   {"line":"head", …}          what was asked of whom, once, first
//!   {"line":"environment", …}   a machine, at the start or the end
//!   {"line":"run", …}           a load of one server begins
//!   {"line":"second", …}        what a second of it saw: histograms and counters
//!   {"line":"run_end", …}       how it ended
//!   {"line":"end", …}           the whole is complete
//! ```

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::agents::told::AgentRun;
use crate::engine::ErrorText;
use crate::environment::Row;
use crate::record::Second;
use crate::workload::Workload;

/// The form of the file. A reader refuses what is newer than itself.
pub const SCHEMA: u32 = 1;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// What the file holds.
    Head(Head),
    /// A machine.
    Environment(Surroundings),
    /// A run begins.
    Run(RunHead),
    /// A second of it.
    Second(SavedSecond),
    /// It has ended.
    RunEnd(RunEnd),
    /// Nothing is missing.
    End,
}

/// What was asked, once for the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// [`SCHEMA`] of whoever wrote it.
    pub schema: u32,
    /// `run`, `search`, `compare` or `reproduce`.
    pub kind: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// Of this program.
    pub version: String,
    /// Milliseconds since 1970.
    pub began_unix_ms: u64,
    /// The plan as it was taken, for those kinds that have one.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub plan: serde_json::Value,
}

/// A machine at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// `client` or `server`; one machine that is both is `client`.
    pub side: String,
    /// Which host of that side, as it was named; empty: the one that this program ran on, or the only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// `start` or `end`.
    pub at: String,
    /// The run it belongs to; none: the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// What [`crate::environment`] saw.
    pub environment: serde_json::Value,
}

/// A load of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHead {
    /// Counted from 0, in the order in which they ran.
    pub run: u32,
    /// Which published experiment it repeats: `E1` … `E5`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub experiment: String,
    /// Which set-up: `a`, `b`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arm: String,
    /// Which pair it is one half of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<u32>,
    /// What is swept, and where on it this is: `connections`, 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<(String, f64)>,
    /// Where the server is.
    pub address: String,
    /// `resp2`, `resp3`, `memcached` or `memcached-binary`.
    pub protocol: String,
    /// Over all threads.
    pub connection_count: u32,
    /// Requests that a closed pace sends at once.
    pub pipeline: u32,
    /// Threads of the load.
    pub thread_count: u32,
    /// Requests a second that are meant; none: as many as are answered (closed pace).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// `poisson` or `even`, at a rate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arrivals: String,
    /// At a rate, whether threads stay awake for what is due: they have cores of their own, or were told to.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stays_awake: bool,
    /// Seconds at the front in which the rate grows from nothing. They don't count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ramp_s: u32,
    /// Seconds at the front that don't count, the ramp included; none: as many as it takes to be steady.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_s: Option<u32>,
    /// Seconds that were asked for, the warm-up included.
    pub duration_s: f64,
    /// Of keys, times and sizes.
    pub seed: u64,
    /// What is asked.
    pub workload: Workload,
    /// Milliseconds since 1970.
    pub began_unix_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_false(is: &bool) -> bool {
    !is
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

/// A second of a run, with what the machine counted meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSecond {
    /// Of which run.
    pub run: u32,
    /// The requests.
    #[serde(flatten)]
    pub second: Second,
    /// A second of what the kernel counts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, f64>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Which.
    pub run: u32,
    /// Why it ended before its time; none: it didn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// It was told to stop (Ctrl-C): what there is, is whole.
    #[serde(default)]
    pub was_stopped: bool,
    /// From the first request to the last reply.
    pub elapsed_ns: u64,
    /// What share of a second the last one is.
    pub last_share: f64,
    /// Replies.
    pub answered: u64,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// What errors said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_texts: Vec<ErrorText>,
    /// Of each thread of the load, the share of its core that it used: work alone, spinning left out.
    pub thread_use: Vec<f64>,
    /// CPU time of the server's process over the run, if it is on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_ns: Option<u64>,
    /// What of the machine was another at the end than before the run, values of the moment among it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine_changes: Vec<Row>,
    /// Each of the hosts that made the load, if it was made by agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentRun>,
}

/// A file read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// What was asked.
    pub head: Head,
    /// The machines.
    pub surroundings: Vec<Surroundings>,
    /// In the order in which they ran.
    pub runs: Vec<Run>,
    /// Whether the file ends as it should.
    pub is_complete: bool,
}

/// One run of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// What was asked.
    pub head: RunHead,
    /// What came, second by second.
    pub seconds: Vec<SavedSecond>,
    /// How it ended; none: nobody knows, the file is cut.
    pub end: Option<RunEnd>,
}

/// Writes a line. Nothing is kept back: what is written survives this program.
///
/// # Errors
/// What the file says: a disk that is full, for instance.
pub fn write(out: &mut impl Write, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()
}

/// Reads a file. A last line without its end is a cut file's, and left out.
///
/// # Errors
/// A line that is none, with its number; a newer form; no head.
pub fn read(file: impl BufRead) -> Result<Saved, String> {
    read_runs(file, |_| {})
}

/// What kind of a result a file holds, from its first line.
///
/// # Errors
/// As [`read`].
pub fn kind(mut file: impl BufRead) -> Result<String, String> {
    let mut text = Vec::new();
    file.read_until(b'\n', &mut text).map_err(|error| format!("line 1: {error}"))?;
    Ok(read(&text[..])?.head.kind)
}

/// As [`read`], and shows each run when its end has been read: whoever takes from it what is wanted may give its seconds up.
///
/// # Errors
/// As [`read`].
pub fn read_runs(mut file: impl BufRead, mut each: impl FnMut(&mut Run)) -> Result<Saved, String> {
    let mut saved = Saved::default();
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let size = file.read_until(b'\n', &mut text).map_err(|error| format!("line {number}: {error}"))?;
        if size == 0 {
            break;
        }
        let line = match serde_json::from_slice::<Line>(&text) {
            Ok(line) => line,
            Err(_) if text.last() != Some(&b'\n') => break,
            Err(_) if number == 1 => {
                return Err("it is no result: its first line is none that --result writes".to_owned());
            }
            Err(error) => return Err(format!("line {number} is no line of a result: {error}")),
        };
        if (number == 1) != matches!(line, Line::Head(_)) {
            return Err(format!("line {number} stands in the wrong place: a result begins with its head"));
        }
        let ended = if let Line::RunEnd(end) = &line { Some(end.run) } else { None };
        saved.take(line).map_err(|problem| format!("line {number}: {problem}"))?;
        if let Some(run) = ended.and_then(|run| saved.run(run).ok()) {
            each(run);
        }
    }
    if saved.head.schema == 0 { Err("it is empty".to_owned()) } else { Ok(saved) }
}

impl Saved {
    /// One more line.
    ///
    /// # Errors
    /// Why it can't stand there.
    pub fn take(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Head(head) if head.schema == 0 || head.schema > SCHEMA => {
                return Err(format!(
                    "it is of form {}, and this program reads up to {SCHEMA}: take the one that wrote it ({})",
                    head.schema, head.version
                ));
            }
            Line::Head(head) => self.head = head,
            Line::Environment(surroundings) => self.surroundings.push(surroundings),
            Line::Run(head) => self.runs.push(Run { head, ..Run::default() }),
            Line::Second(second) => self.run(second.run)?.seconds.push(second),
            Line::RunEnd(end) => {
                let run = self.run(end.run)?;
                run.end = Some(end);
            }
            Line::End => self.is_complete = true,
        }
        Ok(())
    }

    fn run(&mut self, number: u32) -> Result<&mut Run, String> {
        let run = self.runs.iter_mut().rev().find(|run| run.head.run == number);
        run.ok_or_else(|| format!("run {number} has not begun"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Operation;

    fn lines() -> Vec<Line> {
        let mut second = Second::new([Operation::Get].into_iter());
        second.operations[0].response.record(1234).unwrap();
        let counters = BTreeMap::from([("cpu.steal".to_owned(), 0.01)]);
        vec![
            Line::Head(Head { schema: SCHEMA, kind: "run".to_owned(), ..Head::default() }),
            Line::Environment(Surroundings {
                side: "client".to_owned(),
                host: String::new(),
                at: "start".to_owned(),
                run: None,
                environment: serde_json::json!({"kernel": "6.18"}),
            }),
            Line::Run(RunHead {
                run: 0,
                level: Some(("connections".to_owned(), 10.0)),
                ..RunHead::default()
            }),
            Line::Second(SavedSecond { run: 0, second: second.clone(), counters }),
            Line::Second(SavedSecond { run: 0, second, counters: BTreeMap::new() }),
            Line::RunEnd(RunEnd { run: 0, last_share: 0.5, thread_use: vec![0.3], ..RunEnd::default() }),
            Line::End,
        ]
    }

    fn written(lines: &[Line]) -> Vec<u8> {
        let mut file = Vec::new();
        lines.iter().for_each(|line| write(&mut file, line).unwrap());
        file
    }

    #[test]
    fn what_was_written_is_read() {
        let lines = lines();
        let saved = read(&written(&lines)[..]).unwrap();
        assert!(saved.is_complete);
        let [run] = &saved.runs[..] else { panic!("one run") };
        let [_, _, Line::Run(head), Line::Second(first), Line::Second(second), Line::RunEnd(end), _] =
            &lines[..]
        else {
            panic!("the order above")
        };
        assert_eq!((&run.head, &run.end), (head, &Some(end.clone())));
        assert_eq!(run.seconds, [first.clone(), second.clone()]);
    }

    /// A report made from the file says what the screen said, to the last digit.
    #[test]
    fn numbers_come_back_as_they_were() {
        let mut chance = crate::chance::Chance::new(7);
        for _ in 0..1000 {
            let end = RunEnd { last_share: chance.share() * 1e-3, ..RunEnd::default() };
            let text = serde_json::to_string(&end).unwrap();
            assert_eq!(serde_json::from_str::<RunEnd>(&text).unwrap(), end, "{text}");
        }
    }

    #[test]
    fn a_file_is_of_use_wherever_it_is_cut() {
        let file = written(&lines());
        let first_end = file.iter().position(|byte| *byte == b'\n').unwrap();
        for cut in first_end + 1..file.len() - 1 {
            let saved = read(&file[..cut]).unwrap();
            assert!(!saved.is_complete && saved.runs.len() <= 1, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let newer = Line::Head(Head { schema: SCHEMA + 1, ..Head::default() });
        let head = written(&lines()[..1]);
        for (file, want) in [
            (b"".to_vec(), "empty"),
            (b"hello\n".to_vec(), "it is no result"),
            (written(&[newer]), "of form 2"),
            (written(&lines()[1..]), "line 1 stands"),
            (written(&[&lines()[..1], &lines()[3..]].concat()), "line 2: run 0 has not begun"),
            ([&head[..], &head[..]].concat(), "line 2 stands"),
            ([&head[..], b"{}\n"].concat(), "line 2 is no line"),
        ] {
            let problem = read(&file[..]).unwrap_err();
            assert!(problem.contains(want), "{problem}");
        }
    }
}
