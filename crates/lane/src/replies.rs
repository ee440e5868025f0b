//! Replies leave in the order the commands came.
//!
//! While a client has nothing outstanding its replies go straight into the connection's output. An ask to another lane
//! opens a *slot*; from then on replies queue behind it until it is filled. Long values are not copied into the
//! output but fed from their rope, a bounded piece a turn, so a slow reader keeps an old version alive and blocks
//! nobody.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use net::{Chunk, Output};
use store::Rope;
use wire::reply::Put;

use crate::pieces::{Piece, Pieces};
use crate::pubsub::Body;
use crate::tally::ErrorCode;

/// Bytes of what is copied when it is appended.
const APPENDED_SIZE_MAX: usize = 256;
/// A piece of content grows to this many bytes before the next begins.
const PIECE_SIZE_MAX: usize = 16 * 1024;
/// What goes to many clients and is at least so long is lent to each of them, not copied.
const SHARED_SIZE_MIN: usize = 1024;
/// Replies are moved to the output while it holds less than this; the rest waits for the client to read.
pub(crate) const OUTPUT_HIGH: usize = 256 * 1024;

/// What a piece grows by at least: most that are written to twice are written to often.
const GROWTH_MIN: usize = 512;

/// Encoded bytes of one reply, or of a part of one: small pieces owned, long values shared. There is one for every command under
/// way, and most stay empty.
#[derive(Default)]
pub(crate) struct Content {
    size: usize,
    held: Option<Box<Held>>,
}

#[derive(Default)]
struct Held {
    pieces: Pieces,
    /// Of errors written that nobody has counted yet.
    errors: Vec<ErrorCode>,
}

impl Put for Content {
    fn put(&mut self, bytes: &[u8]) {
        self.size += bytes.len();
        let pieces = &mut self.held().pieces;
        if let Some(Piece::Bytes { bytes: last, .. }) = pieces.last_mut()
            && last.len() + bytes.len() <= PIECE_SIZE_MAX
        {
            if last.capacity() - last.len() < bytes.len() {
                last.reserve(bytes.len().max(GROWTH_MIN));
            }
            last.extend_from_slice(bytes);
        } else {
            pieces.push(Piece::Bytes { bytes: bytes.to_vec(), start: 0 });
        }
    }

    fn note_error(&mut self, text: &[u8]) {
        self.held().errors.push(ErrorCode::of(text));
    }

    fn note_code(&mut self, word: &'static str) {
        self.held().errors.push(ErrorCode::of_word(word.as_bytes()));
    }
}

impl Content {
    /// Whether errors were written into it that nobody has counted.
    #[inline]
    pub(crate) fn has_erred(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.errors.is_empty())
    }

    /// Takes them, to be counted once.
    pub(crate) fn take_errors(&mut self) -> Vec<ErrorCode> {
        self.held.as_mut().map_or_else(Vec::new, |held| std::mem::take(&mut held.errors))
    }

    fn held(&mut self) -> &mut Held {
        self.held.get_or_insert_default()
    }

    fn front_mut(&mut self) -> Option<&mut Piece> {
        self.held.as_mut()?.pieces.front_mut()
    }

    fn pop_front(&mut self) -> Option<Piece> {
        self.held.as_mut()?.pieces.pop_front()
    }

    /// Bytes in it.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether it holds no byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Appends a range of a long value by reference.
    pub(crate) fn put_rope(&mut self, rope: Rope, range: Range<usize>) {
        self.size += range.len();
        self.held().pieces.push(Piece::Rope { rope, start: range.start, end: range.end });
    }

    /// Appends the whole of another. What is short is copied, so that many of them are no more pieces than one long one.
    pub(crate) fn append(&mut self, other: Content) {
        let front = other.front();
        if front.len() == other.size
            && front.len() <= APPENDED_SIZE_MAX
            && !self.is_empty()
            && !other.has_erred()
        {
            return self.put(front);
        }
        self.size += other.size;
        match (&mut self.held, other.held) {
            (None, held) => self.held = held,
            (Some(_), None) => {}
            (Some(held), Some(mut other)) => {
                held.pieces.append(&mut other.pieces);
                held.errors.append(&mut other.errors);
            }
        }
    }

    /// The bytes at the front that are in one piece. Replies begin with a header that is never cut.
    pub(crate) fn front(&self) -> &[u8] {
        match self.held.as_ref().and_then(|held| held.pieces.front()) {
            Some(Piece::Bytes { bytes, start }) => &bytes[*start..],
            _ => &[],
        }
    }

    /// Moves `size` bytes from the front to the end of `to`. Says how many of them were copied: those of ropes are not.
    pub(crate) fn move_front(&mut self, mut size: usize, to: &mut Content) -> usize {
        assert!(size <= self.size, "no more is moved than there is");
        let mut copied = 0;
        while size > 0 {
            let count = match self.front_mut().expect("the size says there is more") {
                Piece::Bytes { bytes, start } => {
                    let count = size.min(bytes.len() - *start);
                    to.put(&bytes[*start..*start + count]);
                    copied += count;
                    *start += count;
                    if *start == bytes.len() {
                        self.pop_front();
                    }
                    count
                }
                Piece::Rope { start, end, .. } => {
                    let count = *end - *start;
                    assert!(count <= size, "a value is moved whole");
                    to.size += count;
                    self.pop_front().into_iter().for_each(|piece| to.held().pieces.push(piece));
                    count
                }
            };
            size -= count;
            self.size -= count;
        }
        copied
    }

    /// Hands over up to `size_max` bytes of the front, as far as they are in one piece, and drops them. Says how many. A rope that is
    /// through goes to `retire`.
    pub(crate) fn take_front(
        &mut self,
        size_max: usize,
        take: impl FnOnce(&[u8]),
        retire: impl FnOnce(Rope),
    ) -> usize {
        let (count, is_through) = match self.front_mut() {
            None => return 0,
            Some(Piece::Bytes { bytes, start }) => {
                let count = size_max.min(bytes.len() - *start);
                take(&bytes[*start..*start + count]);
                *start += count;
                (count, *start == bytes.len())
            }
            Some(Piece::Rope { rope, start, end }) => {
                let (chunk, range) = rope.cursor(*start).expect("a piece that is through is taken off");
                let count = size_max.min(range.len()).min(*end - *start);
                let bytes: &[u8] = chunk.as_ref().as_ref();
                take(&bytes[range.start..range.start + count]);
                *start += count;
                (count, *start == *end)
            }
        };
        self.size -= count;
        if is_through && let Some(Piece::Rope { rope, .. }) = self.pop_front() {
            retire(rope);
        }
        count
    }

    /// All of it in one place, for what is known to be short.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.size);
        for piece in self.held.iter().flat_map(|held| held.pieces.iter()) {
            match piece {
                Piece::Bytes { bytes, start } => all.extend_from_slice(&bytes[*start..]),
                Piece::Rope { rope, start, end } => {
                    let before = all.len();
                    all.resize(before + end - start, 0);
                    rope.copy_to(*start, &mut all[before..]);
                }
            }
        }
        all
    }

    /// Drops `size` bytes from the front, which are in one piece.
    pub(crate) fn skip(&mut self, size: usize) {
        let Some(Piece::Bytes { bytes, start }) = self.front_mut() else {
            unreachable!("only headers are skipped, and those are never in a rope")
        };
        *start += size;
        if *start == bytes.len() {
            self.pop_front();
        }
        self.size -= size;
    }

    /// Moves what fits into the output, ropes as counted chunks. Ropes that are through go to `retire`: theirs may be
    /// the last reference.
    fn pump(&mut self, output: &mut Output, retire: &mut Vec<Rope>) {
        let Some(held) = &mut self.held else { return };
        while output.len() < OUTPUT_HIGH {
            match held.pieces.front_mut() {
                None => return,
                Some(Piece::Bytes { bytes, start }) => {
                    output.extend(&bytes[*start..]);
                    self.size -= bytes.len() - *start;
                    held.pieces.pop_front();
                }
                Some(Piece::Rope { rope, start, end }) => {
                    let (chunk, range) = rope.cursor(*start).expect("a piece that is through is taken off");
                    let count = range.len().min(*end - *start);
                    output.push_chunk(chunk, range.start..range.start + count);
                    *start += count;
                    self.size -= count;
                    if *start == *end
                        && let Some(Piece::Rope { rope, .. }) = held.pieces.pop_front()
                    {
                        retire.push(rope);
                    }
                }
            }
        }
    }

    /// Drops the first of its pieces, should it have any; a rope goes to `retire`.
    pub(crate) fn drop_piece(&mut self, retire: impl FnOnce(Rope)) {
        match self.pop_front() {
            None => {}
            Some(Piece::Bytes { bytes, start }) => self.size -= bytes.len() - start,
            Some(Piece::Rope { rope, start, end }) => {
                self.size -= end - start;
                retire(rope);
            }
        }
    }
}

/// What replies have left behind, to be freed in paced steps.
#[derive(Default)]
pub(crate) struct Spent {
    pub(crate) ropes: Vec<Rope>,
    pub(crate) contents: Vec<Content>,
}

struct Slot {
    open: bool,
    /// Its client does not want to hear it.
    is_muted: bool,
    content: Content,
}

/// The replies of one client that could not leave at once.
#[derive(Default)]
pub(crate) struct Replies {
    /// Number of the front slot; the others follow one by one.
    first: u32,
    slots: VecDeque<Slot>,
    open_count: usize,
    /// Of errors written since the last count.
    errors: Vec<ErrorCode>,
    /// Bytes in all slots.
    size: usize,
}

impl Replies {
    /// Whether a reply may go straight to the output.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether errors were written that nobody has counted.
    #[inline]
    pub(crate) fn has_erred(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Takes them, to be counted once.
    pub(crate) fn take_errors(&mut self) -> Vec<ErrorCode> {
        std::mem::take(&mut self.errors)
    }

    /// An error is written to the client.
    pub(crate) fn note_error(&mut self, code: ErrorCode) {
        self.errors.push(code);
    }

    /// Slots whose reply is not complete.
    pub(crate) fn open_count(&self) -> usize {
        self.open_count
    }

    /// Slots in the queue: commands whose replies have not left yet.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Bytes that wait here.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Keeps the place of a reply that comes later.
    #[inline(always)]
    pub(crate) fn open(&mut self) -> u32 {
        self.slots.push_back(Slot { open: true, is_muted: false, content: Content::default() });
        self.open_count += 1;
        let behind = u32::try_from(self.slots.len() - 1).expect("slots are bounded per client");
        self.first.wrapping_add(behind)
    }

    /// The reply for an open slot. A slot is filled once.
    pub(crate) fn fill(&mut self, number: u32, content: Content) {
        self.size += content.size();
        let slot = self.slot(number);
        slot.content.append(content);
        slot.open = false;
        self.open_count -= 1;
    }

    /// As [`Replies::fill`], for a reply that is at hand as bytes.
    pub(crate) fn fill_bytes(&mut self, number: u32, bytes: &[u8]) {
        self.size += bytes.len();
        let slot = self.slot(number);
        slot.content.put(bytes);
        slot.open = false;
        self.open_count -= 1;
    }

    /// Whether the slot's reply, once there, can leave at once.
    pub(crate) fn is_front(&self, number: u32) -> bool {
        self.first == number && self.slots.front().is_some_and(|slot| !slot.is_muted)
    }

    /// The replies that wait here now are dropped when they are whole.
    pub(crate) fn mute(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.is_muted = true);
    }

    /// The front slot's reply went straight to the output.
    pub(crate) fn pass_front(&mut self) {
        let slot = self.slots.pop_front().expect("a slot is passed that was opened");
        assert!(slot.open && slot.content.is_empty(), "a reply that went past its slot left nothing in it");
        self.open_count -= 1;
        self.first = self.first.wrapping_add(1);
    }

    fn slot(&mut self, number: u32) -> &mut Slot {
        let behind = number.wrapping_sub(self.first) as usize;
        let slot = self.slots.get_mut(behind).expect("a slot stays until its reply has left");
        assert!(slot.open, "a slot is filled once");
        slot
    }

    /// What is no reply stands between replies: behind those that are whole, before the first that is under way, or, if it is held, behind
    /// all.
    pub(crate) fn put_aside(&mut self, output: &mut Output, head: &[u8], body: &Body, is_held: bool) {
        let at = if is_held {
            self.tail();
            Some(self.slots.len() - 1)
        } else {
            let end = self.slots.iter().position(|slot| slot.open).unwrap_or(self.slots.len());
            self.slots.iter().take(end).rposition(|slot| !slot.is_muted)
        };
        if let (None, Body::Flat(bytes)) = (at, body) {
            output.extend(head);
            if bytes.len() < SHARED_SIZE_MIN {
                output.extend(bytes);
            } else {
                output.push_chunk(Arc::clone(bytes) as Chunk, 0..bytes.len());
            }
            output.extend(b"\r\n");
            return;
        }
        let at = at.unwrap_or_else(|| {
            self.first = self.first.wrapping_sub(1);
            self.slots.push_front(Slot { open: false, is_muted: false, content: Content::default() });
            0
        });
        let content = &mut self.slots[at].content;
        let before = content.size();
        content.put(head);
        match body {
            Body::Flat(bytes) => content.put(bytes),
            Body::Rope(rope) => content.put_rope(rope.clone(), 0..rope.len()),
        }
        content.put(b"\r\n");
        self.size += content.size() - before;
    }

    /// Appends to the reply of a command that is answered now, behind those that wait.
    fn put(&mut self, bytes: &[u8]) {
        self.size += bytes.len();
        self.tail().put(bytes);
    }

    fn put_rope(&mut self, rope: Rope, range: Range<usize>) {
        self.size += range.len();
        self.tail().put_rope(rope, range);
    }

    fn append(&mut self, other: Content) {
        self.size += other.size();
        self.tail().append(other);
    }

    /// Where that reply goes. What is muted takes none with it that came later.
    fn tail(&mut self) -> &mut Content {
        if self.slots.back().is_none_or(|slot| slot.open || slot.is_muted) {
            self.slots.push_back(Slot { open: false, is_muted: false, content: Content::default() });
        }
        &mut self.slots.back_mut().expect("just made sure of").content
    }

    /// Moves what is ready into the output, as far as it takes it.
    pub(crate) fn pump(&mut self, output: &mut Output, spent: &mut Spent) {
        while let Some(slot) = self.slots.front_mut() {
            let size = slot.content.size();
            if slot.is_muted {
                spent.contents.push(std::mem::take(&mut slot.content));
            }
            slot.content.pump(output, &mut spent.ropes);
            self.size -= size - slot.content.size();
            if slot.open || !slot.content.is_empty() {
                return;
            }
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// What waited when the client has gone.
    pub(crate) fn into_contents(self) -> impl Iterator<Item = Content> {
        self.slots.into_iter().map(|slot| slot.content)
    }
}

/// Where a command writes its reply.
pub(crate) enum Sink<'a> {
    /// A client of this lane: into its output, or behind the replies that wait.
    Client { output: &'a mut Output, replies: &'a mut Replies },
    /// Another lane's ask: into a buffer that is used again, and past it from the first rope on.
    Ask { bytes: &'a mut Vec<u8>, content: &'a mut Content },
    /// A part of a transaction: kept until all parts are there.
    Part(&'a mut Content),
}

impl Put for Sink<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self {
            Sink::Client { output, replies } if replies.is_empty() => output.extend(bytes),
            Sink::Client { replies, .. } => replies.put(bytes),
            Sink::Ask { bytes: buffer, content } if content.is_empty() => buffer.extend_from_slice(bytes),
            Sink::Ask { content, .. } | Sink::Part(content) => content.put(bytes),
        }
    }

    #[inline]
    fn put_all(&mut self, pieces: [&[u8]; 3]) {
        match self {
            Sink::Client { output, replies } if replies.is_empty() => output.extend_all(pieces),
            Sink::Ask { bytes, content } if content.is_empty() => {
                pieces.into_iter().for_each(|piece| bytes.extend_from_slice(piece));
            }
            _ => pieces.into_iter().for_each(|piece| self.put(piece)),
        }
    }

    #[inline]
    fn put_word(&mut self, word: [u8; 8], size: usize) {
        match self {
            Sink::Client { output, replies } if replies.is_empty() => output.extend_word(word, size),
            _ => self.put(&word[..size]),
        }
    }

    #[inline]
    fn put_framed(&mut self, head: [u8; 8], head_size: usize, body: &[u8]) {
        match self {
            Sink::Client { output, replies } if replies.is_empty() => {
                output.extend_framed(head, head_size, body);
            }
            Sink::Ask { bytes, content } if content.is_empty() => {
                bytes.reserve(head.len() + body.len() + 2);
                // A few bytes of known size are moved sooner than a few of any size.
                let start = bytes.len();
                bytes.extend_from_slice(&head);
                bytes.truncate(start + head_size);
                bytes.extend_from_slice(body);
                bytes.extend_from_slice(b"\r\n");
            }
            _ => self.put_all([&head[..head_size], body, b"\r\n"]),
        }
    }

    fn note_error(&mut self, text: &[u8]) {
        match self {
            Sink::Client { replies, .. } => replies.note_error(ErrorCode::of(text)),
            Sink::Ask { content, .. } | Sink::Part(content) => content.note_error(text),
        }
    }

    fn note_code(&mut self, word: &'static str) {
        match self {
            Sink::Client { replies, .. } => replies.note_error(ErrorCode::of_word(word.as_bytes())),
            Sink::Ask { content, .. } | Sink::Part(content) => content.note_code(word),
        }
    }
}

impl Sink<'_> {
    /// Appends a range, which is not empty, of a long value by reference.
    pub(crate) fn put_rope(&mut self, rope: Rope, range: Range<usize>) {
        match self {
            Sink::Client { replies, .. } => replies.put_rope(rope, range),
            Sink::Ask { content, .. } | Sink::Part(content) => content.put_rope(rope, range),
        }
    }

    /// Errors of what was encoded aside, which nobody has counted.
    pub(crate) fn note_all(&mut self, errors: Vec<ErrorCode>) {
        match self {
            Sink::Client { replies, .. } => replies.errors.extend(errors),
            Sink::Ask { content, .. } | Sink::Part(content) if !errors.is_empty() => {
                content.held().errors.extend(errors);
            }
            Sink::Ask { .. } | Sink::Part(_) => {}
        }
    }

    /// Appends what was encoded aside.
    pub(crate) fn append(&mut self, other: Content) {
        if other.is_empty() {
            return;
        }
        match self {
            Sink::Client { replies, .. } => replies.append(other),
            Sink::Ask { content, .. } | Sink::Part(content) => content.append(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(replies: &mut Replies) -> Vec<u8> {
        let mut output = Output::new();
        replies.pump(&mut output, &mut Spent::default());
        output.pieces().collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_late_reply_holds_back_those_behind_it() {
        let mut replies = Replies::default();
        let first = replies.open();
        let second = replies.open();
        replies.put(b"third ");
        replies.fill_bytes(second, b"second ");
        assert_eq!(drain(&mut replies), b"");
        assert_eq!(replies.size(), "second third ".len());
        replies.fill_bytes(first, b"first ");
        assert_eq!(drain(&mut replies), b"first second third ");
        assert!(replies.is_empty() && replies.open_count() == 0 && replies.size() == 0);
    }

    #[test]
    fn content_is_moved_by_size_whatever_its_pieces() {
        let mut from = Content::default();
        for number in 0..4000 {
            from.put(format!("{number:08}").as_bytes());
        }
        assert!(from.held().pieces.iter().count() > 1);
        let mut to = Content::default();
        let mut size_left = from.size();
        while size_left > 0 {
            let count = size_left.min(1111);
            from.move_front(count, &mut to);
            size_left -= count;
        }
        assert!(from.is_empty() && to.size() == 32_000);
        to.skip(8);
        assert_eq!(&to.front()[..8], b"00000001");
    }
}
