//! The command table beside what Redis 7.0 says of the same commands: `vectors/command-info.txt`.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use wire::client::{Collector, Reply};
use wire::command::{
    self, Begin, COMMANDS, Combine, Command, Find, Id, KeySpec, Scope, Work, all_commands, lookup, print,
};
use wire::{ArgRanges, Proto, route};

fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut words: Vec<_> = words.collect();
    words.sort_unstable();
    words.join(" ")
}

/// One line of the vectors.
fn describe(command: &Command) -> String {
    let specs = command.key_specs.iter().map(|spec| match (spec.begin, spec.find) {
        (Begin::Index(index), Find::Range { last, step, limit }) => {
            format!("{} {index}:{last}:{step}:{limit}", spec.flags)
        }
        (Begin::Index(index), Find::KeyNum { index: at, first, step }) => {
            format!("{} {index} keynum {at}:{first}:{step}", spec.flags)
        }
        (Begin::Keyword(word, from), Find::Range { last, step, limit }) => {
            format!("{} {word} {from} {last}:{step}:{limit}", spec.flags)
        }
        other => panic!("not in the vectors: {other:?}"),
    });
    [
        command.name.to_owned(),
        command.arity.to_string(),
        words(command.flags.iter().map(|flag| flag.name())),
        format!("{} {} {}", command.keys.first, command.keys.last, command.keys.step),
        words(command.categories.iter().map(|category| category.name())),
        words(command.tips.iter().copied()),
        specs.collect::<Vec<_>>().join(", "),
    ]
    .join("; ")
}

#[test]
fn what_redis_knows_of_a_command_is_the_same_here() {
    let lines: Vec<_> =
        include_str!("vectors/command-info.txt").lines().filter(|line| !line.starts_with('#')).collect();
    // These came with Redis 7.2.
    let newer = [Id::ClientSetinfo, Id::ClientNoTouch];
    let ours: Vec<_> = all_commands().filter(|command| !newer.contains(&command.id)).map(describe).collect();
    for (ours, theirs) in ours.iter().zip(&lines) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), lines.len());
}

#[test]
fn entries_are_whole() {
    for (index, command) in COMMANDS.iter().enumerate() {
        assert_eq!(command.id as usize, index);
        let docs = command.docs;
        assert!(docs.summary.len() > 5 && !docs.complexity.is_empty(), "{} is described", command.name);
        assert!(docs.deprecated.len() <= 1, "{} is deprecated once", command.name);
        assert!(command.arity != 0, "{} takes its name at least", command.name);
        let one_key = command.keys.first > 0 && i16::from(command.keys.last) == i16::from(command.keys.first);
        match command.scope {
            Scope::Key => assert!(one_key, "{} has one key", command.name),
            Scope::Keys(_) if matches!(command.id, Id::Exec | Id::Unwatch) => {
                assert_eq!(command.keys.first, 0)
            }
            Scope::Keys(_) => {
                assert!(command.keys.first > 0 && !one_key, "{} has several keys", command.name)
            }
            // The control thread asks the lanes for them.
            Scope::Control if command.id == Id::Migrate => assert!(one_key),
            // Sharded channels stand where keys would.
            Scope::Pubsub => assert!(!command.key_specs.iter().any(KeySpec::names_keys)),
            _ => assert_eq!(command.keys.first, 0, "{} has no keys", command.name),
        }
        assert!(
            command.work != Work::Sliced || command.scope != Scope::Connection,
            "{} runs in one piece",
            command.name
        );
        if let Work::Unbounded(reason) = command.work {
            assert!(!reason.is_empty() && !command.writes(), "{} says why", command.name);
        }
        let family = command.subcommands();
        assert_eq!(command.is_container(), !family.is_empty());
        for sub in family {
            let name = sub.name.strip_prefix(command.name).and_then(|rest| rest.strip_prefix('|')).unwrap();
            assert_eq!(command.subcommand(name.to_ascii_uppercase().as_bytes()), Some(sub));
        }
    }
    assert_eq!(command::commands().filter(|command| command.is_container()).count(), 12);
    assert!(lookup(b"GeT").is_some_and(|get| get.subcommands().is_empty() && get.subcommand(b"x").is_none()));
}

#[test]
fn commands_of_one_key_that_are_sliced() {
    let is_sliced = |command: &&Command| command.scope == Scope::Key && command.work == Work::Sliced;
    let names: Vec<_> = command::commands().filter(is_sliced).map(|command| command.name).collect();
    let want = ["append", "setrange", "bitcount", "bitfield", "bitfield_ro", "bitpos"];
    assert_eq!(names, [&want[..], &["dump", "restore", "restore-asking"]].concat());
}

fn positions(line: &str) -> Option<Vec<usize>> {
    let mut args = ArgRanges::new();
    args.set(line.split(' ').map(str::as_bytes));
    let args = args.view(b"");
    let command = command::resolve(&args).unwrap();
    command.key_positions(args).ok().map(Iterator::collect)
}

#[test]
fn keys_stand_where_the_table_says() {
    for (line, want) in [
        ("GET k", &[1][..]),
        ("SET k v EX 10", &[1]),
        ("MGET a b c", &[1, 2, 3]),
        ("MSET a 1 b 2", &[1, 3]),
        ("MSET a 1 b", &[1, 3]),
        ("RENAME a b", &[1, 2]),
        ("COPY a b DB 2", &[1, 2]),
        ("LCS a b LEN", &[1, 2]),
        ("BITOP AND d a b", &[2, 3, 4]),
        ("BITOP NOT d a", &[2, 3]),
        ("OBJECT ENCODING k", &[2]),
        ("MEMORY USAGE k SAMPLES 0", &[2]),
        ("WATCH a b", &[1, 2]),
        ("EVAL s 2 a b c", &[3, 4]),
        ("EVALSHA s 0 a", &[]),
        ("MIGRATE h 1 k 0 9 COPY", &[3]),
        ("MIGRATE h 1 keys 0 9 AUTH keys", &[3]),
        ("MIGRATE h 1  0 9 AUTH keys KEYS a b", &[9, 10]),
        ("MIGRATE h 1  0 9 auth2 keys keys keys a", &[10]),
        ("PING", &[]),
        ("KEYS a*", &[]),
    ] {
        assert_eq!(positions(line).as_deref(), Some(want), "{line}");
    }
}

#[test]
fn lanes_that_take_part_follow_from_the_scope() {
    let scope = |name: &str| lookup(name.as_bytes()).unwrap().scope;
    assert_eq!(scope("get"), Scope::Key);
    assert_eq!(scope("mget"), Scope::Keys(Combine::InKeyOrder));
    assert_eq!(scope("del"), Scope::Keys(Combine::Sum));
    assert_eq!(scope("dbsize"), Scope::AllLanes(Combine::Sum));
    assert_eq!(scope("scan"), Scope::Partition);
    assert_eq!(scope("eval"), Scope::Script);
    assert_eq!(scope("info"), Scope::Control);
    assert_eq!(scope("ping"), Scope::Connection);
    assert!(route::Slot::new(route::SLOTS).is_none());
}

/// The same reply, sets in order.
fn sorted(reply: Reply) -> String {
    fn sort(reply: Reply) -> Reply {
        match reply {
            Reply::Set(items) => {
                let mut items: Vec<_> = items.into_iter().map(sort).collect();
                items.sort_by_key(|item| format!("{item:?}"));
                Reply::Set(items)
            }
            Reply::Array(items) => Reply::Array(items.into_iter().map(sort).collect()),
            other => other,
        }
    }
    format!("{:?}", sort(reply))
}

fn reply(bytes: &[u8]) -> Reply {
    Collector::default().next(bytes).unwrap().0.unwrap()
}

#[test]
fn command_info_is_printed_as_by_redis() {
    // Recorded from COMMAND INFO mset of Redis 7.0.15, in both protocols.
    let resp3 = b"*10\r\n$4\r\nmset\r\n:-3\r\n~2\r\n+write\r\n+denyoom\r\n:1\r\n:-1\r\n:2\r\n~3\r\n+@write\r\n+@string\r\n\
        +@slow\r\n~2\r\n$26\r\nrequest_policy:multi_shard\r\n$29\r\nresponse_policy:all_succeeded\r\n~1\r\n%3\r\n\
        $5\r\nflags\r\n~2\r\n+OW\r\n+update\r\n$12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n\
        %1\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n%3\r\n\
        $7\r\nlastkey\r\n:-1\r\n$7\r\nkeystep\r\n:2\r\n$5\r\nlimit\r\n:0\r\n~0\r\n";
    let resp2 = b"*10\r\n$4\r\nmset\r\n:-3\r\n*2\r\n+write\r\n+denyoom\r\n:1\r\n:-1\r\n:2\r\n*3\r\n+@write\r\n+@string\r\n\
        +@slow\r\n*2\r\n$26\r\nrequest_policy:multi_shard\r\n$29\r\nresponse_policy:all_succeeded\r\n*1\r\n*6\r\n\
        $5\r\nflags\r\n*2\r\n+OW\r\n+update\r\n$12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n\
        *2\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n*4\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n*6\r\n\
        $7\r\nlastkey\r\n:-1\r\n$7\r\nkeystep\r\n:2\r\n$5\r\nlimit\r\n:0\r\n*0\r\n";
    for (proto, want) in [(Proto::Resp2, &resp2[..]), (Proto::Resp3, resp3)] {
        let mut out = Vec::new();
        print::info(&mut out, proto, lookup(b"mset").unwrap());
        assert_eq!(sorted(reply(&out)), sorted(reply(want)));
    }
}

#[test]
fn every_entry_prints_as_one_reply() {
    for command in command::commands() {
        for proto in [Proto::Resp2, Proto::Resp3] {
            let mut out = Vec::new();
            print::info(&mut out, proto, command);
            assert_eq!(Collector::default().next(&out).unwrap().1, out.len(), "{}", command.name);
            let mut out = b"%1\r\n".to_vec();
            print::docs(&mut out, proto, command);
            let size = out.len();
            assert_eq!(Collector::default().next(&out).unwrap().1, size, "{}", command.name);
        }
    }
}

#[test]
fn keys_of_a_call_are_printed_as_by_redis() {
    for (line, flags, want) in [
        ("MSET a 1 b 2", false, "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("mset a 1", true, "*1\r\n*2\r\n$1\r\na\r\n~2\r\n+OW\r\n+update\r\n"),
        ("object encoding a", false, "*1\r\n$1\r\na\r\n"),
        (
            "bitop and d a",
            true,
            "*2\r\n*2\r\n$1\r\nd\r\n~2\r\n+OW\r\n+update\r\n*2\r\n$1\r\na\r\n~2\r\n+RO\r\n+access\r\n",
        ),
        ("bitfield a", true, "*1\r\n*2\r\n$1\r\na\r\n~2\r\n+RO\r\n+access\r\n"),
        ("bitfield a GET u8 0 overflow sat", true, "*1\r\n*2\r\n$1\r\na\r\n~2\r\n+RO\r\n+access\r\n"),
        (
            "bitfield a get u8 0 set u8 0 1",
            true,
            "*1\r\n*2\r\n$1\r\na\r\n~3\r\n+RW\r\n+access\r\n+update\r\n",
        ),
        ("bitfield a get u8", true, "*1\r\n*2\r\n$1\r\na\r\n~3\r\n+RW\r\n+access\r\n+update\r\n"),
        ("nosuch x", false, "-ERR Invalid command specified\r\n"),
        ("object nosuch a", false, "-ERR Invalid command specified\r\n"),
        ("get x y", false, "-ERR Invalid number of arguments specified for command\r\n"),
        ("mset a", false, "-ERR Invalid number of arguments specified for command\r\n"),
        ("ping a", false, "-ERR The command has no key arguments\r\n"),
    ] {
        let (mut args, mut out) = (ArgRanges::new(), Vec::new());
        args.set(line.split(' ').map(str::as_bytes));
        print::keys(&mut out, Proto::Resp3, args.view(b""), flags);
        assert_eq!(String::from_utf8(out).unwrap(), want, "{line}");
    }
}
