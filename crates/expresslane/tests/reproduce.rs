//! `expresslane bench reproduce` as its user meets it. The peer is this server itself, or a few lines of shell: no Redis is needed,
//! and levels are so short that their figures mean nothing.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod server;

use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use load::result::{Saved, read};
use server::{Folder, Served};

/// Ports of one test's own, below those that the kernel gives to clients: tests run at once, and so do test programs.
fn port() -> String {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let program = u16::try_from(std::process::id() % 16).unwrap();
    let test = COUNT.fetch_add(1, Ordering::Relaxed);
    (8_000 + program * 1_280 + test * 128).to_string()
}

fn reproduce(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    command.args(["bench", "reproduce"]).args(words).args(["--noisy", "-q"]).stdin(Stdio::null());
    command.output().unwrap()
}

#[track_caller]
fn refused(words: &[&str], code: i32, want: &str) -> String {
    let output = reproduce(words);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(want), "{text}");
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(
        text.trim().lines().count(),
        if code == 2 { text.trim().lines().count() } else { 1 },
        "{text}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// An experiment of this server against itself, so small that nothing can be told: the text, and what was kept.
#[track_caller]
fn tiny(experiment: &str, more: &[&str]) -> (String, Saved) {
    let folder = Folder::new(&format!("reproduce-{experiment}"));
    let (result, port) = (folder.path("result.jsonl"), port());
    let words = [experiment, "--peer", "expresslane", "--port", &port, "--level-duration", "200ms"];
    let output = reproduce(&[&words[..], &["--pairs", "1", "--result", &result], more].concat());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let saved = read(BufReader::new(std::fs::File::open(&result).unwrap())).unwrap();
    assert!(saved.is_complete);
    assert_eq!(saved.head.kind, "reproduce");
    for run in &saved.runs {
        let end = run.end.as_ref().unwrap();
        assert!(end.answered > 0 && end.failure.is_none(), "{end:?}");
        assert_eq!((run.head.experiment.as_str(), run.head.pair), (experiment, Some(0)));
        let seconds = run.seconds.iter().flat_map(|second| &second.second.operations);
        let lost: u64 = seconds.map(|operation| operation.misses + operation.errors).sum();
        assert_eq!(lost, 0, "all keys are set before a level, of {:?}", run.head);
    }
    (String::from_utf8(output.stdout).unwrap(), saved)
}

#[test]
fn a_sweep_runs_each_level_of_both_set_ups() {
    let (text, saved) = tiny("E1", &["--levels", "10,20", "--quick"]);
    let mut levels: Vec<(String, u32)> = saved
        .runs
        .iter()
        .map(|run| {
            let (name, level) = run.head.level.clone().unwrap();
            assert_eq!(name, "connections");
            assert!(level > 0.0 && f64::from(run.head.connection_count) % level == 0.0);
            (run.head.arm.clone(), run.head.connection_count)
        })
        .collect();
    levels.sort();
    levels.dedup();
    assert_eq!(levels.len(), 4, "{levels:?}");
    assert_eq!(saved.surroundings.len(), 2, "the machine beside each set-up");
    for want in ["spread over load", "739.0 > 229.0", "instances: 94 -> ", "2 of 10 levels", "too few"] {
        assert!(text.contains(want), "{want}: {text}");
    }
    assert!(text.lines().filter(|line| !line.is_empty()).all(|line| line.starts_with("quick ")), "{text}");
    let evaluations = load::experiments::Evaluation::of_saved(&saved).unwrap();
    let spread = &evaluations[0].rows[0];
    assert!(spread.from.is_some() && spread.to.is_some(), "the file tells what the screen told");
}

#[test]
fn batches_and_sizes_are_those_of_the_preset() {
    let (text, saved) = tiny("E4", &[]);
    assert!(text.contains("RESP stand-in") && text.contains("(2.00 M)"), "{text}");
    assert_eq!(saved.runs.len(), 2);
    for run in &saved.runs {
        let head = &run.head;
        assert_eq!((head.connection_count, head.pipeline, head.workload.key_count), (8, 50, 100_000));
        assert_eq!(
            (head.workload.operations.to_string().as_str(), head.level.clone()),
            ("get:7,set:3", None)
        );
    }
    let (text, saved) = tiny("E3", &["--levels", "128,1024", "--json"]);
    let mut sizes: Vec<String> =
        saved.runs.iter().map(|run| run.head.workload.value_size.to_string()).collect();
    sizes.sort();
    assert_eq!(sizes, ["1024", "1024", "128", "128"]);
    let evaluations: serde_json::Value = serde_json::from_str(&text).unwrap();
    let row = &evaluations[0]["rows"][0];
    assert_eq!(row["name"], "1024 B mean of both");
    assert!(row["from"].as_f64().unwrap() > 0.0, "{row}");
}

#[test]
fn the_ladder_runs_every_set_up_once() {
    let (text, saved) = tiny("E5", &["--price", "1000"]);
    let mut arms: Vec<&str> = saved.runs.iter().map(|run| run.head.arm.as_str()).collect();
    arms.sort_unstable();
    for arm in
        ["start", "+ client routes", "+ server pinned", "+ load pinned", "full", "- load pinned", "peer"]
    {
        assert_eq!(arms.iter().filter(|known| **known == arm).count(), 1, "{arm}: {arms:?}");
    }
    for want in ["per server core", "per dollar", "whole less load pinned", "9. interrupts", "missing"] {
        assert!(text.contains(want), "{want}: {text}");
    }
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    refused(&["E6"], 2, "'E6' is no experiment");
    refused(&["E1", "--price", "0"], 2, "dollars above zero");
    refused(&["E1", "--peer", "no-such-server"], 1, "`no-such-server` is not to be found");
    refused(&["E1", "--peer", "expresslane", "--instances", "256"], 1, "are too few for 256");
    refused(&["E1", "--peer", "expresslane", "--result", "/no/such/folder"], 1, "name another file");
    let served = Served::start("reproduce-busy", &["--lanes", "1"]);
    if served.port().parse::<u16>().unwrap() < 65_000 {
        let words = ["E4", "--peer", "expresslane", "--port", served.port(), "--level-duration", "100ms"];
        refused(&words, 1, "something listens there already");
    }
}

/// A peer of a few lines of shell.
fn script(folder: &Folder, text: &str) -> String {
    let path = folder.path("peer");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_peer_that_ends_is_named_with_its_last_words() {
    let folder = Folder::new("reproduce-ends");
    let peer = script(&folder, "echo it went wrong; exit 3");
    let text =
        refused(&["E4", "--peer", &peer, "--port", &port(), "--level-duration", "100ms"], 1, "it went wrong");
    assert!(text.contains("E4"), "what there is until then is shown: {text}");
}

#[test]
fn a_server_that_dies_under_load_ends_its_experiment() {
    let folder = Folder::new("reproduce-dies");
    let program = env!("CARGO_BIN_EXE_expresslane");
    // The port is the last word of a peer's command line.
    let text = format!(
        "for port; do :; done\n{program} serve --port $port --lane-ports off --lanes 1 &\nsleep 1.5\nkill -9 $!"
    );
    let (peer, result) = (script(&folder, &text), folder.path("result.jsonl"));
    let words = ["E1", "--peer", &peer, "--port", &port(), "--level-duration", "3s", "--levels", "10"];
    let text =
        refused(&[&words[..], &["--pairs", "1", "--result", &result]].concat(), 1, "closed a connection");
    assert!(text.contains("E1"), "{text}");
    let saved = read(BufReader::new(std::fs::File::open(&result).unwrap())).unwrap();
    assert!(saved.is_complete);
    let failed = saved.runs.iter().filter(|run| run.end.as_ref().unwrap().failure.is_some());
    assert!(failed.count() <= 1, "it may have died while its keys were set");
}

#[test]
fn whoever_stops_it_gets_what_there_is() {
    let folder = Folder::new("reproduce-stopped");
    let peer = script(&folder, "kill -INT $PPID\nexec sleep 60");
    let words = ["E4", "--peer", &peer, "--port", &port(), "--level-duration", "100ms", "--pairs", "2"];
    let text = refused(&words, 130, "stopped by hand");
    assert!(text.contains("E4: no repetition"), "{text}");
}
