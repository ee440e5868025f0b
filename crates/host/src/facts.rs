//! What a machine is like, as far as lanes care: read once, kept as JSON, compared, and planned from on another machine.
//!
//! Facts hold what the kernel says, in its own words and numbers; what could not be read is absent, and [`Facts::missing`] says
//! why. Nothing here asks the system: `probe` does.

pub mod drawing;
pub mod probe;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpus::Cpus;

mod have;
mod listener;

pub use have::{context_text, spread_text};
pub use listener::Listener;

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Where these facts come from when no machine was read: "drivers/net/ethernet/intel/ice, Linux 7.2, not a recording".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_from: Option<String>,
    /// Release of the kernel, `6.18.5`.
    pub kernel: String,
    /// This run of the kernel.
    pub boot_id: String,
    /// What this process may do: `net_admin`, `sys_admin`, `sys_nice`, `bpf`, … of capabilities(7), lower case.
    pub capabilities: Vec<String>,
    /// Hardware threads that are online, ascending by number.
    pub cpus: Vec<Cpu>,
    /// The driver of cpuidle, which puts idle cpus into deeper states: `intel_idle`, `acpi_idle`, `haltpoll`. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_driver: Option<String>,
    /// Network cards, ascending by name.
    pub nics: Vec<Nic>,
    /// The sysctls that lanes set or judge, by name.
    pub sysctls: BTreeMap<String, String>,
    /// Daemons that set the same knobs (irqbalance, NetworkManager, systemd-networkd, tuned), those that exist.
    pub daemons: Vec<Daemon>,
    /// How control groups are mounted.
    pub cgroup: Cgroup,
    /// Routing rules with a preference, and routes of tables, of 49001 and above, by the path of their knobs.
    #[serde(default)]
    pub routing: BTreeMap<String, String>,
    /// Processes that were asked for by name, unit, group or number.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// What could not be read, and why.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// A hardware thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// Its core, unique within the package.
    pub core: u32,
    /// Its package (socket).
    pub package: u32,
    /// Its NUMA node.
    pub node: u32,
    /// Threads that share its last level cache.
    pub shares_cache_with: Cpus,
    /// Whether `isolcpus` keeps the scheduler from it.
    #[serde(default)]
    pub isolated: bool,
    /// How long it may take to wake up, as [`crate::knob::CpuKnob::ResumeLatency`] writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_latency_us: Option<String>,
}

/// A network card, real or virtual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// The interface's name.
    pub name: String,
    /// Hardware address, `52:54:00:12:34:56`.
    pub mac: String,
    /// Its place on the bus, `0000:17:00.0`; virtual ones have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// The driver's name: `ice`, `virtio_net`, `veth`.
    pub driver: String,
    /// The driver's version, where it is not the kernel's.
    #[serde(default)]
    pub driver_version: String,
    /// Firmware.
    #[serde(default)]
    pub firmware: String,
    /// NUMA node it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Link speed in Mbit/s, where there is a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbit: Option<u32>,
    /// Whether the link is up.
    pub up: bool,
    /// The bond, team or bridge that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// Daemons that set it again when the link comes up or when they start: `NetworkManager`, `systemd-networkd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<String>,
    /// Whether an XDP program runs on it: queue counts are tied to it.
    #[serde(default)]
    pub xdp: bool,
    /// Addresses with their prefix, `10.0.0.1/24`.
    pub addresses: Vec<String>,
    /// Gateways of the main table's default routes over it, v4 and v6.
    #[serde(default)]
    pub gateways: Vec<String>,
    /// Whether the way to whoever watches leads through it: a session of ssh that this process descends from, whose address is
    /// the card's, or that of a bond, bridge or VLAN on it.
    #[serde(default)]
    pub carries_session: bool,
    /// Queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<Rings>,
    /// Moderation of the whole card, as [`crate::knob::NicKnob::Coalesce`] writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesce: Option<String>,
    /// Features by the kernel's names: `rx-ntuple-filter`, `hw-tc-offload`, `rx-gro`.
    #[serde(default)]
    pub features: BTreeMap<String, Feature>,
    /// Private flags by name.
    #[serde(default)]
    pub private_flags: BTreeMap<String, bool>,
    /// Devlink parameters by name, as text.
    #[serde(default)]
    pub devlink: BTreeMap<String, String>,
    /// How received packets are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<Rss>,
    /// Rules that steer flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntuple: Option<Ntuple>,
    /// Receive and transmit queues, ascending.
    pub queues: Vec<Queue>,
    /// Whether kernel threads poll it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threaded: Option<bool>,
    /// Polls without a packet after which interrupts come again, of the card as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_hard_irqs: Option<u32>,
    /// Nanoseconds that the next poll is waited for meanwhile, of the card as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gro_flush_timeout: Option<u64>,
    /// The root qdisc, as [`crate::knob::NicKnob::Root`] writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_qdisc: Option<String>,
    /// Classes and qdiscs below the root, by knob path's last part (`class/1:10`, `qdisc/1:10`), as their knobs write them.
    #[serde(default)]
    pub below_root: BTreeMap<String, String>,
    /// Whether there is a clsact (or ingress) qdisc.
    #[serde(default)]
    pub clsact: bool,
    /// Filters at the edges.
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// What makes drivers refuse although their features say otherwise, one word each: `irdma` (the module is loaded and blocks
    /// changes of queue counts), `safe-mode` (ice without its DDP package), `switchdev`.
    #[serde(default)]
    pub hindrances: Vec<String>,
}

/// How many queues a card has and can have; none of a kind is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channels {
    /// Receive only.
    pub rx: u32,
    /// Transmit only.
    pub tx: u32,
    /// Both ways.
    pub combined: u32,
    /// The most of each.
    pub rx_max: u32,
    /// The most of each.
    pub tx_max: u32,
    /// The most of each.
    pub combined_max: u32,
}

/// Descriptors per queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rings {
    /// Received.
    pub rx: u32,
    /// Sent.
    pub tx: u32,
    /// The most.
    pub rx_max: u32,
    /// The most.
    pub tx_max: u32,
}

/// A feature of `ethtool -k`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Whether it is on.
    pub on: bool,
    /// Whether it can't be changed.
    #[serde(default)]
    pub fixed: bool,
}

/// How a card spreads what it receives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rss {
    /// Queue of each entry of the default table.
    pub table: Vec<u32>,
    /// Whether the table can be written.
    pub writable: bool,
    /// Whether there can be further contexts, and those there are: id and table.
    pub contexts: Option<BTreeMap<u32, Vec<u32>>>,
}

/// Rules by which a card steers flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ntuple {
    /// Locations there are.
    pub capacity: u32,
    /// Rules that are set: location and text as [`crate::knob::NicKnob::Ntuple`] writes it.
    pub rules: BTreeMap<u32, String>,
}

/// A queue, both ways where the card pairs them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Its number.
    pub index: u32,
    /// NAPI instance that polls its receiving side, this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi: Option<u32>,
    /// Its interrupt, this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<u32>,
    /// Cpus its interrupt may go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq_cpus: Option<Cpus>,
    /// Cpus its interrupt does go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq_effective: Option<Cpus>,
    /// Moderation, where the card has it per queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesce: Option<String>,
    /// Receiving side: cpus that take over its packets. Absent where there is no such queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rps_cpus: Option<Cpus>,
    /// Receiving side: flows for RFS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rps_flow_cnt: Option<u32>,
    /// Sending side: cpus that send by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xps_cpus: Option<Cpus>,
    /// Sending side: receive queues whose connections send by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xps_rxqs: Option<Cpus>,
    /// Per-NAPI settings, where the kernel has them: `defer-hard-irqs`, `gro-flush-timeout`, `irq-suspend-timeout`, `threaded`.
    #[serde(default)]
    pub napi_settings: BTreeMap<String, String>,
    /// The kernel thread that polls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_thread: Option<Thread>,
}

/// A filter at an edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Which edge.
    pub direction: crate::knob::Direction,
    /// Its preference.
    pub pref: u32,
    /// As [`crate::knob::NicKnob::Filter`] writes it; a kind that we don't write is named alone: `protocol ip u32`.
    pub text: String,
    /// Whether the card does it.
    #[serde(default)]
    pub in_hw: bool,
}

/// A daemon that sets knobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// The unit's name without `.service`.
    pub name: String,
    /// Whether it runs.
    pub running: bool,
    /// Whether it can be stopped and started here (systemd, or a service script).
    pub manageable: bool,
    /// What it works by, where it says: tuned's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    /// Where cpusets can be written: the mount point, `/sys/fs/cgroup`; absent where no hierarchy has the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset_root: Option<String>,
    /// 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Groups that were asked for, by their path without a leading slash, and of each `cpuset.cpus`, `cpuset.mems` and
    /// `cpuset.cpus.partition`: those that it has, none where the controller is not enabled for it. Of version 2 alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, BTreeMap<String, String>>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began, clock ticks since boot.
    pub start: u64,
    /// Its name, /proc/PID/comm.
    pub name: String,
    /// Its systemd unit, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its control group's path.
    #[serde(default)]
    pub cgroup: String,
    /// Where it listens, ascending; empty where that could not be read.
    #[serde(default)]
    pub listens: Vec<Listener>,
    /// Whether it is in another network namespace, so that its addresses are not those of this machine's cards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Cpus it may run on.
    pub cpus: Cpus,
    /// Its nice value.
    pub nice: i32,
    /// Its policy: `other`, `fifo 10`, `rr 10`, `batch`, `idle`.
    pub scheduler: String,
}
