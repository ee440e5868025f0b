//! OBJECT: how a value is kept.

use store::{Recency, Value};
use wire::command::Id;
use wire::reply;

use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;

const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
                            when switching between policies at runtime LRU and LFU data will take some time to adjust.";
const NO_IDLE_TIME: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
                            switching between policies at runtime LRU and LFU data will take some time to adjust.";
/// Redis keeps these numbers once for all keys, and says so.
const SHARED_NUMBERS: std::ops::Range<i64> = 0..10_000;
/// What it says: `INT_MAX`.
const SHARED_COUNT: i64 = 2_147_483_647;

/// OBJECT ENCODING, FREQ, IDLETIME and REFCOUNT. Looking does not count as a use.
pub(crate) fn object(space: &mut Keyspace, call: &Call<'_>, sink: &mut Sink<'_>) {
    let key = space.key(call, 2);
    space.inspect(&key);
    let Some(entry) = space.get(&key) else { return reply::null(sink, call.proto) };
    let counts_uses = matches!(space.shard.recency(), Recency::Lfu { .. });
    match call.command.id {
        Id::ObjectEncoding => reply::bulk(sink, entry.encoding().as_bytes()),
        Id::ObjectFreq if counts_uses => reply::integer(sink, i64::from(space.shard.frequency(&entry))),
        Id::ObjectFreq => reply::error(sink, NO_FREQUENCY),
        Id::ObjectIdletime if counts_uses => reply::error(sink, NO_IDLE_TIME),
        Id::ObjectIdletime => reply::integer(sink, i64::from(space.shard.idle_s(&entry))),
        _ => {
            let is_shared = matches!(entry.value(), Value::Int(number) if SHARED_NUMBERS.contains(&number));
            reply::integer(sink, if is_shared { SHARED_COUNT } else { 1 });
        }
    }
}
