//! Each lane's memory: one range of addresses, reserved at start and never given back while the server runs.
//!
//! Reserving costs nothing: pages come with the first touch, which `paging.rs` sees to ahead of the lane. The kernel frees
//! pages on request without the range being unmapped.

use std::io;
use std::ptr::{self, NonNull};

use store::Region;

/// A shard uses at most 32 GiB less 1 MiB of its range.
const REGION_SIZE_MAX: usize = 32 << 30;
/// A lane with less would be of no use; below, reserving fails for good.
const REGION_SIZE_MIN: usize = 64 << 20;
/// Bytes of a huge page, of x86-64 and of 64-bit ARM with pages of 4 KiB. A range begins with one.
pub(crate) const HUGE_PAGE_SIZE: usize = 2 << 20;

/// Reserves a range of up to `wanted` bytes, halving where the kernel refuses (strict overcommit, address limits).
/// Returns it with its address and its size in bytes.
///
/// # Errors
/// The kernel's own, when not even [`REGION_SIZE_MIN`] is to be had.
pub(crate) fn reserve(wanted: u64) -> io::Result<Reserved> {
    let wanted = usize::try_from(wanted).unwrap_or(REGION_SIZE_MAX);
    let mut size = wanted.clamp(REGION_SIZE_MIN, REGION_SIZE_MAX);
    let base = loop {
        match map(size, HUGE_PAGE_SIZE) {
            Ok(base) => break base,
            Err(error) if size / 2 < REGION_SIZE_MIN => return Err(error),
            Err(_) => size /= 2,
        }
    };
    // A lane that touches a page before it was brought there waits for a small one: a huge one takes the kernel hundreds of
    // times as long.
    keep_pages_small(base.as_ptr().expose_provenance(), size);
    // SAFETY: the range is mapped readable and writable, zero, page-aligned, known to nobody else, and never unmapped.
    let region = unsafe { Region::from_raw(base, size) };
    Ok(Reserved { region, base: base.as_ptr().expose_provenance(), size })
}

/// A lane's memory before it is the shard's.
pub(crate) struct Reserved {
    pub(crate) region: Region,
    /// Where it begins: for telling the kernel about its pages.
    pub(crate) base: usize,
    /// Bytes.
    pub(crate) size: usize,
}

/// Has the pages of a range be small when they are touched, whatever the machine's default.
pub(crate) fn keep_pages_small(base: usize, size: usize) {
    // SAFETY: this advice changes no content. A kernel without huge pages refuses it, which changes nothing either.
    unsafe { libc::madvise(ptr::with_exposed_provenance_mut(base), size, libc::MADV_NOHUGEPAGE) };
}

/// Maps a range that begins at a multiple of `alignment`, readable and writable. Its pages come with the first touch.
///
/// # Errors
/// The kernel's own.
pub(crate) fn map(size: usize, alignment: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing one.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size + alignment,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base: NonNull<u8> =
        NonNull::new(base.cast()).expect("the kernel maps nothing at zero unless asked to");
    let skip = base.addr().get().next_multiple_of(alignment) - base.addr().get();
    // SAFETY: `skip` is less than what was mapped besides. What is skipped stays untouched.
    Ok(unsafe { base.add(skip) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_as_large_as_allowed() {
        assert_eq!(reserve(1).unwrap().size, REGION_SIZE_MIN);
        let reserved = reserve(256 << 20).unwrap();
        assert_eq!(reserved.size, 256 << 20);
        assert_eq!(reserved.base % HUGE_PAGE_SIZE, 0);
    }
}
