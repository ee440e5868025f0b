//! From a wish and facts to ordered steps. Pure: the same two give the same plan, also of a machine that is elsewhere.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::cpus::Cpus;
use crate::facts::{Facts, Listener, Process};
use crate::knob::{Knob, Setting};
pub use crate::spec::Problem;
use crate::spec::{BackendWish, Mode, Protocol, Spec};

mod backend;
mod card;
mod cpuset;
mod draft;
mod flows;
mod fold;
mod idle;
mod machine;
mod place;
mod process;
mod queues;
mod rss_ntuple;
mod soft;
mod tc_channel;
mod text;
mod virtual_nic;

pub use card::DEFAULT_QUEUES;
pub(crate) use cpuset::{CPUS, MEMS, PARTITION};
pub use draft::MARK_FIRST;
pub use place::{CORES_FOR_RESERVED, LANE_CORES_PER_INTERRUPT_CORE};
pub use process::is_match;
pub use queues::RFS_FLOWS_COUNT;
pub(crate) use tc_channel::LLDP_FLAGS;

/// Plans a wish for a machine.
///
/// # Errors
/// Every reason why it can't be had, each a sentence that names the key and the limit that it meets.
pub fn plan(spec: &Spec, facts: &Facts) -> Result<Plan, Vec<Problem>> {
    spec.check()?;
    let mut draft = draft::Draft::new(facts);
    let cards = card::resolve(&mut draft, spec);
    let seats = place::seat(&mut draft, spec, &cards);
    let mut lanes: Vec<Placed> =
        spec.lanes.iter().zip(&seats.lanes).map(|(lane, seat)| Placed::by_itself(lane, seat)).collect();
    for card in &cards {
        let division = match card.backend {
            backend::Backend::Soft => soft::divide(card, spec),
            backend::Backend::Process => queues::Division::default(),
            _ => queues::Division::of(card, spec),
        };
        card.steps(&mut draft, spec);
        match card.backend {
            backend::Backend::Soft => soft::check_counts(&mut draft, card, spec, &division),
            backend::Backend::Process => card.check_change(&mut draft, spec),
            _ => card.check_counts(&mut draft, spec),
        }
        match card.backend {
            backend::Backend::TcChannel(_) => tc_channel::steps(&mut draft, card, spec, &seats, &division),
            backend::Backend::RssNtuple => rss_ntuple::steps(&mut draft, card, spec, &seats, &division),
            backend::Backend::Virtual => virtual_nic::steps(&mut draft, card, spec, &seats, &division),
            backend::Backend::Soft => soft::steps(&mut draft, card, spec, &seats, &division),
            backend::Backend::Process => {}
        }
        for (class, (index, queues)) in (1..).zip(&division.lanes) {
            let classed = matches!(card.backend, backend::Backend::TcChannel(_));
            let placed = &mut lanes[*index];
            placed.nic = Some(card.nic.name.clone());
            placed.backend = (&card.backend).into();
            placed.class = classed.then_some(class);
            placed.queues = queues.iter().copied().collect();
        }
    }
    machine::steps(&mut draft, spec, &cards);
    idle::steps(&mut draft, spec, &seats);
    cpuset::steps(&mut draft, spec, &seats);
    process::steps(&mut draft, spec, &seats);
    draft.finish(lanes)
}

/// What will be done, in order; to revert is the same in reverse.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Where each lane comes to lie, in the order of the file.
    pub lanes: Vec<Placed>,
    /// Steps whose knobs don't have what is wanted, and those that do: `have == want` is a step with nothing to do.
    pub steps: Vec<Step>,
    /// What a reader should know: choices that were made for them and why, what this machine can't give.
    pub notes: Vec<String>,
}

/// A lane on this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// Its card.
    pub nic: Option<String>,
    /// What steers its packets; never `Auto`.
    pub backend: BackendWish,
    /// Its traffic class, where the backend has classes.
    pub class: Option<u32>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its local ports.
    pub ports: Vec<u16>,
    /// Its local addresses. Empty: any.
    pub addresses: Vec<IpAddr>,
    /// How connections are dealt to queues.
    pub mode: Mode,
    /// Its queues, as the card numbers them. Empty: no queue is its own.
    pub queues: Cpus,
    /// Its cores.
    pub cores: Cpus,
    /// Cores that its interrupts go to.
    pub irq_cores: Cpus,
}

impl Placed {
    /// A lane that has no card.
    fn by_itself(lane: &crate::spec::Lane, seat: &place::Seat) -> Placed {
        Placed {
            name: lane.name.clone(),
            nic: None,
            backend: BackendWish::Process,
            class: None,
            protocol: lane.protocol,
            ports: lane.ports.iter().flat_map(|ports| ports.0.iter().copied()).collect(),
            addresses: lane.addresses.iter().filter_map(|text| text.parse().ok()).collect(),
            mode: lane.mode,
            queues: Cpus::default(),
            cores: seat.cores.clone(),
            irq_cores: seat.irq_cores.clone(),
        }
    }
}

#[cfg(test)]
impl Placed {
    /// A lane of port 6379 on ens1, for tests.
    pub(crate) fn made_up(name: &str, mode: Mode, queues: &str, cores: &str) -> Placed {
        let cores: Cpus = cores.parse().unwrap();
        Placed {
            name: name.to_owned(),
            nic: Some("ens1".to_owned()),
            backend: BackendWish::TcChannel,
            class: Some(1),
            protocol: Protocol::Tcp,
            ports: vec![6379],
            addresses: vec![],
            mode,
            queues: queues.parse().unwrap(),
            irq_cores: cores.clone(),
            cores,
        }
    }
}

/// One knob.
///
/// A step has work where `have != want`. Applied means: the knob reads as `want`, and every filter of a card with `skip_sw` is
/// in hardware. A step that failed leaves the earlier ones to be undone in reverse order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Which.
    pub knob: Knob,
    /// What it has. `None`: nothing of the kind, the facts don't say, or what it belongs to comes with an earlier step (a queue
    /// that a step adds): what counts for a journal is what is read before the write.
    pub have: Option<Setting>,
    /// What it shall have; `None`: nothing of the kind.
    pub want: Option<Setting>,
    /// What for. A step of one lane begins with `lane NAME: `, see [`Step::lane`].
    pub why: String,
    /// What may happen besides.
    pub risks: Vec<Risk>,
    /// Other knobs that the kernel changes with this one (queue counts reset affinities): apply keeps what they had and writes
    /// it again, also when it reverts.
    pub disturbs: Vec<Knob>,
}

impl Plan {
    /// Whether a process is a lane's: one that the plan puts onto its cores, or that listens, in this network namespace, where the
    /// lane's packets come to and no other lane's.
    #[must_use]
    pub fn is_of_lane(&self, lane: &Placed, process: &Process) -> bool {
        let moves = |step: &Step| match step.knob {
            Knob::Thread { pid, .. } => pid == process.pid && step.lane() == Some(&lane.name),
            _ => false,
        };
        let is_at = |listener: &Listener| {
            let mut others = self.others_at(lane, listener.port);
            listener.is_for(lane) && !others.any(|other| listener.is_for(other))
        };
        (!process.elsewhere && process.listens.iter().any(is_at)) || self.steps.iter().any(moves)
    }

    /// Another one of those with one of this lane's addresses, too, or where one of the two names none: packets don't tell them apart.
    #[must_use]
    pub fn other_with(&self, lane: &Placed, port: u16) -> Option<&Placed> {
        let is_any = |it: &Placed| it.addresses.is_empty() || lane.addresses.is_empty();
        let meets = |it: &&Placed| is_any(it) || it.addresses.iter().any(|at| lane.addresses.contains(at));
        self.others_at(lane, port).find(meets)
    }

    fn others_at(&self, lane: &Placed, port: u16) -> impl Iterator<Item = &Placed> {
        let is_near = |it: &Placed| it.nic.is_none() || lane.nic.is_none() || it.nic == lane.nic;
        self.lanes.iter().filter(move |it| {
            it.name != lane.name && it.protocol == lane.protocol && it.ports.contains(&port) && is_near(it)
        })
    }
}

impl Step {
    /// The lane that it is for; `None`: a card's or the machine's.
    #[must_use]
    pub fn lane(&self) -> Option<&str> {
        self.why.strip_prefix("lane ")?.split_once(':').map(|(name, _)| name)
    }

    /// Whether there is something to do.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.have != self.want
    }
}

/// What may happen besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// The link goes down and comes up, a second or some.
    LinkFlap,
    /// The kernel forgets affinities and alike; the steps that follow set them again.
    ResetsOthers,
    /// It may cut the session by which this is done.
    CutsSession,
    /// It holds for the whole machine, not for lanes alone.
    WholeMachine,
    /// RDMA on the same card stops for some seconds.
    StopsRdma,
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Risk::LinkFlap => "the link goes down for a moment",
            Risk::ResetsOthers => "resets affinities, which later steps set again",
            Risk::CutsSession => "may cut the session you are in: use --confirm",
            Risk::WholeMachine => "holds for the whole machine",
            Risk::StopsRdma => "stops RDMA on this card for some seconds",
        })
    }
}
