//! `expresslane bench reproduce`: the published experiments, each a set of set-ups that run in pairs.
//!
//! ```text
//! preset ──▶ planned (what shrinks, what is missing) ──▶ pair after pair: set-ups in random order, each with fresh servers
//!                                                             └─ keys set, levels in random order ──▶ journal, measured
//! measured ──▶ evaluation ──▶ text, JSON
//! ```

mod link;
mod resume;
mod setup;
pub(super) mod text;

use std::net::IpAddr;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use load::connect::{Connected, Dialect, Endpoint, Login};
use load::engine::Pace;
use load::experiments::{
    Arm, Evaluation, Id, KIND, Link, Measured, Offer, Planned, Preset, Repetition, Scale,
};
use load::record::Second;
use load::result::{Line, RunHead, SavedSecond};
use load::statistics::order::{PairOrder, levels_shuffled, pairs_balanced};
use wire::client::Reply;

use super::Trouble;
use super::agent::{Agents, Hosts, Roster};
use super::compare::server::Server;
use super::crew::{Order, Outcome, load};
use super::journal::Journal;
use super::live::Live;
use super::report;
use super::run;
use super::settings::Waiting;
use super::settings::reproduce::{Links, ReproduceSettings};
use super::surroundings::Witness;
use super::watch::{self, Watch};
use crate::clock::Clock;
use crate::machine::{self, Facts};
use crate::stop::Stop;
use link::Cable;
use resume::Earlier;
use setup::{Fleet, Host, Place, Target, fleet};

/// In the full form, for every so many pairs that are to count one more may run for one that was dropped.
const SPARE_PART: u32 = 2;
/// How long copies may take until they have all keys.
const COPY_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a copy.
const LOOK: Duration = Duration::from_millis(20);
/// Of the order inside pairs, of keys and times.
const SEED: u64 = 1;

/// Runs what was asked for, and says what came of it.
pub(super) fn reproduce(settings: &ReproduceSettings) -> Result<(), Trouble> {
    let wanted = &settings.output.wanted;
    if [&wanted.csv, &wanted.runs_csv, &wanted.hgrm].iter().any(|file| file.is_some()) {
        return Err(Trouble::usage(
            "tables are made from the file of --result: bench report FILE --csv FILE",
        ));
    }
    let facts =
        Facts::read().map_err(|error| Trouble::load(format!("the machine can't be read: {error}")))?;
    let roster = roster(settings)?;
    let place = place(settings, &facts, roster.as_ref())?;
    let stop =
        Stop::at_signals().map_err(|error| Trouble::load(format!("signals can't be taken over: {error}")))?;
    let clock = Clock::new();
    let quiet = watch::quiet(clock);
    if watch::is_noisy(&quiet) && !settings.output.noisy {
        return Err(watch::too_noisy(&quiet));
    }
    let mut live = Live::new(&settings.output);
    for name in link::remove_leftovers() {
        live.line(&format!("{name}: a link that a killed program had left; it is removed"));
    }
    let offer = offer(settings, &place);
    let plans = settings.experiments.0.iter();
    let plans: Vec<Planned> =
        plans.map(|id| planned(settings, Preset::of(*id), &place, &facts, &offer)).collect();
    let saved_plan = serde_json::json!({ "experiments": &plans });
    let witness = Witness::new();
    let result = settings.output.result.as_deref();
    let earlier = settings.resume.as_deref().map(|path| Earlier::read(path, result, &saved_plan, &witness));
    let earlier = earlier.transpose().map_err(Trouble::load)?;
    let mut journal = Journal::begin(result, KIND, saved_plan, clock.unix_ms()).map_err(Trouble::load)?;
    let measured = earlier.as_ref().map(|earlier| earlier.copy(&mut journal)).transpose();
    let measured = measured.map_err(Trouble::load)?.unwrap_or_default();
    earlier.iter().for_each(|earlier| live.line(&earlier.told()));
    text::schedule(&plans).iter().for_each(|line| live.line(line));
    // An agent has one coordinator at a time: what is asked here is over before it loads.
    run::machines(&Hosts::of(&settings.agents)?, "start", &mut journal, &mut live);
    let mut reproducing = Reproducing {
        place,
        bind: settings.bind,
        roster,
        stop,
        clock,
        journal,
        witness,
        live,
        runs_count: earlier.as_ref().map_or(0, Earlier::next_run),
        measured,
        earlier,
    };
    let mut evaluations = Vec::new();
    let mut problem = None;
    for planned in &plans {
        // One that can't be run does not keep the others from it.
        let result = reproducing.experiment(planned);
        let evaluation = Evaluation::of(planned, &reproducing.measured);
        if !settings.output.json {
            super::say(&text::text(&evaluation));
        }
        evaluations.push(evaluation);
        if reproducing.stop.is_set() {
            break;
        }
        if let Err(why) = result {
            let named = format!("{}: {why}", planned.id);
            reproducing.live.line(&named);
            problem = problem.or(Some(named));
        }
    }
    let is_stopped = reproducing.stop.is_set();
    match Hosts::of(&settings.agents) {
        Ok(hosts) => run::machines(&hosts, "end", &mut reproducing.journal, &mut reproducing.live),
        Err(why) => problem = problem.or(Some(why.problem)),
    }
    let (saved, broken) = reproducing.journal.end();
    super::say(&if settings.output.json { text::json(&evaluations) } else { text::ending(&evaluations) });
    let repetition = Repetition { saved, measured: reproducing.measured };
    report::said_with(broken, report::write_page(&repetition, &settings.output.wanted))?;
    match problem {
        _ if is_stopped => Err(Trouble::stopped()),
        Some(problem) => Err(Trouble::load(problem)),
        None if evaluations.iter().any(Evaluation::tells) => Ok(()),
        None => Err(Trouble { problem: "it can't be told; the lines above say why".to_owned(), code: 3 }),
    }
}

/// The agents that load; none: this process does.
fn roster(settings: &ReproduceSettings) -> Result<Option<Roster>, Trouble> {
    let roster = Roster::of(&settings.agents).map_err(Trouble::usage)?;
    let Some(agents) = &roster else { return Ok(None) };
    match settings.bind {
        None => {
            return Err(Trouble::usage(
                "--agents load servers that run on this machine: say with --bind ADDRESS at which address of it they reach them",
            ));
        }
        Some(address) if address.is_unspecified() => {
            return Err(Trouble::usage(format!(
                "--bind {address} is every address: say at which one of this machine the agents reach it"
            )));
        }
        Some(_) => {}
    }
    let instances = settings.instances.map_or(0, |count| usize::try_from(count).expect("32 bits"));
    if settings.experiments.0.contains(&Id::E1) && instances > agents.count() {
        return Err(Trouble::usage(format!(
            "E1 has a load for each of its {instances} instances, all at once, and an agent makes one: name as many --agents, or \
             --instances {}",
            agents.count()
        )));
    }
    Ok(roster)
}

/// Where everything runs, with the peer looked for before the first run.
fn place(settings: &ReproduceSettings, facts: &Facts, roster: Option<&Roster>) -> Result<Place, Trouble> {
    let program = std::env::current_exe()
        .map_err(|error| Trouble::load(format!("this program can't find itself: {error}")))?;
    let peer = settings.peer.clone();
    if !setup::is_self(&peer) && !is_installed(&peer) {
        return Err(Trouble::load(format!(
            "`{peer}` is not to be found: install it (redis-server is in Debian's package of that name), or name another --peer"
        )));
    }
    let program = program.to_string_lossy().into_owned();
    let agents = roster.map_or(0, Roster::count);
    Place::new(facts.cpus.clone(), settings.instances, agents, settings.port, peer, program)
        .map_err(Trouble::load)
}

/// Whether a program is there, by its path or below PATH.
fn is_installed(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("cpus and instances are few")
}

/// What the machine has, tried where that is the only way to know.
fn offer(settings: &ReproduceSettings, place: &Place) -> Offer {
    let wanted = |ids: &[Id]| settings.experiments.0.iter().any(|id| ids.contains(id));
    let links = match settings.links {
        _ if place.agents > 0 => {
            Err("agents load over the network that lies between, as fast as that is".to_owned())
        }
        Links::Off => Err("left out (--links off)".to_owned()),
        Links::Auto if wanted(&[Id::E3, Id::E4]) => link::may_be_laid(),
        Links::Auto => Ok(()),
    };
    let nodes: std::collections::BTreeSet<Option<u16>> =
        place.cpus.iter().map(|cpu| machine::node_of(*cpu)).collect();
    Offer {
        peer: settings.peer.clone(),
        price: settings.price,
        cpus_count: count(place.cpus.len()),
        server_cpus_count: count(place.server_cpus.len()),
        links,
        io_uring: net::uring::probe().map_err(|why| why.to_string()),
        agents_count: count(place.agents),
        nodes_count: count(nodes.len()),
        has_irqbalance: machine::is_running("irqbalance"),
    }
}

/// An experiment as it is going to run.
fn planned(
    settings: &ReproduceSettings,
    preset: &Preset,
    place: &Place,
    facts: &Facts,
    offer: &Offer,
) -> Planned {
    let instances = count(place.instances);
    let threads = count(place.load_threads(place.instances));
    let mut scale = Scale::new(preset, settings.quick, instances, threads, facts.memory_size);
    scale.pairs = settings.pairs.unwrap_or(scale.pairs);
    if let Some(duration) = settings.level_duration {
        scale.level_s = duration.as_secs_f64();
        scale.warm_up_s = 0;
    }
    if let Some(levels) = &settings.levels {
        scale.levels.retain(|level| levels.contains(level));
    }
    let instances = if preset.id == Id::E1 { instances } else { 1 };
    let agents_count = offer.agents_count.min(connections_least(preset, &scale) * instances);
    Planned::new(preset, scale, &Offer { agents_count, ..offer.clone() })
}

/// Connections of an instance at the level with the fewest: more agents than these it can't have.
fn connections_least(preset: &Preset, scale: &Scale) -> u32 {
    let levels = scale.levels.iter().map(|level| preset.connections_at(Some(*level)));
    levels.min().unwrap_or_else(|| preset.connections_at(None))
}

struct Reproducing {
    place: Place,
    /// Where the servers listen, if agents load.
    bind: Option<IpAddr>,
    roster: Option<Roster>,
    stop: Stop,
    clock: Clock,
    journal: Journal,
    witness: Witness,
    live: Live,
    runs_count: u32,
    measured: Vec<Measured>,
    /// The result that is taken up, whose whole pairs are among what was measured.
    earlier: Option<Earlier>,
}

/// A set-up's part of a pair.
struct Half<'a> {
    planned: &'a Planned,
    arm: &'a Arm,
    pair: u32,
    fleet: &'a Fleet,
    /// Of each load; none: this process makes them.
    agents: Vec<Agents>,
    /// What lies between, where it is not loopback.
    cable: Option<&'a Cable>,
}

impl Half<'_> {
    /// The link as the keys are set over it: unshaped; or as it is in the experiment.
    fn shape(&self, is_setting: bool) -> Result<(), String> {
        let gigabits = match self.arm.link {
            Link::Gigabits(gigabits) if !is_setting => Some(gigabits),
            _ => None,
        };
        self.cable.map_or(Ok(()), |cable| cable.shape(gigabits))
    }
}

impl Reproducing {
    /// Pairs until so many count. With more than two set-ups a pair is one run of each.
    fn experiment(&mut self, planned: &Planned) -> Result<(), String> {
        let wanted = planned.scale.pairs;
        let most = if planned.scale.is_quick { wanted } else { wanted + wanted / SPARE_PART };
        let arms: Vec<&Arm> = planned.arms.iter().collect();
        let is_linked = planned.arms.iter().any(|arm| arm.link != Link::Loopback);
        let cable = if is_linked { Some(Cable::lay()?) } else { None };
        // Those that the finding rests on decide how many pairs there are.
        let first = planned.steps.first().map(|step| [&step.from, &step.to]);
        let orders = pairs_balanced(usize::try_from(most).expect("32 bits"), SEED);
        let mut counted = 0;
        for (pair, order) in (0..most).zip(orders) {
            if counted == wanted {
                break;
            }
            let in_order = match (&arms[..], order) {
                ([a, b], PairOrder::AThenB) => vec![*a, *b],
                ([a, b], PairOrder::BThenA) => vec![*b, *a],
                (arms, _) => levels_shuffled(arms, SEED + u64::from(pair)),
            };
            let is_kept = self.earlier.as_ref().is_some_and(|it| it.has(&planned.id.to_string(), pair));
            for arm in in_order.into_iter().filter(|_| !is_kept) {
                let host = Host::of(arm.link, cable.as_ref(), self.bind);
                let fleet = fleet(planned, arm, &self.place, &host);
                let agents = self.agents(planned, &fleet)?;
                self.half(&Half { planned, arm, pair, fleet: &fleet, agents, cable: cable.as_ref() })?;
                if self.stop.is_set() {
                    return Ok(());
                }
            }
            let is_own = |run: &&Measured| run.experiment == planned.id.to_string() && run.pair == pair;
            let runs = || self.measured.iter().filter(is_own);
            let doubts = runs().flat_map(|run| &run.doubts).count();
            let is_of_first = |run: &&Measured| first.is_some_and(|arms| arms.contains(&&run.arm));
            counted += u32::from(runs().filter(is_of_first).all(|run| run.doubts.is_empty()));
            let fate = if doubts == 0 { "ok".to_owned() } else { format!("{doubts} doubts") };
            let fate = if is_kept { format!("{fate}, kept") } else { fate };
            self.live.line(&format!("{} pair {} of {wanted}: {fate}", planned.id, pair + 1));
        }
        Ok(())
    }

    /// Those that make each load of a set-up: no more of them than it has connections at its lowest level.
    fn agents(&self, planned: &Planned, fleet: &Fleet) -> Result<Vec<Agents>, String> {
        let Some(roster) = &self.roster else { return Ok(Vec::new()) };
        let each = connections_least(Preset::of(planned.id), &planned.scale);
        let instances = fleet.targets.iter().map(|target| target.instances).min().unwrap_or(1);
        let most = usize::try_from(each * instances).expect("32 bits");
        roster.groups(fleet.targets.len(), most)
    }

    /// Fresh servers, and all levels on them.
    fn half(&mut self, half: &Half<'_>) -> Result<(), String> {
        let login = Login::default();
        half.shape(true)?;
        let mut servers = Vec::new();
        for (index, setup) in half.fleet.servers.iter().enumerate() {
            let letter = format!("{}-{index}", half.arm.arm.replace([' ', '/'], ""));
            let server = Server::start(setup, &login, &letter, &self.stop)?;
            if let (true, Some(pid)) = (half.fleet.is_loose, server.pid) {
                machine::move_threads(pid, &self.place.cpus)
                    .map_err(|error| format!("the server's threads can't be let loose: {error}"))?;
            }
            servers.push(server);
        }
        let pids: Vec<Option<u32>> = servers.iter().map(|server| server.pid).collect();
        let levels = &half.planned.scale.levels;
        if levels.is_empty() {
            self.level(half, None, &pids, true)?;
        } else {
            let shuffled = levels_shuffled(levels, SEED + u64::from(half.pair));
            let sets_anew = half.planned.id == Id::E3;
            for (at, level) in shuffled.into_iter().enumerate() {
                if self.stop.is_set() {
                    break;
                }
                self.level(half, Some(level), &pids, at == 0 || sets_anew)?;
            }
        }
        // The copies before their master.
        servers.into_iter().rev().try_for_each(Server::end)
    }

    /// One level: a run for each load. `sets` the keys before.
    fn level(
        &mut self,
        half: &Half<'_>,
        level: Option<u32>,
        pids: &[Option<u32>],
        sets: bool,
    ) -> Result<(), String> {
        let order = |(index, target)| order(half, target, level, half.agents.get(index).cloned());
        let orders: Vec<Order> = half.fleet.targets.iter().enumerate().map(order).collect();
        if sets {
            half.shape(true)?;
            self.set_keys(half.fleet, &orders[0])?;
            if self.stop.is_set() {
                return Ok(());
            }
        }
        half.shape(false)?;
        let first = self.runs_count;
        // The machine is one for all loads of a level: what changes is told at the first.
        let (arm, threads) = (format!("{} {}", half.planned.id, half.arm.arm), orders[0].thread_count);
        let words = half.fleet.servers[0].start.as_deref();
        let version = watch::server_version(half.fleet.servers[0].address(), &Login::default());
        let (before, news) = self.witness.before(first, &arm, threads, words, pids[0], version);
        news.into_iter().for_each(|line| self.journal.put(line));
        let mut watches = Vec::new();
        for ((number, order), pid) in (first..).zip(&orders).zip(pids) {
            self.journal.put(Line::Run(self.head(half, order, level, number)));
            watches.push(Watch::among(self.clock, *pid, pids));
        }
        self.runs_count += u32::try_from(orders.len()).expect("instances are few");
        self.live.begin(&format!("{} {} {}", half.planned.id, half.pair + 1, half.arm.arm), &orders[0]);
        let outcomes = self.together(&orders, first, &mut watches)?;
        let mut problem = None;
        for ((number, outcome), watch) in (first..).zip(&outcomes).zip(&watches) {
            let mut end = run::end(number, outcome);
            end.server_cpu_ns = watch.server_cpu_ns();
            if number == first {
                end.machine_changes = self.witness.after(&before);
            }
            self.journal.put(Line::RunEnd(end));
            let of = || format!("{} of {}", half.arm.name, half.planned.id);
            problem = problem.or(outcome.failure.as_ref().map(|failure| format!("{}: {failure}", of())));
        }
        self.live.clear();
        let runs = &self.journal.saved().runs;
        self.measured.extend(runs[runs.len() - orders.len()..].iter().map(Measured::of));
        self.journal.forget_seconds();
        problem.map_or(Ok(()), Err)
    }

    /// All loads at once, their seconds into the journal as they come.
    fn together(
        &mut self,
        orders: &[Order],
        first: u32,
        watches: &mut [Watch],
    ) -> Result<Vec<Outcome>, String> {
        let (out, seconds) = channel();
        let stop = self.stop.clone();
        std::thread::scope(|scope| {
            let loads: Vec<_> = orders
                .iter()
                .enumerate()
                .map(|(index, order)| {
                    let (stop, out) = (&stop, out.clone());
                    scope.spawn(move || one(order, stop, index, &out))
                })
                .collect();
            drop(out);
            for (index, second) in seconds {
                self.live.second(&second);
                let run = first + u32::try_from(index).expect("instances are few");
                let counters = watches[index].second();
                self.journal.put(Line::Second(SavedSecond { run, second, counters }));
            }
            loads.into_iter().map(|load| load.join().expect("a load's thread ends by itself")).collect()
        })
    }

    fn head(&self, half: &Half<'_>, order: &Order, level: Option<u32>, number: u32) -> RunHead {
        let sweep = Preset::of(half.planned.id).sweep.name();
        RunHead {
            run: number,
            experiment: half.planned.id.to_string(),
            arm: half.arm.arm.clone(),
            pair: Some(half.pair),
            level: level.map(|level| (sweep.to_owned(), f64::from(level))),
            address: order.endpoint.to_string(),
            protocol: order.login.dialect.to_string(),
            connection_count: order.connection_count,
            pipeline: order.pipeline,
            thread_count: u32::from(order.thread_count) * order.agents.as_ref().map_or(1, Agents::count),
            warm_up_s: Some(half.planned.scale.warm_up_s),
            duration_s: order.duration.as_secs_f64(),
            seed: order.seed,
            workload: order.workload.clone(),
            began_unix_ms: self.clock.unix_ms(),
            ..RunHead::default()
        }
    }

    /// Every key of the first server; then its copies have them too.
    fn set_keys(&mut self, fleet: &Fleet, order: &Order) -> Result<(), String> {
        let first = fleet.servers[0].address().clone();
        let order = if order.login.dialect.has_map() {
            // Its keys are reached by its own doors alone.
            order.clone()
        } else {
            Order { endpoint: first, is_cluster: false, ..order.clone() }
        };
        run::preload(&order, &self.stop, &mut self.live)?;
        self.live.clear();
        if !fleet.are_copies {
            return Ok(());
        }
        fleet.servers[1..]
            .iter()
            .try_for_each(|copy| self.await_copy(copy.address(), order.workload.key_count))
    }

    /// Until a copy says that it follows its master, and has all of its keys.
    fn await_copy(&self, endpoint: &Endpoint, key_count: u64) -> Result<(), String> {
        let mut connected = Connected::new(endpoint, &Login::default()).map_err(|error| error.to_string())?;
        for _ in 0..COPY_PATIENCE.as_millis() / LOOK.as_millis() {
            let mut ask =
                |words: &[&[u8]]| connected.ask(words).map_err(|error| format!("{endpoint}: {error}"));
            let size = ask(&[b"DBSIZE"])?;
            let state = ask(&[b"INFO", b"replication"])?;
            let has_all = matches!(size, Reply::Integer(count) if u64::try_from(count) == Ok(key_count));
            if (has_all && follows(&state)) || self.stop.is_set() {
                return Ok(());
            }
            pause();
        }
        Err(format!("{endpoint}: the copy does not have all keys within {} s", COPY_PATIENCE.as_secs()))
    }
}

/// Whether a copy's own description says that its master is there.
fn follows(state: &Reply) -> bool {
    let bytes = match state {
        Reply::Verbatim(_, bytes) => Some(&bytes[..]),
        reply => reply.bytes(),
    };
    bytes.is_some_and(|bytes| String::from_utf8_lossy(bytes).contains("master_link_status:up"))
}

/// One of the loads that run together.
fn one(order: &Order, stop: &Stop, index: usize, out: &Sender<(usize, Second)>) -> Result<Outcome, String> {
    load(order, stop, |second| {
        out.send((index, second.clone())).expect("whoever started this load waits for it");
    })
}

/// A load of a level.
fn order(half: &Half<'_>, target: &Target, level: Option<u32>, agents: Option<Agents>) -> Order {
    let preset = Preset::of(half.planned.id);
    let mut workload = preset.workload(level);
    if target.dialect == Dialect::Aerospike {
        // Integers, as the published program's keys were.
        workload.key_prefix.clear();
    }
    Order {
        endpoint: target.endpoint.clone(),
        login: Login { dialect: target.dialect, ..Login::default() },
        is_cluster: target.is_cluster,
        connection_count: preset.connections_at(level) * target.instances,
        pipeline: preset.pipeline,
        thread_count: target.thread_count,
        cpus: target.cpus.clone(),
        pace: Pace::Closed,
        ramp: Duration::ZERO,
        waiting: Waiting::Sleep,
        workload,
        duration: Duration::from_secs_f64(half.planned.scale.level_s),
        requests_max: u64::MAX,
        seed: SEED + u64::from(half.pair),
        agents,
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever waits for a copy has nothing else to do")]
fn pause() {
    std::thread::sleep(LOOK);
}
