//! Whether a user may do what a command says (`ACLCheckAllUserCommandPerm` of Redis' acl.c).
//!
//! Selectors are asked one after the other, and the first that allows all of it is enough. Of those that don't, the one that came
//! furthest says what is denied. A command may name a million keys, so this goes on in slices where it is long.

use store::Budget;
use wire::command::{Command, Id, Positions, Scope, print};
use wire::glob::{self, Case};

use super::rules::{Selector, User};
use crate::SLICE;
use crate::admin::Portrait;
use crate::part::NAMES_PER_STEP;
use crate::request::Args;

/// Patterns that cost as much as a key.
const PATTERNS_PER_ELEMENT: usize = 16;

/// What a user may not, and where in the command it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    Command,
    Key(usize),
    Channel(usize),
}

impl Denied {
    /// What a client is told of its command.
    pub(crate) fn text(self, command: &Command) -> String {
        match self {
            Denied::Command => {
                format!("NOPERM this user has no permissions to run the '{}' command", command.name)
            }
            Denied::Key(_) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            Denied::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments"
                    .to_owned()
            }
        }
    }

    /// What stands in the place of a reply of EXEC: the command was allowed when it was queued.
    pub(crate) fn text_in_exec(self) -> String {
        let why = match self {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {why}"
        )
    }

    /// What a script is told.
    pub(crate) fn text_in_script(self) -> &'static str {
        match self {
            Denied::Command => "ERR The user executing the script can't run this command or subcommand",
            Denied::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Denied::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        }
    }

    /// What ACL DRYRUN says.
    pub(crate) fn text_of_trial(self, command: &Command, args: Args<'_>) -> Vec<u8> {
        let (index, what) = match self {
            Denied::Command => {
                return format!("This user has no permissions to run the '{}' command", command.name)
                    .into_bytes();
            }
            Denied::Key(index) => (index, &b"' key"[..]),
            Denied::Channel(index) => (index, &b"' channel"[..]),
        };
        let object = wire::reply::quoted(args.flat(index));
        [b"This user has no permissions to access the '", object, what].concat()
    }
}

/// Where something was denied, as ACL LOG tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Toplevel,
    Multi,
    Lua,
}

impl Context {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// Something that was denied, for the control thread's log.
pub(crate) struct Denial {
    /// `command`, `key`, `channel` or `auth`.
    pub(crate) reason: &'static str,
    pub(crate) context: Context,
    /// The command, the key or the channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) from: Portrait,
}

impl Denial {
    pub(crate) fn new(
        denied: Denied,
        context: Context,
        user: &User,
        command: &Command,
        args: Args<'_>,
        from: Portrait,
    ) -> Denial {
        let (reason, object) = match denied {
            Denied::Command => ("command", command.name.as_bytes()),
            Denied::Key(index) => ("key", args.flat(index)),
            Denied::Channel(index) => ("channel", args.flat(index)),
        };
        Denial { reason, context, object: object.to_vec(), user: user.name().to_vec(), from }
    }

    /// Somebody has not known a user's password. The name is the argument `at`; with the command's own name there it is the default
    /// user.
    pub(crate) fn of_login(context: Context, at: usize, args: Args<'_>, from: Portrait) -> Denial {
        let user = if at == 0 { b"default" } else { args.flat(at) };
        Denial { reason: "auth", context, object: args.flat(0).to_vec(), user: user.to_vec(), from }
    }
}

/// Whether a client's user may do what a short command says, or whether what is short of a long one: the rest of that is looked at in
/// slices, see [`is_vetted_later`].
pub(crate) fn vet(user: &User, command: &Command, args: Args<'_>) -> Result<(), Denied> {
    if !is_vetted_later(command, args.len()) {
        return vet_all(user, command, args);
    }
    Vetting::default().go_on(user, command, args, &mut SLICE.clone()).unwrap_or(Ok(()))
}

/// The same however long the command is.
pub(crate) fn vet_all(user: &User, command: &Command, args: Args<'_>) -> Result<(), Denied> {
    let mut vetting = Vetting::default();
    loop {
        let mut budget = Budget::new(u32::MAX, u32::MAX);
        if let Some(verdict) = vetting.go_on(user, command, args, &mut budget) {
            return verdict;
        }
    }
}

/// Whether a command is looked at by what carries it out, before it begins: a transaction, or a subscription of many names.
pub(crate) fn is_vetted_later(command: &Command, count: usize) -> bool {
    let may_be_long = matches!(command.scope, Scope::Keys(_) | Scope::Script | Scope::Pubsub);
    // What watches is bounded, and nothing is done in slices but that.
    count > NAMES_PER_STEP && may_be_long && command.id != Id::Watch
}

/// How far a look at a command has come.
#[derive(Default)]
pub(crate) struct Vetting {
    selector: usize,
    /// Of the selector at hand: the key specification, what of it is left, and the channel to look at.
    spec: usize,
    positions: Option<Positions>,
    channel: usize,
    /// What the selectors before have denied.
    denied: Option<Denied>,
}

impl Vetting {
    /// Goes on as far as the budget goes; none while there is more to look at. Arguments and user are the same in all calls.
    pub(crate) fn go_on(
        &mut self,
        user: &User,
        command: &Command,
        args: Args<'_>,
        budget: &mut Budget,
    ) -> Option<Result<(), Denied>> {
        while let Some(selector) = user.selectors().get(self.selector) {
            match self.ask(selector, command, args, budget)? {
                Ok(()) => return Some(Ok(())),
                Err(denied) => self.denied = self.denied.max(Some(denied)),
            }
            *self = Vetting { selector: self.selector + 1, denied: self.denied, ..Vetting::default() };
        }
        Some(Err(self.denied.unwrap_or(Denied::Command)))
    }

    /// The same with one selector.
    fn ask(
        &mut self,
        selector: &Selector,
        command: &Command,
        args: Args<'_>,
        budget: &mut Budget,
    ) -> Option<Result<(), Denied>> {
        let first = (args.len() > 1).then(|| args.flat(1));
        if !selector.allows(command, first) {
            return Some(Err(Denied::Command));
        }
        if !selector.has_all_keys {
            while let Some(spec) = command.key_specs.get(self.spec) {
                let positions = match &mut self.positions {
                    Some(positions) => positions,
                    none => match spec.positions_among(args.len(), |index| args.flat(index)) {
                        Ok(positions) if spec.names_keys() => none.insert(positions),
                        // What only the command itself would know may be any key.
                        Err(_) if !spec.is_known() => return Some(Err(Denied::Key(1))),
                        // A call that is wrong names none, and is refused by whoever carries it out.
                        _ => {
                            self.spec += 1;
                            continue;
                        }
                    },
                };
                let flags = key_flags(command, args, spec.flags);
                let (reads, writes) = wants(flags);
                for index in positions {
                    let mut looks = 0;
                    if !may_touch(selector, args.flat(index), reads, writes, &mut looks) {
                        return Some(Err(Denied::Key(index)));
                    }
                    budget.spend(1 + selector.keys.len() / PATTERNS_PER_ELEMENT, looks);
                    if budget.is_spent() {
                        return None;
                    }
                }
                (self.spec, self.positions) = (self.spec + 1, None);
            }
        }
        if !selector.has_all_channels
            && let Some((is_pattern, last)) = channels_of(command, args.len())
        {
            self.channel = self.channel.max(1);
            while self.channel <= last {
                let mut looks = 0;
                if !may_hear(&selector.channels, args.flat(self.channel), is_pattern, &mut looks) {
                    return Some(Err(Denied::Channel(self.channel)));
                }
                self.channel += 1;
                budget.spend(1 + selector.channels.len() / PATTERNS_PER_ELEMENT, looks);
                if budget.is_spent() && self.channel <= last {
                    return None;
                }
            }
        }
        Some(Ok(()))
    }
}

/// What a command does with its keys. Where that depends on other arguments, a long one is not looked through: it may do both.
fn key_flags(command: &Command, args: Args<'_>, flags: &'static str) -> &'static str {
    if args.len() > NAMES_PER_STEP && flags.contains("variable_flags") {
        return "RW access update";
    }
    print::key_flags(command, args.len(), |index| args.flat(index), flags)
}

/// Whether a command reads its keys and whether it changes them, from the words of their specification.
fn wants(flags: &str) -> (bool, bool) {
    flags.split(' ').fold((false, false), |(reads, writes), word| {
        (reads || word == "access", writes || matches!(word, "insert" | "delete" | "update"))
    })
}

/// Whether a key may be read and changed. What that took is added to `looks`, in bytes.
fn may_touch(selector: &Selector, key: &[u8], reads: bool, writes: bool, looks: &mut usize) -> bool {
    let mut fitting = selector.keys.iter().filter(|it| (it.reads || !reads) && (it.writes || !writes));
    fitting.any(|it| matches(&it.pattern, key, looks))
}

/// Whether patterns allow a channel; what is itself a pattern has to be one of them. What that took is added to `looks`, in bytes.
pub(super) fn may_hear(patterns: &[Box<[u8]>], name: &[u8], is_pattern: bool, looks: &mut usize) -> bool {
    match is_pattern {
        true => patterns.iter().any(|pattern| **pattern == *name),
        false => patterns.iter().any(|pattern| matches(pattern, name, looks)),
    }
}

fn matches(pattern: &[u8], text: &[u8], looks: &mut usize) -> bool {
    let (fits, cost) = glob::matches_at_cost(pattern, text, Case::Exact);
    *looks = looks.saturating_add(cost);
    fits
}

/// The last of a command's arguments from the first one on that is a channel, and whether they are patterns. Ending a subscription needs
/// no permission.
fn channels_of(command: &Command, count: usize) -> Option<(bool, usize)> {
    match command.id {
        Id::Subscribe | Id::Ssubscribe => Some((false, count - 1)),
        Id::Psubscribe => Some((true, count - 1)),
        Id::Publish | Id::Spublish => Some((false, 1)),
        _ => None,
    }
}
