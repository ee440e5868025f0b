//! A table of connections under checked handles. It grows a page at a time and never moves an entry, so that the
//! ten-thousandth connection costs its lane no more than the first.

use crate::ConnId;

/// Entries a page.
const PAGE_COUNT: usize = 256;

/// One bit of a handle's index is left free for the tokens of listeners and bells.
pub(crate) const INDEX_MAX: u32 = (1 << 31) - 1;

/// The generation stands in front: what is looked at first of a connection should be, too.
#[derive(Debug)]
#[repr(C)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Slots<T> {
    pages: Vec<Box<[Slot<T>; PAGE_COUNT]>>,
    free: Vec<u32>,
    count: u32,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { pages: Vec::new(), free: Vec::new(), count: 0 }
    }

    pub(crate) fn insert(&mut self, value: T) -> ConnId {
        if let Some(index) = self.free.pop() {
            let slot = self.slot_mut(index).expect("a free index lies in a page");
            assert!(slot.value.is_none(), "a free slot is empty");
            slot.value = Some(value);
            return ConnId { index, generation: slot.generation };
        }
        assert!(self.count < INDEX_MAX, "fewer connections than descriptors can exist");
        let (page, _) = place(self.count);
        if page == self.pages.len() {
            let empty: Box<[Slot<T>]> =
                (0..PAGE_COUNT).map(|_| Slot { generation: 1, value: None }).collect();
            self.pages.push(empty.try_into().ok().expect("as many slots as a page has"));
        }
        let index = self.count;
        self.slot_mut(index).expect("a page was just added").value = Some(value);
        self.count += 1;
        ConnId { index, generation: 1 }
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<&T> {
        let (page, place) = place(conn.index);
        let slot = &self.pages.get(page)?[place];
        if slot.generation == conn.generation { slot.value.as_ref() } else { None }
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, conn: ConnId) -> Option<&mut T> {
        let slot = self.slot_mut(conn.index)?;
        if slot.generation == conn.generation { slot.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<T> {
        let slot = self.slot_mut(conn.index)?;
        if slot.generation != conn.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(conn.index);
        Some(value)
    }

    #[inline(always)]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        let (page, place) = place(index);
        Some(&mut self.pages.get_mut(page)?[place])
    }
}

/// Which page, and where in it.
fn place(index: u32) -> (usize, usize) {
    let index = usize::try_from(index).expect("an address is wider than an index");
    (index / PAGE_COUNT, index % PAGE_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_reaches_nobody() {
        let mut slots = Slots::new();
        let first = slots.insert("first");
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(second.index(), first.index(), "indices are reused");
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get(second), Some(&"second"));
    }

    #[test]
    fn entries_keep_their_address_while_the_table_grows() {
        let mut slots = Slots::new();
        let first = slots.insert(0usize);
        let address: *const usize = slots.get(first).unwrap();
        let all: Vec<_> = (1..5 * PAGE_COUNT).map(|number| slots.insert(number)).collect();
        assert_eq!(address, std::ptr::from_ref(slots.get(first).unwrap()));
        for (number, conn) in all.iter().enumerate() {
            assert_eq!(slots.get(*conn), Some(&(number + 1)));
        }
    }
}
