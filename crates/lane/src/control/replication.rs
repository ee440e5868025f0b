//! Replicas: servers that follow this one, as `redis-server --replicaof` does. docs/replication.md is the lecture.
//!
//! ```text
//! PSYNC ─▶ waits ─▶ cuts ─▶ loads ─▶ (says so) ─▶ follows
//!                   SYNC of   pieces of all        the stream, from where
//!                   all lanes lanes' snapshots     the snapshot began
//! ```
//! Lanes tell their changes in records; [`Merger`] gives them one order, [`Log`] keeps the bytes. One snapshot is made at a time, as
//! fast as its replica takes it. What a replica has not taken is bounded by `client-output-buffer-limit replica`.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use wire::client::command;
use wire::command::Id;
use wire::number::{format_i64, parse_i64};
use wire::rdb::crc::Crc64;
use wire::rdb::file;
use wire::reply;

use super::{Asker, Begun, Control, Machine};
use crate::Now;
use crate::admin::{Filter, Order, Portrait, Question, address};
use crate::feed::{Record, Unit};
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::replies::Content;
use crate::request::Args;

mod log;
mod merge;

use log::Log;
use merge::{Merged, Merger};

/// Bytes that may be on the way to a replica, or in its connection's output.
const WINDOW_SIZE: usize = 1024 * 1024;
/// Bytes of a snapshot that wait for their replica before lanes are asked for more.
const AHEAD_SIZE: usize = 1024 * 1024;
/// How often replicas are looked at.
const LOOK_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

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
}

struct Replica {
    lane: u16,
    client: u64,
    /// Its number among clients.
    id: u64,
    ip: String,
    /// The port on which it listens, as it has said.
    port: u16,
    /// It understands a snapshot whose length is not known beforehand.
    takes_any_length: bool,
    /// It says how far it has come. One that has said SYNC does not.
    acknowledges: bool,
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
    /// Bytes that wait for it.
    fn unread(&self, log: &Log) -> u64 {
        let stream = if self.stage == Stage::Waits { 0 } else { log.end() - self.position };
        stream + self.ahead_size as u64
    }

    fn push(&mut self, bytes: Vec<u8>) {
        self.ahead_size += bytes.len();
        self.ahead.push_back(Arc::new(bytes));
    }

    fn lag_s(&self, now: Now) -> u64 {
        now.mono_ns.saturating_sub(self.acked_ns) / SECOND_NS
    }

    fn is_good(&self, now: Now, lag_s_max: u64) -> bool {
        self.stage == Stage::Follows && self.lag_s(now) <= lag_s_max
    }
}

/// The snapshot that is made.
struct Syncing {
    sync: u64,
    /// Whose it is; none if nobody wants it any more.
    client: Option<(u16, u64)>,
    /// By lane: all of it is here.
    are_over: Vec<bool>,
    /// By lane: it has been asked for a piece.
    are_asked: Vec<bool>,
    has_begun: bool,
    crc: Crc64,
    /// What ends a snapshot whose length is not known beforehand.
    mark: String,
    /// A snapshot whose length has to be known, until it is.
    held: Vec<Vec<u8>>,
    held_size: usize,
    /// The order to forget it.
    ending: Option<u64>,
}

/// Who has said WAIT.
struct Waiter {
    asker: Asker,
    count: u64,
    /// The newest record when it asked.
    number: u64,
    /// The end of the stream when that was in it.
    offset: Option<u64>,
    until_ns: Option<u64>,
}

/// What the control thread knows of replicas.
#[derive(Default)]
pub(super) struct Replication {
    replicas: Vec<Replica>,
    /// Lanes tell their changes.
    is_fed: bool,
    epoch: u64,
    sync_newest: u64,
    syncing: Option<Syncing>,
    merger: Merger,
    log: Log,
    /// The database in which the stream is.
    selected: Option<u16>,
    waiters: Vec<Waiter>,
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

    /// Appends commands to the stream.
    fn write(&mut self, units: Vec<Unit>) {
        let count: usize = units.iter().map(|unit| unit.command_count).sum();
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
        let Portrait { id, peer, announced, .. } = &question.from;
        let announced = announced.clone().unwrap_or_default();
        let peer = address(*peer);
        let host = peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host);
        let args = Args::Owned(&question.request);
        let is_psync = question.command.id == Id::Psync;
        let mut replica = Replica {
            lane: asker.lane,
            client: asker.client,
            id: *id,
            ip: announced.ip.unwrap_or_else(|| host.to_owned()),
            port: announced.port,
            takes_any_length: announced.takes_any_length,
            acknowledges: is_psync,
            stage: Stage::Waits,
            ahead: VecDeque::new(),
            ahead_size: 0,
            under_way: 0,
            position: self.replication.log.end(),
            acked: 0,
            acked_ns: now.mono_ns,
            moved_ns: now.mono_ns,
            lags_since_ns: None,
        };
        let whom = format!("{}:{}", replica.ip, replica.port);
        if is_psync && let Some(offset) = self.continues_at(args) {
            replica.position = offset;
            replica.stage = Stage::Follows;
            replica.push(format!("+CONTINUE {}\r\n", self.settings.run_id).into_bytes());
            let left = self.replication.log.end() - offset;
            machine.note(&format!("replica {whom} goes on where it was, {left} bytes behind"));
        } else {
            machine.note(&format!("replica {whom} asks for a snapshot"));
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
    pub(super) fn end_replica(&mut self, lane: u16, client: u64, now: Now, machine: &mut impl Machine) {
        let replicas = &mut self.replication.replicas;
        let Some(at) = replicas.iter().position(|it| it.lane == lane && it.client == client) else { return };
        let gone = replicas.remove(at);
        if replicas.is_empty() {
            self.replication.alone_since_ns = now.mono_ns;
        }
        machine.note(&format!("replica {}:{} has gone", gone.ip, gone.port));
        if self.replication.syncing.as_ref().is_some_and(|syncing| syncing.client == Some((lane, client))) {
            self.abandon_snapshot();
        }
    }

    /// Closes a replica's connection: it comes again, and begins anew.
    fn cut_replica(&mut self, lane: u16, client: u64, why: &str, now: Now, machine: &mut impl Machine) {
        let Some(replica) = self.replication.replica(lane, client) else { return };
        let filter = Filter { ids: Some(vec![replica.id]), ..Filter::default() };
        machine.warn(&format!("replica {}:{} is disconnected: {why}", replica.ip, replica.port));
        self.give(lane..lane + 1, &Order::Kill(Arc::new(filter)), None);
        self.end_replica(lane, client, now, machine);
    }

    /// REPLCONF ACK.
    pub(super) fn hear_ack(&mut self, lane: u16, client: u64, offset: u64, now: Now) {
        let Some(replica) = self.replication.replica(lane, client) else { return };
        replica.acked = replica.acked.max(offset);
        replica.acked_ns = now.mono_ns;
        if replica.stage == Stage::Settles {
            replica.stage = Stage::Follows;
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

    /// Lanes need not tell their changes any more. Replicas that there are begin anew.
    fn end_feed(&mut self, why: &str, now: Now, machine: &mut impl Machine) {
        let named: Vec<(u16, u64)> =
            self.replication.replicas.iter().map(|replica| (replica.lane, replica.client)).collect();
        for (lane, client) in named {
            self.cut_replica(lane, client, why, now, machine);
        }
        self.abandon_snapshot();
        self.replication.is_fed = false;
        self.replication.merger = Merger::default();
        self.replication.log.tear();
        let epoch = self.replication.epoch;
        self.give(0..self.lane_count, &Order::EndFeed { epoch }, None);
    }

    // ---- snapshots

    /// Begins the next replica's snapshot, unless there is one on its way.
    fn begin_snapshot(&mut self) {
        if let Some(Syncing { ending: Some(ticket), .. }) = &self.replication.syncing
            && !self.gathers.contains_key(ticket)
        {
            self.replication.syncing = None;
        }
        if self.replication.syncing.is_some() {
            return;
        }
        let Some(replica) = self.replication.replicas.iter_mut().find(|it| it.stage == Stage::Waits) else {
            return;
        };
        replica.stage = Stage::Cuts;
        replica.position = self.replication.log.end();
        let (lane, client) = (replica.lane, replica.client);
        if !std::mem::replace(&mut self.replication.is_fed, true) {
            self.replication.epoch += 1;
            self.replication.merger = Merger::default();
        }
        self.replication.sync_newest += 1;
        let (sync, epoch) = (self.replication.sync_newest, self.replication.epoch);
        let count = usize::from(self.lane_count);
        self.replication.syncing = Some(Syncing {
            sync,
            client: Some((lane, client)),
            are_over: vec![false; count],
            are_asked: vec![false; count],
            has_begun: false,
            crc: Crc64::default(),
            mark: String::new(),
            held: Vec::new(),
            held_size: 0,
            ending: None,
        });
        self.give(lane..lane + 1, &Order::Sync { sync, epoch }, None);
    }

    /// All lanes have begun a snapshot: the stream goes on from here for its replica.
    fn cut(&mut self, sync: u64, now: Now) {
        let Replication { syncing, replicas, log, selected, .. } = &mut self.replication;
        let Some(syncing) = syncing.as_mut().filter(|syncing| syncing.sync == sync) else { return };
        syncing.has_begun = true;
        *selected = None;
        log.seal();
        let Some((lane, client)) = syncing.client else { return };
        let Some(replica) = replicas.iter_mut().find(|it| it.lane == lane && it.client == client) else {
            return;
        };
        replica.stage = Stage::Loads;
        replica.position = log.end();
        let mut head = Vec::new();
        if replica.acknowledges {
            head.extend(format!("+FULLRESYNC {} {}\r\n", self.settings.run_id, log.end()).into_bytes());
        }
        if replica.takes_any_length {
            // No snapshot ends like that by chance: nobody knows the run's name and the mark's number beforehand.
            syncing.mark = mark(&self.settings.run_id, sync, now);
            head.extend(format!("$EOF:{}\r\n", syncing.mark).into_bytes());
        }
        replica.push(head);
        let mut first = Vec::new();
        let (seconds, offset) = (now.unix_ms / 1000, log.end());
        file::put_head(
            &mut first,
            &[
                ("redis-ver", b"7.0.15"),
                ("redis-bits", b"64"),
                ("ctime", format_i64(seconds).as_bytes()),
                ("repl-stream-db", b"0"),
                ("repl-id", self.settings.run_id.as_bytes()),
                ("repl-offset", offset.to_string().as_bytes()),
            ],
        );
        self.add_piece(first);
    }

    /// Appends to the snapshot.
    fn add_piece(&mut self, piece: Vec<u8>) {
        let Replication { syncing, replicas, .. } = &mut self.replication;
        let Some(syncing) = syncing else { return };
        let Some((lane, client)) = syncing.client else { return };
        let Some(replica) = replicas.iter_mut().find(|it| it.lane == lane && it.client == client) else {
            return;
        };
        syncing.crc.update(&piece);
        if replica.takes_any_length {
            replica.push(piece);
        } else {
            syncing.held_size += piece.len();
            syncing.held.push(piece);
        }
    }

    /// A lane's piece of a snapshot.
    pub(super) fn hear_piece(&mut self, lane: u16, sync: u64, mut content: Content, is_over: bool) {
        let Some(syncing) = self.replication.syncing.as_mut().filter(|syncing| syncing.sync == sync) else {
            return;
        };
        syncing.are_asked[usize::from(lane)] = false;
        syncing.are_over[usize::from(lane)] |= is_over;
        let is_whole = syncing.are_over.iter().all(|is_over| *is_over);
        let mut piece = Vec::with_capacity(content.size());
        flatten(&mut content, &mut piece);
        self.add_piece(piece);
        if is_whole && self.replication.syncing.as_ref().is_some_and(|syncing| syncing.ending.is_none()) {
            self.end_snapshot();
        }
    }

    /// All of it is here.
    fn end_snapshot(&mut self) {
        self.add_piece(vec![file::END]);
        let Some(syncing) = self.replication.syncing.take() else { return };
        let Some((lane, client)) = syncing.client else { return };
        let Some(replica) = self.replication.replica(lane, client) else { return };
        let sum = syncing.crc.value().to_le_bytes();
        if replica.takes_any_length {
            replica.push([&sum, syncing.mark.as_bytes()].concat());
        } else {
            replica.push(format!("${}\r\n", syncing.held_size + sum.len()).into_bytes());
            syncing.held.into_iter().for_each(|piece| replica.push(piece));
            replica.push(sum.to_vec());
        }
        // One that reads until the mark may read too far: it is sent nothing before it says that it has it all.
        replica.stage =
            if replica.acknowledges && replica.takes_any_length { Stage::Settles } else { Stage::Follows };
    }

    /// Nobody wants the snapshot that is made: lanes finish with it by themselves.
    fn abandon_snapshot(&mut self) {
        let Some(syncing) = &mut self.replication.syncing else { return };
        if syncing.ending.is_some() {
            return;
        }
        (syncing.client, syncing.held) = (None, Vec::new());
        // Lanes that have not begun yet will, and then end.
        if syncing.has_begun {
            let sync = syncing.sync;
            let ticket = self.give(0..self.lane_count, &Order::EndSnapshot { sync }, None);
            self.replication.syncing.as_mut().expect("just seen").ending = Some(ticket);
        }
    }

    /// Asks lanes for pieces of the snapshot as long as its replica takes them.
    fn ask_for_pieces(&mut self) {
        let Replication { syncing, replicas, .. } = &mut self.replication;
        let Some(syncing) = syncing.as_mut().filter(|it| it.has_begun && it.ending.is_none()) else { return };
        let Some((lane, client)) = syncing.client else { return self.abandon_snapshot() };
        let replica = replicas.iter().find(|it| it.lane == lane && it.client == client);
        if replica.is_none_or(|replica| replica.ahead_size >= AHEAD_SIZE) {
            return;
        }
        let sync = syncing.sync;
        let lanes: Vec<u16> = (0..)
            .zip(syncing.are_over.iter().zip(&mut syncing.are_asked))
            .filter_map(|(lane, (is_over, is_asked))| {
                let asks = !*is_over && !*is_asked;
                *is_asked |= asks;
                asks.then_some(lane)
            })
            .collect();
        for lane in lanes {
            self.give(lane..lane + 1, &Order::Walk { sync }, None);
        }
    }

    // ---- each turn

    /// Goes on with replicas: merges what lanes have told, sends what there is room for, looks after the slow and the silent.
    pub(super) fn tend_replicas(&mut self, now: Now, machine: &mut impl Machine) {
        if self.replication.replicas.is_empty()
            && !self.replication.is_fed
            && self.replication.waiters.is_empty()
        {
            return;
        }
        while let Some(merged) = self.replication.merger.take() {
            match merged {
                Merged::Apart(units) => units.into_iter().for_each(|unit| self.replication.write(vec![unit])),
                Merged::Together(aside, units) => {
                    aside.into_iter().for_each(|unit| self.replication.write(vec![unit]));
                    self.replication.write(units);
                }
                Merged::Sync(sync) => self.cut(sync, now),
            }
        }
        self.begin_snapshot();
        self.ask_for_pieces();
        self.answer_waiters(now);
        if self.replication.is_fed && self.replication.look_ns <= now.mono_ns {
            self.replication.look_ns = now.mono_ns + LOOK_NS;
            self.look_at_replicas(now, machine);
        }
        self.replication.log.seal();
        self.cut_slow_replicas(now, machine);
        for at in 0..self.replication.replicas.len() {
            self.send_to_replica(at);
        }
        let log = &mut self.replication.log;
        let backlog_size = self.config.value("repl-backlog-size").parse().unwrap_or(0);
        let needed = self.replication.replicas.iter().map(|replica| replica.position).min();
        log.trim(needed.unwrap_or(u64::MAX).min(log.end().saturating_sub(backlog_size)));
        self.judge_replicas(now);
    }

    /// Sends a replica what there is, as much as its window and the ring have room for.
    fn send_to_replica(&mut self, at: usize) {
        loop {
            let Replication { replicas, log, .. } = &mut self.replication;
            let replica = &mut replicas[at];
            if replica.under_way >= WINDOW_SIZE {
                return;
            }
            let is_ahead = !replica.ahead.is_empty();
            let piece = match replica.ahead.front() {
                Some(piece) => Some(Arc::clone(piece)),
                None if replica.stage == Stage::Follows => log.piece(replica.position),
                None => None,
            };
            let Some(piece) = piece else { return };
            let (lane, size) = (replica.lane, piece.len());
            let head = ControlHead { target: replica.client, round: 0, kind: ControlKind::Lines };
            if !self.peer(lane).try_tell(head, &mut Some(Parcel::Lines(piece))) {
                return;
            }
            let replica = &mut self.replication.replicas[at];
            replica.under_way += size;
            if is_ahead {
                replica.ahead.pop_front();
                replica.ahead_size -= size;
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
        if self.replication.ping_ns.saturating_add(ping_ns) <= now.mono_ns {
            self.replication.ping_ns = now.mono_ns;
            self.replication.log.write(|out| command(out, &[b"PING"]));
        }
        for replica in &mut self.replication.replicas {
            // As Redis does: an empty line says that its turn will come.
            if matches!(replica.stage, Stage::Waits | Stage::Cuts) && replica.ahead.is_empty() {
                replica.push(b"\n".to_vec());
            }
        }
        let is_silent = |replica: &Replica| match replica.stage {
            Stage::Waits | Stage::Cuts => false,
            Stage::Loads | Stage::Settles => {
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
            .filter(|replica| is_silent(replica))
            .map(|replica| (replica.lane, replica.client))
            .collect();
        for (lane, client) in silent {
            self.cut_replica(lane, client, "nothing was heard of it for repl-timeout", now, machine);
        }
    }

    /// Replicas that are too far behind are cut off: what is kept for them is bounded.
    fn cut_slow_replicas(&mut self, now: Now, machine: &mut impl Machine) {
        let limits = self.settings.replica_output;
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
            let why = "what it has not taken is more than client-output-buffer-limit replica";
            self.cut_replica(lane, client, why, now, machine);
        }
    }

    // ---- who is there

    fn good_count(&self, now: Now) -> u64 {
        let lag_s_max = self.config.value("min-replicas-max-lag").parse().unwrap_or(0);
        let good = self.replication.replicas.iter().filter(|replica| replica.is_good(now, lag_s_max));
        good.count() as u64
    }

    /// Whether there are as many as `min-replicas-to-write` wants.
    pub(super) fn lacks_replicas(&self, now: Now) -> bool {
        let number = |name: &str| self.config.value(name).parse::<u64>().unwrap_or(0);
        let wanted = number("min-replicas-to-write");
        // As in Redis, a lag of 0 asks for none.
        number("min-replicas-max-lag") > 0 && self.good_count(now) < wanted
    }

    fn judge_replicas(&mut self, now: Now) {
        let lacks_replicas = self.lacks_replicas(now);
        if lacks_replicas != self.settings.lacks_replicas {
            self.settings.lacks_replicas = lacks_replicas;
            let order = Order::Settings(Arc::new(self.settings.clone()));
            self.give(0..self.lane_count, &order, None);
        }
    }

    /// WAIT numreplicas timeout. Inside MULTI and scripts it does not wait.
    pub(super) fn begin_wait(
        &mut self,
        asker: Asker,
        question: &Question,
        now: Now,
        out: &mut Vec<u8>,
    ) -> Begun {
        let args = Args::Owned(&question.request);
        let Some(count) = parse_i64(args.flat(1)) else {
            reply::error(out, "ERR value is not an integer or out of range");
            return Begun::Answered;
        };
        let timeout_ms = match parse_i64(args.flat(2)) {
            None => {
                reply::error(out, "ERR timeout is not an integer or out of range");
                return Begun::Answered;
            }
            Some(ms) if ms < 0 => {
                reply::error(out, "ERR timeout is negative");
                return Begun::Answered;
            }
            Some(ms) => ms.unsigned_abs(),
        };
        let until_ns = match (asker.is_exec, timeout_ms) {
            (true, _) => Some(now.mono_ns),
            (false, 0) => None,
            (false, ms) => Some(now.mono_ns.saturating_add(ms.saturating_mul(1_000_000))),
        };
        let count = u64::try_from(count).unwrap_or(0);
        let number = self.board.newest_record();
        self.replication.waiters.push(Waiter { asker, count, number, offset: None, until_ns });
        Begun::Waits
    }

    fn answer_waiters(&mut self, now: Now) {
        let Replication { waiters, merger, log, replicas, is_fed, .. } = &mut self.replication;
        let (mut answers, mut asks) = (Vec::new(), false);
        waiters.retain_mut(|waiter| {
            if waiter.offset.is_none() && (!*is_fed || merger.has_passed(waiter.number) || waiter.number == 0)
            {
                waiter.offset = Some(log.end());
                asks = true;
            }
            let has = |replica: &&Replica| {
                replica.stage == Stage::Follows && waiter.offset.is_some_and(|offset| offset <= replica.acked)
            };
            let count = replicas.iter().filter(has).count() as u64;
            let is_over = waiter.offset.is_some() && waiter.count <= count
                || waiter.until_ns.is_some_and(|until_ns| until_ns <= now.mono_ns);
            if is_over {
                answers.push((waiter.asker, count));
            }
            !is_over
        });
        if asks && !waiters.is_empty() && !replicas.is_empty() {
            log.write(|out| command(out, &[b"REPLCONF", b"GETACK", b"*"]));
        }
        for (asker, count) in answers {
            let mut out = Vec::new();
            reply::integer(&mut out, i64::try_from(count).expect("replicas are few"));
            self.answer(asker, &out);
        }
    }

    /// A client that waits has gone.
    pub(super) fn forget_waiter(&mut self, lane: u16, client: u64) {
        self.replication.waiters.retain(|waiter| waiter.asker.lane != lane || waiter.asker.client != client);
    }

    /// ROLE: the offset, and replicas with theirs.
    pub(super) fn role(&self, out: &mut Vec<u8>) {
        let Replication { replicas, log, .. } = &self.replication;
        let following = || replicas.iter().filter(|replica| replica.stage == Stage::Follows);
        let offset = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX);
        reply::array(out, 3);
        reply::bulk(out, b"master");
        reply::integer(out, offset(log.end()));
        reply::array(out, following().count());
        for replica in following() {
            reply::array(out, 3);
            reply::bulk(out, replica.ip.as_bytes());
            reply::bulk(out, replica.port.to_string().as_bytes());
            reply::bulk(out, replica.acked.to_string().as_bytes());
        }
    }

    /// Lines of INFO about replicas.
    pub(super) fn replication_lines(&self, now: Now) -> String {
        let Replication { replicas, log, is_fed, .. } = &self.replication;
        let mut text = String::new();
        let value = |name: &str| self.config.value(name);
        let put = |text: &mut String, name: &str, value: &dyn std::fmt::Display| {
            write!(text, "{name}:{value}\r\n").expect("a string takes all");
        };
        put(&mut text, "role", &"master");
        put(&mut text, "connected_slaves", &replicas.len());
        if value("min-replicas-to-write") != "0" && value("min-replicas-max-lag") != "0" {
            put(&mut text, "min_slaves_good_slaves", &self.good_count(now));
        }
        for (at, replica) in replicas.iter().enumerate() {
            let state = match replica.stage {
                Stage::Waits | Stage::Cuts => "wait_bgsave",
                Stage::Loads | Stage::Settles => "send_bulk",
                Stage::Follows => "online",
            };
            let Replica { ip, port, acked, .. } = replica;
            let lag = replica.lag_s(now);
            write!(text, "slave{at}:ip={ip},port={port},state={state},offset={acked},lag={lag}\r\n")
                .expect("a string takes all");
        }
        put(&mut text, "master_failover_state", &"no-failover");
        put(&mut text, "master_replid", &self.settings.run_id);
        put(&mut text, "master_replid2", &"0".repeat(40));
        put(&mut text, "master_repl_offset", &log.end());
        put(&mut text, "second_repl_offset", &-1);
        put(&mut text, "repl_backlog_active", &u8::from(*is_fed));
        put(&mut text, "repl_backlog_size", &value("repl-backlog-size"));
        put(&mut text, "repl_backlog_first_byte_offset", &if *is_fed { log.start() + 1 } else { 0 });
        put(&mut text, "repl_backlog_histlen", &(log.end() - log.start()));
        text
    }
}

/// Forty hexadecimal digits that no snapshot holds by chance.
fn mark(run_id: &str, sync: u64, now: Now) -> String {
    let mut crc = Crc64::default();
    crc.update(run_id.as_bytes());
    crc.update(&now.mono_ns.to_le_bytes());
    let first = crc.value();
    crc.update(&sync.to_le_bytes());
    format!("{first:016x}{:016x}{:08x}", crc.value(), sync & 0xffff_ffff)
}
