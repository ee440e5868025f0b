//! The recipes of docs/lanes.md, read from there: each file has a plan, and where the server is installed it is started, asked,
//! judged and reverted as is printed, on a card of a network namespace.
//!
//! Cores are this machine's: those of the file count round and round over the cpus that there are.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use host::kernel::live::Live;
use host::knob::{Direction, NicKnob};
use host::{Cpus, Kernel, Knob, Setting};

use crate::machine::{Machine, PROGRAM, Running, told, wait};
use crate::namespaces::{Pair, within};

const DOCS: &str = include_str!("../../../../docs/lanes.md");
/// The card and the address of the recipes, and the other end.
const NIC: &str = "ens1";
const PEER: &str = "peer";
const NETWORK: &str = "10.0.0";
const ADDRESS: &str = "10.0.0.1";
/// Queues of that card: those of a recipe, and some for everything else.
const QUEUE_COUNT: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(10);

/// What a section of the docs has.
struct Recipe {
    file: String,
    /// Words of each start, `expresslane` before them.
    starts: Vec<Vec<String>>,
}

fn recipe(title: &str) -> Recipe {
    let (_, section) = DOCS.split_once(&format!("\n### {title}\n")).expect(title);
    let section = section.split("\n## ").next().unwrap().split("\n### ").next().unwrap();
    let (_, file) = section.split_once("```toml\n").expect("a file");
    let (file, rest) = file.split_once("```").unwrap();
    let commands = rest.lines().filter_map(|line| line.strip_prefix("$ "));
    let words = |line: &str| line.split('#').next().unwrap().split_whitespace().map(str::to_owned).collect();
    let starts: Vec<Vec<String>> = commands.map(words).collect();
    assert!(
        !starts.is_empty() && starts.iter().all(|words| words[..2] == ["expresslane", "run"]),
        "{starts:?}"
    );
    Recipe { file: file.to_owned(), starts }
}

fn online() -> Cpus {
    fs::read_to_string("/sys/devices/system/cpu/online").unwrap().parse().unwrap()
}

/// The n-th cpu of this machine, round and round.
fn here(n: u32) -> u32 {
    let online = online();
    let n = usize::try_from(n).unwrap() % online.count();
    online.iter().nth(n).unwrap()
}

impl Recipe {
    /// With cores that this machine has. A lane without takes as many as it has queues, where there are so many beside the system's.
    fn on_this_machine(mut self) -> Recipe {
        let fold = |list: &str| {
            let cores: Cpus = list.parse().unwrap();
            cores.iter().map(here).collect::<Cpus>().to_string()
        };
        let lines = self.file.lines().map(|line| match line.strip_prefix("cores = ") {
            Some(list) => format!("cores = \"{}\"\n", fold(list.trim_matches('"'))),
            None => format!("{line}\n"),
        });
        self.file = lines.collect();
        if !self.file.contains("cores = ") && online().count() <= usize::try_from(QUEUE_COUNT).unwrap() {
            self.file += &format!("cores = \"{}\"\n", online());
        }
        for words in &mut self.starts {
            if let Some(at) = words.iter().position(|word| word == "--cpus") {
                words[at + 1] = fold(&words[at + 1]);
            }
        }
        self
    }
}

#[test]
fn each_recipe_has_a_plan_and_starts_what_its_lanes_are() {
    let facts = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/machines/e810-ice.json");
    let path = std::env::temp_dir().join(format!("xlr{}.toml", std::process::id()));
    for title in ["Redis", "Aerospike", "memcached"] {
        let recipe = recipe(title);
        fs::write(&path, &recipe.file).unwrap();
        let words = ["lanes", "plan", path.to_str().unwrap(), "--facts", facts, "--json"];
        let output = Command::new(PROGRAM).args(words).output().unwrap();
        assert!(output.status.success(), "{title}: {}", told(&output));
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for words in &recipe.starts {
            let at = words.iter().position(|word| word == "--lane").expect("a lane");
            let lane =
                plan["lanes"].as_array().unwrap().iter().find(|lane| lane["name"] == words[at + 1].as_str());
            assert!(
                lane.is_some_and(|lane| !lane["queues"].as_str().unwrap().is_empty()),
                "{title}: {words:?}"
            );
        }
    }
    fs::remove_file(&path).unwrap();
}

fn write(nic: &str, knob: NicKnob, value: &str) {
    Live::new().write(&Knob::nic(nic, knob), Some(&Setting::new(value))).unwrap();
}

/// A machine with the recipes' card, which has NAPI instances; the other end sorts by port, as a card's filters would.
fn machine() -> Option<Machine> {
    let pair = Pair::with_queues("xlr", [NIC, PEER], NETWORK, QUEUE_COUNT, QUEUE_COUNT)?;
    let feature = |name: &str| NicKnob::Feature(name.to_owned());
    within(&pair.names[0], || write(NIC, feature("rx-gro"), "on"));
    within(&pair.names[1], || {
        for kind in ["tcp", "tcp-ecn", "tcp-mangleid", "tcp6"] {
            write(PEER, feature(&format!("tx-{kind}-segmentation")), "off");
        }
        write(PEER, NicKnob::Clsact, "clsact");
    });
    Machine::of(pair)
}

/// Applies, starts, asks until the lane is judged, and reverts. `ask` says what a connection sends and how the answer begins.
fn follow(title: &str, server: &str, asks: &[(u16, &str, &str)], after: impl FnOnce(&Machine)) {
    if Command::new(server).arg("--version").output().is_err() {
        return eprintln!("not tried: {server} is not installed");
    }
    let Some(host) = machine() else { return };
    let recipe = recipe(title).on_this_machine();
    let before = host.facts();
    let file = host.file("lanes.toml", &recipe.file);
    let file = file.to_str().unwrap();

    let plan: serde_json::Value = serde_json::from_str(&host.ends(&["plan", file, "--json"], 0)).unwrap();
    let lane = &plan["lanes"][0];
    let queues: Cpus = lane["queues"].as_str().unwrap().parse().unwrap();
    let ports: Vec<u16> = serde_json::from_value(lane["ports"].clone()).unwrap();
    within(&host.pair.names[1], || {
        for ((pref, port), queue) in (49001..).zip(&ports).zip(queues.iter()) {
            let text = format!("protocol all bpf queue {queue} tcp dst_port {port}");
            write(PEER, NicKnob::Filter(Direction::Egress, pref), &text);
        }
    });

    let mut apply = host.lanes(&["apply", file, "--confirm", "60s"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(apply.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("lanes confirm")), "it asks for a confirmation");
    host.ends(&["confirm"], 0);
    assert!(apply.wait().unwrap().success());

    let servers: Vec<Running> = recipe.starts.iter().map(|words| start(&host, words)).collect();
    let mut clients: Vec<(Client, &str, &str)> = asks
        .iter()
        .map(|(port, request, answer)| (Client::connect(&host, *port), *request, *answer))
        .collect();
    let status = host.lanes(&["status"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut status = Running(status);
    while status.0.try_wait().unwrap().is_none() {
        for (client, request, answer) in &mut clients {
            client.ask(request, answer);
        }
    }
    let mut said = String::new();
    status.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let lane = lane["name"].as_str().unwrap();
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(&format!("lane {lane}: 100 % on its cores")), "{said}");
    assert_eq!(status.0.wait().unwrap().code(), Some(0), "{said}");

    after(&host);
    drop((clients, servers));
    host.ends(&["revert"], 0);
    assert_eq!(host.facts(), before);
}

/// A server as the docs start it, in the machine's namespace and directory.
fn start(host: &Machine, words: &[String]) -> Running {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host.name(), PROGRAM]).args(&words[1..]).current_dir(&host.directory);
    command.env("EXPRESSLANE_STATE_DIR", host.directory.join("state"));
    Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
}

/// A connection from the other end.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(host: &Machine, port: u16) -> Client {
        let mut stream = None;
        let connect = || within(&host.pair.names[1], || TcpStream::connect((ADDRESS, port)).ok());
        wait(
            || {
                stream = connect();
                stream.is_some()
            },
            &format!("a server at port {port}"),
        );
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    fn line(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, request: &str, answer: &str) {
        let line = self.line(request);
        assert!(line.starts_with(answer), "{request}: {line}");
    }
}

#[test]
fn redis_is_served_as_its_recipe_says() {
    let asks = [(6379, "AUTH SECRET\r\n", "+OK"), (6380, "AUTH SECRET\r\n", "+OK")];
    follow("Redis", "redis-server", &asks, |_| {});
}

#[test]
fn memcached_is_served_as_its_recipe_says() {
    let asks = [(11211, "version\r\n", "VERSION"), (11211, "version\r\n", "VERSION")];
    follow("memcached", "memcached", &asks, |host| {
        let mut client = Client::connect(host, 11211);
        let mut line = client.line("stats\r\n");
        let mut seen = 0;
        while line != "END\r\n" {
            if let Some((name @ ("round_robin_fallback" | "unexpected_napi_ids"), count)) =
                line.trim_end().strip_prefix("STAT ").and_then(|stat| stat.split_once(' '))
            {
                assert_eq!(count, "0", "{name}");
                seen += 1;
            }
            line.clear();
            client.0.read_line(&mut line).unwrap();
        }
        assert_eq!(seen, 2, "memcached tells which of its threads a connection has");
    });
}
