//! A lane's interpreter: its limits, and how runs begin in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, IntoLua, Lua, LuaOptions, StdLib, Table, Thread, Value, VmState};

use crate::convert::Names;
use crate::run::Run;
use crate::sandbox::{self, Host};
use crate::{Program, Sha};

/// Scripts that are kept loaded. With more all are forgotten, and loaded again when they run.
const LOADED_COUNT_MAX: usize = 1000;
/// Steps of the collector in one call of [`Engine::tidy`], of about two kilobytes each.
const TIDY_STEPS: u32 = 32;
/// Bytes that a run needs to begin with, at most, and each of its keys and arguments beside its own.
const RUN_SIZE: usize = 64 * 1024;
const ITEM_SIZE: usize = 64;
/// Bytes of new memory that count as one interrupt.
const FUEL_SIZE: usize = 1024;
/// Bytes of new memory for which the collector does a step, of about two kilobytes, once half of the memory is used.
const STEP_SIZE: usize = 1024;
/// Steps of the collector in one interrupt.
const STEPS_MAX: usize = 4096;

/// One lane's interpreter. Making one takes two milliseconds and 740 kilobytes, so that a lane makes it when it is first needed.
pub struct Engine {
    pub(crate) lua: Lua,
    pub(crate) names: Names,
    pub(crate) host: Arc<Host>,
    globals: Table,
    clone_table: Function,
    run: Function,
    loaded: BTreeMap<Sha, Loaded>,
    memory_size_max: usize,
}

struct Loaded {
    function: Function,
    /// Of its last run, for the next one.
    seat: Option<Seat>,
}

/// Where a run takes place. A run that has come to its end leaves it as it found it, since nothing but KEYS and ARGV can be changed by
/// a script; to make one is half of what a short script costs.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) thread: Thread,
    /// The globals, read-only.
    pub(crate) env: Table,
    /// The script, which has these globals.
    pub(crate) function: Function,
}

/// Bytes as a string of Lua.
struct Bytes<'a>(&'a [u8]);

impl IntoLua for Bytes<'_> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        lua.create_string(self.0).map(Value::String)
    }
}

impl Seat {
    fn set_lists(&self, names: &Names, keys: impl IntoLua, args: impl IntoLua) -> mlua::Result<()> {
        self.env.set_readonly(false);
        self.env.raw_set(&names.keys, keys)?;
        self.env.raw_set(&names.args, args)?;
        self.env.set_readonly(true);
        Ok(())
    }
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
        let host = Arc::new(Host::default());
        let (globals, run, clone_table) = sandbox::build(&lua, &host).expect(OURS);
        let names = Names::new(&lua).expect(OURS);
        lua.set_interrupt({
            let host = Arc::clone(&host);
            move |lua| interrupt(lua, &host)
        });
        let mut engine =
            Engine { lua, names, host, globals, clone_table, run, loaded: BTreeMap::new(), memory_size_max };
        engine.set_memory_max(memory_size_max);
        engine
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
        let items = keys.iter().chain(args);
        let size = RUN_SIZE + program.size() * 4 + items.map(|item| item.len() + ITEM_SIZE).sum::<usize>();
        let prepared = self.roomily(size, |engine| engine.prepare(program, keys, args)).or_else(|_| {
            let text = self.out_of_memory();
            // That has freed what there was to free.
            self.prepare(program, keys, args).map_err(|_| text)
        });
        Ok(Run::new(*program.sha(), is_read_only, prepared?, Arc::clone(&self.host)))
    }

    /// Adds to the KEYS of a run that has not gone on yet, or to its ARGV: for those that are too many for one step.
    ///
    /// # Errors
    /// The whole text, with its code, if there is no memory for them.
    pub fn add(&mut self, run: &Run, are_keys: bool, items: &[&[u8]]) -> Result<(), String> {
        self.host.note_garbage();
        let size = items.iter().map(|item| item.len() + ITEM_SIZE).sum();
        let added = self.roomily(size, |engine| {
            let name = if are_keys { &engine.names.keys } else { &engine.names.args };
            let table: Table = run.env().raw_get(name)?;
            let count = table.raw_len();
            for (index, item) in items.iter().enumerate() {
                table.raw_set(count + index + 1, engine.lua.create_string(item)?)?;
            }
            Ok(())
        });
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

    fn prepare(&mut self, program: &Program, keys: &[&[u8]], args: &[&[u8]]) -> mlua::Result<Seat> {
        let seat = match self.loaded.get_mut(program.sha()).and_then(|loaded| loaded.seat.take()) {
            Some(seat) => seat,
            None => self.make_seat(program)?,
        };
        seat.set_lists(&self.names, self.list(keys)?, self.list(args)?)?;
        Ok(seat)
    }

    fn make_seat(&mut self, program: &Program) -> mlua::Result<Seat> {
        let function = match self.loaded.get(program.sha()) {
            Some(loaded) => loaded.function.clone(),
            None => self.load(program)?,
        };
        let env: Table = self.clone_table.call(&self.globals)?;
        env.raw_set("_G", &env)?;
        env.set_readonly(true);
        env.set_safeenv(true);
        let function = function.deep_clone()?;
        function.set_environment(env.clone())?;
        let thread = self.lua.create_thread(self.run.clone())?;
        Ok(Seat { thread, env, function })
    }

    /// Keeps the seat of a run that has come to its end. Without memory for that it goes.
    pub(crate) fn keep(&mut self, sha: &Sha, seat: Seat) {
        let is_cleared = self.roomily(ITEM_SIZE, |engine| {
            let reset = seat.thread.reset(engine.run.clone());
            reset.and_then(|()| seat.set_lists(&engine.names, false, false)).is_ok()
        });
        if is_cleared && let Some(loaded) = self.loaded.get_mut(sha) {
            loaded.seat = Some(seat);
        }
    }

    fn load(&mut self, program: &Program) -> mlua::Result<Function> {
        let function = self
            .lua
            .load(program.bytecode())
            .set_name(format!("={}", crate::program::CHUNK))
            .set_mode(ChunkMode::Binary)
            .set_environment(self.globals.clone())
            .into_function()?;
        if self.loaded.len() >= LOADED_COUNT_MAX {
            self.loaded.clear();
        }
        self.loaded.insert(*program.sha(), Loaded { function: function.clone(), seat: None });
        Ok(function)
    }

    fn list(&self, items: &[&[u8]]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(items.iter().map(|item| Bytes(item)))
    }

    /// Whether more than half of the memory is used, some of which may be garbage: [`Engine::tidy`] has to come before the next run then,
    /// or that may lack what earlier ones have left.
    pub fn is_crowded(&self) -> bool {
        self.memory_size() > self.memory_size_max / 2 && self.host.may_have_garbage()
    }

    /// A bounded piece of collecting garbage, for when nothing runs, some tens of microseconds; false when there is nothing left to do.
    pub fn tidy(&mut self) -> bool {
        for _ in 0..TIDY_STEPS {
            if !self.host.may_have_garbage() {
                return false;
            }
            // It is done at a cycle's end. A failure would be for lack of memory, and more is not to be had here then.
            if self.lua.gc_step().unwrap_or(true) {
                self.host.note_cycle();
            }
        }
        self.host.may_have_garbage()
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
        // Once for the cycle under way, once for what it has missed.
        for _ in 0..2 {
            // A failure would be that of an allocation, of which a collection has none.
            let _ = self.lua.gc_collect();
        }
        text
    }
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
