//! Replies as Couchbase has them: without words where memcached has some, with the number of a change where the client wants it.

use super::JSON;
use crate::memcached::reply::{Header, key_size, put_done, put_header, size64};
use crate::memcached::{Bits, Head, Item, Outcome, Status, Verb};
use crate::reply::Put;

/// A mutation token without its number: which history it belongs to.
pub type History = u64;

/// The CAS that is shown of a document that is locked.
pub const CAS_LOCKED: u64 = u64::MAX;

/// What says that a key of the default collection follows.
const DEFAULT_COLLECTION: &[u8] = b"\0";

/// Appends a whole reply without a value.
pub(crate) fn put(out: &mut impl Put, head: &Head, key: &[u8], outcome: &Outcome) {
    match outcome {
        // Clients of memcached, who have not greeted, expect none behind what is gone.
        Outcome::Deleted { .. } if !head.is(Bits::KNOWS_ERRORS) => put_done(out, head, 0),
        Outcome::Ok => put_done(out, head, 0),
        Outcome::Stored { cas } | Outcome::Deleted { cas } => put_done(out, head, *cas),
        Outcome::Hit(item) | Outcome::Touched(item) => put_done(out, head, item.cas),
        Outcome::Number { value, item, .. } => put_number(out, head, &[], *value, item.cas),
        Outcome::Miss | Outcome::NotFound if head.is(Bits::WANTS_KEY) => {
            put_key(out, head, key, Header { status: Status::NOT_FOUND, ..Header::OK });
        }
        Outcome::Miss | Outcome::NotFound => put_status(out, head, Status::NOT_FOUND),
        Outcome::Exists => put_status(out, head, Status::EXISTS),
        Outcome::NotStored => put_status(
            out,
            head,
            match head.verb {
                Verb::Add => Status::EXISTS,
                Verb::Replace => Status::NOT_FOUND,
                _ => Status::NOT_STORED,
            },
        ),
        Outcome::Say(say) => put_status(out, head, known(say.status().0, head)),
        Outcome::Status(status) => put_error(out, head, known(*status, head)),
    }
}

/// The status as a client knows it that has not read the error map: without it a document that is locked is one that has changed,
/// or for who wants to lock or unlock it one to come back to.
fn known(status: Status, head: &Head) -> Status {
    match status {
        Status::LOCKED | Status::NOT_LOCKED if head.is(Bits::KNOWS_ERRORS) => status,
        Status::LOCKED | Status::NOT_LOCKED if matches!(head.verb, Verb::GetLocked | Verb::Unlock) => {
            Status::TEMPORARY_FAILURE
        }
        Status::LOCKED => Status::EXISTS,
        _ => status,
    }
}

fn put_status(out: &mut impl Put, head: &Head, status: Status) {
    put_header(out, head, &Header { status, ..Header::OK });
}

/// A status with what it means, to a client that understands that.
fn put_error(out: &mut impl Put, head: &Head, status: Status) {
    if !head.is(Bits::KNOWS_ERRORS) || !head.is(Bits::KNOWS_JSON) {
        return put_status(out, head, status);
    }
    let context = status.meaning().1;
    let text = match status {
        // By the manifest in which it is not (`docs/Collections.md`), so that clients know whether theirs is newer.
        Status::UNKNOWN_COLLECTION | Status::UNKNOWN_SCOPE => {
            let uid = super::collections::MANIFEST_UID;
            format!(r#"{{"error":{{"context":"{context}"}},"manifest_uid":"{uid:x}"}}"#)
        }
        _ => format!(r#"{{"error":{{"context":"{context}"}}}}"#),
    };
    put_json(out, head, status, &text);
}

/// Appends a reply that has nothing but a status and JSON.
pub fn put_json(out: &mut impl Put, head: &Head, status: Status, json: &str) {
    let body_size = u32::try_from(json.len()).expect("maps are far smaller than 4 GiB");
    let datatype = if head.is(Bits::KNOWS_JSON) { JSON } else { 0 };
    put_header(out, head, &Header { status, datatype, body_size, ..Header::OK });
    out.put(json.as_bytes());
}

/// Appends a reply that has nothing but extras.
pub fn put_extras(out: &mut impl Put, head: &Head, extras: &[u8], cas: u64) {
    let size = u8::try_from(extras.len()).expect("extras are short");
    put_header(out, head, &Header { extras_size: size, body_size: u32::from(size), cas, ..Header::OK });
    out.put(extras);
}

/// A mutation token: the history and the number of a change.
pub fn token(history: History, number: u64) -> [u8; 16] {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&history.to_be_bytes());
    token[8..].copy_from_slice(&number.to_be_bytes());
    token
}

/// Appends the reply to a change that came to `outcome`, with the number of the change.
pub fn put_change(out: &mut impl Put, head: &Head, outcome: &Outcome, history: History) {
    let token = |number: u64| token(history, number);
    match outcome {
        Outcome::Stored { cas } | Outcome::Deleted { cas } => put_extras(out, head, &token(*cas), *cas),
        Outcome::Number { value, item, .. } => put_number(out, head, &token(item.cas), *value, item.cas),
        _ => put(out, head, b"", outcome),
    }
}

/// What a number has become, behind extras.
fn put_number(out: &mut impl Put, head: &Head, extras: &[u8], value: u64, cas: u64) {
    let extras_size = u8::try_from(extras.len()).expect("extras are short");
    put_header(out, head, &Header { extras_size, body_size: u32::from(extras_size) + 8, cas, ..Header::OK });
    out.put_all([extras, &value.to_be_bytes(), b""]);
}

/// A header with a key behind it, as it came.
fn put_key(out: &mut impl Put, head: &Head, key: &[u8], header: Header) {
    let prefix = prefix(head);
    let key_size = key_size(key) + key_size(prefix);
    put_header(out, head, &Header { key_size, body_size: u32::from(key_size), ..header });
    out.put_all([prefix, key, b""]);
}

fn prefix(head: &Head) -> &'static [u8] {
    if head.is(Bits::HAS_COLLECTION) { DEFAULT_COLLECTION } else { b"" }
}

/// Appends what stands before the bytes of a value of `item.size` bytes.
pub(crate) fn put_value_header(out: &mut impl Put, head: &Head, key: &[u8], item: &Item) {
    let (prefix, key) = if head.is(Bits::WANTS_KEY) { (prefix(head), key) } else { (&b""[..], &b""[..]) };
    let body_size = size64(4 + prefix.len() + key.len()) + item.size;
    let header = Header {
        datatype: if head.is(Bits::KNOWS_JSON) { item.datatype } else { 0 },
        extras_size: 4,
        key_size: key_size(key) + key_size(prefix),
        body_size: u32::try_from(body_size).expect("values are far smaller than 4 GiB"),
        cas: item.cas,
        ..Header::OK
    };
    put_header(out, head, &header);
    out.put_all([&item.flags.to_be_bytes(), prefix, key]);
}

/// Appends what GET_META says of a document that ends at `expiry_s` of unix time, or never (0). The number of its last change is
/// its CAS, also while that is hidden.
pub fn put_meta(out: &mut impl Put, head: &Head, item: &Item, expiry_s: u32, number: u64) {
    let mut extras = [0; 21];
    // Deleted documents are not kept: the first field is zero.
    extras[4..8].copy_from_slice(&item.flags.to_be_bytes());
    extras[8..12].copy_from_slice(&expiry_s.to_be_bytes());
    extras[12..20].copy_from_slice(&number.to_be_bytes());
    extras[20] = item.datatype;
    let size = if head.is(Bits::WANTS_DATATYPE) { 21 } else { 20 };
    put_extras(out, head, &extras[..size], item.cas);
}

/// What OBSERVE says of a key.
const FOUND_NOT_PERSISTED: u8 = 0;
/// The same of one that is not there.
const NOT_FOUND: u8 = 0x80;

/// Appends what OBSERVE says of the one key: `vbucket u16 | key size u16 | key | state u8 | cas u64`. Nothing is persisted.
pub fn put_observed(out: &mut impl Put, head: &Head, key: &[u8], cas: Option<u64>) {
    let prefix = prefix(head);
    let size = key_size(prefix) + key_size(key);
    let mut body = Vec::with_capacity(usize::from(size) + 13);
    body.extend(head.vbucket.to_be_bytes());
    body.extend(size.to_be_bytes());
    body.extend([prefix, key].concat());
    body.push(if cas.is_some() { FOUND_NOT_PERSISTED } else { NOT_FOUND });
    body.extend(cas.unwrap_or_default().to_be_bytes());
    crate::memcached::reply::put_body(out, head, Status::OK, &body);
}

/// Appends what OBSERVE_SEQNO says of a partition in its history: the newest change, and that none is persisted:
/// `format u8 = 0 | vbucket u16 | history u64 | persisted u64 | newest u64`.
pub fn put_newest(out: &mut impl Put, head: &Head, history: History, newest: u64) {
    let mut body = [0; 27];
    body[1..3].copy_from_slice(&head.vbucket.to_be_bytes());
    body[3..11].copy_from_slice(&history.to_be_bytes());
    body[19..].copy_from_slice(&newest.to_be_bytes());
    crate::memcached::reply::put_body(out, head, Status::OK, &body);
}

/// Appends the number of a scope or collection, which is the default one's: `manifest u64 | id u32`.
pub fn put_id(out: &mut impl Put, head: &Head, id: u32) {
    let mut extras = [0; 12];
    extras[..8].copy_from_slice(&super::collections::MANIFEST_UID.to_be_bytes());
    extras[8..].copy_from_slice(&id.to_be_bytes());
    put_extras(out, head, &extras, 0);
}
