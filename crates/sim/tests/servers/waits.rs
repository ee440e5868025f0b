//! How long a request waits whose keys others race for with commands over several lanes. Counted in rounds, in each of which every
//! lane has had a turn; docs/transactions.md says why there is a bound.

use lane::Settings;
use net::fault::Faults;
use sim::{Chance, Client, World};
use wire::client::Counter;
use wire::route::{PartitionMap, Slot};

/// Rounds that a transaction of [`race`] takes at most once it has begun: two for its locks, two for each stage, of which RENAME, COPY
/// and MSETNX take two each and a MULTI has four, and two until the locks are free again.
const TRANSACTION_ROUNDS_MAX: usize = 2 + 2 * 2 * 4 + 2;
/// Rounds that a GET takes which nobody stands in the way of, however many race: asked for, forwarded, answered, delivered, each
/// of them a round late at most.
const FREE_ROUNDS_MAX: usize = 8;
/// Names of a long transaction on each lane: more than one asks for at once.
const LONG_COUNT: usize = 280;
/// Parts of its transactions that a lane may have under way on another one.
const PLACES: usize = 64;

/// A client that asks when all it has asked before is answered.
struct Asker {
    client: Client,
    counter: Counter,
    replies_left: usize,
    waited: usize,
    /// The longest that it has waited, and how often it was answered.
    waited_max: usize,
    answered: usize,
}

impl Asker {
    fn new(client: Client) -> Asker {
        let counter = Counter::default();
        Asker { client, counter, replies_left: 0, waited: 0, waited_max: 0, answered: 0 }
    }

    /// Looks for replies; then asks, if it waits for none.
    fn act(&mut self, lines: impl FnOnce() -> Vec<String>) {
        self.client.pump();
        while self.replies_left > 0 {
            let (outcome, size) = self.counter.next(&self.client.received).expect("the server speaks RESP");
            self.client.received.drain(..size);
            if outcome.is_none() {
                return;
            }
            self.replies_left -= 1;
            self.answered += usize::from(self.replies_left == 0);
        }
        let lines = lines();
        let mut bytes = Vec::new();
        for line in &lines {
            wire::client::command(&mut bytes, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        self.client.send(&bytes);
        self.client.pump();
        (self.replies_left, self.waited) = (lines.len(), 0);
    }

    fn wait(&mut self) {
        self.waited += 1;
        self.waited_max = self.waited_max.max(self.waited);
    }
}

fn pick<'a>(chance: &mut Chance, keys: &'a [String]) -> &'a str {
    &keys[chance.below(keys.len())]
}

/// A command of several keys, or a MULTI of some, mostly under WATCH.
fn race(chance: &mut Chance, keys: &[String]) -> Vec<String> {
    let command = |chance: &mut Chance| {
        let [a, b, c] = [0; 3].map(|_| pick(chance, keys));
        match chance.below(6) {
            0 => format!("MSET {a} 1 {b} 2 {c} 3"),
            1 => format!("RENAME {a} {b}"),
            2 => format!("COPY {a} {b} REPLACE"),
            3 => format!("MGET {a} {b} {c}"),
            4 => format!("MSETNX {a} 1 {b} 2"),
            _ => format!("INCR {a}"),
        }
    };
    if chance.hits(300) {
        return vec![command(chance)];
    }
    let mut lines = Vec::new();
    if chance.hits(700) {
        lines.push(format!("WATCH {} {}", pick(chance, keys), pick(chance, keys)));
    }
    lines.push("MULTI".to_owned());
    lines.extend((0..chance.between(1, 4)).map(|_| command(chance)));
    lines.push("EXEC".to_owned());
    lines
}

/// All keys at once, and so many others that it is done lane by lane.
fn long(keys: &[String], lane_count: u16) -> String {
    let others = (0..LONG_COUNT * usize::from(lane_count)).map(|number| format!(" other:{number} 1"));
    keys.iter()
        .map(|key| format!(" {key} 1"))
        .chain(others)
        .fold("MSET".to_owned(), |line, pair| line + &pair)
}

/// Which of those who race send [`long`] commands.
#[derive(Clone, Copy)]
enum Long {
    None,
    /// All of them, for a while.
    Once,
    /// Two of them, always.
    Two,
}

#[derive(Clone, Copy)]
struct Race {
    lane_count: u16,
    racer_count: usize,
    key_count: usize,
    long: Long,
    /// How often a lane misses a round, in thousandths, at times.
    delay: usize,
    rounds: usize,
}

struct Outcome {
    /// The longest that a GET of a key of those who race, and a small MULTI of two, waited; and a GET of another key.
    get_waited: usize,
    multi_waited: usize,
    free_waited: usize,
    multi_count: usize,
    /// Transactions, and parts of them that were refused, in the second half.
    transactions: u64,
    refused: u64,
}

impl Race {
    fn run(self, seed: u64) -> Outcome {
        let mut chance = Chance::new(seed);
        let faults = match self.delay {
            0 => Faults::default(),
            _ => Faults { cut_input: 100, shorten_send: 100, reorder_events: 300, ..Faults::default() },
        };
        let mut world = World::new(self.lane_count, &Settings::default(), seed, faults);
        let keys: Vec<String> = (0..self.key_count).map(|number| format!("key:{number}")).collect();
        let connect = |number| Asker::new(world.connect(number % usize::from(self.lane_count)));
        let mut racers: Vec<Asker> = (0..self.racer_count).map(connect).collect();
        let [mut get, mut multi, mut free] = [0, 1, 2].map(connect);
        let mut missing = vec![0; world.node_count()];
        let mut had_turn = vec![false; world.node_count()];
        let counts = |world: &World| {
            let stats = world.lanes.iter().map(lane::Lane::stats);
            stats.fold((0, 0), |sum, stats| (sum.0 + stats.transactions, sum.1 + stats.parts_refused))
        };
        let mut before = (0, 0);
        let mut round = 0;
        while round < self.rounds {
            for (number, racer) in racers.iter_mut().enumerate() {
                let is_long = match self.long {
                    Long::None => false,
                    Long::Once => (self.rounds / 8..self.rounds / 8 + 100).contains(&round),
                    Long::Two => number < 2,
                };
                racer.act(|| match is_long {
                    true => vec![long(&keys, self.lane_count)],
                    false => race(&mut chance, &keys),
                });
            }
            get.act(|| vec![format!("GET {}", pick(&mut chance, &keys))]);
            let small = ["INCR", "GET"].map(|name| format!("{name} {}", pick(&mut chance, &keys)));
            multi.act(|| {
                let [first, second] = small;
                vec!["MULTI".to_owned(), first, second, "EXEC".to_owned()]
            });
            free.act(|| vec![format!("GET free:{round}")]);
            if self.delay > 0 && chance.hits(20) {
                missing.iter_mut().for_each(|share| *share = chance.pick(&[0, 0, 500, self.delay]));
            }
            for lane in chance.order(world.node_count()) {
                if !chance.hits(missing[lane]) {
                    world.turn_if_due(lane);
                    had_turn[lane] = true;
                }
            }
            world.pass(100_000);
            if had_turn.iter().all(|had| *had) {
                had_turn.fill(false);
                racers.iter_mut().chain([&mut get, &mut multi, &mut free]).for_each(Asker::wait);
                round += 1;
                if round == self.rounds / 2 {
                    before = counts(&world);
                }
            }
        }
        let after = counts(&world);
        Outcome {
            get_waited: get.waited_max,
            multi_waited: multi.waited_max,
            free_waited: free.waited_max,
            multi_count: multi.answered,
            transactions: after.0 - before.0,
            refused: after.1 - before.1,
        }
    }
}

const RACE: Race =
    Race { lane_count: 4, racer_count: 8, key_count: 12, long: Long::None, delay: 0, rounds: 10_000 };

/// Nobody who races is met more than once, and who asks for another key meets nobody.
fn check_race(race: Race, seed: u64) {
    let outcome = race.run(seed);
    let rounds_max = (race.racer_count + 1) * TRANSACTION_ROUNDS_MAX;
    let waited = outcome.get_waited.max(outcome.multi_waited);
    assert!(waited <= rounds_max, "seed {seed}: {waited} rounds where {rounds_max} are enough");
    assert!(outcome.free_waited <= FREE_ROUNDS_MAX, "seed {seed}: {} rounds", outcome.free_waited);
    let (transactions, refused) = (outcome.transactions, outcome.refused);
    assert!(transactions > 1000 && refused * 10 < transactions, "seed {seed}: {refused} of {transactions}");
}

#[test]
fn a_request_waits_for_each_of_those_that_race_once() {
    for seed in 1..4 {
        for key_count in [1, 6, 12, 40] {
            check_race(Race { key_count, ..RACE }, seed);
        }
        check_race(Race { lane_count: 8, key_count: 16, ..RACE }, seed);
        check_race(Race { delay: 900, rounds: 4000, ..RACE }, seed);
    }
}

/// Transactions that go lane by lane have others refused. When they are over, all is as it was before.
#[test]
fn a_race_is_as_fast_as_before_when_long_commands_are_over() {
    for (lane_count, racer_count, key_count) in [(4, 24, 36), (8, 8, 16), (4, 60, 60)] {
        let race = Race { lane_count, racer_count, key_count, long: Long::Once, ..RACE };
        let Outcome { transactions, refused, .. } = race.run(1);
        assert!(refused * 10 < transactions, "{refused} of {transactions} transactions are refused");
    }
}

/// Who is refused for a transaction that goes lane by lane, one after the other of which is there, follows in its way.
#[test]
fn small_commands_keep_up_with_long_ones() {
    for seed in 1..3 {
        let outcome = Race { long: Long::Two, ..RACE }.run(seed);
        let (waited, count) = (outcome.multi_waited, outcome.multi_count);
        assert!(waited < 100 && count > 400, "seed {seed}: {waited} rounds, {count} are answered");
    }
}

/// A long transaction holds lanes and wants a place on the next. Before it wait many whose places another lane has not, because others
/// wait there, with a place, for what it holds: it goes first.
#[test]
fn who_holds_locks_waits_for_a_place_before_the_others() {
    const LANES: u16 = 3;
    const ROUNDS: usize = 1000;
    let map = PartitionMap::even(LANES);
    let key_of = |lane| {
        let keys = (0..).map(|number| format!("key:{number}"));
        let mut there = keys.filter(|key| map.owner(Slot::of(key.as_bytes())).0 == lane);
        there.next().expect("every lane has keys")
    };
    let keys = [key_of(0), key_of(1), key_of(2)];
    let look = |key: &str| vec!["MULTI".to_owned(), format!("GET {key}"), "EXEC".to_owned()];
    let groups = [(300, look(&keys[1])), (300, look(&keys[2])), (3, vec![long(&keys, LANES)])];
    let mut world = World::quiet(LANES);
    let mut askers = Vec::new();
    for (count, lines) in &groups {
        askers.extend((0..*count).map(|_| (Asker::new(world.connect(0)), lines)));
    }
    for _ in 0..ROUNDS {
        for (asker, lines) in &mut askers {
            asker.act(|| lines.to_vec());
        }
        world.round();
        askers.iter_mut().for_each(|(asker, _)| asker.wait());
    }
    let waited = askers.iter().map(|(asker, _)| asker.waited_max).max();
    assert!(waited.is_some_and(|rounds| rounds < ROUNDS * 3 / 4), "{waited:?} rounds");
}

/// Whenever places come free, there are as many newcomers who could take them: who has waited goes first.
#[test]
fn who_waits_for_a_place_is_not_overtaken_by_newcomers() {
    const COUNT: usize = 3 * PLACES;
    let mut world = World::quiet(2);
    let (mut askers, mut others) = (Vec::new(), Vec::new());
    for _ in 0..COUNT {
        askers.push(Asker::new(world.connect(0)));
        others.push(world.connect(1));
        world.round();
    }
    assert_eq!(world.lanes[0].stats().clients, COUNT as u64, "those who ask are the first lane's");
    let map = PartitionMap::even(2);
    let mut keys = (0..).map(|number| format!("key:{number}"));
    let key = keys.find(|key| map.owner(Slot::of(key.as_bytes())).0 == 1).expect("every lane has keys");
    let lines = ["MULTI".to_owned(), format!("GET {key}"), "EXEC".to_owned()];
    for cycle in 0..20 {
        // Some begin when others have been served.
        let count = if cycle == 0 { COUNT / 2 } else { COUNT };
        askers[..count].iter_mut().for_each(|asker| asker.act(|| lines.to_vec()));
        for lane in [0, 1] {
            (0..40).for_each(|_| _ = world.turn(lane));
        }
        askers[..count].iter_mut().for_each(Asker::wait);
    }
    let waited = askers.iter().map(|asker| asker.waited_max).max();
    assert!(waited.is_some_and(|cycles| cycles <= COUNT / PLACES + 1), "{waited:?} cycles");
}

/// Rings that are full, too: of a hundred lanes each holds ten asks and five parts for each other.
#[test]
#[ignore = "takes minutes; run it with the long seeds"]
fn many_races() {
    for seed in 1..20 {
        for (lane_count, racer_count, key_count) in
            [(2, 8, 4), (4, 8, 12), (4, 150, 12), (16, 8, 32), (24, 24, 24), (24, 150, 30), (100, 150, 100)]
        {
            let race = Race { lane_count, racer_count, key_count, ..RACE };
            check_race(race, seed);
            check_race(Race { delay: 900, rounds: 2000, ..race }, seed);
        }
    }
}
