//! The queues by name. A name has a place in a bucket of a few, as long as one is free, and else in a tree: however many names are locked,
//! nothing is ever moved to make room, and with some thousands a look-up touches one place and not a path through the tree.

use std::array;
use std::collections::BTreeMap;

use super::{LockName, Queue};

/// Places of a bucket, buckets of a page, pages: 8,192 places. A page comes when it is needed, and stays.
const PLACES: usize = 4;
const BUCKETS: usize = 32;
const PAGES: usize = 64;

type Bucket = [Option<(LockName, Queue)>; PLACES];

/// See the top of this file.
pub(super) struct Queues {
    pages: [Option<Box<[Bucket; BUCKETS]>>; PAGES],
    /// What found no place in its bucket.
    others: BTreeMap<LockName, Queue>,
    count: usize,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues { pages: [const { None }; PAGES], others: BTreeMap::new(), count: 0 }
    }
}

/// The page of a name, and its bucket there. A key's hash is uniform.
fn place_of(name: &LockName) -> (usize, usize) {
    // Databases lie apart: the factor is 2^64 divided by the golden ratio.
    let hash = name.key.unwrap_or(0).wrapping_add(u64::from(name.db).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bucket = (hash >> 32) as usize % (PAGES * BUCKETS);
    (bucket / BUCKETS, bucket % BUCKETS)
}

impl Queues {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn get(&self, name: &LockName) -> Option<&Queue> {
        let (page, bucket) = place_of(name);
        let places = self.pages[page].as_ref().map_or(&[][..], |page| &page[bucket]);
        match places.iter().flatten().find(|(other, _)| other == name) {
            Some((_, queue)) => Some(queue),
            None if self.others.is_empty() => None,
            None => self.others.get(name),
        }
    }

    pub(super) fn get_mut(&mut self, name: &LockName) -> Option<&mut Queue> {
        let (page, bucket) = place_of(name);
        let places = self.pages[page].as_mut().map_or(&mut [][..], |page| &mut page[bucket]);
        match places.iter_mut().flatten().find(|(other, _)| other == name) {
            Some((_, queue)) => Some(queue),
            None if self.others.is_empty() => None,
            None => self.others.get_mut(name),
        }
    }

    /// The queue of a name; `fresh` makes one if there is none.
    pub(super) fn entry(&mut self, name: LockName, fresh: impl FnOnce() -> Queue) -> &mut Queue {
        let (page, bucket) = place_of(&name);
        let empty = || Box::new(array::from_fn(|_| [const { None }; PLACES]));
        let places = &mut self.pages[page].get_or_insert_with(empty)[bucket];
        let is_there =
            |place: &Option<(LockName, Queue)>| place.as_ref().is_some_and(|(other, _)| *other == name);
        let at = match places.iter().position(is_there) {
            Some(at) => Some(at),
            None if self.others.contains_key(&name) => None,
            None => {
                self.count += 1;
                places.iter().position(Option::is_none)
            }
        };
        match at {
            Some(at) => &mut places[at].get_or_insert_with(|| (name, fresh())).1,
            None => self.others.entry(name).or_insert_with(fresh),
        }
    }

    /// Changes the queue of a name, which there is, and takes it out if that says so.
    pub(super) fn take_if(
        &mut self,
        name: LockName,
        change: impl FnOnce(&mut Queue) -> bool,
    ) -> Option<Queue> {
        let (page, bucket) = place_of(&name);
        let places = self.pages[page].as_mut().map_or(&mut [][..], |page| &mut page[bucket]);
        let place = places.iter_mut().find(|place| place.as_ref().is_some_and(|(other, _)| *other == name));
        let queue = match place {
            Some(place) => place.take_if(|(_, queue)| change(queue)).map(|(_, queue)| queue),
            None => {
                let is_gone = change(self.others.get_mut(&name).expect("there is such a queue"));
                if is_gone { self.others.remove(&name) } else { None }
            }
        };
        self.count -= usize::from(queue.is_some());
        queue
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&LockName, &Queue)> {
        let placed = self.pages.iter().flatten().flat_map(|page| page.iter().flatten().flatten());
        placed.map(|(name, queue)| (name, queue)).chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of one bucket.
    fn names_of_one_bucket(count: usize) -> Vec<LockName> {
        (0..).map(|hash| LockName { db: 0, key: Some(hash) }).take(count).collect()
    }

    #[test]
    fn what_finds_no_place_is_found_all_the_same() {
        let mut queues = Queues::default();
        let names = names_of_one_bucket(3 * PLACES);
        assert!(names.iter().all(|name| place_of(name) == place_of(&names[0])));
        for (nth, name) in (0..).zip(&names) {
            assert!(queues.get(name).is_none() && queues.get_mut(name).is_none());
            queues.entry(*name, Queue::default).waiting_count = nth;
        }
        assert_eq!(queues.others.len(), 2 * PLACES);
        // One that is in the tree stays there when a place is free: it is one queue.
        assert!(queues.take_if(names[1], |_| true).is_some());
        for (nth, name) in (0..).zip(&names).filter(|&(nth, _)| nth != 1) {
            assert_eq!(queues.get(name).expect("still there").waiting_count, nth);
            assert_eq!(queues.get_mut(name).expect("still there").waiting_count, nth);
            let fresh = || unreachable!("there is one");
            assert_eq!(queues.entry(*name, fresh).waiting_count, nth);
        }
        queues.entry(names[1], Queue::default);
        assert_eq!((queues.iter().count(), queues.count), (names.len(), names.len()));
        for name in &names {
            assert!(queues.take_if(*name, |_| false).is_none() && !queues.is_empty());
            assert!(queues.take_if(*name, |_| true).is_some() && queues.get(name).is_none());
        }
        assert!(queues.is_empty());
    }

    #[test]
    fn databases_lie_apart() {
        let buckets: std::collections::BTreeSet<_> =
            (0..16).map(|db| place_of(&LockName { db, key: None })).collect();
        assert_eq!(buckets.len(), 16);
    }
}
