//! What the transcripts share: a client that says a command and takes its reply.

use net::fault::Faults;
use sim::{Client, World};
use wire::client::Counter;

/// Rounds within which any single command here is answered.
const ROUNDS_MAX: usize = 20_000;

/// A server and one client of it.
pub(crate) struct Talk {
    pub(crate) world: World,
    pub(crate) client: Client,
}

impl Talk {
    /// A quiet server of so many lanes.
    pub(crate) fn new(lane_count: u16) -> Talk {
        Talk::with(World::quiet(lane_count))
    }

    pub(crate) fn with(world: World) -> Talk {
        let client = world.connect(0);
        Talk { world, client }
    }

    /// Sends a command; the bytes of its reply.
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, words);
        self.client.send(&bytes);
        self.hear().unwrap_or_else(|| {
            panic!("no reply to {:?} within {ROUNDS_MAX} rounds", String::from_utf8_lossy(words[0]))
        })
    }

    /// The bytes of the reply to what its client has sent, if it comes.
    pub(crate) fn hear(&mut self) -> Option<Vec<u8>> {
        let mut counter = Counter::default();
        let mut used = 0;
        for _ in 0..ROUNDS_MAX {
            self.client.pump();
            let (outcome, size) =
                counter.next(&self.client.received[used..]).expect("the server speaks RESP");
            used += size;
            if outcome.is_some() {
                assert_eq!(used, self.client.received.len(), "one reply to one command");
                return Some(std::mem::take(&mut self.client.received));
            }
            self.world.round();
        }
        None
    }

    /// The same with words split at blanks, and the reply as text.
    pub(crate) fn say(&mut self, line: &str) -> String {
        String::from_utf8_lossy(&self.call(&words(line))).into_owned()
    }

    /// Lets the server come to rest, and makes sure that it does.
    pub(crate) fn rest(&mut self) {
        for _ in 0..50 {
            self.world.round();
        }
        assert!(self.world.is_idle(), "nothing is left under way");
    }
}

/// The words of a line; `""` is an empty one.
pub(crate) fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(|word| if word == "\"\"" { &b""[..] } else { word.as_bytes() }).collect()
}

/// Says a conversation over one lane and over four, command by command and in one piece, and compares every reply with
/// what is wanted.
pub(crate) fn check(lines: &[(&str, &str)]) {
    for lane_count in [1, 4] {
        let mut talk = Talk::new(lane_count);
        for (line, want) in lines {
            assert_eq!(talk.say(line), *want, "{line} over {lane_count} lanes");
        }
        talk.rest();
        let mut world = World::quiet(lane_count);
        let mut client = world.connect(0);
        let mut bytes = Vec::new();
        for (line, _) in lines {
            wire::client::command(&mut bytes, &words(line));
        }
        let want: String = lines.iter().map(|(_, want)| *want).collect();
        let got = world.exchange(&mut client, &bytes, want.len(), 2000);
        assert_eq!(String::from_utf8_lossy(&got), want, "pipelined over {lane_count} lanes");
    }
}

/// A bulk string as it is sent.
pub(crate) fn bulk(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::reply::bulk(&mut out, bytes);
    out
}

/// A seeded source of chance: splitmix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.draw() % end as u64).expect("below a usize")
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// For a server that is to be what a model says: two seeds of three have many faults, but none that costs bytes.
pub(crate) fn faults_of(seed: u64) -> Faults {
    if seed.is_multiple_of(3) {
        return Faults::default();
    }
    Faults { cut_input: 200, delay_event: 100, shorten_send: 200, reorder_events: 200, ..Faults::default() }
}
