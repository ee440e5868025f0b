//! How far replicas are: WAIT, `min-replicas-to-write`, and what is shown of them.

use std::fmt::Write;
use std::sync::Arc;

use wire::client::command;
use wire::number::parse_i64;
use wire::reply;

use super::super::{Asker, Begun, Control};
use super::{Replica, Replication, Stage};
use crate::Now;
use crate::admin::{Order, Question};
use crate::help::unknown_shape;
use crate::oversight::READONLY;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::request::Args;

const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

const WAIT_OF_FOLLOWER: &str = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
    configured to be writable (which is not the default) writes to replicas are just local and are not propagated.";

/// Who has said WAIT.
pub(super) struct Waiter {
    asker: Asker,
    /// The client's number.
    id: u64,
    count: u64,
    /// The newest record when it asked.
    number: u64,
    /// The end of the stream when that was in it.
    offset: Option<u64>,
    pub(super) until_ns: Option<u64>,
}

/// How often replicas have begun, since the counters were set to zero.
#[derive(Clone, Copy, Default)]
pub(in crate::control) struct SyncCounts {
    /// With a snapshot.
    pub(in crate::control) full: u64,
    /// Where they were.
    pub(in crate::control) partial: u64,
    /// With a snapshot though they wanted to go on where they were.
    pub(in crate::control) partial_refused: u64,
    /// How many were disconnected because of what they had not taken.
    pub(in crate::control) slow: u64,
}

/// What INFO shows of replicas.
pub(in crate::control) struct Replicas {
    /// The section about them.
    pub(in crate::control) lines: String,
    /// On which lane each is.
    pub(in crate::control) lanes: Vec<u16>,
    pub(in crate::control) counts: SyncCounts,
    /// Bytes of the stream that are kept.
    pub(in crate::control) backlog_size: u64,
    /// Bytes of snapshots that wait for their replicas.
    pub(in crate::control) ahead_size: u64,
    /// Bytes sent.
    pub(in crate::control) sent_size: u64,
}

impl Control {
    fn good_count(&self, now: Now) -> u64 {
        let lag_s_max = self.config.value("min-replicas-max-lag").parse().unwrap_or(0);
        let good = self
            .replication
            .replicas
            .iter()
            .filter(|replica| replica.is_remote() && replica.is_good(now, lag_s_max));
        good.count() as u64
    }

    /// Why nobody may write, if so.
    pub(in crate::control) fn refusal_of_writes(&self, now: Now) -> Option<&'static str> {
        // Of those that only read none has to be told.
        self.leaders
            .is_led()
            .then_some(READONLY)
            .or_else(|| self.refusal_for_files())
            .or_else(|| self.lacks_replicas(now).then_some(NO_REPLICAS))
    }

    /// Whether there are fewer than `min-replicas-to-write` wants.
    fn lacks_replicas(&self, now: Now) -> bool {
        let number = |name: &str| self.config.value(name).parse::<u64>().unwrap_or(0);
        let wanted = number("min-replicas-to-write");
        // As in Redis, a lag of 0 asks for none.
        number("min-replicas-max-lag") > 0 && self.good_count(now) < wanted
    }

    pub(super) fn judge_replicas(&mut self, now: Now) {
        let refused = self.refusal_of_writes(now);
        if refused != self.settings.writes_refused {
            self.settings.writes_refused = refused;
            let order = Order::Settings(Arc::new(self.settings.clone()));
            self.give(0..self.lane_count, &order, None);
        }
    }

    /// WAIT numreplicas timeout. Inside MULTI and scripts it does not wait.
    pub(in crate::control) fn begin_wait(
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
        if self.leaders.is_led() {
            reply::error(out, WAIT_OF_FOLLOWER);
            return Begun::Answered;
        }
        let (id, count) = (question.from.id, u64::try_from(count).unwrap_or(0));
        let number = self.board.newest_record();
        self.replication.waiters.push(Waiter { asker, id, count, number, offset: None, until_ns });
        Begun::Waits
    }

    /// CLIENT UNBLOCK client-id [TIMEOUT|ERROR]. Nothing is waited for but replicas.
    pub(in crate::control) fn unblock(&mut self, args: Args<'_>, now: Now, out: &mut Vec<u8>) {
        let with_error = match (args.len(), args.flat(args.len() - 1).to_ascii_lowercase().as_slice()) {
            (3, _) | (4, b"timeout") => false,
            (4, b"error") => true,
            (4, _) => return reply::error(out, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
            _ => return reply::error_bytes(out, &unknown_shape("CLIENT", args)),
        };
        let Some(id) = parse_i64(args.flat(2)) else {
            return reply::error(out, "ERR value is not an integer or out of range");
        };
        let waiters = &mut self.replication.waiters;
        let Some(index) = waiters.iter().position(|waiter| u64::try_from(id) == Ok(waiter.id)) else {
            return reply::integer(out, 0);
        };
        if with_error {
            let Waiter { asker, .. } = waiters.remove(index);
            self.replication.waited.push_back((asker, None));
        } else {
            waiters[index].until_ns = Some(0);
        }
        self.answer_waiters(now);
        reply::integer(out, 1);
    }

    pub(super) fn answer_waiters(&mut self, now: Now) {
        let Replication { waiters, merger, log, replicas, is_fed, asked, .. } = &mut self.replication;
        let (mut answers, mut asks) = (Vec::new(), false);
        waiters.retain_mut(|waiter| {
            if waiter.offset.is_none() && (!*is_fed || merger.has_passed(waiter.number) || waiter.number == 0)
            {
                waiter.offset = Some(if asked.end == log.end() { asked.start } else { log.end() });
                asks = true;
            }
            let has = |replica: &&Replica| {
                let is_acked = || waiter.offset.is_some_and(|offset| offset <= replica.acked);
                replica.is_remote() && replica.stage == Stage::Follows && is_acked()
            };
            let count = replicas.iter().filter(has).count() as u64;
            let is_over = waiter.offset.is_some() && waiter.count <= count
                || waiter.until_ns.is_some_and(|until_ns| until_ns <= now.mono_ns);
            if is_over {
                answers.push((waiter.asker, count));
            }
            !is_over
        });
        if asks && !waiters.is_empty() && replicas.iter().any(Replica::is_remote) {
            let start = if asked.end == log.end() { asked.start } else { log.end() };
            log.write(|out| command(out, &[b"REPLCONF", b"GETACK", b"*"]));
            *asked = start..log.end();
        }
        for (asker, count) in answers {
            if asker.is_exec {
                let mut out = Vec::new();
                reply::integer(&mut out, i64::try_from(count).expect("replicas are few"));
                self.answer(asker, &out);
            } else {
                self.replication.waited.push_back((asker, Some(count)));
            }
        }
        self.tell_waited();
    }

    /// Answers those who have waited, as far as there is room: their credit came back when they began to.
    fn tell_waited(&mut self) {
        while let Some((asker, count)) = self.replication.waited.pop_front() {
            let head = ControlHead { target: asker.client, round: asker.slot, kind: ControlKind::Waited };
            let mut parcel = count.map(|count| Parcel::Offset(Box::new(count)));
            if !self.peer(asker.lane).try_tell(head, &mut parcel) {
                return self.replication.waited.push_front((asker, count));
            }
        }
    }

    /// A client that waits has gone.
    pub(in crate::control) fn forget_waiter(&mut self, lane: u16, client: u64) {
        self.replication.waiters.retain(|waiter| waiter.asker.lane != lane || waiter.asker.client != client);
    }

    /// ROLE: the offset, and replicas with theirs.
    pub(in crate::control) fn role(&self, out: &mut Vec<u8>) {
        let Replication { replicas, log, .. } = &self.replication;
        let following = || replicas.iter().filter(|it| it.is_remote() && it.stage == Stage::Follows);
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

    /// What INFO shows of them.
    pub(in crate::control) fn show_replicas(&self, now: Now) -> Replicas {
        let Replication { replicas, log, counts, sent_size, syncing, .. } = &self.replication;
        let held_size = syncing.as_ref().map_or(0, |syncing| syncing.held_size);
        Replicas {
            lines: self.replication_lines(now),
            lanes: replicas.iter().filter(|it| it.is_remote()).map(|replica| replica.lane).collect(),
            counts: *counts,
            backlog_size: log.end() - log.start(),
            ahead_size: (replicas.iter().map(|replica| replica.ahead_size).sum::<usize>() + held_size) as u64,
            sent_size: *sent_size,
        }
    }

    /// CONFIG RESETSTAT.
    pub(in crate::control) fn forget_syncs(&mut self) {
        self.replication.counts = SyncCounts::default();
        self.replication.sent_size = 0;
    }

    /// Lines of INFO about replicas.
    fn replication_lines(&self, now: Now) -> String {
        let Replication { replicas, log, is_fed, .. } = &self.replication;
        let mut text = String::new();
        let value = |name: &str| self.config.value(name);
        let put = |text: &mut String, name: &str, value: &dyn std::fmt::Display| {
            write!(text, "{name}:{value}\r\n").expect("a string takes all");
        };
        match self.leader_lines(now) {
            Some(lines) => text.push_str(&lines),
            None => put(&mut text, "role", &"master"),
        }
        let remote = || replicas.iter().filter(|replica| replica.is_remote());
        put(&mut text, "connected_slaves", &remote().count());
        if value("min-replicas-to-write") != "0" && value("min-replicas-max-lag") != "0" {
            put(&mut text, "min_slaves_good_slaves", &self.good_count(now));
        }
        for (at, replica) in remote().enumerate() {
            let state = match replica.stage {
                Stage::Waits | Stage::Cuts => "wait_bgsave",
                Stage::Loads | Stage::Settles | Stage::HasAll => "send_bulk",
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
