//! `cmsgpack`: MessagePack to and from values of Lua, as lua-cmsgpack 0.4.0 of Redis has it.
//!
//! A table is an array if its keys are the integers from one on without a gap, and a map otherwise; an empty one is an array. Numbers
//! that are integers are packed as such. What MessagePack has no word for is packed as nil, and so are tables more than
//! [`NESTING_MAX`] levels deep: tables may contain themselves.
//!
//! Source of the format: the specification at <https://github.com/msgpack/msgpack/blob/master/spec.md>.

mod pack;
mod unpack;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::SLOTS_MAX;
use super::call::{Answer, Args, Binder, Text, Wrong};

/// Levels of tables that are packed.
const NESTING_MAX: usize = 16;

/// The library's table.
pub(super) fn library(lua: &Lua, binder: &Binder) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let next: Function = lua.globals().raw_get("next")?;
    binder.bind_work(lua, &table, "pack", move |lua, args, _| {
        if args.count() == 0 {
            return Err(Wrong::argument(0, "MessagePack pack needs input."));
        }
        // There each argument has a slot, and each of their strings.
        if args.count() * 2 > SLOTS_MAX {
            return Err(Wrong::argument(0, "Too many arguments for MessagePack pack."));
        }
        pack::Packing::new(lua, next.clone(), args.values().clone())
    })?;
    binder.bind(lua, &table, "unpack", |lua, args| {
        let results = unpack_some(lua, &args.text(1)?, args.count(), 0, i64::MAX)?.0;
        Ok(MultiValue::from_vec(results))
    })?;
    binder.bind(lua, &table, "unpack_one", |lua, args| {
        let offset = args.integer_or(2, 0)?;
        unpack_from(lua, args, 1, offset)
    })?;
    binder.bind(lua, &table, "unpack_limit", |lua, args| {
        let limit = args.integer(2)?;
        let offset = args.integer_or(3, 0)?;
        unpack_from(lua, args, limit, offset)
    })?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    Ok(table)
}

/// At most `limit` values from `offset` on, behind the offset of what follows them or -1 at the end. All of them without that if both
/// are zero.
fn unpack_from(lua: &Lua, args: &Args, limit: i64, offset: i64) -> Answer {
    let input: Text = args.text(1)?;
    let low = crate::number::low_i32;
    let size = low(i64::try_from(input.len()).expect("a size"));
    if offset < 0 || limit < 0 {
        // The text says limit and tells the size, as there.
        let text = format!("Invalid request to unpack with offset of {} and limit of {size}.", low(offset));
        return Err(Wrong::raised(text));
    }
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    if start > input.len() {
        let text = format!("Start offset {} greater than input length {size}.", low(offset));
        return Err(Wrong::raised(text));
    }
    if limit == 0 && offset == 0 {
        return Ok(MultiValue::from_vec(unpack_some(lua, &input, 1, 0, i64::MAX)?.0));
    }
    let (results, end) = unpack_some(lua, &input, 1, start, limit)?;
    let mut answer = MultiValue::from_vec(results);
    let next = if end == input.len() { -1 } else { i64::try_from(end).expect("an offset") };
    answer.push_front(Value::Integer(next));
    Ok(answer)
}

/// At most `limit` values from `start` on, and where they end. `slots_used` are those of arguments.
fn unpack_some(
    lua: &Lua,
    input: &[u8],
    slots_used: usize,
    start: usize,
    limit: i64,
) -> Result<(Vec<Value>, usize), Wrong> {
    let mut cursor = unpack::Cursor::new(input, start);
    let mut results = Vec::new();
    let mut left = limit;
    while left > 0 && !cursor.is_at_end() {
        results.push(cursor.value(lua, slots_used + results.len())?);
        left -= 1;
    }
    Ok((results, cursor.at()))
}
