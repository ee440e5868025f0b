//! What is not a card: kernel, rights, cpus, daemons, control groups.

use super::{Facts, note};
use crate::cpus::Cpus;
use crate::facts::{Cgroup, Cpu, Daemon};
use crate::kernel::live::files::{self, Files};
use crate::kernel::live::{cpu, services};
use crate::knob::{CpuKnob, Knob};

/// Daemons that set the same knobs.
const DAEMONS: &[&str] = &["irqbalance", "NetworkManager", "systemd-networkd", "tuned"];

/// Names of capabilities(7) by their bit.
const CAPABILITIES: &[&str] = &[
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

pub(super) fn read(files: &Files, missing: &mut Vec<String>) -> Facts {
    let kernel = files.read("proc/sys/kernel/osrelease");
    let cgroup = files::cgroup_root(files);
    Facts {
        kernel: note(kernel, "kernel", missing).unwrap_or_default(),
        capabilities: capabilities(&files.read("proc/self/status").unwrap_or_default()),
        cpus: cpus(files, missing),
        idle_driver: note(cpu::idle_driver(files), "idle_driver", missing).flatten(),
        daemons: daemons(files),
        cgroup: Cgroup {
            cpuset_root: cgroup.as_ref().map(|(root, _)| format!("/{root}")),
            version: cgroup.map(|(_, version)| version),
            ..Cgroup::default()
        },
        ..Facts::default()
    }
}

/// Those in effect, of /proc/self/status.
fn capabilities(status: &str) -> Vec<String> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let set = CAPABILITIES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    set.map(|(_, name)| (*name).to_owned()).collect()
}

fn cpus(files: &Files, missing: &mut Vec<String>) -> Vec<Cpu> {
    let base = "sys/devices/system/cpu";
    let list =
        |path: &str| files.read(path).ok().and_then(|text| text.parse::<Cpus>().ok()).unwrap_or_default();
    let online = note(files.read(&format!("{base}/online")), "cpus", missing).unwrap_or_default();
    let isolated = list(&format!("{base}/isolated"));
    let online: Cpus = online.parse().unwrap_or_default();
    let mut cpu = |id: u32| {
        let here = format!("{base}/cpu{id}");
        let number =
            |path: &str| files.read(&format!("{here}/{path}")).ok().and_then(|text| text.parse().ok());
        let node = files.names(&here).iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
        let what = CpuKnob::ResumeLatency;
        let latency = cpu::read(files, id, what);
        let latency = note(latency, &Knob::Cpu { cpu: id, what }.to_string(), missing);
        Cpu {
            id,
            core: number("topology/core_id").unwrap_or(id),
            package: number("topology/physical_package_id").unwrap_or(0),
            node: node.unwrap_or(0),
            shares_cache_with: last_cache(files, &here).unwrap_or_else(|| [id].into_iter().collect()),
            isolated: isolated.contains(id),
            resume_latency_us: latency.map(|text| text.to_string()),
        }
    };
    online.iter().map(&mut cpu).collect()
}

/// Who shares the cache of the highest level.
fn last_cache(files: &Files, cpu: &str) -> Option<Cpus> {
    let indices = files.names(&format!("{cpu}/cache"));
    let level = |index: &String| -> Option<u32> {
        files.read(&format!("{cpu}/cache/{index}/level")).ok()?.parse().ok()
    };
    let last = indices.iter().filter(|index| level(index).is_some()).max_by_key(|index| level(index))?;
    files.read(&format!("{cpu}/cache/{last}/shared_cpu_list")).ok()?.parse().ok()
}

fn daemons(files: &Files) -> Vec<Daemon> {
    let daemon = |name: &&str| {
        let state = services::read(files, name).ok().flatten()?;
        Some(Daemon {
            name: (*name).to_owned(),
            running: state.as_str() == "running",
            manageable: services::is_manageable(files, name),
            profile: files
                .read("etc/tuned/active_profile")
                .ok()
                .filter(|text| *name == "tuned" && !text.is_empty()),
        })
    };
    DAEMONS.iter().filter_map(daemon).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::live::files::made_up::Tree;

    #[test]
    fn capabilities_have_names() {
        assert_eq!(capabilities("Name:\tx\nCapEff:\t0000008000801000\n"), ["net_admin", "sys_nice", "bpf"]);
        assert_eq!(capabilities("CapEff:\t0\n"), Vec::<String>::new());
        assert_eq!(capabilities("CapEff:\t000001ffffffffff\n").len(), CAPABILITIES.len());
    }

    #[test]
    fn a_made_up_machine_is_read_below_its_root() {
        let cpu = "sys/devices/system/cpu";
        let tree = Tree::new(
            "machine",
            &[
                (&format!("{cpu}/online"), "0,2\n"),
                (&format!("{cpu}/isolated"), "2\n"),
                (&format!("{cpu}/cpu0/topology/core_id"), "4\n"),
                (&format!("{cpu}/cpu0/topology/physical_package_id"), "1\n"),
                (&format!("{cpu}/cpu0/node1/x"), ""),
                (&format!("{cpu}/cpu0/power/pm_qos_resume_latency_us"), "n/a\n"),
                (&format!("{cpu}/cpuidle/current_driver"), "intel_idle\n"),
                (&format!("{cpu}/cpu0/cache/index0/level"), "1\n"),
                (&format!("{cpu}/cpu0/cache/index0/shared_cpu_list"), "0\n"),
                (&format!("{cpu}/cpu0/cache/index3/level"), "3\n"),
                (&format!("{cpu}/cpu0/cache/index3/shared_cpu_list"), "0-3\n"),
                ("proc/sys/kernel/osrelease", "6.18.5\n"),
                ("proc/77/comm", "irqbalance\n"),
                ("etc/init.d/tuned", ""),
                ("etc/tuned/active_profile", "cpu-partitioning\n"),
                ("sys/fs/cgroup/cgroup.controllers", "cpu cpuset io\n"),
            ],
        );
        let mut missing = Vec::new();
        let facts = read(&tree.files(), &mut missing);
        assert_eq!(missing, Vec::<String>::new());
        assert_eq!(facts.kernel, "6.18.5");
        let first = &facts.cpus[0];
        assert_eq!((first.core, first.package, first.node, first.isolated), (4, 1, 1, false));
        assert_eq!(first.shares_cache_with.to_string(), "0-3");
        assert_eq!(first.resume_latency_us.as_deref(), Some("n/a"));
        assert_eq!(facts.idle_driver.as_deref(), Some("intel_idle"));
        let second = &facts.cpus[1];
        assert_eq!((second.id, second.core, second.isolated), (2, 2, true));
        assert_eq!(second.shares_cache_with.to_string(), "2");
        assert_eq!(second.resume_latency_us, None, "a kernel without the file");
        let daemons: Vec<(&str, bool, bool)> =
            facts.daemons.iter().map(|it| (it.name.as_str(), it.running, it.manageable)).collect();
        assert_eq!(daemons, [("irqbalance", true, false), ("tuned", false, true)]);
        let profiles: Vec<_> = facts.daemons.iter().map(|it| it.profile.as_deref()).collect();
        assert_eq!(profiles, [None, Some("cpu-partitioning")]);
        let root = Some("/sys/fs/cgroup".to_owned());
        assert_eq!(facts.cgroup, Cgroup { cpuset_root: root, version: Some(2), ..Cgroup::default() });
    }
}
