//! The memcached protocols: text, meta and binary requests become commands, outcomes become replies.
//!
//! ```text
//! get k\r\n                           set k 0 60 5\r\nhello\r\n        text
//! mg k v t\r\n                        ms k 5 T60\r\nhello\r\n          meta: lines of the same connection
//! 80 00 0001 00 00 0000 00000001 …    24 bytes of header, extras, key, value: binary
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`head`] | what is asked, as a small array that travels with the command |
//! | [`decoder`] | bytes of a connection to commands, resumable, by views and by tokens |
//! | `text`, [`meta`], `binary` | how a line or a header is read |
//! | [`reply`] | outcomes to bytes, and which of them are said at all |
//! | [`say`] | the fixed texts |
//! | [`client`] | the other side: requests encoded, replies counted |
//! | [`number`], `base64`, `scan` | numbers and keys as memcached reads them, bytes found |
//!
//! A command's arguments are `[head, key]`, `[head, key, flags]` or `[head, key, flags, value]` ([`HEAD`], [`KEY`], [`FLAGS`],
//! [`VALUE`]): the head as [`Head::to_bytes`] writes it, the key decoded, the flags of a meta command as they came. A line
//! with several keys becomes a command for each, and the last brings the `END`.
//!
//! Follows memcached 1.6.18 (`proto_text.c`, `proto_bin.c`, `memcached.c`, `doc/protocol.txt`) in what it takes, what it
//! swallows and what it says, down to the bytes. Differences, all of them where a client loses nothing:
//! - an unknown binary opcode has its own body swallowed, no byte of the next request (memcached skips extras and key twice);
//! - binary VERBOSITY (0x1b) is answered, and the length of a binary TOUCH, GAT and STAT must be exact;
//! - an opaque of a meta command that is too long is refused before anything changes (memcached notices it on the way);
//! - a `get` line with a key that is too long is refused alone (memcached forgets the replies before it, too, that have not been
//!   sent yet);
//! - keys of a `get` line beyond [`STREAM_SIZE_MIN`] bytes are answered as they come, so a key that is too long behind them is
//!   refused behind their values;
//! - commands that tune what this server does not have (`slabs`, `lru`, `lru_crawler`, `watch`, `cache_memlimit`, `extstore`)
//!   are refused in memcached's own words for that, and `me` shows one slab class.

pub mod client;
pub mod decoder;
pub mod head;
pub mod meta;
pub mod number;
pub mod reply;
pub mod say;

pub(crate) mod base64;
pub(crate) mod binary;
mod scan;
mod text;

pub use decoder::{Decoder, Limits, STREAM_SIZE_MIN, State};
pub use head::{Bits, Framing, HEAD_SIZE, Head, Verb};
pub use reply::{Item, Outcome};
pub use say::{Say, Status};

/// The argument that is the head.
pub const HEAD: usize = 0;
/// The argument that is the key; empty where the command has none. The mechanism of SASL commands.
pub const KEY: usize = 1;
/// The argument that holds a meta command's flags: the text behind the key (and the size), as it came.
pub const FLAGS: usize = 2;
/// The argument that is the value; the payload of SASL commands, the group of STATS with what stands behind it.
pub const VALUE: usize = 3;

/// Longest key in bytes.
pub const KEY_SIZE_MAX: usize = 250;

/// Longest relative expiry in seconds; a larger one is an instant.
pub const RELATIVE_EXPTIME_MAX: i64 = 60 * 60 * 24 * 30;

/// When an entry expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It does not.
    Never,
    /// At this second of unix time.
    At(u64),
    /// It already has: it is stored and never seen.
    Past,
}

/// What an expiry as sent means at the second `now_unix_s`: zero is never, a negative one past, one of up to 30 days counts
/// from now, a larger one is unix time (`realtime` in `memcached.c`).
pub fn expiry(exptime: i64, now_unix_s: u64) -> Expiry {
    match u64::try_from(exptime) {
        Err(_) => Expiry::Past,
        Ok(0) => Expiry::Never,
        Ok(seconds) if exptime <= RELATIVE_EXPTIME_MAX => Expiry::At(now_unix_s.saturating_add(seconds)),
        Ok(instant) if instant <= now_unix_s => Expiry::Past,
        Ok(instant) => Expiry::At(instant),
    }
}

/// Bytes of memcached's own header of an item, with the room for its CAS. It counts against `item_size_max`, so that the
/// same values are too large here and there (`sizeof(item)` and `item_make_header` on 64 bits).
const ITEM_HEADER_SIZE: u64 = 48 + 8;

/// Bytes that memcached would use for an item: its header, the key with a zero behind it, the flags unless they are zero, and
/// the value with a line's end.
pub fn item_size(key_size: usize, flags: u32, value_size: u64) -> u64 {
    let key = u64::try_from(key_size).expect("a size fits 64 bits") + 1;
    let flags = if flags == 0 { 0 } else { 4 };
    ITEM_HEADER_SIZE + key + flags + value_size + 2
}

#[cfg(test)]
pub(crate) mod tests;
