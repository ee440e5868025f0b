//! The two ends of a ring: [`Producer`] pushes frames and publishes them, [`Consumer`] peeks, pops and releases.
//!
//! ```text
//!             released                       published
//!   consumer's │    popped (private)          │    written (private) │ producer's
//!              ▼    ▼                         ▼    ▼
//!   ──free─────┼────┼────frames───────────────┼────┼─────free──────
//!              └─ seen by the producer        └─ seen by the consumer
//! ```
//!
//! Four positions, of which two are shared: each is stored by one end alone, with Release, and loaded by the other
//! with Acquire. Storing `published` hands the bytes (and parcel slots) before it to the consumer; storing
//! `released` hands them back. Each end keeps a copy of what it last saw of the other and looks again only when the
//! copy says no, so a batch of frames costs one store and at most one cache miss a side.

use crate::{
    frame::{
        HEADER_SIZE, Header, INLINE, PADDING, PARCEL, RING_SIZE_MAX, RING_SIZE_MIN, frame_size,
        frame_size_max, offset, payload_max, span,
    },
    memory::{LINE_SIZE, Memory, slot_count, slot_size},
    sync::{Arc, AtomicUsize, Ordering},
};

/// How far ahead of what it pops a consumer asks for what the producer has written, bytes: so far at least, and at most twice as far.
pub(crate) const AHEAD: usize = 1024;

/// Makes a ring of `size` bytes in which at most `parcels` parcels are in flight; `P` is what a parcel is.
///
/// Allocates [`memory_size`] bytes here and never again. They are zeroed, and so touched first, by the thread that
/// calls: the pages lie on the node of the cpu that it runs on.
///
/// `size` is a power of two from [`RING_SIZE_MIN`] to [`RING_SIZE_MAX`]; anything else is a broken promise. Payloads
/// are at most [`payload_max`]`(size)`. What both ends leave behind, published or not, is dropped with the later one.
#[must_use]
pub fn ring<P: Send>(size: usize, parcels: usize) -> (Producer<P>, Consumer<P>) {
    ring_at(size, parcels, 0)
}

/// The same, with positions that start at `start`, a multiple of 8: tests start shortly before `usize` wraps.
pub(crate) fn ring_at<P: Send>(size: usize, parcels: usize, start: usize) -> (Producer<P>, Consumer<P>) {
    assert!(size.is_power_of_two(), "a ring's size is a power of two");
    assert!(
        (RING_SIZE_MIN..=RING_SIZE_MAX).contains(&size),
        "a ring's size is RING_SIZE_MIN to RING_SIZE_MAX"
    );
    let memory = Memory::allocate(size, parcels);
    let shared = Arc::new(Shared {
        published: AtomicUsize::new(start),
        parcels_pushed: AtomicUsize::new(start),
        memory,
        consumer: Line { released: AtomicUsize::new(start), parcels_taken: AtomicUsize::new(start) },
    });
    let producer = Producer {
        shared: Arc::clone(&shared),
        memory,
        written: start,
        published: start,
        released_seen: start,
        parcels,
        parcels_pushed: start,
        parcels_taken_seen: start,
        // No frame begins at an odd position.
        placed: Placed { written: start.wrapping_add(1), payload_size: 0, span: 0 },
    };
    let consumer = Consumer {
        shared,
        memory,
        popped: start,
        released: start,
        published_seen: start,
        far: 0,
        parcels_taken: start,
        parcels_released: start,
        front_taken: false,
    };
    (producer, consumer)
}

/// Bytes of memory behind a ring made with these arguments, without its two ends themselves.
#[must_use]
pub const fn memory_size<P>(size: usize, parcels: usize) -> usize {
    size + slot_count(parcels) * slot_size::<P>() + size_of::<Shared<P>>() + LINE_SIZE
}

/// What both ends reach. Two lines, each written by one end; `memory` is read only to free it, so it may share the
/// producer's.
#[repr(C, align(128))]
struct Shared<P> {
    /// Stored by the producer: the consumer may read frames up to here.
    published: AtomicUsize,
    /// Stored by the producer when it goes: parcels ever put into slots.
    parcels_pushed: AtomicUsize,
    memory: Memory<P>,
    consumer: Line,
}

#[repr(align(128))]
struct Line {
    /// Stored by the consumer: the producer may write up to here, one lap on.
    released: AtomicUsize,
    /// Stored by the consumer: parcels ever moved out of slots.
    parcels_taken: AtomicUsize,
}

impl<P> Drop for Shared<P> {
    fn drop(&mut self) {
        // Both ends stored their last count before they let go of the Arc, which orders that before this.
        let pushed = self.parcels_pushed.load(Ordering::Relaxed);
        let mut position = self.consumer.parcels_taken.load(Ordering::Relaxed);
        while position != pushed {
            // SAFETY: slots from taken to pushed are full, each is emptied once, and both ends are gone.
            drop(unsafe { self.memory.take_parcel(position) });
            position = position.wrapping_add(1);
        }
        // SAFETY: the other views went with the ends.
        unsafe { self.memory.free() };
    }
}

/// The sending end: one thread's at a time, moved but never shared.
pub struct Producer<P: Send> {
    shared: Arc<Shared<P>>,
    memory: Memory<P>,
    /// Frames end here, published or not.
    written: usize,
    published: usize,
    /// What `released` was when last looked at; it may be further by now, never back.
    released_seen: usize,
    /// The most parcels in flight.
    parcels: usize,
    parcels_pushed: usize,
    parcels_taken_seen: usize,
    /// The frame for which there was room when last asked.
    placed: Placed,
}

/// A frame that would fit. What is free only grows until something is written, so it still does.
#[derive(Clone, Copy)]
struct Placed {
    /// What was written when it was found.
    written: usize,
    payload_size: usize,
    /// Bytes from there to the frame's end.
    span: usize,
}

// SAFETY: an end owns what lies between two positions, bytes and parcels alike, wherever it lives; its raw pointers
// lead to memory that the Arc keeps, and parcels may change threads because P: Send.
unsafe impl<P: Send> Send for Producer<P> {}

impl<P: Send> Producer<P> {
    /// Bytes of ring, as given to [`ring`].
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Whether a frame of `payload_size` bytes *and a parcel* would fit now, padding at the ring's end included. In a
    /// ring made for no parcels: whether the frame would fit.
    ///
    /// A `payload_size` above [`payload_max`] is a broken promise: it would never fit.
    #[inline]
    pub fn room(&mut self, payload_size: usize) -> bool {
        self.room_inline(payload_size) && (self.parcels == 0 || self.room_parcel())
    }

    /// Whether a frame of `payload_size` bytes without a parcel would fit now, padding included. Frames that carry
    /// no parcel pass even while every slot is taken.
    ///
    /// A `payload_size` above [`payload_max`] is a broken promise: it would never fit.
    #[inline]
    pub fn room_inline(&mut self, payload_size: usize) -> bool {
        let span = self.span_of(payload_size);
        if let Some(span) = span {
            self.placed = Placed { written: self.written, payload_size, span };
        }
        span.is_some()
    }

    /// Bytes from what was written to the end of a frame with such a payload; `None` if that is too far now.
    #[inline(always)]
    fn span_of(&mut self, payload_size: usize) -> Option<usize> {
        assert!(
            payload_size <= payload_max(self.memory.size()),
            "a payload is at most payload_max(ring size)"
        );
        let span = span(self.written, frame_size(payload_size), self.memory.size());
        if span > self.free_seen() {
            self.look();
        }
        (span <= self.free_seen()).then_some(span)
    }

    /// The largest payload, in bytes, for which [`room_inline`](Self::room_inline) says yes now, padding already
    /// subtracted; every smaller one fits too. 0 when nothing with content fits.
    #[inline]
    pub fn free(&mut self) -> usize {
        self.look();
        let frame_size = frame_size_max(self.written, self.free_seen(), self.memory.size());
        frame_size.saturating_sub(HEADER_SIZE).min(payload_max(self.memory.size()))
    }

    /// Writes a frame whose payload is `parts` one after the other, with `parcel` if there is one. The consumer sees
    /// it after the next [`publish`](Self::publish).
    ///
    /// Room is a promise of the caller's, by asking or by credit: [`room`](Self::room) for a frame with a parcel,
    /// [`room_inline`](Self::room_inline) for one without.
    #[inline(never)]
    pub fn push(&mut self, parts: &[&[u8]], parcel: Option<P>) {
        // Saturating: a sum that wrapped would pass the assertion for room.
        let payload_size = parts.iter().fold(0, |size: usize, part| size.saturating_add(part.len()));
        assert!(parcel.is_none() || self.room_parcel(), "a parcel is pushed where there is a slot");
        let kind = if parcel.is_some() { PARCEL } else { INLINE };
        let mut payload = self.begin(payload_size, kind);
        for part in parts {
            payload.split_off_mut(..part.len()).expect("as long as all parts").copy_from_slice(part);
        }
        if let Some(parcel) = parcel {
            // SAFETY: fewer than `parcels` slots are full, by the assertion, so the next one is there and empty.
            unsafe { self.memory.put_parcel(self.parcels_pushed, parcel) };
            self.parcels_pushed = self.parcels_pushed.wrapping_add(1);
        }
    }

    /// As [`push`](Self::push), for a frame without a parcel whose payload is written where it will lie: what is returned
    /// holds old bytes, and is written before the next [`publish`](Self::publish).
    #[inline]
    pub fn push_in_place(&mut self, payload_size: usize) -> &mut [u8] {
        self.begin(payload_size, INLINE)
    }

    /// As [`push_in_place`](Self::push_in_place), for whoever has just been told that there is [`room`](Self::room) for it: it is not
    /// looked for again. For another size, or with a frame pushed between, it is a broken promise.
    #[inline]
    pub fn push_where_asked(&mut self, payload_size: usize) -> &mut [u8] {
        let Placed { written, payload_size: asked_size, span } = self.placed;
        assert!(
            written == self.written && payload_size == asked_size,
            "a frame is pushed where room was asked for"
        );
        self.begin_within(span, payload_size, INLINE)
    }

    /// Puts a frame's header behind what was written; its payload is still to be.
    #[inline(always)]
    fn begin(&mut self, payload_size: usize, kind: u32) -> &mut [u8] {
        let span = self.span_of(payload_size).expect("a frame is pushed where there is room");
        self.begin_within(span, payload_size, kind)
    }

    /// The same, when the frame ends so many bytes behind what was written, as [`span_of`](Self::span_of) says.
    #[inline(always)]
    fn begin_within(&mut self, span: usize, payload_size: usize, kind: u32) -> &mut [u8] {
        let frame_size = frame_size(payload_size);
        if frame_size < span {
            // SAFETY: [written, written + span) is free, by `span_of`: the consumer released it and
            // sees nothing of it before `publish`. Positions are multiples of 8, as all spans are.
            unsafe { self.memory.write_header(self.written, Header { size: 0, kind: PADDING }) };
        }
        let start = self.written.wrapping_add(span - frame_size);
        let size = u32::try_from(payload_size).expect("a payload is smaller than RING_SIZE_MAX");
        // SAFETY: free and aligned as above; `span` has put the frame where it does not cross the ring's end.
        unsafe { self.memory.write_header(start, Header { size, kind }) };
        self.written = self.written.wrapping_add(span);
        // SAFETY: as above; `publish`, which hands it over, takes `&mut self`.
        unsafe { self.memory.payload_mut(start, payload_size) }
    }

    /// Shows the consumer everything pushed so far, with one store. True if there was anything: then set the sender's
    /// bit with [`Mailbox::post`](crate::Mailbox::post), in this order.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let due = self.written != self.published;
        if due {
            // Release: frames and parcels are written before they are shown.
            self.shared.published.store(self.written, Ordering::Release);
            self.published = self.written;
        }
        due
    }

    #[inline]
    fn room_parcel(&mut self) -> bool {
        if self.parcels_pushed.wrapping_sub(self.parcels_taken_seen) < self.parcels {
            return true;
        }
        self.look();
        self.parcels_pushed.wrapping_sub(self.parcels_taken_seen) < self.parcels
    }

    /// Bytes free as far as this end knows.
    #[inline]
    fn free_seen(&self) -> usize {
        self.memory.size() - self.written.wrapping_sub(self.released_seen)
    }

    #[inline]
    fn look(&mut self) {
        // Acquire: what the consumer read of these bytes and slots, it read before they are written again.
        self.released_seen = self.shared.consumer.released.load(Ordering::Acquire);
        self.parcels_taken_seen = self.shared.consumer.parcels_taken.load(Ordering::Acquire);
    }
}

impl<P: Send> Drop for Producer<P> {
    fn drop(&mut self) {
        // Relaxed: read after the Arc's last count, which orders it.
        self.shared.parcels_pushed.store(self.parcels_pushed, Ordering::Relaxed);
    }
}

/// The receiving end: one thread's at a time, moved but never shared.
pub struct Consumer<P: Send> {
    shared: Arc<Shared<P>>,
    memory: Memory<P>,
    /// The front frame, or padding before it, starts here.
    popped: usize,
    released: usize,
    /// What `published` was when last looked at; it may be further by now, never back.
    published_seen: usize,
    /// The last so many bytes before that have not been asked for.
    far: usize,
    /// Parcels ever moved out of slots.
    parcels_taken: usize,
    parcels_released: usize,
    /// The front frame's parcel is out already.
    front_taken: bool,
}

// SAFETY: as for `Producer`.
unsafe impl<P: Send> Send for Consumer<P> {}

impl<P: Send> Consumer<P> {
    /// The front frame's payload, in one piece, starting at a multiple of 8 bytes; `None` when the ring is empty.
    #[inline]
    pub fn peek(&mut self) -> Option<&[u8]> {
        let header = self.front()?;
        // SAFETY: the frame lies before `published`, so it is whole and the producer leaves it alone until it is
        // released, which takes `&mut self`.
        Some(unsafe { self.memory.payload(self.popped, payload_size(header)) })
    }

    /// The payloads of the frames that wait, the front one first, as far as this end has looked; all stay where they are.
    #[inline]
    pub fn ahead(&self) -> impl Iterator<Item = &[u8]> {
        let mut next = self.popped;
        std::iter::from_fn(move || {
            if next == self.published_seen {
                return None;
            }
            let (position, header) = self.frame_at(next);
            next = position.wrapping_add(frame_size(payload_size(header)));
            // SAFETY: as for `peek`; releasing takes `&mut self`.
            Some(unsafe { self.memory.payload(position, payload_size(header)) })
        })
    }

    /// The front frame's parcel, if it carries one that is not taken yet. Its slot is free again after the next
    /// [`release`](Self::release), even if the frame stays.
    #[inline]
    pub fn take_parcel(&mut self) -> Option<P> {
        let header = self.front()?;
        if header.kind != PARCEL || self.front_taken {
            return None;
        }
        self.front_taken = true;
        let position = self.parcels_taken;
        self.parcels_taken = position.wrapping_add(1);
        // SAFETY: frames and slots are filled in the same order, so the first untaken parcel among published frames
        // is the front one's; it was shown with its frame, and it is taken once.
        Some(unsafe { self.memory.take_parcel(position) })
    }

    /// Goes on to the next frame, dropping the front one's parcel if nobody took it. The producer gets the space
    /// with the next [`release`](Self::release). Popping an empty ring is a broken promise.
    #[inline]
    pub fn pop(&mut self) {
        let header = self.front().expect("a frame is popped from a ring that holds one");
        let parcel = if header.kind == PARCEL { self.take_parcel() } else { None };
        self.front_taken = false;
        self.popped = self.popped.wrapping_add(frame_size(payload_size(header)));
        if self.far > 0 && self.seen_size() <= self.far + AHEAD {
            self.approach();
        }
        // Last, because it may panic.
        drop(parcel);
    }

    /// Goes on behind so many frames that [`ahead`](Self::ahead) has shown, none of which carries a parcel: one that does, or one too
    /// many, is a broken promise.
    #[inline]
    pub fn pop_seen(&mut self, count: usize) {
        for _ in 0..count {
            assert!(self.popped != self.published_seen, "a frame is popped from a ring that holds one");
            let (position, header) = self.frame_at(self.popped);
            assert!(header.kind != PARCEL, "a frame with a parcel is popped alone");
            self.popped = position.wrapping_add(frame_size(payload_size(header)));
        }
        if self.far > 0 && self.seen_size() <= self.far + AHEAD {
            self.approach();
        }
    }

    /// Gives popped frames and emptied slots back to the producer, with one store each. Before the answers that give
    /// credit back are published: who has the credit counts on the space.
    #[inline]
    pub fn release(&mut self) {
        // Release: the frames were read, and the parcels moved out, before they are given back.
        if self.parcels_taken != self.parcels_released {
            self.shared.consumer.parcels_taken.store(self.parcels_taken, Ordering::Release);
            self.parcels_released = self.parcels_taken;
        }
        if self.popped != self.released {
            self.shared.consumer.released.store(self.popped, Ordering::Release);
            self.released = self.popped;
        }
    }

    /// Bytes of ring taken up by frames that are published and not popped. Looks only if nothing was left to pop.
    #[inline]
    pub fn waiting_size(&mut self) -> usize {
        self.front();
        self.seen_size()
    }

    /// The same, as far as this end has looked.
    #[inline]
    pub fn seen_size(&self) -> usize {
        self.published_seen.wrapping_sub(self.popped)
    }

    /// Whether no published frame is left to pop.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.front().is_none()
    }

    /// The front frame's header; padding before it is skipped, so that afterwards the frame is at `popped`.
    #[inline]
    fn front(&mut self) -> Option<Header> {
        if self.popped == self.published_seen {
            // Acquire: frames and parcels are read after they were written.
            self.published_seen = self.shared.published.load(Ordering::Acquire);
            if self.popped == self.published_seen {
                return None;
            }
            self.far = self.seen_size();
            self.approach();
        }
        let (position, header) = self.frame_at(self.popped);
        self.popped = position;
        Some(header)
    }

    /// Asks for the lines of the frames to come, which lie in the producer's cache: they arrive together, while the first are looked
    /// at. Without it each would be waited for, since a frame's size says where the next one begins.
    #[inline(never)]
    fn approach(&mut self) {
        let far = self.seen_size().saturating_sub(2 * AHEAD);
        let [start, end] = [self.far, far].map(|behind| self.published_seen.wrapping_sub(behind));
        self.memory.approach(start, end);
        self.far = far;
    }

    /// The frame at a position before `published_seen`, or behind the padding there: where it is, and its header.
    #[inline]
    fn frame_at(&self, position: usize) -> (usize, Header) {
        // SAFETY: the position lies before published, at the start of a frame or of padding, and stays the consumer's.
        let header = unsafe { self.memory.read_header(position) };
        if header.kind != PADDING {
            return (position, header);
        }
        let size = self.memory.size();
        let position = position.wrapping_add(size - offset(position, size));
        // SAFETY: padding is pushed with the frame behind it, so that one is published too.
        (position, unsafe { self.memory.read_header(position) })
    }
}

impl<P: Send> Drop for Consumer<P> {
    fn drop(&mut self) {
        // Relaxed: read after the Arc's last count, which orders it.
        self.shared.consumer.parcels_taken.store(self.parcels_taken, Ordering::Relaxed);
    }
}

#[inline]
fn payload_size(header: Header) -> usize {
    header.size as usize
}
