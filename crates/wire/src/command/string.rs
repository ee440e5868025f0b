//! Strings.

use super::Combine::{AllOk, Coordinator, InKeyOrder};
use super::Command;
use super::Scope::{Key, Keys};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::{at, range};

pub(super) const STRING: &[Command] = entries! { String:
    Append "append" 3 since "2.0.0" [Write Denyoom Fast] [String] [at(1, "RW insert")] Key, Sliced, []
        "O(1), or O(N) for N bytes appended" "Appends to a string, which is made if it does not exist"
        "key value"
    Decr "decr" 2 since "1.0.0" [Write Denyoom Fast] [String] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Takes one from an integer, which starts at 0"
        "key"
    Decrby "decrby" 3 since "1.0.0" [Write Denyoom Fast] [String]
        [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Takes a number from an integer, which starts at 0"
        "key decrement"
    Get "get" 2 since "1.0.0" [Readonly Fast] [String] [at(1, "RO access")] Key, Constant, []
        "O(1)" "The string of a key"
        "key"
    Getdel "getdel" 2 since "6.2.0" [Write Fast] [String] [at(1, "RW access delete")] Key, Constant, []
        "O(1)" "The string of a key, which is deleted"
        "key"
    Getex "getex" -2 since "6.2.0" [Write Fast] [String]
        [at(1, "RW access update").notes("the expiry changes")] Key, Constant, []
        "O(1)" "The string of a key, whose expiry is set or removed"
        "key [expiration: EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]"
    Getrange "getrange" 4 since "2.4.0" [Readonly] [String] [at(1, "RO access")] Key, Constant, []
        "O(N) for N bytes returned up to 16 KiB; longer ranges are passed by reference" "A part of a string"
        "key start end"
    Getset "getset" 3 since "1.0.0" deprecated "6.2.0" for "`SET` with `GET`"
        [Write Denyoom Fast] [String] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Sets a string and answers the one before"
        "key value"
    Incr "incr" 2 since "1.0.0" [Write Denyoom Fast] [String] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Adds one to an integer, which starts at 0"
        "key"
    Incrby "incrby" 3 since "1.0.0" [Write Denyoom Fast] [String]
        [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Adds a number to an integer, which starts at 0"
        "key increment"
    Incrbyfloat "incrbyfloat" 3 since "2.6.0" [Write Denyoom Fast] [String]
        [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Adds a number to a float, which starts at 0"
        "key increment:double"
    Lcs "lcs" -3 since "7.0.0" [Readonly] [String] [range(1, 1, 1, "RO access")] Keys(Coordinator), Sliced, []
        "O(N*M) for strings of N and M bytes" "The longest common subsequence of two strings"
        "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]"
    Mget "mget" -2 since "1.0.0" [Readonly Fast] [String]
        [range(1, -1, 1, "RO access")] Keys(InKeyOrder), Sliced, ["request_policy:multi_shard"]
        "O(N) for N keys" "The strings of several keys"
        "key ..."
    Mset "mset" -3 since "1.0.1" [Write Denyoom] [String]
        [range(1, -1, 2, "OW update")] Keys(AllOk), Sliced, ["request_policy:multi_shard", "response_policy:all_succeeded"]
        "O(N) for N keys" "Sets several keys"
        "<data: key value> ..."
    Msetnx "msetnx" -3 since "1.0.1" [Write Denyoom] [String]
        [range(1, -1, 2, "OW insert")] Keys(Coordinator), Sliced, ["request_policy:multi_shard", "response_policy:agg_min"]
        "O(N) for N keys" "Sets several keys, but only if none of them exists"
        "<data: key value> ..."
    Psetex "psetex" 4 since "2.6.0" deprecated "2.6.12" for "`SET` with `PX`"
        [Write Denyoom] [String] [at(1, "OW update")] Key, Constant, []
        "O(1)" "Sets a string that expires, in milliseconds"
        "key milliseconds value"
    Set "set" -3 since "1.0.0" [Write Denyoom] [String]
        [at(1, "RW access update variable_flags").notes("GET makes it read")] Key, Constant, []
        "O(1)" "Sets a string"
        "key value [condition: NX | XX] [GET] [expiration: EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]"
        [since "2.6.12" "`EX`, `PX`, `NX` and `XX`",
         since "6.0.0" "`KEEPTTL`",
         since "6.2.0" "`GET`, `EXAT` and `PXAT`",
         since "7.0.0" "`NX` and `GET` go together"]
    Setex "setex" 4 since "2.0.0" deprecated "2.6.12" for "`SET` with `EX`"
        [Write Denyoom] [String] [at(1, "OW update")] Key, Constant, []
        "O(1)" "Sets a string that expires, in seconds"
        "key seconds value"
    Setnx "setnx" 3 since "1.0.0" deprecated "2.6.12" for "`SET` with `NX`"
        [Write Denyoom Fast] [String] [at(1, "OW insert")] Key, Constant, []
        "O(1)" "Sets a string, but only if the key does not exist"
        "key value"
    Setrange "setrange" 4 since "2.2.0" [Write Denyoom] [String] [at(1, "RW update")] Key, Sliced, []
        "O(1), or O(N) for N bytes written" "Overwrites a part of a string, which is filled with zeros up to there"
        "key offset value"
    Strlen "strlen" 2 since "2.2.0" [Readonly Fast] [String] [at(1, "RO")] Key, Constant, []
        "O(1)" "The size of a string in bytes"
        "key"
    Substr "substr" 4 since "1.0.0" deprecated "2.0.0" for "`GETRANGE`"
        [Readonly] [String] [at(1, "RO access")] Key, Constant, []
        "O(N) for N bytes returned up to 16 KiB; longer ranges are passed by reference" "A part of a string; GETRANGE under its old name"
        "key start end"
};
