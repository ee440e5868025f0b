//! Every order in which two or three threads can take their steps, for rings and bells of the smallest size.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ring --test loom --release`. Loom reports a frame or parcel that is read
//! while it may still be written, a parcel lost or dropped twice, and a sleeper that nobody wakes (as a deadlock).
#![cfg(loom)]

use std::sync::{
    Arc as Counter,
    atomic::{AtomicUsize, Ordering},
};

use loom::{
    sync::{Arc, Notify},
    thread,
};
use ring::{Consumer, Mailbox, Producer, SENDERS_MAX, ring};

/// Counts drops outside loom's sight: threads run one at a time, and counting adds no order to explore.
struct Parcel(Counter<AtomicUsize>);

impl Drop for Parcel {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Three frames of 24 to 32 bytes through a ring of 64: the third waits for release and stands behind padding.
#[test]
fn frames_cross_whole_and_in_order_over_the_end() {
    loom::model(|| {
        let (mut to, mut from) = ring::<()>(64, 0);
        let sender = thread::spawn(move || {
            for number in 0..3_u8 {
                let size = FRAMES[usize::from(number)];
                while !to.room(size) {
                    thread::yield_now();
                }
                let place = if number == 1 { to.push_in_place(size) } else { to.push_where_asked(size) };
                place.fill(number);
                to.publish();
            }
        });
        let mut number = 0_u8;
        while number < 3 {
            while from.is_empty() {
                thread::yield_now();
            }
            let first = number;
            for payload in from.ahead() {
                assert_eq!(payload, &[number; 24][..FRAMES[usize::from(number)]]);
                number += 1;
            }
            match number - first {
                1 => from.pop(),
                count => from.pop_seen(usize::from(count)),
            }
            from.release();
        }
        sender.join().unwrap();
    });
}

const FRAMES: [usize; 3] = [9, 16, 24];

/// One slot and two parcels: the second waits until the first is out and released.
#[test]
fn parcels_cross_with_their_frames_and_slots_are_used_again() {
    loom::model(|| {
        let (mut to, mut from) = ring::<Box<u8>>(64, 1);
        let sender = thread::spawn(move || {
            for number in 0..2_u8 {
                while !to.room(1) {
                    thread::yield_now();
                }
                to.push(&[&[number]], Some(Box::new(number)));
                to.publish();
            }
        });
        for number in 0..2_u8 {
            while from.is_empty() {
                thread::yield_now();
            }
            assert_eq!(from.take_parcel(), Some(Box::new(number)));
            from.release();
            assert_eq!(from.peek(), Some(&[number][..]));
            from.pop();
        }
        sender.join().unwrap();
    });
}

/// One frame is popped or not, one is published and left, one is never published; either end goes first.
#[test]
fn what_both_ends_leave_is_dropped_once() {
    loom::model(|| {
        let dropped = Counter::new(AtomicUsize::new(0));
        let (mut to, mut from) = ring::<Parcel>(64, 3);
        let parcels = Counter::clone(&dropped);
        let sender = thread::spawn(move || {
            for number in 0..3 {
                to.push(&[], Some(Parcel(Counter::clone(&parcels))));
                if number < 2 {
                    to.publish();
                }
            }
        });
        if !from.is_empty() {
            from.pop();
            assert_eq!(dropped.load(Ordering::Relaxed), 1);
            from.release();
        }
        drop(from);
        sender.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    });
}

/// What a lane sleeps on: rung by senders (or a socket), counted by whom.
struct Bell {
    mailbox: Mailbox,
    notify: Notify,
    rung: AtomicUsize,
}

impl Bell {
    fn new() -> Arc<Self> {
        let mailbox = Mailbox::new(SENDERS_MAX);
        Arc::new(Self { mailbox, notify: Notify::new(), rung: AtomicUsize::new(0) })
    }

    fn post(&self, sender: usize) {
        if self.mailbox.post(sender) {
            self.rung.fetch_add(1, Ordering::Relaxed);
            self.notify.notify();
        }
    }
}

fn send(to: &mut Producer<()>, bell: &Bell, sender: usize, number: u8) {
    to.push(&[&[number]], None);
    assert!(to.publish());
    bell.post(sender);
}

/// Runs a receiver until each of its rings, by sender, has brought `count` frames. Returns the sleeps it declared.
fn receive(bell: &Bell, rings: &mut [(usize, Consumer<()>)], count: u8) -> usize {
    let mut got = vec![0_u8; rings.len()];
    let mut sleeps = 0;
    while got.iter().any(|&got| got < count) {
        let posted = bell.mailbox.collect();
        if posted.is_empty() {
            sleeps += 1;
            if bell.mailbox.declare_sleep() {
                bell.notify.wait();
                bell.mailbox.wake();
            }
        }
        for sender in posted {
            let index =
                rings.iter().position(|(known, _)| *known == sender).expect("only known senders post");
            let from = &mut rings[index].1;
            assert!(!from.is_empty() || 0 < got[index], "what was published before the post is seen");
            while let Some(payload) = from.peek() {
                assert_eq!(payload, [got[index]]);
                from.pop();
                got[index] += 1;
            }
            from.release();
        }
    }
    sleeps
}

/// One sender, two messages: each is posted awake, asleep, or between the two.
#[test]
fn one_sender_always_wakes_the_sleeper() {
    loom::model(|| {
        let bell = Bell::new();
        let (mut to, from) = ring::<()>(64, 0);
        let sender = thread::spawn({
            let bell = Arc::clone(&bell);
            move || {
                send(&mut to, &bell, 0, 0);
                send(&mut to, &bell, 0, 1);
            }
        });
        let sleeps = receive(&bell, &mut [(0, from)], 2);
        sender.join().unwrap();
        assert!(bell.rung.load(Ordering::Relaxed) <= sleeps);
    });
}

/// Two senders whose bits are in one word, then in two; how many of them may ring for one sleep.
fn two_senders(first: usize, second: usize, rings_max: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let bell = Bell::new();
        let (mut to_first, from_first) = ring::<()>(64, 0);
        let (mut to_second, from_second) = ring::<()>(64, 0);
        let senders = [
            thread::spawn({
                let bell = Arc::clone(&bell);
                move || send(&mut to_first, &bell, first, 0)
            }),
            thread::spawn({
                let bell = Arc::clone(&bell);
                move || send(&mut to_second, &bell, second, 0)
            }),
        ];
        let sleeps = receive(&bell, &mut [(first, from_first), (second, from_second)], 1);
        for sender in senders {
            sender.join().unwrap();
        }
        assert!(bell.rung.load(Ordering::Relaxed) <= rings_max * sleeps);
    });
}

#[test]
fn two_senders_of_one_word_ring_once_a_sleep() {
    two_senders(3, 4, 1);
}

#[test]
fn two_senders_of_two_words_ring_once_each_a_sleep() {
    two_senders(3, 70, 2);
}

/// The lane sleeps, is woken by a socket while a sender is between its bit and the bell, and sleeps again: the
/// late sender rings for a sleep that is over, and what comes in the next one is rung for all the same.
#[test]
fn a_late_sender_rings_for_the_sleep_it_meets() {
    loom::model(|| {
        let bell = Bell::new();
        let (mut to, from) = ring::<()>(64, 0);
        let sender = thread::spawn({
            let bell = Arc::clone(&bell);
            move || {
                send(&mut to, &bell, 0, 0);
                send(&mut to, &bell, 0, 1);
            }
        });
        let mut sleeps = 1;
        if bell.mailbox.declare_sleep() {
            // A socket ends this wait.
            bell.mailbox.wake();
        }
        sleeps += receive(&bell, &mut [(0, from)], 2);
        sender.join().unwrap();
        assert!(bell.rung.load(Ordering::Relaxed) <= sleeps);
    });
}
