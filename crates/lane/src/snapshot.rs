//! A snapshot of this lane for a replica: what it held at one point in time, a piece whenever the control thread asks for one, while
//! everything goes on. What changes before its turn comes is kept as it was (`store::Shard::images`).

use store::{Budget, Entry, Image, ImageValue, Value};
use wire::rdb::file;

use crate::admin::Report;
use crate::keyspace::Keyspace;
use crate::replies::Content;
use wire::reply::Put;

/// What a piece may take: keys walked over, and bytes. Those of one bucket may be more.
const PIECE: Budget = Budget::new(512, 64 * 1024);

/// What was kept for a snapshot that nobody wants is dropped so much a turn: as much as a turn may make.
const IMAGES_PER_TURN: usize = 1024;

/// See the top of this file.
pub(crate) struct Snapshot {
    sync: u64,
}

impl Snapshot {
    pub(crate) fn new(sync: u64) -> Snapshot {
        Snapshot { sync }
    }
}

/// A piece as it is written. Each names its database anew, so that pieces of several lanes can stand in any order.
#[derive(Default)]
struct Writer {
    content: Content,
    scratch: Vec<u8>,
    db: Option<u16>,
}

impl Writer {
    fn add(&mut self, db: u16, key: &[u8], value: Value<'_>, expires_at: Option<i64>) {
        let out = &mut self.scratch;
        out.clear();
        if self.db.replace(db) != Some(db) {
            file::put_database(out, db);
        }
        if let Some(at) = expires_at {
            file::put_expiry(out, at);
        }
        match value {
            Value::Int(number) => file::put_number_entry(out, key, number),
            Value::Bytes(bytes) => file::put_entry(out, key, bytes, None),
            Value::Rope(rope) => {
                file::put_long_entry_head(out, key, rope.len());
                self.content.put(out);
                return self.content.put_rope(rope.clone(), 0..rope.len());
            }
        }
        self.content.put(out);
    }
}

impl Writer {
    fn add_image(&mut self, image: &Image) {
        let value = match &image.value {
            ImageValue::Int(number) => Value::Int(*number),
            ImageValue::Bytes(bytes) => Value::Bytes(bytes),
            ImageValue::Rope(rope) => Value::Rope(rope),
        };
        self.add(image.db, &image.key, value, image.expires_at);
    }
}

impl Keyspace {
    /// The next piece of snapshot `sync`.
    pub(crate) fn walk(&mut self, sync: u64) -> Report {
        let mut writer = Writer::default();
        let mut is_over = true;
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.sync == sync) {
            let mut budget = PIECE;
            let mut has_more = true;
            while !budget.is_spent() && has_more {
                let before = writer.content.size();
                let mut one = Budget::new(1, PIECE.bytes);
                // What had to be kept goes first, for it takes memory.
                let image = self.shard.images().next();
                if let Some(image) = image {
                    writer.add_image(&image);
                    if let ImageValue::Rope(rope) = image.value {
                        self.shard.retire(rope);
                    }
                } else {
                    let mut count = 0;
                    has_more = self.shard.walk_snapshot(&mut one, &mut |db: u16, entry: &Entry<'_>| {
                        writer.add(db, entry.key(), entry.value(), entry.expires_at());
                        count += 1;
                    });
                    budget.spend(count, 0);
                }
                // Long values count, too: they leave this lane by reference, but wait with the control thread.
                budget.spend(1, writer.content.size() - before);
            }
            // What the walk's end has kept comes with the next piece.
            is_over = !has_more && !self.shard.has_images();
            if is_over {
                self.snapshot = None;
            }
        }
        Report::Piece { sync, content: writer.content, is_over }
    }

    /// Nobody wants it any more. What was kept for it goes by and by, and then the shard goes over the rest by itself.
    pub(crate) fn abandon_snapshot(&mut self, sync: u64) {
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.sync == sync) {
            self.snapshot = None;
        }
    }

    /// Whether the next snapshot has to wait for the end of one.
    pub(crate) fn has_snapshot(&self) -> bool {
        self.shard.is_walking() || self.shard.has_images()
    }

    /// A turn's share of going over the rest of a snapshot that nobody wants. True while there is more.
    pub(crate) fn tend_snapshot(&mut self, budget: &mut Budget) -> bool {
        if self.snapshot.is_some() {
            return false;
        }
        for _ in 0..IMAGES_PER_TURN {
            let Some(image) = self.shard.images().next() else { break };
            if let ImageValue::Rope(rope) = image.value {
                self.shard.retire(rope);
            }
        }
        if self.shard.has_images() {
            return true;
        }
        self.shard.abandon_snapshot();
        self.shard.is_walking()
            && self.shard.walk_snapshot(budget, &mut |_, _| unreachable!("what was abandoned is not shown"))
    }
}
