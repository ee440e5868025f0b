//! A plan as people read it, within 80 columns.

use super::fold::{Run, merged, runs, words};
use super::{Placed, Plan, Step};
use crate::cpus::Cpus;
use crate::facts::Facts;
use crate::knob::{Knob, NicKnob, Setting};
use crate::screen::{wrap, wrap_command};
use crate::shell::shell;
use crate::spec::{BackendWish, Mode, Protocol};

/// Columns before what belongs to a step, and before the further lines of it.
const MARGIN: usize = 5;
const FURTHER: usize = 7;
const FURTHER_OF_COMMAND: usize = 9;

impl Plan {
    /// Lanes, notes and steps. The facts are those that it was planned from: they have the numbers that commands name. Unless it
    /// shall be `long`, of steps that differ in numbers alone the first is shown and the others are a line.
    #[must_use]
    pub fn text(&self, facts: &Facts, long: bool) -> String {
        let mut text = String::new();
        if let Some(made_from) = &facts.made_from {
            wrap(&mut text, "", 0, &format!("These facts were not read from a machine: {made_from}."));
            text.push('\n');
        }
        text.push_str("Lanes\n");
        for lane in &self.lanes {
            wrap(&mut text, "  ", 4, &lane.sentence());
        }
        if !self.notes.is_empty() {
            text.push_str("\nNotes\n");
            for note in &self.notes {
                wrap(&mut text, "  - ", 4, note);
            }
        }
        let work: Vec<&Step> = self.steps.iter().filter(|step| step.has_work()).collect();
        let done = self.steps.len() - work.len();
        match (work.len(), done) {
            (0, _) => text.push_str("\nNothing to do: everything is as wanted.\n"),
            (count, 0) => text.push_str(&format!("\nSteps: {count}, undone in reverse\n")),
            (count, done) => {
                text.push_str(&format!(
                    "\nSteps: {count}, undone in reverse ({done} more have what is wanted)\n"
                ));
            }
        }
        let mut left = work.as_slice();
        for run in if long { vec![Run { turns: work.len(), count: 1 }] } else { folded(&work) } {
            let number = 1 + work.len() - left.len();
            let (steps, rest) = left.split_at(run.turns * run.count);
            let (shown, alike) = steps.split_at(run.turns);
            for (number, step) in (number..).zip(shown) {
                step.write(&mut text, number, facts);
            }
            if !alike.is_empty() {
                write_alike(&mut text, number + run.turns, alike, run);
            }
            left = rest;
        }
        text
    }
}

/// Steps of several cards or lanes are not told together, though their names may differ in numbers alone.
fn folded(steps: &[&Step]) -> Vec<Run> {
    let text = |step: &&Step| {
        let nic = match &step.knob {
            Knob::Nic { nic, .. } => nic,
            _ => "",
        };
        let said = format!("{}: {} {}", step.change(), step.why, step.warnings().join(" "));
        format!("{nic} {} {}", step.lane().unwrap_or_default(), words(&said))
    };
    runs(&steps.iter().map(text).collect::<Vec<_>>())
}

/// What follows the first turn of a run.
fn write_alike(text: &mut String, number: usize, steps: &[&Step], run: Run) {
    text.push('\n');
    let said = format!("{} more of the kind, undone alike (--long shows them):", steps.len());
    wrap(text, &format!("{number:>3}-{}. ", number + steps.len() - 1), MARGIN, &said);
    for turn in 0..run.turns {
        let changes: Vec<String> =
            steps[turn..].iter().step_by(run.turns).map(|step| step.change()).collect();
        wrap(text, &" ".repeat(MARGIN), FURTHER, &merged(&changes));
    }
}

impl Placed {
    /// `redis: tcp 6379-6382 on ens1 by tc-channel, class 1, …`.
    fn sentence(&self) -> String {
        let ports = crate::spec::Ports(self.ports.clone());
        let protocol = if self.protocol == Protocol::Tcp { "tcp" } else { "udp" };
        let mut parts = vec![match (&self.nic, self.ports.is_empty()) {
            (Some(nic), false) => format!("{protocol} {ports} on {nic} by {}", backend_word(self.backend)),
            (Some(nic), true) => format!("on {nic} by {}", backend_word(self.backend)),
            (None, _) => "no card".to_owned(),
        }];
        parts.extend(self.class.map(|class| format!("class {class}")));
        if self.nic.is_some() {
            parts.push(match (self.queues.is_empty(), self.mode) {
                (true, _) => "no queues of its own".to_owned(),
                (false, Mode::OneQueuePerPort) => {
                    format!("{}, one for each port", several("queue", &self.queues))
                }
                (false, Mode::Spread) => several("queue", &self.queues),
            });
        }
        parts.push(several("core", &self.cores));
        if self.irq_cores != self.cores {
            parts.push(format!("interrupts on {}", several("core", &self.irq_cores)));
        }
        format!("{}: {}", self.name, parts.join(", "))
    }
}

pub(super) fn several(what: &str, cpus: &Cpus) -> String {
    format!("{what}{} {cpus}", if cpus.count() == 1 { "" } else { "s" })
}

fn backend_word(backend: BackendWish) -> &'static str {
    match backend {
        BackendWish::Auto => "auto",
        BackendWish::TcChannel => "tc-channel",
        BackendWish::RssNtuple => "rss-ntuple",
        BackendWish::Virtual => "virtual",
        BackendWish::Soft => "soft",
        BackendWish::Process => "process",
    }
}

impl Step {
    fn write(&self, text: &mut String, number: usize, facts: &Facts) {
        text.push('\n');
        wrap(text, &format!("{number:>3}. "), MARGIN, &format!("{}: {}", self.knob, self.why));
        let margin = " ".repeat(MARGIN);
        wrap(text, &margin, FURTHER, &self.values());
        let (want, have) = (self.want.as_ref(), self.have.as_ref());
        wrap_command(text, &format!("{margin}$ "), FURTHER_OF_COMMAND, &shell(facts, &self.knob, want, have));
        for warning in self.warnings() {
            wrap(text, &format!("{margin}! "), FURTHER, &warning);
        }
        wrap_command(
            text,
            &format!("{margin}undo: "),
            FURTHER_OF_COMMAND,
            &shell(facts, &self.knob, have, want),
        );
    }

    fn values(&self) -> String {
        format!("{} -> {}", value(self.have.as_ref()), value(self.want.as_ref()))
    }

    fn change(&self) -> String {
        format!("{}: {}", self.knob, self.values())
    }

    /// What may happen besides.
    fn warnings(&self) -> Vec<String> {
        self.risks.iter().map(ToString::to_string).chain(self.disturbed()).collect()
    }

    /// What the kernel changes with it, counted by kind.
    fn disturbed(&self) -> Option<String> {
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for knob in &self.disturbs {
            let Knob::Nic { knob, .. } = knob else { continue };
            let kind = match knob {
                NicKnob::IrqAffinity(_) => "interrupt affinities",
                NicKnob::RpsCpus(_) | NicKnob::RpsFlowCount(_) => "RPS",
                NicKnob::XpsCpus(_) | NicKnob::XpsRxqs(_) => "XPS",
                NicKnob::Indirection => "the spreading table",
                NicKnob::Coalesce(_) => "moderation",
                NicKnob::Napi(..) => "NAPI settings",
                NicKnob::NapiThread(_) => "poll threads",
                _ => "others",
            };
            match kinds.iter_mut().find(|(it, _)| *it == kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((kind, 1)),
            }
        }
        let kinds: Vec<&str> = kinds.into_iter().map(|(kind, _)| kind).collect();
        (!kinds.is_empty())
            .then(|| format!("the driver may reset {}: they are written again", kinds.join(", ")))
    }
}

fn value(setting: Option<&Setting>) -> String {
    match setting.map(Setting::as_str) {
        None => "nothing".to_owned(),
        Some("") => "none".to_owned(),
        Some(text) => text.to_owned(),
    }
}
