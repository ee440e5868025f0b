//! `expresslane bench` as its user meets it: against this server, against made-up ones, against nobody.
//!
//! Loads here end after so many requests, and nothing is asked about time: a machine that runs tests is busy. A busy machine
//! may make a run doubtful (exit code 3), which is as good as 0 here unless the test is about it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use load::result::Saved;

use crate::outcome::{self, saved};
use crate::server::{Folder, Served, Server, Talk, free_port, free_ports, until};

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    command.arg("bench").args(words).env_remove("REDISCLI_AUTH").stdin(Stdio::null());
    command
}

#[track_caller]
fn done(words: &[&str]) -> String {
    outcome::done(&mut bench(words))
}

#[track_caller]
fn refused(words: &[&str], code: i32, want: &str) -> Output {
    outcome::refused(&mut bench(words), code, want)
}

/// Replies, misses, and what is wrong or an error, of the whole run.
fn counts(saved: &Saved) -> (u64, u64, u64) {
    let seconds = saved.runs.iter().flat_map(|run| &run.seconds);
    let operations = seconds.flat_map(|second| &second.second.operations);
    operations.fold((0, 0, 0), |sum, operation| {
        let faults = operation.errors + operation.wrong;
        (sum.0 + operation.count(), sum.1 + operation.misses, sum.2 + faults)
    })
}

/// How a thread of a process is scheduled, by its name (`sched(7)`).
fn policy(process: u32, thread: &str) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    stats
        .filter_map(|stat| {
            let (name, rest) = stat.split_once(" (")?.1.rsplit_once(") ")?;
            // Field 41 of proc_pid_stat(5), of which the third is the first here.
            (name == thread).then(|| rest.split(' ').nth(38).unwrap().parse().unwrap())
        })
        .next()
}

/// What a load at a rate has seen is put together while nobody else wants the core: it is mostly the server's.
#[test]
fn whoever_collects_the_seconds_of_a_rate_stands_aside() {
    let served = Served::start("bench-aside", &["--lanes", "1"]);
    let folder = Folder::new("bench-aside-result");
    let address = format!(":{}", served.port());
    for (pace, want) in [("--rate", libc::SCHED_IDLE), ("--connections", libc::SCHED_OTHER)] {
        let result = folder.path(pace);
        let words = ["run", &address, pace, "1", "--duration", "1h", "-q", "--result", &result];
        let mut child = bench(&words).spawn().unwrap();
        until("a second", || std::fs::read_to_string(&result).is_ok_and(|text| text.contains("\"second\"")));
        let policies = ["collects", "load 0"].map(|thread| policy(child.id(), thread));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(policies, [Some(want), Some(libc::SCHED_OTHER)], "{pace}");
    }
}

#[test]
fn a_load_asks_as_often_as_it_was_told_and_sees_what_it_set() {
    let served = Served::start("bench-load", &["--lanes", "2"]);
    let folder = Folder::new("bench-load-result");
    let (address, result) = (format!(":{}", served.port()), folder.path("result.jsonl"));
    for more in [
        &["--pipeline", "16"][..],
        &["--rate", "20000"],
        &["--rate", "20000", "--arrivals", "even", "--wait", "spin"],
        &["--protocol", "resp3", "--threads", "3", "--connections", "7"],
    ] {
        let words = [
            "run",
            &address,
            "--preload",
            "--verify",
            "--operations",
            "get:3,set:1,mget5:1",
            "--keys",
            "500",
        ];
        let rest =
            ["--value-size", "5-300", "--requests", "3001", "--duration", "1h", "--result", &result, "-q"];
        let text = done(&[&words[..], &rest, more].concat());
        assert!(text.contains("replies, "), "{text}");
        let saved = saved(&result);
        assert!(saved.is_complete);
        assert_eq!(counts(&saved), (3001, 0, 0), "{more:?}");
        let end = saved.runs[0].end.as_ref().unwrap();
        assert_eq!((end.answered, end.unanswered, &end.failure), (3001, 0, &None));
        assert!(end.server_cpu_ns.is_some(), "the server's process is on this machine");
    }
}

/// The same for a program that reads it, on the spot and from the file, and as files for other programs.
#[test]
fn a_result_is_told_again() {
    let served = Served::start("bench-again", &["--lanes", "1"]);
    let folder = Folder::new("bench-again-files");
    let (address, result) = (format!(":{}", served.port()), folder.path("result.jsonl"));
    let paths = ["html", "hgrm", "csv", "runs.csv"].map(|name| folder.path(name));
    let [html, hgrm, csv, runs_csv] = &paths;
    let files = ["--html", html, "--hgrm", hgrm, "--csv", csv, "--runs-csv", runs_csv];
    let figures = folder.path("figures");
    let files = [&files[..], &["--figures", &figures]].concat();
    let words = [
        "run",
        &address,
        "--requests",
        "2000",
        "-q",
        "--json",
        "--operations",
        "get,set",
        "--result",
        &result,
    ];
    let text = done(&[&words[..], &files].concat());
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(
        object["runs"][0]["whole"]["answered"] == 2000
            && object["runs"][0]["thread_use"][0].is_f64()
            && object["runs"][0]["metrics"]["p50_ns"].is_f64(),
        "{text}"
    );
    let written = paths.each_ref().map(|path| std::fs::read_to_string(path).unwrap());
    assert!(written[0].starts_with("<!DOCTYPE html>") && written[1].contains("Percentile"));
    let curve = || std::fs::read_to_string(format!("{figures}/percentiles.svg")).unwrap();
    let drawn = curve();
    assert!(
        drawn.starts_with("<svg xmlns=") && drawn.contains(">expresslane bench run, version "),
        "{drawn}"
    );
    let again = done(&[&["report", &result, "--json"][..], &files].concat());
    assert_eq!(curve(), drawn);
    assert_eq!(again, text, "the file tells what the run told");
    assert_eq!(paths.each_ref().map(|path| std::fs::read_to_string(path).unwrap()), written);
    // Told up to where it was cut.
    let whole = std::fs::read(&result).unwrap();
    std::fs::write(&result, &whole[..whole.len() / 2]).unwrap();
    assert!(done(&["report", &result]).contains("cut"));
    std::fs::write(&result, "hello\n").unwrap();
    refused(&["report", &result], 1, "it is no result: its first line is none that --result writes");
    refused(&["report", &folder.path("nothing")], 1, "name a file that --result has written");
}

/// Of a ramp of a second at 1,000 a second come half: whatever the machine does, what is due is asked for.
#[test]
fn a_rate_grows_in_its_ramp() {
    let served = Served::start("bench-ramp", &["--lanes", "1"]);
    let address = format!(":{}", served.port());
    let words = [
        "run",
        &address,
        "--rate",
        "1000",
        "--arrivals",
        "even",
        "--duration",
        "1s",
        "-q",
        "--noisy",
        "--json",
    ];
    for (ramp, want) in [("0", 1000), ("1", 500)] {
        let text = done(&[&words[..], &["--ramp", ramp]].concat());
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        let answered = object["runs"][0]["whole"]["answered"].as_u64().unwrap();
        assert!(answered.abs_diff(want) <= 1, "{answered} of {want}");
    }
}

/// The keys were set with other sizes, and some are gone.
#[test]
fn values_that_are_not_what_was_set_are_seen() {
    let served = Served::start("bench-verify", &["--lanes", "1"]);
    let folder = Folder::new("bench-verify-result");
    let (address, result) = (format!(":{}", served.port()), folder.path("result.jsonl"));
    let words = ["run", &address, "--keys", "100", "--requests", "1000", "-q"];
    done(&[&words[..], &["--preload", "--value-size", "30"]].concat());
    let mut client = served.talk();
    assert_eq!(client.say("DEL key:000000000042"), ":1");
    let output = refused(
        &[
            &words[..],
            &["--verify", "--value-size", "31", "--key-distribution", "sequential", "--result", &result],
        ]
        .concat(),
        3,
        "can't be trusted",
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("990 replies are errors or wrong"),
        "{output:?}"
    );
    assert_eq!(counts(&saved(&result)), (1000, 10, 990));
}

#[test]
fn a_cluster_is_asked_lane_by_lane() {
    let folder = Folder::new("bench-cluster");
    let base = free_ports(2);
    let lanes = base.to_string();
    let flags = ["--port", "0", "--lane-ports", &lanes, "--lanes", "2"];
    let server = Server::start(&folder, &flags);
    let (address, result) = (format!(":{base}"), folder.path("result.jsonl"));
    let words =
        ["run", &address, "--cluster", "--preload", "--verify", "--keys", "1000", "--requests", "5000"];
    done(&[&words[..], &["--result", &result, "-q"]].concat());
    let saved = saved(&result);
    assert_eq!(counts(&saved), (5000, 0, 0));
    let moved: u64 = saved.runs[0].seconds.iter().map(|second| second.second.moved).sum();
    assert_eq!(moved, 0, "each request goes to the lane that owns its key");
    for lane in [base, base + 1] {
        let info = Talk::to(&lane.to_string()).say("DBSIZE");
        let count: u64 = info.strip_prefix(':').unwrap().parse().unwrap();
        assert!((300..700).contains(&count), "both lanes have keys: {count}");
    }
    drop(server);
    refused(&["run", &address, "--cluster"], 1, "nobody listens there");
    let served = Served::start("bench-no-cluster", &["--lanes", "1"]);
    let port = format!(":{}", served.port());
    refused(&["run", &port, "--cluster", "--operations", "mget10"], 2, "--cluster don't go together");
}

#[test]
fn a_version_is_asked_for_in_every_protocol() {
    let ports = free_ports(4);
    let [memcached, couchbase, management, aerospike] = [0, 1, 2, 3].map(|more| (ports + more).to_string());
    let couchbase_flags = ["--couchbase", &couchbase, "--couchbase-management", &management];
    let flags = ["--lanes", "1", "--memcached", &memcached, "--aerospike", &aerospike];
    let served = Served::start("bench-versions", &[&flags[..], &couchbase_flags].concat());
    let folder = Folder::new("bench-versions-result");
    let result = folder.path("result.jsonl");
    for (protocol, port, want) in [
        ("resp3", served.port(), "redis 7.0.15"),
        ("memcached", &memcached, "memcached 1.6.18"),
        ("memcached-binary", &memcached, "memcached 1.6.18"),
        ("couchbase", &couchbase, "couchbase 7.2"),
        ("aerospike", &aerospike, "aerospike 7.0.0.0"),
    ] {
        let address = format!(":{port}");
        let words = ["run", &address, "--protocol", protocol, "--requests", "10", "-q", "--result", &result];
        done(&words);
        let captured = saved(&result).surroundings[0].environment.to_string();
        let version = format!("\"server version\",\"value\":\"{want}");
        assert!(captured.contains(&version), "{protocol}: {captured}");
    }
}

/// A server that answers GETs, and does something when it has answered so many.
fn made_up(count: u64, act: impl Fn(&TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (act, answered) = (Arc::new(act), Arc::new(AtomicU64::new(0)));
    std::thread::Builder::new()
        .spawn(move || {
            for stream in listener.incoming() {
                let (act, answered) = (Arc::clone(&act), Arc::clone(&answered));
                let answer = move || answer(stream.unwrap(), count, &*act, &answered);
                std::thread::Builder::new().spawn(answer).unwrap();
            }
        })
        .unwrap();
    address
}

fn answer(mut stream: TcpStream, count: u64, act: &dyn Fn(&TcpStream), answered: &AtomicU64) {
    let (mut input, mut part) = (Vec::new(), [0; 65_536]);
    loop {
        let Ok(size @ 1..) = stream.read(&mut part) else { return };
        input.extend_from_slice(&part[..size]);
        while let Some(at) = input.windows(4).position(|word| word == b"\r\nke" || word == b"serv") {
            let is_info = &input[at..at + 4] == b"serv";
            input.drain(..at + 4);
            if is_info {
                stream.write_all(b"-ERR unknown\r\n").unwrap();
                continue;
            }
            if stream.write_all(b"$1\r\nx\r\n").is_err() {
                return;
            }
            if answered.fetch_add(1, Ordering::SeqCst) + 1 == count {
                act(&stream);
            }
        }
    }
}

#[test]
fn a_server_that_goes_away_ends_the_run_and_leaves_what_was_seen() {
    let folder = Folder::new("bench-gone");
    let result = folder.path("result.jsonl");
    let address = made_up(500, |stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
    let words = ["run", &address, "--duration", "1h", "--result", &result, "-q"];
    let output = refused(&words, 1, "the server closed a connection");
    assert!(String::from_utf8_lossy(&output.stdout).contains("RED"), "{output:?}");
    let saved = saved(&result);
    let end = saved.runs[0].end.as_ref().unwrap();
    assert!(end.failure.is_some() && end.answered >= 400, "{end:?}");
}

#[test]
fn whoever_stops_a_run_gets_what_there_is() {
    let folder = Folder::new("bench-stopped");
    let result = folder.path("result.jsonl");
    let pid = Arc::new(AtomicU64::new(0));
    let who = Arc::clone(&pid);
    let address = made_up(500, move |_| {
        let pid = i32::try_from(who.load(Ordering::SeqCst)).unwrap();
        // SAFETY: the child is waited for only after this.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    });
    let words = ["run", &address, "--duration", "1h", "--result", &result, "-q"];
    let child = bench(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The run begins after a second in which it looks whether the machine is quiet.
    pid.store(u64::from(child.id()), Ordering::SeqCst);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("stopped by hand"), "{output:?}");
    let saved = saved(&result);
    assert!(saved.is_complete && saved.runs[0].end.as_ref().unwrap().was_stopped);
    // The last replies may be on their way still.
    assert!(counts(&saved).0 >= 400);
}

/// It closes those who say none and go on asking: why is asked once more.
#[test]
fn a_server_that_wants_a_password_says_so() {
    let served = Served::start("bench-password", &["--lanes", "1", "--requirepass", "secret"]);
    let address = format!(":{}", served.port());
    let want = "give the password in REDISCLI_AUTH, or with -a";
    refused(&["run", &address, "--preload", "-n", "100", "-q"], 1, want);
    refused(&["run", &address, "-P", "1000", "--operations", "set", "-q"], 1, want);
    refused(&["run", &address, "--password", "wrong"], 1, "correct REDISCLI_AUTH or -a");
    refused(&["run", &address, "-a", "secret", "--database", "99"], 1, "choose a lower --database");
    refused(&["run", &address, "--protocol", "aerospike"], 1, "say what the server speaks with --protocol");
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let address = format!("127.0.0.1:{}", free_port());
    refused(&["run", &address], 1, "nobody listens there");
    refused(&["run", "nowhere:0"], 2, "is no address");
    refused(&["run", "nowhere.invalid"], 1, "is the path or name right?");
    refused(&["run", &address, "--arrivals", "even"], 2, "--rate");
    // A search has rates, and chooses them.
    refused(&["search", &address, "--arrivals", "even", "--ramp", "1"], 1, "nobody listens there");
    refused(&["run", &address, "--agents", "h2", "--secret-file", "/no/such"], 2, "`bench agent --help`");
    refused(&["run", &address, "--operations", "got"], 2, "'got' is no operation");
    refused(&["run", &address, "--rate", "0"], 2, "above zero");
    refused(&["run", &address, "--duration", "0s"], 2, "a load takes some time");
    refused(&["run", &address, "--preload", "--operations", "get,incr"], 2, "leave one of them out");
    refused(&["run", &address, "--cpus", "8000"], 2, "may not run on cpu 8000");
    refused(&["run", &address, "--result", "/no/such/folder"], 1, "name another file");
    for flag in ["--html", "--csv", "--runs-csv", "--hgrm"] {
        // Before anything is loaded: nobody listens there.
        refused(&["run", &address, flag, "/no/such/folder"], 1, "/no/such/folder: No such file");
        refused(&["search", &address, flag, "/tmp"], 1, "/tmp: Is a directory");
    }
    refused(&["run", &address, "--figures", "/no/such/folder"], 1, "name another folder for the figures");
    refused(&["run", &address, "--figures", "/dev/null"], 1, "name another folder for the figures");
    let folder = Folder::new("bench-words-files");
    let (new, old) = (folder.path("new.html"), folder.path("old.html"));
    std::fs::write(&old, "kept").unwrap();
    let figures = folder.path("figures");
    let words = ["run", &address, "--html", &new, "--csv", &old, "--figures", &figures];
    refused(&words, 1, "nobody listens there");
    let is_there = |path: &str| std::path::Path::new(path).exists();
    assert!(!is_there(&new) && !is_there(&figures), "nothing is left of a try");
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "kept");
    let all = ["run", &address, "--duration", "10s", "--warm-up", "10"];
    refused(&all, 2, "--warm-up 10 leaves nothing of --duration 10s");
    let served = Served::start("bench-words", &["--lanes", "1", "--requirepass", "secret"]);
    let port = format!(":{}", served.port());
    refused(&["run", &port, "-a", "wrong"], 1, "WRONGPASS");
    // It says why, and no table of zeros before it.
    let other =
        refused(&["run", &port, "--protocol", "memcached"], 1, "; say what it speaks with --protocol");
    assert!(other.stdout.is_empty(), "{other:?}");
    let output = refused(&["run", &port, "--requests", "10", "-q"], 3, "can't be trusted");
    assert!(String::from_utf8_lossy(&output.stdout).contains("NOAUTH"), "{output:?}");
    let full = ["run", &port, "-a", "secret", "--requests", "10", "-q", "--result", "/dev/full"];
    refused(&full, 1, "it holds what came before");
    let both = [&full[..], &["--html", "/dev/full"]].concat();
    refused(&both, 1, "it holds what came before; /dev/full: No space left on device");
}

#[test]
fn passwords_are_not_kept() {
    let served = Served::start("bench-secret", &["--lanes", "1", "--requirepass", "tell-nobody"]);
    let folder = Folder::new("bench-secret-result");
    let (address, result) = (format!(":{}", served.port()), folder.path("result.jsonl"));
    for words in [&["-a", "tell-nobody"][..], &["--password", "tell-nobody"], &["--password=tell-nobody"]] {
        done(&[&["run", &address, "--requests", "10", "-q", "--result", &result][..], words].concat());
        let text = std::fs::read_to_string(&result).unwrap();
        assert!(text.contains("--requests") && !text.contains("tell-nobody"), "{words:?}");
    }
}

/// A bound that is always kept, up to the most that is allowed: one that is at least so much. And one that never is.
#[test]
fn a_search_ends() {
    let served = Served::start("bench-search", &["--lanes", "1"]);
    let folder = Folder::new("bench-search-result");
    let (address, result) = (format!(":{}", served.port()), folder.path("result.jsonl"));
    let words = ["search", &address, "--preload", "--keys", "100", "--duration", "100ms", "-q"];
    let rest = ["--from", "3000", "--most", "3000", "--json", "--result", &result];
    let keep = |bound: &'static str| [&words[..], &rest, &["--keep", bound]].concat();
    let output = refused(&keep("p50<1ns"), 3, "not a sure one");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["found"]["rate"], serde_json::Value::Null, "{found}");
    let saved = saved(&result);
    let rates: Vec<f64> = saved.runs.iter().map(|run| run.head.rate.unwrap()).collect();
    assert_eq!(rates[..3], [3000.0, 1500.0, 750.0]);
    assert_eq!((saved.head.kind.as_str(), saved.is_complete), ("search", true));
    refused(&["search", "--keep", "p98<1ms"], 2, "is no bound");
    refused(&["search", "--rate", "5"], 2, "--from says where it begins");
    refused(&["search", "--from", "100", "--most", "99"], 2, "--from 100 is above --most 99");
}

#[test]
fn a_comparison_runs_its_plan() {
    let folder = Folder::new("bench-compare");
    let (plan, result) = (folder.path("plan.toml"), folder.path("result.jsonl"));
    let (port, program) = (free_port(), env!("CARGO_BIN_EXE_expresslane"));
    let setup = |name: &str| {
        format!(
            "[{name}]\nname = \"{name}\"\naddress = \":{port}\"\nstart = [\"{program}\", \"serve\", \"--port\", \"{port}\", \
             \"--lanes\", \"1\", \"--lane-ports\", \"off\"]\nbefore = [\"echo {name} >> {}\"]\n",
            folder.path("order")
        )
    };
    let text = format!(
        "pairs = 2\nfloor-pairs = 1\n[load]\nkeys = 100\npreload = true\nrequests = 500\nduration = \"1h\"\n{}{}",
        setup("a"),
        setup("b")
    );
    std::fs::write(&plan, text).unwrap();
    let output = bench(&["compare", &plan, "--noisy", "--result", &result]).output().unwrap();
    // Two pairs tell nothing, and a busy machine may make all of them doubtful.
    assert!(matches!(output.status.code(), Some(1 | 3)), "{output:?}");
    let saved = saved(&result);
    assert_eq!((saved.head.kind.as_str(), saved.is_complete), ("compare", true));
    assert!(saved.runs.len() >= 6, "{}", saved.runs.len());
    assert!(saved.runs.iter().all(|run| run.end.as_ref().unwrap().answered == 500));
    assert!(saved.surroundings.len() >= 2);
    let order = std::fs::read_to_string(folder.path("order")).unwrap();
    let want: Vec<&str> = saved.runs.iter().map(|run| if run.head.arm == "b" { "b" } else { "a" }).collect();
    assert_eq!(order.split_whitespace().collect::<Vec<_>>(), want, "a server of its own for each run");
    let seeds = |pair: u32| -> Vec<u64> {
        let of = saved.runs.iter().filter(|run| run.head.pair == Some(pair) && run.head.arm.len() == 1);
        of.map(|run| run.head.seed).collect()
    };
    assert_eq!(seeds(0)[0], seeds(0)[1], "both sides of a pair are asked the same");
    assert_ne!(seeds(0)[0], seeds(1)[0]);
}

/// Two servers that run already; all is said on the command line.
#[test]
fn two_addresses_are_compared() {
    let (a, b) = (
        Served::start("bench-address-a", &["--lanes", "1"]),
        Served::start("bench-address-b", &["--lanes", "1"]),
    );
    let folder = Folder::new("bench-addresses");
    let result = folder.path("result.jsonl");
    let addresses = [format!(":{}", a.port()), format!(":{}", b.port())];
    let words =
        ["compare", &addresses[0], &addresses[1], "--noisy", "--preload", "--keys", "100", "--seed", "9"];
    let load =
        ["--requests", "500", "--duration", "1h", "--pairs", "2", "--floor-pairs", "1", "--metric", "p50"];
    let rest = ["--margin-percent", "7", "--claim", "p50 falls by >= 20 %", "--result", &result, "-q"];
    let output = bench(&[&words[..], &load, &rest].concat()).output().unwrap();
    // Two pairs tell nothing, and a busy machine may make all of them doubtful.
    assert!(matches!(output.status.code(), Some(1 | 3)), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("is not started anew for each run"), "{text}");
    let saved = saved(&result);
    assert!(saved.is_complete && saved.runs.len() >= 6, "{}", saved.runs.len());
    for run in &saved.runs {
        let port = run.head.address.rsplit(':').next().unwrap();
        assert_eq!(port, if run.head.arm == "b" { b.port() } else { a.port() }, "{}", run.head.arm);
        assert_eq!(run.head.seed, 9 + u64::from(run.head.pair.unwrap()));
        assert_eq!(run.end.as_ref().unwrap().answered, 500);
    }
    let declared = &saved.head.plan["declared"];
    assert_eq!((declared["metric"].as_str(), declared["margin"].as_f64()), (Some("p50"), Some(0.07)));
    assert_eq!(
        (&declared["servers_kept"][0], &declared["servers_kept"][1]),
        (&declared["name_a"], &declared["name_b"])
    );
    // Both sides' programs are in what was captured.
    let captured = saved.surroundings.iter().map(|one| one.environment.to_string());
    let are_known: Vec<bool> = captured
        .map(|text| {
            ["server sha256", "server version"]
                .iter()
                .all(|it| text.contains(&format!("\"{it}\",\"value\":\"")))
        })
        .collect();
    assert!(are_known.len() >= 4 && are_known.iter().all(|is| *is), "{are_known:?}");
}

#[test]
fn a_comparison_that_cannot_run_says_why() {
    let folder = Folder::new("bench-compare-bad");
    let plan = folder.path("plan.toml");
    let check = |a: &str, code: i32, want: &str| {
        let text =
            format!("pairs = 1\n[load]\nrequests = 10\n[a]\n{a}\n[b]\naddress = \":{}\"\n", free_port());
        std::fs::write(&plan, text).unwrap();
        refused(&["compare", &plan, "--noisy", "-q"], code, want);
    };
    let address = format!("address = \":{}\"\n", free_port());
    check("", 2, "[a] needs the `address`");
    check(&address, 1, "nobody listens there");
    check(&format!("{address}start = [\"no-such-program\"]"), 1, "`no-such-program` can't be started");
    check(&format!("{address}start = [\"sh\", \"-c\", \"echo went wrong; exit 3\"]"), 1, "went wrong");
    // What was done before a server that does not come is undone.
    let undone = folder.path("undone");
    let after = format!("after = [\"touch {undone}; echo nor this >&2; false\"]");
    check(
        &format!("{address}start = [\"false\"]\n{after}"),
        1,
        "`false` ended at once (exit status: 1); `touch",
    );
    assert!(std::path::Path::new(&undone).exists());
    check(
        &format!("{address}start = [\"true\"]\nbefore = [\"echo no >&2; false\"]"),
        1,
        "`echo no >&2; false` failed",
    );
    let served = Served::start("bench-compare-busy", &["--lanes", "1"]);
    check(
        &format!("address = \":{}\"\nstart = [\"true\"]", served.port()),
        1,
        "something listens there already",
    );
    refused(&["compare", &folder.path("nothing.toml")], 2, "name a readable TOML file, or two addresses");
    refused(&["compare", &plan, "--rate", "5"], 2, "not provided");
    refused(&["compare", &plan, "--pairs", "2"], 2, "write it there");
    refused(&["compare", ":1", ":2", "--metric", "p98"], 2, "'p98' is no metric");
    refused(&["compare", ":1", ":2", "--margin-percent", "0"], 2, "margin-percent is");
    refused(&["compare", ":1", ":2", "--claim", "p98 falls by >= 20 %"], 2, "'p98' is no metric");
    refused(&["compare", ":x", ":2"], 2, "is no address");
    refused(&["compare", ":1", ":2", "--pairs", "0"], 2, "--pairs");
}
