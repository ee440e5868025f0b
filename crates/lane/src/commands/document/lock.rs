//! Documents that a client has locked for itself, as Couchbase's GET_AND_LOCK does: until a time, only whoever has the CAS
//! that came with the lock may change the document. Reading is free, but shows no CAS.
//!
//! A bit of a document's mark says that it was locked; the table beside the shard, until when. So documents that nobody locks cost
//! nothing, and what becomes of the document (it is deleted, evicted, stored anew) ends its lock without a look at the table.

use std::collections::{BTreeMap, BTreeSet};

use store::{Effect, Key, Mark};
use wire::memcached::{Head, Outcome, Say, Status, reply};

use super::{FETCHED, LOCKED, Request, item, mark_of, put_bytes};
use crate::keyspace::Keyspace;
use crate::replies::Sink;

/// Documents of a lane that are locked at a time; who wants to lock one more is to try later.
const COUNT_MAX: usize = 65_536;
/// Locks that are looked at for having ended, whenever one begins: more than begin, so that none stays.
const ENDED_PER_LOCK: usize = 4;
/// How long a lock holds in seconds for who does not say, or says more than it may be.
const SECONDS_DEFAULT: i64 = 15;
/// How long it may be.
const SECONDS_MAX: i64 = 30;

/// Until when documents are locked, by their name.
#[derive(Default)]
pub(crate) struct Locked {
    until_ms: BTreeMap<Name, i64>,
    by_end: BTreeSet<(i64, Name)>,
}

/// What a document is known by: the bucket, as a database, and the key's hash.
type Name = (u16, u64);

/// The name of the document at a key.
pub(super) fn name(key: &Key<'_>) -> Name {
    (key.db, key.hash)
}

impl Locked {
    /// Is none locked?
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.until_ms.is_empty()
    }

    /// Is the document of this name locked, if it was?
    #[inline]
    pub(super) fn holds(&self, name: Name, now_ms: i64) -> bool {
        self.until_ms.get(&name).is_some_and(|until_ms| now_ms < *until_ms)
    }

    /// Locks until then; false if too many are locked.
    fn begin(&mut self, name: Name, until_ms: i64, now_ms: i64) -> bool {
        for _ in 0..ENDED_PER_LOCK {
            match self.by_end.first() {
                Some(&(end_ms, ended)) if end_ms <= now_ms => self.end(ended),
                _ => break,
            }
        }
        self.end(name);
        if self.until_ms.len() >= COUNT_MAX {
            return false;
        }
        self.until_ms.insert(name, until_ms);
        self.by_end.insert((until_ms, name));
        true
    }

    fn end(&mut self, name: Name) {
        if let Some(until_ms) = self.until_ms.remove(&name) {
            self.by_end.remove(&(until_ms, name));
        }
    }
}

/// Is this document locked now?
pub(super) fn is_locked(space: &Keyspace, key: &Key<'_>, mark: Mark) -> bool {
    mark.bits & LOCKED != 0 && space.documents.locked.holds(name(key), space.now.unix_ms)
}

/// May who sent this head change the document?
pub(super) fn lets(space: &Keyspace, key: &Key<'_>, mark: Mark, head: &Head) -> bool {
    mark.cas == head.cas || !is_locked(space, key, mark)
}

/// GET_AND_LOCK: the value, with the CAS that opens the lock.
pub(super) fn get(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let mark = space.look_up(&key).map(|entry| mark_of(&entry));
    space.documents.tally.looked(request.head.verb, mark.is_some());
    let Some(mark) = mark else { return request.say(sink, &Outcome::Miss) };
    if is_locked(space, &key, mark) {
        return request.say(sink, &Outcome::Say(Say::Locked));
    }
    let seconds = match request.head.exptime {
        seconds @ 1..=SECONDS_MAX => seconds,
        _ => SECONDS_DEFAULT,
    };
    let now_ms = space.now.unix_ms;
    if !space.documents.locked.begin(name(&key), now_ms.saturating_add(seconds * 1000), now_ms) {
        return request.say(sink, &Outcome::Status(Status::TEMPORARY_FAILURE));
    }
    let cas = space.documents.next_cas();
    let bits = mark.bits | LOCKED | FETCHED;
    space.commit(Effect::Mark { key, cas, bits }).expect("a mark takes no memory");
    let entry = space.get(&key).expect("just seen");
    let item = wire::memcached::Item { cas, ..item(space, &key, &entry, mark) };
    reply::put_value_header(sink, &request.head, key.bytes, b"", &item);
    put_bytes(sink, entry.value());
    reply::put_value_end(sink, &request.head);
}

/// UNLOCK, with the CAS of the lock.
pub(super) fn unlock(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let outcome = match space.get(&key).map(|entry| mark_of(&entry)) {
        None => Outcome::NotFound,
        Some(mark) if !is_locked(space, &key, mark) => Outcome::Status(Status::NOT_LOCKED),
        Some(mark) if mark.cas != request.head.cas => Outcome::Say(Say::Locked),
        Some(_) => {
            space.documents.locked.end(name(&key));
            Outcome::Ok
        }
    };
    request.say(sink, &outcome);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_end_by_time_and_are_forgotten() {
        let mut locked = Locked::default();
        let one = (16, 1);
        assert!(locked.begin(one, 100, 0) && locked.holds(one, 99) && !locked.holds(one, 100));
        // Another lock of the same document takes the place of the first.
        assert!(locked.begin(one, 300, 150) && locked.holds(one, 299));
        // Its key in another bucket is another document.
        assert!(!locked.holds((17, 1), 200) && locked.begin((17, 1), 250, 150));
        locked.end((17, 1));
        assert!(locked.holds(one, 200));
        locked.end(one);
        assert!(!locked.holds(one, 200) && locked.by_end.is_empty());
        let count = u64::try_from(COUNT_MAX).unwrap();
        for hash in 0..count {
            assert!(locked.begin((16, hash), 1000, 500));
        }
        assert!(!locked.begin((16, count), 1000, 999), "no more than so many");
        assert!(locked.begin((16, 0), 1100, 999), "one that is there already may begin anew");
        assert!(locked.begin((16, count), 2000, 1000), "at their end there is room again");
        assert_eq!(locked.until_ms.len(), COUNT_MAX - ENDED_PER_LOCK + 1);
        assert_eq!(locked.by_end.len(), locked.until_ms.len());
    }
}
