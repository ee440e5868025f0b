//! Chance under a seed: the same seed asks for the same keys at the same times.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one addition and three multiplications a number.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each about equally likely (Lemire's multiplication, without the rejection).
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * u128::try_from(bound).expect("a size fits 128 bits");
        usize::try_from(product >> 64).expect("below the bound")
    }

    /// A number in (0, 1].
    pub(crate) fn share(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds exactly")]
        let numerator = ((self.next() >> 11) + 1) as f64;
        numerator / 9_007_199_254_740_992.0
    }
}
