//! A command that only looks, over several lanes: each looks as soon as it has its locks, and what they saw is true together.

use std::collections::BTreeSet;

use wire::route::PartitionMap;

use crate::world::World;

const TIME_TO_LIVE_MS: u64 = 100;
/// Later they are over, whatever was said meanwhile.
const WAITED_MAX_MS: u64 = 2 * TIME_TO_LIVE_MS;

/// A key of lane 1 and one of lane 2, of three.
fn keys() -> [String; 2] {
    let map = PartitionMap::even(3);
    [1, 2].map(|lane| {
        (0..).map(|nth| format!("k{nth}")).find(|key| map.owner_of(key.as_bytes()).0 == lane).expect("a key")
    })
}

fn number_in(info: &str, field: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(field)).expect("the field is there");
    line.trim_start_matches(':').parse().expect("a number")
}

/// What a command says of two keys that end together, and are of two lanes, when it comes shortly before or after that, or around it: the lane of the
/// one looks a millisecond before that of the other.
fn replies_around_the_end(command: &str) -> (BTreeSet<String>, u64) {
    let mut world = World::new(3);
    let (client, [near, far]) = (world.connect_at(0), keys());
    let mut replies = BTreeSet::new();
    for waited in 0..WAITED_MAX_MS {
        let set = format!("SET {near} 1 PX {TIME_TO_LIVE_MS}");
        world.ask_all(&client, &["MULTI", &set, &set.replace(&near, &far), "EXEC"]);
        (0..waited).for_each(|_| world.round(1_000_000));
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[command.as_bytes(), near.as_bytes(), far.as_bytes()]);
        client.write(&bytes);
        world.round_of(1_000_000, |lane| lane != 1);
        (0..10).for_each(|_| world.round(1_000_000));
        replies.insert(String::from_utf8(client.read_all()).expect("text"));
    }
    let info = world.ask(&client, "INFO stats");
    let looks = number_in(&info, "keyspace_hits") + number_in(&info, "keyspace_misses");
    (replies, looks)
}

#[test]
fn keys_that_end_together_are_all_there_or_none() {
    let (replies, looks) = replies_around_the_end("MGET");
    let want = ["*2\r\n$-1\r\n$-1\r\n", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"];
    assert_eq!(replies, want.map(str::to_owned).into());
    assert_eq!(looks, 2 * WAITED_MAX_MS, "who looks again is not counted again");
    let (replies, _) = replies_around_the_end("EXISTS");
    assert_eq!(replies, [":0\r\n", ":2\r\n"].map(str::to_owned).into());
}

#[test]
fn one_round_trip_is_enough() {
    let mut world = World::new(3);
    let (client, [near, far]) = (world.connect_at(0), keys());
    world.ask(&client, &format!("MSET {near} 1 {far} 2"));
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"MGET", near.as_bytes(), far.as_bytes()]);
    client.write(&bytes);
    // The client's lane asks, the others look, the client's lane answers. Lanes have their turns in ascending order.
    world.round(10_000);
    assert_eq!(client.read_all(), b"");
    world.round_of(10_000, |lane| lane == 0);
    assert_eq!(String::from_utf8_lossy(&client.read_all()), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    // Whoever wants to change them may when they have been told.
    assert_eq!(world.ask(&client, &format!("SET {far} 3")), "+OK\r\n");
}
