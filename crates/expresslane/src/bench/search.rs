//! `expresslane bench search`: the highest rate at which one server keeps a bound.

use std::time::Duration;

use load::engine::Pace;
use load::number;
use load::result::{Line, SavedSecond};
use load::search::{Bound, Found, Search, Step};

use super::Trouble;
use super::agent::Hosts;
use super::crew::{Order, load};
use super::journal::Journal;
use super::live::Live;
use super::report;
use super::run;
use super::settings::{Arrivals, SearchSettings};
use super::surroundings::Witness;
use super::watch::{self, Watch};
use crate::clock::Clock;
use crate::stop::Stop;

/// Searches, and says what was found.
pub(super) fn search(settings: &SearchSettings) -> Result<(), Trouble> {
    if settings.load.pace.rate.is_some() {
        return Err(Trouble::usage(
            "a search chooses its rates: --from says where it begins, --rate is for run",
        ));
    }
    if settings.from > settings.most {
        return Err(Trouble::usage(format!(
            "--from {} is above --most {}: a search goes upwards",
            settings.from, settings.most
        )));
    }
    let hosts = Hosts::of(&settings.agents).map_err(Trouble::load)?;
    let agents = hosts.agents.as_ref();
    let mut order = run::order(&settings.address, &settings.load, agents).map_err(Trouble::usage)?;
    let stop =
        Stop::at_signals().map_err(|error| Trouble::load(format!("signals can't be taken over: {error}")))?;
    let clock = Clock::new();
    let plan = serde_json::json!({ "bound": settings.keep, "from": settings.from, "most": settings.most });
    let mut journal = Journal::begin(settings.output.result.as_deref(), "search", plan, clock.unix_ms())
        .map_err(Trouble::load)?;
    let mut live = Live::new(&settings.output);
    let quiet = watch::quiet(clock);
    if watch::is_noisy(&quiet) && !settings.output.noisy {
        live.line(&watch::unquiet(&quiet));
    }
    run::machines(&hosts, "start", &mut journal, &mut live);
    if settings.load.workload.preload {
        run::preload(&order, &stop, &mut live).map_err(Trouble::load)?;
    }
    let server_pid = run::server_pid(&order);
    let mut witness = Witness::new();
    let mut search = Search::new(settings.from, settings.most);
    for number in 0.. {
        let Some(rate) = search.next() else { break };
        order.pace = match settings.load.pace.arrivals {
            Arrivals::Poisson => Pace::Poisson(rate),
            Arrivals::Even => Pace::Even(rate),
        };
        order.seed = settings.load.workload.seed.wrapping_add(u64::from(number));
        let step =
            step(number, &order, settings, &mut journal, &mut live, &stop, clock, server_pid, &mut witness)
                .map_err(Trouble::load)?;
        if stop.is_set() {
            break;
        }
        search.take(step.failed);
        live.line(&line(&step, settings.keep));
        settle(&stop);
    }
    run::machines(&hosts, "end", &mut journal, &mut live);
    let (saved, broken) = journal.end();
    let found = search.found();
    super::say(&if settings.output.json {
        format!("{}\n", serde_json::json!({ "bound": settings.keep, "found": found }))
    } else {
        let stopped = if stop.is_set() { "Stopped before its end. " } else { "" };
        format!("{stopped}{}\n", sentence(&found, settings.keep))
    });
    report::write_after(broken, &saved, &settings.output.wanted)?;
    if stop.is_set() {
        return Err(Trouble::stopped());
    }
    if found.is_confirmed && !found.is_at_least {
        return Ok(());
    }
    Err(Trouble { problem: "the answer is not a sure one; the line above says why".to_owned(), code: 3 })
}

/// One run at one rate.
#[expect(clippy::too_many_arguments, reason = "what all steps share, and which one it is")]
fn step(
    number: u32,
    order: &Order,
    settings: &SearchSettings,
    journal: &mut Journal,
    live: &mut Live,
    stop: &Stop,
    clock: Clock,
    server_pid: Option<u32>,
    witness: &mut Witness,
) -> Result<Step, String> {
    let (before, news) =
        witness.before(number, "", order.thread_count, None, server_pid, run::server_version(order));
    news.into_iter().for_each(|line| journal.put(line));
    let mut head = run::head(order, &settings.load.pace, clock.unix_ms());
    head.run = number;
    head.level = order.pace.rate().map(|rate| ("rate".to_owned(), rate));
    journal.put(Line::Run(head));
    let mut watch = Watch::begin(clock, server_pid);
    live.begin(&format!("{:.0}/s", order.pace.rate().unwrap_or_default()), order);
    let outcome = load(order, stop, |second| {
        live.second(second);
        let counters = watch.second();
        journal.put(Line::Second(SavedSecond { run: number, second: second.clone(), counters }));
    })?;
    let mut end = run::end(number, &outcome);
    end.server_cpu_ns = watch.server_cpu_ns();
    end.machine_changes = witness.after(&before);
    journal.put(Line::RunEnd(end));
    live.clear();
    let run = journal.saved().runs.last().expect("one has just ended");
    Ok(Step::of(run, settings.keep))
}

/// What a step left waiting in the server is not the next one's.
#[expect(clippy::disallowed_methods, reason = "nothing else is to be done meanwhile")]
fn settle(stop: &Stop) {
    if !stop.is_set() {
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn line(step: &Step, bound: Bound) -> String {
    let shown = |ns: Option<u64>| ns.map_or_else(|| "?".to_owned(), |ns| number::time(ns as f64));
    let name = bound.to_string();
    let name = name.split('<').next().unwrap_or_default();
    let (value, high) = step.percentile.map_or((None, None), |it| (Some(it.value_ns), it.high_ns));
    let fate = step.failed.map_or_else(|| "passes".to_owned(), |reason| format!("fails: {reason}"));
    let rate = number::plain(step.rate);
    format!("{rate:>12}/s  {name} {:>8}  at most {:>8}  {fate}", shown(value), shown(high))
}

fn sentence(found: &Found, bound: Bound) -> String {
    let Some(rate) = found.rate else {
        let why =
            found.beyond.map_or_else(String::new, |(rate, reason)| format!(": at {rate:.0}/s {reason}"));
        return format!("No rate was found that keeps {bound}{why}.");
    };
    let sure = if found.is_confirmed { "confirmed three times" } else { "not confirmed" };
    let beyond = found.beyond.map_or_else(
        || "nothing higher was allowed (--most)".to_owned(),
        |(rate, reason)| format!("at {rate:.0}/s {reason}"),
    );
    let least = if found.is_at_least { "at least " } else { "" };
    format!("{bound} is kept up to {least}{rate:.0} requests a second ({sure}); {beyond}.")
}
