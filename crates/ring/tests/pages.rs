//! The thread that makes a ring touches its pages: where it runs, there they lie.
#![cfg(all(not(loom), not(miri), target_os = "linux"))]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs,
};

use ring::ring;

const SIZE: usize = 64 << 20;

/// Hands out new pages as zeroes without touching them, as allocators do that know they are new.
struct Lazy;

// SAFETY: the system's allocator does the work. Of what is as large as the ring the start is not kept, so it stays for good.
unsafe impl GlobalAlloc for Lazy {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < SIZE {
            // SAFETY: the caller keeps the contract of `alloc_zeroed`.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let larger = Layout::from_size_align(layout.size() + layout.align(), 8).expect("a size");
        // SAFETY: not empty, and longer by what may be skipped.
        unsafe {
            let bytes = System.alloc_zeroed(larger);
            bytes.add(bytes.align_offset(layout.align()))
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.size() < SIZE {
            // SAFETY: the caller keeps the contract of `dealloc`.
            unsafe { System.dealloc(pointer, layout) }
        }
    }
}

#[global_allocator]
static LAZY: Lazy = Lazy;

/// Bytes of this process that are in memory.
fn resident_size() -> usize {
    let text = fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS is there");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib * 1024
}

#[test]
fn who_makes_a_ring_touches_all_of_it() {
    let before = resident_size();
    let ends = ring::<u64>(SIZE, 0);
    let added = resident_size().saturating_sub(before);
    // The kernel counts in batches of a few hundred kilobytes.
    assert!(added >= SIZE - (4 << 20), "{added} bytes of {SIZE} are there");
    drop(ends);
}
