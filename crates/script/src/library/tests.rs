//! What scripts see of the libraries.

mod bit;
mod cjson;
mod cmsgpack;
mod pieces;
mod r#struct;

use mlua::{Function, Lua, Value};

use super::call::{number_of, type_name};
use crate::number;

/// A Lua with the libraries, as scripts find it but for the sandbox.
fn lua() -> Lua {
    let lua = Lua::new();
    super::install(&lua, &lua.globals()).expect("libraries");
    lua
}

/// What a script returns, or the text of its error behind "error: ". What is not printable ASCII is
/// escaped, and a backslash.
fn run(lua: &Lua, script: &str) -> String {
    let script = lua.load(script).set_name("@user_script").into_function().expect("a script");
    let pcall: Function = lua.globals().get("pcall").expect("pcall");
    let (is_ok, value): (bool, Value) = pcall.call(script).expect("pcall doesn't fail");
    let text = match &value {
        Value::String(text) => {
            text.as_bytes().escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\"")
        }
        Value::Boolean(flag) => flag.to_string(),
        value => match number_of(value) {
            Some(number) => number::display(number),
            None => type_name(value).to_owned(),
        },
    };
    if is_ok { text } else { format!("error: {text}") }
}

/// Runs a script in a Lua of its own.
#[track_caller]
fn check(script: &str, want: &str) {
    assert_eq!(run(&lua(), script), want, "{script}");
}
