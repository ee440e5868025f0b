//! What can be seen of lanes from outside: their lines in INFO, and turns that take too long in the log.

use super::world::World;

/// The value of a name in the line of a lane.
fn fact(info: &str, lane: usize, name: &str) -> String {
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("lane{lane}:"))).unwrap();
    let fact = line.split(',').find_map(|fact| fact.strip_prefix(&format!("{name}="))).unwrap();
    fact.to_owned()
}

#[track_caller]
fn check_lane(info: &str, lane: usize, want: &[(&str, &str)]) {
    for (name, value) in want {
        assert_eq!(fact(info, lane, name), *value, "{name} in {info}");
    }
}

#[test]
fn a_lane_shows_what_it_does() {
    let mut world = World::new(2);
    let client = world.connect();
    // foo belongs to lane 1, bar to lane 0, where the client is.
    for command in ["SET foo 1", "SET bar 2", "GET bar", "GET foo", "GET bar"] {
        world.ask(&client, command);
    }
    let info = world.ask(&client, "INFO lanes");
    check_lane(
        &info,
        0,
        &[
            ("commands", "6"),
            ("direct", "3"),
            ("forwarded", "2"),
            ("moved", "0"),
            ("clients", "1"),
            ("keys", "1"),
            ("ring_depth", "0"),
            ("ring_depth_max", "0"),
            ("turns_stalled", "0"),
            ("turns_preempted", "0"),
            ("command_p50_us", "1.000"),
            ("command_max_us", "1.000"),
            ("turn_p50_us", "1.000"),
            ("turn_max_us", "3.000"),
            ("turn_max_command", "set"),
            ("meter_per_us", "1"),
        ],
    );
    check_lane(&info, 1, &[("asks_served", "2"), ("clients", "0"), ("keys", "1"), ("commands", "0")]);
    let depth: u64 = fact(&info, 1, "ring_depth_max").parse().unwrap();
    assert!((40..200).contains(&depth), "one ask waited at a time: {depth} bytes");
    let bytes_in: u64 = fact(&info, 0, "net_bytes_in").parse().unwrap();
    let sent = ["SET foo 1", "SET bar 2", "GET bar", "GET foo", "GET bar", "INFO lanes"].map(|command| {
        let words = command.split(' ');
        words.map(|word| format!("${}\r\n{word}\r\n", word.len()).len()).sum::<usize>() + "*n\r\n".len()
    });
    assert_eq!(bytes_in, sent.iter().sum::<usize>() as u64);
    assert_eq!(world.ask(&client, "CONFIG RESETSTAT"), "+OK\r\n");
    let info = world.ask(&client, "INFO lanes");
    check_lane(&info, 0, &[("direct", "0"), ("forwarded", "0"), ("keys", "1"), ("clients", "1")]);
    let bytes_in: u64 = fact(&info, 0, "net_bytes_in").parse().unwrap();
    assert_eq!(bytes_in, "*2\r\n$4\r\nINFO\r\n$5\r\nlanes\r\n".len() as u64);
    assert_eq!(world.ask(&client, "LATENCY HISTOGRAM get set"), "*0\r\n", "how long they took is forgotten");
    // What lies behind the percentiles, for programs.
    let histograms = world.ask(&client, "INFO histograms");
    assert!(histograms.contains("\r\ncommand_ns_lane0:1000="), "{histograms}");
    assert!(histograms.contains("\r\nturn_ns_lane1:1000="), "{histograms}");
    assert!(!world.ask(&client, "INFO everything").contains("# Histograms"), "too long to be shown unasked");
}

/// A lane has been asked for more than it answers in a turn.
#[test]
fn what_waits_in_rings_is_shown() {
    let mut world = World::new(2);
    let client = world.connect();
    let mut asking: Vec<_> = (0..40).map(|_| world.connect()).collect();
    for _ in 0..20 {
        world.round(1_000_000);
    }
    // foo belongs to lane 1.
    for other in &mut asking {
        other.write(&b"*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n".repeat(60));
    }
    // Who asks for little does not wait for them.
    world.round(1_000_000);
    client.write(b"INFO lanes\r\n");
    for _ in 0..20 {
        world.round(1_000_000);
    }
    let info = String::from_utf8(client.read_all()).unwrap();
    let depth: u64 = fact(&info, 1, "ring_depth").parse().unwrap();
    assert!((1000..100_000).contains(&depth), "{depth} bytes");
}

#[test]
fn a_turn_over_the_limit_is_named_and_one_at_the_limit_is_not() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "SET key 1");
    // A turn with one command looks four times: at its begin, before and after the command, at its end.
    for (us, want) in [(998, 0), (999, 1)] {
        world.meter.delay(2, us);
        assert_eq!(world.ask(&client, "GET key"), "$1\r\n1\r\n");
        assert_eq!(world.machine.warned.len(), want, "{us}");
    }
    assert_eq!(
        world.machine.warned[0],
        "lane 0: a turn took 1001 us for 1 commands, 0 asks and 0 slices; \
         longest of them: get, 999 us, 2 arguments, 22 bytes"
    );
    let info = world.ask(&client, "INFO lanes");
    check_lane(
        &info,
        0,
        &[
            ("turns_stalled", "1"),
            ("turns_preempted", "0"),
            ("turn_max_us", "1001.000"),
            ("turn_max_command", "get"),
            ("turn_max_command_us", "999.000"),
            ("command_max_us", "999.000"),
            ("command_max_command", "get"),
        ],
    );
}

#[test]
fn stalls_are_logged_once_a_second_and_counted() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "PING");
    for _ in 0..5 {
        world.meter.delay(2, 5000);
        world.ask(&client, "PING");
    }
    assert_eq!(world.machine.warned.len(), 1, "{:?}", world.machine.warned);
    world.round(1_000_000_000);
    world.meter.delay(2, 5000);
    world.ask(&client, "PING");
    assert_eq!(world.machine.warned.len(), 2);
    assert!(
        world.machine.warned[1].ends_with("; 4 more since the last such line"),
        "{}",
        world.machine.warned[1]
    );
    check_lane(&world.ask(&client, "INFO lanes"), 0, &[("turns_stalled", "6")]);
}

#[test]
fn a_preempted_turn_is_counted_apart_and_not_named() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "PING");
    world.waited_ns = u64::MAX;
    world.meter.delay(2, 70_000);
    world.ask(&client, "PING");
    assert!(world.machine.warned.is_empty(), "{:?}", world.machine.warned);
    check_lane(
        &world.ask(&client, "INFO lanes"),
        0,
        &[
            ("turns_stalled", "0"),
            ("turns_preempted", "1"),
            ("turn_preempted_max_us", "70002.000"),
            ("turn_max_us", "3.000"),
        ],
    );
}

/// A turn that was preempted is its own fault for the rest of the time.
#[test]
fn of_a_preempted_turn_what_is_its_own_is_named() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "PING");
    for (waited_us, want) in [(4002, None), (4001, Some("1001 us")), (1000, Some("4002 us"))] {
        world.machine.warned.clear();
        world.waited_ns = waited_us * 1000;
        world.meter.delay(2, 5000);
        world.ask(&client, "PING");
        world.waited_ns = 0;
        match want {
            None => assert!(world.machine.warned.is_empty(), "{:?}", world.machine.warned),
            Some(own) => {
                let line = &world.machine.warned[0];
                assert!(line.contains(&format!("a turn took {own}")), "{line}");
                assert!(line.contains(&format!("longest of them: ping, {own}")), "{line}");
            }
        }
        world.round(1_000_000_000);
    }
    let counts = [("turns_stalled", "2"), ("turns_preempted", "1"), ("turn_max_us", "4002.000")];
    check_lane(&world.ask(&client, "INFO lanes"), 0, &counts);
}

#[test]
fn what_another_lane_asks_and_what_takes_slices_is_named_too() {
    let mut world = World::new(2);
    let client = world.connect();
    world.ask(&client, "SET foo 1");
    // The client's lane looks three times for its command and once at the end of the turn; then comes the owner's turn.
    world.meter.delay(6, 3000);
    assert_eq!(world.ask(&client, "GET foo"), "$1\r\n1\r\n");
    let line = &world.machine.warned[0];
    assert!(line.starts_with("lane 1: a turn took 300"), "{line}");
    assert!(line.contains("longest of them: get for another lane, 3000 us, 2 arguments, "), "{line}");
    assert!(!line.contains("foo"), "keys may be secret: {line}");
}

/// Also when one of them has reported late, because it slept.
#[test]
fn lanes_stand_in_the_order_of_their_numbers() {
    let mut world = World::with(2, &[("enable-debug-command", "yes")]);
    let [sleeper, other] = [(); 2].map(|()| {
        let client = world.connect();
        world.ask(&client, "PING");
        client
    });
    // A command has twenty rounds of a millisecond to be answered.
    assert_eq!(world.ask(&sleeper, "DEBUG SLEEP 0.03"), "");
    let info = world.ask(&other, "INFO lanes");
    let names: Vec<_> = info.lines().filter(|line| line.starts_with("lane")).map(|line| &line[..5]).collect();
    assert_eq!(names, ["lane0", "lane1"]);
}
