//! Replies: what execution has found becomes bytes, in the framing of the request.
//!
//! ```text
//! VALUE k 7 5 [cas]\r\n hello \r\n END\r\n       text: header, value, end
//! VA 5 f7 t-1\r\n hello \r\n                    meta: flags in the order of the request
//! 81 00 0000 04 00 0000 00000009 … 00000007 hello                         binary: 24 bytes, extras, key, value
//! ```
//!
//! A reply with a value is written in three steps, so that the value may go by reference: [`put_value_header`], the value, and
//! [`put_value_end`]. Every other one is [`put`], which says nothing where `noreply`, `q` or a quiet opcode silences it.

use super::head::{Bits, Framing, Head, MAGIC_REPLY, Verb};
use super::say::{Say, Status};
use super::{base64, item_size, meta};
use crate::couchbase;
use crate::number::{U64_TEXT_MAX, write_u64_before};
use crate::reply::Put;

/// An entry as replies show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Client flags.
    pub flags: u32,
    /// Its CAS.
    pub cas: u64,
    /// Bytes of its value.
    pub size: u64,
    /// Its datatype, of binary replies.
    pub datatype: u8,
    /// Seconds until it expires; nothing if it does not.
    pub ttl_s: Option<u64>,
    /// Seconds since it was looked at.
    pub idle_s: u64,
    /// It was looked at before.
    pub was_fetched: bool,
    /// Its key was stored in base64, and so it is shown.
    pub has_base64_key: bool,
    /// It is stale: `X`.
    pub is_stale: bool,
    /// A client has already been told to recache it: `Z`.
    pub is_promised: bool,
    /// This client is told to recache it: `W`.
    pub is_won: bool,
}

/// What execution has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The entry; without its value, or that follows.
    Hit(Item),
    /// No entry, to one who looked.
    Miss,
    /// Stored, with this CAS.
    Stored {
        /// The new CAS.
        cas: u64,
    },
    /// There is an entry that should not be there, or none that should.
    NotStored,
    /// The CAS is another one.
    Exists,
    /// No entry, to one who wanted to change it.
    NotFound,
    /// Deleted, or made stale.
    Deleted {
        /// The number of that change.
        cas: u64,
    },
    /// It has a new expiry.
    Touched(Item),
    /// It was counted.
    Number {
        /// The new number.
        value: u64,
        /// The entry that holds it.
        item: Item,
        /// It was made with this command.
        is_new: bool,
    },
    /// Done, and that is all.
    Ok,
    /// A fixed text.
    Say(Say),
    /// A status of Couchbase, and no more.
    Status(Status),
}

/// Is the connection closed after this?
pub fn closes(head: &Head, outcome: &Outcome) -> bool {
    let is_stranger = head.framing == Framing::Binary && *outcome == Outcome::Say(Say::Unauthenticated);
    head.is(Bits::CLOSES) || is_stranger
}

/// Is there a reply at all?
///
/// - text: `noreply` silences everything, errors too; a key that is missing is not mentioned;
/// - meta: `q` silences what was expected: EN of `mg`, HD of the others, and VA of `ma` for a number that was there;
/// - binary: a quiet opcode silences success, of GET and GAT the miss instead.
pub fn is_said(head: &Head, outcome: &Outcome) -> bool {
    let is_quiet = head.is(Bits::QUIET);
    match (head.framing, outcome) {
        (_, Outcome::Say(Say::Nothing)) => false,
        (Framing::Text, _) if head.verb == Verb::Quit => false,
        (Framing::Text, Outcome::Miss) => head.is(Bits::ENDS),
        (Framing::Text, _) => !is_quiet,
        (Framing::Meta, Outcome::Miss | Outcome::Stored { .. } | Outcome::Deleted { .. }) => !is_quiet,
        (Framing::Meta, Outcome::Number { is_new, .. }) => !is_quiet || *is_new,
        (Framing::Meta, _) => true,
        (Framing::Binary | Framing::Couchbase, Outcome::NotFound | Outcome::Miss) => {
            !is_quiet || !looks(head.verb)
        }
        (
            Framing::Binary | Framing::Couchbase,
            Outcome::Hit(_) | Outcome::NotStored | Outcome::Exists | Outcome::Say(_) | Outcome::Status(_),
        ) => true,
        (Framing::Binary | Framing::Couchbase, _) => !is_quiet,
    }
}

fn looks(verb: Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Gat)
}

/// Does a hit come with its value?
pub fn has_value(head: &Head) -> bool {
    head.is(Bits::WANTS_VALUE) && matches!(head.verb, Verb::Get | Verb::Gat | Verb::MetaGet | Verb::GetLocked)
}

/// Appends a whole reply without a value, if it is said. `key` and `flags` are the command's arguments.
pub fn put(out: &mut impl Put, head: &Head, key: &[u8], flags: &[u8], outcome: &Outcome) {
    debug_assert!(!matches!(outcome, Outcome::Hit(_)) || !has_value(head), "this hit has a value");
    match outcome {
        Outcome::Say(say) if head.framing == Framing::Couchbase => {
            out.note_code(say.status().0.meaning().0);
        }
        Outcome::Say(say) if let Some(code) = say.blame().code() => out.note_code(code),
        Outcome::Status(status) => out.note_code(status.meaning().0),
        _ => {}
    }
    if !is_said(head, outcome) {
        return;
    }
    match head.framing {
        Framing::Text => text(out, head, outcome),
        Framing::Meta => meta(out, head, key, flags, outcome),
        Framing::Binary => binary(out, head, key, outcome),
        Framing::Couchbase => couchbase::reply::put(out, head, key, outcome),
    }
}

/// What a client of another framing would see of a status; none ever does.
const OF_COUCHBASE: &[u8] = b"SERVER_ERROR\r\n";

fn text(out: &mut impl Put, head: &Head, outcome: &Outcome) {
    let line: &[u8] = match outcome {
        Outcome::Number { value, .. } => {
            put_number(out, b"", *value);
            return out.put(b"\r\n");
        }
        Outcome::Say(say) => {
            out.put(say.text().as_bytes());
            return out.put(b"\r\n");
        }
        Outcome::Ok if head.verb == Verb::End => b"END\r\n",
        Outcome::Miss => b"END\r\n",
        Outcome::Ok | Outcome::Hit(_) => b"OK\r\n",
        Outcome::Stored { .. } => b"STORED\r\n",
        Outcome::NotStored => b"NOT_STORED\r\n",
        Outcome::Exists => b"EXISTS\r\n",
        Outcome::NotFound => b"NOT_FOUND\r\n",
        Outcome::Deleted { .. } => b"DELETED\r\n",
        Outcome::Touched(_) => b"TOUCHED\r\n",
        Outcome::Status(_) => OF_COUCHBASE,
    };
    out.put(line);
}

fn meta(out: &mut impl Put, head: &Head, key: &[u8], flags: &[u8], outcome: &Outcome) {
    let mut item = Item { has_base64_key: head.is(Bits::BASE64), ..Item::default() };
    let (code, letters): (&[u8], &[u8]) = match outcome {
        Outcome::Say(say) => {
            out.put(say.text().as_bytes());
            return out.put(b"\r\n");
        }
        Outcome::Ok if head.verb == Verb::Noop => return out.put(b"MN\r\n"),
        Outcome::Number { value, item: found, .. } => {
            return put_counted(out, head, key, flags, *value, found);
        }
        Outcome::Hit(found) if head.verb == Verb::MetaDebug => return put_debug(out, key, found),
        Outcome::Hit(found) | Outcome::Touched(found) => {
            item = *found;
            (b"HD", b"stcflhOk")
        }
        Outcome::Miss if head.verb == Verb::MetaDebug => return out.put(b"EN\r\n"),
        Outcome::Miss => (b"EN", b"Ok"),
        Outcome::Stored { cas } => {
            item.cas = *cas;
            (b"HD", b"Okc")
        }
        Outcome::NotStored => (b"NS", said_of_a_store(head)),
        Outcome::Exists => (b"EX", said_of_a_store(head)),
        Outcome::NotFound => (b"NF", said_of_a_store(head)),
        Outcome::Deleted { .. } | Outcome::Ok => (b"HD", b"Ok"),
        Outcome::Status(_) => (OF_COUCHBASE, b""),
    };
    out.put(code);
    put_flags(out, letters, key, flags, &item);
    put_marks(out, &item);
    out.put(b"\r\n");
}

/// The flags that a failure repeats: a store that fails shows its CAS, which is zero.
fn said_of_a_store(head: &Head) -> &'static [u8] {
    let stores =
        matches!(head.verb, Verb::Set | Verb::Add | Verb::Replace | Verb::Cas | Verb::Append | Verb::Prepend);
    if stores { b"Okc" } else { b"Ok" }
}

/// What `ma` says.
fn put_counted(out: &mut impl Put, head: &Head, key: &[u8], flags: &[u8], value: u64, item: &Item) {
    let item = Item { has_base64_key: head.is(Bits::BASE64), ..*item };
    if !head.is(Bits::WANTS_VALUE) {
        out.put(b"HD");
        put_flags(out, b"ctOk", key, flags, &item);
        return out.put(b"\r\n");
    }
    let mut digits = [0; U64_TEXT_MAX];
    let start = write_u64_before(&mut digits, U64_TEXT_MAX, value);
    put_number(out, b"VA ", size64(U64_TEXT_MAX - start));
    put_flags(out, b"ctOk", key, flags, &item);
    out.put_all([b"\r\n", &digits[start..], b"\r\n"]);
}

/// What `me` says. All are of one slab class here.
fn put_debug(out: &mut impl Put, key: &[u8], item: &Item) {
    out.put(b"ME ");
    if item.has_base64_key {
        out.put(base64::encode(key).as_bytes());
    } else {
        out.put(key);
    }
    match item.ttl_s {
        // Seconds since it expired, which it has not.
        Some(ttl_s) => put_number(out, if ttl_s == 0 { b" exp=" } else { b" exp=-" }, ttl_s),
        None => out.put(b" exp=-1"),
    }
    put_number(out, b" la=", item.idle_s);
    put_number(out, b" cas=", item.cas);
    out.put(if item.was_fetched { b" fetch=yes" } else { b" fetch=no" });
    put_number(out, b" cls=1 size=", item_size(key.len(), item.flags, item.size));
    out.put(b"\r\n");
}

/// The flags of the request that the reply repeats, those of `letters`, in the order of the request.
fn put_flags(out: &mut impl Put, letters: &[u8], key: &[u8], flags: &[u8], item: &Item) {
    for word in meta::words(flags) {
        if !letters.contains(&word[0]) {
            continue;
        }
        match word[0] {
            b's' => put_number(out, b" s", item.size),
            b't' => match item.ttl_s {
                Some(ttl_s) => put_number(out, b" t", ttl_s),
                None => out.put(b" t-1"),
            },
            b'c' => put_number(out, b" c", item.cas),
            b'f' => put_number(out, b" f", u64::from(item.flags)),
            b'l' => put_number(out, b" l", item.idle_s),
            b'h' => out.put(if item.was_fetched { b" h1" } else { b" h0" }),
            b'k' if item.has_base64_key => out.put_all([b" k", base64::encode(key).as_bytes(), b" b"]),
            b'k' => out.put_all([b" k", key, b""]),
            _ => out.put_all([b" ", word, b""]),
        }
    }
}

/// Who recaches.
fn put_marks(out: &mut impl Put, item: &Item) {
    for (is_set, mark) in [(item.is_promised, b" Z"), (item.is_stale, b" X"), (item.is_won, b" W")] {
        if is_set {
            out.put(mark);
        }
    }
}

fn binary(out: &mut impl Put, head: &Head, key: &[u8], outcome: &Outcome) {
    let status = |out: &mut _, status, text: &str| put_body(out, head, status, text.as_bytes());
    match outcome {
        Outcome::Ok | Outcome::Deleted { .. } => put_done(out, head, 0),
        Outcome::Stored { cas } => put_done(out, head, *cas),
        Outcome::Hit(item) | Outcome::Touched(item) => {
            put_header(out, head, &Header { extras_size: 4, body_size: 4, cas: item.cas, ..Header::OK });
            out.put(&item.flags.to_be_bytes());
        }
        Outcome::Number { value, item, .. } => {
            put_header(out, head, &Header { body_size: 8, cas: item.cas, ..Header::OK });
            out.put(&value.to_be_bytes());
        }
        Outcome::Miss | Outcome::NotFound if head.is(Bits::WANTS_KEY) => {
            let key_size = key_size(key);
            let header =
                Header { status: Status::NOT_FOUND, key_size, body_size: u32::from(key_size), ..Header::OK };
            put_header(out, head, &header);
            out.put(key);
        }
        Outcome::Miss | Outcome::NotFound => status(out, Status::NOT_FOUND, "Not found"),
        Outcome::Exists => status(out, Status::EXISTS, "Data exists for key."),
        Outcome::NotStored => match head.verb {
            Verb::Add => status(out, Status::EXISTS, "Data exists for key."),
            Verb::Replace => status(out, Status::NOT_FOUND, "Not found"),
            _ => status(out, Status::NOT_STORED, "Not stored."),
        },
        Outcome::Say(say) => {
            let (code, text) = say.status();
            status(out, code, text);
        }
        Outcome::Status(code) => status(out, *code, ""),
    }
}

/// Appends what stands before the bytes of a value of `item.size` bytes.
pub fn put_value_header(out: &mut impl Put, head: &Head, key: &[u8], flags: &[u8], item: &Item) {
    match head.framing {
        Framing::Text => {
            out.put_all([b"VALUE ", key, b""]);
            put_number(out, b" ", u64::from(item.flags));
            put_number(out, b" ", item.size);
            if head.is(Bits::WANTS_CAS) {
                put_number(out, b" ", item.cas);
            }
            out.put(b"\r\n");
        }
        Framing::Meta => {
            put_number(out, b"VA ", item.size);
            put_flags(out, b"stcflhOk", key, flags, item);
            put_marks(out, item);
            out.put(b"\r\n");
        }
        Framing::Couchbase => couchbase::reply::put_value_header(out, head, key, item),
        Framing::Binary => {
            let key = if head.is(Bits::WANTS_KEY) { key } else { b"" };
            let body_size = size64(4 + key.len()) + item.size;
            let header = Header {
                datatype: item.datatype,
                extras_size: 4,
                key_size: key_size(key),
                body_size: u32::try_from(body_size).expect("values are far smaller than 4 GiB"),
                cas: item.cas,
                ..Header::OK
            };
            out.put_all([&header_bytes(head, &header), &item.flags.to_be_bytes(), key]);
        }
    }
}

/// Appends what stands behind the bytes of a value.
pub fn put_value_end(out: &mut impl Put, head: &Head) {
    match head.framing {
        Framing::Text if head.is(Bits::ENDS) => out.put(b"\r\nEND\r\n"),
        Framing::Text | Framing::Meta => out.put(b"\r\n"),
        Framing::Binary | Framing::Couchbase => {}
    }
}

/// Appends the reply to [`Verb::Version`].
pub fn put_version(out: &mut impl Put, head: &Head, version: &str) {
    if head.framing.is_binary() {
        put_body(out, head, Status::OK, version.as_bytes());
    } else {
        out.put_all([b"VERSION ", version.as_bytes(), b"\r\n"]);
    }
}

/// Appends one statistic.
pub fn put_stat(out: &mut impl Put, head: &Head, name: &str, value: &str) {
    if !head.framing.is_binary() {
        out.put_all([b"STAT ", name.as_bytes(), b" "]);
        return out.put_all([value.as_bytes(), b"\r\n", b""]);
    }
    let body_size = u32::try_from(name.len() + value.len()).expect("statistics are short");
    put_header(out, head, &Header { key_size: key_size(name.as_bytes()), body_size, ..Header::OK });
    out.put_all([name.as_bytes(), value.as_bytes(), b""]);
}

/// Appends the end of the statistics.
pub fn put_stats_end(out: &mut impl Put, head: &Head) {
    if head.framing.is_binary() {
        put_done(out, head, 0);
    } else {
        out.put(b"END\r\n");
    }
}

/// Appends a binary reply that has nothing but a status and a body: of SASL and of statistics.
pub fn put_body(out: &mut impl Put, head: &Head, status: Status, body: &[u8]) {
    let body_size = u32::try_from(body.len()).expect("such a body is short");
    put_header(out, head, &Header { status, body_size, ..Header::OK });
    out.put(body);
}

pub(crate) fn put_done(out: &mut impl Put, head: &Head, cas: u64) {
    put_header(out, head, &Header { cas, ..Header::OK });
}

/// What the header of a binary reply says beyond what it repeats.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Zero is success.
    pub status: Status,
    /// The datatype of the value.
    pub datatype: u8,
    /// Bytes of the extras.
    pub extras_size: u8,
    /// Bytes of the key.
    pub key_size: u16,
    /// Bytes of extras, key and value.
    pub body_size: u32,
    /// The CAS of the entry; zero where there is none.
    pub cas: u64,
}

impl Header {
    /// Success without a body.
    pub const OK: Header =
        Header { status: Status::OK, datatype: 0, extras_size: 0, key_size: 0, body_size: 0, cas: 0 };
}

/// Appends the header of a binary reply: layout as a request's, with the magic 0x81 and the status instead of the partition.
pub fn put_header(out: &mut impl Put, head: &Head, header: &Header) {
    out.put(&header_bytes(head, header));
}

#[inline]
fn header_bytes(head: &Head, header: &Header) -> [u8; super::binary::HEADER_SIZE] {
    let mut bytes = [0; super::binary::HEADER_SIZE];
    bytes[..2].copy_from_slice(&[MAGIC_REPLY, head.opcode]);
    bytes[2..4].copy_from_slice(&header.key_size.to_be_bytes());
    bytes[4..6].copy_from_slice(&[header.extras_size, header.datatype]);
    bytes[6..8].copy_from_slice(&header.status.0.to_be_bytes());
    bytes[8..12].copy_from_slice(&header.body_size.to_be_bytes());
    bytes[12..16].copy_from_slice(&head.opaque.to_be_bytes());
    bytes[16..].copy_from_slice(&header.cas.to_be_bytes());
    bytes
}

/// A word and a number behind it.
fn put_number(out: &mut impl Put, word: &[u8], value: u64) {
    let mut digits = [0; U64_TEXT_MAX];
    let start = write_u64_before(&mut digits, U64_TEXT_MAX, value);
    out.put_all([word, &digits[start..], b""]);
}

pub(crate) fn key_size(key: &[u8]) -> u16 {
    u16::try_from(key.len()).expect("keys and names are short")
}

pub(crate) fn size64(size: usize) -> u64 {
    u64::try_from(size).expect("a size fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was put, and the errors that were noted.
    #[derive(Default)]
    struct Out(Vec<u8>, Vec<&'static str>);

    impl Put for Out {
        fn put(&mut self, bytes: &[u8]) {
            self.0.put(bytes);
        }

        fn note_code(&mut self, word: &'static str) {
            self.1.push(word);
        }
    }

    #[test]
    fn errors_are_counted_said_or_not() {
        for framing in [Framing::Text, Framing::Meta, Framing::Binary] {
            for bits in [Bits::default(), Bits::QUIET] {
                let head = Head { bits, ..Head::new(Verb::Set, framing) };
                let mut out = Out::default();
                for outcome in [
                    Outcome::Say(Say::BadChunk),
                    Outcome::Say(Say::Error),
                    Outcome::Say(Say::TooLarge),
                    Outcome::Say(Say::Nothing),
                    Outcome::Say(Say::Done),
                    Outcome::NotStored,
                    Outcome::NotFound,
                    Outcome::Exists,
                ] {
                    put(&mut out, &head, b"k", b"", &outcome);
                }
                assert_eq!(out.1, ["CLIENT_ERROR", "ERROR", "SERVER_ERROR", "CLIENT_ERROR"]);
                assert_eq!(out.0.is_empty(), framing == Framing::Text && bits == Bits::QUIET);
            }
        }
    }

    #[test]
    fn statistics_are_lines_or_packets() {
        let stats = |framing: Framing| {
            let head = Head { opcode: 0x10, opaque: 7, ..Head::new(Verb::Stats, framing) };
            let mut out = Vec::new();
            put_stat(&mut out, &head, "pid", "123");
            put_stats_end(&mut out, &head);
            out
        };
        assert_eq!(stats(Framing::Text), b"STAT pid 123\r\nEND\r\n");
        // As in the protocol's document, section 4.10.
        let packet = |key_size: u8, body_size: u8| {
            let front = [0x81, 0x10, 0, key_size, 0, 0, 0, 0, 0, 0, 0, body_size, 0, 0, 0, 7];
            [&front[..], &[0; 8]].concat()
        };
        assert_eq!(stats(Framing::Binary), [&packet(3, 6)[..], b"pid123", &packet(0, 0)].concat());
    }

    #[test]
    fn a_stranger_is_sent_away() {
        let outcome = Outcome::Say(Say::Unauthenticated);
        assert!(closes(&Head::new(Verb::Get, Framing::Binary), &outcome));
        assert!(!closes(&Head::new(Verb::Get, Framing::Text), &outcome));
        let quit = Head { bits: Bits::CLOSES, ..Head::new(Verb::Quit, Framing::Text) };
        assert!(closes(&quit, &Outcome::Ok));
        let mut out = Vec::new();
        put(
            &mut out,
            &Head { opcode: 0x20, ..Head::new(Verb::SaslAuth, Framing::Binary) },
            b"",
            b"",
            &outcome,
        );
        assert_eq!((out[7], &out[24..]), (0x20, &b"Auth failure."[..]));
        out.clear();
        put_body(&mut out, &Head::new(Verb::SaslAuth, Framing::Binary), Status::AUTH_CONTINUE, b"r=x");
        assert_eq!((out[7], out[11], &out[24..]), (0x21, 3, &b"r=x"[..]));
    }
}
