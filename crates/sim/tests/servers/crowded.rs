//! Who asks for little waits for a turn, however many ask for much; and these are served all the same.

use sim::{Client, World};

const VALUE_SIZE: usize = 1000;
/// Turns from a request to its reply: the one that is under way, and the next.
const TURNS_MAX: usize = 2;

/// So many clients that never stop asking, and read, beside one that asks for one thing after the other.
fn check(heavy_count: usize) {
    let mut world = World::quiet(1);
    let mut light = world.connect(0);
    let value = format!("${VALUE_SIZE}\r\n{}\r\n", "v".repeat(VALUE_SIZE));
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n{value}");
    assert_eq!(world.exchange(&mut light, set.as_bytes(), 5, 10), b"+OK\r\n");
    let mut heavy: Vec<Client> = (0..heavy_count).map(|_| world.connect_with(0, 4000, 1 << 20)).collect();
    let mut served = vec![0; heavy_count];
    let (mut turns, mut turns_max, mut asked_count) = (0, 0, 0);
    for turn in 0..2000 {
        for (client, served) in heavy.iter_mut().zip(&mut served) {
            if client.is_sent() {
                client.send(&b"GET k\r\n".repeat(500));
            }
            client.pump();
            *served += std::mem::take(&mut client.received).len() / value.len();
        }
        // Not in step with anybody.
        if turns == 0 && turn % 7 == 0 {
            light.send(b"PING\r\n");
            light.pump();
            (turns, asked_count) = (1, asked_count + 1);
        }
        world.turn(0);
        world.pass(50_000);
        light.pump();
        if turns > 0 {
            turns_max = turns_max.max(turns);
            turns = if light.received.is_empty() { turns + 1 } else { 0 };
            light.received.clear();
        }
    }
    assert!(turns_max <= TURNS_MAX, "a PING beside {heavy_count} clients took {turns_max} turns");
    assert!(asked_count > 250, "{asked_count} were answered");
    let (least, most) = (served.iter().min().expect("clients"), served.iter().max().expect("clients"));
    assert!(*least * 2 > *most && *least > 100, "{least} to {most} were answered of the others");
}

#[test]
fn who_asks_for_little_waits_for_a_turn() {
    check(3);
    check(200);
}

/// Many that ask for little, again and again, leave the end of each turn to who asks for much.
#[test]
fn who_asks_for_much_has_its_part() {
    let mut world = World::quiet(1);
    let mut heavy = world.connect_with(0, 60_000, 1 << 20);
    let mut light: Vec<Client> = (0..300).map(|_| world.connect(0)).collect();
    (0..100).for_each(|_| _ = world.turn(0));
    light.iter_mut().for_each(|client| client.send(b"PING\r\n"));
    let (mut pongs, mut light_pongs) = (0, 0);
    for _ in 0..50 {
        for client in &mut light {
            client.pump();
            if !client.received.is_empty() {
                client.received.clear();
                client.send(b"PING\r\n");
                client.pump();
                light_pongs += 1;
            }
        }
        if heavy.is_sent() {
            heavy.send(&b"PING\r\n".repeat(4000));
        }
        heavy.pump();
        world.turn(0);
        pongs += std::mem::take(&mut heavy.received).len() / 7;
    }
    assert!(light_pongs > 45 * 64 && pongs > 45 * 64, "{light_pongs} and {pongs} in 50 turns");
}
