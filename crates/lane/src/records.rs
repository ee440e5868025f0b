//! Records apart from their data: what concerns the connection of a client of Aerospike, and what a lane says of itself as a
//! node. The data is `commands/record.rs`.
//!
//! Each lane is a node. Whatever a client asks a node for is answered here, without another lane: a client adds up what
//! nodes say.

use std::fmt::{self, Write as _};

use store::{Policy, Shard};
use wire::aerospike::{Code, EPOCH_S, HEAD, Head, PARTITIONS, TEXT, Verb, admin, info, reply};
use wire::command::{COMMANDS, Command, Id};
use wire::route::{Ports, Slot};

use crate::Settings;
use crate::client::Client;
use crate::connection::{Around, Wish};
use crate::dispatch::{Caller, Flow};
use crate::keyspace::Call;
use crate::replies::Sink;
use crate::request::Args;
use crate::sets::Sets;
use crate::stats::Stats;

/// The version of Aerospike whose behaviour is followed. Clients gate features on it: from 6.0 on they write in batches, from
/// 8.1 on they would ask for transactions.
const BUILD: &str = "7.0.0.0";
const EDITION: &str = "Aerospike Community Edition";
/// What clients may ask for; without `pscans` those before 2021 refuse a node.
const FEATURES: &str = "batch-any;batch-index;cluster-stable;float;peers;pscans;replicas;replicas-all;replicas-master;\
                        truncate-namespace";

/// What Aerospike's clients are served.
#[derive(Clone, Debug)]
pub struct Aerospike {
    /// `max-record-size`, bytes: names, types and values of a record's bins, its set and its key.
    pub record_size_max: u64,
    /// `aerospike`: where lanes listen.
    pub ports: Option<Ports>,
    /// What clients send instead of the password: [`auth::aerospike_credential`] of it.
    pub credential: Option<String>,
}

impl Default for Aerospike {
    fn default() -> Aerospike {
        Aerospike { record_size_max: 1024 * 1024, ports: None, credential: None }
    }
}

impl Aerospike {
    /// Clients have to prove this password. It takes tens of milliseconds, so no lane does it.
    pub(crate) fn expect(&mut self, password: Option<&[u8]>) {
        let password = password.filter(|_| self.ports.is_some());
        self.credential = password.map(auth::aerospike_credential);
    }
}

/// The command that a head asks for.
#[inline]
pub(crate) fn command_of(head: &[u8]) -> &'static Command {
    let id = match Head::from_bytes(head).verb {
        Verb::Get => Id::RecordGet,
        Verb::Write => Id::RecordWrite,
        Verb::Delete => Id::RecordDelete,
        Verb::Scan => Id::RecordScan,
        Verb::Info => Id::RecordInfo,
        Verb::Truncate => Id::RecordTruncate,
        Verb::Say | Verb::Close | Verb::Admin => Id::RecordSay,
    };
    &COMMANDS[id as usize]
}

/// Answers what concerns the connection alone.
pub(crate) fn say(client: &mut Client, call: &Call<'_>, settings: &Settings, sink: &mut Sink<'_>) -> Wish {
    let head = Head::from_bytes(call.args.flat(HEAD));
    match head.verb {
        Verb::Close => return Wish::Leave,
        Verb::Admin => log_in(client, call.args.flat(TEXT), settings, sink),
        _ => reply::put_code(sink, &head, head.code),
    }
    Wish::Nothing
}

/// A security request. The session's token is the credential, which the client has sent itself: every lane knows it, and it
/// ends with the password.
fn log_in(client: &mut Client, body: &[u8], settings: &Settings, sink: &mut Sink<'_>) {
    let say = |sink: &mut Sink<'_>, code: Code| admin::put(sink, body, code, None);
    if settings.password.is_none() {
        return say(sink, Code::SECURITY_NOT_ENABLED);
    }
    let credential = settings.aerospike.credential.as_deref().map(str::as_bytes);
    let is_right = |given: &[u8]| credential.is_some_and(|credential| auth::is_same(given, credential));
    match admin::Request::parse(body) {
        Some(admin::Request::Login { credential: given }) if is_right(given) => {
            client.is_authenticated = true;
            admin::put(sink, body, Code::OK, Some(given));
        }
        Some(admin::Request::Authenticate { proof }) if is_right(proof) => {
            client.is_authenticated = true;
            say(sink, Code::OK);
        }
        Some(admin::Request::Login { .. }) => say(sink, Code::CREDENTIAL),
        Some(admin::Request::Authenticate { .. }) => say(sink, Code::EXPIRED_SESSION),
        Some(admin::Request::Other) => say(sink, Code::INVALID_COMMAND),
        Some(admin::Request::Incomplete) | None => say(sink, Code::INVALID_FIELD),
    }
}

/// A command of a client that has not logged in.
pub(crate) fn send_away(caller: &mut Caller<'_>, args: Args<'_>) -> Flow {
    let head = Head::from_bytes(args.flat(HEAD));
    let sink = &mut caller.sink();
    if head.verb == Verb::Info {
        put_info(args, sink, |_, out| out.push_str("ERROR:80:not authenticated"));
    } else {
        reply::put_code(sink, &head, Code::NOT_AUTHENTICATED);
    }
    Flow::Next
}

/// Refuses a command for which there is no memory.
#[cold]
pub(crate) fn refuse_for_room(call: &Call<'_>, sink: &mut Sink<'_>) {
    let head = Head::from_bytes(call.args.flat(HEAD));
    reply::put_code(sink, &head, Code::OUT_OF_SPACE);
}

/// The lane as a node.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) around: &'a Around<'a>,
    pub(crate) shard: &'a Shard,
    /// Of each namespace of records.
    pub(crate) sets: &'a [Sets],
    pub(crate) stats: &'a Stats,
}

/// Answers an info request.
pub(crate) fn info(node: &Node<'_>, call: &Call<'_>, sink: &mut Sink<'_>) {
    put_info(call.args, sink, |name, out| node.put_value(name, out));
}

/// Bytes of a reply to an info request behind which no more names are answered. Clients ask for few, and all of it is written in one turn.
const INFO_REPLY_MAX: usize = 256 * 1024;
/// What the names behind are answered.
const TOO_MUCH: &str = "ERROR:4:this request asks for too much at a time";

/// Writes each name of an info request and its value.
fn put_info(args: Args<'_>, sink: &mut Sink<'_>, mut put_value: impl FnMut(&str, &mut String)) {
    let mut out = String::new();
    for name in info::names(args.flat(TEXT)) {
        let name = String::from_utf8_lossy(name);
        let _ = write!(out, "{name}\t");
        if out.len() < INFO_REPLY_MAX {
            put_value(&name, &mut out);
        } else {
            out.push_str(TOO_MUCH);
        }
        out.push('\n');
    }
    info::put(sink, out.as_bytes());
}

/// What a lane says to whoever names a namespace that there is not.
const NO_NAMESPACE: &str = "ERROR:20:there is no such namespace";
/// What a lane says to `truncate`, which other names come with.
const NOT_ALONE: &str = "ERROR:4:truncate is asked for alone in a request";

impl Node<'_> {
    fn put_value(&self, name: &str, out: &mut String) {
        let (first, rest) = info::parts(name.as_bytes());
        let _ = match (first, rest) {
            (b"node", b"") => write!(out, "{}", self.name(self.around.lane)),
            (b"partition-generation" | b"peers-generation" | b"rebalance-generation", b"") => {
                write!(out, "{}", self.generation())
            }
            (b"build", b"") => write!(out, "{BUILD}"),
            (b"edition", b"") => write!(out, "{EDITION}"),
            (b"version", b"") => write!(out, "{EDITION} build {BUILD}"),
            (b"status" | b"user-agent-set", _) => write!(out, "ok"),
            (b"features", b"") => write!(out, "{FEATURES}"),
            (b"cluster-name", b"") => write!(out, "null"),
            (b"cluster-stable", _) => write!(out, "{}", self.cluster_key()),
            (b"rack-ids", b"") => self.put_each(out, |out, name| write!(out, "{name}:0")),
            (b"partitions", b"") => write!(out, "{PARTITIONS}"),
            (b"service" | b"service-clear-std" | b"service-clear-alt", b"") => {
                write!(out, "{}", self.address(self.around.lane))
            }
            (b"services", b"") => {
                let others: Vec<String> = self.others().map(|lane| self.address(lane)).collect();
                write!(out, "{}", others.join(";"))
            }
            (b"peers-clear-std" | b"peers-clear-alt", b"") => {
                let peer = |lane: u16| format!("[{},,[{}]]", self.name(lane), self.address(lane));
                let peers: Vec<String> = self.others().map(peer).collect();
                let port = self.port(0);
                write!(out, "{},{port},[{}]", self.generation(), peers.join(","))
            }
            (b"replicas", b"") => self.put_partitions(out, ":0,1,"),
            (b"replicas-all", b"") => self.put_partitions(out, ":1,"),
            (b"replicas-master", b"") => self.put_partitions(out, ":"),
            (b"namespaces", b"") => self.put_each(out, |out, name| write!(out, "{name}")),
            (b"namespace", name) => match self.number(name) {
                Some(number) => self.put_namespace(number, out),
                None => write!(out, "{NO_NAMESPACE}"),
            },
            (b"statistics", b"") => self.put_statistics(out),
            (b"sets", b"") => {
                let names =
                    self.around.settings.namespaces.of_records().map(|(_, namespace)| &namespace.name);
                names.for_each(|name| self.put_sets(name.as_bytes(), b"", out));
                return;
            }
            (b"sets", rest) => {
                let (namespace, set) = info::parts(rest);
                match self.number(namespace) {
                    Some(_) => return self.put_sets(namespace, set, out),
                    None => write!(out, "{NO_NAMESPACE}"),
                }
            }
            // There are neither indexes nor functions.
            (b"sindex" | b"sindex-list" | b"udf-list", _) => Ok(()),
            (b"sindex-create" | b"sindex-delete" | b"udf-put" | b"udf-remove", _) => {
                write!(out, "ERROR:16:there are neither secondary indexes nor functions here")
            }
            (b"truncate" | b"truncate-namespace", options) => {
                let number = info::option(options, b"namespace").and_then(|name| self.number(name));
                write!(out, "{}", if number.is_none() { NO_NAMESPACE } else { NOT_ALONE })
            }
            _ => write!(out, "ERROR:4:unrecognized command"),
        };
    }

    fn settings(&self) -> &Aerospike {
        &self.around.settings.aerospike
    }

    /// The other lanes.
    fn others(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.around.map.lanes()).filter(|lane| *lane != self.around.lane)
    }

    /// The name of a lane as a node. It must stay when the server begins anew, and differ from those of other servers of the
    /// host: it is made of the port.
    fn name(&self, lane: u16) -> String {
        format!("A0{:08X}{lane:04X}", self.port(0))
    }

    /// Of partitions, peers and balance alike: milliseconds of the server's start, in the 31 bits that all clients read. While it
    /// runs, lanes neither come nor go, and what they own does not move. But nodes of the same names may own something else when
    /// it has been started anew, which clients that have not seen its absence would never ask for.
    fn generation(&self) -> i64 {
        self.around.settings.map_epoch & 0x7fff_ffff
    }

    /// Where a lane listens.
    fn port(&self, lane: u16) -> u16 {
        self.settings().ports.map_or(0, |ports| ports.of(lane))
    }

    /// Where a client finds a lane, by the host to which it has come.
    fn address(&self, lane: u16) -> String {
        let host = self.around.settings.host(self.around.local);
        let port = self.port(lane);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The same of all lanes, and another in each run.
    fn cluster_key(&self) -> String {
        self.around.settings.run_id.get(..12).unwrap_or("0").to_uppercase()
    }

    /// The number of the namespace of this name.
    fn number(&self, name: &[u8]) -> Option<u16> {
        let mut named = self.around.settings.namespaces.of_records();
        named.find(|(_, namespace)| namespace.name.as_bytes() == name).map(|(number, _)| number)
    }

    /// Something of each namespace, by its name, with semicolons between.
    fn put_each(&self, out: &mut String, put: impl Fn(&mut String, &str) -> fmt::Result) -> fmt::Result {
        for (index, (_, namespace)) in self.around.settings.namespaces.of_records().enumerate() {
            if index > 0 {
                out.push(';');
            }
            put(out, &namespace.name)?;
        }
        Ok(())
    }

    /// Each namespace with its partitions on this lane, which are the same in all.
    fn put_partitions(&self, out: &mut String, between: &str) -> fmt::Result {
        let lane = self.around.lane;
        let bits = info::bitmap(|partition| self.around.map.owner(Slot::of_partition(partition)).0 == lane);
        self.put_each(out, |out, name| write!(out, "{name}{between}{bits}"))
    }

    /// The sets of a namespace, or one of them, whose name is left out then.
    fn put_sets(&self, namespace: &[u8], set: &[u8], out: &mut String) {
        let settings = self.around.settings;
        let Some(number) = self.number(namespace) else { return };
        let sets = &self.sets[usize::from(number - settings.namespaces.first_of_records())];
        for (label, found) in sets.named(set) {
            let counted = self.shard.labelled(settings.database_count + number, label);
            // What would end the line ends none.
            let name = String::from_utf8_lossy(&found.name).replace(char::is_control, "?");
            if !out.ends_with('\t') {
                out.push(';');
            }
            if set.is_empty() {
                let _ = write!(out, "ns={}:set={name}:", String::from_utf8_lossy(namespace));
            }
            let _ = write!(
                out,
                "objects={objects}:tombstones=0:data_used_bytes={held}:truncate_lut={lut}:sindexes=0:\
                 index_populating=false:truncating=false:default-ttl=0:disable-eviction=false:enable-index=false:\
                 stop-writes-count=0:stop-writes-size=0",
                objects = counted.count,
                held = counted.held,
                lut = found.truncated_ms.map_or(0, |ms| ms - EPOCH_S * 1000),
            );
        }
    }

    fn put_namespace(&self, number: u16, out: &mut String) -> fmt::Result {
        let settings = self.around.settings;
        let db = settings.database_count + number;
        let objects = self.shard.count(db);
        let memory = self.shard.memory();
        let lane_count = u64::from(self.around.map.lanes());
        let share = settings.namespaces.shares(settings.memory_size_max, lane_count)[usize::from(number)];
        let used = self.shard.held_by(db);
        let is_full = settings.policy == Policy::NoEviction && share.is_some_and(|share| share <= used);
        write!(
            out,
            "ns_cluster_size={lanes};effective_replication_factor=1;replication-factor=1;objects={objects};\
             master_objects={objects};prole_objects=0;expiring_objects={expiring};expired_objects={expired};\
             evicted_objects={evicted};memory_used_bytes={used};memory-size={size};default-ttl={ttl};\
             max-record-size={record};single-bin=false;stop_writes={is_full};strong-consistency=false",
            lanes = self.around.map.lanes(),
            expiring = self.shard.expiring_count(db),
            expired = memory.expired,
            evicted = memory.evicted,
            used = used,
            size = share.unwrap_or(settings.memory_size_max),
            ttl = settings.namespaces.of(number).default_ttl_s,
            record = self.settings().record_size_max,
        )
    }

    fn put_statistics(&self, out: &mut String) -> fmt::Result {
        let settings = self.around.settings;
        let databases = settings.namespaces.of_records().map(|(number, _)| settings.database_count + number);
        let commands = self.stats.dialects[crate::Dialect::Aerospike as usize];
        write!(
            out,
            "cluster_size={lanes};cluster_key={key};cluster_integrity=true;objects={objects};\
             client_connections={clients};client_connections_opened={opened};\
             requests={all};requests_direct={direct};requests_forwarded={forwarded}",
            lanes = self.around.map.lanes(),
            key = self.cluster_key(),
            objects = databases.map(|db| self.shard.count(db)).sum::<u64>(),
            clients = self.stats.clients,
            opened = self.stats.connections,
            all = commands.all,
            direct = commands.direct,
            forwarded = commands.forwarded,
        )
    }
}
