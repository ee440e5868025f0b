//! Sums of floats do not panic, and are numbers themselves.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::floats(data));
