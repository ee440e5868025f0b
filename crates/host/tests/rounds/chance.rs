//! Chance from a seed (splitmix64).

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.number() % u64::from(bound)).expect("it is below a u32")
    }

    /// In one of `of` cases.
    pub(crate) fn one_in(&mut self, of: u32) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let count = u32::try_from(all.len()).expect("lists are short");
        &all[self.below(count) as usize]
    }
}
