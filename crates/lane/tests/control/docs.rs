//! What the table tells people: HELP and COMMAND DOCS show it, and every form that it has is served.

use wire::command::syntax::{Argument, Kind, parse};
use wire::command::{Command, Id, all_commands, commands};

use crate::check;
use crate::world::World;

#[test]
fn help_is_the_table() {
    check(&[(
        "OBJECT help",
        "*11\r\n+OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n\
         +ENCODING key\r\n+    The form in which a value is stored.\r\n\
         +FREQ key\r\n+    How often a key is used, on a logarithmic scale.\r\n\
         +HELP\r\n+    Lists the subcommands.\r\n\
         +IDLETIME key\r\n+    Seconds since a key was used.\r\n\
         +REFCOUNT key\r\n+    How many times a value is referred to.\r\n",
    )]);
    let mut world = World::new(1);
    let client = world.connect();
    for container in commands().filter(|command| command.is_container()) {
        let name = container.name.to_uppercase();
        let help = world.ask(&client, &format!("{name} HELP"));
        // COMMAND alone is a command, too.
        let count = 1 + 2 * (container.subcommands().len() + usize::from(name == "COMMAND"));
        assert!(help.starts_with(&format!("*{count}\r\n+{name} <subcommand> ")), "{help}");
        assert_eq!(help.lines().count(), 1 + count, "{help}");
    }
}

#[test]
fn a_command_is_described_once() {
    let mut world = World::new(1);
    let client = world.connect();
    let want = world.ask(&client, "COMMAND DOCS get client|id");
    assert!(
        want.starts_with("*4\r\n$9\r\nclient|id\r\n*8\r\n") && want.contains("\r\n$3\r\nget\r\n*10\r\n"),
        "{want}"
    );
    assert_eq!(world.ask(&client, "COMMAND DOCS get nosuch client|id GET get"), want);
    assert_eq!(world.ask(&client, "COMMAND DOCS nosuch client|nosuch"), "*0\r\n");
    let all = world.ask(&client, "COMMAND DOCS");
    assert!(all.starts_with(&format!("*{}\r\n", 2 * commands().count())), "{all}");
    assert!(all.contains(want.split_once("get\r\n").unwrap().1), "{all}");
}

#[test]
fn command_info_takes_no_more_names_than_there_are_commands() {
    let mut world = World::new(1);
    let client = world.connect();
    let ask = |count| format!("COMMAND INFO {}", vec!["get"; count].join(" "));
    let reply = world.ask(&client, &ask(Id::COUNT));
    assert!(reply.starts_with(&format!("*{}\r\n*10\r\n", Id::COUNT)), "{reply}");
    let text = format!("-ERR too many names, at most {} are described in one call\r\n", Id::COUNT);
    // The first one may have more to come.
    let other = world.connect();
    assert_eq!(world.ask(&other, &ask(Id::COUNT + 1)), text);
}

/// Each name is looked up among all that there are.
#[test]
fn nobody_has_more_names_looked_up_than_there_are() {
    let mut world = World::new(1);
    let mut check = |command: &str, count_max: usize, want: &str, refusal: &str| {
        let ask = |count| format!("{command} {}", vec!["maxclients"; count].join(" "));
        // A reply that is long may have more to come.
        let client = world.connect();
        assert_eq!(world.ask(&client, &ask(count_max)), want);
        let refusal = format!("-ERR too many {refusal} in one call\r\n");
        assert_eq!(world.ask(&client, &ask(count_max + 1)), refusal);
    };
    let described = format!("names, at most {} are described", Id::COUNT);
    check("COMMAND DOCS", Id::COUNT, "*0\r\n", &described);
    let looked_up = format!("names, at most {} are looked up", Id::COUNT);
    check("LATENCY HISTOGRAM", Id::COUNT, "*0\r\n", &looked_up);
    let value = "*2\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n";
    check("CONFIG GET", 1024, value, "patterns, at most 1024 are looked up");
}

/// A word for an argument.
fn word(command: &Command, argument: &Argument<'_>) -> &'static str {
    match (command.name, argument.name.as_str(), argument.kind) {
        ("config|set", "parameter", _) => "hz",
        ("config|set", "value", _) => "10",
        ("command|getkeys" | "command|getkeysandflags", "command", _) => "mget",
        ("hello", "protover", _) => "3",
        ("client|kill", "username", _) => "default",
        (_, "encoding", _) => "i8",
        (_, "script", _) => "return",
        (_, "numkeys", _) => "0",
        (_, "category", _) => "read",
        (_, "source" | "key1", _) => "one",
        (_, "pattern", _) => "*",
        (_, "value", _) => "1",
        (_, _, Kind::Double) => "1.5",
        (_, _, Kind::Integer) => "1",
        (_, _, Kind::UnixTime) => "1900000000000",
        _ => "word",
    }
}

/// Calls of an argument, in words: each choice, with and without what is optional, and twice what may come again.
fn forms(command: &Command, argument: &Argument<'_>) -> Vec<String> {
    let mut forms = match argument.kind {
        Kind::PureToken => vec![String::new()],
        Kind::Block => forms_of_all(command, &argument.inside),
        Kind::OneOf => argument.inside.iter().flat_map(|choice| forms(command, choice)).collect(),
        _ => vec![word(command, argument).to_owned()],
    };
    let twice =
        |forms: &mut Vec<String>| forms.extend(forms.clone().iter().map(|form| format!("{form} {form}")));
    if argument.multiple && !argument.multiple_token {
        twice(&mut forms);
    }
    if let Some(token) = argument.token {
        forms.iter_mut().for_each(|form| *form = format!("{token} {form}").trim_end().to_owned());
    }
    if argument.multiple_token {
        twice(&mut forms);
    }
    forms
}

/// Each form of each argument, beside the first form of those that must be there.
fn forms_of_all(command: &Command, arguments: &[Argument<'_>]) -> Vec<String> {
    let first = |argument: &Argument<'_>| forms(command, argument).swap_remove(0);
    let mut calls = Vec::new();
    for place in 0..=arguments.len() {
        let own = arguments.get(place).map_or(vec![String::new()], |argument| forms(command, argument));
        for form in own {
            let words = arguments.iter().enumerate().filter_map(|(index, argument)| match argument {
                _ if index == place => Some(form.clone()),
                argument => (!argument.optional).then(|| first(argument)),
            });
            calls.push(words.collect::<Vec<_>>().join(" "));
        }
    }
    calls.sort();
    calls.dedup();
    calls
}

/// Forms that are refused for what they want, not for how they are written.
const REFUSED: [&str; 69] = [
    // They ask for tracking, or for a mode of it.
    "client caching NO",
    "client caching YES",
    "client tracking ON PREFIX word",
    "client tracking ON PREFIX word PREFIX word",
    // No password is set, no transaction, no such client, event or shutdown.
    "auth word",
    "auth word word",
    "client kill word",
    "hello 3 AUTH word word",
    "discard",
    "exec",
    "latency graph word",
    "shutdown ABORT",
    // Uses are not counted, DEBUG is not allowed, a setting is set once.
    "object freq word",
    "debug word",
    "debug word word",
    "debug word word word",
    "config set hz 10 hz 10",
    // No script of this digest is known, none runs, none can be debugged.
    "evalsha word 0",
    "evalsha word 0 word",
    "evalsha word 0 word word",
    "evalsha_ro word 0",
    "evalsha_ro word 0 word",
    "evalsha_ro word 0 word word",
    "script kill",
    "script debug YES",
    "script debug SYNC",
    // There is no such user, no file of users, and the word is no rule.
    "acl dryrun word word",
    "acl dryrun word word word",
    "acl dryrun word word word word",
    "acl load",
    "acl save",
    "acl setuser word word",
    "acl setuser word word word",
    // There are no functions, and the word is no library.
    "fcall word 0",
    "fcall word 0 word",
    "fcall word 0 word word",
    "fcall_ro word 0",
    "fcall_ro word 0 word",
    "fcall_ro word 0 word word",
    "function delete word",
    "function kill",
    "function load word",
    "function load REPLACE word",
    "function restore word",
    "function restore word FLUSH",
    "function restore word APPEND",
    "function restore word REPLACE",
    // There is nothing to write.
    "bgrewriteaof",
    "bgsave",
    "bgsave SCHEDULE",
    "save",
    "shutdown SAVE",
    // The other server says nothing, and a key stands where none may.
    "migrate word 1 word 1 1",
    "migrate word 1 word 1 1 AUTH word",
    "migrate word 1 word 1 1 AUTH2 word word",
    "migrate word 1 word 1 1 COPY",
    "migrate word 1 word 1 1 REPLACE",
    "migrate word 1 word 1 1 KEYS word",
    "migrate word 1 word 1 1 KEYS word word",
    // The key is there, and the word no payload.
    "restore word 1 word",
    "restore word 1 word REPLACE",
    "restore word 1 word ABSTTL",
    "restore word 1 word IDLETIME 1",
    "restore word 1 word FREQ 1",
    "restore-asking word 1 word",
    "restore-asking word 1 word REPLACE",
    "restore-asking word 1 word ABSTTL",
    "restore-asking word 1 word IDLETIME 1",
    "restore-asking word 1 word FREQ 1",
];

#[test]
fn every_form_that_is_told_is_served() {
    let (mut refused, mut seen) = (Vec::new(), 0);
    for command in all_commands().filter(|command| !command.is_container()) {
        for form in forms_of_all(command, &parse(command.docs.syntax).unwrap()) {
            let mut world = World::new(1);
            let client = world.connect();
            world.ask(&client, "SET word 1");
            let call = format!("{} {form}", command.name.replace('|', " "));
            let call = call.trim_end().to_owned();
            let reply = world.ask(&client, &call);
            if reply.starts_with('-') {
                match REFUSED.contains(&call.as_str()) {
                    true => seen += 1,
                    false => refused.push(format!("{call}: {reply}")),
                }
            }
        }
    }
    assert_eq!((refused, seen), (vec![], REFUSED.len()));
}

/// From a script, too, with its keys declared and not: it is answered as without one, or refused because scripts may not.
#[test]
fn every_form_that_is_told_may_stand_in_a_script() {
    let mut called = 0;
    for command in all_commands().filter(|command| !command.is_container()) {
        for form in forms_of_all(command, &parse(command.docs.syntax).unwrap()) {
            let call = format!("{} {form}", command.name.replace('|', " "));
            let words: Vec<&str> = call.trim_end().split(' ').collect();
            for declares in [true, false] {
                let mut world = World::new(2);
                let client = world.connect();
                world.ask(&client, "SET word 1");
                let keys = if declares { &["one", "word"][..] } else { &[] };
                let count = keys.len().to_string();
                let mut request = vec!["EVAL", "return redis.pcall(unpack(ARGV))", &count];
                request.extend(keys);
                request.extend(&words);
                let mut bytes = Vec::new();
                let request: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
                wire::client::command(&mut bytes, &request);
                client.write(&bytes);
                let mut reply = Vec::new();
                for _ in 0..30 {
                    world.round(1_000_000);
                    reply.extend(client.read_all());
                }
                let reply = String::from_utf8_lossy(&reply).into_owned();
                assert!(reply.ends_with("\r\n"), "{call}: {reply:?}");
                assert!(world.is_idle(), "{call}");
                assert_eq!(world.ask(&client, "PING"), "+PONG\r\n", "{call}");
                called += usize::from(!reply.contains("not allowed from script"));
            }
        }
    }
    assert!(called > 300, "{called}");
}
