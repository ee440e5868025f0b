//! A snapshot: all keys as they are at one instant, while the shard goes on changing.
//!
//! An entry is of one of two ages, by a bit of its first word; what is written is of the shard's own age. A snapshot begins by
//! giving the shard the other age: at that instant every entry is of the older one, at the cost of a bit. From there on an entry
//! leaves the older age once, and is delivered when it does:
//!
//! * the *walk* comes to it, bucket by bucket in hash order as SCAN does, and shows it where it lies;
//! * or an effect is about to change, remove or end it, before the walk has come to it: then it leaves an *image* behind, a copy
//!   of what it is. So do entries of a flushed partition when their memory is freed.
//!
//! ```text
//!             walked: all of the shard's age          to come: older ones, and new ones of the shard's age
//! databases   |██████████████████████████████████████|─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─|
//!             place, partition, position in hash order ▲
//! ```
//! When the walk is over all entries are of the shard's age again, so that the next snapshot can begin with the same bit. That is
//! why one that nobody wants any more is walked to its end, too. Only Redis' databases take part: what lies beside them has
//! ages that nobody asks for.

use crate::budget::Budget;
use crate::database::GROUP;
use crate::effect::Key;
use crate::entry::{AGE, Entry, Head, Value};
use crate::rope::Rope;
use crate::shard::Shard;
use crate::table::{self, POSITION_BITS, Slot};

/// An entry as it was when a snapshot began, a copy of its own.
#[derive(Clone, Debug)]
pub struct Image {
    /// The number that its database had then.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// What it held. A document's mark is not part of it: Redis' databases hold no documents.
    pub value: ImageValue,
    /// When it was to end, in unix milliseconds.
    pub expires_at: Option<i64>,
}

/// What an [`Image`] holds, as [`Value`] has it.
#[derive(Clone, Debug)]
pub enum ImageValue {
    /// A string that is the canonical decimal form of this number.
    Int(i64),
    /// A string in one piece.
    Bytes(Box<[u8]>),
    /// A long string, shared with whoever else holds it. It is given back by [`Shard::retire`], not dropped: this may be the last
    /// reference.
    Rope(Rope),
}

/// How far a walk has come.
#[derive(Debug)]
pub(crate) struct Walk {
    /// By place: the numbers that Redis' databases had at the beginning.
    numbers: Vec<u16>,
    /// Where it goes on: place of a database, partition, position in hash order.
    place: usize,
    partition: u16,
    position: u64,
    /// Trees of flushed partitions, the lowest of the pile, that were flushed before the beginning: nobody is owed their entries.
    doomed_before: usize,
    /// Bytes that were copied into images and that no budget has paid for yet.
    copied: usize,
    /// Nobody wants what it finds.
    is_abandoned: bool,
}

impl Walk {
    /// Whether the entries of a flushed partition's tree, the top one of so many, were there at the beginning.
    pub(crate) fn is_owed(&self, doomed: usize) -> bool {
        doomed > self.doomed_before
    }

    /// Notes that so many such trees are left.
    pub(crate) fn note_doomed(&mut self, left: usize) {
        self.doomed_before = self.doomed_before.min(left);
    }

    /// Whether it has been where an entry lies. For audits.
    pub(crate) fn has_passed(&self, place: usize, partition: u16, hash: u64) -> bool {
        (place, partition, hash >> (64 - POSITION_BITS)) < (self.place, self.partition, self.position)
    }
}

impl Shard {
    /// Begins a snapshot: from now on every key that Redis' databases hold at this instant, one whose time has come included, is
    /// delivered exactly once, as it is now and under the number that its database has now: by [`Shard::walk_snapshot`] or by
    /// [`Shard::images`]. The cost does not depend on the number of keys.
    ///
    /// No walk is on, and the images of the snapshot before have all been taken.
    pub fn begin_snapshot(&mut self) {
        assert!(self.walk.is_none(), "a snapshot begins when the walk of the one before is over");
        assert!(self.images.is_empty(), "a snapshot begins when the images of the one before are taken");
        self.age ^= AGE;
        let redis = &self.databases[..usize::from(self.config.databases)];
        self.walk = Some(Box::new(Walk {
            numbers: redis.iter().map(|database| database.number).collect(),
            place: 0,
            partition: 0,
            position: 0,
            doomed_before: self.doomed.len(),
            copied: 0,
            is_abandoned: false,
        }));
    }

    /// Goes on with the snapshot's walk until the budget is spent, and calls `each` with the database's number as it was at the
    /// beginning and an entry as it was then. At least one bucket is visited. An entry is one element, and as many bytes as it has
    /// in one piece if it is shown; a bucket is an element, and so are 128 neighbouring partitions that are empty. When the keys
    /// are walked, what was flushed since the beginning is freed, as `tend` does, too: its entries become images.
    ///
    /// Says whether there is more to walk. When there is not, what [`Shard::images`] still holds completes the snapshot. Without a
    /// walk there is nothing to do.
    pub fn walk_snapshot(&mut self, budget: &mut Budget, each: &mut dyn FnMut(u16, &Entry<'_>)) -> bool {
        budget.spend(0, self.take_copied());
        let Some(mut walk) = self.walk.take() else { return false };
        while let Some(&db) = walk.numbers.get(walk.place) {
            self.walk_on(&mut walk, db, budget, each);
            if budget.is_spent() {
                break;
            }
        }
        let is_through = walk.place == walk.numbers.len();
        if is_through && (walk.is_abandoned || !walk.is_owed(self.doomed.len())) {
            return false;
        }
        self.walk = Some(walk);
        if is_through {
            self.reap(budget);
        }
        true
    }

    /// Whether a walk is on, of an abandoned snapshot, too. Another snapshot begins when it is over.
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// What entries of a snapshot left behind that changed or went before the walk came to them, in no order. A lane takes it
    /// every turn: it grows with the effects of a turn, at most an entry in one piece for each, whose bytes the next budget pays that
    /// the shard is given. Images do not count as held. What is not taken stays for the next call.
    pub fn images(&mut self) -> impl Iterator<Item = Image> + '_ {
        std::iter::from_fn(|| self.images.pop())
    }

    /// Whether [`Shard::images`] has something.
    pub fn has_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// Nobody wants the snapshot any more, if there is one: its images go, and there will be no others. A walk that is on has to go on
    /// to its end, by `walk_snapshot`, which calls nobody then.
    pub fn abandon_snapshot(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.is_abandoned = true;
        }
        while let Some(image) = self.images.pop() {
            if let ImageValue::Rope(rope) = image.value {
                self.retire(rope);
            }
        }
    }

    /// Visits one bucket of database `db`, or passes over partitions that are empty.
    fn walk_on(
        &mut self,
        walk: &mut Walk,
        db: u16,
        budget: &mut Budget,
        each: &mut dyn FnMut(u16, &Entry<'_>),
    ) {
        budget.spend(1, 0);
        let database = &self.databases[walk.place];
        let group = usize::from(walk.partition) / GROUP;
        let mut partition = usize::from(walk.partition);
        if walk.position == 0 && partition.is_multiple_of(GROUP) && database.group(group).count == 0 {
            partition += GROUP;
        } else {
            let root = database.root(walk.partition);
            let (bucket, next) = table::covering(&self.arena, root, walk.position);
            if bucket != 0 {
                self.walk_bucket(bucket, db, walk.is_abandoned, budget, each);
            }
            walk.position = next % (1 << POSITION_BITS);
            partition += usize::from(walk.position == 0);
        }
        if partition >= usize::from(self.config.partitions) {
            walk.place += 1;
            partition = 0;
        }
        walk.partition = u16::try_from(partition).expect("partitions are numbered in 16 bits");
    }

    /// Shows the older ones of a bucket's entries, and makes them of the shard's age.
    fn walk_bucket(
        &mut self,
        bucket: u32,
        db: u16,
        is_abandoned: bool,
        budget: &mut Budget,
        each: &mut dyn FnMut(u16, &Entry<'_>),
    ) {
        for index in (0..).take(table::entries(&self.arena, bucket).count()) {
            let entry = self.entry(Slot { bucket, index }.entry(&self.arena));
            let head = entry.head;
            let mut shown = 0;
            if head.age() != self.age {
                if !is_abandoned {
                    each(db, &entry);
                    shown = head.size();
                }
                head.set_age(&mut self.arena, self.age);
            }
            budget.spend(1, shown);
        }
    }

    /// An effect is about to change a key while a walk is on. (Flushed entries are seen to when their memory is freed, and a
    /// database that is given another number keeps its place.)
    #[cold]
    pub(crate) fn image_of(&mut self, key: Key<'_>) {
        if let Some((_, head)) = self.find(&key) {
            self.image(head.handle);
        }
    }

    /// An entry is about to change or to go while a walk is on: if the snapshot is still owed it, its image is kept.
    #[cold]
    pub(crate) fn image(&mut self, handle: u32) {
        let head = Head::read(&self.arena, handle);
        let walk = self.walk.as_mut().expect("images are kept during a walk");
        let number = walk.numbers.get(usize::from(head.home(&self.arena)));
        let Some(&db) = number.filter(|_| head.age() != self.age && !walk.is_abandoned) else { return };
        walk.copied += head.size();
        let entry = self.entry(handle);
        let value = match entry.value() {
            Value::Int(number) => ImageValue::Int(number),
            Value::Bytes(bytes) => ImageValue::Bytes(bytes.into()),
            // Whoever writes to the shelf's copies what both hold.
            Value::Rope(rope) => ImageValue::Rope(rope.clone()),
        };
        self.images.push(Image { db, key: entry.key().into(), value, expires_at: entry.expires_at() });
        head.set_age(&mut self.arena, self.age);
    }

    /// The bytes that were copied into images since the last call: whoever has a budget pays them off, the walk, too, which makes
    /// way for what effects copy.
    pub(crate) fn take_copied(&mut self) -> usize {
        self.walk.as_mut().map_or(0, |walk| std::mem::take(&mut walk.copied))
    }
}
