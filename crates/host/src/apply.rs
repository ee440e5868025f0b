//! Makes lanes: the steps of a plan, one knob after the other, each on disk before it is written.
//!
//! What is in force already is the starting point. A knob that has what is wanted is not written, so that a wish applied again
//! goes on where it stopped, and a changed one writes the difference; what a former wish set and this one does not name goes
//! back first. However often a knob is written, the journal keeps what it had before the first time.
//!
//! A step that fails undoes what went before it, back to where this apply began: to the bare machine, or to the former wish.

use std::collections::BTreeMap;
use std::fmt;

use crate::change::{Change, Event, Hands, Trouble, shown};
use crate::journal::{Held, Journal, Line};
use crate::kernel::{Cause, Kernel};
use crate::knob::{Knob, Setting};
use crate::plan::{Plan, Step};
use crate::revert::{self, Back, Reverted};

/// Times that all knobs are looked at when the last is written, and what a later step or someone else undid is written again.
pub const VERIFY_PASSES_MAX: usize = 3;

/// How an apply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every knob has what is wanted.
    InForce {
        /// How many had to be written.
        written_count: usize,
        /// Those of processes that ended meanwhile.
        gone: Vec<Knob>,
        /// What became of those that a former wish set and this one does not name. Some can be put back only when no lanes
        /// are left, and stay in the journal until then, as do those that someone else changed.
        dropped: Reverted,
    },
    /// A step failed.
    Failed {
        /// Its knob.
        knob: Knob,
        /// Why.
        reason: String,
        /// What became of what went before.
        undone: Reverted,
    },
}

impl fmt::Display for Outcome {
    /// Lines without an end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::InForce { written_count, gone, dropped } => {
                match written_count {
                    0 => f.write_str("everything is as wished already")?,
                    1 => f.write_str("in force: 1 setting was written")?,
                    count => write!(f, "in force: {count} settings were written")?,
                }
                for knob in gone {
                    write!(f, "\n{knob} is gone: there is nothing to set")?;
                }
                for conflict in &dropped.conflicts {
                    write!(f, "\n{conflict}, and this wish does not name it: left so")?;
                }
                for (knob, reason) in &dropped.refused {
                    write!(f, "\n{knob} keeps the former wish's setting until `lanes revert`: {reason}")?;
                }
                Ok(())
            }
            Outcome::Failed { knob, reason, undone } => write!(f, "{knob}: {reason}\n{undone}"),
        }
    }
}

/// Applies a plan. `journal` is a new one, or that of the lanes in force, told of the wish by [`Journal::set_wish`]. Give it to
/// [`State::finish`](crate::journal::State::finish) afterwards.
///
/// A step's knob may have changed since the plan was made: that is told, and what is wanted is written all the same. A card that
/// is gone, and what a kernel or driver does not support, are failures; a process that ended is not.
pub fn apply(
    plan: &Plan,
    kernel: &mut dyn Kernel,
    journal: &mut Journal,
    observer: &mut dyn FnMut(&Event),
) -> Outcome {
    let was_bare = journal.is_over();
    let mut session = Session::new(Hands { kernel, journal, observer, is_undoing: false });
    session.look_around(plan);
    match session.run(plan) {
        Ok(dropped) => Outcome::InForce { written_count: session.written_count, gone: session.gone, dropped },
        Err(Failure { knob, reason }) => {
            session.hands.tell(Event::Undoing { knob: knob.clone(), reason: reason.clone() });
            Outcome::Failed { knob, reason, undone: session.undo(was_bare) }
        }
    }
}

/// Sets again those of `steps` whose knobs have lost what is wanted, as `guard` finds them. Nothing is undone where one fails:
/// those are returned, with the reason.
pub fn again(
    steps: &[Step],
    kernel: &mut dyn Kernel,
    journal: &mut Journal,
    observer: &mut dyn FnMut(&Event),
) -> Vec<(Knob, String)> {
    let was_complete = journal.is_complete();
    let mut session = Session::new(Hands { kernel, journal, observer, is_undoing: false });
    let mut failures = Vec::new();
    for step in steps.iter().filter(|step| !matches!(step.knob, Knob::Thread { .. })) {
        // One that the journal does not hold was as wanted when lanes were made, and that is what it had before them. A thread may
        // have been started since.
        session.at_start.insert(step.knob.clone(), step.want.clone());
    }
    for (index, step) in steps.iter().enumerate() {
        if let Err(Failure { knob, reason }) = session.step(step, &steps[index + 1..]) {
            session.hands.tell(Event::Refused { knob: knob.clone(), reason: reason.clone() });
            failures.push((knob, reason));
        }
    }
    if was_complete && !session.hands.journal.is_complete() {
        session.hands.is_undoing = true;
        // With that, a journal that can't be written is told and hinders nothing.
        let _ = session.hands.note(Line::Complete { steps: steps.len() });
    }
    failures
}

/// One apply.
struct Session<'a> {
    hands: Hands<'a>,
    /// What the journal held when this apply began: the knobs that former wishes had written, and those reset along with them.
    former: BTreeMap<Knob, Held>,
    /// What the knobs of the plan and of former wishes had when this apply began: a step may reset others than it is known to.
    at_start: BTreeMap<Knob, Option<Setting>>,
    /// What each touched knob had before this apply, in the order of touching.
    before: Vec<Before>,
    written_count: usize,
    gone: Vec<Knob>,
}

struct Before {
    knob: Knob,
    had: Option<Setting>,
    /// Knobs that are reset with it.
    disturbs: Vec<Knob>,
}

struct Failure {
    knob: Knob,
    reason: String,
}

fn failure(knob: &Knob) -> impl FnOnce(Trouble) -> Failure + '_ {
    |trouble| Failure { knob: knob.clone(), reason: trouble.to_string() }
}

impl<'a> Session<'a> {
    fn new(hands: Hands<'a>) -> Session<'a> {
        let former = hands.journal.all_held().clone();
        let at_start = BTreeMap::new();
        Session { hands, former, at_start, before: Vec::new(), written_count: 0, gone: Vec::new() }
    }

    /// What can't be read now is read when its turn comes.
    fn look_around(&mut self, plan: &Plan) {
        let knobs = self.former.keys().chain(plan.steps.iter().map(|step| &step.knob));
        for knob in knobs {
            if let Ok(found) = self.hands.read(knob) {
                self.at_start.insert(knob.clone(), found);
            }
        }
    }

    /// Every step, then all of them once more.
    fn run(&mut self, plan: &Plan) -> Result<Reverted, Failure> {
        let dropped = self.drop_unnamed(plan);
        for (index, step) in plan.steps.iter().enumerate() {
            self.step(step, &plan.steps[index + 1..])?;
        }
        self.verify(plan)?;
        if !self.hands.journal.is_complete() {
            let last = plan.steps.last().map_or_else(|| Knob::sysctl("none"), |step| step.knob.clone());
            self.hands.note(Line::Complete { steps: plan.steps.len() }).map_err(failure(&last))?;
        }
        Ok(dropped)
    }

    /// Puts back what a former wish set and this one does not name.
    fn drop_unnamed(&mut self, plan: &Plan) -> Reverted {
        let mut targets = Vec::new();
        for entry in self.hands.journal.entries().into_iter().rev() {
            if plan.steps.iter().any(|step| step.knob == entry.knob) {
                continue;
            }
            let held = &self.former[&entry.knob];
            let disturbs: Vec<Knob> = held.disturbs.iter().cloned().collect();
            if let Ok(Some(found)) = self.hands.there(&entry.knob) {
                self.remember(&entry.knob, found, &disturbs);
            }
            let had = entry.had;
            let (knob, to) = (entry.knob, had.clone());
            targets.push(Back { knob, had, to, disturbs: Vec::new(), is_forgotten: true });
        }
        // What is refused now may be possible when lanes are gone altogether: a class below a root that is ours now.
        revert::put_back(&mut self.hands, targets, false)
    }

    /// One step; `later` are those that follow.
    fn step(&mut self, step: &Step, later: &[Step]) -> Result<(), Failure> {
        let knob = &step.knob;
        let found = match self.hands.read(knob) {
            Ok(found) => found,
            Err(refusal) if refusal.cause == Cause::Gone && matches!(knob, Knob::Thread { .. }) => {
                return self.skip(knob);
            }
            Err(refusal) => return Err(failure(knob)(Trouble::Kernel(refusal))),
        };
        let comes_with_another = step.have.is_none() && !self.at_start.contains_key(knob);
        if found != step.have && !self.is_touched(knob) && !comes_with_another {
            let (knob, planned, found) = (knob.clone(), step.have.clone(), found.clone());
            self.hands.tell(Event::Changed { knob, planned, found });
        }
        let is_pending = self.hands.journal.held(knob).is_some_and(|held| held.is_pending);
        if found == step.want && !is_pending {
            self.hands.tell(Event::Same { knob: knob.clone() });
            return Ok(());
        }
        // A former wish may have known queues that this one can't see.
        let mut disturbs =
            self.hands.journal.held(knob).map(|held| held.disturbs.clone()).unwrap_or_default();
        disturbs.extend(step.disturbs.iter().cloned());
        let disturbs: Vec<Knob> = disturbs.into_iter().collect();
        self.remember(knob, found.clone(), &disturbs);
        let is_set_later = |other: &Knob| later.iter().any(|step| step.knob == *other);
        let change = Change {
            knob,
            had: self.at_start.get(knob).unwrap_or(&found).clone(),
            from: found,
            to: step.want.clone(),
            disturbs,
            is_set_later: &is_set_later,
        };
        let beside = match self.hands.change(change) {
            Ok(beside) => beside,
            Err(Trouble::Kernel(refusal))
                if refusal.cause == Cause::Gone && matches!(knob, Knob::Thread { .. }) =>
            {
                return self.skip(knob);
            }
            Err(trouble) => return Err(failure(knob)(trouble)),
        };
        self.written_count += 1;
        for (other, had) in beside.deferred {
            self.remember(&other, had, &[]);
        }
        match beside.unmended.into_iter().next() {
            Some((knob, reason)) => Err(Failure { knob, reason }),
            None => Ok(()),
        }
    }

    /// A process that ended needs nothing.
    fn skip(&mut self, knob: &Knob) -> Result<(), Failure> {
        self.hands.tell(Event::Gone { knob: knob.clone() });
        self.gone.push(knob.clone());
        if self.hands.journal.held(knob).is_some() {
            self.hands.note(Line::Undone { knob: knob.clone() }).map_err(failure(knob))?;
        }
        Ok(())
    }

    /// Looks whether all knobs have what is wanted, now that the last is written: a step may undo an earlier one unannounced.
    fn verify(&mut self, plan: &Plan) -> Result<(), Failure> {
        for pass in 0.. {
            let mut lost = Vec::new();
            for (index, step) in plan.steps.iter().enumerate() {
                if plan.steps[index + 1..].iter().any(|later| later.knob == step.knob) {
                    continue;
                }
                match self.hands.read(&step.knob) {
                    Ok(found) if found == step.want => {}
                    Ok(found) => lost.push((index, found)),
                    Err(_) if self.gone.contains(&step.knob) => {}
                    Err(refusal)
                        if refusal.cause == Cause::Gone && matches!(step.knob, Knob::Thread { .. }) =>
                    {
                        self.skip(&step.knob)?;
                    }
                    Err(refusal) => return Err(failure(&step.knob)(Trouble::Kernel(refusal))),
                }
            }
            let Some((index, found)) = lost.first() else { return Ok(()) };
            if pass == VERIFY_PASSES_MAX {
                let step = &plan.steps[*index];
                let (want, found) = (shown(&step.want), shown(found));
                let reason = format!(
                    "does not keep {want} and has {found} again: another step or a daemon sets it; stop that, and try again"
                );
                return Err(Failure { knob: step.knob.clone(), reason });
            }
            for (index, found) in lost {
                let step = &plan.steps[index];
                self.hands.tell(Event::Lost { knob: step.knob.clone(), found });
                self.step(step, &plan.steps[index + 1..])?;
            }
        }
        unreachable!("the last pass returns")
    }

    /// Puts back what this apply has touched. The journal holds what it held before, as it did.
    fn undo(&mut self, was_bare: bool) -> Reverted {
        self.hands.is_undoing = true;
        let touched = std::mem::take(&mut self.before);
        let is_touched = |knob: &Knob| touched.iter().any(|before| before.knob == *knob);
        let mut beside = Vec::new();
        for (knob, had) in self.at_start.iter().filter(|(knob, _)| !is_touched(knob)) {
            beside.push(Before { knob: knob.clone(), had: had.clone(), disturbs: Vec::new() });
        }
        let former = &self.former;
        let back = |Before { knob, had, disturbs }| Back {
            had: former.get(&knob).map_or(&had, |held| &held.had).clone(),
            is_forgotten: !former.contains_key(&knob),
            knob,
            to: had,
            disturbs,
        };
        let targets = touched.into_iter().rev().chain(beside).map(back).collect();
        let mut undone = revert::put_back(&mut self.hands, targets, false);
        let stays = |knob: &Knob| former.contains_key(knob);
        revert::put_back_bystanders(&mut self.hands, &mut undone, was_bare, &stays);
        for (knob, held) in former {
            let is_left = undone.refused.iter().any(|(other, _)| other == knob)
                || undone.conflicts.iter().any(|conflict| conflict.knob == *knob);
            if !is_left && self.hands.journal.held(knob) != Some(held) {
                // Undoing tells of a journal that can't be written, and goes on.
                let _ = self.hands.note(Line::Held { knob: knob.clone(), held: held.clone() });
            }
        }
        undone
    }

    /// Keeps what a knob had before this apply.
    fn remember(&mut self, knob: &Knob, had: Option<Setting>, disturbs: &[Knob]) {
        if self.is_touched(knob) {
            return;
        }
        let had = self.at_start.get(knob).cloned().unwrap_or(had);
        self.before.push(Before { knob: knob.clone(), had, disturbs: disturbs.to_vec() });
    }

    fn is_touched(&self, knob: &Knob) -> bool {
        self.before.iter().any(|before| before.knob == *knob)
    }
}

#[cfg(test)]
mod tests;
