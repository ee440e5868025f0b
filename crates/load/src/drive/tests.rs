//! The driver against the floor, both in one thread under a clock that the test moves.

use std::cell::Cell;
use std::io::Read;
use std::net::TcpListener;

use super::*;
use crate::floor::Floor;

/// The floor and how to reach it.
fn floor() -> (Floor, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Floor::new(listener, 100).unwrap(), address)
}

fn setup(server: SocketAddr, pace: Pace) -> Setup {
    Setup {
        servers: vec![server],
        connections_count: 5,
        pipeline: 16,
        command: Command::Get,
        keys: 0..1000,
        lanes: 1,
        owner: Owner::Any,
        order: Order::Random,
        pace,
        requests_max: u64::MAX,
        duration_ns: u64::MAX,
        warm_up_ns: 0,
        seed: 1,
    }
}

const MS: u64 = 1_000_000;
/// The time that passes between two turns of the pair.
const STEP_NS: u64 = MS / 10;
/// Turns within which any of these runs is over.
const TURNS_MAX: usize = 100_000;

/// Runs to the end, `STEP_NS` a turn. The server takes no part while it is frozen.
fn run(setup: &Setup, floor: &mut Floor, frozen: Range<u64>) -> Report {
    let time = Cell::new(0);
    let mut drive = Drive::new(setup.clone(), || time.get()).unwrap();
    for _ in 0..TURNS_MAX {
        if drive.turn(0).unwrap() {
            return drive.report();
        }
        if !frozen.contains(&time.get()) {
            settle(&mut drive, floor);
        }
        time.set(time.get() + STEP_NS);
    }
    panic!("a run ends");
}

/// The server answers, without time passing: what the loopback takes for it is none of the test's. At a rate it answers
/// everything; a closed pace would go on for ever.
fn settle<C: Fn() -> u64>(drive: &mut Drive<C>, floor: &mut Floor) {
    for _ in 0..TURNS_MAX {
        if drive.in_flight() == 0 {
            return;
        }
        floor.turn(1).unwrap();
        drive.turn(1).unwrap();
        if drive.setup.pace == Pace::Closed {
            return;
        }
    }
    panic!("the floor answers");
}

#[test]
fn a_closed_pace_makes_the_requests_it_was_told() {
    let (mut floor, address) = floor();
    // No multiple of a batch, over all connections.
    let setup = Setup { requests_max: 1003, ..setup(address, Pace::Closed) };
    let report = run(&setup, &mut floor, 0..0);
    assert_eq!((report.answered, report.errors, report.nulls), (1003, 0, 0));
    assert_eq!((report.latency.count(), report.lateness.count()), (1003, 0));
}

#[test]
fn a_closed_pace_ends_when_its_time_is_over() {
    let (mut floor, address) = floor();
    let setup = Setup { duration_ns: 20 * MS, ..setup(address, Pace::Closed) };
    let report = run(&setup, &mut floor, 0..0);
    assert!(report.answered >= 5 * 16, "{}", report.answered);
    assert_eq!(report.answered % 16, 0, "batches are whole");
    assert!(report.elapsed_ns <= 30 * MS, "{}", report.elapsed_ns);
}

/// A server that stands still for 50 of 100 ms: every request that was due meanwhile has waited, and counts from when it
/// was due. So a share 1 − q of all waits longer than S − (1 − q) T: the median hardly at all, 9 in 10 less than 40 ms.
#[test]
fn a_frozen_server_is_seen_by_all_who_would_have_asked() {
    for pace in [Pace::Even(100_000.0), Pace::Poisson(100_000.0)] {
        let (mut floor, address) = floor();
        let setup = Setup { duration_ns: 100 * MS, ..setup(address, pace) };
        let report = run(&setup, &mut floor, 30 * MS..80 * MS);
        assert!(report.answered.abs_diff(10_000) < 400, "{}", report.answered);
        for (quantile, want_ms) in [(0.6, 10), (0.75, 25), (0.9, 40), (0.99, 49)] {
            let got = report.latency.at(quantile).unwrap();
            assert!(got.abs_diff(want_ms * MS) < 2 * MS, "{pace:?} {quantile}: {got}");
        }
        assert!(report.latency.max().abs_diff(50 * MS) < MS);
        // The driver itself was there all the time.
        assert!(report.lateness.max() <= STEP_NS + STEP_NS / 100, "{}", report.lateness.max());
    }
}

/// The same when it is the driver that is kept away: no request is left out, and its lateness says whose fault it was.
#[test]
fn a_late_driver_makes_up_for_what_was_due() {
    let (mut floor, address) = floor();
    let time = Cell::new(0);
    let setup = Setup { duration_ns: 100 * MS, ..setup(address, Pace::Even(10_000.0)) };
    let mut drive = Drive::new(setup, || time.get()).unwrap();
    let report = loop {
        time.set(time.get() + if time.get() == 20 * MS { 30 * MS } else { STEP_NS });
        if drive.turn(0).unwrap() {
            break drive.report();
        }
        settle(&mut drive, &mut floor);
    };
    assert_eq!(report.answered, 1000);
    assert!(report.latency.at(0.9).unwrap() >= 19 * MS, "the tenth of all waited 20 ms and more");
    assert!(report.lateness.max() >= 29 * MS);
}

#[test]
fn what_is_due_in_the_warm_up_is_not_recorded() {
    let (mut floor, address) = floor();
    let setup = Setup { duration_ns: 100 * MS, warm_up_ns: 40 * MS, ..setup(address, Pace::Even(10_000.0)) };
    let report = run(&setup, &mut floor, 0..20 * MS);
    assert_eq!((report.answered, report.latency.count(), report.lateness.count()), (1000, 600, 600));
    assert!(report.latency.max() < MS, "the frozen start is not seen");
}

/// What one `recv` brings ends in the middle of a value, and in the middle of a header: 65,536 bytes are no multiple of the
/// seven that a reply of one byte takes.
#[test]
fn cut_replies_are_counted_whole() {
    for (payload_size, pipeline) in [(100_000, 16), (1, 20_000)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut floor = Floor::new(listener, payload_size).unwrap();
        let requests_max = u64::try_from(10 * pipeline).unwrap();
        let setup = Setup { requests_max, pipeline, ..setup(address, Pace::Closed) };
        assert_eq!(run(&setup, &mut floor, 0..0).answered, requests_max);
    }
}

/// The end of the stream comes together with the last replies, and some are still owed.
#[test]
fn an_end_behind_replies_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let setup =
        Setup { connections_count: 1, pipeline: 2, ..setup(listener.local_addr().unwrap(), Pace::Closed) };
    let mut drive = Drive::new(setup, || 0).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut requests = [0; 2 * 36];
    stream.read_exact(&mut requests).unwrap();
    stream.write_all(b"$1\r\nx\r\n").unwrap();
    drop(stream);
    let failure = (0..100).find_map(|_| drive.turn(10).err()).expect("it is noticed");
    assert_eq!(failure.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_server_that_goes_is_an_error() {
    let (mut floor, address) = floor();
    let mut drive = Drive::new(setup(address, Pace::Closed), || 0).unwrap();
    floor.turn(0).unwrap();
    drop(floor);
    let failure = (0..100).find_map(|_| drive.turn(10).err()).expect("it is noticed");
    assert_eq!(failure.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_server_that_says_nothing_is_an_error() {
    let (floor, address) = floor();
    for pace in [Pace::Closed, Pace::Even(10.0)] {
        let time = Cell::new(0);
        let mut drive = Drive::new(setup(address, pace), || time.get()).unwrap();
        let failure = (0..100).find_map(|_| {
            time.set(time.get() + 1000 * MS);
            drive.turn(0).err()
        });
        assert_eq!(failure.expect("it is noticed").kind(), io::ErrorKind::TimedOut);
    }
    drop(floor);
}

/// A server that answers `CLIENT INFO` with no lane cannot be asked by lane, and says so at once.
#[test]
fn lanes_are_asked_for_only_where_there_are_some() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let setup = Setup { lanes: 2, owner: Owner::Next, ..setup(listener.local_addr().unwrap(), Pace::Closed) };
    let server = std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"$15\r\nid=1 resp=2 x=\n\r\n").unwrap();
        });
        let failure = Drive::new(setup, || 0).err();
        answers.join().unwrap();
        failure
    });
    assert!(server.unwrap().to_string().contains("tells no lane"));
}
