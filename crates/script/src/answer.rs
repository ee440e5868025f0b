//! A command's reply on its way to the script that has called, an element after the other, as `redisProtocolToLuaType` of Redis has it
//! (`src/script_lua.c`): however long a reply is, its lane can do other things in between.

use mlua::{Lua, Result, Table, Value};
use wire::Proto;
use wire::client::{Element, Kind, Nest, Parser};

use crate::Engine;
use crate::convert::{Names, with_code};

/// Elements for which a table has place from the beginning.
const CAPACITY_MAX: u64 = 1024;
/// Bytes that a value takes in the interpreter beside its own, at most: a table with one field.
const VALUE_SIZE: usize = 256;
/// Bytes that an element takes in its table, at most, while the table grows.
const PLACE_SIZE: usize = 128;

/// See the top of this file. When it is whole ([`Answer::is_whole`]) the run goes on with it.
#[derive(Debug)]
pub struct Answer {
    /// What the script has chosen: what RESP2 has not comes as what it has instead.
    proto: Proto,
    parser: Parser,
    /// What has come and is not read, from `at` on.
    bytes: Vec<u8>,
    at: usize,
    is_hungry: bool,
    /// A bulk of which something is missing.
    bulk: Option<(Kind, Vec<u8>)>,
    open: Vec<Level>,
    whole: Option<Whole>,
}

#[derive(Debug)]
pub(crate) enum Whole {
    Value(Value),
    /// The text of an error.
    Error(Vec<u8>),
    /// There was no memory for it.
    TooLarge,
}

/// A table of which elements are missing.
#[derive(Debug)]
struct Level {
    nest: Nest,
    missing: u64,
    table: Table,
    /// Elements that it has.
    count: usize,
    /// Of a map, what the next element belongs to.
    key: Option<Value>,
}

impl Answer {
    /// Of which nothing has come. `proto` is the one of [`crate::Step::Call`].
    pub fn new(proto: Proto) -> Answer {
        Answer {
            proto,
            parser: Parser::default(),
            bytes: Vec::new(),
            at: 0,
            is_hungry: true,
            bulk: None,
            open: Vec::new(),
            whole: None,
        }
    }

    /// An error, whole.
    pub fn error(text: impl Into<Vec<u8>>) -> Answer {
        Answer { whole: Some(Whole::Error(text.into())), ..Answer::new(Proto::Resp2) }
    }

    /// Whether there is nothing left to come, or nothing to be done with it.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Whether nothing more can be read before more bytes come.
    pub fn is_hungry(&self) -> bool {
        self.is_hungry
    }

    /// Takes more bytes of the reply.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.at));
        self.bytes.extend_from_slice(bytes);
        self.is_hungry = false;
    }

    /// Makes values of up to `count` elements, of what has come. Says of how many; with fewer than `count` it is whole, or needs more bytes.
    ///
    /// # Panics
    /// If the bytes are no reply.
    pub fn read(&mut self, engine: &mut Engine, count: usize) -> usize {
        if self.open.is_empty() && self.bytes.get(self.at) == Some(&b':') {
            // A number takes no memory.
            return self.read_some(engine, count);
        }
        let size = self.bytes.len() - self.at + self.bulk.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let places: usize = self.open.iter().map(|level| level.count).sum();
        let size = size + VALUE_SIZE * count + PLACE_SIZE * places;
        engine.roomily(size, |engine| self.read_some(engine, count))
    }

    fn read_some(&mut self, engine: &Engine, count: usize) -> usize {
        let mut read = 0;
        while read < count && self.whole.is_none() {
            match self.read_one(&engine.lua, &engine.names) {
                Ok(true) => read += 1,
                Ok(false) => break,
                Err(_) => self.whole = Some(Whole::TooLarge),
            }
        }
        read
    }

    pub(crate) fn take(self) -> Option<Whole> {
        self.whole
    }

    /// False if bytes are missing.
    fn read_one(&mut self, lua: &Lua, names: &Names) -> Result<bool> {
        let (element, size) = self.parser.next(&self.bytes[self.at..]).expect("a lane's reply is one");
        self.at += size;
        let is_old = self.proto == Proto::Resp2;
        let is_first = self.open.is_empty();
        let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
        let value = match element {
            Element::Need => {
                self.is_hungry = true;
                return Ok(false);
            }
            Element::Simple(text) => names.status(lua, text)?,
            Element::Error(text) if is_first => {
                self.whole = Some(Whole::Error(text.to_vec()));
                return Ok(true);
            }
            Element::Error(text) => names.counted_error(lua, &with_code(text))?,
            // Lua's numbers are floats: beyond 2^53 digits are lost, as in Redis.
            Element::Integer(value) => Value::Integer(value),
            Element::Double(value) if is_old => string(wire::number::format_f64(value).as_bytes())?,
            Element::Double(value) => names.double(lua, value)?,
            Element::Boolean(value) if is_old => Value::Integer(value.into()),
            Element::Boolean(value) => Value::Boolean(value),
            Element::Big(digits) if is_old => string(digits)?,
            Element::Big(digits) => names.big_number(lua, digits)?,
            Element::Null if is_old => Value::Boolean(false),
            Element::Null => Value::Nil,
            Element::Begin(kind, _) => {
                self.bulk = Some((kind, Vec::new()));
                return Ok(true);
            }
            Element::Bytes(bytes) => {
                self.bulk.as_mut().expect("bytes come inside of a bulk").1.extend_from_slice(bytes);
                return Ok(true);
            }
            Element::End => match self.bulk.take().expect("a bulk that ends has begun") {
                (Kind::Error, text) if is_first => {
                    self.whole = Some(Whole::Error(text));
                    return Ok(true);
                }
                (Kind::Error, text) => names.counted_error(lua, &with_code(&text))?,
                (Kind::Bulk, text) => string(&text)?,
                (Kind::Verbatim, text) if is_old => string(text.get(4..).unwrap_or_default())?,
                (Kind::Verbatim, text) => names.verbatim_string(lua, &text)?,
            },
            Element::Open(nest, missing) => {
                let place_count = usize::try_from(missing.min(CAPACITY_MAX)).expect("far below 2^32");
                let is_list = is_old || matches!(nest, Nest::Array | Nest::Push);
                let (list, fields) = if is_list { (place_count, 0) } else { (0, place_count) };
                let table = lua.create_table_with_capacity(list, fields)?;
                self.open.push(Level { nest, missing, table, count: 0, key: None });
                return self.close(lua, names).map(|()| true);
            }
        };
        self.place(lua, names, value)?;
        Ok(true)
    }

    /// An element is a value.
    fn place(&mut self, lua: &Lua, names: &Names, value: Value) -> Result<()> {
        let Some(level) = self.open.last_mut() else {
            self.whole = Some(Whole::Value(value));
            return Ok(());
        };
        level.take(value, self.proto == Proto::Resp2)?;
        self.close(lua, names)
    }

    /// Tables that lack nothing more are elements of those around them.
    fn close(&mut self, lua: &Lua, names: &Names) -> Result<()> {
        let is_old = self.proto == Proto::Resp2;
        while let Some(level) = self.open.pop_if(|level| level.missing == 0) {
            let value = match level.nest {
                Nest::Set if !is_old => names.set(lua, level.table)?,
                Nest::Map if !is_old => names.map(lua, level.table)?,
                _ => Value::Table(level.table),
            };
            match self.open.last_mut() {
                None => self.whole = Some(Whole::Value(value)),
                Some(around) => around.take(value, is_old)?,
            }
        }
        Ok(())
    }
}

impl Level {
    fn take(&mut self, value: Value, is_old: bool) -> Result<()> {
        self.missing -= 1;
        self.count += 1;
        // Nothing cannot be a table's key.
        let as_key = |value| if value == Value::Nil { Value::Boolean(false) } else { value };
        match self.nest {
            Nest::Set if !is_old => self.table.raw_set(as_key(value), true),
            Nest::Map if !is_old => match self.key.take() {
                None => {
                    self.key = Some(as_key(value));
                    Ok(())
                }
                Some(key) => self.table.raw_set(key, value),
            },
            _ => self.table.raw_set(self.count, value),
        }
    }
}
