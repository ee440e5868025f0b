//! Values in the form that Redis writes to files and that DUMP and RESTORE carry from server to server: strings, as versions up
//! to that of Redis 7.0 have them (<https://rdb.fnordig.de/file_format.html>).
//!
//! ```text
//! a payload   00  | 05 h e l l o                       | 0a 00        | cr df 76 65 34 20 0a …
//!             type  string                               version, u16   CRC-64 of all before it, little-endian
//!
//! a string    00xxxxxx                        x bytes follow
//!             01xxxxxx x                      the same, of 14 bits
//!             80 xxxx                         the same, of 32 bits, the highest first
//!             81 xxxxxxxx                     the same, of 64 bits
//!             c0 n | c1 nn | c2 nnnn          digits of a number of 8, 16 or 32 bits, the lowest byte first
//!             c3 compressed whole bytes…      LZF: both sizes as above, then so many bytes
//! ```
//! A snapshot is made of the same strings: [`mod@file`] writes one, [`mod@read`] reads one.
//! So are libraries of functions: [`functions`].
//!
//! As in Redis, bytes may follow a string that it does not need, and a string may reach into the version and the checksum.

pub mod crc;
pub mod file;
pub mod functions;
pub mod lzf;
pub mod read;

use crate::number::parse_i64;
use crc::Crc64;
use lzf::Compressor;

/// The version that Redis 7.0 writes, and the latest that it reads.
pub const VERSION: u16 = 10;
/// Bytes of version and checksum at the end of a payload.
pub const TRAILER_SIZE: usize = 10;
/// More bytes than stand in front of those of a string, its type included: enough for [`read_head`].
pub const HEAD_SIZE_MAX: usize = 20;

/// Longer strings are compressed, if at all.
const COMPRESSED_SIZE_MIN: usize = 21;
/// The longest text of a number that is written as one.
const NUMBER_SIZE_MAX: usize = 11;

const TYPE_STRING: u8 = 0;

/// What a payload holds, as its first bytes say. Places are counted from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The digits of this number.
    Number(i64),
    /// The bytes from `start` on, as many as `size`.
    Plain {
        /// Where they begin.
        start: usize,
        /// How many they are.
        size: usize,
    },
    /// The same, to be read by a [`lzf::Decompressor`].
    Compressed {
        /// Where they begin.
        start: usize,
        /// How many they are.
        size: usize,
        /// How many they become.
        whole_size: usize,
    },
}

/// Why a payload is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// These bytes are no value.
    Broken,
    /// It holds something else than a string: `lists`, for instance.
    Type(&'static str),
}

/// The names of types that Redis 7.0 reads beside strings.
fn name_of(kind: u8) -> Option<&'static str> {
    match kind {
        1 | 10 | 14 | 18 => Some("lists"),
        2 | 11 => Some("sets"),
        3 | 5 | 12 | 17 => Some("sorted sets"),
        4 | 9 | 13 | 16 => Some("hashes"),
        6 | 7 => Some("values of modules"),
        15 | 19 => Some("streams"),
        _ => None,
    }
}

/// Reads what stands in front of a value's bytes. `front` is the beginning of a payload of `payload_size` bytes: all of it or
/// [`HEAD_SIZE_MAX`] bytes.
pub fn read_head(front: &[u8], payload_size: usize) -> Result<Head, Refusal> {
    let mut reader = Reader { front, at: 0 };
    match reader.byte()? {
        TYPE_STRING => {}
        kind => return Err(name_of(kind).map_or(Refusal::Broken, Refusal::Type)),
    }
    let Length { number, is_kind } = reader.length()?;
    if !is_kind {
        let size = reader.left(number, payload_size)?;
        return Ok(Head::Plain { start: reader.at, size });
    }
    match number {
        0 => Ok(Head::Number(i64::from(i8::from_le_bytes(reader.bytes()?)))),
        1 => Ok(Head::Number(i64::from(i16::from_le_bytes(reader.bytes()?)))),
        2 => Ok(Head::Number(i64::from(i32::from_le_bytes(reader.bytes()?)))),
        3 => {
            // That one of these may say that it is none is Redis' way: its six bits count.
            let (size, whole_size) = (reader.length()?.number, reader.length()?.number);
            let size = reader.left(size, payload_size)?;
            // Nothing is left to compare, and so Redis finds nothing wrong.
            if whole_size == 0 {
                return Ok(Head::Plain { start: reader.at, size: 0 });
            }
            let whole_size = usize::try_from(whole_size).map_err(|_| Refusal::Broken)?;
            if lzf::grown_size_max(size) < whole_size {
                return Err(Refusal::Broken);
            }
            Ok(Head::Compressed { start: reader.at, size, whole_size })
        }
        _ => Err(Refusal::Broken),
    }
}

struct Length {
    number: u64,
    /// It is not a length, but how a string is written.
    is_kind: bool,
}

struct Reader<'a> {
    front: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn bytes<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Refusal> {
        let bytes = self.front.get(self.at..).and_then(<[u8]>::first_chunk).ok_or(Refusal::Broken)?;
        self.at += COUNT;
        Ok(*bytes)
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        self.bytes().map(|[byte]| byte)
    }

    fn length(&mut self) -> Result<Length, Refusal> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3f);
        let number = match first >> 6 {
            0 => low,
            1 => low << 8 | u64::from(self.byte()?),
            2 if low == 0 => u64::from(u32::from_be_bytes(self.bytes()?)),
            2 if low == 1 => u64::from_be_bytes(self.bytes()?),
            2 => return Err(Refusal::Broken),
            _ => return Ok(Length { number: low, is_kind: true }),
        };
        Ok(Length { number, is_kind: false })
    }

    /// A size of bytes that begin here, if they are there.
    fn left(&self, size: u64, payload_size: usize) -> Result<usize, Refusal> {
        let left = payload_size.checked_sub(self.at).ok_or(Refusal::Broken)?;
        usize::try_from(size).ok().filter(|size| *size <= left).ok_or(Refusal::Broken)
    }
}

/// Writes what stands in front of a string of `size` bytes that follow as they are: its type, and its length.
pub fn put_plain_head(out: &mut Vec<u8>, size: usize) {
    out.push(TYPE_STRING);
    put_length(out, size as u64);
}

/// Writes a string that is in one piece, its type first, in the fewest bytes that Redis has for it. Without a compressor, what is
/// no number is written as it is.
pub fn put_string(out: &mut Vec<u8>, string: &[u8], compressor: Option<&mut Compressor>) {
    out.push(TYPE_STRING);
    put_untyped(out, string, compressor);
}

/// The same without the type: a key of a file, for instance.
fn put_untyped(out: &mut Vec<u8>, string: &[u8], compressor: Option<&mut Compressor>) {
    if string.len() <= NUMBER_SIZE_MAX
        && let Some(number) = parse_i64(string).and_then(|number| i32::try_from(number).ok())
    {
        return put_number(out, number);
    }
    if let Some(compressor) = compressor.filter(|_| COMPRESSED_SIZE_MIN <= string.len()) {
        // The head has its final length only when the size behind it is known, so it is made aside.
        let mut bytes = Vec::new();
        if compressor.compress(string, &mut bytes, string.len() - 4) {
            out.push(0xc3);
            put_length(out, bytes.len() as u64);
            put_length(out, string.len() as u64);
            out.extend_from_slice(&bytes);
            return;
        }
    }
    put_length(out, string.len() as u64);
    out.extend_from_slice(string);
}

fn put_number(out: &mut Vec<u8>, number: i32) {
    if let Ok(number) = i8::try_from(number) {
        out.push(0xc0);
        out.extend(number.to_le_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xc1);
        out.extend(number.to_le_bytes());
    } else {
        out.push(0xc2);
        out.extend(number.to_le_bytes());
    }
}

fn put_length(out: &mut Vec<u8>, number: u64) {
    if let Some(byte) = u8::try_from(number).ok().filter(|byte| *byte < 1 << 6) {
        out.push(byte);
    } else if let Some(short) = u16::try_from(number).ok().filter(|short| *short < 1 << 14) {
        out.extend((0x4000 | short).to_be_bytes());
    } else if let Ok(word) = u32::try_from(number) {
        out.push(0x80);
        out.extend(word.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend(number.to_be_bytes());
    }
}

/// What ends a payload, of whose other bytes `crc` knows all.
pub fn trailer(mut crc: Crc64) -> [u8; TRAILER_SIZE] {
    let mut trailer = [0; TRAILER_SIZE];
    trailer[..2].copy_from_slice(&VERSION.to_le_bytes());
    crc.update(&trailer[..2]);
    trailer[2..].copy_from_slice(&crc.value().to_le_bytes());
    trailer
}

/// Whether the end of a payload is as it should be: a version that is known, and the checksum of all that is before that, the version
/// included, of which `crc` knows.
pub fn is_sealed(trailer: [u8; TRAILER_SIZE], crc: Crc64) -> bool {
    let [low, high, sum @ ..] = trailer;
    u16::from_le_bytes([low, high]) <= VERSION && u64::from_le_bytes(sum) == crc.value()
}

#[cfg(test)]
mod tests;
