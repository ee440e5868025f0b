//! One shard of the data: finds, changes and counts.

use crate::arena::{Arena, SPAN_SIZE};
use crate::database::{Database, Labelled};
use crate::effect::{Change, Effect, Expiry, Found, Full, Gone, Key, Outcome, What};
use crate::entry::{Entry, Head};
use crate::pile::Pile;
use crate::region::Region;
use crate::rope::{Graveyard, Rope, Zeros};
use crate::shelf::Shelf;
use crate::snapshot::{Image, Walk};
use crate::table::{self, Node, Slot};
use crate::wheel::Wheel;
use crate::width::narrow;
use keyhash::Hasher;
use std::ops::Range;

/// The longest key in bytes: an entry begins with its key in one piece, and a span holds an entry. A lane answers
/// longer ones with an error; a shard that is given one has been promised otherwise.
pub const KEY_SIZE_MAX: usize = SPAN_SIZE - 64;
/// The most partitions of a namespace (Redis' 16,384 slots): a SCAN cursor has 14 bits for them.
pub const PARTITIONS_MAX: u16 = 16_384;

/// What a shard is made with.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many partitions a database has, at most [`PARTITIONS_MAX`].
    pub partitions: u16,
    /// How many databases there are.
    pub databases: u16,
    /// The secret under which keys are hashed; from the system's random source in production.
    pub seed: [u64; 2],
    /// Which partition a key belongs to: the namespace's function, the same one that fills [`Key::partition`]. Expiry,
    /// eviction and compaction find the owner of an entry with it.
    pub partition_of: fn(db: u16, key: &[u8]) -> u16,
    /// Databases beside those, numbered behind them: each is a namespace with a function of its own.
    pub beside: &'static [fn(key: &[u8]) -> u16],
    /// What the 24 bits of recency record.
    pub recency: Recency,
}

impl Config {
    /// How many databases there are, those of other namespaces included.
    fn database_count(&self) -> u16 {
        self.databases + u16::try_from(self.beside.len()).expect("namespaces are few")
    }

    /// The partition of a key, as its namespace has it.
    pub(crate) fn partition(&self, db: u16, key: &[u8]) -> u16 {
        match db.checked_sub(self.databases) {
            None => (self.partition_of)(db, key),
            Some(namespace) => self.beside[usize::from(namespace)](key),
        }
    }
}

/// What an entry remembers of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recency {
    /// The second of its last use, modulo 2^24 (194 days).
    Lru,
    /// A logarithmic counter of its uses and the minute in which it was last lowered, as Redis' LFU has it.
    Lfu {
        /// `lfu-log-factor`: the higher, the more uses a step of the counter takes.
        log_factor: u32,
        /// `lfu-decay-time`: minutes after which the counter is lowered by one; 0 never.
        decay_minutes: u32,
    },
}

/// What a shard's memory is spent on, in bytes, and how much is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Keys in all databases, those whose time has come but which are still there included.
    pub keys: u64,
    /// Keys with a time to live.
    pub expiring: u64,
    /// Entries and tables but for their roots, each rounded up to its size class.
    pub entries: u64,
    /// What the ropes that entries hold take ([`Rope::room`]).
    pub ropes: u64,
    /// What dropped ropes take that wait to be freed.
    pub retired: u64,
    /// Roots of partitions and their counts.
    pub heads: u64,
    /// What of the region is in use or was and may be resident.
    pub resident: u64,
    /// Keys removed because their time had come, since the start or [`Shard::forget_counts`].
    pub expired: u64,
    /// Keys removed to make room, since then.
    pub evicted: u64,
}

impl Memory {
    /// Everything that counts against a lease.
    pub const fn total(&self) -> u64 {
        self.entries + self.ropes + self.retired + self.heads
    }
}

/// When keys of a database end: how many do, and their instants added up, unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    count: u64,
    sum_ms: i128,
}

impl Ends {
    pub(crate) fn add(&mut self, at_ms: i64) {
        self.count += 1;
        self.sum_ms += i128::from(at_ms);
    }

    pub(crate) fn remove(&mut self, at_ms: i64) {
        self.count -= 1;
        self.sum_ms -= i128::from(at_ms);
    }
}

/// The keys of one lane. See the crate's head.
#[derive(Debug)]
pub struct Shard {
    pub(crate) config: Config,
    pub(crate) hasher: Hasher,
    pub(crate) arena: Arena,
    pub(crate) shelf: Shelf,
    pub(crate) wheel: Wheel,
    /// Keys are taken out when their time has come, not only when somebody looks.
    pub(crate) expires_actively: bool,
    /// Keys of databases below this one stay until they are deleted, though their time has come.
    pub(crate) kept_before: u16,
    pub(crate) graveyard: Graveyard,
    /// Roots of flushed partitions, whose trees are to be taken apart.
    pub(crate) doomed: Pile<Node>,
    /// By place in memory, which entries remember.
    pub(crate) databases: Vec<Database>,
    /// When their keys end, by the same place.
    pub(crate) ends: Vec<Ends>,
    /// Bytes of their heads.
    pub(crate) heads: u64,
    /// From a database's number to its place.
    pub(crate) places: Vec<u16>,
    pub(crate) zeros: Zeros,
    changes: Option<Vec<Change>>,
    /// Keys that went without a command.
    gone: Option<Vec<Gone>>,
    /// The age of what is written now; see `snapshot`.
    pub(crate) age: u32,
    /// The walk that is on.
    pub(crate) walk: Option<Box<Walk>>,
    /// What it has not come to before it changed or went.
    pub(crate) images: Pile<Image>,
    /// The last instant heard of, in unix milliseconds.
    pub(crate) clock_ms: i64,
    /// Of that instant, modulo 2^24.
    pub(crate) clock_s: u32,
    /// When housekeeping was done last, and whether something has changed since or was left to do.
    pub(crate) tended_ms: i64,
    pub(crate) is_stirred: bool,
    /// Another one after whatever may have moved slots: where keys were found before means nothing any more.
    pub(crate) state: u64,
    /// Effects that were asked for, and how many of them there were at the last housekeeping.
    pub(crate) effect_count: u64,
    pub(crate) effect_count_tended: u64,
    /// What those came to in Redis' eyes beyond one change each: less, or more.
    changes_beyond: i64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
    /// Holds a key's bytes while the shard changes around it.
    pub(crate) scratch: Vec<u8>,
}

impl Shard {
    /// An empty shard in `memory`, of which nothing is touched yet and at most 32 GiB less 1 MiB will be.
    pub fn new(config: Config, memory: Region) -> Shard {
        assert!((1..=PARTITIONS_MAX).contains(&config.partitions), "a database has 1 to 16,384 partitions");
        assert!(config.databases > 0, "a shard has a database");
        Shard {
            config,
            hasher: Hasher::new(config.seed),
            arena: Arena::new(memory),
            shelf: Shelf::default(),
            wheel: Wheel::new(),
            expires_actively: true,
            kept_before: 0,
            graveyard: Graveyard::new(),
            doomed: Pile::default(),
            databases: (0..config.database_count()).map(Database::new).collect(),
            ends: vec![Ends::default(); usize::from(config.database_count())],
            heads: 0,
            places: (0..config.database_count()).collect(),
            zeros: Zeros::default(),
            changes: None,
            gone: None,
            age: 0,
            walk: None,
            images: Pile::default(),
            clock_ms: 0,
            clock_s: 0,
            tended_ms: 0,
            is_stirred: true,
            state: 0,
            effect_count: 0,
            effect_count_tended: 0,
            changes_beyond: 0,
            expired: 0,
            evicted: 0,
            scratch: Vec::new(),
        }
    }

    /// A key of database `db`, in the partition that the namespace's function gives for it.
    #[inline]
    pub fn key<'k>(&self, db: u16, partition: u16, bytes: &'k [u8]) -> Key<'k> {
        Key::with_hash(db, partition, self.hasher.hash(bytes), bytes)
    }

    /// The key's entry; one whose time has come at `now_ms` (unix) counts as absent.
    #[inline]
    pub fn get(&self, key: &Key<'_>, now_ms: i64) -> Option<Entry<'_>> {
        let (_, handle) = self.locate(key)?;
        let head = Head::read(&self.arena, handle);
        if head.has_ttl() && head.expires_at(&self.arena) <= now_ms {
            return None;
        }
        Some(Entry { arena: &self.arena, shelf: &self.shelf, head })
    }

    /// As `get`, and notes the use; `draw` gives a random number (for LFU).
    #[inline]
    pub fn read(&mut self, key: &Key<'_>, now_ms: i64, draw: impl FnOnce() -> u64) -> Option<Entry<'_>> {
        let (_, handle) = self.locate(key)?;
        let head = self.use_at(handle, now_ms, draw)?;
        Some(Entry { arena: &self.arena, shelf: &self.shelf, head })
    }

    /// As `read`, for a command that goes on to change what it finds: the key remembers where that is, and an effect that carries it
    /// looks it up again only if the shard has changed meanwhile.
    #[inline(always)]
    pub fn read_to_change(
        &mut self,
        key: &mut Key<'_>,
        now_ms: i64,
        draw: impl FnOnce() -> u64,
    ) -> Option<Entry<'_>> {
        let (slot, handle) = self.locate(key)?;
        let head = self.use_at(handle, now_ms, draw)?;
        key.found = Some(Found { slot, state: self.state });
        Some(Entry { arena: &self.arena, shelf: &self.shelf, head })
    }

    /// Notes a use of an entry, unless its time has come.
    #[inline(always)]
    fn use_at(&mut self, handle: u32, now_ms: i64, draw: impl FnOnce() -> u64) -> Option<Head> {
        let head = Head::read(&self.arena, handle);
        if head.has_ttl() && head.expires_at(&self.arena) <= now_ms {
            return None;
        }
        self.set_clock(now_ms);
        let recency = self.used_again(head.word, draw);
        if recency != head.word & crate::entry::RECENCY {
            self.arena.array_mut::<3>(head.handle, 0).copy_from_slice(&recency.to_le_bytes()[..3]);
        }
        Some(head)
    }

    /// Writes what the key's entry remembers of its use, if it is there.
    pub(crate) fn set_recency_of(&mut self, key: &Key<'_>, recency: u32) {
        let Some((_, handle)) = self.locate(key) else { return };
        let head = Head::read(&self.arena, handle);
        self.arena.array_mut::<3>(head.handle, 0).copy_from_slice(&recency.to_le_bytes()[..3]);
    }

    /// Notes a use of the key, if it is there; `draw` gives a random number (for LFU).
    pub fn touch(&mut self, key: &Key<'_>, now_ms: i64, draw: impl FnOnce() -> u64) {
        self.read(key, now_ms, draw);
    }

    /// Removes the key if its time has come at `now_ms`, and says whether it had. A command calls this before it builds
    /// on what `get` no longer shows.
    pub fn lapse(&mut self, key: &Key<'_>, now_ms: i64) -> bool {
        let Some((_, head)) = self.find(key) else { return false };
        let due = head.has_ttl() && head.expires_at(&self.arena) <= now_ms;
        if due {
            self.commit_because(Effect::Delete { key: *key }, What::Expired).expect("removing needs no room");
        }
        due
    }

    /// Makes an effect happen: the only way in which a shard changes. On `Full` nothing has changed.
    ///
    /// The cost does not depend on the number of keys: a split of one bucket, a copy of one inline value or of the
    /// chunks written to, and what `effect` itself carries.
    #[inline(always)]
    pub fn commit(&mut self, effect: Effect<'_>) -> Result<Outcome, Full> {
        self.commit_because(effect, What::Delete)
    }

    /// Within its callers, who know which effect it is: as a function it would read back from memory what they have just written.
    #[inline(always)]
    pub(crate) fn commit_because(&mut self, effect: Effect<'_>, removal: What) -> Result<Outcome, Full> {
        let done = self.carry_out(effect, removal);
        self.state = self.state.wrapping_add(1);
        done
    }

    #[inline(always)]
    fn carry_out(&mut self, effect: Effect<'_>, removal: What) -> Result<Outcome, Full> {
        if self.walk.is_some()
            && let Some(key) = effect.key()
        {
            self.image_of(*key);
        }
        // It says as well that there is something to tend.
        self.effect_count = self.effect_count.wrapping_add(1);
        match effect {
            Effect::Set { key, value, expiry } => {
                let outcome = self.set(&key, value, None, expiry)?;
                self.note(&key, What::Set);
                Ok(outcome)
            }
            Effect::SetDocument { key, value, mark, expiry } => {
                let outcome = self.set(&key, value, Some(mark), expiry)?;
                self.note(&key, What::Set);
                Ok(outcome)
            }
            Effect::Mark { key, cas, bits } => {
                let Some((_, head)) = self.find(&key) else { return Ok(self.nothing()) };
                head.remark(&mut self.arena, cas, bits);
                self.note(&key, What::Set);
                Ok(Outcome { existed: true, elements: 1, ..Outcome::default() })
            }
            Effect::SetRange { key, offset, bytes } => {
                let outcome = self.set_range(&key, offset, bytes)?;
                if bytes.is_empty() {
                    self.changes_beyond -= 1;
                } else {
                    self.note(&key, What::Set);
                }
                Ok(outcome)
            }
            Effect::Delete { key } => {
                let Some((slot, head)) = self.find(&key) else { return Ok(self.nothing()) };
                let moved = self.delete(&key, slot, &head);
                match removal {
                    What::Expired => self.expired += 1,
                    What::Evicted => self.evicted += 1,
                    What::Set | What::Expire | What::Delete => {}
                }
                if removal != What::Delete {
                    self.changes_beyond -= 1;
                    if self.gone.is_some() {
                        self.note_gone(&key, removal == What::Evicted);
                    }
                }
                self.note(&key, removal);
                Ok(Outcome { existed: true, elements: 1 + narrow(moved), ..Outcome::default() })
            }
            Effect::Expire { key, at } => {
                let Some((slot, head)) = self.find(&key) else { return Ok(self.nothing()) };
                if at == Expiry::Keep || at == Expiry::None && !head.has_ttl() {
                    self.changes_beyond -= 1;
                }
                let bytes = self.expire(&key, slot, head, at)?;
                self.note(&key, What::Expire);
                Ok(Outcome { existed: true, elements: 1, bytes, ..Outcome::default() })
            }
            Effect::FlushPartition { db, partition } => {
                let flushed_count = self.count_partition(db, partition);
                self.changes_beyond += i64::try_from(flushed_count).expect("keys are fewer than 2^63") - 1;
                let existed = self.flush(db, partition);
                if existed && let Some(changes) = &mut self.changes {
                    changes.push(Change::Flushed { db, partition });
                }
                Ok(Outcome { existed, elements: 1, ..Outcome::default() })
            }
            Effect::SwapDatabases { a, b } => {
                self.places.swap(usize::from(a), usize::from(b));
                self.database_mut(a).number = a;
                self.database_mut(b).number = b;
                if let Some(changes) = &mut self.changes {
                    changes.push(Change::Swapped { a, b });
                }
                Ok(Outcome { existed: true, elements: 1, ..Outcome::default() })
            }
        }
    }

    /// An effect that found nothing to change.
    #[cold]
    fn nothing(&mut self) -> Outcome {
        self.changes_beyond -= 1;
        Outcome::default()
    }

    /// An effect for which there is no room.
    #[cold]
    pub(crate) fn full(&mut self) -> Full {
        self.changes_beyond -= 1;
        Full
    }

    /// What commands have changed since the start, as Redis counts it (`server.dirty`): one for each effect that changed something, and
    /// for each key that was flushed. What goes because its time has come or to make room is no change.
    pub fn change_count(&self) -> u64 {
        self.effect_count.wrapping_add_signed(self.changes_beyond)
    }

    /// A command's effects come to so many changes more in Redis' eyes, or fewer.
    pub fn count_changes(&mut self, beyond: i64) {
        self.changes_beyond += beyond;
    }

    /// Keys in a database. Those whose time has come are counted until `tend` reaches them.
    pub fn count(&self, db: u16) -> u64 {
        self.database(db).count
    }

    /// Keys in a partition of a database.
    pub fn count_partition(&self, db: u16, partition: u16) -> u64 {
        u64::from(self.database(db).counts(partition).count)
    }

    /// The first partition of a database, from `from` on, that holds keys. Empty ones are passed over 128 at a time.
    pub fn next_filled(&self, db: u16, from: u16) -> Option<u16> {
        self.database(db).next_filled(from, self.config.partitions)
    }

    /// Keys of a database that have a time to live.
    pub fn expiring_count(&self, db: u16) -> u64 {
        self.database(db).expiring
    }

    /// How many keys of a database have a time to live, and the instants at which they end added up, in unix
    /// milliseconds. Flushed ones count until `tend` has freed them.
    pub fn ends(&self, db: u16) -> (u64, i128) {
        let Ends { count, sum_ms } = self.ends[usize::from(self.places[usize::from(db)])];
        (count, sum_ms)
    }

    /// Bytes of a database's entries, each rounded up to its size class, and of long values that they hold; not of its
    /// tables. Flushed ones count until `tend` has freed them.
    pub fn held_by(&self, db: u16) -> u64 {
        self.database(db).held
    }

    /// From now on a database, which is empty, counts its documents by label ([`Mark::label`](crate::Mark::label)): a few
    /// instructions a change, and 16 bytes for each label up to the highest.
    pub fn count_labels(&mut self, db: u16) {
        let database = self.database_mut(db);
        assert!(database.held == 0, "labels are counted from the first entry on");
        database.labels = vec![Labelled::default()];
    }

    /// What a database has of a label; nothing if it does not count them.
    pub fn labelled(&self, db: u16, label: u16) -> Labelled {
        self.database(db).labels.get(usize::from(label)).copied().unwrap_or_default()
    }

    /// Switches the record of changes on or off. While it is off a commit pays one branch for it.
    pub fn listen(&mut self, on: bool) {
        self.changes = on.then(|| self.changes.take().unwrap_or_default());
    }

    /// What changed since the last call, in order. A lane takes it every turn: it grows with the effects of a turn.
    pub fn changes(&mut self) -> impl Iterator<Item = Change> + '_ {
        self.changes.iter_mut().flat_map(|changes| changes.drain(..))
    }

    /// Switches the record of keys that go without a command on or off. While it is off the removal of such a key pays one branch
    /// for it, and what was on record is forgotten.
    pub fn follow(&mut self, on: bool) {
        self.gone = on.then(|| self.gone.take().unwrap_or_default());
    }

    /// Keys that were removed since the last call because their time had come or to make room, in order. Of Redis' databases alone.
    /// A lane takes it every turn: it grows with the keys removed in a turn.
    pub fn gone(&mut self) -> impl Iterator<Item = Gone> + '_ {
        self.gone.iter_mut().flat_map(|gone| gone.drain(..))
    }

    /// Takes what may be the last reference to a rope, to be freed in paced steps by `tend`.
    pub fn retire(&mut self, rope: Rope) {
        self.is_stirred = true;
        self.graveyard.push(rope);
    }

    /// Whether housekeeping takes out keys whose time has come. If not they stay, and nobody sees them. For tests.
    pub fn set_active_expiry(&mut self, is_on: bool) {
        self.is_stirred = true;
        self.expires_actively = is_on;
    }

    /// From now on keys of databases below `db` are not taken out when their time has come: somebody else says when they go.
    pub fn keep_before(&mut self, db: u16) {
        self.is_stirred = true;
        self.kept_before = db;
    }

    /// Whether it does.
    #[inline]
    pub fn expires_actively(&self) -> bool {
        self.expires_actively
    }

    /// Chooses what recency records from here on. What is on record is read in the new sense.
    pub fn set_recency(&mut self, recency: Recency) {
        self.config.recency = recency;
    }

    /// Keys that were removed are counted anew.
    pub fn forget_counts(&mut self) {
        (self.expired, self.evicted) = (0, 0);
    }

    /// How much of what there is.
    pub fn memory(&self) -> Memory {
        Memory {
            keys: self.databases.iter().map(|database| database.count).sum(),
            expiring: self.databases.iter().map(|database| database.expiring).sum(),
            entries: self.arena.used(),
            ropes: self.shelf.size,
            retired: self.graveyard.size(),
            heads: self.heads,
            resident: self.arena.resident(),
            expired: self.expired,
            evicted: self.evicted,
        }
    }

    /// What counts against the lease, as in `Memory::total`.
    pub fn held(&self) -> u64 {
        self.arena.used() + self.shelf.size + self.graveyard.size() + self.heads
    }

    /// Where the part of the region ends that was ever in use, in bytes from its start. Nothing behind it has been touched, and
    /// the shard grows into it page by page: pages that the system has brought there before (`MADV_POPULATE_WRITE`, from
    /// another thread) are not waited for.
    pub fn frontier(&self) -> usize {
        self.arena.frontier()
    }

    /// A range of the region, in bytes from its start, that is not needed now and whose pages may be given back to the
    /// system (`MADV_DONTNEED`, from another thread). The shard does not touch it until it comes back by `reclaim`.
    pub fn released(&mut self) -> Option<Range<usize>> {
        let range = self.arena.released();
        self.is_stirred |= range.is_some();
        range
    }

    /// Takes back a range that `released` gave.
    pub fn reclaim(&mut self, range: Range<usize>) {
        self.is_stirred = true;
        self.arena.reclaim(range);
    }

    pub(crate) fn database(&self, db: u16) -> &Database {
        &self.databases[usize::from(self.places[usize::from(db)])]
    }

    pub(crate) fn database_mut(&mut self, db: u16) -> &mut Database {
        &mut self.databases[usize::from(self.places[usize::from(db)])]
    }

    pub(crate) fn entry(&self, handle: u32) -> Entry<'_> {
        Entry { arena: &self.arena, shelf: &self.shelf, head: Head::read(&self.arena, handle) }
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<(Slot, Head)> {
        self.find_again(key).or_else(|| self.find_anew(key))
    }

    /// As `find`, all of it within its caller: for what most writes go through.
    #[inline(always)]
    pub(crate) fn find_within(&self, key: &Key<'_>) -> Option<(Slot, Head)> {
        if let Some(found) = self.find_again(key) {
            return Some(found);
        }
        let (slot, handle) = self.locate(key)?;
        // Read again, which costs less than to bring it out of the loop in which keys are compared.
        Some((slot, Head::read(&self.arena, handle)))
    }

    #[inline(never)]
    fn find_anew(&self, key: &Key<'_>) -> Option<(Slot, Head)> {
        self.find_within(key)
    }

    /// What the key remembers, if nothing has moved since.
    #[inline(always)]
    fn find_again(&self, key: &Key<'_>) -> Option<(Slot, Head)> {
        let Found { slot, state } = key.found?;
        (state == self.state).then(|| (slot, Head::read(&self.arena, slot.entry(&self.arena))))
    }

    /// Which slot owns the key's entry, and where it is.
    #[inline(always)]
    fn locate(&self, key: &Key<'_>) -> Option<(Slot, u32)> {
        let root = self.database(key.db).root(key.partition);
        for (slot, handle) in table::tagged(&self.arena, root, key.hash) {
            let head = Head::read(&self.arena, handle);
            if head.key_size == key.bytes.len() && self.arena.bytes(handle, head.key()) == key.bytes {
                return Some((slot, handle));
            }
        }
        None
    }

    /// The key and the slot of an entry that was found by its place in memory, with the key's bytes in `bytes`. None
    /// if the entry is in a flushed partition's tree and only waits to be freed.
    pub(crate) fn owner<'k>(&self, handle: u32, bytes: &'k mut Vec<u8>) -> Option<(Key<'k>, Slot)> {
        let head = Head::read(&self.arena, handle);
        bytes.clear();
        bytes.extend_from_slice(self.arena.bytes(handle, head.key()));
        let database = &self.databases[usize::from(head.home(&self.arena))];
        let key = self.key(database.number, self.config.partition(database.number, bytes), bytes);
        let root = database.root(key.partition);
        let (slot, _) = table::tagged(&self.arena, root, key.hash).find(|&(_, other)| other == handle)?;
        Some((key, slot))
    }

    fn note(&mut self, key: &Key<'_>, what: What) {
        if let Some(changes) = &mut self.changes {
            changes.push(Change::Key { db: key.db, partition: key.partition, hash: key.hash, what });
        }
    }

    /// A key goes without a command, and somebody follows.
    #[cold]
    fn note_gone(&mut self, key: &Key<'_>, is_evicted: bool) {
        if key.db < self.config.databases
            && let Some(gone) = &mut self.gone
        {
            gone.push(Gone { db: key.db, key: key.bytes.into(), is_evicted });
        }
    }
}
