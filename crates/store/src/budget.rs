//! What a piece of work may still cost: not in time, in units that a test can assert.

/// Work units left in a slice or a turn. An element is one key, slot or chunk looked at or moved; bytes are bytes
/// copied. Spending more than is left leaves nothing: the step under way is finished, the next one is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Elements that may still be touched.
    pub elements: u32,
    /// Bytes that may still be copied.
    pub bytes: u32,
}

impl Budget {
    /// A budget of so many elements and bytes.
    pub const fn new(elements: u32, bytes: u32) -> Budget {
        Budget { elements, bytes }
    }

    /// Takes the cost of a step off, down to nothing.
    pub fn spend(&mut self, elements: usize, bytes: usize) {
        self.elements = self.elements.saturating_sub(u32::try_from(elements).unwrap_or(u32::MAX));
        self.bytes = self.bytes.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Whether either unit has run out, so that no further step may begin.
    pub const fn is_spent(&self) -> bool {
        self.elements == 0 || self.bytes == 0
    }

    /// Lets `work` spend at most half of what is left, so that what comes after it has a share too.
    pub(crate) fn half<T>(&mut self, work: impl FnOnce(&mut Budget) -> T) -> T {
        let whole = Budget::new(self.elements.div_ceil(2), self.bytes.div_ceil(2));
        let mut part = whole;
        let result = work(&mut part);
        self.elements -= whole.elements - part.elements;
        self.bytes -= whole.bytes - part.bytes;
        result
    }
}
