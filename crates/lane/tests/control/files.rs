//! Files, as the control thread has them written and read: what the machine is told, and what clients hear of it.

use lane::{FileNews, FileOrder, Loaded, Shutdown, Source};
use wire::route::PartitionMap;

use super::world::World;

/// The orders since the last look, in short.
fn orders(world: &mut World) -> Vec<String> {
    let short = |order: FileOrder| match order {
        FileOrder::Begin { file, kind } => format!("begin {file} {kind:?}"),
        FileOrder::Piece { file, bytes } => {
            let text = bytes.escape_ascii().to_string();
            format!("piece {file} {}", if text.starts_with("REDIS") { "REDIS…" } else { &text })
        }
        FileOrder::End { file } => format!("end {file}"),
        FileOrder::Abandon { file } => format!("abandon {file}"),
        FileOrder::SyncEverySecond(_) => "sync".to_owned(),
        FileOrder::Load(source, beside) => format!("load {source:?} {beside:?}"),
        FileOrder::Opened => "opened".to_owned(),
        FileOrder::GiveUp(why) => format!("give up: {why}"),
    };
    world.machine.orders.drain(..).map(short).collect()
}

/// Some rounds, in which pieces are taken as they come.
fn settle(world: &mut World) {
    let mut taken = 0;
    for _ in 0..30 {
        for order in &world.machine.orders[taken..] {
            if let FileOrder::Piece { file, bytes } = order {
                world.machine.news.push_back(FileNews::Taken { file: *file, size: bytes.len() });
            }
        }
        let orders = std::mem::take(&mut world.machine.orders);
        world.round(1_000_000);
        let fresh = std::mem::replace(&mut world.machine.orders, orders);
        taken = world.machine.orders.len();
        world.machine.orders.extend(fresh);
    }
}

fn persistence(world: &mut World, name: &str) -> String {
    let client = world.connect();
    let info = world.ask(&client, "INFO persistence");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

#[test]
fn a_save_is_answered_when_its_file_is_on_disk_or_can_not_be() {
    let mut world = World::with_files(2, &[], None);
    let (client, other) = (world.connect(), world.connect());
    world.ask(&client, "SET k v");
    assert_eq!(world.ask(&client, "SAVE"), "", "not yet");
    assert_eq!(world.ask(&other, "BGSAVE"), "-ERR Background save already in progress\r\n");
    assert_eq!(world.ask(&other, "BGSAVE SCHEDULE now"), "-ERR syntax error\r\n");
    assert_eq!(world.ask(&other, "GET k"), "$1\r\nv\r\n", "nobody else waits");
    let said = orders(&mut world);
    assert_eq!(said.first().map(String::as_str), Some("begin 1 Snapshot"));
    assert_eq!(said.get(1).map(String::as_str), Some("piece 1 REDIS…"));
    assert_eq!(said.last().map(String::as_str), Some("end 1"));
    world.machine.news.push_back(FileNews::Written { file: 1 });
    world.round(0);
    world.round(0);
    assert_eq!(client.read_all(), b"+OK\r\n");
    assert_eq!(persistence(&mut world, "rdb_changes_since_last_save"), "0");

    assert_eq!(world.ask(&client, "SAVE"), "");
    world.machine.news.push_back(FileNews::Failed { file: 2, why: "no room".to_owned() });
    world.round(0);
    world.round(0);
    assert_eq!(client.read_all(), b"-ERR the snapshot can't be written: no room\r\n");
    assert_eq!(persistence(&mut world, "rdb_last_bgsave_status"), "err");
    assert_eq!(world.ask(&client, "SET k v"), "+OK\r\n", "without save points nobody relies on it");
}

#[test]
fn the_log_goes_on_in_the_next_file_where_the_one_before_ends() {
    let mut world = World::with_files(2, &[("appendonly", "yes")], None);
    settle(&mut world);
    let said = orders(&mut world);
    assert!(said.contains(&"begin 2 Log { base: 1, goes_on: false }".to_owned()), "{said:?}");
    world.machine.news.push_back(FileNews::Written { file: 1 });
    let client = world.connect();
    world.ask(&client, "SET k 1");
    world.ask(&client, "BGREWRITEAOF");
    world.ask(&client, "SET k 2");
    settle(&mut world);
    let said = orders(&mut world);
    let pieces_of = |file: u64| -> String {
        let front = format!("piece {file} ");
        said.iter().filter_map(|order| order.strip_prefix(&front)).collect()
    };
    assert!(pieces_of(2).contains("SET") && pieces_of(2).contains("\\r\\n1\\r\\n"), "{said:?}");
    assert!(!pieces_of(2).contains("\\r\\n2\\r\\n"), "{said:?}");
    assert!(pieces_of(4).contains("SELECT") && pieces_of(4).contains("\\r\\n2\\r\\n"), "{said:?}");
    assert!(said.contains(&"end 2".to_owned()) && said.contains(&"end 3".to_owned()), "{said:?}");
    // What it can't take for a while keeps clients from writing more.
    world.machine.news.push_back(FileNews::Trouble(Some("no room".to_owned())));
    settle(&mut world);
    let reply = world.ask(&client, "SET k 3");
    assert_eq!(reply, "-MISCONF Errors writing to the AOF file: please check the server's log\r\n");
    assert_eq!(world.ask(&client, "GET k"), "$1\r\n2\r\n");
    assert_eq!(persistence(&mut world, "aof_last_write_status"), "err");
    world.machine.news.push_back(FileNews::Trouble(None));
    settle(&mut world);
    assert_eq!(world.ask(&client, "SET k 3"), "+OK\r\n");
    // A file that is lost is begun anew after a while.
    world.machine.news.push_back(FileNews::Written { file: 3 });
    world.machine.news.push_back(FileNews::Failed { file: 4, why: "no disk".to_owned() });
    settle(&mut world);
    let refused = "-MISCONF Errors writing to the AOF file: please check the server's log\r\n";
    assert_eq!(world.ask(&client, "SET k 4"), refused, "it would be in no file");
    orders(&mut world);
    world.round(6_000_000_000);
    settle(&mut world);
    let said = orders(&mut world);
    assert!(said.contains(&"begin 6 Log { base: 5, goes_on: false }".to_owned()), "{said:?}");
    assert_eq!(world.ask(&client, "SET k 4"), refused, "what it stands behind is not on disk");
    assert_eq!(persistence(&mut world, "aof_last_write_status"), "err");
    world.machine.news.push_back(FileNews::Written { file: 5 });
    settle(&mut world);
    assert_eq!(world.ask(&client, "SET k 4"), "+OK\r\n");
    // A base that fails takes nothing from the log that there is.
    world.ask(&client, "BGREWRITEAOF");
    settle(&mut world);
    world.machine.news.push_back(FileNews::Failed { file: 7, why: "no room".to_owned() });
    settle(&mut world);
    assert_eq!(world.ask(&client, "SET k 5"), "+OK\r\n");
    let said = orders(&mut world);
    assert!(
        said.iter().any(|order| order.starts_with("piece 8 ") && order.contains("\\r\\n5\\r\\n")),
        "{said:?}"
    );
    // One that is written after the file that began with it is gone has none behind it.
    world.round(6_000_000_000);
    settle(&mut world);
    world.machine.news.push_back(FileNews::Failed { file: 10, why: "no disk".to_owned() });
    world.round(6_000_000_000);
    settle(&mut world);
    orders(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 9 });
    settle(&mut world);
    let said = orders(&mut world);
    assert!(said.contains(&"begin 12 Log { base: 11, goes_on: false }".to_owned()), "{said:?}");
    // Without a log from here on.
    assert_eq!(world.ask(&client, "CONFIG SET appendonly no"), "+OK\r\n");
    settle(&mut world);
    let said = orders(&mut world);
    assert!(said.contains(&"abandon 11".to_owned()) || said.contains(&"end 12".to_owned()), "{said:?}");
    assert_eq!(persistence(&mut world, "aof_enabled"), "0");
    // What is wrong with the end of a log that nobody wants any more keeps nobody from writing.
    world.machine.news.push_back(FileNews::Trouble(Some("no room".to_owned())));
    settle(&mut world);
    assert_eq!(world.ask(&client, "SET k 5"), "+OK\r\n");
}

#[test]
fn nothing_is_written_to_a_file_of_the_log_before_the_one_before_has_its_end() {
    let mut world = World::with_files(2, &[("appendonly", "yes")], None);
    settle(&mut world);
    orders(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 1 });
    let client = world.connect();
    // More than may be on its way to a file. From here on none of it is taken.
    let long = "x".repeat(10_000);
    for number in 0..150 {
        assert_eq!(world.ask(&client, &format!("SET long:{number} {long}")), "+OK\r\n");
    }
    // Commands come all the time, also in the turn in which the next file begins.
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"BGREWRITEAOF"]);
    let mut count = 0;
    let mut written = Vec::new();
    let mut take = |world: &mut World| written.append(&mut world.machine.orders);
    for _ in 0..50 {
        for _ in 0..10 {
            wire::client::command(&mut bytes, &[b"INCR", b"n"]);
            count += 1;
        }
        client.write(&std::mem::take(&mut bytes));
        world.round(1_000_000);
        take(&mut world);
    }
    assert!(written.iter().any(|order| matches!(order, FileOrder::Begin { file: 4, .. })));
    let is_of = |order: &FileOrder, number: u64| match order {
        FileOrder::Piece { file, .. } | FileOrder::End { file } => *file == number,
        _ => false,
    };
    assert!(!written.iter().any(|order| is_of(order, 4)), "the file before has more to come");
    assert!(!written.iter().any(|order| matches!(order, FileOrder::End { file: 2 })));
    // Now it is, all of it that was sent so far at a time.
    let mut seen = 0;
    for _ in 0..50 {
        for order in &written[seen..] {
            if let FileOrder::Piece { file, bytes } = order {
                world.machine.news.push_back(FileNews::Taken { file: *file, size: bytes.len() });
            }
        }
        seen = written.len();
        world.round(1_000_000);
        written.append(&mut world.machine.orders);
    }
    let end = written.iter().position(|order| matches!(order, FileOrder::End { file: 2 }));
    let first = written.iter().position(|order| is_of(order, 4));
    assert!(end.is_some() && end < first, "{end:?} {first:?}");
    let text = |number: u64| -> String {
        let pieces = written.iter().filter(|order| is_of(order, number));
        let bytes = pieces.filter_map(|order| match order {
            FileOrder::Piece { bytes, .. } => Some(&bytes[..]),
            _ => None,
        });
        bytes.flatten().map(|byte| char::from(*byte)).collect()
    };
    assert_eq!(text(2).matches("long:").count(), 150);
    let counts = [text(2), text(4)].map(|text| text.matches("\r\nn\r\n").count());
    assert_eq!(counts.iter().sum::<usize>(), count, "each is in one of them: {counts:?}");
}

#[test]
fn a_file_of_the_log_that_is_given_up_takes_those_behind_it_along() {
    let mut world = World::with_files(2, &[("appendonly", "yes")], None);
    settle(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 1 });
    let client = world.connect();
    let mut bytes = Vec::new();
    let limit: &[u8] = b"replica 3000000 0 0";
    wire::client::command(&mut bytes, &[b"CONFIG", b"SET", b"client-output-buffer-limit", limit]);
    client.write(&bytes);
    orders(&mut world);
    // Of the log none is taken from here on; the next file begins behind it.
    let long = "x".repeat(10_000);
    for number in 0..250 {
        world.ask(&client, &format!("SET long:{number} {long}"));
    }
    world.ask(&client, "BGREWRITEAOF");
    let mut said = orders(&mut world);
    while !said.contains(&"end 3".to_owned()) {
        let size = 1 << 20;
        world.machine.news.push_back(FileNews::Taken { file: 3, size });
        world.round(1_000_000);
        said.append(&mut orders(&mut world));
    }
    assert!(said.contains(&"begin 4 Log { base: 3, goes_on: true }".to_owned()));
    for number in 0..200 {
        world.ask(&client, &format!("SET long:{number} {long}"));
    }
    world.machine.news.push_back(FileNews::Written { file: 3 });
    settle(&mut world);
    let said = orders(&mut world);
    for order in ["abandon 2", "abandon 4", "begin 6 Log { base: 5, goes_on: false }"] {
        assert!(said.contains(&order.to_owned()), "{order}");
    }
}

#[test]
fn clients_wait_outside_until_what_there_was_is_loaded() {
    let mut world = World::with_files(2, &[("appendonly", "yes")], Some(Source::Log));
    let client = world.connect();
    let loading = "-LOADING Redis is loading the dataset in memory\r\n";
    for command in ["GET k", "SET k v", "PING", "DBSIZE", "EVAL return(1) 0"] {
        assert_eq!(world.ask(&client, command), loading, "{command}");
    }
    assert!(world.ask(&client, "INFO persistence").contains("loading:1\r\n"));
    assert_eq!(
        world.ask_all(&client, &["MULTI", "GET k", "EXEC"]),
        format!("+OK\r\n{loading}-EXECABORT Transaction discarded because of previous errors.\r\n")
    );
    assert_eq!(orders(&mut world), ["load Log Emptied"]);
    world.machine.news.push_back(FileNews::Loaded(Ok(Loaded { keys: 7, expired: 1, commands: 3 })));
    settle(&mut world);
    let said = orders(&mut world);
    // Nothing changes between what was read and the log's next file.
    let begun = said.iter().position(|order| order == "begin 2 Log { base: 1, goes_on: true }");
    let opened = said.iter().position(|order| order == "opened");
    assert!(begun.is_some() && begun < opened, "{said:?}");
    assert_eq!(world.ask(&client, "GET k"), "$-1\r\n");
    assert_eq!(persistence(&mut world, "rdb_last_load_keys_loaded"), "7");

    // Where the log can't go on they may read what it holds.
    let mut world = World::with_files(2, &[("appendonly", "yes")], Some(Source::Log));
    world.round(0);
    world.machine.news.push_back(FileNews::Loaded(Ok(Loaded::default())));
    world.round(0);
    world.machine.news.push_back(FileNews::Failed { file: 1, why: "no room".to_owned() });
    settle(&mut world);
    assert_eq!(orders(&mut world), ["load Log Emptied", "begin 1 Base", "opened"]);
    let client = world.connect();
    let refused = "-MISCONF Errors writing to the AOF file: please check the server's log\r\n";
    assert_eq!(world.ask_all(&client, &["GET k", "SET k v"]), format!("$-1\r\n{refused}"));
    world.round(6_000_000_000);
    settle(&mut world);
    assert!(orders(&mut world).contains(&"begin 3 Log { base: 2, goes_on: true }".to_owned()));
    assert_eq!(world.ask(&client, "SET k v"), "+OK\r\n", "it goes on behind what was loaded");

    let mut world = World::with_files(2, &[], Some(Source::Snapshot));
    world.round(0);
    world.machine.news.push_back(FileNews::Loaded(Err("damaged".to_owned())));
    settle(&mut world);
    assert_eq!(orders(&mut world), ["load Snapshot Emptied", "give up: damaged"]);
    let client = world.connect();
    assert_eq!(world.ask(&client, "GET k"), loading, "nobody sees half of it");
}

#[test]
fn what_is_half_loaded_is_not_saved() {
    let mut world = World::with_files(2, &[("save", "1 1"), ("appendonly", "no")], Some(Source::Snapshot));
    let client = world.connect();
    assert_eq!(world.ask(&client, "CONFIG SET appendonly yes"), "+OK\r\n");
    world.machine.wants_end = true;
    settle(&mut world);
    assert_eq!(
        (world.shutdown(), orders(&mut world)),
        (Some(Shutdown::Drain), vec!["load Snapshot Emptied".to_owned(), "sync".to_owned()])
    );

    let mut world = World::with_files(2, &[("save", "1 1")], Some(Source::Snapshot));
    let client = world.connect();
    assert_eq!(world.ask(&client, "SHUTDOWN SAVE"), "");
    assert_eq!(
        (world.shutdown(), orders(&mut world)),
        (Some(Shutdown::Drain), vec!["load Snapshot Emptied".to_owned()])
    );
}

#[test]
fn a_reload_does_as_its_options_say() {
    for (call, saves, beside) in [
        ("DEBUG RELOAD", true, "Emptied"),
        ("DEBUG RELOAD NOSAVE", false, "Emptied"),
        ("DEBUG RELOAD NOFLUSH", true, "Kept"),
        ("DEBUG RELOAD nosave noflush merge", false, "Merged"),
    ] {
        let mut world = World::with_files(2, &[("enable-debug-command", "yes")], None);
        let client = world.connect();
        assert_eq!(world.ask(&client, call), "", "{call}");
        if saves {
            world.machine.news.push_back(FileNews::Written { file: 1 });
        }
        settle(&mut world);
        let said = orders(&mut world);
        assert_eq!(said.contains(&"begin 1 Snapshot".to_owned()), saves, "{call}: {said:?}");
        assert_eq!(said.last(), Some(&format!("load Snapshot {beside}")), "{call}");
        world.machine.news.push_back(FileNews::Loaded(Ok(Loaded::default())));
        settle(&mut world);
        assert_eq!(client.read_all(), b"+OK\r\n", "{call}");
    }
    let mut world = World::with_files(1, &[("enable-debug-command", "yes")], None);
    let client = world.connect();
    let reply = world.ask(&client, "DEBUG RELOAD NOW");
    assert_eq!(reply, "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.\r\n");
}

#[test]
fn an_end_waits_for_the_snapshot_that_is_to_be_there() {
    let mut world = World::with_files(1, &[("save", "3600 1")], None);
    let client = world.connect();
    world.machine.wants_end = true;
    settle(&mut world);
    assert_eq!(world.shutdown(), None);
    assert!(orders(&mut world).contains(&"begin 1 Snapshot".to_owned()));
    world.machine.news.push_back(FileNews::Failed { file: 1, why: "no room".to_owned() });
    settle(&mut world);
    assert_eq!((world.shutdown(), world.machine.is_end_refused), (None, true));
    assert!(world.ask(&client, "SET k v").starts_with("-MISCONF Redis is configured to save RDB snapshots"));
    world.machine.wants_end = true;
    settle(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 2 });
    settle(&mut world);
    assert_eq!(world.shutdown(), Some(Shutdown::Drain));

    let mut world = World::with_files(1, &[("save", "3600 1")], None);
    let client = world.connect();
    assert_eq!(world.ask(&client, "SHUTDOWN NOSAVE"), "");
    assert_eq!((world.shutdown(), orders(&mut world)), (Some(Shutdown::Drain), vec![]));
    let mut world = World::with_files(1, &[], None);
    let client = world.connect();
    assert_eq!(world.ask(&client, "SHUTDOWN SAVE"), "");
    assert_eq!(world.shutdown(), None);
    world.machine.news.push_back(FileNews::Failed { file: 1, why: "no room".to_owned() });
    world.round(0);
    world.round(0);
    assert_eq!(client.read_all(), b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    world.machine.wants_end = true;
    world.round(0);
    assert_eq!(world.shutdown(), Some(Shutdown::Drain), "nothing is to be saved");
}

/// A key that is not on lane 0, of two.
fn distant_key() -> String {
    let is_there = |name: &String| PartitionMap::even(2).owner_of(name.as_bytes()).0 == 1;
    (0..).map(|number| format!("k{number}")).find(is_there).unwrap()
}

#[test]
fn whatever_is_answered_is_in_the_snapshot_of_the_end() {
    let settings = [("save", "3600 1"), ("stop-writes-on-bgsave-error", "no")];
    let mut world = World::with_files(2, &settings, None);
    let (client, other) = (world.connect_at(0), world.connect_at(0));
    let name = distant_key();
    // What this one holds is too old by the end.
    assert_eq!(world.ask(&client, "BGSAVE"), "+Background saving started\r\n");
    // A command is on its way to lane 1, which does not get to it for a while.
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"SET", name.as_bytes(), b"on its way"]);
    client.write(&bytes);
    world.round_of(1_000_000, |number| number == 0);
    world.machine.wants_end = true;
    for _ in 0..20 {
        world.round_of(1_000_000, |number| number != 1);
    }
    let said = orders(&mut world);
    assert!(said.contains(&"abandon 1".to_owned()), "{said:?}");
    assert!(!said.contains(&"begin 2 Snapshot".to_owned()), "it waits for what has begun: {said:?}");
    for _ in 0..5 {
        world.round(1_000_000);
    }
    assert_eq!(world.ask(&other, &format!("SET {name} late")), "", "what writes is not taken up any more");
    assert_eq!(client.read_all(), b"+OK\r\n");
    settle(&mut world);
    let said = orders(&mut world);
    assert!(said.contains(&"begin 2 Snapshot".to_owned()), "{said:?}");
    assert!(said.iter().any(|order| order.contains("on its way")), "{said:?}");
    assert_eq!(world.ask(&client, &format!("GET {name}")), "$10\r\non its way\r\n", "who reads is answered");
    assert_eq!(world.ask(&client, "SHUTDOWN SAVE"), "-ERR Background save already in progress\r\n");
    // There is no end after all.
    world.machine.news.push_back(FileNews::Failed { file: 2, why: "no room".to_owned() });
    settle(&mut world);
    assert_eq!((world.shutdown(), world.machine.is_end_refused), (None, true));
    assert_eq!(other.read_all(), b"+OK\r\n");
    assert_eq!(world.ask(&client, &format!("GET {name}")), "$4\r\nlate\r\n");
    world.machine.wants_end = true;
    settle(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 3 });
    assert_eq!(world.ask(&other, "SET k v"), "", "nor is it at the next end");
    assert_eq!(world.shutdown(), Some(Shutdown::Drain));
}

#[test]
fn an_end_that_waits_is_called_off() {
    const CALLED_OFF: &[u8] = b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n";
    let mut world = World::with_files(2, &[("save", "3600 1")], None);
    let (client, ender) = (world.connect_at(0), world.connect_at(0));
    let name = distant_key();
    // One that waits for what is under way: a command for lane 1, which does not get to it for a while.
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"SET", name.as_bytes(), b"v"]);
    client.write(&bytes);
    world.round_of(1_000_000, |number| number == 0);
    ender.write(b"SHUTDOWN\r\n");
    for _ in 0..20 {
        world.round_of(1_000_000, |number| number != 1);
    }
    client.write(b"SHUTDOWN ABORT\r\n");
    settle(&mut world);
    assert_eq!(client.read_all(), b"+OK\r\n+OK\r\n");
    assert_eq!(ender.read_all(), CALLED_OFF);
    assert_eq!((world.shutdown(), orders(&mut world)), (None, vec![]), "no snapshot was begun");
    assert_eq!(world.ask(&client, "SET k v"), "+OK\r\n");
    assert_eq!(world.ask(&client, "SHUTDOWN ABORT"), "-ERR No shutdown in progress.\r\n");

    // One whose snapshot is being written, after a signal.
    world.machine.wants_end = true;
    settle(&mut world);
    assert!(orders(&mut world).contains(&"begin 1 Snapshot".to_owned()));
    assert_eq!(world.ask(&ender, "SET k late"), "", "what writes is not taken up");
    assert_eq!(world.ask(&client, "SHUTDOWN ABORT"), "+OK\r\n");
    settle(&mut world);
    assert!(orders(&mut world).contains(&"abandon 1".to_owned()));
    assert_eq!((world.shutdown(), world.machine.is_end_refused), (None, true));
    assert_eq!(ender.read_all(), b"+OK\r\n");
    assert_eq!(world.ask(&client, "GET k"), "$4\r\nlate\r\n");
    world.machine.wants_end = true;
    settle(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 2 });
    settle(&mut world);
    assert_eq!(world.shutdown(), Some(Shutdown::Drain), "the next one comes");
}

#[test]
fn a_lane_that_drains_takes_up_nothing_and_ends_what_has_begun() {
    let mut world = World::with_files(2, &[], None);
    let (client, other) = (world.connect_at(0), world.connect_at(1));
    assert_eq!(world.ask(&other, "PING"), "+PONG\r\n");
    let name = distant_key();
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"INCR", name.as_bytes()]);
    client.write(&bytes);
    world.round_of(1_000_000, |number| number == 0);
    world.lanes.iter_mut().for_each(lane::Lane::drain);
    world.round_of(1_000_000, |number| number == 0);
    assert!(!world.lanes[0].has_drained(), "it has asked something");
    assert_eq!(world.ask_all(&other, &["SET a 1", "PING", "SET b 1"]), "", "nobody is served");
    assert_eq!(client.read_all(), b":1\r\n");
    assert!(world.lanes.iter().all(lane::Lane::has_drained), "who is not served keeps nobody");
    assert!(world.sleeps(), "nor does he have a lane turn");
}

#[test]
fn at_once_is_not_before_the_log_has_what_was_answered() {
    for (log, how) in [("no", Shutdown::Now), ("yes", Shutdown::Drain)] {
        let mut world = World::with_files(1, &[("appendonly", log)], None);
        settle(&mut world);
        world.machine.news.push_back(FileNews::Written { file: 1 });
        let client = world.connect();
        assert_eq!(world.ask(&client, "SHUTDOWN NOSAVE NOW"), "");
        assert_eq!(world.shutdown(), Some(how), "appendonly {log}");
    }
}

#[test]
fn nobody_ends_before_the_log_has_a_base() {
    const REFUSED: &str = "-ERR Errors trying to SHUTDOWN. Check logs.\r\n";
    let mut world = World::with_files(2, &[], None);
    let client = world.connect();
    world.ask_all(&client, &["SET k 1", "CONFIG SET appendonly yes", "SET k 2"]);
    settle(&mut world);
    for command in ["SHUTDOWN", "SHUTDOWN NOSAVE NOW", "SHUTDOWN SAVE"] {
        assert_eq!((world.ask(&client, command).as_str(), world.shutdown()), (REFUSED, None), "{command}");
    }
    // A signal is heeded when the base is there, unless it is called off.
    world.machine.wants_end = true;
    settle(&mut world);
    assert_eq!((world.shutdown(), world.machine.is_end_refused), (None, false));
    assert_eq!(world.ask(&client, "SET k 3"), "+OK\r\n");
    assert_eq!(world.ask(&client, "SHUTDOWN ABORT"), "+OK\r\n");
    assert!(std::mem::take(&mut world.machine.is_end_refused));
    world.machine.wants_end = true;
    settle(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 1 });
    settle(&mut world);
    assert_eq!((world.shutdown(), world.machine.is_end_refused), (Some(Shutdown::Drain), false));

    // A base that can't be written, and the next one, which is begun at once.
    let mut world = World::with_files(2, &[("appendonly", "yes")], None);
    settle(&mut world);
    world.machine.news.push_back(FileNews::Failed { file: 1, why: "no room".to_owned() });
    settle(&mut world);
    orders(&mut world);
    world.machine.wants_end = true;
    settle(&mut world);
    assert!(orders(&mut world).contains(&"begin 3 Base".to_owned()));
    world.machine.news.push_back(FileNews::Failed { file: 3, why: "no room".to_owned() });
    settle(&mut world);
    assert_eq!((world.shutdown(), world.machine.is_end_refused), (None, true));
    let client = world.connect();
    assert_eq!(world.ask(&client, "SHUTDOWN"), REFUSED);
    assert_eq!(world.ask(&client, "SHUTDOWN NOSAVE FORCE"), "");
    assert_eq!(world.shutdown(), Some(Shutdown::Drain));

    // What has just been loaded is in files: of a log it may go on behind them, a snapshot is none of its files.
    for (source, ends) in [(Source::Log, true), (Source::Snapshot, false)] {
        let mut world = World::with_files(1, &[("appendonly", "yes")], Some(source));
        world.round(0);
        world.machine.news.push_back(FileNews::Loaded(Ok(Loaded::default())));
        settle(&mut world);
        world.machine.wants_end = true;
        settle(&mut world);
        assert_eq!(world.shutdown().is_some(), ends, "{source:?}");
    }
}

#[test]
fn a_snapshot_is_due_after_so_many_changes_in_so_many_seconds() {
    let mut world = World::with_files(2, &[("save", "10 3 100 1")], None);
    let client = world.connect();
    world.ask_all(&client, &["SET a 1", "SET b 1"]);
    for _ in 0..11 {
        world.round(1_000_000_000);
    }
    assert!(orders(&mut world).is_empty(), "two changes are too few");
    world.ask(&client, "SET c 1");
    for _ in 0..3 {
        world.round(1_000_000_000);
    }
    settle(&mut world);
    assert_eq!(orders(&mut world).first().map(String::as_str), Some("begin 1 Snapshot"));
    world.machine.news.push_back(FileNews::Written { file: 1 });
    world.ask(&client, "SET d 1");
    assert_eq!(persistence(&mut world, "rdb_changes_since_last_save"), "1");
    for _ in 0..90 {
        world.round(1_000_000_000);
    }
    assert!(orders(&mut world).is_empty());
    for _ in 0..12 {
        world.round(1_000_000_000);
    }
    assert_eq!(orders(&mut world).first().map(String::as_str), Some("begin 2 Snapshot"));
}

#[test]
fn a_log_is_loaded_when_all_of_it_is_on_disk() {
    let mut world = World::with_files(2, &[("appendonly", "yes"), ("enable-debug-command", "yes")], None);
    settle(&mut world);
    world.machine.news.push_back(FileNews::Written { file: 1 });
    settle(&mut world);
    orders(&mut world);
    let (client, other) = (world.connect(), world.connect());
    assert_eq!(world.ask(&client, "DEBUG LOADAOF"), "");
    assert_eq!(world.ask(&other, "DEBUG RELOAD"), "-ERR data are being loaded already\r\n");
    settle(&mut world);
    assert_eq!(orders(&mut world), ["end 2"]);
    world.machine.news.push_back(FileNews::Written { file: 2 });
    settle(&mut world);
    assert_eq!(orders(&mut world), ["load Log Emptied"]);
    world.machine.news.push_back(FileNews::Loaded(Err("gone".to_owned())));
    settle(&mut world);
    world.round(0);
    assert_eq!(client.read_all(), b"-ERR Error trying to load the AOF files, check server logs\r\n");
    assert_eq!(world.ask(&other, "PING"), "+PONG\r\n");
    // Half of it may be there: nothing is written over the log's files.
    assert!(world.ask(&other, "SET k v").starts_with("-MISCONF"));
    world.round(9_000_000_000);
    assert!(orders(&mut world).is_empty());
    world.ask_all(&other, &["CONFIG SET appendonly no", "CONFIG SET appendonly yes"]);
    assert_eq!(world.ask(&other, "SET k v"), "+OK\r\n");
}

/// A script that goes on for ever keeps no end waiting, unless it has written: then that is said, and goes on until it is over.
#[test]
fn an_end_waits_for_no_script_that_only_reads() {
    let script = |script: &str| {
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[b"EVAL", script.as_bytes(), b"1", b"k"]);
        bytes
    };
    for (text, ends) in [
        ("while redis.call('get', KEYS[1]) do end", true),
        ("while redis.call('set', KEYS[1], 'v') do end", false),
    ] {
        let mut world = World::with_files(2, &[("save", "3600 1")], None);
        let (client, other) = (world.connect(), world.connect());
        assert_eq!(world.ask(&other, "SET k v"), "+OK\r\n");
        client.write(&script(text));
        (0..20).for_each(|_| world.round(1_000_000));
        // A signal that comes behind a client's SHUTDOWN is for the same end.
        let ender = world.connect();
        ender.write(b"SHUTDOWN\r\n");
        (0..5).for_each(|_| world.round(1_000_000));
        world.machine.wants_end = true;
        (0..50).for_each(|_| world.round(100_000_000));
        assert!(!world.machine.is_end_refused, "{:?}", world.machine.warned);
        assert_eq!(orders(&mut world).contains(&"begin 1 Snapshot".to_owned()), ends, "{text}");
        let said = world.machine.warned.iter().filter(|line| line.contains("a second signal ends")).count();
        assert_eq!(said, usize::from(!ends), "{:?}", world.machine.warned);
        assert_eq!(world.ask(&other, "PING"), "+PONG\r\n");
    }
}
