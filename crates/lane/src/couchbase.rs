//! What clients of Couchbase ask of a node: which features both know, who they are, which bucket they mean, and which node has
//! which partition. Every lane is a node; all of it is answered here, without another lane.
//!
//! A client that has selected a bucket knows the map. When it asks this node for a key of another, and says itself that the key's
//! partition is another's, its map is old: it is sent on, with the map (NOT_MY_VBUCKET). Whoever knows no map, or does not tell
//! the partition, has its requests forwarded.

use std::collections::BTreeMap;

use auth::scram::{Exchange, Mechanism};
use wire::couchbase::reply::{put_id, put_json, put_newest};
use wire::couchbase::status::error_map;
use wire::couchbase::{ClusterMap, Features, collections};
use wire::memcached::{HEAD, Head, KEY, Outcome, Status, VALUE, Verb, reply};
use wire::reply::Put;
use wire::route::{LaneId, VBUCKETS};

use crate::core::Core;
use crate::dispatch::{Caller, Flow};
use crate::documents::knows;
use crate::replies::Sink;
use crate::request::Args;

/// The version of Couchbase Server whose behaviour is followed.
pub(crate) const VERSION: &str = "7.2.0-0000-community";

/// What a client of Couchbase and this node have agreed on, beside the features that its decoder keeps.
#[derive(Default)]
pub(crate) struct Session {
    /// The number of the bucket that it has selected, whose map it has or will have.
    pub(crate) bucket: Option<u16>,
    /// It wants the map no second time.
    wants_map_once: bool,
    has_map: bool,
    /// It has begun to show that it knows the password.
    exchange: Option<Exchange>,
}

impl Session {
    /// Does the map go with what is said next? Afterwards the client has it.
    pub(crate) fn is_to_have_map(&mut self) -> bool {
        !std::mem::replace(&mut self.has_map, true) || !self.wants_map_once
    }
}

/// The map as this lane says it, made when it is first asked for: of each bucket, and of nodes alone. What it is made of stays the same
/// while the server runs.
pub(crate) type Maps = BTreeMap<Option<u16>, String>;

/// What a question came to.
enum Answer {
    Said,
    Outcome(Outcome),
}

impl Core {
    /// Answers a question to this node.
    pub(crate) fn answer_node(&mut self, caller: &mut Caller<'_>, args: Args<'_>) -> Flow {
        let head = Head::from_bytes(args.flat(HEAD));
        let mut session = caller.client.session.take().unwrap_or_default();
        if matches!(head.verb, Verb::SaslAuth | Verb::SaslStep) {
            let (status, body) = self.authenticate(&head, args, &mut session);
            caller.client.is_authenticated |= status == Status::OK;
            let mut sink = caller.sink();
            if status == Status::AUTH_ERROR {
                sink.note_code(status.meaning().0);
            }
            reply::put_body(&mut sink, &head, status, &body);
        } else if let Answer::Outcome(outcome) =
            self.say_of_node(&head, args, &mut session, &mut caller.sink())
        {
            reply::put(&mut caller.sink(), &head, b"", b"", &outcome);
        }
        if let Some(bucket) = session.bucket {
            caller.client.db = self.settings.database_count + bucket;
        }
        caller.client.session = Some(session);
        Flow::Next
    }

    fn say_of_node(
        &mut self,
        head: &Head,
        args: Args<'_>,
        session: &mut Session,
        sink: &mut Sink<'_>,
    ) -> Answer {
        let value = if args.len() > VALUE { args.flat(VALUE) } else { b"" };
        match head.verb {
            Verb::Hello => {
                let features = Features::accepted(value);
                session.wants_map_once = features.has(Features::MAP_ONCE);
                session.has_map = false;
                reply::put_body(sink, head, Status::OK, &features.list());
            }
            Verb::SelectBucket => {
                let bucket = self.settings.namespaces.bucket(args.flat(KEY));
                if bucket.is_none() {
                    return Answer::Outcome(Outcome::Status(Status::NO_ACCESS));
                }
                session.has_map &= session.bucket == bucket;
                session.bucket = bucket;
                return Answer::Outcome(Outcome::Ok);
            }
            Verb::ClusterConfig => {
                let known = (head.delta.cast_signed(), head.initial.cast_signed());
                let (epoch, revision) = (self.settings.map_epoch, self.map.epoch);
                let is_known = head.is(wire::memcached::Bits::KNOWS_MAP)
                    && known >= (epoch, i64::try_from(revision).unwrap_or(i64::MAX));
                session.has_map |= session.bucket.is_some();
                let map = if is_known { "" } else { self.cluster_map(session.bucket) };
                put_json(sink, head, Status::OK, map);
            }
            Verb::ErrorMap => {
                let version = value.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
                put_json(sink, head, Status::OK, &error_map(version));
            }
            Verb::Manifest => put_json(sink, head, Status::OK, collections::MANIFEST),
            Verb::CollectionId | Verb::ScopeId => match collections::id(value, head.verb == Verb::ScopeId) {
                Ok(id) => put_id(sink, head, id),
                Err(status) => return Answer::Outcome(Outcome::Status(status)),
            },
            Verb::ObserveSeqno if self.owns(head.vbucket) => return self.observe(head, value, sink),
            // What has the one copy of a partition is asked in vain for another, as is who has none.
            Verb::ObserveSeqno | Verb::GetReplica => {
                let map_of = session.bucket.filter(|_| session.is_to_have_map());
                self.put_not_mine(head, map_of, sink);
            }
            Verb::VbucketStats => {
                for vbucket in (0..VBUCKETS).filter(|vbucket| self.owns(*vbucket)) {
                    reply::put_stat(sink, head, &format!("vb_{vbucket}"), "active");
                }
                reply::put_stats_end(sink, head);
            }
            Verb::Version => reply::put_version(sink, head, VERSION),
            Verb::SaslList => {
                let mut list = Mechanism::ALL.map(Mechanism::name).join(" ");
                list += " PLAIN";
                reply::put_body(sink, head, Status::OK, list.as_bytes());
            }
            verb => unreachable!("{verb:?} is no question to a node"),
        }
        Answer::Said
    }

    /// The newest change of a partition of this lane in this history.
    fn observe(&self, head: &Head, history: &[u8], sink: &mut Sink<'_>) -> Answer {
        let documents = &self.space.documents;
        if history != documents.history.to_be_bytes() {
            return Answer::Outcome(Outcome::NotFound);
        }
        // Changes are counted over the lane: each partition's own numbers grow as well.
        put_newest(sink, head, documents.history, documents.newest());
        Answer::Said
    }

    /// A step of SASL: the status, and what is said with it.
    fn authenticate(&mut self, head: &Head, args: Args<'_>, session: &mut Session) -> (Status, Vec<u8>) {
        let refused = (Status::AUTH_ERROR, Vec::new());
        let begun = session.exchange.take();
        let Some(password) = &self.settings.password else { return (Status::OK, Vec::new()) };
        let (mechanism, message) = (args.flat(KEY), args.flat(VALUE));
        if head.verb == Verb::SaslStep {
            let server_final = begun.and_then(|exchange| exchange.finish(message).ok());
            return server_final.map_or(refused, |message| (Status::OK, message));
        }
        if mechanism == b"PLAIN" {
            return if knows(args, password) { (Status::OK, Vec::new()) } else { refused };
        }
        let verifier = Mechanism::of(mechanism).and_then(|mechanism| {
            self.settings.verifiers.iter().find(|verifier| verifier.mechanism() == mechanism)
        });
        let Some(verifier) = verifier else { return refused };
        // The table's hash is keyed: nobody outside can tell the next one.
        let mut secret = || {
            let draw = self.space.draw();
            self.space.shard.key(0, 0, &draw.to_le_bytes()).hash
        };
        let nonce = format!("{:016x}{:016x}", secret(), secret());
        match Exchange::begin(verifier, message, &nonce) {
            Ok((exchange, server_first)) => {
                session.exchange = Some(exchange);
                (Status::AUTH_CONTINUE, server_first)
            }
            Err(_) => refused,
        }
    }

    /// Is this partition here?
    fn owns(&self, vbucket: u16) -> bool {
        self.map.owner_of_vbucket(vbucket) == Some(LaneId(self.id))
    }

    /// Does a client that asks for a key of another lane say itself that it is another's?
    pub(crate) fn is_sent_on(&self, args: Args<'_>) -> bool {
        !self.owns(Head::from_bytes(args.flat(HEAD)).vbucket)
    }

    /// Sends a client on to the lane that has its key, with the map of this bucket or without any.
    #[cold]
    pub(crate) fn send_on(&mut self, args: Args<'_>, map_of: Option<u16>, sink: &mut Sink<'_>) {
        self.put_not_mine(&Head::from_bytes(args.flat(HEAD)), map_of, sink);
    }

    fn put_not_mine(&mut self, head: &Head, map_of: Option<u16>, sink: &mut Sink<'_>) {
        let map = if map_of.is_some() { self.cluster_map(map_of) } else { "" };
        put_json(sink, head, Status::NOT_MY_VBUCKET, map);
    }

    /// The map of a bucket's partitions, or of nodes alone.
    fn cluster_map(&mut self, bucket: Option<u16>) -> &str {
        let Core { maps, settings, map, id, .. } = self;
        maps.entry(bucket).or_insert_with(|| {
            let host = settings.announce_ip.as_deref();
            ClusterMap { host, ..settings.cluster_map(map, *id, bucket) }.json()
        })
    }
}
