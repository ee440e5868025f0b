//! Commands of the connection and of the control thread inside MULTI … EXEC: in their place, with the state of their place.

use crate::world::World;

/// EXEC of these commands answers with these, over one lane and over three, on each kind of door.
fn check(commands: &[&str], want: &[&str]) {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        assert_eq!(world.ask(&client, "MULTI"), "+OK\r\n");
        for command in commands {
            assert_eq!(world.ask(&client, command), "+QUEUED\r\n", "{command}");
        }
        let want = format!("*{}\r\n{}", want.len(), want.concat());
        assert_eq!(world.ask(&client, "EXEC"), want, "over {lane_count} lanes");
        assert!(world.is_idle(), "nothing is left under way");
    }
}

/// A lane's own port is a node of a cluster, which has one database. That is what is shown to a monitor, too.
#[test]
fn on_a_lanes_own_port_a_queued_select_of_another_database_is_refused() {
    const REFUSED: &str = "-ERR SELECT is not allowed in cluster mode\r\n";
    let mut world = World::new(1);
    let (client, node, monitor) = (world.connect(), world.connect_to(0), world.connect_to(0));
    world.ask(&monitor, "MONITOR");
    for command in ["SELECT 1", "SELECT 99", "SELECT -1"] {
        assert_eq!(world.ask(&node, command), REFUSED);
        let reply = world.ask_all(&node, &["MULTI", command, "SET b v", "SELECT 0", "EXEC"]);
        assert!(reply.ends_with(&format!("*3\r\n{REFUSED}+OK\r\n+OK\r\n")), "{command}: {reply}");
        assert!(world.ask(&node, "CLIENT INFO").contains(" db=0 "), "{command}");
    }
    let shown = String::from_utf8(monitor.read_all()).unwrap();
    assert_eq!(shown.matches("\"SET\" \"b\"").count(), 3, "{shown}");
    assert!(!shown.contains(" [1 ") && shown.contains(" [0 "), "{shown}");
    assert_eq!(world.ask(&client, "GET b"), "$1\r\nv\r\n");
    assert_eq!(world.ask_all(&node, &["MULTI", "SELECT x", "EXEC"]).matches("-ERR value is not").count(), 1);
    for (db, want) in [("0", "+OK\r\n"), ("1", REFUSED), ("99", REFUSED)] {
        let script = format!("return redis.pcall('select','{db}')");
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[b"EVAL", script.as_bytes(), b"0"]);
        node.write(&bytes);
        (0..20).for_each(|_| world.round(1000));
        assert_eq!(String::from_utf8_lossy(&node.read_all()), want, "{script}");
    }
}

const HZ: &str = "*2\r\n$2\r\nhz\r\n$2\r\n10\r\n";
const HZ_30: &str = "*2\r\n$2\r\nhz\r\n$2\r\n30\r\n";

#[test]
fn the_control_threads_commands_answer_in_their_place() {
    check(&["CONFIG GET hz"], &[HZ]);
    check(&["CONFIG GET hz", "CONFIG SET hz 30", "CONFIG GET hz"], &[HZ, "+OK\r\n", HZ_30]);
    check(
        &[
            "MSET a 1 b 2 c 3 d 4",
            "CONFIG SET hz 30",
            "RENAME a e",
            "CONFIG GET hz",
            "MGET a b c e",
            "SLOWLOG LEN",
        ],
        &["+OK\r\n", "+OK\r\n", "+OK\r\n", HZ_30, "*4\r\n$-1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n1\r\n", ":0\r\n"],
    );
    check(
        &["SET a 1", "CONFIG SET hz x", "MONITOR", "GET a"],
        &[
            "+OK\r\n",
            "-ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer\r\n",
            "-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n",
            "$1\r\n1\r\n",
        ],
    );
}

#[test]
fn what_the_control_thread_looks_at_lanes_for_goes_on_while_keys_are_locked() {
    let mut world = World::new(3);
    let (client, other) = (world.connect(), world.connect());
    for command in
        ["MULTI", "MSET a 1 b 2 c 3 d 4", "INFO keyspace", "CLIENT LIST", "CLIENT PAUSE 0", "DEL a b c d"]
    {
        world.ask(&client, command);
    }
    let reply = world.ask(&client, "EXEC");
    assert!(reply.starts_with("*5\r\n+OK\r\n$") && reply.ends_with("+OK\r\n:4\r\n"), "{reply}");
    assert!(reply.contains("db0:keys=4,"), "INFO sees what was written before it: {reply}");
    assert_eq!(reply.matches(" laddr=").count(), 2, "{reply}");
    assert_eq!(world.ask(&other, "DBSIZE"), ":0\r\n");
    assert!(world.is_idle());
}

#[test]
fn a_watched_key_that_has_changed_leaves_settings_alone() {
    let mut world = World::new(3);
    let (client, other) = (world.connect(), world.connect());
    for command in ["WATCH a b c", "MULTI", "CONFIG SET hz 30", "CLIENT SETNAME me"] {
        world.ask(&client, command);
    }
    assert_eq!(world.ask(&other, "SET b 1"), "+OK\r\n");
    assert_eq!(world.ask(&client, "EXEC"), "*-1\r\n");
    assert_eq!(world.ask(&client, "CONFIG GET hz"), HZ);
    assert_eq!(world.ask(&client, "CLIENT GETNAME"), "$-1\r\n");
}

/// GETEX changes what it is told to change, and PERSIST is nothing for a key without an end.
#[test]
fn a_watched_key_has_changed_if_it_has() {
    let mut world = World::new(1);
    let (client, other) = (world.connect(), world.connect());
    for (set, command, runs) in [
        ("SET k v", "GETEX k PERSIST", true),
        ("SET k v EX 100", "GETEX k PERSIST", false),
        ("SET k v", "GETEX k EX 100", false),
        ("SET k v", "GETEX k", true),
    ] {
        world.ask_all(&client, &[set, "WATCH k"]);
        world.ask(&other, command);
        let reply = world.ask_all(&client, &["MULTI", "PING", "EXEC"]);
        assert_eq!(reply.ends_with("*1\r\n+PONG\r\n"), runs, "{set}, {command}: {reply}");
    }
}

/// Housekeeping has not taken it out yet when the database goes.
#[test]
fn a_watched_key_that_ends_and_is_flushed_has_changed() {
    for (command, lanes) in [("FLUSHDB", 1), ("FLUSHALL", 3), ("SWAPDB 0 1", 3), ("DEL k", 1)] {
        let mut world = World::new(lanes);
        let (client, other) = (world.connect(), world.connect());
        world.ask_all(&client, &["SET k v PX 50", "WATCH k"]);
        let mut line = command.to_owned();
        line.push_str("\r\n");
        other.write(line.as_bytes());
        // The turn in which the command comes is behind the end.
        world.round(60_000_000);
        (0..20).for_each(|_| world.round(1_000));
        other.read_all();
        let reply = world.ask_all(&client, &["MULTI", "GET k", "EXEC"]);
        assert!(reply.ends_with("*-1\r\n"), "{command}: {reply}");
        // Watched when it has ended it changes no more.
        world.ask(&client, "SET k v PX 50");
        world.round(60_000_000);
        world.ask(&client, "WATCH k");
        world.ask(&other, "FLUSHALL");
        let reply = world.ask_all(&client, &["MULTI", "GET k", "EXEC"]);
        assert!(reply.ends_with("*1\r\n$-1\r\n"), "{command}: {reply}");
    }
}

#[test]
fn the_connection_is_changed_in_order() {
    check(
        &[
            "CLIENT GETNAME",
            "CLIENT SETNAME me",
            "CLIENT GETNAME",
            "SELECT 3",
            "SET a 1",
            "CLIENT ID",
            "PING",
            "ECHO hi",
        ],
        &["$-1\r\n", "+OK\r\n", "$2\r\nme\r\n", "+OK\r\n", "+OK\r\n", ":1\r\n", "+PONG\r\n", "$2\r\nhi\r\n"],
    );
    let mut world = World::new(2);
    let client = world.connect();
    for command in ["MULTI", "CLIENT SETNAME me", "SELECT 3", "CLIENT INFO", "CLIENT NO-EVICT on", "HELLO 3"]
    {
        world.ask(&client, command);
    }
    let reply = world.ask(&client, "EXEC");
    assert!(reply.contains("name=me ") && reply.contains(" db=3 "), "{reply}");
    assert!(reply.contains("$5\r\nproto\r\n:3\r\n"), "{reply}");
    let info = world.ask(&client, "CLIENT INFO");
    assert!(
        info.starts_with("=")
            && info.contains("name=me ")
            && info.contains(" db=3 ")
            && info.contains("flags=e ")
    );
    assert!(info.contains(" resp=3 "), "what was changed stays: {info}");
}

#[test]
fn without_room_what_may_add_is_refused_when_it_is_queued_and_at_exec() {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let (client, other) = (world.connect(), world.connect());
        world.ask(&client, "SET x value");
        for command in ["MULTI", "SET x 1", "GET x"] {
            world.ask(&client, command);
        }
        assert_eq!(world.ask(&other, "CONFIG SET maxmemory 1"), "+OK\r\n");
        let aborted = "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.\r\n";
        assert_eq!(world.ask(&client, "EXEC"), aborted);
        assert_eq!(world.ask(&client, "MULTI"), "+OK\r\n");
        assert_eq!(world.ask(&client, "GET x"), "+QUEUED\r\n");
        assert_eq!(world.ask(&client, "EXEC"), "*1\r\n$5\r\nvalue\r\n", "reading goes on");
        assert_eq!(world.ask(&client, "MULTI"), "+OK\r\n");
        assert_eq!(
            world.ask(&client, "SET x 1"),
            "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
        );
        assert!(
            world.ask(&client, "EXEC").starts_with("-EXECABORT Transaction discarded because of previous")
        );
    }
}

#[test]
fn a_watched_key_whose_time_comes_fails_exec_though_nobody_has_taken_it_out() {
    let mut world = World::with(3, &[("enable-debug-command", "yes")]);
    let client = world.connect();
    for (life_ms, want) in [("5", "*-1\r\n"), ("100000", "*1\r\n+PONG\r\n")] {
        assert_eq!(world.ask(&client, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
        assert_eq!(world.ask(&client, "SET key 1"), "+OK\r\n");
        let lines = format!("PEXPIRE key {life_ms}\r\nWATCH key\r\nMULTI\r\nPING\r\n");
        client.write(lines.as_bytes());
        for _ in 0..20 {
            world.round(1_000_000);
        }
        assert_eq!(client.read_all(), b":1\r\n+OK\r\n+OK\r\n+QUEUED\r\n");
        assert_eq!(world.ask(&client, "EXEC"), want);
        // Its time had come when it began to be watched: that is no change.
        if life_ms == "5" {
            for command in ["WATCH key", "MULTI", "PING"] {
                world.ask(&client, command);
            }
            assert_eq!(world.ask(&client, "EXEC"), "*1\r\n+PONG\r\n");
        }
    }
}

/// On a lane's own port a transaction is a cluster node's: of one slot, and that the node's own.
#[test]
fn a_lanes_own_port_takes_transactions_of_one_slot() {
    // The slots of bar and hello are the first lane's, that of foo the second's.
    let foo = "-MOVED 12182 127.0.0.1:7001\r\n";
    let crossed = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    let (ok, queued) = ("+OK\r\n", "+QUEUED\r\n");
    let check = |commands: &[&str], want: &[&str]| {
        let mut world = World::new(2);
        let node = world.connect_to(0);
        for (command, want) in commands.iter().zip(want) {
            assert_eq!(world.ask(&node, command), *want, "{command} of {commands:?}");
        }
        assert_eq!(world.ask(&node, "EXEC"), "-ERR EXEC without MULTI\r\n", "it is over: {commands:?}");
        assert!(world.is_idle());
    };
    check(
        &["MULTI", "SET {bar}1 1", "PING", "GET {bar}1", "EXEC"],
        &[ok, queued, queued, queued, "*3\r\n+OK\r\n+PONG\r\n$1\r\n1\r\n"],
    );
    check(&["MULTI", "SET foo 1", "EXEC"], &[ok, foo, aborted]);
    check(
        &["MULTI", "MSET bar 1 hello 1", "SET bar 2", "EXEC", "GET bar"],
        &[ok, crossed, queued, aborted, "$-1\r\n"],
    );
    check(
        &["MULTI", "SET bar 1", "SET hello 1", "EXEC", "GET bar"],
        &[ok, queued, queued, crossed, "$-1\r\n"],
    );
    check(
        &["MULTI", "SET bar 1", "SET hello 1", "DISCARD", "WATCH foo", "WATCH bar"],
        &[ok, queued, queued, ok, foo, ok],
    );
    // The keys of a long command are looked at in slices: the first says whose it is, and EXEC whether all of them are of its slot.
    let long = |first: &str, last: &str| format!("MSET {first} 1 {}{last} 1", "{bar}x 1 ".repeat(300));
    check(&[&long("bar", "bar"), &long("bar", "hello"), "DBSIZE"], &[ok, crossed, ":2\r\n"]);
    check(&[&long("foo", "bar"), &long("hello", "bar"), "DBSIZE"], &[foo, crossed, ":0\r\n"]);
    check(
        &[
            "WATCH bar",
            "MULTI",
            &long("bar", "hello"),
            "EXEC",
            "DBSIZE",
            "MULTI",
            &long("bar", "bar"),
            "EXEC",
        ],
        &[ok, ok, queued, crossed, ":0\r\n", ok, queued, "*1\r\n+OK\r\n"],
    );
    check(&["MULTI", &long("foo", "bar"), "EXEC"], &[ok, crossed, aborted]);
}

/// What is too large for one breaks it, and nothing that comes behind is kept or counted.
#[test]
fn a_broken_transaction_grows_no_more() {
    let mut world = World::told(1, &[], |settings| settings.query_size_max = 1 << 20);
    let (client, other) = (world.connect(), world.connect());
    let set = format!("SET k {}", "v".repeat(30_000));
    let mut counts = [0; 3];
    for _ in 0..2 {
        assert_eq!(world.ask(&client, "MULTI"), "+OK\r\n");
        for number in 0..100 {
            let got = world.ask(&client, &set);
            let refused = "-ERR the commands of this MULTI are larger than client-query-buffer-limit\r\n";
            assert!(got == if number == 34 { refused } else { "+QUEUED\r\n" }, "{number}: {got}");
        }
        let listed = world.ask(&other, "CLIENT LIST");
        let field = |name: &str| {
            let line = listed.lines().find(|line| line.contains("cmd=set")).expect("it is listed");
            let text = line.split(' ').find_map(|field| field.strip_prefix(name)).expect("it is there");
            text.parse::<usize>().expect("a number")
        };
        counts = ["multi=", "multi-mem=", "tot-mem="].map(field);
        assert!(counts[1] <= 1 << 20 && counts[2] < 2 << 20, "{counts:?}");
        let want = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        assert_eq!(world.ask(&client, "EXEC"), want);
    }
    assert_eq!(counts[0], 34);
    assert_eq!(world.ask(&client, "EXISTS k"), ":0\r\n");
    // One that is broken otherwise keeps nothing, either.
    for command in ["MULTI", "SET k", &set] {
        world.ask(&client, command);
    }
    assert!(world.ask(&other, "CLIENT LIST").contains(" multi=0 "));
}

/// A watched key that is not there is still not there when one that has ended takes its place.
#[test]
fn what_has_ended_changes_nothing_where_it_is_swapped_to() {
    for is_watched_there in [false, true] {
        let mut world = World::new(1);
        let client = world.connect();
        world.ask_all(&client, &["SELECT 1", "SET k v PX 50"]);
        if is_watched_there {
            world.ask_all(&client, &["SELECT 0", "SET k w PX 50"]);
        }
        world.now.unix_ms += 1000;
        let commands = ["SELECT 0", "WATCH k", "SWAPDB 0 1", "MULTI", "PING", "EXEC"];
        let got = world.ask_all(&client, &commands);
        assert_eq!(got, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
    }
}

#[test]
fn time_has_microseconds_and_stands_still_in_a_transaction() {
    // Seconds have ten digits.
    let microseconds = |text: &str| -> Vec<String> {
        let is_short = |line: &&str| line.len() < 7 && line.bytes().all(|byte| byte.is_ascii_digit());
        text.split("\r\n").filter(|line| !line.is_empty()).filter(is_short).map(str::to_owned).collect()
    };
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        world.now.us = 123;
        let client = world.connect();
        // What is locked on other lanes is answered milliseconds behind the lock.
        for commands in [
            &["TIME"][..],
            &["EVAL return(redis.call('TIME')) 0"],
            &["MULTI", "TIME", "TIME", "EXEC"],
            &["MULTI", "SET a 1", "SET b 1", "SET c 1", "TIME", "TIME", "EXEC"],
            &["EVAL return({redis.call('TIME'),redis.call('TIME')}) 3 a b c"],
        ] {
            if commands[0].starts_with("EVAL") {
                // A script that is new waits for the control thread first.
                world.ask(&client, commands[0]);
            }
            let told = microseconds(&world.ask_all(&client, commands));
            let locks = commands.iter().any(|command| command.contains(" a "));
            let behind = if lane_count > 1 && locks { "999" } else { "123" };
            assert!(!told.is_empty() && told.iter().all(|us| us.ends_with(behind)), "{commands:?}: {told:?}");
            assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{commands:?}: {told:?}");
        }
    }
}
