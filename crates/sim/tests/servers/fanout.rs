//! Messages to many subscribers: what a turn sends, counted in bytes and sends, and that a neighbour is answered meanwhile.

use net::{Net, SHORT_OUTPUT};
use sim::{Client, World};

const SUBSCRIBERS: usize = 400;
/// Bytes that a turn sends at most: of a net's limits the common one and that of one connection, and short replies.
const SENT_MAX: u64 = 512 * 1024 + 64 * 1024 + 8 * SHORT_OUTPUT as u64;
/// Turns in which a neighbour has its answer.
const TURNS_MAX: usize = 3;

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

/// Messages of so many bytes go to all subscribers. Whatever they are, a turn sends to so many and a neighbour's PING has its answer soon.
fn check(size: usize, sends_max: u64) {
    let mut world = World::quiet(1);
    let mut neighbour = world.connect(0);
    let mut publisher = world.connect_with(0, 4 << 20, 1000);
    let mut subscribers: Vec<Client> = (0..SUBSCRIBERS).map(|_| world.connect(0)).collect();
    let subscribed = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    subscribers.iter_mut().for_each(|client| client.send(&command(&[b"SUBSCRIBE", b"c"])));
    while subscribers.iter().any(|client| client.received.len() < subscribed.len()) {
        subscribers.iter_mut().for_each(Client::pump);
        world.turn(0);
    }
    subscribers.iter_mut().for_each(|client| client.received.clear());
    publisher.send(&command(&[b"PUBLISH", b"c", &vec![b'm'; size]]));
    let mut turns = 0;
    let want = SUBSCRIBERS * (size + format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${size}\r\n\r\n").len());
    let mut got = 0;
    for _ in 0..100_000 {
        if turns == 0 {
            neighbour.send(b"PING\r\n");
        }
        publisher.pump();
        neighbour.pump();
        let before = world.nets[0].counters();
        world.turn(0);
        world.pass(50_000);
        let after = world.nets[0].counters();
        assert!(
            after.bytes_out - before.bytes_out <= SENT_MAX,
            "{} bytes",
            after.bytes_out - before.bytes_out
        );
        assert!(after.sends - before.sends <= sends_max, "{} sends", after.sends - before.sends);
        neighbour.pump();
        turns = if neighbour.received.is_empty() { turns + 1 } else { 0 };
        neighbour.received.clear();
        assert!(turns < TURNS_MAX, "the neighbour waits");
        for client in &mut subscribers {
            client.pump();
            got += std::mem::take(&mut client.received).len();
        }
        if got == want {
            return;
        }
    }
    panic!("{got} of {want} bytes have come");
}

#[test]
fn long_messages_are_sent_a_part_at_a_time() {
    check(60_000, 40);
    check(300_000, 40);
}

#[test]
fn short_messages_are_sent_to_so_many_a_turn() {
    check(10, 130);
    check(2_000, 140);
}
