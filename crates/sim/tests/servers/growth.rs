//! From nothing to 300,000 keys, as fast as clients can send: no turn does more because there are more keys, and nobody who
//! asks meanwhile waits longer. Work is counted in what can be seen of it: commands, nodes that the table got, memory that
//! came into use. (What one command moves at most is asserted in crates/store/tests/shard/memory.rs.)

use sim::{Client, World};

const KEYS_COUNT: usize = 300_000;
const CLIENTS_COUNT: usize = 50;
/// SETs that a client sends at once: four times its share of a turn, and over all clients twelve turns.
const BATCH_COUNT: usize = 256;
const UNANSWERED_MAX: usize = CLIENTS_COUNT * BATCH_COUNT;
/// Commands in a turn, as the lane bounds them.
const COMMANDS_MAX: u64 = 1024;
/// Bytes of a node of the table. A bucket that splits adds one and moves its twelve entries; where a level is added, one more.
const NODE_SIZE: u64 = 64;
/// Bytes of an entry of this test: header, key and value, rounded up to its size class.
const ENTRY_SIZE: u64 = 40;
/// Nodes that a turn adds at most: later keys split a bucket, each time for several of them.
const NODES_MAX: u64 = COMMANDS_MAX / 2;
/// Memory that comes into use in a turn at most: spans of 64 KiB for what a turn stores, and one that is touched ahead.
const RESIDENT_GROWTH_MAX: u64 = 4 * 64 * 1024;
/// First keys need roots, for all 16,384 partitions in the end.
const ROOTS_SIZE: u64 = 16_384 * NODE_SIZE;
/// Keys after which they are nearly all there: each has come with fifteen neighbours'.
const ROOTS_COUNT: usize = 5_000;
/// Rounds within which a GET is answered: sixteen clients have their share of SETs in a turn, and all come round.
const GET_ROUNDS_MAX: usize = 4;

#[test]
fn no_turn_does_more_because_there_are_more_keys() {
    let mut world = World::quiet(1);
    let mut writers: Vec<Client> = (0..CLIENTS_COUNT).map(|_| world.connect(0)).collect();
    let mut reader = world.connect(0);
    while world.lanes[0].stats().clients <= CLIENTS_COUNT as u64 {
        world.round();
    }
    let (mut asked, mut received_size, mut answered, mut waited) = (0, 0, 0, 0);
    let mut before = world.lanes[0].stats().commands().all;
    let mut memory = world.lanes[0].shard().memory();
    let mut reads = 0;
    while answered < KEYS_COUNT {
        for writer in &mut writers {
            writer.pump();
            received_size += std::mem::take(&mut writer.received).len();
            answered = received_size / b"+OK\r\n".len();
            if asked < KEYS_COUNT && asked - answered < UNANSWERED_MAX {
                writer.send(&sets(asked));
                asked += BATCH_COUNT;
                writer.pump();
            }
        }
        if waited == 0 {
            reader.send(b"GET key:none\r\n");
        }
        reader.pump();
        world.round();
        reader.pump();
        waited += 1;
        assert!(waited <= GET_ROUNDS_MAX, "a GET waits {waited} rounds at {answered} keys");
        if !reader.received.is_empty() {
            assert_eq!(std::mem::take(&mut reader.received), b"$-1\r\n");
            (waited, reads) = (0, reads + 1);
        }

        let commands = world.lanes[0].stats().commands().all;
        let grown = world.lanes[0].shard().memory();
        let served = commands - before;
        assert!(served <= COMMANDS_MAX, "{served} commands in a turn at {answered} keys");
        let nodes = (grown.entries - memory.entries - (grown.keys - memory.keys) * ENTRY_SIZE) / NODE_SIZE;
        assert!(nodes <= NODES_MAX, "the table got {nodes} nodes in a turn at {answered} keys");
        let resident = grown.resident.saturating_sub(memory.resident);
        let roots_size = if answered < ROOTS_COUNT { ROOTS_SIZE } else { 0 };
        assert!(
            resident <= RESIDENT_GROWTH_MAX + roots_size,
            "{resident} bytes came into use in a turn at {answered} keys"
        );
        (before, memory) = (commands, grown);
    }
    assert_eq!(world.lanes[0].stats().keys, u64::try_from(KEYS_COUNT).expect("a count"));
    assert!(reads >= KEYS_COUNT / 1024 / GET_ROUNDS_MAX, "{reads} GETs were answered meanwhile");
}

/// SETs of the next keys, each of 16 bytes with a value of 16.
fn sets(first: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in first..(first + BATCH_COUNT).min(KEYS_COUNT) {
        let key = format!("key:{number:012}");
        wire::client::command(&mut bytes, &[b"SET", key.as_bytes(), b"sixteen bytes it"]);
    }
    bytes
}
