//! Knobs that are files: below /proc/sys, /sys/class/net, /sys/fs/cgroup and /proc/irq. All lie below one root, `/` or a made-up
//! tree.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::errno::{gone, invalid, of_file};
use crate::kernel::Cause;
use crate::knob::NicKnob;
use crate::{Cpus, Refusal, Setting};

/// Directories below which cgroup2 or the cpuset controller of version 1 may be mounted, the first that is there counts.
const CGROUP_ROOTS: &[&str] = &["sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/cpuset"];

/// Where files are read and written.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub(crate) fn below(root: &Path) -> Files {
        Files { root: root.to_owned() }
    }

    /// A path of the machine, without its leading slash, below the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The text of a file, its last line's end cut off.
    pub(crate) fn read(&self, path: &str) -> Result<String, Refusal> {
        self.read_as(path, "to read it")
    }

    fn read_as(&self, path: &str, capability: &str) -> Result<String, Refusal> {
        let path = self.path(path);
        let text = fs::read_to_string(&path).map_err(|error| of_file(&path, &error, capability))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Writes all of it at once; the file must be there.
    pub(crate) fn write(&self, path: &str, text: &str, capability: &str) -> Result<(), Refusal> {
        let path = self.path(path);
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
            .map_err(|error| of_file(&path, &error, capability))
    }

    /// Names in a directory, ascending; none where it is not there.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether it is there.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Where a link leads, its last part alone: the driver's name, the device's place on the bus.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
    /// The bytes of a file that is no text.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.path(path)).ok()
    }
}

/// `net.ipv4.conf.eth0/5.arp_ignore` is proc/sys/net/ipv4/conf/eth0.5/arp_ignore, as in sysctl(8).
pub(super) fn sysctl_path(name: &str) -> Result<String, Refusal> {
    let parts: Vec<String> = name.split('.').map(|part| part.replace('/', ".")).collect();
    if parts.iter().any(|part| part.is_empty() || part == "." || part == "..") {
        return Err(invalid(format!("'{name}' is no name of a sysctl: words with dots between")));
    }
    Ok(format!("proc/sys/{}", parts.join("/")))
}

pub(super) fn read_sysctl(files: &Files, name: &str) -> Result<Option<Setting>, Refusal> {
    let path = sysctl_path(name)?;
    match files.read_as(&path, "sys_admin") {
        Ok(text) => Ok(Some(Setting::new(text))),
        Err(refusal) if refusal.cause == Cause::Gone => {
            Err(gone(format!("this kernel has no sysctl {name} (in this network namespace)")))
        }
        Err(refusal) => Err(refusal),
    }
}

pub(super) fn write_sysctl(files: &Files, name: &str, value: &Setting) -> Result<(), Refusal> {
    let capability = if name.starts_with("net.") { "net_admin" } else { "sys_admin" };
    files.write(&sysctl_path(name)?, value.as_str(), capability)
}

/// A name that an interface can have (`dev_valid_name` of the kernel); as part of a path it stays in its directory.
pub(super) fn check_name(nic: &str) -> Result<(), Refusal> {
    let is_odd = |c: char| c == '/' || c == ':' || c == '\0' || c.is_ascii_whitespace();
    if nic.is_empty() || nic.len() > 15 || nic == "." || nic == ".." || nic.contains(is_odd) {
        return Err(gone(format!(
            "no interface can be called '{nic}': names have 1 to 15 bytes without slash, colon and blank"
        )));
    }
    Ok(())
}

/// Path of a queue's file, or of one of the card beside them.
fn queue_file(nic: &str, knob: &NicKnob) -> Option<String> {
    let below = match knob {
        NicKnob::RpsCpus(queue) => format!("queues/rx-{queue}/rps_cpus"),
        NicKnob::RpsFlowCount(queue) => format!("queues/rx-{queue}/rps_flow_cnt"),
        NicKnob::XpsCpus(queue) => format!("queues/tx-{queue}/xps_cpus"),
        NicKnob::XpsRxqs(queue) => format!("queues/tx-{queue}/xps_rxqs"),
        NicKnob::Threaded => "threaded".to_owned(),
        NicKnob::DeferHardIrqs => "napi_defer_hard_irqs".to_owned(),
        NicKnob::GroFlushTimeout => "gro_flush_timeout".to_owned(),
        _ => return None,
    };
    Some(format!("sys/class/net/{nic}/{below}"))
}

/// Files that hold masks, which settings write as lists.
fn is_mask(knob: &NicKnob) -> bool {
    matches!(knob, NicKnob::RpsCpus(_) | NicKnob::XpsCpus(_) | NicKnob::XpsRxqs(_))
}

pub(super) fn read_queue_file(files: &Files, nic: &str, knob: &NicKnob) -> Result<Option<Setting>, Refusal> {
    let path = queue_file(nic, knob).expect("only knobs that are files come here");
    let text = files.read(&path).map_err(|refusal| of_queue_file(files, nic, &path, refusal))?;
    if is_mask(knob) {
        let cpus = Cpus::from_mask(&text).map_err(invalid)?;
        return Ok(Some(Setting::new(cpus.to_string())));
    }
    Ok(Some(Setting::new(text)))
}

pub(super) fn write_queue_file(
    files: &Files,
    nic: &str,
    knob: &NicKnob,
    value: &Setting,
) -> Result<(), Refusal> {
    let path = queue_file(nic, knob).expect("only knobs that are files come here");
    let text = match is_mask(knob) {
        true => value.as_str().parse::<Cpus>().map_err(invalid)?.to_mask(),
        false => value.to_string(),
    };
    files.write(&path, &text, "net_admin").map_err(|refusal| of_queue_file(files, nic, &path, refusal))
}

/// A file that is not there is a card or a queue that is not there; XPS files of a card with one queue are there and say so.
fn of_queue_file(files: &Files, nic: &str, path: &str, refusal: Refusal) -> Refusal {
    if refusal.cause != Cause::Gone {
        return refusal;
    }
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    if !files.has(&format!("sys/class/net/{nic}")) {
        return gone(format!("there is no interface {nic} (in this network namespace)"));
    }
    if !files.has(directory) {
        return gone(format!("{nic} has no such queue now: see its channels"));
    }
    super::errno::unsupported(format!("{nic} has no {}", path.rsplit('/').next().unwrap_or_default()))
}

/// Where control groups with cpusets are, and which version they have.
pub(crate) fn cgroup_root(files: &Files) -> Option<(String, u32)> {
    CGROUP_ROOTS.iter().find_map(|root| {
        let controllers = files.read(&format!("{root}/cgroup.controllers")).unwrap_or_default();
        if controllers.split_ascii_whitespace().any(|name| name == "cpuset") {
            return Some(((*root).to_owned(), 2));
        }
        files.has(&format!("{root}/cpuset.cpus")).then(|| ((*root).to_owned(), 1))
    })
}

/// A file of a group. Groups are below the hierarchy with cpusets, else below the first that is mounted.
fn cgroup_path(files: &Files, group: &str, file: &str) -> Result<String, Refusal> {
    let is_odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if group.split('/').any(is_odd) || is_odd(file) || file.contains('/') {
        return Err(invalid(format!("'{group}/{file}' is no path of a control group's file")));
    }
    let root = cgroup_root(files).map(|(root, _)| root);
    let root = root.or_else(|| {
        let is_mounted = |root: &&&str| files.has(&format!("{root}/cgroup.procs"));
        CGROUP_ROOTS.iter().find(is_mounted).map(|root| (*root).to_owned())
    });
    let root = root.ok_or_else(|| super::errno::unsupported("no hierarchy of control groups is mounted"))?;
    Ok(format!("{root}/{group}/{file}"))
}

pub(super) fn read_cgroup(files: &Files, group: &str, file: &str) -> Result<Option<Setting>, Refusal> {
    let path = cgroup_path(files, group, file)?;
    let directory = path.trim_end_matches(file);
    if !files.has(directory) {
        return Err(gone(format!("there is no control group {group}")));
    }
    match files.read(&path) {
        Ok(text) => Ok(Some(Setting::new(text))),
        Err(refusal) if refusal.cause == Cause::Gone => Err(super::errno::unsupported(format!(
            "the control group {group} has no {file}: its controller is not enabled above it (cgroup.subtree_control)"
        ))),
        Err(refusal) => Err(refusal),
    }
}

pub(super) fn write_cgroup(
    files: &Files,
    group: &str,
    file: &str,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let path = cgroup_path(files, group, file)?;
    let value = value.ok_or_else(|| invalid("a file of a control group can be set, not taken away"))?;
    if !files.has(path.trim_end_matches(file)) {
        return Err(gone(format!("there is no control group {group}: make it first (mkdir)")));
    }
    files.write(&path, value.as_str(), "sys_admin (or the group's owner)")
}

/// The interrupt of a queue by the names that drivers give theirs, where the kernel does not say it: among the device's
/// (`msi_irqs`), the one whose action names the queue.
pub(crate) fn irq_by_name(files: &Files, nic: &str, queue: u32) -> Option<u32> {
    let device = format!("sys/class/net/{nic}/device");
    // A virtio device's interrupts are those of the PCI device that carries it.
    let numbers = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
        .iter()
        .map(|directory| files.names(directory))
        .find(|names| !names.is_empty())?;
    let mut numbers: Vec<u32> = numbers.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let actions = |number: &u32| {
        let directory = format!("proc/irq/{number}");
        let names = files.names(&directory).into_iter();
        let number = *number;
        names
            .filter(move |name| files.path(&format!("{directory}/{name}")).is_dir())
            .map(move |name| (number, name))
    };
    let actions: Vec<(u32, String)> = numbers.iter().flat_map(actions).collect();
    let blocks_count = actions.iter().filter(|(_, action)| block_of_action(action).is_some()).count();
    let blocks_count = u32::try_from(blocks_count).ok()?;
    let is_it = |action: &str| match block_of_action(action) {
        Some(block) => block.checked_sub(blocks_count / 2) == Some(queue),
        None => queue_of_action(action) == Some(queue),
    };
    actions.iter().find(|(_, action)| is_it(action)).map(|(number, _)| *number)
}

/// The receive queue that an interrupt's action names: `ice-ens1-TxRx-3`, `virtio0-input.3`, `mlx5_comp3@pci:0000:17:00.0`,
/// `ens1-rx-3`, `i40e-ens1-TxRx-3`. Others (`ens1-tx-3`, `virtio0-output.3`, `mlx5_async0@…`, `ens1`) name none.
fn queue_of_action(action: &str) -> Option<u32> {
    let (stem, number) = numbered(action)?;
    let lower = stem.to_ascii_lowercase();
    let receives = ["rx-", "-input.", "_comp"].iter().any(|end| lower.ends_with(end));
    receives.then_some(number)
}

/// The block that an action of gve names, `gve-ntfy-blk3@pci:0000:00:04.0` or, before Linux 6.5, `eth0-ntfy-block.3`. Blocks of
/// sending queues come first, then as many of receiving ones (`gve_rx_idx_to_ntfy`).
fn block_of_action(action: &str) -> Option<u32> {
    let (stem, number) = numbered(action)?;
    (stem.ends_with("-ntfy-blk") || stem.ends_with("-ntfy-block.")).then_some(number)
}

/// An action's name without what follows `@`, parted from the number at its end.
fn numbered(action: &str) -> Option<(&str, u32)> {
    let name = action.split('@').next().unwrap_or_default();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((stem, name.get(stem.len()..)?.parse().ok()?))
}

/// Features of a virtio card by their bits (Virtual I/O Device 1.3, 5.1.3): moderation of the whole card, and of each queue.
pub(super) const VIRTIO_MODERATION: usize = 53;
pub(super) const VIRTIO_QUEUE_MODERATION: usize = 52;

/// Whether what emulates a virtio card offers a feature; other cards are not asked. A bit is a digit, the first one first.
pub(super) fn virtio_offers(files: &Files, nic: &str, bit: usize) -> bool {
    let features = files.read(&format!("sys/class/net/{nic}/device/features"));
    features.map_or(true, |digits| digits.as_bytes().get(bit) == Some(&b'1'))
}

/// The NUMA node of a card; of a virtio card that of the PCI device that carries it. A negative one is none.
pub(crate) fn node(files: &Files, nic: &str) -> Option<u32> {
    let places = ["numa_node", "../numa_node"];
    let text =
        places.iter().find_map(|place| files.read(&format!("sys/class/net/{nic}/device/{place}")).ok());
    text?.parse().ok()
}

pub(crate) fn read_irq(files: &Files, irq: u32) -> Result<Cpus, Refusal> {
    files.read(&format!("proc/irq/{irq}/smp_affinity_list"))?.parse().map_err(invalid)
}

pub(super) fn write_irq(files: &Files, irq: u32, cpus: &Cpus) -> Result<(), Refusal> {
    if cpus.is_empty() {
        return Err(invalid("an interrupt goes somewhere: name at least one cpu"));
    }
    let path = format!("proc/irq/{irq}/smp_affinity_list");
    files.write(&path, &cpus.to_string(), "root's own user").map_err(|mut refusal| {
        if refusal.cause == Cause::Failed {
            refusal.reason +=
                " (the kernel keeps this interrupt's affinity itself: it is managed by the driver)";
        }
        refusal
    })
}

/// A made-up tree for tests.
#[cfg(test)]
pub(crate) mod made_up {
    use std::fs;
    use std::path::PathBuf;

    use super::Files;

    /// Files below a directory that goes with this.
    pub(crate) struct Tree(PathBuf);

    impl Tree {
        pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let root = std::env::temp_dir().join(format!("host-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Tree(root)
        }

        pub(crate) fn files(&self) -> Files {
            Files::below(&self.0)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::Tree;
    use super::*;

    #[test]
    fn an_interrupt_is_found_by_its_name_among_the_devices() {
        let tree = Tree::new(
            "irqs",
            &[
                // Another card's, with the same queue in its name.
                ("proc/irq/40/ice-ens2-TxRx-1/x", ""),
                ("proc/irq/64/ice-ens1-TxRx-0/x", ""),
                ("proc/irq/65/ice-ens1-TxRx-1/x", ""),
                ("proc/irq/65/smp_affinity_list", "0-3\n"),
                ("sys/class/net/ens1/device/msi_irqs/64", ""),
                ("sys/class/net/ens1/device/msi_irqs/65", ""),
                ("sys/class/net/veth0/queues/x", ""),
            ],
        );
        let files = tree.files();
        assert_eq!((irq_by_name(&files, "ens1", 1), irq_by_name(&files, "ens1", 2)), (Some(65), None));
        assert_eq!(irq_by_name(&files, "veth0", 1), None);
        assert_eq!(read_irq(&files, 65).unwrap().to_string(), "0-3");
        write_irq(&files, 65, &"2,4".parse().unwrap()).unwrap();
        assert_eq!(read_irq(&files, 65).unwrap().to_string(), "2,4");
        assert_eq!(write_irq(&files, 65, &Cpus::default()).unwrap_err().cause, Cause::Invalid);
        assert_eq!(write_irq(&files, 66, &"1".parse().unwrap()).unwrap_err().cause, Cause::Gone);
    }

    #[test]
    fn blocks_of_gve_are_those_that_send_and_then_those_that_receive() {
        for (first, last) in [("gve-ntfy-blk", "@pci:0000:00:04.0"), ("eth0-ntfy-block.", "")] {
            let mut paths: Vec<String> = (0..8)
                .map(|block| format!("proc/irq/{}/{first}{block}{last}/x", 30 + block))
                .chain((30..39).map(|irq| format!("sys/class/net/eth0/device/msi_irqs/{irq}")))
                .collect();
            paths.push("proc/irq/38/gve-mgmnt@pci:0000:00:04.0/x".to_owned());
            let paths: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
            let tree = Tree::new("gve", &paths);
            let found = [0, 3, 4].map(|queue| irq_by_name(&tree.files(), "eth0", queue));
            assert_eq!(found, [Some(34), Some(37), None], "{first}");
        }
    }

    #[test]
    fn a_virtio_card_is_asked_for_its_features_and_its_carrier_for_its_node() {
        let features = |bits: &[usize]| -> String {
            (0..64).map(|bit| if bits.contains(&bit) { '1' } else { '0' }).collect()
        };
        let tree = Tree::new(
            "virtio",
            &[
                ("sys/class/net/plain/device/features", &features(&[5, 22])),
                ("sys/class/net/rich/device/features", &features(&[52, 53])),
                ("sys/class/net/rich/numa_node", "1"),
                ("sys/class/net/ens1/device/numa_node", "0\n"),
                ("sys/class/net/none/device/numa_node", "-1\n"),
            ],
        );
        let files = tree.files();
        for (nic, want) in [("plain", false), ("rich", true), ("ens1", true)] {
            for bit in [VIRTIO_MODERATION, VIRTIO_QUEUE_MODERATION] {
                assert_eq!(virtio_offers(&files, nic, bit), want, "{nic} {bit}");
            }
        }
        assert!(!virtio_offers(&files, "plain", 6) && virtio_offers(&files, "plain", 22));
        assert!(!virtio_offers(&files, "rich", 64), "beyond what the kernel tells");
        let nodes = ["rich", "ens1", "none", "plain"].map(|nic| node(&files, nic));
        assert_eq!(nodes, [Some(1), Some(0), None, None]);
    }

    #[test]
    fn a_groups_file_is_below_the_hierarchy_that_has_cpusets() {
        let tree = Tree::new(
            "groups",
            &[
                ("sys/fs/cgroup/cgroup.procs", ""),
                ("sys/fs/cgroup/cgroup.controllers", "cpu io\n"),
                ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n"),
                ("sys/fs/cgroup/cpuset/lane/cpuset.cpus", "2-3\n"),
            ],
        );
        let files = tree.files();
        assert_eq!(cgroup_root(&files), Some(("sys/fs/cgroup/cpuset".to_owned(), 1)));
        let text = |file: &str| read_cgroup(&files, "lane", file).map(|it| it.map(|it| it.to_string()));
        assert_eq!(text("cpuset.cpus").unwrap().as_deref(), Some("2-3"));
        write_cgroup(&files, "lane", "cpuset.cpus", Some(&Setting::new("4"))).unwrap();
        assert_eq!(text("cpuset.cpus").unwrap().as_deref(), Some("4"));
        let refusal = text("cpu.max").unwrap_err();
        assert!(
            refusal.cause == Cause::Unsupported && refusal.reason.contains("subtree_control"),
            "{refusal}"
        );
        assert_eq!(read_cgroup(&files, "none", "cpuset.cpus").unwrap_err().cause, Cause::Gone);
        for (group, file) in [("..", "x"), ("a/../../b", "x"), ("", "x"), ("a", ".."), ("a", "b/c")] {
            assert_eq!(read_cgroup(&files, group, file).unwrap_err().cause, Cause::Invalid, "{group}/{file}");
        }
        assert_eq!(write_cgroup(&files, "lane", "cpuset.cpus", None).unwrap_err().cause, Cause::Invalid);
    }

    #[test]
    fn a_sysctls_name_is_a_path_below_proc_sys() {
        let check = |name: &str, want: &str| assert_eq!(sysctl_path(name).unwrap(), want);
        check("net.core.busy_poll", "proc/sys/net/core/busy_poll");
        check("net.ipv4.conf.eth0/5.arp_ignore", "proc/sys/net/ipv4/conf/eth0.5/arp_ignore");
        for odd in ["", "net..x", ".net", "net.//.x", "net./.x"] {
            assert_eq!(sysctl_path(odd).unwrap_err().cause, Cause::Invalid, "{odd}");
        }
    }

    #[test]
    fn interrupts_name_their_receive_queue() {
        let check = |action: &str, want: Option<u32>| assert_eq!(queue_of_action(action), want, "{action}");
        check("ice-ens1-TxRx-3", Some(3));
        check("i40e-enp3s0f0-TxRx-11", Some(11));
        check("virtio0-input.2", Some(2));
        check("virtio0-output.2", None);
        check("virtio0-config", None);
        check("mlx5_comp7@pci:0000:17:00.0", Some(7));
        check("mlx5_async0@pci:0000:17:00.0", None);
        check("ens1-rx-4", Some(4));
        check("ens1-tx-4", None);
        check("ens1", None);
        check("eth0-Tx-Rx-5", Some(5));
        check("", None);
    }

    #[test]
    fn a_name_stays_in_its_directory() {
        for name in ["..", ".", "", "a/b", "../../x", "a b", "a:1", "sixteen-bytes-xx", "a\0"] {
            assert_eq!(check_name(name).unwrap_err().cause, Cause::Gone, "{name}");
        }
        for name in ["eth0", "a.5", "x@%é", "fifteen-bytes-x"] {
            check_name(name).unwrap();
        }
    }
}
