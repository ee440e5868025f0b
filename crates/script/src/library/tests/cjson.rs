//! `cjson`, as scripts see it.

use super::{check, lua, run};

#[test]
fn scalars_are_encoded() {
    for (value, want) in [
        ("nil", "null"),
        ("cjson.null", "null"),
        ("true", "true"),
        ("false", "false"),
        ("0", "0"),
        ("-0.0", "-0"),
        ("0.1", "0.1"),
        ("1/3", "0.33333333333333"),
        ("-5e3", "-5000"),
        ("2^53", "9.007199254741e+15"),
        ("99999999999999", "99999999999999"),
        ("1e14", "1e+14"),
        ("99999999999999.5", "1e+14"),
        ("123456789012345.5", "1.2345678901235e+14"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("5e-324", "4.9406564584125e-324"),
        ("1.7976931348623157e308", "1.7976931348623e+308"),
        ("''", r#""""#),
        (r#"'a"b\\c/d'"#, r#""a\\"b\\\\c\\/d""#),
        (r"'\b\t\n\f\r\0\1\31\127'", r#""\\b\\t\\n\\f\\r\\u0000\\u0001\\u001f\\u007f""#),
        // Whether it is UTF-8 or not.
        (r"'\200\255'", r#""\xc8\xff""#),
    ] {
        check(&format!("return cjson.encode({value})"), want);
    }
}

#[test]
fn tables_are_encoded() {
    for (value, want) in [
        ("{}", "{}"),
        ("{{}}", "[{}]"),
        ("{1, 'a', true}", "[1,\"a\",true]"),
        ("{1, 2, nil, 4}", "[1,2,null,4]"),
        ("{[3] = 1}", "[null,null,1]"),
        ("{[10] = 1}", "[null,null,null,null,null,null,null,null,null,1]"),
        ("{a = 1}", "{\"a\":1}"),
        ("{[0] = 1}", "{\"0\":1}"),
        ("{[-1] = 1}", "{\"-1\":1}"),
        ("{[1.5] = 1}", "{\"1.5\":1}"),
        ("{['1'] = 1}", "{\"1\":1}"),
        ("{[1e10] = 1}", "{\"10000000000\":1}"),
        ("{a = {b = {c = {1, {d = 2}}}}}", "{\"a\":{\"b\":{\"c\":[1,{\"d\":2}]}}}"),
        ("{{1}, {2}, {{}}}", "[[1],[2],[{}]]"),
        ("setmetatable({1}, {__index = {2, 3}, __len = function() return 9 end})", "[1]"),
    ] {
        check(&format!("return cjson.encode({value})"), want);
    }
}

/// Fields come in any order; each of them comes once, tables before, between and behind other values.
#[test]
fn objects_with_tables_among_their_fields_are_whole() {
    check(
        "for count = 1, 40 do
             local object = {}
             for index = 1, count do
                 object['k' .. index] = index % 3 == 0 and {index} or index % 7 == 0 and {x = {}} or index
             end
             local found = cjson.decode(cjson.encode(object))
             local seen = 0
             for key, value in pairs(found) do
                 seen = seen + 1
                 local want = object[key]
                 if type(want) == 'table' then
                     assert(value[1] == want[1] and (value.x == nil) == (want.x == nil))
                 else
                     assert(value == want)
                 end
             end
             assert(seen == count)
         end",
        "nil",
    );
}

#[test]
fn what_is_not_encoded() {
    for (call, want) in [
        ("encode(print)", "Cannot serialise function: type not supported"),
        ("encode({print})", "Cannot serialise function: type not supported"),
        ("encode({a = coroutine.create(print)})", "Cannot serialise thread: type not supported"),
        ("encode(0/0)", "Cannot serialise number: must not be NaN or Inf"),
        ("encode({a = 1/0})", "Cannot serialise number: must not be NaN or Inf"),
        ("encode({[1/0] = 1})", "Cannot serialise number: must not be NaN or Inf"),
        ("encode({[true] = 1})", "Cannot serialise boolean: table key must be a number or string"),
        ("encode({[11] = 1})", "Cannot serialise table: excessively sparse array"),
        ("encode({a = {[1000] = 1}})", "Cannot serialise table: excessively sparse array"),
        ("encode()", "bad argument #1 to 'encode' (expected 1 argument)"),
        ("encode(1, 2)", "bad argument #1 to 'encode' (expected 1 argument)"),
    ] {
        check(&format!("return cjson.{call}"), &format!("error: user_script:1: {want}"));
    }
    check(
        "local _, text = pcall(cjson.encode, print) return text",
        "Cannot serialise function: type not supported",
    );
}

/// What a text is, as `cjson.decode` makes it and a script writes it.
#[track_caller]
fn decodes(text: &str, want: &str) {
    let dump = "local function dump(value) \
            if type(value) ~= 'table' then \
                return type(value) == 'string' and '\"' .. value .. '\"' or value == cjson.null and 'null' or tostring(value) \
            end \
            local parts = {} \
            for key, inner in pairs(value) do \
                table.insert(parts, dump(key) .. '=' .. dump(inner)) \
            end \
            table.sort(parts) \
            return '{' .. table.concat(parts, ' ') .. '}' \
        end ";
    let escaped: String = text.bytes().map(|byte| format!("\\{byte:03}")).collect();
    check(&format!("{dump}return dump(cjson.decode('{escaped}'))"), want);
}

#[test]
fn values_are_decoded() {
    for (text, want) in [
        ("null", "null"),
        (" true ", "true"),
        ("\t\r\nfalse\n", "false"),
        ("[]", "{}"),
        ("{}", "{}"),
        (" [ 1 , [ ] , { } ] ", "{1=1 2={} 3={}}"),
        ("[null,false]", "{1=null 2=false}"),
        ("{\"a\":{\"b\":[1,2]},\"c\":null}", r#"{"a"={"b"={1=1 2=2}} "c"=null}"#),
        ("{\"a\":1,\"a\":2}", r#"{"a"=2}"#),
        ("{\"\":1}", r#"{""=1}"#),
        ("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", r#"""\\/\x08\x0c\n\r\t""#),
        (r#""\u0041\u00e9\u20AC\ud83d\ude00""#, r#""A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80""#),
        (r#""a\u0000b""#, r#""a\x00b""#),
        // Controls are let pass.
        ("\"\n\u{1}\"", r#""\n\x01""#),
        // A NUL ends the text.
        ("1 \0 anything", "1"),
    ] {
        decodes(text, want);
    }
}

#[test]
fn numbers_are_decoded_as_strtod_reads_them() {
    for (text, want) in [
        ("0", "0"),
        ("-5e3", "-5000"),
        ("0.3e-3", "0.0003"),
        ("1E+2", "100"),
        ("1.", "1"),
        ("-.5", "-0.5"),
        ("007", "7"),
        ("+5", "5"),
        ("1e999", "inf"),
        ("-1e999", "-inf"),
        ("1e-999", "0"),
        ("inf", "inf"),
        ("-Infinity", "-inf"),
        ("nan", "nan"),
        ("NaN(1_a)", "nan"),
        ("0x1F", "31"),
        ("-0X.8", "-0.5"),
        ("0x1.8p3", "12"),
        ("0x1p-1", "0.5"),
        ("0x1p-1074", "5e-324"),
        ("0x1p-1075", "0"),
        ("0x1.8p-1075", "5e-324"),
        ("0x1.fffffffffffff8p0", "2"),
        ("0x1.fffffffffffff7p0", "1.9999999999999998"),
        ("0x1.00000000000008p0", "1"),
        ("0x1.000000000000080000000000001p0", "1.0000000000000002"),
        ("0x123456789abcdef0123456789", "9.014404268289631e+28"),
        ("0x1p1023", "8.98846567431158e+307"),
        ("0x1p1024", "inf"),
        ("0x1.fffffffffffffcp1023", "inf"),
        ("0x1p99999999999999999999", "inf"),
        ("0x0p99999999999999999999", "0"),
    ] {
        decodes(text, want);
    }
}

#[test]
fn what_is_not_decoded() {
    for (text, want) in [
        ("", "Expected value but found T_END at character 1"),
        ("x", "Expected value but found invalid token at character 1"),
        (" tru", "Expected value but found invalid token at character 2"),
        ("True", "Expected value but found invalid token at character 1"),
        ("n", "Expected value but found invalid token at character 1"),
        ("-", "Expected value but found invalid number at character 1"),
        ("+", "Expected value but found invalid number at character 1"),
        ("- 1", "Expected value but found invalid number at character 1"),
        ("1 2", "Expected the end but found T_NUMBER at character 3"),
        ("0x", "Expected the end but found invalid token at character 2"),
        ("1e", "Expected the end but found invalid token at character 2"),
        ("]", "Expected value but found T_ARR_END at character 1"),
        ("[1,]", "Expected value but found T_ARR_END at character 4"),
        ("[,1]", "Expected value but found T_COMMA at character 2"),
        ("[1 2]", "Expected comma or array end but found T_NUMBER at character 4"),
        ("[1}", "Expected comma or array end but found T_OBJ_END at character 3"),
        ("[2", "Expected comma or array end but found T_END at character 3"),
        ("{1:2}", "Expected object key string but found T_NUMBER at character 2"),
        (r#"{"a":1,}"#, "Expected object key string but found T_OBJ_END at character 8"),
        (r#"{"a" 2}"#, "Expected colon but found T_NUMBER at character 6"),
        (r#"{"a":2"#, "Expected comma or object end but found T_END at character 7"),
        (r#"{"a":}"#, "Expected value but found T_OBJ_END at character 6"),
        (r#""ab"#, "Expected value but found unexpected end of string at character 4"),
        ("\"a\0\"", "Expected value but found unexpected end of string at character 3"),
        (r#""a\x""#, "Expected value but found invalid escape code at character 3"),
        (r#""\"#, "Expected value but found invalid escape code at character 2"),
        (r#""\u00g0""#, "Expected value but found invalid unicode escape code at character 2"),
        (r#""\u12"#, "Expected value but found invalid unicode escape code at character 2"),
        (r#""\ud800""#, "Expected value but found invalid unicode escape code at character 2"),
        (r#""\ud800\u0041""#, "Expected value but found invalid unicode escape code at character 2"),
        (r#""\udc00\udc00""#, "Expected value but found invalid unicode escape code at character 2"),
        ("1\0", "JSON parser does not support UTF-16 or UTF-32"),
        ("\0[", "JSON parser does not support UTF-16 or UTF-32"),
    ] {
        decodes(text, &format!("error: user_script:1: {want}"));
    }
    for (call, want) in [
        ("decode()", "bad argument #1 to 'decode' (expected 1 argument)"),
        ("decode('1', 2)", "bad argument #1 to 'decode' (expected 1 argument)"),
        ("decode(nil)", "bad argument #1 to 'decode' (string expected, got nil)"),
        ("decode({})", "bad argument #1 to 'decode' (string expected, got table)"),
    ] {
        check(&format!("return cjson.{call}"), &format!("error: user_script:1: {want}"));
    }
    check("return cjson.decode(1.5)", "1.5");
}

#[test]
fn null_is_a_value_of_its_own() {
    check("return cjson.null == cjson.decode('null')", "true");
    check("return type(cjson.null)", "userdata");
    check("return cjson.decode('[null]')[1] == cjson.null", "true");
    check("return cjson.null == nil", "false");
}

/// Ends of texts of errors for nesting; everything runs on a stack as small as a lane's.
#[test]
fn nesting_is_limited() {
    const STACK_SIZE: usize = 1 << 20;
    let nested = |open: &str, count: u32| {
        format!("local value = 1 for _ = 1, {count} do value = {open} end return #cjson.encode(value)")
    };
    let text = |open: &str, close: &str, count: u32| {
        format!(
            "local text = ('{open}'):rep({count}) .. '1' .. ('{close}'):rep({count})
             return type(cjson.decode(text))"
        )
    };
    let deep = "cjson.encode_max_depth(100000) cjson.decode_max_depth(100000) ";
    let cases = [
        (nested("{value}", 1000), "2001"),
        (nested("{value}", 1001), "error: user_script:1: Cannot serialise, excessive nesting (1001)"),
        (nested("{a = value}", 1001), "error: user_script:1: Cannot serialise, excessive nesting (1001)"),
        (text("[", "]", 1000), "table"),
        (
            text("[", "]", 1001),
            "error: user_script:2: Found too many nested data structures (1001) at character 1001",
        ),
        (text("{\"a\":", "}", 1000), "table"),
        (
            text("{\"a\":", "}", 1001),
            "error: user_script:2: Found too many nested data structures (1001) at character 5001",
        ),
        // Where Lua's stack ends in the C code.
        (deep.to_owned() + &nested("{value}", 7997), "15995"),
        (
            deep.to_owned() + &nested("{value}", 9000),
            "error: user_script:1: Cannot serialise, excessive nesting (7998)",
        ),
        (
            deep.to_owned() + &nested("{a = value}", 9000),
            "error: user_script:1: Cannot serialise, excessive nesting (4000)",
        ),
        (
            deep.to_owned() + &text("[", "]", 9000),
            "error: user_script:2: Found too many nested data structures (7999) at character 7999",
        ),
        (
            deep.to_owned() + &text("{\"a\":", "}", 9000),
            "error: user_script:2: Found too many nested data structures (4000) at character 19996",
        ),
        (
            "local t = {} t[1] = t return cjson.encode(t)".to_owned(),
            "error: user_script:1: Cannot serialise, excessive nesting (1001)",
        ),
    ];
    let run = move || cases.iter().for_each(|(script, want)| check(script, want));
    let thread = std::thread::Builder::new().stack_size(STACK_SIZE).spawn(run);
    thread.expect("a thread").join().expect("all as they should be");
}

/// A script's memory bounds what it encodes, and what it decodes.
#[test]
fn memory_is_limited() {
    let lua = lua();
    lua.set_memory_limit(16 << 20).expect("a limit");
    for script in [
        // Two to the power of 30 nulls, or of values.
        "cjson.encode_sparse_array(false, 0) return cjson.encode({[2 ^ 30] = 1})",
        "local t = {1} for _ = 1, 30 do t = {t, t} end return cjson.encode(t)",
        "local t = {1} for _ = 1, 30 do t = {a = t, b = t} end return cjson.encode(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return cjson.encode(t)",
        "local s = ('\\1'):rep(4000000) return cjson.encode(s)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return cmsgpack.pack(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end
         return struct.pack(('s'):rep(1000), unpack(t))",
        "return cjson.decode('[' .. ('[],'):rep(1000000) .. '1]')",
        "return cmsgpack.unpack('\\221\\0\\15\\255\\255' .. ('\\144'):rep(1000000))",
    ] {
        assert_eq!(run(&lua, script), "error: not enough memory", "{script}");
        lua.gc_collect().expect("garbage");
    }
    // Afterwards everything is as before.
    assert_eq!(run(&lua, "return cjson.encode(cjson.decode('[1,2]'))"), "[1,2]");
}

#[test]
fn settings() {
    for (script, want) in [
        ("return cjson.encode_max_depth()", "1000"),
        ("return cjson.encode_max_depth(5)", "5"),
        ("return cjson.encode_max_depth('7.9')", "7"),
        ("return cjson.decode_max_depth(2^32 + 3)", "3"),
        (
            "cjson.encode_max_depth(1) return cjson.encode({{}})",
            "error: user_script:1: Cannot serialise, excessive nesting (2)",
        ),
        (
            "cjson.decode_max_depth(1) return cjson.decode('{\"a\":[1]}')",
            "error: user_script:1: Found too many nested data structures (2) at character 6",
        ),
        ("return cjson.encode_number_precision()", "14"),
        (
            "cjson.encode_number_precision(3) return cjson.encode({1/3, 1234, 123, 0.000012345})",
            "[0.333,1.23e+03,123,1.23e-05]",
        ),
        ("return table.concat({tostring(cjson.encode_sparse_array())}, ' ')", "false"),
        ("local a, b, c = cjson.encode_sparse_array(true, 3, 4) return tostring(a) .. b .. c", "true34"),
        ("local a, b, c = cjson.encode_sparse_array('off', nil, 4) return tostring(a) .. b .. c", "false24"),
        ("cjson.encode_sparse_array(true) return cjson.encode({[11] = 1})", r#"{"11":1}"#),
        ("cjson.encode_sparse_array(false, 0) return #cjson.encode({[11] = 1})", "53"),
        (
            "cjson.encode_sparse_array(false, 1, 2) return cjson.encode({1, nil, 3})",
            "error: user_script:1: Cannot serialise table: excessively sparse array",
        ),
        ("return cjson.encode_keep_buffer()", "true"),
        ("return cjson.encode_keep_buffer(false)", "false"),
        ("return cjson.encode_keep_buffer('on')", "true"),
        ("return cjson.encode_invalid_numbers()", "false"),
        ("return cjson.encode_invalid_numbers('on')", "true"),
        ("return cjson.encode_invalid_numbers('null')", "null"),
        ("cjson.encode_invalid_numbers(true) return cjson.encode({0/0, 1/0, -1/0})", "[nan,inf,-inf]"),
        ("cjson.encode_invalid_numbers('null') return cjson.encode({0/0, 1/0, -1/0})", "[null,null,null]"),
        ("return cjson.decode_invalid_numbers()", "true"),
        (
            "cjson.decode_invalid_numbers(false) return cjson.decode('0x10')",
            "error: user_script:1: Expected value but found invalid number at character 1",
        ),
        (
            "cjson.decode_invalid_numbers(false) return cjson.decode('-01')",
            "error: user_script:1: Expected value but found invalid number at character 1",
        ),
        (
            "cjson.decode_invalid_numbers(false) return cjson.decode('-nan')",
            "error: user_script:1: Expected value but found invalid number at character 1",
        ),
        (
            "cjson.decode_invalid_numbers(false) return cjson.decode('+1')",
            "error: user_script:1: Expected value but found invalid token at character 1",
        ),
        ("cjson.decode_invalid_numbers(false) return cjson.decode('-1.')", "-1"),
        ("local other = cjson.new() other.encode_max_depth(3) return cjson.encode_max_depth()", "1000"),
        ("local other = cjson.new() return other.encode(other.decode('[1]')) .. other._NAME", "[1]cjson"),
        ("return cjson._NAME .. cjson._VERSION", "cjson2.1.0"),
    ] {
        check(script, want);
    }
    for (call, name, want) in [
        ("encode_max_depth(0)", "encode_max_depth", "expected integer between 1 and 2147483647"),
        ("encode_max_depth('a')", "encode_max_depth", "number expected, got string"),
        ("encode_number_precision(15)", "encode_number_precision", "expected integer between 1 and 14"),
        ("encode_sparse_array('a')", "encode_sparse_array", "invalid option 'a'"),
        ("encode_sparse_array(1)", "encode_sparse_array", "invalid option '1'"),
        // The first argument's fault, as there.
        ("encode_sparse_array(true, -1)", "encode_sparse_array", "expected integer between 0 and 2147483647"),
        ("encode_keep_buffer({})", "encode_keep_buffer", "string expected, got table"),
        ("decode_invalid_numbers('null')", "decode_invalid_numbers", "invalid option 'null'"),
    ] {
        check(
            &format!("cjson.{call}"),
            &format!("error: user_script:1: bad argument #1 to '{name}' ({want})"),
        );
    }
    check(
        "cjson.encode_sparse_array(true, 1, 2, 3)",
        "error: user_script:1: bad argument #4 to 'encode_sparse_array' (found too many arguments)",
    );
    check(
        "pcall(cjson.encode_sparse_array, true, 1, 'x') local a, b, c = cjson.encode_sparse_array() return tostring(a) .. b .. c",
        "true110",
    );
}

/// Settings stay when a script ends.
#[test]
fn settings_belong_to_the_library() {
    let lua = lua();
    assert_eq!(run(&lua, "cjson.encode_number_precision(2)"), "nil");
    assert_eq!(run(&lua, "return cjson.encode(1/3)"), "0.33");
}

/// The environment of a function is nothing that a script could use or leave something in.
#[test]
fn functions_have_no_environment() {
    check("return next(getfenv(cjson.encode)) == nil", "true");
    check("return (pcall(rawset, getfenv(cjson.encode), 'x', 1))", "false");
    check("pcall(setfenv, cjson.encode, {}) return cjson.encode({1})", "[1]");
    check("error = nil next = nil return cjson.encode({a = {b = {1}}})", r#"{"a":{"b":[1]}}"#);
    check(
        "error = print return cjson.encode(print)",
        "error: user_script:1: Cannot serialise function: type not supported",
    );
}

/// As `EVAL - JSON numeric decoding`, `string decoding` and `smoke test` of Redis' suite.
#[test]
fn redis_own_tests() {
    check(
        "return table.concat(cjson.decode('[0.0, -5e3, -1, 0.3e-3, 1023.2, 0e10]'), ' ')",
        "0 -5000 -1 0.0003 1023.2 0",
    );
    check(
        "local decoded = cjson.decode('{\"keya\": \"a\", \"keyb\": \"b\"}') return decoded.keya .. decoded.keyb",
        "ab",
    );
    check(
        r#"local some_map = {s1="Some string", n1=100, a1={"Some","String","Array"}, nil1=nil, b1=true, b2=false}
        local encoded = cjson.encode(some_map)
        local decoded = cjson.decode(encoded)
        assert(table.concat(some_map) == table.concat(decoded))

        cjson.encode_keep_buffer(false)
        encoded = cjson.encode(some_map)
        decoded = cjson.decode(encoded)
        assert(table.concat(some_map) == table.concat(decoded))

        local table1 = {one="one", [1]="one"}
        encoded = cjson.encode(table1)
        decoded = cjson.decode(encoded)
        assert(decoded["one"] == table1["one"])
        assert(decoded["1"] == table1[1])

        local array1 = {[1]="one", [2]="two"}
        encoded = cjson.encode(array1)
        decoded = cjson.decode(encoded)
        assert(table.concat(array1) == table.concat(decoded))

        local invalid_map = {}
        invalid_map[false] = "false"
        local ok, encoded = pcall(cjson.encode, invalid_map)
        assert(ok == false)

        cjson.encode_max_depth(1)
        ok, encoded = pcall(cjson.encode, some_map)
        assert(ok == false)

        cjson.decode_max_depth(1)
        ok, decoded = pcall(cjson.decode, '{"obj": {"array": [1,2,3,4]}}')
        assert(ok == false)

        ok, encoded = pcall(cjson.encode, {num1=0/0})
        assert(ok == false)
        cjson.encode_invalid_numbers(true)
        ok, encoded = pcall(cjson.encode, {num1=0/0})
        assert(ok == true)

        cjson.decode_max_depth(1000)
        cjson.encode_max_depth(1000)
        cjson.encode_invalid_numbers(false)"#,
        "nil",
    );
}
