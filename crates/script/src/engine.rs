//! A lane's interpreter: its limits, and how runs begin in it.

use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Either, FromLuaMulti, Function, IntoLua, Lua, LuaOptions, StdLib, Table, Thread, Value, VmState};

use crate::convert::Names;
use crate::functions::{self, Registered};
use crate::run::{Run, Subject};
use crate::sandbox::{self, Built, Host};
use crate::{Library, Program, Sha};

/// Scripts, and libraries, that are kept loaded. With more all are forgotten, and loaded again when they run.
const LOADED_COUNT_MAX: usize = 1000;
/// Steps of the collector in one call of [`Engine::tidy`], of about two kilobytes each.
const TIDY_STEPS: u32 = 32;
/// Bytes that a run needs to begin with, at most, and each of its keys and arguments beside its own.
const RUN_SIZE: usize = 64 * 1024;
const ITEM_SIZE: usize = 64;
/// Longest item that is looked at whether it is text.
const TEXT_SIZE_MAX: usize = 256;
/// Fuel of the sandbox's own functions, which need a few interrupts.
const MAKING_FUEL: u32 = 100;
/// Bytes of new memory that count as one interrupt.
const FUEL_SIZE: usize = 1024;
/// Bytes of new memory for which the collector does a step, of about two kilobytes, once half of the memory is used.
const STEP_SIZE: usize = 1024;
/// Steps of the collector in one interrupt.
const STEPS_MAX: usize = 4096;

/// One lane's interpreter. Making one takes half a millisecond and 740 kilobytes, so that a lane makes it when it is first needed.
pub struct Engine {
    pub(crate) lua: Lua,
    pub(crate) names: Names,
    pub(crate) host: Rc<Host>,
    built: Built,
    loaded: BTreeMap<Sha, Loaded>,
    /// By their numbers.
    libraries: BTreeMap<u64, LoadedLibrary>,
    memory_size_max: usize,
    /// A run was given some of what it gets since the last look at garbage.
    has_added: bool,
}

struct Loaded {
    function: Function,
    /// Of its last run, for the next one.
    seat: Option<Seat>,
}

/// A library that is kept between the calls of its functions, with what these leave in its local variables. It may be forgotten at any time: the
/// next call loads it again.
struct LoadedLibrary {
    env: Rc<Table>,
    /// In the order of the library's functions.
    callbacks: Vec<Function>,
    /// Of the last call that has ended, for the next one.
    thread: Option<Thread>,
}

/// Where a run takes place. A run that has come to its end leaves it as it found it, since nothing but KEYS and ARGV can be changed by
/// a script, and those it takes with it; to make one is half of what a short script costs.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) thread: Thread,
    /// Where the thread is.
    pub(crate) address: usize,
    /// The globals, read-only.
    pub(crate) env: Rc<Table>,
    /// The script, which has these globals.
    pub(crate) function: Function,
}

impl Seat {
    fn new(thread: Thread, env: Rc<Table>, function: Function) -> Seat {
        Seat { address: thread.to_pointer().addr(), thread, env, function }
    }
}

/// A clock, in units of its own.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Reads it; cheap.
    pub read: fn() -> u64,
    /// How much a run may take until it is paused.
    pub slice: u64,
}

/// A run's keys and arguments.
pub(crate) type Lists = (Table, Table);

/// Bytes as a string of Lua.
struct Bytes<'a>(&'a [u8]);

impl IntoLua for Bytes<'_> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        lua.create_string(self.0).map(Value::String)
    }
}

/// Bytes as an element of a list. The binding has a shorter way for text than for other bytes.
fn element(bytes: &[u8]) -> Either<&str, Bytes<'_>> {
    let text = if bytes.len() <= TEXT_SIZE_MAX { str::from_utf8(bytes).ok() } else { None };
    text.map_or(Either::Right(Bytes(bytes)), Either::Left)
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("memory_size", &self.memory_size()).finish_non_exhaustive()
    }
}

impl Engine {
    /// An interpreter whose scripts may have so many bytes together, the sandbox's own included.
    pub fn new(memory_size_max: usize) -> Engine {
        const OURS: &str = "the sandbox is ours and there is memory for it";
        let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new()).expect(OURS);
        let host = Rc::new(Host::default());
        let built = sandbox::build(&lua, &host).expect(OURS);
        let names = Names::new(&lua).expect(OURS);
        lua.set_interrupt({
            let host = Rc::clone(&host);
            move |lua| interrupt(lua, &host)
        });
        let (loaded, libraries) = (BTreeMap::new(), BTreeMap::new());
        let mut engine =
            Engine { lua, names, host, built, loaded, libraries, memory_size_max, has_added: false };
        engine.set_memory_max(memory_size_max);
        engine
    }

    /// What a run's [`fuel`](Run::resume) does not say, because a library's function takes what it takes, this does: a run that has gone on for longer
    /// than `clock` has for a slice goes on in the next. Without a clock, as in a simulation, fuel is all there is.
    pub fn set_clock(&mut self, clock: Option<Clock>) {
        self.host.meter.set_clock(clock);
    }

    /// Changes the limit. Scripts under way that are beyond it fail at their next allocation.
    pub fn set_memory_max(&mut self, memory_size_max: usize) {
        self.memory_size_max = memory_size_max;
        self.host.meter.set_memory_max(memory_size_max);
        self.limit(memory_size_max.max(1));
    }

    /// Bytes that the interpreter has, garbage included.
    pub fn memory_size(&self) -> usize {
        self.lua.used_memory()
    }

    /// What the run that went on last has left of its fuel.
    pub fn fuel_left(&self) -> u32 {
        self.host.meter.fuel_left()
    }

    /// Begins a script with its KEYS and ARGV, once there is room ([`Engine::is_crowded`]). Nothing runs yet. `is_read_only` is kept for the caller ([`Run::is_read_only`]).
    ///
    /// # Errors
    /// The whole text, with its code, if there is no memory for it.
    pub fn begin(
        &mut self,
        program: &Program,
        is_read_only: bool,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Run, String> {
        let size = RUN_SIZE + program.size() * 4 + size_of_lists(keys, args);
        let (seat, lists) =
            self.try_twice(size, |engine| Ok((engine.take_seat(program)?, engine.lists(keys, args)?)))?;
        let subject = Subject::Script(*program.sha());
        Ok(Run::new(subject, is_read_only, seat, Some(lists), Rc::clone(&self.host)))
    }

    /// Begins the function of a library at `index` of its functions, as [`Engine::begin`] does a script. If the library is not loaded the
    /// run loads it first.
    ///
    /// # Errors
    /// As there.
    pub fn begin_function(
        &mut self,
        library: &Library,
        index: usize,
        is_read_only: bool,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Run, String> {
        let size = RUN_SIZE + library.size() * 4 + size_of_lists(keys, args);
        let ((seat, is_loaded), lists) = self.try_twice(size, |engine| {
            Ok((engine.take_library_seat(library, index)?, engine.lists(keys, args)?))
        })?;
        let subject = Subject::Function { library: library.clone(), index, is_loaded };
        Ok(Run::new(subject, is_read_only, seat, Some(lists), Rc::clone(&self.host)))
    }

    /// Begins to load a library, for nothing but what it registers.
    pub(crate) fn begin_load(&mut self, bytecode: &[u8]) -> Result<Run, String> {
        let size = RUN_SIZE + bytecode.len() * 4;
        let seat = self.try_twice(size, |engine| engine.make_library_seat(bytecode))?;
        Ok(Run::new(Subject::Load, true, seat, None, Rc::clone(&self.host)))
    }

    /// Does something that takes so many bytes, and if there is no memory for it once more, when what can be freed is free.
    fn try_twice<R>(
        &mut self,
        size: usize,
        mut f: impl FnMut(&mut Engine) -> mlua::Result<R>,
    ) -> Result<R, String> {
        self.roomily(size, &mut f).or_else(|_| {
            let text = self.out_of_memory();
            f(self).map_err(|_| text)
        })
    }

    /// Adds to the KEYS of a run that has not gone on yet, or to its ARGV: for those that are too many for one step.
    ///
    /// # Errors
    /// The whole text, with its code, if there is no memory for them.
    pub fn add(&mut self, run: &Run, are_keys: bool, items: &[&[u8]]) -> Result<(), String> {
        self.host.note_garbage();
        self.has_added = true;
        // None of it is garbage, and a list that has grown would be gone over again as a whole.
        self.lua.gc_stop();
        let size = items.iter().map(|item| item.len() + ITEM_SIZE).sum();
        let added = self.roomily(size, |engine| {
            let (keys, args) = run.lists().expect("a run gets all that it gets before it goes on");
            let table = if are_keys { keys } else { args };
            let count = table.raw_len();
            for (index, item) in items.iter().enumerate() {
                table.raw_set(count + index + 1, engine.lua.create_string(item)?)?;
            }
            Ok(())
        });
        self.lua.gc_restart();
        added.map_err(|_: mlua::Error| self.out_of_memory())
    }

    /// Does what needs no more than so many bytes. If there are far more the limit is lifted for it: with one, the binding guards each
    /// of its steps against a refusal, which makes a run's beginning twice as dear.
    pub(crate) fn roomily<R>(&mut self, size: usize, f: impl FnOnce(&mut Engine) -> R) -> R {
        let has_room = self.memory_size().saturating_add(size.saturating_mul(2)) < self.memory_size_max;
        if has_room {
            self.limit(0);
        }
        let result = f(self);
        if has_room {
            self.limit(self.memory_size_max.max(1));
        }
        result
    }

    /// Zero is none.
    fn limit(&self, size: usize) {
        self.lua.set_memory_limit(size).expect("the interpreter's memory is ours");
    }

    fn take_seat(&mut self, program: &Program) -> mlua::Result<Seat> {
        match self.loaded.get_mut(program.sha()).and_then(|loaded| loaded.seat.take()) {
            Some(seat) => Ok(seat),
            None => self.make_seat(program),
        }
    }

    fn make_seat(&mut self, program: &Program) -> mlua::Result<Seat> {
        let function = match self.loaded.get(program.sha()) {
            Some(loaded) => loaded.function.clone(),
            None => self.load(program)?,
        };
        let (env, run): (Table, Function) = self.call(&self.built.seat, program.is_given_lists())?;
        env.set_safeenv(true);
        let function = function.deep_clone()?;
        function.set_environment(env.clone())?;
        Ok(Seat::new(self.lua.create_thread(run)?, Rc::new(env), function))
    }

    /// A seat for a function, and whether its library is loaded already.
    fn take_library_seat(&mut self, library: &Library, index: usize) -> mlua::Result<(Seat, bool)> {
        let Some(loaded) = self.libraries.get_mut(&library.number()) else {
            return Ok((self.make_library_seat(library.bytecode())?, false));
        };
        let (env, function) = (loaded.env.clone(), loaded.callbacks[index].clone());
        let thread = match loaded.thread.take() {
            Some(thread) => thread,
            None => self.make_thread()?,
        };
        Ok((Seat::new(thread, env, function), true))
    }

    fn make_thread(&self) -> mlua::Result<Thread> {
        self.lua.create_thread(self.call(&self.built.runner, true)?)
    }

    /// What a function of the sandbox makes for those that are called with their lists, or for those that are not.
    fn call<R: FromLuaMulti>(&self, make: &Function, are_given_lists: bool) -> mlua::Result<R> {
        // No run's: the next one to go on gets its own.
        self.host.meter.start(MAKING_FUEL);
        make.call(are_given_lists)
    }

    /// Where a library is loaded. Its globals are empty until it is.
    fn make_library_seat(&self, bytecode: &[u8]) -> mlua::Result<Seat> {
        let function = self.chunk(bytecode, functions::CHUNK)?;
        let env = self.lua.create_table()?;
        env.set_metatable(Some(self.built.loading.clone()))?;
        env.set_readonly(true);
        function.set_environment(env.clone())?;
        Ok(Seat::new(self.make_thread()?, Rc::new(env), function))
    }

    /// A library has come to its end: its globals are those of scripts from now on, and it is kept for the calls to come. Gives the function at
    /// `index`; none if the library has registered others than before.
    pub(crate) fn settle(
        &mut self,
        library: &Library,
        index: usize,
        seat: &mut Seat,
        registered: Registered,
    ) -> Option<mlua::Result<()>> {
        let callbacks = registered.callbacks_of(library)?;
        seat.function = callbacks[index].clone();
        let env = Rc::clone(&seat.env);
        let opened = self.roomily(RUN_SIZE, |engine| {
            let globals = &engine.built.globals;
            env.set_readonly(false);
            globals.for_each(|name: Value, value: Value| env.raw_set(name, value))?;
            env.raw_set("_G", &*env)?;
            env.set_metatable(globals.metatable())?;
            env.set_readonly(true);
            env.set_safeenv(true);
            Ok(())
        });
        if opened.is_ok() {
            if self.libraries.len() >= LOADED_COUNT_MAX {
                self.libraries.clear();
            }
            // Another call may have loaded it meanwhile. Its functions have to see the same variables.
            let loaded = self.libraries.entry(library.number()).or_insert(LoadedLibrary {
                env,
                callbacks,
                thread: None,
            });
            (seat.env, seat.function) = (loaded.env.clone(), loaded.callbacks[index].clone());
        }
        Some(opened)
    }

    /// Forgets libraries that are not among these.
    pub fn keep_libraries(&mut self, are_kept: impl Fn(u64) -> bool) {
        self.libraries.retain(|number, _| are_kept(*number));
        self.host.note_garbage();
    }

    /// Keeps the thread of a function's run that has come to its end.
    pub(crate) fn keep_thread(&mut self, library: &Library, seat: Seat) {
        if let Some(loaded) = self.libraries.get_mut(&library.number()) {
            loaded.thread = Some(seat.thread);
        }
    }

    /// Keeps the seat of a run that has come to its end.
    pub(crate) fn keep(&mut self, sha: &Sha, seat: Seat) {
        if let Some(loaded) = self.loaded.get_mut(sha) {
            loaded.seat = Some(seat);
        }
    }

    fn load(&mut self, program: &Program) -> mlua::Result<Function> {
        let function = self.chunk(program.bytecode(), crate::program::CHUNK)?;
        if self.loaded.len() >= LOADED_COUNT_MAX {
            self.loaded.clear();
        }
        self.loaded.insert(*program.sha(), Loaded { function: function.clone(), seat: None });
        Ok(function)
    }

    /// Bytecode as a function, which errors call by this name.
    fn chunk(&self, bytecode: &[u8], name: &str) -> mlua::Result<Function> {
        self.lua
            .load(bytecode)
            .set_name(format!("={name}"))
            .set_mode(ChunkMode::Binary)
            .set_environment(self.built.globals.clone())
            .into_function()
    }

    fn lists(&self, keys: &[&[u8]], args: &[&[u8]]) -> mlua::Result<Lists> {
        let list = |items: &[&[u8]]| self.lua.create_sequence_from(items.iter().map(|item| element(item)));
        Ok((list(keys)?, list(args)?))
    }

    /// Whether more than half of the memory is used, some of which may be garbage: [`Engine::tidy`] has to come before the next run then,
    /// or that may lack what earlier ones have left.
    pub fn is_crowded(&self) -> bool {
        self.memory_size() > self.memory_size_max / 2 && self.host.may_have_garbage()
    }

    /// A bounded piece of collecting garbage, for when nothing runs, some tens of microseconds; false when there is nothing left to do. As
    /// long as a run is given its lists it waits.
    pub fn tidy(&mut self) -> bool {
        if std::mem::take(&mut self.has_added) {
            return true;
        }
        for _ in 0..TIDY_STEPS {
            if !self.host.may_have_garbage() {
                return false;
            }
            // It is done at a cycle's end. A failure would be for lack of memory, and more is not to be had here then.
            if self.lua.gc_step().unwrap_or(true) {
                self.host.note_cycle();
                if !self.host.may_have_garbage() {
                    self.forget_what_is_large();
                }
            }
        }
        self.host.may_have_garbage()
    }

    /// All garbage is collected. When more than half of the memory is used all the same, what functions have left in their libraries' variables
    /// may be the reason, and would have it collected in vain before each script.
    fn forget_what_is_large(&mut self) {
        if self.memory_size() > self.memory_size_max / 2 && !self.libraries.is_empty() {
            self.libraries.clear();
            self.host.note_garbage();
        }
    }

    /// What a script returns may have as many bytes as the interpreter.
    pub(crate) fn reply_size_max(&self) -> usize {
        self.memory_size_max
    }

    /// The error of a script that asked for more memory than there is. Frees what it can, so that others go on.
    pub(crate) fn out_of_memory(&mut self) -> String {
        let text = format!(
            "ERR Script ran out of memory: it and others of its lane have used {} bytes, script-memory-limit is {}",
            self.memory_size(),
            self.memory_size_max
        );
        self.loaded.clear();
        self.libraries.clear();
        // Once for the cycle under way, once for what it has missed.
        for _ in 0..2 {
            // A failure would be that of an allocation, of which a collection has none.
            let _ = self.lua.gc_collect();
        }
        text
    }
}

fn size_of_lists(keys: &[&[u8]], args: &[&[u8]]) -> usize {
    keys.iter().chain(args).map(|item| item.len() + ITEM_SIZE).sum()
}

/// What happens at each loop's turn, call and return.
fn interrupt(lua: &Lua, host: &Host) -> mlua::Result<VmState> {
    let meter = &host.meter;
    if meter.is_time_to_look() {
        let memory_size = lua.used_memory();
        let grown = meter.grown(memory_size);
        // What makes a megabyte at once takes its time, and the collector's.
        meter.charge(grown / FUEL_SIZE);
        if meter.is_tight(memory_size) {
            // The collector has its own pace, which does not know of the limit; and the interpreter doesn't call it where there is no
            // memory.
            collect(lua, (grown / STEP_SIZE).min(STEPS_MAX));
            meter.note_memory(lua.used_memory());
        }
        meter.charge_time();
    }
    meter.spend().map_err(mlua::Error::runtime)
}

/// So many steps of the collector, fewer if it is done before.
fn collect(lua: &Lua, steps: usize) {
    let mut cycles = 0;
    for _ in 0..steps {
        // A cycle that was under way misses what was made since it began; the one after it misses nothing.
        cycles += u32::from(lua.gc_step().unwrap_or(true));
        if cycles == 2 {
            return;
        }
    }
}
