//! A list in pages: however long it is, nothing of it is copied, moved or dropped in one go.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// Items of a page.
const PAGE_COUNT: usize = 128;

/// A list that grows at its end by pages of [`PAGE_COUNT`] items, and shrinks by whole pages.
pub(crate) struct Paged<T> {
    pages: VecDeque<Vec<T>>,
    count: usize,
}

impl<T> Default for Paged<T> {
    fn default() -> Paged<T> {
        Paged { pages: VecDeque::new(), count: 0 }
    }
}

impl<T> Paged<T> {
    pub(crate) fn of(item: T) -> Paged<T> {
        // A script has one behind it while it calls.
        let mut page = Vec::with_capacity(2);
        page.push(item);
        Paged { pages: VecDeque::from([page]), count: 1 }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, item: T) {
        self.count += 1;
        match self.pages.back_mut() {
            Some(page) if page.len() < PAGE_COUNT => page.push(item),
            _ => self.pages.push_back(vec![item]),
        }
    }

    /// Takes the last item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let page = self.pages.back_mut()?;
        let item = page.pop();
        if page.is_empty() {
            self.pages.pop_back();
        }
        self.count -= usize::from(item.is_some());
        item
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.pages.get(index / PAGE_COUNT)?.get(index % PAGE_COUNT)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }

    /// Takes the first page; what is behind it moves up in the count.
    pub(crate) fn take_first_page(&mut self) -> Option<Vec<T>> {
        let page = self.pages.pop_front()?;
        self.count -= page.len();
        Some(page)
    }

    /// Takes the last page.
    pub(crate) fn take_last_page(&mut self) -> Option<Vec<T>> {
        let page = self.pages.pop_back()?;
        self.count -= page.len();
        Some(page)
    }
}

impl<T> Index<usize> for Paged<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.pages[index / PAGE_COUNT][index % PAGE_COUNT]
    }
}

impl<T> IndexMut<usize> for Paged<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.pages[index / PAGE_COUNT][index % PAGE_COUNT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_list_whose_pages_can_be_taken() {
        let mut paged = Paged::of(0);
        (1..300).for_each(|item| paged.push(item));
        assert!(paged.iter().copied().eq(0..300));
        assert!((0..300).all(|index| paged[index] == index && paged.get(index) == Some(&index)));
        assert_eq!((paged.len(), paged.get(300)), (300, None));
        paged[200] = 7;
        assert_eq!((paged.get(200), paged.get(200 - PAGE_COUNT)), (Some(&7), Some(&(200 - PAGE_COUNT))));
        paged[200] = 200;
        assert_eq!(paged.take_last_page(), Some((256..300).collect()));
        assert_eq!(paged.take_first_page(), Some((0..128).collect()));
        paged[0] = 7;
        assert_eq!(
            (paged.len(), paged.get(0), paged.get(127), paged.get(128)),
            (128, Some(&7), Some(&255), None)
        );
        assert_eq!(paged.take_first_page().map(|page| page.len()), Some(128));
        assert_eq!((paged.take_first_page(), paged.take_last_page(), paged.len()), (None, None, 0));
    }
}
