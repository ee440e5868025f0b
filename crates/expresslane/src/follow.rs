//! Follows another server, as `REPLICAOF` says: a thread of its own is its replica, and a client of the lanes. docs/replication.md is
//! the lecture.
//!
//! ```text
//! primary ── snapshot ──▶ follow ── SET … ──▶ a connection to each lane
//!         ── changes ───▶        ─ as they are ▶ one connection, which keeps their order
//!         ◀── REPLCONF ACK ──    ◀── answers ──
//! ```
//! Where the stream was cut off it goes on, as long as the primary has what came since: what is counted are whole commands, and the
//! connection to the lane outlives the one to the primary.

mod following;
mod wire;

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lane::{FollowNews, FollowOrder, Followed, Primary, Terms};

use crate::files::Lanes;
use crate::news::{Teller, channel};
use following::Following;

/// The control thread's end.
pub(crate) struct Follower {
    shared: Arc<Shared>,
    lanes: Lanes,
    teller: Teller<FollowNews>,
    news: Receiver<FollowNews>,
    has_thread: bool,
}

/// What the control thread wants.
#[derive(Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    /// Who is to be followed; under 0 nobody.
    number: u64,
    primary: Option<Primary>,
    terms: Terms,
    /// For whom lanes are closed, or open again.
    may_go_on: u64,
    /// Those whose end is to be told.
    ends: Vec<u64>,
    /// The connection that is waited for.
    stream: Option<TcpStream>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `number` is not wanted any more, or the time is over.
    fn rest(&self, number: u64, time_max: Duration) {
        let wanted = self.lock();
        let is_wanted = |wanted: &mut Wanted| wanted.number == number;
        let _ = self.changed.wait_timeout_while(wanted, time_max, is_wanted);
    }
}

impl Wanted {
    /// Whoever reads from the primary stops.
    fn interrupt(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Follower {
    /// Of nobody yet; its thread begins with the first order.
    pub(crate) fn new(lanes: Lanes) -> Follower {
        let (teller, news) = channel();
        Follower { shared: Arc::default(), lanes, teller, news, has_thread: false }
    }

    /// Who is woken by news.
    pub(crate) fn is_heard_by(&self, control: thread::Thread) {
        self.teller.is_heard_by(control);
    }

    pub(crate) fn news(&self) -> Option<FollowNews> {
        self.news.try_recv().ok()
    }

    /// False if there is no thread for it.
    pub(crate) fn order(&mut self, order: FollowOrder) -> bool {
        if matches!(order, FollowOrder::Begin { .. }) && !self.has_thread {
            let (shared, lanes, teller) = (Arc::clone(&self.shared), self.lanes.clone(), self.teller.clone());
            let thread = thread::Builder::new().name("follow".to_owned());
            self.has_thread = thread.spawn(move || run(&shared, &lanes, &teller)).is_ok();
            if !self.has_thread {
                return false;
            }
        }
        let mut wanted = self.shared.lock();
        match order {
            FollowOrder::Begin { number, primary } => {
                (wanted.number, wanted.primary) = (number, Some(primary));
                wanted.interrupt();
            }
            FollowOrder::Heed(terms) => wanted.terms = terms,
            FollowOrder::Load(number) | FollowOrder::Serve(number) => wanted.may_go_on = number,
            FollowOrder::End(number) => {
                wanted.ends.push(number);
                if wanted.number == number {
                    wanted.number = 0;
                    wanted.interrupt();
                }
            }
        }
        self.shared.changed.notify_all();
        true
    }
}

fn run(shared: &Arc<Shared>, lanes: &Lanes, teller: &Teller<FollowNews>) {
    let mut number = 0;
    loop {
        let (primary, ends) = {
            let is_same = |wanted: &mut Wanted| wanted.number == number && wanted.ends.is_empty();
            let wanted = shared.changed.wait_while(shared.lock(), is_same);
            let mut wanted = wanted.unwrap_or_else(PoisonError::into_inner);
            number = wanted.number;
            (wanted.primary.clone(), std::mem::take(&mut wanted.ends))
        };
        for ended in ends {
            teller.tell(FollowNews::Of(ended, Followed::Ended));
        }
        if let Some(primary) = primary.filter(|_| number != 0) {
            Following::new(number, primary, shared, lanes, teller).run();
        }
    }
}
