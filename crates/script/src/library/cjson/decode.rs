//! JSON to values of Lua.
//!
//! Objects and arrays that stand in one another are a list, not calls. A text ends at its first NUL, as in C. Nothing is made before its
//! text has been read, so that a short text makes nothing large.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::super::SLOTS_MAX;
use super::super::call::{Budget, Text, Work, Wrong, one, until_nul};
use super::Settings;
use crate::number;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// The text is in [`Scanner::text`].
    Text,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// What is wrong.
    Error(&'static str),
}

impl Kind {
    /// What errors call it.
    fn name(self) -> &'static str {
        match self {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::Text => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Error(text) => text,
        }
    }
}

/// What comes next in a text, and the index of its first byte or of what is wrong with it.
#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    index: usize,
}

impl Token {
    fn unexpected(self, expected: &str) -> Wrong {
        let (found, place) = (self.kind.name(), self.index + 1);
        Wrong::raised(format!("Expected {expected} but found {found} at character {place}"))
    }
}

/// A table that isn't whole.
enum Open {
    Array { table: Table, count: i64 },
    Object { table: Table, key: LuaString },
}

/// Slots of Lua's stack that the C code has in use for an open table: itself, and a field's key.
fn slots(open: &Open) -> usize {
    match open {
        Open::Array { .. } => 1,
        Open::Object { .. } => 2,
    }
}

/// A text that is being decoded.
pub(super) struct Decoding {
    text: Text,
    /// Where it ends: at a NUL, too.
    end: usize,
    settings: Settings,
    open: Vec<Open>,
    slots_used: usize,
    /// What has been read last: where a value begins.
    token: Token,
    /// The scanner's, between pieces.
    at: usize,
    string: Vec<u8>,
}

impl Decoding {
    pub(super) fn new(settings: Settings, text: Text) -> Result<Decoding, Wrong> {
        if text.len() >= 2 && text[..2].contains(&0) {
            return Err(Wrong::raised("JSON parser does not support UTF-16 or UTF-32"));
        }
        let (end, has_invalid_numbers) = (until_nul(&text).len(), settings.has_invalid_numbers);
        let mut scanner = Scanner { input: &text[..end], at: 0, text: Vec::new(), has_invalid_numbers };
        let token = scanner.next();
        let (at, string) = (scanner.at, scanner.text);
        // One slot for the argument.
        Ok(Decoding { text, end, settings, open: Vec::new(), slots_used: 1, token, at, string })
    }
}

impl Work for Decoding {
    fn go_on(&mut self, lua: &Lua, budget: &mut Budget) -> Result<Option<MultiValue>, Wrong> {
        let mut scanner = Scanner {
            input: &self.text[..self.end],
            at: self.at,
            text: std::mem::take(&mut self.string),
            has_invalid_numbers: self.settings.has_invalid_numbers,
        };
        let mut builder = Builder { open: &mut self.open, slots_used: &mut self.slots_used };
        while !budget.is_spent() {
            let before = scanner.at;
            if let Some(value) = builder.value(lua, &self.settings, &mut scanner, &mut self.token)? {
                return one(value).map(Some);
            }
            budget.spend(1 + (scanner.at - before) / BYTES_OF_SCALAR);
        }
        (self.at, self.string) = (scanner.at, scanner.text);
        Ok(None)
    }
}

/// Bytes that are read in the time of a scalar.
const BYTES_OF_SCALAR: usize = 64;

/// Puts values into the tables that they are of.
struct Builder<'a> {
    open: &'a mut Vec<Open>,
    slots_used: &'a mut usize,
}

impl Builder<'_> {
    /// Reads the value that begins with `token`, up to where the next one begins: its token comes back. A table that has something in it
    /// is only begun. The whole text's value at its end.
    fn value(
        &mut self,
        lua: &Lua,
        settings: &Settings,
        scanner: &mut Scanner<'_>,
        token: &mut Token,
    ) -> Result<Option<Value>, Wrong> {
        let value = match token.kind {
            Kind::Text => Value::String(lua.create_string(&scanner.text)?),
            Kind::Number(number) => Value::Number(number),
            Kind::Boolean(flag) => Value::Boolean(flag),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin | Kind::ArrayBegin => match self.begin(lua, settings, scanner, token)? {
                Some(empty) => Value::Table(empty),
                None => return Ok(None),
            },
            _ => return Err(token.unexpected("value")),
        };
        self.add(lua, value, scanner, token)
    }

    /// Begins a table. One without anything in it is whole.
    fn begin(
        &mut self,
        lua: &Lua,
        settings: &Settings,
        scanner: &mut Scanner<'_>,
        token: &mut Token,
    ) -> Result<Option<Table>, Wrong> {
        let is_object = token.kind == Kind::ObjectBegin;
        let depth = self.open.len() + 1;
        let is_allowed = i32::try_from(depth).is_ok_and(|depth| depth <= settings.decode_depth_max);
        if !is_allowed || *self.slots_used + if is_object { 3 } else { 2 } > SLOTS_MAX {
            let place = scanner.at;
            let text = format!("Found too many nested data structures ({depth}) at character {place}");
            return Err(Wrong::raised(text));
        }
        let table = lua.create_table()?;
        *token = scanner.next();
        if token.kind == if is_object { Kind::ObjectEnd } else { Kind::ArrayEnd } {
            return Ok(Some(table));
        }
        let open = if is_object {
            let key = scanner.key(lua, *token)?;
            *token = scanner.next();
            Open::Object { table, key }
        } else {
            Open::Array { table, count: 0 }
        };
        *self.slots_used += slots(&open);
        self.open.push(open);
        Ok(None)
    }

    /// A value is whole, and with it perhaps tables around it.
    fn add(
        &mut self,
        lua: &Lua,
        mut value: Value,
        scanner: &mut Scanner<'_>,
        token: &mut Token,
    ) -> Result<Option<Value>, Wrong> {
        while let Some(last) = self.open.last_mut() {
            let (end, expected) = match last {
                Open::Array { table, count } => {
                    *count += 1;
                    table.raw_set(*count, value)?;
                    (Kind::ArrayEnd, "comma or array end")
                }
                Open::Object { table, key } => {
                    table.raw_set(&*key, value)?;
                    (Kind::ObjectEnd, "comma or object end")
                }
            };
            *token = scanner.next();
            if token.kind == Kind::Comma {
                *token = scanner.next();
                if let Open::Object { key, .. } = last {
                    *key = scanner.key(lua, *token)?;
                    *token = scanner.next();
                }
                return Ok(None);
            }
            if token.kind != end {
                return Err(token.unexpected(expected));
            }
            *self.slots_used -= slots(last);
            value = match self.open.pop() {
                Some(Open::Array { table, .. } | Open::Object { table, .. }) => Value::Table(table),
                None => unreachable!("something is open"),
            };
        }
        let end = scanner.next();
        if end.kind == Kind::End { Ok(Some(value)) } else { Err(end.unexpected("the end")) }
    }
}

struct Scanner<'a> {
    input: &'a [u8],
    at: usize,
    /// The string that was read last.
    text: Vec<u8>,
    has_invalid_numbers: bool,
}

impl Scanner<'_> {
    /// A field's name, which `token` is said to be, and the colon behind it.
    fn key(&mut self, lua: &Lua, token: Token) -> Result<LuaString, Wrong> {
        if token.kind != Kind::Text {
            return Err(token.unexpected("object key string"));
        }
        let key = lua.create_string(&self.text)?;
        let colon = self.next();
        if colon.kind == Kind::Colon { Ok(key) } else { Err(colon.unexpected("colon")) }
    }

    /// The byte so far ahead; zero behind the end.
    fn ahead(&self, distance: usize) -> u8 {
        self.input.get(self.at + distance).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Token {
        while matches!(self.ahead(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let index = self.at;
        let single = match self.ahead(0) {
            b'{' => Kind::ObjectBegin,
            b'}' => Kind::ObjectEnd,
            b'[' => Kind::ArrayBegin,
            b']' => Kind::ArrayEnd,
            b',' => Kind::Comma,
            b':' => Kind::Colon,
            0 => return Token { kind: Kind::End, index },
            b'"' => {
                let kind = self.string();
                let index = if kind == Kind::Text { index } else { self.at };
                return Token { kind, index };
            }
            first => {
                let kind = self.word(first);
                return Token { kind, index };
            }
        };
        self.at += 1;
        Token { kind: single, index }
    }

    /// A number, or one of the three words.
    fn word(&mut self, first: u8) -> Kind {
        if first == b'-' || first.is_ascii_digit() {
            if !self.has_invalid_numbers && self.is_invalid_number() {
                return Kind::Error("invalid number");
            }
            return self.number();
        }
        let words = [("true", Kind::Boolean(true)), ("false", Kind::Boolean(false)), ("null", Kind::Null)];
        for (word, kind) in words {
            if self.input[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return kind;
            }
        }
        let may_begin = matches!(first, b'+' | b'i' | b'I' | b'n' | b'N');
        if may_begin && self.has_invalid_numbers && self.is_invalid_number() {
            return self.number();
        }
        Kind::Error("invalid token")
    }

    /// What `strtod` reads.
    fn number(&mut self) -> Kind {
        match number::read(&self.input[self.at..]) {
            Some((value, size)) => {
                self.at += size;
                Kind::Number(value)
            }
            None => Kind::Error("invalid number"),
        }
    }

    /// Whether a number here is one that `strtod` knows and JSON doesn't: with a plus or zeros before it, in hexadecimal, or none at all.
    fn is_invalid_number(&self) -> bool {
        let start = match self.ahead(0) {
            b'+' => return true,
            b'-' => 1,
            _ => 0,
        };
        if self.ahead(start) == b'0' {
            return matches!(self.ahead(start + 1), b'x' | b'X' | b'0'..=b'9');
        }
        let word = self.input.get(self.at + start..self.at + start + 3).unwrap_or_default();
        word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
    }

    /// Reads a string into `text`. If something is wrong, `at` is where.
    fn string(&mut self) -> Kind {
        self.text.clear();
        self.at += 1;
        loop {
            let rest = &self.input[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
            self.text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            let escaped = match self.ahead(0) {
                0 => return Kind::Error("unexpected end of string"),
                b'"' => {
                    self.at += 1;
                    return Kind::Text;
                }
                _ => self.ahead(1),
            };
            let byte = match escaped {
                b'"' | b'\\' | b'/' => escaped,
                b'b' => 0x08,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 0x0c,
                b'r' => b'\r',
                b'u' => {
                    let Some((character, size)) = self.code_point() else {
                        return Kind::Error("invalid unicode escape code");
                    };
                    self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at += size;
                    continue;
                }
                _ => return Kind::Error("invalid escape code"),
            };
            self.text.push(byte);
            self.at += 2;
        }
    }

    /// What `\u` and four digits say here, or two of them that are a pair of surrogates, and their size.
    fn code_point(&self) -> Option<(char, usize)> {
        let unit = self.unit(2)?;
        if let Some(character) = char::from_u32(unit) {
            return Some((character, 6));
        }
        let is_pair = unit < 0xdc00 && self.ahead(6) == b'\\' && self.ahead(7) == b'u';
        let low = self.unit(8).filter(|low| is_pair && (0xdc00..0xe000).contains(low))?;
        Some((char::from_u32(0x1_0000 + ((unit & 0x3ff) << 10 | low & 0x3ff))?, 12))
    }

    /// Four hexadecimal digits so far ahead.
    fn unit(&self, distance: usize) -> Option<u32> {
        (0..4).try_fold(0, |unit, index| {
            Some(unit << 4 | char::from(self.ahead(distance + index)).to_digit(16)?)
        })
    }
}
