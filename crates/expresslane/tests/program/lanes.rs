//! `expresslane lanes` as a process, on a card of a network namespace of its own: what it shows, does, and puts back.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::machine::{Machine, PROGRAM, Running, affinity, run, told, wait};

/// Facts of machines that are elsewhere.
const MACHINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/machines");

fn machine(name: &str) -> String {
    Path::new(MACHINES).join(format!("{name}.json")).to_str().unwrap().to_owned()
}

/// Anything that lives for a while.
fn sleeper() -> Running {
    Running(Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap())
}

/// Knobs of the card and of a process.
fn wish(pid: u32) -> String {
    format!(
        "[[nic]]\nname = \"vs\"\n[[lane]]\nname = \"redis\"\nports = 6379\ncores = \"0\"\nprocess = {{ pid = {pid} }}\n[default]\nrate-max = \"1Gbit\"\n"
    )
}

#[test]
fn an_example_is_planned_for_a_machine_that_is_elsewhere() {
    let run = |words: &[&str]| Command::new(PROGRAM).arg("lanes").args(words).output().unwrap();
    let directory = std::env::temp_dir().join(format!("xll{}-example", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    for (example, facts) in [("redis", "e810-ice"), ("aerospike", "e810-ice"), ("memcached", "connectx-mlx5")]
    {
        let file = directory.join(format!("{example}.toml"));
        fs::write(&file, run(&["example", example]).stdout).unwrap();
        let output = run(&["plan", file.to_str().unwrap(), "--facts", &machine(facts)]);
        assert!(output.status.success(), "{example}: {}", told(&output));
        let text = told(&output);
        assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains("$ ")), "{text}");
        let json = run(&["plan", file.to_str().unwrap(), "--facts", &machine(facts), "--json"]);
        let plan: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(plan["steps"].as_array().unwrap().len() > 5, "{plan}");
    }
    fs::remove_dir_all(&directory).unwrap();
}

/// For a monitor what it can't ask is unknown, and not critical.
#[test]
fn a_wrong_flag_of_status_is_unknown() {
    for (words, code) in [(["status", "--foo"], 3), (["status", "--sample=abc"], 3), (["plan", "--foo"], 2)] {
        let output = Command::new(PROGRAM).arg("lanes").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let directory = std::env::temp_dir().join(format!("xll{}-wrong", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("lanes.toml");
    let path = file.to_str().unwrap();
    let check = |text: &str, want: &str| {
        fs::write(&file, text).unwrap();
        let output = Command::new(PROGRAM)
            .args(["lanes", "plan", path, "--facts", &machine("e810-ice")])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(told(&output).contains(want), "{text}: {}", told(&output));
    };
    check("[[lane]]\nname = \"a\"\nprots = 1\n", "did you mean `ports`?");
    check("[[nic]]\nname = \"nowhere\"\n[[lane]]\nname = \"a\"\nports = 1\n", "nowhere");
    check("", "no [[lane]]");
    fs::remove_dir_all(&directory).unwrap();
    let output = Command::new(PROGRAM).args(["lanes", "plan", path]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("lanes example redis"), "{}", told(&output));
}

/// Who asks whether there is something to put back makes nothing, and needs no right to.
#[test]
fn nothing_in_force_is_said_without_a_trace() {
    let nowhere = std::env::temp_dir().join(format!("expresslane-nowhere-{}", std::process::id()));
    for (verb, code, want) in [("revert", 0, "nothing to put back"), ("confirm", 1, "nothing to confirm")] {
        let output =
            Command::new(PROGRAM).args(["lanes", verb, "--state-dir"]).arg(&nowhere).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{verb}");
        assert!(told(&output).contains(want), "{verb}: {}", told(&output));
        assert!(!nowhere.exists(), "{verb}");
    }
}

#[test]
fn what_was_applied_is_in_force_and_reverted_leaves_nothing_behind() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let pid = process.0.id();
    let (before, cpus) = (host.facts(), affinity(pid));
    let file = host.file("lanes.toml", &wish(pid));
    let file = file.to_str().unwrap();
    host.ends(&["apply", file], 0);
    assert_ne!(host.facts(), before, "something was set");
    let drawn = host.ends(&["facts"], 0);
    assert!(drawn.contains("lane redis: cores 0, no queue of vs is its own"), "{drawn}");
    assert_eq!(affinity(pid), "0");
    assert!(host.ends(&["apply", file], 0).contains("everything is as wished already"));
    let status = host.ends(&["status", "--sample", "50ms"], 0);
    assert!(status.contains("redis") && status.contains("idle"), "{status}");
    host.ends(&["revert"], 0);
    assert_eq!(host.facts(), before);
    assert_eq!(affinity(pid), cpus);
    assert!(host.ends(&["revert"], 0).contains("nothing to put back"));
    assert!(!host.ends(&["facts"], 0).contains("redis"));
    assert!(host.ends(&["facts", file], 0).contains("lane redis: cores 0"));
    let status = host.ends(&["status", "--sample", "50ms"], 3);
    assert!(status.contains("no lanes are in force"), "{status}");
}

#[test]
fn a_card_that_vanishes_and_comes_back_is_followed() {
    let Some(host) = Machine::new() else { return };
    let [server, client] = &host.pair.names;
    let process = sleeper();
    let file = host.file("lanes.toml", &wish(process.0.id()));
    let cpus = affinity(process.0.id());
    host.ends(&["apply", file.to_str().unwrap()], 0);
    let mut status = host.lanes(&["status", "--watch", "1", "--sample", "50ms", "--json"]);
    let mut status = Running(status.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(status.0.stdout.take().unwrap()));
    let mut says = |want: &str| {
        let line = lines.by_ref().take(10).find(|line| line.as_ref().unwrap().contains(want));
        assert!(line.is_some(), "it never says '{want}'");
    };
    let mut guard = Guarding::start(&host);
    says("\"verdict\":\"ok\"");
    run("ip", &format!("-n {server} link del vs"));
    says("no card here has this name");
    let text = host.ends(&["status"], 2);
    assert!(text.contains("not in force [critical]") && text.contains("there is none"), "{text}");
    run("ip", &format!("link add vs netns {server} type veth peer name vc netns {client}"));
    run("ip", &format!("-n {server} link set vs up"));
    run("ip", &format!("-n {client} link set vc up"));
    guard.says("nic/vs/class/e7:1 has nothing: set to 'parent e7: htb rate 1Gbit ceil 1Gbit' again");
    says("\"verdict\":\"ok\"");
    run("kill", &format!("-TERM {}", status.0.id()));
    assert_eq!(status.0.wait().unwrap().code(), Some(0));
    run("ip", &format!("-n {server} link del vs"));
    let text = host.ends(&["revert"], 0);
    assert!(text.contains("nic/vs/qdisc/root is gone, and its setting with it"), "{text}");
    assert_eq!(affinity(process.0.id()), cpus);
}

/// Who wishes what is so already has lanes in force, as others have.
#[test]
fn a_wish_that_is_fulfilled_already_is_in_force_until_it_is_reverted() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let pid = process.0.id();
    run("taskset", &format!("-pc 0 {pid}"));
    let before = host.facts();
    let wish = format!("[[lane]]\nname = \"own\"\ncores = \"0\"\nprocess = {{ pid = {pid} }}\n");
    let file = host.file("lanes.toml", &wish);
    let file = file.to_str().unwrap();
    assert!(host.ends(&["apply", file], 0).contains("everything is as wished already"));
    let status = host.ends(&["status", "--sample", "50ms"], 0);
    assert!(status.contains("lane own:") && status.contains("1 of 1 threads on its cores"), "{status}");
    assert!(host.ends(&["facts"], 0).contains("lane own: cores 0"));
    let mut guard = Guarding::start(&host);
    // A further wish begins where this one is.
    let nice = host.file("nice.toml", &wish.replace("name = \"own\"", "name = \"own\"\nnice = 5"));
    host.ends(&["apply", nice.to_str().unwrap()], 0);
    host.ends(&["status", "--sample", "50ms"], 0);
    host.ends(&["revert"], 0);
    guard.says("the lanes were reverted: there is nothing left to guard");
    assert_eq!((host.facts(), affinity(pid)), (before.clone(), "0".to_owned()));

    host.ends(&["apply", file], 0);
    assert!(host.ends(&["revert"], 0).contains("nothing had to be put back"));
    host.ends(&["status", "--sample", "50ms"], 3);
    // It waits for a confirmation as any other.
    let text = host.ends(&["apply", file, "--confirm", "1s"], 1);
    assert!(text.contains("nobody has confirmed") && text.contains("everything is as it was"), "{text}");
    host.ends(&["status", "--sample", "50ms"], 3);
    assert_eq!(host.facts(), before);
}

/// Each report counts anew, and lanes of one port are told apart by their addresses.
#[test]
fn status_goes_on_until_it_is_told_to_end() {
    let Some(host) = Machine::new() else { return };
    let [server, client] = &host.pair.names;
    run("ip", &format!("-n {server} addr add fd79::3/64 dev vs nodad"));
    run("ip", &format!("-n {client} addr add fd79::2/64 dev vc nodad"));
    let lane = |name: &str, core: u32, address: &str| {
        format!(
            "[[lane]]\nname = \"{name}\"\nports = 6379\ncores = \"{core}\"\naddresses = [\"{address}\"]\n"
        )
    };
    let wish = [
        "[default]\nrate-max = \"1Gbit\"\n[[nic]]\nname = \"vs\"\n",
        &lane("one", 0, "198.18.79.1"),
        &lane("three", 1, "fd79::3"),
    ]
    .concat();
    let before = host.facts();
    host.ends(&["apply", host.file("lanes.toml", &wish).to_str().unwrap()], 0);
    let mut status = host.lanes(&["status", "--watch", "1", "--sample", "300ms", "--json"]);
    let mut status = Running(status.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(status.0.stdout.take().unwrap()));
    let mut states = || {
        let report: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let state = |lane: usize| report["lanes"][lane]["used"]["state"].as_str().unwrap().to_owned();
        [state(0), state(1)]
    };
    let idle = || "idle".to_owned();
    assert_eq!(states(), [idle(), idle()]);
    for (address, want) in [("198.18.79.1", ["traffic", "idle"]), ("fd79::3", ["idle", "traffic"])] {
        let talk = talking(&host, address);
        // A report may have begun before the talk.
        assert!((0..3).any(|_| states() == want), "{address}: {want:?}");
        drop(talk);
        assert!((0..3).any(|_| states() == [idle(), idle()]), "{address} is silent again");
    }
    run("kill", &format!("-TERM {}", status.0.id()));
    assert_eq!(status.0.wait().unwrap().code(), Some(0));
    host.ends(&["revert"], 0);
    assert_eq!(host.facts(), before);
}

/// A client of the other namespace that asks for a connection again and again; nobody listens, and it arrives all the same.
fn talking(host: &Machine, address: &str) -> Running {
    let line = format!("while :; do : > /dev/tcp/{address}/6379; done");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &host.pair.names[1], "bash", "-c", &line]);
    Running(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn what_nobody_confirms_goes_back() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let before = host.facts();
    let file = host.file("lanes.toml", &wish(process.0.id()));
    let text = host.ends(&["apply", file.to_str().unwrap(), "--confirm", "1s"], 1);
    assert!(text.contains("nobody has confirmed") && text.contains("everything is as it was"), "{text}");
    assert_eq!(host.facts(), before);
    // Who is asked to end does not wait for the deadline.
    let mut apply = host.lanes(&["apply", file.to_str().unwrap(), "--confirm", "1h"]);
    let mut child = apply.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("lanes confirm")), "it asks for a confirmation");
    run("kill", &format!("-TERM {}", child.id()));
    let mut child = Running(child);
    wait(|| child.0.try_wait().unwrap().is_some(), "apply to end");
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    assert_eq!(host.facts(), before);
}

#[test]
fn who_goes_back_waits_for_who_holds_the_journal() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let before = host.facts();
    let file = host.file("lanes.toml", &wish(process.0.id()));
    let mut apply = host.lanes(&["apply", file.to_str().unwrap(), "--confirm", "1s"]);
    let mut apply = Running(apply.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(apply.0.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("lanes confirm")), "it asks for a confirmation");
    let lock = fs::File::open(host.directory.join("state/lock")).unwrap();
    lock.lock().unwrap();
    let overdue = || {
        let output = host.lanes(&["status", "--sample", "500ms"]).output().unwrap();
        told(&output).contains("should have been confirmed")
    };
    wait(overdue, "the deadline to pass");
    assert!(apply.0.try_wait().unwrap().is_none(), "nobody else would go back");
    drop(lock);
    assert!(lines.any(|line| line.unwrap().contains("settings are as they were")), "it goes back");
    assert_eq!(apply.0.wait().unwrap().code(), Some(1));
    assert_eq!(host.facts(), before);
}

#[test]
fn facts_of_a_file_plan_all_of_it_elsewhere() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let text = format!("[host.sysctls]\n\"kernel.pid_max\" = \"99999\"\n{}", wish(process.0.id()));
    let file = host.file("lanes.toml", &text);
    let file = file.to_str().unwrap();
    let steps = |facts: &[&str]| {
        let plan = host.ends(&[&["plan", file, "--json"], facts].concat(), 0);
        serde_json::from_str::<serde_json::Value>(&plan).unwrap()["steps"].clone()
    };
    let here = steps(&[]);
    let saved = host.file("facts.json", &host.ends(&["facts", file, "--json"], 0));
    assert_eq!(steps(&["--facts", saved.to_str().unwrap()]), here);
    let without = host.file("without.json", &host.ends(&["facts", "--json"], 0));
    assert_ne!(
        steps(&["--facts", without.to_str().unwrap()]),
        here,
        "the file has more than every machine is asked"
    );
}

#[test]
fn who_may_not_apply_is_told_what_is_missing() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let before = host.facts();
    let file = host.file("lanes.toml", &wish(process.0.id()));
    let file = file.to_str().unwrap();
    let without_rights = |words: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host.name(), "setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
        command.args([PROGRAM, "lanes"]).args(words);
        command.env("EXPRESSLANE_STATE_DIR", host.directory.join("state")).output().unwrap()
    };
    let output = without_rights(&["apply", file]);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("net_admin (nic/vs/") && text.contains("`lanes plan`"), "{text}");
    assert_eq!(host.facts(), before);
    assert!(!host.directory.join("state").exists(), "nothing was begun");
    let output = without_rights(&["plan", file]);
    assert!(output.status.success(), "{}", told(&output));
}

/// Whoever may do all that a plan wants, and not keep a journal where root does, is told of a directory of their own.
#[test]
fn own_processes_take_no_rights_but_a_directory() {
    let Some(host) = Machine::new() else { return };
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(nobody).args(words).env_remove("EXPRESSLANE_STATE_DIR");
        command
    };
    if !as_nobody(&[PROGRAM, "--version"]).output().is_ok_and(|it| it.status.success()) {
        return eprintln!("not tried: another user may not run {PROGRAM}");
    }
    let process = Running(as_nobody(&["sleep", "60"]).stdin(Stdio::null()).spawn().unwrap());
    let pid = process.0.id();
    wait(
        || fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n"),
        "sleep to run",
    );
    let before = affinity(pid);
    let text = format!("[[lane]]\nname = \"own\"\ncores = \"0\"\nprocess = {{ pid = {pid} }}\n");
    let (file, own) = (host.file("own.toml", &text), host.directory.join("own"));
    run("chmod", &format!("777 {}", host.directory.display()));
    let lanes = |words: &[&str]| as_nobody(&[&[PROGRAM, "lanes"], words].concat()).output().unwrap();
    let (file, own) = (file.to_str().unwrap(), own.to_str().unwrap());
    let output = lanes(&["apply", file]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("name another directory with --state-dir"), "{}", told(&output));
    assert_eq!(affinity(pid), before);
    let output = lanes(&["apply", file, "--state-dir", own]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(affinity(pid), "0");
    let output = lanes(&["revert", "--state-dir", own]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(affinity(pid), before);
}

#[test]
fn what_may_cut_the_session_is_not_done_without_a_way_back() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let file = host.file("lanes.toml", &wish(process.0.id()));
    let file = file.to_str().unwrap();
    run("ip", &format!("-n {} addr add fe80::79/64 dev vs nodad", host.name()));
    let before = host.facts();
    let over = |words: &[&str], address: &str| {
        let session = format!("198.18.79.2 5000 {address} 22");
        host.lanes(words).env("SSH_CONNECTION", session).output().unwrap()
    };
    let over_the_card = |words: &[&str]| over(words, "198.18.79.1");
    for address in ["198.18.79.1", "fe80::79%vs", "fe80::79"] {
        let output = over(&["apply", file], address);
        assert_eq!(output.status.code(), Some(2), "{address}: {}", told(&output));
        assert!(told(&output).contains("--confirm 60s"), "{}", told(&output));
    }
    assert_eq!(host.facts(), before);
    assert!(!host.directory.join("state").exists(), "nothing was begun");
    let output = over_the_card(&["apply", file, "--no-confirm"]);
    assert!(output.status.success(), "{}", told(&output));
    // What is in force cuts nothing any more.
    let output = over_the_card(&["apply", file]);
    assert!(output.status.success(), "{}", told(&output));
    host.ends(&["revert"], 0);
    assert_eq!(host.facts(), before);
}

#[test]
fn what_is_confirmed_stays_and_a_killed_apply_can_be_reverted() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let before = host.facts();
    let file = host.file("lanes.toml", &wish(process.0.id()));
    let file = file.to_str().unwrap();
    let waiting = |host: &Machine| {
        let mut child =
            host.lanes(&["apply", file, "--confirm", "60s"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        assert!(lines.any(|line| line.unwrap().contains("lanes confirm")), "it asks for a confirmation");
        (child, lines)
    };
    let (mut child, _lines) = waiting(&host);
    host.ends(&["confirm"], 0);
    assert!(child.wait().unwrap().success());
    assert_ne!(host.facts(), before);
    host.ends(&["revert"], 0);
    let (mut child, _lines) = waiting(&host);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(host.facts(), before, "nobody was left to go back");
    host.ends(&["revert"], 0);
    assert_eq!(host.facts(), before);
}

#[test]
fn what_somebody_else_changed_is_left_and_named() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let pid = process.0.id();
    let file = host.file("lanes.toml", &wish(pid));
    host.ends(&["apply", file.to_str().unwrap()], 0);
    let done = Command::new("taskset").args(["-pc", "1", &pid.to_string()]).output().unwrap();
    if !done.status.success() {
        eprintln!("skipped: this machine has one cpu");
        return;
    }
    let status = host.ends(&["status", "--sample", "50ms"], 2);
    assert!(status.contains("affinity"), "{status}");
    let text = host.ends(&["revert"], 1);
    assert!(text.contains("by someone else") && text.contains("--force"), "{text}");
    assert_eq!(affinity(pid), "1");
    host.ends(&["revert", "--force"], 0);
    assert_ne!(affinity(pid), "1");
}

#[test]
fn a_session_that_is_cut_does_not_keep_what_nobody_confirms() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let before = host.facts();
    let file = host.file("lanes.toml", &full_wish(process.0.id()));
    let apply = host.lanes(&["apply", file.to_str().unwrap(), "--confirm", "1s"]);
    let words: Vec<_> = std::iter::once(apply.get_program()).chain(apply.get_args()).collect();
    let line = words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ");
    // Its terminal is that of script(1), and goes with it: what runs there is sent SIGHUP, and can no longer write.
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
    script.env("EXPRESSLANE_STATE_DIR", host.directory.join("state"));
    script.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut script = match script.spawn() {
        Ok(script) => Running(script),
        Err(problem) => return eprintln!("not tried: it takes script(1): {problem}"),
    };
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(script.0.stdout.take().unwrap()));
    // Notes come before the steps.
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("note: "), "{first}");
    script.0.kill().unwrap();
    let kept = host.directory.join("state/aside-1-reverted.jsonl");
    wait(|| kept.exists(), "whoever applied to go back");
    assert_eq!(host.facts(), before);
    let lines = fs::read_to_string(&kept).unwrap();
    assert!(lines.contains("\"complete\""), "all of it was in force first: {lines}");
}

#[test]
fn when_who_waits_is_killed_others_say_so_and_a_guard_goes_back() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let before = host.facts();
    let file = host.file("lanes.toml", &wish(process.0.id()));
    let file = file.to_str().unwrap();
    let mut child = host.lanes(&["apply", file, "--confirm", "1s"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("lanes confirm")), "it asks for a confirmation");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(host.ends(&["apply", file], 1).contains("not confirmed: run `lanes confirm` or `lanes revert`"));
    let overdue = || {
        let output = host.lanes(&["status", "--sample", "50ms"]).output().unwrap();
        told(&output).contains("should have been confirmed")
    };
    wait(overdue, "status to say that it is overdue");
    assert_ne!(host.facts(), before, "nobody has gone back so far");
    let mut guard = Guarding::start(&host);
    guard.says("nobody has confirmed, and whoever waited for it is gone: going back");
    guard.says("the lanes were reverted: there is nothing left to guard");
    assert_eq!(guard.child.wait().unwrap().code(), Some(0), "{:?}", guard.said);
    assert_eq!(host.facts(), before);
}

/// `lanes guard` at work, and what it says. It ends with this, and by itself when a test waits for a word that never comes.
struct Guarding {
    child: Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    said: Vec<String>,
}

impl Guarding {
    fn start(host: &Machine) -> Guarding {
        let guard = host.lanes(&["guard", "--every", "50ms"]);
        let mut command = Command::new("timeout");
        // In the background it would hand a signal on twice, and a second one ends at once.
        command.args(["--foreground", "60"]).arg(guard.get_program()).args(guard.get_args());
        command.env("EXPRESSLANE_STATE_DIR", host.directory.join("state"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut guarding = Guarding { child, lines, said: Vec::new() };
        guarding.says("guarding the lanes in force");
        guarding
    }

    /// Waits for a line with these words, and returns it.
    fn says(&mut self, words: &str) -> String {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
        panic!("it ended and never said '{words}' but:\n{}", self.said.join("\n"));
    }

    /// SIGTERM ends it, and `timeout` hands that on.
    fn end(&self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).output();
    }
}

impl Drop for Guarding {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

/// A lane with a queue, kernel threads that poll it, a class and a program.
fn full_wish(pid: u32) -> String {
    wish(pid).replace("[[lane]]", "features = { rx-gro = true }\n[[lane]]\nqueues = 1\nthreaded = true")
}

#[test]
fn a_guard_sets_again_what_was_taken_away_and_leaves_what_somebody_fights_for() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let pid = process.0.id();
    let (before, cpus) = (host.facts(), affinity(pid));
    host.ends(&["apply", host.file("lanes.toml", &full_wish(pid)).to_str().unwrap()], 0);
    let applied = host.facts();
    let name = host.name();
    let mut guard = Guarding::start(&host);

    run("tc", &format!("-n {name} qdisc del dev vs root"));
    guard.says("nic/vs/qdisc/root has ");
    guard.says("nic/vs/class/e7:1 has nothing: set to 'parent e7: htb rate 1Gbit ceil 1Gbit' again");
    run("tc", &format!("-n {name} qdisc del dev vs clsact"));
    guard.says("nic/vs/qdisc/clsact has nothing: set to 'clsact' again");
    let line = guard.says("nic/vs/filter/egress/49001 has nothing: set to ");
    let when = line.split(' ').next().unwrap();
    assert!(when.len() == 20 && when.contains('T') && when.ends_with('Z'), "it says when: {line}");
    // New poll threads come with the link, and run anywhere.
    run("ip", &format!("-n {name} link set vs down"));
    run("ip", &format!("-n {name} link set vs up"));
    if cpus != "0" {
        guard.says("nic/vs/queue/3/napi-thread has ");
    }

    // Another card's link is no excuse for what is lost on this one.
    run("ip", &format!("-n {name} link add x0 type veth peer name x1"));
    let fight = || {
        run("ip", &format!("-n {name} link set x0 up"));
        run("ip", &format!("-n {name} link set x0 down"));
        let file = "/sys/class/net/vs/queues/rx-3/rps_cpus";
        let mut shell = Command::new("ip");
        shell.args(["netns", "exec", name, "sh", "-c", &format!("echo 0 > {file}")]);
        assert!(shell.status().unwrap().success());
    };
    let mut mended_count = 0;
    let line = loop {
        fight();
        let line = guard.says("nic/vs/rx/3/rps_cpus has none");
        if line.contains("left so") {
            break line;
        }
        // The kernel tells late of the link that was set up above, and a loss that comes with that is explained.
        mended_count += 1;
        assert!(mended_count < 3 * host::guard::LOSSES_COUNT_MAX, "it never gives up: {:?}", guard.said);
    };
    assert!(mended_count >= host::guard::LOSSES_COUNT_MAX, "{line}");
    assert!(line.contains("was lost 6 times in 10 minutes: left so."), "{line}");
    assert!(line.contains("look for a script") || line.contains("runs and sets such things"), "{line}");
    run("ip", &format!("-n {name} link del x0"));

    guard.end();
    guard.says("the lanes stay in force");
    assert_eq!(guard.child.wait().unwrap().code(), Some(0), "{:?}", guard.said);
    let mut now = host.facts();
    assert_ne!(now, applied, "one is left as somebody wanted it");
    now["nics"][0]["queues"][3]["rps_cpus"] = applied["nics"][0]["queues"][3]["rps_cpus"].clone();
    assert_eq!(without_threads(now), without_threads(applied), "all others are as they were applied");
    host.ends(&["revert"], 0);
    assert_eq!(host.facts(), before);
    assert_eq!(affinity(pid), cpus);
}

/// Threads that poll have other numbers after each link event.
fn without_threads(mut facts: serde_json::Value) -> serde_json::Value {
    for nic in facts["nics"].as_array_mut().unwrap() {
        for queue in nic["queues"].as_array_mut().unwrap() {
            if let Some(thread) = queue.get_mut("napi_thread").and_then(|it| it.as_object_mut()) {
                thread.remove("tid");
            }
        }
    }
    facts
}

#[test]
fn a_guard_stands_in_nobodys_way_and_ends_with_the_lanes() {
    let Some(host) = Machine::new() else { return };
    assert!(host.ends(&["guard"], 1).contains("no lanes are in force: there is nothing to guard"));
    let process = sleeper();
    let before = host.facts();
    let wish = wish(process.0.id());
    host.ends(&["apply", host.file("lanes.toml", &wish).to_str().unwrap()], 0);
    let mut guard = Guarding::start(&host);
    // Another wish is guarded from when it is applied.
    let other = host.file("other.toml", &wish.replace("rate-max = \"1Gbit\"", "rate-max = \"2Gbit\""));
    host.ends(&["apply", other.to_str().unwrap()], 0);
    let name = host.name();
    run("tc", &format!("-n {name} qdisc del dev vs root"));
    guard.says("set to 'parent e7: htb rate 2Gbit ceil 2Gbit' again");
    host.ends(&["revert"], 0);
    guard.says("the lanes were reverted: there is nothing left to guard");
    assert_eq!(guard.child.wait().unwrap().code(), Some(0), "{:?}", guard.said);
    assert_eq!(host.facts(), before);
}

#[test]
fn a_changed_wish_replaces_a_root_and_a_refused_one_names_the_way() {
    let Some(host) = Machine::new() else { return };
    let process = sleeper();
    let before = host.facts();
    let wish = wish(process.0.id());
    host.ends(&["apply", host.file("lanes.toml", &wish).to_str().unwrap()], 0);
    let limited = wish.replace("[default]\nrate-max = \"1Gbit\"\n", "rate-max = \"1Gbit\"\n");
    host.ends(&["apply", host.file("limited.toml", &limited).to_str().unwrap()], 0);
    let status = host.ends(&["status", "--sample", "50ms"], 0);
    assert!(status.contains("idle"), "{status}");
    let impossible =
        host.file("impossible.toml", &wish.replace("cores = \"0\"", "cores = \"0\"\nqueues = 9"));
    let impossible = impossible.to_str().unwrap();
    let text = host.ends(&["apply", impossible], 2);
    assert!(text.contains("run `expresslane lanes revert` and then apply it"), "{text}");
    // What fails half-way leaves the former wish in force, also for those who ask which it is.
    let failing = wish.replace("[[nic]]", "[host]\nsysctls = { \"net.core.nowhere\" = 1 }\n[[nic]]");
    let between = host.facts();
    let text = host.ends(&["apply", host.file("failing.toml", &failing).to_str().unwrap()], 1);
    assert!(text.contains("no sysctl net.core.nowhere") && text.contains("lanes revert"), "{text}");
    assert_eq!(host.facts(), between);
    let status = host.ends(&["status", "--sample", "50ms"], 0);
    assert!(status.contains("idle"), "{status}");
    let unreadable = host.file("unreadable.toml", "[[lane]]\nprots = 1\n");
    let text = host.ends(&["apply", unreadable.to_str().unwrap()], 2);
    assert!(!text.contains("lanes revert"), "nothing in force is in the way of that: {text}");
    host.ends(&["revert"], 0);
    assert_eq!(host.facts(), before);
    assert!(!host.ends(&["apply", impossible], 2).contains("lanes revert"));
}
