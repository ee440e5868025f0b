//! `expresslane serve`: starts one pinned thread a lane, waits to be asked to end, and ends in order.
//!
//! ```text
//!  control thread (this one)              lane threads
//!  decide (plan), allow files
//!  start lane 0 on its cpu ────────────▶ reserve memory, listen        lane 0 first: it finds out which addresses
//!                 ◀──────── its bell, the addresses ────                there are, and whether a port is taken
//!  start the others ───────────────────▶ reserve memory, listen
//!                 ◀──────── their bells ─────────────────
//!  all bells to all ───────────────────▶ serve: turn, ring, sleep, …
//!  wait for a signal
//!  phase Draining, ring all ───────────▶ listen no more, take up no command, finish what has begun, say so
//!  (what they have told is in the log)
//!  phase Ended, ring all ──────────────▶ do nothing any more, say so
//!  all of the log is on disk
//!  end of the process
//! ```
//! Everything a lane touches is made on its own thread, which begins on the lane's cpu, so that it lies on the lane's own node.

use std::hint::cold_path;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, Thread};
use std::time::Duration;

use lane::{
    Aerospike, Board, ControlSetup, Door, Following, Lane, Links, Next, Port, Settings, Setup, Source,
    mesh_placed,
};
use net::epoll::{Epoll, Keepalive, Share, TcpOptions};
use net::sockets::Sockets;
use net::uring::Uring;
use net::{Bell, Limits};
use store::{Config, Recency, Shard};
use wire::route::{PartitionMap, SLOTS, Slot};

use crate::attendant::{self, Ending, Surroundings};
use crate::clock::{self, Clock, LaneClock, Ticks};
use crate::control::{self, Level, Stop};
use crate::doors::Entrance;
use crate::files::{self, Settler};
use crate::follow::Follower;
use crate::heap;
use crate::machine::{self, Facts};
use crate::numa;
use crate::paging::{self, Errand, Inlet, Outlet};
use crate::pin::{self, Cards};
use crate::plan::{self, Plan};
use crate::preemption::Preemptions;
use crate::region::{self, Reserved};
use crate::settings::{self, BindAddress, ClientsMemory, Io, ServeSettings, Size};
use crate::signature::Berthed;
use crate::table::{Started, table};
use crate::users;

/// The version of Redis that clients are told and whose behaviour is followed.
const REDIS_VERSION: &str = "7.0.15";
/// What has begun is given so long to finish when the process is asked to end; then it ends all the same.
const DRAIN_DURATION_MAX: Duration = Duration::from_millis(400);
/// Lanes that are not through by then are given so long to stop, and the control thread to pass on what they have told.
const STOP_DURATION_MAX: Duration = Duration::from_millis(100);
/// What was written to the log is to be on disk for certain; not for longer than this.
const SETTLE_DURATION_MAX: Duration = Duration::from_millis(400);
/// Between two looks at whether all lanes have finished.
const DRAIN_LOOK: Duration = Duration::from_millis(2);
/// A lane's stack holds the lane itself, and no data that clients decide on. The interpreter of scripts goes as deep as a thousand
/// brackets in each other take it, with a few hundred bytes to a kilobyte for each; so does the control thread, which compiles.
pub(crate) const STACK_SIZE: usize = 8 << 20;
/// Less than a lane's, so that the C library can't give a lane the stack of the thread that has made the rings: its pages may lie
/// on another node.
const STACK_SIZE_OF_RINGS: usize = 256 << 10;

/// Serves until a signal asks to end. An error is one sentence that says what to change.
pub(crate) fn serve(settings: &ServeSettings) -> Result<(), String> {
    control::abort_on_panic();
    let facts = Facts::read().map_err(|error| format!("the allowed cpus can't be read: {error}"))?;
    let (facts, home) = pin::settle(settings, facts)?;
    let mut plan = plan::plan(settings, &facts)?;
    plan.notes.extend(settings::strange_variables(std::env::vars_os().map(|(name, _)| name)));
    if settings.io == Io::Uring {
        net::uring::probe().map_err(|why| format!("{why}; or say --io auto or --io epoll"))?;
    }
    machine::allow_files(u64::from(settings.maxclients) + plan.files_beside)
        .map_err(|allowed| plan::too_few_files(settings, &plan, allowed))?;
    let mut stop = Stop::new().map_err(|error| format!("signals can't be taken over: {error}"))?;
    let place = files::place(settings);
    let source = place.source(settings.appendonly)?;
    let server = start(settings, &facts, &plan, home, place, source)?;
    control::log(Level::Info, &table(settings, &facts, &plan, &server.started, &machine::node_of));
    machine::forget_start();
    match source {
        Some(source) => control::log(Level::Info, &format!("loading {}", files::named(settings, source))),
        None => control::notify("READY=1"),
    }
    loop {
        let signal = stop.wait();
        control::log(
            Level::Info,
            &format!("{signal}: finishing what has begun; a second signal ends at once"),
        );
        if server.ending.ask() {
            break;
        }
        control::log(
            Level::Error,
            "the server goes on; SHUTDOWN NOSAVE or SIGKILL ends it without a snapshot",
        );
        stop.disarm();
    }
    control::notify("STOPPING=1");
    server.drain();
    server.settler.settle(SETTLE_DURATION_MAX);
    if let Some(path) = &settings.unixsocket {
        let _ = std::fs::remove_file(path);
    }
    control::log(Level::Info, "ended");
    Ok(())
}

/// Lanes that serve, as the control thread sees them.
struct Server {
    shared: Arc<Shared>,
    board: Arc<Board>,
    bells: Bells,
    started: Started,
    ending: Arc<Ending>,
    settler: Settler,
}

/// What lanes and the control thread share beside rings. Read each turn, written at the end only.
struct Shared {
    phase: AtomicU8,
    /// By lane: the phase that it has gone through. It is [`DRAINING`] while nothing is under way there and nothing begins any more.
    reached: Vec<AtomicU8>,
}

/// [`Shared::phase`]: clients come and are served.
const SERVING: u8 = 0;
/// [`Shared::phase`]: nobody listens, no command is taken up, what has begun is finished.
const DRAINING: u8 = 1;
/// [`Shared::phase`]: nobody does anything, and so nobody is answered what is not in the log.
const ENDED: u8 = 2;

impl Server {
    /// Lets lanes finish what they have begun, and replicas and the log be sent it, for a bounded time; then lanes do nothing any more.
    /// Whatever clients have been answered is the files' by then.
    fn drain(&self) {
        let is_through = self.reach(DRAINING, DRAIN_DURATION_MAX);
        let is_quiet = self.has_reached(DRAINING);
        self.reach(ENDED, STOP_DURATION_MAX);
        if !is_through {
            let what = match is_quiet {
                true => "a replica has not been sent all that was written",
                false => "some commands had not finished and are cut off",
            };
            control::log(Level::Warn, what);
        }
    }

    /// Has lanes go over to a phase, and waits until all of them say so and what they have told is where it is to be.
    fn reach(&self, phase: u8, duration_max: Duration) -> bool {
        self.shared.phase.store(phase, Ordering::SeqCst);
        self.bells.iter().for_each(Bell::ring);
        for _ in 0..duration_max.as_millis() / DRAIN_LOOK.as_millis() {
            // In this order: a lane that is quiet has numbered all that it has to tell.
            if self.has_reached(phase) && self.board.is_replicated() {
                return true;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the control thread waits for the lanes; it serves nobody"
            )]
            thread::sleep(DRAIN_LOOK);
        }
        false
    }

    fn has_reached(&self, phase: u8) -> bool {
        self.shared.reached.iter().all(|reached| reached.load(Ordering::SeqCst) == phase)
    }
}

/// Every lane's bell, by number.
type Bells = Arc<[Bell]>;

/// Whom a lane can wake.
type Wakers = (Bells, Thread);

/// What a lane's thread begins with. All of it can be sent; the lane itself is made on the thread.
struct Berth {
    id: u16,
    io: Io,
    cpu: Option<usize>,
    /// Whether memory may be near or far.
    has_nodes: bool,
    clock: Clock,
    settings: Settings,
    map: Arc<PartitionMap>,
    board: Arc<Board>,
    links: Links,
    secret: [u64; 2],
    region_size: u64,
    huge_pages: bool,
    want: SyncSender<Errand>,
    busy_poll: Option<Duration>,
    doors: Doors,
    shared: Arc<Shared>,
}

/// Where a lane listens. Every lane has the same kinds of doors in the same order.
#[derive(Clone)]
struct Doors {
    entrances: Vec<Entrance>,
    /// At each of these addresses.
    bind: Vec<BindAddress>,
    /// A path and its mode: lane 0 alone, which gives connections to the others.
    unix: Option<(std::path::PathBuf, u32)>,
    backlog: u32,
    keepalive: Option<Keepalive>,
}

/// What a lane's thread reports before it serves.
struct Ready {
    bell: Bell,
    /// Of the addresses, those that the machine has.
    bind: Vec<BindAddress>,
    region_size: usize,
    berthed: Berthed,
    inlet: Inlet,
    notes: Vec<String>,
}

/// Starts all lanes, the first one alone; any failure is this function's, and ends the process.
fn start(
    settings: &ServeSettings,
    facts: &Facts,
    plan: &Plan,
    home: Option<String>,
    place: files::Place,
    source: Option<Source>,
) -> Result<Server, String> {
    heap::make_room(plan.cpus.len());
    let lanes_count = u16::try_from(plan.cpus.len()).expect("lanes are few");
    let has_nodes = numa::has_several();
    let chance = || machine::secret().map_err(|error| format!("the kernel gives no random bytes: {error}"));
    let secret = chance()?;
    let mut links = links_of(plan, has_nodes)?;
    let control_links = links.pop().expect("the control thread's links come last");
    let shared = Arc::new(Shared {
        phase: AtomicU8::new(SERVING),
        reached: plan.cpus.iter().map(|_| AtomicU8::new(SERVING)).collect(),
    });
    // What this thread starts from here on stays there, but for lanes, which are pinned.
    let beside = plan.cpus_beside(facts);
    if !beside.is_empty() {
        machine::pin_to(&beside).map_err(|error| {
            format!("the threads beside the lanes can't be kept off their cpus: {error}; choose others with --cpus")
        })?;
    }
    let (map, board) = (Arc::new(PartitionMap::even(lanes_count)), Arc::new(Board::new(lanes_count)));
    let clock = Clock::new();
    let run_id = attendant::run_id(chance()?, chance()?);
    // From here on no change of a card goes unheard: what is learned next is no older.
    let cards = Cards::new(settings.auto_pin);
    let pinning = pin::begin(settings, plan, home);
    let follows = !settings.replicaof.is_empty();
    let mut lane_settings = Settings {
        auto_pin: settings.auto_pin.of_lanes(),
        lane_cpus: plan.cpus.iter().copied().collect(),
        queues: pinning.queues,
        namespaces: plan.namespaces.clone(),
        is_loading: source.is_some(),
        follows: follows.then_some(Following::Serves),
        writes_refused: follows.then_some(lane::READONLY),
        ..lane_settings(settings, run_id, &clock)
    };
    lane_settings.users = Arc::new(users::of(settings, &lane_settings.users)?);
    let mut doors = Doors {
        entrances: plan.entrances.clone(),
        bind: settings.bind.clone(),
        unix: None,
        backlog: settings.tcp_backlog,
        keepalive: (settings.tcp_keepalive > 0).then(|| Keepalive::after_s(settings.tcp_keepalive)),
    };
    let unix = settings.unixsocket.clone().map(|path| (path, settings.unixsocketperm.0));
    let (want, errands) = paging::queue(plan.cpus.len());
    let mut readies: Vec<Ready> = Vec::new();
    let mut starts = Vec::new();
    for ((cpu, links), id) in plan.cpus.iter().zip(links).zip(0_u16..) {
        let berth = Berth {
            id,
            io: settings.io,
            cpu: *cpu,
            has_nodes,
            clock,
            settings: lane_settings.clone(),
            map: Arc::clone(&map),
            board: Arc::clone(&board),
            links,
            secret,
            region_size: plan.region_size,
            huge_pages: settings.huge_pages,
            want: want.clone(),
            busy_poll: settings.busy_poll.0,
            doors: Doors { unix: unix.clone().filter(|_| id == 0), ..doors.clone() },
            shared: Arc::clone(&shared),
        };
        let (ready, start) = launch(berth)?;
        // The first lane has found out which addresses there are; the others must find the same.
        if id == 0 {
            doors.bind.clone_from(&ready.bind);
        }
        readies.push(ready);
        starts.push(start);
    }
    let bells: Bells = readies.iter().map(|ready| ready.bell.clone()).collect();
    let lanes = files::Lanes(Arc::clone(&map));
    let syncs = settings.appendfsync != "no";
    let follower = Follower::new(lanes.clone());
    let desk = files::start(place, lanes, settings.appendonly, syncs, || {
        control::log(Level::Info, "Redis' databases are open");
        control::notify("READY=1");
    })?;
    let (settler, ending) = (desk.settler(), Arc::new(Ending::default()));
    let setup = ControlSetup {
        links: control_links,
        board: Arc::clone(&board),
        map,
        files: Some(source),
        settings: lane_settings,
        identity: attendant::identity(settings),
        config: attendant::config(settings),
        now: clock.now(),
    };
    let berthed = readies.iter().map(|ready| ready.berthed.clone()).collect();
    let around = Surroundings {
        clock,
        bells: bells.to_vec(),
        memory_size: facts.memory_size,
        lanes: berthed,
        cards,
        files_beside: plan.files_beside,
        desk,
        follower,
        ending: Arc::clone(&ending),
    };
    let control = attendant::start(setup, around)?;
    for start in starts {
        start.send((Arc::clone(&bells), control.clone())).expect("a lane that is ready waits for the bells");
    }
    let mut notes: Vec<String> = Vec::new();
    for note in readies.iter().flat_map(|ready| &ready.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let region_size = readies.iter().map(|ready| ready.region_size).min().unwrap_or(0);
    let inlets = readies.into_iter().map(|ready| ready.inlet).collect();
    paging::start(errands, inlets, bells.to_vec(), settings.huge_pages, beside.is_empty())?;
    let wanted = facts.memory_size.min(32 << 30);
    if u64::try_from(region_size).unwrap_or(u64::MAX) < wanted {
        notes.push(
            "addresses are scarce, so a lane holds less than the machine has: raise ulimit -v, or set \
             vm.overcommit_memory to 0 or 1"
                .to_owned(),
        );
    }
    Ok(Server {
        shared,
        board,
        bells,
        ending,
        settler,
        started: Started { bind: doors.bind, region_size, pinning: pinning.told, notes },
    })
}

/// The rings between lanes, each lane's on the memory node of its cpu. A thread of its own makes them, for it moves
/// from cpu to cpu where there are several nodes.
fn links_of(plan: &Plan, has_nodes: bool) -> Result<Vec<Links>, String> {
    let cpus = if has_nodes { plan.cpus.clone() } else { Vec::new() };
    let mut place = move |lane: usize| {
        if let Some(Some(cpu)) = cpus.get(lane) {
            // A cpu that can't be had ends start-up where the lane itself is started; here it costs locality alone.
            let _ = machine::pin(*cpu);
        }
    };
    let lanes_count = plan.cpus.len();
    let maker = thread::Builder::new()
        .name("rings".to_owned())
        .stack_size(STACK_SIZE_OF_RINGS)
        .spawn(move || mesh_placed(lanes_count, &mut place));
    let made = maker.map_err(|error| format!("no thread to make the rings: {error}"))?.join();
    Ok(made.expect("rings of these sizes can be made"))
}

/// What the settings mean to a lane.
fn lane_settings(settings: &ServeSettings, run_id: String, clock: &Clock) -> Settings {
    let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    let output_limit = &settings.client_output_buffer_limit.normal;
    let pubsub_limit = &settings.client_output_buffer_limit.pubsub;
    let replica_limit = &settings.client_output_buffer_limit.replica;
    let mut lane_settings = Settings {
        database_count: settings.databases,
        redis_version: REDIS_VERSION,
        bulk_size_max: settings.proto_max_bulk_len.0,
        item_size_max: settings.max_item_size.0,
        aerospike: Aerospike {
            record_size_max: settings.max_record_size.0,
            ports: settings.aerospike_ports(),
            credential: None,
        },
        compresses_dumps: settings.rdbcompression,
        script_memory_max: size(settings.script_memory_limit.0),
        tracked_count_max: size(settings.tracking_table_max_keys),
        query_size_max: size(settings.client_query_buffer_limit.0),
        output_size_max: output_limit.hard_size.map_or(usize::MAX, size),
        output_soft_size: output_limit.soft_size.map_or(usize::MAX, size),
        output_soft_s: output_limit.soft_duration.as_secs(),
        pubsub_output_size_max: pubsub_limit.hard_size.map_or(usize::MAX, size),
        pubsub_output_soft_size: pubsub_limit.soft_size.map_or(usize::MAX, size),
        pubsub_output_soft_s: pubsub_limit.soft_duration.as_secs(),
        replica_output: lane::OutputLimits {
            size_max: replica_limit.hard_size.unwrap_or(0),
            soft_size: replica_limit.soft_size.unwrap_or(0),
            soft_s: replica_limit.soft_duration.as_secs(),
        },
        clients_size_max: match settings.maxmemory_clients {
            ClientsMemory::Size(Size(size)) => Settings::clients_size_of(size),
            ClientsMemory::Percent(percent) => {
                Settings::clients_size_of_percent(percent, settings.maxmemory.0)
            }
        },
        memory_size_max: settings.maxmemory.0,
        policy: settings.maxmemory_policy.of_store(),
        timeout_s: u64::from(settings.timeout),
        client_count_max: size(u64::from(settings.maxclients)),
        doors: Vec::new(),
        lane_ports: settings.lane_ports.0,
        unix_socket: settings.unixsocket.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        announce_ip: settings.announce_ip.clone(),
        announce_port_base: settings.announce_port,
        run_id,
        couchbase_ports: settings.couchbase_ports(),
        management_ports: settings.management_ports(),
        map_epoch: clock.now().unix_ms,
        meter_per_us: clock::ticks_per_us(clock),
        is_strict: settings.order == "strict",
        // A negative number is none.
        slow_us: u64::try_from(settings.slowlog_log_slower_than).ok(),
        stall_us: settings.stall_warn.0.map(|limit| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX)),
        ..Settings::default()
    };
    lane_settings.set_password(settings.requirepass.clone().map(String::into_bytes));
    lane_settings
}

/// Starts a lane's thread and waits until it could serve. The sender lets it begin.
fn launch(berth: Berth) -> Result<(Ready, Sender<Wakers>), String> {
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
    let berthed = Berthed { thread: machine::thread_id(), cpu: berth.cpu, node, base };
    let ready = Ready { bell: net.bell(), bind: opened.bind, region_size: size, berthed, inlet, notes };
    let (clock, shared) = (LaneClock::new(berth.clock), berth.shared);
    let preemptions = Preemptions::default();
    Ok((Runner { lane, net, outlet, clock, id: usize::from(id), shared, preemptions }, ready))
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
    /// Says of a turn that took too long whether the kernel had let others run in it.
    fn judge(&mut self, began_ns: u64, control: &Thread) {
        if self.lane.stall().is_some() {
            cold_path();
            if self.lane.settle(self.preemptions.has_grown()) {
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
            let now = self.clock.now();
            let next = self.lane.turn(now, &Ticks, &mut self.net);
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
                    let is_quiet = self.lane.has_drained();
                    if is_quiet {
                        // Over io_uring the last replies go with a wait.
                        self.net.wait(Some(0));
                    }
                    let reached = if is_quiet { DRAINING } else { SERVING };
                    self.shared.reached[self.id].store(reached, Ordering::SeqCst);
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
