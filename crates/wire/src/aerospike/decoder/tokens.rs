//! Large requests, token by token: what stands in front of the operations, then these as they come.

use std::ops::Range;
use std::sync::Arc;

use super::{Batch, Compressed, Decoder, Limits, Phase, Piece, Template, Walk, here, index32, op_size};
use crate::aerospike::code::Code;
use crate::aerospike::head::{Bits, HEAD_SIZE, Head, Verb};
use crate::aerospike::message::{Parsed, Then, parse, size64};
use crate::aerospike::{DIGEST_SIZE, OPS};
use crate::resp::{Token, Word};

impl Decoder {
    /// Goes on with a large request: call after [`Step::Large`](crate::resp::Step::Large), with input that starts at the first byte not consumed, until
    /// [`Token::End`]. Returns the token and how many bytes the caller consumes after using it.
    ///
    /// A [`Token::Begin`] may come a second time: what was gathered is dropped, and the arguments that follow stand instead.
    ///
    /// # Panics
    /// When nothing large has been told.
    pub fn token(&mut self, input: &[u8], limits: &Limits) -> (Token, usize) {
        if let Some(frame) = self.compressed.take() {
            return self.compressed(frame, input, limits);
        }
        match std::mem::take(&mut self.state.phase) {
            Phase::Compressed(size) => {
                let frame = Box::new(Compressed::new(size, &self.namespaces));
                self.compressed(frame, input, limits)
            }
            Phase::Piece(piece, batch) => self.piece(piece, batch, input, limits),
            Phase::Ops(left) => {
                let size = here(left, input);
                let left_then = left - size64(size);
                let token = match size {
                    _ if left == 0 => return (Token::End, 0),
                    0 => Token::Need,
                    _ => Token::Bytes(0..size),
                };
                self.state.phase = Phase::Ops(left_then);
                (token, size)
            }
            Phase::RowOps { batch, head, ops_left, left, size } => {
                self.row_ops(batch, head, ops_left, left, size, input, limits)
            }
            Phase::Instead { piece, head, batch, ops_left, left } => {
                let (token, next) = match piece {
                    Piece::HeadSize => (Token::Bulk { size: size64(HEAD_SIZE) }, Piece::Head),
                    Piece::Head => (Token::Word(Word::of(&head.to_bytes())), Piece::DigestSize),
                    Piece::DigestSize => (Token::Bulk { size: 0 }, Piece::Ops),
                    _ => {
                        self.state.phase = batch.after_ops(ops_left, left);
                        return (Token::End, 0);
                    }
                };
                self.state.phase = Phase::Instead { piece: next, head, batch, ops_left, left };
                (token, 0)
            }
            Phase::Long(long) => self.long(*long, input, limits),
            _ => panic!("tokens are those of a large request"),
        }
    }

    /// A piece of what stands in front of the operations. It is read again for each piece, and consumed with the last.
    fn piece(&mut self, piece: Piece, batch: Option<Batch>, input: &[u8], limits: &Limits) -> (Token, usize) {
        let parsed = match &batch {
            None => parse(input, limits, &self.namespaces).ok(),
            Some(batch) => batch.parse(input, &self.namespaces).ok(),
        };
        // What has been let in stays so: neither the namespace nor a login is taken back.
        let parsed = parsed.expect("it was read before, and its input is still there");
        let sized = |range: &Range<usize>| Token::Bulk { size: size64(range.len()) };
        let behind =
            |range: &Range<usize>, here: Piece, next: Piece| if range.is_empty() { next } else { here };
        let (token, next) = match piece {
            Piece::Begin => (Token::Begin { args: index32(OPS + 1) }, Piece::HeadSize),
            Piece::HeadSize => (Token::Bulk { size: size64(HEAD_SIZE) }, Piece::Head),
            Piece::Head => (Token::Word(Word::of(&parsed.head.to_bytes())), Piece::DigestSize),
            Piece::DigestSize => (Token::Bulk { size: size64(DIGEST_SIZE) }, Piece::Digest),
            Piece::Digest => (Token::Bytes(parsed.digest), Piece::SetSize),
            Piece::SetSize => (sized(&parsed.set), behind(&parsed.set, Piece::Set, Piece::KeySize)),
            Piece::Set => (Token::Bytes(parsed.set), Piece::KeySize),
            Piece::KeySize => (sized(&parsed.key), behind(&parsed.key, Piece::Key, Piece::Ops)),
            Piece::Key => (Token::Bytes(parsed.key), Piece::Ops),
            Piece::Ops => return self.begin_ops(parsed, batch),
        };
        self.state.phase = Phase::Piece(next, batch);
        (token, 0)
    }

    /// The front is consumed, the operations begin.
    fn begin_ops(&mut self, parsed: Parsed, batch: Option<Batch>) -> (Token, usize) {
        let Parsed { head, size: front, then, .. } = parsed;
        match (then, batch) {
            (Then::Ops(size), _) => {
                self.state.phase = Phase::Ops(size);
                (Token::Bulk { size }, front)
            }
            (_, Some(mut batch)) => {
                batch.pass(front);
                batch.before = Some(Arc::new(Template { head, set: Vec::new(), ops: None }));
                self.state.phase = Phase::RowOps { batch, head, ops_left: head.op_count, left: 0, size: 0 };
                // The first of the operations is announced with the next token.
                (Token::Bulk { size: 0 }, front)
            }
            _ => unreachable!("what is large has operations"),
        }
    }

    /// In the operations of a large row, each of which is an argument.
    #[expect(clippy::too_many_arguments, reason = "they are what the phase holds")]
    fn row_ops(
        &mut self,
        mut batch: Batch,
        head: Head,
        ops_left: u16,
        left: u64,
        size: u64,
        input: &[u8],
        limits: &Limits,
    ) -> (Token, usize) {
        if left > 0 {
            let count = here(left, input);
            batch.pass(count);
            let left = left - size64(count);
            self.state.phase = Phase::RowOps { batch, head, ops_left, left, size };
            return if count == 0 { (Token::Need, 0) } else { (Token::Bytes(0..count), count) };
        }
        if ops_left == 0 {
            self.state.phase = batch.after_row();
            return (Token::End, 0);
        }
        let (code, ops_left, left) = match op_size(input, batch.row_left()) {
            Err(Walk::Need(_)) => {
                self.state.phase = Phase::RowOps { batch, head, ops_left, left, size };
                return (Token::Need, 0);
            }
            Ok(op) if size + op <= limits.record_size_max => {
                let (ops_left, size) = (ops_left - 1, size + op);
                self.state.phase = Phase::RowOps { batch, head, ops_left, left: op, size };
                return (Token::Bulk { size: op }, 0);
            }
            Ok(op) => (Code::TOO_BIG, ops_left - 1, op),
            // Nothing can be found behind it: it and the rest of the batch are swallowed.
            Err(_) => {
                batch.rows_left = 1;
                (Code::PARAMETER, 0, batch.left)
            }
        };
        let bits = head.bits.and_if(batch.rows_left == 1, Bits::LAST);
        let head = Head { verb: Verb::Say, code, bits, ..head };
        self.state.phase = Phase::Instead { piece: Piece::HeadSize, head, batch, ops_left, left };
        (Token::Begin { args: 2 }, 0)
    }
}
