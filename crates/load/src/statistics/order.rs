//! Which run comes first: chance, balanced and repeatable.
//!
//! A block of A and then a block of B calls a drift of 5 % a difference in two experiments of three; always A before B
//! calls a small advantage of the first a difference in one of six. A fair coin inside each pair does neither. (Abedi and
//! Brecht, "Conducting Repeatable Experiments in Highly Variable Cloud Computing Environments", ICPE 2017.)

use serde::{Deserialize, Serialize};

use crate::chance::Chance;

/// The order of the two runs of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PairOrder {
    /// A, then B.
    #[serde(rename = "AB")]
    AThenB,
    /// B, then A.
    #[serde(rename = "BA")]
    BThenA,
}

/// The order inside each of so many pairs: as many AB as BA, one more of either if the number is odd, shuffled.
pub fn pairs_balanced(pairs_count: usize, seed: u64) -> Vec<PairOrder> {
    let mut chance = Chance::new(seed);
    let odd_one = if chance.below(2) == 0 { PairOrder::AThenB } else { PairOrder::BThenA };
    let half = |order| std::iter::repeat_n(order, pairs_count / 2);
    let odd = std::iter::repeat_n(odd_one, pairs_count % 2);
    let mut orders: Vec<PairOrder> =
        half(PairOrder::AThenB).chain(half(PairOrder::BThenA)).chain(odd).collect();
    shuffle(&mut orders, &mut chance);
    orders
}

/// Levels of a sweep in random order, so that a drift does not look like load.
pub fn levels_shuffled<T: Clone>(levels: &[T], seed: u64) -> Vec<T> {
    let mut levels = levels.to_vec();
    shuffle(&mut levels, &mut Chance::new(seed));
    levels
}

/// Fisher and Yates: every order equally likely.
fn shuffle<T>(items: &mut [T], chance: &mut Chance) {
    for last in (1..items.len()).rev() {
        let other = usize::try_from(chance.below(last as u64 + 1)).expect("no greater than an index");
        items.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ab_count(orders: &[PairOrder]) -> usize {
        orders.iter().filter(|&&order| order == PairOrder::AThenB).count()
    }

    #[test]
    fn both_orders_are_equally_frequent() {
        for seed in 0..50 {
            assert_eq!(ab_count(&pairs_balanced(10, seed)), 5);
            assert!([3, 4].contains(&ab_count(&pairs_balanced(7, seed))));
        }
        let of_odd: usize = (0..400).map(|seed| ab_count(&pairs_balanced(7, seed)) - 3).sum();
        assert!((150..=250).contains(&of_odd), "the odd one is tossed: {of_odd} of 400");
        assert!(pairs_balanced(0, 1).is_empty());
    }

    #[test]
    fn every_place_has_either_order_equally_often() {
        for place in 0..6 {
            let first =
                (0..1_000).filter(|&seed| pairs_balanced(6, seed)[place] == PairOrder::AThenB).count();
            // Five standard deviations of a fair coin are 79.
            assert!(first.abs_diff(500) < 79, "place {place}: {first} of 1,000");
        }
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let levels: Vec<u32> = (1..=10).map(|tens| tens * 10).collect();
        let shuffled = levels_shuffled(&levels, 7);
        assert_eq!(shuffled, levels_shuffled(&levels, 7));
        assert_ne!(shuffled, levels_shuffled(&levels, 8));
        let mut back = shuffled.clone();
        back.sort_unstable();
        assert_eq!(back, levels);
        assert_ne!(shuffled, levels);
    }

    #[test]
    fn the_plan_names_orders_as_people_do() {
        assert_eq!(serde_json::to_string(&PairOrder::BThenA).unwrap(), r#""BA""#);
    }
}
