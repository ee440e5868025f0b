//! The map of slots, as cluster clients ask for it.

use super::Command;
use super::Scope::{Connection, Partition};
use super::Work::{Constant, Sliced, Unbounded};
use super::entry::entries;

pub(super) const CLUSTER: &[Command] = entries! { Cluster:
    Asking "asking" 1 since "3.0.0" [Fast] [Connection] [] Connection, Constant, []
        "O(1)" "Lets the next command pass to a slot that is moving here"
    Cluster "cluster" -2 since "3.0.0" [] [] [] Connection, Constant, []
        "Depends on the subcommand" "Groups commands about the map of slots"
    ClusterCountkeysinslot "cluster|countkeysinslot" 3 since "3.0.0" [Stale] [] [] Partition, Constant, []
        "O(1)" "The number of keys in a slot"
        "slot"
    ClusterGetkeysinslot "cluster|getkeysinslot" 4 since "3.0.0" [Stale] []
        [] Partition, Sliced, ["nondeterministic_output"]
        "O(N) for N keys asked for" "Keys of a slot"
        "slot count"
    ClusterHelp "cluster|help" 2 since "5.0.0" [Loading Stale] [] [] Connection, Constant, []
        "O(1)" "Lists the subcommands"
    ClusterInfo "cluster|info" 2 since "3.0.0" [Stale] [] [] Connection, Constant, ["nondeterministic_output"]
        "O(1)" "State of the cluster, in lines"
    ClusterKeyslot "cluster|keyslot" 3 since "3.0.0" [Stale] [] [] Connection, Constant, []
        "O(N) for N bytes" "The slot of a key"
        "key:string"
    ClusterMyid "cluster|myid" 2 since "3.0.0" [Stale] [] [] Connection, Constant, []
        "O(1)" "The name of this node"
    ClusterNodes "cluster|nodes" 2 since "3.0.0" [Stale] [] [] Connection, Unbounded("there are few lanes"), ["nondeterministic_output"]
        "O(N) for N nodes" "The nodes and their slots, in lines"
    ClusterShards "cluster|shards" 2 since "7.0.0" [Stale] []
        [] Connection, Unbounded("there are few lanes"), ["nondeterministic_output"]
        "O(N) for N nodes" "The nodes and their slots, by shard"
    ClusterSlots "cluster|slots" 2 since "3.0.0" deprecated "7.0.0" for "`CLUSTER SHARDS`"
        [Stale] [] [] Connection, Unbounded("there are few lanes"), ["nondeterministic_output"]
        "O(N) for N nodes" "The nodes and their slots, by slot"
        [since "4.0.0" "Nodes have their ids", since "7.0.0" "Nodes have more of their addresses"]
    Readonly "readonly" 1 since "3.0.0" [Loading Stale Fast] [Connection] [] Connection, Constant, []
        "O(1)" "Lets this connection read from copies"
    Readwrite "readwrite" 1 since "3.0.0" [Loading Stale Fast] [Connection] [] Connection, Constant, []
        "O(1)" "Undoes READONLY"
};
