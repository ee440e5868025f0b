//! Token mode: a frame too large for a view, handed over in the pieces in which it arrives.
//!
//! Header lines are read byte by byte into a number, so nothing of the input has to stay.

use super::{Decoder, LINE_SIZE_MAX, Limits, ProtocolError, State, Token, args_count, bulk_size};

/// A header line being read: the first byte, then the number so far, whose magnitude lies in [`Decoder::bulk_left`].
#[derive(Debug, Default)]
pub(super) struct Line {
    first: u8,
    number: Number,
    /// The `\r` has been seen.
    ended: bool,
}

/// Where the strict reading of a number stands. The language is that of [`crate::number::parse_i64`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Number {
    #[default]
    Empty,
    Minus,
    Zero,
    Positive,
    Negative,
    Bad,
}

impl Line {
    pub(super) const fn new() -> Line {
        Line { first: 0, number: Number::Empty, ended: false }
    }

    fn value(&self, magnitude: u64) -> Option<i64> {
        match self.number {
            Number::Zero => Some(0),
            Number::Positive => i64::try_from(magnitude).ok(),
            Number::Negative => 0i64.checked_sub_unsigned(magnitude),
            Number::Empty | Number::Minus | Number::Bad => None,
        }
    }
}

impl Number {
    fn feed(self, byte: u8, magnitude: &mut u64) -> Number {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        match (self, byte) {
            (Number::Empty, b'-') => Number::Minus,
            (Number::Empty, b'0') => Number::Zero,
            (Number::Empty, b'1'..=b'9') => {
                *magnitude = digit;
                Number::Positive
            }
            (Number::Minus, b'1'..=b'9') => {
                *magnitude = digit;
                Number::Negative
            }
            (Number::Positive | Number::Negative, b'0'..=b'9') => {
                match magnitude.checked_mul(10).and_then(|tens| tens.checked_add(digit)) {
                    Some(more) => {
                        *magnitude = more;
                        self
                    }
                    None => Number::Bad,
                }
            }
            _ => Number::Bad,
        }
    }
}

impl Decoder {
    pub(super) fn next_token(&mut self, input: &[u8], limits: &Limits) -> (Token, usize) {
        let mut at = 0;
        loop {
            match self.state {
                State::Start
                | State::Count
                | State::BulkLine
                | State::BulkBytes
                | State::Inline
                | State::TokenStart => self.start_line(State::TokenCount),
                State::TokenCount | State::TokenLine => {
                    let (line, size) = self.line(&input[at..]);
                    at += size;
                    return match line {
                        None if self.position as usize >= LINE_SIZE_MAX => {
                            let counting = self.state == State::TokenCount;
                            self.malformed(
                                if counting {
                                    ProtocolError::CountLineTooLong
                                } else {
                                    ProtocolError::BulkLineTooLong
                                },
                                at,
                            )
                        }
                        None => (Token::Need, at),
                        Some(value) => match self.announced(value, limits) {
                            Ok(token) => (token, at),
                            Err(error) => self.malformed(error, at),
                        },
                    };
                }
                State::TokenBytes if self.bulk_left > 0 => {
                    let here =
                        u64::try_from(input.len() - at).expect("a size fits 64 bits").min(self.bulk_left);
                    self.bulk_left -= here;
                    let end = at + usize::try_from(here).expect("not more than the input's size");
                    return if here == 0 { (Token::Need, at) } else { (Token::Bytes(at..end), end) };
                }
                State::TokenBytes => self.state = State::TokenGap(2),
                State::TokenGap(left) => {
                    let here = usize::from(left).min(input.len() - at);
                    at += here;
                    if here < usize::from(left) {
                        self.state = State::TokenGap(if here == 0 { left } else { left - 1 });
                        return (Token::Need, at);
                    }
                    self.args_left -= 1;
                    if self.args_left > 0 {
                        self.start_line(State::TokenLine);
                    } else {
                        self.state = State::TokenEnd;
                    }
                }
                State::TokenEnd => {
                    self.state = State::Start;
                    return (Token::End, at);
                }
            }
        }
    }

    fn start_line(&mut self, state: State) {
        self.state = state;
        self.position = 0;
        self.line = Line::new();
        self.bulk_left = 0;
    }

    /// Reads on in a header line. The value is there (or is no number) when `\r` and one more byte have been read.
    fn line(&mut self, input: &[u8]) -> (Option<Option<i64>>, usize) {
        for (index, &byte) in input.iter().enumerate() {
            #[cfg(test)]
            super::tests::look_at(1);
            if self.line.ended {
                return (Some(self.line.value(self.bulk_left)), index + 1);
            }
            if self.position == 0 {
                self.line.first = byte;
            } else if byte != b'\r' {
                self.line.number = self.line.number.feed(byte, &mut self.bulk_left);
            }
            self.line.ended = byte == b'\r';
            self.position += 1;
            if self.position as usize >= LINE_SIZE_MAX {
                return (None, index + 1);
            }
        }
        (None, input.len())
    }

    fn announced(&mut self, value: Option<i64>, limits: &Limits) -> Result<Token, ProtocolError> {
        if self.state == State::TokenCount {
            let args = args_count(value.ok_or(ProtocolError::MultibulkLength)?, limits)?;
            self.args_left = args;
            if args == 0 {
                self.state = State::TokenEnd;
            } else {
                self.start_line(State::TokenLine);
            }
            return Ok(Token::Begin { args });
        }
        if self.line.first != b'$' {
            return Err(ProtocolError::ExpectedDollar(self.line.first));
        }
        let size = bulk_size(value.ok_or(ProtocolError::BulkLength)?, limits)?;
        self.bulk_left = size;
        self.state = State::TokenBytes;
        Ok(Token::Bulk { size })
    }

    fn malformed(&mut self, error: ProtocolError, consumed: usize) -> (Token, usize) {
        self.state = State::Start;
        (Token::Malformed(error), consumed)
    }
}
