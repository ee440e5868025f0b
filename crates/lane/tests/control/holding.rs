//! What INFO says of memory, of when keys end, and of clients' buffers.

use lane::{Dialect, Door, Namespace, Namespaces, Port};

use super::world::World;

/// Taken in within few turns, and much more than an empty server holds.
const VALUE_SIZE: usize = 256 << 10;
const SECOND_NS: u64 = 1_000_000_000;

fn field(info: &str, name: &str) -> u64 {
    let value = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap();
    value.parse().unwrap_or_else(|_| panic!("{name} is a number, and not {value}"))
}

#[test]
fn the_peak_of_memory_stays_when_the_memory_is_free_again() {
    let mut world = World::new(2);
    let client = world.connect();
    let before = field(&world.ask(&client, "INFO memory"), "used_memory");
    let value = "v".repeat(VALUE_SIZE);
    for key in ["foo", "bar"] {
        let mut reply = world.ask(&client, &format!("SET {key} {value}"));
        while reply.is_empty() {
            reply = world.ask(&client, "PING");
        }
        assert!(reply.starts_with("+OK\r\n"), "{reply}");
        world.ask(&client, "PING");
    }
    let info = world.ask(&client, "INFO memory");
    let used = field(&info, "used_memory");
    assert!(before + 2 * (VALUE_SIZE as u64) <= used && used <= field(&info, "used_memory_peak"), "{info}");
    world.ask(&client, "FLUSHALL");
    world.ask(&client, "CONFIG RESETSTAT");
    let info = world.ask(&client, "INFO memory");
    let (used, peak) = (field(&info, "used_memory"), field(&info, "used_memory_peak"));
    assert!(
        used < VALUE_SIZE as u64 && 2 * (VALUE_SIZE as u64) <= peak,
        "the reset leaves it, as in Redis: {info}"
    );
    let percent = format!("used_memory_peak_perc:{}.{:02}%", used * 100 / peak, used * 10_000 / peak % 100);
    assert!(info.contains(&percent), "{percent} in {info}");
    assert!(world.ask(&client, "MEMORY STATS").contains(&format!("peak.allocated\r\n:{peak}\r\n")));
}

/// The values that MEMORY STATS shares with INFO are the same, in either protocol.
#[test]
fn memory_stats_say_what_info_says() {
    let mut world = World::new(2);
    let client = world.connect();
    world.ask(&client, "MSET a 1 b 2 c 3 d 4");
    let info = world.ask(&client, "INFO memory");
    let fact = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim_end_matches('%').parse::<f64>().unwrap()
    };
    let stats = world.ask(&client, "MEMORY STATS");
    assert!(stats.starts_with("*54\r\n"), "{stats}");
    for (name, of_info) in [
        ("dataset.percentage", "used_memory_dataset_perc"),
        ("peak.percentage", "used_memory_peak_perc"),
        ("allocator-fragmentation.ratio", "allocator_frag_ratio"),
        ("rss-overhead.ratio", "rss_overhead_ratio"),
        ("fragmentation", "mem_fragmentation_ratio"),
    ] {
        let (_, behind) = stats.split_once(&format!("\r\n{name}\r\n$")).unwrap();
        let got: f64 = behind.lines().nth(1).unwrap().parse().unwrap();
        assert!((got - fact(of_info)).abs() < 1e-9, "{name}: {got} in {info}");
    }
    world.ask(&client, "HELLO 3");
    assert!(world.ask(&client, "MEMORY STATS").contains("\r\nallocator-rss.ratio\r\n,"));
}

#[test]
fn the_mean_time_to_live_is_that_of_the_keys_that_have_one() {
    let mut world = World::new(2);
    let client = world.connect();
    let check = |world: &mut World, commands: &[&str], db: u64, want_s: u64| {
        for command in commands {
            world.ask(&client, command);
        }
        let info = world.ask(&client, "INFO keyspace");
        let line = info.lines().find(|line| line.starts_with(&format!("db{db}:"))).unwrap();
        let ms: u64 = line.rsplit('=').next().unwrap().parse().unwrap();
        assert!(
            (want_s * 1000 - 500..=want_s * 1000).contains(&ms),
            "{want_s} s in {line}, after {commands:?}"
        );
    };
    // foo belongs to lane 1, bar to lane 0.
    check(&mut world, &["SET foo 1 EX 100", "SET none 1"], 0, 100);
    check(&mut world, &["SET bar 1 EX 300"], 0, 200);
    check(&mut world, &["EXPIRE bar 500"], 0, 300);
    check(&mut world, &["SET bar 12345678901234567890 KEEPTTL"], 0, 300);
    check(&mut world, &["SET foo 1 EX 300", "APPEND foo 2"], 0, 400);
    check(&mut world, &["SWAPDB 0 1"], 1, 400);
    check(&mut world, &["SELECT 1", "PERSIST foo"], 1, 500);
    check(&mut world, &["FLUSHDB", "SET foo 1 EX 50", "COPY foo bar", "DEL foo"], 1, 50);
    world.now.unix_ms += 60_000;
    world.ask(&client, "SET none 1");
    assert!(world.ask(&client, "INFO keyspace").contains("db1:keys=1,expires=0,avg_ttl=0\r\n"));
}

/// Also of one that comes behind many others, of what has been taken apart already, and of replies that wait behind the output.
#[test]
fn buffers_are_looked_at_wherever_they_are() {
    let mut world = World::new(1);
    let client = world.connect();
    let _many: Vec<_> = (0..300).map(|_| world.connect()).collect();
    for _ in 0..40 {
        world.round(1_000_000);
    }
    let last = world.connect();
    let value = "v".repeat(400_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$3\r\nbar\r\n$400000\r\n{value}\r\n");
    let mut sent = 0;
    while sent < 300_000 {
        sent += last.write(&set.as_bytes()[sent..300_000]);
        world.round(1_000_000);
    }
    let buffers = |world: &mut World| {
        world.now.mono_ns += SECOND_NS;
        world.ask(&client, "PING");
        let info = world.ask(&client, "INFO clients");
        ["input", "output"].map(|side| field(&info, &format!("client_recent_max_{side}_buffer")))
    };
    for _ in 0..3 {
        buffers(&mut world);
    }
    let [input, _] = buffers(&mut world);
    assert!((299_000..400_000).contains(&input), "{input}");
    while sent < set.len() {
        sent += last.write(&set.as_bytes()[sent..]);
        world.round(1_000_000);
    }
    last.write(&b"*2\r\n$3\r\nGET\r\n$3\r\nbar\r\n".repeat(5));
    for _ in 0..3 {
        buffers(&mut world);
    }
    // One is put together at a time.
    let [_, output] = buffers(&mut world);
    assert!((400_000..800_100).contains(&output), "{output}");
}

/// Whose replies are large is slowed, not cut: one that reads gets all of them, whatever its limit is.
#[test]
fn a_pipeline_of_long_values_is_answered_as_far_as_it_is_read() {
    for lanes in [1, 2] {
        let mut world = World::with(lanes, &[("client-output-buffer-limit", "normal 1mb 0 0")]);
        let client = world.connect();
        let value = "v".repeat(300_000);
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$300000\r\n{value}\r\n");
        let mut sent = 0;
        while sent < set.len() {
            sent += client.write(&set.as_bytes()[sent..]);
            world.round(1_000_000);
        }
        assert_eq!(client.read_all(), b"+OK\r\n");
        client.write(&b"GET k\r\n".repeat(40));
        let mut got = 0;
        for _ in 0..5000 {
            world.round(1_000_000);
            got += client.read_all().len();
        }
        assert!(!client.was_cut());
        assert_eq!(got, 40 * "$300000\r\n\r\n".len() + 40 * value.len());
    }
}

#[test]
fn the_largest_buffers_of_clients_are_remembered_for_a_while() {
    let mut world = World::new(1);
    let (client, other) = (world.connect(), world.connect());
    let buffers = |world: &mut World| {
        let info = world.ask(&client, "INFO clients");
        let [input, output] =
            ["input", "output"].map(|side| field(&info, &format!("client_recent_max_{side}_buffer")));
        (input, output)
    };
    world.ask(&client, &format!("SET bar {}", "v".repeat(5000)));
    world.now.mono_ns += 10 * SECOND_NS;
    let (input, output) = buffers(&mut world);
    assert!(input < 1000 && output < 1000, "{input}, {output}");
    // The turn that writes the reply looks at it, too.
    world.now.mono_ns += SECOND_NS;
    world.ask(&other, "GET bar");
    other.write(format!("*2\r\n$4\r\nECHO\r\n$9000\r\n{}", "x".repeat(3000)).as_bytes());
    world.now.mono_ns += SECOND_NS;
    let (input, output) = buffers(&mut world);
    assert!((3000..4000).contains(&input) && (5000..6000).contains(&output), "{input}, {output}");
    other.write(format!("{}\r\n", "x".repeat(6000)).as_bytes());
    world.now.mono_ns += 4 * SECOND_NS;
    assert!(buffers(&mut world).0 >= 3000, "it is not long ago");
    world.now.mono_ns += 10 * SECOND_NS;
    let (input, output) = buffers(&mut world);
    assert!(input < 1000 && output < 1000, "{input}, {output}");
}

/// What a namespace may take moves with `maxmemory`: more is stored at once, and less refused.
#[test]
fn shares_move_with_the_limit() {
    for lane_count in [1, 2] {
        let config = [("maxmemory", "16mb"), ("maxmemory-policy", "noeviction")];
        let mut world = World::told(lane_count, &config, |settings| {
            settings.doors[1] = Door { port: Port::Lane, dialect: Dialect::Memcached };
            settings.memory_size_max = 16 << 20;
            let small = Namespace { memory_share: Some(2), ..Namespace::new("default") };
            settings.namespaces = Namespaces::new(vec![small], vec![Namespace::new("test")]);
        });
        let (redis, memcached) = (world.connect(), world.connect_to(0));
        let value = "x".repeat(10_000);
        let mut number = 0;
        let mut stored = |world: &mut World| {
            let said: String = (0..200)
                .map(|_| {
                    number += 1;
                    memcached.write(format!("set k{number} 0 0 10000\r\n{value}\r\n").as_bytes());
                    world.ask(&redis, "PING");
                    String::from_utf8_lossy(&memcached.read_all()).into_owned()
                })
                .collect();
            let refused = said.matches("SERVER_ERROR out of memory storing object\r\n").count();
            let stored = said.matches("STORED\r\n").count();
            assert_eq!(stored + refused, 200, "{said}");
            stored
        };
        // 2 % of 16 MiB are 33 values with what is beside each, of 32 MiB twice as many.
        let first = stored(&mut world);
        assert!((24..=33).contains(&first), "{first} of {lane_count} lanes");
        assert_eq!(world.ask(&redis, "CONFIG SET maxmemory 32mb"), "+OK\r\n");
        let second = stored(&mut world);
        assert!((24..=42).contains(&second), "{second} of {lane_count} lanes");
        assert_eq!(world.ask(&redis, "CONFIG SET maxmemory 16mb"), "+OK\r\n");
        assert_eq!(stored(&mut world), 0, "it holds twice its share");
        assert_eq!(world.ask(&redis, "SET k v"), "+OK\r\n", "the others go on");
        assert_eq!(world.ask(&redis, "CONFIG SET maxmemory 0"), "+OK\r\n");
        assert_eq!(stored(&mut world), 200, "without a limit there is no share");
    }
}
