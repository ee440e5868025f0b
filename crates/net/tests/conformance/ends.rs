//! How connections end, by either side.

use std::sync::Arc;

use net::{Close, ConnId, Event, Limits, Need, Net, Why};

use crate::cases::{await_closed, await_input, open, pattern, turns};
use crate::worlds::{Client, World};

pub(crate) fn close_after_flush_delivers_everything<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let want = pattern(8 * 1024 * 1024);
    world.net().output(conn).unwrap().extend(&want);
    world.net().close(conn, Close::AfterFlush);
    assert!(world.net().stream(conn, Need::More).is_none());
    assert!(world.net().output(conn).is_none());
    let mut got = Vec::new();
    let mut closed = 0;
    turns(&mut world, |_, events| {
        for event in events {
            match event {
                Event::Closed { conn: other, why } => {
                    assert_eq!((*other, *why), (conn, Why::Asked));
                    closed += 1;
                }
                other => panic!("a closing connection is silent, but {other:?}"),
            }
        }
        got.extend(client.read(usize::MAX));
        client.at_end() && closed == 1
    });
    assert!(got == want && !client.was_cut());
}

/// The reply to a broken command must be readable although more of the broken command arrives.
pub(crate) fn close_after_flush_survives_unread_input<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    client.write(&pattern(50_000));
    await_input(&mut world, conn, 1);
    client.write(&pattern(10_000));
    world.net().output(conn).unwrap().extend(b"-ERR what?\r\n");
    world.net().close(conn, Close::AfterFlush);
    assert_eq!(await_closed(&mut world, conn), Why::Asked);
    client.write(&pattern(10_000));
    let mut left = 20;
    turns(&mut world, |_, _| {
        left -= 1;
        left == 0
    });
    let mut got = Vec::new();
    turns(&mut world, |_, _| {
        got.extend(client.read(usize::MAX));
        client.at_end()
    });
    assert_eq!(got, b"-ERR what?\r\n");
    assert!(!client.was_cut());
}

pub(crate) fn close_now_drops_what_is_unsent<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let held = Arc::new(pattern(60_000));
    world.net().output(conn).unwrap().push_chunk(held.clone(), 0..60_000);
    world.net().close(conn, Close::Now);
    assert!(world.net().stream(conn, Need::More).is_none());
    assert_eq!(await_closed(&mut world, conn), Why::Asked);
    assert_eq!(Arc::strong_count(&held), 1);
    let mut got = Vec::new();
    turns(&mut world, |_, _| {
        got.extend(client.read(usize::MAX));
        client.at_end()
    });
    assert!(got.is_empty());
}

/// Also if the system has long been asked to listen to it, before its first byte or after.
pub(crate) fn close_now_ends_an_idle_connection<W: World>() {
    let mut world = W::make(Limits::default());
    for says in [false, true] {
        let (mut client, conn) = open(&mut world);
        if says {
            client.write(b"x");
            await_input(&mut world, conn, 1);
            world.net().consume(conn, 1);
        }
        let mut left = 5;
        turns(&mut world, |_, _| {
            left -= 1;
            left == 0
        });
        world.net().close(conn, Close::Now);
        assert_eq!(await_closed(&mut world, conn), Why::Asked);
        turns(&mut world, |_, _| {
            client.read(usize::MAX);
            client.at_end()
        });
    }
}

pub(crate) fn who_was_told_much_is_answered_and_closed_as_others<W: World>() {
    let mut world = W::make(Limits::default());
    let pieces = Arc::new(*b"of several pieces");
    // The second takes the place of the first.
    for _ in 0..2 {
        let (mut client, conn) = open(&mut world);
        let mut said = |world: &mut W, want: &[u8]| {
            let mut got = Vec::new();
            turns(world, |_, _| {
                got.extend(client.read(usize::MAX));
                got.len() == want.len()
            });
            assert!(got == want);
        };
        for size in [10_000, 1, 20_000] {
            let want = pattern(size);
            world.net().output(conn).expect("it is open").extend(&want);
            said(&mut world, &want);
            let output = world.net().output(conn).expect("it is open");
            output.extend(b"one ");
            output.push_chunk(pieces.clone(), 0..17);
            said(&mut world, b"one of several pieces");
        }
        world.net().close(conn, Close::Now);
        turns(&mut world, |_, _| {
            assert_eq!(client.read(usize::MAX), b"");
            client.at_end() || client.was_cut()
        });
    }
}

pub(crate) fn replies_reach_a_client_that_has_ended<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    client.write(b"last words");
    client.end();
    turns(&mut world, |net, _| {
        let stream = net.stream(conn, Need::More).expect("it is open");
        assert!(!stream.end || stream.input == b"last words", "the end comes behind the last byte");
        stream.end
    });
    // It is still there many turns later: only the lane knows what is owed.
    let mut left = 20;
    turns(&mut world, |_, events| {
        assert!(events.iter().all(|event| *event == Event::Input(conn)), "{events:?}");
        left -= 1;
        left == 0
    });
    let stream = world.net().stream(conn, Need::Rest).unwrap();
    assert!(stream.end && stream.input == b"last words");
    let want = pattern(3_000_000);
    stream.output.extend(&want);
    world.net().consume(conn, 10);
    world.net().close(conn, Close::AfterFlush);
    let mut got = Vec::new();
    let mut closed = false;
    turns(&mut world, |_, events| {
        closed |= events.contains(&Event::Closed { conn, why: Why::Asked });
        got.extend(client.read(usize::MAX));
        client.at_end() && closed
    });
    assert!(got == want && !client.was_cut());
}

pub(crate) fn a_client_that_is_gone_is_told<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    client.write(b"bye");
    drop(client);
    turns(&mut world, |net, _| {
        let stream = net.stream(conn, Need::More).expect("sending was orderly");
        stream.end && stream.input == b"bye"
    });
    // Whoever writes to it finds out.
    let mut found = None;
    turns(&mut world, |net, events| {
        if let Some(output) = net.output(conn)
            && output.is_empty()
        {
            output.extend(b"are you there?");
        }
        for event in events {
            if let Event::Closed { why, .. } = event {
                assert!(found.replace(*why).is_none(), "one end for each connection");
            }
        }
        found.is_some()
    });
    assert_eq!(found, Some(Why::Reset));
    assert!(world.net().stream(conn, Need::Rest).is_none());
}

pub(crate) fn a_cut_connection_is_told<W: World>() {
    if !W::CUTS {
        return;
    }
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    client.write(b"half a comm");
    await_input(&mut world, conn, 11);
    client.cut();
    assert_eq!(await_closed(&mut world, conn), Why::Reset);
    assert!(world.net().stream(conn, Need::Rest).is_none());
    assert_eq!(world.net().counters().closed, 1);
}

/// It has ended its side, is cut later, and nobody asks meanwhile what it says.
pub(crate) fn a_cut_behind_an_end_is_told<W: World>() {
    if !W::CUTS {
        return;
    }
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    client.write(b"a command that waits, and half a comm");
    await_input(&mut world, conn, 37);
    client.write(b"and");
    turns(&mut world, |_, events| events.contains(&Event::Input(conn)));
    client.end();
    let mut left = 20;
    turns(&mut world, |_, events| {
        assert!(events.is_empty(), "{events:?}");
        left -= 1;
        left == 0
    });
    client.cut();
    assert_eq!(await_closed(&mut world, conn), Why::Reset);
}

/// A connection that has been heard once, and whose lane waits for more.
fn open_and_asked<W: World>(world: &mut W) -> (Box<dyn Client>, ConnId) {
    let (mut client, conn) = open(world);
    client.write(b"first");
    await_input(world, conn, 5);
    world.net().consume(conn, 5);
    for _ in 0..3 {
        world.net().stream(conn, Need::More).expect("it is open");
        world.net().flush();
        world.net().poll(&mut Vec::new());
    }
    (client, conn)
}

/// The lane waits for more; bytes come, and before anybody looks the end behind them.
pub(crate) fn an_end_that_comes_with_bytes_is_told<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open_and_asked(&mut world);
    client.write(b"last words");
    client.end();
    turns(&mut world, |net, _| net.stream(conn, Need::More).expect("it is open").end);
    assert_eq!(world.net().stream(conn, Need::Rest).unwrap().input, b"last words");
}

/// Likewise, and the connection breaks.
pub(crate) fn a_cut_that_comes_with_bytes_is_told<W: World>() {
    if !W::CUTS {
        return;
    }
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open_and_asked(&mut world);
    client.write(b"half a comm");
    client.cut();
    turns(&mut world, |net, events| {
        net.stream(conn, Need::More);
        events.iter().any(|event| matches!(event, Event::Closed { conn: closed, .. } if *closed == conn))
    });
}

/// It has ended its side, and what is written for it fills its socket. That it has ended is no news then.
pub(crate) fn a_client_that_has_ended_and_does_not_read_is_waited_for<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    client.write(b"last words");
    client.end();
    turns(&mut world, |net, _| net.stream(conn, Need::More).expect("it is open").end);
    let want = pattern(18_000_000);
    world.net().output(conn).unwrap().extend(&want);
    let (mut shortest, mut idle, mut sends_short) = (want.len(), 0, 0);
    turns(&mut world, |net, _| {
        let size = net.output(conn).expect("it is open").len();
        idle = if size < shortest { 0 } else { idle + 1 };
        shortest = size;
        if idle == 20 {
            sends_short = net.counters().sends_short;
        }
        idle == 100
    });
    let more = world.net().counters().sends_short - sends_short;
    assert!(more <= 1, "sent in vain {more} times in 80 turns");
    let mut got = Vec::new();
    turns(&mut world, |_, _| {
        got.extend(client.read(usize::MAX));
        got.len() == want.len()
    });
    assert!(got == want);
}
