//! From the words of a request to its entry, or the error that Redis answers.

use super::entry::{Command, Scope};
use super::id::Id;
use super::lookup::lookup;
use crate::reply::{self, Put, error_bytes};
use crate::resp::Args;

/// Most bytes of a client's words that an error quotes.
const QUOTE_SIZE_MAX: usize = 128;

/// Why a request is no call of a known command. Print it with [`Refusal::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No command has this name.
    UnknownCommand,
    /// The container has no such subcommand.
    UnknownSubcommand(&'static Command),
    /// Too few or too many arguments.
    WrongArity(&'static Command),
    /// More options than could mean anything.
    TooManyOptions(&'static Command),
}

/// Arguments of a command that takes options, at most. No such command has as many as ten that differ.
const OPTIONS_COUNT_MAX: usize = 64;

impl Command {
    /// Whether it may be called with so many arguments, its name included.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn check(&'static self, count: usize) -> Result<&'static Command, Refusal> {
        if !self.takes(count) {
            Err(Refusal::WrongArity(self))
        } else if self.has_too_many_options(count) {
            Err(Refusal::TooManyOptions(self))
        } else {
            Ok(self)
        }
    }

    /// Whether so many arguments are more than its options can be, however often each is said: they are looked at in one piece.
    #[inline]
    fn has_too_many_options(&self, count: usize) -> bool {
        OPTIONS_COUNT_MAX < count && self.takes_options()
    }

    /// Whether an argument may be long: a value, a message, a script. All that others take are names, numbers, patterns and settings; some
    /// say themselves what is too long.
    #[inline]
    pub fn takes_long_arguments(&self) -> bool {
        let has_values = matches!(self.scope, Scope::Key | Scope::Keys(_) | Scope::Script | Scope::Pubsub);
        has_values
            || self.is_of_a_dialect()
            || matches!(
                self.id,
                Id::Echo | Id::Ping | Id::ScriptLoad | Id::FunctionLoad | Id::FunctionRestore
            )
            || matches!(self.id, Id::Auth | Id::Migrate | Id::AclSetuser)
    }

    #[cold]
    fn takes_options(&self) -> bool {
        matches!(
            self.id,
            Id::Set
                | Id::Getex
                | Id::Expire
                | Id::Expireat
                | Id::Pexpire
                | Id::Pexpireat
                | Id::Copy
                | Id::Restore
                | Id::Scan
                | Id::Lcs
                | Id::MemoryUsage
                | Id::Hello
                | Id::Info
                | Id::Replconf
        )
    }
}

/// The entry that a request calls, subcommands included, its arity checked.
#[inline]
pub fn resolve(args: &Args<'_>) -> Result<&'static Command, Refusal> {
    let command = lookup(args.get(0)).ok_or(Refusal::UnknownCommand)?;
    let command = if command.is_container() && args.len() > 1 {
        command.subcommand(args.get(1)).ok_or(Refusal::UnknownSubcommand(command))?
    } else {
        command
    };
    command.check(args.len())
}

impl Refusal {
    /// The error line in Redis' words; `args` are the request's.
    pub fn put(self, args: &Args<'_>, out: &mut impl Put) {
        let mut text = Vec::with_capacity(2 * QUOTE_SIZE_MAX);
        match self {
            Refusal::UnknownCommand => {
                text.extend_from_slice(b"ERR unknown command '");
                text.extend_from_slice(quoted(args.get(0), QUOTE_SIZE_MAX));
                text.extend_from_slice(b"', with args beginning with: ");
                let start = text.len();
                for arg in args.iter().skip(1) {
                    let left = QUOTE_SIZE_MAX.saturating_sub(text.len() - start);
                    if left == 0 {
                        break;
                    }
                    text.push(b'\'');
                    text.extend_from_slice(quoted(arg, left));
                    text.extend_from_slice(b"' ");
                }
            }
            Refusal::UnknownSubcommand(container) => {
                text.extend_from_slice(b"ERR unknown subcommand '");
                text.extend_from_slice(quoted(args.get(1), QUOTE_SIZE_MAX));
                text.extend_from_slice(b"'. Try ");
                text.extend_from_slice(container.name.to_ascii_uppercase().as_bytes());
                text.extend_from_slice(b" HELP.");
            }
            Refusal::WrongArity(command) => {
                // An EXEC that is refused has ended its transaction all the same, and says so.
                text.extend_from_slice(match command.id {
                    Id::Exec => b"EXECABORT Transaction discarded because of: ",
                    _ => b"ERR ",
                });
                text.extend_from_slice(b"wrong number of arguments for '");
                text.extend_from_slice(command.name.as_bytes());
                text.extend_from_slice(b"' command");
            }
            Refusal::TooManyOptions(_) => text.extend_from_slice(b"ERR syntax error"),
        }
        error_bytes(out, &text);
    }
}

/// The first bytes of a word.
fn quoted(word: &[u8], size_max: usize) -> &[u8] {
    reply::quoted(&word[..word.len().min(size_max)])
}
