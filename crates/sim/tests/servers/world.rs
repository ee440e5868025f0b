//! What a server of several lanes owes besides replies: bells only for sleepers, and long values that stall nobody.

use lane::Next;
use net::fault::Faults;
use sim::{Client, World};
use wire::route::{PartitionMap, Slot};

/// A key of that lane.
fn key_of(lane_count: u16, lane: u16, nth: usize) -> String {
    let map = PartitionMap::even(lane_count);
    let keys = (0..).map(|number| format!("key:{number}"));
    keys.filter(|key| map.owner(Slot::of(key.as_bytes())).0 == lane).nth(nth).expect("every lane owns keys")
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

fn bells(world: &World) -> Vec<u64> {
    world.lanes.iter().map(|lane| lane.stats().bells).collect()
}

/// Rounds in which lanes sleep when they may, until all do.
fn rest(world: &mut World) {
    for _ in 0..1000 {
        if world.is_asleep() {
            return;
        }
        for lane in 0..world.lanes.len() {
            world.turn_if_due(lane);
        }
        world.pass(1000);
    }
    panic!("idle lanes go to sleep");
}

/// A batch for a sleeping lane rings once, and its answers at most once back.
#[test]
fn a_batch_costs_at_most_one_bell_each_way() {
    let mut world = World::quiet(2);
    let mut client = world.connect(0);
    rest(&mut world);
    for batch in 1..=20 {
        let before = bells(&world);
        for nth in 0..30 {
            client.send(&command(&[b"GET", key_of(2, 1, nth % 3).as_bytes()]));
        }
        client.pump();
        rest(&mut world);
        client.pump();
        assert_eq!(client.received.len(), 5 * 30, "batch {batch} is answered");
        client.received.clear();
        let after = bells(&world);
        assert_eq!(after[0] - before[0], 1, "the sleeping lane is rung for once");
        assert!(after[1] - before[1] <= 1, "so is the one that asked");
    }
}

/// Two busy lanes, each of whose clients ask only for the other's keys, sixteen at a time: hardly anybody has to be woken.
#[test]
fn busy_lanes_hardly_ever_ring() {
    const BATCH_COUNT: usize = 16;
    const ROUNDS_COUNT: usize = 500;
    let mut world = World::quiet(2);
    let mut clients: Vec<_> = (0..50).map(|_| world.connect(0)).collect();
    for _ in 0..20 {
        world.round();
    }
    assert!(world.lanes.iter().all(|lane| lane.stats().clients > 10), "both lanes have clients");
    let batches = [0, 1].map(|lane| command(&[b"GET", key_of(2, lane, 0).as_bytes()]).repeat(BATCH_COUNT));
    let other_lane: Vec<usize> = clients.iter_mut().map(|client| 1 - lane_of(&mut world, client)).collect();
    let before = (bells(&world), asks(&world));
    for (client, &lane) in clients.iter_mut().zip(&other_lane) {
        client.send(&batches[lane]);
    }
    for _ in 0..ROUNDS_COUNT {
        for (client, &lane) in clients.iter_mut().zip(&other_lane) {
            client.pump();
            if client.received.len() == 5 * BATCH_COUNT {
                client.received.clear();
                client.send(&batches[lane]);
                client.pump();
            }
        }
        for lane in 0..2 {
            world.turn_if_due(lane);
        }
        world.pass(1000);
    }
    let rung = bells(&world).iter().sum::<u64>() - before.0.iter().sum::<u64>();
    let asked = asks(&world).iter().zip(&before.1).map(|(after, before)| after - before).min();
    assert!(asked.is_some_and(|asked| asked > 40_000), "both lanes are busy: {asked:?} asks");
    assert!(rung * 100 < 2 * asked.unwrap_or(0), "{rung} bells for twice {asked:?} asks");
}

fn asks(world: &World) -> Vec<u64> {
    world.lanes.iter().map(|lane| lane.stats().asks_served).collect()
}

/// The lane that serves a client: the one that counts what it asks.
fn lane_of(world: &mut World, client: &mut Client) -> usize {
    let before: Vec<u64> = world.lanes.iter().map(|lane| lane.stats().commands().all).collect();
    assert_eq!(world.exchange(client, b"PING\r\n", 7, 9), b"+PONG\r\n");
    let is_its = |lane: &usize| world.lanes[*lane].stats().commands().all > before[*lane];
    (0..world.lanes.len()).find(is_its).expect("a lane counted it")
}

/// Who does not read what it has asked for keeps no lane awake, and has all of it in the end.
#[test]
fn lanes_sleep_while_a_client_does_not_read() {
    const COUNT: usize = 400;
    let mut world = World::quiet(2);
    let mut client = world.connect_with(0, 1 << 20, 1 << 12);
    let keys = [key_of(2, 0, 0), key_of(2, 1, 0)];
    let value = [b'v'; 10_000];
    for key in &keys {
        assert_eq!(
            world.exchange(&mut client, &command(&[b"SET", key.as_bytes(), &value]), 5, 20),
            b"+OK\r\n"
        );
    }
    let gets = keys.map(|key| command(&[b"GET", key.as_bytes()])).concat();
    client.send(&gets.repeat(COUNT / 2));
    client.push(usize::MAX);
    rest(&mut world);
    let size = COUNT * (value.len() + b"$10000\r\n\r\n".len());
    for _ in 0..20_000 {
        client.pump();
        (0..2).for_each(|lane| world.turn_if_due(lane));
    }
    assert_eq!(client.received.len(), size);
}

/// A lane takes its next turn at once when another has asked for more than it answers in one, and when a pause is over.
#[test]
fn lanes_sleep_no_longer_than_they_may() {
    let mut world = World::quiet(2);
    let key = key_of(2, 1, 0);
    let mut clients: Vec<_> = (0..24).map(|_| world.connect(0)).collect();
    (0..20).for_each(|_| world.round());
    for client in &mut clients {
        client.send(&command(&[b"GET", key.as_bytes()]).repeat(60));
        client.pump();
    }
    // Its own clients, and then those of the other.
    (0..5).for_each(|_| _ = world.turn(1));
    (0..3).for_each(|_| _ = world.turn(0));
    assert_eq!(world.turn(1), Next::Again, "some are left");
    assert_eq!((0..3).map(|_| world.turn(1)).last(), Some(Next::Idle));

    let mut world = World::quiet(1);
    world.attend();
    let (mut client, mut held) = (world.connect(0), world.connect(0));
    client.send(&command(&[b"CLIENT", b"PAUSE", b"100", b"WRITE"]));
    for _ in 0..100 {
        client.pump();
        (0..world.node_count()).for_each(|node| world.turn_if_due(node));
    }
    held.send(&command(&[b"SET", b"k", b"v"]));
    held.pump();
    for ms in 0..200 {
        (0..world.node_count()).for_each(|node| world.turn_if_due(node));
        held.pump();
        assert_eq!(!held.received.is_empty(), ms >= 100, "after {ms} ms");
        world.pass(1_000_000);
    }
}

/// So many clients end their watching that it takes several turns to tell the other lane; meanwhile one of them has begun to watch
/// again, which the late word does not end.
#[test]
fn a_late_word_that_watching_is_over_does_not_end_the_next() {
    let key = key_of(2, 1, 0);
    let watch = command(&[b"WATCH", key.as_bytes()]);
    for (end, want) in [
        (vec!["UNWATCH"], "+OK\r\n+OK\r\n"),
        (vec!["MULTI", "DISCARD"], "+OK\r\n+OK\r\n+OK\r\n"),
        (vec!["MULTI", "EXEC"], "+OK\r\n*0\r\n+OK\r\n"),
    ] {
        let mut world = World::quiet(2);
        let mut others: Vec<_> = (0..1000).map(|_| world.connect(0)).collect();
        while world.lanes.iter().map(|lane| lane.stats().clients).sum::<u64>() < 1000 {
            world.round();
        }
        let of_lane_0 = others.iter_mut().position(|client| lane_of(&mut world, client) == 0);
        let mut client = others.swap_remove(of_lane_0.expect("both lanes have clients"));
        others.iter_mut().for_each(|other| other.send(&watch));
        while others.iter().any(|other| other.received != b"+OK\r\n") {
            others.iter_mut().for_each(Client::pump);
            world.round();
        }
        assert_eq!(world.exchange(&mut client, &watch, 5, 20), b"+OK\r\n");
        // Lane 1 stands still.
        for other in &mut others {
            other.received.clear();
            other.send(&command(&[b"UNWATCH"]));
            other.pump();
        }
        (0..8).for_each(|_| _ = world.turn(0));
        assert_eq!(world.turn(0), Next::Again, "not all is told");
        let lines = end.iter().flat_map(|line| command(&[line.as_bytes()]));
        client.send(&lines.chain(watch.clone()).collect::<Vec<_>>());
        client.pump();
        (0..2).for_each(|_| _ = world.turn(0));
        let got = world.exchange(&mut client, b"", want.len(), 50);
        assert_eq!(String::from_utf8_lossy(&got), want, "{end:?}");
        (0..50).for_each(|_| world.round());
        let set = command(&[b"SET", key.as_bytes(), b"v"]);
        others[0].pump();
        others[0].received.clear();
        assert_eq!(world.exchange(&mut others[0], &set, 5, 20), b"+OK\r\n");
        let exec = [command(&[b"MULTI"]), command(&[b"EXEC"])].concat();
        assert_eq!(world.exchange(&mut client, &exec, 10, 20), b"+OK\r\n*-1\r\n", "it watches after {end:?}");
    }
}

/// A value of `size` goes in and comes out over two lanes, in chunks, while another client is answered at once.
fn check_long_value(size: usize) {
    const ROUNDS_MAX: usize = 4;
    let mut world = World::new(2, &lane::Settings::default(), 1, Faults::default());
    let (mut long, mut short) = (world.connect(0), world.connect(0));
    for _ in 0..3 {
        world.round();
    }
    let keys = [key_of(2, 0, 0), key_of(2, 1, 0)];
    let value: Vec<u8> = (0..=250).cycle().take(size).collect();
    for key in &keys {
        long.send(&command(&[b"SET", key.as_bytes(), &value]));
        long.send(&command(&[b"GET", key.as_bytes()]));
    }
    let mut want = Vec::new();
    for _ in &keys {
        want.extend_from_slice(b"+OK\r\n");
        wire::reply::bulk(&mut want, &value);
    }
    let others = [key_of(2, 0, 1), key_of(2, 1, 1)];
    let ask: Vec<u8> = others.iter().flat_map(|key| command(&[b"GET", key.as_bytes()])).collect();
    let mut waited = 0;
    short.send(&ask);
    while long.received.len() < want.len() {
        long.pump();
        short.pump();
        waited += 1;
        if short.received.len() == 10 {
            short.received.clear();
            short.send(&ask);
            waited = 0;
        }
        assert!(waited <= ROUNDS_MAX, "nobody waits for somebody's long value");
        world.round();
    }
    assert!(long.received == want, "what comes out is what went in");
}

#[test]
fn sixty_four_megabytes_stall_nobody() {
    check_long_value(64 << 20);
}

#[test]
#[ignore = "takes several gigabytes of memory; run it with the long seeds"]
fn half_a_gigabyte_stalls_nobody() {
    check_long_value(512 << 20);
}

/// So many lanes that their rings are small, and so many clients that there is never credit for all.
#[test]
fn small_rings_and_many_clients() {
    for (seed, lane_count, caller_count) in [(1, 24, 40), (3, 2, 150)] {
        let wishes = sim::Wishes { lane_count: Some(lane_count), caller_count: Some(caller_count) };
        if let Err(text) = sim::run(seed, wishes) {
            panic!("seed {seed}: {text}");
        }
    }
}
