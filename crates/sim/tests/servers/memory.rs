//! Memory over lanes: one account for all, within its limit whoever uses it.

use lane::Settings;
use net::fault::Faults;
use sim::{Client, World};
use store::Policy;
use wire::route::{PartitionMap, Slot};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

pub(crate) fn world(lane_count: u16, change: impl FnOnce(&mut Settings)) -> World {
    let mut settings = Settings::default();
    change(&mut settings);
    World::new(lane_count, &settings, 7, Faults::default())
}

/// Bytes of data over all lanes.
pub(crate) fn held(world: &World) -> u64 {
    world.lanes.iter().map(|lane| lane.shard().held()).sum()
}

/// A hash tag whose keys are all on one lane.
pub(crate) fn tag_of(lane: u16, lane_count: u16) -> String {
    let map = PartitionMap::even(lane_count);
    let is_there = |tag: &String| map.owner(Slot::of(tag.as_bytes())).0 == lane;
    (0..).map(|number| format!("t{number}")).find(is_there).expect("every lane has tags")
}

/// What became of commands that were sent together.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) taken_count: usize,
    pub(crate) refused_count: usize,
}

/// Sets so many keys of a kilobyte, sixteen at a time. After each round all lanes are within `size_max`.
pub(crate) fn fill(
    world: &mut World,
    client: &mut Client,
    prefix: &str,
    count: usize,
    size_max: u64,
) -> Replies {
    let value = [b'v'; 1000];
    let mut replies = Replies::default();
    for first in (0..count).step_by(16) {
        for number in first..first + 16 {
            client.send(&command(&[b"SET", format!("{prefix}:{number:08}").as_bytes(), &value]));
        }
        let mut answered_count = 0;
        for _ in 0..100 {
            client.pump();
            world.round();
            assert!(held(world) <= size_max, "{} bytes are held of {size_max}", held(world));
            let got = std::mem::take(&mut client.received);
            let taken_count = got.windows(5).filter(|window| window == b"+OK\r\n").count();
            let refused_count = got.windows(4).filter(|window| window == b"-OOM").count();
            replies.taken_count += taken_count;
            replies.refused_count += refused_count;
            answered_count += taken_count + refused_count;
            if answered_count == 16 {
                break;
            }
        }
        assert_eq!(answered_count, 16, "each has its answer");
    }
    replies
}

#[test]
fn one_lane_may_use_what_the_others_leave() {
    for policy in [Policy::NoEviction, Policy::AllKeysLru] {
        let limit = 16 * MIB;
        let mut world = world(4, |settings| {
            settings.memory_size_max = limit;
            settings.policy = policy;
        });
        let mut client = world.connect(1);
        let tag = tag_of(2, 4);
        let replies = fill(&mut world, &mut client, &format!("{{{tag}}}"), 20_000, limit);
        assert!(held(&world) > limit / 10 * 9, "{policy:?}: {} of {limit} bytes are used", held(&world));
        let is_refused = replies.refused_count > 0;
        assert_eq!(is_refused, policy == Policy::NoEviction, "{policy:?}: {} refused", replies.refused_count);
        assert!(replies.taken_count > 13_000, "{policy:?}: {} taken", replies.taken_count);
    }
}

#[test]
fn a_lane_that_comes_late_gets_room_from_the_one_that_has_most() {
    let limit = 16 * MIB;
    let mut world = world(4, |settings| {
        settings.memory_size_max = limit;
        settings.policy = Policy::AllKeysLru;
    });
    let mut client = world.connect(0);
    let (first, second) = (tag_of(0, 4), tag_of(3, 4));
    fill(&mut world, &mut client, &format!("{{{first}}}"), 20_000, limit);
    assert!(world.lanes[0].shard().held() > 13 * MIB);
    let replies = fill(&mut world, &mut client, &format!("{{{second}}}"), 12_000, limit);
    assert_eq!(replies.refused_count, 0, "there is always something that may go");
    let helds: Vec<u64> = world.lanes.iter().map(|lane| lane.shard().held()).collect();
    assert!(helds[3] > 6 * MIB && helds[0] > 6 * MIB, "both want all, so each has half: {helds:?}");
    assert!(helds[0] + helds[3] > limit / 10 * 9, "{helds:?}");
}

#[test]
fn what_one_lane_has_freed_another_may_use() {
    let limit = 16 * MIB;
    let mut world = world(4, |settings| settings.memory_size_max = limit);
    let mut client = world.connect(0);
    let (first, second) = (tag_of(0, 4), tag_of(3, 4));
    fill(&mut world, &mut client, &format!("{{{first}}}"), 20_000, limit);
    let refused = fill(&mut world, &mut client, &format!("{{{second}}}"), 1600, limit);
    assert!(refused.refused_count > 1000, "all is taken, and nothing may go");
    world.exchange(&mut client, &command(&[b"FLUSHALL"]), 5, 300);
    for _ in 0..3000 {
        world.round();
    }
    assert!(held(&world) < MIB);
    let replies = fill(&mut world, &mut client, &format!("{{{second}}}"), 12_800, limit);
    assert_eq!(replies.taken_count, 12_800);
}

#[test]
fn maxclients_is_one_number_over_all_lanes() {
    let mut world = world(4, |settings| settings.client_count_max = 10);
    let mut clients: Vec<Client> = Vec::new();
    // Clients come and go on all lanes, and are handed to others: the count must not drift.
    for round in 0..50_usize {
        while clients.len() < 10 {
            clients.push(world.connect((round + clients.len()) % 4));
        }
        for _ in 0..4 {
            world.round();
        }
        for client in &mut clients {
            assert_eq!(world.exchange(client, &command(&[b"PING"]), 7, 50), b"+PONG\r\n", "round {round}");
        }
        let mut late = world.connect(round % 4);
        let got = world.exchange(&mut late, b"", 35, 50);
        assert_eq!(got, b"-ERR max number of clients reached\r\n", "round {round}");
        assert!(late.end.at_end());
        for _ in 0..=round % 7 {
            let client = clients.remove(round % clients.len());
            if round % 2 == 0 {
                client.end.cut();
            }
        }
        for _ in 0..4 {
            world.round();
        }
    }
    assert_eq!(world.lanes.iter().map(|lane| lane.stats().clients_rejected).sum::<u64>(), 50);
}

/// Bytes that clients of all lanes hold.
fn crowd(world: &World) -> u64 {
    world.lanes.iter().map(|lane| lane.stats().clients_size).sum()
}

/// A client with about `size` bytes queued by MULTI, unless that is too much and it is closed.
fn queueing(world: &mut World, lane: usize, size: usize) -> Client {
    let mut client = world.connect(lane);
    assert_eq!(world.exchange(&mut client, &command(&[b"MULTI"]), 5, 50), b"+OK\r\n");
    let value = vec![b'q'; size];
    let reply = world.exchange(&mut client, &command(&[b"SET", b"k", &value]), 9, 50);
    assert!(reply == b"+QUEUED\r\n" || client.end.at_end());
    client
}

fn rounds(world: &mut World, count: usize) {
    for _ in 0..count {
        world.round();
    }
}

/// A long value counts once, as its client's while it comes and as its key's then: beside so many keys it finds room, and as many
/// stay as fit.
#[test]
fn a_value_that_is_set_counts_once() {
    let limit = 16 * MIB;
    let check = |policy: Policy, key_count: usize, size: u64, left_min: u64| {
        let mut world = world(1, |settings| {
            settings.memory_size_max = limit;
            settings.policy = policy;
        });
        let mut client = world.connect_with(0, 1 << 20, 1 << 16);
        fill(&mut world, &mut client, "key", key_count, limit);
        let value = vec![b'v'; usize::try_from(size).expect("a few MiB")];
        let reply = world.exchange(&mut client, &command(&[b"SET", b"large", &value]), 5, 4000);
        let case = format!("{policy:?}, {size} bytes beside {key_count} keys");
        assert_eq!(String::from_utf8_lossy(&reply), "+OK\r\n", "{case}");
        rounds(&mut world, 200);
        let left = world.lanes[0].stats().keys;
        assert!(left > left_min, "{case}: {left} are left");
        assert!(held(&world) <= limit, "{case}: {} bytes are held", held(&world));
    };
    check(Policy::NoEviction, 2000, 13_500_000, 2000);
    check(Policy::AllKeysLru, 2000, 13_100_000, 2000);
    check(Policy::AllKeysLru, 12_000, 6 * MIB, 7000);
    check(Policy::AllKeysLru, 12_000, 10 * MIB, 3500);
}

#[test]
fn what_clients_hold_counts_against_maxmemory() {
    let limit = 8 * MIB;
    let mut world = world(2, |settings| {
        settings.memory_size_max = limit;
        settings.policy = Policy::AllKeysLru;
    });
    let mut client = world.connect(0);
    fill(&mut world, &mut client, "key", 12_000, limit);
    let full = held(&world);
    assert!(full > limit / 10 * 9, "{full}");
    let queueing: Vec<Client> = (0..20).map(|lane| queueing(&mut world, lane % 2, 100_000)).collect();
    rounds(&mut world, 50);
    assert!(crowd(&world) > 2_000_000, "{}", crowd(&world));
    assert!(held(&world) + crowd(&world) <= limit, "keys have made room for clients");
    drop(queueing);
    rounds(&mut world, 50);
    assert!(crowd(&world) < 10_000, "nothing is left of clients that have gone: {}", crowd(&world));
    fill(&mut world, &mut client, "more", 4000, limit);
    assert!(held(&world) > limit / 10 * 9);
}

#[test]
fn replies_that_nobody_reads_count_too() {
    let mut world = world(1, |_| {});
    let mut client = world.connect(0);
    world.exchange(&mut client, &command(&[b"SET", b"k", &[b'v'; 30_000]]), 5, 50);
    let mut readers: Vec<Client> = (0..50).map(|_| world.connect_with(0, 1 << 16, 1 << 12)).collect();
    for reader in &mut readers {
        reader.send(&command(&[b"GET", b"k"]));
        reader.push(usize::MAX);
    }
    rounds(&mut world, 20);
    let size = crowd(&world);
    assert!((50 * 25_000..50 * 35_000).contains(&size), "{size} bytes for fifty replies of 30,000");
    for _ in 0..20 {
        readers.iter_mut().for_each(Client::pump);
        world.round();
    }
    assert!(crowd(&world) < 100_000, "{} bytes after they were read", crowd(&world));
}

#[test]
fn clients_that_hold_most_are_closed_beyond_maxmemory_clients() {
    for lane_count in [1, 3] {
        let mut world = world(lane_count, |settings| settings.clients_size_max = MIB);
        let mut spared = queueing(&mut world, 0, 300_000);
        world.exchange(&mut spared, &command(&[b"DISCARD"]), 5, 50);
        world.exchange(&mut spared, &command(&[b"CLIENT", b"NO-EVICT", b"ON"]), 5, 50);
        world.exchange(&mut spared, &command(&[b"MULTI"]), 5, 50);
        world.exchange(&mut spared, &command(&[b"SET", b"k", &[b's'; 300_000]]), 9, 50);
        let lanes = usize::from(lane_count);
        let small: Vec<Client> = (0..10).map(|at| queueing(&mut world, at % lanes, 20_000)).collect();
        assert_eq!(world.lanes.iter().map(|lane| lane.stats().clients_evicted).sum::<u64>(), 0);
        let mut large = Vec::new();
        for at in 0..6 {
            large.push(queueing(&mut world, at % lanes, 200_000));
            rounds(&mut world, 100);
            assert!(crowd(&world) <= MIB + 16 * 1024, "over {lane_count} lanes {} are held", crowd(&world));
        }
        let closed_count = large.iter().filter(|client| client.end.at_end()).count();
        assert!((3..=4).contains(&closed_count), "{closed_count} of six are too many");
        let evicted: u64 = world.lanes.iter().map(|lane| lane.stats().clients_evicted).sum();
        assert_eq!(evicted, closed_count as u64);
        assert!(small.iter().all(|client| !client.end.at_end()), "those that hold little stay");
        assert!(!spared.end.at_end(), "NO-EVICT");
    }
}

/// What has come of commands that are not whole lies with the net, and counts for their clients.
#[test]
fn clients_that_hold_most_are_those_whose_commands_are_cut_too() {
    let mut world = world(1, |settings| settings.clients_size_max = 40_000);
    let idle: Vec<Client> = (0..10).map(|_| world.connect(0)).collect();
    let mut cut: Vec<Client> = (0..5).map(|_| world.connect(0)).collect();
    for client in &mut cut {
        client.send(&command(&[b"GET", &[b'k'; 10_000]])[..9000]);
        client.pump();
        rounds(&mut world, 10);
    }
    assert!(crowd(&world) <= 40_000 && cut.iter().any(|client| client.end.at_end()));
    assert!(idle.iter().all(|client| !client.end.at_end()), "those that hold little stay");
}

#[test]
fn a_lane_that_sleeps_is_woken_to_close_the_clients_that_hold_most() {
    let mut world = world(2, |settings| settings.clients_size_max = MIB);
    let sleepers = [queueing(&mut world, 1, 400_000), queueing(&mut world, 1, 400_000)];
    assert!(world.lanes.iter().all(|lane| lane.stats().clients == 1), "one of them was handed over");
    let mut third = world.connect(0);
    for _ in 0..4 {
        world.round();
    }
    third.send(&command(&[b"MULTI"]));
    third.send(&command(&[b"SET", b"k", &[b'q'; 390_000]]));
    for _ in 0..2000 {
        third.push(usize::MAX);
        world.turn_if_due(0);
        world.turn_if_due(1);
        world.pass(50_000);
    }
    let evicted: u64 = world.lanes.iter().map(|lane| lane.stats().clients_evicted).sum();
    assert!(evicted > 0 && crowd(&world) <= MIB);
    assert!(world.is_asleep(), "and then there is nothing to do");
    drop(sleepers);
}

/// What became of an MSET or MSETNX, and how many of its keys exist now.
fn pairs(
    world: &mut World,
    client: &mut Client,
    name: &[u8],
    keys: &[String],
    value: &[u8],
) -> (Vec<u8>, usize) {
    let mut words: Vec<&[u8]> = vec![name];
    for key in keys {
        words.extend([key.as_bytes(), value]);
    }
    let reply = world.exchange(client, &command(&words), 4, 4000);
    let mut words: Vec<&[u8]> = vec![b"EXISTS"];
    words.extend(keys.iter().map(|key| key.as_bytes()));
    let count = world.exchange(client, &command(&words), 4, 4000);
    let count = String::from_utf8(count).expect("a number");
    (reply, count.trim_matches([':', '\r', '\n']).parse().expect("a number"))
}

/// Keys of one lane of four, or of all.
fn names(prefix: &str, count: usize, is_of_one: bool) -> Vec<String> {
    let tag = tag_of(2, 4);
    let name =
        |number| if is_of_one { format!("{{{tag}}}{prefix}{number}") } else { format!("{prefix}{number}") };
    (0..count).map(name).collect()
}

/// Redis looks once, before the first pair: there is room, and all are set, or nothing is.
#[test]
fn several_strings_are_set_together_or_refused_together() {
    for policy in [Policy::NoEviction, Policy::AllKeysLru] {
        for is_of_one in [true, false] {
            for (count, size) in [(6, 1_000_000), (120, 20_000), (2000, 1000)] {
                let limit = 16 * MIB;
                let mut world = world(4, |settings| {
                    settings.memory_size_max = limit;
                    settings.policy = policy;
                });
                let mut client = world.connect(0);
                let value = vec![b'v'; size];
                let mut refused = 0;
                for round in 0..12 {
                    let case = format!("{policy:?}, {count} × {size}, one lane: {is_of_one}, round {round}");
                    let name: &[u8] = if round % 2 == 0 { b"MSET" } else { b"MSETNX" };
                    let keys = names(&format!("{round}:"), count, is_of_one);
                    let (reply, there) = pairs(&mut world, &mut client, name, &keys, &value);
                    let is_taken = reply == b"+OK\r\n" || reply == b":1\r\n";
                    assert!(
                        is_taken || reply.starts_with(b"-OOM"),
                        "{case}: {}",
                        String::from_utf8_lossy(&reply)
                    );
                    refused += usize::from(!is_taken);
                    if !is_taken {
                        assert_eq!(there, 0, "{case}: nothing is set");
                    } else if policy == Policy::NoEviction {
                        assert_eq!(there, count, "{case}: all are set");
                    }
                    if round == 0 {
                        assert!(is_taken, "{case}: there is plenty of room");
                    }
                    // What the request held is freed in steps.
                    rounds(&mut world, 50);
                    assert!(held(&world) <= limit, "{case}: {} bytes are held", held(&world));
                }
                if policy == Policy::NoEviction {
                    assert!(refused > 0 && held(&world) > limit / 2, "{refused} of {count} × {size} refused");
                }
            }
        }
    }
}

#[test]
fn a_large_value_finds_its_room_among_many_small_ones() {
    let limit = 16 * MIB;
    let mut world = world(2, |settings| {
        settings.memory_size_max = limit;
        settings.policy = Policy::AllKeysLru;
    });
    let mut client = world.connect(0);
    fill(&mut world, &mut client, "key", 25_000, limit);
    for number in 0..20 {
        let key = format!("large:{number}");
        let value = vec![b'v'; 1_500_000];
        let reply = world.exchange(&mut client, &command(&[b"SET", key.as_bytes(), &value]), 5, 4000);
        assert_eq!(String::from_utf8_lossy(&reply), "+OK\r\n", "{number}");
        rounds(&mut world, 50);
        assert!(held(&world) <= limit, "{} bytes are held", held(&world));
    }
}

/// All lanes are evenly full, and what comes is larger than the part of one: the others give what it lacks.
#[test]
fn what_is_larger_than_a_lanes_part_finds_room_on_the_others() {
    let limit = 16 * MIB;
    for policy in [Policy::AllKeysLru, Policy::NoEviction] {
        let mut world = world(4, |settings| {
            settings.memory_size_max = limit;
            settings.policy = policy;
        });
        let mut client = world.connect(0);
        fill(&mut world, &mut client, "key", 25_000, limit);
        let key = format!("{{{}}}:large", tag_of(2, 4));
        // The second time it replaces itself. What sets several keys is measured however much room there seems to be.
        for size in [7 << 20, 7 << 20, 10 << 20] {
            let before: u64 = world.lanes.iter().map(|lane| lane.stats().keys).sum();
            let reply =
                world.exchange(&mut client, &command(&[b"MSET", key.as_bytes(), &vec![b'v'; size]]), 4, 6000);
            let want: &[u8] = if policy == Policy::AllKeysLru { b"+OK" } else { b"-OOM" };
            assert!(reply.starts_with(want), "{policy:?}, {size}: {}", String::from_utf8_lossy(&reply));
            rounds(&mut world, 3000);
            assert!(held(&world) <= limit, "{} bytes are held", held(&world));
            let after: u64 = world.lanes.iter().map(|lane| lane.stats().keys).sum();
            assert!(policy == Policy::AllKeysLru || before == after, "{before} keys, then {after}");
        }
        world.exchange(&mut client, &command(&[b"FLUSHALL"]), 5, 3000);
        rounds(&mut world, 3000);
        let reply =
            world.exchange(&mut client, &command(&[b"MSET", key.as_bytes(), &[b'v'; 14 << 20]]), 4, 6000);
        assert!(reply.starts_with(b"+OK"), "everything is given back");
    }
}

/// One lane holds all; another one, which had no key yet, is sent more than its floor.
#[test]
fn a_first_large_value_waits_for_its_room() {
    let limit = 16 * MIB;
    let mut world = world(4, |settings| {
        settings.memory_size_max = limit;
        settings.policy = Policy::AllKeysLru;
    });
    let mut client = world.connect(0);
    fill(&mut world, &mut client, &format!("{{{}}}", tag_of(1, 4)), 20_000, limit);
    // What sets several keys is measured however much room there seems to be.
    let key = format!("{{{}}}:large", tag_of(2, 4));
    let reply =
        world.exchange(&mut client, &command(&[b"MSET", key.as_bytes(), &[b'v'; 1_000_000]]), 4, 6000);
    assert_eq!(String::from_utf8_lossy(&reply), "+OK\r\n");
}

/// No key of any lane may go: one write waits for room, and those after it are refused at once.
#[test]
fn nobody_waits_for_room_that_does_not_come() {
    let limit = 16 * MIB;
    let mut world = world(4, |settings| {
        settings.memory_size_max = limit;
        settings.policy = Policy::VolatileLru;
    });
    let mut client = world.connect(0);
    let key = format!("{{{}}}:late", tag_of(2, 4));
    fill(&mut world, &mut client, &format!("{{{}}}", tag_of(1, 4)), 20_000, limit);
    let mut waits = Vec::new();
    for _ in 0..4 {
        client.send(&command(&[b"MSET", key.as_bytes(), &[b'v'; 1_000_000]]));
        let mut rounds = 0;
        while client.received.is_empty() {
            client.pump();
            world.round();
            rounds += 1;
            assert!(rounds < 10_000, "it has an answer");
        }
        let got = String::from_utf8(std::mem::take(&mut client.received)).expect("text");
        assert!(got.starts_with("-OOM"), "{got} after {waits:?}");
        waits.push(rounds);
    }
    assert!(waits[0] < 2200 && waits[1..].iter().all(|&rounds| rounds < 100), "{waits:?} rounds of 50 µs");
    let replies = fill(&mut world, &mut client, &format!("{{{}}}", tag_of(2, 4)), 400, limit);
    assert!(replies.refused_count > 100, "it is full");
    // Lanes that lack room and cannot have it do not wake one another for ever.
    let turns = |world: &World| world.lanes.iter().map(|lane| lane.stats().turns).sum::<u64>();
    let before = turns(&world);
    for _ in 0..20_000 {
        (0..4).for_each(|lane| world.turn_if_due(lane));
        world.pass(50_000);
    }
    assert!(
        turns(&world) - before < 1000 && world.is_asleep(),
        "{} turns in a second",
        turns(&world) - before
    );
}

#[test]
fn a_lane_with_nothing_to_spare_does_not_hide_one_that_has() {
    let limit = 16 * MIB;
    let mut world = world(4, |settings| {
        settings.memory_size_max = limit;
        settings.policy = Policy::VolatileLru;
    });
    let mut client = world.connect(0);
    let [immortal, mortal, late] = [0, 1, 2].map(|lane| tag_of(lane, 4));
    fill(&mut world, &mut client, &format!("{{{immortal}}}"), 8000, limit);
    let value = [b'v'; 1000];
    for number in 0..6000 {
        let key = format!("{{{mortal}}}:{number}");
        world.exchange(&mut client, &command(&[b"SET", key.as_bytes(), &value, b"EX", b"1000"]), 5, 100);
    }
    // Only the second lane has keys that may go, and the first has more.
    let [first, second] = [0, 1].map(|lane: usize| world.lanes[lane].shard().held());
    assert!(first > 7 * MIB && second > 5 * MIB, "{first} {second}");
    let replies = fill(&mut world, &mut client, &format!("{{{late}}}"), 3000, limit);
    assert!(replies.taken_count > 2000, "{} taken, {} refused", replies.taken_count, replies.refused_count);
}

#[test]
fn clients_that_may_not_be_closed_do_not_hide_those_of_other_lanes() {
    let mut world = world(2, |settings| settings.clients_size_max = MIB);
    let mut spared = world.connect(0);
    world.exchange(&mut spared, &command(&[b"CLIENT", b"NO-EVICT", b"ON"]), 5, 50);
    world.exchange(&mut spared, &command(&[b"MULTI"]), 5, 50);
    world.exchange(&mut spared, &command(&[b"SET", b"k", &[b's'; 700_000]]), 9, 50);
    let other = queueing(&mut world, 1, 200_000);
    assert!(!other.end.at_end());
    let large = queueing(&mut world, 1, 400_000);
    rounds(&mut world, 50);
    assert!(crowd(&world) <= MIB, "{} bytes are held", crowd(&world));
    assert!(large.end.at_end() && !other.end.at_end() && !spared.end.at_end());
    for _ in 0..100 {
        world.turn_if_due(0);
        world.turn_if_due(1);
        world.pass(50_000);
    }
    assert!(world.is_asleep(), "and then there is nothing to do");
}

/// Clients of all lanes write long values of one lane, which begins with a key that ends soon.
fn overwrite(lane_count: u16, sizes: [usize; 4]) {
    let mut world = world(lane_count, |_| {});
    let tag = tag_of(lane_count - 1, lane_count);
    let [mortal, a, b] = ["mortal", "a", "b"].map(|name| format!("{{{tag}}}{name}").into_bytes());
    let mut client = world.connect(0);
    world.exchange(&mut client, &command(&[b"SET", &mortal, b"1", b"PX", b"10"]), 5, 50);
    let mut clients: Vec<Client> = (0..8 * usize::from(lane_count))
        .map(|number| world.connect(number % usize::from(lane_count)))
        .collect();
    for round in 0..400 {
        for (number, client) in clients.iter_mut().enumerate() {
            let value = vec![b'v'; sizes[(round + number) % 4]];
            let words: &[&[u8]] =
                if round % 3 == 0 { &[b"MSET", &a, &value, &b, &value] } else { &[b"SET", &a, &value] };
            client.send(&command(words));
            client.pump();
        }
        world.round();
        let size = held(&world);
        assert!(
            size < 16 * MIB,
            "{size} bytes are held of two keys after {round} rounds over {lane_count} lanes"
        );
    }
    let count: u64 = world.lanes.iter().map(|lane| lane.shard().count(0)).sum();
    assert_eq!(count, 2, "what ends meanwhile ends");
}

#[test]
fn long_values_written_over_and_over_are_freed_as_fast_as_they_come() {
    overwrite(1, [33_000, 40_000, 100_000, 200_000]);
    overwrite(4, [33_000; 4]);
}

/// While a transaction holds all but one in fifty keys of a full lane, writes to it find those few. What needs more than
/// they are is refused, and does not wait for the others.
#[test]
fn a_lane_whose_keys_are_nearly_all_locked_evicts_the_others() {
    let limit = 4 * MIB;
    let mut world = world(2, |settings| {
        settings.memory_size_max = limit;
        settings.policy = Policy::AllKeysRandom;
    });
    let mut client = world.connect(0);
    let (near, far) = (tag_of(0, 2), tag_of(1, 2));
    let prefix = format!("{{{near}}}");
    fill(&mut world, &mut client, &prefix, 6400, limit);
    // It has its locks on lane 0, and waits for lane 1, which takes no turn.
    let mut words = vec![b"MGET".to_vec(), format!("{{{far}}}").into_bytes()];
    let locked = (0..6400).filter(|number| number % 50 > 0);
    words.extend(locked.map(|number| format!("{prefix}:{number:08}").into_bytes()));
    client.send(&command(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    // The second connection of two goes to the other lane.
    let (_idle, mut other) = (world.connect(0), world.connect(0));
    for _ in 0..100 {
        client.pump();
        world.turn(0);
    }
    assert!(world.lanes[0].stats().transactions > 0 && client.received.is_empty(), "it is under way");
    // The other lane keeps its floor of 64 KiB: the first value takes the place of some forty keys.
    let free_size = usize::try_from(limit - held(&world)).expect("there is some") - 64 * 1024;
    for (size, want) in [(free_size + 40_000, "+OK"), (free_size + 400_000, "-OOM")] {
        other.send(&command(&[b"SET", format!("{prefix}:{size}").as_bytes(), &vec![b'n'; size]]));
        for _ in 0..100 {
            other.pump();
            world.turn(0);
        }
        other.pump();
        let got = String::from_utf8(std::mem::take(&mut other.received)).expect("text");
        assert!(got.starts_with(want), "{size} bytes: {got:?}");
        assert!(held(&world) <= limit);
    }
    for _ in 0..200 {
        world.round();
        client.pump();
    }
    assert!(client.received.starts_with(b"*"), "it has its reply");
}

/// A lane that takes no turn gives nothing: who waits for its room is refused after a tenth of a second.
#[test]
fn nobody_waits_for_room_for_ever() {
    let mut world = world(2, |settings| {
        settings.memory_size_max = 16 * MIB;
        settings.policy = Policy::AllKeysLru;
    });
    let mut client = world.connect(0);
    fill(&mut world, &mut client, &format!("{{{}}}", tag_of(1, 2)), 20_000, 16 * MIB);
    client.send(&command(&[b"SET", tag_of(0, 2).as_bytes(), &vec![b'v'; 4 << 20]]));
    let mut waited_ms = 0;
    while client.received.is_empty() {
        client.pump();
        world.turn(0);
        world.pass(1_000_000);
        waited_ms += u32::from(client.is_sent());
        assert!(waited_ms < 150, "it is refused");
    }
    assert!(waited_ms > 90, "{waited_ms} ms");
    assert!(std::mem::take(&mut client.received).starts_with(b"-OOM"));
    assert_eq!(world.exchange(&mut client, &command(&[b"PING"]), 7, 9), b"+PONG\r\n");
}

/// Lanes whose keys may not go say so, and nobody waits for them.
#[test]
fn where_no_lane_has_room_to_give_nobody_waits() {
    let mut world = world(4, |settings| {
        settings.memory_size_max = 16 * MIB;
        settings.policy = Policy::VolatileLru;
    });
    let mut client = world.connect(0);
    for lane in 0..4 {
        fill(&mut world, &mut client, &format!("{{{}}}", tag_of(lane, 4)), 8000, 16 * MIB);
    }
    let began_ns = world.now.mono_ns;
    let set = command(&[b"SET", tag_of(0, 4).as_bytes(), &vec![b'v'; 4 << 20]]);
    let got = world.exchange(&mut client, &set, 5, 2000);
    assert!(got.starts_with(b"-OOM"));
    let waited_ms = (world.now.mono_ns - began_ns) / 1_000_000;
    assert!(waited_ms < 50, "{waited_ms} ms");
}
