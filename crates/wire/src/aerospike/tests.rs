//! What must hold for any bytes, with those of a seeded generator.

use crate::fuzz::aerospike::{requests, some_input};

#[test]
fn requests_read_the_same_however_they_are_cut() {
    for seed in 0..1500_u64 {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 33
        };
        requests(&some_input(&mut next), seed);
    }
}
