//! The other side: requests encoded, replies read.

use super::code::Code;
use super::head::info1;
use super::message::{MESSAGE_HEADER_SIZE, PROTO_HEADER_SIZE, PROTO_VERSION, field, kind, row};
use super::op::{Name, OP_FRONT_SIZE_MAX, Op};
use super::reply::{Reply, put_field_header};
use super::{DIGEST_SIZE, admin};
use crate::reply::Put;

pub use super::zlib::{inflated, put_compressed};

/// A message. The zero of a field stands where it has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// Flags: see [`info1`].
    pub info1: u8,
    /// See [`super::head::info2`].
    pub info2: u8,
    /// See [`super::head::info3`].
    pub info3: u8,
    /// The generation to compare with.
    pub generation: u32,
    /// Time to live, seconds.
    pub ttl: u32,
    /// How long the client waits, milliseconds.
    pub timeout_ms: u32,
    /// The namespace's name.
    pub namespace: &'a [u8],
    /// The set's name.
    pub set: &'a [u8],
    /// The key behind its particle type.
    pub user_key: &'a [u8],
    /// The record's digest; nothing in a scan.
    pub digest: Option<&'a [u8; DIGEST_SIZE]>,
    /// Partitions of a scan.
    pub partitions: &'a [u16],
    /// Records of other partitions behind which a scan goes on.
    pub records: &'a [[u8; DIGEST_SIZE]],
    /// How many records of a scan are wanted at most; 0 for all.
    pub max_records: u64,
    /// How many operations there are, and their bytes as [`put_op`] writes them.
    pub ops: (u16, &'a [u8]),
}

impl Message<'_> {
    fn fields(&self, is_row: bool) -> (u16, Vec<u8>) {
        let (mut count, mut out) = (0, Vec::new());
        let mut put = |kind: u8, data: &[u8]| {
            put_field_header(&mut out, kind, data.len());
            out.put(data);
            count += 1;
        };
        put(field::NAMESPACE, self.namespace);
        if !self.set.is_empty() {
            put(field::SET, self.set);
        }
        if let Some(digest) = self.digest.filter(|_| !is_row) {
            put(field::DIGEST, digest);
        }
        if !self.user_key.is_empty() {
            put(field::USER_KEY, self.user_key);
        }
        if !self.partitions.is_empty() {
            let ids: Vec<u8> = self.partitions.iter().flat_map(|id| id.to_le_bytes()).collect();
            put(field::PARTITIONS, &ids);
        }
        if !self.records.is_empty() {
            put(field::DIGESTS, self.records.as_flattened());
        }
        if self.max_records > 0 {
            put(field::MAX_RECORDS, &self.max_records.to_be_bytes());
        }
        (count, out)
    }

    /// Appends its frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (field_count, fields) = self.fields(false);
        self.put_header(out, field_count, fields.len() + self.ops.1.len());
        out.put(&fields);
        out.put(self.ops.1);
    }

    fn put_header(&self, out: &mut Vec<u8>, field_count: u16, size: usize) {
        put_frame_header(out, kind::MESSAGE, MESSAGE_HEADER_SIZE + size);
        out.put(&[MESSAGE_HEADER_SIZE.to_le_bytes()[0], self.info1, self.info2, self.info3, 0, 0]);
        out.put(&self.generation.to_be_bytes());
        out.put(&self.ttl.to_be_bytes());
        out.put(&self.timeout_ms.to_be_bytes());
        out.put(&field_count.to_be_bytes());
        out.put(&self.ops.0.to_be_bytes());
    }

    /// Appends it as a row of a batch.
    pub fn put_row(&self, out: &mut Vec<u8>, index: u32, digest: &[u8; DIGEST_SIZE]) {
        let (field_count, fields) = self.fields(true);
        out.put(&index.to_be_bytes());
        out.put(digest);
        let short = u16::try_from(self.generation & 0xffff).expect("16 bits");
        out.put(&[row::INFO23 | row::GENERATION | row::TTL, self.info1, self.info2, self.info3]);
        out.put(&short.to_be_bytes());
        out.put(&self.ttl.to_be_bytes());
        out.put(&field_count.to_be_bytes());
        out.put(&self.ops.0.to_be_bytes());
        out.put(&fields);
        out.put(self.ops.1);
    }
}

/// Appends a row that is as the one before but for its digest.
pub fn put_same_row(out: &mut Vec<u8>, index: u32, digest: &[u8; DIGEST_SIZE]) {
    out.put(&index.to_be_bytes());
    out.put(digest);
    out.put(&[row::REPEAT]);
}

/// Appends a batch of so many rows, as [`Message::put_row`] writes them.
pub fn put_batch(out: &mut Vec<u8>, count: u32, rows: &[u8]) {
    let message = Message { info1: info1::BATCH, timeout_ms: 1000, ..Message::default() };
    message.put_header(out, 1, 5 + 5 + rows.len());
    put_field_header(out, field::BATCH, 5 + rows.len());
    out.put(&count.to_be_bytes());
    // Rows may be served where they are read, and all are answered.
    out.put(&[1 | 4 | 8]);
    out.put(rows);
}

/// Appends an operation on a bin whose name has at most 15 bytes.
pub fn put_op(out: &mut Vec<u8>, kind: u8, particle: u8, name: &[u8], value: &[u8]) {
    let name = Name::new(name).expect("the name of a bin has at most 15 bytes");
    Op { kind, particle, name, value_size: value.len() }.put_front(out);
    out.put(value);
}

/// Appends an info request; each name ends its line.
pub fn put_info(out: &mut Vec<u8>, names: &str) {
    put_frame_header(out, kind::INFO, names.len());
    out.put(names.as_bytes());
}

/// Appends a LOGIN with a password's credential.
pub fn put_login(out: &mut Vec<u8>, user: &str, credential: &[u8]) {
    admin::put_request(out, admin::LOGIN, &[(admin::USER, user.as_bytes()), (admin::CREDENTIAL, credential)]);
}

/// Appends an AUTHENTICATE with a session's token.
pub fn put_authenticate(out: &mut Vec<u8>, user: &str, token: &[u8]) {
    let fields = [(admin::USER, user.as_bytes()), (admin::SESSION_TOKEN, token)];
    admin::put_request(out, admin::AUTHENTICATE, &fields);
}

pub(super) fn put_frame_header(out: &mut Vec<u8>, kind: u8, size: usize) {
    let mut header = u64::try_from(size).expect("a size fits 64 bits").to_be_bytes();
    header[..2].copy_from_slice(&[PROTO_VERSION, kind]);
    out.put(&header);
}

/// A message of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Its header.
    pub reply: Reply,
    /// The row's number.
    pub index: u32,
    /// Fields and operations.
    pub body: &'a [u8],
}

/// The first frame of `input`, and how many bytes it has: its type and its body. Nothing if it is cut.
pub fn frame(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let header = input.first_chunk::<PROTO_HEADER_SIZE>()?;
    let size = usize::try_from(u64::from_be_bytes(*header) & 0xffff_ffff_ffff).ok()?;
    let end = PROTO_HEADER_SIZE + size;
    Some((header[1], input.get(PROTO_HEADER_SIZE..end)?, end))
}

/// The messages of a frame's body, of which there may be several in a reply to a batch; nothing from where one is cut.
pub fn messages(mut body: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = body.split_first_chunk::<MESSAGE_HEADER_SIZE>()?;
        let u32_at = |start: usize| u32::from_be_bytes(*header[start..].first_chunk().expect("inside"));
        let u16_at = |start: usize| u16::from_be_bytes([header[start], header[start + 1]]);
        let (field_count, op_count) = (u16_at(18), u16_at(20));
        // A field and an operation both begin with their size.
        let mut size = 0;
        for _ in 0..u32::from(field_count) + u32::from(op_count) {
            let word = rest.get(size..)?.first_chunk()?;
            size += 4 + usize::try_from(u32::from_be_bytes(*word)).ok()?;
        }
        let (all, behind) = rest.split_at_checked(size)?;
        body = behind;
        let reply = Reply {
            code: Code(header[5]),
            generation: u32_at(6),
            void_time: u32_at(10),
            field_count,
            op_count,
            size,
            info3: header[3],
        };
        Some(Received { reply, index: u32_at(14), body: all })
    })
}

/// The operations behind each other in these bytes, with their values; nothing from where one is broken.
pub fn ops(mut bytes: &[u8]) -> impl Iterator<Item = (Op, &[u8])> {
    std::iter::from_fn(move || {
        let front = &bytes[..bytes.len().min(OP_FRONT_SIZE_MAX)];
        let op = if bytes.is_empty() { None } else { Op::parse(front, bytes.len()).ok() }?;
        let (whole, behind) = bytes.split_at(op.size());
        bytes = behind;
        Some((op, &whole[op.front_size()..]))
    })
}
