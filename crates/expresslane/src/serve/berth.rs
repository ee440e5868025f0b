//! A lane's thread: what it begins with, how it makes the lane and opens its doors, and its turns until the end of the process.

use std::hint::cold_path;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, Thread};
use std::time::Duration;

use lane::{Board, Door, Lane, Links, Next, Port, Settings, Setup};
use net::epoll::{Epoll, Keepalive, Share, TcpOptions};
use net::sockets::Sockets;
use net::uring::Uring;
use net::{Bell, Limits};
use store::{Config, Recency, Shard};
use wire::route::{PartitionMap, SLOTS, Slot};

use super::STACK_SIZE;
use crate::clock::{Clock, LaneClock};
use crate::doors::Entrance;
use crate::heap;
use crate::machine;
use crate::paging::{self, Errand, Inlet, Outlet};
use crate::plan;
use crate::preemption::Preemptions;
use crate::region::{self, Reserved};
use crate::scheduler::Scheduler;
use crate::settings::{BindAddress, Io};
use crate::signature::Berthed;

/// What lanes and the control thread share beside rings. Read each turn, written at the end only.
pub(super) struct Shared {
    pub(super) phase: AtomicU8,
    /// By lane: the phase that it has gone through. It is [`DRAINING`] while nothing is under way there and nothing begins any more.
    pub(super) reached: Vec<AtomicU8>,
}

/// [`Shared::phase`]: clients come and are served.
pub(super) const SERVING: u8 = 0;
/// [`Shared::phase`]: nobody listens, no command is taken up, what has begun is finished.
pub(super) const DRAINING: u8 = 1;
/// [`Shared::phase`]: nobody does anything, and so nobody is answered what is not in the log.
pub(super) const ENDED: u8 = 2;

/// Every lane's bell, by number.
pub(super) type Bells = Arc<[Bell]>;

/// Whom a lane can wake.
pub(super) type Wakers = (Bells, Thread);

/// What a lane's thread begins with. All of it can be sent; the lane itself is made on the thread.
pub(super) struct Berth {
    pub(super) id: u16,
    pub(super) io: Io,
    pub(super) cpu: Option<usize>,
    pub(super) sched: Option<Scheduler>,
    /// Whether memory may be near or far.
    pub(super) has_nodes: bool,
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) map: Arc<PartitionMap>,
    pub(super) board: Arc<Board>,
    pub(super) links: Links,
    pub(super) secret: [u64; 2],
    pub(super) region_size: u64,
    pub(super) huge_pages: bool,
    pub(super) want: SyncSender<Errand>,
    pub(super) busy_poll: Option<Duration>,
    pub(super) doors: Doors,
    pub(super) shared: Arc<Shared>,
}

/// Where a lane listens. Every lane has the same kinds of doors in the same order.
#[derive(Clone)]
pub(super) struct Doors {
    pub(super) entrances: Vec<Entrance>,
    /// At each of these addresses.
    pub(super) bind: Vec<BindAddress>,
    /// A path and its mode: lane 0 alone, which gives connections to the others.
    pub(super) unix: Option<(std::path::PathBuf, u32)>,
    pub(super) backlog: u32,
    pub(super) keepalive: Option<Keepalive>,
}

/// What a lane's thread reports before it serves.
pub(super) struct Ready {
    pub(super) bell: Bell,
    /// Of the addresses, those that the machine has.
    pub(super) bind: Vec<BindAddress>,
    pub(super) region_size: usize,
    pub(super) berthed: Berthed,
    pub(super) inlet: Inlet,
    pub(super) notes: Vec<String>,
}

/// Starts a lane's thread and waits until it could serve. The sender lets it begin.
pub(super) fn launch(berth: Berth) -> Result<(Ready, Sender<Wakers>), String> {
    let (report, reported) = mpsc::channel();
    let (start, started) = mpsc::channel();
    let (id, cpu) = (berth.id, berth.cpu);
    let body = move || match berth.io {
        Io::Auto | Io::Epoll => run::<Epoll>(berth, &report, &started),
        Io::Uring => run::<Uring>(berth, &report, &started),
    };
    let spawn = || thread::Builder::new().name(format!("lane {id}")).stack_size(STACK_SIZE).spawn(body);
    let spawned = match cpu {
        None => spawn(),
        Some(cpu) => machine::on_cpu(cpu, spawn).map_err(|error| {
            format!("lane {id} can't be pinned to cpu {cpu}: {error}; choose others with --cpus")
        })?,
    };
    spawned.map_err(|error| format!("the thread of lane {id} can't be started: {error}"))?;
    let ready = reported.recv().expect("a lane reports before it serves")?;
    Ok((ready, start))
}

/// A lane's thread, from its first instruction to the end of the process.
fn run<N: Sockets>(berth: Berth, report: &Sender<Result<Ready, String>>, started: &Receiver<Wakers>) {
    let made = make::<N>(berth);
    let (mut runner, ready) = match made {
        Ok((runner, ready)) => (runner, ready),
        Err(problem) => {
            let _ = report.send(Err(problem));
            return;
        }
    };
    if report.send(Ok(ready)).is_ok()
        && let Ok((bells, control)) = started.recv()
    {
        runner.serve(&bells, &control);
    }
}

/// A lane with what it runs on.
struct Runner<N> {
    lane: Lane,
    net: N,
    outlet: Outlet,
    clock: LaneClock,
    id: usize,
    shared: Arc<Shared>,
    preemptions: Preemptions,
}

fn make<N: Sockets>(berth: Berth) -> Result<(Runner<N>, Ready), String> {
    let id = berth.id;
    let mut notes = Vec::new();
    let node = berth.cpu.and_then(machine::node_of);
    if !heap::settle(berth.region_size, node.filter(|_| berth.has_nodes)) {
        notes.push(
            "addresses are scarce, so lanes share what is not in their regions: raise ulimit -v, or set \
             vm.overcommit_memory to 0 or 1"
                .to_owned(),
        );
    }
    let mut net =
        N::make(Limits::default()).map_err(|error| format!("lane {id} has no way to sockets: {error}"))?;
    let opened = open(&mut net, id, &berth.doors, &mut notes)?;
    if let Some(duration) = berth.busy_poll {
        let duration_us = u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
        if let Err(error) = net.set_busy_poll(duration_us) {
            notes.push(format!(
                "busy polling is not to be had: {error} (Linux 6.9 has it); lanes sleep instead"
            ));
        }
    }
    let Reserved { region, base, size } = region::reserve(berth.region_size)
        .map_err(|error| format!("no addresses for the memory of lane {id}: {error}; raise ulimit -v"))?;
    // Pages are brought by another thread, which may run anywhere.
    if berth.has_nodes
        && let Some(Err(error)) = node.map(|node| machine::prefer_memory(base, size, node))
    {
        notes.push(format!(
            "memory near the lanes' cores can't be asked for: {error}; allow mbind and those nodes' memory to this process \
             (a container's filter wants CAP_SYS_NICE, a cpuset its mems)"
        ));
    }
    let config = Config {
        partitions: SLOTS,
        databases: berth.settings.database_count,
        seed: berth.secret,
        partition_of: |_, key| Slot::of(key).number(),
        beside: berth.settings.namespaces.functions(),
        recency: Recency::Lru,
    };
    let clock = LaneClock::new(berth.clock, berth.settings.meter_per_us);
    let shard = Shard::new(config, region);
    let (outlet, inlet) = paging::outlet(usize::from(id), base, size, berth.huge_pages, berth.want);
    let lane = Lane::new(Setup {
        id,
        map: berth.map,
        board: berth.board,
        links: berth.links,
        shard,
        settings: Settings { doors: opened.doors, ..berth.settings },
    });
    // Last: until here it would only keep others from their work.
    if let Some(scheduler) = berth.sched {
        scheduler.apply()?;
    }
    let berthed = Berthed { thread: machine::thread_id(), cpu: berth.cpu, node, base };
    let ready = Ready { bell: net.bell(), bind: opened.bind, region_size: size, berthed, inlet, notes };
    let preemptions = Preemptions::default();
    Ok((Runner { lane, net, outlet, clock, id: usize::from(id), shared: berth.shared, preemptions }, ready))
}

/// The doors that a lane has opened.
struct Opened {
    /// What each listener is, in the order in which net numbers them.
    doors: Vec<Door>,
    /// The addresses that the machine has; none of them may be missing any more.
    bind: Vec<BindAddress>,
}

fn open(net: &mut impl Sockets, id: u16, doors: &Doors, notes: &mut Vec<String>) -> Result<Opened, String> {
    let mut opened = Opened { doors: Vec::new(), bind: Vec::new() };
    for bind in &doors.bind {
        match open_at(net, id, doors, bind.ip) {
            Ok(at) => {
                opened.doors.extend(at);
                opened.bind.push(BindAddress { is_optional: false, ..*bind });
            }
            Err(Closed::Absent(_)) if bind.is_optional => {
                notes.push(format!("this machine has no address {}: left out", bind.ip));
            }
            Err(Closed::Absent(problem) | Closed::Taken(problem)) => return Err(problem),
        }
    }
    if let Some((path, mode)) = &doors.unix {
        net.listen_unix(path, *mode, doors.backlog).map_err(|error| {
            format!(
                "can't listen on the Unix socket {}: {error}; choose another --unixsocket",
                path.display()
            )
        })?;
        opened.doors.push(Door::SHARED);
    }
    Ok(opened)
}

/// Why a door did not open: a sentence that says what to change.
enum Closed {
    /// The machine has no such address.
    Absent(String),
    Taken(String),
}

/// Opens all doors at an address; the first one shows whether the machine has it.
fn open_at(net: &mut impl Sockets, id: u16, doors: &Doors, ip: IpAddr) -> Result<Vec<Door>, Closed> {
    let mut opened = Vec::new();
    for entrance in &doors.entrances {
        let share = match entrance.door.port {
            Port::Lane => Share::Alone,
            Port::Shared if id == 0 => Share::First,
            Port::Shared => Share::Joins,
        };
        let address = SocketAddr::new(ip, entrance.port(id));
        let options = TcpOptions { backlog: doors.backlog, share, keepalive: doors.keepalive };
        net.listen_tcp(address, &options).map_err(|error| {
            let problem = plan::cannot_listen(address, &error, entrance.flag);
            if plan::is_absent(&error) { Closed::Absent(problem) } else { Closed::Taken(problem) }
        })?;
        opened.push(entrance.door);
    }
    Ok(opened)
}

impl<N: Sockets> Runner<N> {
    /// Says of a turn that took too long how long the kernel had let others run in it.
    fn judge(&mut self, began_ns: u64, control: &Thread) {
        if self.lane.stall().is_some() {
            cold_path();
            if self.lane.settle(self.preemptions.waited_ns()) {
                control.unpark();
            }
        } else {
            self.preemptions.look_again(began_ns);
        }
    }

    /// Turns until the end of the process.
    fn serve(&mut self, bells: &[Bell], control: &Thread) {
        let mut is_draining = false;
        loop {
            let (now, meter) = self.clock.now();
            let next = self.lane.turn(now, &meter, &mut self.net);
            self.judge(now.mono_ns, control);
            self.outlet.turn(&mut self.lane);
            for bell in self.lane.bells() {
                match bells.get(usize::from(*bell)) {
                    Some(bell) => bell.ring(),
                    None => control.unpark(),
                }
            }
            match self.shared.phase.load(Ordering::Relaxed) {
                DRAINING => {
                    cold_path();
                    if !is_draining {
                        self.net.stop_listening();
                        self.lane.drain();
                        is_draining = true;
                    }
                    let reached = if self.lane.has_drained() { DRAINING } else { SERVING };
                    if self.shared.reached[self.id].load(Ordering::Relaxed) != reached {
                        // Over io_uring the last replies go with a wait. Behind it none sleeps, so it is made but once.
                        self.net.wait(Some(0));
                        self.shared.reached[self.id].store(reached, Ordering::SeqCst);
                    }
                }
                ENDED => self.end(),
                _ => {}
            }
            let timeout_ns = match next {
                Next::Again => continue,
                Next::At(at_ns) if at_ns <= now.mono_ns => continue,
                Next::At(at_ns) => Some(at_ns - now.mono_ns),
                Next::Idle => None,
            };
            if self.lane.mailbox().declare_sleep() {
                self.net.wait(timeout_ns);
                self.lane.mailbox().wake();
            }
        }
    }

    /// The process is about to end, and this thread with it.
    fn end(&mut self) -> ! {
        self.net.wait(Some(0));
        self.shared.reached[self.id].store(ENDED, Ordering::SeqCst);
        loop {
            thread::park();
        }
    }
}
