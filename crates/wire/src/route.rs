//! Which lane owns a key.
//!
//! ```text
//! key ── hash tag ──> bytes ── CRC16/XMODEM ──> 16 bits ── mod 16384 ──> slot ── PartitionMap ──> lane
//! ```
//!
//! The function is Redis Cluster's, so cluster clients compute it themselves and send each request to its owner:
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>. docs/routing.md tells the rest.

use keyhash::crc16;

/// Number of slots, the partitions of a Redis namespace.
pub const SLOTS: u16 = 16384;

/// A lane, by its place in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u16);

/// Where lanes listen for one dialect: lane `i` on port `first + i × step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Lane 0's.
    pub first: u16,
    /// From one lane to the next, at least 1.
    pub step: u16,
}

impl Ports {
    /// Ports side by side.
    pub fn from(first: u16) -> Ports {
        Ports { first, step: 1 }
    }

    /// A lane's. The last port there is stands for all behind it: settings that end there are refused at the start.
    pub fn of(self, lane: u16) -> u16 {
        self.first.saturating_add(self.step.saturating_mul(lane))
    }
}

/// A Redis hash slot, below [`SLOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of a key: the CRC16 of its hash tag if it has one, of all of it otherwise.
    #[inline(always)]
    pub fn of(key: &[u8]) -> Slot {
        Slot(crc16(hash_tag(key)) % SLOTS)
    }

    /// A slot by number; nothing from [`SLOTS`] on.
    pub fn new(number: u16) -> Option<Slot> {
        (number < SLOTS).then_some(Slot(number))
    }

    /// The slot that stands for a vbucket, which is below [`VBUCKETS`].
    fn of_vbucket(vbucket: u16) -> Slot {
        Slot(vbucket * SLOTS_PER_VBUCKET)
    }

    /// The slot that stands for a partition of an Aerospike namespace.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn of_partition(partition: u16) -> Slot {
        assert!(partition < crate::aerospike::PARTITIONS, "a namespace has 4096 partitions");
        Slot(partition * SLOTS_PER_PARTITION)
    }

    /// Its number, below [`SLOTS`].
    pub fn number(self) -> u16 {
        self.0
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Which partition of a namespace a key belongs to. It is fixed for the namespace's life.
///
/// Each function numbers its partitions in its own way; here a partition is the first of the slots that it stands for, so that
/// one map of slots tells the owner of any.
///
/// ```text
/// Redis       CRC16 of the hash tag, mod 16384                slot                      0 … 16383
/// Couchbase   CRC-32 (zlib's), bits 16 to 30, mod 1024        vbucket = slot / 16       0 … 1023
/// Aerospike   the digest's first 12 bits, little-endian        partition = slot / 4      0 … 4095
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Redis Cluster's.
    Redis,
    /// That of Couchbase's buckets, as libcouchbase's `vbucket.c` has it.
    Couchbase,
    /// That of Aerospike's namespaces, whose keys are digests (`as_partition.h` of its C client).
    Aerospike,
}

/// Number of partitions of a Couchbase bucket.
pub const VBUCKETS: u16 = 1024;
const SLOTS_PER_VBUCKET: u16 = SLOTS / VBUCKETS;
const SLOTS_PER_PARTITION: u16 = SLOTS / crate::aerospike::PARTITIONS;

impl Function {
    /// The slot that stands for a key's partition.
    #[inline]
    pub fn slot(self, key: &[u8]) -> Slot {
        match self {
            Function::Redis => Slot::of(key),
            Function::Couchbase => Slot::of_vbucket(vbucket(key)),
            Function::Aerospike => Slot::of_partition(partition(key)),
        }
    }
}

/// The partition of a key in a Couchbase bucket, below [`VBUCKETS`].
pub fn vbucket(key: &[u8]) -> u16 {
    let [high, low, ..] = crc32(key).to_be_bytes();
    (u16::from_be_bytes([high, low]) & 0x7fff) % VBUCKETS
}

/// The partition of a digest, or of a partition's own number as two bytes, in an Aerospike namespace; 0 for fewer bytes.
pub fn partition(digest: &[u8]) -> u16 {
    let first = digest.first_chunk().copied().unwrap_or_default();
    u16::from_le_bytes(first) % crate::aerospike::PARTITIONS
}

/// `CRC32[0]` is the table of CRC-32 (polynomial 0xEDB88320, reflected), as in zlib; `CRC32[n]` advances a byte over `n` further
/// zero bytes, so that several bytes are looked up side by side instead of one after the other.
static CRC32: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte: u32 = 0;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
            bit += 1;
        }
        tables[0][byte as usize] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
};

/// zlib's CRC-32. `crc32(b"foo") == 0x8C736521`.
pub fn crc32(bytes: &[u8]) -> u32 {
    let at = |table: usize, byte: u8| CRC32[table][usize::from(byte)];
    let mut crc = u32::MAX;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in chunks {
        let [p, q, r, s] = crc.to_le_bytes();
        crc = at(7, a ^ p)
            ^ at(6, b ^ q)
            ^ at(5, c ^ r)
            ^ at(4, d ^ s)
            ^ at(3, e)
            ^ at(2, f)
            ^ at(1, g)
            ^ at(0, h);
    }
    !rest.iter().fold(crc, |crc, &byte| at(0, crc.to_le_bytes()[0] ^ byte) ^ (crc >> 8))
}

/// The part of a key that decides its slot: what is between the first `{` and the first `}` behind it, unless that is
/// empty. Keys with the same tag live on the same lane.
#[inline(always)]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    if holds(key, b'{') { tag_of(key) } else { key }
}

/// Whether `byte` is there. Most keys are looked through in two steps, the second overlapping the first.
#[inline(always)]
fn holds(bytes: &[u8], byte: u8) -> bool {
    match bytes.len() {
        8..=16 => holds_in_ends::<8>(bytes, byte),
        17..=32 => holds_in_ends::<16>(bytes, byte),
        _ => bytes.contains(&byte),
    }
}

/// Whether `byte` is in the first or the last `SIZE` of these bytes, of which there are as many.
#[inline(always)]
fn holds_in_ends<const SIZE: usize>(bytes: &[u8], byte: u8) -> bool {
    // All are compared: that is one instruction, where to stop early would be one for each.
    let holds = |end: Option<&[u8; SIZE]>| {
        end.is_some_and(|end| end.iter().fold(false, |found, other| found | (*other == byte)))
    };
    holds(bytes.first_chunk()) | holds(bytes.last_chunk())
}

/// The tag of a key in which a `{` is.
#[cold]
#[inline(never)]
fn tag_of(key: &[u8]) -> &[u8] {
    let opened = key.iter().position(|&byte| byte == b'{').map_or(&[][..], |open| &key[open + 1..]);
    match opened.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(size) => &opened[..size],
    }
}

/// Most copies of a partition besides its owner.
pub const COPIES_MAX: usize = 3;

/// Who holds a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holders {
    /// The one lane that answers writes.
    pub owner: LaneId,
    copies: [LaneId; COPIES_MAX],
    copies_count: u8,
}

impl Holders {
    /// An owner and its copies, nearest first.
    ///
    /// # Panics
    /// With more than [`COPIES_MAX`] copies, or the owner among them.
    pub fn new(owner: LaneId, copies: &[LaneId]) -> Holders {
        assert!(
            copies.len() <= COPIES_MAX && !copies.contains(&owner),
            "at most three copies, on other lanes"
        );
        let mut held = [owner; COPIES_MAX];
        held[..copies.len()].copy_from_slice(copies);
        Holders { owner, copies: held, copies_count: copies.len().to_le_bytes()[0] }
    }

    /// The lanes that hold a copy, nearest first; empty while nothing is replicated.
    pub fn copies(&self) -> &[LaneId] {
        &self.copies[..usize::from(self.copies_count)]
    }
}

/// Some of the slots: mostly neighbours, of which the first and their count say all; else a bit for each, 2 KiB, which stay in the nearest
/// cache where 32 KiB of owners would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSet {
    /// All of them are neighbours.
    is_run: bool,
    first: u16,
    count: u16,
    bits: [u64; SlotSet::WORDS],
}

impl SlotSet {
    const WORDS: usize = SLOTS as usize / 64;

    /// Whether the slot is one of them.
    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        if self.is_run {
            return slot.0.wrapping_sub(self.first) < self.count;
        }
        self.bits[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }
}

/// Owner and copies of every partition of a Redis namespace. It changes as a whole: `epoch` tells two of them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMap {
    /// Owners alone, dense: 32 KiB.
    owners: Box<[LaneId]>,
    holders: Box<[Holders]>,
    /// Slots next to each other with the same owner, inclusive, ascending.
    runs: Box<[(Slot, Slot, LaneId)]>,
    lanes: u16,
    /// Grows with every change of the map.
    pub epoch: u64,
}

impl PartitionMap {
    /// The slots dealt out in contiguous ranges, as `redis-cli --cluster create` does: range boundaries are multiples of
    /// 16384 / lanes, rounded.
    ///
    /// # Panics
    /// Without lanes, or with more lanes than slots.
    pub fn even(lanes: u16) -> PartitionMap {
        assert!((1..=SLOTS).contains(&lanes), "between 1 and 16384 lanes share the slots");
        // First slot of a lane: lane × 16384 / lanes rounded half up, in whole numbers.
        let first = |lane: u32| (lane * u32::from(SLOTS) * 2 + u32::from(lanes)) / (u32::from(lanes) * 2);
        let slots = |lane: u16| first(u32::from(lane) + 1) - first(u32::from(lane));
        let owned = |lane: u16| (0..slots(lane)).map(move |_| Holders::new(LaneId(lane), &[]));
        PartitionMap::new((0..lanes).flat_map(owned).collect(), lanes, 1)
    }

    /// A map from the holders of every slot, in order.
    ///
    /// # Panics
    /// With holders for fewer or more than all slots, or a holder that is none of the lanes.
    pub fn new(holders: Vec<Holders>, lanes: u16, epoch: u64) -> PartitionMap {
        assert!(holders.len() == usize::from(SLOTS), "every slot has holders");
        let is_lane = |lane: &LaneId| lane.0 < lanes;
        assert!(
            holders.iter().all(|held| is_lane(&held.owner) && held.copies().iter().all(is_lane)),
            "holders are lanes"
        );
        let mut runs: Vec<(Slot, Slot, LaneId)> = Vec::new();
        for (slot, held) in (0..SLOTS).map(Slot).zip(&holders) {
            match runs.last_mut() {
                Some((_, last, owner)) if *owner == held.owner => *last = slot,
                _ => runs.push((slot, slot, held.owner)),
            }
        }
        PartitionMap {
            owners: holders.iter().map(|held| held.owner).collect(),
            holders: holders.into_boxed_slice(),
            runs: runs.into_boxed_slice(),
            lanes,
            epoch,
        }
    }

    /// Number of lanes that this map was made for.
    pub fn lanes(&self) -> u16 {
        self.lanes
    }

    /// The lane that answers for a slot.
    #[inline]
    pub fn owner(&self, slot: Slot) -> LaneId {
        self.owners[slot.index()]
    }

    /// The lane that answers for a key.
    #[inline]
    pub fn owner_of(&self, key: &[u8]) -> LaneId {
        self.owner(Slot::of(key))
    }

    /// The lane that answers for a vbucket; none for a number that is none.
    pub fn owner_of_vbucket(&self, vbucket: u16) -> Option<LaneId> {
        (vbucket < VBUCKETS).then(|| self.owner(Slot::of_vbucket(vbucket)))
    }

    /// Owner and copies of a slot.
    pub fn holders(&self, slot: Slot) -> &Holders {
        &self.holders[slot.index()]
    }

    /// All slots as inclusive ranges with their owners, ascending: what CLUSTER SLOTS prints.
    pub fn runs(&self) -> &[(Slot, Slot, LaneId)] {
        &self.runs
    }

    /// The slots of a lane.
    pub fn slots(&self, lane: LaneId) -> SlotSet {
        let mut bits = [0; SlotSet::WORDS];
        for (index, owner) in self.owners.iter().enumerate() {
            bits[index / 64] |= u64::from(*owner == lane) << (index % 64);
        }
        let first = self.ranges(lane).next().map_or(0, |(first, _)| first.0);
        let count = bits.iter().map(|word| word.count_ones()).sum::<u32>();
        let count = u16::try_from(count).expect("slots are counted in 16 bits");
        SlotSet { is_run: self.ranges(lane).count() <= 1, first, count, bits }
    }

    /// The slots of a lane as inclusive ranges, ascending.
    pub fn ranges(&self, lane: LaneId) -> impl Iterator<Item = (Slot, Slot)> + '_ {
        self.runs.iter().filter(move |(_, _, owner)| *owner == lane).map(|&(first, last, _)| (first, last))
    }
}
