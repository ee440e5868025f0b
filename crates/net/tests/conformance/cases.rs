//! The promises one by one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use net::{Chunk, Close, ConnId, Event, Limits, Need, Net, Wait, Why};

use crate::worlds::{Client, World};

/// Turns in which something must have happened. Sockets may take a moment, and a turn without news waits one.
const PATIENCE_TURNS: u32 = 20_000;

/// A lane's worth of turns: `act` is called with each turn's events until it is content.
pub(crate) fn turns<W: World>(world: &mut W, mut act: impl FnMut(&mut W::Net, &[Event]) -> bool) {
    let mut events = Vec::new();
    for _ in 0..PATIENCE_TURNS {
        events.clear();
        world.net().poll(&mut events);
        let content = act(world.net(), &events);
        world.net().flush();
        if content {
            return;
        }
        world.net().wait(Some(1_000_000));
    }
    panic!("nothing came of it in {PATIENCE_TURNS} turns");
}

/// Connects, and waits until the net has told.
pub(crate) fn open<W: World>(world: &mut W) -> (Box<dyn Client>, ConnId) {
    let client = world.connect();
    let mut found = None;
    turns(world, |_, events| {
        for event in events {
            if let Event::Opened { conn, .. } = event {
                found = Some(*conn);
            }
        }
        found.is_some()
    });
    (client, found.expect("turns end with it"))
}

/// Waits for a connection's input and receives until `size` bytes are shown.
pub(crate) fn await_input<W: World>(world: &mut W, conn: ConnId, size: usize) -> Vec<u8> {
    let mut input = Vec::new();
    turns(world, |net, _| {
        input = net.stream(conn, Need::More).expect("it is open").input.to_vec();
        size <= input.len()
    });
    input
}

pub(crate) fn await_closed<W: World>(world: &mut W, conn: ConnId) -> Why {
    let mut found = None;
    turns(world, |_, events| {
        for event in events {
            if let Event::Closed { conn: other, why } = event {
                assert_eq!(*other, conn);
                assert!(found.replace(*why).is_none(), "one end for each connection");
            }
        }
        found.is_some()
    });
    // And never again.
    let mut left = 20;
    turns(world, |_, events| {
        assert!(!events.iter().any(|event| matches!(event, Event::Closed { .. })), "{events:?}");
        left -= 1;
        left == 0
    });
    found.expect("turns end with it")
}

fn await_reply<W: World>(world: &mut W, client: &mut Box<dyn Client>, size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    turns(world, |_, _| {
        bytes.extend(client.read(usize::MAX));
        size <= bytes.len() || client.at_end()
    });
    bytes
}

pub(crate) fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1].wrapping_mul(7)).collect()
}

pub(crate) fn a_client_is_announced_and_heard<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    assert_eq!(client.write(b"hello"), 5);
    assert_eq!(await_input(&mut world, conn, 5), b"hello");
    let stream = world.net().stream(conn, Need::Rest).unwrap();
    assert_eq!(stream.input, b"hello");
    assert!(!stream.end);
    stream.output.extend(b"and good day");
    world.net().consume(conn, 5);
    assert_eq!(await_reply(&mut world, &mut client, 12), b"and good day");
    assert!(world.net().stream(conn, Need::More).unwrap().input.is_empty());
    let counters = world.net().counters();
    assert_eq!((counters.opened, counters.closed), (1, 0));
    assert_eq!((counters.bytes_in, counters.bytes_out), (5, 12));
}

pub(crate) fn a_slow_reader_is_felt_and_its_chunks_are_let_go<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let held = Arc::new(pattern(60_000));
    let chunk: Chunk = held.clone();
    let mut want = Vec::new();
    {
        let output = world.net().output(conn).unwrap();
        for number in 0..300u32 {
            let text = number.to_string();
            output.extend(text.as_bytes());
            output.push_chunk(Arc::clone(&chunk), 1..59_999);
            want.extend(text.as_bytes());
            want.extend(&held[1..59_999]);
        }
        assert_eq!(output.len(), want.len());
    }
    drop(chunk);
    let mut shortest = want.len();
    let mut idle = 0;
    turns(&mut world, |net, events| {
        assert!(!events.contains(&Event::Writable(conn)), "nobody reads");
        let size = net.output(conn).expect("it is open").len();
        idle = if size < shortest { 0 } else { idle + 1 };
        shortest = size;
        idle == 50
    });
    assert!(0 < shortest, "nobody takes 18 MB unread");
    assert_eq!(world.net().kept_size(), shortest, "what is kept is known");
    assert!(Arc::strong_count(&held) > 1);
    let mut got = Vec::new();
    let mut writable = 0;
    turns(&mut world, |net, events| {
        writable += events.iter().filter(|event| **event == Event::Writable(conn)).count();
        got.extend(client.read(50_000));
        let size = net.output(conn).expect("it is open").len();
        assert!(size <= shortest, "unsent output only shrinks");
        shortest = size;
        got.len() == want.len()
    });
    assert!(got == want, "every byte arrives, in order");
    let mut left = 20;
    turns(&mut world, |_, events| {
        writable += events.iter().filter(|event| **event == Event::Writable(conn)).count();
        left -= 1;
        left == 0
    });
    assert_eq!(writable, 1);
    assert_eq!(Arc::strong_count(&held), 1, "sent chunks are let go");
    assert!(world.net().output(conn).unwrap().is_empty());
    assert_eq!(world.net().kept_size(), 0);
}

/// All send at once, and again.
pub(crate) fn more_clients_than_a_turn_has_places_are_all_heard<W: World>() {
    let mut world = W::make(Limits { clients_per_turn: 4, ..Limits::default() });
    let mut pairs: Vec<_> = (0..100).map(|_| open(&mut world)).collect();
    let mut received = 0;
    for round in 1..=3 {
        for (client, _) in &mut pairs {
            assert_eq!(client.write(&[b'?'; 1000]), 1000);
        }
        turns(&mut world, |net, events| {
            for event in events {
                let Event::Input(conn) = event else { panic!("{event:?}") };
                let size = net.stream(*conn, Need::More).expect("it is open").input.len();
                received += size;
                net.consume(*conn, size);
            }
            received == round * 100 * 1000
        });
    }
}

pub(crate) fn a_stale_handle_reaches_nobody<W: World>() {
    let mut world = W::make(Limits::default());
    let (_client, conn) = open(&mut world);
    assert!(world.net().queue(conn).is_none(), "no card is behind any of these worlds");
    let controls = world.net().counters().controls;
    let _ = (world.net().queue(conn), world.net().cpu(conn));
    assert_eq!(world.net().counters().controls, controls + 2, "one call for each question");
    world.net().close(conn, Close::Now);
    assert!(world.net().has_work(), "the end is still to be told");
    assert_eq!(await_closed(&mut world, conn), Why::Asked);
    assert!(!world.net().has_work());
    let (mut successor_client, successor) = open(&mut world);
    assert_eq!(successor.index(), conn.index(), "the index is used again");
    assert_ne!(successor, conn);
    let net = world.net();
    assert!(net.stream(conn, Need::More).is_none());
    assert!(net.stream(conn, Need::Rest).is_none());
    assert!(net.output(conn).is_none());
    assert!(net.give(conn).is_none());
    let controls = net.counters().controls;
    assert!(net.queue(conn).is_none() && net.cpu(conn).is_none());
    assert_eq!(net.counters().controls, controls, "nobody is asked about who is gone");
    net.consume(conn, 1);
    net.close(conn, Close::Now);
    net.close(conn, Close::AfterFlush);
    net.output(successor).unwrap().extend(b"alive");
    assert_eq!(await_reply(&mut world, &mut successor_client, 5), b"alive");
}

pub(crate) fn a_connection_moves_before_its_first_byte<W: World>() {
    let mut world = W::make(Limits::default());
    let mut sibling = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    client.write(b"sent before");
    // The bytes are announced here, and then belong to whoever takes the connection.
    turns(&mut world, |_, events| events.contains(&Event::Input(conn)));
    let handover = world.net().give(conn).expect("nothing was received or written");
    assert!(world.net().stream(conn, Need::More).is_none());
    assert!(world.net().give(conn).is_none());
    client.write(b", and under way");
    let taken = sibling.net().take(handover).expect("there is room");
    turns(&mut sibling, |_, events| events.contains(&Event::Input(taken)));
    assert_eq!(await_input(&mut sibling, taken, 26), b"sent before, and under way");
    sibling.net().output(taken).unwrap().extend(b"welcome");
    assert_eq!(await_reply(&mut sibling, &mut client, 7), b"welcome");
    let mut events = Vec::new();
    world.net().poll(&mut events);
    assert!(events.is_empty(), "whoever has given a connection hears no more of it: {events:?}");

    assert!(sibling.net().give(taken).is_none(), "it has been read and written");
    let (mut reader, read) = open(&mut world);
    reader.write(b"r");
    await_input(&mut world, read, 1);
    assert!(world.net().give(read).is_none(), "it has been read");
    let (_writer, written) = open(&mut world);
    world.net().output(written).unwrap().extend(b"w");
    assert!(world.net().give(written).is_none(), "it has been written");
    drop(client);
    turns(&mut sibling, |net, _| net.stream(taken, Need::More).is_none_or(|stream| stream.end));
}

pub(crate) fn a_thousand_connections_are_served<W: World>() {
    let mut world = W::make(Limits::default());
    let mut clients: Vec<_> = (0..1000).map(|_| world.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(&number.to_le_bytes());
    }
    let mut served = 0;
    turns(&mut world, |net, events| {
        for event in events {
            let Event::Input(conn) = event else { continue };
            let stream = net.stream(*conn, Need::More).expect("it is open");
            if stream.input.len() == size_of::<usize>() {
                stream.output.extend(stream.input);
                net.consume(*conn, size_of::<usize>());
                served += 1;
            }
        }
        served == 1000
    });
    let mut got = vec![Vec::new(); clients.len()];
    turns(&mut world, |_, _| {
        let mut whole = 0;
        for (client, got) in clients.iter_mut().zip(&mut got) {
            if got.len() < size_of::<usize>() {
                got.extend(client.read(100));
            }
            whole += usize::from(got.len() == size_of::<usize>());
        }
        whole == 1000
    });
    for (number, got) in got.iter().enumerate() {
        assert_eq!(*got, number.to_le_bytes());
    }
    drop(clients);
    let mut ended = 0;
    turns(&mut world, |net, events| {
        for event in events {
            match event {
                Event::Input(conn) if net.stream(*conn, Need::More).is_some_and(|stream| stream.end) => {
                    net.close(*conn, Close::AfterFlush);
                }
                Event::Closed { .. } => ended += 1,
                _ => {}
            }
        }
        ended == 1000
    });
    assert_eq!(world.net().counters().closed, 1000);
}

pub(crate) fn accepts_and_clients_of_a_turn_are_bounded<W: World>() {
    let limits = Limits { accepts_per_turn: 7, clients_per_turn: 5, ..Limits::default() };
    let mut world = W::make(limits);
    let mut clients: Vec<_> = (0..30).map(|_| world.connect()).collect();
    for client in &mut clients {
        client.write(b"me!");
    }
    let mut opened = 0;
    // Nobody is forgotten, and nobody comes twice.
    let mut heard = BTreeSet::new();
    turns(&mut world, |net, events| {
        let before = std::mem::replace(&mut opened, net.counters().opened);
        assert!(opened - before <= 7, "{before} to {opened}");
        let told = events.iter().filter(|event| matches!(event, Event::Input(_))).count();
        assert!(told <= W::INPUTS_MAX.unwrap_or(5), "{told} of at most 5");
        for event in events {
            let Event::Input(conn) = event else { continue };
            let size = net.stream(*conn, Need::More).expect("it is open").input.len();
            net.consume(*conn, size);
            assert!(heard.insert(*conn) || W::INPUTS_MAX.is_some(), "{conn:?} twice");
        }
        heard.len() == 30
    });
}

/// However many clients have a long reply to get, a turn sends so much of them, to one after the other, and a short reply at once.
pub(crate) fn what_a_turn_sends_is_bounded<W: World>() {
    const SIZE: usize = 100_000;
    let limits = Limits { send_size: 20_000, sends_size: 30_000, ..Limits::default() };
    let mut world = W::make(limits);
    let mut clients: Vec<_> = (0..9).map(|_| world.connect()).collect();
    let mut conns = Vec::new();
    turns(&mut world, |_, events| {
        conns.extend(events.iter().filter_map(|event| match event {
            Event::Opened { conn, .. } => Some(*conn),
            _ => None,
        }));
        conns.len() == 9
    });
    for conn in &conns[..8] {
        world.net().output(*conn).expect("it is open").extend(&[1; SIZE]);
    }
    world.net().output(conns[8]).expect("it is open").extend(b"short");
    let mut got = [0; 9];
    let mut sent = 0;
    turns(&mut world, |net, _| {
        let before = std::mem::replace(&mut sent, net.counters().bytes_out);
        for (client, got) in clients.iter_mut().zip(&mut got) {
            *got += client.read(SIZE).len();
        }
        let (long, short) = (got.iter().max().expect("clients"), got.iter().min().expect("clients"));
        // The clients came in an order of their own, and faults hold up whom they like.
        if W::INPUTS_MAX.is_none() {
            assert!(sent - before <= 50_005, "{before} to {sent}");
            assert!(*long < SIZE || 20_000 <= *short || *short == 5, "{got:?}");
            assert!(*long <= 40_000 || got.contains(&5), "a short reply waits for nobody: {got:?}");
        }
        got.iter().sum::<usize>() == 8 * SIZE + 5
    });
}

#[expect(clippy::disallowed_methods, reason = "the bell is for other threads")]
pub(crate) fn the_bell_ends_a_wait<W: World>() {
    let mut world = W::make(Limits::default());
    let bell = world.net().bell();
    bell.ring();
    world.net().wait(None);
    world.net().poll(&mut Vec::new());
    if W::SLEEPS {
        // Twice, because a ring that is not read back must still ring the second time.
        for _ in 0..2 {
            let bell = bell.clone();
            let rung = Arc::new(AtomicBool::new(false));
            let ringing = Arc::clone(&rung);
            let ringer = std::thread::spawn(move || {
                ringing.store(true, Ordering::Release);
                bell.ring();
            });
            world.net().wait(None);
            assert!(rung.load(Ordering::Acquire), "nothing else ends the wait");
            world.net().poll(&mut Vec::new());
            ringer.join().unwrap();
        }
    }
    let mut events = Vec::new();
    world.net().poll(&mut events);
    assert!(events.is_empty(), "a bell is no event of the lane's");
}

/// With 50 busy connections: one wait, one receive and one send for each, and nothing else.
pub(crate) fn a_turn_costs_what_it_must<W: World>() {
    let mut world = W::make(Limits::default());
    let mut pairs: Vec<_> = (0..50).map(|_| open(&mut world)).collect();
    let mut events = Vec::new();
    world.net().wait(Some(0));
    world.net().poll(&mut events);
    for round in 0..20u32 {
        for (client, _) in &mut pairs {
            assert_eq!(client.write(&[b'?'; 700]), 700);
        }
        let before = world.net().counters();
        events.clear();
        world.net().wait(None);
        world.net().poll(&mut events);
        assert_eq!(events.len(), 50, "round {round}");
        for event in &events {
            let Event::Input(conn) = event else { panic!("{event:?}") };
            let stream = world.net().stream(*conn, Need::More).unwrap();
            assert_eq!(stream.input.len(), 700);
            stream.output.extend(&[b'!'; 100]);
            world.net().consume(*conn, 700);
            assert!(world.net().stream(*conn, Need::More).unwrap().input.is_empty());
        }
        world.net().flush();
        let after = world.net().counters();
        assert_eq!(after.waits - before.waits, 1);
        assert_eq!(after.receives - before.receives, 50);
        assert_eq!(after.sends - before.sends, 50);
        assert_eq!(after.system_calls() - before.system_calls(), 101);
        for (client, _) in &mut pairs {
            assert_eq!(client.read(usize::MAX), [b'!'; 100]);
        }
        // That the clients have read their replies is no event.
        events.clear();
        let before = world.net().counters();
        world.net().wait(Some(0));
        assert!(!world.net().has_work(), "nor does it wake the lane");
        world.net().poll(&mut events);
        world.net().flush();
        assert!(events.is_empty());
        assert_eq!(
            world.net().counters().system_calls() - before.system_calls(),
            u64::from(before.waits > 0)
        );
    }
    // A reply of several pieces is still one send.
    let (client, conn) = &mut pairs[0];
    let sends = world.net().counters().sends;
    let output = world.net().output(*conn).unwrap();
    output.extend(b"$5\r\n");
    output.push_chunk(Arc::new(*b"hello"), 0..5);
    output.extend(b"\r\n");
    world.net().flush();
    assert_eq!(world.net().counters().sends, sends + 1);
    assert_eq!(client.read(usize::MAX), b"$5\r\nhello\r\n");
}

/// With 50 busy connections over `io_uring`: one call brings their requests and takes the replies to those before; so many
/// operations are begun by it.
pub(crate) fn a_turn_is_one_call<W: World>(operations: u64) {
    let mut world = W::make(Limits::default());
    let mut pairs: Vec<_> = (0..50).map(|_| open(&mut world)).collect();
    let mut events = Vec::new();
    for round in 0..20u32 {
        for (client, _) in &mut pairs {
            assert_eq!(client.write(&[b'?'; 500]), 500);
        }
        let before = world.net().counters();
        events.clear();
        world.net().wait(None);
        world.net().poll(&mut events);
        assert_eq!(events.len(), 50, "round {round}");
        for event in &events {
            let Event::Input(conn) = event else { panic!("{event:?}") };
            let stream = world.net().stream(*conn, Need::More).unwrap();
            assert_eq!(stream.input.len(), 500);
            stream.output.extend(&[b'!'; 100]);
            world.net().consume(*conn, 500);
            assert!(world.net().stream(*conn, Need::More).unwrap().input.is_empty());
        }
        world.net().flush();
        let after = world.net().counters();
        let calls = after.system_calls() - before.system_calls();
        match round {
            // The first receive of a connection is a call of its own, and with nothing to send the kernel works off
            // what has come 20 at a time.
            0 => assert!((51..=53).contains(&calls), "{calls}"),
            1 => assert!((1..=3).contains(&calls), "{calls}"),
            _ => {
                assert_eq!((calls, after.waits - before.waits), (1, 1), "round {round}");
                assert_eq!(
                    after.operations - before.operations,
                    operations,
                    "sends, and receives if they don't last"
                );
            }
        }
        if 0 < round {
            for (client, _) in &mut pairs {
                assert_eq!(
                    client.read(usize::MAX),
                    [b'!'; 100],
                    "round {round}: the replies to those before"
                );
            }
        }
        // That the clients have read their replies is no event, and looking for one costs nothing.
        if round == 19 {
            world.net().wait(Some(0));
            world.net().poll(&mut Vec::new());
            pairs.iter_mut().for_each(|(client, _)| assert_eq!(client.read(usize::MAX).len(), 100));
            let before = world.net().counters();
            world.net().wait(Some(0));
            assert!(!world.net().has_work());
            world.net().poll(&mut events);
            world.net().flush();
            assert_eq!(world.net().counters().system_calls(), before.system_calls());
        }
    }
    // A reply of several pieces is still one send.
    let (client, conn) = &mut pairs[0];
    let before = world.net().counters();
    let output = world.net().output(*conn).unwrap();
    output.extend(b"$5\r\n");
    output.push_chunk(Arc::new(*b"hello"), 0..5);
    output.extend(b"\r\n");
    world.net().flush();
    world.net().poll(&mut events);
    world.net().poll(&mut events);
    let after = world.net().counters();
    assert_eq!((after.waits - before.waits, after.operations - before.operations), (1, 1));
    assert_eq!(client.read(usize::MAX), b"$5\r\nhello\r\n");
}
