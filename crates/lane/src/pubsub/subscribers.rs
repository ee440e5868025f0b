//! Who subscribes to what on a lane: the lane's side, by name, and each client's own. A name is a channel, a pattern or a sharded channel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{self, Excluded, Unbounded};
use std::sync::Arc;

use wire::route::Slot;

use crate::board::Board;

/// What is counted for a name that a client subscribes, beside its bytes, which both sides share: an entry on each, and most names have one
/// subscriber.
const ENTRY_SIZE: usize = 320;

/// A channel or a pattern.
pub(crate) type Name = Arc<[u8]>;

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel = 0,
    Pattern = 1,
    Shard = 2,
}

/// How many kinds there are.
pub(crate) const KIND_COUNT: usize = 3;

/// A client, from its first name to when it subscribes to nothing. Later it is another one, so that what is left of the first cannot reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subscriber {
    pub(crate) client: u64,
    pub(crate) round: u32,
}

/// What a client subscribes to.
pub(crate) struct Subscriptions {
    pub(crate) round: u32,
    names: [BTreeSet<Name>; KIND_COUNT],
    size: usize,
}

impl Subscriptions {
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    pub(crate) fn counts(&self) -> [usize; KIND_COUNT] {
        [Kind::Channel, Kind::Pattern, Kind::Shard].map(|kind| self.count(kind))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// Bytes that it holds.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Its names of a kind from one on.
    pub(crate) fn names_from(&self, kind: Kind, from: Bound<&[u8]>) -> impl Iterator<Item = &Name> {
        self.names[kind as usize].range::<[u8], _>((from, Unbounded))
    }

    /// The first of its names of a kind.
    pub(crate) fn first(&self, kind: Kind) -> Option<&Name> {
        self.names[kind as usize].first()
    }
}

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Subscribers {
    by_name: [BTreeMap<Name, BTreeSet<Subscriber>>; KIND_COUNT],
    /// Channels by their bit on the board.
    bits: BTreeMap<u16, u32>,
    round_newest: u32,
}

impl Subscribers {
    /// For a client that subscribes to nothing yet.
    pub(crate) fn begin(&mut self) -> Subscriptions {
        self.round_newest = self.round_newest.wrapping_add(1);
        Subscriptions {
            round: self.round_newest,
            names: Default::default(),
            size: size_of::<Subscriptions>(),
        }
    }

    /// A client of this lane subscribes to a name from now on, if it did not before. Whoever publishes after that finds it on the board.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        name: &[u8],
        client: u64,
        subscriptions: &mut Subscriptions,
        (board, lane): (&Board, u16),
    ) {
        if subscriptions.names[kind as usize].contains(name) {
            return;
        }
        let names = &mut self.by_name[kind as usize];
        let shared = names.get_key_value(name).map(|(shared, _)| Arc::clone(shared));
        let is_new = shared.is_none();
        let shared = shared.unwrap_or_else(|| name.into());
        let subscriber = Subscriber { client, round: subscriptions.round };
        names.entry(Arc::clone(&shared)).or_default().insert(subscriber);
        subscriptions.size += ENTRY_SIZE + name.len();
        subscriptions.names[kind as usize].insert(shared);
        if !is_new {
            return;
        }
        if kind == Kind::Pattern {
            board.set_has_patterns(lane, true);
        } else {
            let bit = Board::bit_of(Slot::of(name));
            *self.bits.entry(bit).or_default() += 1;
            board.set_subscribed(lane, bit, true);
        }
    }

    /// It subscribes to it no more, if it did.
    pub(crate) fn remove(
        &mut self,
        kind: Kind,
        name: &[u8],
        client: u64,
        subscriptions: &mut Subscriptions,
        (board, lane): (&Board, u16),
    ) {
        if !subscriptions.names[kind as usize].remove(name) {
            return;
        }
        subscriptions.size -= ENTRY_SIZE + name.len();
        let names = &mut self.by_name[kind as usize];
        let subscribers = names.get_mut(name).expect("both sides have a name");
        subscribers.remove(&Subscriber { client, round: subscriptions.round });
        if !subscribers.is_empty() {
            return;
        }
        names.remove(name);
        if kind == Kind::Pattern {
            board.set_has_patterns(lane, !names.is_empty());
            return;
        }
        let bit = Board::bit_of(Slot::of(name));
        let count = self.bits.get_mut(&bit).expect("counted when it came");
        *count -= 1;
        if *count == 0 {
            self.bits.remove(&bit);
            board.set_subscribed(lane, bit, false);
        }
    }

    /// How many names of a kind somebody subscribes to.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.by_name[kind as usize].len()
    }

    /// How many clients subscribe to a name.
    pub(crate) fn count_of(&self, kind: Kind, name: &[u8]) -> usize {
        self.by_name[kind as usize].get(name).map_or(0, BTreeSet::len)
    }

    /// The subscribers of a name behind `after`.
    pub(crate) fn of<'a>(
        &'a self,
        kind: Kind,
        name: &[u8],
        after: Option<Subscriber>,
    ) -> impl Iterator<Item = Subscriber> + use<'a> {
        let start = after.map_or(Unbounded, Excluded);
        let subscribers = self.by_name[kind as usize].get(name);
        subscribers.into_iter().flat_map(move |subscribers| subscribers.range((start, Unbounded)).copied())
    }

    /// The names of a kind behind `after`.
    pub(crate) fn names<'a>(
        &'a self,
        kind: Kind,
        after: Option<&[u8]>,
    ) -> impl Iterator<Item = &'a Name> + use<'a> {
        let start = after.map_or(Unbounded, Excluded);
        self.by_name[kind as usize].range::<[u8], _>((start, Unbounded)).map(|(name, _)| name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.iter().all(BTreeMap::is_empty)
    }
}
