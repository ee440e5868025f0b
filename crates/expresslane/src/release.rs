//! Memory that lanes no longer need goes back to the system.
//!
//! ```text
//! lane                                   this thread
//! a span is empty ── its range ────────▶ madvise(DONTNEED)
//! takes it back   ◀── the same range ─── ring the lane's bell
//! ```
//! Telling the kernel takes time in proportion to the pages, so it is not a lane's business. A lane lends a few ranges
//! at a time and touches none of them until it is back; the addresses stay reserved.

use std::ops::Range;
use std::ptr;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use lane::Lane;
use net::Bell;

use crate::control::{self, Level};

/// Ranges that one lane has lent at a time.
const LENT_COUNT_MAX: usize = 16;

/// A range of a lane's memory, in bytes from its start.
#[derive(Debug)]
pub(crate) struct Lent {
    lane: usize,
    range: Range<usize>,
}

/// The lane's end.
pub(crate) struct Outlet {
    id: usize,
    lent_count: usize,
    lend: SyncSender<Lent>,
    back: Receiver<Range<usize>>,
}

/// The thread's end of one lane's outlet.
pub(crate) struct Inlet {
    /// Address of the lane's memory.
    base: usize,
    back: SyncSender<Range<usize>>,
}

/// What lanes lend, and where it is received. The queue has room for all that all lanes may lend.
pub(crate) fn queue(lanes_count: usize) -> (SyncSender<Lent>, Receiver<Lent>) {
    mpsc::sync_channel(lanes_count * LENT_COUNT_MAX)
}

/// The two ends of lane `id`, whose memory begins at address `base`.
pub(crate) fn outlet(id: usize, base: usize, lend: SyncSender<Lent>) -> (Outlet, Inlet) {
    let (send_back, back) = mpsc::sync_channel(LENT_COUNT_MAX);
    (Outlet { id, lent_count: 0, lend, back }, Inlet { base, back: send_back })
}

impl Outlet {
    /// Takes back what has come back, and lends what is not needed. A lane with nothing to lend pays one look.
    pub(crate) fn turn(&mut self, lane: &mut Lane) {
        while self.lent_count > 0
            && let Ok(range) = self.back.try_recv()
        {
            lane.reclaim(range);
            self.lent_count -= 1;
        }
        while self.lent_count < LENT_COUNT_MAX
            && let Some(range) = lane.released()
        {
            self.lend
                .send(Lent { lane: self.id, range })
                .expect("the queue has room for all that is lent, and its end lives");
            self.lent_count += 1;
        }
    }
}

/// Starts the thread. It ends with the process.
pub(crate) fn start(lent: Receiver<Lent>, inlets: Vec<Inlet>, bells: Vec<Bell>) -> Result<(), String> {
    let run = move || {
        for Lent { lane, range } in lent {
            let inlet = &inlets[lane];
            let_go(inlet.base, &range);
            // Its queue has room for all that the lane has lent.
            if inlet.back.send(range).is_err() {
                return;
            }
            bells[lane].ring();
        }
    };
    thread::Builder::new()
        .name("release".to_owned())
        .spawn(run)
        .map(|_| ())
        .map_err(|error| format!("the thread that releases memory can't be started: {error}"))
}

fn let_go(base: usize, range: &Range<usize>) {
    let address = ptr::with_exposed_provenance_mut::<libc::c_void>(base + range.start);
    // SAFETY: the range lies in the lane's region, whose shard has lent it: nobody reads or writes it until it is back,
    // and then expects any content.
    let result = unsafe { libc::madvise(address, range.len(), libc::MADV_DONTNEED) };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        control::log(Level::Warn, &format!("memory can't be given back to the system: {error}"));
    }
}
