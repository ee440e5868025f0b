//! Slots as Redis computes them, and the map of lanes.

use wire::route::{Function, Holders, LaneId, PartitionMap, SLOTS, Slot, crc32, hash_tag, vbucket};

/// The definition: bit by bit, the polynomial reflected, all ones before and inverted behind.
fn crc32_by_bits(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| {
                if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 }
            },
        )
    })
}

#[test]
fn crc32_is_its_definition_at_every_length() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    let mut state = 1u64;
    for size in 0..200 {
        for _ in 0..20 {
            let bytes: Vec<u8> = (0..size)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    state.to_be_bytes()[0]
                })
                .collect();
            assert_eq!(crc32(&bytes), crc32_by_bits(&bytes), "{bytes:?}");
        }
    }
}

#[test]
fn hash_tags_are_those_of_the_cluster_specification() {
    for (key, want) in [
        ("user1000", "user1000"),
        ("{user1000}.following", "user1000"),
        ("foo{}{bar}", "foo{}{bar}"),
        ("foo{{bar}}zap", "{bar"),
        ("foo{bar}{zap}", "bar"),
        ("foo{bar", "foo{bar"),
        ("foo}bar{x}", "x"),
        ("{}", "{}"),
        ("{", "{"),
        ("", ""),
    ] {
        assert_eq!(hash_tag(key.as_bytes()), want.as_bytes(), "{key}");
    }
}

#[test]
fn a_hash_tag_is_found_wherever_it_stands() {
    for size in 3..100 {
        for at in 0..size - 2 {
            let mut key = vec![b'k'; size];
            key[at] = b'{';
            key[at + 2] = b'}';
            assert_eq!(hash_tag(&key), b"k", "{size} bytes, at {at}");
        }
        let key = vec![b'z'; size];
        assert_eq!(hash_tag(&key), key);
    }
}

#[test]
fn slots_are_those_of_redis() {
    // Recorded from CLUSTER KEYSLOT of Redis 7.0.15.
    for line in include_str!("vectors/keyslot.txt").lines().filter(|line| !line.starts_with('#')) {
        let (slot, key) = line.split_once(' ').expect("slot and key");
        assert_eq!(Slot::of(key.as_bytes()).number().to_string(), slot, "{key}");
    }
}

fn check(lanes: u16, want: &[(u16, u16)]) {
    let map = PartitionMap::even(lanes);
    let ranges: Vec<_> = (0..lanes)
        .flat_map(|lane| map.ranges(LaneId(lane)))
        .map(|(first, last)| (first.number(), last.number()))
        .collect();
    assert_eq!(ranges, want, "{lanes} lanes");
}

#[test]
fn an_even_map_has_the_ranges_of_redis_cli() {
    // `redis-cli --cluster create` with as many masters.
    check(1, &[(0, 16383)]);
    check(3, &[(0, 5460), (5461, 10922), (10923, 16383)]);
    check(4, &[(0, 4095), (4096, 8191), (8192, 12287), (12288, 16383)]);
    check(6, &[(0, 2730), (2731, 5460), (5461, 8191), (8192, 10922), (10923, 13652), (13653, 16383)]);
}

#[test]
fn every_slot_has_one_owner_and_lanes_differ_by_one_slot() {
    for lanes in [1, 2, 5, 7, 94, 1000, SLOTS] {
        let map = PartitionMap::even(lanes);
        let sets: Vec<_> = (0..lanes.min(7)).map(|lane| map.slots(LaneId(lane))).collect();
        let mut counts = vec![0u32; usize::from(lanes)];
        for slot in (0..SLOTS).map(|number| Slot::new(number).expect("below SLOTS")) {
            let holders = map.holders(slot);
            assert_eq!(holders.owner, map.owner(slot));
            assert!(holders.copies().is_empty());
            counts[usize::from(holders.owner.0)] += 1;
            for (lane, set) in (0..).map(LaneId).zip(&sets) {
                assert_eq!(set.contains(slot), holders.owner == lane, "{slot:?} and {lane:?}");
            }
        }
        let least = counts.iter().min().expect("a lane");
        assert!(counts.iter().all(|count| count - least <= 1), "{lanes} lanes: {counts:?}");
        let sizes = map.runs().iter().map(|(first, last, _)| u32::from(last.number() - first.number()) + 1);
        assert_eq!(sizes.sum::<u32>(), u32::from(SLOTS));
    }
}

#[test]
fn a_map_may_be_in_pieces_and_has_copies() {
    let holders = |slot: u16| match slot {
        0..100 | 200..300 => Holders::new(LaneId(1), &[LaneId(2), LaneId(0)]),
        _ => Holders::new(LaneId(0), &[]),
    };
    let map = PartitionMap::new((0..SLOTS).map(holders).collect(), 3, 7);
    let numbers = |lane| map.ranges(LaneId(lane)).map(|(a, b)| (a.number(), b.number())).collect::<Vec<_>>();
    assert_eq!(numbers(1), [(0, 99), (200, 299)]);
    assert_eq!(numbers(0), [(100, 199), (300, 16383)]);
    assert_eq!(numbers(2), []);
    for lane in (0..3).map(LaneId) {
        let slots = map.slots(lane);
        for slot in (0..SLOTS).map(|number| Slot::new(number).expect("below SLOTS")) {
            assert_eq!(slots.contains(slot), map.owner(slot) == lane, "{slot:?} and {lane:?}");
        }
    }
    let slot = Slot::new(250).expect("below SLOTS");
    assert_eq!(map.holders(slot).copies(), [LaneId(2), LaneId(0)]);
    assert_eq!((map.owner(slot), map.epoch, map.lanes()), (LaneId(1), 7, 3));
}

#[test]
#[should_panic(expected = "between 1 and 16384 lanes share the slots")]
fn a_map_without_lanes_is_a_broken_promise() {
    PartitionMap::even(0);
}

#[test]
fn vbuckets_are_those_of_couchbase() {
    let check = |key: &str, want: u16| {
        assert_eq!(vbucket(key.as_bytes()), want, "{key}");
        assert_eq!(Function::Couchbase.slot(key.as_bytes()).number(), want * 16);
    };
    // As `cbc hash` of libcouchbase 3.3 and mcsoda print them.
    assert_eq!(crc32(b"foo"), 0x8c73_6521);
    check("foo", 115);
    check("k1", 526);
    check("cfcd208495d565ef", 839);
    assert_eq!(Function::Redis.slot(b"foo"), Slot::of(b"foo"));
}
