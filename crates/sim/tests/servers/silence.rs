//! `timeout`: who is silent for too long is closed, in each dialect; who waits for the server, or still sends or reads, is not.

use lane::{Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::{Client, World};
use wire::route::Ports;

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

/// One lane whose clients may be silent for two seconds.
fn world(change: impl FnOnce(&mut Settings)) -> World {
    let mut settings = Settings { timeout_s: 2, ..Settings::default() };
    change(&mut settings);
    World::new(1, &settings, 1, Faults::default())
}

/// A key of each of two lanes.
const KEYS: [&[u8]; 2] = [b"bar", b"foo"];

/// A client of this dialect that says nothing is closed after its time, one that has begun a request and goes no further is too,
/// and one that goes on asking is not.
fn check_silence(dialect: Dialect, request: &[u8]) {
    let mut world = world(|settings| {
        settings.doors = vec![Door { port: Port::Lane, dialect }];
        settings.aerospike.ports = Some(Ports::from(3000));
        settings.couchbase_ports = Some(Ports::from(11210));
    });
    let (silent, mut halting, mut busy) = (world.connect(0), world.connect(0), world.connect(0));
    halting.send(&request[..request.len() / 2]);
    for _ in 0..6 {
        assert!(!world.exchange(&mut busy, request, 1, 10).is_empty(), "{dialect:?}");
        halting.pump();
        world.pass(500_000_000);
        for _ in 0..3 {
            world.round();
        }
    }
    assert!(silent.end.at_end() && halting.end.at_end(), "{dialect:?}: three seconds of silence");
    assert!(!busy.end.at_end(), "{dialect:?}");
}

#[test]
fn a_silent_client_is_closed_after_its_time_and_a_busy_one_is_not() {
    let mut noop = [0; 24];
    noop[..2].copy_from_slice(&[0x80, 0x0a]);
    check_silence(Dialect::Redis, &command(&[b"PING"]));
    check_silence(Dialect::Memcached, b"mn\r\n");
    check_silence(Dialect::Memcached, &noop);
    check_silence(Dialect::Couchbase, &noop);
    check_silence(Dialect::Management, b"GET /pools HTTP/1.1\r\n\r\n");
    check_silence(Dialect::Aerospike, b"\x02\x01\0\0\0\0\0\x05node\n");
}

/// Nothing else wakes the lane: it closes all of them in their time.
#[test]
fn a_lane_that_sleeps_wakes_to_close_who_says_nothing() {
    let silence = Settings { timeout_s: 2, ..Settings::default() };
    let mut strangers = Settings::default();
    strangers.set_password(Some(b"secret".to_vec()));
    for (settings, tenths_min) in [(silence, 20), (strangers, 100)] {
        let mut world = World::new(1, &settings, 1, Faults::default());
        let clients: Vec<_> = (0..200).map(|_| world.connect(0)).collect();
        for tenth in 0..tenths_min + 10 {
            (0..20).for_each(|_| world.turn_if_due(0));
            let closed_count = clients.iter().filter(|client| client.end.at_end()).count();
            assert!(
                closed_count == 0 || tenth >= tenths_min,
                "{closed_count} after {tenth} tenths of a second"
            );
            world.pass(100_000_000);
        }
        assert!(clients.iter().all(|client| client.end.at_end()), "after {} tenths", tenths_min + 10);
        assert_eq!(world.lanes[0].stats().clients, 0);
    }
}

/// Three seconds pass, a tenth at a time, in which `each` is done before every round.
fn pass_three_seconds(world: &mut World, mut each: impl FnMut()) {
    for _ in 0..30 {
        each();
        world.pass(100_000_000);
        world.round();
        world.round();
    }
}

/// Who is silent because the server keeps it waiting is not closed for it, nor when its reply has come.
#[test]
fn who_waits_for_the_server_is_not_silent() {
    let mut world = world(|_| ());
    world.attend();
    let (mut pausing, mut held) = (world.connect(0), world.connect(0));
    assert_eq!(world.exchange(&mut pausing, &command(&[b"CLIENT", b"PAUSE", b"3000"]), 5, 50), b"+OK\r\n");
    held.send(&command(&[b"SET", b"k", b"v"]));
    pass_three_seconds(&mut world, || held.pump());
    assert_eq!(world.exchange(&mut held, b"", 5, 50), b"+OK\r\n", "the pause is over");
    world.round();
    assert!(!held.end.at_end() && pausing.end.at_end());

    // Half of what it sets is another lane's, which takes no turn for a while.
    let settings = Settings { timeout_s: 2, ..Settings::default() };
    let mut world = World::new(2, &settings, 1, Faults::default());
    let mut blocked = world.connect(0);
    blocked.send(&command(&[b"MSET", KEYS[0], b"v", KEYS[1], b"v"]));
    for _ in 0..30 {
        blocked.pump();
        world.turn(0);
        world.pass(100_000_000);
    }
    assert_eq!(world.exchange(&mut blocked, b"", 5, 50), b"+OK\r\n");
    world.round();
    assert!(!blocked.end.at_end());
}

/// Nor is one that has said MONITOR, while there is nothing to show.
#[test]
fn who_monitors_is_not_silent() {
    let mut world = world(|_| ());
    world.attend();
    let (mut monitor, silent) = (world.connect(0), world.connect(0));
    assert_eq!(world.exchange(&mut monitor, &command(&[b"MONITOR"]), 5, 50), b"+OK\r\n");
    pass_three_seconds(&mut world, || ());
    assert!(!monitor.end.at_end() && silent.end.at_end());
}

/// When a pause ends, so many others have just said something that it takes turns until those come that it held back.
#[test]
fn who_was_held_back_may_wait_for_a_turn() {
    let mut world = world(|_| ());
    world.attend();
    let mut pausing = world.connect(0);
    let [mut held, mut others] = [(); 2].map(|()| Vec::from_iter((0..100).map(|_| world.connect(0))));
    (0..20).for_each(|_| world.round());
    assert_eq!(world.exchange(&mut pausing, &command(&[b"CLIENT", b"PAUSE", b"3000"]), 5, 50), b"+OK\r\n");
    let mut say = |clients: &mut [Client], bytes: &[u8], ns: u64| {
        for client in clients.iter_mut() {
            client.send(bytes);
            client.pump();
        }
        (0..20).for_each(|_| world.round());
        world.pass(ns);
        clients.iter_mut().for_each(Client::pump);
    };
    say(&mut held, &command(&[b"SET", b"k", b"v"]), 1_500_000_000);
    say(&mut others, b"", 1_500_000_000);
    assert!(held.iter().all(|client| client.received.is_empty()), "the pause has lasted");
    say(&mut others, &command(&[b"PING"]).repeat(20), 0);
    for client in &mut held {
        client.pump();
        assert_eq!((client.received.as_slice(), client.end.at_end()), (&b"+OK\r\n"[..], false));
    }
}

/// Nor is one silent that takes longer for a long value than it may be silent, in either direction.
#[test]
fn who_still_sends_or_reads_is_not_silent() {
    let mut world = world(|_| ());
    let mut sending = world.connect(0);
    let value = vec![b'v'; 400_000];
    sending.send(&command(&[b"SET", b"k", &value]));
    pass_three_seconds(&mut world, || sending.push(value.len() / 25));
    assert_eq!(world.exchange(&mut sending, b"", 5, 50), b"+OK\r\n");
    let mut dripping = world.connect(0);
    dripping.send(&command(&[b"SET", b"short", b"value"]));
    pass_three_seconds(&mut world, || dripping.push(1));
    assert_eq!(world.exchange(&mut dripping, b"", 5, 50), b"+OK\r\n");

    let (mut reading, mut deaf) = (world.connect_with(0, 4096, 4096), world.connect_with(0, 4096, 4096));
    for client in [&mut reading, &mut deaf] {
        client.send(&command(&[b"GET", b"k"]));
        client.push(usize::MAX);
    }
    for _ in 0..3 {
        pass_three_seconds(&mut world, || reading.pull(1024));
        assert!(!reading.end.at_end());
    }
    assert_eq!(
        world.lanes[0].stats().clients,
        1,
        "the others have said and taken nothing for twice their time"
    );
    for _ in 0..400 {
        reading.pump();
        world.round();
    }
    assert_eq!(reading.received.len(), b"$400000\r\n\r\n".len() + value.len());
}
