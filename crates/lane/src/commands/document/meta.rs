//! What only the meta commands know: documents that are stale, and who is to renew them.
//!
//! A client that misses, finds a document stale or near its end may win the right to renew it (`W`); those that come after it
//! are told that somebody has (`Z`), so that one asks the origin and not all.

use store::{Effect, Expiry, Key, Mark, NewValue};
use wire::memcached::{self, Outcome, Say, Verb, reply};

use super::{FETCHED, Request, STALE, TOKEN_SENT, end_at, end_of, item, mark_of, put_bytes};
use crate::keyspace::Keyspace;
use crate::replies::Sink;

/// `mg`.
pub(super) fn get(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let options = request.options();
    let is_found = space.inspect(&key).is_some();
    space.documents.tally.looked(Verb::Get, is_found);
    let mut is_won = false;
    if !is_found {
        let Some(exptime) = options.create_exptime else { return request.say(sink, &Outcome::Miss) };
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
        end_at(space, key, exptime);
        is_won = true;
    }
    if let Some(exptime) = options.exptime {
        end_at(space, key, exptime);
    }
    // A new end may have been the last instant.
    let Some(entry) = space.get(&key) else { return request.say(sink, &Outcome::Miss) };
    let mark = mark_of(&entry);
    let is_promised = mark.bits & TOKEN_SENT != 0;
    let is_stale = mark.bits & STALE != 0;
    let renewed_before = options.recache_exptime.and_then(|exptime| end_of(space, exptime));
    let ends_soon = match (renewed_before, entry.expires_at()) {
        (Some(Expiry::At(instant_ms)), Some(at_ms)) => at_ms < instant_ms,
        _ => false,
    };
    is_won |= !is_promised && (is_stale || is_found && ends_soon);
    let item = memcached::Item { is_stale, is_won, is_promised, ..item(space, &entry, mark) };
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
}

/// `md` with `I`: the document stays, stale, and the next client wins.
pub(super) fn make_stale(space: &mut Keyspace, request: &Request<'_>, key: Key<'_>, old: Mark) {
    let cas = space.documents.next_cas();
    let bits = (old.bits | STALE) & !TOKEN_SENT;
    space.commit(Effect::Mark { key, cas, bits }).expect("a mark takes no memory");
    if let Some(exptime) = request.new_end() {
        end_at(space, key, exptime);
    }
}

/// `me`.
pub(super) fn debug(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let Some(entry) = space.get(&key) else { return request.say(sink, &Outcome::Miss) };
    let mark = mark_of(&entry);
    let item = item(space, &entry, mark);
    request.say(sink, &Outcome::Hit(item));
}
