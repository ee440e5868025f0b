//! The sequence of `math.random`: the 48-bit linear congruence of `lrand48`, which Redis has of its own (`src/rand.c`) so that it is
//! the same on every machine.

const FACTOR: u64 = 0x5_deec_e66d;
const SUMMAND: u64 = 0xb;
const MASK: u64 = (1 << 48) - 1;
/// The low bits of every seed.
const SEED_LOW: u64 = 0x330e;

/// The largest value, and what values are divided by.
const VALUE_MAX: u32 = i32::MAX.cast_unsigned();

/// Where the sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Random(u64);

impl Random {
    /// Where Redis begins.
    pub(crate) const START: Random = Random(0x1234_abcd_330e);

    /// Where `math.randomseed` puts it.
    pub(crate) fn seeded(seed: u32) -> Random {
        Random((u64::from(seed) << 16) | SEED_LOW)
    }

    /// The next number from 0 to less than 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(FACTOR).wrapping_add(SUMMAND) & MASK;
        let value = u32::try_from(self.0 >> 17).expect("31 bits");
        f64::from(value % VALUE_MAX) / f64::from(VALUE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As redis-server 7.0.15 answers: the first script after its start, and one that seeds itself with 7.
    #[test]
    fn the_sequence_is_redis_s() {
        let check = |mut random: Random, want: [f64; 2]| {
            assert_eq!([(); 2].map(|()| (random.next() * 1e6).floor() + 1.0), want);
        };
        check(Random::START, [396_465.0, 840_486.0]);
        check(Random::seeded(7), [266_445.0, 682_036.0]);
    }
}
