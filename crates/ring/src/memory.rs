//! The memory of one ring: its bytes, and the slots in which parcels travel. All raw access is here.
//!
//! [`Memory`] is a bare view, copied into both ends so that neither reads a line that the other writes. It keeps no
//! record of who may touch what: each function lists what its caller owes, and [`ends`](crate::ends) pays.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    ptr::NonNull,
    slice,
};

use crate::{
    frame::{HEADER_SIZE, Header, frame_size, offset},
    sync::UnsafeCell,
};

/// Two 64-byte lines: x86 fetches lines in pairs and arm64 servers have lines of 128 bytes, so nearer neighbours
/// would still slow each other down.
pub(crate) const LINE_SIZE: usize = 128;

/// The smallest page that Linux has.
const PAGE_SIZE: usize = 4096;

type Slot<P> = UnsafeCell<MaybeUninit<P>>;

/// See the module. Freed by [`free`](Self::free), once.
pub(crate) struct Memory<P> {
    bytes: NonNull<u8>,
    size: usize,
    slots: NonNull<[Slot<P>]>,
    /// One cell per eight bytes of ring, touched whenever those bytes are: loom reports a touch that races.
    #[cfg(loom)]
    witnesses: NonNull<[UnsafeCell<()>]>,
}

impl<P> Clone for Memory<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Memory<P> {}

impl<P> Memory<P> {
    /// `size` bytes of zeroes and slots for `parcels` parcels, rounded up to a power of two.
    pub(crate) fn allocate(size: usize, parcels: usize) -> Self {
        let layout = Self::layout(size);
        // SAFETY: the layout is not empty, as `ring` asserts RING_SIZE_MIN <= size.
        let bytes = unsafe { alloc_zeroed(layout) };
        let Some(bytes) = NonNull::new(bytes) else { handle_alloc_error(layout) };
        // An allocator that knows these pages to be new leaves the zeroing, and so the first touch, to whoever needs them.
        for at in (0..size).step_by(PAGE_SIZE).chain([size - 1]) {
            // SAFETY: inside of what was just allocated, where nobody else looks yet.
            unsafe { bytes.add(at).write_volatile(0) };
        }
        let slots: Box<[Slot<P>]> =
            (0..slot_count(parcels)).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self {
            bytes,
            size,
            slots: NonNull::from(Box::leak(slots)),
            #[cfg(loom)]
            witnesses: NonNull::from(Box::leak((0..size / 8).map(|_| UnsafeCell::new(())).collect())),
        }
    }

    /// Gives the memory back; parcels in slots are not dropped.
    ///
    /// # Safety
    /// Neither this view nor any copy of it is used afterwards.
    pub(crate) unsafe fn free(self) {
        // SAFETY: allocated by `allocate` with this very layout, and last used here, as the caller promises.
        unsafe { dealloc(self.bytes.as_ptr(), Self::layout(self.size)) };
        // SAFETY: leaked from a box by `allocate`, and last used here, as the caller promises.
        drop(unsafe { Box::from_raw(self.slots.as_ptr()) });
        #[cfg(loom)]
        // SAFETY: the same.
        drop(unsafe { Box::from_raw(self.witnesses.as_ptr()) });
    }

    /// Bytes of ring.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Asks the processor to bring the lines of the bytes from `start` to `end`, positions, near. They are not touched.
    #[inline]
    pub(crate) fn approach(&self, start: usize, end: usize) {
        let start = start & !(prefetch::LINE_SIZE - 1);
        let (at, size) = (offset(start, self.size), end.wrapping_sub(start));
        let before_end = size.min(self.size - at);
        for (at, size) in [(at, before_end), (0, size - before_end)] {
            let mut line = self.bytes.as_ptr().wrapping_add(at);
            let end = line.wrapping_add(size);
            while line < end {
                #[cfg(test)]
                prefetch::asked::note(line.addr());
                prefetch::prefetch(line);
                line = line.wrapping_add(prefetch::LINE_SIZE);
            }
        }
    }

    /// Writes a header at `position`.
    ///
    /// # Safety
    /// `position` is a multiple of 8, and until the caller's next release store no other thread touches the
    /// [`HEADER_SIZE`] bytes there.
    #[inline]
    pub(crate) unsafe fn write_header(&self, position: usize, header: Header) {
        let at = offset(position, self.size);
        self.witness_write(at, HEADER_SIZE);
        // SAFETY: at is a multiple of 8 below size, itself a multiple of 8, so the header lies inside and is
        // aligned; nobody else touches it, as the caller promises.
        unsafe { self.bytes.add(at).cast::<Header>().write(header) };
    }

    /// Reads the header at `position`.
    ///
    /// # Safety
    /// `position` is a multiple of 8, and no other thread writes the [`HEADER_SIZE`] bytes there.
    #[inline]
    pub(crate) unsafe fn read_header(&self, position: usize) -> Header {
        let at = offset(position, self.size);
        self.witness_read(at, HEADER_SIZE);
        // SAFETY: inside and aligned as in `write_header`; any bytes are a header, and nobody writes them meanwhile,
        // as the caller promises.
        unsafe { self.bytes.add(at).cast::<Header>().read() }
    }

    /// The payload of the frame at `position`, to be written.
    ///
    /// # Safety
    /// The frame of `payload_size` bytes of payload lies inside the ring without crossing its end, nobody else touches
    /// it while the slice lives, and no other thread until the caller's next release store.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "a view of memory of its own, as a pointer is")]
    pub(crate) unsafe fn payload_mut(&self, position: usize, payload_size: usize) -> &mut [u8] {
        let at = offset(position, self.size) + HEADER_SIZE;
        self.witness_write(at, payload_size);
        // SAFETY: inside, initialised (zeroes at least), and nobody else's meanwhile, as the caller promises.
        unsafe { slice::from_raw_parts_mut(self.bytes.add(at).as_ptr(), payload_size) }
    }

    /// The payload of the frame at `position`.
    ///
    /// # Safety
    /// The frame of `payload_size` bytes of payload lies inside the ring without crossing its end, and no other
    /// thread writes it while the slice lives.
    #[inline]
    pub(crate) unsafe fn payload(&self, position: usize, payload_size: usize) -> &[u8] {
        let at = offset(position, self.size);
        self.witness_read(at, frame_size(payload_size));
        // SAFETY: inside, initialised (zeroes at least), and not written meanwhile, as the caller promises.
        unsafe { slice::from_raw_parts(self.bytes.add(at + HEADER_SIZE).as_ptr(), payload_size) }
    }

    /// Puts a parcel into slot `position`, counted from the first parcel ever.
    ///
    /// # Safety
    /// The ring has slots, this one is empty, and until the caller's next release store no other thread touches it.
    #[inline]
    pub(crate) unsafe fn put_parcel(&self, position: usize, parcel: P) {
        // SAFETY: the slot is inside by the mask, and this thread's alone, as the caller promises.
        unsafe { self.slot(position) }.with_mut(|slot| unsafe { (*slot).write(parcel) });
    }

    /// Moves the parcel out of slot `position`, which is empty from then on.
    ///
    /// # Safety
    /// The ring has slots, this one holds a parcel, and no other thread touches it.
    #[inline]
    pub(crate) unsafe fn take_parcel(&self, position: usize) -> P {
        // SAFETY: the slot is inside by the mask, full, and this thread's alone, as the caller promises.
        unsafe { self.slot(position) }.with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// # Safety
    /// The ring has slots.
    #[inline]
    unsafe fn slot(&self, position: usize) -> &Slot<P> {
        let count = self.slots.len();
        // SAFETY: 0 < count as the caller promises, a power of two, so the masked index is below it; the slots live
        // until `free`.
        unsafe { &*self.slots.cast::<Slot<P>>().add(position & (count - 1)).as_ptr() }
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, LINE_SIZE).expect("a ring's size is at most RING_SIZE_MAX")
    }

    #[cfg(not(loom))]
    #[inline]
    fn witness_write(&self, _at: usize, _size: usize) {}

    #[cfg(not(loom))]
    #[inline]
    fn witness_read(&self, _at: usize, _size: usize) {}

    #[cfg(loom)]
    fn witness_write(&self, at: usize, size: usize) {
        // SAFETY: the witnesses live until `free`.
        let witnesses = unsafe { self.witnesses.as_ref() };
        witnesses[at / 8..(at + size).div_ceil(8)].iter().for_each(|cell| cell.with_mut(|_| ()));
    }

    #[cfg(loom)]
    fn witness_read(&self, at: usize, size: usize) {
        // SAFETY: the witnesses live until `free`.
        let witnesses = unsafe { self.witnesses.as_ref() };
        witnesses[at / 8..(at + size).div_ceil(8)].iter().for_each(|cell| cell.with(|_| ()));
    }
}

/// Slots for `parcels` parcels in flight: a power of two, so that positions may wrap with `usize`; none for none.
pub(crate) const fn slot_count(parcels: usize) -> usize {
    if parcels == 0 { 0 } else { parcels.next_power_of_two() }
}

/// Bytes of one slot.
pub(crate) const fn slot_size<P>() -> usize {
    size_of::<Slot<P>>()
}
