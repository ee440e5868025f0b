//! Processes that were asked for, and the session by which someone watches.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::thread;
use crate::facts::{Listener, Nic, Process};
use crate::kernel::live::files::Files;
use crate::kernel::live::threads::start_of;
use crate::plan::is_match;
use crate::spec::{Match, Protocol};

/// A process has at most so many ancestors that are looked at.
const ANCESTORS_COUNT_MAX: usize = 64;
/// Tables of sockets in /proc/PID/net, and the state of those that take what any client sends: a TCP socket that listens, a UDP socket
/// that is connected to nobody (include/net/tcp_states.h).
const TABLES: [(&str, Protocol, &str); 4] = [
    ("tcp", Protocol::Tcp, "0A"),
    ("tcp6", Protocol::Tcp, "0A"),
    ("udp", Protocol::Udp, "07"),
    ("udp6", Protocol::Udp, "07"),
];

/// Those that match any of the wishes, ascending by number.
pub(super) fn matching(files: &Files, wishes: &[Match]) -> Vec<Process> {
    let mut pids: Vec<u32> = files.names("proc").iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    if wishes.iter().all(Match::is_empty) {
        return Vec::new();
    }
    let read = |pid: u32| {
        let name = files.read(&format!("proc/{pid}/comm")).ok()?;
        let groups = files.read(&format!("proc/{pid}/cgroup")).unwrap_or_default();
        let (cgroup, unit) = group_and_unit(&groups);
        let known = Process { pid, name, unit, cgroup, ..Process::default() };
        if !wishes.iter().any(|wish| is_match(wish, &known)) {
            return None;
        }
        let tids = files.names(&format!("proc/{pid}/task"));
        let mut tids: Vec<u32> = tids.iter().filter_map(|tid| tid.parse().ok()).collect();
        tids.sort_unstable();
        Some(Process {
            start: start_of(files, pid)?,
            listens: listeners(files, pid),
            elsewhere: is_elsewhere(files, pid),
            threads: tids.into_iter().filter_map(thread).collect(),
            ..known
        })
    };
    pids.into_iter().filter_map(read).collect()
}

/// Of /proc/PID/cgroup: `0::/system.slice/redis.service`, or `4:cpuset:/x` where version 1 has the cpusets. The unit is the last
/// part that is one.
fn group_and_unit(text: &str) -> (String, Option<String>) {
    let lines: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(':').and_then(|(_, rest)| rest.split_once(':')))
        .collect();
    let is_of = |name: &str, controllers: &str| controllers.split(',').any(|controller| controller == name);
    let of_cpusets = lines.iter().find(|(controllers, _)| is_of("cpuset", controllers));
    let unified = lines.iter().find(|(controllers, _)| controllers.is_empty());
    let group = of_cpusets.or(unified).map_or("", |(_, path)| path);
    let named = lines.iter().find(|(controllers, _)| is_of("name=systemd", controllers)).or(unified);
    let parts = named.map(|(_, path)| path.rsplit('/')).into_iter().flatten();
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    let unit = parts.into_iter().find(is_unit).map(str::to_owned);
    (group.to_owned(), unit)
}

/// Whether a process is in another network namespace. One whose namespace may not be looked at counts as being in this.
fn is_elsewhere(files: &Files, pid: u32) -> bool {
    let theirs = files.link(&format!("proc/{pid}/ns/net"));
    theirs.is_some() && theirs != files.link("proc/self/ns/net")
}

/// Where a process listens: its descriptors' sockets, looked up in its network namespace.
fn listeners(files: &Files, pid: u32) -> Vec<Listener> {
    let descriptors = files.names(&format!("proc/{pid}/fd"));
    let sockets = descriptors.iter().filter_map(|descriptor| {
        let target = files.link(&format!("proc/{pid}/fd/{descriptor}"))?;
        Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    });
    let sockets: BTreeSet<String> = sockets.collect();
    let mut listeners = BTreeSet::new();
    for (table, protocol, state) in TABLES {
        let text = files.read(&format!("proc/{pid}/net/{table}")).unwrap_or_default();
        let mine = listening(&text, state).filter(|(.., inode)| sockets.contains(*inode));
        listeners.extend(mine.map(|(address, port, _)| Listener { protocol, address, port }));
    }
    listeners.into_iter().collect()
}

/// Address, port and inode of each socket in this state: words 2, 4 and 10 of a line of /proc/net/tcp and its like.
fn listening<'a>(text: &'a str, state: &str) -> impl Iterator<Item = (IpAddr, u16, &'a str)> {
    text.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, port) = words.get(1)?.rsplit_once(':')?;
        let is_it = words.get(3) == Some(&state);
        is_it.then_some((address_in(address)?, u16::from_str_radix(port, 16).ok()?, *words.get(9)?))
    })
}

/// `0100007F` is 127.0.0.1: words of four bytes in network order, each printed as a number of this machine. Of an address of IPv6 that
/// stands for one of IPv4, that one.
fn address_in(text: &str) -> Option<IpAddr> {
    let words: Option<Vec<u32>> =
        (0..text.len() / 8).map(|n| u32::from_str_radix(text.get(n * 8..n * 8 + 8)?, 16).ok()).collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?)).to_canonical())
}

/// Where a session of ssh leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Session {
    address: IpAddr,
    /// The card of an address that each card has one of (`fe80::1%ens1`, RFC 4007), by its name or number.
    zone: Option<String>,
}

impl Session {
    /// Whether it comes to this card, whose number is this.
    pub(super) fn is_to(&self, nic: &Nic, number: &str) -> bool {
        let is_its =
            |text: &String| text.split('/').next().and_then(|it| it.parse().ok()) == Some(self.address);
        let is_zone = |zone: &String| *zone == nic.name || zone == number;
        self.zone.as_ref().is_none_or(is_zone) && nic.addresses.iter().any(is_its)
    }
}

/// What the session of ssh leads to, where this process descends from one: `SSH_CONNECTION` of its ancestors, which sudo takes
/// from itself but not from them.
pub(super) fn session(files: &Files) -> Option<Session> {
    let mut pid =
        files.read("proc/self/stat").ok().and_then(|stat| stat.split(' ').next()?.parse::<u32>().ok())?;
    for _ in 0..ANCESTORS_COUNT_MAX {
        let environment = files.bytes(&format!("proc/{pid}/environ")).unwrap_or_default();
        if let Some(session) = environment.split(|byte| *byte == 0).find_map(session_in) {
            return Some(session);
        }
        pid = parent_in(&files.read(&format!("proc/{pid}/stat")).ok()?)?;
    }
    None
}

/// `SSH_CONNECTION=` client, its port, server, its port.
fn session_in(variable: &[u8]) -> Option<Session> {
    let text = std::str::from_utf8(variable).ok()?.strip_prefix("SSH_CONNECTION=")?;
    let server = text.split(' ').nth(2)?;
    let (address, zone) = match server.split_once('%') {
        Some((address, zone)) => (address, Some(zone.to_owned())),
        None => (server, None),
    };
    Some(Session { address: address.parse::<IpAddr>().ok()?.to_canonical(), zone })
}

/// Field 4 of /proc/PID/stat; the first process has none.
fn parent_in(stat: &str) -> Option<u32> {
    let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
    (parent != 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::live::files::made_up::Tree;

    /// What the machine is asked for is what a plan then takes for the lane's.
    #[test]
    fn processes_are_found_by_each_key_and_by_all_that_are_given() {
        let stat = "7 (a) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0\n";
        let tree = Tree::new(
            "processes",
            &[
                ("proc/7/comm", "redis-server\n"),
                ("proc/7/cgroup", "0::/system.slice/redis.service\n"),
                ("proc/7/stat", stat),
                ("proc/8/comm", "a-name-of-15-by\n"),
                ("proc/8/cgroup", "0::/lanes/b\n"),
                ("proc/8/stat", stat),
                ("proc/meminfo", ""),
            ],
        );
        let check = |wish: &str, want: &[u32]| {
            let wish: Match = toml::from_str(wish).unwrap();
            let found = matching(&tree.files(), std::slice::from_ref(&wish));
            assert_eq!(found.iter().map(|it| it.pid).collect::<Vec<_>>(), want, "{wish:?}");
            assert!(found.iter().all(|it| is_match(&wish, it) && it.start == 4711), "{wish:?}");
        };
        check("unit = 'redis'", &[7]);
        check("unit = 'redis.service'", &[7]);
        check("unit = 'redi'", &[]);
        check("name = 'a-name-of-15-by'", &[8]);
        check("name = 'a-name-of-15-bytes-and-more'", &[8]);
        check("name = 'a-name-of-15'", &[]);
        check("name = 'redis-server'", &[7]);
        check("pid = 8", &[8]);
        check("pid = 8\nname = 'redis-server'", &[]);
        check("cgroup = 'lanes'", &[8]);
        check("cgroup = '/system.slice/'", &[7]);
        check("cgroup = 'lane'", &[]);
        check("", &[]);
    }

    #[test]
    fn where_a_process_listens_is_its_own_sockets_of_its_own_namespace() {
        let line = |at: &str, state: &str, inode: u32| {
            format!(" 0: {at} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1\n")
        };
        let tcp = line("0100000A:18EB", "0A", 1)
            + &line("0100000A:18EC", "0A", 9)
            + &line("0100000A:18EB", "01", 2);
        let udp = line("00000000:2BCB", "07", 3);
        let tree = Tree::new("listeners", &[("proc/7/net/tcp", &tcp), ("proc/7/net/udp", &udp)]);
        let link = |path: &str, target: &str| {
            let path = tree.files().path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        };
        for inode in [1, 2, 3] {
            link(&format!("proc/7/fd/{inode}"), &format!("socket:[{inode}]"));
        }
        let found: Vec<String> = listeners(&tree.files(), 7).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["tcp 10.0.0.1:6379", "udp 0.0.0.0:11211"]);
        link("proc/self/ns/net", "net:[4]");
        assert!(!is_elsewhere(&tree.files(), 7), "it may not be looked at");
        link("proc/7/ns/net", "net:[4]");
        link("proc/8/ns/net", "net:[5]");
        assert_eq!([7, 8].map(|pid| is_elsewhere(&tree.files(), pid)), [false, true]);
    }

    #[test]
    fn a_group_is_that_of_cpusets_and_a_unit_its_last_part() {
        let check = |text: &str, group: &str, unit: Option<&str>| {
            assert_eq!(group_and_unit(text), (group.to_owned(), unit.map(str::to_owned)), "{text}");
        };
        check("0::/system.slice/redis.service\n", "/system.slice/redis.service", Some("redis.service"));
        check("0::/user.slice/a.service/b.scope/x\n", "/user.slice/a.service/b.scope/x", Some("b.scope"));
        check("4:cpu,cpuset:/lane\n1:name=systemd:/s/r.service\n0::/other\n", "/lane", Some("r.service"));
        check("0::/\n", "/", None);
        check("", "", None);
    }

    #[test]
    fn sockets_that_listen_have_an_address_a_port_and_an_inode() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n\
             1: 0100007F:18EC 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(listening(text, "0A").collect::<Vec<_>>(), [(loopback, 6379, "4711")]);
        assert_eq!(listening(text, "07").next(), None);
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(address_in(text), want.map(|it| it.parse().unwrap()), "{text}");
        };
        check("0100000A", Some("10.0.0.1"));
        check("00000000000000000000000000000000", Some("::"));
        check("000000FD000000000000000001000000", Some("fd00::1"));
        check("0000000000000000FFFF00000100000A", Some("10.0.0.1"));
        check("0100000", None);
        check("0100000A0100000A", None);
        check("0100000G", None);
    }

    #[test]
    fn a_session_is_known_by_its_variable() {
        let nic = |name: &str, addresses: &[&str]| Nic {
            name: name.to_owned(),
            addresses: addresses.iter().map(|it| (*it).to_owned()).collect(),
            ..Nic::default()
        };
        let ens1 = nic("ens1", &["10.0.0.1/24", "2001:db8::1/64", "fe80::1/64"]);
        let ens2 = nic("ens2", &["10.0.0.10/24", "fe80::1/64"]);
        let check = |server: &str, want: [bool; 2]| {
            let session = session_in(format!("SSH_CONNECTION=10.0.0.9 5000 {server} 22").as_bytes()).unwrap();
            assert_eq!([session.is_to(&ens1, "2"), session.is_to(&ens2, "3")], want, "{server}");
        };
        check("10.0.0.1", [true, false]);
        check("::ffff:10.0.0.1", [true, false]);
        check("2001:db8:0::1", [true, false]);
        check("fe80::1%ens1", [true, false]);
        check("fe80::1%ens2", [false, true]);
        check("fe80::1%3", [false, true]);
        check("fe80::2%ens1", [false, false]);
        // A card that can't be told from others is one that may be cut.
        check("fe80::1", [true, true]);
        for other in [&b"SSH_CLIENT=10.0.0.9 5000 22"[..], b"SSH_CONNECTION=10.0.0.9 5000 UNKNOWN 65535"] {
            assert_eq!(session_in(other), None);
        }
        assert_eq!((parent_in("7 (a b) c) S 3 1"), parent_in("1 (init) S 0 1")), (Some(3), None));
    }
}
