//! Which lane serves which queue: asked of the machine, told to the lanes.
//!
//! A NAPI id lives as long as its card is up, and an interrupt moves without telling anybody, so what was learned grows old: it
//! is learned again when a link has changed, when a lane meets an id that the table lacks, and after a while in any case; never
//! more often than every [`PAUSE_NS`], and never while lanes have not all taken what was learned last.

use std::sync::Arc;

use super::{Control, Machine};
use crate::Now;
use crate::admin::Order;
use crate::pin::{AutoPin, QueueTable};

/// Between two questions to the machine at least: links come up in bursts of events.
const PAUSE_NS: u64 = 200_000_000;
/// After so long the machine is asked again without a reason: interrupts move without an event.
const AGE_NS_MAX: u64 = 10_000_000_000;

/// What was learned when, and what is to be learned.
#[derive(Default)]
pub(super) struct Learning {
    /// When the machine was asked last.
    asked_ns: u64,
    /// There is a reason to ask soon.
    is_due: bool,
    /// A lane waits for a table, be it the same.
    is_awaited: bool,
    /// On the orders that told the lanes last.
    ticket: u64,
    /// What the machine said last instead of an answer.
    failure: String,
}

impl Learning {
    /// Lanes begin with a table of this instant.
    pub(super) fn since(now: Now) -> Learning {
        Learning { asked_ns: now.mono_ns, ..Learning::default() }
    }

    /// When the machine is to be asked next.
    fn next_ns(&self) -> u64 {
        self.asked_ns + if self.is_due { PAUSE_NS } else { AGE_NS_MAX }
    }
}

impl Control {
    /// A lane has met a queue that is not in the table.
    pub(super) fn note_unknown_queue(&mut self) {
        self.learning.is_due = true;
        self.learning.is_awaited = true;
    }

    /// The instant of the monotonic clock at which a turn is due, be there mail or not. `None`: none is.
    pub fn next_ns(&self) -> Option<u64> {
        let (replication, files, migrations) =
            (self.replication.next_ns(), self.files.next_ns(), self.migrations.next_ns());
        self.learns_ns().into_iter().chain(replication).chain(files).chain(migrations).min()
    }

    /// When the machine is to be asked for its queues.
    fn learns_ns(&self) -> Option<u64> {
        let is_told = !self.gathers.contains_key(&self.learning.ticket);
        (self.settings.auto_pin == AutoPin::Adq && is_told).then(|| self.learning.next_ns())
    }

    /// Asks the machine for its queues if it is time to, and tells the lanes if that is news to them.
    pub(super) fn learn_queues(&mut self, now: Now, machine: &mut impl Machine) {
        if self.settings.auto_pin != AutoPin::Adq {
            return;
        }
        self.learning.is_due |= machine.links_changed();
        if self.learns_ns().is_none_or(|next_ns| now.mono_ns < next_ns) {
            return;
        }
        self.learning.asked_ns = now.mono_ns;
        self.learning.is_due = false;
        match machine.queues() {
            Ok(queues) => {
                self.learning.failure.clear();
                let table = QueueTable::deal(queues, &self.settings.lane_cpus);
                if std::mem::take(&mut self.learning.is_awaited) || table != *self.settings.queues {
                    self.settings.queues = Arc::new(table);
                    let order = Order::Settings(Arc::new(self.settings.clone()));
                    self.learning.ticket = self.give(0..self.lane_count, &order, None);
                }
            }
            // The lanes go on with what they know. One that waits is told at the next success.
            Err(why) if why != self.learning.failure => {
                machine.warn(&format!("auto-pin: {why}"));
                self.learning.failure = why;
            }
            Err(_) => {}
        }
    }
}
