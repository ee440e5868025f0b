//! Pages that come before a lane needs them, and go when it no longer does.
//!
//! ```text
//! lane                                      this thread
//! grows towards a range ───────────────────▶ madvise(POPULATE_WRITE), of huge pages if they are wanted
//! a span is empty ─────── its range ───────▶ madvise(DONTNEED)
//! takes it back  ◀─────── the same range ─── ring the lane's bell
//! ```
//! Both take the kernel time in proportion to the pages, a huge one hundreds of microseconds and more, so neither is a lane's
//! business. What a lane lends it does not touch until it is back; the addresses stay reserved. What is brought early may be touched
//! meanwhile: a lane that grows faster finds small pages, and waits for each. Where the thread has no cpu without a lane, the lane goes first.

use std::hint::cold_path;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use lane::Lane;
use net::Bell;

use crate::control::{self, Level};
use crate::region::HUGE_PAGE_SIZE;

/// Ranges that one lane has lent at a time.
const LENT_COUNT_MAX: usize = 16;
/// Pages are there so far ahead of a lane's frontier: a sixty-fourth of what it has, within these bounds, in bytes. So an
/// empty lane costs one huge page, and one that has something that share and the rest of a huge page. A lane that grows by 100 MB
/// a second leaves the thread milliseconds for what takes it a few tenths of one; one that grows by all that a turn may bring in each
/// of its turns may find small pages while it has little.
const AHEAD_MIN: usize = 256 << 10;
const AHEAD_MAX: usize = 64 << 20;
const AHEAD_SHARE: usize = 64;

/// Something to be done with a range of a lane's memory, in bytes from its start.
#[derive(Debug)]
pub(crate) struct Errand {
    lane: usize,
    what: What,
    range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Its pages are to be there.
    Bring,
    /// They may go.
    Release,
}

/// The lane's end.
pub(crate) struct Outlet {
    id: usize,
    size: usize,
    lent_count: usize,
    /// Where that ends of which pages were asked for.
    brought: usize,
    is_bringing: bool,
    /// Where the lane had grown to when nothing more was to be brought.
    frontier: Option<usize>,
    errands: SyncSender<Errand>,
    done: Receiver<(What, Range<usize>)>,
}

/// The thread's end of one lane's outlet.
pub(crate) struct Inlet {
    /// Address of the lane's memory.
    base: usize,
    done: SyncSender<(What, Range<usize>)>,
}

/// What lanes want done, and where it is received. The queue has room for all that all lanes may want.
pub(crate) fn queue(lanes_count: usize) -> (SyncSender<Errand>, Receiver<Errand>) {
    mpsc::sync_channel(lanes_count * (LENT_COUNT_MAX + 1))
}

/// The two ends of lane `id`, whose memory of `size` bytes begins at address `base`. Its first pages are there then; where the
/// kernel brings none, the thread finds out and says so.
pub(crate) fn outlet(
    id: usize,
    base: usize,
    size: usize,
    huge_pages: bool,
    errands: SyncSender<Errand>,
) -> (Outlet, Inlet) {
    let (send_done, done) = mpsc::sync_channel(LENT_COUNT_MAX + 1);
    let first = ahead(0, 0, size).unwrap_or_default();
    let brought = bring(base, &first, huge_pages).map_or(0, |()| first.end);
    let outlet =
        Outlet { id, size, lent_count: 0, brought, is_bringing: false, frontier: None, errands, done };
    (outlet, Inlet { base, done: send_done })
}

impl Outlet {
    /// Takes back what has come back, lends what is not needed, and has pages brought to where the lane grows. A lane that wants
    /// nothing pays two looks.
    pub(crate) fn turn(&mut self, lane: &mut Lane) {
        while (self.lent_count > 0 || self.is_bringing)
            && let Ok((what, range)) = self.done.try_recv()
        {
            match what {
                What::Bring => self.is_bringing = false,
                What::Release => {
                    lane.reclaim(range);
                    self.lent_count -= 1;
                }
            }
        }
        if !self.is_bringing && self.frontier != Some(lane.frontier()) {
            cold_path();
            self.bring_ahead(lane.frontier());
        }
        while self.lent_count < LENT_COUNT_MAX
            && let Some(range) = lane.released()
        {
            self.lent_count += 1;
            self.send(What::Release, range);
        }
    }

    fn bring_ahead(&mut self, frontier: usize) {
        match ahead(frontier, self.brought, self.size) {
            Some(range) => {
                self.brought = range.end;
                self.is_bringing = true;
                self.send(What::Bring, range);
            }
            None => self.frontier = Some(frontier),
        }
    }

    fn send(&self, what: What, range: Range<usize>) {
        self.errands
            .send(Errand { lane: self.id, what, range })
            .expect("the queue has room for all that is wanted, and its end lives");
    }
}

/// What is to be brought next for a lane that has grown to `frontier`, when pages were asked for up to `brought`.
fn ahead(frontier: usize, brought: usize, size: usize) -> Option<Range<usize>> {
    let wanted = frontier + (frontier / AHEAD_SHARE).clamp(AHEAD_MIN, AHEAD_MAX);
    if wanted <= brought || brought >= size {
        return None;
    }
    // What the lane has outgrown has its pages.
    let start = brought.max(frontier - frontier % HUGE_PAGE_SIZE);
    let end = wanted.next_multiple_of(HUGE_PAGE_SIZE).min(size);
    (start < end).then_some(start..end)
}

/// Starts the thread. It ends with the process.
pub(crate) fn start(
    errands: Receiver<Errand>,
    inlets: Vec<Inlet>,
    bells: Vec<Bell>,
    huge_pages: bool,
    gives_way: bool,
) -> Result<(), String> {
    let run = move || {
        if gives_way && let Err(error) = give_way() {
            let text = format!("the thread that pages memory can't give way to lanes on its core: {error}");
            control::log(Level::Warn, &text);
        }
        let mut is_able = true;
        for Errand { lane, what, range } in errands {
            let inlet = &inlets[lane];
            match what {
                What::Bring if is_able => {
                    if let Err(error) = bring(inlet.base, &range, huge_pages) {
                        is_able = false;
                        let text = format!(
                            "pages can't be brought before they are needed: {error} (Linux 5.14 has it); lanes wait for each"
                        );
                        control::log(Level::Warn, &text);
                    }
                }
                What::Bring => {}
                What::Release => {
                    if let Err(error) = advise(inlet.base, &range, libc::MADV_DONTNEED) {
                        let text = format!("memory can't be given back to the system: {error}");
                        control::log(Level::Warn, &text);
                    }
                }
            }
            // Its queue has room for all that the lane waits for.
            if inlet.done.send((what, range)).is_err() {
                return;
            }
            if what == What::Release {
                bells[lane].ring();
            }
        }
    };
    thread::Builder::new()
        .name("paging".to_owned())
        .spawn(run)
        .map(|_| ())
        .map_err(|error| format!("the thread that pages memory in and out can't be started: {error}"))
}

/// Lets everybody else on this core go first (SCHED_IDLE): on a core that a lane has too, the lane waits for what the kernel does not
/// interrupt of a page, and not for a time slice. A lane that leaves no time finds small pages.
pub(crate) fn give_way() -> io::Result<()> {
    // SAFETY: a struct of integers, of which zeros are a value; the call reads it, and 0 is the calling thread.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &std::mem::zeroed::<libc::sched_param>()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the pages of a range be there, huge ones where the kernel has them and they are wanted.
fn bring(base: usize, range: &Range<usize>, huge_pages: bool) -> io::Result<()> {
    if huge_pages {
        // A kernel without huge pages refuses this, and brings small ones.
        let _ = advise(base, range, libc::MADV_HUGEPAGE);
    }
    let brought = advise(base, range, libc::MADV_POPULATE_WRITE);
    if huge_pages && brought.is_err() {
        // Then the lane itself would have to wait for them.
        let _ = advise(base, range, libc::MADV_NOHUGEPAGE);
    }
    brought
}

fn advise(base: usize, range: &Range<usize>, advice: libc::c_int) -> io::Result<()> {
    let address = ptr::with_exposed_provenance_mut::<libc::c_void>(base + range.start);
    // SAFETY: the range lies in the lane's region. To bring pages changes no content, whoever uses it; what may go has been lent by
    // the shard: nobody reads or writes it until it is back, and then expects any content.
    let result = unsafe { libc::madvise(address, range.len(), advice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region;

    const MIB: usize = 1 << 20;

    #[test]
    fn pages_are_asked_for_ahead_of_the_frontier() {
        let check = |frontier: usize, brought: usize, want: Option<Range<usize>>| {
            let range = ahead(frontier * MIB, brought * MIB, 2048 * MIB);
            assert_eq!(range, want.map(|it| it.start * MIB..it.end * MIB), "{frontier} of {brought} MiB");
        };
        check(0, 0, Some(0..2));
        check(1, 2, None);
        check(2, 2, Some(2..4));
        check(3, 4, None);
        // A little at least, a share of what there is, and not more than so much.
        assert_eq!(ahead(2 * MIB - AHEAD_MIN, 2 * MIB, 2048 * MIB), None);
        assert_eq!(ahead(2 * MIB - AHEAD_MIN + 1, 2 * MIB, 2048 * MIB), Some(2 * MIB..4 * MIB));
        check(63, 64, None);
        check(640, 640, Some(640..650));
        check(640, 650, None);
        check(1900, 1900, Some(1900..1930));
        assert_eq!(ahead(8192 * MIB, 8192 * MIB, 9000 * MIB), Some(8192 * MIB..8256 * MIB));
        // A lane that was faster; and at its end there is no more.
        check(101, 20, Some(100..104));
        check(2047, 2048, None);
        check(2046, 2046, Some(2046..2048));
        check(2048, 2046, None);
    }

    /// Whether each small page of a range is there.
    fn residents(base: usize, range: &Range<usize>) -> Vec<bool> {
        let mut pages = vec![0_u8; range.len() / 4096];
        let address = ptr::with_exposed_provenance_mut::<libc::c_void>(base + range.start);
        // SAFETY: there is a byte for each page of the range.
        let result = unsafe { libc::mincore(address, range.len(), pages.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        pages.iter().map(|page| page & 1 == 1).collect()
    }

    #[test]
    fn what_is_brought_is_there_and_what_is_released_is_not() {
        for huge_pages in [false, true] {
            let base = region::reserve(64 << 20).expect("addresses").base;
            let (range, behind) = (2 * MIB..6 * MIB, 6 * MIB..8 * MIB);
            bring(base, &range, huge_pages).expect("this kernel brings pages");
            assert!(residents(base, &range).iter().all(|is_there| *is_there), "huge: {huge_pages}");
            assert!(!residents(base, &behind).contains(&true), "huge: {huge_pages}");
            let part = 2 * MIB..2 * MIB + 65536;
            advise(base, &part, libc::MADV_DONTNEED).expect("pages go");
            assert!(!residents(base, &part).contains(&true), "huge: {huge_pages}");
        }
    }

    #[test]
    fn the_thread_lets_others_go_first() {
        let thread = thread::Builder::new().spawn(|| {
            give_way().expect("anybody may");
            // SAFETY: a number in, a number out; 0 is the calling thread.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(thread.expect("a thread").join().expect("it ends"), libc::SCHED_IDLE);
    }
}
