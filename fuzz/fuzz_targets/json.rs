//! Verbs on paths of documents come to the same whole and in pieces, and name only bytes that there are: for any bytes, and for
//! documents, paths and values that are made of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    wire::fuzz::json::operations(data);
    wire::fuzz::json::requests(data);
});
