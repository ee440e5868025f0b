//! The commands, a file for each chapter. Each takes the data, the call and the place of the reply; what may touch many
//! elements or bytes also takes its progress and a budget, and says whether it is done.
//!
//! Direct and forwarded commands, parts of transactions and slices all come through [`run`].

pub(crate) mod bitfield;
pub(crate) mod bitop;
pub(crate) mod bits;
pub(crate) mod counter;
pub(crate) mod database;
pub(crate) mod document;
pub(crate) mod dump;
pub(crate) mod expiry;
pub(crate) mod generic;
pub(crate) mod lcs;
pub(crate) mod many;
pub(crate) mod object;
pub(crate) mod range;
pub(crate) mod record;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod string;
pub(crate) mod text;

use store::{Budget, Rope, RopeBuilder};
use wire::command::{Group, Id};
use wire::reply;

use crate::cluster;
use crate::keyspace::{Call, Keyspace};
use crate::locks::LockName;
use crate::replies::Sink;
use crate::watch::Round;

use bitfield::Fields;
use bitop::Combination;
use bits::Scan;
use document::inside::Inside;
use dump::Dump;
use lcs::Lcs;
use restore::Restore;
use scan::Walk;

/// An argument that should be an integer and is not, or has more than 64 bits.
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// Options that contradict each other, or are none.
pub(crate) const SYNTAX: &str = "ERR syntax error";

/// How far a command has come that takes more than one step.
#[derive(Default)]
pub(crate) struct Progress {
    /// Where it goes on: an argument's index, a partition, a byte.
    pub(crate) at: u64,
    /// What it counts.
    pub(crate) count: i64,
    /// What else it keeps from step to step.
    pub(crate) state: Option<Box<State>>,
}

/// See [`Progress::state`].
pub(crate) enum State {
    /// A new value, aside until it is whole.
    Writing(RopeBuilder),
    /// KEYS and SCAN.
    Walking(Walk),
    /// SCAN over several lanes, on its client's.
    Touring(scan::Scanning),
    /// LCS.
    Comparing(Lcs),
    /// BITCOUNT and BITPOS, and the string that they go over.
    Scanning(Scan, Rope),
    /// BITOP.
    Combining(Combination),
    /// BITFIELD.
    Fields(Fields),
    /// FLUSHDB, FLUSHALL and SWAPDB, at the keys that clients watch.
    Touching(Round),
    /// DUMP.
    Dumping(Dump),
    /// RESTORE.
    Restoring(Restore),
    /// Paths of a document.
    Inside(Inside),
    /// A record's new value, aside until it is whole.
    Recording(record::Writing),
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The command is over and its reply written.
    Done,
    /// Its work ran out; it goes on from its progress.
    More,
}

/// Runs a command, or the next slice of it. Keys are locked and belong to this lane; arity is checked.
#[inline]
pub(crate) fn run(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    match call.command.id {
        Id::Get => string::get(space, call, sink),
        Id::Set => string::set(space, call, sink),
        Id::Setnx => string::setnx(space, call, sink),
        Id::Setex => string::setex(space, call, sink, expiry::SECONDS),
        Id::Psetex => string::setex(space, call, sink, expiry::MILLISECONDS),
        Id::Getset => string::getset(space, call, sink),
        Id::Getdel => string::getdel(space, call, sink),
        Id::Getex => string::getex(space, call, sink),
        Id::Strlen => range::strlen(space, call, sink),
        Id::Getrange | Id::Substr => range::getrange(space, call, sink),
        Id::Append => return range::append(space, call, progress, sink, budget),
        Id::Setrange => return range::setrange(space, call, progress, sink, budget),
        Id::Lcs => return lcs::lcs(space, call, progress, sink, budget),
        Id::Getbit => bits::getbit(space, call, sink),
        Id::Setbit => bits::setbit(space, call, sink),
        Id::Bitcount => return bits::bitcount(space, call, progress, sink, budget),
        Id::Bitpos => return bits::bitpos(space, call, progress, sink, budget),
        Id::Bitop => return bitop::bitop(space, call, progress, sink, budget),
        Id::Bitfield | Id::BitfieldRo => return bitfield::bitfield(space, call, progress, sink, budget),
        Id::Incr => counter::add(space, call, sink, Ok(1)),
        Id::Decr => counter::add(space, call, sink, Ok(-1)),
        Id::Incrby => counter::add(space, call, sink, counter::parse_step(call)),
        Id::Decrby => {
            counter::add(space, call, sink, counter::parse_step(call).and_then(counter::negated));
        }
        Id::Incrbyfloat => counter::add_float(space, call, sink),
        Id::Mget => return many::mget(space, call, progress, sink, budget),
        Id::Mset => return many::mset(space, call, progress, sink, budget),
        Id::Msetnx => return many::msetnx(space, call, progress, sink, budget),
        Id::Del | Id::Unlink => return generic::del(space, call, progress, sink, budget),
        Id::Exists | Id::Touch => return generic::exists(space, call, progress, sink, budget),
        Id::Rename | Id::Renamenx => generic::rename(space, call, sink),
        Id::Copy => generic::copy(space, call, sink),
        Id::Move => generic::move_key(space, call, sink),
        Id::Dump => return dump::dump(space, call, progress, sink, budget),
        Id::Restore | Id::RestoreAsking => return restore::restore(space, call, progress, sink, budget),
        Id::Type => generic::type_of(space, call, sink),
        Id::ObjectEncoding | Id::ObjectFreq | Id::ObjectIdletime | Id::ObjectRefcount => {
            object::object(space, call, sink);
        }
        Id::Expire | Id::Pexpire | Id::Expireat | Id::Pexpireat => expiry::expire(space, call, sink),
        Id::Ttl | Id::Pttl | Id::Expiretime | Id::Pexpiretime => expiry::ttl(space, call, sink),
        Id::Persist => expiry::persist(space, call, sink),
        Id::Dbsize => database::dbsize(space, call, sink),
        Id::Flushall | Id::Flushdb => return database::flush(space, call, progress, sink, budget),
        Id::Swapdb => return database::swap(space, call, progress, sink, budget),
        Id::Keys => return scan::keys(space, call, progress, sink, budget),
        Id::Scan => return scan::scan(space, call, progress, sink, budget),
        Id::Randomkey => return scan::random_key(space, call, sink, budget),
        Id::MemoryUsage => generic::memory_usage(space, call, sink),
        Id::ClusterCountkeysinslot | Id::ClusterGetkeysinslot => cluster::keys_in_slot(space, call, sink),
        _ if call.command.group == Group::Document => {
            return document::run(space, call, progress, sink, budget);
        }
        _ if call.command.group == Group::Record => return record::run(space, call, progress, sink, budget),
        _ => {
            let name = call.command.name;
            reply::error(sink, &format!("ERR the command '{name}' is not served yet"));
        }
    }
    Step::Done
}

/// The locks on the key that is argument `index`: usually one, on MOVE's key in both databases.
pub(crate) fn lock_names(
    space: &Keyspace,
    call: &Call<'_>,
    index: usize,
) -> impl Iterator<Item = LockName> + use<> {
    let hash = space.key(call, index).hash;
    let databases = generic::databases_of_key(call.command, call.args, index, call.db, space.database_count);
    databases.into_iter().flatten().map(move |db| LockName { db, key: Some(hash) })
}
