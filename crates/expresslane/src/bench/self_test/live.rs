//! The live checks. Where a time is expected the tolerance is far above what a busy machine adds, and the bound that matters
//! most is one that delays can't break: counts, words and exit codes.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use load::analysis::Figures;
use load::analysis::gates::{Colour, gates, worst};
use load::connect::{Endpoint, Login};
use load::engine::Pace;
use load::oracle::server::{Behaviour, Fault, Service};
use load::oracle::simulate::Load;
use load::oracle::{Check, Depth, Time};
use load::record::Second;
use load::result::{Run, read};
use load::workload::{Sizes, Workload};

use super::super::crew::{Order, Outcome, load};
use super::super::settings::Waiting;
use super::made::Made;
use crate::stop::Stop;

const MS: u64 = 1_000_000;
/// By how much a response may be too short, and by how much a loaded machine with two cores may make it longer.
const WITHIN_NS: (f64, f64) = (5e6, 100e6);
/// The same where services of tens of milliseconds leave the machine alone for most of the time. Two requests that overtake each
/// other exchange their services.
const QUEUE_WITHIN_NS: (f64, f64) = (5e6, 30e6);
/// How long one `bench run` may take.
const RUN_PATIENCE: Duration = Duration::from_secs(60);
/// Between looks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes of a value where not said otherwise.
const VALUE_SIZE: usize = 20;

fn order(endpoint: &Endpoint, pace: Pace, duration: Duration) -> Order {
    Order {
        endpoint: endpoint.clone(),
        login: Login::default(),
        is_cluster: false,
        connection_count: 4,
        pipeline: 1,
        thread_count: 1,
        cpus: Vec::new(),
        pace,
        ramp: Duration::ZERO,
        waiting: Waiting::Sleep,
        workload: Workload { value_size: Sizes::Fixed(VALUE_SIZE), verify: true, ..Workload::default() },
        duration,
        requests_max: u64::MAX,
        seed: 1,
        agents: None,
    }
}

/// A load, with all its seconds.
fn loaded(order: &Order, stop: &Stop) -> Result<(Outcome, Vec<Second>), String> {
    let mut seconds = Vec::new();
    let outcome = load(order, stop, |second| seconds.push(second.clone()))?;
    Ok((outcome, seconds))
}

/// All seconds as one.
fn whole<'a>(mut seconds: impl Iterator<Item = &'a Second>) -> Second {
    let first = seconds.next().cloned().unwrap_or_else(|| Second::new(std::iter::empty()));
    seconds.fold(first, |mut sum, second| {
        sum.add(second);
        sum
    })
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
fn float(ns: u64) -> f64 {
    ns as f64
}

/// A freeze and a queue, at the same time: neither needs much of a core.
pub(super) fn timed(depth: Depth, stop: &Stop) -> Result<Vec<Check>, String> {
    std::thread::scope(|scope| {
        let queue = scope.spawn(|| queue(depth, stop));
        let mut checks = freeze(stop)?;
        checks.extend(queue.join().map_err(|_| "the queue's thread has panicked".to_owned())??);
        Ok(checks)
    })
}

/// 1 of 3 seconds, at 2,000 requests a second.
fn freeze(stop: &Stop) -> Result<Vec<Check>, String> {
    let behaviour =
        Behaviour { freeze_ns: Some((1000 * MS, 2000 * MS)), value_size: VALUE_SIZE, ..Behaviour::default() };
    let made = Made::server(behaviour, 0)?;
    let order = order(&made.endpoint, Pace::Even(2000.0), Duration::from_secs(3));
    let (outcome, seconds) = loaded(&order, stop)?;
    let response = whole(seconds.iter()).response();
    let mut checks = vec![Check::equal("freeze 1 of 3 s: replies", 6000, outcome.answered)];
    for (name, quantile, want_ns) in [("p75", 0.75, 0.25e9), ("p90", 0.9, 0.7e9), ("p99", 0.99, 0.97e9)] {
        let got = float(response.value_at_quantile(quantile));
        checks.push(Check::time_live(format!("freeze 1 of 3 s: response {name}"), want_ns, got, WITHIN_NS));
    }
    Ok(checks)
}

/// The same seeds in memory tell what a queue of so few requests must come to.
fn queue(depth: Depth, stop: &Stop) -> Result<Vec<Check>, String> {
    let (mean_ns, rate) = (20e6, 25.0);
    let duration = Duration::from_secs(if depth == Depth::Quick { 4 } else { 20 });
    let behaviour = Behaviour {
        service: Service::Exponential(mean_ns),
        value_size: VALUE_SIZE,
        seed: 3,
        ..Behaviour::default()
    };
    let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut exact = Load::new(Pace::Poisson(rate), duration_ns, 4, behaviour.clone());
    let made = Made::server(behaviour, 0)?;
    let order = order(&made.endpoint, Pace::Poisson(rate), duration);
    exact.plan.seed = order.seed;
    let exact = exact.simulate();
    let want = whole(exact.run.seconds.iter().map(|second| &second.second)).response();
    let (outcome, seconds) = loaded(&order, stop)?;
    let got = whole(seconds.iter()).response();
    let mut checks = vec![Check::equal("queue of 20 ms: replies", want.len(), outcome.answered)];
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9)] {
        let (want, got) = (float(want.value_at_quantile(quantile)), float(got.value_at_quantile(quantile)));
        checks.push(Check::time_live(format!("queue of 20 ms: response {name}"), want, got, QUEUE_WITHIN_NS));
    }
    checks.push(Check::time_live("queue of 20 ms: response mean", want.mean(), got.mean(), QUEUE_WITHIN_NS));
    Ok(checks)
}

/// What this load reaches here at most. Nothing is judged by it: it depends on the machine and on who else uses it.
pub(super) fn ceiling(depth: Depth, stop: &Stop) -> Result<String, String> {
    let made = Made::floor(VALUE_SIZE)?;
    let duration = Duration::from_millis(if depth == Depth::Quick { 300 } else { 3000 });
    let mut text = String::new();
    for (connection_count, pipeline) in [(1, 1), (50, 1), (50, 16)] {
        let mut order = order(&made.endpoint, Pace::Closed, duration);
        (order.connection_count, order.pipeline, order.workload.verify) = (connection_count, pipeline, false);
        let (outcome, seconds) = loaded(&order, stop)?;
        let response = whole(seconds.iter()).response();
        let rate = float(outcome.answered) / float(outcome.elapsed_ns.max(1)) * 1e9;
        text += &format!(
            "  info    {connection_count:>2} connections × {pipeline:>2}: {rate:>9.0} replies a second, p50 {}, least {}, \
             load thread {:.0} % busy\n",
            Time(float(response.value_at_quantile(0.5))),
            Time(float(response.min())),
            outcome.thread_use.first().copied().unwrap_or(0.0) * 100.0,
        );
    }
    Ok(text)
}

/// One server, one `bench run` against it, and what that must say.
struct Case {
    name: &'static str,
    behaviour: Behaviour,
    /// The server receives from each connection once in so long.
    reads_every_ns: u64,
    /// Beside address and output.
    flags: &'static str,
    /// Answered, unanswered, errors, wrong.
    counts: [u64; 4],
    /// So many more may be unanswered: asked between the last reply and the end, which need not come together.
    on_their_way: u64,
    code: i32,
    /// In what it prints.
    words: &'static str,
}

fn cases() -> Vec<Case> {
    let one = "-c 1 -n 1000 --value-size 20 --verify";
    let case = |name, fault, counts, code, words| Case {
        name,
        behaviour: Behaviour { fault, value_size: VALUE_SIZE, ..Behaviour::default() },
        reads_every_ns: 0,
        flags: one,
        counts,
        on_their_way: 0,
        code,
        words,
    };
    let mut cases = vec![
        case("every 7th value spoilt", Fault::Spoils(7), [1000, 0, 0, 142], 3, "errors or wrong"),
        case("every 5th an error", Fault::Refuses(5), [1000, 0, 200, 0], 3, "ERR made up"),
        case("the 50th reply lost, then the end", Fault::Loses(50), [49, 1, 0, 0], 1, "closed a connection"),
        case("every 50th reply twice", Fault::Repeats(50), [50, 0, 0, 0], 1, "answers what was not asked"),
        case(
            "ended behind 100 replies",
            Fault::Ends { at: 100, size: usize::MAX },
            [100, 0, 0, 0],
            1,
            "closed a connection",
        ),
        case(
            "ended inside the 100th",
            Fault::Ends { at: 100, size: 9 },
            [99, 1, 0, 0],
            1,
            "closed a connection",
        ),
        case(
            "a web server",
            Fault::Babbles(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            [0, 1, 0, 0],
            1,
            "does not speak this protocol",
        ),
        case("replies in pieces of 3 bytes", Fault::Pieces(3), [300, 0, 0, 0], 0, "replies, "),
        case("no fault", Fault::None, [1000, 0, 0, 0], 0, "replies, "),
        case("slow reader", Fault::None, [3000, 0, 0, 0], 3, "more than the server can do"),
    ];
    for case in &mut cases {
        match case.name {
            "the 50th reply lost, then the end" => case.behaviour.patience_ns = Some(500 * MS),
            "ended behind 100 replies" => case.on_their_way = 1,
            "replies in pieces of 3 bytes" => case.flags = "-c 1 -n 300 --value-size 20 --verify",
            "no fault" => {
                // A delay beside which the load's own work is nothing.
                (case.behaviour.delay_ns, case.flags) = (5 * MS, "-c 10 -n 1000 --value-size 20 --verify");
            }
            // 64 KiB of four connections in 10 ms at most: 48 MB take 1.8 s and more, and are due within 1 s.
            "slow reader" => {
                case.reads_every_ns = 10 * MS;
                case.flags = "-c 4 -r 3000 --arrivals even -d 1s --operations set --value-size 16384";
            }
            _ => {}
        }
    }
    cases
}

/// `bench run` as a user calls it, against each. They run at the same time.
pub(super) fn told() -> Result<Vec<Check>, String> {
    let folder = Folder::new()?;
    let mut under_way = Vec::new();
    for (number, case) in cases().into_iter().enumerate() {
        let made = Made::server(case.behaviour.clone(), case.reads_every_ns)?;
        let file = folder.0.join(format!("{number}.jsonl"));
        let child = bench_run(&made.endpoint, case.flags, &file)?;
        under_way.push((case, made, file, child));
    }
    let nobody = Made::nobody()?;
    let alone = bench_run(&nobody, "", &folder.0.join("nobody.jsonl"))?;
    let mut checks = Vec::new();
    for (case, made, file, child) in under_way {
        let (code, text) = ended(child)?;
        drop(made);
        checks.push(check(&case, code, &text, run(&file).as_ref()));
    }
    let (code, text) = ended(alone)?;
    let is_told = code == Some(1) && text.contains("nobody listens there");
    let measured =
        if is_told { "exit 1, nobody listens there".to_owned() } else { format!("exit {code:?}: {text}") };
    checks.push(Check::that("nobody listens", "exit 1, nobody listens there", measured, is_told));
    Ok(checks)
}

fn check(case: &Case, code: Option<i32>, text: &str, run: Option<&Run>) -> Check {
    let [answered, unanswered, errors, wrong] = case.counts;
    let line = |counts: [u64; 4], code: &str, words: &str| {
        let [answered, unanswered, errors, wrong] = counts;
        format!("{answered}+{unanswered}, {errors} errors, {wrong} wrong, exit {code}, {words}")
    };
    let Some(run) = run else {
        return Check::that(case.name, "a result", format!("none: {}", text.trim()), false);
    };
    let end = run.end.clone().unwrap_or_default();
    let sum = |of: fn(&Second) -> u64| run.seconds.iter().map(|second| of(&second.second)).sum::<u64>();
    let got_errors = sum(|second| second.operations.iter().map(|operation| operation.errors).sum());
    let got_wrong = sum(|second| second.operations.iter().map(|operation| operation.wrong).sum());
    let counts = [end.answered, end.unanswered, got_errors, got_wrong];
    // Where nothing is wrong with the server, the machine may be: then the code must say so.
    let is_red = worst(&gates(run, &Figures::of(run))) == Colour::Red;
    let want_code = if case.code == 0 && is_red { 3 } else { case.code };
    let is_told = text.contains(case.words);
    let is_counted = [counts[0], counts[2], counts[3]] == [answered, errors, wrong]
        && (unanswered..=unanswered + case.on_their_way).contains(&counts[1]);
    let mut holds = is_counted && code == Some(want_code) && is_told;
    let mut measured = line(
        counts,
        &code.map_or("by a signal".to_owned(), |code| code.to_string()),
        if is_told { case.words } else { text.trim() },
    );
    if case.reads_every_ns > 0 {
        let longest_ns = whole(run.seconds.iter().map(|second| &second.second)).response().max();
        holds &= longest_ns >= 800 * MS;
        measured += &format!(", longest {}", Time(float(longest_ns)));
    }
    let expected = line(case.counts, &want_code.to_string(), case.words);
    Check::that(case.name, expected, measured, holds)
}

fn bench_run(endpoint: &Endpoint, flags: &str, file: &Path) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program can't be found: {error}"))?;
    let child = Command::new(program)
        .args(["bench", "run", &endpoint.to_string(), "--quiet", "--noisy", "--warm-up", "0", "--result"])
        .arg(file)
        .args(flags.split_whitespace())
        .env_remove("REDISCLI_AUTH")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.map_err(|error| format!("this program can't be started: {error}"))
}

/// How it ended, and all that it printed, which is far less than a pipe holds.
#[expect(clippy::disallowed_methods, reason = "nothing else is to be done meanwhile")]
fn ended(mut child: Child) -> Result<(Option<i32>, String), String> {
    let trouble = |error: std::io::Error| format!("a load can't be waited for: {error}");
    let began = Instant::now();
    while child.try_wait().map_err(trouble)?.is_none() {
        if began.elapsed() > RUN_PATIENCE {
            child.kill().map_err(trouble)?;
            break;
        }
        std::thread::sleep(LOOK);
    }
    let output = child.wait_with_output().map_err(trouble)?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

fn run(file: &Path) -> Option<Run> {
    let saved = read(BufReader::new(File::open(file).ok()?)).ok()?;
    saved.runs.into_iter().next()
}

/// A folder for results, which goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("expresslane-self-test-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed lies where the system cleans up.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
