//! The memory under entries and tables: size classes in spans of 64 KiB.
//!
//! ```text
//! region   | span 0: unused | span 1 | span 2 | span 3 | …          64 KiB each, touched only as the shard grows
//! span     | object | object | free ──┐ | object | free | untouched … |     objects of one class
//!                                └───── next free, u16 in granules ──┘
//! handle   32 bits: granules of 8 bytes from the region's start; 13 bits within the span, 19 bits of span number
//! ```
//! Handles below 8192 name no object, so that zero can mean "none" and the wheel can name its slots by small numbers.
//! New objects go into the fullest span that has room; a span that empties serves any class again. Spans that stay
//! sparse are emptied by compaction (`compact.rs`), empty ones above a reserve are handed to the outside for release.

mod leaving;

pub(crate) use self::leaving::Leaving;

use self::leaving::Leave;
use crate::budget::Budget;

use crate::region::Region;
use crate::width::narrow;
use std::ops::Range;

/// Bytes of a granule: every object begins at and fills a whole number of them.
pub(crate) const GRANULE: usize = 8;
/// Bytes of a span, and so of the largest object.
pub(crate) const SPAN_SIZE: usize = 64 << 10;
/// The first handle that may name an object.
pub(crate) const FIRST_HANDLE: u32 = 8192;
/// Granules of a span.
const SPAN_GRANULES: u16 = 8192;
/// A region's memory beyond this is not used: handles have 32 bits, and their last MiB marks buckets (`table`).
pub(crate) const REGION_SIZE_MAX: usize = (32 << 30) - (1 << 20);
/// Bytes of a table node.
pub(crate) const NODE_SIZE: usize = 64;
/// Granules of a node.
pub(crate) const NODE_GRANULES: u16 = 8;
/// Nodes that stand together.
pub(crate) const NODES_COUNT: u16 = 16;
/// Bytes of them.
pub(crate) const NODES_SIZE: u64 = NODES_COUNT as u64 * NODE_SIZE as u64;
/// Empty spans kept for the next growth before any is handed out for release: 1 MiB.
const EMPTY_KEPT: u32 = 16;
const PAGE_SIZE: usize = 4096;

const NO_SPAN: u32 = 0;
const NO_GRANULE: u16 = u16::MAX;

/// Objects up to this size have a class for each granule count.
const EXACT_SIZE_MAX: usize = 512;
const EXACT_COUNT: usize = EXACT_SIZE_MAX / GRANULE;
/// Above that, classes are the largest objects of which so many fit a span: at most an eighth is lost down to 8 KiB.
const PER_SPAN: [u16; 39] = [
    120, 112, 104, 96, 88, 80, 72, 64, 60, 56, 52, 48, 44, 40, 36, 32, 30, 28, 26, 24, 22, 20, 18, 16, 15,
    14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1,
];
const NODE_CLASS: usize = EXACT_COUNT + PER_SPAN.len();
/// Nodes that stand together, see [`Arena::alloc_nodes`].
const NODES_CLASS: usize = NODE_CLASS + 1;
const CLASS_COUNT: usize = NODES_CLASS + 1;
/// Spans with room are listed by eighths of fullness.
const GROUP_COUNT: usize = 8;

/// Granules of each class's objects.
const CLASS_GRANULES: [u16; CLASS_COUNT] = {
    let mut granules = [0; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        granules[class] = if class < EXACT_COUNT {
            #[expect(clippy::cast_possible_truncation, reason = "there are 64 exact classes")]
            let exact = class as u16 + 1;
            exact
        } else if class < NODE_CLASS {
            SPAN_GRANULES / PER_SPAN[class - EXACT_COUNT]
        } else {
            if class == NODE_CLASS { NODE_GRANULES } else { NODES_COUNT * NODE_GRANULES }
        };
        class += 1;
    }
    granules
};

/// The class whose objects hold `size` bytes, which is at most [`SPAN_SIZE`].
#[inline]
fn class_of(size: usize) -> usize {
    if size <= EXACT_SIZE_MAX {
        size.div_ceil(GRANULE).max(1) - 1
    } else {
        assert!(size <= SPAN_SIZE, "an object fits a span");
        EXACT_COUNT
            + CLASS_GRANULES[EXACT_COUNT..NODE_CLASS].partition_point(|&g| usize::from(g) * GRANULE < size)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Holds nothing; its pages may be resident.
    Empty,
    /// Holds nothing; its pages are the kernel's until touched.
    Cold,
    /// Handed out for release.
    Lent,
    /// Its class takes from here.
    Current,
    /// Every object is taken.
    Full,
    /// Has room, listed by its eighth of fullness.
    Partial(u8),
    /// Being emptied: nothing is taken from here.
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    prev: u32,
    next: u32,
    /// Objects taken.
    live: u16,
    /// Granules handed out at least once; what lies behind was not touched for this class.
    bump: u16,
    /// First free object below `bump`, in granules.
    free: u16,
    class: u8,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    current: u32,
    /// Heads of the lists of partial spans.
    partial: [u32; GROUP_COUNT],
    spans: u32,
    live: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Region,
    spans: Vec<Span>,
    span_limit: usize,
    classes: [Class; CLASS_COUNT],
    empty: u32,
    empty_count: u32,
    cold: u32,
    cold_count: u32,
    lent_count: u32,
    /// The span being touched page by page ahead of need, and how many of its bytes are done.
    warming: Option<(u32, usize)>,
    leaving: Leave,

    used: u64,
}

/// The region has no room for another object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Arena {
    pub(crate) fn new(memory: Region) -> Arena {
        let span_limit = memory.len().min(REGION_SIZE_MAX) / SPAN_SIZE;
        // Reserved once, so that it never moves; the allocator backs it only as spans come into use.
        let mut spans = Vec::with_capacity(span_limit.max(1));
        spans.push(Span::new());
        let class = Class { current: NO_SPAN, partial: [NO_SPAN; GROUP_COUNT], spans: 0, live: 0 };
        Arena {
            memory,
            spans,
            span_limit,
            classes: [class; CLASS_COUNT],
            empty: NO_SPAN,
            empty_count: 0,
            cold: NO_SPAN,
            cold_count: 0,
            lent_count: 0,
            warming: None,
            leaving: Leave::new(),
            used: 0,
        }
    }

    /// Room for `size` bytes, at most [`SPAN_SIZE`]. Its bytes are what was there before.
    #[inline]
    pub(crate) fn alloc(&mut self, size: usize) -> Result<u32, NoRoom> {
        self.alloc_class(class_of(size))
    }

    /// Room for a table node: 64 bytes on a cache line of their own.
    #[inline]
    pub(crate) fn alloc_node(&mut self) -> Result<u32, NoRoom> {
        self.alloc_class(NODE_CLASS)
    }

    /// Room for [`NODES_COUNT`] nodes, one behind another. It stays where it is; whoever has it counts it.
    pub(crate) fn alloc_nodes(&mut self) -> Result<u32, NoRoom> {
        let first = self.alloc_class(NODES_CLASS)?;
        self.used -= NODES_SIZE;
        Ok(first)
    }

    /// Gives it back.
    pub(crate) fn free_nodes(&mut self, first: u32) {
        self.used += NODES_SIZE;
        self.free(first);
    }

    fn alloc_class(&mut self, class: usize) -> Result<u32, NoRoom> {
        let granules = CLASS_GRANULES[class];
        loop {
            let number = self.classes[class].current;
            if number != NO_SPAN {
                let span = &mut self.spans[number as usize];
                let granule = if span.free != NO_GRANULE {
                    let granule = span.free;
                    let at = number as usize * SPAN_SIZE + usize::from(granule) * GRANULE;
                    span.free = next_free(&self.memory, at);
                    granule
                } else if span.bump + granules <= SPAN_GRANULES {
                    let granule = span.bump;
                    span.bump += granules;
                    granule
                } else {
                    self.refill(class)?;
                    continue;
                };
                span.live += 1;
                self.classes[class].live += 1;
                self.used += u64::from(granules) * GRANULE as u64;
                return Ok(number << 13 | u32::from(granule));
            }
            self.refill(class)?;
        }
    }

    /// Gives the class a current span with room: the fullest of its own, else one that holds nothing.
    #[cold]
    fn refill(&mut self, class: usize) -> Result<(), NoRoom> {
        let partial = self.classes[class].partial.iter().rev().find(|&&head| head != NO_SPAN);
        let number = match partial {
            Some(&number) => {
                self.unlist(number);
                number
            }
            None => {
                let number = self.take_span().ok_or(NoRoom)?;
                self.spans[number as usize].class =
                    u8::try_from(class).expect("there are fewer than 256 classes");
                self.classes[class].spans += 1;
                number
            }
        };
        let before = std::mem::replace(&mut self.classes[class].current, number);
        if before != NO_SPAN {
            self.spans[before as usize].state = State::Full;
        }
        self.spans[number as usize].state = State::Current;
        Ok(())
    }

    /// Gives an object back.
    pub(crate) fn free(&mut self, handle: u32) {
        let number = handle >> 13;
        let at = handle as usize * GRANULE;
        let span = &mut self.spans[number as usize];
        assert!(span.live > 0, "a freed object was taken");
        self.memory.bytes_mut(at, 2).copy_from_slice(&span.free.to_le_bytes());
        span.free = span_granule(handle);
        span.live -= 1;
        let class = usize::from(span.class);
        let (live, state) = (span.live, span.state);
        if live == 0 {
            span.free = NO_GRANULE;
            span.bump = 0;
        }
        self.classes[class].live -= 1;
        if class != NODES_CLASS {
            self.leaving.suspect(class);
        }
        self.used -= u64::from(CLASS_GRANULES[class]) * GRANULE as u64;
        match state {
            State::Current => {}
            State::Full if live == 0 => self.retire_span(number),
            State::Full => self.list(number, group(live, class)),
            State::Partial(_) if live == 0 => {
                self.unlist(number);
                self.retire_span(number);
            }
            State::Partial(before) => {
                let now = group(live, class);
                if now != before {
                    self.unlist(number);
                    self.list(number, now);
                }
            }
            State::Leaving => {
                self.leaving.note_free(span_granule(handle));
                if live == 0 {
                    self.leaving.span = NO_SPAN;
                    self.retire_span(number);
                }
            }
            State::Empty | State::Cold | State::Lent => unreachable!("a freed object's span holds objects"),
        }
    }

    /// Bytes that an object of this handle may use.
    pub(crate) fn room(&self, handle: u32) -> usize {
        usize::from(CLASS_GRANULES[usize::from(self.spans[(handle >> 13) as usize].class)]) * GRANULE
    }

    /// Whether an object of `size` bytes lies in the class that this handle's object has.
    #[inline]
    pub(crate) fn fits(&self, handle: u32, size: usize) -> bool {
        class_of(size) == usize::from(self.spans[(handle >> 13) as usize].class)
    }

    fn list(&mut self, number: u32, group: u8) {
        let class = usize::from(self.spans[number as usize].class);
        let head = std::mem::replace(&mut self.classes[class].partial[usize::from(group)], number);
        let span = &mut self.spans[number as usize];
        span.state = State::Partial(group);
        span.prev = NO_SPAN;
        span.next = head;
        if head != NO_SPAN {
            self.spans[head as usize].prev = number;
        }
    }

    fn unlist(&mut self, number: u32) {
        let Span { prev, next, class, state, .. } = self.spans[number as usize];
        let State::Partial(group) = state else { unreachable!("only partial spans are listed") };
        if prev == NO_SPAN {
            self.classes[usize::from(class)].partial[usize::from(group)] = next;
        } else {
            self.spans[prev as usize].next = next;
        }
        if next != NO_SPAN {
            self.spans[next as usize].prev = prev;
        }
    }

    fn retire_span(&mut self, number: u32) {
        let span = &mut self.spans[number as usize];
        self.classes[usize::from(span.class)].spans -= 1;
        span.state = State::Empty;
        span.next = std::mem::replace(&mut self.empty, number);
        self.empty_count += 1;
    }

    /// A span that holds nothing: resident before released, released before never touched.
    fn take_span(&mut self) -> Option<u32> {
        let number = if self.empty != NO_SPAN {
            self.empty_count -= 1;
            let next = self.spans[self.empty as usize].next;
            std::mem::replace(&mut self.empty, next)
        } else if let Some((number, _)) = self.warming.take() {
            number
        } else {
            self.cold_span()?
        };
        Some(number)
    }

    fn cold_span(&mut self) -> Option<u32> {
        if self.cold != NO_SPAN {
            self.cold_count -= 1;
            let next = self.spans[self.cold as usize].next;
            return Some(std::mem::replace(&mut self.cold, next));
        }
        if self.spans.len() >= self.span_limit {
            return None;
        }
        self.spans.push(Span::new());
        Some(narrow(self.spans.len() - 1))
    }

    /// Touches the pages of the span that growth takes next, one element and one page of bytes a step. Says whether
    /// more is to be done.
    pub(crate) fn warm(&mut self, budget: &mut Budget) -> bool {
        if self.empty != NO_SPAN || self.used == 0 {
            return false;
        }
        let Some((number, mut done)) =
            self.warming.take().or_else(|| self.cold_span().map(|number| (number, 0)))
        else {
            return false;
        };
        while done < SPAN_SIZE && !budget.is_spent() {
            self.memory.bytes_mut(number as usize * SPAN_SIZE + done, 1)[0] = 0;
            done += PAGE_SIZE;
            budget.spend(1, PAGE_SIZE);
        }
        self.warming = Some((number, done));
        done < SPAN_SIZE
    }

    /// A range of empty spans above the reserve, in bytes from the region's start, whose pages the outside may let
    /// go. The range is unused until it comes back through [`Arena::reclaim`].
    pub(crate) fn released(&mut self) -> Option<Range<usize>> {
        if self.empty_count <= EMPTY_KEPT {
            return None;
        }
        let number = self.take_span()?;
        self.spans[number as usize].state = State::Lent;
        self.lent_count += 1;
        let start = number as usize * SPAN_SIZE;
        Some(start..start + SPAN_SIZE)
    }

    /// Takes back a range from [`Arena::released`]; its bytes may have any value.
    pub(crate) fn reclaim(&mut self, range: Range<usize>) {
        let number = narrow(range.start / SPAN_SIZE);
        let span = &mut self.spans[number as usize];
        assert!(
            span.state == State::Lent && range.len() == SPAN_SIZE,
            "a range comes back as it was released"
        );
        span.state = State::Cold;
        span.next = std::mem::replace(&mut self.cold, number);
        self.cold_count += 1;
        self.lent_count -= 1;
    }

    /// Where the region ends that was ever in use, in bytes from its start: what grows grows from there.
    pub(crate) fn frontier(&self) -> usize {
        self.spans.len() * SPAN_SIZE
    }

    /// Bytes of all objects, each rounded up to its class, but for nodes that stand together.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of the spans in use or resident: what the region costs, at most.
    pub(crate) fn resident(&self) -> u64 {
        let elsewhere = u64::from(self.cold_count) + u64::from(self.lent_count);
        (self.spans.len() as u64 - 1 - elsewhere) * SPAN_SIZE as u64
    }

    #[inline(always)]
    pub(crate) fn bytes(&self, handle: u32, range: Range<usize>) -> &[u8] {
        let at = handle as usize * GRANULE;
        self.memory.bytes(at + range.start, range.len())
    }

    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, handle: u32, range: Range<usize>) -> &mut [u8] {
        let at = handle as usize * GRANULE;
        self.memory.bytes_mut(at + range.start, range.len())
    }

    /// Copies a range of one object to an offset in another.
    pub(crate) fn copy_range(&mut self, from: u32, range: Range<usize>, to: u32, offset: usize) {
        let from = from as usize * GRANULE;
        let to = to as usize * GRANULE + offset;
        self.memory.copy(from + range.start, to, range.len());
    }

    #[inline(always)]
    pub(crate) fn array<const N: usize>(&self, handle: u32, offset: usize) -> &[u8; N] {
        let at = handle as usize * GRANULE + offset;
        self.memory.bytes(at, N).first_chunk().expect("N bytes were asked for")
    }

    #[inline(always)]
    pub(crate) fn array_mut<const N: usize>(&mut self, handle: u32, offset: usize) -> &mut [u8; N] {
        let at = handle as usize * GRANULE + offset;
        self.memory.bytes_mut(at, N).first_chunk_mut().expect("N bytes were asked for")
    }

    /// Asks the memory for the line that this lies in.
    #[inline(always)]
    pub(crate) fn prefetch(&self, handle: u32, offset: usize) {
        self.memory.prefetch(handle as usize * GRANULE + offset);
    }

    #[inline(always)]
    pub(crate) fn u32(&self, handle: u32, offset: usize) -> u32 {
        u32::from_le_bytes(*self.array(handle, offset))
    }

    #[inline(always)]
    pub(crate) fn set_u32(&mut self, handle: u32, offset: usize, value: u32) {
        *self.array_mut(handle, offset) = value.to_le_bytes();
    }
}

impl Arena {
    /// Asserts that lists, states and counts of spans agree.
    pub(crate) fn audit(&self) {
        let (mut used, mut empty, mut lent) = (0, 0, 0);
        let mut live = [0; CLASS_COUNT];
        let mut spans = [0; CLASS_COUNT];
        for (number, span) in self.spans.iter().enumerate().skip(1) {
            let class = usize::from(span.class);
            let granules = CLASS_GRANULES[class];
            let holds = match span.state {
                State::Empty | State::Cold => {
                    empty += 1;
                    false
                }
                State::Lent => {
                    lent += 1;
                    false
                }
                State::Current => {
                    assert_eq!(self.classes[class].current as usize, number, "a class has one current span");
                    true
                }
                State::Full => {
                    assert_eq!(span.live, SPAN_GRANULES / granules, "a full span has no room");
                    true
                }
                State::Partial(listed) => {
                    assert_eq!(listed, group(span.live, class), "a span is listed by its fullness");
                    true
                }
                State::Leaving => {
                    assert_eq!(self.leaving.span as usize, number, "one span is being emptied");
                    true
                }
            };
            assert!(holds || span.live == 0, "a span that serves no class holds nothing");
            if !holds {
                continue;
            }
            live[class] += u64::from(span.live);
            spans[class] += 1;
            if class != NODES_CLASS {
                used += u64::from(span.live) * u64::from(granules) * GRANULE as u64;
            }
            let mut free = 0;
            let mut granule = span.free;
            while granule != NO_GRANULE {
                assert!(
                    granule < span.bump && granule.is_multiple_of(granules),
                    "a free object lies on its grid"
                );
                free += 1;
                let at = number * SPAN_SIZE + usize::from(granule) * GRANULE;
                granule = next_free(&self.memory, at);
            }
            assert_eq!(span.bump / granules, span.live + free, "an object is taken or free");
        }
        assert_eq!(used, self.used, "used bytes are the sum of objects");
        assert_eq!(lent, self.lent_count, "lent spans are counted");
        let listed = [self.empty, self.cold].map(|head| self.list_len(head)).iter().sum::<u32>();
        assert_eq!(
            empty,
            listed + u32::from(self.warming.is_some()),
            "a span that holds nothing is in one list"
        );
        assert_eq!(self.list_len(self.empty), self.empty_count, "empty spans are counted");
        for (class, state) in self.classes.iter().enumerate() {
            assert_eq!(
                (live[class], spans[class]),
                (state.live, state.spans),
                "a class counts its spans and objects"
            );
        }
    }

    fn list_len(&self, head: u32) -> u32 {
        let mut count = 0;
        let mut number = head;
        while number != NO_SPAN {
            count += 1;
            number = self.spans[number as usize].next;
        }
        count
    }
}

impl Span {
    fn new() -> Span {
        Span {
            prev: NO_SPAN,
            next: NO_SPAN,
            live: 0,
            bump: 0,
            free: NO_GRANULE,
            class: 0,
            state: State::Empty,
        }
    }
}

/// The free object after the one at this place, in granules of its span.
fn next_free(memory: &Region, at: usize) -> u16 {
    u16::from_le_bytes(*memory.bytes(at, 2).first_chunk().expect("two bytes were asked for"))
}

/// Where an object lies in its span.
const fn span_granule(handle: u32) -> u16 {
    (handle & 0x1fff) as u16
}

/// Which eighth of its room a span has filled.
fn group(live: u16, class: usize) -> u8 {
    let capacity = u32::from(SPAN_GRANULES / CLASS_GRANULES[class]);
    u8::try_from(u32::from(live) * 8 / capacity).expect("eighths are below 8 for a span with room").min(7)
}
