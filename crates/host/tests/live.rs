//! The machine's own kernel, on a pair of virtual interfaces with four queues between two network namespaces of each test.
//!
//! A test makes the namespaces, and runs itself again within the first one (`ip netns exec`, which also mounts that namespace's
//! /sys). Without the right to make namespaces it says so and passes. What a test makes goes when it ends, however it ends.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

#[path = "live/cards.rs"]
mod cards;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "rounds/chance.rs"]
mod chance;
#[path = "live/facts.rs"]
mod facts;
#[path = "live/machine.rs"]
mod machine;
mod namespaces;
#[path = "live/queueing.rs"]
mod queueing;
#[path = "live/rounds.rs"]
mod rounds;

use std::process::{Child, Command, Stdio};

use host::kernel::Cause;
use host::kernel::live::Live;
use host::{Kernel, Knob, Setting};
use namespaces::Pair;

/// Set in the second run, which is within the namespace, to the name of the other one.
const WITHIN: &str = "HOST_LIVE_WITHIN";
/// The interface under test, its peer's name in the other namespace, and their addresses.
const NIC: &str = "va";
const PEER: &str = "vb";
const NETWORK: &str = "198.18.0";
const ADDRESS: &str = "198.18.0.1";
const PEER_ADDRESS: &str = "198.18.0.2";
const SECONDS_MAX: &str = "60";

/// What `tc` prints.
fn tc(words: &str) -> String {
    let output = Command::new("tc").args(words.split(' ')).output().expect("tc is beside ip");
    assert!(output.status.success(), "tc {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `body` within a namespace of its own. `test` is the test's name with its module's.
#[expect(clippy::disallowed_methods, reason = "the second run of this binary is told where it is")]
fn within(test: &str, body: fn(&mut Live)) {
    if std::env::var(WITHIN).is_ok() {
        return body(&mut Live::new());
    }
    let Some(pair) = Pair::new("host", [NIC, PEER], NETWORK) else { return };
    let binary = std::env::current_exe().unwrap();
    let mut command = Command::new("timeout");
    command.args([SECONDS_MAX, "ip", "netns", "exec", &pair.names[0]]).arg(binary);
    command.args(["--exact", test, "--nocapture"]).env(WITHIN, &pair.names[1]);
    let output = command.output().unwrap();
    drop(pair);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "the test was not found within: {said}");
    said.lines().filter(|line| line.starts_with("not tried")).for_each(|line| eprintln!("{line}"));
}

fn knob(path: &str) -> Knob {
    path.parse().unwrap()
}

fn read(live: &mut Live, path: &str) -> Option<String> {
    live.read(&knob(path)).unwrap_or_else(|refusal| panic!("{refusal}")).map(|setting| setting.to_string())
}

fn write(live: &mut Live, path: &str, text: Option<&str>) {
    let setting = text.map(Setting::new);
    live.write(&knob(path), setting.as_ref()).unwrap_or_else(|refusal| panic!("{refusal}"));
}

/// Sets a knob, reads the same text, and puts back what was there.
fn round_trip(live: &mut Live, path: &str, text: &str) {
    let before = read(live, path);
    assert_ne!(before.as_deref(), Some(text), "{path} has it before");
    write(live, path, Some(text));
    assert_eq!(read(live, path).as_deref(), Some(text), "{path}");
    write(live, path, before.as_deref());
    assert_eq!(read(live, path), before, "{path} comes back");
}

fn refused(live: &mut Live, path: &str, text: Option<&str>) -> (Cause, String) {
    let setting = text.map(Setting::new);
    let refusal = live.write(&knob(path), setting.as_ref()).expect_err(path);
    (refusal.cause, refusal.reason)
}

/// A process that sleeps; it ends with this.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        let sleeper = Sleeper(Command::new("sleep").arg(SECONDS_MAX).stdin(Stdio::null()).spawn().unwrap());
        // It runs before it has its name.
        let comm = format!("/proc/{}/comm", sleeper.0.id());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        sleeper
    }

    fn path(&self, what: &str) -> String {
        thread_path(self.0.id(), what)
    }
}

/// The knob of a process' first thread.
fn thread_path(pid: u32, what: &str) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
    format!("process/{pid}@{start}/{pid}/{what}")
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
