//! The data of this lane as commands see it: keys are looked up and watched here, and all that changes goes through
//! [`Keyspace::commit`].

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use store::{
    Budget, Change, Effect, Entry, Expiry, Key, Mark, NewValue, ROPE_SIZE_MAX, Recency, Rope, Shard, Use,
    Value, Walks,
};
use wire::command::Command;
use wire::reply::{self, Proto, Put};
use wire::route::{Slot, SlotSet};

use crate::chance::Chance;
use crate::client::Port;
use crate::commands::dump::Dumping;
use crate::documents::Documents;
use crate::events::Events;
use crate::feed::Feed;
use crate::locks::Locks;
use crate::namespaces::{Namespace, Namespaces};
use crate::paged::Paged;
use crate::replies::{Content, Sink};
use crate::request::{Args, Request};
use crate::room::Room;
use crate::scripts::Scripts;
use crate::sets::Sets;
use crate::snapshot::Snapshot;
use crate::tally::Tally;
use crate::tracking::{By, Tracked};
use crate::watch::{Round, WatchName, WatcherId, Watches};
use crate::{Following, Now};

/// Where a key belongs: its slot, and its hash in the shard's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) slot: Slot,
    pub(crate) hash: u64,
}

/// One command to run.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) command: &'static Command,
    pub(crate) args: Args<'a>,
    pub(crate) db: u16,
    pub(crate) proto: Proto,
    /// Where its one key belongs, when whoever routed the command has computed it.
    /// Lent, like the words: a copy of what was just written in parts would be waited for.
    pub(crate) route: Option<&'a Route>,
    /// The door its client came through.
    pub(crate) port: Port,
}

/// The shard and those who listen to its changes.
pub(crate) struct Keyspace {
    pub(crate) shard: Shard,
    /// For look-ups that are approached.
    pub(crate) walks: Walks,
    pub(crate) watches: Watches,
    /// Replicas are told what changes, or clients of keys that do, or of events.
    pub(crate) is_heard: bool,
    pub(crate) tracked: Tracked,
    pub(crate) events: Events,
    /// On behalf of whom a command runs, if that is a client that tracks keys.
    pub(crate) by: Option<By>,
    /// Requests too heavy to be dropped in one go.
    graves: VecDeque<Request>,
    /// Their pages.
    grave_pages: usize,
    /// Commands that MULTI has queued and that will not run.
    queue_graves: VecDeque<Paged<(&'static Command, Request)>>,
    /// Replies that nobody waits for.
    content_graves: VecDeque<Content>,
    /// The slots that are this lane's, for the one look-up that each command makes.
    pub(crate) slots: Box<SlotSet>,
    pub(crate) room: Room,
    pub(crate) now: Now,
    /// What commands came to.
    pub(crate) tally: Tally,
    pub(crate) database_count: u16,
    /// Where SCAN over all lanes goes on after this one; 0 after the last.
    pub(crate) cursor_after: u64,
    /// `proto-max-bulk-len`: longer strings are refused.
    pub(crate) bulk_size_max: u64,
    pub(crate) dumping: Dumping,
    /// State of [`Keyspace::draw`].
    chance: Chance,
    pub(crate) documents: Documents,
    pub(crate) namespaces: Namespaces,
    /// Of the namespaces of records.
    pub(crate) sets: Vec<Sets>,
    /// Bytes that the keys of each may take on this lane, of those that have a share.
    pub(crate) shares: Vec<Option<u64>>,
    /// `max-record-size`, see [`crate::Aerospike`].
    pub(crate) record_size_max: u64,
    /// For replies to clients of Aerospike that take them compressed.
    pub(crate) deflater: wire::aerospike::Deflater,
    /// Bytes of such replies that the turn may still compress.
    pub(crate) deflate_left: usize,
    /// What the lane knows of scripts.
    pub(crate) scripts: Scripts,
    /// See [`crate::Settings::writes_refused`].
    pub(crate) writes_refused: Option<&'static str>,
    /// Another server says what Redis' databases hold ([`crate::Settings::follows`]).
    pub(crate) follows: bool,
    /// The clock at the turn's beginning, unix milliseconds.
    pub(crate) wall_ms: i64,
    /// It is not there, and what is old is not to be served.
    pub(crate) is_stale: bool,
    /// Something goes with each command: a feed, events, or that another server is followed.
    pub(crate) is_accompanied: bool,
    /// Unix milliseconds before which there was no server, and nothing in it.
    pub(crate) started_ms: i64,
    /// While replicas are told what changes.
    pub(crate) feed: Option<Box<Feed>>,
    /// The snapshot that is on its way to one of them.
    pub(crate) snapshot: Option<Snapshot>,
}

/// Pages of heavy requests dropped in a turn, at least and at most if there are so many. A page is 128 arguments: those that
/// are many in the bytes of a turn are small, and dropped together.
const PAGES_PER_TURN: usize = 8;
const PAGES_PER_TURN_MAX: usize = 512;
/// Pages of commands of a MULTI dropped in a turn, 128 commands each: no turn queues more.
const QUEUE_PAGES_PER_TURN: usize = 8;

/// Pieces of replies dropped in a turn: more than come in one.
const PIECES_PER_TURN: usize = 512;

/// The text of every refusal for want of memory.
pub(crate) const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

impl Keyspace {
    pub(crate) fn new(
        mut shard: Shard,
        now: Now,
        database_count: u16,
        namespaces: Namespaces,
        cursor_after: u64,
        room: Room,
        slots: SlotSet,
    ) -> Keyspace {
        // As secret as the table's own seed, and as repeatable.
        let chance = Chance::new(shard.key(0, 0, &cursor_after.to_le_bytes()).hash);
        let of_records = namespaces.of_records();
        let sets = of_records.len();
        of_records.for_each(|(number, _)| shard.count_labels(database_count + number));
        Keyspace {
            shard,
            walks: Walks::default(),
            watches: Watches::default(),
            is_heard: false,
            tracked: Tracked::default(),
            events: Events::new(Arc::clone(room.board()), database_count),
            by: None,
            graves: VecDeque::new(),
            grave_pages: 0,
            queue_graves: VecDeque::new(),
            content_graves: VecDeque::new(),
            slots: Box::new(slots),
            room,
            now,
            tally: Tally::default(),
            database_count,
            cursor_after,
            bulk_size_max: u64::MAX,
            dumping: Dumping::default(),
            chance,
            documents: Documents::default(),
            namespaces,
            sets: std::iter::repeat_with(Sets::default).take(sets).collect(),
            shares: Vec::new(),
            record_size_max: u64::MAX,
            scripts: Scripts::default(),
            deflater: wire::aerospike::Deflater::default(),
            deflate_left: 0,
            writes_refused: None,
            follows: false,
            wall_ms: 0,
            is_stale: false,
            is_accompanied: false,
            started_ms: 0,
            feed: None,
            snapshot: None,
        }
    }

    /// The slot that stands for the partition of a key, as the namespace of its database has it.
    #[inline(always)]
    pub(crate) fn slot(&self, db: u16, key: &[u8]) -> Slot {
        match db.checked_sub(self.database_count) {
            None => Slot::of(key),
            Some(number) => self.namespaces.slot(number, key),
        }
    }

    /// The namespace that a database is, which is none of Redis'.
    pub(crate) fn namespace(&self, db: u16) -> &Namespace {
        self.namespaces.of(db - self.database_count)
    }

    /// The sets of a namespace of records.
    #[inline]
    pub(crate) fn sets_of(&mut self, db: u16) -> &mut Sets {
        &mut self.sets[usize::from(db - self.database_count - self.namespaces.first_of_records())]
    }

    /// The key that is argument `index`.
    #[inline(always)]
    pub(crate) fn key<'k>(&self, call: &Call<'k>, index: usize) -> Key<'k> {
        let bytes = call.args.flat(index);
        match call.route {
            Some(&Route { slot, hash }) => Key::with_hash(call.db, slot.number(), hash, bytes),
            None => self.shard.key(call.db, self.slot(call.db, bytes).number(), bytes),
        }
    }

    /// What is at a key. Looking does not count as a use: see [`Keyspace::read`].
    #[inline]
    pub(crate) fn get(&self, key: &Key<'_>) -> Option<Entry<'_>> {
        self.shard.get(key, self.now.unix_ms)
    }

    /// What is at a key, which has been used once more.
    #[inline]
    pub(crate) fn read(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        self.shard.read(key, self.now.unix_ms, || self.chance.next())
    }

    /// As [`Keyspace::read`], for a command that may change what it finds: an effect that carries the key need not look it up again.
    #[inline]
    pub(crate) fn read_to_change(&mut self, key: &mut Key<'_>) -> Option<Entry<'_>> {
        self.shard.read_to_change(key, self.now.unix_ms, || self.chance.next())
    }

    /// As [`Keyspace::read`], for a command whose purpose is to look: it counts as a hit or a miss.
    #[inline]
    pub(crate) fn look_up(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        self.lapse_if_nobody_else(key);
        let Some(entry) = self.shard.read(key, self.now.unix_ms, || self.chance.next()) else {
            self.tally.looked(false);
            self.events.note_missed(key);
            return None;
        };
        self.tally.looked(true);
        Some(entry)
    }

    /// As [`Keyspace::look_up`], but it is no use of the key.
    pub(crate) fn inspect(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        self.lapse_if_nobody_else(key);
        let Some(entry) = self.shard.get(key, self.now.unix_ms) else {
            self.tally.looked(false);
            self.events.note_missed(key);
            return None;
        };
        self.tally.looked(true);
        Some(entry)
    }

    /// How often a key has been used, where that is counted.
    pub(crate) fn frequency(&self, key: &Key<'_>) -> Option<Use> {
        if !matches!(self.shard.recency(), Recency::Lfu { .. }) {
            return None;
        }
        let counter = self.shard.frequency(&self.get(key)?);
        Some(Use::Frequency(u8::try_from(counter).unwrap_or(u8::MAX)))
    }

    /// The next random number.
    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        self.chance.next()
    }

    /// Whether a string of `size` bytes with `added` more is longer than strings may be.
    pub(crate) fn exceeds(&self, size: usize, added: usize) -> bool {
        let limit = self.bulk_size_max.min(ROPE_SIZE_MAX as u64);
        (size as u64).checked_add(added as u64).is_none_or(|total| total > limit)
    }

    /// Makes a key hold a rope, as a document with a mark; false, with the rope on its way to paced freeing, when there is no
    /// memory for it.
    pub(crate) fn set_rope(&mut self, key: Key<'_>, rope: Rope, mark: Option<Mark>, expiry: Expiry) -> bool {
        let value = NewValue::Rope(rope.clone());
        let effect = match mark {
            None => Effect::Set { key, value, expiry },
            Some(mark) => Effect::SetDocument { key, value, mark, expiry },
        };
        let is_set = self.commit(effect).is_ok();
        if !is_set {
            self.shard.retire(rope);
        }
        is_set
    }

    /// The one way in which data changes. `Err` when there is no memory left: nothing has changed.
    #[inline(always)]
    pub(crate) fn commit(&mut self, effect: Effect<'_>) -> Result<bool, store::Full> {
        let outcome = if self.is_heard { self.commit_heard(effect)? } else { self.shard.commit(effect)? };
        if !self.watches.is_empty() {
            self.tell_watchers();
        }
        Ok(outcome.existed)
    }

    /// Makes a key whose time has come absent for a command that builds on its old state.
    pub(crate) fn lapse(&mut self, key: &Key<'_>) {
        if self.keeps(key.db) {
            return;
        }
        if self.shard.lapse(key, self.now.unix_ms) && !self.watches.is_empty() {
            self.tell_watchers();
        }
    }

    /// Housekeeping takes keys out at their time; while a test has stopped it, whoever looks does, as in Redis.
    #[inline]
    fn lapse_if_nobody_else(&mut self, key: &Key<'_>) {
        if !self.shard.expires_actively() {
            self.lapse(key);
        }
    }

    /// Another server is followed, or none any more: its DEL takes out keys whose time has come.
    pub(crate) fn set_following(&mut self, following: Option<Following>) {
        self.is_stale = following == Some(Following::IsStale);
        let follows = following.is_some();
        if self.follows != follows {
            self.follows = follows;
            self.listen_to_all();
            self.shard.keep_before(if follows { self.database_count } else { 0 });
        }
    }

    /// Whether keys of a database go when another server says so.
    pub(crate) fn keeps(&self, db: u16) -> bool {
        self.follows && db < self.database_count
    }

    /// From what time on a life is counted that is given as a length, unix milliseconds: also where no key has ended.
    #[inline]
    pub(crate) fn birth_ms(&self) -> i64 {
        if self.now.unix_ms == 0 { self.wall_ms } else { self.now.unix_ms }
    }

    /// At what time a command runs, unix milliseconds, where the lane's, or its transaction's, is `at_ms`. What another server has done
    /// it has done before the time of its keys had come, whenever that is heard of here: for what writes no key has ended.
    #[inline]
    pub(crate) fn time_of(&self, command: &Command, db: u16, at_ms: i64) -> i64 {
        if self.keeps(db) && command.writes() { 0 } else { at_ms }
    }

    /// Hands the changes that the shard has noted to those who watch. Called after whatever may have made some.
    pub(crate) fn tell_watchers(&mut self) {
        for change in self.shard.changes() {
            // Partitions and databases announce themselves beforehand, while it still shows which keys they hold.
            if let Change::Key { db, partition, hash, .. } = change {
                self.watches.touch(WatchName { db, partition, hash });
            }
        }
    }

    /// Some partitions of database `db` are about to become what those of `other` are now, or, without one, empty: watched
    /// keys that either holds change, those that neither holds stay absent. A step of it; `None` when all of them are
    /// marked, else what to go on with. Nobody else changes those partitions meanwhile.
    pub(crate) fn touch_watched(
        &mut self,
        round: Option<Round>,
        db: u16,
        partitions: RangeInclusive<u16>,
        other: Option<u16>,
        budget: &mut Budget,
    ) -> Option<Round> {
        if self.watches.is_empty() {
            return None;
        }
        let (shard, now_ms) = (&self.shard, self.now.unix_ms);
        let mut round = round
            .filter(|round| round.is_within(db, &partitions))
            .unwrap_or_else(|| self.watches.begin_round(db, partitions));
        let is_over = self.watches.touch_round(&mut round, budget, |partition, bytes| {
            let exists = |db, at_ms| shard.get(&shard.key(db, partition, bytes), at_ms).is_some();
            // Also one whose time has come: nobody has seen it go. Who began to watch behind its end has taken it out. What comes
            // in its place and has ended is as good as nothing.
            exists(db, i64::MIN) || other.is_some_and(|other| exists(other, now_ms))
        });
        (!is_over).then_some(round)
    }

    /// Begins to watch a key for a client. One whose time has come is taken out, which is no change from then on; who holds it may
    /// still see it, and then it may count as one.
    pub(crate) fn watch(&mut self, id: WatcherId, db: u16, bytes: &[u8], locks: &Locks) {
        let key = self.shard.key(db, self.slot(db, bytes).number(), bytes);
        if !locks.covers(db, key.hash) {
            self.lapse(&key);
        }
        self.watches.watch(
            id,
            WatchName { db, partition: key.partition, hash: key.hash },
            bytes,
            self.now.unix_ms,
        );
        self.shard.listen(true);
    }

    /// When the first of the keys ends that a client watches and nobody has taken out yet, unix milliseconds. Those that had ended
    /// before it began to watch do not count.
    pub(crate) fn watched_end(&self, id: WatcherId) -> i64 {
        if !self.shard.has_ends() {
            return i64::MAX;
        }
        let end_of = |(name, bytes, since_ms): (WatchName, &[u8], i64)| {
            let key = Key::with_hash(name.db, name.partition, name.hash, bytes);
            let end_ms = self.shard.get(&key, i64::MIN).and_then(|entry| entry.expires_at());
            end_ms.filter(|end_ms| since_ms < *end_ms)
        };
        self.watches.keys(id).filter_map(end_of).min().unwrap_or(i64::MAX)
    }

    /// Ends a client's watching.
    pub(crate) fn unwatch(&mut self, id: WatcherId) {
        self.watches.unwatch(id);
        self.shard.listen(!self.watches.is_empty());
    }

    /// Drops a request: a light one now, a heavy one page by page in [`Keyspace::tend`].
    pub(crate) fn discard(&mut self, request: Request) {
        if !request.is_light() {
            self.grave_pages += request.page_count();
            self.graves.push_back(request);
        }
    }

    /// Drops the commands of a MULTI: a page of them now, more of them in [`Keyspace::tend`].
    pub(crate) fn discard_queue(&mut self, mut queue: Paged<(&'static Command, Request)>) {
        self.drop_queued(&mut queue);
        if queue.len() > 0 {
            self.queue_graves.push_back(queue);
        }
    }

    fn drop_queued(&mut self, queue: &mut Paged<(&'static Command, Request)>) {
        for (_, request) in queue.take_last_page().into_iter().flatten() {
            self.discard(request);
        }
    }

    /// Drops as many commands as clients can queue meanwhile.
    fn drop_queues(&mut self) {
        for _ in 0..QUEUE_PAGES_PER_TURN {
            let Some(mut queue) = self.queue_graves.pop_front() else { return };
            self.drop_queued(&mut queue);
            if queue.len() > 0 {
                self.queue_graves.push_front(queue);
            }
        }
    }

    /// Drops a reply that nobody waits for: a piece of it now, more of them in [`Keyspace::tend`].
    pub(crate) fn discard_content(&mut self, mut content: Content) {
        content.drop_piece(|rope| self.shard.retire(rope));
        if !content.is_empty() {
            self.content_graves.push_back(content);
        }
    }

    fn drop_contents(&mut self) {
        let mut pieces_left = PIECES_PER_TURN;
        while pieces_left > 0
            && let Some(content) = self.content_graves.front_mut()
        {
            pieces_left -= 1;
            content.drop_piece(|rope| self.shard.retire(rope));
            if content.is_empty() {
                self.content_graves.pop_front();
            }
        }
    }

    /// Drops pages of heavy requests: the more wait the more, so that they go as fast as they come.
    fn drop_requests(&mut self) {
        let mut pages_left = (PAGES_PER_TURN + self.grave_pages / 8).min(PAGES_PER_TURN_MAX);
        while pages_left > 0
            && let Some(request) = self.graves.front_mut()
        {
            let shard = &mut self.shard;
            if request.drop_page(&mut |rope| shard.retire(rope)) {
                (pages_left, self.grave_pages) = (pages_left - 1, self.grave_pages - 1);
            } else {
                self.graves.pop_front();
            }
        }
    }

    /// The lane's housekeeping, a budget's worth: expiry that leaves locked keys alone, growth, freeing. True when there
    /// is more to do at once.
    pub(crate) fn tend(&mut self, locks: &Locks, budget: &mut Budget) -> bool {
        if !self.graves.is_empty() {
            self.drop_requests();
        }
        if !self.queue_graves.is_empty() {
            self.drop_queues();
        }
        if !self.content_graves.is_empty() {
            self.drop_contents();
        }
        let is_locked = |db: u16, hash: u64| locks.covers(db, hash);
        let tended = self.shard.tend(self.now.unix_ms, budget, &is_locked);
        if !self.watches.is_empty() {
            self.tell_watchers();
        }
        let is_short = self.tend_room(locks);
        if self.events.are_on() {
            self.hear_gone();
        }
        let is_walking = self.has_snapshot() && self.tend_snapshot(budget);
        let has_garbage = self.scripts.tend() | self.watches.tend();
        let has_graves =
            !(self.graves.is_empty() && self.queue_graves.is_empty() && self.content_graves.is_empty());
        tended.more || is_short || has_graves || has_garbage || is_walking
    }
}

/// Writes a value as a bulk string: small ones copied, long ones by reference.
#[inline]
pub(crate) fn put_value(sink: &mut Sink<'_>, value: Value<'_>) {
    match value {
        Value::Bytes(bytes) => reply::bulk(sink, bytes),
        Value::Int(number) => {
            let text = wire::number::format_i64(number);
            reply::bulk(sink, text.as_bytes());
        }
        Value::Rope(rope) => {
            reply::bulk_header(sink, rope.len());
            sink.put_rope(rope.clone(), 0..rope.len());
            sink.put(b"\r\n");
        }
    }
}
