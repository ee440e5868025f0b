//! Documents: values with flags and a CAS, as memcached and Couchbase have them. How a command was framed and what is left unsaid is
//! `wire`'s: here its head says what to do, and an outcome goes back.
//!
//! A document's CAS is a number of its lane, another one after each change. What is kept beside the CAS and the client's flags
//! are eight bits: the datatype as the client has it, whether anybody has fetched the document, and what the meta commands
//! say of stale ones, and whether it was locked.

mod edit;
pub(crate) mod inside;
pub(crate) mod lock;
mod meta;

use store::{Budget, Effect, Entry, Expiry, Key, Mark, NewValue, Value};
use wire::command::Id;
use wire::couchbase;
use wire::memcached::{self, Bits, FLAGS, Framing, HEAD, Head, KEY, Outcome, Say, VALUE, Verb, reply};
use wire::number::format_u64;
use wire::reply::Put;

use meta::Ends;

use super::string::new_value;
use super::{Progress, Step};
use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;
use crate::request::Args;

/// What the low bits of a mark hold: JSON, Snappy, extended attributes.
const DATATYPE: u8 = 0b111;
/// Somebody has read or touched it since it was stored.
const FETCHED: u8 = 1 << 3;
/// It is stale: `md` with `I` has said so, or it came with an older CAS.
const STALE: u8 = 1 << 4;
/// A client has been told to renew it.
const TOKEN_SENT: u8 = 1 << 5;

/// The client that stored it wrote its key in base64.
const BASE64_KEY: u8 = 1 << 6;
/// It was locked ([`lock`]); whether it still is is in [`crate::documents::Documents::locked`].
const LOCKED: u8 = 1 << 7;

/// Largest item that INCR and DECR look into, as memcached counts its size (half of its largest slab page: a larger one lies
/// in pieces there).
const NUMBER_ITEM_SIZE_MAX: u64 = 512 * 1024;

/// Runs a command on documents, or the next slice of it.
pub(super) fn run(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let request = Request::of(space, call);
    match call.command.id {
        Id::DocumentEdit => return edit::edit(space, &request, progress, sink, budget),
        Id::DocumentLookup | Id::DocumentMutate => {
            return inside::run(space, &request, progress, sink, budget);
        }
        Id::DocumentFlush => return edit::flush(space, &request, progress, sink, budget),
        Id::DocumentGet | Id::DocumentTouch => match request.head.verb {
            Verb::MetaGet => meta::get(space, &request, sink),
            Verb::MetaDebug => meta::debug(space, &request, sink),
            Verb::GetLocked => lock::get(space, &request, sink),
            Verb::Unlock => lock::unlock(space, &request, sink),
            Verb::GetMeta => get_meta(space, &request, sink),
            Verb::Observe => observe(space, &request, sink),
            Verb::Get => get(space, &request, sink),
            _ => get_and_touch(space, &request, sink),
        },
        Id::DocumentSet => set(space, &request, sink),
        Id::DocumentDelete => delete(space, &request, sink),
        Id::DocumentCount => count(space, &request, sink),
        _ => unreachable!("the others are the connection's and the control thread's"),
    }
    Step::Done
}

/// A command on documents.
struct Request<'a> {
    call: &'a Call<'a>,
    head: Head,
    /// See [`crate::documents::Documents::history`].
    history: u64,
}

impl<'a> Request<'a> {
    fn of(space: &Keyspace, call: &'a Call<'a>) -> Request<'a> {
        Request { call, head: Head::from_bytes(call.args.flat(HEAD)), history: space.documents.history }
    }

    fn is_of_couchbase(&self) -> bool {
        self.head.framing == Framing::Couchbase
    }

    fn key(&self, space: &Keyspace) -> Key<'a> {
        space.key(self.call, KEY)
    }

    /// A meta command's flags as they came.
    fn flags(&self) -> &'a [u8] {
        flags_of(self.call.args)
    }

    fn options(&self) -> memcached::meta::Options {
        memcached::meta::Options::parse(self.flags()).expect("the decoder has looked at the flags")
    }

    fn value(&self) -> NewValue<'a> {
        new_value(self.call.args.get(VALUE))
    }

    fn say(&self, sink: &mut Sink<'_>, outcome: &Outcome) {
        let is_change =
            matches!(outcome, Outcome::Stored { .. } | Outcome::Deleted { .. } | Outcome::Number { .. });
        if is_change && self.head.is(Bits::WANTS_TOKEN) {
            if reply::is_said(&self.head, outcome) {
                couchbase::reply::put_change(sink, &self.head, outcome, self.history);
            }
            return;
        }
        reply::put(sink, &self.head, self.call.args.flat(KEY), self.flags(), outcome);
    }
}

/// A meta command's flags; none in the other framings.
pub(crate) fn flags_of(args: Args<'_>) -> &[u8] {
    if args.len() > FLAGS { args.flat(FLAGS) } else { b"" }
}

/// When a document of a database ends that is given this expiry now, or by the namespace's default; `None`: it has ended
/// already.
fn end_of(space: &Keyspace, db: u16, exptime: i64) -> Option<Expiry> {
    let now_s = u64::try_from(space.now.unix_ms / 1000).unwrap_or(0);
    match memcached::expiry(exptime, now_s) {
        memcached::Expiry::Never => Some(match space.namespace(db).default_ttl_s {
            0 => Expiry::None,
            // Ends are whole seconds, as Couchbase's clients are told them.
            ttl_s => Expiry::At((space.now.unix_ms.div_euclid(1000) + i64::from(ttl_s)) * 1000),
        }),
        memcached::Expiry::Past => None,
        memcached::Expiry::At(at_s) => {
            Some(Expiry::At(i64::try_from(at_s).unwrap_or(i64::MAX).saturating_mul(1000)))
        }
    }
}

/// Seconds until an instant.
fn ttl_s(space: &Keyspace, at_ms: i64) -> u64 {
    u64::try_from(at_ms.saturating_sub(space.now.unix_ms)).unwrap_or(0).div_ceil(1000)
}

/// What a reply may show of a document. The CAS of one that is locked is its holder's alone.
fn item(space: &Keyspace, key: &Key<'_>, entry: &Entry<'_>, mark: Mark) -> memcached::Item {
    let is_locked = lock::is_locked(space, key, mark);
    memcached::Item {
        flags: mark.flags,
        cas: if is_locked { couchbase::reply::CAS_LOCKED } else { mark.cas },
        datatype: mark.bits & DATATYPE,
        size: entry.value().len() as u64,
        ttl_s: entry.expires_at().map(|at_ms| ttl_s(space, at_ms)),
        was_fetched: mark.bits & FETCHED != 0,
        idle_s: u64::from(space.shard.idle_s(entry)),
        has_base64_key: mark.bits & BASE64_KEY != 0,
        ..memcached::Item::default()
    }
}

/// Writes a value's bytes: small ones copied, long ones by reference.
fn put_bytes(sink: &mut Sink<'_>, value: Value<'_>) {
    match value {
        Value::Bytes(bytes) => sink.put(bytes),
        Value::Int(number) => sink.put(wire::number::format_i64(number).as_bytes()),
        Value::Rope(rope) => sink.put_rope(rope.clone(), 0..rope.len()),
    }
}

/// What a document has beside its value. Only documents are in their database.
fn mark_of(entry: &Entry<'_>) -> Mark {
    entry.mark().expect("all there is in a database of documents are documents")
}

/// `get`, `gets`, GETK.
fn get(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let may_be_locked = space.documents.locked.holds(lock::name(&key), space.now.unix_ms);
    // Looked for once: all that stands in a reply is in the entry.
    let Some(entry) = space.look_up(&key) else {
        space.documents.tally.gets.misses += 1;
        return request.say(sink, &Outcome::Miss);
    };
    let Mark { cas, bits, flags } = mark_of(&entry);
    let is_locked = may_be_locked && bits & LOCKED != 0;
    let shown_cas = if is_locked { couchbase::reply::CAS_LOCKED } else { cas };
    let value = entry.value();
    let (size, datatype) = (value.len() as u64, bits & DATATYPE);
    let item = memcached::Item { flags, cas: shown_cas, datatype, size, ..memcached::Item::default() };
    reply::put_value_header(sink, &request.head, key.bytes, b"", &item);
    put_bytes(sink, value);
    reply::put_value_end(sink, &request.head);
    space.documents.tally.gets.hits += 1;
    if bits & FETCHED == 0 {
        let bits = bits | FETCHED;
        space.commit(Effect::Mark { key, cas, bits }).expect("a mark takes no memory");
    }
}

/// `gat`, `gats`, GATK and TOUCH, which give the document another end.
fn get_and_touch(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let verb = request.head.verb;
    let Some(mark) = space.look_up(&key).map(|entry| mark_of(&entry)) else {
        let outcome = if verb == Verb::Touch { Outcome::NotFound } else { Outcome::Miss };
        space.documents.tally.looked(verb, false);
        return request.say(sink, &outcome);
    };
    space.documents.tally.looked(verb, true);
    if lock::is_locked(space, &key, mark) {
        return request.say(sink, &Outcome::Say(Say::Locked));
    }
    // In Couchbase another end is a change like others.
    let cas = if request.is_of_couchbase() && is_new_end(space, request, &key) {
        space.documents.next_cas()
    } else {
        mark.cas
    };
    let mark = Mark { cas, ..mark };
    let entry = space.get(&key).expect("just seen");
    let old = mark_of(&entry);
    let item = item(space, &key, &entry, mark);
    if verb == Verb::Touch {
        request.say(sink, &Outcome::Touched(item));
    } else {
        reply::put_value_header(sink, &request.head, key.bytes, request.flags(), &item);
        put_bytes(sink, entry.value());
        reply::put_value_end(sink, &request.head);
    }
    if mark.bits & FETCHED == 0 || cas != old.cas {
        let bits = mark.bits | FETCHED;
        space.commit(Effect::Mark { key, cas, bits }).expect("a mark takes no memory");
    }
    end_at(space, key, request.head.exptime);
}

/// Is the end that was sent another one than that of the document?
fn is_new_end(space: &Keyspace, request: &Request<'_>, key: &Key<'_>) -> bool {
    let end = space.get(key).and_then(|entry| entry.expires_at()).map_or(Expiry::None, Expiry::At);
    end_of(space, key.db, request.head.exptime) != Some(end)
}

/// What Couchbase keeps of a document beside its value.
fn get_meta(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let Some(entry) = space.get(&key) else { return request.say(sink, &Outcome::NotFound) };
    let mark = mark_of(&entry);
    let item = item(space, &key, &entry, mark);
    let expiry_s = entry.expires_at().map_or(0, |at_ms| u32::try_from(at_ms / 1000).unwrap_or(u32::MAX));
    couchbase::reply::put_meta(sink, &request.head, &item, expiry_s, mark.cas);
}

/// Whether a document is here, in the one copy that there is.
fn observe(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let key = request.key(space);
    let cas = space.get(&key).map(|entry| mark_of(&entry).cas);
    couchbase::reply::put_observed(sink, &request.head, key.bytes, cas);
}

/// Gives a document that is there the end that was sent.
fn end_at(space: &mut Keyspace, key: Key<'_>, exptime: i64) {
    let end = end_of(space, key.db, exptime);
    set_end(space, key, end);
}

/// The same with an end as [`end_of`] tells it.
fn set_end(space: &mut Keyspace, key: Key<'_>, end: Option<Expiry>) {
    let effect = match end {
        Some(at) => Effect::Expire { key, at },
        None => Effect::Delete { key },
    };
    // An end takes room; without any the document keeps the one it has, as it would had nobody asked.
    let _ = space.commit(effect);
}

/// `set`, `add`, `replace`, `cas`, and `ms` but for its appending modes.
fn set(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let head = &request.head;
    let key = request.key(space);
    // Whatever is there goes, unless somebody may have locked it, or its end is to stay.
    let asks_nothing =
        head.verb == Verb::Set && !head.is(Bits::KEEPS_EXPIRY) && space.documents.locked.is_empty();
    let old = if asks_nothing { None } else { space.get(&key).map(|entry| mark_of(&entry)) };
    let (mut kept, mut expiry) = (0, end_of(space, key.db, head.exptime));
    let outcome = match (head.verb, old) {
        (Verb::Add, Some(_)) => {
            // As in memcached, it counts as a use.
            space.read(&key);
            Err(Outcome::NotStored)
        }
        (_, Some(old)) if !lock::lets(space, &key, old, head) => Err(Outcome::Say(Say::Locked)),
        (Verb::Replace, None) => Err(Outcome::NotStored),
        (Verb::Cas, None) => Err(Outcome::NotFound),
        (Verb::Cas, Some(old)) if old.cas != head.cas => {
            // A client that was late may leave its value, marked as stale, for who comes next.
            if head.is(Bits::INVALIDATES) && head.cas < old.cas {
                kept = STALE | old.bits & TOKEN_SENT;
                expiry = Some(Expiry::Keep);
                Ok(())
            } else {
                Err(Outcome::Exists)
            }
        }
        _ => Ok(()),
    };
    space.documents.tally.stored(head.verb, &outcome);
    if let Err(outcome) = outcome {
        return request.say(sink, &outcome);
    }
    if old.is_some() && head.is(Bits::KEEPS_EXPIRY) {
        expiry = Some(Expiry::Keep);
    }
    let cas = space.documents.next_cas();
    let base64_key = if head.is(Bits::BASE64) { BASE64_KEY } else { 0 };
    // memcached knows no datatypes, and nobody is told of one that was not agreed on.
    let datatype = if head.is(Bits::KNOWS_JSON) { head.datatype & couchbase::JSON } else { 0 };
    let mark = Mark { cas, bits: kept | base64_key | datatype, flags: head.flags };
    let effect = match expiry {
        Some(expiry) => Effect::SetDocument { key, value: request.value(), mark, expiry },
        None => Effect::Delete { key },
    };
    match space.commit(effect) {
        Ok(_) => request.say(sink, &Outcome::Stored { cas }),
        Err(_) => request.say(sink, &Outcome::Say(Say::OutOfMemory)),
    }
}

/// `delete` and `md`. A value that was too large takes the one that it should have replaced along.
fn delete(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let head = &request.head;
    let key = request.key(space);
    let old = space.get(&key).map(|entry| mark_of(&entry));
    let is_locked = old.is_some_and(|old| !lock::lets(space, &key, old, head));
    if head.verb == Verb::Forget {
        if !is_locked {
            space.commit(Effect::Delete { key }).expect("deleting takes no memory");
        }
        return request.say(sink, &Outcome::Say(Say::TooLarge));
    }
    space.documents.tally.deletes.note(old.is_some());
    let outcome = match old {
        None => Outcome::NotFound,
        Some(_) if is_locked => Outcome::Say(Say::Locked),
        Some(old) if head.is(Bits::HAS_CAS) && old.cas != head.cas => Outcome::Exists,
        Some(old) if head.is(Bits::INVALIDATES) => {
            meta::make_stale(space, request, key, old);
            Outcome::Deleted { cas: space.documents.newest() }
        }
        Some(_) => {
            space.commit(Effect::Delete { key }).expect("deleting takes no memory");
            Outcome::Deleted { cas: space.documents.next_cas() }
        }
    };
    request.say(sink, &outcome);
}

/// `incr`, `decr` and `ma`.
fn count(space: &mut Keyspace, request: &Request<'_>, sink: &mut Sink<'_>) {
    let outcome = match counted(space, request) {
        Ok(outcome) | Err(outcome) => outcome,
    };
    request.say(sink, &outcome);
}

fn counted(space: &mut Keyspace, request: &Request<'_>) -> Result<Outcome, Outcome> {
    let head = &request.head;
    let key = request.key(space);
    let no_room = |_| Outcome::Say(Say::OutOfMemory);
    let Some(entry) = space.get(&key) else {
        space.documents.tally.counted(head.verb, false);
        if !head.is(Bits::CREATES) {
            return Err(Outcome::NotFound);
        }
        let cas = space.documents.next_cas();
        // A number is JSON.
        let bits = if request.is_of_couchbase() { couchbase::JSON } else { 0 };
        let (mark, number) = (Mark { cas, bits, ..Mark::default() }, head.initial);
        let text = format_u64(number);
        let ends = Ends::of(space, request, None, true);
        let value = NewValue::Bytes(text.as_bytes());
        let effect = match ends.changed.unwrap_or_else(|| end_of(space, key.db, head.exptime)) {
            Some(expiry) => Effect::SetDocument { key, value, mark, expiry },
            None => Effect::Delete { key },
        };
        space.commit(effect).map_err(no_room)?;
        let item = memcached::Item { cas, ttl_s: ends.ttl_s(space), ..memcached::Item::default() };
        return Ok(Outcome::Number { value: number, item, is_new: true });
    };
    let old = mark_of(&entry);
    if !lock::lets(space, &key, old, head) {
        return Err(Outcome::Say(Say::Locked));
    }
    let value = entry.value();
    let size = value.len();
    // As in memcached: what can't be a number is told before another CAS is, what is no number behind it.
    let item_size = memcached::item_size(key.bytes.len(), old.flags, size as u64);
    if size == 0 || item_size > NUMBER_ITEM_SIZE_MAX {
        return Err(Outcome::Say(Say::NotNumber));
    }
    if head.cas != 0 && head.cas != old.cas {
        return Err(Outcome::Exists);
    }
    let number = match value {
        Value::Int(number) => u64::try_from(number).ok(),
        Value::Bytes(bytes) => memcached::number::parse_u64(bytes),
        Value::Rope(_) => None,
    };
    let number = number.ok_or(Outcome::Say(Say::NotNumber))?;
    let number = match head.verb {
        Verb::Incr => number.wrapping_add(head.delta),
        _ => number.saturating_sub(head.delta),
    };
    let ends = Ends::of(space, request, entry.expires_at(), false);
    let text = format_u64(number);
    let filled;
    let (value, bits) = if request.is_of_couchbase() {
        (text.as_bytes(), old.bits & DATATYPE)
    } else if text.as_bytes().len() <= size {
        // A shorter number is filled up with blanks, so that memcached can write it in place. Clients may see that.
        filled = [text.as_bytes(), &vec![b' '; size - text.as_bytes().len()]].concat();
        (&filled[..], old.bits & !LOCKED)
    } else {
        // A longer one is a new document in what has happened to it since it was stored.
        (text.as_bytes(), old.bits & DATATYPE)
    };
    let cas = space.documents.next_cas();
    let effect = Effect::SetDocument {
        key,
        value: NewValue::Bytes(value),
        mark: Mark { cas, flags: old.flags, bits },
        expiry: Expiry::Keep,
    };
    space.commit(effect).map_err(no_room)?;
    space.documents.tally.counted(head.verb, true);
    let item = memcached::Item { cas, ttl_s: ends.ttl_s(space), ..memcached::Item::default() };
    ends.apply(space, key);
    Ok(Outcome::Number { value: number, item, is_new: false })
}
