//! EVAL and SCRIPT over lanes and the control thread.

use lane::Settings;
use net::mem::Client;
use wire::route::{PartitionMap, Slot};

use super::world::World;

mod oom;

/// Sends a command and gives its reply.
fn say(world: &mut World, client: &Client, words: &[&str]) -> String {
    send(client, words);
    hear(world, client)
}

fn send(client: &Client, words: &[&str]) {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    wire::client::command(&mut bytes, &words);
    client.write(&bytes);
}

fn hear(world: &mut World, client: &Client) -> String {
    for _ in 0..40 {
        world.round(1_000_000);
    }
    String::from_utf8_lossy(&client.read_all()).into_owned()
}

/// Nothing is left of a client that goes.
fn audit(mut world: World, client: Client) {
    client.cut();
    (0..40).for_each(|_| world.round(1_000_000));
    assert!(world.is_idle());
    world.lanes.iter().for_each(lane::Lane::audit);
}

/// A key of a lane.
fn key_of(lane: u16, lanes: u16) -> String {
    let map = PartitionMap::even(lanes);
    let key = (0..).map(|number| format!("key:{number}")).find(|key| map.owner_of(key.as_bytes()).0 == lane);
    key.expect("some key is a lane's")
}

/// What a script answers on a server of one lane and on one of three.
fn check(script: &str, words: &[&str], want: &str) {
    for lanes in [1, 3] {
        let mut world = World::new(lanes);
        let client = world.connect();
        let mut command = vec!["EVAL", script];
        command.extend(words);
        assert_eq!(say(&mut world, &client, &command), want, "{script} {words:?} on {lanes} lanes");
        assert_eq!(say(&mut world, &client, &["PING"]), "+PONG\r\n", "after {script}");
        audit(world, client);
    }
}

#[test]
fn what_a_script_calls_runs_where_the_keys_are() {
    let set = "return redis.call('set', KEYS[1], ARGV[1])";
    check(set, &["1", "k", "v"], "+OK\r\n");
    let both = "redis.call('set', KEYS[1], 1) redis.call('incr', KEYS[2]) return redis.call('mget', KEYS[1], KEYS[2], KEYS[3])";
    check(both, &["3", "a", "b", "c"], "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n");
    let rename = "redis.call('mset', KEYS[1], 'x', KEYS[2], 'y') redis.call('rename', KEYS[1], KEYS[3])
        return {redis.call('exists', KEYS[1]), redis.call('get', KEYS[3]), redis.call('del', KEYS[2], KEYS[3])}";
    check(rename, &["3", "a", "b", "c"], "*3\r\n:0\r\n$1\r\nx\r\n:2\r\n");
    // Commands that look before they change, and that go over everything.
    let long = "redis.call('set', KEYS[1], string.rep('x', 3000)) redis.call('setrange', KEYS[2], 5000, 'y')
        return {redis.call('copy', KEYS[1], KEYS[3]), redis.call('bitop', 'or', KEYS[4], KEYS[1], KEYS[2]), redis.call('strlen', KEYS[4]),
            redis.call('msetnx', KEYS[5], 1, KEYS[1], 1), redis.call('renamenx', KEYS[4], KEYS[5]), redis.call('exists', unpack(KEYS))}";
    check(long, &["5", "a", "b", "c", "d", "e"], "*6\r\n:1\r\n:5001\r\n:5001\r\n:0\r\n:1\r\n:4\r\n");
    let all = "redis.call('mset', KEYS[1], 1, KEYS[2], 2, KEYS[3], 3) local seen = 0 local cursor = '0'
        repeat local got = redis.call('scan', cursor, 'count', 10000) cursor = got[1] seen = seen + #got[2] until cursor == '0'
        local size = redis.call('dbsize') redis.call('swapdb', 0, 1) local swapped = redis.call('dbsize') redis.call('flushall')
        redis.call('select', 1) return {seen, size, swapped, redis.call('dbsize'), redis.call('randomkey')}";
    let all = format!("#!lua flags=allow-undeclared-keys\n{all}");
    check(&all, &["3", "a", "b", "c"], "*5\r\n:3\r\n:3\r\n:0\r\n:0\r\n$-1\r\n");
    // One call goes on from lane to lane.
    let once = "#!lua flags=allow-undeclared-keys\nredis.call('mset', KEYS[1], 1, KEYS[2], 2, KEYS[3], 3)
        local got = redis.call('scan', 0) return {got[1], #got[2], #redis.call('scan', 0, 'match', 'b')[2]}";
    check(once, &["3", "a", "b", "c"], "*3\r\n$1\r\n0\r\n:3\r\n:1\r\n");
    check("return redis.call('ping')", &["0"], "+PONG\r\n");
    check("return redis.call('echo', ARGV[1])", &["0", ""], "$0\r\n\r\n");
    let info = "return string.find(redis.call('info', 'server'), 'redis_version:7.0.15', 1, true) ~= nil";
    check(info, &["0"], ":1\r\n");
    let long =
        "local all = {} for i = 1, #KEYS do all[2 * i - 1] = KEYS[i] all[2 * i] = string.rep('x', 20000) end
        redis.call('mset', unpack(all)) local sum = 0
        for _, value in ipairs(redis.call('mget', unpack(KEYS))) do sum = sum + #value end return sum";
    let keys: Vec<String> = (0..50).map(|number| format!("k{number}")).collect();
    let mut words = vec!["50"];
    words.extend(keys.iter().map(String::as_str));
    check(long, &words, ":1000000\r\n");
    check(
        "return #redis.call('getrange', KEYS[1], 0, -1) .. redis.call('append', KEYS[1], string.rep('y', 100000))",
        &["1", "k"],
        "$7\r\n0100000\r\n",
    );
}

/// The destination's lane has no part in it until the result comes.
#[test]
fn what_a_call_makes_of_other_lanes_values_has_its_room() {
    let keys: Vec<String> = [0, 1, 2].map(|lane| key_of(lane, 3)).into();
    let script = "redis.call('setrange', KEYS[1], 5000, 'x') redis.call('setrange', KEYS[2], 9000, 'y')
        return {redis.call('bitop', 'or', KEYS[3], KEYS[1], KEYS[2]), redis.call('copy', KEYS[1], KEYS[2], 'replace'), redis.call('strlen', KEYS[2])}";
    let words = ["3", &keys[0], &keys[1], &keys[2]];
    check(script, &words, "*3\r\n:9001\r\n:1\r\n:5001\r\n");
}

/// Of which a slice takes so many.
#[test]
fn scripts_may_have_many_arguments() {
    let keys: Vec<String> = (0..700).map(|number| format!("k{number}")).collect();
    let script =
        "return {#KEYS, #ARGV, KEYS[1], KEYS[700], ARGV[1], ARGV[3000], redis.call('del', unpack(KEYS))}";
    let mut words = vec!["700"];
    words.extend(keys.iter().map(String::as_str));
    words.extend(["first"]);
    words.extend(std::iter::repeat_n("other", 2998));
    words.extend(["last"]);
    check(
        script,
        &words,
        "*7\r\n:700\r\n:3000\r\n$2\r\nk0\r\n$4\r\nk699\r\n$5\r\nfirst\r\n$4\r\nlast\r\n:0\r\n",
    );
}

#[test]
fn lists_are_returned_as_they_are() {
    check(
        "return {1, {}, {{'a'}, 'b', {ok = 'fine'}, false, 3.7}, {err = 'My err'}}",
        &["0"],
        "*4\r\n:1\r\n*0\r\n*5\r\n*1\r\n$1\r\na\r\n$1\r\nb\r\n+fine\r\n$-1\r\n:3\r\n-My err\r\n",
    );
    check("return {}", &["0"], "*0\r\n");
    check("return {1, nil, 3}", &["0"], "*1\r\n:1\r\n");
    check(
        "local t = {} for i = 1, 1000 do t[i] = {i} end return t",
        &["0"],
        &format!("*1000\r\n{}", (1..=1000).map(|number| format!("*1\r\n:{number}\r\n")).collect::<String>()),
    );
    let deep = "local t = 'x' for i = 1, 128 do t = {t} end return t";
    check(deep, &["0"], &format!("{}$1\r\nx\r\n", "*1\r\n".repeat(128)));
    check(
        &deep.replace("128", "129"),
        &["0"],
        &format!("{}-ERR reached lua stack limit\r\n", "*1\r\n".repeat(128)),
    );
    check(
        "local t = {string.rep('x', 1e6)} for i = 1, 10 do t = {t, t} end return t",
        &["0"],
        "-ERR the script's reply is larger than script-memory-limit\r\n",
    );
}

#[test]
fn what_a_script_may_not_call_is_refused_as_by_redis() {
    let check = |script: &str, want: &str| {
        let mut world = World::new(2);
        let client = world.connect();
        let got = say(&mut world, &client, &["EVAL", script, "1", "k"]);
        assert!(got.starts_with(want), "{script} gave {got:?}, not {want:?}");
    };
    check("return redis.call('nosuch')", "-ERR Unknown Redis command called from script script: ");
    check("return redis.call('get')", "-ERR Wrong number of args calling Redis command from script script: ");
    check(
        "return redis.call('eval', 'return 1', 0)",
        "-ERR This Redis command is not allowed from script script: ",
    );
    check("return redis.call('multi')", "-ERR This Redis command is not allowed from script script: ");
    check(
        "return redis.call('config', 'get', 'x')",
        "-ERR This Redis command is not allowed from script script: ",
    );
    check(
        "return redis.pcall('incr', KEYS[1], 2).err",
        "$58\r\nERR Wrong number of args calling Redis command from script",
    );
    check(
        "redis.call('set', KEYS[1], 'x') return redis.call('incr', KEYS[1])",
        "-ERR value is not an integer or out of range script: ",
    );
    let mut world = World::new(2);
    let client = world.connect();
    let got = say(&mut world, &client, &["EVAL_RO", "return redis.call('set', KEYS[1], 1)", "1", "k"]);
    assert!(got.starts_with("-ERR Write commands are not allowed from read-only scripts."), "{got}");
    let got = say(
        &mut world,
        &client,
        &["EVAL", "#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 1)", "1", "k"],
    );
    assert!(got.starts_with("-ERR Write commands are not allowed from read-only scripts."), "{got}");
    assert_eq!(
        say(&mut world, &client, &["EVAL_RO", "return redis.call('get', KEYS[1])", "1", "k"]),
        "$-1\r\n"
    );
}

#[test]
fn scripts_that_are_asked_for_wrongly() {
    for (words, want) in [
        (&["EVAL", "return 1", "x"][..], "-ERR value is not an integer or out of range\r\n"),
        (&["EVAL", "return 1", "-1"], "-ERR Number of keys can't be negative\r\n"),
        (&["EVAL", "return 1", "2", "k"], "-ERR Number of keys can't be greater than number of args\r\n"),
        (&["EVALSHA", "x", "0"], "-NOSCRIPT No matching script. Please use EVAL.\r\n"),
        (&["EVALSHA", "x", "y"], "-NOSCRIPT No matching script. Please use EVAL.\r\n"),
        (
            &["EVALSHA", "0123456789012345678901234567890123456789", "0"],
            "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        ),
        (&["SCRIPT", "FLUSH", "NOW"], "-ERR SCRIPT FLUSH only support SYNC|ASYNC option\r\n"),
        (&["SCRIPT", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n"),
        (&["SCRIPT", "DEBUG", "NO"], "+OK\r\n"),
        (&["SCRIPT", "DEBUG", "MAYBE"], "-ERR Use SCRIPT DEBUG YES/SYNC/NO\r\n"),
    ] {
        let mut world = World::new(2);
        let client = world.connect();
        assert_eq!(say(&mut world, &client, words), want, "{words:?}");
    }
}

#[test]
fn every_lane_knows_a_script_once_it_has_been_loaded() {
    let mut world = World::new(3);
    let clients: Vec<_> = (0..3).map(|lane| world.connect_by(lane, net::mem::Way::default())).collect();
    let script = "return redis.call('incrby', KEYS[1], ARGV[1])";
    let sha = script::Sha::of(script.as_bytes());
    let sha = std::str::from_utf8(sha.as_ref()).expect("digits");
    assert_eq!(say(&mut world, &clients[0], &["SCRIPT", "LOAD", script]), format!("$40\r\n{sha}\r\n"));
    for (client, want) in clients.iter().zip(1..) {
        let upper = sha.to_uppercase();
        assert_eq!(say(&mut world, client, &["EVALSHA", &upper, "1", "k", "1"]), format!(":{want}\r\n"));
    }
    assert_eq!(
        say(&mut world, &clients[1], &["SCRIPT", "EXISTS", sha, "x", sha]),
        "*3\r\n:1\r\n:0\r\n:1\r\n"
    );
    assert_eq!(say(&mut world, &clients[1], &["SCRIPT", "FLUSH"]), "+OK\r\n");
    for client in &clients {
        assert!(say(&mut world, client, &["EVALSHA", sha, "1", "k", "1"]).starts_with("-NOSCRIPT"));
    }
    // What EVAL brings is known, too.
    assert_eq!(say(&mut world, &clients[2], &["EVAL", script, "1", "k", "1"]), ":4\r\n");
    assert_eq!(say(&mut world, &clients[0], &["EVALSHA", sha, "1", "k", "1"]), ":5\r\n");
    let wrong = say(&mut world, &clients[0], &["EVAL", "return (", "0"]);
    assert!(wrong.starts_with("-ERR Error compiling script"), "{wrong}");
    let wrong = say(&mut world, &clients[0], &["SCRIPT", "LOAD", "return ("]);
    assert!(wrong.starts_with("-ERR Error compiling script"), "{wrong}");
    let info = world.ask(&clients[0], "INFO memory");
    assert!(info.contains("number_of_cached_scripts:1\r\n"), "{info}");
}

#[test]
fn scripts_of_eval_are_forgotten_for_newer_ones() {
    let mut world = World::new(2);
    let client = world.connect();
    let kept = "return 'kept'";
    say(&mut world, &client, &["SCRIPT", "LOAD", kept]);
    for number in 0..502 {
        send(&client, &["EVAL", &format!("return {number}"), "0"]);
        if number % 20 == 0 {
            hear(&mut world, &client);
        }
    }
    (0..20).for_each(|_| drop(hear(&mut world, &client)));
    let sha = |script: &str| {
        String::from_utf8(script::Sha::of(script.as_bytes()).as_ref().to_vec()).expect("digits")
    };
    let shas = [kept, "return 0", "return 1", "return 2", "return 501"].map(sha);
    let mut words = vec!["SCRIPT", "EXISTS"];
    words.extend(shas.iter().map(String::as_str));
    assert_eq!(say(&mut world, &client, &words), "*5\r\n:1\r\n:0\r\n:0\r\n:1\r\n:1\r\n");
    assert!(say(&mut world, &client, &["EVALSHA", &shas[1], "0"]).starts_with("-NOSCRIPT"));
    assert_eq!(say(&mut world, &client, &["EVALSHA", &shas[3], "0"]), ":2\r\n");
}

#[test]
fn a_key_that_was_not_declared_has_everything_locked() {
    let mut world = World::new(3);
    let client = world.connect();
    let keys: Vec<String> = (0..3).map(|lane| key_of(lane, 3)).collect();
    let reads = "return redis.call('get', ARGV[1])";
    assert_eq!(say(&mut world, &client, &["EVAL", reads, "0", &keys[2]]), "$-1\r\n");
    let size = "return redis.call('dbsize')";
    assert_eq!(say(&mut world, &client, &["EVAL", size, "1", "k"]), ":0\r\n");
    // Once it has written it cannot begin again.
    let late = "redis.call('set', KEYS[1], 1) return redis.call('incr', ARGV[1])";
    let got = say(&mut world, &client, &["EVAL", late, "1", &keys[0], &keys[1]]);
    let want = format!(
        "-ERR Script attempted to access a key that is not among its KEYS, after something was written: '{}'",
        keys[1]
    );
    assert!(got.starts_with(&want), "{got}");
    assert_eq!(
        say(&mut world, &client, &["EVAL", late, "1", &keys[0], &keys[1]]),
        ":1\r\n",
        "it is known for it"
    );
    // One that says so needs no second time.
    let says = format!("#!lua flags=allow-undeclared-keys\n{late}");
    assert_eq!(say(&mut world, &client, &["EVAL", &says, "1", &keys[0], &keys[2]]), ":1\r\n");
    assert_eq!(
        say(&mut world, &client, &["EVAL", "return redis.call('keys', '*')", "0"]).matches("key:").count(),
        3
    );
    // A database that SELECT chooses has no declared keys; it is chosen for the script alone.
    let other = "redis.call('select', 1) redis.call('set', KEYS[1], 'one') return redis.call('get', KEYS[1])";
    assert_eq!(say(&mut world, &client, &["EVAL", other, "1", &keys[0]]), "$3\r\none\r\n");
    assert_eq!(say(&mut world, &client, &["GET", &keys[0]]), "$1\r\n1\r\n");
    assert!(world.is_idle());
}

#[test]
fn a_script_without_end_keeps_its_keys_and_nobody_else() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let (client, other) = (world.connect(), world.connect());
        world.ask(&other, "CONFIG SET busy-reply-threshold 100");
        send(&client, &["EVAL", "while true do end", "1", "k"]);
        world.round(1_000_000);
        assert_eq!(
            say(&mut world, &other, &["SCRIPT", "KILL"]),
            "-NOTBUSY No scripts in execution right now.\r\n"
        );
        assert_eq!(say(&mut world, &other, &["SET", "other", "v"]), "+OK\r\n");
        assert_eq!(say(&mut world, &other, &["GET", "k"]), "", "it waits for the script");
        let killer = world.connect();
        world.round(100_000_000);
        assert_eq!(say(&mut world, &killer, &["SCRIPT", "KILL"]), "+OK\r\n");
        let got = hear(&mut world, &client);
        assert!(got.contains("Script killed by user with SCRIPT KILL"), "{got}");
        assert_eq!(hear(&mut world, &other), "$-1\r\n");
        // One that has written can't be ended.
        send(
            &client,
            &["EVAL", "redis.call('set', KEYS[1], 1) while redis.call('get', KEYS[1]) do end", "1", "w"],
        );
        assert_eq!(hear(&mut world, &client), "");
        world.round(200_000_000);
        let got = say(&mut world, &killer, &["SCRIPT", "KILL"]);
        assert!(got.starts_with("-UNKILLABLE Sorry"), "{got}");
        assert_eq!(say(&mut world, &killer, &["GET", "other"]), "$1\r\nv\r\n");
    }
}

/// Before it takes its locks, since nobody held its keys, as after.
#[test]
fn nobody_sees_half_of_a_script() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let [client, other, third] = [0, 1, 2].map(|_| world.connect());
        let script =
            "redis.call('set', KEYS[1], 'half') for i = 1, 100000 do end redis.call('set', KEYS[1], 'whole')";
        let get = "return redis.call('get', KEYS[1])";
        assert_eq!(say(&mut world, &third, &["EVAL", get, "1", "k"]), "$-1\r\n", "it is known from now on");
        send(&client, &["EVAL", script, "1", "k"]);
        (0..4).for_each(|_| world.round(0));
        send(&third, &["EVAL", get, "1", "k"]);
        for (words, want) in [
            (&["SET", "other", "v"][..], "+OK\r\n"),
            (&["EVAL", get, "1", "other"], "$1\r\nv\r\n"),
            (&["GET", "k"], ""),
        ] {
            send(&other, words);
            (0..6).for_each(|_| world.round(0));
            assert_eq!(String::from_utf8_lossy(&other.read_all()), want, "{words:?} on {lanes} lanes");
        }
        assert_eq!(third.read_all(), b"", "it waits as well");
        for waiting in [&other, &third] {
            assert_eq!(hear(&mut world, waiting), "$5\r\nwhole\r\n", "on {lanes} lanes");
            waiting.cut();
        }
        assert_eq!(hear(&mut world, &client), "$-1\r\n");
        audit(world, client);
    }
}

/// Whatever it calls, one ask and one answer is all that goes from lane to lane.
#[test]
fn a_script_runs_on_the_lane_of_its_keys() {
    let mut world = World::new(3);
    let clients = [0, 1].map(|lane| world.connect_by(lane, net::mem::Way::default()));
    let key = key_of(1, 3);
    let script = "for i = 1, 100 do redis.call('incr', KEYS[1]) end return redis.call('get', KEYS[1])";
    // The first asks the control thread for the script.
    for (client, want) in clients.iter().zip(["$3\r\n100\r\n", "$3\r\n200\r\n"]) {
        assert_eq!(say(&mut world, client, &["EVAL", script, "1", &key]), want);
    }
    let stats = |world: &World| [0, 1, 2].map(|lane| world.lanes[lane].stats());
    let before = stats(&world);
    assert_eq!(say(&mut world, &clients[0], &["EVAL", script, "1", &key]), "$3\r\n300\r\n");
    let after = stats(&world);
    let asks: Vec<u64> = (0..3).map(|lane| after[lane].asks_served - before[lane].asks_served).collect();
    let begun: Vec<u64> = (0..3).map(|lane| after[lane].transactions - before[lane].transactions).collect();
    assert_eq!((asks, begun), (vec![0, 1, 0], vec![0, 1, 0]));
    // What it calls of the client is as at home; what it has not declared is found from there.
    let calls = "return {redis.call('ping'), redis.call('exists', KEYS[1]), redis.call('exists', ARGV[1])}";
    let far = key_of(2, 3);
    say(&mut world, &clients[0], &["SET", &far, "x"]);
    assert_eq!(
        say(&mut world, &clients[0], &["EVAL", calls, "1", &key, &far]),
        "*3\r\n+PONG\r\n:1\r\n:1\r\n"
    );
    clients[1].cut();
    let [client, _] = clients;
    audit(world, client);
}

#[test]
fn short_scripts_run_one_behind_the_other() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let client = world.connect_by(0, net::mem::Way::default());
        let (key, script) = (key_of(0, lanes), "return redis.call('incr', KEYS[1])");
        assert_eq!(say(&mut world, &client, &["EVAL", script, "1", &key]), ":1\r\n");
        (0..30).for_each(|_| send(&client, &["EVAL", script, "1", &key]));
        world.round(0);
        world.round(0);
        let want: String = (2..32).map(|number| format!(":{number}\r\n")).collect();
        assert_eq!(String::from_utf8_lossy(&client.read_all()), want, "on {lanes} lanes");
        // Of those that are not short the next waits for the next turn, and the one after it.
        let long = "for i = 1, 300 do redis.call('incr', KEYS[1]) end";
        (0..30).for_each(|_| send(&client, &["EVAL", long, "1", &key]));
        let before = world.lanes[0].stats();
        hear(&mut world, &client);
        let after = world.lanes[0].stats();
        assert!(after.turn_slices_max <= 16, "{} slices in a turn", after.turn_slices_max);
        assert_eq!(after.transactions - before.transactions, 30);
        audit(world, client);
    }
}

#[test]
fn scripts_stand_in_a_multi_like_other_commands() {
    let mut world = World::new(3);
    let client = world.connect();
    let keys: Vec<String> = (0..3).map(|lane| key_of(lane, 3)).collect();
    let script = "return redis.call('incrby', KEYS[1], ARGV[1])";
    for words in [
        &["MULTI"][..],
        &["EVAL", script, "1", &keys[0], "2"],
        &["SET", &keys[1], "x"],
        &["EVAL", "return {redis.call('get', ARGV[1]), redis.call('dbsize')}", "0", &keys[1]],
        &["EVALSHA", "x", "0"],
        &["EVAL", script, "x", &keys[0], "2"],
        &["GET", &keys[0]],
    ] {
        send(&client, words);
    }
    hear(&mut world, &client);
    assert_eq!(
        say(&mut world, &client, &["EXEC"]),
        "*6\r\n:2\r\n+OK\r\n*2\r\n$1\r\nx\r\n:2\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n\
         -ERR value is not an integer or out of range\r\n$1\r\n2\r\n"
    );
    assert!(world.is_idle());
}

#[test]
fn on_a_lanes_own_port_a_script_is_of_its_slot() {
    let mut world = World::new(2);
    let client = world.connect_to(0);
    let (here, there) = (key_of(0, 2), key_of(1, 2));
    let get = "return redis.call('get', KEYS[1])";
    assert_eq!(say(&mut world, &client, &["EVAL", get, "1", &here]), "$-1\r\n");
    let slot = Slot::of(there.as_bytes()).number();
    assert!(say(&mut world, &client, &["EVAL", get, "1", &there]).starts_with(&format!("-MOVED {slot} ")));
    assert!(say(&mut world, &client, &["EVAL", get, "2", &here, &there]).starts_with("-CROSSSLOT "));
    let got = say(&mut world, &client, &["EVAL", "return redis.call('get', ARGV[1])", "1", &here, &there]);
    assert!(got.starts_with("-ERR Script attempted to access a non local key in a cluster node"), "{got}");
    assert_eq!(
        say(&mut world, &client, &["EVAL", "return redis.call('get', ARGV[1])", "0", &here]),
        "$-1\r\n"
    );
    assert!(world.is_idle());
}

/// As `redis-server --cluster-enabled yes` 7.0.15 answers, with all slots its own, of which `a` and `b` have two.
#[test]
fn on_a_lanes_own_port_a_call_is_of_one_slot_and_a_script_with_flags_too() {
    const SEVERAL: &str = "-ERR Script attempted to access a non local key in a cluster node";
    const OTHER: &str = "-ERR Script attempted to access keys that do not hash to the same slot";
    let got = |script: &str, keys: &[&str]| {
        let mut world = World::new(1);
        let (node, shared) = (world.connect_to(0), world.connect());
        let count = keys.len().to_string();
        let words = [&["EVAL", script, &count], keys].concat();
        assert!(!say(&mut world, &shared, &words).starts_with("-ERR Script"), "shared port: {script}");
        let reply = say(&mut world, &node, &words);
        assert!(world.is_idle());
        reply
    };
    let check = |script: &str, keys: &[&str], want: &str| {
        let reply = got(script, keys);
        assert!(reply.starts_with(want), "{script}, {keys:?}: {reply}");
    };
    check("return redis.call('mget', 'a', 'b')", &["a"], SEVERAL);
    check("return redis.call('mget', 'b', 'a')", &[], SEVERAL);
    check("return redis.call('copy', 'a', 'b')", &["a"], SEVERAL);
    check("return redis.call('mget', 'b', 'b')", &["a"], "*2\r\n$-1\r\n$-1\r\n");
    check("redis.call('get', 'a') return redis.call('get', 'b')", &["a"], "$-1\r\n");
    check(
        "return redis.pcall('mget', 'a', 'b').err",
        &["a"],
        &format!("${}\r\n{}", SEVERAL.len() - 1, &SEVERAL[1..]),
    );
    for (lines, keys, want) in [
        ("#!lua\nreturn redis.call('get', 'b')", &["a"][..], OTHER),
        ("#!lua\nredis.call('get', 'a') return redis.call('get', 'b')", &[], OTHER),
        ("#!lua\nredis.call('get', 'a') return redis.call('mget', 'b', 'b')", &[], OTHER),
        ("#!lua\nredis.call('get', 'a') return redis.call('mget', 'b', 'a')", &[], SEVERAL),
        ("#!lua\nredis.call('get', 'a') return redis.call('spublish', 'b', 'b')", &[], OTHER),
        ("#!lua\nredis.call('get', 'b') return redis.call('mget', 'b', '{b}2')", &[], "*2\r\n"),
        (
            "#!lua flags=allow-cross-slot-keys\nredis.call('get', 'a') return redis.call('get', 'b')",
            &[],
            "$-1\r\n",
        ),
        ("#!lua flags=allow-cross-slot-keys\nreturn redis.call('mget', 'a', 'b')", &[], SEVERAL),
    ] {
        check(lines, keys, want);
    }
    let mut world = World::new(1);
    let node = world.connect_to(0);
    let get = |key: &str| format!("#!lua\nreturn redis.call('get', '{key}')");
    for queued in [&["GET", "a"][..], &["EVAL", &get("a"), "0"]] {
        say(&mut world, &node, &["MULTI"]);
        say(&mut world, &node, queued);
        say(&mut world, &node, &["EVAL", &get("b"), "0"]);
        let reply = say(&mut world, &node, &["EXEC"]);
        assert!(reply.starts_with(&format!("*2\r\n$-1\r\n{OTHER}")), "{queued:?}: {reply}");
    }
    say(
        &mut world,
        &node,
        &[
            "FUNCTION",
            "LOAD",
            "#!lua name=l\nredis.register_function('f', function(k, a) return redis.call('get', a[1]) end)",
        ],
    );
    assert!(say(&mut world, &node, &["FCALL", "f", "1", "a", "b"]).starts_with(OTHER));
    assert_eq!(say(&mut world, &node, &["FCALL", "f", "0", "b"]), "$-1\r\n");
    let stats = say(&mut world, &node, &["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_get:calls=3,") && stats.contains("rejected_calls=3,"), "{stats}");
}

#[test]
fn what_a_script_has_left_is_gone_when_the_next_one_needs_it() {
    let mut world = World::told(1, &[], |settings: &mut Settings| settings.script_memory_max = 8 << 20);
    let client = world.connect();
    let leaves = "local t = {} for i = 1, 90000 do t[i] = {} end return #t";
    let needs = "return #string.rep('x', 4000000)";
    for _ in 0..5 {
        for script in [leaves, needs] {
            send(&client, &["EVAL", script, "0"]);
        }
    }
    (0..20).for_each(|_| (0..40).for_each(|_| world.round(0)));
    assert_eq!(hear(&mut world, &client), ":90000\r\n:4000000\r\n".repeat(5));
    audit(world, client);
}

/// However many there are, of this lane's clients and of other lanes'.
#[test]
fn scripts_keep_nobody_else_waiting() {
    let mut world = World::new(3);
    let keys: Vec<String> = (0..60).map(|number| format!("{{{}}}:{number}", key_of(2, 3))).collect();
    let senders: Vec<Client> = (0..60).map(|_| world.connect()).collect();
    let script = "for i = 1, 2000 do end return redis.call('get', KEYS[1])";
    assert_eq!(say(&mut world, &senders[0], &["EVAL", script, "1", &keys[0]]), "$-1\r\n");
    let clients = [1, 2].map(|lane| world.connect_by(lane, net::mem::Way::default()));
    for turn in 0..20 {
        for (sender, key) in senders.iter().zip(&keys) {
            send(sender, &["EVAL", script, "1", key]);
        }
        for client in &clients {
            send(client, &["EXISTS", &key_of(2, 3)]);
            let mut waited = 0;
            while client.read_all().is_empty() {
                world.round(0);
                waited += 1;
            }
            assert!(waited < 6, "a client waited for {waited} turns, at {turn}");
        }
    }
    (0..40).for_each(|_| drop(hear(&mut world, &clients[0])));
    senders.iter().for_each(Client::cut);
    let [client, other] = clients;
    other.cut();
    audit(world, client);
}

/// As many as there is credit for at most wait for each other otherwise, each holding what another needs.
#[test]
fn a_script_that_needs_other_lanes_holds_no_credit_of_theirs() {
    let mut world = World::new(2);
    let clients = [0, 1].map(|lane| world.connect_by(lane, net::mem::Way::default()));
    let keys = [0, 1].map(|lane| key_of(lane, 2));
    let says = "#!lua flags=allow-undeclared-keys\nreturn redis.call('dbsize')";
    let strays = "return redis.call('mget', KEYS[1], ARGV[1])";
    for script in [says, strays] {
        for home in [0, 1] {
            let (here, there) = (&keys[home], &keys[1 - home]);
            let begun = |world: &World| world.lanes[home].stats().transactions;
            for round in 0..2 {
                let before = begun(&world);
                let got = say(&mut world, &clients[home], &["EVAL", script, "1", there, here]);
                assert_eq!(got, if script == says { ":0\r\n" } else { "*2\r\n$-1\r\n$-1\r\n" });
                assert_eq!(
                    begun(&world) - before,
                    1,
                    "in round {round} {script} has come back to lane {home}"
                );
            }
        }
    }
    let [client, other] = clients;
    other.cut();
    audit(world, client);
}

#[test]
fn a_script_that_is_not_heard_leaves_the_next_command_heard() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let client = world.connect();
        let long = "for i = 1, 5000 do end return 'not heard'";
        for script in ["return 'not heard'", long] {
            for _ in 0..2 {
                for key in [key_of(0, lanes), key_of(lanes - 1, lanes)] {
                    send(&client, &["CLIENT", "REPLY", "SKIP"]);
                    send(&client, &["EVAL", script, "1", &key]);
                    send(&client, &["ECHO", "a"]);
                    assert_eq!(
                        say(&mut world, &client, &["ECHO", "b"]),
                        "$1\r\na\r\n$1\r\nb\r\n",
                        "{script}"
                    );
                }
            }
        }
        audit(world, client);
    }
}

/// Another script holds more than half of the memory.
#[test]
fn a_script_that_waits_for_room_keeps_no_keys() {
    let mut world = World::told(1, &[], |settings: &mut Settings| settings.script_memory_max = 8 << 20);
    let [client, other, third] = [0, 1, 2].map(|_| world.connect());
    let get = "return redis.call('get', KEYS[1])";
    assert_eq!(say(&mut world, &other, &["EVAL", get, "1", "k"]), "$-1\r\n");
    send(&client, &["EVAL", "local t = {} for i = 1, 80000 do t[i] = {} end while true do end", "1", "w"]);
    (0..400).for_each(|_| world.round(1_000_000));
    // Whatever has run since leaves garbage.
    send(&third, &["EVAL", get, "1", "z"]);
    while third.read_all().is_empty() {
        world.round(0);
    }
    send(&other, &["EVAL", get, "1", "k"]);
    (0..2).for_each(|_| world.round(0));
    assert_eq!(other.read_all(), b"", "it waits");
    assert_eq!(say(&mut world, &third, &["SET", "k", "v"]), "+OK\r\n", "the key is free");
    (0..400).for_each(|_| world.round(1_000_000));
    assert_eq!(hear(&mut world, &other), "$1\r\nv\r\n");
    world.ask(&third, "CONFIG SET busy-reply-threshold 1");
    assert_eq!(say(&mut world, &third, &["SCRIPT", "KILL"]), "+OK\r\n");
    hear(&mut world, &client);
    [other, third].iter().for_each(Client::cut);
    audit(world, client);
}

/// Turns until a command is answered, each of which has served another client.
fn turns_of(world: &mut World, client: &Client, other: &Client, words: &[&str]) -> usize {
    send(client, words);
    send(client, &["PING"]);
    for turn in 1.. {
        send(other, &["PING"]);
        world.round(0);
        assert_eq!(other.read_all(), b"+PONG\r\n", "in turn {turn} of {words:?}");
        if client.read_all().ends_with(b"+PONG\r\n") {
            return turn;
        }
    }
    unreachable!("it is answered")
}

#[test]
fn long_replies_are_read_and_returned_in_slices() {
    const COUNT: usize = 15_000;
    let mut world = World::new(1);
    let (client, other) = (world.connect(), world.connect());
    for first in (0..COUNT).step_by(1000) {
        let keys: Vec<String> = (first..first + 1000).map(|number| format!("k{number}")).collect();
        let words: Vec<&str> =
            std::iter::once("MSET").chain(keys.iter().flat_map(|key| [&key[..], "v"])).collect();
        assert_eq!(say(&mut world, &client, &words), "+OK\r\n");
    }
    let script = "return #redis.call('keys', '*')";
    send(&client, &["EVAL", script, "0"]);
    (0..200).for_each(|_| world.round(0));
    assert_eq!(hear(&mut world, &client), format!(":{COUNT}\r\n"));
    let alone = turns_of(&mut world, &client, &other, &["KEYS", "*"]);
    let scripted = turns_of(&mut world, &client, &other, &["EVAL", script, "0"]);
    // A turn has 1,024 elements of what takes several steps.
    assert!(scripted >= alone + COUNT / 1024, "KEYS takes {alone} turns, in a script {scripted}");
    let returned = turns_of(&mut world, &client, &other, &["EVAL", "return redis.call('keys', '*')", "0"]);
    assert!(returned >= scripted + COUNT / 1024, "in a script {scripted} turns, and returned {returned}");
    other.cut();
    audit(world, client);
}

#[test]
fn a_monitor_sees_what_a_script_calls() {
    let mut world = World::new(2);
    let (client, monitor) = (world.connect(), world.connect());
    // Known, it is over at once.
    say(&mut world, &client, &["EVAL", "redis.call('set', KEYS[1], 'v')", "1", "k"]);
    assert_eq!(say(&mut world, &monitor, &["MONITOR"]), "+OK\r\n");
    say(&mut world, &client, &["EVAL", "redis.call('set', KEYS[1], 'v')", "1", "k"]);
    let lines = hear(&mut world, &monitor);
    let ends = [r#" "EVAL" "redis.call('set', KEYS[1], 'v')" "1" "k""#, r#" [0 lua] "set" "k" "v""#];
    assert!(
        lines.lines().zip(ends).all(|(line, end)| line.ends_with(end)) && lines.lines().count() == 2,
        "{lines}"
    );
    for words in
        [&["MULTI"][..], &["EVAL", "return redis.call('get', KEYS[1])", "1", "k"], &["PING"], &["EXEC"]]
    {
        say(&mut world, &client, words);
    }
    let lines = hear(&mut world, &monitor);
    let names: Vec<&str> = lines.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(names, ["MULTI", "EVAL", "PING", "get", "EXEC"]);
}

#[test]
fn what_a_script_says_is_in_the_log_from_loglevel_on() {
    let mut world = World::new(1);
    let client = world.connect();
    let script = "redis.log(redis.LOG_VERBOSE, 'low') redis.log(redis.LOG_WARNING, 'high\\nline')";
    assert_eq!(say(&mut world, &client, &["EVAL", script, "0"]), "$-1\r\n");
    assert_eq!(world.machine.warned, ["a script says: high\\nline"]);
}

#[test]
fn a_pause_for_writes_holds_scripts_that_do_not_say_they_only_read() {
    let mut world = World::new(1);
    let (client, other) = (world.connect(), world.connect());
    world.ask(&client, "CLIENT PAUSE 1000000 WRITE");
    let reads = "#!lua flags=no-writes\nreturn 1";
    assert_eq!(say(&mut world, &other, &["EVAL", reads, "0"]), ":1\r\n");
    assert_eq!(say(&mut world, &other, &["EVAL_RO", "return 1", "0"]), ":1\r\n");
    assert_eq!(say(&mut world, &other, &["EVAL", "return 1", "0"]), "");
    world.ask(&client, "CLIENT UNPAUSE");
    assert_eq!(hear(&mut world, &other), ":1\r\n");
}

#[test]
fn a_new_script_is_in_the_slow_log_once() {
    let mut world = World::new(2);
    let client = world.connect();
    world.ask(&client, "CONFIG SET slowlog-log-slower-than 0");
    world.ask(&client, "SLOWLOG RESET");
    assert_eq!(say(&mut world, &client, &["EVAL", "return 42", "0", "a"]), ":42\r\n");
    (0..10).for_each(|_| world.round(1_000_000));
    let got = world.ask(&client, "SLOWLOG GET");
    assert_eq!(got.matches("EVAL").count(), 1, "{got}");
}

#[test]
fn what_the_control_thread_answers_speaks_as_the_script_has_said() {
    for (lane_count, hello) in [(1, "HELLO 2"), (2, "HELLO 2"), (2, "HELLO 3")] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        world.ask(&client, hello);
        for (speaks, answer, want) in [
            (3, "redis.call('MEMORY','STATS').map", "table"),
            (3, "redis.call('INFO','server')", "table"),
            (2, "redis.call('MEMORY','STATS').map", "nil"),
            (2, "redis.call('INFO','server')", "string"),
        ] {
            let script = format!("redis.setresp({speaks}) return type({answer})");
            let got = say(&mut world, &client, &["EVAL", &script, "0"]);
            assert_eq!(got, format!("${}\r\n{want}\r\n", want.len()), "{hello}: {script}");
        }
        // Itself it is answered as ever.
        let script = "redis.setresp(3) return redis.call('MEMORY','STATS')";
        let reply = say(&mut world, &client, &["EVAL", script, "0"]);
        assert_eq!(reply.starts_with('%'), hello == "HELLO 3", "{hello}: {reply}");
    }
}
