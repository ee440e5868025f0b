//! Pub/sub as clients see it, over one lane and over several.

use net::mem;

use crate::world::World;

/// An array of words; those that begin with a colon are numbers.
fn array(words: &[&str]) -> String {
    frame('*', words)
}

/// A push of RESP3.
fn push(words: &[&str]) -> String {
    frame('>', words)
}

fn frame(mark: char, words: &[&str]) -> String {
    let put = |word: &&str| match word.strip_prefix(':') {
        Some(number) => format!(":{number}\r\n"),
        None => format!("${}\r\n{word}\r\n", word.len()),
    };
    format!("{mark}{}\r\n{}", words.len(), words.iter().map(put).collect::<String>())
}

/// A client that says these is answered with those, one after the other, however many lanes there are.
fn check(steps: &[(&str, &str)]) {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        for (command, want) in steps {
            assert_eq!(world.ask(&client, command), *want, "{command} over {lane_count} lanes");
        }
        leave(&mut world, vec![client]);
    }
}

/// Clients go, and nothing is left of them.
fn leave(world: &mut World, clients: Vec<mem::Client>) {
    drop(clients);
    for _ in 0..400 {
        world.round(1_000_000);
    }
    world.lanes.iter().for_each(lane::Lane::audit);
}

fn text(client: &mem::Client) -> String {
    String::from_utf8_lossy(&client.read_all()).into_owned()
}

const ONLY: &str = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";

#[test]
fn who_has_subscribed_in_resp2_says_little_else() {
    let refused = |name: &str| format!("-ERR Can't execute '{name}': {ONLY}\r\n");
    let three = |word, name, count| array(&[word, name, count]);
    check(&[
        (
            "SUBSCRIBE a b a",
            &[three("subscribe", "a", ":1"), three("subscribe", "b", ":2"), three("subscribe", "a", ":2")]
                .concat(),
        ),
        ("PSUBSCRIBE a* *", &[three("psubscribe", "a*", ":3"), three("psubscribe", "*", ":4")].concat()),
        ("PING", &array(&["pong", ""])),
        ("PING hello", &array(&["pong", "hello"])),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"),
        ("GET x", &refused("get")),
        ("CLIENT LIST", &refused("client|list")),
        ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n"),
        ("HELLO 3", &refused("hello")),
        ("MULTI", &refused("multi")),
        ("PUBLISH a x", &refused("publish")),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("SSUBSCRIBE s", &three("ssubscribe", "s", ":1")),
        ("UNSUBSCRIBE a zz", &[three("unsubscribe", "a", ":3"), three("unsubscribe", "zz", ":3")].concat()),
        ("UNSUBSCRIBE", &three("unsubscribe", "b", ":2")),
        ("PUNSUBSCRIBE", &[three("punsubscribe", "*", ":1"), three("punsubscribe", "a*", ":0")].concat()),
        ("GET x", &refused("get")),
        ("SUNSUBSCRIBE", &three("sunsubscribe", "s", ":0")),
        ("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"),
        ("PUNSUBSCRIBE", "*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n"),
        ("SUNSUBSCRIBE", "*3\r\n$12\r\nsunsubscribe\r\n$-1\r\n:0\r\n"),
        ("GET x", "$-1\r\n"),
    ]);
}

#[test]
fn a_transaction_may_end_subscriptions_that_nobody_has() {
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        let commands =
            ["MULTI", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "SUBSCRIBE a", "UNSUBSCRIBE", "EXEC"];
        let replies = world.ask_all(&client, &commands);
        let none = |kind: &str| format!("*3\r\n${}\r\n{kind}\r\n$-1\r\n:0\r\n", kind.len());
        let three =
            |kind: &str, count: &str| format!("*3\r\n${}\r\n{kind}\r\n$1\r\na\r\n{count}\r\n", kind.len());
        let want = [
            none("unsubscribe"),
            none("punsubscribe"),
            none("sunsubscribe"),
            three("subscribe", ":1"),
            three("unsubscribe", ":0"),
        ];
        assert!(replies.ends_with(&format!("*5\r\n{}", want.concat())), "{replies}");
    }
}

/// Everything is allowed in RESP3, and a client's own message comes before the number of those who got it.
#[test]
fn in_resp3_messages_are_pushes_between_replies() {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        world.ask(&client, "HELLO 3");
        let message = push(&["message", "a", "x"]);
        let pmessage = push(&["pmessage", "a*", "a", "x"]);
        for (command, want) in [
            ("SUBSCRIBE a", push(&["subscribe", "a", ":1"])),
            ("PSUBSCRIBE a*", push(&["psubscribe", "a*", ":2"])),
            ("PUBLISH a x", format!("{message}{pmessage}:2\r\n")),
            ("PING", "+PONG\r\n".to_owned()),
            ("SPUBLISH a y", ":0\r\n".to_owned()),
            ("SSUBSCRIBE a", push(&["ssubscribe", "a", ":1"])),
            ("SPUBLISH a y", format!("{}:1\r\n", push(&["smessage", "a", "y"]))),
            ("PUBLISH b x", ":0\r\n".to_owned()),
            ("UNSUBSCRIBE", push(&["unsubscribe", "a", ":1"])),
            ("SUNSUBSCRIBE", push(&["sunsubscribe", "a", ":0"])),
            ("PUNSUBSCRIBE", push(&["punsubscribe", "a*", ":0"])),
            ("PUNSUBSCRIBE", ">3\r\n$12\r\npunsubscribe\r\n_\r\n:0\r\n".to_owned()),
            ("SUBSCRIBE a", push(&["subscribe", "a", ":1"])),
        ] {
            assert_eq!(world.ask(&client, command), want, "{command} over {lane_count} lanes");
        }
        let hello = world.ask(&client, "HELLO 2");
        assert!(hello.starts_with("*14"), "{hello}");
        assert!(world.ask(&client, "GET x").contains(ONLY));
        leave(&mut world, vec![client]);
    }
}

#[test]
fn reset_and_the_connections_end_take_subscriptions_back() {
    check(&[
        ("SUBSCRIBE a", &array(&["subscribe", "a", ":1"])),
        ("PSUBSCRIBE b", &array(&["psubscribe", "b", ":2"])),
        ("SSUBSCRIBE c", &array(&["ssubscribe", "c", ":1"])),
        ("RESET", "+RESET\r\n"),
        ("PUBSUB NUMSUB a", &array(&["a", ":0"])),
        ("PUBSUB NUMPAT", ":0\r\n"),
        ("PUBSUB SHARDCHANNELS", "*0\r\n"),
        ("PUBLISH a x", ":0\r\n"),
        ("SUBSCRIBE a", &array(&["subscribe", "a", ":1"])),
        ("RESET", "+RESET\r\n"),
    ]);
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let (one, other) = (world.connect(), world.connect());
        world.ask(&one, "SUBSCRIBE a");
        assert_eq!(world.ask(&other, "PUBLISH a x"), ":1\r\n");
        drop(one);
        world.round(1_000_000);
        assert_eq!(world.ask(&other, "PUBLISH a x"), ":0\r\n");
        assert_eq!(world.ask(&other, "PUBSUB CHANNELS"), "*0\r\n");
        leave(&mut world, vec![other]);
    }
}

/// What is left of earlier subscriptions is taken back in steps: nothing that comes meanwhile reaches who has said RESET.
#[test]
fn who_has_reset_hears_of_new_subscriptions_alone() {
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let (client, other) = (world.connect(), world.connect());
        let names: Vec<String> = (0..5000).map(|number| format!("n{number:04}")).collect();
        for some in names.chunks(100) {
            world.ask(&client, &format!("SUBSCRIBE {}", some.join(" ")));
        }
        let said = |words: &str| {
            let mut bytes = Vec::new();
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            wire::client::command(&mut bytes, &words);
            bytes
        };
        client.write(&[said("RESET"), said("SUBSCRIBE new")].concat());
        other.write(&[said("PUBLISH n4999 old"), said("PUBLISH new fresh")].concat());
        (0..20).for_each(|_| world.round(1_000_000));
        let want = ["+RESET\r\n", &array(&["subscribe", "new", ":1"]), &array(&["message", "new", "fresh"])]
            .concat();
        assert_eq!((text(&client), text(&other)), (want, ":0\r\n:1\r\n".to_owned()), "{lane_count} lanes");
        leave(&mut world, vec![client, other]);
    }
}

/// An ended subscription is no part of what its client holds.
#[test]
fn what_a_subscription_holds_is_given_back() {
    let mut world = World::new(1);
    let (client, other) = (world.connect(), world.connect());
    let held = |world: &mut World, command: &str| -> u64 {
        world.ask(&client, command);
        let listed = world.ask(&other, "CLIENT LIST TYPE pubsub");
        let size = listed.split(' ').find_map(|field| field.strip_prefix("tot-mem=")).unwrap();
        size.parse().unwrap()
    };
    let before = held(&mut world, "SUBSCRIBE stays");
    let more = held(&mut world, "SUBSCRIBE goes too");
    assert!(before + 2 * 320 <= more, "{before} and {more}");
    assert_eq!(held(&mut world, "UNSUBSCRIBE goes too"), before);
}

#[test]
fn pubsub_tells_of_all_lanes() {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let clients: Vec<_> = (0..5).map(|_| world.connect()).collect();
        for (number, client) in clients[..4].iter().enumerate() {
            world.ask(client, &format!("SUBSCRIBE all b{number}"));
            world.ask(client, "PSUBSCRIBE p* p?");
            world.ask(client, "SSUBSCRIBE s");
        }
        let asker = &clients[4];
        for (command, want) in [
            ("PUBSUB CHANNELS", array(&["all", "b0", "b1", "b2", "b3"])),
            ("PUBSUB CHANNELS b[12]", array(&["b1", "b2"])),
            ("PUBSUB CHANNELS nothing*", "*0\r\n".to_owned()),
            ("PUBSUB NUMSUB", "*0\r\n".to_owned()),
            ("PUBSUB NUMSUB all b1 all none", array(&["all", ":4", "b1", ":1", "all", ":4", "none", ":0"])),
            ("PUBSUB NUMPAT", ":2\r\n".to_owned()),
            ("PUBSUB SHARDCHANNELS", array(&["s"])),
            ("PUBSUB SHARDCHANNELS x", "*0\r\n".to_owned()),
            ("PUBSUB SHARDNUMSUB s all", array(&["s", ":4", "all", ":0"])),
            ("PUBSUB", "-ERR wrong number of arguments for 'pubsub' command\r\n".to_owned()),
            (
                "PUBSUB CHANNELS a b",
                "-ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.\r\n"
                    .to_owned(),
            ),
            ("PUBSUB NUMPAT x", "-ERR wrong number of arguments for 'pubsub|numpat' command\r\n".to_owned()),
            ("PUBSUB foo", "-ERR unknown subcommand 'foo'. Try PUBSUB HELP.\r\n".to_owned()),
            ("PUBLISH all x", ":4\r\n".to_owned()),
            ("PUBLISH px x", ":8\r\n".to_owned()),
            ("SPUBLISH s x", ":4\r\n".to_owned()),
            ("SPUBLISH px x", ":0\r\n".to_owned()),
        ] {
            assert_eq!(world.ask(asker, command), want, "{command} over {lane_count} lanes");
        }
        let info = world.ask(asker, "INFO stats");
        let count = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
            line.parse::<usize>().unwrap()
        };
        if lane_count == 1 {
            assert_eq!(["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"].map(count), [5, 2, 1]);
        }
        let list = world.ask(asker, "CLIENT LIST TYPE pubsub");
        assert_eq!(list.matches("flags=P db=0 sub=2 psub=2 ssub=1 ").count(), 4, "{list}");
        let list = world.ask(asker, "CLIENT LIST TYPE normal");
        assert_eq!(list.matches("flags=N db=0 sub=0 psub=0 ssub=0 ").count(), 1, "{list}");
        assert_eq!(world.ask(asker, "CLIENT KILL TYPE pubsub"), ":4\r\n");
        assert_eq!(world.ask(asker, "PUBSUB CHANNELS"), "*0\r\n");
        leave(&mut world, clients);
    }
}

/// Whoever publishes and wherever: all who listen get messages of a channel in one order, and a client's in its own.
#[test]
fn messages_of_a_channel_come_in_one_order() {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let listeners: Vec<_> = (0..8).map(|_| world.connect()).collect();
        for (number, listener) in listeners.iter().enumerate() {
            world.ask(listener, if number % 2 == 0 { "SUBSCRIBE c1 c2 c3" } else { "PSUBSCRIBE c*" });
        }
        let publishers: Vec<_> = (0..6).map(|_| world.connect()).collect();
        for (number, publisher) in publishers.iter().enumerate() {
            let mut bytes = Vec::new();
            for count in 0..100 {
                let (channel, words) = (format!("c{}", 1 + count % 3), format!("{number}.{count:03}"));
                wire::client::command(&mut bytes, &[b"PUBLISH", channel.as_bytes(), words.as_bytes()]);
            }
            publisher.write(&bytes);
        }
        for _ in 0..600 {
            world.round(1_000_000);
        }
        for publisher in &publishers {
            assert_eq!(text(publisher), ":8\r\n".repeat(100));
        }
        // What was said where, as each has heard it.
        let heard: Vec<Vec<(String, String)>> = listeners
            .iter()
            .map(|listener| {
                let words: Vec<String> = text(listener).lines().map(str::to_owned).collect();
                let at = |(index, word): (usize, &String)| {
                    (word.len() == 5 && word.as_bytes()[1] == b'.')
                        .then(|| (words[index - 2].clone(), word.clone()))
                };
                words.iter().enumerate().filter_map(at).collect()
            })
            .collect();
        let of = |heard: &[(String, String)], channel: &str| -> Vec<String> {
            heard.iter().filter(|(at, _)| at == channel).map(|(_, word)| word.clone()).collect()
        };
        for listener in &heard {
            assert_eq!(listener.len(), 600);
            for channel in ["c1", "c2", "c3"] {
                assert_eq!(of(listener, channel), of(&heard[0], channel), "over {lane_count} lanes");
            }
            for number in 0..6 {
                let head = format!("{number}.");
                let own: Vec<_> = listener.iter().filter(|(_, word)| word.starts_with(&head)).collect();
                assert!(own.is_sorted_by_key(|(_, word)| word), "a client's messages keep their order");
            }
        }
        leave(&mut world, listeners.into_iter().chain(publishers).collect());
    }
}

#[test]
fn inside_multi_and_scripts_messages_are_sent() {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let (client, listener) = (world.connect(), world.connect());
        world.ask(&listener, "SUBSCRIBE a b c d");
        let eval = |script: &str| format!("EVAL {} 0", script.replace(' ', "\t"));
        for (commands, want, heard) in [
            (
                &[
                    "MULTI",
                    "SET x 1",
                    "PUBLISH a 1",
                    "PUBLISH b 2",
                    "INCR x",
                    "PUBLISH c 3",
                    "SPUBLISH d 4",
                    "EXEC",
                ][..],
                format!("+OK\r\n{}*6\r\n+OK\r\n:1\r\n:1\r\n:2\r\n:1\r\n:0\r\n", "+QUEUED\r\n".repeat(6)),
                vec![["a", "1"], ["b", "2"], ["c", "3"]],
            ),
            (
                &[&eval("return redis.call('publish','a','5')+redis.call('publish','d','6')")],
                ":2\r\n".to_owned(),
                vec![["a", "5"], ["d", "6"]],
            ),
            (
                &["PUBLISH a 7", "GET x", "PUBLISH b 8"],
                ":1\r\n$1\r\n2\r\n:1\r\n".to_owned(),
                vec![["a", "7"], ["b", "8"]],
            ),
        ] {
            if commands.len() == 1 {
                assert_eq!(world.ask(&client, commands[0]), want);
            } else {
                assert_eq!(world.ask_all(&client, commands), want, "over {lane_count} lanes");
            }
            let heard: String =
                heard.iter().map(|[channel, word]| array(&["message", channel, word])).collect();
            assert_eq!(text(&listener), heard, "over {lane_count} lanes");
        }
        let ro = "EVAL_RO return\tredis.call('publish','a','z') 0";
        let refused = world.ask(&client, ro);
        assert!(
            refused.starts_with("-ERR Write commands are not allowed from read-only scripts."),
            "{refused}"
        );
        let refused = world.ask(&client, &eval("return redis.call('subscribe','a')"));
        assert!(refused.starts_with("-ERR This Redis command is not allowed from script"), "{refused}");
        leave(&mut world, vec![client, listener]);
    }
}

/// A client subscribes in a MULTI: its place in the reply says so, and messages come behind it.
#[test]
fn subscribing_inside_multi() {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        let got = world.ask_all(
            &client,
            &["MULTI", "SUBSCRIBE a", "PUBLISH a x", "PING", "SSUBSCRIBE b c", "EXEC", "PING"],
        );
        let want = [
            &format!("+OK\r\n{}*4\r\n", "+QUEUED\r\n".repeat(4)),
            &array(&["subscribe", "a", ":1"]),
            ":1\r\n",
            &array(&["pong", ""]),
            "-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n",
            &array(&["message", "a", "x"]),
            &array(&["pong", ""]),
        ]
        .concat();
        assert_eq!(got, want, "over {lane_count} lanes");
        leave(&mut world, vec![client]);
    }
}

#[test]
fn messages_are_heard_whatever_client_reply_says() {
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let (client, other) = (world.connect(), world.connect());
        world.ask(&client, "HELLO 3");
        for (command, want) in [
            ("SUBSCRIBE a", push(&["subscribe", "a", ":1"])),
            ("CLIENT REPLY OFF", String::new()),
            ("SUBSCRIBE b", push(&["subscribe", "b", ":2"])),
            ("UNSUBSCRIBE b", push(&["unsubscribe", "b", ":1"])),
            ("PING", String::new()),
            ("PUBLISH a x", push(&["message", "a", "x"])),
            ("CLIENT REPLY ON", "+OK\r\n".to_owned()),
            ("CLIENT REPLY SKIP", String::new()),
            ("SUBSCRIBE c", push(&["subscribe", "c", ":2"])),
            ("PING", "+PONG\r\n".to_owned()),
            ("CLIENT REPLY SKIP", String::new()),
            ("PUBLISH a x", push(&["message", "a", "x"])),
            ("PING", "+PONG\r\n".to_owned()),
        ] {
            assert_eq!(world.ask(&client, command), want, "{command} over {lane_count} lanes");
        }
        assert_eq!(world.ask(&other, "PUBLISH a hi"), ":1\r\n");
        assert_eq!(text(&client), push(&["message", "a", "hi"]));
        // Nor is heard what a client in RESP2 may not say meanwhile.
        for (command, want) in [
            ("CLIENT REPLY OFF", String::new()),
            ("SUBSCRIBE a", array(&["subscribe", "a", ":1"])),
            ("GET k", String::new()),
            ("CLIENT REPLY ON", String::new()),
            ("RESET", "+RESET\r\n".to_owned()),
        ] {
            assert_eq!(world.ask(&other, command), want, "{command} over {lane_count} lanes");
        }
        leave(&mut world, vec![client, other]);
    }
}

/// On lanes' own ports, which are nodes of a cluster: what is said on a channel is heard everywhere, sharded channels are where their
/// slots are.
#[test]
fn lanes_own_ports_are_nodes_of_a_cluster() {
    let mut world = World::new(2);
    let (first, second, shared) = (world.connect_to(0), world.connect_to(1), world.connect());
    for client in [&first, &second, &shared] {
        // `foo` and `{foo}2` are in slot 12182, of the second lane; `bar` in 5061, of the first.
        world.ask(client, "HELLO 3");
        assert_eq!(world.ask(client, "SUBSCRIBE foo"), push(&["subscribe", "foo", ":1"]));
    }
    for client in [&first, &second, &shared] {
        let message = push(&["message", "foo", "x"]);
        assert_eq!(world.ask(client, "PUBLISH foo x"), format!("{message}:3\r\n"));
        let heard: String = [&first, &second, &shared].map(text).concat();
        assert_eq!(heard, message.repeat(2), "the others hear it, too");
    }
    let moved = "-MOVED 12182 127.0.0.1:7001\r\n";
    let crossed = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    for (client, command, want) in [
        (&first, "SSUBSCRIBE foo", moved.to_owned()),
        (&first, "SPUBLISH foo x", moved.to_owned()),
        (&first, "SUNSUBSCRIBE foo", moved.to_owned()),
        (&first, "SUNSUBSCRIBE", ">3\r\n$12\r\nsunsubscribe\r\n_\r\n:0\r\n".to_owned()),
        (&second, "SSUBSCRIBE foo bar", crossed.to_owned()),
        (
            &second,
            "SSUBSCRIBE foo {foo}2",
            [push(&["ssubscribe", "foo", ":1"]), push(&["ssubscribe", "{foo}2", ":2"])].concat(),
        ),
        (&second, "SPUBLISH foo x", format!("{}:1\r\n", push(&["smessage", "foo", "x"]))),
        (
            &shared,
            "SSUBSCRIBE foo bar",
            [push(&["ssubscribe", "foo", ":1"]), push(&["ssubscribe", "bar", ":2"])].concat(),
        ),
        (&shared, "SPUBLISH foo y", format!("{}:2\r\n", push(&["smessage", "foo", "y"]))),
        // The client of the shared port is on the second lane.
        (&first, "PUBSUB SHARDNUMSUB foo bar", array(&["foo", ":0", "bar", ":0"])),
        (&second, "PUBSUB SHARDNUMSUB foo bar", array(&["foo", ":2", "bar", ":1"])),
        (&shared, "PUBSUB SHARDNUMSUB foo bar", array(&["foo", ":2", "bar", ":1"])),
        (&shared, "PUBSUB NUMSUB foo", array(&["foo", ":3"])),
    ] {
        let got = world.ask(client, command);
        let got = got.trim_start_matches(&push(&["smessage", "foo", "y"]));
        let want = want.trim_start_matches(&push(&["smessage", "foo", "y"]));
        assert_eq!(got, want, "{command}");
    }
    // More names than are looked at in one step.
    let many: Vec<String> = (0..1000).map(|number| format!("{{foo}}{number}")).collect();
    assert_eq!(world.ask(&second, &format!("SSUBSCRIBE {} bar", many.join(" "))), crossed);
    let got = world.ask(&second, &format!("SSUBSCRIBE {}", many.join(" ")));
    assert!(got.ends_with(&push(&["ssubscribe", "{foo}999", ":1001"])), "{got}");
    assert_eq!(got.matches(">3").count(), 1000);
    let script = "EVAL return\tredis.call('spublish','foo','x') 0";
    let refused = world.ask(&first, script);
    assert!(refused.starts_with("-ERR Script attempted to access a non local key"), "{refused}");
    leave(&mut world, vec![first, second, shared]);
}

/// Many who listen, and one message after the other: a turn hands out so many, and all get them in order.
#[test]
fn a_message_to_thousands_takes_turns() {
    const COUNT: usize = 4000;
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let listeners: Vec<_> = (0..COUNT).map(|_| world.connect()).collect();
        for listener in &listeners {
            let mut bytes = Vec::new();
            wire::client::command(&mut bytes, &[b"SUBSCRIBE", b"all"]);
            listener.write(&bytes);
        }
        for _ in 0..400 {
            world.round(1_000_000);
        }
        assert!(listeners.iter().all(|listener| text(listener) == array(&["subscribe", "all", ":1"])));
        let publisher = world.connect();
        let mut bytes = Vec::new();
        for word in [&b"one"[..], b"two", b"three"] {
            wire::client::command(&mut bytes, &[b"PUBLISH", b"all", word]);
        }
        publisher.write(&bytes);
        let mut rounds = 0;
        let mut got = String::new();
        while got.len() < 3 * ":4000\r\n".len() {
            world.round(1_000_000);
            got += &text(&publisher);
            rounds += 1;
        }
        assert_eq!(got, ":4000\r\n".repeat(3));
        assert!(3 * COUNT / usize::from(lane_count) / 1024 <= rounds, "{rounds} rounds: a turn has a budget");
        let want = ["one", "two", "three"].map(|word| array(&["message", "all", word])).concat();
        assert!(listeners.iter().all(|listener| text(listener) == want));
        drop(publisher);
        leave(&mut world, listeners);
    }
}

/// Subscribing to many names, ending that and going takes turns, and others are served meanwhile.
#[test]
fn a_client_with_many_subscriptions() {
    const COUNT: usize = 20_000;
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let (client, other) = (world.connect(), world.connect());
        let names: Vec<String> = (0..COUNT).map(|number| format!("n{number:05}")).collect();
        let words = |verb: &str| {
            let mut words = vec![verb.as_bytes()];
            words.extend(names.iter().map(String::as_bytes));
            let mut bytes = Vec::new();
            wire::client::command(&mut bytes, &words);
            bytes
        };
        let want = |verb: &str, count: &dyn Fn(usize) -> usize| -> String {
            let said = |(index, name): (usize, &String)| array(&[verb, name, &format!(":{}", count(index))]);
            names.iter().enumerate().map(said).collect()
        };
        let mut bytes = words("SUBSCRIBE");
        let mut got = String::new();
        let mut rounds = 0;
        let mut heard = 0;
        let whole = want("subscribe", &|index| index + 1);
        while got.matches("subscribe").count() < COUNT {
            bytes.drain(..client.write(&bytes));
            if rounds % 10 == 9 {
                // It hears of what it has subscribed to behind the confirmation.
                heard += usize::from(world.ask(&other, "PUBLISH n00000 hello") == ":1\r\n");
            }
            world.round(1_000_000);
            got += &text(&client);
            rounds += 1;
        }
        world.round(1_000_000);
        got += &text(&client);
        let message = array(&["message", "n00000", "hello"]);
        assert!(
            got.starts_with(&whole) && got[whole.len()..] == message.repeat(heard),
            "over {lane_count} lanes"
        );
        assert!(heard > 0 && COUNT / 1024 <= rounds, "{rounds} rounds");
        let listed = world.ask(&other, "CLIENT LIST TYPE pubsub");
        let field = |name: &str| {
            let value =
                listed.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).unwrap();
            value.parse::<usize>().unwrap()
        };
        assert!(field("sub") == COUNT && field("tot-mem") > 300 * COUNT, "{listed}");

        // Without names it is about all.
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[b"UNSUBSCRIBE"]);
        client.write(&bytes);
        let mut got = String::new();
        while got.matches("unsubscribe").count() < COUNT {
            world.round(1_000_000);
            got += &text(&client);
        }
        assert_eq!(got, want("unsubscribe", &|index| COUNT - 1 - index));

        let mut bytes = words("PSUBSCRIBE");
        while !bytes.is_empty() {
            bytes.drain(..client.write(&bytes));
            world.round(1_000_000);
            client.read_all();
        }
        // In the middle of that: what was begun is at its end before it has gone, unless the connection is cut.
        client.cut();
        world.round(1_000_000);
        let mut got = world.ask(&other, "PUBLISH n00001 x");
        while got.is_empty() {
            world.round(1_000_000);
            got += &text(&other);
        }
        assert_eq!(got, ":0\r\n", "who has gone gets nothing");
        leave(&mut world, vec![other]);
    }
}

/// One that does not read is cut at its limit; the others go on.
#[test]
fn who_does_not_read_is_cut() {
    for lane_count in [1, 2] {
        let limits = &[("client-output-buffer-limit", "normal 0 0 0 slave 0 0 0 pubsub 1000000 0 0")];
        let mut world =
            World::told(lane_count, limits, |settings| settings.pubsub_output_size_max = 1_000_000);
        let (slow, fast) = (world.connect(), world.connect());
        let publisher = world.connect();
        world.ask(&slow, "SUBSCRIBE a");
        world.ask(&fast, "PSUBSCRIBE *");
        let word = "w".repeat(10_000);
        let mut counts = Vec::new();
        for _ in 0..200 {
            counts.push(world.ask(&publisher, &format!("PUBLISH a {word}")));
            assert_eq!(text(&fast), array(&["pmessage", "*", "a", &word]));
        }
        let both = counts.iter().filter(|count| *count == ":2\r\n").count();
        assert!((90..130).contains(&both), "{both} messages of 10,000 bytes until it is cut");
        assert!(counts[both..].iter().all(|count| count == ":1\r\n"));
        slow.read_all();
        assert!(slow.at_end());
        leave(&mut world, vec![slow, fast, publisher]);
    }
}

/// A message longer than a frame is shared, and comes between replies however long those are.
#[test]
fn long_messages_and_long_replies() {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        world.ask(&client, "HELLO 3");
        let (value, word) = ("v".repeat(700_000), "w".repeat(300_000));
        let write = |world: &mut World, client: &mem::Client, commands: &[&[&[u8]]]| {
            let mut bytes = Vec::new();
            commands.iter().for_each(|words| wire::client::command(&mut bytes, words));
            let mut got = String::new();
            for _ in 0..100 {
                bytes.drain(..client.write(&bytes));
                world.round(1_000_000);
                got += &text(client);
            }
            got
        };
        write(&mut world, &client, &[&[b"SET", b"k", value.as_bytes()], &[b"SUBSCRIBE", b"a", b"b"]]);
        let long: &[&[u8]] = &[b"PUBLISH", b"a", word.as_bytes()];
        let got = write(
            &mut world,
            &client,
            &[&[b"GET", b"k"], long, &[b"PUBLISH", b"b", b"x"], &[b"GET", b"k"], &[b"PING"], long],
        );
        let (reply, pushed) = (format!("$700000\r\n{value}\r\n"), push(&["message", "a", &word]));
        let short = push(&["message", "b", "x"]);
        let want = format!("{reply}{pushed}:1\r\n{short}:1\r\n{reply}+PONG\r\n{pushed}:1\r\n");
        assert!(got == want, "over {lane_count} lanes: {} bytes of {}", got.len(), want.len());
        leave(&mut world, vec![client]);
    }
}

#[test]
fn silence_is_no_reason_to_close_and_a_pause_holds_messages_back() {
    let mut world = World::told(2, &[], |settings| settings.timeout_s = 5);
    let (client, other) = (world.connect(), world.connect());
    world.ask(&client, "SUBSCRIBE a");
    for _ in 0..300 {
        world.round(100_000_000);
    }
    assert!(!client.at_end() && other.at_end(), "who listens is silent");
    let (other, third) = (world.connect(), world.connect());
    assert_eq!(world.ask(&other, "CLIENT PAUSE 500 WRITE"), "+OK\r\n");
    assert_eq!(world.ask(&other, "PUBLISH a x"), "");
    assert_eq!(world.ask(&third, "EVAL return\tredis.call('publish','a','y') 0"), "");
    for _ in 0..10 {
        world.round(100_000_000);
    }
    assert_eq!(text(&other), ":1\r\n");
    assert_eq!(text(&third), ":1\r\n");
    leave(&mut world, vec![client, other, third]);
}

/// A client publishes more than lanes may have under way, and others do, too; nothing is lost, and each hears how many got it.
#[test]
fn floods_wait_and_lose_nothing() {
    for lane_count in [1, 2, 4] {
        let mut world = World::new(lane_count);
        let listener = world.connect();
        world.ask(&listener, "SUBSCRIBE {t}a {t}b");
        let publishers: Vec<_> = (0..8).map(|_| world.connect()).collect();
        let word = "w".repeat(3000);
        let mut bytes = Vec::new();
        for count in 0..500 {
            let words: &[&[u8]] =
                &[b"PUBLISH", if count % 2 == 0 { b"{t}a" } else { b"{t}b" }, word.as_bytes()];
            wire::client::command(&mut bytes, words);
        }
        let mut left: Vec<&[u8]> = vec![&bytes; publishers.len()];
        let (mut heard, mut replies) = (0, 0);
        for _ in 0..2000 {
            for (publisher, left) in publishers.iter().zip(&mut left) {
                *left = &left[publisher.write(left)..];
                replies += text(publisher).matches(":1\r\n").count();
            }
            world.round(1_000_000);
            heard += text(&listener).matches("message").count();
            if (heard, replies) == (4000, 4000) {
                break;
            }
        }
        assert_eq!((heard, replies), (4000, 4000), "over {lane_count} lanes");
        leave(&mut world, publishers.into_iter().chain([listener]).collect());
    }
}

/// Others' messages are matched against what a client listens to, so that is short.
#[test]
fn long_patterns_are_refused() {
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        let other = world.connect_at(usize::from(lane_count) - 1);
        let (longest, longer) = ("a".repeat(1024), "a".repeat(1025));
        let refused = "-ERR pattern is longer than 1024 bytes\r\n";
        assert_eq!(world.ask(&other, &format!("PUBSUB CHANNELS {longer}")), refused);
        assert_eq!(world.ask(&other, &format!("PUBSUB CHANNELS {longest}")), "*0\r\n");
        // What stands before it is listened to.
        let said = world.ask(&client, &format!("PSUBSCRIBE *b {longer} c*"));
        assert_eq!(said, array(&["psubscribe", "*b", ":1"]) + refused);
        let said = world.ask(&client, &format!("PSUBSCRIBE {longest}"));
        assert_eq!(said, array(&["psubscribe", &longest, ":2"]));
        assert_eq!(world.ask(&client, &format!("SUBSCRIBE {longer}")), array(&["subscribe", &longer, ":3"]));
        assert_eq!(world.ask(&other, &format!("PUBSUB CHANNELS *{}", "a".repeat(1000))), array(&[&longer]));
        assert_eq!(world.ask(&other, &format!("PUBSUB CHANNELS *{}b", "a".repeat(1000))), "*0\r\n");
        assert_eq!(world.ask(&other, "PUBLISH c message"), ":0\r\n");
        assert_eq!(world.ask(&other, "PUBLISH ab message"), ":1\r\n");
        assert_eq!(
            world.ask(&client, "UNSUBSCRIBE"),
            array(&["pmessage", "*b", "ab", "message"]) + &array(&["unsubscribe", &longer, ":2"])
        );
        let many = format!("PUBSUB NUMSUB{}", " a".repeat(16 * 1024 + 1));
        let wide = world.connect_small(0, 1 << 20);
        assert_eq!(world.ask(&wide, &many), "-ERR too many names, at most 16384 are looked at\r\n");
    }
}
