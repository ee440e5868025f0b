//! Values that are longer than the arguments of the command that makes them: when there is no room for one, nothing has
//! changed, whichever lanes it came from, was made on and goes to.

use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};
use store::Policy;
use wire::route::{PartitionMap, Slot};

const MIB: u64 = 1 << 20;
const LANES: u16 = 4;
const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
/// Of the source: more than half of what there is.
const SIZE: usize = 10_000_000;

/// A server of four lanes, with a client on each.
struct Talk {
    world: World,
    clients: Vec<Client>,
}

impl Talk {
    fn new(policy: Policy) -> Talk {
        let settings = Settings { memory_size_max: 16 * MIB, policy, ..Settings::default() };
        let world = World::new(LANES, &settings, 7, Faults::default());
        let clients = (0..LANES).map(|_| world.connect(0)).collect();
        Talk { world, clients }
    }

    /// What a client on a lane is answered, once nothing more comes.
    fn call(&mut self, lane: usize, words: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, words);
        self.clients[lane].send(&bytes);
        let (mut silent_count, mut heard) = (0, 0);
        while heard == 0 || silent_count < 20 {
            self.clients[lane].pump();
            self.world.round();
            let now = self.clients[lane].received.len();
            silent_count = if now == heard { silent_count + 1 } else { 0 };
            heard = now;
        }
        String::from_utf8_lossy(&std::mem::take(&mut self.clients[lane].received)).into_owned()
    }

    fn say(&mut self, lane: usize, line: &str) -> String {
        self.call(lane, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Bytes of data over all lanes, after what was let go is free.
    fn held(&mut self) -> u64 {
        for _ in 0..500 {
            self.world.round();
        }
        self.world.lanes.iter().map(|lane| lane.shard().held()).sum()
    }

    /// All that a test leaves behind is right.
    fn end(mut self) {
        self.clients.clear();
        for _ in 0..100 {
            self.world.round();
        }
        self.world.lanes.iter().for_each(lane::Lane::audit);
    }
}

/// A key of a lane.
fn name(lane: u16, key: &str) -> String {
    let map = PartitionMap::even(LANES);
    let is_there = |tag: &String| map.owner(Slot::of(tag.as_bytes())).0 == lane;
    let tag = (0..).map(|number| format!("t{number}")).find(is_there).expect("every lane has tags");
    format!("{{{tag}}}{key}")
}

/// Commands that make a value as long as the one at SOURCE.
const MAKERS: [&str; 7] = [
    "COPY SOURCE TARGET",
    "COPY SOURCE TARGET REPLACE",
    "BITOP NOT TARGET SOURCE",
    "BITOP OR TARGET SOURCE TARGET",
    "SETRANGE TARGET 9999999 z",
    "SETBIT TARGET 79999999 1",
    "BITFIELD TARGET SET u8 #9999999 7",
];

#[test]
fn a_value_without_room_is_not_made() {
    let check = |policy: Policy, maker: &str, to: u16, is_there: bool| {
        let mut talk = Talk::new(policy);
        let (source, target) = (name(0, "source"), name(to, "target"));
        let line = maker.replace("SOURCE", &source).replace("TARGET", &target);
        talk.call(0, &[b"SET", source.as_bytes(), &[7; SIZE]]);
        if is_there {
            assert_eq!(talk.say(0, &format!("SET {target} old")), "+OK\r\n");
        }
        let before = talk.held();
        for client in 0..usize::from(LANES) {
            let want = if is_there && maker == MAKERS[0] { ":0\r\n" } else { OOM };
            assert_eq!(talk.say(client, &line), want, "{line} by a client of lane {client}");
            assert_eq!(talk.held(), before, "{line}");
        }
        assert_eq!(talk.say(0, &format!("STRLEN {source}")), format!(":{SIZE}\r\n"));
        let old = if is_there { "$3\r\nold\r\n" } else { "$-1\r\n" };
        assert_eq!(talk.say(0, &format!("GET {target}")), old, "{line}");
        // What is smaller has room, on the same lanes.
        talk.call(0, &[b"SET", source.as_bytes(), &[7; SIZE / 10]]);
        let line = line.replace("9999999", "999999");
        assert!(!talk.say(1, &line).starts_with('-'), "{line}");
        talk.end();
    };
    for maker in MAKERS {
        for to in 0..LANES {
            check(Policy::NoEviction, maker, to, false);
            check(Policy::NoEviction, maker, to, true);
        }
    }
    // The source does not go for it, and nothing else is there to go.
    for maker in &MAKERS[..4] {
        for to in 1..LANES {
            check(Policy::AllKeysLru, maker, to, false);
            check(Policy::VolatileLru, maker, to, true);
        }
    }
}

/// The others of a MULTI take place.
#[test]
fn a_value_without_room_in_a_transaction_is_that_commands_error() {
    for maker in MAKERS {
        let mut talk = Talk::new(Policy::NoEviction);
        let (source, target) = (name(0, "source"), name(2, "target"));
        talk.call(0, &[b"SET", source.as_bytes(), &[7; SIZE]]);
        talk.say(1, "MULTI");
        for line in ["SET a 1", maker, "SET b 2"] {
            let line = line.replace("SOURCE", &source).replace("TARGET", &target);
            assert_eq!(talk.say(1, &line), "+QUEUED\r\n");
        }
        assert_eq!(talk.say(1, "EXEC"), format!("*3\r\n+OK\r\n{OOM}+OK\r\n"), "{maker}");
        assert_eq!(talk.say(1, &format!("EXISTS a b {source} {target}")), ":3\r\n", "{maker}");
        talk.end();
    }
}

/// What was deleted and waits to be freed is room already.
#[test]
fn a_value_takes_the_room_of_one_that_has_gone() {
    for maker in
        ["SETRANGE TARGET 9999999 z", "SETBIT TARGET 79999999 1", "BITFIELD TARGET SET u8 #9999999 7"]
    {
        let mut talk = Talk::new(Policy::NoEviction);
        let (source, target) = (name(0, "source"), name(0, "target"));
        talk.call(0, &[b"SET", source.as_bytes(), &[7; SIZE]]);
        let line = maker.replace("TARGET", &target);
        let mut bytes = Vec::new();
        for line in [&format!("DEL {source}"), &line] {
            wire::client::command(&mut bytes, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        talk.clients[0].send(&bytes);
        let replies = talk.say(0, &format!("STRLEN {target}"));
        assert!(replies.starts_with(":1\r\n") && replies.ends_with(":10000000\r\n"), "{line}: {replies}");
        talk.end();
    }
}

/// What one of them has stored is no room that another lacks.
#[test]
fn copies_of_a_transaction_are_counted_once() {
    let mut talk = Talk::new(Policy::NoEviction);
    let source = name(0, "source");
    talk.call(0, &[b"SET", source.as_bytes(), &[7; 3_000_000]]);
    talk.say(1, "MULTI");
    for number in 0..3 {
        talk.say(1, &format!("COPY {source} {}", name(2, &number.to_string())));
    }
    assert_eq!(talk.say(1, "EXEC"), "*3\r\n:1\r\n:1\r\n:1\r\n");
    talk.end();
}

/// A value that no lane could hold does not cost the others their place.
#[test]
fn a_value_that_never_has_room_is_not_made_where_keys_may_go() {
    for line in ["SETRANGE TARGET 19999999 z", "SETBIT TARGET 159999999 1"] {
        for to in 0..LANES {
            let mut talk = Talk::new(Policy::AllKeysLru);
            let source = name(0, "source");
            talk.call(0, &[b"SET", source.as_bytes(), &[7; SIZE]]);
            assert_eq!(talk.say(0, &line.replace("TARGET", &name(to, "target"))), OOM);
            talk.held();
            assert_eq!(talk.say(0, &format!("STRLEN {source}")), format!(":{SIZE}\r\n"), "{line}");
            talk.end();
        }
    }
}

/// A value that moves to another lane takes its room along: it is not refused, and nothing goes for it.
#[test]
fn a_renamed_value_keeps_its_room() {
    for policy in [Policy::NoEviction, Policy::AllKeysLru, Policy::AllKeysRandom, Policy::VolatileLru] {
        for only_new in [false, true] {
            let mut talk = Talk::new(policy);
            let mut old = name(0, "source");
            talk.call(0, &[b"SET", old.as_bytes(), &[7; SIZE]]);
            let values: Vec<String> = (0..LANES).map(|lane| name(lane, "other")).collect();
            for value in &values {
                assert_eq!(talk.call(0, &[b"SET", value.as_bytes(), &[7; 1_000_000]]), "+OK\r\n");
            }
            let before = talk.held();
            for number in 1..20_u16 {
                let new = name(number % LANES, "source");
                let (command, want) = if only_new { ("RENAMENX", ":1\r\n") } else { ("RENAME", "+OK\r\n") };
                let client = usize::from(number / LANES % LANES);
                assert_eq!(talk.say(client, &format!("{command} {old} {new}")), want, "{policy:?}");
                old = new;
                assert!(talk.held().abs_diff(before) < 64 * 1024, "{policy:?}, {number}");
            }
            assert_eq!(talk.say(0, &format!("STRLEN {old}")), format!(":{SIZE}\r\n"), "{policy:?}");
            assert_eq!(talk.say(0, &format!("EXISTS {}", values.join(" "))), format!(":{LANES}\r\n"));
            talk.end();
        }
    }
}

/// Where keys may go they do, so that a copy has room on its lane.
#[test]
fn a_copy_finds_its_room_among_many_small_values() {
    for maker in ["COPY SOURCE TARGET", "BITOP NOT TARGET SOURCE"] {
        let mut talk = Talk::new(Policy::AllKeysLru);
        for first in (0..20_000).step_by(500) {
            let pairs: Vec<[Vec<u8>; 2]> = (first..first + 500)
                .map(|number| [format!("{number}").into_bytes(), vec![7; 1000]])
                .collect();
            let mut words: Vec<&[u8]> = pairs.iter().flatten().map(Vec::as_slice).collect();
            words.insert(0, b"MSET");
            assert_eq!(talk.call(0, &words), "+OK\r\n");
        }
        // Made where it stays it is stored first, and then keys go.
        assert_eq!(talk.say(1, &format!("SETRANGE {} 999999 z", name(2, "zeros"))), ":1000000\r\n");
        assert!(talk.held() <= 16 * MIB);
        let mut check = |size: usize| {
            let (source, target) = (name(0, "source"), name(2, "target"));
            // All else has not been used for long.
            talk.world.pass(60_000_000_000);
            assert_eq!(talk.call(0, &[b"SET", source.as_bytes(), &vec![7; size]]), "+OK\r\n");
            let line = maker.replace("SOURCE", &source).replace("TARGET", &target);
            assert!(talk.say(1, &line).starts_with(':'), "{line} of {size} bytes");
            assert!(talk.held() <= 16 * MIB);
            assert_eq!(talk.say(0, &format!("STRLEN {source}")), format!(":{size}\r\n"), "{line}");
        };
        check(500_000);
        check(3_000_000);
        talk.end();
    }
}
