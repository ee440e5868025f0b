//! A list in pages: however long it is, nothing of it is copied, moved or dropped in one go.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// Items of a page.
const PAGE_COUNT: usize = 128;

/// A list that grows at its end by pages of [`PAGE_COUNT`] items, and shrinks by whole pages. Most have one page.
pub(crate) struct Paged<T> {
    /// Empty only if there are none at all.
    first: Vec<T>,
    /// None of them empty.
    others: VecDeque<Vec<T>>,
    count: usize,
}

impl<T> Default for Paged<T> {
    fn default() -> Paged<T> {
        Paged { first: Vec::new(), others: VecDeque::new(), count: 0 }
    }
}

impl<T> Paged<T> {
    pub(crate) fn of(item: T) -> Paged<T> {
        // A script has one behind it while it calls.
        let mut first = Vec::with_capacity(2);
        first.push(item);
        Paged { first, others: VecDeque::new(), count: 1 }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, item: T) {
        self.count += 1;
        match self.others.back_mut().unwrap_or(&mut self.first) {
            page if page.len() < PAGE_COUNT => page.push(item),
            _ => self.others.push_back(vec![item]),
        }
    }

    /// Takes the last item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.others.back_mut().unwrap_or(&mut self.first).pop();
        if self.others.back().is_some_and(Vec::is_empty) {
            self.others.pop_back();
        }
        self.count -= usize::from(item.is_some());
        item
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match index.checked_sub(PAGE_COUNT) {
            None => self.first.get(index),
            Some(index) => self.others.get(index / PAGE_COUNT)?.get(index % PAGE_COUNT),
        }
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(PAGE_COUNT) {
            None => self.first.get_mut(index),
            Some(index) => self.others.get_mut(index / PAGE_COUNT)?.get_mut(index % PAGE_COUNT),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.others.iter().flatten())
    }

    /// Takes the first page; what is behind it moves up in the count.
    pub(crate) fn take_first_page(&mut self) -> Option<Vec<T>> {
        let next = self.others.pop_front().unwrap_or_default();
        let page = std::mem::replace(&mut self.first, next);
        self.counted(page)
    }

    /// Takes the last page.
    pub(crate) fn take_last_page(&mut self) -> Option<Vec<T>> {
        let page = self.others.pop_back().unwrap_or_else(|| std::mem::take(&mut self.first));
        self.counted(page)
    }

    /// A page that has been taken; none if there was none.
    fn counted(&mut self, page: Vec<T>) -> Option<Vec<T>> {
        self.count -= page.len();
        (!page.is_empty()).then_some(page)
    }
}

impl<T> Index<usize> for Paged<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.get(index).expect("the index is below the count")
    }
}

impl<T> IndexMut<usize> for Paged<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.get_mut(index).expect("the index is below the count")
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
