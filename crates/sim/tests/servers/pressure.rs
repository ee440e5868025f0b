//! Many clients set several keys at a time, on all lanes, while there is too little memory and its limit moves: what is
//! set together stays together, everybody is answered, and nothing stays reserved or locked.

use crate::check::Dice;
use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};
use wire::client::Counter;

const MIB: u64 = 1 << 20;
const MEMBERS: usize = 12;

fn command(bytes: &mut Vec<u8>, words: &[Vec<u8>]) {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    wire::client::command(bytes, &words);
}

/// A client that owns a group of keys, of which all members always have the same value.
struct Owner {
    client: Client,
    number: usize,
    /// Replies that are still to come.
    awaited: usize,
    written: usize,
    refused: usize,
    /// There has been plenty of memory since before it asked.
    is_at_ease: bool,
}

impl Owner {
    fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        let number = self.number;
        (0..MEMBERS).map(move |member| format!("{number}:{member}").into_bytes())
    }

    /// Made of them, and longer than the command that does it.
    fn made(&self) -> Vec<u8> {
        format!("{}:made", self.number).into_bytes()
    }

    /// Sends a command for all members, or several in a MULTI.
    fn act(&mut self, dice: &mut Dice, is_at_ease: bool) {
        self.is_at_ease = is_at_ease;
        let mut bytes = Vec::new();
        self.written += 1;
        let size = dice.below(60) * dice.below(60) * dice.below(60);
        let value = [format!("{}-", self.written).into_bytes(), vec![b'v'; size]].concat();
        let pairs: Vec<Vec<u8>> = self.keys().flat_map(|key| [key, value.clone()]).collect();
        let mut call = |name: &str, rest: Vec<Vec<u8>>| {
            command(&mut bytes, &[vec![name.as_bytes().to_vec()], rest].concat());
        };
        self.awaited = 1;
        match dice.below(10) {
            0..=2 => call("MSET", pairs),
            3 => call("MSETNX", pairs),
            4 => {
                call("MULTI", Vec::new());
                pairs.chunks(2).for_each(|pair| call("SET", pair.to_vec()));
                call("EXEC", Vec::new());
                self.awaited = MEMBERS + 2;
            }
            5 => call("DEL", self.keys().collect()),
            6 => call("COPY", vec![format!("{}:0", self.number).into(), self.made(), b"REPLACE".into()]),
            7 => {
                call("BITOP", [vec![b"OR".into(), self.made()], self.keys().collect()].concat());
            }
            _ => call("MGET", self.keys().collect()),
        }
        self.client.send(&bytes);
    }

    /// Looks at what has come.
    fn hear(&mut self) {
        self.client.pump();
        let (outcome, size) = Counter::default().next(&self.client.received).expect("the server speaks RESP");
        if outcome.is_none() {
            return;
        }
        let reply: Vec<u8> = self.client.received.drain(..size).collect();
        self.awaited -= 1;
        let is_refused = reply.starts_with(b"-OOM") || reply.starts_with(b"-EXECABORT");
        self.refused += usize::from(is_refused && self.awaited == 0);
        assert!(!is_refused || !self.is_at_ease, "there is plenty");
        assert!(reply[0] != b'-' || is_refused);
        if let Some(elements) = reply.strip_prefix(format!("*{MEMBERS}\r\n").as_bytes()) {
            let size = elements.len() / MEMBERS;
            let is_exec = elements.starts_with(b"+OK");
            assert!(elements.chunks(size).all(|element| element == &elements[..size]), "set together");
            assert!(elements.len() % MEMBERS == 0 && (is_exec || elements[0] == b'$'), "set together");
        }
    }
}

/// How many commands were written, and how many of them refused.
fn check(seed: u64) -> (usize, usize) {
    let settings = Settings { memory_size_max: 8 * MIB, ..Settings::default() };
    let mut world = World::new(4, &settings, seed, Faults::default());
    world.attend();
    let mut dice = Dice(seed);
    let mut owners: Vec<Owner> = (0..8)
        .map(|number| Owner {
            client: world.connect(number % 4),
            number,
            awaited: 0,
            written: 0,
            refused: 0,
            is_at_ease: false,
        })
        .collect();
    let mut ruler = world.connect(0);
    let mut limit = 8 * MIB;
    for round in 0..1500 {
        for owner in &mut owners {
            owner.is_at_ease &= 64 * MIB <= limit;
            if owner.awaited == 0 && round < 1000 {
                owner.act(&mut dice, 64 * MIB <= limit && round % 50 > 10);
            }
            owner.hear();
        }
        if round % 50 == 0 {
            limit = [1, 2 * MIB, 4 * MIB, 8 * MIB, 64 * MIB, 64 * MIB][dice.below(6)];
            let mut bytes = Vec::new();
            let words =
                [&b"CONFIG"[..], b"SET", b"maxmemory", limit.to_string().as_bytes()].map(<[u8]>::to_vec);
            command(&mut bytes, &words);
            ruler.send(&bytes);
        }
        ruler.pump();
        world.round();
    }
    assert!(owners.iter().all(|owner| owner.awaited == 0), "everybody is answered");
    let totals = owners
        .iter()
        .fold((0, 0), |(written, refused), owner| (written + owner.written, refused + owner.refused));
    drop((owners, ruler));
    for _ in 0..200 {
        world.round();
    }
    world.lanes.iter().for_each(lane::Lane::audit);
    totals
}

#[test]
fn what_is_set_together_stays_together_when_memory_is_short() {
    let (mut written, mut refused) = (0, 0);
    for seed in 0..10 {
        let totals = check(seed);
        written += totals.0;
        refused += totals.1;
    }
    assert!(refused > 500 && written > refused + 500, "{refused} of {written} refused");
}
