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

#[derive(Debug)]
pub(crate) struct Database {
    /// The number that clients know it by; SWAPDB exchanges these.
    pub(crate) number: u16,
    pub(crate) count: u64,
    pub(crate) expiring: u64,
    /// Bytes of the heads.
    pub(crate) size: u64,
    groups: Vec<u32>,
    pieces: Vec<Option<Box<[Partition]>>>,
}

impl Database {
    pub(crate) fn new(number: u16) -> Database {
        Database { number, count: 0, expiring: 0, size: 0, groups: Vec::new(), pieces: Vec::new() }
    }

    /// A partition as it is; an empty one if it never held a key.
    #[inline]
    pub(crate) fn partition(&self, partition: u16) -> Partition {
        let at = usize::from(partition);
        match self.pieces.get(at / PIECE) {
            Some(Some(piece)) => piece[at % PIECE],
            _ => Partition::default(),
        }
    }

    /// A partition to be changed, made if it is the first time.
    #[inline]
    pub(crate) fn partition_mut(&mut self, partition: u16, partitions: u16) -> &mut Partition {
        let at = usize::from(partition);
        if !matches!(self.pieces.get(at / PIECE), Some(Some(_))) {
            self.make_piece(at / PIECE, usize::from(partitions));
        }
        let piece = self.pieces[at / PIECE].as_mut().expect("it was made in the line above");
        &mut piece[at % PIECE]
    }

    #[cold]
    fn make_piece(&mut self, piece: usize, partitions: usize) {
        if self.pieces.is_empty() {
            self.pieces = std::iter::repeat_with(|| None).take(partitions.div_ceil(PIECE)).collect();
            self.groups = vec![0; partitions.div_ceil(GROUP)];
            self.size += (size_of_val(&*self.pieces) + size_of_val(&*self.groups)) as u64;
        }
        self.pieces[piece] = Some(vec![Partition::default(); PIECE].into());
        self.size += (PIECE * size_of::<Partition>()) as u64;
    }

    /// Notes that a partition's count and number of expiring keys became others.
    pub(crate) fn recount(&mut self, partition: u16, before: Partition, after: Partition) {
        let group = &mut self.groups[usize::from(partition) / GROUP];
        *group = *group - before.count + after.count;
        self.count = self.count - u64::from(before.count) + u64::from(after.count);
        self.expiring = self.expiring - u64::from(before.expiring) + u64::from(after.expiring);
    }

    /// Keys in the partitions of a group.
    pub(crate) fn group(&self, group: usize) -> u32 {
        self.groups.get(group).copied().unwrap_or(0)
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
