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
    let hosts = Hosts::of(&settings.agents)?;
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
    // What the load's own gates said at the last step that it failed.
    let mut load_words = None;
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
        load_words = step.load_words.or(load_words);
        settle(&stop);
    }
    run::machines(&hosts, "end", &mut journal, &mut live);
    let (saved, broken) = journal.end();
    let found = search.found();
    super::say(&if settings.output.json {
        format!("{}\n", serde_json::json!({ "bound": settings.keep, "found": found }))
    } else {
        let stopped = if stop.is_set() { "Stopped before its end. " } else { "" };
        let late = search.late_from().zip(load_words.as_deref());
        format!("{stopped}{}\n", sentence(&found, settings.keep, late))
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
    let words = step.load_words.as_ref().map_or_else(String::new, |words| format!(": {words}"));
    let fate = step.failed.map_or_else(|| "passes".to_owned(), |reason| format!("fails: {reason}{words}"));
    let rate = number::plain(step.rate);
    format!("{rate:>12}/s  {name} {:>8}  at most {:>8}  {fate}", shown(value), shown(high))
}

/// `late`: the load was late from this rate down, and what its gate said at last.
fn sentence(found: &Found, bound: Bound, late: Option<(f64, &str)>) -> String {
    let Some(rate) = found.rate else {
        let why = match (late, found.beyond) {
            (Some((from, words)), Some((rate, _))) => format!(
                ": the load itself is the limit, not the server. It was late from {from:.0}/s down to {rate:.0}/s ({words}), so nothing \
                 can be said of the server"
            ),
            (_, Some((rate, reason))) => format!(": at {rate:.0}/s {reason}"),
            (_, None) => String::new(),
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use load::search::Reason;

    #[test]
    fn what_was_found_is_one_sentence() {
        let bound: Bound = "p99<500us".parse().unwrap();
        let check = |found: (Option<f64>, Option<(f64, Reason)>, bool, bool), late, want: &str| {
            let (rate, beyond, is_at_least, is_confirmed) = found;
            let found = Found { rate, beyond, is_at_least, is_confirmed };
            assert_eq!(sentence(&found, bound, late), want);
        };
        check(
            (Some(40_000.0), Some((41_000.0, Reason::Latency)), false, true),
            None,
            "p99<500us is kept up to 40000 requests a second (confirmed three times); at 41000/s the bound was not kept.",
        );
        check(
            (Some(40_000.0), Some((41_000.0, Reason::Load)), true, true),
            None,
            "p99<500us is kept up to at least 40000 requests a second (confirmed three times); at 41000/s the load itself was the limit.",
        );
        check(
            (Some(500.0), None, true, false),
            None,
            "p99<500us is kept up to at least 500 requests a second (not confirmed); nothing higher was allowed (--most).",
        );
        check(
            (None, Some((1.0, Reason::Errors)), false, false),
            None,
            "No rate was found that keeps p99<500us: at 1/s errors came back.",
        );
        check(
            (None, Some((125.0, Reason::Late)), false, false),
            Some((1_000.0, "requests left up to 4 ms late (p99): give the load a core of its own")),
            "No rate was found that keeps p99<500us: the load itself is the limit, not the server. It was late from 1000/s down to 125/s \
             (requests left up to 4 ms late (p99): give the load a core of its own), so nothing can be said of the server.",
        );
        check((None, None, false, false), None, "No rate was found that keeps p99<500us.");
    }
}
