//! REPLICAOF, as the control thread has it: what the machine is told, what lanes let clients do, and what is shown of it.

use lane::{FileNews, FileOrder, FollowNews, FollowOrder, Followed, Following, Primary, Shutdown};
use net::mem::Client;

use super::world::World;

const READONLY: &str = "-READONLY You can't write against a read only replica.\r\n";
const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";
const MASTERDOWN: &str = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// The orders since the last look, in short.
fn orders(world: &mut World) -> Vec<String> {
    let short = |order: FollowOrder| match order {
        FollowOrder::Begin { number, primary: Primary { host, port } } => {
            format!("begin {number} {host}:{port}")
        }
        FollowOrder::Heed(terms) => {
            format!("heed {:?} {:?} {}", terms.user, terms.password, terms.announce_port)
        }
        FollowOrder::Load(number) => format!("load {number}"),
        FollowOrder::Serve(number) => format!("serve {number}"),
        FollowOrder::End(number) => format!("end {number}"),
    };
    world.machine.follow_orders.drain(..).map(short).collect()
}

fn hear(world: &mut World, number: u64, followed: Followed) {
    world.machine.follow_news.push_back(FollowNews::Of(number, followed));
    for _ in 0..6 {
        world.round(1_000_000);
    }
}

fn field(world: &mut World, client: &Client, name: &str) -> String {
    let info = world.ask(client, "INFO replication");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or("(none)").to_owned()
}

/// The fourth word of ROLE.
fn state(world: &mut World, client: &Client) -> String {
    world.ask(client, "ROLE").lines().nth(7).unwrap_or_default().to_owned()
}

fn led(world: &mut World, client: &Client) {
    assert_eq!(world.ask(client, "REPLICAOF elsewhere 7000"), "+OK\r\n");
    assert_eq!(orders(world), ["heed \"\" \"\" 6379", "begin 1 elsewhere:7000"]);
}

#[test]
fn the_way_to_a_primary_is_seen_from_outside() {
    let mut world = World::new(3);
    let client = world.connect();
    assert_eq!(world.ask(&client, "SET own 1"), "+OK\r\n");
    led(&mut world, &client);
    assert_eq!(state(&mut world, &client), "connect");
    assert_eq!(
        world.ask(&client, "CONFIG GET replicaof"),
        "*2\r\n$9\r\nreplicaof\r\n$14\r\nelsewhere 7000\r\n"
    );
    hear(&mut world, 1, Followed::Connects);
    assert_eq!(state(&mut world, &client), "connecting");
    hear(&mut world, 1, Followed::Greets);
    assert_eq!(state(&mut world, &client), "handshake");
    assert_eq!(field(&mut world, &client, "master_link_status"), "down");
    assert_eq!(field(&mut world, &client, "master_link_down_since_seconds"), "-1");
    // What was there is served until it is replaced.
    assert_eq!(world.ask(&client, "GET own"), "$1\r\n1\r\n");
    hear(&mut world, 1, Followed::Prepares);
    assert_eq!(state(&mut world, &client), "sync");
    assert_eq!(world.ask(&client, "GET own"), "$1\r\n1\r\n");
    assert!(orders(&mut world).is_empty());
    hear(&mut world, 1, Followed::Sends);
    assert_eq!(orders(&mut world), ["load 1"], "lanes are closed first");
    assert_eq!(state(&mut world, &client), "sync");
    assert_eq!(world.ask(&client, "GET own"), LOADING);
    assert_eq!(world.ask(&client, "SET own 2"), READONLY);
    assert_eq!(world.ask(&client, "PING"), LOADING);
    hear(&mut world, 1, Followed::Read { size: 250, total: Some(1000) });
    assert_eq!(field(&mut world, &client, "master_sync_in_progress"), "1");
    assert_eq!(field(&mut world, &client, "master_sync_left_bytes"), "750");
    assert_eq!(field(&mut world, &client, "master_sync_perc"), "25.00");
    hear(&mut world, 1, Followed::InStep { offset: 42 });
    assert_eq!(
        world.ask(&client, "ROLE"),
        "*5\r\n$5\r\nslave\r\n$9\r\nelsewhere\r\n:7000\r\n$9\r\nconnected\r\n:42\r\n"
    );
    assert_eq!(field(&mut world, &client, "role"), "slave");
    assert_eq!(field(&mut world, &client, "master_link_status"), "up");
    assert_eq!(field(&mut world, &client, "master_sync_left_bytes"), "(none)");
    assert_eq!(world.ask(&client, "GET own"), "$1\r\n1\r\n");
    hear(&mut world, 1, Followed::Offset(99));
    assert_eq!(field(&mut world, &client, "slave_repl_offset"), "99");
    // What was told before somebody asks is what is answered.
    world.machine.follow_news.push_back(FollowNews::Of(1, Followed::Offset(100)));
    assert!(world.ask(&client, "ROLE").ends_with(":100\r\n"));
    assert_eq!(
        world.ask(&client, "REPLICAOF elsewhere 7000"),
        "+OK Already connected to specified master\r\n"
    );
    hear(&mut world, 1, Followed::Gone("it was switched off".to_owned()));
    world.round(5_000_000_000);
    assert_eq!(field(&mut world, &client, "master_link_down_since_seconds"), "5");
    assert_eq!(field(&mut world, &client, "slave_repl_offset"), "100");
    assert_eq!(state(&mut world, &client), "connect");
    // Once, however often it is tried.
    hear(&mut world, 1, Followed::Gone("it was switched off".to_owned()));
    assert_eq!(world.machine.warned.len(), 1, "{:?}", world.machine.warned);
    assert_eq!(orders(&mut world), ["serve 1"], "when lanes are open");
}

#[test]
fn clients_only_read() {
    let mut world = World::new(2);
    let client = world.connect();
    led(&mut world, &client);
    for write in
        ["SET k v", "DEL k", "FLUSHALL", "MSET a 1 b 2", "EVAL return_redis.call('set',KEYS[1],'v') 0"]
    {
        let reply = world.ask(&client, &write.replace("return_", "return\t"));
        assert!(reply.contains("READONLY") || reply.contains("ERR"), "{write}: {reply}");
    }
    assert_eq!(world.ask(&client, "SET k v"), READONLY);
    assert_eq!(
        world.ask_all(&client, &["MULTI", "SET k v", "EXEC"]),
        format!("+OK\r\n{READONLY}-EXECABORT Transaction discarded because of previous errors.\r\n")
    );
    assert_eq!(world.ask_all(&client, &["MULTI", "GET k", "EXEC"]), "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n");
    assert_eq!(world.ask(&client, "PUBLISH c m"), ":0\r\n");
    assert!(world.ask(&client, "WAIT 0 0").starts_with("-ERR WAIT cannot be used with replica instances."));
    assert!(world.ask(&client, "PSYNC ? -1").starts_with("-NOMASTERLINK "));
    // What it had queued before is refused by its EXEC.
    let mut world = World::new(2);
    let (client, other) = (world.connect(), world.connect());
    world.ask_all(&client, &["MULTI", "SET k v"]);
    led(&mut world, &other);
    assert_eq!(
        world.ask(&client, "EXEC"),
        format!("-EXECABORT Transaction discarded because of: {}", &READONLY[1..])
    );
}

#[test]
fn what_is_old_is_not_served_where_it_should_not_be() {
    let mut world = World::new(2);
    let (client, other) = (world.connect(), world.connect());
    world.ask(&client, "CONFIG SET replica-serve-stale-data no");
    assert_eq!(world.ask_all(&client, &["MULTI", "GET k"]), "+OK\r\n+QUEUED\r\n");
    orders(&mut world);
    led(&mut world, &other);
    assert_eq!(
        world.ask(&client, "EXEC"),
        format!("-EXECABORT Transaction discarded because of: {MASTERDOWN}\r\n")
    );
    assert_eq!(world.ask(&client, "GET k"), format!("-{MASTERDOWN}\r\n"));
    assert_eq!(world.ask(&client, "SET k v"), READONLY);
    assert_eq!(
        world.ask_all(&client, &["MULTI", "INFO nothing", "EXEC"]),
        "+OK\r\n+QUEUED\r\n*1\r\n$0\r\n\r\n"
    );
    assert_eq!(world.ask(&client, "CONFIG SET replica-serve-stale-data yes"), "+OK\r\n");
    assert_eq!(world.ask(&client, "GET k"), "$-1\r\n");
    world.ask(&client, "CONFIG SET replica-serve-stale-data no");
    for followed in [Followed::Sends, Followed::InStep { offset: 0 }] {
        hear(&mut world, 1, followed);
    }
    assert_eq!(world.ask(&client, "GET k"), "$-1\r\n");
    hear(&mut world, 1, Followed::Gone("away".to_owned()));
    assert_eq!(world.ask(&client, "GET k"), format!("-{MASTERDOWN}\r\n"));
}

#[test]
fn a_key_whose_time_has_come_waits_for_the_primary() {
    let mut world = World::new(2);
    let client = world.connect();
    world.ask_all(&client, &["SET a 1 PX 500", "SET b 2 PX 500", "SET c 3"]);
    led(&mut world, &client);
    world.round(2_000_000_000);
    assert_eq!(world.ask(&client, "MGET a b c"), "*3\r\n$-1\r\n$-1\r\n$1\r\n3\r\n");
    assert_eq!(world.ask(&client, "EXISTS a b c"), ":1\r\n");
    assert_eq!(world.ask(&client, "TTL a"), ":-2\r\n");
    assert_eq!(world.ask_all(&client, &["WATCH a", "UNWATCH"]), "+OK\r\n+OK\r\n");
    for _ in 0..30 {
        world.round(1_000_000_000);
    }
    assert_eq!(world.ask(&client, "DBSIZE"), ":3\r\n");
    assert_eq!(world.ask(&client, "REPLICAOF NO ONE"), "", "not before it has ended");
    assert_eq!(orders(&mut world), ["end 1"]);
    hear(&mut world, 1, Followed::Ended);
    assert_eq!(client.read_all(), b"+OK\r\n");
    for _ in 0..12 {
        world.round(1_000_000_000);
    }
    assert_eq!(world.ask(&client, "DBSIZE"), ":1\r\n");
    assert_eq!(world.ask(&client, "SET a 4 PX 500"), "+OK\r\n");
    world.round(2_000_000_000);
    world.round(0);
    assert_eq!(world.ask(&client, "DBSIZE"), ":1\r\n");
}

#[test]
fn nobody_is_followed_when_nothing_more_is_on_its_way() {
    let mut world =
        World::with(2, &[("masterauth", "pw"), ("masteruser", "me"), ("replicaof", "first 7001")]);
    let (client, other) = (world.connect(), world.connect());
    world.round(0);
    assert_eq!(orders(&mut world), ["heed \"me\" \"pw\" 6379", "begin 1 first:7001"]);
    assert_eq!(world.ask(&client, "CONFIG SET masterauth other replica-announce-port 7"), "+OK\r\n");
    assert_eq!(orders(&mut world), ["heed \"me\" \"other\" 7"]);
    // Another one: what the first one says counts no more.
    assert_eq!(world.ask(&client, "SLAVEOF second 7002"), "+OK\r\n");
    assert_eq!(orders(&mut world), ["heed \"me\" \"other\" 7", "begin 2 second:7002"]);
    hear(&mut world, 1, Followed::Sends);
    assert!(orders(&mut world).is_empty());
    for followed in [Followed::Sends, Followed::InStep { offset: 7 }] {
        hear(&mut world, 2, followed);
    }
    // In the middle of a snapshot, too; what there is of it is not seen.
    hear(&mut world, 2, Followed::Gone("it was cut off".to_owned()));
    hear(&mut world, 2, Followed::Sends);
    assert_eq!(world.ask(&client, "REPLICAOF third 7003"), "+OK\r\n");
    assert_eq!(world.ask(&client, "GET k"), LOADING);
    assert_eq!(world.ask(&client, "REPLICAOF second 7002"), "+OK\r\n");
    hear(&mut world, 2, Followed::Gone("it is not wanted any more".to_owned()));
    assert_eq!(world.ask(&client, "GET k"), "$-1\r\n");
    assert_eq!(orders(&mut world).join(" ").matches("begin").count(), 2);
    for followed in [Followed::Sends, Followed::InStep { offset: 7 }] {
        hear(&mut world, 4, followed);
    }
    assert_eq!(world.ask(&client, "replicaof no one"), "");
    assert_eq!(orders(&mut world), ["load 4", "serve 4", "end 4"]);
    assert_eq!(world.ask(&other, "SET k v"), READONLY);
    hear(&mut world, 4, Followed::Ended);
    assert_eq!(client.read_all(), b"+OK\r\n");
    assert_eq!(world.ask(&other, "SET k v"), "+OK\r\n");
    assert!(world.ask(&other, "ROLE").starts_with("*3\r\n$6\r\nmaster\r\n"));
    assert_eq!(world.ask(&other, "REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(world.ask(&client, "CONFIG REWRITE"), "+OK\r\n");
    assert!(world.machine.written.contains(&("replicaof".to_owned(), String::new())));
    // In a transaction, as Sentinel does it.
    assert_eq!(
        world.ask_all(&client, &["MULTI", "SLAVEOF third 7003", "CONFIG REWRITE", "EXEC"]),
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n"
    );
    assert!(world.machine.written.contains(&("replicaof".to_owned(), "third 7003".to_owned())));
}

#[test]
fn a_primary_has_a_host_and_a_port() {
    let mut world = World::new(1);
    let client = world.connect();
    for port in ["x", "-1", "65536", ""] {
        assert_eq!(world.ask(&client, &format!("REPLICAOF host {port}")), "-ERR Invalid master port\r\n");
    }
    assert!(orders(&mut world).is_empty());
    assert!(world.ask(&client, "CONFIG SET replicaof x").starts_with("-ERR CONFIG SET failed"));
    world.machine.can_follow = false;
    assert!(world.ask(&client, "REPLICAOF host 1").starts_with("-ERR this server can't follow"));
    assert_eq!(world.ask(&client, "SET k v"), "+OK\r\n");
}

#[test]
fn lanes_may_begin_as_those_of_a_replica() {
    let mut world = World::told(2, &[("replicaof", "there 1")], |settings| {
        settings.follows = Some(Following::Serves);
        settings.writes_refused = Some(lane::READONLY);
    });
    let client = world.connect();
    // Before the control thread has taken its first turn.
    client.write(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
    world.round_of(0, |number| number < 2);
    world.round_of(0, |number| number < 2);
    assert_eq!(client.read_all(), READONLY.as_bytes());
}

#[test]
fn looking_takes_no_key_out() {
    let mut world = World::with(2, &[("enable-debug-command", "yes")]);
    let client = world.connect();
    world.ask_all(&client, &["SET a 1 PX 500", "SET b 2 PX 500"]);
    led(&mut world, &client);
    assert_eq!(world.ask(&client, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
    world.round(2_000_000_000);
    // Of keys that have all ended, one is named.
    assert!(["$1\r\na\r\n", "$1\r\nb\r\n"].contains(&world.ask(&client, "RANDOMKEY").as_str()));
    for look in ["KEYS *", "SCAN 0", "GET a", "EXISTS a b", "OBJECT ENCODING a", "WATCH a b", "DUMP a"] {
        let reply = world.ask(&client, look);
        assert!(!reply.contains("\r\na\r\n") && !reply.is_empty(), "{look}: {reply}");
    }
    assert_eq!(world.ask(&client, "DBSIZE"), ":2\r\n");
}

#[test]
fn nobody_may_write_before_the_last_one_has_gone() {
    let mut world = World::new(2);
    let (client, other) = (world.connect(), world.connect());
    led(&mut world, &client);
    assert!(world.ask_all(&client, &["HELLO 2"]).contains("role\r\n$7\r\nreplica\r\n"));
    assert_eq!(world.ask(&client, "REPLICAOF NO ONE"), "");
    assert_eq!(world.ask(&other, "REPLICAOF NO ONE"), "", "it is not over for this one either");
    hear(&mut world, 1, Followed::Ended);
    assert_eq!((client.read_all(), other.read_all()), (b"+OK\r\n".to_vec(), b"+OK\r\n".to_vec()));
    assert!(world.ask(&client, "HELLO 2").contains("role\r\n$6\r\nmaster\r\n"));
    assert_eq!(world.ask(&other, "SET k v"), "+OK\r\n");
}

/// The orders about files since the last look, without their bytes.
fn files(world: &mut World) -> Vec<String> {
    let orders = world.machine.orders.drain(..);
    let short = orders.filter_map(|order| match order {
        FileOrder::Begin { file, kind } => Some(format!("begin {file} {kind:?}")),
        FileOrder::End { file } => Some(format!("end {file}")),
        FileOrder::Load(..) => Some("load".to_owned()),
        FileOrder::Piece { .. } | FileOrder::SyncEverySecond(_) => None,
        other => Some(format!("{other:?}")),
    });
    short.collect()
}

#[test]
fn half_a_snapshot_takes_the_place_of_nothing() {
    let mut world = World::with_files(2, &[("appendonly", "yes"), ("save", "1 1")], None);
    let client = world.connect();
    let rounds = |world: &mut World, count| (0..count).for_each(|_| world.round(100_000_000));
    rounds(&mut world, 10);
    assert_eq!(files(&mut world), ["begin 1 Base", "begin 2 Log { base: 1, goes_on: false }", "end 1"]);
    world.machine.news.push_back(FileNews::Written { file: 1 });
    led(&mut world, &client);
    hear(&mut world, 1, Followed::Sends);
    assert_eq!(orders(&mut world), ["load 1"]);
    assert_eq!(files(&mut world), ["end 2"], "the log is what it was");
    assert!(world.ask(&client, "INFO persistence").contains("\r\nloading:1\r\n"));
    rounds(&mut world, 100);
    hear(&mut world, 1, Followed::Gone("it was cut off".to_owned()));
    rounds(&mut world, 100);
    assert!(files(&mut world).is_empty(), "neither a log nor what a save point wants");
    hear(&mut world, 1, Followed::Sends);
    hear(&mut world, 1, Followed::InStep { offset: 1 });
    rounds(&mut world, 5);
    assert_eq!(files(&mut world), ["begin 3 Base", "begin 4 Log { base: 3, goes_on: false }", "end 3"]);
    // At the end, too.
    hear(&mut world, 1, Followed::Sends);
    files(&mut world);
    world.machine.wants_end = true;
    rounds(&mut world, 2);
    assert_eq!(world.shutdown(), Some(Shutdown::Drain));
    assert!(files(&mut world).is_empty());
}

#[test]
fn what_is_read_from_files_is_read_first() {
    let mut world = World::with_files(1, &[("enable-debug-command", "yes")], None);
    let (client, other) = (world.connect(), world.connect());
    client.write(b"*2\r\n$5\r\nDEBUG\r\n$6\r\nRELOAD\r\n");
    other.write(b"*3\r\n$9\r\nREPLICAOF\r\n$1\r\nh\r\n$1\r\n1\r\n");
    (0..6).for_each(|_| world.round(1_000_000));
    assert_eq!(other.read_all(), LOADING.as_bytes());
    assert!(orders(&mut world).is_empty());
}

/// What a primary brings may be longer, what clients send may not.
#[test]
fn a_word_of_a_client_is_as_long_as_it_may_be_on_a_replica_too() {
    let mut world = World::told(1, &[], |settings| settings.bulk_size_max = 1 << 20);
    let client = world.connect();
    led(&mut world, &client);
    client.write(b"*2\r\n$4\r\nECHO\r\n$1048577\r\n");
    (0..5).for_each(|_| world.round(1_000_000));
    assert_eq!(client.read_all(), b"-ERR Protocol error: invalid bulk length\r\n");
}
