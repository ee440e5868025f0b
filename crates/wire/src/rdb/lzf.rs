//! LZF, as strings in Redis' files are compressed (Marc Lehmann's format, <http://oldhome.schmorp.de/marc/liblzf.html>).
//!
//! ```text
//! 000nnnnn  bytes…              n + 1 bytes follow as they are
//! nnnddddd  dddddddd            n + 2 bytes (n from 1 to 6), which stood d + 1 bytes before here
//! 111ddddd  nnnnnnnn  dddddddd  n + 9 bytes, the same
//! ```
//! The compressor looks for repetitions where that library does with its defaults, so what it writes is the same. It takes a string in
//! one piece. The decompressor takes and gives pieces of any size, and keeps the last 8 KiB that it gave.

/// Furthest distance of a repetition, bytes.
const DISTANCE_MAX: usize = 1 << 13;
/// Longest repetition.
const REPETITION_MAX: usize = 264;
/// Most bytes that follow as they are.
const RUN_MAX: usize = 1 << 5;
/// Bits of a place in the compressor's table.
const TABLE_BITS: u32 = 16;

/// The longest string that so many bytes may stand for: three are a repetition of 264.
pub fn grown_size_max(size: usize) -> usize {
    size.saturating_mul(REPETITION_MAX / 3)
}

/// Compresses one string after the other. Its table of 256 KiB is kept from one to the next and not wiped: what is of an earlier
/// string is known by its number.
pub struct Compressor {
    /// Where three bytes were seen last, by their hash: the offset in the string, plus `base`.
    seen: Box<[u32]>,
    /// What is at most that is of earlier strings, or the first byte of this one, which the library takes for an empty place.
    base: u32,
}

impl Default for Compressor {
    fn default() -> Compressor {
        Compressor { seen: vec![0; 1 << TABLE_BITS].into_boxed_slice(), base: 0 }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("base", &self.base).finish_non_exhaustive()
    }
}

/// The place in the table of three bytes.
fn place(bytes: &[u8], at: usize) -> usize {
    let word = u32::from(bytes[at]) << 16 | u32::from(bytes[at + 1]) << 8 | u32::from(bytes[at + 2]);
    let hash = (word >> (24 - TABLE_BITS)).wrapping_sub(word.wrapping_mul(5));
    (hash & ((1 << TABLE_BITS) - 1)) as usize
}

/// Compressed bytes as they are written.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Where `out` began, and how many bytes may follow there.
    begin: usize,
    size_max: usize,
    /// Bytes of the run at its end; their head stands before them.
    run: usize,
}

impl Writer<'_> {
    fn size(&self) -> usize {
        self.out.len() - self.begin
    }

    fn begin_run(&mut self) {
        self.run = 0;
        self.out.push(0);
    }

    /// Writes the head of the run, or takes it away if there is none.
    fn end_run(&mut self) {
        let head = self.out.len() - self.run - 1;
        match u8::try_from(self.run) {
            Ok(0) => self.out.truncate(head),
            Ok(run) => self.out[head] = run - 1,
            Err(_) => unreachable!("runs are short"),
        }
    }

    fn put_byte(&mut self, byte: u8) {
        self.out.push(byte);
        self.run += 1;
        if self.run == RUN_MAX {
            self.end_run();
            self.begin_run();
        }
    }

    fn put_repetition(&mut self, distance: usize, size: usize) {
        self.end_run();
        let [low, high, ..] = (distance - 1).to_le_bytes();
        let byte = |number: usize| u8::try_from(number).expect("a repetition is short");
        if size < 9 {
            self.out.push(high | byte(size - 2) << 5);
        } else {
            self.out.extend([high | 7 << 5, byte(size - 9)]);
        }
        self.out.push(low);
        self.begin_run();
    }
}

impl Compressor {
    /// Appends the compressed string, and says whether it has at most `size_max` bytes. If not, `out` is as it was.
    pub fn compress(&mut self, string: &[u8], out: &mut Vec<u8>, size_max: usize) -> bool {
        let begin = out.len();
        let size = u32::try_from(string.len()).expect("what is compressed in one piece is short");
        if self.base.checked_add(size).is_none() {
            self.seen.fill(0);
            self.base = 0;
        }
        let mut writer = Writer { out, begin, size_max, run: 0 };
        let fits = self.write(string, &mut writer);
        self.base += size;
        if !fits {
            out.truncate(begin);
        }
        fits
    }

    /// Notes that these three bytes are here, and gives where they may have been before.
    fn note(&mut self, string: &[u8], at: usize) -> Option<usize> {
        let now = self.base + u32::try_from(at).expect("its size has 32 bits");
        let seen = std::mem::replace(&mut self.seen[place(string, at)], now);
        seen.checked_sub(self.base).filter(|offset| *offset > 0).map(|offset| offset as usize)
    }

    /// False when there is no room. The library gives up when a repetition might not fit, though it would by a byte or two, and
    /// so does this.
    fn write(&mut self, string: &[u8], writer: &mut Writer<'_>) -> bool {
        // The last two bytes begin nothing.
        let end = string.len().saturating_sub(2);
        let mut at = 0;
        writer.begin_run();
        while at < end {
            let before = self.note(string, at);
            let repeated = before
                .filter(|before| at - before <= DISTANCE_MAX && string[*before..][..3] == string[at..][..3]);
            let Some(before) = repeated else {
                if writer.size() >= writer.size_max {
                    return false;
                }
                writer.put_byte(string[at]);
                at += 1;
                continue;
            };
            if writer.size() - usize::from(writer.run == 0) + 4 >= writer.size_max {
                return false;
            }
            let longest = (string.len() - at - 2).min(REPETITION_MAX);
            let size = length_of(string, before, at, longest);
            writer.put_repetition(at - before, size);
            at += size;
            if at >= end {
                break;
            }
            // Of what was repeated the last two places are noted.
            self.note(string, at - 2);
            self.note(string, at - 1);
        }
        if writer.size() + 3 > writer.size_max {
            return false;
        }
        string[at..].iter().for_each(|byte| writer.put_byte(*byte));
        writer.end_run();
        true
    }
}

/// How many bytes are the same at both places, of which the first three are known to be: `longest` at most, if that is more.
fn length_of(string: &[u8], before: usize, at: usize, longest: usize) -> usize {
    let mut size = 3;
    // Where much is left the library compares sixteen bytes before it looks for the end.
    let unchecked = if longest > 16 { 19 } else { 3 };
    while (size < unchecked || size < longest) && string[before + size] == string[at + size] {
        size += 1;
    }
    size
}

/// What is no compressed string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Where in its input a decompressor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Run {
        left: usize,
    },
    /// The length follows, then the rest of the distance.
    Length {
        distance_high: usize,
    },
    Distance {
        distance_high: usize,
        size: usize,
    },
    Repetition {
        distance: usize,
        left: usize,
    },
}

/// Reads a compressed string in pieces.
#[derive(Debug)]
pub struct Decompressor {
    state: State,
    /// Bytes that are still to come.
    left: usize,
    /// The last bytes that came: those before `fresh` were given.
    made: Vec<u8>,
    fresh: usize,
}

impl Decompressor {
    /// One for a string that will have `whole_size` bytes. No memory is taken for them.
    pub fn new(whole_size: usize) -> Decompressor {
        Decompressor { state: State::Head, left: whole_size, made: Vec::new(), fresh: 0 }
    }

    /// Reads from the beginning of `input`, and stops at its end or before more than `size_max` bytes have come of it, which go to
    /// `give`. Says how many bytes of input it has done with.
    pub fn advance(
        &mut self,
        input: &[u8],
        size_max: usize,
        give: impl FnOnce(&[u8]),
    ) -> Result<usize, Broken> {
        let mut used = 0;
        loop {
            let room = size_max - (self.made.len() - self.fresh);
            match self.state {
                State::Run { left } => {
                    let count = left.min(room).min(input.len() - used);
                    self.take(count)?;
                    self.made.extend_from_slice(&input[used..used + count]);
                    used += count;
                    if count < left {
                        self.state = State::Run { left: left - count };
                        break;
                    }
                    self.state = State::Head;
                }
                State::Repetition { distance, left } => {
                    let count = left.min(room);
                    self.take(count)?;
                    let from = self.made.len().checked_sub(distance).ok_or(Broken)?;
                    // It may overlap itself, so that it repeats what it has just written.
                    for index in from..from + count {
                        self.made.push(self.made[index]);
                    }
                    if count < left {
                        self.state = State::Repetition { distance, left: left - count };
                        break;
                    }
                    self.state = State::Head;
                }
                State::Head | State::Length { .. } | State::Distance { .. } => {
                    let Some(&byte) = input.get(used) else { break };
                    used += 1;
                    self.state = after(self.state, usize::from(byte));
                }
            }
        }
        give(&self.made[self.fresh..]);
        let kept = self.made.len().min(DISTANCE_MAX);
        if self.made.len() > 2 * DISTANCE_MAX {
            self.made.drain(..self.made.len() - kept);
        }
        self.fresh = self.made.len();
        Ok(used)
    }

    /// No more is coming than was said.
    fn take(&mut self, count: usize) -> Result<(), Broken> {
        self.left = self.left.checked_sub(count).ok_or(Broken)?;
        Ok(())
    }

    /// Whether all input was read and all of the string has come.
    pub fn is_whole(&self) -> bool {
        self.state == State::Head && self.left == 0
    }
}

/// What one byte of a head means.
fn after(state: State, byte: usize) -> State {
    match state {
        State::Head if byte < RUN_MAX => State::Run { left: byte + 1 },
        State::Head if byte >> 5 == 7 => State::Length { distance_high: byte & 0x1f },
        State::Head => State::Distance { distance_high: byte & 0x1f, size: (byte >> 5) + 2 },
        State::Length { distance_high } => State::Distance { distance_high, size: byte + 9 },
        State::Distance { distance_high, size } => {
            State::Repetition { distance: (distance_high << 8 | byte) + 1, left: size }
        }
        State::Run { .. } | State::Repetition { .. } => unreachable!("these have no head"),
    }
}
