//! One client as its lane sees it: the connection's protocol state, what it has asked for and what it waits for.

use std::collections::BTreeSet;
use std::num::NonZero;

use net::{Address, ConnId, Need};
use wire::command::{Command, Id};
use wire::couchbase;
use wire::reply::Proto;
use wire::resp::Decoder;
use wire::route::Slot;

use crate::acl::UserId;
use crate::core::Delivery;
use crate::couchbase::Session;
use crate::language::Language;
use crate::locks::LockName;
use crate::multi::Queue;
use crate::pubsub::{KIND_COUNT, Subscriptions};
use crate::replies::Replies;
use crate::request::Gather;
use crate::watch::WatcherId;

/// Which door a client came through: it decides what the client is told about the other lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The shared port: a standalone Redis of all lanes; other lanes' keys are forwarded.
    Shared,
    /// A lane's own port: a Redis Cluster node; other lanes' keys are answered with MOVED, but in a dialect that knows no such
    /// answer they are forwarded ([`Door::view`]).
    Lane,
}

/// What is spoken at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// RESP2, RESP3 and inline commands.
    Redis,
    /// memcached's text with its meta commands, or its binary protocol, whichever the first byte shows.
    Memcached,
    /// Couchbase's binary protocol.
    Couchbase,
    /// HTTP, as clients of Couchbase ask for the map of partitions.
    Management,
    /// Aerospike's messages, batches, info and security.
    Aerospike,
}

impl Dialect {
    /// All of them, each at the place of its number.
    pub(crate) const ALL: [Dialect; 5] =
        [Dialect::Redis, Dialect::Memcached, Dialect::Couchbase, Dialect::Management, Dialect::Aerospike];
    /// How many there are.
    pub const COUNT: usize = Dialect::ALL.len();

    /// As statistics call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Dialect::Redis => "redis",
            Dialect::Memcached => "memcached",
            Dialect::Couchbase => "couchbase",
            Dialect::Management => "management",
            Dialect::Aerospike => "aerospike",
        }
    }

    /// From `self as u32`.
    pub(crate) fn from_bits(bits: u32) -> Dialect {
        Dialect::ALL[bits as usize]
    }

    /// Whose an error is, by its first word ([`wire::reply::Put::note_error`]).
    pub(crate) fn of_error(word: &[u8]) -> Dialect {
        match word {
            b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Dialect::Memcached,
            b"HTTP" => Dialect::Management,
            word if couchbase::status::is_name(word) => Dialect::Couchbase,
            word if word.starts_with(b"AS_ERR_") => Dialect::Aerospike,
            _ => Dialect::Redis,
        }
    }
}

/// Where clients come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// Whose door it is.
    pub port: Port,
    /// What is spoken there.
    pub dialect: Dialect,
}

impl Door {
    /// The shared port of Redis.
    pub const SHARED: Door = Door { port: Port::Shared, dialect: Dialect::Redis };

    /// What clients that come in here see of the lanes: one server, or nodes that send them on to each other. Only Redis'
    /// clients understand to be sent on; for the others a lane's own port is a place, and all lanes answer there.
    pub(crate) fn view(self) -> Port {
        match self.dialect {
            Dialect::Redis => self.port,
            Dialect::Memcached | Dialect::Couchbase | Dialect::Management | Dialect::Aerospike => {
                Port::Shared
            }
        }
    }
}

/// See the top of this file.
///
/// Its fields lie in this order: what every command looks at stands together, in four of its eight cache lines.
#[repr(C)]
pub(crate) struct Client {
    pub(crate) conn: ConnId,
    /// Its last command.
    pub(crate) last: Option<&'static Command>,
    /// When it was last heard or served, nanoseconds of the monotonic clock.
    pub(crate) active_ns: u64,
    /// A frame too large to look at whole, as far as it has come.
    pub(crate) gather: Option<Box<Gather>>,
    pub(crate) multi: Option<Box<Multi>>,
    /// What it was last found to hold.
    weighed: u64,
    /// Since when its unread replies are above the soft limit.
    pub(crate) lags_since_ns: Option<NonZero<u64>>,
    /// Until then it stands behind those that ask for less, see `turn/queue.rs`.
    pub(crate) behind_until: u32,
    /// Bytes of its name and of what it has said of its library.
    texts_size: u32,
    pub(crate) dialect: Dialect,
    /// What it sees of the lanes.
    pub(crate) port: Port,
    pub(crate) db: u16,
    /// The lane of its last command of one key; kept where the order is strict.
    pub(crate) asked_lane: u16,
    pub(crate) proto: Proto,
    /// What the next look at its input wants.
    pub(crate) need: Need,
    pub(crate) hush: Hush,
    pub(crate) traits: Traits,
    pub(crate) is_authenticated: bool,
    /// While it has not said the password: it stands among [`crate::core::Core::strangers`], at most once.
    pub(crate) is_noted_stranger: bool,
    /// It has said MONITOR.
    pub(crate) is_monitor: bool,
    /// It has said SYNC or PSYNC, and is sent what changes.
    pub(crate) is_replica: bool,
    /// It is this program itself, which saves, loads or follows: see [`crate::oversight`].
    pub(crate) is_inner: bool,
    /// CLIENT PAUSE holds its next command back.
    pub(crate) is_held: bool,
    /// A command is under way that everything behind it waits for.
    pub(crate) is_blocked: bool,
    /// In the queue of clients that are ready.
    pub(crate) is_queued: bool,
    /// Stopped in front of a whole command; goes on when what it waited for is there.
    pub(crate) is_halted: bool,
    /// It is among those that are looked at for what they do not read.
    pub(crate) is_lagging: bool,
    /// It has subscribed to something.
    pub(crate) is_subscribed: bool,
    /// It has said CLIENT TRACKING ON.
    pub(crate) is_tracking: bool,
    /// Messages wait behind the reply of the command under way, which subscribes to something.
    pub(crate) holds_messages: bool,
    /// It sends nothing more; it is closed when it has all its replies.
    pub(crate) has_ended: bool,
    /// It broke the protocol or said QUIT: nothing more is read, and it is closed when it has all its replies.
    pub(crate) is_leaving: bool,
    /// Who it is.
    pub(crate) user: UserId,
    pub(crate) replies: Replies,
    /// What it speaks, and how far its next command has been read. RESP's is short.
    pub(crate) language: Language,
    /// Slots in its replies when it was halted: with fewer, another try may succeed.
    pub(crate) halted_slot_count: u32,
    /// The lane of the channel of its last PUBLISH.
    pub(crate) published_to: u16,
    /// What a client of Couchbase and this node have agreed on.
    pub(crate) session: Option<Box<Session>>,
    pub(crate) watch: Watch,
    /// What it has subscribed to.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// Grows from 1 over all lanes; what CLIENT ID says.
    pub(crate) id: u64,
    /// When it came.
    pub(crate) opened_ns: u64,
    /// Of a replica, or what is about to be one.
    pub(crate) following: Option<Box<Following>>,
    /// Bytes of replies that it had taken when it was looked at for its silence.
    pub(crate) taken_size: u64,
    /// While it has not said the password: since when.
    pub(crate) stranger_since_ns: u64,
    pub(crate) name: Box<[u8]>,
    /// What CLIENT SETINFO has noted.
    pub(crate) library: Box<[u8]>,
    pub(crate) library_version: Box<[u8]>,
    /// The address it connected to: what it is told about other lanes has the same host.
    pub(crate) local: Address,
    /// The client's own address.
    pub(crate) peer: Address,
}

/// What is kept of a replica beside what is kept of every client.
#[derive(Default)]
pub(crate) struct Following {
    /// What it has said by REPLCONF.
    pub(crate) announced: Announced,
    /// Bytes that its connection had had before, that it was sent, and of how many of those the control thread knows that they have left.
    pub(crate) had_size: u64,
    pub(crate) sent_size: u64,
    pub(crate) told_size: u64,
}

/// What a replica says of itself by REPLCONF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    /// On which port it listens; 0 if it has not said.
    pub(crate) port: u16,
    /// Its address, where it is another one than its connection's.
    pub(crate) ip: Option<String>,
    /// It reads a snapshot whose length is not known beforehand.
    pub(crate) takes_any_length: bool,
    /// It wants what there is, and not what changes.
    pub(crate) wants_snapshot_only: bool,
    /// What it does not want of that.
    pub(crate) leaves_out: LeftOut,
}

/// Parts of a snapshot that a replica does not want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) keys: bool,
    pub(crate) functions: bool,
}

/// Whether the client hears replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hush {
    #[default]
    Heard,
    /// All but that of its next command.
    Next,
    /// None, until it says CLIENT REPLY ON.
    Off,
}

/// What a client has asked for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// CLIENT NO-EVICT.
    pub(crate) is_kept: bool,
    /// CLIENT NO-TOUCH.
    pub(crate) leaves_no_trace: bool,
    /// READONLY.
    pub(crate) reads_copies: bool,
}

/// Commands between MULTI and EXEC.
#[derive(Default)]
pub(crate) struct Multi {
    pub(crate) queued: Queue,
    /// What all requests queued count for, bytes.
    pub(crate) size: usize,
    /// One of them was refused: EXEC answers EXECABORT.
    pub(crate) is_broken: bool,
    /// On a lane's own port: the slot of the first keys, and whether there are keys of others, which EXEC then refuses.
    pub(crate) slot: Option<Slot>,
    /// See `slot`.
    pub(crate) has_slots: bool,
}

/// What the client watches.
#[derive(Default)]
pub(crate) struct Watch {
    /// Counts from one EXEC, DISCARD or UNWATCH to the next.
    pub(crate) round: u32,
    /// Keys watched, with their lanes; [`WATCHED_COUNT_MAX`] at most.
    pub(crate) names: BTreeSet<(u16, LockName)>,
    /// Bytes that they take: here, and as keys on their lanes.
    pub(crate) size: u32,
}

impl Watch {
    /// Ends a round. Gives what was watched in it.
    pub(crate) fn end(&mut self) -> BTreeSet<(u16, LockName)> {
        self.round = self.round.wrapping_add(1);
        self.size = 0;
        std::mem::take(&mut self.names)
    }
}

/// Bytes that a watched key takes beside its own: its places in three trees.
pub(crate) const WATCHED_SIZE: usize = 208;

/// Keys that a client may watch at a time; a WATCH of more is refused. Beginning and ending to watch, and EXEC's look
/// at what has changed, are steps of no more than this.
pub(crate) const WATCHED_COUNT_MAX: usize = 1024;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) peer: Address,
    pub(crate) local: Address,
}

// A page of 64 of them, each with its generation, is 32 KiB: a little more takes 40 of the heap.
const _: () = assert!(size_of::<Client>() <= 504, "a client takes more room than it may");

impl Client {
    /// It stops in front of its next command, until what that waits for is there.
    pub(crate) fn halt(&mut self) {
        self.is_halted = true;
        self.halted_slot_count = u32::try_from(self.replies.slot_count()).expect("slots have a limit");
    }

    /// It has said WAIT, and waits.
    pub(crate) fn waits_for_replicas(&self) -> bool {
        self.is_blocked && self.last.is_some_and(|command| command.id == Id::Wait)
    }

    pub(crate) fn new(
        conn: ConnId,
        door: Door,
        ends: Ends,
        id: u64,
        now_ns: u64,
        is_authenticated: bool,
    ) -> Client {
        Client {
            conn,
            dialect: door.dialect,
            port: door.view(),
            local: ends.local,
            peer: ends.peer,
            opened_ns: now_ns,
            active_ns: now_ns,
            taken_size: 0,
            last: None,
            library: Box::default(),
            library_version: Box::default(),
            traits: Traits::default(),
            hush: Hush::Heard,
            asked_lane: 0,
            is_monitor: false,
            is_replica: false,
            is_inner: false,
            following: None,
            is_held: false,
            id,
            name: Box::default(),
            proto: Proto::Resp2,
            db: 0,
            is_authenticated,
            stranger_since_ns: now_ns,
            // The lane notes who comes as one.
            is_noted_stranger: !is_authenticated,
            // Of another dialect its lane gives it the one it speaks.
            language: Language::Resp(Decoder::default()),
            gather: None,
            replies: Replies::default(),
            multi: None,
            session: None,
            watch: Watch::default(),
            subscriptions: None,
            published_to: 0,
            is_blocked: false,
            is_queued: false,
            is_halted: false,
            halted_slot_count: 0,
            need: Need::More,
            lags_since_ns: None,
            behind_until: 0,
            is_lagging: false,
            weighed: 0,
            texts_size: 0,
            is_subscribed: false,
            is_tracking: false,
            holds_messages: false,
            has_ended: false,
            is_leaving: false,
            user: UserId::DEFAULT,
        }
    }

    /// A copy without a connection, for commands that run inside a MULTI: what they change comes back by
    /// [`Client::become_as`].
    pub(crate) fn stand_in(&self) -> Client {
        let ends = Ends { peer: self.peer, local: self.local };
        let door = Door { port: self.port, dialect: self.dialect };
        Client {
            last: self.last,
            active_ns: self.active_ns,
            texts_size: self.texts_size,
            library: self.library.clone(),
            library_version: self.library_version.clone(),
            traits: self.traits,
            // What is not heard of this command is heard of the next.
            hush: if self.hush == Hush::Next { Hush::Heard } else { self.hush },
            name: self.name.clone(),
            proto: self.proto,
            db: self.db,
            is_subscribed: self.is_subscribed,
            user: self.user,
            ..Client::new(self.conn, door, ends, self.id, self.opened_ns, self.is_authenticated)
        }
    }

    /// Takes over what commands have changed in a copy.
    pub(crate) fn become_as(&mut self, stand_in: Client) {
        self.library = stand_in.library;
        self.library_version = stand_in.library_version;
        self.traits = stand_in.traits;
        self.hush = stand_in.hush;
        self.name = stand_in.name;
        self.weigh_texts();
        self.proto = stand_in.proto;
        self.is_authenticated = stand_in.is_authenticated;
        self.user = stand_in.user;
    }

    /// Whoever changes its name, or what it has said of its library, calls this.
    pub(crate) fn weigh_texts(&mut self) {
        let size = self.name.len() + self.library.len() + self.library_version.len();
        self.texts_size = u32::try_from(size).unwrap_or(u32::MAX);
    }

    /// The reply of a command that had its slot kept, and what the command has made of the client.
    pub(crate) fn take(&mut self, delivery: Delivery) {
        self.replies.fill(delivery.slot, delivery.content);
        if let Some(db) = delivery.db {
            self.db = db;
        }
        if let Some(stand_in) = delivery.stand_in {
            self.become_as(*stand_in);
        }
    }

    /// The name under which it watches on the lanes that own the keys.
    pub(crate) fn watcher(&self, lane: u16, client: u64) -> WatcherId {
        WatcherId { lane, client, round: self.watch.round }
    }

    /// Bytes that have come of a request that is not whole, apart from what the net keeps.
    pub(crate) fn gathered_size(&self) -> usize {
        self.gather.as_ref().map_or(0, |gather| gather.size()) + self.language.held_size()
    }

    /// Bytes that it holds, apart from what the net keeps for it.
    #[inline(always)]
    pub(crate) fn weight(&self) -> usize {
        let plain = size_of::<Client>() + self.replies.size() + self.texts_size as usize;
        let has_names = self.is_subscribed | (self.watch.size > 0);
        let has_more =
            self.gather.is_some() || self.multi.is_some() || has_names || self.language.held_size() > 0;
        if has_more { plain + self.weight_of_more() } else { plain }
    }

    /// Of what few hold.
    #[cold]
    #[inline(never)]
    fn weight_of_more(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.size);
        let subscribed =
            if self.is_subscribed { self.subscriptions.as_ref().map_or(0, |it| it.size()) } else { 0 };
        self.gathered_size() + queued + subscribed + self.watch.size as usize
    }

    /// Weighs it, and gives what all clients hold now if they held `total` before.
    #[inline(always)]
    pub(crate) fn weigh(&mut self, total: u64) -> u64 {
        let weight = self.weight() as u64;
        total - std::mem::replace(&mut self.weighed, weight) + weight
    }

    /// Channels, patterns and sharded channels that it has subscribed to.
    pub(crate) fn name_counts(&self) -> [usize; KIND_COUNT] {
        self.subscriptions.as_ref().map_or([0; KIND_COUNT], |subscriptions| subscriptions.counts())
    }

    /// What it was last found to hold.
    pub(crate) fn weighed(&self) -> u64 {
        self.weighed
    }

    /// Whether a barrier may begin: everything before it is answered.
    pub(crate) fn is_even(&self) -> bool {
        self.replies.open_count() == 0
    }
}
