//! What can be set, one name for each thing, and its values as text.
//!
//! A knob's path is what journals keep and people read. It never contains what the kernel hands out anew (NAPI ids, interrupt
//! numbers, qdisc handles it chose itself): those are looked up when the knob is read or written.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Cpus;

/// A value of a knob, in the canonical form that [`Knob`] documents for it: one line, single blanks, so that equal means same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting(String);

impl Setting {
    /// With its blanks made single.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Setting {
        Setting(text.as_ref().split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The words, in order.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').filter(|word| !word.is_empty())
    }

    /// The word after `name`, where there is one.
    #[must_use]
    pub fn after(&self, name: &str) -> Option<&str> {
        self.words().skip_while(|word| *word != name).nth(1)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that can be set. The second column is the path, the third the canonical text of its values.
///
/// | knob | path | value |
/// |---|---|---|
/// | `Sysctl` | `sysctl/net.core.busy_poll` | as /proc/sys shows it |
/// | `Service` | `service/irqbalance` | `running`, `stopped` |
/// | `Cgroup` | `cgroup/LANE/cpuset.cpus` | as the file shows it |
/// | `Cpu` | `cpu/3/resume-latency-us` | see [`CpuKnob`] |
/// | `Thread` | `process/812@5512/813/affinity` | cpus, `2-3`; a nice value, `-5`; `fifo 10`, `rr 10`, `other` |
/// | `Rule` | `rule/inet/49001` | `from 10.0.0.1 lookup 49001` |
/// | `Route` | `route/inet/49001/default` | `via 10.0.0.254 dev ens1`, `dev ens1` |
/// | `Nic` | `nic/ens1/…` | see [`NicKnob`] |
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Knob {
    /// A file below /proc/sys, dots between its directories; a dot inside an interface's name is a slash, as in `sysctl(8)`.
    Sysctl {
        /// The name, `net.core.busy_poll`.
        name: String,
    },
    /// Whether a daemon runs.
    Service {
        /// The unit without `.service`.
        name: String,
    },
    /// A file of a control group.
    Cgroup {
        /// Path below the hierarchy's root, without a leading slash.
        group: String,
        /// The file's name, `cpuset.cpus`.
        file: String,
    },
    /// How a cpu idles.
    Cpu {
        /// Its number.
        cpu: u32,
        /// What of it.
        what: CpuKnob,
    },
    /// How a thread of a process that lives is scheduled.
    Thread {
        /// The process.
        pid: u32,
        /// When it began, in clock ticks since boot (field 22 of /proc/PID/stat): a number that is used again is another process.
        start: u64,
        /// The thread.
        tid: u32,
        /// What of it.
        what: ThreadKnob,
    },
    /// A routing rule of ours, by its preference, which no two have.
    Rule {
        /// Which addresses.
        family: Family,
        /// Its preference.
        pref: u32,
    },
    /// A route in a table of ours.
    Route {
        /// Which addresses.
        family: Family,
        /// The table's number.
        table: u32,
        /// `default`, or a prefix.
        destination: String,
    },
    /// Something of a network card.
    Nic {
        /// The interface's name.
        nic: String,
        /// What of it.
        knob: NicKnob,
    },
}

/// What of a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuKnob {
    /// Microseconds that waking it up may take at most: idle states that take longer to leave are not entered. `0` is no limit, and
    /// `n/a` tolerates none, so that it stays in its shallowest state, which on x86 polls (`power/pm_qos_resume_latency_us` of
    /// Documentation/ABI/testing/sysfs-devices-power). The governor of cpuidle heeds it; without a cpuidle driver nobody does.
    ResumeLatency,
}

/// What of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadKnob {
    /// Cpus it may run on, `sched_setaffinity(2)`.
    Affinity,
    /// Its nice value.
    Nice,
    /// Its policy and real-time priority.
    Scheduler,
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Inet,
    /// IPv6.
    Inet6,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Received.
    Ingress,
    /// Sent.
    Egress,
}

/// What of a network card, below `nic/NAME/`. Words and units are those of `ethtool(8)` and `tc(8)`; features have the kernel's
/// names (`rx-ntuple-filter`, `rx-gro`), which `ethtool -K` takes too. Rates are written as [`crate::rate::Rate`] does, addresses
/// without a prefix that covers all of them.
///
/// Words that may be absent keep one order: a flower filter has `ip_proto dst_ip src_ip dst_port src_port skip_sw` and then
/// `hw_tc` or `action skbedit priority`; a rule has `flow-type src-ip dst-ip src-port dst-port` and then `action` or `context`; a
/// program of ours has `bpf queue priority`, the protocol, `src_ip src_port` (`dst_port` for a client's lane). It sets what it is
/// told (the queue, the packet's priority: a class as `e7:10`) and lets the packet pass; one filter is one port.
/// mqprio's map and queues have `num_tc` entries each.
///
/// | knob | path | value |
/// |---|---|---|
/// | `Channels` | `channels` | `combined 8`, or `rx 4 tx 4`; only what the card has more than none of |
/// | `Rings` | `rings` | `rx 1024 tx 1024` |
/// | `Feature` | `feature/hw-tc-offload` | `on`, `off` |
/// | `PrivateFlag` | `flag/fw-lldp-agent` | `on`, `off` |
/// | `Devlink` | `devlink/tc1_inline_fd` | `true`, `false`, a number |
/// | `Coalesce` | `coalesce`, `queue/3/coalesce` | `adaptive-rx off rx-usecs 50 adaptive-tx off tx-usecs 50`; only what the card has |
/// | `Indirection` | `indirection` | `equal 4`, `start 2 equal 1`, else `table 0 1 2 3 …`: `equal` where it says the same |
/// | `Context` | `rss-context/4-7` | `equal 4`: spreads over the queues that name it |
/// | `Ntuple` | `ntuple/1023` | `flow-type tcp4 dst-ip 10.0.0.1 dst-port 6379 action 4` (or `context 4-7`) |
/// | `Root` | `qdisc/root` | `mq`, `noqueue`, `mqprio num_tc 2 map 0 1 queues 2@0 4@2 hw 1 mode channel shaper bw_rlimit min_rate 0bit 1Gbit max_rate 0bit 2Gbit`, `htb default 10`, … |
/// | `Clsact` | `qdisc/clsact` | `clsact` |
/// | `Class` | `class/e7:10` | `parent e7: htb rate 1Gbit ceil 1Gbit` |
/// | `Qdisc` | `qdisc/e7:10` (the parent) | `fq`, `tbf rate 1Gbit burst 128Kb latency 50ms`, … |
/// | `Filter` | `filter/ingress/49001` | `protocol ip flower ip_proto tcp dst_port 6379 skip_sw hw_tc 1`, `protocol ip flower … action skbedit priority 1`, `protocol all bpf queue 2 priority e7:10 tcp src_port 6379` |
/// | `IrqAffinity` | `queue/3/irq` | cpus |
/// | `RpsCpus` | `rx/3/rps_cpus` | cpus, empty for off |
/// | `RpsFlowCount` | `rx/3/rps_flow_cnt` | a number |
/// | `XpsCpus` | `tx/3/xps_cpus` | cpus |
/// | `XpsRxqs` | `tx/3/xps_rxqs` | queues |
/// | `Threaded` | `threaded` | `0`, `1` |
/// | `DeferHardIrqs` | `napi/defer-hard-irqs` | a number of empty polls |
/// | `GroFlushTimeout` | `napi/gro-flush-timeout` | nanoseconds |
/// | `Napi` | `queue/3/napi/defer-hard-irqs` | a number (counts, or ns for the two time-outs) |
/// | `NapiThread` | `queue/3/napi-thread` | `cpus 2 other`, `cpus 2 fifo 50` |
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NicKnob {
    /// How many queues (`ethtool -L`).
    Channels,
    /// How many descriptors (`ethtool -G`).
    Rings,
    /// A feature (`ethtool -K`).
    Feature(String),
    /// A private flag (`ethtool --set-priv-flags`).
    PrivateFlag(String),
    /// A parameter of the card's devlink device, at run time.
    Devlink(String),
    /// Interrupt moderation (`ethtool -C`, `-Q`), of one queue or of the card.
    Coalesce(Option<u32>),
    /// The table by which the default context spreads packets (`ethtool -X`).
    Indirection,
    /// A context of its own, named by the queues that it spreads over.
    Context(Cpus),
    /// A rule at a location (`ethtool -N … loc`).
    Ntuple(u32),
    /// The root queueing discipline.
    Root,
    /// The place where filters at the edges hang. Removing it is refused as busy while any does: the kernel would drop them.
    Clsact,
    /// A class, by its id.
    Class(String),
    /// A queueing discipline below a class, by its parent.
    Qdisc(String),
    /// A filter at an edge, by its preference.
    Filter(Direction, u32),
    /// Cpus of a queue's interrupt.
    IrqAffinity(u32),
    /// Cpus that take over a receive queue's packets.
    RpsCpus(u32),
    /// Flows that a receive queue remembers for RFS.
    RpsFlowCount(u32),
    /// Cpus that send by a transmit queue.
    XpsCpus(u32),
    /// Receive queues whose connections send by a transmit queue.
    XpsRxqs(u32),
    /// Whether kernel threads poll all queues.
    Threaded,
    /// Polls without a packet after which a queue's interrupts come again, of all queues: where the kernel has no [`NicKnob::Napi`].
    DeferHardIrqs,
    /// How long the next poll is waited for meanwhile, of all queues.
    GroFlushTimeout,
    /// A per-NAPI setting of a queue: `defer-hard-irqs`, `gro-flush-timeout`, `irq-suspend-timeout`, `threaded`.
    Napi(u32, String),
    /// Cpus and policy of the kernel thread that polls a queue.
    NapiThread(u32),
}

impl Knob {
    /// A knob of a card.
    #[must_use]
    pub fn nic(nic: &str, knob: NicKnob) -> Knob {
        Knob::Nic { nic: nic.to_owned(), knob }
    }

    /// A sysctl.
    #[must_use]
    pub fn sysctl(name: &str) -> Knob {
        Knob::Sysctl { name: name.to_owned() }
    }
}

impl NicKnob {
    /// The queue that it is about.
    pub(crate) fn queue(&self) -> Option<u32> {
        match self {
            NicKnob::Coalesce(queue) => *queue,
            NicKnob::IrqAffinity(queue)
            | NicKnob::RpsCpus(queue)
            | NicKnob::RpsFlowCount(queue)
            | NicKnob::XpsCpus(queue)
            | NicKnob::XpsRxqs(queue)
            | NicKnob::Napi(queue, _)
            | NicKnob::NapiThread(queue) => Some(*queue),
            _ => None,
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knob::Sysctl { name } => write!(f, "sysctl/{name}"),
            Knob::Service { name } => write!(f, "service/{name}"),
            Knob::Cgroup { group, file } => write!(f, "cgroup/{group}/{file}"),
            Knob::Cpu { cpu, what } => write!(f, "cpu/{cpu}/{what}"),
            Knob::Thread { pid, start, tid, what } => write!(f, "process/{pid}@{start}/{tid}/{what}"),
            Knob::Rule { family, pref } => write!(f, "rule/{family}/{pref}"),
            Knob::Route { family, table, destination } => write!(f, "route/{family}/{table}/{destination}"),
            Knob::Nic { nic, knob } => write!(f, "nic/{nic}/{knob}"),
        }
    }
}

impl fmt::Display for NicKnob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NicKnob::Channels => f.write_str("channels"),
            NicKnob::Rings => f.write_str("rings"),
            NicKnob::Feature(name) => write!(f, "feature/{name}"),
            NicKnob::PrivateFlag(name) => write!(f, "flag/{name}"),
            NicKnob::Devlink(name) => write!(f, "devlink/{name}"),
            NicKnob::Coalesce(None) => f.write_str("coalesce"),
            NicKnob::Coalesce(Some(queue)) => write!(f, "queue/{queue}/coalesce"),
            NicKnob::Indirection => f.write_str("indirection"),
            NicKnob::Context(queues) => write!(f, "rss-context/{queues}"),
            NicKnob::Ntuple(location) => write!(f, "ntuple/{location}"),
            NicKnob::Root => f.write_str("qdisc/root"),
            NicKnob::Clsact => f.write_str("qdisc/clsact"),
            NicKnob::Class(id) => write!(f, "class/{id}"),
            NicKnob::Qdisc(parent) => write!(f, "qdisc/{parent}"),
            NicKnob::Filter(direction, pref) => write!(f, "filter/{direction}/{pref}"),
            NicKnob::IrqAffinity(queue) => write!(f, "queue/{queue}/irq"),
            NicKnob::RpsCpus(queue) => write!(f, "rx/{queue}/rps_cpus"),
            NicKnob::RpsFlowCount(queue) => write!(f, "rx/{queue}/rps_flow_cnt"),
            NicKnob::XpsCpus(queue) => write!(f, "tx/{queue}/xps_cpus"),
            NicKnob::XpsRxqs(queue) => write!(f, "tx/{queue}/xps_rxqs"),
            NicKnob::Threaded => f.write_str("threaded"),
            NicKnob::DeferHardIrqs => f.write_str("napi/defer-hard-irqs"),
            NicKnob::GroFlushTimeout => f.write_str("napi/gro-flush-timeout"),
            NicKnob::Napi(queue, name) => write!(f, "queue/{queue}/napi/{name}"),
            NicKnob::NapiThread(queue) => write!(f, "queue/{queue}/napi-thread"),
        }
    }
}

impl FromStr for NicKnob {
    type Err = ();

    fn from_str(text: &str) -> Result<NicKnob, ()> {
        let queue = |text: &str| text.parse::<u32>().map_err(|_| ());
        let parts: Vec<&str> = text.split('/').collect();
        Ok(match parts.as_slice() {
            ["channels"] => NicKnob::Channels,
            ["rings"] => NicKnob::Rings,
            ["feature", name] => NicKnob::Feature((*name).to_owned()),
            ["flag", name] => NicKnob::PrivateFlag((*name).to_owned()),
            ["devlink", name] => NicKnob::Devlink((*name).to_owned()),
            ["coalesce"] => NicKnob::Coalesce(None),
            ["queue", n, "coalesce"] => NicKnob::Coalesce(Some(queue(n)?)),
            ["indirection"] => NicKnob::Indirection,
            ["rss-context", queues] => NicKnob::Context(queues.parse().map_err(|_| ())?),
            ["ntuple", location] => NicKnob::Ntuple(queue(location)?),
            ["qdisc", "root"] => NicKnob::Root,
            ["qdisc", "clsact"] => NicKnob::Clsact,
            ["qdisc", parent] => NicKnob::Qdisc((*parent).to_owned()),
            ["class", id] => NicKnob::Class((*id).to_owned()),
            ["filter", direction, pref] => NicKnob::Filter(direction.parse()?, queue(pref)?),
            ["queue", n, "irq"] => NicKnob::IrqAffinity(queue(n)?),
            ["rx", n, "rps_cpus"] => NicKnob::RpsCpus(queue(n)?),
            ["rx", n, "rps_flow_cnt"] => NicKnob::RpsFlowCount(queue(n)?),
            ["tx", n, "xps_cpus"] => NicKnob::XpsCpus(queue(n)?),
            ["tx", n, "xps_rxqs"] => NicKnob::XpsRxqs(queue(n)?),
            ["threaded"] => NicKnob::Threaded,
            ["napi", "defer-hard-irqs"] => NicKnob::DeferHardIrqs,
            ["napi", "gro-flush-timeout"] => NicKnob::GroFlushTimeout,
            ["queue", n, "napi", name] => NicKnob::Napi(queue(n)?, (*name).to_owned()),
            ["queue", n, "napi-thread"] => NicKnob::NapiThread(queue(n)?),
            _ => return Err(()),
        })
    }
}

impl FromStr for Knob {
    type Err = String;

    fn from_str(text: &str) -> Result<Knob, String> {
        parse(text).ok_or_else(|| format!("'{text}' names no knob that this version knows"))
    }
}

fn parse(text: &str) -> Option<Knob> {
    let (kind, rest) = text.split_once('/')?;
    Some(match kind {
        "sysctl" => Knob::sysctl(rest),
        "service" => Knob::Service { name: rest.to_owned() },
        "cgroup" => {
            let (group, file) = rest.rsplit_once('/')?;
            Knob::Cgroup { group: group.to_owned(), file: file.to_owned() }
        }
        "cpu" => {
            let (cpu, what) = rest.split_once('/')?;
            Knob::Cpu { cpu: cpu.parse().ok()?, what: what.parse().ok()? }
        }
        "process" => {
            let mut parts = rest.splitn(3, '/');
            let (pid, start) = parts.next()?.split_once('@')?;
            let (tid, what) = (parts.next()?, parts.next()?);
            let (pid, start, tid) = (pid.parse().ok()?, start.parse().ok()?, tid.parse().ok()?);
            Knob::Thread { pid, start, tid, what: what.parse().ok()? }
        }
        "rule" => {
            let (family, pref) = rest.split_once('/')?;
            Knob::Rule { family: family.parse().ok()?, pref: pref.parse().ok()? }
        }
        "route" => {
            let mut parts = rest.splitn(3, '/');
            let (family, table) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Knob::Route { family, table, destination: parts.next()?.to_owned() }
        }
        "nic" => {
            let (nic, knob) = rest.split_once('/')?;
            Knob::nic(nic, knob.parse().ok()?)
        }
        _ => return None,
    })
}

impl TryFrom<String> for Knob {
    type Error = String;

    fn try_from(text: String) -> Result<Knob, String> {
        text.parse()
    }
}

impl From<Knob> for String {
    fn from(knob: Knob) -> String {
        knob.to_string()
    }
}

/// The words of a small enumeration, both ways.
macro_rules! words {
    ($type:ty, $($value:path => $word:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($value => $word),+ })
            }
        }

        impl FromStr for $type {
            type Err = ();

            fn from_str(text: &str) -> Result<$type, ()> {
                match text { $($word => Ok($value),)+ _ => Err(()) }
            }
        }
    };
}

words!(CpuKnob, CpuKnob::ResumeLatency => "resume-latency-us");
words!(ThreadKnob, ThreadKnob::Affinity => "affinity", ThreadKnob::Nice => "nice", ThreadKnob::Scheduler => "scheduler");
words!(Family, Family::Inet => "inet", Family::Inet6 => "inet6");
words!(Direction, Direction::Ingress => "ingress", Direction::Egress => "egress");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_one_knob_both_ways() {
        let paths = "sysctl/net.core.busy_poll service/irqbalance cgroup/system.slice/redis.service/cpuset.cpus \
            cpu/3/resume-latency-us process/812@5512/813/affinity process/1@0/1/nice process/1@0/1/scheduler rule/inet/49001 rule/inet6/49001 \
            route/inet/49001/default route/inet6/49001/2001:db8::/32 nic/ens1/channels nic/ens1/rings \
            nic/ens1/feature/hw-tc-offload nic/ens1/flag/fw-lldp-agent nic/ens1/devlink/tc1_inline_fd nic/ens1/coalesce \
            nic/ens1/queue/3/coalesce nic/ens1/indirection nic/ens1/rss-context/4-7 nic/ens1/ntuple/1023 nic/ens1/qdisc/root \
            nic/ens1/qdisc/clsact nic/ens1/class/e7:10 nic/ens1/qdisc/e7:10 nic/ens1/filter/ingress/49001 \
            nic/ens1/filter/egress/49001 nic/ens1/queue/3/irq nic/ens1/rx/3/rps_cpus nic/ens1/rx/3/rps_flow_cnt \
            nic/ens1/tx/3/xps_cpus nic/ens1/tx/3/xps_rxqs nic/ens1/threaded nic/ens1/queue/3/napi/defer-hard-irqs \
            nic/ens1/queue/3/napi-thread nic/eth0.5/threaded nic/ens1/napi/defer-hard-irqs nic/ens1/napi/gro-flush-timeout";
        for path in paths.split_ascii_whitespace() {
            assert_eq!(path.parse::<Knob>().expect(path).to_string(), path);
        }
    }

    #[test]
    fn what_names_no_knob_is_said() {
        for path in [
            "",
            "nic",
            "nic/ens1",
            "nic/ens1/",
            "nic/ens1/queue/x/irq",
            "process/1/1/affinity",
            "rule/inet7/1",
            "cpu/3",
            "cpu/x/resume-latency-us",
            "cpu/3/resume-latency",
            "x/y",
        ] {
            let problem = path.parse::<Knob>().unwrap_err();
            assert!(problem.contains(&format!("'{path}'")), "{problem}");
        }
    }

    #[test]
    fn a_setting_has_single_blanks_and_words() {
        let setting = Setting::new("  rx  1024\ttx 512\n");
        assert_eq!(setting.as_str(), "rx 1024 tx 512");
        assert_eq!(
            (setting.after("tx"), setting.after("512"), setting.after("x")),
            (Some("512"), None, None)
        );
    }
}
