//! Invalidations on their way: from the table to lanes, and on a client's lane to it, or to whom it has named. However many they are, so
//! many a turn go on, and what would pile up becomes one word: everything may have changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::Net;
use store::Budget;
use wire::reply::{self, Proto, Put};

use super::Trackers;
use super::table::{Everything, Name, Reader, Wishes, for_each_prefix};
use crate::client::Client;
use crate::core::Core;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::replies::Sink;
use crate::slab::{Handle, Slab};
use crate::turn::Lane;

/// Keys that go on in a turn; if more wait, a quarter of them.
const KEYS_PER_TURN: usize = 1024;
/// Clients that are told something in a turn, and bytes of that: the turn ends with a send to each.
const HANDED_PER_TURN: Budget = Budget::new(128, 256 * 1024);
/// Keys of one word that take as long to be looked through for a client's own as it takes to tell it.
const KEYS_PER_CLIENT: usize = 16;
/// Entries that wait for a lane, or on one: with more, its clients are told that everything may have changed.
const WAITING_MAX: usize = 8192;

/// The channel on which clients of RESP2 are told.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What a client is told.
#[derive(Clone)]
pub(crate) enum Body {
    /// These keys have changed: an array, as it is sent.
    Keys(Arc<Vec<u8>>),
    /// Everything may have.
    Everything,
}

impl Body {
    fn of<'k>(keys: impl ExactSizeIterator<Item = &'k Name>) -> Body {
        let mut bytes = Vec::new();
        reply::array(&mut bytes, keys.len());
        keys.for_each(|key| reply::bulk(&mut bytes, key));
        Body::Keys(Arc::new(bytes))
    }

    fn size(&self) -> usize {
        match self {
            Body::Keys(keys) => keys.len(),
            Body::Everything => 0,
        }
    }
}

/// An invalidation for a client of the lane that gets it, which another one has named.
pub(super) struct Redirected {
    to: u64,
    /// Who has.
    from: Reader,
    body: Body,
}

/// What a lane tells another.
#[derive(Default)]
pub(crate) struct News {
    /// What its clients want to know of, from now on.
    pub(super) wishes: Option<Arc<Wishes>>,
    /// For clients that have read these keys.
    keys: Vec<(u64, Name)>,
    /// For clients that want to know of all keys like these, but not of what they have changed themselves.
    broadcast: Vec<(Name, Option<Reader>)>,
    /// For all that track.
    everything: bool,
    redirected: Vec<Redirected>,
    /// Whom these clients have named has gone.
    broken: Vec<u64>,
}

impl News {
    fn len(&self) -> usize {
        self.keys.len() + self.broadcast.len() + self.redirected.len() + self.broken.len()
    }

    /// What is too much to be said becomes one word.
    fn shorten(&mut self) {
        if self.len() <= WAITING_MAX {
            return;
        }
        self.everything |= !self.keys.is_empty() || !self.broadcast.is_empty();
        (self.keys, self.broadcast) = (Vec::new(), Vec::new());
        let redirected = std::mem::take(&mut self.redirected);
        let once: BTreeMap<(u64, Reader), ()> = redirected.iter().map(|it| ((it.to, it.from), ())).collect();
        let shorter = once.into_keys().map(|(to, from)| Redirected { to, from, body: Body::Everything });
        self.redirected = shorter.collect();
        self.broken.sort_unstable();
        self.broken.dedup();
    }
}

/// What is handed to this lane's clients.
pub(super) enum Handing {
    Keys(Vec<(u64, Name)>),
    /// To those who want to know of keys like this, behind one of them.
    Prefix {
        prefix: Name,
        keys: Vec<(Name, Option<Reader>)>,
        after: Option<u64>,
    },
    /// To all that track, behind one of them.
    Everything {
        after: Option<u64>,
    },
    Redirected(Vec<Redirected>),
    Broken(Vec<u64>),
}

impl Handing {
    fn len(&self) -> usize {
        match self {
            Handing::Keys(keys) => keys.len(),
            Handing::Prefix { keys, .. } => keys.len(),
            Handing::Everything { .. } => 1,
            Handing::Redirected(redirected) => redirected.len(),
            Handing::Broken(broken) => broken.len(),
        }
    }
}

impl Trackers {
    /// What has come for this lane's clients takes its place behind what waits.
    fn queue(&mut self, news: News) {
        let News { wishes: _, keys, broadcast, everything, redirected, broken } = news;
        let mut by_prefix: BTreeMap<Name, Vec<(Name, Option<Reader>)>> = BTreeMap::new();
        for (key, author) in broadcast {
            for_each_prefix(&self.by_prefix, &key, |prefix, _| {
                by_prefix.entry(Name::clone(prefix)).or_default().push((Name::clone(&key), author));
            });
        }
        if !keys.is_empty() {
            self.push(Handing::Keys(keys));
        }
        for (prefix, mut keys) in by_prefix {
            // Of a key that has changed more than once the last change counts.
            keys.reverse();
            keys.sort_by(|one, other| one.0.cmp(&other.0));
            keys.dedup_by(|one, other| one.0 == other.0);
            self.push(Handing::Prefix { prefix, keys, after: None });
        }
        if everything {
            self.push(Handing::Everything { after: None });
        }
        if !redirected.is_empty() {
            self.push(Handing::Redirected(redirected));
        }
        if !broken.is_empty() {
            self.push(Handing::Broken(broken));
        }
        if self.handing_size > WAITING_MAX {
            self.shorten();
        }
    }

    fn push(&mut self, handing: Handing) {
        self.handing_size += handing.len();
        self.handing.push_back(handing);
    }

    fn shorten(&mut self) {
        let mut rest = News { everything: true, ..News::default() };
        for handing in self.handing.drain(..) {
            match handing {
                Handing::Redirected(redirected) => rest.redirected.extend(redirected),
                Handing::Broken(broken) => rest.broken.extend(broken),
                Handing::Keys(_) | Handing::Prefix { .. } | Handing::Everything { .. } => {}
            }
        }
        rest.shorten();
        self.handing_size = 0;
        self.push(Handing::Everything { after: None });
        self.push(Handing::Redirected(rest.redirected));
        self.push(Handing::Broken(rest.broken));
    }
}

impl Core {
    /// What has changed goes to the lanes whose clients it concerns.
    fn spread_changes(&mut self) {
        if self.space.tracked.is_on() {
            self.space.hear_gone();
        }
        let count = KEYS_PER_TURN.max(self.space.tracked.waiting_count() / 4);
        let mut budget = Budget::new(u32::try_from(count).unwrap_or(u32::MAX), 1);
        let outgoing = &mut self.tracking.outgoing;
        let mut broadcast: BTreeMap<u16, Vec<(Name, Option<Reader>)>> = BTreeMap::new();
        let everything = self.space.tracked.take_changes(
            &mut budget,
            &mut |(lane, client), key| {
                outgoing.entry(lane).or_default().keys.push((client, Name::clone(key)));
            },
            &mut |lane, key, author| broadcast.entry(lane).or_default().push((Name::clone(key), author)),
        );
        for (lane, keys) in broadcast {
            outgoing.entry(lane).or_default().broadcast.extend(keys);
        }
        let told = match everything {
            None => 0..0,
            Some(Everything::Here) => self.id..self.id + 1,
            Some(Everything::Everywhere) => 0..self.lane_count,
        };
        told.for_each(|lane| outgoing.entry(lane).or_default().everything = true);
    }

    /// Says whose bells are due. What is told is seen before any answer of this turn is.
    fn send_news(&mut self, bells: &mut Vec<u16>) {
        for (lane, mut news) in std::mem::take(&mut self.tracking.outgoing) {
            if lane == self.id {
                self.tracking.queue(news);
                continue;
            }
            news.shorten();
            let head = ControlHead { target: 0, round: 0, kind: ControlKind::News };
            let mut parcel = Some(Parcel::News(Box::new(news)));
            let peer = self.peer(lane);
            if peer.try_tell(head, &mut parcel) {
                if peer.publish_told() {
                    bells.push(lane);
                    self.stats.bells += 1;
                }
            } else if let Some(Parcel::News(news)) = parcel {
                self.tracking.outgoing.insert(lane, *news);
            }
        }
    }

    /// What another lane tells.
    pub(crate) fn hear_news(&mut self, lane: u16, news: News) {
        if let Some(wishes) = &news.wishes {
            self.space.set_wishes(lane, wishes);
        }
        self.tracking.queue(news);
    }
}

/// How many of these a budget has place for, of which it loses what they take.
fn share<T>(items: &[T], budget: &mut Budget, size: impl Fn(&T) -> usize) -> usize {
    let fits = |item: &&T| {
        let fits = !budget.is_spent();
        budget.spend(usize::from(fits), if fits { size(item) } else { 0 });
        fits
    };
    items.iter().take_while(fits).count()
}

/// Where clients are, and who of them got something.
struct Doors<'a, N> {
    clients: &'a mut Slab<Client>,
    stirred: &'a mut Vec<Handle<Client>>,
    net: &'a mut N,
}

impl<N: Net> Doors<'_, N> {
    /// Says something to a client that is no reply: behind all that it has coming.
    fn say(&mut self, handle: Handle<Client>, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(handle) else { return };
        if client.is_leaving || client.has_ended {
            return;
        }
        let Some(output) = self.net.output(client.conn) else { return };
        Sink::Client { output, replies: &mut client.replies }.put(bytes);
        if self.stirred.last() != Some(&handle) {
            self.stirred.push(handle);
        }
    }

    /// Tells a client, on its own behalf or another's; false if it has gone.
    fn tell(&mut self, client: u64, body: &Body, is_redirected: bool) -> bool {
        let handle = Handle::from_bits(client);
        let Some(client) = self.clients.get(handle).filter(|client| !client.is_leaving) else { return false };
        let proto = client.proto;
        let mut bytes = Vec::new();
        match proto {
            Proto::Resp3 => {
                reply::push(&mut bytes, proto, 2);
                reply::bulk(&mut bytes, b"invalidate");
            }
            Proto::Resp2 if is_redirected && client.is_subscribed => {
                reply::push(&mut bytes, proto, 3);
                reply::bulk(&mut bytes, b"message");
                reply::bulk(&mut bytes, CHANNEL);
            }
            // It has no way to be told.
            Proto::Resp2 => return true,
        }
        match body {
            Body::Keys(keys) => bytes.put(keys),
            Body::Everything => reply::null(&mut bytes, proto),
        }
        self.say(handle, &bytes);
        true
    }
}

impl Lane {
    /// A turn's share of tracking, at its end.
    #[cold]
    pub(crate) fn tend_tracking<N: Net>(&mut self, net: &mut N) {
        let core = &mut self.core;
        core.spread_changes();
        if let Some(news) = core.tracking.outgoing.remove(&core.id) {
            core.tracking.queue(news);
        }
        self.hand_out(net);
        self.core.send_news(&mut self.bells);
        self.core.space.tend_tracked();
    }

    /// What has come for clients is told to them, or a turn's share of it.
    #[cold]
    pub(crate) fn hand_out<N: Net>(&mut self, net: &mut N) {
        let Lane { core, clients, stirred, .. } = self;
        let mut budget = HANDED_PER_TURN;
        let mut doors = Doors { clients, stirred, net };
        while !budget.is_spent()
            && let Some(mut handing) = core.tracking.handing.pop_front()
        {
            core.tracking.handing_size -= handing.len();
            if !core.hand(&mut handing, &mut doors, &mut budget) {
                core.tracking.handing_size += handing.len();
                core.tracking.handing.push_front(handing);
            }
        }
    }
}

impl Core {
    /// Hands something to clients as far as the budget goes; true when all have it.
    fn hand<N: Net>(&mut self, handing: &mut Handing, doors: &mut Doors<'_, N>, budget: &mut Budget) -> bool {
        match handing {
            Handing::Keys(keys) => {
                let count = share(keys, budget, |(_, key)| key.len());
                for (client, key) in keys.drain(..count) {
                    let wants = |tracker: &super::Tracker| !tracker.how.is_broadcast;
                    if self.tracking.by_client.get(&client).is_some_and(wants) {
                        self.tell_tracker(client, &Body::of([&key].into_iter()), doors);
                    }
                }
                keys.is_empty()
            }
            Handing::Prefix { prefix, keys, after } => {
                let whole = Body::of(keys.iter().map(|(key, _)| key));
                loop {
                    if budget.is_spent() {
                        return false;
                    }
                    let Some(client) = self.next_of_prefix(prefix, *after) else { return true };
                    *after = Some(client);
                    let is_quiet = self.tracking.by_client.get(&client).is_some_and(|it| it.how.is_quiet);
                    let me = Some((self.id, client));
                    let is_own = |(_, author): &(Name, Option<Reader>)| is_quiet && *author == me;
                    budget.spend(1 + if is_quiet { keys.len() / KEYS_PER_CLIENT } else { 0 }, whole.size());
                    if !keys.iter().any(is_own) {
                        self.tell_tracker(client, &whole, doors);
                        continue;
                    }
                    let others: Vec<&Name> =
                        keys.iter().filter(|key| !is_own(key)).map(|(key, _)| key).collect();
                    if !others.is_empty() {
                        self.tell_tracker(client, &Body::of(others.into_iter()), doors);
                    }
                }
            }
            Handing::Everything { after } => loop {
                if budget.is_spent() {
                    return false;
                }
                let start = after.map_or(0, |after| after + 1);
                let next = self.tracking.by_client.range(start..).next().map(|(client, _)| *client);
                let Some(client) = next else { return true };
                *after = Some(client);
                budget.spend(1, 0);
                self.tell_tracker(client, &Body::Everything, doors);
            },
            Handing::Redirected(redirected) => {
                let count = share(redirected, budget, |it| it.body.size());
                for Redirected { to, from: (lane, tracker), body } in redirected.drain(..count) {
                    if !doors.tell(to, &body, true) {
                        self.tracking.outgoing.entry(lane).or_default().broken.push(tracker);
                    }
                }
                redirected.is_empty()
            }
            Handing::Broken(broken) => {
                let count = share(broken, budget, |_| 0);
                for client in broken.drain(..count) {
                    self.note_broken(client, doors);
                }
                broken.is_empty()
            }
        }
    }

    fn next_of_prefix(&self, prefix: &Name, after: Option<u64>) -> Option<u64> {
        let clients = self.tracking.by_prefix.get(prefix)?;
        clients.range(after.map_or(0, |after| after + 1)..).next().copied()
    }

    /// Tells a client of this lane that tracks, or whom it has named.
    fn tell_tracker<N: Net>(&mut self, client: u64, body: &Body, doors: &mut Doors<'_, N>) {
        let Some(tracker) = self.tracking.by_client.get(&client) else { return };
        match tracker.how.redirect {
            None => {
                doors.tell(client, body, false);
            }
            Some(redirect) if redirect.lane == self.id => {
                if !doors.tell(redirect.client, body, true) {
                    self.note_broken(client, doors);
                }
            }
            Some(redirect) => {
                let from = (self.id, client);
                let redirected = Redirected { to: redirect.client, from, body: body.clone() };
                self.tracking.outgoing.entry(redirect.lane).or_default().redirected.push(redirected);
            }
        }
    }

    /// Whom a client has named has gone; it is told so, each time that something could not be told.
    fn note_broken<N: Net>(&mut self, client: u64, doors: &mut Doors<'_, N>) {
        let Some(tracker) = self.tracking.by_client.get_mut(&client) else { return };
        let Some(redirect) = tracker.how.redirect else { return };
        tracker.is_broken = true;
        let handle = Handle::from_bits(client);
        if doors.clients.get(handle).is_some_and(|client| client.proto == Proto::Resp3) {
            let mut bytes = Vec::new();
            reply::push(&mut bytes, Proto::Resp3, 2);
            reply::bulk(&mut bytes, b"tracking-redir-broken");
            reply::integer(&mut bytes, i64::try_from(redirect.id).expect("ids grow from 1"));
            doors.say(handle, &bytes);
        }
    }
}
