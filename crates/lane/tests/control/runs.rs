//! Pipelines: calls of one command that come together are dispatched together, whichever lanes have their keys. Nobody can tell by the
//! replies, whatever stands between them.

use net::mem;

use crate::world::World;

/// The replies of these commands, sent in one piece, over one lane and over two, on each of which the client may be.
#[track_caller]
fn check(lines: &[(&str, &str)]) {
    for (lane_count, lane) in [(1, 0), (2, 0), (2, 1)] {
        let mut world = World::new(lane_count);
        let client = world.connect_at(lane);
        check_of(&mut world, &client, lines);
        assert_eq!(world.ask(&client, "PING"), "+PONG\r\n");
        assert!(world.is_idle(), "nothing is left under way");
    }
}

/// The same of a client.
#[track_caller]
fn check_of(world: &mut World, client: &mem::Client, lines: &[(&str, &str)]) {
    let (commands, want): (Vec<&str>, Vec<&str>) = lines.iter().copied().unzip();
    assert_eq!(
        world.ask_all(client, &commands),
        want.concat(),
        "{commands:?} over {} lanes",
        world.lanes.len()
    );
}

const NIL: &str = "$-1\r\n";
const OK: &str = "+OK\r\n";
const QUEUED: &str = "+QUEUED\r\n";

/// Of two lanes the second has foo, the first bar.
#[test]
fn what_is_written_twice_is_read_as_it_was_then() {
    check(&[
        ("SET foo 1", OK),
        ("GET foo", "$1\r\n1\r\n"),
        ("SET bar 10", OK),
        ("GET bar", "$2\r\n10\r\n"),
        ("SET foo 2", OK),
        ("SET bar 20", OK),
        ("SET foo 3", OK),
        ("GET bar", "$2\r\n20\r\n"),
        ("GET foo", "$1\r\n3\r\n"),
        ("GET none", NIL),
        ("GET bar", "$2\r\n20\r\n"),
        ("INCR foo", ":4\r\n"),
        ("INCR bar", ":21\r\n"),
        ("INCR foo", ":5\r\n"),
        ("INCR bar", ":22\r\n"),
    ]);
}

#[test]
fn a_transaction_takes_the_calls_behind_its_begin() {
    check(&[
        ("SET foo 1", OK),
        ("SET bar 2", OK),
        ("MULTI", OK),
        ("SET foo 3", QUEUED),
        ("SET bar 4", QUEUED),
        ("EXEC", "*2\r\n+OK\r\n+OK\r\n"),
        ("GET foo", "$1\r\n3\r\n"),
        ("GET bar", "$1\r\n4\r\n"),
        ("MULTI", OK),
        ("GET bar", QUEUED),
        ("GET foo", QUEUED),
        ("DISCARD", OK),
        ("GET foo", "$1\r\n3\r\n"),
    ]);
}

#[test]
fn replies_are_switched_off_from_one_call_to_the_next() {
    check(&[
        ("SET foo 1", OK),
        ("SET bar 1", OK),
        ("CLIENT REPLY SKIP", ""),
        ("SET foo 2", ""),
        ("SET bar 2", OK),
        ("CLIENT REPLY SKIP", ""),
        ("SET bar 3", ""),
        ("SET foo 3", OK),
        ("CLIENT REPLY OFF", ""),
        ("SET bar 4", ""),
        ("GET bar", ""),
        ("GET foo", ""),
        ("CLIENT REPLY ON", OK),
        ("GET foo", "$1\r\n3\r\n"),
        ("GET bar", "$1\r\n4\r\n"),
    ]);
}

#[test]
fn the_calls_behind_a_select_are_of_another_database() {
    check(&[
        ("SET foo 1", OK),
        ("SET bar 1", OK),
        ("SELECT 1", OK),
        ("GET foo", NIL),
        ("GET bar", NIL),
        ("SET bar 2", OK),
        ("SET foo 2", OK),
        ("SELECT 0", OK),
        ("GET foo", "$1\r\n1\r\n"),
        ("GET bar", "$1\r\n1\r\n"),
        ("SELECT 1", OK),
        ("GET bar", "$1\r\n2\r\n"),
        ("GET foo", "$1\r\n2\r\n"),
    ]);
}

#[test]
fn nothing_happens_of_the_calls_behind_a_clients_end() {
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        check_of(
            &mut world,
            &client,
            &[
                ("SET foo 1", OK),
                ("SET bar 2", OK),
                ("GET foo", "$1\r\n1\r\n"),
                ("CLIENT KILL TYPE normal SKIPME no", ":1\r\n"),
                ("GET bar", ""),
                ("SET bar 3", ""),
                ("SET foo 4", ""),
            ],
        );
        assert!(client.at_end(), "over {lane_count} lanes");
        let other = world.connect();
        check_of(&mut world, &other, &[("GET foo", "$1\r\n1\r\n"), ("GET bar", "$1\r\n2\r\n")]);
    }
}

/// Commands of one shape leave the places of their words where they are; what else is read there in between takes them along.
#[test]
fn a_call_is_read_as_it_is_behind_another_command() {
    let get = ("GET key:1", "$1\r\nv\r\n");
    let mget = ("MGET key:1 b c d", "*4\r\n$1\r\nv\r\n$-1\r\n$-1\r\n$-1\r\n");
    let mut world = World::new(1);
    let client = world.connect();
    assert_eq!(world.ask(&client, "SET key:1 v"), OK);
    for line in [get, get, mget, get] {
        check_of(&mut world, &client, &[line]);
    }
    check_of(&mut world, &client, &[get, get, mget, get]);
    check_of(&mut world, &client, &[get, mget, get, get]);
}

/// Some of them are dispatched in a later turn than that in which they have come.
#[test]
fn a_client_is_not_idle_while_its_calls_are_dispatched() {
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let (client, other) = (world.connect_at(0), world.connect_at(0));
        world.ask(&client, "CLIENT SETNAME busy");
        let mut bytes = Vec::new();
        (0..100).for_each(|_| wire::client::command(&mut bytes, &[b"GET", b"foo"]));
        client.write(&bytes);
        let shown = |world: &mut World| {
            let list = world.ask(&other, "CLIENT LIST");
            let line = list.lines().find(|line| line.contains(" name=busy ")).expect("it is there");
            ["idle=", "cmd="]
                .map(|field| line.split(' ').find_map(|word| word.strip_prefix(field)).unwrap().to_owned())
        };
        world.round(3_000_000_000);
        let answered = client.read_all().len();
        assert!(answered < 100 * NIL.len(), "not all in one turn");
        (0..4).for_each(|_| world.round(0));
        assert_eq!(shown(&mut world), ["0", "get"], "over {lane_count} lanes");
        assert_eq!(answered + client.read_all().len(), 100 * NIL.len());
        world.round(3_000_000_000);
        assert_eq!(shown(&mut world), ["3", "get"], "over {lane_count} lanes");
    }
}
