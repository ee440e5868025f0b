//! CLIENT PAUSE: whom it holds back, and how they go on when it is over.

use lane::{Dialect, Door, Next, Port};

use super::world::World;

/// Clients looked at in a turn when a pause has ended, as the lane bounds them.
const LOOKS_PER_TURN: usize = 128;

fn send(client: &net::mem::Client, words: &[&[u8]]) {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    client.write(&bytes);
}

/// Clients that say SET while a pause holds writes back.
fn hold(world: &mut World, count: usize) -> Vec<net::mem::Client> {
    let held: Vec<_> = (0..count).map(|_| world.connect()).collect();
    for other in &held {
        send(other, &[b"SET", b"k", b"v"]);
    }
    // A turn accepts some of them.
    for _ in 0..count / 8 {
        world.round(1000);
    }
    held
}

fn blocked_count(world: &mut World, client: &net::mem::Client) -> usize {
    let info = world.ask(client, "INFO clients");
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
    line.and_then(|count| count.parse().ok()).expect("INFO says how many are held back")
}

#[test]
fn clients_that_go_during_a_pause_leave_nothing_behind() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "CLIENT PAUSE 1000000 WRITE");
    for _ in 0..50 {
        let other = world.connect();
        send(&other, &[b"SET", b"k", b"v"]);
        assert_eq!(blocked_count(&mut world, &client), 1, "it waits");
        other.cut();
        world.round(1000);
    }
    let stays = world.connect();
    send(&stays, &[b"SET", b"k", b"v"]);
    assert_eq!(blocked_count(&mut world, &client), 1, "the one that is still there");
    world.ask(&client, "CLIENT UNPAUSE");
    assert_eq!(stays.read_all(), b"+OK\r\n");
    assert_eq!(blocked_count(&mut world, &client), 0);
}

#[test]
fn a_pause_whose_end_does_not_fit_is_refused() {
    let mut world = World::new(1);
    let client = world.connect();
    let (most, refused) = (u64::MAX / 1_000_000, "-ERR timeout is out of range\r\n");
    for ms in [i64::MAX.unsigned_abs(), most + 1, most] {
        assert_eq!(world.ask(&client, &format!("CLIENT PAUSE {ms}")), refused, "{ms}");
        assert_eq!(world.ask(&client, "PING"), "+PONG\r\n", "after {ms}");
    }
    let not_a_number = "-ERR timeout is not an integer or out of range\r\n";
    assert_eq!(world.ask(&client, "CLIENT PAUSE 9223372036854775808"), not_a_number);
    assert_eq!(world.ask(&client, &format!("CLIENT PAUSE {} WRITE", most - 10_000)), "+OK\r\n");
    assert_eq!(world.ask(&client, "CLIENT UNPAUSE"), "+OK\r\n");
}

/// Neither the end of a key nor a delayed `flush_all`.
#[test]
fn what_time_would_remove_stays_while_writes_are_held_back() {
    let mut world = World::told(1, &[], |settings| {
        settings.doors[1] = Door { port: Port::Lane, dialect: Dialect::Memcached };
    });
    let (client, memcached) = (world.connect(), world.connect_to(0));
    memcached.write(b"set document 0 0 1\r\nx\r\nflush_all 1\r\n");
    assert_eq!(world.ask(&client, "SET k v PX 1000"), "+OK\r\n");
    assert_eq!(world.ask(&client, "CLIENT PAUSE 1000000 WRITE"), "+OK\r\n");
    world.round(2_000_000_000);
    // Nor is it waited for: the lane sleeps.
    let now_ns = world.now.mono_ns;
    assert!(matches!(world.turn(0), Next::At(at_ns) if at_ns > now_ns + 900_000_000_000));
    for (command, keys) in [("PING", 2), ("CLIENT UNPAUSE", 0)] {
        world.ask(&client, command);
        assert_eq!(world.lanes[0].stats().keys, keys, "after {command}");
    }
}

/// Redis' keys, and how often they have changed.
fn changes(world: &mut World, client: &net::mem::Client) -> (String, Option<String>) {
    let info = world.ask(client, "INFO persistence");
    let count = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    (world.ask(client, "DBSIZE"), count.map(str::to_owned))
}

/// A script that runs for some turns, one that waits for its keys, and a command of several lanes.
#[test]
fn nothing_changes_from_the_answer_on() {
    for lanes in [1, 3_u16] {
        // How many turns before the pause the others have begun.
        for turns in 0..6 {
            let mut world = World::new(lanes);
            let [script, waiter, mset, pauser] =
                [0, 1, 2, 0].map(|lane| world.connect_at(lane % usize::from(lanes)));
            let source = b"for i = 1, 300000 do end redis.call('set', KEYS[1], 1)";
            send(&script, &[b"EVAL", source, b"1", b"k"]);
            for _ in 0..turns {
                world.round(1000);
            }
            send(&waiter, &[b"APPEND", b"k", b"x"]);
            send(&mset, &[b"MSET", b"a", b"1", b"b", b"2", b"c", b"3", b"d", b"4", b"e", b"5"]);
            world.round_of(1000, |lane| lane == usize::from(2 % lanes));
            send(&pauser, &[b"CLIENT", b"PAUSE", b"1000000", b"WRITE"]);
            let mut round_count = 0;
            while pauser.read_all() != b"+OK\r\n" {
                world.round(1000);
                round_count += 1;
                assert!(round_count < 10_000, "it is answered");
            }
            let there = changes(&mut world, &pauser);
            (0..1000).for_each(|_| world.round(1000));
            assert_eq!(changes(&mut world, &pauser), there, "{lanes} lanes, {turns} turns before");
            world.ask(&pauser, "CLIENT UNPAUSE");
            (0..1000).for_each(|_| world.round(1000));
            assert_eq!(world.ask(&pauser, "DBSIZE"), ":6\r\n");
        }
    }
}

#[test]
fn a_pause_waits_for_nobody_behind_its_end_nor_for_itself() {
    let mut world = World::new(3);
    let (client, pauser) = (world.connect_at(1), world.connect_at(0));
    let replies = world.ask_all(&pauser, &["MULTI", "SET k v", "CLIENT PAUSE 1 WRITE", "EXEC"]);
    assert!(replies.ends_with("*2\r\n+OK\r\n+OK\r\n"), "{replies}");
    world.round(2_000_000);
    send(&client, &[b"EVAL", b"while true do end", b"1", b"k"]);
    (0..10).for_each(|_| world.round(1000));
    send(&pauser, &[b"CLIENT", b"PAUSE", b"5", b"WRITE"]);
    (0..40).for_each(|_| world.round(100_000));
    assert_eq!(pauser.read_all(), b"", "a script runs");
    (0..40).for_each(|_| world.round(100_000));
    assert_eq!(pauser.read_all(), b"+OK\r\n", "the pause is over");
    send(&pauser, &[b"CLIENT", b"PAUSE", b"1000", b"WRITE"]);
    (0..40).for_each(|_| world.round(1000));
    assert_eq!(pauser.read_all(), b"");
    let killer = world.connect_at(2);
    assert_eq!(world.ask(&killer, "CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(pauser.read_all(), b"+OK\r\n");
}

#[test]
fn those_that_a_pause_held_go_on_some_a_turn() {
    let mut world = World::new(1);
    let (client, watcher) = (world.connect(), world.connect());
    world.ask(&client, "CLIENT PAUSE 1000000 WRITE");
    let held = hold(&mut world, 1000);
    assert_eq!(blocked_count(&mut world, &watcher), held.len());
    send(&client, &[b"CLIENT", b"UNPAUSE"]);
    let (mut served_count, mut rounds) = (0, 0);
    while served_count < held.len() {
        world.round(1000);
        let now_served = held.iter().filter(|other| !other.read_all().is_empty()).count();
        assert!(now_served <= LOOKS_PER_TURN, "{now_served} clients went on in one turn");
        (served_count, rounds) = (served_count + now_served, rounds + 1);
        assert!(rounds < 100, "{served_count} of {} go on", held.len());
    }
    assert_eq!(blocked_count(&mut world, &watcher), 0);
}

#[test]
fn a_pause_that_begins_while_clients_go_on_holds_them_again() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "CLIENT PAUSE 1000000 WRITE");
    let held = hold(&mut world, 1000);
    assert_eq!(blocked_count(&mut world, &client), held.len());
    send(&client, &[b"CLIENT", b"UNPAUSE"]);
    send(&client, &[b"CLIENT", b"PAUSE", b"1000000", b"WRITE"]);
    for _ in 0..20 {
        world.round(1000);
    }
    let served_count = held.iter().filter(|other| !other.read_all().is_empty()).count();
    client.read_all();
    assert_eq!(blocked_count(&mut world, &client), held.len() - served_count, "each once");
    world.ask(&client, "CLIENT UNPAUSE");
    let rest = held.iter().filter(|other| !other.read_all().is_empty()).count();
    assert_eq!(served_count + rest, held.len());
    assert_eq!(blocked_count(&mut world, &client), 0);
}
