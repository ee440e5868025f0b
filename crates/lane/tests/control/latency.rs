//! LATENCY: what is remembered of commands that took long.

use crate::world::World;

#[test]
fn nothing_is_remembered_unless_it_is_asked_for() {
    let mut world = World::new(3);
    let client = world.connect();
    world.ask(&client, "CONFIG SET slowlog-log-slower-than 0");
    world.ask(&client, "PING");
    assert_eq!(world.ask(&client, "LATENCY LATEST"), "*0\r\n");
    assert!(world.ask(&client, "LATENCY DOCTOR").contains("Latency monitoring is disabled."));
    assert_eq!(
        world.ask(&client, "LATENCY GRAPH command"),
        "-ERR No samples available for event 'command'\r\n"
    );
    world.ask(&client, "CONFIG SET latency-monitor-threshold 1");
    world.ask(&client, "PING");
    assert_eq!(world.ask(&client, "LATENCY LATEST"), "*0\r\n", "a microsecond is less than a millisecond");
    assert!(world.ask(&client, "LATENCY DOCTOR").contains("No latency spike was observed"));
}

#[test]
fn slow_commands_are_events_and_no_more_than_that() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "CONFIG SET latency-monitor-threshold 2 slowlog-log-slower-than -1");
    // The third look in the turn is the one after the command.
    for command in ["PING", "COMMAND COUNT"] {
        world.meter.delay(2, 3000);
        world.ask(&client, command);
    }
    let latest = world.ask(&client, "LATENCY LATEST");
    assert!(latest.starts_with("*2\r\n*4\r\n$7\r\ncommand\r\n:17000000"), "{latest}");
    assert!(
        latest.contains("*4\r\n$12\r\nfast-command\r\n:17000000") && latest.ends_with(":3\r\n:3\r\n"),
        "{latest}"
    );
    assert!(world.ask(&client, "LATENCY HISTORY fast-command").starts_with("*1\r\n*2\r\n:17000000"));
    assert_eq!(world.ask(&client, "LATENCY HISTORY none"), "*0\r\n");
    assert!(
        world
            .ask(&client, "LATENCY GRAPH command")
            .contains("command - high 3 ms, low 3 ms (all time high 3 ms)")
    );
    let report = world.ask(&client, "LATENCY DOCTOR");
    assert!(
        report.contains("1. command: 1 latency spikes (average 3ms, mean deviation 0ms, period "),
        "{report}"
    );
    assert_eq!(world.ask(&client, "SLOWLOG LEN"), ":0\r\n", "its own threshold is another one");
    assert_eq!(world.ask(&client, "LATENCY RESET none command"), ":1\r\n");
    assert_eq!(world.ask(&client, "LATENCY RESET"), ":1\r\n");
    assert_eq!(world.ask(&client, "LATENCY LATEST"), "*0\r\n");
}
