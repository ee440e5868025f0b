//! Which key a request names: all keys in order or by chance, or only those of certain lanes.
//!
//! Keys are `key:` and twelve digits, 16 bytes, as redis-benchmark and the other programs here name them, so that what
//! one of them loads another can ask for.

use std::ops::Range;

use wire::route::{PartitionMap, Slot};

use crate::chance::Chance;

/// What stands before the digits.
pub(super) const PREFIX: &[u8] = b"key:";
/// Digits of a key's number.
pub(super) const DIGITS_COUNT: usize = 12;

/// Whose keys a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Anybody's.
    Any,
    /// The lane's that serves the connection: no request is forwarded.
    Own,
    /// The next lane's: every request is forwarded.
    Next,
}

/// In which order keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each time any of them.
    Random,
    /// One after the other over all connections, and from the first again after the last.
    Ascending,
}

/// The numbers of the keys of one run.
pub(crate) struct Keys {
    /// One for all, or one for each lane.
    pools: Vec<Pool>,
    owner: Owner,
    order: Order,
    chance: Chance,
}

enum Members {
    All(Range<u32>),
    Some(Vec<u32>),
}

struct Pool {
    members: Members,
    /// The next in ascending order.
    next: usize,
}

impl Keys {
    /// The keys with these numbers, which `lanes` lanes share evenly.
    ///
    /// # Errors
    /// A range without keys, or a lane without any when they are picked by lane.
    pub(crate) fn new(
        numbers: Range<u32>,
        lanes: u16,
        owner: Owner,
        order: Order,
        seed: u64,
    ) -> Result<Keys, String> {
        let pools: Vec<Pool> = match owner {
            Owner::Any => vec![Pool { members: Members::All(numbers), next: 0 }],
            Owner::Own | Owner::Next => by_lane(numbers, lanes)
                .into_iter()
                .map(|numbers| Pool { members: Members::Some(numbers), next: 0 })
                .collect(),
        };
        match pools.iter().position(|pool| pool.count() == 0) {
            None => Ok(Keys { pools, owner, order, chance: Chance::new(seed) }),
            Some(_) if owner == Owner::Any => Err("there are no keys to ask for".to_owned()),
            Some(lane) => Err(format!("none of the keys belongs to lane {lane}: choose more keys")),
        }
    }

    /// The number of the next key for a connection that `lane` serves.
    pub(crate) fn next(&mut self, lane: u16) -> u32 {
        let lane = usize::from(lane);
        let index = match self.owner {
            Owner::Any => 0,
            Owner::Own => lane % self.pools.len(),
            Owner::Next => (lane + 1) % self.pools.len(),
        };
        let pool = &mut self.pools[index];
        let count = pool.count();
        let at = match self.order {
            Order::Random => {
                let count = u64::try_from(count).expect("a length fits 64 bits");
                usize::try_from(self.chance.below(count)).expect("below a length")
            }
            Order::Ascending => {
                let at = pool.next;
                pool.next = (at + 1) % count;
                at
            }
        };
        match &pool.members {
            Members::All(range) => {
                range.start + u32::try_from(at).expect("below the count of a range of u32")
            }
            Members::Some(numbers) => numbers[at],
        }
    }
}

impl Pool {
    fn count(&self) -> usize {
        match &self.members {
            Members::All(range) => range.len(),
            Members::Some(numbers) => numbers.len(),
        }
    }
}

/// The numbers of each lane's keys, as a server with so many lanes starts out.
fn by_lane(numbers: Range<u32>, lanes: u16) -> Vec<Vec<u32>> {
    let map = PartitionMap::even(lanes);
    let mut pools = vec![Vec::new(); usize::from(lanes)];
    let mut name = [PREFIX, &[b'0'; DIGITS_COUNT]].concat();
    for number in numbers {
        write_digits(&mut name[PREFIX.len()..], number);
        pools[usize::from(map.owner(Slot::of(&name)).0)].push(number);
    }
    pools
}

/// Writes the number over all of `digits`, with leading zeros.
pub(crate) fn write_digits(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane_of(number: u32) -> u16 {
        PartitionMap::even(4).owner_of(format!("key:{number:012}").as_bytes()).0
    }

    /// A slot is asked for by the lane that the server's own map gives it, whichever lane the connection is on.
    #[test]
    fn keys_belong_to_the_lane_that_is_asked_for() {
        for (owner, ahead) in [(Owner::Own, 0), (Owner::Next, 1)] {
            let mut keys = Keys::new(0..1000, 4, owner, Order::Random, 7).unwrap();
            for lane in 0..4 {
                for _ in 0..100 {
                    assert_eq!(lane_of(keys.next(lane)), (lane + ahead) % 4);
                }
            }
        }
    }

    #[test]
    fn chance_reaches_every_key_and_no_other() {
        let mut keys = Keys::new(5..55, 1, Owner::Any, Order::Random, 7).unwrap();
        let mut seen = [0; 60];
        for _ in 0..5000 {
            seen[usize::try_from(keys.next(0)).unwrap()] += 1;
        }
        assert!(seen[5..55].iter().all(|&count| (50..=200).contains(&count)), "{seen:?}");
        assert_eq!(seen.iter().sum::<u32>(), 5000);
    }

    #[test]
    fn ascending_keys_begin_again_after_the_last() {
        let mut keys = Keys::new(8..11, 1, Owner::Any, Order::Ascending, 7).unwrap();
        assert_eq!((0..7).map(|lane| keys.next(lane)).collect::<Vec<_>>(), [8, 9, 10, 8, 9, 10, 8]);
        let mut keys = Keys::new(0..1000, 4, Owner::Own, Order::Ascending, 7).unwrap();
        let of_two: Vec<u32> = (0..1000).filter(|&number| lane_of(number) == 2).collect();
        assert_eq!((0..of_two.len()).map(|_| keys.next(2)).collect::<Vec<_>>(), of_two);
    }

    #[test]
    fn keys_that_do_not_exist_are_refused() {
        assert!(Keys::new(3..3, 1, Owner::Any, Order::Random, 7).is_err());
        assert!(Keys::new(0..2, 4, Owner::Own, Order::Random, 7).is_err());
    }

    #[test]
    fn digits_fill_their_place() {
        let mut digits = [b'x'; DIGITS_COUNT];
        write_digits(&mut digits, 4_094_967_295);
        assert_eq!(&digits, b"004094967295");
    }
}
