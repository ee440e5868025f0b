//! The servers of a set-up, and the loads that go to them.
//!
//! ```text
//! peer          a process for each instance, one cpu each; the first is the master, the others copy it     a load for each
//! expresslane   one process, a lane for each instance, each on its port and cpu                            one load, routed
//! ```

use load::connect::Endpoint;
use load::experiments::{Id, Planned, Recipe};

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
    /// Those of servers, and those of loads.
    pub(super) server_cpus: Vec<usize>,
    pub(super) load_cpus: Vec<usize>,
    /// First of the ports.
    pub(super) port: u16,
    /// The peer's program, and this one.
    pub(super) peer: String,
    pub(super) program: String,
}

impl Place {
    /// Of these cpus: so many for servers, or half; the others are the load's.
    ///
    /// # Errors
    /// There are too few, in a sentence.
    pub(super) fn new(
        cpus: Vec<usize>,
        instances: Option<u32>,
        port: u16,
        peer: String,
        program: String,
    ) -> Result<Place, String> {
        let wanted = instances.map_or(cpus.len() / 2, |count| usize::try_from(count).expect("32 bits"));
        if cpus.len() < 2 || wanted >= cpus.len() {
            return Err(format!(
                "{} cpu(s) are too few for {wanted} server instance(s) and a load with one of its own: use fewer \
                 --instances, or a machine with at least {}",
                cpus.len(),
                wanted.max(1) + 1
            ));
        }
        let (server_cpus, load_cpus) = cpus.split_at(wanted.max(1));
        let (server_cpus, load_cpus) = (server_cpus.to_vec(), load_cpus.to_vec());
        Ok(Place { cpus, server_cpus, load_cpus, port, peer, program })
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
    pub(super) is_cluster: bool,
    /// Instances that it spans: so many times the connections of one.
    pub(super) instances: u32,
    pub(super) thread_count: u16,
    /// Where its threads are pinned; none: nowhere.
    pub(super) cpus: Vec<usize>,
}

/// The set-up of an experiment's arm.
pub(super) fn fleet(planned: &Planned, arm: &str, place: &Place) -> Fleet {
    if let Some((_, recipe)) = planned.recipes.iter().find(|(name, _)| name == arm) {
        return of_recipe(*recipe, place);
    }
    let is_ours = arm == "b" || place.peer == SELF;
    let instances = if planned.id == Id::E1 { place.server_cpus.len() } else { 1 };
    if is_ours { lanes(instances, place) } else { processes(instances, place) }
}

/// Processes that speak Redis' flags.
fn processes(instances: usize, place: &Place) -> Fleet {
    let folder = std::env::temp_dir().to_string_lossy().into_owned();
    let server = |index: usize| {
        let mut words: Vec<String> =
            ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", &folder]
                .map(str::to_owned)
                .into();
        words.insert(0, place.peer.clone());
        words.extend(["--port".to_owned(), port(place, index).to_string()]);
        if index > 0 {
            words.extend(["--replicaof", "127.0.0.1", &place.port.to_string()].map(str::to_owned));
            words.extend(["--repl-diskless-sync-delay", "0"].map(str::to_owned));
        }
        setup(&place.peer, port(place, index), words, &place.server_cpus[index..=index])
    };
    let target = |index: usize| Target {
        endpoint: endpoint(port(place, index)),
        is_cluster: false,
        instances: 1,
        thread_count: 1,
        cpus: vec![place.load_cpus[index % place.load_cpus.len()]],
    };
    Fleet {
        servers: (0..instances).map(server).collect(),
        are_copies: true,
        targets: (0..instances).map(target).collect(),
        is_loose: false,
    }
}

/// This server, with a lane for each instance.
fn lanes(instances: usize, place: &Place) -> Fleet {
    let cpus = &place.server_cpus[..instances];
    let threads = instances.min(place.load_cpus.len());
    Fleet {
        servers: vec![serve(place, true, cpus)],
        are_copies: false,
        targets: vec![Target {
            endpoint: endpoint(place.port + 1),
            is_cluster: true,
            instances: count(instances),
            thread_count: u16::try_from(threads).unwrap_or(u16::MAX),
            cpus: place.load_cpus[..threads].to_vec(),
        }],
        is_loose: false,
    }
}

/// This server as a recipe has it. The load is one thread in all of them, or it would be what is switched.
fn of_recipe(recipe: Recipe, place: &Place) -> Fleet {
    let cpus = if recipe.own_cores { &place.server_cpus } else { &place.cpus };
    // The last one: the first is where a lane and the system's own work are.
    let load_cpus = if recipe.load_pinned { vec![place.cpus[place.cpus.len() - 1]] } else { Vec::new() };
    Fleet {
        servers: vec![serve(place, recipe.routes, cpus)],
        are_copies: false,
        targets: vec![Target {
            endpoint: endpoint(place.port + u16::from(recipe.routes)),
            is_cluster: recipe.routes,
            instances: 1,
            thread_count: 1,
            cpus: load_cpus,
        }],
        is_loose: !recipe.server_pinned,
    }
}

/// With a lane on each of these cpus, all at one port, and each at its own above it or not.
fn serve(place: &Place, has_lane_ports: bool, cpus: &[usize]) -> SetUp {
    let shared = place.port.to_string();
    let own = if has_lane_ports { (place.port + 1).to_string() } else { "off".to_owned() };
    let (lanes, list) = (cpus.len().to_string(), list_of(cpus));
    let words = [
        &place.program,
        "serve",
        "--bind",
        "127.0.0.1",
        "--port",
        &shared,
        "--lane-ports",
        &own,
        "--lanes",
        &lanes,
        "--cpus",
        &list,
    ];
    setup(SELF, place.port, words.map(str::to_owned).into(), &[])
}

fn setup(name: &str, port: u16, start: Vec<String>, cpus: &[usize]) -> SetUp {
    SetUp {
        name: Some(name.to_owned()),
        address: Some(endpoint(port)),
        start: Some(start),
        cpus: (!cpus.is_empty()).then(|| list_of(cpus)),
        ..SetUp::default()
    }
}

fn port(place: &Place, index: usize) -> u16 {
    place.port + u16::try_from(index).expect("instances are few")
}

fn endpoint(port: u16) -> Endpoint {
    Endpoint::Tcp("127.0.0.1".to_owned(), port)
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("instances are few")
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::experiments::{Preset, Scale};

    fn place(cpus: usize, peer: &str) -> Place {
        Place::new((0..cpus).collect(), None, 7000, peer.to_owned(), "/bin/expresslane".to_owned()).unwrap()
    }

    fn planned(id: Id, place: &Place) -> Planned {
        let preset = Preset::of(id);
        let instances = count(place.server_cpus.len());
        let scale = Scale::new(preset, true, instances, instances, 64 << 30);
        Planned::new(preset, scale, &place.peer, None, count(place.cpus.len()))
    }

    fn words(fleet: &Fleet, index: usize) -> String {
        fleet.servers[index].start.as_ref().unwrap().join(" ")
    }

    #[test]
    fn half_of_the_cpus_are_the_servers() {
        let place = place(6, "redis-server");
        assert_eq!((&place.server_cpus[..], &place.load_cpus[..]), (&[0, 1, 2][..], &[3, 4, 5][..]));
        for (cpus, instances) in [(1, None), (0, None), (2, Some(2)), (4, Some(9))] {
            let problem = Place::new((0..cpus).collect(), instances, 1, String::new(), String::new());
            assert!(problem.unwrap_err().contains("too few"), "{cpus}");
        }
    }

    #[test]
    fn a_peer_is_a_master_and_copies_each_on_a_cpu() {
        let place = place(6, "redis-server");
        let fleet = fleet(&planned(Id::E1, &place), "a", &place);
        assert_eq!((fleet.servers.len(), fleet.targets.len(), fleet.are_copies), (3, 3, true));
        assert!(!words(&fleet, 0).contains("--replicaof"), "{}", words(&fleet, 0));
        for index in 1..3 {
            let words = words(&fleet, index);
            assert!(
                words.contains(&format!("--port {} --replicaof 127.0.0.1 7000", 7000 + index)),
                "{words}"
            );
            assert_eq!(fleet.servers[index].cpus, Some(index.to_string()));
            assert_eq!(fleet.targets[index].cpus, [index + 3]);
        }
        assert_eq!(super::fleet(&planned(Id::E2, &place), "a", &place).servers.len(), 1);
    }

    #[test]
    fn lanes_are_one_process_and_one_routed_load() {
        let place = place(6, "redis-server");
        let fleet = fleet(&planned(Id::E1, &place), "b", &place);
        assert!(words(&fleet, 0).contains("--port 7000 --lane-ports 7001 --lanes 3 --cpus 0-2"));
        let [target] = &fleet.targets[..] else { panic!("one load") };
        assert_eq!((target.is_cluster, target.instances, target.thread_count), (true, 3, 3));
        let myself = self::place(2, SELF);
        let a = super::fleet(&planned(Id::E4, &myself), "a", &myself);
        assert!(words(&a, 0).starts_with("/bin/expresslane serve"));
    }

    #[test]
    fn a_recipe_decides_ports_cpus_and_pins() {
        let place = place(4, "redis-server");
        let planned = planned(Id::E5, &place);
        let check = |arm: &str, ports: &str, lanes: &str, is_loose: bool, load_cpus: &[usize]| {
            let fleet = fleet(&planned, arm, &place);
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
        assert!(words(&fleet(&planned, "peer", &place), 0).starts_with("redis-server --bind"));
    }
}
