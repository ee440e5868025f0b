//! A numbered database: roots of its partitions' tables, and counts.

use crate::arena::{Arena, NODE_GRANULES, NODES_COUNT, NODES_SIZE, NoRoom};
use crate::table;
use crate::width::narrow;

/// Partitions whose counts are made at a time: 512 × 8 bytes on the first key in one of them.
const PIECE: usize = 512;
/// Partitions whose roots are made at a time: few, for a database of few keys has one in each of these.
const ROOTS: usize = NODES_COUNT as usize;
/// Partitions whose counts are summed, so that empty ones are passed over together.
pub(crate) const GROUP: usize = 128;

/// Keys of a partition, or of neighbouring ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) count: u32,
    /// Those with a time to live.
    pub(crate) expiring: u32,
}

impl Counts {
    fn add(&mut self, count: i64, expiring: i64) {
        let sum = |before: u32, more: i64| {
            u32::try_from(i64::from(before) + more).expect("a partition counts its keys, below 2^32")
        };
        (self.count, self.expiring) = (sum(self.count, count), sum(self.expiring, expiring));
    }
}

/// By what partitions are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// All their keys.
    Keys,
    /// Their keys with a time to live.
    Expiring,
}

/// What a database has of a label, see [`crate::Mark::label`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labelled {
    /// Entries. Those whose time has come are counted until `tend` reaches them, flushed ones until it has freed them.
    pub count: u64,
    /// Their bytes, each rounded up to its size class, and those of long values that they hold.
    pub held: u64,
}

#[derive(Debug)]
pub(crate) struct Database {
    /// The number that clients know it by; SWAPDB exchanges these.
    pub(crate) number: u16,
    pub(crate) count: u64,
    pub(crate) expiring: u64,
    /// Bytes of roots and counts.
    pub(crate) size: u64,
    /// Bytes of its entries, each rounded up to its size class, and of ropes that they hold. Flushed ones count until they
    /// are freed.
    pub(crate) held: u64,
    /// The same for each label; none where labels mean nothing.
    pub(crate) labels: Vec<Labelled>,
    /// Sums over neighbouring partitions, [`GROUP`] each.
    groups: Vec<Counts>,
    counts: Vec<Option<Box<[Counts; PIECE]>>>,
    /// Where in the arena the roots of so many partitions begin ([`ROOTS`]), each of them a node (`table`); 0 if they were not made. A look-up reads
    /// nothing else here, and computes the rest.
    roots: Vec<u32>,
}

impl Database {
    pub(crate) fn new(number: u16) -> Database {
        Database {
            number,
            count: 0,
            expiring: 0,
            size: 0,
            held: 0,
            labels: Vec::new(),
            groups: Vec::new(),
            counts: Vec::new(),
            roots: Vec::new(),
        }
    }

    /// Where a partition's root is; 0 if it was not made.
    #[inline]
    pub(crate) fn root(&self, partition: u16) -> u32 {
        let at = usize::from(partition);
        match self.roots.get(at / ROOTS) {
            Some(&first) if first != 0 => first + u32::from(NODE_GRANULES) * narrow(at % ROOTS),
            _ => 0,
        }
    }

    /// Keys of a partition; none if it never held one.
    #[inline]
    pub(crate) fn counts(&self, partition: u16) -> Counts {
        let at = usize::from(partition);
        let piece = self.counts.get(at / PIECE).and_then(Option::as_ref);
        piece.map_or_else(Counts::default, |counts| counts[at % PIECE])
    }

    /// Sees to it that a partition has its root and counts.
    #[inline]
    pub(crate) fn make(&mut self, arena: &mut Arena, partition: u16, partitions: u16) -> Result<(), NoRoom> {
        if self.root(partition) == 0 {
            self.make_anew(arena, usize::from(partition), usize::from(partitions))
        } else {
            Ok(())
        }
    }

    #[cold]
    fn make_anew(&mut self, arena: &mut Arena, partition: usize, partitions: usize) -> Result<(), NoRoom> {
        let first = arena.alloc_nodes()?;
        if self.roots.is_empty() {
            self.roots = vec![0; partitions.div_ceil(ROOTS)];
            self.counts = std::iter::repeat_with(|| None).take(partitions.div_ceil(PIECE)).collect();
            self.groups = vec![Counts::default(); partitions.div_ceil(GROUP)];
            let sizes = [size_of_val(&*self.roots), size_of_val(&*self.counts), size_of_val(&*self.groups)];
            self.size += sizes.iter().sum::<usize>() as u64;
        }
        for node in (first..).step_by(usize::from(NODE_GRANULES)).take(ROOTS) {
            *arena.array_mut(node, 0) = table::EMPTY;
        }
        self.roots[partition / ROOTS] = first;
        self.size += NODES_SIZE;
        let counts = &mut self.counts[partition / PIECE];
        if counts.is_none() {
            *counts = Some(Box::new([Counts::default(); PIECE]));
            self.size += size_of::<[Counts; PIECE]>() as u64;
        }
        Ok(())
    }

    /// Gives the roots of a partition and its neighbours back if none of them has a key left: without keys a database holds little.
    #[inline]
    pub(crate) fn unmake(&mut self, arena: &mut Arena, partition: u16) {
        if self.counts(partition).count == 0 {
            self.unmake_empty(arena, usize::from(partition));
        }
    }

    #[cold]
    fn unmake_empty(&mut self, arena: &mut Arena, partition: usize) {
        let start = partition % PIECE / ROOTS * ROOTS;
        let counts = self.counts[partition / PIECE].as_ref().expect("a partition that held a key was made");
        if counts[start..start + ROOTS].iter().all(|counts| counts.count == 0) {
            arena.free_nodes(std::mem::take(&mut self.roots[partition / ROOTS]));
            self.size -= NODES_SIZE;
        }
    }

    /// Notes that a partition has so many keys more, and so many with a time to live.
    pub(crate) fn recount(&mut self, partition: u16, count: i64, expiring: i64) {
        let at = usize::from(partition);
        let piece = self.counts[at / PIECE].as_mut().expect("a partition that holds or held a key was made");
        piece[at % PIECE].add(count, expiring);
        self.groups[at / GROUP].add(count, expiring);
        self.count = self.count.strict_add_signed(count);
        self.expiring = self.expiring.strict_add_signed(expiring);
    }

    /// Notes an entry that has come, and what it holds.
    #[inline]
    pub(crate) fn enter(&mut self, label: u16, size: u64) {
        self.hold(label, size);
        if let Some(labelled) = self.labels.get_mut(usize::from(label)) {
            labelled.count += 1;
        }
    }

    /// Notes an entry that has gone, with all that it held.
    #[inline]
    pub(crate) fn leave(&mut self, label: u16, size: u64) {
        self.release(label, size);
        if let Some(labelled) = self.labels.get_mut(usize::from(label)) {
            labelled.count -= 1;
        }
    }

    /// Notes that an entry holds so many bytes more.
    #[inline]
    pub(crate) fn hold(&mut self, label: u16, size: u64) {
        self.held += size;
        let index = usize::from(label);
        if !self.labels.is_empty() {
            if self.labels.len() <= index {
                self.labels.resize(index + 1, Labelled::default());
            }
            self.labels[index].held += size;
        }
    }

    /// Notes that an entry holds so many bytes less.
    #[inline]
    pub(crate) fn release(&mut self, label: u16, size: u64) {
        self.held -= size;
        if let Some(labelled) = self.labels.get_mut(usize::from(label)) {
            labelled.held -= size;
        }
    }

    /// Sums of a group of partitions.
    pub(crate) fn group(&self, group: usize) -> Counts {
        self.groups.get(group).copied().unwrap_or_default()
    }

    /// The first partition from `from` on, of so many, that holds keys. The cost is the groups and one group's
    /// partitions, 128 of each at most, twice when `from` lies within a group.
    pub(crate) fn next_filled(&self, from: u16, partitions: u16) -> Option<u16> {
        let mut at = usize::from(from);
        while at < usize::from(partitions) {
            if at.is_multiple_of(GROUP) && self.group(at / GROUP).count == 0 {
                at += GROUP;
                continue;
            }
            let number = u16::try_from(at).expect("partitions are numbered in 16 bits");
            if self.counts(number).count > 0 {
                return Some(number);
            }
            at += 1;
        }
        None
    }

    /// All that partitions of this database are weighed by.
    pub(crate) fn weight(&self, weight: Weight) -> u64 {
        match weight {
            Weight::Keys => self.count,
            Weight::Expiring => self.expiring,
        }
    }

    /// The partition on which `left`, below the database's weight, falls when each stands for its weight. The cost is
    /// the groups and one group's partitions, 128 of each at most.
    pub(crate) fn locate(&self, left: u64, weight: Weight) -> u16 {
        let of = |count: u32, expiring: u32| u64::from(if weight == Weight::Keys { count } else { expiring });
        let mut left = left;
        let mut at = 0;
        while left >= of(self.groups[at].count, self.groups[at].expiring) {
            left -= of(self.groups[at].count, self.groups[at].expiring);
            at += 1;
        }
        at *= GROUP;
        loop {
            let number = u16::try_from(at).expect("partitions are numbered in 16 bits");
            let Counts { count, expiring } = self.counts(number);
            if left < of(count, expiring) {
                return number;
            }
            left -= of(count, expiring);
            at += 1;
        }
    }

    /// Every partition that was made, with its root: for audits.
    pub(crate) fn each_partition(&self) -> impl Iterator<Item = (u16, u32, Counts)> + '_ {
        let made = self.roots.iter().enumerate().filter(|&(_, &first)| first != 0);
        made.flat_map(|(piece, _)| piece * ROOTS..(piece + 1) * ROOTS).map(|at| {
            let number = u16::try_from(at).expect("partitions are numbered in 16 bits");
            (number, self.root(number), self.counts(number))
        })
    }
}
