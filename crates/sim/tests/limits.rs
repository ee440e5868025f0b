//! Limits, each with a client that goes past it and one that does not notice.

use lane::{Settings, Stats};
use net::fault::Faults;
use sim::{Client, World};
use store::Policy;

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

fn ask(world: &mut World, client: &mut Client, words: &[&[u8]], size: usize) -> String {
    let got = world.exchange(client, &command(words), size, 300);
    String::from_utf8_lossy(&got).into_owned()
}

fn world(change: impl FnOnce(&mut Settings)) -> World {
    let mut settings = Settings::default();
    change(&mut settings);
    World::new(1, &settings, 7, Faults::default())
}

fn stats(world: &World) -> Stats {
    world.lanes[0].stats()
}

const MIB: u64 = 1 << 20;

/// Writes four times what fits, in values of 1,000 bytes, and says how many were taken.
fn overfill(world: &mut World, client: &mut Client) -> usize {
    let value = [b'v'; 1000];
    let mut taken_count = 0;
    for number in 0..16_000 {
        let key = format!("key:{number:08}");
        let mut bytes = command(&[b"SET", key.as_bytes(), &value]);
        bytes.extend(command(&[b"PING"]));
        client.send(&bytes);
        if number % 16 == 15 {
            for _ in 0..20 {
                client.pump();
                world.round();
            }
            client.pump();
            let got = std::mem::take(&mut client.received);
            taken_count += got.windows(3).filter(|window| window == b"+OK").count();
            let refused_count = got.windows(4).filter(|window| window == b"-OOM").count();
            let answered_count = got.windows(5).filter(|window| window == b"+PONG").count();
            assert_eq!(answered_count, 16, "the connection lives");
            assert!(refused_count <= 16);
        }
    }
    taken_count
}

#[test]
fn without_eviction_writes_are_refused_and_nothing_is_lost() {
    let mut world = world(|settings| settings.memory_size_max = 4 * MIB);
    let mut client = world.connect(0);
    let taken_count = overfill(&mut world, &mut client);
    let keys = usize::try_from(stats(&world).keys).expect("keys are few");
    assert_eq!(keys, taken_count, "what was taken is there");
    assert!((3_000..4_200).contains(&keys), "{keys} keys of a kilobyte in 4 MiB");
    let refused = ask(&mut world, &mut client, &[b"SET", b"k", &[b'v'; 1000]], 60);
    assert_eq!(refused, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    assert_eq!(ask(&mut world, &mut client, &[b"DEL", b"key:00000000", b"key:00000001"], 4), ":2\r\n");
    assert!(world.lanes[0].shard().held() <= 4 * MIB);
}

#[test]
fn with_eviction_every_write_is_taken_within_the_limit() {
    for policy in [Policy::AllKeysLru, Policy::AllKeysLfu, Policy::AllKeysRandom] {
        let mut world = world(|settings| {
            settings.memory_size_max = 4 * MIB;
            settings.policy = policy;
        });
        let mut client = world.connect(0);
        assert_eq!(overfill(&mut world, &mut client), 16_000, "{policy:?}");
        let held = world.lanes[0].shard().held();
        assert!((3 * MIB + MIB / 2..=4 * MIB).contains(&held), "{policy:?} holds {held} bytes");
    }
}

#[test]
fn a_policy_for_volatile_keys_spares_the_others() {
    let mut world = world(|settings| {
        settings.memory_size_max = 4 * MIB;
        settings.policy = Policy::VolatileLru;
    });
    let mut client = world.connect(0);
    for number in 0..100 {
        let key = format!("mortal:{number}");
        let size = ask(&mut world, &mut client, &[b"SET", key.as_bytes(), &[b'v'; 1000], b"EX", b"100"], 5);
        assert_eq!(size, "+OK\r\n");
    }
    let taken_count = overfill(&mut world, &mut client);
    assert!(taken_count < 4_200, "writes are refused when no mortal key is left");
    assert_eq!(stats(&world).keys, taken_count as u64, "all that was taken, and no mortal key");
}

#[test]
fn a_silent_client_is_closed_after_its_time_and_a_busy_one_is_not() {
    let mut world = world(|settings| settings.timeout_s = 2);
    let silent = world.connect(0);
    let mut busy = world.connect(0);
    for _ in 0..6 {
        assert_eq!(ask(&mut world, &mut busy, &[b"PING"], 7), "+PONG\r\n");
        world.pass(500_000_000);
        for _ in 0..3 {
            world.round();
        }
    }
    assert!(silent.end.at_end(), "three seconds of silence");
    assert!(!busy.end.at_end());
}

/// Two hundred clients that send a byte at a time hold nobody up, and are served in the end.
#[test]
fn clients_that_drip_are_served_beside_others() {
    const GET_ROUNDS_MAX: usize = 4;
    let mut world = world(|_| ());
    let mut slow: Vec<Client> = (0..200).map(|_| world.connect(0)).collect();
    for (number, client) in slow.iter_mut().enumerate() {
        client.send(&command(&[b"SET", format!("drip:{number}").as_bytes(), &[b'v'; 100]]));
    }
    let mut busy = world.connect(0);
    // A turn lets in some of those who knock.
    (0..20).for_each(|_| world.round());
    while slow.iter().any(|client| !client.is_sent()) {
        let got = world.exchange(&mut busy, &command(&[b"GET", b"none"]), 5, GET_ROUNDS_MAX);
        assert_eq!(got, b"$-1\r\n", "answered within {GET_ROUNDS_MAX} rounds");
        slow.iter_mut().for_each(|client| client.push(1));
    }
    for _ in 0..5 {
        world.round();
    }
    for client in &mut slow {
        client.pump();
        assert_eq!(client.received, b"+OK\r\n");
    }
    assert_eq!(stats(&world).keys, 200);
}

#[test]
fn a_stranger_is_not_owed_more_than_a_kilobyte() {
    let mut world = world(|settings| settings.password = Some(b"secret".to_vec()));
    let mut client = world.connect(0);
    assert_eq!(ask(&mut world, &mut client, &[b"GET", b"a"], 33), "-NOAUTH Authentication required.\r\n");
    client.send(&command(&[b"GET", b"a"]).repeat(100));
    for _ in 0..20 {
        client.pump();
        world.round();
    }
    assert!(client.end.at_end(), "a hundred refusals at once are too many");
    let mut friend = world.connect(0);
    assert_eq!(ask(&mut world, &mut friend, &[b"AUTH", b"secret"], 5), "+OK\r\n");
    let pongs = world.exchange(&mut friend, &command(&[b"PING"]).repeat(1000), 7000, 300);
    assert_eq!(pongs.len(), 7000);
}

#[test]
fn a_client_watches_so_many_keys_and_no_more() {
    let mut world = world(|_| ());
    let (mut client, mut other) = (world.connect(0), world.connect(0));
    let keys: Vec<String> = (0..1025).map(|number| format!("key:{number}")).collect();
    let words = |range: std::ops::Range<usize>| -> Vec<&[u8]> {
        std::iter::once(&b"WATCH"[..]).chain(keys[range].iter().map(String::as_bytes)).collect()
    };
    let refused = "-ERR a client watches at most 1024 keys\r\n";
    assert_eq!(ask(&mut world, &mut client, &words(0..1025), refused.len()), refused);
    assert_eq!(ask(&mut world, &mut client, &words(0..1000), 5), "+OK\r\n");
    assert_eq!(ask(&mut world, &mut client, &words(999..1025), refused.len()), refused);
    assert_eq!(ask(&mut world, &mut client, &words(500..1024), 5), "+OK\r\n");
    // What was refused is not watched; all that was not is.
    for (key, want) in [("key:1024", "*1\r\n+PONG\r\n"), ("key:0", "*-1\r\n"), ("key:1023", "*-1\r\n")] {
        assert_eq!(ask(&mut world, &mut client, &words(0..1024), 5), "+OK\r\n");
        assert_eq!(ask(&mut world, &mut other, &[b"SET", key.as_bytes(), b"1"], 5), "+OK\r\n");
        assert_eq!(ask(&mut world, &mut client, &[b"MULTI"], 5), "+OK\r\n");
        assert_eq!(ask(&mut world, &mut client, &[b"PING"], 9), "+QUEUED\r\n");
        assert_eq!(ask(&mut world, &mut client, &[b"EXEC"], want.len()), want, "{key}");
    }
    drop((client, other));
    for _ in 0..50 {
        world.round();
    }
    world.lanes[0].audit();
}

#[test]
fn commands_queued_without_end_are_refused() {
    let mut world = world(|settings| settings.query_size_max = 13_000);
    let mut client = world.connect(0);
    assert_eq!(ask(&mut world, &mut client, &[b"MULTI"], 5), "+OK\r\n");
    let value = [b'v'; 1000];
    for _ in 0..9 {
        assert_eq!(ask(&mut world, &mut client, &[b"SET", b"k", &value], 9), "+QUEUED\r\n");
    }
    let refused = ask(&mut world, &mut client, &[b"SET", b"k", &value], 60);
    assert!(refused.starts_with("-ERR the commands of this MULTI"), "{refused}");
    assert!(ask(&mut world, &mut client, &[b"EXEC"], 40).starts_with("-EXECABORT"));
    assert_eq!(ask(&mut world, &mut client, &[b"GET", b"k"], 5), "$-1\r\n");
}
