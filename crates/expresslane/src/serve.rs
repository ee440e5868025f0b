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

mod berth;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use lane::{Aerospike, Board, ControlSetup, Following, Links, Settings, Source, mesh_placed};
use net::Bell;
use net::epoll::Keepalive;
use wire::route::PartitionMap;

use crate::attendant::{self, Ending, Surroundings};
use crate::clock::{self, Clock};
use crate::control::{self, Level, Stop};
use crate::files::{self, Settler};
use crate::follow::Follower;
use crate::heap;
use crate::machine::{self, Facts};
use crate::numa;
use crate::paging;
use crate::pin::{self, Cards};
use crate::plan::{self, Plan};
use crate::settings::{self, ClientsMemory, Io, ServeSettings, Size};
use crate::table::{Started, table};
use crate::users;
use berth::{Bells, Berth, DRAINING, Doors, ENDED, Ready, SERVING, Shared, launch};

/// The version of Redis that clients are told and whose behaviour is followed.
const REDIS_VERSION: &str = "7.0.15";
/// What has begun is given so long to finish when the process is asked to end; then it ends all the same.
const DRAIN_DURATION_MAX: Duration = Duration::from_millis(400);
/// Lanes that are not through by then are given so long to stop, and the control thread to pass on what they have told.
const STOP_DURATION_MAX: Duration = Duration::from_millis(100);
/// Files are given so long to come to their end. The log is waited for all the same, and the end says so.
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
    // Before there is a control thread, which makes some.
    let config = settings.config.as_ref().and_then(|path| path.canonicalize().ok());
    config.iter().chain(&settings.aclfile).for_each(|path| settings::remove_drafts(path));
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
            "the server goes on; SHUTDOWN NOSAVE FORCE or SIGKILL ends it all the same",
        );
        stop.disarm();
    }
    control::notify("STOPPING=1");
    server.drain();
    let settled = server.settle();
    if let Some(path) = &settings.unixsocket {
        let _ = std::fs::remove_file(path);
    }
    settled.map_err(|why| {
        format!("ended, and what was answered last is not in the log or not on disk: {why}")
    })?;
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

impl Server {
    /// Lets lanes finish what they have begun, and replicas and the log be sent it, for a bounded time; then lanes do nothing any more.
    fn drain(&self) {
        let is_through = self.reach(DRAINING, DRAIN_DURATION_MAX);
        let is_quiet = self.has_reached(DRAINING);
        self.reach(ENDED, STOP_DURATION_MAX);
        if self.has_reached(ENDED) {
            self.board.note_ended();
            self.ending.wake();
        }
        if !is_through && !is_quiet {
            control::log(Level::Warn, "some commands had not finished and are cut off");
        } else if !is_through && !self.board.is_replicated() {
            control::log(Level::Warn, "a replica has not been sent all that was written");
        }
    }

    /// Waits until all of the log is on disk, however long the disk takes. The error says why it can't be.
    fn settle(&self) -> Result<(), String> {
        let mut is_said = false;
        loop {
            // A lane that has not stopped has begun what the log will never hear of.
            let has_all = self.board.is_logged() || !self.has_reached(ENDED);
            let settling = self.settler.settle();
            let mut settled = settling.recv_timeout(SETTLE_DURATION_MAX);
            if settled == Err(RecvTimeoutError::Timeout) && self.board.is_logging() {
                if !std::mem::replace(&mut is_said, true) {
                    control::log(
                        Level::Warn,
                        "the disk is slow: the end waits until the log is on it; a second signal ends at once",
                    );
                }
                settled = settling.recv().map_err(RecvTimeoutError::from);
            }
            if let Ok(Err(why)) = settled {
                return Err(why);
            }
            if has_all || settled.is_err() {
                return Ok(());
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the control thread waits for the disk; it serves nobody"
            )]
            thread::sleep(DRAIN_LOOK);
        }
    }

    /// Has lanes go over to a phase, and waits until all of them say so and what they have told is where it is to be.
    fn reach(&self, phase: u8, duration_max: Duration) -> bool {
        self.shared.phase.store(phase, Ordering::SeqCst);
        self.bells.iter().for_each(Bell::ring);
        for _ in 0..duration_max.as_millis() / DRAIN_LOOK.as_millis() {
            // In this order: a lane that is quiet has numbered all that it has to tell.
            if self.has_reached(phase) && self.board.is_replicated() && self.board.is_logged() {
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
    control::start_log()?;
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
            sched: settings.sched,
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
    heap::start(beside.is_empty())?;
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
        script_meter: Some(clock::ticks),
        tracked_count_max: size(settings.tracking_table_max_keys),
        events: settings.notify_keyspace_events,
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
