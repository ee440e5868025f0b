//! Real threads, real caches: everything arrives once, whole and in order, and nobody sleeps for good.
#![cfg(not(loom))]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

use ring::{Consumer, Mailbox, Producer, SENDERS_MAX, Senders, payload_max, ring};

const FRAMES: u64 = if cfg!(miri) { 60 } else { 50_000 };
const MESSAGES: u64 = if cfg!(miri) { 10 } else { 5_000 };

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What frame `number` holds: both sides know it, so every byte of every frame is checked.
fn payload(number: u64, size_max: usize) -> Vec<u8> {
    let size = usize::try_from(mix(number) >> 40).expect("24 bits fit") % (size_max + 1);
    (0..).flat_map(|word| mix(number ^ (word << 48)).to_le_bytes()).take(size).collect()
}

/// Every third frame carries its own number.
fn parcel(number: u64) -> Option<Box<u64>> {
    number.is_multiple_of(3).then(|| Box::new(number))
}

#[test]
fn every_frame_arrives_once_whole_and_in_order() {
    for size in [64, 1024] {
        let size_max = payload_max(size);
        let (mut to, mut from) = ring::<Box<u64>>(size, 2);
        thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..FRAMES {
                    let payload = payload(number, size_max);
                    while !to.room(payload.len()) {
                        to.publish();
                        thread::yield_now();
                    }
                    match parcel(number) {
                        None if mix(number).is_multiple_of(2) => {
                            to.push_where_asked(payload.len()).copy_from_slice(&payload);
                        }
                        parcel => to.push(&[&payload], parcel),
                    }
                    // Batches of uneven length.
                    if mix(number).is_multiple_of(5) {
                        to.publish();
                    }
                }
                to.publish();
            });
            let mut number = 0;
            while number < FRAMES {
                while from.is_empty() {
                    from.release();
                    thread::yield_now();
                }
                // Those before the next parcel are popped together.
                let seen = from.ahead().zip(number..).take_while(|(_, number)| parcel(*number).is_none());
                let seen = seen.inspect(|(seen, number)| {
                    assert_eq!(*seen, payload(*number, size_max), "frame {number}");
                });
                let count = seen.count();
                if count > 1 {
                    from.pop_seen(count);
                    number += count as u64;
                    continue;
                }
                assert_eq!(from.peek(), Some(&payload(number, size_max)[..]), "frame {number}");
                // Some are left for `pop` to drop.
                if mix(number).is_multiple_of(2) {
                    assert_eq!(from.take_parcel(), parcel(number), "frame {number}");
                }
                from.pop();
                if mix(number).is_multiple_of(7) {
                    from.release();
                }
                number += 1;
            }
            assert!(from.is_empty());
        });
    }
}

/// Three lanes send to one that truly sleeps between messages. A lost wake-up would hang this test.
#[test]
fn a_sleeper_is_woken_for_everything_and_at_most_once_a_sleep_and_word() {
    // Of two words.
    const SENDERS: [usize; 3] = [0, 62, 63];
    let mailbox = Arc::new(Mailbox::new(SENDERS_MAX));
    let rings_rung = Arc::new(AtomicUsize::new(0));
    let receiver = thread::current();
    thread::scope(|scope| {
        let mut rings: Vec<Consumer<()>> = Vec::new();
        for sender in SENDERS {
            let (to, from) = ring::<()>(64, 0);
            rings.push(from);
            let (mailbox, rung, receiver) = (Arc::clone(&mailbox), Arc::clone(&rings_rung), receiver.clone());
            scope.spawn(move || send(sender, to, &mailbox, &rung, &receiver));
        }
        let sleeps = receive(&mut rings, &SENDERS, &mailbox);
        let rung = rings_rung.load(Ordering::Relaxed);
        assert!(rung <= 2 * sleeps, "{rung} bells in {sleeps} sleeps");
    });
}

fn send(sender: usize, mut to: Producer<()>, mailbox: &Mailbox, rung: &AtomicUsize, receiver: &Thread) {
    for number in 0..MESSAGES {
        while !to.room(8) {
            thread::yield_now();
        }
        to.push(&[&number.to_le_bytes()], None);
        assert!(to.publish());
        if mailbox.post(sender) {
            rung.fetch_add(1, Ordering::Relaxed);
            receiver.unpark();
        }
        if mix(number).is_multiple_of(4) {
            thread::yield_now();
        }
    }
}

/// Ends when all messages have come; returns how often sleep was declared.
fn receive(rings: &mut [Consumer<()>], senders: &[usize], mailbox: &Mailbox) -> usize {
    let mut next = vec![0_u64; rings.len()];
    let mut sleeps = 0;
    while next.iter().any(|&number| number < MESSAGES) {
        let posted: Senders = mailbox.collect();
        if posted.is_empty() {
            sleeps += 1;
            if mailbox.declare_sleep() {
                thread::park();
                mailbox.wake();
            }
        }
        for sender in posted {
            let index = senders.iter().position(|&known| known == sender).expect("only known senders post");
            while let Some(payload) = rings[index].peek() {
                assert_eq!(payload, next[index].to_le_bytes());
                rings[index].pop();
                next[index] += 1;
            }
            rings[index].release();
        }
    }
    sleeps
}
