//! Sub-document requests: some paths of one document are looked at, or changed together. What is done at a path is
//! [`crate::json`]'s; here is how it is asked for.
//!
//! ```text
//! one path   extras: path size u16 | path flags u8 | [expiry u32 | [flags u32]] | [document flags u8]     value: path, value
//! several    extras: [expiry u32 | [flags u32]] | [document flags u8]                                     value: specs
//!   spec     opcode u8 | path flags u8 | path size u16 | path                                             of a lookup
//!            opcode u8 | path flags u8 | path size u16 | value size u32 | path | value                    of a mutation
//! reply      status u16 | size u32 | value, for each path                                                 of a lookup
//!            index u8 | status u16 | size u32 | value, for each sum; index u8 | status u16 of what failed  of a mutation
//! ```
//! (`docs/SubDocument.md`, `daemon/subdocument_validators.cc`, `subdocument_traits.h` of `kv_engine`.)

use std::ops::Range;

use crate::json::{Error, PATH_SIZE_MAX, Verb};
use crate::memcached::{Head, Status};

/// Paths of one request.
pub const PATHS_MAX: usize = 16;
/// What an attribute's name begins with that is about the document and not stored: `$document`.
pub const DOCUMENT_ATTRIBUTE: &[u8] = b"$document";

/// Objects that are missing on the way are made.
const MAKES_PARENTS: u8 = 0x01;
/// The path is one of an extended attribute.
const ATTRIBUTE: u8 = 0x04;
/// A document that is missing is made.
const MAKES_DOCUMENT: u8 = 0x01;
/// A document must be missing, and is made.
const ADDS_DOCUMENT: u8 = 0x02;
/// Deleted documents count too. There are none here.
const ACCESSES_DELETED: u8 = 0x04;

/// The opcodes of several paths, and those of a whole document inside of them.
pub(crate) const LOOKUP: u8 = 0xd0;
pub(crate) const MUTATION: u8 = 0xd1;
const WHOLE_GET: u8 = 0x00;
const WHOLE_SET: u8 = 0x01;
const WHOLE_DELETE: u8 = 0x04;

impl Status {
    /// The path leads to nothing.
    pub const PATH_MISSING: Status = Status(0xc0);
    /// The path goes into something of another kind.
    pub const PATH_MISMATCH: Status = Status(0xc1);
    /// The path does not read as one.
    pub const PATH_INVALID: Status = Status(0xc2);
    /// The path has too many components.
    pub const PATH_TOO_BIG: Status = Status(0xc3);
    /// The document is too deep.
    pub const DOCUMENT_TOO_DEEP: Status = Status(0xc4);
    /// The value cannot stand there.
    pub const VALUE_UNFIT: Status = Status(0xc5);
    /// The document is not JSON.
    pub const DOCUMENT_NOT_JSON: Status = Status(0xc6);
    /// The number has more than 64 bits.
    pub const NUMBER_RANGE: Status = Status(0xc7);
    /// What is to be added is no number.
    pub const DELTA_INVALID: Status = Status(0xc8);
    /// The path leads to something already.
    pub const PATH_EXISTS: Status = Status(0xc9);
    /// The value would make the document too deep.
    pub const VALUE_TOO_DEEP: Status = Status(0xca);
    /// These paths do not go together.
    pub const INVALID_COMBINATION: Status = Status(0xcb);
    /// Something failed at one of several paths.
    pub const PATH_FAILURE: Status = Status(0xcc);
    /// No attribute of that name is about the document.
    pub const UNKNOWN_ATTRIBUTE: Status = Status(0xd1);
    /// What is about the document cannot be changed.
    pub const ATTRIBUTE_IS_FIXED: Status = Status(0xd2);
    /// Attributes come before paths of the document.
    pub const ATTRIBUTE_ORDER: Status = Status(0xd4);
}

/// What a path's error is to a client.
pub fn status_of(error: Error) -> Status {
    match error {
        Error::PathMissing => Status::PATH_MISSING,
        Error::PathMismatch => Status::PATH_MISMATCH,
        Error::PathSyntax => Status::PATH_INVALID,
        Error::PathTooBig => Status::PATH_TOO_BIG,
        Error::PathExists => Status::PATH_EXISTS,
        Error::DocumentNotJson => Status::DOCUMENT_NOT_JSON,
        Error::DocumentTooDeep => Status::DOCUMENT_TOO_DEEP,
        Error::ValueUnfit => Status::VALUE_UNFIT,
        Error::ValueTooDeep => Status::VALUE_TOO_DEEP,
        Error::ValueTooBig => Status::TOO_LARGE,
        Error::NumberTooBig => Status::NUMBER_RANGE,
        Error::DeltaUnfit => Status::DELTA_INVALID,
    }
}

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Something inside of the document.
    At(Verb),
    /// The whole document is answered.
    GetWhole,
    /// The whole document becomes the value.
    SetWhole,
    /// The document is deleted.
    DeleteWhole,
}

impl What {
    fn of(opcode: u8, is_among_several: bool) -> Option<What> {
        Some(What::At(match opcode {
            WHOLE_GET if is_among_several => return Some(What::GetWhole),
            WHOLE_SET if is_among_several => return Some(What::SetWhole),
            WHOLE_DELETE if is_among_several => return Some(What::DeleteWhole),
            0xc5 => Verb::Get,
            0xc6 => Verb::Exists,
            0xc7 => Verb::Add,
            0xc8 => Verb::Upsert,
            0xc9 => Verb::Remove,
            0xca => Verb::Replace,
            0xcb => Verb::PushLast,
            0xcc => Verb::PushFirst,
            0xcd => Verb::Insert,
            0xce => Verb::AddUnique,
            0xcf => Verb::Counter,
            0xd2 => Verb::Count,
            _ => return None,
        }))
    }

    /// Does it change the document?
    pub fn changes(self) -> bool {
        match self {
            What::At(verb) => verb.changes(),
            What::GetWhole => false,
            What::SetWhole | What::DeleteWhole => true,
        }
    }

    fn has_value(self) -> bool {
        match self {
            What::At(verb) => verb.has_value(),
            What::GetWhole | What::DeleteWhole => false,
            What::SetWhole => true,
        }
    }

    /// Flags of a path that go with it.
    fn path_flags(self) -> u8 {
        use Verb::{Add, AddUnique, Counter, PushFirst, PushLast, Upsert};
        match self {
            What::At(Add | Upsert | PushLast | PushFirst | AddUnique | Counter) => MAKES_PARENTS | ATTRIBUTE,
            What::At(_) => ATTRIBUTE,
            What::GetWhole | What::SetWhole | What::DeleteWhole => 0,
        }
    }

    /// Flags of the document that go with it.
    fn document_flags(self) -> u8 {
        match self {
            What::At(Verb::Remove) | What::DeleteWhole => ACCESSES_DELETED,
            What::At(Verb::Replace | Verb::Insert) => ACCESSES_DELETED | ADDS_DOCUMENT,
            What::SetWhole => MAKES_DOCUMENT | ADDS_DOCUMENT,
            what if what.changes() => ACCESSES_DELETED | MAKES_DOCUMENT | ADDS_DOCUMENT,
            _ => ACCESSES_DELETED,
        }
    }

    /// May its path be the document itself?
    fn may_be_whole(self) -> bool {
        use Verb::{AddUnique, Count, PushFirst, PushLast};
        !matches!(self, What::At(verb) if !matches!(verb, AddUnique | Count | PushFirst | PushLast))
    }
}

/// What the extras of a request say, as its head carries it ([`Head::delta`], [`Head::flags`], [`Head::exptime`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// There are specs instead of a path.
    pub is_among_several: bool,
    path_size: u16,
    path_flags: u8,
    document_flags: u8,
    /// [`Head::flags`] become the document's.
    pub has_flags: bool,
}

impl Asked {
    /// Of a head that [`ask`] has written.
    pub fn of(head: &Head) -> Asked {
        let [low, high, path_flags, document_flags, has_flags, ..] = head.delta.to_le_bytes();
        Asked {
            is_among_several: is_among_several(head.opcode),
            path_size: u16::from_le_bytes([low, high]),
            path_flags,
            document_flags,
            has_flags: has_flags != 0,
        }
    }

    /// A document that is missing is made.
    pub fn makes_document(self) -> bool {
        self.document_flags & (MAKES_DOCUMENT | ADDS_DOCUMENT) != 0
    }

    /// The document must be missing.
    pub fn adds_document(self) -> bool {
        self.document_flags & ADDS_DOCUMENT != 0
    }
}

fn is_among_several(opcode: u8) -> bool {
    matches!(opcode, LOOKUP | MUTATION)
}

/// Is it an opcode of these requests? If so, whether it changes documents.
pub(crate) fn changes(opcode: u8) -> Option<bool> {
    match opcode {
        LOOKUP => Some(false),
        MUTATION => Some(true),
        _ => What::of(opcode, false).map(What::changes),
    }
}

/// Sizes that extras can have.
pub(crate) fn extras_sizes(opcode: u8, changes: bool) -> &'static [u8] {
    match (is_among_several(opcode), changes) {
        (true, true) => &[0, 1, 4, 5, 8, 9],
        (true, false) => &[0, 1],
        (false, true) => &[3, 4, 7, 8, 11, 12],
        (false, false) => &[3, 4],
    }
}

/// Writes what the extras say into the head of a request, whose value has so many bytes.
pub(crate) fn ask(head: Head, extras: &[u8], value_size: u64, changes: bool) -> Result<Head, Status> {
    let (mut path_size, mut path_flags, mut rest) = (0, 0, extras);
    if let (false, [high, low, flags, behind @ ..]) = (is_among_several(head.opcode), extras) {
        (path_size, path_flags, rest) = (u16::from_be_bytes([*high, *low]), *flags, behind);
    }
    let mut head = head;
    let mut has_flags = false;
    if let Some((expiry, behind)) = rest.split_first_chunk() {
        (head.exptime, rest) = (i64::from(u32::from_be_bytes(*expiry)), behind);
    }
    if let Some((flags, behind)) = rest.split_first_chunk() {
        (head.flags, has_flags, rest) = (u32::from_be_bytes(*flags), true, behind);
    }
    let document_flags = rest.first().copied().unwrap_or(0);
    let adds = document_flags & ADDS_DOCUMENT != 0;
    let is_known = document_flags & !(MAKES_DOCUMENT | ADDS_DOCUMENT | ACCESSES_DELETED) == 0;
    if !is_known
        || !changes && document_flags & !ACCESSES_DELETED != 0
        || adds && (head.cas != 0 || document_flags & MAKES_DOCUMENT != 0)
        || usize::from(path_size) > PATH_SIZE_MAX
        || u64::from(path_size) > value_size
    {
        return Err(Status::INVALID);
    }
    let [low, high] = path_size.to_le_bytes();
    head.delta = u64::from_le_bytes([low, high, path_flags, document_flags, u8::from(has_flags), 0, 0, 0]);
    if let Some(what) = What::of(head.opcode, false) {
        check(what, path_flags, document_flags, usize::from(path_size), value_size - u64::from(path_size))?;
    }
    Ok(head)
}

/// Whether flags and sizes go with what is done.
fn check(
    what: What,
    path_flags: u8,
    document_flags: u8,
    path_size: usize,
    value_size: u64,
) -> Result<(), Status> {
    let is_whole = !matches!(what, What::At(_));
    let fits = path_flags & !what.path_flags() == 0
        && document_flags & !what.document_flags() == 0
        && path_size <= PATH_SIZE_MAX
        && (!is_whole || path_size == 0)
        && (path_size > 0 || what.may_be_whole() && path_flags & ATTRIBUTE == 0)
        && what.has_value() == (value_size > 0);
    if fits { Ok(()) } else { Err(Status::INVALID) }
}

/// One path and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What is done.
    pub what: What,
    /// Objects that are missing on the way are made.
    pub makes_parents: bool,
    /// The path is one of [`DOCUMENT_ATTRIBUTE`].
    pub is_attribute: bool,
    /// The path as it came.
    pub path: Vec<u8>,
    /// Where in the request's value this one's is.
    pub value: Range<usize>,
}

impl Spec {
    /// Whether a document that is missing begins as an array for this path: with an index, or as an array itself.
    pub fn is_of_array(&self) -> bool {
        match self.path.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(first) => *first == b'[',
            None => true,
        }
    }
}

/// The specs of a request with this head, whose value has `size` bytes. `read` copies some of them out: at most a path or what stands
/// in front of one.
///
/// # Errors
/// The status to answer with: nothing is done then.
pub fn specs(
    head: &Head,
    size: usize,
    mut read: impl FnMut(Range<usize>) -> Vec<u8>,
) -> Result<Vec<Spec>, Status> {
    let asked = Asked::of(head);
    let changes = changes(head.opcode).expect("it is a request of these");
    if let Some(what) = What::of(head.opcode, false) {
        let path_end = usize::from(asked.path_size);
        let path = read(0..path_end);
        return Ok(vec![spec(what, asked.path_flags, path, path_end..size)?]);
    }
    let header_size = if changes { 8 } else { 4 };
    let (mut specs, mut at, mut is_alone): (Vec<Spec>, _, _) = (Vec::new(), 0, false);
    while at < size {
        if specs.len() == PATHS_MAX || is_alone {
            return Err(Status::INVALID_COMBINATION);
        }
        if size - at < header_size {
            return Err(Status::INVALID);
        }
        let header = read(at..at + header_size);
        let path_size = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let value_size =
            header.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |size| u32::from_be_bytes(*size));
        let what = What::of(header[0], true).filter(|what| what.changes() == changes);
        let what = what.ok_or(Status::INVALID_COMBINATION)?;
        check(what, header[1], asked.document_flags, path_size, u64::from(value_size))?;
        let value_size = usize::try_from(value_size).map_err(|_| Status::INVALID)?;
        let path_at = at + header_size;
        let value_at = path_at + path_size;
        if size.checked_sub(value_at).is_none_or(|left| left < value_size) {
            return Err(Status::INVALID);
        }
        let spec = spec(what, header[1], read(path_at..value_at), value_at..value_at + value_size)?;
        if spec.is_attribute && specs.last().is_some_and(|last| !last.is_attribute) {
            return Err(Status::ATTRIBUTE_ORDER);
        }
        // Deleting the document leaves nothing to any other path.
        is_alone = what == What::DeleteWhole;
        if is_alone && specs.iter().any(|spec| !spec.is_attribute) {
            return Err(Status::INVALID_COMBINATION);
        }
        specs.push(spec);
        at = value_at + value_size;
    }
    if specs.is_empty() { Err(Status::INVALID_COMBINATION) } else { Ok(specs) }
}

fn spec(what: What, path_flags: u8, path: Vec<u8>, value: Range<usize>) -> Result<Spec, Status> {
    let is_attribute = path_flags & ATTRIBUTE != 0;
    if is_attribute {
        let name = path.split(|byte| matches!(byte, b'.' | b'[')).next().unwrap_or_default();
        match name {
            [b'$', ..] if what.changes() => return Err(Status::ATTRIBUTE_IS_FIXED),
            [b'$', ..] => {}
            // None is ever stored.
            _ => return Err(Status::NOT_SUPPORTED),
        }
    }
    Ok(Spec { what, makes_parents: path_flags & MAKES_PARENTS != 0, is_attribute, path, value })
}

/// What is told of a document under [`DOCUMENT_ATTRIBUTE`].
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// See [`crate::memcached::Item::cas`].
    pub cas: u64,
    /// Which history its changes belong to.
    pub history: u64,
    /// The number of its last change.
    pub number: u64,
    /// When it ends, unix seconds; zero for never.
    pub expiry_s: u32,
    /// The client's flags.
    pub flags: u32,
    /// Bytes of its value.
    pub size: u64,
    /// It is marked as JSON.
    pub is_json: bool,
}

impl About {
    /// The object in which a path that begins with the attribute's name leads on.
    pub fn json(&self) -> String {
        let About { cas, history, number, expiry_s, flags, size, .. } = self;
        let datatype = if self.is_json { "json" } else { "raw" };
        format!(
            r#"{{"$document":{{"CAS":"{cas:#018x}","vbucket_uuid":"{history:#018x}","seqno":"{number:#018x}","exptime":{expiry_s},"flags":{flags},"value_bytes":{size},"datatype":["{datatype}"],"deleted":false}}}}"#
        )
    }
}

/// In front of the value of a path that was looked at: `status u16 | size u32`.
pub fn looked(status: Status, size: usize) -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..2].copy_from_slice(&status.0.to_be_bytes());
    bytes[2..]
        .copy_from_slice(&u32::try_from(size).expect("documents are far smaller than 4 GiB").to_be_bytes());
    bytes
}

/// In front of the sum at a path that was changed: `index u8 | status u16 = 0 | size u32`.
pub fn summed(index: usize, size: usize) -> [u8; 7] {
    let mut bytes = [0; 7];
    bytes[0] = u8::try_from(index).expect("there are few paths");
    bytes[1..].copy_from_slice(&looked(Status::OK, size));
    bytes
}

/// The path of a change that failed: `index u8 | status u16`.
pub fn failed(index: usize, status: Status) -> [u8; 3] {
    let [high, low] = status.0.to_be_bytes();
    [u8::try_from(index).expect("there are few paths"), high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head and the specs of a request, or the status of its refusal, whether by its front or by its specs.
    fn asked(opcode: u8, extras: &[u8], value: &[u8], cas: u64) -> Result<(Head, Vec<Spec>), Status> {
        let changes = changes(opcode).expect("an opcode of these");
        let head = Head { opcode, cas, ..Head::default() };
        assert!(
            extras_sizes(opcode, changes).iter().any(|size| usize::from(*size) == extras.len()),
            "{extras:?}"
        );
        let head = ask(head, extras, crate::memcached::reply::size64(value.len()), changes)?;
        let specs = specs(&head, value.len(), |range| value[range].to_vec())?;
        Ok((head, specs))
    }

    #[test]
    fn extras_say_what_they_may() {
        // Of the head: expiry, flags; makes the document, adds it, has flags.
        let check = |opcode, extras: &[u8], value: &[u8], want: (i64, u32, [bool; 3])| {
            let (head, _) = asked(opcode, extras, value, 0).expect("a request");
            let asked = Asked::of(&head);
            let bits = [asked.makes_document(), asked.adds_document(), asked.has_flags];
            assert_eq!((head.exptime, head.flags, bits), want, "{opcode:x} {extras:?}");
        };
        check(0xc8, &[0, 3, 1], b"a.b1", (0, 0, [false; 3]));
        check(0xc8, &[0, 1, 0, 1], b"a1", (0, 0, [true, false, false]));
        check(0xc8, &[0, 1, 0, 0, 0, 1, 2], b"a1", (0x102, 0, [false; 3]));
        check(0xc8, &[0, 1, 0, 0, 0, 1, 2, 2], b"a1", (0x102, 0, [true, true, false]));
        check(0xc8, &[0, 1, 0, 0, 0, 0, 9, 0, 0, 0, 7], b"a1", (9, 7, [false, false, true]));
        check(0xc8, &[0, 1, 0, 0, 0, 0, 9, 0, 0, 0, 7, 1], b"a1", (9, 7, [true, false, true]));
        check(0xc5, &[0, 1, 0, 4], b"a", (0, 0, [false; 3]));
        let remove = b"\xc9\0\0\x01\0\0\0\0a";
        check(0xd1, &[0, 0, 0, 9], remove, (9, 0, [false; 3]));
        check(0xd1, &[0, 0, 0, 9, 4], remove, (9, 0, [false; 3]));
        check(0xd1, &[0, 0, 0, 9, 0, 0, 0, 7], remove, (9, 7, [false, false, true]));
        check(0xd0, &[4], b"\xc5\0\0\x01a", (0, 0, [false; 3]));
        let refused = |opcode, extras: &[u8], value: &[u8], cas| {
            assert_eq!(
                asked(opcode, extras, value, cas).map(|_| ()),
                Err(Status::INVALID),
                "{opcode:x} {extras:?}"
            );
        };
        refused(0xc8, &[0, 1, 0, 3], b"a1", 0);
        refused(0xc8, &[0, 1, 0, 2], b"a1", 7);
        refused(0xc8, &[0, 1, 0, 8], b"a1", 0);
        refused(0xc8, &[0, 3, 0], b"a1", 0);
        refused(0xc5, &[0, 1, 0, 1], b"a", 0);
        refused(0xd1, &[1], remove, 0);
        refused(0xd0, &[2], b"\xc5\0\0\x01a", 0);
    }

    #[test]
    fn specs_stand_behind_one_another() {
        let value = b"\xc8\x01\0\x03\0\0\0\x02a.b17\xcf\0\0\x01\0\0\0\x01n5";
        let (_, specs) = asked(MUTATION, &[], value, 0).expect("a request");
        let shown: Vec<_> = specs
            .iter()
            .map(|spec| (spec.what, &spec.path[..], &value[spec.value.clone()], spec.makes_parents))
            .collect();
        assert_eq!(
            shown,
            [
                (What::At(Verb::Upsert), &b"a.b"[..], &b"17"[..], true),
                (What::At(Verb::Counter), b"n", b"5", false)
            ]
        );
        // Cut anywhere but between the two it is none.
        for size in 0..value.len() {
            let want = if size == 13 {
                None
            } else {
                Some(if size == 0 { Status::INVALID_COMBINATION } else { Status::INVALID })
            };
            assert_eq!(asked(MUTATION, &[], &value[..size], 0).err(), want, "{size}");
        }
    }

    #[test]
    fn what_is_told_of_a_document_reads_as_json() {
        let about = About { cas: 255, history: 1, number: 16, expiry_s: 9, flags: 7, size: 5, is_json: true };
        let text = about.json();
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["$document"]["CAS"], "0x00000000000000ff");
        assert_eq!(read["$document"]["seqno"], "0x0000000000000010");
        assert_eq!(read["$document"]["exptime"], 9);
        assert_eq!(read["$document"]["datatype"][0], "json");
    }
}
