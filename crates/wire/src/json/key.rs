//! Is a member's name the one that a path has? It comes in pieces and with escapes.

/// How far a name agrees.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyMatch {
    /// Bytes of the wanted name that have been met.
    met: usize,
    /// A byte has differed.
    differs: bool,
    escape: Escape,
    /// The first half of a pair, whose second must follow.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// Hexadecimal digits read, and their value.
    Hex(u8, u16),
}

impl KeyMatch {
    /// More of the name, its quotes too, as it stands in the document: the scanner has seen that it is one.
    pub(super) fn feed(&mut self, bytes: &[u8], wanted: &[u8]) {
        for byte in bytes {
            if self.differs {
                return;
            }
            self.byte(*byte, wanted);
        }
    }

    /// Was the whole name the wanted one?
    pub(super) fn is_equal(&self, wanted: &[u8]) -> bool {
        !self.differs && self.high.is_none() && self.met == wanted.len()
    }

    fn byte(&mut self, byte: u8, wanted: &[u8]) {
        match self.escape {
            Escape::None if byte == b'\\' => self.escape = Escape::Backslash,
            // Without a backslash it is the first or the last.
            Escape::None if byte == b'"' => {}
            Escape::None => self.meet(&[byte], wanted),
            Escape::Backslash if byte == b'u' => self.escape = Escape::Hex(0, 0),
            Escape::Backslash => {
                self.escape = Escape::None;
                let plain = match byte {
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    byte => byte,
                };
                self.meet(&[plain], wanted);
            }
            Escape::Hex(count, value) => {
                let digit = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
                let value = value << 4 | digit.unwrap_or(0);
                if count < 3 {
                    self.escape = Escape::Hex(count + 1, value);
                } else {
                    self.escape = Escape::None;
                    self.unit(value, wanted);
                }
            }
        }
    }

    /// A unit of UTF-16. Halves without their other half are in no path.
    fn unit(&mut self, unit: u16, wanted: &[u8]) {
        let high = self.high.take();
        match (high, unit) {
            (None, 0xd800..0xdc00) => self.high = Some(unit),
            (Some(high), 0xdc00..0xe000) => {
                self.character(char::decode_utf16([high, unit]).next(), wanted);
            }
            (Some(_), _) => self.differs = true,
            (None, unit) => self.character(char::decode_utf16([unit]).next(), wanted),
        }
    }

    fn character(&mut self, decoded: Option<Result<char, std::char::DecodeUtf16Error>>, wanted: &[u8]) {
        match decoded {
            Some(Ok(character)) => self.meet(character.encode_utf8(&mut [0; 4]).as_bytes(), wanted),
            _ => self.differs = true,
        }
    }

    fn meet(&mut self, bytes: &[u8], wanted: &[u8]) {
        let agrees = self.high.is_none() && wanted[self.met..].starts_with(bytes);
        if agrees {
            self.met += bytes.len();
        } else {
            self.differs = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_their_escapes() {
        let check = |text: &str, wanted: &str, want: bool| {
            for cut in 0..=text.len() {
                let mut key = KeyMatch::default();
                key.feed(&text.as_bytes()[..cut], wanted.as_bytes());
                key.feed(&text.as_bytes()[cut..], wanted.as_bytes());
                assert_eq!(key.is_equal(wanted.as_bytes()), want, "{text} {wanted} {cut}");
            }
        };
        check("name", "name", true);
        check("name", "names", false);
        check("names", "name", false);
        check("", "", true);
        check("", "a", false);
        check(r#"a\"b\\c\/d"#, r#"a"b\c/d"#, true);
        check(r"\b\f\n\r\t", "\u{8}\u{c}\n\r\t", true);
        check(r"\u0041\u00fa\u20ac", "Aú€", true);
        check(r"\u00FA", "ú", true);
        check(r"\ud83d\ude00", "😀", true);
        check(r"\ud83d", "😀", false);
        check(r"\ud83dx", "x", false);
        check(r"\ude00", "😀", false);
        check(r"\ud83d\u0041", "A", false);
        check(r"\ud83d\u0041", "", false);
        check(r"\u0041", "B", false);
        check("ú", "ú", true);
        check("n", "\\n", false);
    }
}
