//! Everything that must hold of a shard between two calls, checked the slow way.

use crate::database::Labelled;
use crate::entry::{Encoding, Head};
use crate::shard::{Ends, Shard};
use crate::table::{self, BUCKET_COUNT, Node};
use crate::wheel::instant;
use std::collections::{BTreeMap, BTreeSet};

impl Shard {
    /// Walks all of the shard and asserts what its parts promise each other: every entry is in the bucket and the
    /// partition of its hash, once; counts are sums; the wheel holds exactly the entries with an end, in slots that
    /// cover it; ropes on the shelf and entries of flushed partitions are accounted for; no memory is lost. For tests:
    /// it takes time and memory in proportion to the keys.
    pub fn audit(&self) {
        let mut owned = BTreeSet::new();
        let mut expiring = BTreeMap::new();
        let mut ropes = 0;
        let mut nodes = 0;
        for (place, database) in self.databases.iter().enumerate() {
            assert_eq!(
                usize::from(self.places[usize::from(database.number)]),
                place,
                "numbers and places agree"
            );
            let (mut count_all, mut expiring_all) = (0, 0);
            for (number, root, counts) in database.each_partition() {
                let (mut count, mut with_end) = (0, 0);
                self.each_entry(self.arena.array(root, 0), &mut nodes, &mut |handle, prefix, bits| {
                    let head = Head::read(&self.arena, handle);
                    let key = self.arena.bytes(handle, head.key());
                    let hash = self.hasher.hash(key);
                    assert!(
                        bits == 0 || hash >> (64 - bits) == prefix,
                        "a bucket covers its entries' hashes"
                    );
                    assert_eq!(
                        self.config.partition(database.number, key),
                        number,
                        "a key is in its partition"
                    );
                    assert_eq!(usize::from(head.home(&self.arena)), place, "an entry knows its database");
                    let is_behind =
                        self.walk.as_ref().is_none_or(|walk| walk.has_passed(place, number, hash));
                    assert!(
                        !is_behind || database.number >= self.config.databases || head.age() == self.age,
                        "what a walk has passed is of the shard's age"
                    );
                    assert!(owned.insert(handle), "an entry has one owner");
                    let (slot, _) =
                        self.find(&self.key(database.number, number, key)).expect("what is there is found");
                    assert_eq!(slot.entry(&self.arena), handle, "a key is there once");
                    assert!(head.size() <= self.arena.room(handle), "an entry fits its room");
                    count += 1;
                    with_end += u32::from(head.has_ttl());
                });
                assert_eq!((count, with_end), (counts.count, counts.expiring), "a partition counts its keys");
                count_all += u64::from(count);
                expiring_all += u64::from(with_end);
            }
            assert_eq!(
                (count_all, expiring_all),
                (database.count, database.expiring),
                "a database counts its keys"
            );
        }
        for root in self.doomed.iter() {
            self.each_entry(root, &mut nodes, &mut |handle, _, _| {
                assert!(owned.insert(handle), "a flushed entry has no other owner");
            });
        }
        let mut used = nodes * table::NODE_BYTES;
        let mut ends = vec![Ends::default(); self.databases.len()];
        let mut held = vec![0; self.databases.len()];
        let mut labels = vec![BTreeMap::<u16, Labelled>::new(); self.databases.len()];
        for &handle in &owned {
            let head = Head::read(&self.arena, handle);
            used += self.arena.room(handle) as u64;
            let home = usize::from(head.home(&self.arena));
            let mut size = self.arena.room(handle) as u64;
            if head.encoding() == Encoding::Rope {
                ropes += 1;
                size += self.shelf.get(head.rope(&self.arena)).room() as u64;
            }
            held[home] += size;
            let labelled = labels[home].entry(head.label(&self.arena)).or_default();
            *labelled = Labelled { count: labelled.count + 1, held: labelled.held + size };
            if head.has_ttl() {
                expiring.insert(handle, instant(head.expires_at(&self.arena)));
                ends[home].add(head.expires_at(&self.arena));
            }
        }
        assert_eq!(self.ends, ends, "a database adds up when its keys end");
        let counted: Vec<u64> = self.databases.iter().map(|database| database.held).collect();
        assert_eq!(counted, held, "a database adds up what its entries hold");
        for (database, labels) in self.databases.iter().zip(&labels) {
            if !database.labels.is_empty() {
                let counted = (0..).zip(database.labels.iter().copied());
                let counted: BTreeMap<u16, Labelled> =
                    counted.filter(|(_, labelled)| *labelled != Labelled::default()).collect();
                assert_eq!(counted, *labels, "a database counts by labels");
            }
        }
        assert_eq!(used, self.arena.used(), "all memory is an entry's or a table's");
        assert_eq!(ropes, self.shelf.count, "a rope on the shelf is an entry's");
        let mut linked = 0;
        self.wheel.each(&self.arena, &mut |handle, first, last| {
            let at = expiring.get(&handle).expect("what is on the wheel has an end");
            assert!(
                (first..=last).contains(at) || *at <= self.wheel.now + 1,
                "a slot covers its entries' ends"
            );
            linked += 1;
        });
        if self.doomed.is_empty() {
            assert_eq!(linked, expiring.len(), "every end is on the wheel");
        }
        let heads: u64 = self.databases.iter().map(|database| database.size).sum();
        assert_eq!(heads, self.heads, "heads are counted");
        self.arena.audit();
    }

    fn each_entry(&self, root: &Node, nodes: &mut u64, visit: &mut dyn FnMut(u32, u64, u32)) {
        *nodes += table::each_bucket(&self.arena, root, &mut |bucket, prefix, bits| {
            let count = table::entries_of(bucket).count();
            assert!(count <= BUCKET_COUNT, "a bucket holds twelve entries at most");
            assert!(bits == 0 || count > 0, "a bucket that is no root holds one at least");
            for handle in table::entries_of(bucket) {
                visit(handle, prefix, bits);
            }
        });
    }
}
