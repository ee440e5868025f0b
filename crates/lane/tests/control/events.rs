//! Keyspace events as those see them who listen, over one lane and over several. What Redis says of the same commands:
//! tests/clients/test_keyspace_events.py.

use net::mem;
use wire::client::{Collector, Reply};

use crate::world::World;

/// A client of RESP2 that listens.
struct Listener {
    client: mem::Client,
    collector: Collector,
    bytes: Vec<u8>,
}

impl Listener {
    fn new(world: &mut World, client: mem::Client, command: &str) -> Listener {
        world.ask(&client, command);
        Listener { client, collector: Collector::default(), bytes: Vec::new() }
    }

    /// Pairs of channel and body that it has got since, by its patterns or by name.
    fn heard(&mut self) -> Vec<(String, String)> {
        self.bytes.extend(self.client.read_all());
        let mut heard = Vec::new();
        loop {
            let (reply, size) = self.collector.next(&self.bytes).unwrap();
            self.bytes.drain(..size);
            let Some(reply) = reply else { return heard };
            let Reply::Array(words) = reply else { panic!("{reply:?} is none of a listener's") };
            let text = |nth: usize| String::from_utf8_lossy(words[nth].bytes().unwrap()).into_owned();
            match text(0).as_str() {
                "message" => heard.push((text(1), text(2))),
                "pmessage" => heard.push((text(2), text(3))),
                word => panic!("{word} is no message"),
            }
        }
    }

    /// The same as lines.
    fn lines(&mut self) -> Vec<String> {
        self.heard().iter().map(|(channel, body)| format!("{channel} {body}")).collect()
    }
}

fn rounds(world: &mut World, count: usize) {
    (0..count).for_each(|_| world.round(1_000_000));
}

/// Pairs of event and key, as they were said to the channels of events and to those of keys.
fn events(heard: &[(String, String)]) -> [Vec<(String, String)>; 2] {
    let of = |front: &str, swaps: bool| {
        let pairs = heard.iter().filter_map(|(channel, body)| {
            let rest = channel.strip_prefix(front)?;
            Some(if swaps { (body.clone(), rest.to_owned()) } else { (rest.to_owned(), body.clone()) })
        });
        pairs.collect()
    };
    [of("__keyevent@0__:", false), of("__keyspace@0__:", true)]
}

/// Whoever listens to everything hears these events (`event key`) when a client says that; of each key in this order.
#[track_caller]
fn check(classes: &str, commands: &[&str], want: &[&str]) {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let (client, listener) = (world.connect(), world.connect_at(usize::from(lane_count) - 1));
        let mut listener = Listener::new(&mut world, listener, "PSUBSCRIBE __key*");
        world.ask(&client, &format!("CONFIG SET notify-keyspace-events {classes}"));
        for command in commands {
            let reply = world.ask(&client, command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        rounds(&mut world, 60);
        let want: Vec<(&str, &str)> = want.iter().map(|line| line.split_once(' ').unwrap()).collect();
        for got in events(&listener.heard()) {
            let mut got: Vec<(&str, &str)> =
                got.iter().map(|(event, key)| (event.as_str(), key.as_str())).collect();
            let mut want = want.clone();
            if lane_count > 1 {
                // What keys of several lanes do has no common order.
                got.sort_by_key(|(_, key)| *key);
                want.sort_by_key(|(_, key)| *key);
            }
            assert_eq!(got, want, "{commands:?} over {lane_count} lanes");
        }
        leave(&mut world, vec![client, listener.client]);
    }
}

fn leave(world: &mut World, clients: Vec<mem::Client>) {
    drop(clients);
    rounds(world, 400);
    world.lanes.iter().for_each(lane::Lane::audit);
}

#[test]
fn each_command_says_what_it_has_done() {
    let all = "AKE";
    check(
        all,
        &["SET a 1", "SETNX a 2", "SETNX b 2", "GETSET a 3", "MSET a 1 c 1"],
        &["set a", "set b", "set a", "set a", "set c"],
    );
    check(
        all,
        &["SET a 1 EX 100", "SETEX b 100 v", "PSETEX c 100000 v", "SET a 2 KEEPTTL"],
        &["set a", "expire a", "set b", "expire b", "set c", "expire c", "set a"],
    );
    check(
        all,
        &["INCR n", "DECRBY n 3", "INCRBYFLOAT n 1.5", "APPEND n 7", "SETRANGE n 1 xx"],
        &["incrby n", "incrby n", "incrbyfloat n", "append n", "setrange n"],
    );
    check(
        all,
        &["SETBIT s 7 1", "BITFIELD s SET u8 0 255 INCRBY u8 8 1", "BITOP NOT t s", "BITOP NOT t nothing"],
        &["setbit s", "setbit s", "set t", "del t"],
    );
    check(
        all,
        &["SET a 1", "EXPIRE a 100", "PERSIST a", "PERSIST a", "GETEX a EX 9", "GETEX a PERSIST", "GETEX a"],
        &["set a", "expire a", "persist a", "expire a", "persist a"],
    );
    check(
        all,
        &["MSET a 1 b 2 c 3 d 4", "DEL a nothing", "UNLINK b", "GETDEL c", "EXPIRE d -1", "DEL a"],
        &["set a", "set b", "set c", "set d", "del a", "del b", "del c", "del d"],
    );
}

/// However many fields it has, and in however many slices.
#[test]
fn bitfield_says_once_that_it_has_changed_something() {
    let many: String = (0..600).map(|number| format!(" SET u8 #{number} 7")).collect();
    check("AKEn", &[&format!("BITFIELD a{many}"), &format!("BITFIELD a{many}")], &["new a", "setbit a"]);
    check("AKEn", &["BITFIELD a OVERFLOW FAIL SET u8 0 256", "BITFIELD a GET u8 0"], &["new a"]);
}

#[test]
fn what_moves_leaves_before_it_arrives() {
    let all = "AKE";
    check(
        all,
        &["SET a 1", "RENAME a b", "RENAMENX b c", "COPY c d", "COPY c d REPLACE"],
        &["set a", "rename_from a", "rename_to b", "rename_from b", "rename_to c", "copy_to d", "copy_to d"],
    );
    check(all, &["SET a 1", "RENAME a a"], &["set a"]);
    // The other database has channels of its own.
    check(all, &["SET a 1", "MOVE a 3", "COPY a b"], &["set a", "move_from a"]);
    check(
        all,
        &["SET a 1", "MULTI", "SET b 2", "RENAME a b", "DEL b", "EXEC"],
        &["set a", "set b", "rename_from a", "rename_to b", "del b"],
    );
    let mut world = World::new(1);
    let (client, listener) = (world.connect(), world.connect());
    let mut listener =
        Listener::new(&mut world, listener, "SUBSCRIBE __keyspace@3__:a __keyevent@3__:move_to");
    world.ask(&client, "CONFIG SET notify-keyspace-events KEg");
    world.ask(&client, "SET a 1");
    world.ask(&client, "MOVE a 3");
    rounds(&mut world, 10);
    assert_eq!(listener.lines(), ["__keyspace@3__:a move_to", "__keyevent@3__:move_to a"]);
}

#[test]
fn only_the_classes_that_are_asked_for_are_said() {
    let commands = ["SET a 1 EX 100", "GET nothing", "DEL a"];
    check("KEg", &commands, &["expire a", "del a"]);
    check("KE$", &commands, &["set a"]);
    check("KEm", &commands, &["keymiss nothing"]);
    check("KEn", &commands, &["new a"]);
    check("KEAmn", &commands, &["new a", "set a", "expire a", "keymiss nothing", "del a"]);
    check("KEtlshz", &commands, &[]);
    check("A", &commands, &[]);
    check("", &commands, &[]);
}

/// Redis looks once, and at what it is about to write not at all.
#[test]
fn a_miss_is_said_of_what_is_looked_for() {
    check(
        "KEm",
        &["MGET a b", "EXISTS c", "TTL d", "STRLEN e", "TYPE f", "DUMP g", "GETEX h", "GETDEL i"],
        &[
            "keymiss a",
            "keymiss b",
            "keymiss c",
            "keymiss d",
            "keymiss e",
            "keymiss f",
            "keymiss g",
            "keymiss h",
            "keymiss i",
        ],
    );
    check(
        "KEm",
        &["OBJECT ENCODING a", "SET a 1", "COPY a b", "RENAMENX a c", "MSETNX d 1 e 1", "INCR f"],
        &[],
    );
    check("KEm", &["COPY a b", "SET k 1 GET", "GETSET l 1"], &["keymiss a", "keymiss k", "keymiss l"]);
}

/// Which of two channels a listener has is its own business.
#[test]
fn each_of_the_channels_is_said_to_alone() {
    for (classes, want) in [("KA", "__keyspace@0__:a set"), ("EA", "__keyevent@0__:set a")] {
        let mut world = World::new(2);
        let (client, listener) = (world.connect(), world.connect_at(1));
        let mut listener = Listener::new(&mut world, listener, "PSUBSCRIBE *");
        world.ask(&client, &format!("CONFIG SET notify-keyspace-events {classes}"));
        world.ask(&client, "SET a 1");
        rounds(&mut world, 10);
        assert_eq!(listener.lines(), [want]);
    }
}

/// By housekeeping, and before what whoever comes first does to a key whose time has come.
#[test]
fn keys_whose_time_has_come_are_said_as_well() {
    let mut world = World::with(3, &[("enable-debug-command", "yes")]);
    let (client, listener) = (world.connect(), world.connect());
    let mut listener = Listener::new(&mut world, listener, "PSUBSCRIBE __keyevent@*__:*");
    world.ask(&client, "CONFIG SET notify-keyspace-events EAn");
    world.ask(&client, "SET a 1 PX 30");
    assert_eq!(listener.lines(), ["__keyevent@0__:new a", "__keyevent@0__:set a", "__keyevent@0__:expire a"]);
    rounds(&mut world, 30);
    assert_eq!(listener.lines(), ["__keyevent@0__:expired a"]);
    world.ask(&client, "DEBUG SET-ACTIVE-EXPIRE 0");
    world.ask(&client, "SELECT 5");
    for key in ["a", "b", "c"] {
        world.ask(&client, &format!("SET {key} 1 PX 1"));
    }
    listener.heard();
    let said = |event: &str, key: &str| format!("__keyevent@5__:{event} {key}");
    world.ask(&client, "SET a 2");
    assert_eq!(listener.lines(), [said("expired", "a"), said("new", "a"), said("set", "a")]);
    world.ask(&client, "DEL b");
    assert_eq!(listener.lines(), [said("expired", "b")]);
    world.ask(&client, "GET c");
    assert_eq!(listener.lines(), [said("expired", "c")]);
    leave(&mut world, vec![client, listener.client]);
}

#[test]
fn keys_that_make_room_are_said_as_well() {
    let mut world = World::new(1);
    let (client, listener) = (world.connect(), world.connect());
    let mut listener = Listener::new(&mut world, listener, "PSUBSCRIBE __keyspace*");
    world.ask(&client, "CONFIG SET notify-keyspace-events Ke maxmemory 3600kb maxmemory-policy allkeys-lru");
    let value = "x".repeat(1000);
    for number in 0..3000 {
        client.write(&frame(&format!("SET k{number} {value}")));
        world.round(10_000);
        client.read_all();
    }
    rounds(&mut world, 20);
    let (got, left) = (listener.lines(), world.ask(&client, "DBSIZE"));
    let left: usize = left.trim_start_matches(':').trim_end().parse().unwrap();
    assert!(got.len() > 100 && got.iter().all(|line| line.ends_with(" evicted")), "{:?}", got.last());
    assert_eq!(got.len() + left, 3000, "each key is there or was said to have gone");
    leave(&mut world, vec![client, listener.client]);
}

/// A client of a lane's own port is on a node, and each node says what happens there.
#[test]
fn on_a_lanes_own_port_its_own_events_are_heard() {
    let mut world = World::new(3);
    let client = world.connect();
    let doors = [world.connect_to(0), world.connect_to(1), world.connect_to(2), world.connect_at(1)];
    let mut listeners = doors.map(|door| Listener::new(&mut world, door, "PSUBSCRIBE __keyevent@0__:*"));
    world.ask(&client, "CONFIG SET notify-keyspace-events E$");
    let keys: Vec<String> = (0..30).map(|number| format!("k{number}")).collect();
    for key in &keys {
        world.ask(&client, &format!("SET {key} 1"));
    }
    rounds(&mut world, 60);
    let [own @ .., shared] = &mut listeners;
    let got: Vec<Vec<(String, String)>> = own.iter_mut().map(Listener::heard).collect();
    assert!(got.iter().all(|got| got.len() > 3), "each lane has some of the keys");
    let mut all: Vec<String> = got.into_iter().flatten().map(|(_, key)| key).collect();
    all.sort();
    let mut want = keys.clone();
    want.sort();
    assert_eq!(all, want, "each event is heard on one node");
    assert_eq!(shared.heard().len(), keys.len(), "on the shared port all are");
}

/// More happens in a turn than listeners are handed: it waits, and nothing is lost.
#[test]
fn whoever_changes_much_waits_for_what_is_said_of_it() {
    const COUNT: usize = 20_000;
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let (client, listener) = (world.connect(), world.connect_at(usize::from(lane_count) - 1));
        world.ask(&client, "CONFIG SET notify-keyspace-events AKE");
        let mut listener = Listener::new(&mut world, listener, "PSUBSCRIBE *");
        let names: Vec<String> = (0..COUNT).map(|number| format!("k{number}")).collect();
        let pairs: Vec<String> = names.iter().map(|name| format!("{name} 1")).collect();
        let bytes = frame(&format!("MSET {}", pairs.join(" "))).into_iter();
        let bytes: Vec<u8> = bytes.chain(frame(&format!("DEL {}", names.join(" ")))).collect();
        let (mut got, mut replies, mut sent, mut rounds) = (Vec::new(), String::new(), 0, 0);
        let mut got_before = None;
        while (got.len() < 4 * COUNT || replies.len() <= "+OK\r\n".len()) && rounds < 20_000 {
            sent += client.write(&bytes[sent..]);
            world.round(10_000);
            got.extend(listener.heard());
            replies += &String::from_utf8_lossy(&client.read_all());
            if !replies.is_empty() {
                got_before.get_or_insert(got.len());
            }
            rounds += 1;
        }
        assert_eq!(replies, format!("+OK\r\n:{COUNT}\r\n"), "over {lane_count} lanes");
        assert_eq!(got.len(), 4 * COUNT, "over {lane_count} lanes");
        // Of what MSET has done most was said before it could end.
        assert!(got_before > Some(COUNT * 3 / 2), "{got_before:?} over {lane_count} lanes");
        let of_one = got.iter().filter(|(channel, _)| channel == "__keyspace@0__:k77");
        assert_eq!(of_one.map(|(_, body)| body.as_str()).collect::<Vec<_>>(), ["set", "del"]);
        leave(&mut world, vec![client, listener.client]);
    }
}

/// What has happened before the classes change is said all the same, and then nobody has anything to do.
#[test]
fn classes_may_change_while_something_is_to_be_said() {
    let mut world = World::new(1);
    let (client, listener) = (world.connect(), world.connect());
    let mut listener = Listener::new(&mut world, listener, "PSUBSCRIBE __key*");
    for classes in ["AKE", ""] {
        client.write(&frame("SET a 1"));
        client.write(&frame(&format!("CONFIG SET notify-keyspace-events {classes}")));
        client.write(&frame("SET b 1"));
        rounds(&mut world, 20);
    }
    assert_eq!(
        listener.lines(),
        ["__keyspace@0__:b set", "__keyevent@0__:set b", "__keyspace@0__:a set", "__keyevent@0__:set a"]
    );
    assert!(world.sleeps());
    leave(&mut world, vec![client, listener.client]);
}

fn frame(line: &str) -> Vec<u8> {
    let (mut bytes, words) = (Vec::new(), line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    wire::client::command(&mut bytes, &words);
    bytes
}
