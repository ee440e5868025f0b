//! A plan that is being written: steps by stage, and what is to be told.

use std::collections::BTreeSet;

use super::{Plan, Problem, Risk, Step};
use crate::cpus::Cpus;
use crate::facts::{Facts, Nic};
use crate::knob::{Direction, Knob, NicKnob, Setting};

/// The first preference, table and rule of ours: what is below belongs to others.
pub const MARK_FIRST: u32 = 49_001;
/// The last preference that a filter can have.
const PREF_LAST: u32 = 65_535;

/// The order of things. Each stage stands on those before it: queue counts reset affinities and tables, classes need the queues,
/// filters need the classes, pins need the threads. To revert is the same backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// What else sets the same knobs is stopped.
    Daemons,
    /// A table that names queues which are going away.
    Shrink,
    /// Firmware agents, queue counts, rings.
    Card,
    /// Features and private flags.
    Features,
    /// Which queues get what no rule names.
    Spread,
    /// Root, classes, the place of filters.
    Classes,
    /// Parameters of classes.
    ClassParameters,
    /// Contexts, filters, rules.
    Rules,
    /// Interrupt moderation.
    Moderation,
    /// Where interrupts go.
    Interrupts,
    /// Threads that poll.
    Pollers,
    /// Packets between cores: RPS, RFS, XPS.
    Handover,
    /// What holds for the whole machine.
    Sysctls,
    /// How deep cpus sleep.
    Idle,
    /// Threads of processes.
    Processes,
    /// Rules and routes.
    Routes,
}

/// A plan that is being written.
pub(super) struct Draft<'a> {
    pub(super) facts: &'a Facts,
    steps: Vec<(Stage, Step)>,
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<Problem>,
    marks: BTreeSet<String>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(facts: &'a Facts) -> Draft<'a> {
        Draft { facts, steps: Vec::new(), notes: Vec::new(), problems: Vec::new(), marks: BTreeSet::new() }
    }

    /// A sentence for the reader, once.
    pub(super) fn note(&mut self, sentence: String) {
        if !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    /// A reason why there is no plan.
    pub(super) fn refuse(&mut self, sentence: String) {
        self.problems.push(Problem(sentence));
    }

    /// Wants a knob to have a value. Two wishes for one knob must agree.
    pub(super) fn want(&mut self, stage: Stage, knob: Knob, want: impl AsRef<str>, why: &str) -> &mut Step {
        let want = Some(Setting::new(want));
        if let Some(index) = self.steps.iter().position(|(_, step)| step.knob == knob) {
            if self.steps[index].1.want != want {
                let (first, second) = (text(self.steps[index].1.want.as_ref()), text(want.as_ref()));
                let sentence =
                    format!("{knob}: {} wants `{first}`, {why} wants `{second}`", self.steps[index].1.why);
                self.refuse(sentence);
            }
            return &mut self.steps[index].1;
        }
        let have = self.facts.have(&knob).ok().flatten();
        let step = Step { knob, have, want, why: why.to_owned(), risks: Vec::new(), disturbs: Vec::new() };
        self.steps.push((stage, step));
        let last = self.steps.len() - 1;
        &mut self.steps[last].1
    }

    /// The same of a card.
    pub(super) fn want_nic(
        &mut self,
        stage: Stage,
        nic: &Nic,
        knob: NicKnob,
        want: impl AsRef<str>,
        why: &str,
    ) -> &mut Step {
        self.want(stage, Knob::nic(&nic.name, knob), want, why)
    }

    /// What this plan wants of a knob so far.
    pub(super) fn wanted(&self, knob: &Knob) -> Option<String> {
        let step = self.steps.iter().map(|(_, step)| step).find(|step| step.knob == *knob)?;
        step.want.as_ref().map(|it| it.as_str().to_owned())
    }

    /// Wants a sysctl, which holds for more than lanes.
    pub(super) fn want_sysctl(&mut self, name: &str, want: &str, why: &str, risks: &[Risk]) {
        self.want(Stage::Sysctls, Knob::sysctl(name), want, why).add_risks(risks);
    }

    /// The first preference whose filter is this one or that nobody has: a plan that was applied finds its own filters again.
    pub(super) fn filter_pref(&mut self, nic: &Nic, direction: Direction, want: &str) -> Option<u32> {
        let taken = |pref: u32| nic.filters.iter().find(|it| it.direction == direction && it.pref == pref);
        let prefs = MARK_FIRST..=PREF_LAST;
        let same = nic
            .filters
            .iter()
            .find(|it| it.direction == direction && it.text == want && prefs.contains(&it.pref));
        let same = same.map(|it| it.pref).filter(|pref| self.mark(nic, &NicKnob::Filter(direction, *pref)));
        same.or_else(|| {
            prefs
                .clone()
                .find(|pref| taken(*pref).is_none() && self.mark(nic, &NicKnob::Filter(direction, *pref)))
        })
    }

    /// The location whose rule is this one, else the highest that is free.
    pub(super) fn rule_location(&mut self, nic: &Nic, want: &str) -> Option<u32> {
        let rules = nic.ntuple.as_ref()?;
        let same = rules.rules.iter().find(|(_, text)| *text == want).map(|(location, _)| *location);
        let same = same.filter(|location| self.mark(nic, &NicKnob::Ntuple(*location)));
        same.or_else(|| {
            let mut free = (0..rules.capacity).rev().filter(|location| !rules.rules.contains_key(location));
            free.find(|location| self.mark(nic, &NicKnob::Ntuple(*location)))
        })
    }

    /// Takes a place for this plan; whether it was free.
    fn mark(&mut self, nic: &Nic, knob: &NicKnob) -> bool {
        self.marks.insert(format!("{}/{knob}", nic.name))
    }

    /// Whether queues of this card have a knob of this kind: what one of them has, one that is added will have.
    pub(super) fn has_per_queue(&self, nic: &Nic, knob: fn(u32) -> NicKnob) -> bool {
        nic.queues
            .first()
            .is_some_and(|queue| self.facts.have(&Knob::nic(&nic.name, knob(queue.index))).is_ok())
    }

    /// In the order of stages, each in the order of its wishes.
    pub(super) fn finish(mut self, lanes: Vec<super::Placed>) -> Result<Plan, Vec<Problem>> {
        if !self.problems.is_empty() {
            self.problems.dedup();
            return Err(self.problems);
        }
        self.steps.sort_by_key(|(stage, _)| *stage);
        Ok(Plan { lanes, steps: self.steps.into_iter().map(|(_, step)| step).collect(), notes: self.notes })
    }
}

impl Step {
    pub(super) fn add_risks(&mut self, risks: &[Risk]) -> &mut Step {
        for risk in risks {
            if !self.risks.contains(risk) {
                self.risks.push(*risk);
            }
        }
        self
    }

    pub(super) fn add_disturbs(&mut self, knobs: impl IntoIterator<Item = Knob>) -> &mut Step {
        self.disturbs.extend(knobs);
        self
    }
}

fn text(setting: Option<&Setting>) -> &str {
    setting.map_or("nothing", Setting::as_str)
}

/// The n-th of a set, round and round.
pub(super) fn nth(cpus: &Cpus, n: usize) -> Option<u32> {
    let count = cpus.count();
    (count > 0).then(|| cpus.iter().nth(n % count)).flatten()
}
