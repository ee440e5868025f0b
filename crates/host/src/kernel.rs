//! Who reads and writes knobs.

#[cfg(test)]
pub(crate) mod careless;
pub mod fake;
pub mod live;

use std::error::Error;
use std::fmt;

use crate::knob::{Knob, Setting};

/// The only way to the machine. Two keep it: the machine's own kernel and a made-up one.
pub trait Kernel {
    /// The value now, in the knob's canonical text. `None`: there is none, such as a filter that is not set.
    ///
    /// # Errors
    /// [`Cause::Gone`] where what the knob belongs to is not there (a card, a queue, a process), and the kernel's own refusals.
    fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal>;

    /// Sets it; `None` removes it. What is written and read again is the same text, or the kernel has not done what was asked.
    ///
    /// # Errors
    /// The kernel's refusal, in words that name what was asked and what to do.
    fn write(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal>;

    /// Names this run of the kernel (/proc/sys/kernel/random/boot_id): what was written in another is gone.
    fn boot_id(&mut self) -> Result<String, Refusal>;
}

/// Why a knob could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of reason, for those who decide by it.
    pub cause: Cause,
    /// For people: what was asked, what the kernel said, what to do.
    pub reason: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The card, queue, process or group is not there (any more).
    Gone,
    /// A capability is missing; the reason names it.
    Forbidden,
    /// The driver or kernel can't do that at all.
    Unsupported,
    /// It could, but not now: something else uses it.
    Busy,
    /// The value is not one that it takes.
    Invalid,
    /// Anything else.
    Failed,
}

impl Refusal {
    /// Of this kind, with these words.
    #[must_use]
    pub fn new(cause: Cause, reason: impl Into<String>) -> Refusal {
        Refusal { cause, reason: reason.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for Refusal {}
