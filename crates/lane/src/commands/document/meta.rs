//! What only the meta commands know: documents that are stale, and who is to renew them.
//!
//! A client that misses, finds a document stale or near its end may win the right to renew it (`W`); those that come after it
//! are told that somebody has (`Z`), so that one asks the origin and not all.

use store::{Effect, Expiry, Key, Mark, NewValue};
use wire::memcached::{self, Outcome, Say, Verb, reply};

use super::{
    FETCHED, LOCKED, Request, STALE, TOKEN_SENT, end_at, end_of, item, lock, mark_of, put_bytes, set_end,
    ttl_s,
};
use crate::keyspace::Keyspace;
use crate::replies::Sink;

/// `mg`.
pub(super) fn get(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let options = request.options();
    let is_found = space.inspect(&key).is_some();
    let verb = if options.exptime.is_some() { Verb::Gat } else { Verb::Get };
    space.documents.tally.looked(verb, is_found);
    if !is_found {
        if options.create_exptime.is_none() {
            return request.say(sink, &Outcome::Miss);
        }
        if !space.may_add(key.db, key.bytes) {
            return request.say(sink, &Outcome::Say(Say::OutOfMemory));
        }
        let cas = space.documents.next_cas();
        let made = Effect::SetDocument {
            key,
            value: NewValue::Bytes(b""),
            mark: Mark { cas, ..Mark::default() },
            expiry: Expiry::None,
        };
        if space.commit(made).is_err() {
            return request.say(sink, &Outcome::Say(Say::OutOfMemory));
        }
    }
    let entry = space.get(&key).expect("it was there or has just been made");
    let mark = mark_of(&entry);
    if options.exptime.is_some() && lock::is_locked(space, &key, mark) {
        return request.say(sink, &Outcome::Say(Say::Locked));
    }
    let is_promised = mark.bits & TOKEN_SENT != 0;
    let is_stale = mark.bits & STALE != 0;
    let ends = Ends::of(space, request, entry.expires_at(), !is_found);
    let is_won = !is_found || !is_promised && (is_stale || ends.is_near);
    let ttl_s = ends.ttl_s(space);
    let item = memcached::Item { is_stale, is_won, is_promised, ttl_s, ..item(space, &key, &entry, mark) };
    if reply::has_value(&request.head) {
        reply::put_value_header(sink, &request.head, key.bytes, request.flags(), &item);
        put_bytes(sink, entry.value());
        reply::put_value_end(sink, &request.head);
    } else {
        request.say(sink, &Outcome::Hit(item));
    }
    let fetched = if options.is_unnoticed { 0 } else { FETCHED };
    let bits = mark.bits | fetched | if is_won { TOKEN_SENT } else { 0 };
    if bits != mark.bits {
        space.commit(Effect::Mark { key, cas: mark.cas, bits }).expect("a mark takes no memory");
    }
    if !options.is_unnoticed {
        space.read(&key);
    }
    // What has ended by now was shown a last time.
    ends.apply(space, key);
}

/// When a document ends, as the flags of `mg` and `ma` change it one after the other and `t` and `R` look at it in between.
pub(super) struct Ends {
    /// Behind the last flag; nothing if no flag has changed it, `Some(None)` if it is past.
    pub(super) changed: Option<Option<Expiry>>,
    /// Where `t` stands.
    shown: Option<Expiry>,
    /// It was before the instant of `R`, where `R` stands.
    is_near: bool,
}

impl Ends {
    /// `expires_at_ms` is the end before the first flag, `is_new` tells whether the command has made the document.
    pub(super) fn of(
        space: &Keyspace,
        request: &Request<'_>,
        expires_at_ms: Option<i64>,
        is_new: bool,
    ) -> Ends {
        let mut end = Some(expires_at_ms.map_or(Expiry::None, Expiry::At));
        let mut ends = Ends { changed: None, shown: end, is_near: false };
        let flags = request.flags();
        if flags.is_empty() {
            return ends;
        }
        let (options, db) = (request.options(), request.call.db);
        for letter in flags.split(|byte| *byte == b' ').filter_map(|flag| flag.first()) {
            let exptime = match letter {
                b'T' => options.exptime,
                b'N' if is_new => options.create_exptime,
                b'R' => {
                    // None is never near, whatever the namespace's default is.
                    let recache_exptime = options.recache_exptime.filter(|exptime| *exptime != 0);
                    let renewed_before = recache_exptime.map(|exptime| end_of(space, db, exptime));
                    ends.is_near = match (end, renewed_before) {
                        (Some(Expiry::At(at_ms)), Some(Some(Expiry::At(instant_ms)))) => at_ms < instant_ms,
                        (None, Some(Some(Expiry::At(_)))) => true,
                        _ => false,
                    };
                    None
                }
                b't' => {
                    ends.shown = end;
                    None
                }
                _ => None,
            };
            if let Some(exptime) = exptime {
                end = end_of(space, db, exptime);
                ends.changed = Some(end);
            }
        }
        ends
    }

    /// What `t` says: nothing left of what has ended (memcached counts from its own start there, below zero).
    pub(super) fn ttl_s(&self, space: &Keyspace) -> Option<u64> {
        match self.shown {
            None => Some(0),
            Some(Expiry::At(at_ms)) => Some(ttl_s(space, at_ms)),
            Some(_) => None,
        }
    }

    /// Gives the document its new end.
    pub(super) fn apply(&self, space: &mut Keyspace, key: Key<'_>) {
        if let Some(end) = self.changed {
            set_end(space, key, end);
        }
    }
}

/// `md` with `I`: the document stays, stale, and the next client wins.
pub(super) fn make_stale(space: &mut Keyspace, request: &Request<'_>, key: Key<'_>, old: Mark) {
    let cas = space.documents.next_cas();
    let bits = (old.bits | STALE) & !(TOKEN_SENT | LOCKED);
    space.commit(Effect::Mark { key, cas, bits }).expect("a mark takes no memory");
    if let Some(exptime) = request.options().exptime {
        end_at(space, key, exptime);
    }
}

/// `me`.
pub(super) fn debug(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let Some(entry) = space.get(&key) else { return request.say(sink, &Outcome::Miss) };
    let mark = mark_of(&entry);
    let item = item(space, &key, &entry, mark);
    request.say(sink, &Outcome::Hit(item));
}
