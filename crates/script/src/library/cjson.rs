//! `cjson`: JSON to and from values of Lua, as lua-cjson 2.1.0 of Redis has it.
//!
//! A table is an array if all its keys are positive integers, and an object otherwise; an empty one is an object. `null` is
//! [`Value::NULL`], since a nil would vanish from its table. Strings pass as they are, whether they are UTF-8 or not.
//!
//! Settings belong to a library, as in Redis: they stay when a script ends, and `new` makes a library with settings of its own.

mod decode;
mod encode;

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::call::{Answer, Args, Binder, Wrong, one};
use crate::number;

/// What `encode` does with numbers that JSON has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

/// What a library is set to. Numbers are those of a C `int`.
#[derive(Clone, Copy, Debug)]
struct Settings {
    is_sparse_converted: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth_max: i32,
    encode_invalid_numbers: Invalid,
    number_precision: i32,
    keeps_buffer: bool,
    decode_depth_max: i32,
    has_invalid_numbers: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            is_sparse_converted: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            encode_invalid_numbers: Invalid::Refused,
            number_precision: 14,
            keeps_buffer: true,
            decode_depth_max: 1000,
            has_invalid_numbers: true,
        }
    }
}

/// Settings that the functions of a library share.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Settings>>);

impl Shared {
    fn get(&self) -> Settings {
        self.with(|settings| *settings)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Settings) -> T) -> T {
        change(&mut self.0.borrow_mut())
    }
}

/// The library's table.
pub(super) fn library(lua: &Lua, binder: &Binder) -> mlua::Result<Table> {
    let next: Function = lua.globals().raw_get("next")?;
    let table = lua.create_table()?;
    let shared = Shared::default();
    let settings = shared.clone();
    binder.bind_work(lua, &table, "encode", move |lua, args, budget| {
        encode::Encoding::new(lua, settings.get(), next.clone(), only_argument(args)?, budget)
    })?;
    let settings = shared.clone();
    binder.bind_work(lua, &table, "decode", move |_, args, _| {
        only_argument(args)?;
        decode::Decoding::new(settings.get(), args.text(1)?)
    })?;
    bind_settings(lua, binder, &table, &shared)?;
    let again = binder.clone();
    binder.bind(lua, &table, "new", move |lua, _| one(Value::Table(library(lua, &again)?)))?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn only_argument(args: &Args) -> Result<Value, Wrong> {
    match args.get(1) {
        Some(value) if args.count() == 1 => Ok(value.clone()),
        _ => Err(Wrong::argument(1, "expected 1 argument")),
    }
}

/// The functions that change a setting and tell what it is.
fn bind_settings(lua: &Lua, binder: &Binder, table: &Table, shared: &Shared) -> mlua::Result<()> {
    let bind = |name, count_max: usize, change: fn(&Lua, &Args, &mut Settings) -> Answer| {
        let settings = shared.clone();
        binder.bind(lua, table, name, move |lua, args| {
            if args.count() > count_max {
                return Err(Wrong::argument(count_max + 1, "found too many arguments"));
            }
            settings.with(|settings| change(lua, args, settings))
        })
    };
    bind("encode_sparse_array", 3, |_, args, settings| {
        // What has been set before an argument that is wrong stays so.
        let convert = flag(args, 1, &mut settings.is_sparse_converted)?;
        let ratio = integer(args, 2, &mut settings.sparse_ratio, 0, i32::MAX)?;
        let safe = integer(args, 3, &mut settings.sparse_safe, 0, i32::MAX)?;
        Ok(MultiValue::from_vec(vec![convert, ratio, safe]))
    })?;
    bind("encode_max_depth", 1, |_, args, settings| {
        one(integer(args, 1, &mut settings.encode_depth_max, 1, i32::MAX)?)
    })?;
    bind("decode_max_depth", 1, |_, args, settings| {
        one(integer(args, 1, &mut settings.decode_depth_max, 1, i32::MAX)?)
    })?;
    bind("encode_number_precision", 1, |_, args, settings| {
        one(integer(args, 1, &mut settings.number_precision, 1, 14)?)
    })?;
    // A setting that nothing depends on here.
    bind("encode_keep_buffer", 1, |_, args, settings| one(flag(args, 1, &mut settings.keeps_buffer)?))?;
    bind("encode_invalid_numbers", 1, |lua, args, settings| {
        const OPTIONS: [Invalid; 3] = [Invalid::Refused, Invalid::Written, Invalid::Null];
        if let Some(index) = option(args, 1, &["off", "on", "null"])? {
            settings.encode_invalid_numbers = OPTIONS[index];
        }
        one(match settings.encode_invalid_numbers {
            Invalid::Null => Value::String(lua.create_string("null")?),
            other => Value::Boolean(other == Invalid::Written),
        })
    })?;
    bind("decode_invalid_numbers", 1, |_, args, settings| {
        one(flag(args, 1, &mut settings.has_invalid_numbers)?)
    })
}

/// An integer that may be given as an argument. One out of range is the first argument's fault, whichever it is.
fn integer(args: &Args, index: usize, setting: &mut i32, min: i32, max: i32) -> Result<Value, Wrong> {
    if !args.is_nil(index) {
        let value = number::low_i32(args.integer(index)?);
        if !(min..=max).contains(&value) {
            return Err(Wrong::argument(1, format!("expected integer between {min} and {max}")));
        }
        *setting = value;
    }
    Ok(Value::Integer(i64::from(*setting)))
}

/// A choice that may be given as an argument: by its name, the first two also as a boolean.
fn option(args: &Args, index: usize, options: &[&str]) -> Result<Option<usize>, Wrong> {
    if args.is_nil(index) {
        return Ok(None);
    }
    if let Some(Value::Boolean(is_on)) = args.get(index) {
        return Ok(Some(usize::from(*is_on)));
    }
    let text = args.text(index)?;
    let name = super::call::until_nul(&text);
    match options.iter().position(|option| option.as_bytes() == name) {
        Some(index) => Ok(Some(index)),
        None => Err(Wrong::argument(index, [b"invalid option '", name, b"'"].concat())),
    }
}

/// A choice of on and off.
fn flag(args: &Args, index: usize, setting: &mut bool) -> Result<Value, Wrong> {
    if let Some(index) = option(args, index, &["off", "on"])? {
        *setting = index == 1;
    }
    Ok(Value::Boolean(*setting))
}
