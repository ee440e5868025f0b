//! From settings and the machine's facts to what will be started: a pure function, so that every refusal is a test.
//!
//! A refusal is one sentence that says what to change.

use std::net::{IpAddr, SocketAddr};

use crate::machine::{Facts, list_of};
use crate::settings::{BindAddress, Io, LANES_COUNT_MAX, LanesCount, ServeSettings};

/// Up to so many hardware threads all are lanes; above, [`THREADS_KEPT`] are left to the system and its interrupts.
const THREADS_ALL_LANES: usize = 4;
/// See [`THREADS_ALL_LANES`].
const THREADS_KEPT: usize = 2;
/// Open files beside the clients: standard streams, signals, the reserve, and what libraries hold for a moment.
const FILES_BESIDE: u64 = 32;
/// Open files of one lane beside its clients and its listeners: epoll or the ring, the bell, and two to spare.
const FILES_PER_LANE: u64 = 4;

/// What will be started.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// In the order of their numbers.
    pub(crate) lanes: Vec<LanePlan>,
    /// Where all lanes listen together; none with port 0.
    pub(crate) shared: Vec<Place>,
    /// Where all lanes listen together for memcached's clients.
    pub(crate) memcached: Vec<Place>,
    /// Files that must be allowed to be open.
    pub(crate) files_count: u64,
    /// Bytes of addresses that each lane reserves.
    pub(crate) region_size: u64,
    /// Which backend, and why.
    pub(crate) io_reason: &'static str,
    /// What was wished and can't be had, each with what to do; for the start-up table.
    pub(crate) notes: Vec<String>,
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LanePlan {
    /// Where its thread is pinned; `None`: the kernel may move it.
    pub(crate) cpu: Option<usize>,
    /// Where it listens alone.
    pub(crate) own: Vec<Place>,
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    /// The machine may lack it; it is then left out.
    pub(crate) is_optional: bool,
}

/// Decides what is started. An error is a sentence that says what to change.
pub(crate) fn plan(settings: &ServeSettings, facts: &Facts) -> Result<Plan, String> {
    refuse_open_door(settings)?;
    let mut notes = Vec::new();
    let cpus = cpus_of_lanes(settings, facts, &mut notes)?;
    let lane_ports = lane_ports(settings, cpus.len())?;
    refuse_shared_ports(settings, lane_ports, cpus.len())?;
    if settings.bind.is_empty() && listens(settings) {
        return Err(
            "no address is bound: name one with --bind, or turn TCP off with --port 0 --lane-ports off --memcached off"
                .to_owned(),
        );
    }
    if !listens(settings) && settings.unixsocket.is_none() {
        return Err(
            "nobody could connect: --port is 0, --lane-ports and --memcached are off and there is no \
                    --unixsocket"
                .to_owned(),
        );
    }
    let io_reason = io_reason(settings.io);
    let places = |port: u16| {
        let place = move |bind: &BindAddress| Place {
            address: SocketAddr::new(bind.ip, port),
            is_optional: bind.is_optional,
        };
        settings.bind.iter().map(place).collect::<Vec<_>>()
    };
    let lanes_count = u64::try_from(cpus.len()).expect("lanes are few");
    let addresses_count = u64::try_from(settings.bind.len()).expect("addresses are few");
    let lanes = cpus.iter().zip(0_u16..).map(|(cpu, lane)| LanePlan {
        cpu: *cpu,
        own: lane_ports.map_or_else(Vec::new, |base| places(base + lane)),
    });
    Ok(Plan {
        lanes: lanes.collect(),
        shared: if settings.port == 0 { Vec::new() } else { places(settings.port) },
        memcached: settings.memcached_port().map_or_else(Vec::new, places),
        files_count: u64::from(settings.maxclients)
            + FILES_BESIDE
            + lanes_count * (FILES_PER_LANE + doors_count(settings) * addresses_count),
        region_size: facts.memory_size,
        io_reason,
        notes,
    })
}

/// The sentence for a process that may open only `allowed` files.
pub(crate) fn too_few_files(settings: &ServeSettings, plan: &Plan, allowed: u64) -> String {
    let wanted = plan.files_count;
    let beside = wanted - u64::from(settings.maxclients);
    let cure = if allowed > beside {
        format!(", or lower --maxclients to {}", allowed - beside)
    } else {
        String::new()
    };
    format!(
        "{} clients need {wanted} open files and only {allowed} are allowed: raise the limit (ulimit -n {wanted}, or \
         LimitNOFILE={wanted} in the service file){cure}",
        settings.maxclients
    )
}

/// Whether anything is served over TCP.
fn listens(settings: &ServeSettings) -> bool {
    doors_count(settings) > 0
}

/// Ports on which a lane listens.
fn doors_count(settings: &ServeSettings) -> u64 {
    let doors = [settings.port > 0, settings.lane_ports.0.is_some(), settings.memcached_port().is_some()];
    doors.into_iter().map(u64::from).sum()
}

/// Who speaks two dialects at one port is understood by nobody.
fn refuse_shared_ports(
    settings: &ServeSettings,
    base: Option<u16>,
    lanes_count: usize,
) -> Result<(), String> {
    let Some(port) = settings.memcached_port() else { return Ok(()) };
    let from_base = |base: u16| usize::from(port).checked_sub(usize::from(base));
    let taken = if settings.port == port {
        "--port"
    } else if base.and_then(from_base).is_some_and(|lane| lane < lanes_count) {
        "a lane port"
    } else {
        return Ok(());
    };
    Err(format!("--memcached {port} is {taken} already: move one of them"))
}

/// A database without a password that the world can reach is the oldest hole there is.
fn refuse_open_door(settings: &ServeSettings) -> Result<(), String> {
    let open = settings.bind.iter().find(|bind| !bind.ip.is_loopback());
    match open {
        Some(bind) if listens(settings) && settings.protected_mode && settings.requirepass.is_none() => {
            Err(format!(
                "{bind} can be reached from other machines and there is no password: set requirepass, bind 127.0.0.1, or \
             say --protected-mode no"
            ))
        }
        _ => Ok(()),
    }
}

/// One cpu for each lane, in order; `None` where it is not pinned.
fn cpus_of_lanes(
    settings: &ServeSettings,
    facts: &Facts,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<usize>>, String> {
    let threads = facts.threads_count();
    if let Some(list) = &settings.cpus {
        let wrong: Vec<usize> = list.0.iter().copied().filter(|cpu| !facts.cpus.contains(cpu)).collect();
        if !wrong.is_empty() {
            return Err(format!(
                "--cpus {} is not possible: this process may not run on {}, only on {}",
                list,
                list_of(&wrong),
                list_of(&facts.cpus)
            ));
        }
        return match settings.lanes {
            LanesCount::Auto => Ok(list.0.iter().copied().map(Some).collect()),
            LanesCount::Count(count) if usize::from(count) <= list.0.len() => {
                Ok(list.0.iter().copied().take(usize::from(count)).map(Some).collect())
            }
            LanesCount::Count(count) => Err(format!(
                "{count} lanes do not fit the {} cpus of --cpus {list}: name {count} cpus, or lower --lanes",
                list.0.len()
            )),
        };
    }
    let count = match settings.lanes {
        LanesCount::Count(count) => usize::from(count),
        LanesCount::Auto if threads <= THREADS_ALL_LANES => threads,
        LanesCount::Auto => (threads - THREADS_KEPT).max(THREADS_ALL_LANES),
    };
    let count = count.min(usize::from(LANES_COUNT_MAX));
    if count > facts.cpus.len() {
        notes.push(format!(
            "lanes are not pinned: {count} lanes share {} cpus; lower --lanes for lanes that nobody disturbs",
            facts.cpus.len()
        ));
        return Ok(vec![None; count]);
    }
    if threads < facts.cpus.len() {
        // Under a quota the group's other processes choose from the same cpus, and would all choose the same.
        notes.push(format!(
            "lanes are not pinned: a quota grants {threads} of {} cpus; name cpus of their own with --cpus",
            facts.cpus.len()
        ));
        return Ok(vec![None; count]);
    }
    // The first cpus are left free: interrupts and the system's own work gather there.
    Ok(facts.cpus[facts.cpus.len() - count..].iter().copied().map(Some).collect())
}

/// Where lane ports begin, if the range is free of the shared port and ends within the numbers.
fn lane_ports(settings: &ServeSettings, lanes_count: usize) -> Result<Option<u16>, String> {
    let Some(base) = settings.lane_ports.0 else { return Ok(None) };
    let last = usize::from(base) + lanes_count - 1;
    if last > usize::from(u16::MAX) {
        return Err(format!(
            "{lanes_count} lane ports from {base} end above 65535: choose a lower --lane-ports"
        ));
    }
    if (usize::from(base)..=last).contains(&usize::from(settings.port)) {
        return Err(format!("lane ports {base}-{last} include --port {}: move one of them", settings.port));
    }
    if let Some(announced) = settings.announce_port
        && usize::from(announced) + lanes_count - 1 > usize::from(u16::MAX)
    {
        return Err(format!(
            "{lanes_count} ports from {announced} end above 65535: choose a lower --announce-port"
        ));
    }
    Ok(Some(base))
}

fn io_reason(io: Io) -> &'static str {
    match io {
        Io::Auto => "epoll (auto: io_uring has not been measured to cost less)",
        Io::Epoll => "epoll (asked for)",
        Io::Uring => "io_uring (asked for)",
    }
}

/// Whether an error at binding means that the machine has no such address or no such protocol.
pub(crate) fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT))
}

/// The sentence for an address that can't be listened on.
pub(crate) fn cannot_listen(address: SocketAddr, error: &std::io::Error, flag: &str) -> String {
    let cure = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            format!("another program listens there; stop it, or choose another port with {flag}")
        }
        Some(libc::EACCES) => {
            format!("ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one with {flag}")
        }
        _ if is_absent(error) => {
            format!("this machine has no {}; name its own with --bind", family(address.ip()))
        }
        _ => error.to_string(),
    };
    format!("can't listen on {address}: {cure}")
}

fn family(ip: IpAddr) -> String {
    format!("address {ip}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Verb, parse};

    fn settings(flags: &[&str]) -> ServeSettings {
        let arguments = ["expresslane", "serve"].iter().chain(flags).map(Into::into);
        match parse(arguments, |_| Ok(String::new())) {
            Ok(Verb::Serve(settings)) => *settings,
            other => panic!("{other:?}"),
        }
    }

    fn machine(cpus: std::ops::Range<usize>, quota: Option<f64>) -> Facts {
        Facts { cpus: cpus.collect(), quota, memory_size: 8 << 30 }
    }

    /// The cpus that lanes get, `None` as -1.
    #[track_caller]
    fn check_cpus(flags: &[&str], facts: &Facts, want: &[i64]) {
        let plan = plan(&settings(flags), facts).unwrap();
        let got = plan.lanes.iter().map(|lane| lane.cpu.map_or(-1, |cpu| i64::try_from(cpu).unwrap()));
        assert_eq!(got.collect::<Vec<_>>(), want);
    }

    #[track_caller]
    fn refused(flags: &[&str], want: &str) {
        let problem = plan(&settings(flags), &machine(0..8, None)).expect_err("it must be refused");
        assert!(problem.contains(want), "{problem}");
    }

    #[test]
    fn lanes_fill_a_small_machine_and_leave_room_on_a_large_one() {
        check_cpus(&[], &machine(0..1, None), &[0]);
        check_cpus(&[], &machine(0..4, None), &[0, 1, 2, 3]);
        check_cpus(&[], &machine(0..5, None), &[1, 2, 3, 4]);
        check_cpus(&[], &machine(8..16, None), &[10, 11, 12, 13, 14, 15]);
        assert_eq!(plan(&settings(&[]), &machine(0..96, None)).unwrap().lanes.len(), 94);
    }

    #[test]
    fn lanes_are_pinned_only_where_nobody_else_is() {
        check_cpus(&["--lanes", "3"], &machine(0..2, None), &[-1, -1, -1]);
        check_cpus(&[], &machine(0..64, Some(2.0)), &[-1, -1]);
        check_cpus(&["--cpus", "5,3"], &machine(0..64, Some(2.0)), &[5, 3]);
        check_cpus(&["--cpus", "2-5", "--lanes", "2"], &machine(0..8, None), &[2, 3]);
        let plan = plan(&settings(&["--lanes", "9"]), &machine(0..8, None)).unwrap();
        assert!(plan.notes[0].contains("not pinned"), "{:?}", plan.notes);
    }

    #[test]
    fn ports_follow_the_lanes() {
        let plan = plan(&settings(&["--lane-ports", "7100", "--lanes", "2"]), &machine(0..8, None)).unwrap();
        let ports: Vec<Vec<String>> = plan
            .lanes
            .iter()
            .map(|lane| lane.own.iter().map(|place| place.address.to_string()).collect())
            .collect();
        assert_eq!(ports, [["127.0.0.1:7100", "[::1]:7100"], ["127.0.0.1:7101", "[::1]:7101"]]);
        assert_eq!((plan.shared.len(), plan.memcached.len()), (2, 0));
        for (flags, want) in [
            (&["--memcached"][..], Some("127.0.0.1:11211")),
            (&["--memcached", "yes"], Some("127.0.0.1:11211")),
            (&["--memcached", "22122"], Some("127.0.0.1:22122")),
            (&["--memcached", "off"], None),
        ] {
            let plan = super::plan(&settings(flags), &machine(0..2, None)).unwrap();
            assert_eq!(plan.memcached.first().map(|place| place.address.to_string()).as_deref(), want);
        }
        assert!(!plan.shared[0].is_optional && plan.shared[1].is_optional);
    }

    #[test]
    fn what_can_not_be_is_refused_with_what_to_change() {
        refused(&["--bind", "0.0.0.0"], "set requirepass, bind 127.0.0.1, or say --protected-mode no");
        refused(&["--cpus", "6-9"], "may not run on 8-9, only on 0-7");
        refused(&["--cpus", "1,2", "--lanes", "3"], "name 3 cpus, or lower --lanes");
        refused(&["--lane-ports", "65531"], "choose a lower --lane-ports");
        refused(&["--lane-ports", "6377", "--lanes", "3"], "include --port 6379");
        refused(&["--port", "0", "--lane-ports", "off"], "nobody could connect");
        refused(&["--memcached", "6379"], "--memcached 6379 is --port already");
        refused(&["--memcached", "7001", "--lanes", "2"], "--memcached 7001 is a lane port already");
    }

    #[test]
    fn an_open_door_needs_a_password_or_a_word() {
        for flags in [
            ["--bind", "0.0.0.0", "--requirepass", "x"],
            ["--bind", "10.0.0.1", "--protected-mode", "no"],
            ["--bind", "127.0.0.2", "--databases", "1"],
        ] {
            assert!(plan(&settings(&flags), &machine(0..8, None)).is_ok(), "{flags:?}");
        }
        let unix = ["--bind", "0.0.0.0", "--port", "0", "--lane-ports", "off", "--unixsocket", "s"];
        assert!(plan(&settings(&unix), &machine(0..8, None)).is_ok());
    }

    #[test]
    fn files_are_counted_for_clients_and_lanes() {
        let settings = settings(&["--maxclients", "1000", "--lanes", "2"]);
        let plan = plan(&settings, &machine(0..8, None)).unwrap();
        assert_eq!(plan.files_count, 1000 + 32 + 2 * (4 + 2 * 2));
        let more = super::plan(
            &self::settings(&["--maxclients", "1000", "--lanes", "2", "--memcached"]),
            &machine(0..8, None),
        );
        assert_eq!(more.unwrap().files_count, 1000 + 32 + 2 * (4 + 3 * 2));
        let problem = too_few_files(&settings, &plan, 548);
        assert!(
            problem.contains("ulimit -n 1048") && problem.contains("lower --maxclients to 500"),
            "{problem}"
        );
        assert!(!too_few_files(&settings, &plan, 20).contains("lower"));
    }
}
