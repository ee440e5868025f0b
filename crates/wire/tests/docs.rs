//! What COMMAND DOCS says of arguments, beside what the table says of the same commands.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use serde_json::{Value, json};
use wire::client::{Collector, Reply};
use wire::command::syntax::{Argument, Kind, parse, shown};
use wire::command::{Command, Id, all_commands, commands, lookup, print};
use wire::{ArgRanges, Proto};

/// The shortest call of a command: one word for each argument that must be there. Keys are `key`.
fn shortest(command: &Command, arguments: &[Argument<'_>]) -> Vec<String> {
    fn put(words: &mut Vec<String>, argument: &Argument<'_>) {
        words.extend(argument.token.map(str::to_owned));
        match argument.kind {
            Kind::PureToken => {}
            Kind::Block => put_all(words, &argument.inside),
            Kind::OneOf => {
                let choices = argument.inside.iter().map(|choice| {
                    let mut words = Vec::new();
                    put(&mut words, choice);
                    words
                });
                words.extend(choices.min_by_key(Vec::len).unwrap());
            }
            Kind::Key => words.push("key".to_owned()),
            // The keys that follow may be left out.
            _ if argument.name == "numkeys" => words.push("0".to_owned()),
            _ => words.push("x".to_owned()),
        }
    }
    fn put_all(words: &mut Vec<String>, arguments: &[Argument<'_>]) {
        arguments.iter().filter(|argument| !argument.optional).for_each(|argument| put(words, argument));
    }
    let mut words: Vec<_> = command.name.split('|').map(str::to_owned).collect();
    put_all(&mut words, arguments);
    words
}

/// Does every call have the same number of words?
fn is_fixed(argument: &Argument<'_>) -> bool {
    !argument.optional && !argument.multiple && argument.inside.iter().all(is_fixed)
}

#[test]
fn the_syntax_of_a_command_has_its_arity_and_its_keys() {
    for command in all_commands() {
        let name = command.name;
        let arguments = parse(command.docs.syntax).unwrap_or_else(|why| panic!("{name}: {why}"));
        if command.is_container() {
            assert_eq!(arguments, [], "{name} is described by its subcommands");
            continue;
        }
        let call = shortest(command, &arguments);
        assert_eq!(call.len(), usize::from(command.arity.unsigned_abs()), "{name}: {call:?}");
        // These take more than is told: QUIT looks at none of it, the others are for replicas.
        let takes_more = matches!(command.id, Id::Quit | Id::Psync | Id::Replconf);
        let is_fixed = arguments.iter().all(is_fixed) && !takes_more;
        assert_eq!(command.arity > 0, is_fixed, "{name}: more arguments are possible, or none");

        let mut args = ArgRanges::new();
        args.set(call.iter().map(|word| word.as_bytes()));
        let keys: Vec<_> = command.key_positions(args.view(b"")).unwrap().collect();
        let want: Vec<_> = (0..call.len()).filter(|index| call[*index] == "key").collect();
        assert_eq!(keys, want, "{name}: {call:?}");
    }
}

/// Keys of `docs` and of everything inside, in order.
fn key_specs(docs: &Value) -> Vec<u64> {
    match docs {
        Value::Array(items) => items.iter().flat_map(key_specs).collect(),
        Value::Object(pairs) if pairs["type"] == "key" => vec![pairs["key_spec_index"].as_u64().unwrap()],
        Value::Object(pairs) => pairs.get("arguments").map(key_specs).unwrap_or_default(),
        _ => vec![],
    }
}

#[test]
fn every_key_is_of_a_specification_that_exists() {
    for command in all_commands() {
        let found = key_specs(docs(command).get("arguments").unwrap_or(&Value::Null));
        let mut used = found.clone();
        used.dedup();
        let spec_count = command.key_specs.iter().filter(|spec| spec.names_keys()).count();
        let want: Vec<u64> = (0..).take(spec_count).collect();
        assert_eq!(used, want, "{}: {found:?}", command.name);
    }
    let specs = |name: &[u8]| key_specs(&docs(lookup(name).unwrap())["arguments"]);
    assert_eq!(specs(b"lcs"), [0, 0]);
    assert_eq!(specs(b"copy"), [0, 1]);
    assert_eq!(specs(b"bitop"), [0, 1]);
    assert_eq!(specs(b"migrate"), [0, 1]);
}

#[test]
fn what_changed_is_told_in_order_and_of_arguments_that_exist() {
    fn names(arguments: &[Argument<'_>]) -> Vec<String> {
        let own = arguments.iter().flat_map(|argument| {
            [Some(argument.name.clone()), argument.token.map(str::to_owned)].into_iter().flatten()
        });
        own.chain(arguments.iter().flat_map(|argument| names(&argument.inside))).collect()
    }
    fn number(version: &str) -> Vec<u32> {
        version.split('.').map(|part| part.parse().unwrap()).collect()
    }
    for command in all_commands() {
        let history = command.docs.history;
        let versions: Vec<_> = history.iter().map(|(version, _)| number(version)).collect();
        assert!(versions.is_sorted(), "{}", command.name);
        assert!(versions.iter().all(|version| *version >= number(command.docs.since)), "{}", command.name);
        let names = names(&parse(command.docs.syntax).unwrap());
        // Lines of CLIENT LIST have names in lower case.
        let quoted = history.iter().flat_map(|(_, change)| change.split('`').skip(1).step_by(2));
        for word in quoted.filter(|_| command.id != Id::ClientList) {
            assert!(names.iter().any(|name| name == word), "{} has no {word}", command.name);
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Maps are objects, and sets are objects of their members.
fn value(reply: &Reply) -> Value {
    match reply {
        Reply::Simple(bytes) | Reply::Bulk(bytes) => text(bytes).into(),
        Reply::Integer(number) => (*number).into(),
        Reply::Array(items) => items.iter().map(value).collect(),
        Reply::Set(items) => json!({"set": items.iter().map(value).collect::<Value>()}),
        Reply::Map(pairs) => {
            pairs.iter().map(|(name, of)| (value(name).as_str().unwrap().to_owned(), value(of))).collect()
        }
        other => panic!("not in COMMAND DOCS: {other:?}"),
    }
}

fn printed(command: &Command, proto: Proto) -> Vec<u8> {
    let mut out = Vec::new();
    wire::reply::map(&mut out, proto, 1);
    print::docs(&mut out, proto, command);
    out
}

fn reply(command: &Command) -> Reply {
    Collector::default().next(&printed(command, Proto::Resp3)).unwrap().0.unwrap()
}

/// What COMMAND DOCS says of one command.
fn docs(command: &Command) -> Value {
    value(&reply(command))[command.name].clone()
}

/// One argument; `more` are the fields that not every one has.
fn argument(name: &str, kind: &str, shown: &str, more: &Value) -> Value {
    let mut argument = json!({"name": name, "type": kind, "display_text": shown});
    argument.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    argument
}

/// Several that have a name together.
fn several(name: &str, kind: &str, arguments: &[Value], more: &Value) -> Value {
    let mut argument = argument(name, kind, "", more);
    argument.as_object_mut().unwrap().remove("display_text");
    argument["arguments"] = arguments.into();
    argument
}

/// A word alone.
fn word(token: &str, more: &Value) -> Value {
    let name = token.to_lowercase();
    let mut argument = argument(&name, "pure-token", &name, more);
    argument["token"] = token.into();
    argument
}

#[test]
fn arguments_are_printed_as_by_redis() {
    let check = |name: &str, want: Value| {
        let (container, sub) = name.split_once(' ').unwrap_or((name, ""));
        let command = lookup(container.as_bytes()).unwrap();
        let command = command.subcommand(sub.as_bytes()).unwrap_or(command);
        assert_eq!(docs(command).get("arguments").unwrap_or(&Value::Null), &want, "{name}");
    };
    let plain = |name: &str, kind: &str| argument(name, kind, name, &json!({}));
    let key = argument("key", "key", "key", &json!({"key_spec_index": 0}));
    let optional = json!({"flags": {"set": ["optional"]}});
    check("multi", Value::Null);
    check("client", Value::Null);
    check("append", json!([key, plain("value", "string")]));
    check("incrby", json!([key, plain("increment", "integer")]));
    check("incrbyfloat", json!([key, plain("increment", "double")]));
    check("keys", json!([plain("pattern", "pattern")]));
    check("cluster keyslot", json!([plain("key", "string")]));
    check(
        "mset",
        json!([several(
            "data",
            "block",
            &[key.clone(), plain("value", "string")],
            &json!({"flags": {"set": ["multiple"]}})
        )]),
    );
    check(
        "copy",
        json!([
            argument("source", "key", "source", &json!({"key_spec_index": 0})),
            argument("destination", "key", "destination", &json!({"key_spec_index": 1})),
            argument(
                "destination-db",
                "integer",
                "destination-db",
                &json!({"token": "DB", "flags": {"set": ["optional"]}})
            ),
            word("REPLACE", &optional),
        ]),
    );
    let expiry = |name: &str, kind: &str, token: &str, since: &str| {
        argument(name, kind, name, &json!({"token": token, "since": since}))
    };
    check(
        "set",
        json!([
            key,
            plain("value", "string"),
            several(
                "condition",
                "oneof",
                &[word("NX", &json!({})), word("XX", &json!({}))],
                &json!({"since": "2.6.12", "flags": {"set": ["optional"]}})
            ),
            word("GET", &json!({"since": "6.2.0", "flags": {"set": ["optional"]}})),
            several(
                "expiration",
                "oneof",
                &[
                    expiry("seconds", "integer", "EX", "2.6.12"),
                    expiry("milliseconds", "integer", "PX", "2.6.12"),
                    expiry("unix-time-seconds", "unix-time", "EXAT", "6.2.0"),
                    expiry("unix-time-milliseconds", "unix-time", "PXAT", "6.2.0"),
                    word("KEEPTTL", &json!({"since": "6.0.0"})),
                ],
                &optional
            ),
        ]),
    );
    check(
        "client list",
        json!([
            several(
                "client-type",
                "oneof",
                &["NORMAL", "MASTER", "REPLICA", "PUBSUB"].map(|kind| word(kind, &json!({}))),
                &json!({"token": "TYPE", "since": "5.0.0", "flags": {"set": ["optional"]}})
            ),
            argument(
                "client-id",
                "integer",
                "client-id",
                &json!({"token": "ID", "since": "6.2.0", "flags": {"set": ["optional", "multiple"]}})
            ),
        ]),
    );
    check("psync", json!([plain("replicationid", "string"), plain("offset", "integer")]));
    check("wait", json!([plain("numreplicas", "integer"), plain("timeout", "integer")]));
    let none = json!({});
    let place = several("host-port", "block", &[plain("host", "string"), plain("port", "integer")], &none);
    let nowhere = several("no-one", "block", &[word("NO", &none), word("ONE", &none)], &none);
    for name in ["replicaof", "slaveof"] {
        check(name, json!([several("args", "oneof", &[place.clone(), nowhere.clone()], &none)]));
    }
    let unit = several("unit", "oneof", &["BYTE", "BIT"].map(|unit| word(unit, &json!({}))), &{
        json!({"since": "7.0.0", "flags": {"set": ["optional"]}})
    });
    check(
        "bitcount",
        json!([
            key,
            several("range", "block", &[plain("start", "integer"), plain("end", "integer"), unit], &optional)
        ]),
    );
    let place = [plain("encoding", "string"), plain("offset", "integer")];
    let more = json!({"token": "GET", "flags": {"set": ["optional", "multiple", "multiple_token"]}});
    check("bitfield_ro", json!([key, several("get-block", "block", &place, &more)]));
    let operation = &docs(lookup(b"bitfield").unwrap())["arguments"][1];
    assert_eq!(operation["flags"], json!({"set": ["optional", "multiple"]}));
    let kill = docs(lookup(b"client").unwrap().subcommand(b"kill").unwrap());
    let laddr = argument(
        "laddr",
        "string",
        "ip:port",
        &json!({"token": "LADDR", "since": "6.2.0", "flags": {"set": ["optional"]}}),
    );
    assert_eq!(kill["arguments"][0]["arguments"][1]["arguments"][4], laddr);
}

#[test]
fn the_other_fields_are_printed_as_by_redis() {
    let fields = |name: &[u8]| {
        let docs = docs(lookup(name).unwrap());
        docs.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(fields(b"multi"), "complexity group since summary");
    assert_eq!(fields(b"ttl"), "arguments complexity group history since summary");
    assert_eq!(fields(b"config"), "complexity group since subcommands summary");
    assert_eq!(
        fields(b"getset"),
        "arguments complexity deprecated_since doc_flags group replaced_by since summary"
    );
    let getset = docs(lookup(b"getset").unwrap());
    assert_eq!(getset["deprecated_since"], "6.2.0");
    assert_eq!(getset["replaced_by"], "`SET` with `GET`");
    assert_eq!(getset["doc_flags"], json!({"set": ["deprecated"]}));
    assert_eq!(docs(lookup(b"debug").unwrap())["doc_flags"], json!({"set": ["syscmd"]}));
    assert_eq!(docs(lookup(b"replconf").unwrap())["doc_flags"], json!({"set": ["syscmd"]}));
    let slaveof = docs(lookup(b"slaveof").unwrap());
    assert_eq!(
        (&slaveof["deprecated_since"], &slaveof["replaced_by"]),
        (&json!("5.0.0"), &json!("`REPLICAOF`"))
    );
    let ttl = docs(lookup(b"ttl").unwrap());
    assert_eq!(ttl["history"], json!({"set": [["2.8.0", "-2 for a key that does not exist"]]}));
    let config = docs(lookup(b"config").unwrap());
    assert_eq!(config["subcommands"]["config|get"]["arguments"][0]["flags"], json!({"set": ["multiple"]}));
}

#[test]
fn both_protocols_say_the_same() {
    for command in commands() {
        let mut flat = Vec::new();
        reply(command).put(&mut flat, Proto::Resp2);
        assert_eq!(text(&printed(command, Proto::Resp2)), text(&flat), "{}", command.name);
    }
}

#[test]
fn lines_are_read_and_shown() {
    let check = |line: &str, want: &str| assert_eq!(shown(&parse(line).unwrap()), want, "{line}");
    check("", "");
    check("key increment:double", "key increment");
    check("ADDR addr=ip:port", "ADDR ip:port");
    check("key ...", "key ...");
    check("[TYPE type ...] [GET]", "[TYPE type ...] [GET]");
    check("<data: key value> ...", "<key value> ...");
    check("<action: ON|OFF>", "<ON | OFF>");
    check("[GET <each: a b> GET ...]", "[GET <a b> GET ...]");
    check("[mode: WRITE | ALL]", "[WRITE | ALL]");
    check("[arguments: version [AUTH <auth: name word>]]", "[version [AUTH <name word>]]");
    check("[BY <by: A | B b | <c: C d e> ...>]", "[BY <A | B b | <C d e> ...>]");
}

#[test]
fn lines_that_say_nothing_are_refused() {
    let check = |line: &str, want: &str| assert_eq!(parse(line), Err(want.to_owned()), "{line}");
    check("[key", "brackets end with ']'");
    check("[key>", "brackets end with ']'");
    check("<key", "brackets end with '>'");
    check("key]", "']' has no beginning");
    check("a | b", "'|' has no beginning");
    check("[]", "several arguments together have a name");
    check("[a b]", "several arguments together have a name");
    check("[A | B]", "several arguments together have a name");
    check("[name: a]", "'name' names several arguments together");
    check("[name: a b | c]", "each choice is one argument, or has brackets");
    check("[name: a | ]", "each choice is one argument, or has brackets");
    check("[A b A]", "a word that comes again has dots behind it: b");
    check("A <B b>", "two words stand before one argument: A");
    check("Key", "'Key' is no argument");
    check("name: a", "'' is no type");
    check("...", "'...' is no argument");
    check("a:float", "'float' is no type");
    check("=text", "'=text' is no argument");
}
