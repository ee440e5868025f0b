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

/// Of calls that are dispatched together no more than the first that uses up a share.
#[test]
fn a_share_ends_within_a_run_of_calls() {
    const SIZE: usize = 3000;
    const COUNT: usize = 60;
    let mut world = World::new(1);
    let client = world.connect_small(0, 1 << 20);
    let value = |number: usize| format!("{number:0SIZE$}");
    let (mut gets, mut want) = (Vec::new(), String::new());
    for number in 0..COUNT {
        let key = format!("key:{number:02}");
        assert_eq!(world.ask(&client, &format!("SET {key} {}", value(number))), "+OK\r\n");
        command(&mut gets, &[b"GET", key.as_bytes()]);
        want += &format!("${SIZE}\r\n{}\r\n", value(number));
    }
    assert_eq!(client.write(&gets), gets.len());
    let (call_size, mut got) = ((gets.len() + want.len()) / COUNT, Vec::new());
    // Of 8 KiB the first time, of 64 KiB from then on.
    let [first, other] = [8 << 10, 64 << 10].map(|share: usize| share.div_ceil(call_size));
    for (turn, count) in [first + other, other, COUNT - first - 2 * other].into_iter().enumerate() {
        let before = world.lanes[0].stats().commands().all;
        world.turn(0);
        assert_eq!(world.lanes[0].stats().commands().all - before, count as u64, "turn {turn}");
        got.extend(client.read_all());
    }
    while got.len() < want.len() {
        world.turn(0);
        got.extend(client.read_all());
    }
    assert!(got == want.as_bytes(), "each has its value, in order");
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

/// Of a turn's work for pub/sub; see `pubsub/spread.rs`.
#[test]
fn a_turn_begins_and_ends_a_few_subscriptions_and_tells_a_few_clients() {
    let mut world = World::new(1);
    let client = world.connect_small(0, 1 << 20);
    world.ask(&client, "HELLO 3");
    let channels: Vec<String> = (0..1000).map(|number| format!("channel:{number}")).collect();
    let words: Vec<&[u8]> =
        ["SUBSCRIBE"].into_iter().chain(channels.iter().map(String::as_str)).map(str::as_bytes).collect();
    let (mut turns, mut total) = (0, 0);
    send(&client, 1, &words);
    let said = |client: &mem::Client| client.read_all().iter().filter(|byte| **byte == b'>').count();
    while total < channels.len() {
        world.turn(0);
        turns += 1;
        total += said(&client);
    }
    // The first ones with the command itself.
    assert!(turns > (channels.len() - 256) / 128, "{turns} turns");
    let others: Vec<_> = (0..300).map(|_| world.connect()).collect();
    for other in &others {
        world.ask(other, "HELLO 3");
        world.ask(other, "CLIENT TRACKING on");
        world.ask(other, "GET key");
    }
    send(&client, 1, &[b"SET", b"key", b"1"]);
    let mut total = 0;
    while total < others.len() {
        world.turn(0);
        let count: usize = others.iter().map(said).sum();
        assert!(count <= 128, "{count} clients are told in a turn");
        total += count;
    }
}

#[test]
fn a_turn_closes_a_few_clients() {
    let mut world = World::new(1);
    let client = world.connect();
    let mut clients: Vec<_> = (0..300).map(|_| world.connect()).collect();
    for client in &clients {
        world.ask(client, "PING");
    }
    send(&client, 1, &[b"CLIENT", b"KILL", b"TYPE", b"normal"]);
    for _ in 0..100 {
        world.round(1_000_000);
        let count = clients.len();
        clients.retain(|client| !(client.at_end() || client.was_cut()));
        assert!(count - clients.len() <= 32, "{} clients are closed in a turn", count - clients.len());
    }
    assert!(clients.is_empty() && replies(&client) == 1);
}

/// What it is made of goes later, a turn's share at a time.
#[test]
fn a_large_command_that_is_refused_goes_in_turns() {
    let mut world = World::new(1);
    let client = world.connect_small(0, 1 << 20);
    world.ask(&client, "PING");
    for name in [b"NOSUCH".as_slice(), b"SET", b"DBSIZE"] {
        let words: Vec<&[u8]> = [name].into_iter().chain((1..100_000).map(|_| b"".as_slice())).collect();
        send(&client, 1, &words);
        while replies(&client) == 0 {
            world.turn(0);
        }
        let rest = (0..1000).take_while(|_| world.turn(0) == Next::Again).count();
        assert!(rest > 3, "{}: {rest} turns", String::from_utf8_lossy(name));
    }
}

/// Short arguments take their time as well as long ones.
#[test]
fn a_turn_takes_in_so_many_arguments() {
    let mut world = World::new(1);
    let clients = [(); 4].map(|()| world.connect_small(0, 1 << 20));
    for client in &clients {
        world.ask(client, "PING");
    }
    let mut count = |argument: &[u8], count: usize| {
        let words: Vec<&[u8]> =
            [b"NOSUCH".as_slice()].into_iter().chain((0..count).map(|_| argument)).collect();
        for client in &clients {
            send(client, 1, &words);
        }
        let (mut turns, mut answered) = (0, 0);
        while answered < clients.len() {
            world.turn(0);
            turns += 1;
            answered += clients.iter().map(replies).sum::<usize>();
        }
        turns
    };
    let (few, many) = (count(&[b'a'; 60], 900), count(b"", 10_000));
    assert!(few < many, "{few} turns for 60 kB of 900 arguments, {many} of 10,000");
}

/// As long as it makes as much room as it takes.
#[test]
fn who_writes_does_not_wait_until_a_lower_limit_is_kept() {
    let mut world = World::new(1);
    let client = world.connect_small(0, 1 << 20);
    world.ask(&client, "CONFIG SET maxmemory 12mb maxmemory-policy allkeys-lru");
    let value = "v".repeat(100);
    for number in 0..30_000 {
        send(&client, 1, &[b"SET", format!("key:{number}").as_bytes(), value.as_bytes()]);
        world.turn(0);
    }
    client.read_all();
    assert_eq!(world.ask(&client, "CONFIG SET maxmemory 1mb"), "+OK\r\n");
    send(&client, 1, &[b"SET", b"new", value.as_bytes()]);
    let waited = 1
        + (0..1000)
            .take_while(|_| {
                world.turn(0);
                replies(&client) == 0
            })
            .count();
    let rest = (0..10_000).take_while(|_| world.turn(0) == Next::Again).count();
    assert!(waited <= 2 && rest > 20, "{waited} turns, and {rest} until the limit is kept");
}

/// It makes as much room as its arguments take, and what it stores is longer.
#[test]
fn who_stores_more_than_it_says_waits_for_the_limit() {
    const LIMIT: u64 = 4 << 20;
    let mut world = World::new(1);
    let client = world.connect_small(0, 1 << 20);
    world.ask(&client, "CONFIG SET maxmemory 4mb maxmemory-policy allkeys-lru");
    for number in 0..30_000 {
        send(&client, 1, &[b"SET", format!("key:{number}").as_bytes(), &[b'v'; 200]]);
        world.turn(0);
    }
    client.read_all();
    for number in 0..100 {
        send(&client, 1, &[b"SETRANGE", format!("long:{number}").as_bytes(), b"100000", b"v"]);
        while replies(&client) == 0 {
            world.turn(0);
        }
        let held = world.lanes[0].shard().held();
        assert!(held < LIMIT + 300_000, "{held} bytes after {number}");
    }
}
