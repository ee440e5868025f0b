//! Commands that only look, over several lanes: each lane looks as soon as it has its locks, and what they saw is true together.

use std::collections::BTreeSet;

use wire::route::PartitionMap;

use crate::world::World;

const TIME_TO_LIVE_MS: u64 = 100;
/// Later they are over, whatever was said meanwhile.
const WAITED_MAX_MS: u64 = 2 * TIME_TO_LIVE_MS;

/// A key of a lane, of three; behind it any text may stand.
fn key_of(lane: u16) -> String {
    let map = PartitionMap::even(3);
    (0..).map(|nth| format!("{{k{nth}}}")).find(|key| map.owner_of(key.as_bytes()).0 == lane).expect("a key")
}

/// A key of lane 1 and one of lane 2.
fn keys() -> [String; 2] {
    [1, 2].map(key_of)
}

fn bytes_of(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    bytes
}

/// Several commands in one piece.
fn pipeline(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| bytes_of(line)).collect()
}

/// Keys that were found or not, as INFO has it.
fn looks(world: &mut World, client: &net::mem::Client) -> u64 {
    let info = world.ask(client, "INFO stats");
    number_in(&info, "keyspace_hits") + number_in(&info, "keyspace_misses")
}

fn number_in(info: &str, field: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(field)).expect("the field is there");
    line.trim_start_matches(':').parse().expect("a number")
}

/// The number that follows this in a line that begins with it; 0 without such a line.
fn number_in_line(info: &str, front: &str) -> u64 {
    let rest = info.lines().find_map(|line| line.strip_prefix(front)).unwrap_or("0");
    rest.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// What commands in one piece say of two keys that end together, and are of two lanes, when they come shortly before or after that, or around it: the
/// lane of the one looks a millisecond before that of the other. In the commands they are NEAR and FAR.
fn replies_around_the_end(lines: &[&str]) -> (BTreeSet<String>, u64) {
    let mut world = World::new(3);
    let (client, [near, far]) = (world.connect_at(0), keys());
    let mut replies = BTreeSet::new();
    for waited in 0..WAITED_MAX_MS {
        let set = format!("SET {near} 1 PX {TIME_TO_LIVE_MS}");
        world.ask_all(&client, &["MULTI", &set, &set.replace(&near, &far), "EXEC"]);
        (0..waited).for_each(|_| world.round(1_000_000));
        let lines: Vec<String> =
            lines.iter().map(|line| line.replace("NEAR", &near).replace("FAR", &far)).collect();
        client.write(&pipeline(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
        world.round_of(1_000_000, |lane| lane != 1);
        (0..10).for_each(|_| world.round(1_000_000));
        replies.insert(String::from_utf8(client.read_all()).expect("text"));
    }
    (replies, looks(&mut world, &client))
}

#[test]
fn keys_that_end_together_are_all_there_or_none() {
    let (replies, looks) = replies_around_the_end(&["MGET NEAR FAR"]);
    let want = ["*2\r\n$-1\r\n$-1\r\n", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"];
    assert_eq!(replies, want.map(str::to_owned).into());
    assert_eq!(looks, 2 * WAITED_MAX_MS, "who looks again is not counted again");
    let (replies, _) = replies_around_the_end(&["EXISTS NEAR FAR"]);
    assert_eq!(replies, [":0\r\n", ":2\r\n"].map(str::to_owned).into());
    let (replies, looks) = replies_around_the_end(&["EXISTS NEAR FAR", "GET FAR", "STRLEN NEAR"]);
    assert_eq!(replies, [":0\r\n$-1\r\n:0\r\n", ":2\r\n$1\r\n1\r\n:1\r\n"].map(str::to_owned).into());
    assert_eq!(looks, 4 * WAITED_MAX_MS);
}

#[test]
fn one_round_trip_is_enough() {
    let mut world = World::new(3);
    let (client, [near, far]) = (world.connect_at(0), keys());
    world.ask(&client, &format!("MSET {near} 1 {far} 2"));
    client.write(&bytes_of(&format!("MGET {near} {far}")));
    // The client's lane asks, the others look, the client's lane answers. Lanes have their turns in ascending order.
    world.round(10_000);
    assert_eq!(client.read_all(), b"");
    world.round_of(10_000, |lane| lane == 0);
    assert_eq!(String::from_utf8_lossy(&client.read_all()), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    // Whoever wants to change them may when they have been told.
    assert_eq!(world.ask(&client, &format!("SET {far} 3")), "+OK\r\n");
}

#[test]
fn what_only_looks_looks_together() {
    let mut world = World::new(3);
    let (client, [near, far], own) = (world.connect_at(0), keys(), key_of(0));
    world.ask(&client, &format!("MSET {near} 1 {far} 2 {own} 3"));
    let calls = |world: &mut World| {
        let stats = world.ask(&client, "INFO commandstats");
        ["mget", "exists", "get"].map(|name| number_in_line(&stats, &format!("cmdstat_{name}:calls=")))
    };
    let before = calls(&mut world);
    let both = format!("{near} {far}");
    let (mget, exists) = (format!("MGET {both}"), format!("EXISTS {both} {own}"));
    let (get, set) = (format!("GET {own}"), format!("SET {far} 4"));
    client.write(&pipeline(&[&mget, &exists, &get, &mget, &set, &mget, &get]));
    // As far as the first that changes something it is one round trip.
    world.round(10_000);
    world.round_of(10_000, |lane| lane == 0);
    let mget_reply = "*2\r\n$1\r\n1\r\n$1\r\n2\r\n";
    let want = format!("{mget_reply}:3\r\n$1\r\n3\r\n{mget_reply}");
    assert_eq!(String::from_utf8_lossy(&client.read_all()), want);
    (0..10).for_each(|_| world.round(10_000));
    let want = "+OK\r\n*2\r\n$1\r\n1\r\n$1\r\n4\r\n$1\r\n3\r\n";
    assert_eq!(String::from_utf8_lossy(&client.read_all()), want);
    let after = calls(&mut world);
    assert_eq!([0, 1, 2].map(|at| after[at] - before[at]), [3, 1, 2]);
    // More than are decoded at a time: two round trips, the second a turn behind the first reply.
    client.write(&pipeline(&[exists.as_str(); 20]));
    (0..3).for_each(|_| world.round(10_000));
    world.round_of(10_000, |lane| lane == 0);
    assert_eq!(String::from_utf8_lossy(&client.read_all()), ":3\r\n".repeat(20));
    (0..10).for_each(|_| world.round(10_000));
    assert!(world.is_idle());
}

#[test]
fn who_is_refused_and_comes_again_is_counted_once() {
    // The second look is put off, as it takes more than a slice.
    for size in [1, 10_000] {
        let mut world = World::new(3);
        let (looker, writer) = (world.connect_at(1), world.connect_at(0));
        let ([near, far], own, value) = (keys(), key_of(0), "x".repeat(size));
        let near: Vec<String> = (0..4).map(|nth| format!("{near}{nth}")).collect();
        for name in near.iter().chain([&far, &own]) {
            world.ask(&writer, &format!("SET {name} {value}"));
        }
        let before = looks(&mut world, &writer);
        // The looker has the lower number and its own lane's lock; on the other lane the writer comes first, so it is refused there.
        let (mget, get) = (format!("MGET {} {far}", near.join(" ")), format!("GET {far}"));
        looker.write(&pipeline(&[&mget, &get]));
        for _ in 0..2 {
            world.turn(1);
        }
        writer.write(&bytes_of(&format!("MSET {own} 3 {far} 4")));
        world.turn(0);
        let mut reply = Vec::new();
        for _ in 0..40 {
            world.round(10_000);
            reply.extend(looker.read_all());
        }
        assert_eq!(String::from_utf8_lossy(&writer.read_all()), "+OK\r\n");
        let want = format!("*5\r\n{}$1\r\n4\r\n$1\r\n4\r\n", format!("${size}\r\n{value}\r\n").repeat(4));
        assert_eq!(String::from_utf8_lossy(&reply), want, "refused");
        assert_eq!(looks(&mut world, &writer) - before, 6);
        assert!(world.is_idle());
    }
}

#[test]
fn who_has_much_to_see_waits_for_all_locks() {
    let mut world = World::new(3);
    let (client, value) = (world.connect_at(0), "x".repeat(10_000));
    let names: Vec<String> = (0..4).flat_map(|nth| keys().map(|key| format!("{key}{nth}"))).collect();
    for name in &names {
        world.ask(&client, &format!("SET {name} {value}"));
    }
    // The first of them would fit.
    let [exists, mget] = ["EXISTS", "MGET"].map(|command| format!("{command} {}", names.join(" ")));
    client.write(&pipeline(&[&exists, &mget, &exists]));
    // What one round trip would be: the other lanes have only said that they have their locks.
    world.round(10_000);
    world.round_of(10_000, |lane| lane == 0);
    assert_eq!(client.read_all(), b"");
    let mut reply = Vec::new();
    for _ in 0..40 {
        world.round(10_000);
        reply.extend(client.read_all());
    }
    let want = format!(":8\r\n*8\r\n{}:8\r\n", format!("$10000\r\n{value}\r\n").repeat(8));
    assert_eq!(String::from_utf8_lossy(&reply), want);
    assert_eq!(looks(&mut world, &client), 3 * 8);
    assert!(world.is_idle());
}
