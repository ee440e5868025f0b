//! Changes of an integer's width that cannot lose anything, each with the promise that makes it so.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a lane's region is up to 32 GiB: the store needs 64-bit addresses");

/// A count or an offset that the caller keeps below 2^32 (granules of a region, entries of a partition).
pub(crate) fn narrow(value: usize) -> u32 {
    u32::try_from(value).expect("counts and offsets of a shard stay below 2^32")
}

/// A length of which the caller has checked that it is below 2^16 (a key, an inline value, objects of a span).
pub(crate) fn short(value: usize) -> u16 {
    u16::try_from(value).expect("lengths of inline parts stay below 2^16")
}

/// A 64-bit number as an index; `usize` has 64 bits on every target that this crate compiles for.
pub(crate) fn index(value: u64) -> usize {
    usize::try_from(value).expect("usize has 64 bits")
}
