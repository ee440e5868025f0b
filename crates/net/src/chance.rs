//! Chance from a seed: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
//! Good enough to choose faults; for nothing that must not be guessed.

#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, or zero if `end` is zero. Uneven by less than one in 2^32 for small ends.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a size fits 64 bits");
        let number = if end == 0 { 0 } else { self.next() % end };
        usize::try_from(number).expect("a number below a size is one")
    }

    /// True `permille` times in a thousand.
    pub(crate) fn hits(&mut self, permille: u16) -> bool {
        self.below(1000) < usize::from(permille)
    }
}
