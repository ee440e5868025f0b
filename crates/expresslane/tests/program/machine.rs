//! What tests of `expresslane lanes` share: a machine of their own, in a network namespace.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use crate::namespaces::Pair;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_expresslane");

/// A namespace with a card of four queues, whose other end is elsewhere; and a directory for a journal.
pub(crate) struct Machine {
    pub(crate) pair: Pair,
    pub(crate) directory: PathBuf,
}

impl Machine {
    /// None, with the reason on stderr: this user can't make one.
    pub(crate) fn new() -> Option<Machine> {
        Machine::of(Pair::new("xll", ["vs", "vc"], "198.18.79")?)
    }

    /// In the first namespace of a pair.
    pub(crate) fn of(pair: Pair) -> Option<Machine> {
        let directory = std::env::temp_dir().join(&pair.names[0]);
        fs::create_dir_all(&directory).unwrap();
        Some(Machine { pair, directory })
    }

    pub(crate) fn name(&self) -> &str {
        &self.pair.names[0]
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn lanes(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(), PROGRAM, "lanes"]).args(words);
        command.env("EXPRESSLANE_STATE_DIR", self.directory.join("state"));
        command
    }

    /// What it prints; it must end with this code.
    pub(crate) fn ends(&self, words: &[&str], code: i32) -> String {
        let output = self.lanes(words).output().unwrap();
        let text = told(&output);
        assert_eq!(output.status.code(), Some(code), "lanes {words:?}: {text}");
        text
    }

    /// What can be set, as text; numbers that the kernel hands out anew are left out.
    pub(crate) fn facts(&self) -> serde_json::Value {
        let mut facts: serde_json::Value = serde_json::from_str(&self.ends(&["facts", "--json"], 0)).unwrap();
        for nic in facts["nics"].as_array_mut().unwrap() {
            for queue in nic["queues"].as_array_mut().unwrap() {
                queue.as_object_mut().unwrap().remove("napi");
            }
        }
        facts
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Ends with what it started.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn affinity(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

/// Asks again until it is so.
#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
pub(crate) fn wait(mut is_so: impl FnMut() -> bool, what: &str) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed().as_secs() < 60, "waited 60 s for {what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Something that somebody else does to the machine.
pub(crate) fn run(program: &str, words: &str) {
    let output = Command::new(program).args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{program} {words}: {}", told(&output));
}
