//! The libraries that Redis' scripts find beside those of Lua: `cjson`, `cmsgpack`, `struct` and `bit`.
//!
//! What they answer is what those of Redis 7.0.15 answer (`deps/lua/src/lua_*.c` there), texts of errors included, but for what Lua
//! leaves open (the order of a table's fields) and what C leaves open (numbers outside of an integer's range, shifts of 64 bits and
//! more), where they do what gcc's code for x86-64 does. Three differences can be seen: a function has the name of its field in an
//! error's text, also when it was called by that of a local variable; `cmsgpack` tells no copyright; and what would need more memory
//! than a script may have fails with Lua's "not enough memory" instead of ending the server.
//!
//! Nothing recurses as deep as its input says: a lane's stack is small. What may take long (`encode`, `decode`, `pack`) comes in pieces,
//! between which a script can be paused. Where the C code is limited by the slots of Lua's stack
//! ([`SLOTS_MAX`]), these slots are counted, so that the limits are the same ones.

mod bit;
pub(crate) mod call;
mod cjson;
mod cmsgpack;
mod r#struct;
#[cfg(test)]
mod tests;
mod walk;

use mlua::{Lua, Result, Table};

use call::Binder;

/// Slots that a C function of Lua 5.1 may use (`LUAI_MAXCSTACK`): its arguments, what it returns, and two for most levels of nesting.
const SLOTS_MAX: usize = 8000;

/// Puts the four libraries into `globals`. Who calls this makes them read-only.
pub(crate) fn install(lua: &Lua, globals: &Table) -> Result<()> {
    let binder = Binder::new(lua)?;
    globals.raw_set("cjson", cjson::library(lua, &binder)?)?;
    globals.raw_set("cmsgpack", cmsgpack::library(lua, &binder)?)?;
    globals.raw_set("struct", r#struct::library(lua, &binder)?)?;
    globals.raw_set("bit", bit::library(lua, &binder)?)
}
