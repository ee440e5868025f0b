//! What a lane knows of scripts: those that the control thread has told it, and an interpreter, made for the first that runs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use script::{Engine, Flags, Program, Sha};
use wire::command::{Command, Id, Scope};
use wire::number::parse_i64;

use crate::core::Core;
use crate::pubsub::publishes;
use crate::request::{Arg, Args};

/// What all lanes are told of scripts.
#[derive(Clone)]
pub(crate) enum ScriptOrder {
    /// To know this one from now on, and instead of it none of these.
    Know(Program, Vec<Sha>),
    /// To know none any more.
    Forget,
}

/// A script that the lane knows.
struct Known {
    program: Program,
    /// It has used keys that it had not declared: it gets all there are from the beginning.
    reaches_out: bool,
}

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Scripts {
    known: BTreeMap<Sha, Known>,
    engine: Option<Engine>,
    /// `script-memory-limit`, bytes.
    memory_size_max: usize,
    /// Bytes that scripts held when the last collection was over.
    clean_size: usize,
    /// One is under way.
    collects: bool,
}

/// Bytes that scripts may have left before they are collected for no other reason.
const GARBAGE_SIZE_MIN: usize = 1024 * 1024;

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
        }
    }

    pub(crate) fn get(&self, sha: &Sha) -> Option<&Program> {
        self.known.get(sha).map(|known| &known.program)
    }

    /// Whether the script of a command is known to use keys that it does not declare, or says so.
    pub(crate) fn reaches_out(&self, sha: &Sha, command: &Command, args: Args<'_>) -> bool {
        match self.known.get(sha) {
            Some(known) => known.reaches_out || known.program.flags().allow_undeclared_keys,
            None => declared(command, args).allow_undeclared_keys,
        }
    }

    /// A script has used a key that it had not declared.
    pub(crate) fn note_reach(&mut self, sha: &Sha) {
        if let Some(known) = self.known.get_mut(sha) {
            known.reaches_out = true;
        }
    }

    pub(crate) fn set_memory_max(&mut self, size: usize) {
        self.memory_size_max = size;
        if let Some(engine) = &mut self.engine {
            engine.set_memory_max(size);
        }
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
        self.engine.get_or_insert_with(|| Engine::new(self.memory_size_max))
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
        let worthwhile = self.clean_size + self.clean_size / 2 + GARBAGE_SIZE_MIN;
        if !self.collects && engine.memory_size() < worthwhile {
            return false;
        }
        self.collects = engine.tidy();
        if !self.collects {
            self.clean_size = engine.memory_size();
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
        let program = || named(command, args).and_then(|sha| self.space.scripts.get(&sha));
        let only_reads = || match command.id {
            Id::Evalsha => program().is_some_and(|program| program.flags().no_writes),
            _ => declared(command, args).no_writes,
        };
        !is_read_only(command) && !only_reads()
    }
}

/// Whether the script of a command may not write.
pub(crate) fn is_read_only(command: &Command) -> bool {
    matches!(command.id, Id::EvalRo | Id::EvalshaRo)
}

/// What a script says of itself that comes with its command.
fn declared(command: &Command, args: Args<'_>) -> Flags {
    match command.id {
        Id::Eval | Id::EvalRo => Flags::of(&bytes_of(args.get(1))),
        _ => Flags::default(),
    }
}

/// Which script a command names; none if it is no digest of one.
pub(crate) fn named(command: &Command, args: Args<'_>) -> Option<Sha> {
    match command.id {
        Id::Eval | Id::EvalRo => Some(Sha::of(&bytes_of(args.get(1)))),
        _ => Sha::parse(args.flat(1)),
    }
}

/// Which of a script's arguments are keys (`evalGenericCommand` of Redis).
///
/// # Errors
/// What Redis says of a number that is wrong.
pub(crate) fn keys_of(args: Args<'_>) -> Result<Range<usize>, &'static str> {
    let count = parse_i64(args.flat(2)).ok_or("ERR value is not an integer or out of range")?;
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
