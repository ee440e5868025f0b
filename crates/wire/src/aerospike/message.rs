//! Requests as they are read: headers, fields, rows of a batch.
//!
//! ```text
//! 02 | type | body size u48                                                      a frame
//! 16 | info1 | info2 | info3 | info4 | 0 | generation u32 | ttl u32 |            a message
//!      timeout u32 | n_fields u16 | n_ops u16 | fields | ops
//! size u32 | type | data                                                         a field; the size counts the type
//! index u32 | digest | flags | [info1 | [info2 info3] | [info4] |                a row
//!      [generation u16] | [ttl u32] | n_fields u16 | n_ops u16 | fields | ops]
//! ```

use std::ops::Range;

use super::admin::{ADMIN_HEADER_SIZE, ADMIN_SIZE_MAX};
use super::code::Code;
use super::decoder::Limits;
use super::head::{Bits, Head, Verb, info1, info2};
use super::info::{self, INFO_SIZE_MAX};
use super::zlib;
use super::{DIGEST_SIZE, Namespace, PARTITIONS, SCAN_SIZE_MAX, SET_SIZE_MAX, USER_KEY_SIZE_MAX};
use crate::resp::VIEW_SIZE_MAX;

/// The first byte of a frame.
pub(super) const PROTO_VERSION: u8 = 2;
/// Bytes of a frame in front of its body.
pub(super) const PROTO_HEADER_SIZE: usize = 8;
/// Bytes of a message in front of its fields.
pub(super) const MESSAGE_HEADER_SIZE: usize = 22;
/// Largest body of a frame, as in the server (`PROTO_SIZE_MAX`). A larger one closes the connection.
const BODY_SIZE_MAX: u64 = 128 * 1024 * 1024;
/// Bytes of the longest frame.
pub(super) const FRAME_SIZE_MAX: u64 = 8 + BODY_SIZE_MAX;
/// Bytes of the shortest frame of a message.
pub(super) const FRAME_SIZE_MIN: usize = FIELDS_START;
/// Most bytes of a message or row in front of its operations, a scan's apart; with more it is refused.
pub(super) const FRONT_SIZE_MAX: usize = 24 * 1024;
/// Most fields of a message or row.
const FIELD_COUNT_MAX: u16 = 64;
/// Most operations of a request.
pub const OP_COUNT_MAX: u16 = 1024;

/// What a frame is.
pub(super) mod kind {
    /// Names and values as text.
    pub(in super::super) const INFO: u8 = 1;
    /// Security.
    pub(in super::super) const ADMIN: u8 = 2;
    /// Data.
    pub(in super::super) const MESSAGE: u8 = 3;
    /// Data, compressed.
    pub(in super::super) const COMPRESSED: u8 = 4;
}

/// What a field is (`AS_MSG_FIELD_TYPE_…`).
pub(super) mod field {
    pub(in super::super) const NAMESPACE: u8 = 0;
    pub(in super::super) const SET: u8 = 1;
    pub(in super::super) const USER_KEY: u8 = 2;
    pub(in super::super) const DIGEST: u8 = 4;
    pub(in super::super) const TRANSACTION_ID: u8 = 5;
    pub(in super::super) const TRANSACTION_DEADLINE: u8 = 6;
    pub(in super::super) const PARTITIONS: u8 = 11;
    pub(in super::super) const DIGESTS: u8 = 12;
    pub(in super::super) const MAX_RECORDS: u8 = 13;
    /// Secondary indexes.
    pub(in super::super) const INDEX_FIRST: u8 = 21;
    pub(in super::super) const INDEX_LAST: u8 = 26;
    /// Functions in Lua.
    pub(in super::super) const UDF_FIRST: u8 = 30;
    pub(in super::super) const UDF_LAST: u8 = 33;
    pub(in super::super) const BIN_LIST: u8 = 40;
    pub(in super::super) const BATCH: u8 = 41;
    pub(in super::super) const BATCH_WITH_SET: u8 = 42;
    pub(in super::super) const FILTER: u8 = 43;
}

/// What a row's byte of flags says that it has (`AS_BATCH_…` of `aerospike_batch.c`).
pub(super) mod row {
    /// All is as in the row before; only the digest is another.
    pub(in super::super) const REPEAT: u8 = 1;
    pub(in super::super) const INFO23: u8 = 1 << 1;
    pub(in super::super) const GENERATION: u8 = 1 << 2;
    pub(in super::super) const TTL: u8 = 1 << 3;
    pub(in super::super) const INFO4: u8 = 1 << 4;
    pub(in super::super) const ALL: u8 = REPEAT | INFO23 | GENERATION | TTL | INFO4;
}

/// Bytes of a row up to its flags.
const ROW_HEADER_SIZE: usize = 4 + DIGEST_SIZE + 1;
/// Bytes of the shortest row, which repeats the one before.
pub(super) const ROW_SIZE_MIN: usize = ROW_HEADER_SIZE;
/// Bytes of a frame in front of a message's fields.
const FIELDS_START: usize = PROTO_HEADER_SIZE + MESSAGE_HEADER_SIZE;
/// Bytes of a batch in front of its rows: their count, and flags that only say how a server with disks goes about it.
const BATCH_HEADER_SIZE: usize = 5;

/// The front of a request, understood. Ranges are into the input.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) head: Head,
    pub(super) digest: Range<usize>,
    pub(super) set: Range<usize>,
    pub(super) key: Range<usize>,
    /// Bytes in front of the operations.
    pub(super) size: usize,
    pub(super) then: Then,
}

/// What follows.
#[derive(Debug)]
pub(super) enum Then {
    /// Operations of so many bytes, to the end of the frame.
    Ops(u64),
    /// Operations of a row, as many as the head says.
    RowOps,
    /// Operations of a row like those of the one before.
    SameOps,
    /// The text of an info or security request.
    Text(Range<usize>),
    /// Rows: so many, in so many bytes of the field and so many behind it.
    Rows { count: u32, size: u64, behind: u64 },
    /// A scan of these partitions, and behind these records of partitions that are not among them. The operations are this range,
    /// and with them the frame ends.
    Scan { partitions: Range<usize>, records: Range<usize>, ops: Range<usize> },
    /// A compressed frame of so many bytes, all of which are there, or as many as a view has.
    Inflate(u64),
    /// So many bytes that nobody wants.
    Swallow(u64),
}

/// Why the front of a request can't be read.
pub(super) enum Stop {
    /// So many bytes have to be there first.
    Need(usize),
    /// It is none.
    Broken,
}

impl Parsed {
    fn of(head: Head, size: usize, then: Then) -> Parsed {
        Parsed { head, digest: 0..0, set: 0..0, key: 0..0, size, then }
    }

    /// What is no request, behind which nothing can be found.
    fn close(input: &[u8]) -> Parsed {
        Parsed::of(Head::new(Verb::Close), input.len(), Then::Swallow(0))
    }

    /// A request that is refused; of its frame, which ends at `end`, `size` bytes are there.
    fn refuse(code: Code, head: Head, size: usize, end: u64) -> Parsed {
        Parsed::of(Head { verb: Verb::Say, code, ..head }, size, Then::Swallow(end - size64(size)))
    }
}

/// Reads the front of a request; nothing but how many bytes have to be there first when they are not.
pub(super) fn parse(input: &[u8], limits: &Limits, namespaces: &[Namespace]) -> Result<Parsed, usize> {
    let [version, kind] = [0, 1].map(|index| input.get(index).copied());
    let is_known = match (version, kind) {
        (Some(PROTO_VERSION), None | Some(kind::INFO..=kind::COMPRESSED)) => true,
        // Security has versions of its own.
        (Some(0), None | Some(kind::ADMIN)) => true,
        _ => false,
    };
    if !is_known {
        return Ok(Parsed::close(input));
    }
    let (Some(kind), Some(header)) = (kind, input.first_chunk::<PROTO_HEADER_SIZE>()) else {
        return Err(PROTO_HEADER_SIZE);
    };
    let size = body_size(header);
    let end = size64(PROTO_HEADER_SIZE) + size;
    match kind {
        kind::INFO | kind::ADMIN => {
            let is_info = kind == kind::INFO;
            let size_max = if is_info { INFO_SIZE_MAX } else { ADMIN_SIZE_MAX };
            if size > size_max || !is_info && size < size64(ADMIN_HEADER_SIZE) {
                return Ok(Parsed::close(input));
            }
            let end = PROTO_HEADER_SIZE + usize::try_from(size).expect("at most some KiB");
            let body = input.get(PROTO_HEADER_SIZE..end).ok_or(end)?;
            let truncated = if is_info && limits.authenticated { info::truncated_alone(body) } else { None };
            let head = match truncated.map(|options| info::option(options, b"namespace").unwrap_or_default())
            {
                // One that there is not is found out where nothing is removed, as is that nobody has logged in.
                Some(name) if let Some(namespace) = place_of(name, namespaces) => {
                    Head { namespace, ..Head::new(Verb::Truncate) }
                }
                _ if is_info => Head::new(Verb::Info),
                _ => Head::new(Verb::Admin),
            };
            Ok(Parsed::of(head, end, Then::Text(PROTO_HEADER_SIZE..end)))
        }
        _ if size > BODY_SIZE_MAX => Ok(Parsed::close(input)),
        _ if !limits.authenticated => {
            Ok(Parsed::refuse(Code::NOT_AUTHENTICATED, Head::default(), PROTO_HEADER_SIZE, end))
        }
        kind::COMPRESSED if end <= size64(zlib::FRONT_SIZE) => Ok(Parsed::close(input)),
        kind::COMPRESSED => match usize::try_from(end).map_or(VIEW_SIZE_MAX, |end| end.min(VIEW_SIZE_MAX)) {
            size if input.len() < size => Err(size),
            _ => Ok(Parsed::of(Head::default(), 0, Then::Inflate(end))),
        },
        _ if size < size64(MESSAGE_HEADER_SIZE) => Ok(Parsed::close(input)),
        _ => message(input, end, namespaces),
    }
}

/// Bytes of a frame's body.
fn body_size(header: &[u8; PROTO_HEADER_SIZE]) -> u64 {
    u64::from_be_bytes(*header) & 0xffff_ffff_ffff
}

/// Bytes of the frame that begins here, whose header has been read.
pub(super) fn frame_size(input: &[u8]) -> u64 {
    size64(PROTO_HEADER_SIZE) + body_size(input.first_chunk().expect("its header has been read"))
}

/// Reads the front of a message whose frame ends at `end`.
fn message(input: &[u8], end: u64, namespaces: &[Namespace]) -> Result<Parsed, usize> {
    let header = input.get(PROTO_HEADER_SIZE..FIELDS_START).ok_or(FIELDS_START)?;
    let u32_at = |start: usize| u32::from_be_bytes(*header[start..].first_chunk().expect("inside"));
    let u16_at = |start: usize| u16::from_be_bytes([header[start], header[start + 1]]);
    let head = Head {
        info1: header[1],
        info2: header[2],
        info3: header[3],
        generation: u32_at(6),
        ttl: u32_at(10),
        op_count: u16_at(20),
        ..Head::default()
    };
    let is_batch = head.info1 & info1::BATCH != 0;
    // A request that is answered in several messages ends with one that says so, which has the code.
    let several = Head { bits: Bits::default().and_if(true, Bits::LAST), ..Head::default() };
    let refuse = |code: Code, head: Head| Ok(Parsed::refuse(code, head, FIELDS_START, end));
    if usize::from(header[0]) != MESSAGE_HEADER_SIZE {
        return refuse(Code::PARAMETER, Head::default());
    }
    let may_scan = !is_batch && head.info2 & info2::WRITE == 0 && end <= size64(SCAN_SIZE_MAX);
    let lists_size_max = if may_scan { SCAN_SIZE_MAX } else { FRONT_SIZE_MAX };
    let (fields, at) = match fields(input, FIELDS_START, u16_at(18), end, lists_size_max) {
        Ok(found) => found,
        Err(Stop::Need(size)) => return Err(size),
        Err(Stop::Broken) => {
            return refuse(Code::PARAMETER, if is_batch { several } else { Head::default() });
        }
    };
    let is_single = fields.digest.is_some() || head.info2 & info2::WRITE != 0;
    let whole = if is_single && !is_batch { Head::default() } else { several };
    if fields.is_unsupported || header[4] & TRANSACTION_BITS != 0 {
        return refuse(Code::UNSUPPORTED, whole);
    }
    if is_batch {
        let Some((size, start)) = fields.batch else { return refuse(Code::PARAMETER, several) };
        let front = start + BATCH_HEADER_SIZE;
        if size < size64(BATCH_HEADER_SIZE) {
            return refuse(Code::PARAMETER, several);
        }
        let count = input.get(start..front).ok_or(front)?;
        let count = u32::from_be_bytes(*count.first_chunk().expect("inside"));
        let size = size - size64(BATCH_HEADER_SIZE);
        // No row, or rows for which there is no room.
        if count == 0 || u64::from(count) * size64(ROW_SIZE_MIN) > size {
            return refuse(Code::PARAMETER, several);
        }
        let behind = end - size64(front) - size;
        return Ok(Parsed::of(head, front, Then::Rows { count, size, behind }));
    }
    let head = match fields.check(input, namespaces) {
        Ok(namespace) => Head { namespace, ..head },
        Err(code) => return refuse(code, whole),
    };
    if head.op_count > OP_COUNT_MAX {
        return refuse(Code::PARAMETER, whole);
    }
    let Some(digest) = fields.digest else {
        return scan(input, head, &fields, at, end);
    };
    match verb_of(&head).filter(|_| at <= FRONT_SIZE_MAX) {
        None => refuse(Code::PARAMETER, whole),
        Some(verb) => Ok(Parsed {
            head: Head { verb, ..head },
            digest,
            set: fields.set,
            key: fields.key,
            size: at,
            then: Then::Ops(end - size64(at)),
        }),
    }
}

/// Bits of a message's fourth byte of flags that belong to transactions (`AS_MSG_INFO4_MRT_…`).
const TRANSACTION_BITS: u8 = 1 | 1 << 1 | 1 << 2 | 1 << 4;

/// A message without a digest: a scan, if it names partitions and changes nothing.
fn scan(input: &[u8], head: Head, fields: &Fields, at: usize, end: u64) -> Result<Parsed, usize> {
    let is_writing = head.info2 & info2::WRITE != 0;
    let several = Head { bits: Bits::default().and_if(!is_writing, Bits::LAST), ..Head::default() };
    let refuse = |code: Code| Ok(Parsed::refuse(code, several, FIELDS_START, end));
    if is_writing {
        // Work in the background, on all records of a set.
        return refuse(Code::UNSUPPORTED);
    }
    if !head.reads() || !fields.key.is_empty() {
        return refuse(Code::PARAMETER);
    }
    if fields.partitions.is_none() && fields.records.is_none() {
        return refuse(Code::UNSUPPORTED);
    }
    let (partitions, records) =
        (fields.partitions.clone().unwrap_or_default(), fields.records.clone().unwrap_or_default());
    let ids = input[partitions.clone()].as_chunks::<2>().0;
    let are_partitions = ids.iter().all(|id| u16::from_le_bytes(*id) < PARTITIONS);
    let are_whole = partitions.len() % 2 == 0 && records.len() % DIGEST_SIZE == 0;
    let count = partitions.len() / 2 + records.len() / DIGEST_SIZE;
    if !are_whole || !are_partitions || !(1..=usize::from(PARTITIONS)).contains(&count) {
        return refuse(Code::PARAMETER);
    }
    let limit = match (
        &fields.max_records,
        fields.max_records.clone().and_then(|range| input[range].first_chunk()),
    ) {
        (None, _) => 0,
        (Some(range), Some(bytes)) if range.len() == size_of::<u64>() => u64::from_be_bytes(*bytes),
        _ => return refuse(Code::PARAMETER),
    };
    let limit = u32::try_from(limit).ok().filter(|limit| *limit <= super::SCAN_RECORD_COUNT_MAX);
    let frame_size = match usize::try_from(end) {
        Ok(size) if size <= SCAN_SIZE_MAX => size,
        _ => return refuse(Code::PARAMETER),
    };
    if input.len() < frame_size {
        return Err(frame_size);
    }
    let then = Then::Scan { partitions, records, ops: at..frame_size };
    let head = Head { verb: Verb::Scan, index: limit.unwrap_or_default(), ..head };
    Ok(Parsed { set: fields.set.clone(), ..Parsed::of(head, 0, then) })
}

/// What a message or row of a record is for.
fn verb_of(head: &Head) -> Option<Verb> {
    if head.info2 & info2::WRITE != 0 {
        Some(if head.info2 & info2::DELETE != 0 { Verb::Delete } else { Verb::Write })
    } else {
        head.reads().then_some(Verb::Get)
    }
}

/// Reads the front of a row, of which there may be as much as `left` bytes. `before` is the head of the one before.
pub(super) fn parse_row(
    input: &[u8],
    left: u64,
    before: Option<&Head>,
    namespaces: &[Namespace],
) -> Result<Parsed, Stop> {
    let take = |start: usize, size: usize| {
        if size64(start + size) > left {
            return Err(Stop::Broken);
        }
        input.get(start..start + size).ok_or(Stop::Need(start + size))
    };
    let header = take(0, ROW_HEADER_SIZE)?;
    let index = u32::from_be_bytes(*header.first_chunk().expect("inside"));
    let digest = 4..4 + DIGEST_SIZE;
    let flags = header[ROW_HEADER_SIZE - 1];
    if flags & row::REPEAT != 0 {
        let head = Head { index, ..*before.ok_or(Stop::Broken)? };
        let set = 0..0;
        return Ok(Parsed { head, digest, set, key: 0..0, size: ROW_HEADER_SIZE, then: Then::SameOps });
    }
    if flags & !row::ALL != 0 {
        return Err(Stop::Broken);
    }
    let has = |flag: u8, size: usize| if flags & flag == 0 { 0 } else { size };
    let sizes = [1, has(row::INFO23, 2), has(row::INFO4, 1), has(row::GENERATION, 2), has(row::TTL, 4), 4];
    let meta = take(ROW_HEADER_SIZE, sizes.iter().sum())?;
    let mut rest = meta;
    let [info1, info23, info4, generation, ttl, counts] = sizes.map(|size| {
        let (front, behind) = rest.split_at(size);
        rest = behind;
        front
    });
    let number = |bytes: &[u8]| bytes.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    let count = |start: usize| u16::from_be_bytes([counts[start], counts[start + 1]]);
    let head = Head {
        bits: Bits::default().and_if(true, Bits::ROW),
        info1: info1[0],
        info2: info23.first().copied().unwrap_or_default(),
        info3: info23.get(1).copied().unwrap_or_default(),
        generation: number(generation),
        ttl: number(ttl),
        index,
        op_count: count(2),
        ..Head::default()
    };
    let (fields, size) = fields(input, ROW_HEADER_SIZE + meta.len(), count(0), left, FRONT_SIZE_MAX)?;
    let is_unsupported = fields.is_unsupported || number(info4) & u32::from(TRANSACTION_BITS) != 0;
    let checked = if is_unsupported || fields.batch.is_some() {
        Err(Code::UNSUPPORTED)
    } else {
        fields.check(input, namespaces).and_then(|namespace| {
            let verb = verb_of(&head).ok_or(Code::PARAMETER)?;
            Ok(Head { verb, namespace, ..head })
        })
    };
    let head = match checked {
        Ok(head) if head.op_count <= OP_COUNT_MAX => head,
        Ok(_) => Head { code: Code::PARAMETER, ..head },
        Err(code) => Head { code, ..head },
    };
    Ok(Parsed { head, digest, set: fields.set, key: fields.key, size, then: Then::RowOps })
}

/// The fields that mean something here.
#[derive(Default)]
struct Fields {
    namespace: Option<Range<usize>>,
    set: Range<usize>,
    key: Range<usize>,
    digest: Option<Range<usize>>,
    partitions: Option<Range<usize>>,
    records: Option<Range<usize>>,
    max_records: Option<Range<usize>>,
    /// How many bytes the rows have with what stands in front of them, and where they begin.
    batch: Option<(u64, usize)>,
    /// There is one that asks for what is not served.
    is_unsupported: bool,
}

/// Reads fields from `at` on, in a message that ends at `end`, up to the rows of a batch or behind the last one. With partitions
/// among them they end at `lists_size_max`.
fn fields(
    input: &[u8],
    mut at: usize,
    count: u16,
    end: u64,
    lists_size_max: usize,
) -> Result<(Fields, usize), Stop> {
    let mut fields = Fields::default();
    let mut size_max = FRONT_SIZE_MAX;
    if count > FIELD_COUNT_MAX {
        return Err(Stop::Broken);
    }
    for _ in 0..count {
        let data = at + 5;
        if size64(data) > end {
            return Err(Stop::Broken);
        }
        let header = input.get(at..data).ok_or(Stop::Need(data))?;
        let size = u32::from_be_bytes(*header.first_chunk().expect("inside"));
        let size = u64::from(size).checked_sub(1).ok_or(Stop::Broken)?;
        if size > end - size64(data) {
            return Err(Stop::Broken);
        }
        let kind = header[4];
        if matches!(kind, field::BATCH | field::BATCH_WITH_SET) {
            fields.is_unsupported |= kind == field::BATCH_WITH_SET;
            fields.batch = Some((size, data));
            return Ok((fields, data));
        }
        if matches!(kind, field::PARTITIONS | field::DIGESTS) {
            size_max = lists_size_max;
        }
        at = match usize::try_from(size64(data) + size) {
            Ok(at) if at <= size_max => at,
            _ => return Err(Stop::Broken),
        };
        if input.len() < at {
            return Err(Stop::Need(at));
        }
        let range = data..at;
        match kind {
            field::NAMESPACE => fields.namespace = Some(range),
            field::SET => fields.set = range,
            field::USER_KEY => fields.key = range,
            field::DIGEST => fields.digest = Some(range),
            field::PARTITIONS => fields.partitions = Some(range),
            field::MAX_RECORDS => fields.max_records = Some(range),
            field::DIGESTS => fields.records = Some(range),
            field::TRANSACTION_ID
            | field::TRANSACTION_DEADLINE
            | field::INDEX_FIRST..=field::INDEX_LAST
            | field::UDF_FIRST..=field::UDF_LAST
            | field::BIN_LIST
            | field::FILTER => fields.is_unsupported = true,
            // What it does not know a server of Aerospike passes over, too.
            _ => {}
        }
    }
    Ok((fields, at))
}

impl Fields {
    /// The place of the namespace that is named, if the others are as they may be.
    fn check(&self, input: &[u8], namespaces: &[Namespace]) -> Result<u8, Code> {
        let name = self.namespace.clone().ok_or(Code::NAMESPACE)?;
        let namespace = place_of(&input[name], namespaces).ok_or(Code::NAMESPACE)?;
        let has_digest = self.digest.as_ref().is_none_or(|digest| digest.len() == DIGEST_SIZE);
        if !has_digest || self.set.len() > SET_SIZE_MAX || self.key.len() > USER_KEY_SIZE_MAX {
            return Err(Code::PARAMETER);
        }
        Ok(namespace)
    }
}

/// The place of a namespace among those that there are.
fn place_of(name: &[u8], namespaces: &[Namespace]) -> Option<u8> {
    let place = namespaces.iter().position(|namespace| namespace.as_bytes() == name)?;
    Some(u8::try_from(place).expect("namespaces are few"))
}

pub(super) fn size64(size: usize) -> u64 {
    u64::try_from(size).expect("a size fits 64 bits")
}
