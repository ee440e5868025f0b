//! Scripts made at random, most of them nonsense: whatever they do, the engine goes on.

#[cfg(test)]
mod harness;

use harness::{Server, heard, run_in, show, whole};
use script::{Engine, Program, Step};

const MEMORY: usize = 4 << 20;

const NAMES: &[&str] = &[
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "collectgarbage",
    "load",
    "loadstring",
    "gcinfo",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.running",
    "coroutine.status",
    "coroutine.wrap",
    "coroutine.yield",
    "redis.call",
    "redis.pcall",
    "redis.log",
    "redis.error_reply",
    "redis.status_reply",
    "redis.sha1hex",
    "redis.setresp",
    "redis.acl_check_cmd",
    "redis.set_repl",
    "string.byte",
    "string.char",
    "string.find",
    "string.format",
    "string.gmatch",
    "string.gsub",
    "string.len",
    "string.lower",
    "string.match",
    "string.rep",
    "string.reverse",
    "string.sub",
    "string.upper",
    "table.concat",
    "table.foreach",
    "table.foreachi",
    "table.getn",
    "table.insert",
    "table.maxn",
    "table.remove",
    "table.sort",
    "math.floor",
    "math.random",
    "math.randomseed",
    "math.ldexp",
    "math.fmod",
    "math.max",
    "os.clock",
    "cjson.encode",
    "cjson.decode",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "bit.band",
    "bit.lshift",
    "bit.tohex",
    "bit.bswap",
];

const VALUES: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "2.5",
    "1e9",
    "1e300",
    "-2^31",
    "2^53",
    "0/0",
    "1/0",
    "''",
    "'a'",
    "'x*y'",
    "'%d%s'",
    "'(a*)*b'",
    "'%b()%f[a]'",
    "'get'",
    "'incr'",
    "'nested'",
    "'return 1'",
    "'{\"a\":[1,2]}'",
    "'>I4'",
    "{}",
    "{1,2,3}",
    "{a=1}",
    "{err='X y'}",
    "KEYS",
    "ARGV",
    "_G",
    "a",
    "b",
    "c",
    "string",
    "redis",
    "#KEYS",
    "a and b",
    "{a,b,c}",
    "(function() return a end)",
    "function(x, y) return y end",
    "function() error(a) end",
    "function() return redis.call('incr', 'n') end",
    "coroutine.create(function() return a end)",
    "function(x, y) coroutine.yield(x) return y end",
    "setmetatable({}, {__index = function(t, k) return k end, __call = function() return a end})",
    "string.rep('ab', 1000)",
    "setmetatable({}, {__tostring = function() return b end, __lt = function() return true end})",
];

/// The sequence of a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % count
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn call(&mut self, depth: usize) -> String {
        let args: Vec<_> = (0..self.below(4)).map(|_| self.value(depth)).collect();
        format!("{}({})", self.of(NAMES), args.join(", "))
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(6) {
            0 if depth > 0 => self.call(depth - 1),
            1 if depth > 0 => {
                let operator = self.of(&["+", "-", "*", "/", "%", "^", "..", "==", "<", "<=", "and", "or"]);
                format!("({} {operator} {})", self.value(depth - 1), self.value(depth - 1))
            }
            2 => self.of(NAMES).to_owned(),
            _ => self.of(VALUES).to_owned(),
        }
    }

    fn statement(&mut self, depth: usize) -> String {
        let name = self.of(&["a", "b", "c"]);
        match self.below(12) {
            0..3 => format!("{name} = {}", self.value(2)),
            3 => format!("{name} = {{pcall({}, {})}}", self.value(1), self.value(1)),
            4 if depth > 0 => {
                format!("for i = 1, {} do {} end", self.of(&["3", "100", "1e9"]), self.block(depth - 1))
            }
            5 if depth > 0 => format!(
                "if {} then {} else {} end",
                self.value(1),
                self.block(depth - 1),
                self.block(depth - 1)
            ),
            6 if depth > 0 => format!(
                "for k, v in {} do a = v {} end",
                self.of(&["pairs(b)", "next, c", "ipairs(KEYS)", "a"]),
                self.block(depth - 1)
            ),
            7 if depth > 0 => format!("{name} = function(...) {} return ... end", self.block(depth - 1)),
            8 if depth > 0 => format!("{name} = coroutine.wrap(function(...) {} end)", self.block(depth - 1)),
            9 if depth > 0 => format!("pcall(function() {} end)", self.block(depth - 1)),
            10 => format!("if type({name}) == 'function' then {name}({}) end", self.value(1)),
            _ => self.call(2),
        }
    }

    fn block(&mut self, depth: usize) -> String {
        let statements: Vec<_> = (0..=self.below(4)).map(|_| self.statement(depth)).collect();
        statements.join("; ")
    }
}

/// So many scripts from a seed, of which some are ended in the middle, some in turns with the next.
fn check(seed: u64, count: usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut engine = Engine::new(MEMORY);
    let mut server = Server::default();
    let mut runs = Vec::new();
    for index in 0..count {
        let source =
            format!("local a, b, c = 1, {{}}, 'c'; {}; do return {} end", random.block(3), random.value(2));
        let Ok(program) = Program::compile(source.as_bytes()) else { continue };
        while engine.is_crowded() {
            engine.tidy();
        }
        let Ok(run) = engine.begin(&program, false, &[b"k"], &[b"x", b"2"]) else { continue };
        runs.push((run, None, 100));
        while runs.len() > 3 {
            let at = random.below(runs.len());
            let (run, answer, patience): &mut (_, Option<_>, usize) = &mut runs[at];
            let fuel = u32::try_from(1 + random.below(300)).expect("it is small");
            let is_over = match run.resume(&mut engine, answer.take(), fuel, 0) {
                Step::Call { words, proto, .. } => {
                    *answer = Some(heard(&mut engine, &server.answer(&words, proto), proto, 7));
                    false
                }
                Step::Log { .. } | Step::More => false,
                Step::Return(returned) => {
                    whole(&engine, returned);
                    true
                }
                Step::Done(reply) => {
                    let mut out = Vec::new();
                    reply.put(&mut out, wire::Proto::Resp2);
                    reply.put(&mut out, wire::Proto::Resp3);
                    true
                }
            };
            *patience -= 1;
            if is_over || *patience == 0 {
                runs.swap_remove(at);
            }
        }
        if index % 64 == 0 {
            runs.clear();
            while engine.tidy() {}
            assert_eq!(
                show(&run_in(&mut engine, &mut server, "return {KEYS[1], #_G.ARGV}", 100)),
                "[\"k1\", 2]",
                "seed {seed}"
            );
        }
    }
}

#[test]
fn an_engine_outlives_all_scripts() {
    for seed in 0..4 {
        check(seed, 150);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn an_engine_outlives_many_scripts() {
    for seed in 100..100_000 {
        check(seed, 500);
    }
}
