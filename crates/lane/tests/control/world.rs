//! A server in one thread with a control beside its lanes: clients in memory, one clock, a machine that is made up.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use lane::{
    Board, Control, ControlSetup, Door, FileNews, FileOrder, FollowNews, FollowOrder, Identity, Lane,
    Machine, Meter, Next, Now, Outgoing, Port, Queue, Settings, Setup, Shutdown, Signature, Source, mesh,
};
use net::mem::{self, Mem};
use net::{Limits, Net};
use store::{Config, Recency, Region, Shard};
use wire::route::{PartitionMap, Ports, Slot};

use super::migrate::Wires;

/// Every look at it is a microsecond later than the one before, but for one that a test has chosen.
#[derive(Default)]
pub(crate) struct Looks {
    us: Cell<u64>,
    /// So many looks from now, so much time passes before the next.
    late: Cell<Option<(u64, u64)>>,
    /// Between two others one microsecond passes, and so many more.
    more_us: Cell<u64>,
}

impl Looks {
    /// Lets `us` microseconds pass between the look that comes after `count` others and the one before it.
    pub(crate) fn delay(&self, count: u64, us: u64) {
        self.late.set(Some((count, us)));
    }

    /// Lets `us` microseconds pass between any two looks from now on.
    pub(crate) fn slow(&self, us: u64) {
        self.more_us.set(us - 1);
    }
}

impl Meter for Looks {
    fn read(&self) -> u64 {
        let us = match self.late.get() {
            Some((0, us)) => {
                self.late.set(None);
                us
            }
            late => {
                self.late.set(late.map(|(count, us)| (count - 1, us)));
                1 + self.more_us.get()
            }
        };
        self.us.set(self.us.get() + us);
        self.us.get()
    }
}

/// A machine with round numbers, that remembers what CONFIG REWRITE and the log wrote.
pub(crate) struct MadeUp {
    pub(crate) written: Vec<(String, String)>,
    pub(crate) warned: Vec<String>,
    /// What it says of its network cards, and how often it was asked.
    pub(crate) queues: Result<Vec<Queue>, String>,
    pub(crate) queues_asked: usize,
    pub(crate) links_changed: bool,
    pub(crate) client_count_max: usize,
    /// What it was to do with files, and what it says of them.
    pub(crate) orders: Vec<FileOrder>,
    pub(crate) news: VecDeque<FileNews>,
    /// Somebody asks the process to end, and was told that it can't.
    pub(crate) wants_end: bool,
    pub(crate) is_end_refused: bool,
    /// What it was to do about the server that is followed, whether it can, and what it says of it.
    pub(crate) follow_orders: Vec<FollowOrder>,
    pub(crate) can_follow: bool,
    pub(crate) follow_news: VecDeque<FollowNews>,
    pub(crate) wires: Wires,
    /// The file of users; without one nothing is read or written.
    pub(crate) users: Option<Vec<u8>>,
    /// The last byte of chance.
    pub(crate) drawn: u8,
}

impl Default for MadeUp {
    fn default() -> MadeUp {
        let (written, warned) = (Vec::new(), Vec::new());
        MadeUp {
            written,
            warned,
            queues: Ok(Vec::new()),
            queues_asked: 0,
            links_changed: false,
            client_count_max: usize::MAX,
            orders: Vec::new(),
            news: VecDeque::new(),
            wants_end: false,
            is_end_refused: false,
            follow_orders: Vec::new(),
            can_follow: true,
            follow_news: VecDeque::new(),
            wires: Wires::default(),
            users: None,
            drawn: 0,
        }
    }
}

impl Machine for MadeUp {
    fn resident_size(&mut self) -> u64 {
        10 << 20
    }
    fn memory_size(&mut self) -> u64 {
        8 << 30
    }
    fn processor_us(&mut self) -> (u64, u64) {
        (1_500_000, 2_250_000)
    }
    fn signature(&mut self, lane: u16, _: u64, _: Now) -> Signature {
        Signature { cpu: Some(usize::from(lane) + 4), ..Signature::default() }
    }

    fn queues(&mut self) -> Result<Vec<Queue>, String> {
        self.queues_asked += 1;
        self.queues.clone()
    }
    fn links_changed(&mut self) -> bool {
        std::mem::take(&mut self.links_changed)
    }
    fn allow_clients(&mut self, count: usize) -> Result<(), usize> {
        if count <= self.client_count_max { Ok(()) } else { Err(self.client_count_max) }
    }
    fn outgoing(&mut self) -> Option<&mut dyn Outgoing> {
        Some(&mut self.wires)
    }
    fn draw(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        for byte in bytes {
            self.drawn = self.drawn.wrapping_add(0x1f);
            *byte = self.drawn;
        }
        Ok(())
    }
    fn read_users(&mut self) -> Result<Vec<u8>, String> {
        self.users.clone().ok_or_else(|| "No such file or directory".to_owned())
    }
    fn write_users(&mut self, text: &[u8]) -> Result<(), String> {
        let is_there = self.users.is_some();
        self.users = is_there.then(|| text.to_vec());
        if is_there { Ok(()) } else { Err("Read-only file system".to_owned()) }
    }
    fn warn(&mut self, line: &str) {
        self.warned.push(line.to_owned());
    }
    fn write_file(&mut self, order: FileOrder) {
        self.orders.push(order);
    }
    fn file_news(&mut self) -> Option<FileNews> {
        self.news.pop_front()
    }
    fn follow(&mut self, order: FollowOrder) -> bool {
        self.follow_orders.push(order);
        self.can_follow || self.follow_orders.pop().is_none()
    }
    fn follow_news(&mut self) -> Option<FollowNews> {
        self.follow_news.pop_front()
    }
    fn wants_end(&mut self) -> bool {
        std::mem::take(&mut self.wants_end)
    }
    fn refuse_end(&mut self) {
        self.is_end_refused = true;
    }
    fn rewrite(&mut self, changed: &[(String, String)]) -> Result<(), String> {
        self.written = changed.to_vec();
        Ok(())
    }
}

/// See the top of this file.
pub(crate) struct World {
    pub(crate) lanes: Vec<Lane>,
    nets: Vec<Mem>,
    shared: Vec<mem::Port>,
    own: Vec<mem::Port>,
    control: Control,
    pub(crate) machine: MadeUp,
    pub(crate) now: Now,
    /// Its lanes have waited so long for their cpus, as the runner finds out when a turn takes too long.
    pub(crate) waited_ns: u64,
    pub(crate) meter: Looks,
}

impl World {
    /// Of so many lanes, each with a shared door and its own.
    pub(crate) fn new(lane_count: u16) -> World {
        World::with(lane_count, &[])
    }

    /// As [`World::new`], with settings that differ from their defaults.
    pub(crate) fn with(lane_count: u16, config: &[(&str, &str)]) -> World {
        World::told(lane_count, config, |_| {})
    }

    /// The same, where lanes are told other settings too.
    pub(crate) fn told(
        lane_count: u16,
        config: &[(&str, &str)],
        change: impl FnOnce(&mut Settings),
    ) -> World {
        World::made(lane_count, config, None, change)
    }

    /// The same on a machine that has files; what is to be loaded from them first.
    pub(crate) fn with_files(lane_count: u16, config: &[(&str, &str)], loads: Option<Source>) -> World {
        World::made(lane_count, config, Some(loads), |settings| settings.is_loading = loads.is_some())
    }

    fn made(
        lane_count: u16,
        config: &[(&str, &str)],
        files: Option<Option<Source>>,
        change: impl FnOnce(&mut Settings),
    ) -> World {
        let map = Arc::new(PartitionMap::even(lane_count));
        let board = Arc::new(Board::new(lane_count));
        let mut settings = Settings {
            doors: vec![Door::SHARED, Door { port: Port::Lane, ..Door::SHARED }],
            lane_ports: Some(Ports::from(7000)),
            meter_per_us: 1,
            stall_us: Some(1000),
            run_id: "0123456789abcdef".repeat(3)[..40].to_owned(),
            ..Settings::default()
        };
        change(&mut settings);
        let now = Now { mono_ns: 1_000_000_000, unix_ms: 1_700_000_000_000, us: 0 };
        let mut links = mesh(usize::from(lane_count));
        let control = Control::new(ControlSetup {
            links: links.pop().expect("the control's are last"),
            board: Arc::clone(&board),
            map: Arc::clone(&map),
            // The control knows nothing of doors: each lane has its own.
            settings: Settings { doors: Vec::new(), ..settings.clone() },
            identity: Identity {
                os: "Linux".to_owned(),
                process_id: 42,
                executable: "/bin/expresslane".to_owned(),
                config_file: "expresslane.toml".to_owned(),
                backend: "epoll".to_owned(),
                port: 6379,
            },
            files,
            config: [("port", "6379")]
                .iter()
                .chain(config)
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            now,
        });
        let mut world = World {
            lanes: Vec::new(),
            nets: Vec::new(),
            shared: Vec::new(),
            own: Vec::new(),
            control,
            machine: MadeUp::default(),
            now,
            waited_ns: 0,
            meter: Looks::default(),
        };
        for (id, links) in (0..lane_count).zip(links) {
            let config = Config {
                partitions: wire::route::SLOTS,
                databases: settings.database_count,
                seed: [1, 2],
                partition_of: |_, key| Slot::of(key).number(),
                beside: settings.namespaces.functions(),
                recency: Recency::Lru,
            };
            world.lanes.push(Lane::new(Setup {
                id,
                map: Arc::clone(&map),
                board: Arc::clone(&board),
                links,
                shard: Shard::new(config, Region::new(16 << 20)),
                settings: settings.clone(),
            }));
            let mut net = Mem::new(Limits::default());
            world.shared.push(net.listen().1);
            world.own.push(net.listen().1);
            world.nets.push(net);
        }
        world
    }

    /// A client of the shared port.
    pub(crate) fn connect(&self) -> mem::Client {
        self.shared[0].connect()
    }

    /// The same, which that lane lets in.
    pub(crate) fn connect_at(&self, lane: usize) -> mem::Client {
        self.shared[lane].connect()
    }

    /// The same with room for so many bytes that it has not read.
    pub(crate) fn connect_small(&self, lane: usize, size: usize) -> mem::Client {
        self.shared[lane].connect_with(size, size)
    }

    /// A client of a lane's own port.
    pub(crate) fn connect_to(&self, lane: usize) -> mem::Client {
        self.own[lane].connect()
    }

    /// A client of the shared port that a lane lets in, whose packets take this way.
    pub(crate) fn connect_by(&self, lane: usize, way: mem::Way) -> mem::Client {
        self.shared[lane].connect_by(way)
    }

    /// The same of a lane's own port.
    pub(crate) fn connect_to_by(&self, lane: usize, way: mem::Way) -> mem::Client {
        self.own[lane].connect_by(way)
    }

    /// How often lanes have asked about sockets.
    pub(crate) fn controls(&self) -> u64 {
        self.nets.iter().map(|net| net.counters().controls).sum()
    }

    /// When the control has to take a turn in any case.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.control.next_ns()
    }

    /// A lane takes a turn, and says when the next is due.
    pub(crate) fn turn(&mut self, lane: usize) -> Next {
        self.lanes[lane].turn(self.now, &self.meter, &mut self.nets[lane])
    }

    /// Everybody takes a turn; then so many nanoseconds pass.
    pub(crate) fn round(&mut self, ns: u64) {
        self.round_of(ns, |_| true);
    }

    /// The same, but of some of them: lanes by their numbers, behind them the control.
    pub(crate) fn round_of(&mut self, ns: u64, mut is_awake: impl FnMut(usize) -> bool) {
        for (number, (lane, net)) in self.lanes.iter_mut().zip(&mut self.nets).enumerate() {
            if !is_awake(number) {
                continue;
            }
            lane.turn(self.now, &self.meter, net);
            if lane.stall().is_some() {
                lane.settle(self.waited_ns);
            }
        }
        if is_awake(self.lanes.len()) {
            self.control.turn(self.now, &mut self.machine);
        }
        self.now.mono_ns += ns;
        self.now.unix_ms += i64::try_from(ns / 1_000_000).expect("a test is short");
    }

    /// Sends a command made of words and gives the reply that is there after some rounds.
    pub(crate) fn ask(&mut self, client: &mem::Client, command: &str) -> String {
        self.ask_all(client, &[command])
    }

    /// The same of several, sent together.
    pub(crate) fn ask_all(&mut self, client: &mem::Client, commands: &[&str]) -> String {
        let mut bytes = Vec::new();
        for command in commands {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            wire::client::command(&mut bytes, &words);
        }
        client.write(&bytes);
        for _ in 0..20 {
            self.round(1_000_000);
        }
        String::from_utf8_lossy(&client.read_all()).into_owned()
    }

    /// What a client has asked for with SHUTDOWN.
    pub(crate) fn shutdown(&self) -> Option<Shutdown> {
        self.control.shutdown()
    }

    /// Whether no lane has anything to do until something arrives, or it is time.
    pub(crate) fn sleeps(&mut self) -> bool {
        let (now, meter) = (self.now, &self.meter);
        let mut turns =
            self.lanes.iter_mut().zip(&mut self.nets).map(|(lane, net)| lane.turn(now, meter, net));
        turns.all(|next| next != lane::Next::Again)
    }

    /// Whether nothing is left under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.control.is_idle() && self.lanes.iter().all(Lane::is_idle)
    }
}
