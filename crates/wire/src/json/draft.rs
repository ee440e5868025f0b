//! A document that several edits have changed one after the other, before anything of it is copied.

use std::ops::Range;

use super::operation::Edit;

/// Where bytes of a draft lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// In the document as it was.
    Document(Range<usize>),
    /// In the request.
    Request(Range<usize>),
    /// In what was made in between: [`Draft::made`].
    Made(Range<usize>),
}

impl Piece {
    fn range(&mut self) -> &mut Range<usize> {
        match self {
            Piece::Document(range) | Piece::Request(range) | Piece::Made(range) => range,
        }
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        match self {
            Piece::Document(range) | Piece::Request(range) | Piece::Made(range) => range.len(),
        }
    }
}

/// A document as a list of pieces: a few more for each edit.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pieces: Vec<Piece>,
    /// Names, commas, brackets and numbers that edits have made.
    made: Vec<u8>,
    size: usize,
}

impl Draft {
    /// A document of so many bytes, unchanged.
    pub fn new(size: usize) -> Draft {
        Draft { pieces: vec![Piece::Document(0..size)], made: Vec::new(), size }
    }

    /// A document that is made here.
    pub fn made_of(bytes: &[u8]) -> Draft {
        Draft { pieces: vec![Piece::Made(0..bytes.len())], made: bytes.to_vec(), size: bytes.len() }
    }

    /// The request's bytes instead of any document.
    pub fn request(range: Range<usize>) -> Draft {
        Draft { size: range.len(), pieces: vec![Piece::Request(range)], made: Vec::new() }
    }

    /// Bytes of the whole.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// What [`Piece::Made`] lies in.
    pub fn made(&self) -> &[u8] {
        &self.made
    }

    /// The rest of the piece that holds the byte `at`; none behind the end.
    pub fn piece_at(&self, at: usize) -> Option<Piece> {
        let mut start = 0;
        for piece in &self.pieces {
            let size = piece.size();
            if at < start + size {
                let mut piece = piece.clone();
                piece.range().start += at - start;
                return Some(piece);
            }
            start += size;
        }
        None
    }

    /// Carries out an edit of the draft as it is now; `value` is where in the request its value lies.
    pub fn apply(&mut self, edit: &Edit, value: Range<usize>) {
        let first = self.cut(edit.at.start);
        let end = self.cut(edit.at.end);
        let mut put = Vec::new();
        self.make(&edit.front, &mut put);
        if edit.has_value && !value.is_empty() {
            put.push(Piece::Request(value));
        }
        self.make(&edit.back, &mut put);
        self.size = self.size - edit.at.len() + put.iter().map(Piece::size).sum::<usize>();
        self.pieces.splice(first..end, put);
    }

    fn make(&mut self, bytes: &[u8], put: &mut Vec<Piece>) {
        if !bytes.is_empty() {
            let start = self.made.len();
            self.made.extend_from_slice(bytes);
            put.push(Piece::Made(start..self.made.len()));
        }
    }

    /// Makes pieces begin at the byte `at`; returns the index of the first that does, or how many there are.
    fn cut(&mut self, at: usize) -> usize {
        let mut start = 0;
        for index in 0..self.pieces.len() {
            let size = self.pieces[index].size();
            if at <= start {
                return index;
            }
            if at < start + size {
                let mut behind = self.pieces[index].clone();
                let middle = behind.range().start + (at - start);
                behind.range().start = middle;
                self.pieces[index].range().end = middle;
                self.pieces.insert(index + 1, behind);
                return index + 1;
            }
            start += size;
        }
        self.pieces.len()
    }
}
