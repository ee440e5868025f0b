//! A server of several lanes whose clients are in memory, and the one clock that they share.

use std::cell::Cell;
use std::sync::Arc;

use lane::{
    Board, Control, ControlSetup, Identity, Lane, Links, Machine, Meter, Next, Now, Settings, Setup, mesh,
};
use net::fault::{Fault, Faults};
use net::mem::{self, Mem};
use net::{Limits, Net, Wait};
use store::{Config, Recency, Region, Shard};
use wire::route::{PartitionMap, Slot};

/// Nanoseconds that pass between two rounds in which every lane may take a turn.
const ROUND_NS: u64 = 50_000;
/// Memory of one lane's data.
const REGION_SIZE: usize = 64 << 20;

/// Counts looks at it: the work of a turn as far as the lane reports it, and nothing that differs between runs.
struct Looks(Cell<u64>);

impl Meter for Looks {
    fn read(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

/// The control looks at no machine.
struct Nothing;

impl Machine for Nothing {
    fn resident_size(&mut self) -> u64 {
        0
    }
    fn memory_size(&mut self) -> u64 {
        0
    }
    fn processor_us(&mut self) -> (u64, u64) {
        (0, 0)
    }
    fn draw(&mut self, _: &mut [u8]) -> Result<(), String> {
        Err("there is no chance".to_owned())
    }
    fn warn(&mut self, _: &str) {}
    fn rewrite(&mut self, _: &[(String, String)]) -> Result<(), String> {
        Err("there is no file".to_owned())
    }
}

/// See the top of this file.
pub struct World {
    /// The lanes, by number.
    pub lanes: Vec<Lane>,
    /// Each lane's connections.
    pub nets: Vec<Fault<Mem>>,
    /// By lane, then by door.
    ports: Vec<Vec<mem::Port>>,
    faults: Faults,
    /// By lane, and the control's behind them.
    sleeps: Vec<Sleep>,
    board: Arc<Board>,
    map: Arc<PartitionMap>,
    settings: Settings,
    /// The control's ends of the rings, until it begins.
    control_links: Option<Links>,
    control: Option<Control>,
    /// The clock. Tests may let it jump.
    pub now: Now,
    /// How long before what it hears in its next turn each lane read the clock, nanoseconds; not before its last turn.
    pub lags_ns: Vec<u64>,
    /// Arguments of owned commands that a turn looked at, at most.
    pub args_looked_max: u64,
    /// When each took its last turn.
    turned_ns: Vec<u64>,
    meter: Looks,
}

/// What a runner knows of its lane.
#[derive(Clone, Copy, Default)]
struct Sleep {
    is_asleep: bool,
    /// The instant at which it has to take a turn in any case.
    until_ns: Option<u64>,
    was_rung: bool,
}

impl World {
    /// A server of so many lanes, with its own chance for each connection's faults.
    pub fn new(lane_count: u16, settings: &Settings, seed: u64, faults: Faults) -> World {
        let map = Arc::new(PartitionMap::even(lane_count));
        let board = Arc::new(Board::new(lane_count));
        let mut lanes = Vec::new();
        let mut nets = Vec::new();
        let mut ports = Vec::new();
        let mut all_links = mesh(usize::from(lane_count));
        let control_links = all_links.pop();
        for (id, links) in (0..lane_count).zip(all_links) {
            let config = Config {
                partitions: wire::route::SLOTS,
                databases: settings.database_count,
                seed: [seed, !seed],
                partition_of: |_, key| Slot::of(key).number(),
                beside: settings.namespaces.functions(),
                recency: Recency::Lru,
            };
            lanes.push(Lane::new(Setup {
                id,
                map: Arc::clone(&map),
                board: Arc::clone(&board),
                links,
                shard: Shard::new(config, Region::new(REGION_SIZE)),
                settings: settings.clone(),
            }));
            let mut net = Mem::new(Limits::default());
            ports.push(settings.doors.iter().map(|_| net.listen().1).collect());
            nets.push(Fault::new(net, faults, seed.wrapping_add(u64::from(id))));
        }
        let now = Now { mono_ns: 1_000_000_000, unix_ms: 1_700_000_000_000, us: 0 };
        let sleeps = vec![Sleep::default(); usize::from(lane_count) + 1];
        let meter = Looks(Cell::new(0));
        let (settings, control) = (settings.clone(), None);
        let (lags_ns, turned_ns) = (vec![0; lanes.len()], vec![now.mono_ns; lanes.len()]);
        World {
            lanes,
            nets,
            ports,
            faults,
            sleeps,
            board,
            map,
            settings,
            control_links,
            control,
            now,
            lags_ns,
            args_looked_max: 0,
            turned_ns,
            meter,
        }
    }

    /// From now on there is a control beside the lanes, which takes turns as they do.
    pub fn attend(&mut self) {
        self.control = Some(Control::new(ControlSetup {
            links: self.control_links.take().expect("a control begins once"),
            board: Arc::clone(&self.board),
            map: Arc::clone(&self.map),
            settings: self.settings.clone(),
            identity: Identity::default(),
            config: Vec::new(),
            files: None,
            now: self.now,
        }));
    }

    /// Those who take turns: the lanes and, behind them, the control.
    pub fn node_count(&self) -> usize {
        self.lanes.len() + usize::from(self.control.is_some())
    }

    /// A quiet server without faults.
    pub fn quiet(lane_count: u16) -> World {
        World::new(lane_count, &Settings::default(), 1, Faults::default())
    }

    /// Connects to the first door of a lane; one that is shared may hand the connection over.
    pub fn connect(&self, lane: usize) -> Client {
        self.connect_with(lane, mem::CAPACITY_DEFAULT, mem::CAPACITY_DEFAULT)
    }

    /// As [`World::connect`], over a connection that holds so many bytes in each direction.
    pub fn connect_with(&self, lane: usize, to_server_size: usize, to_client_size: usize) -> Client {
        Client::of(self.ports[lane][0].connect_with(to_server_size, to_client_size))
    }

    /// Connects to another door of a lane.
    pub fn connect_at(&self, lane: usize, door: usize) -> Client {
        Client::of(self.ports[lane][door].connect())
    }

    /// From now on the connections of all lanes have these faults; returns those they had.
    pub fn set_faults(&mut self, faults: Faults) -> Faults {
        self.nets.iter_mut().for_each(|net| net.set_faults(faults));
        std::mem::replace(&mut self.faults, faults)
    }

    /// One lane takes a turn.
    pub fn turn(&mut self, lane: usize) -> Next {
        let since_ns = self.now.mono_ns - std::mem::replace(&mut self.turned_ns[lane], self.now.mono_ns);
        let mono_ns = self.now.mono_ns - self.lags_ns[lane].min(since_ns);
        let now = Now { mono_ns, unix_ms: self.now.unix_ms - whole_ms(mono_ns, self.now.mono_ns), us: 0 };
        let looked_before = lane::args_looked_at();
        let next = self.lanes[lane].turn(now, &self.meter, &mut self.nets[lane]);
        self.args_looked_max = self.args_looked_max.max(lane::args_looked_at() - looked_before);
        next
    }

    /// A lane takes a turn if it is awake or something wakes it: bytes of a client, its bell, the time it named. Then it
    /// sleeps as soon as it says that it may, exactly as its thread would.
    pub fn turn_if_due(&mut self, lane: usize) {
        let sleep = self.sleeps[lane];
        if lane == self.lanes.len() {
            return self.control_turn_if_due();
        }
        if sleep.is_asleep {
            let is_late = sleep.until_ns.is_some_and(|at| at <= self.now.mono_ns);
            if !(sleep.was_rung || is_late || self.nets[lane].inner().has_signals()) {
                return;
            }
            self.lanes[lane].mailbox().wake();
        }
        self.sleeps[lane] = Sleep::default();
        let next = self.turn(lane);
        for &other in self.lanes[lane].bells() {
            let sleep = &mut self.sleeps[usize::from(other)];
            assert!(sleep.is_asleep, "a bell is only for who sleeps");
            sleep.was_rung = true;
        }
        let until_ns = match next {
            Next::Again => return,
            Next::At(at) => Some(at),
            Next::Idle => None,
        };
        if self.has_quiet_net(lane) && self.lanes[lane].mailbox().declare_sleep() {
            self.sleeps[lane] = Sleep { is_asleep: true, until_ns, was_rung: false };
        }
    }

    fn control_turn_if_due(&mut self) {
        let sleep = &mut self.sleeps[self.lanes.len()];
        let control = self.control.as_mut().expect("who has no turn is not asked");
        if sleep.is_asleep {
            if !sleep.was_rung {
                return;
            }
            control.mailbox().wake();
        }
        *sleep = Sleep::default();
        control.turn(self.now, &mut Nothing);
        sleep.is_asleep = control.mailbox().declare_sleep();
        for &lane in control.bells() {
            self.sleeps[usize::from(lane)].was_rung = true;
        }
    }

    /// Whether a wait would last. A wait that finds something kept for the next turn returns without gathering, which
    /// is how one can tell.
    fn has_quiet_net(&mut self, lane: usize) -> bool {
        let net = &mut self.nets[lane];
        let waits = net.counters().waits;
        let has_signals = net.inner().has_signals();
        net.wait(Some(0));
        !has_signals && waits < net.counters().waits
    }

    /// Whether every lane sleeps and nothing wakes it now.
    pub fn is_asleep(&mut self) -> bool {
        let has_signals = self.nets.iter_mut().any(|net| net.inner().has_signals());
        let mut sleeps = self.sleeps[..self.node_count()].iter();
        !has_signals && sleeps.all(|sleep| sleep.is_asleep && !sleep.was_rung)
    }

    /// Every lane takes a turn, in order; then the clock moves on.
    pub fn round(&mut self) {
        for lane in 0..self.lanes.len() {
            self.turn(lane);
        }
        if let Some(control) = &mut self.control {
            control.turn(self.now, &mut Nothing);
        }
        self.pass(ROUND_NS);
    }

    /// Lets time pass.
    pub fn pass(&mut self, ns: u64) {
        let before_ns = self.now.mono_ns;
        self.now.mono_ns += ns;
        self.now.unix_ms += whole_ms(before_ns, self.now.mono_ns);
    }

    /// Whether no lane has anything under way.
    pub fn is_idle(&self) -> bool {
        self.lanes.iter().all(Lane::is_idle) && self.control.as_ref().is_none_or(Control::is_idle)
    }

    /// Sends all of `bytes` and gathers what comes back until `size` bytes are there or `rounds` have passed.
    pub fn exchange(&mut self, client: &mut Client, bytes: &[u8], size: usize, rounds: usize) -> Vec<u8> {
        client.send(bytes);
        for _ in 0..rounds {
            client.pump();
            if client.received.len() >= size {
                break;
            }
            self.round();
        }
        client.pump();
        std::mem::take(&mut client.received)
    }

    /// The system calls, or what stands for them, of a lane's connections.
    pub fn counters(&self, lane: usize) -> net::Counters {
        self.nets[lane].counters()
    }
}

/// By how much the wall clock goes on between two instants of the other one.
fn whole_ms(from_ns: u64, to_ns: u64) -> i64 {
    i64::try_from(to_ns / 1_000_000 - from_ns / 1_000_000).expect("a simulation is short")
}

/// A client's end, with what it has still to send and what it has received.
pub struct Client {
    /// The connection.
    pub end: mem::Client,
    unsent: Vec<u8>,
    sent_size: usize,
    /// Bytes received and not taken yet.
    pub received: Vec<u8>,
}

impl Client {
    fn of(end: mem::Client) -> Client {
        Client { end, unsent: Vec::new(), sent_size: 0, received: Vec::new() }
    }

    /// Adds bytes to what it sends as room allows.
    pub fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Moves what can be moved in both directions.
    pub fn pump(&mut self) {
        self.push(usize::MAX);
        self.pull(usize::MAX);
    }

    /// Sends up to so many bytes.
    pub fn push(&mut self, size_max: usize) {
        if !self.is_sent() {
            let end = self.sent_size.saturating_add(size_max).min(self.unsent.len());
            self.sent_size += self.end.write(&self.unsent[self.sent_size..end]);
            if self.sent_size == self.unsent.len() {
                self.unsent.clear();
                self.sent_size = 0;
            }
        }
    }

    /// Receives up to so many bytes.
    pub fn pull(&mut self, size_max: usize) {
        self.end.read(&mut self.received, size_max);
    }

    /// Whether all that was to be sent is sent.
    pub fn is_sent(&self) -> bool {
        self.sent_size == self.unsent.len()
    }
}
