//! COMMAND DOCS: what people and their tools are told of a command.

use super::text;
use crate::command::Id;
use crate::command::entry::{Command, Docs};
use crate::command::keys::{Begin, KeySpec};
use crate::command::syntax::{self, Argument, Kind};
use crate::reply::{self, Proto, Put};

/// One pair of COMMAND DOCS: the name and a map. Arguments are described as by Redis 7.2 (`addReplyCommandDocs` in its server.c).
pub fn docs(out: &mut impl Put, proto: Proto, command: &Command) {
    let subcommands = command.subcommands();
    let Docs { since, deprecated, complexity, summary, history, .. } = *command.docs;
    let arguments = syntax::parse(command.docs.syntax).expect("the lines of the table are whole");
    let flag = match command.id {
        Id::Debug | Id::Replconf | Id::RestoreAsking => Some("syscmd"),
        _ => (!deprecated.is_empty()).then_some("deprecated"),
    };
    let more = [!history.is_empty(), !arguments.is_empty(), !subcommands.is_empty(), flag.is_some()];
    text(out, command.name);
    reply::map(out, proto, 4 + 2 * deprecated.len() + more.iter().filter(|is_there| **is_there).count());
    pair(out, "summary", summary);
    pair(out, "since", since);
    pair(out, "group", command.group.name());
    pair(out, "complexity", complexity);
    if let Some(flag) = flag {
        text(out, "doc_flags");
        super::statuses(out, proto, "", [flag].into_iter());
    }
    for (version, better) in deprecated {
        pair(out, "deprecated_since", version);
        pair(out, "replaced_by", better);
    }
    if !history.is_empty() {
        text(out, "history");
        reply::set(out, proto, history.len());
        for (version, change) in history {
            reply::array(out, 2);
            text(out, version);
            text(out, change);
        }
    }
    if !arguments.is_empty() {
        let mut page = Page { proto, command, place: if command.is_subcommand() { 2 } else { 1 } };
        page.arguments(out, &arguments, None);
    }
    if !subcommands.is_empty() {
        text(out, "subcommands");
        reply::map(out, proto, subcommands.len());
        for sub in subcommands {
            docs(out, proto, sub);
        }
    }
}

/// Where the printing of a command's arguments is.
struct Page<'a> {
    proto: Proto,
    command: &'a Command,
    /// Argument of the call at which the next one stands, up to the first option or token. No key stands behind those.
    place: u8,
}

impl Page<'_> {
    /// `arguments`, inside of something that came with the version `outer`.
    fn arguments(&mut self, out: &mut impl Put, arguments: &[Argument<'_>], outer: Option<&str>) {
        text(out, "arguments");
        reply::array(out, arguments.len());
        for argument in arguments {
            self.argument(out, argument, outer);
        }
    }

    fn argument(&mut self, out: &mut impl Put, argument: &Argument<'_>, outer: Option<&str>) {
        let holds_others = !argument.inside.is_empty();
        let key_spec = (argument.kind == Kind::Key).then(|| self.key_spec(argument.token));
        let since = since(self.command.docs, argument).filter(|since| outer != Some(since));
        let flags = [
            ("optional", argument.optional),
            ("multiple", argument.multiple),
            ("multiple_token", argument.multiple_token),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name);
        let has_flags = argument.optional || argument.multiple;
        let more = [key_spec.is_some(), argument.token.is_some(), since.is_some(), has_flags];
        reply::map(out, self.proto, 3 + more.iter().filter(|is_there| **is_there).count());
        pair(out, "name", &argument.name);
        pair(out, "type", argument.kind.name());
        if !holds_others {
            pair(out, "display_text", argument.shown.unwrap_or(&argument.name));
        }
        if let Some(index) = key_spec {
            text(out, "key_spec_index");
            reply::integer(out, index);
        }
        if let Some(token) = argument.token {
            pair(out, "token", token);
        }
        if let Some(since) = since {
            pair(out, "since", since);
        }
        if has_flags {
            text(out, "flags");
            super::statuses(out, self.proto, "", flags);
        }
        let next = self.place + 1;
        if holds_others {
            self.arguments(out, &argument.inside, since.or(outer));
        }
        // Of several choices one is there.
        if !holds_others || argument.kind == Kind::OneOf {
            self.place = next;
        }
    }

    /// Index of the specification of the key that stands at `place`: the one that begins with the word before it, or the last one
    /// that begins there or before.
    fn key_spec(&self, token: Option<&str>) -> i64 {
        let begins = |spec: &KeySpec| match spec.begin {
            Begin::Index(index) => index <= self.place,
            Begin::Keyword(word, _) => token == Some(word),
            Begin::Unknown => false,
        };
        let index = self.command.key_specs.iter().rposition(begins).expect("a key has a specification");
        i64::try_from(index).expect("specifications are few")
    }
}

/// The version that an argument came with, if the command is older: the first that names it. Of several that came together and
/// have a name, that is the name's.
fn since(docs: &Docs, argument: &Argument<'_>) -> Option<&'static str> {
    let word = format!("`{}`", argument.token.unwrap_or(&argument.name));
    let named = docs.history.iter().find(|(_, change)| change.contains(&word)).map(|(version, _)| *version);
    let mut inside = argument.inside.iter().map(|argument| since(docs, argument));
    named.or_else(|| inside.next()?.filter(|first| inside.all(|other| other == Some(*first))))
}

fn pair(out: &mut impl Put, name: &str, fact: &str) {
    text(out, name);
    text(out, fact);
}
