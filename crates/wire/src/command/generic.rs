//! Keys of any type.

use super::Combine::{Any, Concat, Coordinator, Sum};
use super::Command;
use super::Scope::{AllLanes, Connection, Key, Keys, Partition};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::{at, range};

pub(super) const GENERIC: &[Command] = entries! { Generic:
    Copy "copy" -3 since "6.2.0" [Write Denyoom] [Keyspace]
        [at(1, "RO access"), at(2, "OW update")] Keys(Coordinator), Constant, []
        "O(1) for strings, whose bytes are shared" "Copies a value to another key"
    Del "del" -2 since "1.0.0" [Write] [Keyspace]
        [range(1, -1, 1, "RM delete")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys; their memory is freed later, a little at a time" "Deletes keys"
    Exists "exists" -2 since "1.0.0" [Readonly Fast] [Keyspace]
        [range(1, -1, 1, "RO")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys" "Counts how many of the keys exist"
    Expire "expire" -3 since "1.0.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, in seconds from now"
    Expireat "expireat" -3 since "1.2.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, as a Unix time in seconds"
    Expiretime "expiretime" 2 since "7.0.0" [Readonly Fast] [Keyspace] [at(1, "RO access")] Key, Constant, []
        "O(1)" "When a key expires, as a Unix time in seconds"
    Keys "keys" 2 since "1.0.0" [Readonly] [Keyspace Dangerous]
        [] AllLanes(Concat), Sliced, ["request_policy:all_shards", "nondeterministic_output_order"]
        "O(N) for N keys in the database" "The keys that match a pattern"
    Move "move" 3 since "1.0.0" [Write Fast] [Keyspace] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Moves a key to another database"
    Object "object" -2 since "2.2.3" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about how a value is stored"
    ObjectEncoding "object|encoding" 3 since "2.2.3" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "The form in which a value is stored"
    ObjectFreq "object|freq" 3 since "4.0.0" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "How often a key is used, on a logarithmic scale"
    ObjectHelp "object|help" 2 since "6.2.0" [Loading Stale] [Keyspace] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    ObjectIdletime "object|idletime" 3 since "2.2.3" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "Seconds since a key was used"
    ObjectRefcount "object|refcount" 3 since "2.2.3" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "How many times a value is referred to"
    Persist "persist" 2 since "2.2.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Lets a key no longer expire"
    Pexpire "pexpire" -3 since "2.6.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, in milliseconds from now"
    Pexpireat "pexpireat" -3 since "2.6.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, as a Unix time in milliseconds"
    Pexpiretime "pexpiretime" 2 since "7.0.0" [Readonly Fast] [Keyspace]
        [at(1, "RO access")] Key, Constant, []
        "O(1)" "When a key expires, as a Unix time in milliseconds"
    Pttl "pttl" 2 since "2.6.0" [Readonly Fast] [Keyspace]
        [at(1, "RO access")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "Milliseconds until a key expires"
    Randomkey "randomkey" 1 since "1.0.0" [Readonly] [Keyspace]
        [] AllLanes(Any), Sliced, ["request_policy:all_shards", "nondeterministic_output"]
        "O(1)" "A key of the database, drawn at random"
    Rename "rename" 3 since "1.0.0" [Write] [Keyspace]
        [at(1, "RW access delete"), at(2, "OW update")] Keys(Coordinator), Constant, []
        "O(1)" "Gives a value another key, replacing what is there"
    Renamenx "renamenx" 3 since "1.0.0" [Write Fast] [Keyspace]
        [at(1, "RW access delete"), at(2, "OW insert")] Keys(Coordinator), Constant, []
        "O(1)" "Gives a value another key, but only if that does not exist"
    Scan "scan" -2 since "2.8.0" [Readonly] [Keyspace]
        [] Partition, Sliced, ["nondeterministic_output", "request_policy:special"]
        "O(1) for each call, O(N) for all N keys" "Some keys of the database, and where to go on"
    Touch "touch" -2 since "3.2.1" [Readonly Fast] [Keyspace]
        [range(1, -1, 1, "RO")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys" "Counts how many of the keys exist and marks them as used"
    Ttl "ttl" 2 since "1.0.0" [Readonly Fast] [Keyspace]
        [at(1, "RO access")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "Seconds until a key expires"
    Type "type" 2 since "1.0.0" [Readonly Fast] [Keyspace] [at(1, "RO")] Key, Constant, []
        "O(1)" "The type of a value"
    Unlink "unlink" -2 since "4.0.0" [Write Fast] [Keyspace]
        [range(1, -1, 1, "RM delete")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys; their memory is freed later, a little at a time" "Deletes keys"
};
