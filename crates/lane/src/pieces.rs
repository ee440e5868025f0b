//! What a reply is made of, first piece to last, in blocks: however many there are, a list that grows or is appended to another moves
//! few of them.

use std::collections::VecDeque;

use store::Rope;

/// Pieces in a block.
const BLOCK_COUNT_MAX: usize = 256;

/// A part of a reply.
pub(crate) enum Piece {
    /// Bytes of its own, those from `start` on.
    Bytes { bytes: Vec<u8>, start: usize },
    /// What is left of a range of a rope.
    Rope { rope: Rope, start: usize, end: usize },
}

/// See the top of this file. Most have one piece, which is in no block.
#[derive(Default)]
pub(crate) struct Pieces {
    /// None only if there are none at all.
    first: Option<Piece>,
    /// None of them empty.
    others: VecDeque<VecDeque<Piece>>,
}

impl Pieces {
    pub(crate) fn front(&self) -> Option<&Piece> {
        self.first.as_ref()
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Piece> {
        self.first.as_mut()
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut Piece> {
        self.others.back_mut().map_or(self.first.as_mut(), VecDeque::back_mut)
    }

    pub(crate) fn push(&mut self, piece: Piece) {
        if self.first.is_none() {
            self.first = Some(piece);
            return;
        }
        match self.others.back_mut() {
            Some(last) if last.len() < BLOCK_COUNT_MAX => last.push_back(piece),
            _ => self.others.push_back(VecDeque::from([piece])),
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<Piece> {
        let next = self.others.front_mut().and_then(VecDeque::pop_front);
        if self.others.front().is_some_and(VecDeque::is_empty) {
            self.others.pop_front();
        }
        std::mem::replace(&mut self.first, next)
    }

    pub(crate) fn append(&mut self, other: &mut Pieces) {
        let Some(first) = other.first.take() else { return };
        self.push(first);
        if let (Some(last), Some(next)) = (self.others.back_mut(), other.others.front_mut())
            && last.len() + next.len() <= BLOCK_COUNT_MAX
        {
            last.append(next);
            other.others.pop_front();
        }
        self.others.append(&mut other.others);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.first.iter().chain(self.others.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    fn number(piece: &Piece) -> usize {
        match piece {
            Piece::Bytes { start, .. } | Piece::Rope { start, .. } => *start,
        }
    }

    /// Random pushes, takes and appends, against a plain list.
    #[test]
    fn they_are_a_list_in_short_blocks() {
        for seed in 0..20 {
            let mut chance = Chance::new(seed);
            let mut below = |count: u64| usize::try_from(chance.next() % count).expect("a small number");
            let (mut pieces, mut plain, mut next) = (Pieces::default(), VecDeque::new(), 0);
            for _ in 0..200 {
                let count = below(3) * below(400);
                let mut other = Pieces::default();
                let to = below(3);
                for _ in 0..count {
                    let piece = Piece::Bytes { bytes: Vec::new(), start: next };
                    match to {
                        0 => pieces.push(piece),
                        _ => other.push(piece),
                    }
                    plain.push_back(next);
                    next += 1;
                }
                pieces.append(&mut other);
                assert!(other.front().is_none());
                for _ in 0..below(400) {
                    assert_eq!(pieces.front().map(number), plain.front().copied());
                    assert_eq!(pieces.pop_front().as_ref().map(number), plain.pop_front());
                }
                assert!(pieces.iter().map(number).eq(plain.iter().copied()));
                assert_eq!(pieces.last_mut().map(|piece| number(piece)), plain.back().copied());
                assert!(pieces.others.iter().all(|block| (1..=BLOCK_COUNT_MAX).contains(&block.len())));
            }
        }
    }
}
