//! Snapshots for replicas: one at a time, of all lanes at one point in time, a piece whenever its replica has taken others.

use wire::number::format_i64;
use wire::rdb::crc::Crc64;
use wire::rdb::file;

use super::super::{Control, FileKind, Machine};
use super::merge::Merger;
use super::{Replication, Stage, flatten};
use crate::Now;
use crate::admin::Order;
use crate::replies::Content;

/// Bytes of a snapshot that wait for their replica before lanes are asked for more.
const AHEAD_SIZE: usize = 1024 * 1024;

/// The snapshot that is made.
pub(super) struct Syncing {
    sync: u64,
    /// Whose it is; none if nobody wants it any more.
    pub(super) client: Option<(u16, u64)>,
    /// The order to begin it.
    begun_by: u64,
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
    pub(super) held_size: usize,
    /// The order to forget it.
    ending: Option<u64>,
}

impl Control {
    /// Begins the next replica's snapshot, unless there is one on its way.
    pub(super) fn begin_snapshot(&mut self) {
        self.end_abandoned();
        // A lane that still told what changes in the epoch before would draw numbers that are missing in the next.
        if self.replication.syncing.is_some() || self.gathers.contains_key(&self.replication.ended_by) {
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
            self.board.note_sent(0);
            self.replication.merger = Merger::default();
        }
        self.replication.sync_newest += 1;
        let (sync, epoch) = (self.replication.sync_newest, self.replication.epoch);
        let count = usize::from(self.lane_count);
        // A file has no lane; any can begin.
        let begins = lane % self.lane_count;
        let begun_by = self.give(begins..begins + 1, &Order::Sync { sync, epoch }, None);
        self.replication.syncing = Some(Syncing {
            sync,
            begun_by,
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
    }

    /// All lanes have begun a snapshot: the stream goes on from here for its replica.
    pub(super) fn cut(&mut self, sync: u64, now: Now, machine: &mut impl Machine) {
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
        let file = replica.file;
        if replica.takes_any_length && file.is_none() {
            // No snapshot ends like that by chance: nobody knows the run's name and the mark's number beforehand.
            syncing.mark = mark(&self.settings.run_id, sync, now);
            head.extend(format!("$EOF:{}\r\n", syncing.mark).into_bytes());
        }
        if !head.is_empty() {
            replica.push(head);
        }
        let leaves_out = replica.leaves_out;
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
        if !leaves_out.functions {
            self.put_functions(&mut first);
        }
        self.add_piece(first);
        if file == Some(FileKind::Base) {
            self.turn_log(client, now, machine);
        }
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
    pub(in crate::control) fn hear_piece(
        &mut self,
        lane: u16,
        sync: u64,
        mut content: Content,
        is_over: bool,
    ) {
        let Some(syncing) = self.replication.syncing.as_mut().filter(|syncing| syncing.sync == sync) else {
            return;
        };
        syncing.are_asked[usize::from(lane)] = false;
        syncing.are_over[usize::from(lane)] |= is_over;
        let is_whole = syncing.are_over.iter().all(|is_over| *is_over);
        let mut piece = Vec::with_capacity(content.size());
        flatten(&mut content, &mut piece);
        let client = syncing.client;
        let replica = client.and_then(|(lane, client)| self.replication.replica(lane, client));
        if replica.is_none_or(|replica| !replica.leaves_out.keys) {
            self.add_piece(piece);
        }
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
        replica.stage = if replica.wants_snapshot_only { Stage::HasAll } else { Stage::Settles };
    }

    /// Nobody wants the snapshot that is made.
    pub(super) fn abandon_snapshot(&mut self) {
        if let Some(syncing) = &mut self.replication.syncing {
            (syncing.client, syncing.held, syncing.held_size) = (None, Vec::new(), 0);
        }
    }

    /// Sees an abandoned snapshot to its end: when it has begun on all lanes they are told, and when they all have finished with it
    /// another may begin.
    fn end_abandoned(&mut self) {
        let Some(Syncing { sync, client: None, begun_by, ending, .. }) = &self.replication.syncing else {
            return;
        };
        match *ending {
            None if !self.gathers.contains_key(begun_by) => {
                let (sync, epoch) = (*sync, self.replication.epoch);
                let ticket = self.give(0..self.lane_count, &Order::EndSnapshot { sync }, None);
                if !self.replication.is_fed {
                    // It may have begun after lanes had been told that they need not.
                    self.replication.ended_by =
                        self.give(0..self.lane_count, &Order::EndFeed { epoch }, None);
                }
                self.replication.syncing.as_mut().expect("just seen").ending = Some(ticket);
            }
            Some(ticket) if !self.gathers.contains_key(&ticket) => self.replication.syncing = None,
            _ => {}
        }
    }

    /// Asks lanes for pieces of the snapshot as long as its replica takes them.
    pub(super) fn ask_for_pieces(&mut self) {
        let Replication { syncing, replicas, .. } = &mut self.replication;
        let Some(syncing) = syncing.as_mut().filter(|it| it.has_begun && it.ending.is_none()) else { return };
        let Some((lane, client)) = syncing.client else { return };
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
