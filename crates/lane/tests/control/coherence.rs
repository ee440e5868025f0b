//! CLIENT TRACKING under seeds: clients keep what they have read until they are told that it has changed. Whatever others do
//! meanwhile, and however many lanes there are: once all is quiet nobody keeps an old value.

use std::collections::{BTreeMap, VecDeque};

use net::mem;
use wire::client::{Collector, Reply};

use crate::world::World;

const SEEDS: u64 = 120;
const STEPS: usize = 60;
const KEYS: [&str; 7] = ["a", "b", "c", "d", "{t}e", "{t}f", "g"];
const MODES: [&str; 6] =
    ["on", "on noloop", "on optout", "on bcast", "on bcast noloop", "on bcast prefix { prefix a"];

/// xorshift64*, as good as it has to be.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).unwrap() % bound
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.below(KEYS.len())]
    }
}

/// What a reply means to whoever has asked for it.
enum Asked {
    /// The values of these keys.
    Values(Vec<&'static str>),
    /// These are others now.
    Changed(Vec<&'static str>),
    /// All may be.
    Everything,
    Nothing,
}

/// A client that keeps what it has read, if it has said that it does.
struct Keeper {
    client: mem::Client,
    collector: Collector,
    bytes: Vec<u8>,
    asked: VecDeque<Asked>,
    kept: Option<BTreeMap<String, Reply>>,
    /// It is told of keys that begin like this alone, and keeps no others.
    prefixes: &'static [&'static str],
}

impl Keeper {
    fn new(world: &mut World, lane: usize, mode: Option<&str>) -> Keeper {
        let client = world.connect_at(lane);
        let mut keeper = Keeper {
            client,
            collector: Collector::default(),
            bytes: Vec::new(),
            asked: VecDeque::new(),
            kept: mode.map(|_| BTreeMap::new()),
            prefixes: if mode.is_some_and(|mode| mode.contains("prefix")) { &["{", "a"] } else { &[""] },
        };
        keeper.say("HELLO 3", Asked::Nothing);
        if let Some(mode) = mode {
            keeper.say(&format!("CLIENT TRACKING {mode}"), Asked::Nothing);
        }
        keeper
    }

    fn say(&mut self, line: &str, asked: Asked) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &words);
        assert_eq!(self.client.write(&bytes), bytes.len());
        self.asked.push_back(asked);
    }

    /// A command, as chance has it.
    fn act(&mut self, chance: &mut Chance, number: usize) {
        let (key, other) = (chance.key(), chance.key());
        let (line, asked) = match chance.below(22) {
            0..6 => (format!("GET {key}"), Asked::Values(vec![key])),
            6..8 => (format!("MGET {key} {other}"), Asked::Values(vec![key, other])),
            8 => ("FLUSHALL".to_owned(), Asked::Everything),
            9 => ("SWAPDB 0 1".to_owned(), Asked::Everything),
            10 => (format!("RENAME {key} {other}"), Asked::Changed(vec![key, other])),
            11 => (format!("MSET {key} {number} {other} {number}"), Asked::Changed(vec![key, other])),
            12 => (format!("DEL {key} {other}"), Asked::Changed(vec![key, other])),
            13 => (format!("SET {key} {number} PX {}", 1 + chance.below(40)), Asked::Changed(vec![key])),
            14 => (format!("APPEND {key} {number}"), Asked::Changed(vec![key])),
            15 => {
                let script = "return(redis.call('set',KEYS[1],ARGV[1]))";
                (format!("EVAL {script} 1 {key} {number}"), Asked::Changed(vec![key]))
            }
            16 => {
                self.say("MULTI", Asked::Nothing);
                self.say(&format!("SET {key} {number}"), Asked::Nothing);
                self.say(&format!("SET {other} {number}"), Asked::Nothing);
                ("EXEC".to_owned(), Asked::Changed(vec![key, other]))
            }
            17 => (format!("COPY {key} {other} REPLACE"), Asked::Changed(vec![other])),
            _ => (format!("SET {key} {number}"), Asked::Changed(vec![key])),
        };
        self.say(&line, asked);
    }

    /// What has come since.
    fn hear(&mut self) {
        self.bytes.extend(self.client.read_all());
        loop {
            let (reply, size) = self.collector.next(&self.bytes).unwrap();
            self.bytes.drain(..size);
            let Some(reply) = reply else { return };
            if let Reply::Push(words) = reply {
                let kept = self.kept.as_mut().expect("who keeps nothing is told nothing");
                match &words[1] {
                    Reply::Null => kept.clear(),
                    Reply::Array(keys) => keys.iter().for_each(|key| {
                        kept.remove(&String::from_utf8_lossy(key.bytes().unwrap()).into_owned());
                    }),
                    other => panic!("{other:?}"),
                }
                continue;
            }
            let asked = self.asked.pop_front().expect("what is no message answers something");
            let Some(kept) = &mut self.kept else { continue };
            match (asked, reply) {
                (Asked::Values(keys), Reply::Array(values)) => {
                    keys.into_iter()
                        .zip(values)
                        .for_each(|(key, value)| _ = kept.insert(key.to_owned(), value));
                }
                (Asked::Values(keys), value) => _ = kept.insert(keys[0].to_owned(), value),
                (Asked::Changed(keys), _) => keys.into_iter().for_each(|key| _ = kept.remove(key)),
                (Asked::Everything, _) => kept.clear(),
                (Asked::Nothing, _) => {}
            }
            kept.retain(|key, _| self.prefixes.iter().any(|prefix| key.starts_with(prefix)));
        }
    }
}

fn play(seed: u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let lane_count = [1, 1, 2, 3][chance.below(4)];
    let mut world = World::new(u16::try_from(lane_count).unwrap());
    if chance.below(3) == 0 {
        let admin = world.connect();
        world.ask(&admin, "CONFIG SET tracking-table-max-keys 3");
    }
    let mut keepers: Vec<Keeper> = (0..5)
        .map(|nth| {
            let mode = (nth < 3).then(|| MODES[chance.below(MODES.len())]);
            Keeper::new(&mut world, chance.below(lane_count), mode)
        })
        .collect();
    // What is changed before CLIENT TRACKING is answered is told to nobody.
    (0..30).for_each(|_| world.round(1_000_000));
    for step in 0..STEPS {
        let keeper = &mut keepers[chance.below(5)];
        for nth in 0..1 + chance.below(4) {
            keeper.act(&mut chance, 10 * step + nth);
        }
        for _ in 0..chance.below(4) {
            world.round(1_000_000);
        }
        keepers[chance.below(5)].hear();
    }
    (0..200).for_each(|_| world.round(1_000_000));
    keepers.iter_mut().for_each(Keeper::hear);
    let reader = world.connect();
    for key in KEYS {
        let mut there = Collector::default();
        let text = world.ask(&reader, &format!("GET {key}"));
        let there = there.next(text.as_bytes()).unwrap().0.unwrap();
        for (nth, keeper) in keepers.iter().enumerate() {
            assert!(keeper.asked.is_empty(), "seed {seed}: all is answered");
            if let Some(kept) = keeper.kept.as_ref().and_then(|kept| kept.get(key)) {
                assert_eq!(*kept, there, "seed {seed}: client {nth} keeps {key} of {lane_count} lanes");
            }
        }
    }
}

#[test]
fn nobody_keeps_an_old_value() {
    let seeds = if std::env::var_os("EXPRESSLANE_LONG").is_some() { 100 * SEEDS } else { SEEDS };
    (1..=seeds).for_each(play);
}
