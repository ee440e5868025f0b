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
    world.ask(&client, "CONFIG SET latency-monitor-threshold 100");
    world.ask(&client, "PING");
    assert_eq!(world.ask(&client, "LATENCY LATEST"), "*0\r\n", "a microsecond is less than that");
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

#[test]
fn a_command_of_the_control_thread_takes_until_its_answer() {
    let mut world = World::with(2, &[("enable-debug-command", "yes")]);
    let client = world.connect();
    world.ask(&client, "CONFIG SET latency-monitor-threshold 5 slowlog-log-slower-than 5000");
    world.ask(&client, "CONFIG RESETSTAT");
    world.ask(&client, "DEBUG SLEEP 0.006");
    world.ask(&client, "MULTI");
    world.ask(&client, "DEBUG SLEEP 0.007");
    world.ask(&client, "EXEC");
    assert_eq!(world.ask(&client, "SLOWLOG LEN"), ":2\r\n", "what is slow is the command, not EXEC or MULTI");
    let slow = world.ask(&client, "SLOWLOG GET 1");
    assert!(slow.contains("$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$5\r\n0.007\r\n"), "{slow}");
    let latest = world.ask(&client, "LATENCY LATEST");
    assert!(latest.starts_with("*1\r\n*4\r\n$7\r\ncommand\r\n"), "{latest}");
    let histogram = world.ask(&client, "LATENCY HISTOGRAM debug config");
    assert!(
        histogram.contains("$16\r\nconfig|resetstat\r\n*4\r\n$5\r\ncalls\r\n:1\r\n"),
        "the reset itself is counted afterwards, as in Redis: {histogram}"
    );
    assert!(histogram.contains("$5\r\ndebug\r\n*4\r\n$5\r\ncalls\r\n:2\r\n"), "{histogram}");
    assert!(!histogram.contains("config|set"), "it was before the reset: {histogram}");
    // On a lane's own port only what that lane's clients asked for is seen.
    let seen = |world: &mut World, lane: usize| {
        let node = world.connect_to(lane);
        world.ask(&node, "LATENCY HISTOGRAM debug") != "*0\r\n"
    };
    assert!(seen(&mut world, 0) != seen(&mut world, 1));
}

#[test]
fn percentiles_are_shown_as_they_are_set_or_not_at_all() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "PING");
    world.ask(&client, "CONFIG SET latency-tracking-info-percentiles 50.0");
    let names = world.ask(&client, "CONFIG GET latency-tracking-info-percentiles");
    assert!(names.ends_with("$2\r\n50\r\n"), "{names}");
    let info = world.ask(&client, "INFO latencystats");
    assert!(info.contains("latency_percentiles_usec_ping:p50=1.000\r\n"), "{info}");
    world.ask(&client, "CONFIG SET latency-tracking no");
    assert!(world.ask(&client, "INFO latencystats").ends_with("# Latencystats\r\n\r\n"));
    world.ask(&client, "CONFIG SET latency-tracking yes");
    assert!(world.ask(&client, "INFO latencystats").contains("_ping:"));
}

#[test]
fn exec_is_not_logged_as_slow() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "CONFIG SET slowlog-log-slower-than 0");
    for command in ["MULTI", "PING", "EXEC"] {
        world.ask(&client, command);
    }
    let log = world.ask(&client, "SLOWLOG GET");
    assert!(log.contains("$5\r\nMULTI\r\n") && !log.contains("EXEC"), "{log}");
}

/// Of ten GETs sent together eight are measured at once, and then two. Says whether the eighth was logged as slow.
#[test]
fn calls_of_one_command_sent_together_are_measured_together() {
    let check = |slowlog: &str, gets: &[&str], us: u64, histogram: &str| {
        let mut world = World::new(1);
        let client = world.connect();
        world.ask(&client, &format!("CONFIG SET slowlog-log-slower-than {slowlog}"));
        // Behind the turn's first look and the first command's.
        world.meter.delay(2, 3000);
        world.ask_all(&client, gets);
        let info = world.ask(&client, "INFO commandstats");
        let found = world.ask(&client, "LATENCY HISTOGRAM get").replace("\r\n", " ");
        assert!(found.ends_with(histogram), "{gets:?}: {found}");
        assert!(info.contains(&format!("cmdstat_get:calls=10,usec={us},")), "{gets:?}: {info}");
        world.ask(&client, "SLOWLOG GET").contains("$3\r\nGET\r\n$8\r\nkey:0008\r\n")
    };
    let alike: Vec<String> = (1..11).map(|number| format!("GET key:{number:04}")).collect();
    let alike: Vec<&str> = alike.iter().map(String::as_str).collect();
    // No more than 4 µs of the 3000 are each one's, and the last has the rest; half a microsecond is none.
    assert!(check("1000", &alike, 3001, ":1 :1 :2 :2 :8 :9 :4096 :10 "));
    // Slow may be less than that: each is measured alone.
    assert!(!check("999", &alike, 3009, ":2 :9 :4096 :10 "));
    // Keys of several lengths are no other command.
    let unlike = ["GET key:0001", "GET key:002"].repeat(5);
    assert!(!check("-1", &unlike, 3001, ":1 :1 :2 :2 :8 :9 :4096 :10 "));
    // Behind another command, or in more than a kilobyte, each is measured alone.
    let apart = ["GET key:0001", "STRLEN key:0001"].repeat(10);
    assert!(!check("-1", &apart, 3009, ":2 :9 :4096 :10 "));
    let long = format!("GET {}", "k".repeat(1024));
    assert!(!check("-1", &[long.as_str(); 10], 3009, ":2 :9 :4096 :10 "));
}

/// A client's share of a turn ends in the middle of some that are measured together.
#[test]
fn what_ran_before_a_share_ended_is_measured() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, &format!("SET key:0001 {}", "x".repeat(10_000)));
    let mut replies = world.ask_all(&client, &["GET key:0001"; 30]);
    while replies.matches("$10000\r\n").count() < 30 {
        replies += &world.ask_all(&client, &[]);
    }
    let histogram = world.ask(&client, "LATENCY HISTOGRAM get");
    assert!(histogram.contains("calls\r\n:30\r\n"), "{histogram}");
}
