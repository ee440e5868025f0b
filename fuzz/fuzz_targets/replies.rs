//! Replies are collected the same whole and in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::replies(data));
