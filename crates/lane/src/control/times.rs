//! Times of the commands that the control thread carries out: from the turn in which the client's lane took one up to the
//! answer. Lanes measure all others (`timing`), and tell of those that took long.

use wire::command::{COMMANDS, Flag, Id, Scope};

use super::{Asker, Control};
use crate::Now;
use crate::admin::{Census, Question};
use crate::histogram::Histogram;
use crate::request::Args;
use crate::timing::{ARGS_MAX, Slow, Times, kept};

/// By the lane whose client asked, in counts of that lane's meter.
pub(super) struct OwnTimes {
    lanes: Vec<Times>,
}

impl OwnTimes {
    pub(super) fn new(lane_count: u16) -> OwnTimes {
        OwnTimes { lanes: (0..lane_count).map(|_| Box::new([const { None }; Id::COUNT])).collect() }
    }

    /// The times of a command over several lanes: from here if the control thread carries it out, else from them.
    pub(super) fn over(&self, lanes: &[(u16, &Census)], command: usize) -> Histogram {
        let is_own = COMMANDS[command].scope == Scope::Control;
        let mut sum = Histogram::default();
        for (lane, census) in lanes {
            let times = if is_own { &self.lanes[usize::from(*lane)] } else { &census.times };
            if let Some(times) = &times[command] {
                sum.merge(times);
            }
        }
        sum
    }
}

impl Control {
    /// A question is answered.
    pub(super) fn took(&mut self, asker: Asker, question: &Question, now: Now) {
        if question.command.scope == Scope::Script {
            // A text that a script brings along: a part of what its lane measures.
            return;
        }
        let ns = now.mono_ns.saturating_sub(question.asked_ns);
        let ticks = u128::from(ns) * u128::from(self.settings.meter_per_us.max(1)) / 1000;
        let times = &mut self.times.lanes[usize::from(asker.lane)][question.command.id as usize];
        times.get_or_insert_default().add(u64::try_from(ticks).unwrap_or(u64::MAX));
        let us = ns / 1000;
        if self.settings.slow_us.is_some_and(|slow_us| slow_us <= us) {
            self.note_slow(Slow {
                command: question.command,
                unix_s: now.unix_ms / 1000,
                us,
                args: kept(question.command, Args::Owned(&question.request), ARGS_MAX),
                peer: self.settings.address(question.from.peer),
                name: question.from.name.clone(),
            });
        }
    }

    /// A command took long: for SLOWLOG, for LATENCY, or for both.
    pub(super) fn note_slow(&mut self, slow: Slow) {
        let (threshold_ms, ms) = (self.latency_threshold_ms(), slow.us / 1000);
        if threshold_ms > 0 && threshold_ms <= ms {
            let event = if slow.command.flags.has(Flag::Fast) { "fast-command" } else { "command" };
            self.delays.note(event, slow.unix_s, ms);
        }
        let log_us: Option<u64> = self.config.value("slowlog-log-slower-than").parse().ok();
        let is_logged = !slow.command.flags.has(Flag::SkipSlowlog);
        if is_logged && log_us.is_some_and(|log_us| log_us <= slow.us) {
            let count_max = self.config.value("slowlog-max-len").parse().unwrap_or(0);
            self.slow.note(slow, count_max);
        }
    }

    /// `latency-monitor-threshold`, milliseconds; 0 is off.
    pub(super) fn latency_threshold_ms(&self) -> u64 {
        self.config.value("latency-monitor-threshold").parse().unwrap_or(0)
    }
}
