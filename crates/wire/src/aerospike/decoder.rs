//! Bytes of a connection to commands.
//!
//! As in [`crate::resp`] there are two ways to read a request: as a view while it is small, by tokens when it is larger than
//! [`VIEW_SIZE_MAX`]. Of a batch each row is a command of its own, of a scan each partition, so neither is ever in one place,
//! and what keeps a client from asking faster than it reads holds for them too. A scan of which only some records are wanted is one
//! command: what counts them sees all its partitions. A partition of which a client has records already is named by the last one of them,
//! so that the frame of a scan may be longer than a view: it is gathered, within [`super::SCAN_SIZE_MAX`], and told by tokens.
//!
//! The decoder's state is small and can be taken and put back ([`Decoder::state`], [`Decoder::rewind`]), because it may stand
//! between two rows. What a row repeats of the one before is shared between states, and as large as a view at most.
//!
//! Of a compressed frame the commands are those of the frame inside, told by tokens (`compressed`).
//!
//! However a request is cut, it is read again only when a further field, operation or all of it has come.

use std::ops::Range;
use std::sync::Arc;

use super::code::Code;
use super::head::{Bits, Head, Verb, info1};
use super::message::{
    FRONT_SIZE_MAX, Parsed, ROW_SIZE_MIN, Stop, Then, frame_size, parse, parse_row, size64,
};
use super::{DIGEST_SIZE, Namespace};
use crate::resp::{ArgRanges, Step, VIEW_SIZE_MAX};
use compressed::Compressed;
use long::Long;

mod compressed;
mod long;
mod tokens;

pub use super::message::OP_COUNT_MAX;

/// Bytes of input that are always enough for the next step.
pub const INPUT_SIZE_MIN: usize = VIEW_SIZE_MAX;
const _: () = assert!(FRONT_SIZE_MAX + 8 <= INPUT_SIZE_MIN, "fronts of requests fit an input");
/// Bytes of a partition's number.
const ID_SIZE: usize = 2;

/// What a connection may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of operations in a request or row, and of a record. A larger one is refused and swallowed.
    pub record_size_max: u64,
    /// Without it, messages are refused by their header.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { record_size_max: 1024 * 1024, authenticated: true }
    }
}

/// Where a decoder stands.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Bytes that have to be there before another look.
    wanted: u32,
    phase: Phase,
}

#[derive(Clone, Debug, Default)]
enum Phase {
    /// Before a request.
    #[default]
    Start,
    /// Before a row.
    Rows(Batch),
    /// In the operations of a row that was refused: so many of them, and bytes of the one under way.
    SkipOps { batch: Batch, ops_left: u16, left: u64 },
    /// Before a partition of a scan.
    Scan(Scan),
    /// Before so many bytes that nobody wants.
    Swallow(u64),
    /// Token mode: before this piece of a request, or row, whose front is not consumed.
    Piece(Piece, Option<Batch>),
    /// Token mode: before so many bytes of a message's operations.
    Ops(u64),
    /// Token mode: in the operations of a row; `size` counts those before.
    RowOps { batch: Batch, head: Head, ops_left: u16, left: u64, size: u64 },
    /// Token mode: before what stands instead of a row that is too large.
    Instead { piece: Piece, head: Head, batch: Batch, ops_left: u16, left: u64 },
    /// Token mode: a scan that no view holds.
    Long(Box<Long>),
    /// Token mode: before a compressed frame of so many bytes.
    Compressed(u64),
}

/// What is left of a batch.
#[derive(Clone, Debug)]
struct Batch {
    rows_left: u32,
    /// Bytes of the rows, and of the message behind them.
    left: u64,
    behind: u64,
    /// Whether replies may be compressed, which the batch says and its rows do not: [`info1::COMPRESS`] or nothing.
    compress: u8,
    before: Option<Arc<Template>>,
}

/// What a row may repeat.
#[derive(Debug)]
struct Template {
    head: Head,
    set: Vec<u8>,
    /// `None` when they were too many to be kept.
    ops: Option<Vec<u8>>,
}

/// What is left of a scan.
#[derive(Clone, Debug)]
struct Scan {
    run: Run,
    then: Option<Run>,
    /// Bytes of the frame behind the last partition.
    behind: u32,
    template: Arc<Template>,
}

/// Partitions that stand in a row: by their numbers, or by the record behind which the scan goes on.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Bytes of input in front of the first one.
    gap: u32,
    /// Bytes of each.
    size: u32,
    left: u16,
}

impl Run {
    /// What stands here, behind what ends at `end`.
    fn of(range: &Range<usize>, end: usize, size: usize) -> Option<Run> {
        let left = u16::try_from(range.len() / size).expect("a scan fits its view");
        let gap = range.start.saturating_sub(end);
        (left > 0).then_some(Run { gap: index32(gap), size: index32(size), left })
    }
}

/// What token mode hands out next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Begin,
    HeadSize,
    Head,
    DigestSize,
    Digest,
    SetSize,
    Set,
    KeySize,
    Key,
    Ops,
}

/// Reads the requests of one connection.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    namespaces: Arc<[Namespace]>,
    /// A compressed frame that has begun. It is no part of the state: nothing of it is read twice.
    compressed: Option<Box<Compressed>>,
    /// See [`Decoder::take_inflated`].
    inflated: usize,
}

impl Default for Decoder {
    /// Of the one namespace that servers have if nobody says otherwise.
    fn default() -> Decoder {
        Decoder::new(Arc::new([Namespace::default()]))
    }
}

impl Decoder {
    /// In front of the first request of a connection that knows these namespaces. A head names one by its place here.
    pub fn new(namespaces: Arc<[Namespace]>) -> Decoder {
        Decoder { state: State::default(), namespaces, compressed: None, inflated: 0 }
    }

    /// Where it stands. Taken before a call of [`Decoder::decode`], it leads back there.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// Whether it stands where a new one does, but for a compressed frame that has begun.
    #[inline]
    pub fn is_new(&self) -> bool {
        matches!(self.state, State { wanted: 0, phase: Phase::Start })
    }

    /// Puts the decoder back to where it has stood, in front of commands that have not run. The input begins there again.
    pub fn rewind(&mut self, state: State) {
        self.state = state;
    }

    /// Looks for one command at the start of `input`.
    ///
    /// `input` starts with the first byte that is not consumed; between calls that answer [`Step::Need`] it may only grow at
    /// its end, and [`INPUT_SIZE_MIN`] bytes of it are always enough. After [`Step::Command`] the caller consumes `size` bytes
    /// before the next call; without arguments they were no command. [`Step::Malformed`] never comes: what is no request is a
    /// command that closes ([`Verb::Close`]).
    #[inline]
    pub fn decode(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        let is_large = matches!(
            self.state.phase,
            Phase::Piece(..)
                | Phase::Ops(_)
                | Phase::RowOps { .. }
                | Phase::Instead { .. }
                | Phase::Long(_)
                | Phase::Compressed(_)
        );
        if is_large || self.compressed.is_some() {
            // Its end may need no further byte.
            return Step::Large;
        }
        if input.len() < index(self.state.wanted).max(1) {
            return Step::Need;
        }
        self.state.wanted = 0;
        match &self.state.phase {
            Phase::Start => self.message(input, args, limits),
            Phase::Rows(batch) => {
                let batch = batch.clone();
                self.row(batch, input, args, limits)
            }
            Phase::SkipOps { batch, ops_left, left } => {
                let (batch, ops_left, left) = (batch.clone(), *ops_left, *left);
                self.skip_ops(batch, ops_left, left, input, args)
            }
            Phase::Scan(scan) => {
                let scan = scan.clone();
                self.partition(scan, input, args)
            }
            Phase::Swallow(left) => {
                let size = here(*left, input);
                self.state.phase = swallow(*left - size64(size));
                skip(size, args)
            }
            _ => unreachable!("large requests are read by tokens"),
        }
    }

    fn need(&mut self, size: usize) -> Step {
        self.state.wanted = u32::try_from(size).expect("an input is far smaller than 4 GiB");
        Step::Need
    }

    fn message(&mut self, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        let parsed = match parse(input, limits, &self.namespaces) {
            Ok(parsed) => parsed,
            Err(size) if size > VIEW_SIZE_MAX => {
                self.begin_long(frame_size(input));
                return Step::Large;
            }
            Err(size) => return self.need(size),
        };
        let front = parsed.size;
        match parsed.then {
            Then::Ops(size) if size > limits.record_size_max => {
                self.state.phase = swallow(size);
                say(&Head { verb: Verb::Say, code: Code::TOO_BIG, ..parsed.head }, args);
                Step::Command { size: front }
            }
            Then::Ops(size) => match usize::try_from(size64(front) + size) {
                Ok(size) if size <= VIEW_SIZE_MAX => {
                    let Some(ops) = input.get(front..size) else { return self.need(size) };
                    parsed.place(ops, input, args);
                    Step::Command { size }
                }
                _ => {
                    self.state.phase = Phase::Piece(Piece::Begin, None);
                    Step::Large
                }
            },
            Then::Text(text) => {
                args.set([&parsed.head.to_bytes()[..], b"", &input[text]]);
                Step::Command { size: front }
            }
            Then::Rows { count, size, behind } => {
                let compress = parsed.head.info1 & info1::COMPRESS;
                let batch = Batch { rows_left: count, left: size, behind, compress, before: None };
                self.state.phase = Phase::Rows(batch);
                skip(front, args)
            }
            Then::Scan { ops, .. } if ops.end > VIEW_SIZE_MAX => {
                self.begin_long(size64(ops.end));
                Step::Large
            }
            Then::Scan { partitions, records, ops } if parsed.head.index > 0 => {
                let head = Head { bits: parsed.head.bits.and_if(true, Bits::LAST), ..parsed.head };
                let records = &input[records];
                let ids = ids(records, &input[partitions]);
                args.set([&head.to_bytes()[..], &ids, &input[parsed.set], records, &input[ops.clone()]]);
                Step::Command { size: ops.end }
            }
            Then::Scan { partitions, records, ops } => {
                let template = Arc::new(Template {
                    head: parsed.head,
                    set: input[parsed.set].to_vec(),
                    ops: Some(input[ops.clone()].to_vec()),
                });
                let mut fields = [(partitions, ID_SIZE), (records, DIGEST_SIZE)];
                fields.sort_by_key(|(range, _)| range.end);
                let [(first, first_size), (second, second_size)] = &fields;
                let runs = [Run::of(first, 0, *first_size), Run::of(second, first.end, *second_size)];
                let mut runs = runs.into_iter().flatten();
                let scan = Scan {
                    run: runs.next().expect("a scan has partitions"),
                    then: runs.next(),
                    behind: index32(ops.end - second.end),
                    template,
                };
                self.partition(scan, input, args)
            }
            Then::Inflate(size) => {
                self.state.phase = Phase::Compressed(size);
                Step::Large
            }
            Then::Swallow(left) => {
                self.state.phase = swallow(left);
                say(&parsed.head, args);
                Step::Command { size: front }
            }
            Then::RowOps | Then::SameOps => unreachable!("a message is no row"),
        }
    }

    /// The next partition of a scan.
    fn partition(&mut self, scan: Scan, input: &[u8], args: &mut ArgRanges) -> Step {
        let Run { gap, size, left } = scan.run;
        let (at, end) = (index(gap), index(gap + size));
        let next = if left > 1 { Some(Run { gap: 0, left: left - 1, ..scan.run }) } else { scan.then };
        let size = if next.is_none() { end + index(scan.behind) } else { end };
        let Some(item) = input.get(..size).map(|input| &input[at..end]) else { return self.need(size) };
        let Template { head, set, ops } = &*scan.template;
        let head = Head { bits: head.bits.and_if(next.is_none(), Bits::LAST), ..*head };
        let (id, record) = match item.first_chunk() {
            Some(digest) => (id_of(digest), item),
            None => ([item[0], item[1]], &b""[..]),
        };
        args.set([&head.to_bytes()[..], &id, set, record, ops.as_deref().unwrap_or_default()]);
        self.state.phase = match next {
            None => Phase::Start,
            Some(run) => Phase::Scan(Scan { run, then: scan.then.filter(|_| left > 1), ..scan }),
        };
        Step::Command { size }
    }

    /// The next row of a batch.
    fn row(&mut self, mut batch: Batch, input: &[u8], args: &mut ArgRanges, limits: &Limits) -> Step {
        let before = batch.before.clone();
        let parsed = match batch.parse(input, &self.namespaces) {
            Ok(parsed) => parsed,
            Err(Stop::Need(size)) => return self.need(size),
            Err(Stop::Broken) => return self.give_up(&batch, false, args),
        };
        let Parsed { head, size: front, .. } = parsed;
        if let (Then::SameOps, Some(template)) = (&parsed.then, &before) {
            match &template.ops {
                Some(ops) => place(&head, &input[parsed.digest], &template.set, b"", ops, args),
                None if head.code != Code::OK => say(&head, args),
                None => say(&Head { verb: Verb::Say, code: Code::PARAMETER, ..head }, args),
            }
            batch.pass(front);
            self.state.phase = batch.after_row();
            return Step::Command { size: front };
        }
        if head.code != Code::OK {
            return self.refuse_row(batch, &parsed, head.code, args);
        }
        let whole = match walk(input, front, head.op_count, batch.row_left()) {
            Ok(whole) => whole,
            Err(Walk::Need(size)) => return self.need(size),
            Err(Walk::Broken) => return self.give_up(&batch, false, args),
            Err(Walk::Large) => {
                self.state.phase = Phase::Piece(Piece::Begin, Some(batch));
                return Step::Large;
            }
        };
        let ops = &input[front..whole];
        if size64(ops.len()) > limits.record_size_max {
            return self.refuse_row(batch, &parsed, Code::TOO_BIG, args);
        }
        if batch.rows_left > 1 {
            let set = input[parsed.set.clone()].to_vec();
            batch.before = Some(Arc::new(Template { head, set, ops: Some(ops.to_vec()) }));
        }
        parsed.place(ops, input, args);
        batch.pass(whole);
        self.state.phase = batch.after_row();
        Step::Command { size: whole }
    }

    /// In a batch of which no further row can be found. Unless the last one has been answered, that is what is answered.
    fn give_up(&mut self, batch: &Batch, is_answered: bool, args: &mut ArgRanges) -> Step {
        self.state.phase = swallow(batch.left + batch.behind - 1);
        if is_answered && batch.rows_left == 1 {
            return skip(1, args);
        }
        let bits = Bits::default().and_if(true, Bits::LAST);
        say(&Head { code: Code::PARAMETER, bits, ..Head::default() }, args);
        Step::Command { size: 1 }
    }

    /// A row is answered by its front; its operations are passed over.
    fn refuse_row(&mut self, mut batch: Batch, parsed: &Parsed, code: Code, args: &mut ArgRanges) -> Step {
        let head = Head { verb: Verb::Say, code, ..parsed.head };
        say(&head, args);
        batch.before = Some(Arc::new(Template { head, set: Vec::new(), ops: None }));
        batch.pass(parsed.size);
        self.state.phase = batch.after_ops(head.op_count, 0);
        Step::Command { size: parsed.size }
    }

    fn skip_ops(
        &mut self,
        mut batch: Batch,
        mut ops_left: u16,
        mut left: u64,
        input: &[u8],
        args: &mut ArgRanges,
    ) -> Step {
        if left == 0 {
            left = match op_size(input, batch.row_left()) {
                Ok(size) => size,
                Err(Walk::Need(size)) => return self.need(size),
                Err(_) => return self.give_up(&batch, true, args),
            };
            ops_left -= 1;
        }
        let size = here(left, input);
        batch.pass(size);
        self.state.phase = batch.after_ops(ops_left, left - size64(size));
        skip(size, args)
    }
}

impl Batch {
    /// Reads the front of the next row, as far as there may be one.
    fn parse(&self, input: &[u8], namespaces: &[Namespace]) -> Result<Parsed, Stop> {
        let before = self.before.as_deref().map(|template| &template.head);
        let mut parsed = parse_row(input, self.row_left(), before, namespaces)?;
        parsed.head.bits = parsed.head.bits.and_if(self.rows_left == 1, Bits::LAST);
        parsed.head.info1 |= self.compress;
        Ok(parsed)
    }

    /// Bytes that are left for the row at hand: those behind it have their least.
    fn row_left(&self) -> u64 {
        self.left - u64::from(self.rows_left - 1) * size64(ROW_SIZE_MIN)
    }

    /// So many bytes of it are consumed.
    fn pass(&mut self, size: usize) {
        self.left = self.left.checked_sub(size64(size)).expect("rows lie within their field");
    }

    /// What comes behind a row that is over.
    fn after_row(mut self) -> Phase {
        self.rows_left -= 1;
        if self.rows_left == 0 { swallow(self.left + self.behind) } else { Phase::Rows(self) }
    }

    /// What comes in a row that has been answered, of which so many operations, and bytes of the one under way, are to be
    /// passed over.
    fn after_ops(self, ops_left: u16, left: u64) -> Phase {
        let is_cut = self.rows_left == 1 && left == 0 && self.left < 4;
        if ops_left == 0 && left == 0 || is_cut {
            self.after_row()
        } else {
            Phase::SkipOps { batch: self, ops_left, left }
        }
    }
}

impl Parsed {
    /// Copies the arguments.
    fn place(&self, ops: &[u8], input: &[u8], args: &mut ArgRanges) {
        let [digest, set, key] = [&self.digest, &self.set, &self.key].map(|range| &input[range.clone()]);
        place(&self.head, digest, set, key, ops, args);
    }
}

/// Why operations can't be passed over.
enum Walk {
    Need(usize),
    Large,
    Broken,
}

/// Where `count` operations end that begin at `at`; no row ends behind `end`.
fn walk(input: &[u8], mut at: usize, count: u16, end: u64) -> Result<usize, Walk> {
    for _ in 0..count {
        let size = op_size(&input[at..], end - size64(at));
        let size = match size {
            Err(Walk::Need(size)) => return Err(Walk::Need(at + size)),
            size => size?,
        };
        at = match usize::try_from(size64(at) + size) {
            Ok(at) if at <= VIEW_SIZE_MAX => at,
            _ => return Err(Walk::Large),
        };
        if input.len() < at {
            return Err(Walk::Need(at));
        }
    }
    Ok(at)
}

/// Bytes of the operation that begins here, of which there may be as much as `left` bytes.
fn op_size(input: &[u8], left: u64) -> Result<u64, Walk> {
    if left < 4 {
        return Err(Walk::Broken);
    }
    let size = input.first_chunk().ok_or(Walk::Need(4))?;
    let size = 4 + u64::from(u32::from_be_bytes(*size));
    if size <= left { Ok(size) } else { Err(Walk::Broken) }
}

/// Copies the arguments of a command on a record, as few as there are.
fn place(head: &Head, digest: &[u8], set: &[u8], key: &[u8], ops: &[u8], args: &mut ArgRanges) {
    let head_bytes = head.to_bytes();
    if head.verb != Verb::Write && key.is_empty() && ops.is_empty() {
        args.set([&head_bytes[..], digest]);
    } else {
        args.set([&head_bytes[..], digest, set, key, ops]);
    }
}

/// Copies the arguments of a command that only says something.
fn say(head: &Head, args: &mut ArgRanges) {
    args.set([&head.to_bytes()[..], b""]);
}

/// The number of the partition that a record is in, as it stands in a scan.
fn id_of(digest: &[u8; DIGEST_SIZE]) -> [u8; 2] {
    crate::route::partition(digest).to_le_bytes()
}

/// The numbers of all partitions of a scan: of these records, then those that are named so.
fn ids(records: &[u8], partitions: &[u8]) -> Vec<u8> {
    let mut ids: Vec<u8> = records.as_chunks().0.iter().flat_map(id_of).collect();
    ids.extend_from_slice(partitions);
    ids
}

/// Bytes that are no command.
fn skip(size: usize, args: &mut ArgRanges) -> Step {
    args.set([]);
    Step::Command { size }
}

fn swallow(left: u64) -> Phase {
    if left == 0 { Phase::Start } else { Phase::Swallow(left) }
}

/// How many of `left` bytes are there.
fn here(left: u64, input: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(input.len())
}

fn index(index: u32) -> usize {
    usize::try_from(index).expect("an input's position was a usize before")
}

fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("a small number")
}
