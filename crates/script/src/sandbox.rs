//! What scripts find as globals, and what of it asks the host.
//!
//! The rest is `sandbox.luau`, which begins with how scripts and runs talk.

use std::cell::{Cell, RefCell, RefMut};
use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::rc::Rc;
use std::sync::LazyLock;

use mlua::chunk::{ChunkMode, Compiler};
use mlua::{Function, LightUserData, Lua, MultiValue, Table, Value, VmState};
use wire::Proto;

use crate::convert::{self, with_code};
use crate::engine::Clock;
use crate::functions::Registered;
use crate::random::Random;
use crate::{Flags, Sha, Words, functions, number, program};

/// Interrupts that a script may go on for in a place where it cannot be stopped (a metamethod, an error's handler, a pattern) once its
/// fuel is spent. Then it is ended: some tenths of a second.
pub(crate) const OVERRUN_MAX: u32 = 4_000_000;
/// Interrupts from one look at the memory to the next: few, as each may have made a string of a megabyte.
const LOOK_PERIOD: u32 = 4;
/// Fuel that a coroutine's resume gets back when it goes on, for what it spends itself: more of them inside each other than there is
/// fuel would otherwise never come to what is innermost.
const REFUND: u32 = 16;
/// Elements that a library's function moves, or bytes that it hashes, which count as one interrupt.
const MOVES_PER_FUEL: usize = 16;
/// Fuel of a coroutine that has been interrupted in such a place.
const OVERRUN_FUEL: u32 = 1000;

const OVERRUN: &str =
    "the script runs for too long in a metamethod, an error handler or a pattern, where it cannot be paused";

/// The sandbox, compiled: once, since that takes most of the time that making an interpreter takes. Compiling a script sees to it, so that no lane does.
/// Without line numbers the errors of what it calls do not begin with a place in the sandbox.
pub(crate) static BYTECODE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let compiler = Compiler::new().set_optimization_level(1).set_debug_level(0);
    compiler.compile(include_str!("sandbox.luau")).expect("the sandbox is ours")
});

/// What a script's thread yields first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `redis.call`
    Call = 1,
    /// `redis.pcall`
    Pcall,
    /// `redis.log`
    Log,
    /// It has ended: whether with a value, and it.
    Done,
    /// `coroutine.yield` of the script itself.
    User,
}

impl Mark {
    const ALL: [(&str, Mark); 5] = [
        ("CALL", Mark::Call),
        ("PCALL", Mark::Pcall),
        ("LOG", Mark::Log),
        ("DONE", Mark::Done),
        ("USER", Mark::User),
    ];

    /// No script can make such a value.
    fn value(self) -> Value {
        Value::LightUserData(LightUserData(without_provenance_mut::<c_void>(self as usize)))
    }

    /// The mark that this value is.
    pub(crate) fn of(value: &Value) -> Option<Mark> {
        let Value::LightUserData(LightUserData(address)) = value else { return None };
        Mark::ALL.iter().map(|(_, mark)| *mark).find(|mark| *mark as usize == address.addr())
    }
}

/// What is left to the script that runs now.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    fuel: Cell<u32>,
    overrun: Cell<u32>,
    is_doomed: Cell<bool>,
    /// From here on the collector is helped.
    memory_tight: Cell<usize>,
    /// Bytes that were used when somebody looked.
    memory_seen: Cell<usize>,
    clock: Cell<Option<Clock>>,
    /// What it said when the run went on.
    began: Cell<u64>,
}

impl Meter {
    pub(crate) fn start(&self, fuel: u32) {
        self.fuel.set(fuel);
        self.overrun.set(0);
        self.is_doomed.set(false);
        self.begin_time();
    }

    pub(crate) fn set_clock(&self, clock: Option<Clock>) {
        self.clock.set(clock);
    }

    fn begin_time(&self) {
        if let Some(clock) = self.clock.get() {
            self.began.set((clock.read)());
        }
    }

    /// Takes all fuel away when the time is over; not in a place where a script cannot be stopped, where fuel counts what it does.
    pub(crate) fn charge_time(&self) {
        if let Some(clock) = self.clock.get()
            && self.overrun.get() == 0
            && clock.slice < (clock.read)().wrapping_sub(self.began.get())
        {
            self.fuel.set(0);
        }
    }

    pub(crate) fn fuel_left(&self) -> u32 {
        self.fuel.get()
    }

    pub(crate) fn set_memory_max(&self, size: usize) {
        self.memory_tight.set(size / 2);
    }

    #[inline]
    pub(crate) fn is_time_to_look(&self) -> bool {
        self.fuel.get().is_multiple_of(LOOK_PERIOD)
    }

    pub(crate) fn is_tight(&self, memory_size: usize) -> bool {
        memory_size > self.memory_tight.get()
    }

    /// How many bytes more are used than the last time.
    pub(crate) fn grown(&self, memory_size: usize) -> usize {
        let seen = self.memory_seen.replace(memory_size);
        memory_size.saturating_sub(seen)
    }

    /// Takes so much fuel away.
    pub(crate) fn charge(&self, fuel: usize) {
        let fuel = u32::try_from(fuel).unwrap_or(u32::MAX);
        self.fuel.set(self.fuel.get().saturating_sub(fuel));
    }

    pub(crate) fn note_memory(&self, memory_size: usize) {
        self.memory_seen.set(memory_size);
    }

    /// One interrupt.
    #[inline]
    pub(crate) fn spend(&self) -> Result<VmState, &'static str> {
        let fuel = self.fuel.get();
        if fuel > 0 && !self.is_doomed.get() {
            self.fuel.set(fuel - 1);
            return Ok(VmState::Continue);
        }
        self.spend_more(1)
    }

    #[cold]
    fn spend_more(&self, count: u32) -> Result<VmState, &'static str> {
        let overrun = self.overrun.get().saturating_add(count);
        self.overrun.set(overrun);
        if overrun > OVERRUN_MAX {
            // It stays so, that no script catches the error and goes on.
            self.is_doomed.set(true);
        }
        if self.is_doomed.get() { Err(OVERRUN) } else { Ok(VmState::Yield) }
    }

    /// The text of an error that no script can catch.
    pub(crate) fn doom(&self) -> Option<&'static str> {
        self.is_doomed.get().then_some(OVERRUN)
    }
}

/// What functions of the sandbox have in common with the run that is going on.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) meter: Meter,
    cpu_ns: Cell<u64>,
    /// The address of the script's own thread, which is no coroutine to it.
    main: Cell<usize>,
    /// Cycles of the collector until there is certainly no garbage: one under way misses what was left since it began.
    cycles_left: Cell<u8>,
    talk: RefCell<Talk>,
}

/// The part that is used now and then.
#[derive(Debug)]
pub(crate) struct Talk {
    /// Where the sequence of all scripts is.
    pub(crate) random: Random,
    /// The run's own sequence, from when it has set a seed.
    pub(crate) seeded: Option<Random>,
    pub(crate) proto: Proto,
    /// The run's globals.
    pub(crate) env: Option<Rc<Table>>,
    /// What the library that is being loaded has registered.
    pub(crate) registered: Option<Registered>,
}

impl Default for Talk {
    fn default() -> Talk {
        Talk { random: Random::START, seeded: None, proto: Proto::Resp2, env: None, registered: None }
    }
}

impl Host {
    pub(crate) fn start(&self, fuel: u32, cpu_ns: u64, main: usize) {
        self.meter.start(fuel);
        self.cpu_ns.set(cpu_ns);
        self.main.set(main);
    }

    pub(crate) fn may_have_garbage(&self) -> bool {
        self.cycles_left.get() > 0
    }

    pub(crate) fn note_garbage(&self) {
        self.cycles_left.set(2);
    }

    pub(crate) fn note_cycle(&self) {
        self.cycles_left.set(self.cycles_left.get().saturating_sub(1));
    }

    pub(crate) fn talk(&self) -> RefMut<'_, Talk> {
        self.talk.borrow_mut()
    }
}

/// What the sandbox has for an engine.
pub(crate) struct Built {
    /// The globals, read-only.
    pub(crate) globals: Table,
    /// Makes a script's globals, and the function that its thread runs.
    pub(crate) seat: Function,
    /// Makes the function that a library's thread runs.
    pub(crate) runner: Function,
    /// What stands behind the globals of a library that is being loaded, which are empty.
    pub(crate) loading: Table,
}

/// Makes the globals.
pub(crate) fn build(lua: &Lua, host: &Rc<Host>) -> mlua::Result<Built> {
    let (globals, seat, runner, loading): (Table, _, _, _) = lua
        .load(BYTECODE.as_slice())
        .set_mode(ChunkMode::Binary)
        .set_name("=sandbox")
        .into_function()?
        .call(offered(lua, host)?)?;
    globals.set_readonly(true);
    globals.set_safeenv(true);
    // Here the interpreter looks for what a chunk asks for when it is loaded, so that `redis.call` is found at once when it runs. What is not here, as KEYS
    // and _G, is looked for each time.
    lua.set_globals(globals.clone())?;
    Ok(Built { globals, seat, runner, loading })
}

fn offered(lua: &Lua, host: &Rc<Host>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, mark) in Mark::ALL {
        table.raw_set(name, mark.value())?;
    }
    table.raw_set("CHUNK", program::CHUNK)?;
    table.raw_set("FUNCTION_CHUNK", functions::CHUNK)?;
    table.raw_set("redis", redis(lua, host)?)?;
    table.raw_set(
        "install",
        lua.create_function(|lua, globals: Table| crate::library::install(lua, &globals))?,
    )?;
    table.raw_set("explain", lua.create_function(|lua, error: Value| lua.create_string(explain(&error)))?)?;
    table.raw_set(
        "number",
        lua.create_function(|lua, value: f64| lua.create_string(number::display(value)))?,
    )?;
    let with = |f: fn(&Host, &Lua, MultiValue) -> mlua::Result<MultiValue>| {
        let host = Rc::clone(host);
        lua.create_function(move |lua, args: MultiValue| f(&host, lua, args))
    };
    table.raw_set(
        "go_on",
        with(|host, _, _| {
            host.meter.spend_more(OVERRUN_FUEL).map_err(mlua::Error::runtime)?;
            host.meter.fuel.set(OVERRUN_FUEL);
            Ok(MultiValue::new())
        })?,
    )?;
    table.raw_set(
        "charge",
        with(|host, _, args| {
            let count = args.front().and_then(convert::number).map_or(0, number::to_i64);
            host.meter.charge(usize::try_from(count).unwrap_or(0) / MOVES_PER_FUEL);
            Ok(MultiValue::new())
        })?,
    )?;
    table.raw_set(
        "refund",
        with(|host, _, _| {
            let fuel = &host.meter.fuel;
            fuel.set(fuel.get().saturating_add(REFUND));
            host.meter.begin_time();
            Ok(MultiValue::new())
        })?,
    )?;
    table.raw_set("find", with(find)?)?;
    table.raw_set(
        "is_main",
        with(|host, _, args| {
            let main = host.main.get();
            let is_main = matches!(args.front(), Some(Value::Thread(co)) if co.to_pointer().addr() == main);
            Ok(MultiValue::from_iter([Value::Boolean(is_main)]))
        })?,
    )?;
    table.raw_set(
        "clock",
        with(|host, _, _| {
            #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
            let seconds = host.cpu_ns.get() as f64 / 1e9;
            Ok(MultiValue::from_iter([Value::Number(seconds)]))
        })?,
    )?;
    table.raw_set(
        "chance",
        with(|host, _, _| {
            let mut talk = host.talk();
            let value = match &mut talk.seeded {
                Some(own) => own.next(),
                None => talk.random.next(),
            };
            Ok(MultiValue::from_iter([Value::Number(value)]))
        })?,
    )?;
    table.raw_set(
        "seed",
        with(|host, _, args| {
            let seed = args.front().and_then(convert::number).map_or(0, number::to_i64);
            // Its low 32 bits, as a cast of C has them.
            let [a, b, c, d, ..] = seed.to_le_bytes();
            host.talk().seeded = Some(Random::seeded(u32::from_le_bytes([a, b, c, d])));
            Ok(MultiValue::new())
        })?,
    )?;
    table.raw_set("load", with(load)?)?;
    table.raw_set("is_flag", with(is_flag)?)?;
    table.raw_set("is_loading", with(is_loading)?)?;
    table.raw_set("register", with(register)?)?;
    Ok(table)
}

/// Bytes that a plain search goes over at a time, and of them those that count as one interrupt.
const FIND_SIZE: usize = 64 * 1024;
const FIND_SIZE_PER_FUEL: usize = 1024;

/// Looks for a text in another, from a place on, a piece at a time: the place where it begins; or nil and, if there is more, the place where the
/// next piece begins.
fn find(host: &Host, _: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let mut args = args.into_iter();
    let (Some(Value::String(text)), Some(Value::String(wanted)), Some(at)) =
        (args.next(), args.next(), args.next())
    else {
        return Err(mlua::Error::runtime("two texts and a place are expected"));
    };
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let start = usize::try_from(integer(&at) - 1).unwrap_or(0).min(text.len());
    let end = text.len().min(start + FIND_SIZE.max(wanted.len()) + wanted.len());
    host.meter.charge((end - start) / FIND_SIZE_PER_FUEL);
    let place = |index: usize| Value::Number(index as f64 + 1.0);
    Ok(match memchr::memmem::find(&text[start..end], &wanted) {
        Some(found) => MultiValue::from_iter([place(start + found)]),
        None if end == text.len() => MultiValue::from_iter([Value::Nil]),
        None => MultiValue::from_iter([Value::Nil, place(end + 1 - wanted.len())]),
    })
}

/// Whether a text is a flag of a function.
fn is_flag(_: &Host, _: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let is_flag = matches!(args.front(), Some(Value::String(name)) if Flags::is_name(&name.as_bytes()));
    Ok(MultiValue::from_iter([Value::Boolean(is_flag)]))
}

/// Whether a library is being loaded.
fn is_loading(host: &Host, _: &Lua, _: MultiValue) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter([Value::Boolean(host.talk().registered.is_some())]))
}

/// Registers a function of the library that is being loaded: its name, itself, nil or what is said of it, nil or its flags. Returns why not.
fn register(host: &Host, lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let mut args = args.into_iter();
    let (name, callback, description, flags) = (args.next(), args.next(), args.next(), args.next());
    let mut talk = host.talk();
    let (Some(Value::Function(callback)), Some(registered)) = (callback, &mut talk.registered) else {
        return Err(mlua::Error::runtime("a function is expected"));
    };
    let text = |value: Option<Value>| value.as_ref().and_then(convert::text);
    let refused = registered.add(&text(name).unwrap_or_default(), callback, text(description), text(flags));
    let refusal = refused.err().map(|text| lua.create_string(text).map(Value::String)).transpose()?;
    Ok(MultiValue::from_iter(refusal))
}

/// Compiles a text for a script: a function, or nil and an error.
fn load(host: &Host, lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let mut args = args.into_iter();
    let (Some(Value::String(source)), name) = (args.next(), args.next()) else {
        return Err(mlua::Error::runtime("a text is expected"));
    };
    let source = source.as_bytes().to_vec();
    let fail =
        |text: String| Ok(MultiValue::from_iter([Value::Nil, Value::String(lua.create_string(text)?)]));
    let name = match name {
        Some(Value::String(name)) => name.as_bytes().to_vec(),
        _ => source.clone(),
    };
    // As much as errors show, and not what C would take for its end.
    let name: String = String::from_utf8_lossy(&name[..name.len().min(200)]).replace('\0', " ");
    if source.len() > program::LOAD_SIZE_MAX {
        return fail(format!("a text to load is longer than {} bytes", program::LOAD_SIZE_MAX));
    }
    host.meter.charge(source.len() * program::LOAD_FUEL);
    let shown = match name.strip_prefix(['=', '@']) {
        Some(plain) => plain.to_owned(),
        None => format!("[string \"{}\"]", name.lines().next().unwrap_or_default()),
    };
    let bytecode = match program::bytecode(&source) {
        Ok(bytecode) => bytecode,
        Err(text) => return fail(format!("{shown}{text}")),
    };
    let chunk = lua.load(bytecode).set_mode(ChunkMode::Binary).set_name(name);
    let env = host.talk().env.clone();
    let chunk = if let Some(env) = env { chunk.set_environment((*env).clone()) } else { chunk };
    Ok(MultiValue::from_iter([Value::Function(chunk.into_function()?)]))
}

/// Functions of `redis` that need no run. Each returns true and its value, or false and an error to raise.
fn redis(lua: &Lua, host: &Rc<Host>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add = |name: &str, f: fn(&Host, &Lua, &[Value]) -> mlua::Result<Outcome>| {
        let host = Rc::clone(host);
        let function = lua.create_function(move |lua, args: MultiValue| {
            let args = args.into_vec();
            let (ok, value) = match f(&host, lua, &args)? {
                Outcome::Value(value) => (true, value),
                Outcome::ErrorValue(text) => (true, error(lua, text.as_bytes())?),
                Outcome::Raise(text) => (false, error(lua, text.as_bytes())?),
            };
            Ok((ok, value))
        })?;
        table.raw_set(name, function)
    };
    add("setresp", |host, _, args| {
        let [version] = args else {
            return Ok(Outcome::Raise("redis.setresp() requires one argument."));
        };
        host.talk().proto = match integer(version) {
            2 => Proto::Resp2,
            3 => Proto::Resp3,
            _ => return Ok(Outcome::Raise("RESP version must be 2 or 3.")),
        };
        Ok(Outcome::Value(Value::Nil))
    })?;
    add("sha1hex", |host, lua, args| {
        let [value] = args else { return Ok(Outcome::Raise("wrong number of arguments")) };
        let text = convert::text(value).unwrap_or_default();
        host.meter.charge(text.len() / MOVES_PER_FUEL);
        Ok(Outcome::Value(Value::String(lua.create_string(Sha::of(&text).as_str())?)))
    })?;
    add("error_reply", |_, lua, args| {
        let [Value::String(text)] = args else { return Ok(Outcome::ErrorValue(WRONG_ARGUMENTS)) };
        let text = text.as_bytes();
        let text = text.strip_prefix(b"-").unwrap_or(&text);
        Ok(Outcome::Value(error_raw(lua, &with_code(text))?))
    })?;
    add("status_reply", |_, lua, args| {
        let [text @ Value::String(_)] = args else { return Ok(Outcome::ErrorValue(WRONG_ARGUMENTS)) };
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set("ok", text)?;
        Ok(Outcome::Value(Value::Table(table)))
    })?;
    add("set_repl", |_, _, args| {
        let [flags] = args else {
            return Ok(Outcome::Raise("redis.set_repl() requires two arguments."));
        };
        if integer(flags) & !3 != 0 {
            let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
            return Ok(Outcome::Raise(text));
        }
        Ok(Outcome::Value(Value::Nil))
    })?;
    // Whoever may run scripts may run all commands here: there is one user.
    add("acl_check_cmd", |_, _, args| {
        // Names are short; no more of the arguments is looked at.
        let words = match words(&args[..args.len().min(2)], NAMES_SIZE_MAX) {
            Ok(words) => words,
            Err(text) => return Ok(Outcome::Raise(text)),
        };
        let mut words = words.iter();
        let found = words.next().and_then(wire::command::lookup).is_some_and(|command| {
            !command.is_container() || words.next().is_some_and(|name| command.subcommand(name).is_some())
        });
        Ok(if found {
            Outcome::Value(Value::Boolean(true))
        } else {
            Outcome::Raise("Invalid command passed to redis.acl_check_cmd()")
        })
    })?;
    Ok(table)
}

/// Bytes of the names in redis.acl_check_cmd.
const NAMES_SIZE_MAX: usize = 1024;

const WRONG_ARGUMENTS: &str = "wrong number or type of arguments";

/// What a function of `redis` comes to.
enum Outcome {
    Value(Value),
    /// An error that is returned, as that of `redis.pcall` is.
    ErrorValue(&'static str),
    Raise(&'static str),
}

/// The words of a command, of so many bytes at most.
///
/// # Errors
/// The text, if there are none or too many, or if one is neither a string nor a number.
pub(crate) fn words(args: &[Value], size_max: usize) -> Result<Words, &'static str> {
    if args.is_empty() {
        return Err("Please specify at least one argument for this redis lib call");
    }
    let mut words = Words::with_room(args.len());
    for value in args {
        match (value, convert::number(value)) {
            (Value::String(text), _) => {
                let text = text.as_bytes();
                // One text may be there a thousand times, and is copied as often.
                if words.size() + text.len() > size_max {
                    return Err("the arguments of this call are larger than script-memory-limit");
                }
                words.push(&text);
            }
            (_, Some(value)) => words.push(&number::argument(value)),
            _ => return Err("Lua redis lib command arguments must be strings or integers"),
        }
    }
    Ok(words)
}

/// A number as C casts it to an integer; 0 for what is none.
pub(crate) fn integer(value: &Value) -> i64 {
    match value {
        Value::String(text) => {
            let text = text.to_string_lossy();
            text.trim().parse().map_or(0, number::to_i64)
        }
        other => convert::number(other).map_or(0, number::to_i64),
    }
}

fn error(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    error_raw(lua, &[b"ERR ", text].concat())
}

fn error_raw(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

/// The text of an error that came out of Rust, with the place in the script that the interpreter has noted.
pub(crate) fn explain(error: &Value) -> String {
    let Value::Error(error) = error else { return "an error that is no text".to_owned() };
    let mut place = None;
    let mut at: &mlua::Error = error;
    loop {
        match at {
            mlua::Error::CallbackError { traceback, cause } => {
                place = place.or_else(|| traceback.lines().find_map(place_of));
                at = cause;
            }
            mlua::Error::WithContext { cause, .. } => at = cause,
            mlua::Error::BadArgument { pos, to, cause, .. } => {
                let to = to.as_deref().unwrap_or("?");
                return format!("{}bad argument #{pos} to '{to}' ({cause})", place.unwrap_or_default());
            }
            mlua::Error::MemoryError(_) => return OUT_OF_MEMORY.to_owned(),
            mlua::Error::RuntimeError(text) => return format!("{}{text}", place.unwrap_or_default()),
            other => return format!("{}{other}", place.unwrap_or_default()),
        }
    }
}

/// `user_script:3: ` of a traceback's line.
fn place_of(line: &str) -> Option<String> {
    [program::CHUNK, functions::CHUNK].into_iter().find_map(|chunk| {
        let rest = line.trim_start().strip_prefix(chunk)?.strip_prefix(':')?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        (!digits.is_empty()).then(|| format!("{chunk}:{digits}: "))
    })
}

/// Luau's text where memory was refused.
pub(crate) const OUT_OF_MEMORY: &str = "not enough memory";
