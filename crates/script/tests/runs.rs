//! Runs of scripts: with what they begin, what they leave behind, and what they may use up.

#[cfg(test)]
mod harness;

use harness::{MEMORY, Server, heard, run_in, show, whole};
use script::{Answer, Clock, Engine, Part, Program, Returned, Step};
use wire::Proto;
use wire::client::Reply;

/// An answer that is nothing.
fn null(engine: &mut Engine, proto: Proto) -> Answer {
    heard(engine, &Reply::Null, proto, 1)
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
fn a_run_that_never_ends_keeps_nothing_when_it_is_dropped() {
    let mut engine = Engine::new(MEMORY);
    let program = Program::compile(b"while true do end").unwrap();
    let long = vec![b'x'; MEMORY / 2];
    for _ in 0..3 {
        let mut run = engine.begin(&program, false, &[b"k"], &[&long]).unwrap();
        assert!(matches!(run.resume(&mut engine, None, 1000, 0), Step::More));
        drop(run);
        while engine.tidy() {}
        assert!(engine.memory_size() < MEMORY / 8, "{}", engine.memory_size());
    }
}

/// However little memory another run has left, that is what a script is told.
#[test]
fn without_memory_that_is_said() {
    let mut engine = Engine::new(4 << 20);
    let source = b"local t, i = {}, 0
        local function fill() while true do i = i + 1 t[i] = {} end end
        while true do pcall(fill) end";
    let mut hog = engine.begin(&Program::compile(source).unwrap(), false, &[], &[]).unwrap();
    let is_told = |round: usize, engine: &mut Engine| {
        let program = Program::compile(format!("return {round}").as_bytes()).unwrap();
        let text = match engine.begin(&program, false, &[b"k"], &[]) {
            Err(text) => text,
            Ok(mut run) => match run.resume(engine, None, 1000, 0) {
                Step::Done(Reply::Error(text)) => String::from_utf8(text).unwrap(),
                Step::Done(_) => return false,
                other => panic!("{other:?}"),
            },
        };
        assert!(text.starts_with("ERR Script ran out of memory"), "{text}");
        true
    };
    let mut told_count = 0;
    for round in 0..20 {
        for _ in 0..if round == 0 { 2000 } else { 50 } {
            assert!(matches!(hog.resume(&mut engine, None, 1000, 0), Step::More));
        }
        told_count += usize::from(is_told(round, &mut engine));
    }
    assert!(told_count > 10, "{told_count}");
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

/// Where there is a clock a run is paused by it, however little it says that it has done; and without it by nothing but that.
#[test]
fn a_clock_pauses_runs() {
    fn read() -> u64 {
        thread_local!(static READ: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
        READ.replace(READ.get() + 1)
    }
    let source = "local n = 0 for i = 1, 10000 do n = n + i end return n";
    for (clock, pauses) in [(None, 0..1), (Some(Clock { read, slice: 10 }), 200..300)] {
        let mut engine = Engine::new(MEMORY);
        engine.set_clock(clock);
        let mut server = Server::default();
        assert_eq!(show(&run_in(&mut engine, &mut server, source, 1_000_000)), "50005000");
        assert!(pauses.contains(&server.pauses), "{} pauses", server.pauses);
        // Not by time is ended what cannot be paused, and coroutines inside each other come to their end.
        let guarded =
            "return setmetatable({}, {__index = function() for i = 1, 100000 do end return 7 end}).x";
        assert_eq!(show(&run_in(&mut engine, &mut server, guarded, 1_000_000)), "7");
        engine.set_clock(clock.map(|clock| Clock { slice: 200, ..clock }));
        let nested = "local function deep(n) if n == 0 then return 7 end return coroutine.wrap(deep)(n - 1) end return deep(100)";
        assert_eq!(show(&run_in(&mut engine, &mut server, nested, 1_000_000)), "7");
    }
}

/// A search in a long text goes over it in pieces, and finds what one in a short text finds.
#[test]
fn texts_are_found_across_pieces() {
    let source = r"
        local text = ('x'):rep(ARGV[1]) .. ARGV[2] .. ('y'):rep(100000)
        local from, to = text:find(ARGV[2], tonumber(ARGV[3]), true)
        return {#text, from or 0, to or 0}";
    let program = Program::compile(source.as_bytes()).unwrap();
    let mut engine = Engine::new(MEMORY);
    let mut check = |before: usize, wanted: &str, init: i64, want: Option<usize>| {
        let args = [before.to_string(), wanted.to_owned(), init.to_string()];
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let mut run = engine.begin(&program, false, &[], &args).unwrap();
        let mut server = Server::default();
        let got = show(&server.finish(&mut engine, &mut run, 1000));
        let (from, to) = want.map_or((0, 0), |from| (from, from + wanted.len() - 1));
        assert_eq!(
            got,
            format!("[{}, {from}, {to}]", before + wanted.len() + 100_000),
            "{before} {wanted} {init}"
        );
    };
    for before in [0, 5, 65_530, 65_536, 65_537, 131_072, 200_000] {
        check(before, "needle-12", 1, Some(before + 1));
        check(before, "needle-12", i64::try_from(before).unwrap() + 1, Some(before + 1));
        check(before, "needle-12", i64::try_from(before).unwrap() + 2, None);
        check(before, "needle-12", -100_009, Some(before + 1));
        check(before, "needle-12", -100_008, None);
        check(before, "needle-12", -1_000_000_000, Some(before + 1));
    }
    check(70_000, "", 3, Some(3));
    check(70_000, "", 170_001, Some(170_001));
    check(70_000, "", 170_002, None);
    check(70_000, "%s+", 1, Some(70_001));
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
    // A search for a text goes on, however long the two are.
    check("return string.find(string.rep('a', 3000000), string.rep('a', 2000000) .. 'b', 1, true)", "nil");
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
