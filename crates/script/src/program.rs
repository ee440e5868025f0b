//! From a script's source to bytecode, and what its first line says.

use std::sync::{Arc, LazyLock};

use mlua::chunk::Compiler;

use crate::{Sha, sandbox};

/// Longest source. A longer one is refused: compiling is not interrupted, and takes up to half a microsecond for a byte.
pub const SOURCE_SIZE_MAX: usize = 256 * 1024;

/// Longest text that a script can load, for which its lane waits.
pub(crate) const LOAD_SIZE_MAX: usize = 16 * 1024;
/// Fuel for each of its bytes.
pub(crate) const LOAD_FUEL: usize = 20;

/// How the interpreter calls a script in its errors.
pub(crate) const CHUNK: &str = "user_script";
/// Stands before a script, in its first line: what the thread calls it with (`sandbox.luau`).
const LISTS: &[u8] = b"local KEYS, ARGV = ...; ";

/// Luau's globals with builtins that scripts do not have, all of them (`Compiler/src/Builtins.cpp` of Luau).
const NOT_GLOBALS: [&str; 6] = ["bit32", "buffer", "integer", "rawlen", "typeof", "vector"];
/// Builtins that they do not have of libraries that they have.
const NOT_IN_LIBRARIES: [&str; 8] = [
    "math.clamp",
    "math.isfinite",
    "math.isinf",
    "math.isnan",
    "math.lerp",
    "math.round",
    "math.sign",
    "table.unpack",
];

/// A script that has been compiled. Cheap to clone; all lanes run the same one.
#[derive(Clone, Debug)]
pub struct Program {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sha: Sha,
    flags: Flags,
    bytecode: Vec<u8>,
    is_given_lists: bool,
}

/// What the first line of a script declares (`#!lua flags=no-writes,allow-oom`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// There is such a line. Without one Redis decides command by command, as it did before it had flags.
    pub is_declared: bool,
    /// `no-writes`: commands that write are refused, and the script may run where only reading is allowed.
    pub no_writes: bool,
    /// `allow-oom`: may run when memory is full.
    pub allow_oom: bool,
    /// `allow-stale`: may run on a replica that has lost its master.
    pub allow_stale: bool,
    /// `no-cluster`: refused in a cluster.
    pub no_cluster: bool,
    /// `allow-cross-slot-keys`: keys may be of several slots.
    pub allow_cross_slot_keys: bool,
    /// `allow-undeclared-keys`: keys may be others than those of KEYS. Not a flag of Redis, where that is always so.
    pub allow_undeclared_keys: bool,
}

impl Program {
    /// Compiles a script.
    ///
    /// # Errors
    /// What Redis answers to a script that cannot be compiled: the whole text with its code, without the dash. The compiler's part
    /// of it is Luau's.
    pub fn compile(source: &[u8]) -> Result<Program, String> {
        if source.len() > SOURCE_SIZE_MAX {
            return Err(format!("ERR a script is longer than {SOURCE_SIZE_MAX} bytes"));
        }
        LazyLock::force(&sandbox::BYTECODE);
        let (flags, body) = shebang(source)?;
        let with_lists = bytecode_with_lists(body);
        let is_given_lists = with_lists.is_some();
        let bytecode = with_lists
            .map_or_else(|| bytecode(body), Ok)
            .map_err(|text| format!("ERR Error compiling script (new function): {CHUNK}{text}"))?;
        Ok(Program { inner: Arc::new(Inner { sha: Sha::of(source), flags, bytecode, is_given_lists }) })
    }

    /// Its name.
    pub fn sha(&self) -> &Sha {
        &self.inner.sha
    }

    /// What its first line declares.
    pub fn flags(&self) -> Flags {
        self.inner.flags
    }

    /// Bytes it keeps, whoever shares them.
    pub fn size(&self) -> usize {
        size_of::<Inner>() + self.inner.bytecode.capacity()
    }

    pub(crate) fn bytecode(&self) -> &[u8] {
        &self.inner.bytecode
    }

    /// It is to be called with its lists, and else finds them in its globals.
    pub(crate) fn is_given_lists(&self) -> bool {
        self.inner.is_given_lists
    }
}

/// Compiles a script whose lists are its first local variables, so that it finds them at once. None where that would be seen, since it asks for its own
/// arguments or sets one of them; if it has no room for two more variables, or is wrong. It finds them in its globals then.
fn bytecode_with_lists(source: &[u8]) -> Option<Vec<u8>> {
    let would_see =
        source.windows(3).any(|part| part == b"...") || sets(source, b"KEYS") || sets(source, b"ARGV");
    if would_see { None } else { bytecode(&[LISTS, source].concat()).ok() }
}

/// Whether a text has this name with one `=` behind it.
fn sets(source: &[u8], name: &[u8]) -> bool {
    let behind = source.windows(name.len()).enumerate().filter(|(_, part)| *part == name);
    behind
        .map(|(at, _)| source[at + name.len()..].trim_ascii_start())
        .any(|rest| rest.first() == Some(&b'=') && rest.get(1) != Some(&b'='))
}

/// Compiles a chunk. Its error begins at the colon behind the chunk's name.
pub(crate) fn bytecode(source: &[u8]) -> Result<Vec<u8>, String> {
    // A builtin that the interpreter knows by its name is called without a look at the globals, and so must be one that is there, and Luau's own.
    // `getmetatable(_G)` is to complain of what a library lacks first while it is loaded.
    Compiler::new()
        .set_optimization_level(1)
        .set_debug_level(1)
        .set_mutable_globals(["KEYS", "ARGV", "_G"].iter().chain(&NOT_GLOBALS).copied())
        .set_disabled_builtins(
            ["tostring", "unpack", "getmetatable"].iter().chain(&NOT_IN_LIBRARIES).copied(),
        )
        .compile(source)
        .map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => format!(":{message}"),
            other => format!(": {other}"),
        })
}

/// Reads the first line, if it is a declaration; what is left begins at that line's end, so that lines keep their numbers.
fn shebang(source: &[u8]) -> Result<(Flags, &[u8]), String> {
    let mut flags = Flags::default();
    if !source.starts_with(b"#!") {
        return Ok((flags, source));
    }
    let end = source.iter().position(|&byte| byte == b'\n').ok_or("ERR Invalid script shebang")?;
    let (line, body) = source.split_at(end);
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {}", String::from_utf8_lossy(engine)));
    }
    flags.is_declared = true;
    for word in words {
        let names = word
            .strip_prefix(b"flags=")
            .ok_or_else(|| format!("ERR Unknown lua shebang option: {}", String::from_utf8_lossy(word)))?;
        if names.is_empty() {
            continue;
        }
        for name in names.split(|&byte| byte == b',') {
            *flags.named(name).ok_or_else(|| {
                format!("ERR Unexpected flag in script shebang: {}", String::from_utf8_lossy(name))
            })? = true;
        }
    }
    Ok((flags, body))
}

impl Flags {
    /// What a source declares; nothing if its first line is wrong, with which it doesn't compile.
    pub fn of(source: &[u8]) -> Flags {
        shebang(source).map_or(Flags::default(), |(flags, _)| flags)
    }

    /// The names of those that are set, in Redis' order.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.no_writes, "no-writes"),
            (self.allow_oom, "allow-oom"),
            (self.allow_stale, "allow-stale"),
            (self.no_cluster, "no-cluster"),
            (self.allow_cross_slot_keys, "allow-cross-slot-keys"),
            (self.allow_undeclared_keys, "allow-undeclared-keys"),
        ];
        all.into_iter().filter_map(|(is_set, name)| is_set.then_some(name)).collect()
    }

    /// Whether there is a flag of this name.
    pub(crate) fn is_name(name: &[u8]) -> bool {
        Flags::default().named(&name.to_ascii_lowercase()).is_some()
    }

    pub(crate) fn named(&mut self, name: &[u8]) -> Option<&mut bool> {
        Some(match name {
            b"no-writes" => &mut self.no_writes,
            b"allow-oom" => &mut self.allow_oom,
            b"allow-stale" => &mut self.allow_stale,
            b"no-cluster" => &mut self.no_cluster,
            b"allow-cross-slot-keys" => &mut self.allow_cross_slot_keys,
            b"allow-undeclared-keys" => &mut self.allow_undeclared_keys,
            _ => return None,
        })
    }
}
