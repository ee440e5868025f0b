//! Stays, and sets again what was lost.

use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use host::apply::again;
use host::change::Event;
use host::facts::Daemon;
use host::guard::{Finding, Guard, Notice, fresh, take_threads};
use host::journal::{self, Confirmation, Found, Journal, State, Wish, look};
use host::kernel::live::Live;
use host::plan::{Plan, Step};
use host::revert::revert;
use host::watch::{Changed, Links};

use super::settings::GuardSettings;
use super::wish::Wanted;
use super::{Trouble, machine, now_s, say};
use crate::stop::Stop;

/// How often the kernel is asked whether a link has changed, and a signal looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Who waits for a confirmation goes back at the deadline; after so many seconds they are taken for dead.
const OVERDUE_SECONDS: u64 = 3;

#[expect(
    clippy::disallowed_methods,
    reason = "a daemon of the machine's edge; what it decides by takes the time as an argument"
)]
pub(super) fn guard(settings: &GuardSettings) -> Result<(), Trouble> {
    let (kernel, boot) = machine()?;
    let stop = Stop::at_signals().map_err(Trouble::failed)?;
    let mut links = Links::open().map_err(Trouble::failed)?;
    let directory = settings.state.state_dir.clone();
    let mut guarding =
        Guarding { directory, boot, kernel, guard: Guard::default(), kept: None, problem: None };
    let began = Instant::now();
    // What changes while a look takes place is seen by the next.
    let mut changed = None;
    if !guarding.look(&Changed::default(), began.elapsed())? {
        return Err(Trouble::failed("no lanes are in force: there is nothing to guard"));
    }
    tell(&format!("guarding the lanes in force every {}", humantime::format_duration(settings.every)));
    while !stop.is_set() {
        let next = Instant::now() + settings.every;
        while !stop.is_set() && Instant::now() < next && changed.is_none() {
            std::thread::sleep(LOOK.min(settings.every));
            changed = links.changed().map_err(Trouble::failed)?;
        }
        if stop.is_set() {
            break;
        }
        if !guarding.look(&changed.take().unwrap_or_default(), began.elapsed())? {
            tell("the lanes were reverted: there is nothing left to guard");
            return Ok(());
        }
    }
    tell("the lanes stay in force");
    Ok(())
}

fn is_overdue(journal: &Journal) -> bool {
    matches!(journal.confirmation(now_s()), Confirmation::Overdue { since_s } if since_s >= OVERDUE_SECONDS)
}

/// A line with the time before it.
fn tell(text: &str) {
    let when = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(now_s()));
    say(&format!("{when} {text}\n"));
}

struct Guarding {
    directory: PathBuf,
    boot: String,
    kernel: Live,
    guard: Guard,
    kept: Option<Kept>,
    /// Why the wish could not be planned last time.
    problem: Option<String>,
}

/// What is guarded. It is planned when guarding begins and after an apply, not at each look: see [`take_threads`].
struct Kept {
    wish: Wish,
    /// Knobs in the journal; an apply that others made leaves other ones.
    knobs_count: usize,
    plan: Plan,
    daemons: Vec<Daemon>,
}

impl Guarding {
    /// Compares, sets again what was lost, and says so. False: no lanes are in force.
    ///
    /// Who only looks holds nothing: an apply or a revert is never refused because of it.
    fn look(&mut self, changed: &Changed, since: Duration) -> Result<bool, Trouble> {
        let Found::InForce(journal) = look(&self.directory, &self.boot).map_err(Trouble::failed)? else {
            return Ok(false);
        };
        if is_overdue(&journal) {
            self.go_back()?;
            return Ok(true);
        }
        if !journal.is_complete() || !self.keep(&journal) {
            return Ok(true);
        }
        let Some(kept) = &self.kept else { return Ok(true) };
        let cards = kept.plan.lanes.iter().filter_map(|lane| lane.nic.as_ref());
        let cards = cards.filter(|nic| changed.is_any || changed.cards.contains(*nic));
        let notices: Vec<Notice> = cards.map(|nic| Notice::Link { nic: nic.clone() }).collect();
        let knobs = fresh(&kept.plan, &mut self.kernel);
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let findings = self.guard.look(&kept.plan, &journal, &knobs, &notices, &kept.daemons, now_ms);
        let again = findings.iter().filter_map(|finding| match finding {
            Finding::Again { step, .. } => Some(step.clone()),
            _ => None,
        });
        let again: Vec<Step> = again.collect();
        let refused = if again.is_empty() { Vec::new() } else { self.set(&again)? };
        for finding in findings {
            match &finding {
                Finding::Again { step, .. } if refused.iter().any(|(knob, _)| *knob == step.knob) => {}
                _ => tell(&finding.to_string()),
            }
        }
        for (knob, reason) in refused {
            tell(&format!("{knob} was lost and could not be set again: {reason}"));
        }
        Ok(true)
    }

    /// Reverts what nobody has confirmed, in place of whoever waited for that and was killed.
    fn go_back(&mut self) -> Result<(), Trouble> {
        let state = match State::lock(&self.directory, "guard: revert of what nobody confirmed") {
            Ok(state) => state,
            // It is looked at again.
            Err(journal::Trouble::Locked(_)) => return Ok(()),
            Err(trouble) => return Err(Trouble::failed(trouble)),
        };
        let mut journal = match state.journal(&self.boot).map_err(Trouble::failed)? {
            Found::InForce(journal) if is_overdue(&journal) => journal,
            _ => return Ok(()),
        };
        tell("nobody has confirmed, and whoever waited for it is gone: going back");
        let reverted = revert(&mut self.kernel, &mut journal, false, &mut |event| {
            if !matches!(event, Event::Same { .. }) {
                tell(&event.to_string());
            }
        });
        tell(&reverted.to_string());
        state.finish(*journal).map_err(Trouble::failed)?;
        Ok(())
    }

    /// Plans the wish where that has to be done, and looks for new threads. False: it can't be planned, which is said.
    fn keep(&mut self, journal: &Journal) -> bool {
        let knobs_count = journal.entries().len();
        let is_same = |kept: &Kept| kept.wish == *journal.wish() && kept.knobs_count == knobs_count;
        let is_kept = self.kept.as_ref().is_some_and(is_same);
        let now = match Wanted::of_journal(journal) {
            Ok(now) => now,
            // A card that is being reset has no queues for a moment; what it shall have is known.
            Err(_) if is_kept => return true,
            Err(trouble) => {
                if self.problem.as_ref() != Some(&trouble.problem) {
                    tell(&format!("the wish in force can't be planned now: {}", trouble.problem));
                    self.problem = Some(trouble.problem);
                }
                return false;
            }
        };
        self.problem = None;
        let (plan, daemons) = (now.plan, now.facts.daemons);
        match self.kept.as_mut().filter(|_| is_kept) {
            Some(kept) => {
                take_threads(&mut kept.plan, &plan);
                kept.daemons = daemons;
            }
            None => self.kept = Some(Kept { wish: journal.wish().clone(), knobs_count, plan, daemons }),
        }
        true
    }

    /// Sets knobs again; those that could not be, with the reason.
    fn set(&mut self, steps: &[Step]) -> Result<Vec<(host::Knob, String)>, Trouble> {
        let nothing = |steps: &[Step]| {
            let reason = "somebody applies or reverts just now";
            steps.iter().map(|step| (step.knob.clone(), reason.to_owned())).collect()
        };
        let state = match State::lock(&self.directory, "guard") {
            Ok(state) => state,
            Err(journal::Trouble::Locked(_)) => return Ok(nothing(steps)),
            Err(trouble) => return Err(Trouble::failed(trouble)),
        };
        // What was seen may have been the doing of whoever had it before.
        let found = state.journal(&self.boot).map_err(Trouble::failed)?;
        let is_same = |journal: &Journal| self.kept.as_ref().is_some_and(|it| it.wish == *journal.wish());
        let mut journal = match found {
            Found::InForce(journal) if journal.is_complete() && is_same(&journal) => journal,
            _ => return Ok(nothing(steps)),
        };
        let refused = again(steps, &mut self.kernel, &mut journal, &mut |_| {});
        if let Some(kept) = &mut self.kept {
            kept.knobs_count = journal.entries().len();
        }
        state.finish(*journal).map_err(Trouble::failed)?;
        Ok(refused)
    }
}
