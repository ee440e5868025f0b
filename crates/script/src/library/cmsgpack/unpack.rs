//! MessagePack to values of Lua.
//!
//! Arrays and maps that stand in one another are a list, not calls. What their heads announce is not believed: a table grows by what
//! there is.

use mlua::{Lua, Table, Value};

use super::super::SLOTS_MAX;
use super::super::call::Wrong;

/// A table that isn't whole.
enum Open {
    Array {
        table: Table,
        count: u32,
        /// Elements to come.
        left: u32,
    },
    Map {
        table: Table,
        /// Of a field whose value is to come.
        key: Option<Value>,
        left: u32,
    },
}

impl Open {
    /// Slots of Lua's stack that the C code has in use: the table, and an index or a key.
    fn slots(&self) -> usize {
        match self {
            Open::Array { .. } | Open::Map { key: Some(_), .. } => 2,
            Open::Map { key: None, .. } => 1,
        }
    }

    /// Takes a part. Afterwards the table may be whole.
    fn add(&mut self, part: Value) -> Result<(), Wrong> {
        match self {
            Open::Array { table, count, left } => {
                *count += 1;
                *left -= 1;
                Ok(table.raw_set(*count, part)?)
            }
            Open::Map { table, key, left } => {
                let Some(name) = key.take() else {
                    *key = Some(part);
                    return Ok(());
                };
                *left -= 1;
                match name {
                    Value::Nil => Err(Wrong::bare("table index is nil")),
                    Value::Number(number) if number.is_nan() => Err(Wrong::bare("table index is NaN")),
                    name => Ok(table.raw_set(name, part)?),
                }
            }
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self, Open::Array { left: 0, .. } | Open::Map { left: 0, key: None, .. })
    }

    fn into_table(self) -> Table {
        match self {
            Open::Array { table, .. } | Open::Map { table, .. } => table,
        }
    }
}

/// What begins at a byte.
enum Part {
    Value(Value),
    Array(u32),
    Map(u32),
}

/// A place in the input.
pub(super) struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(input: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { input, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.input.len()
    }

    /// The value that comes next; `slots_used` are those that are in use before it.
    pub(super) fn value(&mut self, lua: &Lua, slots_used: usize) -> Result<Value, Wrong> {
        let mut open: Vec<Open> = Vec::new();
        // Without those of the last one, which change.
        let mut slots_below = slots_used;
        loop {
            let slots = slots_below + open.last().map_or(0, Open::slots);
            let mut value = match self.part(lua, slots)? {
                Part::Value(value) => value,
                Part::Array(_) if slots + 2 > SLOTS_MAX => {
                    return Err(Wrong::raised("stack overflow (in function mp_decode_to_lua_array)"));
                }
                Part::Array(0) | Part::Map(0) => Value::Table(lua.create_table()?),
                Part::Array(left) => {
                    open.push(Open::Array { table: lua.create_table()?, count: 0, left });
                    slots_below = slots;
                    continue;
                }
                Part::Map(left) => {
                    open.push(Open::Map { table: lua.create_table()?, key: None, left });
                    slots_below = slots;
                    continue;
                }
            };
            // A value is whole, and with it perhaps tables around it.
            loop {
                let Some(last) = open.last_mut() else { return Ok(value) };
                last.add(value)?;
                if !last.is_whole() {
                    break;
                }
                value = Value::Table(open.pop().expect("one is open").into_table());
                slots_below -= open.last().map_or(0, Open::slots);
            }
        }
    }

    fn part(&mut self, lua: &Lua, slots_used: usize) -> Result<Part, Wrong> {
        let first = self.take(1)?[0];
        // Each value needs a slot, and so do those that are returned.
        if slots_used + 1 > SLOTS_MAX {
            let text =
                "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
            return Err(Wrong::raised(text));
        }
        let text = |bytes: &[u8]| Ok(Part::Value(Value::String(lua.create_string(bytes)?)));
        #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are floats")]
        let integer = |value: i64| Ok(Part::Value(Value::Number(value as f64)));
        match first {
            0x00..=0x7f => integer(i64::from(first)),
            0x80..=0x8f => Ok(Part::Map(u32::from(first & 15))),
            0x90..=0x9f => Ok(Part::Array(u32::from(first & 15))),
            0xa0..=0xbf => text(self.take(u32::from(first & 31))?),
            0xc0 => Ok(Part::Value(Value::Nil)),
            0xc2 | 0xc3 => Ok(Part::Value(Value::Boolean(first == 0xc3))),
            0xca => Ok(Part::Value(Value::Number(f64::from(f32::from_be_bytes(self.bytes()?))))),
            0xcb => Ok(Part::Value(Value::Number(f64::from_be_bytes(self.bytes()?)))),
            0xcc => integer(i64::from(u8::from_be_bytes(self.bytes()?))),
            0xcd => integer(i64::from(u16::from_be_bytes(self.bytes()?))),
            0xce => integer(i64::from(u32::from_be_bytes(self.bytes()?))),
            // Signed in the C code, too: what is larger comes out negative.
            0xcf | 0xd3 => integer(i64::from_be_bytes(self.bytes()?)),
            0xd0 => integer(i64::from(i8::from_be_bytes(self.bytes()?))),
            0xd1 => integer(i64::from(i16::from_be_bytes(self.bytes()?))),
            0xd2 => integer(i64::from(i32::from_be_bytes(self.bytes()?))),
            0xd9 => {
                let [size] = self.bytes()?;
                text(self.take(u32::from(size))?)
            }
            0xda => {
                let size = u16::from_be_bytes(self.bytes()?);
                text(self.take(u32::from(size))?)
            }
            0xdb => {
                let size = u32::from_be_bytes(self.bytes()?);
                text(self.take(size)?)
            }
            0xdc => Ok(Part::Array(u32::from(u16::from_be_bytes(self.bytes()?)))),
            0xdd => Ok(Part::Array(u32::from_be_bytes(self.bytes()?))),
            0xde => Ok(Part::Map(u32::from(u16::from_be_bytes(self.bytes()?)))),
            0xdf => Ok(Part::Map(u32::from_be_bytes(self.bytes()?))),
            0xe0.. => integer(i64::from(first.cast_signed())),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => Err(Wrong::raised("Bad data format in input.")),
        }
    }

    fn take(&mut self, size: u32) -> Result<&'a [u8], Wrong> {
        let missing = || Wrong::raised("Missing bytes in input.");
        let size = usize::try_from(size).map_err(|_| missing())?;
        let bytes = self.input[self.at..].get(..size).ok_or_else(missing)?;
        self.at += size;
        Ok(bytes)
    }

    fn bytes<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Wrong> {
        let rest = &self.input[self.at..];
        let bytes = rest.first_chunk().ok_or_else(|| Wrong::raised("Missing bytes in input."))?;
        self.at += SIZE;
        Ok(*bytes)
    }
}
