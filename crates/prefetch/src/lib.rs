//! Asking the memory for a cache line before it is needed.
#![deny(unsafe_code)]

/// Bytes that one hint brings near, on x86-64; arm64 servers bring as many or twice that.
pub const LINE_SIZE: usize = 64;

/// Asks for the cache line that `place` points into, which may be anywhere. A hint: nothing waits for it, and where the
/// processor has none it does nothing.
#[inline(always)]
#[expect(unsafe_code, reason = "the hint takes a pointer, which it does not follow")]
pub fn prefetch<T>(place: *const T) {
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

/// What a thread has asked for, for tests of those who ask: a hint shows in nothing else. They note it themselves, in their tests alone.
pub mod asked {
    use std::cell::RefCell;

    thread_local! {
        static ADDRESSES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// This address was asked for.
    pub fn note(address: usize) {
        ADDRESSES.with_borrow_mut(|addresses| addresses.push(address));
    }

    /// Addresses asked for since this was last called, in order.
    pub fn take() -> Vec<usize> {
        ADDRESSES.take()
    }
}
