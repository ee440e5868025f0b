//! Scans that no view holds: clients name each partition of which they have records by the last one of them, 20 bytes each.
//!
//! The frame is gathered as it comes, because what limits a scan may stand behind its partitions; then its commands are told by
//! tokens. They are those that a short scan has: one, or one for each partition. The last byte of the frame is consumed with
//! the last command, so that a decoder which has commands left has input.

use std::sync::Arc;

use super::{Decoder, ID_SIZE, Limits, Phase, here, id_of, ids};
use crate::aerospike::DIGEST_SIZE;
use crate::aerospike::head::{Bits, Head, Verb};
use crate::aerospike::message::{Parsed, Then, parse, size64};
use crate::resp::{Token, WORD_SIZE_MAX, Word};

/// What is there of a long scan.
#[derive(Clone, Debug)]
pub(super) enum Long {
    /// Its frame, of which this much has come.
    Arriving { frame: Vec<u8>, size: usize },
    /// Commands to be told.
    Telling { scan: Arc<Scan>, next: usize },
    /// In the middle of one: the argument at hand, and how many of its bytes have been told, if it has been announced.
    Within { scan: Arc<Scan>, next: usize, args: Vec<Vec<u8>>, arg: usize, told: Option<usize> },
}

/// A long scan that is whole.
#[derive(Debug)]
pub(super) struct Scan {
    frame: Vec<u8>,
    parsed: Parsed,
}

impl Decoder {
    /// A long scan begins, whose frame has so many bytes.
    pub(super) fn begin_long(&mut self, size: u64) {
        let size = usize::try_from(size).expect("a scan is far smaller than 4 GiB");
        self.state.phase = Phase::Long(Box::new(Long::Arriving { frame: Vec::new(), size }));
    }

    /// Bytes that it holds of a request that is not whole, or not told.
    pub fn held_size(&self) -> usize {
        let frame_size = match &self.state.phase {
            Phase::Long(long) => match &**long {
                Long::Arriving { frame, .. } => frame.capacity(),
                Long::Telling { scan, .. } | Long::Within { scan, .. } => scan.frame.capacity(),
            },
            _ => 0,
        };
        frame_size + self.compressed.as_ref().map_or(0, |frame| frame.held_size())
    }

    /// The next piece of a long scan.
    pub(super) fn long(&mut self, long: Long, input: &[u8], limits: &Limits) -> (Token, usize) {
        let (token, size, then) = match long {
            Long::Arriving { mut frame, size } => {
                let count = here(size64(size - 1 - frame.len()), input);
                frame.extend_from_slice(&input[..count]);
                match input.get(count) {
                    Some(last) if frame.len() == size - 1 => {
                        frame.push(*last);
                        let parsed = parse(&frame, limits, &self.namespaces);
                        // What has been let in stays so: neither the namespace nor a login is taken back.
                        let parsed = parsed.unwrap_or_else(|_| panic!("the frame is whole"));
                        let (token, long) = Long::begin(Arc::new(Scan { frame, parsed }), 0);
                        (token, count, Some(long))
                    }
                    _ => (Token::Need, count, Some(Long::Arriving { frame, size })),
                }
            }
            Long::Telling { scan, next } => {
                let (token, long) = Long::begin(scan, next);
                (token, 0, Some(long))
            }
            Long::Within { scan, next, args, arg, told } => match (args.get(arg), told) {
                (Some(bytes), None) => {
                    let token = Token::Bulk { size: size64(bytes.len()) };
                    (token, 0, Some(Long::Within { scan, next, args, arg, told: Some(0) }))
                }
                (Some(bytes), Some(start)) if start < bytes.len() => {
                    let end = bytes.len().min(start + WORD_SIZE_MAX);
                    let token = Token::Word(Word::of(&bytes[start..end]));
                    (token, 0, Some(Long::Within { scan, next, args, arg, told: Some(end) }))
                }
                (Some(_), Some(_)) => {
                    return self.long(
                        Long::Within { scan, next, args, arg: arg + 1, told: None },
                        input,
                        limits,
                    );
                }
                (None, _) if next < scan.count() => (Token::End, 0, Some(Long::Telling { scan, next })),
                (None, _) => (Token::End, 1, None),
            },
        };
        self.state.phase = then.map_or(Phase::Start, |long| Phase::Long(Box::new(long)));
        (token, size)
    }
}

impl Long {
    /// The command at `index` begins.
    fn begin(scan: Arc<Scan>, index: usize) -> (Token, Long) {
        let args = scan.args(index);
        let count = u32::try_from(args.len()).expect("arguments are few");
        (Token::Begin { args: count }, Long::Within { scan, next: index + 1, args, arg: 0, told: None })
    }
}

impl Scan {
    /// How many commands it is.
    fn count(&self) -> usize {
        match &self.parsed.then {
            Then::Scan { partitions, records, .. } if self.parsed.head.index == 0 => {
                partitions.len() / ID_SIZE + records.len() / DIGEST_SIZE
            }
            _ => 1,
        }
    }

    /// The arguments of the command at `index`, records before partitions.
    fn args(&self, index: usize) -> Vec<Vec<u8>> {
        let Parsed { head, set, then, .. } = &self.parsed;
        let Then::Scan { partitions, records, ops } = then else {
            assert!(head.verb == Verb::Say, "what is long is a scan, or refused");
            return vec![head.to_bytes().to_vec(), Vec::new()];
        };
        let is_last = index + 1 == self.count();
        let head = Head { bits: head.bits.and_if(is_last, Bits::LAST), ..*head };
        let [partitions, records, set, ops] =
            [partitions, records, set, ops].map(|range| &self.frame[range.clone()]);
        let (ids, record) = if head.index > 0 {
            (ids(records, partitions), records)
        } else {
            let digests = records.as_chunks::<DIGEST_SIZE>().0;
            match digests.get(index) {
                Some(digest) => (id_of(digest).to_vec(), &digest[..]),
                None => (partitions.as_chunks::<ID_SIZE>().0[index - digests.len()].to_vec(), &b""[..]),
            }
        };
        vec![head.to_bytes().to_vec(), ids, set.to_vec(), record.to_vec(), ops.to_vec()]
    }
}
