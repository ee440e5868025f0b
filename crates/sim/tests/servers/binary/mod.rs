//! Requests and replies of 24 bytes of header, as memcached and Couchbase have them.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fmt::Write as _;

/// A request: opcode, extras, key, value, CAS. Its opaque is its opcode.
pub(crate) fn request(opcode: u8, extras: &[u8], key: &str, value: &str, cas: u64) -> Vec<u8> {
    request_at(0, opcode, extras, key.as_bytes(), value.as_bytes(), cas)
}

/// The same with a partition.
pub(crate) fn request_at(
    vbucket: u16,
    opcode: u8,
    extras: &[u8],
    key: &[u8],
    value: &[u8],
    cas: u64,
) -> Vec<u8> {
    let body_size = extras.len() + key.len() + value.len();
    let mut bytes = vec![0x80, opcode];
    bytes.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    bytes.extend([u8::try_from(extras.len()).unwrap(), 0]);
    bytes.extend(vbucket.to_be_bytes());
    bytes.extend(u32::try_from(body_size).unwrap().to_be_bytes());
    bytes.extend(u32::from(opcode).to_be_bytes());
    bytes.extend(cas.to_be_bytes());
    bytes.extend([extras, key, value].concat());
    bytes
}

/// A reply, whose opaque is its opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) datatype: u8,
    pub(crate) cas: u64,
    pub(crate) extras: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// All of them.
pub(crate) fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while let Some((header, rest)) = bytes.split_at_checked(24) {
        assert_eq!(header[0], 0x81, "a reply");
        let opaque = u32::from_be_bytes(header[12..16].try_into().unwrap());
        assert_eq!(u32::from(header[1]), opaque, "the opaque");
        let key_size = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let extras_size = usize::from(header[4]);
        let body_size = u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize;
        replies.push(Reply {
            opcode: header[1],
            status: u16::from_be_bytes([header[6], header[7]]),
            datatype: header[5],
            cas: u64::from_be_bytes(header[16..24].try_into().unwrap()),
            extras: rest[..extras_size].to_vec(),
            key: rest[extras_size..extras_size + key_size].to_vec(),
            value: rest[extras_size + key_size..body_size].to_vec(),
        });
        bytes = &rest[body_size..];
    }
    assert!(bytes.is_empty(), "replies are whole");
    replies
}

/// Replies as `opcode:status:value`, with the key in front of the value where there is one.
pub(crate) fn read(bytes: &[u8]) -> String {
    let mut text = String::new();
    for Reply { opcode, status, key, value, .. } in replies(bytes) {
        let key = String::from_utf8_lossy(&key);
        let value = match opcode {
            5 | 6 if status == 0 => u64::from_be_bytes(value.try_into().unwrap()).to_string(),
            _ => String::from_utf8_lossy(&value).into_owned(),
        };
        let _ = write!(text, "{opcode:02x}:{status:x}:{key}{value} ");
    }
    text
}
