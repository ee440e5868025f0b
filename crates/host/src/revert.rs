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
    if !reverted.is_clean() {
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
mod tests {
    use super::*;
    use crate::Facts;
    use crate::journal::{Memory, Wish};
    use crate::kernel::fake::Fake;

    fn setting(text: &str) -> Option<Setting> {
        Some(Setting::new(text))
    }

    fn write(knob: &str, had: &str, wrote: &str, disturbs: &[(&str, &str)]) -> Line {
        let disturbs = disturbs.iter().map(|(knob, keep)| (Knob::sysctl(knob), setting(keep))).collect();
        Line::Write { knob: Knob::sysctl(knob), had: setting(had), wrote: setting(wrote), disturbs }
    }

    fn done(knob: &str, left: &[(&str, &str)]) -> Line {
        let left = left.iter().map(|(knob, left)| (Knob::sysctl(knob), setting(left))).collect();
        Line::Done { knob: Knob::sysctl(knob), left }
    }

    /// Reverts what these lines tell on a machine where a and b have this; what they have then.
    fn reverted(lines: Vec<Line>, has: [&str; 2]) -> (Reverted, [String; 2]) {
        let (mut kernel, mut journal) = machine(lines, has);
        let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
        let now = ["a", "b"].map(|name| kernel.read(&Knob::sysctl(name)).unwrap().unwrap().to_string());
        (reverted, now)
    }

    /// Somebody had set b to 5 when a write of a, which resets it, was cut short.
    #[test]
    fn what_an_interrupted_write_took_from_somebody_is_given_back() {
        let lines = vec![write("b", "2", "3", &[]), done("b", &[]), write("a", "0", "1", &[("b", "5")])];
        assert_eq!(reverted(lines, ["1", "reset"]).1, ["0", "5"]);
        // Also where it goes back before what had reset it.
        let lines = vec![
            write("a", "0", "1", &[]),
            done("a", &[]),
            write("b", "2", "3", &[]),
            done("b", &[]),
            write("a", "0", "7", &[("b", "5")]),
        ];
        let (reverted, now) = reverted(lines, ["7", "reset"]);
        assert_eq!(now, ["0", "5"]);
        let [conflict] = reverted.conflicts.as_slice() else { panic!("{reverted}") };
        assert_eq!(
            (&conflict.had, &conflict.wrote, &conflict.found),
            (&setting("2"), &setting("3"), &setting("5"))
        );
    }

    /// A machine whose a and b have this, and a journal of these lines.
    fn machine(lines: Vec<Line>, has: [&str; 2]) -> (Fake, Journal) {
        let sysctls = [("a".to_owned(), has[0].to_owned()), ("b".to_owned(), has[1].to_owned())].into();
        let mut journal = Journal::begin(Box::new(Memory::default()), "boot", Wish::default()).unwrap();
        lines.into_iter().for_each(|line| journal.append(line).unwrap());
        (Fake::of(&Facts { sysctls, ..Facts::default() }), journal)
    }

    #[test]
    fn what_is_left_is_no_longer_in_force_and_nobody_has_to_confirm_it() {
        let lines = vec![
            write("a", "0", "1", &[]),
            done("a", &[]),
            Line::Complete { steps: 1 },
            Line::ConfirmBy { deadline_s: 60 },
        ];
        let (mut kernel, mut journal) = machine(lines, ["9", "2"]);
        let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
        assert_eq!((reverted.conflicts.len(), journal.entries().len()), (1, 1));
        assert!(!journal.is_complete());
        assert_eq!(journal.confirmation(99), crate::journal::Confirmation::NotNeeded);
        let reverted = revert(&mut kernel, &mut journal, true, &mut |_| {});
        assert!(reverted.is_clean() && journal.is_over(), "{reverted}");
    }

    #[test]
    fn what_has_its_former_value_again_is_nobodys_conflict() {
        let (mut kernel, mut journal) = machine(vec![write("a", "0", "1", &[]), done("a", &[])], ["5", "2"]);
        let mut hands =
            Hands { kernel: &mut kernel, journal: &mut journal, observer: &mut |_| {}, is_undoing: true };
        // It had 5 by someone else when an apply that is undone now began.
        let back = |to: &str| Back {
            knob: Knob::sysctl("a"),
            had: setting("0"),
            to: setting(to),
            disturbs: Vec::new(),
            is_forgotten: false,
        };
        assert!(put_back(&mut hands, vec![back("5")], false).is_clean());
        assert!(!put_back(&mut hands, vec![back("6")], false).is_clean());
    }

    #[test]
    fn what_was_given_back_is_theirs_to_change() {
        let lines = vec![write("b", "2", "3", &[]), done("b", &[]), write("a", "0", "1", &[("b", "5")])];
        let (mut kernel, mut journal) = machine(lines, ["1", "reset"]);
        revert(&mut kernel, &mut journal, false, &mut |_| {});
        kernel.write(&Knob::sysctl("b"), setting("7").as_ref()).unwrap();
        let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
        assert_eq!(reverted.conflicts.len(), 1, "{reverted}");
        assert_eq!(kernel.read(&Knob::sysctl("b")).unwrap(), setting("7"));
    }

    #[test]
    fn a_process_that_ends_meanwhile_is_told_and_hinders_nothing() {
        let thread = crate::facts::Thread { tid: 8, nice: -5, ..Default::default() };
        let process = crate::facts::Process { pid: 8, start: 1, threads: vec![thread], ..Default::default() };
        let facts = Facts { processes: vec![process], ..Facts::default() };
        let nice: Knob = "process/8@1/8/nice".parse().unwrap();
        let mut ends_count = 0;
        for nth in 0..8 {
            let (_, mut journal) = machine(Vec::new(), ["0", "2"]);
            let mut kernel = Fake::of(&facts);
            kernel.plan_fault(crate::kernel::fake::Fault::Ended { nth, pid: 8 });
            let (had, wrote) = (setting("0"), setting("-5"));
            journal.append(Line::Write { knob: nice.clone(), had, wrote, disturbs: Vec::new() }).unwrap();
            let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
            assert!(reverted.is_clean() && journal.is_over(), "before operation {nth}: {reverted}");
            assert_eq!(reverted.gone.len() + reverted.restored.len(), 1);
            ends_count += reverted.gone.len();
        }
        assert!(ends_count > 2, "{ends_count}");
    }

    #[test]
    fn what_was_reset_along_goes_back_unless_somebody_has_set_it_since() {
        let lines = || vec![write("a", "0", "1", &[("b", "2")]), done("a", &[("b", "reset")])];
        assert_eq!(reverted(lines(), ["1", "reset"]).1, ["0", "2"]);
        assert_eq!(reverted(lines(), ["1", "9"]).1, ["0", "9"], "theirs stays");
    }
}
