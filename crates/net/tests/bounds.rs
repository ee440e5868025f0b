//! Bounds that show exactly only where the size of the kernel's buffers is known: in memory.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing there has failed")]

use net::mem::{Client, Mem};
use net::{Close, Event, Limits, Need, Net, Wait};

/// A net whose every client is answered with a farewell.
fn farewell(count: usize) -> (Mem, Vec<Client>) {
    let mut net = Mem::new(Limits::default());
    let (_, port) = net.listen();
    let clients = part_from(&mut net, (0..count).map(|_| port.connect()));
    (net, clients)
}

/// Lets clients in, and says farewell to them.
fn part_from(net: &mut Mem, clients: impl Iterator<Item = Client>) -> Vec<Client> {
    let clients: Vec<_> = clients.collect();
    let mut closed = 0;
    let mut events = Vec::new();
    while closed < clients.len() {
        net.poll(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Opened { conn, .. } => {
                    net.output(conn).unwrap().extend(b"bye");
                    net.close(conn, Close::AfterFlush);
                }
                Event::Closed { .. } => closed += 1,
                other => panic!("{other:?}"),
            }
        }
        net.flush();
    }
    clients
}

/// Who ends needs no place in the queue of those with input: what is heard of the kernel in a turn is what bounds it, whether the lane
/// has waited before or not.
#[test]
fn only_so_much_is_heard_in_a_turn() {
    for waits in [false, true] {
        let mut net = Mem::new(Limits { clients_per_turn: 8, ..Limits::default() });
        let (_, port) = net.listen();
        let clients: Vec<_> = (0..100).map(|_| port.connect()).collect();
        (0..20).for_each(|_| net.poll(&mut Vec::new()));
        clients.iter().for_each(Client::cut);
        let mut counts = Vec::new();
        while counts.iter().sum::<usize>() < 100 {
            if waits {
                net.wait(Some(0));
            }
            let mut events = Vec::new();
            net.poll(&mut events);
            assert!(events.iter().all(|event| matches!(event, Event::Closed { .. })), "{events:?}");
            counts.push(events.len());
        }
        // And one for each listener and bell.
        assert_eq!(counts, [24, 24, 24, 24, 4]);
    }
}

#[test]
fn only_so_many_linger() {
    let (_net, clients) = farewell(300);
    for client in &clients {
        assert_eq!(client.read_all(), b"bye");
        assert!(client.at_end());
    }
    let lingering = clients.iter().filter(|client| client.write(b"x") == 1).count();
    assert_eq!(lingering, 256, "the oldest have made room");
    assert!(clients[..44].iter().all(|client| client.write(b"x") == 0));
}

#[test]
fn only_so_much_is_thrown_away() {
    let (mut net, clients) = farewell(1);
    let mut events = Vec::new();
    let mut thrown = 0;
    for _ in 0..100 {
        thrown += clients[0].write(&[0; 64 * 1024]);
        net.poll(&mut events);
        net.flush();
    }
    assert_eq!(thrown, 1024 * 1024);
    assert!(events.is_empty(), "the lane has been told long ago: {events:?}");
    let before = net.counters();
    net.poll(&mut events);
    assert_eq!(net.counters().receives, before.receives);
}

/// Those that have gone are not among them, whether they end behind something or not, nor those that had ended before.
#[test]
fn who_lingers_makes_no_room_for_those_that_have_gone() {
    let mut net = Mem::new(Limits::default());
    let (_, port) = net.listen();
    let first = part_from(&mut net, std::iter::once(port.connect()));
    let mut kept = Vec::new();
    for rest in [&b""[..], b"", b"", b"rest", b"rest", b"rest"] {
        for client in part_from(&mut net, (0..200).map(|_| port.connect())) {
            client.write(rest);
            client.end();
            kept.push(client);
        }
        (0..200).for_each(|_| net.poll(&mut Vec::new()));
    }
    for _ in 0..600 {
        let client = port.connect();
        client.end();
        kept.push(client);
        let mut events = Vec::new();
        net.poll(&mut events);
        let Some(Event::Opened { conn, .. }) = events.last() else { panic!("{events:?}") };
        net.poll(&mut Vec::new());
        assert!(net.stream(*conn, Need::More).unwrap().end);
        net.close(*conn, Close::AfterFlush);
        net.flush();
    }
    assert_eq!(first[0].write(b"x"), 1, "it lingers");
}

/// It had come before the end was decided on, and nobody has looked at it.
#[test]
fn what_came_before_is_thrown_away_too() {
    let mut net = Mem::new(Limits::default());
    let (_, port) = net.listen();
    let client = port.connect_with(300_000, 1000);
    let mut events = Vec::new();
    net.poll(&mut events);
    let Some(Event::Opened { conn, .. }) = events.pop() else { panic!("a client knocks") };
    assert_eq!(client.write(&[0; 300_000]), 300_000);
    net.poll(&mut events);
    assert_eq!(events, [Event::Input(conn)]);
    net.close(conn, Close::AfterFlush);
    for _ in 0..10 {
        net.flush();
        net.poll(&mut Vec::new());
    }
    assert_eq!(client.write(&[0; 300_000]), 300_000);
}

/// The kernel tells once of what takes several receives.
#[test]
fn all_that_has_come_is_thrown_away() {
    let mut net = Mem::new(Limits::default());
    let (_, port) = net.listen();
    let clients = part_from(&mut net, std::iter::once(port.connect_with(300_000, 1000)));
    assert_eq!(clients[0].write(&[0; 300_000]), 300_000);
    for _ in 0..10 {
        net.poll(&mut Vec::new());
        net.flush();
    }
    assert_eq!(clients[0].write(&[0; 300_000]), 300_000);
}

/// However many linger and send, a turn receives little of it, and all are drained.
#[test]
fn only_so_much_is_thrown_away_in_a_turn() {
    let (mut net, clients) = farewell(100);
    assert!(clients.iter().all(|client| client.write(&[0; 64 * 1024]) == 64 * 1024));
    let (mut full, mut turns): (Vec<_>, _) = (clients.iter().collect(), 0);
    while !full.is_empty() {
        let before = net.counters().receives;
        net.poll(&mut Vec::new());
        net.flush();
        let count = net.counters().receives - before;
        assert!(
            count <= 4,
            "{count} receives, two of 64 KiB and those that find these two empty a turn later"
        );
        full.retain(|client| client.write(b"x") == 0);
        turns += 1;
        assert!(turns <= 110, "each has its turn");
    }
}

#[test]
fn who_ends_is_let_go_at_once() {
    let (mut net, clients) = farewell(1);
    clients[0].end();
    net.poll(&mut Vec::new());
    assert_eq!(clients[0].read_all(), b"bye");
    assert!(!clients[0].was_cut() && clients[0].at_end());
    let before = net.counters().receives;
    net.poll(&mut Vec::new());
    assert_eq!(net.counters().receives, before);
}

/// A client whose socket was full while its output grew over the mark is told of when one send brings it below.
#[test]
fn the_mark_counts_although_nothing_could_be_sent() {
    let mut net = Mem::new(Limits { output_mark: 50_000, ..Limits::default() });
    let (_, port) = net.listen();
    let client = port.connect_with(1000, 60_000);
    let mut events = Vec::new();
    net.poll(&mut events);
    let Some(Event::Opened { conn, .. }) = events.pop() else { panic!("a client knocks") };
    net.output(conn).unwrap().extend(&[1; 61_000]);
    net.flush();
    assert_eq!(net.output(conn).unwrap().len(), 1_000, "the socket is full");
    net.flush();
    net.output(conn).unwrap().extend(&[2; 55_000]);
    net.flush();
    net.poll(&mut events);
    assert!(events.is_empty());
    assert_eq!(client.read_all().len(), 60_000);
    net.poll(&mut events);
    net.flush();
    assert!(net.output(conn).unwrap().is_empty());
    net.poll(&mut events);
    assert_eq!(events, [Event::Writable(conn)]);
}
