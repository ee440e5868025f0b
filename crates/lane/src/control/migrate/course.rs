//! One MIGRATE and its keys, from the first that is read to the last that is gone.
//!
//! ```text
//! waits ─ read ─▶ ready ─ RESTORE ─▶ sent ─ OK ─▶ arrived ─ delete ─▶ gone
//!   ▲               │                                        │
//!   │               └ no more there: vanished ─ DEL ─▶ withdrawn ─▶ gone
//!   └──────────────── it has changed since it was read ◀─────┘
//! ```
//! What asks lanes and connections is the control; here is what follows from their answers.

use std::collections::BTreeMap;

use wire::client::command;
use wire::number::format_i64;
use wire::reply::{self, Put};

use super::super::Asker;
use super::link::{Awaited, Link};
use super::words::Words;
use crate::admin::Question;
use crate::client::Port;
use crate::departure::Departing;
use crate::replies::Content;
use crate::request::Args;

/// Keys of a course between being read and being gone.
const KEYS_MAX: usize = 32;
/// The same while there is no connection: whether any key exists is found out before one is made.
const KEYS_MAX_UNCONNECTED: usize = 4;
/// While the values of these are so many bytes, no more are read. One alone may be larger.
const WINDOW_SIZE: usize = 1024 * 1024;
/// How often a key is sent that keeps changing.
const SENDS_MAX: u32 = 8;

/// How far a key has come.
pub(super) enum Stage {
    /// It is to be read.
    Waits,
    Reading,
    /// Here is its value.
    Ready(Content),
    /// It was sent, and is not here any more: it goes there, too.
    Vanished,
    /// The other server has not answered yet.
    Sent,
    /// Nor to that.
    Withdrawn,
    /// The other server has it. It is to be deleted here.
    Arrived,
    Deleting,
}

pub(super) struct Item {
    pub(super) stage: Stage,
    /// What its lane knows the watch by that was begun when it was read.
    pub(super) watch: Option<u64>,
    /// It stands among the keys that are being moved.
    pub(super) is_held: bool,
    end_ms: Option<i64>,
    size: usize,
    sent_count: u32,
}

/// See the top of this file.
pub(super) struct Course {
    pub(super) asker: Asker,
    pub(super) question: Question,
    pub(super) words: Words,
    /// By the argument that each is.
    pub(super) items: BTreeMap<usize, Item>,
    pub(super) link: Option<u64>,
    /// Since when nothing has happened on the connection.
    pub(super) since_ns: u64,
    /// What the client is told, if something went wrong: the first of it.
    error: Option<Vec<u8>>,
    /// Watches that nobody needs any more, with their keys, and keys that are not moved any more.
    pub(super) unwatched: Vec<(usize, u64)>,
    pub(super) left: Vec<usize>,
    /// The next key to be read.
    next: usize,
    has_found: bool,
    /// The other server has answered to a key.
    has_heard: bool,
    may_retry: bool,
    /// Nothing more is sent.
    is_failed: bool,
}

impl Course {
    pub(super) fn new(asker: Asker, question: Question, words: Words, now_ns: u64) -> Course {
        Course {
            asker,
            question,
            next: words.keys.start,
            words,
            items: BTreeMap::new(),
            link: None,
            since_ns: now_ns,
            error: None,
            unwatched: Vec::new(),
            left: Vec::new(),
            has_found: false,
            has_heard: false,
            may_retry: true,
            is_failed: false,
        }
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        Args::Owned(&self.question.request).flat(index)
    }

    /// Nothing is left to be done.
    pub(super) fn is_over(&self) -> bool {
        self.next == self.words.keys.end && self.items.is_empty()
    }

    pub(super) fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// What the client is told in the end.
    pub(super) fn answer(&self) -> Content {
        let mut out = Content::default();
        match &self.error {
            Some(text) => reply::error_bytes(&mut out, text),
            None if self.has_found => out.put(reply::OK),
            None => reply::simple(&mut out, "NOKEY"),
        }
        out
    }

    /// Takes up as many keys as may be under way.
    pub(super) fn take_up(&mut self) {
        let count_max = if self.link.is_some() { KEYS_MAX } else { KEYS_MAX_UNCONNECTED };
        let size: usize = self.items.values().map(|item| item.size).sum();
        while self.next < self.words.keys.end && self.items.len() < count_max && size < WINDOW_SIZE {
            let item = Item {
                stage: Stage::Waits,
                watch: None,
                is_held: false,
                end_ms: None,
                size: 0,
                sent_count: 0,
            };
            self.items.insert(self.next, item);
            self.next += 1;
        }
    }

    /// Whether a connection is needed.
    pub(super) fn wants_link(&self) -> bool {
        self.link.is_none() && self.items.values().any(|item| matches!(item.stage, Stage::Ready(_)))
    }

    /// A lane has read a key.
    pub(super) fn has_read(&mut self, index: usize, found: Option<Departing>) {
        let item = self.items.get_mut(&index).expect("what is read is under way");
        match found {
            _ if self.is_failed => self.leave(index),
            Some(Departing { payload, end_ms }) => {
                self.has_found = true;
                (item.size, item.end_ms) = (payload.size(), end_ms);
                item.stage = Stage::Ready(payload);
            }
            None if item.sent_count > 0 => item.stage = Stage::Vanished,
            None => self.leave(index),
        }
    }

    /// A lane has deleted a key, or found that it has changed. Its watch is over either way.
    pub(super) fn has_deleted(&mut self, index: usize, is_changed: bool) {
        let item = self.items.get_mut(&index).expect("what is deleted is under way");
        item.watch = None;
        let is_last = item.sent_count == SENDS_MAX;
        if is_changed && !self.is_failed && !is_last {
            (item.stage, item.size) = (Stage::Waits, 0);
            return;
        }
        if is_changed && is_last {
            let text = format!(
                "ERR a key changed each of the {SENDS_MAX} times that it was sent: it is still here, and as it was at the target: "
            );
            self.err([text.as_bytes(), reply::quoted(self.key(index))].concat());
        }
        self.leave(index);
    }

    /// Sends what is ready. The connection is.
    pub(super) fn send(&mut self, link: &mut Link, now_ms: i64, now_ns: u64) {
        let is_node = self.question.from.port == Port::Lane;
        let args = Args::Owned(&self.question.request);
        let mut ended = Vec::new();
        for (&index, item) in &mut self.items {
            if !matches!(item.stage, Stage::Ready(_) | Stage::Vanished) {
                continue;
            }
            // Redis sends what ends in this very millisecond.
            if item.end_ms.is_some_and(|end_ms| end_ms < now_ms) {
                ended.push(index);
                continue;
            }
            if !link.is_busy() {
                self.since_ns = now_ns;
            }
            let key = args.flat(index);
            let mut out = Content::default();
            let Stage::Ready(payload) = std::mem::replace(&mut item.stage, Stage::Sent) else {
                item.stage = Stage::Withdrawn;
                if is_node {
                    command(&mut out, &[b"ASKING"]);
                    link.put(std::mem::take(&mut out), Awaited::Asking);
                }
                command(&mut out, &[b"DEL", key]);
                link.put(out, Awaited::Delete(index));
                continue;
            };
            // What is there already is an older value of the same key.
            let replaces = self.words.replaces || item.sent_count > 0;
            item.sent_count += 1;
            let ttl_ms = item.end_ms.map_or(0, |end_ms| (end_ms - now_ms).max(1));
            reply::array(&mut out, 4 + usize::from(replaces));
            reply::bulk(&mut out, if is_node { b"RESTORE-ASKING" } else { b"RESTORE" });
            reply::bulk(&mut out, key);
            reply::bulk(&mut out, format_i64(ttl_ms).as_bytes());
            out.append(payload);
            if replaces {
                reply::bulk(&mut out, b"REPLACE");
            }
            link.put(out, Awaited::Restore(index));
        }
        ended.into_iter().for_each(|index| self.leave(index));
    }

    /// The other server has done what it was asked to.
    pub(super) fn hear_yes(&mut self, awaited: Awaited) {
        match awaited {
            Awaited::Auth | Awaited::Select | Awaited::Asking => {}
            Awaited::Delete(index) => self.leave(index),
            Awaited::Restore(index) => {
                self.has_heard = true;
                if self.words.copies {
                    return self.leave(index);
                }
                self.items.get_mut(&index).expect("what was sent is under way").stage = Stage::Arrived;
            }
        }
    }

    /// The other server has not, and says why.
    pub(super) fn hear_no(&mut self, awaited: Awaited, text: &[u8]) {
        self.err([b"ERR Target instance replied with error: ", text].concat());
        match awaited {
            // No key was sent: it would be to the wrong database, or in somebody else's name.
            Awaited::Auth | Awaited::Select => self.end_sending(),
            Awaited::Asking => {}
            Awaited::Restore(index) | Awaited::Delete(index) => {
                self.has_heard = true;
                self.leave(index);
            }
        }
    }

    /// The connection is lost, at which somebody was `doing` something. What may be tried once more is.
    pub(super) fn lose_link(&mut self, doing: &str, may_retry: bool) {
        self.link = None;
        if may_retry && self.may_retry && !self.has_heard && self.error.is_none() {
            self.may_retry = false;
            for (&index, item) in &mut self.items {
                if matches!(item.stage, Stage::Sent) {
                    self.unwatched.extend(item.watch.take().map(|watch| (index, watch)));
                    (item.stage, item.size, item.sent_count) = (Stage::Waits, 0, 0);
                }
            }
            return;
        }
        self.err(format!("IOERR error or timeout {doing}").into_bytes());
        self.end_sending();
    }

    /// The first error is the one that is told.
    fn err(&mut self, text: Vec<u8>) {
        self.error.get_or_insert(text);
    }

    /// Nothing more is sent. What has arrived is deleted, and what lanes have been asked is waited for.
    fn end_sending(&mut self) {
        self.is_failed = true;
        self.next = self.words.keys.end;
        let is_unsettled =
            |item: &Item| !matches!(item.stage, Stage::Reading | Stage::Arrived | Stage::Deleting);
        let unsettled: Vec<usize> =
            self.items.iter().filter(|(_, item)| is_unsettled(item)).map(|(&index, _)| index).collect();
        unsettled.into_iter().for_each(|index| self.leave(index));
    }

    /// A key's way is over.
    fn leave(&mut self, index: usize) {
        let item = self.items.remove(&index).expect("it is under way");
        self.unwatched.extend(item.watch.map(|watch| (index, watch)));
        if item.is_held {
            self.left.push(index);
        }
    }
}
