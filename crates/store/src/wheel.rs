//! From an instant to the entries due at it: a hierarchical timing wheel over unix milliseconds.
//!
//! Varghese, Lauck, "Hashed and hierarchical timing wheels", 1987. Eleven levels of 64 slots cover every 64-bit
//! millisecond. An entry stands at the level of the highest six bits in which its instant differs from the wheel's,
//! in the slot that these six bits name. A slot of level 0 is one millisecond: what is taken out there is taken out in
//! exact order. When the wheel reaches a slot of a higher level, its entries are dealt out to the levels below, one
//! step each, at most ten times in a life; the wheel stands still until the slot is empty.
//!
//! Lists are doubly linked through the entries (8 bytes each): next and previous handle. A previous handle below
//! [`FIRST_HANDLE`] names the slot whose list begins here, zero says that the entry is off the wheel. Taking an entry out is a few writes; what
//! EXPIRE replaces leaves nothing behind.

use crate::arena::{Arena, FIRST_HANDLE};
use crate::entry::{EXPIRES_AT, NEXT, PREV};

const LEVELS: usize = 11;
const SLOTS: usize = 64;
/// The previous handle of an entry that is on no list.
const OFF: u32 = 0;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// The instant up to which everything has been taken out.
    pub(crate) now: u64,
    heads: [[u32; SLOTS]; LEVELS],
    /// A bit for each slot that has a list.
    occupied: [u64; LEVELS],
    /// A bit for each level that has such a slot.
    levels: u16,
    /// The slot above level 0 that is being dealt out.
    dealing: Option<(usize, usize)>,
}

/// What comes next on the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is on it.
    Never,
    /// Nothing is to be done before this instant.
    At(u64),
    /// An entry was dealt to a lower level: ask again.
    Dealt,
    /// This entry is due, and still linked.
    Due(u32),
}

/// Instants before 1970 are due at once, as zero is.
pub(crate) fn instant(unix_ms: i64) -> u64 {
    u64::try_from(unix_ms).unwrap_or(0)
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { now: 0, heads: [[0; SLOTS]; LEVELS], occupied: [0; LEVELS], levels: 0, dealing: None }
    }

    /// Puts an entry on the wheel, to come up at its own expiry or at `not_before`, whichever is later.
    pub(crate) fn link(&mut self, arena: &mut Arena, entry: u32, not_before: u64) {
        let at = instant(i64::from_le_bytes(*arena.array(entry, EXPIRES_AT))).max(self.now).max(not_before);
        let differing = 63 - ((at ^ self.now) | 1).leading_zeros() as usize;
        let level = differing / 6;
        let slot = position(at, level);
        let head = std::mem::replace(&mut self.heads[level][slot], entry);
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
        arena.set_u32(entry, NEXT, head);
        arena.set_u32(entry, PREV, name(level, slot));
        if head != 0 {
            arena.set_u32(head, PREV, entry);
        }
    }

    /// Takes an entry off the wheel, if it is on it.
    pub(crate) fn unlink(&mut self, arena: &mut Arena, entry: u32) {
        let next = arena.u32(entry, NEXT);
        let prev = arena.u32(entry, PREV);
        if prev < FIRST_HANDLE {
            let Some((level, slot)) = named(prev) else { return };
            assert!(self.heads[level][slot] == entry, "a list begins with the entry that says so");
            self.heads[level][slot] = next;
            if next == 0 {
                self.occupied[level] &= !(1 << slot);
                if self.occupied[level] == 0 {
                    self.levels &= !(1 << level);
                }
            }
        } else {
            arena.set_u32(prev, NEXT, next);
        }
        if next != 0 {
            arena.set_u32(next, PREV, prev);
        }
        arena.set_u32(entry, PREV, OFF);
    }

    /// Tells an entry's neighbours that it has moved; its own links moved along.
    pub(crate) fn moved(&mut self, arena: &mut Arena, entry: u32) {
        let next = arena.u32(entry, NEXT);
        let prev = arena.u32(entry, PREV);
        if prev < FIRST_HANDLE {
            let Some((level, slot)) = named(prev) else { return };
            self.heads[level][slot] = entry;
        } else {
            arena.set_u32(prev, NEXT, entry);
        }
        if next != 0 {
            arena.set_u32(next, PREV, entry);
        }
    }

    /// Goes on to `now` at once if nothing is to be done before; true if [`Wheel::step`] has to lead there.
    #[inline]
    pub(crate) fn reach(&mut self, now: u64) -> bool {
        let has_steps = self.dealing.is_some() || self.next_at().is_some_and(|at| at <= now);
        if !has_steps {
            self.now = self.now.max(now);
        }
        has_steps
    }

    /// One step towards `now`: the cost is one entry.
    pub(crate) fn step(&mut self, arena: &mut Arena, now: u64) -> Next {
        if let Some((level, slot)) = self.dealing {
            let entry = self.heads[level][slot];
            if entry != 0 {
                self.unlink(arena, entry);
                self.link(arena, entry, 0);
                return Next::Dealt;
            }
            self.dealing = None;
        }
        let Some((level, slot)) = self.first() else {
            self.now = self.now.max(now);
            return Next::Never;
        };
        let start = self.start(level, slot);
        if start > now {
            self.now = self.now.max(now);
            return Next::At(start);
        }
        self.now = start;
        if level > 0 {
            self.dealing = Some((level, slot));
            return Next::Dealt;
        }
        Next::Due(self.heads[0][slot])
    }

    /// The instant before which a step has nothing to do; none if nothing is on the wheel.
    pub(crate) fn next_at(&self) -> Option<u64> {
        match self.dealing {
            Some((level, slot)) if self.heads[level][slot] != 0 => Some(self.now),
            _ => self.first().map(|(level, slot)| self.start(level, slot)),
        }
    }

    /// Entries of the slot that comes next, for eviction by time to live.
    pub(crate) fn front<'a>(&self, arena: &'a Arena) -> impl Iterator<Item = u32> + use<'a> {
        let slot = match self.dealing {
            Some((level, slot)) if self.heads[level][slot] != 0 => Some((level, slot)),
            _ => self.first(),
        };
        let first = slot.map_or(0, |(level, slot)| self.heads[level][slot]);
        std::iter::successors(Some(first), |&entry| Some(arena.u32(entry, NEXT)))
            .take_while(|&entry| entry != 0)
    }

    /// The earliest slot: every slot of a level lies before those of the levels above, and none behind the wheel.
    fn first(&self) -> Option<(usize, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    fn start(&self, level: usize, slot: usize) -> u64 {
        let shift = 6 * level;
        let above = if shift + 6 < 64 { self.now >> (shift + 6) << (shift + 6) } else { 0 };
        above | (slot as u64) << shift
    }

    /// Visits every entry with the bounds of the instants that its slot stands for, for audits.
    pub(crate) fn each(&self, arena: &Arena, visit: &mut dyn FnMut(u32, u64, u64)) {
        for level in 0..LEVELS {
            assert_eq!(
                self.levels >> level & 1 == 1,
                self.occupied[level] != 0,
                "a level's bit says whether it is empty"
            );
            for slot in 0..SLOTS {
                let mut entry = self.heads[level][slot];
                assert_eq!(
                    self.occupied[level] >> slot & 1 == 1,
                    entry != 0,
                    "a slot's bit says whether it is empty"
                );
                let mut prev = name(level, slot);
                let start = self.start(level, slot);
                while entry != 0 {
                    assert_eq!(arena.u32(entry, PREV), prev, "a list is linked both ways");
                    visit(entry, start, start + ((1 << (6 * level)) - 1));
                    prev = entry;
                    entry = arena.u32(entry, NEXT);
                }
            }
        }
    }
}

fn position(at: u64, level: usize) -> usize {
    (at >> (6 * level) & 63) as usize
}

/// The number by which an entry's link names a slot.
fn name(level: usize, slot: usize) -> u32 {
    crate::width::narrow(level * SLOTS + slot + 1)
}

/// The slot of that number; none for [`OFF`].
fn named(number: u32) -> Option<(usize, usize)> {
    let index = number.checked_sub(1)? as usize;
    Some((index / SLOTS, index % SLOTS))
}
