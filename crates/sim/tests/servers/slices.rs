//! Commands that take many steps, while another client's commands are answered in between. Rounds are counted, in each of
//! which every lane takes one turn.

use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};
use wire::client::Counter;

/// Rounds within which a GET on any lane is answered, whatever else goes on: asked for, forwarded, answered, delivered.
const GET_ROUNDS_MAX: usize = 4;
/// The same while FLUSHALL holds every database: as long as that takes.
const FLUSH_ROUNDS_MAX: usize = 32;
/// Slices in a turn, as the lane bounds them.
const SLICES_MAX: u64 = 16;
/// Arguments of long commands that a turn looks at: its slices have 1,024 elements, each of a few arguments that are looked at a few
/// times.
const ARGS_LOOKED_MAX: u64 = 10 * 1024;

fn has_reply(client: &Client) -> bool {
    let mut counter = Counter::default();
    matches!(counter.next(&client.received), Ok((Some(_), _)))
}

/// Runs a command for one client, while a second asks for one key after the other: in the same database, unless the command
/// empties that. The number of rounds that the command took; each GET may take `waits_max`.
fn rounds_of(world: &mut World, words: &[&[u8]], waits_max: usize) -> usize {
    let mut busy = world.connect(0);
    let mut other = world.connect(0);
    let select: &[u8] = match words[0] {
        b"flushdb" => b"*2\r\n$6\r\nselect\r\n$1\r\n1\r\n",
        _ => b"*2\r\n$6\r\nselect\r\n$1\r\n0\r\n",
    };
    assert_eq!(world.exchange(&mut other, select, 5, 9), b"+OK\r\n");
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    busy.send(&bytes);
    let (mut rounds, mut waited, mut answered) = (0, 0, 0);
    let mut is_asked = false;
    while !has_reply(&busy) {
        if !is_asked {
            let mut bytes = Vec::new();
            wire::client::command(&mut bytes, &[b"get", format!("other:{answered}").as_bytes()]);
            other.send(&bytes);
            (is_asked, waited) = (true, 0);
        }
        busy.pump();
        other.pump();
        world.round();
        busy.pump();
        other.pump();
        rounds += 1;
        waited += 1;
        assert!(rounds < 20_000, "a command ends");
        if has_reply(&other) {
            other.received.clear();
            answered += 1;
            is_asked = false;
        }
        assert!(waited <= waits_max, "a GET waits {waited} rounds for {:?}", words[0]);
    }
    assert!(world.args_looked_max <= ARGS_LOOKED_MAX, "a turn looks at {} arguments", world.args_looked_max);
    let slices = world.lanes.iter().map(|lane| lane.stats().turn_slices_max).max();
    assert!(slices.is_some_and(|slices| slices <= SLICES_MAX), "{slices:?} slices in a turn");
    for _ in 0..50 {
        world.round();
    }
    assert!(world.is_idle(), "nothing is left under way after {:?}", words[0]);
    rounds
}

/// `name` and then what `each` says for 2,000 keys.
fn many(name: &str, with_values: bool) -> Vec<Vec<u8>> {
    let mut words = vec![name.as_bytes().to_vec()];
    for number in 0..2000 {
        words.push(format!("key:{number}").into_bytes());
        if with_values {
            words.push(format!("value {number}").into_bytes());
        }
    }
    words
}

fn check(world: &mut World, words: &[Vec<u8>], rounds_min: usize) {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let is_held = matches!(words[0], b"flushall" | b"swapdb");
    let rounds = rounds_of(world, &words, if is_held { FLUSH_ROUNDS_MAX } else { GET_ROUNDS_MAX });
    assert!(rounds >= rounds_min, "{} took {rounds} rounds", String::from_utf8_lossy(words[0]));
}

#[test]
fn many_keys() {
    for lane_count in [1, 4] {
        let mut world = World::quiet(lane_count);
        check(&mut world, &many("mset", true), 2);
        check(&mut world, &many("mget", false), 2);
        check(&mut world, &many("exists", false), 2);
        check(&mut world, &many("del", false), 2);
        check(&mut world, &many("msetnx", true), 2);
        check(&mut world, &many("unlink", false), 2);
        assert_eq!(world.lanes.iter().map(|lane| lane.stats().keys).sum::<u64>(), 0);
    }
}

/// Bytes count, too, that are copied to divide a command among lanes, and to put its reply together: half a thousand KiB a turn at
/// most, which is 37 rounds of what either command takes. The others pass while it comes, runs and leaves.
#[test]
fn many_values_that_are_not_short() {
    let mut world = World::quiet(4);
    let keys: Vec<Vec<u8>> = (0..600).map(|number| format!("key:{number}").into_bytes()).collect();
    let mut words = vec![b"mset".to_vec()];
    words.extend(keys.iter().flat_map(|key| [key.clone(), vec![b'v'; 30_000]]));
    check(&mut world, &words, 286 + 30);
    words = vec![b"mget".to_vec()];
    words.extend(keys);
    check(&mut world, &words, 344 + 30);
}

/// Under a limit of memory a long command is measured as it comes, alone or in a MULTI, here or on another lane: no turn looks at all
/// of it.
#[test]
fn long_commands_under_a_limit() {
    for lane_count in [1, 4] {
        let settings = Settings { memory_size_max: 1 << 30, ..Settings::default() };
        let mut world = World::new(lane_count, &settings, 1, Faults::default());
        let pairs = (0..100_000).flat_map(|number| [format!("key:{number}").into_bytes(), b"v".to_vec()]);
        let mset: Vec<Vec<u8>> = [b"mset".to_vec()].into_iter().chain(pairs).collect();
        let fields = (0..50_000).flat_map(|at| [&b"set"[..], b"u8", [b"#0", b"#1"][at % 2], b"1"]);
        let bitfields = ["a", "b", "c", "d"].map(|key| {
            let words = [&b"bitfield"[..], key.as_bytes()].into_iter().chain(fields.clone());
            words.map(<[u8]>::to_vec).collect::<Vec<_>>()
        });
        for words in std::iter::once(&mset).chain(&bitfields) {
            check(&mut world, words, 20);
            let mut client = world.connect(0);
            let mut bytes = Vec::new();
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            wire::client::command(&mut bytes, &[b"multi"]);
            wire::client::command(&mut bytes, &words);
            assert_eq!(world.exchange(&mut client, &bytes, 14, 1000), b"+OK\r\n+QUEUED\r\n");
            client.send(b"*1\r\n$4\r\nexec\r\n");
            while !has_reply(&client) {
                client.pump();
                world.round();
            }
            let looked = world.args_looked_max;
            assert!(looked <= ARGS_LOOKED_MAX, "in a MULTI a turn looks at {looked} arguments");
        }
    }
}

#[test]
fn whole_databases() {
    for lane_count in [1, 4] {
        let mut world = World::quiet(lane_count);
        for first in (0..20_000).step_by(1000) {
            let mut words = vec![b"mset".to_vec()];
            words.extend(
                (first..first + 1000).flat_map(|number| [format!("k{number}").into_bytes(), b"v".to_vec()]),
            );
            check(&mut world, &words, 1);
        }
        check(&mut world, &[b"keys".to_vec(), b"*".to_vec()], 3);
        check(&mut world, &[b"keys".to_vec(), b"nothing".to_vec()], 3);
        check(&mut world, &[b"scan", &b"0"[..], b"count", b"10000"].map(<[u8]>::to_vec), 2);
        check(&mut world, &[b"flushdb".to_vec()], 2);
        assert_eq!(world.lanes.iter().map(|lane| lane.stats().keys).sum::<u64>(), 0);
        check(&mut world, &many("mset", true), 2);
        check(&mut world, &[b"flushall".to_vec()], 1);
        assert_eq!(world.lanes.iter().map(|lane| lane.stats().keys).sum::<u64>(), 0);
    }
}

/// One key in each of 16 databases: 262,144 partitions, of which 16 have anything to empty.
#[test]
fn emptying_costs_what_is_there() {
    for lane_count in [1, 4] {
        let mut world = World::quiet(lane_count);
        let mut client = world.connect(0);
        for db in 0..16 {
            let mut bytes = Vec::new();
            wire::client::command(&mut bytes, &[b"select", db.to_string().as_bytes()]);
            wire::client::command(&mut bytes, &[b"set", format!("key:{db}").as_bytes(), b"v"]);
            assert_eq!(world.exchange(&mut client, &bytes, 10, 50), b"+OK\r\n+OK\r\n");
        }
        let rounds = rounds_of(&mut world, &[b"flushall"], FLUSH_ROUNDS_MAX);
        assert!(rounds <= FLUSH_ROUNDS_MAX, "{rounds} rounds over {lane_count} lanes");
        assert_eq!(world.lanes.iter().map(|lane| lane.stats().keys).sum::<u64>(), 0);
    }
}

/// Clients that watch a thousand keys each, which exist or do not.
fn watchers(world: &mut World, count: usize, key: impl Fn(usize, usize) -> String) -> Vec<Client> {
    let mut watchers = Vec::new();
    for watcher in 0..count {
        let mut client = world.connect(0);
        let keys: Vec<String> = (0..1000).map(|number| key(watcher, number)).collect();
        let words: Vec<&[u8]> =
            std::iter::once(&b"watch"[..]).chain(keys.iter().map(|key| key.as_bytes())).collect();
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &words);
        wire::client::command(&mut bytes, &[b"multi"]);
        wire::client::command(&mut bytes, &[b"ping"]);
        assert_eq!(world.exchange(&mut client, &bytes, 19, 50), b"+OK\r\n+OK\r\n+QUEUED\r\n");
        watchers.push(client);
    }
    watchers
}

/// Emptying or exchanging databases marks the keys that clients watch, some of them a slice; nobody else waits longer.
#[test]
fn keys_that_many_clients_watch() {
    let exec = b"*1\r\n$4\r\nexec\r\n";
    for lane_count in [1, 4] {
        for (words, key_is) in [
            (&[&b"swapdb"[..], b"0", b"1"][..], "any"),
            (&[b"swapdb", b"1", b"0"], "any"),
            (&[b"flushall"], "of one partition"),
        ] {
            let mut world = World::quiet(lane_count);
            let tag = if key_is == "any" { "" } else { "{tag}" };
            let mut watchers =
                watchers(&mut world, 20, |watcher, number| format!("{tag}k:{watcher}:{number}"));
            let mut client = world.connect(0);
            let mut bytes = Vec::new();
            // It exists, and the other clients' do not.
            wire::client::command(&mut bytes, &[b"set", format!("{tag}k:7:999").as_bytes(), b"v"]);
            assert_eq!(world.exchange(&mut client, &bytes, 5, 20), b"+OK\r\n");
            let mut again = self::watchers(&mut world, 1, |_, number| format!("{tag}k:7:{number}"));
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
            // 20,000 keys, of which a turn looks at 1,024 on each lane.
            let lanes_busy = if key_is == "any" { lane_count } else { 1 };
            check(&mut world, &words, usize::from(20 / lanes_busy).max(2));
            for (number, watcher) in watchers.iter_mut().enumerate() {
                let want: &[u8] = if number == 7 { b"*-1\r\n" } else { b"*1\r\n+PONG\r\n" };
                assert_eq!(world.exchange(watcher, exec, want.len(), 50), want, "{number} after {words:?}");
            }
            assert_eq!(world.exchange(&mut again[0], exec, 5, 50), b"*-1\r\n", "it saw the key");
        }
    }
}

/// Keys that all hash to one slot, and so to one lane and one of its partitions: they stall nobody.
#[test]
fn a_flood_of_one_slot() {
    let mut world = World::quiet(2);
    for first in (0..100_000).step_by(5000) {
        let keys = (first..first + 5000).map(|number| format!("{{flood}}{number}").into_bytes());
        let mut words = vec![b"mset".to_vec()];
        words.extend(keys.flat_map(|key| [key, b"v".to_vec()]));
        check(&mut world, &words, 1);
    }
    check(&mut world, &[b"keys", &b"{flood}9999*"[..]].map(<[u8]>::to_vec), 20);
    check(&mut world, &[b"cluster", &b"getkeysinslot"[..], b"0", b"1000"].map(<[u8]>::to_vec), 1);
    check(&mut world, &[b"flushdb".to_vec()], 1);
    assert_eq!(world.lanes.iter().map(|lane| lane.stats().keys).sum::<u64>(), 0);
}

/// As many as a client may watch, on one lane and on several; then all of them change, and the client goes.
#[test]
fn many_watched_keys() {
    for lane_count in [1, 4] {
        let mut world = World::quiet(lane_count);
        let mut words = many("watch", false);
        words.truncate(1 + 1024);
        // Planned in one turn, and on one lane watched in another one.
        check(&mut world, &words, if lane_count == 1 { 2 } else { 1 });
        check(&mut world, &many("mset", true), 2);
        check(&mut world, &words, 1);
        check(&mut world, &[b"flushall".to_vec()], 1);
        check(&mut world, &words, 1);
        check(&mut world, &[b"swapdb", &b"0"[..], b"1"].map(<[u8]>::to_vec), 1);
    }
}

#[test]
fn long_values() {
    for lane_count in [1, 4] {
        let mut world = World::quiet(lane_count);
        let long = vec![b'x'; 4 << 20];
        check(&mut world, &[b"set".to_vec(), b"a".to_vec(), long.clone()], 2);
        check(&mut world, &[b"append".to_vec(), b"a".to_vec(), long.clone()], 16);
        check(&mut world, &[b"setrange".to_vec(), b"a".to_vec(), b"7".to_vec(), long], 16);
        let mut one = world.connect(0);
        let got = world.exchange(&mut one, b"*2\r\n$6\r\nstrlen\r\n$1\r\na\r\n", 10, 50);
        assert_eq!(got, b":8388608\r\n");
        let text = vec![b'y'; 10_000];
        for key in [b"b", b"c"] {
            check(&mut world, &[b"set".to_vec(), key.to_vec(), text.clone()], 1);
        }
        check(&mut world, &[b"lcs".to_vec(), b"b".to_vec(), b"c".to_vec()], 50);
    }
}

#[test]
fn long_strings_of_bits() {
    for lane_count in [1, 4] {
        let mut world = World::quiet(lane_count);
        let long = vec![0xff; 4 << 20];
        for key in [b"a", b"b"] {
            check(&mut world, &[b"set".to_vec(), key.to_vec(), long.clone()], 2);
        }
        // 16 slices of 16 KiB a turn.
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        check(&mut world, &words("bitcount a"), 16);
        check(&mut world, &words("bitpos a 0"), 16);
        check(&mut world, &words("bitop xor c a b"), 16);
        check(&mut world, &words("bitop not d a"), 16);
        check(&mut world, &words("bitop and a a none"), 16);
        check(&mut world, &words("dump a"), 16);
        // All are read before the first is carried out, 1,024 a turn.
        let mut rounds = |name: &str| {
            let mut fields = words(name);
            fields.extend((0..40_000).flat_map(|number| words(&format!("incrby u8 #{number} 1"))));
            let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
            rounds_of(&mut world, &fields, GET_ROUNDS_MAX)
        };
        let (coming, refused, done) = (rounds("nofields e"), rounds("bitfield_ro e"), rounds("bitfield e"));
        assert!(coming + 8 <= refused && refused + 8 <= done, "{coming}, {refused} and {done} rounds");
    }
}
