//! Scripts, and what a client sees of them. What is wanted is what redis-server 7.0.15 answers, but where a test says that it differs.

#[cfg(test)]
mod harness;

use harness::{MEMORY, Server, run, run_in, show};
use script::{Engine, Flags, Program, SOURCE_SIZE_MAX};

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
        "KEYS = 1",
        "KEYS, ARGV\t= 1, 2",
        "local a a, ARGV=1, 2",
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
    check("return {_G.KEYS[1], _G['ARGV'][2], #_G.KEYS}", "[\"k1\", \"a2\", 1]");
    check("return rawget(_G, 'x')", "nil");
    check("return _VERSION", "\"Lua 5.1\"");
    check("return math.pow(2, 10) + math.mod(7, 4)", "1027");
    check("return ...", "nil");
    check("local n = 0 for _ in pairs(redis) do n = n + 1 end return n", "23");
}

/// A builtin that is called by its name is not looked for among the globals. All that Luau has is tried.
#[test]
fn nothing_of_luau_is_there_but_what_redis_has() {
    let mut names = Vec::new();
    for global in mlua::Lua::new().globals().pairs::<String, mlua::Value>() {
        let (name, value) = global.unwrap();
        if let mlua::Value::Table(library) = &value
            && name != "_G"
        {
            let inside = library.pairs::<String, mlua::Value>().map(|member| member.unwrap().0);
            names.extend(inside.map(|member| format!("{name}.{member}")));
        }
        names.push(name);
    }
    assert!(
        ["typeof", "math.clamp", "bit32.band", "buffer.readi8"]
            .iter()
            .all(|known| names.iter().any(|name| name == known))
    );
    // Not offered to programs in Lua yet, and known to the compiler.
    names.extend(["integer.add", "integer.create", "vector.create", "rawlen"].map(str::to_owned));
    let answer = |source: &str| show(&run(source, 1_000_000));
    let mut missing_count = 0;
    for name in names {
        let seen = answer(&format!(
            "return pcall(loadstring, 'return {name}') and tostring(select(2, pcall(loadstring('return {name}'))))"
        ));
        if !(seen == "\"nil\"" || seen.contains("nonexistent global variable")) {
            continue;
        }
        missing_count += 1;
        for args in ["1, 1, 1", "'x'", "{}, 1", "1.5", ""] {
            for source in [format!("return {name}({args})"), format!("local f = {name} return f({args})")] {
                assert!(answer(&source).starts_with("-ERR"), "{source}: {}", answer(&source));
            }
        }
    }
    assert!(missing_count > 60, "{missing_count}");
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
    check(
        "return {string.gsub('hello', 'l)', function(s) return s end)}",
        "-ERR invalid pattern capture @1.",
    );
    check("return {string.gsub('hello', 'x)', function(s) return s end)}", "[\"hello\", 0]");
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
