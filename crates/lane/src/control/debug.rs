//! DEBUG: what tests of a server ask for. `enable-debug-command` lets nobody, local clients or everybody use it.

use std::sync::Arc;

use net::Address;
use wire::reply::{self, OK, Proto, Put};

use super::{Asker, Begun, Control, Source};
use crate::Now;
use crate::admin::{Order, Question, Report};
use crate::help;
use crate::request::Args;

/// A lane may be put to sleep for so long.
const SLEEP_S_MAX: f64 = 3600.0;

/// Redis' own example of a double.
#[expect(clippy::approx_constant, reason = "it is not meant to be pi")]
const EXAMPLE: f64 = 3.141;

const REFUSAL: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
                       from a local connection, otherwise you need to set this option in the configuration file, and then \
                       restart the server.";
const NO_PROTOCOL: &str = "ERR Wrong protocol type name. Please use one of the following: \
                           string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";

const HELP: [&str; 24] = [
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ERROR <string>",
    "    Return a Redis protocol error with <string> as message. Useful for clients",
    "    unit tests to simulate Redis errors.",
    "LOADAOF",
    "    Empties all databases and loads what the log holds.",
    "OBJECT <key>",
    "    Show low level info about <key> and associated value.",
    "PROTOCOL <type>",
    "    Reply with a test value of the specified type. <type> can be: string,",
    "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
    "    true, false.",
    "RELOAD [option ...]",
    "    Writes a snapshot, empties all databases and loads it. NOSAVE loads what",
    "    was written before; NOFLUSH empties nothing, and what is there already is an",
    "    error, or, with MERGE, replaced.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 leaves keys whose time has come where they are, unseen, until",
    "    a command takes their place or deletes them. Setting it to 1 reenables back",
    "    the default.",
    "SLEEP <seconds>",
    "    Stop the lane that serves the asking client for <seconds>. Decimals allowed.",
    "HELP",
    "    Prints this help.",
];

impl Control {
    pub(super) fn begin_debug(
        &mut self,
        asker: Asker,
        question: &Question,
        now: Now,
        out: &mut Vec<u8>,
    ) -> Begun {
        let is_allowed = match self.config.value("enable-debug-command") {
            "yes" => true,
            "local" => is_local(question.from.peer),
            _ => false,
        };
        if !is_allowed {
            reply::error(out, REFUSAL);
            return Begun::Answered;
        }
        let args = Args::Owned(&question.request);
        let name = args.flat(1).to_ascii_lowercase();
        match (name.as_slice(), args.len()) {
            (b"object", 3) => {
                return Begun::Everywhere(Order::Inspect(question.from.db, Arc::new(args.flat(2).to_vec())));
            }
            (b"set-active-expire", 3) => {
                let is_on = wire::number::parse_i64(args.flat(2)).unwrap_or(0) != 0;
                return Begun::Everywhere(Order::ActiveExpiry(is_on));
            }
            (b"sleep", 3) => match seconds_ns(args.flat(2)) {
                Some(ns) => return Begun::AtHome(Order::Sleep(ns)),
                None => reply::error(out, "ERR DEBUG SLEEP takes seconds from 0 to 3600"),
            },
            (b"protocol", 3) => put_example(args.flat(2), question.from.proto, out),
            (b"error", 3) => reply::error_bytes(out, args.flat(2)),
            (b"reload", _) => {
                let options: Vec<&[u8]> = (2..args.len()).map(|index| args.flat(index)).collect();
                return self.begin_load(asker, Source::Snapshot, &options, now, out);
            }
            (b"loadaof", 2) => return self.begin_load(asker, Source::Log, &[], now, out),
            (b"help", 2) => {
                reply::array(out, HELP.len());
                HELP.iter().for_each(|line| reply::simple(out, line));
            }
            _ => reply::error_bytes(out, &help::unknown_shape("DEBUG", args)),
        }
        Begun::Answered
    }
}

/// What lanes have done for DEBUG; of an object, what its lane says.
pub(super) fn conclude(args: Args<'_>, reports: Vec<(u16, Report)>, out: &mut Vec<u8>) {
    if !args.flat(1).eq_ignore_ascii_case(b"object") {
        return out.put(OK);
    }
    let found = reports.into_iter().find_map(|(_, report)| match report {
        Report::Object(text) => Some(text),
        _ => None,
    });
    match found {
        Some(text) => reply::simple(out, &text),
        None => reply::error(out, "ERR no such key"),
    }
}

fn is_local(peer: Address) -> bool {
    match peer {
        Address::Inet(address) => address.ip().is_loopback(),
        Address::Unix | Address::Mem(_) => true,
    }
}

fn seconds_ns(text: &[u8]) -> Option<u64> {
    let seconds: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let duration =
        (0.0..=SLEEP_S_MAX).contains(&seconds).then(|| std::time::Duration::from_secs_f64(seconds))?;
    u64::try_from(duration.as_nanos()).ok()
}

/// A reply of the type that is named, with the values of Redis.
fn put_example(name: &[u8], proto: Proto, out: &mut Vec<u8>) {
    match name.to_ascii_lowercase().as_slice() {
        b"string" => reply::bulk(out, b"Hello World"),
        b"integer" => reply::integer(out, 12345),
        b"double" => reply::double(out, proto, EXAMPLE),
        b"bignum" => reply::big(out, proto, b"1234567999999999999999999999999999999"),
        b"null" => reply::null(out, proto),
        b"array" => {
            reply::array(out, 3);
            (0..3).for_each(|number| reply::integer(out, number));
        }
        b"set" => {
            reply::set(out, proto, 3);
            (0..3).for_each(|number| reply::integer(out, number));
        }
        b"map" => {
            reply::map(out, proto, 3);
            for number in 0..3 {
                reply::integer(out, number);
                reply::boolean(out, proto, number == 1);
            }
        }
        b"attrib" => {
            if proto == Proto::Resp3 {
                out.put(b"|1\r\n");
                reply::bulk(out, b"key-popularity");
                reply::array(out, 2);
                reply::bulk(out, b"key:123");
                reply::integer(out, 90);
            }
            reply::bulk(out, b"Some real reply following the attribute");
        }
        b"push" if proto == Proto::Resp2 => {
            reply::error(out, "ERR RESP2 is not supported by this command");
        }
        b"push" => {
            reply::push(out, proto, 2);
            reply::bulk(out, b"server-cpu-usage");
            reply::integer(out, 42);
            reply::bulk(out, b"Some real reply following the push reply");
        }
        b"verbatim" => reply::verbatim(out, proto, b"txt", b"This is a verbatim\nstring"),
        b"true" => reply::boolean(out, proto, true),
        b"false" => reply::boolean(out, proto, false),
        _ => reply::error(out, NO_PROTOCOL),
    }
}
