//! The codes of replies beyond memcached's, and the error map, which tells clients what to do with each
//! (`include/mcbp/protocol/status.h`, `docs/ErrorMap.md`).

use std::fmt::Write as _;

use crate::memcached::Status;

impl Status {
    /// More than a value may have.
    pub const TOO_LARGE: Status = Status(0x03);
    /// Parts of a request that do not fit together.
    pub const INVALID: Status = Status(0x04);
    /// The value is no number.
    pub const NOT_NUMBER: Status = Status(0x06);
    /// The partition is another node's.
    pub const NOT_MY_VBUCKET: Status = Status(0x07);
    /// No bucket is selected.
    pub const NO_BUCKET: Status = Status(0x08);
    /// The document is locked.
    pub const LOCKED: Status = Status(0x09);
    /// The document is not locked.
    pub const NOT_LOCKED: Status = Status(0x0e);
    /// That was not the password.
    pub const AUTH_ERROR: Status = Status(0x20);
    /// Not for who has not said the password, or no such bucket.
    pub const NO_ACCESS: Status = Status(0x24);
    /// A frame that nobody knows.
    pub const UNKNOWN_FRAME: Status = Status(0x80);
    /// No such opcode.
    pub const UNKNOWN_COMMAND: Status = Status(0x81);
    /// No memory.
    pub const OUT_OF_MEMORY: Status = Status(0x82);
    /// There is such an opcode, but not here.
    pub const NOT_SUPPORTED: Status = Status(0x83);
    /// Try again later.
    pub const TEMPORARY_FAILURE: Status = Status(0x86);
    /// No such collection.
    pub const UNKNOWN_COLLECTION: Status = Status(0x88);
    /// No such scope.
    pub const UNKNOWN_SCOPE: Status = Status(0x8c);
    /// More is asked for than copies in memory can give.
    pub const DURABILITY_INVALID_LEVEL: Status = Status(0xa0);

    /// Its name in the error map, in the words of `kv_engine`, and what it means.
    pub fn meaning(self) -> (&'static str, &'static str) {
        MEANINGS
            .iter()
            .find(|meaning| meaning.status == self)
            .map_or(("EINTERNAL", "Internal error"), |meaning| (meaning.name, meaning.text))
    }
}

/// Is this the name of a status in the error map?
pub fn is_name(word: &[u8]) -> bool {
    MEANINGS.iter().any(|meaning| meaning.name.as_bytes() == word)
}

/// An entry of the error map.
struct Meaning {
    status: Status,
    name: &'static str,
    text: &'static str,
    /// What clients do with it, each in quotes.
    attributes: &'static str,
}

const fn meaning(
    status: Status,
    name: &'static str,
    text: &'static str,
    attributes: &'static str,
) -> Meaning {
    Meaning { status, name, text, attributes }
}

const RETRY: &str = r#""temp","retry-now""#;
const SUBDOCUMENT: &str = r#""item-only","subdoc""#;

static MEANINGS: [Meaning; 40] = [
    meaning(Status::OK, "SUCCESS", "Success", r#""success""#),
    meaning(Status::NOT_FOUND, "KEY_ENOENT", "Not found", r#""item-only""#),
    meaning(Status::EXISTS, "KEY_EEXISTS", "The key exists, or its CAS is another one", r#""item-only""#),
    meaning(Status::TOO_LARGE, "E2BIG", "The value is larger than 20 MiB", r#""item-only","invalid-input""#),
    meaning(
        Status::INVALID,
        "EINVAL",
        "The parts of the request do not fit together",
        r#""internal","invalid-input""#,
    ),
    meaning(Status::NOT_STORED, "NOT_STORED", "There is nothing to add to", r#""item-only""#),
    meaning(Status::NOT_NUMBER, "DELTA_BADVAL", "The value is no number", r#""item-only","invalid-input""#),
    meaning(
        Status::NOT_MY_VBUCKET,
        "NOT_MY_VBUCKET",
        "The partition is another node's",
        r#""fetch-config","invalid-input""#,
    ),
    meaning(Status::NO_BUCKET, "NO_BUCKET", "No bucket is selected", r#""conn-state-invalidated""#),
    meaning(Status::LOCKED, "LOCKED", "The document is locked", r#""item-locked","item-only","retry-now""#),
    meaning(Status::NOT_LOCKED, "NOT_LOCKED", "The document is not locked", r#""item-only""#),
    meaning(Status(0x1f), "AUTH_STALE", "Authenticate again", r#""conn-state-invalidated","auth""#),
    meaning(
        Status::AUTH_ERROR,
        "AUTH_ERROR",
        "That is not the password",
        r#""conn-state-invalidated","auth""#,
    ),
    meaning(Status::AUTH_CONTINUE, "AUTH_CONTINUE", "Go on", r#""special-handling""#),
    meaning(
        Status::NO_ACCESS,
        "EACCESS",
        "No access: authenticate first, and name a bucket that there is",
        r#""support","auth""#,
    ),
    meaning(Status::UNKNOWN_FRAME, "UNKNOWN_FRAME_INFO", "A frame that is not known", r#""support""#),
    meaning(Status::UNKNOWN_COMMAND, "UNKNOWN_COMMAND", "No such command", r#""support""#),
    meaning(Status::OUT_OF_MEMORY, "ENOMEM", "No memory", r#""temp","retry-later""#),
    meaning(Status::NOT_SUPPORTED, "NOT_SUPPORTED", "Not supported here", r#""support""#),
    meaning(Status(0x85), "EBUSY", "Busy", RETRY),
    meaning(Status::TEMPORARY_FAILURE, "ETMPFAIL", "Try again later", RETRY),
    meaning(
        Status::UNKNOWN_COLLECTION,
        "UNKNOWN_COLLECTION",
        "There is only the collection _default",
        r#""item-only""#,
    ),
    meaning(Status::UNKNOWN_SCOPE, "UNKNOWN_SCOPE", "There is only the scope _default", r#""item-only""#),
    meaning(
        Status::DURABILITY_INVALID_LEVEL,
        "DURABILITY_INVALID_LEVEL",
        "Nothing is persisted: majority is the only level",
        r#""item-only","invalid-input""#,
    ),
    meaning(Status::PATH_MISSING, "SUBDOC_PATH_ENOENT", "The path leads to nothing", SUBDOCUMENT),
    meaning(
        Status::PATH_MISMATCH,
        "SUBDOC_PATH_MISMATCH",
        "The path goes into something of another kind",
        SUBDOCUMENT,
    ),
    meaning(Status::PATH_INVALID, "SUBDOC_PATH_EINVAL", "The path does not read as one", SUBDOCUMENT),
    meaning(Status::PATH_TOO_BIG, "SUBDOC_PATH_E2BIG", "The path has too many components", SUBDOCUMENT),
    meaning(Status::DOCUMENT_TOO_DEEP, "SUBDOC_DOC_E2DEEP", "The document is too deep", SUBDOCUMENT),
    meaning(
        Status::VALUE_UNFIT,
        "SUBDOC_VALUE_CANTINSERT",
        "The value cannot stand where the path leads",
        SUBDOCUMENT,
    ),
    meaning(Status::DOCUMENT_NOT_JSON, "SUBDOC_DOC_NOT_JSON", "The document is not JSON", SUBDOCUMENT),
    meaning(
        Status::NUMBER_RANGE,
        "SUBDOC_NUM_ERANGE",
        "The number at the path has more than 64 bits",
        SUBDOCUMENT,
    ),
    meaning(
        Status::DELTA_INVALID,
        "SUBDOC_DELTA_EINVAL",
        "What is to be added is no whole number of 64 bits, or zero",
        SUBDOCUMENT,
    ),
    meaning(Status::PATH_EXISTS, "SUBDOC_PATH_EEXISTS", "The path leads to something already", SUBDOCUMENT),
    meaning(
        Status::VALUE_TOO_DEEP,
        "SUBDOC_VALUE_ETOODEEP",
        "The value would make the document too deep",
        SUBDOCUMENT,
    ),
    meaning(
        Status::INVALID_COMBINATION,
        "SUBDOC_INVALID_COMBO",
        "These paths do not go together, or are more than 16",
        SUBDOCUMENT,
    ),
    meaning(
        Status::PATH_FAILURE,
        "SUBDOC_MULTI_PATH_FAILURE",
        "Something failed at one of the paths",
        SUBDOCUMENT,
    ),
    meaning(
        Status::UNKNOWN_ATTRIBUTE,
        "SUBDOC_XATTR_UNKNOWN_VATTR",
        "Only $document is told of a document",
        SUBDOCUMENT,
    ),
    meaning(
        Status::ATTRIBUTE_IS_FIXED,
        "SUBDOC_XATTR_CANT_MODIFY_VATTR",
        "What is told of a document cannot be changed",
        SUBDOCUMENT,
    ),
    meaning(
        Status::ATTRIBUTE_ORDER,
        "SUBDOC_INVALID_XATTR_ORDER",
        "Attributes come before paths of the document",
        SUBDOCUMENT,
    ),
];

/// The newest version of the error map's form that is known.
const ERROR_MAP_VERSION: u16 = 2;
/// Grows when an entry changes.
const ERROR_MAP_REVISION: u16 = 1;

/// The error map in the form of this version, or of the newest one that is known.
pub fn error_map(version: u16) -> String {
    let version = version.min(ERROR_MAP_VERSION);
    let mut text = format!(r#"{{"version":{version},"revision":{ERROR_MAP_REVISION},"errors":{{"#);
    for (index, Meaning { status, name, text: about, attributes }) in MEANINGS.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let code = status.0;
        write!(text, r#"{comma}"{code:x}":{{"name":"{name}","desc":"{about}","attrs":[{attributes}]}}"#)
            .expect("writing to memory succeeds");
    }
    text + "}}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_map_has_each_code_once_in_order() {
        assert!(MEANINGS.is_sorted_by_key(|meaning| meaning.status.0));
        assert!(MEANINGS.windows(2).all(|pair| pair[0].status != pair[1].status));
        let map = error_map(1);
        assert!(map.starts_with(
            r#"{"version":1,"revision":1,"errors":{"0":{"name":"SUCCESS","desc":"Success","attrs":["success"]},"1":{"#
        ));
        assert!(map.contains(r#""a0":{"name":"DURABILITY_INVALID_LEVEL""#) && map.ends_with("]}}}"));
        assert!(error_map(7).starts_with(r#"{"version":2,"#));
        assert_eq!(Status::LOCKED.meaning().0, "LOCKED");
        assert!(is_name(b"EINVAL") && !is_name(b"ERR"));
        assert_eq!(Status(0x4242).meaning().0, "EINTERNAL");
    }
}
