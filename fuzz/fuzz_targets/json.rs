//! Verbs on paths of documents come to the same whole and in pieces, and name only bytes that there are.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    wire::fuzz::json::operations(data);
});
