//! What takes long can be paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use mlua::{Lua, Value, VmState};

use super::lua;

/// What a script returns that is paused at each of its turns, calls and returns, and how many interrupts that took.
fn paused(lua: &Lua, script: &str) -> (String, u32) {
    let count = Arc::new(AtomicU32::new(0));
    lua.set_interrupt({
        let count = Arc::clone(&count);
        move |_| {
            // What was paused begins with an interrupt.
            let is_again = count.fetch_add(1, Relaxed) % 2 == 1;
            Ok(if is_again { VmState::Continue } else { VmState::Yield })
        }
    });
    let function = lua.load(script).set_name("@user_script").into_function().expect("a script");
    let thread = lua.create_thread(function).expect("a thread");
    let result = loop {
        match thread.resume::<Value>(()) {
            Ok(_) if thread.is_resumable() => {}
            Ok(value) => break value.to_string().expect("a text"),
            Err(error) => break error.to_string(),
        }
    };
    lua.remove_interrupt();
    (result, count.load(Relaxed))
}

#[test]
fn long_work_is_paused() {
    for (script, want, count_min) in [
        ("return cjson.encode({1, {2}})", "[1,[2]]", 1),
        ("return #cjson.encode(table.create(5000, 1))", "10001", 2000),
        (
            "local t = {} for i = 1, 500 do t[i] = {id = i, tags = {'a', 'b'}, more = {x = {}}} end
             local back = cjson.decode(cjson.encode(t))
             for i = 1, 500 do
                 local one = back[i]
                 assert(one.id == i and one.tags[2] == 'b' and next(one.more.x) == nil and #one.tags == 2)
             end
             return #back",
            "500",
            20_000,
        ),
        (
            "local t = {} for i = 1, 3000 do t['k' .. i] = i end
             local back = cjson.decode(cjson.encode(t))
             for i = 1, 3000 do
                 assert(back['k' .. i] == i)
             end
             return next(back, 'k1') ~= false and #back",
            "0",
            2000,
        ),
        (
            "local t = {} for i = 1, 500 do t[i] = {id = i, tags = {'a', 'b'}, [{i}] = {x = {}}} end
             local back = cmsgpack.unpack(cmsgpack.pack(t))
             for i = 1, 500 do
                 local one, found = back[i], nil
                 assert(one.id == i and one.tags[2] == 'b' and #one.tags == 2)
                 for key, value in pairs(one) do
                     if type(key) == 'table' then
                         assert(key[1] == i and next(value.x) == nil and found == nil)
                         found = true
                     end
                 end
                 assert(found)
             end
             return #back",
            "500",
            10_000,
        ),
        // Arguments that are packed one behind the other.
        ("return #cmsgpack.pack(unpack(table.create(3000, {1})))", "6000", 5000),
        // What is done in one go is paid for behind it.
        ("return #cjson.encode(('x'):rep(1000000))", "1000002", 7000),
        ("return #cjson.decode('\"' .. ('x'):rep(1000000) .. '\"')", "1000000", 7000),
        ("return #cmsgpack.unpack(cmsgpack.pack(('x'):rep(1000000)))", "1000000", 14_000),
        ("return #struct.pack('s', ('x'):rep(1000000))", "1000001", 7000),
        ("return (pcall(cmsgpack.unpack, ('\\193'):rep(1000000)))", "false", 3500),
        // Errors keep their place.
        (
            "local t = table.create(3000, 1) t[3000] = print return cjson.encode(t)",
            "runtime error: user_script:1: Cannot serialise function: type not supported",
            1000,
        ),
        (
            "return cjson.decode('[' .. ('1,'):rep(3000) .. ']')",
            "runtime error: user_script:1: Expected value but found T_ARR_END at character 6002",
            1000,
        ),
    ] {
        let (got, count) = paused(&lua(), script);
        assert_eq!(got.split("\nstack traceback").next(), Some(want), "{script}");
        assert!(count >= count_min, "{count} interrupts: {script}");
    }
}

/// A script that asks for days of work gets them in pieces, so that it can be ended.
#[test]
fn work_without_an_end_can_be_ended() {
    let lua = lua();
    lua.set_memory_limit(64 << 20).expect("a limit");
    for script in [
        // A table that was large and is empty, many times.
        "local t = {} for i = 1, 100000 do t['k' .. i] = 1 end for i = 1, 100000 do t['k' .. i] = nil end
         return cjson.encode(table.create(100000, t))",
        "local t = {} for i = 1, 100000 do t['k' .. i] = 1 end for i = 1, 100000 do t['k' .. i] = nil end
         return cmsgpack.pack(table.create(100000, t))",
    ] {
        let left = Arc::new(AtomicU32::new(410_000));
        lua.set_interrupt({
            let left = Arc::clone(&left);
            move |_| match left.fetch_sub(1, Relaxed) {
                0 => Err(mlua::Error::runtime("ended")),
                _ => Ok(VmState::Continue),
            }
        });
        let error = lua.load(script).exec().expect_err("it does not end by itself").to_string();
        lua.remove_interrupt();
        assert!(error.starts_with("runtime error: ended"), "{error}");
        lua.gc_collect().expect("garbage");
    }
}
