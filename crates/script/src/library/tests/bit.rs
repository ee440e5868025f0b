//! `bit`, as scripts see it.

use super::check;

#[test]
fn numbers_are_rounded_and_wrap_round() {
    for (argument, want) in [
        ("1", "1"),
        ("0xffffffff", "-1"),
        ("2147483648", "-2147483648"),
        ("1e10", "1410065408"),
        ("-1e10", "-1410065408"),
        // To even.
        ("1.5", "2"),
        ("2.5", "2"),
        ("0.49999", "0"),
        ("1e300", "-2013235812"),
        ("'7'", "7"),
        ("' 0x1F '", "31"),
        ("'nan'", "0"),
    ] {
        check(&format!("return bit.tobit({argument})"), want);
    }
}

#[test]
fn operations() {
    for (call, want) in [
        ("bnot(0)", "-1"),
        ("bnot(0x12345678)", "-305419897"),
        ("band(1)", "1"),
        ("band(0x12345678, 0xff)", "120"),
        ("bor(1, 2, 4, 8, 16, 32, 64, 128)", "255"),
        ("bxor(1, 2)", "3"),
        ("bxor(0xa5a5f0f0, 0xaa55ff00)", "267390960"),
        ("lshift(1, 31)", "-2147483648"),
        ("lshift(1, 32)", "1"),
        ("lshift(1, -1)", "-2147483648"),
        ("rshift(-256, 8)", "16777215"),
        ("arshift(-256, 8)", "-1"),
        ("rol(0x12345678, 12)", "1164411171"),
        ("ror(0x12345678, 12)", "1736516421"),
        ("rol(5, 0)", "5"),
        ("bswap(0x12345678)", "2018915346"),
        ("tohex(1)", "00000001"),
        ("tohex(-1)", "ffffffff"),
        ("tohex(0xffffffff, -8)", "FFFFFFFF"),
        ("tohex(0x21, 4)", "0021"),
        ("tohex(0x87654321, 4)", "4321"),
        ("tohex(1, 0)", ""),
        ("tohex(1, 100)", "00000001"),
    ] {
        check(&format!("return bit.{call}"), want);
    }
}

/// CVE-2024-31449: a count that has no positive one made `tohex` write far behind its digits.
#[test]
fn the_least_count_of_digits_is_one_of_eight() {
    check("return bit.tohex(65535, -2147483648)", "0000FFFF");
}

#[test]
fn other_than_numbers_are_refused() {
    let text = |index: u32, name: &str, got: &str| {
        format!("error: user_script:1: bad argument #{index} to '{name}' (number expected, got {got})")
    };
    for (call, want) in [
        ("tobit()", text(1, "tobit", "no value")),
        ("tobit(nil)", text(1, "tobit", "nil")),
        ("tobit({})", text(1, "tobit", "table")),
        ("tobit('7x')", text(1, "tobit", "string")),
        ("band(1, 2, 'x', {})", text(4, "band", "table")),
        ("lshift(1)", text(2, "lshift", "no value")),
        ("tohex(1, nil)", text(2, "tohex", "nil")),
        ("bnot(cjson.null)", text(1, "bnot", "userdata")),
    ] {
        check(&format!("return bit.{call}"), &want);
    }
    // What pcall calls has neither a name nor a place.
    check(
        "local _, text = pcall(bit.tobit) return text",
        "bad argument #1 to '?' (number expected, got no value)",
    );
    check(
        "return select(2, coroutine.resume(coroutine.create(bit.tobit)))",
        "bad argument #1 to '?' (number expected, got no value)",
    );
    check(
        "\n\nlocal _, text = pcall(function() return bit.tobit() end) return text",
        "user_script:3: bad argument #1 to 'tobit' (number expected, got no value)",
    );
}

/// As `EVAL - Numerical sanity check from bitop` and `EVAL - Verify minimal bitop functionality` of Redis' suite.
#[test]
fn redis_own_tests() {
    check(
        "assert(0x7fffffff == 2147483647, 'broken hex literals')
         assert(0xffffffff == -1 or 0xffffffff == 2^32-1, 'broken hex literals')
         assert(tostring(-1) == '-1', 'broken tostring()')
         assert(tostring(0xffffffff) == '-1' or tostring(0xffffffff) == '4294967295', 'broken tostring()')
         assert(bit.tobit(1) == 1)
         assert(bit.band(1) == 1)
         assert(bit.bxor(1,2) == 3)
         assert(bit.bor(1,2,4,8,16,32,64,128) == 255)",
        "nil",
    );
}
