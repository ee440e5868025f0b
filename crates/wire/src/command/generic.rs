//! Keys of any type.

use super::Combine::{Any, Concat, Coordinator, Sum};
use super::Command;
use super::Scope::{AllLanes, Connection, Control, Key, Keys, Partition};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::{at, behind, range};

pub(super) const GENERIC: &[Command] = entries! { Generic:
    Copy "copy" -3 since "6.2.0" [Write Denyoom] [Keyspace]
        [at(1, "RO access"), at(2, "OW update")] Keys(Coordinator), Constant, []
        "O(1) for strings, whose bytes are shared" "Copies a value to another key"
        "source destination [DB destination-db] [REPLACE]"
    Del "del" -2 since "1.0.0" [Write] [Keyspace]
        [range(1, -1, 1, "RM delete")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys; their memory is freed later, a little at a time" "Deletes keys"
        "key ..."
    Dump "dump" 2 since "2.6.0" [Readonly] [Keyspace]
        [at(1, "RO access")] Key, Sliced, ["nondeterministic_output"]
        "O(N) for N bytes of the value" "The value of a key in the form in which Redis writes it to files"
        "key"
    Exists "exists" -2 since "1.0.0" [Readonly Fast] [Keyspace]
        [range(1, -1, 1, "RO")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys" "Counts how many of the keys exist"
        "key ..."
        [since "3.0.3" "Several keys"]
    Expire "expire" -3 since "1.0.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, in seconds from now"
        "key seconds [condition: NX | XX | GT | LT]"
        [since "7.0.0" "`NX`, `XX`, `GT` and `LT`"]
    Expireat "expireat" -3 since "1.2.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, as a Unix time in seconds"
        "key unix-time-seconds [condition: NX | XX | GT | LT]"
        [since "7.0.0" "`NX`, `XX`, `GT` and `LT`"]
    Expiretime "expiretime" 2 since "7.0.0" [Readonly Fast] [Keyspace] [at(1, "RO access")] Key, Constant, []
        "O(1)" "When a key expires, as a Unix time in seconds"
        "key"
    Keys "keys" 2 since "1.0.0" [Readonly] [Keyspace Dangerous]
        [] AllLanes(Concat), Sliced, ["request_policy:all_shards", "nondeterministic_output_order"]
        "O(N) for N keys in the database" "The keys that match a pattern"
        "pattern"
    Migrate "migrate" -6 since "2.6.0" [Write MovableKeys] [Keyspace Dangerous]
        [at(3, "RW access delete"), behind("KEYS", -2, "RW access delete incomplete")]
        Control, Constant, ["nondeterministic_output"]
        "O(N) for N bytes of the values, which go over the network" "Moves keys to another server"
        "host port:integer <key-selector: key | \"\"> destination-db timeout [COPY] [REPLACE] \
         [authentication: AUTH auth=password | AUTH2 <auth2: username password>] [KEYS keys=key ...]"
        [since "3.0.0" "`COPY` and `REPLACE`", since "3.0.6" "`KEYS`", since "4.0.7" "`AUTH`", since "6.0.0" "`AUTH2`"]
    Move "move" 3 since "1.0.0" [Write Fast] [Keyspace] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Moves a key to another database"
        "key db"
    Object "object" -2 since "2.2.3" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about how a value is stored"
    ObjectEncoding "object|encoding" 3 since "2.2.3" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "The form in which a value is stored"
        "key"
    ObjectFreq "object|freq" 3 since "4.0.0" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "How often a key is used, on a logarithmic scale"
        "key"
    ObjectHelp "object|help" 2 since "6.2.0" [Loading Stale] [Keyspace] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    ObjectIdletime "object|idletime" 3 since "2.2.3" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "Seconds since a key was used"
        "key"
    ObjectRefcount "object|refcount" 3 since "2.2.3" [Readonly] [Keyspace]
        [at(2, "RO")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "How many times a value is referred to"
        "key"
    Persist "persist" 2 since "2.2.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Lets a key no longer expire"
        "key"
    Pexpire "pexpire" -3 since "2.6.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, in milliseconds from now"
        "key milliseconds [condition: NX | XX | GT | LT]"
        [since "7.0.0" "`NX`, `XX`, `GT` and `LT`"]
    Pexpireat "pexpireat" -3 since "2.6.0" [Write Fast] [Keyspace] [at(1, "RW update")] Key, Constant, []
        "O(1)" "Sets when a key expires, as a Unix time in milliseconds"
        "key unix-time-milliseconds [condition: NX | XX | GT | LT]"
        [since "7.0.0" "`NX`, `XX`, `GT` and `LT`"]
    Pexpiretime "pexpiretime" 2 since "7.0.0" [Readonly Fast] [Keyspace]
        [at(1, "RO access")] Key, Constant, []
        "O(1)" "When a key expires, as a Unix time in milliseconds"
        "key"
    Pttl "pttl" 2 since "2.6.0" [Readonly Fast] [Keyspace]
        [at(1, "RO access")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "Milliseconds until a key expires"
        "key"
        [since "2.8.0" "-2 for a key that does not exist"]
    Randomkey "randomkey" 1 since "1.0.0" [Readonly] [Keyspace]
        [] AllLanes(Any), Sliced, ["request_policy:all_shards", "nondeterministic_output"]
        "O(1)" "A key of the database, drawn at random"
    Rename "rename" 3 since "1.0.0" [Write] [Keyspace]
        [at(1, "RW access delete"), at(2, "OW update")] Keys(Coordinator), Constant, []
        "O(1)" "Gives a value another key, replacing what is there"
        "key newkey"
    Renamenx "renamenx" 3 since "1.0.0" [Write Fast] [Keyspace]
        [at(1, "RW access delete"), at(2, "OW insert")] Keys(Coordinator), Constant, []
        "O(1)" "Gives a value another key, but only if that does not exist"
        "key newkey"
        [since "3.2.0" "A key may be given its own name"]
    Restore "restore" -4 since "2.6.0" [Write Denyoom] [Keyspace Dangerous] [at(1, "OW update")] Key, Sliced, []
        "O(N) for N bytes of the value" "Gives a key the value that DUMP has answered"
        "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]"
        [since "3.0.0" "`REPLACE`", since "5.0.0" "`ABSTTL`, `IDLETIME` and `FREQ`"]
    Scan "scan" -2 since "2.8.0" [Readonly] [Keyspace]
        [] Partition, Sliced, ["nondeterministic_output", "request_policy:special"]
        "O(1) for each call, O(N) for all N keys" "Some keys of the database, and where to go on"
        "cursor [MATCH pattern] [COUNT count] [TYPE type]"
        [since "6.0.0" "`TYPE`"]
    Touch "touch" -2 since "3.2.1" [Readonly Fast] [Keyspace]
        [range(1, -1, 1, "RO")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys" "Counts how many of the keys exist and marks them as used"
        "key ..."
    Ttl "ttl" 2 since "1.0.0" [Readonly Fast] [Keyspace]
        [at(1, "RO access")] Key, Constant, ["nondeterministic_output"]
        "O(1)" "Seconds until a key expires"
        "key"
        [since "2.8.0" "-2 for a key that does not exist"]
    Type "type" 2 since "1.0.0" [Readonly Fast] [Keyspace] [at(1, "RO")] Key, Constant, []
        "O(1)" "The type of a value"
        "key"
    Unlink "unlink" -2 since "4.0.0" [Write Fast] [Keyspace]
        [range(1, -1, 1, "RM delete")] Keys(Sum), Sliced, ["request_policy:multi_shard", "response_policy:agg_sum"]
        "O(N) for N keys; their memory is freed later, a little at a time" "Deletes keys"
        "key ..."
    Wait "wait" 3 since "3.0.0" [Noscript] [Connection]
        [] Control, Constant, ["request_policy:all_shards", "response_policy:agg_min"]
        "O(1)" "Answers when so many replicas have what this connection wrote, or when the time is over"
        "numreplicas:integer timeout"
};
