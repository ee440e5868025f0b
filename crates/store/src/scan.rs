//! Walking over keys: SCAN, KEYS, RANDOMKEY.

use crate::budget::Budget;
use crate::database::{GROUP, Weight};
use crate::entry::Entry;
use crate::shard::Shard;
use crate::table::{self, POSITION_BITS};
use crate::width::index;

const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

impl Shard {
    /// Visits the entries of a database from `cursor` on (0 begins), a whole bucket at a time, until the budget is
    /// spent, and gives the cursor to go on with (0: that was all). At least one bucket is visited. An entry is one
    /// element; so is a partition, or 128 neighbouring partitions that are empty.
    ///
    /// The cursor is `partition << 48 | position in hash order`, below 2^62, and holds no state: it stays valid however
    /// the table grows, shrinks or moves. A key that is there from the first call to the last is visited at least once;
    /// after shrinking it may be visited again. To walk one partition, begin at `partition << 48` and end when the
    /// cursor's partition is another. A cursor that no call gave is harmless: past the last partition is the end.
    pub fn scan<'s>(
        &'s self,
        db: u16,
        cursor: u64,
        now_ms: i64,
        budget: &mut Budget,
        each: &mut dyn FnMut(&'s [u8], &Entry<'s>),
    ) -> u64 {
        let database = self.database(db);
        let partitions = u64::from(self.config.partitions);
        let mut partition = cursor >> POSITION_BITS;
        let mut position = cursor & POSITION_MASK;
        while partition < partitions {
            if position == 0
                && partition.is_multiple_of(GROUP as u64)
                && database.group(index(partition) / GROUP).count == 0
            {
                partition += GROUP as u64;
                budget.spend(1, 0);
            } else {
                let number = u16::try_from(partition).expect("partitions are numbered in 16 bits");
                let (bucket, next) = table::covering(&self.arena, database.root(number), position);
                budget.spend(1, 0);
                if bucket != 0 {
                    for handle in table::entries(&self.arena, bucket) {
                        let entry = self.entry(handle);
                        if entry.expires_at().is_none_or(|at| at > now_ms) {
                            each(entry.key(), &entry);
                        }
                        budget.spend(1, entry.key().len());
                    }
                }
                position = next & POSITION_MASK;
                partition += u64::from(position == 0);
            }
            if budget.is_spent() && partition < partitions {
                return partition << POSITION_BITS | position;
            }
        }
        0
    }

    /// A key of the database that `draw`, a random number, falls on; none if it is empty. A partition is drawn in
    /// proportion to its keys, a bucket in it by hash, so that two keys' chances differ by a small factor at most. The
    /// entry's time may have come.
    pub fn random(&self, db: u16, draw: u64) -> Option<Entry<'_>> {
        let database = self.database(db);
        let left = draw.checked_rem(database.count)?;
        let root = database.root(database.locate(left, Weight::Keys));
        let mixed = draw.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut position = mixed >> (64 - POSITION_BITS);
        loop {
            let (bucket, next) = table::covering(&self.arena, root, position);
            if bucket != 0 {
                let count = table::entries(&self.arena, bucket).count();
                let handle = table::entries(&self.arena, bucket).nth(index(mixed) % count.max(1));
                if let Some(handle) = handle {
                    return Some(self.entry(handle));
                }
            }
            position = next & POSITION_MASK;
        }
    }
}
