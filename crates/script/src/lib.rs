//! Programs in Lua that clients send, run in bounded steps.
//!
//! EVAL's language as Redis 7.0.15 has it (`src/script_lua.c`, `src/eval.c`): a [`Program`] is a script that has been compiled, a [`Library`] one of
//! functions, an [`Engine`] a lane's interpreter, a [`Run`] a script under way. A run never waits and never does anything by itself: it goes on
//! for as long as its caller allows and says in a [`Step`] what it needs next, most of all a command and its reply. So a lane
//! serves others between two steps, and ends a script by dropping its run.
//!
//! Kept out: which commands a script may call, and what they do; the table of scripts by their names; lanes, sockets, the clock and
//! chance (`os.clock` and `math.random` are arguments).
//!
//! The interpreter is Luau. What differs from the Lua 5.1 of Redis is listed in `docs/scripts.md`; most of all, a number that is
//! joined to a string by `..` is written with as many digits as it takes to read it back, where Lua 5.1 writes 14 (`tostring` is
//! our own and writes 14).
//!
//! | module | subject |
//! |---|---|
//! | `sha` | names of scripts |
//! | `program` | from source to bytecode, and the first line's flags |
//! | `functions` | libraries of functions, which are loaded once and called often |
//! | `portable` | whether a server of Redis can load a library |
//! | `engine` | the interpreter, its limits, and what scripts get from the host |
//! | `run` | a script under way |
//! | `answer` | a command's reply to a value of Lua |
//! | `convert`, `returned` | and back |
//! | `sandbox` | what scripts find as globals |
//! | `number` | numbers as Lua 5.1 prints them |
//! | `random` | `math.random`'s sequence |

#![forbid(unsafe_code)]

mod answer;
mod convert;
mod engine;
mod functions;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub(crate) mod library;
mod number;
mod portable;
mod program;
mod random;
mod returned;
mod run;
mod sandbox;
mod sha;
mod words;

pub use answer::Answer;
pub use engine::{Clock, Engine};
pub use functions::{Function, Header, Library};
pub use program::{Flags, Program, SOURCE_SIZE_MAX};
pub use returned::{Part, Returned};
pub use run::{Run, Step};
pub use sha::Sha;
pub use words::Words;
