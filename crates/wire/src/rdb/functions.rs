//! Libraries of functions, in snapshots and in what FUNCTION DUMP and FUNCTION RESTORE carry from server to server (`rdbSaveFunctions` and
//! `rdbFunctionLoad` in src/rdb.c of Redis 7.0).
//!
//! ```text
//! f5 source                             a library: its text, the first line included
//! f6 name engine 0|1 [about] source     the same as the first candidates of 7.0 wrote it, without that line
//! ```
//! A payload is such libraries, one behind the other, then the version and the checksum of [`super::trailer`].

use super::crc::Crc64;
use super::lzf::{Compressor, Decompressor, grown_size_max};
use super::{Reader, Refusal, TRAILER_SIZE, is_sealed, put_untyped, trailer};
use crate::number::format_i64;

const LIBRARY: u8 = 0xf5;
const LIBRARY_OF_CANDIDATES: u8 = 0xf6;

/// Why a payload is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Its end is no version that is known, with the sum of what is before.
    Seal,
    /// It holds something else than libraries.
    Type,
    /// It ends inside of one, or one of its strings is none.
    Library,
    /// A library has more bytes than it may have.
    TooLong,
}

/// Writes a library. Without a compressor it is written as it is.
pub fn put_library(out: &mut Vec<u8>, source: &[u8], compressor: Option<&mut Compressor>) {
    out.push(LIBRARY);
    put_untyped(out, source, compressor);
}

/// Ends a payload of which all but that has been written.
pub fn seal(out: &mut Vec<u8>) {
    let mut crc = Crc64::default();
    crc.update(out);
    out.extend(trailer(crc));
}

/// The sources of a payload's libraries, of so many bytes each at most.
///
/// # Errors
/// Why it is none.
pub fn read(payload: &[u8], size_max: usize) -> Result<Vec<Vec<u8>>, Wrong> {
    let (libraries, end) = payload.split_last_chunk::<TRAILER_SIZE>().ok_or(Wrong::Seal)?;
    let mut crc = Crc64::default();
    crc.update(libraries);
    crc.update(&end[..2]);
    if !is_sealed(*end, crc) {
        return Err(Wrong::Seal);
    }
    let mut reader = Reader { front: libraries, at: 0 };
    let mut sources = Vec::new();
    while reader.at < libraries.len() {
        let kind = reader.byte().map_err(|_| Wrong::Type)?;
        let mut string = || string(&mut reader, size_max);
        sources.push(match kind {
            LIBRARY => string()?,
            LIBRARY_OF_CANDIDATES => {
                let (name, engine) = (string()?, string()?);
                let has_about = reader.length().map_err(|_| Wrong::Library)?.number != 0;
                if has_about {
                    self::string(&mut reader, size_max)?;
                }
                let source = self::string(&mut reader, size_max)?;
                [b"#!", &engine[..], b" name=", &name, b"\n", &source].concat()
            }
            _ => return Err(Wrong::Type),
        });
    }
    Ok(sources)
}

fn string(reader: &mut Reader<'_>, size_max: usize) -> Result<Vec<u8>, Wrong> {
    let broken = |_: Refusal| Wrong::Library;
    let head = reader.length().map_err(broken)?;
    if !head.is_kind {
        let bytes = take(reader, head.number)?;
        return if bytes.len() <= size_max { Ok(bytes.to_vec()) } else { Err(Wrong::TooLong) };
    }
    let digits = |number: i64| Ok(format_i64(number).as_bytes().to_vec());
    match head.number {
        0 => digits(i8::from_le_bytes(reader.bytes().map_err(broken)?).into()),
        1 => digits(i16::from_le_bytes(reader.bytes().map_err(broken)?).into()),
        2 => digits(i32::from_le_bytes(reader.bytes().map_err(broken)?).into()),
        3 => {
            let size = reader.length().map_err(broken)?.number;
            let whole_size = reader.length().map_err(broken)?.number;
            let bytes = take(reader, size)?;
            let whole_size = usize::try_from(whole_size).map_err(|_| Wrong::Library)?;
            if grown_size_max(bytes.len()) < whole_size {
                return Err(Wrong::Library);
            }
            if size_max < whole_size {
                return Err(Wrong::TooLong);
            }
            let mut whole = Vec::with_capacity(whole_size);
            let mut decompressor = Decompressor::new(whole_size);
            let used = decompressor.advance(bytes, whole_size, |bytes| whole.extend_from_slice(bytes));
            let is_whole = used == Ok(bytes.len()) && decompressor.is_whole();
            if is_whole { Ok(whole) } else { Err(Wrong::Library) }
        }
        _ => Err(Wrong::Library),
    }
}

fn take<'a>(reader: &mut Reader<'a>, size: u64) -> Result<&'a [u8], Wrong> {
    let size = reader.left(size, reader.front.len()).map_err(|_| Wrong::Library)?;
    let bytes = &reader.front[reader.at..][..size];
    reader.at += size;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::bytes;
    use super::*;

    const SIZE_MAX: usize = 1000;
    const SOURCE: &[u8] = b"#!lua name=a\nredis.register_function('f', function() return 1 end)";

    fn payload(libraries: &[u8]) -> Vec<u8> {
        let mut payload = libraries.to_vec();
        seal(&mut payload);
        payload
    }

    /// What redis-server 7.0.15 answered to FUNCTION DUMP, uncompressed and compressed.
    #[test]
    fn payloads_are_those_of_redis() {
        let plain = bytes(
            "f5404223216c7561206e616d653d610a72656469732e72656769737465725f66756e6374696f6e282766272c2066756e6374696f6e2829207265
             7475726e203120656e64290a00e3d1b98319f4e384",
        );
        let longer = [SOURCE, b" -- ", &[b'x'; 100]].concat();
        let compressed = bytes(
            "f5c3404a40aa1f23216c7561206e616d653d610a72656469732e72656769737465725f66756e630974696f6e282766272c20e0000d1329207265
             7475726e203120656e6429202d2d2078e058000178780a005b1cf8f8d9b20b3c",
        );
        let mut out = Vec::new();
        put_library(&mut out, SOURCE, None);
        assert_eq!(payload(&out), plain);
        assert_eq!(read(&plain, SIZE_MAX), Ok(vec![SOURCE.to_vec()]));
        out.clear();
        put_library(&mut out, &longer, Some(&mut Compressor::default()));
        assert_eq!(payload(&out), compressed);
        assert_eq!(read(&compressed, SIZE_MAX), Ok(vec![longer]));
        let none = bytes("0a005d9b5c400f7fa2da");
        assert_eq!(payload(&[]), none);
        assert_eq!(read(&none, SIZE_MAX), Ok(vec![]));
    }

    #[test]
    fn libraries_of_candidates_get_a_first_line() {
        let libraries = bytes("f6 0161 034c5541 00 0178  f6 0162 034c5541 01 0461626364 c00c");
        let want = vec![b"#!LUA name=a\nx".to_vec(), b"#!LUA name=b\n12".to_vec()];
        assert_eq!(read(&payload(&libraries), SIZE_MAX), Ok(want));
    }

    #[test]
    fn what_is_no_payload_is_refused() {
        let check = |libraries: &str, want| {
            assert_eq!(read(&payload(&bytes(libraries)), 4), Err(want), "{libraries}");
        };
        check("00 0161", Wrong::Type);
        check("f5 0161 00", Wrong::Type);
        check("f5", Wrong::Library);
        check("f5 05616263", Wrong::Library);
        check("f5 8100000000ffffffff 61", Wrong::Library);
        check("f5 c4", Wrong::Library);
        check("f5 c0", Wrong::Library);
        check("f5 056162636465", Wrong::TooLong);
        check("f5 c3 02 81000000000fffffff 0061", Wrong::Library);
        check("f5 c3 03 05 006120", Wrong::TooLong);
        check("f5 c3 02 02 0061", Wrong::Library);
        check("f6 0161 034c5541", Wrong::Library);
        for payload in
            [&b""[..], b"bad_payload", &bytes("0a005d9b5c400f7fa2db"), &bytes("0b005d9b5c400f7fa2da")]
        {
            assert_eq!(read(payload, SIZE_MAX), Err(Wrong::Seal));
        }
    }

    #[test]
    fn a_payload_that_was_altered_or_cut_is_never_read() {
        let mut whole = Vec::new();
        put_library(&mut whole, SOURCE, Some(&mut Compressor::default()));
        let whole = payload(&whole);
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], SIZE_MAX), Err(Wrong::Seal), "cut at {end}");
            let mut altered = whole.clone();
            altered[end] ^= 1;
            assert_eq!(read(&altered, SIZE_MAX), Err(Wrong::Seal), "altered at {end}");
            // Whatever stands in front of a right sum is a value or none.
            let mut sealed = altered[..whole.len() - TRAILER_SIZE].to_vec();
            seal(&mut sealed);
            let _ = read(&sealed, SIZE_MAX);
        }
    }
}
