//! Where a frame lies in the ring: pure arithmetic, shared by both ends and by whoever counts credits.
//!
//! ```text
//!  0       4       8                       8 + size   multiple of 8
//!  ├───────┼───────┼───────────────────────┼──────────┤
//!  │ size  │ kind  │ payload               │ slack    │
//!  └───────┴───────┴───────────────────────┴──────────┘
//!  u32     u32     starts at a multiple of 8
//! ```
//!
//! A payload is never split at the ring's end: what is left there becomes a padding frame (a header alone counts,
//! the rest is skipped) and the payload starts again at offset 0. Every frame starts at a multiple of 8, so at
//! least one header fits wherever a frame may start.

/// Bytes before each payload: its size and its kind, a `u32` each.
pub const HEADER_SIZE: usize = 8;

/// The smallest ring, in bytes. A smaller one is refused by an assertion in [`ring`](crate::ring).
pub const RING_SIZE_MIN: usize = 64;

/// The largest ring, in bytes; sizes in headers are `u32`. A larger one is refused by an assertion in
/// [`ring`](crate::ring).
pub const RING_SIZE_MAX: usize = 1 << 30;

const ALIGN: usize = 8;

/// Bytes of ring that a payload of `payload_size` bytes takes: header, payload, and slack up to a multiple of 8.
/// Padding at the ring's end comes on top; [`credit`] has it already subtracted.
#[must_use]
pub const fn frame_size(payload_size: usize) -> usize {
    (HEADER_SIZE + payload_size + ALIGN - 1) & !(ALIGN - 1)
}

/// The largest payload, in bytes, that a ring of `ring_size` bytes carries.
///
/// It is the largest that fits into an *empty* ring wherever the last frame happened to end: a frame of `f` bytes
/// may find `f - 8` bytes before the ring's end, waste them as padding, and need `f` more. Half a ring always
/// works; anything above would let a sender wait for room that never comes.
#[must_use]
pub const fn payload_max(ring_size: usize) -> usize {
    ring_size / 2 - HEADER_SIZE
}

/// How many bytes of frames always fit into a ring of `ring_size` bytes, wherever its end falls, when no payload is
/// larger than `payload_size_max`: the number that a sender's credit starts from.
///
/// Each push costs [`frame_size`] of its payload, and gives that back when the receiver has released the frame. The
/// span from the oldest frame to the newest is at most one ring long, so it crosses the ring's end at most once and
/// holds at most one padding, which is shorter than the largest frame by at least 8. What remains is credit.
#[must_use]
pub const fn credit(ring_size: usize, payload_size_max: usize) -> usize {
    assert!(payload_size_max <= payload_max(ring_size), "a payload is at most payload_max(ring size)");
    ring_size - (frame_size(payload_size_max) - ALIGN)
}

/// The first eight bytes of a frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Header {
    /// Bytes of payload; 0 in padding.
    pub(crate) size: u32,
    /// One of [`INLINE`], [`PARCEL`], [`PADDING`].
    pub(crate) kind: u32,
}

/// A frame that is its payload alone.
pub(crate) const INLINE: u32 = 0;
/// A frame with a parcel, which lies in the next slot of the parcel ring.
pub(crate) const PARCEL: u32 = 1;
/// No frame: the ring goes on at offset 0.
pub(crate) const PADDING: u32 = 2;

/// A position counts bytes since the ring was made and wraps with `usize`; its offset is the low bits, which stay
/// continuous over that wrap because a ring's size is a power of two.
pub(crate) const fn offset(position: usize, ring_size: usize) -> usize {
    position & (ring_size - 1)
}

/// Bytes that pushing a frame of `frame_size` bytes at `position` takes, with the padding that it needs.
pub(crate) const fn span(position: usize, frame_size: usize, ring_size: usize) -> usize {
    let to_end = ring_size - offset(position, ring_size);
    if frame_size <= to_end { frame_size } else { to_end + frame_size }
}

/// The largest frame whose [`span`] at `position` is at most `free` bytes; 0 when there is none.
pub(crate) const fn frame_size_max(position: usize, free: usize, ring_size: usize) -> usize {
    let to_end = ring_size - offset(position, ring_size);
    if free <= to_end {
        free
    } else if free - to_end > to_end {
        free - to_end
    } else {
        to_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_header_and_payload_rounded_up() {
        let check = |payload_size, want| assert_eq!(frame_size(payload_size), want, "{payload_size}");
        check(0, 8);
        check(1, 16);
        check(8, 16);
        check(9, 24);
        check(64, 72);
        check(1016, 1024);
    }

    /// All rings of 64 to 256 bytes, all offsets, all amounts of free space, all payloads: the one figure
    /// that `free` gives must agree with the question that `room` asks.
    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and slow")]
    fn the_largest_frame_is_the_largest_that_has_room() {
        for ring_size in [64, 128, 256] {
            for position in (0..ring_size).step_by(ALIGN) {
                for free in (0..=ring_size).step_by(ALIGN) {
                    let max = frame_size_max(position, free, ring_size);
                    for frame in (ALIGN..=ring_size).step_by(ALIGN) {
                        assert_eq!(
                            span(position, frame, ring_size) <= free,
                            frame <= max,
                            "ring {ring_size} position {position} free {free} frame {frame}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and slow")]
    fn the_largest_payload_fits_an_empty_ring_at_every_offset_and_a_larger_one_does_not() {
        for ring_size in [64, 128, 4096] {
            let fits = |payload_size: usize| {
                (0..ring_size)
                    .step_by(ALIGN)
                    .all(|position| span(position, frame_size(payload_size), ring_size) <= ring_size)
            };
            assert!(fits(payload_max(ring_size)));
            assert!(!fits(payload_max(ring_size) + 1));
        }
    }
}
