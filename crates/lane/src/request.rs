//! A command's arguments: as a view of the bytes they came in, or owned.
//!
//! No view survives a turn, so a command that is not over in its first step owns its arguments ([`Request`]).
//! Nothing of it is large in one piece: arguments come in pages of [`ARGS_PER_PAGE`], small ones packed together, long
//! ones as ropes.

#[cfg(debug_assertions)]
use std::cell::Cell;

use store::{Rope, RopeBuilder};
use wire::resp::ArgRanges;

/// Arguments in one page of a request. A page's packed bytes stay within `ARGS_PER_PAGE * PACKED_SIZE_MAX` = 64 KiB.
const ARGS_PER_PAGE: usize = 128;
/// What a page takes beside its arguments, bytes: its head, and what vectors of few elements hold in reserve.
const PAGE_SIZE: usize = 256;
/// The same of the first, whose head is a part of its request.
const FIRST_PAGE_SIZE: usize = 48;
/// Longer arguments get an allocation of their own instead of growing the page.
const PACKED_SIZE_MAX: usize = 512;
/// Longer arguments are ropes: the same bound above which the store keeps a value as a rope.
pub(crate) const FLAT_SIZE_MAX: usize = 32 * 1024;

#[cfg(debug_assertions)]
thread_local! {
    static LOOKED_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Arguments of owned commands that this thread has looked at, each time counted. For tests of what a turn costs; builds without
/// debug assertions don't count.
pub fn args_looked_at() -> u64 {
    #[cfg(debug_assertions)]
    return LOOKED_COUNT.get();
    #[cfg(not(debug_assertions))]
    return 0;
}

/// One argument.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// In one piece, at most [`FLAT_SIZE_MAX`] long.
    Flat(&'a [u8]),
    /// Longer.
    Rope(&'a Rope),
}

impl<'a> Arg<'a> {
    /// The bytes, if they are in one piece: keys, numbers and options are never longer.
    #[inline]
    pub(crate) fn flat(self) -> Option<&'a [u8]> {
        match self {
            Arg::Flat(bytes) => Some(bytes),
            Arg::Rope(_) => None,
        }
    }

    /// So many of the first bytes, of a rope at most its first chunk.
    pub(crate) fn front(self, size_max: usize) -> Vec<u8> {
        match self {
            Arg::Flat(bytes) => bytes[..bytes.len().min(size_max)].to_vec(),
            Arg::Rope(rope) => {
                let chunk = rope.chunk(0);
                let bytes: &[u8] = chunk.as_ref().as_ref();
                bytes[..bytes.len().min(size_max)].to_vec()
            }
        }
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn size(self) -> usize {
        match self {
            Arg::Flat(bytes) => bytes.len(),
            Arg::Rope(rope) => rope.len(),
        }
    }
}

/// The arguments of one command, its name first, from wherever they are.
#[derive(Clone, Copy)]
pub(crate) enum Args<'a> {
    /// In a client's input.
    View {
        /// The frame.
        input: &'a [u8],
        /// Where its arguments are.
        ranges: &'a ArgRanges,
    },
    /// In an ask's frame on a ring.
    Frame {
        /// Where each argument ends, little-endian; the next one begins there.
        ends: &'a [[u8; 4]],
        /// Their bytes.
        bytes: &'a [u8],
    },
    /// Owned.
    Owned(&'a Request),
}

impl<'a> Args<'a> {
    /// How many, the command's name included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Args::View { ranges, .. } => ranges.len(),
            Args::Frame { ends, .. } => ends.len(),
            Args::Owned(request) => request.len(),
        }
    }

    /// The argument at `index`, which is below `len`.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Arg<'a> {
        match self {
            Args::View { input, ranges } => Arg::Flat(ranges.get(index, input)),
            Args::Frame { ends, bytes } => {
                let end = |index: usize| u32::from_le_bytes(ends[index]) as usize;
                let start = if index == 0 { 0 } else { end(index - 1) };
                Arg::Flat(&bytes[start..end(index)])
            }
            Args::Owned(request) => request.get(index),
        }
    }

    /// The argument at `index` in one piece; a rope, which no key, number or option is, reads as empty.
    #[inline]
    pub(crate) fn flat(&self, index: usize) -> &'a [u8] {
        self.get(index).flat().unwrap_or_default()
    }

    /// Length in bytes of all of them together.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Args::View { ranges, .. } => ranges.size(),
            Args::Frame { ends, .. } => ends.last().map_or(0, |end| u32::from_le_bytes(*end) as usize),
            Args::Owned(request) => request.args_size,
        }
    }

    /// Calls `take` with each of them in order. They are in one piece each.
    #[inline]
    pub(crate) fn each_flat(&self, mut take: impl FnMut(&[u8])) {
        match self {
            Args::View { input, ranges } => ranges.iter(input).for_each(take),
            _ => (0..self.len()).for_each(|index| take(self.flat(index))),
        }
    }

    /// A copy that outlives the turn.
    pub(crate) fn to_request(self) -> Request {
        let mut request = Request::with_room(self.len(), self.size());
        for index in 0..self.len() {
            request.push(self.get(index));
        }
        request
    }
}

enum Slot {
    Packed { start: u32, end: u32 },
    Boxed(Box<[u8]>),
    Rope(Rope),
}

#[derive(Default)]
struct Page {
    slots: Vec<Slot>,
    packed: Vec<u8>,
    has_rope: bool,
}

/// A command with its arguments owned.
#[derive(Default)]
pub(crate) struct Request {
    /// Most have one page.
    first: Page,
    others: Vec<Page>,
    size: usize,
    /// Bytes of the arguments alone.
    args_size: usize,
}

impl Request {
    /// An empty one for so many arguments, of so many bytes together. Room is made for what is short.
    pub(crate) fn with_room(count: usize, size: usize) -> Request {
        let mut request = Request::default();
        if size <= PACKED_SIZE_MAX {
            request.first.slots.reserve_exact(count.min(ARGS_PER_PAGE));
            request.first.packed.reserve_exact(size);
        }
        request
    }

    /// One whose arguments are at hand in one piece each, however long.
    pub(crate) fn of_words<'a>(words: impl Iterator<Item = &'a [u8]> + Clone) -> Request {
        let sizes = words.clone().map(<[u8]>::len);
        let mut request = Request::with_room(sizes.clone().count(), sizes.sum());
        for word in words {
            if word.len() <= FLAT_SIZE_MAX {
                request.push(Arg::Flat(word));
            } else {
                let mut rope = RopeBuilder::new();
                rope.push(word);
                request.push_rope(rope.finish());
            }
        }
        request
    }

    /// How many arguments, the command's name included.
    pub(crate) fn len(&self) -> usize {
        self.others.len() * ARGS_PER_PAGE + self.others.last().unwrap_or(&self.first).slots.len()
    }

    /// What it counts for in its client's memory, bytes: its arguments and what keeps them apart.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The argument at `index`, which is below `len`.
    pub(crate) fn get(&self, index: usize) -> Arg<'_> {
        #[cfg(debug_assertions)]
        LOOKED_COUNT.set(LOOKED_COUNT.get() + 1);
        let page = match index / ARGS_PER_PAGE {
            0 => &self.first,
            number => &self.others[number - 1],
        };
        match &page.slots[index % ARGS_PER_PAGE] {
            Slot::Packed { start, end } => Arg::Flat(&page.packed[*start as usize..*end as usize]),
            Slot::Boxed(bytes) => Arg::Flat(bytes),
            Slot::Rope(rope) => Arg::Rope(rope),
        }
    }

    /// Appends an argument: bytes are copied, a rope is shared.
    pub(crate) fn push(&mut self, arg: Arg<'_>) {
        match arg {
            Arg::Rope(rope) => self.push_rope(rope.clone()),
            Arg::Flat(bytes) if bytes.len() > PACKED_SIZE_MAX => {
                self.count_in(bytes.len());
                self.page().slots.push(Slot::Boxed(bytes.into()));
            }
            Arg::Flat(bytes) => {
                self.count_in(bytes.len());
                let page = self.page();
                let offset = |at: usize| u32::try_from(at).expect("a page packs at most 64 KiB");
                let start = offset(page.packed.len());
                page.packed.extend_from_slice(bytes);
                let end = offset(page.packed.len());
                page.slots.push(Slot::Packed { start, end });
            }
        }
    }

    /// Appends an argument that came as a rope.
    pub(crate) fn push_rope(&mut self, rope: Rope) {
        self.count_in(rope.room());
        let page = self.page();
        page.has_rope = true;
        page.slots.push(Slot::Rope(rope));
    }

    fn count_in(&mut self, size: usize) {
        self.size += size_of::<Slot>() + size;
        self.args_size += size;
    }

    /// The indices of those that are ropes. Pages without one are passed over.
    pub(crate) fn ropes(&self) -> impl Iterator<Item = usize> {
        let pages = std::iter::once(&self.first).chain(&self.others);
        let pages = pages.enumerate().filter(|(_, page)| page.has_rope);
        pages.flat_map(|(number, page)| {
            let slots = page.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Rope(_)));
            slots.map(move |(index, _)| number * ARGS_PER_PAGE + index)
        })
    }

    /// The page that takes the next argument.
    fn page(&mut self) -> &mut Page {
        let count = self.others.last().unwrap_or(&self.first).slots.len();
        if count == ARGS_PER_PAGE {
            self.others.push(Page::default());
        }
        if count == ARGS_PER_PAGE || count == 0 {
            self.size += if count == 0 { FIRST_PAGE_SIZE } else { PAGE_SIZE };
        }
        self.others.last_mut().unwrap_or(&mut self.first)
    }

    /// Whether it is so small that it may simply be dropped.
    pub(crate) fn is_light(&self) -> bool {
        self.others.is_empty() && self.size <= FLAT_SIZE_MAX
    }

    /// Pages that [`Request::drop_page`] has to drop.
    pub(crate) fn page_count(&self) -> usize {
        self.others.len() + usize::from(!self.first.slots.is_empty())
    }

    /// Drops one page, handing its ropes to `retire`; false when none is left. For requests that are not light.
    pub(crate) fn drop_page(&mut self, retire: &mut impl FnMut(Rope)) -> bool {
        let page = self.others.pop().unwrap_or_else(|| std::mem::take(&mut self.first));
        if page.slots.is_empty() {
            return false;
        }
        for slot in page.slots {
            if let Slot::Rope(rope) = slot {
                retire(rope);
            }
        }
        true
    }
}

/// A frame that is too large to look at whole, gathered argument by argument as its bytes arrive.
#[derive(Default)]
pub(crate) struct Gather {
    request: Request,
    /// The argument under way: how many of its bytes are still to come, and those that came.
    left: usize,
    flat: Vec<u8>,
    rope: Option<RopeBuilder>,
    is_whole: bool,
}

impl Gather {
    /// The next argument begins, `size` bytes long. Memory follows the bytes received, not the size announced.
    pub(crate) fn begin(&mut self, size: usize) {
        self.left = size;
        if size > FLAT_SIZE_MAX {
            self.rope = Some(RopeBuilder::new());
        }
        self.end_if_whole();
    }

    /// The next bytes of the argument under way.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.left = self.left.checked_sub(bytes.len()).expect("a token never exceeds its argument");
        match &mut self.rope {
            Some(rope) => rope.push(bytes),
            None => self.flat.extend_from_slice(bytes),
        }
        self.end_if_whole();
    }

    fn end_if_whole(&mut self) {
        if self.left > 0 {
            return;
        }
        match self.rope.take() {
            Some(rope) => self.request.push_rope(rope.finish()),
            None => {
                self.request.push(Arg::Flat(&self.flat));
                self.flat.clear();
            }
        }
    }

    /// Bytes held so far.
    pub(crate) fn size(&self) -> usize {
        self.request.size() + self.flat.len() + self.rope.as_ref().map_or(0, RopeBuilder::len)
    }

    /// A command that is whole already and could not begin yet.
    pub(crate) fn of(request: Request) -> Gather {
        Gather { request, is_whole: true, ..Gather::default() }
    }

    /// Whether it is complete: made by [`Gather::of`].
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The whole command.
    pub(crate) fn finish(self) -> Request {
        assert!(self.left == 0, "a frame ends after its last argument");
        self.request
    }

    /// What there is of it, for freeing in steps when its client has gone.
    pub(crate) fn abandon(mut self) -> Request {
        if let Some(rope) = self.rope.take() {
            self.request.push_rope(rope.finish());
        }
        self.request
    }
}
