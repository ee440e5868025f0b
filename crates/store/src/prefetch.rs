//! Asking the memory for a line before it is needed: the hint, and in tests a list of what was asked for.

/// As [`prefetch::prefetch`].
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(test)]
    asked::note(place.addr());
    ::prefetch::prefetch(place);
}

/// What a thread has asked for, as tests see it: a hint shows in nothing else.
#[cfg(test)]
pub(crate) mod asked {
    use std::cell::RefCell;

    thread_local! {
        static ADDRESSES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn note(address: usize) {
        ADDRESSES.with_borrow_mut(|addresses| addresses.push(address));
    }

    /// Addresses asked for since this was last called, in order.
    pub(crate) fn take() -> Vec<usize> {
        ADDRESSES.take()
    }
}
