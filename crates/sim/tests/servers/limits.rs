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
    assert!(
        (2_500..4_200).contains(&keys),
        "{keys} keys of a kilobyte in 4 MiB, beside 1.2 MB of roots and counts"
    );
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
    let mut world = world(|settings| settings.set_password(Some(b"secret".to_vec())));
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

/// DISCARD, RESET and UNWATCH end the watching: what changed before or after says nothing to the next MULTI. RESET ends the
/// MULTI, too.
#[test]
fn what_is_watched_no_more_fails_no_exec() {
    for (lines, end) in [
        (&["MULTI", "DISCARD"][..], "+OK\r\n"),
        (&["RESET"], "+RESET\r\n"),
        (&["MULTI", "RESET"], "+RESET\r\n"),
        (&["UNWATCH"], "+OK\r\n"),
    ] {
        let mut world = World::quiet(2);
        let (mut client, mut other) = (world.connect(0), world.connect(0));
        assert_eq!(ask(&mut world, &mut client, &[b"WATCH", KEYS[0], KEYS[1]], 5), "+OK\r\n");
        let asked: Vec<u8> = lines.iter().flat_map(|line| command(&[line.as_bytes()])).collect();
        assert!(
            world
                .exchange(&mut client, &asked, end.len() + 5 * (lines.len() - 1), 20)
                .ends_with(end.as_bytes()),
            "{lines:?}"
        );
        for key in KEYS {
            assert_eq!(ask(&mut world, &mut other, &[b"SET", key, b"v"], 5), "+OK\r\n");
        }
        let asked = [command(&[b"MULTI"]), command(&[b"PING"]), command(&[b"EXEC"])].concat();
        let got = world.exchange(&mut client, &asked, 25, 20);
        assert_eq!(got, b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n", "after {lines:?}");
    }
}

#[test]
fn commands_queued_without_end_are_refused() {
    let mut world = world(|settings| settings.query_size_max = 12_000);
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

/// What is announced without an end counts as it comes: a command of many words ends the connection at the limit.
#[test]
fn a_command_longer_than_its_limit_ends_the_connection() {
    let mut world = world(|settings| settings.query_size_max = 100_000);
    let (mut greedy, mut other) = (world.connect(0), world.connect(0));
    greedy.send(b"*1000000\r\n$3\r\nDEL\r\n");
    greedy.send(&b"$1\r\na\r\n".repeat(100_000));
    let mut most = 0;
    for _ in 0..100 {
        greedy.pump();
        world.round();
        most = most.max(stats(&world).clients_size);
    }
    assert!(greedy.end.at_end() && most < 400_000, "{most} bytes where 100,000 are allowed");
    assert_eq!(ask(&mut world, &mut other, &[b"GET", b"a"], 5), "$-1\r\n");
}

/// The end comes behind a command, within a short one and within a long one: whole commands are answered, then it is closed.
#[test]
fn a_client_that_ends_its_sending_has_its_replies_and_is_closed() {
    let long = command(&[b"SET", b"k", &[b'v'; 100_000]]);
    for rest in [&b""[..], b"*2\r\n$3\r\nGE", &long[..20], &long[..90_000]] {
        let mut world = world(|_| ());
        let mut client = world.connect(0);
        client.send(&[&command(&[b"PING"]), rest].concat());
        while !client.is_sent() {
            client.pump();
            world.round();
        }
        client.end.end();
        for _ in 0..20 {
            world.round();
        }
        client.pump();
        assert_eq!(client.received, b"+PONG\r\n", "{} bytes of another command", rest.len());
        assert!(client.end.at_end() && stats(&world).clients == 0, "{} bytes of another command", rest.len());
    }
}

/// What a turn receives and writes is bounded for one client and for all together, and so is what waits for one that never reads.
#[test]
fn replies_are_shared_out_over_turns_and_wait_for_its_reading() {
    for (count, growth_max) in [(1, 128 * 1024), (12, 600 * 1024)] {
        let mut world = world(|_| ());
        let mut readers: Vec<Client> = (0..count).map(|_| world.connect_with(0, 1 << 20, 4096)).collect();
        ask(&mut world, &mut readers[0], &[b"SET", b"k", &[b'v'; 10_000]], 5);
        for reader in &mut readers {
            reader.send(&command(&[b"GET", b"k"]).repeat(3000));
            reader.push(usize::MAX);
        }
        let (mut before, mut growth) = (stats(&world).clients_size, 0);
        for _ in 0..100 {
            world.turn(0);
            let size = stats(&world).clients_size;
            (growth, before) = (growth.max(size.saturating_sub(before)), size);
        }
        assert!((growth_max / 2..growth_max).contains(&growth), "{growth} bytes in one turn");
        assert!((256 * 1024..400 * 1024).contains(&(before / count)), "{before} bytes wait");
    }
}

#[test]
fn a_client_behind_its_reading_for_too_long_is_closed_and_one_that_catches_up_is_not() {
    let mut world = world(|settings| {
        settings.output_soft_size = 50_000;
        settings.output_soft_s = 5;
    });
    let mut writer = world.connect(0);
    ask(&mut world, &mut writer, &[b"SET", b"k", &[b'v'; 30_000]], 5);
    let mut readers: Vec<Client> = (0..3).map(|_| world.connect_with(0, 1 << 16, 1 << 12)).collect();
    // The last one asks for less than the limit.
    for (reader, count) in readers.iter_mut().zip([3, 3, 1]) {
        reader.send(&command(&[b"GET", b"k"]).repeat(count));
        reader.push(usize::MAX);
    }
    for tenth in 0..80 {
        for _ in 0..3 {
            world.round();
            if tenth > 30 {
                readers[1].pull(usize::MAX);
            }
        }
        let cut_count = stats(&world).clients_cut;
        assert!(tenth >= 50 || cut_count == 0, "{tenth} tenths of a second are not five");
        assert!(tenth < 53 || cut_count == 1, "{tenth} tenths of a second are more than five");
        // Only time brings the turn about.
        world.pass(100_000_000);
    }
    assert_eq!(stats(&world).clients_cut, 1);
    readers.iter_mut().for_each(|reader| reader.pull(usize::MAX));
    assert!(readers[0].end.at_end());
    assert!(!readers[1].end.at_end(), "who reads within the time stays");
    assert!(!readers[2].end.at_end());
}

#[test]
fn a_stranger_that_says_no_password_in_ten_seconds_is_closed() {
    let mut world = world(|settings| settings.set_password(Some(b"secret".to_vec())));
    let mut friend = world.connect(0);
    assert_eq!(ask(&mut world, &mut friend, &[b"AUTH", b"secret"], 5), "+OK\r\n");
    let (silent, mut wrong) = (world.connect(0), world.connect(0));
    for second in 0..12 {
        for _ in 0..3 {
            world.round();
        }
        let is_closed = second > 9;
        assert_eq!(silent.end.at_end(), is_closed, "after {second} seconds");
        if !is_closed {
            ask(&mut world, &mut wrong, &[b"AUTH", b"guess"], 20);
        }
        assert_eq!(wrong.end.at_end(), is_closed, "guessing buys no time");
        world.pass(1_000_000_000);
    }
    assert_eq!(ask(&mut world, &mut friend, &[b"PING"], 7), "+PONG\r\n");
    assert_eq!(ask(&mut world, &mut friend, &[b"RESET"], 8), "+RESET\r\n");
    for _ in 0..11 {
        world.pass(1_000_000_000);
        world.round();
    }
    world.round();
    assert!(friend.end.at_end(), "who has said RESET is a stranger again");
}

/// One that becomes a stranger over and over is one all the same: those who came later need not wait for it.
#[test]
fn who_becomes_a_stranger_often_is_one_stranger() {
    let mut world = world(|settings| settings.set_password(Some(b"secret".to_vec())));
    let mut often = world.connect(0);
    let both = [command(&[b"AUTH", b"secret"]), command(&[b"RESET"])].concat();
    assert_eq!(world.exchange(&mut often, &both.repeat(1000), 13_000, 300).len(), 13_000);
    let silent = world.connect(0);
    world.round();
    world.pass(10_000_000_000);
    (0..3).for_each(|_| world.round());
    assert!(silent.end.at_end() && often.end.at_end());
}

#[test]
fn a_stranger_has_its_time_from_when_it_became_one() {
    let mut world = world(|settings| settings.set_password(Some(b"secret".to_vec())));
    // Behind this one, which says nothing, the client stays noted when it has said the password.
    let silent = world.connect(0);
    world.round();
    let mut client = world.connect(0);
    for second in 0..20 {
        match second {
            1 => assert_eq!(ask(&mut world, &mut client, &[b"AUTH", b"secret"], 5), "+OK\r\n"),
            8 => assert_eq!(ask(&mut world, &mut client, &[b"RESET"], 8), "+RESET\r\n"),
            // Who is a stranger gains no time by it.
            15 => assert_eq!(ask(&mut world, &mut client, &[b"RESET"], 8), "+RESET\r\n"),
            _ => {}
        }
        for _ in 0..3 {
            world.round();
        }
        assert_eq!(silent.end.at_end(), second > 9, "after {second} seconds");
        assert_eq!(client.end.at_end(), second > 17, "after {second} seconds");
        world.pass(1_000_000_000);
    }
}

#[test]
fn an_output_limit_below_what_is_noticed_anyway_holds() {
    let value = [b'v'; 30_000];
    let reply_size = b"$30000\r\n\r\n".len() + value.len();
    for (size_max, cut_by) in [(50_000, 2), (reply_size + 1, 2), (reply_size, 1)] {
        let mut world = world(|settings| settings.output_size_max = size_max);
        let mut client = world.connect_with(0, 1 << 16, 1 << 12);
        ask(&mut world, &mut client, &[b"SET", b"k", &value], 5);
        for asked in 1..=2 {
            client.send(&command(&[b"GET", b"k"]));
            client.push(usize::MAX);
            world.round();
            world.round();
            assert_eq!(stats(&world).clients_cut, u64::from(cut_by <= asked), "{size_max} bytes");
        }
    }
}

/// Who only listens is cut as well: nothing comes from it that could bring it to notice.
#[test]
fn a_monitor_that_does_not_read_is_cut_at_its_output_limit() {
    let mut world = world(|settings| settings.output_size_max = 50_000);
    world.attend();
    let (mut monitor, mut other) = (world.connect_with(0, 4096, 4096), world.connect(0));
    assert_eq!(ask(&mut world, &mut monitor, &[b"MONITOR"], 5), "+OK\r\n");
    let cut_after = (0..100).find(|_| {
        ask(&mut world, &mut other, &[b"ECHO", &[b'v'; 1000]], 1009);
        stats(&world).clients_cut == 1
    });
    assert!(cut_after.is_some_and(|count| (45..60).contains(&count)), "after {cut_after:?} kilobytes");
}

/// A pause ends while others ask, so that twice as many may go on each turn as it serves.
#[test]
fn so_many_clients_are_served_in_a_turn() {
    const CLIENTS_PER_TURN: usize = 128;
    let mut world = world(|_| ());
    world.attend();
    let mut pausing = world.connect(0);
    ask(&mut world, &mut pausing, &[b"CLIENT", b"PAUSE", b"100000", b"WRITE"], 5);
    let mut waiting: Vec<Client> = (0..1000).map(|_| world.connect(0)).collect();
    for client in &mut waiting[..500] {
        client.send(&command(&[b"SET", b"k", b"v"]));
        client.pump();
    }
    (0..100).for_each(|_| world.round());
    pausing.send(&command(&[b"CLIENT", b"UNPAUSE"]));
    pausing.pump();
    waiting[500..].iter_mut().for_each(|client| client.send(&command(&[b"PING"])));
    let (mut most, mut rounds) = (0, 0);
    while !waiting.is_empty() {
        waiting.iter_mut().for_each(Client::pump);
        world.round();
        waiting.iter_mut().for_each(Client::pump);
        let before = waiting.len();
        waiting.retain(|client| client.received.is_empty());
        most = most.max(before - waiting.len());
        rounds += 1;
        assert!(rounds < 100, "{} clients wait", waiting.len());
    }
    assert_eq!(most, CLIENTS_PER_TURN);
}

/// Asks for one long value thousands of times in one go, and reads nothing: it is slowed, and cut where its limit is lower than that.
#[test]
fn a_client_that_goes_on_asking_is_slowed_and_cut_at_its_output_limit() {
    for (size_max, is_cut) in [(4 << 20, false), (150_000, true)] {
        let mut world = world(|settings| settings.output_size_max = size_max);
        let mut other = world.connect(0);
        let value = vec![b'v'; 100_000];
        assert_eq!(ask(&mut world, &mut other, &[b"SET", b"k", &value], 5), "+OK\r\n");
        let mut client = world.connect_with(0, 1 << 20, 64 * 1024);
        client.send(&command(&[b"GET", b"k"]).repeat(10_000));
        let mut most = 0;
        for _ in 0..100 {
            client.push(usize::MAX);
            world.round();
            most = most.max(stats(&world).clients_size);
        }
        assert_eq!(stats(&world).clients_cut, u64::from(is_cut));
        // Three of them are more than 256 KiB; beside them there is input.
        assert!(most < 600_000, "{most} bytes");
        assert_eq!(ask(&mut world, &mut other, &[b"PING"], 7), "+PONG\r\n");
    }
}

/// Turns until the lane says that it waits; panics if it never does.
fn turn_until_idle(world: &mut World, lane: usize) {
    for _ in 0..200 {
        if world.turn(lane) == lane::Next::Idle {
            return;
        }
    }
    panic!("a lane that can do nothing waits for others");
}

/// A key of each of two lanes.
const KEYS: [&[u8]; 2] = [b"bar", b"foo"];

#[test]
fn a_lane_whose_asks_find_no_room_waits_for_the_other() {
    let mut world = World::quiet(2);
    let mut clients: Vec<Client> = (0..100).map(|at| world.connect(at % 2)).collect();
    for _ in 0..4 {
        world.round();
    }
    let value = [b'v'; 400];
    for client in &mut clients {
        client.send(&command(&[b"SET", KEYS[1], &value]).repeat(60));
        client.push(usize::MAX);
    }
    // The other lane takes no turn: soon its ring is full.
    turn_until_idle(&mut world, 0);
    let asked = world.lanes[0].stats().commands().forwarded;
    assert!((1..50 * 60).contains(&asked), "{asked} asks found room");
    turn_until_idle(&mut world, 0);
    for _ in 0..200 {
        world.round();
        clients.iter_mut().for_each(Client::pump);
    }
    for client in &clients {
        assert_eq!(client.received, b"+OK\r\n".repeat(60), "and all goes on when it does");
    }
}

#[test]
fn replies_behind_an_open_one_do_not_pile_up() {
    let mut world = World::quiet(2);
    let mut writer = world.connect(0);
    ask(&mut world, &mut writer, &[b"SET", KEYS[0], &[b'v'; 10_000]], 5);
    drop(writer);
    world.round();
    let mut reader = world.connect_with(0, 1 << 20, 1 << 20);
    world.round();
    assert_eq!(world.lanes[0].stats().clients, 1);
    reader.send(&command(&[b"GET", KEYS[1]]));
    reader.send(&command(&[b"GET", KEYS[0]]).repeat(1000));
    reader.push(usize::MAX);
    turn_until_idle(&mut world, 0);
    let size = world.lanes[0].stats().clients_size;
    assert!((256 * 1024..400 * 1024).contains(&size), "{size} bytes wait behind the first reply");
    for _ in 0..2000 {
        reader.pump();
        world.round();
    }
    assert_eq!(reader.received.len(), 5 + 1000 * 10_010);
}

#[test]
fn a_client_that_does_not_read_costs_no_turns() {
    // Long values wait behind the output, shorter ones in it.
    for (size, count) in [(10_000, 1000), (100_000, 400)] {
        let mut world = World::quiet(1);
        let mut reader = world.connect_with(0, 1 << 20, 1 << 12);
        reader.send(&command(&[b"SET", b"k", &vec![b'v'; size]]));
        while reader.received.len() < 5 {
            reader.pump();
            world.round();
        }
        reader.received.clear();
        reader.send(&command(&[b"GET", b"k"]).repeat(count));
        reader.push(usize::MAX);
        turn_until_idle(&mut world, 0);
        for _ in 0..20_000 {
            reader.pump();
            world.round();
        }
        assert_eq!(reader.received.len(), count * (size + format!("${size}\r\n\r\n").len()));
    }
}

/// The beginning of a command is kept until the rest comes, and counts for its client.
#[test]
fn what_has_come_of_a_command_counts() {
    let mut world = world(|_| ());
    let mut clients: Vec<Client> = (0..20).map(|_| world.connect(0)).collect();
    (0..5).for_each(|_| world.round());
    let before = stats(&world).clients_size;
    let begun = command(&[b"GET", &[b'k'; 25_000]]);
    for client in &mut clients {
        client.send(&begun[..20_000]);
        client.push(usize::MAX);
        world.round();
    }
    world.round();
    let size = stats(&world).clients_size - before;
    assert!((19 * 20_000..20 * 40_000).contains(&size), "{size} bytes for 400,000 that came");
    drop(clients);
    (0..5).for_each(|_| world.round());
    assert_eq!(stats(&world).clients_size, 0);
}

#[test]
fn a_client_that_another_lane_cannot_take_is_turned_away_and_counts_no_more() {
    let settings = Settings { client_count_max: 10, ..Settings::default() };
    let mut world = World::new(3, &settings, 1, Faults { refuse_taken: 1000, ..Faults::default() });
    // Every second one would be handed over.
    let mut clients: Vec<Client> = (0..30)
        .map(|_| {
            let client = world.connect(0);
            for _ in 0..4 {
                world.round();
            }
            client
        })
        .filter(|client| !client.end.at_end())
        .collect();
    assert_eq!(clients.len(), 1, "all but the first would have gone to a lane with fewer");
    world.set_faults(Faults::default());
    clients.extend((0..9).map(|_| world.connect(0)));
    for client in &mut clients {
        assert_eq!(world.exchange(client, b"PING\r\n", 7, 50), b"+PONG\r\n");
    }
}

/// A lane that takes no turn takes no connections either, once its ring is full: they stay, and are nobody's burden twice.
#[test]
fn a_connection_for_which_a_ring_has_no_place_stays() {
    let mut world = World::quiet(2);
    let mut clients: Vec<Client> = (0..400).map(|_| world.connect(0)).collect();
    for _ in 0..60 {
        world.turn(0);
    }
    let stats = world.lanes[0].stats();
    assert!(stats.handovers < 200 && stats.clients + stats.handovers == 400, "{stats:?}");
    for client in &mut clients {
        assert_eq!(world.exchange(client, b"PING\r\n", 7, 200), b"+PONG\r\n");
    }
    drop(clients);
    (0..50).for_each(|_| world.round());
    world.lanes.iter().for_each(lane::Lane::audit);
}

/// One that reads all it has asked for and asks again at once was never behind for long, whenever one looks.
#[test]
fn who_reads_and_asks_again_is_not_behind() {
    let mut world = world(|settings| {
        settings.output_soft_size = 20_000;
        settings.output_soft_s = 2;
    });
    let mut client = world.connect_with(0, 1 << 16, 1 << 12);
    ask(&mut world, &mut client, &[b"SET", b"k", &[b'v'; 30_000]], 5);
    for tenth in 0..50 {
        client.send(&command(&[b"GET", b"k"]));
        client.push(usize::MAX);
        world.round();
        world.pass(100_000_000);
        world.round();
        for _ in 0..20 {
            client.pull(usize::MAX);
            world.round();
        }
        assert_eq!(std::mem::take(&mut client.received).len(), 30_010, "after {tenth} tenths of a second");
    }
}

/// One that only listens is behind, catches up, and is behind again: its time begins anew.
#[test]
fn who_has_caught_up_has_its_whole_time_again() {
    let mut world = world(|settings| {
        settings.output_soft_size = 50_000;
        settings.output_soft_s = 5;
    });
    world.attend();
    let (mut monitor, mut other) = (world.connect_with(0, 4096, 4096), world.connect(0));
    assert_eq!(ask(&mut world, &mut monitor, &[b"MONITOR"], 5), "+OK\r\n");
    let long = vec![b'v'; 1000];
    for _ in 0..3 {
        // Four seconds behind.
        for _ in 0..4 {
            for _ in 0..40 {
                ask(&mut world, &mut other, &[b"ECHO", &long], 1009);
            }
            world.pass(1_000_000_000);
        }
        assert!(stats(&world).clients_size > 50_000, "it is behind");
        for _ in 0..400 {
            monitor.pull(usize::MAX);
            world.round();
        }
    }
    assert_eq!((stats(&world).clients_cut, stats(&world).clients), (0, 2));
}

#[test]
fn many_clients_behind_their_reading_are_all_looked_at_and_cost_few_turns() {
    let mut world = world(|settings| {
        settings.output_soft_size = 20_000;
        settings.output_soft_s = 3;
    });
    let mut writer = world.connect(0);
    ask(&mut world, &mut writer, &[b"SET", b"k", &[b'v'; 30_000]], 5);
    let mut readers: Vec<Client> = (0..300).map(|_| world.connect_with(0, 1 << 16, 1 << 12)).collect();
    for reader in &mut readers {
        reader.send(&command(&[b"GET", b"k"]));
        reader.push(usize::MAX);
    }
    // A second and a half: each is looked at again every tenth of a second, in three turns.
    for _ in 0..50 {
        world.round();
    }
    let before = stats(&world).turns;
    for _ in 0..1500 {
        world.turn_if_due(0);
        world.pass(1_000_000);
    }
    let turns = stats(&world).turns - before;
    assert!((40..60).contains(&turns), "{turns} turns");
    // Those that have read are not behind any more.
    for reader in &mut readers[..150] {
        while reader.received.len() < 30_000 {
            reader.pull(usize::MAX);
            world.turn_if_due(0);
        }
    }
    for _ in 0..5000 {
        world.turn_if_due(0);
        world.pass(1_000_000);
    }
    assert_eq!(stats(&world).clients_cut, 150);
    assert!(readers[..150].iter().all(|reader| !reader.end.at_end()));
}
