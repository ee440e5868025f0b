//! The ring against a queue that cannot be wrong, under a seed; then each promise by itself.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use prefetch::LINE_SIZE;

use crate::{
    Consumer, HEADER_SIZE, Producer, RING_SIZE_MIN, credit,
    ends::{AHEAD, ring_at},
    frame_size, payload_max, ring,
};

const ROUNDS: u64 = if cfg!(miri) { 4 } else { 400 };
const STEPS: u32 = if cfg!(miri) { 100 } else { 2_000 };

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `end - 1`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 32).expect("32 bits fit") % end
    }

    fn bytes(&mut self, size: usize) -> Vec<u8> {
        (0..size).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// A parcel that is counted while it lives.
struct Parcel {
    number: u64,
    alive: Arc<AtomicUsize>,
}

impl Parcel {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { number, alive: Arc::clone(alive) }
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        let before = self.alive.fetch_sub(1, Ordering::Relaxed);
        assert!(0 < before, "dropped twice");
    }
}

/// A frame as the queue knows it.
struct Frame {
    payload: Vec<u8>,
    parcel: Option<u64>,
}

/// Where the oracle stands: frames in the order pushed, of which the consumer may see the first `published`.
struct Oracle {
    frames: VecDeque<Frame>,
    published: usize,
    parcels_in_slots: usize,
    parcels_taken_unreleased: usize,
}

#[test]
fn frames_and_parcels_come_out_as_they_went_in() {
    for seed in 0..ROUNDS {
        let mut chance = Chance(seed);
        let size = RING_SIZE_MIN << chance.below(5);
        let parcels = chance.below(5);
        // Some rings live through the wrap of their positions, parcels' included.
        let start = if seed % 2 == 0 { 0 } else { usize::MAX - 1023 };
        run_against_queue(&mut chance, size, parcels, start, seed);
    }
}

fn run_against_queue(chance: &mut Chance, size: usize, parcels: usize, start: usize, seed: u64) {
    let alive = Arc::new(AtomicUsize::new(0));
    let (mut to, mut from) = ring_at::<Parcel>(size, parcels, start);
    let mut oracle =
        Oracle { frames: VecDeque::new(), published: 0, parcels_in_slots: 0, parcels_taken_unreleased: 0 };
    for step in 0..STEPS {
        match chance.below(9) {
            0..=2 => push(chance, &mut to, &mut oracle, parcels, &alive),
            3 => {
                assert_eq!(to.publish(), oracle.published < oracle.frames.len(), "seed {seed} step {step}");
                oracle.published = oracle.frames.len();
            }
            4 | 5 => pop(chance, &mut from, &mut oracle),
            6 => pop_seen(chance, &mut from, &mut oracle),
            7 => {
                from.release();
                oracle.parcels_taken_unreleased = 0;
            }
            _ => {
                assert_eq!(from.is_empty(), oracle.published == 0, "seed {seed} step {step}");
                let want = oracle.frames.front().filter(|_| 0 < oracle.published);
                assert_eq!(from.peek(), want.map(|frame| &frame.payload[..]), "seed {seed} step {step}");
                let ahead: Vec<_> = from.ahead().collect();
                let all = oracle.frames.iter().take(oracle.published).map(|frame| &frame.payload[..]);
                assert!(all.take(ahead.len()).eq(ahead.iter().copied()), "seed {seed} step {step}");
                assert_eq!(ahead.first().copied(), want.map(|frame| &frame.payload[..]));
            }
        }
        assert_eq!(alive.load(Ordering::Relaxed), oracle.parcels_in_slots, "seed {seed} step {step}");
    }
    // Whatever is left, published or not, goes with the later end.
    if chance.below(2) == 0 {
        drop(to);
        drop(from);
    } else {
        drop(from);
        drop(to);
    }
    assert_eq!(alive.load(Ordering::Relaxed), 0, "seed {seed}");
}

fn push(
    chance: &mut Chance,
    to: &mut Producer<Parcel>,
    oracle: &mut Oracle,
    parcels: usize,
    alive: &Arc<AtomicUsize>,
) {
    let payload_max = payload_max(to.size());
    let payload_size = chance.below(payload_max + 1);
    let free = to.free();
    if to.room_inline(payload_size) {
        assert!(payload_size <= free);
    } else {
        assert!(free < payload_size || (free == 0 && payload_size == 0));
        return;
    }
    let slot_free = oracle.parcels_in_slots + oracle.parcels_taken_unreleased < parcels;
    assert_eq!(to.room(payload_size), slot_free || parcels == 0);
    let payload = chance.bytes(payload_size);
    let (head, tail) = payload.split_at(chance.below(payload_size + 1));
    let parcel = (slot_free && chance.below(2) == 0).then(|| Parcel::new(chance.next(), alive));
    let number = parcel.as_ref().map(|parcel| parcel.number);
    oracle.parcels_in_slots += usize::from(parcel.is_some());
    let place = match chance.below(4) {
        0 if parcel.is_none() => Some(to.push_in_place(payload_size)),
        1 if parcel.is_none() => Some(to.push_where_asked(payload_size)),
        _ => None,
    };
    match place {
        Some(place) => {
            assert_eq!(place.len(), payload_size);
            place.copy_from_slice(&payload);
        }
        None => to.push(&[head, b"", tail], parcel),
    }
    oracle.frames.push_back(Frame { payload, parcel: number });
}

fn pop(chance: &mut Chance, from: &mut Consumer<Parcel>, oracle: &mut Oracle) {
    let Some(payload) = from.peek() else {
        assert_eq!(oracle.published, 0);
        assert!(from.take_parcel().is_none());
        return;
    };
    assert!(payload.as_ptr().cast::<u64>().is_aligned());
    assert!(0 < oracle.published);
    let want = oracle.frames.pop_front().expect("what is published was pushed");
    oracle.published -= 1;
    assert_eq!(payload, &want.payload[..]);
    let carries = usize::from(want.parcel.is_some());
    if chance.below(2) == 0 {
        assert_eq!(from.take_parcel().map(|parcel| parcel.number), want.parcel);
        assert!(from.take_parcel().is_none(), "a parcel is taken at most once");
        assert_eq!(from.peek(), Some(&want.payload[..]), "the frame stays");
    }
    from.pop();
    oracle.parcels_in_slots -= carries;
    oracle.parcels_taken_unreleased += carries;
}

/// Some of those that were seen, up to the first parcel.
fn pop_seen(chance: &mut Chance, from: &mut Consumer<Parcel>, oracle: &mut Oracle) {
    let frames = from.ahead().zip(&oracle.frames).take_while(|(_, frame)| frame.parcel.is_none());
    let count_max = frames.inspect(|(payload, frame)| assert_eq!(*payload, &frame.payload[..])).count();
    let count = chance.below(count_max + 1);
    from.pop_seen(count);
    oracle.frames.drain(..count);
    oracle.published -= count;
}

/// Frames of any size up to the largest, pushed whenever credit allows and never asked for room: the assertion in
/// `push` is the test. Credit comes back by release alone.
#[test]
fn credit_always_buys_room() {
    for seed in 0..ROUNDS {
        let mut chance = Chance(seed);
        let size = RING_SIZE_MIN << chance.below(5);
        let payload_size_max = chance.below(payload_max(size) + 1);
        let (mut to, mut from) = ring::<()>(size, 0);
        let mut credit = credit(size, payload_size_max);
        let mut owed = VecDeque::new();
        for _ in 0..STEPS {
            let payload_size = chance.below(payload_size_max + 1);
            if frame_size(payload_size) <= credit && chance.below(3) != 0 {
                to.push(&[&vec![0; payload_size]], None);
                to.publish();
                credit -= frame_size(payload_size);
                owed.push_back(payload_size);
            } else if let Some(payload_size) = owed.pop_front() {
                assert_eq!(from.peek().map(<[u8]>::len), Some(payload_size));
                from.pop();
                from.release();
                credit += frame_size(payload_size);
            }
        }
    }
}

/// The bound cannot be better: with eight bytes more, these frames would be within credit, and there is no room.
#[test]
fn more_credit_than_that_would_not_buy_room() {
    let (size, payload_size_max) = (128, payload_max(128));
    let (mut to, mut from) = ring::<()>(size, 0);
    // The ring's end is 56 bytes after the only frame left, 8 too few for the largest, which then wastes them all.
    for payload_size in [payload_size_max, 0] {
        to.push(&[&vec![0; payload_size]], None);
    }
    to.publish();
    from.pop();
    from.release();
    let outstanding = frame_size(0) + frame_size(payload_size_max);
    assert_eq!(outstanding, credit(size, payload_size_max));
    assert!(to.room(payload_size_max), "72 bytes outstanding are within credit");
    to.push(&[&vec![0; payload_size_max]], None);
    assert!(!to.room(0), "not even a header more");
}

#[test]
fn an_empty_ring_takes_the_largest_frame_wherever_it_stands() {
    for steps in 0..40 {
        let size = 256;
        let (mut to, mut from) = ring::<()>(size, 0);
        for _ in 0..steps {
            to.push(&[b"12345678"], None);
            to.publish();
            from.pop();
            from.release();
        }
        assert_eq!(to.free(), payload_max(size));
        assert!(to.room(payload_max(size)), "after {steps} frames");
        to.push(&[&[7; 120]], None);
        to.publish();
        assert_eq!(from.peek(), Some(&[7; 120][..]));
    }
}

#[test]
fn nothing_is_seen_before_publish_and_nothing_is_free_before_release() {
    let (mut to, mut from) = ring::<()>(64, 0);
    assert!(!to.publish(), "nothing to show");
    to.push(&[&[1; 24]], None);
    to.push(&[&[2; 24]], None);
    assert!(from.is_empty());
    assert!(to.publish());
    assert!(!to.publish(), "shown once");
    assert_eq!(from.peek(), Some(&[1; 24][..]));
    from.pop();
    assert!(!to.room(0), "popped is not yet released");
    assert_eq!(to.free(), 0);
    from.release();
    assert!(to.room(24));
    assert_eq!(to.free(), 24);
}

#[test]
fn a_slot_is_free_after_release_although_its_frame_stays() {
    let (mut to, mut from) = ring::<u8>(64, 1);
    to.push(&[b"a"], Some(1));
    assert!(!to.room(1), "no slot for a second parcel");
    assert!(to.room_inline(1), "a frame without one still passes");
    to.push(&[b"b"], None);
    to.publish();
    assert_eq!(from.take_parcel(), Some(1));
    assert!(!to.room(1));
    from.release();
    assert!(to.room(1));
    to.push(&[b"c"], Some(2));
    to.publish();
    assert_eq!(from.peek(), Some(&b"a"[..]));
    assert_eq!(from.take_parcel(), None, "the next frame's parcel is not this one's");
    from.pop();
    assert_eq!(from.peek(), Some(&b"b"[..]));
    assert_eq!(from.take_parcel(), None);
    from.pop();
    assert_eq!(from.take_parcel(), Some(2));
}

#[test]
fn parcels_that_nobody_took_are_dropped_once() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (mut to, mut from) = ring::<Parcel>(256, 3);
    for number in 0..3 {
        assert!(to.room(0));
        to.push(&[], Some(Parcel::new(number, &alive)));
        if number == 1 {
            to.publish();
        }
    }
    from.pop();
    assert_eq!(alive.load(Ordering::Relaxed), 2, "popped");
    let taken = from.take_parcel().expect("the second is published");
    drop(from);
    drop(to);
    assert_eq!(alive.load(Ordering::Relaxed), 1, "the third was never shown, the second is ours");
    assert_eq!(taken.number, 1);
}

#[test]
#[should_panic(expected = "a frame is pushed where there is room")]
fn a_push_without_room_is_refused() {
    let (mut to, _from) = ring::<()>(64, 0);
    for _ in 0..3 {
        to.push(&[&[0; 24]], None);
    }
}

#[test]
#[should_panic(expected = "a frame is pushed where room was asked for")]
fn a_push_of_another_size_than_was_asked_for_is_refused() {
    let (mut to, _from) = ring::<()>(64, 0);
    assert!(to.room(16));
    to.push_where_asked(8);
}

#[test]
#[should_panic(expected = "a frame is pushed where room was asked for")]
fn a_push_elsewhere_than_was_asked_for_is_refused() {
    let (mut to, _from) = ring::<()>(64, 0);
    assert!(to.room(8));
    to.push_where_asked(8);
    to.push_where_asked(8);
}

#[test]
#[should_panic(expected = "a frame is pushed where room was asked for")]
fn a_push_that_nobody_asked_for_is_refused() {
    let (mut to, _from) = ring::<()>(64, 0);
    to.push_where_asked(0);
}

#[test]
#[should_panic(expected = "a parcel is pushed where there is a slot")]
fn a_parcel_without_a_slot_is_refused() {
    let (mut to, _from) = ring::<()>(64, 0);
    to.push(&[], Some(()));
}

#[test]
#[should_panic(expected = "a payload is at most payload_max(ring size)")]
fn a_payload_that_may_never_fit_is_refused() {
    let (mut to, _from) = ring::<()>(64, 0);
    let _ = to.room(payload_max(64) + 1);
}

#[test]
#[should_panic(expected = "a frame is popped from a ring that holds one")]
fn popping_an_empty_ring_is_refused() {
    let (_to, mut from) = ring::<()>(64, 0);
    from.pop();
}

#[test]
#[should_panic(expected = "a frame is popped from a ring that holds one")]
fn popping_more_than_was_seen_is_refused() {
    let (mut to, mut from) = ring::<()>(64, 0);
    to.push(&[], None);
    to.publish();
    assert!(!from.is_empty());
    to.push(&[], None);
    to.publish();
    from.pop_seen(2);
}

#[test]
#[should_panic(expected = "a frame with a parcel is popped alone")]
fn popping_a_parcel_among_others_is_refused() {
    let (mut to, mut from) = ring::<u8>(64, 1);
    to.push(&[], None);
    to.push(&[], Some(1));
    to.publish();
    assert!(!from.is_empty());
    from.pop_seen(2);
}

#[test]
#[should_panic(expected = "a ring's size is a power of two")]
fn a_size_between_powers_is_refused() {
    let _ = ring::<()>(96, 0);
}

#[test]
#[should_panic(expected = "a ring's size is RING_SIZE_MIN to RING_SIZE_MAX")]
fn a_size_below_the_smallest_is_refused() {
    let _ = ring::<()>(RING_SIZE_MIN / 2, 0);
}

#[test]
fn frames_are_asked_for_before_they_are_looked_at() {
    const SIZE: usize = 8192;
    const PAYLOAD: [u8; 100] = [7; 100];
    let frame_size = frame_size(PAYLOAD.len());
    let frame_count = SIZE / 2 / frame_size;
    // They go over the ring's end.
    let (mut to, mut from) = ring_at::<()>(SIZE, 0, SIZE - 1000);
    for _ in 0..frame_count {
        to.push(&[&PAYLOAD], None);
    }
    to.publish();
    prefetch::asked::take();
    assert!(!from.is_empty());
    let lines: Vec<BTreeSet<usize>> = from
        .ahead()
        .map(|payload| payload.as_ptr().addr())
        .map(|at| (at - HEADER_SIZE..at + PAYLOAD.len()).map(|at| at / LINE_SIZE).collect())
        .collect();
    assert_eq!(lines.len(), frame_count);
    let mut near = BTreeSet::new();
    for popped in 0..frame_count {
        near.extend(prefetch::asked::take().into_iter().map(|at| at / LINE_SIZE));
        let at_least = (popped + AHEAD / frame_size).min(frame_count);
        assert!(lines[popped..at_least].iter().all(|lines| lines.is_subset(&near)), "{popped} are popped");
        let at_most = (popped + 2 * AHEAD / frame_size + 2).min(frame_count);
        assert!(lines[at_most..].iter().all(|lines| !lines.is_subset(&near)), "{popped} are popped");
        from.pop();
    }
    let frames: BTreeSet<usize> = lines.into_iter().flatten().collect();
    assert!(frames.is_subset(&near));
    assert!(near.len() <= frames.len() + 1, "the line of the padding at most is asked for besides");
    // What is published later is asked for when it is seen.
    from.release();
    to.push(&[&PAYLOAD], None);
    to.publish();
    prefetch::asked::take();
    assert!(!from.is_empty());
    assert_eq!(prefetch::asked::take().len(), 2);
}
