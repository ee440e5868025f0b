//! Snapshots as Redis writes them to files and sends them to replicas, read as they come: a piece after the other, cut anywhere. The
//! format is drawn in [`super::file`]; what of it only Redis writes is read, too:
//! ```text
//! fb keys expiring        how many keys the database at hand has, and how many of them expire
//! fd 94356677             when the next key expires: Unix time in seconds
//! f8 idle │ f9 frequency  how recently, or how often, the next key was used
//! f5 code                 a library of functions
//! f4 slot keys expiring   how many keys a slot has (from version 12 on)
//! ```
//! Only strings are data that can be read: a key of another type is refused with the type's name.
//! ```
//! use wire::rdb::read::{Item, Reader, Text, Value};
//!
//! let mut file = Vec::new();
//! wire::rdb::file::put_head(&mut file, &[]);
//! wire::rdb::file::put_entry(&mut file, b"hello", b"world", None);
//! file.push(wire::rdb::file::END);
//! file.extend([0; 8]);
//! let (mut reader, mut at, mut found) = (Reader::default(), 0, Vec::new());
//! loop {
//!     let (item, size) = reader.next(&file[at..]).unwrap().expect("all of it is here");
//!     at += size;
//!     match item {
//!         Item::Entry { key, value: Value::Whole(value), .. } => found.push((key.bytes().unwrap(), value.bytes().unwrap())),
//!         Item::End => break,
//!         _ => {}
//!     }
//! }
//! assert_eq!(found, [(b"hello".into(), b"world".into())]);
//! ```

use std::borrow::Cow;
use std::fmt;

use super::crc::Crc64;
use super::lzf::{self, Decompressor};
use super::name_of;
use crate::number::{format_i64, parse_i64};

/// The latest version that is read. Those after 10, which Redis 7.0 writes, have other types and the same strings.
const VERSION_MAX: u16 = 12;
/// The first version whose end has a checksum.
const VERSION_SUMMED: u16 = 5;
/// A value that is longer and not compressed is left to the caller, a piece at a time.
const WHOLE_SIZE_MAX: u64 = 64 * 1024;

/// What a snapshot has next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Something that the reader keeps for itself, or that does not matter.
    Nothing,
    /// What follows is of this database.
    Database(u64),
    /// A library of functions: its source.
    Library(Text<'a>),
    /// What the server sends of changes behind the snapshot goes on in this database, and does not say so (`repl-stream-db`): that
    /// server follows another one itself.
    StreamDatabase(u64),
    /// A key and its string.
    Entry {
        /// The key.
        key: Text<'a>,
        /// What it holds.
        value: Value<'a>,
        /// When it expires, Unix time in milliseconds.
        expires_ms: Option<i64>,
    },
    /// All was read, and its checksum is right.
    End,
}

/// A string as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// The digits of this number.
    Number(i64),
    /// These bytes.
    Plain(&'a [u8]),
    /// What these bytes of LZF become.
    Compressed(&'a [u8], usize),
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// All of it.
    Whole(Text<'a>),
    /// So many bytes, which follow as they are: each is to be shown to [`Reader::pass`].
    Follows(u64),
}

/// Why a snapshot is not read further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not begin as a snapshot does.
    NoSnapshot,
    /// Its version is not known.
    Version(u16),
    /// It holds something else than strings: `lists`, for instance.
    Type(&'static str),
    /// These bytes mean nothing.
    Broken(&'static str),
    /// What was read is not what was written.
    Sum,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoSnapshot => write!(f, "it does not begin with REDIS and a version"),
            Refusal::Version(version) => {
                write!(f, "its version is {version}, and versions up to {VERSION_MAX} are read")
            }
            Refusal::Type(name) => write!(f, "it holds {name}, and only strings are served"),
            Refusal::Broken(what) => write!(f, "it is damaged: {what}"),
            Refusal::Sum => write!(f, "its checksum is wrong"),
        }
    }
}

impl<'a> Text<'a> {
    /// The string.
    ///
    /// # Errors
    /// Its bytes are not LZF of that size.
    pub fn bytes(&self) -> Result<Cow<'a, [u8]>, Refusal> {
        match *self {
            Text::Number(number) => Ok(Cow::Owned(format_i64(number).as_bytes().to_vec())),
            Text::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            Text::Compressed(bytes, whole_size) => {
                let (mut decompressor, mut whole, mut at) = (Decompressor::new(whole_size), Vec::new(), 0);
                while !decompressor.is_whole() {
                    let before = (at, whole.len());
                    at += decompressor
                        .advance(&bytes[at..], PIECE_SIZE, |piece| whole.extend_from_slice(piece))
                        .map_err(|_| Refusal::Broken("a compressed string"))?;
                    if (at, whole.len()) == before {
                        return Err(Refusal::Broken("a compressed string"));
                    }
                }
                Ok(Cow::Owned(whole))
            }
        }
    }
}

/// Bytes that are decompressed at a time.
const PIECE_SIZE: usize = 1 << 20;

/// Reads a snapshot; see the top of this file.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    version: Option<u16>,
    expires_ms: Option<i64>,
    crc: Crc64,
}

/// Why there is no item.
enum Stop {
    /// The input ends before it does.
    More,
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl Reader {
    /// The next item at the beginning of `input`, and how many bytes it takes, which are not to be shown again; none if some are missing.
    /// No item but a compressed string, a key and a library takes more than [`WHOLE_SIZE_MAX`] bytes and some.
    ///
    /// # Errors
    /// The snapshot can't be read.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Option<(Item<'a>, usize)>, Refusal> {
        let mut bytes = Bytes { input, at: 0 };
        match self.read(&mut bytes) {
            Ok(item) => {
                if item != Item::End {
                    self.crc.update(&input[..bytes.at]);
                }
                Ok(Some((item, bytes.at)))
            }
            Err(Stop::More) => Ok(None),
            Err(Stop::Refused(refusal)) => Err(refusal),
        }
    }

    /// Bytes of a value that follows.
    pub fn pass(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
    }

    fn read<'a>(&mut self, bytes: &mut Bytes<'a>) -> Result<Item<'a>, Stop> {
        let Some(version) = self.version else {
            self.version = Some(read_version(bytes)?);
            return Ok(Item::Nothing);
        };
        let kind = bytes.byte()?;
        let item = match kind {
            0xff => return self.read_end(version, bytes),
            0xfe => Item::Database(bytes.length()?),
            0xfd => {
                let seconds = i32::from_le_bytes(bytes.array()?);
                self.expires_ms = Some(i64::from(seconds) * 1000);
                return Ok(Item::Nothing);
            }
            0xfc => {
                self.expires_ms = Some(i64::from_le_bytes(bytes.array()?));
                return Ok(Item::Nothing);
            }
            0xfb => {
                bytes.length()?;
                bytes.length()?;
                Item::Nothing
            }
            0xfa => {
                let (name, value) = (bytes.text()?, bytes.text()?);
                if name == Text::Plain(b"repl-stream-db") {
                    let number = parse_i64(&value.bytes()?).and_then(|number| u64::try_from(number).ok());
                    number.map_or(Item::Nothing, Item::StreamDatabase)
                } else {
                    Item::Nothing
                }
            }
            0xf9 => {
                bytes.byte()?;
                Item::Nothing
            }
            0xf8 => {
                bytes.length()?;
                Item::Nothing
            }
            0xf7 => return Err(Refusal::Type("data of modules").into()),
            0xf5 => Item::Library(bytes.text()?),
            0xf4 => {
                bytes.length()?;
                bytes.length()?;
                bytes.length()?;
                Item::Nothing
            }
            super::TYPE_STRING => {
                let (key, value) = (bytes.text()?, bytes.value()?);
                Item::Entry { key, value, expires_ms: self.expires_ms.take() }
            }
            kind => {
                let refusal =
                    name_of(kind).map_or(Refusal::Broken("a type that nobody knows"), Refusal::Type);
                return Err(refusal.into());
            }
        };
        Ok(item)
    }

    fn read_end<'a>(&mut self, version: u16, bytes: &mut Bytes<'a>) -> Result<Item<'a>, Stop> {
        if version >= VERSION_SUMMED {
            let sum = u64::from_le_bytes(bytes.array()?);
            let mut crc = self.crc;
            crc.update(&[0xff]);
            // Redis writes none with `rdbchecksum no`.
            if sum != 0 && sum != crc.value() {
                return Err(Refusal::Sum.into());
            }
        }
        Ok(Item::End)
    }
}

fn read_version(bytes: &mut Bytes<'_>) -> Result<u16, Stop> {
    let head: [u8; 9] = bytes.array()?;
    let digits = head.strip_prefix(b"REDIS").and_then(|digits| std::str::from_utf8(digits).ok());
    let version = digits.and_then(|digits| digits.parse::<u16>().ok()).ok_or(Refusal::NoSnapshot)?;
    if (1..=VERSION_MAX).contains(&version) { Ok(version) } else { Err(Refusal::Version(version).into()) }
}

/// Input, and how far it has been read.
struct Bytes<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], Stop> {
        let taken = self.input.get(self.at..).and_then(|rest| rest.get(..size)).ok_or(Stop::More)?;
        self.at += size;
        Ok(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Stop> {
        Ok(*self.take(COUNT)?.first_chunk().expect("as many were taken"))
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        self.array().map(|[byte]| byte)
    }

    /// A length, or how a string is written.
    fn length_or_kind(&mut self) -> Result<Result<u64, u8>, Stop> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match first >> 6 {
            0 => Ok(u64::from(low)),
            1 => Ok(u64::from(low) << 8 | u64::from(self.byte()?)),
            2 if low == 0 => Ok(u64::from(u32::from_be_bytes(self.array()?))),
            2 if low == 1 => Ok(u64::from_be_bytes(self.array()?)),
            2 => return Err(Refusal::Broken("a length").into()),
            _ => Err(low),
        })
    }

    fn length(&mut self) -> Result<u64, Stop> {
        self.length_or_kind()?.map_err(|_| Refusal::Broken("a length").into())
    }

    fn text(&mut self) -> Result<Text<'a>, Stop> {
        match self.length_or_kind()? {
            Ok(size) => self.plain(size),
            Err(kind) => self.packed(kind),
        }
    }

    fn value(&mut self) -> Result<Value<'a>, Stop> {
        match self.length_or_kind()? {
            Ok(size) if WHOLE_SIZE_MAX < size => Ok(Value::Follows(size)),
            Ok(size) => self.plain(size).map(Value::Whole),
            Err(kind) => self.packed(kind).map(Value::Whole),
        }
    }

    fn plain(&mut self, size: u64) -> Result<Text<'a>, Stop> {
        self.take(usize::try_from(size).map_err(|_| Refusal::Broken("a length"))?).map(Text::Plain)
    }

    fn packed(&mut self, kind: u8) -> Result<Text<'a>, Stop> {
        Ok(match kind {
            0 => Text::Number(i64::from(i8::from_le_bytes(self.array()?))),
            1 => Text::Number(i64::from(i16::from_le_bytes(self.array()?))),
            2 => Text::Number(i64::from(i32::from_le_bytes(self.array()?))),
            3 => {
                let broken = |_| Refusal::Broken("a length");
                let size = usize::try_from(self.length()?).map_err(broken)?;
                let whole_size = usize::try_from(self.length()?).map_err(broken)?;
                if lzf::grown_size_max(size) < whole_size {
                    return Err(Refusal::Broken("a compressed string").into());
                }
                Text::Compressed(self.take(size)?, whole_size)
            }
            _ => return Err(Refusal::Broken("a string").into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bytes;
    use super::*;

    /// What `items` of a snapshot are, shown in pieces that end before each of `cuts`, as text.
    fn read(file: &[u8], piece_size: usize) -> Result<Vec<String>, Refusal> {
        let (mut reader, mut held, mut found, mut follows) =
            (Reader::default(), Vec::new(), Vec::new(), 0_u64);
        for piece in file.chunks(piece_size) {
            held.extend_from_slice(piece);
            loop {
                if follows > 0 {
                    let size = held.len().min(usize::try_from(follows).unwrap());
                    reader.pass(&held[..size]);
                    held.drain(..size);
                    follows -= size as u64;
                    if follows > 0 {
                        break;
                    }
                }
                let Some((item, size)) = reader.next(&held)? else { break };
                let text = |text: &Text<'_>| text.bytes().map(|bytes| bytes.escape_ascii().to_string());
                match &item {
                    Item::Nothing => {}
                    Item::Database(db) => found.push(format!("db {db}")),
                    Item::StreamDatabase(db) => found.push(format!("stream {db}")),
                    Item::Library(code) => found.push(format!("library {}", text(code)?)),
                    Item::Entry { key, value, expires_ms } => {
                        let end = expires_ms.map(|ms| format!(" until {ms}")).unwrap_or_default();
                        let value = match value {
                            Value::Whole(value) => text(value)?,
                            Value::Follows(size) => {
                                follows = *size;
                                format!("{size} bytes")
                            }
                        };
                        found.push(format!("{}={value}{end}", text(key)?));
                    }
                    Item::End => found.push("end".to_owned()),
                }
                held.drain(..size);
            }
        }
        Ok(found)
    }

    #[track_caller]
    fn check(hex: &str, want: &[&str]) {
        let file = bytes(hex);
        for piece_size in [1, 2, 7, file.len()] {
            assert_eq!(read(&file, piece_size).unwrap(), want, "in pieces of {piece_size}");
        }
    }

    #[track_caller]
    fn refuse(hex: &str, want: &str) {
        let file = bytes(hex);
        for piece_size in [1, file.len()] {
            assert_eq!(read(&file, piece_size).unwrap_err().to_string(), want, "in pieces of {piece_size}");
        }
    }

    #[test]
    fn a_file_of_redis_is_read_wherever_it_is_cut() {
        // The file that is written in the tests of `file`, as redis-server 7.0.15 wrote it.
        check(
            "524544495330303130 fa0972656469732d76657206372e302e3135 fa0a72656469732d62697473c040
            fa056374696d65c2f046066b fa08757365642d6d656dc2d85d1100 fa08616f662d62617365c000
            fe00 fb0100 000568656c6c6f05776f726c64
            fe01 fb0101 fc7bd8c32cbb030000 00c00cc0ff
            fe07 fb0100 00016e0a32313437343833363438
            fe0f fb0100 00c30615017878e00a00c30d419002616261e0ff01e07a01016162
            ff 444ce0a417f950d2",
            &[
                "db 0",
                "hello=world",
                "db 1",
                "12=-1 until 4102444800123",
                "db 7",
                "n=2147483648",
                "db 15",
                &format!("{}={}", "x".repeat(21), "ab".repeat(200)),
                "end",
            ],
        );
    }

    #[test]
    fn what_only_other_versions_write_is_read_too() {
        // A time in seconds, idle time, frequency, a slot's size, a library; no checksum before version 5, and none with zeroes.
        check("524544495330303034 fe00 fd00e1f505 0001610162 ff", &["db 0", "a=b until 100000000000", "end"]);
        check(
            "524544495330303132 f50378787a fe00 f4010203 f805 0001610162 f9ff 0001630164 ff 0000000000000000",
            &["library xxz", "db 0", "a=b", "c=d", "end"],
        );
    }

    #[test]
    fn a_long_value_is_left_to_the_caller() {
        let mut file = bytes("524544495330303130 00016b 8000010001");
        file.extend(vec![b'v'; 65_537]);
        file.extend(bytes("0001610162 ff"));
        let mut crc = Crc64::default();
        crc.update(&file);
        file.extend(crc.value().to_le_bytes());
        for piece_size in [1000, 65_536, file.len()] {
            assert_eq!(read(&file, piece_size).unwrap(), ["k=65537 bytes", "a=b", "end"]);
        }
        file[100] = b'w';
        assert_eq!(read(&file, 1000), Err(Refusal::Sum));
    }

    #[test]
    fn what_is_no_snapshot_or_holds_more_is_refused() {
        refuse("434f4e4649473030 3031", "it does not begin with REDIS and a version");
        refuse("524544495330303133", "its version is 13, and versions up to 12 are read");
        refuse("524544495330303030", "its version is 0, and versions up to 12 are read");
        refuse("524544495330303130 01", "it holds lists, and only strings are served");
        refuse("524544495330303130 f7", "it holds data of modules, and only strings are served");
        refuse("524544495330303130 30", "it is damaged: a type that nobody knows");
        refuse("524544495330303130 00 82", "it is damaged: a length");
        refuse("524544495330303130 fe c0", "it is damaged: a length");
        refuse("524544495330303130 00 0161 c4", "it is damaged: a string");
        refuse("524544495330303130 00 0161 c301ff", "it is damaged: a length");
        refuse("524544495330303130 00 0161 c30148 ff", "it is damaged: a compressed string");
        refuse("524544495330303130 ff 0000000000000001", "its checksum is wrong");
        // A length that can't be is waited for: it is the caller's to see that nothing comes.
        assert_eq!(read(&bytes("524544495330303130 00 81ffffffffffffffff 01"), 9), Ok(vec![]));
    }
}
