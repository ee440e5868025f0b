//! The syntax of a command, one line in the table, and the arguments that follow from it.
//!
//! ```text
//! key              an argument; its type follows from its name
//! increment:double the same, of another type
//! addr=ip:port     the same, shown as something else
//! NX               a word to be written as it is
//! ""               nothing, as a word of its own
//! EX seconds       that word and an argument behind it
//! [ … ]            need not be there
//! < … >            belongs together
//! [name: a | b]    one of these; they have a name together
//! <name: a b>      all of these, too
//! key ...          once or more
//! GET key GET ...  once or more, each time with its word
//! ```
//!
//! Names and types are those of COMMAND DOCS of Redis 7.2, see <https://redis.io/docs/latest/commands/command-docs/>.
//! Lines are read where they are printed, never for a request.

use std::fmt;
use std::iter::Peekable;

/// An argument, or several that have a name together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// Its name, in lower case.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// What people are shown instead of its name.
    pub shown: Option<&'a str>,
    /// The word before it, or the word that it is.
    pub token: Option<&'a str>,
    /// May it be left out?
    pub optional: bool,
    /// May it come again?
    pub multiple: bool,
    /// Does its word come again with it?
    pub multiple_token: bool,
    /// What stands inside of [`Kind::OneOf`] and [`Kind::Block`].
    pub inside: Vec<Argument<'a>>,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// A whole number.
    Integer,
    /// A number with a fraction.
    Double,
    /// A key.
    Key,
    /// A pattern with `*`, `?` and `[…]`.
    Pattern,
    /// Seconds or milliseconds since 1970.
    UnixTime,
    /// Its token alone.
    PureToken,
    /// One of those inside.
    OneOf,
    /// All of those inside.
    Block,
}

impl Kind {
    /// The word for it in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }

    /// Of an argument whose type is not written.
    fn of(name: &str) -> Kind {
        match name {
            "key" | "key1" | "key2" | "keys" | "newkey" | "source" | "destination" | "destkey" => Kind::Key,
            "pattern" => Kind::Pattern,
            "unix-time-seconds" | "unix-time-milliseconds" => Kind::UnixTime,
            "bit" | "bits" | "client-id" | "count" | "cursor" | "db" | "decrement" | "destination-db"
            | "end" | "frequency" | "increment" | "index" | "index1" | "index2" | "maxage"
            | "milliseconds" | "min-match-len" | "offset" | "protover" | "seconds" | "slot" | "start"
            | "timeout" | "ttl" | "version" => Kind::Integer,
            _ => Kind::String,
        }
    }

    /// Of an argument whose type is written.
    fn written(name: &str) -> Result<Kind, String> {
        match name {
            "string" => Ok(Kind::String),
            "integer" => Ok(Kind::Integer),
            "double" => Ok(Kind::Double),
            _ => Err(format!("'{name}' is no type")),
        }
    }
}

/// The arguments of a line of the table; why it is none.
pub fn parse(line: &str) -> Result<Vec<Argument<'_>>, String> {
    let mut words = words(line).peekable();
    let arguments = sequence(&mut words)?;
    match words.next() {
        None => Ok(arguments),
        Some(word) => Err(format!("'{word}' has no beginning")),
    }
}

/// Brackets and `|` are words, whether spaces stand around them or not.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_mark = |byte: char| "[]<>|".contains(byte);
    line.split(' ').flat_map(move |text| text.split_inclusive(is_mark)).flat_map(move |text| {
        let (text, mark) = text.split_at(text.rfind(is_mark).unwrap_or(text.len()));
        [text, mark].into_iter().filter(|word| !word.is_empty())
    })
}

/// Arguments up to the end of the line, of the brackets, or of what is one of several.
fn sequence<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> Result<Vec<Argument<'a>>, String> {
    let mut arguments = Vec::new();
    while words.peek().is_some_and(|word| !matches!(*word, "]" | ">" | "|")) {
        arguments.push(argument(words)?);
    }
    Ok(arguments)
}

fn argument<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> Result<Argument<'a>, String> {
    let mut argument = match words.next().unwrap_or_default() {
        "[" => Argument { optional: true, ..group(words, "]")? },
        "<" => group(words, ">")?,
        "\"\"" => Argument { token: Some("\"\""), ..plain("empty-string", Kind::PureToken) },
        token if is_token(token) => match words.peek() {
            Some(next) if is_value(next) => match self::argument(words)? {
                value if value.token.is_none() => Argument { token: Some(token), ..value },
                _ => return Err(format!("two words stand before one argument: {token}")),
            },
            _ => Argument { token: Some(token), ..plain(token, Kind::PureToken) },
        },
        word => named(word)?,
    };
    let comes_again = argument.token.is_some_and(|token| words.next_if_eq(&token).is_some());
    if words.next_if_eq(&"...").is_some() {
        argument.multiple = true;
        argument.multiple_token = comes_again;
    } else if comes_again {
        return Err(format!("a word that comes again has dots behind it: {}", argument.name));
    }
    Ok(argument)
}

/// What stands between brackets.
fn group<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, end: &str) -> Result<Argument<'a>, String> {
    let name = words.next_if(|word| word.ends_with(':')).map(|word| word.trim_end_matches(':'));
    let mut choices = vec![sequence(words)?];
    while words.next_if_eq(&"|").is_some() {
        choices.push(sequence(words)?);
    }
    if words.next() != Some(end) {
        return Err(format!("brackets end with '{end}'"));
    }
    let kind = if choices.len() > 1 { Kind::OneOf } else { Kind::Block };
    if kind == Kind::OneOf && choices.iter().any(|choice| choice.len() != 1) {
        return Err("each choice is one argument, or has brackets".to_owned());
    }
    let mut inside: Vec<_> = choices.into_iter().flatten().collect();
    match (name, inside.len()) {
        (None, 1) => Ok(inside.remove(0)),
        (Some(name), 2..) => Ok(Argument { inside, ..plain(name, kind) }),
        (None, _) => Err("several arguments together have a name".to_owned()),
        (Some(name), _) => Err(format!("'{name}' names several arguments together")),
    }
}

/// `name`, `name:type`, `name=shown`.
fn named(word: &str) -> Result<Argument<'_>, String> {
    let (name, shown) = word.split_once('=').map_or((word, None), |(name, shown)| (name, Some(shown)));
    let (name, kind) = name.split_once(':').map_or((name, None), |(name, kind)| (name, Some(kind)));
    if name.is_empty() || !name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
        return Err(format!("'{word}' is no argument"));
    }
    let kind = kind.map_or(Ok(Kind::of(name)), Kind::written)?;
    Ok(Argument { shown, ..plain(name, kind) })
}

fn plain<'a>(name: &str, kind: Kind) -> Argument<'a> {
    let name = name.to_ascii_lowercase();
    Argument {
        name,
        kind,
        shown: None,
        token: None,
        optional: false,
        multiple: false,
        multiple_token: false,
        inside: Vec::new(),
    }
}

fn is_token(word: &str) -> bool {
    word.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'-'))
}

/// May it stand behind a token, as its value?
fn is_value(word: &str) -> bool {
    !is_token(word) && !matches!(word, "[" | "]" | ">" | "|" | "...")
}

/// As people are shown it: without names of what has others inside, and without types.
impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_choice = self.kind == Kind::OneOf && !self.optional;
        let is_bracketed = !self.inside.is_empty() && (is_choice || self.multiple || self.token.is_some());
        let (open, close) = if is_bracketed { ("<", ">") } else { ("", "") };
        let body = match self.kind {
            Kind::PureToken => String::new(),
            Kind::OneOf => line(&self.inside, " | "),
            Kind::Block => line(&self.inside, " "),
            _ => self.shown.unwrap_or(&self.name).to_owned(),
        };
        let (start, end) = if self.optional { ("[", "]") } else { ("", "") };
        let token = self.token.unwrap_or_default();
        let dots = match (self.multiple, self.multiple_token) {
            (true, true) => format!(" {token} ..."),
            (true, false) => " ...".to_owned(),
            (false, _) => String::new(),
        };
        let space = if token.is_empty() || body.is_empty() { "" } else { " " };
        write!(f, "{start}{token}{space}{open}{body}{close}{dots}{end}")
    }
}

/// The arguments of a command as people are shown them.
pub fn shown(arguments: &[Argument<'_>]) -> String {
    line(arguments, " ")
}

fn line(arguments: &[Argument<'_>], between: &str) -> String {
    arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}
