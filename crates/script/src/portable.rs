//! Whether a text is Lua 5.1, as a server of Redis compiles it. Luau takes more than that, and a server of Redis that finds a library in a snapshot that it
//! can't compile ends. So a library goes to replicas only if this says that it may.
//!
//! It is the grammar of `lparser.c` and `llex.c` of Lua 5.1.5, without any meaning. Where it is easier to be strict than right it is
//! strict: numbers in odd forms, more than so many levels or outer variables, and loops over what may be a table, which only Luau goes over.

use std::collections::BTreeSet;

/// Levels of nesting; Lua 5.1 has 200, of which its caller has some.
const DEPTH_MAX: usize = 150;
/// Variables of other functions that a function uses. Here all names count that are a local variable somewhere.
const UPVALUE_COUNT_MAX: usize = 60;
/// Local variables of a function, and of those around it, counted together.
const LOCAL_COUNT_MAX: usize = 180;

const KEYWORDS: [&[u8]; 21] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];
/// Longer ones first.
const SIGNS: [&[u8]; 26] = [
    b"...", b"..", b"==", b"<=", b">=", b"~=", b"+", b"-", b"*", b"/", b"%", b"^", b"#", b"<", b">", b"=",
    b"(", b")", b"{", b"}", b"[", b"]", b";", b":", b",", b".",
];
/// How strongly operators bind to what is on their left and on their right.
const OPERATORS: [(&[u8], u8, u8); 15] = [
    (b"+", 6, 6),
    (b"-", 6, 6),
    (b"*", 7, 7),
    (b"/", 7, 7),
    (b"%", 7, 7),
    (b"^", 10, 9),
    (b"..", 5, 4),
    (b"~=", 3, 3),
    (b"==", 3, 3),
    (b"<", 3, 3),
    (b"<=", 3, 3),
    (b">", 3, 3),
    (b">=", 3, 3),
    (b"and", 2, 2),
    (b"or", 1, 1),
];
const UNARY_BINDING: u8 = 8;

/// Whether Lua 5.1 takes this text.
pub(crate) fn is_lua51(source: &[u8]) -> bool {
    let mut parser = Parser::new(source);
    parser.advance().and_then(|()| parser.chunk()).and_then(|()| parser.expect_end()).is_ok()
}

/// It is not Lua 5.1.
struct Wrong;

type Parsed<T = ()> = Result<T, Wrong>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    End,
    Name,
    Number,
    Text,
    /// A keyword or a sign, which its bytes tell.
    Word,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    bytes: &'a [u8],
    line: usize,
}

/// What an expression is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expression {
    Call,
    Variable,
    Other,
}

struct Parser<'a> {
    rest: &'a [u8],
    line: usize,
    token: Token<'a>,
    /// Where the token before this one ended.
    line_before: usize,
    depth: usize,
    /// Of each function that is open: whether it has `...`, and how many loops are open in it.
    functions: Vec<(bool, usize)>,
    /// Names that each of them uses, those of functions inside of it included.
    used: Vec<BTreeSet<&'a [u8]>>,
    locals: BTreeSet<&'a [u8]>,
    local_count: usize,
}

impl<'a> Parser<'a> {
    fn new(source: &'a [u8]) -> Parser<'a> {
        Parser {
            rest: source,
            line: 1,
            token: Token { kind: Kind::End, bytes: b"", line: 1 },
            line_before: 1,
            depth: 0,
            functions: vec![(true, 0)],
            used: vec![BTreeSet::new()],
            locals: BTreeSet::new(),
            local_count: 0,
        }
    }

    // ---- tokens

    fn advance(&mut self) -> Parsed {
        self.line_before = self.line;
        self.skip_blanks()?;
        let line = self.line;
        let (kind, size) = match *self.rest {
            [] => (Kind::End, 0),
            [b'"' | b'\'', ..] => (Kind::Text, self.quoted_size()?),
            [b'[', b'[' | b'=', ..] => (Kind::Text, self.long_size(self.rest)?),
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => (Kind::Number, self.number_size()?),
            [b'_' | b'a'..=b'z' | b'A'..=b'Z', ..] => {
                let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let size = self.rest.iter().take_while(|byte| is_of_name(byte)).count();
                let is_keyword = KEYWORDS.contains(&&self.rest[..size]);
                (if is_keyword { Kind::Word } else { Kind::Name }, size)
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| self.rest.starts_with(sign)).ok_or(Wrong)?;
                (Kind::Word, sign.len())
            }
        };
        let bytes;
        (bytes, self.rest) = self.rest.split_at(size);
        self.count_lines(bytes);
        self.token = Token { kind, bytes, line };
        Ok(())
    }

    fn count_lines(&mut self, bytes: &[u8]) {
        self.line += bytes.iter().filter(|byte| **byte == b'\n').count();
    }

    fn skip_blanks(&mut self) -> Parsed {
        loop {
            let size = match *self.rest {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
                [b'-', b'-', ref comment @ ..] => match comment {
                    [b'[', b'[' | b'=', ..] if is_long(comment) => 2 + self.long_size(comment)?,
                    _ => 2 + comment.iter().take_while(|byte| !matches!(byte, b'\n' | b'\r')).count(),
                },
                _ => return Ok(()),
            };
            let skipped;
            (skipped, self.rest) = self.rest.split_at(size);
            self.count_lines(skipped);
        }
    }

    fn quoted_size(&self) -> Parsed<usize> {
        let mut at = 1;
        loop {
            match *self.rest.get(at).ok_or(Wrong)? {
                b'\n' | b'\r' => return Err(Wrong),
                byte if byte == self.rest[0] => return Ok(at + 1),
                b'\\' => {
                    let digits = self.rest[at + 1..].iter().take(3).take_while(|byte| byte.is_ascii_digit());
                    let digits: Vec<u8> = digits.copied().collect();
                    if digits.as_slice() > &b"255"[..] && digits.len() == 3 {
                        return Err(Wrong);
                    }
                    at += 1 + digits.len().max(1);
                }
                _ => at += 1,
            }
        }
    }

    /// Of `[[…]]`, `[=[…]=]` and so on.
    fn long_size(&self, text: &[u8]) -> Parsed<usize> {
        if !is_long(text) {
            return Err(Wrong);
        }
        let level = text[1..].iter().take_while(|byte| **byte == b'=').count();
        let start = level + 2;
        let end = [b"]", &vec![b'='; level][..], b"]"].concat();
        let size = text[start..].windows(end.len()).position(|part| part == end).ok_or(Wrong)?;
        // Lua 5.1 knows of a time when these could be nested.
        if level == 0 && text[start..start + size].windows(2).any(|pair| pair == b"[[") {
            return Err(Wrong);
        }
        Ok(start + size + end.len())
    }

    fn number_size(&self) -> Parsed<usize> {
        let digits = |from: usize, is_digit: fn(&u8) -> bool| {
            self.rest[from.min(self.rest.len())..].iter().take_while(|byte| is_digit(byte)).count()
        };
        let size = if let [b'0', b'x' | b'X', ..] = self.rest {
            let count = digits(2, u8::is_ascii_hexdigit);
            if !(1..=8).contains(&count) {
                return Err(Wrong);
            }
            2 + count
        } else {
            let mut size = digits(0, u8::is_ascii_digit);
            if self.rest.get(size) == Some(&b'.') {
                size += 1 + digits(size + 1, u8::is_ascii_digit);
            }
            if let Some(b'e' | b'E') = self.rest.get(size) {
                size += 1;
                size += usize::from(matches!(self.rest.get(size), Some(b'+' | b'-')));
                let count = digits(size, u8::is_ascii_digit);
                if count == 0 {
                    return Err(Wrong);
                }
                size += count;
            }
            size
        };
        match self.rest.get(size) {
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') => Err(Wrong),
            _ => Ok(size),
        }
    }

    fn is(&self, word: &[u8]) -> bool {
        self.token.kind == Kind::Word && self.token.bytes == word
    }

    /// Goes on behind a word if it is there.
    fn skip(&mut self, word: &[u8]) -> Parsed<bool> {
        let is_there = self.is(word);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn expect(&mut self, word: &[u8]) -> Parsed {
        if self.skip(word)? { Ok(()) } else { Err(Wrong) }
    }

    fn expect_end(&self) -> Parsed {
        if self.token.kind == Kind::End { Ok(()) } else { Err(Wrong) }
    }

    fn name(&mut self) -> Parsed<&'a [u8]> {
        let Token { kind: Kind::Name, bytes, .. } = self.token else { return Err(Wrong) };
        self.advance()?;
        Ok(bytes)
    }

    // ---- statements

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Wrong);
        }
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn is_at_end_of_block(&self) -> bool {
        self.token.kind == Kind::End
            || [&b"else"[..], b"elseif", b"end", b"until"].iter().any(|word| self.is(word))
    }

    fn chunk(&mut self) -> Parsed {
        let local_count = self.local_count;
        self.deeper(|parser| {
            let mut is_last = false;
            while !is_last && !parser.is_at_end_of_block() {
                is_last = parser.statement()?;
                parser.skip(b";")?;
            }
            Ok(())
        })?;
        self.local_count = local_count;
        Ok(())
    }

    /// True if none may follow.
    fn statement(&mut self) -> Parsed<bool> {
        let Token { kind: Kind::Word, bytes, .. } = self.token else { return self.expression_statement() };
        match bytes {
            b"if" => {
                while self.skip(b"if")? || self.skip(b"elseif")? {
                    self.expression()?;
                    self.expect(b"then")?;
                    self.chunk()?;
                }
                if self.skip(b"else")? {
                    self.chunk()?;
                }
                self.expect(b"end")?;
            }
            b"while" => {
                self.advance()?;
                self.expression()?;
                self.expect(b"do")?;
                self.loop_body()?;
                self.expect(b"end")?;
            }
            b"do" => {
                self.advance()?;
                self.chunk()?;
                self.expect(b"end")?;
            }
            b"for" => self.for_loop()?,
            b"repeat" => {
                self.advance()?;
                self.loop_body()?;
                self.expect(b"until")?;
                self.expression()?;
            }
            b"function" => {
                self.advance()?;
                let name = self.name()?;
                self.use_name(name);
                while self.skip(b".")? {
                    self.name()?;
                }
                if self.skip(b":")? {
                    self.name()?;
                }
                self.body()?;
            }
            b"local" => {
                self.advance()?;
                if self.skip(b"function")? {
                    self.declare()?;
                    self.body()?;
                } else {
                    self.declare()?;
                    while self.skip(b",")? {
                        self.declare()?;
                    }
                    if self.skip(b"=")? {
                        self.expressions()?;
                    }
                }
            }
            b"return" => {
                self.advance()?;
                if !self.is_at_end_of_block() && !self.is(b";") {
                    self.expressions()?;
                }
                return Ok(true);
            }
            b"break" => {
                self.advance()?;
                let (_, loops) = self.functions.last().ok_or(Wrong)?;
                return if *loops > 0 { Ok(true) } else { Err(Wrong) };
            }
            _ => return self.expression_statement(),
        }
        Ok(false)
    }

    fn loop_body(&mut self) -> Parsed {
        self.functions.last_mut().ok_or(Wrong)?.1 += 1;
        self.chunk()?;
        self.functions.last_mut().ok_or(Wrong)?.1 -= 1;
        Ok(())
    }

    fn for_loop(&mut self) -> Parsed {
        self.advance()?;
        let local_count = self.local_count;
        // Those of its own have no names.
        self.local_count += 3;
        self.declare()?;
        if self.skip(b"=")? {
            self.expression()?;
            self.expect(b",")?;
            self.expression()?;
            if self.skip(b",")? {
                self.expression()?;
            }
        } else {
            while self.skip(b",")? {
                self.declare()?;
            }
            self.expect(b"in")?;
            let first = self.expression()?;
            if self.skip(b",")? {
                self.expressions()?;
            } else if first != Expression::Call {
                return Err(Wrong);
            }
        }
        self.expect(b"do")?;
        self.loop_body()?;
        self.expect(b"end")?;
        self.local_count = local_count;
        Ok(())
    }

    fn declare(&mut self) -> Parsed {
        let name = self.name()?;
        self.locals.insert(name);
        self.local_count += 1;
        if self.local_count > LOCAL_COUNT_MAX { Err(Wrong) } else { Ok(()) }
    }

    fn expression_statement(&mut self) -> Parsed<bool> {
        let mut kind = self.suffixed()?;
        if kind == Expression::Call && !self.is(b"=") && !self.is(b",") {
            return Ok(false);
        }
        let mut count = 1;
        loop {
            if kind != Expression::Variable || count > DEPTH_MAX / 2 {
                return Err(Wrong);
            }
            if !self.skip(b",")? {
                break;
            }
            kind = self.suffixed()?;
            count += 1;
        }
        self.expect(b"=")?;
        self.expressions()?;
        Ok(false)
    }

    // ---- expressions

    fn expressions(&mut self) -> Parsed {
        self.expression()?;
        while self.skip(b",")? {
            self.expression()?;
        }
        Ok(())
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.bound(0)
    }

    /// One whose operators all bind more strongly than this.
    fn bound(&mut self, limit: u8) -> Parsed<Expression> {
        self.deeper(|parser| {
            let mut kind = if parser.skip(b"not")? || parser.skip(b"-")? || parser.skip(b"#")? {
                parser.bound(UNARY_BINDING)?;
                Expression::Other
            } else {
                parser.simple()?
            };
            loop {
                let operator = OPERATORS.iter().find(|(word, ..)| parser.is(word));
                let Some((_, _, right)) = operator.filter(|(_, left, _)| *left > limit) else { break };
                parser.advance()?;
                parser.bound(*right)?;
                kind = Expression::Other;
            }
            Ok(kind)
        })
    }

    fn simple(&mut self) -> Parsed<Expression> {
        match (self.token.kind, self.token.bytes) {
            (Kind::Number | Kind::Text, _) | (Kind::Word, b"nil" | b"true" | b"false") => self.advance()?,
            (Kind::Word, b"...") => {
                let (has_rest, _) = self.functions.last().ok_or(Wrong)?;
                if !has_rest {
                    return Err(Wrong);
                }
                self.advance()?;
            }
            (Kind::Word, b"{") => self.table()?,
            (Kind::Word, b"function") => {
                self.advance()?;
                self.body()?;
            }
            _ => return self.suffixed(),
        }
        Ok(Expression::Other)
    }

    /// A name or an expression in parentheses, and what is taken of it.
    fn suffixed(&mut self) -> Parsed<Expression> {
        let mut kind = if self.skip(b"(")? {
            self.expression()?;
            self.expect(b")")?;
            Expression::Other
        } else {
            let name = self.name()?;
            self.use_name(name);
            Expression::Variable
        };
        loop {
            kind = match (self.token.kind, self.token.bytes) {
                (Kind::Word, b".") => {
                    self.advance()?;
                    self.name()?;
                    Expression::Variable
                }
                (Kind::Word, b"[") => {
                    self.advance()?;
                    self.expression()?;
                    self.expect(b"]")?;
                    Expression::Variable
                }
                (Kind::Word, b":") => {
                    self.advance()?;
                    self.name()?;
                    self.arguments()?;
                    Expression::Call
                }
                (Kind::Text, _) | (Kind::Word, b"(" | b"{") => {
                    self.arguments()?;
                    Expression::Call
                }
                _ => return Ok(kind),
            };
        }
    }

    fn arguments(&mut self) -> Parsed {
        match (self.token.kind, self.token.bytes) {
            (Kind::Text, _) => self.advance(),
            (Kind::Word, b"{") => self.table(),
            (Kind::Word, b"(") if self.token.line == self.line_before => {
                self.advance()?;
                if !self.is(b")") {
                    self.expressions()?;
                }
                self.expect(b")")
            }
            // It might as well begin the next statement.
            _ => Err(Wrong),
        }
    }

    fn table(&mut self) -> Parsed {
        self.expect(b"{")?;
        while !self.is(b"}") {
            if self.skip(b"[")? {
                self.expression()?;
                self.expect(b"]")?;
                self.expect(b"=")?;
                self.expression()?;
            } else {
                let is_name = self.token.kind == Kind::Name;
                self.expression()?;
                if is_name && self.skip(b"=")? {
                    self.expression()?;
                }
            }
            if !self.skip(b",")? && !self.skip(b";")? {
                break;
            }
        }
        self.expect(b"}")
    }

    /// A function, from its parameters on.
    fn body(&mut self) -> Parsed {
        let local_count = self.local_count;
        self.expect(b"(")?;
        let mut has_rest = false;
        while !self.is(b")") {
            if self.skip(b"...")? {
                has_rest = true;
                break;
            }
            self.declare()?;
            if !self.skip(b",")? {
                break;
            }
            if self.is(b")") {
                return Err(Wrong);
            }
        }
        self.expect(b")")?;
        self.functions.push((has_rest, 0));
        self.used.push(BTreeSet::new());
        self.chunk()?;
        self.expect(b"end")?;
        self.functions.pop();
        let used = self.used.pop().unwrap_or_default();
        if used.intersection(&self.locals).count() > UPVALUE_COUNT_MAX {
            return Err(Wrong);
        }
        if let Some(around) = self.used.last_mut() {
            around.extend(used);
        }
        self.local_count = local_count;
        Ok(())
    }

    fn use_name(&mut self, name: &'a [u8]) {
        if let Some(used) = self.used.last_mut() {
            used.insert(name);
        }
    }
}

/// Whether a bracket and what follows begin a text of several lines.
fn is_long(text: &[u8]) -> bool {
    let level = text.iter().skip(1).take_while(|byte| **byte == b'=').count();
    text.get(level + 1) == Some(&b'[')
}

#[cfg(test)]
mod tests;
