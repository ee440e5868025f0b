//! What clients see of the commands that the control answers: bytes in, bytes out, over one lane and over three.

#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

mod acl;
mod changes;
mod coherence;
#[path = "../counting/mod.rs"]
mod counting;
mod debug;
mod docs;
mod events;
mod files;
mod follower;
mod following;
mod functions;
mod gone;
mod holding;
mod latency;
mod leader;
mod looks;
mod migrate;
mod monitor;
mod multi;
mod pause;
mod pin;
mod pubsub;
mod replicas;
mod runs;
mod scripts;
mod seen;
mod spells;
mod tally;
mod tracking;
mod world;

use lane::Shutdown;
use net::mem;
use wire::route::Ports;
use world::World;

/// Sends each command and compares its reply, over one lane and over three.
fn check(lines: &[(&str, &str)]) {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        for (command, want) in lines {
            assert_eq!(world.ask(&client, command), *want, "{command} over {lane_count} lanes");
        }
        assert!(world.is_idle(), "nothing is left under way");
    }
}

fn bulks(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches('$').count())
}

/// What `redis-server` 7.0.15 answers to forms that a command does not have.
#[test]
fn odd_forms_are_answered_in_the_words_of_redis() {
    let out_of_range = "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n";
    let shape = |name: &str, container: &str| {
        format!(
            "-ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP.\r\n"
        )
    };
    check(&[
        ("SELECT 99999999999", out_of_range),
        ("SELECT -99999999999", out_of_range),
        ("SELECT 2147483647", "-ERR DB index is out of range\r\n"),
        ("COPY a b DB 99999999999", out_of_range),
        ("CLIENT LIST ID 0 -1", "$0\r\n\r\n"),
        ("CLIENT LIST ID 1 x", "-ERR Invalid client ID\r\n"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0\r\n"),
        ("CLIENT KILL TYPE n\0", "-ERR Unknown client type 'n'\r\n"),
        ("CLIENT KILL SKIPME yes USER me\0x", "-ERR No such user 'me'\r\n"),
        ("CLIENT pause 1 WRITE x", &shape("pause", "CLIENT")),
        ("SLOWLOG Get 1 2", &shape("Get", "SLOWLOG")),
        ("FUNCTION FLUSH", "+OK\r\n"),
        ("FUNCTION FLUSH async", "+OK\r\n"),
        ("FUNCTION FLUSH x", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option\r\n"),
        ("FUNCTION FLUSH SYNC SYNC", &shape("FLUSH", "FUNCTION")),
        ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error\r\n"),
        ("SHUTDOWN NOSAVE SAVE", "-ERR syntax error\r\n"),
        ("BGSAVE now", "-ERR syntax error\r\n"),
        ("MEMORY USAGE a SAMPLES -1", "-ERR syntax error\r\n"),
        ("MEMORY USAGE a SAMPLES 1 samples 0", "$-1\r\n"),
        ("MEMORY USAGE a SAMPLES x y", "-ERR value is not an integer or out of range\r\n"),
        ("MEMORY USAGE a SAMPLES 1 SAMPLES", "-ERR syntax error\r\n"),
        ("EXPIRE a 1 n\0x", "-ERR Unsupported option n\r\n"),
        ("LATENCY GRAPH x\0y", "-ERR No samples available for event 'x'\r\n"),
        ("HELLO 3 SETNAME me FOO", "-ERR Syntax error in HELLO option 'FOO'\r\n"),
        ("CLIENT GETNAME", "$2\r\nme\r\n"),
        (
            "HELLO 3 SETNAME m\u{e9} AUTH x y",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("LOLWUT VERSION x", "-ERR value is not an integer or out of range\r\n"),
        ("COMMAND GETKEYSANDFLAGS SET k v", "*1\r\n*2\r\n$1\r\nk\r\n*2\r\n+OW\r\n+update\r\n"),
        (
            "COMMAND GETKEYSANDFLAGS SET get v EX 10 get",
            "*1\r\n*2\r\n$3\r\nget\r\n*3\r\n+RW\r\n+access\r\n+update\r\n",
        ),
    ]);
}

#[test]
fn settings_are_given_back_and_changed_all_or_none() {
    check(&[
        ("CONFIG GET port", &bulks(&["port", "6379"])),
        ("CONFIG GET save appendonly", &bulks(&["appendonly", "no", "save", ""])),
        ("CONFIG GET SLAVE-read*", &bulks(&["slave-read-only", "yes"])),
        ("CONFIG SET maxmemory 1kb hz 20", "+OK\r\n"),
        ("CONFIG GET MaxMemory-Policy max?emory-policy", &bulks(&["MaxMemory-Policy", "noeviction"])),
        ("CONFIG GET maxmemory", &bulks(&["maxmemory", "1024"])),
        (
            "CONFIG SET hz 30 nosuch 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'\r\n",
        ),
        ("CONFIG GET hz", &bulks(&["hz", "20"])),
        (
            "CONFIG SET port 1",
            "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port: it is chosen at the start\r\n",
        ),
        ("CONFIG SET port 6379 hz 11", "+OK\r\n"),
        (
            "CONFIG SET tcp-backlog 511",
            "-ERR CONFIG SET failed (possibly related to argument 'tcp-backlog') - can't set immutable config\r\n",
        ),
        ("CONFIG SET hz", "-ERR wrong number of arguments for 'config|set' command\r\n"),
        ("CONFIG REWRITE", "+OK\r\n"),
        ("CONFIG RESETSTAT", "+OK\r\n"),
    ]);
}

#[test]
fn a_password_that_is_set_is_asked_of_new_clients_on_every_lane() {
    let mut world = World::new(3);
    let first = world.connect();
    assert_eq!(world.ask(&first, "CONFIG SET requirepass secret"), "+OK\r\n");
    assert_eq!(world.ask(&first, "PING"), "+PONG\r\n", "who is in stays in");
    for lane in 0..3 {
        let client = world.connect_to(lane);
        assert_eq!(world.ask(&client, "PING"), "-NOAUTH Authentication required.\r\n");
        assert_eq!(world.ask(&client, "AUTH secret"), "+OK\r\n");
        assert_eq!(world.ask(&client, "PING"), "+PONG\r\n");
    }
    // HELLO does what its options say one after the other.
    let client = world.connect();
    assert_eq!(
        world.ask(&client, "HELLO 3 SETNAME me"),
        "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option \
         can be used to authenticate the client and select the RESP protocol version at the same time\r\n"
    );
    assert_eq!(
        world.ask(&client, "EXEC"),
        "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n"
    );
    assert!(world.ask(&client, "HELLO 3 AUTH default wrong").starts_with("-WRONGPASS "));
    assert_eq!(world.ask(&client, "PING"), "-NOAUTH Authentication required.\r\n");
    let option = "-ERR Syntax error in HELLO option 'FOO'\r\n";
    assert_eq!(world.ask(&client, "HELLO 3 AUTH default secret FOO"), option);
    assert_eq!(world.ask(&client, "CLIENT GETNAME"), "$2\r\nme\r\n");
}

#[test]
fn info_adds_up_the_lanes_that_the_client_sees() {
    let mut world = World::new(3);
    let client = world.connect();
    for key in 0..30 {
        assert_eq!(world.ask(&client, &format!("SET key{key} 1 EX 100")), "+OK\r\n");
    }
    let info = world.ask(&client, "INFO");
    for line in [
        "redis_version:7.0.15",
        "redis_mode:standalone",
        "process_id:42",
        "arch_bits:64",
        "tcp_port:6379",
        "run_id:0123456789abcdef0123456789abcdef01234567",
        "connected_clients:1",
        "total_commands_processed:31",
        "cluster_enabled:0",
        "used_cpu_sys:1.500000",
    ] {
        assert!(info.contains(&format!("\r\n{line}\r\n")), "{line} in {info}");
    }
    assert!(info.contains("\r\ndb0:keys=30,expires=30,avg_ttl=99"), "{info}");
    assert!(!info.contains("# Commandstats") && !info.contains("# Lanes"));
    let info = world.ask(&client, "INFO commandstats lanes");
    assert!(info.contains("cmdstat_set:calls=30,"), "{info}");
    assert!(
        info.contains(",cpu=6,node=unknown,us=unknown,"),
        "the machine's part follows the lane's: {info}"
    );
    assert!(info.contains("lane2:commands=0,direct=0,forwarded=0,"), "{info}");
    // On a lane's own port only that lane is seen.
    let node = world.connect_to(1);
    let info = world.ask(&node, "INFO everything");
    assert!(info.contains("redis_mode:cluster") && info.contains("cluster_enabled:1"));
    for (asker, value) in [(&client, "no"), (&node, "yes"), (&client, "no")] {
        let want = bulks(&["cluster-enabled", value]);
        assert_eq!(world.ask(asker, "CONFIG GET cluster-enabled"), want);
        let in_multi = world.ask_all(asker, &["MULTI", "CONFIG GET cluster-en*", "EXEC"]);
        assert!(in_multi.ends_with(&format!("*1\r\n{want}")), "{in_multi}");
    }
    let keys: u32 = (0..3)
        .map(|lane| {
            let node = world.connect_to(lane);
            let size = world.ask(&node, "DBSIZE");
            let count: u32 = size.trim_matches([':', '\r', '\n']).parse().unwrap();
            let info = world.ask(&node, "INFO keyspace");
            assert!(info.contains(&format!("db0:keys={count},")), "{info}");
            count
        })
        .sum();
    assert_eq!(keys, 30);
}

#[test]
fn clients_are_listed_over_all_lanes_and_killed() {
    let mut world = World::new(3);
    let first = world.connect();
    let nodes = [world.connect_to(0), world.connect_to(2)];
    for (node, name) in nodes.iter().zip(["one", "two"]) {
        assert_eq!(world.ask(node, &format!("CLIENT SETNAME {name}")), "+OK\r\n");
    }
    let list = world.ask(&first, "CLIENT LIST");
    assert_eq!(list.matches("id=").count() - list.matches("laddr=").count(), 0, "one line each");
    assert!(list.contains("name=one") && list.contains("name=two") && list.contains("cmd=client|list"));
    assert!(list.contains("lane=2\n"));
    assert_eq!(
        list.matches(" multi=-1 qbuf=26 ").count(),
        1,
        "the command being answered is in its asker's buffer"
    );
    let info = world.ask(&first, "CLIENT INFO");
    assert!(info.contains(" multi=-1 qbuf=26 ") && info.contains(" cmd=client|info "), "{info}");
    assert_eq!(world.ask(&first, "CLIENT LIST TYPE pubsub"), "$0\r\n\r\n");
    assert_eq!(world.ask(&first, "CLIENT LIST TYPE none"), "-ERR Unknown client type 'none'\r\n");
    assert_eq!(world.ask(&first, "CLIENT KILL nobody:1"), "-ERR No such client\r\n");
    assert_eq!(world.ask(&first, "CLIENT KILL TYPE normal"), ":2\r\n", "the one that asks is left out");
    assert_eq!(world.ask(&nodes[0], "PING"), "", "its connection is closed");
    assert_eq!(world.ask(&first, "CLIENT KILL TYPE normal SKIPME no"), ":1\r\n", "its reply comes first");
    assert_eq!(world.ask(&first, "PING"), "");
}

/// However many there are: a lane closes some each turn, and what it says counts all of them.
#[test]
fn who_was_killed_is_counted_over_turns_and_lanes() {
    const COUNTS: [usize; 3] = [3, 300, 4];
    let mut world = World::new(3);
    let nodes: Vec<_> =
        (0..3).flat_map(|lane| vec![lane; COUNTS[lane]]).map(|lane| world.connect_to(lane)).collect();
    let client = world.connect();
    for _ in 0..40 {
        world.round(1_000_000);
    }
    assert_eq!(world.ask(&client, "CLIENT KILL ID 999999"), ":0\r\n");
    assert_eq!(world.ask(&client, "CLIENT KILL TYPE normal SKIPME no"), ":308\r\n", "and itself");
    assert!(client.at_end() && nodes.iter().all(mem::Client::at_end));
    let client = world.connect();
    assert_eq!(world.ask(&client, "CLIENT KILL TYPE normal"), ":0\r\n", "counting begins anew");
    let other = world.connect_to(1);
    world.ask(&other, "PING");
    assert_eq!(world.ask(&client, "CLIENT KILL TYPE normal"), ":1\r\n");
}

/// Redis kills who has said QUIT and has not read its replies, too.
#[test]
fn who_leaves_and_does_not_read_can_be_killed() {
    let mut world = World::new(2);
    let (client, leaving) = (world.connect(), world.connect());
    let id = world.ask(&leaving, "CLIENT ID");
    assert_eq!(world.ask(&client, "SETRANGE foo 199999 v"), ":200000\r\n");
    leaving.write(b"GET foo\r\nQUIT\r\n");
    for _ in 0..20 {
        world.round(1_000_000);
    }
    let id = id.trim_matches([':', '\r', '\n']);
    let list = world.ask(&client, &format!("CLIENT LIST ID {id}"));
    assert!(list.contains(" flags=c "), "{list}");
    assert_eq!(world.ask(&client, &format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert!(leaving.read_all().len() < 200_000 && leaving.at_end());
    assert_eq!(world.ask(&client, &format!("CLIENT LIST ID {id}")), "$0\r\n\r\n");
}

/// A proxy or NAT before the lanes moves their ports: clients are told where it listens, everywhere and alike.
#[test]
fn announced_ports_count_from_their_own_base() {
    let mut world = World::told(2, &[], |settings| {
        settings.announce_ip = Some("db.example".to_owned());
        settings.announce_port_base = Some(31_000);
    });
    let client = world.connect();
    let slots = world.ask(&client, "CLUSTER SLOTS");
    assert!(slots.contains("$10\r\ndb.example\r\n:31000\r\n") && slots.contains(":31001\r\n"), "{slots}");
    let shards = world.ask(&client, "CLUSTER SHARDS");
    assert!(shards.contains("$4\r\nport\r\n:31001\r\n$2\r\nip\r\n$10\r\ndb.example\r\n"), "{shards}");
    let nodes = world.ask(&client, "CLUSTER NODES");
    assert!(nodes.contains("0001 db.example:31001@41001 "), "{nodes}");
    let node = world.connect_to(0);
    assert_eq!(world.ask(&node, "GET foo"), "-MOVED 12182 db.example:31001\r\n");
}

/// Ports may lie a step apart, announced ones as well.
#[test]
fn ports_lie_a_step_apart() {
    for (announced, want) in [(None, 7010), (Some(31_000), 31_010)] {
        let mut world = World::told(2, &[], |settings| {
            settings.lane_ports = Some(Ports { first: 7000, step: 10 });
            settings.announce_port_base = announced;
        });
        let (client, node) = (world.connect(), world.connect_to(0));
        assert!(world.ask(&client, "CLUSTER SLOTS").contains(&format!(":{want}\r\n")));
        assert_eq!(world.ask(&node, "GET foo"), format!("-MOVED 12182 127.0.0.1:{want}\r\n"));
    }
}

#[test]
fn lanes_are_the_nodes_of_a_cluster() {
    let mut world = World::new(2);
    let client = world.connect();
    let slots = world.ask(&client, "CLUSTER SLOTS");
    assert!(
        slots.starts_with("*2\r\n*3\r\n:0\r\n:8191\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$40\r\n"),
        "{slots}"
    );
    let node = world.connect_to(1);
    let nodes = world.ask(&node, "CLUSTER NODES");
    let id = "0123456789abcdef0123456789abcdef0123";
    assert!(nodes.contains(&format!("{id}0000 127.0.0.1:7000@17000 master - 0 0 ")), "{nodes}");
    assert!(nodes.contains(&format!("{id}0001 127.0.0.1:7001@17001 myself,master - 0 0 ")), "{nodes}");
    assert!(nodes.contains(" connected 8192-16383\n"), "{nodes}");
    assert_eq!(world.ask(&node, "CLUSTER MYID"), format!("$40\r\n{id}0001\r\n"));
    assert!(world.ask(&node, "CLUSTER INFO").contains("cluster_known_nodes:2\r\n"));
    assert!(
        world.ask(&node, "CLUSTER SHARDS").starts_with("*2\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:8191\r\n")
    );
    // foo is in slot 12182, which the second lane owns; {foo} keys are in the same.
    assert_eq!(world.ask(&client, "CLUSTER KEYSLOT foo"), ":12182\r\n");
    world.ask(&client, "MSET foo 1 {foo}a 2 bar 3");
    assert_eq!(world.ask(&client, "CLUSTER COUNTKEYSINSLOT 12182"), ":2\r\n");
    assert_eq!(world.ask(&client, "CLUSTER GETKEYSINSLOT 12182 1").matches("foo").count(), 1);
    assert_eq!(world.ask(&client, "CLUSTER GETKEYSINSLOT 12182 10").matches("foo").count(), 2);
    assert_eq!(world.ask(&client, "CLUSTER COUNTKEYSINSLOT 16384"), "-ERR Invalid slot\r\n");
    for command in ["COUNTKEYSINSLOT foo", "GETKEYSINSLOT foo 1", "GETKEYSINSLOT 16384 many"] {
        let reply = world.ask(&client, &format!("CLUSTER {command}"));
        assert_eq!(reply, "-ERR value is not an integer or out of range\r\n", "{command}");
    }
}

#[test]
fn doors_stay_what_they_are_when_settings_change() {
    let mut world = World::new(2);
    let client = world.connect();
    assert_eq!(world.ask(&client, "CONFIG SET maxclients 100"), "+OK\r\n");
    let node = world.connect_to(0);
    assert!(world.ask(&node, "GET foo").starts_with("-MOVED 12182 127.0.0.1:7001"));
}

#[test]
fn no_more_clients_are_allowed_than_the_machine_can_have() {
    let mut world = World::new(2);
    world.machine.client_count_max = 20_000;
    let client = world.connect();
    assert_eq!(world.ask(&client, "CONFIG SET maxclients 20000"), "+OK\r\n");
    world.machine.client_count_max = 100;
    assert_eq!(world.ask(&client, "CONFIG SET maxclients 20000"), "+OK\r\n", "no more than there were");
    assert_eq!(
        world.ask(&client, "CONFIG SET timeout 5 maxclients 20001"),
        "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle \
         the specified number of clients, try with 100\r\n",
    );
    let got = world.ask(&client, "CONFIG GET timeout maxclients");
    assert!(got.contains("\r\n20000\r\n") && got.contains("\r\n$1\r\n0\r\n"), "{got}");
}

#[test]
fn a_pause_holds_commands_back_on_every_lane() {
    let mut world = World::new(3);
    let client = world.connect();
    let nodes = [world.connect_to(0), world.connect_to(1), world.connect_to(2)];
    assert_eq!(world.ask(&client, "CLIENT PAUSE -1"), "-ERR timeout is negative\r\n");
    assert_eq!(world.ask(&client, "CLIENT PAUSE x"), "-ERR timeout is not an integer or out of range\r\n");
    assert_eq!(world.ask(&client, "CLIENT PAUSE 1000 WRITE"), "+OK\r\n");
    for node in &nodes {
        assert_eq!(world.ask(node, "DBSIZE"), ":0\r\n", "reading goes on");
        assert_eq!(world.ask(node, "FLUSHALL"), "", "writing waits");
    }
    assert!(world.ask(&client, "INFO clients").contains("blocked_clients:3"));
    assert_eq!(world.ask(&client, "CLIENT UNPAUSE"), "+OK\r\n");
    for node in &nodes {
        assert_eq!(node.read_all(), b"+OK\r\n");
    }
    assert_eq!(world.ask(&client, "CLIENT PAUSE 100"), "+OK\r\n");
    assert_eq!(world.ask(&nodes[1], "PING"), "");
    for _ in 0..100 {
        world.round(1_000_000);
    }
    assert_eq!(nodes[1].read_all(), b"+PONG\r\n", "it ends by itself");
}

#[test]
fn replies_may_be_switched_off() {
    check(&[
        ("CLIENT REPLY skip", ""),
        ("SET a 1", ""),
        ("GET a", "$1\r\n1\r\n"),
        ("CLIENT REPLY OFF", ""),
        ("SET b 2", ""),
        ("MSET c 3 d 4 e 5", ""),
        ("NOSUCH", ""),
        ("INFO", ""),
        ("CLIENT REPLY on", "+OK\r\n"),
        ("MGET b c d", "*3\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n"),
        ("CLIENT REPLY maybe", "-ERR syntax error\r\n"),
    ]);
}

/// Only what is a password is left out, and of a large command, which is gathered, the front is shown.
#[test]
fn slow_commands_are_shown_as_far_as_they_may_be() {
    let check = |command: &str, want: &[&str]| {
        let mut world = World::new(2);
        let client = world.connect();
        world.ask(&client, "CONFIG SET slowlog-log-slower-than 0");
        world.ask(&client, "SLOWLOG RESET");
        world.ask(&client, command);
        let log = world.ask(&client, "SLOWLOG GET -1");
        assert!(log.contains(&bulks(want)), "{want:?}: {log}");
    };
    let hidden = "(redacted)";
    check("HELLO 2 AUTH me secret SETNAME x", &["HELLO", "2", "AUTH", hidden, hidden, "SETNAME", "x"]);
    check(
        "CONFIG SET hz 10 masterauth secret timeout 0",
        &["CONFIG", "SET", "hz", "10", "masterauth", hidden, "timeout", "0"],
    );
    let value = "v".repeat(33_000);
    check(&format!("SET key {value}"), &["SET", "key", &format!("{}... (32872 more bytes)", &value[..128])]);
    check(&format!("MSET key {value} other v"), &["MSET", "key", "... (3 more arguments)"]);
}

/// How long strings may grow, on every lane at once.
#[test]
fn proto_max_bulk_len_bounds_what_commands_make() {
    let mut world = World::new(2);
    let client = world.connect();
    assert_eq!(world.ask(&client, "SETRANGE a 2000000 x"), ":2000001\r\n");
    assert_eq!(world.ask(&client, "CONFIG SET proto-max-bulk-len 1mb"), "+OK\r\n");
    for key in ["a", "b", "c", "d"] {
        let got = world.ask(&client, &format!("SETRANGE {key} 1048576 x"));
        assert_eq!(got, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    }
}

#[test]
fn slow_commands_are_logged_without_passwords() {
    let mut world = World::new(3);
    let client = world.connect();
    assert_eq!(world.ask(&client, "SLOWLOG GET"), "*0\r\n");
    assert_eq!(world.ask(&client, "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3"), "+OK\r\n");
    world.ask(&client, "ECHO first");
    world.ask(&client, &format!("ECHO {}", "x".repeat(200)));
    world.ask(&client, "AUTH secret");
    assert_eq!(world.ask(&client, "CONFIG SET slowlog-log-slower-than -1"), "+OK\r\n");
    // The one that switches the log on is in it, the one that switches it off is not.
    assert_eq!(world.ask(&client, "SLOWLOG LEN"), ":3\r\n");
    let log = world.ask(&client, "SLOWLOG GET -1");
    assert!(log.starts_with("*3\r\n*6\r\n:3\r\n:1700000000\r\n:1\r\n*2\r\n$4\r\nAUTH\r\n"), "{log}");
    assert!(log.contains("*2\r\n$4\r\nAUTH\r\n$10\r\n(redacted)\r\n") && !log.contains("secret"), "{log}");
    assert!(log.contains("x... (72 more bytes)\r\n") && log.contains("first"), "{log}");
    assert!(!log.contains("slower-than"), "the oldest is forgotten: {log}");
    assert_eq!(world.ask(&client, "SLOWLOG RESET"), "+OK\r\n");
    assert_eq!(world.ask(&client, "SLOWLOG LEN"), ":0\r\n");
    let times = world.ask(&client, "LATENCY HISTOGRAM echo");
    let want = "*2\r\n$4\r\necho\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n*2\r\n:2\r\n:2\r\n";
    assert_eq!(times, want);
    let info = world.ask(&client, "INFO commandstats latencystats");
    assert!(info.contains("cmdstat_echo:calls=2,usec=2,usec_per_call=1.00,"), "{info}");
    assert!(info.contains("latency_percentiles_usec_echo:p50=1.000,p99=1.000,p99.9=1.000"), "{info}");
}

#[test]
fn shutdown_is_told_to_the_runner() {
    let mut world = World::new(1);
    let client = world.connect();
    assert!(
        world.ask(&client, "SHUTDOWN SAVE").starts_with("-ERR this server keeps its data in memory only")
    );
    assert_eq!(world.ask(&client, "SHUTDOWN ABORT"), "-ERR No shutdown in progress.\r\n");
    assert_eq!(world.ask(&client, "SHUTDOWN BOGUS"), "-ERR syntax error\r\n");
    assert_eq!(world.shutdown(), None);
    assert_eq!(world.ask(&client, "SHUTDOWN NOSAVE"), "", "the connection's end is the answer");
    assert_eq!(world.shutdown(), Some(Shutdown::Drain));
}

#[test]
fn commands_describe_themselves() {
    check(&[
        ("COMMAND GETKEYS MSET a 1 b 2", &bulks(&["a", "b"])),
        ("COMMAND GETKEYS PING a", "-ERR The command has no key arguments\r\n"),
        ("COMMAND INFO nosuch", "*1\r\n$-1\r\n"),
        ("COMMAND LIST FILTERBY PATTERN mset*", &bulks(&["mset", "msetnx"])),
        ("TIME", "*2\r\n$10\r\n1700000000\r\n$5\r\n80000\r\n"),
        ("COMMAND GETKEYS EVAL x 3 a", "*0\r\n"),
        ("COMMAND GETKEYS MIGRATE h 1 a 0 1 KEYS", &bulks(&["a"])),
        ("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
        ("READONLY", "+OK\r\n"),
        ("MEMORY USAGE none", "$-1\r\n"),
        ("MEMORY USAGE none SAMPLES x", "-ERR value is not an integer or out of range\r\n"),
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CLIENT SETINFO lib-name test", "+OK\r\n"),
        ("CLIENT SETINFO lib-nme test", "-ERR Unrecognized option 'lib-nme'\r\n"),
        ("MULTI", "+OK\r\n"),
        ("TIME", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n*2\r\n$10\r\n1700000000\r\n$6\r\n320000\r\n"),
    ]);
    let mut world = World::new(1);
    let client = world.connect();
    let list = world.ask(&client, "COMMAND LIST");
    assert!(list.contains("$6\r\nclient\r\n") && list.contains("$11\r\nclient|list\r\n"), "{list}");
}

#[test]
fn limits_of_memory_are_set_at_once_and_what_clients_hold_is_shown() {
    let mut world = World::new(3);
    let client = world.connect();
    let field = |text: &str, name: &str| -> u64 {
        let value = text.split([' ', '\r', '\n']).find_map(|field| field.strip_prefix(name));
        value.unwrap_or_else(|| panic!("{name} is in {text}")).parse().unwrap()
    };
    let value = "v".repeat(50_000);
    let queueing = world.connect();
    assert_eq!(world.ask(&queueing, "MULTI"), "+OK\r\n");
    for _ in 0..2 {
        assert_eq!(world.ask(&queueing, &format!("SET k {value}")), "+QUEUED\r\n");
    }
    let info = world.ask(&client, "INFO memory");
    let held = field(&info, "mem_clients_normal:");
    // Each of them takes a block of 56 KiB.
    assert!((114_688..120_000).contains(&held), "{held}");
    assert!(field(&info, "used_memory_overhead:") >= held && field(&info, "used_memory:") >= held);
    let list = world.ask(&client, "CLIENT LIST");
    let line = list.lines().find(|line| line.contains(" multi=2 ")).unwrap();
    let queued = field(line, "multi-mem=");
    assert!((114_696..115_300).contains(&queued), "{queued}");
    assert!(field(line, "tot-mem=") > queued);
    let named = world.connect();
    assert_eq!(world.ask(&named, "PING"), "+PONG\r\n");
    let before = field(&world.ask(&client, "INFO memory"), "mem_clients_normal:");
    assert_eq!(world.ask(&named, &format!("CLIENT SETNAME {}", &value[..20_000])), "+OK\r\n");
    assert_eq!(world.ask(&named, &format!("CLIENT SETINFO lib-name {}", &value[..10_000])), "+OK\r\n");
    let after = field(&world.ask(&client, "INFO memory"), "mem_clients_normal:");
    assert!(
        (29_900..30_100).contains(&(after - before)),
        "what it says of itself is its own: {before} {after}"
    );
    drop(named);
    let cut = world.connect();
    cut.write(b"*2\r\n$3\r\nGET\r\n$10\r\nhal");
    let list = world.ask(&client, "CLIENT LIST");
    assert!(list.contains(" qbuf=21 "), "half a command: {list}");

    // One lane takes what all may hold; the others' leases are small and stay within it.
    assert_eq!(world.ask(&client, "CONFIG SET maxmemory 600kb"), "+OK\r\n");
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let taken = (0..100)
        .filter(|number| world.ask(&client, &format!("SET {{a}}{number} {}", &value[..10_000])) == "+OK\r\n");
    let taken_count = taken.count();
    assert!(
        (35..50).contains(&taken_count),
        "500 KB less some for clients, in values of 10 KB: {taken_count}"
    );
    assert_eq!(world.ask(&client, "CONFIG SET maxmemory 300kb"), "+OK\r\n");
    assert_eq!(world.ask(&client, "SET {a}0 x"), oom);
    assert_eq!(world.ask(&client, "CONFIG SET maxmemory-policy allkeys-random"), "+OK\r\n");
    assert_eq!(world.ask(&client, "SET {a}0 x"), "+OK\r\n");
    let used = field(&world.ask(&client, "INFO memory"), "used_memory:");
    assert!(used <= 300 << 10, "{used} after eviction");

    assert_eq!(world.ask(&client, "CONFIG SET maxmemory-clients 50%"), "+OK\r\n");
    assert_eq!(world.ask(&queueing, "PING"), "+QUEUED\r\n", "150 KiB are enough");
    assert_eq!(world.ask(&client, "CONFIG SET maxmemory-clients 1"), "+OK\r\n");
    assert_eq!(world.ask(&queueing, "PING"), "+QUEUED\r\n", "and the least is 128 KiB");
    world.ask(&queueing, &format!("SET k {}", &value[..40_000]));
    assert!(queueing.at_end());
    assert!(world.ask(&client, "INFO stats").contains("evicted_clients:1\r\n"));
}

/// What is said back of a long word is a reference to it, in MULTI and to who has subscribed, too.
#[test]
fn a_long_word_is_said_back_whole() {
    let mut world = World::new(2);
    let client = world.connect();
    let mut say = |command: &str| {
        let mut got = world.ask(&client, command);
        while !got.ends_with("\r\n") {
            got += &world.ask_all(&client, &[]);
        }
        got
    };
    let word = "w".repeat(40_000);
    let bulk = format!("$40000\r\n{word}\r\n");
    for command in ["ECHO", "PING"] {
        let line = format!("{command} {word}");
        assert!(say(&line) == bulk, "{command}");
        assert_eq!(say("MULTI"), "+OK\r\n");
        assert_eq!(say(&line), "+QUEUED\r\n");
        assert!(say("EXEC") == format!("*1\r\n{bulk}"), "{command} in MULTI");
    }
    say("SUBSCRIBE c");
    assert!(say(&format!("PING {word}")) == format!("*2\r\n$4\r\npong\r\n{bulk}"));
}

/// A field may lie over `proto-max-bulk-len`, but no string is longer than 8 GiB.
#[test]
fn a_field_ends_where_strings_end() {
    let mut world = World::told(1, &[], |settings| settings.bulk_size_max = 16 << 30);
    let client = world.connect();
    let refused = "-ERR bit offset is not an integer or out of range\r\n";
    for bit in ["68719476735", "68719476673", "#1073741824", "68719476736"] {
        for operation in ["SET i64 BIT 1", "GET i64 BIT", "INCRBY i64 BIT 1"] {
            let line = format!("BITFIELD k {}", operation.replace("BIT", bit));
            assert_eq!(world.ask(&client, &line), refused, "{line}");
        }
    }
    assert_eq!(world.ask(&client, "BITFIELD k GET i64 68719476672"), "*1\r\n:0\r\n");
    assert_eq!(world.ask(&client, "SETBIT k 68719476736 1"), refused);
}

/// By the clock of the turn, not of the one before.
#[test]
fn what_is_written_after_a_quiet_time_is_new() {
    let mut world = World::new(1);
    let client = world.connect();
    assert_eq!(world.ask(&client, "SET a 1"), "+OK\r\n");
    world.now.unix_ms += 4000;
    world.now.mono_ns += 4_000_000_000;
    assert_eq!(
        world.ask_all(&client, &["OBJECT IDLETIME a", "SET b 1", "OBJECT IDLETIME b"]),
        ":4\r\n+OK\r\n:0\r\n"
    );
}

/// What is not in one piece is no name, no pattern and no setting: it must not be taken for an empty one.
#[test]
fn a_long_argument_is_refused_where_it_is_no_value() {
    let mut world = World::new(2);
    let client = world.connect_small(0, 1 << 20);
    let long = "x".repeat(40_000);
    let refused = "-ERR argument is longer than 32768 bytes\r\n";
    for command in [
        "CONFIG SET requirepass",
        "CONFIG SET masterauth",
        "CONFIG GET",
        "CLIENT SETNAME",
        "CLIENT TRACKING on bcast prefix",
        "PUBSUB NUMSUB",
        "PUBSUB CHANNELS",
        "KEYS",
        "SCAN 0 MATCH",
        "CLUSTER KEYSLOT",
        "HELLO 3 SETNAME",
        "ACL WHOAMI",
    ] {
        let want = if command == "ACL WHOAMI" {
            "-ERR wrong number of arguments for 'acl|whoami' command\r\n"
        } else {
            refused
        };
        assert_eq!(world.ask(&client, &format!("{command} {long}")), want, "{command}");
    }
    assert_eq!(
        world.ask_all(&client, &["MULTI", &format!("CONFIG SET requirepass {long}")]),
        format!("+OK\r\n{refused}")
    );
    assert!(world.ask(&client, "EXEC").starts_with("-EXECABORT"));
    let script = format!("EVAL return(redis.pcall('keys',ARGV[1])) 0 {long}");
    assert_eq!(world.ask(&client, &script), refused);
    assert_eq!(world.ask(&client, "CONFIG GET requirepass"), "*2\r\n$11\r\nrequirepass\r\n$0\r\n\r\n");
    assert_eq!(world.ask(&client, &format!("ECHO {long}")), format!("$40000\r\n{long}\r\n"));
    assert_eq!(world.ask(&client, &format!("PUBLISH channel {long}")), ":0\r\n");
    assert_eq!(world.ask(&client, &format!("SET key {long}")), "+OK\r\n");
    assert_eq!(world.ask(&client, &format!("COMMAND GETKEYS SET key {long}")), "*1\r\n$3\r\nkey\r\n");
    assert_eq!(world.ask(&client, &format!("ACL DRYRUN default SET key {long}")), "+OK\r\n");
}
