//! What HELP answers, for every command that groups others.

use wire::command::Id;
use wire::reply::{self, Put};

use crate::request::Args;

/// The lines of a HELP; false if the command is none.
pub(crate) fn put(id: Id, out: &mut impl Put) -> bool {
    let (name, lines): (&str, &[&str]) = match id {
        Id::CommandHelp => ("COMMAND", COMMAND),
        Id::ClientHelp => ("CLIENT", CLIENT),
        Id::ConfigHelp => ("CONFIG", CONFIG),
        Id::ClusterHelp => ("CLUSTER", CLUSTER),
        Id::LatencyHelp => ("LATENCY", LATENCY),
        Id::MemoryHelp => ("MEMORY", MEMORY),
        Id::SlowlogHelp => ("SLOWLOG", SLOWLOG),
        Id::FunctionHelp => ("FUNCTION", FUNCTION),
        _ => return false,
    };
    reply::array(out, lines.len() + 3);
    reply::simple(out, &format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for line in lines.iter().chain(&["HELP", "    Prints this help."]) {
        reply::simple(out, line);
    }
    true
}

/// What a subcommand in a shape that it does not have is told, its name as the client wrote it.
pub(crate) fn unknown_shape(container: &str, args: Args<'_>) -> String {
    let name = args.flat(1);
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP.")
}

const COMMAND: &[&str] = &[
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands.",
    "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
    "    Return the names of commands.",
    "INFO [<command-name> ...]",
    "    Return details about commands; about all if none is named.",
    "DOCS [<command-name> ...]",
    "    Return documentation of commands; of all if none is named.",
    "GETKEYS <full-command>",
    "    Return the keys of a call.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys of a call and what happens to them.",
];
const CLIENT: &[&str] = &[
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * ID <client-id>",
    "      Kill the connection of that ID.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "    * ID <client-id> [<client-id> ...]",
    "      Return clients of these IDs.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Note the name or version of the client's library.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Do not refresh the keys that the current connection reads.",
];
const CONFIG: &[&str] = &[
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
];
const CLUSTER: &[&str] = &[
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "MYID",
    "    Return the node id.",
    "NODES",
    "    Return cluster configuration seen by node, one line a node.",
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, master and replicas IP addresses, ports and ids",
];
const LATENCY: &[&str] = &[
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of command latencies in histogram format.",
];
const MEMORY: &[&str] = &[
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value.",
];
const SLOWLOG: &[&str] = &[
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
];
const FUNCTION: &[&str] = &["FLUSH [ASYNC|SYNC]", "    Delete all the libraries (there are none)."];
