//! Where in a document: `name`, `name.name`, `name[3]`, `[-1]`, `` `a name with .[] in it` ``.

use std::ops::Range;

use super::LEVELS_MAX;

/// Longest path, in bytes.
pub const PATH_SIZE_MAX: usize = 1024;

/// Most components of a path: what it leads to lies a level below each.
pub const COMPONENTS_MAX: usize = LEVELS_MAX as usize - 1;

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It does not read as one.
    Syntax,
    /// It has more than [`COMPONENTS_MAX`] components or [`PATH_SIZE_MAX`] bytes.
    TooBig,
}

/// One step into a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component<'a> {
    /// A member of an object, by its name: bytes, without any escapes.
    Name(&'a [u8]),
    /// An element of an array, counted from 0.
    Index(u64),
    /// An array's last element.
    Last,
}

/// A path that reads as one; without components it is the document itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The names one behind the other.
    names: Vec<u8>,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Name(Range<usize>),
    Index(u64),
    Last,
}

impl Path {
    /// Reads a path. Names are parted by `.`; an index in brackets follows what it goes into, a point between them may stand
    /// or not. Backquotes around a part of a name keep `.`, `[` and `]` from meaning anything, two are one in the name.
    /// Otherwise a name reads as a JSON string does between its quotes, but `\u` is refused.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(text: &[u8]) -> Result<Path, PathError> {
        if text.len() > PATH_SIZE_MAX {
            return Err(PathError::TooBig);
        }
        let mut path = Path { names: Vec::with_capacity(text.len()), parts: Vec::new() };
        let mut rest = text;
        while let Some(first) = rest.first() {
            if path.parts.len() == COMPONENTS_MAX {
                return Err(PathError::TooBig);
            }
            rest = if *first == b'[' { path.index(&rest[1..])? } else { path.name(rest)? };
        }
        Ok(path)
    }

    /// How many components there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Is it the document itself?
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// A component.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn component(&self, index: usize) -> Component<'_> {
        match &self.parts[index] {
            Part::Name(range) => Component::Name(&self.names[range.clone()]),
            Part::Index(index) => Component::Index(*index),
            Part::Last => Component::Last,
        }
    }

    /// What it leads to.
    pub fn last(&self) -> Option<Component<'_>> {
        self.parts.len().checked_sub(1).map(|index| self.component(index))
    }

    /// What stands behind an opening bracket; returns the rest.
    fn index<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], PathError> {
        let size = text.iter().position(|byte| *byte == b']').ok_or(PathError::Syntax)?;
        let part = match &text[..size] {
            b"-1" => Part::Last,
            b"" => return Err(PathError::Syntax),
            digits => digits
                .iter()
                .try_fold(0u64, |number, byte| {
                    let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
                    number.checked_mul(10)?.checked_add(digit)
                })
                .map(Part::Index)
                .ok_or(PathError::Syntax)?,
        };
        self.parts.push(part);
        match &text[size + 1..] {
            rest @ ([] | [b'[', ..]) => Ok(rest),
            [b'.', rest @ ..] if !rest.is_empty() => Ok(rest),
            _ => Err(PathError::Syntax),
        }
    }

    /// A name up to a point, a bracket or the end; returns the rest.
    fn name<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], PathError> {
        let size = name_size(text)?;
        let (name, rest) = text.split_at(size);
        let start = self.names.len();
        self.push_name(name)?;
        if self.names.len() == start {
            return Err(PathError::Syntax);
        }
        self.parts.push(Part::Name(start..self.names.len()));
        match rest {
            [b'.'] => Err(PathError::Syntax),
            [b'.', rest @ ..] => Ok(rest),
            rest => Ok(rest),
        }
    }

    /// A name's bytes without backquotes and escapes.
    fn push_name(&mut self, name: &[u8]) -> Result<(), PathError> {
        // The outermost pair quotes; of those within, two are one.
        let inner = match name {
            [b'`', inner @ .., b'`'] => inner,
            _ => name,
        };
        let mut bytes = inner.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            let plain = match byte {
                b'`' if bytes.next_if_eq(&b'`').is_some() => b'`',
                b'`' => continue,
                b'\\' => match bytes.next() {
                    Some(byte @ (b'"' | b'\\' | b'/')) => byte,
                    Some(b'b') => 0x08,
                    Some(b'f') => 0x0c,
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(b't') => b'\t',
                    _ => return Err(PathError::Syntax),
                },
                b'"' | 0..0x20 => return Err(PathError::Syntax),
                byte => byte,
            };
            self.names.push(plain);
        }
        Ok(())
    }
}

/// Bytes of the name that a text begins with.
fn name_size(text: &[u8]) -> Result<usize, PathError> {
    let mut is_quoted = false;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'`' => is_quoted = !is_quoted,
            b'.' | b'[' if !is_quoted => return Ok(index),
            b']' if !is_quoted => return Err(PathError::Syntax),
            _ => {}
        }
    }
    if is_quoted { Err(PathError::Syntax) } else { Ok(text.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path as one line: names in quotes, numbers in brackets.
    fn shown(path: &Path) -> String {
        (0..path.len())
            .map(|index| match path.component(index) {
                Component::Name(name) => format!("{:?}", String::from_utf8_lossy(name)),
                Component::Index(index) => format!("[{index}]"),
                Component::Last => "[-1]".to_string(),
            })
            .collect()
    }

    #[test]
    fn paths_read_as_in_couchbase() {
        let check = |text: &str, want: &str| {
            let path = Path::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(shown(&path), want, "{text}");
        };
        check("", "");
        check("foo.bar.baz", r#""foo""bar""baz""#);
        check("array[1].item[9]", r#""array"[1]"item"[9]"#);
        check("[1][2][3]", "[1][2][3]");
        check("[-1].[-1].[0]", "[-1][-1][0]");
        check("a.[0]", r#""a"[0]"#);
        check("`simple`.`escaped`.`path`", r#""simple""escaped""path""#);
        check("escaped.`arr.idx`[9]", r#""escaped""arr.idx"[9]"#);
        check("`BACKTICK``HAPPY`.`CAMPER`", r#""BACKTICK`HAPPY""CAMPER""#);
        check("trailing``", r#""trailing`""#);
        check("`]`", r#""]""#);
        check("a`.b`c.d", r#""a.bc""d""#);
        check(r#"\"quoted.path"#, r#""\"quoted""path""#);
        check(r"a\\b\/c\n", r#""a\\b/c\n""#);
        check("Fútbol", r#""Fútbol""#);
        check("[18446744073709551615]", "[18446744073709551615]");
        check("0", r#""0""#);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let check = |text: &str, want| assert_eq!(Path::parse(text.as_bytes()).unwrap_err(), want, "{text}");
        let odd = [
            ".",
            "....",
            ".a",
            "a.",
            "a..b",
            "[",
            "[1",
            "[]",
            "[a]",
            "[-2]",
            "[1]a",
            "[1].",
            "a]",
            "`a",
            "``",
            "\"a",
            "a\\",
            r"a\u0041",
            r"a\x",
            "a\nb",
            "[18446744073709551616]",
            "[+1]",
            "hello[0]world",
            "a`b",
        ];
        odd.into_iter().for_each(|text| check(text, PathError::Syntax));
        check(&"a".repeat(PATH_SIZE_MAX + 1), PathError::TooBig);
        check(&"[0]".repeat(COMPONENTS_MAX + 1), PathError::TooBig);
        assert_eq!(
            Path::parse("[0]".repeat(COMPONENTS_MAX).as_bytes()).expect("a path").len(),
            COMPONENTS_MAX
        );
        assert!(Path::parse("a".repeat(PATH_SIZE_MAX).as_bytes()).is_ok());
    }
}
