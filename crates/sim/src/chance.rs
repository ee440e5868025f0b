//! Chance from a seed: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).

/// Draws that a seed decides.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// All draws of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; zero if `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a size fits 64 bits");
        let number = if end == 0 { 0 } else { self.draw() % end };
        usize::try_from(number).expect("a number below a size is one")
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last + 1 - first)
    }

    /// True `permille` times in a thousand.
    pub fn hits(&mut self, permille: usize) -> bool {
        self.below(1000) < permille
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The numbers below `count` in any order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}
