//! Lanes through the machine: what it is like (facts), what a wish needs (plan), doing it (apply), undoing it (revert), and
//! whether traffic really uses them (status).
//!
//! One idea holds this together: the machine is a set of *knobs*. A [`Knob`] names one thing that the kernel lets be set, by
//! an identity that outlives reloads; a [`Setting`] is its value as canonical text. Facts are knobs read and explained; a plan
//! is knobs with what they have and what is wanted; a journal is knobs with what they had; to revert is to write that back
//! where the knob still has what was written. Only a [`Kernel`] reads and writes them, and there are two: the machine's own
//! (`kernel::live`) and a made-up one, which fails, forgets and changes under one's hands as the real one does
//! (`kernel::fake`).
//!
//! ```text
//!   lanes.toml --> spec --\                                    /--> journal (what was)
//!                          >-- plan (pure): steps have -> want --> apply --> Kernel
//!   machine ----> facts --/                                    \--> revert <- journal
//! ```
//!
//! The crate knows nothing of databases and depends on no other of ours. It starts no thread and prints nothing.

pub mod apply;
mod bpf;
pub mod change;
pub mod check;
pub mod cpus;
pub mod facts;
pub mod guard;
pub mod journal;
pub mod kernel;
pub mod knob;
pub mod managers;
pub mod plan;
pub mod queues;
pub mod rate;
pub mod revert;
mod screen;
pub mod shell;
pub mod spec;
pub mod status;
pub mod watch;
pub mod witness;

pub use cpus::Cpus;
pub use facts::Facts;
pub use kernel::{Kernel, Refusal};
pub use knob::{Knob, Setting};
pub use plan::{Placed, Plan, Risk, Step};
pub use rate::Rate;
pub use spec::Spec;
