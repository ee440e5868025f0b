//! RESTORE and RESTORE-ASKING: a key gets a value that DUMP has answered, here or on a server of Redis.
//!
//! A payload is looked at in slices, however it came: first its checksum, over all of it, then the string inside, which is
//! copied or decompressed into a new value aside. The whole is stored at the end in one effect, so nobody sees a part of
//! it, and what is wrong leaves the key as it was. Memory follows the bytes that came: a size that is announced is checked against
//! what the compressed bytes could become, `proto-max-bulk-len` and `maxmemory`, and taken as the string grows.

use store::{Budget, CHUNK_SIZE, Effect, Expiry, NewValue, RopeBuilder, Use};
use wire::number::{format_i64, parse_i64};
use wire::rdb::crc::Crc64;
use wire::rdb::lzf::Decompressor;
use wire::rdb::{self, HEAD_SIZE_MAX, Head, Refusal, TRAILER_SIZE};
use wire::reply::{self, OK, Put};

use super::dump::AT_ONCE;
use super::range::TOO_LONG;
use super::{NOT_AN_INTEGER, Progress, SYNTAX, State, Step};
use crate::keyspace::{Call, Keyspace, OOM};
use crate::replies::Sink;
use crate::request::{Arg, Args};

const BROKEN: &str = "ERR Bad data format";
const NOT_SEALED: &str = "ERR DUMP payload version or checksum are wrong";

/// A payload under way.
pub(crate) struct Restore {
    options: Options,
    crc: Crc64,
    /// The next byte of the payload.
    at: usize,
    stage: Stage,
    /// Bytes that are kept free for what a compressed string becomes.
    reserved: u64,
}

enum Stage {
    /// The checksum is being summed.
    Checking,
    /// Bytes up to `end` are copied.
    Copying { end: usize, value: RopeBuilder },
    /// Bytes up to `end` are decompressed.
    Growing { end: usize, value: RopeBuilder, decompressor: Box<Decompressor> },
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`.
pub(crate) fn restore(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let (mut restore, mut left) = match progress.state.take().map(|state| *state) {
        Some(State::Restoring(restore)) => (restore, *budget),
        Some(_) => unreachable!("RESTORE restores"),
        None => match Options::parse(space, call) {
            Ok(options) => (Restore::new(options), AT_ONCE),
            Err(text) => {
                reply::error(sink, text);
                return Step::Done;
            }
        },
    };
    let before = left;
    let outcome = restore.advance(space, call, &mut left);
    budget.spend((before.elements - left.elements) as usize, (before.bytes - left.bytes) as usize);
    match outcome {
        Outcome::More => {
            progress.state = Some(Box::new(State::Restoring(restore)));
            return Step::More;
        }
        Outcome::Done => sink.put(OK),
        Outcome::Refused(text) => reply::error(sink, &text),
    }
    restore.end(space);
    Step::Done
}

/// How a step ended.
enum Outcome {
    More,
    Done,
    Refused(String),
}

impl From<&str> for Outcome {
    fn from(text: &str) -> Outcome {
        Outcome::Refused(text.to_owned())
    }
}

impl Restore {
    fn new(options: Options) -> Restore {
        Restore { options, crc: Crc64::default(), at: 0, stage: Stage::Checking, reserved: 0 }
    }

    /// Goes on until the budget is spent.
    fn advance(&mut self, space: &mut Keyspace, call: &Call<'_>, budget: &mut Budget) -> Outcome {
        let payload = call.args.get(3);
        loop {
            match &mut self.stage {
                Stage::Checking => {
                    let Some(end) = payload.size().checked_sub(size_of::<u64>()) else {
                        return NOT_SEALED.into();
                    };
                    let crc = &mut self.crc;
                    if !each_piece(payload, &mut self.at, end, budget, |bytes| crc.update(bytes)) {
                        return Outcome::More;
                    }
                    if let Some(outcome) = self.begin(space, call, payload) {
                        return outcome;
                    }
                }
                Stage::Copying { end, value } => {
                    if !each_piece(payload, &mut self.at, *end, budget, |bytes| value.push(bytes)) {
                        return Outcome::More;
                    }
                    return self.store_built(space, call);
                }
                Stage::Growing { end, value, decompressor } => {
                    return match grow(payload, &mut self.at, *end, budget, value, decompressor) {
                        Grown::More => Outcome::More,
                        Grown::Broken => BROKEN.into(),
                        Grown::Whole => self.store_built(space, call),
                    };
                }
            }
        }
    }

    /// The sum is there: the payload is right or not, and short values are stored. None: there is more to do.
    fn begin(&mut self, space: &mut Keyspace, call: &Call<'_>, payload: Arg<'_>) -> Option<Outcome> {
        let size = payload.size();
        let Some(trailer_at) = size.checked_sub(TRAILER_SIZE) else { return Some(NOT_SEALED.into()) };
        let mut trailer = [0; TRAILER_SIZE];
        copy(payload, trailer_at, &mut trailer);
        if !rdb::is_sealed(trailer, self.crc) {
            return Some(NOT_SEALED.into());
        }
        if trailer_at == 0 {
            return Some(BROKEN.into());
        }
        let mut front = [0; HEAD_SIZE_MAX];
        let front = &mut front[..size.min(HEAD_SIZE_MAX)];
        copy(payload, 0, front);
        match rdb::read_head(front, size) {
            Err(Refusal::Broken) => Some(BROKEN.into()),
            Err(Refusal::Type(name)) => {
                Some(Outcome::Refused(format!("ERR {name} are not served, only strings are")))
            }
            Ok(Head::Number(number)) => {
                let digits = format_i64(number);
                Some(self.store(space, call, NewValue::Bytes(digits.as_bytes())))
            }
            Ok(Head::Plain { start, size }) => match payload {
                Arg::Flat(bytes) => Some(self.store(space, call, NewValue::Bytes(&bytes[start..][..size]))),
                Arg::Rope(_) => {
                    self.at = start;
                    self.stage = Stage::Copying { end: start + size, value: RopeBuilder::new() };
                    None
                }
            },
            Ok(Head::Compressed { start, size, whole_size }) => {
                if space.exceeds(whole_size, 0) {
                    return Some(TOO_LONG.into());
                }
                let added = whole_size.saturating_sub(payload.size());
                if !space.may_grow(added) {
                    return Some(OOM.into());
                }
                self.reserved = added as u64;
                space.reserve(self.reserved);
                self.at = start;
                self.stage = Stage::Growing {
                    end: start + size,
                    value: RopeBuilder::new(),
                    decompressor: Box::new(Decompressor::new(whole_size)),
                };
                None
            }
        }
    }

    fn store_built(&mut self, space: &mut Keyspace, call: &Call<'_>) -> Outcome {
        let Some(value) = self.take_value() else { unreachable!("only what is built is stored so") };
        let rope = value.finish();
        let outcome = self.store(space, call, NewValue::Rope(rope.clone()));
        if !matches!(outcome, Outcome::Done) || self.options.is_over {
            space.shard.retire(rope);
        }
        outcome
    }

    /// The value is whole: the key gets it, or, if its time is over already, is not there.
    fn store(&self, space: &mut Keyspace, call: &Call<'_>, value: NewValue<'_>) -> Outcome {
        let key = space.key(call, 1);
        if self.options.is_over {
            space.commit(Effect::Delete { key }).expect("deleting takes no memory");
            return Outcome::Done;
        }
        if space.commit(Effect::Set { key, value, expiry: self.options.expiry }).is_err() {
            return OOM.into();
        }
        if let Some(brought) = self.options.brought {
            space.shard.remember(&key, space.now.unix_ms, brought);
        }
        Outcome::Done
    }

    fn take_value(&mut self) -> Option<RopeBuilder> {
        match &mut self.stage {
            Stage::Checking => None,
            Stage::Copying { value, .. } | Stage::Growing { value, .. } => Some(std::mem::take(value)),
        }
    }

    /// Gives back what is kept for it, and what it has built in vain.
    fn end(&mut self, space: &mut Keyspace) {
        space.release(self.reserved);
        if let Some(value) = self.take_value().filter(|value| !value.is_empty()) {
            space.shard.retire(value.finish());
        }
    }
}

/// The bytes of a payload from `at` on, as far as they are in one piece.
fn piece(payload: Arg<'_>, at: usize) -> &[u8] {
    match payload {
        Arg::Flat(bytes) => &bytes[at..],
        Arg::Rope(rope) => &rope.chunk(at / CHUNK_SIZE).as_ref().as_ref()[at % CHUNK_SIZE..],
    }
}

/// Fills `out` with the bytes from `at` on, which are there.
fn copy(payload: Arg<'_>, at: usize, out: &mut [u8]) {
    match payload {
        Arg::Flat(bytes) => out.copy_from_slice(&bytes[at..][..out.len()]),
        Arg::Rope(rope) => rope.copy_to(at, out),
    }
}

/// Hands over the bytes between `at` and `end` until the budget is spent; true when all were.
fn each_piece(
    payload: Arg<'_>,
    at: &mut usize,
    end: usize,
    budget: &mut Budget,
    mut take: impl FnMut(&[u8]),
) -> bool {
    while *at < end {
        if budget.is_spent() {
            return false;
        }
        let bytes = piece(payload, *at);
        let bytes = &bytes[..bytes.len().min(end - *at).min(budget.bytes as usize)];
        take(bytes);
        budget.spend(1, bytes.len());
        *at += bytes.len();
    }
    true
}

/// What came of a step of decompressing.
enum Grown {
    More,
    Whole,
    Broken,
}

fn grow(
    payload: Arg<'_>,
    at: &mut usize,
    end: usize,
    budget: &mut Budget,
    value: &mut RopeBuilder,
    decompressor: &mut Decompressor,
) -> Grown {
    loop {
        if budget.is_spent() {
            return Grown::More;
        }
        let bytes = if *at < end { piece(payload, *at) } else { &[] };
        let bytes = &bytes[..bytes.len().min(end - *at)];
        let before = value.len();
        let Ok(used) = decompressor.advance(bytes, budget.bytes as usize, |bytes| value.push(bytes)) else {
            return Grown::Broken;
        };
        let made = value.len() - before;
        budget.spend(1, made.max(used));
        *at += used;
        if used == 0 && made == 0 {
            return if decompressor.is_whole() { Grown::Whole } else { Grown::Broken };
        }
    }
}

/// What a call says beside the payload.
struct Options {
    expiry: Expiry,
    /// The time to live is over already.
    is_over: bool,
    /// What the key is to remember of its use.
    brought: Option<Use>,
}

impl Options {
    /// Reads a call, in the order in which Redis looks at it. A payload is not looked at if the key is there and not to be replaced.
    fn parse(space: &mut Keyspace, call: &Call<'_>) -> Result<Options, &'static str> {
        let args = call.args;
        let (mut replaces, mut is_absolute, mut brought) = (false, false, None);
        let mut index = 4;
        while index < args.len() {
            let word = args.flat(index);
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let has_more = index + 1 < args.len();
            if is("replace") {
                replaces = true;
            } else if is("absttl") {
                is_absolute = true;
            } else if is("idletime") && has_more && !matches!(brought, Some(Use::Frequency(_))) {
                index += 1;
                brought = Some(Use::IdleS(idle_s(args, index)?));
            } else if is("freq") && has_more && !matches!(brought, Some(Use::IdleS(_))) {
                index += 1;
                brought = Some(Use::Frequency(frequency(args, index)?));
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        let key = space.key(call, 1);
        space.lapse(&key);
        if !replaces && space.get(&key).is_some() {
            return Err("BUSYKEY Target key name already exists.");
        }
        let ttl = parse_i64(args.flat(2)).ok_or(NOT_AN_INTEGER)?;
        if ttl < 0 {
            return Err("ERR Invalid TTL value, must be >= 0");
        }
        let now_ms = space.now.unix_ms;
        // One beyond the end of time has passed, as in Redis.
        let at_ms = if is_absolute { ttl } else { ttl.wrapping_add(space.birth_ms()) };
        let expiry = if ttl == 0 { Expiry::None } else { Expiry::At(at_ms) };
        Ok(Options { expiry, is_over: ttl != 0 && at_ms <= now_ms, brought })
    }
}

/// IDLETIME's seconds, of which 24 bits are kept.
fn idle_s(args: Args<'_>, index: usize) -> Result<u32, &'static str> {
    let seconds = parse_i64(args.flat(index)).ok_or(NOT_AN_INTEGER)?;
    let seconds = u64::try_from(seconds).map_err(|_| "ERR Invalid IDLETIME value, must be >= 0")?;
    Ok((seconds & 0xff_ffff) as u32)
}

/// FREQ's counter.
fn frequency(args: Args<'_>, index: usize) -> Result<u8, &'static str> {
    let counter = parse_i64(args.flat(index)).ok_or(NOT_AN_INTEGER)?;
    u8::try_from(counter).map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")
}
