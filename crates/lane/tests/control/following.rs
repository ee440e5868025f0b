//! What replicas are sent: the snapshot and the stream, carried out by a model of a replica, are what the server holds.

use net::mem;

use super::follower::{Follower, followed, held, turn};
use super::world::World;

/// A small generator: the tests draw what clients do.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn command(&mut self) -> String {
        let key = |draw: &mut Draw| format!("k{}", draw.below(40));
        let (a, b, c) = (key(self), key(self), key(self));
        let number = self.below(1000);
        match self.below(31) {
            0..4 => format!("SET {a} v{number}"),
            4 => format!("SET {a} {number}"),
            5 => format!("SET {a} {} PX {}", "x".repeat(number.to_string().len()), 1 + self.below(300)),
            6 => format!("SET {a} y{number} EX 1000"),
            7 => format!("APPEND {a} {number}"),
            8 => format!("SETRANGE {a} {} {number}", self.below(30)),
            9 => format!("INCR {a}"),
            10 => format!("DEL {a} {b} {c}"),
            11 => format!("GETDEL {a}"),
            12 => format!("PEXPIRE {a} {number}"),
            13 => format!("PERSIST {a}"),
            14 => format!("RENAME {a} {b}"),
            15 => format!("COPY {a} {b} REPLACE"),
            16 => format!("MSET {a} {number} {b} m{number} {c} n"),
            17 => format!("MSETNX {a} {number} {b} m{number}"),
            18 => format!("MOVE {a} {}", self.below(4)),
            19 => format!("SELECT {}", self.below(4)),
            20 => format!("SETBIT {a} {} {}", number % 90, number % 2),
            21 => format!("BITOP OR {a} {b} {c}"),
            22 => format!("GETEX {a} PX {}", 1 + self.below(100)),
            23 => format!("PUBLISH {a} {b}"),
            24 => format!(
                "EVAL redis.call('set',KEYS[1],ARGV[1])redis.call('append',KEYS[2],'s')return(1) 2 {a} {b} {number}"
            ),
            25 if number < 60 => "FLUSHDB".to_owned(),
            25 if number < 90 => "FLUSHALL".to_owned(),
            25 if number < 200 => format!("SWAPDB {} {}", self.below(4), self.below(4)),
            25 => format!("GET {a}"),
            26 => "MULTI".to_owned(),
            // Its time has come when it is written.
            27 => format!("SET {a} over PXAT 1"),
            _ => "EXEC".to_owned(),
        }
    }
}

/// Clients of all lanes write whatever they like while replicas come, some by SYNC and some by PSYNC, and in the end all have the same.
#[test]
fn replicas_become_what_the_server_is() {
    for seed in 0..30 {
        for lane_count in [1, 3] {
            let mut world = World::new(lane_count);
            let mut draw = Draw(seed * 2 + u64::from(lane_count));
            let clients: Vec<mem::Client> =
                (0..4).map(|number| world.connect_at(number % usize::from(lane_count))).collect();
            let mut followers: Vec<Follower> = Vec::new();
            for round in 0..400 {
                if [40, 60, 200].contains(&round) {
                    let client = world.connect_at(round / 10 % usize::from(lane_count));
                    followers.push(Follower::new(&mut world, client, round != 60));
                }
                for client in &clients {
                    let mut bytes = Vec::new();
                    for _ in 0..draw.below(4) {
                        let command = draw.command();
                        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
                        wire::client::command(&mut bytes, &words);
                    }
                    client.write(&bytes);
                    client.read_all();
                }
                world.round(1_000_000);
                followers.iter_mut().for_each(Follower::go_on);
            }
            // Nobody is left inside of MULTI, and whatever ends has ended.
            for client in &clients {
                world.ask(client, "RESET");
            }
            for _ in 0..500 {
                world.round(4_000_000);
                followers.iter_mut().for_each(Follower::go_on);
            }
            let want = held(&mut world);
            for (nth, follower) in followers.iter_mut().enumerate() {
                assert!(
                    follower.has_loaded,
                    "seed {seed}, {lane_count} lanes: follower {nth} has its snapshot"
                );
                if let Some((db, key)) = follower.difference(&want) {
                    let about: Vec<&String> =
                        follower.log.iter().filter(|line| line.split(' ').any(|word| word == key)).collect();
                    let about = &about[about.len().saturating_sub(12)..];
                    panic!(
                        "seed {seed}, {lane_count} lanes, follower {nth}: {key} in {db}; its last: {about:#?}"
                    );
                }
            }
        }
    }
}

/// What each command becomes, as `attach_to_replication_stream` of Redis' suite reads it.
#[test]
fn commands_are_told_as_what_they_come_to() {
    for lane_count in [1, 3] {
        let check = |commands: &[&str], want: &[&str]| {
            let (mut world, mut follower) = followed(lane_count);
            let client = world.connect_at(usize::from(lane_count) - 1);
            for command in commands {
                world.ask(&client, command);
            }
            turn(&mut world, &mut follower);
            assert_eq!(follower.log, want, "{commands:?} on {lane_count} lanes");
        };
        check(&["SET a 1", "GET a", "STRLEN a"], &["SELECT 0", "SET a 1"]);
        check(&["SET a 1 PXAT 1800000000000"], &["SELECT 0", "SET a 1 PXAT 1800000000000"]);
        check(
            &["SET a 1", "PEXPIREAT a 1800000000000", "PERSIST a", "PERSIST a", "EXPIREAT a 1"],
            &["SELECT 0", "SET a 1", "PEXPIREAT a 1800000000000", "PERSIST a", "DEL a"],
        );
        check(
            &["SET a 7", "INCR a", "APPEND a x"],
            &["SELECT 0", "SET a 7", "SET a 8 KEEPTTL", "SETRANGE a 1 x"],
        );
        check(&["SET a 1", "GETDEL a", "GETDEL a", "DEL a b"], &["SELECT 0", "SET a 1", "DEL a"]);
        check(&["SET a 1", "RENAME a b"], &["SELECT 0", "SET a 1", "SET b 1; DEL a"]);
        check(&["MSET {t}a 1 {t}b 2"], &["SELECT 0", "SET {t}a 1; SET {t}b 2"]);
        check(&["MULTI", "SET a 1", "EXEC"], &["SELECT 0", "SET a 1"]);
        check(&["MULTI", "GET a", "DEL a", "EXEC", "SET b 1"], &["SELECT 0", "SET b 1"]);
        check(
            &["MULTI", "SET a 1", "SELECT 3", "SET b 2", "SET c 3", "FLUSHDB", "SET d 4", "EXEC", "SET e 5"],
            &["SELECT 0", "SET a 1; SELECT 3; SET b 2; SET c 3; FLUSHDB; SET d 4", "SET e 5"],
        );
        check(&["FLUSHALL", "SWAPDB 1 2", "FLUSHALL"], &["SELECT 0", "FLUSHALL", "SWAPDB 1 2", "FLUSHALL"]);
        check(&["PUBLISH news hi"], &["SELECT 0", "PUBLISH news hi"]);
        check(
            &[
                "EVAL redis.call('set',KEYS[1],'1')redis.call('set',KEYS[2],'2')redis.call('del',KEYS[1]) 2 a b",
            ],
            &["SELECT 0", "SET a 1; SET b 2; DEL a"],
        );
        check(
            &["SELECT 2", "SET a 1", "SELECT 0", "SET a 1"],
            &["SELECT 2", "SET a 1", "SELECT 0", "SET a 1"],
        );
    }
}

#[test]
fn a_replica_that_was_away_goes_on_where_it_was() {
    for lane_count in [1, 3] {
        let (mut world, mut follower) = followed(lane_count);
        let client = world.connect();
        world.ask(&client, "SET a 1");
        turn(&mut world, &mut follower);
        let offset = follower.offset;
        drop(follower);
        world.ask(&client, "SET b 2");
        world.ask(&client, "SET a 3");
        let again = world.connect_at(usize::from(lane_count) - 1);
        let id = "0123456789abcdef0123456789abcdef01234567";
        let reply = world.ask(&again, &format!("PSYNC {id} {}", offset + 1));
        let (line, stream) = reply.split_once("\r\n").unwrap();
        assert_eq!(line, format!("+CONTINUE {id}"));
        let words = |text: &str| {
            text.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(stream), "SET b 2 SET a 3 ");
        // What is no longer there, is still to come, or was another server's, is a snapshot.
        for said in [
            format!("PSYNC {id} {}", offset + 1000),
            format!("PSYNC {id} 0"),
            format!("PSYNC {} {}", "f".repeat(40), offset + 1),
            "PSYNC ? -1".to_owned(),
        ] {
            let other = world.connect();
            let reply = world.ask(&other, &said);
            assert!(reply.starts_with("+FULLRESYNC "), "{said}: {reply}");
        }
        let other = world.connect();
        let info = world.ask(&other, "INFO stats");
        for want in ["sync_full:5", "sync_partial_ok:1", "sync_partial_err:3"] {
            assert!(info.lines().any(|line| line == want), "{want} in {info}");
        }
        assert_eq!(world.ask(&other, "PSYNC ? x"), "-ERR value is not an integer or out of range\r\n");
    }
}

#[test]
fn those_who_wait_are_answered_when_replicas_have_what_they_wrote() {
    for lane_count in [1, 3] {
        let (mut world, mut follower) = followed(lane_count);
        let client = world.connect();
        assert_eq!(world.ask(&client, "WAIT x 1"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(world.ask(&client, "WAIT 1 x"), "-ERR timeout is not an integer or out of range\r\n");
        assert_eq!(world.ask(&client, "WAIT 1 -1"), "-ERR timeout is negative\r\n");
        assert_eq!(world.ask(&client, "WAIT 0 0"), ":1\r\n", "nothing was written");
        world.ask_all(&client, &["SET a 1", "SET b 1"]);
        // The replica answers when it is asked how far it is.
        assert_eq!(world.ask(&client, "WAIT 1 0"), "");
        turn(&mut world, &mut follower);
        world.round(1_000_000);
        world.round(1_000_000);
        assert_eq!(client.read_all(), b":1\r\n");
        assert_eq!(
            world.ask(&client, "WAIT 1 0"),
            ":1\r\n",
            "it has what was written, if not the question since"
        );
        // Of two there is one, until the time is over.
        world.ask(&client, "SET a 2");
        assert_eq!(world.ask(&client, "WAIT 2 100"), "");
        for _ in 0..3 {
            turn(&mut world, &mut follower);
            assert_eq!(client.read_all(), b"");
        }
        for _ in 0..2 {
            turn(&mut world, &mut follower);
        }
        assert_eq!(client.read_all(), b":1\r\n");
        // Somebody else ends it.
        let other = world.connect();
        let waits = |world: &mut World| assert_eq!(world.ask(&client, "WAIT 2 0"), "");
        let id = world.ask(&client, "CLIENT ID").trim_matches([':', '\r', '\n']).to_owned();
        for (reason, reply) in [
            ("", ":1\r\n"),
            (" timeout", ":1\r\n"),
            (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
        ] {
            waits(&mut world);
            assert_eq!(world.ask(&other, &format!("CLIENT UNBLOCK {id}{reason}")), ":1\r\n");
            world.round(0);
            assert_eq!(client.read_all(), reply.as_bytes(), "{reason}");
        }
        for (words, reply) in [
            (format!("{id} never"), "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"),
            ("x".to_owned(), "-ERR value is not an integer or out of range\r\n"),
            (id, ":0\r\n"),
            ("-1".to_owned(), ":0\r\n"),
        ] {
            assert_eq!(world.ask(&other, &format!("CLIENT UNBLOCK {words}")), reply);
        }
        // Inside of MULTI nobody waits.
        let replies = world.ask_all(&client, &["MULTI", "SET a 3", "WAIT 1 0", "EXEC"]);
        assert_eq!(replies, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:0\r\n");
        // One who goes is forgotten, and so is one that ends its side.
        let (gone, ending) = (world.connect(), world.connect());
        assert_eq!(world.ask(&gone, "WAIT 5 0"), "");
        assert_eq!(world.ask(&ending, "WAIT 5 0"), "");
        drop(gone);
        ending.end();
        turn(&mut world, &mut follower);
        assert!(ending.at_end(), "nobody is kept waiting for one who reads nothing more");
    }
}

#[test]
fn who_is_there_is_shown() {
    let (mut world, mut follower) = followed(3);
    let client = world.connect();
    world.ask(&client, "SET a 1");
    turn(&mut world, &mut follower);
    follower.acknowledge();
    let info = world.ask(&client, "INFO");
    let offset = follower.offset;
    for want in [
        "role:master".to_owned(),
        "connected_slaves:1".to_owned(),
        format!("slave0:ip=mem,port=7777,state=online,offset={offset},lag=0"),
        format!("master_repl_offset:{offset}"),
        "master_replid:0123456789abcdef0123456789abcdef01234567".to_owned(),
        "repl_backlog_active:1".to_owned(),
        "repl_backlog_first_byte_offset:1".to_owned(),
        format!("repl_backlog_histlen:{offset}"),
        format!("mem_replication_backlog:{offset}"),
        "connected_clients:1".to_owned(),
    ] {
        assert!(info.lines().any(|line| line == want), "{want} in {info}");
    }
    let role = world.ask(&client, "ROLE");
    let digits = offset.to_string();
    let want = format!(
        "*3\r\n$6\r\nmaster\r\n:{offset}\r\n*1\r\n*3\r\n$3\r\nmem\r\n$4\r\n7777\r\n${}\r\n{digits}\r\n",
        digits.len()
    );
    assert_eq!(role, want);
    assert!(world.ask(&client, "CLIENT LIST TYPE replica").contains(" flags=S "));
    // With one that is there whoever asks for one may write; not when it has gone.
    world.ask(&client, "CONFIG SET min-replicas-to-write 1");
    assert_eq!(world.ask(&client, "SET a 2"), "+OK\r\n");
    assert_eq!(world.ask(&client, "CLIENT KILL TYPE replica"), ":1\r\n");
    assert_eq!(world.ask(&client, "SET a 3"), "-NOREPLICAS Not enough good replicas to write.\r\n");
    let other = world.connect();
    let mut follower = Follower::new(&mut world, other, true);
    turn(&mut world, &mut follower);
    assert_eq!(world.ask(&client, "SET a 4"), "+OK\r\n");
}

/// `redis-cli --rdb` wants a snapshot and nothing else.
#[test]
fn a_backup_is_a_snapshot_alone() {
    for lane_count in [1, 3] {
        let (mut world, mut other) = followed(lane_count);
        let client = world.connect();
        world.ask(&client, "MSET a 1 b 2 c 3");
        let backup = world.connect_at(usize::from(lane_count) - 1);
        assert_eq!(world.ask(&backup, "REPLCONF capa eof rdb-only 1"), "+OK\r\n");
        let mut backup = Follower::new(&mut world, backup, true);
        turn(&mut world, &mut backup);
        world.ask(&client, "SET d 4");
        for _ in 0..60 {
            turn(&mut world, &mut backup);
            other.go_on();
        }
        assert_eq!(backup.log, [""; 0], "it is sent nothing more");
        assert_eq!(backup.databases[&0].len(), 3);
        assert!(backup.client.at_end(), "and it is let go");
        assert_eq!(other.difference(&held(&mut world)), None);
    }
}

/// A replica may go at any time, also while its snapshot is made: the next one gets its own.
#[test]
fn a_snapshot_that_nobody_wants_any_more_is_no_hindrance() {
    for lane_count in [1, 3] {
        for rounds in 0..12 {
            let mut world = World::new(lane_count);
            let client = world.connect();
            for number in 0..40 {
                world.ask(&client, &format!("SET k{number} {}", "v".repeat(9000)));
            }
            let first = world.connect_small(usize::from(lane_count) - 1, 10_000);
            let mut asked = Vec::new();
            wire::client::command(&mut asked, &[b"PSYNC", b"?", b"-1"]);
            first.write(&asked);
            (0..rounds).for_each(|_| world.round(1_000_000));
            first.cut();
            drop(first);
            world.ask(&client, "SET k7 other");
            let next = world.connect();
            let mut next = Follower::new(&mut world, next, true);
            for _ in 0..20 {
                turn(&mut world, &mut next);
            }
            assert!(next.has_loaded, "after {rounds} rounds on {lane_count} lanes");
            world.ask(&client, "SET k8 other");
            turn(&mut world, &mut next);
            assert_eq!(next.difference(&held(&mut world)), None);
        }
    }
}

/// On a lane's own port FLUSHALL empties that lane, which no command says: replicas come again.
#[test]
fn what_cant_be_told_makes_replicas_begin_anew() {
    let (mut world, mut follower) = followed(3);
    let client = world.connect();
    world.ask(&client, "MSET a 1 b 2 c 3 d 4 e 5");
    turn(&mut world, &mut follower);
    let own = world.connect_to(1);
    assert_eq!(world.ask(&own, "FLUSHALL"), "+OK\r\n");
    turn(&mut world, &mut follower);
    assert!(follower.client.at_end());
    let again = world.connect();
    let id = "0123456789abcdef0123456789abcdef01234567";
    let reply = world.ask(&again, &format!("PSYNC {id} {}", follower.offset + 1));
    assert!(reply.starts_with("+FULLRESYNC "), "{reply}");
    let next = world.connect();
    let mut next = Follower::new(&mut world, next, false);
    turn(&mut world, &mut next);
    world.ask(&client, "SET a 2");
    turn(&mut world, &mut next);
    assert_eq!(next.difference(&held(&mut world)), None);
}

/// What a replica has not taken may be so many bytes.
fn limit_replicas(world: &mut World, client: &mem::Client, size: &str) {
    let limit = format!("replica {size} 0 0");
    let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"client-output-buffer-limit", limit.as_bytes()];
    let mut asked = Vec::new();
    wire::client::command(&mut asked, &words);
    client.write(&asked);
    (0..9).for_each(|_| world.round(1_000_000));
    assert_eq!(client.read_all(), b"+OK\r\n");
}

/// One that does not take its snapshot, or what changes, is cut off; others and whoever writes notice nothing.
#[test]
fn a_replica_that_reads_nothing_is_cut_off() {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        for number in 0..200 {
            world.ask(&client, &format!("SET k{number} {}", "v".repeat(10_000)));
        }
        limit_replicas(&mut world, &client, "3000000");
        // It has room for some of its snapshot and takes none.
        let deaf = world.connect_small(usize::from(lane_count) - 1, 100_000);
        let mut asked = Vec::new();
        wire::client::command(&mut asked, &[b"PSYNC", b"?", b"-1"]);
        deaf.write(&asked);
        let reader = world.connect();
        let mut follower = Follower::new(&mut world, reader, true);
        for number in 0..400 {
            assert_eq!(
                world.ask(&client, &format!("SET k{} {}", number % 200, "w".repeat(10_000))),
                "+OK\r\n",
                "{number}"
            );
            follower.go_on();
        }
        turn(&mut world, &mut follower);
        deaf.read_all();
        assert!(deaf.was_cut() || deaf.at_end(), "it is behind by more than it may be");
        assert!(
            world.machine.warned.iter().any(|line| line.contains("client-output-buffer-limit")),
            "{:?}",
            world.machine.warned
        );
        for _ in 0..30 {
            turn(&mut world, &mut follower);
        }
        assert!(follower.has_loaded, "the next one has its snapshot");
        assert_eq!(follower.difference(&held(&mut world)), None);
    }
}

/// Lanes take their turns whenever they do, so what a transaction only reads may end before a snapshot's begin on one lane and
/// behind it on another.
#[test]
fn who_reads_while_a_snapshot_begins_does_not_hold_the_stream_up() {
    for seed in 0..100 {
        let mut world = World::new(3);
        let mut draw = Draw(seed);
        let clients: Vec<mem::Client> = (0..6).map(|number| world.connect_at(number % 3)).collect();
        (0..20).for_each(|key| drop(world.ask(&clients[0], &format!("SET k{key} v"))));
        let mut follower = None;
        for round in 0..160 {
            for client in &clients {
                if round > 0 && client.read_all().is_empty() {
                    continue;
                }
                let [a, b] = [draw.below(20), draw.below(20)];
                let command = match draw.below(4) {
                    0 => format!("COPY k{a} c{b} REPLACE"),
                    1 => "DBSIZE".to_owned(),
                    _ => format!("MGET k{a} k{b}"),
                };
                let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
                let mut bytes = Vec::new();
                wire::client::command(&mut bytes, &words);
                client.write(&bytes);
            }
            if round == 60 {
                let client = world.connect_at(usize::try_from(seed).unwrap() % 3);
                follower = Some(Follower::new(&mut world, client, false));
            }
            world.round_of(1_000_000, |_| draw.below(2) == 0);
            follower.iter_mut().for_each(Follower::go_on);
        }
        let mut follower = follower.expect("it has come");
        turn(&mut world, &mut follower);
        world.ask(&clients[0], "SET last 1");
        turn(&mut world, &mut follower);
        assert!(follower.log.iter().any(|line| line == "SET last 1"), "seed {seed}: the stream goes on");
        assert_eq!(follower.difference(&held(&mut world)), None, "seed {seed}");
    }
}

/// A script that was sent to the lane of its keys and needs others, too, goes back; what it has found over there is told.
#[test]
fn a_script_that_is_given_back_does_not_hold_the_stream_up() {
    for lane in 0..3 {
        let (mut world, mut follower) = followed(3);
        let client = world.connect_at(lane);
        assert_eq!(world.ask(&client, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
        world.ask(&client, "SET a 1 PX 5");
        world.round(50_000_000);
        let reply = world.ask(
            &client,
            "EVAL redis.call('get',KEYS[1])redis.call('get','b')redis.call('get','c')redis.call('get','d')return(1) 1 a",
        );
        assert_eq!(reply, ":1\r\n");
        world.ask(&client, "SET last 1");
        turn(&mut world, &mut follower);
        assert_eq!(follower.log.last().map(String::as_str), Some("SET last 1"), "from lane {lane}");
        assert_eq!(follower.difference(&held(&mut world)), None);
    }
}

/// A replica that takes its snapshot as fast as it comes is not too slow, however long values are.
#[test]
fn long_values_are_no_burden_for_a_replica_that_reads() {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        limit_replicas(&mut world, &client, "500000");
        for number in 0..60 {
            world.ask(&client, &format!("SET k{number}{{t}} {}", "v".repeat(40_000)));
        }
        let reader = world.connect();
        let mut follower = Follower::new(&mut world, reader, true);
        for _ in 0..20 {
            turn(&mut world, &mut follower);
        }
        assert_eq!(world.machine.warned, [""; 0], "{lane_count} lanes");
        assert!(follower.has_loaded, "{lane_count} lanes");
        assert_eq!(follower.difference(&held(&mut world)), None);
    }
}

#[test]
fn who_asks_for_replicas_learns_that_all_have_been_let_go() {
    let (mut world, mut follower) = followed(3);
    let client = world.connect();
    world.ask(&client, "CONFIG SET min-replicas-to-write 1");
    assert_eq!(world.ask(&client, "SET a 2"), "+OK\r\n");
    let own = world.connect_to(1);
    assert_eq!(world.ask(&own, "FLUSHALL"), "+OK\r\n");
    turn(&mut world, &mut follower);
    assert!(follower.client.at_end());
    assert_eq!(world.ask(&client, "SET a 3"), "-NOREPLICAS Not enough good replicas to write.\r\n");
}

#[test]
fn who_asks_for_replicas_from_the_start_has_none() {
    let mut world = World::with(1, &[("min-replicas-to-write", "1")]);
    let client = world.connect();
    (0..3).for_each(|_| world.round(1_000_000));
    assert_eq!(world.ask(&client, "SET a 3"), "-NOREPLICAS Not enough good replicas to write.\r\n");
}

/// A script that has written and goes on for ever keeps its locks, and all that changes behind it waits: not more than there is room
/// for.
#[test]
fn what_waits_for_a_transaction_is_bounded() {
    let (mut world, mut follower) = followed(3);
    let client = world.connect_at(1);
    assert_eq!(world.ask(&client, "SETRANGE {b} 3999999 x"), ":4000000\r\n");
    (0..10).for_each(|_| turn(&mut world, &mut follower));
    let endless = world.connect_at(2);
    let script = "redis.call('set',KEYS[1],'1')while(true)do(function()end)()end";
    assert_eq!(world.ask(&endless, &format!("EVAL {script} 1 a")), "");
    for _ in 0..70 {
        assert_eq!(world.ask(&client, "COPY {b} {b}c REPLACE"), ":1\r\n");
        follower.go_on();
    }
    turn(&mut world, &mut follower);
    assert!(follower.client.at_end());
    assert!(world.machine.warned.iter().any(|line| line.contains("too long")), "{:?}", world.machine.warned);
    // The next one begins when the script ends.
    let next = world.connect();
    let mut next = Follower::new(&mut world, next, false);
    turn(&mut world, &mut next);
    assert!(!next.has_loaded);
}

/// What was kept for a replica that has gone is dropped by and by: no turn waits for all of it.
#[test]
fn what_nobody_wants_any_more_goes_a_share_a_turn() {
    const COUNT: usize = 20_000;
    let mut world = World::new(1);
    let client = world.connect();
    let write = |world: &mut World, text: &str| {
        for first in (0..COUNT).step_by(200) {
            let mut bytes = Vec::new();
            for number in first..first + 200 {
                wire::client::command(
                    &mut bytes,
                    &[b"SET", format!("k{number}").as_bytes(), text.as_bytes()],
                );
            }
            client.write(&bytes);
            (0..6).for_each(|_| world.round(1_000_000));
            client.read_all();
        }
    };
    write(&mut world, &"before".repeat(30));
    let replica = world.connect_small(0, 1000);
    assert_eq!(world.ask(&replica, "REPLCONF capa eof"), "+OK\r\n");
    replica.write(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
    (0..6).for_each(|_| world.round(1_000_000));
    write(&mut world, "after");
    assert!(world.lanes[0].shard().has_images(), "it takes its snapshot too slowly");
    replica.cut();
    let mut turns = 0;
    while world.lanes[0].shard().has_images() {
        world.round(1_000_000);
        turns += 1;
    }
    assert!(turns > 5, "{turns} turns");
}

/// Who waits, for ever or until it goes, keeps nobody from asking the control thread something.
#[test]
fn however_many_wait_others_are_answered() {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let mut waiting = Vec::new();
        for number in 0..1500 {
            let client = world.connect_at(number % usize::from(lane_count));
            let mut said = Vec::new();
            wire::client::command(&mut said, &[b"WAIT", b"1", b"0"]);
            client.write(&said);
            waiting.push(client);
            if number % 100 == 0 {
                (0..4).for_each(|_| world.round(100_000));
            }
        }
        (0..200).for_each(|_| world.round(100_000));
        let client = world.connect();
        assert!(world.ask(&client, "INFO replication").contains("role:master"), "while they wait");
        // Half of them go, the others are answered when a replica has come that has it all.
        waiting.truncate(750);
        (0..50).for_each(|_| world.round(100_000));
        assert!(world.ask(&client, "INFO replication").contains("role:master"), "when some have gone");
        let replica = world.connect();
        let mut follower = Follower::new(&mut world, replica, true);
        for _ in 0..60 {
            turn(&mut world, &mut follower);
        }
        let answered = waiting.iter().filter(|client| client.read_all() == b":1\r\n").count();
        assert_eq!(answered, 750, "{lane_count} lanes");
        assert!(world.ask(&client, "INFO replication").contains("role:master"), "in the end");
    }
}

/// A replica may ask for the password's right again, mute its replies and go at once: it is a replica until it is closed, and nothing of
/// it stays.
#[test]
fn an_odd_replica_leaves_nothing_behind() {
    let mut world = World::new(2);
    let odd = world.connect_at(1);
    world.ask(&odd, "CLIENT REPLY OFF");
    world.ask(&odd, "PSYNC ? -1");
    world.ask(&odd, "HELLO 3");
    world.ask(&odd, "PSYNC ? -1");
    for rounds in 0..6 {
        let hasty = world.connect_at(rounds % 2);
        let mut said = Vec::new();
        wire::client::command(&mut said, &[b"PSYNC", b"?", b"-1"]);
        hasty.write(&said);
        (0..rounds).for_each(|_| world.round(1_000_000));
        hasty.cut();
    }
    drop(odd);
    let client = world.connect();
    for _ in 0..10 {
        world.ask(&client, "PING");
    }
    assert!(world.ask(&client, "INFO replication").contains("connected_slaves:0"));
    assert!(world.ask(&client, "CLIENT LIST").matches("id=").count() == 1);
}

/// One that says that it lives and takes nothing of its snapshot makes way for those that wait for theirs.
#[test]
fn a_replica_that_takes_nothing_makes_way() {
    let mut world = World::new(2);
    let client = world.connect();
    for number in 0..300 {
        world.ask(&client, &format!("SET k{number} {}", "v".repeat(9000)));
    }
    let deaf = world.connect_small(1, 10_000);
    let mut said = Vec::new();
    wire::client::command(&mut said, &[b"REPLCONF", b"capa", b"eof"]);
    deaf.write(&said);
    (0..5).for_each(|_| world.round(1_000_000));
    deaf.read_all();
    said.clear();
    wire::client::command(&mut said, &[b"PSYNC", b"?", b"-1"]);
    deaf.write(&said);
    (0..20).for_each(|_| world.round(1_000_000));
    let next = world.connect();
    let mut next = Follower::new(&mut world, next, true);
    for _ in 0..30 {
        world.round(500_000_000);
        deaf.write(b"\n");
        next.go_on();
    }
    for _ in 0..40 {
        turn(&mut world, &mut next);
    }
    deaf.read_all();
    assert!(deaf.at_end() || deaf.was_cut());
    assert!(next.has_loaded, "whoever waits is served within ten seconds");
}
