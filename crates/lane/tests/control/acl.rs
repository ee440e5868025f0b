//! Users and what they may do, as clients see it: over lanes, in MULTI, in scripts, and when the rules change under them.

use net::mem::Client;
use wire::client::command;

use super::world::World;

const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
const NO_CHANNEL: &str =
    "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n";

fn no_command(name: &str) -> String {
    format!("-NOPERM this user has no permissions to run the '{name}' command\r\n")
}

fn is_closed(client: &Client) -> bool {
    client.was_cut() || client.at_end()
}

/// A server on which `u` may do this, a client of the default user and one of `u`.
fn with_user(lane_count: u16, rules: &str) -> (World, Client, Client) {
    let mut world = World::new(lane_count);
    let (admin, client) = (world.connect(), world.connect());
    assert_eq!(world.ask(&admin, &format!("ACL SETUSER u on >pw {rules}")), "+OK\r\n");
    assert_eq!(world.ask(&client, "AUTH u pw"), "+OK\r\n");
    (world, admin, client)
}

/// What a user with these rules is answered, one command after the other, over one lane and over three.
fn check(rules: &str, lines: &[(&str, &str)]) {
    for lane_count in [1, 3] {
        let (mut world, _, client) = with_user(lane_count, rules);
        for (command, want) in lines {
            assert_eq!(world.ask(&client, command), *want, "{command} over {lane_count} lanes");
        }
        assert!(world.is_idle(), "nothing is left under way");
    }
}

fn say(world: &mut World, client: &Client, words: &[&str]) -> String {
    let mut bytes = Vec::new();
    command(&mut bytes, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    client.write(&bytes);
    (0..60).for_each(|_| world.round(1_000_000));
    String::from_utf8_lossy(&client.read_all()).into_owned()
}

#[test]
fn a_user_may_do_what_its_rules_say_wherever_the_keys_are() {
    check(
        "+@all -flushall ~a* %R~r* &c*",
        &[
            ("ACL WHOAMI", "$1\r\nu\r\n"),
            ("SET a 1", "+OK\r\n"),
            ("MSET a1 1 a2 2 a3 3 a4 4", "+OK\r\n"),
            ("MGET a1 a2 a3 r", "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n"),
            ("SET r 1", NO_KEY),
            ("MSET a1 1 b 2", NO_KEY),
            ("GET b", NO_KEY),
            ("COPY a1 r", NO_KEY),
            ("COPY r a1", ":0\r\n"),
            ("PUBLISH c1 x", ":0\r\n"),
            ("PUBLISH d x", NO_CHANNEL),
            ("FLUSHALL", &no_command("flushall")),
            ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n"),
            ("MULTI", "+OK\r\n"),
            ("SET b 1", NO_KEY),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
            ("MULTI", "+OK\r\n"),
            ("SET a 2", "+QUEUED\r\n"),
            ("GET r", "+QUEUED\r\n"),
            ("ACL WHOAMI", "+QUEUED\r\n"),
            ("EXEC", "*3\r\n+OK\r\n$-1\r\n$1\r\nu\r\n"),
        ],
    );
    check(
        "-@all +multi +set ~a",
        &[
            ("MULTI", "+OK\r\n"),
            ("SET a 1", "+QUEUED\r\n"),
            (
                "EXEC",
                "-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the 'exec' command\r\n",
            ),
            ("GET a", &no_command("get")),
        ],
    );
}

#[test]
fn names_and_passwords_are_asked_for() {
    let mut world = World::new(2);
    let (admin, client) = (world.connect(), world.connect());
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for (command, want) in [
        ("ACL SETUSER u >pw", "+OK\r\n"),
        ("AUTH u pw", wrong),
        ("ACL SETUSER u on >other", "+OK\r\n"),
        ("AUTH u no", wrong),
        ("AUTH nosuch pw", wrong),
        ("AUTH default anything", "+OK\r\n"),
        ("ACL GETUSER nosuch", "$-1\r\n"),
        ("ACL USERS", "*2\r\n$7\r\ndefault\r\n$1\r\nu\r\n"),
        ("ACL DELUSER u nosuch u", ":1\r\n"),
        ("ACL DELUSER u", ":0\r\n"),
        ("ACL DELUSER u default", "-ERR The 'default' user cannot be removed\r\n"),
        ("ACL SETUSER a\tb", "-ERR Usernames can't contain spaces or null characters\r\n"),
        (
            "ACL SETUSER u +nosuch",
            "-ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL\r\n",
        ),
        ("ACL SETUSER u (+get ~a", "-ERR Unmatched parenthesis in acl selector starting at '(+get'.\r\n"),
        ("ACL USERS", "*1\r\n$7\r\ndefault\r\n"),
        ("ACL SETUSER u on >pw ~* +@all", "+OK\r\n"),
    ] {
        assert_eq!(world.ask(&admin, command), want, "{command}");
    }
    assert!(world.ask(&client, "HELLO 3 AUTH u pw").contains("proto"));
    assert_eq!(world.ask(&client, "ACL WHOAMI"), "$1\r\nu\r\n");
    assert_eq!(world.ask(&client, "PUBLISH a b"), NO_CHANNEL);
    // A password may not be so long, and what is too long is none.
    let long = "x".repeat(40_000);
    world.ask(&admin, "ACL SETUSER u >");
    assert_eq!(say(&mut world, &client, &["AUTH", "u", &long]), wrong);
    assert_eq!(say(&mut world, &client, &["AUTH", "u", ""]), "+OK\r\n");
    assert_eq!(world.ask(&client, "RESET"), "+RESET\r\n");
    assert_eq!(world.ask(&client, "ACL WHOAMI"), "$7\r\ndefault\r\n");
}

#[test]
fn the_clients_of_a_user_who_is_deleted_are_closed() {
    let mut world = World::new(3);
    let admin = world.connect();
    world.ask(&admin, "ACL SETUSER u on nopass +@all ~* &*");
    let clients: Vec<Client> = (0..9).map(|at| world.connect_at(at % 3)).collect();
    for client in &clients {
        assert_eq!(world.ask(client, "AUTH u x"), "+OK\r\n");
    }
    assert_eq!(world.ask(&admin, "CLIENT KILL USER nosuch"), "-ERR No such user 'nosuch'\r\n");
    assert_eq!(world.ask(&admin, "CLIENT LIST").matches(" user=u ").count(), 9);
    // The same name again is somebody else, whose clients stay.
    let last = &clients[8];
    assert_eq!(world.ask(last, "ACL DELUSER u"), ":1\r\n", "who asks is answered first");
    assert!(clients.iter().all(is_closed));
    let line = world.ask(&admin, "CLIENT LIST");
    assert!(line.contains(" user=default ") && !line.contains(" user=u "), "{line}");
    world.ask(&admin, "ACL SETUSER u on nopass +@all");
    let client = world.connect_at(1);
    world.ask(&client, "AUTH u x");
    assert_eq!(world.ask(&admin, "CLIENT KILL USER u"), ":1\r\n");
    assert!(is_closed(&client));
}

#[test]
fn who_listens_to_what_its_user_may_not_hear_any_more_is_closed() {
    for (subscribe, cut, stays) in [
        ("SUBSCRIBE a1 a2", "resetchannels &a1", "resetchannels &a1 &a2"),
        ("PSUBSCRIBE a*", "resetchannels &a1 &a**", "resetchannels &a* &b"),
        ("SSUBSCRIBE a1", "resetchannels", "allchannels"),
    ] {
        let mut world = World::new(3);
        let admin = world.connect();
        world.ask(&admin, "ACL SETUSER u on nopass +@all &a1 &a2 &a*");
        let clients: Vec<Client> = (0..6).map(|at| world.connect_at(at % 3)).collect();
        for client in &clients {
            world.ask(client, "AUTH u x");
            assert!(world.ask(client, subscribe).contains("subscribe"), "{subscribe}");
        }
        let other = world.connect();
        world.ask(&other, subscribe);
        assert_eq!(world.ask(&admin, &format!("ACL SETUSER u {stays}")), "+OK\r\n");
        assert!(!clients.iter().any(is_closed), "{subscribe} with {stays}");
        assert_eq!(world.ask(&admin, &format!("ACL SETUSER u {cut}")), "+OK\r\n");
        assert!(clients.iter().all(is_closed), "{subscribe} with {cut}");
        assert!(!is_closed(&other), "another user's clients stay");
    }
}

#[test]
fn of_many_names_the_last_is_looked_at_too() {
    let mut world = World::new(2);
    let admin = world.connect();
    world.ask(&admin, "ACL SETUSER u on nopass +@all &c*");
    let client = world.connect();
    world.ask(&client, "AUTH u x");
    let names: Vec<String> = (0..700).map(|number| format!("c{number}")).collect();
    let mut words = vec!["SUBSCRIBE"];
    words.extend(names.iter().map(String::as_str));
    assert_eq!(say(&mut world, &client, &words).matches("subscribe\r\n").count(), 700);
    assert_eq!(world.ask(&admin, "ACL SETUSER u resetchannels &c &c?*"), "+OK\r\n");
    assert!(!is_closed(&client));
    assert_eq!(world.ask(&admin, "ACL SETUSER u resetchannels &c? &c?? &c[1-6]??"), "+OK\r\n");
    assert!(!is_closed(&client));
    assert_eq!(world.ask(&admin, "ACL SETUSER u resetchannels &c? &c?? &c[1-5]??"), "+OK\r\n");
    assert!(is_closed(&client), "c600 is in nobody's first slice");
}

/// A command that names too many keys for one look is looked at in slices, and nothing of it has happened when one is denied.
#[test]
fn of_many_keys_the_last_is_looked_at_too() {
    for lane_count in [1, 3] {
        let (mut world, admin, client) = with_user(lane_count, "+@all ~k* &c*");
        let many = |first: &[&str], each: &dyn Fn(usize) -> Vec<String>, last: &[&str]| -> Vec<String> {
            let words = first.iter().map(|word| (*word).to_owned());
            words.chain((0..700).flat_map(each)).chain(last.iter().map(|word| (*word).to_owned())).collect()
        };
        let one = |number: usize| vec![format!("k{number}")];
        let two = |number: usize| vec![format!("k{number}"), "v".to_owned()];
        let channel = |number: usize| vec![format!("c{number}")];
        let mut ask = |words: Vec<String>| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            say(&mut world, &client, &words)
        };
        assert_eq!(ask(many(&["MSET"], &two, &["b", "v"])), NO_KEY);
        assert_eq!(ask(many(&["DEL"], &one, &[])), ":0\r\n");
        assert_eq!(ask(many(&["MSET"], &two, &[])), "+OK\r\n");
        assert_eq!(ask(many(&["EXISTS"], &one, &["b"])), NO_KEY);
        assert_eq!(ask(many(&["EXISTS"], &one, &[])), ":700\r\n");
        assert_eq!(ask(many(&["WATCH"], &one, &["b"])), NO_KEY);
        assert_eq!(ask(many(&["EVAL", "return 1", "701"], &one, &["b"])), NO_KEY);
        assert_eq!(ask(many(&["EVAL", "return 1", "700"], &one, &["b"])), ":1\r\n");
        assert_eq!(ask(many(&["SUBSCRIBE"], &channel, &["b"])), NO_CHANNEL);
        assert_eq!(ask(vec!["PING".to_owned()]), "+PONG\r\n", "it has subscribed to nothing");
        assert_eq!(ask(vec!["MULTI".to_owned()]), "+OK\r\n");
        assert_eq!(ask(many(&["DEL"], &one, &["b"])), "+QUEUED\r\n");
        assert_eq!(
            ask(vec!["EXEC".to_owned()]),
            "*1\r\n-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no \
             longer allowed for the following reason: no permission to touch the specified keys\r\n"
        );
        assert_eq!(world.ask(&admin, "DBSIZE"), ":700\r\n");
        assert!(world.is_idle());
    }
}

#[test]
fn rules_that_change_before_exec_hold_for_what_was_queued() {
    for lane_count in [1, 3] {
        let (mut world, admin, client) = with_user(lane_count, "+@all ~* &*");
        for command in ["MULTI", "SET a 1", "INCR b", "MGET a c d", "PUBLISH c x", "GET a"] {
            world.ask(&client, command);
        }
        assert_eq!(world.ask(&admin, "ACL SETUSER u -incr resetkeys ~a resetchannels"), "+OK\r\n");
        let denied = |why: &str| {
            format!(
                "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no \
                 longer allowed for the following reason: {why}\r\n"
            )
        };
        let want = [
            "*5\r\n+OK\r\n",
            &denied("no permission to execute the command or subcommand"),
            &denied("no permission to touch the specified keys"),
            &denied("no permission to access one of the channels used as arguments"),
            "$1\r\n1\r\n",
        ];
        assert_eq!(world.ask(&client, "EXEC"), want.concat());
        assert_eq!(world.ask(&admin, "EXISTS b"), ":0\r\n");
        assert!(world.is_idle());
    }
}

#[test]
fn what_a_script_calls_it_calls_as_its_user() {
    for lane_count in [1, 3] {
        let (mut world, admin, client) = with_user(lane_count, "+eval +set +pubsub +publish ~k* &c");
        let mut ask = |script: &str, keys: &[&str]| {
            let count = keys.len().to_string();
            say(&mut world, &client, &[&["EVAL", script, &count], keys].concat())
        };
        assert_eq!(ask("return redis.call('set', KEYS[1], 1)", &["k1"]), "+OK\r\n");
        assert_eq!(ask("return redis.call('set', 'k2', 1)", &[]), "+OK\r\n");
        assert_eq!(ask("return redis.pcall('publish', 'c', 1)", &[]), ":0\r\n");
        assert_eq!(
            ask("return redis.call('set', KEYS[1], 1)", &["z"]),
            NO_KEY,
            "what it declares it has to be allowed"
        );
        for (script, want) in [
            ("return redis.pcall('get', 'k1')", "can't run this command or subcommand"),
            (
                "return redis.pcall('set', 'z', 1)",
                "can't access at least one of the keys mentioned in the command arguments",
            ),
            (
                "return redis.pcall('publish', 'z', 1)",
                "can't publish to the channel mentioned in the command",
            ),
        ] {
            assert_eq!(
                ask(script, &[]),
                format!("-ERR The user executing the script {want}\r\n"),
                "{script}"
            );
        }
        assert!(
            ask("return redis.call('get', KEYS[1])", &["k1"])
                .starts_with("-ERR The user executing the script can't run")
        );
        assert_eq!(world.ask(&admin, "EXISTS z k1 k2"), ":2\r\n");
        let log = world.ask(&admin, "ACL LOG");
        assert_eq!(log.matches("$3\r\nlua\r\n").count(), 3, "{log}");
        assert!(world.is_idle());
    }
}

#[test]
fn what_was_denied_is_in_the_log() {
    let (mut world, admin, client) = with_user(3, "+get +eval +multi +exec ~a");
    for command in ["SET a 1", "SET a 1", "GET b", "MULTI", "INCR x", "EXEC", "AUTH u no"] {
        world.ask(&client, command);
    }
    let log = world.ask(&admin, "ACL LOG");
    let entries: Vec<&str> = log.split("*14\r\n").skip(1).collect();
    let want = [
        (1, "auth", "toplevel", "AUTH"),
        (1, "command", "multi", "incr"),
        (1, "key", "toplevel", "b"),
        (2, "command", "toplevel", "set"),
    ];
    assert_eq!(entries.len(), want.len(), "{log}");
    for (entry, (count, reason, context, object)) in entries.iter().zip(want) {
        let fields: Vec<&str> = entry.split("\r\n").collect();
        let got = (fields[2], fields[6], fields[10], fields[14], fields[18]);
        assert_eq!(got, (format!(":{count}").as_str(), reason, context, object, "u"), "{entry}");
        assert!(fields[26].starts_with("id=") && fields[26].contains(" user=u "), "{entry}");
    }
    assert_eq!(world.ask(&admin, "ACL LOG 1").matches("*14\r\n").count(), 1);
    assert_eq!(world.ask(&admin, "ACL LOG -1"), "*0\r\n");
    world.now.unix_ms += 61_000;
    world.ask(&client, "SET a 1");
    assert_eq!(
        world.ask(&admin, "ACL LOG").matches("*14\r\n").count(),
        5,
        "a minute later it is another event"
    );
    assert_eq!(world.ask(&admin, "CONFIG SET acllog-max-len 2"), "+OK\r\n");
    world.ask(&client, "INCR b");
    assert_eq!(world.ask(&admin, "ACL LOG").matches("*14\r\n").count(), 2);
    assert_eq!(world.ask(&admin, "ACL LOG RESET"), "+OK\r\n");
    assert_eq!(world.ask(&admin, "ACL LOG"), "*0\r\n");
}

#[test]
fn who_hears_no_replies_does_not_hear_what_is_denied() {
    let (mut world, admin, client) = with_user(2, "+get +ping +client ~a");
    assert_eq!(world.ask_all(&client, &["CLIENT REPLY SKIP", "SET a 1", "GET a"]), "$-1\r\n");
    assert_eq!(
        world.ask_all(&client, &["CLIENT REPLY OFF", "SET a 1", "GET b", "CLIENT REPLY ON"]),
        "+OK\r\n"
    );
    assert_eq!(world.ask(&admin, "ACL LOG").matches("*14\r\n").count(), 2);
    // And who looks sees nothing of it.
    let looker = world.connect();
    assert_eq!(world.ask(&looker, "MONITOR"), "+OK\r\n");
    world.ask_all(&client, &["SET a 1", "GET a"]);
    let seen = String::from_utf8_lossy(&looker.read_all()).into_owned();
    assert!(seen.contains("\"GET\" \"a\"") && !seen.contains("SET"), "{seen}");
    world.ask(&admin, "ACL SETUSER u >secret");
    assert!(!String::from_utf8_lossy(&looker.read_all()).contains("secret"));
}

#[test]
fn what_is_denied_counts_as_rejected() {
    let (mut world, admin, client) = with_user(2, "+get +multi +exec ~a");
    for command in ["SET a 1", "GET b", "GET a", "MULTI", "INCR a", "EXEC"] {
        world.ask(&client, command);
    }
    let stats = world.ask(&admin, "INFO commandstats errorstats");
    for (name, calls) in [("set", 0), ("incr", 0), ("get", 1)] {
        let mut lines = stats.lines();
        let line = lines.find(|line| line.starts_with(&format!("cmdstat_{name}:"))).expect("it was named");
        assert!(line.contains(&format!(":calls={calls},")), "{line}");
        assert!(line.ends_with("rejected_calls=1,failed_calls=0"), "{line}");
    }
    assert!(stats.contains("errorstat_NOPERM:count=3"), "{stats}");
}

#[test]
fn the_default_user_is_a_user_like_others() {
    let mut world = World::new(3);
    let (admin, old) = (world.connect_at(0), world.connect_at(1));
    assert_eq!(world.ask(&admin, "ACL SETUSER root on >pw ~* &* +@all"), "+OK\r\n");
    assert_eq!(world.ask(&admin, "AUTH root pw"), "+OK\r\n");
    assert_eq!(world.ask(&old, "SET a 1"), "+OK\r\n");
    assert_eq!(world.ask(&admin, "ACL SETUSER default -@all +get resetkeys ~b"), "+OK\r\n");
    assert_eq!(world.ask(&old, "SET a 1"), no_command("set"));
    assert_eq!(world.ask(&old, "GET a"), NO_KEY);
    assert_eq!(world.ask(&old, "GET b"), "$-1\r\n");
    assert_eq!(world.ask(&admin, "SET a 2"), "+OK\r\n");
    assert_eq!(world.ask(&admin, "ACL SETUSER default allcommands allkeys off"), "+OK\r\n");
    assert_eq!(world.ask(&old, "GET a"), "$1\r\n2\r\n", "who is in stays in");
    let new = world.connect_at(2);
    assert_eq!(world.ask(&new, "GET a"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(world.ask(&admin, "ACL SETUSER default on"), "+OK\r\n");
    assert_eq!(world.ask(&new, "GET a"), "$1\r\n2\r\n", "who waited outside is let in");
    // `requirepass` is its password.
    assert_eq!(world.ask(&admin, "CONFIG SET requirepass secret"), "+OK\r\n");
    assert_eq!(
        world.ask(&new, "AUTH no"),
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
    );
    assert_eq!(world.ask(&new, "AUTH default secret"), "+OK\r\n");
    assert!(!world.ask(&admin, "ACL GETUSER default").contains("nopass"));
    let outside = world.connect_at(0);
    assert_eq!(world.ask(&outside, "PING"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(world.ask(&admin, "CONFIG SET requirepass "), "+OK\r\n");
    assert_eq!(world.ask(&outside, "PING"), "+PONG\r\n");
}

#[test]
fn channels_of_a_new_user_are_what_the_setting_says() {
    let mut world = World::new(1);
    let client = world.connect();
    let line = |world: &mut World, name: &str| {
        let lines = world.ask(&client, "ACL LIST");
        lines.lines().find(|line| line.starts_with(&format!("user {name} "))).map(str::to_owned)
    };
    world.ask(&client, "ACL SETUSER a");
    assert_eq!(world.ask(&client, "CONFIG SET acl-pubsub-default allchannels"), "+OK\r\n");
    world.ask(&client, "ACL SETUSER b ()");
    assert_eq!(line(&mut world, "a").as_deref(), Some("user a off resetchannels -@all"));
    assert_eq!(line(&mut world, "b").as_deref(), Some("user b off &* -@all (&* -@all)"));
}

#[test]
fn users_are_read_from_their_file_and_written_there() {
    let mut world = World::with(2, &[("aclfile", "users.acl")]);
    let client = world.connect();
    let missing = "-ERR Error loading ACLs, opening file 'users.acl': No such file or directory\r\n";
    assert_eq!(world.ask(&client, "ACL LOAD"), missing);
    assert!(world.ask(&client, "ACL SAVE").starts_with("-ERR There was an error trying to save the ACLs."));
    assert_eq!(world.machine.warned, ["the file of users was not written: Read-only file system"]);
    world.machine.users = Some(b"user u on nopass +get +acl ~*\nuser v on +nosuch\n".to_vec());
    assert_eq!(
        world.ask(&client, "ACL LOAD"),
        "-ERR users.acl:2: Error in applying operation '+nosuch': Unknown command or category name in ACL. WARNING: ACL errors \
         detected, no change to the previously active ACL rules was performed\r\n"
    );
    assert_eq!(world.ask(&client, "ACL USERS"), "*1\r\n$7\r\ndefault\r\n");
    world.machine.users = Some(b"user u on nopass +get +acl ~*\n".to_vec());
    assert_eq!(world.ask(&client, "ACL LOAD"), "+OK\r\n");
    let other = world.connect();
    assert_eq!(world.ask(&other, "AUTH u x"), "+OK\r\n");
    assert_eq!(world.ask(&other, "ACL SETUSER v on >pw +get"), "+OK\r\n");
    assert_eq!(world.ask(&other, "ACL SAVE"), "+OK\r\n");
    let text = String::from_utf8(world.machine.users.clone().unwrap()).unwrap();
    let digest = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    let lines = [
        "user default on nopass ~* &* +@all\n",
        "user u on nopass ~* resetchannels -@all +get +acl\n",
        &format!("user v on #{digest} resetchannels -@all +get\n"),
    ];
    assert_eq!(text, lines.concat());
    // All users are others than before: those who ask as one of them are closed behind the answer.
    assert_eq!(world.ask(&other, "ACL LOAD"), "+OK\r\n");
    assert!(is_closed(&other));
    assert_eq!(world.ask(&client, "PING"), "+PONG\r\n");
    let mut world = World::new(1);
    let client = world.connect();
    for command in ["ACL LOAD", "ACL SAVE"] {
        assert!(
            world
                .ask(&client, command)
                .starts_with("-ERR This Redis instance is not configured to use an ACL file.")
        );
    }
    // Without a file of their own they are among the settings.
    assert_eq!(world.ask(&client, "CONFIG REWRITE"), "+OK\r\n");
    assert!(world.machine.written.is_empty());
    world.ask(&client, "ACL SETUSER v on nopass +get");
    assert_eq!(world.ask(&client, "CONFIG REWRITE"), "+OK\r\n");
    let users = "default on nopass ~* &* +@all\nv on nopass resetchannels -@all +get";
    assert_eq!(world.machine.written, [("user".to_owned(), users.to_owned())]);
}

#[test]
fn what_asks_about_users_answers_as_redis_does() {
    let mut world = World::new(2);
    let client = world.connect();
    world.ask(&client, "ACL SETUSER u on ~k +set &c (+get %R~r)");
    for (command, want) in [
        ("ACL DRYRUN u SET k v", "+OK\r\n"),
        ("ACL DRYRUN u GET r", "+OK\r\n"),
        ("ACL DRYRUN u SET z v", "$50\r\nThis user has no permissions to access the 'z' key\r\n"),
        ("ACL DRYRUN u DEL k", "$53\r\nThis user has no permissions to run the 'del' command\r\n"),
        ("ACL DRYRUN u SET k", "-ERR wrong number of arguments for 'set' command\r\n"),
        ("ACL DRYRUN u NOSUCH", "-ERR Command 'NOSUCH' not found\r\n"),
        ("ACL DRYRUN nosuch GET k", "-ERR User 'nosuch' not found\r\n"),
        ("ACL GENPASS 5", "$2\r\n1f\r\n"),
        ("ACL GENPASS 12", "$3\r\n3e5\r\n"),
        (
            "ACL GENPASS 4097",
            "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096\r\n",
        ),
        ("ACL GENPASS x", "-ERR value is not an integer or out of range\r\n"),
        ("ACL CAT nosuch", "-ERR Unknown category 'nosuch'\r\n"),
        (
            "ACL CAT Transaction",
            "*5\r\n$7\r\ndiscard\r\n$4\r\nexec\r\n$5\r\nmulti\r\n$7\r\nunwatch\r\n$5\r\nwatch\r\n",
        ),
        ("ACL CAT a b", "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.\r\n"),
        (
            "ACL GETUSER u",
            "*12\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$9\r\npasswords\r\n*0\r\n$8\r\ncommands\r\n$10\r\n-@all +set\r\n$4\r\nkeys\r\n$2\r\n~k\r\n\
             $8\r\nchannels\r\n$2\r\n&c\r\n$9\r\nselectors\r\n*1\r\n*6\r\n$8\r\ncommands\r\n$10\r\n-@all +get\r\n$4\r\nkeys\r\n$4\r\n%R~r\r\n$8\r\n\
             channels\r\n$0\r\n\r\n",
        ),
    ] {
        assert_eq!(world.ask(&client, command), want, "{command}");
    }
    assert_eq!(world.ask(&client, "ACL GENPASS").len(), "$64\r\n\r\n".len() + 64);
    assert!(world.ask(&client, "ACL HELP").starts_with("*27\r\n+ACL <subcommand>"));
}
