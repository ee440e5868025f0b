//! How a function of a library is called from Lua: its arguments, checked as Lua's `luaL_check…` check them, and its errors.
//!
//! What Rust raises would reach a script as a value of its own kind; Redis' libraries raise strings, which begin with the place of the
//! caller. So each function stands behind a small one in Lua, which raises for it:
//!
//! ```text
//! script ──> function(...) in Lua ──> body in Rust ──> turns, nil, results…   they are returned
//!                                                 ├──> turns, text, level   error(text, level)
//!                                                 └──> 0, false, go_on       go_on() until it's whole
//! ```

use std::collections::VecDeque;
use std::ops::{ControlFlow, Deref};

use mlua::{BorrowedBytes, Error, Function, Lua, MultiValue, Table, Value};

use crate::number;

/// Gets `error`, returns what makes a raising function of a body, and the same for a body that may come in pieces. It looks up nothing
/// by name: scripts may change names.
///
/// A script is paused after so many turns of its loops, calls and returns. What takes longer than these is followed by turns of nothing.
const RAISING: &str = "
local raise, turns_of_piece = ...
local function finish(turns, wrong, ...)
    for _ = 1, turns do
    end
    if wrong then
        raise(wrong, ...)
    end
    return ...
end
local function raising(body)
    return function(...)
        return finish(body(...))
    end
end
local function whole(turns, wrong, result)
    if wrong == false then
        while result() do
            for _ = 1, turns_of_piece do
            end
        end
        return result()
    end
    return turns, wrong, result
end
local function working(body)
    return function(...)
        return finish(whole(body(...)))
    end
end
return raising, working
";

/// What a piece may take, in scalars that are written or read: some tens of microseconds.
const PIECE_WORK: usize = 512;
/// Turns of a loop that take about as long.
const PIECE_TURNS: u32 = 250;
/// Bytes of arguments and results for which there is a turn.
const BYTES_OF_TURN: usize = 256;

/// The level of `error` that is the caller of a library's function: before it come `finish` and the function itself.
const LEVEL_OF_CALLER: u8 = 3;
/// Frames between a body and whoever called the function: its own and that of the function in Lua.
const FRAMES_BEFORE_CALLER: usize = 2;

/// Text of the error of a script that has used up its memory, as Lua has it.
const NO_MEMORY: &str = "not enough memory";

/// Most bytes that a function makes at once if the interpreter has no limit; no value of Redis is larger.
const OUTPUT_SIZE_MAX: usize = 512 << 20;

/// What a call comes to when it fails.
#[derive(Debug)]
pub(super) enum Wrong {
    /// "bad argument #INDEX to 'NAME' (TEXT)", behind the caller's place.
    Argument(usize, Vec<u8>),
    /// A text behind the caller's place.
    Raised(Vec<u8>),
    /// A text alone, as Lua itself raises it out of a C function.
    Bare(Vec<u8>),
}

impl Wrong {
    pub(super) fn argument(index: usize, text: impl Into<Vec<u8>>) -> Wrong {
        Wrong::Argument(index, text.into())
    }

    pub(super) fn raised(text: impl Into<Vec<u8>>) -> Wrong {
        Wrong::Raised(text.into())
    }

    pub(super) fn bare(text: impl Into<Vec<u8>>) -> Wrong {
        Wrong::Bare(text.into())
    }
}

/// The interpreter itself fails only when memory is short: values that can't be kept are checked before.
impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        match error {
            Error::MemoryError(_) | Error::StackError => Wrong::bare(NO_MEMORY),
            other => Wrong::bare(other.to_string()),
        }
    }
}

/// What a body returns: values for the script.
pub(super) type Answer = Result<MultiValue, Wrong>;

/// An answer of one value.
pub(super) fn one(value: Value) -> Answer {
    Ok(MultiValue::from_vec(vec![value]))
}

/// How much more may be done in a piece.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn spend(&mut self, work: usize) {
        self.0 = self.0.saturating_sub(work);
    }

    /// So many keys have been looked at, of which nothing was made.
    pub(super) fn spend_looking(&mut self, count: i64) {
        self.spend(usize::try_from(count / 8).unwrap_or(usize::MAX));
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

/// Something that is done in pieces, between which a script may be paused, or ended for good.
pub(super) trait Work: 'static {
    /// Does a piece. None if that wasn't the last one.
    fn go_on(&mut self, lua: &Lua, budget: &mut Budget) -> Result<Option<MultiValue>, Wrong>;
}

/// Makes functions for Lua.
#[derive(Clone)]
pub(super) struct Binder {
    raising: Function,
    working: Function,
}

impl Binder {
    pub(super) fn new(lua: &Lua) -> mlua::Result<Binder> {
        // Scripts can reach a function's environment: they shall find nothing in it, and leave nothing.
        let environment = lua.create_table()?;
        environment.set_readonly(true);
        let error: Function = lua.globals().raw_get("error")?;
        let chunk = lua.load(RAISING).set_name("=library").set_environment(environment);
        let (raising, working) = chunk.call((error, PIECE_TURNS))?;
        Ok(Binder { raising, working })
    }

    /// Puts a function into a library's table. `name` is its field, and what errors call it.
    pub(super) fn bind(
        &self,
        lua: &Lua,
        library: &Table,
        name: &'static str,
        body: impl Fn(&Lua, &Args) -> Answer + 'static,
    ) -> mlua::Result<()> {
        let body = lua.create_function(move |lua, values: MultiValue| {
            let size = size_of_texts(&values);
            report(lua, name, size, body(lua, &Args(values)))
        })?;
        library.raw_set(name, self.raising.call::<Function>(body)?)
    }

    /// The same for what may take long and has one result: `begin` does a first piece.
    pub(super) fn bind_work<W: Work>(
        &self,
        lua: &Lua,
        library: &Table,
        name: &'static str,
        begin: impl Fn(&Lua, &Args, &mut Budget) -> Result<W, Wrong> + 'static,
    ) -> mlua::Result<()> {
        let body = lua.create_function(move |lua, values: MultiValue| {
            let mut budget = Budget(PIECE_WORK);
            let size = size_of_texts(&values);
            let begun = begin(lua, &Args(values), &mut budget);
            let first = begun.and_then(|mut work| Ok((work.go_on(lua, &mut budget)?, work)));
            match first {
                Ok((None, work)) => {
                    let go_on = going_on(lua, name, work)?;
                    Ok(MultiValue::from_vec(vec![
                        Value::Integer(0),
                        Value::Boolean(false),
                        Value::Function(go_on),
                    ]))
                }
                Ok((Some(results), _)) => report(lua, name, size, Ok(results)),
                Err(wrong) => report(lua, name, size, Err(wrong)),
            }
        })?;
        library.raw_set(name, self.working.call::<Function>(body)?)
    }
}

/// A function that does a piece and returns whether that wasn't the last one; called once more, it reports.
fn going_on(lua: &Lua, name: &'static str, work: impl Work) -> mlua::Result<Function> {
    let mut work = Some(work);
    let mut answer = None;
    lua.create_function_mut(move |lua, ()| {
        if let Some(answer) = answer.take() {
            return report(lua, name, 0, answer);
        }
        let done = match work.as_mut().map(|work| work.go_on(lua, &mut Budget(PIECE_WORK))) {
            Some(Ok(None)) => None,
            Some(Ok(Some(results))) => Some(Ok(results)),
            Some(Err(wrong)) => Some(Err(wrong)),
            None => Some(Ok(MultiValue::new())),
        };
        if done.is_some() {
            (work, answer) = (None, done);
        }
        Ok(MultiValue::from_vec(vec![Value::Boolean(answer.is_none())]))
    })
}

/// An answer as the function in Lua takes it. `size` is that of the arguments' texts.
fn report(lua: &Lua, name: &str, size: usize, answer: Answer) -> mlua::Result<MultiValue> {
    let (mut results, size) = match answer {
        Ok(mut results) => {
            let size = size + size_of_texts(&results);
            results.push_front(Value::Nil);
            (results, size)
        }
        Err(wrong) => (failure(lua, name, wrong)?, size),
    };
    results.push_front(Value::Integer(i64::try_from(size / BYTES_OF_TURN).expect("a size in memory")));
    Ok(results)
}

fn size_of_texts(values: &MultiValue) -> usize {
    values.iter().filter_map(|value| value.as_string()).map(|text| text.as_bytes().len()).sum()
}

/// What the function in Lua makes an error of.
fn failure(lua: &Lua, name: &str, wrong: Wrong) -> mlua::Result<MultiValue> {
    let (text, level) = match wrong {
        Wrong::Bare(text) => (text, 0),
        Wrong::Raised(text) => (text, LEVEL_OF_CALLER),
        Wrong::Argument(index, text) => {
            // As in Lua 5.1, where only code in Lua knows a name of what it calls: pcall doesn't.
            let is_named = lua
                .inspect_stack(FRAMES_BEFORE_CALLER, |caller| caller.source().what != "C")
                .unwrap_or(false);
            let name = if is_named { name } else { "?" };
            let mut whole = format!("bad argument #{index} to '{name}' (").into_bytes();
            whole.extend_from_slice(&text);
            whole.push(b')');
            (whole, LEVEL_OF_CALLER)
        }
    };
    Ok(MultiValue::from_vec(vec![Value::String(lua.create_string(text)?), Value::Integer(i64::from(level))]))
}

/// The arguments of a call, counted from 1.
pub(super) struct Args(MultiValue);

impl Args {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn values(&self) -> &VecDeque<Value> {
        &self.0
    }

    /// None behind the last one.
    pub(super) fn get(&self, index: usize) -> Option<&Value> {
        self.0.get(index - 1)
    }

    /// Whether it is not there, or nil.
    pub(super) fn is_nil(&self, index: usize) -> bool {
        self.get(index).is_none_or(Value::is_nil)
    }

    fn wrong_type(&self, index: usize, expected: &str) -> Wrong {
        let got = self.get(index).map_or("no value", type_name);
        Wrong::argument(index, format!("{expected} expected, got {got}"))
    }

    /// A number, or a text that is one.
    pub(super) fn number(&self, index: usize) -> Result<f64, Wrong> {
        self.get(index).and_then(number_of).ok_or_else(|| self.wrong_type(index, "number"))
    }

    /// A number without its fraction; the least one if it is out of range.
    pub(super) fn integer(&self, index: usize) -> Result<i64, Wrong> {
        self.number(index).map(number::to_i64)
    }

    /// The same, unless it isn't given.
    pub(super) fn integer_or(&self, index: usize, default: i64) -> Result<i64, Wrong> {
        if self.is_nil(index) { Ok(default) } else { self.integer(index) }
    }

    /// A text, or a number as Lua 5.1 writes it.
    pub(super) fn text(&self, index: usize) -> Result<Text, Wrong> {
        match self.get(index) {
            Some(Value::String(text)) => Ok(Text::Lua(text.as_bytes())),
            Some(value) if value.is_number() || value.is_integer() => {
                let value = number_of(value).expect("a number");
                Ok(Text::Number(number::display(value)))
            }
            _ => Err(self.wrong_type(index, "string")),
        }
    }
}

/// The bytes of an argument.
pub(super) enum Text {
    Lua(BorrowedBytes),
    Number(String),
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Lua(bytes) => bytes,
            Text::Number(text) => text.as_bytes(),
        }
    }
}

/// The bytes before the first NUL: what a function in C sees of a string.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// The number that a value is or, as a text, tells.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        #[expect(
            clippy::cast_precision_loss,
            reason = "mlua gives only such numbers as integers that are exact"
        )]
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => number::of_text(&text.as_bytes()),
        _ => None,
    }
}

/// The name that Lua has for a value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::LightUserData(_) | Value::UserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// Calls `visit` with the fields of a table until it fails or has seen enough. `V` may be `bool` for whom values are no matter: then
/// nothing is made of them.
pub(super) fn for_each<V: mlua::FromLua>(
    table: &Table,
    mut visit: impl FnMut(Value, V) -> Result<ControlFlow<()>, Wrong>,
) -> Result<(), Wrong> {
    let mut stopped = None;
    let ended = table.for_each(|key: Value, value: V| {
        let stop = match visit(key, value) {
            Ok(ControlFlow::Continue(())) => return Ok(()),
            Ok(ControlFlow::Break(())) => Ok(()),
            Err(wrong) => Err(wrong),
        };
        stopped = Some(stop);
        Err(Error::StackError)
    });
    stopped.unwrap_or_else(|| Ok(ended?))
}

/// Bytes that will be a string of Lua. They don't lie in Lua's memory while they are made, and a small table that is named many times
/// makes many of them: so there may be as many as Lua could keep.
pub(super) struct Output {
    bytes: Vec<u8>,
    size_max: usize,
}

impl Output {
    pub(super) fn new(lua: &Lua) -> Result<Output, Wrong> {
        // The limit can only be read by setting another one.
        let memory_max = lua.set_memory_limit(0)?;
        lua.set_memory_limit(memory_max)?;
        let left = if memory_max == 0 { usize::MAX } else { memory_max.saturating_sub(lua.used_memory()) };
        Ok(Output { bytes: Vec::new(), size_max: left.min(OUTPUT_SIZE_MAX) })
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        if bytes.len() > self.size_max - self.bytes.len() {
            return Err(Wrong::bare(NO_MEMORY));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the bytes as a string.
    pub(super) fn finish(&mut self, lua: &Lua) -> Answer {
        one(Value::String(lua.create_string(std::mem::take(&mut self.bytes))?))
    }
}
