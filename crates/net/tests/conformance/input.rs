//! What a lane sees of received bytes: when it is told, what is kept, and for whom.

use net::{Close, ConnId, Event, INPUT_MAX, Limits, Need, Net};

use crate::cases::{await_input, open, pattern, turns};
use crate::worlds::World;

pub(crate) fn input_is_announced_once_until_asked_for<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let mut told = 0;
    let mut left = 60;
    turns(&mut world, |_, events| {
        told += events.iter().filter(|event| **event == Event::Input(conn)).count();
        if left % 20 == 0 {
            client.write(b"x");
        }
        left -= 1;
        left == 0
    });
    assert_eq!(told, 1, "three arrivals, one announcement");
    assert_eq!(await_input(&mut world, conn, 3), b"xxx");
    world.net().consume(conn, 3);
    client.write(b"y");
    turns(&mut world, |_, events| events.contains(&Event::Input(conn)));
    assert_eq!(await_input(&mut world, conn, 1), b"y");
}

pub(crate) fn a_rest_grows_byte_by_byte<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let (mut other_client, other) = open(&mut world);
    let want = pattern(300);
    for (at, byte) in want.iter().enumerate() {
        client.write(&[*byte]);
        other_client.write(b"z");
        assert_eq!(await_input(&mut world, conn, at + 1), want[..=at]);
        // Another connection's receive must not disturb what is kept.
        await_input(&mut world, other, 1);
        world.net().consume(other, 1);
        assert_eq!(world.net().stream(conn, Need::Rest).unwrap().input, &want[..=at]);
    }
}

pub(crate) fn a_budget_goes_on_with_the_rest<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let (mut other_client, other) = open(&mut world);
    let want = pattern(10_000);
    assert_eq!(client.write(&want), want.len());
    other_client.write(b"o");
    assert_eq!(await_input(&mut world, conn, want.len()), want);
    let receives = world.net().counters().receives;
    let mut got: Vec<u8> = Vec::new();
    while got.len() < want.len() {
        let input = world.net().stream(conn, Need::Rest).unwrap().input;
        assert_eq!(input, &want[got.len()..]);
        got.extend(&input[..100]);
        world.net().consume(conn, 100);
        world.net().stream(other, Need::Rest).unwrap();
        world.net().flush();
        world.net().poll(&mut Vec::new());
    }
    assert_eq!(world.net().counters().receives, receives, "a rest needs no receive");
    assert!(world.net().stream(conn, Need::Rest).unwrap().input.is_empty());
}

/// Many receive in the same turn, more than the shared buffer holds, and each leaves some of it: nobody's bytes are another's,
/// and one that goes takes only its own with it.
pub(crate) fn what_several_have_received_stays_theirs<W: World>() {
    let mut world = W::make(Limits::default());
    let mut clients: Vec<_> = (0..6).map(|_| open(&mut world)).collect();
    // Of each connection other bytes.
    let all = pattern(4 << 20);
    let want = |number: usize, at: usize, size: usize| &all[number * 37 + at..][..size];
    let mut written = [0_usize; 6];
    let mut consumed = [0_usize; 6];
    let mut state = 1_u64;
    let mut chance = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % limit
    };
    for turn in 0..300 {
        for (number, (client, _)) in clients.iter_mut().enumerate() {
            let size = [0, 10, 700, 30_000][chance(4)];
            written[number] += client.write(want(number, written[number], size));
        }
        world.net().poll(&mut Vec::new());
        // All receive before the first of them consumes.
        let receiving = clients.len() - chance(2);
        for (_, conn) in &clients[..receiving] {
            world.net().stream(*conn, Need::More).expect("it is open");
        }
        for (number, (_, conn)) in clients.iter().enumerate() {
            let input = world.net().stream(*conn, Need::Rest).expect("it is open").input;
            assert!(
                input == want(number, consumed[number], input.len()),
                "connection {number} in turn {turn}"
            );
            let size = [input.len(), chance(input.len() + 1), 0][chance(3)];
            world.net().consume(*conn, size);
            consumed[number] += size;
        }
        if turn == 200 {
            let (_, conn) = clients.pop().expect("there are six");
            world.net().close(conn, Close::Now);
        }
        world.net().flush();
    }
    assert!(consumed.iter().all(|size| *size > 500_000), "{consumed:?}");
}

/// Who has not consumed anything has no room for more. It is told of that when it may have some.
pub(crate) fn who_asks_without_room_is_told_again<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let want = pattern(3 * INPUT_MAX);
    let mut sent = 0;
    let mut got = Vec::new();
    while got.len() < want.len() {
        turns(&mut world, |net, _| {
            sent += client.write(&want[sent..]);
            let size = net.stream(conn, Need::More).expect("it is open").input.len();
            size == INPUT_MAX.min(want.len() - got.len())
        });
        // It asks once more, and consumes all then.
        turns(&mut world, |net, _| {
            let input = net.stream(conn, Need::More).expect("it is open").input;
            let size = input.len();
            got.extend_from_slice(input);
            net.consume(conn, size);
            true
        });
        if sent == want.len() && got.len() < want.len() {
            turns(&mut world, |_, events| events.contains(&Event::Input(conn)));
        }
    }
    assert!(got == want);
}

/// A lane that can't go on with what it has, because its client waits, asks whenever it is told.
pub(crate) fn who_makes_no_room_is_told_of_nothing<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let want = pattern(2 * INPUT_MAX);
    let (mut sent, mut turn_count, mut told) = (0, 0, 0);
    turns(&mut world, |net, events| {
        sent += client.write(&want[sent..]);
        turn_count = if sent == want.len() { turn_count + 1 } else { 0 };
        if events.contains(&Event::Input(conn)) {
            // What is under way arrives in some of the first.
            told += u32::from(100 <= turn_count);
            net.stream(conn, Need::More).expect("it is open");
        }
        turn_count == 300
    });
    assert!(told <= 2, "told {told} times in 200 turns");
    let mut got = Vec::new();
    turns(&mut world, |net, _| {
        let need = if got.is_empty() { Need::Rest } else { Need::More };
        let input = net.stream(conn, need).expect("it is open").input;
        let size = input.len();
        got.extend_from_slice(input);
        net.consume(conn, size);
        got.len() == want.len()
    });
    assert!(got == want);
}

/// Around what a receive may bring, in one piece or in several.
pub(crate) fn behind_so_many_bytes_one_more_is_heard<W: World>() {
    let mut world = W::make(Limits::default());
    for size in [4096, 8192, 12_288, 16_384, INPUT_MAX].into_iter().flat_map(|size| size - 1..=size + 1) {
        let (mut client, conn) = open(&mut world);
        let want = pattern(size);
        let (mut sent, mut got) = (0, Vec::new());
        turns(&mut world, |net, _| {
            sent += client.write(&want[sent..]);
            let input = net.stream(conn, Need::More).expect("it is open").input;
            let size = input.len();
            got.extend_from_slice(input);
            net.consume(conn, size);
            got.len() == want.len()
        });
        assert!(got == want, "{size} bytes");
        await_nothing(&mut world, conn);
        assert_eq!(client.write(b"!"), 1);
        turns(&mut world, |net, events| {
            let is_told = events.contains(&Event::Input(conn));
            is_told && net.stream(conn, Need::More).expect("it is open").input == b"!"
        });
        world.net().close(conn, Close::Now);
    }
}

/// The lane asks until there is nothing more.
fn await_nothing<W: World>(world: &mut W, conn: ConnId) {
    let mut idle_turns = 0;
    turns(world, |net, events| {
        let is_told = events.contains(&Event::Input(conn));
        idle_turns = if is_told { 0 } else { idle_turns + 1 };
        if is_told {
            assert_eq!(net.stream(conn, Need::More).expect("it is open").input, b"");
        }
        idle_turns == 3
    });
}

pub(crate) fn what_is_kept_for_a_connection_is_known<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let (mut other_client, other) = open(&mut world);
    client.write(b"0123456789");
    await_input(&mut world, conn, 10);
    assert_eq!(world.net().kept(conn), (10, 0));
    world.net().consume(conn, 4);
    world.net().output(conn).expect("it is open").extend(b"abc");
    assert_eq!(world.net().kept(conn), (6, 3));
    // What comes unasked stays in the kernel, or is kept unseen.
    client.write(b"ABCDE");
    other_client.write(b"z");
    await_input(&mut world, other, 1);
    let mut turns_left = 5;
    turns(&mut world, |net, _| {
        let shown_size = net.stream(conn, Need::Rest).expect("it is open").input.len();
        assert_eq!(shown_size, 6, "nothing is shown that was not asked for");
        assert!([6, 11].contains(&net.kept(conn).0));
        turns_left -= 1;
        turns_left == 0
    });
    await_input(&mut world, conn, 11);
    assert_eq!(world.net().kept(conn), (11, 0));
    assert_eq!(world.net().kept(other), (1, 0), "of another nothing counts");
    world.net().close(conn, Close::Now);
    assert_eq!(world.net().kept(conn), (0, 0));
}

pub(crate) fn what_a_closed_connection_left_is_not_kept<W: World>() {
    for how in [Close::AfterFlush, Close::Now] {
        // Alone, and behind what another one has said since.
        for is_alone in [true, false] {
            let mut world = W::make(Limits::default());
            let (mut client, conn) = open(&mut world);
            let (mut other_client, other) = open(&mut world);
            let mut hear = |world: &mut W| {
                other_client.write(b"z");
                await_input(world, other, 1);
                world.net().consume(other, 1);
            };
            client.write(b"never read");
            await_input(&mut world, conn, 10);
            if !is_alone {
                hear(&mut world);
            }
            world.net().close(conn, how);
            // After a flush it lingers while another one receives.
            hear(&mut world);
            assert_eq!(world.net().kept_size(), 0, "{how:?}");
        }
    }
}

/// Whoever sends faster than the lane reads gets one receive a turn, like everybody else.
pub(crate) fn a_turn_receives_once<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let bytes = pattern(1024 * 1024);
    let (mut written, mut consumed) = (0, 0);
    turns(&mut world, |net, _| {
        written += client.write(&bytes[written..]);
        let before = net.counters().receives;
        for _ in 0..3 {
            let size = net.stream(conn, Need::More).expect("it is open").input.len();
            net.consume(conn, size);
            consumed += size;
        }
        assert!(net.counters().receives <= before + 1);
        consumed == bytes.len()
    });
}

pub(crate) fn unconsumed_input_slows_the_sender<W: World>() {
    let mut world = W::make(Limits::default());
    let (mut client, conn) = open(&mut world);
    let want = pattern(32 * 1024 * 1024);
    let mut written = 0;
    let mut idle = 0;
    turns(&mut world, |net, _| {
        let stream = net.stream(conn, Need::More).expect("it is open");
        assert!(stream.input.len() <= INPUT_MAX);
        let size = client.write(&want[written..]);
        written += size;
        idle = if size == 0 { idle + 1 } else { 0 };
        idle == 20
    });
    assert!(written < want.len(), "the sender was slowed at {written}");
    assert_eq!(world.net().stream(conn, Need::Rest).unwrap().input.len(), INPUT_MAX);
    let mut got = 0;
    turns(&mut world, |net, _| {
        let input = net.stream(conn, Need::More).expect("it is open").input;
        assert_eq!(input, &want[got..got + input.len()]);
        let size = input.len();
        net.consume(conn, size);
        got += size;
        written += client.write(&want[written..]);
        got == want.len()
    });
}
