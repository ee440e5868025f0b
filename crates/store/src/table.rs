//! From a key's hash to its entry: one tree of buckets for each partition, ordered by hash.
//!
//! ```text
//! head (database.rs)   root link, 32 bits: 0 none | node handle | node handle + 1 for an inner node
//!
//! inner    | link 0 | link 1 | … | link 15 |                                            16 × 4 = 64 bytes
//!          chosen by four bits of the hash, from the top down, a level each
//! bucket   | tag × 12 | count | depth | ff ff | entry handle × 12 |             12 + 4 + 48 = 64 bytes
//! ```
//! An inner node is extendible hashing (Fagin et al., 1979) in one cache line: a bucket of depth d < 4 stands in
//! 2^(4-d) neighbouring links. A full bucket splits in two; a full bucket that stands in one link only gets an inner
//! node of its own. So growing moves at most the 13 entries of one bucket at a time, whatever the table's size, and
//! shrinking undoes it when two neighbours would fill two thirds of a bucket. There is no rehash, no overflow chain.
//!
//! Buckets cover ranges of the hash in order. A position in that order stays valid through every split and merge,
//! which makes it a SCAN cursor. A tag is the hash's lowest byte, so one entry in 256 × is looked at in vain.
//! Splitting asks for the entries' hashes again: 12 keys hashed for about 7 new ones, no byte spent on keeping them.

use crate::arena::{Arena, NODE_SIZE, NoRoom};

/// Entries of a bucket.
pub(crate) const BUCKET_COUNT: usize = 12;
/// Two neighbours become one bucket when they hold no more than this: five more entries fit before the next split.
const MERGE_COUNT_MAX: u8 = 8;
const LINK_COUNT: usize = 16;
/// Levels below the root: 48 bits of the hash, the width of a scan position. Were 13 keys of a partition to agree in
/// all of them (under a secret seed: never), the last would be refused as if memory had run out.
const LEVEL_MAX: usize = 12;
/// Bits of a position in hash order.
pub(crate) const POSITION_BITS: u32 = 48;

/// Bytes of a node.
pub(crate) const NODE_BYTES: u64 = NODE_SIZE as u64;

const COUNT: usize = 12;
const DEPTH: usize = 13;
const MARK: usize = 14;

/// Where an entry's handle lies: the slot that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) bucket: u32,
    pub(crate) index: u32,
}

impl Slot {
    pub(crate) fn entry(self, arena: &Arena) -> u32 {
        arena.u32(self.bucket, 16 + 4 * self.index as usize)
    }

    pub(crate) fn set_entry(self, arena: &mut Arena, entry: u32) {
        arena.set_u32(self.bucket, 16 + 4 * self.index as usize, entry);
    }
}

pub(crate) const fn is_inner(link: u32) -> bool {
    link & 1 == 1
}

const fn nibble(hash: u64, level: usize) -> usize {
    (hash >> (60 - 4 * level) & 15) as usize
}

const fn tag(hash: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "the lowest byte is what is wanted")]
    let tag = hash as u8;
    tag
}

/// Walks down to the bucket that covers `hash`: its entries with the hash's tag, each with the slot that owns it.
#[inline(always)]
pub(crate) fn tagged(arena: &Arena, root: u32, hash: u64) -> Tagged<'_> {
    let bucket = bucket(arena, root, hash);
    let node: &[u8; NODE_SIZE] = if bucket == 0 { &[0; NODE_SIZE] } else { arena.array(bucket, 0) };
    let (words, _) = node.as_chunks::<8>();
    let [found, above] = [words[0], words[1]].map(|word| candidates(u64::from_le_bytes(word), tag(hash)));
    Tagged { bucket, node, first: 0, found, above }
}

/// See [`tagged`]. An iterator, so that whoever compares keys does so within one loop of its own.
pub(crate) struct Tagged<'a> {
    bucket: u32,
    node: &'a [u8; NODE_SIZE],
    /// Of the entry that the lowest byte of `found` stands for.
    first: u32,
    found: u64,
    /// Of the eight entries behind those of `found`.
    above: u64,
}

impl Iterator for Tagged<'_> {
    type Item = (Slot, u32);

    #[inline(always)]
    fn next(&mut self) -> Option<(Slot, u32)> {
        if self.found == 0 {
            if self.above == 0 {
                return None;
            }
            (self.first, self.found, self.above) = (8, self.above, 0);
        }
        let index = self.first + self.found.trailing_zeros() / 8;
        if index >= u32::from(self.node[COUNT]) {
            return None;
        }
        self.found &= self.found - 1;
        Some((Slot { bucket: self.bucket, index }, handle(self.node, index as usize)))
    }
}

/// The link of the bucket that covers `hash`; 0 if there is none.
#[inline]
pub(crate) fn bucket(arena: &Arena, root: u32, hash: u64) -> u32 {
    let mut link = root;
    let mut level = 0;
    while is_inner(link) {
        link = child(arena, link, hash, level);
        level += 1;
    }
    link
}

/// The link in an inner node, `level` below the root, that leads towards `hash`.
#[inline(always)]
pub(crate) fn child(arena: &Arena, inner: u32, hash: u64, level: usize) -> u32 {
    arena.u32(inner & !1, 4 * nibble(hash, level))
}

/// The first entry of a bucket that has the hash's tag, or any other of its links, and looked at no further. Without a
/// branch on what the bucket holds: a processor that guessed wrong would run ahead no more.
#[inline]
pub(crate) fn likely(arena: &Arena, bucket: u32, hash: u64) -> u32 {
    let node: &[u8; NODE_SIZE] = arena.array(bucket, 0);
    let (words, _) = node.as_chunks::<8>();
    let [low, high] = [words[0], words[1]].map(|word| candidates(u64::from_le_bytes(word), tag(hash)));
    let (found, first) = if low != 0 { (low, 0) } else { (high, 8) };
    handle(node, (first + (found.trailing_zeros() / 8) as usize).min(BUCKET_COUNT - 1))
}

/// The highest bit of a byte is set if the byte equals the tag, and now and then in a byte above such a one (Mycroft,
/// 1987): for those an entry is looked at in vain.
#[inline(always)]
fn candidates(tags: u64, tag: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let differences = tags ^ ONES.wrapping_mul(u64::from(tag));
    differences.wrapping_sub(ONES) & !differences & ONES << 7
}

#[inline(always)]
fn handle(node: &[u8; NODE_SIZE], index: usize) -> u32 {
    u32::from_le_bytes(node.as_chunks().0[4 + index])
}

fn push(node: &mut [u8; NODE_SIZE], tag: u8, entry: u32) {
    let index = usize::from(node[COUNT]);
    node[index] = tag;
    node[16 + 4 * index..20 + 4 * index].copy_from_slice(&entry.to_le_bytes());
    node[COUNT] += 1;
}

/// The parent link of a node: in the head, or in an inner node's slot.
type Parent = Option<(u32, usize)>;

fn set_link(arena: &mut Arena, root: &mut u32, parent: Parent, link: u32) {
    match parent {
        None => *root = link,
        Some((inner, index)) => arena.set_u32(inner, 4 * index, link),
    }
}

const fn empty_bucket(depth: u8) -> [u8; NODE_SIZE] {
    let mut node = [0; NODE_SIZE];
    node[DEPTH] = depth;
    node[MARK] = 0xff;
    node[MARK + 1] = 0xff;
    node
}

/// Adds an entry whose key is not there yet, and gives the number of entries moved. `hash_of` gives the hash of an
/// entry that is there. If memory runs out nothing is added and the tree is still right, though it may have grown.
pub(crate) fn insert(
    arena: &mut Arena,
    root: &mut u32,
    hash: u64,
    entry: u32,
    hash_of: impl Fn(&Arena, u32) -> u64,
) -> Result<usize, NoRoom> {
    let mut moved = 0;
    let mut parent = None;
    let mut level = 0;
    let mut link = *root;
    loop {
        while is_inner(link) {
            let inner = link & !1;
            parent = Some((inner, nibble(hash, level)));
            link = arena.u32(inner, 4 * nibble(hash, level));
            level += 1;
        }
        if link == 0 {
            link = arena.alloc_node()?;
            *arena.array_mut(link, 0) = empty_bucket(if parent.is_some() { 4 } else { 0 });
            set_link(arena, root, parent, link);
        }
        let node: &mut [u8; NODE_SIZE] = arena.array_mut(link, 0);
        if usize::from(node[COUNT]) < BUCKET_COUNT {
            push(node, tag(hash), entry);
            return Ok(moved);
        }
        match parent {
            Some((inner, index)) if node[DEPTH] < 4 => {
                moved += split(arena, inner, index, level - 1, &hash_of)?;
                link = arena.u32(inner, 4 * index);
            }
            _ if level == LEVEL_MAX => return Err(NoRoom),
            _ => {
                let inner = arena.alloc_node()?;
                let links: &mut [u8; NODE_SIZE] = arena.array_mut(inner, 0);
                for bytes in links.as_chunks_mut().0 {
                    *bytes = link.to_le_bytes();
                }
                arena.array_mut::<NODE_SIZE>(link, 0)[DEPTH] = 0;
                link = inner | 1;
                set_link(arena, root, parent, link);
            }
        }
    }
}

/// Splits the full bucket at `inner`'s link `index`, by the next bit of the nibble at `level`. A half that gets no entry
/// gets no bucket: no bucket is ever empty, so that from every node a key leads back to it.
fn split(
    arena: &mut Arena,
    inner: u32,
    index: usize,
    level: usize,
    hash_of: impl Fn(&Arena, u32) -> u64,
) -> Result<usize, NoRoom> {
    let old = arena.u32(inner, 4 * index);
    let before: [u8; NODE_SIZE] = *arena.array(old, 0);
    let depth = before[DEPTH] + 1;
    let run = LINK_COUNT >> depth;
    let mut halves = [empty_bucket(depth), empty_bucket(depth)];
    let count = usize::from(before[COUNT]);
    for slot in 0..count {
        let entry = handle(&before, slot);
        let half = usize::from(nibble(hash_of(arena, entry), level) & run != 0);
        push(&mut halves[half], before[slot], entry);
    }
    let links = match [halves[0][COUNT] > 0, halves[1][COUNT] > 0] {
        [true, true] => [old, arena.alloc_node()?],
        [true, false] => [old, 0],
        [false, _] => [0, old],
    };
    let start = index & !(2 * run - 1);
    for (half, link) in links.into_iter().enumerate() {
        if link != 0 {
            *arena.array_mut(link, 0) = halves[half];
        }
        for slot in start + half * run..start + (half + 1) * run {
            arena.set_u32(inner, 4 * slot, link);
        }
    }
    Ok(count)
}

/// Takes the entry out of its slot, merges what became small, and gives the number of entries moved.
pub(crate) fn remove(arena: &mut Arena, root: &mut u32, hash: u64, slot: Slot) -> usize {
    let node: &mut [u8; NODE_SIZE] = arena.array_mut(slot.bucket, 0);
    let last = usize::from(node[COUNT]) - 1;
    let index = slot.index as usize;
    node[index] = node[last];
    node.copy_within(16 + 4 * last..20 + 4 * last, 16 + 4 * index);
    node[COUNT] -= 1;
    if node[COUNT] <= MERGE_COUNT_MAX { shrink(arena, root, hash) } else { 0 }
}

/// Merges the bucket that covers `hash` with its neighbour while both fit one, and lifts it out of inner nodes that it
/// fills alone.
fn shrink(arena: &mut Arena, root: &mut u32, hash: u64) -> usize {
    let mut path = [(0, 0); LEVEL_MAX];
    let mut level = 0;
    let mut link = *root;
    while is_inner(link) {
        path[level] = (link & !1, nibble(hash, level));
        link = arena.u32(link & !1, 4 * nibble(hash, level));
        level += 1;
    }
    let mut moved = 0;
    while level > 0 {
        let (inner, index) = path[level - 1];
        let above = if level > 1 { Some(path[level - 2]) } else { None };
        if link == 0 {
            let links: &[u8; NODE_SIZE] = arena.array(inner, 0);
            if links.iter().any(|&byte| byte != 0) {
                return moved;
            }
            arena.free(inner);
            set_link(arena, root, above, 0);
            level -= 1;
            continue;
        }
        let [count, depth] = *arena.array(link, COUNT);
        if depth == 0 {
            arena.free(inner);
            arena.array_mut::<NODE_SIZE>(link, 0)[DEPTH] = if above.is_some() { 4 } else { 0 };
            set_link(arena, root, above, link);
            level -= 1;
            continue;
        }
        let run = LINK_COUNT >> depth;
        let start = index & !(run - 1);
        let Some(next) = neighbour(arena, inner, start ^ run, run, depth) else {
            if count > 0 {
                return moved;
            }
            for slot in start..start + run {
                arena.set_u32(inner, 4 * slot, 0);
            }
            arena.free(link);
            link = 0;
            continue;
        };
        if next != 0 {
            let [others, _] = *arena.array(next, COUNT);
            if count + others > MERGE_COUNT_MAX && count > 0 && others > 0 {
                return moved;
            }
            let (kept, left) = if count >= others { (link, next) } else { (next, link) };
            let from: [u8; NODE_SIZE] = *arena.array(left, 0);
            let into: &mut [u8; NODE_SIZE] = arena.array_mut(kept, 0);
            for slot in 0..usize::from(from[COUNT]) {
                push(into, from[slot], handle(&from, slot));
                moved += 1;
            }
            arena.free(left);
            link = kept;
        }
        arena.array_mut::<NODE_SIZE>(link, 0)[DEPTH] = depth - 1;
        let start = start & !run;
        for slot in start..start + 2 * run {
            arena.set_u32(inner, 4 * slot, link);
        }
    }
    if link != 0 && arena.array::<NODE_SIZE>(link, 0)[COUNT] == 0 {
        arena.free(link);
        *root = 0;
    }
    moved
}

/// What stands in `run` links from `start` on: nothing (0), one bucket of that depth, or neither of these.
fn neighbour(arena: &Arena, inner: u32, start: usize, run: usize, depth: u8) -> Option<u32> {
    let link = arena.u32(inner, 4 * start);
    if is_inner(link) {
        return None;
    }
    if link == 0 {
        return (start..start + run).all(|slot| arena.u32(inner, 4 * slot) == 0).then_some(0);
    }
    (arena.array::<NODE_SIZE>(link, 0)[DEPTH] == depth).then_some(link)
}

/// The bucket that covers a position (0 if there is none), and the position behind it.
pub(crate) fn covering(arena: &Arena, root: u32, position: u64) -> (u32, u64) {
    let hash = position << (64 - POSITION_BITS);
    let mut link = root;
    let mut bits = 0;
    let mut level = 0;
    while is_inner(link) {
        link = arena.u32(link & !1, 4 * nibble(hash, level));
        level += 1;
        bits = 4 * level;
    }
    if link != 0 && level > 0 {
        bits -= 4 - usize::from(arena.array::<NODE_SIZE>(link, 0)[DEPTH]);
    }
    let width = 1_u64 << (POSITION_BITS as usize - bits);
    (link, (position & !(width - 1)) + width)
}

/// The entries of a bucket.
pub(crate) fn entries(arena: &Arena, bucket: u32) -> impl Iterator<Item = u32> + '_ {
    let node: &[u8; NODE_SIZE] = arena.array(bucket, 0);
    (0..usize::from(node[COUNT])).map(|index| handle(node, index))
}

/// Takes the next bucket out of a tree that no longer has an owner and gives its entries; none when the tree is gone.
/// The cost is one path down and one bucket.
pub(crate) fn dismantle(arena: &mut Arena, root: &mut u32) -> Option<([u32; BUCKET_COUNT], usize)> {
    loop {
        let mut parent = None;
        let mut link = *root;
        while is_inner(link) {
            let inner = link & !1;
            match (0..LINK_COUNT).find(|&index| arena.u32(inner, 4 * index) != 0) {
                Some(index) => {
                    parent = Some((inner, index));
                    link = arena.u32(inner, 4 * index);
                }
                None => break,
            }
        }
        if link == 0 {
            return None;
        }
        if is_inner(link) {
            arena.free(link & !1);
            set_link(arena, root, parent, 0);
            continue;
        }
        let mut taken = [0; BUCKET_COUNT];
        let mut count = 0;
        for (place, entry) in taken.iter_mut().zip(entries(arena, link)) {
            *place = entry;
            count += 1;
        }
        arena.free(link);
        match parent {
            None => *root = 0,
            Some((inner, _)) => {
                for index in 0..LINK_COUNT {
                    if arena.u32(inner, 4 * index) == link {
                        arena.set_u32(inner, 4 * index, 0);
                    }
                }
            }
        }
        return Some((taken, count));
    }
}

/// An entry below a node of either kind. None below an inner node that [`dismantle`] has emptied and not freed yet.
pub(crate) fn some_entry(arena: &Arena, node: u32) -> Option<u32> {
    let mut node = node;
    while !is_marked(arena, node) {
        let link = (0..LINK_COUNT).map(|index| arena.u32(node, 4 * index)).find(|&link| link != 0);
        node = link? & !1;
    }
    Some(arena.u32(node, 16))
}

/// Makes what led to the node `from`, on the way of `hash`, lead to `to`.
pub(crate) fn relink(arena: &mut Arena, root: &mut u32, hash: u64, from: u32, to: u32) {
    let mut parent = None;
    let mut link = *root;
    let mut level = 0;
    while link & !1 != from {
        assert!(is_inner(link), "a node lies on the way of its entries' hashes");
        parent = Some((link & !1, nibble(hash, level)));
        link = arena.u32(link & !1, 4 * nibble(hash, level));
        level += 1;
    }
    let new = to | link & 1;
    match parent {
        Some((inner, index)) if !is_inner(link) => {
            let run = LINK_COUNT >> arena.array::<NODE_SIZE>(to, 0)[DEPTH];
            let start = index & !(run - 1);
            for slot in start..start + run {
                arena.set_u32(inner, 4 * slot, new);
            }
        }
        _ => set_link(arena, root, parent, new),
    }
}

/// Visits every bucket with the bits of hash that lead to it, and gives the number of nodes: for audits.
pub(crate) fn each_bucket(arena: &Arena, link: u32, visit: &mut dyn FnMut(u32, u64, u32)) -> u64 {
    walk(arena, link, 0, 0, visit)
}

fn walk(arena: &Arena, link: u32, prefix: u64, bits: u32, visit: &mut dyn FnMut(u32, u64, u32)) -> u64 {
    if link == 0 {
        return 0;
    }
    if !is_inner(link) {
        visit(link, prefix, bits);
        return 1;
    }
    let mut nodes = 1;
    let mut index = 0;
    while index < LINK_COUNT {
        let child = arena.u32(link & !1, 4 * index);
        let depth = if is_inner(child) || child == 0 { 4 } else { arena.array::<NODE_SIZE>(child, 0)[DEPTH] };
        let run = LINK_COUNT >> depth;
        assert!(depth > 0 && index.is_multiple_of(run), "a bucket stands in an aligned run of links");
        let mut links = (index..index + run).map(|slot| arena.u32(link & !1, 4 * slot));
        assert!(links.all(|other| other == child), "a bucket stands in every link of its run");
        nodes += walk(arena, child, prefix << depth | (index / run) as u64, bits + u32::from(depth), visit);
        index += run;
    }
    nodes
}

/// Whether a bucket carries the mark that no inner node can.
pub(crate) fn is_marked(arena: &Arena, bucket: u32) -> bool {
    *arena.array(bucket, MARK) == [0xff, 0xff]
}
