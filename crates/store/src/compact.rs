//! Emptying sparse spans, an object at a time, so that memory freed here and there can serve again or be given back.
//!
//! An entry is moved by its one owner, the slot; a node by the link (or the run of links) that leads to it. Both are
//! found from the object itself: an entry holds its key and its database, and below every node lies an entry.

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
        let partition = self.databases[place].partition_mut(number);
        self.arena.copy_range(from, 0..NODE_SIZE, to, 0);
        table::relink(&mut self.arena, &mut partition.root, hash, from, to);
        self.arena.free(from);
    }
}
