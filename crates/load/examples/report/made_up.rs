//! Results of no machine, drawn from a seed: to look at a report, and to test it, without measuring for an hour.

use std::collections::BTreeMap;

use load::record::Second;
use load::result::{Head, Run, RunEnd, RunHead, SCHEMA, Saved, SavedSecond, Surroundings};
use load::search::{Bound, Search, Step};
use load::workload::{Mix, Operation, Sizes, Workload};

/// Requests that are drawn in each second; each stands for as many as the rate needs.
const DRAWN_PER_SECOND: u64 = 1_000;
/// A Saturday evening.
const BEGAN_UNIX_MS: u64 = 1_795_290_380_000;

/// SplitMix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// Any 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between zero and one.
    pub(crate) fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normal value about zero with deviation one, nearly: twelve uniform ones.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }
}

/// How a made-up server answers.
#[derive(Clone, Copy)]
pub(crate) struct Server {
    /// Nanoseconds of a usual request.
    pub(crate) body_ns: f64,
    /// Nanoseconds that an unlucky one, one of fifty, waits besides.
    pub(crate) tail_ns: f64,
    /// How much seconds differ, as a share.
    pub(crate) wobble: f64,
}

/// How a made-up run is asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Counted from 0.
    pub(crate) run: u32,
    /// `a`, `b` or nothing.
    pub(crate) arm: &'static str,
    /// Which pair.
    pub(crate) pair: Option<u32>,
    /// What is swept.
    pub(crate) level: Option<(&'static str, f64)>,
    /// Requests a second; in a closed pace those that come of it.
    pub(crate) rate: f64,
    /// Whether the rate is asked for.
    pub(crate) is_open: bool,
    /// Over all threads.
    pub(crate) connection_count: u32,
    /// Seconds, a cut one at the end not counted.
    pub(crate) seconds: u32,
    /// What is done.
    pub(crate) mix: &'static str,
    /// Bytes of values.
    pub(crate) value_size: usize,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked {
            run: 0,
            arm: "",
            pair: None,
            level: None,
            rate: 40_000.0,
            is_open: true,
            connection_count: 50,
            seconds: 20,
            mix: "get:9,set:1",
            value_size: 100,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up times are small and positive"
)]
fn whole(value: f64) -> u64 {
    value.max(1.0) as u64
}

/// One run of a server.
pub(crate) fn run(asked: &Asked, server: Server, chance: &mut Chance) -> Run {
    let operations: Mix = asked.mix.parse().expect("a mix");
    let head = RunHead {
        run: asked.run,
        experiment: String::new(),
        arm: asked.arm.to_owned(),
        pair: asked.pair,
        level: asked.level.map(|(name, value)| (name.to_owned(), value)),
        address: "127.0.0.1:7000".to_owned(),
        protocol: "resp2".to_owned(),
        connection_count: asked.connection_count,
        pipeline: 1,
        thread_count: 1,
        rate: asked.is_open.then_some(asked.rate),
        arrivals: if asked.is_open { "poisson".to_owned() } else { String::new() },
        stays_awake: false,
        ramp_s: 0,
        warm_up_s: Some(2),
        duration_s: f64::from(asked.seconds),
        seed: 7,
        workload: Workload {
            operations: operations.clone(),
            value_size: Sizes::Fixed(asked.value_size),
            ..Workload::default()
        },
        began_unix_ms: BEGAN_UNIX_MS + u64::from(asked.run) * 30_000,
    };
    let names: Vec<Operation> = operations.0.iter().map(|(operation, _)| *operation).collect();
    let seconds: Vec<SavedSecond> =
        (0..asked.seconds).map(|number| second(number, asked, server, &names, chance)).collect();
    let answered = seconds.iter().map(|second| second.second.count()).sum();
    let end = RunEnd {
        run: asked.run,
        elapsed_ns: u64::from(asked.seconds) * 1_000_000_000,
        last_share: 1.0,
        answered,
        thread_use: vec![(asked.rate / 120_000.0).min(0.99)],
        server_cpu_ns: Some(answered * 9_000),
        ..RunEnd::default()
    };
    Run { head, seconds, end: Some(end) }
}

fn second(
    number: u32,
    asked: &Asked,
    server: Server,
    names: &[Operation],
    chance: &mut Chance,
) -> SavedSecond {
    let mut second = Second::new(names.iter().copied());
    second.number = number;
    let count = whole(asked.rate);
    let mut luck = (server.wobble * chance.normal()).exp();
    // The first seconds are cold; one later second has a noisy neighbour.
    luck *= if number < 2 { 2.5 } else { 1.0 };
    let is_disturbed = number > 4 && chance.share() < server.wobble / 4.0;
    luck *= if is_disturbed { 1.6 } else { 1.0 };
    for drawn in 0..DRAWN_PER_SECOND {
        let each = (count + drawn) / DRAWN_PER_SECOND;
        let mut service = server.body_ns * luck * (0.16 * chance.normal()).exp();
        if chance.share() < 1.0 / 50.0 {
            service += server.tail_ns * luck * chance.exponential();
        }
        let lag = 300.0 * chance.exponential();
        let waited = if asked.is_open { lag } else { 0.0 };
        let at = usize::from(names.len() > 1 && drawn % 10 == 0);
        let operation = &mut second.operations[at];
        operation.service.saturating_record_n(whole(service), each);
        operation.response.saturating_record_n(whole(service + waited), each);
        second.send_lag.saturating_record_n(whole(waited), each);
        let part = &mut second.parts[usize::try_from(drawn / (DRAWN_PER_SECOND / 10)).unwrap_or(0).min(9)];
        part.0 += each;
        part.1 += whole(service + waited) * each;
        second.begun += each;
    }
    second.in_flight_max = u64::from(asked.connection_count);
    let mut counters = BTreeMap::new();
    let busy = if is_disturbed { 4.0 } else { 1.0 };
    counters.insert("cpu_softirq".to_owned(), 0.08 * busy * (0.2 * chance.normal()).exp());
    counters.insert("cpu_steal".to_owned(), 0.002 * busy * chance.share());
    counters.insert("context_switches".to_owned(), 1_900.0 * busy * (0.1 * chance.normal()).exp());
    counters.insert("tcp_retransmits".to_owned(), 0.0);
    counters.insert("cpu_idle".to_owned(), 2.6);
    SavedSecond { run: asked.run, second, counters }
}

fn saved(kind: &str, runs: Vec<Run>, plan: serde_json::Value) -> Saved {
    let head = Head {
        schema: SCHEMA,
        kind: kind.to_owned(),
        command: ["expresslane", "bench", kind, "made up.toml"].map(str::to_owned).to_vec(),
        version: "0.1.0".to_owned(),
        began_unix_ms: BEGAN_UNIX_MS,
        plan,
    };
    Saved { head, surroundings: Vec::new(), runs, is_complete: true }
}

/// One run at a rate.
pub(crate) fn single(seed: u64) -> Saved {
    let server = Server { body_ns: 60e3, tail_ns: 300e3, wobble: 0.08 };
    let run = run(&Asked { seconds: 30, ..Asked::default() }, server, &mut Chance(seed));
    saved("run", vec![run], serde_json::json!({}))
}

/// Pairs of runs at a rate; B's times are `factor` of A's.
pub(crate) fn compare(seed: u64, pairs: u32, factor: f64) -> Saved {
    let mut chance = Chance(seed);
    let mut runs = Vec::new();
    for pair in 0..pairs {
        let order = if chance.share() < 0.5 { ["a", "b"] } else { ["b", "a"] };
        for (index, arm) in (0..).zip(order) {
            let luck = (0.05 * chance.normal()).exp();
            let factor = if arm == "b" { factor } else { 1.0 };
            let wobble = if arm == "b" { 0.03 } else { 0.09 };
            let server = Server { body_ns: 60e3 * factor * luck, tail_ns: 300e3 * factor * luck, wobble };
            let asked =
                Asked { run: pair * 2 + index, arm, pair: Some(pair), seconds: 12, ..Asked::default() };
            runs.push(run(&asked, server, &mut chance));
        }
    }
    let declared = serde_json::json!({
        "name_a": "lanes off", "name_b": "lanes on", "metric": "p99", "margin": 0.05,
        "claims": ["p99 falls by >= 20 %"], "may_differ": ["net.core.busy_*"],
    });
    let mut saved = saved("compare", runs, serde_json::json!({ "declared": declared }));
    for (run, busy_poll) in [(0, "0"), (1, "50")] {
        let arm = &saved.runs.iter().find(|other| other.head.run == run);
        let Some(arm) = arm else { continue };
        let item =
            |name: &str, value: &str| serde_json::json!({"name": name, "value": value, "expected": "equal"});
        let poll = if arm.head.arm == "b" { "50" } else { busy_poll.min("0") };
        let environment = serde_json::json!({"groups": [
            {"name": "kernel", "items": [item("release", "6.18.0"), item("command line", "quiet")]},
            {"name": "sysctl", "items": [item("net.core.busy_poll", poll), item("net.core.somaxconn", "4096")]},
        ]});
        saved.surroundings.push(Surroundings {
            side: "client".to_owned(),
            host: String::new(),
            at: "start".to_owned(),
            run: Some(run),
            environment,
        });
    }
    saved
}

/// A closed pace over 10, 20 … 100 connections, in three pairs: round trips grow with the connections.
pub(crate) fn sweep(seed: u64) -> Saved {
    let mut chance = Chance(seed);
    let mut runs = Vec::new();
    for pair in 0..3 {
        for level in (10..=100).step_by(10) {
            for (arm, capacity) in [("a", 52_000.0), ("b", 81_000.0)] {
                let rate = capacity * (0.02 * chance.normal()).exp();
                let mean_ns = f64::from(level) / rate * 1e9;
                let server = Server { body_ns: mean_ns * 0.91, tail_ns: mean_ns * 3.0, wobble: 0.02 };
                let asked = Asked {
                    run: u32::try_from(runs.len()).unwrap_or(0),
                    arm,
                    pair: Some(pair),
                    level: Some(("connections", f64::from(level))),
                    rate,
                    is_open: false,
                    connection_count: level,
                    seconds: 8,
                    mix: "get",
                    ..Asked::default()
                };
                runs.push(run(&asked, server, &mut chance));
            }
        }
    }
    saved("reproduce", runs, {
        let declared = serde_json::json!({
            "name_a": "one thread", "name_b": "lanes", "metric": "throughput", "margin": 0.05,
        });
        serde_json::json!({ "declared": declared, "is_quick": true })
    })
}

/// A search for the highest rate of a server that has no more than 90,000 requests a second.
pub(crate) fn search(seed: u64) -> Saved {
    let mut chance = Chance(seed);
    let capacity = 90_000.0_f64;
    let bound: Bound = "p99<2ms".parse().expect("a bound");
    let (from, most) = (10e3, 1e6);
    let mut search = Search::new(from, most);
    let mut runs = Vec::new();
    while let Some(rate) = search.next() {
        let load = (rate / capacity).min(0.97);
        let server = Server { body_ns: 40e3 / (1.0 - load), tail_ns: 120e3 / (1.0 - load), wobble: 0.05 };
        let number = u32::try_from(runs.len()).unwrap_or(0);
        // What is asked for beyond its capacity does not come.
        let answered = rate.min(capacity);
        let asked = Asked {
            run: number,
            level: Some(("rate", rate)),
            rate: answered,
            seconds: 8,
            ..Asked::default()
        };
        let mut run = run(&asked, server, &mut chance);
        run.head.rate = Some(rate);
        search.take(Step::of(&run, bound).failed);
        runs.push(run);
    }
    saved("search", runs, serde_json::json!({"bound": bound, "from": from, "most": most}))
}

/// Values from 128 bytes to 16 KiB.
pub(crate) fn sizes(seed: u64) -> Saved {
    let mut chance = Chance(seed);
    let runs = (7..=14).zip(0..).map(|(power, number)| {
        let size = 1_u32 << power;
        let server =
            Server { body_ns: 45e3 + f64::from(size) * 6.0, tail_ns: 200e3 + f64::from(size), wobble: 0.04 };
        let asked = Asked {
            run: number,
            level: Some(("bytes", f64::from(size))),
            rate: 1e9 / (server.body_ns * 1.02 + server.tail_ns / 50.0),
            is_open: false,
            connection_count: 1,
            seconds: 8,
            mix: "get:7,set:3",
            value_size: usize::try_from(size).unwrap_or(0),
            ..Asked::default()
        };
        run(&asked, server, &mut chance)
    });
    let runs = runs.collect();
    saved("reproduce", runs, serde_json::json!({}))
}
