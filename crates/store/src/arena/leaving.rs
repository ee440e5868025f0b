//! Which object leaves which span next: the arena's side of compaction.

use super::{
    Arena, CLASS_COUNT, CLASS_GRANULES, Class, GRANULE, GROUP_COUNT, NO_GRANULE, NO_SPAN, NODE_CLASS,
    SPAN_GRANULES, SPAN_SIZE, Span, State, group, next_free,
};

const FREE_WORDS: usize = SPAN_GRANULES as usize / 64;

/// The span that compaction is emptying, and how far it has come.
#[derive(Debug)]
pub(super) struct Leave {
    pub(super) span: u32,
    /// The class in which the next span is looked for.
    class: usize,
    /// A bit for each class in which something was freed since it was last found not worth emptying. With none set,
    /// a look costs one test: every turn of a lane takes one.
    suspects: u128,
    /// The next object to be looked at.
    granule: u16,
    /// A bit for each granule at which a free object begins.
    free: Box<[u64; FREE_WORDS]>,
}

impl Leave {
    pub(super) fn new() -> Leave {
        Leave { span: NO_SPAN, class: 0, suspects: 0, granule: 0, free: Box::new([0; FREE_WORDS]) }
    }

    /// An object of this class was freed.
    #[inline]
    pub(super) fn suspect(&mut self, class: usize) {
        const { assert!(CLASS_COUNT <= 128, "a bit for each class") };
        self.suspects |= 1 << class;
    }

    /// The first suspect from `class` on, going round.
    fn next_suspect(&self) -> usize {
        let ahead = self.suspects >> self.class << self.class;
        let first = if ahead == 0 { self.suspects } else { ahead };
        first.trailing_zeros() as usize
    }

    pub(super) fn note_free(&mut self, granule: u16) {
        self.free[usize::from(granule) / 64] |= 1 << (granule % 64);
    }

    fn is_free(&self, granule: u16) -> bool {
        self.free[usize::from(granule) / 64] >> (granule % 64) & 1 == 1
    }
}

/// What compaction does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// No class has room to spare.
    Nothing,
    /// A span was chosen and its free objects were listed, so many elements of work.
    Started {
        /// How many.
        cost: usize,
    },
    /// This entry is to be moved; if it cannot be, it stays and the next one is asked for.
    Entry(u32),
    /// So is this table node.
    Node(u32),
}

impl Arena {
    /// Whether a span is being emptied, or one may be worth it. A class whose span is being emptied stays a suspect.
    #[inline]
    pub(crate) fn may_compact(&self) -> bool {
        self.leaving.suspects != 0
    }

    /// The next object to move out of a sparse span. A class is worth it while more than an eighth of its objects' room
    /// and two spans' worth are free, and only spans at most seven eighths full are emptied: less waste than that would
    /// cost more moving than it gives back.
    pub(crate) fn next_leaving(&mut self) -> Leaving {
        if self.leaving.span == NO_SPAN {
            return match self.choose_leaving() {
                Some(number) => self.start_leaving(number),
                None => Leaving::Nothing,
            };
        }
        let number = self.leaving.span;
        let span = self.spans[number as usize];
        let class = usize::from(span.class);
        while self.leaving.granule < span.bump {
            let granule = self.leaving.granule;
            self.leaving.granule += CLASS_GRANULES[class];
            if !self.leaving.is_free(granule) {
                let handle = number << 13 | u32::from(granule);
                return if class == NODE_CLASS { Leaving::Node(handle) } else { Leaving::Entry(handle) };
            }
        }
        // Something could not be moved: it belongs to a flushed partition.
        self.stop_leaving();
        Leaving::Nothing
    }

    /// Room of the same class as an object in the span that is being emptied, but in another span that is in use; none
    /// if there is no such room, and then the emptying ends.
    pub(crate) fn alloc_beside(&mut self, handle: u32) -> Option<u32> {
        let class = usize::from(self.spans[(handle >> 13) as usize].class);
        let Class { current, partial, .. } = self.classes[class];
        let Span { free, bump, .. } = self.spans[current as usize];
        let in_current =
            current != NO_SPAN && (free != NO_GRANULE || bump + CLASS_GRANULES[class] <= SPAN_GRANULES);
        if !in_current && partial.iter().all(|&head| head == NO_SPAN) {
            self.stop_leaving();
            return None;
        }
        self.alloc_class(class).ok()
    }

    fn choose_leaving(&mut self) -> Option<u32> {
        while self.leaving.suspects != 0 {
            let class = self.leaving.next_suspect();
            let capacity = u64::from(SPAN_GRANULES / CLASS_GRANULES[class]);
            let Class { partial, spans, live, .. } = &self.classes[class];
            let room = u64::from(*spans) * capacity;
            let free = room - live;
            let sparse = partial[..GROUP_COUNT - 1].iter().find(|&&head| head != NO_SPAN);
            if let Some(&number) = sparse
                && free > 2 * capacity
                && free > room / 8
            {
                self.leaving.class = class;
                return Some(number);
            }
            self.leaving.suspects &= !(1 << class);
        }
        None
    }

    fn start_leaving(&mut self, number: u32) -> Leaving {
        self.unlist(number);
        self.spans[number as usize].state = State::Leaving;
        self.leaving.span = number;
        self.leaving.granule = 0;
        self.leaving.free.fill(0);
        let mut count = 0;
        let mut granule = self.spans[number as usize].free;
        while granule != NO_GRANULE {
            self.leaving.note_free(granule);
            count += 1;
            let at = number as usize * SPAN_SIZE + usize::from(granule) * GRANULE;
            granule = next_free(&self.memory, at);
        }
        Leaving::Started { cost: 1 + count / 8 }
    }

    fn stop_leaving(&mut self) {
        let number = std::mem::replace(&mut self.leaving.span, NO_SPAN);
        let Span { live, class, .. } = self.spans[number as usize];
        self.list(number, group(live, usize::from(class)));
        self.leaving.class = (usize::from(class) + 1) % CLASS_COUNT;
    }
}
