//! One seed: a server, clients, faults, and what must hold of it all.

use std::collections::BTreeMap;

use lane::Settings;
use net::fault::Faults;

use crate::caller::{Caller, History, Manners};
use crate::chance::Chance;
use crate::linear::{Event, Verdict, search};
use crate::object::Object;
use crate::program::{Author, Theme};
use crate::world::World;

/// Looks at the meter in a turn: one for each of its commands, two for each slice, one for each ask, and a few. Generous
/// for the few requests that callers have under way; a turn without a bound exceeds it.
const TURN_LOOKS_MAX: u64 = 1024;
/// Arguments of owned commands that a turn may look at: those of some thousand elements in its slices, and of short commands.
const ARGS_LOOKED_MAX: u64 = 16 * 1024;
/// How old the time may be by which a lane goes: it reads the clock when its turn begins, and hears until that ends.
pub(crate) const LAG_MS_MAX: usize = 3;
/// Rounds within which some byte must come or go while anybody waits, once faults have stopped and clients read.
/// The longest work that a run asks for is a FLUSHALL over a few databases, some hundred slices a lane, from each client.
const ROUNDS_MAX: usize = 5_000;

/// What is asked of a run besides its seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// So many lanes, instead of what chance decides.
    pub lane_count: Option<u16>,
    /// So many clients, instead of what chance decides.
    pub caller_count: Option<usize>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Replies received.
    pub replies: u64,
    /// Connections lost or left.
    pub losses: u64,
    /// Things whose replies were explained.
    pub explained: u64,
    /// Things for which the search gave up.
    pub undecided: u64,
    /// Transactions.
    pub transactions: u64,
    /// Parts refused.
    pub refused: u64,
    /// Commands that waited for a lock.
    pub waits: u64,
    /// Connections handed over to another lane.
    pub handovers: u64,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: Tally) {
        self.replies += other.replies;
        self.losses += other.losses;
        self.explained += other.explained;
        self.undecided += other.undecided;
        self.transactions += other.transactions;
        self.refused += other.refused;
        self.waits += other.waits;
        self.handovers += other.handovers;
    }
}

/// Plays a seed to its end.
///
/// # Errors
/// What a client saw that cannot be, or what was left undone or left behind. Promises that a lane breaks inside panic.
pub fn run(seed: u64, wishes: Wishes) -> Result<Tally, String> {
    Run::new(seed, wishes).play()
}

struct Run {
    world: World,
    chance: Chance,
    author: Author,
    callers: Vec<Caller>,
    history: History,
    /// How often a lane or the control misses a round, in thousandths; changes now and then.
    starved: Vec<usize>,
    jumps: bool,
    /// How old the time may be by which a lane goes, nanoseconds.
    lag_ns_max: usize,
}

impl Run {
    fn new(seed: u64, wishes: Wishes) -> Run {
        let mut chance = Chance::new(seed);
        let lane_count = u16::try_from(chance.between(1, 5)).expect("a few lanes");
        let lane_count = wishes.lane_count.unwrap_or(lane_count);
        let faults = faults(&mut chance);
        let caller_count = chance.between(2, 7);
        let caller_count = wishes.caller_count.unwrap_or(caller_count);
        let mut group_sizes = vec![2, 3, 5];
        if chance.hits(300) {
            group_sizes.push(chance.between(300, 2000));
        }
        if chance.hits(200) {
            group_sizes.push(chance.between(200, 600));
        }
        let theme = Theme {
            register_count: chance.between(2, 8),
            counter_count: chance.between(1, 3),
            group_sizes,
            watched_count: chance.between(1, 2),
            account_count: chance.between(2, 6),
            place_count: chance.between(2, 5),
            fleeting_count: chance.between(1, 4),
            crew_sizes: [2, chance.between(3, 8), chance.pick(&[3, 40, 300])],
            has_long_values: chance.hits(400),
            flushes: chance.hits(250),
            is_steady: chance.hits(700),
        };
        let manners = Manners {
            depth_max: chance.pick(&[1, 4, 16, 100]),
            cuts: chance.pick(&[0, 100, 700]),
            sloth: chance.pick(&[0, 300, 900]),
            leaves: chance.pick(&[0, 0, 30, 150]),
            is_cut_off: faults.drop_connection > 0 || faults.refuse_taken > 0,
            pipe_size: chance.pick(&[64 * 1024, 64 * 1024, 1_000, 1_000_000]),
        };
        let requests = chance.between(10, 60);
        let callers = (0..caller_count).map(|number| Caller::new(number, manners, requests)).collect();
        let settings = Settings {
            database_count: chance.pick(&[1, 1, 3]),
            // The meter counts looks at it, one for each thing done: a turn's work is a time.
            meter_per_us: 1,
            stall_us: Some(TURN_LOOKS_MAX),
            ..Settings::default()
        };
        let mut world = World::new(lane_count, &settings, seed, faults);
        world.attend();
        Run {
            starved: vec![0; world.node_count()],
            world,
            jumps: chance.hits(300),
            lag_ns_max: chance.pick(&[0, 500_000, LAG_MS_MAX * 1_000_000]),
            chance,
            author: Author::new(theme),
            callers,
            history: History::default(),
        }
    }

    fn play(mut self) -> Result<Tally, String> {
        let calm =
            Manners { depth_max: 1, cuts: 0, sloth: 0, leaves: 0, is_cut_off: false, pipe_size: 1 << 20 };
        let faults = self.world.set_faults(Faults::default());
        let mut witness = Caller::new(usize::MAX, calm, 0);
        let beginnings = self.author.beginnings();
        witness.ask(&self.world, &mut self.chance, &mut self.history, beginnings);
        let callers = std::mem::take(&mut self.callers);
        self.settle(&mut witness)?;
        witness.leave();
        self.callers = callers;
        self.world.set_faults(faults);

        let mut rounds_left = self.chance.between(50, 600);
        while rounds_left > 0 && !self.callers.iter().all(Caller::is_done) {
            rounds_left -= 1;
            self.round()?;
        }
        // From here on nothing goes wrong any more, and everything asked is answered.
        self.world.set_faults(Faults::default());
        self.starved.fill(0);
        self.callers.iter_mut().for_each(Caller::rest);
        self.settle(&mut witness)?;
        let endings = self.author.endings();
        witness.ask(&self.world, &mut self.chance, &mut self.history, endings);
        self.settle(&mut witness)?;
        self.check_bounds()?;
        let mut tally = self.explain()?;
        tally.replies = self.callers.iter().map(|caller| caller.replies).sum();
        tally.losses = self.callers.iter().map(|caller| caller.losses).sum();
        self.leave_nothing(witness)?;
        for lane in &self.world.lanes {
            let stats = lane.stats();
            tally.transactions += stats.transactions;
            tally.refused += stats.parts_refused;
            tally.waits += stats.lock_waits;
            tally.handovers += stats.handovers;
        }
        Ok(tally)
    }

    /// Clients act and lanes take turns, in any order; some miss theirs.
    fn round(&mut self) -> Result<(), String> {
        let Run { world, chance, author, callers, history, starved, jumps, lag_ns_max } = self;
        let lag_ns = |chance: &mut Chance| u64::try_from(chance.below(*lag_ns_max)).expect("a short time");
        world.lags_ns.iter_mut().for_each(|lag| *lag = lag_ns(chance));
        if chance.hits(20) {
            let shares = [0, 0, 500, 950];
            starved.iter_mut().for_each(|share| *share = chance.pick(&shares));
        }
        for at in chance.order(callers.len() + world.node_count()) {
            history.clock += 1;
            match at.checked_sub(callers.len()) {
                None => callers[at].act(world, chance, author, history)?,
                Some(node) if chance.hits(starved[node]) => {}
                Some(node) => world.turn_if_due(node),
            }
        }
        let most_ns = match *lag_ns_max {
            _ if *jumps && chance.hits(20) => 60_000_000_000,
            0 => 200_000,
            // Turns in which a millisecond passes.
            _ => 1_500_000,
        };
        world.pass(u64::try_from(chance.below(most_ns)).expect("a short time"));
        if !author.theme.is_steady && chance.hits(10) {
            // Somebody sets the wall clock; the other clock goes on.
            world.now.unix_ms -= i64::try_from(chance.below(3_600_000)).expect("an hour");
        }
        Ok(())
    }

    /// Goes on until everything is answered. That it ends is what shows that nobody waits for ever.
    fn settle(&mut self, witness: &mut Caller) -> Result<(), String> {
        let (mut rounds_left, mut moved_size) = (ROUNDS_MAX, 0);
        while rounds_left > 0 {
            rounds_left -= 1;
            let moved_size_now = (0..self.world.lanes.len())
                .map(|lane| self.world.counters(lane))
                .map(|of| of.bytes_in + of.bytes_out)
                .sum();
            if moved_size < moved_size_now {
                (rounds_left, moved_size) = (ROUNDS_MAX, moved_size_now);
            }
            let is_quiet = self.world.is_idle() && self.world.is_asleep();
            if is_quiet && witness.is_done() && self.callers.iter().all(|caller| caller.pending_count() == 0)
            {
                return Ok(());
            }
            self.round()?;
            witness.act(&self.world, &mut self.chance, &mut self.author, &mut self.history)?;
        }
        let waiting: Vec<String> =
            self.callers.iter().chain([&*witness]).filter_map(Caller::waits_for).collect();
        let busy: Vec<bool> = self.world.lanes.iter().map(lane::Lane::is_idle).collect();
        Err(format!(
            "not everything ends: {waiting:#?}, lanes idle: {busy:?}, asleep: {}",
            self.world.is_asleep()
        ))
    }

    fn check_bounds(&self) -> Result<(), String> {
        for lane in &self.world.lanes {
            let stats = lane.stats();
            if stats.turn_commands_max > 1024 || stats.turn_slices_max > 16 || stats.turns_stalled > 0 {
                return Err(format!("a turn was too long: {stats:?}"));
            }
        }
        if self.world.args_looked_max > ARGS_LOOKED_MAX {
            return Err(format!("a turn looked at {} arguments", self.world.args_looked_max));
        }
        Ok(())
    }

    /// Looks for an order of what happened to each thing that explains every reply.
    fn explain(&self) -> Result<Tally, String> {
        let mut tally = Tally::default();
        let mut by_object: BTreeMap<Object, BTreeMap<u32, Vec<&Event>>> = BTreeMap::new();
        let mut is_void = vec![false; self.history.events.len()];
        self.history.void.iter().for_each(|&event| is_void[event] = true);
        for ((object, event), _) in self.history.events.iter().zip(&is_void).filter(|(_, is_void)| !**is_void)
        {
            by_object.entry(*object).or_default().entry(event.session).or_default().push(event);
        }
        for (object, lines) in by_object {
            let lines: Vec<Vec<&Event>> = lines.into_values().collect();
            match search(&lines) {
                Verdict::Explained => tally.explained += 1,
                Verdict::Undecided => tally.undecided += 1,
                Verdict::Impossible => {
                    // Looks that were not answered explain nothing.
                    let tells = |event: &&&Event| event.seen.is_some() || !event.op.is_read();
                    let mut all: Vec<&&Event> = lines.iter().flatten().filter(tells).collect();
                    all.sort_by_key(|event| event.begin);
                    let all: Vec<String> = all.iter().map(|event| format!("{event:?}")).collect();
                    return Err(format!(
                        "no order explains what was seen of {object:?}:\n{}",
                        all.join("\n")
                    ));
                }
            }
        }
        Ok(tally)
    }

    /// Everybody leaves and everything is deleted: what is left must be nothing.
    fn leave_nothing(&mut self, mut witness: Caller) -> Result<(), String> {
        self.callers.iter_mut().for_each(Caller::leave);
        let flush = self.author.flush();
        witness.ask(&self.world, &mut self.chance, &mut self.history, vec![flush]);
        self.settle(&mut witness)?;
        witness.leave();
        self.settle(&mut witness)?;
        for (number, lane) in self.world.lanes.iter().enumerate() {
            lane.audit();
            let memory = lane.shard().memory();
            if (memory.keys, memory.ropes, memory.retired) != (0, 0, 0) {
                return Err(format!("lane {number} keeps something of an emptied database: {memory:?}"));
            }
        }
        Ok(())
    }
}

fn faults(chance: &mut Chance) -> Faults {
    if chance.hits(250) {
        return Faults::default();
    }
    let mut often = |most: u16| if chance.hits(500) { most } else { 0 };
    Faults {
        cut_input: often(400),
        delay_event: often(400),
        shorten_send: often(400),
        reorder_events: often(500),
        drop_connection: often(4),
        refuse_taken: often(100),
    }
}
