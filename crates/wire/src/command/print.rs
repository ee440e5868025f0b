//! The table as COMMAND prints it.

use super::entry::{Command, Flag};
use super::id::Id;
use super::keys::{Begin, Find, KeySpec};
use super::lookup::lookup;
use crate::reply::{self, Proto, Put};
use crate::resp::Args;

mod docs;

pub use docs::docs;

/// One element of COMMAND and COMMAND INFO: ten facts about a command, its subcommands inside.
pub fn info(out: &mut impl Put, proto: Proto, command: &Command) {
    let number = |out: &mut _, value: i8| reply::integer(out, i64::from(value));
    reply::array(out, 10);
    text(out, command.name);
    number(out, command.arity);
    statuses(out, proto, "", command.flags.iter().map(|flag| flag.name()));
    reply::integer(out, i64::from(command.keys.first));
    number(out, command.keys.last);
    reply::integer(out, i64::from(command.keys.step));
    statuses(out, proto, "@", command.categories.iter().map(|category| category.name()));
    reply::set(out, proto, command.tips.len());
    for tip in command.tips {
        text(out, tip);
    }
    reply::set(out, proto, command.key_specs.len());
    for spec in command.key_specs {
        key_spec(out, proto, spec);
    }
    // Redis prints an empty set, and an array if there are any.
    if command.is_container() {
        reply::array(out, command.subcommands().len());
    } else {
        reply::set(out, proto, 0);
    }
    for sub in command.subcommands() {
        info(out, proto, sub);
    }
}

/// COMMAND GETKEYS, and COMMAND GETKEYSANDFLAGS with `flags`: the keys of the call that `args` are, or Redis' error.
pub fn keys(out: &mut impl Put, proto: Proto, args: Args<'_>, flags: bool) {
    let Some(command) = called(&args) else {
        return reply::error(out, "ERR Invalid command specified");
    };
    if !command.key_specs.iter().any(KeySpec::names_keys) {
        return reply::error(out, "ERR The command has no key arguments");
    }
    if !command.takes(args.len()) {
        return reply::error(out, "ERR Invalid number of arguments specified for command");
    }
    let Ok(mut positions) = command.key_positions(args) else {
        return match command.flags.has(Flag::NoMandatoryKeys) {
            true => reply::array(out, 0),
            false => reply::error(out, "ERR Invalid arguments specified for command"),
        };
    };
    let count = positions.clone().count();
    reply::array(out, count);
    while let Some(index) = positions.next() {
        if flags {
            reply::array(out, 2);
        }
        reply::bulk(out, args.get(index));
        if flags {
            let flags = key_flags(command, args.len(), |index| args.get(index), positions.flags());
            statuses(out, proto, "", flags.split(' '));
        }
    }
}

/// What a command does with a key of a specification with these flags; it has `count` arguments, of which `get` knows each. Of two
/// commands the arguments matter: SET reads what was there if GET is among its options (`setGetKeys` in Redis' db.c), and BITFIELD
/// changes nothing if it only gets (`bitfieldGetKeys`).
pub fn key_flags<'a>(
    command: &Command,
    count: usize,
    get: impl Fn(usize) -> &'a [u8],
    flags: &'static str,
) -> &'static str {
    match command.id {
        Id::Set => {
            let reads = (3..count).any(|index| get(index).eq_ignore_ascii_case(b"get"));
            if reads { "RW access update" } else { "OW update" }
        }
        Id::Bitfield if only_gets(count, get) => "RO access",
        Id::Bitfield => "RW access update",
        _ => flags,
    }
}

/// Whether a call of BITFIELD changes nothing. One that is wrong may.
fn only_gets<'a>(count: usize, get: impl Fn(usize) -> &'a [u8]) -> bool {
    let mut index = 2;
    while index < count {
        let is = |name: &str| get(index).eq_ignore_ascii_case(name.as_bytes());
        let more = count - index - 1;
        index += match () {
            () if is("get") && more >= 2 => 3,
            () if is("overflow") && more >= 1 => 2,
            () => return false,
        };
    }
    true
}

fn called(args: &Args<'_>) -> Option<&'static Command> {
    let command = lookup(args.get(0))?;
    if command.is_container() && args.len() > 1 { command.subcommand(args.get(1)) } else { Some(command) }
}

fn text(out: &mut impl Put, text: &str) {
    reply::bulk(out, text.as_bytes());
}

/// A set of statuses.
fn statuses<'a>(out: &mut impl Put, proto: Proto, prefix: &str, names: impl Iterator<Item = &'a str>) {
    let names: Vec<_> = names.collect();
    reply::set(out, proto, names.len());
    for name in names {
        out.put(b"+");
        out.put(prefix.as_bytes());
        out.put(name.as_bytes());
        out.put(b"\r\n");
    }
}

fn key_spec(out: &mut impl Put, proto: Proto, spec: &KeySpec) {
    reply::map(out, proto, 3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        text(out, "notes");
        text(out, spec.notes);
    }
    text(out, "flags");
    statuses(out, proto, "", spec.flags.split(' '));
    text(out, "begin_search");
    match spec.begin {
        Begin::Index(index) => typed(out, proto, "index", &[("index", i64::from(index))]),
        Begin::Keyword(word, from) => {
            head(out, proto, "keyword", 2);
            text(out, "keyword");
            text(out, word);
            text(out, "startfrom");
            reply::integer(out, i64::from(from));
        }
        Begin::Unknown => typed(out, proto, "unknown", &[]),
    }
    text(out, "find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let facts =
                [("lastkey", i64::from(last)), ("keystep", i64::from(step)), ("limit", i64::from(limit))];
            typed(out, proto, "range", &facts);
        }
        Find::KeyNum { index, first, step } => {
            let facts = [("keynumidx", index), ("firstkey", first), ("keystep", step)];
            typed(out, proto, "keynum", &facts.map(|(name, value)| (name, i64::from(value))));
        }
        Find::Unknown => typed(out, proto, "unknown", &[]),
    }
}

/// `type` and `spec`, whose pairs are numbers.
fn typed(out: &mut impl Put, proto: Proto, kind: &str, facts: &[(&str, i64)]) {
    head(out, proto, kind, facts.len());
    for (name, value) in facts {
        text(out, name);
        reply::integer(out, *value);
    }
}

fn head(out: &mut impl Put, proto: Proto, kind: &str, facts: usize) {
    reply::map(out, proto, 2);
    text(out, "type");
    text(out, kind);
    text(out, "spec");
    reply::map(out, proto, facts);
}
