//! What takes long has its time in a turn and no more: clients' commands, what other lanes ask, and slices, each.

use lane::Next;
use net::mem;
use wire::client::command;

use crate::world::World;

/// What one command takes here, of a spell of 300 microseconds.
const COMMAND_US: u64 = 100;
const COMMANDS_PER_SPELL: usize = 3;

/// Sends the same command so many times.
fn send(client: &mem::Client, count: usize, words: &[&[u8]]) {
    let mut bytes = Vec::new();
    for _ in 0..count {
        command(&mut bytes, words);
    }
    assert_eq!(client.write(&bytes), bytes.len());
}

/// Replies of one line that have come meanwhile.
fn replies(client: &mem::Client) -> usize {
    client.read_all().iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn a_turn_serves_clients_for_a_spell_and_then_whoever_was_not_served() {
    let mut world = World::new(1);
    let clients = [(); 3].map(|()| world.connect());
    for client in &clients {
        world.ask(client, "PING");
    }
    world.meter.slow(COMMAND_US);
    let [long, short, late] = &clients;
    send(long, 8, &[b"SELECT", b"0"]);
    send(short, 1, &[b"PING"]);
    send(late, 1, &[b"PING"]);
    // Who has used up a spell goes on behind those that have waited for it.
    for (turn, want) in [[3, 0, 0], [1, 1, 1], [3, 0, 0], [1, 0, 0], [0, 0, 0]].into_iter().enumerate() {
        world.turn(0);
        assert_eq!([long, short, late].map(replies), want, "turn {turn}");
    }
}

#[test]
fn a_turn_answers_lanes_for_a_spell_and_begins_with_who_was_not_answered() {
    let mut world = World::new(3);
    let clients = [world.connect_at(0), world.connect_at(1)];
    for client in &clients {
        world.ask(client, "PING");
    }
    for client in &clients {
        // The key is the third lane's.
        send(client, 5, &[b"STRLEN", b"foo"]);
    }
    for lane in [0, 1] {
        world.turn(lane);
    }
    world.meter.slow(COMMAND_US);
    let mut answered = [0; 2];
    for (turn, want) in [[3, 0], [3, 3], [5, 4], [5, 5]].into_iter().enumerate() {
        world.turn(2);
        for (lane, client) in clients.iter().enumerate() {
            world.turn(lane);
            answered[lane] += replies(client);
        }
        assert_eq!(answered, want, "turn {turn}");
    }
}

/// Turns until a command is over.
fn turns(world: &mut World, client: &mem::Client, words: &[&[u8]]) -> usize {
    send(client, 1, words);
    let (mut count, mut is_answered) = (0, false);
    loop {
        let next = world.turn(0);
        count += 1;
        is_answered |= replies(client) > 0;
        if is_answered && next != Next::Again {
            return count;
        }
        assert!(count < 10_000, "no reply");
    }
}

#[test]
fn a_turn_goes_on_with_what_is_under_way_for_a_spell() {
    let mut world = World::new(1);
    let client = world.connect_small(0, 1 << 20);
    world.ask(&client, "PING");
    let names: Vec<String> = (0..4000).map(|number| format!("name:{number}")).collect();
    let words: Vec<&[u8]> =
        ["DEL"].into_iter().chain(names.iter().map(String::as_str)).map(str::as_bytes).collect();
    let quick = turns(&mut world, &client, &words);
    world.meter.slow(COMMAND_US * COMMANDS_PER_SPELL as u64);
    let slow = turns(&mut world, &client, &words);
    assert!(quick * 3 <= slow, "{quick} turns, and {slow} of one slice each");
}

/// Each turn goes through one slice.
#[test]
fn long_names_cost_what_they_are_long() {
    let mut world = World::new(1);
    let client = world.connect_small(0, 1 << 20);
    world.ask(&client, "PING");
    world.meter.slow(COMMAND_US * COMMANDS_PER_SPELL as u64);
    let names = |size: usize| (0..100).map(move |number| format!("{number:0size$}")).collect::<Vec<_>>();
    let (long, short) = (names(3000), names(10));
    let check = |world: &mut World, name: &str, value: Option<&str>| {
        let [long, short] = [&long, &short].map(|names| {
            let pairs = names.iter().flat_map(|name| [name.as_str()].into_iter().chain(value));
            let words: Vec<&[u8]> = [name].into_iter().chain(pairs).map(str::as_bytes).collect();
            turns(world, &client, &words)
        });
        assert!(short * 10 <= long, "{name}: {short} turns, {long} with names of 3 kB");
    };
    // Of names that are nobody's, and of others.
    check(&mut world, "MGET", None);
    check(&mut world, "EXISTS", None);
    check(&mut world, "DEL", None);
    check(&mut world, "MSETNX", Some("v"));
    // All but the last are nobody's.
    check(&mut world, "DEL", None);
    for last in [&long[99], &short[99]] {
        turns(&mut world, &client, &[b"SET", last.as_bytes(), b"v"]);
    }
    check(&mut world, "MSETNX", Some("v"));
    check(&mut world, "MSET", Some("v"));
    check(&mut world, "MGET", None);
    check(&mut world, "EXISTS", None);
    check(&mut world, "TOUCH", None);
    check(&mut world, "DEL", None);
    check(&mut world, "MSET", Some("v"));
    check(&mut world, "UNLINK", None);
}
