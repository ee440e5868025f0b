//! What HELP answers, for every command that groups others.

use wire::command::{Command, lookup, syntax};
use wire::reply::{self, Put};

use crate::request::Args;

/// The lines of a HELP, from the table; false if the command is none.
pub(crate) fn put(command: &Command, out: &mut impl Put) -> bool {
    let Some(container) = command.name.strip_suffix("|help").and_then(|name| lookup(name.as_bytes())) else {
        return false;
    };
    let name = container.name.to_ascii_uppercase();
    // COMMAND alone is a command, too.
    let alone = container.takes(1).then_some(container);
    reply::array(out, 1 + 2 * (alone.iter().len() + container.subcommands().len()));
    reply::simple(out, &format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for command in alone.into_iter().chain(container.subcommands()) {
        let arguments = syntax::parse(command.docs.syntax).expect("the lines of the table are whole");
        let sub = command
            .name
            .split_once('|')
            .map_or("(no subcommand)".to_owned(), |(_, sub)| sub.to_ascii_uppercase());
        reply::simple(out, format!("{sub} {}", syntax::shown(&arguments)).trim_end());
        reply::simple(out, &format!("    {}.", command.docs.summary));
    }
    true
}

/// What a subcommand in a shape that it does not have is told, its name as the client wrote it.
pub(crate) fn unknown_shape(container: &str, args: Args<'_>) -> Vec<u8> {
    let name = args.flat(1);
    let name = &name[..name.len().min(128)];
    let end = format!("'. Try {container} HELP.");
    [b"ERR unknown subcommand or wrong number of arguments for '", reply::quoted(name), end.as_bytes()]
        .concat()
}
