//! Processes that were asked for, and the session by which someone watches.

use std::collections::BTreeSet;

use super::thread;
use crate::facts::Process;
use crate::kernel::live::files::Files;
use crate::kernel::live::threads::start_of;
use crate::spec::Match;

/// Bytes of a name that the kernel keeps.
const NAME_SIZE: usize = 15;
/// A process has at most so many ancestors that are looked at.
const ANCESTORS_COUNT_MAX: usize = 64;
/// State of a socket that listens, in /proc/net/tcp.
const LISTENS: &str = "0A";

/// Those that match any of the wishes, ascending by number.
pub(super) fn matching(files: &Files, wishes: &[Match]) -> Vec<Process> {
    let mut pids: Vec<u32> = files.names("proc").iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    let wanted = |wish: &Match| !wish.is_empty();
    if !wishes.iter().any(wanted) {
        return Vec::new();
    }
    let read = |pid: u32| {
        let name = files.read(&format!("proc/{pid}/comm")).ok()?;
        let groups = files.read(&format!("proc/{pid}/cgroup")).unwrap_or_default();
        let (cgroup, unit) = group_and_unit(&groups);
        let fits = |wish: &Match| {
            let is_below = |group: &String| {
                let group = group.trim_matches('/');
                let own = cgroup.trim_matches('/');
                own == group || own.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
            };
            wanted(wish)
                && wish.pid.is_none_or(|wish| wish == pid)
                && wish.name.as_ref().is_none_or(|wish| *name == *wish.get(..NAME_SIZE).unwrap_or(wish))
                && wish.unit.as_ref().is_none_or(|wish| unit.as_ref() == Some(wish))
                && wish.cgroup.as_ref().is_none_or(is_below)
        };
        if !wishes.iter().any(fits) {
            return None;
        }
        let tids = files.names(&format!("proc/{pid}/task"));
        let mut tids: Vec<u32> = tids.iter().filter_map(|tid| tid.parse().ok()).collect();
        tids.sort_unstable();
        Some(Process {
            pid,
            start: start_of(files, pid)?,
            name: name.clone(),
            unit,
            cgroup,
            ports: ports(files, pid),
            threads: tids.into_iter().filter_map(thread).collect(),
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

/// Ports that a process listens at: its descriptors' sockets, looked up in its network namespace.
fn ports(files: &Files, pid: u32) -> Vec<u16> {
    let descriptors = files.names(&format!("proc/{pid}/fd"));
    let sockets = descriptors.iter().filter_map(|descriptor| {
        let target = files.link(&format!("proc/{pid}/fd/{descriptor}"))?;
        Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    });
    let sockets: BTreeSet<String> = sockets.collect();
    let mut ports = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = files.read(&format!("proc/{pid}/net/{table}")).unwrap_or_default();
        ports.extend(listening(&text).filter(|(_, inode)| sockets.contains(*inode)).map(|(port, _)| port));
    }
    ports.into_iter().collect()
}

/// Port and inode of each socket that listens: words 2, 4 and 10 of a line of /proc/net/tcp.
fn listening(text: &str) -> impl Iterator<Item = (u16, &str)> {
    text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, port) = words.get(1)?.rsplit_once(':')?;
        let is_it = words.get(3) == Some(&LISTENS);
        is_it.then_some((u16::from_str_radix(port, 16).ok()?, *words.get(9)?))
    })
}

/// The address of this machine that the session of ssh leads to, where this process descends from one: `SSH_CONNECTION` of its
/// ancestors, which sudo takes from itself but not from them.
pub(super) fn session_address(files: &Files) -> Option<String> {
    let mut pid =
        files.read("proc/self/stat").ok().and_then(|stat| stat.split(' ').next()?.parse::<u32>().ok())?;
    for _ in 0..ANCESTORS_COUNT_MAX {
        let environment = files.bytes(&format!("proc/{pid}/environ")).unwrap_or_default();
        if let Some(address) = environment.split(|byte| *byte == 0).find_map(session_in) {
            return Some(address);
        }
        pid = parent_in(&files.read(&format!("proc/{pid}/stat")).ok()?)?;
    }
    None
}

/// `SSH_CONNECTION=` client, its port, server, its port.
fn session_in(variable: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(variable).ok()?.strip_prefix("SSH_CONNECTION=")?;
    text.split(' ').nth(2).map(str::to_owned)
}

/// Field 4 of /proc/PID/stat; the first process has none.
fn parent_in(stat: &str) -> Option<u32> {
    let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
    (parent != 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn sockets_that_listen_have_a_port_and_an_inode() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n\
             1: 0100007F:18EC 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";
        assert_eq!(listening(text).collect::<Vec<_>>(), [(6379, "4711")]);
    }

    #[test]
    fn a_session_is_known_by_its_variable() {
        assert_eq!(session_in(b"SSH_CONNECTION=10.0.0.9 5000 10.0.0.1 22").as_deref(), Some("10.0.0.1"));
        assert_eq!(session_in(b"SSH_CLIENT=10.0.0.9 5000 22"), None);
        assert_eq!((parent_in("7 (a b) c) S 3 1"), parent_in("1 (init) S 0 1")), (Some(3), None));
    }
}
