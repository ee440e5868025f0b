//! Pieces of a snapshot, as Redis 7.0 writes it to its file and sends it to a replica (`rdbSaveRio` in its src/rdb.c;
//! <https://rdb.fnordig.de/file_format.html>). What reads them is [`super::read`], or a server of Redis.
//!
//! ```text
//! R E D I S 0 0 1 0                 the version
//! fa name value …                   what is known of it, in two strings each
//! fe db                             a database, as a length; then keys of it:
//!     fc 7bd8c32cbb030000           when the next one expires: Unix time in milliseconds, the lowest byte first
//!     00 key value                  a type, two strings
//! ff                                the end
//! 4c e0 a4 17 f9 50 d2 …            CRC-64 of all before it, the lowest byte first
//! ```
//! Strings and lengths are those of [`super`]. Redis leaves databases without keys out, and reads any order, a database in several pieces
//! too. Behind a database it says how many keys it has (`fb`), which whoever reads it need not be told.
//!
//! The sum is the caller's, through whose hands all bytes go, those of long values too:
//! ```
//! use wire::rdb::crc::Crc64;
//! use wire::rdb::file::{END, put_database, put_head, put_long_entry_head, put_number_entry};
//!
//! let (mut sent, mut crc) = (Vec::new(), Crc64::default());
//! let mut send = |bytes: &[u8]| {
//!     crc.update(bytes);
//!     sent.extend_from_slice(bytes);
//! };
//! let long_value = [b'v'; 100_000];
//! let mut page = Vec::new();
//! put_head(&mut page, &[("redis-ver", b"7.0.15")]);
//! put_database(&mut page, 0);
//! put_number_entry(&mut page, b"count", 7);
//! put_long_entry_head(&mut page, b"long", long_value.len());
//! send(&page);
//! send(&long_value);
//! send(&[END]);
//! sent.extend(crc.value().to_le_bytes());
//! ```

use super::lzf::Compressor;
use super::{TYPE_STRING, VERSION, put_length, put_untyped};
use crate::number::format_i64;

/// What ends a snapshot. Its checksum of eight bytes stands behind it.
pub const END: u8 = 0xff;

const AUX: u8 = 0xfa;
const EXPIRY_MS: u8 = 0xfc;
const DATABASE: u8 = 0xfe;

/// Writes what a snapshot begins with: its version, and names and values of what is known of it, in the order given. Of Redis that
/// is `redis-ver`, `redis-bits`, `ctime` (Unix time, seconds), `used-mem` (bytes), for a replica `repl-stream-db`, `repl-id` and
/// `repl-offset`, and `aof-base` (0). What it does not know it passes over.
pub fn put_head(out: &mut Vec<u8>, aux: &[(&str, &[u8])]) {
    out.extend(format!("REDIS{VERSION:04}").into_bytes());
    for (name, value) in aux {
        out.push(AUX);
        put_untyped(out, name.as_bytes(), None);
        put_untyped(out, value, None);
    }
}

/// Writes that what follows is of a database.
pub fn put_database(out: &mut Vec<u8>, db: u16) {
    out.push(DATABASE);
    put_length(out, u64::from(db));
}

/// Writes when the key of the entry that follows expires, as Unix time in milliseconds. A replica keeps it even if that is over, until
/// it is told that the key is gone.
pub fn put_expiry(out: &mut Vec<u8>, unix_ms: i64) {
    out.push(EXPIRY_MS);
    out.extend(unix_ms.to_le_bytes());
}

/// Writes a key and its string, both in one piece, in the fewest bytes that Redis has for them. The compressor is for both; without
/// one, what is no number is written as it is.
pub fn put_entry(out: &mut Vec<u8>, key: &[u8], value: &[u8], mut compressor: Option<&mut Compressor>) {
    out.push(TYPE_STRING);
    put_untyped(out, key, compressor.as_deref_mut());
    put_untyped(out, value, compressor);
}

/// As [`put_entry`] without a compressor, of the digits of a number.
pub fn put_number_entry(out: &mut Vec<u8>, key: &[u8], value: i64) {
    put_entry(out, key, format_i64(value).as_bytes(), None);
}

/// Writes what stands in front of a value of `size` bytes that follow as they are: its type, its key, and its length.
pub fn put_long_entry_head(out: &mut Vec<u8>, key: &[u8], size: usize) {
    out.push(TYPE_STRING);
    put_untyped(out, key, None);
    put_length(out, size as u64);
}

/// What redis-server 7.0.15 wrote: `SAVE`, with the keys set before, and the bytes of its dump.rdb behind `aof-base`, up to the end.
#[cfg(test)]
mod tests {
    use super::super::crc::Crc64;
    use super::super::tests::bytes;
    use super::*;

    /// A database as Redis writes it, which says how many keys it has, and how many of those expire.
    fn put_sized(out: &mut Vec<u8>, db: u16, keys: u64, expiring: u64) {
        put_database(out, db);
        out.push(0xfb);
        put_length(out, keys);
        put_length(out, expiring);
    }

    fn put(with: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        with(&mut out);
        out
    }

    #[test]
    fn entries_are_those_of_redis() {
        let mut compressor = Compressor::default();
        let mut check = |key: &[u8], value: &[u8], want: &str| {
            let entry = put(|out| put_entry(out, key, value, Some(&mut compressor)));
            assert_eq!(entry, bytes(want), "{} {}", key.escape_ascii(), value.escape_ascii());
        };
        check(b"hello", b"world", "00 0568656c6c6f 05776f726c64");
        check(b"12", b"-1", "00 c00c c0ff");
        check(b"-129", b"32768", "00 c17fff c200800000");
        check(b"-2147483648", b"012", "00 c200000080 03303132");
        check(b"2147483648", b"0", "00 0a32313437343833363438 c000");
        check(b"", b"127", "00 00 c07f");
        check(
            &[b'x'; 20],
            &[b'y'; 20],
            "00 147878787878787878787878787878787878787878 147979797979797979797979797979797979797979",
        );
        check(&[b'x'; 21], &[b'y'; 21], "00 c30615017878e00a00 c30615017979e00a00");
        check(b"k", &b"ab".repeat(200), "00 016b c30d419002616261e0ff01e07a01016162");
        check(&[b'k'; 400], b"", "00 c30c4190016b6be0ff00e07b00016b6b 00");
        check(
            &(33..97).collect::<Vec<u8>>(),
            b"v",
            "00 40402122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f60 0176",
        );
    }

    #[test]
    fn numbers_are_written_as_their_digits() {
        let check = |number, want: &str| {
            assert_eq!(put(|out| put_number_entry(out, b"k", number)), bytes(want), "{number}");
        };
        check(-1, "00 016b c0ff");
        check(2_147_483_648, "00 016b 0a32313437343833363438");
        check(-2_147_483_649, "00 016b 0b2d32313437343833363439");
        check(i64::MAX, "00 016b 1339323233333732303336383534373735383037");
        check(i64::MIN, "00 016b 142d39323233333732303336383534373735383038");
    }

    #[test]
    fn bytes_that_follow_by_reference_are_the_same_without_a_compressor() {
        // None of these is a number, which would be shorter.
        for size in [0, 1, 63, 64, 16_383, 16_384, 70_000] {
            let value = vec![b'v'; size];
            for key in [&b"k"[..], b"12", &[b'x'; 30]] {
                let mut long = put(|out| put_long_entry_head(out, key, size));
                long.extend_from_slice(&value);
                assert_eq!(long, put(|out| put_entry(out, key, &value, None)), "{size} bytes");
            }
        }
        let head = put(|out| put_long_entry_head(out, b"k", 1 << 32));
        assert_eq!(head, bytes("00 016b 81 0000000100000000"));
    }

    #[test]
    fn databases_and_expiries_are_those_of_redis() {
        let check = |db, keys, expiring, want: &str| {
            assert_eq!(put(|out| put_sized(out, db, keys, expiring)), bytes(want));
        };
        check(0, 1, 0, "fe00 fb0100");
        check(15, 1, 1, "fe0f fb0101");
        check(0, 70, 65, "fe00 fb40464041");
        check(0, 17_000, 0, "fe00 fb800000426800");
        // That many were not tried.
        check(300, 1 << 32, 1 << 14, "fe412c fb810000000100000000 8000004000");
        let check = |unix_ms, want: &str| assert_eq!(put(|out| put_expiry(out, unix_ms)), bytes(want));
        check(4_102_444_800_123, "fc 7bd8c32cbb030000");
        check(1 << 62, "fc 0000000000000040");
    }

    /// All of a file, with its sum.
    fn sealed(mut file: Vec<u8>) -> Vec<u8> {
        file.push(END);
        let mut crc = Crc64::default();
        crc.update(&file);
        file.extend(crc.value().to_le_bytes());
        file
    }

    #[test]
    fn a_file_is_that_of_redis() {
        // SET hello world, SELECT 1, SET 12 -1, PEXPIREAT 12 4102444800123, SELECT 7, SET n 2147483648, SELECT 15, SET x… abab…, SAVE.
        let want = "524544495330303130 fa0972656469732d76657206372e302e3135 fa0a72656469732d62697473c040
            fa056374696d65c2f046066b fa08757365642d6d656dc2d85d1100 fa08616f662d62617365c000
            fe00 fb0100 000568656c6c6f05776f726c64
            fe01 fb0101 fc7bd8c32cbb030000 00c00cc0ff
            fe07 fb0100 00016e0a32313437343833363438
            fe0f fb0100 00c30615017878e00a00c30d419002616261e0ff01e07a01016162
            ff 444ce0a417f950d2";
        let file = put(|out| {
            let aux: [(&str, &[u8]); 5] = [
                ("redis-ver", b"7.0.15"),
                ("redis-bits", b"64"),
                ("ctime", b"1795573488"),
                ("used-mem", b"1138136"),
                ("aof-base", b"0"),
            ];
            put_head(out, &aux);
            put_sized(out, 0, 1, 0);
            put_entry(out, b"hello", b"world", None);
            put_sized(out, 1, 1, 1);
            put_expiry(out, 4_102_444_800_123);
            put_number_entry(out, b"12", -1);
            put_sized(out, 7, 1, 0);
            put_number_entry(out, b"n", 2_147_483_648);
            put_sized(out, 15, 1, 0);
            put_entry(out, &[b'x'; 21], &b"ab".repeat(200), Some(&mut Compressor::default()));
        });
        assert_eq!(sealed(file), bytes(want));
    }

    #[test]
    fn what_a_replica_is_sent_is_that_of_redis() {
        // The 190 bytes that PSYNC ? -1 brought, with hello set to world.
        let want = b"REDIS0010\xfa\tredis-ver\x067.0.15\xfa\nredis-bits\xc0@\xfa\x05ctime\xc2\x19G\x06k\
            \xfa\x08used-mem\xc2\xe8\xbb\x11\x00\xfa\x0erepl-stream-db\xc0\x00\
            \xfa\x07repl-id(77b7349db437aa8a07e42cdb38914d83299360ba\xfa\x0brepl-offset\xc0\x00\
            \xfa\x08aof-base\xc0\x00\xfe\x00\xfb\x01\x00\x00\x05hello\x05world\xff\x9d\x07\xda7?\xfd\xce\x90";
        let file = put(|out| {
            let aux: [(&str, &[u8]); 8] = [
                ("redis-ver", b"7.0.15"),
                ("redis-bits", b"64"),
                ("ctime", b"1795573529"),
                ("used-mem", b"1162216"),
                ("repl-stream-db", b"0"),
                ("repl-id", b"77b7349db437aa8a07e42cdb38914d83299360ba"),
                ("repl-offset", b"0"),
                ("aof-base", b"0"),
            ];
            put_head(out, &aux);
            put_sized(out, 0, 1, 0);
            put_long_entry_head(out, b"hello", 5);
            out.extend_from_slice(b"world");
        });
        assert_eq!(sealed(file), want);
    }
}
