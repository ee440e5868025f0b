//! Settings are taken and given back in one form, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lane::fuzz::config(data));
