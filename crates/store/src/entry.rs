//! What a key holds, and how it lies in memory.
//!
//! ```text
//!  0       3      4      6       7       8              16      20      24    31     32
//!  | recency | kind | home | key n | val n | expires at   | next  | prev  | cas  | bits | flags | key n' | val n' | key | value
//!  |  u24    | u8   | u16  | u8    | u8    | i64 unix ms  | u32   | u32   | u56  | u8   | u32   | u16    | u16    |
//!                                          └── only with a time to live ─┘ └ only a document ───┘ └─ only if n = 255 ─┘
//!                                                                                        └ only if not 0
//!  kind:  0-2 type (1 string, 2 document, 6 document with flags) · 3 age (`snapshot`) · 4-5 encoding (0 bytes, 1 integer, 2 rope)
//!         6 altered in place · 7 has a time to live
//! ```
//! A 16-byte key with a 32-byte value is 8 + 16 + 32 = 56 bytes, with a time to live 72, as a document 8 more. An integer's
//! value is its i64, a rope's is its u32 number on the shelf. `home` is the database that owns the entry, by its place in memory (SWAPDB
//! exchanges names, not places). Together with the key it leads back to the one slot that owns the entry, so that
//! expiry, eviction and compaction can begin from memory.
//!
//! Types to come take the next type numbers; their values begin with a handle to nodes of at most 4 KiB.

use crate::arena::Arena;
use crate::rope::Rope;
use crate::shelf::Shelf;
use crate::width::short;
use std::ops::Range;

/// What kind of value a key holds, as TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string of bytes: `string`.
    String,
    /// A string of bytes with a [`Mark`]: `document`, of which Redis knows nothing.
    Document,
}

impl Type {
    /// The name that TYPE answers.
    pub const fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Document => "document",
        }
    }
}

/// What a document has beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Which state of the document this is; below [`Mark::CAS_END`], another one after each change.
    pub cas: u64,
    /// The dialect's own, eight of them.
    pub bits: u8,
    /// The client's own.
    pub flags: u32,
}

impl Mark {
    /// The first number that is no `cas`.
    pub const CAS_END: u64 = 1 << 56;

    /// The upper half of the flags, by which a database may count its documents (`Shard::count_labels`).
    pub const fn label(self) -> u16 {
        (self.flags >> 16) as u16
    }

    /// `cas` and `bits`, as they lie in memory.
    fn word(self) -> u64 {
        assert!(self.cas < Mark::CAS_END, "a document's cas has 56 bits");
        self.cas | u64::from(self.bits) << 56
    }
}

/// A value as it is stored.
#[derive(Clone, Copy, Debug)]
pub enum Value<'v> {
    /// A string that is the canonical decimal form of this number, and is kept as the number.
    Int(i64),
    /// A string in one piece.
    Bytes(&'v [u8]),
    /// A string above [`INLINE_SIZE_MAX`] bytes, or one that once was.
    Rope(&'v Rope),
}

impl Value<'_> {
    /// Length of the string in bytes.
    pub fn len(&self) -> usize {
        match self {
            Value::Int(number) => Digits::of(*number).as_ref().len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Rope(rope) => rope.len(),
        }
    }

    /// Whether it is the empty string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A key's entry, seen where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'e> {
    pub(crate) arena: &'e Arena,
    pub(crate) shelf: &'e Shelf,
    pub(crate) head: Head,
}

impl<'e> Entry<'e> {
    /// The key.
    pub fn key(&self) -> &'e [u8] {
        self.arena.bytes(self.head.handle, self.head.key())
    }

    /// The value.
    #[inline(always)]
    pub fn value(&self) -> Value<'e> {
        match self.head.encoding() {
            Encoding::Bytes => Value::Bytes(self.arena.bytes(self.head.handle, self.head.value())),
            Encoding::Int => Value::Int(self.head.int(self.arena)),
            Encoding::Rope => Value::Rope(self.shelf.get(self.head.rope(self.arena))),
        }
    }

    /// When it ends, in unix milliseconds.
    pub fn expires_at(&self) -> Option<i64> {
        self.head.has_ttl().then(|| self.head.expires_at(self.arena))
    }

    /// What kind of value it is.
    pub fn kind(&self) -> Type {
        if self.head.is_document() { Type::Document } else { Type::String }
    }

    /// What a document has beside its value.
    pub fn mark(&self) -> Option<Mark> {
        self.head.mark(self.arena)
    }

    /// The name that OBJECT ENCODING answers: `int`, `embstr` up to 44 bytes, else `raw`, as Redis has it; a string
    /// that was changed in place (APPEND) or made by a part of it (SETRANGE, SETBIT) is `raw` whatever its length.
    pub fn encoding(&self) -> &'static str {
        match self.head.encoding() {
            Encoding::Int => "int",
            Encoding::Bytes if !self.head.is_altered() && self.head.value_size <= EMBEDDED_SIZE_MAX => {
                "embstr"
            }
            Encoding::Bytes | Encoding::Rope => "raw",
        }
    }

    /// Bytes of memory that the entry takes, its share of the table and its rope included.
    pub fn memory(&self) -> usize {
        let rope = if let Value::Rope(rope) = self.value() { rope.room() } else { 0 };
        self.arena.room(self.head.handle) + 8 + rope
    }
}

/// The largest entry in one piece. Beyond it the value becomes a rope, so that two entries fit a span.
pub(crate) const INLINE_ENTRY_MAX: usize = crate::arena::SPAN_SIZE / 2;
/// A value of more bytes than this is kept as a rope, whatever its key.
pub const INLINE_SIZE_MAX: usize = INLINE_ENTRY_MAX - 256;
/// Redis' OBJ_ENCODING_EMBSTR_SIZE_LIMIT.
const EMBEDDED_SIZE_MAX: usize = 44;

pub(crate) const RECENCY: u32 = 0x00ff_ffff;
const TYPE_STRING: u32 = 1 << 24;
const TYPE_DOCUMENT: u32 = 2 << 24;
/// A document's flags are not 0.
const FLAGS: u32 = 4 << 24;
/// Of which of two ages the entry is: see `snapshot`.
pub(crate) const AGE: u32 = 1 << 27;
const ALTERED: u32 = 1 << 30;
const TTL: u32 = 1 << 31;
const ENCODING_SHIFT: u32 = 28;
/// A length byte that says: the length is in two bytes of its own.
const LONG: usize = 255;

pub(crate) const HOME: usize = 4;
const VALUE_SIZE: usize = 7;
pub(crate) const EXPIRES_AT: usize = 8;
pub(crate) const NEXT: usize = 16;
pub(crate) const PREV: usize = 20;
const FIXED_SIZE: usize = 8;
const TTL_SIZE: usize = 16;
const MARK_SIZE: usize = 8;
const FLAGS_SIZE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Bytes,
    Int,
    Rope,
}

/// An entry's first bytes, taken apart once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) handle: u32,
    pub(crate) word: u32,
    /// Where the key begins.
    pub(crate) start: usize,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
}

impl Head {
    #[inline]
    pub(crate) fn read(arena: &Arena, handle: u32) -> Head {
        let first = u64::from_le_bytes(*arena.array(handle, 0));
        let word = (first & 0xffff_ffff) as u32;
        let mut start = fixed_size(word);
        let (mut key_size, mut value_size) = ((first >> 48 & 0xff) as usize, (first >> 56) as usize);
        if key_size == LONG || value_size == LONG {
            [start, key_size, value_size] =
                long_sizes(arena, handle, start, [key_size, value_size]).map(usize::from);
        }
        Head { handle, word, start, key_size, value_size }
    }

    pub(crate) fn has_ttl(&self) -> bool {
        self.word & TTL != 0
    }

    pub(crate) fn is_document(&self) -> bool {
        self.word & TYPE_DOCUMENT != 0
    }

    /// What a document has beside its value.
    pub(crate) fn mark(&self, arena: &Arena) -> Option<Mark> {
        if !self.is_document() {
            return None;
        }
        let at = self.mark_start();
        let word = u64::from_le_bytes(*arena.array(self.handle, at));
        let flags = self.flags(arena);
        let [.., bits] = word.to_le_bytes();
        Some(Mark { cas: word % Mark::CAS_END, bits, flags })
    }

    fn flags(&self, arena: &Arena) -> u32 {
        if self.has_flags() { arena.u32(self.handle, self.mark_start() + MARK_SIZE) } else { 0 }
    }

    pub(crate) fn has_flags(&self) -> bool {
        self.word & FLAGS != 0
    }

    /// See [`Mark::label`]; 0 of what is no document.
    pub(crate) fn label(&self, arena: &Arena) -> u16 {
        Mark { flags: self.flags(arena), ..Mark::default() }.label()
    }

    fn mark_start(&self) -> usize {
        fixed_size(self.word & TTL)
    }

    /// Gives a document another mark with the same flags.
    pub(crate) fn remark(&self, arena: &mut Arena, cas: u64, bits: u8) {
        assert!(self.is_document(), "only documents are marked");
        let mark = Mark { cas, bits, flags: 0 };
        *arena.array_mut(self.handle, self.mark_start()) = mark.word().to_le_bytes();
    }

    /// Writes all of a document's mark.
    fn set_mark(&self, arena: &mut Arena, mark: Mark) {
        self.remark(arena, mark.cas, mark.bits);
        if self.has_flags() {
            arena.set_u32(self.handle, self.mark_start() + MARK_SIZE, mark.flags);
        }
    }

    /// Its age, 0 or [`AGE`].
    pub(crate) fn age(&self) -> u32 {
        self.word & AGE
    }

    /// Gives an entry that stays as it is this age.
    pub(crate) fn set_age(&self, arena: &mut Arena, age: u32) {
        arena.set_u32(self.handle, 0, self.word & !AGE | age);
    }

    /// Gives an entry that changes where it stands another memory of its use, and age; it counts as made anew.
    #[inline]
    pub(crate) fn set_stamp(&self, arena: &mut Arena, stamp: u32) {
        let kept = self.word & !(RECENCY | AGE | ALTERED);
        arena.set_u32(self.handle, 0, kept | stamp & (RECENCY | AGE));
    }

    pub(crate) fn is_altered(&self) -> bool {
        self.word & ALTERED != 0
    }

    pub(crate) fn encoding(&self) -> Encoding {
        match self.word >> ENCODING_SHIFT & 3 {
            0 => Encoding::Bytes,
            1 => Encoding::Int,
            _ => Encoding::Rope,
        }
    }

    pub(crate) fn key(&self) -> Range<usize> {
        self.start..self.start + self.key_size
    }

    pub(crate) fn value(&self) -> Range<usize> {
        let start = self.key().end;
        start..start + self.value_size
    }

    /// Bytes of the whole entry.
    pub(crate) fn size(&self) -> usize {
        self.value().end
    }

    pub(crate) fn expires_at(&self, arena: &Arena) -> i64 {
        i64::from_le_bytes(*arena.array(self.handle, EXPIRES_AT))
    }

    pub(crate) fn int(&self, arena: &Arena) -> i64 {
        i64::from_le_bytes(*arena.array(self.handle, self.value().start))
    }

    pub(crate) fn rope(&self, arena: &Arena) -> u32 {
        arena.u32(self.handle, self.value().start)
    }

    pub(crate) fn home(&self, arena: &Arena) -> u16 {
        u16::from_le_bytes(*arena.array(self.handle, HOME))
    }
}

/// Where the key begins, and the lengths of key and value, of an entry with lengths that are in bytes of their own from `start`
/// on. As small as a register: what came back in memory would be read from there by entries without such lengths, too.
#[cold]
fn long_sizes(arena: &Arena, handle: u32, mut start: usize, bytes: [usize; 2]) -> [u16; 3] {
    let [key_size, value_size] = bytes.map(|size| {
        if size < LONG {
            return short(size);
        }
        start += 2;
        u16::from_le_bytes(*arena.array(handle, start - 2))
    });
    [short(start), key_size, value_size]
}

/// What an entry is to hold, before it is written: decides its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) encoding: Encoding,
    pub(crate) altered: bool,
    pub(crate) ttl: bool,
    /// Of a document.
    pub(crate) mark: Option<Mark>,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
}

/// Bytes in front of the lengths that are in bytes of their own, of an entry whose first word this is.
#[inline]
fn fixed_size(word: u32) -> usize {
    let if_has = |bit: u32, size: usize| if word & bit == 0 { 0 } else { size };
    FIXED_SIZE + if_has(TTL, TTL_SIZE) + if_has(TYPE_DOCUMENT, MARK_SIZE) + if_has(FLAGS, FLAGS_SIZE)
}

impl Plan {
    /// Where the key begins.
    pub(crate) fn start(&self) -> usize {
        let long = |size: usize| if size >= LONG { 2 } else { 0 };
        fixed_size(self.word(0)) + long(self.key_size) + long(self.value_size)
    }

    /// See [`Mark::label`]; 0 of what is no document.
    pub(crate) fn label(&self) -> u16 {
        self.mark.map_or(0, Mark::label)
    }

    /// Bytes of the entry.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.start() + self.key_size + self.value_size
    }

    /// The first word. `stamp` is what the entry remembers of its use, and its age.
    fn word(&self, stamp: u32) -> u32 {
        let encoding = match self.encoding {
            Encoding::Bytes => 0,
            Encoding::Int => 1,
            Encoding::Rope => 2,
        };
        let altered = if self.altered { ALTERED } else { 0 };
        let ttl = if self.ttl { TTL } else { 0 };
        let kind = match self.mark {
            None => TYPE_STRING,
            Some(Mark { flags: 0, .. }) => TYPE_DOCUMENT,
            Some(_) => TYPE_DOCUMENT | FLAGS,
        };
        stamp & (RECENCY | AGE) | kind | encoding << ENCODING_SHIFT | altered | ttl
    }

    /// Writes the fixed part, the mark and the lengths, and gives the head; key, value, expiry and links are the caller's.
    pub(crate) fn write(&self, arena: &mut Arena, handle: u32, stamp: u32, home: u16) -> Head {
        let word = self.word(stamp);
        let (key_size, value_size) = (self.key_size, self.value_size);
        let byte = |size: usize| u8::try_from(size).unwrap_or(u8::MAX);
        let [r0, r1, r2, r3] = word.to_le_bytes();
        let [h0, h1] = home.to_le_bytes();
        *arena.array_mut(handle, 0) = [r0, r1, r2, r3, h0, h1, byte(key_size), byte(value_size)];
        let mut start = fixed_size(word);
        for size in [key_size, value_size] {
            if size >= LONG {
                *arena.array_mut(handle, start) = short(size).to_le_bytes();
                start += 2;
            }
        }
        let head = Head { handle, word, start, key_size, value_size };
        if let Some(mark) = self.mark {
            head.set_mark(arena, mark);
        }
        head
    }

    /// Makes an entry of the same key, whose key begins where this plan's would, one of this plan.
    #[inline]
    pub(crate) fn rewrite(&self, arena: &mut Arena, old: Head, stamp: u32) -> Head {
        let head = Head { word: self.word(stamp), value_size: self.value_size, ..old };
        arena.set_u32(head.handle, 0, head.word);
        if head.value_size != old.value_size {
            if head.value_size < LONG {
                let byte = u8::try_from(head.value_size).expect("a short length is below 255");
                *arena.array_mut(head.handle, VALUE_SIZE) = [byte];
            } else {
                *arena.array_mut(head.handle, head.start - 2) = short(head.value_size).to_le_bytes();
            }
        }
        if let Some(mark) = self.mark {
            head.set_mark(arena, mark);
        }
        head
    }
}

/// A number's decimal form, without an allocation.
pub(crate) struct Digits {
    bytes: [u8; 20],
    start: usize,
}

impl Digits {
    pub(crate) fn of(number: i64) -> Digits {
        let mut digits = Digits { bytes: [0; 20], start: 20 };
        let mut rest = number.unsigned_abs();
        loop {
            digits.start -= 1;
            digits.bytes[digits.start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            digits.start -= 1;
            digits.bytes[digits.start] = b'-';
        }
        digits
    }
}

impl AsRef<[u8]> for Digits {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// The number whose canonical decimal form these bytes are (Redis' string2ll): no sign but a minus, no leading zero.
pub(crate) fn canonical_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    if negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

#[cfg(test)]
mod tests {
    use super::{Digits, canonical_int};

    #[test]
    fn integers_are_canonical_both_ways() {
        let check =
            |text: &str, want: Option<i64>| assert_eq!(canonical_int(text.as_bytes()), want, "{text}");
        check("0", Some(0));
        check("-1", Some(-1));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            check(text, None);
        }
        check("99999999999999999999", None);
        for number in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            assert_eq!(Digits::of(number).as_ref(), number.to_string().as_bytes());
        }
    }
}
