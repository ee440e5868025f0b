//! Replicas: servers that follow this one, as `redis-server --replicaof` does. docs/replication.md is the lecture.
//!
//! ```text
//! PSYNC ─▶ waits ─▶ cuts ─▶ loads ─▶ (says so) ─▶ follows
//!                   SYNC of   pieces of all        the stream, from where
//!                   all lanes lanes' snapshots     the snapshot began
//! ```
//! Lanes tell their changes in records; [`Merger`] gives them one order, [`Log`] keeps the bytes. One snapshot is made at a time, as
//! fast as its replica takes it. What a replica has not taken is bounded by `client-output-buffer-limit replica`.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use wire::client::command;
use wire::command::Id;
use wire::number::{format_i64, parse_i64};
use wire::reply;

use super::{Asker, Begun, Control, FileKind, FileOrder, Machine};
use crate::Now;
use crate::admin::{Filter, Order, Portrait, Question};
use crate::client::LeftOut;
use crate::feed::{Record, Unit};
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::replies::Content;
use crate::request::Args;

mod file;
mod functions;
mod log;
mod merge;
mod seen;
mod sync;

use log::{Log, PIECE_SIZE};
use merge::{Merged, Merger};
pub(super) use seen::Replicas;
use seen::{SyncCounts, Waiter};
use sync::Syncing;

/// Bytes that may be on the way to a replica, or in its connection's output.
const WINDOW_SIZE: usize = 1024 * 1024;
/// Bytes of records that wait for one with a lower number, at most: with more replicas begin anew.
const WAITING_SIZE_MAX: usize = 256 * 1024 * 1024;
/// How often replicas are looked at.
const LOOK_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// How long a replica may take nothing of its snapshot while others wait for theirs.
const LOADS_SLOWLY_NS: u64 = 10 * SECOND_NS;

/// How far a replica has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// For its snapshot to begin.
    Waits,
    /// Lanes are about to begin its snapshot.
    Cuts,
    /// It gets the snapshot.
    Loads,
    /// It has been sent all of it, and has not said yet that it has it.
    Settles,
    Follows,
    /// It wanted the snapshot alone, and has been sent all of it.
    HasAll,
}

struct Replica {
    /// Of a file the number that is the control thread's own.
    lane: u16,
    /// Of a file its number.
    client: u64,
    /// It is one.
    file: Option<FileKind>,
    /// The offset at which it ends.
    ends_at: Option<u64>,
    /// Its number among clients.
    id: u64,
    ip: String,
    /// The port on which it listens, as it has said.
    port: u16,
    /// It understands a snapshot whose length is not known beforehand.
    takes_any_length: bool,
    /// It says how far it has come. One that has said SYNC does not.
    acknowledges: bool,
    /// It wants what there is, and not what changes.
    wants_snapshot_only: bool,
    /// What it does not want of the snapshot.
    leaves_out: LeftOut,
    stage: Stage,
    /// What stands before the stream: the answer and the snapshot.
    ahead: VecDeque<Arc<Vec<u8>>>,
    ahead_size: usize,
    /// Bytes that have been sent to its lane and have not left it.
    under_way: usize,
    /// Offset of the next byte of the stream for it.
    position: u64,
    acked: u64,
    acked_ns: u64,
    /// When it last took something.
    moved_ns: u64,
    /// Since when it has been above the soft limit.
    lags_since_ns: Option<u64>,
}

impl Replica {
    fn new(lane: u16, client: u64, now: Now) -> Replica {
        Replica {
            lane,
            client,
            file: None,
            ends_at: None,
            id: 0,
            ip: String::new(),
            port: 0,
            takes_any_length: false,
            acknowledges: false,
            wants_snapshot_only: false,
            leaves_out: LeftOut::default(),
            stage: Stage::Waits,
            ahead: VecDeque::new(),
            ahead_size: 0,
            under_way: 0,
            position: 0,
            acked: 0,
            acked_ns: now.mono_ns,
            moved_ns: now.mono_ns,
            lags_since_ns: None,
        }
    }

    /// Whether what the stream has had since its position is still to be sent to it.
    fn is_owed_stream(&self) -> bool {
        matches!(self.stage, Stage::Loads | Stage::Settles | Stage::Follows) && !self.wants_snapshot_only
    }

    /// Bytes that wait for it, but for those of a snapshot that is made as fast as it takes it.
    fn unread(&self, log: &Log) -> u64 {
        let stream = if self.is_owed_stream() { log.end() - self.position } else { 0 };
        stream + if self.takes_any_length { 0 } else { self.ahead_size as u64 }
    }

    /// Its lane copies a piece at once, so that none may be long.
    fn push(&mut self, bytes: Vec<u8>) {
        self.ahead_size += bytes.len();
        if bytes.len() <= PIECE_SIZE {
            self.ahead.push_back(Arc::new(bytes));
        } else {
            self.ahead.extend(bytes.chunks(PIECE_SIZE).map(|piece| Arc::new(piece.to_vec())));
        }
    }

    fn lag_s(&self, now: Now) -> u64 {
        now.mono_ns.saturating_sub(self.acked_ns) / SECOND_NS
    }

    fn is_good(&self, now: Now, lag_s_max: u64) -> bool {
        self.stage == Stage::Follows && self.lag_s(now) <= lag_s_max
    }
}

/// What the control thread knows of replicas.
#[derive(Default)]
pub(super) struct Replication {
    replicas: Vec<Replica>,
    /// Lanes tell their changes.
    is_fed: bool,
    epoch: u64,
    /// The order to tell nothing any more, of the epoch before.
    ended_by: u64,
    sync_newest: u64,
    syncing: Option<Syncing>,
    merger: Merger,
    log: Log,
    /// The database in which the stream is.
    selected: Option<u16>,
    waiters: Vec<Waiter>,
    /// Where the stream's last questions to replicas for how far they are begin, and where they end: who waits for what was written
    /// before need not wait for those.
    asked: Range<u64>,
    /// Who need not wait any more and is not told yet, and how many replicas there are; none: somebody has ended it with an error.
    waited: VecDeque<(Asker, Option<u64>)>,
    /// Clients that had gone before it was heard that they are replicas, and replicas that are about to be closed.
    gone_early: BTreeSet<(u16, u64)>,
    cut_off: BTreeSet<(u16, u64)>,
    counts: SyncCounts,
    /// Bytes that replicas were sent.
    sent_size: u64,
    look_ns: u64,
    ping_ns: u64,
    /// Since when there is no replica.
    alone_since_ns: u64,
}

impl Replication {
    /// When something is due that time alone brings about.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let look = self.is_fed.then_some(self.look_ns);
        self.waiters.iter().filter_map(|waiter| waiter.until_ns).chain(look).min()
    }

    fn replica(&mut self, lane: u16, client: u64) -> Option<&mut Replica> {
        self.replicas.iter_mut().find(|replica| replica.lane == lane && replica.client == client)
    }

    /// Appends commands to the stream, all of which are carried out at once unless they are loose.
    fn write(&mut self, units: Vec<Unit>) {
        let is_loose = units.iter().all(|unit| unit.is_loose);
        let count = if is_loose { 1 } else { units.iter().map(|unit| unit.command_count).sum() };
        let mut is_open = false;
        for mut stretch in units.into_iter().flat_map(|unit| unit.stretches) {
            let selects = self.selected.replace(stretch.db) != Some(stretch.db);
            let begins = count > 1 && !std::mem::replace(&mut is_open, true);
            self.log.write(|out| {
                if selects {
                    command(out, &[b"SELECT", format_i64(i64::from(stretch.db)).as_bytes()]);
                }
                if begins {
                    command(out, &[b"MULTI"]);
                }
                flatten(&mut stretch.content, out);
            });
        }
        if count > 1 {
            self.log.write(|out| command(out, &[b"EXEC"]));
        }
    }
}

/// Appends a content's bytes, and leaves nothing of it.
fn flatten(content: &mut Content, out: &mut Vec<u8>) {
    while content.take_front(usize::MAX, |bytes| out.extend_from_slice(bytes), drop) > 0 {}
}

impl Control {
    /// SYNC and PSYNC: whoever says so is a replica from here on.
    pub(super) fn begin_replica(&mut self, asker: Asker, question: &Question, out: &mut Vec<u8>) -> Begun {
        let args = Args::Owned(&question.request);
        if question.command.id == Id::Psync && parse_i64(args.flat(2)).is_none() {
            reply::error(out, "ERR value is not an integer or out of range");
            return Begun::Answered;
        }
        if args.len() > 3 && args.flat(3).eq_ignore_ascii_case(b"failover") {
            reply::error(out, "ERR PSYNC FAILOVER can't be sent to a master.");
            return Begun::Answered;
        }
        if self.leaders.lacks_link() {
            reply::error(out, "NOMASTERLINK Can't SYNC while not connected with my master");
            return Begun::Answered;
        }
        if question.from.output_size > 0 {
            reply::error(out, "ERR SYNC and PSYNC are invalid with pending output");
            return Begun::Answered;
        }
        Begun::AtHome(Order::Replica { client: asker.client })
    }

    /// Its lane knows it as one.
    pub(super) fn admit_replica(
        &mut self,
        asker: Asker,
        question: &Question,
        now: Now,
        machine: &mut impl Machine,
    ) {
        if self.replication.gone_early.remove(&(asker.lane, asker.client)) {
            return;
        }
        let Portrait { id, peer, announced, .. } = &question.from;
        let announced = announced.clone().unwrap_or_default();
        let peer = self.settings.address(*peer);
        let host = peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host);
        let args = Args::Owned(&question.request);
        let is_psync = question.command.id == Id::Psync;
        let mut replica = Replica {
            id: *id,
            ip: announced.ip.unwrap_or_else(|| host.to_owned()),
            port: announced.port,
            takes_any_length: announced.takes_any_length,
            acknowledges: is_psync,
            wants_snapshot_only: announced.wants_snapshot_only,
            leaves_out: announced.leaves_out,
            position: self.replication.log.end(),
            ..Replica::new(asker.lane, asker.client, now)
        };
        let whom = replica.whom();
        let wants_part = is_psync && args.flat(1) != b"?";
        if is_psync && let Some(offset) = self.continues_at(args) {
            self.replication.counts.partial += 1;
            replica.position = offset;
            replica.stage = Stage::Follows;
            replica.push(format!("+CONTINUE {}\r\n", self.settings.run_id).into_bytes());
            let left = self.replication.log.end() - offset;
            machine.note(&format!("{whom} goes on where it was, {left} bytes behind"));
        } else {
            self.replication.counts.full += 1;
            self.replication.counts.partial_refused += u64::from(wants_part);
            machine.note(&format!("{whom} asks for a snapshot"));
        }
        if self.replication.replicas.is_empty() {
            self.replication.look_ns = now.mono_ns + LOOK_NS;
        }
        self.replication.replicas.push(replica);
    }

    /// The offset from which a replica goes on that was away, if the stream still has it: `PSYNC id next`, counted from 1.
    fn continues_at(&self, args: Args<'_>) -> Option<u64> {
        let Replication { log, is_fed, .. } = &self.replication;
        let offset = u64::try_from(parse_i64(args.flat(2))?).ok()?.checked_sub(1)?;
        let is_ours = args.flat(1) == self.settings.run_id.as_bytes();
        (is_ours && *is_fed && (log.start()..=log.end()).contains(&offset)).then_some(offset)
    }

    /// A replica has gone.
    fn end_replica(&mut self, lane: u16, client: u64, now: Now, machine: &mut impl Machine) {
        let replicas = &mut self.replication.replicas;
        let Some(at) = replicas.iter().position(|it| it.lane == lane && it.client == client) else {
            return;
        };
        let gone = replicas.remove(at);
        if replicas.is_empty() {
            self.replication.alone_since_ns = now.mono_ns;
        }
        machine.note(&format!("{} has gone", gone.whom()));
        if self.replication.syncing.as_ref().is_some_and(|syncing| syncing.client == Some((lane, client))) {
            self.abandon_snapshot();
        }
    }

    /// Closes a replica's connection: it comes again, and begins anew.
    fn cut_replica(&mut self, lane: u16, client: u64, why: &str, now: Now, machine: &mut impl Machine) {
        let Some(replica) = self.replication.replica(lane, client) else { return };
        if replica.file.is_some() {
            return self.cut_file(client, why, now, machine);
        }
        machine.warn(&format!("{} is disconnected: {why}", replica.whom()));
        self.close_replica(lane, client, now, machine);
    }

    /// Has a replica's lane close its connection.
    fn close_replica(&mut self, lane: u16, client: u64, now: Now, machine: &mut impl Machine) {
        let Some(replica) = self.replication.replica(lane, client) else { return };
        let filter = Filter { ids: Some(vec![replica.id]), ..Filter::default() };
        self.give(lane..lane + 1, &Order::Kill(Arc::new(filter)), None);
        self.replication.cut_off.insert((lane, client));
        self.end_replica(lane, client, now, machine);
    }

    /// Its lane says that a replica has gone; one that was closed from here is known, and of one that came a moment ago it may not have
    /// been heard yet that it is one.
    pub(super) fn hear_gone(&mut self, lane: u16, client: u64, now: Now, machine: &mut impl Machine) {
        if self.replication.cut_off.remove(&(lane, client)) {
            return;
        }
        if self.replication.replica(lane, client).is_none() {
            self.replication.gone_early.insert((lane, client));
        }
        self.end_replica(lane, client, now, machine);
    }

    /// REPLCONF ACK.
    pub(super) fn hear_ack(&mut self, lane: u16, client: u64, offset: u64, now: Now) {
        let end = self.replication.log.end();
        let Some(replica) = self.replication.replica(lane, client) else { return };
        replica.acked = replica.acked.max(offset.min(end));
        replica.acked_ns = now.mono_ns;
        if replica.stage == Stage::Settles {
            replica.stage = Stage::Follows;
        }
    }

    /// A replica has said something.
    pub(super) fn hear_life(&mut self, lane: u16, client: u64, now: Now) {
        if let Some(replica) = self.replication.replica(lane, client) {
            replica.acked_ns = now.mono_ns;
        }
    }

    /// So many bytes have left a lane for a replica.
    pub(super) fn hear_taken(&mut self, lane: u16, client: u64, count: usize, now: Now) {
        let Some(replica) = self.replication.replica(lane, client) else { return };
        replica.under_way -= count.min(replica.under_way);
        replica.moved_ns = now.mono_ns;
    }

    /// A lane's changes.
    pub(super) fn hear_record(&mut self, record: Record, now: Now, machine: &mut impl Machine) {
        if record.epoch != self.replication.epoch || !self.replication.is_fed {
            return;
        }
        if record.is_broken {
            return self.end_feed(
                "something changed that it can't be told, or faster than it could be told",
                now,
                machine,
            );
        }
        self.replication.merger.add(record);
    }

    /// A transaction that is not over, be it a script that goes on for ever, has changes of all lanes wait behind its own. When they
    /// are too many replicas begin anew.
    fn bound_merger(&mut self, now: Now, machine: &mut impl Machine) {
        if self.replication.merger.waiting_size() > WAITING_SIZE_MAX {
            self.end_feed("a transaction takes too long, and too much changes meanwhile", now, machine);
        }
    }

    /// No lane does anything any more: what was not over, a script that was cut off, keeps nothing else back.
    pub(super) fn close_stream(&mut self) {
        self.replication.merger.close(self.board.newest_record());
    }

    /// Lanes need not tell their changes any more. Replicas that there are begin anew.
    fn end_feed(&mut self, why: &str, now: Now, machine: &mut impl Machine) {
        let named: Vec<(u16, u64)> =
            self.replication.replicas.iter().map(|replica| (replica.lane, replica.client)).collect();
        for (lane, client) in named {
            self.cut_replica(lane, client, why, now, machine);
        }
        self.abandon_snapshot();
        self.replication.is_fed = false;
        self.board.note_sent(u64::MAX);
        self.board.note_logged(u64::MAX);
        self.replication.merger = Merger::default();
        self.replication.log.tear();
        let epoch = self.replication.epoch;
        self.replication.ended_by = self.give(0..self.lane_count, &Order::EndFeed { epoch }, None);
    }

    /// Goes on with replicas: merges what lanes have told, sends what there is room for, looks after the slow and the silent.
    pub(super) fn tend_replicas(&mut self, now: Now, machine: &mut impl Machine) {
        let Replication { replicas, is_fed, syncing, waiters, waited, .. } = &self.replication;
        let is_idle = syncing.is_none() && waiters.is_empty() && waited.is_empty();
        if is_idle && replicas.is_empty() && !*is_fed {
            // The last one may just have been disconnected.
            return self.judge_replicas(now);
        }
        while let Some(merged) = self.replication.merger.take() {
            match merged {
                Merged::Apart(units) => units.into_iter().for_each(|unit| self.replication.write(vec![unit])),
                Merged::Together(aside, units) => {
                    aside.into_iter().for_each(|unit| self.replication.write(vec![unit]));
                    self.replication.write(units);
                }
                Merged::Sync(sync) => self.cut(sync, now, machine),
            }
        }
        self.bound_merger(now, machine);
        self.begin_snapshot();
        self.ask_for_pieces();
        self.answer_waiters(now);
        if self.replication.is_fed && self.replication.look_ns <= now.mono_ns {
            self.replication.look_ns = now.mono_ns + LOOK_NS;
            self.look_at_replicas(now, machine);
        }
        self.replication.log.seal();
        self.cut_slow_replicas(now, machine);
        loop {
            for at in 0..self.replication.replicas.len() {
                self.send_to_replica(at, now, machine);
            }
            // Where a log's file has ended the next one goes on.
            if !self.end_files(now, machine) {
                break;
            }
        }
        let log = &mut self.replication.log;
        let backlog_size = self.config.value("repl-backlog-size").parse().unwrap_or(0);
        let owed = self.replication.replicas.iter().filter(|replica| replica.is_owed_stream());
        let needed = owed.map(|replica| replica.position).min();
        log.trim(needed.unwrap_or(u64::MAX).min(log.end().saturating_sub(backlog_size)));
        self.note_sent();
        self.judge_replicas(now);
    }

    /// Says how far replicas and the log are, for who wants to end the server. One that still gets its snapshot has nothing to lose.
    fn note_sent(&self) {
        let Replication { replicas, log, merger, is_fed, .. } = &self.replication;
        let has_all = |replica: &Replica| {
            replica.stage != Stage::Follows || replica.position == log.end() && replica.under_way == 0
        };
        if !*is_fed {
            self.board.note_sent(u64::MAX);
        } else if replicas.iter().filter(|replica| !replica.is_log()).all(has_all) {
            self.board.note_sent(merger.passed());
        }
        if !self.writes_log() {
            self.board.note_logged(u64::MAX);
        } else if replicas.iter().filter(|replica| replica.is_log()).all(has_all) {
            self.board.note_logged(merger.passed());
        }
    }

    /// Sends a replica what there is, as much as its window and the ring have room for.
    fn send_to_replica(&mut self, at: usize, now: Now, machine: &mut impl Machine) {
        loop {
            let Replication { replicas, log, .. } = &mut self.replication;
            let (before, [replica, ..]) = replicas.split_at_mut(at) else { return };
            // What is on disk has no gaps: nothing is written behind a file that is not written to its end.
            let is_behind = replica.is_log() && before.iter().any(Replica::is_log);
            if is_behind || replica.under_way >= WINDOW_SIZE {
                return;
            }
            let is_ahead = !replica.ahead.is_empty();
            let piece = match replica.ahead.front() {
                Some(piece) => Some(Arc::clone(piece)),
                // What lies behind its end, where a piece ends, is the next file's.
                None if replica.ends_at == Some(replica.position) => None,
                None if replica.stage == Stage::Follows => log.piece(replica.position),
                None => None,
            };
            let Some(piece) = piece else { return };
            let (lane, client, size) = (replica.lane, replica.client, piece.len());
            if replica.file.is_some() {
                machine.write_file(FileOrder::Piece { file: client, bytes: piece });
            } else {
                let head = ControlHead { target: client, round: 0, kind: ControlKind::Lines };
                if !self.peer(lane).try_tell(head, &mut Some(Parcel::Lines(piece))) {
                    return;
                }
                self.replication.sent_size += size as u64;
            }
            let replica = &mut self.replication.replicas[at];
            if replica.under_way == 0 {
                replica.moved_ns = now.mono_ns;
            }
            replica.under_way += size;
            if is_ahead {
                replica.ahead.pop_front();
                replica.ahead_size -= size;
                // One that reads until a mark may read too far: it is sent nothing before it says that it has it all.
                let says_so = replica.acknowledges && replica.takes_any_length;
                if replica.stage == Stage::Settles && replica.ahead.is_empty() && !says_so {
                    replica.stage = Stage::Follows;
                }
            } else {
                replica.position += size as u64;
            }
        }
    }

    /// Once a second: a word to replicas, so that they know the connection, and a look at those that say nothing.
    fn look_at_replicas(&mut self, now: Now, machine: &mut impl Machine) {
        let seconds =
            |name: &str| self.config.value(name).parse::<u64>().unwrap_or(0).saturating_mul(SECOND_NS);
        let (timeout_ns, ping_ns) = (seconds("repl-timeout"), seconds("repl-ping-replica-period"));
        let backlog_ns = seconds("repl-backlog-ttl");
        if self.replication.replicas.is_empty() {
            let alone_ns = now.mono_ns.saturating_sub(self.replication.alone_since_ns);
            if backlog_ns > 0 && backlog_ns <= alone_ns {
                machine.note("no replica has come back: changes are not kept for them any more");
                self.end_feed("", now, machine);
            }
            return;
        }
        let has_remote = self.replication.replicas.iter().any(Replica::is_remote);
        if has_remote && self.replication.ping_ns.saturating_add(ping_ns) <= now.mono_ns {
            self.replication.ping_ns = now.mono_ns;
            self.replication.log.write(|out| command(out, &[b"PING"]));
        }
        for replica in &mut self.replication.replicas {
            // As Redis does: an empty line says that its turn will come.
            let waits = matches!(replica.stage, Stage::Waits | Stage::Cuts);
            if waits && replica.is_remote() && replica.ahead.is_empty() {
                replica.push(b"\n".to_vec());
            }
        }
        let others_wait = self.replication.replicas.iter().any(|replica| replica.stage == Stage::Waits);
        let is_silent = |replica: &Replica| match replica.stage {
            Stage::Waits | Stage::Cuts => false,
            // One that says something and takes nothing keeps others waiting.
            Stage::Loads => {
                let limit_ns = if others_wait { timeout_ns.min(LOADS_SLOWLY_NS) } else { timeout_ns };
                replica.under_way > 0 && limit_ns < now.mono_ns.saturating_sub(replica.moved_ns)
            }
            Stage::Settles | Stage::HasAll => {
                timeout_ns < now.mono_ns.saturating_sub(replica.moved_ns.max(replica.acked_ns))
            }
            Stage::Follows => {
                replica.acknowledges && timeout_ns < now.mono_ns.saturating_sub(replica.acked_ns)
            }
        };
        let silent: Vec<(u16, u64)> = self
            .replication
            .replicas
            .iter()
            .filter(|replica| replica.is_remote() && is_silent(replica))
            .map(|replica| (replica.lane, replica.client))
            .collect();
        for (lane, client) in silent {
            self.cut_replica(lane, client, "nothing was heard of it for repl-timeout", now, machine);
        }
        let done = self.replication.replicas.iter().filter(|it| it.is_remote() && it.stage == Stage::HasAll);
        let done: Vec<(u16, u64)> = done
            .filter(|replica| replica.ahead.is_empty() && replica.under_way == 0)
            .map(|replica| (replica.lane, replica.client))
            .collect();
        for (lane, client) in done {
            self.close_replica(lane, client, now, machine);
        }
    }

    /// Replicas that are too far behind are cut off: what is kept for them is bounded.
    fn cut_slow_replicas(&mut self, now: Now, machine: &mut impl Machine) {
        let mut limits = self.settings.replica_output;
        if limits.size_max > 0 {
            // As in Redis: what is kept anyway is no burden.
            limits.size_max =
                limits.size_max.max(self.config.value("repl-backlog-size").parse().unwrap_or(0));
        }
        let Replication { replicas, log, syncing, .. } = &mut self.replication;
        let held = syncing.as_ref().filter(|it| it.client.is_some()).map_or(0, |it| it.held_size as u64);
        let mut slow = Vec::new();
        for replica in replicas {
            let is_held =
                syncing.as_ref().is_some_and(|it| it.client == Some((replica.lane, replica.client)));
            let unread = replica.unread(log) + if is_held { held } else { 0 };
            let is_past_soft = limits.is_past_soft(unread, &mut replica.lags_since_ns, now.mono_ns);
            if limits.is_past_hard(unread) || is_past_soft {
                slow.push((replica.lane, replica.client));
            }
        }
        for (lane, client) in slow {
            self.replication.counts.slow += 1;
            let why = "what it has not taken is more than client-output-buffer-limit replica";
            self.cut_replica(lane, client, why, now, machine);
        }
    }
}
