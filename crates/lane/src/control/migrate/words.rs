//! What a MIGRATE says (`migrateCommand` of Redis' cluster.c).

use std::ops::Range;

use wire::number::parse_i64;

use crate::dispatch::KEY_TOO_LONG;
use crate::request::Args;

/// What is meant where no time is given, or none that makes sense.
const TIMEOUT_MS_DEFAULT: u64 = 1000;
/// Longer names of hosts are none.
const HOST_SIZE_MAX: usize = 255;
const SYNTAX: &str = "ERR syntax error";
const PASSWORD_TOO_LONG: &str = "ERR user and password are not longer than 32768 bytes";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

/// Where keys go. A connection is used again by those alone who go to the same place and say the same password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    /// What is said with AUTH: a password, or a user and a password; nothing without.
    pub(super) auth: Vec<Vec<u8>>,
}

/// See the top of this file.
pub(super) struct Words {
    /// None if the host or the port is none that could exist.
    pub(super) place: Option<Place>,
    pub(super) db: i64,
    /// How long nothing may happen on the connection.
    pub(super) timeout_ns: u64,
    pub(super) copies: bool,
    pub(super) replaces: bool,
    /// The arguments that are keys.
    pub(super) keys: Range<usize>,
}

impl Words {
    /// The error is what the client is told.
    pub(super) fn parse(args: Args<'_>) -> Result<Words, &'static str> {
        let (mut copies, mut replaces, mut auth, mut keys) = (false, false, Vec::new(), 3..4);
        let mut index = 6;
        while index < args.len() {
            let is = |word: &[u8]| args.flat(index).eq_ignore_ascii_case(word);
            let secret_count = match () {
                () if is(b"copy") => {
                    copies = true;
                    0
                }
                () if is(b"replace") => {
                    replaces = true;
                    0
                }
                () if is(b"auth") => 1,
                () if is(b"auth2") => 2,
                () if is(b"keys") => {
                    if args.get(3).size() > 0 {
                        return Err(
                            "ERR When using MIGRATE KEYS option, the key argument must be set to the \
                                    empty string",
                        );
                    }
                    keys = index + 1..args.len();
                    break;
                }
                () => return Err(SYNTAX),
            };
            if secret_count > 0 {
                let secrets = index + 1..index + 1 + secret_count;
                if args.len() < secrets.end {
                    return Err(SYNTAX);
                }
                let secrets = secrets.map(|secret| args.get(secret).flat().map(<[u8]>::to_vec));
                auth = secrets.collect::<Option<_>>().ok_or(PASSWORD_TOO_LONG)?;
            }
            index += 1 + secret_count;
        }
        let timeout_ms = parse_i64(args.flat(5)).ok_or(NOT_INTEGER)?;
        let db = parse_i64(args.flat(4)).ok_or(NOT_INTEGER)?;
        if keys.clone().any(|key| args.get(key).flat().is_none()) {
            return Err(KEY_TOO_LONG);
        }
        let timeout_ms = u64::try_from(timeout_ms).ok().filter(|ms| *ms > 0).unwrap_or(TIMEOUT_MS_DEFAULT);
        Ok(Words {
            place: place(args.flat(1), args.flat(2), auth),
            db,
            timeout_ns: timeout_ms.saturating_mul(1_000_000),
            copies,
            replaces,
            keys,
        })
    }
}

fn place(host: &[u8], port: &[u8], auth: Vec<Vec<u8>>) -> Option<Place> {
    let host = std::str::from_utf8(host).ok().filter(|host| host.len() <= HOST_SIZE_MAX)?;
    // As `atoi` reads it: what is behind the digits does not matter.
    let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let port = std::str::from_utf8(&port[..digits]).ok()?.parse().ok().filter(|port| *port > 0)?;
    Some(Place { host: host.to_owned(), port, auth })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Arg, Request};

    fn parse(line: &str) -> Result<Words, &'static str> {
        let mut request = Request::default();
        line.split(' ').for_each(|word| request.push(Arg::Flat(word.as_bytes())));
        Words::parse(Args::Owned(&request))
    }

    #[test]
    fn options_are_read_as_by_redis() {
        let Ok(words) = parse("migrate h 6379 key 9 5000") else { panic!("it is right") };
        assert!(!words.copies && !words.replaces && words.db == 9 && words.keys == (3..4));
        assert_eq!(words.timeout_ns, 5_000_000_000);
        assert!(
            words.place.is_some_and(|place| place.host == "h" && place.port == 6379 && place.auth.is_empty())
        );
        let line = "migrate h 1  0 -1 replace COPY auth2 keys auth KEYS a copy";
        let Ok(words) = parse(line) else { panic!("{line} is right") };
        assert!(words.copies && words.replaces && words.keys == (12..14));
        assert_eq!(words.timeout_ns, 1_000_000_000);
        assert_eq!(words.place.expect("a place").auth, [b"keys".to_vec(), b"auth".to_vec()]);
        assert!(parse("migrate h 1  0 0 keys").is_ok_and(|words| words.keys.is_empty()));
    }

    #[test]
    fn what_is_wrong_is_said_as_by_redis() {
        let check = |line: &str, want: &str| assert_eq!(parse(line).err(), Some(want), "{line}");
        check("migrate h 1 k 0 9 auth", SYNTAX);
        check("migrate h 1 k 0 9 auth2 user", SYNTAX);
        check("migrate h 1 k 0 9 nosuch", SYNTAX);
        check("migrate h 1 k 0 x", NOT_INTEGER);
        check("migrate h 1 k x 9", NOT_INTEGER);
        check(
            "migrate h 1 k 0 9 keys a",
            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
        );
    }

    #[test]
    fn what_is_no_place_is_found_out_where_it_is_dialled() {
        for (port, want) in [("6379x", Some(6379)), ("0", None), ("x", None), ("65536", None), ("-1", None)] {
            let found = place(b"h", port.as_bytes(), Vec::new()).map(|place| place.port);
            assert_eq!(found, want, "{port}");
        }
        assert!(
            place(b"\xff", b"1", Vec::new()).is_none() && place(&[b'h'; 256], b"1", Vec::new()).is_none()
        );
    }
}
