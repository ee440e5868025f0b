//! Buffers that the kernel receives into, chosen by it when there is something to receive (provided buffers,
//! `io_uring_register_buf_ring(3)`).
//!
//! ```text
//!   entries  [ address, size, number | … ]  count × 16 bytes; the tail lies in the first one's last two bytes
//!   bytes    [ 4 KiB, 5 lines | 4 KiB, 5 lines | … ]          touched only as far as something was received
//! ```
//! A buffer is the kernel's from `give_back` to the completion that names it, and ours from there to `give_back`.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// One receive, at most.
pub(super) const BUFFER_SIZE: usize = 4 * 1024;

/// From one buffer's first byte to the next one's. Those of equal places in pages would all lie in the same few sets of the
/// processor's caches: of 128 requests of a line each, hardly any would be found again. Five lines and 64 have no common divisor.
const STRIDE: usize = BUFFER_SIZE + 5 * 64;

/// The one group of buffers of a ring.
pub(super) const GROUP: u16 = 0;

pub(super) struct Buffers {
    entries: Region,
    bytes: Region,
    count: u16,
    /// How many were ever given, wrapping.
    tail: u16,
}

impl Buffers {
    /// `count` is a power of two.
    pub(super) fn new(submitter: &Submitter<'_>, count: u16) -> io::Result<Buffers> {
        assert!(count.is_power_of_two(), "the kernel masks the tail");
        let entries = Region::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let bytes = Region::new(usize::from(count) * STRIDE)?;
        let address = u64::try_from(entries.start.addr()).expect("an address fits 64 bits");
        // SAFETY: the region holds `count` entries and lives until the ring has been emptied and its buffers are
        // unregistered (`Ring::drop`, before its fields go).
        unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) }?;
        let mut buffers = Buffers { entries, bytes, count, tail: 0 };
        (0..count).for_each(|number| buffers.give_back(number));
        Ok(buffers)
    }

    /// The first `size` bytes of a buffer that is ours.
    pub(super) fn received(&self, number: u16, size: usize) -> &[u8] {
        assert!(number < self.count && size <= BUFFER_SIZE, "the kernel stays within what it was given");
        // SAFETY: within the region, by the line above, and initialised, since fresh mappings are zero. The kernel
        // writes only during an enter, which needs the ring, and so this, exclusively.
        unsafe { std::slice::from_raw_parts(self.bytes.start.add(usize::from(number) * STRIDE), size) }
    }

    /// Lets the kernel receive into it again.
    pub(super) fn give_back(&mut self, number: u16) {
        assert!(number < self.count, "there are no more buffers");
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: both places lie within their regions, by the line above and the mask; entries are 16 bytes in a
        // region aligned to a page, and the kernel does not read beyond the tail that is published below.
        unsafe {
            let entry = &mut *self.entries.start.cast::<BufRingEntry>().add(place);
            let bytes = self.bytes.start.add(usize::from(number) * STRIDE);
            entry.set_addr(u64::try_from(bytes.addr()).expect("an address fits 64 bits"));
            entry.set_len(u32::try_from(BUFFER_SIZE).expect("some thousand bytes"));
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the first entry is there, and its tail is aligned and only written here.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.start.cast());
            AtomicU16::from_ptr(tail.cast_mut()).store(self.tail, Ordering::Release);
        }
    }
}

/// Zeroed pages of our own, without memory until they are touched.
struct Region {
    start: *mut u8,
    size: usize,
}

impl Region {
    fn new(size: usize) -> io::Result<Region> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, of no file, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Region { start: start.cast(), size })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and whoever borrowed from it borrowed from this.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}
