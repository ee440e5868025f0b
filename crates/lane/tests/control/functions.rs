//! FUNCTION and FCALL over lanes and the control thread.

use net::mem::{Client, Way};
use wire::route::PartitionMap;

use super::follower::{Follower, turn};
use super::world::World;

/// Sends a command and gives its reply.
fn say(world: &mut World, client: &Client, words: &[&str]) -> String {
    String::from_utf8_lossy(&say_bytes(
        world,
        client,
        &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(),
    ))
    .into_owned()
}

fn say_bytes(world: &mut World, client: &Client, words: &[&[u8]]) -> Vec<u8> {
    send(client, words);
    let mut reply = Vec::new();
    for _ in 0..40 {
        world.round(1_000_000);
        reply.extend(client.read_all());
    }
    reply
}

fn send(client: &Client, words: &[&[u8]]) {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    client.write(&bytes);
}

/// Loads a library of this name and body.
fn load(world: &mut World, client: &Client, name: &str, body: &str) {
    let code = format!("#!lua name={name}\n{body}");
    let want = format!("${}\r\n{name}\r\n", name.len());
    assert_eq!(say(world, client, &["FUNCTION", "LOAD", "REPLACE", &code]), want);
}

/// A key of a lane.
fn key_of(lane: u16, lanes: u16) -> String {
    let map = PartitionMap::even(lanes);
    let key = (0..).map(|number| format!("key:{number}")).find(|key| map.owner_of(key.as_bytes()).0 == lane);
    key.expect("some key is a lane's")
}

const COUNTS: &str = "local calls = 0
    redis.register_function('add', function(keys, args) return redis.call('incrby', keys[1], args[1]) end)
    redis.register_function{function_name='see', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}}
    redis.register_function('calls', function() calls = calls + 1 return calls end)";

#[test]
fn every_lane_knows_a_function_once_it_has_been_loaded() {
    for lanes in [1, 3] {
        let mut world = World::new(lanes);
        let clients: Vec<_> =
            (0..lanes).map(|lane| world.connect_by(usize::from(lane), Way::default())).collect();
        load(&mut world, &clients[0], "counts", COUNTS);
        let key = key_of(lanes - 1, lanes);
        for (client, want) in clients.iter().zip(1..) {
            assert_eq!(say(&mut world, client, &["FCALL", "Add", "1", &key, "1"]), format!(":{want}\r\n"));
        }
        let (client, digits) = (&clients[0], lanes.to_string());
        assert_eq!(say(&mut world, client, &["FCALL_RO", "see", "1", &key]), format!("$1\r\n{digits}\r\n"));
        let info = world.ask(client, "INFO memory");
        assert!(info.contains("number_of_functions:3\r\nnumber_of_libraries:1\r\n"), "{info}");
        // Of keys of several lanes, and of none.
        let both =
            "redis.register_function('both', function(keys) return redis.call('mget', unpack(keys)) end)";
        load(&mut world, client, "more", both);
        let other = key_of(0, lanes);
        let got = say(&mut world, client, &["FCALL", "both", "2", &key, &other]);
        assert!(got.starts_with(&format!("*2\r\n$1\r\n{digits}\r\n")), "{got}");
        for client in &clients {
            assert_eq!(
                say(&mut world, client, &["FCALL", "calls", "0"]),
                ":1\r\n",
                "a lane counts for itself"
            );
        }
        assert_eq!(say(&mut world, client, &["FUNCTION", "DELETE", "counts"]), "+OK\r\n");
        for client in &clients {
            let got = say(&mut world, client, &["FCALL", "add", "1", &key, "1"]);
            assert_eq!(got, "-ERR Function not found\r\n");
        }
        assert_eq!(say(&mut world, client, &["FUNCTION", "FLUSH"]), "+OK\r\n");
        assert_eq!(say(&mut world, client, &["FCALL", "both", "0"]), "-ERR Function not found\r\n");
        clients.iter().for_each(Client::cut);
        (0..40).for_each(|_| world.round(1_000_000));
        assert!(world.is_idle());
        world.lanes.iter().for_each(lane::Lane::audit);
    }
}

#[test]
fn a_library_that_is_replaced_begins_anew() {
    let mut world = World::new(1);
    let client = world.connect();
    for want in [":1\r\n", ":2\r\n"] {
        if want == ":1\r\n" {
            load(&mut world, &client, "counts", COUNTS);
        }
        assert_eq!(say(&mut world, &client, &["FCALL", "calls", "0"]), want);
    }
    load(&mut world, &client, "other", "redis.register_function('f', function() return 'f' end)");
    assert_eq!(say(&mut world, &client, &["FCALL", "calls", "0"]), ":3\r\n", "another came");
    load(&mut world, &client, "counts", COUNTS);
    assert_eq!(say(&mut world, &client, &["FCALL", "calls", "0"]), ":1\r\n");
    // What fails changes nothing.
    for (code, want) in [
        (
            "#!lua name=counts\nredis.register_function('f', function() end)",
            "-ERR Function f already exists\r\n",
        ),
        ("#!lua name=counts\nbad", "-ERR Error compiling function: user_function:2: "),
        ("#!lua name=counts\n", "-ERR No functions registered\r\n"),
        (
            "#!lua name=counts\nwhile true do end",
            "-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n",
        ),
    ] {
        let got = say(&mut world, &client, &["FUNCTION", "LOAD", "REPLACE", code]);
        assert!(got.starts_with(want), "{code}: {got}");
    }
    assert_eq!(say(&mut world, &client, &["FCALL", "calls", "0"]), ":2\r\n");
}

#[test]
fn what_is_asked_for_wrongly_is_refused_as_by_redis() {
    let mut world = World::new(2);
    let client = world.connect();
    load(&mut world, &client, "counts", COUNTS);
    let other = "#!lua name=counts\nredis.register_function('f', function() end)";
    for (words, want) in [
        (&["FUNCTION", "LOAD", other][..], "-ERR Library 'counts' already exists\r\n"),
        (&["FUNCTION", "LOAD", "OVER", other], "-ERR Unknown option given: OVER\r\n"),
        (&["FUNCTION", "LOAD", "REPLACE"], "-ERR Missing library metadata\r\n"),
        (&["FUNCTION", "DELETE", "COUNTS"], "-ERR Library not found\r\n"),
        (&["FUNCTION", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n"),
        (&["FUNCTION", "FLUSH", "NOW"], "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option\r\n"),
        (&["FUNCTION", "LIST", "ALL"], "-ERR Unknown argument ALL\r\n"),
        (&["FUNCTION", "LIST", "WITHCODE", "WITHCODE"], "-ERR Unknown argument WITHCODE\r\n"),
        (&["FUNCTION", "LIST", "LIBRARYNAME"], "-ERR library name argument was not given\r\n"),
        (&["FUNCTION", "RESTORE", "x"], "-ERR DUMP payload version or checksum are wrong\r\n"),
        (
            &["FUNCTION", "RESTORE", "x", "y"],
            "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.\r\n",
        ),
        (
            &["FUNCTION", "RESTORE", "x", "y", "z"],
            "-ERR unknown subcommand or wrong number of arguments for 'RESTORE'. Try FUNCTION HELP.\r\n",
        ),
        (&["FCALL", "none", "x"], "-ERR Function not found\r\n"),
        (&["FCALL", "none", "0"], "-ERR Function not found\r\n"),
        (&["FCALL", "add", "x"], "-ERR Bad number of keys provided\r\n"),
        (&["FCALL", "add", "2", "k"], "-ERR Number of keys can't be greater than number of args\r\n"),
        (&["FCALL", "add", "-1"], "-ERR Number of keys can't be negative\r\n"),
        (
            &["FCALL_RO", "add", "1", "k", "1"],
            "-ERR Can not execute a script with write flag using *_ro command.\r\n",
        ),
        (
            &["FCALL", "add", "1", "k", "x"],
            "-ERR value is not an integer or out of range script: add, on @user_function:3.\r\n",
        ),
        (
            &["EVAL", "return redis.call('fcall', 'add', 0)", "0"],
            "-ERR This Redis command is not allowed from script script: ",
        ),
    ] {
        let got = say(&mut world, &client, words);
        assert!(got.starts_with(want), "{words:?}: {got}");
    }
    let writes = "redis.register_function{function_name='w', callback=function(keys) return redis.call('set', keys[1], 1) end, flags={'no-writes'}}";
    load(&mut world, &client, "writes", writes);
    let got = say(&mut world, &client, &["FCALL", "w", "1", "k"]);
    let want =
        "-ERR Write commands are not allowed from read-only scripts. script: w, on @user_function:2.\r\n";
    assert_eq!(got, want);
    // In MULTI it is found out when its turn comes.
    say(&mut world, &client, &["MULTI"]);
    for words in [
        &["FCALL", "none", "0"][..],
        &["FCALL", "add", "x"],
        &["FUNCTION", "DELETE", "writes"],
        &["FCALL", "w", "1", "k"],
    ] {
        assert_eq!(say(&mut world, &client, words), "+QUEUED\r\n");
    }
    let want = "*4\r\n-ERR Function not found\r\n-ERR Bad number of keys provided\r\n+OK\r\n-ERR Function not found\r\n";
    assert_eq!(say(&mut world, &client, &["EXEC"]), want);
}

#[test]
fn lists_and_payloads_are_those_of_redis() {
    let mut world = World::new(2);
    let client = world.connect();
    assert_eq!(say(&mut world, &client, &["FUNCTION", "LIST"]), "*0\r\n");
    load(&mut world, &client, "b", "redis.register_function('g', function() end)");
    let body = "redis.register_function{function_name='f', callback=function() return 7 end, description='d', flags={'allow-oom', 'no-writes'}}";
    load(&mut world, &client, "a", body);
    let a = "$12\r\nlibrary_name\r\n$1\r\na\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n*1\r\n*6\r\n$4\r\nname\r\n$1\r\nf\r\n\
        $11\r\ndescription\r\n$1\r\nd\r\n$5\r\nflags\r\n*2\r\n+no-writes\r\n+allow-oom\r\n";
    let b = "*6\r\n$12\r\nlibrary_name\r\n$1\r\nb\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n*1\r\n*6\r\n$4\r\nname\r\n$1\r\ng\r\n\
        $11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n*0\r\n";
    assert_eq!(say(&mut world, &client, &["FUNCTION", "LIST"]), format!("*2\r\n*6\r\n{a}{b}"));
    let code = format!("#!lua name=a\n{body}");
    let want = format!("*1\r\n*8\r\n{a}$12\r\nlibrary_code\r\n${}\r\n{code}\r\n", code.len());
    assert_eq!(say(&mut world, &client, &["FUNCTION", "LIST", "withcode", "libraryname", "A*"]), want);
    let stats = "$14\r\nrunning_script\r\n$-1\r\n$7\r\nengines\r\n*2\r\n$3\r\nLUA\r\n*4\r\n$15\r\nlibraries_count\r\n:2\r\n$15\r\nfunctions_count\r\n:2\r\n";
    assert_eq!(say(&mut world, &client, &["FUNCTION", "STATS"]), format!("*4\r\n{stats}"));
    // All comes back, or nothing.
    let dump = say_bytes(&mut world, &client, &[b"FUNCTION", b"DUMP"]);
    let start = dump.iter().position(|&byte| byte == b'\n').expect("a length") + 1;
    let payload = &dump[start..dump.len() - 2];
    let restore = |world: &mut World, policy: &[u8]| {
        let reply = say_bytes(world, &client, &[b"FUNCTION", b"RESTORE", payload, policy]);
        String::from_utf8_lossy(&reply).into_owned()
    };
    assert_eq!(restore(&mut world, b"APPEND"), "-ERR Library a already exists\r\n");
    assert_eq!(restore(&mut world, b"replace"), "+OK\r\n");
    say(&mut world, &client, &["FUNCTION", "DELETE", "b"]);
    load(&mut world, &client, "c", "redis.register_function('G', function() return 'c' end)");
    assert_eq!(restore(&mut world, b"REPLACE"), "-ERR Function g already exists\r\n");
    assert_eq!(say(&mut world, &client, &["FCALL", "g", "0"]), "$1\r\nc\r\n");
    assert_eq!(restore(&mut world, b"FLUSH"), "+OK\r\n");
    assert_eq!(say(&mut world, &client, &["FUNCTION", "LIST"]), format!("*2\r\n*6\r\n{a}{b}"));
    assert_eq!(say(&mut world, &client, &["FCALL", "f", "0"]), ":7\r\n");
}

#[test]
fn a_function_without_end_keeps_its_keys_and_nobody_else() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let [client, other, killer] = [0, 1, 2].map(|_| world.connect());
        world.ask(&other, "CONFIG SET busy-reply-threshold 100");
        let body =
            "redis.register_function('loop', function(keys) if keys[2] then redis.call('set', keys[2], 1) end
            while redis.call('get', keys[1]) == false do end end)";
        load(&mut world, &other, "lib", body);
        send(&client, &[b"FCALL", b"LOOP", b"1", b"k"]);
        world.round(1_000_000);
        let got = say(&mut world, &other, &["FUNCTION", "KILL"]);
        assert_eq!(got, "-NOTBUSY No scripts in execution right now.\r\n");
        assert_eq!(say(&mut world, &other, &["SET", "other", "v"]), "+OK\r\n");
        assert_eq!(say(&mut world, &other, &["GET", "k"]), "", "it waits for the function");
        world.round(100_000_000);
        let stats = say(&mut world, &killer, &["FUNCTION", "STATS"]);
        let want = "*4\r\n$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$4\r\nloop\r\n$7\r\ncommand\r\n*4\r\n$5\r\nFCALL\r\n$4\r\nLOOP\r\n$1\r\n1\r\n$1\r\nk\r\n\
            $11\r\nduration_ms\r\n:";
        assert!(stats.starts_with(want), "{stats}");
        let got = say(&mut world, &killer, &["SCRIPT", "KILL"]);
        let want =
            "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n";
        assert_eq!(got, want);
        // It goes on though its library has gone.
        assert_eq!(say(&mut world, &killer, &["FUNCTION", "FLUSH"]), "+OK\r\n");
        assert_eq!(say(&mut world, &killer, &["FUNCTION", "KILL"]), "+OK\r\n");
        (0..40).for_each(|_| world.round(1_000_000));
        let got = String::from_utf8_lossy(&client.read_all()).into_owned();
        assert!(got.contains("Script killed by user"), "{got}");
        assert_eq!(other.read_all(), b"$-1\r\n");
        // One that has written can't be ended, and a script is none.
        load(&mut world, &killer, "lib", body);
        send(&client, &[b"FCALL", b"loop", b"2", b"k", b"w"]);
        send(&other, &[b"EVAL", b"while true do end", b"0"]);
        (0..20).for_each(|_| world.round(1_000_000));
        world.round(200_000_000);
        let got = say(&mut world, &killer, &["FUNCTION", "KILL"]);
        assert!(got.starts_with("-UNKILLABLE Sorry"), "{got}");
        assert_eq!(say(&mut world, &killer, &["SCRIPT", "KILL"]), "+OK\r\n");
    }
}

#[test]
fn a_key_that_was_not_declared_has_everything_locked() {
    let mut world = World::new(3);
    let client = world.connect();
    let keys: Vec<String> = (0..3).map(|lane| key_of(lane, 3)).collect();
    let body = "redis.register_function('late', function(keys, args) redis.call('set', keys[1], 1) return redis.call('incr', args[1]) end)";
    load(&mut world, &client, "lib", body);
    let got = say(&mut world, &client, &["FCALL", "late", "1", &keys[0], &keys[1]]);
    assert!(got.starts_with("-ERR Script attempted to access a key that is not among its KEYS"), "{got}");
    let got = say(&mut world, &client, &["FCALL", "LATE", "1", &keys[0], &keys[1]]);
    assert_eq!(got, ":1\r\n", "it is known for it");
    load(&mut world, &client, "lib", body);
    let got = say(&mut world, &client, &["FCALL", "late", "1", &keys[0], &keys[1]]);
    assert!(got.starts_with("-ERR Script attempted"), "another is not: {got}");
    let says = "redis.register_function{function_name='says', flags={'allow-undeclared-keys'},
        callback=function(keys, args) redis.call('set', keys[1], 1) return redis.call('incr', args[1]) end}";
    load(&mut world, &client, "other", says);
    assert_eq!(say(&mut world, &client, &["FCALL", "says", "1", &keys[0], &keys[2]]), ":1\r\n");
    assert!(world.is_idle());
}

#[test]
fn a_lanes_own_port_is_a_node_of_a_cluster() {
    let mut world = World::new(2);
    let client = world.connect_to(0);
    let body = "redis.register_function('see', function(keys, args) return redis.call('get', keys[1] or args[1]) end)
        redis.register_function{function_name='alone', callback=function() end, flags={'no-cluster'}}";
    load(&mut world, &client, "lib", body);
    let (here, there) = (key_of(0, 2), key_of(1, 2));
    assert_eq!(say(&mut world, &client, &["FCALL", "see", "1", &here]), "$-1\r\n");
    assert!(say(&mut world, &client, &["FCALL", "see", "1", &there]).starts_with("-MOVED"));
    assert!(say(&mut world, &client, &["FCALL", "see", "2", &here, &there]).starts_with("-CROSSSLOT"));
    let got = say(&mut world, &client, &["FCALL", "see", "0", &there]);
    assert!(got.starts_with("-ERR Script attempted to access a non local key in a cluster node"), "{got}");
    let got = say(&mut world, &client, &["FCALL", "alone", "0"]);
    assert_eq!(got, "-ERR Can not run script on cluster, 'no-cluster' flag is set.\r\n");
    let shared = world.connect();
    assert_eq!(say(&mut world, &shared, &["FCALL", "alone", "0"]), "$-1\r\n");
}

#[test]
fn a_pause_of_writers_does_not_hold_what_only_reads() {
    let mut world = World::new(2);
    let [client, writer] = [0, 1].map(|_| world.connect());
    load(&mut world, &client, "counts", COUNTS);
    world.ask(&client, "CLIENT PAUSE 100000 WRITE");
    assert_eq!(say(&mut world, &client, &["FCALL", "see", "1", "k"]), "$-1\r\n");
    assert_eq!(say(&mut world, &client, &["FCALL_RO", "see", "1", "k"]), "$-1\r\n");
    assert_eq!(say(&mut world, &writer, &["FCALL", "add", "1", "k", "1"]), "");
    world.ask(&client, "CLIENT UNPAUSE");
    (0..20).for_each(|_| world.round(1_000_000));
    assert_eq!(writer.read_all(), b":1\r\n");
    // Whoever lacks memory brings no functions.
    world.ask(&client, "CONFIG SET maxmemory 1");
    let code = "#!lua name=lib\nredis.register_function('f', function() end)";
    let got = say(&mut world, &client, &["FUNCTION", "LOAD", code]);
    assert_eq!(got, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    let got = say(&mut world, &client, &["FCALL", "add", "1", "k", "1"]);
    assert!(got.starts_with("-OOM command not allowed when used memory > 'maxmemory'."), "{got}");
    assert_eq!(say(&mut world, &client, &["FCALL", "see", "1", "k"]), "$1\r\n1\r\n");
    world.ask(&client, "CONFIG SET maxmemory 0 min-replicas-to-write 1");
    let got = say(&mut world, &client, &["FUNCTION", "LOAD", code]);
    assert_eq!(got, "-NOREPLICAS Not enough good replicas to write.\r\n");
    let got = say(&mut world, &client, &["FCALL", "add", "1", "k", "1"]);
    assert_eq!(got, "-NOREPLICAS Not enough good replicas to write.\r\n");
}

/// They are data: in the snapshot, and in the stream.
#[test]
fn replicas_have_the_functions_of_the_server() {
    let mut world = World::new(2);
    let client = world.connect();
    let code = |name: &str| format!("#!lua name={name}\nredis.register_function('{name}', function() end)");
    let ours = "#!lua name=ours\nredis.register_function{function_name='ours', callback=function() end, flags={'allow-undeclared-keys'}}";
    for code in [&code("a"), &code("b"), ours] {
        assert!(say(&mut world, &client, &["FUNCTION", "LOAD", code]).starts_with('$'));
    }
    let connection = world.connect();
    let mut follower = Follower::new(&mut world, connection, true);
    (0..3).for_each(|_| turn(&mut world, &mut follower));
    assert!(follower.has_loaded);
    // One with a flag that Redis does not know would have it refuse the snapshot.
    assert_eq!(follower.functions, [code("a"), code("b")]);
    let dump = say_bytes(&mut world, &client, &[b"FUNCTION", b"DUMP"]);
    let start = dump.iter().position(|&byte| byte == b'\n').expect("a length") + 1;
    for code in [&code("c"), &ours.replace("ours", "more")] {
        assert!(say(&mut world, &client, &["FUNCTION", "LOAD", code]).starts_with('$'));
    }
    say(&mut world, &client, &["FUNCTION", "LOAD", "REPLACE", &code("c")]);
    say(&mut world, &client, &["FUNCTION", "DELETE", "c"]);
    say(&mut world, &client, &["FUNCTION", "DELETE", "nosuch"]);
    say(
        &mut world,
        &client,
        &["FUNCTION", "LOAD", "REPLACE", &ours.replace("name=ours", "name=b").replace("'ours'", "'b'")],
    );
    say_bytes(&mut world, &client, &[b"FUNCTION", b"RESTORE", &dump[start..dump.len() - 2], b"REPLACE"]);
    say(&mut world, &client, &["FUNCTION", "FLUSH"]);
    (0..3).for_each(|_| turn(&mut world, &mut follower));
    let told: Vec<&String> = follower.log.iter().filter(|line| line.starts_with("FUNCTION")).collect();
    let load = |name: &str| format!("FUNCTION LOAD REPLACE {}", code(name));
    let want = [
        load("c"),
        load("c"),
        "FUNCTION DELETE c".to_owned(),
        "FUNCTION DELETE b".to_owned(),
        format!("FUNCTION DELETE a; {}; {}", load("a"), load("b")),
        "FUNCTION FLUSH".to_owned(),
    ];
    assert_eq!(told, want.iter().collect::<Vec<_>>());
}

#[test]
fn who_wants_functions_alone_gets_no_keys() {
    let mut world = World::new(2);
    let client = world.connect();
    world.ask(&client, "MSET a 1 b 2 c 3");
    load(&mut world, &client, "counts", COUNTS);
    for (filter, functions) in [("functions", 1), ("\"\"", 0)] {
        let connection = world.connect();
        let words = ["REPLCONF", "rdb-filter-only", filter.trim_matches('"')];
        assert_eq!(say(&mut world, &connection, &words), "+OK\r\n");
        let mut follower = Follower::new(&mut world, connection, true);
        (0..3).for_each(|_| turn(&mut world, &mut follower));
        assert!(follower.has_loaded && follower.databases.is_empty());
        assert_eq!(follower.functions.len(), functions);
    }
    let got = say(&mut world, &client, &["REPLCONF", "rdb-filter-only", "functions keys"]);
    assert_eq!(got, "-ERR Unsupported rdb-filter-only option: keys\r\n");
    assert_eq!(
        say(&mut world, &client, &["REPLCONF", "rdb-filter-only", "'"]),
        "-ERR Missing rdb-filter-only values\r\n"
    );
}
