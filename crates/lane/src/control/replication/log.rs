//! The stream as bytes, each with its offset: what replicas have not been sent yet, and the backlog behind that, from which one that
//! was away for a while goes on.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a piece, at most: a lane copies it in one turn.
pub(super) const PIECE_SIZE: usize = 64 * 1024;

/// See the top of this file.
#[derive(Default)]
pub(super) struct Log {
    /// Whole pieces, each with the offset of its first byte.
    pieces: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// What is not a piece yet.
    tail: Vec<u8>,
    /// The offset behind the last byte: how many bytes the stream has had.
    end: u64,
}

impl Log {
    /// `master_repl_offset`: bytes that the stream has had.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The offset of the first byte that is still here.
    pub(super) fn start(&self) -> u64 {
        self.pieces.front().map_or(self.end - self.tail.len() as u64, |(start, _)| *start)
    }

    /// Appends what is written to the end.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.tail.len();
        write(&mut self.tail);
        self.end += (self.tail.len() - before) as u64;
        if self.tail.len() >= PIECE_SIZE {
            self.seal();
        }
    }

    /// Whatever is written is to be sent now.
    pub(super) fn seal(&mut self) {
        let mut start = self.end - self.tail.len() as u64;
        let tail = std::mem::take(&mut self.tail);
        if (1..=PIECE_SIZE).contains(&tail.len()) {
            return self.pieces.push_back((start, Arc::new(tail)));
        }
        for piece in tail.chunks(PIECE_SIZE) {
            self.pieces.push_back((start, Arc::new(piece.to_vec())));
            start += piece.len() as u64;
        }
    }

    /// The piece of what is sealed that is at `offset`, from there on.
    pub(super) fn piece(&self, offset: u64) -> Option<Arc<Vec<u8>>> {
        let place = self.pieces.partition_point(|(start, _)| *start <= offset).checked_sub(1)?;
        let (start, piece) = &self.pieces[place];
        match usize::try_from(offset - start).ok()? {
            0 => Some(Arc::clone(piece)),
            at => piece.get(at..).filter(|rest| !rest.is_empty()).map(|rest| Arc::new(rest.to_vec())),
        }
    }

    /// Forgets what nobody needs: whole pieces before `offset`.
    pub(super) fn trim(&mut self, offset: u64) {
        while let Some((start, piece)) = self.pieces.front()
            && start + piece.len() as u64 <= offset
        {
            self.pieces.pop_front();
        }
    }

    /// Something that replicas should have been told was not: nobody goes on from here.
    pub(super) fn tear(&mut self) {
        self.pieces.clear();
        self.tail.clear();
        self.end += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_offset_however_it_is_cut_and_trimmed() {
        let mut log = Log::default();
        for (sealed, text) in [(true, "hello"), (false, " "), (true, "world"), (false, "!")] {
            log.write(|out| out.extend_from_slice(text.as_bytes()));
            if sealed {
                log.seal();
            }
        }
        assert_eq!((log.start(), log.end()), (0, 12));
        let text = |offset| log.piece(offset).map(|piece| String::from_utf8_lossy(&piece).into_owned());
        assert_eq!(text(0).as_deref(), Some("hello"));
        assert_eq!(text(3).as_deref(), Some("lo"));
        assert_eq!(text(5).as_deref(), Some(" world"));
        assert_eq!(text(11), None, "that is not sealed");
        log.trim(4);
        assert_eq!(log.start(), 0, "half a piece is kept");
        log.trim(5);
        assert_eq!(log.start(), 5);
        log.seal();
        log.trim(12);
        assert_eq!((log.start(), log.end()), (12, 12));
        log.tear();
        assert_eq!((log.start(), log.end()), (13, 13));
    }

    #[test]
    fn a_long_piece_is_sealed_by_itself() {
        let mut log = Log::default();
        log.write(|out| out.resize(PIECE_SIZE, b'x'));
        assert_eq!(log.piece(1).map(|piece| piece.len()), Some(PIECE_SIZE - 1));
    }

    #[test]
    fn no_piece_is_longer_than_a_lane_copies_at_once() {
        let mut log = Log::default();
        log.write(|out| out.resize(2 * PIECE_SIZE + 10, b'x'));
        let mut sizes = Vec::new();
        let mut offset = 0;
        while let Some(piece) = log.piece(offset) {
            sizes.push(piece.len());
            offset += piece.len() as u64;
        }
        assert_eq!(sizes, [PIECE_SIZE, PIECE_SIZE, 10]);
        assert_eq!(offset, log.end());
    }
}
