//! Trees of hashes that agree in many bits.

use super::*;
use crate::Region;
use crate::width::index;
use std::collections::BTreeMap;

/// Hashes that agree in many bits: deep trees, ones with a single way down, full ones.
struct Tree {
    arena: Arena,
    root: u32,
    hashes: BTreeMap<u32, u64>,
}

impl Tree {
    fn new(region: usize) -> Tree {
        let mut arena = Arena::new(Region::new(region));
        let root = arena.alloc_nodes().expect("room");
        *arena.array_mut(root, 0) = EMPTY;
        Tree { arena, root, hashes: BTreeMap::new() }
    }

    fn insert(&mut self, entry: u32, hash: u64) -> Result<usize, NoRoom> {
        let hashes = &self.hashes;
        let done = insert(&mut self.arena, self.root, hash, entry, |_, entry| hashes[&entry]);
        if done.is_ok() {
            self.hashes.insert(entry, hash);
        }
        done
    }

    fn remove(&mut self, entry: u32) {
        let hash = self.hashes.remove(&entry).expect("it is there");
        let (slot, _) =
            tagged(&self.arena, self.root, hash).find(|&(_, other)| other == entry).expect("it is found");
        remove(&mut self.arena, self.root, hash, slot);
    }

    fn check(&self) {
        let mut seen = BTreeMap::new();
        let nodes = each_bucket(&self.arena, self.arena.array(self.root, 0), &mut |bucket, prefix, bits| {
            assert!(bits == 0 || entries_of(bucket).next().is_some(), "only a root is empty");
            for entry in entries_of(bucket) {
                let hash = self.hashes[&entry];
                assert!(bits == 0 || hash >> (64 - bits) == prefix);
                assert!(seen.insert(entry, hash).is_none());
            }
        });
        assert_eq!(seen, self.hashes);
        assert_eq!(self.arena.used(), nodes * NODE_BYTES);
        let (mut position, mut count, mut steps) = (0, 0, 0);
        while position < 1 << POSITION_BITS {
            let (bucket, next) = covering(&self.arena, self.root, position);
            assert!(next > position);
            count += if bucket == 0 { 0 } else { entries(&self.arena, bucket).count() };
            (position, steps) = (next, steps + 1);
        }
        assert!(count == self.hashes.len() && steps < 10_000);
        self.arena.audit();
    }
}

#[test]
fn thirteen_keys_that_agree_are_refused() {
    let mut tree = Tree::new(1 << 20);
    let hash = |number: u32| 0x1234_5678_9abc_0000 | u64::from(number);
    for number in 1..=12 {
        tree.insert(8 * number, hash(number)).expect("room");
    }
    for number in 13..20 {
        assert_eq!(tree.insert(8 * number, hash(number)), Err(NoRoom));
        tree.check();
    }
    tree.insert(800, 0).expect("elsewhere");
    tree.check();
    for number in 1..=12 {
        tree.remove(8 * number);
        tree.check();
    }
    tree.remove(800);
    assert_eq!(tree.arena.used(), 0);
}

#[test]
fn whatever_hashes_agree_in_a_tree_is_right() {
    let seeds = if cfg!(miri) { 1 } else { 30 };
    let mut refused_total = 0;
    for seed in 1..=seeds {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let region = if seed % 2 == 0 { 1 << 20 } else { 3 << 16 };
        let mut tree = Tree::new(region);
        let (mut number, mut refused_count) = (0, 0);
        for step in 0..if cfg!(miri) { 60 } else { 3_400 } {
            let growing = step / 700 % 2 == 0;
            if tree.hashes.is_empty() || (random() % 10 < 8) == growing {
                // Some bits of a prefix, others at random, the rest nothing.
                let keep = random() % 53;
                let base = [0x1111_2222_3333_4444, 0x1111_2222_3333_0000, !0][index(random() % 3)];
                let hash = base ^ (random() & 0xff) ^ (random() % 3) << (63 - keep);
                number += 1;
                refused_count += u32::from(tree.insert(8 * number, hash).is_err());
            } else {
                let at = index(random()) % tree.hashes.len();
                let &entry = tree.hashes.keys().nth(at).expect("there are so many");
                tree.remove(entry);
            }
            if step % 8 == 0 {
                tree.check();
            }
        }
        refused_total += refused_count;
        if seed % 3 == 0 {
            while let Some((&entry, _)) = tree.hashes.first_key_value() {
                tree.remove(entry);
                tree.check();
            }
            assert!(*tree.arena.array(tree.root, COUNT) == [0_u8], "a root is a bucket again");
        } else {
            let was_count = tree.hashes.len();
            let mut root: Node = *tree.arena.array(tree.root, 0);
            let mut count = 0;
            while let Some((entries, taken)) = dismantle(&mut tree.arena, &mut root) {
                assert!(entries[..taken].iter().all(|entry| tree.hashes.remove(entry).is_some()));
                count += taken;
            }
            assert!(count == was_count && tree.hashes.is_empty());
        }
        assert_eq!(tree.arena.used(), 0, "all nodes came back");
    }
    assert!(cfg!(miri) || refused_total > 0, "none was refused");
}
