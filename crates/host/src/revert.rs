//! Puts knobs back. What has what was written gets what it had; what has that already is left; what has anything else was
//! changed by someone else, who keeps it, unless forced.
//!
//! Knobs go back in the reverse order of their writing. One that the kernel refuses, or whose queue is not there (yet), is
//! tried again after the others, as long as that gets on. At last the knobs that only other writes reset are set again, until
//! a whole pass finds them all as they were.
//!
//! A filter, rule, class or table of ours is a knob that had nothing: it is removed by its own name, and nothing else is.

use std::fmt;

use crate::change::{Change, Conflict, Event, Hands, Trouble, shown};
use crate::journal::{Held, Journal, Line};
use crate::kernel::{Cause, Kernel};
use crate::knob::{Knob, Setting};

/// Passes over the knobs that other writes reset; one that is not as it was then could not be put back.
pub const PASSES_MAX: usize = 4;

/// What became of the knobs that were held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reverted {
    /// They have what they had.
    pub restored: Vec<Knob>,
    /// What they belong to is gone.
    pub gone: Vec<Knob>,
    /// Someone else changed them; they stay in the journal.
    pub conflicts: Vec<Conflict>,
    /// The kernel refuses, in these words; they stay in the journal.
    pub refused: Vec<(Knob, String)>,
}

impl Reverted {
    /// Whether nothing is left to be put back.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.conflicts.is_empty() && self.refused.is_empty()
    }
}

impl fmt::Display for Reverted {
    /// Lines without an end: how many went back, those that did not, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.restored.len() {
            0 => f.write_str("nothing had to be put back")?,
            1 => f.write_str("1 setting is as it was")?,
            count => write!(f, "{count} settings are as they were")?,
        }
        for knob in &self.gone {
            write!(f, "\n{knob} is gone, and its setting with it")?;
        }
        for conflict in &self.conflicts {
            write!(f, "\n{conflict}")?;
        }
        for (knob, reason) in &self.refused {
            write!(f, "\n{knob} could not be put back: {reason}")?;
        }
        if !self.conflicts.is_empty() {
            f.write_str("\nwhat someone else set was left; `lanes revert --force` puts back what was there before the lanes")?;
        }
        if !self.refused.is_empty() {
            f.write_str("\nthe journal keeps what could not be put back: remove the hindrance and run `lanes revert` again")?;
        }
        Ok(())
    }
}

/// Puts back everything that `journal` holds. With `force`, also what someone else changed meanwhile.
///
/// The journal is over afterwards if the outcome is clean; else it holds what is left. Give it to
/// [`State::finish`](crate::journal::State::finish) in either case.
pub fn revert(
    kernel: &mut dyn Kernel,
    journal: &mut Journal,
    force: bool,
    observer: &mut dyn FnMut(&Event),
) -> Reverted {
    let mut entries = journal.entries();
    entries.reverse();
    let back = |knob: Knob, to: Option<Setting>| Back {
        knob,
        had: to.clone(),
        to,
        disturbs: Vec::new(),
        is_forgotten: true,
    };
    let targets = entries.into_iter().map(|entry| back(entry.knob, entry.had)).collect();
    let mut hands = Hands { kernel, journal, observer, is_undoing: true };
    let mut reverted = put_back(&mut hands, targets, force);
    put_back_bystanders(&mut hands, &mut reverted, true, &|_| false);
    // A queue that someone else has set may have gone with the lanes.
    for conflict in std::mem::take(&mut reverted.conflicts) {
        match hands.there(&conflict.knob) {
            Ok(None) => {
                forget(&mut hands, &conflict.knob);
                reverted.gone.push(conflict.knob);
            }
            _ => reverted.conflicts.push(conflict),
        }
    }
    // One that held nothing has undone nothing, and its wish is in force until this is said.
    if !reverted.is_clean() || hands.journal.is_complete() {
        let count = reverted.conflicts.len() + reverted.refused.len();
        // Undoing tells of a journal that can't be written, and goes on.
        let _ = hands.note(Line::Left { count });
    }
    reverted
}

/// A knob, and what it shall have again.
pub(crate) struct Back {
    pub(crate) knob: Knob,
    /// What it had before the first write, should the journal not hold it any more.
    pub(crate) had: Option<Setting>,
    pub(crate) to: Option<Setting>,
    /// Knobs that are reset with it, beside those that the journal names.
    pub(crate) disturbs: Vec<Knob>,
    /// Whether it is no longer held then.
    pub(crate) is_forgotten: bool,
}

/// Why a knob is tried again later.
enum PutOff {
    Gone,
    Refused(String),
}

/// Puts knobs back in this order, those that are refused again after the others.
pub(crate) fn put_back(hands: &mut Hands<'_>, targets: Vec<Back>, force: bool) -> Reverted {
    let mut reverted = Reverted::default();
    let mut todo: Vec<(Back, PutOff)> = targets.into_iter().map(|target| (target, PutOff::Gone)).collect();
    loop {
        let count = todo.len();
        let mut later = Vec::new();
        let mut round = std::mem::take(&mut todo).into_iter();
        while let Some((target, _)) = round.next() {
            let waiting: Vec<&Knob> =
                round.as_slice().iter().chain(&later).map(|(target, _): &(Back, _)| &target.knob).collect();
            match put_one_back(hands, &target, force, &|knob| waiting.contains(&knob)) {
                Ok(None) => reverted.restored.push(target.knob),
                Ok(Some(conflict)) => {
                    hands.tell(Event::Conflict(conflict.clone()));
                    reverted.conflicts.push(conflict);
                }
                Err(why) => later.push((target, why)),
            }
        }
        todo = later;
        if todo.is_empty() || todo.len() == count {
            break;
        }
    }
    for (target, why) in todo {
        let knob = target.knob;
        match why {
            PutOff::Gone => {
                hands.tell(Event::Gone { knob: knob.clone() });
                forget(hands, &knob);
                reverted.gone.push(knob);
            }
            PutOff::Refused(reason) => {
                hands.tell(Event::Refused { knob: knob.clone(), reason: reason.clone() });
                reverted.refused.push((knob, reason));
            }
        }
    }
    reverted
}

/// Puts one knob back, or finds that someone else has changed it.
fn put_one_back(
    hands: &mut Hands<'_>,
    target: &Back,
    force: bool,
    is_set_later: &dyn Fn(&Knob) -> bool,
) -> Result<Option<Conflict>, PutOff> {
    let knob = &target.knob;
    let found = match hands.read(knob) {
        Ok(found) => found,
        Err(refusal) if refusal.cause == Cause::Gone => return Err(PutOff::Gone),
        Err(refusal) => return Err(PutOff::Refused(refusal.reason)),
    };
    let held = hands.journal.held(knob).cloned();
    if let Some(held) = held.as_ref().filter(|_| !force) {
        if let Some(theirs) = held.foreign() {
            return give_back(hands, knob, held, found, theirs).map(Some);
        }
        if found != target.to && !held.is_ours(&found) {
            return Ok(Some(conflict(knob, held, found)));
        }
    }
    if found != target.to || held.as_ref().is_some_and(|held| held.is_pending) {
        let mut disturbs = held.map(|held| held.disturbs).unwrap_or_default();
        disturbs.extend(target.disturbs.iter().cloned());
        let disturbs = disturbs.into_iter().collect();
        let (had, to) = (target.had.clone(), target.to.clone());
        let change = Change { knob, had, from: found, to, disturbs, is_set_later };
        // What could not be mended is held, and tried again at the end.
        hands.change(change).map_err(|trouble| match trouble {
            Trouble::Kernel(refusal) if refusal.cause == Cause::Gone => PutOff::Gone,
            trouble => PutOff::Refused(trouble.to_string()),
        })?;
    }
    if target.is_forgotten {
        forget(hands, knob);
    }
    Ok(None)
}

/// Sets again what someone else had set before an interrupted write of ours reset it. It is theirs then.
fn give_back(
    hands: &mut Hands<'_>,
    knob: &Knob,
    held: &Held,
    found: Option<Setting>,
    theirs: &Option<Setting>,
) -> Result<Conflict, PutOff> {
    if found != *theirs {
        let written = hands.kernel.write(knob, theirs.as_ref());
        written.map_err(|refusal| PutOff::Refused(refusal.reason))?;
    }
    let settled = Held { is_unsettled: false, ..held.clone() };
    // Undoing tells of a journal that can't be written, and goes on.
    let _ = hands.note(Line::Held { knob: knob.clone(), held: settled });
    Ok(conflict(knob, held, theirs.clone()))
}

fn conflict(knob: &Knob, held: &Held, found: Option<Setting>) -> Conflict {
    let wrote = held.ours.last().cloned().flatten();
    Conflict { knob: knob.clone(), had: held.had.clone(), wrote, found }
}

fn forget(hands: &mut Hands<'_>, knob: &Knob) {
    if hands.journal.held(knob).is_some() {
        // Undoing tells of a journal that can't be written, and goes on.
        let _ = hands.note(Line::Undone { knob: knob.clone() });
    }
}

/// Sets again what only other writes reset, until a pass finds nothing more to set. `is_all`: nothing stays in force, so what
/// is gone does not come back by our doing. `stays`: it is held by a wish that stays in force, which may want it as it is.
pub(crate) fn put_back_bystanders(
    hands: &mut Hands<'_>,
    reverted: &mut Reverted,
    is_all: bool,
    stays: &dyn Fn(&Knob) -> bool,
) {
    let bystanders = |hands: &Hands<'_>| {
        hands.journal.bystanders().into_iter().filter(|knob| !stays(knob)).collect::<Vec<_>>()
    };
    let mut refused: Vec<(Knob, String)> = Vec::new();
    let mut theirs: Vec<Knob> = Vec::new();
    for pass in 0.. {
        refused.clear();
        let mut has_written = false;
        for knob in bystanders(hands) {
            let held = hands.journal.held(&knob).expect("a bystander is held").clone();
            let goal = held.goal();
            let found = match hands.there(&knob) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(refusal) => {
                    refused.push((knob, refusal.reason));
                    continue;
                }
            };
            if found == *goal || theirs.contains(&knob) {
                continue;
            }
            if !held.is_ours(&found) {
                hands.tell(Event::Conflict(conflict(&knob, &held, found)));
                theirs.push(knob);
                continue;
            }
            if pass == PASSES_MAX {
                let (goal, found) = (shown(goal), shown(&found));
                let reason = format!("another setting resets it to {found}, and it does not keep {goal}");
                refused.push((knob, reason));
                continue;
            }
            match hands.kernel.write(&knob, goal.as_ref()) {
                Ok(()) => has_written = true,
                Err(refusal) => refused.push((knob, refusal.reason)),
            }
        }
        if !has_written {
            break;
        }
    }
    for knob in bystanders(hands) {
        if refused.iter().any(|(other, _)| *other == knob) {
            continue;
        }
        // One whose queue is gone is set when that comes back with another wish, or with the bare machine.
        if is_all || !matches!(hands.there(&knob), Ok(None)) {
            forget(hands, &knob);
        }
    }
    for (knob, reason) in &refused {
        hands.tell(Event::Refused { knob: knob.clone(), reason: reason.clone() });
    }
    reverted.refused.extend(refused);
}

#[cfg(test)]
mod tests;
