//! What is taken, and what is refused by a Lua that is not 5.1.

use super::*;

/// Each was given to the Lua of redis-server 7.0.15, which takes it.
const TAKEN: &[&str] = &[
    "",
    "local a, b = 1, 'x' local c",
    "local function f(a, b, ...) return a, b, ... end f(1) f'x' f{} f[[x]]",
    "function a.b.c:d() return self end",
    "a.b[1].c = {1, 2; x = 3, ['y'] = 4, f(), } a, b[2] = b, a",
    "if a then elseif b then elseif c then else end",
    "while a do break end repeat local x = 1 until x for i = 1, 2 do end for i = 1, 2, 3 do break end",
    "for k, v in pairs(t) do end for k in next, t do end",
    "do return end",
    "return 1, not a == b, -x ^ 2, #t .. 'x' .. 1 .. 2, a and b or c, (f())",
    "local x = 0x1F + 1.5e-3 + .5 + 3. + 1e10",
    "local s = '\\065\\n\\z\\x41\\u{1}\\\\' .. \"\\\"\\'\" .. [==[ ]] ]=] ]==] .. [[\n]]",
    "-- a comment\n--[[ a long\n one ]] --[==[ [[ ]] ]==] --[ no long one\nreturn",
    "('x'):rep(3) (f)() ; f():g().h = 1",
    "local continue = 1 continue = 2 goto = 3 type = 4",
    "local a = function() end return function(...) return ... end",
    "f(\n)\n;(g)()",
];

/// And these it doesn't, which Luau does.
const NOT_TAKEN: &[&str] = &[
    "local x = 1 x += 1",
    "x ..= 'a'",
    "local x = 7 // 2",
    "local x = `a`",
    "while true do continue end",
    "local x = if a then 1 else 2",
    "local x: number = 1",
    "local function f(a: string): number return 1 end",
    "type X = number",
    "local x = 1_000",
    "local x = 0b11",
    "local x = a :: number",
    "for k, v in t do end",
    "for k, v in {} do end",
    "@native function f() end",
];

/// Nobody takes these, or it is not tried.
const WRONG: &[&str] = &[
    "x",
    "x = ",
    "f() = 1",
    "(a) = 1",
    "a, f() = 1",
    "return 1 return 2",
    "break",
    "while a do break x = 1 end",
    "function() end",
    "local 1",
    "local function f() return ... end",
    "for i = 1 do end",
    "if a then",
    "end",
    "x = {1 2}",
    "f(1,)",
    "function f(a,) end",
    "'x",
    "'x\ny'",
    "'\\256'",
    "[[x",
    "--[[x",
    "[=x]",
    "x = 1e",
    "x = 0x",
    "x = 3x",
    "x = 1..2",
    ";",
    ";;",
    "f()\n(g)()",
    "[[ [[ ]]",
    "a.1 = 2",
    "a:b = 1",
    "x = a b",
    "x = ~1",
    "x = 1 | 2",
    "goto x",
    "::x::",
    "\0",
    "x = !a",
    "repeat local x = 1",
];

#[test]
fn what_redis_takes_is_told_from_what_it_does_not() {
    for source in TAKEN {
        assert!(is_lua51(source.as_bytes()), "{source}");
    }
    for source in NOT_TAKEN.iter().chain(WRONG) {
        assert!(!is_lua51(source.as_bytes()), "{source}");
    }
}

/// However it is cut or repeated there is an answer.
#[test]
fn there_is_an_end_to_it() {
    let whole = TAKEN.join("\n");
    for end in 0..whole.len() {
        is_lua51(&whole.as_bytes()[..end]);
    }
    for (open, close) in [
        ("(", ")"),
        ("{", "}"),
        ("do ", "end "),
        ("a[", "]"),
        ("- ", ""),
        ("a..", "a"),
        ("function f() ", "end "),
    ] {
        let body = |count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
        assert!(!is_lua51(format!("return {}", body(100_000)).as_bytes()), "{open}");
    }
    let nested = |count: usize| format!("return {}1{}", "(".repeat(count), ")".repeat(count));
    assert!(is_lua51(nested(100).as_bytes()) && !is_lua51(nested(200).as_bytes()));
    let chain = |count: usize| format!("return {}'x'", "'x' .. ".repeat(count));
    assert!(is_lua51(chain(100).as_bytes()) && !is_lua51(chain(200).as_bytes()));
    let locals = |count: usize| (0..count).map(|number| format!("local v{number} = 1 ")).collect::<String>();
    assert!(is_lua51(locals(150).as_bytes()) && !is_lua51(locals(201).as_bytes()));
    let uses = |count: usize| {
        let sum: String = (0..count).map(|number| format!("x = v{number} ")).collect();
        format!("{} local function f() {sum} end", locals(count))
    };
    assert!(is_lua51(uses(50).as_bytes()) && !is_lua51(uses(61).as_bytes()));
}
