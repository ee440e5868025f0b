//! Links of the network: device, driver, queues, and the cpus that serve them.
//!
//! Documentation/ABI/testing/sysfs-class-net, sysfs-class-net-queues; Documentation/networking/scaling.rst for RPS and XPS.
//! The link's addresses lie in the same folder and are never read.

use super::cpus::{list, parse_mask, spread};
use super::files::Files;
use super::processor::numbered;
use super::{Group, System, ethtool, privacy};

const NET: &str = "sys/class/net";
/// Links that are described, those with a device first; hosts of containers have hundreds without one. The number of all
/// is in the group `links`.
const LINK_COUNT_MAX: usize = 32;
/// Files that hold one value of a link.
const FILES: [(&str, &str); 11] = [
    ("state", "operstate"),
    ("duplex", "duplex"),
    ("mtu", "mtu"),
    ("queue length", "tx_queue_len"),
    ("gro flush timeout ns", "gro_flush_timeout"),
    ("deferred interrupts", "napi_defer_hard_irqs"),
    ("threaded polling", "threaded"),
    ("vendor id", "device/vendor"),
    ("device id", "device/device"),
    ("node", "device/numa_node"),
    ("pci speed", "device/current_link_speed"),
];

/// A group with the number of links, then one for each.
pub(super) fn groups(files: &dyn Files, system: &dyn System) -> Vec<Group> {
    let mut names = files.entries(NET);
    // Bonding keeps a file of its own among the links.
    names.retain(|name| name != "bonding_masters");
    let is_virtual = |name: &String| files.link_name(&format!("{NET}/{name}/device/driver")).is_none();
    names.sort_by_key(is_virtual);
    let mut links = Group::new("links");
    links.equal("count", (!names.is_empty()).then(|| names.len().to_string()));
    let mut groups = vec![links];
    for name in names.iter().take(LINK_COUNT_MAX) {
        let mut link = group(files, system, name);
        // Names that were hidden are alike; the second of them is not taken for the first.
        while groups.iter().any(|known| known.name == link.name) {
            link.name.push('+');
        }
        groups.push(link);
    }
    groups
}

fn group(files: &dyn Files, system: &dyn System, name: &str) -> Group {
    let mut group = Group::new(format!("link {}", privacy::link_name(name)));
    let folder = format!("{NET}/{name}");
    group.equal("driver", files.link_name(&format!("{folder}/device/driver")));
    ethtool::describe(&mut group, name, system);
    // Links without a speed say -1, or refuse.
    let speed = files.value(&format!("{folder}/speed")).filter(|speed| !speed.starts_with('-'));
    group.equal("speed", speed.map(|speed| format!("{speed} Mbit/s")));
    for (item, file) in FILES {
        group.equal(item, files.value(&format!("{folder}/{file}")));
    }
    let queues = |direction: &str| numbered(files, &format!("{folder}/queues"), direction);
    let (receiving, sending) = (queues("rx-"), queues("tx-"));
    let has_queues = !receiving.is_empty() || !sending.is_empty();
    group.equal("queues", has_queues.then(|| format!("rx {}, tx {}", receiving.len(), sending.len())));
    let each = |direction: &str, numbers: &[usize], file: &str| {
        spread(
            numbers
                .iter()
                .map(|queue| (*queue, files.value(&format!("{folder}/queues/{direction}-{queue}/{file}")))),
        )
    };
    let cpus = |direction: &str, numbers: &[usize], file: &str| {
        spread(numbers.iter().map(|queue| {
            let mask = files.value(&format!("{folder}/queues/{direction}-{queue}/{file}"));
            (*queue, mask.and_then(|mask| parse_mask(&mask)).map(|cpus| list(&cpus)))
        }))
    };
    group.equal("rps cpus", cpus("rx", &receiving, "rps_cpus").map(of_queues));
    group.equal("rps flows", each("rx", &receiving, "rps_flow_cnt").map(of_queues));
    group.equal("xps cpus", cpus("tx", &sending, "xps_cpus").map(of_queues));
    group.equal("xps rx queues", cpus("tx", &sending, "xps_rxqs").map(of_queues));
    group.equal("interrupts", interrupts(files, &folder));
    group.volatile("carrier changes", files.value(&format!("{folder}/carrier_changes")));
    group
}

/// What stands in parentheses are queues.
fn of_queues(value: String) -> String {
    if value.ends_with(')') { format!("{value} by queue") } else { value }
}

/// The cpus that each interrupt of the device may go to, by the interrupt's name: its number changes from boot to boot.
fn interrupts(files: &dyn Files, folder: &str) -> Option<String> {
    // A virtio device has its interrupts in the PCI device above.
    let numbers = ["device/msi_irqs", "device/../msi_irqs"]
        .iter()
        .map(|path| numbered(files, &format!("{folder}/{path}"), ""))
        .find(|numbers| !numbers.is_empty())?;
    let shown: Vec<String> = numbers
        .into_iter()
        .filter_map(|number| {
            let cpus = files.value(&format!("proc/irq/{number}/smp_affinity_list"))?;
            let name =
                files.value(&format!("sys/kernel/irq/{number}/actions")).filter(|name| !name.is_empty())?;
            Some(format!("{} {cpus}", privacy::link_name(&name)))
        })
        .collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}
