//! Values of Lua to MessagePack.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::super::call::{Budget, Output, Work, Wrong, for_each, number_of};
use super::super::walk::{Shape, Walk, Writer};
use super::NESTING_MAX;
use crate::number;

/// Values that are being packed, one behind the other.
pub(super) struct Packing {
    walk: Walk,
    bytes: Bytes,
    /// Of the values, those that haven't been begun.
    left: VecDeque<Value>,
}

impl Packing {
    /// Begins with no value yet. `next` is Lua's.
    pub(super) fn new(lua: &Lua, next: Function, values: VecDeque<Value>) -> Result<Packing, Wrong> {
        Ok(Packing { walk: Walk::new(next), bytes: Bytes { output: Output::new(lua)? }, left: values })
    }
}

impl Work for Packing {
    fn go_on(&mut self, lua: &Lua, budget: &mut Budget) -> Result<Option<MultiValue>, Wrong> {
        while self.walk.go_on(&mut self.bytes, budget)? {
            match self.left.pop_front() {
                Some(value) => self.walk.put(value, &mut self.bytes, budget)?,
                None => return self.bytes.output.finish(lua).map(Some),
            }
        }
        Ok(None)
    }
}

/// What has been packed.
struct Bytes {
    output: Output,
}

impl Writer for Bytes {
    fn begin(&mut self, table: &Table, depth: usize, budget: &mut Budget) -> Result<Option<Shape>, Wrong> {
        if depth == NESTING_MAX {
            self.scalar(&Value::Nil)?;
            return Ok(None);
        }
        let (mut count, mut index_max, mut is_array) = (0, 0, true);
        for_each(table, |key, _: bool| {
            count += 1;
            match key {
                Value::Integer(index @ 1..=0x7fff_ffff) => index_max = index.max(index_max),
                _ => is_array = false,
            }
            Ok(ControlFlow::Continue(()))
        })?;
        budget.spend_looking(count);
        let size = usize::try_from(count).expect("a count");
        if is_array && index_max == count {
            put_head(&mut self.output, size, (0x90, 16), None, [0xdc, 0xdd])?;
            return Ok(Some(Shape::Array(count)));
        }
        put_head(&mut self.output, size, (0x80, 16), None, [0xde, 0xdf])?;
        Ok(Some(Shape::Object))
    }

    fn end(&mut self, _: Shape) -> Result<(), Wrong> {
        Ok(())
    }

    fn separate(&mut self, _: bool) -> Result<(), Wrong> {
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<bool, Wrong> {
        if key.is_table() {
            return Ok(true);
        }
        self.scalar(key)?;
        Ok(false)
    }

    fn scalar(&mut self, value: &Value) -> Result<(), Wrong> {
        let output = &mut self.output;
        match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                put_head(output, bytes.len(), (0xa0, 32), Some(0xd9), [0xda, 0xdb])?;
                output.push(&bytes)
            }
            Value::Boolean(flag) => output.push(&[0xc2 + u8::from(*flag)]),
            Value::Integer(_) | Value::Number(_) => put_number(output, number_of(value).expect("a number")),
            _ => output.push(&[0xc0]),
        }
    }
}

/// The first bytes of something that has a size: in the byte `short` itself if it is below its end, or in one, two or four bytes.
fn put_head(
    output: &mut Output,
    size: usize,
    (short, short_end): (u8, usize),
    one_byte: Option<u8>,
    [two_bytes, four_bytes]: [u8; 2],
) -> Result<(), Wrong> {
    let size = u32::try_from(size).map_err(|_| Wrong::bare("not enough memory"))?;
    match (u8::try_from(size), u16::try_from(size), one_byte) {
        (Ok(size), ..) if usize::from(size) < short_end => output.push(&[short | size]),
        (Ok(size), _, Some(one_byte)) => output.push(&[one_byte, size]),
        (_, Ok(size), _) => {
            output.push(&[two_bytes])?;
            output.push(&size.to_be_bytes())
        }
        _ => {
            output.push(&[four_bytes])?;
            output.push(&size.to_be_bytes())
        }
    }
}

/// The shortest form of an integer; another number as a float of four bytes if that is exact, or of eight.
fn put_number(output: &mut Output, value: f64) -> Result<(), Wrong> {
    let integer = number::to_i64(value);
    #[expect(clippy::cast_precision_loss, reason = "that is the question")]
    let is_integer = integer as f64 == value;
    if is_integer {
        return put_integer(output, integer);
    }
    #[expect(clippy::cast_possible_truncation, reason = "that is the question")]
    let short = value as f32;
    if f64::from(short) == value {
        output.push(&[0xca])?;
        return output.push(&short.to_be_bytes());
    }
    output.push(&[0xcb])?;
    output.push(&value.to_be_bytes())
}

fn put_integer(output: &mut Output, value: i64) -> Result<(), Wrong> {
    let bytes = value.to_be_bytes();
    let (mark, size) = match value {
        -32..=127 => return output.push(&bytes[7..]),
        128..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        ..-0x8000_0000 => (0xd3, 8),
    };
    output.push(&[mark])?;
    output.push(&bytes[8 - size..])
}
