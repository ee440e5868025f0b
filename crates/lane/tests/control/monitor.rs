//! MONITOR: what is seen of other clients' commands, by whom, and until when.

use crate::counting::allocation_count;
use crate::world::World;

/// A line without its time and its client.
fn shown(received: &str) -> Vec<String> {
    received
        .split_terminator("\r\n")
        .map(|line| {
            let (head, words) = line.split_once("] ").unwrap_or(("", line));
            let (time, end) = head.split_once(' ').unwrap_or_default();
            if !head.is_empty() {
                assert!(
                    time.starts_with("+17000000") && time.ends_with("000"),
                    "a time to the millisecond: {line}"
                );
                assert!(end.contains(" mem:"), "where its client is: {line}");
            }
            format!("{} {words}", end.split(' ').next().unwrap_or_default().trim_start_matches('['))
                .trim()
                .to_owned()
        })
        .collect()
}

/// Who monitors sees these commands as these lines, over one lane and over three.
fn check(commands: &[&str], want: &[&str]) {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let monitor = world.connect();
        assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
        let client = world.connect();
        for command in commands {
            assert_ne!(world.ask(&client, command), "", "{command}");
        }
        let seen = String::from_utf8(monitor.read_all()).unwrap();
        assert_eq!(shown(&seen), want, "over {lane_count} lanes");
        drop(monitor);
        world.ask(&client, "PING");
        assert!(world.is_idle(), "nothing is left under way");
    }
}

#[test]
fn commands_are_seen_in_order_whoever_answers_them() {
    check(
        &[
            "SET foo bar",
            "get foo",
            "MSET a 1 b 2 c 3 d 4",
            "DEL a b c d",
            "SELECT 3",
            "DBSIZE",
            "INFO server",
            "TIME",
        ],
        &[
            r#"0 "SET" "foo" "bar""#,
            r#"0 "get" "foo""#,
            r#"0 "MSET" "a" "1" "b" "2" "c" "3" "d" "4""#,
            r#"0 "DEL" "a" "b" "c" "d""#,
            r#"3 "SELECT" "3""#,
            r#"3 "DBSIZE""#,
            r#"3 "INFO" "server""#,
            r#"3 "TIME""#,
        ],
    );
}

#[test]
fn what_does_not_run_and_what_is_dangerous_is_not_seen() {
    check(
        &[
            "GET",
            "NOSUCH a",
            "CONFIG GET port",
            "CLIENT LIST",
            "SLOWLOG LEN",
            "AUTH secret",
            "HELLO 3 AUTH me secret",
        ],
        &[r#"0 "AUTH" "(redacted)""#, r#"0 "HELLO" "3" "AUTH" "(redacted)" "(redacted)""#],
    );
    check(
        &["SUBSCRIBE a", "GET foo", "PING", "UNSUBSCRIBE", "GET foo"],
        &[r#"0 "SUBSCRIBE" "a""#, r#"0 "PING""#, r#"0 "UNSUBSCRIBE""#, r#"0 "GET" "foo""#],
    );
}

#[test]
fn a_transaction_is_seen_when_it_is_over() {
    check(
        &["MULTI", "SET foo bar", "CONFIG GET port", "SELECT 2", "GET {foo}x", "EXEC", "GET after"],
        &[
            r#"0 "MULTI""#,
            r#"0 "SET" "foo" "bar""#,
            r#"2 "SELECT" "2""#,
            r#"2 "GET" "{foo}x""#,
            r#"2 "EXEC""#,
            r#"2 "GET" "after""#,
        ],
    );
    // In vain: a watched key has changed, a command was refused, nothing was begun.
    check(
        &["WATCH w", "SET w 1", "MULTI", "SET foo 2", "EXEC", "MULTI", "NOSUCH", "EXEC", "EXEC"],
        &[
            r#"0 "WATCH" "w""#,
            r#"0 "SET" "w" "1""#,
            r#"0 "MULTI""#,
            r#"0 "EXEC""#,
            r#"0 "MULTI""#,
            r#"0 "EXEC""#,
            r#"0 "EXEC""#,
        ],
    );
}

#[test]
fn a_monitor_is_one_until_it_resets() {
    let mut world = World::new(3);
    let (monitor, client) = (world.connect(), world.connect());
    assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
    assert_eq!(world.ask(&monitor, "MONITOR"), "", "once is enough, and Redis says nothing either");
    assert_eq!(world.ask(&monitor, "GET foo"), "-ERR Replica can't interact with the keyspace\r\n");
    let list = world.ask(&client, "CLIENT LIST");
    assert_eq!(list.matches("flags=O").count(), 1, "{list}");
    assert_eq!(world.ask(&client, "PING"), "+PONG\r\n");
    assert_eq!(shown(&String::from_utf8(monitor.read_all()).unwrap()), [r#"0 "PING""#]);
    let reset = world.ask(&monitor, "RESET");
    assert!(reset.starts_with("+RESET\r\n"), "{reset}");
    monitor.read_all();
    assert_eq!(world.ask(&client, "SET foo bar"), "+OK\r\n");
    assert_eq!(
        world.ask(&monitor, "GET foo"),
        "$3\r\nbar\r\n",
        "it is an ordinary client again, and sees nothing"
    );
    assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
    assert_eq!(world.ask(&client, "ECHO again"), "$5\r\nagain\r\n");
    assert_eq!(shown(&String::from_utf8(monitor.read_all()).unwrap()), [r#"0 "ECHO" "again""#]);
    assert!(world.is_idle());
}

/// What was on the way to it when it said RESET is not shown behind the reply.
#[test]
fn lines_that_come_late_are_not_shown() {
    // The second connection goes to lane 1, so that lines and the end of monitoring come to the control thread by two rings.
    for monitor in 0..2 {
        let mut world = World::new(2);
        let clients = [(); 2].map(|()| {
            let client = world.connect();
            world.ask(&client, "PING");
            client
        });
        let (monitor, client) = (&clients[monitor], &clients[1 - monitor]);
        assert_eq!(world.ask(monitor, "MONITOR"), "+OK\r\n");
        client.write(b"PING\r\n");
        monitor.write(b"RESET\r\n");
        for _ in 0..20 {
            world.round(1_000_000);
        }
        let received = [client, monitor].map(|client| String::from_utf8(client.read_all()).unwrap());
        assert_eq!(received, ["+PONG\r\n", "+RESET\r\n"]);
    }
}

/// The order to show it commands finds it gone: from then on nobody looks, and no lane writes lines.
#[test]
fn a_monitor_that_goes_before_it_has_begun_leaves_nothing_behind() {
    const COUNT: usize = 60;
    for lane_count in [1, 2] {
        let mut world = World::new(lane_count);
        let (client, monitor) = (world.connect(), world.connect());
        for client in [&client, &monitor] {
            world.ask(client, "PING");
        }
        let cost = |world: &mut World| {
            client.write(&b"PING\r\n".repeat(COUNT));
            let before = allocation_count();
            (0..4).for_each(|_| world.round(1000));
            let count = allocation_count() - before;
            assert_eq!(client.read_all().len(), 7 * COUNT);
            count
        };
        cost(&mut world);
        let unseen = cost(&mut world);
        // Lane and control thread hear of it in the same round.
        monitor.write(b"MONITOR\r\n");
        world.round(1000);
        monitor.cut();
        (0..4).for_each(|_| world.round(1000));
        let count = cost(&mut world);
        assert!(count < unseen + COUNT as u64, "{count} allocations for {COUNT} commands that nobody sees");
        // While somebody looks, each line takes some.
        let monitor = world.connect();
        assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
        assert!(cost(&mut world) > unseen + COUNT as u64);
    }
}

/// In one turn three lanes have more to show than a fourth takes in one. Nothing comes later that would bring it to look again.
#[test]
fn lines_of_many_lanes_all_come() {
    const COUNT: usize = 15;
    let mut world = World::new(3);
    let monitor = world.connect();
    assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
    let clients: Vec<_> = (0..12).map(|at| world.connect_to(at % 3)).collect();
    (0..5).for_each(|_| world.round(1_000_000));
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"ECHO", &[b'v'; 4000]]);
    for client in &clients {
        client.write(&bytes.repeat(COUNT));
    }
    let mut lines = Vec::new();
    for _ in 0..20 {
        world.round(1_000_000);
        lines.extend(monitor.read_all());
    }
    let seen = lines.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(seen, clients.len() * COUNT);
}

#[test]
fn on_a_lanes_own_port_that_lane_is_seen() {
    let mut world = World::new(3);
    let (monitor, client) = (world.connect_to(1), world.connect());
    let nodes = [world.connect_to(0), world.connect_to(1)];
    assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
    // foo belongs to the third lane: the answer is MOVED, and Redis shows only what it executes.
    for node in &nodes {
        world.ask(node, "GET foo");
        world.ask(node, "DBSIZE");
    }
    world.ask(&client, "PING");
    assert_eq!(shown(&String::from_utf8(monitor.read_all()).unwrap()), [r#"0 "DBSIZE""#]);
}

#[test]
fn nobody_waits_for_a_monitor_and_what_is_dropped_is_counted() {
    let mut world = World::new(1);
    let (monitor, client) = (world.connect(), world.connect());
    assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
    let value = "v".repeat(4000);
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"MULTI"]);
    for _ in 0..200 {
        wire::client::command(&mut bytes, &[b"SET", b"k", value.as_bytes()]);
    }
    wire::client::command(&mut bytes, &[b"EXEC"]);
    let mut sent = 0;
    let (mut lines, mut replies) = (Vec::new(), Vec::new());
    while !replies.ends_with(b"+OK\r\n") || replies.len() < 200 * "+QUEUED\r\n+OK\r\n".len() {
        sent += client.write(&bytes[sent..]);
        world.round(1_000_000);
        lines.extend(monitor.read_all());
        replies.extend(client.read_all());
    }
    for _ in 0..20 {
        world.round(1_000_000);
        lines.extend(monitor.read_all());
    }
    let lines = String::from_utf8(lines).unwrap();
    assert!(lines.ends_with("\r\n") && lines.split_terminator("\r\n").all(|line| line.starts_with('+')));
    let info = world.ask(&client, "INFO lanes");
    let dropped: usize =
        info.split("monitor_lines_dropped:").nth(1).unwrap().trim_end().parse().expect("a number");
    assert!(dropped > 0, "one EXEC has more to show than a turn's frames hold");
    assert_eq!(lines.split_terminator("\r\n").count() + dropped, 202, "each command is seen or counted");
}

/// EXEC stands behind asks that are answered one after the other. Each answer lets it try again, and none of the tries
/// writes lines for the commands queued.
#[test]
fn an_exec_that_waits_is_written_once() {
    const ASKED_COUNT: usize = 60;
    const QUEUED_COUNT: usize = 200;
    let mut world = World::new(2);
    // The second connection goes to lane 1; the keys of foo are there.
    let (client, monitor, other) = (world.connect(), world.connect(), world.connect());
    assert_eq!(world.ask(&monitor, "MONITOR"), "+OK\r\n");
    for key in ["{foo}a", "{foo}b"] {
        world.ask(&other, &format!("SET {key} {}", "x".repeat(5000)));
    }
    // What comes first waits for the keys, and all behind it in its lane wait for it; later a turn answers some of them.
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"LCS", b"{foo}a", b"{foo}b", b"LEN"]);
    other.write(&bytes);
    world.round(1000);
    bytes.clear();
    wire::client::command(&mut bytes, &[b"GETDEL", b"{foo}a"]);
    for _ in 1..ASKED_COUNT {
        wire::client::command(&mut bytes, &[b"STRLEN", b"{foo}a"]);
    }
    wire::client::command(&mut bytes, &[b"MULTI"]);
    for _ in 0..QUEUED_COUNT {
        wire::client::command(&mut bytes, &[b"SET", b"bar", b"1"]);
    }
    wire::client::command(&mut bytes, &[b"EXEC"]);
    client.write(&bytes);
    let mut received = Vec::new();
    let (mut busy_rounds, mut rounds) = (0, 0);
    while received.iter().filter(|&&byte| byte == b'\n').count() < ASKED_COUNT + 2 * QUEUED_COUNT + 3 {
        let before = allocation_count();
        world.round(1000);
        // Two for each line.
        busy_rounds += usize::from(QUEUED_COUNT as u64 <= allocation_count() - before);
        received.extend(client.read_all());
        rounds += 1;
        assert!(rounds < 1000, "{}", String::from_utf8_lossy(&received));
    }
    for _ in 0..20 {
        world.round(1000);
    }
    let seen = String::from_utf8(monitor.read_all()).unwrap();
    assert_eq!(shown(&seen).iter().filter(|line| line.contains("SET\" \"bar")).count(), QUEUED_COUNT);
    // Queueing, beginning, running and answering them.
    assert!(rounds > 15 && busy_rounds <= 6, "{busy_rounds} of {rounds} rounds");
}
