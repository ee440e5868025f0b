//! Which packets are a lane's, and the texts of filters and rules that say so.

use std::net::IpAddr;

use super::draft::Draft;
use crate::facts::Nic;
use crate::knob::Family;
use crate::spec::{Lane, Protocol};

/// Packets of one port, at one address or any.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) family: Family,
    /// Local.
    pub(super) address: Option<String>,
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    /// Whether the port is the other side's.
    pub(super) remote: bool,
    /// The how-manieth port of the lane it is.
    pub(super) ordinal: usize,
}

/// All of a lane: for each address, or each family that the card has addresses of, its ports in the file's order.
pub(super) fn flows(draft: &mut Draft, nic: &Nic, lane: &Lane) -> Vec<Flow> {
    let mut flows = Vec::new();
    let places: Vec<(Family, Option<String>)> = if lane.addresses.is_empty() {
        families(nic).into_iter().map(|family| (family, None)).collect()
    } else {
        for address in lane.addresses.iter().filter(|it| !is_of(nic, it)) {
            draft.note(format!(
                "lane `{}`: {address} is no address of {} as the facts have it.",
                lane.name, nic.name
            ));
        }
        lane.addresses.iter().map(|it| (family_of(it), Some(it.clone()))).collect()
    };
    let local_count = lane.ports.as_ref().map_or(0, |ports| ports.0.len());
    for (family, address) in places {
        for (ports, remote, first) in [(&lane.ports, false, 0), (&lane.remote_ports, true, local_count)] {
            for (index, port) in ports.iter().flat_map(|ports| &ports.0).enumerate() {
                let address = address.clone();
                let ordinal = first + index;
                flows.push(Flow { family, address, protocol: lane.protocol, port: *port, remote, ordinal });
            }
        }
    }
    flows
}

pub(super) fn family_of(address: &str) -> Family {
    if address.contains(':') { Family::Inet6 } else { Family::Inet }
}

fn is_of(nic: &Nic, address: &str) -> bool {
    let host = |text: &str| text.split('/').next().and_then(|it| it.parse::<IpAddr>().ok());
    nic.addresses.iter().any(|it| host(it) == host(address))
}

/// Families in which the card can be reached from other hosts; IPv4 where it has no address yet.
fn families(nic: &Nic) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for address in reachable(nic) {
        let family = family_of(address);
        if !families.contains(&family) {
            families.push(family);
        }
    }
    families.sort_unstable();
    if families.is_empty() { vec![Family::Inet] } else { families }
}

/// Its addresses with their prefixes, but for link-local ones, which every card has.
pub(super) fn reachable(nic: &Nic) -> impl Iterator<Item = &str> {
    nic.addresses.iter().map(String::as_str).filter(|it| !it.to_ascii_lowercase().starts_with("fe80:"))
}

impl Flow {
    fn protocol_word(&self) -> &'static str {
        match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }

    fn flower(&self, address: &str, port: &str) -> String {
        let family = if self.family == Family::Inet { "ip" } else { "ipv6" };
        let at = self.address.as_ref().map(|it| format!(" {address} {it}")).unwrap_or_default();
        format!("protocol {family} flower ip_proto {}{at} {port} {}", self.protocol_word(), self.port)
    }

    /// Puts received packets into a class, in hardware.
    pub(super) fn to_class(&self, class: usize) -> String {
        let port = if self.remote { "src_port" } else { "dst_port" };
        format!("{} skip_sw hw_tc {class}", self.flower("dst_ip", port))
    }

    /// Gives packets that are sent a class's priority.
    pub(super) fn with_priority(&self, class: usize) -> String {
        let port = if self.remote { "dst_port" } else { "src_port" };
        format!("{} action skbedit priority {class}", self.flower("src_ip", port))
    }

    /// Sends received packets to `action 4` or `context 4-7`.
    pub(super) fn rule(&self, to: &str) -> String {
        let family = if self.family == Family::Inet { "4" } else { "6" };
        let at = self.address.as_ref().map(|it| format!(" dst-ip {it}")).unwrap_or_default();
        let port = if self.remote { "src-port" } else { "dst-port" };
        format!("flow-type {}{family}{at} {port} {} {to}", self.protocol_word(), self.port)
    }

    /// The program that does `what` to packets that are sent: `queue 2 priority e7:10`.
    pub(super) fn program(&self, what: &str) -> String {
        let port = if self.remote { "dst_port" } else { "src_port" };
        let at = self.address.as_ref().map(|it| format!(" src_ip {it}")).unwrap_or_default();
        format!("protocol all bpf {what} {}{at} {port} {}", self.protocol_word(), self.port)
    }
}
