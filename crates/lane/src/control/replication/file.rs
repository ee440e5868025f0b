//! Files as replicas: what is written to them is what replicas are sent, and their place among them is the control thread's own.

use super::super::{Control, FileKind, FileOrder, Machine};
use super::{Replica, Replication, Stage};
use crate::Now;

impl Replica {
    /// Whether it is one of Redis', and no file.
    pub(super) fn is_remote(&self) -> bool {
        self.file.is_none()
    }

    /// Whether it is one of the log's files. They stand in the order in which they have begun.
    pub(super) fn is_log(&self) -> bool {
        matches!(self.file, Some(FileKind::Log { .. }))
    }

    /// What it is called where it goes.
    pub(super) fn whom(&self) -> String {
        match self.file {
            None => format!("replica {}:{}", self.ip, self.port),
            Some(FileKind::Snapshot) => "the snapshot".to_owned(),
            Some(FileKind::Base) => "the log's base".to_owned(),
            Some(FileKind::Log { .. }) => "the log".to_owned(),
        }
    }
}

impl Control {
    /// A file begins: with what there is at its cut, or, of a log, with what the stream has next.
    pub(in crate::control) fn follow_in_file(&mut self, file: u64, kind: FileKind, now: Now) {
        let is_log = matches!(kind, FileKind::Log { .. });
        if is_log {
            self.board.note_logged(0);
        }
        if self.replication.replicas.is_empty() {
            self.replication.look_ns = now.mono_ns + super::LOOK_NS;
        }
        self.replication.replicas.push(Replica {
            file: Some(kind),
            takes_any_length: true,
            wants_snapshot_only: !is_log,
            stage: if is_log { Stage::Follows } else { Stage::Waits },
            position: self.replication.log.end(),
            ..Replica::new(self.lane_count, file, now)
        });
    }

    /// A log's file gets nothing of what the stream has from here on.
    pub(in crate::control) fn end_stream_here(&mut self, file: u64) {
        self.replication.log.seal();
        let (lane, end) = (self.lane_count, self.replication.log.end());
        if let Some(replica) = self.replication.replica(lane, file) {
            replica.ends_at = Some(end);
        }
    }

    /// A file is no more. Whoever is to know of it knows.
    pub(in crate::control) fn forget_file(&mut self, file: u64) {
        let lane = self.lane_count;
        let Replication { replicas, syncing, .. } = &mut self.replication;
        replicas.retain(|replica| replica.lane != lane || replica.client != file);
        if syncing.as_ref().is_some_and(|syncing| syncing.client == Some((lane, file))) {
            self.abandon_snapshot();
        }
    }

    /// Whether the log gets anything yet.
    pub(in crate::control) fn writes_log(&self) -> bool {
        self.replication.replicas.iter().any(Replica::is_log)
    }

    /// Ends files that have been given all that is theirs, a log's file when it has written that; says whether there were any.
    pub(super) fn end_files(&mut self, now: Now, machine: &mut impl Machine) -> bool {
        let has_all = |replica: &&Replica| {
            let has_snapshot = replica.stage == Stage::HasAll && replica.ahead.is_empty();
            let has_stream = replica.ends_at == Some(replica.position) && replica.under_way == 0;
            replica.file.is_some() && (has_snapshot || has_stream)
        };
        let ended: Vec<u64> =
            self.replication.replicas.iter().filter(has_all).map(|replica| replica.client).collect();
        let are_some = !ended.is_empty();
        for file in ended {
            self.forget_file(file);
            if self.replication.replicas.is_empty() {
                self.replication.alone_since_ns = now.mono_ns;
            }
            self.end_file(file, machine);
        }
        are_some
    }

    /// Gives a file up.
    pub(super) fn cut_file(&mut self, file: u64, why: &str, now: Now, machine: &mut impl Machine) {
        let lane = self.lane_count;
        let behind = self.replication.replicas.iter().skip_while(|it| it.lane != lane || it.client != file);
        let behind: Vec<u64> = behind.filter(|it| it.is_log()).map(|it| it.client).collect();
        if behind.first() == Some(&file) {
            // What stands behind a gap is no log.
            behind[1..].iter().rev().for_each(|file| self.cut_file(*file, why, now, machine));
        }
        self.forget_file(file);
        machine.write_file(FileOrder::Abandon { file });
        self.lose_file(file, why, now.mono_ns, now, machine);
    }
}
