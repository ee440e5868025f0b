//! A process without descriptors turns clients away and does not spin. In a process of its own, whose limit it lowers.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing there has failed")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use net::epoll::{Epoll, TcpOptions};
use net::sockets::Sockets;
use net::uring::{self, Uring};
use net::{Address, Event, Limits, Need};

/// Lowers or raises how many descriptors the process may have.
fn limit_descriptors(count: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for both calls.
    let result = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = count;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    };
    assert_eq!(result, 0);
}

/// The first descriptor number that is free, as a count of those below.
fn next_descriptor() -> u64 {
    let file = std::fs::File::open("/dev/null").unwrap();
    u64::try_from(file.as_raw_fd()).unwrap()
}

fn turn(net: &mut impl Sockets) -> usize {
    let mut events = Vec::new();
    net.poll(&mut events);
    for event in &events {
        if let Event::Input(conn) = event {
            let stream = net.stream(*conn, Need::More).unwrap();
            let size = stream.input.len();
            stream.output.extend(stream.input);
            net.consume(*conn, size);
        }
    }
    net.flush();
    events.iter().filter(|event| matches!(event, Event::Opened { .. })).count()
}

fn echo(net: &mut impl Sockets, mut client: &TcpStream) {
    client.write_all(b"hi").unwrap();
    client.set_nonblocking(true).unwrap();
    let mut bytes = [0; 2];
    while client.read(&mut bytes).is_err() {
        net.wait(Some(1_000_000));
        turn(net);
    }
    client.set_nonblocking(false).unwrap();
    assert_eq!(&bytes, b"hi");
}

#[test]
fn clients_beyond_the_limit_are_turned_away() {
    check::<Epoll>();
    match uring::probe() {
        Ok(()) => check::<Uring>(),
        Err(why) => eprintln!("left out: {why}"),
    }
}

fn check<N: Sockets>() {
    let mut net = N::make(Limits::default()).unwrap();
    let options = TcpOptions::default();
    let listener = net.listen_tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let Address::Inet(address) = net.listener_address(listener) else { panic!("a TCP listener") };
    let first = TcpStream::connect(address).unwrap();
    let mut many: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();

    // Before anything is waited for: a multishot accept goes by the limit of the moment when it began.
    limit_descriptors(next_descriptor() + 1);
    net.wait(None);
    assert_eq!(turn(&mut net), 1, "one descriptor is left");
    let mut turns = 0;
    while net.counters().refused < 20 {
        net.wait(None);
        assert_eq!(turn(&mut net), 0, "nobody gets in");
        turns += 1;
    }
    assert!(turns <= 3, "20 clients at 16 a turn, in {turns}");
    for client in &mut many {
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "turned away, and told so");
    }
    echo(&mut net, &first);

    // Not even the reserve helps: a listener that can't accept rests and lets the lane sleep.
    drop(many);
    let pending = TcpStream::connect(address).unwrap();
    limit_descriptors(0);
    net.wait(None);
    turn(&mut net);
    assert_eq!((net.counters().refused, net.counters().rests), (20, 1));
    echo(&mut net, &first);
    assert_eq!(net.counters().rests, 1);
    let waits = net.counters().waits;
    while net.counters().rests < 3 {
        net.wait(None);
        turn(&mut net);
    }
    assert!(net.counters().waits - waits < 10, "it tries again after a while, not at once");

    limit_descriptors(1024);
    let mut opened = 0;
    while opened == 0 {
        net.wait(None);
        opened += turn(&mut net);
    }
    echo(&mut net, &pending);
    echo(&mut net, &first);
}
