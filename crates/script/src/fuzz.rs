//! Bodies of the fuzz targets: what must hold for any bytes that the libraries read. The target under `fuzz/` calls [`libraries`] with
//! bytes of a fuzzer, the tests with bytes of a seeded generator.

use mlua::{Function, Lua, MultiValue, Value};

/// Memory that a reader may use for what is no longer than a few kilobytes.
const MEMORY_SIZE_MAX: usize = 16 << 20;

/// Reads a text; what comes of it is written and read twice. Returns whether it could be read, or the error's text.
const CHECK: &str = r"
local library, input = ...

-- Whether two values are the same. Keys that are tables are only counted.
local function same(a, b)
    if type(a) ~= 'table' then
        return a == b or a ~= a and b ~= b
    elseif type(b) ~= 'table' then
        return false
    end
    local fields = 0
    for key, value in pairs(a) do
        fields += 1
        if type(key) ~= 'table' and not same(value, b[key]) then
            return false
        end
    end
    for _ in pairs(b) do
        fields -= 1
    end
    return fields == 0
end

local function twice(value, write, read)
    -- The first text may have lost digits, or what is too deep.
    local known = read(write(value))
    assert(same(known, read(write(known))), 'what was written is read again')
end

if library == 'cjson' then
    cjson.encode_invalid_numbers(true)
    local ok, value = pcall(cjson.decode, input)
    if not ok then
        return value
    end
    twice(value, cjson.encode, cjson.decode)
elseif library == 'cmsgpack' then
    local values = {pcall(cmsgpack.unpack, input)}
    if not values[1] then
        return values[2]
    end
    for index = 2, math.min(#values, 20) do
        twice(values[index], cmsgpack.pack, cmsgpack.unpack)
    end
    local offset, count = 0, 0
    while offset >= 0 and count < 20 do
        local before = offset
        offset = cmsgpack.unpack_one(input, offset)
        count += 1
        assert(offset == -1 or offset > before and offset < #input, 'each value has bytes')
    end
else
    local format, data = string.match(input, '^(%Z*)%z?(.*)$')
    local results = {pcall(struct.unpack, format, data)}
    if not results[1] then
        return results[2]
    end
    local next = results[#results]
    assert(next >= 1 and next <= #data + 1, 'what is read is there')
    local ok, size = pcall(struct.size, format)
    assert(not ok or size == next - 1, 'sizes are what is read')
end
return true
";

/// `cjson.decode`, `cmsgpack.unpack` and `struct.unpack` read any bytes or say what is wrong with them, without more memory than such
/// an input needs. What they have read comes to the same when it is written and read again. Returns how many of the three could read it.
pub fn libraries(input: &[u8]) -> usize {
    ["cjson", "cmsgpack", "struct"].iter().filter(|library| is_read(library, input)).count()
}

fn is_read(library: &str, input: &[u8]) -> bool {
    let lua = Lua::new();
    crate::library::install(&lua, &lua.globals()).expect("there is memory");
    lua.set_memory_limit(MEMORY_SIZE_MAX).expect("the interpreter's memory is ours");
    let check: Function = lua.load(CHECK).into_function().expect("it is ours");
    let args = MultiValue::from_iter([
        Value::String(lua.create_string(library).expect("there is memory")),
        Value::String(lua.create_string(input).expect("there is memory")),
    ]);
    match check.call::<Value>(args).unwrap_or_else(|error| panic!("{library}: {error}")) {
        Value::String(text) => {
            assert!(
                !text.as_bytes().is_empty() && text != "not enough memory",
                "{library}: {}",
                text.display()
            );
            false
        }
        value => value == Value::Boolean(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are nearly JSON, MessagePack, or a format and what it is of.
    fn some_input(below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
        const JSON: &[&str] = &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"\\u0041\"",
            "\"\\ud83d\\ude00\"",
            "1",
            "-0.5e3",
            "0x1p-1074",
            "1e999",
            "nan",
            "null",
            "true",
            " ",
            "\"",
            "\\",
            "[[[",
            "]]]",
            "{\"k\":",
            "\0",
        ];
        const FORMATS: &[&str] =
            &["b", "H", "i3", "L", "f", "d", "s", "c2", "Bc0", "x", "!4", ">", "<", "i33", "!"];
        let mut input = Vec::new();
        match below(3) {
            0 => (0..below(12)).for_each(|_| input.extend_from_slice(JSON[below(JSON.len())].as_bytes())),
            1 => (0..below(12)).for_each(|_| {
                // Small tables and strings more often than not.
                let first = [0x80 + below(4), 0x90 + below(4), 0xa0 + below(3), 0xc0 + below(32), below(256)];
                input.push(u8::try_from(first[below(5)]).expect("a byte"));
                (0..below(4)).for_each(|_| input.push(u8::try_from(below(3)).expect("small")));
            }),
            _ => {
                (0..below(5)).for_each(|_| input.extend_from_slice(FORMATS[below(FORMATS.len())].as_bytes()));
                input.push(0);
                (0..below(40)).for_each(|_| input.push(u8::try_from(below(6)).expect("small")));
            }
        }
        input
    }

    #[test]
    fn anything_may_come() {
        let mut state: u64 = 1;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).expect("31 bits") % count
        };
        let read: usize = (0..1000).map(|_| libraries(&some_input(&mut below))).sum();
        assert!(read > 500, "{read} could be read");
    }
}
