//! A log in memory: its bytes outlive the process that a fuse ends.

use std::cell::RefCell;
use std::rc::Rc;

use super::Log;
use crate::kernel::fake::{Burn, Fuse};

/// Bytes as they would be on disk. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    bytes: Rc<RefCell<Vec<u8>>>,
    fuse: Fuse,
}

impl Memory {
    /// The same bytes, whose writer dies with the fuse: in the middle of a line, if that is when.
    #[must_use]
    pub fn with_fuse(&self, fuse: &Fuse) -> Memory {
        Memory { bytes: Rc::clone(&self.bytes), fuse: fuse.clone() }
    }

    /// What is there.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }

    /// Forgets what lies beyond `size`.
    pub fn truncate(&self, size: usize) {
        self.bytes.borrow_mut().truncate(size);
    }
}

impl Log for Memory {
    fn append(&mut self, line: &str) -> Result<(), String> {
        let mut bytes = self.bytes.borrow_mut();
        match self.fuse.burn() {
            Burn::Goes => {
                bytes.extend_from_slice(line.as_bytes());
                bytes.push(b'\n');
                return Ok(());
            }
            // At most all but the line's end: with it, the line would be there.
            Burn::Crashes { chance } => {
                let size = usize::try_from(chance).unwrap_or(usize::MAX) % (line.len() + 1);
                bytes.extend_from_slice(&line.as_bytes()[..size]);
            }
            Burn::Crashed => {}
        }
        Err("the process has crashed".to_owned())
    }
}
