//! From settings and the machine's facts to what will be started: a pure function, so that every refusal is a test.
//!
//! A refusal is one sentence that says what to change.

use std::net::{IpAddr, SocketAddr};

use lane::Namespaces;
use wire::route::Ports;

use crate::doors::{self, Entrance};
use crate::machine::{Facts, list_of};
use crate::scheduler::Scheduler;
use crate::settings::{self, Io, LANES_COUNT_MAX, LanesCount, ServeSettings, Size};

/// Up to so many hardware threads all are lanes; above, [`THREADS_KEPT`] are left to the system and its interrupts.
const THREADS_ALL_LANES: usize = 4;
/// See [`THREADS_ALL_LANES`].
const THREADS_KEPT: usize = 2;
/// Open files beside the clients: standard streams, signals, the reserve, what libraries hold for a moment, MIGRATE's 64
/// connections, and files of the data.
const FILES_BESIDE: u64 = 32 + 66;
/// Open files of one lane beside its clients and its listeners: epoll or the ring, the bell, three of the connection over which data
/// are loaded, and two to spare.
const FILES_PER_LANE: u64 = 7;

/// What will be started.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// For each lane, in the order of their numbers, where its thread is pinned; `None`: the kernel may move it.
    pub(crate) cpus: Vec<Option<usize>>,
    /// Where clients come in over TCP.
    pub(crate) entrances: Vec<Entrance>,
    /// What their clients may name.
    pub(crate) namespaces: Namespaces,
    /// Files that must be allowed to be open beside the clients'.
    pub(crate) files_beside: u64,
    /// Bytes of addresses that each lane reserves.
    pub(crate) region_size: u64,
    /// Which backend, and why.
    pub(crate) io_reason: &'static str,
    /// What was wished and can't be had, each with what to do; for the start-up table.
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// The cpus that no lane has, for the threads beside them. None if a lane may run anywhere.
    pub(crate) fn cpus_beside(&self, facts: &Facts) -> Vec<usize> {
        beside(&self.cpus, facts)
    }
}

fn beside(lanes: &[Option<usize>], facts: &Facts) -> Vec<usize> {
    if lanes.contains(&None) {
        return Vec::new();
    }
    facts.cpus.iter().copied().filter(|cpu| !lanes.contains(&Some(*cpu))).collect()
}

/// What to know of lanes that go before everything else, where they may take every cpu.
fn nobody_else_runs(sched: Option<Scheduler>, lanes: &[Option<usize>], facts: &Facts) -> Option<String> {
    let scheduler = sched.filter(|scheduler| scheduler.is_real_time() && beside(lanes, facts).is_empty())?;
    Some(format!(
        "under --sched {scheduler} lanes that never sleep leave others, of this server as well, a twentieth of each second, for \
         lanes may take all cpus: keep one free with fewer --lanes or with --cpus"
    ))
}

/// Decides what is started. An error is a sentence that says what to change.
pub(crate) fn plan(settings: &ServeSettings, facts: &Facts) -> Result<Plan, String> {
    let entrances = doors::entrances(settings);
    let listens = !entrances.is_empty();
    if listens {
        refuse_open_door(settings)?;
    }
    let mut notes = Vec::new();
    let cpus = cpus_of_lanes(settings, facts, &mut notes)?;
    doors::check(&entrances, cpus.len())?;
    if let Some(announced) = settings.announce_port {
        let step = settings.lane_ports.0.map_or(1, |ports| ports.step);
        doors::check_end("--announce-port", Ports { first: announced, step }, cpus.len())?;
    }
    let mut named = settings.bind.iter().enumerate();
    if let Some((_, twice)) =
        named.find(|(at, bind)| settings.bind[..*at].iter().any(|other| other.ip == bind.ip))
    {
        return Err(format!("--bind names {twice} twice"));
    }
    if settings.bind.is_empty() && listens {
        let flags: Vec<&str> = entrances.iter().map(|entrance| entrance.flag).collect();
        return Err(format!(
            "no address is bound for {}: name one with --bind, or turn TCP off with --port 0 --lane-ports off",
            flags.join(", ")
        ));
    }
    if !listens && settings.unixsocket.is_none() {
        return Err("nobody could connect: all ports are off and there is no --unixsocket".to_owned());
    }
    if settings.dbfilename == settings.appenddirname {
        let both = &settings.dbfilename;
        return Err(format!(
            "--dbfilename and --appenddirname are both {both}: name the one or the other anew"
        ));
    }
    let limit = settings.maxmemory.0;
    if let Some(bound) = facts.memory_bound.filter(|bound| limit == 0 || *bound < limit) {
        notes.push(format!(
            "the kernel ends this process when it needs more memory than the {} of its control group: set --maxmemory \
             below that",
            Size(bound)
        ));
    }
    notes.extend(nobody_else_runs(settings.sched, &cpus, facts));
    let count = |count: usize| u64::try_from(count).expect("lanes, addresses and doors are few");
    let listeners_per_lane = count(entrances.len()) * count(settings.bind.len());
    Ok(Plan {
        files_beside: FILES_BESIDE + count(cpus.len()) * (FILES_PER_LANE + listeners_per_lane),
        cpus,
        entrances,
        namespaces: settings::namespaces(settings)?,
        region_size: facts.memory_size,
        io_reason: io_reason(settings.io),
        notes,
    })
}

/// The sentence for a process that may open only `allowed` files.
pub(crate) fn too_few_files(settings: &ServeSettings, plan: &Plan, allowed: u64) -> String {
    let beside = plan.files_beside;
    let wanted = beside + u64::from(settings.maxclients);
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

/// A database without a password that the world can reach is the oldest hole there is.
fn refuse_open_door(settings: &ServeSettings) -> Result<(), String> {
    let open = settings.bind.iter().find(|bind| !bind.ip.is_loopback());
    match open {
        Some(bind) if settings.protected_mode && settings.requirepass.is_none() => Err(format!(
            "{bind} can be reached from other machines and there is no password: set requirepass, bind 127.0.0.1, or \
             say --protected-mode no"
        )),
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
            "lanes are not pinned: they are more ({count}) than the cpus ({}); lower --lanes for lanes that nobody disturbs",
            list_of(&facts.cpus)
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

fn io_reason(io: Io) -> &'static str {
    match io {
        Io::Auto => "epoll (auto: io_uring costs about as much)",
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
        Facts { cpus: cpus.collect(), quota, memory_size: 8 << 30, memory_bound: None }
    }

    /// The cpus that lanes get, `None` as -1.
    #[track_caller]
    fn check_cpus(flags: &[&str], facts: &Facts, want: &[i64]) {
        let plan = plan(&settings(flags), facts).unwrap();
        let got = plan.cpus.iter().map(|cpu| cpu.map_or(-1, |cpu| i64::try_from(cpu).unwrap()));
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
        assert_eq!(plan(&settings(&[]), &machine(0..96, None)).unwrap().cpus.len(), 94);
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
    fn threads_beside_the_lanes_have_the_cpus_that_no_lane_has() {
        let beside = |flags: &[&str], count: usize| {
            let facts = machine(0..count, None);
            plan(&settings(flags), &facts).unwrap().cpus_beside(&facts)
        };
        assert_eq!(beside(&[], 8), [0, 1]);
        assert_eq!(beside(&["--cpus", "0,2"], 4), [1, 3]);
        assert_eq!(beside(&[], 4), [0; 0], "every cpu has a lane");
        assert_eq!(beside(&["--lanes", "9"], 8), [0; 0], "lanes may run anywhere");
    }

    #[test]
    fn lanes_that_may_hold_up_the_machine_are_noted() {
        for (flags, is_noted) in [
            (&["--sched", "fifo:1"][..], true),
            (&["--sched", "rr:1", "--lanes", "9"], true),
            (&["--sched", "fifo:1", "--lanes", "3"], false),
            (&["--sched", "other"], false),
            (&[], false),
        ] {
            let notes = plan(&settings(flags), &machine(0..4, None)).unwrap().notes;
            assert_eq!(
                notes.iter().any(|note| note.contains("never sleep")),
                is_noted,
                "{flags:?}: {notes:?}"
            );
        }
    }

    #[test]
    fn a_control_group_that_ends_the_server_is_noted() {
        for (maxmemory, bound, is_noted) in [
            ("0", None, false),
            ("0", Some(2 << 30), true),
            ("3gb", Some(2 << 30), true),
            ("1gb", Some(2 << 30), false),
        ] {
            let facts = Facts { memory_bound: bound, ..machine(0..2, None) };
            let notes = plan(&settings(&["--maxmemory", maxmemory]), &facts).unwrap().notes;
            assert_eq!(
                notes.iter().any(|note| note.contains("control group")),
                is_noted,
                "{maxmemory}: {notes:?}"
            );
        }
    }

    #[test]
    fn doors_follow_the_settings_and_ports_the_lanes() {
        let ports = |flags: &[&str]| -> Vec<String> {
            let plan = plan(&settings(flags), &machine(0..8, None)).unwrap();
            let entrances = plan.entrances.iter();
            entrances.map(|open| format!("{} {}", open.flag, open.row(plan.cpus.len()))).collect()
        };
        assert_eq!(ports(&["--lanes", "1"]), ["--port 6379", "--lane-ports 7000"]);
        assert_eq!(ports(&["--lanes", "2", "--port", "0"]), ["--lane-ports 7000-7001"]);
        // What lies between two ports is another dialect's, if that steps as far.
        let apart = ["--lanes", "3", "--port", "0", "--lane-ports", "7000+10", "--aerospike", "7001+10"];
        let rows = ["--lane-ports 7000-7020 in steps of 10", "--aerospike 7001-7021 in steps of 10"];
        assert_eq!(ports(&apart), rows);
        for (flags, want) in [
            (&["--memcached"][..], Some("--memcached 11211")),
            (&["--memcached", "yes"], Some("--memcached 11211")),
            (&["--memcached", "22122"], Some("--memcached 22122")),
            (&["--memcached", "off"], None),
            (&["--aerospike"], Some("--aerospike 3000-3005")),
        ] {
            assert_eq!(ports(flags).get(2).map(String::as_str), want);
        }
    }

    #[test]
    fn what_can_not_be_is_refused_with_what_to_change() {
        refused(&["--bind", "127.0.0.1,::1,127.0.0.1"], "--bind names 127.0.0.1 twice");
        refused(&["--appenddirname", "dump.rdb"], "--dbfilename and --appenddirname are both dump.rdb");
        refused(&["--bind", "0.0.0.0"], "set requirepass, bind 127.0.0.1, or say --protected-mode no");
        refused(&["--cpus", "6-9"], "may not run on 8-9, only on 0-7");
        refused(&["--cpus", "1,2", "--lanes", "3"], "name 3 cpus, or lower --lanes");
        refused(
            &["--lane-ports", "65531"],
            "6 ports from 65531 end above 65535: choose a lower --lane-ports",
        );
        refused(
            &["--lane-ports", "6377", "--lanes", "3"],
            "--lane-ports 6377-6379 and --port 6379 have a port in common",
        );
        refused(&["--port", "0", "--lane-ports", "off"], "nobody could connect");
        refused(
            &["--lane-ports", "60000+1200"],
            "6 ports from 60000 in steps of 1200 end above 65535: choose a lower --lane-ports",
        );
        let row = "--aerospike 6990-7010 in steps of 10 and --lane-ports 7000-7002 have a port in common";
        refused(&["--aerospike", "6990+10", "--lanes", "3"], row);
        refused(
            &["--memcached", "11211+2"],
            "--memcached is one port for all lanes: leave out the step behind it",
        );
        refused(&["--memcached", "6379"], "--memcached 6379 and --port 6379 have a port in common: move one");
        refused(&["--memcached", "7001", "--lanes", "2"], "--memcached 7001 and --lane-ports 7000-7001 have");
        refused(&["--announce-port", "65535"], "choose a lower --announce-port");
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
        assert_eq!(plan.files_beside, 98 + 2 * (7 + 2 * 2));
        let more = super::plan(
            &self::settings(&["--maxclients", "1000", "--lanes", "2", "--memcached"]),
            &machine(0..8, None),
        );
        assert_eq!(more.unwrap().files_beside, 98 + 2 * (7 + 3 * 2));
        let problem = too_few_files(&settings, &plan, 620);
        assert!(
            problem.contains("ulimit -n 1120") && problem.contains("lower --maxclients to 500"),
            "{problem}"
        );
        assert!(!too_few_files(&settings, &plan, 20).contains("lower"));
    }
}
