//! `cjson.decode`, `cmsgpack.unpack` and `struct.unpack` of scripts: any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    script::fuzz::libraries(data);
});
