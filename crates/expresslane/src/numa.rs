//! `--auto-pin numa`: one instance for each memory node and its network card. This process belongs to the node of the card
//! that its address is bound to: its cpus are that node's, and so is its memory.
//!
//! Which node that is, is decided by [`home`] from what the machine says, so that machines with several nodes are tested on
//! those that have one.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use crate::machine::{self, Facts};
use crate::settings::{BindAddress, CpuList};

/// An interface's address, and the node its card is attached to where the machine says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) node: Option<u16>,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: u16,
    pub(crate) cpus: Vec<usize>,
    /// Bytes; 0 where the machine does not say.
    pub(crate) memory_size: u64,
}

/// Where the process belongs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Home {
    /// Nowhere in particular; the sentence says why, and what to do about it.
    Anywhere(String),
    /// On a node, because of that card.
    Node { id: u16, card: String, address: IpAddr, facts: Facts },
}

/// Decides from what is bound, the interfaces, the nodes and what this process may use. An error is a sentence that says what to
/// change: the address or the cpus contradict the wish.
pub(crate) fn home(
    bind: &[BindAddress],
    cards: &[Card],
    nodes: &[Node],
    facts: &Facts,
) -> Result<Home, String> {
    let anywhere = |why: String| Ok(Home::Anywhere(why));
    if nodes.len() < 2 {
        return anywhere("this machine has one memory node: nothing to choose".to_owned());
    }
    let outer: Vec<IpAddr> = bind.iter().map(|bind| bind.ip).filter(|ip| !ip.is_loopback()).collect();
    if outer.is_empty() {
        return anywhere(
            "only loopback is bound, which belongs to no card: bind the address of a card".to_owned(),
        );
    }
    if let Some(every) = outer.iter().find(|ip| ip.is_unspecified()) {
        return anywhere(format!("{every} is every card's: bind the address of one"));
    }
    let bound: Vec<&Card> = cards.iter().filter(|card| outer.contains(&card.address)).collect();
    let Some(first) = bound.first() else {
        return anywhere("no interface has the bound address: bind one that `ip address` shows".to_owned());
    };
    let Some(id) = first.node else {
        return anywhere(format!(
            "the machine does not say on which node {} is: choose cpus of that node with --cpus",
            first.name
        ));
    };
    if let Some(other) = bound.iter().find(|card| card.node != Some(id)) {
        return Err(format!(
            "--auto-pin numa wants one node and {} is on another than {}: start an instance for each, with its own --bind",
            other.name, first.name
        ));
    }
    let node = nodes.iter().find(|node| node.id == id);
    let (own, memory_size) = node.map_or((&[][..], 0), |node| (&node.cpus[..], node.memory_size));
    let cpus: Vec<usize> = facts.cpus.iter().copied().filter(|cpu| own.contains(cpu)).collect();
    if cpus.is_empty() {
        return Err(format!(
            "--auto-pin numa: {} is on node {id}, and this process may run on none of its cpus ({}): widen its cpu set, or \
             choose another mode",
            first.name,
            machine::list_of(own)
        ));
    }
    let memory_size = if memory_size == 0 { facts.memory_size } else { memory_size };
    let facts = Facts { cpus, quota: facts.quota, memory_size, memory_bound: facts.memory_bound };
    Ok(Home::Node { id, card: first.name.clone(), address: first.address, facts })
}

/// Binds this thread, and those that it starts from now on, to a node.
///
/// # Errors
/// A sentence.
pub(crate) fn bind(id: u16, cpus: &[usize]) -> Result<(), String> {
    machine::pin_to(cpus)
        .map_err(|error| format!("--auto-pin numa: this process can't be kept to node {id}: {error}"))?;
    machine::bind_memory(id).map_err(|error| {
        format!("--auto-pin numa: memory can't be bound to node {id}: {error}; choose another mode, or run under numactl")
    })
}

/// Whether the machine has more nodes than one, so that memory may be near or far.
pub(crate) fn has_several() -> bool {
    nodes().len() > 1
}

/// The machine's nodes; of a kernel without them none.
pub(crate) fn nodes() -> Vec<Node> {
    nodes_below(Path::new("/sys/devices/system/node"))
}

fn nodes_below(root: &Path) -> Vec<Node> {
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    let mut nodes: Vec<Node> = folders
        .filter_map(|folder| {
            let id = folder.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let cpus = fs::read_to_string(folder.path().join("cpulist")).ok()?;
            // A node of memory alone has no cpus.
            let cpus: CpuList = cpus.trim().parse().unwrap_or(CpuList(Vec::new()));
            let memory = fs::read_to_string(folder.path().join("meminfo")).unwrap_or_default();
            Some(Node { id, cpus: cpus.0, memory_size: memory_of(&memory) })
        })
        .collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

/// Bytes behind `Node 0 MemTotal:`; 0 where that is not there.
fn memory_of(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.split_once("MemTotal:")).map_or("", |(_, size)| size);
    let size = line.trim().strip_suffix(" kB").and_then(|size| size.trim().parse::<u64>().ok());
    size.unwrap_or(0).saturating_mul(1024)
}

/// Addresses of all interfaces, with the node of the card behind each.
///
/// # Errors
/// The kernel's own.
pub(crate) fn cards() -> io::Result<Vec<Card>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is there for the call to write a list to, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut cards = Vec::new();
    let mut at = first;
    // SAFETY: the list ends with a null pointer, and each member is valid until the list is freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: every member has a name that ends with a zero.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: an address is null or of the type that its family says.
        if let Some(address) = unsafe { address_of(entry.ifa_addr) } {
            let node = fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node"));
            // -1: the firmware does not say.
            let node = node.ok().and_then(|text| text.trim().parse().ok());
            cards.push(Card { name, address, node });
        }
    }
    // SAFETY: the list is the one that getifaddrs gave, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(cards)
}

/// The IP address in a socket address; none of another family.
///
/// # Safety
/// `address` is null, or readable as the structure that its family names.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's: it may be null, and begins with its family otherwise.
    let family = i32::from(unsafe { address.as_ref()? }.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the caller's: the family says what the structure is.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::from(address.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, address: &str, node: Option<u16>) -> Card {
        Card { name: name.to_owned(), address: address.parse().unwrap(), node }
    }

    /// Two nodes of four cpus, a card with two addresses on each, and one of which nobody knows.
    fn machine(bind: &str, allowed: &[usize], node_count: u16) -> Result<Home, String> {
        let bind: Vec<BindAddress> = bind.split(',').map(|address| address.parse().unwrap()).collect();
        let cards = [
            card("lo", "127.0.0.1", None),
            card("ens1", "10.0.0.1", Some(0)),
            card("ens1", "fd00::1", Some(0)),
            card("ens2", "10.0.0.2", Some(1)),
            card("vlan7", "10.0.0.7", None),
        ];
        let first = |id: u16| usize::from(id) * 4;
        let node = |id: u16| Node { id, cpus: (first(id)..first(id) + 4).collect(), memory_size: 64 << 30 };
        let nodes: Vec<Node> = (0..node_count).map(node).collect();
        home(
            &bind,
            &cards,
            &nodes,
            &Facts { cpus: allowed.to_vec(), quota: None, memory_size: 128 << 30, memory_bound: None },
        )
    }

    #[track_caller]
    fn check(bind: &str, allowed: &[usize], want: (u16, &str, &[usize])) {
        let Ok(Home::Node { id, card, facts, .. }) = machine(bind, allowed, 2) else {
            panic!("{bind} is on a node")
        };
        assert_eq!((id, card.as_str(), &facts.cpus[..]), want);
        assert_eq!(facts.memory_size, 64 << 30, "a lane's memory is the node's");
    }

    #[test]
    fn a_process_belongs_to_the_node_of_its_card() {
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        check("10.0.0.1", &all, (0, "ens1", &[0, 1, 2, 3]));
        check("10.0.0.2", &all, (1, "ens2", &[4, 5, 6, 7]));
        check("127.0.0.1,10.0.0.2,-::1", &all, (1, "ens2", &[4, 5, 6, 7]));
        check("10.0.0.1,fd00::1", &[1, 3, 5], (0, "ens1", &[1, 3]));
    }

    #[test]
    fn where_there_is_nothing_to_choose_it_says_so() {
        let why = |bind: &str, node_count: u16| match machine(bind, &[0, 5], node_count) {
            Ok(Home::Anywhere(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why("10.0.0.1", 1).contains("one memory node"));
        assert!(why("10.0.0.1", 0).contains("one memory node"));
        assert!(why("127.0.0.1,-::1", 2).contains("only loopback"));
        assert!(why("0.0.0.0", 2).contains("0.0.0.0 is every card's"));
        assert!(why("10.9.9.9", 2).contains("no interface has"));
        assert!(why("10.0.0.7", 2).contains("on which node vlan7 is"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |bind: &str, allowed: &[usize]| machine(bind, allowed, 2).unwrap_err();
        assert!(refused("10.0.0.1,10.0.0.2", &[0, 5]).contains("ens2 is on another than ens1"));
        assert!(refused("10.0.0.1,10.0.0.7", &[0, 5]).contains("vlan7 is on another than ens1"));
        let why = refused("10.0.0.2", &[0, 1]);
        assert!(why.contains("ens2 is on node 1") && why.contains("(4-7)"), "{why}");
    }

    #[test]
    fn nodes_and_cards_are_read() {
        assert_eq!(memory_of("Node 1 MemTotal:       1024 kB\nNode 1 MemFree: 3 kB\n"), 1 << 20);
        assert_eq!(memory_of(""), 0);
        let cards = cards().unwrap();
        let is_loopback = |card: &Card| card.address.is_loopback() && card.node.is_none();
        assert!(cards.iter().any(is_loopback), "{cards:?}");
        let root = std::env::temp_dir().join(format!("expresslane-nodes-{}", std::process::id()));
        for (name, cpus) in [("node1", "2-3\n"), ("node0", "0-1\n"), ("node2", "\n"), ("possible", "0-2\n")] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("cpulist"), cpus).unwrap();
        }
        let nodes = nodes_below(&root);
        fs::remove_dir_all(&root).unwrap();
        let cpus: Vec<(u16, &[usize])> = nodes.iter().map(|node| (node.id, &node.cpus[..])).collect();
        assert_eq!(cpus, [(0, &[0, 1][..]), (1, &[2, 3]), (2, &[])]);
    }

    #[test]
    fn memory_can_be_bound_where_it_is() {
        let node = nodes().first().map_or(0, |node| node.id);
        // Threads have policies of their own: this one's ends with it.
        let on_its_own = || {
            let cpus = machine::allowed_cpus().unwrap();
            // A kernel without nodes has nothing to bind to.
            if let Err(why) = bind(node, &cpus) {
                assert!(why.contains("memory can't be bound"), "{why}");
            }
            assert!(machine::bind_memory(999).is_err(), "there is no such node");
        };
        std::thread::scope(|scope| scope.spawn(on_its_own).join().unwrap());
    }
}
