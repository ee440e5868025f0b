//! Documents apart from their data: what concerns the connection of a client of memcached, and what a lane counts of them.
//! The data is `commands/document.rs`.

use std::collections::BTreeMap;

use store::Effect;
use wire::command::{COMMANDS, Command, Id};
use wire::memcached::{self, HEAD, Head, KEY, Outcome, Say, Status, VALUE, Verb, reply};
use wire::reply::Put;

use crate::Settings;
use crate::client::Client;
use crate::commands::document::flags_of;
use crate::commands::document::lock::Locked;
use crate::connection::Wish;
use crate::dispatch::{Caller, Flow};
use crate::keyspace::{Call, Keyspace};
use crate::replies::Sink;
use crate::request::Args;

/// The version of memcached whose behaviour is followed.
pub(crate) const VERSION: &str = "1.6.18";

/// What a lane keeps for all its documents.
#[derive(Default)]
pub(crate) struct Documents {
    /// The CAS of the newest change.
    cas_newest: u64,
    /// `max-item-size`, bytes that memcached would use for a document ([`memcached::item_size`]).
    pub(crate) item_size_max: u64,
    /// Which history the changes of this run belong to, in mutation tokens.
    pub(crate) history: u64,
    pub(crate) locked: Locked,
    /// When all documents of a database go, unix milliseconds: `flush_all` with a delay.
    pub(crate) flush_at_ms: BTreeMap<u16, i64>,
    pub(crate) tally: Tally,
}

impl Documents {
    /// The number of the newest change.
    pub(crate) fn newest(&self) -> u64 {
        self.cas_newest
    }

    /// A number that no document of this lane has had.
    pub(crate) fn next_cas(&mut self) -> u64 {
        self.cas_newest += 1;
        self.cas_newest
    }
}

/// What commands on documents came to, as memcached's `stats` counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) gets: Tries,
    pub(crate) touches: Tries,
    pub(crate) deletes: Tries,
    pub(crate) incrs: Tries,
    pub(crate) decrs: Tries,
    pub(crate) cas: Tries,
    /// CAS that was another one.
    pub(crate) cas_mismatch_count: u64,
    pub(crate) store_count: u64,
    pub(crate) flush_count: u64,
}

/// How often a key was there, and was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Tries {
    pub(crate) fn note(&mut self, is_hit: bool) {
        self.hits += u64::from(is_hit);
        self.misses += u64::from(!is_hit);
    }
}

impl Tally {
    /// The key of a reading command was there or not. One that gives another end counts as touching alone, whether it reads or not.
    pub(crate) fn looked(&mut self, verb: Verb, is_hit: bool) {
        let touches = matches!(verb, Verb::Touch | Verb::Gat);
        if touches { &mut self.touches } else { &mut self.gets }.note(is_hit);
    }

    /// What became of a storing command.
    pub(crate) fn stored(&mut self, verb: Verb, outcome: &Result<(), Outcome>) {
        self.store_count += 1;
        match (verb, outcome) {
            (Verb::Cas, Ok(())) => self.cas.hits += 1,
            (Verb::Cas, Err(Outcome::NotFound)) => self.cas.misses += 1,
            (Verb::Cas, Err(_)) => self.cas_mismatch_count += 1,
            _ => {}
        }
    }

    /// A number was there to be changed, or was not.
    pub(crate) fn counted(&mut self, verb: Verb, is_hit: bool) {
        if verb == Verb::Incr { &mut self.incrs } else { &mut self.decrs }.note(is_hit);
    }
}

impl Keyspace {
    /// Removes all documents of this lane that `flush_all` has put that off for until now; a bucket in one step: a partition is
    /// emptied at the cost of one look, and there are 1,024 at most.
    #[inline]
    pub(crate) fn flush_documents_when_due(&mut self) {
        if !self.documents.flush_at_ms.is_empty() {
            self.flush_documents();
        }
    }

    fn flush_documents(&mut self) {
        let now_ms = self.now.unix_ms;
        let due = self.documents.flush_at_ms.iter().find(|(_, at_ms)| **at_ms <= now_ms);
        let Some((&db, _)) = due else { return };
        self.documents.flush_at_ms.remove(&db);
        let mut from = 0;
        while let Some(partition) = self.shard.next_filled(db, from) {
            self.commit(Effect::FlushPartition { db, partition }).expect("emptying takes no memory");
            from = partition;
        }
    }
}

/// The command that a head asks for.
#[inline]
pub(crate) fn command_of(head: &[u8]) -> &'static Command {
    let (verb, framing) = Head::front_of(head);
    let id = match verb {
        Verb::Get | Verb::MetaDebug | Verb::GetMeta | Verb::Observe => Id::DocumentGet,
        // It may make what is missing, give it another end, lock it, or note that a client is to renew it.
        Verb::MetaGet | Verb::Gat | Verb::Touch | Verb::GetLocked | Verb::Unlock => Id::DocumentTouch,
        Verb::Set | Verb::Add | Verb::Replace | Verb::Cas => Id::DocumentSet,
        Verb::Append | Verb::Prepend => Id::DocumentEdit,
        Verb::Delete | Verb::Forget => Id::DocumentDelete,
        Verb::LookupIn => Id::DocumentLookup,
        Verb::MutateIn => Id::DocumentMutate,
        Verb::Incr | Verb::Decr => Id::DocumentCount,
        Verb::Flush => Id::DocumentFlush,
        Verb::Stats => Id::DocumentStats,
        Verb::ObserveSeqno
        | Verb::GetReplica
        | Verb::VbucketStats
        | Verb::Hello
        | Verb::SelectBucket
        | Verb::ClusterConfig
        | Verb::ErrorMap
        | Verb::Manifest
        | Verb::CollectionId
        | Verb::ScopeId => Id::DocumentNode,
        Verb::Version | Verb::SaslList | Verb::SaslAuth | Verb::SaslStep
            if framing == memcached::Framing::Couchbase =>
        {
            Id::DocumentNode
        }
        verb => {
            assert!(!verb.has_key(), "what concerns a key goes to its lane");
            Id::DocumentSay
        }
    };
    &COMMANDS[id as usize]
}

/// Answers what concerns the connection alone.
pub(crate) fn say(client: &mut Client, call: &Call<'_>, settings: &Settings, sink: &mut Sink<'_>) -> Wish {
    let args = call.args;
    let head = Head::from_bytes(args.flat(HEAD));
    let outcome = match head.verb {
        Verb::Say => Outcome::Say(head.say),
        Verb::Refuse => Outcome::Status(Status(u16::try_from(head.delta).expect("a status has two bytes"))),
        Verb::Version => {
            reply::put_version(sink, &head, VERSION);
            return Wish::Nothing;
        }
        Verb::SaslList => {
            reply::put_body(sink, &head, Status::OK, b"PLAIN");
            return Wish::Nothing;
        }
        Verb::SaslAuth | Verb::SaslStep => {
            if settings.password.as_ref().is_none_or(|password| knows(args, password)) {
                client.is_authenticated = true;
                reply::put_body(sink, &head, Status::OK, b"Authenticated");
                return Wish::Nothing;
            }
            Outcome::Say(Say::WrongPassword)
        }
        _ => Outcome::Ok,
    };
    put(args, &head, &outcome, sink);
    if head.verb == Verb::Quit || reply::closes(&head, &outcome) { Wish::Leave } else { Wish::Nothing }
}

fn put(args: Args<'_>, head: &Head, outcome: &Outcome, sink: &mut impl Put) {
    reply::put(sink, head, args.flat(KEY), flags_of(args), outcome);
}

/// Whether a SASL payload of mechanism PLAIN (RFC 4616) has the password. The user may be any: there is one password.
pub(crate) fn knows(args: Args<'_>, password: &[u8]) -> bool {
    let mut fields = args.flat(VALUE).splitn(3, |&byte| byte == 0).skip(1);
    args.flat(KEY) == b"PLAIN"
        && fields.next().is_some()
        && fields.next().is_some_and(|given| auth::is_same(given, password))
}

/// A command of a client that has not said the password. In text it is the value of a `set` to any key: user, blank and
/// password, as memcached has it (`-Y`).
pub(crate) fn greet(caller: &mut Caller<'_>, settings: &Settings, args: Args<'_>) -> Flow {
    let head = Head::from_bytes(args.flat(HEAD));
    let is_said = head.verb == Verb::Set && head.framing == memcached::Framing::Text;
    let given = is_said.then(|| args.flat(VALUE).splitn(2, |&byte| byte == b' ').nth(1)).flatten();
    let outcome = match (given, &settings.password) {
        (Some(given), Some(password)) if auth::is_same(given, password) => {
            caller.client.is_authenticated = true;
            Outcome::Stored { cas: 0 }
        }
        (Some(_), _) => Outcome::Say(Say::WrongPassword),
        (None, _) => Outcome::Say(Say::Unauthenticated),
    };
    put(args, &head, &outcome, &mut caller.sink());
    if reply::closes(&head, &outcome) { Flow::Leave } else { Flow::Next }
}

/// Refuses a command for which there is no memory.
#[cold]
pub(crate) fn refuse_for_room(call: &Call<'_>, sink: &mut Sink<'_>) {
    let head = Head::from_bytes(call.args.flat(HEAD));
    put(call.args, &head, &Outcome::Say(Say::OutOfMemory), sink);
}
