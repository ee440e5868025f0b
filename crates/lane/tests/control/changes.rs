//! INFO's `rdb_changes_since_last_save`: what each command adds to it. The numbers are those of a redis-server 7.0.15.

use super::world::World;

const COUNTED: &[(&str, u64)] = &[
    ("SET a 1", 1),
    ("SET a 2", 1),
    ("SET a 3 NX", 0),
    ("SET b 3 XX", 0),
    ("SETNX a 1", 0),
    ("SETNX b 1", 1),
    ("MSET c 1 d 2 e 3", 3),
    ("MSETNX c 1 z 1", 0),
    ("MSETNX y 1 z 1", 2),
    ("GETSET a 5", 1),
    ("GETDEL y", 1),
    ("GETDEL y", 0),
    ("GETEX a", 0),
    ("GETEX a EX 100", 1),
    ("GETEX a PERSIST", 1),
    ("GETEX a PERSIST", 0),
    ("APPEND a x", 1),
    ("APPEND a ", 1),
    ("APPEND new ", 1),
    ("SETRANGE a 0 ", 0),
    ("SETRANGE a 0 q", 1),
    ("INCR n", 1),
    ("INCRBY n 0", 1),
    ("INCRBYFLOAT n 1.5", 1),
    ("DEL a b nope", 2),
    ("DEL nope", 0),
    ("UNLINK c d", 2),
    ("EXPIRE e 100", 1),
    ("EXPIRE nope 100", 0),
    ("EXPIRE e -1", 1),
    ("SET e 1", 1),
    ("PERSIST e", 0),
    ("PEXPIRE e 100000", 1),
    ("PERSIST e", 1),
    ("RENAME e f", 1),
    ("RENAMENX f g", 1),
    ("RENAMENX g n", 0),
    ("COPY g h", 1),
    ("COPY g h", 0),
    ("COPY g h REPLACE", 1),
    ("MOVE g 1", 1),
    ("MOVE g 1", 0),
    ("SETBIT bits 0 0", 1),
    ("SETBIT bits 0 0", 0),
    ("SETBIT bits 90 0", 1),
    ("BITFIELD bf SET i5 0 5 SET i5 10 0 GET u8 0", 2),
    ("BITFIELD bf SET i5 0 5 INCRBY i5 0 1", 1),
    ("BITFIELD bf SET i5 0 6", 0),
    ("BITOP NOT dest bits", 1),
    ("BITOP AND dest nope", 1),
    ("BITOP AND dest nope", 0),
    ("SWAPDB 0 1", 1),
    ("FLUSHDB", 1),
    ("FLUSHALL", 6),
    ("SET a 1 PX 5", 1),
    // It has gone by itself meanwhile, and that is no change.
    ("DEL a", 0),
    ("CONFIG RESETSTAT", 0),
];

#[test]
fn changes_are_counted_as_redis_counts_them() {
    for lane_count in [1, 3] {
        let mut world = World::new(lane_count);
        let client = world.connect();
        let mut before = 0;
        for (command, want) in COUNTED {
            world.ask(&client, command);
            let info = world.ask(&client, "INFO persistence");
            let count = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
            let count: u64 = count.and_then(|count| count.parse().ok()).expect("a number");
            assert_eq!(count - before, *want, "{command} over {lane_count} lanes");
            before = count;
        }
    }
}
