//! A table under generation-checked handles. Whoever outlives an entry holds a handle that finds nothing,
//! never the entry that took its place: an answer for a client that left cannot reach its successor. It grows a page at a time
//! and never moves an entry, so that the ten-thousandth costs its lane no more than the first.

use std::fmt;
use std::marker::PhantomData;

/// Entries a page.
const PAGE_COUNT: usize = 64;

/// Names one entry of one [`Slab`]; stays unique while fewer than 2^32 entries have used its place.
pub(crate) struct Handle<T> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// As it travels in a message: `generation << 32 | index`.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The inverse of [`Handle::to_bits`]. Bits made up by anyone else find nothing or a wrong entry of the
    /// right type; they are never unsound.
    pub(crate) fn from_bits(bits: u64) -> Self {
        let index = u32::try_from(bits & u64::from(u32::MAX)).expect("masked to 32 bits");
        let generation = u32::try_from(bits >> 32).expect("shifted to 32 bits");
        Handle { index, generation, of: PhantomData }
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}
impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}
impl<T> Eq for Handle<T> {}
impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// The generation stands in front: what is looked at first of an entry should be, too.
#[repr(C)]
struct Place<T> {
    generation: u32,
    entry: Option<T>,
}

/// Entries at stable places; freed places are used again, under a new generation.
pub(crate) struct Slab<T> {
    pages: Vec<Box<Page<T>>>,
    /// Places that are or were in use; those behind them are empty.
    place_count: usize,
    free: Vec<u32>,
}

type Page<T> = [Place<T>; PAGE_COUNT];

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { pages: Vec::new(), place_count: 0, free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts an entry into a free place.
    pub(crate) fn insert(&mut self, entry: T) -> Handle<T> {
        let index = self.free.pop().unwrap_or_else(|| self.add_place());
        let place = self.place_mut(index).expect("a free place lies in a page");
        place.entry = Some(entry);
        Handle { index, generation: place.generation, of: PhantomData }
    }

    fn add_place(&mut self) -> u32 {
        let index = u32::try_from(self.place_count).expect("a slab holds fewer than 2^32 entries");
        if self.place_count.is_multiple_of(PAGE_COUNT) {
            let empty: Box<[Place<T>]> =
                (0..PAGE_COUNT).map(|_| Place { generation: 0, entry: None }).collect();
            self.pages.push(empty.try_into().ok().expect("as many places as a page has"));
        }
        self.place_count += 1;
        index
    }

    #[inline]
    fn place(&self, index: usize) -> Option<&Place<T>> {
        Some(&self.pages.get(index / PAGE_COUNT)?[index % PAGE_COUNT])
    }

    #[inline]
    fn place_mut(&mut self, index: u32) -> Option<&mut Place<T>> {
        let index = index as usize;
        Some(&mut self.pages.get_mut(index / PAGE_COUNT)?[index % PAGE_COUNT])
    }

    /// The entry, unless it has left.
    pub(crate) fn get(&self, handle: Handle<T>) -> Option<&T> {
        let place = self.place(handle.index as usize)?;
        if place.generation == handle.generation { place.entry.as_ref() } else { None }
    }

    /// The entry, unless it has left.
    pub(crate) fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        let place = self.place_mut(handle.index)?;
        if place.generation == handle.generation { place.entry.as_mut() } else { None }
    }

    /// Takes the entry out; every copy of its handle finds nothing from now on.
    pub(crate) fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        self.vacate(handle, Option::take)
    }

    /// As [`Slab::remove`], where it is wanted no more: a large one is not moved.
    pub(crate) fn discard(&mut self, handle: Handle<T>) {
        self.vacate(handle, |entry| entry.is_some().then(|| *entry = None));
    }

    fn vacate<R>(&mut self, handle: Handle<T>, take: impl FnOnce(&mut Option<T>) -> Option<R>) -> Option<R> {
        let place = self.place_mut(handle.index)?;
        if place.generation != handle.generation {
            return None;
        }
        let taken = take(&mut place.entry)?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(handle.index);
        Some(taken)
    }

    /// A bound for [`Slab::at`].
    pub(crate) fn place_count(&self) -> usize {
        self.place_count
    }

    /// The entry at a place, for going round all of them some at a time.
    pub(crate) fn at(&self, index: usize) -> Option<(Handle<T>, &T)> {
        let place = self.place(index)?;
        let entry = place.entry.as_ref()?;
        let index = u32::try_from(index).expect("a slab holds fewer than 2^32 entries");
        Some((Handle { index, generation: place.generation, of: PhantomData }, entry))
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.place_count - self.free.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_outlives_its_entry_and_finds_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index, "the place is used again");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(Handle::from_bits(second.to_bits())), Some(&"second"));
        assert_eq!(slab.len(), 1);
        slab.discard(first);
        assert_eq!(slab.get(second), Some(&"second"));
        slab.discard(second);
        slab.discard(second);
        assert_eq!((slab.get(second), slab.len()), (None, 0));
    }

    #[test]
    fn entries_stay_where_they_are_while_it_grows() {
        let mut slab = Slab::default();
        let first = slab.insert(0);
        let address = std::ptr::from_ref(slab.get(first).unwrap());
        let all: Vec<_> = (1..5 * PAGE_COUNT).map(|number| slab.insert(number)).collect();
        assert_eq!(std::ptr::from_ref(slab.get(first).unwrap()), address);
        assert!(all.iter().zip(1..).all(|(handle, number)| slab.get(*handle) == Some(&number)));
        assert_eq!((slab.place_count(), slab.len()), (5 * PAGE_COUNT, 5 * PAGE_COUNT));
        assert_eq!(slab.at(3 * PAGE_COUNT).map(|(_, number)| *number), Some(3 * PAGE_COUNT));
        assert!(slab.at(5 * PAGE_COUNT).is_none());
    }
}
