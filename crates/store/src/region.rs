//! The memory of a shard, handed in from outside. The only module that has `unsafe`.
#![expect(
    unsafe_code,
    reason = "a mapped range becomes a slice in one place, with the caller's debts listed"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::prefetch::prefetch;

const PAGE_SIZE: usize = 4096;

/// A range of readable and writable bytes that nothing else touches.
///
/// The shard takes memory from its low end and touches pages only as it grows, so a large range that the kernel
/// backs on first touch (anonymous, `MAP_NORESERVE`) costs what is used of it.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    size: usize,
    /// The allocation that `base` lies in, if it is the region's own.
    owned: Option<NonNull<u8>>,
}

// SAFETY: a region is the only way to its bytes (`from_raw` demands it), so it may move to another thread as a whole.
unsafe impl Send for Region {}

impl Region {
    /// A zeroed range from the program's allocator, given back on drop. Large ranges come from untouched pages.
    pub fn new(size: usize) -> Region {
        let layout = Region::layout(size);
        // SAFETY: `layout` has a size above zero.
        let owned = unsafe { alloc_zeroed(layout) };
        let Some(owned) = NonNull::new(owned) else { handle_alloc_error(layout) };
        let skip = owned.addr().get().next_multiple_of(PAGE_SIZE) - owned.addr().get();
        // SAFETY: `skip` is less than the page that `layout` adds.
        let base = unsafe { owned.add(skip) };
        Region { base, size, owned: Some(owned) }
    }

    /// A range that somebody else mapped, such as an anonymous mapping near the lane's core. It is never unmapped.
    ///
    /// # Safety
    /// `base..base + size` is mapped readable and writable and holds initialised bytes for the rest of the process,
    /// `base` is aligned to 4 KiB, and nothing else reads or writes it. One exception: a range that
    /// `Shard::released` handed out may be reset to zeros by the kernel until it is given back.
    pub unsafe fn from_raw(base: NonNull<u8>, size: usize) -> Region {
        assert!(base.addr().get().is_multiple_of(PAGE_SIZE), "a region begins on a page");
        Region { base, size, owned: None }
    }

    /// Room for a page to begin in. A larger alignment would be had at once, but then the allocator touches all of it.
    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size + PAGE_SIZE, 16).expect("a region's size is below 2^63")
    }
}

impl Region {
    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.size
    }

    /// Whether so many bytes from `at` on lie in it.
    #[inline(always)]
    fn holds(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.size)
    }

    /// The bytes from `at` on, so many of them; they lie in the region.
    #[inline(always)]
    pub(crate) fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(self.holds(at, len), "a handle lies in the region");
        // SAFETY: `new` zeroed these bytes or `from_raw` was promised them, they are inside by the line above, and
        // `&self` keeps writers out.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), len) }
    }

    /// As `bytes`, to be written.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(self.holds(at, len), "a handle lies in the region");
        // SAFETY: as for `bytes`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), len) }
    }

    /// Asks the memory for the line that byte `at` lies in, if there is one.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        prefetch(self.base.as_ptr().wrapping_add(at));
    }

    /// Copies bytes from one place to another; the two may overlap.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) {
        let from = self.bytes(from, len).as_ptr();
        let to = self.bytes_mut(to, len).as_mut_ptr();
        // SAFETY: both ranges are inside, as `bytes` and `bytes_mut` have seen to, and no reference to them is left.
        unsafe { std::ptr::copy(from, to, len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(owned) = self.owned {
            // SAFETY: `new` allocated exactly this layout there, and no reference outlives the region.
            unsafe { dealloc(owned.as_ptr(), Region::layout(self.size)) }
        }
    }
}
