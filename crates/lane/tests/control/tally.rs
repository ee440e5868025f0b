//! What INFO says commands came to: calls, failures, refusals, kinds of errors, keys found. What Redis 7.0 counts as
//! what is in `call`, `rejectCommand` and `afterErrorReply` of its `src/server.c` and `src/networking.c`.

use lane::{Dialect, Door, Namespace, Namespaces, Port};

use super::world::World;

/// Runs commands over one lane and over three; afterwards INFO has these lines. What ends in a colon is not there at all.
#[track_caller]
fn check(commands: &[&str], want: &[&str]) {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        for command in commands {
            world.ask(&client, command);
        }
        let info = world.ask(&client, "INFO everything");
        for line in want {
            let begin = format!("\r\n{line}");
            let is_there = match line.strip_suffix(':') {
                Some(_) => !info.contains(&begin),
                None => info.lines().any(|found| found.starts_with(line)),
            };
            assert!(is_there, "{line} after {commands:?} over {lane_count} lanes: {info}");
        }
        assert!(world.is_idle());
    }
}

/// A command's name, and how often it was called, refused, and failed.
type Calls<'a> = (&'a str, u64, u64, u64);

/// The part of a command's line that says how its calls ended. It is the same whether they come one by one or together.
#[track_caller]
fn check_calls(commands: &[&str], want: &[Calls<'_>], errors: &[&str]) {
    for (lane_count, together_count) in [(1, 1), (1, commands.len()), (3, 1), (3, commands.len())] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        for commands in commands.chunks(together_count) {
            world.ask_all(&client, commands);
        }
        let info = world.ask(&client, "INFO everything");
        let circumstances =
            format!("{commands:?} over {lane_count} lanes, {together_count} commands together");
        check_counts(&info, want, errors, &circumstances);
    }
}

/// What INFO says of these commands, and of all errors.
#[track_caller]
fn check_counts(info: &str, want: &[Calls<'_>], errors: &[&str], circumstances: &str) {
    for (name, calls, rejected, failed) in want {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:")));
        let line = line.unwrap_or_else(|| panic!("{name} after {circumstances}: {info}"));
        let is_right = line.starts_with(&format!("calls={calls},"))
            && line.ends_with(&format!(",rejected_calls={rejected},failed_calls={failed}"));
        assert!(is_right, "{name} after {circumstances}: {line}");
    }
    let found: Vec<&str> = info.lines().filter(|line| line.starts_with("errorstat_")).collect();
    assert_eq!(found, errors, "after {circumstances}");
    let count = |line: &&str| line.rsplit('=').next().unwrap().parse::<u64>().unwrap();
    let total: u64 = errors.iter().map(count).sum();
    assert!(info.contains(&format!("\r\ntotal_error_replies:{total}\r\n")), "{total}: {info}");
}

/// An error that a script passes on is its command's alone, though both have failed.
#[test]
fn an_error_in_a_script_counts_once() {
    for call in ["call", "pcall"] {
        let script = format!("EVAL return(redis.{call}('incr',KEYS[1])) 1 k");
        let want = [("incr", 1, 0, 1), ("eval", 1, 0, 1)];
        check_calls(&["SET k v", &script], &want, &["errorstat_ERR:count=1"]);
        check_calls(&["SET k v", "MULTI", &script, "EXEC"], &want, &["errorstat_ERR:count=1"]);
    }
    let handled = ["SET k v", "EVAL redis.pcall('incr',KEYS[1]);return(1) 1 k"];
    check_calls(&handled, &[("incr", 1, 0, 1), ("eval", 1, 0, 0)], &["errorstat_ERR:count=1"]);
    let unknown = ["EVAL return(redis.call('nosuch')) 0"];
    check_calls(&unknown, &[("eval", 1, 0, 1)], &["errorstat_ERR:count=1"]);
    let own = ["EVAL return(redis.error_reply('wrong')) 0", "EVAL error({err='MINE_x'}) 0"];
    check_calls(&own, &[("eval", 2, 0, 2)], &["errorstat_ERR:count=1", "errorstat_MINE_x:count=1"]);
}

#[test]
fn a_command_that_fails_was_called() {
    check_calls(&["AUTH k"], &[("auth", 1, 0, 1)], &["errorstat_ERR:count=1"]);
    // foo and bar lie on different lanes of three.
    check_calls(
        &["SET foo x", "SET bar x", "INCR foo", "INCR bar", "SETRANGE bar -1 x", "GET foo"],
        &[("incr", 2, 0, 2), ("set", 2, 0, 0), ("setrange", 1, 0, 1), ("get", 1, 0, 0)],
        &["errorstat_ERR:count=3"],
    );
    check_calls(
        &["RENAME foo bar", "COPY foo bar DB x", "CONFIG SET nosuch 1", "EXEC"],
        &[("rename", 1, 0, 1), ("copy", 1, 0, 1), ("config|set", 1, 0, 1), ("exec", 1, 0, 1)],
        &["errorstat_ERR:count=4"],
    );
}

/// Calls of one command that come together are dispatched together.
#[test]
fn each_call_of_a_run_fails_by_itself() {
    check_calls(
        &["SET foo x", "INCR foo", "INCR foo", "INCR foo"],
        &[("incr", 3, 0, 3), ("set", 1, 0, 0)],
        &["errorstat_ERR:count=3"],
    );
    check_calls(
        &["SET foo x", "SET bar x", "INCR new", "INCR foo", "INCR bar", "INCR new", "INCR bar", "INCR foo"],
        &[("incr", 6, 0, 4), ("set", 2, 0, 0)],
        &["errorstat_ERR:count=4"],
    );
}

/// Wherever in a run that is.
#[test]
fn a_run_in_which_memory_ends_is_counted_call_by_call() {
    const RUN: usize = 60;
    let commands: Vec<String> =
        (0..RUN).map(|number| format!("SET {{foo}}{number} {}", "x".repeat(800))).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    for (lane_count, more) in [1, 3].into_iter().flat_map(|lanes| (0..8).map(move |more| (lanes, more))) {
        let mut world = World::new(lane_count);
        let client = world.connect();
        let info = world.ask(&client, "INFO memory");
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        let limit = used.parse::<usize>().unwrap() + 30_000 + 1000 * more;
        world.ask(&client, &format!("CONFIG SET maxmemory {limit}"));
        let replies = world.ask_all(&client, &commands);
        let taken = replies.matches("+OK\r\n").count();
        assert!(0 < taken && taken < RUN, "{taken} are taken");
        let refused = (RUN - taken) as u64;
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        assert_eq!(replies, "+OK\r\n".repeat(taken) + &oom.repeat(RUN - taken));
        let info = world.ask(&client, "INFO everything");
        let errors = format!("errorstat_OOM:count={refused}");
        let want = [("set", taken as u64, refused, 0)];
        check_counts(&info, &want, &[&errors], &format!("a limit of {limit} over {lane_count} lanes"));
    }
}

#[test]
fn a_command_that_is_refused_was_not_called() {
    check_calls(&["asdf"], &[], &["errorstat_ERR:count=1"]);
    check_calls(&["SET k", "SET k 1", "SET k 2"], &[("set", 2, 1, 0)], &["errorstat_ERR:count=1"]);
    check_calls(
        &[
            "CONFIG SET maxmemory 1",
            "SET foo 1",
            "SET bar 1",
            "MSET foo 1 bar 2 baz 3",
            "CONFIG SET maxmemory 0",
        ],
        &[("set", 0, 2, 0), ("mset", 0, 1, 0)],
        &["errorstat_OOM:count=3"],
    );
    // Refused for what they would have stored, on another lane than the source's and on its own.
    check_calls(
        &[
            "CONFIG SET maxmemory 1mb",
            "SETRANGE foo 699999 x",
            "COPY foo bar",
            "BITOP NOT bar foo",
            "COPY foo {foo}",
            "SETRANGE foo 1699999 x",
            "RENAME foo bar",
            "CONFIG SET maxmemory 0",
        ],
        &[("copy", 0, 2, 0), ("bitop", 0, 1, 0), ("setrange", 1, 1, 0), ("rename", 1, 0, 0)],
        &["errorstat_OOM:count=4"],
    );
}

#[test]
fn commands_of_a_transaction_are_counted_one_by_one() {
    check_calls(
        &["MULTI", "SET foo b", "AUTH a", "INCR foo", "GET bar", "CONFIG SET nosuch 1", "EXEC", "EXEC"],
        &[
            ("multi", 1, 0, 0),
            ("set", 1, 0, 0),
            ("auth", 1, 0, 1),
            ("incr", 1, 0, 1),
            ("get", 1, 0, 0),
            ("config|set", 1, 0, 1),
            ("exec", 2, 0, 1),
        ],
        &["errorstat_ERR:count=4"],
    );
    check_calls(
        &["MULTI", "SET", "EXEC"],
        &[("set", 0, 1, 0), ("multi", 1, 0, 0), ("exec", 1, 0, 1)],
        &["errorstat_ERR:count=1", "errorstat_EXECABORT:count=1"],
    );
}

#[test]
fn what_waited_for_a_lock_or_took_slices_fails_once() {
    let big = format!("SET foo {}", "x".repeat(3000));
    check_calls(
        &[&big, "SETRANGE foo 536870911 xx", "APPEND foo y", "INCRBY foo x"],
        &[("setrange", 1, 0, 1), ("append", 1, 0, 0), ("incrby", 1, 0, 1)],
        &["errorstat_ERR:count=2"],
    );
}

#[test]
fn another_nodes_key_and_a_missing_password_are_refusals() {
    let mut world = World::new(2);
    let node = world.connect_to(0);
    // foo belongs to the second lane.
    for command in ["GET foo", "MGET foo bar", "CONFIG SET requirepass secret"] {
        world.ask(&node, command);
    }
    let stranger = world.connect_to(0);
    for command in ["GET bar", "AUTH wrong", "HELLO 3"] {
        world.ask(&stranger, command);
    }
    let info = world.ask(&node, "INFO everything");
    for line in [
        "errorstat_MOVED:count=1",
        "errorstat_CROSSSLOT:count=1",
        "errorstat_NOAUTH:count=2",
        "errorstat_WRONGPASS:count=1",
        "total_error_replies:5",
    ] {
        assert!(info.contains(&format!("\r\n{line}\r\n")), "{line}: {info}");
    }
    for (name, calls, ends) in [
        ("get", 0, "rejected_calls=2,failed_calls=0"),
        ("mget", 0, "rejected_calls=1,failed_calls=0"),
        ("auth", 1, "rejected_calls=0,failed_calls=1"),
        ("hello", 1, "rejected_calls=0,failed_calls=1"),
    ] {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:calls={calls},")));
        assert!(line.is_some_and(|line| line.ends_with(ends)), "{name}: {info}");
    }
}

#[test]
fn each_call_of_a_run_for_another_nodes_key_is_refused() {
    let mut world = World::new(2);
    let node = world.connect_to(0);
    let replies = world.ask_all(&node, &["GET bar", "GET foo", "GET bar", "GET foo", "GET foo", "GET bar"]);
    let kinds: Vec<&str> = replies.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(kinds, ["$-1", "-MOVED", "$-1", "-MOVED", "-MOVED", "$-1"]);
    let info = world.ask(&node, "INFO everything");
    check_counts(&info, &[("get", 3, 3, 0)], &["errorstat_MOVED:count=3"], "a run on a lane's own port");
}

#[test]
fn what_a_subscriber_may_not_say_is_refused() {
    check_calls(
        &["SUBSCRIBE a", "GET x", "GET x", "RESET", "GET x"],
        &[("get", 1, 2, 0), ("subscribe", 1, 0, 0)],
        &["errorstat_ERR:count=2"],
    );
}

#[test]
fn reading_commands_hit_and_miss() {
    check(
        &["SET foo 1", "INCR foo", "DEL foo", "EXPIRE foo 1", "RENAME foo b"],
        &["keyspace_hits:0", "keyspace_misses:0"],
    );
    check(
        &[
            "SET foo 1",
            "GET foo",
            "GET bar",
            "MGET foo bar baz",
            "EXISTS foo bar",
            "TYPE foo",
            "TTL bar",
            "STRLEN foo",
        ],
        &["keyspace_hits:5", "keyspace_misses:5"],
    );
    check(
        &[
            "SET foo 1",
            "GETSET foo 2",
            "GETDEL foo",
            "GETEX foo",
            "SET foo 1 GET",
            "LCS foo foo",
            "CONFIG RESETSTAT",
        ],
        &["keyspace_hits:0", "keyspace_misses:0", "total_error_replies:0", "errorstat_:", "cmdstat_set:"],
    );
    check(
        &["SET foo 1", "GETSET foo 2", "GETDEL foo", "GETEX foo", "SET foo 1 GET", "OBJECT ENCODING foo"],
        &["keyspace_hits:3", "keyspace_misses:2"],
    );
    check(
        &[
            "SET foo 1",
            "LCS foo bar",
            "COPY foo baz",
            "COPY nope baz",
            "TOUCH foo nope",
            "OBJECT FREQ nope",
            "SUBSTR no 0 1",
        ],
        &["keyspace_hits:3", "keyspace_misses:5"],
    );
    check(
        &[
            "SET foo 1",
            "SETNX foo 1",
            "SET foo 2 NX GET",
            "APPEND foo x",
            "PERSIST foo",
            "MEMORY USAGE foo",
            "MOVE foo 1",
        ],
        &["keyspace_hits:1", "keyspace_misses:0"],
    );
    check(
        &[
            "SET foo 1",
            "SETBIT foo 1 1",
            "SETBIT bar 1 1",
            "GETBIT foo 1",
            "GETBIT nope 1",
            "BITCOUNT foo",
            "BITPOS nope 1",
            "BITFIELD foo GET u8 0",
            "BITFIELD nope GET u8 0",
            "BITFIELD foo SET u8 0 1",
            "BITFIELD_RO nope",
            "BITOP AND d foo nope foo",
            "BITCOUNT foo 1",
        ],
        &["keyspace_hits:6", "keyspace_misses:5"],
    );
}

/// A key is looked for before the words behind it are understood; what writes does not look.
#[test]
fn refused_commands_hit_and_miss() {
    check(
        &["SET foo 1", "GETEX foo EX x", "GETEX none EX x", "LCS foo none LEN IDX", "SETRANGE none 9 "],
        &["keyspace_hits:2", "keyspace_misses:2"],
    );
}

/// One that is short, and one of so many arguments that it is taken apart as it comes.
#[test]
fn broken_commands_are_counted_as_errors() {
    let mut world = World::new(1);
    let client = world.connect();
    let many = [b"*5000\r\n".as_slice(), &b"$1\r\na\r\n".repeat(4000)].concat();
    for (begun, count) in [(&b"*2\r\n"[..], 1), (&many, 2)] {
        let broken = world.connect();
        broken.write(&[begun, b"!1\r\n"].concat());
        let info = world.ask(&client, "INFO errorstats");
        assert!(broken.read_all().starts_with(b"-ERR Protocol error"), "{count}");
        assert!(info.contains(&format!("errorstat_ERR:count={count}\r\n")), "{info}");
    }
}

#[test]
fn keys_that_have_ended_are_counted_anew() {
    let mut world = World::new(2);
    let client = world.connect();
    for key in ["a", "b", "c"] {
        world.ask(&client, &format!("SET {key} 1 PX 5"));
    }
    for _ in 0..20 {
        world.round(1_000_000);
    }
    let mut shows = |want: &str| assert!(world.ask(&client, "INFO stats").contains(want), "{want}");
    shows("\r\nexpired_keys:3\r\n");
    assert_eq!(world.ask(&client, "CONFIG RESETSTAT"), "+OK\r\n");
    let mut shows = |want: &str| assert!(world.ask(&client, "INFO stats").contains(want), "{want}");
    shows("\r\nexpired_keys:0\r\n");
}

#[test]
fn what_documents_came_to_is_counted_anew() {
    for lane_count in [1, 3] {
        let mut world = World::told(lane_count, &[], |settings| {
            settings.doors[1] = Door { port: Port::Lane, dialect: Dialect::Memcached };
        });
        let (redis, memcached) = (world.connect(), world.connect_to(0));
        memcached.write(
            b"set a 0 0 1\r\n1\r\nset b 0 0 1\r\n1\r\ngets a\r\nget none\r\ntouch a 0\r\ntouch none 0\r\n",
        );
        memcached.write(b"incr a 1\r\nincr none 1\r\ndecr a 1\r\ndecr none 1\r\ncas none 0 0 1 1\r\n1\r\n");
        memcached.write(b"cas b 0 0 1 987654321\r\n1\r\ndelete a\r\ndelete a\r\nflush_all\r\n");
        world.ask(&redis, "PING");
        memcached.read_all();
        let counts = |world: &mut World| {
            memcached.write(b"stats\r\n");
            world.ask(&redis, "PING");
            let stats = String::from_utf8(memcached.read_all()).unwrap();
            let count = |name: &str| -> u64 {
                let value = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
                value.unwrap_or_else(|| panic!("{name}: {stats}")).parse().unwrap()
            };
            let tries = ["get", "touch", "delete", "incr", "decr"];
            let tries = tries.map(|name| [count(&format!("{name}_hits")), count(&format!("{name}_misses"))]);
            (tries, ["cmd_set", "cmd_flush", "cas_misses", "cas_badval"].map(count))
        };
        assert_eq!(counts(&mut world), ([[1; 2]; 5], [4, 1, 1, 1]), "over {lane_count} lanes");
        assert_eq!(world.ask(&redis, "CONFIG RESETSTAT"), "+OK\r\n");
        assert_eq!(counts(&mut world), ([[0; 2]; 5], [0; 4]), "over {lane_count} lanes");
    }
}

#[test]
fn clients_turned_away_are_counted_anew() {
    let mut world = World::told(2, &[], |settings| settings.client_count_max = 3);
    let clients: Vec<_> = (0..5).map(|_| world.connect()).collect();
    let count = |world: &mut World| {
        let info = world.ask(&clients[0], "INFO stats");
        info.lines().find_map(|line| line.strip_prefix("rejected_connections:")).map(str::to_owned)
    };
    assert_eq!(count(&mut world).as_deref(), Some("2"));
    assert_eq!(world.ask(&clients[0], "CONFIG RESETSTAT"), "+OK\r\n");
    assert_eq!(count(&mut world).as_deref(), Some("0"));
    let late = world.connect();
    assert_eq!(count(&mut world).as_deref(), Some("1"));
    assert!(late.read_all().starts_with(b"-ERR max number of clients"));
}

#[test]
fn bytes_and_what_carried_them_are_counted() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "CONFIG RESETSTAT");
    world.ask(&client, "INFO");
    let value = "x".repeat(10_240);
    world.ask(&client, &format!("SET key {value}"));
    world.round(980_000_000);
    let info = world.ask(&client, "INFO");
    let info_size = "*1\r\n$4\r\nINFO\r\n".len();
    let set_size = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10240\r\n\r\n".len() + value.len();
    let input_size = 2 * info_size + set_size;
    let wants = [
        format!("total_net_input_bytes:{input_size}"),
        "total_writes_processed:3".to_owned(),
        "total_commands_processed:3".to_owned(),
        // A little over ten KB, within one second and twenty rounds of a millisecond.
        "instantaneous_input_kbps:9.".to_owned(),
    ];
    for want in wants {
        assert!(info.contains(&format!("\r\n{want}")), "{want}: {info}");
    }
}

#[test]
fn each_namespace_shows_what_lanes_hold_of_it() {
    for lane_count in [1, 3] {
        let mut world = World::told(lane_count, &[], |settings| {
            settings.doors[1] = Door { port: Port::Lane, dialect: Dialect::Memcached };
            let small = Namespace { memory_share: Some(30), default_ttl_s: 60, ..Namespace::new("users") };
            settings.namespaces = Namespaces::new(
                vec![Namespace::new("default"), Namespace::new("other")],
                vec![Namespace::new("test"), small],
            );
        });
        let (redis, memcached) = (world.connect(), world.connect_to(0));
        for key in 0..30 {
            memcached.write(format!("set k{key} 0 {} 1\r\nx\r\n", key % 2 * 60).as_bytes());
        }
        world.ask(&redis, "SET k v");
        let info = world.ask(&redis, "INFO namespaces");
        let lines: Vec<&str> = info.lines().filter(|line| line.starts_with("namespace_")).collect();
        let [documents, rest @ ..] = &lines[..] else { panic!("{info}") };
        let bytes = documents.strip_prefix("namespace_couchbase_default:keys=30,expires=15,bytes=");
        let bytes: u64 = bytes.and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap();
        assert!((30 * 16..30 * 64).contains(&bytes), "{info}");
        assert_eq!(
            rest,
            [
                "namespace_couchbase_other:keys=0,expires=0,bytes=0,memory_share=100,default_ttl=0",
                "namespace_aerospike_test:keys=0,expires=0,bytes=0,memory_share=100,default_ttl=0",
                "namespace_aerospike_users:keys=0,expires=0,bytes=0,memory_share=30,default_ttl=60",
            ]
        );
        assert!(world.ask(&redis, "INFO everything").contains("\r\n# Namespaces\r\n"));
    }
}

#[test]
fn each_dialect_is_counted_by_lane() {
    for lane_count in [1, 3] {
        let mut world = World::told(lane_count, &[], |settings| {
            settings.doors[1] = Door { port: Port::Lane, dialect: Dialect::Memcached };
        });
        let (redis, memcached) = (world.connect(), world.connect_to(0));
        for key in 0..30 {
            memcached.write(format!("set k{key} 0 0 1\r\nx\r\nget k{key}\r\nget none{key}\r\n").as_bytes());
        }
        memcached.write(b"nonsense\r\nset k 0 0 x\r\nincr k0 1\r\n");
        world.ask(&redis, "SET k v");
        let info = world.ask(&redis, "INFO dialects");
        let line = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} over {lane_count} lanes: {info}")).to_owned()
        };
        let count = |line: &str, name: &str| -> u64 {
            let (_, value) = line.split_once(&format!("{name}=")).unwrap();
            value.split(',').next().unwrap().parse().unwrap()
        };
        let documents = line("memcached_lane0:");
        assert_eq!(count(&documents, "commands"), 93, "{info}");
        assert_eq!(count(&documents, "direct") + count(&documents, "forwarded"), 91, "{info}");
        assert_eq!(count(&documents, "forwarded") > 0, lane_count > 1, "{info}");
        // SET and the INFO that asks before it is counted itself.
        let lines = (0..lane_count).map(|lane| line(&format!("redis_lane{lane}:")));
        assert_eq!(lines.map(|line| count(&line, "commands")).sum::<u64>(), 2, "{info}");
        assert!(documents.contains("errors=CLIENT_ERROR:"), "{info}");
        let errors = (0..lane_count).map(|lane| line(&format!("memcached_lane{lane}:")));
        let errors: Vec<String> =
            errors.map(|line| line.split_once("errors=").unwrap().1.to_owned()).collect();
        let sum = |kind: &str| -> u64 {
            let counts =
                errors.iter().flat_map(|list| list.split(';')).filter_map(|one| one.strip_prefix(kind));
            counts.map(|count| count.parse::<u64>().unwrap()).sum()
        };
        assert_eq!((sum("ERROR:"), sum("CLIENT_ERROR:")), (1, 2), "{info}");
        assert!(line("redis_lane0:").ends_with("errors=none"), "{info}");
    }
}
