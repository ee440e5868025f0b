//! A limit that comes when lanes hold more than it allows: what is too much goes, and little else.

use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};
use store::Policy;

use crate::memory::{MIB, command, fill, held, tag_of};

/// Lanes without a limit that hold so many keys of a kilobyte each, with a time to live on lanes from `mortal_from` on.
fn filled(key_counts: &[usize], mortal_from: usize) -> (World, Client) {
    let lane_count = u16::try_from(key_counts.len()).expect("a few lanes");
    let mut world = World::quiet(lane_count);
    world.attend();
    let mut client = world.connect(0);
    for (lane, count) in (0..).zip(key_counts) {
        let tag = tag_of(lane, lane_count);
        if usize::from(lane) < mortal_from {
            fill(&mut world, &mut client, &format!("{{{tag}}}"), *count, u64::MAX);
            continue;
        }
        for number in 0..*count {
            let key = format!("{{{tag}}}:{number:08}");
            client.send(&command(&[b"SET", key.as_bytes(), &[b'v'; 1000], b"EX", b"100000"]));
            if number % 16 == 0 {
                client.pump();
                world.round();
            }
        }
    }
    world.exchange(&mut client, &command(&[b"PING"]), usize::MAX, 100);
    (world, client)
}

fn set_limit(world: &mut World, client: &mut Client, policy: &str, limit: u64) {
    let limit = limit.to_string();
    let set =
        command(&[b"CONFIG", b"SET", b"maxmemory", limit.as_bytes(), b"maxmemory-policy", policy.as_bytes()]);
    assert_eq!(world.exchange(client, &set, 5, 100), b"+OK\r\n");
    for _ in 0..3000 {
        world.round();
    }
}

#[test]
fn what_is_too_much_goes_and_little_else() {
    for key_counts in [&[20_000, 20_000][..], &[30_000, 2000], &[16_000, 12_000, 8000, 4000]] {
        for limit in [8 * MIB, 24 * MIB] {
            let (mut world, mut client) = filled(key_counts, usize::MAX);
            let before: Vec<u64> = world.lanes.iter().map(|lane| lane.shard().held()).collect();
            set_limit(&mut world, &mut client, "allkeys-lru", limit);
            let after: Vec<u64> = world.lanes.iter().map(|lane| lane.shard().held()).collect();
            let total = held(&world);
            assert!(total <= limit && limit / 100 * 93 <= total, "{before:?} within {limit}: {after:?}");
            // And it stays so when it is said again, and as clients write.
            set_limit(&mut world, &mut client, "allkeys-lru", limit);
            assert!(limit / 100 * 93 <= held(&world));
            let tag = tag_of(1, u16::try_from(key_counts.len()).unwrap());
            let replies = fill(&mut world, &mut client, &format!("{{{tag}}}:late"), 2000, limit);
            assert_eq!(replies.refused_count, 0);
            assert!(limit / 100 * 90 <= held(&world));
        }
    }
}

/// A lane that has nothing that may go is made up for by those that have, and can be written to.
#[test]
fn lanes_whose_keys_may_go_make_up_for_the_others() {
    for lane_count in [2, 4] {
        let mut key_counts = vec![14_000, 9000];
        key_counts.resize(lane_count, 3000);
        let (mut world, mut client) = filled(&key_counts, 1);
        let first = world.lanes[0].shard().held();
        let limit = first + 6 * MIB;
        set_limit(&mut world, &mut client, "volatile-lru", limit);
        assert!(held(&world) <= limit && limit / 100 * 90 <= held(&world), "{} of {limit}", held(&world));
        assert_eq!(world.lanes[0].shard().held(), first, "nothing may go there");
        let tag = tag_of(0, u16::try_from(lane_count).unwrap());
        let replies = fill(&mut world, &mut client, &format!("{{{tag}}}:late"), 2000, limit);
        assert_eq!(replies.refused_count, 0);
    }
}

/// Where nothing may go all stays, and there is room again as soon as enough is deleted.
#[test]
fn a_limit_below_what_is_held_takes_nothing_where_nothing_may_go() {
    let (mut world, mut client) = filled(&[9000, 9000], usize::MAX);
    let before = held(&world);
    set_limit(&mut world, &mut client, "noeviction", 12 * MIB);
    assert_eq!(held(&world), before);
    let tags = [0, 1].map(|lane| tag_of(lane, 2));
    for tag in &tags {
        let replies = fill(&mut world, &mut client, &format!("{{{tag}}}:late"), 1600, u64::MAX);
        assert!(replies.taken_count < 300, "{} taken", replies.taken_count);
    }
    for number in 0..9000 {
        let key = format!("{{{}}}:{number:08}", tags[0]);
        world.exchange(&mut client, &command(&[b"DEL", key.as_bytes()]), 4, 100);
    }
    for tag in &tags {
        let replies = fill(&mut world, &mut client, &format!("{{{tag}}}:late"), 800, 12 * MIB);
        assert_eq!(replies.refused_count, 0);
    }
}

/// Whoever is told that a value was set has it, however large it is and whatever else there was.
#[test]
fn a_large_value_that_was_set_is_there() {
    for lane_count in [1, 2, 4] {
        let (mut world, mut client) = filled(&vec![24_000 / lane_count; lane_count], usize::MAX);
        let limit = 20 * MIB;
        set_limit(&mut world, &mut client, "allkeys-lru", limit);
        for percent in [20, 50, 90, 99] {
            let value = vec![b'x'; usize::try_from(limit).unwrap() / 100 * percent];
            for is_there in [false, true] {
                let got = world.exchange(&mut client, &command(&[b"SET", b"big", &value]), 5, 10_000);
                if got == b"+OK\r\n" {
                    let got = world.exchange(&mut client, &command(&[b"STRLEN", b"big"]), 4, 1000);
                    let size = format!(":{}\r\n", value.len());
                    assert_eq!(String::from_utf8_lossy(&got), size, "{percent} % on {lane_count} lanes");
                } else {
                    assert!(got.starts_with(b"-OOM"));
                    assert!(is_there || percent > 90, "{percent} % on {lane_count} lanes was refused");
                }
            }
            world.exchange(&mut client, &command(&[b"DEL", b"big"]), 4, 1000);
        }
    }
}

/// What a command replaces is locked by it and stays until it is over. Other lanes give what is missing.
#[test]
fn a_large_value_may_take_the_place_of_another() {
    for (lane_count, lane) in [(1, 0), (2, 0), (2, 1), (4, 0), (4, 1), (4, 3)] {
        let (mut world, mut client) = filled(&vec![24_000 / lane_count; lane_count], usize::MAX);
        let limit = 20 * MIB;
        set_limit(&mut world, &mut client, "allkeys-lru", limit);
        let key = tag_of(lane, u16::try_from(lane_count).expect("a few lanes"));
        for percent in [20, 55, 20, 70, 20, 60] {
            let value = vec![b'x'; usize::try_from(limit).unwrap() / 100 * percent];
            let got = world.exchange(&mut client, &command(&[b"SET", key.as_bytes(), &value]), 5, 10_000);
            let at = format!("{percent} % on lane {lane} of {lane_count}");
            assert_eq!(String::from_utf8_lossy(&got), "+OK\r\n", "{at}");
            for _ in 0..200 {
                world.round();
            }
            let got = world.exchange(&mut client, &command(&[b"STRLEN", key.as_bytes()]), 4, 1000);
            assert_eq!(String::from_utf8_lossy(&got), format!(":{}\r\n", value.len()), "{at}");
        }
    }
}

/// What a script held while the lane had turns beside it is collected when it is over, and nobody lacks it then.
#[test]
fn what_a_script_held_is_room_again() {
    let script = b"local t = {} for i = 1, 20 do t[i] = string.rep(i % 10, 1000000) .. i end \
                   for i = 1, 100000 do if i % 1000 == 0 then redis.call('get', KEYS[1]) end end return #t";
    let mut world = World::quiet(1);
    world.attend();
    let mut client = world.connect(0);
    set_limit(&mut world, &mut client, "noeviction", 48 * MIB);
    for _ in 0..2 {
        let got = world.exchange(&mut client, &command(&[b"EVAL", script, b"1", b"a"]), 5, 100_000);
        assert_eq!(String::from_utf8_lossy(&got), ":20\r\n");
    }
    for _ in 0..3000 {
        world.round();
    }
    let value = vec![b'x'; 40 << 20];
    let got = world.exchange(&mut client, &command(&[b"SET", b"big", &value]), 5, 10_000);
    assert_eq!(String::from_utf8_lossy(&got), "+OK\r\n");
}

/// What a script's call would have added is nothing that the commands behind the script are measured by.
#[test]
fn what_a_script_was_refused_is_not_missed_by_others() {
    let script = b"return redis.pcall('set', KEYS[1], string.rep('z', 4000000))";
    for lane_count in [1, 3] {
        for lane in 0..lane_count {
            let key = tag_of(lane, lane_count);
            let other = format!("{{{key}}}other");
            let mut world = World::quiet(lane_count);
            world.attend();
            let mut client = world.connect(0);
            fill(&mut world, &mut client, &format!("{{{key}}}"), 10_000, u64::MAX);
            let limit = held(&world) + 3 * MIB;
            set_limit(&mut world, &mut client, "noeviction", limit);
            let set = command(&[b"SET", other.as_bytes(), b"v"]);
            assert_eq!(world.exchange(&mut client, &set, 5, 100), b"+OK\r\n");
            let multi: Vec<u8> = [
                &[&b"MULTI"[..]][..],
                &[b"EVAL", script, b"1", key.as_bytes()],
                &[b"GET", other.as_bytes()],
                &[b"DEL", other.as_bytes()],
                &[b"EXEC"],
            ]
            .into_iter()
            .flat_map(command)
            .collect();
            let got = world.exchange(&mut client, &multi, usize::MAX, 1000);
            let got = String::from_utf8_lossy(&got);
            assert!(got.contains("*3\r\n-OOM ") && got.ends_with("\r\n$1\r\nv\r\n:1\r\n"), "{got}");
        }
    }
}

/// Bytes that went for a limit of a mebibyte less than lanes hold, which have so many keys of a kilobyte each.
fn gone(key_counts: &[usize]) -> u64 {
    let (mut world, mut client) = filled(key_counts, usize::MAX);
    let before = held(&world);
    set_limit(&mut world, &mut client, "allkeys-lru", before - MIB);
    for _ in 0..3000 {
        world.round();
    }
    before - held(&world)
}

/// Several lanes that could each do all of it see what the others have done.
#[test]
fn lanes_above_their_parts_share_what_has_to_go() {
    for key_counts in [&[12_500, 12_500, 0, 0][..], &[12_000, 12_000, 12_000, 12_000, 0, 0, 0, 0]] {
        let gone = gone(key_counts);
        assert!((MIB..2 * MIB).contains(&gone), "{gone} bytes of {MIB}");
    }
}

/// Who sees too late that all hold too much wakes those who have looked before.
#[test]
fn lanes_that_sleep_are_told_of_a_limit_that_others_exceed() {
    for key_counts in [[1000, 14_000, 9000], [9000, 1000, 14_000], [1000, 9000, 9000]] {
        let (mut world, mut client) = filled(&key_counts, usize::MAX);
        let limit = (held(&world) - 6 * MIB).to_string();
        let words: [&[u8]; 6] =
            [b"CONFIG", b"SET", b"maxmemory", limit.as_bytes(), b"maxmemory-policy", b"allkeys-lru"];
        client.send(&command(&words));
        for _ in 0..40_000 {
            client.pump();
            (0..world.node_count()).for_each(|node| world.turn_if_due(node));
            world.pass(50_000);
        }
        client.pump();
        assert_eq!(client.received, b"+OK\r\n");
        assert!(world.is_asleep());
        assert!(held(&world) <= limit.parse().unwrap(), "{} of {limit}", held(&world));
    }
}

/// Others who write all the time don't take the room that was made for a large value.
#[test]
fn a_large_value_finds_room_beside_many_small_ones() {
    for (writer_count, pipeline, size) in
        [(200, 1, 20_000), (200, 1, 100_000), (16, 8, 1 << 20), (16, 64, 1 << 20)]
    {
        let settings =
            Settings { memory_size_max: 16 * MIB, policy: Policy::AllKeysLru, ..Settings::default() };
        let mut world = World::new(1, &settings, 7, Faults::default());
        let mut writers: Vec<Client> = (0..writer_count).map(|_| world.connect(0)).collect();
        let (mut other, mut reader) = (world.connect(0), world.connect(0));
        let (mut number, mut rounds) = (0, 0);
        while other.received.is_empty() || reader.received.is_empty() {
            for client in &mut writers {
                client.pump();
                let answered = std::mem::take(&mut client.received).len() / 5;
                for _ in 0..if number < writer_count * pipeline { pipeline } else { answered } {
                    number += 1;
                    client.send(&command(&[b"SET", format!("k{number}").as_bytes(), &[b'v'; 100]]));
                }
                client.pump();
            }
            world.round();
            other.pump();
            reader.pump();
            let is_full = world.lanes[0].shard().memory().evicted > 5000;
            rounds += usize::from(is_full);
            if rounds == 1 {
                other.send(&command(&[b"SET", b"large", &vec![b'x'; size]]));
            }
            if rounds == 20 {
                reader.send(&command(&[b"GET", b"large"]));
            }
            assert!(rounds < 500, "{size} bytes beside {writer_count} × {pipeline}");
        }
        assert_eq!(other.received, b"+OK\r\n");
    }
}

/// What a lane evicts for another keeps its own clients waiting for a part of it, and ends when the other has given up.
#[test]
fn a_lender_serves_its_own_clients_meanwhile() {
    let settings = Settings { memory_size_max: 40 * MIB, policy: Policy::AllKeysLru, ..Settings::default() };
    let mut world = World::new(2, &settings, 7, Faults::default());
    let (tag, mut client) = (tag_of(1, 2), world.connect(1));
    let set = |number: u64| command(&[b"SET", format!("{{{tag}}}{number}").as_bytes(), b"0123456789"]);
    let mut number = 0;
    while held(&world) < 38 * MIB {
        (0..512).for_each(|_| {
            number += 1;
            client.send(&set(number));
        });
        for _ in 0..6 {
            client.pump();
            world.round();
        }
        client.received.clear();
    }
    world.exchange(&mut client, &[], usize::MAX, 200);
    let mut client = world.connect(1);
    let evicted = |world: &World| world.lanes[1].shard().memory().evicted;
    let mut other = world.connect(0);
    let large = command(&[b"SET", format!("{{{}}}large", tag_of(0, 2)).as_bytes(), &vec![b'x'; 16 << 20]]);
    other.send(&large);
    let (mut answered_at, mut evicted_then) = (0, 0);
    for round in 0..12_000 {
        other.pump();
        if other.is_sent() && round % 100 == 0 {
            number += 1;
            let began = world.now.mono_ns;
            assert_eq!(world.exchange(&mut client, &set(number), 5, 1000), b"+OK\r\n");
            let waited_ms = (world.now.mono_ns - began) / 1_000_000;
            assert!(waited_ms < 20, "{waited_ms} ms in round {round}");
        }
        world.round();
        if answered_at == 0 && !other.received.is_empty() {
            (answered_at, evicted_then) = (round, evicted(&world));
        }
    }
    assert!(answered_at > 0);
    let vain = evicted(&world) - evicted_then;
    assert!(vain < 30_000, "{vain} keys went for nobody");
}
