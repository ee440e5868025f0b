//! Which key a request names. Keys are numbers; their names are a prefix and twelve digits, as redis-benchmark and memtier's
//! prefix write them, so that what one tool loads another can ask for.
//!
//! A cluster's nodes own different keys. A connection to one of them takes its keys from that node's queue; keys that are
//! drawn meanwhile for other nodes wait in theirs. So the distribution over all keys stays what was asked for.

use std::collections::VecDeque;

use rand_distr::{Distribution as _, Zipf};
use wire::route::Slot;

use crate::chance::Chance;
use crate::engine::nodes::Placing;
use crate::workload::Distribution;

/// Digits of a key's number.
pub(crate) const DIGITS_COUNT: usize = 12;
/// Drawn keys that wait for a node at most. What is drawn beyond that, while a node answers nobody, is drawn for nobody: chance
/// is the same afterwards.
const WAITING_MAX: usize = 1024;
/// Keys drawn in search of one of a node's at most. A node that owns less of what is asked for gets others' keys.
const DRAWS_MAX: usize = 100_000;

/// Draws the numbers of keys.
pub(crate) struct Keys {
    count: u64,
    draw: Draw,
    chance: Chance,
    /// Of each node, keys drawn and not asked for yet.
    waiting: Vec<VecDeque<u32>>,
    name: Vec<u8>,
    digits_at: usize,
    placing: Placing,
}

enum Draw {
    Uniform,
    /// The popularity of a rank; ranks are scattered over the numbers by a permutation.
    Zipf(Zipf<f64>, Scatter),
    Hot {
        hot_count: u64,
        threshold: u64,
    },
    Sequential {
        next: u64,
        stride: u64,
    },
}

/// A permutation of 0..count: multiplication by a number that shares no factor with `count`, and an offset.
struct Scatter {
    factor: u64,
    offset: u64,
}

impl Keys {
    /// `share` of `shares` engines begins: in sequence each takes every so-manieth key.
    pub(crate) fn new(
        count: u64,
        prefix: &str,
        distribution: Distribution,
        (share, shares): (u32, u32),
        seed: u64,
    ) -> Keys {
        assert!(count > 0 && count <= crate::workload::KEY_COUNT_MAX, "there are keys, with names");
        let draw = match distribution {
            Distribution::Uniform => Draw::Uniform,
            Distribution::Zipf(exponent) => {
                let zipf = Zipf::new(crate::float::float(count), exponent);
                Draw::Zipf(zipf.expect("a count above zero and an exponent from 0"), Scatter::new(count))
            }
            Distribution::Hot { keys, requests } => {
                let hot = crate::float::float(count) * keys / 100.0;
                Draw::Hot { hot_count: whole(hot).clamp(1, count), threshold: whole(requests * 1e7) }
            }
            Distribution::Sequential => {
                Draw::Sequential { next: u64::from(share), stride: u64::from(shares) }
            }
        };
        let name = [prefix.as_bytes(), &[b'0'; DIGITS_COUNT]].concat();
        let digits_at = prefix.len();
        Keys {
            count,
            draw,
            chance: Chance::new(seed),
            waiting: Vec::new(),
            name,
            digits_at,
            placing: Placing::Redis,
        }
    }

    /// Belonging to nodes by these rules; without, by Redis'.
    pub(crate) fn placed(self, placing: Placing) -> Keys {
        Keys { placing, ..self }
    }

    /// The next key for anybody.
    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        let number = match &mut self.draw {
            Draw::Uniform => self.chance.below(self.count),
            Draw::Zipf(zipf, scatter) => {
                let rank = whole(zipf.sample(&mut self.chance)).clamp(1, self.count) - 1;
                scatter.place(rank, self.count)
            }
            Draw::Hot { hot_count, threshold } => {
                // A billion is a hundred percent.
                let cold_count = self.count - *hot_count;
                if cold_count == 0 || self.chance.below(1_000_000_000) < *threshold {
                    self.chance.below(*hot_count)
                } else {
                    *hot_count + self.chance.below(cold_count)
                }
            }
            Draw::Sequential { next, stride } => {
                let number = *next % self.count;
                *next = number + *stride;
                number
            }
        };
        u32::try_from(number).expect("numbers of keys are below four billion")
    }

    /// The next key of `node`, whose slots `owner` tells. It may be somebody else's when that node's keys are rare.
    pub(crate) fn next_of(&mut self, node: usize, owner: impl Fn(Slot) -> usize) -> u32 {
        if self.waiting.len() <= node {
            self.waiting.resize_with(node + 1, VecDeque::new);
        }
        if let Some(number) = self.waiting[node].pop_front() {
            return number;
        }
        for _ in 0..DRAWS_MAX {
            let number = self.next();
            let of = owner(self.slot(number));
            if of == node {
                return number;
            }
            if self.waiting.len() <= of {
                self.waiting.resize_with(of + 1, VecDeque::new);
            }
            if self.waiting[of].len() < WAITING_MAX {
                self.waiting[of].push_back(number);
            }
        }
        self.next()
    }

    /// Where a key belongs.
    pub(crate) fn slot(&mut self, number: u32) -> Slot {
        write_digits(&mut self.name[self.digits_at..], number);
        self.placing.slot(&self.name, number)
    }
}

impl Scatter {
    fn new(count: u64) -> Scatter {
        // Near the golden section of the count, so that neighbours in rank lie far apart.
        let mut factor = whole(crate::float::float(count) * 0.618_033_988_75).max(1);
        while gcd(factor, count) != 1 {
            factor += 1;
        }
        Scatter { factor, offset: count / 3 }
    }

    fn place(&self, rank: u64, count: u64) -> u64 {
        let product = u128::from(rank) * u128::from(self.factor) + u128::from(self.offset);
        u64::try_from(product % u128::from(count)).expect("below a count of 64 bits")
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The whole part of what is not negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is meant")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Writes the number over all of `digits`, with leading zeros.
///
/// # Panics
/// When there are fewer than [`DIGITS_COUNT`].
#[inline]
pub(crate) fn write_digits(digits: &mut [u8], number: u32) {
    let digits = digits.first_chunk_mut::<DIGITS_COUNT>().expect("a key has its digits");
    let (high, low) = (number / 100_000_000, number % 100_000_000);
    let high = u8::try_from(high).expect("32 bits have ten digits");
    digits[..4].copy_from_slice(&[b'0', b'0', b'0' + high / 10, b'0' + high % 10]);
    digits[4..].copy_from_slice(&eight_digits(low.into()).to_le_bytes());
}

/// A number below a hundred million in eight digits, the first in the lowest byte: split into fours, twos and ones side by side
/// (Khuong, "How to print integers really fast", 2017).
#[inline]
fn eight_digits(number: u64) -> u64 {
    // Each of the parts of a word by 100 and by 10, by their reciprocals.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = (fours.wrapping_mul(10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours.wrapping_sub(hundreds.wrapping_mul(100)) << 16);
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos.wrapping_sub(tens.wrapping_mul(10)) << 8);
    ones | 0x3030_3030_3030_3030
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: &str, count: u64, draws: usize) -> Vec<u64> {
        let mut keys = Keys::new(count, "key:", distribution.parse().unwrap(), (0, 1), 7);
        let mut seen = vec![0; usize::try_from(count).unwrap()];
        for _ in 0..draws {
            seen[usize::try_from(keys.next()).unwrap()] += 1;
        }
        seen
    }

    #[test]
    fn uniform_keys_are_all_alike() {
        let seen = drawn("uniform", 50, 5000);
        assert!(seen.iter().all(|count| (60..=150).contains(count)), "{seen:?}");
    }

    /// With exponent 1 the first of a thousand has 1/H(1000) = 13.4 %, the second half of that.
    #[test]
    fn zipf_has_few_favourites_and_they_are_scattered() {
        let seen = drawn("zipf:1", 1000, 100_000);
        let mut ranked = seen.clone();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        assert!(ranked[0].abs_diff(13_360) < 600 && ranked[1].abs_diff(6_680) < 400, "{:?}", &ranked[..4]);
        assert_eq!(seen.iter().position(|count| *count == ranked[0]), Some(333));
        assert!(seen.iter().filter(|count| **count > 0).count() > 990);
    }

    #[test]
    fn a_hot_set_gets_its_share() {
        let seen = drawn("hot:20:95", 100, 100_000);
        let hot: u64 = seen[..20].iter().sum();
        assert!(hot.abs_diff(95_000) < 500, "{hot}");
        assert!(seen.iter().all(|count| *count > 0));
        assert_eq!(drawn("hot:100:50", 10, 1000).iter().sum::<u64>(), 1000);
    }

    /// Several engines in sequence ask for every key once before any twice.
    #[test]
    fn engines_share_a_sequence() {
        let mut seen = [0; 10];
        for share in 0..3 {
            let mut keys = Keys::new(10, "", Distribution::Sequential, (share, 3), 7);
            let count = if share == 0 { 4 } else { 3 };
            (0..count).for_each(|_| seen[usize::try_from(keys.next()).unwrap()] += 1);
        }
        assert_eq!(seen, [1; 10]);
    }

    #[test]
    fn a_node_is_asked_for_its_own() {
        let mut keys = Keys::new(10_000, "key:", Distribution::Uniform, (0, 1), 7);
        let owner = |slot: Slot| usize::from(slot.number() / 4096);
        for round in 0..1000 {
            let node = round % 4;
            let number = keys.next_of(node, owner);
            assert_eq!(owner(Slot::of(format!("key:{number:012}").as_bytes())), node);
        }
    }

    /// However long one of the nodes answers nobody.
    #[test]
    fn a_node_that_lags_does_not_cost_the_others_their_keys() {
        let mut keys = Keys::new(10_000, "key:", Distribution::Uniform, (0, 1), 7);
        let owner = |slot: Slot| usize::from(slot.number() / 8192);
        for _ in 0..20_000 {
            let number = keys.next_of(0, owner);
            assert_eq!(owner(Slot::of(format!("key:{number:012}").as_bytes())), 0);
        }
    }

    #[test]
    fn a_node_without_keys_gets_some_all_the_same() {
        let mut keys = Keys::new(10, "key:", Distribution::Uniform, (0, 1), 7);
        assert!(keys.next_of(1, |_| 0) < 10);
    }

    #[test]
    fn digits_fill_their_place() {
        let mut digits = [b'x'; DIGITS_COUNT];
        for number in
            (0..100_000_000).step_by(9_973).chain([9_999, 10_000, 99_999_999, 4_094_967_295, u32::MAX])
        {
            write_digits(&mut digits, number);
            assert_eq!(digits.as_slice(), format!("{number:012}").as_bytes());
        }
    }
}
