//! `expresslane run` as its user meets it: what the program is, and what it has.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use crate::outcome::is_refusal;

fn run(flags: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    command.arg("run").args(flags).arg("--").args(program).stdin(Stdio::null());
    command
}

/// A field of the program's /proc/self/status.
fn status(flags: &[&str], field: &str) -> String {
    let output = run(flags, &["cat", "/proc/self/status"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    field_of(&String::from_utf8(output.stdout).unwrap(), field)
}

fn field_of(status: &str, field: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {status}")).trim().to_owned()
}

/// The first cpu this test may run on.
fn a_cpu() -> String {
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let allowed: host::Cpus = field_of(&own, "Cpus_allowed_list").parse().unwrap();
    allowed.iter().last().unwrap().to_string()
}

#[track_caller]
fn refused(output: &Output, code: i32, want: &str) {
    is_refusal(output, code, want);
    assert!(output.stdout.is_empty(), "the program did not run: {output:?}");
}

#[test]
fn the_program_runs_on_its_cpus_alone() {
    let cpu = a_cpu();
    assert_eq!(status(&["--cpus", &cpu], "Cpus_allowed_list"), cpu);
    let own = fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(status(&[], "Cpus_allowed_list"), field_of(&own, "Cpus_allowed_list"), "nothing asked");
}

/// A cpu that is not there is an error even beside one that is: the kernel would take the one and say nothing.
#[test]
fn cpus_that_are_not_there_are_refused() {
    let cpu = a_cpu();
    for cpus in ["8191", &format!("{cpu},8191")] {
        let output = run(&["--cpus", cpus], &["echo", "ran"]).output().unwrap();
        refused(&output, 125, "cpu 8191 is not online");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.lines().count(), 1, "a sentence: {text}");
    }
}

#[test]
fn the_exit_code_and_the_output_are_the_programs() {
    let output = run(&[], &["sh", "-c", "echo out; echo err >&2; exit 42"]).output().unwrap();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    let output = run(&[], &["echo", "--cpus", "-x", "--"]).output().unwrap();
    assert_eq!(output.stdout, b"--cpus -x --\n", "what stands behind -- is the program's");
}

/// A lane of a file: its cores, and of those the ones that are asked for.
#[test]
fn a_lane_gives_its_cores() {
    let cpu = a_cpu();
    let folder = std::env::temp_dir().join(format!("expresslane-lane-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let (file, state) = (folder.join("lanes.toml"), folder.join("state"));
    fs::write(&file, format!("[[lane]]\nname = \"mine\"\nports = 7999\ncores = \"{cpu}\"\n")).unwrap();
    let (file, state) = (file.to_str().unwrap(), state.to_str().unwrap());
    let output = |flags: &[&str]| run(flags, &["cat", "/proc/self/status"]).output().unwrap();
    let inside = output(&["--lane", "mine", "--file", file]);
    let narrowed = output(&["--lane", "mine", "--file", file, "--cpus", "8191"]);
    let other = output(&["--lane", "other", "--file", file]);
    let nothing = output(&["--lane", "mine", "--state-dir", state]);
    let missing = output(&["--lane", "mine", "--file", state]);
    fs::remove_dir_all(&folder).unwrap();
    assert!(inside.status.success(), "{inside:?}");
    let status = String::from_utf8(inside.stdout).unwrap();
    assert_eq!(field_of(&status, "Cpus_allowed_list"), cpu);
    refused(&narrowed, 125, "--cpus 8191 are not all of the lane 'mine'");
    refused(&other, 125, "no lane 'other'; there are mine");
    refused(&nothing, 125, "no lanes are in force");
    refused(&missing, 125, "No such file");
}

/// The unit that ships: its flags are understood, and systemd takes the unit, with programs in it that are here.
#[test]
fn the_example_unit_is_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/redis-lane.service");
    let unit = fs::read_to_string(path).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let (flags, program) = line.split_once(" -- ").unwrap();
    let words: Vec<&str> = flags.split(' ').collect();
    assert_eq!(words[..2], ["/usr/bin/expresslane", "run"]);
    assert!(program.starts_with("/usr/bin/redis-server "), "{program}");
    let folder = std::env::temp_dir().join(format!("expresslane-unit-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let wish = folder.join("lanes.toml");
    fs::write(&wish, format!("[[lane]]\nname = \"redis\"\nports = 7999\ncores = \"{}\"\n", a_cpu())).unwrap();
    // The file is another here, and the right to raise a limit may not be.
    let flags: Vec<&str> = words[2..]
        .iter()
        .enumerate()
        .map(|(index, word)| match words[index + 1] {
            "--file" => wish.to_str().unwrap(),
            "--nofile" => "64",
            _ => word,
        })
        .collect();
    let output = run(&flags, &["echo", "ran"]).output().unwrap();
    assert_eq!(output.stdout, b"ran\n", "{output:?}");

    let file = folder.join("redis-lane.service");
    let here = unit
        .replace("/usr/bin/expresslane", env!("CARGO_BIN_EXE_expresslane"))
        .replace("/usr/bin/redis-server", "/bin/true");
    fs::write(&file, here).unwrap();
    let verified = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&file).output();
    fs::remove_dir_all(&folder).unwrap();
    match verified {
        Ok(output) => {
            // Of other units of the machine it may say more.
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("redis-lane"), "{said}");
        }
        Err(error) => println!("not verified: systemd-analyze: {error}"),
    }
}

/// One process: a signal to it is a signal to the program, and its end is the program's.
#[test]
fn signals_reach_the_program() {
    let mut child =
        run(&[], &["sh", "-c", "trap 'exit 7' TERM; echo $$; while :; do read x < /dev/zero; done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    let (mut said, mut byte) = (Vec::new(), [0]);
    while child.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        said.push(byte[0]);
    }
    child.kill().unwrap();
    assert_eq!(String::from_utf8(said).unwrap(), child.id().to_string(), "the same process");
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let output = run(&[], &["sh", "-c", "kill -TERM $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(15), "and not 128 + 15");
}

/// Rust programs ignore SIGPIPE and would hand that on.
#[test]
fn the_program_has_the_signals_it_would_have_had() {
    let plain = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let plain = String::from_utf8(plain.stdout).unwrap();
    for field in ["SigIgn", "SigBlk", "SigCgt"] {
        assert_eq!(status(&[], field), field_of(&plain, field), "{field}");
    }
}

#[test]
fn a_program_that_is_missing_or_none_is_said() {
    refused(&run(&[], &["no-such-program-anywhere"]).output().unwrap(), 127, "'no-such-program-anywhere'");
    refused(&run(&[], &["/"]).output().unwrap(), 126, "can't execute '/'");
    let folder = std::env::temp_dir().join(format!("expresslane-run-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let file = folder.join("plain");
    fs::write(&file, "text").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let output = run(&[], &[file.to_str().unwrap()]).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    refused(&output, 126, "can't execute");
}

#[test]
fn what_is_wrong_is_no_exit_code_of_a_program() {
    let usage = |arguments: &[&str], want: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
        refused(&command.arg("run").args(arguments).output().unwrap(), 125, want);
    };
    usage(&[], "PROGRAM");
    usage(&["echo", "x"], "echo");
    usage(&["--cpus", "two", "--", "echo"], "'two'");
    usage(&["--cpus", "", "--", "echo"], "--cpus is empty");
    usage(&["--sched", "fifo:100", "--", "echo"], "fifo:N");
    usage(&["--nice", "20", "--", "echo"], "--nice");
    usage(&["--mem-node", "1000", "--", "echo"], "no NUMA node 1000");
    usage(&["--cgroup", "no/such/group", "--", "echo"], "'no/such/group'");
    usage(&["--cgroup", "../x", "--", "echo"], "leads out");
}

#[test]
fn limits_and_priority_are_the_programs() {
    let output =
        run(&["--nofile", "77", "--memlock", "64kb"], &["cat", "/proc/self/limits"]).output().unwrap();
    let limits = String::from_utf8(output.stdout).unwrap();
    let soft = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_ascii_whitespace().next().unwrap().to_owned()
    };
    assert_eq!((soft("Max open files"), soft("Max locked memory")), ("77".to_owned(), "65536".to_owned()));
    // Field 19 of stat; the name in brackets holds no blanks here.
    let output = run(&["--nice", "19"], &["cat", "/proc/self/stat"]).output().unwrap();
    let stat = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stat.split(' ').nth(18), Some("19"), "{stat}");
}

/// Real time takes a right; without it the sentence names it.
#[test]
fn a_policy_is_had_or_its_right_is_named() {
    let output = run(&["--sched", "fifo:3"], &["cat", "/proc/self/stat"]).output().unwrap();
    if output.status.success() {
        let stat = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = stat.trim().split(' ').collect();
        assert_eq!((words[39], words[40]), ("3", "1"), "real-time priority and SCHED_FIFO: {stat}");
    } else {
        refused(&output, 125, "CAP_SYS_NICE");
    }
}

#[test]
fn memory_of_a_node_is_bound_or_said_to_be_all_there_is() {
    let nodes = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_else(|_| "0".to_owned());
    let nodes: host::Cpus = nodes.parse().unwrap();
    let node = nodes.first().unwrap().to_string();
    let output = run(&["--mem-node", &node], &["cat", "/proc/self/numa_maps"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if nodes.count() == 1 {
        assert!(said.contains("one NUMA node"), "{said}");
    } else {
        let maps = String::from_utf8_lossy(&output.stdout);
        assert!(maps.contains(&format!("bind:{node}")), "{maps}");
    }
}
