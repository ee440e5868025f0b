//! Values of Lua as replies, as `luaReplyToRedisReply` of Redis has it (`src/script_lua.c`), and the tables that stand for what Lua has not.
//! The other way is `answer`'s.

use mlua::{IntoLua, Lua, LuaString, Result, Table, Value};
use wire::Proto;
use wire::client::Reply;
use wire::reply::quoted;

use crate::number;

/// Deepest nesting of what a script returns. What is deeper is an error in its place. (Redis ends at some thousands.)
pub(crate) const DEPTH_MAX: usize = 128;

/// Names of fields by which tables are told apart, as the interpreter keeps them.
pub(crate) struct Names {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    format: LuaString,
    string: LuaString,
    map: LuaString,
    set: LuaString,
    ignore: LuaString,
}

impl Names {
    pub(crate) fn new(lua: &Lua) -> Result<Names> {
        Ok(Names {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            format: lua.create_string("format")?,
            string: lua.create_string("string")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            ignore: lua.create_string("ignore_error_stats_update")?,
        })
    }

    /// The text of an error's table, if this is one.
    pub(crate) fn error_text(&self, table: &Table) -> Option<Vec<u8>> {
        text(&table.raw_get(&self.err).ok()?)
    }

    /// Whether an error's table is one that a command of the script was answered with, as it was made.
    pub(crate) fn is_counted(&self, table: &Table) -> bool {
        table.raw_get::<Value>(&self.ignore).is_ok_and(|value| value == Value::Boolean(true))
    }

    /// An error as a table.
    pub(crate) fn error(&self, lua: &Lua, text: &[u8]) -> Result<Value> {
        let table = lua.create_table_with_capacity(0, 2)?;
        table.raw_set(&self.err, lua.create_string(text)?)?;
        Ok(Value::Table(table))
    }

    fn single(&self, lua: &Lua, name: &LuaString, value: impl IntoLua) -> Result<Value> {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    /// The error of a command, which its lane has counted already.
    pub(crate) fn counted_error(&self, lua: &Lua, text: &[u8]) -> Result<Value> {
        let error = self.error(lua, text)?;
        if let Value::Table(table) = &error {
            table.raw_set(&self.ignore, true)?;
        }
        Ok(error)
    }

    pub(crate) fn status(&self, lua: &Lua, text: &[u8]) -> Result<Value> {
        self.single(lua, &self.ok, lua.create_string(text)?)
    }

    pub(crate) fn double(&self, lua: &Lua, value: f64) -> Result<Value> {
        self.single(lua, &self.double, value)
    }

    pub(crate) fn big_number(&self, lua: &Lua, digits: &[u8]) -> Result<Value> {
        self.single(lua, &self.big_number, lua.create_string(digits)?)
    }

    /// `text` begins with its format: three letters and a colon.
    pub(crate) fn verbatim_string(&self, lua: &Lua, text: &[u8]) -> Result<Value> {
        let (format, text) = text.split_at_checked(4).unwrap_or_default();
        let table = lua.create_table_with_capacity(0, 2)?;
        table.raw_set(&self.string, lua.create_string(text)?)?;
        table.raw_set(&self.format, lua.create_string(&format[..format.len().min(3)])?)?;
        self.single(lua, &self.verbatim_string, table)
    }

    pub(crate) fn map(&self, lua: &Lua, entries: Table) -> Result<Value> {
        self.single(lua, &self.map, entries)
    }

    pub(crate) fn set(&self, lua: &Lua, members: Table) -> Result<Value> {
        self.single(lua, &self.set, members)
    }

    /// What a script returns as a reply. `budget` is how many bytes of values it may still have; a reply that is beyond it has none.
    pub(crate) fn reply(
        &self,
        value: &Value,
        proto: Proto,
        depth: usize,
        budget: &mut usize,
    ) -> Option<Reply> {
        let size =
            size_of::<Reply>() + if let Value::String(text) = value { text.as_bytes().len() } else { 0 };
        *budget = budget.checked_sub(size)?;
        Some(match value {
            Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
            Value::Boolean(value) if proto == Proto::Resp3 => Reply::Boolean(*value),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Integer(value) => Reply::Integer(*value),
            Value::Number(value) => Reply::Integer(number::to_i64(*value)),
            Value::Table(_) if depth >= DEPTH_MAX => Reply::Error(b"ERR reached lua stack limit".to_vec()),
            Value::Table(table) => return self.table(table, proto, depth, budget),
            _ => Reply::Null,
        })
    }

    /// Whether a table stands for something that Lua has not; else it is a list.
    pub(crate) fn is_special(&self, table: &Table) -> bool {
        let names = [
            &self.err,
            &self.ok,
            &self.double,
            &self.big_number,
            &self.verbatim_string,
            &self.map,
            &self.set,
        ];
        names.into_iter().any(|name| table.raw_get::<Value>(name).unwrap_or_default() != Value::Nil)
    }

    fn table(&self, table: &Table, proto: Proto, depth: usize, budget: &mut usize) -> Option<Reply> {
        let get = |table: &Table, name: &LuaString| table.raw_get::<Value>(name).unwrap_or_default();
        if let Value::String(text) = get(table, &self.err) {
            return Some(Reply::Error(quoted(&text.as_bytes()).to_vec()));
        }
        if let Value::String(text) = get(table, &self.ok) {
            return Some(Reply::Simple(one_line(quoted(&text.as_bytes()))));
        }
        if let Some(value) = number(&get(table, &self.double)) {
            return Some(Reply::Double(value));
        }
        if let Value::String(digits) = get(table, &self.big_number) {
            return Some(Reply::Big(one_line(&digits.as_bytes())));
        }
        if let Value::Table(verbatim) = get(table, &self.verbatim_string)
            && let (Value::String(format), Value::String(text)) =
                (get(&verbatim, &self.format), get(&verbatim, &self.string))
        {
            let mut name = [b' '; 3];
            for (to, from) in name.iter_mut().zip(quoted(&format.as_bytes())) {
                *to = *from;
            }
            *budget = budget.checked_sub(text.as_bytes().len())?;
            return Some(Reply::Verbatim(name, text.as_bytes().to_vec()));
        }
        if let Value::Table(entries) = get(table, &self.map) {
            let mut pairs = Vec::new();
            for entry in entries.pairs::<Value, Value>() {
                let (key, value) = entry.ok()?;
                pairs.push((
                    self.reply(&key, proto, depth + 1, budget)?,
                    self.reply(&value, proto, depth + 1, budget)?,
                ));
            }
            return Some(Reply::Map(pairs));
        }
        if let Value::Table(members) = get(table, &self.set) {
            let mut items = Vec::new();
            for entry in members.pairs::<Value, Value>() {
                items.push(self.reply(&entry.ok()?.0, proto, depth + 1, budget)?);
            }
            return Some(Reply::Set(items));
        }
        let mut items = Vec::new();
        loop {
            match table.raw_get::<Value>(items.len() + 1).unwrap_or_default() {
                Value::Nil => return Some(Reply::Array(items)),
                item => items.push(self.reply(&item, proto, depth + 1, budget)?),
            }
        }
    }
}

/// The bytes of a string or of a number, which Lua takes for one.
pub(crate) fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        other => number(other).map(|value| number::display(value).into_bytes()),
    }
}

/// The number that this value is. Lua has floats only; mlua shows those that are whole as integers.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "it was a float before")]
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        _ => None,
    }
}

/// An error's text as scripts get it: with a code, and without line ends behind it.
pub(crate) fn with_code(text: &[u8]) -> Vec<u8> {
    let text = quoted(text);
    let (code, rest) = match text.iter().position(|&byte| byte == b' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = rest.iter().position(|byte| !is_line_end(byte)).unwrap_or(rest.len());
    let end = rest.iter().rposition(|byte| !is_line_end(byte)).map_or(start, |last| last + 1);
    [code, b" ", &rest[start..end]].concat()
}

fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}
