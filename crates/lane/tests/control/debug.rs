//! DEBUG: who may use it, and what it does to lanes.

use crate::world::World;

fn debuggable(lane_count: u16) -> World {
    World::with(lane_count, &[("enable-debug-command", "local")])
}

#[test]
fn nobody_may_debug_unless_the_server_was_started_for_it() {
    let mut world = World::new(1);
    let client = world.connect();
    assert!(
        world
            .ask(&client, "DEBUG SLEEP 0")
            .starts_with("-ERR DEBUG command not allowed. If the enable-debug")
    );
    assert!(world.ask(&client, "CONFIG SET enable-debug-command yes").contains("can't set immutable config"));
    let mut world = debuggable(1);
    let client = world.connect();
    assert!(world.ask(&client, "DEBUG HELP").starts_with("*24\r\n+DEBUG <subcommand>"));
    assert_eq!(
        world.ask(&client, "DEBUG NOSUCH"),
        "-ERR unknown subcommand or wrong number of arguments for 'NOSUCH'. Try DEBUG HELP.\r\n"
    );
    assert!(world.ask(&client, "DEBUG RELOAD").starts_with("-ERR this server keeps its data in memory only"));
    assert_eq!(world.ask(&client, "DEBUG ERROR MINE"), "-MINE\r\n");
}

#[test]
fn every_type_of_reply_has_an_example() {
    let examples = [
        ("string", "$11\r\nHello World\r\n", "$11\r\nHello World\r\n"),
        ("integer", ":12345\r\n", ":12345\r\n"),
        ("double", "$5\r\n3.141\r\n", ",3.141\r\n"),
        ("null", "$-1\r\n", "_\r\n"),
        ("array", "*3\r\n:0\r\n:1\r\n:2\r\n", "*3\r\n:0\r\n:1\r\n:2\r\n"),
        ("set", "*3\r\n:0\r\n:1\r\n:2\r\n", "~3\r\n:0\r\n:1\r\n:2\r\n"),
        ("map", "*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n", "%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n"),
        ("true", ":1\r\n", "#t\r\n"),
        ("verbatim", "$25\r\nThis is a verbatim\nstring\r\n", "=29\r\ntxt:This is a verbatim\nstring\r\n"),
        (
            "push",
            "-ERR RESP2 is not supported by this command\r\n",
            ">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n$40\r\nSome real reply following the push reply\r\n",
        ),
    ];
    let mut world = debuggable(1);
    let (second, third) = (world.connect(), world.connect());
    world.ask(&third, "HELLO 3");
    for (name, in_second, in_third) in examples {
        let command = format!("DEBUG PROTOCOL {name}");
        assert_eq!(world.ask(&second, &command), in_second, "{name}");
        assert_eq!(world.ask(&third, &command), in_third, "{name}");
    }
    let attributes = world.ask(&third, "DEBUG PROTOCOL attrib");
    assert!(attributes.starts_with("|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n$39\r\n"));
    assert!(world.ask(&second, "DEBUG PROTOCOL bignum").contains("1234567999999999999999999999999999999"));
    assert!(world.ask(&second, "DEBUG PROTOCOL other").starts_with("-ERR Wrong protocol type name."));
}

#[test]
fn a_keys_own_lane_describes_it() {
    let mut world = debuggable(3);
    let client = world.connect();
    for (key, value, encoding) in [("foo", "12345", "int"), ("bar", "text", "embstr"), ("baz", "9", "int")] {
        world.ask(&client, &format!("SET {key} {value}"));
        let line = world.ask(&client, &format!("DEBUG OBJECT {key}"));
        assert!(
            line.starts_with("+Value at:0x") && line.contains(&format!(" encoding:{encoding} ")),
            "{line}"
        );
    }
    // A number that grows in its place stays there.
    let before = world.ask(&client, "DEBUG OBJECT foo");
    world.ask(&client, "INCR foo");
    assert_eq!(world.ask(&client, "DEBUG OBJECT foo"), before);
    assert_eq!(world.ask(&client, "DEBUG OBJECT none"), "-ERR no such key\r\n");
}

#[test]
fn keys_whose_time_has_come_may_be_left_where_they_are() {
    let mut world = debuggable(3);
    let client = world.connect();
    assert_eq!(world.ask(&client, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
    world.ask(&client, "MSET a 1 b 2 c 3 d 4");
    for key in ["a", "b", "c"] {
        world.ask(&client, &format!("PEXPIRE {key} 5"));
    }
    assert_eq!(world.ask(&client, "DBSIZE"), ":4\r\n", "they are still there");
    assert_eq!(world.ask(&client, "GET a"), "$-1\r\n", "and nobody sees them");
    assert_eq!(world.ask(&client, "DBSIZE"), ":3\r\n", "whoever looks takes out what housekeeping leaves");
    assert_eq!(world.ask(&client, "EXISTS b d"), ":1\r\n");
    assert_eq!(world.ask(&client, "DBSIZE"), ":2\r\n");
    assert_eq!(world.ask(&client, "DEBUG SET-ACTIVE-EXPIRE 1"), "+OK\r\n");
    assert_eq!(world.ask(&client, "DBSIZE"), ":1\r\n");
}

/// What builds on a key's old state begins with nothing once its time has come, and does not inherit its end.
#[test]
fn what_builds_on_a_key_whose_time_has_come_begins_anew() {
    let mut world = debuggable(2);
    let client = world.connect();
    assert_eq!(world.ask(&client, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
    for (command, reply, value) in [
        ("INCR key", ":1\r\n", "1"),
        ("DECRBY key 5", ":-5\r\n", "-5"),
        ("INCRBYFLOAT key 1.5", "$3\r\n1.5\r\n", "1.5"),
        ("APPEND key new", ":3\r\n", "new"),
        ("SETRANGE key 2 x", ":3\r\n", "\0\0x"),
        ("SETBIT key 1 1", ":0\r\n", "@"),
        ("BITFIELD key INCRBY u8 0 65", "*1\r\n:65\r\n", "A"),
        ("SET key new KEEPTTL", "+OK\r\n", "new"),
        ("SET key new NX", "+OK\r\n", "new"),
    ] {
        assert_eq!(world.ask(&client, "SET key 4711 PX 5"), "+OK\r\n");
        assert_eq!(world.ask(&client, "DBSIZE"), ":1\r\n", "{command}: it is still there");
        assert_eq!(world.ask(&client, command), reply, "{command}");
        assert_eq!(world.ask(&client, "TTL key"), ":-1\r\n", "{command}");
        assert_eq!(world.ask(&client, "GET key"), format!("${}\r\n{value}\r\n", value.len()), "{command}");
    }
}

#[test]
fn a_lane_that_sleeps_answers_afterwards_and_the_others_meanwhile() {
    let mut world = debuggable(2);
    let client = world.connect();
    let nodes = [world.connect_to(0), world.connect_to(1)];
    // A command has twenty rounds of a millisecond to be answered.
    assert_eq!(world.ask(&client, "DEBUG SLEEP 0.1"), "");
    assert_eq!(world.ask(&nodes[0], "PING"), "", "its lane sleeps");
    assert_eq!(world.ask(&nodes[1], "PING"), "+PONG\r\n", "the other does not");
    for _ in 0..100 {
        world.round(1_000_000);
    }
    assert_eq!(client.read_all(), b"+OK\r\n");
    assert_eq!(nodes[0].read_all(), b"+PONG\r\n");
    assert!(world.ask(&client, "DEBUG SLEEP x").starts_with("-ERR DEBUG SLEEP takes seconds"));
    assert!(world.ask(&client, "DEBUG SLEEP -1").starts_with("-ERR DEBUG SLEEP takes seconds"));
}
