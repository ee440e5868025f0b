//! The table of two strings' common subsequences, 64 cells at a time.
//!
//! ```text
//!          0  s[0] s[1] …            s is the shorter string, l the longer one.
//!     0    0   0    0                Cell (i, j) is the length for the first i bytes of l and the first j of s:
//!    l[0]  0   .    .                one more than (i-1, j-1) where the bytes are the same,
//!    l[1]  0   .    .                else the larger of (i-1, j) and (i, j-1)
//! ```
//! Neighbours differ by 0 or 1, so a row is told by one bit a cell: whether it is as large as the one on its left (`level`). Then the
//! next row follows from this one and from where in `s` the row's byte stands (`places`) by an addition whose carries run over runs of
//! cells: `(level + (level & places)) | (level & !places)` (Hyyrö, "Bit-Parallel LCS-length Computation Revisited", 2004).
//!
//! The way back asks of a cell which of its two neighbours is larger, where the bytes differ. That is a bit as well: if the cell is larger
//! than the one on its left, the one above is the larger one, and if it is larger than the one above, the left one is.

use store::Budget;

use crate::commands::text::Text;

/// Bits in one piece of those that are kept: 8 KiB.
const PIECE: usize = 64 * 1024;
/// Bytes that 64 cells cost of a budget.
const WORD_COST: usize = 16;
/// Bytes that noting where a byte stands costs of a budget.
const NOTE_COST: usize = 4;

/// The table under way: its rows are the bytes of the longer string.
pub(super) struct Table {
    /// Bytes of the shorter string, which are a row's cells.
    width: usize,
    keep: Keep,
    /// For each byte, which of `places` it has; those that are not in the shorter string share the first, which is empty.
    slots: Box<[u16; 256]>,
    /// Where in the shorter string a byte stands, a bit for each place; one row of words after another.
    places: Vec<u64>,
    /// Bytes of the shorter string that stand in `places`.
    noted: usize,
    /// Whether each cell of the row at hand is as large as the one on its left.
    level: Vec<u64>,
    rows_filled: usize,
    /// Of the next row.
    words_filled: usize,
    /// What the addition carries to the next word.
    carry: bool,
    /// Whether the word's last cell is larger than the one above.
    rises: bool,
    /// The bits that are kept, row after row, without gaps.
    bits: Vec<Vec<u64>>,
    bit_count: usize,
}

/// What is kept of the table for the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    /// Whether a cell is larger than the one on its left: then the one above it is larger than that.
    AboveIsLarger,
    /// Whether a cell is larger than the one above: then the one on its left is larger than that.
    LeftIsLarger,
}

impl Table {
    /// Of a shorter string of `width` bytes.
    pub(super) fn new(width: usize, keep: Keep) -> Table {
        let words = width.div_ceil(64);
        Table {
            width,
            keep,
            slots: Box::new([0; 256]),
            places: vec![0; words],
            noted: 0,
            level: vec![u64::MAX; words],
            rows_filled: 0,
            words_filled: 0,
            carry: false,
            rises: false,
            bits: Vec::new(),
            bit_count: 0,
        }
    }

    /// Fills it until the budget is spent, and says whether it is full.
    pub(super) fn fill(&mut self, long: &Text, short: &Text, budget: &mut Budget) -> bool {
        while self.noted < self.width {
            if budget.is_spent() {
                return false;
            }
            budget.spend(0, NOTE_COST);
            self.note(short.at(self.noted), budget);
        }
        while self.rows_filled < long.len() && self.width > 0 {
            if budget.is_spent() {
                return false;
            }
            let room = (budget.bytes as usize / WORD_COST).max(1);
            let end = self.level.len().min(self.words_filled + room);
            budget.spend(0, (end - self.words_filled) * WORD_COST);
            self.advance(long.at(self.rows_filled), end);
        }
        true
    }

    /// Notes where the next byte of the shorter string stands.
    fn note(&mut self, byte: u8, budget: &mut Budget) {
        let words = self.level.len();
        let slot = &mut self.slots[usize::from(byte)];
        if *slot == 0 {
            *slot = u16::try_from(self.places.len() / words).expect("at most 256 behind the first");
            self.places.resize(self.places.len() + words, 0);
            budget.spend(0, words * size_of::<u64>());
        }
        self.places[usize::from(*slot) * words + self.noted / 64] |= 1 << (self.noted % 64);
        self.noted += 1;
    }

    /// Fills the row of a byte up to a word.
    fn advance(&mut self, byte: u8, end: usize) {
        let words = self.level.len();
        let first = usize::from(self.slots[usize::from(byte)]) * words;
        for word in self.words_filled..end {
            let (places, before) = (self.places[first + word], self.level[word]);
            let (sum, over) = before.overflowing_add(before & places);
            let (sum, over_too) = sum.overflowing_add(u64::from(self.carry));
            self.carry = over || over_too;
            let level = sum | (before & !places);
            self.level[word] = level;
            let bits = match self.keep {
                Keep::Nothing => continue,
                Keep::AboveIsLarger => !level,
                Keep::LeftIsLarger => {
                    // Along a row the difference to the row above changes where just one of the two goes up.
                    let rising = parities(before ^ level) ^ if self.rises { u64::MAX } else { 0 };
                    self.rises = rising >> 63 == 1;
                    rising
                }
            };
            self.push(bits, (self.width - word * 64).min(64));
        }
        self.words_filled = end;
        if end == words {
            (self.rows_filled, self.words_filled, self.carry, self.rises) =
                (self.rows_filled + 1, 0, false, false);
        }
    }

    /// Keeps the lowest `count` bits, which is 1 to 64.
    fn push(&mut self, bits: u64, count: usize) {
        let bits = bits & (u64::MAX >> (64 - count));
        let at = self.bit_count % 64;
        if at == 0 {
            self.push_word(bits);
        } else {
            let last = self.bits.last_mut().and_then(|piece| piece.last_mut());
            *last.expect("it is begun") |= bits << at;
            if at + count > 64 {
                self.push_word(bits >> (64 - at));
            }
        }
        self.bit_count += count;
    }

    fn push_word(&mut self, word: u64) {
        if self.bits.last().is_none_or(|piece| piece.len() == PIECE / 64) {
            self.bits.push(Vec::with_capacity(PIECE / 64));
        }
        self.bits.last_mut().expect("just made sure of").push(word);
    }

    /// Length of the longest common subsequence, once the table is full.
    pub(super) fn size(&self) -> usize {
        let last = self.level.len().saturating_sub(1);
        let ups = |(word, level): (usize, &u64)| {
            let beyond = if word == last { self.level.len() * 64 - self.width } else { 0 };
            (!level << beyond).count_ones() as usize
        };
        self.level.iter().enumerate().map(ups).sum()
    }

    /// The bit that is kept of the cell of a longer and of a shorter string's byte. What lies behind it is given back.
    pub(super) fn bit(&mut self, long_index: usize, short_index: usize) -> bool {
        let index = long_index * self.width + short_index;
        self.bits.truncate(index / PIECE + 1);
        self.bits[index / PIECE][index % PIECE / 64] >> (index % 64) & 1 == 1
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn kept_size(&self) -> usize {
        self.bits.iter().map(|piece| piece.len() * size_of::<u64>()).sum()
    }

    /// Gives back what is kept until the budget is spent, and says whether all is.
    pub(super) fn give_back(&mut self, budget: &mut Budget) -> bool {
        while self.bits.pop().is_some() {
            budget.spend(1, 0);
            if budget.is_spent() {
                return self.bits.is_empty();
            }
        }
        true
    }
}

/// Each bit is the parity of that bit and all below.
fn parities(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].iter().fold(bits, |bits, shift| bits ^ (bits << shift))
}
