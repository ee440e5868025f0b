//! The shape of a command: all its bytes but those of its arguments. Clients ask for the same again and again, with other
//! keys of the same length, and one look tells that; read byte by byte it takes three times as many instructions.
//!
//! ```text
//! *3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$5\r\nhello\r\n
//! └──── compared ──────────┘└ not ┘└ compared ┘└─ not ─┘
//! ```

use super::ArgRanges;

/// Bytes before the last argument, at most, in words of eight.
const WORDS_MAX: usize = 8;
/// Arguments at most, the name included.
const ARGS_MAX: usize = 4;

/// What is before the last argument of a RESP array, and where its arguments lie. None at first.
///
/// Whatever is compared, the decoder has read in the frame that the shape was taken of, and it reads nothing else. So it would
/// read a frame of the same shape in the same way, under limits that allow the size of the first.
///
/// Its fields lie in this order, so that what is compared of a short command is in the two cache lines in front.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Shape {
    size: usize,
    /// Zero without a shape.
    arg_count: usize,
    ranges: [(u32, u32); ARGS_MAX],
    word_count: usize,
    words: [Masked; WORDS_MAX],
}

/// Eight bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Masked {
    word: u64,
    /// Ones where bytes are compared; the others of `word` are zero.
    mask: u64,
}

impl Shape {
    /// Takes the shape of the frame of `size` bytes that was decoded at the start of `input`; false if it is too long for one, or its
    /// like would be too short where it is the last of the input, as it is here. The shape stays what it was then.
    pub fn take(&mut self, input: &[u8], size: usize, args: &ArgRanges) -> bool {
        let Some((&(last_start, last_end), before)) = args.ranges.split_last() else { return false };
        // A name alone is compared, too.
        let compared_size = if before.is_empty() { last_end } else { last_start } as usize;
        let word_count = compared_size.div_ceil(8);
        let is_too_long = args.ranges.len() > ARGS_MAX || word_count > WORDS_MAX;
        if args.inline || is_too_long || input.len() < word_count * 8 {
            return false;
        }
        let mut bytes = [0; WORDS_MAX * 8];
        bytes[..compared_size].copy_from_slice(&input[..compared_size]);
        for (index, (masked, word)) in self.words.iter_mut().zip(bytes.as_chunks::<8>().0).enumerate() {
            let before_byte = |at: usize| below(at.saturating_sub(index * 8).min(8));
            let args = before.iter().skip(1);
            let args = args.map(|&(start, end)| before_byte(end as usize) & !before_byte(start as usize));
            let mask = args.fold(before_byte(compared_size), |mask, arg| mask & !arg);
            *masked = Masked { word: u64::from_le_bytes(*word) & mask, mask };
        }
        self.word_count = word_count;
        self.arg_count = args.ranges.len();
        self.ranges[..self.arg_count].copy_from_slice(&args.ranges);
        self.size = size;
        true
    }

    /// The size of the command at the start of `input` if it has this shape; its arguments lie where [`Shape::place`] says. Nothing for
    /// one that is not there as a whole, or so short that it ends within the last word that is compared, and the input with it.
    #[inline(always)]
    pub fn read(&self, input: &[u8]) -> Option<usize> {
        let (words, _) = input.as_chunks::<8>();
        if self.arg_count == 0 || input.len() < self.size {
            return None;
        }
        let mut differences = 0;
        for (Masked { word, mask }, other) in self.words.iter().zip(words.get(..self.word_count)?) {
            differences |= u64::from_le_bytes(*other) & mask ^ word;
        }
        (differences == 0).then_some(self.size)
    }

    /// Where the arguments of a command of this shape lie.
    #[inline]
    pub fn place(&self, args: &mut ArgRanges) {
        args.clear(false);
        args.ranges.extend_from_slice(&self.ranges[..self.arg_count]);
    }
}

/// Ones in the first so many bytes of a word.
fn below(count: usize) -> u64 {
    if count < 8 { (1 << (8 * count)) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, Limits, Step};
    use super::*;

    fn decoded(bytes: &[u8]) -> (Option<usize>, ArgRanges) {
        let mut args = ArgRanges::new();
        match Decoder::new().decode(bytes, &mut args, &Limits::default()) {
            Step::Command { size } => (Some(size), args),
            _ => (None, args),
        }
    }

    /// Whether `other` is read by the shape of `first`. If so, it is read as the decoder reads it.
    fn check(first: &[u8], other: &[u8], has_shape: bool) {
        let (size, args) = decoded(first);
        let mut shape = Shape::default();
        assert!(shape.take(first, size.expect("the first is whole"), &args));
        // Words of an inline command lie elsewhere.
        let (_, mut read) = decoded(b"an inline command\r\n");
        let size = shape.read(other);
        assert_eq!(size.is_some(), has_shape, "{} then {}", first.escape_ascii(), other.escape_ascii());
        if has_shape {
            shape.place(&mut read);
            let (want, args) = decoded(other);
            assert_eq!((size, &read.ranges), (want, &args.ranges));
            assert!(read.iter(other).eq(args.iter(other)));
        }
    }

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$7\r\nabcdefg\r\n";
    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$5\r\nhello\r\n";

    #[test]
    fn arguments_of_the_same_length_have_the_same_shape() {
        check(GET, b"*2\r\n$3\r\nGET\r\n$7\r\ntuvwxyz\r\n", true);
        check(GET, b"*2\r\n$3\r\nGET\r\n$7\r\n\r\n$7\r\n\r\r\n*2\r\n", true);
        check(SET, b"*3\r\n$3\r\nSET\r\n$5\r\nother\r\n$5\r\nworld\r\n", true);
        check(SET, b"*3\r\n$3\r\nSET\r\n$5\r\n$5\r\n$\r\n$5\r\n\0\0\0\0\0\r\n", true);
        check(b"*1\r\n$4\r\nPING\r\n*1", b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", true);
    }

    #[test]
    fn other_names_lengths_and_counts_do_not() {
        // As the last of the input too short to be compared in words of eight.
        let short = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n";
        check(short, &short[..short.len() - 4], false);
        check(short, short, true);
        check(GET, b"*2\r\n$3\r\nget\r\n$7\r\nabcdefg\r\n", false);
        check(GET, b"*2\r\n$3\r\nDEL\r\n$7\r\nabcdefg\r\n", false);
        check(GET, b"*2\r\n$3\r\nGET\r\n$6\r\nabcdef\r\n", false);
        check(GET, b"*3\r\n$3\r\nGET\r\n$7\r\nabcdefg\r\n", false);
        check(GET, b"+2\r\n$3\r\nGET\r\n$7\r\nabcdefg\r\n", false);
        check(SET, b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$4\r\nhell\r\nxxxx", false);
        check(SET, b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n:5\r\nhello\r\n", false);
        check(b"*1\r\n$4\r\nPING\r\n*1", b"*1\r\n$4\r\nQUIT\r\n*1", false);
    }

    /// However it is cut, and whatever byte of it is another one.
    #[test]
    fn what_has_the_shape_is_read_as_the_decoder_reads_it() {
        for first in [
            b"*1\r\n$6\r\nDBSIZE\r\n".as_slice(),
            GET,
            SET,
            b"*4\r\n$5\r\nSETEX\r\n$1\r\nk\r\n$2\r\n10\r\n$6\r\nvalue!\r\n",
        ] {
            let (size, args) = decoded(first);
            let mut shape = Shape::default();
            assert!(shape.take(first, first.len(), &args));
            let mut read = ArgRanges::new();
            for cut in 0..first.len() {
                assert_eq!(shape.read(&first[..cut]), None, "cut at {cut}");
            }
            assert_eq!(shape.read(first), size);
            shape.place(&mut read);
            let mut other = first.to_vec();
            for index in 0..first.len() {
                for byte in 0..=255 {
                    other[index] = byte;
                    if let Some(size) = shape.read(&other) {
                        let (want, args) = decoded(&other);
                        assert_eq!((Some(size), &read.ranges), (want, &args.ranges), "{byte} at {index}");
                        assert_eq!(
                            read.get(0, &other),
                            &first[args.ranges[0].0 as usize..args.ranges[0].1 as usize]
                        );
                    }
                }
                other[index] = first[index];
            }
        }
    }

    #[test]
    fn there_is_none_before_the_first_and_long_ones_change_nothing() {
        let mut shape = Shape::default();
        assert_eq!(shape.read(GET), None);
        for long in [
            b"*5\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n".to_vec(),
            [b"*3\r\n$3\r\nSET\r\n$48\r\n", [b'k'; 48].as_slice(), b"\r\n$1\r\nv\r\n"].concat(),
            b"*0\r\n".to_vec(),
            b"GET abc\r\n".to_vec(),
        ] {
            let (size, args) = decoded(&long);
            assert!(!shape.take(&long, size.expect("whole"), &args), "{}", long.escape_ascii());
            assert_eq!(shape.arg_count, 0);
        }
        let (_, get) = decoded(GET);
        assert!(shape.take(GET, GET.len(), &get));
        let (_, inline) = decoded(b"GET abc\r\n");
        assert!(!shape.take(b"GET abc\r\n", 9, &inline));
        let (_, short) = decoded(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert!(!shape.take(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 20, &short), "its like could not be read");
        assert_eq!(shape.read(GET), Some(GET.len()), "the one before is kept");
    }
}
