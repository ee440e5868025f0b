//! What a served request and an idle connection cost in memory, by a counting allocator.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing there has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use net::epoll::{Epoll, TcpOptions};
use net::mem::Mem;
use net::sockets::Sockets;
use net::uring::{self, Uring};
use net::{Address, Close, ConnId, Event, Limits, Need, Net, Wait};

/// Counts for each thread, so that tests don't see each other.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_SIZE: Cell<i64> = const { Cell::new(0) };
}

fn count(size_change: i64, allocations: u64) {
    ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
    LIVE_SIZE.set(LIVE_SIZE.get() + size_change);
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap()
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()), 1);
        // SAFETY: the caller keeps alloc's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-signed(layout.size()), 0);
        // SAFETY: the caller keeps dealloc's contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size) - signed(layout.size()), 1);
        // SAFETY: the caller keeps realloc's contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Serves one turn: 100 bytes for each request of 10; how many were served.
fn turn(net: &mut (impl Net + Wait), events: &mut Vec<Event>) -> usize {
    let mut served = 0;
    net.wait(Some(1_000_000));
    net.poll(events);
    for event in events.drain(..) {
        if let Event::Input(conn) = event {
            let stream = net.stream(conn, Need::More).unwrap();
            let size = stream.input.len() / 10 * 10;
            for _ in 0..size / 10 {
                stream.output.extend(&[b'v'; 100]);
                served += 1;
            }
            net.consume(conn, size);
        }
    }
    net.flush();
    served
}

/// Runs rounds until all is warm, then counts: whole requests, and some cut in the middle.
fn check_no_allocation(
    net: &mut (impl Net + Wait),
    mut send: impl FnMut(&[u8]),
    mut receive: impl FnMut(usize),
) {
    let mut events = Vec::with_capacity(1000);
    while net.counters().opened < 50 {
        turn(net, &mut events);
    }
    let (mut sent, mut answered) = (0, 0);
    for (round, piece) in [10, 10, 25, 35, 4, 6, 10, 20].iter().cycle().take(400).enumerate() {
        send(&b"0123456789".repeat(4)[..*piece]);
        let before = ALLOCATIONS.get();
        let mut served = 0;
        sent += piece;
        while answered + served < sent / 10 * 50 {
            served += turn(net, &mut events);
        }
        answered += served;
        if 100 < round {
            assert_eq!(ALLOCATIONS.get() - before, 0, "round {round}, piece {piece}, {served} served");
        }
        receive(served * 100);
    }
}

#[test]
fn a_request_over_memory_allocates_nothing() {
    let mut net = Mem::new(Limits::default());
    let (_, port) = net.listen();
    let clients: Vec<_> = (0..50).map(|_| port.connect()).collect();
    let mut got = Vec::with_capacity(1 << 16);
    check_no_allocation(
        &mut net,
        |bytes| clients.iter().for_each(|client| assert_eq!(client.write(bytes), bytes.len())),
        |size| {
            got.clear();
            clients.iter().for_each(|client| assert!(client.read(&mut got, usize::MAX) <= size));
            assert_eq!(got.len(), size);
        },
    );
}

fn listen(net: &mut impl Sockets) -> SocketAddr {
    let options = TcpOptions { backlog: 4096, ..TcpOptions::default() };
    let listener = net.listen_tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let Address::Inet(address) = net.listener_address(listener) else { panic!("a TCP listener") };
    address
}

#[test]
fn a_request_over_epoll_allocates_nothing() {
    check_sockets(Epoll::new(Limits::default()).unwrap());
}

#[test]
fn a_request_over_uring_allocates_nothing() {
    match uring::probe() {
        Ok(()) => check_sockets(Uring::new(Limits::default()).unwrap()),
        Err(why) => eprintln!("left out: {why}"),
    }
}

fn check_sockets(mut net: impl Sockets) {
    let address = listen(&mut net);
    let clients: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    for client in &clients {
        client.set_nonblocking(true).unwrap();
    }
    let mut bytes = vec![0; 1 << 16];
    let mut size_due = 0;
    check_no_allocation(
        &mut net,
        |bytes| clients.iter().for_each(|mut client| client.write_all(bytes).unwrap()),
        |size| {
            size_due += size;
            size_due -= clients.iter().map(|mut client| client.read(&mut bytes).unwrap_or(0)).sum::<usize>();
        },
    );
}

/// However much a connection has carried, when it is idle it holds its entry and nothing else.
fn check_idle(mut net: impl Sockets) {
    const COUNT: usize = 400;
    let address = listen(&mut net);
    let before = LIVE_SIZE.get();
    let clients: Vec<_> = (0..COUNT).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut conns: Vec<ConnId> = Vec::with_capacity(COUNT);
    let mut events = Vec::with_capacity(1000);
    while conns.len() < COUNT {
        net.wait(None);
        net.poll(&mut events);
        for event in events.drain(..) {
            if let Event::Opened { conn, .. } = event {
                conns.push(conn);
            }
        }
    }
    for conn in &conns {
        net.output(*conn).unwrap().extend(&[b'x'; 20_000]);
    }
    for mut client in &clients {
        client.write_all(&[b'y'; 5_000]).unwrap();
    }
    let mut received = 0;
    while received < COUNT * 5_000 || net.counters().bytes_out < COUNT as u64 * 20_000 {
        net.flush();
        net.wait(Some(1_000_000));
        net.poll(&mut events);
        for event in events.drain(..) {
            if let Event::Input(conn) = event {
                received += net.stream(conn, Need::More).unwrap().input.len();
            }
        }
    }
    let kept = LIVE_SIZE.get() - before;
    assert!(signed(COUNT * 5_000) < kept, "unconsumed input is kept");
    for conn in &conns {
        net.consume(*conn, 5_000);
    }
    net.flush();
    net.poll(&mut events);
    // What the pools may keep, and half a kilobyte each.
    let pools = 128 * 16 * 1024 + 16 * 8 * 1024;
    let left = LIVE_SIZE.get() - before;
    assert!(left < pools + signed(COUNT * 512), "{left} bytes for {COUNT} idle connections");
    conns.iter().for_each(|conn| net.close(*conn, Close::Now));
    net.poll(&mut events);
    assert!(events.iter().filter(|event| matches!(event, Event::Closed { .. })).count() == COUNT);
}

#[test]
fn an_idle_connection_over_epoll_holds_no_buffer() {
    check_idle(Epoll::new(Limits::default()).unwrap());
}

#[test]
fn an_idle_connection_over_uring_holds_no_buffer() {
    match uring::probe() {
        Ok(()) => check_idle(Uring::new(Limits::default()).unwrap()),
        Err(why) => eprintln!("left out: {why}"),
    }
}
