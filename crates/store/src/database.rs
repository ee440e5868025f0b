//! A numbered database: heads of its partitions' tables, and counts.

/// Heads made at a time: 512 × 12 bytes on the first key in one of these partitions.
const PIECE: usize = 512;
/// Partitions whose counts are summed, so that empty ones are passed over together.
pub(crate) const GROUP: usize = 128;

/// One partition of one database. Counting, walking or flushing it touches nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Partition {
    /// Link of its tree (`table`).
    pub(crate) root: u32,
    pub(crate) count: u32,
    /// Keys with a time to live.
    pub(crate) expiring: u32,
}

/// Sums over neighbouring partitions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    pub(crate) count: u32,
    pub(crate) expiring: u32,
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
    /// Bytes of the heads.
    pub(crate) size: u64,
    /// Bytes of its entries, each rounded up to its size class, and of ropes that they hold. Flushed ones count until they
    /// are freed.
    pub(crate) held: u64,
    /// The same for each label; none where labels mean nothing.
    pub(crate) labels: Vec<Labelled>,
    groups: Vec<Group>,
    pieces: Vec<Option<Box<[Partition]>>>,
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
            pieces: Vec::new(),
        }
    }

    /// Where a partition's head is, if it was made: nothing of the head is read.
    #[inline]
    pub(crate) fn head(&self, partition: u16) -> Option<&Partition> {
        let at = usize::from(partition);
        self.pieces.get(at / PIECE)?.as_ref()?.get(at % PIECE)
    }

    /// A partition as it is; an empty one if it never held a key.
    #[inline]
    pub(crate) fn partition(&self, partition: u16) -> Partition {
        self.head(partition).copied().unwrap_or_default()
    }

    /// Sees to it that a partition has its head.
    #[inline]
    pub(crate) fn make(&mut self, partition: u16, partitions: u16) {
        let piece = usize::from(partition) / PIECE;
        if !matches!(self.pieces.get(piece), Some(Some(_))) {
            self.make_piece(piece, usize::from(partitions));
        }
    }

    /// A partition to be changed; it has its head.
    #[inline]
    pub(crate) fn partition_mut(&mut self, partition: u16) -> &mut Partition {
        let at = usize::from(partition);
        let piece = self.pieces[at / PIECE].as_mut();
        &mut piece.expect("a partition that holds or held a key has its head")[at % PIECE]
    }

    #[cold]
    fn make_piece(&mut self, piece: usize, partitions: usize) {
        if self.pieces.is_empty() {
            self.pieces = std::iter::repeat_with(|| None).take(partitions.div_ceil(PIECE)).collect();
            self.groups = vec![Group::default(); partitions.div_ceil(GROUP)];
            self.size += (size_of_val(&*self.pieces) + size_of_val(&*self.groups)) as u64;
        }
        self.pieces[piece] = Some(vec![Partition::default(); PIECE].into());
        self.size += (PIECE * size_of::<Partition>()) as u64;
    }

    /// Notes that a partition's count and number of expiring keys became others.
    pub(crate) fn recount(&mut self, partition: u16, before: Partition, after: Partition) {
        let group = &mut self.groups[usize::from(partition) / GROUP];
        group.count = group.count - before.count + after.count;
        group.expiring = group.expiring - before.expiring + after.expiring;
        self.count = self.count - u64::from(before.count) + u64::from(after.count);
        self.expiring = self.expiring - u64::from(before.expiring) + u64::from(after.expiring);
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
    pub(crate) fn group(&self, group: usize) -> Group {
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
            if self.partition(number).count > 0 {
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
            let Partition { count, expiring, .. } = self.partition(number);
            if left < of(count, expiring) {
                return number;
            }
            left -= of(count, expiring);
            at += 1;
        }
    }

    /// Every partition whose head was made.
    pub(crate) fn each_partition(&self) -> impl Iterator<Item = (u16, Partition)> + '_ {
        self.pieces.iter().enumerate().flat_map(|(piece, partitions)| {
            let first = piece * PIECE;
            partitions.iter().flat_map(move |partitions| {
                partitions.iter().enumerate().map(move |(index, &partition)| {
                    (u16::try_from(first + index).expect("partitions are numbered in 16 bits"), partition)
                })
            })
        })
    }
}
