//! `maxmemory-clients`: which clients go, and that lanes which can do nothing about it rest.

use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};

const MIB: u64 = 1 << 20;

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

fn world(lane_count: u16) -> World {
    let settings = Settings { clients_size_max: MIB, ..Settings::default() };
    World::new(lane_count, &settings, 7, Faults::default())
}

/// Lanes take the turns that are due.
fn turns(world: &mut World) {
    (0..world.node_count()).for_each(|node| world.turn_if_due(node));
    world.pass(50_000);
}

/// The same until all sleep.
fn rest(world: &mut World) {
    for _ in 0..1000 {
        if world.is_asleep() {
            return;
        }
        turns(world);
    }
    panic!("lanes that can do nothing sleep");
}

/// Clients, one on each lane in turn.
fn clients(world: &mut World, count: usize) -> Vec<Client> {
    let lane_count = world.lanes.len();
    let clients = (0..count).map(|at| {
        let client = world.connect(at % lane_count);
        (0..4).for_each(|_| turns(world));
        client
    });
    clients.collect()
}

/// Asks for something, which has to be answered so unless the client is closed for it.
fn ask(world: &mut World, client: &mut Client, words: &[&[u8]], want: &[u8]) {
    client.send(&command(words));
    for _ in 0..1000 {
        client.pump();
        if client.received.len() >= want.len() || client.end.at_end() {
            break;
        }
        turns(world);
    }
    let got = std::mem::take(&mut client.received);
    assert!(got == want || client.end.at_end(), "{}", String::from_utf8_lossy(&got));
}

fn begin(world: &mut World, client: &mut Client, is_spared: bool) {
    if is_spared {
        ask(world, client, &[b"CLIENT", b"NO-EVICT", b"ON"], b"+OK\r\n");
    }
    ask(world, client, &[b"MULTI"], b"+OK\r\n");
}

/// Has a client hold so many bytes more: a command that waits for an EXEC.
fn hold(world: &mut World, client: &mut Client, size: usize) {
    ask(world, client, &[b"SET", b"k", &vec![b'q'; size]], b"+QUEUED\r\n");
}

/// Bytes that clients of all lanes hold.
fn crowd(world: &World) -> u64 {
    world.lanes.iter().map(|lane| lane.stats().clients_size).sum()
}

fn evicted(world: &World) -> u64 {
    world.lanes.iter().map(|lane| lane.stats().clients_evicted).sum()
}

#[test]
fn lanes_whose_clients_may_not_be_closed_rest_and_look_again_when_another_comes() {
    for lane_count in [1, 2, 3] {
        let mut world = world(lane_count);
        let mut spared = clients(&mut world, usize::from(lane_count));
        spared.iter_mut().for_each(|client| begin(&mut world, client, true));
        for (at, client) in spared.iter_mut().enumerate() {
            hold(&mut world, client, 1_200_000 - 300_000 * at);
        }
        rest(&mut world);
        assert!(crowd(&world) > MIB && evicted(&world) == 0, "{} {}", crowd(&world), evicted(&world));
        // On each lane, also on one that holds less than another.
        for (at, mut other) in clients(&mut world, usize::from(lane_count)).into_iter().enumerate() {
            begin(&mut world, &mut other, false);
            hold(&mut world, &mut other, 20_000);
            rest(&mut world);
            assert!(other.end.at_end() && evicted(&world) == at as u64 + 1, "{at} of {lane_count} lanes");
        }
        assert!(spared.iter().all(|client| !client.end.at_end()));
    }
}

/// The lane whose clients hold most has none that may be closed. It is told that it is too much, finds that out, and tells the next,
/// before any of them sleeps again.
#[test]
fn a_lane_that_can_close_nobody_leaves_it_to_the_next_at_once() {
    let mut world = world(2);
    let [mut spared, mut large] = <[Client; 2]>::try_from(clients(&mut world, 2)).ok().expect("two");
    begin(&mut world, &mut spared, true);
    hold(&mut world, &mut spared, 700_000);
    begin(&mut world, &mut large, false);
    rest(&mut world);
    large.send(&command(&[b"SET", b"k", &[b'q'; 600_000]]));
    for _ in 0..8 {
        large.push(40_000);
        rest(&mut world);
    }
    assert!(crowd(&world) < MIB - 20_000 && !large.end.at_end(), "{} bytes are held", crowd(&world));
    // With what comes in this one turn it is too much.
    large.push(60_000);
    rest(&mut world);
    assert!(crowd(&world) < MIB, "{} bytes are held", crowd(&world));
    assert!(large.end.at_end() && !spared.end.at_end());
}

/// Some of many have gone by themselves, while the lane goes around to close some. The next time it looks anew who holds most.
#[test]
fn who_holds_most_is_looked_for_each_time() {
    let mut world = world(1);
    let mut clients = clients(&mut world, 360);
    let (few, many) = clients.split_at_mut(300);
    let large = &mut few[5];
    begin(&mut world, large, false);
    many.iter_mut().for_each(|client| begin(&mut world, client, false));
    let set = command(&[b"SET", b"k", &[b'q'; 20_000]]);
    let mut count = 0;
    while crowd(&world) <= MIB {
        many[count].send(&set);
        while !many[count].is_sent() {
            many[count].push(usize::MAX);
            turns(&mut world);
        }
        turns(&mut world);
        count += 1;
    }
    // Three turns to find them, and the third of the next three would close some.
    (0..3).for_each(|_| turns(&mut world));
    assert_eq!(evicted(&world), 0, "{count} clients hold {} bytes", crowd(&world));
    many[..5].iter().for_each(|client| client.end.cut());
    (0..20).for_each(|_| turns(&mut world));
    assert!(crowd(&world) < MIB && evicted(&world) == 0);
    hold(&mut world, large, 200_000);
    rest(&mut world);
    assert!(large.end.at_end() && evicted(&world) == 1, "{} were closed", evicted(&world));
}

#[test]
fn no_more_are_closed_than_have_to_be() {
    let mut world = world(1);
    let mut clients = clients(&mut world, 5);
    for client in &mut clients {
        begin(&mut world, client, false);
        hold(&mut world, client, 240_000);
    }
    rest(&mut world);
    assert_eq!(evicted(&world), 1, "four hold less than a MiB");
}

/// Those that hold most are closed first, and when that is not enough those that hold less.
#[test]
fn one_round_may_not_be_enough() {
    let mut world = world(1);
    let mut clients = clients(&mut world, 50);
    let (large, small) = clients.split_at_mut(1);
    for client in large.iter_mut().chain(&mut *small) {
        begin(&mut world, client, false);
    }
    for client in &mut *small {
        hold(&mut world, client, 18_700);
    }
    hold(&mut world, &mut large[0], 40_000);
    rest(&mut world);
    assert!((MIB - 60_000..MIB).contains(&crowd(&world)) && evicted(&world) == 0, "{}", crowd(&world));
    for (client, size) in large
        .iter_mut()
        .map(|client| (client, 30_000))
        .chain(small.iter_mut().take(20).map(|client| (client, 9000)))
    {
        client.send(&command(&[b"SET", b"k", &vec![b'q'; size]]));
        client.pump();
    }
    rest(&mut world);
    clients.iter_mut().for_each(Client::pump);
    let (large, small) = clients.split_at(1);
    let closed_count = small.iter().filter(|client| client.end.at_end()).count();
    assert!(large[0].end.at_end() && (1..10).contains(&closed_count), "{closed_count} small ones");
    assert!(crowd(&world) <= MIB);
}

/// Though a lane does not see in one turn that it has somebody to close.
#[test]
fn a_lane_looks_at_all_its_clients_before_it_leaves_it_to_others() {
    let mut world = world(2);
    let mut idle = clients(&mut world, 300);
    idle.iter_mut().for_each(|client| ask(&mut world, client, &[b"CLIENT", b"NO-EVICT", b"ON"], b"+OK\r\n"));
    let mut last = clients(&mut world, 2);
    last.iter_mut().for_each(|client| begin(&mut world, client, false));
    hold(&mut world, &mut last[0], 300_000);
    let before = crowd(&world);
    last[1].send(&command(&[b"SET", b"k", &vec![b'q'; 2_000_000]]));
    while crowd(&world) < MIB - 50_000 {
        last[1].push(20_000);
        rest(&mut world);
    }
    // With what comes in this one turn it is too much, and then nothing comes.
    last[1].push(60_000);
    rest(&mut world);
    assert!(before < 600_000 && crowd(&world) < MIB, "{before}, {} bytes are held", crowd(&world));
    assert_eq!(last.iter().map(|client| client.end.at_end()).collect::<Vec<_>>(), [false, true]);
}

/// Who has said QUIT and does not read holds what it holds.
#[test]
fn who_leaves_is_no_exception() {
    let mut world = world(1);
    let mut clients = clients(&mut world, 2);
    ask(&mut world, &mut clients[0], &[b"SET", b"k", &[b'v'; 700_000]], b"+OK\r\n");
    let mut leaving = world.connect_with(0, 1 << 16, 1 << 12);
    turns(&mut world);
    leaving.send(&[command(&[b"GET", b"k"]), command(&[b"QUIT"])].concat());
    leaving.push(usize::MAX);
    rest(&mut world);
    assert!((650_000..MIB).contains(&crowd(&world)) && evicted(&world) == 0, "{}", crowd(&world));
    begin(&mut world, &mut clients[1], false);
    hold(&mut world, &mut clients[1], 500_000);
    rest(&mut world);
    assert!(!clients[1].end.at_end() && evicted(&world) == 1);
    leaving.pull(usize::MAX);
    assert!(leaving.end.at_end() && leaving.received.len() < 700_000);
}

/// A lane says so now and then, and not each turn: what else it has to tell the other finds room, though that one takes no turns.
#[test]
fn word_that_it_is_too_much_leaves_room_for_other_words() {
    let mut world = world(2);
    let mut spared = clients(&mut world, 3);
    spared.iter_mut().for_each(|client| begin(&mut world, client, true));
    hold(&mut world, &mut spared[0], 900_000);
    hold(&mut world, &mut spared[1], 300_000);
    rest(&mut world);
    let [first, second] = [0, 1].map(|lane: usize| world.lanes[lane].stats().clients_size);
    assert!(MIB < first + second && second < first, "{first} and {second} bytes: the first lane is told");
    for _ in 0..5000 {
        spared[1].send(&command(&[b"PING"]));
        spared[1].pump();
        world.turn_if_due(1);
    }
    let before = world.lanes[1].stats().handovers;
    let _more: Vec<Client> = (0..4).map(|_| world.connect(1)).collect();
    (0..10).for_each(|_| world.turn_if_due(1));
    assert!(world.lanes[1].stats().handovers > before);
    rest(&mut world);
}

#[test]
fn a_bound_that_comes_later_is_kept_by_lanes_that_sleep() {
    for lane_count in [1, 2, 3] {
        let mut world = World::quiet(lane_count);
        world.attend();
        let mut many = clients(&mut world, 9);
        for client in &mut many {
            begin(&mut world, client, false);
            hold(&mut world, client, 300_000);
        }
        let mut other = clients(&mut world, 1);
        rest(&mut world);
        ask(&mut world, &mut other[0], &[b"CONFIG", b"SET", b"maxmemory-clients", b"1mb"], b"+OK\r\n");
        rest(&mut world);
        let left = crowd(&world);
        assert!(left <= MIB && evicted(&world) >= 6, "{left} bytes are left on {lane_count} lanes");
    }
}

#[test]
fn keys_of_watch_are_bytes_of_their_client() {
    let names: Vec<Vec<u8>> = (0..160u8).map(|number| vec![number; 8000]).collect();
    let watch = |range: std::ops::Range<usize>| -> Vec<&[u8]> {
        [&b"WATCH"[..]].into_iter().chain(names[range].iter().map(Vec::as_slice)).collect()
    };
    for lane_count in [1, 2] {
        let mut world = world(lane_count);
        let mut client = clients(&mut world, 1).remove(0);
        for end in [b"UNWATCH", b"DISCARD"] {
            assert!(crowd(&world) < 10_000);
            for _ in 0..2 {
                // Once, however often it is said.
                ask(&mut world, &mut client, &watch(0..40), b"+OK\r\n");
            }
            rest(&mut world);
            assert!((320_000..360_000).contains(&crowd(&world)), "{}", crowd(&world));
            if end == b"DISCARD" {
                ask(&mut world, &mut client, &[b"MULTI"], b"+OK\r\n");
            }
            ask(&mut world, &mut client, &[end], b"+OK\r\n");
            rest(&mut world);
        }
        for first in [0, 40, 80, 120] {
            ask(&mut world, &mut client, &watch(first..first + 40), b"+OK\r\n");
        }
        rest(&mut world);
        assert!(client.end.at_end() && evicted(&world) == 1, "beyond the bound it goes");
        rest(&mut world);
        assert!(crowd(&world) < 10_000);
    }
}
