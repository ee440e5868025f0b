//! `struct`: numbers and strings to and from the bytes of C's structures.
//!
//! ```text
//! > <  big, little endian (little at first)      b B  1 byte     f  float              x   a byte of padding
//! ![n] align to n bytes, or by itself 8          h H  2 bytes    d  double             s   a string and a NUL
//! ' '  nothing                                   l L  8 bytes    iN IN  N bytes (4)    cN  N bytes (1); 0: all of them, or as many
//!                                                T    8 bytes                              as the number before says
//! ```
//! A format's sizes are checked before anything is read or made: every item takes an argument or bytes that are there, so a short format
//! makes nothing large.

use mlua::{Lua, MultiValue, Table, Value};

use super::SLOTS_MAX;
use super::call::{Answer, Args, Binder, Output, Wrong, number_of, one, until_nul};
use crate::number;

/// Most bytes of an integer; only eight of them can be other than zeros.
const INTEGER_SIZE_MAX: usize = 32;
/// Alignment of `!` alone.
const ALIGN_DEFAULT: i32 = 8;

/// The library's table.
pub(super) fn library(lua: &Lua, binder: &Binder) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    binder.bind(lua, &table, "pack", pack)?;
    binder.bind(lua, &table, "unpack", unpack)?;
    binder.bind(lua, &table, "size", size)?;
    Ok(table)
}

/// A format, read item by item, and what its options have set.
struct Format<'a> {
    rest: &'a [u8],
    is_big: bool,
    align: usize,
}

/// An item of a format: its letter and its size in bytes.
#[derive(Clone, Copy)]
struct Item {
    letter: u8,
    size: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        Format { rest: until_nul(text), is_big: false, align: 1 }
    }

    fn next(&mut self) -> Result<Option<Item>, Wrong> {
        let Some((letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if usize::try_from(size).is_ok_and(|size| size > INTEGER_SIZE_MAX) {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_SIZE_MAX}");
                    return Err(Wrong::raised(text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { letter: *letter, size: usize::try_from(size).expect("sizes aren't negative") }))
    }

    /// A number of the format, unless there is none.
    fn number(&mut self, default: i32) -> Result<i32, Wrong> {
        if !self.rest.first().is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut value: i32 = 0;
        while let Some((digit, rest)) = self.rest.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
            let next = value.checked_mul(10).and_then(|value| value.checked_add(i32::from(digit - b'0')));
            value = next.ok_or_else(|| Wrong::raised("integral size overflow"))?;
            self.rest = rest;
        }
        Ok(value)
    }

    /// Does what a letter says that is no item.
    fn option(&mut self, letter: u8) -> Result<(), Wrong> {
        match letter {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(ALIGN_DEFAULT)?;
                if align.count_ones() != 1 {
                    return Err(Wrong::raised(format!("alignment {align} is not a power of 2")));
                }
                self.align = usize::try_from(align).expect("a power of two");
            }
            _ => return Err(Wrong::argument(1, [b"invalid format option '", &[letter][..], b"'"].concat())),
        }
        Ok(())
    }

    /// Bytes before an item that begins at `position` or behind it.
    fn padding(&self, position: usize, item: Item) -> usize {
        if item.size == 0 || item.letter == b'c' {
            return 0;
        }
        // As in C: sizes that are no power of two come to what they come to.
        let size = item.size.min(self.align);
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }

    /// Eight bytes of a number and zeros, or the same from their end.
    fn put_integer(&self, value: f64, size: usize, output: &mut Output) -> Result<(), Wrong> {
        let value = if value < 0.0 { number::to_i64(value).cast_unsigned() } else { number::to_u64(value) };
        let mut bytes = [0; INTEGER_SIZE_MAX];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        let bytes = &mut bytes[..size];
        if self.is_big {
            bytes.reverse();
        }
        output.push(bytes)
    }

    #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are floats")]
    fn integer(&self, bytes: &[u8], is_signed: bool) -> f64 {
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = if self.is_big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) };
        if !is_signed {
            return value as f64;
        }
        // The place of the sign wraps round for more than eight bytes, as in C on x86-64.
        let sign = u64::MAX << ((bytes.len() * 8).wrapping_sub(1) % 64);
        (if value & sign == 0 { value } else { value | sign }).cast_signed() as f64
    }
}

fn pack(lua: &Lua, args: &Args) -> Answer {
    let text = args.text(1)?;
    let mut format = Format::new(&text);
    let mut output = Output::new(lua)?;
    let mut index = 1;
    while let Some(Item { letter, size }) = format.next()? {
        let padding = format.padding(output.size(), Item { letter, size });
        output.push(&[0; INTEGER_SIZE_MAX][..padding])?;
        if !matches!(letter, b'x' | b'!' | b'<' | b'>' | b' ') {
            index += 1;
        }
        match letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                format.put_integer(number(args, index)?, size, &mut output)?;
            }
            b'x' => output.push(&[0])?,
            b'f' => {
                #[expect(clippy::cast_possible_truncation, reason = "that is what a float is")]
                let value = number(args, index)? as f32;
                output.push(&if format.is_big { value.to_be_bytes() } else { value.to_le_bytes() })?;
            }
            b'd' => {
                let value = number(args, index)?;
                output.push(&if format.is_big { value.to_be_bytes() } else { value.to_le_bytes() })?;
            }
            b'c' | b's' => {
                let value = args.text(index).map_err(|wrong| behind_arguments(args, index, wrong))?;
                let size = if size == 0 { value.len() } else { size };
                // The next argument's index, as there.
                let bytes =
                    value.get(..size).ok_or_else(|| Wrong::argument(index + 1, "string too short"))?;
                output.push(bytes)?;
                if letter == b's' {
                    output.push(&[0])?;
                }
            }
            _ => format.option(letter)?,
        }
    }
    output.finish(lua)
}

/// An argument that is a number.
fn number(args: &Args, index: usize) -> Result<f64, Wrong> {
    args.number(index).map_err(|wrong| behind_arguments(args, index, wrong))
}

/// Behind the last argument C's `pack` keeps a nil, and finds that.
fn behind_arguments(args: &Args, index: usize, wrong: Wrong) -> Wrong {
    match wrong {
        Wrong::Argument(_, mut text) if index > args.count() => {
            let kept = text.strip_suffix(b"no value").map_or(text.len(), <[u8]>::len);
            text.truncate(kept);
            text.extend_from_slice(b"nil");
            Wrong::Argument(index, text)
        }
        wrong => wrong,
    }
}

fn unpack(lua: &Lua, args: &Args) -> Answer {
    let text = args.text(1)?;
    let data = args.text(2)?;
    // Behind the end, if negative.
    let position = args.integer_or(3, 1)?.cast_unsigned();
    if position == 0 {
        return Err(Wrong::argument(3, "offset must be 1 or greater"));
    }
    let too_short = || Wrong::argument(2, "data string too short");
    let mut at = usize::try_from(position - 1).map_err(|_| too_short())?;
    let mut format = Format::new(&text);
    let mut results: Vec<Value> = Vec::new();
    while let Some(item) = format.next()? {
        at = at.wrapping_add(format.padding(at, item));
        let rest = data.get(at..).ok_or_else(too_short)?;
        let bytes = rest.get(..item.size).ok_or_else(too_short)?;
        if args.count() + results.len() + 2 > SLOTS_MAX {
            return Err(Wrong::raised("stack overflow (too many results)"));
        }
        let mut size = item.size;
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                results.push(Value::Number(format.integer(bytes, item.letter.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let bytes = *bytes.first_chunk().expect("four bytes");
                let value = if format.is_big { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) };
                results.push(Value::Number(f64::from(value)));
            }
            b'd' => {
                let bytes = *bytes.first_chunk().expect("eight bytes");
                let value = if format.is_big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) };
                results.push(Value::Number(value));
            }
            b'c' => {
                let mut bytes = bytes;
                if size == 0 {
                    let known = results.pop().as_ref().and_then(number_of).map(number::to_u64);
                    let known = known.ok_or_else(|| Wrong::raised("format 'c0' needs a previous size"))?;
                    size = usize::try_from(known).map_err(|_| too_short())?;
                    bytes = rest.get(..size).ok_or_else(too_short)?;
                }
                results.push(Value::String(lua.create_string(bytes)?));
            }
            b's' => {
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| Wrong::raised("unfinished string in data"))?;
                size = end + 1;
                results.push(Value::String(lua.create_string(&rest[..end])?));
            }
            letter => format.option(letter)?,
        }
        at += size;
    }
    results.push(index(at.wrapping_add(1)));
    Ok(MultiValue::from_vec(results))
}

fn size(_: &Lua, args: &Args) -> Answer {
    let text = args.text(1)?;
    let mut format = Format::new(&text);
    let mut total: usize = 0;
    while let Some(item) = format.next()? {
        total = total.wrapping_add(format.padding(total, item));
        match item {
            Item { letter: b's', .. } => return Err(Wrong::argument(1, "option 's' has no fixed size")),
            Item { letter: b'c', size: 0 } => {
                return Err(Wrong::argument(1, "option 'c0' has no fixed size"));
            }
            Item { letter, .. } if !letter.is_ascii_alphanumeric() => format.option(letter)?,
            _ => {}
        }
        total = total.wrapping_add(item.size);
    }
    one(index(total))
}

/// A position, signed as in C: behind an end that was never looked for it may be negative.
#[expect(clippy::cast_precision_loss, reason = "Lua's numbers are floats")]
fn index(value: usize) -> Value {
    Value::Number(value.cast_signed() as f64)
}
