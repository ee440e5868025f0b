//! `struct`, as scripts see it.

use super::check;

/// What is packed, in hexadecimal digits.
#[track_caller]
fn packs(arguments: &str, want: &str) {
    let hex = "return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end))";
    check(&format!("local s = struct.pack({arguments}) {hex}"), want);
}

#[test]
fn values_are_packed() {
    for (arguments, want) in [
        ("''", ""),
        ("'bB', -1, 255", "ffff"),
        ("'b', 300.9", "2c"),
        ("'<h>h', 258, 258", "02010102"),
        ("'H', -2", "feff"),
        ("'i', 1", "01000000"),
        ("'>I3', 66051", "010203"),
        ("'<l', -2", "feffffffffffffff"),
        ("'>T', 2^53", "0020000000000000"),
        ("'>L', 2^64 - 2^11", "fffffffffffff800"),
        // Out of range, as x86-64 has it.
        ("'L', 2^64", "0000000000000000"),
        ("'L', 0/0", "0000000000000080"),
        ("'l', -2^70", "0000000000000080"),
        ("'>I9', 1000", "0000000000000003e8"),
        ("'<I12', 1000", "e80300000000000000000000"),
        ("'i0', 1", ""),
        ("'f', 0.5", "0000003f"),
        ("'>f', 1e300", "7f800000"),
        ("'>d', 0.1", "3fb999999999999a"),
        ("'s', 'ab'", "616200"),
        ("'s', 0.1", "302e3100"),
        ("'c3c0c', 'abcd', 'xy', 'z1'", "61626378797a"),
        ("'xbx', 1", "000100"),
        ("'!4 b i b h', 1, 2, 3, 4", "010000000200000003000400"),
        ("'!bd', 1, 0", "01000000000000000000000000000000"),
        ("'!2bd', 1, 0", "01000000000000000000"),
        // A format ends at its first NUL; arguments may be left.
        ("'b\\0b', 1, {}", "01"),
    ] {
        packs(arguments, want);
    }
}

/// What `unpack` returns, one behind the other.
#[track_caller]
fn returns(arguments: &str, want: &str) {
    check(
        &format!(
            "local function all(...)
                 local parts = {{}}
                 for index = 1, select('#', ...) do
                     local value = select(index, ...)
                     parts[index] = type(value) == 'number' and string.format('%.14g', value) or value
                 end
                 return table.concat(parts, ' ')
             end
             return all(struct.unpack({arguments}))"
        ),
        want,
    );
}

#[test]
fn values_are_unpacked() {
    for (arguments, want) in [
        ("'', ''", "1"),
        (r"'bB', '\255\255'", "-1 255 3"),
        (r"'<h>H', '\254\255\1\2'", "-2 258 5"),
        (r"'i', '\255\255\255\255'", "-1 5"),
        (r"'>i3', '\255\255\254'", "-2 4"),
        (r"'>I3', '\255\255\254'", "16777214 4"),
        (r"'l', '\254\255\255\255\255\255\255\255'", "-2 9"),
        (r"'L', '\254\255\255\255\255\255\255\255'", "1.844674407371e+19 9"),
        // The last eight bytes count; the place of the sign has wrapped round.
        (r"'>I9', '\1\0\0\0\0\0\0\3\232'", "1000 10"),
        (r"'>i9', '\0\0\0\0\0\0\0\3\232'", "-24 10"),
        (r"'i0', ''", "0 1"),
        (r"'f', '\0\0\0\63'", "0.5 5"),
        (r"'>d', '\63\185\153\153\153\153\153\154'", "0.1 9"),
        (r"'sb', 'abc\0\5'", "abc 5 6"),
        (r"'c2c', 'abc'", "ab c 4"),
        (r"'Bc0', '\3abcd'", "abc 5"),
        (r"'sc0', '2\0abc'", "ab 5"),
        (r"'xb', '\1\2'", "2 3"),
        (r"'!4bi', '\1\0\0\0\2\0\0\0'", "1 2 9"),
        (r"'b', '\1\2\3', 3", "3 4"),
        (r"'b', 'a', '1'", "97 2"),
        // Nothing is looked for, so the position is never checked.
        ("'', 'a', -1", "-1"),
        ("'', 'a', 9", "9"),
        // Infinitely many are none.
        (r"'dc0', '\0\0\0\0\0\0\240\127'", " 9"),
    ] {
        returns(arguments, want);
    }
}

#[test]
fn sizes() {
    for (format, want) in [
        ("", "0"),
        ("bBhHiIlLTfd", "50"),
        ("i3xc5", "9"),
        ("!8bd", "16"),
        ("!bdb", "17"),
        ("<>! ", "0"),
        ("c2147483647c2147483647c2147483647", "6442450941"),
        // Letters that are no item have no size.
        ("z7q", "0"),
    ] {
        check(&format!("return struct.size('{format}')"), want);
    }
}

#[test]
fn what_is_refused() {
    for (call, want) in [
        ("pack()", "bad argument #1 to 'pack' (string expected, got no value)"),
        ("pack({})", "bad argument #1 to 'pack' (string expected, got table)"),
        ("pack('b')", "bad argument #2 to 'pack' (number expected, got nil)"),
        ("pack('bb', 1)", "bad argument #3 to 'pack' (number expected, got nil)"),
        ("pack('b', 'x')", "bad argument #2 to 'pack' (number expected, got string)"),
        ("pack('s')", "bad argument #2 to 'pack' (string expected, got nil)"),
        ("pack('z', 1)", "bad argument #1 to 'pack' (invalid format option 'z')"),
        (r"pack('\255', 1)", r"bad argument #1 to 'pack' (invalid format option '\xff')"),
        ("pack('!3', 1)", "alignment 3 is not a power of 2"),
        ("pack('!0', 1)", "alignment 0 is not a power of 2"),
        ("pack('i33', 1)", "integral size 33 is larger than limit of 32"),
        // The argument behind it, as there.
        ("pack('c5', 'abc')", "bad argument #3 to 'pack' (string too short)"),
        ("pack('c2147483647', 'abc')", "bad argument #3 to 'pack' (string too short)"),
        ("unpack('b')", "bad argument #2 to 'unpack' (string expected, got no value)"),
        ("unpack('b', '')", "bad argument #2 to 'unpack' (data string too short)"),
        ("unpack('i4', 'ab')", "bad argument #2 to 'unpack' (data string too short)"),
        ("unpack('b', 'a', 0)", "bad argument #3 to 'unpack' (offset must be 1 or greater)"),
        ("unpack('b', 'a', {})", "bad argument #3 to 'unpack' (number expected, got table)"),
        ("unpack('b', 'a', 2)", "bad argument #2 to 'unpack' (data string too short)"),
        ("unpack('s', 'abc')", "unfinished string in data"),
        ("unpack('c0', 'abc')", "format 'c0' needs a previous size"),
        (r"unpack('sc0', 'x\0abc')", "format 'c0' needs a previous size"),
        (r"unpack('Bc0', '\5abc')", "bad argument #2 to 'unpack' (data string too short)"),
        (r"unpack('bc0', '\255abc')", "bad argument #2 to 'unpack' (data string too short)"),
        (r"unpack('?', 'abc')", "bad argument #1 to 'unpack' (invalid format option '?')"),
        ("size('s')", "bad argument #1 to 'size' (option 's' has no fixed size)"),
        ("size('c0')", "bad argument #1 to 'size' (option 'c0' has no fixed size)"),
        ("size('i33')", "integral size 33 is larger than limit of 32"),
        ("size('?')", "bad argument #1 to 'size' (invalid format option '?')"),
    ] {
        check(&format!("return struct.{call}"), &format!("error: user_script:1: {want}"));
    }
}

/// CVE-2015-8080 and CVE-2020-14147 (sizes beyond an `int`), CVE-2018-11219 (a size and a position that only together are too large).
#[test]
fn sizes_do_not_overflow() {
    for (call, want) in [
        ("size('i99999999999')", "integral size overflow"),
        ("pack('!99999999999')", "integral size overflow"),
        ("pack('I4294967295', 1)", "integral size overflow"),
        ("pack('c2147483648', 'x')", "integral size overflow"),
        ("unpack('I2147483647', 'x')", "integral size 2147483647 is larger than limit of 32"),
        ("unpack('c2147483647', 'x')", "bad argument #2 to 'unpack' (data string too short)"),
        ("unpack('b', 'x', 2^63)", "bad argument #2 to 'unpack' (data string too short)"),
        ("unpack('b', 'x', -2)", "bad argument #2 to 'unpack' (data string too short)"),
        ("unpack('!4i4', '1234', -2)", "bad argument #2 to 'unpack' (data string too short)"),
        ("unpack('i4!4i4', '1234', -2)", "bad argument #2 to 'unpack' (data string too short)"),
        (
            "unpack('>dc0', '\\67\\224\\0\\0\\0\\0\\0\\0')",
            "bad argument #2 to 'unpack' (data string too short)",
        ),
    ] {
        check(&format!("return struct.{call}"), &format!("error: user_script:1: {want}"));
    }
    check("return select('#', struct.unpack(('b'):rep(7997), ('1'):rep(8000)))", "7998");
    check(
        "return select('#', struct.unpack(('b'):rep(7998), ('1'):rep(8000)))",
        "error: user_script:1: stack overflow (too many results)",
    );
}
