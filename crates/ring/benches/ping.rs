//! Nanoseconds a frame, on one thread and between two.
//!
//! `cargo bench -p ring` prints each figure as the median of eleven rounds, with the fastest and the slowest. Run by
//! `cargo test` it does the same work once and small, and prints nothing. Two threads need two idle cores: on a
//! shared one the figures are the scheduler's.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and reports"
)]

use std::{
    hint::{black_box, spin_loop},
    thread,
    time::Instant,
};

use ring::{Consumer, Mailbox, Producer, credit, frame_size, ring};

const RING_SIZE: usize = 4096;
const PAYLOAD: [u8; 64] = [0x5a; 64];
const BATCH: usize = 16;

fn main() {
    // `cargo bench` says so; `cargo test` does not.
    let full = std::env::args().any(|argument| argument == "--bench");
    assert!(BATCH * frame_size(PAYLOAD.len()) <= credit(RING_SIZE, PAYLOAD.len()), "a batch fits");
    report(full, "same thread, batches of 16 x 64 B, per frame", 1_000_000, same_thread);
    report(full, "the same with a parcel (a box) in each", 1_000_000, same_thread_parcels);
    report(full, "bell while awake: post and collect, per post", 1_000_000, bell);
    report(full, "two threads, one way, batches of 16 x 64 B, per frame", 1_000_000, stream);
    report(full, "two threads, one 64 B frame there and back", 100_000, ping);
}

/// Runs `work(count)` and prints nanoseconds for each of `count`.
fn report(full: bool, name: &str, count: u32, work: fn(u32)) {
    if !full {
        work(1000);
        return;
    }
    let mut rounds: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            work(count);
            start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name}: {:.1} ns ({:.1} .. {:.1})", rounds[5], rounds[0], rounds[10]);
}

fn same_thread(count: u32) {
    let (mut to, mut from) = ring::<()>(RING_SIZE, 0);
    for _ in 0..count / 16 {
        for _ in 0..BATCH {
            to.push(&[black_box(&PAYLOAD)], None);
        }
        to.publish();
        assert_eq!(drain(&mut from), BATCH);
    }
}

fn same_thread_parcels(count: u32) {
    let (mut to, mut from) = ring::<Box<u8>>(RING_SIZE, BATCH);
    let mut boxes: Vec<Box<u8>> = (0..16).map(Box::new).collect();
    for _ in 0..count / 16 {
        for parcel in boxes.drain(..) {
            to.push(&[black_box(&PAYLOAD)], Some(parcel));
        }
        to.publish();
        while let Some(payload) = from.peek() {
            black_box(payload);
            boxes.extend(from.take_parcel());
            from.pop();
        }
        from.release();
        assert_eq!(boxes.len(), BATCH);
    }
}

fn bell(count: u32) {
    let mailbox = Mailbox::new(1);
    for _ in 0..count {
        assert!(!mailbox.post(black_box(7)));
        assert_eq!(mailbox.collect().count(), 1);
    }
}

fn stream(count: u32) {
    let (mut to, mut from) = ring::<()>(RING_SIZE, 0);
    let total = (count / 16) as usize * BATCH;
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..total / BATCH {
                for _ in 0..BATCH {
                    wait_for(|| to.room(PAYLOAD.len()));
                    to.push(&[black_box(&PAYLOAD)], None);
                }
                to.publish();
            }
        });
        let mut got = 0;
        while got < total {
            wait_for(|| !from.is_empty());
            got += drain(&mut from);
        }
    });
}

fn ping(count: u32) {
    let (mut ask, mut asked) = ring::<()>(RING_SIZE, 0);
    let (mut answer, mut answered) = ring::<()>(RING_SIZE, 0);
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..count {
                receive(&mut asked);
                send(&mut answer);
            }
        });
        for _ in 0..count {
            send(&mut ask);
            receive(&mut answered);
        }
    });
}

fn send(to: &mut Producer<()>) {
    to.push(&[black_box(&PAYLOAD)], None);
    to.publish();
}

fn receive(from: &mut Consumer<()>) {
    wait_for(|| !from.is_empty());
    assert_eq!(drain(from), 1);
}

fn drain(from: &mut Consumer<()>) -> usize {
    let mut count = 0;
    while let Some(payload) = from.peek() {
        black_box(payload);
        from.pop();
        count += 1;
    }
    from.release();
    count
}

/// Spins, and lets others run now and then, so that one core is enough to finish.
fn wait_for(mut due: impl FnMut() -> bool) {
    let mut spins = 0_u32;
    while !due() {
        spins += 1;
        if spins.is_multiple_of(1024) {
            thread::yield_now();
        } else {
            spin_loop();
        }
    }
}
