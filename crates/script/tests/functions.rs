//! Libraries of functions: what they may register, and how they are called. Texts are those of redis-server 7.0.15, but for the interpreter's own.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use script::{Engine, Flags, Function, Header, Library};
use wire::client::Reply;

mod harness;

use harness::{MEMORY, Server, show};

fn load(source: &str) -> Result<Library, String> {
    load_with(source, 1, &mut Vec::new())
}

fn load_with(source: &str, number: u64, logged: &mut Vec<(u8, Vec<u8>)>) -> Result<Library, String> {
    let text = |text: Vec<u8>| String::from_utf8(text).unwrap();
    let header = Header::of(source.as_bytes()).map_err(text)?;
    Library::load(header, source.as_bytes(), number, &mut Engine::new(MEMORY), logged).map_err(text)
}

/// What a library comes to whose lines these are, behind its header.
fn check_load(body: &str, want: &str) {
    let got = match load(&format!("#!lua name=lib\n{body}")) {
        Ok(library) => {
            library.functions().iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(" ")
        }
        Err(text) => format!("-{text}"),
    };
    assert_eq!(got, want, "{body}");
}

/// Calls the functions of one library, all in one engine.
struct Caller {
    engine: Engine,
    server: Server,
    library: Library,
    fuel: u32,
}

impl Caller {
    fn of(body: &str, fuel: u32) -> Caller {
        let library =
            load(&format!("#!lua name=lib\n{body}")).unwrap_or_else(|text| panic!("{body}: {text}"));
        Caller { engine: Engine::new(MEMORY), server: Server::default(), library, fuel }
    }

    /// With `k1` as its key and `a1`, `a2` as its arguments.
    fn call(&mut self, name: &str) -> Reply {
        let functions = self.library.functions();
        let index = functions.iter().position(|function| function.name == name).expect("it was registered");
        while self.engine.is_crowded() {
            self.engine.tidy();
        }
        let keys_and_args: (&[&[u8]], &[&[u8]]) = (&[b"k1"], &[b"a1", b"a2"]);
        let begun = self.engine.begin_function(&self.library, index, false, keys_and_args.0, keys_and_args.1);
        let mut run = begun.expect("there is memory");
        self.server.finish(&mut self.engine, &mut run, self.fuel)
    }
}

/// What a function answers whose body this is, called twice; paused often, and never.
fn check(body: &str, want: &str) {
    for fuel in [1, 7, 100_000] {
        let mut caller =
            Caller::of(&format!("redis.register_function('f', function(keys, args)\n{body}\nend)"), fuel);
        for _ in 0..2 {
            assert_eq!(show(&caller.call("f")).replace('\\', ""), want, "{body} with {fuel}");
        }
    }
}

#[test]
fn headers_are_read_as_by_redis() {
    let check = |source: &str, want: &str| {
        let got = Header::of(source.as_bytes());
        let got = got.map_or_else(|text| String::from_utf8(text).unwrap(), |header| header.name);
        assert_eq!(got, want, "{source:?}");
    };
    const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    check("#!lua name=lib\n", "lib");
    check("#!LUA \t NAME=Lib_1 \r\nx", "Lib_1");
    check("#!lua name=\"lib\"\n", "lib");
    check("#!lua 'name=lib'\n", "lib");
    check("no", "ERR Missing library metadata");
    check("", "ERR Missing library metadata");
    check("#!lua name=x", "ERR Invalid library metadata");
    check("#!lua name=z\0z\n", "ERR Invalid library metadata");
    check("#!lua name=\"x\n", "ERR Invalid library metadata");
    check("#!lua\n", "ERR Library name was not given");
    check("#!\n", "ERR Library name was not given");
    check("#!lua name=\n", BAD_NAME);
    check("#!js name=a-b\n", BAD_NAME);
    check("#!js name=x\n", "ERR Engine 'js' not found");
    check("#! name=x\n", "ERR Engine '' not found");
    check("#!lua name=x foo\n", "ERR Invalid metadata value given: foo");
    check("#! lua name=x\n", "ERR Invalid metadata value given: lua");
    check("#!lua name=x name=y\n", "ERR Invalid metadata value, name argument was given multiple times");
}

#[test]
fn functions_are_registered_in_both_forms() {
    let library = load(
        "#!lua name=lib\nlocal f = function() end redis.register_function('b', f) redis.register_function('B', f)
        redis.register_function{function_name='a', callback=f, description='some', flags={'no-writes', 'ALLOW-OOM'}}
        redis.register_function{FUNCTION_NAME=3, Callback=f, description=5, flags={}}",
    )
    .unwrap();
    let none = Flags { is_declared: true, ..Flags::default() };
    let function = |name: &str, description: Option<&str>, flags| Function {
        name: name.to_owned(),
        description: description.map(Into::into),
        flags,
    };
    let want = [
        function("3", Some("5"), none),
        function("B", None, none),
        function("a", Some("some"), Flags { no_writes: true, allow_oom: true, ..none }),
        function("b", None, none),
    ];
    assert_eq!(library.functions(), want);
    assert_eq!(library.functions()[2].flags.names(), ["no-writes", "allow-oom"]);
    assert_eq!((library.name(), library.number()), ("lib", 1));
}

#[test]
fn what_is_registered_wrongly_is_refused_as_by_redis() {
    let check = |call: &str, want: &str| {
        let body = format!("local f = function() end\nredis.register_function{call}");
        check_load(&body, &format!("-ERR Error registering functions: ERR {want}"));
    };
    check("()", "wrong number of arguments to redis.register_function");
    check("('f', f, 3)", "wrong number of arguments to redis.register_function");
    check(
        "('f')",
        "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
    );
    check("(nil, f)", "first argument to redis.register_function must be a string");
    check("('f', 'g')", "second argument to redis.register_function must be a function");
    let names = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    for name in ["''", "'x y'", "'x\\0'", "1.5"] {
        check(&format!("({name}, f)"), names);
    }
    check("('f', f) redis.register_function('f', f)", "Function already exists in the library");
    check("{function_name=f}", "function_name argument given to redis.register_function must be a string");
    check("{callback='f'}", "callback argument given to redis.register_function must be a function");
    check("{description={}}", "description argument given to redis.register_function must be a string");
    check(
        "{flags='no-writes'}",
        "flags argument to redis.register_function must be a table representing function flags",
    );
    check("{flags={'x'}}", "unknown flag given");
    check("{flags={f}}", "unknown flag given");
    check("{flags={'no-writes,allow-oom'}}", "unknown flag given");
    check("{other='x'}", "unknown argument given to redis.register_function");
    check("{'x'}", "unknown argument given to redis.register_function");
    check("{[true]='x'}", "named argument key given to redis.register_function is not a string");
    check("{callback=f}", "redis.register_function must get a function name argument");
    check("{function_name='f'}", "redis.register_function must get a callback argument");
    let many = "{} for i = 1, 5000 do redis.register_function('f' .. i, f) end";
    let body = format!("local f = function() end local x = {many}");
    let want = "-ERR Error registering functions: ERR a library has more than 4096 functions, or 262144 bytes of names and descriptions";
    check_load(&body, want);
    let long = "local f = function() end local long = ('x'):rep(200000) redis.register_function{function_name='f', callback=f, description=long}
        redis.register_function{function_name='g', callback=f, description=long}";
    check_load(long, want);
}

#[test]
fn a_library_that_is_loaded_sees_nothing_but_what_registers() {
    let check =
        |body: &str, want: &str| check_load(body, &format!("-ERR Error registering functions: ERR {want}"));
    let absent = |name: &str| {
        format!("user_function:2: Script attempted to access nonexistent global variable '{name}'")
    };
    for (body, name) in [
        ("math.random()", "math"),
        ("error('x')", "error"),
        ("local m = getmetatable(_G)", "getmetatable"),
        ("return _G", "_G"),
        ("return KEYS", "KEYS"),
        ("redis.call('ping')", "call"),
        ("redis.setresp(3)", "setresp"),
        ("redis.redis.call('ping')", "redis"),
    ] {
        check(body, &absent(name));
    }
    check("a = 1", "user_function:2: Attempt to modify a readonly table");
    check("redis.x = 1", "user_function:2: Attempt to modify a readonly table");
    check("redis.log('x')", "redis.log() requires two arguments or more.");
    check("redis.log(9, 'x')", "Invalid debug level.");
    check("while true do end", "FUNCTION LOAD timeout");
    check("local x = nil\nreturn x.y", "user_function:3: attempt to index nil with 'y'");
    check_load("", "-ERR No functions registered");
    check_load(
        "bad script",
        "-ERR Error compiling function: user_function:2: Incomplete statement: expected assignment or a function call",
    );
    let long = format!("#!lua name=lib\n--{}", "x".repeat(256 * 1024));
    assert_eq!(load(&long).unwrap_err(), "ERR a library is longer than 262144 bytes");
    let hoards = "local t = {} for i = 1, 100000 do t[i] = ('x'):rep(10000 + i) end";
    let text = load(&format!("#!lua name=lib\n{hoards}")).unwrap_err();
    assert!(text.contains("ran out of memory"), "{text}");
    let mut logged = Vec::new();
    let says = "#!lua name=lib\nredis.log(redis.LOG_WARNING, redis.REDIS_VERSION) redis.register_function('f', function() end)";
    load_with(says, 1, &mut logged).unwrap();
    assert_eq!(logged, [(3, b"7.0.15".to_vec())]);
    // Whoever loads it after that does not say it again.
    let mut caller = Caller::of(says.split_once('\n').unwrap().1, 100);
    assert_eq!(show(&caller.call("f")), "nil");
    assert_eq!(caller.server.logged, []);
}

#[test]
fn functions_get_their_keys_and_arguments_and_have_the_globals_of_scripts() {
    check("return {keys, args}", "[[\"k1\"], [\"a1\", \"a2\"]]");
    check("keys[2] = 'more' return {#keys, #args}", "[2, 2]");
    check("redis.call('set', keys[1], args[2]) return redis.call('get', keys[1])", "\"a2\"");
    check(
        "return {type(_G), type(_G.redis), type(cjson), type(loadstring), type(redis.setresp)}",
        "[\"table\", \"table\", \"table\", \"function\", \"function\"]",
    );
    check("return loadstring('return type(redis.call)')()", "\"function\"");
    check(
        "return KEYS",
        "-ERR user_function:3: Script attempted to access nonexistent global variable 'KEYS' @3.",
    );
    check(
        "return ARGV[1]",
        "-ERR user_function:3: Script attempted to access nonexistent global variable 'ARGV' @3.",
    );
    check("x = 1", "-ERR user_function:3: Attempt to modify a readonly table @3.");
    check(
        "local mt = getmetatable(_G) mt.__index = nil",
        "-ERR user_function:3: Attempt to modify a readonly table @3.",
    );
    check("return redis.register_function", "nil");
    check("\nerror('boom')", "-ERR user_function:4: boom @4.");
    check("error({err = 'MY err'})", "-MY err @3.");
    check(
        "return redis.call('wrong')",
        "-WRONGTYPE Operation against a key holding the wrong kind of value @3.",
    );
    check(
        "local ok, e = pcall(redis.call, 'wrong') return {tostring(ok), e}",
        "[\"false\", \"WRONGTYPE Operation against a key holding the wrong kind of value\"]",
    );
    check("local n = 0 for i = 1, 1000 do n = n + i end return n", "500500");
    check("local co = coroutine.wrap(function() coroutine.yield(redis.call('ping')) end) return 1", "1");
    check("redis.setresp(3) return redis.call('double')", ",1.5");
    check("return math.floor(3.7) + #string.rep('x', 3) + #table.concat({'a', 'b'})", "8");
}

#[test]
fn a_librarys_functions_share_what_it_defines() {
    let mut caller = Caller::of(
        "local count = 0
        local function add(n) count = count + n return count end
        redis.register_function('one', function() return add(1) end)
        redis.register_function('ten', function() return add(10) end)
        local lib = redis
        redis.register_function('late', function() lib.register_function('x', function() end) end)
        redis.register_function('alters', function() lib.math = math end)",
        3,
    );
    assert_eq!(show(&caller.call("one")), "1");
    assert_eq!(show(&caller.call("ten")), "11");
    assert_eq!(show(&caller.call("one")), "12");
    assert_eq!(
        show(&caller.call("late")),
        "-ERR redis.register_function can only be called on FUNCTION LOAD command @6."
            .replace("@6", &line(&mut caller, "late"))
    );
    let text = show(&caller.call("alters"));
    assert!(text.contains("Attempt to modify a readonly table"), "{text}");
    // Another library has its own, be it the same text.
    let source = String::from_utf8(caller.library.source().to_vec()).unwrap();
    caller.library = load_with(&source, 2, &mut Vec::new()).unwrap();
    assert_eq!(show(&caller.call("one")), "1");
    // What is not known any more is forgotten.
    caller.engine.keep_libraries(|number| number != 2);
    assert_eq!(show(&caller.call("one")), "1");
}

/// The line that an error names.
fn line(caller: &mut Caller, name: &str) -> String {
    let text = show(&caller.call(name));
    format!("@{}", text.rsplit('@').next().unwrap().trim_end_matches('.'))
}

#[test]
fn calls_that_load_a_library_at_once_share_it() {
    let mut caller = Caller::of(
        "local n = 0 for i = 1, 50 do n = n + 1 end redis.register_function('f', function() n = n + 1 return n end)",
        10,
    );
    let Caller { engine, server, library, .. } = &mut caller;
    let mut first = engine.begin_function(library, 0, false, &[], &[]).unwrap();
    let mut second = engine.begin_function(library, 0, false, &[], &[]).unwrap();
    assert!(matches!(first.resume(engine, None, 5, 0), script::Step::More));
    assert_eq!(show(&server.finish(engine, &mut second, 10)), "51");
    assert_eq!(show(&server.finish(engine, &mut first, 10)), "52");
}

#[test]
fn a_library_comes_back_after_memory_was_short() {
    let mut caller = Caller::of(
        "local kept, count = {}, 0
        redis.register_function('count', function() count = count + 1 return count end)
        redis.register_function('hoard', function() for i = 1, 100 do kept[#kept + 1] = string.rep('x', 10000) .. #kept end return #kept end)
        redis.register_function('forever', function() while true do kept[#kept + 1] = string.rep('x', 10000) .. #kept end end)",
        1000,
    );
    assert_eq!(show(&caller.call("count")), "1");
    let text = show(&caller.call("forever"));
    assert!(text.contains("ran out of memory"), "{text}");
    assert_eq!(show(&caller.call("count")), "1", "it was loaded anew");
    // What functions keep may be half of what there is; with more the library is loaded anew.
    let mut counts = Vec::new();
    for _ in 0..50 {
        let Reply::Integer(count) = caller.call("hoard") else { panic!("it counts") };
        counts.push(count);
    }
    assert!(counts.contains(&700) && counts.iter().all(|&count| count < 1500), "{counts:?}");
    assert!(counts.iter().filter(|&&count| count == 100).count() > 1, "{counts:?}");
}

#[test]
fn a_library_that_comes_to_other_functions_is_refused() {
    let mut caller =
        Caller::of("redis.register_function('f' .. ('%*'):format({}):sub(8), function() end)", 1000);
    let name = caller.library.functions()[0].name.clone();
    // Tables lie elsewhere each time, if not always.
    let got = show(&caller.call(&name));
    assert!(
        got == "nil"
            || got
                == "-ERR Error registering functions: ERR the library has come to other functions than before",
        "{got}"
    );
}
