//! A stack that grows by fixed pieces: no push copies what lies below it.

const PIECE: usize = 512;

/// Last in, first out, in pieces of 512.
#[derive(Debug)]
pub(crate) struct Pile<T> {
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Pile<T> {
    fn default() -> Pile<T> {
        Pile { pieces: Vec::new() }
    }
}

impl<T> Pile<T> {
    pub(crate) fn push(&mut self, item: T) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(item),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(item);
                self.pieces.push(piece);
            }
        }
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.pieces.last_mut()?.last_mut()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let piece = self.pieces.last_mut()?;
        let item = piece.pop();
        if piece.is_empty() {
            self.pieces.pop();
        }
        item
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }
}
