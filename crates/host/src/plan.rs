//! From a wish and facts to ordered steps. Pure: the same two give the same plan, also of a machine that is elsewhere.

use std::fmt;

use serde::Serialize;

use crate::cpus::Cpus;
use crate::knob::{Knob, Setting};
pub use crate::spec::Problem;
use crate::spec::{BackendWish, Mode, Protocol};

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
    /// How connections are dealt to queues.
    pub mode: Mode,
    /// Its queues, as the card numbers them. Empty: no queue is its own.
    pub queues: Cpus,
    /// Its cores.
    pub cores: Cpus,
    /// Cores that its interrupts go to.
    pub irq_cores: Cpus,
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
    /// What for: the lane, or what of it needs this.
    pub why: String,
    /// What may happen besides.
    pub risks: Vec<Risk>,
    /// Other knobs that the kernel changes with this one (queue counts reset affinities): apply keeps what they had and writes
    /// it again, also when it reverts.
    pub disturbs: Vec<Knob>,
}

impl Step {
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
