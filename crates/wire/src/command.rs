//! The table of commands: what exists, how it is called, which bytes are keys, and which lanes take part.
//!
//! One entry says everything about a command, and everything that needs to know asks here: arity checks, routing,
//! transactions, slicing, and COMMAND, which prints the table. The entries lie in one file per group, as in Redis'
//! documentation; arity, flags, keys and categories are Redis 7.0's (`COMMAND INFO`), scope, work and words are ours.
//!
//! A subcommand is an entry too, named `client|list`, behind its container `client`. What other dialects ask for has entries
//! too, which cannot be looked up by name.

mod entry;
mod id;
mod keys;
mod lookup;
pub mod print;
mod refusal;
pub mod syntax;

mod bitmap;
mod cluster;
mod connection;
mod document;
mod generic;
mod page;
mod pubsub;
mod record;
mod scripting;
mod server;
mod string;

pub use entry::{Category, Combine, Command, Docs, Flag, Group, Scope, Set, Work};
pub use id::Id;
pub use keys::{Begin, Find, KeyPositions, KeySpec, Positions, Range, Unknown, keys_of_migrate};
pub use lookup::lookup;
pub use refusal::{Refusal, resolve};

/// Every command and subcommand; [`Id`] is the index.
pub static COMMANDS: [Command; Id::COUNT] = entry::concat(&[
    connection::CONNECTION,
    connection::TRANSACTIONS,
    string::STRING,
    bitmap::BITMAP,
    generic::GENERIC,
    server::SERVER,
    scripting::SCRIPTING,
    pubsub::PUBSUB,
    cluster::CLUSTER,
    document::DOCUMENT,
    page::PAGE,
    record::RECORD,
]);

/// The commands and subcommands that clients of Redis may call: what COMMAND LIST lists.
pub fn all_commands() -> impl Iterator<Item = &'static Command> + Clone {
    COMMANDS.iter().filter(|command| !command.is_of_a_dialect())
}

/// Those without subcommands: what COMMAND COUNT counts.
pub fn commands() -> impl Iterator<Item = &'static Command> + Clone {
    all_commands().filter(|command| !command.is_subcommand())
}
