//! `cmsgpack`, as scripts see it.

use super::check;

/// What is packed of arguments, in hexadecimal digits.
#[track_caller]
fn packs(arguments: &str, want: &str) {
    let hex = "return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end))";
    check(&format!("local s = cmsgpack.pack({arguments}) {hex}"), want);
}

#[test]
fn values_are_packed() {
    for (arguments, want) in [
        ("nil", "c0"),
        ("true, false", "c3c2"),
        ("print", "c0"),
        ("cjson.null", "c0"),
        ("0, 1, 127", "00017f"),
        ("128, 255", "cc80ccff"),
        ("256, 65535", "cd0100cdffff"),
        ("65536, 4294967295", "ce00010000ceffffffff"),
        ("4294967296", "cf0000000100000000"),
        ("2^62", "cf4000000000000000"),
        ("-1, -32", "ffe0"),
        ("-33, -128", "d0dfd080"),
        ("-129, -32768", "d1ff7fd18000"),
        ("-32769, -2147483648", "d2ffff7fffd280000000"),
        ("-2147483649", "d3ffffffff7fffffff"),
        ("-2^63", "d38000000000000000"),
        ("-1099511627776", "d3ffffff0000000000"),
        // Not integers of 64 bits.
        ("2^63", "ca5f000000"),
        ("1/0", "ca7f800000"),
        ("-0.0", "00"),
        ("0.5", "ca3f000000"),
        ("0.1", "cb3fb999999999999a"),
        ("1e300", "cb7e37e43c8800759c"),
        ("''", "a0"),
        ("'abc'", "a3616263"),
        ("{}", "90"),
        ("{1, 'a', {2}}", "9301a1619102"),
        ("{[2] = 1, [1] = 2}", "920201"),
        ("{a = 1}", "81a16101"),
        ("{[2] = 1}", "810201"),
        ("{1, nil, 3, nil, nil}", "8201010303"),
        ("{[0] = 1}", "810001"),
        ("{[{}] = true}", "8190c3"),
    ] {
        packs(arguments, want);
    }
    // Sizes of heads.
    for (value, head) in [
        ("('x'):rep(31)", "bf"),
        ("('x'):rep(32)", "d920"),
        ("('x'):rep(255)", "d9ff"),
        ("('x'):rep(256)", "da0100"),
        ("('x'):rep(65535)", "daffff"),
        ("('x'):rep(65536)", "db00010000"),
        ("table.create(15, 1)", "9f"),
        ("table.create(16, 1)", "dc0010"),
        ("table.create(65535, 1)", "dcffff"),
        ("table.create(65536, 1)", "dd00010000"),
        ("map(15)", "8f"),
        ("map(16)", "de0010"),
        ("map(65536)", "df00010000"),
    ] {
        check(
            &format!(
                "local function map(n) local t = {{}} for i = 1, n do t['k' .. i] = i end return t end
                 local s = cmsgpack.pack({value}):sub(1, {})
                 return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end))",
                head.len() / 2
            ),
            head,
        );
    }
}

/// What `call` of the library returns, one behind the other.
#[track_caller]
fn returns(call: &str, want: &str) {
    let dump = "local function dump(value) \
            if type(value) ~= 'table' then \
                return type(value) == 'string' and '\"' .. value .. '\"' or tostring(value) \
            end \
            local parts = {} \
            for key, inner in pairs(value) do \
                table.insert(parts, dump(key) .. '=' .. dump(inner)) \
            end \
            table.sort(parts) \
            return '{' .. table.concat(parts, ' ') .. '}' \
        end \
        local function dump_all(...) \
            local parts = {} \
            for index = 1, select('#', ...) do \
                parts[index] = dump((select(index, ...))) \
            end \
            return table.concat(parts, ' ') \
        end ";
    check(&format!("{dump}return dump_all(cmsgpack.{call})"), want);
}

#[test]
fn values_are_unpacked() {
    for (bytes, want) in [
        ("", ""),
        (r"\1\127\224\255", "1 127 -32 -1"),
        (r"\204\255\205\255\255\206\255\255\255\255", "255 65535 4294967295"),
        // Without a sign in the format, but not in the C code.
        (r"\207\255\255\255\255\255\255\255\255", "-1"),
        (r"\207\0\0\0\1\0\0\0\0", "4294967296"),
        (
            r"\208\128\209\128\0\210\128\0\0\0\211\255\255\255\255\255\255\255\254",
            "-128 -32768 -2147483648 -2",
        ),
        (r"\202\63\0\0\0\203\63\185\153\153\153\153\153\154", "0.5 0.1"),
        (r"\192\194\195", "nil false true"),
        (r"\160\163abc\217\2xy\218\0\1z\219\0\0\0\1w", r#""" "abc" "xy" "z" "w""#),
        (r"\144\147\1\2\3\220\0\1\4\221\0\0\0\1\5", "{} {1=1 2=2 3=3} {1=4} {1=5}"),
        (r"\128\129\161a\1\222\0\1\161b\2\223\0\0\0\1\161c\3", r#"{} {"a"=1} {"b"=2} {"c"=3}"#),
        (r"\147\1\192\3", "{1=1 3=3}"),
        (r"\129\1\192", "{}"),
        (r"\130\1\2\1\3", "{1=3}"),
        (r"\129\129\1\2\3", "{{1=2}=3}"),
        (r"\146\129\161a\145\144\128", r#"{1={"a"={1={}}} 2={}}"#),
    ] {
        returns(&format!("unpack('{bytes}')"), want);
    }
}

#[test]
fn what_is_not_unpacked() {
    let missing = "error: user_script:1: Missing bytes in input.";
    for (call, want) in [
        (r"unpack('\193')", "error: user_script:1: Bad data format in input."),
        (r"unpack('\1\212')", "error: user_script:1: Bad data format in input."),
        (r"unpack('\146\1')", missing),
        (r"unpack('\129\1')", missing),
        (r"unpack('\129')", missing),
        (r"unpack('\163ab')", missing),
        (r"unpack('\217')", missing),
        (r"unpack('\217\1')", missing),
        (r"unpack('\219\255\255\255\255x')", missing),
        (r"unpack('\203\0\0\0\0\0\0\0')", missing),
        // Sizes that nothing is behind cost nothing.
        (r"unpack('\221\255\255\255\255')", missing),
        (r"unpack('\223\255\255\255\255')", missing),
        (r"unpack('\221\255\255\255\255\221\255\255\255\255\223\255\255\255\255')", missing),
        (r"unpack('\129\192\1')", "error: table index is nil"),
        (r"unpack('\129\202\127\192\0\0\1')", "error: table index is NaN"),
        ("unpack()", "error: user_script:1: bad argument #1 to 'unpack' (string expected, got no value)"),
        ("unpack({})", "error: user_script:1: bad argument #1 to 'unpack' (string expected, got table)"),
        ("unpack(5)", "53"),
        ("pack()", "error: user_script:1: bad argument #0 to 'pack' (MessagePack pack needs input.)"),
        (
            "unpack_limit('x')",
            "error: user_script:1: bad argument #2 to 'unpack_limit' (number expected, got no value)",
        ),
        (
            "unpack_one('abc', {})",
            "error: user_script:1: bad argument #2 to 'unpack_one' (number expected, got table)",
        ),
        ("unpack_one('abc', 4)", "error: user_script:1: Start offset 4 greater than input length 3."),
        ("unpack_one('abc', 2^40)", "error: user_script:1: Start offset 0 greater than input length 3."),
        // The size where the limit should be, as there.
        (
            "unpack_one('abc', -4)",
            "error: user_script:1: Invalid request to unpack with offset of -4 and limit of 3.",
        ),
        (
            "unpack_limit('abc', -1, 1)",
            "error: user_script:1: Invalid request to unpack with offset of 1 and limit of 3.",
        ),
        (
            "unpack_limit('abc', 1, -2^70)",
            "error: user_script:1: Invalid request to unpack with offset of 0 and limit of 3.",
        ),
    ] {
        returns(call, want);
    }
}

#[test]
fn streams_are_unpacked_in_parts() {
    for (call, want) in [
        (r"unpack_one('\1\2\3')", "1 1"),
        (r"unpack_one('\1\2\3', 1)", "2 2"),
        (r"unpack_one('\1\2\3', 2)", "-1 3"),
        (r"unpack_one('\1\2\3', 3)", "-1"),
        (r"unpack_one('', 0)", "-1"),
        (r"unpack_limit('\1\2\3', 2)", "2 1 2"),
        (r"unpack_limit('\1\2\3', 2, 1)", "-1 2 3"),
        (r"unpack_limit('\1\2\3', 9, 1)", "-1 2 3"),
        (r"unpack_limit('\1\2\3', 0, 1)", "1"),
        // All of them, and no offset.
        (r"unpack_limit('\1\2\3', 0, 0)", "1 2 3"),
    ] {
        returns(call, want);
    }
}

#[test]
fn counts_and_nesting_are_limited() {
    const STACK_SIZE: usize = 1 << 20;
    let cases = [
        (r"return select('#', cmsgpack.unpack(('\1'):rep(7999)))", "7999"),
        (
            r"return select('#', cmsgpack.unpack(('\1'):rep(8000)))",
            "error: user_script:1: stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
        ),
        (r"return type(cmsgpack.unpack(('\145'):rep(3990) .. '\1'))", "table"),
        (
            r"return cmsgpack.unpack(('\145'):rep(9000))",
            "error: user_script:1: stack overflow (in function mp_decode_to_lua_array)",
        ),
        (
            r"return cmsgpack.unpack(('\129\1'):rep(9000))",
            "error: user_script:1: stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
        ),
        (
            r"return cmsgpack.unpack(('\129'):rep(9000))",
            "error: user_script:1: stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
        ),
        ("return #cmsgpack.pack(unpack({}, 1, 4000))", "4000"),
        (
            "return #cmsgpack.pack(unpack({}, 1, 4001))",
            "error: user_script:1: bad argument #0 to 'pack' (Too many arguments for MessagePack pack.)",
        ),
        // Tables that are too deep, or contain themselves, end as nil.
        ("local t = {} t[1] = t return #cmsgpack.pack(t)", "17"),
    ];
    let run = move || cases.iter().for_each(|(script, want)| check(script, want));
    let thread = std::thread::Builder::new().stack_size(STACK_SIZE).spawn(run);
    thread.expect("a thread").join().expect("all as they should be");
}

/// As the tests `EVAL - cmsgpack …` of Redis' suite, but for the order of a table's fields.
#[test]
fn redis_own_tests() {
    packs("0.1", "cb3fb999999999999a");
    packs("-1099511627776", "d3ffffff0000000000");
    check(
        r#"local str_lt_32 = string.rep("x", 30)
        local str_lt_255 = string.rep("x", 250)
        local str_lt_65535 = string.rep("x", 65530)
        local str_long = string.rep("x", 100000)
        local array_lt_15 = {1, 2, 3, 4, 5}
        local array_lt_65535 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
        local array_big = {}
        for i=1, 100000 do
            array_big[i] = i
        end
        local map_lt_15 = {a=1, b=2}
        local map_big = {}
        for i=1, 100000 do
            map_big[tostring(i)] = i
        end
        local some_map = {
            s1=str_lt_32, s2=str_lt_255, s3=str_lt_65535, s4=str_long, d1=0.1, i1=1, i2=250, i3=65530, i4=100000,
            i5=2^40, i6=-1, i7=-120, i8=-32000, i9=-100000, i10=-3147483648, a1=array_lt_15, a2=array_lt_65535,
            a3=array_big, m1=map_lt_15, m2=map_big, b1=false, b2=true, n=nil
        }
        local encoded = cmsgpack.pack(some_map)
        local decoded = cmsgpack.unpack(encoded)
        assert(table.concat(some_map) == table.concat(decoded))
        for key, value in pairs(some_map) do
            assert(type(value) == 'table' or decoded[key] == value, key)
        end
        assert(#decoded.a3 == 100000 and decoded.m2['100000'] == 100000)
        local offset, decoded_one = cmsgpack.unpack_one(encoded, 0)
        assert(table.concat(some_map) == table.concat(decoded_one))
        assert(offset == -1)

        local encoded_multiple = cmsgpack.pack(str_lt_32, str_lt_255, str_lt_65535, str_long)
        local offset, obj = cmsgpack.unpack_limit(encoded_multiple, 1, 0)
        assert(obj == str_lt_32)
        offset, obj = cmsgpack.unpack_limit(encoded_multiple, 1, offset)
        assert(obj == str_lt_255)
        offset, obj = cmsgpack.unpack_limit(encoded_multiple, 1, offset)
        assert(obj == str_lt_65535)
        offset, obj = cmsgpack.unpack_limit(encoded_multiple, 1, offset)
        assert(obj == str_long)
        assert(offset == -1)"#,
        "nil",
    );
    check(
        "local a = {x=nil,y=5}
        local b = {x=a}
        a['x'] = b
        local encoded = cmsgpack.pack(a)
        local re = cmsgpack.unpack(encoded)
        assert(re)
        assert(re.x)
        assert(re.x.x.y == re.y)
        assert(re.x.x.x.x.y == re.y)
        assert(re.x.x.x.x.x.x.y == re.y)
        assert(re.x.x.x.x.x.x.x.x.x.x.y == re.y)
        assert(re.x.x.x.x.x.x.x.x.x.x.x.x.x.x.y == re.y)
        assert(re.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x)
        assert(re.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x == nil)
        assert(re.x.x.x.x.x.x.x.x.y == re.y and re.y == 5)
        return #encoded",
        "73",
    );
}
