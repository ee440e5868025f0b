//! Asking the memory for a line before it is needed.

/// As [`prefetch::prefetch`]; tests see what was asked for.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(test)]
    prefetch::asked::note(place.addr());
    prefetch::prefetch(place);
}
