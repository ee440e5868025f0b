//! Payloads of DUMP are read to the same end in one piece and in pieces, and what is a string is written and read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    wire::fuzz::rdb::payloads(data, data.len() as u64);
    wire::fuzz::rdb::strings(data);
});
