//! Whole captures of recorded machines, and of the one that runs the tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::files::{Files, natural};
use super::*;

pub(super) const INTEL: &str = include_str!("tests/intel-5.10.txt");
const AMD: &str = include_str!("tests/amd-6.1.txt");
const ARM: &str = include_str!("tests/arm64-6.18.txt");
const VM: &str = include_str!("tests/vm-6.18.txt");

/// A recorded machine: `=== path`, the text of the file until the next one; `=== path -> name` is a symbolic link.
#[derive(Default)]
pub(super) struct Tree {
    texts: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    /// The file that ends before its end, and where.
    pub(super) cut: Option<(String, usize)>,
}

impl Tree {
    pub(super) fn parse(text: &str) -> Tree {
        let mut tree = Tree::default();
        for file in text.split("=== ").skip(1) {
            let (path, text) = file.split_once('\n').expect("a path is a line");
            match path.split_once(" -> ") {
                Some((path, name)) => tree.links.insert(path.to_owned(), name.to_owned()),
                None => tree.texts.insert(path.to_owned(), text.to_owned()),
            };
        }
        tree
    }

    pub(super) fn with(mut self, path: &str, text: &str) -> Tree {
        self.texts.insert(path.to_owned(), text.to_owned());
        self
    }

    /// Cuts each file at each byte in turn.
    pub(super) fn cut_everywhere(mut self, mut look: impl FnMut(&Tree)) {
        let sizes: Vec<(String, usize)> =
            self.texts.iter().map(|(path, text)| (path.clone(), text.len())).collect();
        for (path, size) in sizes {
            for at in 0..size {
                self.cut = Some((path.clone(), at));
                look(&self);
            }
        }
    }
}

impl Files for Tree {
    fn text(&self, path: &str) -> Option<String> {
        let text = self.texts.get(path)?;
        let size = self.cut.as_ref().filter(|(cut, _)| cut == path).map_or(text.len(), |(_, size)| *size);
        Some(String::from_utf8_lossy(&text.as_bytes()[..size]).into_owned())
    }

    fn entries(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        let paths = self.texts.range(below.clone()..).map(|(path, _)| path);
        let mut names: Vec<String> = paths
            .take_while(|path| path.starts_with(&below))
            .map(|path| path[below.len()..].split('/').next().unwrap_or_default().to_owned())
            .collect();
        let links = self.links.keys().filter_map(|path| path.strip_prefix(&below)?.split('/').next());
        names.extend(links.map(str::to_owned));
        names.sort_by_key(|name| natural(name));
        names.dedup();
        names
    }

    fn link_name(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }
}

fn capture(tree: &str) -> Environment {
    Environment::read(&Tree::parse(tree), &Silent, &[])
}

/// Each line: group, slash, name, colon, what is shown.
fn check(tree: &str, want: &[&str]) {
    let environment = capture(tree);
    for line in want {
        let (place, want) = line.split_once(": ").expect("a place and a value");
        let (group, name) = place.rsplit_once('/').expect("a group and a name");
        let item = environment.item(group, name).unwrap_or_else(|| panic!("{place} was not looked for"));
        assert_eq!(item.shown(), want, "{place}");
    }
}

#[test]
fn an_intel_server_of_5_10() {
    check(
        INTEL,
        &[
            "platform/vendor: Dell Inc.",
            "platform/product: PowerEdge R740",
            "platform/bios version: 2.15.1",
            "platform/hypervisor: none",
            "platform/container: not exposed here",
            "processor/model: Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz",
            "processor/stepping: family 6, model 85, stepping 7",
            "processor/microcode: 0x5003604 (0), 0x5003605 (1)",
            "processor/sockets: 2",
            "processor/cores: 2",
            "processor/threads: 4 (0-3)",
            "processor/offline: none",
            "processor/isolated: 2-3",
            "processor/nohz_full: none",
            "processor/smt: active (control: on)",
            "processor/turbo: off (intel_pstate/no_turbo 1)",
            "processor/pstate mode: active",
            "processor/governor: performance (0,2), powersave (1)",
            "processor/frequency hardware max: 4000000 kHz",
            "processor/frequency hardware min: not exposed here",
            "processor/idle driver: intel_idle",
            "processor/idle governor: menu",
            "processor/idle states: POLL 0 µs, C6 133 µs disabled",
            "processor/idle latency limit: none (0,2), 0 µs (1), 20 µs (3)",
            "processor/caches: L1d 32K by 2 threads, L3 39424K",
            "processor/nodes: 0: cpus 0,2 at 10 21; 1: cpus 1,3 at 21 10",
            "processor/tsc: constant_tsc nonstop_tsc",
            "mitigations/spectre_v2: Mitigation: Enhanced IBRS, IBPB: conditional, RSB filling",
            "mitigations/meltdown: Not affected",
            "memory/total: 385618 MiB",
            "memory/swap: 0 MiB",
            "memory/huge pages: 512 of 2048kB, 0 of 1048576kB",
            "memory/transparent huge pages enabled: madvise",
            "kernel/distribution: Debian GNU/Linux 11 (bullseye)",
            "kernel/release: 5.10.0-28-amd64",
            "kernel/command line: BOOT_IMAGE=(hidden) root=(hidden) ro isolcpus=2-3 mitigations=auto",
            "kernel/clock source: tsc",
            "kernel/scheduler features: GENTLE_FAIR_SLEEPERS START_DEBIT NO_HRTICK",
            "kernel/uptime: 350735 s",
            "kernel/load: 0.20 0.18 0.12",
            "sysctl/net.core.busy_poll: 50",
            "sysctl/net.ipv4.tcp_rmem: 4096 131072 6291456",
            "sysctl/kernel.sched_latency_ns: 24000000",
            "sysctl/vm.swappiness: 60",
            "links/count: 3",
            "link ens1f0/driver: ice",
            "link ens1f0/speed: 100000 Mbit/s",
            "link ens1f0/queues: rx 2, tx 2",
            "link ens1f0/rps cpus: none (0), 0-1 (1) by queue",
            "link ens1f0/xps cpus: 0",
            "link ens1f0/interrupts: ice-ens1f0:misc 0-3; ice-ens1f0-TxRx-0 0; ice-ens1f0-TxRx-1 1",
            "link ens1f0/firmware: not exposed here",
            "link enx(hidden)/mtu: 1500",
            "link lo/speed: not exposed here",
            "limits/cpu.max: 200000, above it -1",
            "limits/memory.max: 9223372036854771712",
            "limits/cpus allowed: 0-3",
            "limits/max open files: 1024, hard 1048576 files",
            "limits/max nice priority: 0",
            "services/irqbalance: running",
            "services/thermald: not running",
            "services/tuned profile: network-latency",
        ],
    );
}

#[test]
fn an_amd_server_of_6_1() {
    check(
        AMD,
        &[
            "platform/hypervisor: xen",
            "platform/container: systemd",
            "processor/architecture: x86_64",
            "processor/turbo: on (cpufreq/boost 1)",
            "processor/pstate mode: passive",
            "processor/isolated: none",
            "processor/nohz_full: not exposed here",
            "processor/cores: 1",
            "processor/idle driver: acpi_idle",
            "processor/idle governor: ladder",
            "processor/idle latency limit: none",
            "mitigations/spec_rstack_overflow: Mitigation: safe RET, no microcode",
            "kernel/preemption: voluntary",
            "kernel/scheduler features: PLACE_LAG NO_HRTICK",
            "kernel/scheduler migration_cost_ns: 500000",
            "limits/cpu.max: 150000 100000, above it max 100000",
            "limits/cpuset.cpus: 0",
            "services/irqbalance: not exposed here",
        ],
    );
}

#[test]
fn an_arm64_server_of_6_18() {
    check(
        ARM,
        &[
            "platform/device tree model: Made-up board",
            "platform/vendor: not exposed here",
            "platform/hypervisor: not exposed here",
            "processor/model: implementer 0x41 part 0xd0c (Neoverse N1)",
            "processor/stepping: CPU variant 0x3, CPU revision 1",
            "processor/microcode: not exposed here",
            "processor/sockets: not exposed here",
            "processor/threads: 2",
            "processor/tsc: not exposed here",
            "sysctl/net.core.default_qdisc: fq_codel",
            "kernel/extensible scheduler: disabled",
        ],
    );
}

#[test]
fn a_virtual_machine_of_6_18() {
    check(
        VM,
        &[
            "platform/hypervisor: yes, kind not told",
            "platform/vendor: not exposed here",
            "processor/microcode: 0x1000065",
            "processor/turbo: not exposed here",
            "processor/governor: not exposed here",
            "processor/idle driver: not exposed here",
            "processor/idle latency limit: not exposed here",
            "processor/smt: not active (control: notimplemented)",
            "kernel/command line: mitigations=auto,no_guest_host panic=(hidden) -- (hidden)",
            "link eth0/interrupts: virtio2-input.0 0",
            "limits/cpu.max: not exposed here",
        ],
    );
}

#[test]
fn nothing_secret_is_kept() {
    let json = serde_json::to_string(&capture(INTEL)).expect("strings");
    assert!(!json.contains("SECRET"), "{json}");
}

#[test]
fn programs_have_command_version_and_hash() {
    let server = Program {
        role: "server".to_owned(),
        command: [concat!("/home", "/ann/redis-server"), "--requirepass", "x"].map(str::to_owned).to_vec(),
        version: Some("Redis 7.2\n".to_owned()),
        sha256: Some("00ff".to_owned()),
    };
    let remote = Program { role: "peer".to_owned(), ..Program::default() };
    let environment = Environment::read(&Tree::parse(INTEL), &Silent, &[server, remote]);
    let shown = |name| environment.item("programs", name).map(Item::shown);
    assert_eq!(shown("server command"), Some("~/redis-server --requirepass (hidden)"));
    assert_eq!(shown("server version"), Some("Redis 7.2"));
    assert_eq!(shown("server sha256"), Some("00ff"));
    assert_eq!(shown("peer sha256"), Some(NOT_EXPOSED));
}

#[test]
fn start_and_end_of_a_quiet_run_differ_in_values_of_the_moment_alone() {
    let start = capture(INTEL);
    let meminfo =
        Tree::parse(INTEL).text("proc/meminfo").expect("recorded").replace("389000000", "380000000");
    let end = Tree::parse(INTEL)
        .with("proc/uptime", "350999.00 0.00\n")
        .with("proc/meminfo", &meminfo)
        .with("proc/loadavg", "2.0 1.0 0.5 3/80 11207\n")
        .with("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3100000\n");
    let rows = difference(&start, &Environment::read(&end, &Silent, &[]), &[] as &[&str]);
    let of_the_moment = rows.iter().filter(|row| row.kind == Kind::Volatile).map(|row| row.name.as_str());
    assert_eq!(of_the_moment.collect::<Vec<_>>(), ["frequency now (cpu 0)", "available", "uptime", "load"]);
    assert_eq!(unexplained(&rows).count(), 0);

    let cpu = "sys/devices/system/cpu";
    for (path, text, want) in [
        ("proc/irq/131/smp_affinity_list", "3\n", "link ens1f0/interrupts"),
        (&format!("{cpu}/cpuidle/current_driver"), "none\n", "processor/idle driver"),
        (&format!("{cpu}/cpuidle/current_governor"), "teo\n", "processor/idle governor"),
        (&format!("{cpu}/cpu2/power/pm_qos_resume_latency_us"), "n/a\n", "processor/idle latency limit"),
    ] {
        let stirred = Tree::parse(INTEL).with(path, text);
        let rows = difference(&start, &Environment::read(&stirred, &Silent, &[]), &[] as &[&str]);
        let names = unexplained(&rows).map(|row| format!("{}/{}", row.group, row.name));
        assert_eq!(names.collect::<Vec<_>>(), [want]);
    }
}

#[test]
fn links_with_a_device_are_shown_before_those_that_are_too_many() {
    let mut text =
        "=== sys/class/net/zz0/device/driver -> ice\n=== sys/class/net/bonding_masters\n\n".to_owned();
    for link in 0..40 {
        text.push_str(&format!("=== sys/class/net/veth{link}/mtu\n1500\n"));
    }
    let environment = capture(&text);
    let links: Vec<&str> =
        environment.groups.iter().filter_map(|group| group.name.strip_prefix("link ")).collect();
    assert_eq!((links.len(), &links[..3]), (32, &["zz0", "veth0", "veth1"][..]));
    assert_eq!(environment.item("links", "count").map(Item::shown), Some("41"));
}

#[test]
fn links_whose_names_are_hidden_are_told_apart() {
    let text = "=== sys/class/net/enx001122aabbcc/mtu\n1500\n=== sys/class/net/enx001122aabbcd/mtu\n9000\n";
    let environment = capture(text);
    let mtu = |link| environment.item(link, "mtu").map(Item::shown);
    assert_eq!((mtu("link enx(hidden)"), mtu("link enx(hidden)+")), (Some("1500"), Some("9000")));
}

#[test]
fn a_capture_is_read_back_as_it_was_written() {
    for tree in [INTEL, AMD, ARM, VM, ""] {
        let environment = capture(tree);
        let json = serde_json::to_string(&environment).expect("strings");
        assert_eq!(serde_json::from_str::<Environment>(&json).expect("the same"), environment);
    }
}

#[test]
fn names_are_unique() {
    for tree in [INTEL, AMD, ARM, VM] {
        let environment = capture(tree);
        let names: Vec<(&str, &str)> = environment
            .groups
            .iter()
            .flat_map(|group| group.items.iter().map(|item| (group.name.as_str(), item.name.as_str())))
            .collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[at + 1..].contains(name), "{name:?}");
        }
    }
}

#[test]
fn a_file_cut_at_any_byte_is_read_as_far_as_it_goes() {
    for tree in [INTEL, AMD, ARM, VM] {
        let whole: usize = capture(tree).groups.len();
        Tree::parse(tree).cut_everywhere(|tree| {
            assert_eq!(Environment::read(tree, &Silent, &[]).groups.len(), whole, "{:?}", tree.cut);
        });
    }
}

#[test]
fn files_below_a_root_are_read_and_nothing_else() {
    let root = std::env::temp_dir().join(format!("expresslane-environment-{}", std::process::id()));
    let write = |path: &str, text: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write("sys/class/dmi/id/product_name", b"Board\xff \n");
    write("sys/devices/system/cpu/vulnerabilities/l1tf", b"");
    write("sys/bus/drivers/ice/bind", b"");
    write("sys/class/net/eth0/mtu", b"1500\n");
    fs::create_dir_all(root.join("sys/class/net/eth0/device")).expect("a folder");
    std::os::unix::fs::symlink("../../../../bus/drivers/ice", root.join("sys/class/net/eth0/device/driver"))
        .expect("a link");
    write("sys/firmware/devicetree/base/model", b"Made-up board\0");
    let environment = Environment::capture(&root, &Silent, &[]);
    fs::remove_dir_all(&root).expect("removed");

    let shown = |group, name| environment.item(group, name).map(Item::shown);
    assert_eq!(shown("platform", "product"), Some("Board\u{fffd}"));
    assert_eq!(shown("platform", "device tree model"), Some("Made-up board"));
    assert_eq!(shown("mitigations", "l1tf"), Some(""));
    assert_eq!(shown("link eth0", "driver"), Some("ice"));
    assert_eq!(shown("link eth0", "mtu"), Some("1500"));
    assert_eq!(shown("processor", "model"), Some(NOT_EXPOSED));
}

#[test]
fn this_machine_tells_at_least_its_kernel_and_its_cpus() {
    let environment = Environment::capture(Path::new("/"), &Kernel::new(), &[]);
    for (group, name) in
        [("kernel", "release"), ("processor", "architecture"), ("processor", "threads"), ("memory", "total")]
    {
        let item = environment.item(group, name).expect("looked for");
        assert!(item.value.is_some(), "{group}/{name}");
    }
    let again = Environment::capture(Path::new("/"), &Kernel::new(), &[]);
    let rows = difference(&environment, &again, &[] as &[&str]);
    assert!(rows.iter().any(|row| row.kind == Kind::Same && row.a.is_some()));
}

#[test]
fn a_link_that_does_not_exist_answers_nothing() {
    let kernel = Kernel::new();
    assert_eq!(kernel.link("no-such-link", ethtool::READING_COMMANDS[0]), None);
    assert_eq!(
        kernel.link("a-name-that-is-longer-than-the-kernel-allows", ethtool::READING_COMMANDS[0]),
        None
    );
}
