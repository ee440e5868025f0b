//! What a connection may rely on between lanes: `--order lanes` lets commands of one key overlap, `--order strict` does not.

use lane::Settings;
use net::fault::Faults;
use sim::World;
use wire::route::{PartitionMap, Slot};

/// A key of this lane.
fn key_of(lane: u16) -> Vec<u8> {
    let map = PartitionMap::even(3);
    let mut keys = (0..).map(|number: u32| format!("key:{number}").into_bytes());
    keys.find(|key| map.owner(Slot::of(key)).0 == lane).expect("every lane has keys")
}

/// A client of lane 0 writes on lane 1, which takes no turn, and behind that on `second`: whether that is done meanwhile.
/// Afterwards everything is done, and answered in order.
fn overtakes(is_strict: bool, second: u16) -> bool {
    let settings = Settings { is_strict, ..Settings::default() };
    let mut world = World::new(3, &settings, 1, Faults::default());
    let mut client = world.connect(0);
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, &[b"SET", &key_of(1), b"1"]);
    wire::client::command(&mut bytes, &[b"APPEND", &key_of(second), b"22"]);
    client.send(&bytes);
    client.pump();
    for _ in 0..5 {
        world.turn(0);
        world.turn(2);
        world.pass(1_000_000);
    }
    let is_done = world.lanes[usize::from(second)].shard().count(0) == 1;
    assert_eq!(world.lanes[1].shard().count(0), 0, "it has taken no turn");
    let want: &[u8] = if second == 1 { b"+OK\r\n:3\r\n" } else { b"+OK\r\n:2\r\n" };
    // Its own lane's key may be that of the first command: then it appends to that.
    assert_eq!(world.exchange(&mut client, b"", want.len(), 20), want);
    is_done
}

#[test]
fn commands_of_other_lanes_overlap_unless_the_order_is_strict() {
    assert!(overtakes(false, 2) && overtakes(false, 0));
    assert!(!overtakes(true, 2), "a change of lane waits for the answers of the lane before");
    assert!(!overtakes(true, 0), "to the client's own lane too");
}

#[test]
fn commands_of_one_lane_need_not_wait_for_one_another() {
    // Both are on their way before the lane takes its first turn: it serves them in one.
    let settings = Settings { is_strict: true, ..Settings::default() };
    let mut world = World::new(3, &settings, 1, Faults::default());
    let mut client = world.connect(0);
    let mut bytes = Vec::new();
    for _ in 0..5 {
        wire::client::command(&mut bytes, &[b"INCR", &key_of(1)]);
    }
    client.send(&bytes);
    client.pump();
    world.turn(0);
    world.turn(0);
    world.turn(1);
    assert_eq!(world.lanes[1].stats().asks_served, 5);
    assert_eq!(world.exchange(&mut client, b"", 20, 20), b":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n");
}
