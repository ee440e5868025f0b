//! A connection to another server: what it is still to be sent, and whose reply comes next.

use std::collections::VecDeque;

use wire::client::command;
use wire::number::format_i64;

use super::super::outgoing::Outgoing;
use super::words::Place;
use crate::replies::Content;

/// Bytes that are given away in one piece.
const PIECE_SIZE: usize = 64 * 1024;
/// Bytes that have been given away and have not left.
const UNDER_WAY_MAX: usize = 4 * PIECE_SIZE;
/// A longer line is no reply.
const LINE_SIZE_MAX: usize = 64 * 1024;

/// What a reply is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Auth,
    Select,
    /// RESTORE of the key that is this argument.
    Restore(usize),
    /// Before a DEL on a node of a cluster.
    Asking,
    /// DEL of the key that is this argument.
    Delete(usize),
}

/// What the next reply says.
pub(super) enum Said {
    Yes(Awaited),
    /// An error, without its mark.
    No(Awaited, Vec<u8>),
    /// Nothing that a server would say here.
    Nonsense,
}

/// See the top of this file.
pub(super) struct Link {
    pub(super) place: Place,
    /// Whose it is just now.
    pub(super) user: Option<u64>,
    /// When somebody used it last.
    pub(super) used_ns: u64,
    is_open: bool,
    is_in_vain: bool,
    /// The database that is selected there, as far as one knows.
    pub(super) db: Option<i64>,
    out: Content,
    under_way: usize,
    input: Vec<u8>,
    awaited: VecDeque<Awaited>,
}

impl Link {
    /// It is being dialled, for somebody who wants this database.
    pub(super) fn new(place: Place, user: u64, db: i64) -> Link {
        let mut link = Link {
            place,
            user: None,
            used_ns: 0,
            is_open: false,
            is_in_vain: false,
            db: None,
            out: Content::default(),
            under_way: 0,
            input: Vec::new(),
            awaited: VecDeque::new(),
        };
        if !link.place.auth.is_empty() {
            let words: Vec<&[u8]> =
                std::iter::once(&b"AUTH"[..]).chain(link.place.auth.iter().map(Vec::as_slice)).collect();
            command(&mut link.out, &words);
            link.awaited.push_back(Awaited::Auth);
        }
        link.begin(user, db);
        link
    }

    /// Somebody uses it from now on, and wants this database.
    pub(super) fn begin(&mut self, user: u64, db: i64) {
        self.user = Some(user);
        if self.db != Some(db) {
            command(&mut self.out, &[b"SELECT", format_i64(db).as_bytes()]);
            self.awaited.push_back(Awaited::Select);
            self.db = Some(db);
        }
    }

    pub(super) fn open(&mut self) {
        self.is_open = true;
    }

    /// Nobody is there.
    pub(super) fn open_in_vain(&mut self) {
        (self.is_open, self.is_in_vain) = (true, true);
    }

    /// Somebody is, or was.
    pub(super) fn has_been_there(&self) -> bool {
        self.is_open && !self.is_in_vain
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether it is in the right database, so that keys may be sent.
    pub(super) fn is_ready(&self) -> bool {
        self.is_open && !matches!(self.awaited.front(), Some(Awaited::Auth | Awaited::Select))
    }

    /// Whether something is to leave or to come.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_open || self.is_writing() || !self.awaited.is_empty()
    }

    pub(super) fn is_writing(&self) -> bool {
        self.under_way > 0 || !self.out.is_empty()
    }

    pub(super) fn put(&mut self, content: Content, awaited: Awaited) {
        self.out.append(content);
        self.awaited.push_back(awaited);
    }

    /// Gives bytes away, as far as they may be under way; one's own references to long values go with them.
    pub(super) fn pump(&mut self, number: u64, outgoing: &mut dyn Outgoing) {
        while self.is_open && self.under_way < UNDER_WAY_MAX && !self.out.is_empty() {
            let mut piece = Vec::new();
            while piece.len() < PIECE_SIZE && !self.out.is_empty() {
                let left = PIECE_SIZE - piece.len();
                self.out.take_front(left, |bytes| piece.extend_from_slice(bytes), drop);
            }
            self.under_way += piece.len();
            outgoing.send(number, piece);
        }
    }

    pub(super) fn sent(&mut self, size: usize) {
        self.under_way = self.under_way.checked_sub(size).expect("what leaves was given away");
    }

    pub(super) fn received(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next reply, if it is there. All of them are lines.
    pub(super) fn next_said(&mut self) -> Option<Said> {
        let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") else {
            let is_too_much = LINE_SIZE_MAX < self.input.len() || self.awaited.is_empty();
            return (is_too_much && !self.input.is_empty()).then_some(Said::Nonsense);
        };
        let line: Vec<u8> = self.input.drain(..end + 2).take(end).collect();
        let Some(awaited) = self.awaited.pop_front() else { return Some(Said::Nonsense) };
        Some(match (line.first(), awaited) {
            (Some(b'-'), _) => Said::No(awaited, line[1..].to_vec()),
            (Some(b':'), Awaited::Delete(_)) => Said::Yes(awaited),
            (Some(b'+'), Awaited::Auth | Awaited::Select | Awaited::Restore(_) | Awaited::Asking) => {
                Said::Yes(awaited)
            }
            _ => Said::Nonsense,
        })
    }
}
