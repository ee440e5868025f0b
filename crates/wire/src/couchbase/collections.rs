//! Collections: there is one, the default collection of the default scope, and clients that ask for others are told so
//! (`docs/Collections.md`).
//!
//! Where HELLO has agreed on them, a document's key begins with the number of its collection in unsigned LEB128. What is
//! stored, hashed and routed is the key without it.

use crate::memcached::Status;

/// Longest unsigned LEB128 number of 32 bits.
const NUMBER_SIZE_MAX: usize = 5;

/// Bytes in front of a key that name its collection, which must be the default one, 0.
pub(super) fn prefix_size(key: &[u8]) -> Result<usize, Status> {
    match key {
        [0, ..] => Ok(1),
        _ => match key.iter().take(NUMBER_SIZE_MAX).position(|byte| byte & 0x80 == 0) {
            // A number ends in a byte that is not zero, or it could be shorter.
            Some(end) if key[end] != 0 => Err(Status::UNKNOWN_COLLECTION),
            _ => Err(Status::INVALID),
        },
    }
}

/// The manifest: all scopes and collections that there are.
pub const MANIFEST: &str = concat!(
    r#"{"uid":"0","scopes":[{"name":"_default","uid":"0","#,
    r#""collections":[{"name":"_default","uid":"0"}]}]}"#
);
/// Number of the manifest; it never changes.
pub const MANIFEST_UID: u64 = 0;
/// Number of the default scope and of its collection.
const DEFAULT_ID: u32 = 0;

/// The number behind a path: `scope.collection`, or `scope` alone. An empty name is the default one.
pub fn id(path: &[u8], is_scope: bool) -> Result<u32, Status> {
    let is_default = |name: &[u8]| matches!(name, b"" | b"_default");
    let mut names = path.splitn(2, |byte| *byte == b'.');
    match (names.next().unwrap_or_default(), names.next()) {
        (_, None) if !is_scope => Err(Status::INVALID),
        (scope, _) if !is_default(scope) => Err(Status::UNKNOWN_SCOPE),
        (_, Some(collection)) if !is_scope && !is_default(collection) => Err(Status::UNKNOWN_COLLECTION),
        _ => Ok(DEFAULT_ID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_the_default_collection() {
        for (key, want) in [
            (&b"\0key"[..], Ok(1)),
            (b"\0", Ok(1)),
            (b"\x08key", Err(Status::UNKNOWN_COLLECTION)),
            (b"\xff\xff\xff\xff\x0fkey", Err(Status::UNKNOWN_COLLECTION)),
            (b"\x80\0key", Err(Status::INVALID)),
            (b"\xff\xff\xff\xff\xff\x0f", Err(Status::INVALID)),
            (b"\x80", Err(Status::INVALID)),
            (b"", Err(Status::INVALID)),
        ] {
            assert_eq!(prefix_size(key), want, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn only_the_default_names_are_known() {
        for (path, is_scope, want) in [
            ("_default._default", false, Ok(0)),
            (".", false, Ok(0)),
            ("._default", false, Ok(0)),
            ("_default.people", false, Err(Status::UNKNOWN_COLLECTION)),
            ("shop.people", false, Err(Status::UNKNOWN_SCOPE)),
            ("people", false, Err(Status::INVALID)),
            ("_default", true, Ok(0)),
            ("shop", true, Err(Status::UNKNOWN_SCOPE)),
            ("_default.people", true, Ok(0)),
        ] {
            assert_eq!(id(path.as_bytes(), is_scope), want, "{path}");
        }
    }
}
