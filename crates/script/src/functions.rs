//! Libraries of functions: what FUNCTION LOAD brings, as Redis 7.0.15 has it (`src/functions.c`, `src/function_lua.c`).
//!
//! ```text
//! #!lua name=lib                                    the header: an engine and a name
//! local function twice(n) return 2 * n end          what only the library sees, its functions' upvalues
//! redis.register_function('f', function(keys, args) return twice(#keys) end)
//! ```
//! A library's text runs once wherever it is loaded, and can do nothing meanwhile but register functions and write to the log: it finds neither
//! `redis.call` nor `math`, and its globals are empty and read-only. So it comes to the same functions everywhere, and an interpreter
//! may forget it at any time and load it again. [`Library::load`] does it for those who only want to know its functions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mlua::Function as Callback;
use wire::client::Reply;

use crate::program::{self, Flags, SOURCE_SIZE_MAX};
use crate::{Engine, Step, portable};

/// How the interpreter calls a library in its errors.
pub(crate) const CHUNK: &str = "user_function";

/// Functions of a library, at most, and bytes of their names and of what is said of them.
const COUNT_MAX: usize = 4096;
const TEXT_SIZE_MAX: usize = 256 * 1024;
/// Interrupts that a library may take to be loaded; with more it is refused. 20 to 140 ms, for which the thread that loads it does nothing else.
const LOAD_FUEL_MAX: u32 = 1_000_000;
/// Fuel of one go.
const GO_FUEL: u32 = 10_000;

const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// What a library's first line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The library's name: letters, digits and underscores.
    pub name: String,
    /// Where the line ends, and with it the header.
    size: usize,
}

impl Header {
    /// Reads the header of a source.
    ///
    /// # Errors
    /// What Redis answers to a wrong one, whole.
    pub fn of(source: &[u8]) -> Result<Header, Vec<u8>> {
        if !source.starts_with(b"#!") {
            return Err(b"ERR Missing library metadata".to_vec());
        }
        const INVALID: &[u8] = b"ERR Invalid library metadata";
        // In C a text ends at its first NUL.
        let end = source.iter().position(|byte| matches!(byte, b'\n' | 0));
        let size = end.filter(|&end| source[end] == b'\n').ok_or(INVALID)?;
        let words = wire::resp::words(&source[..size]).ok_or(INVALID)?;
        let (engine, words) = words.split_first().ok_or(INVALID)?;
        let mut name = None;
        for word in words {
            match word.split_at_checked(5) {
                Some((b, value)) if b.eq_ignore_ascii_case(b"name=") => {
                    if name.replace(value).is_some() {
                        let text = "ERR Invalid metadata value, name argument was given multiple times";
                        return Err(text.into());
                    }
                }
                _ => {
                    let word = wire::reply::quoted(word);
                    return Err([b"ERR Invalid metadata value given: ", word].concat());
                }
            }
        }
        let name = name.ok_or("ERR Library name was not given")?;
        let name = valid_name(name).ok_or_else(|| format!("ERR {BAD_NAME}").into_bytes())?;
        let engine = engine.get(2..).unwrap_or_default();
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err([b"ERR Engine '", wire::reply::quoted(engine), b"' not found"].concat());
        }
        Ok(Header { name, size })
    }
}

/// A name that functions and libraries may have.
fn valid_name(name: &[u8]) -> Option<String> {
    let is_fine = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_fine.then(|| String::from_utf8_lossy(name).into_owned())
}

/// A function, as its library has registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Letters, digits and underscores.
    pub name: String,
    /// What its library says of it.
    pub description: Option<Vec<u8>>,
    /// What it may do.
    pub flags: Flags,
}

/// A library that has been compiled, and whose functions are known. Cheap to clone; all lanes have the same one.
#[derive(Clone, Debug)]
pub struct Library {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    number: u64,
    name: String,
    source: Vec<u8>,
    bytecode: Vec<u8>,
    functions: Vec<Function>,
    is_portable: bool,
}

impl Library {
    /// Compiles a library, and runs it once, in an interpreter that is used for nothing else, to learn its functions. `number` is its
    /// own: interpreters tell libraries apart by it. What it writes to the log goes to `logged`.
    ///
    /// # Errors
    /// What Redis answers, whole; the compiler's part of it is Luau's.
    pub fn load(
        header: Header,
        source: &[u8],
        number: u64,
        engine: &mut Engine,
        logged: &mut Vec<(u8, Vec<u8>)>,
    ) -> Result<Library, Vec<u8>> {
        if source.len() > SOURCE_SIZE_MAX {
            return Err(format!("ERR a library is longer than {SOURCE_SIZE_MAX} bytes").into());
        }
        let bytecode = program::bytecode(&source[header.size..])
            .map_err(|text| format!("ERR Error compiling function: {CHUNK}{text}"))?;
        let name = header.name;
        let (source, functions) = (source.to_vec(), Vec::new());
        let mut inner = Inner { number, name, source, bytecode, functions, is_portable: false };
        let mut run = engine.begin_load(&inner.bytecode)?;
        let mut fuel_left = LOAD_FUEL_MAX;
        loop {
            match run.resume(engine, None, GO_FUEL, 0) {
                Step::More if fuel_left == 0 => {
                    return Err("ERR Error registering functions: ERR FUNCTION LOAD timeout".into());
                }
                Step::Log { level, text } => logged.push((level, text)),
                Step::Done(Reply::Error(text)) => return Err(text),
                Step::Done(_) => break,
                Step::More => {}
                Step::Call { .. } | Step::Return(_) => unreachable!("a library calls and returns nothing"),
            }
            fuel_left = fuel_left.saturating_sub(GO_FUEL - engine.fuel_left().min(GO_FUEL));
        }
        inner.functions = run.registered().functions();
        if inner.functions.is_empty() {
            return Err("ERR No functions registered".into());
        }
        // Of two names that differ in case alone a server of Redis forgets one, and ends when the library goes.
        let names: BTreeSet<String> = inner.functions.iter().map(|it| it.name.to_ascii_lowercase()).collect();
        let are_known = inner.functions.iter().all(|function| !function.flags.allow_undeclared_keys);
        inner.is_portable = are_known
            && names.len() == inner.functions.len()
            && portable::is_lua51(&inner.source[header.size..]);
        Ok(Library { inner: Arc::new(inner) })
    }

    /// Whether a server of Redis can load it, as far as its text tells: it is Lua 5.1, and has no flag of ours.
    pub fn is_portable(&self) -> bool {
        self.inner.is_portable
    }

    /// By which it is told apart from others of the same name.
    pub fn number(&self) -> u64 {
        self.inner.number
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its text, header included.
    pub fn source(&self) -> &[u8] {
        &self.inner.source
    }

    /// What it has registered, by name.
    pub fn functions(&self) -> &[Function] {
        &self.inner.functions
    }

    /// Bytes it keeps, whoever shares them.
    pub fn size(&self) -> usize {
        let Inner { name, source, bytecode, functions, .. } = &*self.inner;
        let of_function = |function: &Function| {
            let described = function.description.as_ref().map_or(0, Vec::len);
            size_of::<Function>() + function.name.len() + described
        };
        let functions: usize = functions.iter().map(of_function).sum();
        size_of::<Inner>() + name.len() + source.len() + bytecode.len() + functions
    }

    pub(crate) fn bytecode(&self) -> &[u8] {
        &self.inner.bytecode
    }
}

/// What a library that is being loaded has registered, by name.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    by_name: BTreeMap<String, (Function, Callback)>,
    text_size: usize,
}

impl Registered {
    /// Adds a function. `flags` are names, with commas between them, that are flags.
    ///
    /// # Errors
    /// Why not, in Redis' words.
    pub(crate) fn add(
        &mut self,
        name: &[u8],
        callback: Callback,
        description: Option<Vec<u8>>,
        flags: Option<Vec<u8>>,
    ) -> Result<(), String> {
        let name = valid_name(name).ok_or(BAD_NAME)?;
        if self.by_name.contains_key(&name) {
            return Err("Function already exists in the library".to_owned());
        }
        self.text_size += name.len() + description.as_ref().map_or(0, Vec::len);
        if self.by_name.len() == COUNT_MAX || self.text_size > TEXT_SIZE_MAX {
            return Err(format!(
                "a library has more than {COUNT_MAX} functions, or {TEXT_SIZE_MAX} bytes of names and descriptions"
            ));
        }
        let mut declared = Flags { is_declared: true, ..Flags::default() };
        for flag in flags.unwrap_or_default().split(|&byte| byte == b',') {
            if let Some(flag) = declared.named(&flag.to_ascii_lowercase()) {
                *flag = true;
            }
        }
        let function = Function { name: name.clone(), description, flags: declared };
        self.by_name.insert(name, (function, callback));
        Ok(())
    }

    fn functions(self) -> Vec<Function> {
        self.by_name.into_values().map(|(function, _)| function).collect()
    }

    /// What is to be called, in the order of a library's functions; none if it has come to others than that.
    pub(crate) fn callbacks_of(self, library: &Library) -> Option<Vec<Callback>> {
        let is_same = self.by_name.keys().eq(library.functions().iter().map(|function| &function.name));
        is_same.then(|| self.by_name.into_values().map(|(_, callback)| callback).collect())
    }
}
