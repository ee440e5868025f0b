//! From a key's hash to its entry: one tree of buckets for each partition, ordered by hash.
//!
//! ```text
//! root     a bucket, which may be empty, or an inner node: at a place of its own (database.rs), so that nothing has to be read to find it
//! inner    | link 0 | link 1 | … | link 15 |                                            16 × 4 = 64 bytes
//!          chosen by four bits of the hash, from the top down, a level each
//!          link, 32 bits: 0 none | handle of a bucket | handle + 1 of an inner node
//! bucket   | tag × 12 | count | depth | ff ff | entry handle × 12 |             12 + 4 + 48 = 64 bytes
//! ```
//! A root's own bytes say of which kind it is: in an inner node `ff ff` would be of a handle that no node has (`REGION_SIZE_MAX`).
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
/// Levels of inner nodes: 48 bits of the hash, the width of a scan position. Were 13 keys of a partition to agree in
/// all of them (under a secret seed: never), the last would be refused as if memory had run out.
const LEVEL_MAX: usize = 12;
/// Bits of a position in hash order.
pub(crate) const POSITION_BITS: u32 = 48;

/// Bytes of a node.
pub(crate) const NODE_BYTES: u64 = NODE_SIZE as u64;

/// A node by value.
pub(crate) type Node = [u8; NODE_SIZE];

/// A root without entries.
pub(crate) const EMPTY: Node = empty_bucket(0);

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
    let node: &Node = if bucket == 0 { &[0; NODE_SIZE] } else { arena.array(bucket, 0) };
    let (words, _) = node.as_chunks::<8>();
    let [found, above] = [words[0], words[1]].map(|word| candidates(u64::from_le_bytes(word), tag(hash)));
    Tagged { bucket, node, first: 0, found, above }
}

/// See [`tagged`]. An iterator, so that whoever compares keys does so within one loop of its own.
pub(crate) struct Tagged<'a> {
    bucket: u32,
    node: &'a Node,
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

/// The root as a link: 0 if there is none.
#[inline(always)]
fn entrance(arena: &Arena, root: u32) -> u32 {
    root | u32::from(root != 0 && !is_bucket(arena.array(root, 0)))
}

/// The link of the bucket that covers `hash`; 0 if there is none.
#[inline]
pub(crate) fn bucket(arena: &Arena, root: u32, hash: u64) -> u32 {
    let mut link = entrance(arena, root);
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
    let node: &Node = arena.array(bucket, 0);
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
fn handle(node: &Node, index: usize) -> u32 {
    u32::from_le_bytes(node.as_chunks().0[4 + index])
}

#[inline(always)]
fn link(inner: &Node, index: usize) -> u32 {
    u32::from_le_bytes(inner.as_chunks().0[index])
}

fn push(node: &mut Node, tag: u8, entry: u32) {
    let index = usize::from(node[COUNT]);
    node[index] = tag;
    node[16 + 4 * index..20 + 4 * index].copy_from_slice(&entry.to_le_bytes());
    node[COUNT] += 1;
}

const fn empty_bucket(depth: u8) -> Node {
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
    root: u32,
    hash: u64,
    entry: u32,
    hash_of: impl Fn(&Arena, u32) -> u64,
) -> Result<usize, NoRoom> {
    let mut moved = 0;
    let mut parent = None;
    let mut level = 0;
    let mut link = entrance(arena, root);
    loop {
        while is_inner(link) {
            parent = Some((link & !1, nibble(hash, level)));
            link = child(arena, link, hash, level);
            level += 1;
        }
        if link == 0 {
            link = arena.alloc_node()?;
            *arena.array_mut(link, 0) = empty_bucket(4);
            let (inner, index) = parent.expect("there is a root");
            arena.set_u32(inner, 4 * index, link);
        }
        let node: &mut Node = arena.array_mut(link, 0);
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
            // What is full stands in one link: it gets an inner node of its own.
            Some((inner, index)) => {
                let between = arena.alloc_node()?;
                surround(arena, between, link);
                link = between | 1;
                arena.set_u32(inner, 4 * index, link);
            }
            // The root becomes that node, and what it held moves out.
            None => {
                let bucket = arena.alloc_node()?;
                arena.copy_range(root, 0..NODE_SIZE, bucket, 0);
                surround(arena, root, bucket);
                link = root | 1;
            }
        }
    }
}

/// Makes a node an inner one that leads to a bucket and nothing else.
fn surround(arena: &mut Arena, inner: u32, bucket: u32) {
    let links: &mut Node = arena.array_mut(inner, 0);
    for bytes in links.as_chunks_mut().0 {
        *bytes = bucket.to_le_bytes();
    }
    arena.array_mut::<NODE_SIZE>(bucket, 0)[DEPTH] = 0;
}

/// Splits the full bucket at `inner`'s link `index`, by the next bit of the nibble at `level`. A half that gets no entry
/// gets no bucket: none but a root is ever empty, so that from every node a key leads back to it.
fn split(
    arena: &mut Arena,
    inner: u32,
    index: usize,
    level: usize,
    hash_of: impl Fn(&Arena, u32) -> u64,
) -> Result<usize, NoRoom> {
    let old = arena.u32(inner, 4 * index);
    let before: Node = *arena.array(old, 0);
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
pub(crate) fn remove(arena: &mut Arena, root: u32, hash: u64, slot: Slot) -> usize {
    let node: &mut Node = arena.array_mut(slot.bucket, 0);
    let last = usize::from(node[COUNT]) - 1;
    let index = slot.index as usize;
    node[index] = node[last];
    node.copy_within(16 + 4 * last..20 + 4 * last, 16 + 4 * index);
    node[COUNT] -= 1;
    if node[COUNT] <= MERGE_COUNT_MAX { shrink(arena, root, hash) } else { 0 }
}

/// Merges the bucket that covers `hash` with its neighbour while both fit one, and lifts it out of inner nodes that it
/// fills alone, in the end into the root.
fn shrink(arena: &mut Arena, root: u32, hash: u64) -> usize {
    let mut path = [(0, 0); LEVEL_MAX];
    let mut level = 0;
    let mut link = entrance(arena, root);
    while is_inner(link) {
        path[level] = (link & !1, nibble(hash, level));
        link = child(arena, link, hash, level);
        level += 1;
    }
    let mut moved = 0;
    while level > 0 {
        let (inner, index) = path[level - 1];
        let [count, depth] = *arena.array(link, COUNT);
        if depth == 0 {
            level -= 1;
            if level == 0 {
                arena.copy_range(link, 0..NODE_SIZE, root, 0);
                arena.free(link);
            } else {
                let (outer, index) = path[level - 1];
                arena.array_mut::<NODE_SIZE>(link, 0)[DEPTH] = 4;
                arena.set_u32(outer, 4 * index, link);
                arena.free(inner);
            }
            continue;
        }
        let run = LINK_COUNT >> depth;
        let start = index & !(run - 1);
        let Some(next) = neighbour(arena, inner, start ^ run, run, depth) else {
            if count == 0 {
                for slot in start..start + run {
                    arena.set_u32(inner, 4 * slot, 0);
                }
                arena.free(link);
            }
            return moved;
        };
        if next != 0 {
            let [others, _] = *arena.array(next, COUNT);
            if count + others > MERGE_COUNT_MAX && count > 0 && others > 0 {
                return moved;
            }
            let (kept, left) = if count >= others { (link, next) } else { (next, link) };
            let from: Node = *arena.array(left, 0);
            let into: &mut Node = arena.array_mut(kept, 0);
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

/// The bucket that covers a position (0 if there is none, and a root may be empty), and the position behind it.
pub(crate) fn covering(arena: &Arena, root: u32, position: u64) -> (u32, u64) {
    let hash = position << (64 - POSITION_BITS);
    let mut link = entrance(arena, root);
    let mut bits = 0;
    let mut level = 0;
    while is_inner(link) {
        link = child(arena, link, hash, level);
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
    entries_of(arena.array(bucket, 0))
}

pub(crate) fn entries_of(bucket: &Node) -> impl Iterator<Item = u32> + '_ {
    (0..usize::from(bucket[COUNT])).map(|index| handle(bucket, index))
}

/// Takes the next bucket out of a tree that no longer has an owner, of which only the root is left at hand, and gives its entries; none
/// when the tree is gone. The cost is one path down and one bucket.
pub(crate) fn dismantle(arena: &mut Arena, root: &mut Node) -> Option<([u32; BUCKET_COUNT], usize)> {
    if is_bucket(root) {
        let taken = std::mem::replace(root, EMPTY);
        return (taken[COUNT] > 0).then(|| handles(&taken));
    }
    loop {
        let mut link = first_link(root)?;
        let mut parent = None;
        while is_inner(link)
            && let Some(below) = first_link(arena.array(link & !1, 0))
        {
            parent = Some(link & !1);
            link = below;
        }
        let taken = (!is_inner(link)).then(|| handles(arena.array(link, 0)));
        arena.free(link & !1);
        let node = match parent {
            Some(inner) => arena.array_mut(inner, 0),
            None => &mut *root,
        };
        for bytes in node.as_chunks_mut().0 {
            if u32::from_le_bytes(*bytes) == link {
                *bytes = [0; 4];
            }
        }
        if taken.is_some() {
            return taken;
        }
    }
}

/// The first link of an inner node that leads somewhere.
fn first_link(inner: &Node) -> Option<u32> {
    inner.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).find(|&link| link != 0)
}

/// A bucket's entries, and how many.
fn handles(bucket: &Node) -> ([u32; BUCKET_COUNT], usize) {
    let mut all = [0; BUCKET_COUNT];
    all.iter_mut().zip(entries_of(bucket)).for_each(|(place, entry)| *place = entry);
    (all, usize::from(bucket[COUNT]))
}

/// An entry below a node of either kind, which is no root. None below an inner node that [`dismantle`] has emptied and not freed yet.
pub(crate) fn some_entry(arena: &Arena, node: u32) -> Option<u32> {
    let mut node: &Node = arena.array(node, 0);
    while !is_bucket(node) {
        node = arena.array(first_link(node)? & !1, 0);
    }
    Some(handle(node, 0))
}

/// Makes what led to the node `from`, on the way of `hash` and no root, lead to `to`.
pub(crate) fn relink(arena: &mut Arena, root: u32, hash: u64, from: u32, to: u32) {
    let mut inner = root;
    let mut level = 0;
    let link = loop {
        assert!(
            inner != 0 && !is_bucket(arena.array(inner, 0)),
            "a node lies on the way of its entries' hashes"
        );
        let link = child(arena, inner, hash, level);
        if link & !1 == from {
            break link;
        }
        inner = link & !1;
        level += 1;
    };
    let run = if is_inner(link) { 1 } else { LINK_COUNT >> arena.array::<NODE_SIZE>(to, 0)[DEPTH] };
    let start = nibble(hash, level) & !(run - 1);
    for slot in start..start + run {
        arena.set_u32(inner, 4 * slot, to | link & 1);
    }
}

/// Visits every bucket below a root with the bits of hash that lead to it, and gives the number of nodes without the root: for audits.
pub(crate) fn each_bucket(arena: &Arena, root: &Node, visit: &mut dyn FnMut(&Node, u64, u32)) -> u64 {
    walk(arena, root, 0, 0, visit)
}

fn walk(arena: &Arena, node: &Node, prefix: u64, bits: u32, visit: &mut dyn FnMut(&Node, u64, u32)) -> u64 {
    if is_bucket(node) {
        visit(node, prefix, bits);
        return 0;
    }
    let mut nodes = 0;
    let mut index = 0;
    while index < LINK_COUNT {
        let to = link(node, index);
        if to == 0 {
            index += 1;
            continue;
        }
        let child: &Node = arena.array(to & !1, 0);
        assert_eq!(is_bucket(child), !is_inner(to), "a link says of what kind the node is");
        let depth = if is_inner(to) { 4 } else { child[DEPTH] };
        let run = LINK_COUNT >> depth;
        assert!(depth > 0 && index.is_multiple_of(run), "a bucket stands in an aligned run of links");
        let mut links = (index..index + run).map(|slot| link(node, slot));
        assert!(links.all(|other| other == to), "a bucket stands in every link of its run");
        nodes +=
            1 + walk(arena, child, prefix << depth | (index / run) as u64, bits + u32::from(depth), visit);
        index += run;
    }
    nodes
}

/// Whether a node is a bucket: it carries a mark that no inner node can.
#[inline(always)]
pub(crate) fn is_bucket(node: &Node) -> bool {
    node[MARK..MARK + 2] == [0xff, 0xff]
}

#[cfg(test)]
mod tests;
