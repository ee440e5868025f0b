//! What `expresslane serve` can be told: every key once, as a flag, an environment variable and a key of the
//! configuration file.
//!
//! [`ServeSettings`] is the single list. A flag `--lane-ports` is also `EXPRESSLANE_LANE_PORTS` and, in the file,
//! `lane-ports` under `[serve]`; a flag beats the environment, that beats the file, and that beats the default. The
//! file is read as other defaults for the same flags, so there is one parser and one set of error messages.
//!
//! Whether settings fit the machine and one another is `plan`'s business; here only their own form is checked.

mod file;
mod hint;
mod namespaces;
mod rewrite;
mod value;
mod words;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use lane::EventClasses;
use wire::aerospike::{Namespace, TTL_MAX_S};
use wire::route::Ports;

use crate::scheduler::Scheduler;

pub(crate) use file::{meant, not_toml};
pub(crate) use namespaces::namespaces;
pub(crate) use rewrite::{remove_drafts, replace, rewrite};

pub(crate) use value::{
    AutoPin, BindAddress, ClientsMemory, CpuList, DialectPort, Io, LANES_COUNT_MAX, LanePorts, LanesCount,
    Mode, OutputLimit, OutputLimits, Policy, Size, Span, host, mebibyte, whole,
};
use value::{bucket_name, record_namespace};

/// An in-memory database in which every core is an isolated lane that Redis clients can talk to.
#[derive(Debug, Parser)]
#[command(name = "expresslane", version, propagate_version = true, arg_required_else_help = true)]
struct Program {
    #[command(subcommand)]
    verb: Verb,
}

/// What the program is asked to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve the database
    #[command(long_about = SERVE_LONG, after_long_help = SERVE_EXAMPLES, allow_negative_numbers = true)]
    Serve(Box<ServeSettings>),
    /// Show how a running server is, lane by lane
    #[command(long_about = STATS_LONG, after_long_help = STATS_EXAMPLES)]
    Stats(StatsSettings),
    /// Load a server and show how it answers
    #[command(subcommand, arg_required_else_help = true)]
    Bench(crate::bench::BenchVerb),
    /// Give a server its own way through the machine, and put everything back
    #[command(subcommand, arg_required_else_help = true)]
    Lanes(crate::lanes::LanesVerb),
    /// Start a program inside a lane
    #[command(long_about = crate::run::LONG, after_long_help = crate::run::EXAMPLES)]
    Run(crate::run::RunSettings),
}

const SERVE_LONG: &str = "Serve the database.

Each lane is one pinned thread with its own part of the keys and its own TCP port. Any Redis client can use the shared \
port; a Redis Cluster client finds the lane ports by itself and talks to the lane that owns a key. Data lives in memory; \
--save and --appendonly keep it in files, too.";

const SERVE_EXAMPLES: &str = "Examples:
  expresslane serve
      127.0.0.1:6379, as many lanes as the machine has room for
  expresslane serve --lanes 4 --cpus 2-5 --lane-ports 7000 --maxmemory 8gb
      four lanes on cpus 2 to 5, cluster clients at ports 7000 to 7003
  expresslane serve --dir /var/lib/expresslane --appendonly yes
      what was written is there again after a restart
  expresslane serve --bind 10.0.0.5 --config /etc/expresslane.toml
      for other machines, with requirepass = \"…\" under [serve] in the file

Every flag but --config is also a key of the configuration file, and every one an environment variable:
  --tcp-backlog 1024     tcp-backlog = 1024 under [serve]     EXPRESSLANE_TCP_BACKLOG=1024
The flag wins over the environment, the environment over the file, the file over the default.
Sizes are written as in Redis: 1k = 1000, 1kb = 1024, mb, gb. Durations: 50us, 1ms, 2s, off.
Values of several words are written as for redis-server:
  --replicaof 10.0.0.1 6379 --save 900 1 --save 300 10

Exit codes: 0 ended when asked to, 1 it can't start or was cut off (one sentence says what to do), 2 a flag is wrong.";

const STATS_LONG: &str = "Show how a running server is, lane by lane.

Asks with INFO, as any client could, and shows three tables with a line a lane: what is asked of it and what it holds; \
how long its turns and commands take; what its cpu, its thread and its memory do. Of another server that speaks Redis' \
protocol it shows the totals.";

const STATS_EXAMPLES: &str = "Examples:
  expresslane stats
      127.0.0.1:6379, since its start
  expresslane stats --watch
      every second, what happened in it; Ctrl-C ends
  REDISCLI_AUTH=… expresslane stats --host 10.0.0.5 --watch 10 --json >> stats.jsonl
      a line of JSON every ten seconds; docs/stats.md describes it

Exit codes: 0 shown, 1 the server can't be asked (one sentence says what to do), 2 a flag is wrong.";

/// All settings of `expresslane stats`. Names are redis-cli's where it has them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StatsSettings {
    /// Where the server listens
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Its port; a lane's own port shows that lane alone
    #[arg(short, long, value_name = "PORT", default_value_t = 6379, value_parser = whole::<u16>(1, u16::MAX))]
    pub(crate) port: u16,
    /// Its Unix socket, instead of host and port
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    pub(crate) socket: Option<PathBuf>,
    /// Its password. Other users of the machine see flags: prefer the environment
    #[arg(short = 'a', long, value_name = "PASSWORD", env = "REDISCLI_AUTH", hide_env_values = true)]
    pub(crate) password: Option<String>,
    /// Print JSON, an object a line, instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on every so many seconds, with rates since the look before
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = whole::<u32>(1, 86_400))]
    pub(crate) watch: Option<u32>,
}

/// All settings of `expresslane serve`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeSettings {
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Addresses to listen on; one behind a dash may be missing on the machine
    ///
    /// A public address without --requirepass is refused unless --protected-mode is no.
    #[arg(
        long,
        help_heading = "Network",
        value_name = "ADDRESSES",
        value_delimiter = ',',
        default_value = "127.0.0.1,-::1"
    )]
    pub(crate) bind: Vec<BindAddress>,
    /// The shared port: a standalone Redis over all lanes; 0 for none
    #[arg(long, help_heading = "Network", value_name = "PORT", default_value_t = 6379, value_parser = whole::<u16>(0, u16::MAX))]
    pub(crate) port: u16,
    /// First of the lanes' own ports (lane i listens on BASE + i, or on BASE + i * STEP), or off
    #[arg(long, help_heading = "Network", value_name = "BASE[+STEP]", default_value = "7000")]
    pub(crate) lane_ports: LanePorts,
    /// Also serve memcached's clients (text, meta, binary), who have documents of their own
    ///
    /// Without a port it is 11211, as memcached's.
    #[arg(long, help_heading = "Network", value_name = "PORT", num_args = 0..=1, default_value = "off", default_missing_value = "yes")]
    pub(crate) memcached: DialectPort,
    /// Also serve Couchbase's clients, who share the documents with memcached's: lane i listens on PORT + i
    ///
    /// Without a port it is 11210, as Couchbase's. With a step behind it, as in 11210+10, lane i listens on PORT + i * STEP.
    #[arg(long, help_heading = "Network", value_name = "PORT[+STEP]", num_args = 0..=1, default_value = "off", default_missing_value = "yes")]
    pub(crate) couchbase: DialectPort,
    /// With --couchbase: the map of partitions by HTTP, on PORT + i of lane i, 8091 by default, or off
    #[arg(
        long,
        help_heading = "Network",
        value_name = "PORT[+STEP]",
        default_value = "yes",
        hide_default_value = true
    )]
    pub(crate) couchbase_management: DialectPort,
    /// What Couchbase's clients call the documents: their bucket, without a name `default`
    ///
    /// For several, list each in the file, as `[[namespace]]`.
    #[arg(long, help_heading = "Network", value_name = "NAME", value_parser = bucket_name)]
    pub(crate) couchbase_bucket: Option<String>,
    /// Also serve Aerospike's clients, each lane as a node: lane i listens on PORT + i
    ///
    /// Without a port it is 3000, as Aerospike's. With a step behind it, as in 3000+10, lane i listens on PORT + i * STEP.
    #[arg(long, help_heading = "Network", value_name = "PORT[+STEP]", num_args = 0..=1, default_value = "off", default_missing_value = "yes")]
    pub(crate) aerospike: DialectPort,
    /// The host that cluster clients are told, instead of the one they connected to; empty for none
    #[arg(long, help_heading = "Network", value_name = "HOST", value_parser = host)]
    pub(crate) announce_ip: Option<String>,
    /// The first lane port that cluster clients are told, where a proxy or NAT changes it; the others follow in --lane-ports' steps
    #[arg(long, help_heading = "Network", value_name = "BASE", value_parser = whole::<u16>(1, u16::MAX))]
    pub(crate) announce_port: Option<u16>,
    /// Also listen on a Unix socket
    #[arg(long, help_heading = "Network", value_name = "PATH")]
    pub(crate) unixsocket: Option<PathBuf>,
    /// File mode of the Unix socket, octal
    #[arg(long, help_heading = "Network", value_name = "MODE", default_value = "700")]
    pub(crate) unixsocketperm: Mode,
    /// Clients that may wait to be accepted; the kernel's somaxconn bounds it
    #[arg(long, help_heading = "Network", value_name = "COUNT", default_value_t = 511, value_parser = whole::<u32>(0, u32::MAX))]
    pub(crate) tcp_backlog: u32,
    /// Seconds of silence before the kernel asks whether a client is alive; 0 never
    #[arg(long, help_heading = "Network", value_name = "SECONDS", default_value_t = 300, value_parser = whole::<u32>(0, u32::MAX))]
    pub(crate) tcp_keepalive: u32,
    /// How bytes reach the lanes
    #[arg(long, help_heading = "Network", value_name = "BACKEND", value_enum, default_value_t = Io::Auto)]
    pub(crate) io: Io,
    /// Poll the network card this long before sleeping, or off; helps only on cores given to it
    #[arg(long, help_heading = "Network", value_name = "DURATION", default_value = "off")]
    pub(crate) busy_poll: Span,

    /// How many lanes: a number, or auto
    ///
    /// auto is every hardware thread up to four, or what a quota grants; above, two (of five one) are left to the system and its interrupts.
    #[arg(long, help_heading = "Lanes", value_name = "COUNT", default_value = "auto")]
    pub(crate) lanes: LanesCount,
    /// Cpus of the lanes, such as 2-5,8; the first lane gets the first. Default: chosen from those allowed
    #[arg(long, help_heading = "Lanes", value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Scheduling of the lanes' threads: fifo or rr with a priority from 1 to 99 go before all that is not real time on their cpus
    ///
    /// Whatever else runs there then takes no milliseconds from a lane's clients, and waits for the lane to sleep. other is the usual
    /// scheduling; without the flag it is what the server was started with.
    #[arg(long, help_heading = "Lanes", value_name = "other|fifo:N|rr:N")]
    pub(crate) sched: Option<Scheduler>,
    /// How new TCP connections find their lane
    ///
    /// On the shared port they go there; on a lane's own port they stay, and those that arrive elsewhere are counted as leaking.
    #[arg(long, help_heading = "Lanes", value_name = "MODE", value_enum, default_value_t = AutoPin::None)]
    pub(crate) auto_pin: AutoPin,
    /// Whether a client's commands may overtake those for other lanes before them (lanes), or never (strict)
    ///
    /// Replies come in the order of the commands either way; strict costs a round trip at each change of lane.
    #[arg(long, help_heading = "Lanes", value_name = "lanes|strict", value_parser = ["lanes", "strict"], default_value = "lanes")]
    pub(crate) order: String,
    /// Name a turn in the log that took longer than this, or off
    #[arg(long, help_heading = "Lanes", value_name = "DURATION", default_value = "1ms")]
    pub(crate) stall_warn: Span,
    /// Commands in SLOWLOG are those that took so many microseconds; 0 all, -1 none
    #[arg(long, help_heading = "Lanes", value_name = "US", default_value_t = 10_000, allow_negative_numbers = true, value_parser = whole::<i64>(-1, i64::MAX))]
    pub(crate) slowlog_log_slower_than: i64,
    /// Entries that SLOWLOG keeps; the oldest go
    #[arg(long, help_heading = "Lanes", value_name = "COUNT", default_value_t = 128, value_parser = whole::<u32>(0, u32::MAX))]
    pub(crate) slowlog_max_len: u32,

    /// Most memory for data and clients over all lanes; 0 is no limit
    #[arg(long, help_heading = "Memory", value_name = "SIZE", default_value = "0")]
    pub(crate) maxmemory: Size,
    /// What gives way when maxmemory is reached
    #[arg(long, help_heading = "Memory", value_name = "POLICY", value_enum, default_value_t = Policy::Noeviction)]
    pub(crate) maxmemory_policy: Policy,
    /// Most memory for all clients' buffers, a size or a part of maxmemory such as 5%; 0 is no limit
    #[arg(long, help_heading = "Memory", value_name = "SIZE", default_value = "0")]
    pub(crate) maxmemory_clients: ClientsMemory,
    /// Most memory of scripts under way on each lane, their arguments and what they have read included
    #[arg(long, help_heading = "Memory", value_name = "SIZE", default_value = "64mb", value_parser = mebibyte)]
    pub(crate) script_memory_limit: Size,
    /// Compress what DUMP answers of values up to 16 KiB
    #[arg(long, help_heading = "Memory", value_name = "yes|no", value_parser = value::yes_no, default_value = "yes", action = clap::ArgAction::Set)]
    pub(crate) rdbcompression: bool,
    /// Back the data with huge pages where the kernel has them: a third less time among millions of keys; memory comes and goes in
    /// coarser pieces
    #[arg(long, help_heading = "Memory", value_name = "yes|no", value_parser = value::yes_no, default_value = "yes", action = clap::ArgAction::Set)]
    pub(crate) huge_pages: bool,

    /// Where files of the data are
    #[arg(long, help_heading = "Files", value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The snapshot: written by SAVE, BGSAVE and --save, loaded at the start if it is there
    #[arg(long, help_heading = "Files", value_name = "NAME", default_value = "dump.rdb", value_parser = value::file_name)]
    pub(crate) dbfilename: String,
    /// Write a snapshot after so many seconds if there were so many changes, as in "3600 1 300 100", and at the end; empty for never
    #[arg(long, help_heading = "Files", value_name = "SECONDS CHANGES …", default_value = "", value_parser = value::save_points)]
    pub(crate) save: String,
    /// Write every change to a log, too, and load that at the start
    #[arg(long, help_heading = "Files", value_name = "yes|no", value_parser = value::yes_no, default_value = "no", action = clap::ArgAction::Set)]
    pub(crate) appendonly: bool,
    /// When changes in the log are on disk for certain: after a second (everysec), or when the system likes (no)
    #[arg(long, help_heading = "Files", value_name = "everysec|no", value_parser = value::fsync, default_value = "everysec")]
    pub(crate) appendfsync: String,
    /// The directory of the log's files, below --dir
    #[arg(long, help_heading = "Files", value_name = "NAME", default_value = "appendonlydir", value_parser = value::file_name)]
    pub(crate) appenddirname: String,
    /// What names of the log's files begin with
    #[arg(long, help_heading = "Files", value_name = "NAME", default_value = "appendonly.aof", value_parser = value::file_name)]
    pub(crate) appendfilename: String,
    /// Start with a log whose last command was cut off, without that command
    #[arg(long, help_heading = "Files", value_name = "yes|no", value_parser = value::yes_no, default_value = "yes", action = clap::ArgAction::Set)]
    pub(crate) aof_load_truncated: bool,
    /// Begin the log anew when it has grown by so many percent since it began; 0 never
    #[arg(long, help_heading = "Files", value_name = "PERCENT", default_value_t = 100, value_parser = whole::<u32>(0, u32::MAX / 2))]
    pub(crate) auto_aof_rewrite_percentage: u32,
    /// But not before it is so large
    #[arg(long, help_heading = "Files", value_name = "SIZE", default_value = "64mb")]
    pub(crate) auto_aof_rewrite_min_size: Size,

    /// Follow this server: take what it has, and what changes there. Clients only read here
    #[arg(long, help_heading = "Replication", value_name = "HOST PORT", default_value = "", value_parser = value::primary)]
    pub(crate) replicaof: String,
    /// The password to give there, empty for none
    #[arg(long, help_heading = "Replication", value_name = "PASSWORD", default_value = "")]
    pub(crate) masterauth: String,
    /// Whose password that is, empty for the default user's
    #[arg(long, help_heading = "Replication", value_name = "NAME", default_value = "")]
    pub(crate) masteruser: String,
    /// Answer from what there is while that server is away
    #[arg(long, help_heading = "Replication", value_name = "yes|no", value_parser = value::yes_no, default_value = "yes", action = clap::ArgAction::Set)]
    pub(crate) replica_serve_stale_data: bool,

    /// The password clients must give, empty for none. Other users of the machine see flags: prefer the file
    #[arg(long, help_heading = "Clients", value_name = "PASSWORD")]
    pub(crate) requirepass: Option<String>,
    /// The file of users and what they may do, which ACL LOAD reads and ACL SAVE writes
    #[arg(long, help_heading = "Clients", value_name = "PATH")]
    pub(crate) aclfile: Option<PathBuf>,
    /// A user and what it may do, as ACL SETUSER has it: 'alice on >secret ~cache:* +@read'; not with aclfile
    #[arg(long, help_heading = "Clients", value_name = "RULES")]
    pub(crate) user: Vec<String>,
    /// Which channels a new user has
    #[arg(long, help_heading = "Clients", value_name = "allchannels|resetchannels", value_parser = ["allchannels", "resetchannels"], default_value = "resetchannels")]
    pub(crate) acl_pubsub_default: String,
    /// Entries that ACL LOG keeps; the oldest go
    #[arg(long, help_heading = "Clients", value_name = "COUNT", default_value_t = 128, value_parser = whole::<u32>(0, u32::MAX))]
    pub(crate) acllog_max_len: u32,
    /// Refuse a public address without a password
    #[arg(long, help_heading = "Clients", value_name = "yes|no", value_parser = value::yes_no, default_value = "yes", action = clap::ArgAction::Set)]
    pub(crate) protected_mode: bool,
    /// Most clients at a time, over all lanes
    #[arg(long, help_heading = "Clients", value_name = "COUNT", default_value_t = 10_000, value_parser = whole::<u32>(1, u32::MAX))]
    pub(crate) maxclients: u32,
    /// Close clients that have been idle for so many seconds; 0 never
    #[arg(long, help_heading = "Clients", value_name = "SECONDS", default_value_t = 0, value_parser = whole::<u32>(0, u32::MAX))]
    pub(crate) timeout: u32,
    /// Most keys, over all lanes, of which is remembered which clients have read them (CLIENT TRACKING); 0 is no limit
    #[arg(long, help_heading = "Clients", value_name = "COUNT", default_value_t = 1_000_000, value_parser = whole::<u64>(0, i64::MAX.cast_unsigned()))]
    pub(crate) tracking_table_max_keys: u64,
    /// What happens to keys and is told to those who listen to __keyspace@DB__:KEY and __keyevent@DB__:EVENT: K and E, the two
    /// channels, and which events: g$xe, generic, of strings, expired, evicted, all of them A; n new keys, m misses; empty: none
    #[arg(long, help_heading = "Clients", value_name = "LETTERS", default_value = "", value_parser = value::events)]
    pub(crate) notify_keyspace_events: EventClasses,
    /// Numbered databases
    #[arg(long, help_heading = "Clients", value_name = "COUNT", default_value_t = 16, value_parser = whole::<u16>(1, DATABASES_MAX))]
    pub(crate) databases: u16,
    /// Who may use DEBUG, which is for tests: nobody, everybody, or clients on this machine
    #[arg(long, help_heading = "Clients", value_name = "no|yes|local", value_parser = ["no", "yes", "local"], default_value = "no")]
    pub(crate) enable_debug_command: String,
    /// Largest argument of a command
    #[arg(long, help_heading = "Clients", value_name = "SIZE", default_value = "512mb", value_parser = mebibyte)]
    pub(crate) proto_max_bulk_len: Size,
    /// Largest document of memcached's clients with its key, as memcached counts it
    #[arg(long, help_heading = "Clients", value_name = "SIZE", default_value = "1mb")]
    pub(crate) max_item_size: Size,
    /// Largest record of Aerospike's clients: its bins with their names, its set and its key
    #[arg(long, help_heading = "Clients", value_name = "SIZE", default_value = "1mb")]
    pub(crate) max_record_size: Size,
    /// The namespace of Aerospike's clients, without a name `test`
    ///
    /// For several, list each in the file, as `[[namespace]]`.
    #[arg(long, help_heading = "Clients", value_name = "NAME", value_parser = record_namespace)]
    pub(crate) aerospike_namespace: Option<Namespace>,
    /// Seconds that a record lives whose client leaves that to the server; 0, or nothing, for ever
    #[arg(long, help_heading = "Clients", value_name = "SECONDS", value_parser = whole::<u32>(0, TTL_MAX_S))]
    pub(crate) aerospike_default_ttl: Option<u32>,
    /// `[[namespace]]` of the file
    #[arg(skip)]
    pub(crate) namespaces: Vec<namespaces::Listed>,
    /// Largest command under way of one client; beyond, the client is closed
    #[arg(long, help_heading = "Clients", value_name = "SIZE", default_value = "1gb", value_parser = mebibyte)]
    pub(crate) client_query_buffer_limit: Size,
    /// Unread replies of one client: CLASS HARD SOFT SECONDS …, as in Redis; beyond, the client is closed
    ///
    /// A class that is not named keeps its limit.
    #[arg(
        long,
        help_heading = "Clients",
        value_name = "LIMITS",
        default_value = OutputLimits::DEFAULT
    )]
    pub(crate) client_output_buffer_limit: OutputLimits,
}

/// Namespaces are numbered behind the databases, in 16 bits.
const DATABASES_MAX: u16 = 65_000;
const _: () =
    assert!(DATABASES_MAX as usize + 2 * lane::NAMESPACES_MAX <= u16::MAX as usize, "each has a number");
/// Where memcached listens.
const MEMCACHED_PORT: u16 = 11211;
/// Where Couchbase listens, and where it is managed.
const COUCHBASE_PORT: u16 = 11210;
const MANAGEMENT_PORT: u16 = 8091;
/// Where Aerospike does.
const AEROSPIKE_PORT: u16 = 3000;

impl ServeSettings {
    /// Where memcached's clients are served: the first, by all lanes.
    pub(crate) fn memcached_ports(&self) -> Option<Ports> {
        self.memcached.ports(MEMCACHED_PORT)
    }

    /// Where Couchbase's clients are served.
    pub(crate) fn couchbase_ports(&self) -> Option<Ports> {
        self.couchbase.ports(COUCHBASE_PORT)
    }

    /// Where they find the map; not without [`ServeSettings::couchbase_ports`].
    pub(crate) fn management_ports(&self) -> Option<Ports> {
        self.couchbase_ports().and(self.couchbase_management.ports(MANAGEMENT_PORT))
    }

    /// Where Aerospike's clients are served.
    pub(crate) fn aerospike_ports(&self) -> Option<Ports> {
        self.aerospike.ports(AEROSPIKE_PORT)
    }
}

/// Why there are no settings.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The command line or the environment; also `--help` and `--version`, which print and end well.
    Usage(clap::Error),
    /// The configuration file: one sentence that names it.
    File(String),
}

/// Reads the command line `arguments` (the program's name first), the environment and the file that they name.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    read_file: impl Fn(&Path) -> io::Result<String>,
) -> Result<Verb, Refusal> {
    let arguments = words::joined(arguments.into_iter().collect());
    let verb = verb_of(program(), &arguments)
        .map_err(|error| Refusal::Usage(hint::explained(error, &arguments, serve_of(&program()))))?;
    let Verb::Serve(settings) = &verb else { return Ok(verb) };
    let Some(path) = &settings.config else { return Ok(verb) };
    let name = path.display();
    let text = read_file(path).map_err(|error| {
        Refusal::File(format!("{name}: {error}; name a readable TOML file with --config, or leave it out"))
    })?;
    let command = program();
    let contents = file::read(&text, serve_of(&command))
        .map_err(|problem| Refusal::File(format!("{name}: {problem}")))?;
    let command = command.mut_subcommand("serve", |serve| file::as_defaults(serve, contents.values));
    // The flags and the environment have just passed on their own, so what fails now came from the file.
    let mut verb = verb_of(command, &arguments)
        .map_err(|error| Refusal::File(format!("{name}: {}", one_line(&error))))?;
    if let Verb::Serve(settings) = &mut verb {
        settings.namespaces = contents.namespaces;
    }
    Ok(verb)
}

/// What the program understands. As large as all that an empty server's control thread holds besides, so it is made anew where it is
/// wanted again, and never there twice.
fn program() -> clap::Command {
    Program::command().mut_subcommand("serve", with_environment)
}

/// What `serve` understands.
fn serve_of(program: &clap::Command) -> &clap::Command {
    program.find_subcommand("serve").expect("serve is a verb")
}

fn verb_of(command: clap::Command, arguments: &[OsString]) -> Result<Verb, clap::Error> {
    let matches = command.try_get_matches_from(arguments)?;
    let mut verb = Program::from_arg_matches(&matches)?.verb;
    if let Verb::Serve(settings) = &mut verb {
        // Empty is none, as in Redis: an unset variable of a script must not look like a password.
        settings.requirepass.take_if(|password| password.is_empty());
        settings.announce_ip.take_if(|host| host.is_empty());
        settings.aclfile.take_if(|path| path.as_os_str().is_empty());
    }
    Ok(verb)
}

/// The sentence for environment variables that look like settings and are none.
pub(crate) fn strange_variables(names: impl Iterator<Item = OsString>) -> Option<String> {
    hint::strange(names, serve_of(&program()))
}

/// Gives every flag its environment variable. Help tells the rule once, and no values: one of them is a password.
fn with_environment(serve: clap::Command) -> clap::Command {
    serve.mut_args(|argument| {
        let Some(flag) = argument.get_long() else { return argument };
        let name = hint::variable(flag);
        argument.env(name).hide_env(true)
    })
}

/// clap's message without its label and its hint at `--help`, in which the flag stands for the file's key.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    message.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
