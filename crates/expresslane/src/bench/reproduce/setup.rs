//! The servers of a set-up, and the loads that go to them.
//!
//! ```text
//! peer          a process for each instance, one cpu each; the first is the master, the others copy it     a load for each
//! expresslane   one process, a lane for each instance, each on its port and cpu                            one load, routed
//! ```
//! Where there are more instances than cpus they share them, and the plan says so.

use std::net::{IpAddr, Ipv4Addr};

use load::connect::{Dialect, Endpoint};
use load::experiments::{Arm, Id, Link, Planned, Recipe, Server};

use super::link::Cable;
use crate::bench::compare::plan::SetUp;
use crate::machine::list_of;

/// The name by which this server is its own peer.
const SELF: &str = "expresslane";

/// Whether a peer is this server itself.
pub(super) fn is_self(peer: &str) -> bool {
    peer == SELF
}

/// What this machine gives to an experiment.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// All cpus.
    pub(super) cpus: Vec<usize>,
    /// Those of servers, and those of loads: none where agents load.
    pub(super) server_cpus: Vec<usize>,
    pub(super) load_cpus: Vec<usize>,
    /// Agents that load; none: this machine does.
    pub(super) agents: usize,
    /// Instances of E1.
    pub(super) instances: usize,
    /// First of the ports.
    pub(super) port: u16,
    /// The peer's program, and this one.
    pub(super) peer: String,
    pub(super) program: String,
}

impl Place {
    /// Of these cpus: one for each instance as far as there are, or half, for servers; the others are the load's. Where so many
    /// agents load all of them are the servers', and there is an instance for each agent as far as there are cpus.
    ///
    /// # Errors
    /// There are too few, in a sentence.
    pub(super) fn new(
        cpus: Vec<usize>,
        instances: Option<u32>,
        agents: usize,
        port: u16,
        peer: String,
        program: String,
    ) -> Result<Place, String> {
        let instances = instances.map(|count| usize::try_from(count).expect("32 bits"));
        if agents > 0 {
            let instances = instances.unwrap_or(cpus.len().min(agents));
            let (server_cpus, load_cpus) = (cpus.clone(), Vec::new());
            return Ok(Place { cpus, server_cpus, load_cpus, agents, instances, port, peer, program });
        }
        let Some(spare) = cpus.len().checked_sub(1).filter(|spare| *spare > 0) else {
            return Err("one cpu is too few for a server and a load: use a machine with two".to_owned());
        };
        let instances = instances.unwrap_or(cpus.len() / 2);
        let (server_cpus, load_cpus) = cpus.split_at(instances.min(spare));
        let (server_cpus, load_cpus) = (server_cpus.to_vec(), load_cpus.to_vec());
        Ok(Place { cpus, server_cpus, load_cpus, agents, instances, port, peer, program })
    }

    /// Threads of a load that spans so many instances; with agents of each agent's.
    pub(super) fn load_threads(&self, instances: usize) -> usize {
        match self.agents {
            0 => instances.min(self.load_cpus.len()),
            agents => instances.div_ceil(agents),
        }
    }
}

/// Where servers are, seen from the load.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) address: String,
    /// What starts a program there.
    pub(super) wrapper: Vec<String>,
}

impl Host {
    /// At the far end of a link, or here, at the address at which agents reach it.
    pub(super) fn of(link: Link, cable: Option<&Cable>, bind: Option<IpAddr>) -> Host {
        match (link, cable) {
            (Link::Unshaped | Link::Gigabits(_), Some(cable)) => {
                Host { address: cable.far_address.clone(), wrapper: cable.far_words() }
            }
            _ => {
                let address = bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)).to_string();
                Host { address, wrapper: Vec::new() }
            }
        }
    }

    /// Whether others than this machine's programs reach it: then a server without a password serves them if it is told to.
    fn is_open(&self) -> bool {
        self.address.parse().is_ok_and(|address: IpAddr| !address.is_loopback())
    }
}

/// One set-up, ready to be started.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    /// The first gets the keys, at its own address: there each key is set once, where a load that is routed to several lanes
    /// may be through with one lane's keys, and begin again, before it has been through another's.
    pub(super) servers: Vec<SetUp>,
    /// The others have a full copy of the first's keys.
    pub(super) are_copies: bool,
    pub(super) targets: Vec<Target>,
    /// The kernel may place the server's threads anywhere.
    pub(super) is_loose: bool,
}

/// A load's part of a set-up.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) dialect: Dialect,
    pub(super) is_cluster: bool,
    /// Instances that it spans: so many times the connections of one.
    pub(super) instances: u32,
    pub(super) thread_count: u16,
    /// Where its threads are pinned; none: nowhere.
    pub(super) cpus: Vec<usize>,
}

/// The set-up of an experiment's arm.
pub(super) fn fleet(planned: &Planned, arm: &Arm, place: &Place, host: &Host) -> Fleet {
    if let Some((_, recipe)) = planned.recipes.iter().find(|(name, _)| *name == arm.arm) {
        return of_recipe(*recipe, place, host);
    }
    let instances = if planned.id == Id::E1 { place.instances } else { 1 };
    let is_self = is_self(&place.peer);
    let mut fleet = match arm.server {
        Server::Peer | Server::PeerAsInstalled if is_self => lanes(instances, &[], place, host),
        Server::Peer => processes(instances, place, host),
        Server::PeerAsInstalled => as_installed(place, host),
        Server::Lanes => lanes(instances, &[], place, host),
        Server::LanesOverUring => lanes(instances, &["--io", "uring"], place, host),
        Server::AllLanes => {
            let mut fleet = lanes(place.server_cpus.len(), &[], place, host);
            // The lanes are what is compared, and not a load for each of them.
            fleet.targets.iter_mut().for_each(|target| target.instances = 1);
            fleet
        }
    };
    if arm.dialect.has_map() {
        open_doors(&mut fleet, arm.dialect, place, host);
    }
    fleet
}

/// The lanes of this server have a door of that dialect each, behind their ports of Redis', and the load goes there.
fn open_doors(fleet: &mut Fleet, dialect: Dialect, place: &Place, host: &Host) {
    let first = place.port + 1 + u16::try_from(place.cpus.len().max(place.instances)).expect("lanes are few");
    let words: &[&str] = match dialect {
        Dialect::Couchbase => &["--couchbase-management", "off", "--couchbase"],
        _ => &["--aerospike"],
    };
    let start = fleet.servers[0].start.as_mut().expect("this server is started here");
    start.extend(words.iter().map(|word| (*word).to_owned()));
    start.push(first.to_string());
    for target in &mut fleet.targets {
        target.endpoint = endpoint(host, first);
        target.dialect = dialect;
    }
}

/// Processes that speak Redis' flags.
fn processes(instances: usize, place: &Place, host: &Host) -> Fleet {
    let server = |index: usize| {
        let mut words = peer_words(place, host, index, &["--save", "", "--appendonly", "no"]);
        if index > 0 {
            words.extend(["--replicaof", &host.address, &place.port.to_string()].map(str::to_owned));
            words.extend(["--repl-diskless-sync-delay", "0"].map(str::to_owned));
        }
        let cpu = place.server_cpus[index % place.server_cpus.len()];
        setup(&place.peer, port(place, index), words, &[cpu], host)
    };
    let target = |index: usize| Target {
        endpoint: endpoint(host, port(place, index)),
        dialect: Dialect::Resp2,
        is_cluster: false,
        instances: 1,
        thread_count: 1,
        cpus: place.load_cpus.iter().copied().cycle().nth(index).into_iter().collect(),
    };
    Fleet {
        servers: (0..instances).map(server).collect(),
        are_copies: true,
        targets: (0..instances).map(target).collect(),
        is_loose: false,
    }
}

/// A peer's program with its address, its folder and some more; everything else is its own.
fn peer_words(place: &Place, host: &Host, index: usize, more: &[&str]) -> Vec<String> {
    let folder = std::env::temp_dir().to_string_lossy().into_owned();
    let port = port(place, index).to_string();
    let words: &[&str] = &[&place.peer, "--bind", &host.address, "--dir", &folder];
    let open: &[&str] = if host.is_open() { &["--protected-mode", "no"] } else { &[] };
    [words, open, more, &["--port", &port]].concat().into_iter().map(str::to_owned).collect()
}

/// One process with its own defaults, wherever the kernel places it. Nothing is saved: the published ones are in memory only, and
/// a file that is left would be loaded by the next.
fn as_installed(place: &Place, host: &Host) -> Fleet {
    let words = peer_words(place, host, 0, &["--save", ""]);
    let server = setup(&place.peer, place.port, words, &place.cpus, host);
    Fleet { servers: vec![server], ..processes(1, place, host) }
}

/// This server, with a lane for each instance.
fn lanes(instances: usize, more: &[&str], place: &Place, host: &Host) -> Fleet {
    let cpus = &place.server_cpus[..instances.min(place.server_cpus.len())];
    let threads = place.load_threads(instances);
    let mut server = serve(place, host, true, cpus, instances);
    if let Some(words) = &mut server.start {
        words.extend(more.iter().map(|word| (*word).to_owned()));
    }
    Fleet {
        servers: vec![server],
        are_copies: false,
        targets: vec![Target {
            endpoint: endpoint(host, place.port + 1),
            dialect: Dialect::Resp2,
            is_cluster: true,
            instances: count(instances),
            thread_count: u16::try_from(threads).unwrap_or(u16::MAX),
            cpus: place.load_cpus.iter().copied().take(threads).collect(),
        }],
        is_loose: false,
    }
}

/// This server as a recipe has it. The load is one thread in all of them, or it would be what is switched.
fn of_recipe(recipe: Recipe, place: &Place, host: &Host) -> Fleet {
    let cpus = if recipe.own_cores { &place.server_cpus } else { &place.cpus };
    // The last one: the first is where a lane and the system's own work are.
    let load_cpus = if recipe.load_pinned { vec![place.cpus[place.cpus.len() - 1]] } else { Vec::new() };
    Fleet {
        servers: vec![serve(place, host, recipe.routes, cpus, cpus.len())],
        are_copies: false,
        targets: vec![Target {
            endpoint: endpoint(host, place.port + u16::from(recipe.routes)),
            dialect: Dialect::Resp2,
            is_cluster: recipe.routes,
            instances: 1,
            thread_count: 1,
            cpus: load_cpus,
        }],
        is_loose: !recipe.server_pinned,
    }
}

/// With so many lanes, one on each of these cpus where there are as many, all at one port, and each at its own above it or not.
fn serve(place: &Place, host: &Host, has_lane_ports: bool, cpus: &[usize], lanes: usize) -> SetUp {
    let shared = place.port.to_string();
    let own = if has_lane_ports { (place.port + 1).to_string() } else { "off".to_owned() };
    // More lanes than cpus can't be pinned one by one: they share what the process has.
    let is_shared = lanes > cpus.len();
    let (lanes, list) = (lanes.to_string(), list_of(cpus));
    let mut words =
        vec![&place.program, "serve", "--bind", &host.address, "--port", &shared, "--lane-ports", &own];
    if host.is_open() {
        words.extend(["--protected-mode", "no"]);
    }
    words.extend(["--lanes", &lanes]);
    if !is_shared {
        words.extend(["--cpus", &list]);
    }
    let words = words.into_iter().map(str::to_owned).collect();
    setup(SELF, place.port, words, if is_shared { cpus } else { &[] }, host)
}

fn setup(name: &str, port: u16, start: Vec<String>, cpus: &[usize], host: &Host) -> SetUp {
    SetUp {
        name: Some(name.to_owned()),
        address: Some(endpoint(host, port)),
        start: Some(start),
        wrapper: host.wrapper.clone(),
        cpus: (!cpus.is_empty()).then(|| list_of(cpus)),
        ..SetUp::default()
    }
}

fn port(place: &Place, index: usize) -> u16 {
    place.port + u16::try_from(index).expect("instances are few")
}

fn endpoint(host: &Host, port: u16) -> Endpoint {
    Endpoint::Tcp(host.address.clone(), port)
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("instances are few")
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::experiments::{Offer, Preset, Scale};

    fn place(cpus: usize, peer: &str) -> Place {
        Place::new((0..cpus).collect(), None, 0, 7000, peer.to_owned(), "/bin/expresslane".to_owned())
            .unwrap()
    }

    fn here() -> Host {
        Host::of(Link::Loopback, None, None)
    }

    fn far() -> Host {
        Host { address: "198.18.0.2".to_owned(), wrapper: vec!["ip".to_owned(), "exec".to_owned()] }
    }

    #[test]
    fn published_protocols_have_doors_of_their_own() {
        let place = place(4, "redis-server");
        let ours = of(Id::E3, "10 Gbit/s", &place, &far());
        assert!(
            words(&ours, 0).ends_with("--couchbase-management off --couchbase 7005"),
            "{}",
            words(&ours, 0)
        );
        let target = &ours.targets[0];
        assert_eq!(
            (target.dialect, target.endpoint.to_string().as_str()),
            (Dialect::Couchbase, "198.18.0.2:7005")
        );
        assert_eq!(
            ours.servers[0].address().to_string(),
            "198.18.0.2:7000",
            "it is asked in RESP whether it is there"
        );
        let ours = of(Id::E2, "own", &place, &here());
        assert!(words(&ours, 0).ends_with("--aerospike 7005"), "{}", words(&ours, 0));
        assert_eq!((ours.targets[0].dialect, ours.targets[0].is_cluster), (Dialect::Aerospike, true));
        for arm in ["peer 10 Gbit/s", "resp unshaped"] {
            let fleet = of(Id::E3, arm, &place, &far());
            assert!(!words(&fleet, 0).contains("--couchbase"), "{}", words(&fleet, 0));
            assert_eq!(fleet.targets[0].dialect, Dialect::Resp2);
        }
    }

    /// With links and `io_uring`.
    fn planned(id: Id, place: &Place) -> Planned {
        let preset = Preset::of(id);
        let scale = Scale::new(preset, true, count(place.instances), 1, 64 << 30);
        let offer = Offer {
            peer: place.peer.clone(),
            price: None,
            cpus_count: count(place.cpus.len()),
            server_cpus_count: count(place.server_cpus.len()),
            links: Ok(()),
            io_uring: Ok(()),
            agents_count: 0,
            nodes_count: 1,
            has_irqbalance: false,
        };
        Planned::new(preset, scale, &offer)
    }

    fn of(id: Id, arm: &str, place: &Place, host: &Host) -> Fleet {
        let planned = planned(id, place);
        fleet(&planned, planned.arm(arm).unwrap(), place, host)
    }

    fn words(fleet: &Fleet, index: usize) -> String {
        fleet.servers[index].start.as_ref().unwrap().join(" ")
    }

    #[test]
    fn half_of_the_cpus_are_the_servers() {
        let place = place(6, "redis-server");
        assert_eq!((&place.server_cpus[..], &place.load_cpus[..]), (&[0, 1, 2][..], &[3, 4, 5][..]));
        for (cpus, instances, servers) in [(2, Some(2), 1), (4, Some(9), 3), (4, Some(1), 1), (3, None, 1)] {
            let place =
                Place::new((0..cpus).collect(), instances, 0, 1, String::new(), String::new()).unwrap();
            assert_eq!((place.server_cpus.len(), place.load_cpus.len()), (servers, cpus - servers), "{cpus}");
        }
        for cpus in [0, 1] {
            let problem = Place::new((0..cpus).collect(), None, 0, 1, String::new(), String::new());
            assert!(problem.unwrap_err().contains("too few"), "{cpus}");
        }
    }

    /// The load takes no cpu of this machine, and whoever is elsewhere is let in.
    #[test]
    fn with_agents_all_cpus_are_the_servers() {
        let place = |cpus: usize, instances, agents| {
            let (peer, program) = ("redis-server".to_owned(), "/bin/expresslane".to_owned());
            Place::new((0..cpus).collect(), instances, agents, 7000, peer, program).unwrap()
        };
        for (cpus, instances, agents, want) in [(4, None, 2, 2), (1, None, 3, 1), (4, Some(3), 2, 3)] {
            let place = place(cpus, instances, agents);
            assert_eq!((place.server_cpus.len(), place.load_cpus.len(), place.instances), (cpus, 0, want));
        }
        let host = Host::of(Link::Loopback, None, Some("10.0.0.5".parse().unwrap()));
        let place = place(4, Some(3), 2);
        for (arm, want) in [("a", [1; 3].as_slice()), ("b", &[2])] {
            let fleet = of(Id::E1, arm, &place, &host);
            assert!(words(&fleet, 0).contains("--bind 10.0.0.5"), "{}", words(&fleet, 0));
            assert!(words(&fleet, 0).contains("--protected-mode no"), "{}", words(&fleet, 0));
            let threads: Vec<u16> = fleet.targets.iter().map(|target| target.thread_count).collect();
            assert_eq!(threads, want, "of each agent");
            assert!(fleet.targets.iter().all(|target| target.cpus.is_empty()));
        }
        let near = Host::of(Link::Loopback, None, Some("127.0.0.1".parse().unwrap()));
        assert!(!words(&of(Id::E2, "a", &place, &near), 0).contains("--protected-mode"));
    }

    #[test]
    fn a_peer_is_a_master_and_copies_each_on_a_cpu() {
        let place = place(6, "redis-server");
        let fleet = of(Id::E1, "a", &place, &here());
        assert_eq!((fleet.servers.len(), fleet.targets.len(), fleet.are_copies), (3, 3, true));
        assert!(!words(&fleet, 0).contains("--replicaof"), "{}", words(&fleet, 0));
        for index in 1..3 {
            let words = words(&fleet, index);
            let (own, master) = (format!("--port {} ", 7000 + index), "--replicaof 127.0.0.1 7000");
            assert!(words.contains(&own) && words.contains(master), "{words}");
            assert_eq!(fleet.servers[index].cpus, Some(index.to_string()));
            assert_eq!(fleet.targets[index].cpus, [index + 3]);
        }
        assert_eq!(of(Id::E2, "a", &place, &here()).servers.len(), 1);
    }

    #[test]
    fn instances_without_cpus_of_their_own_share_them() {
        let mut place = place(4, "redis-server");
        place.instances = 5;
        let peers = of(Id::E1, "a", &place, &here());
        let cpus: Vec<&str> = peers.servers.iter().filter_map(|server| server.cpus.as_deref()).collect();
        assert_eq!(cpus, ["0", "1", "0", "1", "0"]);
        let loads: Vec<usize> = peers.targets.iter().flat_map(|target| target.cpus.clone()).collect();
        assert_eq!(loads, [2, 3, 2, 3, 2]);
        let lanes = of(Id::E1, "b", &place, &here());
        assert!(words(&lanes, 0).ends_with("--lanes 5"), "{}", words(&lanes, 0));
        assert_eq!((lanes.servers[0].cpus.as_deref(), lanes.targets[0].instances), (Some("0-1"), 5));
    }

    #[test]
    fn lanes_are_one_process_and_one_routed_load() {
        let place = place(6, "redis-server");
        let fleet = of(Id::E1, "b", &place, &here());
        assert!(words(&fleet, 0).contains("--port 7000 --lane-ports 7001 --lanes 3 --cpus 0-2"));
        let [target] = &fleet.targets[..] else { panic!("one load") };
        assert_eq!((target.is_cluster, target.instances, target.thread_count), (true, 3, 3));
        let myself = self::place(2, SELF);
        for arm in ["a", "installed"] {
            assert!(words(&of(Id::E2, arm, &myself, &here()), 0).starts_with("/bin/expresslane serve"));
        }
    }

    /// As installed it is free to go anywhere, and has no flag but what keeps it apart; the lanes are pinned, under one load.
    #[test]
    fn the_default_machine_is_not_tuned() {
        let place = place(4, "redis-server");
        let installed = of(Id::E2, "installed", &place, &here());
        assert_eq!(installed.servers[0].cpus.as_deref(), Some("0-3"));
        assert!(!words(&installed, 0).contains("appendonly"), "{}", words(&installed, 0));
        let lanes = of(Id::E2, "lanes", &place, &here());
        assert!(words(&lanes, 0).ends_with("--lanes 2 --cpus 0-1"), "{}", words(&lanes, 0));
        assert_eq!((lanes.targets[0].instances, lanes.targets[0].is_cluster), (1, true));
    }

    /// Servers are started at the far end, listen there to whoever comes over the link, and are asked there.
    #[test]
    fn over_a_link_everything_is_at_the_far_end() {
        let place = place(2, "redis-server");
        for arm in ["1 Gbit/s", "peer 1 Gbit/s", "uring unshaped"] {
            let fleet = of(Id::E3, arm, &place, &far());
            let words = words(&fleet, 0);
            assert!(words.contains("--bind 198.18.0.2") && words.contains("--protected-mode no"), "{words}");
            assert_eq!(words.contains("--io uring"), arm == "uring unshaped", "{words}");
            assert_eq!(fleet.servers[0].wrapper, ["ip", "exec"]);
            assert!(fleet.targets[0].endpoint.to_string().starts_with("198.18.0.2:"), "{fleet:?}");
        }
        assert_eq!(Host::of(Link::Unshaped, None, None).address, "127.0.0.1");
    }

    #[test]
    fn a_recipe_decides_ports_cpus_and_pins() {
        let place = place(4, "redis-server");
        let check = |arm: &str, ports: &str, lanes: &str, is_loose: bool, load_cpus: &[usize]| {
            let fleet = of(Id::E5, arm, &place, &here());
            assert!(words(&fleet, 0).contains(ports), "{arm}: {}", words(&fleet, 0));
            assert!(words(&fleet, 0).ends_with(lanes), "{arm}: {}", words(&fleet, 0));
            assert_eq!((fleet.is_loose, &fleet.targets[0].cpus[..]), (is_loose, load_cpus), "{arm}");
            assert_eq!(fleet.targets[0].is_cluster, !ports.ends_with("off"), "{arm}");
        };
        let (shared, own) = ("--port 7000 --lane-ports off", "--port 7000 --lane-ports 7001");
        check("start", shared, "--lanes 4 --cpus 0-3", true, &[]);
        check("+ client routes", own, "--lanes 4 --cpus 0-3", true, &[]);
        check("+ server pinned", own, "--lanes 4 --cpus 0-3", false, &[]);
        check("+ load pinned", own, "--lanes 4 --cpus 0-3", false, &[3]);
        check("full", own, "--lanes 2 --cpus 0-1", false, &[3]);
        check("- client routes", shared, "--lanes 2 --cpus 0-1", false, &[3]);
        assert!(words(&of(Id::E5, "peer", &place, &here()), 0).starts_with("redis-server --bind"));
    }
}
