//! Requests of Aerospike's clients read the same whole and in pieces, by views and by tokens, and can be answered.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (seed, input) =
        data.split_first_chunk::<8>().map_or((0, data), |(seed, rest)| (u64::from_be_bytes(*seed), rest));
    wire::fuzz::aerospike::requests(input, seed);
});
