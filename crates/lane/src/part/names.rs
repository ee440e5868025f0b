//! The locks that a part takes, page by page.

use std::collections::VecDeque;

use crate::locks::{LockName, Locks, Mode};

/// Names entered or given back in one step.
pub(crate) const NAMES_PER_STEP: usize = 256;

/// Names for which there is room at once.
const FEW: usize = 8;

/// Locks to take, in pages of [`NAMES_PER_STEP`].
#[derive(Default)]
pub(crate) struct Names {
    pages: VecDeque<Vec<(LockName, Mode)>>,
    count: usize,
}

impl Names {
    pub(crate) fn push(&mut self, name: LockName, mode: Mode) {
        self.count += 1;
        match self.pages.back_mut() {
            Some(page) if page.len() < NAMES_PER_STEP => page.push((name, mode)),
            _ => {
                let mut page = Vec::with_capacity(if self.count > 1 { NAMES_PER_STEP } else { FEW });
                page.push((name, mode));
                self.pages.push_back(page);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_short(&self) -> bool {
        self.count <= NAMES_PER_STEP
    }

    /// Whether all can be had in one step, and nobody has any of them or waits for it.
    pub(crate) fn are_free(&self, locks: &Locks) -> bool {
        self.is_short()
            && (locks.is_empty()
                || !self.first_page().iter().any(|&(name, mode)| locks.conflicts(name, mode)))
    }

    pub(super) fn next_page(&mut self) -> Option<Vec<(LockName, Mode)>> {
        self.pages.pop_front()
    }

    pub(super) fn first_page(&self) -> &[(LockName, Mode)] {
        self.pages.front().map_or(&[], Vec::as_slice)
    }
}
