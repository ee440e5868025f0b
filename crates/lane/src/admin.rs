//! What lanes and the control thread say to each other. To a lane the control thread is one more peer with its own
//! rings: the lane asks it [`Question`]s for its clients, carries out its [`Order`]s and [`Report`]s.

use std::sync::Arc;

use net::Address;
use wire::command::{Command, Id};
use wire::reply::Proto;

use crate::Settings;
use crate::acl::{Change, UserId};
use crate::client::{Announced, Client, Port, Traits};
use crate::departure::{Departing, Departure};
use crate::documents;
use crate::histogram::Histogram;
use crate::pubsub::{KIND_COUNT, Name, Query};
use crate::recent::Buffers;
use crate::replies::Content;
use crate::request::Request;
use crate::scripts::ScriptOrder;
use crate::stats::{Stats, Traffic};
use crate::tally::Tally;
use crate::timing::{Stall, Times};
use crate::tracking::{Shown, Track, Tracking, Wishes};
use crate::transaction::RunningFunction;

/// From the control thread to a lane.
#[derive(Clone)]
pub(crate) enum Order {
    /// Count everything.
    Census,
    /// Describe the clients that match.
    List(Arc<Filter>),
    /// Close the clients that match.
    Kill(Arc<Filter>),
    /// Hold commands of clients back.
    Pause(Pause),
    /// Report when what had begun before the pause is over, or the pause.
    Settle,
    /// Let them go on.
    Unpause,
    /// Hold what writes back, for the snapshot of the end is about to be taken; report when nothing is under way that clients of this lane
    /// have begun. Or let it go on: there is no end after all.
    HoldWrites(bool),
    /// This client of this lane wants to see every command from now on.
    Monitor { lane: u16, client: u64 },
    /// Nobody wants to any more.
    EndMonitor,
    /// Describe what is at a key of a database, if it is on this lane.
    Inspect(u16, Arc<Vec<u8>>),
    /// Take out keys whose time has come, or leave them until somebody looks.
    ActiveExpiry(bool),
    /// Do nothing at all for so many nanoseconds.
    Sleep(u64),
    /// From now on these are the users.
    Users(Arc<Change>),
    /// From now on these are the settings.
    Settings(Arc<Settings>),
    /// Count from zero.
    ResetStats,
    /// To know scripts, or none.
    Scripts(ScriptOrder),
    /// Say who has subscribed to what.
    Survey(Arc<Query>),
    /// End scripts, or functions, that have run since before this time, unless they have written. Nanoseconds of the monotonic clock.
    KillScripts { before_ns: u64, are_functions: bool },
    /// Say which function has run longest.
    FindFunction,
    /// This client of the lane is a replica from now on.
    Replica { client: u64 },
    /// Begin snapshot `sync` on all lanes at one point in time, and tell what changes from there on.
    Sync { sync: u64, epoch: u64 },
    /// Report the next piece of a snapshot.
    Walk { sync: u64 },
    /// Nobody wants that snapshot any more. Report when the next may begin.
    EndSnapshot { sync: u64 },
    /// Tell nothing any more of what changes.
    EndFeed { epoch: u64 },
    /// MIGRATE: read a key.
    Read(Departure),
    /// Delete it, unless it has changed since it was read.
    Delete(Departure),
    /// Nobody wants to know any more whether the key of this watch has changed.
    Forget(u64),
    /// A client of the lane says CLIENT TRACKING.
    Track(Arc<Track>),
    /// Of which keys clients of a lane want to know.
    Wishes { lane: u16, wishes: Arc<Wishes> },
}

/// From a lane to the control thread, one for each order.
pub(crate) enum Report {
    Census(Box<Census>),
    List(Vec<Portrait>),
    /// So many clients were closed.
    Killed(u64),
    /// What is at the key.
    Object(String),
    /// The names asked for.
    Names(Vec<Name>),
    /// How many clients have subscribed to each name asked about.
    Counts(Vec<u64>),
    Scripts(KillCount),
    /// The function that has run longest, if one runs.
    Function(Option<Box<RunningFunction>>),
    /// Whether the client is still there.
    Replica(bool),
    /// A piece of snapshot `sync`, and whether it is the last of this lane.
    Piece {
        sync: u64,
        content: Content,
        is_over: bool,
    },
    /// What is at a key that is read; nothing if there is none.
    Departing(Option<Departing>),
    /// Whether a key had changed, and so was not deleted.
    Departed {
        is_changed: bool,
    },
    /// What CLIENT TRACKING has come to.
    Tracking(Tracking),
    /// What had begun before a pause is over.
    Settled,
    Done,
}

/// What became of scripts that were to be ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KillCount {
    pub(crate) killed: u64,
    /// They have written, and go on.
    pub(crate) writing: u64,
    /// Functions where scripts were meant, or the other way round.
    pub(crate) others: u64,
}

/// A command of a client that the lane cannot answer from what it knows.
pub(crate) struct Question {
    pub(crate) command: &'static Command,
    pub(crate) request: Request,
    pub(crate) from: Portrait,
    /// When the lane took it up.
    pub(crate) asked_ns: u64,
}

/// A lane in numbers.
pub(crate) struct Census {
    pub(crate) stats: Stats,
    pub(crate) memory: store::Memory,
    /// What each database holds, Redis' first and namespaces behind them.
    pub(crate) databases: Vec<Holding>,
    /// The largest buffers of clients of late.
    pub(crate) buffers: Buffers,
    /// What commands came to.
    pub(crate) tally: Tally,
    /// And those on documents.
    pub(crate) documents: documents::Tally,
    /// Their times.
    pub(crate) times: Times,
    /// How long turns took.
    pub(crate) turns: Box<Histogram>,
    /// The longest of them, without those that were preempted.
    pub(crate) turn_longest: Stall,
    /// What went through the connections.
    pub(crate) traffic: Traffic,
    /// Bytes of asks of other lanes that wait now.
    pub(crate) ring_depth: u64,
    /// Bytes that scripts hold.
    pub(crate) scripts_size: u64,
    /// Clients that wait for a reply which is not theirs to hurry.
    pub(crate) blocked_count: u64,
    /// Channels, patterns and sharded channels that its clients have subscribed to.
    pub(crate) name_counts: [u64; KIND_COUNT],
}

/// What a database of a lane holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holding {
    pub(crate) keys: u64,
    /// Keys with a time to live.
    pub(crate) expiring: u64,
    /// See [`store::Shard::ends`].
    pub(crate) ends: (u64, i128),
    /// See [`store::Shard::held_by`].
    pub(crate) held: u64,
}

/// CLIENT PAUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) until_ns: u64,
    /// All commands, not only those that write.
    pub(crate) is_for_all: bool,
}

impl Pause {
    /// All that writes, whatever the time.
    pub(crate) const OF_WRITES: Pause = Pause { until_ns: u64::MAX, is_for_all: false };

    /// Whether a client's command has to wait, which may write or not.
    pub(crate) fn holds(self, command: &Command, may_write: bool, client: &Client) -> bool {
        let queued = client.multi.as_ref().filter(|_| command.id == Id::Exec);
        let writes = || queued.is_some_and(|multi| multi.queued.writes);
        self.is_for_all || may_write || writes()
    }

    /// Both of them: the longer time, and all commands if one of them is for all.
    pub(crate) fn and(self, other: Option<Pause>) -> Pause {
        let Some(other) = other else { return self };
        Pause { until_ns: self.until_ns.max(other.until_ns), is_for_all: self.is_for_all || other.is_for_all }
    }
}

/// A client as CLIENT LIST shows it.
#[derive(Clone)]
pub(crate) struct Portrait {
    pub(crate) id: u64,
    /// Its name on its lane; 0 unless that was asked.
    pub(crate) handle: u64,
    /// If it tracks keys, and if its lane was asked.
    pub(crate) tracking: Option<Shown>,
    pub(crate) lane: u16,
    pub(crate) port: Port,
    pub(crate) peer: Address,
    pub(crate) local: Address,
    pub(crate) proto: Proto,
    pub(crate) db: u16,
    pub(crate) user: UserId,
    pub(crate) name: Box<[u8]>,
    pub(crate) library: Box<[u8]>,
    pub(crate) library_version: Box<[u8]>,
    pub(crate) last: Option<&'static Command>,
    pub(crate) traits: Traits,
    pub(crate) opened_ns: u64,
    pub(crate) active_ns: u64,
    /// Commands queued by MULTI and their bytes; none outside a MULTI.
    pub(crate) multi: Option<(usize, usize)>,
    /// Keys watched.
    pub(crate) watch_count: usize,
    /// Connection handle's index: what stands where Redis shows a file descriptor.
    pub(crate) conn_index: u32,
    /// Bytes of an unfinished command.
    pub(crate) input_size: usize,
    /// Bytes of replies that have not left.
    pub(crate) output_size: usize,
    /// All that it holds.
    pub(crate) total_size: usize,
    pub(crate) is_leaving: bool,
    pub(crate) is_monitor: bool,
    pub(crate) is_subscribed: bool,
    pub(crate) is_replica: bool,
    /// What it has said by REPLCONF.
    pub(crate) announced: Option<Announced>,
    /// Channels, patterns and sharded channels that it has subscribed to.
    pub(crate) name_counts: [usize; KIND_COUNT],
}

impl Portrait {
    /// Of a client of `lane`, for whose connection the net keeps so many bytes of input and output.
    pub(crate) fn of(client: &Client, lane: u16, (unread, unsent): (usize, usize)) -> Portrait {
        Portrait {
            id: client.id,
            handle: 0,
            tracking: None,
            lane,
            port: client.port,
            peer: client.peer,
            local: client.local,
            proto: client.proto,
            db: client.db,
            user: client.user,
            name: client.name.clone(),
            library: client.library.clone(),
            library_version: client.library_version.clone(),
            last: client.last,
            traits: client.traits,
            opened_ns: client.opened_ns,
            active_ns: client.active_ns,
            multi: client.multi.as_ref().map(|multi| (multi.queued.commands.len(), multi.size)),
            watch_count: client.watch.names.len(),
            conn_index: client.conn.index(),
            input_size: unread + client.gathered_size(),
            output_size: unsent + client.replies.size(),
            is_leaving: client.is_leaving,
            total_size: client.weight() + unread + unsent,
            is_monitor: client.is_monitor,
            is_subscribed: client.is_subscribed,
            is_replica: client.is_replica,
            announced: client.following.as_ref().map(|following| following.announced.clone()),
            name_counts: client.name_counts(),
        }
    }
}

/// The types of clients that CLIENT LIST and CLIENT KILL tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    Normal,
    /// Has subscribed to something.
    Pubsub,
    Replica,
    /// Of a server that this one follows: there is none.
    Master,
}

impl ClientKind {
    fn of(client: &Client) -> ClientKind {
        match () {
            () if client.is_replica => ClientKind::Replica,
            () if client.is_subscribed => ClientKind::Pubsub,
            () => ClientKind::Normal,
        }
    }
}

/// Which clients are meant: those that match everything that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) ids: Option<Vec<u64>>,
    pub(crate) peer: Option<String>,
    pub(crate) local: Option<String>,
    pub(crate) user: Option<UserId>,
    /// Of this type.
    pub(crate) kind: Option<ClientKind>,
    /// At least so old, seconds.
    pub(crate) age_s_min: Option<u64>,
    /// All but this one.
    pub(crate) skipped_id: Option<u64>,
    /// The one that asks: it is closed after its reply.
    pub(crate) asker_id: u64,
}

impl Filter {
    /// Whether it means a client.
    pub(crate) fn covers(&self, client: &Client, settings: &Settings, now_ns: u64) -> bool {
        let age_s = now_ns.saturating_sub(client.opened_ns) / 1_000_000_000;
        !client.is_inner
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && self.peer.as_ref().is_none_or(|peer| *peer == settings.address(client.peer))
            && self.local.as_ref().is_none_or(|local| *local == settings.address(client.local))
            && self.user.is_none_or(|user| user == client.user)
            && self.kind.is_none_or(|kind| kind == ClientKind::of(client))
            && self.age_s_min.is_none_or(|age_s_min| age_s_min <= age_s)
            && self.skipped_id != Some(client.id)
    }
}
