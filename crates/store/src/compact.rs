//! Emptying sparse spans, an object at a time, so that memory freed here and there can serve again or be given back.
//!
//! An entry is moved by its one owner, the slot; a node by the link (or the run of links) that leads to it. Both are
//! found from the object itself: an entry holds its key and its database, and below every node lies an entry. Roots stay.

use crate::arena::{Leaving, NODE_SIZE};
use crate::budget::Budget;
use crate::entry::Head;
use crate::shard::Shard;
use crate::table;

impl Shard {
    /// Moves objects out of the sparsest spans while a class has room to spare. Says whether there is more to move.
    pub(crate) fn compact(&mut self, budget: &mut Budget) -> bool {
        let mut bytes = std::mem::take(&mut self.scratch);
        let mut more = true;
        while more && !budget.is_spent() {
            match self.arena.next_leaving() {
                Leaving::Nothing => more = false,
                Leaving::Started { cost } => budget.spend(cost, 0),
                Leaving::Entry(handle) => {
                    self.move_entry(handle, &mut bytes);
                    budget.spend(2, self.arena.room(handle));
                }
                Leaving::Node(handle) => {
                    self.move_node(handle, &mut bytes);
                    budget.spend(2, NODE_SIZE);
                }
            }
        }
        self.scratch = bytes;
        more
    }

    /// An entry of a flushed partition has no slot and stays: it will be freed where it is.
    fn move_entry(&mut self, from: u32, bytes: &mut Vec<u8>) {
        let Some((_, slot)) = self.owner(from, bytes) else { return };
        let Some(to) = self.arena.alloc_beside(from) else { return };
        let head = Head::read(&self.arena, from);
        self.arena.copy_range(from, 0..head.size(), to, 0);
        slot.set_entry(&mut self.arena, to);
        if head.has_ttl() {
            self.wheel.moved(&mut self.arena, to);
        }
        self.arena.free(from);
    }

    /// A node of a flushed partition's tree stays as well.
    fn move_node(&mut self, from: u32, bytes: &mut Vec<u8>) {
        let Some(entry) = table::some_entry(&self.arena, from) else { return };
        let Some((key, _)) = self.owner(entry, bytes) else { return };
        let Some(to) = self.arena.alloc_beside(from) else { return };
        let (db, number, hash) = (key.db, key.partition, key.hash);
        let place = usize::from(self.places[usize::from(db)]);
        let root = self.databases[place].root(number);
        self.arena.copy_range(from, 0..NODE_SIZE, to, 0);
        table::relink(&mut self.arena, root, hash, from, to);
        self.arena.free(from);
        self.state = self.state.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Effect, Expiry, NewValue, Recency, Region};

    /// Where the nodes and the entries of the one partition lie, in its order.
    fn places(shard: &Shard) -> [Vec<usize>; 2] {
        let (mut buckets, mut entries) = (Vec::new(), Vec::new());
        let root = shard.arena.array(shard.database(0).root(0), 0);
        table::each_bucket(&shard.arena, root, &mut |bucket, _, _| {
            buckets.push(bucket.as_ptr().addr());
            entries.extend(table::entries_of(bucket).map(|handle| handle as usize));
        });
        [buckets, entries]
    }

    /// Gathers what is left of many keys of this size; a call with this budget moves at most so much.
    fn check(budget: Budget, node_count_max: usize, entry_count_max: usize) {
        const COUNT: u32 = 60_000;
        let config = Config {
            partitions: 1,
            databases: 1,
            seed: [1, 2],
            partition_of: |_, _| 0,
            beside: &[],
            recency: Recency::Lru,
        };
        let mut shard = Shard::new(config, Region::new(1 << 24));
        for number in 0..COUNT {
            let bytes = number.to_le_bytes();
            let key = shard.key(0, 0, &bytes);
            let value = NewValue::Bytes(&[9; 100]);
            shard.commit(Effect::Set { key, value, expiry: Expiry::None }).expect("room");
        }
        for number in (0..COUNT).filter(|number| !number.is_multiple_of(10)) {
            let bytes = number.to_le_bytes();
            let key = shard.key(0, 0, &bytes);
            shard.commit(Effect::Delete { key }).expect("removing needs no room");
        }
        let (mut before, mut more) = (places(&shard), true);
        let mut kept = (0..COUNT).step_by(10);
        let (mut moved_counts, mut spent_count) = ([0, 0], 0);
        while more {
            let mut left = budget;
            // Found before, and removed when it may be elsewhere.
            let bytes = kept.next().expect("there are more keys than calls").to_le_bytes();
            let mut key = shard.key(0, 0, &bytes);
            shard.read_to_change(&mut key, 0, || 0).expect("it is there");
            more = shard.compact(&mut left);
            spent_count += budget.elements - left.elements;
            let after = places(&shard);
            let [nodes, entries] = [0, 1].map(|kind: usize| {
                before[kind].iter().zip(&after[kind]).filter(|(before, after)| before != after).count()
            });
            assert!(nodes <= node_count_max, "{nodes} nodes in one call with {budget:?}");
            assert!(entries <= entry_count_max, "{entries} entries in one call with {budget:?}");
            moved_counts = [moved_counts[0] + nodes, moved_counts[1] + entries];
            assert!(shard.commit(Effect::Delete { key }).expect("removing needs no room").existed);
            before = places(&shard);
        }
        shard.audit();
        assert!(
            moved_counts.iter().all(|&count| count > 300),
            "{moved_counts:?} nodes and entries were moved"
        );
        let listed_count = u64::from(spent_count) - 2 * moved_counts.iter().sum::<usize>() as u64;
        assert!(listed_count > 200, "{listed_count} elements for looking at what is free in a span");
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys; the paths run in other tests")]
    fn what_is_moved_is_charged() {
        check(Budget::new(40, u32::MAX), 20, 20);
        check(Budget::new(u32::MAX, 1000), 1000_usize.div_ceil(NODE_SIZE), 10);
    }
}
