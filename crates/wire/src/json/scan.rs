//! The grammar of JSON, byte by byte: what begins, what ends, what can't be. It keeps no bytes, so a document may come in
//! pieces, and no stack but a bit for each open container.

use super::LEVELS_MAX;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    /// `true`, `false`, `null`.
    Word,
}

impl Kind {
    pub(super) fn is_container(self) -> bool {
        matches!(self, Kind::Object | Kind::Array)
    }
}

/// What happens at [`Scanner::at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A value begins; its first byte comes next.
    Begin(Kind),
    /// The value on this level has ended with the byte before.
    End,
    /// A member's name begins, with the quote that comes next.
    KeyBegin,
    /// It has ended, with the quote before.
    KeyEnd,
}

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not JSON.
    Grammar,
    /// A value stands below [`LEVELS_MAX`].
    TooDeep,
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    /// Behind `[`.
    ValueOrEnd,
    /// Behind `,` in an object.
    Key,
    /// Behind `{`.
    KeyOrEnd,
    Colon,
    /// Behind a value inside of a container.
    CommaOrEnd,
    /// Only blanks.
    Nothing,
    /// The first byte of a value that has been told.
    First,
    /// The first quote of a name.
    KeyFirst,
    String(Text),
    /// Inside of a name.
    Name(Text),
    Number(Digits),
    /// What is left of a word.
    Word(&'static [u8]),
}

/// Where in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Plain,
    Escape,
    /// So many hexadecimal digits must follow.
    Hex(u8),
}

/// Where in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    Power,
}

/// A text being read.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    state: State,
    /// Containers that are open, counted from where the root stands.
    level: u8,
    /// For each level whether it is an object's.
    objects: u64,
    /// The level above the text's root.
    base: u8,
    at: usize,
}

impl Scanner {
    /// A text whose root stands so many levels below a document's own.
    pub(super) fn new(base: u8) -> Scanner {
        Scanner { state: State::Value, level: base, objects: 0, base, at: 0 }
    }

    /// Bytes read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Containers open around what comes next.
    pub(super) fn level(&self) -> u8 {
        self.level
    }

    /// The next event in a piece, which is cut off in front as far as it is read; none at its end.
    #[inline]
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Fault> {
        while let [byte, rest @ ..] = *input {
            if let State::String(Text::Plain) | State::Name(Text::Plain) = self.state {
                let size = plain_size(input);
                if size > 0 {
                    self.at += size;
                    *input = &input[size..];
                    continue;
                }
            }
            let (event, is_taken) = self.byte(*byte)?;
            if is_taken {
                self.at += 1;
                *input = rest;
            }
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// There is no more: is the text whole? A number at its end has ended too, which is told.
    pub(super) fn finish(&mut self) -> Result<Option<Event>, Fault> {
        match self.state {
            State::Nothing => Ok(None),
            State::Number(digits) if self.level == self.base && ends(digits) => {
                self.state = State::Nothing;
                Ok(Some(Event::End))
            }
            _ => Err(Fault::Grammar),
        }
    }

    /// What a byte means, and whether it is used up by that.
    fn byte(&mut self, byte: u8) -> Result<(Option<Event>, bool), Fault> {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.state {
            State::Value
            | State::ValueOrEnd
            | State::Key
            | State::KeyOrEnd
            | State::Colon
            | State::CommaOrEnd
            | State::Nothing
                if is_blank =>
            {
                Ok((None, true))
            }
            State::ValueOrEnd if byte == b']' => self.close(),
            State::Value | State::ValueOrEnd => self.announce(byte),
            State::KeyOrEnd if byte == b'}' => self.close(),
            State::Key | State::KeyOrEnd if byte == b'"' => {
                self.state = State::KeyFirst;
                Ok((Some(Event::KeyBegin), false))
            }
            State::Colon if byte == b':' => self.goes_on(State::Value),
            State::CommaOrEnd => match (byte, self.is_in_object()) {
                (b',', true) => self.goes_on(State::Key),
                (b',', false) => self.goes_on(State::Value),
                (b'}', true) | (b']', false) => self.close(),
                _ => Err(Fault::Grammar),
            },
            State::First => self.first(byte),
            State::KeyFirst => self.goes_on(State::Name(Text::Plain)),
            State::String(Text::Plain) if byte == b'"' => {
                self.state = self.behind_value();
                Ok((Some(Event::End), true))
            }
            State::Name(Text::Plain) if byte == b'"' => {
                self.state = State::Colon;
                Ok((Some(Event::KeyEnd), true))
            }
            State::String(text) => self.goes_on(State::String(text_next(text, byte)?)),
            State::Name(text) => self.goes_on(State::Name(text_next(text, byte)?)),
            State::Number(digits) => match digits_next(digits, byte) {
                Some(digits) => self.goes_on(State::Number(digits)),
                None if ends(digits) => {
                    self.state = self.behind_value();
                    Ok((Some(Event::End), false))
                }
                None => Err(Fault::Grammar),
            },
            State::Word([wanted, rest @ ..]) if *wanted == byte => {
                if rest.is_empty() {
                    self.state = self.behind_value();
                    Ok((Some(Event::End), true))
                } else {
                    self.goes_on(State::Word(rest))
                }
            }
            _ => Err(Fault::Grammar),
        }
    }

    fn goes_on(&mut self, state: State) -> Result<(Option<Event>, bool), Fault> {
        self.state = state;
        Ok((None, true))
    }

    /// A value begins with this byte.
    fn announce(&mut self, byte: u8) -> Result<(Option<Event>, bool), Fault> {
        let kind = match byte {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b'-' | b'0'..=b'9' => Kind::Number,
            b't' | b'f' | b'n' => Kind::Word,
            _ => return Err(Fault::Grammar),
        };
        if self.level >= LEVELS_MAX {
            return Err(Fault::TooDeep);
        }
        self.state = State::First;
        Ok((Some(Event::Begin(kind)), false))
    }

    /// The first byte of a value, known to be one.
    fn first(&mut self, byte: u8) -> Result<(Option<Event>, bool), Fault> {
        let state = match byte {
            b'{' => self.open(true, State::KeyOrEnd),
            b'[' => self.open(false, State::ValueOrEnd),
            b'"' => State::String(Text::Plain),
            b'-' => State::Number(Digits::Minus),
            b'0' => State::Number(Digits::Zero),
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            _ => State::Number(Digits::Whole),
        };
        self.goes_on(state)
    }

    fn open(&mut self, is_object: bool, state: State) -> State {
        self.level += 1;
        let bit = 1 << self.level;
        self.objects = if is_object { self.objects | bit } else { self.objects & !bit };
        state
    }

    fn close(&mut self) -> Result<(Option<Event>, bool), Fault> {
        self.level -= 1;
        self.state = self.behind_value();
        Ok((Some(Event::End), true))
    }

    fn is_in_object(&self) -> bool {
        self.objects & 1 << self.level != 0
    }

    fn behind_value(&self) -> State {
        if self.level == self.base { State::Nothing } else { State::CommaOrEnd }
    }
}

/// Bytes in front that mean nothing inside of a string.
fn plain_size(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(bytes.len())
}

fn text_next(text: Text, byte: u8) -> Result<Text, Fault> {
    match (text, byte) {
        (Text::Plain, b'\\') => Ok(Text::Escape),
        (Text::Plain, 0x20..) => Ok(Text::Plain),
        (Text::Escape, b'u') => Ok(Text::Hex(4)),
        (Text::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(Text::Plain),
        (Text::Hex(1), byte) if byte.is_ascii_hexdigit() => Ok(Text::Plain),
        (Text::Hex(left), byte) if byte.is_ascii_hexdigit() => Ok(Text::Hex(left - 1)),
        _ => Err(Fault::Grammar),
    }
}

fn digits_next(digits: Digits, byte: u8) -> Option<Digits> {
    use Digits::{Exponent, ExponentSign, Fraction, Minus, Point, Power, Whole, Zero};
    match (digits, byte) {
        (Minus, b'0') => Some(Zero),
        (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Some(Whole),
        (Zero | Whole, b'.') => Some(Point),
        (Point | Fraction, b'0'..=b'9') => Some(Fraction),
        (Zero | Whole | Fraction, b'e' | b'E') => Some(Exponent),
        (Exponent, b'+' | b'-') => Some(ExponentSign),
        (Exponent | ExponentSign | Power, b'0'..=b'9') => Some(Power),
        _ => None,
    }
}

/// Can a number end here?
fn ends(digits: Digits) -> bool {
    matches!(digits, Digits::Zero | Digits::Whole | Digits::Fraction | Digits::Power)
}
