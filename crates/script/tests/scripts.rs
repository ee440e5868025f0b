//! Scripts, and what a client sees of them. What is wanted is what redis-server 7.0.15 answers, but where a test says that it differs.

#[cfg(test)]
mod harness;

use harness::{MEMORY, Server, heard, run, run_in, show, whole};
use script::{Answer, Engine, Flags, Part, Program, Returned, SOURCE_SIZE_MAX, Step};
use wire::Proto;
use wire::client::Reply;

/// An answer that is nothing.
fn null(engine: &mut Engine, proto: Proto) -> Answer {
    heard(engine, &Reply::Null, proto, 1)
}

/// The reply of a script is the same however little fuel it gets at a time.
fn check(source: &str, want: &str) {
    for fuel in [1, 2, 7, 1_000_000] {
        assert_eq!(show(&run(source, fuel)), want, "{source} (fuel {fuel})");
    }
}

#[test]
fn scripts_call_commands() {
    check("return redis.call('set', KEYS[1], ARGV[2])", "+OK");
    check("return redis.call('set', KEYS[1], ARGV[2]).ok", "\"OK\"");
    check("redis.call('set', 'a', 1.5) return redis.call('get', 'a')", "\"1.5\"");
    check("redis.call('set', 'a', 0.1) return redis.call('get', 'a')", "\"0.10000000000000001\"");
    check("redis.call('set', 'a', 1e20) return redis.call('get', 'a')", "\"1e+20\"");
    check("redis.call('set', 'a', 10) return redis.call('get', 'a')", "\"10\"");
    check("redis.call('set', 'a', 0/0) return redis.call('get', 'a')", "\"-nan\"");
    check("return redis.call('get', 'a')", "nil");
    check("return type(redis.call('get', 'a'))", "\"boolean\"");
    check("return redis.call('foo')", "-ERR Unknown Redis command called from script @1.");
    check("return redis.pcall('foo')", "-ERR Unknown Redis command called from script");
    check("return redis.pcall('foo').err", "\"ERR Unknown Redis command called from script\"");
    check(
        "\n\nredis.call('wrong')",
        "-WRONGTYPE Operation against a key holding the wrong kind of value @3.",
    );
    check("return redis.call()", "-ERR Please specify at least one argument for this redis lib call @1.");
    check("return redis.call({})", "-ERR Lua redis lib command arguments must be strings or integers @1.");
    check(
        "return redis.call('set', 'a', true)",
        "-ERR Lua redis lib command arguments must be strings or integers @1.",
    );
    check("return redis.pcall({})", "-ERR Lua redis lib command arguments must be strings or integers");
    check("return redis.call('list', unpack({}, 1, 0))", "[]");
    check("local t = {} for i = 1, 7000 do t[i] = i end return #redis.call('list', unpack(t))", "7000");
    check("local n = 0 for i = 1, 100 do n = n + redis.call('incr', 'n') end return n", "5050");
    check("return {KEYS[1], ARGV[1], ARGV[2], #KEYS, #ARGV}", "[\"k1\", \"a1\", \"a2\", 1, 2]");
}

#[test]
fn errors_have_their_texts_and_places() {
    check("error('boom')", "-ERR user_script:1: boom @1.");
    check("\nerror('boom', 0)", "-ERR boom @2.");
    check("error('x', 2)", "-ERR x @1.");
    check("local function f()\n  error('x', 2)\nend\nf()", "-ERR user_script:4: x @2.");
    check("error({err = 'My Err'})", "-My Err @1.");
    check("error({err = 'My Err', foo = 1})", "-My Err @1.");
    check("error(12)", "-ERR user_script:1: 12 @1.");
    check("assert(false)", "-ERR user_script:1: assertion failed! @1.");
    check("assert(false, 'msg')", "-ERR user_script:1: msg @1.");
    check("return #5", "-ERR user_script:1: attempt to get length of a number value @1.");
    check("local t = {} t[nil] = 1", "-ERR user_script:1: table index is nil @1.");
    check("local t = {} t[0/0] = 1", "-ERR user_script:1: table index is NaN @1.");
    check("return string.format('%y', 1)", "-ERR user_script:1: invalid option \\'%y\\' to \\'format\\' @1.");
    check(
        "return table.concat({1, {}, 3}, ',')",
        "-ERR user_script:1: invalid value (table) at index 2 in table for \\'concat\\' @1.",
    );
    check("local function f() return 1 + f() end f()", "-ERR user_script:1: stack overflow @1.");
    check(
        "return {pcall(function() local function f() return 1 + f() end f() end)}",
        "[nil, \"user_script:1: stack overflow\"]",
    );
    // After a pause or a call the place is known as well.
    check("redis.call('get', 'a')\nfor i = 1, 100 do end\nerror({err = 'X y'})", "-X y @3.");
}

#[test]
fn errors_are_caught() {
    let unknown = "ERR Unknown Redis command called from script";
    check(
        "local a, b = pcall(redis.call, 'foo') return {tostring(a), b}",
        &format!("[\"false\", \"{unknown}\"]"),
    );
    check("local a, b = pcall(error, {err = 'x'}) return {tostring(a), b}", "[\"false\", \"x\"]");
    check("local a, b = pcall(error, {x = 'x'}) return {tostring(a), type(b)}", "[\"false\", \"table\"]");
    check("local a, b = pcall(error) return {tostring(a), type(b)}", "[\"false\", \"nil\"]");
    check(
        "local a, b = xpcall(function() redis.call('foo') end, function(e) return e end) return {type(b), b}",
        &format!("[\"table\", -{unknown}]"),
    );
    check(
        "return {xpcall(function() error('x') end, function(e) return 'H:' .. e end)}",
        "[nil, \"H:user_script:1: x\"]",
    );
    check("return {xpcall(function() error({}) end, function(e) return type(e) end)}", "[nil, \"table\"]");
    check("return {xpcall(error, function(e) return type(e) end)}", "[nil, \"nil\"]");
    check("return select('#', pcall(function() return 1, nil, nil end))", "4");
}

#[test]
fn values_become_replies() {
    check("return", "nil");
    check("return 1, 2", "1");
    check("return function() end", "nil");
    check("return {1, 2, {3, 'x', {4}}, nil, 5}", "[1, 2, [3, \"x\", [4]]]");
    let least = i64::MIN;
    check(
        "return {1, 2.7, -2.7, 1e30, -1e30, 0/0, 1/0}",
        &format!("[1, 2, -2, {least}, {least}, {least}, {least}]"),
    );
    check(
        "return {2^53, -1e15, 0x7fffffffffffffff}",
        &format!("[9007199254740992, -1000000000000000, {least}]"),
    );
    check("return {true, false, nil}", "[1, nil]");
    check("return {err = 'plain'}", "-plain");
    check("return {err = 1}", "[]");
    check("return {ok = 'fine\\r\\nx'}", "+fine  x");
    check("return {ok = 1}", "[]");
    check("return {double = 3.5}", ",3.5");
    check("return {double = 3}", ",3");
    check("return {double = '3.5'}", "[]");
    check("return {big_number = '123456789012345678901234567890'}", "(123456789012345678901234567890");
    check("return {verbatim_string = {format = 'txt', string = 'hi'}}", "=txt:hi");
    check("return {verbatim_string = {format = 't', string = 'hi'}}", "=t  :hi");
    check("return {verbatim_string = {string = 'hi'}}", "[]");
    check("return {map = {a = {1, 2}}, set = {}}", "%{\"a\": [1, 2]}");
    check("return {set = {a = true}}", "~[\"a\"]");
    check("redis.setresp(3) return {true, false}", "[#true, #false]");
    check("return setmetatable({}, {__index = function() return 5 end})", "[]");
    // Redis goes on to some thousands of levels.
    let depth = 128;
    let want = "[".repeat(depth) + "-ERR reached lua stack limit" + &"]".repeat(depth);
    check("local t = {} t[1] = t return t", &want);
}

#[test]
fn replies_become_values() {
    check("return redis.call('nested')", "[1, nil, [+OK, -FOO bar]]");
    check("return redis.call('nested')[3][2].err", "\"FOO bar\"");
    check("return redis.call('map', 'f', 'v')", "[\"f\", \"v\"]");
    check("redis.setresp(3) return redis.call('map', 'f', 'v')", "%{\"f\": \"v\"}");
    check("redis.setresp('3') return redis.call('map', 'f', 'v').map.f", "\"v\"");
    check("redis.setresp(3) return type(redis.call('get', 'a'))", "\"nil\"");
    check("return redis.call('double')", "\"1.5\"");
    check("redis.setresp(3) return redis.call('double')", ",1.5");
    check("redis.setresp(3) return redis.call('members', 'm').set.m", "#true");
    check("redis.setresp(3) return redis.call('incr', 'n')", "1");
    check("redis.setresp(4)", "-ERR RESP version must be 2 or 3. @1.");
    check("redis.setresp()", "-ERR redis.setresp() requires one argument. @1.");
    check("redis.setresp(2, 3)", "-ERR redis.setresp() requires one argument. @1.");
}

#[test]
fn the_host_s_functions_are_redis_s() {
    check("return redis.error_reply('My Err')", "-My Err");
    check("return redis.error_reply('-My Err')", "-My Err");
    check("return redis.error_reply('Err')", "-ERR Err");
    check("return redis.error_reply('-Err')", "-ERR Err");
    check("return redis.error_reply('')", "-ERR ");
    check("return redis.error_reply('FOO bar\\r\\n')", "-FOO bar");
    check("return redis.error_reply()", "-ERR wrong number or type of arguments");
    check("return redis.error_reply(1)", "-ERR wrong number or type of arguments");
    check("return redis.status_reply('Good')", "+Good");
    check("return redis.status_reply()", "-ERR wrong number or type of arguments");
    check("return redis.sha1hex('')", "\"da39a3ee5e6b4b0d3255bfef95601890afd80709\"");
    check("return redis.sha1hex(1)", "\"356a192b7913b04c54574d18c28d46e6395428ab\"");
    check("return redis.sha1hex({})", "\"da39a3ee5e6b4b0d3255bfef95601890afd80709\"");
    check("return redis.sha1hex()", "-ERR wrong number of arguments @1.");
    check("return redis.acl_check_cmd('get', 'x')", "1");
    check("return redis.acl_check_cmd('client', 'list')", "1");
    check("return redis.acl_check_cmd('getx')", "-ERR Invalid command passed to redis.acl_check_cmd() @1.");
    check(
        "return redis.acl_check_cmd()",
        "-ERR Please specify at least one argument for this redis lib call @1.",
    );
    check(
        "return redis.acl_check_cmd({})",
        "-ERR Lua redis lib command arguments must be strings or integers @1.",
    );
    check("return redis.replicate_commands()", "1");
    check("return {redis.set_repl(1), redis.set_repl('x')}", "[]");
    check("redis.set_repl()", "-ERR redis.set_repl() requires two arguments. @1.");
    check(
        "redis.set_repl(7)",
        "-ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE. @1.",
    );
    check("return {redis.breakpoint(), redis.debug('x')}", "[nil]");
    check("return redis.REDIS_VERSION .. redis.REDIS_VERSION_NUM", "\"7.0.15458767\"");
    check("return {redis.LOG_WARNING, redis.REPL_ALL, redis.REPL_SLAVE}", "[3, 3, 2]");
    check("return redis.log(1)", "-ERR redis.log() requires two arguments or more. @1.");
    check("return redis.log('x', 'y')", "-ERR First argument must be a number (log level). @1.");
    check("return redis.log(9, 'y')", "-ERR Invalid debug level. @1.");
    let mut server = Server::default();
    let source = "redis.log(redis.LOG_WARNING, 'a', 1, {}, 'b') redis.log('0', 0.1 + 0.2) return 'done'";
    assert_eq!(show(&run_in(&mut Engine::new(MEMORY), &mut server, source, 100)), "\"done\"");
    assert_eq!(server.logged, [(3, "a 1 b".to_owned()), (0, "0.3".to_owned())]);
}

#[test]
fn globals_are_read_only_and_known() {
    let missing = |name| {
        format!("-ERR user_script:1: Script attempted to access nonexistent global variable \\'{name}\\' @1.")
    };
    for name in [
        "x", "print", "dofile", "require", "debug", "getfenv", "setfenv", "newproxy", "bit32", "buffer",
        "typeof",
    ] {
        check(&format!("return {name}"), &missing(name));
    }
    let read_only = "-ERR user_script:1: Attempt to modify a readonly table @1.";
    for source in [
        "x = 1",
        "_G.x = 1",
        "redis.call = 1",
        "string.x = 1",
        "getmetatable('').__index = 1",
        "getmetatable(_G).x = 1",
    ] {
        check(source, read_only);
    }
    for source in
        ["rawset(_G, 'x', 1)", "setmetatable(_G, {})", "table.insert(math, 1)", "setmetatable(redis, {})"]
    {
        check(source, "-ERR Attempt to modify a readonly table @1.");
    }
    check("KEYS[1] = 'z' return KEYS[1]", "\"z\"");
    // Not so in Redis, where they are globals.
    check("KEYS = 1 return KEYS", "1");
    check("return {_G.KEYS[1], _G['ARGV'][2], #_G.KEYS}", "[\"k1\", \"a2\", 1]");
    check("return rawget(_G, 'x')", "nil");
    check("return _VERSION", "\"Lua 5.1\"");
    check("return math.pow(2, 10) + math.mod(7, 4)", "1027");
    check("return ...", "nil");
    check("local n = 0 for _ in pairs(redis) do n = n + 1 end return n", "23");
}

#[test]
fn own_coroutines_pass_on_what_the_run_needs() {
    check("local f = coroutine.wrap(function() return redis.call('incr', 'n') end) return f()", "1");
    check("local f = coroutine.wrap(function() for i = 1, 100 do end return 5 end) return f()", "5");
    check(
        "local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return {f(), f(), f(), f()}",
        "[1, 2, 3]",
    );
    check(
        "local co = coroutine.create(function(x) local y = coroutine.yield(x + 1) redis.call('foo', y) end)
         local a, b = coroutine.resume(co, 1) local c, d = coroutine.resume(co, 5) return {tostring(a), b, tostring(c), d.err}",
        "[\"true\", 2, \"false\", \"ERR Unknown Redis command called from script\"]",
    );
    check(
        "local co = coroutine.create(function() end) coroutine.resume(co)
         local a, b = coroutine.resume(co) return {tostring(a), b, coroutine.status(co)}",
        "[\"false\", \"cannot resume dead coroutine\", \"dead\"]",
    );
    check(
        "local f = coroutine.wrap(function() local g = coroutine.wrap(function() coroutine.yield(redis.call('incr', 'n'))
         return redis.call('incr', 'n') end) coroutine.yield(g()) return g() end) return {f(), f()}",
        "[1, 2]",
    );
    check("return select('#', coroutine.wrap(function() coroutine.yield() end)())", "0");
    check("return select('#', coroutine.wrap(function() coroutine.yield(nil, nil) end)())", "2");
    check("return select('#', coroutine.wrap(function() end)())", "0");
    check("return tostring(coroutine.running())", "\"nil\"");
    check("return type(coroutine.wrap(function() return coroutine.running() end)())", "\"thread\"");
    check(
        "local f = coroutine.wrap(function() error('x') end) f()",
        "-ERR user_script:1: user_script:1: x @1.",
    );
    check("local f = coroutine.wrap(function() error({err = 'xx y'}) end) f()", "-xx y @1.");
    check(
        "local f = coroutine.wrap(function() end) f() f()",
        "-ERR user_script:1: cannot resume dead coroutine @1.",
    );
    check("return coroutine.yield(1)", "-ERR attempt to yield across metamethod/C-call boundary @1.");
    check(
        "return {pcall(coroutine.yield, 1)}",
        "[nil, \"attempt to yield across metamethod/C-call boundary\"]",
    );
    check(
        "return coroutine.resume(1)",
        "-ERR user_script:1: bad argument #1 to \\'resume\\' (coroutine expected) @1.",
    );
    check(
        "coroutine.create(1)",
        "-ERR user_script:1: bad argument #1 to \\'create\\' (Lua function expected) @1.",
    );
}

#[test]
fn commands_are_called_from_where_lua_runs() {
    check(
        "local t = {3, 1, 2} table.sort(t, function(a, b) redis.call('incr', 'n') return a < b end) return t",
        "[1, 2, 3]",
    );
    check("return string.gsub('hello', 'l', function() return redis.call('incr', 'n') end)", "\"he12o\"");
    check("return {pcall(function() return redis.call('incr', 'n') end)}", "[1, 1]");
    check("return {xpcall(function() return redis.call('incr', 'n') end, error)}", "[1, 1]");
    check(
        "local n = 0 for i in function(_, i) i = redis.call('incr', 'n') if i < 4 then return i end end do n = n + i end return n",
        "6",
    );
    check(
        "table.foreach({1, 2}, function() redis.call('incr', 'n') end) return redis.call('get', 'n')",
        "\"2\"",
    );
    check("return loadstring('return redis.call(...)')('incr', 'n')", "1");
    // Redis allows it here.
    check(
        "return setmetatable({}, {__index = function() return redis.call('incr', 'n') end}).x",
        "-ERR user_script:1: redis.call cannot be called inside a metamethod or an error handler @1.",
    );
    check(
        "return setmetatable({}, {__index = function() return coroutine.wrap(function() return redis.call('incr', 'n') end)() end}).x",
        "-ERR commands cannot be called by a coroutine inside a metamethod or an error handler @1.",
    );
    // What runs there is not paused, and goes on.
    check("return setmetatable({}, {__index = function() for i = 1, 1000 do end return 7 end}).x", "7");
    check(
        "return setmetatable({}, {__index = function() return coroutine.wrap(function() for i = 1, 5000 do end return 7 end)() end}).x",
        "7",
    );
}

#[test]
fn lua_s_libraries_are_there() {
    check(
        "return {tostring(0.1 + 0.2), tostring(1/3), tostring(-0), tostring(1e15)}",
        "[\"0.3\", \"0.33333333333333\", \"-0\", \"1e+15\"]",
    );
    check(
        "return {tostring(0/0), tostring(1/0), tostring(nil), tostring(true)}",
        "[\"-nan\", \"inf\", \"nil\", \"true\"]",
    );
    check("return tostring(setmetatable({}, {__tostring = function() return 'T' end}))", "\"T\"");
    check("tostring()", "-ERR user_script:1: bad argument #1 to \\'tostring\\' (value expected) @1.");
    check(
        "return {tonumber('0x10'), tonumber('10', 2), tonumber(' 5 '), tonumber('z', 36), tonumber({})}",
        "[16, 2, 5, 35]",
    );
    check(
        "return {string.format('%d %i %5.2f %q', 3.7, 3, 1/3, 'a\\n')}",
        "[\"3 3  0.33 \\\"a\\\\\\n\\\"\"]",
    );
    check("return {string.gsub('hello', '(l)(.)', '%2%1')}", "[\"hello\", 1]");
    check("return string.gsub('hello', '', ' - ')", "\" - h - e - l - l - o - \"");
    check(
        "return {string.gsub('hello world', '%w*', function(s) return '[' .. s .. ']' end)}",
        "[\"[hello][] [world][]\", 4]",
    );
    check("return {string.gsub('hello world', '%w+', string.upper, 1)}", "[\"HELLO world\", 1]");
    check(
        "return {string.gsub('hello', '()(.)', function(at, s) return at .. s end)}",
        "[\"1h2e3l4l5o\", 5]",
    );
    check("return {string.gsub('hello', '^h', function(s) return s .. s end)}", "[\"hhello\", 1]");
    check("return string.gsub('hello', 'l', {l = 'L'})", "\"heLLo\"");
    check("return string.gsub('a.b', '%.', function() return false end)", "\"a.b\"");
    check("return {('abc'):find('b'), ('abc'):find('b', 1, true)}", "[2, 2, 2]");
    check("return {table.getn({1, 2}), table.maxn({1, 2, [10] = 1})}", "[2, 10]");
    check(
        "local t = {} for i = 1, 5000 do t[i] = i * 7919 % 5003 end table.sort(t) for i = 2, 5000 do assert(t[i - 1] < t[i]) end",
        "nil",
    );
    check(
        "local t = {5, 2, 8, 1, 3} table.sort(t, function(a, b) return a > b end) return t",
        "[8, 5, 3, 2, 1]",
    );
    check("return {select('#', unpack({}, 1, 7997)), unpack({1, 2, 3}, 2)}", "[7997, 2, 3]");
    check("return unpack({}, 1, 8000)", "-ERR user_script:1: too many results to unpack @1.");
    check("return unpack({1, 2})", "1");
    check("return #redis.call('list', unpack({}, 1, 0))", "0");
    check("return loadstring('return 1 + 1')()", "2");
    check("return loadstring('return KEYS[1]')()", "\"k1\"");
    check("local n = 0 return load(function() n = n + 1 return ({'return ', '5'})[n] end)()", "5");
    check(
        "return {pcall(loadstring('x = 1'))}",
        "[nil, \"[string \\\"x = 1\\\"]:1: Attempt to modify a readonly table\"]",
    );
    check(
        "return {type(collectgarbage('count')), collectgarbage(), tostring(collectgarbage('step'))}",
        "[\"number\", 0, \"false\"]",
    );
    check("return {math.random(1000000), math.random(1000000), math.random(5, 9)}", "[396465, 840486, 6]");
    check("math.randomseed(7) return {math.random(1000000), math.random(1000000)}", "[266445, 682036]");
    check("math.random(0)", "-ERR user_script:1: bad argument #1 to \\'random\\' (interval is empty) @1.");
    check("math.random(2, 1)", "-ERR user_script:1: bad argument #2 to \\'random\\' (interval is empty) @1.");
    check("math.random(1, 2, 3)", "-ERR user_script:1: wrong number of arguments @1.");
    // Redis 7.0 has no `os`; later ones have this of it.
    check("return tostring(os.clock())", "\"1.5\"");
}

/// `docs/scripts.md` lists what differs.
#[test]
fn what_differs_from_lua_5_1_is_as_documented() {
    check("return 1/3 .. ''", "\"0.3333333333333333\"");
    check("return 1e15 .. ''", "\"1000000000000000\"");
    check("return {pcall(string.rep)}", "[nil, \"missing argument #1 to \\'rep\\' (string expected)\"]");
    check(
        "return t.x",
        "-ERR user_script:1: Script attempted to access nonexistent global variable \\'t\\' @1.",
    );
    check("local t return t.x", "-ERR user_script:1: attempt to index nil with \\'x\\' @1.");
    check("local x = 1 x += 1 return {x, 7 // 2, if x then 1 else 2, `a{x}`}", "[2, 3, 1, \"a2\"]");
    check("error({})", "-ERR the script failed with a table that has no err @1.");
    check("error()", "-ERR nil @1.");
    check("return {loadstring('\\27Lua')}", "[]");
    check(
        "return select(2, loadstring(string.rep(' ', 20000)))",
        "\"a text to load is longer than 16384 bytes\"",
    );
    check("return redis.log('0', KEYS) == nil and tostring(os.time)", "\"nil\"");
}

#[test]
fn sources_that_do_not_compile_are_refused() {
    let check = |source: &str, want: Result<Flags, &str>| {
        let got = Program::compile(source.as_bytes()).map(|program| program.flags());
        assert_eq!(got, want.map_err(str::to_owned), "{source}");
        assert_eq!(Flags::of(source.as_bytes()), got.unwrap_or_default(), "{source}");
    };
    let declared = Flags { is_declared: true, ..Flags::default() };
    check("return 1", Ok(Flags::default()));
    check("", Ok(Flags::default()));
    check("#!lua\nreturn 1", Ok(declared));
    check("#!lua flags=\nreturn 1", Ok(declared));
    check("#!lua  flags=no-writes \r\nreturn 1", Ok(Flags { no_writes: true, ..declared }));
    check(
        "#!lua flags=allow-oom,allow-stale flags=no-cluster,allow-cross-slot-keys,allow-undeclared-keys\nreturn 1",
        Ok(Flags {
            allow_oom: true,
            allow_stale: true,
            no_cluster: true,
            allow_cross_slot_keys: true,
            allow_undeclared_keys: true,
            ..declared
        }),
    );
    check("#!lua", Err("ERR Invalid script shebang"));
    check("#!lua flags=foo\nreturn 1", Err("ERR Unexpected flag in script shebang: foo"));
    check("#!lua flags=no-writes allow-oom\nreturn 1", Err("ERR Unknown lua shebang option: allow-oom"));
    check("#!foo\nreturn 1", Err("ERR Unexpected engine in script shebang: #!foo"));
    check("#! lua\nreturn 1", Err("ERR Unexpected engine in script shebang: #!"));
    let long = " ".repeat(SOURCE_SIZE_MAX + 1);
    let text = format!("ERR a script is longer than {SOURCE_SIZE_MAX} bytes");
    assert_eq!(Program::compile(long.as_bytes()).err(), Some(text));
    for source in [
        "syntax error here",
        "return \"unfinished",
        "if x then",
        "return 1 end",
        "\u{1b}LuaQ",
        "return [[",
        "x = = 1",
    ] {
        let text = Program::compile(source.as_bytes()).unwrap_err();
        assert!(text.starts_with("ERR Error compiling script (new function): user_script:1: "), "{text}");
    }
}

#[test]
fn lines_are_counted_from_the_source_s_first() {
    check("#!lua flags=no-writes\n\nerror('x')", "-ERR user_script:3: x @3.");
}

/// As local variables its lists take two of the 200 that a function may have.
#[test]
fn a_script_may_have_as_many_local_variables_as_there_are() {
    for count in [198, 199, 200] {
        let locals: String = (0..count).map(|number| format!("local v{number} = {number}\n")).collect();
        check(
            &format!("{locals}return {{KEYS[1], #ARGV, v{}}}", count - 1),
            &format!("[\"k1\", 2, {}]", count - 1),
        );
    }
    let locals: String = (0..=200).map(|number| format!("local v{number} = tostring({number})\n")).collect();
    let refused = Program::compile(locals.as_bytes()).unwrap_err();
    assert!(
        refused.starts_with("ERR Error compiling script (new function): user_script:201: Out of local"),
        "{refused}"
    );
}

#[test]
fn keys_and_arguments_come_in_any_number() {
    let mut engine = Engine::new(MEMORY);
    let source = "local text = table.concat(KEYS, ',') .. ';' .. table.concat(ARGV, ',')
        assert(KEYS == _G.KEYS and ARGV == _G.ARGV)
        KEYS[#KEYS + 1], ARGV[#ARGV + 1] = 'left', 'left'
        return text";
    let program = Program::compile(source.as_bytes()).unwrap();
    for (keys_count, args_count) in
        [0, 1, 2, 3, 8, 300].into_iter().flat_map(|keys| [0, 1, 2, 5, 300].map(|args| (keys, args)))
    {
        let words = |letter, count| (0..count).map(|number| format!("{letter}{number}")).collect::<Vec<_>>();
        let (keys, args) = (words("k", keys_count), words("a", args_count));
        let bytes = |words: &[String]| words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>();
        let (key_bytes, arg_bytes) = (bytes(&keys), bytes(&args));
        let key_bytes: Vec<&[u8]> = key_bytes.iter().map(Vec::as_slice).collect();
        let arg_bytes: Vec<&[u8]> = arg_bytes.iter().map(Vec::as_slice).collect();
        let mut run = engine.begin(&program, false, &key_bytes, &arg_bytes).unwrap();
        let Step::Done(reply) = run.resume(&mut engine, None, 1000, 0) else { panic!("it ends") };
        assert_eq!(reply, Reply::Bulk(format!("{};{}", keys.join(","), args.join(",")).into_bytes()));
    }
}

/// A step's `More` comes after the fuel, and the run can be dropped then.
#[test]
fn what_is_added_stands_behind_what_was_there() {
    let mut engine = Engine::new(MEMORY);
    let program = Program::compile(b"return {#KEYS, #ARGV, KEYS[3], ARGV[1], ARGV[1000]}").unwrap();
    let begin = |engine: &mut Engine, keys: &[&[u8]]| engine.begin(&program, false, keys, &[]).unwrap();
    let mut run = begin(&mut engine, &[b"a"]);
    engine.add(&run, true, &[b"b", b"c"]).unwrap();
    for number in 0..10u8 {
        let item = [b'0' + number];
        engine.add(&run, false, &[&item[..]; 100]).unwrap();
    }
    let Step::Return(returned) = run.resume(&mut engine, None, 1000, 0) else { panic!("it ends") };
    let Reply::Array(items) = whole(&engine, returned) else { panic!("it is a list") };
    let bulk = |text: &str| Reply::Bulk(text.into());
    assert_eq!(items, [Reply::Integer(3), Reply::Integer(1000), bulk("c"), bulk("0"), bulk("9")]);
    let run = begin(&mut engine, &[]);
    let long = vec![b'x'; MEMORY];
    assert!(engine.add(&run, false, &[&long]).unwrap_err().contains("ran out of memory"));
}

#[test]
fn a_run_stops_when_its_fuel_is_spent() {
    let mut engine = Engine::new(MEMORY);
    let program = Program::compile(b"while true do pcall(error) end").unwrap();
    let mut run = engine.begin(&program, true, &[], &[]).unwrap();
    assert!(run.is_read_only());
    for _ in 0..1000 {
        assert!(matches!(run.resume(&mut engine, None, 100, 0), Step::More));
    }
    drop(run);
    while engine.tidy() {}
    assert_eq!(show(&run_in(&mut engine, &mut Server::default(), "return 'after'", 100)), "\"after\"");
}

#[test]
fn nothing_leaks_from_one_run_to_another() {
    let mut engine = Engine::new(MEMORY);
    let program = Program::compile(
        b"redis.setresp(ARGV[1]) local a = redis.call('get', KEYS[1]) math.randomseed(ARGV[2]) return {KEYS[1], a, math.random(100)}",
    )
    .unwrap();
    let begin = |engine: &mut Engine, key: &[u8], proto: &[u8]| {
        engine.begin(&program, false, &[key], &[proto, b"7"]).unwrap()
    };
    let mut runs = [begin(&mut engine, b"k1", b"2"), begin(&mut engine, b"k2", b"3")];
    let mut protos = Vec::new();
    for run in &mut runs {
        match run.resume(&mut engine, None, 1000, 0) {
            Step::Call { words, proto, is_protected: false } => {
                protos.push((words.iter().nth(1).unwrap().to_vec(), proto))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(protos, [(b"k1".to_vec(), Proto::Resp2), (b"k2".to_vec(), Proto::Resp3)]);
    let wants = [(Proto::Resp2, "[\"k1\", nil, 27]"), (Proto::Resp3, "[\"k2\"]")];
    for (run, (proto, want)) in runs.iter_mut().zip(wants) {
        let answer = null(&mut engine, proto);
        match run.resume(&mut engine, Some(answer), 1000, 0) {
            Step::Return(returned) => assert_eq!(show(&whole(&engine, returned)), want),
            other => panic!("{other:?}"),
        }
    }
    // The sequence of those that set no seed went on where it was.
    let mut server = Server::default();
    assert_eq!(show(&run_in(&mut engine, &mut server, "return math.random(1000000)", 100)), "396465");
    assert_eq!(show(&run_in(&mut engine, &mut server, "return math.random(1000000)", 100)), "840486");
}

/// Runs of a script that leaves things in its lists, and one that goes on when others of it have come and gone.
fn check_nothing_is_left(source: &str) {
    let (mut engine, mut server) = (Engine::new(MEMORY), Server::default());
    let program = Program::compile(source.as_bytes()).expect("it is a script");
    let begin = |engine: &mut Engine, word: &str| {
        engine.begin(&program, false, &[word.as_bytes()], &[word.as_bytes()]).expect("there is memory")
    };
    let mut halfway = begin(&mut engine, "halfway");
    assert!(matches!(halfway.resume(&mut engine, None, 1_000_000, 0), Step::Call { .. }));
    for word in ["a", "fails", "b", "dropped", "c", "fails", "fails", "d"] {
        let mut run = begin(&mut engine, word);
        if word == "dropped" {
            assert!(matches!(run.resume(&mut engine, None, 1_000_000, 0), Step::Call { .. }));
            continue;
        }
        let want = match word {
            "fails" => "-ERR user_script:4: boom @4.".to_owned(),
            _ => format!("\"nilnilnil1{word}1\""),
        };
        assert_eq!(show(&server.finish(&mut engine, &mut run, 1_000_000)), want);
    }
    let answer = null(&mut engine, Proto::Resp2);
    let reply = halfway.resume(&mut engine, Some(answer), 1_000_000, 0);
    assert!(matches!(reply, Step::Done(Reply::Bulk(seen)) if seen == b"nilnilnil1halfway1"));
    while engine.tidy() {}
    assert!(engine.memory_size() < 900_000, "{} bytes are still held", engine.memory_size());
}

#[test]
fn nothing_is_left_of_a_script_for_its_next_run() {
    let source = |way: &str| {
        format!(
            "local seen = tostring(KEYS.mark) .. tostring(ARGV.mark) .. tostring(getmetatable(KEYS)) .. #KEYS .. KEYS[1] .. #ARGV
        KEYS.mark, ARGV.mark, KEYS[1] = 1, 1, string.rep('x', 1000000)
        {way} table.insert(ARGV, 'more') redis.setresp(3) math.randomseed(1)
        if ARGV[1] == 'fails' then error('boom') end
        redis.call('get', 'a') return seen"
        )
    };
    check_nothing_is_left(&source(""));
    check_nothing_is_left(&source("setmetatable(KEYS, {})"));
}

/// What Lua says of a list with gaps depends on the room that it has: a script that has made room leaves none behind.
#[test]
fn lists_have_the_same_room_in_each_run() {
    for (makes_room, count_of) in [
        ("ARGV.mark = 1", "ARGV[4] = 'x' return #ARGV"),
        ("for i = 3, 9 do ARGV[i] = 1 end for i = 3, 9 do ARGV[i] = nil end", "ARGV[16] = 'x' return #ARGV"),
        ("ARGV[3] = 1 ARGV[3] = nil", "ARGV[1] = nil ARGV[2] = nil ARGV[4] = 'x' return #ARGV"),
    ] {
        let source = format!("if KEYS[1] == 'makes' then {makes_room} return 0 end {count_of}");
        let program = Program::compile(source.as_bytes()).expect("it is a script");
        let mut engine = Engine::new(MEMORY);
        let mut reply = |key: &[u8]| {
            let mut run = engine.begin(&program, false, &[key], &[b"p", b"q"]).expect("there is memory");
            let Step::Done(reply) = run.resume(&mut engine, None, 1_000_000, 0) else { panic!("a number") };
            show(&reply)
        };
        let fresh = reply(b"counts");
        reply(b"makes");
        assert_eq!(reply(b"counts"), fresh, "{source}");
    }
}

#[test]
fn a_list_that_is_returned_stays_as_it_was() {
    let mut engine = Engine::new(MEMORY);
    let program = Program::compile(b"return #ARGV == 0 and KEYS or {ARGV}").expect("it is a script");
    let begin = |engine: &mut Engine, keys: &[&[u8]], args: &[&[u8]]| {
        let mut run = engine.begin(&program, false, keys, args).expect("there is memory");
        let Step::Return(returned) = run.resume(engine, None, 1_000_000, 0) else { panic!("a list") };
        returned
    };
    let mut first = begin(&mut engine, &[b"a", b"b"], &[]);
    let mut second = begin(&mut engine, &[b"c"], &[b"d"]);
    begin(&mut engine, &[b"e"], &[b"f"]);
    let show = |engine: &mut Engine, returned: &mut Returned| {
        let mut parts = Vec::new();
        while let Some(part) = returned.next(engine) {
            parts.push(match part {
                Part::Open => "[".to_owned(),
                Part::Value(Reply::Bulk(text)) => String::from_utf8(text).unwrap(),
                Part::Close(count) => format!("]{count}"),
                Part::Value(other) => panic!("{other:?}"),
                Part::TooLarge => panic!("it is small"),
            });
        }
        parts.concat()
    };
    assert_eq!(show(&mut engine, &mut first), "[ab]2");
    assert_eq!(show(&mut engine, &mut second), "[[d]1]1");
}

/// What a script may have, and that the next one has it again.
#[test]
fn memory_is_bounded() {
    let mut engine = Engine::new(MEMORY);
    let mut server = Server::default();
    let mut check = |source: &str, want: &str| {
        let reply = show(&run_in(&mut engine, &mut server, source, 1000));
        assert!(reply.starts_with(want), "{source}: {reply}");
        // What the binding and the collector themselves need for a moment is beyond the limit.
        assert!(engine.memory_size() <= MEMORY + MEMORY / 16, "{source}: {}", engine.memory_size());
        assert_eq!(
            show(&run_in(&mut engine, &mut server, "return #string.rep('x', 8000000)", 1000)),
            "8000000",
            "{source}"
        );
    };
    let out_of_memory = "-ERR Script ran out of memory: it and others of its lane have used ";
    check("return string.rep('x', 1e9)", out_of_memory);
    check("local t = {} for i = 1, 1e8 do t[i] = i end", out_of_memory);
    check("local t = {} for i = 1, 1e8 do t[i] = {} end", out_of_memory);
    check("local t = {} for i = 1, 1e8 do t[i] = i .. 'x' end", out_of_memory);
    check("local s = 'x' while true do s = s .. s end", out_of_memory);
    check("local t while true do t = {t, coroutine.create(function() end)} end", out_of_memory);
    check("local function f(...) return f(1, ...) end f()", "-ERR ");
    check("return {pcall(string.rep, 'x', 1e9)}", "[nil, \"not enough memory\"]");
    check(
        "local n = 0 while n < 100 do if pcall(string.rep, 'x', 1e9) then error('no') end n = n + 1 end return n",
        "100",
    );
    check(
        "local t = {} local ok = pcall(function() while true do t[#t + 1] = {} end end) return #t > 1000",
        "1",
    );
    // Garbage is collected in time.
    check(
        "local keep = string.rep('x', 8e6) for i = 1, 300 do local s = string.rep('y', 1e6) .. i end return 1",
        "1",
    );
    check("local keep = string.rep('x', 8e6) for i = 1, 1e5 do local s = {i, {}, {}} end return 1", "1");
    // A reply is no way around it.
    check("local t = {'x'} for i = 1, 30 do t = {t, t} end return t", "-ERR the script\\'s reply is larger");
}

#[test]
fn many_runs_share_the_memory() {
    let mut engine = Engine::new(MEMORY);
    let program =
        Program::compile(b"local s = string.rep(ARGV[1], 250000) redis.call('get', 'a') return #s").unwrap();
    let mut runs = Vec::new();
    let failure = loop {
        // Strings of the same bytes are kept once.
        let own = format!("{:04}", runs.len());
        while engine.is_crowded() {
            engine.tidy();
        }
        let mut run = match engine.begin(&program, false, &[], &[own.as_bytes()]) {
            Ok(run) => run,
            Err(text) => break format!("-{text}"),
        };
        match run.resume(&mut engine, None, 100_000, 0) {
            Step::Call { .. } => runs.push(run),
            Step::Done(reply) => break show(&reply),
            other => panic!("{other:?}"),
        }
    };
    assert!(failure.starts_with("-ERR Script ran out of memory"), "{failure}");
    assert!((10..17).contains(&runs.len()), "{}", runs.len());
    // Those that have what they need go on.
    for mut run in runs {
        let answer = null(&mut engine, Proto::Resp2);
        match run.resume(&mut engine, Some(answer), 1000, 0) {
            Step::Done(reply) => assert_eq!(show(&reply), "1000000"),
            other => panic!("{other:?}"),
        }
    }
    // And where there is no room for a beginning that is said.
    let long = vec![b'x'; MEMORY];
    let text = engine.begin(&program, false, &[], &[&long]).unwrap_err();
    assert!(text.starts_with("ERR Script ran out of memory"), "{text}");
    engine.set_memory_max(4 * MEMORY);
    engine.begin(&program, false, &[], &[&long]).unwrap();
}

#[test]
fn what_cannot_be_paused_ends() {
    let mut engine = Engine::new(MEMORY);
    let mut check = |source: &str, want: &str| {
        let mut server = Server::default();
        assert_eq!(show(&run_in(&mut engine, &mut server, source, 1000)), want, "{source}");
        assert!(server.pauses < 100, "{source}: {}", server.pauses);
        assert_eq!(show(&run_in(&mut engine, &mut server, "return 1", 1000)), "1");
    };
    let want = "-ERR the script runs for too long in a metamethod, an error handler or a pattern, where it cannot be paused";
    check("return (string.rep('a', 30)):find(string.rep('a*', 30) .. 'b')", want);
    check("return pcall(string.find, string.rep('a', 30), string.rep('a*', 30) .. 'b')", want);
    check("return setmetatable({}, {__index = function() while true do end end}).x", want);
    check("return setmetatable({}, {__index = function() while true do pcall(error) end end}).x", want);
    check("xpcall(error, function() while true do end end)", want);
    check(
        "return setmetatable({}, {__index = function() return coroutine.wrap(function() while true do end end)() end}).x",
        want,
    );
    check(
        "return string.find(string.rep('a', 3000000), string.rep('a', 2000000) .. 'b', 1, true)",
        "-ERR user_script:1: the texts are too long for this search @1.",
    );
    check(
        "return ('('):rep(4e6):find('%b()')",
        "-ERR user_script:1: the texts are too long for this search @1.",
    );
    check(
        "return ('a'):rep(4e6):match('(.*)%1x')",
        "-ERR user_script:1: the texts are too long for this search @1.",
    );
    check(
        "return #('a'):rep(4e6):gsub('[' .. ('b'):rep(600) .. ']', '')",
        "-ERR user_script:1: the texts are too long for this search @1.",
    );
    check("return ('a(b)c'):match('%b()') .. ('xx'):gsub('(.)%1', 'y')", "\"(b)y\"");
}

#[test]
#[should_panic(expected = "a run goes on in the engine that began it")]
fn a_run_belongs_to_its_engine() {
    let program = Program::compile(b"return 1").unwrap();
    let mut run = Engine::new(MEMORY).begin(&program, false, &[], &[]).unwrap();
    run.resume(&mut Engine::new(MEMORY), None, 1, 0);
}
