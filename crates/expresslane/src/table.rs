//! The table that start-up prints: what is served where, with which limits, and what could not be had. No line is wider
//! than a terminal that nobody has widened, and many lanes take few lines.

use std::fmt::Write as _;
use std::net::SocketAddr;

use lane::{Dialect, Door, Namespace, Port};

use crate::doors::{Entrance, Row};
use crate::machine::Facts;
use crate::plan::Plan;
use crate::settings::{BindAddress, Policy, ServeSettings, Size};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Columns before a row's text.
const INDENT: usize = 14;
/// Of more lanes than these, neighbours share a line.
const LANES_SHOWN_MAX: usize = 8;

/// What came of the plan.
#[derive(Debug)]
pub(crate) struct Started {
    /// The addresses that are listened on.
    pub(crate) bind: Vec<BindAddress>,
    /// Bytes of addresses reserved for each lane.
    pub(crate) region_size: usize,
    /// How connections find their lane, where that is not by load.
    pub(crate) pinning: Option<String>,
    /// What turned out not to be had, each with what to do.
    pub(crate) notes: Vec<String>,
}

/// The table, one line a row, without a trailing line end. `node_of` is the memory node of a cpu.
pub(crate) fn table(
    settings: &ServeSettings,
    facts: &Facts,
    plan: &Plan,
    started: &Started,
    node_of: &dyn Fn(usize) -> Option<u16>,
) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    let places = |entrance: &Entrance| {
        let place = |bind: &BindAddress| SocketAddr::new(bind.ip, entrance.ports.first).to_string();
        started.bind.iter().map(place).collect::<Vec<_>>()
    };
    let shared = plan.entrances.iter().filter(|entrance| entrance.door == Door::SHARED).flat_map(places);
    let unix = settings.unixsocket.iter().map(|path| path.display().to_string());
    rows.push(match &shared.chain(unix).collect::<Vec<_>>()[..] {
        [] => ("shared", "none".to_owned()),
        places => ("shared", format!("{} (any Redis client, all lanes)", places.join(" "))),
    });
    for entrance in &plan.entrances {
        match entrance.door.dialect {
            // Above, and with the lanes.
            Dialect::Redis => {}
            Dialect::Memcached => {
                let (places, size) = (places(entrance).join(" "), settings.max_item_size);
                let text = format!("{places} (text, meta and binary, all lanes; items up to {size})");
                rows.push(("memcached", text));
            }
            Dialect::Couchbase => {
                let buckets = named("bucket", plan.namespaces.buckets());
                let places = places(entrance).join(" ");
                rows.push(("couchbase", format!("{places}{} ({buckets})", lanes_behind(entrance))));
            }
            Dialect::Management => {
                let places = places(entrance).join(" ");
                rows.push(("", format!("{places}{} (its map by HTTP)", lanes_behind(entrance))));
            }
            Dialect::Aerospike => {
                let namespaces = named("namespace", plan.namespaces.of_records());
                let (base, size) = (places(entrance).join(" "), settings.max_record_size);
                let behind = lanes_behind(entrance);
                let text = format!("{base}{behind} ({namespaces}; records up to {size})");
                rows.push(("aerospike", text));
            }
        }
    }
    let lane_door = Door { port: Port::Lane, dialect: Dialect::Redis };
    let lane_door = plan.entrances.iter().find(|entrance| entrance.door == lane_door);
    let port_step = lane_door.map_or(1, |entrance| entrance.ports.step);
    let places: Vec<Berth> = (plan.cpus.iter().zip(0_u16..))
        .map(|(cpu, lane)| Berth {
            cpu: *cpu,
            node: cpu.and_then(node_of),
            port: lane_door.map(|entrance| entrance.port(lane)),
            port_step,
        })
        .collect();
    let lanes = lines_of(&places).into_iter().enumerate();
    rows.extend(lanes.map(|(index, text)| (if index == 0 { "lanes" } else { "" }, text)));
    if let Some(scheduler) = settings.sched {
        let meaning = if scheduler.is_real_time() { ": a lane goes before all else on its cpu" } else { "" };
        rows.push(("sched", format!("{scheduler}{meaning}")));
    }
    rows.extend(started.pinning.iter().map(|text| ("auto-pin", text.clone())));
    rows.push(("backend", plan.io_reason.to_owned()));
    let limit = match (settings.maxmemory, settings.maxmemory_policy) {
        (Size(0), _) => match facts.memory_bound {
            None => format!("no limit, the machine has {}", Size(facts.memory_size)),
            Some(bound) => format!("no limit, the control group allows {}", Size(bound)),
        },
        (size, Policy::Noeviction) => format!("at most {size}, then writes are refused"),
        (size, policy) => format!("at most {size}, then keys go by {}", policy.name()),
    };
    rows.push(("memory", format!("{limit}; a lane holds up to {}", size_of(started.region_size))));
    let unread = settings.client_output_buffer_limit.normal.hard_size;
    rows.push((
        "clients",
        format!(
            "at most {}; commands up to {}, unread replies up to {}",
            settings.maxclients,
            settings.client_query_buffer_limit,
            unread.map_or_else(|| "any size".to_owned(), |size| Size(size).to_string())
        ),
    ));
    rows.push(("durability", durability(settings)));
    if !settings.replicaof.is_empty() {
        rows.push(("follows", format!("{}, and clients only read", settings.replicaof.replace(' ', ":"))));
    }
    for note in plan.notes.iter().chain(&started.notes) {
        rows.push(("note", note.clone()));
    }
    let mut text = format!("expresslane {version}, process {}", std::process::id());
    for (name, value) in rows {
        let _ = write!(text, "\n  {name:<width$}{}", wrapped(&value), width = INDENT - 2);
    }
    text
}

/// What becomes of the data when the process ends.
fn durability(settings: &ServeSettings) -> String {
    // Wherever the server was started from.
    let dir = settings.dir.canonicalize().unwrap_or_else(|_| settings.dir.clone());
    let log = settings.appendonly.then(|| {
        let when = if settings.appendfsync == "no" { "when the system likes" } else { "every second" };
        format!("a log in {}, on disk {when}", dir.join(&settings.appenddirname).display())
    });
    let points: Vec<&str> = settings.save.split(' ').collect();
    let points = points.chunks_exact(2).map(|point| format!("{} changes in {} s", point[1], point[0]));
    let points = points.collect::<Vec<_>>().join(", ");
    let path = dir.join(&settings.dbfilename);
    let snapshot = (!points.is_empty())
        .then(|| format!("a snapshot in {} at the end and after {points}", path.display()));
    let kept: Vec<String> = log.into_iter().chain(snapshot).collect();
    match kept.is_empty() {
        true => "memory only: what SAVE does not write ends with this process".to_owned(),
        false => format!("{}; Redis' databases alone", kept.join("; ")),
    }
}

/// What is added to the first port.
fn lanes_behind(entrance: &Entrance) -> String {
    match entrance.ports.step {
        1 => " + lane".to_owned(),
        step => format!(" + {step} \u{d7} lane"),
    }
}

/// Namespaces by their names: `namespace test`, `namespaces test users`.
fn named<'a>(kind: &str, namespaces: impl ExactSizeIterator<Item = (u16, &'a Namespace)>) -> String {
    let plural = if namespaces.len() > 1 { "s" } else { "" };
    let names: Vec<&str> = namespaces.map(|(_, namespace)| namespace.name.as_str()).collect();
    format!("{kind}{plural} {}", names.join(" "))
}

/// What the table says of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Berth {
    cpu: Option<usize>,
    node: Option<u16>,
    port: Option<u16>,
    port_step: u16,
}

impl Berth {
    /// Whether the lane after this one is on the next cpu, of the same node, at the next port.
    fn is_before(&self, next: &Berth) -> bool {
        let after = Berth {
            cpu: self.cpu.map(|cpu| cpu + 1),
            node: self.node,
            port: self.port.map(|port| port.saturating_add(self.port_step)),
            port_step: self.port_step,
        };
        *next == after
    }
}

/// A line for each lane, or for each run of lanes where they are many.
fn lines_of(lanes: &[Berth]) -> Vec<String> {
    let shares = lanes.len() > LANES_SHOWN_MAX;
    let runs = lanes.chunk_by(|lane, next| shares && lane.is_before(next));
    let mut first = 0;
    runs.map(|run| {
        let last = first + run.len() - 1;
        let text = line_of(first, last, &run[0], &run[run.len() - 1]);
        first = last + 1;
        text
    })
    .collect()
}

fn line_of(first: usize, last: usize, from: &Berth, to: &Berth) -> String {
    let plural = if first < last { "s" } else { "" };
    let mut text = format!("{}: ", span(first, last));
    match from.cpu.zip(to.cpu) {
        Some((from, to)) => {
            let _ = write!(text, "cpu{plural} {}", span(from, to));
        }
        None => text += "not pinned",
    }
    if let Some(node) = from.node {
        let _ = write!(text, ", node {node}");
    }
    if let Some((first, last)) = from.port.zip(to.port) {
        let _ = write!(text, ", port{plural} {}", Row { first, last, step: from.port_step });
    }
    text
}

fn span(first: usize, last: usize) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Broken between words where a line would be too wide; a word that is wider than a line stays whole.
fn wrapped(text: &str) -> String {
    let mut broken = String::new();
    let mut column = INDENT;
    for word in text.split(' ') {
        let width = word.chars().count();
        if broken.is_empty() {
            column += width;
        } else if column + 1 + width <= WIDTH {
            broken.push(' ');
            column += 1 + width;
        } else {
            broken.push('\n');
            broken += &" ".repeat(INDENT);
            column = INDENT + width;
        }
        broken += word;
    }
    broken
}

fn size_of(bytes: usize) -> Size {
    Size(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use crate::settings::{AutoPin, Verb, parse};

    /// The table of a machine with so many cpus, half of them on each of two nodes.
    fn table_of(flags: &[&str], cpus_count: usize, notes: &[&str]) -> String {
        let arguments = ["expresslane", "serve"].iter().chain(flags).map(Into::into);
        let Ok(Verb::Serve(settings)) = parse(arguments, |_| Ok(String::new())) else {
            panic!("{flags:?} are settings")
        };
        let facts =
            Facts { cpus: (0..cpus_count).collect(), quota: None, memory_size: 8 << 30, memory_bound: None };
        let plan = plan(&settings, &facts).unwrap();
        let started = Started {
            bind: settings.bind.clone(),
            region_size: 8 << 30,
            pinning: (settings.auto_pin == AutoPin::Adq).then(|| "adq: told".to_owned()),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        };
        let node_of = |cpu: usize| Some(u16::from(cpu >= cpus_count / 2));
        let text = table(&settings, &facts, &plan, &started, &node_of);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        text.split_once('\n').unwrap().1.to_owned()
    }

    #[test]
    fn a_small_server_is_shown_lane_by_lane() {
        let note = "what could not be had is told in a sentence that is wider than a terminal has columns";
        assert_eq!(
            table_of(&[], 2, &[note]),
            "  shared      127.0.0.1:6379 [::1]:6379 (any Redis client, all lanes)
  lanes       0: cpu 0, node 0, port 7000
              1: cpu 1, node 1, port 7001
  backend     epoll (auto: io_uring costs about as much)
  memory      no limit, the machine has 8 GiB; a lane holds up to 8 GiB
  clients     at most 10000; commands up to 1 GiB, unread replies up to 1 GiB
  durability  memory only: what SAVE does not write ends with this process
  note        what could not be had is told in a sentence that is wider than a
              terminal has columns"
        );
    }

    #[test]
    fn auto_pin_stands_with_the_lanes() {
        let text = table_of(&["--auto-pin", "adq"], 2, &[]);
        assert!(text.contains("port 7001\n  auto-pin    adq: told\n  backend"), "{text}");
    }

    #[test]
    fn scheduling_stands_with_the_lanes() {
        let text = table_of(&["--sched", "fifo:1", "--lanes", "1"], 2, &[]);
        assert!(
            text.contains("port 7000\n  sched       fifo:1: a lane goes before all else on its cpu\n"),
            "{text}"
        );
        assert!(table_of(&["--sched", "other"], 2, &[]).contains("\n  sched       other\n"));
    }

    #[test]
    fn many_lanes_share_lines() {
        let text = table_of(&[], 96, &[]);
        assert!(text.contains("\n  lanes       0-45: cpus 2-47, node 0, ports 7000-7045\n"), "{text}");
        assert!(text.contains("\n              46-93: cpus 48-95, node 1, ports 7046-7093\n"), "{text}");
        let text = table_of(&["--lane-ports", "7000+2"], 96, &[]);
        assert!(text.contains(", node 0, ports 7000-7090 in steps of 2\n"), "{text}");
        let text = table_of(&["--lanes", "9", "--lane-ports", "off"], 2, &[]);
        assert!(text.contains("\n  lanes       0-8: not pinned\n"), "{text}");
        let text = table_of(&["--cpus", "1,3,5,7,9,11,13,15,16"], 20, &[]);
        assert!(text.contains("\n              7-8: cpus 15-16, node 1, ports 7007-7008\n"), "{text}");
        assert!(text.contains("\n              4: cpu 9, node 0, port 7004\n"), "{text}");
    }

    #[test]
    fn a_limit_says_what_happens_there() {
        for (flags, want) in [
            (&["--maxmemory", "1gb"][..], "at most 1 GiB, then writes are refused;"),
            (
                &["--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl"],
                "at most 1 GiB, then keys go by volatile-ttl;",
            ),
            (&["--port", "0"], "shared      none\n"),
            (
                &["--memcached"],
                "  memcached   127.0.0.1:11211 [::1]:11211 (text, meta and binary, all lanes;\n",
            ),
            (&["--couchbase"], "  couchbase   127.0.0.1:11210 [::1]:11210 + lane (bucket default)\n"),
            (
                &["--couchbase", "--couchbase-management", "9000"],
                "127.0.0.1:9000 [::1]:9000 + lane (its map by HTTP)\n",
            ),
            (&["--aerospike", "3000+5"], "127.0.0.1:3000 [::1]:3000 + 5 \u{d7} lane (namespace test;"),
            (
                &["--aerospike", "--aerospike-namespace", "bar"],
                "  aerospike   127.0.0.1:3000 [::1]:3000 + lane (namespace bar; records up to 1\n",
            ),
            (&["--client-output-buffer-limit", "normal 0 0 0"], "unread replies up to any size"),
        ] {
            let text = table_of(flags, 2, &[]);
            assert!(text.contains(want), "{text}");
        }
    }
}
