//! A ring allocates what it says when it is made, and nothing afterwards.
#![cfg(not(loom))]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use ring::{memory_size, ring};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// Wraps, as what one thread allocates another may free.
    static SIZE: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work; counting touches thread-locals that need no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        SIZE.set(SIZE.get().wrapping_add(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        SIZE.set(SIZE.get().wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_ring_allocates_what_it_says_and_only_when_it_is_made() {
    check::<u64>(1024, 5);
    check::<[u8; 32]>(64, 8);
    check::<String>(4096, 0);
}

/// What docs/rings.md reckons with for a machine of 94 lanes.
#[test]
fn a_ring_costs_384_bytes_beside_its_bytes_and_slots() {
    assert_eq!(memory_size::<()>(512, 0), 512 + 384);
    assert_eq!(memory_size::<[u64; 2]>(2048, 3), 2048 + 4 * 16 + 384);
}

fn check<P: Send + Default>(size: usize, parcels: usize) {
    let (count, before) = (COUNT.get(), SIZE.get());
    let (mut to, mut from) = ring::<P>(size, parcels);
    let taken = SIZE.get().wrapping_sub(before);
    assert!(taken <= memory_size::<P>(size, parcels), "{taken}");
    assert!(memory_size::<P>(size, parcels) <= taken + 128, "a close bound: {taken}");
    assert!(COUNT.get() <= count + 3);

    let count = COUNT.get();
    for _ in 0..1000 {
        to.push(&[b"12345"], (0 < parcels).then(P::default));
        to.publish();
        assert!(from.peek().is_some());
        drop(from.take_parcel());
        from.pop();
        from.release();
    }
    assert_eq!(COUNT.get(), count, "nothing after it was made");
    drop((to, from));
    assert_eq!(SIZE.get(), before, "all given back");
}
