//! Commands of one client behind one that has to wait on another lane: they park there in the order in which they were
//! asked, and none is forgotten or overtakes.

use sim::{Client, World};
use wire::route::{PartitionMap, Slot};

/// Bytes that take an APPEND many turns.
const LONG: usize = 4 << 20;

/// Keys of a lane of two.
fn keys_of(lane: u16, count: usize) -> Vec<String> {
    let map = PartitionMap::even(2);
    let keys = (0..).map(|number| format!("key:{number}"));
    keys.filter(|key| map.owner(Slot::of(key.as_bytes())).0 == lane).take(count).collect()
}

fn keys_there(count: usize) -> Vec<String> {
    keys_of(1, count)
}

fn command(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    bytes
}

fn rounds(world: &mut World, clients: [&mut Client; 2], count: usize) {
    let [one, other] = clients;
    for _ in 0..count {
        one.pump();
        other.pump();
        world.round();
    }
    one.pump();
    other.pump();
}

/// A client of lane 0, and one of lane 1: connections are spread evenly.
fn connect(world: &mut World) -> (Client, Client) {
    let (mut client, mut holder) = (world.connect(0), world.connect(0));
    rounds(world, [&mut holder, &mut client], 3);
    assert!(world.lanes.iter().all(|lane| lane.stats().clients == 1));
    (client, holder)
}

/// The holder begins a long command on the key, which is locked while that runs in slices.
fn hold(world: &mut World, holder: &mut Client, client: &mut Client, key: &str) {
    let long = "x".repeat(LONG);
    holder.send(&command(&format!("SET {key} {long}")));
    holder.send(&command(&format!("APPEND {key} {long}")));
    while !holder.is_sent() {
        rounds(world, [holder, client], 1);
    }
    rounds(world, [holder, client], 2);
    assert_eq!(holder.received, b"+OK\r\n", "the long command is under way");
    holder.received.clear();
}

#[test]
fn asks_behind_one_that_waits_are_parked_and_answered_in_order() {
    let mut world = World::quiet(2);
    let (mut client, mut holder) = connect(&mut world);
    let keys = keys_there(3);
    let [locked, a, b] = [&keys[0], &keys[1], &keys[2]];

    hold(&mut world, &mut holder, &mut client, locked);
    let lines = [
        format!("STRLEN {locked}"),
        format!("SET {a} 1"),
        format!("INCR {a}"),
        format!("GET {locked}x"),
        format!("SET {b} {}", "y".repeat(600)),
        format!("APPEND {b} {}", "z".repeat(600)),
        format!("STRLEN {b}"),
        format!("INCR {a}"),
        format!("STRLEN {locked}"),
        format!("GET {a}"),
    ];
    lines.iter().for_each(|line| client.send(&command(line)));
    rounds(&mut world, [&mut holder, &mut client], 3);
    assert!(
        holder.received.is_empty() && client.received.is_empty(),
        "the first one waits, and all behind it"
    );
    assert_eq!(world.lanes[1].stats().keys, 1, "nothing has overtaken");
    rounds(&mut world, [&mut holder, &mut client], 400);
    assert_eq!(holder.received, b":8388608\r\n");
    let want = ":8388608\r\n+OK\r\n:2\r\n$-1\r\n+OK\r\n:1200\r\n:1200\r\n:3\r\n:8388608\r\n$1\r\n3\r\n";
    assert_eq!(String::from_utf8_lossy(&client.received), want);
    assert!(world.is_idle(), "no line is left");
    drop((holder, client));
    (0..20).for_each(|_| world.round());
    world.lanes.iter().for_each(lane::Lane::audit);
}

/// The client of parked asks goes: what it has asked for happens all the same, and nothing is left.
#[test]
fn parked_asks_of_a_client_that_has_gone_are_carried_out() {
    let mut world = World::quiet(2);
    let (mut client, mut holder) = connect(&mut world);
    let keys = keys_there(2);
    hold(&mut world, &mut holder, &mut client, &keys[0]);
    client.send(&command(&format!("GETRANGE {} 0 0", keys[0])));
    client.send(&command(&format!("INCR {}", keys[1])).repeat(2));
    rounds(&mut world, [&mut holder, &mut client], 3);
    assert!(holder.received.is_empty(), "the long command is under way");
    drop(client);
    let mut other = world.connect(0);
    rounds(&mut world, [&mut holder, &mut other], 400);
    other.send(&command(&format!("STRLEN {}", keys[0])));
    other.send(&command(&format!("GET {}", keys[1])));
    rounds(&mut world, [&mut holder, &mut other], 5);
    assert_eq!(String::from_utf8_lossy(&other.received), ":8388608\r\n$1\r\n2\r\n");
    drop((holder, other));
    (0..20).for_each(|_| world.round());
    world.lanes.iter().for_each(lane::Lane::audit);
}

/// A command of several keys or of whole databases, and an EXEC, begin when all that their client asked before is answered: nobody
/// sees what they do before what went before them.
#[test]
fn what_is_a_barrier_waits_for_the_answers_before_it() {
    let (here, there) = (keys_of(0, 2), keys_there(1));
    let [a, b] = [&here[0], &here[1]];
    for (lines, want) in [
        (vec![format!("DEL {a} {b}")], ":1\r\n"),
        (vec![format!("MSET {a} 1 {b} 2")], "+OK\r\n"),
        (vec![format!("MGET {a} {}", there[0])], "*2\r\n$1\r\n0\r\n$1\r\n7\r\n"),
        (vec!["FLUSHALL".to_owned()], "+OK\r\n"),
        (vec!["DBSIZE".to_owned()], ":2\r\n"),
        (vec!["SWAPDB 0 1".to_owned()], "+OK\r\n"),
        (vec!["SCAN 0".to_owned()], ""),
        (
            vec!["MULTI".to_owned(), format!("SET {b} 1"), "EXEC".to_owned()],
            "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n",
        ),
    ] {
        let mut world = World::quiet(2);
        let (mut client, mut other) = connect(&mut world);
        client.send(&command(&format!("SET {a} 0")));
        rounds(&mut world, [&mut other, &mut client], 3);
        client.received.clear();
        client.send(&command(&format!("SET {} 7", there[0])));
        lines.iter().for_each(|line| client.send(&command(line)));
        client.pump();
        // The other lane takes no turn, so its answer does not come.
        for _ in 0..10 {
            world.turn(0);
        }
        assert!(world.lanes[0].is_idle() && world.lanes[0].stats().keys == 1, "{lines:?} has begun");
        rounds(&mut world, [&mut other, &mut client], 20);
        let got = String::from_utf8_lossy(&client.received).into_owned();
        assert!(
            got.starts_with("+OK\r\n") && got[5..].starts_with(want) && got.len() > 5,
            "{lines:?}: {got}"
        );
    }
}

/// What concerns the connection alone waits for nobody, and is for what comes behind it.
#[test]
fn what_concerns_the_connection_waits_for_no_answer() {
    let mut world = World::quiet(2);
    let (mut client, mut other) = connect(&mut world);
    let (here, there) = (&keys_of(0, 1)[0], &keys_there(1)[0]);
    let lines = [
        format!("SET {there} 7"),
        format!("GETEX {there}"),
        "SELECT 1".to_owned(),
        format!("GET {there}"),
        "HELLO 3".to_owned(),
        format!("GET {there}"),
        "CLIENT SETNAME me".to_owned(),
        format!("SET {here} 1"),
        "SELECT 0".to_owned(),
        format!("GET {there}"),
        "QUIT".to_owned(),
    ];
    lines.iter().for_each(|line| client.send(&command(line)));
    client.pump();
    // The other lane takes no turn, so its answers do not come.
    for _ in 0..10 {
        world.turn(0);
    }
    assert!(world.lanes[0].stats().keys == 1, "it waits for nobody");
    rounds(&mut world, [&mut other, &mut client], 20);
    let got = String::from_utf8_lossy(&client.received).into_owned();
    let (before, behind) = got.split_once("%7\r\n").expect("HELLO has a map for an answer");
    assert_eq!(before, "+OK\r\n$1\r\n7\r\n+OK\r\n$-1\r\n");
    assert!(behind.ends_with("*0\r\n_\r\n+OK\r\n+OK\r\n+OK\r\n$1\r\n7\r\n+OK\r\n"), "{behind}");
    assert!(client.end.at_end(), "QUIT closes when all is answered");
}

/// A key of each of three lanes.
fn key_of_each() -> Vec<String> {
    let map = PartitionMap::even(3);
    let key_of = |lane| {
        (0..).map(|number| format!("key:{number}")).find(|key| map.owner(Slot::of(key.as_bytes())).0 == lane)
    };
    (0..3).map(|lane| key_of(lane).expect("every lane has keys")).collect()
}

/// An EXEC that is refused its locks, and asks again, still finds what has changed meanwhile on a lane that it only watches.
#[test]
fn an_exec_that_is_refused_is_not_deaf_to_what_it_watches() {
    let mut world = World::quiet(3);
    let mut clients = Vec::new();
    for number in 0..24 {
        clients.push(world.connect(number % 3));
        (0..3).for_each(|_| world.round());
    }
    assert!(world.lanes.iter().all(|lane| lane.stats().clients == 8));
    let keys = key_of_each();
    let (mut rival, mut client) = (clients.swap_remove(0), clients.swap_remove(1));
    let begun = [
        command(&format!("WATCH {}", keys[2])),
        command("MULTI"),
        command(&format!("MSET {} 1 {} 1", keys[0], keys[1])),
    ];
    assert_eq!(world.exchange(&mut client, &begun.concat(), 19, 20), b"+OK\r\n+OK\r\n+QUEUED\r\n");
    // More asks than lane 0 hears in a turn stand before the EXEC's, and there the other one is first, with a later number.
    for (number, other) in clients.iter_mut().enumerate() {
        if number % 3 == 1 || number % 3 == 0 {
            other.send(&command(&format!("GET {}", keys[0])).repeat(60));
            other.pump();
        }
    }
    world.turn(1);
    client.send(&command("EXEC"));
    client.pump();
    world.turn(1);
    rival.send(&command(&format!("MSET {} 2 {} 2 {} 2", keys[0], keys[1], keys[2])));
    rival.pump();
    for _ in 0..60 {
        world.round();
    }
    let refused: u64 = world.lanes.iter().map(|lane| lane.stats().parts_refused).sum();
    rival.pump();
    client.pump();
    assert_eq!(rival.received, b"+OK\r\n");
    assert_eq!(
        (client.received.as_slice(), refused > 0),
        (b"*-1\r\n".as_slice(), true),
        "{refused} are refused"
    );
}
