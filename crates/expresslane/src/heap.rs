//! Where everything lies that is not in a lane's region: buffers of clients, commands under way, values above 32 KiB.
//!
//! ```text
//! lane 0 ── its heap ── a range of addresses of its own, on its node      other threads ── one range for all of them
//!              ▲
//! lane 1 ── frees what it was given ── one atomic write; lane 0 takes it back when it needs more
//! ```
//! The C library's allocator locks the heap that memory came from while anyone frees it, and makes room in steps of some pages
//! with a system call that stops all threads that fault meanwhile. mimalloc does neither: what another thread frees is pushed to
//! its page's list without a lock. Ranges of lanes are given to it whole and readable, so that after the first touch of a page no
//! allocation and no freeing enters the kernel, but for a block above 16 MiB that another thread frees. Of segments (32 MiB of a
//! range) that hold nothing at all a thread of its own gives the pages back, every few seconds.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};
use std::thread;
use std::time::Duration;

use libmimalloc_sys as sys;

use crate::control::{self, Level};
use crate::{machine, paging, region};

#[global_allocator]
static HEAP: Heap = Heap;

/// mimalloc, by the shorter of its two ways where that gives the alignment that is wanted: half the instructions of an allocation.
struct Heap;

/// What every block is aligned to that is as large (`MI_MAX_ALIGN_SIZE`). A smaller one is aligned to its size.
const ALIGNMENT: usize = 16;

fn is_aligned_anyway(size: usize, alignment: usize) -> bool {
    alignment <= ALIGNMENT && alignment <= size
}

// SAFETY: mimalloc's blocks are as large as is asked for, aligned as is said above or asked for, and nobody else's until they are freed; it
// does not unwind.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: an alignment is a power of two.
        unsafe {
            match is_aligned_anyway(layout.size(), layout.align()) {
                true => sys::mi_malloc(layout.size()),
                false => sys::mi_malloc_aligned(layout.size(), layout.align()),
            }
        }
        .cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            match is_aligned_anyway(layout.size(), layout.align()) {
                true => sys::mi_zalloc(layout.size()),
                false => sys::mi_zalloc_aligned(layout.size(), layout.align()),
            }
        }
        .cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the block came from here, and is not used any more.
        unsafe { sys::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from here; an alignment is a power of two.
        unsafe {
            match is_aligned_anyway(size, layout.align()) {
                true => sys::mi_realloc(block.cast(), size),
                false => sys::mi_realloc_aligned(block.cast(), size, layout.align()),
            }
        }
        .cast()
    }
}

/// A range for a heap begins at a multiple of this many bytes, and is a multiple of it long (`MI_SEGMENT_SIZE`).
const SEGMENT_SIZE: usize = 32 << 20;
/// More than a machine has: what is asked for is never touched. Lanes share 128 TiB of addresses.
const HEAP_SIZE_MAX: u64 = 1 << 40;
/// Of all threads that are no lanes: as much as the allocator takes at a time by itself.
const SHARED_SIZE: usize = 1 << 30;

// Numbers of options in mimalloc 2 (`mi_option_e`), which the crate has names for in part. The tests compare them with what they
// are by default.
/// How many of a thread's first segments are brought in piece by piece where memory is not overcommitted.
const EAGER_COMMIT_DELAY: c_int = 14;
/// Milliseconds after which a thread that frees something gives back pages that have become free before.
const PURGE_DELAY: c_int = 15;
/// Longer than anybody waits, but for [`give_back`], which does not. With less than zero nothing could ever be given back.
const PURGE_DELAY_NEVER: c_long = 10_000_000_000_000;
/// How often the slow path of allocating looks through all of a heap's pages.
const GENERIC_COLLECT: c_int = 36;
const GENERIC_COLLECT_MAX: c_long = 1_000_000;

/// Before the first allocation, and so before `main`: what it took before would be in a huge page, 2 MiB for a kilobyte.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;

/// Sets what holds for all threads, and gives those that are no lanes a range.
extern "C" fn prepare() {
    // SAFETY: sets numbers that the allocator reads.
    unsafe {
        sys::mi_option_set(EAGER_COMMIT_DELAY, 0);
        sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_NEVER);
        sys::mi_option_set(GENERIC_COLLECT, GENERIC_COLLECT_MAX);
    }
    // Where addresses are scarce, and beyond these, the allocator finds some itself.
    arena(SHARED_SIZE, None, false);
}

/// Gives threads that are no lanes, and lanes until they have settled, more of a range if so many lanes would use it up: a segment
/// each. What the allocator finds itself lies on huge pages, 2 MiB for a kilobyte.
pub(crate) fn make_room(lane_count: usize) {
    if lane_count * SEGMENT_SIZE > SHARED_SIZE / 2 {
        arena(lane_count * SEGMENT_SIZE, None, false);
    }
}

/// Gives the calling thread a heap in a range of its own, as large as the machine's memory, whose pages come from `node` while it has
/// some. False: addresses are scarce, and the thread shares a range with others.
pub(crate) fn settle(memory_size: u64, node: Option<u16>) -> bool {
    let size = memory_size.min(HEAP_SIZE_MAX).next_multiple_of(SEGMENT_SIZE as u64);
    let Some(arena) = usize::try_from(size).ok().and_then(|size| arena(size, node, true)) else {
        return false;
    };
    // SAFETY: the heap is made by the thread that will use it, in a range that the allocator has.
    unsafe {
        let heap = sys::mi_heap_new_in_arena(arena);
        if heap.is_null() {
            return false;
        }
        sys::mi_heap_set_default(heap);
    }
    true
}

/// So often pages are given back. A lane that uses one again waits a microsecond for it.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(5);

/// Starts the thread that gives back pages of heaps. It ends with the process.
#[expect(clippy::disallowed_methods, reason = "the thread is no lane")]
pub(crate) fn start(gives_way: bool) -> Result<(), String> {
    let run = move || {
        if gives_way && let Err(error) = paging::give_way() {
            let text =
                format!("the thread that gives memory back can't give way to lanes on its core: {error}");
            control::log(Level::Warn, &text);
        }
        loop {
            thread::sleep(GIVE_BACK_EVERY);
            give_back();
        }
    };
    thread::Builder::new()
        .name("heaps".to_owned())
        .spawn(run)
        .map(|_| ())
        .map_err(|error| format!("the thread that gives memory back can't be started: {error}"))
}

/// Gives back to the system the pages of segments that are free, of all heaps: a system call for as many as lie beside each other.
/// That takes a second for 50 GB, so it is nothing for a lane.
fn give_back() {
    // SAFETY: the calling thread has a heap, without which nothing is done. That is looked through, and what is free in ranges is
    // claimed while its pages go.
    unsafe {
        sys::mi_thread_init();
        sys::mi_collect(true);
    }
}

/// A range of addresses for the allocator, for heaps that name it or for all that name none.
fn arena(size: usize, node: Option<u16>, is_named: bool) -> Option<sys::mi_arena_id_t> {
    let base = region::map(size, SEGMENT_SIZE).ok()?;
    let address = base.as_ptr().expose_provenance();
    region::keep_pages_small(address, size);
    if let Some(node) = node {
        // If that can't be had, the lane says so when it asks the same for its region.
        let _ = machine::prefer_memory(address, size, node);
    }
    let mut arena = 0;
    // SAFETY: the range is mapped readable and writable, zero, aligned as the allocator wants it, known to nobody else, and never
    // unmapped. It does not consist of pages that can't be given back.
    let is_taken = unsafe {
        sys::mi_manage_os_memory_ex(
            base.as_ptr().cast(),
            size,
            true,
            false,
            true,
            -1,
            is_named,
            &raw mut arena,
        )
    };
    is_taken.then_some(arena)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ptr;
    use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

    use super::*;

    #[test]
    fn blocks_are_aligned_as_is_asked_for() {
        let sizes = (0..=80).chain([127, 128, 4095, 4096, 40_000, 2_000_000]);
        for (size, alignment) in sizes.flat_map(|size| (0..13).map(move |bit| (size, 1 << bit))) {
            let layout = Layout::from_size_align(size.max(1), alignment).unwrap();
            // SAFETY: a size is never zero; each block is used within its size, and freed once.
            unsafe {
                // A second one, for the first of a page is aligned to more.
                let blocks = [HEAP.alloc(layout), HEAP.alloc_zeroed(layout)];
                for block in blocks {
                    assert!(!block.is_null() && block.addr().is_multiple_of(alignment), "{layout:?}");
                }
                assert!((0..layout.size()).all(|at| *blocks[1].add(at) == 0), "{layout:?}");
                blocks[0].write_bytes(7, layout.size());
                let grown = HEAP.realloc(blocks[0], layout, layout.size() + 40);
                assert!(grown.addr().is_multiple_of(alignment), "{layout:?}");
                assert!((0..layout.size()).all(|at| *grown.add(at) == 7), "{layout:?}");
                let small =
                    HEAP.realloc(grown, Layout::from_size_align(layout.size() + 40, alignment).unwrap(), 1);
                assert!(small.addr().is_multiple_of(alignment) && *small == 7, "{layout:?}");
                HEAP.dealloc(small, Layout::from_size_align(1, alignment).unwrap());
                HEAP.dealloc(blocks[1], layout);
            }
        }
    }

    #[test]
    fn options_have_the_numbers_that_the_allocator_gives_them() {
        let _alone = prepared();
        assert_eq!(DEFAULTS.get(), Some(&[1, 10, 10_000]));
    }

    #[test]
    fn a_lane_allocates_in_its_own_range() {
        let places = settled_lanes(|| {
            let (small, large) = (Box::new(1_u8), vec![1_u8; 20 << 20]);
            [ptr::from_ref(&*small).addr(), large.as_ptr().addr()]
        });
        for [small, large] in places {
            assert!(small.abs_diff(large) < RANGE_SIZE);
        }
        assert!(places[0][0].abs_diff(places[1][0]) >= RANGE_SIZE);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the allocator goes by the clock")]
    fn what_was_freed_is_there_again_without_the_kernel() {
        let _alone = prepared();
        let values = |count: usize| {
            let values: Vec<_> = (0..count).map(|_| vec![1_u8; 40_000]).collect();
            values.iter().map(|value| value.as_ptr().addr()).collect::<BTreeSet<usize>>()
        };
        let looks = settled_lanes(|| {
            // Of the range all but a fiftieth.
            let all = values(5_900);
            // Longer than by default the allocator would wait, until somebody frees a segment.
            thread::sleep(Duration::from_millis(300));
            values(2_000);
            let new_count = values(1_000).difference(&all).count();
            (new_count, all.iter().filter(|address| !is_present(**address)).count())
        });
        // As many as 12 pieces of 512 KiB had no value yet.
        let is_there = |(new_count, gone_count): &(usize, usize)| *new_count < 200 && *gone_count == 0;
        assert!(
            looks.iter().all(is_there),
            "{looks:?} values were where none had been, pages were given back"
        );
    }

    /// By another thread, while its owner goes on. The allocator lets one thread do so at a time.
    #[test]
    fn pages_of_segments_that_are_free_are_given_back() {
        let _alone = prepared();
        let lane = || {
            assert!(settle(RANGE_SIZE as u64, None));
            let mut values: Vec<_> = (0..5_000).map(|_| vec![1_u8; 40_000]).collect();
            let all: Vec<usize> = values.iter().map(|value| value.as_ptr().addr()).collect();
            values.truncate(1_000);
            thread::scope(|scope| scope.spawn(give_back).join()).unwrap();
            let kept_count = all.iter().filter(|address| is_present(**address)).count();
            assert!(values.iter().flatten().all(|byte| *byte == 1));
            // What was given back can be had again.
            values.resize_with(5_000, || vec![1; 40_000]);
            assert!(values.iter().flatten().all(|byte| *byte == 1));
            kept_count
        };
        let kept_count = thread::scope(|scope| scope.spawn(lane).join()).unwrap();
        assert!((1_000..2_500).contains(&kept_count), "of 5,000 are still there: {kept_count}");
    }

    #[test]
    fn what_another_thread_frees_comes_back() {
        let (give, take) = mpsc::sync_channel::<Vec<u8>>(100);
        let freed: usize = thread::scope(|scope| {
            let freer = scope.spawn(move || take.into_iter().map(|value| value.len()).sum());
            scope.spawn(move || {
                assert!(settle(RANGE_SIZE as u64, None));
                // Ten times the range.
                for _ in 0..10 * (RANGE_SIZE >> 20) {
                    give.send(vec![1; 1 << 20]).unwrap();
                }
            });
            freer.join().unwrap()
        });
        assert_eq!(freed, 10 * RANGE_SIZE);
    }

    /// What the options were before any test has set them.
    static DEFAULTS: OnceLock<[c_long; 3]> = OnceLock::new();

    /// What holds for all threads is set; and nobody else gives anything back.
    fn prepared() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        DEFAULTS.get_or_init(|| {
            // SAFETY: reads a number.
            [EAGER_COMMIT_DELAY, PURGE_DELAY, GENERIC_COLLECT]
                .map(|option| unsafe { sys::mi_option_get(option) })
        });
        prepare();
        alone
    }

    const RANGE_SIZE: usize = 256 << 20;
    const PAGE_SIZE: usize = 4096;

    /// What two threads with heaps of their own return.
    fn settled_lanes<T: Send>(body: impl Fn() -> T + Sync) -> [T; 2] {
        let lane = || {
            assert!(settle(RANGE_SIZE as u64, None));
            body()
        };
        thread::scope(|scope| [scope.spawn(lane), scope.spawn(lane)].map(|lane| lane.join().unwrap()))
    }

    /// Whether the page at an address is there. What the kernel does with it as long as it is, as when another test forks, is its own affair.
    fn is_present(address: usize) -> bool {
        let page = ptr::with_exposed_provenance_mut(address & !(PAGE_SIZE - 1));
        let mut present = 0;
        // SAFETY: the page is mapped, and there is a byte for it.
        assert_eq!(unsafe { libc::mincore(page, PAGE_SIZE, &raw mut present) }, 0);
        present & 1 == 1
    }
}
