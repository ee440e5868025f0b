//! Agents as their user meets them: processes on loopback, and, where the machine permits it, in network namespaces as hosts.
//!
//! Nothing is asked about time: a busy machine may make a run doubtful (exit code 3), which is as good as 0 here.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};

use load::result::{Run, Saved};

use crate::outcome::{done, refused, saved};
use crate::server::{Folder, PATIENCE, Served, Server, until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// This program, perhaps on another host.
fn program(host: Option<&str>) -> Command {
    let binary = env!("CARGO_BIN_EXE_expresslane");
    let mut command = match host {
        Some(host) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", host, binary]);
            command
        }
        None => Command::new(binary),
    };
    command.env_remove("REDISCLI_AUTH").env_remove("EXPRESSLANE_AGENT_SECRET").stdin(Stdio::null());
    command
}

/// A secret that only its owner reads.
fn secret_file(folder: &Folder, name: &str, secret: &str) -> String {
    let path = folder.path(name);
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).unwrap();
    file.write_all(secret.as_bytes()).unwrap();
    path
}

/// An agent, ended with the test.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(host: Option<&str>, listen: &str, secret_file: &str) -> Agent {
        let mut command = program(host);
        command.args(["bench", "agent", "--listen", listen, "--secret-file", secret_file]);
        Agent::of(&mut command)
    }

    fn of(command: &mut Command) -> Agent {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(line.contains("listens on"), "{line:?}");
        Agent { child, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replies of the whole run, from its seconds.
fn replies(saved: &Saved) -> u64 {
    saved.runs.iter().flat_map(|run| &run.seconds).map(|second| second.second.count()).sum()
}

/// Two agents on loopback with one secret.
fn two(folder: &Folder) -> (Agent, Agent, String) {
    let secret = secret_file(folder, "secret", SECRET);
    let start = || Agent::start(None, "127.0.0.1:0", &secret);
    (start(), start(), secret)
}

fn run(words: &[&str], agents: &str, secret_file: &str) -> Command {
    let mut command = program(None);
    command.args(["bench", "run"]).args(words).args(["--agents", agents, "--secret-file", secret_file, "-q"]);
    command
}

/// What a kernel counted in a second of a load.
#[track_caller]
fn counted(counters: &BTreeMap<String, f64>) {
    for name in ["cpu_softirq", "cpu_steal", "tcp_retransmits", "context_switches", "process_ran"] {
        assert!(counters.contains_key(name), "{name} of {counters:?}");
    }
    assert!(counters["context_switches"] > 0.0, "{counters:?}");
}

/// Asks as often as it was told, sets every key once, and keeps who did what on which machine.
#[track_caller]
fn check_two_hosts(saved: &Saved, names: [&str; 2], server: &str) {
    assert!(saved.is_complete);
    assert_eq!(replies(saved), 3001);
    let run = &saved.runs[0];
    let end = run.end.as_ref().unwrap();
    assert_eq!((end.answered, end.unanswered, &end.failure), (3001, 0, &None));
    assert_eq!((run.head.thread_count, end.thread_use.len()), (4, 4), "two threads on each of two hosts");
    assert_eq!(end.agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), names);
    let each: Vec<u64> = end.agents.iter().map(|agent| agent.answered).collect();
    assert_eq!(each.iter().sum::<u64>(), 3001);
    // Requests are divided by threads, of which each has two.
    assert!(each.iter().all(|count| (1500..=1502).contains(count)), "{each:?}");
    for agent in &end.agents {
        assert!(agent.clock_before.is_some() && agent.clock_after.is_some(), "{agent:?}");
        assert_eq!((agent.thread_use.len(), &agent.failure), (2, &None));
        assert!(!agent.seconds.is_empty());
        agent.seconds.iter().for_each(|second| counted(&second.counters));
    }
    for (side, host) in [("client", names[0]), ("client", names[1]), ("server", server)] {
        for at in ["start", "end"] {
            let known = saved
                .surroundings
                .iter()
                .filter(|one| (one.side.as_str(), one.host.as_str(), one.at.as_str()) == (side, host, at));
            assert_eq!(known.count(), 1, "{side} {host} at the {at}");
        }
    }
}

const LOAD: [&str; 17] = [
    "--preload",
    "--verify",
    "--operations",
    "get:3,set:1",
    "--keys",
    "500",
    "--value-size",
    "5-300",
    "--requests",
    "3001",
    "--duration",
    "1h",
    "--connections",
    "9",
    "--threads",
    "2",
    "--result",
];

#[test]
fn two_agents_load_as_one_program_would() {
    let served = Served::start("agents-two", &["--lanes", "1"]);
    let folder = Folder::new("agents-two-result");
    let (one, two, secret) = two(&folder);
    let beside = Agent::start(None, "127.0.0.1:0", &secret);
    let (address, result) = (format!(":{}", served.port()), folder.path("result.jsonl"));
    let agents = format!("{},{}", one.address, two.address);
    for pace in [&[][..], &["--rate", "20000"]] {
        let words =
            [&[address.as_str()][..], &LOAD, &[&result, "--server-agent", &beside.address], pace].concat();
        let text = done(&mut run(&words, &agents, &secret));
        assert!(text.contains("0 misses, 0 wrong") && text.contains(&one.address), "{text}");
        assert!(text.contains("apart at the start"), "{text}");
        check_two_hosts(&saved(&result), [&one.address, &two.address], &beside.address);
    }
    assert_eq!(served.talk().say("DBSIZE"), ":500");
    // A search takes steps with the same agents.
    let words =
        ["bench", "search", &address, "--keep", "p50<10s", "--from", "100", "--most", "100", "--duration"];
    let more = ["1s", "--agents", &agents, "--secret-file", &secret, "-q"];
    let output = program(None).args(words).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(matches!(output.status.code(), Some(0 | 3)) && text.contains("p50<10"), "{output:?}");
}

#[test]
fn a_comparison_is_loaded_by_agents() {
    let servers = [1, 2]
        .map(|lanes: u8| Served::start(&format!("agents-compare-{lanes}"), &["--lanes", &lanes.to_string()]));
    let folder = Folder::new("agents-compare-result");
    let (one, two, secret) = two(&folder);
    let result = folder.path("result.jsonl");
    let [a, b] = servers.each_ref().map(|server| format!(":{}", server.port()));
    let mut command = program(None);
    command.args(["bench", "compare", &a, &b, "--noisy", "--preload", "--keys", "100", "--seed", "9", "-q"]);
    command.args([
        "--requests",
        "500",
        "--duration",
        "1h",
        "--pairs",
        "2",
        "--floor-pairs",
        "1",
        "--metric",
        "p50",
    ]);
    command.args(["--agents", &format!("{},{}", one.address, two.address), "--secret-file", &secret]);
    let output = command.args(["--result", &result]).output().unwrap();
    // Two pairs tell nothing, and a busy machine may make all of them doubtful.
    assert!(matches!(output.status.code(), Some(1 | 3)), "{output:?}");
    let saved = saved(&result);
    assert!(saved.is_complete);
    // Two pairs, and one of each side with itself.
    assert_eq!(saved.runs.len(), 8);
    for run in &saved.runs {
        let end = run.end.as_ref().unwrap();
        assert_eq!((end.answered, &end.failure), (500, &None));
        let names: Vec<&str> = end.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, [&one.address, &two.address]);
        assert!(end.agents.iter().all(|agent| agent.answered > 0), "{:?}", end.agents);
    }
    for server in &servers {
        assert_eq!(server.talk().say("DBSIZE"), ":100");
    }
}

#[test]
fn who_does_not_know_the_secret_is_sent_away_and_the_agent_goes_on() {
    let served = Served::start("agents-secret", &["--lanes", "1"]);
    let folder = Folder::new("agents-secret-files");
    let (agent, other, secret) = two(&folder);
    let wrong = secret_file(&folder, "wrong", "0123456789abcdef0123456789abcdeF");
    let address = format!(":{}", served.port());
    let words = [address.as_str(), "--requests", "100"];
    refused(&mut run(&words, &agent.address, &wrong), 1, "its secret is another one");
    let mut without = program(None);
    refused(
        without.args(["bench", "run", &address, "--agents", &agent.address]),
        1,
        "its secret is another one",
    );
    // Strangers, those who say nothing more, and those who announce too much.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 200], b"XLAGENTS\0\0\0\x01", b""] {
        let mut stream = TcpStream::connect(&agent.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        if bytes.len() >= 44 {
            // It says who it is, and hangs up.
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            assert!(heard.len() <= 44, "{heard:?}");
        }
    }
    done(&mut run(&words, &agent.address, &secret));
    // By the environment, too.
    let mut command = program(None);
    command.args(["bench", "run", "-q", "--agents", &other.address]).args(words);
    done(command.env("EXPRESSLANE_AGENT_SECRET", SECRET));
    let mut public = program(None);
    refused(
        public.args(["bench", "agent", "--listen", "0.0.0.0:0"]),
        2,
        "can be reached from other machines",
    );
    let twice = format!("{0},{0}", agent.address);
    refused(&mut run(&words, &twice, &secret), 2, "is named twice");
    let many: Vec<String> = (0..65).map(|host| format!("10.231.99.{host}")).collect();
    refused(&mut run(&words, &many.join(","), &secret), 2, "up to 64 agents");
    let few = [&words[..], &["--connections", "1"]].concat();
    let both = format!("{},{}", agent.address, other.address);
    refused(&mut run(&few, &both, &secret), 1, "each needs one");
    refused(&mut run(&[":1", "--requests", "9"], &both, &secret), 1, "nobody listens there");
}

/// A run that never ends by itself, after its first second.
fn endless(served: &Served, agents: &str, secret: &str, result: &str) -> Child {
    let address = format!(":{}", served.port());
    let words = [&address, "--rate", "200", "--duration", "1h", "--result", result];
    let child = run(&words, agents, secret).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a second of the load", || {
        std::fs::read_to_string(result).is_ok_and(|text| text.contains("\"line\":\"second\""))
    });
    child
}

#[test]
fn a_lost_agent_ends_the_run_and_is_named() {
    let served = Served::start("agents-lost", &["--lanes", "1"]);
    let folder = Folder::new("agents-lost-result");
    let (one, mut two, secret) = two(&folder);
    let result = folder.path("result.jsonl");
    let agents = format!("{},{}", one.address, two.address);
    let child = endless(&served, &agents, &secret, &result);
    let mut busy = run(&[":1"], &one.address, &secret);
    refused(&mut busy, 1, "busy with the coordinator 127.0.0.1:");
    two.child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("agent {} was lost", two.address)), "{text}");
    let saved = saved(&result);
    assert!(saved.is_complete && replies(&saved) > 0);
    let end = saved.runs[0].end.as_ref().unwrap();
    assert_eq!(end.agents.iter().map(|agent| agent.failure.is_some()).collect::<Vec<_>>(), [false, true]);
    // The other one is free again.
    let address = format!(":{}", served.port());
    done(&mut run(&[&address, "--requests", "10"], &one.address, &secret));
}

#[test]
fn agents_stop_with_their_coordinator() {
    let served = Served::start("agents-stop", &["--lanes", "1"]);
    let folder = Folder::new("agents-stop-result");
    let (one, two, secret) = two(&folder);
    let agents = format!("{},{}", one.address, two.address);
    // Asked to stop, it keeps what there is.
    let result = folder.path("result.jsonl");
    let child = endless(&served, &agents, &secret, &result);
    // SAFETY: the child is ours and not yet waited for, so its number names no other process.
    assert_eq!(unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let end = saved(&result).runs[0].end.clone().unwrap();
    assert!(end.was_stopped && end.failure.is_none() && end.agents.len() == 2, "{end:?}");
    // Killed, it can't say so; the agents notice.
    let mut child = endless(&served, &agents, &secret, &folder.path("killed.jsonl"));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut client = served.talk();
    until("the agents' connections are closed", || client.info("connected_clients") == 1);
}

/// Experiments of this server against itself, so short that nothing can be told. What was kept, with each run's agents looked at.
#[track_caller]
fn reproduced(host: Option<&str>, words: &[&str], result: &str) -> Saved {
    let mut command = program(host);
    command.args(["bench", "reproduce"]).args(words).args(["--level-duration", "200ms", "--pairs", "1"]);
    let output = command.args(["--noisy", "-q", "--result", result]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let saved = saved(result);
    assert!(saved.is_complete);
    for run in &saved.runs {
        let end = run.end.as_ref().unwrap();
        assert!(end.answered > 0 && end.failure.is_none(), "{end:?}");
        let threads: usize = end.agents.iter().map(|agent| agent.thread_use.len()).sum();
        assert_eq!(usize::try_from(run.head.thread_count).unwrap(), threads, "{:?}", run.head);
        for agent in &end.agents {
            assert!(agent.answered > 0 && !agent.seconds.is_empty(), "{agent:?}");
            agent.seconds.iter().for_each(|second| counted(&second.counters));
        }
    }
    saved
}

/// Who made the runs of an experiment's set-up.
fn makers<'a>(saved: &'a Saved, experiment: &str, arm: &str) -> Vec<Vec<&'a str>> {
    let of = |run: &&'a Run| run.head.experiment == experiment && run.head.arm == arm;
    let agents = |run: &'a Run| run.end.iter().flat_map(|end| &end.agents).map(|it| it.name.as_str());
    saved.runs.iter().filter(of).map(|run| agents(run).collect()).collect()
}

/// An instance of the peer has a load of its own, and so an agent; the lanes have one load, and so both agents.
#[test]
fn each_instance_of_a_published_experiment_has_an_agent() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: redis-server is not installed");
        return;
    }
    let folder = Folder::new("agents-instances");
    let (one, two, secret) = two(&folder);
    let agents = format!("{},{}", one.address, two.address);
    let words = ["E1", "--port", "7600", "--levels", "10,20", "--bind", "127.0.0.1"];
    let more = ["--agents", &agents, "--secret-file", &secret];
    let saved = reproduced(None, &[&words[..], &more].concat(), &folder.path("result.jsonl"));
    assert_eq!(makers(&saved, "E1", "a"), [[one.address.as_str()], [&two.address]].repeat(2));
    assert_eq!(makers(&saved, "E1", "b"), [[one.address.as_str(), &two.address]].repeat(2));
    let own = saved.runs.iter().flat_map(|run| &run.seconds).map(|second| &second.counters);
    own.for_each(counted);
}

/// Agents, servers and the nodes that these name, all at addresses of IPv6, in the protocols of all experiments.
#[test]
fn everything_is_reached_over_ipv6_too() {
    if let Err(problem) = std::net::TcpListener::bind("[::1]:0") {
        eprintln!("skipped: no IPv6 here: {problem}");
        return;
    }
    let folder = Folder::new("agents-ipv6");
    let secret = secret_file(&folder, "secret", SECRET);
    let [one, two, beside] = [(); 3].map(|()| Agent::start(None, "[::1]:0", &secret));
    let agents = format!("{},{}", one.address, two.address);
    let result = folder.path("result.jsonl");
    let both = [one.address.as_str(), &two.address];
    // Aerospike's protocol and RESP; Couchbase's.
    for experiment in ["E2", "E4"] {
        let words = [experiment, "--peer", "expresslane", "--port", "7620", "--bind", "[::1]"];
        let more = ["--agents", &agents, "--secret-file", &secret];
        let saved = reproduced(None, &[&words[..], &more].concat(), &result);
        assert_eq!(makers(&saved, experiment, "own"), [&both[..]], "{experiment}");
        assert!(saved.runs.iter().all(|run| run.head.address.starts_with("[::1]:")));
    }
    let mut server = program(None);
    server.args(["serve", "--bind", "::1", "--port", "7640", "--lanes", "1", "--lane-ports", "7641"]);
    let server = Server::of(&folder, server.stdout(Stdio::null()).stderr(Stdio::null()));
    let words =
        [&["[::1]:7641", "--cluster", "--server-agent", &beside.address][..], &LOAD, &[&result]].concat();
    done(&mut run(&words, &agents, &secret));
    check_two_hosts(&self::saved(&result), both, &beside.address);
    drop(server);
}

#[test]
fn what_agents_can_not_do_for_a_published_experiment_is_said() {
    let folder = Folder::new("agents-reproduce-refused");
    let secret = secret_file(&folder, "secret", SECRET);
    let check = |words: &[&str], code: i32, want: &str| {
        let mut command = program(None);
        command.args(["bench", "reproduce", "E1", "--peer", "expresslane", "--noisy", "-q"]).args(words);
        refused(command.args(["--secret-file", &secret]), code, want);
    };
    check(&["--agents", "127.0.0.1:1"], 2, "say with --bind ADDRESS");
    check(&["--agents", "127.0.0.1:1", "--bind", "0.0.0.0"], 2, "is every address");
    check(&["--agents", "127.0.0.1:1", "--bind", "127.0.0.1"], 1, "agent 127.0.0.1:1: ");
    check(&["--agents", "127.0.0.1:1", "--bind", "fe80::1%lo"], 2, "each agent has others");
    let nowhere = ["--agents", "fe80::1%nowhere", "--bind", "::1"];
    check(&nowhere, 1, "agent [fe80::1%nowhere]:7411: failed to lookup");
    check(&nowhere, 1, "is its interface one of this machine's?");
    check(&["--agents", "nowhere.invalid", "--bind", "::1"], 1, "is its name right?");
    check(&["--agents", "127.0.0.1:1", "--bind", "127.0.0.1", "--instances", "2"], 2, "or --instances 1");
    check(&["--agents", "127.0.0.1:1", "--server-agent", "127.0.0.1:2"], 2, "--server-agent is for servers");
    check(&["--bind", "127.0.0.1"], 2, "--agents");
    check(&[], 2, "--secret-file is for --agents");
}

/// Network namespaces, each as a host; removed with the test, and with them all that is in them.
struct Hosts(Vec<String>);

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", host]).status();
        }
    }
}

/// A server's host and so many clients' hosts, each with a wire of its own to the server. None: not permitted here.
fn hosts(client_count: usize) -> Result<Hosts, String> {
    let ip = |words: &str| {
        let output =
            Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", text.trim())) }
    };
    let mut hosts = Hosts(Vec::new());
    let id = std::process::id();
    let server = format!("xl{id}s");
    ip(&format!("netns add {server}"))?;
    hosts.0.push(server.clone());
    ip(&format!("-n {server} link set lo up"))?;
    // The server's address, which each client reaches over its own wire.
    ip(&format!("-n {server} addr add 10.231.9.1/32 dev lo"))?;
    for number in 1..=client_count {
        let client = format!("xl{id}c{number}");
        ip(&format!("netns add {client}"))?;
        hosts.0.push(client.clone());
        ip(&format!("link add xl{number} netns {server} type veth peer name xl0 netns {client}"))?;
        ip(&format!("-n {server} addr add 10.231.{number}.1/24 dev xl{number}"))?;
        ip(&format!("-n {server} link set xl{number} up"))?;
        ip(&format!("-n {client} addr add 10.231.{number}.2/24 dev xl0"))?;
        ip(&format!("-n {client} link set lo up"))?;
        ip(&format!("-n {client} link set xl0 up"))?;
        ip(&format!("-n {client} route add default via 10.231.{number}.1"))?;
    }
    Ok(hosts)
}

#[test]
fn hosts_of_their_own_load_together() {
    let hosts = match hosts(2) {
        Ok(hosts) => hosts,
        Err(problem) => {
            eprintln!("skipped: network namespaces are not to be had here: {problem}");
            return;
        }
    };
    let [at_server, first, second] = &hosts.0[..] else { panic!("{:?}", hosts.0) };
    let folder = Folder::new("agents-hosts");
    let secret = secret_file(&folder, "secret", SECRET);
    let flags = [
        "--bind",
        "10.231.9.1",
        "--port",
        "7000",
        "--lanes",
        "1",
        "--lane-ports",
        "off",
        "--protected-mode",
        "no",
    ];
    let mut server = program(Some(at_server.as_str()));
    server.args(["serve"]).args(flags).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server::of(&folder, &mut server);
    let beside = Agent::start(Some(at_server.as_str()), "10.231.9.1:7411", &secret);
    let one = Agent::start(Some(first.as_str()), "10.231.1.2:7411", &secret);
    let two = Agent::start(Some(second.as_str()), "10.231.2.2:7411", &secret);
    let result = folder.path("result.jsonl");
    let mut command = program(Some(at_server.as_str()));
    // Ports are those that agents have unless told otherwise.
    command.args(["bench", "run", "10.231.9.1:7000", "--agents", "10.231.1.2,10.231.2.2", "--server-agent"]);
    command.args(["10.231.9.1", "--secret-file", &secret, "-q"]).args(LOAD).arg(&result);
    done(&mut command);
    check_two_hosts(&saved(&result), [&one.address, &two.address], &beside.address);
    drop(server);
    // The published experiments, whose servers the coordinator starts on its own host.
    let words = ["all", "--peer", "expresslane", "--levels", "10,128", "--bind", "10.231.9.1"];
    let more = ["--agents", "10.231.1.2,10.231.2.2", "--secret-file", &secret];
    let saved = reproduced(Some(at_server.as_str()), &[&words[..], &more].concat(), &result);
    let both = [one.address.as_str(), &two.address];
    for (experiment, arm, want) in [
        ("E1", "b", &both[..]),
        ("E2", "own", &both),
        // One connection is one agent's.
        ("E3", "own", &both[..1]),
        ("E4", "a", &both),
        ("E5", "full", &both),
    ] {
        assert_eq!(makers(&saved, experiment, arm), [want], "{experiment} {arm}");
    }
    assert!(makers(&saved, "E5", "+ load pinned").is_empty(), "the load's cpus are not this host's");
    for host in both {
        let known = saved.surroundings.iter().filter(|one| one.host == host);
        assert_eq!(known.map(|one| one.at.as_str()).collect::<Vec<_>>(), ["start", "end"], "{host}");
    }
}
