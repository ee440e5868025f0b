//! Leases: `maxmemory` is one account, and each lane has a lease on a part of it. A lane takes more as it grows and gives
//! back what it does not need, so that one lane may use what the others leave; together they never hold more than there
//! is.
//!
//! ```text
//! maxmemory   [ floor of lane 0 | floor of lane 1 | … |            pool            ]
//! lane 0      [ floor | borrowed ………………… ]                 lease = floor + borrowed
//! ```
//! Nothing is locked: the account is one counter of what is borrowed, touched once for each unit that moves, and each
//! lane shows the others how much it has borrowed. The floor is a lane's own for good, so that a lane whose first key
//! comes when all else is borrowed can hold it. A lane that finds the pool empty asks the lane that has borrowed most for
//! a part of it (see `room`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::board::Board;

/// A lane's part of `maxmemory`, were it split evenly, is this many units. A lane leaves at most three units of its
/// lease unused.
const UNITS_PER_LANE: u64 = 64;
/// The least that moves at once, bytes: less is not worth touching what all lanes share.
const UNIT_SIZE_MIN: u64 = 4 * 1024;
/// The most that moves at once, bytes.
const UNIT_SIZE_MAX: u64 = 1 << 20;
/// Units that a lane never gives back.
const FLOOR_UNITS: u64 = 2;

/// What all lanes know of one another's leases.
pub(crate) struct Account {
    /// Bytes borrowed by all lanes, beyond their floors.
    borrowed: AtomicU64,
    /// Of them each lane's, written by that lane alone.
    shares: Vec<AtomicU64>,
}

impl Account {
    pub(crate) fn new(lane_count: u16) -> Account {
        Account { borrowed: AtomicU64::new(0), shares: (0..lane_count).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Takes up to `size` bytes of a pool of `pool` bytes: as many as are left.
    fn take(&self, size: u64, pool: u64) -> u64 {
        let mut taken = 0;
        // Only the sum matters: nothing else is published by it.
        let _ = self.borrowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |borrowed| {
            taken = size.min(pool.saturating_sub(borrowed));
            (taken > 0).then_some(borrowed + taken)
        });
        taken
    }

    /// Takes `size` bytes, whether or not they are there.
    fn claim(&self, size: u64) {
        self.borrowed.fetch_add(size, Ordering::Relaxed);
    }

    /// Bytes borrowed beyond a pool of `pool` bytes.
    fn beyond(&self, pool: u64) -> u64 {
        self.borrowed.load(Ordering::Relaxed).saturating_sub(pool)
    }

    fn give(&self, size: u64) {
        self.borrowed.fetch_sub(size, Ordering::Relaxed);
    }

    fn share(&self, lane: u16) -> u64 {
        self.shares[usize::from(lane)].load(Ordering::Relaxed)
    }
}

/// What follows from `maxmemory` and the number of lanes.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// Bytes that move at once.
    unit: u64,
    /// Bytes of each lane that never move.
    floor: u64,
    /// Bytes that may be borrowed, over all lanes.
    pool: u64,
    /// A lane's part if all had the same.
    fair: u64,
}

impl Terms {
    fn new(size_max: u64, lane_count: u64) -> Terms {
        let fair = size_max / lane_count;
        let unit = (fair / UNITS_PER_LANE).clamp(UNIT_SIZE_MIN, UNIT_SIZE_MAX);
        let floor = fair.min(FLOOR_UNITS * unit);
        Terms { unit, floor, pool: size_max - floor * lane_count, fair }
    }
}

/// One lane's lease.
pub(crate) struct Lease {
    board: Arc<Board>,
    lane: u16,
    /// `None`: there is no limit.
    terms: Option<Terms>,
    borrowed: u64,
}

impl Lease {
    /// What all lanes see.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Without a limit.
    pub(crate) fn new(board: Arc<Board>, lane: u16) -> Lease {
        Lease { board, lane, terms: None, borrowed: 0 }
    }

    fn account(&self) -> &Account {
        &self.board.account
    }

    fn show(&mut self, borrowed: u64) {
        self.borrowed = borrowed;
        self.account().shares[usize::from(self.lane)].store(borrowed, Ordering::Relaxed);
    }

    /// Sets `maxmemory`; 0 is no limit. What is borrowed stays so until [`Lease::excess`] is paid back, and where there was no
    /// limit that is what this lane holds, `held` bytes, whether or not the pool has as much.
    pub(crate) fn set_limit(&mut self, size_max: u64, held: u64) {
        let was_limited = self.is_limited();
        self.terms = (size_max > 0).then(|| Terms::new(size_max, self.lane_count()));
        match self.terms {
            None => self.repay(self.borrowed),
            Some(terms) if !was_limited => {
                let missing = held.saturating_sub(self.size()).next_multiple_of(terms.unit);
                self.account().claim(missing);
                self.show(self.borrowed + missing);
            }
            Some(_) => {}
        }
    }

    /// Lanes that share the account.
    pub(crate) fn lane_count(&self) -> u64 {
        u64::try_from(self.account().shares.len()).expect("lanes are counted in 16 bits")
    }

    /// Whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.terms.is_some()
    }

    /// Bytes that this lane may hold.
    pub(crate) fn size(&self) -> u64 {
        self.terms.map_or(u64::MAX, |terms| terms.floor + self.borrowed)
    }

    /// Bytes that this lane may hold when the others have given it all they can.
    pub(crate) fn size_max(&self) -> u64 {
        self.terms.map_or(u64::MAX, |terms| terms.floor + terms.pool)
    }

    /// Bytes that move at once; 0 without a limit.
    pub(crate) fn unit(&self) -> u64 {
        self.terms.map_or(0, |terms| terms.unit)
    }

    /// Takes what is left in the pool, in whole units, until the lease is `size` bytes or the pool is empty. True when the
    /// lease is large enough.
    pub(crate) fn grow_to(&mut self, size: u64) -> bool {
        let Some(terms) = self.terms else { return true };
        let missing = size.saturating_sub(self.size());
        if missing > 0 {
            let taken = self.account().take(missing.next_multiple_of(terms.unit), terms.pool);
            self.show(self.borrowed + taken);
        }
        size <= self.size()
    }

    /// Gives back what exceeds `size` by more than two units, but for one unit.
    pub(crate) fn shrink_to(&mut self, size: u64) {
        let Some(terms) = self.terms else { return };
        let spare = self.size().saturating_sub(size);
        if 2 * terms.unit < spare {
            self.repay(spare - terms.unit);
        }
    }

    /// Gives back `size` bytes, or all that is borrowed.
    pub(crate) fn repay(&mut self, size: u64) {
        let size = size.min(self.borrowed);
        self.show(self.borrowed - size);
        self.account().give(size);
    }

    /// Whether all lanes together have borrowed more than there is.
    pub(crate) fn is_beyond(&self) -> bool {
        self.terms.is_some_and(|terms| self.account().beyond(terms.pool) > 0)
    }

    /// Bytes that must go because all lanes together have borrowed more than there is since `maxmemory` was set or lowered: as
    /// many as that, of what exceeds an even part.
    pub(crate) fn excess(&self) -> u64 {
        let Some(terms) = self.terms else { return 0 };
        self.account().beyond(terms.pool).min(self.size().saturating_sub(terms.fair)).min(self.borrowed)
    }

    /// A lane that has borrowed more than this one, and how much of it would make the two equal: the one that has most,
    /// or, `passed` times, the next; after the last comes the first again. None when no lane has more, but for two units.
    pub(crate) fn richer(&self, passed: usize) -> Option<(u16, u64)> {
        let terms = self.terms?;
        let lanes = 0..u16::try_from(self.account().shares.len()).expect("lanes are counted in 16 bits");
        let mut richer: Vec<(u64, u16)> = lanes
            .map(|lane| (self.account().share(lane).saturating_sub(self.borrowed), lane))
            .filter(|(ahead, _)| 2 * terms.unit < *ahead)
            .collect();
        richer.sort_unstable_by(|a, b| b.cmp(a));
        let (ahead, lane) = *richer.get(passed.checked_rem(richer.len())?)?;
        Some((lane, ahead / 2))
    }

    /// A lane that has borrowed anything, and how much: the one that has most, or, `passed` times, the next.
    pub(crate) fn lender(&self, passed: usize) -> Option<(u16, u64)> {
        let lanes = 0..u16::try_from(self.account().shares.len()).expect("lanes are counted in 16 bits");
        let mut lenders: Vec<(u64, u16)> = lanes
            .filter(|lane| *lane != self.lane)
            .map(|lane| (self.account().share(lane), lane))
            .filter(|(share, _)| 0 < *share)
            .collect();
        lenders.sort_unstable_by(|a, b| b.cmp(a));
        let (share, lane) = *lenders.get(passed.checked_rem(lenders.len())?)?;
        Some((lane, share))
    }

    /// Takes up to `size` bytes out of the lease, to be given to another lane by [`Lease::receive`]: how many.
    pub(crate) fn part_with(&mut self, size: u64) -> u64 {
        let size = size.min(self.borrowed);
        self.show(self.borrowed - size);
        size
    }

    /// Adds what another lane has parted with.
    pub(crate) fn receive(&mut self, size: u64) {
        self.show(self.borrowed + size);
        if self.terms.is_none() {
            self.repay(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn leases(lane_count: u16, size_max: u64) -> Vec<Lease> {
        let board = Arc::new(Board::new(lane_count));
        let lease = |lane| {
            let mut lease = Lease::new(Arc::clone(&board), lane);
            lease.set_limit(size_max, 0);
            lease
        };
        (0..lane_count).map(lease).collect()
    }

    fn sum(leases: &[Lease]) -> u64 {
        leases.iter().map(Lease::size).sum()
    }

    #[test]
    fn one_lane_may_have_nearly_all() {
        let mut leases = leases(4, 64 * MIB);
        assert!(leases[0].grow_to(60 * MIB));
        assert!(!leases[0].grow_to(64 * MIB), "the others keep their floors");
        assert_eq!(sum(&leases), 64 * MIB);
        assert!(!leases[1].grow_to(MIB), "the pool is empty");
        assert_eq!(leases[1].richer(0), Some((0, (leases[0].size() - leases[1].size()) / 2)));
        assert_eq!(leases[1].richer(1), leases[1].richer(0), "no other lane has more");
        assert_eq!(leases[0].richer(0), None);
        leases[0].shrink_to(10 * MIB);
        assert!(leases[1].grow_to(50 * MIB));
        assert!(sum(&leases) <= 64 * MIB);
    }

    #[test]
    fn a_lower_limit_takes_what_is_too_much_of_lanes_above_an_even_part() {
        let mut leases = leases(4, 64 * MIB);
        assert!(leases[0].grow_to(40 * MIB) && leases[1].grow_to(12 * MIB));
        leases.iter_mut().for_each(|lease| lease.set_limit(32 * MIB, 0));
        let excess = sum(&leases) - 32 * MIB;
        assert_eq!(leases[0].excess(), excess, "what is too much");
        assert_eq!(leases[1].excess(), leases[1].size() - 8 * MIB, "all above a fourth");
        assert_eq!(leases[2].excess(), 0);
        leases[0].repay(excess - MIB);
        assert_eq!(leases[1].excess(), MIB);
        leases[0].repay(MIB);
        assert_eq!(leases[1].excess(), 0, "together they are within the limit again");
        leases.iter_mut().for_each(|lease| lease.set_limit(0, 0));
        assert_eq!(leases[0].size(), u64::MAX);
        leases.iter_mut().for_each(|lease| lease.set_limit(64 * MIB, 0));
        assert!(leases[3].grow_to(62 * MIB), "what was borrowed has come back");
    }

    #[test]
    fn a_limit_that_comes_late_counts_what_each_lane_holds() {
        let mut leases = leases(2, 0);
        leases[0].set_limit(64 * MIB, 60 * MIB);
        assert_eq!((leases[0].size(), leases[0].excess()), (60 * MIB, 0));
        leases[1].set_limit(64 * MIB, 20 * MIB);
        assert_eq!(leases[0].excess(), 16 * MIB);
        assert_eq!((leases[1].size(), leases[1].excess()), (20 * MIB, 0), "less than half");
        leases[0].repay(16 * MIB);
        assert_eq!(leases[0].excess(), 0);
    }

    /// Random moves: the leases never come to more than the limit, and nothing is lost.
    #[test]
    fn together_they_never_exceed_the_limit() {
        for lane_count in [1, 2, 5] {
            for size_max in [1, 100_000, 3 * MIB + 1, 1 << 33] {
                let mut leases = leases(lane_count, size_max);
                let mut chance = 7_u64;
                let mut under_way = 0;
                for _ in 0..2000 {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let lane = usize::try_from((chance >> 40) % u64::from(lane_count)).unwrap();
                    let size = (chance >> 20) % size_max.max(2);
                    match (chance >> 60) % 4 {
                        0 => {
                            leases[lane].grow_to(size);
                        }
                        1 => leases[lane].shrink_to(size),
                        2 => under_way += leases[lane].part_with(size),
                        _ => leases[lane].receive(std::mem::take(&mut under_way)),
                    }
                    assert!(sum(&leases) + under_way <= size_max);
                }
                leases[0].receive(under_way);
                leases.iter_mut().for_each(|lease| lease.repay(u64::MAX));
                let floor = leases[0].size();
                assert!(leases[0].grow_to(size_max - floor * (u64::from(lane_count) - 1)), "all is back");
            }
        }
    }
}
