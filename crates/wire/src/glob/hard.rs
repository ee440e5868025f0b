//! A match that would look at each byte of the text for each of the pattern goes on with all places of the pattern at once.
//!
//! What stands between two stars is looked for in the text from left to right. A bit for each of its parts says whether the text just
//! before the byte at hand fits all parts up to that one, so a byte moves sixty-four parts on in one step (shift-and: Baeza-Yates and Gonnet,
//! "A new approach to text searching", 1992).
//! ```text
//! parts   a  a  ?  b        text  … a  a  b
//! bits    1  1  0  0   ── byte b ──▶  0  0  1  0      (bits << 1 | 1) & parts that b fits
//! ```

use super::{Case, Match, STARS_MAX, one, stars};

/// Goes on with a match that has passed a star. Whether it fits, and what that took in bytes looked at.
pub(super) fn matches(matching: Match, pattern: &[u8], text: &[u8], case: Case) -> (bool, usize) {
    let (mut rest, mut text) = match matching.star {
        Some((pattern_at, text_at)) => (&pattern[pattern_at..], &text[text_at..]),
        // Without one each byte is looked at once.
        None => {
            let mut budget = u64::MAX;
            let mut matching = matching;
            return (matching.run(pattern, text, case, &mut budget) == super::Verdict::Yes, pattern.len());
        }
    };
    let (mut star_count, mut looks) = (matching.stars, 0);
    loop {
        // Behind a star, which takes as little as it can.
        let parts = Parts::of(rest, case);
        rest = &rest[parts.size..];
        looks += parts.cost;
        if rest.is_empty() {
            // The last parts are to fit the last bytes.
            let fits =
                text.len().checked_sub(parts.count).is_some_and(|at| parts.find(&text[at..]).is_some());
            return (fits, looks + parts.count);
        }
        let Some(end) = parts.find(text) else { return (false, looks + text.len() * parts.words()) };
        looks += end * parts.words();
        text = &text[end..];
        let run = stars(rest);
        if run == rest.len() {
            return (true, looks);
        }
        star_count += 1;
        if star_count > STARS_MAX {
            return (false, looks);
        }
        rest = &rest[run..];
    }
}

/// What stands before the next star or the end of a pattern: each part fits one byte of the text.
struct Parts {
    count: usize,
    /// In bytes of the pattern.
    size: usize,
    /// For each byte the parts that it fits, [`Parts::words`] of them.
    fitting: Vec<u64>,
    /// What it took to find that out.
    cost: usize,
}

impl Parts {
    fn of(pattern: &[u8], case: Case) -> Parts {
        let (mut starts, mut size) = (Vec::new(), 0);
        while let Some(first) = pattern.get(size)
            && *first != b'*'
        {
            starts.push(size);
            size += one(&pattern[size..], 0, case).1;
        }
        let mut parts = Parts { count: starts.len(), size, fitting: Vec::new(), cost: 0 };
        let words = parts.words();
        parts.fitting.resize(256 * words, 0);
        parts.cost = parts.fitting.len() + size;
        let ends = starts[1.min(starts.len())..].iter().copied().chain([size]);
        for (part, (start, end)) in starts.iter().copied().zip(ends).enumerate() {
            let mut fits = |byte| parts.fitting[usize::from(byte) * words + part / 64] |= 1 << (part % 64);
            match &pattern[start..end] {
                choice @ ([b'?'] | [b'[', ..]) => {
                    (0..=u8::MAX).filter(|byte| one(choice, *byte, case).0).for_each(fits);
                    parts.cost += 256 * choice.len();
                }
                [.., literal] if case == Case::Ignored => {
                    fits(literal.to_ascii_lowercase());
                    fits(literal.to_ascii_uppercase());
                }
                [.., literal] => fits(*literal),
                [] => unreachable!("a part has a byte and more"),
            }
        }
        parts
    }

    fn words(&self) -> usize {
        self.count.div_ceil(64)
    }

    /// The end of the first place in the text that fits all parts.
    fn find(&self, text: &[u8]) -> Option<usize> {
        let Some(last) = self.count.checked_sub(1) else { return Some(0) };
        match self.words() {
            1 => self.find_by(&mut [0], last, text),
            words => self.find_by(&mut vec![0; words], last, text),
        }
    }

    /// With a bit for each part, none of them set; of one word, which most have, each byte takes a few instructions.
    #[inline(always)]
    fn find_by(&self, bits: &mut impl AsMut<[u64]>, last: usize, text: &[u8]) -> Option<usize> {
        let bits = bits.as_mut();
        for (at, byte) in text.iter().enumerate() {
            let fitting = &self.fitting[usize::from(*byte) * bits.len()..][..bits.len()];
            let mut carry = 1;
            for (bits, fitting) in bits.iter_mut().zip(fitting) {
                let moved = *bits << 1 | carry;
                carry = *bits >> 63;
                *bits = moved & fitting;
            }
            if bits[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at + 1);
            }
        }
        None
    }
}
