//! Requests of Couchbase and of its management port read the same whole and in pieces, and can be answered.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (seed, input) =
        data.split_first_chunk::<8>().map_or((0, data), |(seed, rest)| (u64::from_be_bytes(*seed), rest));
    wire::fuzz::couchbase::requests(input, seed);
});
