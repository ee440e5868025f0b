//! Where a shard keeps the ropes of its entries: an entry holds a number, the shelf the rope.

use crate::rope::Rope;
use crate::width::narrow;

const PIECE: usize = 512;

#[derive(Debug)]
enum Place {
    Taken(Rope),
    Free { next: Option<u32> },
}

/// Ropes under small numbers, in pieces of 512 so that growth copies nothing.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pieces: Vec<Vec<Place>>,
    free: Option<u32>,
    /// Ropes here.
    pub(crate) count: usize,
    /// What they take, in bytes.
    pub(crate) size: u64,
}

impl Shelf {
    pub(crate) fn put(&mut self, rope: Rope) -> u32 {
        self.count += 1;
        self.size += rope.room() as u64;
        if let Some(number) = self.free {
            let place = self.place(number);
            let Place::Free { next } = *place else { unreachable!("the free list holds free places") };
            *place = Place::Taken(rope);
            self.free = next;
            return number;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let whole = self.pieces.len() - 1;
        let piece = &mut self.pieces[whole];
        piece.push(Place::Taken(rope));
        narrow(whole * PIECE + piece.len() - 1)
    }

    pub(crate) fn get(&self, number: u32) -> &Rope {
        let number = number as usize;
        match &self.pieces[number / PIECE][number % PIECE] {
            Place::Taken(rope) => rope,
            Place::Free { .. } => unreachable!("an entry's rope is on the shelf"),
        }
    }

    pub(crate) fn take(&mut self, number: u32) -> Rope {
        let next = self.free;
        let Place::Taken(rope) = std::mem::replace(self.place(number), Place::Free { next }) else {
            unreachable!("an entry's rope is on the shelf")
        };
        self.free = Some(number);
        self.count -= 1;
        self.size -= rope.room() as u64;
        rope
    }

    /// Lets `change` alter a rope and keeps the sum right. How long it is then, and by how many bytes of memory it has grown.
    pub(crate) fn alter(&mut self, number: u32, change: impl FnOnce(&mut Rope)) -> (usize, u64) {
        let Place::Taken(rope) = self.place(number) else { unreachable!("an entry's rope is on the shelf") };
        let before = rope.room();
        change(rope);
        // One that is written to becomes no shorter.
        let grown = (rope.room() - before) as u64;
        let len = rope.len();
        self.size += grown;
        (len, grown)
    }

    fn place(&mut self, number: u32) -> &mut Place {
        let number = number as usize;
        &mut self.pieces[number / PIECE][number % PIECE]
    }
}
