//! The wish: `lanes.toml`, as written. What it means on a machine is the plan's to say.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cpus::Cpus;

mod check;
mod examples;
mod read;
#[cfg(test)]
mod tests;

pub use check::{
    BUSY_POLL_US_MAX, LANES_COUNT_MAX, MODERATION_USECS_MAX, NAME_SIZE_MAX, NICE_RANGE, QUEUES_COUNT_MAX,
    RESUME_LATENCY_US_MAX,
};
pub(crate) use check::{rate, sysctl_text};
pub use examples::{EXAMPLES, example};
pub(crate) use read::meant;

/// The file. Every key has a default but the lanes' names and ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    /// What concerns the machine as a whole.
    #[serde(default)]
    pub host: Host,
    /// Cards, in the order of the file. A lane without a card of its own is about processes alone.
    #[serde(default, rename = "nic")]
    pub nics: Vec<NicWish>,
    /// Lanes, in the order of the file; the n-th of a card is its traffic class n where the card has classes.
    #[serde(default, rename = "lane")]
    pub lanes: Vec<Lane>,
    /// Everything that is no lane's.
    #[serde(default)]
    pub default: DefaultLane,
}

/// A problem of the wish, in words that say what to change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Host {
    /// What to do about irqbalance, which undoes affinities.
    pub irqbalance: Irqbalance,
    /// Cpus that no lane gets: the system's. Default: what the lanes leave.
    pub cores: Option<Cpus>,
    /// Interrupt moderation of cards with lanes, where neither the lane nor the card says its own.
    pub moderation: Option<Moderation>,
    /// Sysctls to set besides, by name: `"net.core.somaxconn" = 4096`.
    pub sysctls: std::collections::BTreeMap<String, toml::Value>,
}

/// irqbalance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Irqbalance {
    /// Stop it while lanes are applied, start it again on revert.
    #[default]
    Stop,
    /// Leave it, and be told that it will undo affinities.
    Leave,
}

/// A card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NicWish {
    /// Its name, hardware address or place on the bus (`ens1`, `52:54:00:12:34:56`, `0000:17:00.0`). Must match one card.
    pub name: String,
    /// How lanes are made on it.
    #[serde(default)]
    pub backend: BackendWish,
    /// Queues it shall have in all. Default: as many as lanes and default lane need, else as it is.
    pub channels: Option<u32>,
    /// Descriptors per queue.
    pub rx_ring: Option<u32>,
    /// Descriptors per queue.
    pub tx_ring: Option<u32>,
    /// Features to set besides: `ntuple = true`.
    #[serde(default)]
    pub features: std::collections::BTreeMap<String, bool>,
    /// Answer ARP for this card's addresses on this card alone (arp_announce 2, arp_ignore 1, arp_notify 1).
    #[serde(default)]
    pub arp_filter: bool,
    /// Replies leave by this card: a table and rules of its own for its addresses.
    #[serde(default)]
    pub source_routing: bool,
    /// The gateway of that table. Default: the one of the machine's routes over this card.
    #[serde(default, deserialize_with = "read::gateway")]
    pub gateway: Option<String>,
    /// Whose interrupt moderation: of queues that no lane has.
    #[serde(default)]
    pub moderation: Option<Moderation>,
}

/// What does the steering. Each wants what it needs of the driver; `auto` takes the first that the card can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendWish {
    /// The best the card has.
    #[default]
    Auto,
    /// Sets of queues in hardware (ADQ): mqprio channel mode, flower `hw_tc`.
    TcChannel,
    /// Rules and spreading tables: `ethtool -N`, `-X`.
    RssNtuple,
    /// Spreading table and affinity alone: virtio, ENA.
    Virtual,
    /// The kernel's own means on any card: RPS, RFS, filters, threaded NAPI, HTB.
    Soft,
    /// No card: processes and cpus.
    Process,
}

/// Interrupt moderation; what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Moderation {
    /// Let the driver choose.
    pub adaptive_rx: Option<bool>,
    /// Microseconds.
    pub rx_usecs: Option<u32>,
    /// Let the driver choose.
    pub adaptive_tx: Option<bool>,
    /// Microseconds.
    pub tx_usecs: Option<u32>,
}

impl Moderation {
    /// Its words of `ethtool -C` and their values, of those that are given.
    pub fn words(self) -> impl Iterator<Item = (&'static str, String)> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        [
            ("adaptive-rx", self.adaptive_rx.map(switch)),
            ("rx-usecs", self.rx_usecs.map(|it| it.to_string())),
            ("adaptive-tx", self.adaptive_tx.map(switch)),
            ("tx-usecs", self.tx_usecs.map(|it| it.to_string())),
        ]
        .into_iter()
        .filter_map(|(word, value)| value.map(|value| (word, value)))
    }

    fn is_too_long(self) -> bool {
        self.rx_usecs.max(self.tx_usecs).is_some_and(|usecs| usecs > MODERATION_USECS_MAX)
    }
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lane {
    /// Letters, digits, `-`, `_`, at most 32.
    pub name: String,
    /// Its card, as named there. Default: the one card of the file.
    pub nic: Option<String>,
    /// `tcp` or `udp`.
    #[serde(default)]
    pub protocol: Protocol,
    /// Local ports, `6379`, `"6379-6382,7000"`.
    pub ports: Option<Ports>,
    /// Remote ports, for a lane of a client.
    pub remote_ports: Option<Ports>,
    /// Local addresses, v4 and v6, read from any spelling. Default: any of the card.
    #[serde(default, deserialize_with = "read::addresses")]
    pub addresses: Vec<String>,
    /// Queues: a number. Default: with `one-queue-per-port` as many as ports, else as many as cores.
    pub queues: Option<u32>,
    /// Cpus of the lane. Default: as many as queues, near the card, in its order of cores.
    pub cores: Option<Cpus>,
    /// How connections are dealt to queues.
    #[serde(default)]
    pub mode: Mode,
    /// Sending rate that is kept for it, `"1Gbit"`.
    pub rate_min: Option<String>,
    /// Sending rate that it may have.
    pub rate_max: Option<String>,
    /// Microseconds that a reader polls before it waits for an interrupt (`net.core.busy_poll` where nothing finer is there).
    pub busy_poll_us: Option<u32>,
    /// Microseconds that its cores may take at most to wake up when they are idle. `0`: none at all, they poll; absent: as it is.
    pub resume_latency_us: Option<u32>,
    /// Kernel threads poll its queues, pinned to its cores.
    #[serde(default)]
    pub threaded: bool,
    /// Interrupt moderation of its queues.
    #[serde(default)]
    pub moderation: Option<Moderation>,
    /// Who puts its replies into its class.
    #[serde(default)]
    pub priority: Priority,
    /// Where its interrupts go: `"on-lane"`, or `"reserved 0-1"`. Default by cores per socket: the plan prints why.
    pub irq: Option<String>,
    /// Its processes.
    #[serde(default)]
    pub process: Match,
    /// Nice value of its processes, -20 to 19.
    pub nice: Option<i32>,
}

/// Where a lane's interrupts shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IrqWish {
    /// To its own cores.
    OnLane,
    /// To these, which serve nothing else.
    Reserved(Cpus),
}

impl Lane {
    /// What `irq` says, where it is given.
    ///
    /// # Errors
    /// A sentence with the two forms there are.
    pub fn irq_wish(&self) -> Result<Option<IrqWish>, String> {
        let Some(text) = &self.irq else { return Ok(None) };
        let bad =
            || format!("`irq` is \"on-lane\" or \"reserved\" and cores, \"reserved 0-1\", not \"{text}\"");
        match text.split_once(' ') {
            None if text == "on-lane" => Ok(Some(IrqWish::OnLane)),
            Some(("reserved", cores)) => match cores.parse::<Cpus>() {
                Ok(cores) if !cores.is_empty() => Ok(Some(IrqWish::Reserved(cores))),
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }
}

/// `tcp` or `udp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// How connections are dealt to a lane's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The n-th port has the n-th queue: single-threaded servers side by side (ADQ's "shared").
    OneQueuePerPort,
    /// Connections spread over the lane's queues: one server of several threads (ADQ's "exclusive").
    #[default]
    Spread,
}

/// Who puts replies into the lane's traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// A filter at the card's edge (`skbedit priority`).
    #[default]
    Skbedit,
    /// The application itself, by `SO_PRIORITY`.
    App,
}

/// Which processes are a lane's: all that match everything that is given. Nothing given: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Match {
    /// A number.
    pub pid: Option<u32>,
    /// The name of the program, /proc/PID/comm.
    pub name: Option<String>,
    /// A systemd unit, `redis-server.service`.
    pub unit: Option<String>,
    /// A control group's path, and those below.
    pub cgroup: Option<String>,
}

impl Match {
    /// Whether it says nothing, and so matches no process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Match::default()
    }
}

/// What is no lane's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct DefaultLane {
    /// Queues of each card. Default: 2, or 1 where the lanes leave no second.
    pub queues: Option<u32>,
    /// Cpus of its interrupts. Default: the host's.
    pub cores: Option<Cpus>,
    /// Sending rate that it may have: the bulk class.
    pub rate_max: Option<String>,
    /// Processes to be kept off the lanes' cores.
    pub process: Vec<Match>,
}

/// Ports: a number, or a list with ranges in quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "String")]
pub struct Ports(pub Vec<u16>);

impl TryFrom<toml::Value> for Ports {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Ports, String> {
        let text = match value {
            toml::Value::Integer(port) => port.to_string(),
            toml::Value::String(text) => text,
            other => {
                return Err(format!("a {} is no port: write 6379 or \"6379-6382,7000\"", other.type_str()));
            }
        };
        let mut ports = Vec::new();
        for part in text.split(',') {
            let bad = || {
                format!("'{part}' in '{text}' is neither a port from 1 to 65535 nor a range like 6379-6382")
            };
            let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            let (first, last): (u16, u16) =
                (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
            if first == 0 || last < first {
                return Err(bad());
            }
            for port in first..=last {
                if ports.contains(&port) {
                    return Err(format!("port {port} is twice in '{text}'"));
                }
                ports.push(port);
            }
        }
        Ok(Ports(ports))
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> String {
        ports.to_string()
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> = self
            .0
            .chunk_by(|a, b| u32::from(*b) == u32::from(*a) + 1)
            .map(|run| match run {
                [one] => one.to_string(),
                _ => format!("{}-{}", run[0], run[run.len() - 1]),
            })
            .collect();
        f.write_str(&text.join(","))
    }
}
