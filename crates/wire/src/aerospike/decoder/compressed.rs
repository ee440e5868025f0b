//! Compressed frames: the stream is inflated as it comes, and a decoder of its own reads what is inside.
//!
//! Neither the frame nor what is inside is ever in one place. Kept are the stream's window, an input's worth of what has been
//! inflated ([`INPUT_SIZE_MIN`]) and what the decoder inside holds, from when the frame is there, or as much of it as a view has.
//! What the frame announces reserves nothing.
//!
//! Its commands are told by tokens. The last one is told when the stream has ended where it should and its checksum is right.
//! Else, and wherever what is inside is none, [`Code::PARAMETER`] is said instead, and the rest of the frame is swallowed. What is
//! refused is refused whatever stands behind it, which is not inflated. The last byte of the frame is consumed with
//! the last command, so that a decoder which has commands left has input.
//!
//! Few bytes may become many: [`Token::Pause`] comes whenever [`PAUSE_SIZE`] of them have been inflated, wanted or not.

use std::sync::Arc;

use super::{Decoder, INPUT_SIZE_MIN, Limits, Phase, here, say, swallow};
use crate::aerospike::Namespace;
use crate::aerospike::code::Code;
use crate::aerospike::head::{Bits, Head, Verb};
use crate::aerospike::message::{
    FRAME_SIZE_MAX, FRAME_SIZE_MIN, PROTO_HEADER_SIZE, PROTO_VERSION, frame_size, kind, size64,
};
use crate::aerospike::zlib::{Broken, FRONT_SIZE, INFLATER_SIZE, Inflater};
use crate::resp::{ArgRanges, Step, Token, WORD_SIZE_MAX, Word};

/// Bytes that are inflated before there is a pause.
const PAUSE_SIZE: usize = 32 * 1024;
/// Bytes of a frame that are inflated at a time.
const STEP_SIZE: usize = 128;
/// A step that reads more than it writes has built tables for what is no text: at worst, for an empty block in ten bits. Each byte
/// takes as long then as writing so many.
const TABLES_COST: usize = 256;

/// A compressed frame that has begun.
#[derive(Debug)]
pub(super) struct Compressed {
    source: Source,
    /// What has been inflated; from `start` on the decoder inside has not consumed it.
    plain: Vec<u8>,
    start: usize,
    decoder: Decoder,
    stage: Stage,
    args: ArgRanges,
}

/// What is left of the frame, and of what is inside.
#[derive(Debug)]
struct Source {
    stream: Inflater,
    /// Bytes of the frame that are not consumed. The last of them may have been read.
    left: u64,
    has_read_last: bool,
    /// Bytes that are still to be inflated, if the frame says so rightly.
    plain_left: u64,
    since_pause: usize,
    /// What reading has cost, in bytes inflated, since that was asked last.
    cost: usize,
}

/// Where it stands.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// In front of the frame.
    Front,
    /// In front of the frame inside.
    Header,
    /// In the frame inside.
    Reading,
    /// What has been inflated is to be told from `at` to `end`, and then `size` bytes of it are consumed.
    Copying { at: usize, end: usize, size: usize },
    /// The last command is whole: it has been told but for its end, or `args` hold it.
    Closing { is_told: bool },
    /// `args` are told: the one at hand, and how many of its bytes, if it has been announced.
    Telling { arg: usize, told: Option<usize>, is_last: bool },
    /// All has been told.
    Over,
}

/// Why there is no more to read.
enum Stop {
    Need,
    Pause,
    Broken,
}

impl From<Broken> for Stop {
    fn from(_: Broken) -> Stop {
        Stop::Broken
    }
}

impl Decoder {
    /// Bytes that compressed frames have become since this was asked last: what reading them has cost, which their own size does
    /// not say.
    pub fn take_inflated(&mut self) -> usize {
        std::mem::take(&mut self.inflated)
    }

    /// The next piece of a compressed frame.
    pub(super) fn compressed(
        &mut self,
        mut frame: Box<Compressed>,
        input: &[u8],
        limits: &Limits,
    ) -> (Token, usize) {
        let mut used = 0;
        let token = match frame.next(input, &mut used, &mut self.inflated, limits) {
            Ok(token) => token,
            Err(Stop::Need) => Token::Need,
            Err(Stop::Pause) => Token::Pause,
            Err(Stop::Broken) => frame.refuse(),
        };
        if matches!(frame.stage, Stage::Over) {
            // Of what is behind a refusal not all may have come.
            let count = here(frame.source.left, &input[used..]);
            self.state.phase = swallow(frame.source.left - size64(count));
            used += count;
        } else {
            self.compressed = Some(frame);
        }
        (token, used)
    }
}

impl Compressed {
    /// In front of a frame of so many bytes.
    pub(super) fn new(size: u64, namespaces: &Arc<[Namespace]>) -> Compressed {
        let stream = Inflater::new();
        Compressed {
            source: Source {
                stream,
                left: size,
                has_read_last: false,
                plain_left: 0,
                since_pause: 0,
                cost: 0,
            },
            plain: Vec::new(),
            start: 0,
            decoder: Decoder::new(Arc::clone(namespaces)),
            stage: Stage::Front,
            args: ArgRanges::new(),
        }
    }

    /// Bytes that it holds.
    pub(super) fn held_size(&self) -> usize {
        size_of::<Compressed>() + INFLATER_SIZE + self.plain.capacity() + self.decoder.held_size()
    }

    fn next(
        &mut self,
        input: &[u8],
        used: &mut usize,
        inflated: &mut usize,
        limits: &Limits,
    ) -> Result<Token, Stop> {
        loop {
            match self.stage {
                Stage::Front => {
                    let front = input.first_chunk::<FRONT_SIZE>().expect("it was read before");
                    let size = u64::from_be_bytes(*front[PROTO_HEADER_SIZE..].first_chunk().expect("inside"));
                    self.source.pass(FRONT_SIZE, used);
                    self.source.plain_left = size;
                    if size > FRAME_SIZE_MAX {
                        return Err(Stop::Broken);
                    }
                    self.stage = Stage::Header;
                }
                Stage::Header if self.plain.len() < FRAME_SIZE_MIN => self.fill(input, used, inflated)?,
                Stage::Header => {
                    let size = size64(self.plain.len()) + self.source.plain_left;
                    let is_message = self.plain[..2] == [PROTO_VERSION, kind::MESSAGE];
                    if !is_message || frame_size(&self.plain) != size {
                        return Err(Stop::Broken);
                    }
                    self.stage = Stage::Reading;
                }
                Stage::Reading => match self.read(limits) {
                    Some(Token::Need) => self.fill(input, used, inflated)?,
                    Some(token) => return Ok(token),
                    None => {}
                },
                Stage::Copying { at, end, size } if at == end => {
                    self.start += size;
                    self.stage = Stage::Reading;
                }
                Stage::Copying { at, end, size } => {
                    let next = end.min(at + WORD_SIZE_MAX);
                    self.stage = Stage::Copying { at: next, end, size };
                    return Ok(Token::Word(Word::of(&self.plain[at..next])));
                }
                Stage::Closing { is_told } => {
                    // What is behind the last command is passed over.
                    self.start = self.plain.len();
                    if !self.source.is_over()? {
                        self.fill(input, used, inflated)?;
                    } else if is_told {
                        self.stage = Stage::Over;
                        return Ok(Token::End);
                    } else {
                        return Ok(self.begin(true));
                    }
                }
                Stage::Telling { arg, is_last, .. } if arg == self.args.len() => {
                    self.stage = if is_last { Stage::Over } else { Stage::Reading };
                    return Ok(Token::End);
                }
                Stage::Telling { arg, told, is_last } => {
                    let bytes = self.args.get(arg, &[]);
                    let told = match told {
                        None => {
                            self.stage = Stage::Telling { arg, told: Some(0), is_last };
                            return Ok(Token::Bulk { size: size64(bytes.len()) });
                        }
                        Some(told) => told,
                    };
                    let next = bytes.len().min(told + WORD_SIZE_MAX);
                    let word = Word::of(&bytes[told..next]);
                    let is_through = next == bytes.len();
                    self.stage = Stage::Telling {
                        arg: arg + usize::from(is_through),
                        told: (!is_through).then_some(next),
                        is_last,
                    };
                    if !word.as_bytes().is_empty() {
                        return Ok(Token::Word(word));
                    }
                }
                Stage::Over => panic!("a frame that is over has no further token"),
            }
        }
    }

    /// Lets the decoder inside go a step. It has a token, or another stage follows.
    fn read(&mut self, limits: &Limits) -> Option<Token> {
        let plain = &self.plain[self.start..];
        let (token, size) = match self.decoder.decode(plain, &mut self.args, limits) {
            Step::Need => return Some(Token::Need),
            Step::Malformed(error) => unreachable!("{error} is of RESP"),
            Step::Command { size } => {
                self.start += size;
                if self.args.is_empty() {
                    return None;
                }
                let is_refused = Head::from_bytes(self.args.get(0, &[])).verb == Verb::Say;
                if self.is_over() && !is_refused {
                    self.stage = Stage::Closing { is_told: false };
                    return None;
                }
                return Some(self.begin(self.is_over()));
            }
            Step::Large => self.decoder.token(plain, limits),
        };
        match token {
            Token::Bytes(range) => {
                let (at, end) = (self.start + range.start, self.start + range.end);
                self.stage = Stage::Copying { at, end, size };
                return None;
            }
            Token::End if self.is_over() => {
                self.start += size;
                if matches!(self.decoder.state.phase, Phase::SkipOps { .. }) {
                    self.stage = Stage::Over;
                    return Some(Token::End);
                }
                self.stage = Stage::Closing { is_told: true };
                return None;
            }
            _ => self.start += size,
        }
        Some(token)
    }

    /// Whether the frame inside has no further command.
    fn is_over(&self) -> bool {
        match &self.decoder.state.phase {
            Phase::Start | Phase::Swallow(_) => true,
            // The operations of a last row that has been answered.
            Phase::SkipOps { batch, .. } => batch.rows_left == 1,
            _ => false,
        }
    }

    /// The command that `args` hold begins.
    fn begin(&mut self, is_last: bool) -> Token {
        self.stage = Stage::Telling { arg: 0, told: None, is_last };
        Token::Begin { args: super::index32(self.args.len()) }
    }

    /// What is no frame, or ends otherwise than it should: the last command says so.
    fn refuse(&mut self) -> Token {
        let bits = Bits::default().and_if(true, Bits::LAST);
        say(&Head { code: Code::PARAMETER, bits, ..Head::default() }, &mut self.args);
        self.begin(true)
    }

    /// Inflates some more.
    fn fill(&mut self, input: &[u8], used: &mut usize, inflated: &mut usize) -> Result<(), Stop> {
        self.plain.drain(..std::mem::take(&mut self.start));
        let before = self.plain.len();
        // Where nothing more may come there is a byte of room, to see whether it does.
        let left = usize::try_from(self.source.plain_left).unwrap_or(usize::MAX).max(1);
        let room = left.min(INPUT_SIZE_MIN - before);
        assert!(room > 0, "an input's worth is enough for a step");
        self.plain.resize(before + room, 0);
        let result = self.source.read(input, used, &mut self.plain[before..]);
        let written = *result.as_ref().unwrap_or(&0);
        self.plain.truncate(before + written);
        *inflated += std::mem::take(&mut self.source.cost);
        result.map(|_| ())
    }
}

impl Source {
    /// So many bytes of the frame are consumed.
    fn pass(&mut self, size: usize, used: &mut usize) {
        self.left -= size64(size);
        *used += size;
    }

    /// Whether the stream has ended, with the frame and what is inside.
    fn is_over(&self) -> Result<bool, Stop> {
        if !self.stream.has_ended() {
            return Ok(false);
        }
        if self.plain_left == 0 && self.has_read_last { Ok(true) } else { Err(Stop::Broken) }
    }

    /// Reads from what stands in `input` behind the bytes that are used; how many bytes it has become.
    fn read(&mut self, input: &[u8], used: &mut usize, out: &mut [u8]) -> Result<usize, Stop> {
        if self.since_pause >= PAUSE_SIZE {
            self.since_pause = 0;
            return Err(Stop::Pause);
        }
        let rest = &input[*used..];
        let is_last = self.left == 1;
        let count = if is_last { usize::from(!self.has_read_last) } else { here(self.left - 1, rest) };
        let given = &rest[..count.min(rest.len()).min(STEP_SIZE)];
        let (read, written) = self.stream.step(given, out)?;
        if is_last {
            self.has_read_last |= read > 0;
        } else {
            self.pass(read, used);
        }
        let is_barren = written < read && written < out.len();
        let cost = if is_barren { read * TABLES_COST } else { written };
        self.since_pause += cost;
        self.cost += cost;
        self.plain_left = self.plain_left.checked_sub(size64(written)).ok_or(Stop::Broken)?;
        if read > 0 || written > 0 {
            return Ok(written);
        }
        // The stream waits for more, and has to be over when there is none.
        let may_come = given.is_empty() && !self.has_read_last && !self.stream.has_ended();
        Err(if may_come { Stop::Need } else { Stop::Broken })
    }
}
