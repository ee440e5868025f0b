//! `expresslane bench compare`: two set-ups in pairs of runs, in random order inside each pair, a fresh server for each run.
//!
//! ```text
//! A A | A A | …      the machine's own noise: what pairs differ by when nothing does
//! B A | A B | …      the comparison; what a red gate closes on is dropped with its pair, and another pair run for it
//! ```

pub(super) mod plan;
pub(super) mod server;

use load::analysis::Figures;
use load::analysis::comparison::Comparison;
use load::analysis::gates::{Colour, gates_within, worst};
use load::result::{Line, SavedSecond};
use load::statistics::order::{PairOrder, pairs_balanced};
use load::statistics::verdict::{Answer, Word};

use super::Trouble;
use super::agent::Hosts;
use super::crew::load;
use super::journal::Journal;
use super::live::Live;
use super::report;
use super::run;
use super::settings::{CompareSettings, LoadSettings};
use super::surroundings::Witness;
use super::watch::{self, Watch};
use crate::clock::Clock;
use crate::stop::Stop;
use plan::{Plan, SetUp};
use server::Server;

/// For every so many pairs that are to count one more may be run for one that was dropped.
const SPARE_PART: u32 = 2;
/// Pairs that are dropped one after the other before the comparison is given up.
const DROPPED_MAX: u32 = 4;

/// Runs the plan, and says what came of it.
pub(super) fn compare(settings: &CompareSettings) -> Result<(), Trouble> {
    let (plan, load) = match &settings.b {
        Some(b) => (Plan::of_addresses(settings, b).map_err(Trouble::usage)?, settings.load.clone()),
        None => from_file(settings).map_err(Trouble::usage)?,
    };
    let stop =
        Stop::at_signals().map_err(|error| Trouble::load(format!("signals can't be taken over: {error}")))?;
    let clock = Clock::new();
    let quiet = watch::quiet(clock);
    if watch::is_noisy(&quiet) && !settings.output.noisy {
        return Err(watch::too_noisy(&quiet));
    }
    let saved_plan = serde_json::json!({ "declared": plan.declared(), "file": &plan });
    let hosts = Hosts::of(&settings.agents)?;
    let mut journal =
        Journal::begin(settings.output.result.as_deref(), "compare", saved_plan, clock.unix_ms())
            .map_err(Trouble::load)?;
    let witness = Witness::new();
    let mut live = Live::new(&settings.output);
    run::machines(&hosts, "start", &mut journal, &mut live);
    let mut comparing = Comparing {
        plan: &plan,
        asked: &load,
        hosts: &hosts,
        stop,
        clock,
        journal,
        witness,
        live,
        runs_count: 0,
    };
    let problem = comparing.all_pairs().err();
    run::machines(&hosts, "end", &mut comparing.journal, &mut comparing.live);
    let is_stopped = comparing.stop.is_set();
    let (saved, broken) = comparing.journal.end();
    let comparison = Comparison::of(&saved).expect("the head declares a comparison");
    report::tell(&saved, settings.output.json);
    report::write_after(broken, &saved, &settings.output.wanted)?;
    match problem {
        _ if is_stopped => Err(Trouble::stopped()),
        Some(problem) => Err(Trouble::load(problem)),
        None => verdict(&comparison),
    }
}

/// The plan and the load of the file; a password alone comes from outside of it.
fn from_file(settings: &CompareSettings) -> Result<(Plan, LoadSettings), String> {
    let name = settings.plan.display();
    let text = std::fs::read_to_string(&settings.plan)
        .map_err(|error| format!("{name}: {error}; name a readable TOML file, or two addresses"))?;
    let (plan, mut load) = Plan::parse(&text).map_err(|problem| format!("{name}: {problem}"))?;
    let target = &settings.load.target;
    load.target.user = load.target.user.or_else(|| target.user.clone());
    load.target.password = load.target.password.or_else(|| target.password.clone());
    Ok((plan, load))
}

/// What the program ends with.
fn verdict(comparison: &Comparison) -> Result<(), Trouble> {
    let word = comparison.primary().verdict.map(|verdict| verdict.word);
    match (comparison.answer(), word) {
        (Some(Answer::Fails), _) => Err(Trouble { problem: "a claim fails".to_owned(), code: 4 }),
        (Some(Answer::Holds), _) | (None, Some(Word::Better | Word::Worse | Word::Same)) => Ok(()),
        (None, Some(Word::BetterButSmall | Word::WorseButSmall)) => Ok(()),
        _ => Err(Trouble { problem: "it can't be told; the summary says why".to_owned(), code: 3 }),
    }
}

struct Comparing<'a> {
    plan: &'a Plan,
    asked: &'a LoadSettings,
    hosts: &'a Hosts,
    stop: Stop,
    clock: Clock,
    journal: Journal,
    witness: Witness,
    live: Live,
    runs_count: u32,
}

/// One half of a pair.
struct Half<'a> {
    arm: &'static str,
    setup: &'a SetUp,
    pair: u32,
}

impl<'a> Comparing<'a> {
    fn all_pairs(&mut self) -> Result<(), String> {
        let (a, b) = (&self.plan.a, &self.plan.b);
        self.block(self.plan.floor_pairs, ("a1", a), ("a2", a))?;
        self.block(self.plan.pairs, ("a", a), ("b", b))
    }

    /// Pairs of two arms until so many count.
    fn block(
        &mut self,
        wanted: u32,
        first: (&'static str, &'a SetUp),
        second: (&'static str, &'a SetUp),
    ) -> Result<(), String> {
        let most = wanted + wanted / SPARE_PART;
        // As many of each order among those that are wanted; those that replace a dropped one by themselves.
        let size = |count: u32| usize::try_from(count).expect("32 bits");
        let spares = pairs_balanced(size(most - wanted), !self.plan.seed);
        let orders = pairs_balanced(size(wanted), self.plan.seed).into_iter().chain(spares);
        let (mut counted, mut dropped) = (0, 0);
        for (pair, order) in (0..most).zip(orders) {
            if counted == wanted || self.stop.is_set() {
                break;
            }
            let half = |(arm, setup): (&'static str, &'a SetUp)| Half { arm, setup, pair };
            let halves = match order {
                PairOrder::AThenB => [half(first), half(second)],
                PairOrder::BThenA => [half(second), half(first)],
            };
            let mut is_good = true;
            for half in halves {
                is_good &= self.half(&half)?;
                if self.stop.is_set() {
                    return Ok(());
                }
            }
            self.tell(pair, order, first.0, second.0, is_good);
            counted += u32::from(is_good);
            dropped = if is_good { 0 } else { dropped + 1 };
            if dropped == DROPPED_MAX {
                return Err(format!("{DROPPED_MAX} pairs one after the other had to be dropped: see above"));
            }
        }
        Ok(())
    }

    /// One run; whether it may count.
    fn half(&mut self, half: &Half<'_>) -> Result<bool, String> {
        let server = Server::start(half.setup, &self.asked.target.login(), half.arm, &self.stop)?;
        let done = self.load(half, server.pid);
        server.end_after(done)
    }

    /// Loads the server of that half.
    fn load(&mut self, half: &Half<'_>, server_pid: Option<u32>) -> Result<bool, String> {
        let setup = half.setup;
        let mut order = run::order(setup.address(), self.asked, self.hosts.agents.as_ref())?;
        order.seed = self.plan.seed.wrapping_add(u64::from(half.pair));
        if self.asked.workload.preload {
            run::preload(&order, &self.stop, &mut self.live)?;
            if self.stop.is_set() {
                return Ok(false);
            }
        }
        let number = self.runs_count;
        self.runs_count += 1;
        let (words, version) = (setup.start.as_deref(), watch::server_version(setup.address(), &order.login));
        let (before, news) =
            self.witness.before(number, half.arm, order.thread_count, words, server_pid, version);
        news.into_iter().for_each(|line| self.journal.put(line));
        let mut head = run::head(&order, &self.asked.pace, self.clock.unix_ms());
        (head.run, head.arm, head.pair) = (number, half.arm.to_owned(), Some(half.pair));
        self.journal.put(Line::Run(head));
        let mut watch = Watch::begin(self.clock, server_pid);
        let (journal, live) = (&mut self.journal, &mut self.live);
        live.begin(&format!("pair {} {}", half.pair, half.arm), &order);
        let outcome = load(&order, &self.stop, |second| {
            live.second(second);
            let counters = watch.second();
            journal.put(Line::Second(SavedSecond { run: number, second: second.clone(), counters }));
        })?;
        let mut end = run::end(number, &outcome);
        end.server_cpu_ns = watch.server_cpu_ns();
        end.machine_changes = self.witness.after(&before);
        self.journal.put(Line::RunEnd(end));
        self.live.clear();
        let run = self.journal.saved().runs.last().expect("one has just ended");
        Ok(worst(&gates_within(run, &Figures::of(run), &self.plan.gates)) < Colour::Red)
    }

    /// A line a pair, as they come.
    fn tell(&mut self, pair: u32, order: PairOrder, first: &str, second: &str, is_good: bool) {
        let runs = &self.journal.saved().runs;
        let [.., one, two] = &runs[..] else { return };
        let value = |run| self.plan.metric.of(run, &Figures::of(run));
        let (one_value, two_value) = (value(one), value(two));
        let (a, b) = if order == PairOrder::AThenB { (one_value, two_value) } else { (two_value, one_value) };
        let shown = |value: Option<f64>| {
            value.map_or_else(|| "?".to_owned(), |value| load::report::shown(self.plan.metric, value))
        };
        let why: Vec<String> = [one, two]
            .into_iter()
            .flat_map(|run| gates_within(run, &Figures::of(run), &self.plan.gates))
            .filter(|gate| gate.colour == Colour::Red)
            .map(|gate| gate.words)
            .collect();
        let sequence = if order == PairOrder::AThenB {
            format!("{first} {second}")
        } else {
            format!("{second} {first}")
        };
        let metric = self.plan.metric;
        let fate = if is_good { "ok".to_owned() } else { format!("dropped: {}", why.join("; ")) };
        self.live.line(&format!(
            "pair {pair:>3}  {sequence:<6} {metric} {:>12} | {:>12}  {fate}",
            shown(a),
            shown(b)
        ));
    }
}
