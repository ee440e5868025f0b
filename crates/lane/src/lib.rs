//! The lane: where bytes, commands, data and the other lanes meet. [`Lane::turn`] is the whole life of a request.
//!
//! A lane makes no system call, reads no clock and draws no chance: the backend, the instant and the meter are
//! arguments, so that a whole server runs in one thread under a seed. It reads top down:
//!
//! * `turn`: the round, clients in and out; `serve`: one client's share of it; `client`, `slab`: who they are;
//! * `dispatch`: from a decoded command to what happens; `core`: the lane without its clients;
//! * `oversight`: what stands before commands while clients are paused, somebody monitors or the order is strict;
//!   `pause`: who is held back; `monitor`: what those see;
//! * `keyspace`, `commands`, `connection`, `cluster`, `help`: what commands mean; `request`: their arguments;
//! * `limits`: what clients may hold, and how long they may take; `room`, `lease`: memory runs out, and lanes share
//!   what there is;
//! * `language`, `documents`: the dialects of memcached and Couchbase; `couchbase`, `pages`: what a node of the latter says of
//!   itself;
//! * `namespaces`: what is behind Redis' databases;
//! * `replies`: replies leave in the order the commands came;
//! * `part`, `transaction`, `locks`, `watch`: what takes more than one step or more than one lane;
//! * `departure`: a key that MIGRATE moves to another server;
//! * `pubsub`: messages to whoever listens, `subscribe`, who begins to listen, `spread`, how they get them; `events`: those about keys;
//! * `pin`: to which lane a new connection belongs;
//! * `peers`: what lanes say to each other; `board`: the few words that all see;
//! * `timing`, `histogram`: how long turns and commands take; `tally`, `stats`: what else is counted;
//! * `language`: what a client speaks; `documents`, `records`: what other dialects than Redis' ask of the connection;
//! * `acl`: users, and what they may do;
//! * `control`: the peer that answers what no lane knows by itself; `admin`, `orders`: what it says to lanes.

#![forbid(unsafe_code)]

mod acl;
mod admin;
mod ahead;
mod board;
mod chance;
mod client;
mod cluster;
mod commands;
mod connection;
mod control;
mod core;
mod couchbase;
mod departure;
mod dispatch;
mod documents;
mod events;
mod feed;
mod functions;
mod help;
mod histogram;
mod keyspace;
mod language;
mod lease;
mod limits;
mod locks;
mod monitor;
mod multi;
mod namespaces;
mod orders;
mod oversight;
mod paged;
mod pages;
mod part;
mod pause;
mod peers;
mod pieces;
mod pin;
mod post;
mod pubsub;
mod recent;
mod records;
mod replica;
mod replies;
mod request;
mod room;
mod scripts;
mod secret;
mod serve;
mod sets;
mod slab;
mod snapshot;
mod stats;
mod tally;
mod timing;
mod tracking;
mod transaction;
mod turn;
mod watch;

pub use acl::Users;
pub use board::Board;
pub use client::{Dialect, Door, Port};
#[cfg(any(test, fuzzing))]
pub use control::fuzz;
pub use control::{
    Beside, Control, ControlSetup, CpuShares, FileKind, FileNews, FileOrder, FollowNews, FollowOrder,
    Followed, Identity, Loaded, Machine, Outgoing, Pages, Primary, Reached, Share, Shutdown, Signature,
    Source, Terms, ThreadShares,
};
pub use events::EventClasses;
pub use namespaces::{NAMESPACES_MAX, Namespace, Namespaces};
pub use oversight::READONLY;
pub use peers::{Links, mesh, mesh_placed};
pub use pin::{AutoPin, Dealt, QUEUE_COUNT_MAX, Queue, QueueTable};
pub use records::Aerospike;
pub use request::args_looked_at;
pub use stats::Stats;
pub use timing::Stall;
pub use turn::{Lane, Meter, Next, Setup};

use std::ops::Range;
use std::sync::Arc;

use auth::scram::{ITERATIONS, Mechanism, Verifier};
use net::Address;
use store::{Budget, Policy};
use wire::aerospike;
use wire::route::Ports;

/// What one step of a sliced command may cost.
pub(crate) const SLICE: Budget = Budget::new(256, 16 * 1024);

/// The instant of a turn, read once by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic clock, nanoseconds: for what lasts.
    pub mono_ns: u64,
    /// Wall clock, milliseconds since 1970: for what expires.
    pub unix_ms: i64,
    /// Microseconds behind them, up to 999: for who asks for the time.
    pub us: u16,
}

impl Now {
    /// The last instant of a millisecond that is over, or this one if it is not: nobody has been told a later one of it.
    pub(crate) fn back_at(self, unix_ms: i64) -> Now {
        let us = if unix_ms == self.unix_ms { self.us } else { 999 };
        Now { unix_ms, us, ..self }
    }

    /// Seconds since 1970, and microseconds.
    pub(crate) fn wall(self) -> (i64, i64) {
        (self.unix_ms.div_euclid(1000), self.unix_ms.rem_euclid(1000) * 1000 + i64::from(self.us))
    }
}

/// What a lane is told once, at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `databases`.
    pub database_count: u16,
    /// `requirepass`.
    pub password: Option<Vec<u8>>,
    /// Who Redis' clients may be, and what they may do.
    pub users: Arc<Users>,
    /// The version of Redis whose behaviour is followed; clients gate features on it.
    pub redis_version: &'static str,
    /// `proto-max-bulk-len`, bytes.
    pub bulk_size_max: u64,
    /// `max-item-size`, bytes that memcached would use for a document ([`wire::memcached::item_size`]).
    pub item_size_max: u64,
    /// What Aerospike's clients are served.
    pub aerospike: Aerospike,
    /// What is behind the databases: `[[namespace]]`, `couchbase-bucket`, `aerospike-namespace`.
    pub namespaces: Namespaces,
    /// `client-query-buffer-limit`, bytes of one command under way; the client is closed.
    pub query_size_max: usize,
    /// `client-output-buffer-limit normal`, bytes of replies that a client has not read; the client is closed.
    pub output_size_max: usize,
    /// Its soft limit, bytes: a client that stays above it for longer than `output_soft_s` is closed.
    pub output_soft_size: usize,
    /// Seconds, see `output_soft_size`.
    pub output_soft_s: u64,
    /// `client-output-buffer-limit pubsub`: `output_size_max` of clients that have subscribed.
    pub pubsub_output_size_max: usize,
    /// The same of `output_soft_size`.
    pub pubsub_output_soft_size: usize,
    /// The same of `output_soft_s`.
    pub pubsub_output_soft_s: u64,
    /// `client-output-buffer-limit replica`: what may wait for one.
    pub replica_output: OutputLimits,
    /// `maxmemory-clients`, bytes that all clients together may hold; 0 is no limit. Those that hold most are closed.
    pub clients_size_max: u64,
    /// `maxmemory` of all lanes together, bytes; 0 is no limit.
    pub memory_size_max: u64,
    /// `maxmemory-policy`: what may go to stay within it.
    pub policy: Policy,
    /// Why Redis' clients may not write: `min-replicas-to-write` asks for more replicas than there are, or what was written can't be
    /// kept in files as it should.
    pub writes_refused: Option<&'static str>,
    /// Redis' databases are being loaded: clients have to wait.
    pub is_loading: bool,
    /// They are what another server has said.
    pub follows: Option<Following>,
    /// `rdbcompression`: whether DUMP compresses.
    pub compresses_dumps: bool,
    /// `script-memory-limit`, bytes that scripts may hold on each lane.
    pub script_memory_max: usize,
    /// Reads the meter, which pauses scripts, too; none where nothing is timed.
    pub script_meter: Option<fn() -> u64>,
    /// `tracking-table-max-keys` of all lanes together; 0 is no limit.
    pub tracked_count_max: usize,
    /// `notify-keyspace-events`: what happens to keys and is told to whoever listens.
    pub events: EventClasses,
    /// `timeout`: a client that is silent for so many seconds is closed; 0 never.
    pub timeout_s: u64,
    /// `maxclients` over all lanes; one more is told so and closed.
    pub client_count_max: usize,
    /// Which door each of the net's listeners is, in their order.
    pub doors: Vec<Door>,
    /// `lane-ports`.
    pub lane_ports: Option<Ports>,
    /// `unixsocket`: the path by which such a client's ends are called.
    pub unix_socket: String,
    /// `announce-ip`: the host that clients are told, instead of the one they connected to.
    pub announce_ip: Option<String>,
    /// `announce-port`: the port that clients are told of lane 0, those of the others in the same steps, instead of those
    /// that lanes listen on.
    pub announce_port_base: Option<u16>,
    /// Counts of the lanes' meter in a microsecond; 0: it does not count time, and no command is timed.
    pub meter_per_us: u64,
    /// `order strict`: a command of one key waits at each change of lane until all before it are answered. Otherwise it may
    /// overtake commands of other lanes.
    pub is_strict: bool,
    /// Commands that take so long or longer are told to the control thread: the lesser of `slowlog-log-slower-than` and
    /// `latency-monitor-threshold`.
    pub slow_us: Option<u64>,
    /// `stall-warn`, microseconds: a turn that takes longer is told to the control thread. `None`: no turn is.
    pub stall_us: Option<u64>,
    /// `auto-pin`: how new TCP connections find their lane.
    pub auto_pin: AutoPin,
    /// Where each lane is pinned; empty as good as pinned nowhere.
    pub lane_cpus: Arc<[Option<usize>]>,
    /// Which lane serves which queue, as the control thread has it.
    pub queues: Arc<QueueTable>,
    /// Forty hex digits that no other run of a server has; the lanes' names as nodes are made of it.
    pub run_id: String,
    /// `couchbase`.
    pub couchbase_ports: Option<Ports>,
    /// `couchbase-management`.
    pub management_ports: Option<Ports>,
    /// Larger than that of any earlier run of the server: unix milliseconds at its start. Maps of partitions have it.
    pub map_epoch: i64,
    /// What SCRAM needs of the password, made by [`Settings::set_password`]; empty without one.
    pub verifiers: Arc<[Verifier]>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            database_count: 16,
            password: None,
            users: Arc::default(),
            redis_version: "7.0.15",
            bulk_size_max: 512 * 1024 * 1024,
            item_size_max: 1024 * 1024,
            aerospike: Aerospike::default(),
            namespaces: Namespaces::default(),
            query_size_max: 1024 * 1024 * 1024,
            output_size_max: 1024 * 1024 * 1024,
            output_soft_size: usize::MAX,
            output_soft_s: 0,
            pubsub_output_size_max: 32 * 1024 * 1024,
            pubsub_output_soft_size: 8 * 1024 * 1024,
            pubsub_output_soft_s: 60,
            replica_output: OutputLimits::REPLICA,
            clients_size_max: 0,
            memory_size_max: 0,
            policy: Policy::NoEviction,
            writes_refused: None,
            is_loading: false,
            follows: None,
            compresses_dumps: true,
            script_memory_max: 64 * 1024 * 1024,
            script_meter: None,
            tracked_count_max: 1_000_000,
            events: EventClasses::default(),
            timeout_s: 0,
            client_count_max: 10_000,
            doors: vec![Door::SHARED],
            lane_ports: None,
            unix_socket: String::new(),
            announce_ip: None,
            announce_port_base: None,
            meter_per_us: 0,
            is_strict: false,
            slow_us: Some(10_000),
            stall_us: None,
            auto_pin: AutoPin::None,
            lane_cpus: Arc::default(),
            queues: Arc::default(),
            run_id: "0".repeat(40),
            couchbase_ports: None,
            management_ports: None,
            map_epoch: 0,
            verifiers: Arc::default(),
        }
    }
}

/// How far a server is that follows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// It has all, or serves what it has.
    Serves,
    /// All that the other one has is on its way.
    Loads,
    /// The other one is not there, and what is old is not served (`replica-serve-stale-data no`).
    IsStale,
}

/// How much may wait for a client that does not take it; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes beyond which it is cut off.
    pub size_max: u64,
    /// Bytes beyond which it may not stay for long.
    pub soft_size: u64,
    /// How long that is, seconds.
    pub soft_s: u64,
}

impl OutputLimits {
    /// What Redis has for replicas.
    pub const REPLICA: OutputLimits =
        OutputLimits { size_max: 256 * 1024 * 1024, soft_size: 64 * 1024 * 1024, soft_s: 60 };

    pub(crate) fn is_past_hard(self, size: u64) -> bool {
        self.size_max > 0 && self.size_max < size
    }

    /// Whether it has been above the soft limit for too long; `since_ns` keeps since when it is.
    pub(crate) fn is_past_soft(self, size: u64, since_ns: &mut Option<u64>, now_ns: u64) -> bool {
        if self.soft_size == 0 || size <= self.soft_size {
            *since_ns = None;
            return false;
        }
        let began_ns = *since_ns.get_or_insert(now_ns);
        self.soft_s.saturating_mul(1_000_000_000) < now_ns.saturating_sub(began_ns)
    }
}

impl Settings {
    /// Makes this the password, the default user's too, and what each mechanism keeps of it: milliseconds, unless it is the same as
    /// before. The salt is this run's.
    pub fn set_password(&mut self, password: Option<Vec<u8>>) {
        if self.password == password && self.verifiers.is_empty() == password.is_none() {
            return;
        }
        let verifier = |mechanism, password: &[u8]| {
            Verifier::new(mechanism, password, self.run_id.as_bytes(), ITERATIONS)
        };
        self.verifiers =
            password.iter().flat_map(|password| Mechanism::ALL.map(|of| verifier(of, password))).collect();
        self.aerospike.expect(password.as_deref());
        self.users = Arc::new(self.users.with_password(password.as_deref()));
        self.password = password;
    }

    /// How long strings may be, bytes: those that are brought from elsewhere were as long there.
    pub(crate) fn string_size_max(&self) -> u64 {
        let is_brought = self.is_loading || self.follows.is_some();
        let most = store::ROPE_SIZE_MAX as u64;
        if is_brought { most } else { self.bulk_size_max.min(most) }
    }

    /// The events that are said now: none of what is loaded, from files or from another server, for it has happened long ago.
    pub(crate) fn events_now(&self) -> EventClasses {
        let is_loading = self.is_loading || self.follows == Some(Following::Loads);
        if is_loading { EventClasses::default() } else { self.events }
    }

    /// How long a word of a client may be.
    pub(crate) fn bulk_size_max_of(&self, is_inner: bool) -> u64 {
        if is_inner { self.string_size_max() } else { self.bulk_size_max.min(store::ROPE_SIZE_MAX as u64) }
    }

    /// What all lanes together may hold, bytes; 0: no limit. What is loaded was there before, whatever the limit is now.
    pub(crate) fn room_size(&self) -> u64 {
        if self.is_loading { 0 } else { self.memory_size_max }
    }

    /// How large a command of a client may be, or those that its MULTI has queued, bytes. This program brings what others have let pass.
    pub(crate) fn query_size_max_of(&self, client: &client::Client) -> usize {
        if client.is_inner { usize::MAX } else { self.query_size_max }
    }

    /// Whether commands are looked at one by one before they run, whoever's they are.
    pub(crate) fn wants_oversight(&self) -> bool {
        self.is_strict
            || self.is_loading
            || self.follows.is_some()
            || self.writes_refused.is_some()
            || !self.users.default_user().is_unrestricted()
    }

    /// The history of changes that begins with this run, as mutation tokens name it: 48 bits, as Couchbase's.
    pub(crate) fn history(&self) -> u64 {
        self.run_id.get(..12).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
    }

    /// The database in which clients of a dialect begin: documents lie behind the databases that SELECT knows.
    pub(crate) fn first_database(&self, dialect: Dialect) -> u16 {
        match dialect {
            Dialect::Redis | Dialect::Management => 0,
            Dialect::Memcached | Dialect::Couchbase => self.database_count,
            Dialect::Aerospike => self.database_count + self.namespaces.first_of_records(),
        }
    }

    /// The database of the namespace that the head of a request of Aerospike's names.
    #[inline]
    pub(crate) fn database_of_record(&self, head: &[u8]) -> u16 {
        self.first_database(Dialect::Aerospike) + u16::from(aerospike::Head::namespace_of(head))
    }

    /// All databases, those behind Redis' included.
    pub(crate) fn databases(&self) -> Range<u16> {
        0..self.database_count + self.namespaces.count()
    }

    /// Unread replies that are not taken notice of, bytes: no limit is near.
    pub(crate) fn output_noticed_size(&self) -> usize {
        let of_subscribers = self.pubsub_output_soft_size.min(self.pubsub_output_size_max);
        self.output_soft_size.min(self.output_size_max).min(of_subscribers).min(replies::OUTPUT_HIGH)
    }

    /// Above how many bytes of unread replies a client is behind: those that have subscribed have limits of their own.
    pub(crate) fn output_soft_size_of(&self, client: &client::Client) -> usize {
        if client.is_subscribed { self.pubsub_output_soft_size } else { self.output_soft_size }
    }

    /// The least that `maxmemory-clients` means, bytes, as in Redis: with less nobody could mend the setting.
    const CLIENTS_SIZE_MIN: u64 = 128 * 1024;

    /// What `maxmemory-clients` means, in bytes, when it is given in bytes.
    pub fn clients_size_of(size: u64) -> u64 {
        if size == 0 { 0 } else { size.max(Settings::CLIENTS_SIZE_MIN) }
    }

    /// What `maxmemory-clients` means, in bytes, when it is given as a part of `maxmemory`; without that there is none.
    pub fn clients_size_of_percent(percent: u8, memory_size_max: u64) -> u64 {
        Settings::clients_size_of(memory_size_max / 100 * u64::from(percent))
    }

    /// An end of a connection in Redis' words.
    pub(crate) fn address(&self, end: Address) -> String {
        match end {
            Address::Inet(address) => address.to_string(),
            Address::Unix => format!("{}:0", self.unix_socket),
            Address::Mem(number) => format!("mem:{number}"),
        }
    }

    /// Where a client that came to `local` finds a lane, as MOVED says it.
    pub(crate) fn lane_address(&self, lane: u16, local: Address) -> String {
        let (host, port) = self.lane_ends(lane, local);
        format!("{host}:{port}")
    }

    /// As [`Settings::lane_address`], in its two parts.
    pub(crate) fn lane_ends(&self, lane: u16, local: Address) -> (String, u16) {
        let host = self.host(local);
        let ports = self.lane_ports.unwrap_or(Ports::from(0));
        let first = self.announce_port_base.unwrap_or(ports.first);
        let port = if first == 0 { 0 } else { Ports { first, ..ports }.of(lane) };
        (host, port)
    }

    /// The host that a client is told that came to `local`.
    pub(crate) fn host(&self, local: Address) -> String {
        match (&self.announce_ip, local) {
            (Some(host), _) => host.clone(),
            (None, Address::Inet(address)) => address.ip().to_string(),
            (None, Address::Unix | Address::Mem(_)) => "127.0.0.1".to_owned(),
        }
    }

    /// The name of a lane as a cluster's node: the run's, its last four digits replaced by the lane's number.
    pub(crate) fn node_id(&self, lane: u16) -> String {
        let run = self.run_id.get(..36).unwrap_or(&self.run_id);
        format!("{run}{lane:04x}")
    }
}
