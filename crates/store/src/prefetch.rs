//! Asking the memory for a line before it is needed.
#![expect(unsafe_code, reason = "the hint takes a pointer, which it does not follow")]

/// Asks for the cache line that `place` points into, which may be anywhere. A hint: nothing waits for it, and where the
/// processor has none it does nothing.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(test)]
    asked::note(place.addr());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE; the hint reads nothing and faults at no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the hint reads nothing and faults at no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
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
