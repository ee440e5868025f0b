//! What it costs to record a request: send lag, response, service and the parts of the second, for times between 20 µs and 2 ms.
//!
//! `cost recording single|batch COUNT [time]`
//!
//! `single`: no two requests have the same times. `batch`: sixteen at once do, as in a pipeline. Without `time` the work is
//! done once, so that callgrind can count instructions (`bench/instructions.py`); with it five times, and the quickest is told.

use std::hint::black_box;
use std::time::Instant;

use load::record::{Ending, Record};
use load::workload::Operation;

/// Requests whose times are prepared; a power of two, and more than a branch predictor remembers.
const PREPARED: usize = 1 << 16;
/// Requests of a batch.
const BATCH: usize = 16;
/// From one reply to the next: a million a second.
const STEP_NS: u64 = 1_000;
/// The quickest of so many.
const ROUNDS: usize = 5;

/// Send lag and service of a request, nanoseconds.
type Times = (u64, u64);

pub(crate) fn main(is_batch: bool, count: &str, takes_time: bool) {
    let same = if is_batch { BATCH } else { 1 };
    let count: usize = count.parse().expect("COUNT is a number");
    let times = prepared();
    if !takes_time {
        println!("{count} requests, {} of them late", run(&times, count, same));
        return;
    }
    let rounds = (0..ROUNDS).map(|_| {
        #[expect(clippy::disallowed_methods, reason = "times are measured here")]
        let began = Instant::now();
        black_box(run(&times, count, same));
        began.elapsed().as_nanos() as f64 / count as f64
    });
    println!("{:.1} ns a request", rounds.fold(f64::INFINITY, f64::min));
}

/// Records so many requests, `same` of them always with the same times; how many replies took more than a millisecond.
fn run(times: &[Times], count: usize, same: usize) -> u64 {
    let mut record = Record::new(&[Operation::Get, Operation::Set], 0);
    let (mut now_ns, mut late) = (4_000_000, 0);
    for number in 0..count {
        let (lag_ns, service_ns) = times[number / same % PREPARED];
        if number % same == 0 {
            now_ns += STEP_NS;
        }
        record.begun(50);
        record.sent(lag_ns);
        record.advance(now_ns);
        let sent_ns = now_ns - service_ns;
        record.received(number / same % 2, Ending::Value, sent_ns - lag_ns, sent_ns, now_ns);
        while let Some(second) = record.take() {
            late += second
                .operations
                .iter()
                .map(|it| it.response.count_between(1_000_000, u64::MAX))
                .sum::<u64>();
            record.give_back(second);
        }
    }
    late
}

/// Times as they come: most near 60 µs, some in a long tail.
fn prepared() -> Vec<Times> {
    let mut state = 1_u64;
    let mut bits = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..PREPARED)
        .map(|_| {
            let tail_ns = if bits() % 50 == 0 { bits() % 1_900_000 } else { 0 };
            (bits() % 2_000, 20_000 + bits() % 80_000 + tail_ns)
        })
        .collect()
}
