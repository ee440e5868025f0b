//! CLIENT TRACKING over lanes: who is told of which keys, and when.

use std::collections::BTreeSet;

use net::mem::Client;
use wire::route::PartitionMap;

use super::world::World;

/// An array of bulk strings as it is sent.
fn array(keys: &[&str]) -> String {
    let bulk = |key: &&str| format!("${}\r\n{key}\r\n", key.len());
    format!("*{}\r\n{}", keys.len(), keys.iter().map(bulk).collect::<String>())
}

/// The message that these keys have changed.
fn invalid(keys: &[&str]) -> String {
    format!(">2\r\n$10\r\ninvalidate\r\n{}", array(keys))
}

/// The same as a client of RESP2 gets it.
fn published(keys: &[&str]) -> String {
    format!("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n{}", array(keys))
}

const EVERYTHING: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// What has come for a client without its asking.
fn heard(world: &mut World, client: &Client) -> String {
    (0..20).for_each(|_| world.round(1_000_000));
    String::from_utf8_lossy(&client.read_all()).into_owned()
}

/// A client that speaks RESP3 and has said this.
fn tracker(world: &mut World, lane: usize, options: &str) -> Client {
    let client = world.connect_at(lane);
    world.ask(&client, "HELLO 3");
    assert_eq!(world.ask(&client, &format!("CLIENT TRACKING {options}")), "+OK\r\n", "{options}");
    client
}

/// A key of each lane.
fn keys(lanes: u16) -> Vec<String> {
    let map = PartitionMap::even(lanes);
    let key_of = |lane: u16| {
        (0..).map(|nth| format!("k{nth}")).find(|key| map.owner_of(key.as_bytes()).0 == lane).expect("a key")
    };
    (0..lanes).map(key_of).collect()
}

/// Nothing is left of clients that go.
fn audit(mut world: World, clients: Vec<Client>) {
    clients.iter().for_each(Client::cut);
    (0..60).for_each(|_| world.round(1_000_000));
    assert!(world.is_idle());
    world.lanes.iter().for_each(lane::Lane::audit);
}

/// What another client of its lane has asked for just before may be unknown elsewhere as yet.
#[test]
fn nobody_is_answered_before_all_lanes_know_what_it_wants() {
    let mut world = World::new(2);
    let clients = [world.connect_at(0), world.connect_at(0)];
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"CLIENT", b"TRACKING", b"on", b"bcast"]);
    for client in &clients {
        world.ask(client, "HELLO 3");
    }
    for client in &clients {
        client.write(&bytes);
        (0..20).for_each(|_| world.round_of(1_000_000, |number| number != 1));
    }
    for client in &clients {
        assert_eq!(client.read_all(), b"", "the other lane has not taken a turn");
    }
    for client in &clients {
        assert_eq!(heard(&mut world, client), "+OK\r\n");
    }
    audit(world, clients.into());
}

/// The turn that flushes may be that in which a key is read, the first of all.
#[test]
fn what_is_read_behind_a_flush_is_remembered() {
    for lanes in [1, 3] {
        for flush in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
            let mut world = World::new(lanes);
            let (other, client) = (world.connect(), tracker(&mut world, 0, "on"));
            for key in keys(lanes) {
                // What a flush says of everything comes before or behind the reply.
                world.ask_all(&client, &[flush, &format!("GET {key}")]);
                world.ask(&client, &format!("GET {key}"));
                world.ask(&other, &format!("SET {key} 1"));
                assert_eq!(heard(&mut world, &client), invalid(&[&key]), "{flush}, {lanes} lanes");
            }
            audit(world, vec![other, client]);
        }
    }
}

#[test]
fn whoever_has_read_a_key_is_told_once_when_it_changes() {
    for lanes in [1, 3] {
        for change in ["SET", "APPEND", "DEL", "PEXPIRE", "RENAME", "GETDEL", "SETBIT", "GETEX"] {
            let mut world = World::new(lanes);
            let other = world.connect();
            for key in keys(lanes) {
                world.ask(&other, &format!("SET {key} 10"));
                let client = tracker(&mut world, 0, "on");
                assert_eq!(world.ask(&client, &format!("GET {key}")), "$2\r\n10\r\n");
                assert_eq!(heard(&mut world, &client), "");
                let line = match change {
                    "SET" | "APPEND" => format!("{change} {key} 1"),
                    "PEXPIRE" => format!("{change} {key} 100000"),
                    "RENAME" => format!("{change} {key} other"),
                    "SETBIT" => format!("{change} {key} 0 1"),
                    "GETEX" => format!("{change} {key} EX 10"),
                    _ => format!("{change} {key}"),
                };
                world.ask(&other, &line);
                assert_eq!(heard(&mut world, &client), invalid(&[&key]), "{line} over {lanes} lanes");
                world.ask(&other, &format!("SET {key} 20"));
                assert_eq!(heard(&mut world, &client), "", "it has not been read since");
                client.cut();
            }
            audit(world, vec![other]);
        }
    }
}

#[test]
fn all_ways_of_reading_are_remembered() {
    for lanes in [1, 3] {
        let names = keys(lanes.max(2));
        let (first, second) = (&names[0], &names[1]);
        let both = [first, second].map(String::as_str);
        for (line, want) in [
            (format!("MGET {first} {second}"), &both[..]),
            (format!("EXISTS {second} {first}"), &both[..]),
            (format!("LCS {first} {second}"), &both[..]),
            (format!("GETRANGE {second} 0 -1"), &both[1..]),
            (format!("TTL {second}"), &both[1..]),
            (format!("DUMP {first}"), &both[..1]),
            (format!("OBJECT ENCODING {first}"), &both[..1]),
            (format!("GETSET {first} 1"), &[]),
            ("KEYS *".to_owned(), &[]),
        ] {
            let mut world = World::new(lanes);
            let other = world.connect();
            world.ask(&other, &format!("MSET {first} 1 {second} 2"));
            let client = tracker(&mut world, 0, "on");
            world.ask(&client, &line);
            let told = |world: &mut World| {
                world.ask(&other, &format!("MSET {first} 3 {second} 4"));
                let told = heard(world, &client);
                both.into_iter().filter(|key| told.contains(&invalid(&[key]))).collect::<BTreeSet<_>>()
            };
            let want: BTreeSet<&str> = want.iter().copied().collect();
            assert_eq!(told(&mut world), want, "{line} over {lanes} lanes");
            // In a MULTI and in a script.
            for wrapped in [true, false] {
                if wrapped {
                    world.ask_all(&client, &["MULTI", &line, "EXEC"]);
                } else if line.starts_with("MGET") {
                    let script =
                        format!("EVAL return{{redis.call('mget',KEYS[1],KEYS[2])}} 2 {first} {second}");
                    world.ask(&client, &script);
                } else {
                    continue;
                }
                assert_eq!(told(&mut world), want, "{line} in MULTI: {wrapped}, over {lanes} lanes");
            }
            audit(world, vec![other, client]);
        }
    }
}

#[test]
fn a_long_reading_command_is_remembered_slice_by_slice() {
    for lanes in [1, 3] {
        let mut world = World::new(lanes);
        let other = world.connect();
        let client = tracker(&mut world, 0, "on");
        let names: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
        world.ask(&client, &format!("MGET {}", names.join(" ")));
        assert!(world.ask(&other, "INFO stats").contains("tracking_total_keys:1000\r\n"));
        for name in [&names[0], &names[700], &names[999]] {
            world.ask(&other, &format!("SET {name} x"));
            assert_eq!(heard(&mut world, &client), invalid(&[name]));
        }
        audit(world, vec![other, client]);
    }
}

#[test]
fn what_clients_change_themselves() {
    for lanes in [1, 3] {
        for key in keys(lanes) {
            let mut world = World::new(lanes);
            let (loud, quiet) = (tracker(&mut world, 0, "on"), tracker(&mut world, 0, "on NOLOOP"));
            for client in [&loud, &quiet] {
                world.ask(client, &format!("GET {key}"));
            }
            // The reply comes first.
            let line = format!("SET {key} 1");
            assert_eq!(world.ask(&loud, &line), format!("+OK\r\n{}", invalid(&[&key])));
            assert_eq!(heard(&mut world, &quiet), invalid(&[&key]));
            for client in [&loud, &quiet] {
                world.ask(client, &format!("GET {key}"));
            }
            assert_eq!(world.ask(&quiet, &line), "+OK\r\n", "over {lanes} lanes");
            assert_eq!(heard(&mut world, &loud), invalid(&[&key]));
            // In a transaction, and by a script.
            for client in [&loud, &quiet] {
                world.ask(client, &format!("GET {key}"));
            }
            let set = format!("SET {key} 2");
            let replies = world.ask_all(&loud, &["MULTI", &set, "PING", "EXEC"]);
            let want = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+PONG\r\n{}", invalid(&[&key]));
            assert_eq!(replies, want, "over {lanes} lanes");
            world.ask(&quiet, &format!("GET {key}"));
            heard(&mut world, &quiet);
            let script = format!("EVAL return{{redis.call('set',KEYS[1],3)}} 1 {key}");
            world.ask(&quiet, &script);
            assert_eq!(heard(&mut world, &quiet), "");
            audit(world, vec![loud, quiet]);
        }
    }
}

#[test]
fn keys_that_begin_like_that_are_told_of_whoever_reads() {
    for lanes in [1, 3] {
        let mut world = World::new(lanes);
        let other = world.connect_at(usize::from(lanes) - 1);
        let all = tracker(&mut world, 0, "on BCAST");
        let some = tracker(&mut world, usize::from(lanes) - 1, "on BCAST PREFIX a: PREFIX b: NOLOOP");
        assert!(world.ask(&other, "INFO stats").contains("tracking_total_prefixes:3\r\n"));
        for key in ["a:1", "a:2", "b:1", "c:1", "a", "d"] {
            world.ask(&other, &format!("SET {key} 1"));
            assert_eq!(heard(&mut world, &all), invalid(&[key]));
            let want = if key.contains(':') && key != "c:1" { invalid(&[key]) } else { String::new() };
            assert_eq!(heard(&mut world, &some), want, "{key} over {lanes} lanes");
        }
        // Keys of one slot that change at once are told at once, a prefix at a time; what it changes itself it knows.
        world.ask_all(&other, &["MULTI", "SET a:{t} 1", "SET a:2{t} 1", "SET b:{t} 1", "EXEC"]);
        let told = heard(&mut world, &some);
        assert_eq!(told, invalid(&["a:2{t}", "a:{t}"]) + &invalid(&["b:{t}"]), "over {lanes} lanes");
        world.ask_all(&some, &["MULTI", "SET a:{t} 1", "SET b:{t} 1", "EXEC"]);
        assert_eq!(heard(&mut world, &some), "");
        heard(&mut world, &all);
        assert_eq!(world.ask(&some, "CLIENT TRACKING on BCAST PREFIX c:"), "+OK\r\n");
        assert_eq!(world.ask(&some, "SET c:1 1"), "+OK\r\n".to_owned() + &invalid(&["c:1"]));
        assert_eq!(world.ask(&some, "CLIENT TRACKING off"), "+OK\r\n");
        world.ask(&other, "SET a:1 1");
        assert_eq!(heard(&mut world, &some), "");
        all.cut();
        heard(&mut world, &other);
        let info = world.ask(&other, "INFO everything");
        assert!(info.contains("tracking_total_prefixes:0\r\n") && info.contains("tracking_clients:0\r\n"));
        audit(world, vec![other, some]);
    }
}

#[test]
fn somebody_else_gets_the_invalidations() {
    for lanes in [1, 3] {
        let last = usize::from(lanes) - 1;
        let mut world = World::new(lanes);
        let (other, receiver) = (world.connect(), world.connect_at(last));
        let id = world.ask(&receiver, "CLIENT ID");
        let id = id.trim().trim_start_matches(':');
        world.ask(&receiver, "SUBSCRIBE __redis__:invalidate");
        let client = world.connect_at(0);
        assert_eq!(world.ask(&client, &format!("CLIENT TRACKING on REDIRECT {id}")), "+OK\r\n");
        assert_eq!(world.ask(&client, "CLIENT GETREDIR"), format!(":{id}\r\n"));
        for key in keys(lanes) {
            world.ask(&client, &format!("GET {key}"));
            world.ask(&other, &format!("SET {key} 1"));
            assert_eq!(heard(&mut world, &client), "");
            assert_eq!(heard(&mut world, &receiver), published(&[&key]), "over {lanes} lanes");
        }
        let list = world.ask(&other, "CLIENT LIST");
        assert!(list.contains(" flags=t ") && list.contains(&format!(" redir={id} ")), "{list}");
        world.ask(&other, "FLUSHALL");
        let null = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n";
        assert_eq!(heard(&mut world, &receiver), null);
        // It goes, and whoever has named it is told when something can't be told.
        world.ask(&client, "HELLO 3");
        world.ask(&client, "GET k0");
        receiver.cut();
        assert_eq!(heard(&mut world, &client), "");
        world.ask(&other, "SET k0 1");
        let broken = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n");
        assert_eq!(heard(&mut world, &client), broken);
        assert!(world.ask(&client, "CLIENT INFO").contains(" flags=tR "));
        let info = world.ask(&client, "CLIENT TRACKINGINFO");
        let want = format!(
            "%3\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n$15\r\nbroken_redirect\r\n$8\r\nredirect\r\n:{id}\r\n"
        );
        assert_eq!(info, want + "$8\r\nprefixes\r\n*0\r\n");
        audit(world, vec![other, client]);
    }
}

#[test]
fn what_is_remembered_may_depend_on_the_client_saying_so() {
    for lanes in [1, 3] {
        for (options, word, is_said, want) in [
            ("on OPTIN", "yes", true, true),
            ("on OPTIN", "yes", false, false),
            ("on OPTOUT", "no", true, false),
            ("on OPTOUT", "no", false, true),
        ] {
            for key in keys(lanes) {
                let mut world = World::new(lanes);
                let other = world.connect();
                let client = tracker(&mut world, 0, options);
                for transaction in [false, true] {
                    if is_said {
                        assert_eq!(world.ask(&client, &format!("CLIENT CACHING {word}")), "+OK\r\n");
                    }
                    let get = format!("GET {key}");
                    if transaction {
                        world.ask_all(&client, &["MULTI", &get, "EXEC"]);
                    } else {
                        world.ask(&client, &get);
                    }
                    // It holds for one command.
                    world.ask(&client, "GET once");
                    world.ask(&other, &format!("SET {key} 1"));
                    let want = if want { invalid(&[&key]) } else { String::new() };
                    assert_eq!(heard(&mut world, &client), want, "{options} {is_said} {transaction}");
                    world.ask(&other, "SET once 1");
                    let is_default = options == "on OPTOUT";
                    let want = if is_default { invalid(&["once"]) } else { String::new() };
                    assert_eq!(heard(&mut world, &client), want, "{options} {is_said} {transaction}");
                }
                audit(world, vec![other, client]);
            }
        }
    }
}

#[test]
fn keys_that_go_by_themselves_and_all_at_once() {
    for lanes in [1, 3] {
        let mut world = World::new(lanes);
        let other = world.connect();
        let (client, broadcast) = (tracker(&mut world, 0, "on"), tracker(&mut world, 0, "on BCAST NOLOOP"));
        for key in keys(lanes) {
            world.ask(&other, &format!("SET {key} 1 PX 500"));
            heard(&mut world, &broadcast);
            world.ask(&client, &format!("GET {key}"));
            (0..10).for_each(|_| world.round(100_000_000));
            assert_eq!(heard(&mut world, &client), invalid(&[&key]), "over {lanes} lanes");
            assert_eq!(heard(&mut world, &broadcast), invalid(&[&key]));
            // Its own, too: it has not taken it out.
            world.ask(&broadcast, &format!("SET {key} 1 PX 500"));
            (0..10).for_each(|_| world.round(100_000_000));
            assert_eq!(heard(&mut world, &broadcast), invalid(&[&key]));
        }
        for line in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
            for key in keys(lanes) {
                world.ask(&client, &format!("GET {key}"));
            }
            world.ask(&other, line);
            assert_eq!(heard(&mut world, &client), EVERYTHING, "{line} over {lanes} lanes");
            assert_eq!(heard(&mut world, &broadcast), EVERYTHING, "{line} over {lanes} lanes");
            for key in keys(lanes) {
                world.ask(&other, &format!("SET {key} 1"));
            }
            assert_eq!(heard(&mut world, &client), "", "nothing is remembered");
            heard(&mut world, &broadcast);
        }
        // On a lane's own port, of its keys: whoever may have read them is told on all lanes.
        let node = world.connect_to(usize::from(lanes) - 1);
        world.ask(&node, "FLUSHALL");
        assert_eq!(heard(&mut world, &client), EVERYTHING);
        let own = world.connect_to(usize::from(lanes) - 1);
        world.ask(&own, "HELLO 3");
        world.ask(&own, "CLIENT TRACKING on");
        let key = keys(lanes).pop().expect("a key");
        world.ask(&own, &format!("GET {key}"));
        world.ask(&other, &format!("SET {key} 1"));
        assert_eq!(heard(&mut world, &own), invalid(&[&key]));
        audit(world, vec![other, client, broadcast, node, own]);
    }
}

#[test]
fn keys_that_had_to_go_and_too_many_keys() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let (client, other) = (tracker(&mut world, 0, "on"), world.connect());
        let names: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
        assert_eq!(world.ask(&other, "CONFIG SET tracking-table-max-keys 10"), "+OK\r\n");
        world.ask(&client, &format!("MGET {}", names.join(" ")));
        let told = heard(&mut world, &client);
        let replies = told.matches("invalidate").count();
        assert!(replies == 0, "with the reply it was read: {replies}");
        let info = world.ask(&other, "INFO stats");
        assert!(info.contains("tracking_total_keys:10\r\ntracking_total_items:10\r\n"), "{info}");
        assert_eq!(world.ask(&other, "CONFIG SET tracking-table-max-keys 1"), "+OK\r\n");
        let left = 10 - usize::from(lanes);
        assert_eq!(heard(&mut world, &client).matches("invalidate").count(), left);
        audit(world, vec![other, client]);
    }
}

#[test]
fn a_client_that_stops_to_track_is_told_nothing() {
    for end in ["CLIENT TRACKING off", "RESET"] {
        let mut world = World::new(3);
        let (client, other) = (tracker(&mut world, 0, "on"), world.connect());
        for key in keys(3) {
            world.ask(&client, &format!("GET {key}"));
        }
        assert!(world.ask(&client, "CLIENT INFO").contains(" flags=t "));
        world.ask(&client, end);
        assert!(world.ask(&client, "CLIENT INFO").contains(" flags=N "));
        for key in keys(3) {
            world.ask(&other, &format!("SET {key} 1"));
        }
        assert_eq!(heard(&mut world, &client), "", "{end}");
        audit(world, vec![other, client]);
    }
}

#[test]
fn tracking_that_is_asked_for_wrongly() {
    let mut world = World::new(2);
    let client = world.connect();
    let check = |world: &mut World, lines: &[(&str, &str)]| {
        for (line, want) in lines {
            assert_eq!(world.ask(&client, line), format!("{want}\r\n"), "{line}");
        }
    };
    let gone = "-ERR The client ID you want redirect to does not exist";
    let switch = "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                  re-enabling it with a different mode.";
    let opt = "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
               it with a different mode.";
    let none = "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
                enabled";
    check(
        &mut world,
        &[
            ("CLIENT TRACKING maybe", "-ERR syntax error"),
            ("CLIENT TRACKING on FOO", "-ERR syntax error"),
            ("CLIENT TRACKING on REDIRECT", "-ERR syntax error"),
            ("CLIENT TRACKING on REDIRECT x", "-ERR value is not an integer or out of range"),
            (
                "CLIENT TRACKING on REDIRECT 1 REDIRECT 1",
                "-ERR A client can only redirect to a single other client",
            ),
            ("CLIENT TRACKING on REDIRECT 12345", gone),
            ("CLIENT TRACKING on REDIRECT -1", gone),
            ("CLIENT TRACKING on PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"),
            ("CLIENT TRACKING on OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode"),
            ("CLIENT TRACKING on BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
            ("CLIENT CACHING yes", none),
            ("CLIENT GETREDIR", ":-1"),
            (
                "CLIENT TRACKINGINFO",
                "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0",
            ),
            ("CLIENT TRACKING off", "+OK"),
            ("CLIENT TRACKING on OPTIN", "+OK"),
            ("CLIENT GETREDIR", ":0"),
            ("CLIENT TRACKING on OPTOUT", opt),
            ("CLIENT TRACKING on BCAST", switch),
            (
                "CLIENT CACHING no",
                "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ),
            ("CLIENT CACHING maybe", "-ERR syntax error"),
            ("CLIENT TRACKING off", "+OK"),
            (
                "CLIENT TRACKING on BCAST PREFIX foo PREFIX foobar",
                "-ERR Prefix 'foo' overlaps with another provided prefix 'foobar'. Prefixes for a single client must not overlap.",
            ),
            ("CLIENT TRACKING on BCAST PREFIX foo PREFIX bar", "+OK"),
            (
                "CLIENT TRACKING on BCAST PREFIX fo",
                "-ERR Prefix 'fo' overlaps with an existing prefix 'foo'. Prefixes for a single client must not overlap.",
            ),
            (
                "CLIENT CACHING yes",
                "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ),
            (
                "CLIENT TRACKINGINFO",
                "*6\r\n$5\r\nflags\r\n*2\r\n$2\r\non\r\n$5\r\nbcast\r\n$8\r\nredirect\r\n:0\r\n$8\r\nprefixes\r\n*2\r\n$3\r\nbar\r\n$3\r\nfoo",
            ),
        ],
    );
    let many: String = (0..1100).map(|number| format!(" PREFIX {number:06}")).collect();
    let reply = world.ask(&client, &format!("CLIENT TRACKING on BCAST{many}"));
    assert!(reply.starts_with("-ERR too many prefixes"), "{reply}");
    audit(world, vec![client]);
}

#[test]
fn tracking_begins_and_is_asked_about_inside_of_a_transaction() {
    for lanes in [1, 3] {
        let mut world = World::new(lanes);
        let (client, other) = (world.connect(), world.connect());
        world.ask(&client, "HELLO 3");
        let lines =
            ["MULTI", "CLIENT TRACKING on OPTIN", "CLIENT CACHING yes", "GET k0", "CLIENT GETREDIR", "EXEC"];
        let replies = world.ask_all(&client, &lines);
        assert!(replies.ends_with("*4\r\n+OK\r\n+OK\r\n_\r\n:0\r\n"), "{replies}");
        world.ask(&other, "SET k0 1");
        assert_eq!(heard(&mut world, &client), invalid(&["k0"]));
        // What was said in it does not hold for what comes behind it.
        world.ask(&client, "GET k0");
        world.ask(&other, "SET k0 1");
        assert_eq!(heard(&mut world, &client), "");
        audit(world, vec![other, client]);
    }
}

#[test]
fn replies_that_are_under_way_come_first_and_silence_does_not_hold_it_back() {
    let mut world = World::new(3);
    let (client, other) = (tracker(&mut world, 0, "on"), world.connect_at(2));
    let key = keys(3).pop().expect("a key");
    for _ in 0..20 {
        // Whatever comes of the race, a client that keeps what it has read is told of the change behind it.
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[b"GET", key.as_bytes()]);
        client.write(&bytes);
        world.round(1_000_000);
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[b"INCR", key.as_bytes()]);
        other.write(&bytes);
        let told = heard(&mut world, &client);
        let (reply, invalidation) = (told.find('$').or(told.find('_')), told.find("invalidate"));
        assert!(reply < invalidation || invalidation.is_none(), "{told}");
        heard(&mut world, &other);
    }
    world.ask(&client, &format!("GET {key}"));
    world.ask(&client, "CLIENT REPLY off");
    world.ask(&other, &format!("SET {key} 1"));
    assert_eq!(heard(&mut world, &client), invalid(&[&key]));
    assert_eq!(world.ask(&client, "CLIENT REPLY on"), "+OK\r\n");
    audit(world, vec![other, client]);
}

#[test]
fn a_change_does_not_overtake_what_was_read_before_it() {
    let mut world = World::new(3);
    let (client, other) = (tracker(&mut world, 0, "on"), world.connect_at(2));
    let names = keys(3);
    let (near, far) = (&names[1], &names[2]);
    world.ask(&other, &format!("MSET {near} 1 {far} 2"));
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"MGET", near.as_bytes(), far.as_bytes()]);
    client.write(&bytes);
    // One lane looks a millisecond behind the other, which looks again and gives its lock back; then the one is late to do so, and the other's key
    // changes.
    world.round_of(1_000_000, |lane| lane != 1);
    world.round(1_000_000);
    (0..4).for_each(|_| world.round_of(1_000_000, |lane| lane != 1));
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"SET", far.as_bytes(), b"3"]);
    other.write(&bytes);
    (0..10).for_each(|_| world.round_of(1_000_000, |lane| lane != 1));
    assert_eq!(String::from_utf8_lossy(&other.read_all()), "+OK\r\n");
    assert_eq!(String::from_utf8_lossy(&client.read_all()), "", "its reply comes first");
    let want = array(&["1", "2"]) + &invalid(&[far]);
    assert_eq!(heard(&mut world, &client), want);
    audit(world, vec![other, client]);
}

#[test]
fn what_is_asked_for_behind_a_change_is_answered_behind_the_word_of_it() {
    let names = keys(3);
    for (options, owner) in [("on", 1), ("on", 2), ("on BCAST", 1), ("on BCAST", 2), ("on BCAST", 0)] {
        let mut world = World::new(3);
        let (client, other) = (tracker(&mut world, 0, options), world.connect_at(2));
        let key = &names[owner];
        world.ask(&other, &format!("SET {key} 1"));
        heard(&mut world, &client);
        world.ask(&client, &format!("GET {key}"));
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[b"INCR", key.as_bytes()]);
        other.write(&bytes);
        // The client's lane takes no more turns than it must for the change.
        while other.read_all().is_empty() {
            world.round_of(1_000_000, |lane| lane != 0 || owner == 0);
        }
        client.write(b"PING\r\n");
        let want = invalid(&[key]) + "+PONG\r\n";
        assert_eq!(heard(&mut world, &client), want, "{options}, a key of lane {owner}");
        audit(world, vec![other, client]);
    }
}
