//! One change of one knob, as apply and revert both make it: on disk first, then written, read back, and what the kernel reset
//! along with it set again.

use std::fmt;

use crate::journal::{Journal, Line};
use crate::kernel::{Cause, Kernel, Refusal};
use crate::knob::{Knob, NicKnob, Setting};

/// Times that knobs which a write reset are set again before it is said that they don't keep: setting one may reset another.
pub const MEND_PASSES_MAX: usize = 4;

/// What happens while lanes are made or unmade, for whoever watches. As text it is a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A knob is about to be written.
    Write {
        /// Which.
        knob: Knob,
        /// What it has.
        from: Option<Setting>,
        /// What it gets.
        to: Option<Setting>,
    },
    /// It has what is wanted already.
    Same {
        /// Which.
        knob: Knob,
    },
    /// Since the plan was made, someone changed it.
    Changed {
        /// Which.
        knob: Knob,
        /// What it had then.
        planned: Option<Setting>,
        /// What it has.
        found: Option<Setting>,
    },
    /// It was set, and lost it: a later step or someone else set it. It is written once more.
    Lost {
        /// Which.
        knob: Knob,
        /// What it has.
        found: Option<Setting>,
    },
    /// The kernel reset it with another; it was set again.
    Mended {
        /// Which.
        knob: Knob,
        /// The other.
        by: Knob,
        /// What it has again.
        to: Option<Setting>,
    },
    /// What it belongs to is gone.
    Gone {
        /// Which.
        knob: Knob,
    },
    /// Someone else changed it meanwhile: left as it is.
    Conflict(Conflict),
    /// The kernel refuses, or has not done what was asked.
    Refused {
        /// Which.
        knob: Knob,
        /// In words.
        reason: String,
    },
    /// A step failed; what was done before it is undone now.
    Undoing {
        /// The step's knob.
        knob: Knob,
        /// Why.
        reason: String,
    },
    /// The journal can't be written; what is undone is undone all the same.
    NoJournal {
        /// Why.
        reason: String,
    },
}

/// A knob that someone else changed while it was ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which.
    pub knob: Knob,
    /// What it had before lanes were made.
    pub had: Option<Setting>,
    /// What was written.
    pub wrote: Option<Setting>,
    /// What it has.
    pub found: Option<Setting>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (had, wrote, found) = (shown(&self.had), shown(&self.wrote), shown(&self.found));
        write!(f, "{}: had {had}, was set to {wrote}, and has {found} by someone else", self.knob)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Write { knob, from, to } => write!(f, "{knob}: {} -> {}", shown(from), shown(to)),
            Event::Same { knob } => write!(f, "{knob}: as wanted"),
            Event::Changed { knob, planned, found } => {
                write!(f, "{knob}: had {} when this was planned, has {} now", shown(planned), shown(found))
            }
            Event::Lost { knob, found } => write!(f, "{knob}: was set and has {} again", shown(found)),
            Event::Mended { knob, by, to } => write!(f, "{knob}: reset by {by}, again {}", shown(to)),
            Event::Gone { knob } => write!(f, "{knob}: gone, nothing to set"),
            Event::Conflict(conflict) => write!(f, "{conflict}: left so"),
            Event::Refused { knob, reason } => write!(f, "{knob}: {reason}"),
            Event::Undoing { knob, reason } => {
                write!(f, "{knob}: {reason}; what was done before is undone")
            }
            Event::NoJournal { reason } => write!(f, "{reason}; this goes on without it"),
        }
    }
}

/// A value in a sentence.
pub(crate) fn shown(setting: &Option<Setting>) -> String {
    match setting {
        None => "nothing".to_owned(),
        Some(setting) if setting.as_str().is_empty() => "none".to_owned(),
        Some(setting) => format!("'{setting}'"),
    }
}

/// Why a change was not made.
pub(crate) enum Trouble {
    /// The journal can't be written. The knob was not touched.
    Journal(String),
    /// The kernel refuses, or took something else.
    Kernel(Refusal),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Journal(reason) => f.write_str(reason),
            Trouble::Kernel(refusal) => refusal.fmt(f),
        }
    }
}

/// What a change needs.
pub(crate) struct Hands<'a> {
    pub(crate) kernel: &'a mut dyn Kernel,
    pub(crate) journal: &'a mut Journal,
    pub(crate) observer: &'a mut dyn FnMut(&Event),
    /// Whether knobs are put back: then a journal that can't be written is told and hinders nothing.
    pub(crate) is_undoing: bool,
}

/// A change to be made.
pub(crate) struct Change<'a> {
    pub(crate) knob: &'a Knob,
    /// What it had before anything was touched: the journal's, where that knows the knob already.
    pub(crate) had: Option<Setting>,
    pub(crate) from: Option<Setting>,
    pub(crate) to: Option<Setting>,
    /// Knobs that the kernel may reset with it.
    pub(crate) disturbs: Vec<Knob>,
    /// Those among them that are set later, and need not be mended now.
    pub(crate) is_set_later: &'a dyn Fn(&Knob) -> bool,
}

/// What a change did to the knobs beside it.
#[derive(Default)]
pub(crate) struct Beside {
    /// Those that are set later, and what they had.
    pub(crate) deferred: Vec<(Knob, Option<Setting>)>,
    /// Those that could not be set again.
    pub(crate) unmended: Vec<(Knob, String)>,
}

impl Hands<'_> {
    pub(crate) fn tell(&mut self, event: Event) {
        (self.observer)(&event);
    }

    /// Writes a line of the journal, or, while undoing, says that it can't.
    pub(crate) fn note(&mut self, line: Line) -> Result<(), Trouble> {
        match self.journal.append(line) {
            Err(reason) if self.is_undoing => {
                self.tell(Event::NoJournal { reason });
                Ok(())
            }
            noted => noted.map_err(Trouble::Journal),
        }
    }

    /// Makes a change. A knob that has the value already is not written again, but what a write of it may have reset is mended:
    /// so an interrupted change is brought to its end.
    pub(crate) fn change(&mut self, change: Change<'_>) -> Result<Beside, Trouble> {
        let Change { knob, had, from, to, .. } = &change;
        let keeps = self.keeps(&change).map_err(Trouble::Kernel)?;
        let had = self.journal.held(knob).map_or(had, |held| &held.had).clone();
        let write = |wrote: &Option<Setting>, disturbs| Line::Write {
            knob: (*knob).clone(),
            had: had.clone(),
            wrote: wrote.clone(),
            disturbs,
        };
        self.note(write(to, keeps.clone()))?;
        if from != to {
            self.tell(Event::Write { knob: (*knob).clone(), from: from.clone(), to: to.clone() });
            self.kernel.write(knob, to.as_ref()).map_err(Trouble::Kernel)?;
            // What the kernel made of it is not what was asked for, and ours all the same: it must go back.
            if let Ok(found) = self.read(knob)
                && found != *to
                && found != *from
            {
                self.note(write(&found, Vec::new()))?;
            }
        }
        self.expect(knob, to).map_err(Trouble::Kernel)?;
        let mut beside = Beside::default();
        // What someone else set is mended now: afterwards it could not be told from what the kernel left.
        let (deferred, mended): (Vec<_>, Vec<_>) = keeps
            .into_iter()
            .partition(|(other, keep)| (change.is_set_later)(other) && !self.is_foreign(other, keep));
        let mut left = self.mend(knob, &mended, &mut beside).map_err(Trouble::Kernel)?;
        self.expect(knob, to).map_err(Trouble::Kernel)?;
        left.retain(|(other, _)| beside.unmended.iter().all(|(unmended, _)| unmended != other));
        for (other, _) in &deferred {
            left.extend(self.there(other).map_err(Trouble::Kernel)?.map(|found| (other.clone(), found)));
        }
        beside.deferred = deferred;
        self.note(Line::Done { knob: (*knob).clone(), left })?;
        Ok(beside)
    }

    /// The knobs beside, with what each shall have afterwards: what it has, or had before an interrupted write.
    fn keeps(&mut self, change: &Change<'_>) -> Result<Vec<(Knob, Option<Setting>)>, Refusal> {
        let mut keeps = Vec::new();
        for other in change.disturbs.iter().filter(|other| *other != change.knob) {
            let found = self.there(other)?;
            let unsettled = self.journal.held(other).filter(|held| held.is_unsettled);
            let keep = unsettled.map(|held| held.keep.clone()).or(found);
            keeps.extend(keep.map(|keep| (other.clone(), keep)));
        }
        Ok(keeps)
    }

    /// Whether a value that is to be kept is someone else's.
    fn is_foreign(&self, knob: &Knob, keep: &Option<Setting>) -> bool {
        self.journal.held(knob).is_some_and(|held| held.had != *keep && !held.ours.contains(keep))
    }

    /// What a knob has. A thread that does not poll has nothing that could be kept: it comes with another knob, as a queue does.
    pub(crate) fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        match self.kernel.read(knob) {
            Ok(None) if matches!(knob, Knob::Nic { knob: NicKnob::NapiThread(_), .. }) => {
                Err(Refusal::new(Cause::Gone, "no kernel thread polls this queue"))
            }
            found => found,
        }
    }

    /// What a knob has, where there is such a knob.
    pub(crate) fn there(&mut self, knob: &Knob) -> Result<Option<Option<Setting>>, Refusal> {
        match self.read(knob) {
            Ok(found) => Ok(Some(found)),
            Err(refusal) if matches!(refusal.cause, Cause::Gone | Cause::Unsupported) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Reads a knob back.
    fn expect(&mut self, knob: &Knob, wanted: &Option<Setting>) -> Result<(), Refusal> {
        let found = self.read(knob)?;
        if found == *wanted {
            return Ok(());
        }
        Err(Refusal::new(
            Cause::Failed,
            format!("the kernel was asked for {} and has {}", shown(wanted), shown(&found)),
        ))
    }

    /// Sets again what a write of `by` reset, until all of it keeps. Returns what is there then.
    fn mend(
        &mut self,
        by: &Knob,
        keeps: &[(Knob, Option<Setting>)],
        beside: &mut Beside,
    ) -> Result<Vec<(Knob, Option<Setting>)>, Refusal> {
        for pass in 0.. {
            let mut left = Vec::new();
            beside.unmended.clear();
            let mut has_written = false;
            for (other, keep) in keeps {
                let Some(found) = self.there(other)? else { continue };
                left.push((other.clone(), found.clone()));
                if found == *keep {
                    continue;
                }
                let reason = if pass == MEND_PASSES_MAX {
                    format!("{by} resets it to {}, and it does not keep {}", shown(&found), shown(keep))
                } else {
                    match self.kernel.write(other, keep.as_ref()) {
                        Ok(()) => {
                            has_written = true;
                            let (knob, by) = (other.clone(), by.clone());
                            self.tell(Event::Mended { knob, by, to: keep.clone() });
                            continue;
                        }
                        Err(refusal) => format!(
                            "{by} resets it to {}, and it can't be set to {} again: {refusal}",
                            shown(&found),
                            shown(keep)
                        ),
                    }
                };
                beside.unmended.push((other.clone(), reason));
            }
            if !has_written {
                return Ok(left);
            }
        }
        unreachable!("the last pass writes nothing")
    }
}

#[cfg(test)]
mod tests {
    use crate::apply::{Outcome, apply};
    use crate::change::Event;
    use crate::kernel::careless::{Careless, journal, steps, sysctl};
    use crate::plan::Plan;

    /// Applies steps of which the first is said to reset these, to each wish in turn; what was mended meanwhile.
    fn mended(kernel: &mut Careless, wishes: &[&str], disturbs: &[&str]) -> (Outcome, Vec<String>) {
        let (mut journal, mut mended) = (journal(), Vec::new());
        let mut last = None;
        for wish in wishes {
            let mut plan = Plan { steps: steps(wish), ..Plan::default() };
            plan.steps[0].disturbs = disturbs.iter().map(|name| sysctl(name)).collect();
            last = Some(apply(&plan, kernel, &mut journal, &mut |event| {
                if let Event::Mended { knob, .. } = event {
                    mended.push(knob.to_string());
                }
            }));
        }
        (last.expect("there is a wish"), mended)
    }

    #[test]
    fn what_a_later_step_sets_is_not_set_in_between() {
        let mut kernel = Careless::new(&[("a", "b"), ("a", "c")], usize::MAX);
        let (outcome, mended) = mended(&mut kernel, &["a=8 b=7", "a=9 b=6"], &["a", "b", "c"]);
        assert!(matches!(outcome, Outcome::InForce { .. }), "{outcome}");
        // What it had before lanes, and what it has by the former wish, need not be kept.
        assert_eq!((mended, kernel.values().as_str()), (vec!["sysctl/c".to_owned(); 2], "9 6 3"));
    }

    #[test]
    fn what_is_reset_is_set_again_until_it_keeps_or_the_step_fails() {
        let outcome = |resets_left| {
            let mut kernel = Careless::new(&[("a", "b"), ("a", "c"), ("b", "c"), ("c", "b")], resets_left);
            let (outcome, _) = mended(&mut kernel, &["a=8"], &["b", "c"]);
            (outcome, kernel.values())
        };
        // The step takes both, and each of four passes sets both again, of which each takes the other.
        let (in_force, values) = outcome(2 + 3 * 2);
        assert!(matches!(in_force, Outcome::InForce { .. }) && values == "8 2 3", "{in_force}: {values}");
        let (failed, _) = outcome(2 + 4 * 2);
        let Outcome::Failed { reason, .. } = &failed else { panic!("{failed}") };
        assert!(reason.contains("resets it to 'reset', and it does not keep '2'"), "{reason}");
    }

    #[test]
    fn what_is_refused_once_is_set_again_in_the_next_pass() {
        let mut kernel = Careless::new(&[("a", "b"), ("a", "c")], 2);
        kernel.refused_once = Some("2");
        let (outcome, _) = mended(&mut kernel, &["a=8"], &["b", "c"]);
        assert!(matches!(outcome, Outcome::InForce { .. }), "{outcome}");
        assert_eq!(kernel.values(), "8 2 3");
    }
}
