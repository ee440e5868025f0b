//! When the process dies: counted in operations of the kernel and lines of the journal together, so that a crash can be put
//! between any two of them, and into one.

use std::cell::Cell;
use std::rc::Rc;

/// A count of operations, after which all fail. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Fuse {
    /// Operations that go well yet; none without end.
    left: Rc<Cell<Option<u64>>>,
    burnt: Rc<Cell<u64>>,
    chance: u64,
}

/// How an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burn {
    /// Well.
    Goes,
    /// The process dies in it; `chance` says how far it gets.
    Crashes {
        /// Any number.
        chance: u64,
    },
    /// The process is dead.
    Crashed,
}

impl Fuse {
    /// The process dies in operation number `nth` (from 0), and `chance` says how far that one gets.
    #[must_use]
    pub fn new(nth: u64, chance: u64) -> Fuse {
        Fuse { left: Rc::new(Cell::new(Some(nth))), burnt: Rc::default(), chance }
    }

    /// Operations so far.
    #[must_use]
    pub fn burnt(&self) -> u64 {
        self.burnt.get()
    }

    /// Whether it has come to its end.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.left.get().is_some_and(|left| self.burnt.get() > left)
    }

    /// One operation.
    pub fn burn(&self) -> Burn {
        let nth = self.burnt.get();
        self.burnt.set(nth + 1);
        match self.left.get() {
            Some(left) if nth == left => Burn::Crashes { chance: self.chance },
            Some(left) if nth > left => Burn::Crashed,
            _ => Burn::Goes,
        }
    }
}
