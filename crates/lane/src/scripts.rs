//! What a lane knows of scripts and functions: those that the control thread has told it, and an interpreter, made for the first that runs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use script::{Answer, Clock, Engine, Flags, Library, Program, Returned, Run, Sha};
use wire::command::{Command, Id, Scope};
use wire::number::parse_i64;

use crate::core::Core;
use crate::functions::Functions;
use crate::pubsub::publishes;
use crate::request::{Arg, Args};
use crate::slab::{Handle, Slab};

/// What all lanes are told of scripts.
#[derive(Clone)]
pub(crate) enum ScriptOrder {
    /// To know this one from now on, and instead of it none of these.
    Know(Program, Vec<Sha>),
    /// To know none any more.
    Forget,
    /// That these are all functions from now on.
    Functions(Arc<Functions>),
}

/// What a command names that it wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Script(Sha),
    /// By its name in lower case.
    Function(Box<[u8]>),
}

/// What runs.
pub(crate) enum Code {
    Script(Program),
    /// The library's function at this index.
    Function(Library, usize),
}

impl Code {
    pub(crate) fn flags(&self) -> Flags {
        match self {
            Code::Script(program) => program.flags(),
            Code::Function(library, index) => library.functions()[*index].flags,
        }
    }

    /// As [`Engine::begin`].
    pub(crate) fn begin(
        &self,
        engine: &mut Engine,
        is_read_only: bool,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Run, String> {
        match self {
            Code::Script(program) => engine.begin(program, is_read_only, keys, args),
            Code::Function(library, index) => {
                engine.begin_function(library, *index, is_read_only, keys, args)
            }
        }
    }
}

/// A script that the lane knows.
struct Known {
    program: Program,
    /// It has used keys that it had not declared: it gets all there are from the beginning.
    reaches_out: bool,
}

/// A script under way, as far as it is the interpreter's, and so never leaves its lane.
pub(crate) struct Interpreted {
    pub(crate) run: Run,
    /// What its last call has come to.
    pub(crate) answer: Option<Answer>,
    /// What it returns, if that is a list.
    pub(crate) returned: Option<Returned>,
}

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Scripts {
    known: BTreeMap<Sha, Known>,
    functions: Arc<Functions>,
    /// Functions that have used keys that were not declared, by the number of their library and their index in it: they get all there are
    /// from the beginning.
    reaching: BTreeSet<(u64, usize)>,
    engine: Option<Engine>,
    under_way: Slab<Interpreted>,
    /// The text of the last EVAL, and its digest.
    hashed: Option<(Box<[u8]>, Sha)>,
    /// `script-memory-limit`, bytes.
    memory_size_max: usize,
    clock: Option<Clock>,
    /// Bytes that were held when the last collection was over at whose end no script was under way.
    clean_size: usize,
    /// Bytes at the end of one since then that ended beside scripts, whose own are among them.
    live_size: usize,
    /// One is under way.
    collects: bool,
}

const UNDER_WAY: &str = "a script is under way in its lane's interpreter until its transaction ends it";

/// Bytes that scripts may have left before they are collected for no other reason.
const GARBAGE_SIZE_MIN: usize = 1024 * 1024;

/// How long a script goes on in a slice, whatever it does.
const SLICE_US: u64 = 100;

/// Bytes of a text whose digest is remembered.
const HASHED_SIZE_MAX: usize = 64 * 1024;

impl Scripts {
    pub(crate) fn obey(&mut self, order: ScriptOrder) {
        match order {
            ScriptOrder::Know(program, instead) => {
                for sha in instead {
                    self.known.remove(&sha);
                }
                self.known.entry(*program.sha()).or_insert(Known { program, reaches_out: false });
            }
            ScriptOrder::Forget => self.known.clear(),
            ScriptOrder::Functions(functions) => {
                if let Some(engine) = &mut self.engine {
                    engine.keep_libraries(|number| functions.has_number(number));
                }
                self.reaching.retain(|(number, _)| functions.has_number(*number));
                self.functions = functions;
            }
        }
    }

    fn get(&self, sha: &Sha) -> Option<&Program> {
        self.known.get(sha).map(|known| &known.program)
    }

    /// What a command names; none if it is no digest of a script. The digest of EVAL's text takes its time only where another text came
    /// in between.
    pub(crate) fn named(&mut self, command: &Command, args: Args<'_>) -> Option<Named> {
        if !matches!(command.id, Id::Eval | Id::EvalRo) {
            return named(command, args);
        }
        if args.size() > self.memory_size_max {
            // It will be refused: its text is not worth looking at.
            return None;
        }
        let text = bytes_of(args.get(1));
        let known = self.hashed.as_ref().filter(|(hashed, _)| **hashed == *text);
        let sha = known.map_or_else(|| Sha::of(&text), |(_, sha)| *sha);
        if known.is_none() && text.len() <= HASHED_SIZE_MAX {
            self.hashed = Some((text.into(), sha));
        }
        Some(Named::Script(sha))
    }

    /// What is to run, if it is known.
    pub(crate) fn code(&self, named: &Named) -> Option<Code> {
        match named {
            Named::Script(sha) => self.get(sha).cloned().map(Code::Script),
            Named::Function(name) => {
                self.functions.find(name).map(|(library, index)| Code::Function(library.clone(), index))
            }
        }
    }

    /// What whoever wants to run something is told whose number of keys is wrong, for which [`keys_of`] has `text`.
    pub(crate) fn wrong_keys(&self, command: &Command, args: Args<'_>, text: &'static str) -> &'static str {
        match command.id {
            Id::Fcall | Id::FcallRo if self.functions.find(args.flat(1)).is_none() => NO_FUNCTION,
            Id::Fcall | Id::FcallRo if text == NOT_A_COUNT => "ERR Bad number of keys provided",
            Id::Evalsha | Id::EvalshaRo if Sha::parse(args.flat(1)).is_none() => NOSCRIPT,
            _ => text,
        }
    }

    /// Whether what a command wants to run is known to use keys that it does not declare, or says so.
    pub(crate) fn reaches_out(&self, named: &Named, command: &Command, args: Args<'_>) -> bool {
        match named {
            Named::Script(sha) => match self.known.get(sha) {
                Some(known) => known.reaches_out || known.program.flags().allow_undeclared_keys,
                None => declared(command, args).allow_undeclared_keys,
            },
            Named::Function(name) => {
                let reaches = |(library, index): (&Library, usize)| {
                    library.functions()[index].flags.allow_undeclared_keys
                        || self.reaching.contains(&(library.number(), index))
                };
                self.functions.find(name).is_some_and(reaches)
            }
        }
    }

    /// Something has used a key that it had not declared.
    pub(crate) fn note_reach(&mut self, named: &Named) {
        match named {
            Named::Script(sha) => {
                if let Some(known) = self.known.get_mut(sha) {
                    known.reaches_out = true;
                }
            }
            // It may be gone meanwhile: then there is nothing to remember.
            Named::Function(name) => {
                if let Some((library, index)) = self.functions.find(name) {
                    self.reaching.insert((library.number(), index));
                }
            }
        }
    }

    pub(crate) fn set_memory_max(&mut self, size: usize) {
        self.memory_size_max = size;
        if let Some(engine) = &mut self.engine {
            engine.set_memory_max(size);
        }
    }

    /// Before there are any. See [`crate::Settings::script_meter`].
    pub(crate) fn set_meter(&mut self, meter: Option<fn() -> u64>, per_us: u64) {
        self.clock = meter.map(|read| Clock { read, slice: SLICE_US * per_us });
    }

    /// Bytes that scripts may hold on this lane, all together.
    pub(crate) fn memory_size_max(&self) -> usize {
        self.memory_size_max
    }

    /// Bytes that they hold.
    pub(crate) fn memory_size(&self) -> usize {
        self.engine.as_ref().map_or(0, Engine::memory_size)
    }

    pub(crate) fn engine(&mut self) -> &mut Engine {
        self.engine.get_or_insert_with(|| {
            let mut engine = Engine::new(self.memory_size_max);
            engine.set_clock(self.clock);
            engine
        })
    }

    /// A script has begun.
    pub(crate) fn add(&mut self, run: Run) -> Handle<Interpreted> {
        self.under_way.insert(Interpreted { run, answer: None, returned: None })
    }

    pub(crate) fn get_under_way(&self, handle: Handle<Interpreted>) -> &Interpreted {
        self.under_way.get(handle).expect(UNDER_WAY)
    }

    /// A script, and the interpreter that it is in.
    pub(crate) fn interpret(&mut self, handle: Handle<Interpreted>) -> (&mut Interpreted, &mut Engine) {
        let engine = self.engine.as_mut().expect(UNDER_WAY);
        (self.under_way.get_mut(handle).expect(UNDER_WAY), engine)
    }

    /// It is over.
    pub(crate) fn remove(&mut self, handle: Handle<Interpreted>) {
        self.under_way.discard(handle);
    }

    /// A piece of collecting what the last ones have left, if the next may lack it; false when it may begin.
    pub(crate) fn make_room(&mut self) -> bool {
        let Some(engine) = self.engine.as_mut().filter(|engine| engine.is_crowded()) else { return false };
        engine.tidy();
        true
    }

    /// A piece of collecting what scripts have left, once it is worth a walk over all that there is; false when there is nothing to do.
    /// The interpreter collects by itself as it runs; this is for what is left when no other script comes.
    pub(crate) fn tend(&mut self) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let is_idle = self.under_way.is_empty();
        // What scripts held is garbage when they are over.
        let size = if is_idle { self.clean_size } else { self.clean_size.max(self.live_size) };
        let worthwhile = size + size / 2 + GARBAGE_SIZE_MIN;
        if !self.collects && engine.memory_size() < worthwhile {
            return false;
        }
        self.collects = engine.tidy();
        if !self.collects {
            let size = engine.memory_size();
            if is_idle {
                (self.clean_size, self.live_size) = (size, 0);
            } else {
                self.live_size = size;
            }
        }
        self.collects
    }
}

impl Core {
    /// Whether a command may write, for those who hold back what writes: a script may, unless it says that it doesn't.
    pub(crate) fn may_write(&self, command: &Command, args: Args<'_>) -> bool {
        if command.scope != Scope::Script {
            return command.writes() || publishes(command);
        }
        let code = || named(command, args).and_then(|named| self.space.scripts.code(&named));
        let only_reads = || match command.id {
            Id::Evalsha | Id::Fcall => code().is_some_and(|code| code.flags().no_writes),
            _ => declared(command, args).no_writes,
        };
        !is_read_only(command) && !only_reads()
    }
}

/// Whether the script of a command may not write.
pub(crate) fn is_read_only(command: &Command) -> bool {
    matches!(command.id, Id::EvalRo | Id::EvalshaRo | Id::FcallRo)
}

/// What a script says of itself that comes with its command.
fn declared(command: &Command, args: Args<'_>) -> Flags {
    match command.id {
        Id::Eval | Id::EvalRo => match args.get(1) {
            Arg::Flat(text) => Flags::of(text),
            // Its first line says it.
            Arg::Rope(text) => Flags::of(text.chunk(0).as_ref().as_ref()),
        },
        _ => Flags::default(),
    }
}

/// What a command names that is no EVAL: a function, or a script by its digest; none if that is no digest.
fn named(command: &Command, args: Args<'_>) -> Option<Named> {
    match command.id {
        Id::Fcall | Id::FcallRo => Some(Named::Function(args.flat(1).to_ascii_lowercase().into())),
        _ => Sha::parse(args.flat(1)).map(Named::Script),
    }
}

/// A script that is not known.
pub(crate) const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
/// A function that is not known.
pub(crate) const NO_FUNCTION: &str = "ERR Function not found";
const NOT_A_COUNT: &str = "ERR value is not an integer or out of range";

/// Which of a script's arguments are keys (`evalGenericCommand` of Redis).
///
/// # Errors
/// What Redis says of a number that is wrong.
pub(crate) fn keys_of(args: Args<'_>) -> Result<Range<usize>, &'static str> {
    let count = parse_i64(args.flat(2)).ok_or(NOT_A_COUNT)?;
    let most = args.len().saturating_sub(3);
    match usize::try_from(count) {
        Err(_) => Err("ERR Number of keys can't be negative"),
        Ok(count) if count > most => Err("ERR Number of keys can't be greater than number of args"),
        Ok(count) => Ok(3..3 + count),
    }
}

/// An argument in one piece, however long.
pub(crate) fn bytes_of(arg: Arg<'_>) -> Cow<'_, [u8]> {
    match arg {
        Arg::Flat(bytes) => Cow::Borrowed(bytes),
        Arg::Rope(rope) => {
            let mut bytes = vec![0; rope.len()];
            rope.copy_to(0, &mut bytes);
            Cow::Owned(bytes)
        }
    }
}
