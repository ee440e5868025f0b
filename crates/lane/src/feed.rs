//! The feed: what a lane changes, as commands that a replica of Redis carries out, and the snapshot that a replica begins with.
//!
//! ```text
//! commit ─▶ a record: commands, under a number ─ control ring ─▶ control thread: puts records of all lanes in order ─▶ replicas
//! SYNC ───▶ the shard at this point in time, a piece whenever the control thread asks for one
//! ```
//! Numbers come from one counter for all lanes. Single commands of a turn share a record, which has its number before anybody hears of
//! them, and before a part gets its locks; so what follows from something has a higher number. A part draws its own when it changes
//! something first, and its record ends with it; the records of one transaction are put together at the lowest of their
//! numbers. Between that and the others nothing can have changed what it has changed, for all its locks were held.
//! docs/replication.md is the lecture.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use store::{Effect, Expiry, Gone, NewValue, Rope};
use wire::client::command;
use wire::number::format_i64;
use wire::reply::{OK, Put, array, bulk, bulk_end, bulk_header};

use crate::board::Board;
use crate::client::Port;
use crate::core::Core;
use crate::keyspace::{Call, Keyspace};
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::pubsub::{Body, Message};
use crate::replies::{Content, Sink};
use crate::snapshot::Snapshot;

/// Bytes of records that wait for the control thread, at most: with more the feed ends, and replicas begin anew.
const WAITING_SIZE_MAX: usize = 256 * 1024 * 1024;
/// Bytes of commands after which a record of single commands ends.
const BATCH_SIZE: usize = 64 * 1024;

/// A transaction, by its lane and its name there.
pub(crate) type Whose = (u16, u64);

/// Commands in one database.
#[derive(Default)]
pub(crate) struct Stretch {
    pub(crate) db: u16,
    pub(crate) content: Content,
}

/// Commands that belong together, or have nothing to do with each other.
#[derive(Default)]
pub(crate) struct Unit {
    /// A replica carries out each of them by itself, not all of them at once.
    pub(crate) is_loose: bool,
    /// The stage of its transaction, and the command there: the order of units of several lanes.
    pub(crate) place: (u32, u32),
    /// Every lane has the same at this place, and once is enough.
    pub(crate) is_common: bool,
    /// It is no part of its transaction, but came about when that looked: keys whose time had come.
    pub(crate) is_aside: bool,
    pub(crate) command_count: usize,
    pub(crate) stretches: Vec<Stretch>,
}

/// What lanes tell the control thread of their changes.
#[derive(Default)]
pub(crate) struct Record {
    /// Which time of feeding it belongs to.
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    /// The transaction whose part it is, and how many lanes take part in that; none of single commands.
    pub(crate) whose: Option<(Whose, usize)>,
    /// A snapshot for this replica begins here.
    pub(crate) sync: Option<u64>,
    /// Something has changed that replicas can't be told: they have to begin anew.
    pub(crate) is_broken: bool,
    pub(crate) units: Vec<Unit>,
    /// Bytes of its commands.
    pub(crate) size: usize,
}

/// Where a part, or a script, is that runs at the moment.
#[derive(Clone, Copy)]
struct Running {
    whose: Whose,
    place: (u32, u32),
}

/// What a lane keeps while there are replicas.
pub(crate) struct Feed {
    board: Arc<Board>,
    epoch: u64,
    /// Nobody wants what changes any more. What is ready leaves all the same: the control thread lets go of it, which takes the lane
    /// nothing.
    is_over: bool,
    /// Something has changed that no command says.
    is_torn: bool,
    /// Of single commands, since the turn's begin or the last part.
    batch: Record,
    /// Of parts that have run something and are not over.
    open: BTreeMap<Whose, Record>,
    running: Option<Running>,
    /// The next change is another command's than the last.
    is_between: bool,
    /// What the command at hand has changed, as long as that is one thing; its bytes are in `first_bytes`.
    first: Option<Written>,
    first_bytes: Vec<u8>,
    /// For the control thread.
    ready: VecDeque<Record>,
    ready_size: usize,
    /// A command as it is written.
    scratch: Vec<u8>,
}

/// A command in the scratch, but for a long value that stands at `split`.
struct Written {
    db: u16,
    split: usize,
    rope: Option<Rope>,
}

impl Feed {
    fn new(board: Arc<Board>, epoch: u64, ready: VecDeque<Record>) -> Feed {
        Feed {
            board,
            epoch,
            is_over: false,
            is_torn: false,
            batch: Record::default(),
            open: BTreeMap::new(),
            running: None,
            is_between: true,
            first: None,
            first_bytes: Vec::new(),
            ready,
            ready_size: 0,
            scratch: Vec::new(),
        }
    }

    /// Nobody wants it any more.
    fn end(&mut self) {
        self.is_over = true;
        (self.first, self.running) = (None, None);
        let records = std::mem::take(&mut self.open).into_values();
        self.ready.extend(records.chain([std::mem::take(&mut self.batch)]));
    }

    /// Adds the command in the scratch.
    fn add(&mut self, written: Written) {
        let Running { whose, place } = match &self.running {
            Some(running) => *running,
            None => return self.add_single(written),
        };
        let mut bytes = std::mem::take(&mut self.scratch);
        let record = self.open(whose);
        let continues = |unit: &Unit| unit.place == place && !unit.is_common && !unit.is_aside;
        if !record.units.last().is_some_and(continues) {
            record.units.push(Unit { place, ..Unit::default() });
        }
        record.add_last(&mut bytes, written);
        self.scratch = bytes;
    }

    /// The same for a command that is no part: it waits for whether there is more of it.
    fn add_single(&mut self, written: Written) {
        if self.is_between {
            self.add_first();
            (self.is_between, self.first) = (false, Some(written));
            return std::mem::swap(&mut self.scratch, &mut self.first_bytes);
        }
        if let Some(first) = self.first.take() {
            self.batch.units.push(Unit::default());
            self.batch.add_last(&mut self.first_bytes, first);
        }
        self.batch.add_last(&mut self.scratch, written);
    }

    /// The command before was one thing.
    fn add_first(&mut self) {
        if let Some(first) = self.first.take() {
            self.batch.loosen();
            self.batch.add_last(&mut self.first_bytes, first);
            if self.batch.size >= BATCH_SIZE {
                self.end_batch();
            }
        }
    }

    /// The record of a part.
    fn open(&mut self, whose: Whose) -> &mut Record {
        if !self.open.contains_key(&whose) {
            self.end_batch();
            let record = Record { number: self.board.fresh_record(), ..Record::default() };
            self.open.insert(whose, record);
        }
        self.open.get_mut(&whose).expect("just made sure of")
    }

    /// What single commands have changed is for the control thread.
    fn end_batch(&mut self) {
        self.is_between = true;
        if let Some(first) = self.first.take() {
            self.batch.loosen();
            self.batch.add_last(&mut self.first_bytes, first);
        }
        if !self.batch.units.is_empty() {
            let batch = std::mem::take(&mut self.batch);
            self.hand_over(Record { number: self.board.fresh_record(), ..batch });
        }
    }

    fn hand_over(&mut self, record: Record) {
        self.ready_size += record.size;
        self.ready.push_back(Record { epoch: self.epoch, ..record });
    }

    /// Adds a unit to the record of what runs now.
    fn add_unit(&mut self, unit: Unit, size: usize) {
        let record = match &self.running {
            Some(running) => {
                let whose = running.whose;
                self.open(whose)
            }
            None => &mut self.batch,
        };
        record.units.push(unit);
        record.size += size;
    }

    /// The command in the scratch, of this database.
    fn stretch(&self, db: u16) -> Vec<Stretch> {
        let mut stretch = Stretch { db, ..Stretch::default() };
        stretch.content.put(&self.scratch);
        vec![stretch]
    }

    /// A command that all lanes carry out, each for itself.
    fn add_common(&mut self, db: u16, words: &[&[u8]]) {
        self.scratch.clear();
        command(&mut self.scratch, words);
        let place = self.running.as_ref().map_or((0, 0), |running| running.place);
        let stretches = self.stretch(db);
        let unit = Unit { place, is_common: true, command_count: 1, stretches, ..Unit::default() };
        if self.running.is_none() {
            self.add_first();
        }
        self.add_unit(unit, self.scratch.len());
    }

    /// A key has gone by itself. Before what runs has changed anything that is no part of it; later it stands where it happened, for
    /// it may be a key that was just written.
    fn add_gone(&mut self, db: u16, key: &[u8]) {
        self.scratch.clear();
        command(&mut self.scratch, &[b"DEL", key]);
        let has_changed = match &self.running {
            Some(running) => {
                let whose = running.whose;
                self.open(whose).units.last().is_some_and(|unit| !unit.is_aside)
            }
            None => !self.is_between,
        };
        if has_changed {
            let split = self.scratch.len();
            return self.add(Written { db, split, rope: None });
        }
        let stretches = self.stretch(db);
        let unit = Unit { is_aside: true, command_count: 1, stretches, ..Unit::default() };
        if self.running.is_none() {
            self.add_first();
        }
        self.add_unit(unit, self.scratch.len());
    }

    /// Writes what an effect does to the scratch; none if replicas have no word for it, or hear of it by other means.
    fn write(&mut self, effect: &Effect<'_>) -> Option<Written> {
        let out = &mut self.scratch;
        out.clear();
        let (db, mut rope, mut split) = match effect {
            Effect::Set { key, value, expiry } | Effect::SetDocument { key, value, expiry, .. } => {
                let end_count = match expiry {
                    Expiry::None => 0,
                    Expiry::Keep => 1,
                    Expiry::At(_) => 2,
                };
                array(out, 3 + end_count);
                bulk(out, b"SET");
                bulk(out, key.bytes);
                let (mut rope, mut split) = (None, None);
                match value {
                    NewValue::Bytes(bytes) => bulk(out, bytes),
                    NewValue::Int(number) => bulk(out, format_i64(*number).as_bytes()),
                    NewValue::Rope(long) => {
                        bulk_header(out, long.len());
                        (rope, split) = (Some(long.clone()), Some(out.len()));
                        bulk_end(out);
                    }
                }
                match expiry {
                    Expiry::None => {}
                    Expiry::Keep => bulk(out, b"KEEPTTL"),
                    Expiry::At(at) => {
                        bulk(out, b"PXAT");
                        bulk(out, format_i64(*at).as_bytes());
                    }
                }
                (key.db, rope, split)
            }
            Effect::SetRange { key, offset, bytes } => {
                let offset = format_i64(i64::try_from(*offset).expect("strings are shorter than 2^63"));
                command(out, &[b"SETRANGE", key.bytes, offset.as_bytes(), bytes]);
                (key.db, None, None)
            }
            Effect::Delete { key } => {
                command(out, &[b"DEL", key.bytes]);
                (key.db, None, None)
            }
            Effect::Expire { key, at: Expiry::At(at) } => {
                command(out, &[b"PEXPIREAT", key.bytes, format_i64(*at).as_bytes()]);
                (key.db, None, None)
            }
            Effect::Expire { key, at: Expiry::None } => {
                command(out, &[b"PERSIST", key.bytes]);
                (key.db, None, None)
            }
            Effect::Expire { at: Expiry::Keep, .. }
            | Effect::Mark { .. }
            | Effect::FlushPartition { .. }
            | Effect::SwapDatabases { .. } => return None,
        };
        let split = split.take().unwrap_or(out.len());
        Some(Written { db, split, rope: rope.take() })
    }
}

impl Record {
    /// What is added next has nothing to do with what was before.
    fn loosen(&mut self) {
        if !self.units.last().is_some_and(|unit| unit.is_loose) {
            self.units.push(Unit { is_loose: true, ..Unit::default() });
        }
    }

    /// Adds a command, whose bytes these are, to the last unit.
    fn add_last(&mut self, bytes: &mut Vec<u8>, written: Written) {
        let Written { db, split, rope } = written;
        let unit = self.units.last_mut().expect("the caller has seen to it");
        unit.command_count += 1;
        if unit.stretches.last().is_none_or(|stretch| stretch.db != db) {
            unit.stretches.push(Stretch { db, ..Stretch::default() });
        }
        let content = &mut unit.stretches.last_mut().expect("just made sure of").content;
        let before = content.size();
        content.put(&bytes[..split]);
        if let Some(rope) = rope {
            let size = rope.len();
            content.put_rope(rope, 0..size);
            content.put(&bytes[split..]);
        }
        self.size += content.size() - before;
        bytes.clear();
    }
}

impl Keyspace {
    /// [`Keyspace::commit`] while there are replicas.
    #[cold]
    #[inline(never)]
    pub(crate) fn commit_fed(&mut self, effect: Effect<'_>) -> Result<store::Outcome, store::Full> {
        self.feed_gone();
        let feed = self.feed.as_mut().expect("asked for while there is a feed");
        if feed.is_over {
            return self.shard.commit(effect);
        }
        let written = feed.write(&effect).filter(|written| written.db < self.database_count);
        let (must_exist, is_nothing) = match &effect {
            Effect::Delete { .. } | Effect::Expire { .. } => (true, false),
            Effect::SetRange { bytes, .. } => (false, bytes.is_empty()),
            _ => (false, false),
        };
        let outcome = self.shard.commit(effect)?;
        if let Some(written) = written
            && !is_nothing
            && (outcome.existed || !must_exist)
        {
            self.feed.as_mut().expect("as above").add(written);
        }
        Ok(outcome)
    }

    /// The feed, while somebody wants it.
    fn fed(&mut self) -> Option<&mut Feed> {
        self.feed.as_deref_mut().filter(|feed| !feed.is_over)
    }

    /// Tells replicas of keys that have gone without a command.
    pub(crate) fn feed_gone(&mut self) {
        if self.feed.is_some() {
            self.hear_gone();
        }
    }

    /// The same, and clients that track them, and those who listen to events.
    pub(crate) fn hear_gone(&mut self) {
        let mut feed = self.feed.as_deref_mut().filter(|feed| !feed.is_over);
        for Gone { db, key, is_evicted } in self.shard.gone() {
            if db < self.database_count {
                if let Some(feed) = &mut feed {
                    feed.add_gone(db, &key);
                }
                if self.tracked.is_on() {
                    self.tracked.note(&key, None);
                }
                if self.events.are_on() {
                    self.events.note_gone(db, &key, is_evicted);
                }
            }
        }
    }

    /// Whether replicas want to know what changes.
    pub(crate) fn is_fed(&self) -> bool {
        self.feed.as_ref().is_some_and(|feed| !feed.is_over)
    }

    /// Somebody gets locks: what was changed before has a lower number than what comes of that.
    pub(crate) fn feed_grants(&mut self) {
        self.feed_gone();
        if let Some(feed) = &mut self.feed {
            feed.end_batch();
        }
    }

    /// A client's command begins, or something else that has nothing to do with the last: what it changes, if that is more than one
    /// thing, replicas see at once.
    #[cold]
    #[inline(never)]
    pub(crate) fn feed_begins_command(&mut self) {
        if let Some(feed) = &mut self.feed {
            feed.is_between = true;
        }
    }

    /// FLUSHDB of this database, or FLUSHALL, begins on all lanes, or on a lane's own port on this one alone: that
    /// replicas can't be told.
    pub(crate) fn feed_flush(&mut self, db: Option<u16>, port: Port) {
        let Some(feed) = self.fed() else { return };
        let is_alone = port == Port::Lane && feed.board.lane_count() > 1;
        match db {
            _ if is_alone => feed.is_torn = true,
            Some(db) => feed.add_common(db, &[b"FLUSHDB"]),
            None => feed.add_common(0, &[b"FLUSHALL"]),
        }
    }

    /// SWAPDB takes place on all lanes.
    pub(crate) fn feed_swap(&mut self, a: u16, b: u16) {
        let Some(feed) = self.fed() else { return };
        let [a, b] = [a, b].map(|db| format_i64(i64::from(db)));
        feed.add_common(0, &[b"SWAPDB", a.as_bytes(), b.as_bytes()]);
    }

    /// A message of a channel that is this lane's.
    pub(crate) fn feed_message(&mut self, message: &Message) {
        let Some(feed) = self.fed() else { return };
        let out = &mut feed.scratch;
        out.clear();
        array(out, 3);
        bulk(out, if message.is_sharded { b"SPUBLISH" } else { b"PUBLISH" });
        bulk(out, &message.channel);
        let mut written = Written { db: 0, split: 0, rope: None };
        match &message.body {
            Body::Flat(bytes) => {
                bulk(out, bytes);
                written.split = out.len();
            }
            Body::Rope(rope) => {
                bulk_header(out, rope.len());
                written.split = out.len();
                bulk_end(out);
                written.rope = Some(rope.clone());
            }
        }
        // It is no part of what runs.
        let running = feed.running.take();
        feed.is_between = true;
        feed.add(written);
        feed.is_between = true;
        feed.running = running;
    }

    /// What follows is of this transaction, until [`Keyspace::feed_leave`].
    pub(crate) fn feed_enter(&mut self, whose: Whose, place: (u32, u32)) {
        if self.feed.is_none() {
            return;
        }
        self.feed_gone();
        if let Some(feed) = &mut self.feed {
            feed.running = Some(Running { whose, place });
        }
    }

    /// What has gone since the last look made room for what runs, and is no part of it: it may have changed since that began.
    pub(crate) fn feed_evicted(&mut self) {
        let Some(running) = self.feed.as_mut().map(|feed| feed.running.take()) else { return };
        self.feed_begins_command();
        self.feed_gone();
        if let Some(feed) = &mut self.feed {
            feed.running = running;
        }
    }

    /// A transaction is over on this lane that has only looked here: what changes now comes behind what it has changed elsewhere.
    pub(crate) fn feed_end_batch(&mut self) {
        if let Some(feed) = &mut self.feed {
            feed.end_batch();
        }
    }

    /// What runs is at this place of its transaction.
    pub(crate) fn feed_moves_to(&mut self, place: (u32, u32)) {
        if let Some(running) = self.feed.as_mut().and_then(|feed| feed.running.as_mut()) {
            running.place = place;
        }
    }

    /// A command whose first step was not its last goes on as a part: what it has changed is that one's. It has its locks before
    /// anybody else can change the same.
    pub(crate) fn feed_carry(&mut self, whose: Whose) {
        let Some(feed) = self.fed() else { return };
        if feed.is_between {
            return;
        }
        let first = feed.first.take();
        let unit = if first.is_none() { feed.batch.units.pop() } else { None };
        let mut bytes = std::mem::take(&mut feed.first_bytes);
        let record = feed.open(whose);
        record.units.push(unit.unwrap_or_default());
        if let Some(first) = first {
            record.add_last(&mut bytes, first);
        }
        feed.first_bytes = bytes;
    }

    /// See [`Keyspace::feed_enter`].
    pub(crate) fn feed_leave(&mut self) {
        self.feed_gone();
        if let Some(feed) = &mut self.feed {
            feed.running = None;
        }
    }

    /// A transaction is over on this lane: what it has changed, be it nothing, is complete.
    pub(crate) fn feed_end(&mut self, whose: Whose, lane_count: usize) {
        let Some(feed) = self.fed() else { return };
        match feed.open.remove(&whose) {
            Some(record) => feed.hand_over(Record { whose: Some((whose, lane_count)), ..record }),
            None if lane_count > 1 && !feed.is_over => {
                feed.end_batch();
                let number = feed.board.fresh_record();
                feed.hand_over(Record { number, whose: Some((whose, lane_count)), ..Record::default() });
            }
            None => {}
        }
    }

    /// This lane's part of SYNC `sync epoch`, with the databases locked on all lanes: a snapshot begins, and what replicas are told
    /// of it is what changes from here on.
    pub(crate) fn begin_sync(&mut self, call: &Call<'_>, whose: Whose, sink: &mut Sink<'_>) {
        let number = |index: usize| {
            let digits = call.args.flat(index);
            wire::number::parse_i64(digits).and_then(|number| u64::try_from(number).ok())
        };
        let (Some(sync), Some(epoch)) = (number(1), number(2)) else {
            unreachable!("the control thread names the snapshot")
        };
        if self.feed.as_ref().is_none_or(|feed| feed.epoch != epoch) {
            let mut ready = VecDeque::new();
            if let Some(mut last) = self.feed.take() {
                last.end();
                ready = last.ready;
            }
            self.feed = Some(Box::new(Feed::new(Arc::clone(self.room.board()), epoch, ready)));
            self.listen_to_all();
        }
        self.shard.begin_snapshot();
        self.snapshot = Some(Snapshot::new(sync));
        self.feed_enter(whose, (0, 0));
        self.feed.as_mut().expect("just made sure of").open(whose).sync = Some(sync);
        sink.put(OK);
    }

    /// There are no replicas any more.
    pub(crate) fn end_feed(&mut self, epoch: u64) {
        if let Some(feed) = self.feed.as_mut().filter(|feed| feed.epoch == epoch && !feed.is_over) {
            feed.end();
            self.listen_to_all();
        }
    }

    /// Whether records wait for room in the ring.
    pub(crate) fn feeds_late(&self) -> bool {
        self.feed.as_ref().is_some_and(|feed| !feed.ready.is_empty())
    }
}

impl Core {
    /// A turn's records go to the control thread.
    pub(crate) fn tell_feed(&mut self) {
        // What housekeeping takes out has nothing to do with the last command.
        self.space.feed_begins_command();
        self.space.feed_gone();
        let control = self.lane_count;
        let Some(mut feed) = self.space.feed.take() else { return };
        if !feed.is_over {
            feed.end_batch();
            // The control thread is too slow, or has too little of the machine; or there is no word for what has changed. It hears of that
            // alone.
            if feed.is_torn || feed.ready_size > WAITING_SIZE_MAX {
                feed.end();
                let (epoch, number) = (feed.epoch, feed.board.fresh_record());
                feed.ready.push_front(Record { epoch, number, is_broken: true, ..Record::default() });
            }
        }
        while let Some(record) = feed.ready.pop_front() {
            let size = record.size;
            let head = ControlHead { target: 0, round: 0, kind: ControlKind::Record };
            let mut parcel = Some(Parcel::Record(Box::new(record)));
            if self.peer(control).try_tell(head, &mut parcel) {
                feed.ready_size = feed.ready_size.saturating_sub(size);
            } else {
                if let Some(Parcel::Record(record)) = parcel {
                    feed.ready.push_front(*record);
                }
                break;
            }
        }
        self.space.feed = (!feed.is_over || !feed.ready.is_empty()).then_some(feed);
        self.space.listen_to_all();
    }
}
