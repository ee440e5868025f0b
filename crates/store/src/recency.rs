//! The 24 bits in which an entry remembers its use.
//!
//! ```text
//! LRU   | second of the last use, modulo 2^24            |
//! LFU   | minute the counter was lowered, 16 bits | counter, 8 bits |
//! ```
//! The LFU counter is Redis' (evict.c, LFULogIncr and LFUDecrAndReturn): a use raises it with probability
//! 1 / ((counter − 5) × factor + 1), so 255 stands for about a million uses at factor 10; a new key begins at 5, so
//! that it is not the first to go.

use crate::effect::Key;
use crate::entry::{Entry, RECENCY};
use crate::shard::{Recency, Shard};

const LFU_NEW: u32 = 5;
const MINUTE_MASK: u32 = 0xffff;

/// What an entry is to remember of its use that it has brought along: RESTORE's IDLETIME and FREQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Seconds since the last one, modulo 2^24.
    IdleS(u32),
    /// The LFU counter.
    Frequency(u8),
}

impl Shard {
    /// Lets the key's entry, if it is there, remember a use at `now_ms`. What is not counted as things are is not remembered.
    pub fn remember(&mut self, key: &Key<'_>, now_ms: i64, brought: Use) {
        self.set_clock(now_ms);
        let recency = match (self.config.recency, brought) {
            (Recency::Lru, Use::IdleS(idle_s)) => self.second().wrapping_sub(idle_s) & RECENCY,
            (Recency::Lfu { .. }, Use::Frequency(counter)) => self.minute() << 8 | u32::from(counter),
            (Recency::Lru, Use::Frequency(_)) | (Recency::Lfu { .. }, Use::IdleS(_)) => return,
        };
        self.set_recency_of(key, recency);
    }

    /// What a written entry remembers; `old` is the first word of the entry that it replaces.
    #[inline]
    pub(crate) fn first_use(&self, old: Option<u32>) -> u32 {
        match (self.config.recency, old) {
            (Recency::Lru, _) => self.second(),
            (Recency::Lfu { .. }, Some(word)) => word & RECENCY,
            (Recency::Lfu { .. }, None) => self.minute() << 8 | LFU_NEW,
        }
    }

    /// What an entry remembers after one more use.
    #[inline]
    pub(crate) fn used_again(&self, word: u32, draw: impl FnOnce() -> u64) -> u32 {
        match self.config.recency {
            Recency::Lru => self.second(),
            Recency::Lfu { log_factor, .. } => {
                let counter = self.frequency_of(word);
                let base = u64::from(counter.saturating_sub(LFU_NEW));
                let raised = counter < 255 && draw().is_multiple_of(base * u64::from(log_factor) + 1);
                self.minute() << 8 | (counter + u32::from(raised))
            }
        }
    }

    /// What entries remember of their use.
    pub fn recency(&self) -> Recency {
        self.config.recency
    }

    /// An entry's LFU counter as it is now, lowered for the minutes that passed: OBJECT FREQ. 0 under LRU.
    pub fn frequency(&self, entry: &Entry<'_>) -> u32 {
        self.frequency_of(entry.head.word)
    }

    /// Seconds since an entry's last use: OBJECT IDLETIME. Under LFU, which records no such thing, it means nothing.
    pub fn idle_s(&self, entry: &Entry<'_>) -> u32 {
        self.idle_of(entry.head.word)
    }

    pub(crate) fn idle_of(&self, word: u32) -> u32 {
        self.second().wrapping_sub(word) & RECENCY
    }

    pub(crate) fn frequency_of(&self, word: u32) -> u32 {
        let Recency::Lfu { decay_minutes, .. } = self.config.recency else { return 0 };
        let counter = word & 255;
        let passed = self.minute().wrapping_sub(word >> 8 & MINUTE_MASK) & MINUTE_MASK;
        counter.saturating_sub(passed.checked_div(decay_minutes).unwrap_or(0))
    }

    /// It is so late now, unix milliseconds: what is written from now on was used then, and what is looked at has been idle since.
    #[inline(always)]
    pub fn set_clock(&mut self, now_ms: i64) {
        if self.clock_ms != now_ms {
            self.clock_ms = now_ms;
            self.clock_s = clock(now_ms / 1000);
        }
    }

    #[inline]
    fn second(&self) -> u32 {
        self.clock_s
    }

    fn minute(&self) -> u32 {
        clock(self.clock_ms / 60_000) & MINUTE_MASK
    }
}

/// A count of seconds or minutes, modulo 2^24.
fn clock(value: i64) -> u32 {
    (value.unsigned_abs() & 0x00ff_ffff) as u32
}
