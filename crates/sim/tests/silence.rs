//! `timeout`: who is silent for too long is closed, in each dialect; who waits for the server, or still sends or reads, is not.

use lane::{Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::World;
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

/// Nor is one silent that takes longer for a long value than it may be silent, in either direction.
#[test]
fn who_still_sends_or_reads_is_not_silent() {
    let mut world = world(|_| ());
    let mut sending = world.connect(0);
    let value = vec![b'v'; 400_000];
    sending.send(&command(&[b"SET", b"k", &value]));
    pass_three_seconds(&mut world, || sending.push(value.len() / 25));
    assert_eq!(world.exchange(&mut sending, b"", 5, 50), b"+OK\r\n");

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
