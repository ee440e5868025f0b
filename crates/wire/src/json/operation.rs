//! What a sub-document command does with one path.

use std::ops::Range;

use super::path::{COMPONENTS_MAX, Component, Path, PathError};
use super::scan::{Event, Fault, Kind, Scanner};
use super::search::{Match, NUMBER_SIZE_MAX, Outcome, Parent, Search};

/// Largest value that [`Verb::AddUnique`] takes: it is kept beside the document while its elements are compared.
pub const UNIQUE_SIZE_MAX: usize = 16 * 1024;

/// Largest text of a number that [`Verb::Counter`] adds.
const DELTA_SIZE_MAX: usize = 20;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The value at the path.
    Get,
    /// Is there one?
    Exists,
    /// How many elements or members it has.
    Count,
    /// A new member of an object.
    Add,
    /// A member of an object, new or not.
    Upsert,
    /// The value at the path goes, with its name.
    Remove,
    /// Another value in place of one that is there.
    Replace,
    /// Values behind those of an array.
    PushLast,
    /// Values in front of those of an array.
    PushFirst,
    /// Values in front of an array's element, or behind the last if the index is one more.
    Insert,
    /// A value behind those of an array, none of which is it; they and it are no arrays or objects.
    AddUnique,
    /// A whole number more or less; the sum is answered.
    Counter,
}

impl Verb {
    /// Does it come with a value?
    pub fn has_value(self) -> bool {
        !matches!(self, Verb::Get | Verb::Exists | Verb::Count | Verb::Remove)
    }

    /// Does it change the document?
    pub fn changes(self) -> bool {
        !matches!(self, Verb::Get | Verb::Exists | Verb::Count)
    }

    /// Does its value stand among an array's elements?
    fn is_for_arrays(self) -> bool {
        matches!(self, Verb::PushLast | Verb::PushFirst | Verb::Insert | Verb::AddUnique)
    }
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The path leads to nothing.
    PathMissing,
    /// The path goes into something of another kind, or leads to it.
    PathMismatch,
    /// The path does not read as one, or not as one for this verb.
    PathSyntax,
    /// The path has too many components.
    PathTooBig,
    /// The path leads to something already, or the element is there.
    PathExists,
    /// The document is not JSON, as far as it was read.
    DocumentNotJson,
    /// Something in the document lies deeper than [`super::LEVELS_MAX`].
    DocumentTooDeep,
    /// The value is not JSON, or not of the kind that can stand there; a sum of more than 64 bits.
    ValueUnfit,
    /// The value would make the document too deep.
    ValueTooDeep,
    /// The value is larger than [`UNIQUE_SIZE_MAX`].
    ValueTooBig,
    /// The number in the document has more than 64 bits.
    NumberTooBig,
    /// What is to be added is no whole number of 64 bits, or zero.
    DeltaUnfit,
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Error {
        match error {
            PathError::Syntax => Error::PathSyntax,
            PathError::TooBig => Error::PathTooBig,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There it is.
    Value(Range<usize>),
    /// It is there.
    Exists,
    /// So many.
    Count(u64),
    /// This is to be done.
    Edit(Edit),
    /// This is to be done, and the number is so much then.
    Sum(i64, Edit),
}

/// Bytes of a document that others replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes that go.
    pub at: Range<usize>,
    /// What comes first.
    pub front: Vec<u8>,
    /// The request's value comes next.
    pub has_value: bool,
    /// What comes behind it.
    pub back: Vec<u8>,
}

impl Edit {
    /// The value between two texts, in place of those bytes.
    fn value(at: Range<usize>, front: impl Into<Vec<u8>>, back: impl Into<Vec<u8>>) -> Edit {
        Edit { at, front: front.into(), has_value: true, back: back.into() }
    }
}

/// A verb at work on one path: first it takes the value, then the document.
#[derive(Clone, Debug)]
pub struct Operation {
    verb: Verb,
    makes_parents: bool,
    search: Search,
    value: Check,
    /// What [`Verb::Counter`] adds and [`Verb::AddUnique`] compares.
    kept: Vec<u8>,
}

impl Operation {
    /// A verb for a path. `makes_parents`: objects that are missing on the way are made.
    ///
    /// # Errors
    /// The path is none, or there can be nothing of the kind for this verb: the whole document cannot be replaced or removed, an
    /// insertion needs an index.
    pub fn new(verb: Verb, path: &[u8], makes_parents: bool) -> Result<Operation, Error> {
        let path = Path::parse(path)?;
        match (verb, path.last()) {
            (Verb::Add | Verb::Upsert | Verb::Replace | Verb::Remove, None) => return Err(Error::ValueUnfit),
            (Verb::Insert, None | Some(Component::Name(_) | Component::Last)) => {
                return Err(Error::PathSyntax);
            }
            (Verb::PushFirst, Some(_)) if path.len() == COMPONENTS_MAX => return Err(Error::PathTooBig),
            _ => {}
        }
        let above = u8::try_from(path.len()).expect("a path has few components");
        let value = match verb {
            Verb::Insert => Check::elements(above - 1),
            Verb::AddUnique => Check { is_primitive: true, ..Check::value(above + 1) },
            _ if verb.is_for_arrays() => Check::elements(above),
            _ => Check::value(above),
        };
        let search = Search::new(path);
        let search = if verb == Verb::Remove { search.with_next() } else { search };
        Ok(Operation { verb, makes_parents, search, value, kept: Vec::new() })
    }

    /// The next piece of the value.
    ///
    /// # Errors
    /// The value cannot stand where it is to go.
    pub fn value(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.verb {
            Verb::Counter if self.kept.len() + bytes.len() > DELTA_SIZE_MAX => return Err(Error::DeltaUnfit),
            Verb::Counter => self.kept.extend_from_slice(bytes),
            // A byte too many is kept as a sign: that the value is no such thing at all is said first, however it is cut.
            Verb::AddUnique => {
                let room = UNIQUE_SIZE_MAX + 1 - self.kept.len();
                self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            _ => {}
        }
        if self.verb == Verb::Counter { Ok(()) } else { self.value.feed(bytes) }
    }

    /// There is no more of the value. Called for every verb that has one.
    ///
    /// # Errors
    /// The value cannot stand where it is to go.
    pub fn value_end(&mut self) -> Result<(), Error> {
        match self.verb {
            Verb::Counter => delta(&self.kept).map(|_| ()),
            Verb::AddUnique => {
                self.value.finish()?;
                if self.kept.len() > UNIQUE_SIZE_MAX {
                    return Err(Error::ValueTooBig);
                }
                self.search.set_same(self.kept.trim_ascii().to_vec());
                Ok(())
            }
            _ => self.value.finish(),
        }
    }

    /// The next piece of the document; true when no more of it is needed.
    ///
    /// # Errors
    /// It is not JSON, or too deep.
    pub fn document(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        self.search.feed(bytes).map_err(of_document)
    }

    /// The document has ended, or no more of it is needed.
    ///
    /// # Errors
    /// Nothing is to be done, because of this.
    pub fn finish(mut self) -> Result<Answer, Error> {
        match self.search.finish().map_err(of_document)? {
            Outcome::Mismatch => Err(Error::PathMismatch),
            Outcome::Found(found) => self.at_value(&found, self.search.path()),
            Outcome::Missing(parent) => self.at_nothing(&parent, self.search.path()),
        }
    }

    fn at_value(&self, found: &Match, path: &Path) -> Result<Answer, Error> {
        let inside = |at: usize| at..at;
        let last = found.range.end.saturating_sub(1);
        let edit = match self.verb {
            Verb::Get => return Ok(Answer::Value(found.range.clone())),
            Verb::Exists => return Ok(Answer::Exists),
            Verb::Count if found.kind.is_container() => return Ok(Answer::Count(found.count)),
            Verb::Count => return Err(Error::PathMismatch),
            Verb::Add | Verb::Upsert if !matches!(path.last(), Some(Component::Name(_))) => {
                return Err(Error::PathSyntax);
            }
            Verb::Add => return Err(Error::PathExists),
            Verb::Upsert | Verb::Replace => Edit::value(found.range.clone(), "", ""),
            Verb::Remove => {
                let at = match (found.previous_end, found.next_begin) {
                    (_, Some(next)) => found.begin..next,
                    (Some(previous), None) => previous..found.range.end,
                    (None, None) => found.begin..found.range.end,
                };
                Edit { at, front: Vec::new(), has_value: false, back: Vec::new() }
            }
            Verb::Insert => Edit::value(inside(found.range.start), "", ","),
            Verb::PushLast | Verb::PushFirst | Verb::AddUnique if found.kind != Kind::Array => {
                return Err(Error::PathMismatch);
            }
            Verb::AddUnique if found.has_same => return Err(Error::PathExists),
            Verb::PushFirst => match found.first {
                Some(first) => Edit::value(inside(first), "", ","),
                None => Edit::value(inside(last), "", ""),
            },
            Verb::PushLast | Verb::AddUnique => {
                Edit::value(inside(last), if found.count > 0 { "," } else { "" }, "")
            }
            Verb::Counter => return self.count(found),
        };
        Ok(Answer::Edit(edit))
    }

    /// A number becomes another one.
    fn count(&self, found: &Match) -> Result<Answer, Error> {
        if found.kind != Kind::Number || !found.is_whole {
            return Err(Error::PathMismatch);
        }
        if found.number.len() > NUMBER_SIZE_MAX {
            return Err(Error::NumberTooBig);
        }
        let number = whole(&found.number).ok_or(Error::NumberTooBig)?;
        let sum = number.checked_add(delta(&self.kept)?).ok_or(Error::ValueUnfit)?;
        let front = sum.to_string().into_bytes();
        Ok(Answer::Sum(sum, Edit { at: found.range.clone(), front, has_value: false, back: Vec::new() }))
    }

    fn at_nothing(&self, parent: &Parent, path: &Path) -> Result<Answer, Error> {
        let is_named = matches!(path.last(), Some(Component::Name(_)));
        match self.verb {
            Verb::Add | Verb::Upsert if !is_named => Err(Error::PathSyntax),
            Verb::Add | Verb::Upsert => self.make(parent, path, "", ""),
            Verb::PushLast | Verb::PushFirst | Verb::AddUnique if self.makes_parents => {
                self.make(parent, path, "[", "]")
            }
            Verb::Insert => {
                let is_behind_last =
                    parent.met + 1 == path.len() && path.last() == Some(Component::Index(parent.count));
                if !is_behind_last {
                    return Err(Error::PathMissing);
                }
                let end = parent.range.end - 1;
                let front = if parent.count > 0 { "," } else { "" };
                Ok(Answer::Edit(Edit::value(end..end, front, "")))
            }
            Verb::Counter if parent.kind == Kind::Object => {
                if !is_named && self.makes_parents {
                    return Err(Error::PathSyntax);
                }
                let sum = delta(&self.kept)?;
                let Answer::Edit(edit) = self.make(parent, path, &sum.to_string(), "")? else {
                    unreachable!("something made is an edit")
                };
                Ok(Answer::Sum(sum, Edit { has_value: false, ..edit }))
            }
            _ => Err(Error::PathMissing),
        }
    }

    /// What is missing of a path is made of objects, in the innermost one that is there.
    fn make(&self, parent: &Parent, path: &Path, front: &str, back: &str) -> Result<Answer, Error> {
        let missing = path.len() - parent.met;
        let mut text = if parent.count > 0 { b",".to_vec() } else { Vec::new() };
        for index in parent.met..path.len() {
            let Component::Name(name) = path.component(index) else { return Err(Error::PathMissing) };
            if index > parent.met {
                text.push(b'{');
            }
            push_name(&mut text, name);
        }
        // An array is a level of its own: nothing but its own name may be missing of its path.
        if missing > 1 && !self.makes_parents {
            return Err(Error::PathMissing);
        }
        text.extend_from_slice(front.as_bytes());
        let mut behind = back.as_bytes().to_vec();
        behind.resize(back.len() + missing - 1, b'}');
        let end = parent.range.end - 1;
        Ok(Answer::Edit(Edit::value(end..end, text, behind)))
    }
}

fn of_document(fault: Fault) -> Error {
    match fault {
        Fault::Grammar => Error::DocumentNotJson,
        Fault::TooDeep => Error::DocumentTooDeep,
    }
}

/// A member's name in quotes, and the colon.
fn push_name(text: &mut Vec<u8>, name: &[u8]) {
    text.push(b'"');
    for byte in name {
        let letter = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                text.push(*byte);
                continue;
            }
        };
        text.extend_from_slice(&[b'\\', letter]);
    }
    text.extend_from_slice(b"\":");
}

/// A whole number of 64 bits, as JSON writes it.
fn whole(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What a counter adds: not zero, and without zeros in front.
fn delta(text: &[u8]) -> Result<i64, Error> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = digits.first().is_some_and(|first| matches!(first, b'1'..=b'9'));
    is_plain.then(|| whole(text)).flatten().ok_or(Error::DeltaUnfit)
}

/// Whether a value may stand in its place.
#[derive(Clone, Debug)]
struct Check {
    scanner: Scanner,
    /// One or several, parted by commas, as between brackets.
    is_list: bool,
    /// No array and no object.
    is_primitive: bool,
    has_some: bool,
}

impl Check {
    /// A value with so many containers around it.
    fn value(above: u8) -> Check {
        Check { scanner: Scanner::new(above), is_list: false, is_primitive: false, has_some: false }
    }

    /// Elements of an array with so many containers around it.
    fn elements(above: u8) -> Check {
        let mut check = Check { is_list: true, ..Check::value(above) };
        check.feed(b"[").expect("every path leaves room for an array");
        check.has_some = false;
        check
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while let Some(event) = self.scanner.next(&mut rest).map_err(of_value)? {
            if let Event::Begin(kind) = event {
                self.has_some = true;
                if self.is_primitive && kind.is_container() {
                    return Err(Error::ValueUnfit);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let has_some = self.has_some;
        if self.is_list {
            self.feed(b"]")?;
        }
        self.scanner.finish().map_err(of_value)?;
        if has_some { Ok(()) } else { Err(Error::ValueUnfit) }
    }
}

fn of_value(fault: Fault) -> Error {
    match fault {
        Fault::Grammar => Error::ValueUnfit,
        Fault::TooDeep => Error::ValueTooDeep,
    }
}
