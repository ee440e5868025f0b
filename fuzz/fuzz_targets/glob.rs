//! A match in single steps is the match in one go, within its bound.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::glob(data));
