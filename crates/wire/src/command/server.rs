//! The server as a whole.

use super::Combine::{AllOk, Sum};
use super::Command;
use super::Scope::{AllLanes, Connection, Control, Key};
use super::Work::{Constant, Sliced, Unbounded};
use super::entry::entries;
use super::keys::at;

pub(super) const SERVER: &[Command] = entries! { Server:
    Acl "acl" -2 since "6.0.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about users and what they may do"
    AclCat "acl|cat" -2 since "6.0.0" [Noscript Loading Stale] []
        [] Connection, Unbounded("the table has a fixed size"), []
        "O(N) for N commands" "The categories of commands, or the commands of one"
        "[category]"
    AclDeluser "acl|deluser" -3 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Sliced, []
        "O(N) for N connections" "Deletes users, and closes their connections"
        "username ..."
    AclDryrun "acl|dryrun" -4 since "7.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N keys and patterns" "Says whether a user may call a command, without calling it"
        "username command [arg ...]"
    AclGenpass "acl|genpass" -2 since "6.0.0" [Noscript Loading Stale] [] [] Control, Constant, []
        "O(1)" "A password made of chance"
        "[bits]"
    AclGetuser "acl|getuser" 3 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N passwords and rules of the user" "What a user may do"
        "username"
        [since "6.2.0" "Patterns of channels",
         since "7.0.0" "Selectors; patterns of keys and channels as rules, no longer as lists"]
    AclHelp "acl|help" 2 since "6.0.0" [Loading Stale] [] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    AclList "acl|list" 2 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N users" "All users as lines of an ACL file"
    AclLoad "acl|load" 2 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Sliced, []
        "O(N) for N users and connections" "Takes all users anew from the ACL file"
    AclLog "acl|log" -2 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N entries shown" "What was refused to whom of late"
        "[<operation: count | RESET>]"
        [since "7.2.0" "Entries have numbers and times of their own"]
    AclSave "acl|save" 2 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N users" "Writes all users into the ACL file"
    AclSetuser "acl|setuser" -3 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Sliced, []
        "O(N) for N rules" "Makes a user, or changes what one may do"
        "username [rule ...]"
        [since "6.2.0" "Patterns of channels", since "7.0.0" "Selectors, and patterns of keys for reading and for writing"]
    AclUsers "acl|users" 2 since "6.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N users" "The names of all users"
    AclWhoami "acl|whoami" 2 since "6.0.0" [Noscript Loading Stale] [] [] Connection, Constant, []
        "O(1)" "The name of the connection's user"
    Bgrewriteaof "bgrewriteaof" 1 since "1.0.0" [Admin Noscript NoAsyncLoading] [] [] Control, Constant, []
        "O(1)" "Begins the log anew behind a snapshot, in the background"
        ""
    Bgsave "bgsave" -1 since "1.0.0" [Admin Noscript NoAsyncLoading] [] [] Control, Constant, []
        "O(1)" "Writes a snapshot in the background"
        "[SCHEDULE]"
        [since "3.2.2" "`SCHEDULE`"]
    Command "command" -1 since "2.8.13" [Loading Stale] [Connection]
        [] Connection, Unbounded("the table has a fixed size"), ["nondeterministic_output_order"]
        "O(N) for N commands" "Describes all commands"
    CommandCount "command|count" 2 since "2.8.13" [Loading Stale] [Connection] [] Connection, Constant, []
        "O(1)" "The number of commands"
    CommandDocs "command|docs" -2 since "7.0.0" [Loading Stale] [Connection]
        [] Connection, Unbounded("the table has a fixed size"), ["nondeterministic_output_order"]
        "O(N) for N commands" "Documentation of commands"
        "[command-name ...]"
    CommandGetkeys "command|getkeys" -4 since "2.8.13" [Loading Stale] [Connection]
        [] Connection, Unbounded("the keys of a call come in one reply"), []
        "O(N) for N arguments" "The keys of a call"
        "command arg ..."
    CommandGetkeysandflags "command|getkeysandflags" -4 since "7.0.0" [Loading Stale] [Connection]
        [] Connection, Unbounded("the keys of a call come in one reply"), []
        "O(N) for N arguments" "The keys of a call, and what happens to them"
        "command arg ..."
    CommandHelp "command|help" 2 since "5.0.0" [Loading Stale] [Connection] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    CommandInfo "command|info" -2 since "2.8.13" [Loading Stale] [Connection]
        [] Connection, Unbounded("it takes no more names than the table has"), ["nondeterministic_output_order"]
        "O(N) for N commands" "Properties of commands"
        "[command-name ...]"
        [since "7.0.0" "All commands if none is named"]
    CommandList "command|list" -2 since "7.0.0" [Loading Stale] [Connection]
        [] Connection, Unbounded("the table has a fixed size"), ["nondeterministic_output_order"]
        "O(N) for N commands" "Names of commands"
        "[FILTERBY <filterby: MODULE module-name | ACLCAT category | PATTERN pattern>]"
    Config "config" -2 since "2.0.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about settings"
    ConfigGet "config|get" -3 since "2.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N settings" "Settings whose names match"
        "parameter ..."
        [since "7.0.0" "Several patterns"]
    ConfigHelp "config|help" 2 since "5.0.0" [Loading Stale] [] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    ConfigResetstat "config|resetstat" 2 since "2.0.0" [Admin Noscript Loading Stale] []
        [] Control, Constant, []
        "O(1)" "Sets the counters of INFO to zero"
    ConfigRewrite "config|rewrite" 2 since "2.8.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(N) for N settings" "Writes the settings to the configuration file"
    ConfigSet "config|set" -4 since "2.0.0" [Admin Noscript Loading Stale] []
        [] Control, Constant, ["request_policy:all_nodes", "response_policy:all_succeeded"]
        "O(N) for N settings" "Changes settings, all or none"
        "<data: parameter value> ..."
        [since "7.0.0" "Several settings"]
    Dbsize "dbsize" 1 since "1.0.0" [Readonly Fast] [Keyspace]
        [] AllLanes(Sum), Constant, ["request_policy:all_shards", "response_policy:agg_sum"]
        "O(1)" "The number of keys in the database"
    Debug "debug" -2 since "1.0.0" [Admin Noscript Loading Stale] [] [] Control, Sliced, []
        "Depends on the subcommand" "Commands for tests of the server itself"
        "subcommand [arg ...]"
    Flushall "flushall" -1 since "1.0.0" [Write] [Keyspace Dangerous]
        [] AllLanes(AllOk), Sliced, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(N) for N keys; their memory is freed later, a little at a time" "Deletes all keys of all databases"
        "[flush-type: ASYNC | SYNC]"
        [since "4.0.0" "`ASYNC`", since "6.2.0" "`SYNC`"]
    Flushdb "flushdb" -1 since "1.0.0" [Write] [Keyspace Dangerous]
        [] AllLanes(AllOk), Sliced, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(N) for N keys; their memory is freed later, a little at a time" "Deletes all keys of the database"
        "[flush-type: ASYNC | SYNC]"
        [since "4.0.0" "`ASYNC`", since "6.2.0" "`SYNC`"]
    Info "info" -1 since "1.0.0" [Loading Stale] [Dangerous]
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]
        "O(1)" "State and counters of the server"
        "[section ...]"
        [since "7.0.0" "Several sections"]
    Lastsave "lastsave" 1 since "1.0.0" [Loading Stale Fast] [Admin Dangerous]
        [] Control, Constant, ["nondeterministic_output"]
        "O(1)" "When the last snapshot ended, as a Unix time"
    Latency "latency" -2 since "2.8.13" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about delays"
    LatencyDoctor "latency|doctor" 2 since "2.8.13" [Admin Noscript Loading Stale] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]
        "O(1)" "Explains what was slow, in words"
    LatencyGraph "latency|graph" 3 since "2.8.13" [Admin Noscript Loading Stale] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]
        "O(1)" "Draws the delays of an event"
        "event"
    LatencyHelp "latency|help" 2 since "2.8.13" [Loading Stale] [] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    LatencyHistogram "latency|histogram" -2 since "7.0.0" [Admin Noscript Loading Stale] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]
        "O(N) for N commands" "How long commands took, as histograms"
        "[command ...]"
    LatencyHistory "latency|history" 3 since "2.8.13" [Admin Noscript Loading Stale] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]
        "O(1)" "The last delays of an event"
        "event"
    LatencyLatest "latency|latest" 2 since "2.8.13" [Admin Noscript Loading Stale] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]
        "O(1)" "The last delay of each event"
    LatencyReset "latency|reset" -2 since "2.8.13" [Admin Noscript Loading Stale] []
        [] Control, Constant, ["request_policy:all_nodes", "response_policy:all_succeeded"]
        "O(1)" "Forgets the delays of events"
        "[event ...]"
    Lolwut "lolwut" -1 since "5.0.0" [Readonly Fast] [] [] Connection, Constant, []
        "O(1)" "Draws something and names the version"
        "[VERSION version]"
    Memory "memory" -2 since "4.0.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about memory"
    MemoryDoctor "memory|doctor" 2 since "4.0.0" [] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]
        "O(1)" "Explains how memory is used, in words"
    MemoryHelp "memory|help" 2 since "4.0.0" [Loading Stale] [] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    MemoryMallocStats "memory|malloc-stats" 2 since "4.0.0" [] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]
        "O(1)" "What the allocator says about itself"
    MemoryPurge "memory|purge" 2 since "4.0.0" [] []
        [] Control, Constant, ["request_policy:all_shards", "response_policy:all_succeeded"]
        "O(1)" "Asks the allocator to return memory"
    MemoryStats "memory|stats" 2 since "4.0.0" [] []
        [] Control, Constant, ["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]
        "O(1)" "How memory is used, in numbers"
    MemoryUsage "memory|usage" -3 since "4.0.0" [Readonly] [] [at(2, "RO")] Key, Constant, []
        "O(1)" "Bytes that a key and its value take"
        "key [SAMPLES count]"
    Monitor "monitor" 1 since "1.0.0" [Admin Noscript Loading Stale] [] [] Control, Constant, []
        "O(1)" "Shows every command that the server executes"
    Psync "psync" -3 since "2.8.0" [Admin Noscript NoAsyncLoading NoMulti] [] [] Control, Sliced, []
        "O(N) for N bytes of the snapshot, or of what was missed since the offset" "Makes the connection a replica's, which goes on where it was if it can"
        "replicationid offset"
    Replconf "replconf" -1 since "3.0.0" [Admin Noscript Loading Stale AllowBusy] [] [] Connection, Constant, []
        "O(1)" "What a replica and its primary tell each other about themselves"
    Replicaof "replicaof" 3 since "5.0.0" [Admin Noscript Stale NoAsyncLoading] [] [] Control, Constant, []
        "O(1)" "Lets the server follow a primary, or none"
        "<args: <host-port: host port:integer> | <no-one: NO ONE>>"
    RestoreAsking "restore-asking" -4 since "3.0.0" [Write Denyoom Asking] [Keyspace Dangerous]
        [at(1, "OW update")] Key, Sliced, []
        "O(N) for N bytes of the value" "RESTORE, as one node of a cluster sends it to another with ASKING"
        "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]"
        [since "3.0.0" "`REPLACE`", since "5.0.0" "`ABSTTL`, `IDLETIME` and `FREQ`"]
    Role "role" 1 since "2.8.12" [Noscript Loading Stale Fast] [Admin Dangerous] [] Control, Constant, []
        "O(1)" "The server's role in replication"
    Save "save" 1 since "1.0.0" [Admin Noscript NoAsyncLoading NoMulti] [] [] Control, Constant, []
        "O(N) for N keys" "Writes a snapshot"
    Shutdown "shutdown" -1 since "1.0.0" [Admin Noscript Loading Stale NoMulti AllowBusy] []
        [] Control, Constant, []
        "O(1)" "Ends the server"
        "[save-selector: NOSAVE | SAVE] [NOW] [FORCE] [ABORT]"
        [since "7.0.0" "`NOW`, `FORCE` and `ABORT`"]
    Slaveof "slaveof" 3 since "1.0.0" deprecated "5.0.0" for "`REPLICAOF`"
        [Admin Noscript Stale NoAsyncLoading] [] [] Control, Constant, []
        "O(1)" "Lets the server follow a primary, or none"
        "<args: <host-port: host port:integer> | <no-one: NO ONE>>"
    Slowlog "slowlog" -2 since "2.2.12" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about the log of slow commands"
    SlowlogGet "slowlog|get" -2 since "2.2.12" [Admin Loading Stale] []
        [] Control, Constant, ["request_policy:all_nodes", "nondeterministic_output"]
        "O(N) for N entries" "Entries of the slow log"
        "[count]"
        [since "4.0.0" "Entries have the client's address and name"]
    SlowlogHelp "slowlog|help" 2 since "6.2.0" [Loading Stale] [] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    SlowlogLen "slowlog|len" 2 since "2.2.12" [Admin Loading Stale] []
        [] Control, Constant, ["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]
        "O(1)" "The number of entries of the slow log"
    SlowlogReset "slowlog|reset" 2 since "2.2.12" [Admin Loading Stale] []
        [] Control, Constant, ["request_policy:all_nodes", "response_policy:all_succeeded"]
        "O(N) for N entries" "Empties the slow log"
    Swapdb "swapdb" 3 since "4.0.0" [Write Fast] [Keyspace Dangerous] [] AllLanes(AllOk), Sliced, []
        "O(N) for N keys of the two that clients watch" "Swaps two databases"
        "index1 index2"
    Sync "sync" 1 since "1.0.0" [Admin Noscript NoAsyncLoading NoMulti] [] [] Control, Sliced, []
        "O(N) for N bytes of the snapshot" "Makes the connection a replica's, which gets all data first"
    Time "time" 1 since "2.6.0" [Loading Stale Fast] [] [] Connection, Constant, ["nondeterministic_output"]
        "O(1)" "The server's time in seconds and microseconds"
};
