//! Clients that leave with replies left to read: by QUIT, or by ending what they send.

use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};

const SIZE: usize = 200_000;

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

/// A server with a soft limit of 50 KB for five seconds and a long value, and a client that has asked for it and leaves.
fn leaving(quits: bool) -> (World, Client) {
    let settings = Settings { output_soft_size: 50_000, output_soft_s: 5, ..Settings::default() };
    let mut world = World::new(1, &settings, 7, Faults::default());
    let mut writer = world.connect(0);
    let set = command(&[b"SET", b"k", &vec![b'v'; SIZE]]);
    assert_eq!(world.exchange(&mut writer, &set, 5, 100), b"+OK\r\n");
    drop(writer);
    let mut client = world.connect_with(0, 1 << 16, 1 << 12);
    client.send(&command(&[b"GET", b"k"]));
    if quits {
        client.send(&command(&[b"QUIT"]));
    }
    client.push(usize::MAX);
    if !quits {
        client.end.end();
    }
    (0..5).for_each(|_| world.round());
    (world, client)
}

#[test]
fn who_does_not_read_is_cut_at_the_soft_limit_as_others_are() {
    for quits in [true, false] {
        let (mut world, client) = leaving(quits);
        for tenth in 0..60 {
            let stats = world.lanes[0].stats();
            let got = (stats.clients_cut, stats.clients);
            assert!(tenth >= 50 || got == (0, 1), "{got:?}: {tenth} tenths of a second are not five");
            assert!(tenth < 53 || got == (1, 0), "{got:?}: {tenth} tenths of a second are more than five");
            world.pass(100_000_000);
            (0..2).for_each(|_| world.round());
        }
        assert!(client.end.read_all().len() < SIZE && client.end.at_end());
    }
}

/// Below the limit it may take as long as it likes, and in the end it has all of it.
#[test]
fn who_reads_has_all_of_it_and_the_end() {
    for quits in [true, false] {
        let (mut world, mut client) = leaving(quits);
        let want = format!("$200000\r\n{}\r\n{}", "v".repeat(SIZE), if quits { "+OK\r\n" } else { "" });
        for _ in 0..45 {
            client.pull(4000);
            world.pass(100_000_000);
            (0..2).for_each(|_| world.round());
        }
        assert!(client.received.len() > SIZE - 50_000);
        // Nothing of what comes brings it about that the lane looks again.
        world.pass(60_000_000_000);
        for _ in 0..100 {
            client.pull(usize::MAX);
            world.turn_if_due(0);
            world.pass(10_000_000);
        }
        assert!(client.received == want.as_bytes(), "{} bytes", client.received.len());
        assert!(client.end.at_end() && !client.end.was_cut());
        assert_eq!((world.lanes[0].stats().clients_cut, world.lanes[0].stats().clients), (0, 0));
    }
}
