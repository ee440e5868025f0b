//! `expresslane bench reproduce` as its user meets it. The peer is this server itself, or a few lines of shell, or redis-server where
//! it is installed; levels are so short that their figures mean nothing. Links are made where this process may.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use load::result::{Run, Saved};

use crate::outcome::{is_refusal, saved};
use crate::server::{Folder, Served, free_ports};

/// The first of the ports that an experiment's servers may take.
fn port() -> String {
    free_ports(128).to_string()
}

/// However it ends, no link stays behind.
fn reproduce(words: &[&str]) -> Output {
    let (output, pid) = killable(words);
    assert!(!names_of_links().contains(&link_of(pid)), "{output:?}");
    output
}

/// What came of it, and the number that it had.
fn killable(words: &[&str]) -> (Output, u32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    command.args(["bench", "reproduce"]).args(words).args(["--noisy", "-q"]).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    (child.wait_with_output().unwrap(), pid)
}

fn link_of(pid: u32) -> String {
    format!("expresslane-{pid}")
}

/// The network namespaces that have names. A system without them has none.
fn names_of_links() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[track_caller]
fn refused(words: &[&str], code: i32, want: &str) -> String {
    let output = reproduce(words);
    let text = is_refusal(&output, code, want);
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
    let folder = Folder::new(&format!("reproduce-{experiment}-{}", more.join("-").replace('/', "")));
    let (result, port) = (folder.path("result.jsonl"), port());
    let words =
        [experiment, "--port", &port, "--level-duration", "200ms", "--pairs", "1", "--result", &result];
    let peer = if more.contains(&"--peer") { &[][..] } else { &["--peer", "expresslane"] };
    let output = reproduce(&[&words[..], peer, more].concat());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let saved = saved(&result);
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
    // Another look is written when the machine has changed, as by tests that make links meanwhile.
    let looked_at = |run: &&Run| saved.surroundings.iter().any(|one| one.run == Some(run.head.run));
    let arms: BTreeSet<&str> = saved.runs.iter().filter(looked_at).map(|run| run.head.arm.as_str()).collect();
    assert_eq!(arms.len(), 2, "the machine beside each set-up");
    for want in ["spread over load", "739.0 > 229.0", "instances: 94 -> ", "2 of 10 levels", "too few"] {
        assert!(text.contains(want), "{want}: {text}");
    }
    assert!(text.lines().filter(|line| !line.is_empty()).all(|line| line.starts_with("quick ")), "{text}");
}

/// A master and its copy, each with a load of its own, on as many cpus as there are.
#[test]
fn several_instances_are_a_master_and_copies() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: redis-server is not installed");
        return;
    }
    let (text, saved) = tiny("E1", &["--levels", "10", "--instances", "2", "--peer", "redis-server"]);
    let of = |arm: &'static str| saved.runs.iter().filter(move |run| run.head.arm == arm);
    let mut addresses: Vec<&str> = of("a").map(|run| run.head.address.as_str()).collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    assert!(of("a").all(|run| run.head.connection_count == 10));
    let lanes: Vec<u32> = of("b").map(|run| run.head.connection_count).collect();
    assert_eq!(lanes, [20], "two lanes, one load over both");
    assert!(text.contains("instances: 94 -> 2") && text.contains("a load an instance"), "{text}");
}

/// The machine decides whether there are links; each way everything that was planned ran, or is missing with the reason.
#[test]
fn batches_go_over_links_where_they_may_be_made() {
    let folder = Folder::new("reproduce-links");
    let (page, figures) = (folder.path("report.html"), folder.path("figures"));
    let (text, saved) = tiny("E4", &["--html", &page, "--figures", &figures]);
    let mut arms: Vec<&str> = saved.runs.iter().map(|run| run.head.arm.as_str()).collect();
    arms.sort_unstable();
    let is_linked = !text.contains("not here: links of 1 and 10 Gbit/s: ");
    let want: &[&str] = if is_linked {
        &[
            "1 Gbit/s",
            "10 Gbit/s",
            "peer 1 Gbit/s",
            "peer 10 Gbit/s",
            "peer unshaped",
            "resp unshaped",
            "unshaped",
        ]
    } else {
        &["a", "b", "own"]
    };
    // Without links the peer stands beside what was published, in another protocol.
    assert_eq!(text.contains("(2.00 M)"), !is_linked, "{text}");
    arms.retain(|arm| !arm.starts_with("uring"));
    assert_eq!(arms, want, "{text}");
    for run in &saved.runs {
        let head = &run.head;
        let is_in_resp =
            ["a", "b"].contains(&&*head.arm) || ["peer", "resp"].iter().any(|of| head.arm.starts_with(of));
        assert_eq!(head.protocol, if is_in_resp { "resp2" } else { "couchbase" }, "{}", head.arm);
        assert_eq!((head.connection_count, head.pipeline, head.workload.key_count), (8, 50, 100_000));
        assert_eq!(
            (head.workload.operations.to_string().as_str(), head.level.clone()),
            ("get:7,set:3", None)
        );
        let is_far = ["198.18.", "198.19."].iter().any(|network| head.address.starts_with(network));
        assert_eq!(is_far, is_linked, "{}", head.address);
    }
    let figure = std::fs::read_to_string(format!("{figures}/E4.svg")).unwrap();
    assert!(figure.contains("<title id=\"title\">E4: Set-up by set-up"), "{figure}");
    let shown = std::fs::read_to_string(&page).unwrap();
    assert_eq!(shown.contains("<span class=\"stand-in\">(2"), !is_linked);
}

#[test]
fn sizes_are_those_of_the_preset() {
    let (text, saved) = tiny("E3", &["--levels", "128,1024", "--json", "--links", "off"]);
    for arm in ["a", "b", "own"] {
        let of_arm = saved.runs.iter().filter(|run| run.head.arm == arm);
        let mut sizes: Vec<String> = of_arm.map(|run| run.head.workload.value_size.to_string()).collect();
        sizes.sort();
        assert_eq!(sizes, ["1024", "128"], "{arm}");
    }
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
    refused(&["E1", "--links", "some"], 2, "possible values: auto, off");
    refused(&["E1", "--peer", "expresslane", "--result", "/no/such/folder"], 1, "name another file");
    let served = Served::start("reproduce-busy", &["--lanes", "1"]);
    if served.port().parse::<u16>().unwrap() < 65_000 {
        let words = ["E4", "--peer", "expresslane", "--links", "off", "--port", served.port()];
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
    let saved = saved(&result);
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
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("Cut short: of 2 pairs that were planned, 0 ran whole."), "{text}");
}

/// Of two pairs the second is cut in its last run: the first is kept byte for byte, and the second runs anew.
#[test]
fn what_was_cut_is_taken_up() {
    let folder = Folder::new("reproduce-resume");
    let (whole, cut, result) =
        (folder.path("whole.jsonl"), folder.path("cut.jsonl"), folder.path("result.jsonl"));
    let port = port();
    let words = [
        "E1",
        "--quick",
        "--levels",
        "10,20",
        "--port",
        &port,
        "--peer",
        "expresslane",
        "--level-duration",
        "200ms",
    ];
    let run = |more: &[&str]| reproduce(&[&words[..], more].concat());
    let output = run(&["--pairs", "2", "--result", &whole]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = std::fs::read_to_string(&whole).unwrap();
    let end = text.rfind("{\"line\":\"run_end\"").unwrap();
    std::fs::write(&cut, &text[..end]).unwrap();
    let output = run(&["--pairs", "2", "--resume", &cut, "--result", &result]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let (before, after) = (saved(&whole), saved(&result));
    let of = |saved: &Saved, pair: u32| -> Vec<load::result::Run> {
        saved.runs.iter().filter(|run| run.head.pair == Some(pair)).cloned().collect()
    };
    assert!(after.is_complete && of(&before, 0) == of(&after, 0));
    assert_eq!((of(&before, 1).len(), of(&after, 1).len()), (4, 4));
    let numbers: Vec<u32> = of(&after, 1).iter().map(|run| run.head.run).collect();
    assert_eq!(numbers, [8, 9, 10, 11], "no number is given twice");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("Cut short"), "{text}");
    // Not into itself, nor as another experiment, nor what is none.
    let refused = |more: &[&str], code: i32, want: &str| {
        let output = run(more);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && text.contains(want), "{text}");
    };
    refused(&["--pairs", "2", "--resume", &cut, "--result", &cut], 1, "name another file with --result");
    refused(&["--pairs", "3", "--resume", &cut, "--result", &result], 1, "it was planned otherwise");
    refused(&["--resume", &cut], 2, "--result");
    refused(
        &["--resume", &folder.path("none"), "--result", &result],
        1,
        "name a file that --result has written",
    );
    let text = std::fs::read_to_string(&cut).unwrap();
    let other = text.replacen("\"load sha256\",\"value\":\"", "\"load sha256\",\"value\":\"0", 1);
    assert_ne!(text, other);
    std::fs::write(&cut, other).unwrap();
    refused(
        &["--pairs", "2", "--resume", &cut, "--result", &result],
        1,
        "another program or another machine (programs/load sha256)",
    );
    assert!(saved(&result).is_complete, "a refusal leaves the result alone");
}

/// A program that is killed can't take its link away. The next one does.
#[test]
fn what_a_killed_program_left_is_removed() {
    let folder = Folder::new("reproduce-killed");
    let peer = script(&folder, "kill -KILL $PPID");
    let words = |peer: &str| {
        ["E4", "--peer", peer, "--level-duration", "100ms", "--pairs", "1", "--port"].map(str::to_owned)
    };
    let run = |peer: &str| {
        let (words, port) = (words(peer), port());
        let words: Vec<&str> = words.iter().map(String::as_str).chain([port.as_str()]).collect();
        killable(&words)
    };
    let (output, pid) = run(&peer);
    assert_eq!(output.status.code(), None, "{output:?}");
    if !names_of_links().contains(&link_of(pid)) {
        eprintln!("skipped: no links can be made here");
        return;
    }
    run(&script(&folder, "exit 3"));
    assert!(!names_of_links().contains(&link_of(pid)), "the next one tidies up");
}
