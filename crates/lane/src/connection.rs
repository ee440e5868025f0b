//! Commands that touch no data: the connection's own state, and what every lane knows by itself.

use net::Address;
use store::Value;
use wire::command::{Category, Command, Group, Id, all_commands, print};
use wire::reply::{self, OK, Proto, Put};

use crate::acl::UserId;
use crate::admin::Portrait;
use crate::client::{Client, Hush, Port, Traits};
use crate::cluster;
use crate::control::clients;
use crate::documents;
use crate::help;
use crate::keyspace::{Call, put_value};
use crate::records;
use crate::replica;
use crate::replies::{Content, Sink};
use crate::request::{Arg, Args};
use crate::tracking::Shown;
use crate::{Now, Settings};
use wire::glob::{self, Case};
use wire::resp::ArgRanges;
use wire::route::PartitionMap;

/// No database has this number.
pub(crate) const OUT_OF_RANGE: &str = "ERR DB index is out of range";

/// The database that an argument of SELECT, COPY or MOVE names.
pub(crate) fn database(arg: Arg<'_>, count: u16) -> Result<u16, &'static str> {
    let number =
        arg.flat().and_then(wire::number::parse_i64).ok_or("ERR value is not an integer or out of range")?;
    if i32::try_from(number).is_err() {
        return Err("ERR value is out of range, value must between -2147483648 and 2147483647");
    }
    u16::try_from(number).ok().filter(|db| *db < count).ok_or(OUT_OF_RANGE)
}

/// The database that a client of this port gets by SELECT: a lane's own port is a cluster's, and has the first alone.
pub(crate) fn selected(arg: Arg<'_>, port: Port, count: u16) -> Result<u16, &'static str> {
    match database(arg, count) {
        Ok(0) => Ok(0),
        Ok(_) | Err(OUT_OF_RANGE) if port == Port::Lane => Err("ERR SELECT is not allowed in cluster mode"),
        result => result,
    }
}

/// What the client wants besides a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    /// To be closed when it has its replies.
    Leave,
    /// To forget MULTI and WATCH.
    Reset,
    /// A replica: that the control thread hears how far it has come.
    Acknowledge(u64),
    /// That the control thread hears of a wrong password: the user's name is this argument, or none says it.
    Stranger(usize),
}

/// What every lane knows by itself.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) map: &'a PartitionMap,
    pub(crate) lane: u16,
    pub(crate) now: Now,
    /// Where the client connected to.
    pub(crate) local: Address,
    /// If the client tracks keys.
    pub(crate) tracking: Option<Shown>,
}

/// Runs a command of a client. Arity is checked.
pub(crate) fn run(client: &mut Client, call: &Call<'_>, around: &Around<'_>, sink: &mut Sink<'_>) -> Wish {
    let (args, settings) = (call.args, around.settings);
    match call.command.id {
        Id::Select => match selected(args.get(1), client.port, settings.database_count) {
            Ok(db) => {
                client.db = db;
                sink.put(OK);
            }
            Err(text) => reply::error(sink, text),
        },
        Id::Quit => {
            sink.put(OK);
            return Wish::Leave;
        }
        Id::Reset => {
            client.db = 0;
            client.proto = Proto::Resp2;
            client.name = Box::default();
            client.weigh_texts();
            client.traits = Traits::default();
            client.hush = Hush::Heard;
            (client.user, client.is_authenticated) = (UserId::DEFAULT, settings.users.are_open());
            reply::simple(sink, "RESET");
            return Wish::Reset;
        }
        Id::Auth => return auth(client, call, settings, sink),
        Id::Hello => return hello(client, call, settings, sink),
        Id::AclWhoami => reply::bulk(sink, settings.users.name_of(client.user)),
        Id::Ping if client.is_subscribed && client.proto == Proto::Resp2 && args.len() < 3 => {
            reply::array(sink, 2);
            reply::bulk(sink, b"pong");
            put_arg(if args.len() == 1 { Arg::Flat(b"") } else { args.get(1) }, sink);
        }
        Id::ClientId => reply::integer(sink, i64::try_from(client.id).expect("ids grow from 1")),
        Id::ClientGetname if client.name.is_empty() => reply::null(sink, client.proto),
        Id::ClientGetname => reply::bulk(sink, &client.name),
        Id::ClientSetname => set_name(client, args.flat(2), sink),
        Id::ClientSetinfo => set_info(client, call, sink),
        Id::ClientInfo => {
            let mut portrait = Portrait::of(client, around.lane, (0, 0));
            portrait.last = Some(call.command);
            portrait.tracking = around.tracking;
            portrait.input_size = clients::frame_size(args);
            let line = clients::line(&portrait, settings, around.now.mono_ns);
            reply::verbatim(sink, client.proto, b"txt", line.as_bytes());
        }
        Id::ClientReply => match args.flat(2).to_ascii_lowercase().as_slice() {
            b"on" => {
                client.hush = Hush::Heard;
                sink.put(OK);
            }
            b"off" => client.hush = Hush::Off,
            b"skip" if client.hush != Hush::Off => client.hush = Hush::Next,
            b"skip" => {}
            _ => reply::error(sink, "ERR syntax error"),
        },
        Id::ClientNoEvict => switch(&mut client.traits.is_kept, args.flat(2), sink),
        Id::ClientNoTouch => switch(&mut client.traits.leaves_no_trace, args.flat(2), sink),
        Id::Readonly | Id::Readwrite => {
            client.traits.reads_copies = call.command.id == Id::Readonly;
            sink.put(OK);
        }
        Id::Replconf => return replica::configure(client, call, sink),
        Id::DocumentSay => return documents::say(client, call, settings, sink),
        Id::RecordSay => return records::say(client, call, settings, sink),
        _ => run_anywhere(call, around, sink),
    }
    Wish::Nothing
}

/// Runs a command that MULTI has queued, when its turn comes, for the client that `stand_in` is a copy of.
pub(crate) fn run_queued(
    call: &Call<'_>,
    stand_in: Option<&mut Client>,
    around: &Around<'_>,
    out: &mut Content,
) -> Wish {
    match call.command.id {
        Id::Select => match selected(call.args.get(1), call.port, around.settings.database_count) {
            Ok(_) => out.put(OK),
            Err(text) => reply::error(out, text),
        },
        // EXEC has ended all watching by then.
        Id::Unwatch => out.put(OK),
        // What EXEC runs may not wait, and a monitor waits for commands.
        Id::Monitor => reply::error(out, "ERR MONITOR isn't allowed for DENY BLOCKING client"),
        _ => match stand_in {
            None => run_anywhere(call, around, &mut Sink::Part(out)),
            Some(client) => {
                let size = out.size();
                let wish = run(client, call, around, &mut Sink::Part(out));
                // CLIENT REPLY OFF has no reply, but EXEC's array has a place for it.
                if out.size() == size {
                    reply::null(out, call.proto);
                }
                return wish;
            }
        },
    }
    Wish::Nothing
}

fn run_anywhere(call: &Call<'_>, around: &Around<'_>, out: &mut Sink<'_>) {
    let (args, proto) = (call.args, call.proto);
    match call.command.id {
        Id::Ping if call.args.len() == 1 => out.put(b"+PONG\r\n"),
        Id::Ping if call.args.len() > 2 => wrong_arity(call.command, out),
        Id::Ping | Id::Echo => put_arg(call.args.get(call.args.len() - 1), out),
        Id::ClusterKeyslot => {
            let slot = wire::route::Slot::of(call.args.flat(2));
            reply::integer(out, i64::from(slot.number()));
        }
        Id::Command
        | Id::CommandCount
        | Id::CommandInfo
        | Id::CommandDocs
        | Id::CommandList
        | Id::CommandGetkeys
        | Id::CommandGetkeysandflags => describe(call, out),
        Id::AclCat => categories(args, out),
        Id::Time => {
            let (seconds, us) = around.now.wall();
            reply::array(out, 2);
            reply::bulk(out, seconds.to_string().as_bytes());
            reply::bulk(out, us.to_string().as_bytes());
        }
        Id::ScriptDebug if args.flat(2).eq_ignore_ascii_case(b"no") => out.put(OK),
        Id::ScriptDebug
            if [&b"yes"[..], b"sync"].iter().any(|word| args.flat(2).eq_ignore_ascii_case(word)) =>
        {
            reply::error(out, "ERR scripts can't be debugged here: they run on lanes that serve others");
        }
        Id::ScriptDebug => reply::error(out, "ERR Use SCRIPT DEBUG YES/SYNC/NO"),
        Id::Lolwut if is_version(args) && wire::number::parse_i64(args.flat(2)).is_none() => {
            reply::error(out, "ERR value is not an integer or out of range");
        }
        Id::Lolwut => {
            let version = around.settings.redis_version;
            let text = format!("{LANES_DRAWN}\nExpresslane, as Redis ver. {version}\n");
            reply::verbatim(out, proto, b"txt", text.as_bytes());
        }
        Id::Readonly | Id::Readwrite | Id::Asking => out.put(OK),
        id => {
            let Around { settings, map, lane, local, .. } = *around;
            let view = cluster::View { settings, map, lane, local, proto };
            if help::put(call.command, out) || call.command.group == Group::Cluster && view.answer(id, out) {
                return;
            }
            if call.command.is_container() && args.len() == 1 {
                return wrong_arity(call.command, out);
            }
            reply::error(out, &format!("ERR the command '{}' is not served yet", call.command.name));
        }
    }
}

/// LOLWUT VERSION number: whatever the number, the drawing is the one.
fn is_version(args: Args<'_>) -> bool {
    args.len() > 2 && args.flat(1).eq_ignore_ascii_case(b"version")
}

/// What LOLWUT shows.
const LANES_DRAWN: &str = "=====>  - - - - - - - - -  =====>\n  =========>  - - - - -  =========>\n=>  - - - - - - - - - - - - -  =>";

/// Arguments of COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS, their own two included.
const GETKEYS_ARGS_MAX: usize = 1024;

/// COMMAND and what it groups: the table of commands.
fn describe(call: &Call<'_>, out: &mut impl Put) {
    let (args, proto) = (call.args, call.proto);
    match call.command.id {
        Id::CommandCount => {
            let count = wire::command::commands().count();
            reply::integer(out, i64::try_from(count).expect("commands are few"));
        }
        Id::CommandList => list(args, out),
        // Its answer is one piece of work, whatever the command would be.
        Id::CommandGetkeys | Id::CommandGetkeysandflags if args.len() > GETKEYS_ARGS_MAX => {
            reply::error(out, &format!("ERR too many arguments, at most {GETKEYS_ARGS_MAX} are looked at"));
        }
        Id::CommandGetkeys | Id::CommandGetkeysandflags => {
            let mut ranges = ArgRanges::new();
            ranges.set((2..args.len()).map(|index| args.flat(index)));
            print::keys(out, proto, ranges.view(&[]), call.command.id == Id::CommandGetkeysandflags);
        }
        // Of the same command named again and again the reply of COMMAND INFO would have no end, and looking names up takes time.
        Id::CommandDocs | Id::CommandInfo if args.len() - 2 > Id::COUNT => {
            reply::error(
                out,
                &format!("ERR too many names, at most {} are described in one call", Id::COUNT),
            );
        }
        Id::CommandDocs => {
            // Each once, however often it is named: the reply is never larger than the table.
            let mut is_asked = [false; Id::COUNT];
            (2..args.len())
                .filter_map(|index| named(args.flat(index)))
                .for_each(|command| is_asked[command.id as usize] = true);
            let found: Vec<&Command> = match args.len() {
                2 => wire::command::commands().collect(),
                _ => wire::command::all_commands().filter(|command| is_asked[command.id as usize]).collect(),
            };
            reply::map(out, proto, found.len());
            for command in found {
                print::docs(out, proto, command);
            }
        }
        Id::CommandInfo if args.len() > 2 => {
            reply::array(out, args.len() - 2);
            for index in 2..args.len() {
                match named(args.flat(index)) {
                    Some(command) => print::info(out, proto, command),
                    None => reply::null(out, proto),
                }
            }
        }
        _ => {
            reply::array(out, wire::command::commands().count());
            for command in wire::command::commands() {
                print::info(out, proto, command);
            }
        }
    }
}

/// A command by its name, a subcommand as `client|list`.
fn named(name: &[u8]) -> Option<&'static Command> {
    let mut words = name.splitn(2, |&byte| byte == b'|');
    let command = wire::command::lookup(words.next()?)?;
    match words.next() {
        None => Some(command),
        Some(sub) => command.subcommand(sub),
    }
}

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]
fn list(args: Args<'_>, out: &mut impl Put) {
    let is_filtered = args.len() == 5 && args.flat(2).eq_ignore_ascii_case(b"filterby");
    if args.len() != 2 && !is_filtered {
        return reply::error(out, "ERR syntax error");
    }
    let all = wire::command::all_commands();
    let found: Vec<&Command> = if is_filtered {
        let value = args.flat(4);
        match args.flat(3).to_ascii_lowercase().as_slice() {
            b"module" => Vec::new(),
            b"aclcat" => all
                .filter(|command| {
                    command.categories.iter().any(|it| it.name().as_bytes().eq_ignore_ascii_case(value))
                })
                .collect(),
            b"pattern" => {
                all.filter(|command| glob::matches(value, command.name.as_bytes(), Case::Ignored)).collect()
            }
            _ => return reply::error(out, "ERR syntax error"),
        }
    } else {
        all.collect()
    };
    reply::array(out, found.len());
    for command in found {
        reply::bulk(out, command.name.as_bytes());
    }
}

/// ACL CAT: the categories, or the commands of one.
fn categories(args: Args<'_>, out: &mut impl Put) {
    let names: Vec<&str> = match args.len() {
        2 => Category::ALL.iter().map(|category| category.name()).collect(),
        3 => {
            let name = args.flat(2);
            let mut all = Category::ALL.iter();
            let Some(of) = all.find(|it| it.name().as_bytes().eq_ignore_ascii_case(name)) else {
                let shown = &name[..name.len().min(128)];
                return reply::error_bytes(
                    out,
                    &[b"ERR Unknown category '", reply::quoted(shown), b"'"].concat(),
                );
            };
            let commands = all_commands().filter(|command| command.categories.has(*of));
            commands.map(|command| command.name).collect()
        }
        _ => return reply::error_bytes(out, &help::unknown_shape("ACL", args)),
    };
    reply::array(out, names.len());
    names.iter().for_each(|name| reply::bulk(out, name.as_bytes()));
}

/// An argument as a bulk string: a long one by reference.
fn put_arg(arg: Arg<'_>, sink: &mut Sink<'_>) {
    put_value(
        sink,
        match arg {
            Arg::Flat(bytes) => Value::Bytes(bytes),
            Arg::Rope(rope) => Value::Rope(rope),
        },
    );
}

pub(crate) fn wrong_arity(command: &Command, out: &mut impl Put) {
    reply::error(out, &format!("ERR wrong number of arguments for '{}' command", command.name));
}

/// `AUTH [user] password`
fn auth(client: &mut Client, call: &Call<'_>, settings: &Settings, sink: &mut Sink<'_>) -> Wish {
    let args = call.args;
    if args.len() > 3 {
        reply::error(sink, "ERR syntax error");
        return Wish::Nothing;
    }
    if args.len() == 2 && settings.users.default_user().takes_any_password() {
        reply::error(
            sink,
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        );
        return Wish::Nothing;
    }
    let name = if args.len() == 3 { args.flat(1) } else { b"default" };
    if log_in(client, name, args.get(args.len() - 1), settings) {
        sink.put(OK);
        return Wish::Nothing;
    }
    wrong_pass(sink);
    Wish::Stranger(args.len() - 2)
}

/// Whether a client is a user from now on; it stays who it was if the password is wrong. No password is longer than a key.
fn log_in(client: &mut Client, name: &[u8], password: Arg<'_>, settings: &Settings) -> bool {
    let user = settings.users.who(name, password.flat());
    if let Some(user) = user {
        (client.user, client.is_authenticated) = (user, true);
    }
    user.is_some()
}

fn wrong_pass(sink: &mut Sink<'_>) {
    reply::error(sink, "WRONGPASS invalid username-password pair or user is disabled.");
}

fn set_name(client: &mut Client, name: &[u8], sink: &mut Sink<'_>) {
    match name_client(client, name) {
        Ok(()) => sink.put(OK),
        Err(text) => reply::error(sink, text),
    }
}

fn name_client(client: &mut Client, name: &[u8]) -> Result<(), &'static str> {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    client.name = name.into();
    client.weigh_texts();
    Ok(())
}

fn set_info(client: &mut Client, call: &Call<'_>, sink: &mut Sink<'_>) {
    let (option, value) = (call.args.flat(2), call.args.flat(3));
    if !value.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        let option = String::from_utf8_lossy(option).to_ascii_lowercase();
        let text = format!("ERR {option} cannot contain spaces, newlines or special characters.");
        return reply::error(sink, &text);
    }
    match option.to_ascii_lowercase().as_slice() {
        b"lib-name" => client.library = value.into(),
        b"lib-ver" => client.library_version = value.into(),
        _ => {
            let text = [b"ERR Unrecognized option '", reply::quoted(option), b"'"].concat();
            return reply::error_bytes(sink, &text);
        }
    }
    client.weigh_texts();
    sink.put(OK);
}

fn switch(to: &mut bool, word: &[u8], sink: &mut Sink<'_>) {
    if word.eq_ignore_ascii_case(b"on") || word.eq_ignore_ascii_case(b"off") {
        *to = word.eq_ignore_ascii_case(b"on");
        sink.put(OK);
    } else {
        reply::error(sink, "ERR syntax error");
    }
}

/// HELLO [protover [AUTH user password] [SETNAME name]]
fn hello(client: &mut Client, call: &Call<'_>, settings: &Settings, sink: &mut Sink<'_>) -> Wish {
    let args = call.args;
    let refused = |sink: &mut Sink<'_>, text: &[u8]| {
        reply::error_bytes(sink, text);
        Wish::Nothing
    };
    let mut proto = client.proto;
    if args.len() > 1 {
        proto = match wire::number::parse_i64(args.flat(1)) {
            None => return refused(sink, b"ERR Protocol version is not an integer or out of range"),
            Some(2) => Proto::Resp2,
            Some(3) => Proto::Resp3,
            Some(_) => return refused(sink, b"NOPROTO unsupported protocol version"),
        };
    }
    // As in Redis what an option says holds though a later one is wrong.
    let mut index = 2;
    while index < args.len() {
        let word = args.flat(index);
        let left = args.len() - index - 1;
        if word.eq_ignore_ascii_case(b"auth") && left >= 2 {
            if !log_in(client, args.flat(index + 1), args.get(index + 2), settings) {
                wrong_pass(sink);
                return Wish::Stranger(index + 1);
            }
            index += 3;
        } else if word.eq_ignore_ascii_case(b"setname") && left >= 1 {
            if let Err(text) = name_client(client, args.flat(index + 1)) {
                return refused(sink, text.as_bytes());
            }
            index += 2;
        } else {
            let text = [b"ERR Syntax error in HELLO option '", reply::quoted(word), b"'"].concat();
            return refused(sink, &text);
        }
    }
    if !client.is_authenticated {
        return refused(
            sink,
            b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
             <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        );
    }
    client.proto = proto;
    let mode = if client.port == crate::Port::Lane { "cluster" } else { "standalone" };
    let role = if settings.follows.is_some() { "replica" } else { "master" };
    reply::map(sink, proto, 7);
    for (field, value) in [("server", "redis"), ("version", settings.redis_version)] {
        reply::bulk(sink, field.as_bytes());
        reply::bulk(sink, value.as_bytes());
    }
    reply::bulk(sink, b"proto");
    reply::integer(sink, if proto == Proto::Resp3 { 3 } else { 2 });
    reply::bulk(sink, b"id");
    reply::integer(sink, i64::try_from(client.id).expect("ids grow from 1"));
    for (field, value) in [("mode", mode), ("role", role)] {
        reply::bulk(sink, field.as_bytes());
        reply::bulk(sink, value.as_bytes());
    }
    reply::bulk(sink, b"modules");
    reply::array(sink, 0);
    Wish::Nothing
}
