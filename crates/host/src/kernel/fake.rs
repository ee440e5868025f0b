//! A made-up machine. It keeps settings as a map and couples them as kernels and drivers do (`rules.rs` says how), forgets, and
//! fails at the operation that a test names.
//!
//! ```
//! # use host::kernel::fake::{Fake, Fault};
//! # use host::{Facts, Kernel, Knob, Setting};
//! let mut facts = Facts::default();
//! facts.sysctls.insert("net.core.busy_poll".into(), "0".into());
//! let mut kernel = Fake::of(&facts);
//! kernel.plan_fault(Fault::WriteFails { nth: 0, takes_effect: true });
//! let knob = Knob::sysctl("net.core.busy_poll");
//! assert!(kernel.write(&knob, Some(&Setting::new("50"))).is_err());
//! assert_eq!(kernel.read(&knob), Ok(Some(Setting::new("50"))), "it failed when it was done");
//! ```

mod fuse;
mod of;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use crate::Cpus;
use crate::kernel::{Cause, Kernel, Refusal};
use crate::knob::{Knob, NicKnob, Setting};
pub use fuse::{Burn, Fuse};

/// The machine.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    boot: String,
    cpus: Cpus,
    settings: BTreeMap<Knob, Setting>,
    cards: BTreeMap<String, Card>,
    /// Number and start of those that live.
    processes: BTreeSet<(u32, u64)>,
    faults: Vec<Fault>,
    fuse: Fuse,
    reads_count: u64,
    writes_count: u64,
}

/// What is known of a card beside its settings.
#[derive(Clone, Debug)]
struct Card {
    /// A veth: its NAPI instances are made anew with every change of its link.
    is_veth: bool,
    /// The root qdisc that comes when another goes.
    root: Setting,
    /// Each queue's knobs, with what they have when the queue is made.
    queue_knobs: Vec<(NicKnob, Setting)>,
    /// The most queues.
    queues_count_max: u32,
    /// Locations for rules.
    rules_count_max: u32,
    has_contexts: bool,
    can_filter: bool,
    /// Features that are on because someone asked, though another's absence may keep them off.
    wanted: BTreeSet<String>,
}

/// Something that goes wrong. Counts begin at 0 when the machine is made or [`Fake::forgive`]n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write is refused, before or after it took effect.
    WriteFails {
        /// Which write.
        nth: u64,
        /// Whether the knob has the new value all the same.
        takes_effect: bool,
    },
    /// Someone else changes a knob just before an operation (a read or a write).
    Foreign {
        /// Which operation.
        nth: u64,
        /// Which knob.
        knob: Knob,
        /// What they set.
        to: Option<Setting>,
    },
    /// A card is unplugged just before an operation.
    Unplugged {
        /// Which operation.
        nth: u64,
        /// Its name.
        nic: String,
    },
    /// A process ends just before an operation.
    Ended {
        /// Which operation.
        nth: u64,
        /// Its number.
        pid: u32,
    },
}

impl Fake {
    /// Adds a fault.
    pub fn plan_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Forgets all faults and counts.
    pub fn forgive(&mut self) {
        self.faults.clear();
        (self.reads_count, self.writes_count) = (0, 0);
    }

    /// Whoever uses it dies with the fuse: from then on every operation is refused, until another is set.
    pub fn set_fuse(&mut self, fuse: &Fuse) {
        self.fuse = fuse.clone();
    }

    /// Reads so far.
    #[must_use]
    pub fn reads_count(&self) -> u64 {
        self.reads_count
    }

    /// Writes so far.
    #[must_use]
    pub fn writes_count(&self) -> u64 {
        self.writes_count
    }

    /// Everything that can be seen, to be compared: knobs and what they have, but those of queues, processes and cards that are
    /// not there.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<Knob, Setting> {
        self.settings
            .iter()
            .filter(|(knob, _)| self.exists(knob).is_ok())
            .map(|(k, s)| (k.clone(), s.clone()))
            .collect()
    }

    /// Someone else sets a knob. Not counted, never failing by a fault.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_by_other(&mut self, knob: &Knob, to: Option<&Setting>) -> Result<(), Refusal> {
        self.obey(knob, to)
    }

    /// The card's link goes down and comes up.
    pub fn flap(&mut self, nic: &str) {
        self.reset_by_link(nic);
    }

    /// A card is unplugged.
    pub fn unplug(&mut self, nic: &str) {
        self.cards.remove(nic);
        self.settings.retain(|knob, _| !matches!(knob, Knob::Nic { nic: other, .. } if other == nic));
    }

    /// A process ends.
    pub fn end(&mut self, pid: u32) {
        self.processes.retain(|(other, _)| *other != pid);
    }

    /// The machine starts anew, with these settings and another boot id.
    #[must_use]
    pub fn rebooted(&self, boot: &str) -> Fake {
        Fake { boot: boot.to_owned(), ..self.clone() }
    }

    /// One operation: its faults first, then the fuse. Returns whether it is the one in which the process dies, and with what chance.
    fn begin(&mut self) -> Result<Option<u64>, Refusal> {
        let nth = self.reads_count + self.writes_count;
        for fault in self.faults.clone() {
            match fault {
                // Others may be refused, too.
                Fault::Foreign { nth: at, knob, to } if at == nth => drop(self.obey(&knob, to.as_ref())),
                Fault::Unplugged { nth: at, nic } if at == nth => self.unplug(&nic),
                Fault::Ended { nth: at, pid } if at == nth => self.end(pid),
                _ => {}
            }
        }
        match self.fuse.burn() {
            Burn::Goes => Ok(None),
            Burn::Crashes { chance } => Ok(Some(chance)),
            Burn::Crashed => Err(crashed()),
        }
    }
}

fn crashed() -> Refusal {
    Refusal::new(Cause::Failed, "the process has crashed")
}

impl Kernel for Fake {
    fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        let crashes = self.begin()?;
        self.reads_count += 1;
        if crashes.is_some() {
            return Err(crashed());
        }
        self.exists(knob)?;
        match self.settings.get(knob) {
            Some(_) if self.is_asleep(knob) => Ok(None),
            Some(setting) => Ok(Some(setting.clone())),
            None => self.can_be_made(knob).map(|()| None),
        }
    }

    fn write(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal> {
        let crashes = self.begin()?;
        let nth = self.writes_count;
        self.writes_count += 1;
        let fails = self.faults.iter().find_map(|fault| match fault {
            Fault::WriteFails { nth: at, takes_effect } if *at == nth => Some(*takes_effect),
            _ => None,
        });
        let takes_effect = crashes.map_or(fails != Some(false), |chance| chance % 2 == 1);
        let obeyed = if takes_effect { self.obey(knob, setting) } else { Ok(()) };
        if crashes.is_some() {
            return Err(crashed());
        }
        if fails.is_some() {
            return Err(Refusal::new(Cause::Failed, format!("writing {knob} fails here, as asked")));
        }
        obeyed
    }

    fn boot_id(&mut self) -> Result<String, Refusal> {
        Ok(self.boot.clone())
    }
}

#[cfg(test)]
mod tests;
