//! `expresslane bench run`: one load of one server.

use std::time::Duration;

use load::analysis::Figures;
use load::analysis::gates::{Colour, gates, worst};
use load::connect::{Connected, Dialect, Endpoint, refusal};
use load::engine::{Failure, Pace};
use load::result::{Line, RunEnd, RunHead, SavedSecond, Surroundings};
use load::workload::{Distribution, Mix, Operation, Workload};

use super::Trouble;
use super::agent::{Agents, Hosts};
use super::crew::{Order, Outcome, load};
use super::journal::Journal;
use super::live::Live;
use super::report;
use super::settings::{Arrivals, LoadSettings, PaceSettings, RunSettings};
use super::surroundings::Witness;
use super::watch::{self, Watch};
use crate::clock::Clock;
use crate::machine;
use crate::stop::Stop;

/// Requests that a preload has under way on a connection.
const PRELOAD_PIPELINE: u32 = 100;

/// Loads, and says what came of it.
pub(super) fn run(settings: &RunSettings) -> Result<(), Trouble> {
    let hosts = Hosts::of(&settings.agents)?;
    let order = order(&settings.address, &settings.load, hosts.agents.as_ref()).map_err(Trouble::usage)?;
    let stop =
        Stop::at_signals().map_err(|error| Trouble::load(format!("signals can't be taken over: {error}")))?;
    let clock = Clock::new();
    let mut journal =
        Journal::begin(settings.output.result.as_deref(), "run", serde_json::Value::Null, clock.unix_ms())
            .map_err(Trouble::load)?;
    let mut live = Live::new(&settings.output);
    let quiet = watch::quiet(clock);
    if watch::is_noisy(&quiet) && !settings.output.noisy {
        live.line(&watch::unquiet(&quiet));
    }
    machines(&hosts, "start", &mut journal, &mut live);
    if settings.load.workload.preload {
        preload(&order, &stop, &mut live).map_err(Trouble::load)?;
    }
    let server_pid = server_pid(&order);
    let mut witness = settings.output.is_kept().then(Witness::new);
    let before = witness.as_mut().map(|witness| {
        let version = server_version(&order);
        let (before, news) = witness.before(0, "", order.thread_count, None, server_pid, version);
        news.into_iter().for_each(|line| journal.put(line));
        before
    });
    journal.put(Line::Run(head(&order, &settings.load.pace, clock.unix_ms())));
    let mut watch = Watch::begin(clock, server_pid);
    live.begin("run", &order);
    let outcome = load(&order, &stop, |second| {
        live.second(second);
        let counters = watch.second();
        journal.put(Line::Second(SavedSecond { run: 0, second: second.clone(), counters }));
    })
    .map_err(Trouble::load)?;
    live.clear();
    let mut end = end(0, &outcome);
    end.server_cpu_ns = watch.server_cpu_ns();
    end.machine_changes =
        witness.zip(before).map_or_else(Vec::new, |(witness, before)| witness.after(&before));
    journal.put(Line::RunEnd(end));
    machines(&hosts, "end", &mut journal, &mut live);
    let (saved, broken) = journal.end();
    // Where nothing came back, why is all that there is to say.
    if outcome.failure.is_none() || settings.output.json || saved.runs[0].seconds.iter().any(has_replies) {
        report::tell(&saved, settings.output.json);
    }
    report::write_after(broken, &saved, &settings.output.wanted)?;
    if let Some(problem) = problem(&order, &outcome) {
        return Err(Trouble::load(format!("{}: {problem}", order.endpoint)));
    }
    if outcome.was_stopped {
        return Err(Trouble::stopped());
    }
    let run = &saved.runs[0];
    if worst(&gates(run, &Figures::of(run))) == Colour::Red {
        return Err(Trouble {
            problem: "what was seen can't be trusted; the summary says why".to_owned(),
            code: 3,
        });
    }
    Ok(())
}

fn has_replies(second: &SavedSecond) -> bool {
    second.second.faults() > 0 || second.second.operations.iter().any(|asked| !asked.response.is_empty())
}

/// The machines of agents into the journal, and on the terminal those that are busy with something else.
pub(super) fn machines(hosts: &Hosts, at: &str, journal: &mut Journal, live: &mut Live) {
    for (side, host, described) in hosts.described(at == "start") {
        if !described.complaints.is_empty() {
            live.line(&format!("{host} is not quiet: {}", described.complaints.join("; ")));
        }
        journal.put(Line::Environment(Surroundings {
            side: side.to_owned(),
            host,
            at: at.to_owned(),
            run: None,
            environment: described.environment,
        }));
    }
}

/// The server's process, if it is known to be on this machine.
pub(super) fn server_pid(order: &Order) -> Option<u32> {
    // An address that means this machine here means another one to an agent.
    if order.agents.is_some() { None } else { watch::server_pid(&order.endpoint, &order.login) }
}

/// What the server says of its version, if it is asked from here.
pub(super) fn server_version(order: &Order) -> Option<String> {
    if order.agents.is_some() { None } else { watch::server_version(&order.endpoint, &order.login) }
}

/// Why a load ended before its time.
fn problem(order: &Order, outcome: &Outcome) -> Option<String> {
    let failure = outcome.failure.as_ref()?;
    let is_cut = failure.starts_with(Failure::CLOSED);
    let stranger = if is_cut { no_password(order) } else { None };
    Some(stranger.unwrap_or_else(|| failure.clone()))
}

/// That the server wants a password and got none: those who say none and do not read it closes without a word.
fn no_password(order: &Order) -> Option<String> {
    if order.agents.is_some() || order.login.password.is_some() || !order.login.dialect.is_redis() {
        return None;
    }
    let asked = Connected::new(&order.endpoint, &order.login).and_then(|mut server| server.ask(&[b"PING"]));
    let words = asked.err()?.to_string();
    words.starts_with("NOAUTH").then(|| refusal(&words))
}

/// Sets every key once.
pub(super) fn preload(order: &Order, stop: &Stop, live: &mut Live) -> Result<(), String> {
    let order = Order {
        pipeline: if order.login.dialect == Dialect::Aerospike { 1 } else { PRELOAD_PIPELINE },
        pace: Pace::Closed,
        workload: Workload {
            operations: Mix(vec![(Operation::Set, 1)]),
            key_distribution: Distribution::Sequential,
            verify: false,
            ..order.workload.clone()
        },
        duration: Duration::MAX,
        requests_max: order.workload.key_count,
        ..order.clone()
    };
    let mut faults = 0;
    live.begin("set keys", &order);
    let outcome = load(&order, stop, |second| {
        faults += second.faults();
        live.second(second);
    })?;
    let text = || outcome.error_texts.first().map(|error| refusal(&error.text)).unwrap_or_default();
    match problem(&order, &outcome) {
        Some(problem) => Err(format!("{}: while the keys were set: {problem}", order.endpoint)),
        None if faults > 0 => Err(format!("{}: {faults} keys could not be set: {}", order.endpoint, text())),
        None => Ok(()),
    }
}

/// What the settings mean, checked against this machine and the server. Agents look at their machines themselves.
pub(super) fn order(
    address: &Endpoint,
    settings: &LoadSettings,
    agents: Option<&Agents>,
) -> Result<Order, String> {
    let PaceSettings {
        connections,
        pipeline,
        rate,
        arrivals,
        duration,
        requests,
        threads,
        cpus,
        ramp,
        wait,
        warm_up,
    } = &settings.pace;
    let is_all = |seconds: &u32| *seconds > 0 && Duration::from_secs(u64::from(*seconds)) >= *duration;
    if let Some(seconds) = warm_up.filter(is_all) {
        let duration = humantime::format_duration(*duration);
        return Err(format!("--warm-up {seconds} leaves nothing of --duration {duration}"));
    }
    let workload = settings.workload.workload();
    if settings.workload.preload
        && workload.operations.0.iter().any(|(operation, _)| *operation == Operation::Incr)
    {
        return Err("--preload sets texts, which incr can't count: leave one of them out (of Redis' protocol a counter begins with its first \
                    incr)"
            .to_owned());
    }
    let login = settings.target.login();
    let is_cluster = settings.target.cluster || login.dialect.has_map();
    load::protocol::check(login.dialect, is_cluster, *pipeline, &workload)?;
    let cpus = cpus.as_ref().map(|list| list.0.clone()).unwrap_or_default();
    let allowed = machine::allowed_cpus().map_err(|error| error.to_string())?;
    if let Some(cpu) = cpus.iter().find(|cpu| agents.is_none() && !allowed.contains(cpu)) {
        return Err(format!("this process may not run on cpu {cpu} of --cpus: it may on {allowed:?}"));
    }
    Ok(Order {
        endpoint: address.clone(),
        login,
        is_cluster,
        connection_count: *connections,
        pipeline: *pipeline,
        thread_count: *threads,
        cpus,
        pace: match (rate, arrivals) {
            (None, _) => Pace::Closed,
            (Some(rate), Arrivals::Poisson) => Pace::Poisson(*rate),
            (Some(rate), Arrivals::Even) => Pace::Even(*rate),
        },
        ramp: Duration::from_secs(u64::from(*ramp)),
        waiting: *wait,
        workload,
        duration: *duration,
        requests_max: requests.unwrap_or(u64::MAX),
        seed: settings.workload.seed,
        agents: agents.cloned(),
    })
}

/// The order as a result's head of a run.
pub(super) fn head(order: &Order, pace: &PaceSettings, began_unix_ms: u64) -> RunHead {
    RunHead {
        address: order.endpoint.to_string(),
        protocol: order.login.dialect.to_string(),
        connection_count: order.connection_count,
        pipeline: order.pipeline,
        thread_count: u32::from(order.thread_count) * order.agents.as_ref().map_or(1, Agents::count),
        rate: order.pace.rate(),
        arrivals: match order.pace {
            Pace::Closed => "",
            Pace::Even(_) => "even",
            Pace::Poisson(_) => "poisson",
        }
        .to_owned(),
        stays_awake: order.pace != Pace::Closed && order.waiting.spins(!order.cpus.is_empty()),
        ramp_s: pace.ramp,
        warm_up_s: pace.warm_up,
        duration_s: order.duration.as_secs_f64(),
        seed: order.seed,
        workload: order.workload.clone(),
        began_unix_ms,
        ..RunHead::default()
    }
}

/// The outcome as a result's line.
pub(super) fn end(run: u32, outcome: &Outcome) -> RunEnd {
    RunEnd {
        run,
        failure: outcome.failure.clone(),
        was_stopped: outcome.was_stopped,
        elapsed_ns: outcome.elapsed_ns,
        last_share: outcome.last_share,
        answered: outcome.answered,
        unanswered: outcome.unanswered,
        error_texts: outcome.error_texts.clone(),
        thread_use: outcome.thread_use.clone(),
        server_cpu_ns: None,
        machine_changes: Vec::new(),
        agents: outcome.agents.clone(),
    }
}
