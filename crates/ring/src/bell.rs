//! Who has something for a lane, and whether the lane must be woken to see it.
//!
//! Each lane owns one [`Mailbox`] that all others reach. While the lane is awake a sender pays one atomic "or" a
//! batch, the lane a load of one line a turn and two atomic instructions a sleep, and nobody makes a system call. Only for a
//! lane that declared sleep is a sender told to ring, and only one of 63 senders a sleep.
//!
//! ```text
//!  sender                               receiver
//!  publish the ring                     collect: swap the bits to 0, visit those rings
//!  post: set my bit ── what was there?    … nothing more to do …
//!    not ASLEEP       → done, it will look       declare_sleep: 0 → ASLEEP in every word, or stay awake
//!    ASLEEP and bits  → done, another one rings  wait (a system call)
//!    ASLEEP alone     → ring (a system call)     wake: clear ASLEEP; then collect
//! ```
//!
//! **Why no wake-up is lost.** `ASLEEP` lives in the same words as the senders' bits, and all that happens to one
//! word happens in one order: either the sender's "or" comes first, then the receiver's exchange of 0 fails and it
//! stays awake; or the exchange comes first, then the first "or" behind it returns `ASLEEP` and nothing else, and that sender
//! rings. A flag beside the words would need sequentially consistent fences on both sides (Dekker's problem), which cost more
//! and which loom cannot check in full.

use crate::sync::{AtomicU64, Ordering};

/// Set in a word while the receiver sleeps or is about to. The other 63 bits are senders.
const ASLEEP: u64 = 1 << 63;

/// Senders in a word.
const WORD_SENDERS: usize = 63;

/// Words in a mailbox: 252 senders, all in one cache line. Loom's models need a second word, not a fourth.
const WORDS: usize = if cfg!(loom) { 2 } else { 4 };

/// A mailbox has at most so many senders. More are refused by an assertion in [`Mailbox::new`].
pub const SENDERS_MAX: usize = WORDS * WORD_SENDERS;

/// Which senders have something for one lane, and whether that lane sleeps.
///
/// Anyone may [`post`](Self::post); [`collect`](Self::collect), [`declare_sleep`](Self::declare_sleep) and
/// [`wake`](Self::wake) are the one receiving lane's. All of it shares one line, because whoever sets a bit holds
/// the line anyway.
#[repr(align(128))]
pub struct Mailbox {
    words: [AtomicU64; WORDS],
    /// Words that have a sender.
    used: usize,
}

impl Mailbox {
    /// An empty mailbox of a lane that is awake, for senders that are numbered below `sender_count`.
    #[must_use]
    pub fn new(sender_count: usize) -> Self {
        assert!(sender_count <= SENDERS_MAX, "a mailbox has at most SENDERS_MAX senders");
        let used = sender_count.div_ceil(WORD_SENDERS);
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)), used }
    }

    fn used(&self) -> &[AtomicU64] {
        &self.words[..self.used]
    }

    /// Says that `sender`'s ring holds something, which it has published before. True if the receiver sleeps and
    /// nobody has rung yet: the caller must then ring, and nobody else will. At most one `true` for each
    /// [`declare_sleep`](Self::declare_sleep) and 63 senders, which share a word.
    ///
    /// A `sender` for whom the mailbox was not made is a broken promise.
    #[inline]
    pub fn post(&self, sender: usize) -> bool {
        let word = self.used().get(sender / WORD_SENDERS).expect("a sender's number is below their count");
        // Release: the ring is published before the bit is seen. The bit must be set even if it seems set: a plain look
        // could be older than the receiver's last visit.
        word.fetch_or(1 << (sender % WORD_SENDERS), Ordering::Release) == ASLEEP
    }

    /// Takes the set of senders that posted since the last call. Costs one load a word when there are none.
    ///
    /// The set is now the caller's: a ring that it does not empty must be remembered, as nobody posts it again. A lane
    /// that declared sleep wakes before it collects; anything else is a broken promise.
    #[inline]
    pub fn collect(&self) -> Senders {
        let mut senders = Senders::default();
        for (taken, word) in senders.words.iter_mut().zip(self.used()) {
            // Relaxed: zero claims nothing, and a bit that comes late is seen by the next turn or by
            // `declare_sleep`.
            if word.load(Ordering::Relaxed) != 0 {
                // Acquire: rings are read after they were published. Senders whose bits were set before the last one
                // are included, as "or"s on one word continue each other's release.
                *taken = word.swap(0, Ordering::Acquire);
                assert!(*taken & ASLEEP == 0, "a lane wakes before it collects");
            }
        }
        senders
    }

    /// Declares that the lane is going to wait. False if something was posted meanwhile: then nothing is declared, and
    /// the lane collects instead. After `true`, the first post rings, and the lane calls [`wake`](Self::wake) when its
    /// wait ends for whatever reason.
    ///
    /// A ring may come although the declaration failed or is withdrawn: it makes one later wait return early.
    #[inline]
    #[must_use = "a lane that declared nothing must not wait"]
    pub fn declare_sleep(&self) -> bool {
        for word in self.used() {
            // Relaxed: the word carries nothing but itself, and `collect` acquires what was posted.
            if let Err(found) = word.compare_exchange(0, ASLEEP, Ordering::Relaxed, Ordering::Relaxed) {
                assert!(found & ASLEEP == 0, "sleep is declared once and then withdrawn");
                self.wake();
                return false;
            }
        }
        true
    }

    /// Withdraws the declaration: from here on senders need not ring. Does nothing if none is in force.
    #[inline]
    pub fn wake(&self) {
        for word in self.used() {
            // The receiver alone sets and clears ASLEEP, so its own look is never stale.
            if word.load(Ordering::Relaxed) & ASLEEP != 0 {
                // Relaxed: an "and" continues the release of the posts before it, and nothing is read yet.
                word.fetch_and(!ASLEEP, Ordering::Relaxed);
            }
        }
    }
}

/// A set of senders. As an iterator it yields them in ascending order and forgets each, so that what is left is what
/// was not visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Senders {
    words: [u64; WORDS],
}

impl Senders {
    /// Whether no sender is in the set.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Adds all of `other`: what was collected, to what an earlier turn left.
    #[inline]
    pub fn merge(&mut self, other: Self) {
        for (word, other) in self.words.iter_mut().zip(other.words) {
            *word |= other;
        }
    }

    /// Adds `sender`, whose ring is not empty yet. A number at or above [`SENDERS_MAX`] is a broken promise.
    #[inline]
    pub fn insert(&mut self, sender: usize) {
        assert!(sender < SENDERS_MAX, "a sender's number is below SENDERS_MAX");
        self.words[sender / WORD_SENDERS] |= 1 << (sender % WORD_SENDERS);
    }

    /// Takes out the first sender at or after `from`, going round at the end; `None` when the set is empty. A lane
    /// whose turn ends early goes on with the sender after the last, so that low numbers get no more than high ones.
    #[inline]
    pub fn take_from(&mut self, from: usize) -> Option<usize> {
        assert!(from <= SENDERS_MAX, "the sender after the last is at most SENDERS_MAX");
        let (start, bit) = (from / WORD_SENDERS, from % WORD_SENDERS);
        // The first word is looked at twice: its high bits first, its low bits last.
        for step in 0..=WORDS {
            let index = (start + step) % WORDS;
            let mask = if step == 0 && start < WORDS { !0 << bit } else { !0 };
            let word = self.words[index] & mask;
            if word != 0 {
                let lowest = word.trailing_zeros();
                self.words[index] &= !(1 << lowest);
                return Some(index * WORD_SENDERS + lowest as usize);
            }
        }
        None
    }
}

impl Iterator for Senders {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.take_from(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn who_posted_is_collected_once_in_order() {
        let mailbox = Mailbox::new(SENDERS_MAX);
        for sender in [200, 0, 62, 63, 94, SENDERS_MAX - 1, 63] {
            assert!(!mailbox.post(sender), "an awake lane is not rung for");
        }
        assert_eq!(mailbox.collect().collect::<Vec<_>>(), [0, 62, 63, 94, 200, SENDERS_MAX - 1]);
        assert!(mailbox.collect().is_empty());
    }

    #[test]
    fn the_first_post_to_a_sleeper_rings_and_no_other() {
        let mailbox = Mailbox::new(SENDERS_MAX);
        assert!(mailbox.declare_sleep());
        assert!(mailbox.post(100));
        assert!(!mailbox.post(100));
        assert!(!mailbox.post(101), "nor another of its word");
        assert!(mailbox.post(3), "each word has its own");
        mailbox.wake();
        assert!(!mailbox.post(4));
        assert_eq!(mailbox.collect().collect::<Vec<_>>(), [3, 4, 100, 101]);
        assert!(mailbox.declare_sleep());
        assert!(mailbox.post(5), "each sleep has its bell");
    }

    #[test]
    fn who_has_post_does_not_sleep() {
        for sender in [0, SENDERS_MAX - 1] {
            let mailbox = Mailbox::new(SENDERS_MAX);
            mailbox.post(sender);
            assert!(!mailbox.declare_sleep());
            assert!(!mailbox.post(1), "the declaration is withdrawn in every word");
            assert!(!mailbox.post(SENDERS_MAX - 2));
            assert_eq!(mailbox.collect().count(), 3);
            assert!(mailbox.declare_sleep());
        }
    }

    #[test]
    fn a_sleep_that_nobody_ends_is_withdrawn() {
        let mailbox = Mailbox::new(SENDERS_MAX);
        assert!(mailbox.declare_sleep());
        mailbox.wake();
        mailbox.wake();
        assert!(!mailbox.post(0));
        assert_eq!(mailbox.collect().collect::<Vec<_>>(), [0]);
    }

    #[test]
    #[should_panic(expected = "a lane wakes before it collects")]
    fn collecting_asleep_is_refused() {
        let mailbox = Mailbox::new(SENDERS_MAX);
        assert!(mailbox.declare_sleep());
        let _ = mailbox.collect();
    }

    #[test]
    #[should_panic(expected = "sleep is declared once and then withdrawn")]
    fn sleeping_twice_is_refused() {
        let mailbox = Mailbox::new(SENDERS_MAX);
        assert!(mailbox.declare_sleep());
        let _ = mailbox.declare_sleep();
    }

    #[test]
    #[should_panic(expected = "a sender's number is below their count")]
    fn a_sender_without_a_word_is_refused() {
        Mailbox::new(WORD_SENDERS).post(WORD_SENDERS);
    }

    #[test]
    #[should_panic(expected = "a mailbox has at most SENDERS_MAX senders")]
    fn more_senders_than_bits_are_refused() {
        let _ = Mailbox::new(SENDERS_MAX + 1);
    }

    #[test]
    fn one_word_is_enough_for_few() {
        let mailbox = Mailbox::new(2);
        assert_eq!(mailbox.used, 1);
        assert!(mailbox.declare_sleep() && mailbox.post(1) && !mailbox.post(0));
        mailbox.wake();
        assert_eq!(mailbox.collect().collect::<Vec<_>>(), [0, 1]);
    }

    /// Every start, against an ordered set: all of the set comes, each once, beginning at the start and going round.
    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and slow")]
    fn going_round_visits_everyone_once() {
        let want: BTreeSet<usize> = [0, 1, 61, 62, 63, 125, 126, 200, SENDERS_MAX - 1].into();
        let mut all = Senders::default();
        want.iter().for_each(|&sender| all.insert(sender));
        for start in 0..=SENDERS_MAX {
            let (mut left, mut from) = (all, start);
            let mut visited = Vec::new();
            while let Some(sender) = left.take_from(from) {
                visited.push(sender);
                from = sender + 1;
            }
            let round: Vec<usize> = want.range(start..).chain(want.range(..start)).copied().collect();
            assert_eq!(visited, round, "from {start}");
            assert!(left.is_empty());
        }
    }

    #[test]
    fn what_an_early_end_leaves_is_merged_with_what_comes() {
        let mailbox = Mailbox::new(SENDERS_MAX);
        mailbox.post(1);
        mailbox.post(70);
        let mut pending = mailbox.collect();
        assert_eq!(pending.take_from(2), Some(70));
        mailbox.post(2);
        pending.merge(mailbox.collect());
        assert_eq!(pending.collect::<Vec<_>>(), [1, 2]);
    }
}
