//! Stays, and sets again what was lost.

use std::time::{Duration, Instant};

use host::apply::again;
use host::guard::{Finding, Guard, Notice, fresh};
use host::journal::{Found, Journal, State};
use host::kernel::live::Live;
use host::plan::Step;
use host::watch::Links;

use super::settings::GuardSettings;
use super::wish::Wanted;
use super::{Trouble, machine, say};
use crate::stop::Stop;

/// How often the kernel is asked whether a link has changed, and a signal looked at.
const LOOK: Duration = Duration::from_millis(200);

#[expect(
    clippy::disallowed_methods,
    reason = "a daemon of the machine's edge; what it decides by takes the time as an argument"
)]
pub(super) fn guard(settings: &GuardSettings) -> Result<(), Trouble> {
    let (mut kernel, boot) = machine()?;
    let stop = Stop::at_signals().map_err(Trouble::failed)?;
    let mut links = Links::open().map_err(Trouble::failed)?;
    let mut guard = Guard::default();
    let began = Instant::now();
    // Nothing has to be written to see that nothing is in force.
    say(&format!("guarding the lanes in force every {}\n", humantime::format_duration(settings.every)));
    let mut is_link_changed = false;
    while !stop.is_set() {
        let state = State::lock(&settings.state.state_dir, "guard");
        // Someone applies or reverts: nothing is to be mended in the middle of that.
        if let Ok(state) = state {
            let Found::InForce(mut journal) = state.journal(&boot).map_err(Trouble::failed)? else {
                return Err(Trouble::failed("no lanes are in force: there is nothing to guard"));
            };
            match Wanted::of_journal(&journal) {
                Ok(wanted) => {
                    mend(&wanted, &mut kernel, &mut journal, &mut guard, is_link_changed, began.elapsed())
                }
                // A card that is being reset has no queues for a moment: the next look finds them.
                Err(trouble) => {
                    say(&format!("not looked at this time: {}\n", trouble.problem));
                }
            }
            state.finish(*journal).map_err(Trouble::failed)?;
        }
        let next = Instant::now() + settings.every;
        is_link_changed = false;
        while !stop.is_set() && Instant::now() < next && !is_link_changed {
            std::thread::sleep(LOOK);
            is_link_changed = links.has_changed().map_err(Trouble::failed)?;
        }
    }
    say("the lanes stay in force\n");
    Ok(())
}

/// Compares, says what was lost, and sets it again.
fn mend(
    wanted: &Wanted,
    kernel: &mut Live,
    journal: &mut Journal,
    guard: &mut Guard,
    is_link_changed: bool,
    since: Duration,
) {
    let cards = wanted.plan.lanes.iter().filter(|_| is_link_changed).filter_map(|lane| lane.nic.clone());
    let notices: Vec<Notice> = cards.map(|nic| Notice::Link { nic }).collect();
    let knobs = fresh(&wanted.plan, kernel);
    let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let findings = guard.look(&wanted.plan, journal, &knobs, &notices, &wanted.facts.daemons, now_ms);
    let mut steps: Vec<Step> = Vec::new();
    for finding in findings {
        say(&format!("{finding}\n"));
        if let Finding::Again { step, .. } = finding {
            steps.push(step);
        }
    }
    for (knob, reason) in again(&steps, kernel, journal, &mut |_| {}) {
        say(&format!("{knob}: {reason}\n"));
    }
}
