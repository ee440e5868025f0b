//! MIGRATE, on the lane that owns a key: the control thread has its value read, and, once another server has it, has it deleted if
//! it is still that value.
//!
//! ```text
//! control ── read ──▶ under a shared lock:     begin to watch it, when it ends, DUMP ──▶ payload
//!         ── delete ▶ under an exclusive lock: unchanged since? DEL ──▶ whether it is gone
//! ```
//! Each is a part like a client's command that takes several steps: it waits for its lock, runs in slices, and gives the lock back
//! before the control thread hears of it. Between the two nothing is locked.

use std::sync::Arc;

use wire::command::{Id, lookup};
use wire::number::parse_i64;

use crate::admin::Report;
use crate::core::Core;
use crate::locks::{LockName, Mode};
use crate::part::{Job, Names, Origin, Outcome, Part, Work};
use crate::replies::Content;
use crate::request::{Arg, Request};
use crate::transaction::Grant;
use crate::watch::WatcherId;

/// A key that is about to leave.
#[derive(Clone)]
pub(crate) struct Departure {
    pub(crate) db: u16,
    pub(crate) key: Arc<Vec<u8>>,
    /// The number by which it is known whether the key changes from here on; none for one that stays.
    pub(crate) watch: Option<u64>,
}

/// A value that is about to leave.
pub(crate) struct Departing {
    /// A bulk string of DUMP's payload, long values by reference.
    pub(crate) payload: Content,
    /// When its key ends, unix milliseconds.
    pub(crate) end_ms: Option<i64>,
}

impl Core {
    /// Reads a key for the control thread.
    pub(crate) fn read_departing(&mut self, ticket: u64, charge: u16, departure: &Departure) {
        let run = |name: &str, within: Option<Id>| Work::Run {
            command: lookup(name.as_bytes()).expect("it is in the table"),
            request: request_of(name, departure),
            route: None,
            within,
        };
        let watch = departure.watch.map(|watch| Work::Watch {
            id: self.departure_watcher(watch),
            request: request_of("watch", departure),
        });
        // That is one look at the key, as in Redis.
        let dump = run("dump", None);
        let before = watch.into_iter().chain([run("pexpiretime", Some(Id::Migrate))]);
        self.begin_departure((ticket, charge), departure, Mode::Shared, before.collect(), dump);
    }

    /// Deletes a key if it has not changed since it was read, and ends its watch.
    pub(crate) fn end_departing(&mut self, ticket: u64, charge: u16, departure: &Departure) {
        let delete = Work::Run {
            command: lookup(b"del").expect("it is in the table"),
            request: request_of("del", departure),
            route: None,
            within: Some(Id::Migrate),
        };
        self.begin_departure((ticket, charge), departure, Mode::Exclusive, Vec::new(), delete);
    }

    fn begin_departure(
        &mut self,
        (ticket, charge): (u64, u16),
        departure: &Departure,
        mode: Mode,
        before: Vec<Work>,
        work: Work,
    ) {
        let (db, bytes) = (departure.db, departure.key.as_slice());
        let hash = self.space.shard.key(db, self.space.slot(db, bytes).number(), bytes).hash;
        let mut names = Names::default();
        names.push(LockName { db, key: Some(hash) }, mode);
        let job = |work: Work| Job { command: 0, db, work };
        let origin = Origin::Control { ticket, charge };
        let part = Part::of_order(origin, names, before.into_iter().map(job).collect(), job(work));
        let part = match (mode, departure.watch) {
            (Mode::Exclusive, Some(watch)) => part.unless_changed(self.departure_watcher(watch)).told(),
            _ => part,
        };
        self.admit(part);
    }

    /// Tells the control thread what a part of [`Core::begin_departure`] has come to.
    pub(crate) fn report_departure(
        &mut self,
        (ticket, charge): (u64, u16),
        watcher: Option<WatcherId>,
        outcomes: Vec<(u32, Outcome)>,
        grant: Grant,
    ) {
        let report = match watcher {
            Some(id) => {
                self.space.unwatch(id);
                Report::Departed { is_changed: grant.is_dirty }
            }
            None => Report::Departing(departing(outcomes)),
        };
        let control = self.lane_count;
        self.peer(control).report(ticket, charge, report);
    }

    /// The control thread does not want to know any more whether a key has changed.
    pub(crate) fn forget_departure(&mut self, watch: u64) {
        let id = self.departure_watcher(watch);
        self.space.unwatch(id);
    }

    fn departure_watcher(&self, watch: u64) -> WatcherId {
        WatcherId { lane: self.lane_count, client: watch, round: 0 }
    }
}

fn request_of(name: &str, departure: &Departure) -> Request {
    let mut request = Request::default();
    request.push(Arg::Flat(name.as_bytes()));
    request.push(Arg::Flat(&departure.key));
    request
}

/// What PEXPIRETIME and DUMP have answered, the last two.
fn departing(outcomes: Vec<(u32, Outcome)>) -> Option<Departing> {
    let mut replies = outcomes.into_iter().rev().map(|(_, outcome)| match outcome {
        Outcome::Reply(content) => content,
        Outcome::Fetched(_) | Outcome::Scanned(_) | Outcome::Placed(_) | Outcome::Room(_) => {
            unreachable!("a key that departs is read by commands")
        }
    });
    let (payload, end) = (replies.next()?, replies.next()?);
    let end_ms = end.front().strip_prefix(b":")?.strip_suffix(b"\r\n").and_then(parse_i64)?;
    let is_there = !payload.front().starts_with(b"$-1") && end_ms != -2;
    is_there.then_some(Departing { payload, end_ms: (end_ms >= 0).then_some(end_ms) })
}
