//! FUNCTION: libraries come and go. The control thread loads each once to learn its functions, and tells every lane, and replicas, of
//! a change before it answers; a lane's interpreter loads a library when one of its functions is first called there.
//!
//! ```text
//! FUNCTION LOAD ─▶ compile, load ─▶ all functions anew ─▶ every lane ─▶ the answer
//!                                         └─▶ FUNCTION LOAD REPLACE … in the stream, in front of whatever they do
//! ```

use std::ops::Deref;
use std::sync::Arc;

use script::{Engine, Header, Library, SOURCE_SIZE_MAX};
use wire::command::Id;
use wire::glob::{self, Case};
use wire::rdb::functions::{self as format, Wrong};
use wire::rdb::lzf::Compressor;
use wire::reply::{self, OK, Proto, Put};

use super::{Begun, Control, Machine, scripts};
use crate::Now;
use crate::admin::{Order, Question, Report};
use crate::functions::{Functions, Policy};
use crate::help;
use crate::request::Args;
use crate::scripts::{ScriptOrder, bytes_of};

/// How the engine is called in answers.
const ENGINE: &[u8] = b"LUA";

/// What the control thread knows of functions.
#[derive(Default)]
pub(super) struct KnownFunctions {
    all: Arc<Functions>,
    /// Those before, which lanes may still have. Whoever drops the last of them frees all that was in it, which is not to be a lane.
    retired: Vec<Arc<Functions>>,
    /// The newest library's number.
    newest: u64,
}

impl Deref for KnownFunctions {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.all
    }
}

impl Control {
    /// FUNCTION and its subcommands, but for HELP.
    pub(super) fn begin_function(
        &mut self,
        question: &Question,
        now: Now,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) -> Begun {
        let args = Args::Owned(&question.request);
        let changed = match question.command.id {
            Id::FunctionKill => return self.kill_scripts(true, now),
            Id::FunctionStats => return Begun::InSight(Order::FindFunction),
            Id::FunctionDump => {
                self.dump_functions(out);
                return Begun::Answered;
            }
            Id::FunctionList => {
                self.list_functions(args, question.from.proto, out);
                return Begun::Answered;
            }
            Id::FunctionDelete => std::str::from_utf8(args.flat(2))
                .ok()
                .and_then(|name| self.functions.without(name))
                .ok_or_else(|| b"ERR Library not found".to_vec()),
            Id::FunctionFlush => flush(args),
            Id::FunctionLoad => self.load_function(args, machine),
            _ => self.restore_functions(args, machine),
        };
        match changed {
            Ok(functions) => {
                let functions = Arc::new(functions);
                self.tell_replicas_of(&functions);
                let before = std::mem::replace(&mut self.functions.all, Arc::clone(&functions));
                self.functions.retired.push(before);
                Begun::Everywhere(Order::Scripts(ScriptOrder::Functions(functions)))
            }
            Err(text) => {
                reply::error_bytes(out, &text);
                Begun::Answered
            }
        }
    }

    /// Answers, now that every lane has done its part.
    pub(super) fn conclude_function(
        &mut self,
        question: &Question,
        reports: &[(u16, Report)],
        now: Now,
        out: &mut Vec<u8>,
    ) {
        self.functions.retired.retain(|before| Arc::strong_count(before) > 1);
        let args = Args::Owned(&question.request);
        match question.command.id {
            Id::FunctionLoad => {
                let header = Header::of(&bytes_of(args.get(args.len() - 1)));
                reply::bulk(out, header.map_or(String::new(), |header| header.name).as_bytes());
            }
            Id::FunctionStats => self.show_running(reports, question.from.proto, now, out),
            _ => out.put(OK),
        }
    }

    /// `FUNCTION LOAD [REPLACE] code`
    fn load_function(&mut self, args: Args<'_>, machine: &mut impl Machine) -> Result<Functions, Vec<u8>> {
        let mut policy = Policy::Append;
        for index in 2..args.len() - 1 {
            let option = args.flat(index);
            if !option.eq_ignore_ascii_case(b"replace") {
                return Err([b"ERR Unknown option given: ", reply::quoted(option)].concat());
            }
            policy = Policy::Replace;
        }
        let source = bytes_of(args.get(args.len() - 1));
        let header = Header::of(&source)?;
        if policy == Policy::Append && self.functions.library(&header.name).is_some() {
            return Err(format!("ERR Library '{}' already exists", header.name).into());
        }
        let library = self.load_library(header, &source, &mut self.engine_for_loading(), machine)?;
        Ok(self.functions.with(vec![library], policy)?)
    }

    /// `FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]`
    fn restore_functions(
        &mut self,
        args: Args<'_>,
        machine: &mut impl Machine,
    ) -> Result<Functions, Vec<u8>> {
        let policy = match args.len() {
            3 => Policy::Append,
            4 => match args.flat(3).to_ascii_lowercase().as_slice() {
                b"append" => Policy::Append,
                b"replace" => Policy::Replace,
                b"flush" => Policy::Flush,
                _ => {
                    let text =
                        "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
                    return Err(text.into());
                }
            },
            _ => return Err(help::unknown_shape("FUNCTION", args)),
        };
        let sources = format::read(&bytes_of(args.get(2)), SOURCE_SIZE_MAX).map_err(|wrong| match wrong {
            Wrong::Seal => b"ERR DUMP payload version or checksum are wrong".to_vec(),
            Wrong::Type => b"ERR given type is not a function".to_vec(),
            Wrong::Library => b"ERR Failed loading library payload".to_vec(),
            Wrong::TooLong => format!("ERR a library is longer than {SOURCE_SIZE_MAX} bytes").into(),
        })?;
        let mut engine = self.engine_for_loading();
        let mut libraries: Vec<Library> = Vec::new();
        for source in sources {
            let header = Header::of(&source)?;
            if libraries.iter().any(|library| library.name() == header.name) {
                return Err(format!("ERR Library '{}' already exists", header.name).into());
            }
            libraries.push(self.load_library(header, &source, &mut engine, machine)?);
        }
        Ok(self.functions.with(libraries, policy)?)
    }

    /// An interpreter of its own, so that no lane's is in the way, and nothing is left of it.
    fn engine_for_loading(&self) -> Engine {
        Engine::new(self.settings.script_memory_max)
    }

    fn load_library(
        &mut self,
        header: Header,
        source: &[u8],
        engine: &mut Engine,
        machine: &mut impl Machine,
    ) -> Result<Library, Vec<u8>> {
        self.functions.newest += 1;
        let mut logged = Vec::new();
        let library = Library::load(header, source, self.functions.newest, engine, &mut logged);
        for said in &logged {
            if let Some(line) = scripts::said(said, self.config.value("loglevel")) {
                machine.warn(&line);
            }
        }
        if let Some(library) = library.as_ref().ok().filter(|library| !library.is_portable()) {
            let name = library.name();
            machine.note(&format!(
                "library {name} is kept from replicas: a server of Redis can't load what it uses of Luau or declares"
            ));
        }
        library
    }

    fn dump_functions(&self, out: &mut Vec<u8>) {
        let mut compressor = self.settings.compresses_dumps.then(Compressor::default);
        let mut payload = Vec::new();
        for library in self.functions.libraries() {
            format::put_library(&mut payload, library.source(), compressor.as_mut());
        }
        format::seal(&mut payload);
        reply::bulk(out, &payload);
    }

    /// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
    fn list_functions(&self, args: Args<'_>, proto: Proto, out: &mut Vec<u8>) {
        let (mut pattern, mut with_code) = (None, false);
        let mut index = 2;
        while index < args.len() {
            let word = args.flat(index);
            if !with_code && word.eq_ignore_ascii_case(b"withcode") {
                with_code = true;
            } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
                index += 1;
                if index == args.len() {
                    return reply::error(out, "ERR library name argument was not given");
                }
                pattern = Some(args.flat(index));
            } else {
                return reply::error_bytes(out, &[b"ERR Unknown argument ", reply::quoted(word)].concat());
            }
            index += 1;
        }
        let is_meant = |library: &&Library| {
            pattern.is_none_or(|pattern| glob::matches(pattern, library.name().as_bytes(), Case::Ignored))
        };
        let libraries: Vec<&Library> = self.functions.libraries().filter(is_meant).collect();
        reply::array(out, libraries.len());
        for library in libraries {
            put_library(library, with_code, proto, out);
        }
    }

    /// FUNCTION STATS: of several functions that run the one that has run longest.
    fn show_running(&self, reports: &[(u16, Report)], proto: Proto, now: Now, out: &mut Vec<u8>) {
        let running = reports.iter().filter_map(|(_, report)| match report {
            Report::Function(running) => running.as_deref(),
            _ => None,
        });
        reply::map(out, proto, 2);
        reply::bulk(out, b"running_script");
        match running.min_by_key(|running| running.began_ns) {
            None => reply::null(out, proto),
            Some(running) => {
                reply::map(out, proto, 3);
                reply::bulk(out, b"name");
                reply::bulk(out, running.name.as_bytes());
                reply::bulk(out, b"command");
                reply::array(out, running.words.len());
                running.words.iter().for_each(|word| reply::bulk(out, word));
                reply::bulk(out, b"duration_ms");
                let ms = now.mono_ns.saturating_sub(running.began_ns) / 1_000_000;
                reply::integer(out, i64::try_from(ms).unwrap_or(i64::MAX));
            }
        }
        let (libraries, functions) = self.functions.counts();
        reply::bulk(out, b"engines");
        reply::map(out, proto, 1);
        reply::bulk(out, ENGINE);
        reply::map(out, proto, 2);
        for (name, count) in [(&b"libraries_count"[..], libraries), (b"functions_count", functions)] {
            reply::bulk(out, name);
            reply::integer(out, i64::try_from(count).expect("there is an end to them"));
        }
    }
}

/// `FUNCTION FLUSH [ASYNC | SYNC]`
fn flush(args: Args<'_>) -> Result<Functions, Vec<u8>> {
    match args.len() {
        2 => Ok(Functions::default()),
        3 if [&b"sync"[..], b"async"].iter().any(|word| args.flat(2).eq_ignore_ascii_case(word)) => {
            Ok(Functions::default())
        }
        3 => Err(b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option".to_vec()),
        _ => Err(help::unknown_shape("FUNCTION", args)),
    }
}

fn put_library(library: &Library, with_code: bool, proto: Proto, out: &mut Vec<u8>) {
    reply::map(out, proto, if with_code { 4 } else { 3 });
    reply::bulk(out, b"library_name");
    reply::bulk(out, library.name().as_bytes());
    reply::bulk(out, b"engine");
    reply::bulk(out, ENGINE);
    reply::bulk(out, b"functions");
    reply::array(out, library.functions().len());
    for function in library.functions() {
        reply::map(out, proto, 3);
        reply::bulk(out, b"name");
        reply::bulk(out, function.name.as_bytes());
        reply::bulk(out, b"description");
        match &function.description {
            Some(description) => reply::bulk(out, description),
            None => reply::null(out, proto),
        }
        reply::bulk(out, b"flags");
        let flags = function.flags.names();
        reply::set(out, proto, flags.len());
        flags.into_iter().for_each(|flag| reply::simple(out, flag));
    }
    if with_code {
        reply::bulk(out, b"library_code");
        reply::bulk(out, library.source());
    }
}
