//! A request as bytes, made once; only the digits of its key change.

use super::keys::{DIGITS_COUNT, PREFIX, write_digits};

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Its value.
    Get,
    /// A value of so many bytes becomes its.
    Set(usize),
}

/// The bytes of a request, and where in them the key's digits stand.
pub(crate) struct Request {
    bytes: Vec<u8>,
    digits_at: usize,
}

impl Request {
    pub(crate) fn new(command: Command) -> Request {
        let key = [PREFIX, &[b'0'; DIGITS_COUNT]].concat();
        let mut bytes = Vec::new();
        match command {
            Command::Get => wire::client::command(&mut bytes, &[b"GET", &key]),
            Command::Set(size) => wire::client::command(&mut bytes, &[b"SET", &key, &vec![b'x'; size]]),
        }
        let key_at =
            bytes.windows(key.len()).position(|part| part == key).expect("the key is in its request");
        Request { bytes, digits_at: key_at + PREFIX.len() }
    }

    /// Appends the request for the key of that number.
    pub(crate) fn put(&mut self, number: u32, output: &mut Vec<u8>) {
        write_digits(&mut self.bytes[self.digits_at..self.digits_at + DIGITS_COUNT], number);
        output.extend_from_slice(&self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: Command, number: u32, want: &str) {
        let mut output = b"before".to_vec();
        let mut request = Request::new(command);
        request.put(u32::MAX, &mut Vec::new());
        request.put(number, &mut output);
        assert_eq!(output, ["before", want].concat().into_bytes());
    }

    #[test]
    fn requests_name_their_key() {
        check(Command::Get, 1203, "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000001203\r\n");
        check(Command::Set(2), 7, "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$2\r\nxx\r\n");
    }
}
