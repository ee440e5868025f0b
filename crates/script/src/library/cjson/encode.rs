//! Values of Lua to JSON.

use std::ops::ControlFlow;

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use super::super::SLOTS_MAX;
use super::super::call::{Budget, Output, Work, Wrong, for_each, number_of, type_name};
use super::super::walk::{Shape, Walk, Writer};
use super::{Invalid, Settings};
use crate::number;

/// A value that is being encoded.
pub(super) struct Encoding {
    walk: Walk,
    text: Text,
}

impl Encoding {
    /// Begins with a value. `next` is Lua's.
    pub(super) fn new(
        lua: &Lua,
        settings: Settings,
        next: Function,
        value: Value,
        budget: &mut Budget,
    ) -> Result<Encoding, Wrong> {
        let text = Text { settings, output: Output::new(lua)?, slots_used: 1 };
        let mut encoding = Encoding { walk: Walk::new(next), text };
        encoding.walk.put(value, &mut encoding.text, budget)?;
        Ok(encoding)
    }
}

impl Work for Encoding {
    fn go_on(&mut self, lua: &Lua, budget: &mut Budget) -> Result<Option<MultiValue>, Wrong> {
        if self.walk.go_on(&mut self.text, budget)? {
            self.text.output.finish(lua).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// What has been written.
struct Text {
    settings: Settings,
    output: Output,
    /// Slots of Lua's stack that the C code has in use: one for the argument, and for each table an element or a key and its value.
    slots_used: usize,
}

fn slots(shape: Shape) -> usize {
    match shape {
        Shape::Array(_) => 1,
        Shape::Object => 2,
    }
}

impl Writer for Text {
    fn begin(&mut self, table: &Table, depth: usize, budget: &mut Budget) -> Result<Option<Shape>, Wrong> {
        let depth = depth + 1;
        let is_allowed = i32::try_from(depth).is_ok_and(|depth| depth <= self.settings.encode_depth_max);
        if !is_allowed || self.slots_used + 3 > SLOTS_MAX {
            return Err(Wrong::raised(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        let shape = array_len(&self.settings, table, budget)?.map_or(Shape::Object, Shape::Array);
        self.slots_used += slots(shape);
        self.output.push(if shape == Shape::Object { b"{" } else { b"[" })?;
        Ok(Some(shape))
    }

    fn end(&mut self, shape: Shape) -> Result<(), Wrong> {
        self.slots_used -= slots(shape);
        self.output.push(if shape == Shape::Object { b"}" } else { b"]" })
    }

    fn separate(&mut self, is_first: bool) -> Result<(), Wrong> {
        if is_first { Ok(()) } else { self.output.push(b",") }
    }

    fn key(&mut self, key: &Value) -> Result<bool, Wrong> {
        match key {
            Value::String(text) => put_text(&mut self.output, text)?,
            Value::Integer(_) | Value::Number(_) => {
                self.output.push(b"\"")?;
                put_number(&self.settings, &mut self.output, key)?;
                self.output.push(b"\"")?;
            }
            _ => {
                let text =
                    format!("Cannot serialise {}: table key must be a number or string", type_name(key));
                return Err(Wrong::raised(text));
            }
        }
        self.output.push(b":")?;
        Ok(false)
    }

    fn scalar(&mut self, value: &Value) -> Result<(), Wrong> {
        match value {
            Value::String(text) => put_text(&mut self.output, text),
            Value::Integer(_) | Value::Number(_) => put_number(&self.settings, &mut self.output, value),
            Value::Boolean(true) => self.output.push(b"true"),
            Value::Boolean(false) => self.output.push(b"false"),
            value if value.is_nil() || value.is_null() => self.output.push(b"null"),
            value => Err(Wrong::raised(format!("Cannot serialise {}: type not supported", type_name(value)))),
        }
    }
}

/// How many elements a table has if it is an array: the largest of its keys, if all of them are integers from one on.
fn array_len(settings: &Settings, table: &Table, budget: &mut Budget) -> Result<Option<i64>, Wrong> {
    let (mut len, mut count) = (0, 0);
    for_each(table, |key, _: bool| {
        // A length is a C `int`; what larger keys come to there depends on their order, and an object is likely.
        if let Value::Integer(index @ 1..=0x7fff_ffff) = key {
            (len, count) = (index.max(len), count + 1);
            return Ok(ControlFlow::Continue(()));
        }
        len = 0;
        Ok(ControlFlow::Break(()))
    })?;
    budget.spend_looking(count);
    let ratio = i64::from(settings.sparse_ratio);
    if ratio > 0 && len > count * ratio && len > i64::from(settings.sparse_safe) {
        if settings.is_sparse_converted {
            return Ok(None);
        }
        return Err(Wrong::raised("Cannot serialise table: excessively sparse array"));
    }
    Ok(Some(len).filter(|len| *len > 0))
}

fn put_number(settings: &Settings, output: &mut Output, value: &Value) -> Result<(), Wrong> {
    let value = number_of(value).expect("a number");
    let precision = usize::try_from(settings.number_precision).expect("from 1 to 14");
    if value.is_finite() {
        return output.push(number::format(value, precision).as_bytes());
    }
    match settings.encode_invalid_numbers {
        Invalid::Refused => Err(Wrong::raised("Cannot serialise number: must not be NaN or Inf")),
        Invalid::Null => output.push(b"null"),
        Invalid::Written if value.is_nan() => output.push(b"nan"),
        Invalid::Written => output.push(number::format(value, precision).as_bytes()),
    }
}

fn put_text(output: &mut Output, text: &LuaString) -> Result<(), Wrong> {
    let bytes = text.as_bytes();
    output.push(b"\"")?;
    let mut start = 0;
    for (index, byte) in bytes.iter().enumerate() {
        let code;
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'/' => b"\\/",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0..=0x1f | 0x7f => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                code = [b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)];
                &code
            }
            _ => continue,
        };
        output.push(&bytes[start..index])?;
        output.push(escape)?;
        start = index + 1;
    }
    output.push(&bytes[start..])?;
    output.push(b"\"")
}
