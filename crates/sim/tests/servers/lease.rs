//! Lanes that lack room ask others for some, and go on with everything else meanwhile.

use crate::check::Talk;
use lane::{Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::World;

const MIB: usize = 1 << 20;

/// Its clients hold most of what there is. A turn has one time, and no other lane's answer comes in it, so that waiting for one is no work
/// of the turn in which a command begins.
#[test]
fn a_command_that_waits_for_other_lanes_room_ends_its_turn() {
    let doors = vec![Door::SHARED, Door { port: Port::Lane, dialect: Dialect::Redis }];
    let policy = store::Policy::AllKeysLru;
    let settings = Settings { memory_size_max: 16 * MIB as u64, policy, doors, ..Settings::default() };
    let mut talk = Talk::with(World::new(2, &settings, 1, Faults::default()));
    for number in 0..20_000 {
        let name = format!("key:{number}");
        assert_eq!(talk.call(&[b"SET", name.as_bytes(), &[b'x'; 1000]]), b"+OK\r\n");
    }
    talk.say("MULTI");
    for _ in 0..56 {
        assert_eq!(talk.call(&[b"ECHO", &vec![b'q'; MIB / 4]]), b"+QUEUED\r\n");
    }
    let client = talk.world.connect_at(0, 1);
    let mut other = Talk { client, world: talk.world };
    // Of keys that are this lane's.
    for line in ["SET b v", "SET {b}c v EX 100", "SETEX b 100 v"] {
        other.say("MULTI");
        assert_eq!(other.say(line), "+QUEUED\r\n");
        assert_eq!(other.say("EXEC"), "*1\r\n+OK\r\n", "{line}: the other lane has room to give");
    }
}

/// Its lane is nearly empty, and what there is is others': it waits for them, and is not the first to go when it has come.
#[test]
fn a_large_value_waits_for_other_lanes_room_and_stays() {
    for lane_count in [1, 2, 4] {
        let doors = vec![Door::SHARED, Door { port: Port::Lane, dialect: Dialect::Redis }];
        let policy = store::Policy::AllKeysLru;
        let settings = Settings { memory_size_max: 24 * MIB as u64, policy, doors, ..Settings::default() };
        let mut talk = Talk::with(World::new(lane_count, &settings, 1, Faults::default()));
        for number in 0..15_000 {
            let name = format!("{{b}}{number}");
            assert_eq!(talk.call(&[b"SET", name.as_bytes(), &[b'x'; 1000]]), b"+OK\r\n");
        }
        for key in ["a", "c", "d", "{b}"] {
            let size = 5 * MIB;
            assert_eq!(talk.call(&[b"SET", key.as_bytes(), &vec![b'y'; size]]), b"+OK\r\n");
            for _ in 0..50 {
                talk.world.round();
            }
            assert_eq!(
                talk.say(&format!("STRLEN {key}")),
                format!(":{size}\r\n"),
                "{key} over {lane_count} lanes"
            );
        }
        let left = talk.say("DBSIZE");
        let left: usize = left.trim_start_matches(':').trim_end().parse().unwrap();
        assert!(left > 1000, "{left}: not all of the others have gone");
    }
}
